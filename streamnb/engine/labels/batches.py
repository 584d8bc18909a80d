"""Batches of predicted events and of label records, and the result of applying label records."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from streamnb.engine.ports import Record
from streamnb.events import Event, LabelRecord
from streamnb.kernels.array_types import Floats, Ints


class EventBatch(NamedTuple):
    """n events that are predicted together.

    Attributes:
        events, records: decoded events, and their log records.
        places: index of each record in the processed batch.
        earliest: float64[n], the watermark's time limit: events recorded before it have expired.
    """

    events: Sequence[Event]
    records: Sequence[Record]
    places: Sequence[int]
    earliest: Floats


class LabelBatch(NamedTuple):
    """n label records in log order.

    Attributes:
        labels, records: decoded label records, and their log records.
        places: index of each record in the processed batch.
        times: float64[n], log timestamps in seconds since the epoch.
        earliest: float64[n], the watermark's time limit: events recorded before it have expired.
    """

    labels: Sequence[LabelRecord]
    records: Sequence[Record]
    places: Sequence[int]
    times: Floats
    earliest: Floats


class LabelColumns(NamedTuple):
    """n label records as columns.

    Attributes:
        sources: int64[n], interned source; `NONE` beyond the maximum number of sources.
        times: float64[n], time of the label in seconds since the epoch.
        partitions: int64[n], interned partition of the record.
        offsets: int64[n], offset of the record.
        labels: a class each, or None.
        weights: float64[n], including the weight of the source.
    """

    sources: Ints
    times: Floats
    partitions: Ints
    offsets: Ints
    labels: Sequence[str | None]
    weights: Floats


class RejectedLabel(NamedTuple):
    """A label record without effect, which must be reported.

    Attributes:
        reason: see `streamnb.events.REASONS`.
        record: the rejected label record.
        place: index in the processed batch of the record that caused the rejection.
    """

    reason: str
    record: Record
    place: int

    @property
    def path(self) -> str:
        """JSON path of the rejected value."""
        return "$.id" if self.reason == "unknown-event" else "$.source"


class FirstLabel(NamedTuple):
    """The first score of an event, possibly long after its prediction.

    Attributes:
        id: of the event.
        label: the resolved label.
        is_right: if the prediction was correct; None if the model was empty.
        confidence: probability of the predicted class.
        age: number of events the model had learned before it predicted.
        place: index of the label record in the processed batch.
    """

    id: str
    label: str
    is_right: bool | None
    confidence: float
    age: int
    place: int


class LabelBatchResult(NamedTuple):
    """Effects of a batch of label records.

    Attributes:
        firsts: events that were scored for the first time, lazily and in several parts.
        refused: rejected label records.
        learned: label -> number of events learned with it.
        small_weights: number of labels whose weight, including the source's, is above 0 and below 1/1024.
    """

    firsts: list[Iterable[FirstLabel]]
    refused: list[RejectedLabel]
    learned: Counter[str]
    small_weights: int = 0
