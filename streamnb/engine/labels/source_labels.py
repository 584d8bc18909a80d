"""Resolution of the labels of several sources to the label in force.

Of each source its last label counts, in the total order (time, partition, offset): of two labels with equal
time the later in the partition, as a later line of a file corrects an earlier one. Among these the source
with the highest rank wins, then the latest label, then the name of the source. A null label revokes only the
label of its own source. So the resolved label depends on the records in the log, not on the order of reading.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from streamnb.engine.ports import Partition
from streamnb.formats.codec import IN_EVENT

MOST_SOURCES = 4
"""Maximum number of sources that may label one event; the label inside it does not count."""
_RANK_IN_EVENT, _RANK = 0, 1


LIMIT_OF_SOURCES = f"an event takes labels of {MOST_SOURCES} sources and its own label"
"""The limit, for messages."""


class SourceLabel(NamedTuple):
    """Label of one source for one event.

    Attributes:
        source: its name.
        time: time of the label, seconds since the epoch.
        label: the class; None revokes the source's label.
        weight: in examples, including the weight of the source.
        partition, offset: of the label record.
    """

    source: str
    time: float
    label: str | None
    weight: float
    partition: Partition
    offset: int

    @property
    def order(self) -> tuple[float, Partition, int]:
        """Position in the total order of the source's labels; the greatest counts."""
        return self.time, self.partition, self.offset

    def repeats(self, other: SourceLabel) -> bool:
        """Return whether both are equal except for their records."""
        return self[:4] == other[:4]


class ResolvedLabel(NamedTuple):
    """The label in force, and its weight in examples."""

    label: str
    weight: float


def merged(said: tuple[SourceLabel, ...], more: SourceLabel) -> tuple[SourceLabel, ...]:
    """Return source labels with one more merged in; the same object if nothing changes."""
    for i, one in enumerate(said):
        if one.source == more.source:
            return said if more.order <= one.order else (*said[:i], more, *said[i + 1 :])
    return (*said, more)


def has_too_many(said: Iterable[SourceLabel]) -> bool:
    """Return whether the sources of an event's labels exceed the maximum."""
    return sum(one.source != IN_EVENT for one in said) > MOST_SOURCES


def effective(said: Iterable[SourceLabel], ranks: Mapping[str, int]) -> ResolvedLabel | None:
    """Return the resolved label, None without one."""
    best = holding(said, ranks)
    return None if best is None else ResolvedLabel(best.label or "", best.weight)


def holding(said: Iterable[SourceLabel], ranks: Mapping[str, int]) -> SourceLabel | None:
    """Return the source label in force, None without one."""
    standing = [one for one in said if one.label is not None]
    return max(standing, key=lambda one: (_rank(one.source, ranks), one.time, one.source), default=None)


def _rank(source: str, ranks: Mapping[str, int]) -> int:
    return ranks.get(source, _RANK_IN_EVENT if source == IN_EVENT else _RANK)  # later labels win by default
