"""Latencies from events to predictions: what is sampled, weighed, and left out."""

from __future__ import annotations

import time

import pytest

from streamnb.engine.ports import Partition, Record
from streamnb.errors import OutOfRange
from streamnb.formats.journal_record import JournalRecord, Slice
from streamnb.serving.latency_samples import LatencySamples


def commit(*slices):
    parts = tuple(Slice(topic, 0, first, end, end - first, 0) for topic, first, end in slices)
    return JournalRecord(1, 1, "", "commit", 0.0, parts, {}, "", "")


def journal(at):
    return Record(Partition("journal", 0), 0, None, b"", at)


class Events:
    """A log whose event n has a time of its own, and that counts what is read."""

    def __init__(self, times):
        self.times, self.n_read = times, 0

    def read(self, partition, offset, limit):
        if offset >= len(self.times):
            raise OutOfRange("gone")
        found = self.times[offset : offset + limit]
        self.n_read += len(found)
        return [Record(partition, offset + n, None, b"", at) for n, at in enumerate(found)]


def test_quantiles_are_of_the_times_between_event_and_commit():
    now = time.time()
    samples = LatencySamples(["events"])
    assert samples.quantiles() is None
    log = Events([now - 1.0] * 30 + [now - 5.0])
    samples.note(journal(now), commit(("events", 0, 31)))
    samples.read(log)
    assert samples.quantiles() == pytest.approx((1.0, 5.0))
    assert samples.n_events == 31


def test_labels_old_commits_and_records_of_later_commits_do_not_count():
    now = time.time()
    samples, log = LatencySamples(["events"]), Events([now - 1.0] * 10 + [now - 9.0] * 10)
    samples.note(journal(now), commit(("labels", 0, 20)))
    samples.note(journal(now - 100), commit(("events", 0, 20)))
    samples.read(log)
    assert samples.quantiles() is None
    samples.note(journal(now), commit(("events", 0, 10)))
    samples.read(log)
    assert samples.quantiles() == pytest.approx((1.0, 1.0))


def test_a_clock_ahead_and_a_log_without_times_give_no_odd_numbers():
    now = time.time()
    samples = LatencySamples(["events"])
    samples.note(journal(now), commit(("events", 0, 2), ("events", 2, 4), ("events", 90, 95)))
    samples.read(Events([now + 50, now + 50, 0.0, -1.0]))
    assert samples.quantiles() == (0.0, 0.0)


def test_a_busy_stream_costs_no_more_reads_and_counts_as_whole():
    now = time.time()
    samples, log = LatencySamples(["events"]), Events([now - 2.0] * 200_000)
    for n in range(100):
        samples.note(journal(now), commit(("events", 1000 * n, 1000 * n + 1000)))
    samples.read(log)
    assert log.n_read == 3 * 64
    assert samples.n_events == pytest.approx(100_000, rel=0.01)
    samples.read(log)
    assert log.n_read == 3 * 64  # nothing new
