"""Loops over whole vectors: numba copies twice when a slice is assigned to a slice."""

from __future__ import annotations

from typing import Any

from streamnb.kernels.jit import inlined


@inlined
def copy_to(target: Any, source: Any) -> None:
    """Assign ``target[:] = source``, for two vectors that do not overlap."""
    for i in range(target.size):
        target[i] = source[i]


@inlined
def fill(target: Any, value: Any) -> None:
    """Assign ``target[:] = value``, for which numba would compile an error message each time."""
    for i in range(target.size):
        target[i] = value


@inlined
def add_to(target: Any, source: Any) -> None:
    """Add ``target += source``, for two vectors that do not overlap."""
    for i in range(target.size):
        target[i] += source[i]


@inlined
def multiply_by(target: Any, factor: float) -> None:
    """Multiply ``target *= factor``."""
    for i in range(target.size):
        target[i] *= factor


@inlined
def count_positive(vector: Any) -> int:
    """Return the number of positive elements."""
    count = 0
    for i in range(vector.size):
        count += vector[i] > 0
    return count
