"""How long a recovery would take now: what it has to do, and how fast this machine does a part of that."""

from __future__ import annotations

import time
from itertools import islice
from typing import NamedTuple

from streamnb.adapters.snapshot_folder import SnapshotFolder
from streamnb.cli.checks.findings import Finding, Severity
from streamnb.engine.journal.history import entries
from streamnb.engine.journal.replay import SliceReader, replay
from streamnb.engine.learner import Learner
from streamnb.engine.ports import Log, Partition
from streamnb.errors import SnapshotError
from streamnb.model.attributes.parameters import of

_LONG = 60.0  # seconds
_LARGE = 256 << 20  # bytes; of a larger snapshot the time is not tried, but estimated from a smaller one's
_SAMPLE_EVENTS = 2000


class Work(NamedTuple):
    """What a recovery has to do.

    Attributes:
        snapshot_bytes: of the snapshot that it loads.
        commits: that it replays.
        events: in them.
    """

    snapshot_bytes: int
    commits: int
    events: int


class Sample(NamedTuple):
    """How fast it goes here; None where there was nothing to try.

    Attributes:
        bytes_per_second: of loading a snapshot.
        events_per_second: of replaying.
    """

    bytes_per_second: float | None
    events_per_second: float | None


def check_duration(work: Work, sample: Sample) -> Finding:
    """How long it would take."""
    loading = work.snapshot_bytes / sample.bytes_per_second if sample.bytes_per_second else 0.0
    replaying = work.events / sample.events_per_second if sample.events_per_second else 0.0
    seconds = loading + replaying
    parts = []
    if work.snapshot_bytes:
        parts.append(f"{loading:.1f} s for a snapshot of {work.snapshot_bytes / (1 << 20):,.1f} MiB")
    parts.append(f"{replaying:.1f} s for {of(work.events, 'event')} in {of(work.commits, 'commit')} after it")
    found = f"would take about {seconds:.1f} s: {', '.join(parts)}"
    if seconds <= _LONG:
        return Finding("recovery time", Severity.OK, found)
    return Finding(
        "recovery time", Severity.WARNING, found, "lower snapshots.every and snapshots.every_events"
    )


def work_of(log: Log, journal: Partition, start: int, after: int, snapshot_bytes: int) -> Work:
    """What a recovery has to do that begins at this offset of the journal, after record `after`."""
    commits = events = 0
    for entry in entries(log, journal, start):
        if entry.record.n > after and entry.record.slices:
            commits += 1
            events += entry.record.events
    return Work(snapshot_bytes, commits, events)


def sampled(
    log: Log, journal: Partition, start: int, after: int, folder: SnapshotFolder, learner: Learner
) -> Sample:
    """Load a snapshot, and replay the first commits after record `after` with a learner that knows nothing.

    The snapshot is the newest that is not too large and does not stand beyond that record.
    """
    return Sample(_loading(folder, after, learner), _replaying(log, journal, start, after, learner))


def _loading(folder: SnapshotFolder, after: int, learner: Learner) -> float | None:
    small = [entry for entry in folder.list() if entry.size <= _LARGE and entry.n <= after]
    if not small:
        return None
    began = time.monotonic()
    try:
        snapshot = folder.load(small[-1].n)
        learner.load(snapshot.parts, snapshot.segments)
    except SnapshotError:
        return None
    return small[-1].size / (time.monotonic() - began)


def _replaying(log: Log, journal: Partition, start: int, after: int, learner: Learner) -> float | None:
    began, events = time.monotonic(), 0
    slices = SliceReader(log)
    for entry in islice(entries(log, journal, start), 1 if after >= 0 else 0, None):
        if events >= _SAMPLE_EVENTS:
            break
        replay(slices, learner, entry.record, lambda: None)
        events += entry.record.events
    return events / (time.monotonic() - began) if events else None
