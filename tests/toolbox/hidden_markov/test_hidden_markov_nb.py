"""A chain for each entity: the filter beside one written out by dictionaries, and what may not be observed."""

from __future__ import annotations

import copy
import json
import math
import random
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamnb import HiddenMarkovNB, NaiveBayes
from streamnb.errors import SnapshotError, UnlearnError
from streamnb.formats.snapshot_container import part_digest
from streamnb.toolbox.hidden_markov.entities import Entities
from tests.oracles.chain_oracle import ChainOracle
from tests.support.states import digest, through_a_snapshot

READINGS = [
    {},
    {"transition_m": 0.0},
    {"entities": 2},
    {"time_to_live": 5.0},
    {"entities": 3, "time_to_live": 3.0, "prior": "uniform", "transition_m": 0.1},
    {"prior": {"a": 3.0, "b": 1.0}, "alpha": 0.0},
]


EVENTS = st.lists(
    st.tuples(
        st.sampled_from(["one", "two", 3, "four", None]),  # entity
        st.fixed_dictionaries(
            {},
            optional={
                "colour": st.sampled_from(["red", "green", "blue"]),
                "text": st.sampled_from(["", "win cash", "lunch now", "cash now now"]),
                "height": st.sampled_from([0.0, 1.5, -2.0, 1e300, math.nan]),
            },
        ),
        st.sampled_from(["a", "b", "c", None]),  # label
        st.sampled_from([1.0, 1.0, 0.5, 0.0]),  # weight
        st.one_of(st.none(), st.integers(0, 40).map(float)),  # time
    ),
    max_size=30,
)


def columns(events):
    """Events as they are given to a model."""
    return (
        [x if entity is None else {**x, "entity": entity} for entity, x, *_ in events],
        [label for _, _, label, _, _ in events],
        [w for _, _, _, w, _ in events],
        [t for *_, t in events],
    )


def made(**reading):
    return HiddenMarkovNB({"text": "text"}, **reading)


# -- the filter ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("reading", READINGS)
@given(events=EVENTS)
@settings(max_examples=60, deadline=None)
def test_the_filter_is_that_of_dictionaries(reading, events):
    model, oracle = made(**reading), ChainOracle(attributes={"text": "text"}, **reading)
    posteriors = model.predict_then_learn_many(*columns(events))
    for (entity, x, label, w, t), row in zip(events, posteriors.probabilities, strict=True):
        name = None if entity is None else str(entity)
        expected = oracle.learn(x, name, label, t, w)
        found = {c: p for c, p in zip(posteriors.classes, row.tolist(), strict=True) if c in expected}
        assert found == pytest.approx(expected, abs=1e-12)
        assert sum(row) == pytest.approx(1.0) if expected else not row.any()
    labels = model.classes
    first, table = model.transitions.first / 1024, model.transitions.table / 1024
    assert dict(zip(labels, first.tolist(), strict=True)) == {c: oracle.first.get(c, 0) for c in labels}
    for i, before in enumerate(labels):
        expected = [oracle.table.get(before, {}).get(after, 0) for after in labels]
        assert table[i].tolist() == expected
    assert model.n_entities == len(oracle.chains)


def test_two_states_by_hand():
    """P(well -> ill) and what an unlabelled event leaves, with m = 0 and no attribute: fractions."""
    model = HiddenMarkovNB(transition_m=0.0)
    for entity, label in [("one", "a"), ("one", "a"), ("one", "b"), ("one", "a"), ("two", "b")]:
        model.learn_one({"entity": entity}, label)
    # a -> a once, a -> b once; b -> a once; sequences began with a and with b.
    assert model.predict_proba_one({"entity": "one"}) == pytest.approx({"a": 0.5, "b": 0.5})
    assert model.predict_proba_one({"entity": "two"}) == pytest.approx({"a": 1.0, "b": 0.0})
    assert model.predict_proba_one({"entity": "new"}) == pytest.approx({"a": 0.5, "b": 0.5})
    model.learn_unlabelled_one({"entity": "one"})  # now (1/2, 1/2)
    assert model.predict_proba_one({"entity": "one"}) == pytest.approx({"a": 0.75, "b": 0.25})
    model.learn_one({"entity": "one"}, None)  # now (3/4, 1/4)
    assert model.predict_proba_one({"entity": "one"}) == pytest.approx({"a": 0.625, "b": 0.375})


