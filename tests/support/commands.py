"""The command line, in processes of its own that begin at once: forks of one that has imported everything.

A command's own work takes milliseconds and its imports a second, which a suite that runs hundreds pays hundreds of
times. Each is a process all the same: it has its own folder, environment, files and exit code, and can be killed.
What a start costs, imports, or keeps on disk is tested with ``python -m streamnb``; so are long storms.
Commands that measure are those of `measure`.
"""

from __future__ import annotations

import atexit
import gc
import os
import pkgutil
import subprocess
import sys
import tempfile
import threading
import traceback
from functools import cache
from importlib import import_module
from pathlib import Path

from tests.system.crashes.nursery import Life, Nursery
from tests.system.crashes.zygote import Zygote

PATIENCE = 300  # seconds that a command may take
PROGRAM = "from streamnb.cli import main; sys.exit(main())"


class Process(Life):
    """As `subprocess.Popen` has it."""

    @property
    def name(self):
        return "streamnb " + " ".join(self.order["arguments"])

    @property
    def pid(self):
        self._await(lambda: self._pid is not None, "does not start")
        return self._pid

    @property
    def returncode(self):
        return self.code

    def poll(self):
        return self.code

    def wait(self, timeout=None):
        with self._nursery.news:
            if not self._nursery.news.wait_for(lambda: self.code is not None, timeout):
                raise subprocess.TimeoutExpired(self.order["arguments"], timeout)
        return self.code

    def send_signal(self, number):
        self._send(number)

    def said(self):
        return Path(self.order["err"]).read_text()


@cache
def _nursery():
    return Nursery(Path(__file__), Process)


def close():
    """End what was begun."""
    if _nursery.cache_info().currsize:
        _nursery().close()
        _nursery.cache_clear()


def begin(arguments, *, cwd, out, err, environment=None, first="", given=os.devnull):
    """Start ``streamnb`` in a folder, with files for what it is given and says, and more in its environment.

    What stands in `first` is executed there before, to make a part of it behave otherwise.
    """
    for path in (out, err):
        Path(path).write_bytes(b"")
    return _nursery().start(
        arguments=list(map(str, arguments)),
        cwd=str(Path(cwd or ".").absolute()),
        out=str(out),
        err=str(err),
        environment=os.environ | (environment or {}),
        first=first,
        given=str(given),
    )


def spawn(arguments, *, cwd, out, err, environment=None, first=""):
    """The same as ``python -m streamnb``, which imports for itself."""
    program = (
        ["-c", f"import sys; sys.path[:] = {sys.path}\n{first}\n{PROGRAM}"] if first else ["-m", "streamnb"]
    )
    with Path(out).open("wb") as told, Path(err).open("wb") as said:
        return subprocess.Popen(
            [sys.executable, *program, *map(str, arguments)],
            env=os.environ | (environment or {}),
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            stdout=told,
            stderr=said,
        )


def run(arguments, *, cwd=None, environment=None, given=b""):
    """What `subprocess.run` returns of it; `given` is what stands on its standard input."""
    with tempfile.TemporaryDirectory() as folder:
        out, err, file = (Path(folder) / name for name in ("out", "err", "given"))
        file.write_bytes(given)
        begun = begin(arguments, cwd=cwd, out=out, err=err, environment=environment, given=file)
        code = begun.wait(PATIENCE)
        return subprocess.CompletedProcess(arguments, code, out.read_text(), err.read_text())


# -- in the process that is forked --------------------------------------------------------------------------


class Ready(Zygote):
    """Forks commands."""

    def _be(self, order):
        self._leave()
        os.chdir(order["cwd"])
        self._stand_in(0, order["given"], os.O_RDONLY)
        self._stand_in(1, order["out"], os.O_WRONLY | os.O_APPEND)
        self._stand_in(2, order["err"], os.O_WRONLY | os.O_APPEND)
        os.environ.clear()
        os.environ.update(order["environment"])
        sys.argv[1:] = order["arguments"]
        try:
            exec(order["first"], {"__name__": "__first__"})  # noqa: S102  a test's own
            return self._live()
        except SystemExit as end:
            return end.code or 0
        except BaseException:  # noqa: BLE001  as an interpreter does with what nobody catches
            traceback.print_exc()
            return 1
        finally:
            # To take an interpreter with compiled kernels down costs more than most commands do.
            threading._shutdown()
            atexit._run_exitfuncs()
            for stream in filter(None, (sys.stdout, sys.stderr)):
                stream.flush()

    @staticmethod
    def _stand_in(number, path, mode):
        opened = os.open(path, mode)
        os.dup2(opened, number)
        os.close(opened)


if __name__ == "__main__":
    import kafka  # noqa: F401
    from river import drift  # noqa: F401

    from streamnb import cli, event_logs
    from streamnb.runtime.kernel_warmup import warm
    from tests.benchmarks import measure

    def program():
        return (measure if {*sys.argv[1:2]} & {*measure.COMMANDS} else cli).main()

    for package in (event_logs, cli):
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            import_module(module.name)
    warm()
    gc.freeze()  # or each collection copies all pages of this process
    Ready(program).serve()
