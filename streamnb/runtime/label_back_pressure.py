"""Back-pressure on labels: they are not read while too many of them wait for events."""

from __future__ import annotations

import math
import time
from collections.abc import Collection, Mapping

from streamnb.engine.ports import Partition
from streamnb.runtime.record_reader import RecordReader
from streamnb.runtime.worker_context import WorkerContext
from streamnb.values.messages import Message

_PAUSE_AT, _RESUME_AT = 0.5, 0.25  # share of the memory for labels before their events
_LONG_SECONDS = 5.0  # for a partition that lags to stand still
_STUCK_SECONDS = 60.0  # and until labels do not wait for it any more
_LOG_SECONDS = 10.0  # between two lines of why


class StalledPartitions:
    """Partitions that lag and do not move, as behind the open transaction of another producer.

    Invariant: the state has exactly the partitions that lagged at the last `update`, each with its position
    and the time since which it stands there.
    """

    def __init__(self, context: WorkerContext) -> None:
        self._context = context
        self._since: dict[Partition, tuple[int, float]] = {}
        self._logged_at = -math.inf

    def clear(self) -> None:
        """Start to measure again, as after a pause of the loop."""
        self._since = {}

    def stuck(self, now: float) -> Collection[Partition]:
        """Return the partitions that have not moved for so long that labels stop waiting for them."""
        positions = self._context.checkpoint.positions
        return {
            partition
            for partition, (position, since) in self._since.items()
            if now - since >= _STUCK_SECONDS and position == positions.get(partition)
        }

    def update(self, lag: Mapping[Partition, int], now: float) -> None:
        """Measure again, and log the partitions whose records could not be read for a while."""
        at, before = self._context.checkpoint.positions, self._since
        lagging = [partition for partition, records in lag.items() if records and partition in at]
        unmoved = {p for p in lagging if p in before and before[p][0] == at[p]}
        self._since = {p: before[p] if p in unmoved else (at[p], now) for p in lagging}
        long = {p: now - since for p, (_, since) in self._since.items() if now - since >= _LONG_SECONDS}
        if long and now - self._logged_at >= _LOG_SECONDS:
            for line in self._context.log.held_up(long):
                self._logged_at = now
                seconds = max(long.values())
                text = f"waiting for {seconds:.0f} s: {line}"
                self._context.sensor.noted(Message("records-held-up", text, seconds=seconds, reason=line))


class LabelBackPressure:
    """Pause in reading labels, until the events that existed at its beginning are read.

    Labels that are read faster than events would be dropped, like labels of events that never arrive.

    Invariants:

    * A pause ends: it waits for the events that existed when it began, since a continuous stream always has
      later ones, and for no partition that cannot be read.
    * Between two pauses labels are read: a pause begins only if their positions have moved since the last.
    """

    def __init__(self, context: WorkerContext, reader: RecordReader, stalled: StalledPartitions) -> None:
        self._context, self._reader, self._stalled = context, reader, stalled
        self._ends: Mapping[Partition, int] = {}  # ends of the event topics when the pause began
        self._labels_read: Mapping[Partition, int] = {}  # positions of labels when the last pause changed

    @property
    def is_paused(self) -> bool:
        """True while labels are not read."""
        return self._reader.skips_labels

    def update_after_commit(self) -> None:
        """Begin a pause at once if the last commit filled the memory for early labels."""
        late = None if self.is_paused else self._context.learner.late
        if late is not None and late.fullness > _PAUSE_AT:
            self.update(self._reader.lag())

    def update(self, lag: Mapping[Partition, int]) -> None:
        """Begin or end a pause if it is due."""
        late = self._context.learner.late
        if late is None or not self._context.is_restored:
            return
        at, labels = self._context.checkpoint.positions, late.settings.topic
        read = {p: position for p, position in at.items() if p.topic == labels}
        if not self.is_paused:
            if read == self._labels_read:
                return
            self._ends = {p: at[p] + n for p, n in lag.items() if n and p in at and p not in read}
        stuck = self._stalled.stuck(time.monotonic())
        # Transaction markers follow the last record, and do not count as lag.
        is_behind = any(at[p] < end and lag.get(p) for p, end in self._ends.items() if p not in stuck)
        is_due = is_behind and late.fullness > (_RESUME_AT if self.is_paused else _PAUSE_AT)
        if is_due != self.is_paused:
            self._reader.skips_labels, self._labels_read = is_due, read
            self._reader.seek()
