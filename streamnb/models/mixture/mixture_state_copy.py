"""Copy of a mixture's state: counts in slices, all other arrays at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from streamnb.models.naive_bayes.state_copy import StateCopy
from streamnb.values.type_aliases import Array, State


class MixtureStateCopy:
    """A `StateCopying`. Only the caller holds the arrays that were copied at once: they may be in files.

    Args:
        counts: the copy in slices, which the learner must preserve before it writes.
        build_arrays: returns the other arrays.
    """

    def __init__(self, counts: StateCopy, build_arrays: Callable[[], Mapping[str, Array]]) -> None:
        self._counts, self._build_arrays = counts, build_arrays

    def advance(self, n_bytes: int) -> bool:
        """Copy about `n_bytes` more; return True if the copy is complete."""
        return self._counts.advance(n_bytes)

    def state(self) -> State:
        """Return JSON-able values, and arrays without spare capacity."""
        meta, arrays = self._counts.state()
        return meta, {**arrays, **self._build_arrays()}
