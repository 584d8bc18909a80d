"""Drift of attributes over windows of the log, read on demand: the learner does nothing for it."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Iterator
from typing import NamedTuple

from streamnb.config import Config
from streamnb.engine.ports import Log, Partition, Record
from streamnb.errors import OutOfRange
from streamnb.events import Event
from streamnb.features.attributes import TEXT
from streamnb.features.character_table import normalized
from streamnb.features.plain_words import plain_words
from streamnb.formats.codec import decode_events
from streamnb.runtime import context
from streamnb.runtime.log_follower import LogThread
from streamnb.scoring.attribute_drift import AttributeDrift, AttributeSample, Value, attribute_drift
from streamnb.serving.report_history import RANGES, offset_since

LABEL = "(label in the event)"
"""Name of the label among the attributes: if it drifts, too, the mix of classes has changed."""
WINDOW_EVENTS = 500
_MOST_WINDOWS, _LEAST_OF_PARTITION = 16, 20
_KEPT_SECONDS, _READ_SECONDS, _ANSWER_SECONDS = 30.0, 3.0, 8.0
_TEXT_CHARACTERS, _VALUE_CHARACTERS = 1000, 100


class DriftTable(NamedTuple):
    """The drift of attributes in one range of time.

    Attributes:
        drift: None if there are fewer than two windows, or not all have been read.
        n_reference: number of windows that are the reference, the oldest ones.
        n_windows: number of windows in all.
        step: records from the beginning of a window to the next, of the partition that has most.
        is_loading: True if samples are still being read.
    """

    drift: AttributeDrift | None
    n_reference: int = 0
    n_windows: int = 0
    step: int = 0
    is_loading: bool = False


class DriftWindows:
    """Samples of windows, at offsets that do not depend on when they are read.

    The width of windows is a power of two times the size of a sample, so that a range has 7 to 16 of them if
    it has that many samples. A window begins at a multiple of its width, and its first events are the sample.
    So every page shows the same table, which takes as long for ten thousand events as for ten million.

    Args:
        config: the learner's configuration.
    """

    def __init__(self, config: Config) -> None:
        self._topics, self._schema = config.topics.events, context.schema(config)
        self._log = LogThread(config, "driftwindows", _ANSWER_SECONDS)
        self._texts = {one.name for one in self._schema.attributes if one.kind == "text"}
        self._texts |= {TEXT} if self._schema.open_features else set()
        self._samples: OrderedDict[tuple[Partition, int, int], AttributeSample] = OrderedDict()
        self._made: dict[str, tuple[float, DriftTable]] = {}  # range -> when, and its table

    def table(self, range_: str) -> DriftTable:
        """Return the drift in a range, a key of `RANGES`, at most half a minute old. Raises StreamnbError."""
        return self._log.answer(lambda log: self._table(log, range_))

    def close(self) -> None:
        """Read no more."""
        self._log.close()

    def _table(self, log: Log, range_: str) -> DriftTable:
        made, found = self._made.get(range_, (0.0, None))
        if found is None or time.monotonic() > made + _KEPT_SECONDS:
            found = self._read(log, RANGES[range_])
            if not found.is_loading:
                self._made[range_] = time.monotonic(), found
        return found

    def _read(self, log: Log, seconds: float | None) -> DriftTable:
        ends = {one: ends for topic in self._topics for one, ends in log.offset_ranges(topic).items()}
        size = max(_LEAST_OF_PARTITION, WINDOW_EVENTS // max(1, len(ends)))
        by_partition: dict[Partition, range] = {}
        for partition, (first, end) in ends.items():
            start = first if seconds is None else _since(log, partition, first, end, time.time() - seconds)
            if len(starts := window_starts(start, end, size)) > 1:
                by_partition[partition] = starts
        n = min((len(starts) for starts in by_partition.values()), default=0)
        if not n:
            return DriftTable(None)
        step = max(starts.step for starts in by_partition.values())
        deadline, windows = time.monotonic() + _READ_SECONDS, []
        for place in range(-n, 0):
            windows.append(AttributeSample())
            for partition, starts in by_partition.items():
                if time.monotonic() > deadline:
                    return DriftTable(None, n // 2, n, step, is_loading=True)
                windows[-1].merge(self._sample(log, partition, starts[place], size))
        while len(self._samples) > 2 * _MOST_WINDOWS * len(ends):
            self._samples.popitem(last=False)
        reference = AttributeSample()
        for one in windows[: n // 2]:
            reference.merge(one)
        return DriftTable(attribute_drift(reference, windows[n // 2 :]), n // 2, n, step)

    def _sample(self, log: Log, partition: Partition, start: int, size: int) -> AttributeSample:
        """Return the sample of the window that begins at an offset, and keep it."""
        key = partition, start, size
        if key not in self._samples:
            made = AttributeSample()
            for event in self._events(log, partition, start, size):
                made.update(dict(self._values(event)))
            self._samples[key] = made
        self._samples.move_to_end(key)
        return self._samples[key]

    def _events(self, log: Log, partition: Partition, start: int, size: int) -> Iterator[Event]:
        records: list[Record] = []
        try:
            while len(records) < size and (more := log.read(partition, start, size - len(records))):
                records += more  # a broker answers in parts
                start = more[-1].offset + 1
        except OutOfRange:  # retention has just removed them
            return
        raws, keys = [one.value for one in records], [one.key for one in records]
        times = [one.timestamp for one in records]
        for event in decode_events(raws, self._schema, keys, times).events():
            if isinstance(event, Event):
                yield event

    def _values(self, event: Event) -> Iterator[tuple[str, Value]]:
        for name, value in event.x.items():
            if isinstance(value, str) and name in self._texts:
                words = plain_words(normalized(value[:_TEXT_CHARACTERS]))
                yield name, [word[:_VALUE_CHARACTERS] for word in words]
            elif isinstance(value, float):
                yield name, value
            else:
                yield name, [str(value)[:_VALUE_CHARACTERS]]
        if event.label is not None:
            yield LABEL, [event.label[:_VALUE_CHARACTERS]]


def window_starts(start: int, end: int, size: int) -> range:
    """Return the offsets at which whole samples begin, at most 16, between two offsets."""
    width = size
    while end - start > _MOST_WINDOWS * width:
        width *= 2
    return range(-(-start // width) * width, end - size + 1, width)


def _since(log: Log, partition: Partition, first: int, end: int, ts: float) -> int:
    steps = offset_since(log, partition, first, end, ts)
    while True:
        try:
            next(steps)
        except StopIteration as found:
            return int(found.value)
