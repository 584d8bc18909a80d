"""Parameters of naive Bayes as numbers: P(v), P(a | v) with its smoothing, and Gaussians.

They are computed from the counts by the formulas of `joint_log_likelihood`, without its kernels. A *free*
parameter is not determined by the other parameters of its distribution:

    prior              K - 1          of K classes
    nominal            K (k - 1)      of k values
    multinomial text   K (|V| - 1)    of |V| words
    Bernoulli text     K |V|
    continuous         2 K, or K + 1 if all classes share the variance
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from streamnb.models.naive_bayes.gaussian_factors import gaussian_of, reading_of
from streamnb.models.naive_bayes.linear_form import smoothing, smoothing_of_rows
from streamnb.models.naive_bayes.naive_bayes_tables import CountViews, Covariance
from streamnb.models.naive_bayes.sufficient_statistics import SufficientStatistics
from streamnb.statistics.class_priors import relative_weights
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
        added: the count that smoothing adds to each value: (n_c + added) / (n + added_total). A mapping if
            each value has its own.
        added_total: what it adds to the total of a class.
        n_values: number of values that share this total; 2 for each word of a Bernoulli text.
        words_per_event: mean number of words of an event; 1 for a nominal attribute.
    """

    kind: str
    table: dict[Any, dict[str, float]]
    added: float | dict[str, float]
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
        covariance: "own", or "tied" if all classes share the variance of an attribute.
    """

    prior: dict[Any, float]
    discrete: dict[Any, DiscreteParameters]
    continuous: dict[Any, dict[Any, Gaussian]]
    covariance: Covariance = "own"

    @property
    def n_free(self) -> dict[Any, int]:
        """Number of free parameters: of the class prior under None, then of each attribute."""
        tables = {name: found.n_free for name, found in self.discrete.items()}
        K, is_tied = len(self.prior), self.covariance == "tied"
        return {
            None: max(K - 1, 0),
            **tables,
            **dict.fromkeys(self.continuous, K + 1 if is_tied else 2 * K),
        }


def parameters_of(
    statistics: SufficientStatistics, tables: CountViews, values: Mapping[Any, Mapping[str, float | None]]
) -> Parameters:
    """Return the parameters; `values` are the declared values of nominal attributes, with their own p."""
    known = {label: k for label, k in statistics.classes.items() if statistics.class_weights[k] > 0}
    columns = np.array(list(known.values()), dtype=np.int64)
    discrete: dict[Any, DiscreteParameters] = {}
    for (kind, name), found in _tables(statistics, tables, known, values):
        discrete[(name, _KINDS[kind]) if name in discrete else name] = found
    continuous = {}
    for name, f in statistics.layout.fields.items():
        reading = reading_of(tables, f)
        if reading[1] > 0.0:
            each = {label: gaussian_of(tables, f, k, reading) for label, k in known.items()}
            continuous[name] = {label: Gaussian(*map(float, found)) for label, found in each.items()}
    weights = relative_weights(tables.classes, tables.prior, tables.prior_mode)[columns]
    weights = weights if weights.any() else np.ones(columns.size)
    prior = dict(zip(known, (weights / (weights.sum() or 1.0)).tolist(), strict=True))
    return Parameters(prior, discrete, continuous, "tied" if tables.tied else "own")


def _tables(
    statistics: SufficientStatistics,
    tables: CountViews,
    known: dict[Any, int],
    values: Mapping[Any, Mapping[str, float | None]],
) -> Iterator[tuple[tuple[int, Any], DiscreteParameters]]:
    size, K = statistics.vocabulary.size, tables.classes.size
    owner, keys = statistics.vocabulary.groups[:size], statistics.vocabulary.keys()
    is_met = tables.table[:size, :K].any(axis=1)
    for (_, name), g in statistics.layout.groups.items():
        rows, kind = np.flatnonzero((owner == g) & is_met), int(tables.kinds[g])
        n_values = 2.0 if kind == BERNOULLI else max(float(tables.live[g]), tables.declared[g], 1.0)
        how = smoothing(tables.alpha[g], tables.m[g], tables.p[g], n_values)
        names = [keys[row].decode(errors="replace") for row in rows.tolist()]
        unmet = [value for value in values.get(name, ()) if value not in names] if kind == NOMINAL else []
        of_rows = smoothing_of_rows(how, tables, g, rows)
        s = np.append(np.broadcast_to(of_rows.s, rows.size), [how.s] * len(unmet))
        share = np.append(np.broadcast_to(of_rows.share, rows.size), [how.share] * len(unmet))
        for i, value in enumerate(unmet, rows.size):
            if (p := values[name][value]) is not None:
                s[i], share[i] = p * how.S, p
        whole = [*names, *unmet]
        is_even = (s == how.s).all()
        found = {}
        for label, k in known.items():
            counts = np.concatenate([tables.table[rows, k], np.zeros(len(unmet))])
            total = float(tables.totals[g, k]) + how.S
            shares = (counts + s) / total if total > 0.0 else share
            found[label] = dict(zip(whole, shares.tolist(), strict=True))
        events = float(tables.classes.sum()) or 1.0
        per_event = float(tables.table[rows, :K].sum()) / events if kind != NOMINAL else 1.0
        added = float(how.s / UNIT) if is_even else dict(zip(whole, (s / UNIT).tolist(), strict=True))
        amounts = added, float(how.S / UNIT), int(n_values), per_event
        yield (kind, name), DiscreteParameters(_KINDS[kind], found, *amounts)
