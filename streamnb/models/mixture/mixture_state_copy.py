"""The state of a mixture at one moment: counts, copied in slices, and what was copied beside them at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from streamnb.models.naive_bayes.state_copy import StateCopy
from streamnb.values.type_aliases import Array, State


class MixtureStateCopy:
    """See `StateCopying`. Nobody but who asked for it holds what was copied at once: it may be in files.

    Args:
        counts: which whoever learns has to keep.
        made: makes the other arrays.
    """

    def __init__(self, counts: StateCopy, made: Callable[[], Mapping[str, Array]]) -> None:
        self._counts, self._made = counts, made

    def advance(self, n_bytes: int) -> bool:
        """Copy about so many bytes more; whether that is all."""
        return self._counts.advance(n_bytes)

    def state(self) -> State:
        """JSON-able values, and arrays without spare capacity."""
        meta, arrays = self._counts.state()
        return meta, {**arrays, **self._made()}
