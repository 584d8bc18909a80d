"""Mondrian forests among other hypotheses: laws, states, attribution, and what texts see of them."""

from __future__ import annotations

import copy
import math
import pickle
import random
from collections import Counter

import numpy as np
import pytest
from river.forest import AMFClassifier

from streamnb import BayesOptimalNB, Hypothesis, MondrianForest, OneDependence, Pool, Softmax
from streamnb.errors import SnapshotError
from streamnb.models.forest.node_arrays import DROPPED, FREE
from streamnb.models.mixture.hypothesis_kinds import DEFAULT_HYPOTHESES
from tests.models.mixture.test_mixture_attribution import assert_adds_up
from tests.models.one_dependence.test_one_dependence_among_others import stream
from tests.support.states import digest, through_a_snapshot

ALONE = (MondrianForest(4),)
AMONG = (
    Hypothesis("presence", calibrated=True),
    OneDependence(max_attributes=8),
    MondrianForest(3),
    MondrianForest(2, seed=7, name="other"),
    Pool(),
)


def mixture(hypotheses=AMONG):
    return BayesOptimalNB({"text": "text"}, hypotheses, switching_rate=1e-3)


def table(seed, n):
    """Numbers and nominal values, often missing, of more values than have codes, of four classes."""
    rng = random.Random(seed)
    found = []
    for _ in range(n):
        x = {
            "size": rng.gauss(0, 1),
            "shop": f"s{int(rng.expovariate(0.02))}",
            "big": rng.choice([1e300, -0.0]),
        }
        kept = {name: value for name, value in x.items() if rng.random() < 0.9}
        found.append((kept, rng.choice("abcd") if rng.random() < 0.3 else "ab"[x["size"] > 0], 1.0))
    return found


SINGLE = {
    "alone": ALONE,
    "two forests": AMONG,
    "default": DEFAULT_HYPOTHESES,
    "full": (OneDependence(max_attributes=8), MondrianForest(2, memory=1 << 16), Pool()),
}


@pytest.mark.parametrize("made", [stream, table])
@pytest.mark.parametrize("hypotheses", SINGLE.values(), ids=SINGLE)
def test_one_by_one_equals_a_batch_bit_for_bit(hypotheses, made):
    events = made(3, 160) if made is stream else made(3, 700)
    batch, single, parts = mixture(hypotheses), mixture(hypotheses), mixture(hypotheses)
    batch.predict_then_learn_many(*zip(*events, strict=True))
    for x, y, w in events:
        if y is not None:
            single.learn_one(x, y, w)
    for i in range(0, len(events), 23):
        parts.predict_then_learn_many(*zip(*events[i : i + 23], strict=True))
    labelled = mixture(hypotheses)
    labelled.predict_then_learn_many(*zip(*[event for event in events if event[1] is not None], strict=True))
    assert digest(batch) == digest(parts)
    assert digest(single) == digest(labelled)
    unknown = [{"size": 0.1, "colour": "none of them", "shop": "s3"}, {"text": "one"}, {}]
    for x in [x for x, *_ in made(4, 40)] + unknown:
        (row,) = batch.predict_posteriors([x]).probabilities
        assert list(parts.predict_proba_one(x).values()) == row.tolist()


@pytest.mark.parametrize("hypotheses", [SINGLE["default"], ALONE], ids=["default", "alone"])
def test_a_single_event_needs_no_batch_and_no_new_addresses(hypotheses, monkeypatch):
    model, events = mixture(hypotheses), table(5, 900)
    model.learn_many(*zip(*events[:400], strict=True))
    calls = Counter()

    def counted(name):
        called = getattr(BayesOptimalNB, name)

        def call(*args, **kwargs):
            calls[name] += 1
            return called(*args, **kwargs)

        monkeypatch.setattr(BayesOptimalNB, name, call)

    counted("_answer_and_explain")
    counted("_arrays_alone")
    for x, y, _ in events[400:]:
        model.predict_proba_one(x)
        model.learn_one(x, y)
    assert calls["_answer_and_explain"] <= 5, "a batch"
    assert calls["_arrays_alone"] <= 50, "arrays prepared again"


