"""A replica: the model of a running learner, followed through its journal. It writes nothing."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from contextlib import closing
from typing import Any

from streamnb.cli import wiring
from streamnb.cli.asked import Asked, asked_of
from streamnb.config import Config, restored
from streamnb.engine.journal.history import find
from streamnb.engine.journal.recovery import Following, recover, standing
from streamnb.engine.learner import Learner
from streamnb.engine.ports import Log
from streamnb.errors import SnapshotError, StreamnbError

__all__ = ["Replica"]

_LOOK_SECONDS = 0.02
_AGAIN_SECONDS = 1.0


class Replica:
    """Follows the journal in a thread of its own, from `start` to `close`; others ask under `lock`.

    Where it cannot go on, as after a rollback, it begins again with the newest snapshot, and answers as it
    was until that is done.

    Args:
        config: of the learner.
        tell: is told why it begins again, or cannot.

    Attributes:
        lock: held while the model changes, and while it is asked.
    """

    def __init__(self, config: Config, tell: Callable[[str], None]) -> None:
        self.lock = threading.Lock()
        self._config, self._tell, self._told = config, tell, ""
        self._following: Following | None = None
        self._restored: tuple[str, Config | None] = "", None  # under which configuration it learned
        self._stopping = False
        self._learned_at = self._looked_at = 0.0
        self._thread = threading.Thread(target=self._run, name="replica", daemon=True)

    def start(self) -> None:
        """Follow from now on, without waiting."""
        self._thread.start()

    def close(self) -> None:
        """Follow no more."""
        self._stopping = True
        self._thread.join()

    @property
    def is_alive(self) -> bool:
        """Whether it follows, or tries to."""
        return self._thread.is_alive()

    @property
    def is_ready(self) -> bool:
        """Whether there is a model, and the journal was looked at within the last ten seconds."""
        return self._following is not None and time.monotonic() - self._looked_at < 10 * _AGAIN_SECONDS

    def asked(self) -> Asked:
        """The model as it stands, to be asked under the lock. Raises SnapshotError before there is one."""
        following = self._following
        if following is None:
            raise SnapshotError(self._told or "the model is being recovered: ask again in a moment")
        origin, (known, config) = following.checkpoint.origin, self._restored
        if origin.config_hash != known or config is None:
            config = restored(origin.config)
            self._restored = origin.config_hash, config
        return asked_of(following.learner.model, config, origin.rules, {"file": "the replica"})

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

    def _run(self) -> None:
        while not self._stopping:
            try:
                with closing(wiring.existing_log(self._config)) as log:
                    self._follow(log)
            except StreamnbError as error:
                if self._stopping:
                    return
                if str(error) != self._told:
                    self._tell(f"the replica begins again: {error}")
                self._told = str(error)
                time.sleep(_AGAIN_SECONDS)

    def _follow(self, log: Log) -> None:
        """Recover, then go on as the journal does until it is stopped. Raises StreamnbError."""
        identity, snapshots = wiring.identity(self._config), wiring.snapshots(self._config)
        n = standing(log, snapshots, identity).n
        if n < 0:
            raise SnapshotError("the journal is empty: nothing has been learned yet; `streamnb run` learns")
        learner: Learner = wiring.learner(self._config)
        checkpoint = recover(log, snapshots, learner, identity, self._check, at=n)
        found = find(log, log.partitions(identity.journal)[0], n)
        self._learned_at = 0.0 if found is None else found.record.now
        following = Following(log, learner, identity, checkpoint, self._check, snapshots, self.lock)
        with self.lock:
            self._following = following
        self._told = ""
        while not self._stopping:
            for record in following.advance():
                self._learned_at = record.now
            self._looked_at = time.monotonic()
            time.sleep(_LOOK_SECONDS)

    def _check(self) -> None:
        if self._stopping:
            raise SnapshotError("stopped")
