"""Which kernels are compiled already; and says so where one is compiled, for to load it is no such thing."""

from __future__ import annotations

import importlib
import pkgutil
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, NamedTuple

from numba.core import event
from tqdm import tqdm

from streamnb import model

__all__ = ["Kernel", "Progress", "heard", "kernels"]

_SECONDS = 150  # for all kernels: measured with numba 0.68 on an AMD EPYC; a second core does not help


class Kernel(NamedTuple):
    """One compiled function.

    Attributes:
        source: the file that it stands in.
        cache: the folder that keeps its machine code; None where no folder can be written.
        prefix: of the file in that folder that says what is kept.
    """

    source: Path
    cache: Path | None
    prefix: str

    @property
    def is_kept(self) -> bool:
        """Whether machine code is kept that is not older than the source."""
        found = [] if self.cache is None else list(self.cache.glob(f"{self.prefix}-*.nbi"))
        return any(file.stat().st_mtime >= self.source.stat().st_mtime for file in found)


def kernels() -> Iterator[Kernel]:
    """Every kernel of the model."""
    for module_name in sorted(
        found.name for found in pkgutil.walk_packages(model.__path__, f"{model.__name__}.")
    ):
        module = importlib.import_module(module_name)
        for made in vars(module).values():
            if hasattr(made, "py_func") and made.__module__ == module.__name__:
                cache = made.stats.cache_path
                prefix = f"{module_name.rpartition('.')[2]}.{made.py_func.__qualname__}"
                yield Kernel(Path(made.py_func.__code__.co_filename), cache and Path(cache), prefix)


def heard(told: Callable[[event.Event], None]) -> AbstractContextManager[object]:
    """While it lasts, `told` is called where numba begins and ends to compile a function."""
    return event.install_listener("numba:compile", _Listener(told))  # type: ignore[no-any-return]


class _Listener(event.Listener):  # type: ignore[misc]
    def __init__(self, told: Callable[[event.Event], None]) -> None:
        self._told = told

    def on_start(self, begins: event.Event) -> None:
        self._told(begins)

    def on_end(self, ends: event.Event) -> None:
        self._told(ends)


class Progress:
    """A line at the first kernel that is compiled; and while one is, a bar, where someone watches.

    A kernel that calls others has them compiled before it ends. What is not ours, nor called by ours, is
    passed over.
    """

    def __init__(self) -> None:
        self._depth = 0
        self._has_begun = False
        self._total = 0
        self._cold: set[tuple[Path, str]] = set()  # of those that are not kept
        self._bar: Any = None

    def __call__(self, told: event.Event) -> None:
        """Hear of one function."""
        function = told.data["dispatcher"].py_func
        if told.is_start and (self._depth or function.__module__.startswith("streamnb.")):
            self._depth += 1
            if self._depth == 1:
                self._show()
        elif told.is_end and self._depth:
            self._depth -= 1
            name = f"{function.__module__.rpartition('.')[2]}.{function.__qualname__}"
            self._cold.discard((Path(function.__code__.co_filename), name))
            self._bar.update(self._total - len(self._cold) - self._bar.n)
            if not self._depth:
                self._bar.close()

    def _show(self) -> None:
        if not self._has_begun:
            self._begin()
        done, hidden = self._total - len(self._cold), not sys.stderr.isatty()
        self._bar = tqdm(total=self._total, initial=done, unit=" kernels", disable=hidden, leave=False)

    def _begin(self) -> None:
        """Say what is done, and how long it takes, unknown where all are kept for another machine."""
        self._has_begun = True
        found = list(kernels())
        self._cold = {(kernel.source, kernel.prefix) for kernel in found if not kernel.is_kept}
        self._total = len(self._cold)
        is_kept = all(kernel.cache for kernel in found)
        often = "once" if is_kept else "at every start, for no folder can be written; set NUMBA_CACHE_DIR"
        seconds = _SECONDS * self._total / len(found)
        long = f"; about {seconds:.0f} s for all {self._total} of them" if self._total else ""
        print(f"compiling kernels ({often}{long})", file=sys.stderr)
