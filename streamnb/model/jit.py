"""How kernels are compiled: one decorator, so that every kernel has the same exact arithmetic."""

from __future__ import annotations

from collections.abc import Callable
from typing import ParamSpec, TypeVar

import numba

__all__ = ["kernel"]

P = ParamSpec("P")
R = TypeVar("R")


def kernel(function: Callable[P, R]) -> Callable[P, R]:
    """Compile on first call, without the GIL and without fastmath, and keep the machine code on disk.

    Where no cache folder can be written numba refuses with RuntimeError; then the code is compiled anew in
    every process, which costs seconds and changes nothing else.
    """
    options = {"nogil": True, "fastmath": False, "error_model": "numpy"}
    try:
        compiled: Callable[P, R] = numba.njit(cache=True, **options)(function)
    except RuntimeError:
        compiled = numba.njit(**options)(function)
    return compiled
