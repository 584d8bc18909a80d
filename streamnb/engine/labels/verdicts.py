"""Which of several labels of one event holds.

Of each source the verdict with the greatest time counts, whatever order they come in and however often. Of
those that stand, the one of the source with the highest rank is effective; of equals the latest, then by the
names of sources. A null label takes back what its own source said, and nothing else. So any order and
repetition of the same verdicts ends in the same label.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from streamnb.wire.codec import IN_EVENT

MOST_SOURCES = 4
"""How many sources may speak on one event."""
_RANK_IN_EVENT, _RANK = 0, 1


class Said(NamedTuple):
    """What one source says of one event.

    Attributes:
        source: its name.
        time: when it said so, seconds since the epoch.
        label: the class; None where it takes back what it said.
        weight: in examples, that of the source included.
    """

    source: str
    time: float
    label: str | None
    weight: float


class Truth(NamedTuple):
    """The label that holds, and how many examples the event counts for."""

    label: str
    weight: float


def merged(said: tuple[Said, ...], more: Said) -> tuple[Said, ...]:
    """What is said once one more verdict is in; the same object where that changes nothing."""
    for i, one in enumerate(said):
        if one.source == more.source:
            return said if _order(more) <= _order(one) else (*said[:i], more, *said[i + 1 :])
    return (*said, more)


def _order(one: Said) -> tuple[float, bool, str, float]:
    """Of one source the greatest counts; of equal times a label before null, then by value."""
    return one.time, one.label is not None, one.label or "", one.weight


def effective(said: Iterable[Said], ranks: Mapping[str, int]) -> Truth | None:
    """The label that holds, None where none does."""
    best = holding(said, ranks)
    return None if best is None else Truth(best.label or "", best.weight)


def holding(said: Iterable[Said], ranks: Mapping[str, int]) -> Said | None:
    """What is said that holds; it has a label. None where nothing does."""
    standing = [one for one in said if one.label is not None]
    return max(standing, key=lambda one: (_rank(one.source, ranks), one.time, one.source), default=None)


def _rank(source: str, ranks: Mapping[str, int]) -> int:
    """As configured; else labels inside events give way to what is said later."""
    return ranks.get(source, _RANK_IN_EVENT if source == IN_EVENT else _RANK)
