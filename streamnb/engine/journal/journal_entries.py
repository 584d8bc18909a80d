"""Journal records other than commits: genesis, and changes of configuration, program or model.

Each function writes one record in its own transaction without outputs, to an acquired log.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import pairwise
from types import MappingProxyType
from typing import Any

from streamnb.engine.journal.checkpoint import BEFORE, Checkpoint
from streamnb.engine.journal.job_identity import JobIdentity
from streamnb.engine.journal.journal_history import JournalEntry, decoded, entries, with_heartbeat
from streamnb.engine.journal.recovery import standing
from streamnb.engine.journal.snapshot_store import Snapshots
from streamnb.engine.ports import Log, Partition
from streamnb.engine.processing.retrained_model import RetrainedModel
from streamnb.errors import Fenced, ForeignRecordError, JournalError
from streamnb.formats.journal_record import JournalRecord, Kind


def begin(log: Log, identity: JobIdentity, now: float) -> Checkpoint:
    """Write the genesis record: learning starts with the earliest records kept."""
    checkpoint = _write(
        log,
        BEFORE,
        "genesis",
        identity,
        now,
        positions={p: first for p, (first, _) in _extents(log, identity, identity.topics).items()},
        config_hash=identity.config_hash,
        config=identity.semantic_config,
        fingerprint=identity.fingerprint,
        topic_ids=_topic_ids(log, identity),
    )
    journal = log.partitions(identity.journal)[0]
    found = decoded(log, journal, *log.offsets(journal))
    written = [record for _, record in found if isinstance(record, JournalRecord)]
    ours = written[0].digest == checkpoint.digest
    if not ours or any(after.previous != before.digest for before, after in pairwise(written)):
        raise JournalError(f"another model writes to journal {identity.journal!r}: each model needs its own")
    if len(written) > 1:
        raise Fenced("another learner has taken over the journal that this learner began")
    return checkpoint


def _write(
    log: Log, checkpoint: Checkpoint, kind: Kind, identity: JobIdentity, now: float, **fields: Any
) -> Checkpoint:
    after, transaction = checkpoint.next(kind, identity, now, **fields)
    log.commit(transaction)
    return after


def accept_configuration(log: Log, checkpoint: Checkpoint, identity: JobIdentity, now: float) -> Checkpoint:
    """Journal the current configuration if it has changed."""
    if checkpoint.origin.config_hash == identity.config_hash:
        return checkpoint
    return restate(log, checkpoint, identity, now)


def restate(log: Log, checkpoint: Checkpoint, identity: JobIdentity, now: float) -> Checkpoint:
    """Journal the current configuration, changed or not; added topics start at their earliest record."""
    added = [topic for topic in identity.topics if topic not in checkpoint.origin.topic_ids]
    begins = {p: first for p, (first, _) in _extents(log, identity, added).items()}
    return _write(
        log,
        checkpoint,
        "config",
        identity,
        now,
        positions={**checkpoint.positions, **begins},
        config_hash=identity.config_hash,
        config=identity.semantic_config,
        topic_ids={topic: log.topic_id(topic) for topic in added},
    )


def accept_program(log: Log, checkpoint: Checkpoint, identity: JobIdentity, now: float) -> Checkpoint:
    """Journal the current program version if it has changed."""
    if checkpoint.origin.program == identity.program:
        return checkpoint
    return _write(log, checkpoint, "program", identity, now, fingerprint=identity.fingerprint)


def missing_records(log: Log, checkpoint: Checkpoint, identity: JobIdentity) -> list[str]:
    """Describe lost input, a line each: retention overrun, topics recreated or truncated."""
    found = []
    anew = set()
    for topic, topic_id in _topic_ids(log, identity).items():
        known = checkpoint.origin.topic_ids.get(topic)
        if known is not None and known != topic_id:
            anew.add(topic)
            found.append(f"topic {topic!r} was deleted and recreated since the last commit")
    read = [topic for topic in identity.topics if topic in checkpoint.origin.topic_ids]
    checkpoint = checkpoint.with_new_partitions(partitions_of(log, identity))
    extents = _extents(log, identity, [topic for topic in read if topic not in anew])
    for partition, position in sorted(checkpoint.positions.items()):
        if partition.topic in anew or partition.topic not in read:
            continue
        earliest, end = extents.get(partition, (0, 0))
        if position < earliest:
            gone = f"offsets {position} to {earliest - 1} were deleted before they were learned"
            found.append(f"{partition}: {gone}")
        elif position > end:
            cut = f"but was learned up to {position}: it was cut short"
            found.append(f"{partition} ends at offset {end}, {cut}")
    return found


def _extents(log: Log, identity: JobIdentity, topics: Iterable[str]) -> dict[Partition, tuple[int, int]]:
    """Return the offset ranges of all partitions that are read: there may be hundreds."""
    found = {partition: extent for topic in topics for partition, extent in log.offset_ranges(topic).items()}
    return {partition: extent for partition, extent in found.items() if identity.reads(partition)}


def accept_loss(log: Log, checkpoint: Checkpoint, identity: JobIdentity, now: float) -> Checkpoint:
    """Journal that learning continues with the available records; lost records are skipped."""
    topic_ids = _topic_ids(log, identity)
    positions = {}
    for partition, (earliest, end) in _extents(log, identity, identity.topics).items():
        same = topic_ids[partition.topic] == checkpoint.origin.topic_ids.get(partition.topic)
        known = checkpoint.positions.get(partition, 0) if same else earliest
        positions[partition] = min(max(known, earliest), end)
    return _write(log, checkpoint, "loss", identity, now, positions=positions, topic_ids=topic_ids)


def install_retrained_model(
    log: Log,
    checkpoint: Checkpoint,
    rebuilt: RetrainedModel,
    identity: JobIdentity,
    now: float,
    merges: Mapping[str, Any] = MappingProxyType({}),
) -> Checkpoint:
    """Journal an installed model and its configuration; `merges` names a merged model's sources."""
    said: dict[str, Any] = {"to": rebuilt.to, "model": rebuilt.digest, "floor": rebuilt.forgets}
    said |= merges
    if checkpoint.origin.config_hash != identity.config_hash:
        said |= {"config_hash": identity.config_hash, "config": identity.semantic_config}
    return _write(log, checkpoint, "adopt", identity, now, **said)


