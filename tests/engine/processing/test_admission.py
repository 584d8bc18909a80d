"""A budget of memory is kept, and what is forgotten for it is a function of the events: of no cut, no restart."""

from __future__ import annotations

import json
import random
from contextlib import closing
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from streamnb import BayesOptimalNB, NaiveBayes
from streamnb.engine.processing.admission import Admission
from streamnb.engine.sensor import Sensor
from streamnb.events import TOO_MANY_CLASSES, UNPUBLISHED
from streamnb.features.vocabulary import Vocabulary
from streamnb.formats.codec import decode_prediction
from streamnb.models.mixture.hypotheses import Hypothesis
from streamnb.models.naive_bayes import sufficient_statistics
from streamnb.models.softmax import feature_table
from streamnb.models.softmax.feature_table import FeatureTable
from streamnb.persistence.snapshot_folder import SnapshotFolder
from streamnb.runtime.worker_context import CommitPolicy
from streamnb.statistics.memory_budget import MemoryBudget, MemoryComponent, MemoryUse, of_features
from tests.support.late import late_learner, look_for_room_often, random_stream
from tests.support.service import TOPICS, digests, new_learner, new_worker, predictions, produce, records
from tests.verification.recount.test_label_recount import differing

pytestmark = pytest.mark.early(42)

FEW = settings(max_examples=8)  # each is several lives
SEEDS = st.integers(0, 10**6).map(random.Random)
MODELS = {
    "naive_bayes": lambda: NaiveBayes({"text": "text", "subject": "text"}),
    "bernoulli": lambda: NaiveBayes({"text": "text"}, event_model="bernoulli"),
    "half-life": lambda: BayesOptimalNB(
        {"text": "text"}, [Hypothesis(half_life=1e4), Hypothesis("bernoulli")]
    ),
    "mixture": lambda: BayesOptimalNB({"text": "text"}, memory=30_000),
}


@pytest.fixture(autouse=True)
def looks_often(monkeypatch):
    look_for_room_often(monkeypatch)


def bounded(name, n_bytes=12_000, attributes=8):
    """A model with room for some hundred words, and for so many attributes."""
    model = MODELS[name]()
    tables = model._budget(n_bytes).tables
    model.statistics.room = MemoryBudget(n_bytes, attributes * (128 << 10), tables)
    return model


def crowded(rng, n=300, labels=12):
    """Events with more words, values, attributes and labels than there is room for, some of each again and again."""
    made = []
    for i in range(n):
        words = [f"w{int(rng.paretovariate(0.4)) % 10**6}" for _ in range(rng.randrange(25))]
        words += [f"{rng.randrange(50)}-{rng.randrange(50)}".replace("-", "x" * 20)] * (rng.random() < 0.3)
        features = {f"n{rng.randrange(12)}": f"v{rng.randrange(200)}", f"f{rng.randrange(12)}": rng.random()}
        label = f"l{min(int(rng.paretovariate(0.5)), labels)}" if rng.random() < 0.9 else None
        event = {"id": str(i), "ts": 1000.0 + i, "text": " ".join(words), "label": label}
        made.append(json.dumps(event | ({"features": features} if rng.random() < 0.5 else {})).encode())
    return made


def learned_in_cuts(learner, left, rng):
    outputs = []
    while left:
        part, left = left[: (cut := rng.choice([1, 5, 40]))], left[cut:]
        outputs += learner.process(part, 1.0)
    return predictions(outputs)


