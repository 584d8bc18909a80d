"""Whether what was learned is what the log says: the journal's chain, its slices, a recount, and the outputs.

It only reads, takes the journal's end as it is at the beginning, and so can look while a learner goes on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from streamnb.engine.checkpoint import Identity, NoSnapshots, Origin, Snapshots
from streamnb.engine.learner import Learner
from streamnb.engine.lifecycle import missing_records
from streamnb.engine.ports import Log
from streamnb.engine.recovery import recover, refuse_changes
from streamnb.engine.verification.chain import CHAIN, LEARNED, Survey, earliest_kept, survey
from streamnb.engine.verification.comparison import Compared, State, compare, recount_of
from streamnb.engine.verification.findings import Findings
from streamnb.engine.verification.kept_snapshots import SNAPSHOTS, KeptSnapshots
from streamnb.engine.verification.published import Processed, Published
from streamnb.engine.verification.reading import SLICES, EventReader
from streamnb.engine.verification.recount import Plan, Recount
from streamnb.errors import JournalError, LogError, SnapshotError, StreamnbError
from streamnb.wire.snapshot import Part, part_digest

__all__ = ["Source", "Verified", "verify"]

RECOUNT, REPLAY, CONFIGURATION, LOG = "recount", "replay", "configuration", "log"
_UNPORTABLE = ("posterior_", "decayed_")


@dataclass(frozen=True)
class Source:
    """What is verified.

    Attributes:
        log: which is only read.
        snapshots: where they are found.
        learner: makes one that has learned nothing.
        identity: what the state has to belong to.
        plans: how events are counted under a configuration. May raise JournalError.
    """

    log: Log
    snapshots: Snapshots
    learner: Callable[[], Learner]
    identity: Identity
    plans: Callable[[Origin], Plan]


@dataclass
class Verified:
    """What was verified.

    Attributes:
        findings: all that was found.
        n: the last record of the journal that was looked at; -1 where there is none.
        events: records of every sort that were recounted.
        commits: in how many commits they were learned.
        compared: how many numbers of the state are equal to the recount's; None where it was not compared.
    """

    findings: Findings
    n: int = -1
    events: int = 0
    commits: int = 0
    compared: Compared | None = None


def verify(source: Source, findings: Findings, progress: Callable[[int], None] = lambda _: None) -> Verified:
    """Check everything that can be checked, and tell all that differs.

    1. The chain of the journal, and its positions.
    2. Every slice that the log still holds; its events are counted by plain addition on the way, from the
       journal's beginning, or from the oldest snapshot that what is kept reaches back to.
    3. The recount beside every snapshot that it passes, and beside the state that a recovery gives.
    4. That state beside one made without snapshots.
    5. Predictions and dead letters beside the events.

    Args:
        source: what is verified.
        findings: are told.
        progress: called now and then with how many events have been read.

    Raises:
        LogError: the log, or its journal, cannot be read at all.
    """
    verified = Verified(findings)
    # Snapshots first: one that is kept meanwhile stands at a record beyond the journal's end as it is taken.
    kept = KeptSnapshots(source.snapshots, findings)
    kept.list()
    earliest = earliest_kept(source.log, source.identity.topics)
    journal = source.log.partitions(source.identity.journal)[0]
    seen = survey(source.log, journal, earliest, kept.origins, findings)
    verified.n = seen.end.n
    if seen.first is None:
        if not seen.is_broken:
            findings.differs(CHAIN, "the journal is empty: nothing has been learned yet")
        return verified
    _check_present(source, seen, findings)
    kept.check_places(seen)
    recounting = _Recounting(source, seen, kept, verified, progress)
    try:
        recounting.run(EventReader(source.log, seen, kept.origins, earliest, source.plans))
    except JournalError as error:  # a configuration that this program does not know
        findings.differs(CONFIGURATION, str(error))
    learner = _recovered(source, seen, source.snapshots, RECOUNT, findings)
    if learner is not None:
        _compare_recount(recounting.recount, learner, seen, verified)
        _compare_replay(source, seen, kept, learner, findings)
    return verified


def _check_present(source: Source, seen: Survey, findings: Findings) -> None:
    """The journal's end beside the configuration and the log as they are now."""
    end = {"record": seen.end.n}
    if not seen.is_broken:
        findings.ok(CHAIN, f"records {seen.first_n:,} to {seen.end.n:,}, each follows the one before")
    if seen.first_n > 0:
        findings.unchecked(
            CHAIN, f"the records before {seen.first_n:,} are no longer kept", record=seen.first_n
        )
    try:
        changes = refuse_changes(seen.end, source.identity)
        told = "; ".join(f"{c.key}: {c.before} -> {c.after}" for c in changes)
        findings.ok(CONFIGURATION, f"other from the next run on: {told}" if told else "that of the journal")
    except JournalError as error:
        findings.differs(CONFIGURATION, str(error), end)
    try:
        for line in missing_records(source.log, seen.end, source.identity):
            findings.differs(LOG, line, end)
    except LogError as error:
        findings.differs(LOG, str(error), end)


