"""``streamnb evaluate``: progressive validation of a file, or of the history of a log."""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, nullcontext
from functools import cached_property
from pathlib import Path
from typing import Any

import msgspec

from streamnb.config import Config
from streamnb.engine.ports import NewRecord
from streamnb.engine.processing.metrics_reports import why_nothing_is_evicted
from streamnb.errors import ConfigError
from streamnb.evaluation.column_checks import RowSample, column_warnings, what_decides
from streamnb.evaluation.column_profile import profile
from streamnb.evaluation.data_quality import DataQuality, report_small_weights
from streamnb.evaluation.decision_trace import DecisionTrace
from streamnb.evaluation.evaluation_page import EvaluationPage
from streamnb.evaluation.evaluation_words import again, grouping_warning, model_and_settings
from streamnb.evaluation.event_input import (
    decoded,
    files_named,
    files_of,
    origin_of,
    refuse_options_of_files,
    report_absent,
    rows_of,
)
from streamnb.evaluation.holdout import Row, divide, share_of
from streamnb.evaluation.input_files import begun
from streamnb.evaluation.interruption import Interruption
from streamnb.evaluation.log_history import LogHistory, history_of, log_of, replay_history
from streamnb.evaluation.page_verdict import Findings
from streamnb.evaluation.prediction_files import PredictionFile
from streamnb.evaluation.prequential_evaluation import (
    Drifts,
    outputs_of,
    report_why_nothing_was_learned,
    stop_publishing,
    train_then_test,
)
from streamnb.evaluation.rejections import RejectionCounts
from streamnb.evaluation.simulated_label_delay import LABELS, Feedback, feedback_of
from streamnb.evaluation.user_model import given_model
from streamnb.events import Event, MetricsReport
from streamnb.formats.codec import decode_metrics
from streamnb.formats.snapshot_container import part_digest
from streamnb.formats.terminal_text import counted, note
from streamnb.models.interface.feature_importances import FeatureImportance
from streamnb.reports.class_table import by_class, print_by_class, print_chance, print_improbable
from streamnb.reports.evaluation_tables import EvaluationScores, print_evaluation, print_importances
from streamnb.reports.text_columns import table
from streamnb.reports.text_tables import print_informative
from streamnb.runtime import context, factories
from streamnb.scoring.baselines import BaselineScores, LateTruths
from streamnb.scoring.decision_rule import DecisionRule
from streamnb.scoring.ranking import OpenValidation, by_chance
from streamnb.scoring.threshold_costs import ThresholdScores
from streamnb.values.messages import Message
from streamnb.values.parameter_checks import pluralize


def run(options: argparse.Namespace) -> int:
    """Predict, then learn each event of a file or log; or train on part of a file and test on the rest."""
    read = ["/dev/stdin" if path == "-" else path for path in files_of(options)]
    read += [options.config, options.order, options.map_labels]
    for flag in ("predictions", "report"):
        if (given := getattr(options, flag)) is not None:
            context.refuse_overwriting(f"--{flag}", given, read)
    if options.report is not None:
        context.refuse_overwriting("--report", options.report, [options.predictions], "is for --predictions")
    return _run_on_log(options) if options.file is None else _run_on_file(options)


def _run_on_file(options: argparse.Namespace) -> int:
    feedback, topic = _feedback(options)
    config = context.load_config(options, *topic)
    _report_files_without_keys(config)
    share = None if options.holdout is None else share_of(options.holdout)
    if options.holdout is not None and options.predictions is not None:
        raise ConfigError("--predictions: are written where every event is learned, not with --holdout")
    made = _Evaluation(options, config)
    absent = set(options.drop)
    columns, ordered = rows_of(options, made.learner.settings.schema, absent)
    odd = DataQuality(
        made.learner.settings.schema,
        origin_of(options.file, columns),
        expects_label=True,
        repeats=config.events.repeats != "learn",
        now=time.time(),
        learned=lambda: made.learner.model.class_weights,
    )
    rows = begun(made.interruption.rows(made.sample.watched(odd.watched(ordered))))
    if share is None:
        code = made.run(outputs_of(made.learner, rows, config, feedback, made.page))
    else:
        code = made.run(made.held_out(divide(list(rows), share)))
    odd.report(is_over=True)
    report_absent(absent)
    for text in made.column_warnings:
        note(text)
    made.write_page([*made.column_warnings, *odd.reported])
    return code


def _run_on_log(options: argparse.Namespace) -> int:
    """Replay the history that the log's learner has read."""
    refuse_options_of_files(options)
    config = context.load_config(options)
    with closing(log_of(config)) as log:
        config = factories.begun_configuration(config, log)
        made = _Evaluation(options, config)
        history = made.sampled(made.interruption.rows(history_of(config, log)))
        code = made.run(replay_history(made.learner, history, made.page))
        made.write_page(())
        return code


