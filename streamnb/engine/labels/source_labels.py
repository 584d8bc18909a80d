"""Which of several labels of one event holds.

Of each source the last verdict counts, in the total order (time, partition, offset): of two verdicts with
one time the one further down its partition, as a later line of a file corrects an earlier one. Of those that
stand, the one of the source with the highest rank is effective; of equals the latest, then by the names of
sources. A null label takes back what its own source said, and nothing else. So the label that holds follows
from the records in the log, and not from the order in which they are read.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from streamnb.engine.ports import Partition
from streamnb.formats.codec import IN_EVENT

MOST_SOURCES = 4
"""How many sources may speak on one event."""
_RANK_IN_EVENT, _RANK = 0, 1


class SourceLabel(NamedTuple):
    """What one source says of one event.

    Attributes:
        source: its name.
        time: when it said so, seconds since the epoch.
        label: the class; None where it takes back what it said.
        weight: in examples, that of the source included.
        partition, offset: of the record that says so.
    """

    source: str
    time: float
    label: str | None
    weight: float
    partition: Partition
    offset: int

    @property
    def order(self) -> tuple[float, Partition, int]:
        """The place among all that its source says: the greatest is the last."""
        return self.time, self.partition, self.offset

    def repeats(self, other: SourceLabel) -> bool:
        """Return whether another record says the same, at the same time."""
        return self[:4] == other[:4]


class ResolvedLabel(NamedTuple):
    """The label that holds, and how many examples the event counts for."""

    label: str
    weight: float


def merged(said: tuple[SourceLabel, ...], more: SourceLabel) -> tuple[SourceLabel, ...]:
    """What is said once one more verdict is in; the same object where that changes nothing."""
    for i, one in enumerate(said):
        if one.source == more.source:
            return said if more.order <= one.order else (*said[:i], more, *said[i + 1 :])
    return (*said, more)


def effective(said: Iterable[SourceLabel], ranks: Mapping[str, int]) -> ResolvedLabel | None:
    """The label that holds, None where none does."""
    best = holding(said, ranks)
    return None if best is None else ResolvedLabel(best.label or "", best.weight)


def holding(said: Iterable[SourceLabel], ranks: Mapping[str, int]) -> SourceLabel | None:
    """What is said that holds; it has a label. None where nothing does."""
    standing = [one for one in said if one.label is not None]
    return max(standing, key=lambda one: (_rank(one.source, ranks), one.time, one.source), default=None)


def _rank(source: str, ranks: Mapping[str, int]) -> int:
    """As configured; else labels inside events give way to what is said later."""
    return ranks.get(source, _RANK_IN_EVENT if source == IN_EVENT else _RANK)