@FEW
@given(rng=SEEDS, name=st.sampled_from(sorted(MODELS)))
def test_neither_cuts_nor_a_restart_decide_what_is_forgotten_and_a_recount_forgets_it_too(rng, name):
    stream = records(crowded(rng))
    whole, cut, again = (
        new_learner(model=bounded(name), max_classes=9, report_seconds=1e9) for _ in range(3)
    )
    with patch.object(sufficient_statistics, "_SLICE", 1 << 30):
        expected = predictions(whole.process(stream, 1.0))
    assert whole.model.n_prunings > 3
    assert whole.tally.dead_letters[TOO_MANY_CLASSES] > 0
    half = rng.randrange(300)
    with patch.object(sufficient_statistics, "_SLICE", rng.choice([1, 1000])):  # bytes: a row, or a few
        found = learned_in_cuts(cut, stream[:half], rng)
        again.load(cut.parts())
        assert found + learned_in_cuts(again, stream[half:], rng) == expected
    assert digests(again) == digests(whole)
    if name != "bernoulli":  # told as the stream's models are
        late = late_learner(bounded(name), max_classes=9)
        assert differing(late, stream) == []


@pytest.mark.thorough
@settings(max_examples=20)
@example(rng=random.Random(3), name="naive_bayes")  # a new label that is refused holds no room afterwards
@given(rng=SEEDS, name=st.sampled_from(["naive_bayes", "mixture"]))
def test_so_it_is_where_labels_come_late_are_changed_and_taken_back(rng, name):
    stream = random_stream(rng, 80, 200, classes="rstuvwxyz").records
    n_bytes = rng.choice([1500, 4000])
    learners = [late_learner(bounded(name, n_bytes), max_classes=6, repeats="skip") for _ in range(2)]
    assert differing(learners[0], stream) == []
    with patch.object(sufficient_statistics, "_SLICE", rng.choice([1, 1000, 1 << 30])):
        learned_in_cuts(learners[1], stream, rng)
    assert learners[0].model.n_prunings > 0
    assert digests(learners[0]) == digests(learners[1])


@pytest.mark.thorough
@FEW
@given(rng=SEEDS, memory=st.sampled_from([6000, 15_000, 60_000]), labels=st.integers(2, 6))
def test_so_it_is_where_there_is_room_for_words_and_not_for_their_features(rng, memory, labels):
    stream, made = records(crowded(rng, 400, labels)), []

    def learner():
        model = BayesOptimalNB({"text": "text"}, memory=memory)
        model.statistics.room = MemoryBudget(4_000_000, 32 * (128 << 10), model._budget(4_000_000).tables)
        made.append(new_learner(model=model, report_seconds=1e9))
        return made[-1]

    with patch.object(FeatureTable, "_lay_out", autospec=True, side_effect=FeatureTable._lay_out) as laid_out:
        learner().process(stream, 1.0)
    assert laid_out.call_count > 3
    with patch.object(feature_table, "_SLICE", rng.choice([8, 200])):
        learned_in_cuts(learner(), stream, rng)
        one = learner()
        for record in stream:
            one.process([record], 1.0)
    assert one.model.n_prunings == 0
    assert digests(made[0]) == digests(made[1]) == digests(made[2])


@FEW
@given(rng=SEEDS, labels=st.integers(2, 6))
def test_so_it_is_where_a_third_label_folds_the_table_of_runs(rng, labels):
    """And where all else has room for all of them."""
    stream, made = records(growing(rng, labels)), []

    def learner():
        model = BayesOptimalNB({"text": "text"})
        model.keep_within(4 << 20)
        model._learners.grams.keep_within(24 << 8, by_two=True)
        made.append(new_learner(model=model, report_seconds=1e9))
        return made[-1]

    def bits():
        return made[-1].model._learners.grams.bits

    learner().process(stream, 1.0)
    folded = bits()
    for cut in (rng.choice([3, 17, 60]), 1):
        one, most = learner(), bits()
        for start in range(0, len(stream), cut):
            one.process(stream[start : start + cut], 1.0)
        assert bits() == folded == most - (len(one.model.classes) > 2)
    assert digests(made[0]) == digests(made[1]) == digests(made[2])