_CONFUSIONS = 10


class _Evaluation:
    """A learner and statistics of its outputs. Raises ConfigError for a page that cannot be written."""

    def __init__(self, options: argparse.Namespace, config: Config) -> None:
        self._options, self._config, self.interruption = options, config, Interruption()
        given = None if options.model is None else given_model(options.model)
        self.learner = factories.learner(config, given)
        self.scores = self.learner.progressive = OpenValidation(config.metrics.window)
        self.sample, self._late = RowSample(), LateTruths()
        if self.learner.late is not None:
            self.learner.late.scoring.observer = self._late.note
        self._trace = DecisionTrace(self.learner, self._late)
        report = options.report
        self.page = (
            None if report is None else EvaluationPage(Path(report), self.learner, config, self.scores)
        )
        self._findings: Findings | None = None
        if options.predictions is None and self.page is None:
            stop_publishing(self.learner)
        self.tally, self._drifts = RejectionCounts(self.learner.settings.schema), Drifts()

    @cached_property
    def sample_events(self) -> list[tuple[int, Event]]:
        """Row numbers and labelled events of the sample."""
        return self.sample.events(self.learner.settings.schema)

    @cached_property
    def column_warnings(self) -> list[Message]:
        """Messages about unintended properties of columns of the sample."""
        return [*column_warnings(self.sample_events, self._without)]

    def _without(self, names: Sequence[str]) -> str:
        return again(self._options, *(f"--drop={name}" for name in names))

    def run(self, answers: Iterable[NewRecord]) -> int:
        """Consume the outputs, print the scores and return the exit code."""
        options, config, learner = self._options, self._config, self.learner
        what = config.log.url if options.file is None else files_named(options)
        with PredictionFile(options.predictions) if options.predictions else nullcontext() as predictions:
            if options.model is None:
                factories.warm_up(config)
            started = time.monotonic()
            with self.interruption:
                for output in answers:
                    self._note(output, predictions)
        seconds = time.monotonic() - started
        report_small_weights(learner.tally.small_weights)
        if not learner.model.n_events:
            report_why_nothing_was_learned(what, config, learner.consumed, learner.dead_letters)
        report = learner.report(time.time())
        self.interruption.report(counted(report, learner.consumed), learner.consumed)
        guesses = self.scores.baselines if learner.late is None else self._late.baselines
        found = self._found(guesses.scores(report.cumulative.accuracy))
        if learner.consumed or options.json:
            self._show(report, found, seconds)
        cut = f"interrupted after {pluralize(learner.consumed, 'event')}" * self.interruption.came
        self._findings = Findings(what, seconds, report, found, cut=cut)
        return self.interruption.code(0 if learner.model.n_events else 1)

    def sampled(self, history: Iterable[LogHistory]) -> Iterator[LogHistory]:
        """Yield the same history, and keep a sample of its events with labels, for what decides."""
        topics = set(self._config.topics.events)
        for one in history:
            for record in one.records:
                if record.partition.topic in topics:
                    self.sample.add((record.offset, record.value))
            yield one

    def held_out(self, parts: tuple[Sequence[Row], Sequence[Row]]) -> Iterable[NewRecord]:
        """Return the outputs of learning the first part and scoring the second: none."""
        return train_then_test(self.learner, self.scores, parts, self.tally, self.interruption, self._trace)

    def write_page(self, warnings: Sequence[Message]) -> None:
        """Write the page, if there is one, with warnings about the data."""
        if self.page is None or self._findings is None:
            return
        grouping = self._findings.scores.grouping
        schema = self.learner.settings.schema
        rows = [event.x for _, raw in self.sample.rows if (event := decoded(raw, schema)) is not None]
        self.page.write(
            self._findings._replace(
                decides=self._decides,
                warnings=[*([grouping] if grouping else ()), *warnings],
                dead_letters=self.tally.rows(),
                columns=profile(rows, schema),
                n_rows=len(rows),
            )
        )

    def _note(self, output: NewRecord, predictions: PredictionFile | None) -> None:
        topics = self._config.topics
        if self.page is not None:
            self.page.note(output)
        if predictions is not None and output.topic == topics.predictions:
            predictions.write(output.value)
        elif output.topic == topics.dead_letters:
            headers = dict(output.headers)
            reason, path, row = headers["reason"].decode(), headers["path"].decode(), int(headers["offset"])
            self.tally.add(reason, path, row, output.value)
        elif self._config.drift.detectors and output.topic == topics.metrics:
            self._drifts.add(decode_metrics(output.value))

    @cached_property
    def _decides(self) -> list[FeatureImportance]:
        return what_decides(self.learner.model, self.sample_events, self.learner.model.n_events)

    def _found(self, baselines: BaselineScores | None) -> EvaluationScores:
        options, scores = self._options, self.scores
        names = [*map(str, self.learner.model.classes)]
        confusions = scores.most_confused(_CONFUSIONS)
        return EvaluationScores(
            baselines,
            scores.one_less_auc,
            scores.open_log_loss if options.holdout is None else None,  # a held-out part is not a stream
            [(names[k], names[j], n) for k, j, n in confusions if k < len(names)],
            grouping_warning(baselines, options),
            model_and_settings(self._config, options.model),
            scores.auc_error,
            self._trace.cells,
            self._trace.by_threshold,
            *self._by_probability(names),
        )

    def _by_probability(self, names: Sequence[str]) -> tuple[str, list[ThresholdScores]]:
        """Return the second of two classes, and the mean cost by the threshold of its probability."""
        if len(names) != 2:
            return "", []
        decisions = self.learner.decisions
        cost = DecisionRule().cost if decisions is None else decisions.rule.cost
        found = self.scores.costs_by_probability(lambda d, v: cost(names[d], names[v]))
        return (names[1] if found else ""), found

    def _show(self, report: MetricsReport, found: EvaluationScores, seconds: float) -> None:
        options, learner, scores = self._options, self.learner, self.scores
        # A classifier of --model need not be serializable.
        digest = part_digest(*learner.parts()["model"]) if options.model is None else None
        if options.json:
            if found.grouping:
                note(Message("rows-grouped-by-label", found.grouping))
            self._show_json(report, found, {"seconds": seconds, "model_digest": digest})
            return
        print_evaluation(report, found, details=options.details)
        if options.details:
            print_by_class(report, scores.one_less_auc)
        print_importances(self._decides)
        print_informative(learner.model)
        self.tally.print()
        if why := why_nothing_is_evicted(learner.model):
            print(f"\n{why}; a file has no other source of time")
        if learner.drift.names and options.holdout is None:
            self._drifts.print()
        chance = by_chance(report.cumulative.reliability)
        if options.details and chance is not None:
            bins = [(b.confidence, b.accuracy, b.events) for b in report.cumulative.reliability]
            print("\n" + table(bins, ("confidence", "accuracy", "events")))
            print_chance(report.cumulative.calibration_error, chance)
            print_improbable([each._asdict() for each in scores.improbable])
        speed = f"{report.events / seconds:,.0f} events/s in {seconds:.1f} s"
        learned = f"; model {digest[:16]}" if digest else ""
        print(f"\n{speed}{learned}{'' if options.details else '; more with --details'}")

    def _show_json(self, report: MetricsReport, found: EvaluationScores, more: dict[str, Any]) -> None:
        chance = by_chance(report.cumulative.reliability)
        answer: dict[str, Any] = msgspec.to_builtins(report)
        answer |= {
            "by_class": msgspec.to_builtins(by_class(report)),
            "interrupted": self.interruption.came,
            "baselines": msgspec.to_builtins(found.baselines),
            "model_settings": found.model,
            "one_less_auc": found.one_less_auc,
            "auc_error": found.auc_error,
            "open_log_loss": found.open_log_loss,
            "decided": msgspec.to_builtins(found.decided),
            "cost_by_expected_cost": msgspec.to_builtins(found.by_expected_cost),
            "cost_by_probability": {
                "label": found.second_class,
                "thresholds": msgspec.to_builtins(found.by_probability),
            },
            "importances": [one._asdict() for one in self._decides],
            "improbable": [each._asdict() for each in self.scores.improbable],
            "calibration_error_by_chance": None if chance is None else chance._asdict(),
            "dead_letter_reasons": self.tally.rows(),
        }
        if self.learner.drift.names and self._options.holdout is None:
            answer["drifts"] = self._drifts.rows()
        print(msgspec.json.encode(answer | more).decode())


def _feedback(options: argparse.Namespace) -> tuple[Feedback | None, list[str]]:
    """Return the simulated label delay and the setting of its topic. Raises ConfigError."""
    if options.delay is None and options.reveal is None and not options.noise:
        return None, []
    if options.holdout is not None:
        raise ConfigError("--delay, --reveal, --noise: not with --holdout, where labels are all there before")
    if not 0.0 <= options.noise < 1.0:
        raise ConfigError(f"--noise is {options.noise:g}; expected a share of 0 or more, and below 1")
    return feedback_of(options.delay, options.reveal, options.noise, options.seed), [
        f"topics.labels={LABELS}"
    ]


def _report_files_without_keys(config: Config) -> None:
    """Print a note if the model needs the key of a record as entity, which a file lacks."""
    if config.model.reads_entity and not config.events.entity:
        is_tenants = config.model.kind == "tenants"
        alone = "all events are of one tenant" if is_tenants else "every event is a sequence by itself"
        text = f"a file has no keys, so that {alone}; --set events.entity=PATH names the entity in an event"
        note(Message("file-without-keys", text))
