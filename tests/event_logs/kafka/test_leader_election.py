"""Every way an election can go, of a member and a broker that show what a table says: no broker, no waiting."""

from __future__ import annotations

from types import SimpleNamespace
from typing import NamedTuple

import pytest
from kafka import TopicPartition, errors
from kafka.structs import ConsumerGroupMetadata, MemberState

from streamnb.errors import Fenced, LogError, NotElected, Unavailable
from streamnb.event_logs.kafka.leader_election import Election
from streamnb.event_logs.kafka.tool_command import ToolCommand

SESSION = 10.0
STABLE, JOINING = MemberState.STABLE, MemberState.REBALANCING
PRIZE, OTHER_PRIZE = TopicPartition("journal", 0), TopicPartition("others", 0)


class Turn(NamedTuple):
    """What a poll shows this member: its state, whether it has the prize, and as whom."""

    state: str = STABLE
    has: bool = True
    id: str = "me"


class Member:
    """Of the group; the last turn lasts."""

    def __init__(self, clock):
        self.clock, self.turns, self.calls = clock, [Turn(JOINING, has=False)], []

    def poll(self, timeout_ms):
        self.clock.now += timeout_ms / 1000 + 0.001
        self.calls.append("poll")
        self.turns = self.turns[1:] or self.turns
        if isinstance(self.turns[0], Exception):
            raise self.turns[0]

    def _shown(self):
        return self.turns[0] if isinstance(self.turns[0], Turn) else Turn(JOINING, has=False)

    def assignment(self):
        return {PRIZE} if self._shown().has else set()

    def group_metadata(self):
        shown = self._shown()
        return ConsumerGroupMetadata("streamnb.m", 1, shown.id, None, shown.state)

    def __getattr__(self, name):
        return lambda *_, **__: self.calls.append(name) or set()


def group(*members, error=None):
    """As kafka-python describes it; members are (id, client, partitions)."""
    described = [
        {
            "member_id": member,
            "client_id": client,
            "client_host": "/host",
            "member_assignment": {
                "assigned_partitions": [{"topic": place.topic, "partitions": [0]} for place in has]
            },
        }
        for member, client, has in members
    ]
    return {"error": error, "group_state": "Stable", "members": described}


MINE = group(("me", "streamnb-a:1", [PRIZE]))
ALONE = group(("you", "streamnb-b:2", [PRIZE]))
THEIRS = group(("you", "streamnb-b:2", [PRIZE]), ("me", "streamnb-a:1", []))
STRANGE = group(("x", "console", [PRIZE]))
NOBODYS = group(("me", "streamnb-a:1", []))
MOVING = {"group_state": "PreparingRebalance"}
UNSETTLED = {**group(), **MOVING}
ELECTED, PASSED_OVER, REJOINING = Turn(), Turn(has=False), Turn(JOINING, has=False)
UNREACHABLE = errors.KafkaConnectionError("down")


class Case(NamedTuple):
    """What is called, what the polls show from then on, what the broker says, and how it ends.

    Attributes:
        idle: seconds that this process was elsewhere before.
        calls: of the member, that are made.
        unseen: turns that are not reached.
    """

    call: str
    turns: list
    groups: list
    ends: type[Exception] | None = None
    says: str = ""
    idle: float = 1.0
    calls: tuple = ()
    unseen: int = 0


