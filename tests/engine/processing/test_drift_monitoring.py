"""Drift detectors: River's own reports, kept exactly, published once, and changing nothing else."""

from __future__ import annotations

import json
import random
from functools import cache

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from river import drift as river_drift

from streamnb.config import load, semantic_config_of
from streamnb.engine.journal.journal_entries import roll_back
from streamnb.engine.journal.recovery import recover
from streamnb.engine.journal.snapshot_store import NoSnapshots
from streamnb.engine.sensor import Sensor
from streamnb.engine.settings import Pruning
from streamnb.errors import JournalError, MalformedEvent, SnapshotError
from streamnb.events import DETECTORS, Drift, ModelInfo
from streamnb.formats import snapshot_container
from streamnb.formats.codec import decode_metrics, encode_metrics
from streamnb.formats.snapshot_container import SnapshotPart, part_digest
from streamnb.runtime import factories
from streamnb.runtime.worker_context import CommitPolicy
from streamnb.scoring.drift_detectors import HORIZON, RECENT, DriftDetectors
from tests.support import commands
from tests.support.service import (
    TOPICS,
    digests,
    kill,
    many,
    new_learner,
    new_worker,
    predictions,
    produce,
    read_topic,
    records,
)

pytestmark = [pytest.mark.thorough, pytest.mark.early(17)]

RIVER = {
    "adwin": river_drift.ADWIN,
    "page_hinkley": river_drift.PageHinkley,
    "ddm": river_drift.binary.DDM,
    "eddm": river_drift.binary.EDDM,
    "hddm_a": river_drift.binary.HDDMA,
    "hddm_w": river_drift.binary.HDDMW,
    "fhddm": river_drift.binary.FHDDM,
}
RATES = st.lists(
    st.tuples(st.integers(0, 400), st.sampled_from([0.0, 0.02, 0.1, 0.5, 0.9, 1.0])), min_size=1, max_size=6
)
NEVER = 1e300  # seconds


def errors(rates, seed=0):
    """Zeros and ones: so many of each rate, one after the other."""
    rng = random.Random(seed)
    return [int(rng.random() < rate) for n, rate in rates for _ in range(n)]


def undisturbed(name, wrong):
    """Where a detector of River's that is told everything finds a drift."""
    detector, found = RIVER[name](), []
    for i, one in enumerate(wrong):
        detector.update(1 - one if name == "fhddm" else one)
        if detector.drift_detected:
            found.append(i)
    return found


def found_by(detectors, wrong):
    """(where, what) of everything that detectors find."""
    return [(i, detection) for i, one in enumerate(wrong) for detection in detectors.observe(one)]


def copied(detectors):
    """What comes back out of a snapshot."""
    part = SnapshotPart(*detectors.state())
    whole = snapshot_container.Snapshot(0, "00", {}, "c0ffee", {}, {"drift": part})
    return DriftDetectors.from_state(
        *snapshot_container.decode(snapshot_container.encode(whole)).parts["drift"]
    )


# The detectors


@pytest.mark.parametrize("name", DETECTORS)
@given(rates=RATES, seed=st.integers(0, 99))
def test_what_is_found_is_what_rivers_detector_finds_left_to_itself(name, rates, seed):
    wrong = errors(rates, seed)
    found = found_by(DriftDetectors([name]), wrong)
    expected = undisturbed(name, wrong)
    assert [i for i, _ in found] == expected
    for (i, detection), before in zip(found, [-1, *expected], strict=False):
        since = wrong[before + 1 : i + 1]
        recent = since[-RECENT:]
        assert detection == (name, len(since), sum(since) / len(since), sum(recent) / len(recent))


def test_many_detectors_find_what_each_finds_alone():
    wrong = errors([(500, 0.02), (500, 0.5), (500, 0.02), (500, 0.8)])
    together = found_by(DriftDetectors(DETECTORS[::-1]), wrong)
    alone = [found for name in DETECTORS for found in found_by(DriftDetectors([name]), wrong)]
    assert together == sorted(alone, key=lambda found: (found[0], DETECTORS.index(found[1].detector)))
    assert {detection.detector for _, detection in together} == set(DETECTORS)


