"""``streamnb rebuild``: retrain the model from the log, and install it."""

from __future__ import annotations

import argparse
import json
import math
import time
from collections.abc import Mapping, Sequence
from contextlib import closing, suppress
from typing import Any

from streamnb.cli.commands.snapshot import acquire
from streamnb.config import Config
from streamnb.engine.journal.job_identity import JobIdentity
from streamnb.engine.journal.recovery import standing
from streamnb.engine.ports import Log
from streamnb.engine.retraining.label_resolution import Chosen
from streamnb.engine.retraining.log_retraining import Retraining, RetrainingSource, nothing
from streamnb.errors import JournalError, NotElected
from streamnb.formats.journal_record import JournalRecord
from streamnb.formats.terminal_text import left_out, printable, warn
from streamnb.persistence.snapshot_folder import SnapshotFolder
from streamnb.runtime import context, factories
from streamnb.runtime.worker import Worker
from streamnb.values.messages import Message
from streamnb.values.parameter_checks import brief, pluralize

_QUIET_SECONDS = 2.0  # without a commit: the learner pauses or is idle
_PATIENCE_SECONDS = 90.0
_LOOK_SECONDS = 0.05
_TRY_SECONDS = 2.0
_PAUSE_SECONDS = 30.0  # half as long as the learner waits


def run(options: argparse.Namespace) -> int:
    """Retrain the model and hand it to the learner."""
    config = context.load_config(options)
    with closing(context.existing_log(config)) as log:
        config = factories.begun_configuration(config, log)
        added = _new_attributes(config, log)
        rebuilding, n = retrain(config, log, under=_new_configuration(config, log))
    print_progress(options, rebuilding, n, "")
    if added and config.keeps_events and rebuilding.unlabelled:
        names = ", ".join(map(printable, added))
        text = (
            f"{pluralize(rebuilding.unlabelled, 'event')} had no label yet: if a label comes, it is learned "
            f"without {names}, which counts for labelled and for later events"
        )
        warn(Message("attributes-not-kept", text, events=rebuilding.unlabelled, attributes=list(added)))
    return 0


def _new_attributes(config: Config, log: Log) -> Sequence[str]:
    """Return the attributes that the journal's configuration lacks."""
    origin = standing(log, factories.snapshots(config), factories.identity(config)).origin
    known = {one["name"] for one in origin.config.get("attributes", ())}
    return [one.name for one in config.attributes if known and one.name not in known]


def retrain(
    config: Config, log: Log, chosen: Chosen | None = None, under: Mapping[str, Any] | None = None
) -> tuple[Retraining, int]:
    """Retrain the model; return it with the journal record of its installation, -1 if no event was chosen.

    A configuration `under` which it was trained, if not the journal's, is installed with it.
    """
    factories.warm_up(config)
    rebuilding = Retraining(retraining_of(config, log), chosen or nothing, under=under)
    if chosen is not None and not rebuilding.forgotten:
        return rebuilding, -1
    return rebuilding, _hand_over(config, rebuilding) if under is None else _begun_with(config, rebuilding)


def _new_configuration(config: Config, log: Log) -> Mapping[str, Any] | None:
    """Return the configuration of the new model if it differs from the journal's; no learner may run then.

    Raises JournalError if a retrained model cannot have it.
    """
    identity = factories.identity(config)
    origin = standing(log, factories.snapshots(config), identity).origin
    if not origin.config or origin.config_hash == identity.config_hash:
        return None
    changes = factories.ConfiguredJob(config).changes_since(origin.config)
    refused = [
        f"{c.key} was {brief(c.before)} and is {brief(c.after)}"
        for c in changes
        if c.key == "topics.labels" or not (c.allowed or c.anew)
    ]
    if refused:
        raise JournalError(
            f"a retrained model cannot have these changes: {'; '.join(refused)}; "
            "keep the old values, or start another model with its own journal"
        )
    with closing(context.existing_log(config)) as other:
        acquire(other, config.log.session_timeout)
    return identity.semantic_config


def print_progress(options: argparse.Namespace, rebuilding: Retraining, n: int, what: str) -> None:
    """Print the result of retraining and its journal record."""
    if options.json:
        counts = {name: getattr(rebuilding, name) for name in ("to", "events", "learned", "forgotten")}
        print(json.dumps({"n": n, **counts}))
        return
    learned = f"{rebuilding.learned:,} of {pluralize(rebuilding.events, 'event')} learned again"
    print(f"{what}{learned}, with the labels of journal record {rebuilding.to}; installed by record {n}")
    without = {
        "without a label that counts": rebuilding.unlabelled,
        "with a label too many for memory.budget": rebuilding.refused,
    }
    print(left_out(without), end="")


