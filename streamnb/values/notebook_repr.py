"""Display in a notebook. Models draw nothing: `streamnb.notebook`, imported on first use, makes the HTML."""

from __future__ import annotations

from streamnb.values.hooks import Hooks


class Shown:
    """An object that a notebook displays as a picture if `streamnb.notebook` has one for its type."""

    def _repr_html_(self) -> str:
        return Hooks.html(self)