def test_a_forest_stays_within_its_share_of_a_budget():
    model = mixture(SINGLE["default"])
    model.keep_within(2 << 20)
    events = table(6, 4000)
    model.learn_many(*zip(*events[:2000], strict=True))
    part = model.memory_use.parts["forests"]
    assert part.most == (2 << 20) // 32
    assert part.most - 2000 < part.taken <= part.most
    free = mixture(SINGLE["default"]).load_state(*model.state())
    assert digest(free) == digest(model), "the budget is no part of the state"
    model.keep_within(1 << 20)
    model.learn_many(*zip(*events[2000:], strict=True))
    assert model.memory_use.parts["forests"].taken == part.taken, "no node is split, and none is dropped"


def test_a_snapshot_continues_with_the_same_bits():
    model = mixture()
    events = stream(1, 200)
    model.learn_many(*zip(*events[:120], strict=True))
    again = mixture().load_state(*through_a_snapshot(model))
    assert digest(again) == digest(model)
    for each in (model, again):
        each.learn_many(*zip(*events[120:], strict=True))
    assert digest(again) == digest(model)


def test_an_event_without_attributes_teaches_a_restored_forest_nothing():
    """Its tables have no spare rows, so that a single event asks for room first."""
    model = mixture(SINGLE["default"])
    model.learn_many([{}] * 20, list("ab") * 10)
    again = mixture(SINGLE["default"]).load_state(*through_a_snapshot(model))
    for each in (model, again):
        each.learn_one({}, "b")
    assert digest(again) == digest(model)


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda model: pickle.loads(pickle.dumps(model))])  # noqa: S301  written here
def test_a_copy_goes_on_with_the_same_bits(copied):
    """Copied while the nodes have room for further events."""
    model, events = mixture(SINGLE["default"]), table(7, 40)
    model.learn_many(*zip(*table(8, 400), strict=True))
    again = copied(model)
    for x, y, _ in events:
        assert again.predict_proba_one(x) == model.predict_proba_one(x)
        again.learn_many([x], [y])
        model.learn_many([x], [y])
        assert digest(again) == digest(model)


def test_a_state_of_another_forest_is_refused():
    model = mixture(ALONE)
    model.learn_many(*zip(*stream(1, 50), strict=True))
    for other in (MondrianForest(5), MondrianForest(4, seed=1), MondrianForest(4, memory=1 << 20)):
        named = MondrianForest(other.trees, other.memory, other.seed, name=ALONE[0].label)
        with pytest.raises(ValueError, match="other Mondrian forests"):
            mixture((named,)).load_state(*model.state())


def _cycle(links):
    inner = int(np.flatnonzero(links[:, 3] >= 0)[-1])
    links[inner, 1] = links[inner, 0]


CORRUPTIONS = {
    "a cycle": (np.int32, _cycle),
    "no such child": (np.int32, lambda links: links.__setitem__((links[:, 3] >= 0, 1), 1 << 20)),
    "a split by no attribute": (np.int32, lambda links: links.__setitem__((links[:, 3] >= 0, 3), 99)),
    "a leaf with children": (np.int32, lambda links: links.__setitem__((links[:, 3] >= 0, 3), -1)),
    "a count": (np.float64, lambda floats: floats.__setitem__((0, 6), 5e9)),
    "a count below zero": (np.float64, lambda floats: floats.__setitem__((0, 6), -1.0)),
    "a ratio": (np.float64, lambda floats: floats.__setitem__((0, 4), np.nan)),
    "a row of no tree": (np.int32, lambda links: links.__setitem__((slice(None), 0), -1)),
    "a bound": (np.float32, lambda bounds: bounds.__setitem__((0, -1), np.nan)),
}


@pytest.mark.parametrize("name", CORRUPTIONS)
def test_a_state_that_is_no_forest_is_refused(name):
    model = mixture((MondrianForest(2),))
    model.learn_many(
        [{"a": float(i % 7), "b": i / 3} for i in range(60)], ["xy"[i % 3 == 0] for i in range(60)]
    )
    meta, arrays = model.state()
    words = arrays["forest_0_words"].copy()
    kind, corrupt = CORRUPTIONS[name]
    corrupt(words.view(kind))
    with pytest.raises(SnapshotError):
        mixture((MondrianForest(2),)).load_state(meta, {**arrays, "forest_0_words": words})


