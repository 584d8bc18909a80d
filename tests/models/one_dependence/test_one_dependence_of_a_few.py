"""One dependence with `max_attributes`: it waits for an attribute, reads the first ones, and keeps to its memory."""

from __future__ import annotations

import itertools
import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamnb import BayesOptimalNB, Hypothesis, OneDependence, Pool, Softmax
from streamnb.errors import SnapshotError
from streamnb.models.one_dependence.value_codes import LONGEST
from tests.models.one_dependence.test_averaged_one_dependence import COUNTS, LABEL
from tests.models.one_dependence.test_one_dependence_among_others import stream
from tests.support.states import digest, through_a_snapshot

BESIDE = (Softmax(), Hypothesis(calibrated=True))
FEW = OneDependence(max_attributes=64)
CUTS = st.lists(st.integers(1, 359), max_size=6).map(lambda cuts: [0, *sorted({*cuts}), 360])


def mixture(one=FEW, n_bytes=None):
    model = BayesOptimalNB({"text": "text"}, [one, *BESIDE, Pool(), Pool(0.01, calibrated=True)], 1e-3)
    if n_bytes is not None:
        model.keep_within(n_bytes)
    return model


def texts_first(seed, n=60):
    """Texts alone, of which some have no label; then an attribute that has none, and a stream of everything."""
    texts = [({"text": x.get("text")}, y, w) for x, y, w in stream(seed + 1, n - 1)]
    return [*texts, ({"colour": "r"}, None, 1.0), *stream(seed)]


def learned(model, events, cuts):
    """The probabilities of each event, of the classes met before it; restarted at each cut."""
    found = []
    for first, last in itertools.pairwise(cuts):
        answer = model.predict_then_learn_many(*zip(*events[first:last], strict=True))
        found += [p[:k].tolist() for p, k in zip(answer.probabilities, answer.known, strict=True)]
        model = restarted(model)
    return model, found


def restarted(model):
    again = BayesOptimalNB({"text": "text"}, model.hypotheses, 1e-3)
    if model.statistics.room is not None:
        again.keep_within(model.statistics.room.whole)
    return again.load_state(*through_a_snapshot(model))


def test_where_there_are_only_texts_pools_are_what_they_are_without_it():
    """Bit for bit: its weight is 0, so that it could be heard in pools alone."""
    with_it, without = (
        mixture(OneDependence(max_attributes=64, weight=0.0)),
        BayesOptimalNB({"text": "text"}, [*BESIDE, Pool(), Pool(0.01, calibrated=True)], 1e-3),
    )
    texts = [({"text": x["text"]}, y, w) for x, y, w in stream(1)]
    one, other = (model.predict_then_learn_many(*zip(*texts, strict=True)) for model in (with_it, without))
    np.testing.assert_array_equal(one.probabilities, other.probabilities)
    assert with_it.explanation_one(texts[7][0]) == without.explanation_one(texts[7][0])
    (described,), arrays = with_it.state()[0]["trees"], with_it.state()[1]
    assert (described["attributes"], described["events"]) == ([], 0)
    assert arrays["trees_0_pairs"].size == 0


def expected_before(events, classes):
    """Log P(class), by the weights of those learned."""
    weights = [sum(w for _, y, w in events if y == label) for label in classes]
    return np.log(np.array(weights) / sum(weights))


def test_it_says_what_one_that_never_waited_says_and_what_the_classes_say_before():
    waiting, never = mixture(), mixture(OneDependence())
    events = texts_first(2)
    for first, last in itertools.pairwise([0, 30, 60, 61, 75, 200, 360]):
        part = events[first:last]
        for model in (waiting, never):
            model.predict_then_learn_many(*zip(*part, strict=True))
        for x, *_ in [*events[::60], ({}, None, 1.0), ({"colour": "new", "other": 3.0}, None, 1.0)]:
            found, expected = (model.joint_log_likelihoods(x)[LABEL] for model in (waiting, never))
            if last <= 60:
                assert list(found.values()) == pytest.approx(list(expected_before(events[:last], found)))
            else:
                assert found == expected
    for name in COUNTS:
        arrays = [model.state()[1][f"trees_0_{name}"] for model in (waiting, never)]
        np.testing.assert_array_equal(*arrays)
    assert waiting.state()[0]["trees"][0]["events"] == never.state()[0]["trees"][0]["events"]


@settings(max_examples=8, deadline=None)
@given(cuts=CUTS, n_bytes=st.sampled_from([None, 1 << 20, 1 << 17]))
def test_neither_cuts_nor_restarts_decide_when_it_wakes_or_what_is_dropped(cuts, n_bytes):
    events = texts_first(3)
    whole, expected = learned(mixture(n_bytes=n_bytes), events, [0, 360])
    parts, found = learned(mixture(n_bytes=n_bytes), events, cuts)
    assert found == expected
    assert digest(parts) == digest(whole)
    paired = whole.state()[0]["trees"][0]["paired"]
    assert (paired < 0) == (n_bytes is None)


def test_it_reads_the_first_attributes_and_is_deaf_to_the_others():
    few, all_of_two = mixture(OneDependence(max_attributes=2)), mixture(OneDependence())
    events = stream(4, texts=False)
    for x, y, w in events:
        few.learn_one(x, y, w)
        all_of_two.learn_one({name: x.get(name) for name in ("colour", "depth")}, y, w)
    (described,) = few.state()[0]["trees"]
    assert [name for _, name, _ in described["attributes"]] == ["colour", "depth"]
    for x, *_ in events[::20]:
        two = {name: x.get(name) for name in ("colour", "depth")}
        expected = all_of_two.joint_log_likelihoods(two)[LABEL]
        assert few.joint_log_likelihoods(x)[LABEL] == expected
    few.unlearn_many(*zip(*[event for event in events if event[1] and event[2]], strict=True))
    assert not few.state()[1]["trees_0_pairs"].any()
    assert not few.state()[1]["trees_0_values"].any()


