"""A short storm on a real broker of its own: nothing is amiss; and what is looked at afterwards finds what is there."""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import islice

import pytest

from streamnb.config import load
from streamnb.engine.ports import Partition, Record
from streamnb.runtime import factories
from tests.system.storm.late_labels import events_and_verdicts, scores_differ, truths_of
from tests.system.storm.plans import chains, full, late, short, short_late
from tests.system.storm.reading import Found
from tests.system.storm.recount import counted, differences, recount
from tests.system.storm.schedule import KILLS
from tests.system.storm.stream import is_malformed
from tests.system.storm.undisturbed import disturbances
from tests.system.storm.weathered import weathered

pytestmark = pytest.mark.early(1)


def test_a_storm(lone_broker, tmp_path):
    report = weathered(lone_broker, tmp_path, short)
    assert report["events"] >= 15_000
    assert report["kills"] >= 8
    assert report["broker_kills"] >= 1
    assert report["freezes"] >= 1
    assert report["takeovers"] >= 1


def test_a_storm_can_be_had_again():
    for plan in (short(1), short_late(1), *full(1), *chains(1), *late(1)):
        first, again, other = (
            list(islice(one.stream(), 1000)) for one in (plan, plan, replace(plan, seed=2))
        )
        assert first == again != other
        assert plan.strikes() == plan.strikes()


def test_the_full_storm_is_one():
    for plan in late(1):
        assert sum(KILLS.get(strike.what, 0) for strike in plan.strikes()) >= 20
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
        learner = factories.learner(config)
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


def test_what_is_laid_beside_late_labels_finds_one_that_is_lost_and_one_that_is_learned_twice(tmp_path):
    """Negative control; and in whatever order both topics are read, it is the same."""
    file = tmp_path / "streamnb.toml"
    file.write_text("[labels]\nranks = { analyst = 3 }\nweights = { bot = 0.5 }")
    config = load(file, {}, ["model.kind=naive_bayes", "topics.labels=labels"])
    found = [
        (Partition(one.role, 0), Found(0, i, one.key, one.raw, 1_800_000_000.0 + i, one.id))
        for i, one in enumerate(events_and_verdicts(5, 150))
    ]
    went_in, heard = ([one for topic, one in found if topic.topic == role] for role in ("events", "labels"))
    truths = truths_of(went_in, heard)
    told = recount((one.value for one in went_in if not is_malformed(one.id)), truths)

    def differing(found, again=()):
        learner = factories.learner(config)
        records = [Record(topic, one.offset, one.key.encode(), one.value, one.at) for topic, one in found]
        outputs = learner.process(records, 1.0)
        while learner.has_work:
            learner.work()
        for word in again:
            learner.model.learn_one({"text": word}, "ham")
        said = [one.value for one in outputs if one.topic == "predictions"]
        return [*scores_differ(learner, said, truths), *differences(counted(learner.model), told)]

    assert differing(found) == differing(random.Random(5).sample(found, len(found))) == []
    assert differing(found, again=["once"])
    events = {one.id for one in went_in}
    decisive = next(
        one
        for one in heard
        if one.key in events and truths_of(went_in, [other for other in heard if other != one]) != truths
    )
    assert differing([one for one in found if one[1] != decisive])
