"""What shows itself in a notebook.

A model draws nothing. The picture is the affair of `streamnb.notebook`, which is loaded when something is
shown.
"""

from __future__ import annotations

from streamnb.values.hooks import Hooks


class Shown:
    """Its last line in a cell is a picture, where that has an HTML form; elsewhere its `repr` is told."""

    def _repr_html_(self) -> str:
        return Hooks.html(self)
