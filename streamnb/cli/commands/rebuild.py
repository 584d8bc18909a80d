"""``streamnb rebuild`` and ``streamnb forget``: learn the model anew from the log, and let it be taken up."""

from __future__ import annotations

import argparse
import json
import os
import socket
import sys
import time
from contextlib import closing, suppress
from pathlib import Path

from streamnb.adapters.snapshot_folder import SnapshotFolder
from streamnb.cli import wiring
from streamnb.config import Config
from streamnb.engine.ports import Log
from streamnb.engine.rebuilding.rebuild import Rebuilding, Source, nothing
from streamnb.engine.rebuilding.truths import Chosen
from streamnb.errors import ConfigError, JournalError, NotElected
from streamnb.worker import Worker

__all__ = ["rebuilding_of", "run", "taken_up", "with_ids"]

_QUIET_SECONDS = 2.0  # without a commit: the learner stands still, or has nothing to do
_PATIENCE_SECONDS = 90.0
_LOOK_SECONDS = 0.05
_TRY_SECONDS = 2.0


def run(options: argparse.Namespace) -> int:
    """Learn the model anew, and have it taken up; 1 where there is nothing to forget."""
    config = wiring.load_config(options)
    forgets = options.command == "forget"
    chosen = _chosen(options) if forgets else nothing
    with closing(wiring.existing_log(config)) as log:
        wiring.warm_up(config)
        rebuilding = Rebuilding(rebuilding_of(config, log), chosen)
        if forgets and not rebuilding.forgotten:
            print(
                f"none of {rebuilding.events:,} events up to journal record {rebuilding.to} is one of these, "
                "or they were forgotten before: nothing was changed",
                file=sys.stderr,
            )
            return 1
        n = _hand_over(config, rebuilding)
    told = {
        "n": n,
        "to": rebuilding.to,
        "events": rebuilding.events,
        "learned": rebuilding.learned,
        "forgotten": rebuilding.forgotten,
    }
    if options.json:
        print(json.dumps(told))
        return 0
    what = f"{rebuilding.forgotten:,} events forgotten; " if forgets else ""
    learned = f"{rebuilding.learned:,} of {rebuilding.events:,} events learned anew"
    print(f"{what}{learned}, with the labels of journal record {rebuilding.to}; taken up by record {n}")
    return 0


def rebuilding_of(config: Config, log: Log) -> Source:
    """What a model is learned anew from."""
    return Source(log, wiring.snapshots(config), lambda: wiring.learner(config), wiring.identity(config))


def with_ids(file: str) -> Chosen:
    """The events with the ids of a file, one a line."""
    content = sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
    try:
        lines = content.decode("utf-8-sig").split("\n")  # an id may hold what else ends a line
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise ConfigError(f"{file}: line {line} is not UTF-8; expected ids, one a line") from None
    ids = {line.removesuffix("\r") for line in lines} - {""}
    return lambda event, _: event.id in ids


def _chosen(options: argparse.Namespace) -> Chosen:
    """The events that the flags name. Raises ConfigError for a flag that names none."""
    if options.ids is not None:
        return with_ids(options.ids)
    if options.key is not None:
        key = options.key.encode()
        return lambda _, record: record.key == key
    field, equals, value = options.where.partition("=")
    if not (field and equals):
        raise ConfigError(f"--where: expected FIELD=VALUE, got {options.where!r}")
    return lambda event, _: field in event.x and _is(event.x[field], value)


def _is(found: object, value: str) -> bool:
    if isinstance(found, str):
        return found == value
    try:
        return found == float(value)
    except ValueError:
        return str(found).lower() == value


def _hand_over(config: Config, rebuilding: Rebuilding) -> int:
    """Have it taken up by the learner that runs, or by one that is begun for it; the journal record."""
    worker = wiring.worker(config, wiring.learner(config), wiring.existing_log(config))
    with closing(worker):
        return taken_up(rebuilding, wiring.snapshots(config), worker)


def taken_up(rebuilding: Rebuilding, folder: SnapshotFolder, worker: Worker) -> int:
    """Ask the learner that runs to stand still, and to take the model up; the journal record.

    Where none runs, or the one that did is dead for sure, `worker` becomes the learner, and does it.
    """
    rebuilding.follow()
    now = quiet_since = time.monotonic()
    deadline, next_try, digest, offered = now + _PATIENCE_SECONDS, now, "", -1
    with folder.asking():
        _refuse_another(rebuilding)  # the file of one that was just taken up is needed
        folder.remove_offers(rebuilding.checkpoint.n)
        while now < deadline:
            if now >= next_try:
                next_try = now + _TRY_SECONDS
                with suppress(NotElected):
                    worker.start(f"{socket.gethostname()}:{os.getpid()}")
                    return _by(worker, rebuilding, folder)
            record, now = rebuilding.follow(), time.monotonic()
            if record is not None and record.kind == "adopt":
                if record.model == digest:
                    return record.n
                _refuse_another(rebuilding)
            if record is not None:
                quiet_since = now
            elif now - quiet_since > _QUIET_SECONDS and offered != rebuilding.checkpoint.n:
                digest, offered = rebuilding.rebuilt().digest, rebuilding.checkpoint.n
                folder.offer(rebuilding.snapshot())
            time.sleep(_LOOK_SECONDS)
    raise JournalError(
        f"the learner has not taken the model up within {_PATIENCE_SECONDS:g} s, and goes on with its own: "
        f"does it keep its snapshots in {folder.path}, too? Stop it, and run this again"
    )


def _by(worker: Worker, rebuilding: Rebuilding, folder: SnapshotFolder) -> int:
    """Have it taken up by a worker that is the learner."""
    rebuilding.follow()
    _refuse_another(rebuilding)
    if worker.checkpoint is None or worker.checkpoint.n != rebuilding.checkpoint.n:
        raise JournalError("the journal does not stand still; is another learner running?")
    folder.offer(rebuilding.snapshot())
    return worker.adopt(rebuilding.rebuilt()).n


def _refuse_another(rebuilding: Rebuilding) -> None:
    record = rebuilding.follow()
    if record is not None and record.kind == "adopt":
        raise JournalError(f"journal record {record.n} took up another model meanwhile: begin again")
