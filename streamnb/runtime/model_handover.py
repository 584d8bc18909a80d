"""Hand-over of a retrained model to the running learner."""

from __future__ import annotations

import time
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from streamnb.engine.journal.checkpoint import Checkpoint
from streamnb.engine.journal.job_identity import JobIdentity
from streamnb.engine.journal.journal_entries import install_retrained_model
from streamnb.engine.journal.recovery import configure, install_model
from streamnb.engine.processing.retrained_model import RetrainedModel
from streamnb.errors import SnapshotError
from streamnb.runtime.committer import Committer
from streamnb.runtime.label_back_pressure import StalledPartitions
from streamnb.runtime.snapshot_writer import SnapshotWriter
from streamnb.runtime.worker_context import WorkerContext
from streamnb.values.messages import Message

_PAUSE_SECONDS = 60.0  # at most
_LOOK_SECONDS = 0.05


class ModelHandover:
    """Installation of a model that another process retrained, or summed.

    Invariants:

    * A model is installed at the end of the journal, with no commit in flight. A journal record names it, and
      a snapshot follows at once.
    * Commits pause once for each process that asks, and no longer than a minute.
    """

    def __init__(
        self, context: WorkerContext, committer: Committer, writer: SnapshotWriter, stalled: StalledPartitions
    ) -> None:
        self._context, self._committer = context, committer
        self._writer, self._stalled = writer, stalled
        self._last_asker = ""

    def pause_if_asked(self) -> None:
        """Pause commits if a process asks for it, until it offers a retrained model; install the model.

        A process may repeat its request shortly after.
        """
        context = self._context
        asker = context.snapshots.asked_by()
        if asker in {"", self._last_asker}:
            return
        self._last_asker = asker
        self._stalled.clear()
        self._committer.await_commit()
        self._writer.finish(context.heartbeat)
        text = "pausing commits until a retrained model is installed"
        context.sensor.noted(Message("commits-paused", text))
        deadline = time.monotonic() + _PAUSE_SECONDS
        reason = "none came"
        while (
            context.snapshots.asked_by() == asker and not context.is_stopping and time.monotonic() < deadline
        ):
            context.heartbeat()
            try:
                model = self.offered()
            except SnapshotError as error:
                reason = str(error)
                break
            if model is not None:
                self.install(model)
                return
            time.sleep(_LOOK_SECONDS)
        text = f"continuing with the model as it was: {reason}"
        context.sensor.noted(Message("model-kept", text, reason=reason))

    def offered(self) -> RetrainedModel | None:
        """Return the model that was retrained to the end of this journal, if one is offered."""
        checkpoint = self._context.checkpoint
        found = self._context.snapshots.offered(checkpoint.n)
        if found is None or found.digest != checkpoint.digest:
            return None
        return RetrainedModel.from_parts(found.parts)

    def install(
        self,
        model: RetrainedModel,
        becomes: JobIdentity | None = None,
        merges: Mapping[str, Any] = MappingProxyType({}),
    ) -> Checkpoint:
        """Install a model, journal that, and write a snapshot; see `Worker.install_model`."""
        context, learner = self._context, self._context.learner
        self._committer.await_commit()
        if becomes is None:
            learner.install_model(lambda: model)
        else:
            install_model(learner, lambda: model, becomes, becomes.semantic_config)
            configure(learner, becomes, becomes.semantic_config)
            context.identity = becomes
        context.is_ahead = True
        context.checkpoint = install_retrained_model(
            context.log, context.checkpoint, model, context.identity, context.clock(), merges
        )
        context.is_ahead = False
        what = "the sum of others" if merges else "a retrained model"
        n = context.checkpoint.n
        context.sensor.noted(
            Message("model-installed", f"journal record {n} installed {what}", journal=n, model=what)
        )
        self._writer.begin(context.checkpoint)
        self._writer.finish(context.heartbeat)
        return context.checkpoint
