"""``streamnb run``: the worker, until a signal or the end of the log."""

from __future__ import annotations

import argparse
import os
import signal
import socket
import sys
import time

import msgspec

from streamnb.cli import wiring
from streamnb.cli.tables import print_report
from streamnb.engine.checkpoint import Checkpoint
from streamnb.engine.learner import Learner
from streamnb.errors import NotElected

__all__ = ["run"]


def run(options: argparse.Namespace) -> int:
    """Learn from the log until SIGTERM or SIGINT, or until its end."""
    config = wiring.load_config(options)
    wiring.warm_up()  # before anyone waits for this learner
    learner = wiring.learner(config)
    worker = wiring.worker(config, learner)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: worker.stop())
    try:
        worker.stand_by(f"{socket.gethostname()}:{os.getpid()}", _say_waiting)
        if learner.consumed:
            print(f"recovered {learner.consumed:,} events", file=sys.stderr)
        worker.run(until_end=options.until_end, committed=_Ticker(learner))
    finally:
        worker.close()
    report = learner.report(time.time())
    if options.json:
        print(msgspec.json.encode(report).decode())
    else:
        print_report(report)
    return 0


def _say_waiting(reason: NotElected) -> None:
    print(f"standing by: {reason}", file=sys.stderr)


class _Ticker:
    """Says once a second how it goes, on standard error."""

    def __init__(self, learner: Learner) -> None:
        self._learner = learner
        self._told = time.monotonic()
        self._consumed = learner.consumed

    def __call__(self, checkpoint: Checkpoint) -> None:
        now = time.monotonic()
        if now - self._told < 1.0:
            return
        rate = (self._learner.consumed - self._consumed) / (now - self._told)
        window = self._learner.progressive.window()
        print(
            f"{self._learner.consumed:,} events ({rate:,.0f}/s)  accuracy {window.accuracy:.4f}  "
            f"log loss {window.log_loss:.4f}  dead letters {self._learner.dead_letters}  "
            f"journal {checkpoint.n}",
            file=sys.stderr,
        )
        self._told, self._consumed = now, self._learner.consumed
