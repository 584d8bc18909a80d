"""What is learned apart and added afterwards is what is learned in order, however the stream is cut and comes back."""

from __future__ import annotations

import hashlib
import inspect
import pickle
import re

import numpy as np
import pandas as pd
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

import streamnb
from streamnb import (
    BernoulliNB,
    CategoricalNB,
    GaussianNB,
    MultinomialNB,
    NaiveBayes,
    Nominal,
    Partial,
    ProgressiveValidation,
    Text,
    merge_all,
)
from streamnb.errors import SnapshotError
from streamnb.formats.snapshot_container import Snapshot, SnapshotPart, decode, encode
from streamnb.models.naive_bayes import partials
from streamnb.models.naive_bayes.counting_model import CountingModel
from tests.support.states import bytes_of

SPEC = {
    "body": Text(),
    "subject": Text(event_model="bernoulli", alpha=0.5),
    "colour": Nominal(values=["r", "g", "b"]),
}
WORDS = st.sampled_from([f"w{i}" for i in range(9)] + ["Größe", "a-word", "incomprehensibilities", "ΣΑΣ"])
TEXT = st.lists(WORDS, max_size=8).map(" ".join)
EVENT = st.fixed_dictionaries(
    {},
    optional={
        "body": TEXT,
        "subject": TEXT,
        "colour": st.sampled_from("rgb"),
        "late": st.sampled_from(["x", "y", "a value of many letters"]),
        "height": st.floats(-1e3, 1e3),
        "age": st.integers(-64, 64),
    },
)
LABELS = st.one_of(st.none(), st.sampled_from("abcde"))
WEIGHTS = st.sampled_from([1.0, 1.0, 2.0, 0.25, 0.0, 200.0])
ROWS = st.lists(st.tuples(EVENT, LABELS, WEIGHTS), max_size=20)
FLOATS = {"mean", "M2"}


def taught(rows, alpha=1.0):
    model = NaiveBayes(SPEC, alpha=alpha)
    learn(model, rows)
    return model


def learn(model, rows):
    model.learn_many(*(zip(*rows, strict=True) if rows else ([], [], [])))


def assert_same_but_for_rounding(model, whole):
    """Counts to the bit, in the same order; moments to 1e-12 of the largest value, and of its square."""
    (meta, arrays), (other_meta, others) = model.state(), whole.state()
    assert meta == other_meta
    assert arrays.keys() == others.keys()
    for name, array in arrays.items():
        if name in FLOATS:
            largest = np.where(others["n"] > 0, 1e3, 0.0)
            bound = largest if name == "mean" else largest**2 * (others["n"] / 1024)
            assert (np.abs(array - others[name]) <= 1e-12 * bound).all()
        else:
            assert (array.dtype, array.shape, array.tobytes()) == (
                others[name].dtype,
                others[name].shape,
                others[name].tobytes(),
            ), name


def cut(rows, lengths):
    """(First, past) of parts of these lengths, as far as there are rows."""
    found, first = [], 0
    for length in lengths:
        if first < len(rows):
            found.append((first, min(len(rows), first + length)))
            first += length
    return found + ([(first, len(rows))] if first < len(rows) else [])


def learned_apart(model, rows, first, past):
    xs, ys, ws = zip(*rows[first:past], strict=True)
    return model.partial(list(xs), list(ys), list(ws), ranges=[("mails-0", first, past)])