def growing(rng, labels):
    """Events of which the first have two labels, with the others from somewhere on."""
    since = rng.randrange(150)
    return [
        json.dumps(
            {"id": f"{i}", "label": f"l{min(int(rng.paretovariate(0.7)), labels if i > since else 2)}"}
            | ({"text": " ".join(f"{rng.randrange(400)}" for _ in range(12))} if rng.random() < 0.9 else {})
        ).encode()
        for i in range(200)
    ]


def test_what_is_forgotten_is_moved_in_slices_while_the_stream_goes_on(monkeypatch):
    """None is longer than it is to be; and who begins with a snapshot from between two of them goes on as any."""
    stream, moved, between = records(crowded(random.Random(4), 3000, 3)), [], 0
    whole, learner, loaded = (new_learner(model=bounded("naive_bayes", 200_000)) for _ in range(3))
    whole.process(stream, 1.0)
    sweep = Vocabulary.compact

    def noted(vocabulary, rows):
        slice_ = sweep(vocabulary, rows)
        moved.append(slice_[0].size)
        return slice_

    monkeypatch.setattr(sufficient_statistics, "_SLICE", 20_000)
    monkeypatch.setattr(Vocabulary, "compact", noted)
    for start in range(0, len(stream), 4):
        learner.process(stream[start : start + 4], 1.0)
        between += learner.model._statistics.vocabulary.holes > 0
        if between == 20 and learner is not loaded:
            most = max(moved)
            loaded.load(learner.parts())
            learner = loaded
    assert between > 40
    assert 10 < most <= 20_000 // 48
    assert digests(whole) == digests(learner)


@pytest.mark.parametrize("name", sorted(MODELS))
def test_no_table_takes_more_than_its_share_at_any_moment(name):
    """Whether words come, long ones, attributes, or labels that make every row wider."""
    budget, rng = 2 << 20, random.Random(1)
    model = MODELS[name]()
    model.keep_within(budget)
    learner = new_learner(model=model)
    many = [
        json.dumps(
            {"id": str(i), "text": " ".join(f"{rng.random()}" for _ in range(60)), "label": f"l{i // 4}"}
            | {"features": {f"f{i}": rng.random(), f"n{i}": f"v{rng.random()}"}}
        ).encode()
        for i in range(1600)
    ]
    share = model.statistics.room.n_bytes
    for start in range(0, len(many), 50):
        learner.process(records(many[start : start + 50]), 1.0)
        statistics = model.statistics
        assert statistics.vocabulary.size <= statistics.room.rows(len(statistics.classes))
        tables = [statistics.counts.table]
        tables += [statistics.presence.counts.table] if statistics.presence else []
        taken = sum(len(table) * table.strides[0] for table in tables) + statistics.vocabulary.cells.nbytes
        assert taken <= share
        assert int(statistics.vocabulary.used[0]) <= statistics.room.long_bytes
        assert len(statistics.layout.fields) <= budget >> 17
    assert model.n_bytes < budget
    assert model.n_prunings > 5


def arrays_in(held, seen):
    """Every array that something holds: data pointer -> bytes, whoever counts it."""
    if id(held) in seen or isinstance(held, (str, bytes, int, float, type)):
        return {}
    seen.add(id(held))
    if isinstance(held, np.ndarray):
        return {held.ctypes.data: held.nbytes}
    inside = held.values() if isinstance(held, dict) else held if isinstance(held, (list, tuple)) else ()
    found = {}
    for one in [*inside, *vars(held).values()] if hasattr(held, "__dict__") else inside:
        found |= arrays_in(one, seen)
    return found


