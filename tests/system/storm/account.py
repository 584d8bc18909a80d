"""The bookkeeping of exactly once: what went in and what came out, by the ids alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple


class Account(NamedTuple):
    """Each is empty where every event came out exactly once.

    Attributes:
        lost: ids that never came out.
        repeated: ids that came out more than once.
        strange: ids that came out and never went in.
    """

    lost: list[str]
    repeated: list[str]
    strange: list[str]

    @property
    def is_clean(self) -> bool:
        return not any(self)

    def told(self) -> str:
        parts = (f"{len(ids):,} {name} ({', '.join(ids[:3])})" for name, ids in self._asdict().items() if ids)
        return "; ".join(parts)


def account(went_in: Iterable[str], came_out: Iterable[str]) -> Account:
    """Compare them; `went_in` names each event once."""
    expected, seen = set(went_in), Counter(came_out)
    return Account(
        sorted(expected - seen.keys()),
        sorted(name for name, times in seen.items() if times > 1),
        sorted(seen.keys() - expected),
    )
