"""Parameters of naive Bayes as numbers: P(v), P(a | v) with its smoothing, and Gaussians.

They are computed from the counts by the formulas of `joint_log_likelihood`, without its kernels. A *free*
parameter is not determined by the other parameters of its distribution:

    prior              K - 1          of K classes
    nominal            K (k - 1)      of k values
    multinomial text   K (|V| - 1)    of |V| words
    Bernoulli text     K |V|
    continuous         2 K
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from streamnb.kernels.array_types import Floats
from streamnb.models.naive_bayes.gaussian_factors import moments_of, pooled_moments
from streamnb.models.naive_bayes.linear_form import SmoothingCoefficients, smoothing
from streamnb.models.naive_bayes.naive_bayes_tables import CountViews
from streamnb.models.naive_bayes.sufficient_statistics import SufficientStatistics
from streamnb.statistics.class_priors import LEARNED, UNIFORM
from streamnb.values.attribute_kinds import BERNOULLI, MULTINOMIAL, NOMINAL
from streamnb.values.example_weights import UNIT

_KINDS = {MULTINOMIAL: "multinomial", BERNOULLI: "bernoulli", NOMINAL: "nominal"}


class Gaussian(NamedTuple):
    """Mean and variance of a class, as predictions use them (see `gaussian_factors`).

    `class_moments` returns the maximum likelihood estimates, with the variance sum (x - mu)^2 / n.
    """

    mean: float
    variance: float


class DiscreteParameters(NamedTuple):
    """The table P(a | v) of an attribute.

    Attributes:
        kind: "nominal", "multinomial" or "bernoulli".
        table: class -> value or word -> P(value | class); of a Bernoulli text P(word present | class).
        added: the count that smoothing adds to each value: (n_c + added) / (n + added_total).
        added_total: what it adds to the total of a class.
        n_values: number of values that share this total; 2 for each word of a Bernoulli text.
        words_per_event: mean number of words of an event; 1 for a nominal attribute.
    """

    kind: str
    table: dict[Any, dict[str, float]]
    added: float
    added_total: float
    n_values: int
    words_per_event: float

    @property
    def n_free(self) -> int:
        """Number of free parameters."""
        size = max(map(len, self.table.values()), default=0)
        return len(self.table) * (size if self.kind == "bernoulli" else self.n_values - 1)


class Parameters(NamedTuple):
    """All parameters of a naive Bayes model, at one moment.

    Attributes:
        prior: class -> P(v).
        discrete: attribute -> its table; an attribute that was learned as two kinds is there twice, the
            second time as (attribute, kind).
        continuous: attribute -> class -> `Gaussian`, without attributes that are the same in all classes.
    """

    prior: dict[Any, float]
    discrete: dict[Any, DiscreteParameters]
    continuous: dict[Any, dict[Any, Gaussian]]

    @property
    def n_free(self) -> dict[Any, int]:
        """Number of free parameters: of the class prior under None, then of each attribute."""
        tables = {name: found.n_free for name, found in self.discrete.items()}
        return {
            None: max(len(self.prior) - 1, 0),
            **tables,
            **{name: 2 * len(of_class) for name, of_class in self.continuous.items()},
        }


def parameters_of(
    statistics: SufficientStatistics, tables: CountViews, values: dict[Any, list[str]]
) -> Parameters:
    """Return the parameters; `values` are the declared values of nominal attributes."""
    known = {label: k for label, k in statistics.classes.items() if statistics.class_weights[k] > 0}
    columns = np.array(list(known.values()), dtype=np.int64)
    discrete: dict[Any, DiscreteParameters] = {}
    for (kind, name), found in _tables(statistics, tables, known, values):
        discrete[(name, _KINDS[kind]) if name in discrete else name] = found
    continuous = {}
    for name, f in statistics.layout.fields.items():
        moments = tables.n[f], tables.mean[f], tables.M2[f]
        pooled = pooled_moments(*moments, 1.0)
        if pooled[1] > 0.0:
            each = {label: moments_of(*moments, k, 1.0, pooled) for label, k in known.items()}
            continuous[name] = {label: Gaussian(*map(float, found)) for label, found in each.items()}
    return Parameters(dict(zip(known, _prior(tables, columns), strict=True)), discrete, continuous)


def _prior(tables: CountViews, columns: Any) -> list[float]:
    weights = tables.classes[columns].astype(np.float64)
    if tables.prior_mode != LEARNED:
        given = np.ones(columns.size) if tables.prior_mode == UNIFORM else tables.prior[columns]
        weights = given if given.any() else np.ones(columns.size)
    return list(map(float, weights / (weights.sum() or 1.0)))


def _tables(
    statistics: SufficientStatistics, tables: CountViews, known: dict[Any, int], values: dict[Any, list[str]]
) -> Iterator[tuple[tuple[int, Any], DiscreteParameters]]:
    size, K = statistics.vocabulary.size, tables.classes.size
    owner, keys = statistics.vocabulary.groups[:size], statistics.vocabulary.keys()
    is_met = tables.table[:size, :K].any(axis=1)
    for (kind, name), g in statistics.layout.groups.items():
        rows = np.flatnonzero((owner == g) & is_met)
        n_values = 2.0 if kind == BERNOULLI else max(float(tables.live[g]), tables.declared[g], 1.0)
        how = smoothing(tables.alpha[g], tables.m[g], tables.p[g], n_values)
        names = [keys[row].decode(errors="replace") for row in rows.tolist()]
        unmet = [value for value in values.get(name, []) if value not in names] if kind == NOMINAL else []
        found = {}
        for label, k in known.items():
            counts = np.concatenate([tables.table[rows, k], np.zeros(len(unmet))])
            shares = _shares(counts, float(tables.totals[g, k]), how)
            found[label] = dict(zip([*names, *unmet], shares.tolist(), strict=True))
        events = float(tables.classes.sum()) or 1.0
        per_event = float(tables.table[rows, :K].sum()) / events if kind != NOMINAL else 1.0
        n = int(n_values)
        yield (
            (kind, name),
            DiscreteParameters(_KINDS[kind], found, float(how.s / UNIT), float(how.S / UNIT), n, per_event),
        )


def _shares(counts: Floats, n: float, how: SmoothingCoefficients) -> Floats:
    """Return (n_c + s) / (n + S), its limit for s = 0."""
    whole = n + how.S
    return (counts + how.s) / whole if whole > 0.0 else np.full(counts.size, how.share)
