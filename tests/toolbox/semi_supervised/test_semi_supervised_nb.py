"""Naive Bayes with some labels missing: EM, whole units, a window, and nothing else than a model of counts."""

from __future__ import annotations

import copy
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamnb import (
    BayesOptimalNB,
    BernoulliNB,
    CategoricalNB,
    GaussianNB,
    MultinomialNB,
    NaiveBayes,
    SemiSupervisedNB,
)
from streamnb.errors import SnapshotError, UnlearnError
from streamnb.toolbox.semi_supervised import responsibilities, semi_supervised_nb
from streamnb.toolbox.semi_supervised.em_window import apportioned
from tests.support.states import digest, through_a_snapshot

WORDS = [f"w{i}" for i in range(8)]
ALL = 10_000


def mixed(rng):
    """An event of two clusters, and its label."""
    k = int(rng.random() < 0.4)
    words = rng.choice(
        WORDS, size=4, p=np.array([[8, 4, 2, 2, 1, 1, 1, 1], [1, 1, 1, 1, 2, 2, 4, 8]][k]) / 20
    )
    x = {"text": " ".join(words), "colour": "red" if rng.random() < (0.7, 0.3)[k] else "blue"}
    if rng.random() < 0.9:
        x["size"] = float(np.round(rng.normal(3 * k), 3))
    return x, ("ham", "spam")[k]


def mixed_model():
    return NaiveBayes({"text": "text"})


events = st.lists(
    st.tuples(
        st.fixed_dictionaries(
            {},
            optional={
                "text": st.text("ab ", max_size=8),
                "n": st.sampled_from([0.0, -1.5, 3.25, 1e300, math.nan]),
                "colour": st.sampled_from(["red", "blue", None]),
            },
        ),
        st.sampled_from(["x", "y", "z", None]),
        st.sampled_from([0.0, 0.3, 1.0, 2.5]),
    ),
    max_size=25,
)


# -- whole units ------------------------------------------------------------------------------------------


@given(st.integers(0, 1 << 30), st.lists(st.floats(0, 1), min_size=1, max_size=30))
def test_parts_sum_to_the_weight_and_none_is_a_unit_away(weight, raw):
    total = math.fsum(raw)
    shares = [value / total for value in raw] if total > 1e-300 else [1.0] + [0.0] * (len(raw) - 1)
    parts = apportioned(weight, shares)
    assert sum(parts) == weight
    for part, share in zip(parts, shares, strict=True):
        assert type(part) is int
        assert abs(part - weight * share) < 1.0 + 1e-15 * weight
        assert part == 0 or share > 0.0


def test_what_is_left_goes_to_the_largest_remainders():
    assert apportioned(3, [0.5, 0.3, 0.2]) == (1, 1, 1)
    assert apportioned(4, [0.5, 0.2, 0.3]) == (2, 1, 1)
    assert apportioned(1, [0.5, 0.5]) == (1, 0)  # of equals the first met
    assert apportioned(0, [1.0]) == (0,)


# -- labels one to one ------------------------------------------------------------------------------------


@given(events, st.sampled_from([0.0, 1.0]))
def test_with_all_labels_or_without_weight_it_is_the_model_bit_for_bit(stream, unlabelled_weight):
    plain, model = mixed_model(), SemiSupervisedNB(mixed_model(), unlabelled_weight)
    for x, y, w in stream:
        if y is not None or unlabelled_weight == 0.0:
            plain.learn_one(x, y, w)
            model.learn_one(x, y, w)
            assert model.predict_proba_one(x) == plain.predict_proba_one(x)
    assert digest(model.model) == digest(plain)
    assert model.n_unlabelled == 0


# -- EM ---------------------------------------------------------------------------------------------------


