"""Events, errors and scores that the page of an evaluation keeps while events pass, within bounds.

    curves          at most 400 points, evenly spaced, and one for each tenth more events from the first on
    wrong events    the 20 of least probability, each with at most 2,000 characters of its content
    first events    of the first 100 classes
    thresholds      576 counts for each of at most 100 classes, of its events and of all others
    time            of the 20 slowest batches

Altogether it is below 3 MB, however long the stream. Two classes are ranked exactly by the log odds that
`OpenValidation` keeps anyway.
"""

from __future__ import annotations

import heapq
import json
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import msgspec

from streamnb.engine.ports import NewRecord, Record
from streamnb.engine.processing.event_processor import EventProcessor
from streamnb.evaluation.event_input import decoded
from streamnb.events import Drift, MetricsReport, Prediction
from streamnb.features.attributes import TEXT
from streamnb.formats.codec import decode_metrics
from streamnb.scoring.ranking import OpenValidation
from streamnb.scoring.threshold_counts import ThresholdGrid
from streamnb.values.parameter_checks import cut

MOST_AT_ONCE = 1000
"""Records that are processed together, except at the start."""
_POINTS = 400
_WORST, _FIRST, _MARKS = 20, 100, 100
_CONTENT = 2000  # characters
_decode = msgspec.json.Decoder(Prediction).decode


class CurvePoint(NamedTuple):
    """Scores after some records.

    Attributes:
        report: of the learner, without its matrix.
        most_frequent: accuracy so far of the most frequent class; None while it is not known.
        same_as_before: accuracy so far of the label before; None while it is not known.
        log_loss: so far, with the price of new classes; None while it is not known.
    """

    report: MetricsReport
    most_frequent: float | None
    same_as_before: float | None
    log_loss: float | None


class NotedEvent(NamedTuple):
    """A scored event with its content: a text, or else its values."""

    prediction: Prediction
    content: str


class SlowBatch(NamedTuple):
    """Records that were processed together: seconds, first and last row, number, and bytes."""

    seconds: float
    first: int
    last: int
    records: int
    size: int


class PageRecords:
    """Everything that a page needs of the events that passed.

    Args:
        learner: the evaluated learner.
        scores: its scores.

    Attributes:
        start: points from the first event on, each about a tenth of the events after the last.
        points: evenly spaced points.
        firsts: the first event of each class, in order.
        grid: the thresholds of each class.
        drifts: the first that were found.
        n_classes: number of classes in `firsts` and beyond.
    """

    def __init__(self, learner: EventProcessor, scores: OpenValidation) -> None:
        self._learner, self._scores = learner, scores
        self.start: list[CurvePoint] = []
        self.points: list[CurvePoint] = []
        self._every = self._due = self._start_due = 1
        self._worst: list[tuple[float, int, NotedEvent]] = []
        self._slow: list[SlowBatch] = []
        self.firsts: list[NotedEvent] = []
        self.drifts: list[Drift] = []
        self.grid = ThresholdGrid()
        scores.observer = self.grid.add
        self._seen: set[str] = set()
        self._noted = 0
        self._records: Sequence[Record] = ()
        self._times: Counter[str] = Counter()

    def batch_size(self) -> int:
        """Return the number of records to process next: few at the start, as scores change there."""
        return min(MOST_AT_ONCE, 1 + self._learner.consumed // 10)

    @property
    def n_classes(self) -> int:
        """Number of classes that an event has had as its label."""
        return len(self._seen)

    @property
    def worst(self) -> list[NotedEvent]:
        """The labelled events whose label had the least probability, least first."""
        return [one for *_, one in sorted(self._worst, key=lambda entry: entry[:2], reverse=True)]

    @property
    def slow(self) -> list[SlowBatch]:
        """The batches that took most time, longest first."""
        return sorted(self._slow, reverse=True)

    def timed(self, records: Sequence[Record], seconds: float) -> None:
        """Note the time that some records took, before their outputs."""
        self._records = records
        self._times.clear()
        size = sum(len(record.value) for record in records)
        _keep(self._slow, SlowBatch(seconds, records[0].offset, records[-1].offset, len(records), size))
        if self._learner.consumed >= min(self._due, self._start_due):
            self._take_point()

    def _take_point(self) -> None:
        report = self._learner.report(time.time())
        point = self._point(
            msgspec.structs.replace(report, labels=(), confusion=(), class_rates=(), verdicts=None)
        )
        if report.events >= self._start_due:
            self.start.append(point)
            self._start_due = report.events + max(1, report.events // 10)
        if report.events < self._due:
            return
        self.points.append(point)
        if len(self.points) > _POINTS:
            del self.points[::2]
            self._every *= 2
        self._due = report.events + self._every

    def _point(self, report: MetricsReport) -> CurvePoint:
        guesses = None if self._learner.late is not None else self._scores.baselines.scores(0.0)
        if guesses is None:
            return CurvePoint(report, None, None, None)
        return CurvePoint(report, guesses.most_frequent, guesses.same_as_before, self._scores.open_log_loss)

    def finish(self, report: MetricsReport) -> None:
        """Add the last point."""
        for points in (self.start, self.points):
            if points and points[-1].report.events < report.events:
                points.append(self._point(report))

    def note_prediction(self, output: NewRecord) -> None:
        """Note a published prediction."""
        said = _decode(output.value)
        self._times[said.id] += 1
        if said.truth is None:
            return
        self._noted += 1
        if said.truth not in self._seen:
            self._seen.add(said.truth)
            if len(self.firsts) < _FIRST:
                self.firsts.append(NotedEvent(said, self._content(said.id)))
        elif said.label != said.truth:
            surprise = -said.probabilities.get(said.truth, 0.0)
            if len(self._worst) < _WORST or surprise > self._worst[0][0]:
                _keep(self._worst, (surprise, -self._noted, NotedEvent(said, self._content(said.id))))

    def note_metrics(self, output: NewRecord) -> None:
        """Note a record of the topic of metrics, if it is a drift."""
        found = decode_metrics(output.value)
        if isinstance(found, Drift) and len(self.drifts) < _MARKS:
            self.drifts.append(found)

    def _content(self, event_id: str) -> str:
        """Return the text, or else the values, of the event with this id that was noted last."""
        found = list(self._named(event_id))
        n = self._times[event_id]
        x = found[min(n, len(found)) - 1] if found else {}
        texts = [str(value) for name, value in x.items() if name == TEXT]
        text = " ".join(texts) or ", ".join(f"{name}: {_written(value)}" for name, value in x.items())
        return cut(text, _CONTENT)

    def _named(self, event_id: str) -> Iterator[dict[str, Any]]:
        """Yield the attributes of the last records with this id, in order."""
        written = json.dumps(event_id)[1:-1].encode()
        is_plain = event_id.isascii() and len(written) == len(event_id)
        for record in self._records:
            if is_plain and written not in record.value:
                continue
            event = decoded(record.value, self._learner.settings.schema)
            if event is not None and event.id == event_id:
                yield dict(event.x)


def _written(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _keep(heap: list[Any], one: Any) -> None:
    (heapq.heappush if len(heap) < _WORST else heapq.heappushpop)(heap, one)
