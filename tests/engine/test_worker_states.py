"""The states of a worker, by their table."""

from __future__ import annotations

import re
from itertools import product
from pathlib import Path

import pytest

from streamnb.engine.sensor import Sensor, WorkerState
from streamnb.engine.worker_states import SCORER_TRANSITIONS, TRANSITIONS, WorkerStates

STARTING, STANDBY, RECOVERING, RUNNING, WAITING, STOPPED = WorkerState
WAYS = {
    STARTING: [],
    STANDBY: [STANDBY],
    RECOVERING: [RECOVERING],
    RUNNING: [RECOVERING, RUNNING],
    STOPPED: [STOPPED],
}
"""State -> how a worker comes to it."""
FOLLOWING = {
    STARTING: {STANDBY, RECOVERING, WAITING, STOPPED},
    STANDBY: {RECOVERING, WAITING, STOPPED},
    RECOVERING: {RUNNING, WAITING, STOPPED},
    RUNNING: {WAITING, STOPPED},
    STOPPED: set(),
}


class EnteredStates(Sensor):
    def __init__(self):
        self.states = []

    def entered(self, state):
        self.states.append(state)


def machine(way, **options):
    """A state machine that has gone some way, and the states that were reported since."""
    states = WorkerStates(sensor := EnteredStates(), **options)
    for state in way:
        states.enter(state)
    sensor.states.clear()
    return states, sensor.states


def check(way, state, is_allowed):
    states, entered = machine(way)
    before = states.state
    assert states.allows(state) or state is before or not is_allowed
    if is_allowed:
        states.enter(state)
        assert (states.state, entered) == (state, [state] if state is not before else [])
    else:
        with pytest.raises(ValueError, match=f"a worker that is {before} cannot become {state}"):
            states.enter(state)
        assert (states.state, entered) == (before, [])


@pytest.mark.parametrize(("before", "state"), list(product(WAYS, WorkerState)))
def test_a_transition_that_the_table_lacks_raises(before, state):
    """Over every pair; the same state again is none."""
    check(WAYS[before], state, state in FOLLOWING[before] | {before})


@pytest.mark.parametrize(("before", "state"), list(product([*WAYS][:-1], WorkerState)))
def test_waiting_leads_back_or_on_from_the_state_before(before, state):
    way = [*WAYS[before], WAITING]
    check(way, state, state in FOLLOWING[before] | {before, WAITING})
    states, entered = machine(way)
    states.resume()
    assert (states.state, entered) == (before, [before])
    states.resume()
    assert entered == [before], "only a wait is ended"


def test_the_first_state_is_reported_once_the_worker_begins():
    states, entered = machine([])
    states.begin()
    assert entered == [STARTING]


def test_the_table_is_complete():
    assert list(TRANSITIONS) == list(WorkerState)
    assert {state: set(TRANSITIONS[state]) for state in WAYS} == FOLLOWING
    assert TRANSITIONS[WAITING] == set(WorkerState) - {WAITING}


@pytest.mark.parametrize(("before", "state"), list(product(WorkerState, WorkerState)))
def test_a_scorer_differs_in_one_transition(before, state):
    differs = (before, state) == (RUNNING, RECOVERING)
    assert (state in SCORER_TRANSITIONS[before]) == (state in TRANSITIONS[before] or differs)


def test_a_scorer_recovers_again():
    states, entered = machine([RECOVERING, RUNNING], transitions=SCORER_TRANSITIONS)
    states.enter(RECOVERING)
    states.enter(RUNNING)
    assert entered == [RECOVERING, RUNNING]


def test_the_page_has_the_same_table():
    page = Path(__file__).parents[2] / "docs/architecture.md"
    rows = re.findall(r"^\| ([A-Z]+) \|[^|]+\| ([A-Za-z, ]+) \|$", page.read_text(), re.MULTILINE)
    names = {
        state: [other.upper() for other in WorkerState if other in TRANSITIONS[state]]
        for state in WorkerState
    }
    assert rows == [(state.upper(), ", ".join(following) or "none") for state, following in names.items()]
