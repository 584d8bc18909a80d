"""Counts of the symbols emitted in each state of a hidden Markov model.

P(x | s) = (n_xs + m p_xs) / (n_s + m)
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from streamnb.kernels.array_types import Floats
from streamnb.kernels.growable_arrays import roomier
from streamnb.toolbox.hidden_markov.transitions import Counts, log_m_estimate
from streamnb.values.example_weights import UNIT
from streamnb.values.state_validation import MOST, checked, count, counts, reject
from streamnb.values.type_aliases import Array


class Emissions:
    """Counts of symbols by state, both numbered in order of appearance; the same laws as `Transitions`.

    Attributes:
        symbols: V, number of symbols.
        states: K, number of states; V and K never shrink.
        declared: number of declared symbols, which come first and are always live.
        live: number of symbols that are declared, or counted in any state.
    """

    def __init__(self, symbols: int = 0, states: int = 0, declared: int = 0) -> None:
        self.declared = self.live = declared
        self.symbols = 0
        self.states = 0
        self._table = np.zeros((8, 2), dtype=np.int64)
        self._totals = np.zeros(2, dtype=np.int64)
        self._by_symbol = np.zeros(8, dtype=np.int64)
        self.grow(max(symbols, declared), states)

    @property
    def table(self) -> Counts:
        """Weight of each symbol in each state, int64[V, K], in units of 1/1024 example; a view."""
        return self._table[: self.symbols, : self.states]

    @property
    def totals(self) -> Counts:
        """Weight of all symbols in each state, int64[K]; a view."""
        return self._totals[: self.states]

    def is_live(self, symbol: int) -> bool:
        """Return True if a symbol is declared or counted."""
        return 0 <= symbol < self.declared or (0 <= symbol < self.symbols and bool(self._by_symbol[symbol]))

    @property
    def by_symbol(self) -> Counts:
        """Weight of each symbol in all states, int64[V]; a view."""
        return self._by_symbol[: self.symbols]

    def grow(self, symbols: int, states: int) -> None:
        """Grow to at least this many symbols and states."""
        if symbols > self.symbols or states > self.states:
            self._table = roomier(self._table, symbols, states, times=2)
            self._totals = roomier(self._totals, states, times=2)
            self._by_symbol = roomier(self._by_symbol, symbols, times=2)
            self.symbols, self.states = max(self.symbols, symbols), max(self.states, states)

    def update(self, symbol: int, state: int, weight: int = UNIT) -> None:
        """Count a symbol in a state with a weight in units; a negative weight takes it back."""
        self.grow(symbol + 1, state + 1)
        was_live = self.is_live(symbol)
        self._table[symbol, state] += weight
        self._totals[state] += weight
        self._by_symbol[symbol] += weight
        self.live += self.is_live(symbol) - was_live

    def counted(self, symbol: int, state: int) -> int:
        """Return the weight of a symbol in a state, in units; 0 for an unknown symbol or state."""
        known = symbol < self.symbols and state < self.states
        return int(self._table[symbol, state]) if known else 0

    def log_rows(self, symbols: Counts, states: Counts, m: float, p: npt.ArrayLike) -> Floats:
        """Return log P(x | s) of some symbols in some states, float64[U, K'], with p of the same shape.

        For m = 0 see `log_m_estimate`.
        """
        counts, spread = self.table[np.ix_(symbols, states)], np.asarray(p, dtype=np.float64)
        own_and_rest = np.stack([counts, self.totals[states] - counts], axis=-1)
        return log_m_estimate(own_and_rest, m, np.stack([spread, 1.0 - spread], axis=-1))[..., 0].copy()

    @classmethod
    def from_state(cls, meta: Mapping[str, Any], arrays: Mapping[str, Array]) -> Self:
        """Restore emissions from the numbers of symbols and states, and the table. Raises SnapshotError."""
        symbols, states = count(meta, "symbols"), count(meta, "states")
        declared = count(meta, "declared", most=symbols)
        table = checked(arrays, {"table": counts(symbols, states)})["table"]
        reject("table", table.sum(dtype=np.float64) > MOST, "counts whose sum overflows")
        emissions = cls(symbols, states, declared)
        emissions._table[:symbols, :states] = table
        emissions._totals[:states], emissions._by_symbol[:symbols] = table.sum(axis=0), table.sum(axis=1)
        emissions.live = declared + int(np.count_nonzero(emissions.by_symbol[declared:]))
        return emissions
