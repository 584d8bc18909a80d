"""Learners of some partitions each, and a merger, killed at random moments on a real broker.

Whatever was published is read by a stranger: it has to be the sum of what the shards' journals had committed by the
records that it names, as plain dictionaries count the events before the offsets that it stands for.
"""

from __future__ import annotations

import json
import random
import re
import threading
import time
from collections import Counter

import pytest

import streamnb
from streamnb.merging.shard_states import of_text
from tests.support.program import Program, until
from tests.support.service import raw_events
from tests.system.storm.reading import read
from tests.system.storm.recount import counted, differences, recount

pytestmark = pytest.mark.early(3)

TWICE = """
from streamnb.merging import shard_states as states
merged = states.merged
def twice(given, config):
    total = merged(given, config)
    total.model.merge(states._model(config).load_state(*given[0].model.state()))
    return total
from streamnb.cli.commands import model
from streamnb.merging import merged_model_publishing as publishing
model.merged = publishing.merged = twice
"""
"""A merger that adds a shard once more."""
DIES = """
import os
from streamnb.persistence.snapshot_folder import SnapshotFolder
SnapshotFolder.save = lambda *_: os._exit(9)
SnapshotFolder.save_aside = lambda *_: os._exit(9)
"""
"""A merger that dies when the journal has taken a sum up, before it keeps a snapshot."""
AHEAD = """
from streamnb.merging import shard_states as states
of = states.of_learner
def ahead(*given):
    found = of(*given)
    moved = {place: one._replace(position=one.position + 1) for place, one in found.positions.items()}
    return found._replace(positions=moved)
states.of_learner = ahead
"""
"""A merger that says that it stands for more than a shard has committed."""
LESS = """
from streamnb.models.naive_bayes import naive_bayes_classifier
merge = naive_bayes_classifier.merge_statistics
def less(own, other):
    before = own.class_weights.copy()
    merge(own, other)
    own.class_weights[0] = before[0]
naive_bayes_classifier.merge_statistics = less
"""
"""A merger that leaves a class out."""


class Shards:
    """Two learners of two partitions each, and what merges them; all of one stream."""

    def __init__(self, folder, broker):
        self.folder, self.address = folder, broker.address
        self.merged = self._program(broker, {"keep": 1000})
        self.learners = [
            self._program(broker, {"every": "500ms"}, events={"partitions": numbers})
            for numbers in ([0, 1], [2, 3])
        ]
        for one in (self.merged, *self.learners):
            one.run("topics", "create")
        self.files = [str(one.file) for one in self.learners]

    def _program(self, broker, snapshots, **more):
        program = Program(
            self.folder,
            broker.address,
            model_keys={"kind": "naive_bayes"},
            log={"session_timeout": "2s"},
            commit={"interval": "50ms", "events": 100},
            predictions={"by": "scorers"},
            **more,
            snapshots={"folder": str(self.folder / f"kept-{len(list(self.folder.glob('*.toml')))}")}
            | snapshots,
        )
        if hasattr(self, "merged"):
            text = program.file.read_text()
            for name in ("events", "dead_letters"):
                text = text.replace(program.topics[name], self.merged.topics[name])
                program.topics[name] = self.merged.topics[name]
            program.file.write_text(text)
        program.file.write_text(program.file.read_text().replace("[topics]", "[topics]\npartitions = 4"))
        return program

    def feed(self, raws):
        file = self.folder / f"events-{time.monotonic_ns()}.jsonl"
        file.write_bytes(b"\n".join(raws) + b"\n")
        self.merged.run("replay", str(file), "--key", "$.id")

    def learn(self):
        for one in self.learners:
            one.run("run", "--until-end")

    def merge(self, *more, first=""):
        return self.merged.start("model", "merge", *self.files, *more, first=first)

    def journal(self, program):
        return [json.loads(one.value) for one in read(self.address, program.topics["journal"])]

    def sums(self):
        return [record for record in self.journal(self.merged) if record["kind"] == "adopt"]

    def wrong(self):
        """Of every sum that was published, in what it is not what it says."""
        events, committed = {}, {}
        for one in read(self.address, self.merged.topics["events"]):
            events.setdefault(str(one.partition), []).append((one.offset, one.value))
        for program in self.learners:
            for record in self.journal(program):
                committed[record["digest"]] = record["positions"][self.merged.topics["events"]]
        kept = self.folder / "kept-0"
        snapshots = sorted(kept.glob("snapshot-*.snb"))
        for record in self.sums():
            positions = record["positions"][self.merged.topics["events"]]
            stands = {}
            for digest in record["merged"]:
                stands |= committed.get(digest, {})
            if positions != stands:
                yield f"record {record['n']} stands for {positions}, and the shards had committed {stands}"
            raws = [
                raw
                for number, at in positions.items()
                for offset, raw in events.get(number, ())
                if offset < at
            ]
            snapshot = kept / f"snapshot-{record['n']:020d}.snb"
            if not snapshot.exists():  # the merger died before it kept one: what it offered holds
                snapshot = kept / f"adopt-{record['n'] - 1:020d}.snb"
                if not snapshot.exists() and snapshots and snapshot.name[-24:] < snapshots[0].name[-24:]:
                    continue  # and is kept until a snapshot is
            found = counted(streamnb.load(snapshot))
            yield from differences(found, recount(raws))

    def close(self):
        for one in (self.merged, *self.learners):
            one.close()


