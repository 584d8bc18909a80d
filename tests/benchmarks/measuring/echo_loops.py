"""The yardsticks: loops that do all that a learner does with the log, and learn nothing.

Each reads committed records, and at every commit interval, in one transaction, writes one record for each and
its positions. They are as short as such a loop can be. Each runs in a process of its own until it is ended.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from typing import TypeVar

from streamnb.config import Config
from tests.benchmarks.measuring.bare_clients import CLIENTS, Bare

_WAIT_SECONDS = 0.5

R = TypeVar("R")


def paced(
    poll: Callable[[int, float], Sequence[R]],
    most: int,
    interval: float,
    clock: Callable[[], float] = time.monotonic,
) -> Iterator[list[R]]:
    """Batches without end, none empty nor of more than `most` records.

    Each holds what came until `interval` seconds after the last one began.
    """
    began = clock()
    while True:
        records: list[R] = []
        while not records or (len(records) < most and clock() < began + interval):
            wait = max(0.0, began + interval - clock()) if records else _WAIT_SECONDS
            records += poll(most - len(records), wait)
        began = clock()
        yield records


def echo(client: str, bare: Bare) -> None:
    """Answer each record with one that is as long as a prediction, about, and stamped like one."""
    with closing(CLIENTS[client](bare)) as opened:
        for pairs in batches(opened.poll, bare.config):
            now = time.time()
            opened.write([(key, _echoed(value, now)) for key, value in pairs])


def batches(poll: Callable[[int, float], Sequence[R]], config: Config) -> Iterator[list[R]]:
    """What belongs into one commit each, under a configuration."""
    return paced(poll, config.commit.events, config.commit.interval)


def _echoed(event: bytes, now: float) -> bytes:
    return b'{"event":%b,"ts":%b}' % (event, repr(now).encode())
