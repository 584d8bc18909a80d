"""Progressive validation of a file: each event is predicted before it is learned."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from streamnb.config import Config
from streamnb.engine.ports import NewRecord, Partition, Record
from streamnb.engine.processing.event_processor import EventProcessor
from streamnb.engine.processing.event_stages import PublishPredictions
from streamnb.evaluation.decision_trace import DecisionTrace
from streamnb.evaluation.evaluation_page import EvaluationPage
from streamnb.evaluation.holdout import Row
from streamnb.evaluation.interruption import Interruption, parts_of
from streamnb.evaluation.rejections import RejectionCounts
from streamnb.evaluation.simulated_label_delay import Feedback
from streamnb.events import Drift, Event
from streamnb.features.attributes import some_of
from streamnb.formats.terminal_text import note
from streamnb.reports.text_columns import table
from streamnb.scoring.ranking import OpenValidation
from streamnb.values.messages import Message
from streamnb.values.parameter_checks import pluralize

_BYTES_AT_ONCE = 16 << 20  # limit for outputs


_AT_ONCE = 1000


_FEW = 10  # drifts that are shown


def stop_publishing(learner: EventProcessor) -> None:
    """Let a learner encode no predictions, whose time grows with the classes; nothing else changes.

    Limits that make a dead letter of a large prediction, other than the default, still apply.
    """
    limit = learner.settings.max_bytes
    if not limit or limit >= Config().predictions.max_bytes:
        stages = learner.event_path.stages
        learner.event_path.stages = tuple(one for one in stages if not isinstance(one, PublishPredictions))


def outputs_of(
    learner: EventProcessor,
    rows: Iterable[Row],
    config: Config,
    feedback: Feedback | None = None,
    page: EvaluationPage | None = None,
) -> Iterator[NewRecord]:
    """Yield the learner's outputs for rows, as one partition of an events topic with rows as offsets.

    For a page it processes few records at a time at the start, and measures each batch; the outputs are the
    same.
    """
    partition = Partition(config.topics.events[0], 0)
    now = time.time()
    records: Iterator[Record]
    if feedback is None:
        records = (Record(partition, row, None, raw, 0.0) for row, raw in rows)  # files have no record times
    else:
        records = feedback.records(rows, learner.settings.schema, (partition.topic, config.topics.labels))
    limit = None if page is None else page.batch_size
    for part in parts_of(records, _AT_ONCE, limit):
        left = part
        while left:
            before, began = learner.consumed, time.perf_counter()
            outputs = learner.process(left, now, max_bytes=_BYTES_AT_ONCE)
            taken = learner.consumed - before
            if page is not None:
                page.timed(left[:taken], time.perf_counter() - began)
            yield from outputs
            left = left[taken:]


def train_then_test(
    learner: EventProcessor,
    scores: OpenValidation,
    parts: tuple[Iterable[Row], Iterable[Row]],
    tally: RejectionCounts,
    interruption: Interruption,
    trace: DecisionTrace,
) -> Iterator[NewRecord]:
    """Learn the rows of the first part, prune, then score the rows of the second: no output is published."""
    train, test = parts
    trained: list[Any] = []
    for part in parts_of(interruption.rows(_decoded(learner, train, tally)), _AT_ONCE):
        labels = [event.label for event in part]
        learner.model.learn_many([event.x for event in part], labels, ts=[event.ts for event in part])
        trained += labels
    learner.prune()
    known = {label: k for k, label in enumerate(learner.model.classes)}
    truths = [known[label] for label in trained if label in known]
    scores.baselines.train(np.array(truths, dtype=np.int64))
    unknown = Counter[Any]()
    for part in parts_of(interruption.rows(_decoded(learner, test, tally)), _AT_ONCE):
        said = learner.model.predict_posteriors([event.x for event in part], [event.ts for event in part])
        labels = [event.label for event in part]
        unknown.update(label for label in labels if label is not None and label not in known)
        predicted = learner.pipeline.predict(said, learner.model, truths=labels)
        posteriors, decided = predicted.posteriors, predicted.decisions
        column = {label: k for k, label in enumerate(posteriors.classes)}
        truths = [-1 if label is None else column.get(label, len(column)) for label in labels]
        columns = np.array(truths, dtype=np.int64)
        scores.update_many(posteriors.probabilities, columns, held=posteriors.held)
        if learner.decisions is not None and decided is not None:
            learner.decisions.add(decided, labels)
            trace.add(decided, posteriors.classes, labels)
    if unknown:
        _report_unknown(unknown)
    yield from ()


def _report_unknown(unknown: Counter[Any]) -> None:
    rows, named = pluralize(unknown.total(), "held-out row"), some_of(list(map(repr, unknown)))
    text = f"{rows} with classes that were never learned: {named}; each is predicted wrong. If the rows are "
    text += "sorted, --shuffle divides them at random"
    note(Message("held-out-classes-unknown", text, rows=unknown.total(), labels=[*unknown]))


def _decoded(learner: EventProcessor, rows: Iterable[Row], tally: RejectionCounts) -> Iterator[Event]:
    for row, raw in rows:
        learner.consumed += 1
        event = tally.decode(row, raw)
        if event is None:
            learner.dead_letters += 1
        else:
            yield event


def report_why_nothing_was_learned(
    path: str, config: Config, events: int, dead_letters: int, reasons: str = ", for the reasons below"
) -> None:
    """Print why no event of a file was learned, before other messages about the file."""
    if not events:
        reason = "it holds no event"
    elif dead_letters == events:
        reason = f"each of its records is a dead letter{reasons}"
    else:
        reason = f"no event to learn has a label at {config.events.label}; --set events.label=PATH sets it"
    note(Message("nothing-learned", f"nothing was learned of {path}: {reason}", file=path, reason=reason))


class Drifts:
    """Count of the drifts, and the first few of them."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()
        self._first: list[Drift] = []

    def add(self, record: object) -> None:
        """Add a record of the metrics topic if it is a drift."""
        if isinstance(record, Drift):
            self._counts[record.detector] += 1
            if len(self._first) < _FEW:
                self._first.append(record)

    def rows(self) -> dict[str, Any]:
        """Return the drifts as JSON values."""
        first = [_found(drift) for drift in self._first]
        return {"found": self._counts.total(), "detectors": self._counts, "first": first}

    def print(self) -> None:
        """Print the drifts as a table; event numbers count records of every kind, from 1."""
        counts = ", ".join(f"{name} {count:,}" for name, count in self._counts.items())
        print(f"\n{pluralize(self._counts.total(), 'drift')} found" + (f": {counts}" if counts else ""))
        if rows := [tuple(_found(drift).values()) for drift in self._first]:
            print(table(rows, ("detector", "event", "id", "rests on", "errors", "errors of the last 100")))


def _found(drift: Drift) -> dict[str, str | int | float]:
    return {
        "detector": drift.detector,
        "event": drift.events,
        "id": drift.id,
        "observations": drift.observations,
        "error_rate": drift.error_rate,
        "recent_error_rate": drift.recent_error_rate,
    }
