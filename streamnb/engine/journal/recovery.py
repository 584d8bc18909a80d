"""Recovery of the exact state: newest readable snapshot + silent replay of later journalled slices."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, NamedTuple

from streamnb.engine.journal.checkpoint import BEFORE, Checkpoint, origin_of
from streamnb.engine.journal.job_identity import JobIdentity, JournalOrigin
from streamnb.engine.journal.journal_history import (
    ForeignRecord,
    JournalEntry,
    entries,
    find,
    is_on,
    last,
    path_to,
    with_heartbeat,
)
from streamnb.engine.journal.recovery_faults import journal_fault
from streamnb.engine.journal.slice_replay import SliceReader, processed
from streamnb.engine.journal.snapshot_store import FoundSnapshot, NoSnapshots, Snapshots
from streamnb.engine.ports import Log, NewRecord, Partition
from streamnb.engine.processing.event_processor import EventProcessor
from streamnb.engine.processing.retrained_model import RetrainedModel
from streamnb.errors import JournalError, OtherStream, SnapshotError
from streamnb.formats.journal_record import ConfigChange, JournalRecord, chain_outputs
from streamnb.formats.snapshot_container import Snapshot
from streamnb.values.parameter_checks import brief

_SHOWN = 5  # configuration changes in a message
_FREE: AbstractContextManager[object] = nullcontext()  # the learner is not shared
Passed = Callable[[Checkpoint, Sequence[NewRecord]], None]


class Followed(NamedTuple):
    """State that a learner has reached by following a journal.

    Attributes:
        checkpoint: position of the learner.
        is_comparable: True if this kind of machine wrote the state and every record that was followed.
    """

    checkpoint: Checkpoint
    is_comparable: bool


class _Start(NamedTuple):
    """Beginning of a replay: after this checkpoint, with the record at this offset."""

    checkpoint: Checkpoint
    offset: int | None
    snapshot: Snapshot | None


def recover(
    log: Log,
    snapshots: Snapshots,
    learner: EventProcessor,
    identity: JobIdentity,
    heartbeat: Callable[[], None] = lambda: None,
    at: int | None = None,
    passed: Passed = lambda *_: None,
    stray: Callable[[ForeignRecord], None] = lambda _: None,
    *,
    begins: bool = False,
    since: Followed | None = None,
) -> Checkpoint:
    """Bring a learner to the journal's end, and write nothing; `BEFORE` for an empty journal.

    1. Find the newest snapshot; the journal must hold its record, with the same digest.
    2. Read the journal from there to its end: each record must follow its predecessor. If it was rolled back
       to before the snapshot, begin with an older snapshot.
    3. Refuse a configuration under which the state cannot continue.
    4. Process the slices of every later record that was not rolled back, each under the configuration of its
       time, and compare the outputs with the published ones.

    Outputs are compared while this kind of machine wrote them: on another kind the last bit of a logarithm
    may differ. Recovery may outlast a session: `heartbeat` is called before each record.

    Args:
        log: acquired, or read-only.
        snapshots: snapshot store.
        learner: empty, or at `since`; afterwards it has the current configuration.
        identity: the job that the state must belong to.
        heartbeat: called before each record.
        at: stop after this journal record, under its configuration; default is the end.
        passed: called after each replayed record with the checkpoint, and with its outputs if comparable.
        stray: called for each foreign record, perhaps twice.
        begins: if the caller is the learner that journals its configuration next. Then the state counts a
            change of its capacity; a reader's state does not.
        since: state of a learner that has followed this journal, which replaces step 1; see `continues`.

    Raises:
        JournalError: journal, snapshot and log do not fit together, or the configuration differs.
        SnapshotError: snapshots exist, but none can be read.
    """
    replay = _JournalReplay(log, snapshots, learner, identity, heartbeat, passed)
    if since is not None:
        replay.follow(since)
    return _recover(replay, at, stray, begins=begins, since=since)


def _recover(
    replay: _JournalReplay,
    at: int | None,
    stray: Callable[[ForeignRecord], None],
    *,
    begins: bool = False,
    since: Followed | None = None,
) -> Checkpoint:
    log, identity = replay.log, replay.identity
    journal = log.partitions(identity.journal)[0]
    start, end, path = _scan_journal(log, journal, replay.snapshots, at, replay.heartbeat, stray, since=since)
    if end.n < 0:
        return end
    if at is None:
        refuse_changes(end, identity)
    replay.run(start, end, path)
    if at is None and end.origin.config_hash != identity.config_hash:
        configure(replay.learner, identity, identity.semantic_config, counts_room=begins)
    return end


def continues(log: Log, identity: JobIdentity, checkpoint: Checkpoint) -> bool:
    """Return if the journal still holds a checkpoint, and was not rolled back to before it."""
    journal = log.partitions(identity.journal)[0]
    found = _entry_at(log, journal, checkpoint)
    if found is None:
        return False
    later = (entry.record for entry in entries(log, journal, found.offset))
    return not any(record.kind == "rollback" and record.to < checkpoint.n for record in later)


def standing(
    log: Log,
    snapshots: Snapshots,
    identity: JobIdentity,
    heartbeat: Callable[[], None] = lambda: None,
    passing: frozenset[int] = frozenset(),
) -> Checkpoint:
    """Return the journal's last checkpoint from its records alone, skipping offsets in `passing`."""
    journal = log.partitions(identity.journal)[0]
    return _scan_journal(log, journal, snapshots, None, heartbeat, lambda _: None, passing)[1]