def retraining_of(config: Config, log: Log) -> RetrainingSource:
    """Return the source of a retraining."""
    return RetrainingSource(
        log, factories.snapshots(config), lambda: factories.learner(config), factories.identity(config)
    )


def _hand_over(config: Config, rebuilding: Retraining) -> int:
    worker = factories.worker(config, factories.learner(config), context.existing_log(config))
    with closing(worker):
        return is_installed(rebuilding, factories.snapshots(config), worker)


def _begun_with(config: Config, rebuilding: Retraining) -> int:
    """Become the learner under the old configuration, and install the model with the new one."""
    present = factories.as_journalled(config, rebuilding.checkpoint.origin.config)
    worker = factories.worker(present, factories.learner(present), context.existing_log(config))
    folder = factories.snapshots(config)
    with closing(worker), folder.asking():
        _refuse_another(rebuilding.follow())
        folder.remove_offers(rebuilding.checkpoint.n)
        try:
            worker.start(factories.owner())
        except NotElected as error:
            raise NotElected(f"stop the learner first, nothing was changed: {error}") from error
        return _by(worker, rebuilding, folder, factories.identity(config))


def is_installed(rebuilding: Retraining, folder: SnapshotFolder, worker: Worker) -> int:
    """Ask the running learner to pause and install the model; return the journal record.

    If no learner is alive, `worker` becomes the learner and installs the model.
    """
    _catch_up(rebuilding)
    with folder.asking():
        _refuse_another(rebuilding.follow())  # the file of a just installed model is still needed
        folder.remove_offers(rebuilding.checkpoint.n)
        now = quiet_since = time.monotonic()
        slowest = 0.0
        deadline, next_try, digest, offered = now + _PATIENCE_SECONDS, now, "", -1
        while now < deadline:
            if now >= next_try:
                next_try = now + _TRY_SECONDS
                with suppress(NotElected):
                    worker.start(factories.owner())
                    return _by(worker, rebuilding, folder)
            looked, record, now = time.monotonic(), rebuilding.follow(), time.monotonic()
            if record is not None and record.kind == "adopt" and record.model == digest:
                return record.n
            _refuse_another(record)
            if record is not None:
                quiet_since = now
            elif now - quiet_since > _QUIET_SECONDS and offered != rebuilding.checkpoint.n:
                rebuilt, offered = rebuilding.retrained(), rebuilding.checkpoint.n
                digest = rebuilt.digest
                folder.offer(rebuilding.snapshot(rebuilt))
            time.sleep(_LOOK_SECONDS)
            slowest = max(slowest, time.monotonic() - looked)
    if slowest > _PAUSE_SECONDS:
        raise JournalError(
            f"this command was suspended for {slowest:.0f} s, and the learner did not wait and "
            "continues with its own model: was the command stopped (Ctrl-Z)? Run it again"
        )
    raise JournalError(
        f"the learner has not installed the model within {_PATIENCE_SECONDS:g} s, and continues with "
        f"its own: does it keep its snapshots in {folder.path}, too? Stop it, and run this again"
    )


def _catch_up(rebuilding: Retraining) -> None:
    """Learn new records before the learner is asked to pause, which it does once, for a minute.

    Each round has fewer records than the last, unless the learner is as fast as this process.
    """
    took = math.inf
    while True:
        began, record = time.monotonic(), rebuilding.follow()
        before, took = took, time.monotonic() - began
        _refuse_another(record)
        if record is None or took < _LOOK_SECONDS or took > 0.9 * before:
            return


def _by(
    worker: Worker, rebuilding: Retraining, folder: SnapshotFolder, becomes: JobIdentity | None = None
) -> int:
    """Install the model, and its configuration if it changes, by a worker that is the learner."""
    _refuse_another(rebuilding.follow())
    if worker.checkpoint.n != rebuilding.checkpoint.n:
        raise JournalError("the journal does not stand still; is another learner running?")
    rebuilt = rebuilding.retrained()
    folder.offer(rebuilding.snapshot(rebuilt))
    return worker.install_model(rebuilt, becomes).n


def _refuse_another(record: JournalRecord | None) -> None:
    if record is not None and record.kind == "adopt":
        raise JournalError(f"journal record {record.n} installed another model meanwhile: run this again")
