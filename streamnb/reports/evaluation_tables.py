"""The screens of `evaluate`: scores next to baselines, classes, confusions, and what decides."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from streamnb.events import MetricsReport
from streamnb.formats.terminal_text import printable
from streamnb.models.interface.feature_importances import FeatureImportance
from streamnb.reports.class_table import ClassScore, by_class
from streamnb.reports.text_columns import table
from streamnb.reports.text_tables import (
    MOST_CLASSES,
    between,
    mass_text,
    print_confusion,
    print_decisions,
    print_numbers,
    print_posterior,
    print_rates,
)
from streamnb.scoring.baselines import BaselineScores
from streamnb.scoring.decision_scores import DecisionCell
from streamnb.scoring.threshold_costs import ThresholdScores, least_cost
from streamnb.values.parameter_checks import cut

_WORST = 3  # classes that are named


class EvaluationScores(NamedTuple):
    """Scores that only an evaluation has.

    Attributes:
        baselines: accuracy of guessing; None if no event was scored.
        one_less_auc: 1 - AUC; None unless there are two classes.
        open_log_loss: log loss in nats, with the price of new classes; None of labels that come later.
        confusions: truth, prediction and number of events of the most frequent confusions.
        grouping: the warning about rows that are grouped by label; or empty.
        model: the model and its settings.
        auc_error: the maximum error of `one_less_auc`.
        decided: labelled events by truth and decision; empty without a decision rule.
        by_expected_cost: costs of decisions by the threshold of their expected cost.
        second_class: the class whose probability `by_probability` varies; empty unless there are two.
        by_probability: mean costs by the threshold of its probability; without a rule an error costs 1.
    """

    baselines: BaselineScores | None
    one_less_auc: float | None
    open_log_loss: float | None
    confusions: Sequence[tuple[str, str, int]]
    grouping: str
    model: str
    auc_error: float = 0.0
    decided: Sequence[DecisionCell] = ()
    by_expected_cost: Sequence[ThresholdScores] = ()
    second_class: str = ""
    by_probability: Sequence[ThresholdScores] = ()


def print_evaluation(report: MetricsReport, scores: EvaluationScores, *, details: bool) -> None:
    """Print the scores; with `details` all of them, the frequency of classes and the hypotheses."""
    is_scored = print_numbers(report)
    print(f"model: {scores.model}")
    if not is_scored:
        return
    columns = 2 if report.window.events == report.cumulative.events else 3
    header = "", f"all {report.cumulative.events:,}", f"last {report.window.events:,}"
    rows = [row[:columns] for row in _score_rows(report, scores, details=details)]
    print("\n" + table(rows, header[:columns]))
    if scores.grouping:
        print(f"\nwarning: {scores.grouping}")
    print_decisions(report)
    print_decided(scores, details=details)
    print_confusion(report)
    if report.classes > MOST_CLASSES and scores.confusions:
        rows = [(cut(a, 60), cut(b, 60), n) for a, b, n in scores.confusions]
        print("\n" + table(rows, ("truth", "taken for", "events")))
    if worst := _worst(by_class(report)):
        print(f"\nworst classes by F1: {worst}")
    if not details:
        return
    if scores.by_probability:
        print("\n" + table(_thresholds(scores.by_probability), _header(f"P({scores.second_class}) from")))
    if report.classes <= MOST_CLASSES:
        print_rates(report)
    if report.posterior is not None:
        print_posterior(report.posterior)


def print_decided(scores: EvaluationScores, *, details: bool) -> None:
    """Print the confusion of decisions, and the threshold of least cost; with `details` all thresholds."""
    if not scores.decided:
        return
    truths = list(dict.fromkeys(str(cell.truth) for cell in scores.decided))
    decisions = sorted({cell.decision for cell in scores.decided if cell.decision is not None}, key=str)
    if max(len(truths), len(decisions)) <= MOST_CLASSES:
        events = {(str(cell.truth), cell.decision): cell.events for cell in scores.decided}
        rows = [
            (cut(truth, 60), *(events.get((truth, d), 0) for d in (*decisions, None))) for truth in truths
        ]
        print("\n" + table(rows, ("truth \\ decided", *(cut(str(d), 24) for d in decisions), "nothing")))
    best = least_cost(scores.by_expected_cost)
    if best is not None:
        text = (
            f"decisions up to an expected cost of {best.threshold:.4f} would have cost {best.mean_cost:.4f}"
        )
        print(f"\n{text} on average, the least; they decide {best.coverage:.1%}")
        if details:
            print("\n" + table(_thresholds(scores.by_expected_cost), _header("expected cost up to")))


def _header(first: str) -> tuple[str, ...]:
    return first, "share decided", "accuracy of these", "mean cost"


def _thresholds(found: Sequence[ThresholdScores]) -> list[tuple[object, ...]]:
    return [
        (one.threshold, one.coverage, "" if one.accuracy is None else one.accuracy, one.mean_cost)
        for one in found
    ]


def print_importances(found: Sequence[FeatureImportance]) -> None:
    """Print the attributes that decide, if there are any."""
    rows = [(str(one.attribute), f"{100.0 * one.share:.1f} %", one.nats) for one in found if one.nats > 0.0]
    if rows:
        print("\n" + table(rows, ("what decides", "share", "rise of log loss if shuffled")))


def _score_rows(
    report: MetricsReport, scores: EvaluationScores, *, details: bool
) -> Iterator[tuple[object, object, object]]:
    everything, window, guesses = report.cumulative, report.window, scores.baselines
    yield "accuracy", everything.accuracy, window.accuracy
    if report.interval_mass is not None:
        intervals = between(everything.accuracy_interval), between(window.accuracy_interval)
        yield mass_text(report.interval_mass), *intervals
    if guesses is not None:
        yield "most frequent class so far", guesses.most_frequent, ""
        yield "same label as before", guesses.same_as_before, ""
    yield "kappa", everything.kappa, window.kappa
    if guesses is not None:
        yield "kappa-temporal", guesses.kappa_temporal, ""
    yield "macro f1", everything.macro_f1, window.macro_f1
    if scores.one_less_auc is not None:
        within = f" (within {scores.auc_error:.1g})" if scores.auc_error else ""
        yield f"auc{within}", 1.0 - scores.one_less_auc, ""
    if scores.open_log_loss is None:
        yield "log loss", everything.log_loss, window.log_loss
    else:
        yield "log loss", scores.open_log_loss, ""
    if details:
        if scores.open_log_loss is not None:
            yield "log loss, a new label costs 34.5", everything.log_loss, window.log_loss
        yield "brier", everything.brier, window.brier
        yield "calibration error", everything.calibration_error, window.calibration_error


def _worst(found: Sequence[ClassScore]) -> str:
    """Return the classes with the lowest F1, of at least three; empty if each is perfect."""
    ranked = sorted((one for one in found if one.events), key=lambda one: one.f1) if len(found) > 2 else []
    return ", ".join(
        f"{cut(printable(one.label), 60)} {one.f1:.4f}" for one in ranked[:_WORST] if one.f1 < 1.0
    )