@pytest.mark.parametrize("name", sorted(MODELS))
def test_no_part_is_left_out_of_what_is_counted(name, tmp_path):
    """All arrays that a model holds, found without its help, are told by part and together, and in the budget."""
    budget, rng, aside = 4 << 20, random.Random(2), SnapshotFolder(tmp_path).aside
    memory = of_features(budget)
    model = MODELS[name]() if name != "mixture" else BayesOptimalNB({"text": "text"}, memory=memory)
    model.keep_within(budget)
    learner, most = new_learner(model=model), 0
    for start in range(0, 4000, 500):
        events = [
            {"id": f"{i}", "text": " ".join(f"{rng.random():.9}" for _ in range(40)), "label": "ab"[i % 2]}
            for i in range(start, start + 500)
        ]
        learner.process(records([json.dumps(event).encode() for event in events]), 1.0)
        held = sum(arrays_in(model, set()).values())
        assert held < model.n_bytes + (16 << 10)
        copied = sum(
            array.nbytes
            for array in learner.model.copying(aside).state()[1].values()
            if isinstance(array, np.ndarray)
        )
        assert held + copied < budget, "and with it what a snapshot is written from"
        use = learner.memory_use
        most = max(most, *(part.share for part in use.parts.values()))
        assert all(part.share <= 8 / 7 for part in use.parts.values())
    assert 0.9 * held < sum(part.taken for part in use.parts.values()) * 2
    assert most > 0.8
    assert use.weight == use.words > 100  # each was met once


def test_new_labels_are_looked_for_among_few_events_at_a_time(monkeypatch):
    """Where pieces of a batch are one event long, the whole of it is not gone through for each of them."""
    looked, labels_of_all = [], Admission.labels_of_all

    def counted(admission, batch):
        looked.append(len(batch))
        return labels_of_all(admission, batch)

    monkeypatch.setattr(Admission, "labels_of_all", counted)
    learner = new_learner(model=bounded("naive_bayes", 1 << 20, attributes=1), max_classes=400)
    stream = [{"id": f"{i}", "text": f"w{i}", "label": f"l{i}"} for i in range(900)]
    learner.process(records([json.dumps(event).encode() for event in stream]), 1.0)
    assert learner.tally.dead_letters[TOO_MANY_CLASSES] > 400
    assert sum(looked) < 2 * 16 * 900 + 2 * 900


def test_one_event_brings_no_more_than_there_is_room_for():
    """Half a megabyte of words, short and long ones; what had no room is passed over, and unlearned all the same."""
    model = MODELS["naive_bayes"]()
    model.keep_within(1 << 20)
    statistics = model.statistics
    texts = [
        " ".join(f"{kind}{i}" for i in range(30_000)) for kind in ("w", "a-long-word-".replace("-", "x"))
    ]
    learner = new_learner(model=model)
    learner.process(
        records([json.dumps({"id": "e", "text": text, "label": "a"}).encode() for text in texts]), 1.0
    )
    assert learner.model.n_events == 2
    assert statistics.vocabulary.size == statistics.room.rows(1)
    again = MODELS["naive_bayes"]()
    again.keep_within(1 << 20)
    learner = new_learner(model=again)
    learner.process(records([json.dumps({"id": "e", "text": texts[1], "label": "a"}).encode()]), 1.0)
    long_bytes = int(again.statistics.vocabulary.used[0])
    assert 0.99 * again.statistics.room.long_bytes < long_bytes <= again.statistics.room.long_bytes
    again.unlearn_many([{"text": texts[1]}], ["a"])
    assert again.n_attributes == 0


