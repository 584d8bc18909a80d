"""``streamnb snapshot``: which there are, what was learned in between, and back to an earlier state."""

from __future__ import annotations

import argparse
import json
import os
import socket
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import closing
from typing import Any, NamedTuple

from streamnb.cli import wiring
from streamnb.cli.differences import State, differences, print_differences, time_of
from streamnb.cli.snapshot_list import listed, print_list
from streamnb.config import Config
from streamnb.engine.checkpoint import Checkpoint, snapshot_of
from streamnb.engine.history import entries, path_to
from streamnb.engine.lifecycle import roll_back
from streamnb.engine.ports import Log
from streamnb.engine.recovery import recover
from streamnb.errors import JournalError, LogError, NotElected, SnapshotError

__all__ = ["run"]

_TRY_AGAIN_SECONDS = 0.2


def run(options: argparse.Namespace) -> int:
    """List the snapshots, compare two states, or roll back."""
    config = wiring.load_config(options)
    if options.action == "rollback":
        _roll_back(config, options)
        return 0
    if options.action == "list":
        answer, show = listed(config), print_list
    else:
        answer, show = _compared(config, options), _print_compared
    if options.json:
        print(json.dumps(answer))
    else:
        show(answer)
    return 0


# -- diff ---------------------------------------------------------------------------------------------------


def _compared(config: Config, options: argparse.Namespace) -> dict[str, Any]:
    with closing(wiring.existing_log(config)) as log:
        steps = _steps(log, config)
        numbers = options.before, steps[-1].n if options.after is None else options.after
        before, after = (_state_at(log, config, n) for n in numbers)
    continued = _is_on(_path(steps, numbers[1]), numbers[0])
    times = {step.n: step.now for step in steps}
    answer = differences(before, after, options.top)
    for side in ("before", "after"):
        answer[side]["written"] = times[answer[side]["n"]]
    return {"continued": continued, **answer}


def _print_compared(answer: Mapping[str, Any]) -> None:
    before, after = (
        {**answer[side], "written": time_of(answer[side]["written"])} for side in ("before", "after")
    )
    if not answer["continued"]:
        print(f"what was learned up to record {before['n']} is not all in record {after['n']}\n")
    print_differences({**answer, "before": before, "after": after})


# -- rollback -----------------------------------------------------------------------------------------------


def _roll_back(config: Config, options: argparse.Namespace) -> None:
    """Take up the state of an earlier record again.

    1. Acquire the log: no learner is alive.
    2. Recover the present state: what is about to be left has to be whole, so that one can come back to it.
    3. Rebuild the state of the earlier record.
    4. Say what is undone.
    5. Write the rollback to the journal. From here on it holds, whatever happens: recovery follows it.
    6. Keep a snapshot there, so that recovery need not begin with an older one.
    """
    wiring.warm_up()  # while nothing is held
    with closing(wiring.existing_log(config)) as log:
        _acquire(log, config.log.session_timeout)
        identity, snapshots = wiring.identity(config), wiring.snapshots(config)
        end = recover(log, snapshots, wiring.learner(config), identity, log.heartbeat)
        if options.to >= end.n:
            raise JournalError(
                f"the journal ends with record {end.n}: there is nothing after {options.to} to undo"
            )
        target = _state_at(log, config, options.to, log)
        plan = _plan(_steps(log, config), end, options.to)
        if not options.json:
            _print_plan(plan, target)
        log.heartbeat()
        checkpoint = roll_back(log, end, options.to, identity, time.time())
        try:
            file = str(snapshots.save(snapshot_of(checkpoint, target.learner.parts(), identity)))
        except SnapshotError as error:
            file = None
            print(f"rolled back, but no snapshot was kept: {error}", file=sys.stderr)
    if options.json:
        print(json.dumps({**plan, "n": checkpoint.n, "snapshot": file, "events": target.learner.consumed}))
    else:
        print(f"rolled back by journal record {checkpoint.n}; back again: --to {end.n}")


def _acquire(log: Log, session_timeout: float) -> None:
    """Become the learner; one that has died is waited for, until its session is over."""
    owner = f"{socket.gethostname()}:{os.getpid()}"
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


def _plan(steps: Sequence[_Step], end: Checkpoint, to: int) -> dict[str, Any]:
    """What is left of the present state, and what comes back into it, in commits and their records."""
    present, past = _path(steps, end.n), _path(steps, to)
    undone = [step for step in steps if _is_on(present, step.n) and not _is_on(past, step.n)]
    restored = [step for step in steps if _is_on(past, step.n) and not _is_on(present, step.n)]
    return {
        "from": end.n,
        "to": to,
        **{
            name: {"commits": sum(s.kind == "commit" for s in found), "events": sum(s.events for s in found)}
            for name, found in (("undone", undone), ("restored", restored))
        },
    }


def _print_plan(plan: Mapping[str, Any], target: State) -> None:
    print(f"from journal record {plan['from']} back to {plan['to']}: {target.learner.consumed:,} events")
    for name in ("undone", "restored"):
        if plan[name]["commits"]:
            print(f"{name}: {plan[name]['commits']:,} commits with {plan[name]['events']:,} events")
    stay = "the positions stay: what is undone is not learned again, and its predictions stay where they are"
    print(stay, flush=True)  # before it is done


# -- the journal --------------------------------------------------------------------------------------------


class _Step(NamedTuple):
    """What is needed of a journal record; a journal may have millions."""

    n: int
    kind: str
    now: float
    to: int
    events: int


def _steps(log: Log, config: Config) -> list[_Step]:
    """The whole journal as it is kept. Raises LogError where it is empty."""
    journal = log.partitions(config.topics.journal)[0]
    steps = [
        _Step(r.n, r.kind, r.now, r.to, sum(part.count for part in r.slices))
        for _, r in entries(log, journal)
    ]
    if not steps:
        raise LogError(f"nothing has been learned yet: the journal of {config.log.url} is empty")
    return steps


def _path(steps: Sequence[_Step], n: int) -> list[range]:
    return path_to(n, {step.n: step.to for step in steps if step.kind == "rollback"})


def _is_on(path: Sequence[range], n: int) -> bool:
    return any(n in part for part in path)


def _state_at(log: Log, config: Config, n: int, owned: Log | None = None) -> State:
    """The state at a journal record, under the configuration that held then."""
    alive = (lambda: None) if owned is None else owned.heartbeat
    learner = wiring.learner(config)
    found = recover(log, wiring.snapshots(config), learner, wiring.identity(config), alive, at=n)
    return State(found, learner)
