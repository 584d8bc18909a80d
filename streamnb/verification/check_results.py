"""Results of a verification: the check, its outcome, and the place of each difference."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any, NamedTuple

from streamnb.engine.ports import Partition

_MOST = 5


class Outcome(StrEnum):
    """Outcome of a check."""

    OK = "ok"
    DIFFERS = "differs"
    """Something is otherwise than it should be, or missing."""
    UNCHECKED = "not checked"
    """The data needed for the check is no longer retained, or another fault prevents the check."""


class CheckResult(NamedTuple):
    """One result of a check: its name, outcome, text and place, and the actual and expected value.

    `place` has ``record`` of the journal, ``topic``, ``partition`` and ``offset``, ``attribute``, ``value``,
    ``feature``, ``hypothesis`` and ``class``, as far as they apply. The values are None if the text contains
    everything.
    """

    check: str
    verdict: Outcome
    text: str
    place: Mapping[str, str | int] = {}
    found: Any = None
    expected: Any = None


def place(partition: Partition, offset: int, **more: str | int) -> dict[str, str | int]:
    """Return the place of a result as a mapping, with the entries of `more`."""
    return {"topic": partition.topic, "partition": partition.number, "offset": offset, **more}


class CheckResults:
    """Collects findings: of each check the first few that differ, and how many there are in all."""

    def __init__(self) -> None:
        self._found: list[CheckResult] = []
        self._seen: Counter[str] = Counter()

    def ok(self, check: str, text: str, **place: str | int) -> None:
        """Add a check without a fault."""
        self._found.append(CheckResult(check, Outcome.OK, text, place))

    def unchecked(self, check: str, text: str, **place: str | int) -> None:
        """Add a check that could not be made."""
        self._found.append(CheckResult(check, Outcome.UNCHECKED, text, place))

    def differs(
        self,
        check: str,
        text: str,
        place: Mapping[str, str | int] | None = None,
        *,
        found: Any = None,
        expected: Any = None,
    ) -> None:
        """Add a difference; beyond the first few of a check, only count it."""
        self._seen[check] += 1
        if self._seen[check] <= _MOST:
            self._found.append(CheckResult(check, Outcome.DIFFERS, text, place or {}, found, expected))

    def count(self, check: str) -> int:
        """Return the number of differences in this check."""
        return self._seen[check]

    @property
    def is_clean(self) -> bool:
        """True if no check found a difference."""
        return not self._seen.total()

    def all(self) -> Sequence[CheckResult]:
        """Return all results, grouped by check, in the order of the checks' first results."""
        order = list(dict.fromkeys(finding.check for finding in self._found))
        told = []
        for check in order:
            told += [finding for finding in self._found if finding.check == check]
            more = self._seen[check] - _MOST
            if more > 0:
                told.append(CheckResult(check, Outcome.DIFFERS, f"and {more:,} more"))
        return told