def batch_em(matrix, labels, shares, weight, rounds=2000):
    """Multinomial EM with alpha = 1 in numpy: rows x words, -1 for no label, and the first shares of those."""
    hidden = labels < 0
    R = np.zeros((len(labels), 2))
    R[~hidden, labels[~hidden]] = 1.0
    R[hidden] = shares * weight
    for _ in range(rounds):
        counts = R.T @ matrix
        log_word = np.log(counts + 1.0) - np.log((counts + 1.0).sum(axis=1, keepdims=True))
        joint = np.log(R.sum(axis=0)) - np.log(R.sum()) + matrix[hidden] @ log_word.T
        fresh = np.exp(joint - joint.max(axis=1, keepdims=True))
        R[hidden] = weight * fresh / fresh.sum(axis=1, keepdims=True)
    return R[hidden] / weight


@pytest.mark.parametrize("weight", [1.0, 0.25])
@pytest.mark.parametrize("seed", range(4))
def test_many_rounds_end_where_batch_em_does(seed, weight):
    rng = np.random.default_rng(seed)
    stream = [mixed(rng) for _ in range(120)]
    texts = [x["text"] for x, _ in stream]
    labels = np.array([("ham", "spam").index(y) if i < 24 else -1 for i, (_, y) in enumerate(stream)])
    model = SemiSupervisedNB(MultinomialNB(), weight, window=ALL, revisits=0)
    for text, label in zip(texts, labels, strict=True):
        model.learn_one(text, None if label < 0 else ("ham", "spam")[label])
    shares = np.array([[r["ham"], r["spam"]] for r in ordered(model)])
    matrix = np.array([[text.split().count(word) for word in WORDS] for text in texts], dtype=float)
    for _ in range(300):
        if not model.revisit():
            break
    else:
        pytest.fail("EM has not converged")
    expected = batch_em(matrix, labels, shares, weight)
    # A unit is 1/1024 of an event; the rounding of all events moves the fixed point by a few of them.
    assert np.abs(np.array([[r["ham"], r["spam"]] for r in ordered(model)]) - expected).max() < 8 / (
        1024 * weight
    )
    assert np.abs(shares - expected).max() > 0.05  # there was a way to go


def ordered(model):
    return [{"ham": r.get("ham", 0.0), "spam": r.get("spam", 0.0)} for r in model.responsibilities()]


@given(st.integers(0, 1000))
@settings(max_examples=15)
def test_a_fixed_point_is_expectation_and_counts_at_once(seed):
    """Each share is P(c | x) to a unit, and the model is the labelled events and these shares, bit for bit."""
    rng = np.random.default_rng(seed)
    model, recount = SemiSupervisedNB(NaiveBayes({"text": "text"}), 1.0, ALL), NaiveBayes({"text": "text"})
    hidden = []
    for i in range(40):
        x, y = mixed(rng)
        x.pop("size", None)  # moments are exact to rounding alone
        model.learn_one(x, y if i < 8 else None)
        recount.learn_one(x, y if i < 8 else None)
        hidden += [x] if i >= 8 else []
    for _ in range(200):
        if not model.revisit():
            break
    else:
        pytest.fail("EM has not converged")
    for x, shares in zip(hidden, model.responsibilities(), strict=True):
        expected = model.predict_proba_one(x)
        assert math.fsum(shares.values()) == 1.0
        for label, share in shares.items():
            assert abs(share - expected[label]) < 1 / 1024
            recount.learn_one(x, label, share)
    assert recount.class_weights == model.class_weights
    assert recount.class_counts("text") == model.statistics.class_counts("text")
    assert recount.class_counts("colour") == model.statistics.class_counts("colour")


@pytest.mark.parametrize("form", [MultinomialNB, BernoulliNB, CategoricalNB, GaussianNB])
def test_every_form_can_be_taught(form):
    value = {
        MultinomialNB: lambda k, i: f"w{k} v{i % 3}",
        BernoulliNB: lambda k, i: {f"w{k}": 1, f"v{i % 3}": 1},
        CategoricalNB: lambda k, i: {"a": f"w{k}", "b": i % 3 == 0},
        GaussianNB: lambda k, i: {"a": 4.0 * k + (i * 7 % 5) / 5, "b": float(i % 3)},
    }[form]
    model = SemiSupervisedNB(form(), 1.0, 50)
    for i in range(8):
        model.learn_one(value(i % 2, i), i % 2)
    for i in range(60):
        model.learn_one(value(i % 2, i), None)
    for i, shares in enumerate(model.responsibilities()):
        assert max(shares, key=shares.__getitem__) == i % 2
    assert sum(model.class_weights.values()) == 8 + 50


