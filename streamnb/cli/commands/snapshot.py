"""``streamnb snapshot``: list snapshots, compare two states, or roll back to an earlier one."""

from __future__ import annotations

import argparse
import json
import sys
import time
from array import array
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from typing import Any

from streamnb.config import Config
from streamnb.engine.journal.checkpoint import Checkpoint, snapshot_of
from streamnb.engine.journal.journal_entries import refuse_forgotten, roll_back
from streamnb.engine.journal.journal_history import entries, is_on, last, path_to, with_heartbeat
from streamnb.engine.journal.recovery import continue_under, recover, refuse_changes, standing
from streamnb.engine.ports import Log
from streamnb.errors import JournalError, LogError, NotElected, SnapshotError
from streamnb.formats.terminal_text import emit
from streamnb.persistence.snapshot_folder import SnapshotFolder
from streamnb.reports.snapshot_list import listed, print_list
from streamnb.reports.state_diff import StateAt, compared, print_differences, state_at, time_of
from streamnb.runtime import context, factories
from streamnb.values.messages import Message
from streamnb.values.parameter_checks import pluralize

_TRY_AGAIN_SECONDS = 0.2


def run(options: argparse.Namespace) -> int:
    """List the snapshots, compare two states, or roll back."""
    config = context.load_config(options)
    if options.action == "rollback":
        _roll_back(config, options)
        return 0
    if options.action == "list":
        answer, show = listed(config), print_list
    else:
        answer, show = _compared(config, options), _print_compared
    print(json.dumps(answer)) if options.json else show(answer)
    return 0


def _compared(config: Config, options: argparse.Namespace) -> dict[str, Any]:
    with closing(context.existing_log(config)) as log:
        journal = _JournalFromStart(log, config)
        after = journal.last if options.after is None else options.after
        answer = compared(log, config, options.before, after, options.top)
    return {"continued": is_on(journal.path(after), options.before), **answer}


def _print_compared(answer: Mapping[str, Any]) -> None:
    before, after = (
        {**answer[side], "written": time_of(answer[side]["written"])} for side in ("before", "after")
    )
    if not answer["continued"]:
        print(f"what was learned up to record {before['n']} is not all in record {after['n']}\n")
    print_differences({**answer, "before": before, "after": after})


def _roll_back(config: Config, options: argparse.Namespace) -> None:
    """Roll back to the state of an earlier record.

    1. Acquire the log: no learner is alive.
    2. Recover the present state, so that a return to it is possible; `--without-return` skips this.
    3. Rebuild the state of the earlier record.
    4. Print the undone commits.
    5. Write the rollback to the journal. From here on it is durable: recovery follows it.
    6. Keep a snapshot there, so that recovery need not begin with an older one.
    """
    with closing(context.existing_log(config)) as log:
        config = factories.begun_configuration(config, log)
        _refuse_nothing(log, config, options.to)
        factories.warm_up(config)  # while nothing is held
        acquire(log, config.log.session_timeout)
        identity = factories.identity(config)
        end = _present(log, config, options)
        refuse_forgotten(end, options.to)
        target = state_at(log, config, options.to, log.heartbeat)
        refuse_changes(target.checkpoint, identity)
        plan = _plan(_JournalFromStart(log, config, log.heartbeat), end, options.to)
        if not options.json:
            _print_plan(plan, target)
        log.heartbeat()
        checkpoint = roll_back(log, end, options.to, identity, time.time())
        # Older files may be the only other readable ones: the learner removes them with its next snapshot.
        snapshots = SnapshotFolder(config.snapshot_folder, sys.maxsize)
        # As in a replay of the rollback: configuration changes since the earlier record stay.
        continue_under(target.learner, identity, checkpoint.origin, target.checkpoint.origin.config_hash)
        target.learner.report_all_tenants()
        try:
            copy = target.learner.copying(snapshots.segments())
            saved = snapshots.save(snapshot_of(checkpoint, copy.parts(), identity, copy.segments()))
            file = str(saved)
        except SnapshotError as error:
            file = None
            text = f"rolled back, but no snapshot was kept: {error}"
            emit(Message("snapshot-not-kept", text, reason=str(error)))
    if options.json:
        print(json.dumps({**plan, "n": checkpoint.n, "snapshot": file, "events": target.learner.consumed}))
    else:
        print(f"rolled back by journal record {checkpoint.n}; back again: --to {end.n}")


