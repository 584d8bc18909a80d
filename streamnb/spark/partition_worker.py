"""The work on the records of one partition: arrow batches in, outputs and one partial out.

Each process keeps a replica of the model, which follows the deltas in the folder: no model is sent to it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import product, repeat
from pathlib import Path

import pyarrow as pa

from streamnb.engine.ports import NewRecord, Partition, Record, tuples
from streamnb.errors import JournalError, SnapshotError
from streamnb.models.naive_bayes.partials import Partial, SourceRange, merge_all
from streamnb.runtime import factories
from streamnb.spark.deltas import Deltas, DeltaState, Places

READS = "topic", "partition", "offset", "key", "value", "timestamp"
"""Columns of Spark's Kafka source."""
MAKES = """
    topic string, key binary, value binary, headers array<struct<key: string, value: binary>>, partial binary
"""
"""Columns of the result: the Kafka sink's, and a partial, with its number of refused records as the key."""

_HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
_SCHEMA = pa.schema(
    {
        "topic": pa.string(),
        "key": pa.binary(),
        "value": pa.binary(),
        "headers": _HEADERS,
        "partial": pa.binary(),
    }
)
# Events, and events times classes, which bounds the memory of their predictions.
_MOST_AT_ONCE, _CELLS_AT_ONCE = 10_000, 1 << 21
_replicas: dict[str, DeltaState] = {}  # folder -> replica of this process


@dataclass(frozen=True)
class PartitionTask:
    """One batch, as workers receive it: folder of deltas, number, time and ranges of offsets.

    `now` is when Spark planned the batch, in seconds since the epoch; a repetition has the same time.
    """

    folder: str
    number: int
    now: float
    places: Places

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Predict and learn the records of one partition.

        Raises JournalError for records of another batch.
        """
        learner = replica(self.folder, self.number).learner
        partials: list[Partial] = []
        met: set[str] = set()
        refused, place, begin = 0, Partition("", 0), 0
        at_once = max(1, min(_MOST_AT_ONCE, _CELLS_AT_ONCE // (1 + len(learner.model.classes))))
        for records in _pieces(batches, at_once):
            if not partials:
                place = records[0].partition
                begin = self.places.get(place, (0, 0))[0]
            end = records[-1].offset + 1
            self._check(place, records)
            outputs, partial = learner.learn_partial(records, self.now, self.number - 1, met)
            partials.append(partial._replace(ranges=(SourceRange(str(place), begin, end),)))
            refused += len(records) - [one.topic for one in outputs].count(learner.settings.predictions)
            begin = end
            yield _rows(outputs)
        if partials:
            whole = partials[0] if len(partials) == 1 else merge_all(partials)
            whole = whole._replace(ranges=(SourceRange(str(place), *self.places[place]),))
            yield pa.RecordBatch.from_pylist([{"key": b"%d" % refused, "partial": whole.to_bytes()}], _SCHEMA)

    def _check(self, place: Partition, records: list[Record]) -> None:
        first, past = self.places.get(place, (0, 0))
        offsets = [one.offset for one in records]
        if records[0].partition != place or not first <= min(offsets) <= max(offsets) < past:
            offset = next((one for one in offsets if not first <= one < past), offsets[0])
            raise JournalError(f"{records[0].partition}: offset {offset} is not part of batch {self.number}")


_settled = cache(factories.tune_interpreter)  # once in a process


def replica(folder: str, number: int) -> DeltaState:
    """Return this process's state before a batch. Raises SnapshotError if the folder does not have it."""
    _settled()
    held, deltas = _replicas.pop(folder, None), Deltas(Path(folder))
    if held is None or held.next > number:
        held = deltas.state(number)
    if held is None:
        raise SnapshotError(f"{folder} has no state before batch {number}: do all workers see this folder?")
    _replicas[folder] = found = deltas.followed(held, number)
    return found


def _pieces(batches: Iterator[pa.RecordBatch], most: int) -> Iterator[list[Record]]:
    for batch in batches:
        topics, numbers, offsets, keys, values, times = (batch.column(name) for name in READS)
        places = [
            Partition(*one) for one in product(topics.unique().to_pylist(), numbers.unique().to_pylist())
        ]
        if len(places) > 1:
            raise JournalError(
                f"one task has records of {', '.join(map(str, places))}: leave minPartitions out"
            )
        seconds = (times.cast(pa.int64()).to_numpy() // 1000 / 1000.0).tolist()
        bodies = [value or b"" for value in values.to_pylist()]
        rows = zip(
            repeat(places[0] if places else None),
            offsets.to_pylist(),
            keys.to_pylist(),
            bodies,
            seconds,
            repeat(()),
        )
        records = tuples(Record, rows)
        yield from (records[first : first + most] for first in range(0, len(records), most))


def _rows(outputs: list[NewRecord]) -> pa.RecordBatch:
    n, (topics, keys, values, headers) = len(outputs), zip(*outputs, strict=True)
    told = [[{"key": name, "value": value} for name, value in one] or None for one in headers]
    columns = [
        pa.array(column, field.type) for column, field in zip((topics, keys, values), _SCHEMA, strict=False)
    ]
    columns.append(pa.array(told, _HEADERS) if any(told) else pa.nulls(n, _HEADERS))
    return pa.RecordBatch.from_arrays([*columns, pa.nulls(n, pa.binary())], schema=_SCHEMA)