def committed(
    log: Log, snapshots: Snapshots, identity: JobIdentity, heartbeat: Callable[[], None] = lambda: None
) -> tuple[Checkpoint, Snapshot | None]:
    """Return the newest snapshot in the journal's path and its checkpoint, or None and `BEFORE`."""
    journal = log.partitions(identity.journal)[0]
    start, _, _ = _scan_journal(log, journal, snapshots, None, heartbeat, lambda _: None)
    return start.checkpoint, start.snapshot


def refuse_changes(checkpoint: Checkpoint, identity: JobIdentity) -> Sequence[ConfigChange]:
    """Return the configuration changes; raise OtherStream if the state cannot continue with them."""
    origin = checkpoint.origin
    if origin.config_hash == identity.config_hash:
        return []
    if identity.configuration is None or not origin.config:
        raise OtherStream(
            "this journal was written under another configuration of events, attributes, model, metrics or "
            "predictions: run with that configuration, or begin a new log"
        )
    changes = identity.configuration.changes_since(origin.config)
    others = [change for change in changes if not change.allowed]
    if others:
        refused = [f"{c.key} was {brief(c.before)} and is {brief(c.after)}" for c in others]
        retrain = ", retrain with the new values (`streamnb rebuild`)" if all(c.anew for c in others) else ""
        raise OtherStream(
            f"the model cannot continue under this configuration: {'; '.join(refused[:_SHOWN])}"
            f"{f'; and {more:,} more' if (more := len(refused) - _SHOWN) > 0 else ''}; "
            f"run with the former values (by --config, if a file gave them){retrain}, or begin a new log; a "
            "second model needs its own model.name, topics.journal and snapshots.folder, and its own log if "
            "the log is embedded"
        )
    return changes


def describe_changes(changes: Iterable[ConfigChange]) -> str:
    """Format the old and new value of each change."""
    return "; ".join(f"{c.key}: {brief(c.before)} -> {brief(c.after)}" for c in changes)


def _scan_journal(
    log: Log,
    journal: Partition,
    snapshots: Snapshots,
    at: int | None,
    heartbeat: Callable[[], None],
    stray: Callable[[ForeignRecord], None],
    passing: frozenset[int] = frozenset(),
    since: Followed | None = None,
) -> tuple[_Start, Checkpoint, list[range]]:
    """Return the start of a replay, the last checkpoint (or that of record `at`), and its path."""
    at_most = at
    while True:
        start = (
            _start_from(log, journal, snapshots.newest(at_most, heartbeat), passing)
            if since is None
            else _start_at(log, journal, since.checkpoint)
        )
        checkpoint, rollbacks = start.checkpoint, {}
        for entry in with_heartbeat(entries(log, journal, start.offset, passing), heartbeat):
            record = entry.record
            for found_there in entry.strays:
                stray(found_there)
            if entry.offset != start.offset:
                checkpoint = checkpoint.after(record)
            if record.kind == "rollback":
                rollbacks[record.n] = record.to
            if record.n == at:
                break
        if at is not None and checkpoint.n != at:
            raise JournalError(f"there is no journal record {at}: the last is {checkpoint.n}")
        path = path_to(checkpoint.n, rollbacks)
        if is_on(path, start.checkpoint.n) or start.checkpoint.n < 0:
            return start, checkpoint, path
        at_most, since = path[0].stop - 1, None  # rolled back to before the snapshot


