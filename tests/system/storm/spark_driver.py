"""The driver of `streamnb.spark`, which dies where it is told: DIES=written:N or unwritten:N, of batch N.

With NUMBERS=ignored it is everybody's first attempt, which adds whatever batch comes: by its number and by its places a
batch that comes again would be found, so both are forgotten.
"""

from __future__ import annotations

import os
import signal
import sys

from streamnb.spark.deltas import Deltas
from streamnb.spark.job import main

when, _, number = os.environ.get("DIES", "").partition(":")
advance, forgets = Deltas.advance, os.environ.get("NUMBERS") == "ignored"


def advance_and_die(self, state, partials, places):
    is_last = bool(number) and state.next == int(number)
    if is_last and when == "unwritten":
        os.kill(os.getpid(), signal.SIGKILL)
    if forgets:
        partials, places = [one._replace(ranges=()) for one in partials], {}
    after = advance(self, state, partials, places)
    if is_last:
        os.kill(os.getpid(), signal.SIGKILL)
    return after


if __name__ == "__main__":
    Deltas.advance = advance_and_die
    if forgets:
        Deltas.is_learned = lambda *_: False
    sys.exit(main())