TAKEN, NOBODY = "b:2 at host has taken over", "no other member was elected"
OPEN = "the election is not settled; it was removed from the group, or no broker answers; start it again"
CLAIMED = r"its heartbeats arrived, .* claimed .*: kafka-consumer-groups.sh .* --group streamnb.m --members$"
CASES = {
    "won at once": Case("win", [ELECTED], []),
    "won after joining": Case("win", [REJOINING, Turn(id=""), ELECTED], [], calls=("pause",)),
    "won after an outage": Case("win", [UNREACHABLE, ELECTED], []),
    "another holds it": Case("win", [PASSED_OVER], [THEIRS], NotElected, r"another learner is alive \(b:2 at host\)"),
    "a stranger holds it": Case("win", [PASSED_OVER], [STRANGE], NotElected, "client console at host"),
    "nobody holds it": Case("win", [PASSED_OVER], [NOBODYS], NotElected, "not over yet"),
    "not settled": Case("win", [PASSED_OVER], [UNSETTLED], NotElected, "not over yet"),
    "held while not settled": Case("win", [PASSED_OVER], [{**THEIRS, **MOVING}], NotElected, "not over yet"),
    "nobody can say": Case("win", [PASSED_OVER], [UNREACHABLE], NotElected, "not over yet"),
    "joining for long": Case("win", [REJOINING], [], NotElected, "not over yet", calls=("unsubscribe", "topics")),
    "no leave": Case("win", [errors.GroupAuthorizationFailedError("g")], [], LogError, "READ group g"),
    "electing in another way": Case(
        "win", [errors.InconsistentGroupProtocolError()], [STRANGE], LogError, "client console"
    ),
    "a beat not due": Case("beat", [PASSED_OVER], [], idle=0.5, unseen=1),
    "a beat": Case("beat", [ELECTED], []),
    "a beat within a rebalance": Case("beat", [Turn(JOINING), Turn(JOINING), ELECTED], []),
    "a rebalance longer than a session": Case("beat", [Turn(JOINING)], []),
    "another took over": Case("beat", [PASSED_OVER], [ALONE], Fenced, f"{TAKEN}; no heartbeat reached a broker"),
    "another claimed it": Case("beat", [PASSED_OVER], [THEIRS], Fenced, f"{TAKEN}; {CLAIMED}"),
    "nobody took over": Case("beat", [PASSED_OVER], [group()], Fenced, f"{NOBODY}; no heartbeat reached a broker"),
    "of two that claim it neither has it": Case("beat", [PASSED_OVER], [NOBODYS], Fenced, f"{NOBODY}; {CLAIMED}"),
    "lost while joining": Case("beat", [REJOINING, ELECTED], [UNREACHABLE], Fenced, OPEN, unseen=1),
    "expired and joined again": Case("beat", [Turn(id="me2")], [MINE], Fenced, NOBODY),
    "stood still": Case("beat", [PASSED_OVER], [THEIRS], Fenced, r"stood still for 20.0 s.* raise log.session_timeout", idle=20.0),
    "proved": Case("prove", [ELECTED], [MINE]),
    "proved once settled": Case("prove", [ELECTED], [UNSETTLED, MINE]),
    "disproved": Case("prove", [ELECTED], [THEIRS, THEIRS, MINE], Fenced, TAKEN),
    "disproved once settled": Case("prove", [ELECTED], [{**MINE, **MOVING}, THEIRS], Fenced, TAKEN),
    "held by nobody": Case("prove", [ELECTED], [NOBODYS], Fenced, NOBODY),
    "never settled": Case("prove", [ELECTED], [{**THEIRS, **MOVING}], Fenced, OPEN),
    "nobody is left": Case("prove", [ELECTED], [{**group(), "group_state": "Empty"}], Fenced, NOBODY),
    "lost before it is asked": Case("prove", [PASSED_OVER], [THEIRS], Fenced, TAKEN),
    "the group has an error": Case("prove", [ELECTED], [group(error="moved")], Unavailable, "moved"),
    "the broker is out of reach": Case("prove", [ELECTED], [UNREACHABLE], Unavailable, "does not answer"),
    "a learner of another journal": Case(
        "prove", [ELECTED], [group(("o", "streamnb-o:3", [OTHER_PRIZE]))], LogError, "learner of journal others"
    ),
    "a stranger of another topic": Case(
        "prove", [ELECTED], [group(("x", "console", [OTHER_PRIZE]))], LogError, "client console"
    ),
}  # fmt: skip
CALLS = {"win": lambda one: one.win(60.0), "beat": Election.beat, "prove": Election.prove}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_every_way_an_election_can_go(monkeypatch, case):
    clock = SimpleNamespace(now=1000.0)
    clock.monotonic = lambda: clock.now
    clock.sleep = lambda seconds: setattr(clock, "now", clock.now + seconds)
    monkeypatch.setattr("streamnb.event_logs.kafka.leader_election.time", clock)
    member, groups = Member(clock), [*case.groups]

    def describe_groups(names):
        shown = groups.pop(0) if len(groups) > 1 else groups[0]
        if isinstance(shown, Exception):
            raise shown
        return {names[0]: shown}

    clients = SimpleNamespace(member=lambda *_: member, line=ToolCommand("a:1", is_secured=False))
    admin = SimpleNamespace(describe_groups=describe_groups)
    election = Election(clients, admin, "streamnb.m", "journal", "a:1", SESSION)
    if case.call != "win":
        member.turns = [ELECTED]
        election.win(60.0)
        clock.now += case.idle
    member.calls.clear()
    member.turns = [member.turns[0], *case.turns]
    if case.ends is None:
        CALLS[case.call](election)
    else:
        with pytest.raises(case.ends, match=case.says) as ended:
            CALLS[case.call](election)
        assert type(ended.value) is case.ends
    assert set(case.calls) <= set(member.calls)
    assert len(member.turns) == 1 + case.unseen


def test_a_member_that_cannot_join_leaves_at_once_whatever_that_says(monkeypatch):
    def fails(*_):
        raise errors.GroupAuthorizationFailedError("g")

    member, left = Member(None), []
    monkeypatch.setattr(member, "topics", fails, raising=False)
    monkeypatch.setattr(member, "close", lambda: left.append(1) or fails(), raising=False)
    clients = SimpleNamespace(member=lambda *_: member, line=None)
    with pytest.raises(LogError, match="no permission to READ group g"):
        Election(clients, None, "g", "journal", "a:1", SESSION)
    assert left == [1]