class _Recounting:
    """One pass over the events: slices, the recount with the snapshots it passes, and what was published.

    Attributes:
        recount: None where there is nothing to begin with, or something is missing on the way.
    """

    def __init__(
        self,
        source: Source,
        seen: Survey,
        kept: KeptSnapshots,
        verified: Verified,
        progress: Callable[[int], None],
    ) -> None:
        self.recount: Recount | None = None
        self._source = source
        self._seen = seen
        self._kept = kept
        self._verified = verified
        self._findings = verified.findings
        self._progress = progress
        self._base = -1  # the record after which counting begins

    def run(self, reader: EventReader) -> None:
        """Raises JournalError for a configuration that this program does not know."""
        self._begin()
        plans = [plan for origin in self._seen.origins.values() if (plan := reader.plan(origin)) is not None]
        settings = [plan.settings for plan in plans]
        published = Published(self._source.log, settings, self._seen, self._kept.origins, self._findings)
        published.begin()
        read = 0
        for processed in reader(self._findings):
            read += len(processed.events)
            self._progress(read)
            published.expect(processed)
            self._count(processed, reader.plan(processed.step.after.origin))
        if not self._findings.count(LEARNED):
            self._findings.ok(LEARNED, "every event up to them was learned once: none twice, none skipped")
        self._tell_slices(reader)
        published.check(lambda: reader(Findings()))

    def _begin(self) -> None:
        """Where the recount begins."""
        if self._seen.is_whole:
            self.recount = Recount()
            return
        least = max(self._seen.first_n, self._seen.unread)
        for n, state in self._kept.states(least, self._seen):
            try:
                self.recount, self._base = recount_of(state), n
            except SnapshotError as error:
                text = f"the snapshot at journal record {n}: {error}"
                self._findings.differs(SNAPSHOTS, text, {"record": n})
                continue
            self._findings.unchecked(
                RECOUNT,
                f"{self.recount.consumed:,} events up to journal record {n}, whose events or journal are no "
                "longer kept: the recount begins with the snapshot there",
                record=n,
            )
            return
        text = f"events up to journal record {least} are no longer kept, and no snapshot stands after it"
        self._findings.unchecked(RECOUNT, text, record=least)

    def _count(self, processed: Processed, plan: Plan | None) -> None:
        """Go on with the recount, and look at the snapshot that stands there."""
        record = processed.step.record
        if self.recount is None or plan is None or not self._seen.counts(record.n):
            return
        if record.n > self._base:
            for _, event in processed.events:
                self.recount.take(event, plan)
            self._verified.events += len(processed.events)
            self._verified.commits += record.kind == "commit"
        if not self._seen.is_broken:
            self._kept.compare(processed.step, self.recount, self._base)

    def _tell_slices(self, reader: EventReader) -> None:
        if reader.gone:
            self._findings.unchecked(SLICES, f"{reader.gone:,} slices are no longer kept")
        if self._findings.count(SLICES):
            return
        self._findings.ok(SLICES, f"{reader.slices:,} slices hold what was learned")
        lost = [n for n in sorted(reader.incomplete) if n > self._base and self._seen.counts(n)]
        if lost and self.recount is not None:
            self.recount = None
            text = f"events of journal record {lost[0]} were deleted while they were verified"
            self._findings.unchecked(RECOUNT, text, record=lost[0])


def _compare_recount(recount: Recount | None, learner: Learner, seen: Survey, verified: Verified) -> None:
    """The state that a learner would begin with, beside the recount."""
    findings = verified.findings
    if recount is None or seen.is_broken:
        findings.unchecked(RECOUNT, "the state: what was learned could not be counted")
        return
    compared = verified.compared = compare(recount, State.of(learner), RECOUNT, seen.end.n, findings)
    if not findings.count(RECOUNT):
        text = f"{compared.counts:,} counts and {compared.moments:,} moments equal"
        findings.ok(RECOUNT, text, record=seen.end.n)


def _compare_replay(
    source: Source, seen: Survey, kept: KeptSnapshots, learner: Learner, findings: Findings
) -> None:
    """The same state beside one made of the journal alone, bit for bit.

    Scores are sums of logarithms: they are the same bits only on one kind of machine.
    """
    if not kept.origins:
        findings.ok(REPLAY, "there are no snapshots: the state is the journal's own replay")
        return
    if not seen.is_whole:
        findings.unchecked(REPLAY, "the state without snapshots: events or journal are no longer kept")
        return
    replayed = _recovered(source, seen, NoSnapshots(), REPLAY, findings)
    if replayed is None:
        return
    one = seen.machines <= {source.identity.machine} and kept.are_of(source.identity)
    sides = (learner.parts(), replayed.parts())
    for name in sorted(sides[0]):
        state, other = (parts[name] if one else _portable(name, parts[name]) for parts in sides)
        if part_digest(*state) != part_digest(*other):
            where = ", ".join(_other_values(state, other))
            text = f"part {name!r} of the state is another with snapshots than without: {where}"
            findings.differs(REPLAY, text, {"record": seen.end.n})
    if not one:
        findings.unchecked(REPLAY, "the scores' last bits: more than one kind of machine has written")
    if not findings.count(REPLAY):
        findings.ok(REPLAY, "with snapshots and without, the state is the same bit for bit")


def _portable(name: str, part: Part) -> Part:
    """What has the same bits on every kind of machine: no sums of logarithms, and no powers."""
    if name == "progressive":
        return Part({}, {})
    arrays = {key: array for key, array in part.arrays.items() if not key.startswith(_UNPORTABLE)}
    return Part(part.meta, arrays)


def _other_values(one: Part, other: Part) -> Iterator[str]:
    """The names of what is another in two parts."""
    for name in sorted({**one.meta, **other.meta}):
        if one.meta.get(name) != other.meta.get(name):
            yield name
    for name in sorted({**one.arrays, **other.arrays}):
        here, there = (Part({}, {name: p.arrays[name]} if name in p.arrays else {}) for p in (one, other))
        if part_digest(*here) != part_digest(*there):
            yield name


def _recovered(
    source: Source, seen: Survey, snapshots: Snapshots, check: str, findings: Findings
) -> Learner | None:
    learner = source.learner()
    try:
        recover(source.log, snapshots, learner, source.identity, at=seen.end.n)
    except StreamnbError as error:
        text = f"the state cannot be recovered: {error}"
        findings.differs(check, text, {"record": seen.end.n})
        return None
    return learner
