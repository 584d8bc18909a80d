"""HTML for notebooks: classifiers, attributions, linear forms and scores.

All text is escaped, and the size is bounded for any number of classes or words.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from streamnb.charts import Bar, Markup, bars, calibration, joined, number, percent, table, tag, whole
from streamnb.engine.processing.metrics_reports import with_interval
from streamnb.models.interface.attribution import Explanation, Item
from streamnb.models.naive_bayes.counting_model import CountingModel
from streamnb.models.naive_bayes.linear_view import LinearView
from streamnb.models.naive_bayes.most_informative import strongest
from streamnb.scoring.prequential_scores import ProgressiveValidation
from streamnb.statistics.sequential_posterior import SequentialPosterior
from streamnb.values.parameter_checks import brief

_CLASSES, _WORDS, _ITEMS = 8, 8, 20
_MASS = 0.95


def html(value: Any) -> str:
    """Return the HTML of a value; by default of its `repr`."""
    if isinstance(value, LinearView):
        return whole(_linear(value))
    if isinstance(value, Explanation):
        title = f"Log odds of {value.predicted} against {value.runner_up}: {value.log_odds:.3f}"
        return whole(_evidence(title, [Item("(prior)", "", value.prior), *value.items]))
    if isinstance(value, ProgressiveValidation):
        return whole(*_scores(value))
    if isinstance(value, list):
        nothing = None if value else tag("p", getattr(value, "why", ""))
        return whole(joined([_evidence("Evidence, log odds", value), nothing]))
    return whole(tag("pre", brief(repr(value))), *_learned(value))


def _linear(view: LinearView) -> Markup:
    """Return a chart of the words and values with the largest weights, for either class."""
    found = {(term.attribute, term.value): term for terms in view.top(_WORDS).values() for term in terms}
    rows = [Bar(f"{term.attribute}: {term.value}", term.weight) for term in found.values()]
    rows.sort(key=lambda row: -row.value)
    title = f"Log odds of {view.positive} against {view.negative}; bias {view.bias:.3f}"
    return bars(title, rows)


def _evidence(title: str, items: Sequence[Item]) -> Markup:
    rows = [Bar(f"{item.attribute}: {_value(item.value)}", item.log_odds) for item in items[:_ITEMS]]
    rest = len(items) - len(rows)
    return joined([bars(title, rows), tag("p", f"and {rest:,} weaker ones") if rest > 0 else None])


def _value(value: object) -> str:
    return number(value) if isinstance(value, float) else str(value)


def _scores(value: ProgressiveValidation) -> Iterator[Markup]:
    header = ["of", "events", "accuracy", "95 % credible", "log loss", "macro-F1", "kappa", "Brier"]
    rows = []
    for name, scores in (("all", value.cumulative()), ("the newest", value.window())):
        row = with_interval(scores, _MASS)
        within = row.accuracy_interval
        between = "" if within is None else f"{percent(within.lower)} to {percent(within.upper)}"
        more = (row.log_loss, row.macro_f1, row.kappa, row.brier)
        rows.append([name, row.events, percent(row.accuracy), between, *more])
    yield table(header, rows)
    yield calibration("Calibration", value.cumulative().reliability)


def _learned(model: Any) -> Iterable[Markup]:
    """Yield charts of classes, hypotheses, and the most informative words of each class."""
    weights = Counter({label: n for label, n in getattr(model, "class_weights", {}).items() if n})
    common = weights.most_common(_CLASSES)
    if common:
        rest = f", {len(common)} of {len(weights):,}" if len(common) < len(weights) else ""
        yield bars(f"Classes learned{rest}", [Bar(str(label), n) for label, n in common])
    posterior = getattr(model, "posterior", None)
    if isinstance(posterior, SequentialPosterior):
        rows = [Bar(str(name), p) for name, p in Counter(posterior.probabilities).most_common(_CLASSES)]
        yield bars("Hypotheses", rows, text=percent, most=1.0)
    if isinstance(model, CountingModel) and len(weights) > 1:
        for label, _ in common:
            words = strongest(model.statistics, label, _WORDS)
            rows = [Bar(f"{word.attribute}: {word.value}", word.log_odds) for word in words]
            rows.sort(key=lambda row: -row.value)
            yield bars(f"{label}, log odds", rows)
