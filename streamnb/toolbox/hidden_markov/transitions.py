"""Counts of the first states and of the transitions of a Markov chain.

    P(s_1 = j) = (n_j + m p_j) / (n + m)        P(s_t+1 = j | s_t = i) = (n_ij + m p_j) / (n_i + m)

The counts are the sufficient statistics of the chain; the m-estimate is applied on read.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from streamnb.kernels.array_types import Floats, Ints
from streamnb.kernels.growable_arrays import roomier
from streamnb.values.example_weights import UNIT
from streamnb.values.state_validation import MOST, checked, count, counts, reject
from streamnb.values.type_aliases import Array, State

Counts = Ints


def log_m_estimate(counts: Ints, m: float, p: npt.ArrayLike | None = None) -> Floats:
    """Return log of (n_c + m p_c) / (n + m) along the last axis, with n the sum of n_c; m = 0 is the limit.

    In the limit a row without counts equals p; in other rows, what was never counted has probability 0.

    Args:
        counts: int64[..., K] >= 0, in units of 1/1024 example, K > 0.
        m: number of imaginary examples; finite, >= 0.
        p: distribution of the imaginary examples, one for all rows or one each; uniform by default.

    Raises:
        ValueError: if m is out of range, or p is not a distribution.
    """
    spread = 1.0 / counts.shape[-1] if p is None else np.asarray(p, dtype=np.float64)
    n = counts.sum(axis=-1, keepdims=True)
    if m == 0.0:
        chances = np.where(n > 0, counts / np.maximum(n, 1), spread)
    else:  # divide by the larger of n and m first: m may be as large, or as small, as a double can be
        scale = np.maximum(n / UNIT, m)
        chances = (counts / UNIT / scale + (m / scale) * spread) / (n / UNIT / scale + m / scale)
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(chances), dtype=np.float64)


class Transitions:
    """Counts of a chain over states numbered in order of appearance; the first counts sum to n sequences.

    Learning and unlearning are exact, in any order.

    Attributes:
        states: K, number of states; it grows by `update` and `grow`, and never shrinks.

    Examples:
        >>> import numpy as np
        >>> chain = Transitions()
        >>> for before, state in [(None, 0), (0, 1), (1, 0), (0, 0)]:
        ...     chain.update(before, state)
        >>> (chain.table // 1024).tolist()
        [[1, 1], [1, 0]]
        >>> np.exp(chain.log_table(m=2.0)).round(3).tolist()
        [[0.5, 0.5], [0.667, 0.333]]
    """

    def __init__(self, states: int = 0) -> None:
        self.states = 0
        self._first = np.zeros(2, dtype=np.int64)
        self._table = np.zeros((2, 2), dtype=np.int64)
        self.grow(states)

    @property
    def first(self) -> Counts:
        """Weight of the sequences that began with each state, int64[K], in units; a view."""
        return self._first[: self.states]

    @property
    def table(self) -> Counts:
        """Weight of the transitions from state (row) to state (column), int64[K, K], in units; a view."""
        return self._table[: self.states, : self.states]

    @property
    def n_bytes(self) -> int:
        """Memory of the counts, bytes, spare capacity included."""
        return self._first.nbytes + self._table.nbytes

    def grow(self, states: int) -> None:
        """Grow to at least this many states."""
        if states > self._first.size:
            self._first = roomier(self._first, states, times=2)
            self._table = roomier(self._table, states, states, times=2)
        self.states = max(self.states, states)

    def update(self, previous: int | None, state: int, weight: int = UNIT) -> None:
        """Count that `state` followed `previous`, or began a sequence if `previous` is None.

        Args:
            previous: the state before, at least 0; an unknown number adds states.
            state: the state, at least 0; an unknown number adds states.
            weight: in units of 1/1024 example; a negative weight takes back at most what was `counted`.
        """
        self.grow(max(state, -1 if previous is None else previous) + 1)
        self._counts_after(previous)[state] += weight

    def counted(self, previous: int | None, state: int) -> int:
        """Return the weight of `state` after `previous`, or as first state, in units; 0 if unknown."""
        known = max(state, -1 if previous is None else previous) < self.states
        return int(self._counts_after(previous)[state]) if known else 0

    def log_initial(self, m: float = 0.0, p: npt.ArrayLike | None = None) -> Floats:
        """Return log P(s_1), float64[K], smoothed by `log_m_estimate`; empty if K is 0."""
        return log_m_estimate(self.first, m, p) if self.states else np.zeros(0)

    def log_table(self, m: float = 0.0, p: npt.ArrayLike | None = None) -> Floats:
        """Return log P(s_t+1 | s_t) by rows, float64[K, K], contiguous, with p of shape (K,) or (K, K)."""
        return log_m_estimate(self.table, m, p) if self.states else np.zeros((0, 0))

    def state(self) -> State:
        """Return the counts, as JSON-able values and copied arrays; `from_state` restores them."""
        return {"states": self.states}, {"first": self.first.copy(), "table": self.table.copy()}

    @classmethod
    def from_state(cls, meta: Mapping[str, Any], arrays: Mapping[str, Array]) -> Self:
        """Restore the transitions of a `state`. Raises SnapshotError."""
        k = count(meta, "states")
        found = checked(arrays, {"first": counts("states"), "table": counts("states", "states")}, states=k)
        for name, array in found.items():
            reject(name, array.sum(dtype=np.float64) > MOST, "counts whose sum overflows")
        transitions = cls(k)
        transitions.first[:], transitions.table[:] = found["first"], found["table"]
        return transitions

    def _counts_after(self, previous: int | None) -> Counts:
        return self._first if previous is None else self._table[previous]