@settings(max_examples=200)
@given(
    ROWS,
    ROWS,
    st.lists(st.integers(1, 7), max_size=6),
    st.randoms(use_true_random=False),
    st.sampled_from([1.0, 0.0]),
    EVENT,
)
def test_parts_learned_apart_in_any_order_are_the_stream_in_order(before, rows, lengths, rng, alpha, x):
    model, at_once, whole = taught(before, alpha), taught(before, alpha), taught(before + rows, alpha)
    frozen, scores, made = bytes_of(model), ProgressiveValidation(), []
    model.predict_proba_one(x)  # what is derived for it has to follow
    for first, past in cut(rows, lengths):
        said, partial = learned_apart(model, rows, first, past)
        asked = model.predict_posteriors([event for event, _, _ in rows[first:past]])
        assert said.classes == asked.classes
        assert said.known.tolist() == asked.known.tolist()
        assert said.probabilities.tobytes() == asked.probabilities.tobytes()
        assert bytes_of(model) == frozen
        truths = [model.classes.index(y) if y in model.classes else 5 for _, y, _ in rows[first:past]]
        are_learned = np.array([y is not None and w > 0 for _, y, w in rows[first:past]])
        scores.update_many(said.probabilities, np.where(are_learned, truths, -1))
        assert partial.tested.events == np.count_nonzero(are_learned)
        encoded = partial.to_bytes()
        made.append(Partial.from_bytes(encoded))
        assert made[-1].to_bytes() == encoded
    if made:
        shuffled = rng.sample(made, len(made))
        merged = merge_all(shuffled)
        assert merged.to_bytes() == merge_all(made).to_bytes()
        assert merged.ranges == (("mails-0", 0, len(rows)),)
        told = scores.cumulative()
        assert merged.tested.events == told.events
        assert merged.accuracy == told.accuracy
        assert merged.log_loss == pytest.approx(told.log_loss, rel=1e-8, abs=1e-9)
        at_once.apply(merged)
        for partial in made:
            model.apply(partial)
    assert_same_but_for_rounding(at_once, whole)
    assert_same_but_for_rounding(model, whole)
    counted = {name: value for name, value in x.items() if name not in {"height", "age"}}
    says = whole.joint_log_likelihood(counted)
    derived = NaiveBayes(SPEC, alpha=alpha).load_state(*whole.state())
    for one in (model, at_once, derived):
        assert one.joint_log_likelihood(counted) == says  # to the bit: what is derived of counts has followed


def by_value(model):
    """All that was learned, without the order of rows."""
    return (
        {label: weight for label, weight in model.class_weights.items() if weight},
        {
            name: model.class_counts(name)
            for name in ("body", "subject", "colour", "late")
            if model.knows(name)
        },
        model.n_events,
        model.n_attributes,
    )


