"""A short storm on a real broker of its own: learners and broker die at random moments, and nothing is amiss."""

from __future__ import annotations

import json
import random

import pytest
from broker_fixtures import running
from cluster import Cluster
from storm.course import rage
from storm.plans import full, short
from storm.report import told
from storm.schedule import KILLS
from storm.stream import events


@pytest.fixture
def lone_broker(tmp_path_factory):
    yield from running("lone_broker", lambda: Cluster(tmp_path_factory.mktemp("storm")))


def test_a_storm(lone_broker, tmp_path):
    plan = short(random.SystemRandom().randrange(1 << 32))
    report = rage(lone_broker, tmp_path, plan, print)
    print(told(report), json.dumps(report))  # noqa: T201  for whoever looks into a failure
    assert report["faults"] == []
    assert (report["lost"], report["repeated"]) == (0, 0)
    assert report["events"] >= 50_000
    assert report["kills"] >= 8
    assert report["broker_kills"] >= 1
    assert report["freezes"] >= 1
    assert report["takeovers"] >= 1


def test_a_storm_can_be_had_again():
    for plan in (short(1), *full(1)):
        assert list(events(plan.seed, 1000)) == list(events(plan.seed, 1000)) != list(events(2, 1000))
        assert plan.strikes() == plan.strikes()


def test_the_full_storm_is_one():
    one, three = full(1)
    assert one.events >= 200_000
    assert sum(KILLS.get(strike.what, 0) for strike in one.strikes()) >= 30
    assert sum(strike.what == "broker" for strike in one.strikes()) >= 3
    assert three.nodes == 3
    assert sum(strike.what == "leader" for strike in three.strikes()) >= 3
