"""Compare the recovered state, and the snapshots on the way, with a replay of the journal alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from streamnb.engine.journal.checkpoint import Checkpoint
from streamnb.engine.journal.job_identity import JobIdentity
from streamnb.engine.journal.recovery import recover
from streamnb.engine.journal.snapshot_store import NoSnapshots, Snapshots
from streamnb.engine.ports import Log, NewRecord
from streamnb.engine.processing.event_processor import EventProcessor
from streamnb.errors import StreamnbError
from streamnb.formats.snapshot_container import SnapshotPart, part_digest
from streamnb.models.naive_bayes.counting_model import CountingModel
from streamnb.verification.check_results import CheckResults
from streamnb.verification.log.adaptive_state_checks import DECAYED, OF_LEARNERS, compare_learned, learns
from streamnb.verification.log.journal_chain import LogScan
from streamnb.verification.log.kept_snapshots import KeptSnapshots
from streamnb.verification.log.published_outputs import LETTERS, PREDICTIONS
from streamnb.verification.log.replayed_outputs import ReplayedOutputs
from streamnb.verification.log.replayed_tenant_stats import ReplayedTenantStats

REPLAY, LEARNERS = "replay", "learners"
_UNPORTABLE = ("posterior_", "entity_beliefs")  # sums of logarithms


class _SnapshotsUpTo:
    """View of the snapshots up to a record, as if it were the newest."""

    def __init__(self, snapshots: Snapshots, n: int) -> None:
        self._snapshots, self._n = snapshots, n

    def newest(self, at_most: int | None = None, alive: Callable[[], None] = lambda: None) -> Any:
        return self._snapshots.newest(self._n if at_most is None else min(at_most, self._n), alive)

    def offered(self, n: int) -> Any:
        return self._snapshots.offered(n)


@dataclass(eq=False)
class StateReplay:
    """Recovery and comparison of states; `learner` returns a learner that has learned nothing."""

    log: Log
    snapshots: Snapshots
    learner: Callable[[], EventProcessor]
    identity: JobIdentity
    seen: LogScan
    findings: CheckResults

    def __post_init__(self) -> None:
        self._outputs = ReplayedOutputs(self.log, self.findings)
        self._standings = ReplayedTenantStats(self.log, self.findings)

    def present(self, check: str, kept: KeptSnapshots) -> EventProcessor | None:
        """Return the state that a learner would begin with; report the fault and return None on failure."""
        if kept.origins:
            return self._recovered(self.snapshots, check)
        return self._recovered(self.snapshots, check, lambda _, *said: self._expect(*said))

    def _expect(self, replayed: EventProcessor, outputs: Sequence[NewRecord]) -> None:
        self._outputs.expect(self._standings.expect(replayed.settings.tenants, outputs))

    def compare(self, learner: EventProcessor, kept: KeptSnapshots, base: int) -> None:
        """Compare the present state, and the snapshots on the way, with a replay, bit for bit.

        Scores are sums of logarithms: their bits are the same only on one kind of machine. The replay begins
        at the snapshot of record `base` if journal or events do not reach back to the genesis, else `base` is
        -1.
        """
        model, has_learners = learner.model, learns(learner.model)
        if not kept.origins:
            self.findings.ok(REPLAY, "without snapshots, the state is the journal's own replay")
            self._finish_outputs(learner, is_whole=self.seen.is_whole)
            return
        start: Snapshots = NoSnapshots()
        if (unseen := self._unseen()) is not None:
            later, text = unseen
            self.findings.unchecked(REPLAY, text)
            base = kept.oldest(max(base, self.seen.first_n, self.seen.unread, later), self.seen)
            if base < 0:
                return
            start = _SnapshotsUpTo(self.snapshots, base)
        one = self.seen.machines_since(base) <= {self.identity.machine} and kept.are_of(self.identity, base)

        # If the recount is missing or incomplete, compare the model as a whole.
        as_a_whole = not isinstance(model, CountingModel) or model.entity is not None

        def passed(checkpoint: Checkpoint, replayed: EventProcessor, outputs: Sequence[NewRecord]) -> None:
            self._expect(replayed, outputs)
            if (one and replayed.late is not None) or (one and as_a_whole and not has_learners):
                kept.compare_model(checkpoint.n, replayed)
            elif has_learners:
                kept.compare_learned(checkpoint.n, replayed, one=one)

        replayed = self._recovered(start, REPLAY, passed)
        is_whole = isinstance(start, NoSnapshots)
        self._finish_outputs(learner, is_whole=is_whole, failed=replayed is None)
        if replayed is not None:
            self._compare_parts(learner, replayed, one=one)
            if has_learners:
                self._compare_learned(learner, replayed, one=one)

    def _unseen(self) -> tuple[int, str] | None:
        """Return the last record that needs a snapshot to replay, and why; None if there is none."""
        seen = self.seen
        later = max(seen.program, seen.adopted)
        if seen.adopted == later >= 0:
            text = f"the state up to journal record {later}, which installed a retrained model"
            return later, f"{text}: check it with `streamnb verify --rebuilt`"
        if later >= 0:
            return later, f"the state up to journal record {later}, learned by another version of the program"
        if not seen.is_whole:
            return later, "the state without snapshots: events or journal are no longer kept"
        return None

    def _finish_outputs(self, learner: EventProcessor, *, is_whole: bool, failed: bool = False) -> None:
        reports, seen = {learner.settings.metrics, learner.settings.alerts}, self.seen
        goes_on = self.log.offsets(seen.journal)[1] > seen.end_offset
        one = seen.machines_since(-1) <= {self.identity.machine}

        def is_reported(topic: str) -> bool:
            return (
                topic not in reports and self.findings.count(PREDICTIONS) + self.findings.count(LETTERS) > 0
            )

        passed_over = (
            "" if is_whole and one else "commits that are earlier, or of other machines, are not replayed"
        )
        if seen.rollbacks and not passed_over:
            passed_over = "commits that were rolled back are not replayed"
        is_all = not passed_over and not goes_on
        self._outputs.finish(reports, is_all=is_all, passed_over=passed_over, is_reported=is_reported)
        due = learner.standings.due(learner.model) if learner.standings and seen.rollbacks else set()
        self._standings.finish(is_all=is_all and not failed, goes_on=goes_on or failed, behind=due)

    def _compare_parts(self, learner: EventProcessor, replayed: EventProcessor, *, one: bool) -> None:
        """Compare all but features, gradient-trained parts and decayed counts."""
        sides = (learner.parts(), replayed.parts())
        without = (OF_LEARNERS, DECAYED) if one else (OF_LEARNERS, DECAYED, *_UNPORTABLE)
        for name in sorted(sides[0]):
            state, other = (_portable(name, parts[name], without, one=one) for parts in sides)
            if part_digest(*state) != part_digest(*other):
                where = ", ".join(_other_values(state, other))
                text = f"part {name!r} of the state differs with and without snapshots: {where}"
                self.findings.differs(REPLAY, text, {"record": self.seen.end.n})
        if not one:
            text = "the scores' last bits: more than one kind of machine has written"
            self.findings.unchecked(REPLAY, text)
        if not self.findings.count(REPLAY):
            without_any = "without" if self.seen.is_whole else "with the oldest of them alone"
            text = f"with snapshots and {without_any}, the state is the same bit for bit"
            self.findings.ok(REPLAY, text)

    def _compare_learned(self, learner: EventProcessor, replayed: EventProcessor, *, one: bool) -> None:
        n = self.seen.end.n
        if not one:
            text = "weights, powers and what forgets: more than one kind of machine has written"
            self.findings.unchecked(LEARNERS, text)
        arrays, other = learner.model.state()[1], replayed.model.state()[1]
        same = compare_learned(arrays, other, LEARNERS, n, self.findings, one=one)
        if not self.findings.count(LEARNERS):
            text = f"{same:,} numbers of what learns by gradient or forgets are the replay's, bit for bit"
            self.findings.ok(LEARNERS, text, record=n)

    def _recovered(
        self,
        snapshots: Snapshots,
        check: str,
        passed: Callable[[Checkpoint, EventProcessor, Sequence[NewRecord]], None] = lambda *_: None,
    ) -> EventProcessor | None:
        learner = self.learner()
        n = self.seen.end.n

        def on_the_way(checkpoint: Checkpoint, outputs: Sequence[NewRecord]) -> None:
            passed(checkpoint, learner, outputs)

        try:
            recover(self.log, snapshots, learner, self.identity, at=n, passed=on_the_way)
        except StreamnbError as error:
            self.findings.differs(check, f"the state cannot be recovered: {error}", {"record": n})
            return None
        return learner


def _portable(name: str, part: SnapshotPart, without: tuple[str, ...], *, one: bool) -> SnapshotPart:
    """Return what is compared as a whole; across machines without sums of logarithms and powers."""
    if name == "progressive" and not one:
        return SnapshotPart({}, {})
    return SnapshotPart(
        part.meta, {key: array for key, array in part.arrays.items() if not key.startswith(without)}
    )


def _other_values(one: SnapshotPart, other: SnapshotPart) -> Iterator[str]:
    for name in sorted({**one.meta, **other.meta}):
        if one.meta.get(name) != other.meta.get(name):
            yield name
    for name in sorted({**one.arrays, **other.arrays}):
        here, there = (
            SnapshotPart({}, {name: p.arrays[name]} if name in p.arrays else {}) for p in (one, other)
        )
        if part_digest(*here) != part_digest(*there):
            yield name
