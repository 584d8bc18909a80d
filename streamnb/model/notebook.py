"""What shows itself in a notebook.

A model draws nothing. The picture is the affair of `streamnb.shown`, which is loaded when something is shown.
"""

from __future__ import annotations

from importlib import import_module


def html(value: object) -> str:
    """What a notebook shows of it."""
    found: str = import_module("streamnb.shown").html(value)
    return found


class Shown:
    """Its last line in a cell is a picture, where that has an HTML form; elsewhere its `repr` is told."""

    def _repr_html_(self) -> str:
        return html(self)
