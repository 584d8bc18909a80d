"""``streamnb evaluate``: progressive validation of a file, without a log."""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter, deque
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from itertools import islice
from typing import Any, BinaryIO

import msgspec
import numpy as np

from streamnb.adapters.event_files import read_header
from streamnb.cli import wiring
from streamnb.cli.evaluation.event_files import columns_of, events_of, numbered
from streamnb.cli.evaluation.hidden_labels import run_with_hidden_labels
from streamnb.cli.evaluation.holdout import Row, divide, share_of
from streamnb.cli.evaluation.refusals import Tally
from streamnb.cli.evaluation.user_model import given_model
from streamnb.cli.printable import printable
from streamnb.cli.reports.text_tables import print_report, table
from streamnb.config import Config
from streamnb.engine.learner import Learner
from streamnb.engine.ports import NewRecord, Partition, Record
from streamnb.errors import ConfigError
from streamnb.events import Drift, Event
from streamnb.wire.codec import decode_metrics
from streamnb.wire.event_csv import CsvColumns
from streamnb.wire.snapshot import part_digest

__all__ = ["outputs_of", "run", "say_which_columns"]

_BYTES_AT_ONCE = 16 << 20  # of outputs
_AT_ONCE = 1000
_FEW = 5  # drifts that are shown of the first, and of the last


def run(options: argparse.Namespace) -> int:
    """Predict each event of a file, then learn it; or learn one part and score the other."""
    if options.hide_labels is not None:
        for flag in ("holdout", "predictions", "model"):
            if getattr(options, flag) is not None:
                raise ConfigError(f"--{flag}: not with --hide-labels, which shows three models side by side")
        return run_with_hidden_labels(options)
    config = wiring.load_config(options)
    _say_that_files_have_no_keys(config)
    share = None if options.holdout is None else share_of(options.holdout)
    if options.holdout is not None and options.predictions is not None:
        raise ConfigError("--predictions: are written where every event is learned, not with --holdout")
    learner = wiring.learner(config, None if options.model is None else given_model(options.model))
    tally, drifts = Tally(), _Drifts()
    with ExitStack() as stack:
        predictions = stack.enter_context(open(options.predictions, "wb")) if options.predictions else None  # noqa: PTH123
        wiring.warm_up()
        started = time.monotonic()
        rows = numbered(events_of(options.file, columns_of(options)), options.order)
        if options.holdout is None:
            for output in outputs_of(learner, rows, config):
                _note(output, config, predictions, (tally, drifts))
        else:
            train, test = divide(list(rows), share)
            _train_then_test(learner, train, test, tally)
    _show(options, learner, time.monotonic() - started, (tally, drifts))
    if not (learner.model.n_events or learner.progressive.events):
        say_which_columns(options.file, columns_of(options))
    return 0


def _say_that_files_have_no_keys(config: Config) -> None:
    """Where the model asks for the key of a record: it would be told of no entity."""
    if config.model.reads_entity and not config.events.entity:
        print(
            "streamnb: a file has no keys, so that every event is a sequence by itself; "
            "--set events.entity=PATH says where an event keeps its entity",
            file=sys.stderr,
        )


def outputs_of(learner: Learner, rows: Iterable[Row], config: Config) -> Iterator[NewRecord]:
    """What a learner answers to events that come as one partition of a topic of events, rows as offsets."""
    partition = Partition(config.topics.events[0], 0)
    now = time.time()
    records = (Record(partition, row, None, raw, now) for row, raw in rows)
    while part := list(islice(records, _AT_ONCE)):
        while part:
            before = learner.consumed
            yield from learner.process(part, now, most_bytes=_BYTES_AT_ONCE)
            part = part[learner.consumed - before :]


def _note(
    output: NewRecord, config: Config, predictions: BinaryIO | None, noted: tuple[Tally, _Drifts]
) -> None:
    """Keep what there is to tell of an output."""
    tally, drifts = noted
    if predictions is not None and output.topic == config.topics.predictions:
        predictions.write(output.value + b"\n")
    elif output.topic == config.topics.dead_letters:
        headers = dict(output.headers)
        tally.add(headers["reason"].decode(), headers["path"].decode(), int(headers["offset"]))
    elif config.drift.detectors and output.topic == config.topics.metrics:
        drifts.add(decode_metrics(output.value))


