"""The page and the learner agree on which label holds, also beyond the number of sources of one event."""

from __future__ import annotations

import json
import random

from hypothesis import given, settings
from hypothesis import strategies as st

from streamnb import config as configuration
from streamnb.engine.ports import Partition, Record
from streamnb.queries.resolved_labels import ResolvedLabels
from tests.support.late import Stream, late_learner


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10**6))
def test_the_label_that_holds_is_the_learners_with_any_number_of_sources(seed):
    rng, stream, own = random.Random(seed), Stream(), {}
    for name in "efgh":
        own[name] = rng.choice(["x", None])
        stream.event(name, "w", own[name])
    for _ in range(100):
        stream.verdict(rng.choice("efgh"), rng.choice(["x", "y", "z", None]), rng.choice("abcdmn"))
    learner = late_learner(window=1e9, report_every=10**6)
    learner.process(stream.records, 1.0)
    judging = ResolvedLabels(configuration.load(None, {}, ["topics.labels=labels"]))
    for record in stream.records:
        if record.partition.topic == "labels":
            judging.add(record)
    held = {name: learner.late.resolve(learner.late.source_labels_of(name)) for name in own}
    assert {name: judging.label(name, own[name]) for name in own} == {
        name: None if truth is None else truth.label for name, truth in held.items()
    }
    assert learner.late.outcomes["too_many_sources"] > 0


@settings(max_examples=100, deadline=None)
@given(seed=st.integers(0, 10**6), most=st.sampled_from([None, 2]))
def test_a_label_that_is_asked_for_between_records_is_the_one_that_a_new_reader_finds(seed, most):
    rng, partition, records = random.Random(seed), Partition("labels", 0), []
    config = configuration.load(None, {}, ["topics.labels=labels"])
    asked = ResolvedLabels(config, most)
    for offset in range(30):
        one = {"id": rng.choice("efg"), "label": rng.choice(["x", "y", None]), "source": rng.choice("ab")}
        one = one if rng.random() < 0.8 else {"withdraw": True, "source": rng.choice("ab")}
        records.append(Record(partition, offset, None, json.dumps(one).encode(), float(offset + 1)))
        asked.add(records[-1])
        new = ResolvedLabels(config, most)
        for record in records:
            new.add(record)
        for name, own in (("e", None), ("e", "x"), ("f", "y"), ("g", None)):
            assert asked.label(name, own) == new.label(name, own)
            held = {one.label for one in asked._labels.get(name, ()) if not asked._voids.cover(one)}
            assert asked.disagreeing(name, own) == (len({own, *held} - {None}) > 1)
