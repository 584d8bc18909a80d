"""What a verification found: what was looked at, whether it is as it should be, and where it is not."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any, NamedTuple

from streamnb.engine.ports import Partition

_MOST = 5


class Outcome(StrEnum):
    """Whether something is as it should be."""

    OK = "ok"
    DIFFERS = "differs"
    """Something is otherwise than it should be, or missing."""
    UNCHECKED = "not checked"
    """What would be needed to tell is gone, as retention has it; or another fault is in the way."""


class CheckResult(NamedTuple):
    """One thing found.

    Attributes:
        check: what was looked at, such as ``journal`` or ``slices``.
        verdict: whether it is as it should be.
        text: the same as a sentence.
        place: where: ``record`` of the journal, ``topic``, ``partition`` and ``offset``, ``attribute``,
            ``value``, ``feature``, ``hypothesis`` and ``class``, as far as they apply.
        found: what there is; None where the sentence says it all.
        expected: what there should be.
    """

    check: str
    verdict: Outcome
    text: str
    place: Mapping[str, str | int] = {}
    found: Any = None
    expected: Any = None


def place(partition: Partition, offset: int, **more: str | int) -> dict[str, str | int]:
    """Where something was found, and `more` of it."""
    return {"topic": partition.topic, "partition": partition.number, "offset": offset, **more}


class CheckResults:
    """Collects findings: of each check the first few that differ, and how many there are in all."""

    def __init__(self) -> None:
        self._found: list[CheckResult] = []
        self._seen: Counter[str] = Counter()

    def ok(self, check: str, text: str, **place: str | int) -> None:
        """It is as it should be."""
        self._found.append(CheckResult(check, Outcome.OK, text, place))

    def unchecked(self, check: str, text: str, **place: str | int) -> None:
        """It could not be found out."""
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
        """It is not as it should be."""
        self._seen[check] += 1
        if self._seen[check] <= _MOST:
            self._found.append(CheckResult(check, Outcome.DIFFERS, text, place or {}, found, expected))

    def count(self, check: str) -> int:
        """How much differs in this check."""
        return self._seen[check]

    @property
    def is_clean(self) -> bool:
        """Whether nothing differs."""
        return not self._seen.total()

    def all(self) -> Sequence[CheckResult]:
        """All that is told, in the order of its checks' first findings."""
        order = list(dict.fromkeys(finding.check for finding in self._found))
        told = []
        for check in order:
            told += [finding for finding in self._found if finding.check == check]
            more = self._seen[check] - _MOST
            if more > 0:
                told.append(CheckResult(check, Outcome.DIFFERS, f"and {more:,} more"))
        return told
