"""Compare a recount with the learned state: every number, by attribute, value and class."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import chain, repeat
from typing import Any, NamedTuple

import numpy as np

from streamnb.errors import SnapshotError
from streamnb.formats.snapshot_container import SnapshotPart
from streamnb.kernels.array_types import Ints
from streamnb.models.interface.stream_model import StreamModel
from streamnb.models.naive_bayes.counting_model import CountingModel
from streamnb.models.naive_bayes.learned_counts import statistics_from_state
from streamnb.models.naive_bayes.sufficient_statistics import SufficientStatistics
from streamnb.models.softmax.feature_table import KEY, KEY_BITS
from streamnb.models.tenants.tenant_models import TenantModels
from streamnb.values.example_weights import UNIT
from streamnb.values.parameter_checks import pluralize
from streamnb.values.state_validation import state_errors
from streamnb.values.type_aliases import Array
from streamnb.verification.check_results import CheckResults
from streamnb.verification.exact.exact_moments import ExactMoments
from streamnb.verification.recount.event_recount import Group, Recount, Row, TenantRecount
from streamnb.verification.recount.posterior_audit import PosteriorAudit

_Place = Mapping[str, str | int]
_Weights = Mapping[str, int]
_AT_ONCE = 4096  # rows


class LearnedState(NamedTuple):
    """Learned state, number of records it has seen, and its posterior over hypotheses.

    With models for each tenant, `statistics` belong to the shared model.
    """

    statistics: SufficientStatistics
    consumed: int
    dead_letters: int
    books: PosteriorAudit | None = None
    tenants: TenantModels | None = None

    @classmethod
    def of_model(cls, model: StreamModel, consumed: int, dead_letters: int) -> LearnedState:
        """Return the state of a model, and its numbers of records and dead letters."""
        seen = consumed, dead_letters
        if isinstance(model, TenantModels):
            shared = model.shared
            return cls(SufficientStatistics() if shared is None else shared.statistics, *seen, None, model)
        if not isinstance(model, CountingModel):
            raise SnapshotError(f"a {type(model).__name__} holds no table of counts")
        return cls(model.statistics, *seen, PosteriorAudit.of_model(model))

    @classmethod
    def read(cls, parts: Mapping[str, SnapshotPart]) -> LearnedState:
        """Return the state in a snapshot; raise SnapshotError if it holds none."""
        with state_errors("such a learner", IndexError, ValueError):
            meta, arrays = model = parts["model"]
            counters = parts["learner"].meta
            groups = arrays["groups"]
            np.array(meta["groups"], dtype=object)[np.where(groups < 0, ~groups, groups)]
            statistics = statistics_from_state(meta, arrays)
            _check_features(arrays)
            seen = counters["consumed"], counters["dead_letters"]
            return cls(statistics, *seen, PosteriorAudit.read(model))


def _check_features(arrays: Mapping[str, Array]) -> None:
    """Raise ValueError for duplicate or unordered features, which a model that loads them would hide."""
    if "learned_features" in arrays:
        rows, once = arrays["learned_features"][:, KEY], arrays["learned_features_met_once"]
        keys = np.append(rows.astype(np.uint64), once & KEY_BITS)
        if np.unique(keys).size < keys.size or not (once[1:] > once[:-1]).all():
            raise ValueError("a feature is there twice, or those met once are not in order")


@dataclass
class Compared:
    """Numbers of values that are equal: counts, and cells of continuous attributes."""

    counts: int = 0
    moments: int = 0

    def __str__(self) -> str:
        return f"{pluralize(self.counts, 'count')} and {pluralize(self.moments, 'moment')} equal"


class _Row(NamedTuple):
    row: Row
    counts: dict[str, int]
    presence: dict[str, int]
    is_stopped: bool


def _cells(table: Ints, labels: Sequence[str]) -> Iterator[dict[str, int]]:
    for first in range(0, len(table), _AT_ONCE):
        part = table[first : first + _AT_ONCE]
        cells: list[dict[str, int]] = [{} for _ in part]
        rows, columns = np.nonzero(part)
        for row, k, count in zip(rows.tolist(), columns.tolist(), part[rows, columns].tolist(), strict=True):
            cells[row][labels[k]] = count
        yield from cells


def _rows(statistics: SufficientStatistics) -> Iterator[_Row]:
    owners, labels = list(statistics.layout.groups), [str(label) for label in statistics.classes]
    vocabulary = statistics.vocabulary
    groups = vocabulary.groups[: vocabulary.size].tolist()
    counted = _cells(statistics.counts.table, labels)
    held = _cells(statistics.presence.counts.table, labels) if statistics.presence else repeat({})
    for group, key, found, presence in zip(groups, vocabulary.keys(), counted, held, strict=False):
        kind, name = owners[max(group, ~group)]  # LearnedState.read has seen to it that there is one
        yield _Row(((kind, str(name)), key.decode(errors="backslashreplace")), found, presence, group < 0)


def _totals(statistics: SufficientStatistics, table: Ints) -> dict[Group, dict[str, int]]:
    return {
        (kind, str(name)): {
            str(label): int(total) for label, total in zip(statistics.classes, totals.tolist(), strict=False)
        }
        for (kind, name), totals in zip(statistics.layout.groups, table, strict=True)
    }


def _texts(statistics: SufficientStatistics) -> dict[Group, dict[str, int]]:
    return _totals(statistics, statistics.presence.counts.totals) if statistics.presence else {}


def _classes(statistics: SufficientStatistics) -> dict[str, int]:
    weights = statistics.class_weights.tolist()
    return {str(label): int(weights[k]) for label, k in statistics.classes.items()}


def _moments(statistics: SufficientStatistics) -> dict[tuple[str, str], tuple[int, float, float]]:
    n, mean, M2 = (array.tolist() for array in statistics.moments)  # noqa: N806
    return {
        (str(name), str(label)): (n[f][k], mean[f][k], M2[f][k])
        for name, f in statistics.layout.fields.items()
        for label, k in statistics.classes.items()
        if n[f][k] != 0 or mean[f][k] != 0.0 or M2[f][k] != 0.0
    }


def recount_of(state: LearnedState) -> Recount:
    """Return a recount that continues a state; raise SnapshotError for invalid numbers."""
    recount = Recount()
    recount.consumed, recount.dead_letters = state.consumed, state.dead_letters
    recount.events = state.statistics.events
    recount.met = 0 if state.books is None else state.books.met
    recount.classes.update(_classes(state.statistics))
    for (kind, name), by_class in _totals(state.statistics, state.statistics.counts.totals).items():
        recount.totals[recount.group(kind, name)].update(by_class)
    for (kind, name), by_class in _texts(state.statistics).items():
        recount.texts[recount.group(kind, name)].update(by_class)
    for ((kind, name), word), counts, presence, is_stopped in _rows(state.statistics):
        row = (recount.group(kind, name), word)
        if is_stopped:
            recount.stopped.add(row)
            continue
        recount.rows[row] = counts
        if presence:
            recount.presence[row] = presence
    for cell, (n, mean, M2) in _moments(state.statistics).items():  # noqa: N806
        if not (n > 0 and math.isfinite(mean) and 0.0 <= M2 < math.inf):
            raise SnapshotError(f"{cell[0]!r} of class {cell[1]!r} has moments {n}, {mean}, {M2}")
        recount.moments[cell] = ExactMoments.of(n, mean, M2)
    recount.sources = state.statistics.sources
    recount.begin_with(map(str, state.statistics.layout.fields))
    return recount


def compare(recount: Recount, state: LearnedState, check: str, at: int, findings: CheckResults) -> Compared:
    """Report every number that differs at journal record `at`, and return how many are equal.

    Counts are exact. Means and M2 may differ from exact ones by at most the rounding bound of
    `exact.moments`.
    """
    comparing = _Comparing(check, at, findings)
    comparing.number("records consumed", {}, recount.consumed, state.consumed)
    comparing.number("dead letters", {}, recount.dead_letters, state.dead_letters)
    if state.books is not None:
        comparing.books(recount, state.books)
    if state.tenants is None:
        comparing.tables(recount, state.statistics)
    else:
        comparing.tenants(recount, state.tenants)
    return comparing.equal


class _Comparing:
    def __init__(self, check: str, at: int, findings: CheckResults) -> None:
        self.equal = Compared()
        self._check, self._at, self._findings = check, at, findings
        self._whose: dict[str, str] = {}  # the tenant whose model is compared

    def tenants(self, recount: Recount, models: TenantModels) -> None:
        assert isinstance(recount, TenantRecount)  # noqa: S101
        if models.shared is not None:
            self.tables(recount, models.shared.statistics)
        self.number("events learned by all", {}, recount.events, models.n_events)
        known = dict.fromkeys(models.store.names)
        for name in {**recount.tenants, **known}:
            self._whose = {"tenant": name}
            try:
                statistics = models.tenant(name).statistics if name in known else SufficientStatistics()
            except SnapshotError as error:
                place: dict[str, str | int] = {"record": self._at, "tenant": name}
                text = f"at journal record {self._at}, tenant {name!r}: {error}"
                self._findings.differs(self._check, text, place)
                continue
            self.tables(recount.tenants.get(name, Recount()), statistics)
        self._whose = {}

    def tables(self, recount: Recount, statistics: SufficientStatistics) -> None:
        self.number("events learned", {}, recount.events, statistics.events)
        self.by_class("weight", {}, recount.classes, _classes(statistics))
        self.rows(recount, statistics)
        self.by_group("total", recount.totals, _totals(statistics, statistics.counts.totals))
        self.by_group("texts", recount.texts, _texts(statistics))
        learned = _moments(statistics)
        for cell in {**recount.moments, **learned}:
            self.cell(*cell, recount.moments.get(cell), learned.get(cell, (0, 0.0, 0.0)))
        if not recount.events:  # nothing has been counted yet, in whichever tables
            recount.sources = statistics.sources
        self.number("sources of counts", {}, recount.sources, statistics.sources)

    def number(self, what: str, place: _Place, counted: Any, learned: Any) -> None:
        if counted == learned:
            return
        place = {**self._whose, **place}
        where = ", ".join(f"{key} {value!r}" for key, value in place.items())
        self._findings.differs(
            self._check,
            f"at journal record {self._at}{', ' if where else ''}{where}: {what} {learned} learned, "
            f"{counted} counted",
            {"record": self._at, **place},
            found=learned,
            expected=counted,
        )

    def by_class(self, what: str, place: _Place, counted: _Weights, learned: _Weights) -> None:
        """Compare weights by class, reported in examples; a class of weight 0 counts as absent."""
        for label in {**counted, **learned}:
            pair = counted.get(label, 0), learned.get(label, 0)
            if pair[0] == pair[1]:
                self.equal.counts += pair[0] != 0
            else:
                self.number(what, {**place, "class": label}, pair[0] / UNIT, pair[1] / UNIT)

    def by_group(
        self, what: str, counted: Mapping[Group, _Weights], learned: Mapping[Group, _Weights]
    ) -> None:
        for group in {**counted, **learned}:
            self.by_class(what, {"attribute": group[1]}, counted.get(group, {}), learned.get(group, {}))

    def books(self, recount: Recount, books: PosteriorAudit) -> None:
        observed = recount.events + recount.unlearned - recount.corrected
        self.number("observations of the posterior", {}, observed, books.posterior.observations)
        self.number("events that the hypotheses met", {}, recount.met, books.met)
        for what, hypothesis, found, expected in books.faults():
            self.number(what, {"hypothesis": hypothesis}, expected, found)

    def rows(self, recount: Recount, statistics: SufficientStatistics) -> None:
        seen: set[Row] = set()
        unlearned = (_Row(row, {}, {}, is_stopped=False) for row in recount.rows if row not in seen)
        for row, learned, presence, is_stopped in chain(_rows(statistics), unlearned):
            place = {"attribute": row[0][1], "value": row[1]}
            if row in seen:
                self.number("rows", place, 1, 2)
                continue
            seen.add(row)
            if is_stopped != (row in recount.stopped):
                here, there = ("stopped", "not stopped")[:: 1 if is_stopped else -1]
                self.number("word", place, there, here)
            self.by_class("count", place, recount.rows.get(row, {}), learned)
            self.by_class("texts", place, recount.presence.get(row, {}), presence)
        for group, word in sorted(recount.stopped - seen):
            self.number("word", {"attribute": group[1], "value": word}, "stopped", "not there")

    def cell(
        self, name: str, label: str, counted: ExactMoments | None, learned: tuple[int, float, float]
    ) -> None:
        place = {"attribute": name, "class": label}
        n, *values = learned
        if counted is None or counted.n != n:
            self.number("weight", place, 0.0 if counted is None else counted.n / UNIT, n / UNIT)
            return
        exact, are_close = (counted.mean, counted.M2), True
        for what, value, right, bound in zip(("mean", "M2"), values, exact, counted.bounds(), strict=True):
            if not (math.isfinite(value) and abs(Fraction(value) - right) <= bound):
                self.number(what, place, float(right), value)
                are_close = False
        self.equal.moments += are_close