@pytest.fixture
def shards(tmp_path, broker):
    made = Shards(tmp_path, broker)
    yield made
    made.close()


@pytest.fixture
def stormed(tmp_path, lone_broker):
    made = Shards(tmp_path, lone_broker)
    made.broker = lone_broker
    yield made
    made.close()


@pytest.mark.storm
def test_every_merge_is_a_sum_of_what_shards_have_committed_whoever_is_killed(stormed):
    rng, raws = random.Random(5), raw_events(40_000, seed=5)
    started = {n: one.start("run") for n, one in enumerate(stormed.learners)}
    started["merger"], scorer = stormed.merge("--every", "0.3"), stormed.merged.start("score")
    begin = {n: lambda one=one: one.start("run") for n, one in enumerate(stormed.learners)}
    begin["merger"] = lambda: stormed.merge("--every", "0.3")
    enough, fed = threading.Event(), []

    def feed():
        while len(fed) < len(raws) and not enough.is_set():
            stormed.feed(raws[len(fed) : len(fed) + 200])
            fed.extend(raws[len(fed) : len(fed) + 200])

    def sums():
        for name, one in started.items():  # who was cut off for longer than its session ends, too
            if not one.is_going():
                started[name] = begin[name]()
        return stormed.sums()

    feeding = threading.Thread(target=feed)
    feeding.start()
    for number in range(12):
        what = ("shard", "merger", "shard", "merger", "broker", "shard")[number % 6]
        if what == "broker":
            stormed.broker.nodes[0].kill()
            stormed.broker.nodes[0].start()
        else:
            if what == "merger":
                known = len(stormed.sums())
                until(lambda known=known: len(sums()) > known)
                time.sleep(rng.uniform(0.0, 1.0))
            name = rng.randrange(2) if what == "shard" else what
            started[name].kill()
            started[name] = begin[name]()
        time.sleep(rng.uniform(0.2, 1.5))
    enough.set()
    feeding.join()
    place = stormed.merged.topics["events"]
    until(lambda: (last := sums()) and sum(last[-1]["positions"][place].values()) == len(fed))
    until(lambda: len(list(read(stormed.address, stormed.merged.topics["predictions"]))) >= len(fed))
    for command in (*started.values(), scorer):
        command.stop()
        assert command.process.returncode == 0, command.said()
    assert list(stormed.wrong()) == []
    assert len(stormed.sums()) > 4
    said = [json.loads(one.value) for one in read(stormed.address, stormed.merged.topics["predictions"])]
    assert Counter(one["id"] for one in said) == Counter(json.loads(raw)["id"] for raw in fed)
    assert len({one["model"]["events"] for one in said} - {0}) > 1  # one sum after another
    whole = of_text(stormed.merged.run("model", "export").encode())
    assert differences(counted(whole.model), recount(fed)) == []
    merger = begin["merger"]()
    merger.await_word(" installed the sum")
    stormed.broker.nodes[0].kill()  # who is told to stop meanwhile waits no longer, and has not failed
    until(lambda: re.search("waiting: |the last merge stays", merger.said()))
    merger.stop().output()


