"""What a learner writes to its journal beside commits: that it begins, and what became different.

Each is one journal record in a transaction of its own, without outputs; the log is acquired.
"""

from __future__ import annotations

from itertools import pairwise

from streamnb.engine.checkpoint import BEFORE, Checkpoint, Identity
from streamnb.engine.history import entries
from streamnb.engine.ports import Log, Partition
from streamnb.errors import Fenced, JournalError

__all__ = ["accept_loss", "adopt_configuration", "begin", "missing_records", "partitions_of", "roll_back"]


def begin(log: Log, identity: Identity, now: float) -> Checkpoint:
    """Write the genesis record: learning starts with the earliest records kept."""
    checkpoint, transaction = BEFORE.next(
        "genesis",
        identity,
        now,
        positions={p: log.offsets(p)[0] for p in partitions_of(log, identity)},
        config_hash=identity.config_hash,
        config=identity.shaping,
        fingerprint=identity.fingerprint,
        topic_ids=_topic_ids(log, identity),
    )
    log.commit(transaction)
    written = [entry.record for entry in entries(log, log.partitions(identity.journal)[0])]
    ours = written[0].digest == checkpoint.digest
    if not ours or any(after.previous != before.digest for before, after in pairwise(written)):
        raise JournalError(
            f"another model has begun to write to {identity.journal!r}, too: each needs its own"
        )
    if len(written) > 1:
        raise Fenced("another learner has taken over, and goes on with the journal that this one began")
    return checkpoint


def adopt_configuration(log: Log, checkpoint: Checkpoint, identity: Identity, now: float) -> Checkpoint:
    """Write down that from here on the present configuration holds, where it is another than before."""
    if checkpoint.origin.config_hash == identity.config_hash:
        return checkpoint
    checkpoint, transaction = checkpoint.next(
        "config", identity, now, config_hash=identity.config_hash, config=identity.shaping
    )
    log.commit(transaction)
    return checkpoint


def missing_records(log: Log, checkpoint: Checkpoint, identity: Identity) -> list[str]:
    """What was not learned and is gone: retention overrun, topics made anew or cut short. A line for each."""
    found = []
    anew = set()
    for topic, topic_id in _topic_ids(log, identity).items():
        known = checkpoint.origin.topic_ids.get(topic)
        if known != topic_id:
            anew.add(topic)
            found.append(f"topic {topic!r} was deleted and made anew since the journal knew it")
    checkpoint = checkpoint.with_new_partitions(partitions_of(log, identity))
    for partition, position in sorted(checkpoint.positions.items()):
        if partition.topic in anew or partition.topic not in identity.topics:
            continue
        place = f"{partition.topic}/{partition.number}"
        earliest, end = log.offsets(partition)
        if position < earliest:
            found.append(
                f"{place}: offsets {position} to {earliest - 1} were deleted before they were learned"
            )
        elif position > end:
            found.append(f"{place} ends at offset {end}, but was learned up to {position}: it was cut short")
    return found


def accept_loss(log: Log, checkpoint: Checkpoint, identity: Identity, now: float) -> Checkpoint:
    """Go on with the records that there are, and write that down; what is gone is not learned."""
    topic_ids = _topic_ids(log, identity)
    positions = {}
    for partition in partitions_of(log, identity):
        earliest, end = log.offsets(partition)
        same = topic_ids[partition.topic] == checkpoint.origin.topic_ids.get(partition.topic)
        known = checkpoint.positions.get(partition, 0) if same else earliest
        positions[partition] = min(max(known, earliest), end)
    checkpoint, transaction = checkpoint.next("loss", identity, now, positions=positions, topic_ids=topic_ids)
    log.commit(transaction)
    return checkpoint


def roll_back(log: Log, checkpoint: Checkpoint, to: int, identity: Identity, now: float) -> Checkpoint:
    """Write down that the state of record `to` is taken up again; positions and configuration stay."""
    if not 0 <= to < checkpoint.n:
        raise JournalError(f"cannot roll back from journal record {checkpoint.n} to {to}")
    checkpoint, transaction = checkpoint.next("rollback", identity, now, to=to)
    log.commit(transaction)
    return checkpoint


def partitions_of(log: Log, identity: Identity) -> list[Partition]:
    """Every partition that is read. Raises UnknownTopic."""
    return [p for topic in identity.topics for p in log.partitions(topic)]


def _topic_ids(log: Log, identity: Identity) -> dict[str, str]:
    return {topic: log.topic_id(topic) for topic in identity.topics}