def roll_back(log: Log, checkpoint: Checkpoint, to: int, identity: JobIdentity, now: float) -> Checkpoint:
    """Journal the return to the state of record `to`; positions and configuration stay."""
    if not 0 <= to < checkpoint.n:
        raise JournalError(f"cannot roll back from journal record {checkpoint.n} to {to}")
    refuse_forgotten(checkpoint, to)
    return _write(log, checkpoint, "rollback", identity, now, to=to)


def refuse_forgotten(checkpoint: Checkpoint, to: int) -> None:
    """Raise JournalError if the state of record `to` holds events that were erased since."""
    if to < checkpoint.origin.floor:
        raise JournalError(
            f"events were forgotten at journal record {checkpoint.origin.floor}: no earlier state can "
            f"return, and {to} is earlier"
        )


def skip_foreign_records(
    log: Log, snapshots: Snapshots, offsets: frozenset[int], identity: JobIdentity, now: float
) -> Checkpoint:
    """Journal the offsets of foreign records, which readers then skip.

    Nothing is deleted. A record of the chain is refused, and so is a record after its end with a number to
    come: its predecessors are missing.

    Args:
        log: acquired.
        snapshots: snapshot store; the newest may know records that a trimmed journal lacks.
        offsets: offsets of the foreign records.
        identity: the journal's job.
        now: time of the record.

    Raises:
        JournalError: an offset holds no foreign record, or the chain is broken without the skipped ones.
    """
    journal = log.partitions(identity.journal)[0]
    end = None
    for end in with_heartbeat(entries(log, journal, None, offsets), log.heartbeat):
        if end.offset in offsets:
            raise JournalError(f"{journal} offset {end.offset} is journal record {end.record.n} itself")
    if end is None:
        raise JournalError("the journal has no record yet: foreign records before it are skipped anyway")
    reach = min(max(offsets) + 1, log.offsets(journal)[1])
    found = {at: record for at, record in decoded(log, journal, min(offsets), reach) if at in offsets}
    for offset in sorted(offsets):
        _check_foreign_record(journal, offset, found.get(offset), end)
    checkpoint = standing(log, snapshots, identity, log.heartbeat, offsets)
    return _write(log, checkpoint, "foreign", identity, now, strays=tuple(sorted(offsets)))


def _check_foreign_record(
    journal: Partition, offset: int, record: JournalRecord | JournalError | None, end: JournalEntry
) -> None:
    """Raise JournalError if there is no record, or its predecessors are missing."""
    if record is None:
        raise JournalError(f"{journal} offset {offset} has no record")
    is_own = isinstance(record, JournalRecord) and record.n > end.record.n
    is_unread = isinstance(record, JournalError) and not isinstance(record, ForeignRecordError)
    if offset > end.offset and (is_own or is_unread):
        what = record if isinstance(record, JournalError) else "a journal record with a number to come"
        raise JournalError(
            f"{journal} offset {offset}: {what}; the journal is intact up to record {end.record.n}, and "
            "later records would be lost: restore the journal, or begin a new log"
        )


def partitions_of(log: Log, identity: JobIdentity) -> list[Partition]:
    """Return every partition that is read. Raises UnknownTopic."""
    return [p for topic in identity.topics for p in log.partitions(topic) if identity.reads(p)]


def _topic_ids(log: Log, identity: JobIdentity) -> dict[str, str]:
    return {topic: log.topic_id(topic) for topic in identity.topics}
