"""``streamnb evaluate --hide-labels``: what events without a label would teach, on a file that has labels.

The labels of a share of the events are hidden from learning, and scored all the same. Beside the mixture that
the service would run stand the two models that it weighs: one that learns from the labels that are left, and
one that is taught by the other events as well.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
import numpy as np

from streamnb.cli import wiring
from streamnb.cli.evaluation.event_files import begun, columns_of, events_of, numbered, origin_of
from streamnb.cli.evaluation.label_groups import with_groups
from streamnb.cli.evaluation.odd_fields import OddFields
from streamnb.cli.evaluation.progressive import say_why_nothing_was_learned
from streamnb.cli.evaluation.refusals import Tally
from streamnb.cli.reports.text_tables import print_posterior, table
from streamnb.config import CLASSIFIERS
from streamnb.config.models import model as configured_model
from streamnb.engine.reports import posterior_report
from streamnb.errors import ConfigError
from streamnb.events import Event, PosteriorReport, Scores
from streamnb.model.attributes.parameters import of
from streamnb.model.evaluation.progressive import ProgressiveValidation
from streamnb.model.interface.river_classifier import answer_of, teach_one
from streamnb.model.interface.river_stream_model import RiverStreamModel
from streamnb.model.numerics.counter_rng import uniforms

_AT_ONCE = 1000
_TAUGHT_BY_ALL = ("model.kind=semi_supervised", "hypotheses=[]")
"""Over whatever kind is configured."""
_OF_OTHER_KINDS = {
    f"model.{name}" for kind, made in CLASSIFIERS.items() if kind != "semi_supervised" for name in made.own
} | {"events.entity"}


class _Scored(msgspec.Struct, frozen=True):
    """How one model predicted, over all labelled events, hidden or not."""

    taught_by: str
    accuracy: float
    log_loss: float
    macro_f1: float
    calibration_error: float


class _Answer(msgspec.Struct, frozen=True):
    """What was found; `gained` is how much less the second model lost than the first, in nats an event."""

    share: float
    seed: int
    events: int
    scored: int
    hidden: int
    variants: tuple[_Scored, ...]
    gained: float
    posterior: PosteriorReport | None
    dead_letter_reasons: Any


def share_hidden(text: str) -> float:
    """A share between 0 and 1, both excluded. Raises ConfigError."""
    try:
        share = float(text)
    except ValueError:
        share = -1.0
    if not 0.0 < share < 1.0:
        raise ConfigError(f"--hide-labels is {text!r}; expected a number between 0 and 1, both excluded")
    return share


def run_with_hidden_labels(options: argparse.Namespace) -> int:
    """Predict each event by all three models, then let them learn it, with its label or without."""
    share = share_hidden(options.hide_labels)
    config = wiring.load_config(options, *_TAUGHT_BY_ALL, without=_OF_OTHER_KINDS)
    model, tally = configured_model(config), Tally()
    assert isinstance(model, RiverStreamModel)  # noqa: S101  the kind says so
    events = events_of(options.file, columns_of(options, wiring.schema(config), learns=True))
    events = with_groups(events, options, config.events.label)
    schema = wiring.schema(config)
    odd = OddFields(schema, origin_of(options.file), expects_label=True)
    rows = begun(odd.watched(numbered(events, options.order)))
    wiring.warm_up(config)
    judged = _Judged(model.classifier, options.seed, share)
    read = 0
    for read, (row, raw) in enumerate(rows, 1):  # noqa: B007
        event = tally.decode(row, raw, schema)
        if event is not None:
            judged.take(event)
    answer = judged.answer(posterior_report(model), tally)
    if not answer.scored:
        say_why_nothing_was_learned(options.file, config, read, read - answer.events)
    odd.say(is_over=True)
    print(msgspec.json.encode(answer).decode()) if options.json else _show(answer, tally)
    return 0 if answer.scored else 1


class _Judged:
    """The models that a mixture weighs, and itself, scored on the way."""

    def __init__(self, mixture: Any, seed: int, share: float) -> None:
        self._mixture = mixture
        self._models = {**mixture.models, "mixture of both": mixture}
        self._scores = {name: ProgressiveValidation(_AT_ONCE) for name in self._models}
        self._columns: dict[Any, int] = {}
        self._seed, self._share = seed, share
        self._draws = self._drawn()
        self._events = self._hidden = 0

    def _drawn(self) -> Iterator[float]:
        """Number i is of event i of the file, whatever else is in it."""
        first = 0
        while True:
            yield from uniforms(self._seed, first, _AT_ONCE).tolist()
            first += _AT_ONCE

    def take(self, event: Event) -> None:
        """Predict, score and learn one event."""
        is_hidden = next(self._draws) < self._share and event.label is not None
        self._events += 1
        self._hidden += is_hidden
        if event.label is not None:
            self._score(event)
        teach_one(self._mixture, event.x, None if is_hidden else event.label, event.weight)

    def _score(self, event: Event) -> None:
        answers = {name: answer_of(model, event.x) for name, model in self._models.items()}
        for label in (*(label for answer in answers.values() for label in answer), event.label):
            self._columns.setdefault(label, len(self._columns))
        truth = np.array([self._columns[event.label]])
        for name, answer in answers.items():
            row = np.array([[answer.get(label, 0.0) for label in self._columns]])
            self._scores[name].update_many(row, truth)

    def answer(self, posterior: PosteriorReport | None, tally: Tally) -> _Answer:
        """All that was found."""
        scores = {name: scored.cumulative() for name, scored in self._scores.items()}
        first, second, _ = scores.values()
        return _Answer(
            share=self._share,
            seed=self._seed,
            events=self._events,
            scored=first.events,
            hidden=self._hidden,
            variants=tuple(_scored(name, found) for name, found in scores.items()),
            gained=first.log_loss - second.log_loss,
            posterior=posterior,
            dead_letter_reasons=tally.rows(),
        )


def _scored(name: str, scores: Scores) -> _Scored:
    return _Scored(name, scores.accuracy, scores.log_loss, scores.macro_f1, scores.calibration_error)


def _show(answer: _Answer, tally: Tally) -> None:
    print(
        f"{of(answer.events, 'event')}, {answer.scored:,} scored; {of(answer.hidden, 'label')} hidden from "
        f"learning (share {answer.share:g}, seed {answer.seed})"
    )
    if answer.scored == 0:
        print("no labelled event has been scored")
        return
    header = ("taught by", "accuracy", "log loss", "macro f1", "calibration error")
    rows: list[Sequence[object]] = [msgspec.structs.astuple(variant) for variant in answer.variants]
    print()
    print(table(rows, header))
    verb = "gain" if answer.gained >= 0.0 else "lose"
    print(f"\nunlabelled events {verb} {abs(answer.gained):.4f} nats an event")
    if answer.posterior is not None:
        print("\nas the labels that were left weigh them:")
        print_posterior(answer.posterior)
    tally.print()
