"""Importance of attributes: the rise of the log loss if the values of one are shuffled among events.

    importance_j = mean_i ln P(v_i | x_i) - ln P(v_i | x_i with the value of attribute j of another event)

Negative means, which are chance, count as 0; the share divides by the sum over all attributes. Of two
attributes with the same information, each has a low importance, because the other remains. Numbers, nominal
values and texts are comparable.

Reference: Breiman (2001), "Random forests", Machine Learning 45(1), section 10.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

from streamnb.kernels.array_types import Floats, Ints
from streamnb.models.interface.predictions import Posteriors
from streamnb.statistics.counter_rng import uniforms

_LEAST = 1e-15  # probability
_BINS = 10


class Predicts(Protocol):
    """A model that predicts many events."""

    def predict_posteriors(self, xs: Any, ts: Any = None) -> Posteriors:
        """Return the predictions, without a change of the model."""


class FeatureImportance(NamedTuple):
    """The importance of one attribute.

    Attributes:
        attribute: its name.
        share: its share of the importance of all attributes, 0 to 1.
        nats: the rise of the mean log loss.
    """

    attribute: Any
    share: float
    nats: float


def feature_importances(
    model: Predicts,
    xs: Sequence[Mapping[Any, Any]],
    labels: Sequence[Any],
    ts: Sequence[float | None] | None = None,
    attributes: Sequence[Any] | None = None,
) -> list[FeatureImportance]:
    """Return the importance of each attribute, the most important first; the model stays as it is.

    It predicts every event N + 1 times, for N attributes. The order of values depends on nothing but
    the number of events.

    Args:
        model: a classifier.
        xs: n events, name -> value; best such as the model has not learned.
        labels: their classes, of which the model has learned some.
        ts: their times, seconds.
        attributes: the names to measure; None is all.

    Examples:
        >>> from streamnb import GaussianNB
        >>> model, xs = GaussianNB(), [{"x": i % 2 * 3 + i % 3, "y": i % 5} for i in range(60)]
        >>> model.learn_many(xs, [i % 2 for i in range(60)])
        >>> [one.attribute for one in feature_importances(model, xs, [i % 2 for i in range(60)])]
        ['x', 'y']
    """
    names = list(dict.fromkeys(name for x in xs for name in x)) if attributes is None else attributes
    if not xs:
        return []
    before = _log_loss(model, xs, labels, ts)
    order = np.argsort(uniforms(0, 0, len(xs)), kind="stable").tolist()
    follower = dict(zip(order, order[1:] + order[:1], strict=True))  # one cycle: no event keeps its value
    rises = []
    for name in names:
        other = [_with(x, name, xs[follower[i]]) for i, x in enumerate(xs)]
        rises.append(max(0.0, _log_loss(model, other, labels, ts) - before))
    total = sum(rises) or 1.0
    made = [FeatureImportance(name, rise / total, rise) for name, rise in zip(names, rises, strict=True)]
    return sorted(made, key=lambda one: -one.nats)


def _with(x: Mapping[Any, Any], name: Any, other: Mapping[Any, Any]) -> dict[Any, Any]:
    made = {key: value for key, value in x.items() if key != name}
    return {**made, name: other[name]} if name in other else made


def _log_loss(model: Predicts, xs: Sequence[Mapping[Any, Any]], labels: Sequence[Any], ts: Any) -> float:
    found = model.predict_posteriors(xs, ts)
    column = {label: k for k, label in enumerate(found.classes)}
    known = [(i, column[label]) for i, label in enumerate(labels) if label in column]
    if not known:
        return 0.0
    rows, columns = np.array(known).T
    return -float(np.log(np.maximum(found.probabilities[rows, columns], _LEAST)).mean())


def information(values: Sequence[Any], labels: Sequence[Any]) -> float:
    """Return the information of one attribute about the label, in nats, corrected for chance.

    Numbers are divided into ten intervals of equal frequency. The correction is (r - 1)(c - 1) / 2 n for r
    values and c labels (Miller 1955).
    """
    rows, columns = _codes(values), _codes(labels)
    table = np.zeros((rows.max() + 1, columns.max() + 1))
    np.add.at(table, (rows, columns), 1)
    p = table / len(values)
    expected = p.sum(axis=1, keepdims=True) * p.sum(axis=0)
    found = (p[p > 0.0] * np.log(p[p > 0.0] / expected[p > 0.0])).sum()
    return float(found) - float((table.shape[0] - 1) * (table.shape[1] - 1)) / (2 * len(values))


def _codes(values: Sequence[Any]) -> Ints:
    if all(isinstance(value, float | int) for value in values):
        numbers: Floats = np.array(values, dtype=np.float64)
        bounds = np.unique(np.quantile(numbers, np.linspace(0.0, 1.0, _BINS + 1)[1:-1]))
        return np.unique(np.searchsorted(bounds, numbers, side="left"), return_inverse=True)[1]
    places: dict[Any, int] = {}
    return np.array([places.setdefault(value, len(places)) for value in values])
