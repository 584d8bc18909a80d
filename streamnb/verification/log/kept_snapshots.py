"""Check each kept snapshot against its journal record and the recount there."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from streamnb.engine.journal.checkpoint import origin_of
from streamnb.engine.journal.job_identity import JobIdentity, JournalOrigin
from streamnb.engine.journal.snapshot_store import Snapshots
from streamnb.engine.processing.event_processor import EventProcessor
from streamnb.errors import SnapshotError
from streamnb.formats.snapshot_container import Snapshot, SnapshotPart, part_digest
from streamnb.verification.check_results import CheckResults
from streamnb.verification.log.adaptive_state_checks import compare_learned
from streamnb.verification.log.journal_chain import ChainEntry, LogScan
from streamnb.verification.recount.event_recount import Recount
from streamnb.verification.recount.recount_comparison import LearnedState, compare

SNAPSHOTS = "snapshots"


class _SnapshotMark(NamedTuple):
    digest: str
    fingerprint: dict[str, str]


class KeptSnapshots:
    """Checks of every readable snapshot, one at a time.

    Attributes:
        origins: journal record -> origin in the snapshot there.
    """

    def __init__(self, snapshots: Snapshots, findings: CheckResults) -> None:
        self.origins: dict[int, JournalOrigin] = {}
        self._marks: dict[int, _SnapshotMark] = {}
        self._snapshots, self._findings = snapshots, findings

    def list(self) -> None:
        """Find those that there are, the newest first."""
        at_most: int | None = None
        try:
            while (found := self._snapshots.newest(at_most)) is not None:
                n, snapshot = found.snapshot.journal_n, found.snapshot
                at_most = n - 1
                self.origins[n] = origin_of(snapshot)
                self._marks[n] = _SnapshotMark(snapshot.digest, dict(snapshot.fingerprint))
        except SnapshotError as error:
            self._findings.differs(SNAPSHOTS, str(error))

    def are_of(self, identity: JobIdentity, least: int) -> bool:
        """Return True if this kind of machine wrote all snapshots from a record on."""
        return all(m.fingerprint == identity.fingerprint for n, m in self._marks.items() if n >= least)

    def oldest(self, least: int, seen: LogScan) -> int:
        """Return the record of the oldest snapshot on the path, at `least` or later; -1 if there is none."""
        return min((n for n in self._marks if least <= n <= seen.end.n and seen.counts(n)), default=-1)

    def check_places(self, seen: LogScan) -> None:
        """Report snapshots that are not on the path to the state at the end of the journal."""
        for n in sorted(self._marks):
            if n > seen.end.n:
                text = f"the snapshot stands at journal record {n}, beyond the journal's end {seen.end.n}"
                self._findings.differs(SNAPSHOTS, text, {"record": n}, found=n, expected=seen.end.n)
            elif n < seen.first_n:
                text = f"the snapshot at journal record {n}: the journal no longer reaches back to it"
                self._findings.unchecked(SNAPSHOTS, text, record=n)
            elif not seen.counts(n):
                text = f"the snapshot at journal record {n}: what it holds was rolled back"
                self._findings.unchecked(SNAPSHOTS, text, record=n)

    def states(self, least: int, seen: LogScan) -> Iterator[tuple[int, LearnedState]]:
        """Yield the states of snapshots on the path, at `least` or later, the oldest first."""
        while (n := self.oldest(least, seen)) >= 0:
            snapshot = self._load(n)
            if snapshot is not None and (state := self._state(snapshot)) is not None:
                yield n, state
            least = n + 1

    def compare(self, step: ChainEntry, recount: Recount, base: int) -> None:
        """Compare the snapshot at a record, if there is one, with the recount, unless that began there."""
        n = step.record.n
        if n not in self._marks:
            return
        if self._marks[n].digest != step.record.digest:
            self._differs(n, " belongs to another journal")
        snapshot = self._load(n) if n > base else None
        if snapshot is None:
            return
        if {tuple(p): offset for p, offset in step.after.positions.items()} != dict(snapshot.positions):
            self._differs(n, " stands at other positions than the record")
        if (state := self._state(snapshot)) is None:
            return
        before = self._findings.count(SNAPSHOTS)
        equal = compare(recount, state, SNAPSHOTS, n, self._findings)
        if self._findings.count(SNAPSHOTS) == before:
            self._findings.ok(SNAPSHOTS, f"at journal record {n}: {equal}", record=n)

    def compare_learned(self, n: int, replayed: EventProcessor, *, one: bool) -> None:
        """Compare features, and what was learned by gradient, of the snapshot at a record with a replay."""
        kept = self._model(n)
        if kept is not None:
            compare_learned(kept.arrays, replayed.model.state()[1], SNAPSHOTS, n, self._findings, one=one)

    def compare_model(self, n: int, replayed: EventProcessor) -> None:
        """Compare the model of the snapshot at a record, if there is one, with a replay, bit for bit."""
        if (kept := self._model(n)) is None:
            return
        if part_digest(*kept) == part_digest(*replayed.model.state()):
            self._findings.ok(SNAPSHOTS, f"at journal record {n}: the model is the replay's", record=n)
        else:
            self._differs(n, " holds another model than a replay gives")

    def _differs(self, n: int, what: str) -> None:
        self._findings.differs(SNAPSHOTS, f"the snapshot at journal record {n}{what}", {"record": n})

    def _model(self, n: int) -> SnapshotPart | None:
        snapshot = self._load(n) if n in self._marks else None
        return None if snapshot is None else snapshot.parts.get("model")

    def _load(self, n: int) -> Snapshot | None:
        """Return the snapshot at a record; None if retention has deleted it since."""
        try:
            found = self._snapshots.newest(n)
        except SnapshotError:
            return None
        return found.snapshot if found is not None and found.snapshot.journal_n == n else None

    def _state(self, snapshot: Snapshot) -> LearnedState | None:
        try:
            return LearnedState.read(snapshot.parts)
        except SnapshotError as error:
            self._differs(snapshot.journal_n, f": {error}")
            return None