@pytest.mark.storm_for("twice", "ahead", "less")
@pytest.mark.parametrize("fault", ["", TWICE, AHEAD, LESS], ids=["none", "twice", "ahead", "less"])
def test_a_sum_that_is_none_is_found(shards, fault):
    """Negative controls of the test before, and one that is right."""
    shards.feed(raw_events(300, seed=6))
    shards.learn()
    shards.merge(first=fault).output()
    assert bool(list(shards.wrong())) == bool(fault)


def test_a_sum_without_a_snapshot_is_taken_from_what_was_offered(shards):
    shards.feed(raw_events(300, seed=10))
    shards.learn()
    assert shards.merge(first=DIES).process.wait() == 9
    (record,) = shards.sums()
    assert not (shards.folder / "kept-0" / f"snapshot-{record['n']:020d}.snb").exists()
    assert list(shards.wrong()) == []
    scorer = shards.merged.start("score")
    until(lambda: len(list(read(shards.address, shards.merged.topics["predictions"]))) >= 300)
    scorer.stop().output()
    shards.feed(raw_events(100, seed=11))
    shards.learn()
    shards.merge().output()
    assert len(shards.sums()) == 2
    assert list(shards.wrong()) == []


def test_what_a_merge_needs_it_names(shards):
    shards.feed([*raw_events(400, seed=7), *(b'{"id": "%d", "text": 5}' % n for n in range(8))])
    one, other = shards.learners
    one.run("run", "--until-end")
    line, _ = shards.merge().complaint()
    assert f"'{other.model}' has kept no snapshot" in line
    assert shards.sums() == []
    half = shards.merged.start("model", "merge", str(one.file), "--json")
    assert json.loads(half.output())["missing"] != []
    assert "partition 2, 3: no shard has learned it" in half.said()
    other.run("run", "--until-end")
    shards.merge().output()
    n = len(shards.sums())
    line = shards.merged.fail("model", "merge", str(one.file))
    assert "partition 2: the last merge stands for all before offset" in line
    line = shards.merged.fail("model", "merge", *shards.files, str(other.file), code=2)
    assert f"is learned by '{other.model}'" in line
    line = one.fail("model", "merge", *shards.files, code=2)
    assert "events.partitions is set" in line
    assert len(shards.sums()) == n
    line = shards.merged.fail("verify")
    assert "holds sums of the models of shards" in line
    for shard in shards.learners:
        assert "counted once each" in shard.run("verify")
    assert list(shards.wrong()) == []
    one.run("snapshot", "rollback", "--to", "0")
    merge = shards.merge()
    merge.output()
    assert ": a shard was rolled back, or retrained" in merge.said()


def test_partitions_that_are_not_there_and_other_ones_are_refused(shards):
    one, _ = shards.learners
    line = one.fail("run", "--until-end", "--set", "events.partitions=[3, 4, 9]")
    assert "events.partitions names 4, 9, and topic" in line
    one.run("run", "--until-end")
    line = one.fail("run", "--until-end", "--set", "events.partitions=[0, 1, 2]", code=2)
    assert "events.partitions was [0,1] and is [0,1,2]" in line


def test_a_learners_journal_is_no_place_for_a_sum(shards):
    shards.feed(raw_events(100, seed=8))
    shards.learn()
    shards.merged.run("run", "--until-end")
    line, _ = shards.merge().complaint(2)
    assert "is the journal of a learner" in line
