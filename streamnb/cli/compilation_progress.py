"""Says where kernels are compiled; to load them is no such thing."""

from __future__ import annotations

import sys
from contextlib import AbstractContextManager
from typing import Any

from numba.core import event
from tqdm import tqdm

from streamnb.kernels.kernel_cache import own_folder

_SECONDS = "30 to 80 s"  # for the default model, measured with numba 0.68; a second core does not help


def listening(listener: event.Listener) -> AbstractContextManager[object]:
    """While it lasts, `listener` hears where numba begins and ends to compile a function."""
    return event.install_listener("numba:compile", listener)  # type: ignore[no-any-return]


class Progress(event.Listener):  # type: ignore[misc]
    """A line at the first kernel that is compiled; and while one is, a count, where someone watches.

    A kernel that calls others has them compiled before it ends. What is not ours, nor called by ours, is
    passed over.
    """

    def __init__(self) -> None:
        self._depth = self._done = 0
        self._has_begun = False
        self._bar: Any = None

    def on_start(self, begins: event.Event) -> None:
        """Hear of a function that numba begins with."""
        if self._depth or begins.data["dispatcher"].py_func.__module__.startswith("streamnb."):
            self._depth += 1
            if self._depth == 1:
                self._show()

    def on_end(self, ends: event.Event) -> None:  # noqa: ARG002  whichever it is: they end inside out
        """Hear of one that is done."""
        if self._depth:
            self._depth -= 1
            self._done += 1
            self._bar.update()
            if not self._depth:
                self._bar.close()

    def _show(self) -> None:
        if not self._has_begun:
            self._has_begun = True
            every = "at every start, for no folder can be written; set NUMBA_CACHE_DIR"
            often = "once" if own_folder() else every
            takes = f"{_SECONDS} of processor time, longer on a busy machine"
            print(f"compiling kernels ({often}; {takes})", file=sys.stderr)
        self._bar = tqdm(initial=self._done, unit=" kernels", disable=not sys.stderr.isatty(), leave=False)
