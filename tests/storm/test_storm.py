"""A short storm on a real broker of its own: learners and broker die at random moments, and nothing is amiss."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from itertools import islice

import pytest
from broker_fixtures import running
from cluster import Cluster
from storm.course import rage
from storm.plans import chains, full, short
from storm.reading import Found
from storm.report import told
from storm.schedule import KILLS
from storm.undisturbed import disturbances

from streamnb.cli import wiring
from streamnb.config import load
from streamnb.engine.ports import Partition, Record


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
    for plan in (short(1), *full(1), *chains(1)):
        first, again, other = (
            list(islice(one.stream(), 1000)) for one in (plan, plan, replace(plan, seed=2))
        )
        assert first == again != other
        assert plan.strikes() == plan.strikes()


def test_the_full_storm_is_one():
    one, three = full(1)
    assert one.events >= 200_000
    assert sum(KILLS.get(strike.what, 0) for strike in one.strikes()) >= 30
    assert sum(strike.what == "broker" for strike in one.strikes()) >= 3
    assert three.nodes == 3
    assert sum(strike.what == "leader" for strike in three.strikes()) >= 3


def test_what_a_storm_on_chains_is_laid_beside_finds_what_is_there():
    """Negative control: an event fewer, two of an entity in another order, and a prediction that is another."""
    stream = [one for one in islice(chains(5)[1].stream(), 400) if not one.id.startswith("bad")]
    config = load(None, {}, ["model.kind=hidden_markov", "model.entities=15"])

    def learned(made, partitions):
        found = [Found(i % partitions, i, one.key, one.raw, 0.0, one.id) for i, one in enumerate(made)]
        records = [
            Record(Partition("events", f.partition), f.offset, f.key.encode(), f.value, 0.0) for f in found
        ]
        learner = wiring.learner(config)
        outputs = learner.process(sorted(records), 2.0)
        return found, learner, [one.value for one in outputs if one.topic == "predictions"]

    for partitions in (1, 2):
        found, learner, said = learned(stream, partitions)
        assert list(disturbances(config, found, learner, said)) == []
        fewer = learned(stream[:-1], partitions)[1]
        assert list(disturbances(config, found, fewer, said))
    found, learner, said = learned(stream, 1)
    turned = [*stream[:200], *reversed(stream[200:300]), *stream[300:]]
    assert list(disturbances(config, found, learned(turned, 1)[1], said))
    assert list(disturbances(config, found, learner, [*said[:-1], said[0]]))
