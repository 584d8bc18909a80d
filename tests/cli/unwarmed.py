"""Runs commands where no kernel is there yet: forks of one process, each ended by the first kernel that it would compile.

The order, on standard input, is a list of arguments of commands; the answer is [exit code, standard error] of each.
"""

from __future__ import annotations

import json
import os
import pkgutil
import sys
from importlib import import_module
from pathlib import Path

from numba.core import event

TOUCHED = 99


class First(event.Listener):
    def on_start(self, _):
        os._exit(TOUCHED)

    def on_end(self, _):
        pass


def attempt(arguments):
    said = Path("said.txt")
    if not (pid := os.fork()):
        opened = os.open(said, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(opened, 1)
        os.dup2(opened, 2)
        try:
            code = (measure if arguments[0] in measure.COMMANDS else cli).main(arguments)
        except SystemExit as end:
            code = end.code
        sys.stderr.flush()
        os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), said.read_text()


if __name__ == "__main__":
    from streamnb import cli
    from streamnb.cli import commands
    from tests.benchmarks import measure

    for module in pkgutil.iter_modules(commands.__path__):
        import_module(f"{commands.__name__}.{module.name}")
    with event.install_listener("numba:compile", First()):
        answers = list(map(attempt, json.load(sys.stdin)))
    json.dump(answers, sys.stdout)
