"""A replica: the model of a running learner, followed through its journal. It writes nothing."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from streamnb.config import Config, restored
from streamnb.engine.journal.journal_history import find
from streamnb.engine.journal.recovery import JournalTail, recover, standing
from streamnb.engine.labels.source_labels import SourceLabel
from streamnb.engine.ports import Log
from streamnb.engine.processing.event_processor import EventProcessor
from streamnb.engine.processing.retrained_model import Offsets
from streamnb.errors import SnapshotError
from streamnb.queries.answers import rehearse_answers
from streamnb.queries.query_model import QueryModel, query_model_of
from streamnb.runtime import factories
from streamnb.runtime.log_follower import AGAIN_SECONDS, FollowerThread
from streamnb.statistics.memory_budget import MemoryUse
from streamnb.values.messages import Message

REST_SECONDS = 60.0
"""After the last question, until a model that is held for questions alone is let go."""
_RESTING_SECONDS = 0.1
_IDLE_SECONDS = 0.2  # between two looks at a journal to which nothing comes


class Replica(FollowerThread):
    """Follows the journal.

    If it cannot continue, as after a rollback, it restarts from the newest snapshot, and meanwhile answers
    from the old state.

    Args:
        config, tell: as for `FollowerThread`.
        rests: follow only from the first query on, and pause after a while without queries. Kernels are
            compiled then; otherwise the caller has compiled them.
        look_seconds: longest interval between two polls of the journal, unless a query asks for one. While
            the journal does not grow the interval is a tenth of the time since the last record, up to 0.2 s:
            each poll is a request to the cluster.
    """

    _again = "the replica begins again"
    _join_seconds = 5.0  # a cluster that does not answer is not waited for

    def __init__(
        self,
        config: Config,
        tell: Callable[[Message], None],
        *,
        rests: bool = False,
        look_seconds: float = 0.02,
    ) -> None:
        super().__init__(config, tell)
        self._look_seconds, self._is_behind = look_seconds, threading.Event()
        self._rests, self._wanted_until = rests, 0.0 if rests else math.inf
        self._following: JournalTail | None = None
        self._asked: tuple[object, QueryModel] | None = None  # under what it learned, and as it is asked
        self._learned_at = self._looked_at = 0.0
        self._differs = ""
        self._fetches = factories.MirrorFetches(config)

    @property
    def is_ready(self) -> bool:
        """True if it can be queried: it rests between queries, or has polled the journal recently."""
        is_near = time.monotonic() - self._looked_at < 10 * AGAIN_SECONDS
        return self._rests or (self._following is not None and is_near)

    @property
    def is_loading(self) -> bool:
        """True while the first model loads, as far as is known."""
        return self._following is None and not self.problem

    @property
    def status(self) -> str:
        """The reason for a missing model."""
        return self.problem or "The model is loading"

    @property
    def reason(self) -> str:
        """The reason for a missing model, also between the queries of a page."""
        rests = self._rests and not self.problem and time.monotonic() > self._wanted_until
        return "The model is loaded when a request needs it" if rests else self.status

    def wake(self) -> None:
        """Follow for a while, if it rests."""
        self._wanted_until = max(self._wanted_until, time.monotonic() + REST_SECONDS)

    def look(self) -> None:
        """Poll the journal now, because it has more records."""
        self._is_behind.set()

    def asked(self) -> QueryModel:
        """Return the current model, for queries under the lock. Raises SnapshotError if there is none yet."""
        self.wake()
        following = self._following
        if following is None:
            raise SnapshotError(self.status + "; ask again in a moment" * self.is_loading)
        origin, learner = following.checkpoint.origin, following.learner
        under = origin.config_hash, id(learner.model), id(learner.decisions)
        if self._asked is None or self._asked[0] != under:
            config, told = restored(origin.config), {"file": "the replica"}
            self._asked = under, query_model_of(learner.model, config, told, learner.decisions)
        return self._asked[1]

    @property
    def following(self) -> JournalTail | None:
        """The learner and its journal position, for queries under the lock; None before the first model."""
        return self._following

    @property
    def stands(self) -> int | None:
        """At which journal record; None before there is a model."""
        following = self._following
        return None if following is None else following.checkpoint.n

    def erased(self) -> Offsets | None:
        """Return the offsets of all events that were erased; None while no model is loaded."""
        with self.lock:
            following = self._following
            return None if following is None else following.learner.forgotten

    def said_of(self, event_id: str) -> tuple[SourceLabel, ...] | None:
        """Return the source labels of the newest event of an id, including the label inside it.

        Return None while no model is loaded, and for an event that the learner no longer keeps. Wakes no
        model.
        """
        return self.said_of_all([event_id])[0]

    def said_of_all(self, event_ids: Sequence[str]) -> list[tuple[SourceLabel, ...] | None]:
        """Return `said_of` of each id, with one search for all."""
        with self.lock:
            following = self._following
            late = None if following is None else following.learner.late
            return [None] * len(event_ids) if late is None else late.source_labels_of_all(event_ids)

    def memory_use(self) -> MemoryUse | None:
        """Return the use of the memory budget; None if no model is loaded, or it is busy. Wakes no model."""
        with self.lock.if_free() as is_free:
            following = self._following
            return following.learner.memory_use if is_free and following is not None else None

    def state(self) -> Mapping[str, Any]:
        """Return the journal record, events learned, and seconds since the record and since the last poll."""
        following = self._following
        if following is None:
            return {"journal": None, "learned": 0, "seconds_since_commit": None, "seconds_since_look": None}
        acted = following.learner.alarm_responses
        return {
            "journal": following.checkpoint.n,
            "learned": following.learner.model.n_events,
            **({} if acted is None else {"actions": msgspec.to_builtins(acted)}),
            "seconds_since_commit": round(max(0.0, time.time() - self._learned_at), 3),
            "seconds_since_look": round(time.monotonic() - self._looked_at, 3),
        }

    def _follow(self, log: Log) -> None:
        self._fetches(log)
        config = factories.begun_configuration(self.config, log)
        identity, snapshots = factories.identity(config), factories.snapshots(config)
        stands = standing(log, snapshots, identity)
        n = stands.n
        if n < 0:
            raise SnapshotError("the journal is empty: nothing has been learned yet; `streamnb run` learns")
        self._compare(config, stands.origin.config)
        if self._rests:
            factories.warm_up(config, rehearse_answers)
        learner: EventProcessor = factories.learner(config)
        checkpoint = recover(log, snapshots, learner, identity, self._check, at=n)
        found = find(log, log.partitions(identity.journal)[0], n)
        self._learned_at = 0.0 if found is None else found.record.now
        following = JournalTail(log, learner, identity, checkpoint, self._check, snapshots, self.lock)
        with self.lock:
            self._following = following
        self._fetches.succeeded()
        self.problem = ""
        came_at = time.monotonic()
        while not self.is_over():
            for record in following.advance():
                self._learned_at, came_at = record.now, time.monotonic()
            self._looked_at = time.monotonic()
            idle = min((self._looked_at - came_at) / 10, _IDLE_SECONDS)
            self._is_behind.wait(max(self._look_seconds, idle))
            self._is_behind.clear()

    def is_over(self) -> bool:
        """Return True if it must not follow now."""
        return self._stopping or time.monotonic() > self._wanted_until

    def is_due(self) -> bool:
        """Rest until it is queried; return False to end the thread."""
        if self.is_over():
            with self.lock:
                self._following = self._asked = None
            self.problem = ""
        while self.is_over() and not self._stopping:
            time.sleep(_RESTING_SECONDS)
        return not self._stopping

    def _compare(self, config: Config, learned: Mapping[str, Any]) -> None:
        """Report once in which settings the configuration differs from the learner's, which apply."""
        told = ", ".join(
            f"{one.key} is {one.after}, and the learner's {one.before}"
            for one in factories.ConfiguredJob(config).changes_since(learned)
            if one.key != "predictions.by"  # the scorer itself reports that it waits for this key
        )
        if told and told != self._differs:
            text = f"{told}: give the configuration of the learner, --config FILE"
            self._tell(Message("configuration-differs", text, differences=told))
        self._differs = told

    def _check(self) -> None:
        if self.is_over():
            raise SnapshotError("stopped")
