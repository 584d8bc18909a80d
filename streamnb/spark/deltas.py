"""A model in a folder: one delta file per batch, and a full state now and then.

    state after batch n = state after batch n - 1 + delta n

A delta is a `Partial` with the ranges of its events in the log. It is written before Spark counts its batch
as done, so a batch may be repeated: its number shows that it was learned, and its ranges that it is the same
batch. The folder may be copied and followed by other processes: files never change, and appear and disappear
as a whole.
"""

from __future__ import annotations

import fcntl
import os
import re
import socket
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TextIO, cast

from streamnb.config import Config, restored
from streamnb.config.shard_constraints import refuse_in_parts
from streamnb.engine.journal.checkpoint import Checkpoint, origin_of, snapshot_of
from streamnb.engine.journal.job_identity import JournalOrigin
from streamnb.engine.journal.recovery import refuse_changes
from streamnb.engine.ports import Partition
from streamnb.engine.processing.event_processor import EventProcessor
from streamnb.errors import JournalError, OtherStream, SnapshotError, told_as
from streamnb.formats.snapshot_container import SnapshotPart
from streamnb.models.naive_bayes.naive_bayes_classifier import NaiveBayes
from streamnb.models.naive_bayes.partials import Partial, SourceRange, Tested, joined, merge_all
from streamnb.persistence.model_files import partial_of, save_partial
from streamnb.persistence.snapshot_folder import SnapshotFolder
from streamnb.runtime import factories
from streamnb.values.state_validation import state_errors

_PART = "batches"
_NAME = re.compile(r"delta-([0-9]{20})\.snb")
_HELD = "driver.lock"
_NOTHING = Tested(0, 0, 0)

Places = Mapping[Partition, tuple[int, int]]
"""Partition -> (first offset, offset after the last)."""


@dataclass(frozen=True)
class DeltaState:
    """The model after all batches before `checkpoint.n`.

    Attributes:
        learner: holds the model.
        checkpoint: the number of the next batch, the position of each partition, and the stream's origin.
        ranges: the learned offsets, by partition.
        tested: the score of the predictions before learning.
    """

    learner: EventProcessor
    checkpoint: Checkpoint
    ranges: tuple[SourceRange, ...]
    tested: Tested

    @property
    def model(self) -> NaiveBayes:
        """The learner's model, of the only type that `refuse_unfit` accepts."""
        return cast("NaiveBayes", self.learner.model)

    @property
    def next(self) -> int:
        """The number of the next batch."""
        return self.checkpoint.n

    def through(self, ranges: Iterable[SourceRange]) -> tuple[SourceRange, ...]:
        """Return all ranges including these. Raises JournalError, with offsets, for a gap or an overlap."""
        try:
            return joined([*self.ranges, *ranges])
        except ValueError as error:
            raise JournalError(
                f"batch {self.next} does not continue at the end of batch {self.next - 1}: {error}; "
                "was a file of the folder, or of its checkpoint, put back or taken away?"
            ) from error

    def after(self, delta: Partial) -> DeltaState:
        """Return the state after the next batch; the model itself is updated. Raises as `through`."""
        ranges = self.through(delta.ranges)
        self.model.apply(delta)
        self.learner.consumed += sum(past - first for _, first, past in delta.ranges)
        tested = Tested(*map(sum, zip(self.tested, delta.tested, strict=True)))
        positions = dict(self.checkpoint.positions) | {_partition(one): one.past for one in delta.ranges}
        checkpoint = replace(self.checkpoint, n=self.next + 1, positions=positions)
        return DeltaState(self.learner, checkpoint, ranges, tested)


