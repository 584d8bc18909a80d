"""What kernels do with whole vectors, element by element: a slice assigned to a slice is copied twice."""

from __future__ import annotations

from typing import Any

from streamnb.model.compiled.jit import inlined


@inlined
def copy_to(target: Any, source: Any) -> None:
    """``target[:] = source`` of two vectors that do not overlap."""
    for i in range(target.size):
        target[i] = source[i]


@inlined
def fill(target: Any, value: Any) -> None:
    """``target[:] = value`` of a vector; for each of these numba compiles an error message."""
    for i in range(target.size):
        target[i] = value


@inlined
def add_to(target: Any, source: Any) -> None:
    """``target += source`` of two vectors that do not overlap."""
    for i in range(target.size):
        target[i] += source[i]


@inlined
def multiply_by(target: Any, factor: float) -> None:
    """``target *= factor``."""
    for i in range(target.size):
        target[i] *= factor


@inlined
def count_positive(vector: Any) -> int:
    """How many elements are above zero."""
    count = 0
    for i in range(vector.size):
        count += vector[i] > 0
    return count
