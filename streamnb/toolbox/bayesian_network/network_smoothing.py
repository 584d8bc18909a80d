"""Smoothing of a network's counts into probabilities, also relative to declared tables."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from streamnb.features.attributes import Nominal, check_smoothing
from streamnb.kernels.array_types import Floats, Ints
from streamnb.toolbox.bayesian_network.factors import Factor
from streamnb.toolbox.bayesian_network.family_counts import FamilyTables
from streamnb.toolbox.bayesian_network.network_kernels import ALPHA, GIVEN_TABLE, M_ESTIMATE, SmoothedNetwork
from streamnb.values.example_weights import UNIT

Counts = Ints  # or float64 with expected counts


class SmoothingRule(NamedTuple):
    """Smoothing of one table.

    Attributes:
        how: ALPHA, M_ESTIMATE or GIVEN_TABLE.
        amount: alpha, m, or the weight of a row of the declared table, in units.
        given: the declared table, axes as in `FamilyTables.family`, or one distribution for all of its rows.
    """

    how: int
    amount: float
    given: Floats | None = None

    def given_at(self, at: tuple[Any, ...]) -> Floats | None:
        """Return the declared distributions of some values of the parents; None if none are declared."""
        return self.given if self.given is None or self.given.ndim == 1 else self.given[at]


class NetworkSmoothing:
    """Alpha, the m-estimate or a declared table, for each variable.

        alpha           (n_c + alpha) / (n + alpha k)       k values; alpha = 0 means the limit
        m-estimate      (n_c + m / k) / (n + m)             or with a p for each value, (n_c + m p) / (n + m)
        declared table  (n_c + w p) / (n + w)               which is p without counts

    Args:
        alpha: alpha of every variable without its own smoothing.
        m: m of these variables, used instead of alpha.
        attributes: `Nominal` by name, for variables with their own smoothing.
        given: declared table by variable number.
        weight: number of examples that a row of a declared table stands for, greater than 0.

    Raises:
        ValueError: if a parameter is out of range. A single prior estimate p for all values is refused,
            because the probabilities would not sum to 1.
    """

    def __init__(
        self,
        alpha: float,
        m: float | None,
        attributes: Mapping[Any, Any],
        given: Mapping[int, Floats],
        weight: float,
    ) -> None:
        check_smoothing(alpha, None, None)
        check_smoothing(None, m, None)
        if not 0.0 < weight < math.inf:
            raise ValueError(
                f"the weight of a declared table must be finite and greater than 0, not {weight!r}"
            )
        self._plain = SmoothingRule(ALPHA, alpha * UNIT) if m is None else SmoothingRule(M_ESTIMATE, m * UNIT)
        self._own = {name: _own(name, nominal, self._plain) for name, nominal in attributes.items()}
        self._given = {v: SmoothingRule(GIVEN_TABLE, weight * UNIT, table) for v, table in given.items()}

    def rule_of(self, tables: FamilyTables, v: int) -> SmoothingRule:
        """Return the smoothing of a variable's table."""
        return self._given.get(v) or self._own.get(tables.dag.names[v], self._plain)

    def factor(
        self, tables: FamilyTables, v: int, codes: Mapping[int, int], *, is_geometric: bool = False
    ) -> Factor:
        """Return P(v | its parents) as a factor, with the variables in `codes` fixed.

        With `is_geometric` it is exp(E log P(v | its parents)), the geometric mean under the posterior of the
        table, whose rows sum to less than 1.

        An axis has an entry for each live value, in the order of their codes. So values that have not
        appeared or were unlearned change nothing, not even rounding. A variable without values gets one
        unknown value of probability 1.
        """
        *parents, _ = tables.family(v)
        at = tuple(codes.get(u, slice(None)) for u in parents)
        scope = (*(u for u in parents if u not in codes), v)
        counts = tables.weights(v)[at]
        for axis, u in enumerate(scope):
            counts = _of_the_live(counts, axis, np.flatnonzero(tables.is_live(u)))
        live = np.flatnonzero(tables.is_live(v))
        reads = _expected_logs if is_geometric else _shares
        logs, misses = reads(counts, self.rule_of(tables, v), max(1, live.size), at)
        if v not in codes:
            return Factor(scope, logs, misses)
        i = int(np.searchsorted(live, codes[v]))
        return Factor(scope[:-1], logs[..., i], None if misses is None else misses[..., i])

    def arrays(self, tables: FamilyTables, prior: Floats) -> SmoothedNetwork:
        """Return the smoothing of all variables for the kernels."""
        shape = tables.shape
        reads = [self.rule_of(tables, v) for v in range(len(tables.dag))]
        given = np.zeros(shape.counts.size if any(one.given is not None for one in reads) else 0)
        for v, one in enumerate(reads):
            if one.given is not None:
                tables.whole_table(v, given)[...] = one.given
        return SmoothedNetwork(
            how=np.array([one.how for one in reads], dtype=np.int64),
            amount=np.array([one.amount for one in reads], dtype=np.float64),
            given=given,
            prior=prior,
        )


