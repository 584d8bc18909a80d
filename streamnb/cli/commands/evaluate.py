"""``streamnb evaluate``: progressive validation of a file, or of the history of a log."""

from __future__ import annotations

import argparse
import sys
import time
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import msgspec

from streamnb.cli import wiring
from streamnb.cli.evaluation.delayed_labels import LABELS, Feedback, feedback_of
from streamnb.cli.evaluation.event_files import begun, columns_of, events_of, numbered, origin_of
from streamnb.cli.evaluation.hidden_labels import run_with_hidden_labels
from streamnb.cli.evaluation.history import history_of, log_of, relived
from streamnb.cli.evaluation.holdout import divide, share_of
from streamnb.cli.evaluation.label_groups import with_groups
from streamnb.cli.evaluation.odd_fields import OddFields
from streamnb.cli.evaluation.page import Page
from streamnb.cli.evaluation.progressive import (
    _Drifts,
    _note,
    _train_then_test,
    outputs_of,
    say_why_nothing_was_learned,
)
from streamnb.cli.evaluation.refusals import Tally
from streamnb.cli.evaluation.user_model import given_model
from streamnb.cli.reports.by_class import by_class, print_by_class, print_improbable
from streamnb.cli.reports.text_tables import print_report, print_summary, print_telling, table
from streamnb.config import Config
from streamnb.engine.learner import Learner
from streamnb.engine.reports import why_nothing_is_forgotten
from streamnb.errors import ConfigError
from streamnb.model.evaluation.ranking import OpenValidation
from streamnb.wire.snapshot import part_digest


def run(options: argparse.Namespace) -> int:
    """Predict each event of a file or log, then learn it; or learn one part of a file and score the other."""
    return _run_on_log(options) if options.file is None else _run_on_file(options)


def _run_on_file(options: argparse.Namespace) -> int:
    if options.hide_labels is not None:
        for flag in ("holdout", "predictions", "model", "report"):
            if getattr(options, flag) is not None:
                raise ConfigError(f"--{flag}: not with --hide-labels, which shows three models side by side")
        return run_with_hidden_labels(options)
    feedback, topic = _feedback(options)
    config = wiring.load_config(options, *topic)
    _say_that_files_have_no_keys(config)
    share = None if options.holdout is None else share_of(options.holdout)
    if options.holdout is not None and options.predictions is not None:
        raise ConfigError("--predictions: are written where every event is learned, not with --holdout")
    learner = wiring.learner(config, None if options.model is None else given_model(options.model))
    learner.progressive = OpenValidation(config.metrics.window)
    tally, drifts = Tally(), _Drifts()
    page = _page(options, learner, config)
    events = events_of(options.file, columns_of(options, learner.settings.schema, learns=True))
    events = with_groups(events, options, config.events.label)
    odd = OddFields(learner.settings.schema, origin_of(options.file), expects_label=True)
    rows = begun(odd.watched(numbered(events, options.order)))
    train, test = ([], []) if options.holdout is None else divide(list(rows), share)
    with ExitStack() as stack:
        predictions = stack.enter_context(open(options.predictions, "wb")) if options.predictions else None  # noqa: PTH123
        if options.model is None:
            wiring.warm_up(config)
        started = time.monotonic()
        if options.holdout is None:
            for output in outputs_of(learner, rows, config, feedback, page):
                _note(output, config, predictions, (tally, drifts), page)
        else:
            _train_then_test(learner, train, test, tally)
    seconds = time.monotonic() - started
    if not learner.model.n_events:
        say_why_nothing_was_learned(options.file, config, learner.consumed, learner.dead_letters)
    _show(options, learner, seconds, (tally, drifts))
    if options.model is None:
        odd.say(is_over=True)
    _write(page, options.file, seconds)
    return 0 if learner.model.n_events else 1


