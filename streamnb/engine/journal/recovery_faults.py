"""Faults of journal, snapshots and events that prevent a recovery.

`run` refuses them and `doctor` reports them. One table has the remedies, so both name the same.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, NamedTuple

from streamnb.formats.journal_record import JournalRecord, Slice

FaultKind = Literal[
    "journal-empty",
    "journal-cut-short",
    "journal-trimmed",
    "snapshot-missing",
    "events-needed",
    "events-unlearned",
]

ACCEPT_LOSS = "bring them back, or go on without them: `streamnb run --accept-loss`"

REMEDIES: dict[FaultKind, str] = {
    "journal-empty": "the log was replaced; move the snapshots away to begin again",
    "journal-cut-short": (
        "it is another journal's, or this one was cut short; move the snapshot away to go on without it"
    ),
    "journal-trimmed": "bring a newer snapshot back, or begin a new log",
    "snapshot-missing": "bring one back, or begin a new log",
    "events-needed": (
        "bring a newer snapshot back, or leave this state for an earlier one: "
        "`streamnb snapshot rollback --to {start} --without-return`"
    ),
    "events-unlearned": ACCEPT_LOSS,
}
"""Kind of a fault -> what to do."""


class RecoveryFault(NamedTuple):
    """A fault; `start` is the journal record of the snapshot that recovery begins with, -1 for none."""

    kind: FaultKind
    found: str
    start: int = -1

    @property
    def remedy(self) -> str:
        """The remedy."""
        kind: FaultKind = "snapshot-missing" if self.kind == "events-needed" and self.start < 0 else self.kind
        return REMEDIES[kind].format(start=self.start)

    def __str__(self) -> str:
        """Return the finding and the remedy."""
        return f"{self.found}; {self.remedy}"


def journal_fault(
    first: JournalRecord | None, last: JournalRecord | None, snapshot: int | None
) -> RecoveryFault | None:
    """Return why a journal from `first` to `last` lacks what the newest snapshot, if any, continues with."""
    kind: FaultKind
    if first is None or last is None:
        kind = "journal-empty"
        found = f"there is a snapshot at journal record {snapshot}, but the journal is empty"
        is_fault = snapshot is not None
    elif snapshot is None:
        kind = "snapshot-missing"
        found = f"the journal begins with record {first.n}, without a snapshot to begin with"
        is_fault = first.n != 0
    elif snapshot > last.n:
        kind = "journal-cut-short"
        found = f"the snapshot stands at journal record {snapshot}, beyond the journal's end {last.n}"
        is_fault = True
    else:
        kind = "journal-trimmed"
        found = f"the snapshot stands at journal record {snapshot}, but the journal begins with {first.n}"
        is_fault = first.n > snapshot
    return RecoveryFault(kind, found) if is_fault else None


def events_needed(n: int, part: Slice, start: int) -> RecoveryFault:
    """Return the fault of a replay from record `start` on that lacks the events of record `n`."""
    found = (
        f"journal record {n} needs {part.topic}/{part.partition} from offset {part.first} to {part.next}, "
        "which the log no longer holds"
    )
    return RecoveryFault("events-needed", found, start)


def events_unlearned(missing: Iterable[str]) -> RecoveryFault:
    """Return the fault of events that were lost before they were learned."""
    return RecoveryFault("events-unlearned", "; ".join(missing))