def _refuse_nothing(log: Log, config: Config, to: int) -> None:
    """Raise JournalError if no record follows `to`, LogError if the journal is empty."""
    end = last(log, log.partitions(config.topics.journal)[0])
    if end is None:
        raise _empty(config)
    if to >= end.record.n:
        raise JournalError(
            f"the journal ends with record {end.record.n}: there is nothing after {to} to undo"
        )


def _present(log: Log, config: Config, options: argparse.Namespace) -> Checkpoint:
    """Return the last checkpoint after recovering its state, which --without-return skips."""
    identity, snapshots = factories.identity(config), factories.snapshots(config)
    if options.without_return:
        return standing(log, snapshots, identity, log.heartbeat)
    return recover(log, snapshots, factories.learner(config), identity, log.heartbeat)


def acquire(log: Log, session_timeout: float) -> None:
    """Become the learner, after the session of a dead one expires."""
    owner = factories.owner()
    deadline = time.monotonic() + session_timeout
    while True:
        try:
            log.acquire(owner)
        except NotElected as error:
            if time.monotonic() > deadline:
                raise NotElected(f"stop the learner first: {error}") from error
            time.sleep(_TRY_AGAIN_SECONDS)
        else:
            return


def _plan(journal: _JournalFromStart, end: Checkpoint, to: int) -> dict[str, Any]:
    present, past = journal.path(end.n), journal.path(to)
    undone, restored = journal.tally(present, past), journal.tally(past, present)
    return {"from": end.n, "to": to, "undone": undone, "restored": restored}


def _print_plan(plan: Mapping[str, Any], target: StateAt) -> None:
    events = pluralize(target.learner.consumed, "event")
    print(f"from journal record {plan['from']} back to {plan['to']}: {events}")
    for name in ("undone", "restored"):
        if plan[name]["commits"]:
            commits, events = (pluralize(plan[name][f"{noun}s"], noun) for noun in ("commit", "event"))
            print(f"{name}: {commits} with {events}")
    stay = "the positions stay: undone events are not learned again, and their predictions stay published"
    print(stay, flush=True)  # before it is done


def _empty(config: Config) -> LogError:
    return LogError(f"nothing has been learned yet: the journal of {config.log.url} is empty")


class _JournalFromStart:
    """Index of the whole journal, with a few bytes a record because there may be millions.

    `first` and `last` are numbers of records; `rollbacks` maps a rollback to its target.
    """

    def __init__(self, log: Log, config: Config, alive: Callable[[], None] = lambda: None) -> None:
        self.first = 0
        self.rollbacks: dict[int, int] = {}
        self._events = array("q")  # events of each record; -1 unless it is a commit
        for entry in with_heartbeat(entries(log, log.partitions(config.topics.journal)[0]), alive):
            record = entry.record
            self.first = self.first if self._events else record.n
            if record.kind == "rollback":
                self.rollbacks[record.n] = record.to
            self._events.append(record.events if record.kind == "commit" else -1)
        if not self._events:
            raise _empty(config)
        self.last = self.first + len(self._events) - 1

    def path(self, n: int) -> list[range]:
        """Return the records that made the state at record `n`."""
        return path_to(n, self.rollbacks)

    def tally(self, taken: Sequence[range], less: Sequence[range]) -> dict[str, int]:
        """Count commits and events on one path and not on another."""
        found = [
            events
            for n, events in enumerate(self._events, self.first)
            if events >= 0 and is_on(taken, n) and not is_on(less, n)
        ]
        return {"commits": len(found), "events": sum(found)}