@pytest.mark.parametrize("name", DETECTORS)
def test_more_errors_are_a_drift(name):
    """FHDDM, told as its authors tell it, too."""
    found = [i for i, _ in found_by(DriftDetectors([name]), errors([(1000, 0.05), (400, 0.7)], 1))]
    assert any(1000 <= i < 1400 for i in found)


@pytest.mark.parametrize(("name", "reports"), [("adwin", 1), ("page_hinkley", 1), ("ddm", 0), ("fhddm", 0)])
def test_who_reports_fewer_errors_and_who_does_not(name, reports):
    found = found_by(DriftDetectors([name]), errors([(1000, 0.9), (400, 0.05)], 1))
    assert sum(i >= 1000 for i, _ in found) == reports


SMALL = 256


@pytest.mark.parametrize("name", DETECTORS)
@settings(max_examples=25)
@given(rates=RATES, seed=st.integers(0, 99), cuts=st.lists(st.integers(0, 1500), max_size=4))
def test_restored_detectors_go_on_as_if_nothing_had_been(name, rates, seed, cuts):
    wrong = errors(rates, seed)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("streamnb.scoring.drift_detectors.HORIZON", SMALL)
        whole, parts = DriftDetectors([name]), DriftDetectors([name])
        expected, got, start = found_by(whole, wrong), [], 0
        for cut in [*sorted(min(cut, len(wrong)) for cut in cuts), len(wrong)]:
            got += [(start + i, detection) for i, detection in found_by(parts, wrong[start:cut])]
            parts, start = copied(parts), cut
        assert got == expected
    assert part_digest(*whole.state()) == part_digest(*parts.state())


@pytest.mark.parametrize("name", ["adwin", "ddm"])
def test_beyond_the_horizon_the_newer_half_counts(name):
    """The true horizon: a quiet stream more than twice as long, then a drift."""
    quiet = [int(i % 20 == 0) for i in range(2 * HORIZON + 17)]
    detectors = DriftDetectors([name])
    most = 0
    for i, one in enumerate(quiet, 1):
        assert not list(detectors.observe(one))
        if i % 1024 == 0 or HORIZON - 2 < i < HORIZON + 2:
            most = max(most, detectors.state()[0]["observations"][name])
    kept = HORIZON // 2 + 17  # halved at 1, 1.5 and 2 times the horizon
    assert detectors.state()[0]["observations"] == {name: kept}
    assert most == HORIZON - 1
    assert detectors.state()[1][name].nbytes <= HORIZON // 8
    after = errors([(300, 0.8)])
    first = undisturbed(name, quiet[-kept:] + after)[0]
    ((i, detection), *_) = found_by(detectors, after)
    assert (i + kept, detection.observations) == (first, first + 1)
    assert detection.error_rate == sum(quiet[-kept:] + after[: i + 1]) / (first + 1)


def test_what_is_found_while_the_newer_half_is_told_again_is_not_reported(monkeypatch):
    """A short memory makes DDM's lowest rate of errors another one; that is no news."""
    monkeypatch.setattr("streamnb.scoring.drift_detectors.HORIZON", SMALL)
    detectors = DriftDetectors(["ddm"])
    silent, held = 0, 0
    for one in errors([(300, 0.02), (300, 0.02), (300, 0.52)] * 4):
        found = list(detectors.observe(one))
        before, held = held, detectors.state()[0]["observations"]["ddm"]
        assert held == 0 if found else (held == before + 1 or before == SMALL - 1)
        silent += before == SMALL - 1 and held < SMALL // 2 and not found
    assert silent > 0


def test_names_are_known_and_in_one_order():
    assert DriftDetectors(["fhddm", "adwin"]).names == ("adwin", "fhddm")
    assert DriftDetectors().names == ()
    with pytest.raises(ValueError, match="unknown detector 'kswin'; expected some of adwin, page_hinkley"):
        DriftDetectors(["adwin", "kswin"])


def bits(*values, dtype=np.uint8):
    return np.array(values, dtype=dtype)


