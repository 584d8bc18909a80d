"""How kernels are compiled: one decorator, so that every kernel has the same exact arithmetic."""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar, cast

from numba import types
from numba.core.registry import CPUDispatcher

import streamnb.compiler.late_blas  # noqa: F401  before numba registers anything
from streamnb.compiler.kept_code import KeptCode
from streamnb.compiler.nested_kernels import NestedCompiler, OuterCompiler

P = ParamSpec("P")
R = TypeVar("R")


def kernel(function: Callable[P, R]) -> Callable[P, R]:
    """Compile on first call, without the GIL and without fastmath, and keep the machine code on disk.

    It must not make arrays (numba refuses to compile it then), but for views of those that it is given. So
    it need not count who refers to an array, which costs an atomic instruction each time that one is named.

    Where no folder can be written the code is compiled anew in every process, which costs seconds and changes
    nothing else.
    """
    return _compiled(function)


def allocating(function: Callable[P, R]) -> Callable[P, R]:
    """A kernel that makes arrays, and counts who refers to them: for what is not done for each event."""
    return _compiled(function, _nrt=True)


def inlined(function: Callable[P, R]) -> Callable[P, R]:
    """A kernel that is compiled into those that call it: for steps of a few nanoseconds.

    A call hands over seven words for each array, and costs some 50 ns with ten of them.
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
    """A kernel that Python may call, and that is compiled into those that call it."""

    def __init__(self, function: Callable[..., Any], **options: Any) -> None:
        super().__init__(function, pipeline_class=OuterCompiler, **options)
        self._cache = KeptCode(function)
        self._nested = _Nested(function, pipeline_class=NestedCompiler, **options)

    def compile(self, sig: Any) -> Any:
        """Compile it, or load what is kept; see its base class.

        Meanwhile Python does not look for garbage: it would go through all that the compiler holds.
        """
        collects = gc.isenabled()
        gc.disable()
        try:
            return super().compile(sig)
        finally:
            if collects:
                gc.enable()

    def get_call_template(self, args: Any, kws: Any) -> Any:
        """What numba asks for where a kernel calls this one.

        It would compile it once more for each constant that it is called with.
        """
        given = {name: types.unliteral(kind) for name, kind in kws.items()}
        return self._nested.get_call_template(tuple(map(types.unliteral, args)), given)

    def get_overload(self, sig: Any) -> Any:
        """What numba asks for where a kernel calls this one."""
        return self._nested.get_overload(sig)


class _Nested(CPUDispatcher):  # type: ignore[misc]
    def add_overload(self, cres: Any) -> None:
        """Keep it for kernels; Python cannot call it."""
        self.overloads[tuple(cres.signature.args)] = cres
