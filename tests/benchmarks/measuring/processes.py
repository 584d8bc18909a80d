"""The processes of a measurement: each is started, watched, asked, and ended."""

from __future__ import annotations

import multiprocessing
import os
import runpy
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from streamnb.errors import LogError

_END_SECONDS = 20.0
_TURN_SECONDS = 0.5
_TAIL = 600
_PROCESSES = multiprocessing.get_context("spawn")  # a thread of ours may hold a lock when a fork copies it


class Actor:
    """A process that does one thing until it is ended; what it prints goes to a file.

    Args:
        name: what to call it.
        folder: where the file goes.
        play: a function of a module.
        arguments: its arguments; they go through a pipe, so that nobody reads a password among them.
    """

    def __init__(self, name: str, folder: Path, play: Callable[..., None], *arguments: object) -> None:
        self.name = name
        self._output = folder / f"{name}.out"
        self._process = _PROCESSES.Process(
            target=_play, args=(self._output, play, *arguments), name=name, daemon=True
        )
        self._process.start()

    def check(self) -> None:
        """Raise LogError where it has ended."""
        if not self._process.is_alive():
            said = self._output.read_text(errors="replace") if self._output.exists() else ""
            raise LogError(f"{self.name} has ended: {said[-_TAIL:].strip() or 'it says nothing'}")

    def close(self) -> None:
        """End it, kindly first."""
        self._process.terminate()
        self._process.join(_END_SECONDS)
        if self._process.is_alive():
            self._process.kill()
            self._process.join()


class AnsweringActor(Actor):
    """An actor that answers orders; `play` takes its end of the pipe first. The first answer says: ready."""

    def __init__(self, name: str, folder: Path, play: Callable[..., None], *arguments: object) -> None:
        self._orders, theirs = _PROCESSES.Pipe()
        super().__init__(name, folder, play, theirs, *arguments)
        theirs.close()

    def answer(self, within: float) -> Any:
        """Its next answer. Raises LogError where it ends, or where `within` seconds are over."""
        deadline = time.monotonic() + within
        while not self._orders.poll(_TURN_SECONDS):
            self.check()
            if time.monotonic() > deadline:
                raise LogError(f"{self.name} does not answer")
        try:
            return self._orders.recv()
        except EOFError:
            self._process.join(_END_SECONDS)
            self.check()
            raise

    def ask(self, order: object, within: float) -> Any:
        """Its answer to an order. Raises LogError as `answer` does."""
        self._orders.send(order)
        return self.answer(within)


def learn(arguments: list[str]) -> None:
    """What ``python -m streamnb run`` does."""
    sys.argv[1:] = ["run", *arguments]
    runpy.run_module("streamnb", run_name="__main__")


def _play(output: Path, play: Callable[..., None], *arguments: object) -> None:
    """In the new process: Ctrl-C is the parent's affair, and what is printed goes to the file.

    Told to end, it closes what it has open: a group is not rid of a member that goes without a word.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    threading.Thread(target=_end_with_parent, daemon=True).start()
    descriptor = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.dup2(descriptor, 1)
    os.dup2(descriptor, 2)
    play(*arguments)


def _end_with_parent() -> None:
    """A parent that is killed ends nobody; and nobody is to learn on without it."""
    if parent := multiprocessing.parent_process():
        parent.join()
        os._exit(1)
