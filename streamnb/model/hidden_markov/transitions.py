"""How often which state of a Markov chain began, and how often which one followed which.

    P(s_1 = j) = (n_j + m p_j) / (n + m)        P(s_t+1 = j | s_t = i) = (n_ij + m p_j) / (n_i + m)

The counts are the sufficient statistics of the chain; the m-estimate is applied on read.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from streamnb.model.attributes.expected import MOST, checked, count, counts, reject
from streamnb.model.attributes.signatures import Array, State
from streamnb.model.attributes.weights import UNIT
from streamnb.model.compiled.arrays import Floats, Ints
from streamnb.model.compiled.growable import roomier

Counts = Ints


def log_m_estimate(counts: Ints, m: float, p: npt.ArrayLike | None = None) -> Floats:
    """Log of (n_c + m p_c) / (n + m) along the last axis, with n the sum of the n_c; m = 0 is the limit.

    In the limit a row without counts is p itself, and in others what was never counted has probability 0.

    Args:
        counts: int64[..., K] >= 0, in units of 1/1024 example, K > 0.
        m: how many imaginary examples; finite, >= 0.
        p: how they are spread, one distribution for all rows or one each; uniform by default.

    Raises:
        ValueError: if m is out of range, or p is no distribution.
    """
    spread = 1.0 / counts.shape[-1] if p is None else np.asarray(p, dtype=np.float64)
    n = counts.sum(axis=-1, keepdims=True)
    if m == 0.0:
        chances = np.where(n > 0, counts / np.maximum(n, 1), spread)
    else:  # divided by the larger of the two first: m may be as large as a double can be, or as small
        scale = np.maximum(n / UNIT, m)
        chances = (counts / UNIT / scale + (m / scale) * spread) / (n / UNIT / scale + m / scale)
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(chances), dtype=np.float64)


class Transitions:
    """Counts of a chain over states numbered as they are met; of n sequences, first counts sum to n.

    Merging adds the counts, as if the sequences of the one had been learned after those of the other; one
    without counts is the identity. All exact, in any order.

    Attributes:
        states: K, how many states there are; it grows by `update` and `grow`, and never shrinks.

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
        """int64[K]: weight of the sequences that began with each state, in units; a view."""
        return self._first[: self.states]

    @property
    def table(self) -> Counts:
        """int64[K, K]: weight of the transitions from each state (row) to each (column), in units; a view."""
        return self._table[: self.states, : self.states]

    @property
    def n_bytes(self) -> int:
        """Memory of the counts, bytes, spare capacity included."""
        return self._first.nbytes + self._table.nbytes

    def grow(self, states: int) -> None:
        """Let there be at least so many states."""
        if states > self._first.size:
            self._first = roomier(self._first, states, times=2)
            self._table = roomier(self._table, states, states, times=2)
        self.states = max(self.states, states)

    def update(self, previous: int | None, state: int, weight: int = UNIT) -> None:
        """Count that `state` followed `previous`, or began a sequence where that is None.

        Args:
            previous: the state before, 0 or above; one never met is met now.
            state: the state, likewise.
            weight: in units of 1/1024 example; below 0 takes back, no more than was `counted`.
        """
        self.grow(max(state, -1 if previous is None else previous) + 1)
        self._counts_after(previous)[state] += weight

    def counted(self, previous: int | None, state: int) -> int:
        """How often `state` followed `previous`, or began, in units; 0 of what was never met."""
        known = max(state, -1 if previous is None else previous) < self.states
        return int(self._counts_after(previous)[state]) if known else 0

    def log_initial(self, m: float = 0.0, p: npt.ArrayLike | None = None) -> Floats:
        """float64[K]: log P(s_1), smoothed as `log_m_estimate` says (errors, too); empty where K is 0."""
        return log_m_estimate(self.first, m, p) if self.states else np.zeros(0)

    def log_table(self, m: float = 0.0, p: npt.ArrayLike | None = None) -> Floats:
        """float64[K, K], contiguous: log P(s_t+1 | s_t) by rows, p of shape (K,) or (K, K); likewise."""
        return log_m_estimate(self.table, m, p) if self.states else np.zeros((0, 0))

    def state(self) -> State:
        """The counts, as JSON-able values and copied arrays; `from_state` goes on from them."""
        return {"states": self.states}, {"first": self.first.copy(), "table": self.table.copy()}

    @classmethod
    def from_state(cls, meta: Mapping[str, Any], arrays: Mapping[str, Array]) -> Self:
        """The transitions that `state` described. Raises SnapshotError."""
        k = count(meta, "states")
        found = checked(arrays, {"first": counts("states"), "table": counts("states", "states")}, states=k)
        for name, array in found.items():
            reject(name, array.sum(dtype=np.float64) > MOST, "counts whose sum overflows")
        made = cls(k)
        made.first[:], made.table[:] = found["first"], found["table"]
        return made

    def _counts_after(self, previous: int | None) -> Counts:
        return self._first if previous is None else self._table[previous]