@given(events=EVENTS)
@settings(max_examples=60, deadline=None)
def test_without_entities_it_is_naive_bayes(events):
    xs, ys, ws, _ = columns([(None, *event[1:]) for event in events])
    model, plain = made(), NaiveBayes({"text": "text"})
    found = model.predict_then_learn_many(xs, ys, ws).probabilities
    assert found == pytest.approx(plain.predict_then_learn_many(xs, ys, ws).probabilities, abs=1e-9)
    assert model.class_weights == plain.class_weights
    assert model.n_entities == 0


def test_a_state_that_excludes_the_event_does_not_break_it():
    """m = 0 and alpha = 0: neither the chain nor the words allow any class."""
    model = HiddenMarkovNB(transition_m=0.0, alpha=0.0)
    for label, colour in [("a", "red"), ("b", "blue"), ("a", "red"), ("b", "blue")]:
        model.learn_one({"entity": "one", "colour": colour}, label)
    model.learn_one({"entity": "two", "colour": "red"}, "a")
    probabilities = model.predict_proba_one({"entity": "two", "colour": "red"})  # a is followed by b alone
    assert probabilities == {"a": 1.0, "b": 0.0}
    model.learn_unlabelled_one({"entity": "two", "colour": "red"})
    assert model.predict_proba_one({"entity": "two"}) == {"a": 0.0, "b": 1.0}


@pytest.mark.parametrize("m", [0.0, 1e-300, 1.0, 1e300])
def test_probabilities_are_finite_whatever_m(m):
    model = HiddenMarkovNB(transition_m=m)
    rng = random.Random(1)
    for _ in range(50):
        x = {"entity": rng.randrange(3), "x": rng.choice([1e300, -1e300, 0.0])}
        for x_asked in (x, {"entity": 0}, {}):
            probabilities = model.predict_proba_one(x_asked)
            assert not probabilities or sum(probabilities.values()) == pytest.approx(1.0)
        model.learn_one(x, rng.choice(["a", "b", "c", None]))