def _run_on_log(options: argparse.Namespace) -> int:
    """Let a learner live through what the one of the log has read."""
    for flag in ("order", "holdout", "hide_labels", "delay", "reveal", "noise", "map_labels"):
        if getattr(options, flag):
            raise ConfigError(f"--{flag.replace('_', '-')}: needs a file; without one the log is evaluated")
    config = wiring.load_config(options)
    with ExitStack() as stack:
        log = stack.enter_context(closing(log_of(config)))
        config = wiring.as_begun(config, log)
        learner = wiring.learner(config, None if options.model is None else given_model(options.model))
        learner.progressive = OpenValidation(config.metrics.window)
        tally, drifts, page = Tally(), _Drifts(), _page(options, learner, config)
        predictions = stack.enter_context(open(options.predictions, "wb")) if options.predictions else None  # noqa: PTH123
        if options.model is None:
            wiring.warm_up(config)
        started = time.monotonic()
        for output in relived(learner, history_of(config, log), page):
            _note(output, config, predictions, (tally, drifts), page)
    seconds = time.monotonic() - started
    if not learner.model.n_events:
        say_why_nothing_was_learned(config.log.url, config, learner.consumed, learner.dead_letters)
    _show(options, learner, seconds, (tally, drifts))
    _write(page, config.log.url, seconds)
    return 0 if learner.model.n_events else 1


def _page(options: argparse.Namespace, learner: Learner, config: Config) -> Page | None:
    """The page that is asked for. Raises ConfigError."""
    return None if options.report is None else Page(Path(options.report), learner, config)


def _write(page: Page | None, what: str, seconds: float) -> None:
    if page is not None:
        page.write(what, seconds)


def _feedback(options: argparse.Namespace) -> tuple[Feedback | None, list[str]]:
    """How labels come, where not inside events, and the topic for them. Raises ConfigError."""
    if options.delay is None and options.reveal is None and not options.noise:
        return None, []
    if options.holdout is not None:
        raise ConfigError("--delay, --reveal, --noise: not with --holdout, where labels are all there before")
    if not 0.0 <= options.noise < 1.0:
        raise ConfigError(f"--noise is {options.noise:g}; expected a share of 0 or more, and below 1")
    return feedback_of(options.delay, options.reveal, options.noise, options.seed), [
        f"topics.labels={LABELS}"
    ]


def _say_that_files_have_no_keys(config: Config) -> None:
    """Where the model asks for the key of a record: it would be told of no entity."""
    if config.model.reads_entity and not config.events.entity:
        print(
            "streamnb: a file has no keys, so that every event is a sequence by itself; "
            "--set events.entity=PATH says where an event keeps its entity",
            file=sys.stderr,
        )


def _told(options: argparse.Namespace, learner: Learner) -> dict[str, Any]:
    """What is told beside reports; None where labels come later: what was served is scored elsewhere.

    Nor does what is held out come as a stream of labels.
    """
    scores = learner.progressive
    assert isinstance(scores, OpenValidation)  # noqa: S101  it was made here
    loss = scores.open_log_loss if options.holdout is None else None
    improbable = [each._asdict() for each in scores.improbable]
    return {"one_less_auc": scores.one_less_auc, "open_log_loss": loss, "improbable": improbable}


def _show(
    options: argparse.Namespace, learner: Learner, seconds: float, noted: tuple[Tally, _Drifts]
) -> None:
    tally, drifts = noted
    watched = learner.drift.names and options.holdout is None  # what is held out is not a stream
    report = learner.report(time.time())
    # A classifier that was given need not be able to tell its state.
    digest = part_digest(*learner.parts()["model"]) if options.model is None else None
    if options.json:
        answer: dict[str, Any] = msgspec.to_builtins(report)
        answer |= {"by_class": msgspec.to_builtins(by_class(report)), **_told(options, learner)}
        answer["dead_letter_reasons"] = tally.rows()
        if watched:
            answer["drifts"] = drifts.rows()
        answer |= {"seconds": seconds, "model_digest": digest}
        print(msgspec.json.encode(answer).decode())
        return
    if options.details:
        print_report(report)
        print_by_class(report, _told(options, learner))
    else:
        print_summary(report)
    print_telling(learner.model)
    tally.print()
    if why := why_nothing_is_forgotten(learner.model):
        print(f"\n{why}; a file says no other")
    if watched:
        drifts.print()
    if options.details and report.cumulative.reliability:
        print()
        bins = [(b.confidence, b.accuracy, b.events) for b in report.cumulative.reliability]
        print(table(bins, ("confidence", "accuracy", "events")))
        print_improbable(_told(options, learner)["improbable"])
    print()
    print(
        f"{report.events / seconds:,.0f} events/s in {seconds:.1f} s"
        + (f"; model {digest[:16]}" if digest else "")
        + ("" if options.details else "; more with --details")
    )
