"""How the counts of a network are read as probabilities: smoothed, or beside tables that were given."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from streamnb.model.attributes.attributes import Nominal, check_smoothing
from streamnb.model.attributes.weights import UNIT
from streamnb.model.bayesian_network.factors import Factor
from streamnb.model.bayesian_network.family_counts import FamilyTables
from streamnb.model.bayesian_network.kernels import ALPHA, GIVEN_TABLE, M_ESTIMATE, Smoothed
from streamnb.model.compiled.arrays import Floats, Ints

Counts = Ints  # or float64, where some of it is expected


class Reads(NamedTuple):
    """How one table is read.

    Attributes:
        how: ALPHA, M_ESTIMATE or GIVEN_TABLE.
        amount: alpha, m, or the examples that a row of the given table stands for; in units.
        given: the given table, axes as `FamilyTables.family`.
    """

    how: int
    amount: float
    given: Floats | None = None


class NetworkSmoothing:
    """Alpha or the m-estimate for each table, or a table that was given.

        alpha           (n_c + alpha) / (n + alpha k)       k values; alpha = 0 is read as the limit
        m-estimate      (n_c + m / k) / (n + m)
        a given table   (n_c + w p) / (n + w)               which is p where nothing was counted

    Args:
        alpha: of every variable that does not say otherwise.
        m: in place of alpha.
        attributes: name -> `Nominal`, for those that do.
        given: number of a variable -> its table.
        weight: how many examples a row of a given table stands for, above zero.

    Raises:
        ValueError: if one has no meaning. A prior estimate p that is one number for all values is refused:
            probabilities would not sum to 1.
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
            raise ValueError(f"a given table must stand for a number of examples above 0, not {weight!r}")
        self._plain = Reads(ALPHA, alpha * UNIT) if m is None else Reads(M_ESTIMATE, m * UNIT)
        self._own = {name: _own(name, nominal, self._plain) for name, nominal in attributes.items()}
        self._given = {v: Reads(GIVEN_TABLE, weight * UNIT, table) for v, table in given.items()}

    def of(self, tables: FamilyTables, v: int) -> Reads:
        """How the table of a variable is read."""
        return self._given.get(v) or self._own.get(tables.dag.names[v], self._plain)

    def factor(self, tables: FamilyTables, v: int, codes: Mapping[int, int]) -> Factor:
        """P(v | its parents) as a factor, with the variables of `codes` as they are there.

        An axis has an entry for each live value, in the order of their codes: what is yet to be met, or was
        unlearned, changes nothing, not even how a sum is rounded. A variable without any value has one, with
        probability 1, of which nothing is known.
        """
        *parents, _ = tables.family(v)
        at = tuple(codes.get(u, slice(None)) for u in parents)
        scope = (*(u for u in parents if u not in codes), v)
        counts = tables.weights(v)[at]
        for axis, u in enumerate(scope):
            counts = _of_the_live(counts, axis, np.flatnonzero(tables.is_live(u)))
        live = np.flatnonzero(tables.is_live(v))
        logs, misses = _shares(counts, self.of(tables, v), max(1, live.size), at)
        if v not in codes:
            return Factor(scope, logs, misses)
        i = int(np.searchsorted(live, codes[v]))
        return Factor(scope[:-1], logs[..., i], None if misses is None else misses[..., i])

    def arrays(self, tables: FamilyTables, prior: Floats) -> Smoothed:
        """The same for the kernels."""
        shape = tables.shape
        reads = [self.of(tables, v) for v in range(len(tables.dag))]
        given = np.zeros(shape.counts.size if self._given else 0)
        for v, one in self._given.items():
            if one.given is not None:
                given[shape.offset[v] : shape.offset[v] + one.given.size] = one.given.ravel()
        return Smoothed(
            how=np.array([one.how for one in reads], dtype=np.int64),
            amount=np.array([one.amount for one in reads], dtype=np.float64),
            given=given,
            prior=prior,
        )


def _own(name: Any, nominal: Any, plain: Reads) -> Reads:
    if nominal == "nominal":
        nominal = Nominal()
    if not isinstance(nominal, Nominal):
        raise ValueError(f"attribute {name!r}: a network reads nominal values alone, not {nominal!r}")  # noqa: TRY004
    if nominal.n_values is not None:
        raise ValueError(
            f"attribute {name!r}: a network takes no n_values = {nominal.n_values}: list the values"
        )
    if nominal.p is not None:
        raise ValueError(
            f"attribute {name!r}: one prior estimate p = {nominal.p} for every value does not sum to 1; "
            "leave it out for 1/k, or give a table"
        )
    if nominal.m is not None:
        return Reads(M_ESTIMATE, nominal.m * UNIT)
    return plain if nominal.alpha is None else Reads(ALPHA, nominal.alpha * UNIT)


def _of_the_live(counts: Counts, axis: int, live: Counts) -> Counts:
    """The entries of these values along an axis; where there are none, one in which nothing was counted."""
    if live.size == counts.shape[axis] > 0:
        return counts
    if live.size == 0:
        return np.zeros([*counts.shape[:axis], 1, *counts.shape[axis + 1 :]], dtype=np.int64)
    return counts.take(live, axis)


def _shares(counts: Counts, reads: Reads, k: int, at: tuple[Any, ...]) -> tuple[Floats, Counts | None]:
    """Log P of each of k values, along the last axis, and its factors alpha -> 0, where there are any."""
    n = counts.sum(axis=-1, keepdims=True)
    with np.errstate(divide="ignore", invalid="ignore"):
        if reads.given is not None:
            return np.log((counts + reads.amount * reads.given[at]) / (n + reads.amount)), None
        if reads.amount > 0.0:
            every, whole = (
                (reads.amount, reads.amount * k) if reads.how == ALPHA else (reads.amount / k, reads.amount)
            )
            return np.log((counts + every) / (n + whole)), None
        few = float(UNIT) if reads.how == ALPHA else UNIT / k
        missed = (counts == 0) & (n > 0)
        logs = np.where(n > 0, np.log(np.where(missed, few, counts) / n), -math.log(k))
    return logs, missed.astype(np.int64) if missed.any() else None