def test_a_long_stream_without_labels_stays_finite():
    model = HiddenMarkovNB()
    for label in "aabb" * 5:
        model.learn_one({"entity": "one", "x": float(label == "a")}, label)
    xs = [{"entity": "one", "x": (i // 1000) % 2 * 1.0} for i in range(50_000)]
    probabilities = model.predict_then_learn_many(xs, [None] * len(xs)).probabilities
    assert np.isfinite(probabilities).all()
    assert probabilities.sum(axis=1) == pytest.approx(1.0)


# -- batches, restarts, state -------------------------------------------------------------------------------


@pytest.mark.parametrize("reading", READINGS)
@given(events=EVENTS, cuts=st.lists(st.integers(0, 30), max_size=6))
@settings(max_examples=40, deadline=None)
def test_batches_and_restarts_cannot_be_observed(reading, events, cuts):
    whole, cut = made(**reading), made(**reading)
    at_once = whole.predict_then_learn_many(*columns(events))
    parts = []
    bounds = sorted({0, len(events), *(c for c in cuts if c < len(events))})
    for start, stop in pairwise(bounds):
        parts.append(cut.predict_then_learn_many(*columns(events[start:stop])).probabilities)
        cut = made(**reading).load_state(*through_a_snapshot(cut))
    for part, (start, stop) in zip(parts, pairwise(bounds), strict=True):
        width = part.shape[1]
        assert part.tobytes() == at_once.probabilities[start:stop, :width].copy().tobytes()
    assert digest(whole) == digest(cut)


@given(events=EVENTS)
@settings(max_examples=40, deadline=None)
def test_learn_one_is_learn_many_is_predicting_and_learning(events):
    one, many, both = made(entities=3), made(entities=3), made(entities=3)
    for x, y, w, t in zip(*columns(events), strict=True):
        one.predict_proba_one(x)  # which changes nothing
        one.learn_one(x, y, w, t)
    many.learn_many(*columns(events))
    both.predict_then_learn_many(*columns(events))
    assert digest(one) == digest(many) == digest(both)


@given(events=EVENTS)
@settings(max_examples=30, deadline=None)
def test_asking_changes_nothing(events):
    model = made(entities=2, time_to_live=3.0)
    model.learn_many(*columns(events))
    before = digest(model)
    xs, _, _, ts = columns(events)
    asked = model.predict_posteriors(xs, ts).probabilities
    for x, t, row in zip(xs, ts, asked, strict=True):
        model.joint_log_likelihood(x, t)
        assert model.predict_posteriors([x], [t]).probabilities[0].tolist() == row.tolist()
        model.explain_one(x, t=t)
    model.predict_proba_one({"entity": "never met"})
    assert digest(model) == before


def test_a_state_is_the_same_whatever_rows_entities_had():
    """Two ways to the same entities: by another one that was forgotten, and without it."""
    events = [("one", "a"), ("two", "b"), ("three", "a")]
    one, other = HiddenMarkovNB(entities=3), HiddenMarkovNB(entities=3)
    for entity, label in events:
        other.learn_one({"entity": entity}, label)
    one.learn_one({"entity": "three"}, None)  # it has the first row here, and the last there
    for entity, label in [("one", "a"), ("two", "b"), ("three", None)]:
        one.learn_one({"entity": entity}, label)
    assert [list(model._entities.rows) for model in (one, other)] == [["one", "two", "three"]] * 2
    assert one.state()[1]["entity_last"].tolist() == [0, 1, -1]
    assert other.state()[1]["entity_last"].tolist() == [0, 1, 0]


def test_a_copy_is_the_state_of_its_moment():
    model = HiddenMarkovNB({"text": "text"})
    for i in range(100):
        model.learn_one({"entity": i % 7, "text": f"w{i % 11}"}, "ab"[i % 2])
    expected, copying = digest(model), model.copying()
    for i in range(100):
        model.learn_one({"entity": i % 9, "text": f"w{i % 13}"}, "abc"[i % 3])
        copying.advance(100)
    assert part_digest(*copying.state()) == expected != digest(model)


@pytest.mark.parametrize(
    "damage",
    [
        lambda arrays: arrays.pop("entity_last"),
        lambda arrays: arrays.update(entity_last=arrays["entity_last"] + 5),
        lambda arrays: arrays.update(entity_last=arrays["entity_last"].astype(np.int32)),
        lambda arrays: arrays.update(entity_seen=arrays["entity_seen"][1:]),
        lambda arrays: arrays.update(entity_beliefs=arrays["entity_beliefs"] + 2),
        lambda arrays: arrays.update(entity_beliefs=arrays["entity_beliefs"] * np.nan),
        lambda arrays: arrays.update(entity_arena=arrays["entity_arena"][:-1]),
        lambda arrays: arrays.update(entity_arena=arrays["entity_arena"] * 0),
        lambda arrays: arrays.update(entity_arena=arrays["entity_arena"] | 0x80),
        lambda arrays: arrays.update(transition_first=arrays["transition_first"] - (1 << 20)),
        lambda arrays: arrays.update(transition_table=arrays["transition_table"][1:]),
    ],
)
def test_a_bad_state_is_refused_and_changes_nothing(damage):
    model = HiddenMarkovNB()
    for entity, label in [("x", "a"), ("y", "b"), ("x", None)]:
        model.learn_one({"entity": entity}, label)
    meta, arrays = model.state()
    damage(arrays)
    fresh = HiddenMarkovNB()
    before = digest(fresh)
    with pytest.raises(SnapshotError):
        fresh.load_state(meta, arrays)
    assert digest(fresh) == before
    with pytest.raises(ValueError, match="NaiveBayes"):
        fresh.load_state(*NaiveBayes().state())


def test_a_state_of_more_entities_than_are_kept_keeps_the_latest():
    model = HiddenMarkovNB()
    for i in range(10):
        model.learn_one({"entity": i}, "ab"[i % 2])
    fewer = HiddenMarkovNB(entities=4).load_state(*model.state())
    assert list(fewer._entities.rows) == ["6", "7", "8", "9"]
    assert fewer.predict_proba_one({"entity": 9}) == model.predict_proba_one({"entity": 9})


# -- bounds -------------------------------------------------------------------------------------------------


def test_the_one_not_seen_the_longest_goes():
    model = HiddenMarkovNB(entities=2)
    for entity, label in [("one", "a"), ("two", "b"), ("one", None), ("three", "a")]:
        model.learn_one({"entity": entity}, label)
    assert list(model._entities.rows) == ["one", "three"]
    assert model.predict_proba_one({"entity": "two"}) == model.predict_proba_one({"entity": "new"})


def test_memory_is_bounded_by_the_entities_that_are_kept():
    def grown(n):
        model = HiddenMarkovNB(entities=100)
        model.learn_many([{"entity": f"e{i:06d}"} for i in range(n)], ["ab"[i % 2] for i in range(n)])
        return model.n_bytes

    assert grown(100) == grown(10_000) > HiddenMarkovNB().n_bytes


@pytest.mark.parametrize(("letter", "size"), [("a", 1), ("ж", 2), ("😀", 4)])
def test_memory_is_that_of_the_letters(letter, size):
    long, short = (HiddenMarkovNB(entities=2) for _ in range(2))
    for i in range(9):
        long.learn_one({"entity": f"{i}{1000 * letter}"}, "a")
        short.learn_one({"entity": f"{i}{letter}"}, "a")
    assert long.n_bytes - short.n_bytes == 2 * 999 * size


def test_time_is_event_time_and_late_events_do_not_turn_it_back():
    model = HiddenMarkovNB(time_to_live=10.0, transition_m=0.0)
    for label, t in [("a", 0.0), ("a", 1.0), ("a", 2.0), ("b", 100.0)]:
        model.learn_one({"entity": "one"}, label, t=t)
    assert (model.transitions.first // 1024).tolist() == [1, 1]  # the last one began anew
    assert (model.transitions.table // 1024).tolist() == [[2, 0], [0, 0]]
    model.learn_one({"entity": "one"}, "b", t=3.0)  # late, and so not too old
    model.learn_one({"entity": "one"}, "b", t=110.0)  # 10 s after the latest
    model.learn_one({"entity": "one"}, "b")  # without a time
    assert (model.transitions.table // 1024).tolist() == [[2, 0], [0, 3]]
    model.learn_one({"entity": "one"}, "b", t=120.001)
    assert (model.transitions.first // 1024).tolist() == [1, 2]


@pytest.mark.parametrize(
    "arguments",
    [
        {"entities": 0},
        {"entities": 2.5},
        {"transition_m": -1.0},
        {"transition_m": math.inf},
        {"time_to_live": math.nan},
        {"attributes": {"entity": "nominal"}},
        {"prior": "none"},
    ],
)
def test_arguments_out_of_range_are_refused(arguments):
    with pytest.raises(ValueError, match=r"entit|finite|prior"):
        HiddenMarkovNB(**arguments)


def test_an_entity_is_a_value():
    model = HiddenMarkovNB()
    with pytest.raises(TypeError, match="entity"):
        model.learn_one({"entity": ["a"]}, "a")
    assert model.n_events == model.n_entities == 0
    for entity in (3, 3.0, "3", np.int64(3)):
        model.learn_one({"entity": entity}, "a")
    for entity in (None, math.nan):
        model.learn_one({"entity": entity}, "a")
    assert model.n_entities == 1
    assert model.transitions.first.tolist() == [3 * 1024]
    odd = HiddenMarkovNB()
    odd.learn_one({"entity": "\ud800"}, "a")
    assert digest(HiddenMarkovNB().load_state(*through_a_snapshot(odd))) == digest(odd)


# -- merging and unlearning ---------------------------------------------------------------------------------


def test_unlearning_is_of_events_without_an_entity():
    model = HiddenMarkovNB()
    model.learn_one({"entity": "x", "colour": "red"}, "a")
    model.learn_one({"colour": "blue"}, "a", 0.5)
    for x, y, w in [({"entity": "x", "colour": "red"}, "a", 1.0), ({"colour": "red"}, "b", 1.0)]:
        before = digest(model)
        with pytest.raises(UnlearnError):
            model.unlearn_one(x, y, w)
        assert digest(model) == before
    model.unlearn_one({"colour": "blue"}, "a", 0.5)
    assert model.transitions.first.tolist() == [1024]
    assert model.class_weights == {"a": 1.0}
    with pytest.raises(UnlearnError, match="never learned"):
        model.unlearn_one({}, "a", 2.0)


def test_a_linear_view_is_refused():
    with pytest.raises(ValueError, match="entity"):
        HiddenMarkovNB().linear_view("a")


# -- evidence and frames ------------------------------------------------------------------------------------


@given(events=EVENTS)
@settings(max_examples=40, deadline=None)
def test_the_items_of_an_explanation_add_up(events):
    model = made()
    model.learn_many(*columns([event for event in events if event[1].get("height") != 1e300]))
    for x in ({"entity": "one", "colour": "red", "text": "win"}, {"colour": "red"}, {"entity": "new"}):
        found = model.explanation_one(x)
        if found is None:
            continue
        probabilities = model.predict_proba_one(x)
        expected = math.log(probabilities[found.predicted] / probabilities[found.runner_up])
        assert found.log_odds == pytest.approx(expected, abs=1e-9)
        assert {item.attribute for item in found.items} <= {"entity", "colour", "text"}
        assert x.get("entity") != "new" or not found.items


def test_evidence_names_the_entity():
    model = HiddenMarkovNB(entity="sender")
    for label in "aaaabbbb":
        model.learn_one({"sender": "x", "colour": "red"}, label)
    (item,) = [item for item in model.explain_one({"sender": "x"}) if item.attribute == "sender"]
    assert (item.value, item.log_odds > 0.5) == ("x", True)


@given(events=EVENTS)
@settings(max_examples=30, deadline=None)
def test_joint_log_likelihoods_are_those_of_the_prediction(events):
    model = made()
    model.learn_many(*columns(events))
    x = {"entity": "one", "colour": "red"}
    joints, probabilities = model.joint_log_likelihood(x), model.predict_proba_one(x)
    if joints:
        top = max(joints.values())
        total = math.log(sum(math.exp(joint - top) for joint in joints.values())) + top
        assert {k: math.exp(j - total) for k, j in joints.items()} == pytest.approx(probabilities)


def test_data_frames_are_rows():
    pd = pytest.importorskip("pandas")
    rng = random.Random(3)
    rows = [
        {"entity": rng.choice(["x", "y", None]), "colour": rng.choice(["red", "blue"]), "h": rng.random()}
        for _ in range(60)
    ]
    labels = [rng.choice("ab") for _ in rows]
    framed, listed = HiddenMarkovNB(), HiddenMarkovNB()
    one = framed.predict_then_learn_many(pd.DataFrame(rows), pd.Series(labels))
    other = listed.predict_then_learn_many(rows, labels)
    assert one.probabilities.tobytes() == other.probabilities.tobytes()
    assert digest(framed) == digest(listed)
    frame = framed.predict_proba_many(pd.DataFrame(rows[:3]))
    assert frame.to_numpy().tolist() == [list(listed.predict_proba_one(x).values()) for x in rows[:3]]
    assert digest(copy.deepcopy(framed)) == digest(framed)


@pytest.mark.parametrize("dtype", ["string", "object", "category"])
def test_what_a_data_frame_calls_missing_names_no_entity(dtype):
    pd = pytest.importorskip("pandas")
    values = pd.Series(["x", pd.NA, "x", pd.NaT, None], dtype="object").astype(dtype)
    framed, listed = HiddenMarkovNB(), HiddenMarkovNB()
    framed.learn_many(pd.DataFrame({"entity": values, "colour": ["red"] * 5}), list("ababa"))
    for name, label in zip(["x", None, "x", None, None], "ababa", strict=True):
        listed.learn_one({"entity": name, "colour": "red"}, label)
    assert digest(framed) == digest(listed)
    assert framed.n_entities == 1


def test_entities_are_met_in_order_within_a_batch():
    """Two of three names, of which only two are kept: each takes the row of the one not seen the longest."""
    entities = Entities(2)
    rows, begins = entities.meet(["a", "b", "c", "a", None, "c"], 2)
    assert rows.tolist() == [0, 1, 0, 1, -1, 0]
    assert begins.tolist() == [True, True, True, True, False, False]
    assert list(entities.rows) == ["a", "c"]
    assert json.dumps(list(entities.rows)) == '["a", "c"]'
