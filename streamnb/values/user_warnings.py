"""Warnings that point to the line of the user's program that called the package."""

from __future__ import annotations

import sys
import warnings

from streamnb.values.messages import Message

_PACKAGES = f"{__name__.partition('.')[0]}.", "river."


def warn_user(message: Message, category: type[Warning]) -> None:
    """Warn at the first frame outside this package and River: Python shows it once for each such line."""
    warnings.warn(str(message), category, stacklevel=_level_of_user())


def _level_of_user() -> int:
    frame, level = sys._getframe(1), 1  # noqa: SLF001  as `warnings` does
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith(_PACKAGES):
        frame, level = frame.f_back, level + 1
    return level