def test_free_energy_never_falls():
    """Neal and Hinton (1998): every step climbs, or stays, but for the rounding of one event."""
    rng = np.random.default_rng(5)
    stream = [mixed(rng) for _ in range(60)]
    model = SemiSupervisedNB(MultinomialNB(), 1.0, ALL, revisits=0)
    for i, (x, y) in enumerate(stream):
        model.learn_one(x["text"], y if i < 6 else None)

    def free_energy():
        """Penalised by the prior that alpha = 1 is: Dirichlet(2)."""
        hidden = math.fsum(model.log_evidence_one(x["text"]) for x, _ in stream[6:])
        seen = math.fsum(model.joint_log_likelihood(x["text"])[y] for x, y in stream[:6])
        counts, words = model.statistics.class_counts("text"), model.n_attributes
        prior = 0.0
        for label in model.classes:
            total = sum(by_class.get(label, 0.0) for by_class in counts.values()) + words
            prior += math.fsum(math.log((c.get(label, 0.0) + 1) / total) for c in counts.values())
        return hidden + seen + prior

    energies = [free_energy()]
    for _ in range(12):
        model.revisit()
        energies.append(free_energy())
    assert np.diff(energies).min() > -0.01
    assert energies[-1] > energies[0] + 0.1


# -- the window -------------------------------------------------------------------------------------------


@given(events, st.integers(1, 4), st.integers(0, 3))
@settings(max_examples=60)
def test_what_has_left_the_window_is_taken_out_exactly(stream, window, revisits):
    """The counts are those of the labelled events, and of the window as it is learned."""
    model = SemiSupervisedNB(mixed_model(), 1.0, window, revisits)
    recount = mixed_model()
    for x, y, w in stream:
        model.learn_one(x, y, w)
        recount.learn_one(x, y, w)
    assert model.n_kept <= window
    for event in model._kept:
        assert sum(event.parts) in {0, event.weight}
        for label, part in zip(model.classes, event.parts, strict=False):
            recount.learn_one(event.x, label, part / 1024)
    assert {k: w for k, w in model.class_weights.items() if w} == {
        k: w for k, w in recount.class_weights.items() if w
    }
    for name in ("text", "colour"):
        assert positive(model.model, name) == positive(recount, name)


def positive(model, name):
    """Counts above zero."""
    try:
        counts = model.class_counts(name)
    except KeyError:
        return {}
    found = {word: {k: c for k, c in by.items() if c} for word, by in counts.items()}
    return {word: by for word, by in found.items() if by}


def test_without_a_window_each_is_learned_once_and_stays():
    model, expected = SemiSupervisedNB(MultinomialNB(), 0.5, None, 9), MultinomialNB()
    for m in (model, expected):
        m.learn_one("cash", "spam")
        m.learn_one("lunch", "ham")
    for text in ["cash prize", "prize"]:
        p = expected.predict_proba_one(text)["spam"]
        part = round(512 * p)
        model.learn_one(text, None)
        expected.learn_one(text, "spam", part / 1024)
        expected.learn_one(text, "ham", (512 - part) / 1024)
    assert digest(model.model) == digest(expected)
    assert (model.n_kept, model.n_unlabelled, model.revisit()) == (0, 2, 0)


def test_turns_go_round_from_the_oldest(monkeypatch):
    model = SemiSupervisedNB(CategoricalNB(), 1.0, 3, revisits=0)
    turns = []
    for module in (semi_supervised_nb, responsibilities):
        monkeypatch.setattr(
            module,
            "expected_parts",
            lambda own, x, weight: turns.append(x["a"]) or (weight,) * (len(own.classes) > 0),
        )
    for i in range(3):
        model.learn_one({"a": i}, None)
    turns.clear()
    model.revisit(2)
    model.learn_one({"a": 3}, None)  # 0 leaves
    model.revisit(2)
    model.revisit(9)
    assert turns == [0, 1, 3, 2, 3, 1, 2, 3]