def _start_from(log: Log, journal: Partition, kept: FoundSnapshot | None, passing: frozenset[int]) -> _Start:
    """Return the start of a replay; raise JournalError if the journal lacks the snapshot's record."""
    snapshot = None if kept is None else kept.snapshot
    if snapshot is None:
        first = next(entries(log, journal), None)
        if first is not None and (fault := journal_fault(first.record, first.record, None)) is not None:
            before = "".join(f"; {journal} offset {at}: {what}" for at, what in first.strays)
            raise JournalError(f"{fault}{before}")
        if first is not None and first.record.kind != "genesis":
            raise JournalError("the journal does not begin with its genesis")
        return _Start(BEFORE, None, None)
    found = find(log, journal, snapshot.journal_n)
    if found is None:
        for _ in entries(log, journal, passing=passing):
            pass  # an unreadable record is reported first: it may be the missing record
        ends = next(entries(log, journal), None), last(log, journal)
        oldest, newest = (None if end is None else end.record for end in ends)
        raise JournalError(str(journal_fault(oldest, newest, snapshot.journal_n)))
    if found.record.digest != snapshot.digest:
        raise JournalError(f"the snapshot at journal record {snapshot.journal_n} belongs to another journal")
    return _Start(Checkpoint.at(found.record, origin_of(snapshot)), found.offset, snapshot)


def _start_at(log: Log, journal: Partition, checkpoint: Checkpoint) -> _Start:
    """Return the start of a replay after a checkpoint; raise JournalError if the journal lacks it."""
    found = _entry_at(log, journal, checkpoint)
    if found is None:
        raise JournalError(f"the journal no longer holds record {checkpoint.n} as it was followed")
    return _Start(checkpoint, found.offset, None)


def _entry_at(log: Log, journal: Partition, checkpoint: Checkpoint) -> JournalEntry | None:
    """Return the journal's record of a checkpoint; None if it is missing or another."""
    found = find(log, journal, checkpoint.n)
    return found if found is not None and found.record.digest == checkpoint.digest else None


def _load(learner: EventProcessor, snapshot: Snapshot) -> None:
    try:
        learner.load(snapshot.parts, snapshot.segments)
    except SnapshotError as error:
        raise SnapshotError(
            f"the snapshot at journal record {snapshot.journal_n}: {error}; "
            "move it away, and the model is built again from an older one, or from the journal"
        ) from error


class JournalTail:
    """A learner that follows the journal without writing.

    Args:
        log: read-only.
        learner: stands at the checkpoint.
        identity: the journal's job.
        checkpoint: a record of the journal.
        heartbeat: called before each record.
        snapshots: files of installed models; without them it stops before such a record.
        held: entered while the learner and `checkpoint` change.
        is_comparable: compare outputs with the published ones, as `recover` does. Requires a state that
            this kind of machine wrote.

    Attributes:
        learner: the learner.
        end: end of the journal topic up to which it has read; -1 at first.
        offset: of its record in the journal topic or, briefly, of the record before.
    """

    def __init__(
        self,
        log: Log,
        learner: EventProcessor,
        identity: JobIdentity,
        checkpoint: Checkpoint,
        heartbeat: Callable[[], None] = lambda: None,
        snapshots: Snapshots | None = None,
        held: AbstractContextManager[object] = _FREE,
        *,
        is_comparable: bool = False,
    ) -> None:
        self.learner = learner
        self._adopts = snapshots is not None
        self._log, self._heartbeat = log, heartbeat
        self._journal = log.partitions(identity.journal)[0]
        found = find(log, self._journal, checkpoint.n)
        self.offset = 0 if found is None else found.offset
        self.end = -1
        self._replay = _JournalReplay(
            log, snapshots or NoSnapshots(), learner, identity, heartbeat, held=held
        )
        self._replay.follow(Followed(checkpoint, is_comparable))

    @classmethod
    def recovered(
        cls,
        log: Log,
        snapshots: Snapshots,
        learner: EventProcessor,
        identity: JobIdentity,
        at: int,
        heartbeat: Callable[[], None] = lambda: None,
    ) -> JournalTail:
        """Recover an empty learner to journal record `at`, and return a tail that compares outputs.

        Raises JournalError and SnapshotError as `recover`.
        """
        replay = _JournalReplay(log, snapshots, learner, identity, heartbeat)
        end = _recover(replay, at, lambda _: None)
        return cls(log, learner, identity, end, heartbeat, snapshots, is_comparable=replay.comparable)

    @property
    def followed(self) -> Followed:
        """State that the learner has reached, for a recovery that continues with it."""
        return Followed(self._replay.stands, self._replay.comparable)

    @property
    def checkpoint(self) -> Checkpoint:
        """Current checkpoint of the learner."""
        return self._replay.stands

    def advance(self) -> Iterator[JournalRecord]:
        """Process the journal up to its end; yield each record after it was processed.

        Without snapshots, a record that installs another model is yielded unprocessed, and ends the
        iteration. Raises JournalError if the journal was rolled back, or cannot be followed.
        """
        end = self._log.offsets(self._journal)[1]
        if end == self.end:
            return
        for entry in with_heartbeat(entries(self._log, self._journal, self.offset), self._heartbeat):
            if entry.record.n <= self.checkpoint.n:
                continue
            if entry.record.kind == "rollback":
                raise JournalError(f"the journal was rolled back by record {entry.record.n}: begin again")
            if entry.record.kind == "adopt" and not self._adopts:
                yield entry.record
                return
            self._replay.process(self.checkpoint, self.checkpoint.after(entry.record), entry.record)
            self.offset = entry.offset
            yield entry.record
        self.end = end


