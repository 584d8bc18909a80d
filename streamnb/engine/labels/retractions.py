"""Retractions of sources: intervals whose labels do not count, and the waiting events still to visit."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

from streamnb.engine.labels.label_block import NONE, SEVERAL
from streamnb.engine.labels.label_buffer import LabelBuffer
from streamnb.engine.labels.revoked_intervals import RevokedIntervals
from streamnb.engine.labels.source_label_store import SourceLabelStore
from streamnb.engine.labels.source_labels import SourceLabel
from streamnb.engine.ports import Record
from streamnb.events import Retraction

_SWEPT = 256  # events in each step


class Retractions:
    """Retracted sources.

    A retraction takes effect at once on later labels, and step by step on labels of waiting events.

    Args:
        pending: the waiting events.
        store: their source labels.

    Attributes:
        revoked: intervals whose labels do not count.
    """

    def __init__(self, pending: LabelBuffer, store: SourceLabelStore) -> None:
        self._pending, self._store = pending, store
        self.revoked = RevokedIntervals()
        # Source -> next event number to visit; its complement (~) if another full pass must follow.
        self._sweeps: dict[str, int] = {}

    def add(self, withdrawal: Retraction, record: Record) -> bool:
        """Revoke labels of a source; return False beyond the maximum of sources."""
        source, is_taken = withdrawal.source, self.revoked.add(withdrawal, record)
        if is_taken and source in self._store.sources:
            at = self._sweeps.get(source, 0)
            self._sweeps[source] = at and min(at, ~at)
        return is_taken

    def cover(self, said: SourceLabel) -> bool:
        """Return if a label is revoked."""
        return self.revoked.cover(said)

    @property
    def has_work(self) -> bool:
        """True while waiting events must be visited."""
        return bool(self._sweeps)

    def next_events(self) -> Sequence[int]:
        """Return the next few hundred waiting events that may have labels of a retracted source."""
        source, at = next(iter(self._sweeps.items()))
        return list(islice(self._labelled_by(source, max(at, ~at)), _SWEPT))

    def visited(self, numbers: Sequence[int]) -> None:
        """Continue after the events that `next_events` returned."""
        source, at = next(iter(self._sweeps.items()))
        if len(numbers) == _SWEPT:
            self._sweeps[source] = ~(numbers[-1] + 1) if at < 0 else numbers[-1] + 1
        else:
            del self._sweeps[source]
            if at < 0:
                self._sweeps[source] = 0

    def _labelled_by(self, source: str, first: int) -> Iterator[int]:
        """Yield the events from number `first` on that may have a label of a source."""
        wanted = self._store.sources.get(source, NONE)
        for begin, chunk, places in self._pending.waiting(first):
            heard = chunk.columns["source"][places]
            yield from (begin + places[(heard == wanted) | (heard == SEVERAL)]).tolist()

    def state(self) -> dict[str, Any]:
        """Return the state as JSON values."""
        sweeps = [[source, first] for source, first in self._sweeps.items()]
        return {"voids": self.revoked.state(), "sweeps": sweeps}

    def load(self, state: Mapping[str, Any]) -> None:
        """Restore from a `state`; raise ValueError or msgspec.ValidationError if it is invalid."""
        self.revoked.load(state["voids"])
        self._sweeps = {source: int(first) for source, first in state["sweeps"]}