def test_events_before_any_label_are_learned_when_there_are_classes():
    model = SemiSupervisedNB(MultinomialNB(), 1.0)
    model.learn_one("cash prize", None)
    assert model.predict_proba_one("cash") == {}
    assert model.responsibilities() == [{}]
    model.learn_one("cash", "spam")
    assert model.responsibilities() == [{"spam": 1.0}]
    assert model.class_weights == {"spam": 2.0}
    model.learn_one("lunch", "ham")  # a class that the event did not know has its share in the next turn
    shares = model.responsibilities()[0]
    assert 0.0 < shares["ham"] < shares["spam"]


# -- unlearning, merging, pruning -------------------------------------------------------------------------


@given(events, st.integers(0, 2))
@settings(max_examples=40)
def test_learn_then_unlearn_is_nothing(stream, window_spare):
    """Of one more unlabelled event, without a turn of others between."""
    model = SemiSupervisedNB(mixed_model(), 1.0, len(stream) + 1 + window_spare, revisits=0)
    for x, y, w in stream:
        model.learn_one({name: v for name, v in x.items() if name != "n"}, y, w)
    model.learn_one({"text": "a b", "colour": "red"}, "x")
    before = digest(model)
    model.learn_one({"text": "a b", "colour": "red"}, None, 2.5)
    assert digest(model) != before
    model.unlearn_one({"text": "a b", "colour": "red"}, None, 2.5)
    assert digest(model) == before


def test_what_cannot_be_unlearned_is_refused_and_changes_nothing():
    model = SemiSupervisedNB(NaiveBayes(), 1.0, 1)
    model.learn_one({"a": "x"}, 1)
    model.learn_one({"a": True}, None)
    before = digest(model)
    for x, y, w in [
        ({"a": "y"}, 1, 1.0),
        ({"a": "x"}, None, 1.0),
        ({"a": True}, None, 2.0),
        ({"a": 1}, None, 1.0),
    ]:
        with pytest.raises(UnlearnError):
            model.unlearn_one(x, y, w)
    assert digest(model) == before
    model.unlearn_one({"a": True}, None)
    model.unlearn_one({"a": "x"}, 1)
    assert (model.n_labelled, model.n_unlabelled, model.class_weights) == (0, 0, {1: 0.0})


def test_pruning_empties_the_window():
    model, plain = SemiSupervisedNB(MultinomialNB(), 1.0), MultinomialNB()
    for m in (model, plain):
        m.learn_one("a a b", 1)
        m.learn_one("c c d", 0)
    for text in ["a b e", "c e e", "zz"]:
        model.learn_one(text, None)
    assert model.prune(min_count=2.0) == plain.prune(min_count=2.0) + 0
    assert model.n_kept == 0
    assert positive(model.model, "text") == positive(plain, "text") == {"a": {1: 2.0}, "c": {0: 2.0}}
    model.learn_one("a b e", None)
    assert sum(model.class_weights.values()) == 3.0


# -- evidence ---------------------------------------------------------------------------------------------


def test_parameters_are_those_of_labels_and_expected_labels():
    model = SemiSupervisedNB(CategoricalNB(), unlabelled_weight=1.0)
    for wind, label in [("weak", "yes"), ("strong", "no"), ("weak", None), ("strong", None)]:
        model.learn_one({"wind": wind}, label)
    shares = [one["yes"] for one in model.responsibilities()]
    weak = 1.0 + sum(share for share, wind in zip(shares, ("weak", "strong"), strict=True) if wind == "weak")
    own = model.parameters()
    assert own.prior["yes"] == pytest.approx((1.0 + sum(shares)) / 4.0)
    assert own.discrete["wind"].table["yes"]["weak"] == pytest.approx(
        (weak + 1.0) / (1.0 + sum(shares) + 2.0)
    )
    assert model.n_parameters == 3