@dataclass(eq=False)
class _JournalReplay:
    """Replay of a path through the journal."""

    log: Log
    snapshots: Snapshots
    learner: EventProcessor
    identity: JobIdentity
    heartbeat: Callable[[], None]
    passed: Passed = lambda *_: None
    held: AbstractContextManager[object] = _FREE

    def __post_init__(self) -> None:
        self._slices = SliceReader(self.log)
        self.comparable = True
        self._config_hash = self.identity.config_hash  # the learner's
        self.stands = BEFORE  # the learner's checkpoint, consistent with it under `held`

    def follow(self, followed: Followed) -> None:
        """Start at the learner's checkpoint; the journal may have another configuration hash."""
        self.stands, self.comparable = followed
        self._config_hash = self.stands.origin.config_hash

    def run(self, start: _Start, end: Checkpoint, path: Sequence[range]) -> None:
        if start.snapshot is not None:
            self.comparable = start.snapshot.fingerprint == self.identity.fingerprint
            self._configured(start.checkpoint)  # while the learner is empty
            _load(self.learner, start.snapshot)
        checkpoint = start.checkpoint
        journal = self.log.partitions(self.identity.journal)[0]
        self._slices.start = checkpoint.n
        for entry in with_heartbeat(entries(self.log, journal, start.offset), self.heartbeat):
            if entry.offset == start.offset:
                continue
            before, checkpoint = checkpoint, checkpoint.after(entry.record)
            if is_on(path, entry.record.n):
                outputs = self.process(before, checkpoint, entry.record)
                self.passed(checkpoint, outputs if self.comparable else ())
            if checkpoint.n == end.n:
                break

    def process(
        self, before: Checkpoint, checkpoint: Checkpoint, record: JournalRecord
    ) -> Sequence[NewRecord]:
        records = self._slices.of(record)
        with self.held:
            if record.kind == "adopt":
                install_model(self.learner, lambda: self._offered(record), self.identity, record.config)
            self._configured(checkpoint)
            if record.kind == "rollback":
                self.learner.report_all_tenants()
            outputs = processed(self.learner, record, records, self.heartbeat)
            self.stands = checkpoint
        self.comparable = self.comparable and record.machine == self.identity.machine
        if self.comparable and chain_outputs(before.outputs, outputs) != record.outputs:
            raise JournalError(
                f"replaying journal record {record.n} gave other outputs than it published: "
                "the program or the configuration is not the one that wrote it"
            )
        return outputs

    def _offered(self, record: JournalRecord) -> RetrainedModel:
        """Return the model that a record installed; raise JournalError if its file is gone."""
        found = self.snapshots.offered(record.n - 1)
        rebuilt = None if found is None else RetrainedModel.from_parts(found.parts)
        if rebuilt is None or rebuilt.digest != record.model:
            raise JournalError(
                f"journal record {record.n} installed a retrained model, and its file "
                f"adopt-{record.n - 1:020d}.snb among the snapshots is "
                f"{'gone' if rebuilt is None else 'another'}: bring it back, or a later snapshot"
            )
        return rebuilt

    def _configured(self, checkpoint: Checkpoint) -> None:
        continue_under(self.learner, self.identity, checkpoint.origin, self._config_hash)
        self._config_hash = checkpoint.origin.config_hash


def install_model(
    learner: EventProcessor,
    rebuilt: Callable[[], RetrainedModel],
    identity: JobIdentity,
    config: Mapping[str, Any],
) -> None:
    """Install a retrained model in a learner, under another configuration if `config` is given."""
    fresh = identity.configuration.learner(config).model if config and identity.configuration else None
    learner.install_model(rebuilt, fresh)


def continue_under(
    learner: EventProcessor, identity: JobIdentity, origin: JournalOrigin, config_hash: str
) -> None:
    """Apply the configuration of `origin` to a learner whose configuration has `config_hash`."""
    if origin.config_hash != config_hash:
        is_present = origin.config_hash == identity.config_hash
        configure(learner, identity, identity.semantic_config if is_present else origin.config)


def configure(
    learner: EventProcessor, identity: JobIdentity, shaping: Mapping[str, Any], *, counts_room: bool = True
) -> None:
    """Apply a configuration to a learner. Raises JournalError if the identity has none."""
    if identity.configuration is None:
        raise JournalError("this journal was written under several configurations, and only one is known")
    identity.configuration.apply(learner, shaping, counts_room=counts_room)
