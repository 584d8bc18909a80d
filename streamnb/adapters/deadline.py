"""Ends the wait for a call that may never return."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from streamnb.adapters.meanwhile import meanwhile

__all__ = ["within"]

R = TypeVar("R")


def within(seconds: float, work: Callable[[], R]) -> R:
    """`meanwhile`, for commands that have nobody to show that they are alive."""
    return meanwhile(work, seconds=seconds)