def test_log_evidence_sums_the_components():
    rng = np.random.default_rng(1)
    model = SemiSupervisedNB(mixed_model())
    assert model.log_evidence_one({"text": "w1"}) == -math.inf
    for i in range(50):
        x, y = mixed(rng)
        model.learn_one(x, y if i % 3 == 0 else None)
    for _ in range(10):
        x, _ = mixed(rng)
        joints = np.array(list(model.model.joint_log_likelihood(x).values()))
        assert model.log_evidence_one(x) == pytest.approx(np.logaddexp.reduce(joints), rel=1e-14)
    assert model.log_evidence_one({"text": "w1 " * 3000}) < -1000  # and not log 0
    assert model.log_evidence_one({}) == pytest.approx(0.0, abs=1e-15)


def test_evidence_of_what_every_class_rules_out():
    model = SemiSupervisedNB(CategoricalNB(alpha=0))
    model.learn_one({"a": "x", "b": "u"}, 0)
    model.learn_one({"a": "y", "b": "v"}, 1)
    assert model.log_evidence_one({"a": "x", "b": "v"}) == -math.inf
    model.learn_one({"a": "x", "b": "v"}, None)
    assert sum(model.class_weights.values()) == pytest.approx(2.0, abs=0.11)
    assert math.fsum(model.predict_proba_one({"a": "x", "b": "v"}).values()) == pytest.approx(1.0)


# -- state ------------------------------------------------------------------------------------------------


@given(events, events, st.sampled_from([1, 3, None]))
@settings(max_examples=40)
def test_restart_is_no_restart(first, second, window):
    model = SemiSupervisedNB(mixed_model(), 1.0, window, 2)
    for x, y, w in first:
        model.learn_one(x, y, w)
    loaded = SemiSupervisedNB(mixed_model(), 1.0, window, 2).load_state(*through_a_snapshot(model))
    assert digest(loaded) == digest(model)
    for x, y, w in second:
        model.learn_one(x, y, w)
        loaded.learn_one(x, y, w)
    assert digest(loaded) == digest(model)


@pytest.mark.parametrize(
    "x",
    [
        {"n": 3, "m": 3.0, "b": True, "t": "é \x00 \U0001f600", "bag": {"a": 2, "b": 0.5}, 7: 1.5, True: "x"},
        {"n": np.int32(4), "m": np.float64(0.1), "b": np.bool_(False), "gone": None, "nan": math.nan},
        {"n": 10**5000, "m": -(10**5000), "h": 1e300, "i": 10**40},
        {},
    ],
)
def test_events_come_back_as_they_went(x):
    def taught():
        model = SemiSupervisedNB(NaiveBayes({"bag": "text", "t": "text"}), 1.0)
        model.learn_one({"n": 1, "m": 2, "b": True, "t": "x"}, "yes")
        model.learn_one({"n": 7, "m": 1}, "no")
        return model

    model = taught()
    model.learn_one(x, None)
    loaded = taught().load_state(*through_a_snapshot(model))
    assert list(loaded._kept) == list(model._kept)
    assert digest(loaded) == digest(model)
    for one in (loaded, model):
        one.revisit()
        one.unlearn_one(x, None)
    assert digest(loaded) == digest(model)


def test_the_owner_of_an_event_may_go_on_with_it():
    model = SemiSupervisedNB(MultinomialNB(), 1.0)
    model.learn_one({"a": 1}, 1)
    x = {"a": 1, "text": {"a": 2}}
    model.learn_one(x, None)
    x["a"] = 5
    x["text"]["a"] = 7
    assert next(iter(model._kept)).x == {"a": 1, "text": {"a": 2}}


def spoiled(**arrays):
    model = SemiSupervisedNB(MultinomialNB(), 1.0)
    model.learn_one("a", 1)
    model.learn_one("b", None)
    meta, found = model.state()
    return meta, {**found, **{f"kept_{name}": array for name, array in arrays.items()}}


