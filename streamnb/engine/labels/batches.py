"""Batches of events and of label records as columns, and the result of applying label records.

A batch is made by decoding one run of records. Each stage adds columns to it; no stage removes any.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import repeat
from operator import attrgetter
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from streamnb.engine.labels.source_labels import ResolvedLabel, SourceLabel
from streamnb.engine.ports import NewRecord, Record
from streamnb.events import Attribution, LabelRecord
from streamnb.formats.decoded_events import DecodedEvents
from streamnb.kernels.array_types import Floats, Ints
from streamnb.models.interface.predictions import Posteriors
from streamnb.scoring.decision_rule import DecisionBatch

_UNDECIDED: Mapping[str, Any] = MappingProxyType({})  # without a decision rule
_TIME = attrgetter("timestamp")


def _no_floats() -> Floats:
    return np.zeros(0)


def _no_ints() -> Ints:
    return np.zeros(0, dtype=np.int64)


class PredictedBatch(NamedTuple):
    """Predictions of n events, as they may be published.

    Attributes:
        posteriors: without quarantined classes.
        unseen: float64[n], probability of a class never seen, or quarantined; None if nothing uses it.
        decisions: the decisions; None without a decision rule.
    """

    posteriors: Posteriors
    unseen: Floats | None = None
    decisions: DecisionBatch | None = None

    def decided_fields(self) -> Iterable[Mapping[str, Any]]:
        """Return decision and expected cost of each event; empty without a rule."""
        if self.decisions is None:
            return repeat(_UNDECIDED, len(self.posteriors.known))
        return self.decisions.fields()


NOTHING_PREDICTED = PredictedBatch(Posteriors([], np.zeros((0, 0)), _no_ints()))


@dataclass(slots=True, eq=False)
class EventBatch:
    """n events that are predicted together, as columns.

    Attributes:
        records: log records.
        numbers: number of each record among all that the processor consumed, from 1 on; empty if nothing is
            learned.
        ids, xs, times: id, attributes and time of each event.
        labels, weights: from `JoinLabels` on of the label in force, before it of the label in the event.
        earliest: float64[n], the watermark's time limit: events recorded before it have expired; empty if
            all labels are inside events.
        now: time of the commit.
        journal: record of the unchanged model that predicts; None for a model that learns.

        source_labels, resolved: labels of each event on arrival, and its label in force, if labels may
            arrive separately.
        evidence, priors: attribution of each prediction, and the log odds before its event is read; None if
            they are not published.
        learned_before, classes_before: events learned so far by the processor, and number of classes, before
            the batch.
        ages: events that the model had learned before each event.
        predicted: predictions.
        truths: int64[n], column of each label, -1 without one; empty if labels may arrive separately.
        alerts: index of an event, and an alert on it.
        outputs: records to publish.
    """

    records: Sequence[Record]
    numbers: Sequence[int]
    ids: Sequence[str]
    xs: Sequence[Any]
    times: Sequence[float | None]
    labels: Sequence[str | None]
    weights: Sequence[float]
    earliest: Floats = field(default_factory=_no_floats)
    now: float = 0.0
    journal: int | None = None

    source_labels: Sequence[tuple[SourceLabel, ...]] = ()
    resolved: Sequence[ResolvedLabel | None] = ()
    evidence: Sequence[tuple[Attribution, ...]] | None = None
    priors: Sequence[float | None] | None = None
    learned_before: int = 0
    classes_before: int = 0
    ages: Sequence[int] = ()
    predicted: PredictedBatch = NOTHING_PREDICTED
    truths: Ints = field(default_factory=_no_ints)
    alerts: Sequence[tuple[int, NewRecord]] = ()
    outputs: Sequence[NewRecord] = ()

    @classmethod
    def from_columns(
        cls,
        columns: DecodedEvents,
        records: Sequence[Record],
        numbers: Sequence[int] = (),
        now: float = 0.0,
        journal: int | None = None,
    ) -> EventBatch:
        """Return decoded events as a batch; `records` are all records that were decoded."""
        ids, xs, labels, weights, times, places, _ = columns
        if len(places) < len(records):
            records = [records[place] for place in places]
        return cls(records, numbers, ids, xs, times, labels, weights, now=now, journal=journal)

    def __len__(self) -> int:
        return len(self.ids)

    def part(self, start: int, stop: int) -> EventBatch:
        """Return the events from `start` to `stop`, without the columns of stages."""
        if start == 0 and stop == len(self):
            return self
        rows = slice(start, stop)
        return EventBatch(
            self.records[rows],
            self.numbers[rows],
            self.ids[rows],
            self.xs[rows],
            self.times[rows],
            self.labels[rows],
            self.weights[rows],
            self.earliest[rows],
            self.now,
            self.journal,
        )


@dataclass(slots=True, eq=False)
class LabelBatch:
    """n label records in log order, as columns.

    Attributes:
        records: log records.
        numbers: number of each record among all that the processor consumed, from 1 on.
        ids, labels: id of the event, and a class, or None.
        source_names, given_weights, given_times: source, weight and time, as in the record.
        times: float64[n], log timestamps in seconds since the epoch.
        earliest: float64[n], the watermark's time limit: events recorded before it have expired.
        now: time of the commit.

        sources: int64[n], interned source; `NONE` beyond the maximum number of sources.
        said_at: float64[n], time of the label in seconds since the epoch.
        partitions: int64[n], interned partition of the record.
        offsets: int64[n], offset of the record.
        weights: float64[n], including the weight of the source.
    """

    records: Sequence[Record]
    numbers: Sequence[int]
    ids: Sequence[str]
    labels: Sequence[str | None]
    source_names: Sequence[str]
    given_weights: Sequence[float]
    given_times: Sequence[float | None]
    times: Floats
    earliest: Floats
    now: float = 0.0

    sources: Ints = field(default_factory=_no_ints)
    said_at: Floats = field(default_factory=_no_floats)
    partitions: Ints = field(default_factory=_no_ints)
    offsets: Ints = field(default_factory=_no_ints)
    weights: Floats = field(default_factory=_no_floats)

    @classmethod
    def from_labels(
        cls,
        labels: Sequence[LabelRecord],
        records: Sequence[Record],
        numbers: Sequence[int],
        earliest: Floats,
        now: float,
    ) -> LabelBatch:
        """Return decoded label records as columns."""
        return cls(
            records,
            numbers,
            [one.id for one in labels],
            [one.label for one in labels],
            [one.source for one in labels],
            [one.weight for one in labels],
            [one.ts for one in labels],
            timestamps(records),
            earliest,
            now,
        )

    def __len__(self) -> int:
        return len(self.ids)


def timestamps(records: Sequence[Record]) -> Floats:
    """Return the log timestamps of records, in seconds since the epoch."""
    return np.fromiter(map(_TIME, records), dtype=np.float64, count=len(records))


class RejectedLabel(NamedTuple):
    """A label record without effect, which must be reported.

    Attributes:
        reason: see `streamnb.events.REASONS`.
        record: the rejected label record.
        number: number of the consumed record that caused the rejection.
    """

    reason: str
    record: Record
    number: int

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
        number: number of the consumed label record.
    """

    id: str
    label: str
    is_right: bool | None
    confidence: float
    age: int
    number: int


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
