"""The sum of shards' models in a journal of its own, which `serve` and `score` follow as a learner's."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import numpy as np

from streamnb.config import Config
from streamnb.engine.journal.checkpoint import positions_of, snapshot_of
from streamnb.engine.journal.job_identity import JobIdentity
from streamnb.engine.journal.journal_history import last
from streamnb.engine.ports import Log, OutageListener, Partition
from streamnb.engine.processing.retrained_model import RetrainedModel
from streamnb.engine.sensor import Sensor
from streamnb.errors import ConfigError, Fenced, JournalError, NotElected, StreamnbError
from streamnb.formats.snapshot_container import SnapshotPart
from streamnb.merging.shard_states import ShardState, merged, state_of_source
from streamnb.persistence.snapshot_folder import SnapshotFolder
from streamnb.runtime.worker import Worker
from streamnb.values.messages import Message
from streamnb.values.parameter_checks import pluralize

_LOOK_SECONDS = 0.1
_LEARNERS = "commit", "loss"
"""Kinds of journal records that a learner alone writes."""


class MergedModelPublisher:
    """Publisher of merged models, in the role of a learner: its journal installs one sum after another.

    The worker must have recovered, so it is the only writer of the journal; it closes the log.
    """

    def __init__(
        self,
        config: Config,
        log: Log,
        worker: Worker,
        folder: SnapshotFolder,
        identity: JobIdentity,
        sensor: Sensor,
    ) -> None:
        self._config, self._log, self._worker = config, log, worker
        self._folder, self._identity, self._sensor = folder, identity, sensor
        self._digests: frozenset[str] = frozenset()  # states in the last published sum
        self._reported: Sequence[Message] = ()

    def publish(self, state: ShardState) -> int:
        """Install a state, and return its journal record.

        1. Reject a state of foreign topics, or with lower offsets than the published one.
        2. Offer the model as a file without readers.
        3. Write the journal record that installs it, with its offsets. From here on the model is in force:
           followers load all of it, or continue unchanged.
        4. Keep a snapshot, so that a new follower need not read older records.

        Raises ConfigError and JournalError for a rejected state; then nothing was written.
        """
        self.refuse(state)
        at = self._worker.checkpoint
        none = np.zeros(0, dtype=np.int32)
        model = SnapshotPart(*state.model.state())
        rebuilt = RetrainedModel(model, at.n, 0, none, none.astype(np.int64), {}, forgets=False)
        with self._folder.asking():
            self._folder.remove_offers(at.n)
            self._folder.offer(snapshot_of(at, rebuilt.parts(), self._identity))
            merges = {"positions": self._positions(state), "merged": tuple(sorted(state.digests))}
            n = self._worker.install_model(rebuilt, merges=merges).n
        self._digests = state.digests
        return n

    def undone(self, state: ShardState) -> list[Message]:
        """Return a warning if a sum has fewer events than the last one."""
        before, events = self._worker.learner.model.n_events, state.model.n_events
        told = (
            f"this sum is of {pluralize(events, 'event')}, and the last one was of {before:,}: a "
            "shard was rolled back, or retrained; compare `streamnb snapshot list` of each"
        )
        return [Message("merge-shrank", told, events=events, before=before)] if events < before else []

    def missing(self, state: ShardState) -> list[Message]:
        """Return a line for each topic with partitions that no shard has learned."""
        found = []
        known = self._positions(state)
        for topic in self._config.topics.events:
            none = [one.number for one in self._log.partitions(topic) if one not in known]
            if none:
                numbers = ", ".join(map(str, sorted(none)))
                text = (
                    f"topic {topic!r}, partition {numbers}: no shard has learned it; its events are in no "
                    "merge until one does (events.partitions), or is named here"
                )
                found.append(Message("partitions-not-learned", text, topic=topic, partitions=sorted(none)))
        return found

    def follow(
        self, places: Sequence[str], every: float, stopping: Callable[[], bool], patience: OutageListener
    ) -> None:
        """Publish the sum of these sources, each time it changes, until `stopping`.

        It reports and retries faults of shards. Raises ConfigError for a fault of the configuration, and
        errors of the merged model's log.
        """
        while not stopping():
            due = time.monotonic() + every
            self._turn()
            try:
                states = [state_of_source(place, self._turn, patience) for place in places]
                state = merged(states, self._config)
            except (ConfigError, Fenced, NotElected):
                raise
            except StreamnbError as error:
                self.report([Message("merge-fails", f"the last merge stays: {error}", error=str(error))])
            else:
                self.report([*self.undone(state), *self.missing(state)])
                if state.digests != self._digests:
                    self.publish(state)
            while time.monotonic() < due and not stopping():
                self._turn()
                time.sleep(_LOOK_SECONDS)

    def report(self, messages: Sequence[Message]) -> None:
        """Report messages once, until they change."""
        if messages != self._reported:
            for message in messages:
                self._sensor.noted(message)
        self._reported = messages

    @staticmethod
    def _positions(state: ShardState) -> dict[Partition, int]:
        return {Partition(*place[:2]): one.position for place, one in state.positions.items()}

    def _turn(self) -> None:
        self._log.heartbeat()
        self._sensor.heartbeat()

    def refuse(self, state: ShardState) -> None:
        """Raise ConfigError or JournalError for what `publish` would not write."""
        ids = self._log.topic_ids(self._config.topics.events)
        for place, one in state.positions.items():
            if ids.get(place.topic) != place.topic_id:
                raise ConfigError(
                    f"{one.by!r} has learned topic {place.topic!r}, which topics.events does not name, or "
                    "which is another cluster's, or was recreated: its offsets mean nothing here; correct "
                    "that, or write the sum to a file (--out)"
                )
        end = last(self._log, self._log.partitions(self._identity.journal)[0])
        if end is None or end.record.kind == "genesis":
            return
        if end.record.kind in _LEARNERS:
            raise ConfigError(
                f"topic {self._identity.journal!r} is the journal of a learner: the merged model needs its "
                "own model.name, topics.journal and snapshots.folder"
            )
        stands = self._positions(state)
        for partition, offset in sorted(positions_of(end.record).items()):
            learned = stands.get(partition)
            if learned is None or learned < offset:
                now = "is in none of these" if learned is None else f"stands at {learned}"
                raise JournalError(
                    f"topic {partition.topic!r}, partition {partition.number}: the last merge stands for all "
                    f"before offset {offset}, and now it {now}: name all shards, and bring back what that "
                    "one has lost"
                )