@pytest.mark.parametrize(("part", "place"), [("held", 0), ("size", FREE), ("size", DROPPED), ("roots", 1)])
def test_a_state_whose_dropped_trees_are_none_is_refused(part, place):
    model = mixture((MondrianForest(2),))
    model.learn_many(*zip(*table(5, 300), strict=True))
    meta, arrays = model.state()
    assert mixture((MondrianForest(2),)).load_state(meta, arrays)
    assert arrays["forest_0_size"][FREE] > 0
    numbers = arrays[f"forest_0_{part}"].copy()
    numbers[place] = 0
    with pytest.raises(SnapshotError):
        mixture((MondrianForest(2),)).load_state(meta, {**arrays, f"forest_0_{part}": numbers})


@pytest.mark.parametrize("hypotheses", [ALONE, AMONG])
def test_the_parts_of_an_explanation_add_up_to_the_log_odds(hypotheses):
    model = mixture(hypotheses)
    model.learn_many(*zip(*stream(8, 250), strict=True))
    for x, *_ in stream(9, 20):
        present = {name: value for name, value in x.items() if value is not None}
        for given in (present, {"size": x["size"]}, {"colour": "none of them", "size": 1e300}):
            assert_adds_up(model, given)


def test_texts_alone_see_nothing_of_a_forest():
    texts = [({"text": f"word{i % 5} w{i}"}, "ab"[i % 5 > 2]) for i in range(120)]
    others = (Hypothesis("presence", calibrated=True), Softmax(), Pool())
    bare = mixture(others)
    forested = mixture((*others[:2], MondrianForest(weight=0.0), Pool()))
    for x, y in texts:
        assert bare.predict_proba_one(x) == forested.predict_proba_one(x)
        bare.learn_one(x, y)
        forested.learn_one(x, y)
    assert bare.posterior.losses["pool variance=0.1"] == forested.posterior.losses["pool variance=0.1"]


def test_unlearning_takes_the_counts_and_leaves_the_trees():
    model = mixture()
    events = [(x, y) for x, y, _ in stream(2, 120) if y is not None]
    model.learn_many(*zip(*events, strict=True))
    before = model.state()[1]
    model.unlearn_many(*zip(*events[:20], strict=True))
    after = model.state()[1]
    for name, array in before.items():
        if name.startswith("forest_"):
            np.testing.assert_array_equal(after[name], array)
    assert after["class_weights"].sum() < before["class_weights"].sum()
    model.reset_adaptive()
    assert model.predict_proba_one(events[0][0])
    model.learn_one(*events[0])
    assert sum(model.predict_proba_one(events[0][0]).values()) == pytest.approx(1.0)


def _table(seed, n, kind):
    rng = np.random.default_rng(seed)
    x = rng.uniform(size=(n, 4))
    y = (x[:, 0] > 0.5) != (x[:, 1] > 0.5) if kind == "exclusive or" else x.sum(axis=1) > 2.0
    return x, np.where(rng.uniform(size=n) < 0.1, ~y, y)


@pytest.mark.thorough
@pytest.mark.parametrize("kind", ["exclusive or", "sum"])
def test_its_loss_is_distributed_like_that_of_rivers_forest(kind):
    """The scales of uniform numbers are one in both: four mean deviations, and the unit interval."""
    ours, rivers = [], []
    for seed in range(10):
        x, y = _table(seed, 400, kind)
        xs = [dict(zip("abcd", row, strict=True)) for row in x.tolist()]
        forest = BayesOptimalNB({}, [MondrianForest(5, seed=seed)])
        found = forest.predict_then_learn_many(xs, y.tolist()).probabilities
        columns = [forest.classes.index(label) for label in y.tolist()]
        ours.append(-np.log(found[np.arange(50, 400), columns[50:]]).mean())
        peer, loss = AMFClassifier(n_estimators=5, step=1.0, dirichlet=0.5, seed=seed), []
        for event, label in zip(xs, y.tolist(), strict=True):
            loss.append(-math.log(peer.predict_proba_one(event).get(label, 0.5) or 0.5))
            peer.learn_one(event, label)
        rivers.append(np.mean(loss[50:]))
    error = math.hypot(np.std(ours, ddof=1), np.std(rivers, ddof=1)) / math.sqrt(10)
    assert abs(np.mean(ours) - np.mean(rivers)) < 3.0 * error