class Deltas:
    """The folder; one driver writes it, any number of workers read it.

    Args:
        path: the folder, visible to all of them.
        keep: the number of full states to keep, with the deltas since the oldest.
    """

    def __init__(self, path: Path, keep: int = 3) -> None:
        self.path = path
        self._full = SnapshotFolder(path, keep, factories.report_damaged_snapshot)

    @property
    def checkpoint(self) -> Path:
        """Folder with Spark's own record of the offsets of each batch."""
        return self.path / "checkpoint"

    @contextmanager
    def held(self) -> Iterator[None]:
        """Lock the folder for one driver. Raises JournalError if another driver holds it."""
        self.path.mkdir(0o700, parents=True, exist_ok=True)
        with (self.path / _HELD).open("a+") as file:
            _lock(file)
            yield

    def begin(self, config: Config, topic_ids: Mapping[str, str]) -> DeltaState:
        """Return the existing state, or the state of a new stream under this configuration.

        Raises JournalError if the folder belongs to another stream, or to a configuration under which its
        model cannot continue. Raises ConfigError if the configuration does not support partial models.
        """
        refuse_unfit(config)
        identity = factories.identity(config)
        state = self.state()
        if state is None:
            if any(self._numbers()) or self.checkpoint.exists():
                raise JournalError(
                    f"{self.path} has deltas or a checkpoint, and no full state: bring the newest "
                    "snapshot-*.snb back, or begin in an empty folder (snapshots.folder)"
                )
            origin = JournalOrigin(
                identity.config_hash, identity.semantic_config, topic_ids, identity.program
            )
            state = DeltaState(factories.learner(config), Checkpoint(0, "", "", {}, origin), (), _NOTHING)
            self.save(state)
            return state
        origin = state.checkpoint.origin
        for topic, known in origin.topic_ids.items():
            if topic_ids.get(topic, known) != known:
                raise OtherStream(
                    f"topic {topic} was recreated, or is another cluster's, since {self.path} was begun: its "
                    "offsets differ from the learned ones; set snapshots.folder to an empty folder"
                )
        if refuse_changes(state.checkpoint, identity):
            other = replace(origin, config_hash=identity.config_hash, config=identity.semantic_config)
            state.learner.reconfigure(factories.settings(config), factories.model(config))
            state = replace(state, checkpoint=replace(state.checkpoint, origin=other))
            self.save(state)
        return state

    def state(self, following: int | None = None) -> DeltaState | None:
        """Return the newest state, or the state before the batch `following`; None without a full state.

        Raises SnapshotError if a file is damaged, missing or of another kind.
        """
        found = self._full.newest(following)
        if found is None:
            return None
        snapshot = found.snapshot
        if _PART not in snapshot.parts:
            raise SnapshotError(f"{found.path} is a learner's: set snapshots.folder to a folder of its own")
        origin, told = origin_of(snapshot), snapshot.parts[_PART].meta
        learner = factories.learner(restored(origin.config))
        with state_errors("a folder of deltas", ValueError):
            learner.load(snapshot.parts)
            tested, ranges = Tested(*told["tested"]), joined(SourceRange(*one) for one in told["ranges"])
        positions = {Partition(*place): offset for place, offset in snapshot.positions.items()}
        checkpoint = Checkpoint(snapshot.journal_n, "", "", positions, origin)
        return self.followed(DeltaState(learner, checkpoint, ranges, tested), following)

    def followed(self, state: DeltaState, following: int | None = None) -> DeltaState:
        """Apply deltas to the state: all that exist, or up to the batch `following`.

        Raises SnapshotError if a delta on the way is damaged or missing.
        """
        while state.next != following and (following is not None or self._path(state.next).exists()):
            state = state.after(self.delta(state.next))
        return state

    def delta(self, number: int) -> Partial:
        """Return the delta of a batch. Raises SnapshotError."""
        with told_as(SnapshotError, self._path(number), SnapshotError, OSError):
            return partial_of(self._path(number).read_bytes())

    def is_learned(self, state: DeltaState, number: int, places: Places) -> bool:
        """Return whether a batch with these ranges was learned already; raise JournalError if out of turn."""
        if number == state.next:
            return False
        if number != state.next - 1:
            raise JournalError(
                f"Spark begins with batch {number}, and {self.path} continues with batch {state.next}: "
                f"{self.checkpoint} does not belong to these deltas; restore it, or begin in an empty "
                "folder (snapshots.folder)"
            )
        if (learned := self.delta(number).ranges) != ranges_of(places):
            raise JournalError(
                f"batch {number} has other records than {self._path(number)} has learned: "
                f"{_describe_ranges(ranges_of(places))}, and not {_describe_ranges(learned)}; "
                f"{self.checkpoint} does not belong to "
                "these deltas"
            )
        return True

    def advance(self, state: DeltaState, partials: Iterable[Partial], places: Places) -> DeltaState:
        """Write the delta of a batch, and apply it: on return it is durable.

        Partials are merged in the order of their ranges, so that the result is bit-identical whichever
        workers made them and when. Raises JournalError if they have other ranges.
        """
        made, planned = list(partials), ranges_of(places)
        state.through(planned)  # check for gaps before writing
        taken = {one for partial in made for one in partial.ranges}
        if not taken <= set(planned):
            raise JournalError(
                f"a partial has learned {_describe_ranges(taken - set(planned))}, which is not part "
                "of the batch"
            )
        whole = merge_all(made) if made else state.model.partial([], [])[1]
        delta = whole._replace(ranges=planned)
        save_partial(delta, self._path(state.next))
        return state.after(delta)

    def save(self, state: DeltaState) -> None:
        """Save a full state, and remove the deltas that no kept state needs.

        The delta of the last batch stays: Spark may repeat that batch, and the delta shows what was learned.
        """
        told = {"tested": list(state.tested), "ranges": list(map(list, state.ranges))}
        parts = {**state.learner.parts(), _PART: SnapshotPart(told, {})}
        identity = factories.identity(restored(state.checkpoint.origin.config))
        self._full.save(snapshot_of(state.checkpoint, parts, identity))
        oldest = min(self._full.list()[0].n, state.next - 1)
        for number in self._numbers():
            if number < oldest:
                self._path(number).unlink(missing_ok=True)

    def _path(self, number: int) -> Path:
        return self.path / f"delta-{number:020d}.snb"

    def _numbers(self) -> list[int]:
        found = map(_NAME.fullmatch, (path.name for path in self.path.glob("delta-*")))
        return [int(match[1]) for match in found if match]


