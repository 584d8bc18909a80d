"""Progress of kernel compilation; loading cached kernels is not reported."""

from __future__ import annotations

import sys
from contextlib import AbstractContextManager
from typing import Any

from numba.core import event
from tqdm import tqdm

from streamnb.formats.terminal_text import emit
from streamnb.kernels.kernel_cache import own_folder
from streamnb.values.messages import Message

_SECONDS = "30 to 80 s"  # for the default model, measured with numba 0.68; a second core does not help


def listening(listener: event.Listener) -> AbstractContextManager[object]:
    """Notify `listener` of each function that numba compiles, while the context lasts."""
    return event.install_listener("numba:compile", listener)  # type: ignore[no-any-return]


class Progress(event.Listener):  # type: ignore[misc]
    """A line at the first compiled kernel and, on a terminal, a running count.

    Compilations nest: a kernel compiles the functions it calls. Functions of other packages are ignored
    unless a kernel calls them.
    """

    def __init__(self) -> None:
        self._depth = self._done = 0
        self._has_begun = False
        self._bar: Any = None

    def on_start(self, begins: event.Event) -> None:
        """Count the depth of nested compilations."""
        if self._depth or begins.data["dispatcher"].py_func.__module__.startswith("streamnb."):
            self._depth += 1
            if self._depth == 1:
                self._show()

    def on_end(self, ends: event.Event) -> None:  # noqa: ARG002  compilations end inside out
        """Count a compiled function."""
        if self._depth:
            self._depth -= 1
            self._done += 1
            self._bar.update()
            if not self._depth:
                self._bar.close()

    def _show(self) -> None:
        if not self._has_begun:
            self._has_begun = True
            every = "at every start: no cache folder is writable; set NUMBA_CACHE_DIR"
            often = "once" if own_folder() else every
            takes = f"{_SECONDS} of processor time, longer on a busy machine"
            emit(Message("kernels-compile", f"compiling kernels ({often}; {takes})"))
        self._bar = tqdm(initial=self._done, unit=" kernels", disable=not sys.stderr.isatty(), leave=False)