def _own(name: Any, nominal: Any, plain: SmoothingRule) -> SmoothingRule:
    if nominal == "nominal":
        nominal = Nominal()
    if not isinstance(nominal, Nominal):
        raise ValueError(f"attribute {name!r}: a network reads only nominal values, not {nominal!r}")  # noqa: TRY004
    if nominal.n_values is not None:
        raise ValueError(
            f"attribute {name!r}: a network does not use n_values = {nominal.n_values}: declare the values"
        )
    if isinstance(nominal.p, Mapping):
        if not nominal.m:
            raise ValueError(f"attribute {name!r}: a p for each value needs an m above 0")
        return SmoothingRule(GIVEN_TABLE, nominal.m * UNIT, np.array(list(nominal.p.values())))
    if nominal.p is not None:
        raise ValueError(
            f"attribute {name!r}: one prior estimate p = {nominal.p} for every value does not sum to 1; "
            "omit it for 1/k, or give a p for each value, {'y': 0.7, 'n': 0.3}"
        )
    if nominal.m is not None:
        return SmoothingRule(M_ESTIMATE, nominal.m * UNIT)
    return plain if nominal.alpha is None else SmoothingRule(ALPHA, nominal.alpha * UNIT)


def _of_the_live(counts: Counts, axis: int, live: Counts) -> Counts:
    """Return the entries of the live values along an axis; one zero entry if there are none."""
    if live.size == counts.shape[axis] > 0:
        return counts
    if live.size == 0:
        return np.zeros([*counts.shape[:axis], 1, *counts.shape[axis + 1 :]], dtype=np.int64)
    return counts.take(live, axis)


def _expected_logs(
    counts: Counts, reads: SmoothingRule, k: int, at: tuple[Any, ...]
) -> tuple[Floats, Counts | None]:
    """Return E log theta of a row theta ~ Dirichlet(counts + prior): digamma(a) - digamma(sum of a)."""
    from scipy.special import digamma  # noqa: PLC0415  slow to load, and only variational Bayes needs it

    given = reads.given_at(at)
    if given is not None:
        prior: Any = reads.amount * given
    else:
        prior = reads.amount if reads.how == ALPHA else reads.amount / k
    a = (counts + prior) / UNIT
    logs = np.where(a > 0.0, digamma(np.where(a > 0.0, a, 1.0)), -np.inf)
    return logs - digamma(a.sum(axis=-1, keepdims=True)), None


def _shares(
    counts: Counts, reads: SmoothingRule, k: int, at: tuple[Any, ...]
) -> tuple[Floats, Counts | None]:
    n, given = counts.sum(axis=-1, keepdims=True), reads.given_at(at)
    with np.errstate(divide="ignore", invalid="ignore"):
        if given is not None:
            return np.log((counts + reads.amount * given) / (n + reads.amount)), None
        if reads.amount > 0.0:
            every, whole = (
                (reads.amount, reads.amount * k) if reads.how == ALPHA else (reads.amount / k, reads.amount)
            )
            return np.log((counts + every) / (n + whole)), None
        few = float(UNIT) if reads.how == ALPHA else UNIT / k
        missed = (counts == 0) & (n > 0)
        logs = np.where(n > 0, np.log(np.where(missed, few, counts) / n), -math.log(k))
    return logs, missed.astype(np.int64) if missed.any() else None