def test_it_is_told_once_and_long_before_that_a_part_is_full(open_log, tmp_path, monkeypatch):
    monkeypatch.setattr("streamnb.runtime.worker._LOOK_SECONDS", 0.0)
    told, model = [], bounded("naive_bayes", 1 << 20)
    most = model.statistics.room.rows(2)
    sensor = type(
        "Heard", (Sensor,), {"noted": lambda _, text: told.append((text, model.statistics.memory_use))}
    )()
    raws = [
        json.dumps({"id": f"{i}", "text": " ".join(f"w{i}x{j}" for j in range(20)), "label": "ab"[i % 2]})
        for i in range(most // 20)
    ]
    produce(open_log(**TOPICS), [raw.encode() for raw in raws])
    with closing(
        new_worker(
            open_log(),
            tmp_path,
            learner=new_learner(model=model),
            sensor=sensor,
            pace=CommitPolicy(commit_events=20),
        )
    ) as worker:
        worker.start("test")
        worker.run(until_end=True)
        worker._memory.warn_if_short(MemoryUse({"features": MemoryComponent(1140, 1000)}))
        assert (
            "take 114% of their 0.0 MB; beyond that the lightest are forgotten; memory.budget"
            in told.pop()[0]
        )
        worker._memory.warn_if_short(MemoryUse({"waiting": MemoryComponent(900, 1000)}))
    assert told[-1][0].startswith("labels.memory: waiting take 90%")
    assert told[-1][0].endswith("; labels.memory may be raised, up to an eighth of memory.budget")
    [(line, use)] = [one for one in told if one[0].startswith("memory.budget: words take 8")]
    assert use.words == 0
    assert 0.8 < use.parts["words"].share < 0.9
    assert "beyond that the rarest are forgotten, at this pace in about" in line


def labelled(n, name="label {} " + "é" * 300):
    return [
        json.dumps({"id": f"e{i}", "text": f"w{i % 7}", "label": name.format(i % 50)}).encode()
        for i in range(n)
    ]


def test_a_prediction_tells_the_most_probable_labels_and_what_is_left():
    whole, least = new_learner(), new_learner(top=3)
    for one, other in zip(
        predictions(whole.process(records(labelled(120)), 1.0)),
        predictions(least.process(records(labelled(120)), 1.0)),
        strict=True,
    ):
        ranked = sorted(one["probabilities"].values(), reverse=True)
        assert list(other["probabilities"]) == [
            k for k in one["probabilities"] if k in other["probabilities"]
        ]
        assert sorted(other["probabilities"].values(), reverse=True) == ranked[:3]
        assert other["rest"] == (pytest.approx(sum(ranked[3:]), abs=1e-13) if len(ranked) > 3 else None)
        assert {**other, "probabilities": 0, "rest": 0} == {**one, "probabilities": 0, "rest": 0}


@pytest.mark.parametrize("limit", [3000, 9000])
def test_a_prediction_that_would_be_too_large_tells_as_many_labels_as_fit(limit):
    whole, fitting = new_learner(), new_learner(top=1000, max_bytes=limit)
    outputs = fitting.process(records(labelled(120)), 1.0)
    assert fitting.tally.dead_letters[UNPUBLISHED] == 0
    told = [output for output in outputs if output.topic == "predictions"]
    expected = predictions(whole.process(records(labelled(120)), 1.0))
    assert all(len(output.key) + len(output.value) <= limit for output in told)
    for output, one in zip(told, expected, strict=True):
        prediction = decode_prediction(output.value)
        assert prediction.probabilities.items() <= one["probabilities"].items()
        assert prediction.label == one["label"]
        assert sum(prediction.probabilities.values()) + (prediction.rest or 0.0) == pytest.approx(
            1.0 * bool(one["label"])
        )
        left_out = [p for k, p in one["probabilities"].items() if k not in prediction.probabilities]
        assert max(left_out, default=0.0) <= min(prediction.probabilities.values(), default=1.0)
    assert len(decode_prediction(told[-1].value).probabilities) > limit // 700 - 3


def test_a_label_too_many_is_a_dead_letter_that_says_what_helps():
    learner = new_learner(max_classes=50)
    outputs = learner.process(records([*labelled(60), *labelled(3, "other {}")]), 1.0)
    letters = [dict(output.headers) for output in outputs if output.topic == "dead-letters"]
    assert [(letter["reason"], letter["path"]) for letter in letters] == [
        (b"too-many-classes", b"$.label")
    ] * 3
    assert b"raise classes.max" in letters[0]["remedy"]
    assert b"there are 50 labels" in letters[0]["remedy"]
    assert learner.model.n_events == 60
