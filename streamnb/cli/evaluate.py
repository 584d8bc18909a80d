"""``streamnb evaluate``: progressive validation of a file, without a log."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from fractions import Fraction
from itertools import islice
from typing import Any, BinaryIO

import msgspec
import numpy as np

from streamnb.adapters.files import read_rows_order
from streamnb.cli import wiring
from streamnb.cli.files import events_of
from streamnb.cli.tables import print_report, table
from streamnb.config import Config
from streamnb.engine.learner import Learner
from streamnb.engine.ports import Partition, Record
from streamnb.errors import ConfigError, MalformedEvent
from streamnb.events import Event
from streamnb.wire.codec import decode_event
from streamnb.wire.snapshot import part_digest

__all__ = ["run"]

_AT_ONCE = 1000


def run(options: argparse.Namespace) -> int:
    """Predict each event of a file, then learn it; or learn one part and score the other."""
    config = wiring.load_config(options)
    is_train = None if options.holdout is None else _holdout(options.holdout)
    wiring.warm_up()
    learner = wiring.learner(config)
    started = time.monotonic()
    with ExitStack() as stack:
        events = _ordered(events_of(options.file), options.order)
        predictions = stack.enter_context(open(options.predictions, "wb")) if options.predictions else None  # noqa: PTH123
        if is_train is None:
            _progressive(learner, events, config, predictions)
        else:
            _train_then_test(learner, list(events), is_train)
    _show(options, learner, time.monotonic() - started)
    return 0


def _progressive(
    learner: Learner, events: Iterable[bytes], config: Config, predictions: BinaryIO | None
) -> None:
    """The events as one partition of the topic of events, through the learner."""
    partition = Partition(config.topics.events, 0)
    now = time.time()
    records = (Record(partition, offset, None, raw, now) for offset, raw in enumerate(events))
    while part := list(islice(records, _AT_ONCE)):
        for output in learner.process(part, now):
            if predictions is not None and output.topic == config.topics.predictions:
                predictions.write(output.value + b"\n")


def _train_then_test(
    learner: Learner, events: Sequence[bytes], is_train: Callable[[int, int, bytes], bool]
) -> None:
    """Learn the training rows, forget what pruning says, then score the others without learning them."""
    split = [is_train(i, len(events), raw) for i, raw in enumerate(events)]
    train = list(_decoded(learner, (raw for raw, first in zip(events, split, strict=True) if first)))
    learner.model.learn_many([event.x for event in train], [event.label for event in train])
    learner.prune()
    test = _decoded(learner, (raw for raw, first in zip(events, split, strict=True) if not first))
    while part := list(islice(test, _AT_ONCE)):
        posteriors = learner.model.predict_posteriors([event.x for event in part])
        column = {label: k for k, label in enumerate(posteriors.classes)}
        truths = [-1 if event.label is None else column.get(event.label, len(column)) for event in part]
        learner.progressive.update_many(posteriors.probabilities, np.array(truths, dtype=np.int64))


def _decoded(learner: Learner, events: Iterable[bytes]) -> Iterator[Event]:
    for raw in events:
        learner.consumed += 1
        try:
            yield decode_event(raw, learner.settings.schema)
        except MalformedEvent:
            learner.dead_letters += 1


def _holdout(text: str) -> Callable[[int, int, bytes], bool]:
    """(row, rows, raw event) -> whether the row is for training."""
    if text == "split":
        return lambda _i, _n, raw: msgspec.json.decode(raw).get("split") == "train"
    try:
        share = Fraction(text)
    except (ValueError, ZeroDivisionError):
        share = Fraction(-1)
    if not 0 < share < 1:
        raise ConfigError(
            f"--holdout: expected `split` or a share between 0 and 1, such as 2/3, got {text!r}"
        )
    return lambda i, n, _raw: i < share * n


def _ordered(events: Iterator[bytes], order: str | None) -> Iterator[bytes]:
    if order is None:
        return events
    rows = list(events)
    numbers = read_rows_order(order)
    if numbers and not 0 <= min(numbers) <= max(numbers) < len(rows):
        raise ConfigError(f"--order: {order} names rows beyond the {len(rows)} of the file")
    return (rows[number] for number in numbers)


def _show(options: argparse.Namespace, learner: Learner, seconds: float) -> None:
    report = learner.report(time.time())
    digest = part_digest(*learner.parts()["model"])
    reliability = learner.progressive.reliability()
    if options.json:
        answer: dict[str, Any] = msgspec.to_builtins(report)
        bins = [{"confidence": c, "accuracy": a, "events": n} for c, a, n in reliability]
        answer |= {"reliability": bins, "seconds": seconds, "model_digest": digest}
        print(msgspec.json.encode(answer).decode())
        return
    print_report(report)
    if reliability:
        print()
        print(table(reliability, ("confidence", "accuracy", "events")))
    print()
    print(f"{report.events / seconds:,.0f} events/s in {seconds:.1f} s; model {digest[:16]}")
