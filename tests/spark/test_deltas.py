"""Learning by batches, without Spark: parts, deltas and restarts are the stream counted in order."""

from __future__ import annotations

import json
import os
import random
import shutil
from collections import Counter
from functools import cache

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import streamnb
from streamnb import config as configuration
from streamnb.engine.ports import Partition
from streamnb.errors import ConfigError, JournalError, OtherStream, SnapshotError
from streamnb.models.naive_bayes.partials import Partial
from streamnb.runtime import factories
from streamnb.spark import partition_worker as part_module
from streamnb.spark.deltas import Deltas, ranges_of, refuse_unfit
from streamnb.spark.job import planned
from streamnb.spark.partition_worker import PartitionTask
from tests.support.in_order import IN_ORDER
from tests.support.malformed import MALFORMED
from tests.system.storm.recount import counted, recount

IDS = {"events": "id-1"}
NOW = 1_790_000_000.0
SETS = ["log.url=kafka://127.0.0.1:9", "model.kind=naive_bayes"]


@pytest.fixture(autouse=True, scope="module")
def _fast_starts():
    """A driver starts often here: what it asks of the machine is asked once, and no power is lost."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(factories, "fingerprint", cache(factories.fingerprint))
        patch.setattr(os, "fsync", lambda _: None)
        yield


def configured(*sets):
    return configuration.load(None, {}, [*SETS, *sets])


def event(number, label="ham", **more):
    return json.dumps(
        {"id": f"e{number}", "text": f"w{number % 7} w{number % 3}", "label": label} | more
    ).encode()


def arrow(place, rows):
    """As Spark gives records to a worker: (offset, value) of each."""
    columns = {
        "topic": pa.array([place.topic] * len(rows)),
        "partition": pa.array([place.number] * len(rows), pa.int32()),
        "offset": pa.array([offset for offset, _ in rows], pa.int64()),
        "key": pa.array([None] * len(rows), pa.binary()),
        "value": pa.array([value for _, value in rows], pa.binary()),
        "timestamp": pa.array([int(NOW * 1e6)] * len(rows), pa.timestamp("us", "UTC")),
    }
    return pa.RecordBatch.from_pydict(columns)


class Cluster:
    """A driver with workers, which die as they are told."""

    def __init__(self, folder, config=None, pieces=lambda rows: [rows]):
        self.deltas, self.config, self.outputs, self.refused = Deltas(folder), config or configured(), [], 0
        self.pieces = pieces
        self.start()

    def start(self):
        """A driver and workers that know what the folder says."""
        part_module._replicas.clear()
        self.state = self.deltas.begin(self.config, IDS)

    def made(self, number, batch):
        """Of each partition that has records, in any order, what its worker made: batch is place -> (first, past, rows)."""
        places = {place: (first, past) for place, (first, past, _) in batch.items()}
        part, partials = PartitionTask(str(self.deltas.path), number, NOW, places), []
        for place, (_, _, rows) in random.Random(number).sample(sorted(batch.items()), len(batch)):
            for made in part(iter([arrow(place, piece) for piece in self.pieces(rows)])):
                told = made.to_pylist()
                partials += [row for row in told if row["partial"]]
                self.outputs += [row for row in told if not row["partial"]]
        self.refused += sum(int(row["key"]) for row in partials)
        return places, [Partial.from_bytes(row["partial"]) for row in partials]

    def run(self, number, batch):
        places = {place: (first, past) for place, (first, past, _) in batch.items()}
        if not self.deltas.is_learned(self.state, number, places):
            places, partials = self.made(number, batch)
            self.state = self.deltas.advance(self.state, partials, places)


def batches_of(raws, partitions, cuts, gap=0):
    """The stream by partitions, and each of these cut: place -> (first, past, rows) of each batch; `gap` offsets are lost
    behind each batch, as marks of transactions are."""
    ends, found = dict.fromkeys(range(partitions), 0), []
    for begin, cut in zip([0, *cuts], [*cuts, len(raws)], strict=True):
        batch = {}
        for number in range(partitions):
            mine = [raw for at, raw in enumerate(raws[begin:cut]) if at % partitions == number]
            first = ends[number]
            ends[number] = first + len(mine) + (gap if mine else 0)
            batch[Partition("events", number)] = first, ends[number], list(enumerate(mine, first))
        found.append(batch)
    return found


VALUES = st.floats(-1e3, 1e3, allow_nan=False)
FEATURES = st.fixed_dictionaries(
    {}, optional={"size": VALUES, "colour": st.sampled_from(["r", "g"]), "is": st.booleans()}
)
EVENTS = st.builds(
    lambda number, label, features: event(number, label, features=features),
    st.integers(0, 50),
    st.sampled_from(["ham", "spam", "eggs", None]),
    FEATURES,
)
BAD = st.sampled_from([one.raw for one in MALFORMED if len(one.raw) < 10_000])


def same(found, expected):
    """Counts to the bit; moments to 1e-12 of the largest value, and of its square."""
    assert found.keys() == expected.keys()
    for what, told in expected.items():
        if what[0] == "moments":
            assert found[what][0] == told[0], what
            assert abs(found[what][1] - told[1]) <= 1e-12 * 1e3
            assert abs(found[what][2] - told[2]) <= 1e-12 * 1e6
        else:
            assert found[what] == told, what


def digest(state):
    return state.model.digest(), state.ranges, state.tested, dict(state.checkpoint.positions), state.next


@given(data=st.data())
def test_batches_with_a_death_anywhere_are_the_stream_counted_in_order(data, tmp_path_factory):
    good = data.draw(st.lists(EVENTS, min_size=1, max_size=25))
    raws = data.draw(st.permutations(good + data.draw(st.lists(BAD, max_size=3))))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(raws)), max_size=4)))
    batches = batches_of(raws, data.draw(st.integers(1, 3)), cuts, data.draw(st.integers(0, 2)))
    folder = tmp_path_factory.mktemp("deltas")
    calm, struck = (
        Cluster(folder / "calm"),
        Cluster(folder / "struck", pieces=lambda rows: [rows[:2], rows[2:]]),
    )
    if any(len(rows) > 2 for batch in batches for _, _, rows in batch.values()):
        calm.pieces = struck.pieces  # how Spark cuts a partition may change roundings, and nothing else
    for number, batch in enumerate(batches):
        calm.run(number, batch)
        for strike in data.draw(
            st.lists(st.sampled_from(["before", "written", "full", "driver"]), max_size=2)
        ):
            if strike == "before":
                struck.made(number, batch)  # and the driver dies before it writes
            elif strike == "full":
                struck.deltas.save(struck.state)
            elif strike == "written":
                struck.run(number, batch)  # and dies before Spark knows
            struck.start()
        struck.run(number, batch)
    assert digest(struck.state) == digest(calm.state)
    struck.start()
    assert digest(struck.state) == digest(calm.state)
    same(counted(struck.state.model), {("events",): 0} | recount(good))
    refused = [row for row in calm.outputs if row["topic"] == "dead-letters"]
    assert len(refused) == calm.refused == len(raws) - len(good)
    said = {
        (row["topic"], row["key"], row["value"]) for row in struck.outputs if row["topic"] == "predictions"
    }
    assert said == {
        (row["topic"], row["key"], row["value"]) for row in calm.outputs if row["topic"] == "predictions"
    }
    assert len(said) == len(good)


def test_a_batch_is_predicted_by_the_model_after_the_one_before(tmp_path):
    raws = [event(i, ["ham", "spam"][i % 3 == 0]) for i in range(60)]
    cluster, plain = Cluster(tmp_path), factories.learner(configured())
    for number, batch in enumerate(batches_of(raws, 2, [20, 40])):
        cluster.outputs.clear()
        cluster.run(number, batch)
        told = {json.loads(row["value"])["id"]: json.loads(row["value"]) for row in cluster.outputs}
        mine = raws[20 * number : 20 * number + 20]
        assert [row["key"] for row in cluster.outputs].count(b"events/1@%d" % (10 * number)) == 1
        for raw in mine:
            x = {"text": json.loads(raw)["text"]}
            said = told[json.loads(raw)["id"]]
            assert said["probabilities"] == plain.model.predict_proba_one(x)
            assert said["model"] == {"name": "default", "events": 20 * number, "journal": number - 1}
            assert said["ts"] == NOW
        plain.model.learn_many(
            [{"text": json.loads(raw)["text"]} for raw in mine], [json.loads(raw)["label"] for raw in mine]
        )
    assert cluster.state.tested.events == 60
    assert 0 < cluster.state.tested.right < 60


def test_events_that_hang_together_in_one_partial_are_learned_whatever_the_pieces(tmp_path, monkeypatch):
    raws = [event(i) for i in range(50)]
    (batch,) = batches_of(raws, 1, [])
    for most in (1, 7, 50):
        monkeypatch.setattr(part_module, "_MOST_AT_ONCE", most)
        cluster = Cluster(tmp_path / str(most))
        cluster.run(0, batch)
        same(counted(cluster.state.model), recount(raws))
        assert len(cluster.outputs) == 50


PLACE = Partition("events", 0)


def of_one(first, past, more=0):
    rows = [(offset, event(offset)) for offset in range(first, past)]
    return {PLACE: (first, past + more, rows)}


@pytest.mark.parametrize(
    ("batch", "named"),
    [
        (of_one(7, 9), r"batch 1 .*'events/0': offsets 5 to 6 are missing"),
        (of_one(3, 9), r"batch 1 .*'events/0': offsets 3 to 4 are there twice"),
        (of_one(0, 5), r"batch 1 .*'events/0': offsets 0 to 4 are there twice"),
    ],
)
def test_a_gap_or_an_overlap_is_refused_and_nothing_is_written(batch, named, tmp_path):
    cluster = Cluster(tmp_path)
    cluster.run(0, of_one(0, 5))
    before = digest(cluster.state), sorted(path.name for path in tmp_path.iterdir())
    with pytest.raises(JournalError, match=named):
        cluster.run(1, batch)
    assert (digest(cluster.state), sorted(path.name for path in tmp_path.iterdir())) == before


def test_a_delta_that_does_not_follow_is_found_when_it_is_read(tmp_path):
    cluster = Cluster(tmp_path)
    for number in range(3):
        cluster.run(number, of_one(5 * number, 5 * number + 5))
    files = [tmp_path / f"delta-{number:020d}.snb" for number in range(3)]
    kept = [file.read_bytes() for file in files]
    files[1].write_bytes(kept[2])
    with pytest.raises(JournalError, match=r"batch 1 .*offsets 5 to 9 are missing"):
        cluster.start()
    files[1].write_bytes(kept[0])
    with pytest.raises(JournalError, match=r"batch 1 .*offsets 0 to 4 are there twice"):
        cluster.start()
    files[1].write_bytes(kept[1][:-1])
    with pytest.raises(SnapshotError, match=r"delta-0*1\.snb"):
        cluster.start()
    files[1].unlink()
    cluster.start()
    assert cluster.state.next == 1  # a hole ends what is known, and then Spark's number is another one
    with pytest.raises(JournalError, match=r"begins with batch 3, and .* continues with batch 1"):
        cluster.run(3, of_one(15, 20))


def test_a_batch_out_of_turn_or_of_other_records_is_refused(tmp_path):
    cluster = Cluster(tmp_path)
    for number in range(2):
        cluster.run(number, of_one(5 * number, 5 * number + 5))
    with pytest.raises(JournalError, match=r"begins with batch 0, and .* continues with batch 2"):
        cluster.run(0, of_one(0, 5))
    with pytest.raises(JournalError, match="events/0 5 to 10, and not events/0 5 to 9"):
        cluster.run(1, of_one(5, 11))
    with pytest.raises(JournalError, match="events/0: offset 9 is not part of batch 2"):
        cluster.made(2, {PLACE: (10, 12, [(9, event(9))])})
    _, partials = cluster.made(2, of_one(10, 12))
    with pytest.raises(JournalError, match="events/0 10 to 11, which is not part of the batch"):
        cluster.deltas.advance(cluster.state, partials, {PLACE: (10, 13)})


@pytest.mark.parametrize("keep", [1, 3])
def test_a_batch_that_comes_again_after_a_full_state_is_known(tmp_path, keep):
    """As where the driver dies before Spark notes that it was learned."""
    cluster = Cluster(tmp_path)
    cluster.deltas = Deltas(tmp_path, keep)
    for number in range(3):
        cluster.run(number, of_one(5 * number, 5 * number + 5))
        cluster.deltas.save(cluster.state)
        before = digest(cluster.state)
        cluster.start()
        cluster.run(number, of_one(5 * number, 5 * number + 5))
        assert digest(cluster.state) == before


def test_adding_without_numbers_counts_twice(tmp_path):
    """Negative control: a driver that does not look at the number of a batch."""
    cluster = Cluster(tmp_path)
    places, partials = cluster.made(0, of_one(0, 5))
    for _ in range(2):
        cluster.state.model.apply(partials[0])
    assert counted(cluster.state.model) != recount([event(i) for i in range(5)])
    assert places == {PLACE: (0, 5)}


def test_marks_and_empty_batches_go_on(tmp_path):
    cluster = Cluster(tmp_path)
    for number, (first, past, rows) in enumerate([(0, 3, 0), (3, 3, 0), (3, 6, 2), (6, 9, 0)]):
        cluster.run(number, {PLACE: (first, past, [(first + i, event(i)) for i in range(rows)])})
    assert cluster.state.ranges == (("events/0", 0, 9),)
    assert cluster.state.model.n_events == 2
    cluster.run(
        4, {PLACE: (9, 10, []), Partition("events", 1): (0, 1, [(0, event(0))])}
    )  # a partition was added
    assert cluster.state.ranges == (("events/0", 0, 10), ("events/1", 0, 1))


def test_full_states_take_the_place_of_deltas_and_can_be_loaded(tmp_path):
    cluster = Cluster(tmp_path)
    for number in range(8):
        cluster.run(number, of_one(5 * number, 5 * number + 5))
        cluster.deltas.save(cluster.state)
    names = Counter(path.name.partition("-")[0] for path in tmp_path.iterdir())
    assert names == {"snapshot": 3, "delta": 2}
    (tmp_path / f"delta-{8:020d}.snb.{7:016x}.tmp").touch()  # of a driver that was killed while it wrote
    cluster.deltas.save(cluster.state)
    assert not list(tmp_path.glob("*.tmp"))
    before = digest(cluster.state)
    loaded = streamnb.load(tmp_path)
    assert loaded.digest() == before[0]
    newest = max(tmp_path.glob("snapshot-*"))
    newest.write_bytes(newest.read_bytes()[:-1])
    cluster.start()  # the one before, and what came since
    assert digest(cluster.state) == before
    for path in tmp_path.glob("snapshot-*"):
        path.unlink()
    with pytest.raises(JournalError, match="deltas or a checkpoint, and no full state"):
        cluster.start()


def test_a_replica_follows_and_goes_back_where_a_batch_comes_again(tmp_path):
    cluster, states = Cluster(tmp_path), {}
    for number in range(3):
        cluster.run(number, of_one(5 * number, 5 * number + 5))
        states[number + 1] = digest(cluster.state)
    for number in (1, 3, 2, 2, 3):
        assert digest(part_module.replica(str(tmp_path), number)) == states[number]
    with pytest.raises(SnapshotError, match=r"delta-0*3"):
        part_module.replica(str(tmp_path), 4)
    with pytest.raises(SnapshotError, match="do all workers see this folder"):
        part_module.replica(str(tmp_path / "none"), 1)


def test_labels_beyond_the_limit_become_dead_letters(tmp_path, monkeypatch):
    monkeypatch.setattr(part_module, "_MOST_AT_ONCE", 3)
    cluster = Cluster(tmp_path, configured("classes.max=4"))
    rows = [(i, event(i, f"label-{i % 10}")) for i in range(30)]
    cluster.run(0, {PLACE: (0, 30, rows)})
    cluster.run(1, {PLACE: (30, 31, [(30, event(30, "another"))])})
    assert sorted(cluster.state.model.classes) == [f"label-{i}" for i in range(4)]
    assert cluster.refused == 19
    letter = next(row for row in cluster.outputs if row["topic"] == "dead-letters")
    told = {one["key"]: one["value"] for one in letter["headers"]}
    assert (told["reason"], told["offset"]) == (b"too-many-classes", b"4")


def test_smoothing_may_change_between_starts_and_attributes_may_not(tmp_path):
    cluster = Cluster(tmp_path)
    cluster.run(0, of_one(0, 5))
    cluster.config = configured("model.alpha=0.5")
    cluster.start()
    cluster.run(0, of_one(0, 5))
    cluster.run(1, of_one(5, 8))
    cluster.start()
    assert cluster.state.model.alpha == 0.5
    same(counted(cluster.state.model), recount([event(i) for i in range(8)]))
    for other, named in (
        (("model.name=other",), "model.name was"),
        (("events.label=$.other",), "events.label was"),
        (("model.event_model=bernoulli",), "model.event_model was"),
    ):
        cluster.config = configured("model.alpha=0.5", *other)
        with pytest.raises(OtherStream, match=named):
            cluster.start()


def test_a_folder_of_another_stream_or_of_a_learner_is_refused(tmp_path):
    cluster = Cluster(tmp_path / "mine")
    with pytest.raises(OtherStream, match="topic events was recreated, or is another cluster's"):
        cluster.deltas.begin(configured(), {"events": "id-2"})
    state = cluster.state
    learners = factories.snapshots(configured(f"snapshots.folder={tmp_path / 'learner'}"))
    from streamnb.engine.journal.checkpoint import snapshot_of

    learners.save(snapshot_of(state.checkpoint, state.learner.parts(), factories.identity(configured())))
    with pytest.raises(SnapshotError, match=r"is a learner's: set snapshots\.folder"):
        Deltas(tmp_path / "learner").begin(configured(), IDS)


def test_two_drivers_do_not_share_a_folder(tmp_path):
    with (
        Deltas(tmp_path).held(),
        pytest.raises(JournalError, match="held by another driver, process"),
        Deltas(tmp_path).held(),
    ):
        pass
    with Deltas(tmp_path).held():
        pass


@pytest.mark.parametrize(
    ("sets", "key"),
    [
        *IN_ORDER,
        (["drift.detectors=ddm"], "drift.detectors"),
        (["predictions.evidence=2"], "predictions.evidence"),
        (["predictions.by=scorers"], "predictions.by"),
        (["log.url=sqlite:///a.db"], "log.url"),
    ],
)
def test_what_hangs_on_order_is_refused_by_name(sets, key):
    refuse_unfit(configured())
    with pytest.raises(ConfigError, match=rf"^{key} does not go .*`streamnb score`.*tenants"):
        refuse_unfit(configured(*sets))


def test_what_spark_planned_is_read_and_nothing_else(tmp_path):
    (tmp_path / "offsets").mkdir()
    (tmp_path / "sources" / "0").mkdir(parents=True)
    (tmp_path / "sources/0/0").write_text('\0v1\n{"events":{"0":4,"1":0}}')
    (tmp_path / "offsets/0").write_text('v1\n{"batchTimestampMs":1500}\n{"events":{"0":9,"1":0}}')
    (tmp_path / "offsets/1").write_text('v1\n{"batchTimestampMs":2500}\n{"events":{"0":9,"1":3,"2":1}}')
    assert planned(tmp_path, 0) == (1.5, {PLACE: (4, 9), Partition("events", 1): (0, 0)})
    places = planned(tmp_path, 1)[1]
    assert ranges_of(places) == (("events/1", 0, 3), ("events/2", 0, 1))
    for text in (
        "",
        "v1",
        "v2\n{}\n{}",
        'v1\n{"batchTimestampMs":1}\n{"events":{"0":-1}}',
        "v1\n{}\n{}",
        "\xff\n[]\n[]",
    ):
        (tmp_path / "offsets/1").write_text(text)
        with pytest.raises(JournalError, match="offsets/1"):
            planned(tmp_path, 1)
    shutil.rmtree(tmp_path / "offsets")
    with pytest.raises(JournalError, match="offsets/0 cannot be read"):
        planned(tmp_path, 0)