@given(ROWS, st.lists(st.integers(0, 2), min_size=20, max_size=20), st.randoms(use_true_random=False))
def test_partitions_and_parts_without_a_place_are_merged_in_any_order(rows, partitions, rng):
    """Of several partitions, and of none: the counts are those of the stream, and any order gives the same bytes."""
    for has_place in (True, False):
        made, offsets = [], [0, 0, 0]
        for row, partition in zip(rows, partitions, strict=False):
            offset = offsets[partition]
            offsets[partition] += 1
            ranges = [(f"mails-{partition}", offset, offset + 1)] if has_place else []
            made.append(NaiveBayes(SPEC).partial([row[0]], [row[1]], [row[2]], ranges)[1])
        assume(made)
        merged = merge_all(made)
        assert merge_all(rng.sample(made, len(made))).to_bytes() == merged.to_bytes()
        assert by_value(NaiveBayes(SPEC).apply(merged)) == by_value(taught(rows))
        halves = [merge_all(made[: len(made) // 2 + 1]), merge_all(made)]
        assert halves[0].tested.events <= halves[1].tested.events


@given(
    st.lists(st.tuples(EVENT, LABELS, WEIGHTS), min_size=1, max_size=12), st.randoms(use_true_random=False)
)
def test_merging_merged_parts_changes_no_count_and_no_score(rows, rng):
    made = [learned_apart(NaiveBayes(SPEC), rows, i, i + 1)[1] for i in range(len(rows))]
    middle = rng.randrange(len(rows))
    whole = merge_all(made)
    again = merge_all(merge_all(part) for part in (made[:middle], made[middle:]) if part)
    assert again[1:] == whole[1:]
    assert_same_but_for_rounding(again.model, whole.model)


RANGES = [("a", 0, 5), ("a", 5, 9), ("b", 3, 4), ("a", 9, 12)]


def of_ranges(*ranges):
    return [MultinomialNB().partial(["w"], ["y"], ranges=[one])[1] for one in ranges]


@pytest.mark.parametrize(
    ("ranges", "named"),
    [
        ([RANGES[0], RANGES[3]], r"'a': offsets 5 to 8 are missing"),
        ([RANGES[1], RANGES[0], RANGES[1]], r"'a': offsets 5 to 8 are there twice"),
        ([RANGES[0], ("a", 2, 3), RANGES[1]], r"'a': offsets 2 to 2 are there twice"),
        ([RANGES[2], ("b", 0, 4)], r"'b': offsets 3 to 3 are there twice"),
        ([], "no partial to merge"),
    ],
)
def test_a_gap_or_an_overlap_is_named(ranges, named):
    with pytest.raises(ValueError, match=named):
        merge_all(of_ranges(*ranges))
    assert merge_all(of_ranges(*RANGES[::-1])).ranges == (("a", 0, 12), ("b", 3, 4))


@pytest.mark.parametrize(
    "odd", [("a", 3, 3), ("a", -1, 3), ("a", 0.0, 3), ("a", 0, True), (1, 0, 3), ("a", 0, 2**63)]
)
def test_what_is_no_range_is_refused(odd):
    with pytest.raises(ValueError, match=re.escape(repr(odd))):
        of_ranges(odd)


SENTENCES = ["win cash now", "lunch at noon", "cash"]
SOME = [
    (MultinomialNB(), SENTENCES),
    (BernoulliNB(), SENTENCES),
    (CategoricalNB(), [{"c": "r"}, {"c": "g"}, {"d": True}]),
    (GaussianNB(), [{"h": 1.0}, {"h": 3.0}, {"i": 2}]),
    (NaiveBayes(), pd.DataFrame({"text": SENTENCES, "size": [1.0, np.nan, 3.0]})),
]


@pytest.mark.parametrize(("model", "xs"), SOME, ids=[type(model).__name__ for model, _ in SOME])
def test_every_variant_and_data_frames_have_partials(model, xs):
    whole, model = model.clone(), model.clone()
    for one in (whole, model):
        one.learn_many(xs[:1], ["a"])
    said, partial = model.partial(xs, ["a", None, "b"])
    assert said.probabilities.tobytes() == model.predict_posteriors(xs).probabilities.tobytes()
    for found in (Partial.from_bytes(partial.to_bytes()), pickle.loads(pickle.dumps(partial))):  # noqa: S301
        assert found.to_bytes() == partial.to_bytes()
        assert repr(found) == repr(partial)
    whole.learn_many(xs, ["a", None, "b"])
    assert_same_but_for_rounding(model.apply(partial), whole)


@pytest.mark.parametrize("make", [MultinomialNB, BernoulliNB])
def test_words_that_were_stopped_since_are_left_out(make):
    """A multinomial text has fewer words then; a Bernoulli text is a text all the same."""
    model, whole = make(), make()
    for one in (model, whole):
        one.learn_many(["the the cat", "the dog"], ["a", "b"])
    _, before = model.partial(["the end"], ["a"])
    for one in (model, whole):
        one.prune(drop_most_frequent=1)
    _, after = model.partial(["the the cat", "the"], ["b", "b"])
    whole.learn_many(["the end", "the the cat", "the"], ["a", "b", "b"])
    assert bytes_of(model.apply(before).apply(after)) == bytes_of(whole)


def test_there_is_room_for_any_number_of_different_counts():
    """Parts of examples have no places of their own in the histograms of a Bernoulli text."""
    texts, weights = [f"w{i}" for i in range(200)], [(3 * i + 1) / 1024 for i in range(200)]
    model, whole = BernoulliNB(), BernoulliNB()
    _, partial = model.partial(texts, ["a", "b"] * 100, weights)
    whole.learn_many(texts, ["a", "b"] * 100, weights)
    for x in ("w0 w7", "w199", "none"):
        assert model.apply(partial).joint_log_likelihood(x) == whole.joint_log_likelihood(x)
        whole.learn_many(texts, ["a", "b"] * 100, weights)


def test_who_depends_on_the_order_of_events_says_what_to_do_instead():
    made = [
        one
        for one in (getattr(streamnb, name) for name in streamnb.__all__)
        if inspect.isclass(one) and issubclass(one, CountingModel) and not issubclass(one, NaiveBayes)
    ]
    assert made
    for one in made:
        for refused in (lambda: one().partial([], []), lambda: one().apply(None)):  # noqa: B023  called at once
            with pytest.raises(ValueError, match=rf"a {one.__name__} depends on .*learn_many.* NaiveBayes"):
                refused()


def test_other_models_and_budgets_of_memory_are_refused_and_change_nothing():
    _, partial = MultinomialNB(alpha=0.5).partial(["a b"], ["x"])
    bounded = MultinomialNB(alpha=0.5)
    bounded.keep_within(1 << 20)
    for model, named in (
        (MultinomialNB(), "same class and parameters"),
        (BernoulliNB(alpha=0.5), "same class and parameters"),
        (bounded, "memory budget"),
    ):
        model.learn_one("c", "y")
        before = bytes_of(model)
        with pytest.raises(ValueError, match=named):
            model.apply(partial)
        assert bytes_of(model) == before
    with pytest.raises(ValueError, match="same class and parameters"):
        merge_all([partial, MultinomialNB().partial(["a"], ["x"])[1]])


def written_bytes():
    model = taught([({"body": "w1 w2", "colour": "r"}, "a", 1.0)])
    return model.partial([{"body": "w1 a-word", "height": 2.0}], ["b"], ranges=[("p", 0, 1)])[1].to_bytes()


WRITTEN = written_bytes()


def test_bytes_are_what_they_were_at_first():
    """They may wait somewhere for a later version."""
    assert (
        hashlib.sha256(WRITTEN).hexdigest()
        == "91b1b7c922a44c61550a84210baefbdeb5d22d9e82a9356aae99233342b9eca2"
    )


@settings(max_examples=200)
@example(0, 0, 0)
@given(st.integers(0, len(WRITTEN) - 1), st.integers(0, 255), st.integers(0, len(WRITTEN)))
def test_written_bytes_are_refused(place, byte, length):
    for found in (WRITTEN[:place] + bytes([byte]) + WRITTEN[place + 1 :], WRITTEN[:length], WRITTEN + b"\0"):
        if found != WRITTEN:
            with pytest.raises(SnapshotError):
                Partial.from_bytes(found)


@pytest.mark.parametrize(
    ("made", "named"),
    [
        ({"BayesOptimalNB": {}}, "a BayesOptimalNB makes no partials"),
        ({"Popen": {"args": "ls"}}, "'Popen' is nothing"),
        ({"NaiveBayes": {"alpha": -1.0}}, "not a valid state of a partial"),
        ({"MultinomialNB": {}}, "not of a MultinomialNB"),
        (7, "makes no partials"),
    ],
)
def test_partials_of_no_model_are_refused(made, named):
    parts = {**decode(WRITTEN).parts, "classifier": SnapshotPart({"made": made}, {})}
    with pytest.raises(SnapshotError, match=named):
        Partial.from_bytes(encode(Snapshot(-1, "", {}, "", {}, parts)))


def swapped(array):
    return array[[1, 0, *range(2, array.size)]]


def test_one_partial_has_one_form():
    """What no `to_bytes` writes is refused, though it might be read as a partial."""
    _, partial = MultinomialNB().partial(["a b", "a"], ["x", "y"], ranges=[("p", 0, 2)])
    parts = decode(partial.to_bytes()).parts
    meta, arrays = parts["partial"]
    two = {name: swapped(arrays[name]) for name in ("table_classes", "table_weights")}
    for changed, named in (
        ((meta, arrays | two), "not in order"),
        ((meta, arrays | {"table_classes": arrays["table_classes"].astype(np.int64)}), "expected uint8"),
        ((meta, arrays | {"table_lengths": np.array([1, 1], dtype=np.uint8)}), "does not add up to the"),
        (({**meta, "ranges": [["p", 0, 1], ["p", 1, 2]]}, arrays), "not joined"),
        (({**meta, "ranges": [["p", 0, 1], ["p", 2, 3]]}, arrays), "1 to 1 are missing"),
        (({**meta, "tested": [1, 2, 0]}, arrays), "must be a number of events"),
    ):
        forged = encode(Snapshot(-1, "", {}, "", {}, {**parts, "partial": SnapshotPart(*changed)}))
        with pytest.raises(SnapshotError, match=named):
            Partial.from_bytes(forged)


def test_a_classifier_is_no_partial_and_a_partial_no_classifier(tmp_path):
    MultinomialNB().save(tmp_path / "model.snb")
    with pytest.raises(SnapshotError, match=r"not a partial: load it by streamnb\.load"):
        Partial.from_bytes((tmp_path / "model.snb").read_bytes())
    (tmp_path / "partial.snb").write_bytes(WRITTEN)
    with pytest.raises(SnapshotError, match="partial"):
        streamnb.load(tmp_path / "partial.snb")


def test_a_table_that_would_fill_the_memory_is_refused(monkeypatch):
    _, partial = MultinomialNB().partial(["a b c", "d"], ["x", "y"])
    encoded = partial.to_bytes()
    monkeypatch.setattr(partials, "_MOST_COUNTS", 7)
    for refused in (partial.to_bytes, lambda: Partial.from_bytes(encoded)):
        with pytest.raises(SnapshotError, match="4 words and values x 2 classes"):
            refused()