def refuse_unfit(config: Config) -> None:
    """Raise ConfigError, which names the key, if learning depends on the order of events."""
    more = {
        "log.url": "" if config.log.is_kafka else "Spark reads a Kafka cluster",
        "events.partitions": "Spark reads all of them" if config.events.partitions else "",
        "drift.detectors": "detectors watch events in order" if config.drift.detectors else "",
        "monitors": "monitors watch events in order" if config.monitors else "",
        "predictions.evidence": "Spark's workers do not publish it" if config.predictions.evidence else "",
        "predictions.by": "" if config.predictions.by == "learner" else "Spark's workers publish them",
    }
    refuse_in_parts(config, "learning on Spark", more)


def ranges_of(places: Places) -> tuple[SourceRange, ...]:
    """Return the ranges of partitions with new records, as in a partial."""
    return joined((str(one), first, past) for one, (first, past) in places.items() if first < past)


def _partition(one: SourceRange) -> Partition:
    topic, _, number = one.partition.rpartition("/")
    return Partition(topic, int(number))


def _describe_ranges(ranges: Iterable[SourceRange]) -> str:
    return ", ".join(f"{name} {first} to {past - 1}" for name, first, past in sorted(ranges)) or "nothing"


def _lock(file: TextIO) -> None:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.seek(0)
        raise JournalError(
            f"{file.name} is held by another driver, {file.read().strip()}: end it, or set snapshots.folder "
            "to a folder of its own"
        ) from None
    except OSError:
        pass  # a file system without locks: Spark's checkpoint refuses the second driver's first batch
    file.truncate(0)
    file.write(f"process {os.getpid()} on {socket.gethostname()}")
    file.flush()
