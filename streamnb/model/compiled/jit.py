"""How kernels are compiled: one decorator, so that every kernel has the same exact arithmetic."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, ParamSpec, TypeVar, cast

import numba
from numba.core.registry import CPUDispatcher

from streamnb.model.compiled.nested_kernels import NestedCompiler

__all__ = ["allocating", "inlined", "kernel"]

P = ParamSpec("P")
R = TypeVar("R")


def _cache_folder() -> Path:
    """A folder for this state of the sources alone.

    numba looks whether the file that a kernel stands in has changed, but not those that it calls into: after
    an upgrade it would go on with old machine code.
    """
    here = Path(__file__).parents[1]
    sources = b"".join(path.read_bytes() for path in sorted(here.rglob("*.py")))
    state = hashlib.sha256(sources).hexdigest()[:16]
    return Path(numba.config.CACHE_DIR or here / "__pycache__") / f"kernels-{state}"


_CACHE_FOLDER = str(_cache_folder())


@contextmanager
def _own_cache() -> Iterator[None]:
    """Let numba keep what is decorated now in our folder, and other people's kernels where it always did."""
    before, numba.config.CACHE_DIR = numba.config.CACHE_DIR, _CACHE_FOLDER
    try:
        yield
    finally:
        numba.config.CACHE_DIR = before


def kernel(function: Callable[P, R]) -> Callable[P, R]:
    """Compile on first call, without the GIL and without fastmath, and keep the machine code on disk.

    It must not make arrays (numba refuses to compile it then), but for views of those that it is given. So
    it need not count who refers to an array, which costs an atomic instruction each time that one is named.

    Where no cache folder can be written numba refuses with RuntimeError; then the code is compiled anew in
    every process, which costs seconds and changes nothing else.
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
    compiled = _Kernel(function, targetoptions=options)
    with suppress(RuntimeError), _own_cache():
        compiled.enable_caching()
    return cast("Callable[P, R]", compiled)


class _Kernel(CPUDispatcher):  # type: ignore[misc]
    """A kernel that Python may call, and that is compiled into those that call it."""

    def __init__(self, function: Callable[..., Any], **options: Any) -> None:
        super().__init__(function, **options)
        self._nested = _Nested(function, pipeline_class=NestedCompiler, **options)

    def get_call_template(self, args: Any, kws: Any) -> Any:
        """What numba asks for where a kernel calls this one."""
        return self._nested.get_call_template(args, kws)

    def get_overload(self, sig: Any) -> Any:
        """What numba asks for where a kernel calls this one."""
        return self._nested.get_overload(sig)


class _Nested(CPUDispatcher):  # type: ignore[misc]
    def add_overload(self, cres: Any) -> None:
        """Keep it for kernels; Python cannot call it."""
        self.overloads[tuple(cres.signature.args)] = cres