def test_a_long_text_is_one_of_the_rest():
    model = mixture()
    for length in (LONGEST, LONGEST + 1, LONGEST + 2):
        model.learn_one({"colour": "x" * length}, "a")
    (described,) = model.state()[0]["trees"]
    assert described["attributes"] == [[described["attributes"][0][0], "colour", ["x" * LONGEST]]]
    assert model.state()[1]["trees_0_values"].sum(axis=1).tolist() == [2048, 1024]
    assert digest(restarted(model)) == digest(model)


def crowded(n=600, attributes=40):
    """Many classes and values; a quarter of the memory is not enough for the values of all attributes."""
    rng = random.Random(5)
    return [
        ({f"f{j}": str(rng.randrange(30)) for j in rng.sample(range(min(attributes, 1 + i // 4)), k=min(8, 1 + i // 4))},
         f"c{rng.randrange(1 + i // 8)}", 1.0)
        for i in range(n)
    ]  # fmt: skip


@pytest.mark.parametrize("n_bytes", [1 << 19, 1 << 24, 1 << 27])
def test_pairs_and_values_take_no_more_than_their_part_of_the_budget(n_bytes):
    """Spare capacity included; and what was dropped is the same where the stream is cut otherwise."""
    events, sizes = crowded(), set()
    whole, expected = learned(mixture(n_bytes=n_bytes), events, [0, 600])
    model = mixture(n_bytes=n_bytes)
    for first in range(0, 600, 25):
        model.predict_then_learn_many(*zip(*events[first : first + 25], strict=True))
        (counts,) = model._dependence._counts
        assert counts.tables.pairs.nbytes <= n_bytes // 40
        assert counts.tables.values.nbytes <= n_bytes // 160
        use = model.memory_use.parts["pairs"]
        assert use.taken <= use.most == n_bytes // 40
        sizes.add(counts.sizes.size)
    assert digest(model) == digest(whole)
    assert (max(sizes) > counts.sizes.size) == (n_bytes < 1 << 27)
    assert counts.tables.pair_first.shape[0] < 40
    parts, found = learned(mixture(n_bytes=n_bytes), events, [0, 3, 100, 333, 334, 600])
    assert found == expected
    assert digest(parts) == digest(whole)


def test_a_smaller_budget_drops_pairs_and_a_larger_one_does_not_bring_them_back():
    model = mixture(n_bytes=1 << 24)
    model.learn_many(*zip(*crowded(), strict=True))
    paired = model._dependence._counts[0].tables.pair_first.shape[0]
    small, again = mixture(n_bytes=1 << 19), mixture(n_bytes=1 << 24)
    small.load_state(*through_a_snapshot(model))
    fewer = small._dependence._counts[0].tables.pair_first.shape[0]
    assert fewer < paired
    assert small._dependence._counts[0].tables.pairs.nbytes <= (1 << 19) // 40
    again.load_state(*through_a_snapshot(small))
    again.learn_many(*zip(*crowded(), strict=True))
    assert again._dependence._counts[0].tables.pair_first.shape[0] == fewer


def test_a_hundred_thousand_names_take_no_more_than_sixty_four():
    """Of each event 20 names are its own; and one event has a thousand."""
    model = mixture()
    events = [({f"n{20 * i + j}": float(j) for j in range(20)}, "ab"[i % 2]) for i in range(5000)]
    events.append(({f"w{j}": "v" for j in range(960)}, "a"))
    model.learn_many(*zip(*events, strict=True))
    assert len(model._dependence._models[0].coded.codes) == 64
    assert model._dependence.n_bytes < 4 << 20
    x = {f"w{j}": "v" for j in range(960)} | events[0][0]
    assert sum(model.predict_proba_one(x).values()) == pytest.approx(1.0)
    assert model.explanation_one(x) is not None


def test_a_state_of_one_that_does_not_wait_is_refused_and_one_of_too_many_attributes():
    model, few = mixture(OneDependence()), mixture()
    for one, other in ((model, few), (few, model)):
        one.learn_one({"colour": "r", "shape": "s"}, "a")
        with pytest.raises(ValueError, match="other"):
            mixture(other.hypotheses[0]).load_state(*through_a_snapshot(one))
    meta, arrays = through_a_snapshot(few)
    meta["trees"][0]["max_attributes"] = 1
    with pytest.raises(SnapshotError, match="2 attributes exceed the limit of 1"):
        mixture().load_state(meta, arrays)


def test_a_value_that_was_only_asked_about_is_one_of_the_rest_until_it_is_learned():
    """In one batch as one by one; the rest has a count here, so that it says something."""
    asked = {"colour": "green", "size": 5.0}
    first = [({"colour": c * 300, "size": 1.0}, y, 1.0) for c, y in zip("xyz", "aab", strict=True)]
    first.append(({"size": 1.0}, "b", 1.0))
    events = [*first, (asked, None, 1.0), (asked, "a", 1.0), (asked, None, 1.0), ({"size": 5.0}, "b", 1.0)]
    whole, expected = learned(mixture(), events, [0, 8])
    alone, found = mixture(), []
    for event in events:
        answer = alone.predict_then_learn_many(*([part] for part in event))
        found.append(answer.probabilities[0, : answer.known[0]].tolist())
    assert found == expected
    assert digest(alone) == digest(whole)
    (described,) = whole.state()[0]["trees"]
    assert [len(keys) for *_, keys in described["attributes"]] == [1, 2]
    assert whole.state()[1]["trees_0_values"].sum(axis=1).tolist() == [3072, 1024, 0, 4096, 2048]
