"""The decorator of all kernels, which gives them the same exact arithmetic."""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar, cast

from numba import types
from numba.core.registry import CPUDispatcher

import streamnb.kernels.lazy_blas  # noqa: F401  before numba registers anything
from streamnb.kernels.kernel_cache import KernelCache
from streamnb.kernels.nested_kernels import NestedCompiler, OuterCompiler

P = ParamSpec("P")
R = TypeVar("R")


def kernel(function: Callable[P, R]) -> Callable[P, R]:
    """Compile on first call, without the GIL and without fastmath, and cache the machine code on disk.

    The kernel must not allocate arrays (numba then refuses to compile it), except views of its arguments.
    Therefore it needs no reference counts, which cost an atomic instruction each time that an array is named.

    Without a writable folder, the code is compiled again in every process, which costs seconds and changes
    nothing else.
    """
    return _compiled(function)


def allocating(function: Callable[P, R]) -> Callable[P, R]:
    """Compile a kernel that allocates arrays and counts references: for work not done for each event."""
    return _compiled(function, _nrt=True)


def inlined(function: Callable[P, R]) -> Callable[P, R]:
    """Compile a kernel into its callers: for steps of a few nanoseconds.

    A call passes seven words for each array, and costs some 50 ns with ten of them.
    """
    return _compiled(function, forceinline=True)


def _compiled(function: Callable[P, R], **more: bool) -> Callable[P, R]:
    options = {
        "nopython": True,
        "nogil": True,
        "fastmath": False,
        "error_model": "numpy",
        "_nrt": False,
        **more,
    }
    return cast("Callable[P, R]", _Kernel(function, targetoptions=options))


class _Kernel(CPUDispatcher):  # type: ignore[misc]
    """A kernel that Python may call, and that is compiled into its callers."""

    def __init__(self, function: Callable[..., Any], **options: Any) -> None:
        super().__init__(function, pipeline_class=OuterCompiler, **options)
        self._cache = KernelCache(function)
        self._nested = _Nested(function, pipeline_class=NestedCompiler, **options)

    def compile(self, sig: Any) -> Any:
        """Compile it, or load the cached code; see its base class.

        Garbage collection is off meanwhile: it would traverse all objects of the compiler.
        """
        collects = gc.isenabled()
        gc.disable()
        try:
            return super().compile(sig)
        finally:
            if collects:
                gc.enable()

    def get_call_template(self, args: Any, kws: Any) -> Any:
        """Return the template with which numba types a call by another kernel.

        Literal types are removed: numba would compile the kernel again for each constant argument.
        """
        given = {name: types.unliteral(kind) for name, kind in kws.items()}
        return self._nested.get_call_template(tuple(map(types.unliteral, args)), given)

    def get_overload(self, sig: Any) -> Any:
        return self._nested.get_overload(sig)


class _Nested(CPUDispatcher):  # type: ignore[misc]
    def add_overload(self, cres: Any) -> None:
        """Keep it for kernels; Python cannot call it."""
        self.overloads[tuple(cres.signature.args)] = cres
