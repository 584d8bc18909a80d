"""Counts of a hidden Markov model under the names of its states and symbols, and derived probabilities."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise, repeat
from typing import Any, NamedTuple, Self

import numpy as np

from streamnb.errors import SnapshotError, UnlearnError
from streamnb.kernels.array_types import Floats
from streamnb.toolbox.hidden_markov.emissions import Emissions
from streamnb.toolbox.hidden_markov.forward_backward import ChainTables
from streamnb.toolbox.hidden_markov.initial_parameters import Distributions
from streamnb.toolbox.hidden_markov.transitions import Counts, Transitions
from streamnb.values.example_weights import UNIT
from streamnb.values.number_ranges import is_missing
from streamnb.values.state_validation import checked_names, plain
from streamnb.values.type_aliases import Array, State

_MISSING = -1


class HiddenMarkovPrior(NamedTuple):
    """Prior knowledge: p and m of the m-estimates.

    Attributes:
        initial: distribution of the first state, in one row.
        transition: distribution of the next state, by state.
        emission: distribution of the symbols, by state.
        m: imaginary examples of the first state, and of the successors of each state.
        emission_m: imaginary examples of the symbols of each state.
    """

    initial: Distributions
    transition: Distributions
    emission: Distributions
    m: float
    emission_m: float

    @property
    def states(self) -> list[Any]:
        """Every state that is named, in order of appearance."""
        named = [*self.initial.columns, *self.transition.rows, *self.transition.columns, *self.emission.rows]
        return list(dict.fromkeys(named))


class DerivedTables(NamedTuple):
    """Values derived from the counts.

    Attributes:
        states: names of the K states that are declared or counted, in order of appearance.
        numbers: int64[K], their columns in the counts.
        chain: their transition probabilities.
    """

    states: list[Any]
    numbers: Counts
    chain: ChainTables


class HiddenMarkovTables:
    """Counts of named states and symbols; a name whose counts are all unlearned is treated as unknown.

    Attributes:
        prior: see `Prior`.
        transitions: counts of states, which may include states absent from `DerivedTables.states`.
        emissions: counts of symbols, which may include symbols absent from `symbols`.
    """

    def __init__(self, prior: HiddenMarkovPrior) -> None:
        self.prior = prior
        self._states = {state: i for i, state in enumerate(prior.states)}
        self._symbols = {symbol: i for i, symbol in enumerate(prior.emission.columns)}
        self._names = list(self._symbols)
        self._declared = len(self._states)
        self.transitions = Transitions(self._declared)
        self.emissions = Emissions(len(self._symbols), self._declared, len(self._symbols))
        self._derived: DerivedTables | None = None
        self._rows: dict[int, tuple[Floats, Floats]] = {}

    def count(
        self, observations: Sequence[Any], states: Sequence[Any], weight: int, *, begins: bool = True
    ) -> None:
        """Count a stretch of a sequence; unless it `begins` one, its first state serves only as context.

        In a stretch that continues an earlier one, the first observation belongs to the event before, and is
        missing. Raises TypeError, and changes nothing, for names that cannot be hashed.
        """
        for name in (*observations, *states):
            hash(name)
        for state in states:
            if not is_missing(state):
                self._states.setdefault(state, len(self._states))
        for symbol, state in zip(observations, states, strict=True):
            if not (is_missing(symbol) or is_missing(state)) and symbol not in self._symbols:
                self._symbols[symbol] = len(self._symbols)
                self._names.append(symbol)
        self.transitions.grow(len(self._states))
        self.emissions.grow(len(self._symbols), len(self._states))
        for part, place, times in self._counted(observations, states, begins=begins):
            part.update(*place, times * weight)
        self._changed()

    def take_back(self, observations: Sequence[Any], states: Sequence[Any], weight: int) -> None:
        """Undo `count` of a whole sequence. Raises UnlearnError, and then changes nothing."""
        known = all(is_missing(state) or state in self._states for state in states)
        known &= all(
            is_missing(symbol) or is_missing(state) or symbol in self._symbols
            for symbol, state in zip(observations, states, strict=True)
        )
        counted = self._counted(observations, states) if known else []
        if not known or any(times * weight > part.counted(*place) for part, place, times in counted):
            raise UnlearnError(f"no such sequence was learned with a weight of {weight / UNIT:g}")
        for part, place, times in counted:
            part.update(*place, -times * weight)
        self._changed()

    def _counted(
        self, observations: Sequence[Any], states: Sequence[Any], *, begins: bool = True
    ) -> list[tuple[Any, tuple[Any, int], int]]:
        numbers = [_MISSING if is_missing(state) else self._states[state] for state in states]
        symbols = self.codes(observations, counted=False).tolist()
        moves: list[tuple[Any, int]] = list(pairwise(numbers))
        if begins and numbers:
            moves.append((None, numbers[0]))
        found = (self.transitions, moves), (self.emissions, zip(symbols, numbers, strict=True))
        counted = ((part, Counter(pair for pair in pairs if _MISSING not in pair)) for part, pairs in found)
        return [(part, place, times) for part, counts in counted for place, times in counts.items()]

    def _changed(self) -> None:
        self._derived = None
        self._rows.clear()

    @property
    def symbols(self) -> list[Any]:
        """Every symbol that is declared or counted, in order of appearance."""
        return [symbol for symbol, i in self._symbols.items() if self.emissions.is_live(i)]

    def derived(self) -> DerivedTables:
        """Return the states, and the probabilities of the chain."""
        if self._derived is None:
            first, table = self.transitions.first, self.transitions.table
            alive = first.astype(bool) | table.any(axis=0) | table.any(axis=1)
            alive |= self.emissions.totals.astype(bool)
            alive[: self._declared] = True
            numbers = np.flatnonzero(alive)
            names = list(self._states)
            states = [names[i] for i in numbers.tolist()]
            self._derived = DerivedTables(states, numbers, self._chain(states, numbers))
        return self._derived

    def _chain(self, states: list[Any], numbers: Counts) -> ChainTables:
        living, prior, K = Transitions(numbers.size), self.prior, len(states)
        living.first[:] = self.transitions.first[numbers]
        living.table[:] = self.transitions.table[np.ix_(numbers, numbers)]
        if not K:
            return ChainTables.from_logs(living.log_initial(), living.log_table())
        return ChainTables.from_logs(
            living.log_initial(prior.m, prior.initial.table(["a sequence"], states, K)[0]),
            living.log_table(prior.m, prior.transition.table(states, states, K)),
        )

    def codes(self, observations: Iterable[Any], *, counted: bool = True) -> Counts:
        """Return symbol numbers, int64[n]; -1 if missing or, with `counted`, neither declared nor counted."""
        get = self._symbols.get
        known = observations if isinstance(observations, (list, str, tuple)) else list(observations)
        codes = np.fromiter(map(get, known, repeat(_MISSING)), dtype=np.int64, count=len(known))
        if counted and self.emissions.live < self.emissions.symbols:
            is_live = np.append(self.emissions.by_symbol > 0, values=False)
            is_live[: self.emissions.declared] = True
            codes[~is_live[codes]] = _MISSING
        return codes

    def code(self, x: Any) -> int:
        """Return the number of one symbol, or -1."""
        code = self._symbols.get(x, _MISSING)
        return code if self.emissions.is_live(code) else _MISSING

    def log_rows(self, symbols: Counts) -> Floats:
        """Return log P(symbol | state) of some symbols, float64[U, K]."""
        states, numbers, _ = self.derived()
        if not len(states) or not symbols.size:
            return np.zeros((symbols.size, len(states)))
        live, prior = self.emissions.live, self.prior
        if prior.emission.rows:
            names = [self._names[i] for i in symbols.tolist()]
            p = prior.emission.table(states, names, live).T
        else:
            p = np.full((symbols.size, len(states)), 1.0 / live)
        return self.emissions.log_rows(symbols, numbers, prior.emission_m, p)

    def rows_of(self, symbol: int) -> tuple[Floats, Floats]:
        """Return log P(symbol | state) of one symbol, shape (1, K), and its exponential; both are cached."""
        rows = self._rows.get(symbol)
        if rows is None:
            log_rows = self.log_rows(np.array([symbol]))
            rows = self._rows[symbol] = log_rows, np.exp(log_rows)
        return rows

    def state(self) -> State:
        """Return all names, in order, and counts. Raises TypeError for names that JSON cannot hold."""
        first, following = self.transitions.first, self.transitions.table
        meta = {"states": [*map(plain, self._states)], "symbols": [*map(plain, self._symbols)]}
        arrays = {"first": first, "next": following, "seen": self.emissions.table}
        return meta, {name: array.copy() for name, array in arrays.items()}

    @classmethod
    def from_state(
        cls, prior: HiddenMarkovPrior, meta: Mapping[str, Any], arrays: Mapping[str, Array]
    ) -> Self:
        """Restore the counts of a `state` under the same prior. Raises SnapshotError."""
        states = checked_names(meta.get("states"), prior.states)
        symbols = checked_names(meta.get("symbols"), prior.emission.columns)
        if set(arrays) != {"first", "next", "seen"}:
            raise SnapshotError(f"expected the arrays first, next and seen, found {sorted(arrays)}")
        sizes = {"states": len(states), "symbols": len(symbols), "declared": len(prior.emission.columns)}
        tables = cls(prior)
        tables.transitions = Transitions.from_state(
            sizes, {"first": arrays["first"], "table": arrays["next"]}
        )
        tables.emissions = Emissions.from_state(sizes, {"table": arrays["seen"]})
        tables._states = {state: i for i, state in enumerate(states)}
        tables._names = symbols
        tables._symbols = {symbol: i for i, symbol in enumerate(symbols)}
        return tables
