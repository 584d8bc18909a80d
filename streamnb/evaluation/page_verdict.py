"""The first section of the page of an evaluation: is it better than guessing, and where does it fail?

A model is better than the guesses if the credible interval of its accuracy lies above the better of them, and
worse if it lies below. Warnings that make the accuracy worthless replace this verdict.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from streamnb.charts import Bar, Markup, bars, joined, percent, tag
from streamnb.evaluation.column_profile import ColumnProfile
from streamnb.events import MetricsReport
from streamnb.models.interface.feature_importances import FeatureImportance
from streamnb.reports.class_table import by_class
from streamnb.reports.evaluation_tables import EvaluationScores
from streamnb.reports.report_charts import with_code
from streamnb.scoring.ranking import by_chance
from streamnb.values.messages import Message
from streamnb.values.parameter_checks import cut, pluralize

NAME = 60
"""Characters of an id or class in a sentence or table."""
_RIGHT = 0.02  # calibration error that is small
_COMMAND = re.compile(r":\s+(streamnb .*)", re.DOTALL)
_ENOUGH = 10  # events of a class that is named
_WORTHLESS = frozenset({"label-leak", "labels-are-numbers", "one-class-only"})


class Findings(NamedTuple):
    """Results of an evaluation, for its page.

    Attributes:
        what: the evaluated file or log.
        seconds: of the evaluation.
        report: of the learner.
        scores: scores that the report lacks.
        decides: importance of the attributes.
        warnings: sentences about columns, labels and fields.
        dead_letters: reason, path, count, first row and detail of the most frequent faults.
        columns: profile of the columns.
        n_rows: number of rows of the profile.
        cut: that the evaluation was interrupted; else empty.
    """

    what: str
    seconds: float
    report: MetricsReport
    scores: EvaluationScores
    decides: Sequence[FeatureImportance] = ()
    warnings: Sequence[str] = ()
    dead_letters: Sequence[dict[str, Any]] = ()
    columns: Sequence[ColumnProfile] = ()
    n_rows: int = 0
    cut: str = ""

    @property
    def is_held_out(self) -> bool:
        """True if the scored events were not learned."""
        return self.scores.open_log_loss is None and self.report.verdicts is None

    @property
    def is_worthless(self) -> bool:
        """True if a warning makes the accuracy meaningless."""
        named = any(isinstance(one, Message) and one.event in _WORTHLESS for one in self.warnings)
        return bool(self.scores.grouping) or named


def verdict(found: Findings) -> Iterator[Markup]:
    """Yield the focal number, the sentences, the comparison with the guesses, and the warnings."""
    scores = found.report.cumulative
    if not scores.events:
        yield tag("p", why_nothing_was_scored(found), class_="lead")
    else:
        number = tag("span", percent(scores.accuracy), class_="focal", data_value=str(scores.accuracy))
        focus = tag("p", number, tag("span", _of(found), class_="focal-of"), class_="focus")
        told = Markup(" ".join(sentences(found)))
        words = tag("div", focus, tag("p", told, class_="lead"))
        yield tag("div", words, _comparison(found), class_="halves")
    if found.warnings:
        listed = [tag("li", _with_command(warning)) for warning in found.warnings]
        head = "Before you trust these numbers" if found.is_worthless else "Noticed in the data"
        style = "warnings" if found.is_worthless else "notes"
        yield tag("div", tag("h2", head), tag("ul", *listed), class_=style)


def _comparison(found: Findings) -> Markup | None:
    """Return bars of the accuracy and of the guesses; None if they are not known."""
    scores, guesses = found.report.cumulative, found.scores.baselines
    if guesses is None:
        return None
    interval = scores.accuracy_interval
    low, high = (None, None) if interval is None else (interval.lower, interval.upper)
    rows = [
        Bar("this model", scores.accuracy, low, high),
        Bar("guess: most frequent class so far", guesses.most_frequent, is_grey=True),
        Bar("guess: same label as before", guesses.same_as_before, is_grey=True),
    ]
    return bars("Share predicted right", rows, text=percent, most=1.0)


def why_nothing_was_scored(found: Findings) -> str:
    """Return the reason, and what to do about it."""
    report = found.report
    if not report.events:
        return "Nothing was evaluated: the input is empty."
    if report.dead_letters == report.events:
        letters = pluralize(report.dead_letters, "record")
        return f"Nothing was evaluated: none of {letters} is a valid event. The reasons are under Data."
    return "No labelled event was scored: --set events.label=PATH sets where labels are."


def _of(found: Findings) -> str:
    when = "before they were learned"
    if found.is_held_out:
        when = "in the part that was held out"
    elif found.report.verdicts is not None:
        when = "before they arrived"
    labels = pluralize(found.report.cumulative.events, "label")
    return f"out of {labels} were predicted right, {when}."


def sentences(found: Findings) -> Iterator[Markup]:
    """Yield the comparison with the guesses, the worst class, and if probabilities can be trusted."""
    guesses = found.scores.baselines
    if found.is_worthless:
        yield Markup("Do not rely on this number before you have read the warning below.")
        return
    if guesses is not None:
        yield joined([_against(found, max(guesses.most_frequent, guesses.same_as_before))])
    if len([one for one in by_class(found.report) if one.events]) > 1:
        yield _failure(found)
    elif found.scores.confusions:
        truth, taken, n = found.scores.confusions[0]
        yield joined(
            [
                f"Its most frequent mistake: {pluralize(n, 'event')} of ",
                _name(truth),
                " taken for ",
                _name(taken),
                ".",
            ]
        )
    yield joined(_confidence(found))


def _name(label: str) -> Markup:
    return tag("b", cut(label, NAME), dir="auto")


def _against(found: Findings, best: float) -> str:
    scores = found.report.cumulative
    interval = scores.accuracy_interval
    low, high = (scores.accuracy,) * 2 if interval is None else (interval.lower, interval.upper)
    points = f"{abs(100.0 * (scores.accuracy - best)):.1f} points"
    if low > best:
        text = f"Better than guessing: {points} above the better of two simple guesses ({percent(best)})"
        fewer = 1.0 - (1.0 - scores.accuracy) / (1.0 - best)
        return f"{text}, with {percent(fewer)} fewer mistakes."
    if high < best:
        return f"Worse than guessing: {points} below the better of two simple guesses ({percent(best)})."
    return f"Not clearly better than guessing: the better of two simple guesses gets {percent(best)}."


def _failure(found: Findings) -> Markup:
    """Return the class with the least recall, and the class that it is most often taken for."""
    report = found.report
    classes = [one for one in by_class(report) if one.events]
    some = [one for one in classes if one.events >= _ENOUGH] or classes
    worst = min(some, key=lambda one: (one.recall or 0.0, -one.events))
    recall = worst.recall or 0.0
    if recall == 1.0:
        return Markup("It misses no class.")
    k = report.labels.index(worst.label)
    missed = [(n, j) for j, n in enumerate(report.confusion[k][:-1]) if j != k and n]
    text = f": it misses {percent(1.0 - recall)} of its {pluralize(worst.events, 'event')}"
    parts = ["It fails most on ", _name(worst.label), text]
    if missed and len(classes) > 2:
        parts += [", and takes most of them for ", _name(report.labels[max(missed)[1]])]
    return joined([*parts, "."])


def _confidence(found: Findings) -> Iterator[str]:
    scores = found.report.cumulative
    chance, bins = by_chance(scores.reliability), scores.reliability
    if chance is None:
        return
    n = sum(one.events for one in bins)
    sure = sum(one.confidence * one.events for one in bins) / n
    right = sum(one.accuracy * one.events for one in bins) / n
    average = f"{percent(sure)} sure on average, {percent(right)} right"
    if scores.calibration_error <= max(_RIGHT, chance.upper):
        off = percent(scores.calibration_error)
        yield f"Its probabilities can be taken literally: they are off by {off} on average."
    elif abs(sure - right) <= _RIGHT:
        off = percent(scores.calibration_error)
        yield f"Its confidence is right on average, but off by {off} from one level to another."
    elif sure > right:
        yield f"It is too sure of itself: {average}."
    else:
        yield f"It is right more often than it expects: {average}."


def _with_command(warning: str) -> Markup:
    """Return a warning, with the command at its end as code."""
    found = _COMMAND.search(warning)
    if found is None:
        return with_code(warning)
    return joined([with_code(warning[: found.start() + 1]), tag("code", found[1], class_="command")])