def _train_then_test(learner: Learner, train: Iterable[Row], test: Iterable[Row], tally: Tally) -> None:
    """Learn the training rows, forget what pruning says, then score the others without learning them."""
    events = list(_decoded(learner, train, tally))
    learner.model.learn_many(
        [event.x for event in events],
        [event.label for event in events],
        ts=[event.ts for event in events],
    )
    learner.prune()
    scored = _decoded(learner, test, tally)
    while part := list(islice(scored, _AT_ONCE)):
        posteriors = learner.model.predict_posteriors(
            [event.x for event in part], [event.ts for event in part]
        )
        column = {label: k for k, label in enumerate(posteriors.classes)}
        truths = [-1 if event.label is None else column.get(event.label, len(column)) for event in part]
        learner.progressive.update_many(posteriors.probabilities, np.array(truths, dtype=np.int64))


def _decoded(learner: Learner, rows: Iterable[Row], tally: Tally) -> Iterator[Event]:
    for row, raw in rows:
        learner.consumed += 1
        event = tally.decode(row, raw, learner.settings.schema)
        if event is None:
            learner.dead_letters += 1
        else:
            yield event


def say_which_columns(path: str, columns: CsvColumns) -> None:
    """Of CSV without a label, say which columns there are where the label's is not among them."""
    header = read_header(path, columns)
    if header and columns.label not in header:
        print(
            f"streamnb: {path} has no column {columns.label!r} to learn from; "
            f"--label-column may name one of {printable(', '.join(header))}",
            file=sys.stderr,
        )


class _Drifts:
    """What the drift detectors found: how often, and the first and the last few of it."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()
        self._first: list[Drift] = []
        self._last: deque[Drift] = deque(maxlen=_FEW)

    def add(self, record: object) -> None:
        """Note what the metrics topic got, where it is a drift."""
        if isinstance(record, Drift):
            self._counts[record.detector] += 1
            (self._last if len(self._first) == _FEW else self._first).append(record)

    def rows(self) -> dict[str, Any]:
        """What was found, as JSON has it."""
        first, last = ([_found(drift) for drift in some] for some in (self._first, self._last))
        return {"found": self._counts.total(), "detectors": self._counts, "first": first, "last": last}

    def print(self) -> None:
        """What was found, as a table; the number of an event counts records of every sort, from 1."""
        total = self._counts.total()
        left_out = total - len(self._first) - len(self._last)
        counts = ", ".join(f"{name} {count:,}" for name, count in self._counts.items())
        print(f"\n{total:,} drifts found" + (f": {counts}" if counts else ""))
        if not total:
            return
        rows = [tuple(_found(drift).values()) for drift in self._first]
        rows += [("...", "", "", "", "", "")] if left_out else []
        rows += [tuple(_found(drift).values()) for drift in self._last]
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


def _digest(learner: Learner) -> str:
    """Of all that the model has learned; a classifier that was given need not be able to tell."""
    return part_digest(*learner.parts()["model"])


def _show(
    options: argparse.Namespace, learner: Learner, seconds: float, noted: tuple[Tally, _Drifts]
) -> None:
    tally, drifts = noted
    watched = learner.drift.names and options.holdout is None  # what is held out is not a stream
    report = learner.report(time.time())
    digest = _digest(learner) if options.model is None else None
    if options.json:
        answer: dict[str, Any] = msgspec.to_builtins(report)
        answer["dead_letter_reasons"] = tally.rows()
        if watched:
            answer["drifts"] = drifts.rows()
        answer |= {"seconds": seconds, "model_digest": digest}
        print(msgspec.json.encode(answer).decode())
        return
    print_report(report)
    tally.print()
    if watched:
        drifts.print()
    if report.cumulative.reliability:
        print()
        bins = [(b.confidence, b.accuracy, b.events) for b in report.cumulative.reliability]
        print(table(bins, ("confidence", "accuracy", "events")))
    print()
    print(
        f"{report.events / seconds:,.0f} events/s in {seconds:.1f} s"
        + (f"; model {digest[:16]}" if digest else "")
    )