@pytest.mark.parametrize(
    ("meta", "arrays", "says"),
    [
        ({}, {}, "do not fit"),
        ({"observations": {"ddm": 1}}, {}, "do not fit"),
        ({"observations": {}}, {"ddm": bits()}, "do not fit"),
        ({"observations": {"kswin": 0}}, {"kswin": bits()}, "unknown detector 'kswin'"),
        (
            {"observations": {"ddm": HORIZON}},
            {"ddm": np.zeros(HORIZON // 8, np.uint8)},
            "cannot have",
        ),
        ({"observations": {"ddm": -1}}, {"ddm": bits()}, "cannot have -1"),
        ({"observations": {"ddm": 1.0}}, {"ddm": bits(0)}, "cannot have 1.0"),
        ({"observations": {"ddm": True}}, {"ddm": bits(0)}, "cannot have True"),
        ({"observations": {"ddm": 9}}, {"ddm": bits(0)}, r"has 9 observations, but found uint8\(1,\)"),
        ({"observations": {"ddm": 8}}, {"ddm": bits(0, 0)}, r"has 8 observations, but found uint8\(2,\)"),
        ({"observations": {"ddm": 8}}, {"ddm": bits(0, dtype=np.int8)}, "found int8"),
        ({"observations": {"ddm": 7}}, {"ddm": bits(1)}, "something behind them"),
    ],
)
def test_a_state_that_does_not_fit_together_is_refused(meta, arrays, says):
    with pytest.raises(SnapshotError, match=says):
        DriftDetectors.from_state(meta, arrays)
    learner = new_learner()
    with pytest.raises(SnapshotError, match=says):
        learner.load({**learner.parts(), "drift": SnapshotPart(meta, arrays)})


# The record


DRIFT = Drift("ddm", "m-17", 1200, 1024, 0.0625, 0.25, ModelInfo("default", 1189), 1.5)


def test_a_drift_survives_the_wire_and_says_its_kind_first():
    raw = encode_metrics(DRIFT)
    assert decode_metrics(raw) == decode_metrics(raw[:-1] + b',"new":{}}') == DRIFT
    assert list(json.loads(raw)) == [
        "kind", "detector", "id", "events", "observations", "error_rate", "recent_error_rate", "model", "ts"
    ]  # fmt: skip
    with pytest.raises(ValueError, match="error_rate"):
        encode_metrics(msgspec.structs.replace(DRIFT, error_rate=float("nan")))


def test_a_record_without_a_kind_is_refused():
    raw = json.loads(encode_metrics(new_learner().report(1.0)))
    assert raw.pop("kind") == "report"
    with pytest.raises(MalformedEvent, match="kind"):
        decode_metrics(json.dumps(raw).encode())


@pytest.mark.parametrize(
    ("raw", "reason", "path"),
    [
        (encode_metrics(DRIFT).replace(b'"drift"', b'"later"'), "wrong-type", "$.kind"),
        (encode_metrics(DRIFT).replace(b'"drift"', b"7"), "wrong-type", "$.kind"),
        (encode_metrics(DRIFT).replace(b'"kind":"drift",', b""), "missing", "$.kind"),
        (encode_metrics(DRIFT).replace(b'"id":"m-17",', b""), "missing", "$.id"),
        (encode_metrics(DRIFT).replace(b"0.0625", b"1e999"), "out-of-range", "$.error_rate"),
        (b"[]", "wrong-type", "$"),
    ],
)
def test_what_is_neither_is_refused(raw, reason, path):
    with pytest.raises(MalformedEvent) as refused:
        decode_metrics(raw)
    assert (refused.value.reason, refused.value.path) == (reason, path)


# The learner


@cache
def flipping(n, every=200, seed=3):
    """Events whose words change sides now and then; some have no label, some records are no events."""
    rng, raws = random.Random(seed), []
    for i in range(n):
        label = rng.choice("ab")
        word = "x" if (label == "a") == (i // every % 2 == 0) else "y"
        event = {"id": f"e{i}", "text": f"{word} w{rng.randrange(30)}"}
        if rng.random() < 0.9:
            event["label"] = label
        raws.append(b"{" if rng.random() < 0.05 else json.dumps(event).encode())
    return raws


def drifts(outputs):
    found = [decode_metrics(output.value) for output in outputs if output.topic == "metrics"]
    return [drift for drift in found if isinstance(drift, Drift)]


def timeless(drift):
    return {name: value for name, value in msgspec.to_builtins(drift).items() if name != "ts"}


def expected_drifts(raws, said, names):
    """What is to be found, recounted from records and published predictions with River's own detectors."""
    watchers = {name: RIVER[name]() for name in DETECTORS if name in names}
    told = {name: [] for name in watchers}
    said, consumed, found = iter(said), 0, []
    for raw in raws:
        consumed += 1
        if raw == b"{":
            continue
        prediction = next(said)
        if prediction["truth"] is None or prediction["label"] is None:
            continue
        wrong = int(prediction["label"] != prediction["truth"])
        for name, watcher in watchers.items():
            told[name].append(wrong)
            watcher.update(1 - wrong if name == "fhddm" else wrong)
            if watcher.drift_detected:
                n, recent = len(told[name]), told[name][-RECENT:]
                rates = (sum(told[name]) / n, sum(recent) / len(recent))
                at = (prediction["id"], consumed, n, *rates, prediction["model"], 1.0)
                found.append(Drift(name, *at))
                told[name].clear()
    return found


def test_drifts_are_published_where_they_are_found():
    raws = flipping(1500)
    learner = new_learner(detectors=DETECTORS)
    outputs = learner.process(records(raws), 1.0)
    found = drifts(outputs)
    assert found == expected_drifts(raws, predictions(outputs), DETECTORS)
    assert {drift.detector for drift in found} == set(DETECTORS)
    assert sum(learner.tally.drifts.values()) == len(found)
    assert {drift.events - drift.model.events for drift in found} != {1}, "not all records were learned"
    # A drift follows the prediction of its event, and has the key of the reports.
    last = None
    for output in outputs:
        if output.topic == "predictions":
            last = json.loads(output.value)
        elif output.topic == "metrics" and isinstance(drift := decode_metrics(output.value), Drift):
            assert (drift.id, drift.model.events) == (last["id"], last["model"]["events"])
            assert output.key == b"default"


def test_an_empty_model_has_predicted_nothing():
    learner = new_learner(detectors=["ddm"])
    raws = [b'{"id":"%d","text":"x"}' % i for i in range(3)]
    learner.process(records([*raws, b'{"id":"3","text":"x","label":"a"}']), 1.0)
    assert learner.drift.state()[0] == {"observations": {"ddm": 0}}
    learner.process(
        records([b'{"id":"4","text":"x","label":"b"}', b'{"id":"5","text":"x","label":"b"}']), 1.0
    )
    meta, arrays = learner.drift.state()
    assert (meta, arrays["ddm"].tolist()) == ({"observations": {"ddm": 2}}, [0b11000000])


def never_reporting_by_time(options):
    learner = new_learner(detectors=DETECTORS, report_seconds=NEVER, **options)
    learner.reported_at = 0.0
    return learner


@pytest.fixture(
    scope="module",
    params=[
        {},
        pytest.param({"evidence": 2}, marks=pytest.mark.storm),
        {"report_every": 7},
        {"pruning": Pruning(every=40, min_count=2, max_attributes=20)},
    ],
    ids=["plain", "evidence", "reports", "pruning"],
)
def uncut(request):
    """Options, what a learner publishes that gets all at once, and its state."""
    whole = never_reporting_by_time(request.param)
    return request.param, whole.process(records(flipping(700, 100)), 1.0), digests(whole)


@settings(max_examples=8)
@given(cuts=st.lists(st.integers(1, 300), min_size=1, max_size=10))
def test_how_records_are_cut_is_unobservable(uncut, cuts):
    options, expected, state = uncut
    raws, parts = flipping(700, 100), never_reporting_by_time(options)
    got, start, i = [], 0, 0
    while start < len(raws):
        got += parts.process(records(raws)[start : start + cuts[i % len(cuts)]], 1.0)
        start, i = start + cuts[i % len(cuts)], i + 1
    assert len(drifts(expected)) > 5
    # Dead letters lie in a topic of their own; between the others not even the order is another.
    published = [[o for o in outputs if o.topic != "dead-letters"] for outputs in (expected, got)]
    assert published[0] == published[1]
    assert digests(parts) == state


def test_detectors_change_nothing_else():
    raws = flipping(1200)
    without, watched = new_learner(), new_learner(detectors=DETECTORS)
    plain, more = (learner.process(records(raws), 1.0) for learner in (without, watched))
    assert drifts(more)
    assert [o for o in more if o.topic != "metrics" or not drifts([o])] == plain
    ours, others = digests(watched), digests(without)
    assert ours.pop("drift")
    assert ours == others


def test_without_detectors_the_state_is_what_it_was():
    learner = new_learner()
    learner.process(records(flipping(100)), 1.0)
    assert set(learner.parts()) == {"model", "progressive", "learner"}
    again = new_learner()
    again.load(learner.parts())
    assert digests(again) == digests(learner)


def test_a_state_is_of_one_moment_while_the_learner_goes_on():
    raws = flipping(1000)
    learner, alone = (new_learner(detectors=DETECTORS) for _ in range(2))
    alone.process(records(raws[:500]), 1.0)
    learner.process(records(raws[:500]), 1.0)
    copy = learner.copying()
    for i in range(500, 1000, 100):
        learner.process(records(raws)[i : i + 100], 1.0)
        copy.advance(512)
    while not copy.advance(4096):
        pass
    restored = new_learner(detectors=DETECTORS)
    restored.load(copy.parts())
    assert digests(restored) == digests(alone) != digests(learner)
    rest = [r.process(records(raws)[500:], 1.0) for r in (restored, alone)]
    assert drifts(rest[0]) == drifts(rest[1]) != []
    assert digests(restored) == digests(alone) == digests(learner)


# The stream


def published_drifts(log):
    found = [decode_metrics(record.value) for record in read_topic(log, "metrics")]
    return [timeless(drift) for drift in found if isinstance(drift, Drift)]


def alone_with(raws, detectors=DETECTORS):
    learner = new_learner(detectors=detectors)
    return learner, [timeless(drift) for drift in drifts(learner.process(records(raws), 1.0))]


@pytest.mark.storm_for("kafka")
@pytest.mark.parametrize("size", [1000, 61])
def test_kill_and_restart_and_replay_give_the_same(open_log, tmp_path, size):
    """A learner dies in the midst twice; the next one goes on from its snapshots, or from the journal alone."""
    raws = flipping(1500)
    alone, expected = alone_with(raws)
    pace = CommitPolicy(commit_events=size, snapshot_events=100, snapshot_seconds=1e9)
    log = open_log(**TOPICS)
    for i, folder in enumerate(["a", "a", "b"]):
        produce(log, raws[i * 500 : i * 500 + 500])
        worker = new_worker(
            open_log(), tmp_path / folder, learner=new_learner(detectors=DETECTORS), pace=pace, store=many
        )
        worker.start(f"worker {i}")
        worker.run(until_end=True)
        if i < 2:
            kill(worker)
        else:
            worker.close()
    assert published_drifts(open_log()) == expected != []
    assert digests(worker.learner) == digests(alone)
    identity = worker.context.identity
    for snapshots in (many(tmp_path / "a"), many(tmp_path / "b"), NoSnapshots()):
        again = new_learner(detectors=DETECTORS)
        recover(open_log(), snapshots, again, identity)
        assert digests(again) == digests(alone)


class Watching(Sensor):
    def __init__(self):
        self.notes, self.commits = [], []

    def noted(self, text):
        self.notes.append(text)

    def committed(self, commit):
        self.commits.append(commit)


def test_a_sensor_hears_of_every_drift_that_is_published(open_log, tmp_path):
    produce(open_log(**TOPICS), flipping(600))
    sensor = Watching()
    worker = new_worker(
        open_log(), tmp_path / "s", learner=new_learner(detectors=DETECTORS), pace=CommitPolicy(commit_events=70),
        sensor=sensor,
    )  # fmt: skip
    worker.start("watched")
    worker.run(until_end=True)
    worker.close()
    found = published_drifts(open_log())
    for name in DETECTORS:
        told = sum(commit.tally.drifts.get(name, 0) for commit in sensor.commits)
        assert told == sum(drift["detector"] == name for drift in found)
    assert sum(sum(commit.tally.drifts.values()) for commit in sensor.commits) == len(found) > 0


def configured(*detectors):
    """A single model, which is slow to follow: the default one leaves detectors little to find."""
    return load(None, {}, ["model.kind=naive_bayes", f"drift.detectors={','.join(detectors)}"])


def learned(open_log, folder, config, raws, sensor=None, identity=None):
    produce(open_log(**TOPICS), raws)
    worker = new_worker(
        open_log(), folder, learner=factories.learner(config), identity=identity or factories.identity(config),
        pace=CommitPolicy(commit_events=50, snapshot_events=120, snapshot_seconds=1e9), store=many,
        sensor=sensor or Sensor(),
    )  # fmt: skip
    worker.start("test")
    worker.run(until_end=True)
    worker.close()
    return worker


CHANGES = [(), ("adwin", "ddm"), ("ddm", "fhddm"), ("fhddm",), ("ddm", "fhddm"), ()]
"""Detectors come, stay, go, and come back knowing nothing."""


@pytest.mark.storm_for("kafka")
def test_detectors_may_change_and_replay_knows_when(open_log, tmp_path):
    raws, folder, sensor = flipping(1200, 150), tmp_path / "s", Watching()
    alone, expected = factories.learner(configured()), []
    for i, names in enumerate(CHANGES):
        config, part = configured(*names), raws[i * 200 : i * 200 + 200]
        worker = learned(open_log, folder, config, part, sensor)
        alone.reconfigure(factories.settings(config), factories.model(config))
        expected += drifts(alone.process(records(part), 1.0))
        assert alone.drift.names == worker.learner.drift.names == names
        assert digests(worker.learner) == digests(alone)
    assert published_drifts(open_log()) == [timeless(drift) for drift in expected]
    assert {drift.detector for drift in expected} == {"adwin", "ddm", "fhddm"}
    assert sensor.notes[0] == 'the configuration was changed: drift.detectors: [] -> ["adwin","ddm"]'
    assert len(sensor.notes) == len(CHANGES) - 1
    kept = list(many(folder).list())
    log = open_log()
    for names in ((), ("ddm", "fhddm"), DETECTORS):  # whatever holds now, what held then was replayed
        config = configured(*names)
        again = factories.learner(config)
        recover(log, NoSnapshots(), again, factories.identity(config))
        assert again.drift.names == names
        again.reconfigure(alone.settings, factories.model(config))
        assert digests(again) == digests(alone)
        for entry in kept:
            at = factories.learner(config)
            straight = factories.learner(config)
            recover(log, many(folder), at, factories.identity(config), at=entry.n)
            recover(log, NoSnapshots(), straight, factories.identity(config), at=entry.n)
            assert digests(at) == digests(straight)


def test_what_a_changed_set_of_detectors_finds_is_recounted(open_log, tmp_path):
    """The same without `reconfigure`: each detector is River's, from the event at which it was added."""
    raws = flipping(1200, 150)
    for i, names in enumerate([("adwin",), ("adwin", "ddm"), ("ddm",)]):
        learned(open_log, tmp_path / "s", configured(*names), raws[i * 400 : i * 400 + 400])
    said = predictions(open_log())
    events = [raw != b"{" for raw in raws]
    spans = {"adwin": (0, 800), "ddm": (400, 1200)}
    expected = []
    for name, (start, stop) in spans.items():
        part = said[sum(events[:start]) : sum(events[:stop])]
        found = expected_drifts(raws[start:stop], part, [name])
        expected += [timeless(msgspec.structs.replace(d, events=d.events + start)) for d in found]
    expected.sort(key=lambda drift: (drift["events"], DETECTORS.index(drift["detector"])))
    assert published_drifts(open_log()) == expected
    assert {drift["detector"] for drift in expected} == set(spans)


def test_a_rollback_brings_back_what_detectors_knew_then(open_log, tmp_path):
    raws, folder, config = flipping(900, 150), tmp_path / "s", configured("adwin", "ddm")
    learned(open_log, folder, config, raws[:400])  # records 1 to 8
    later = configured("ddm", "hddm_w")
    learned(open_log, folder, later, raws[400:600])  # the change, then 10 to 13
    log, identity = open_log(), factories.identity(later)
    log.acquire("operator")
    end = recover(log, many(folder), factories.learner(later), identity)
    roll_back(log, end, 6, identity, 1_790_000_500.0)
    log.close()
    worker = learned(open_log, folder, later, raws[600:])
    alone = factories.learner(config)
    alone.process(records(raws[:300]), 1.0)
    alone.reconfigure(factories.settings(later), factories.model(later))
    expected = [timeless(drift) for drift in drifts(alone.process(records(raws[600:]), 1.0))]
    assert digests(worker.learner) == digests(alone)
    assert published_drifts(open_log())[-len(expected) :] == expected != []


class Older:
    """The configuration as a program had it that knew of no detectors."""

    def __init__(self, config):
        self.semantic_config = {
            name: held for name, held in semantic_config_of(config).items() if name != "drift"
        }

    def changes_since(self, before):
        assert before == self.semantic_config
        return []

    def apply(self, learner, shaping, *, counts_room=True):  # noqa: ARG002
        raise AssertionError("nothing was changed")


def test_a_journal_and_snapshots_of_before_there_were_detectors_go_on(open_log, tmp_path):
    raws, folder, sensor = flipping(600, 150), tmp_path / "s", Watching()
    identity = factories.identity(configured())
    older = type(identity)(
        identity.topics, identity.journal, "another", identity.fingerprint, Older(configured())
    )
    learned(open_log, folder, configured(), raws[:300], identity=older)
    assert all("drift" not in many(folder).load(entry.n).parts for entry in many(folder).list())
    config = configured("ddm")
    worker = learned(open_log, folder, config, raws[300:], sensor)
    assert sensor.notes == ['the configuration was changed: drift.detectors: [] -> ["ddm"]']
    alone = factories.learner(configured())
    alone.process(records(raws[:300]), 1.0)
    alone.reconfigure(factories.settings(config), factories.model(config))
    expected = drifts(alone.process(records(raws[300:]), 1.0))
    assert digests(worker.learner) == digests(alone)
    assert published_drifts(open_log()) == [timeless(drift) for drift in expected] != []


def test_a_detector_of_a_later_version_is_refused(open_log, tmp_path):
    folder, config = tmp_path / "s", configured()
    identity = factories.identity(config)
    later = Older(config)
    later.semantic_config["drift"] = {"detectors": ["better"]}
    known = type(identity)(identity.topics, identity.journal, "another", identity.fingerprint, later)
    learned(open_log, folder, config, flipping(100), identity=known)
    with pytest.raises(JournalError, match=r"of another version: .*better.*drift\.detectors"):
        learned(open_log, folder, config, [])


# The commands


def streamnb(folder, *arguments):
    done = commands.run(arguments, cwd=folder)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "events.jsonl"
    path.write_bytes(b"".join(raw + b"\n" for raw in flipping(1500)))
    return path


FLAGS = ("--set", "model.kind=naive_bayes", "--set", "drift.detectors=adwin,ddm,page_hinkley,hddm_w")


def test_evaluate_lists_drifts(file, tmp_path):
    alone = factories.learner(configured("adwin", "ddm", "page_hinkley", "hddm_w"))
    found = drifts(alone.process(records(flipping(1500)), 1.0))
    assert len(found) > 10
    answer = json.loads(streamnb(tmp_path, "evaluate", file, "--json", *FLAGS))
    shown = answer["drifts"]
    assert shown["found"] == len(found)
    assert shown["detectors"] == {
        name: sum(drift.detector == name for drift in found) for name in alone.drift.names
    }
    assert [(d["detector"], d["event"], d["id"]) for d in shown["first"]] == [
        (d.detector, d.events, d.id) for d in found[:10]
    ]
    text = streamnb(tmp_path, "evaluate", file, *FLAGS)
    assert f"{len(found)} drifts found: " in text
    rows = [line.split()[:3] for line in text.splitlines() if line.startswith(DETECTORS)]
    assert rows == [[d.detector, f"{d.events:,}", d.id] for d in found[:10]]
    assert "drifts" not in json.loads(streamnb(tmp_path, "evaluate", file, "--json"))
    assert "drift" not in streamnb(tmp_path, "evaluate", file)


def test_run_read_and_verify_live_with_drifts(file, tmp_path):
    log = ("--log", "sqlite:///log.db", *FLAGS)
    streamnb(tmp_path, "replay", file, *log)
    streamnb(tmp_path, "run", "--until-end", *log, "--set", "http.listen=", "--set", "commit.events=130")
    lines = [json.loads(line) for line in streamnb(tmp_path, "read", "metrics", *log).splitlines()]
    kinds = [line["kind"] for line in lines]
    answer = json.loads(streamnb(tmp_path, "evaluate", file, "--json", *FLAGS))
    assert kinds.count("drift") == answer["drifts"]["found"] > 0
    assert kinds.count("report") == len(kinds) - kinds.count("drift") > 0
    assert json.loads(streamnb(tmp_path, "verify", "--json", *log))["verified"]
