"""A replica: the model of a running learner, followed through its journal. It writes nothing."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from streamnb.cli import wiring
from streamnb.cli.asked import Asked, asked_of
from streamnb.cli.serving.follower import AGAIN_SECONDS, Follower
from streamnb.config import Config, restored
from streamnb.engine.journal.history import find
from streamnb.engine.journal.recovery import Following, recover, standing
from streamnb.engine.learner import Learner
from streamnb.engine.ports import Log
from streamnb.errors import SnapshotError

_LOOK_SECONDS = 0.02


class Replica(Follower):
    """Follows the journal.

    Where it cannot go on, as after a rollback, it begins again with the newest snapshot, and answers as it
    was until that is done.
    """

    _again = "the replica begins again"

    def __init__(self, config: Config, tell: Callable[[str], None]) -> None:
        super().__init__(config, tell)
        self._following: Following | None = None
        self._asked: tuple[object, Asked] | None = None  # under what it learned, and as it is asked
        self._learned_at = self._looked_at = 0.0

    @property
    def is_ready(self) -> bool:
        """Whether there is a model, and the journal was looked at within the last ten seconds."""
        return self._following is not None and time.monotonic() - self._looked_at < 10 * AGAIN_SECONDS

    def asked(self) -> Asked:
        """The model as it stands, to be asked under the lock. Raises SnapshotError before there is one."""
        following = self._following
        if following is None:
            raise SnapshotError(self.problem or "the model is being recovered: ask again in a moment")
        origin, model = following.checkpoint.origin, following.learner.model
        under = origin.config_hash, origin.rules, id(model)
        if self._asked is None or self._asked[0] != under:
            told = {"file": "the replica"}
            self._asked = under, asked_of(model, restored(origin.config), origin.rules, told)
        return self._asked[1]

    @property
    def stands(self) -> int | None:
        """At which journal record; None before there is a model."""
        return None if self._following is None else self._following.checkpoint.n

    def state(self) -> Mapping[str, Any]:
        """Where it stands: journal record, events learned, seconds since that record and since its look."""
        following = self._following
        if following is None:
            return {"journal": None, "learned": 0, "seconds_since_commit": None, "seconds_since_look": None}
        return {
            "journal": following.checkpoint.n,
            "learned": following.learner.model.n_events,
            "seconds_since_commit": round(max(0.0, time.time() - self._learned_at), 3),
            "seconds_since_look": round(time.monotonic() - self._looked_at, 3),
        }

    def _follow(self, log: Log) -> None:
        """Recover, then go on as the journal does until it is stopped. Raises StreamnbError."""
        config = wiring.as_begun(self.config, log)
        identity, snapshots = wiring.identity(config), wiring.snapshots(config)
        n = standing(log, snapshots, identity).n
        if n < 0:
            raise SnapshotError("the journal is empty: nothing has been learned yet; `streamnb run` learns")
        learner: Learner = wiring.learner(config)
        checkpoint = recover(log, snapshots, learner, identity, self._check, at=n)
        found = find(log, log.partitions(identity.journal)[0], n)
        self._learned_at = 0.0 if found is None else found.record.now
        following = Following(log, learner, identity, checkpoint, self._check, snapshots, self.lock)
        with self.lock:
            self._following = following
        self.problem = ""
        while not self._stopping:
            for record in following.advance():
                self._learned_at = record.now
            self._looked_at = time.monotonic()
            time.sleep(_LOOK_SECONDS)

    def _check(self) -> None:
        if self._stopping:
            raise SnapshotError("stopped")
