"""Search for predictions of an id from the end of their topic, without an import of the models."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import NamedTuple

from streamnb.engine.ports import Log, Partition, Record
from streamnb.errors import LogError, MalformedEvent, OutOfRange
from streamnb.events import Event, Prediction
from streamnb.formats.codec import decode_prediction

_FIRST_STEP, _AT_ONCE, _STEP = 100, 1000, 10_000  # records


class PredictionNotFoundError(LogError):
    """No prediction was found."""


class PublishedPrediction(NamedTuple):
    """A prediction, and its record."""

    record: Record
    prediction: Prediction


def records_between(log: Log, partition: Partition, start: int, end: int, at_once: int) -> Iterator[Record]:
    """Yield the records of an offset range, except those that retention removes meanwhile."""
    while start < end:
        try:
            found = log.read(partition, start, at_once)
        except OutOfRange:
            start = max(start + 1, log.offsets(partition)[0])
            continue
        yield from (record for record in found if record.offset < end)
        start = found[-1].offset + 1 if found else end


class PredictionSearch:
    """Search of a topic for the predictions of one model."""

    def __init__(self, log: Log, topic: str, model: str) -> None:
        self._log, self._topic, self._model = log, topic, model

    def newest(self, id_: str, most: int, ts: float | None = None) -> PublishedPrediction:
        """Return the newest prediction of an id, optionally of time `ts`. Raises PredictionNotFoundError."""
        extents = dict(self._log.offset_ranges(self._topic))
        looked, step, total = 0, _FIRST_STEP, sum(end - first for first, end in extents.values())
        while looked < most and any(first < end for first, end in extents.values()):
            found = []
            for partition, (first, end) in extents.items():
                start = max(first, end - min(step, most - looked))
                records = records_between(self._log, partition, start, end, _AT_ONCE)
                ours = [one for record in records if (one := self.read_own(record, id_.encode())) is not None]
                found += [one for one in ours if ts in {None, one.prediction.ts}]
                extents[partition] = first, start
                looked += end - start
            if found:
                return max(found, key=lambda one: (one.prediction.ts, one.record.offset))
            step = min(2 * step, _STEP)
        more = f"of {total:,}: --look-back {total} goes through all"
        if looked >= total:
            more = "all that are kept: it was not predicted yet, or refused, or retention has removed it"
        raise PredictionNotFoundError(
            f"found no prediction of {id_!r} by model {self._model!r} among the newest {looked:,} offsets "
            f"of topic {self._topic!r}, {more}; --place finds an event by its "
            "position, also if events.id has changed since"
        )

    def read_own(self, record: Record, key: bytes) -> PublishedPrediction | None:
        """Return a record's prediction if its key is this one, and the model made it."""
        if record.key != key:
            return None
        with suppress(MalformedEvent):  # written by another program
            found = decode_prediction(record.value)
            return PublishedPrediction(record, found) if found.model.name == self._model else None
        return None

    def has_event(self, id_: str, most: int, topics: Sequence[str], read: Callable[[Record], Event]) -> bool:
        """Return whether an id is among the newest `most` predictions, or the newest thousand events."""
        with suppress(PredictionNotFoundError):
            self.newest(id_, most)
            return True
        return any(
            _has_id(read, record, id_)
            for topic in topics
            for partition, (first, end) in self._log.offset_ranges(topic).items()
            for record in records_between(self._log, partition, max(first, end - _AT_ONCE), end, _AT_ONCE)
        )


def _has_id(read: Callable[[Record], Event], record: Record, id_: str) -> bool:
    with suppress(MalformedEvent):
        return read(record).id == id_
    return False
