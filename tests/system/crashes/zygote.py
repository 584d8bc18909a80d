"""Forks processes that run a learner: each begins with everything imported and the kernels ready.

One line of JSON on standard input is the order of one process, see `life`. What becomes of the processes is told
on standard output, a line of JSON each: started, stopped, went on, ended. At the end of the input all are killed.
"""

from __future__ import annotations

import ctypes
import gc
import json
import os
import select
import signal
import sys
import traceback
from pathlib import Path

PR_SET_PDEATHSIG = 1


class Zygote:
    """No thread is ever started in it, as a fork takes only the thread that forks."""

    def __init__(self, live):
        self._live = live
        self._libc = ctypes.CDLL(None)
        self._numbers = {}  # pid -> number of the order
        self._wake, self._awake = os.pipe()
        for end in (self._wake, self._awake):
            os.set_blocking(end, False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(self._awake, warn_on_full_buffer=False)

    def serve(self):
        self._tell(ready=True)
        rest = b""
        while True:
            ready, _, _ = select.select([0, self._wake], [], [])
            if self._wake in ready:
                os.read(self._wake, 4096)
                self._look_after()
            if 0 in ready:
                if not (part := os.read(0, 1 << 16)):
                    break
                *lines, rest = (rest + part).split(b"\n")
                for line in lines:
                    self._fork(json.loads(line))
        for pid in self._numbers:
            os.kill(pid, signal.SIGKILL)

    def _fork(self, order):
        pid = os.fork()
        if not pid:
            os._exit(self._be(order))
        self._numbers[pid] = order["number"]
        self._tell(number=order["number"], started=pid)

    def _be(self, order):
        """In the new process."""
        self._leave()
        with (Path(order["folder"]) / f"{order['name']}.said").open("wb") as said:
            os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
            os.dup2(said.fileno(), 1)
            os.dup2(said.fileno(), 2)
        try:
            return self._live(order)
        except BaseException:  # noqa: BLE001  it must not return into the zygote's loop
            traceback.print_exc()
            return 70
        finally:
            sys.stdout.flush()
            sys.stderr.flush()

    def _leave(self):
        """Nothing of the zygote's own is left in a process that was forked, but that it does not outlive it."""
        self._libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)

    def _look_after(self):
        while self._numbers:
            pid, status = os.waitpid(-1, os.WNOHANG | os.WUNTRACED | os.WCONTINUED)
            if not pid:
                return
            number = self._numbers[pid]
            if os.WIFSTOPPED(status):
                self._tell(number=number, stopped=True)
            elif os.WIFCONTINUED(status):
                self._tell(number=number, stopped=False)
            else:
                del self._numbers[pid]
                self._tell(number=number, ended=os.waitstatus_to_exitcode(status))

    @staticmethod
    def _tell(**event):
        os.write(1, json.dumps(event).encode() + b"\n")


if __name__ == "__main__":
    from streamnb.runtime.kernel_warmup import warm
    from tests.system.crashes.life import live

    warm()
    gc.freeze()  # or each collection copies all pages of this process
    Zygote(live).serve()