@pytest.mark.parametrize(
    "arrays",
    [
        {"parts": np.array([[5]])},
        {"parts": np.array([[-1024]])},
        {"parts": np.zeros((1, 2), dtype=np.int64)},
        {"weights": np.array([1024, 1])},
        {"ends": np.array([2])},
        {"events": np.frombuffer(b"{,}", dtype=np.uint8)},
    ],
)
def test_a_damaged_window_is_refused_and_changes_nothing(arrays):
    model = SemiSupervisedNB(MultinomialNB(), 1.0)
    model.learn_one("z", 0)
    before = digest(model)
    with pytest.raises(SnapshotError):
        model.load_state(*spoiled(**arrays))
    assert digest(model) == before


def test_states_of_others_are_refused():
    model = SemiSupervisedNB(MultinomialNB())
    with pytest.raises(ValueError, match="the state of a MultinomialNB"):
        model.load_state(*MultinomialNB().state())
    with pytest.raises(ValueError, match="with the window 7, not 200"):
        model.load_state(*SemiSupervisedNB(MultinomialNB(), window=7).state())
    meta, arrays = model.state()
    with pytest.raises(SnapshotError, match="next: expected an integer from 0 to 0, found 9"):
        model.load_state({**meta, "kept": {"next": 9}}, arrays)


def test_a_name_that_no_snapshot_can_hold():
    model = SemiSupervisedNB(NaiveBayes(), 1.0)
    model.learn_one({"a": 1}, 1)
    model.learn_one({("a", "b"): 1}, None)
    with pytest.raises(TypeError):
        model.state()


def test_copies_and_clones():
    model = SemiSupervisedNB(MultinomialNB(), 1.0, 5)
    model.learn_one("a", 1)
    model.learn_one("b", None)
    assert digest(copy.deepcopy(model)) == digest(model)
    assert digest(model.clone(include_attributes=True)) == digest(model)
    assert model.clone().n_labelled == 0


# -- refusals ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "parameters",
    [
        {"unlabelled_weight": -0.1},
        {"unlabelled_weight": 1.5},
        {"unlabelled_weight": math.nan},
        {"window": 0},
        {"window": -1},
        {"revisits": -1},
    ],
)
def test_parameters_out_of_range(parameters):
    with pytest.raises(ValueError, match=next(iter(parameters))):
        SemiSupervisedNB(NaiveBayes(), **parameters)


def test_a_model_that_cannot_unlearn():
    with pytest.raises(ValueError, match="BayesOptimalNB"):
        SemiSupervisedNB(BayesOptimalNB())


@pytest.mark.parametrize("y", [None, "x"])
def test_a_bad_event_teaches_nothing(y):
    model = SemiSupervisedNB(GaussianNB(), 1.0)
    for _ in range(2):  # with an empty model, and with one that has classes
        before = digest(model)
        with pytest.raises(TypeError, match="'a'"):
            model.learn_one({"a": "text"}, y)
        with pytest.raises(ValueError, match="weight"):
            model.learn_one({"a": 1.0}, y, -1.0)
        assert digest(model) == before
        model.learn_one({"a": 1.0}, "x")


@pytest.mark.thorough
def test_a_long_stream_without_labels_stays_finite():
    rng = np.random.default_rng(2)
    model = SemiSupervisedNB(mixed_model(), 1.0, 20, 5)
    for i in range(3000):
        x, y = mixed(rng)
        x["size"] = x.get("size", 0.0) * 1e150 if i % 50 == 0 else x.get("size")
        model.learn_one(x, y if i < 10 else None)
    assert sum(model.class_weights.values()) == 30.0
    probabilities = model.predict_proba_one({"text": "w0 w7", "size": 1.0})
    assert all(math.isfinite(p) for p in probabilities.values())
    assert math.fsum(probabilities.values()) == pytest.approx(1.0, abs=1e-12)
