"""Functions of higher rooms that lower rooms call: writing model files, and HTML for notebooks.

`streamnb/__init__.py`, which is imported before any room, registers them as loaders. So a room is imported
only if its function is called, and no import runs uphill.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol


class ModelFiles(Protocol):
    """The functions of `streamnb.persistence.model_files` that models call."""

    @staticmethod
    def save(model: Any, path: str | Path) -> None:
        """Write a model to a file."""

    @staticmethod
    def digest(model: Any) -> str:
        """Return the SHA-256 of the learned state, in hex."""

    @staticmethod
    def partial_bytes(partial: Any) -> bytes:
        """Return a partial as a snapshot."""

    @staticmethod
    def partial_of(encoded: bytes) -> Any:
        """Return the partial of a snapshot."""


class Hooks:
    """The loaders that `streamnb/__init__.py` registers.

    Attributes:
        model_files: returns `streamnb.persistence.model_files`.
        html: returns the HTML of a value for a notebook.
        public: returns the public definition of a name, or None if `streamnb` does not export it.
    """

    model_files: Callable[[], ModelFiles]
    html: Callable[[object], str]
    public: Callable[[str], Any]


def register(
    model_files: Callable[[], ModelFiles], html: Callable[[object], str], public: Callable[[str], Any]
) -> None:
    """Set the loaders of `Hooks`."""
    Hooks.model_files, Hooks.html, Hooks.public = model_files, html, public


class Shown:
    """An object that a notebook displays as a picture if `streamnb.notebook` has one for its type."""

    def _repr_html_(self) -> str:
        return Hooks.html(self)
