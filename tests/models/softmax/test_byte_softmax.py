"""Softmax regression on runs of bytes: its oracle in a table in which all meet, its bounds, its states."""

from __future__ import annotations

import random
from copy import deepcopy

import numpy as np
import pytest

from streamnb import BayesOptimalNB, ByteSoftmax, Pool, Softmax
from streamnb.errors import SnapshotError
from streamnb.features.byte_ngrams import FIRST
from tests.models.mixture.test_learners import Watched, bytes_of
from tests.oracles.learner_oracle import ByteRegression

ONE = {"text": "text"}
SMALL = 8 * 40 * 64  # bytes: 64 buckets, one run of many to each


@pytest.mark.parametrize("memory", [SMALL, 2 * SMALL - 1, 2 * SMALL, 0])
def test_runs_and_classes_that_share_cells_are_the_oracles(memory, monkeypatch):
    monkeypatch.setattr(ByteRegression, "BUCKETS", 128 if memory == 2 * SMALL else 64)
    watched, rng = Watched([ByteSoftmax(), Pool(0.1)], tolerance=1e-4, memory=memory), random.Random(3)
    for t in range(150):
        y = rng.choice("abcdefghi"[: 2 + t // 12])
        text = f"{y * rng.randrange(1, 9)} {rng.random():.4f} {rng.choice(['Ab', 'É', 'Σ', ''])}"
        title = "".join(rng.choices("xyz! ", k=rng.randrange(12)))
        watched.meet({"text": text, "title": title} if t > 20 else {"text": text}, y, rng.choice([1, 0.5, 3]))


def test_a_table_for_two_classes_is_folded_as_a_third_one_comes(monkeypatch):
    """Records of two cells, 24 bytes, leave place for 256 buckets; of four cells, 40 bytes, for 128."""
    monkeypatch.setattr(ByteRegression, "BUCKETS", 256)
    watched, rng = Watched([ByteSoftmax(), Pool(0.1)], tolerance=1e-4), random.Random(4)
    grams = watched.model._learners.grams
    grams.keep_within(24 * 256, by_two=True)
    for t in range(120):
        label = rng.choice("abcdef"[: 2 + t // 40])
        if t == 40:
            assert (grams.bits, grams.is_to_fold(2), grams.is_to_fold(3)) == (8, False, True)
            grams.evict(3)
            watched.oracle.parts[0].fold()
            assert (grams.bits, grams.is_to_fold(3)) == (7, False)
        text = f"{label * rng.randrange(1, 9)} {rng.random():.4f} {rng.choice(['Ab', 'É', 'Σ', ''])}"
        watched.meet({"text": text}, label, rng.choice([1, 0.5, 3]))
        assert grams.n_bytes <= 24 * 256


def test_a_state_of_two_regressions_on_runs_is_what_it_was_copied_from():
    """In tables of many blocks."""
    hypotheses = [ByteSoftmax(), ByteSoftmax(rate=0.5, name="faster")]
    texts = [f"{n**3} of {n}" for n in range(200)]
    model = BayesOptimalNB(ONE, hypotheses)
    for n, text in enumerate(texts):
        model.learn_one({"text": text}, "abc"[n % 3])
    other = BayesOptimalNB(ONE, hypotheses).load_state(*model.state())
    assert bytes_of(other) == bytes_of(model)
    assert [probabilities(other, text) for text in texts] == [probabilities(model, text) for text in texts]


def test_it_is_folded_before_a_batch_is_learned_that_brings_a_third_one():
    """Kernels look at no bounds: runs are in the buckets of the table that there will be."""
    events = [({"text": f"{label} {n} {label * 3}"}, label) for n in range(300) for label in "abcd"]
    model = BayesOptimalNB(ONE, [ByteSoftmax()])
    grams = model._learners.grams
    grams.keep_within(24 << 8, by_two=True)
    model.learn_many(*zip(*[event for event in events if event[1] < "c"], strict=True))
    assert grams.bits == 8
    model.learn_many(*zip(*events, strict=True))
    assert (grams.bits, grams.n_bytes) == (7, 40 << 7)
    assert all(model.predict_one(x) == label for x, label in events[:4])


def probabilities(model, text):
    return model.predict_proba_one({"text": text})


def taught(*texts, first_bytes=FIRST, **parameters):
    model = BayesOptimalNB(ONE, [ByteSoftmax(first_bytes=first_bytes)], **parameters)
    for text, label in texts:
        model.learn_one({"text": text}, label)
    return model


@pytest.mark.parametrize("first", [FIRST, 50])
def test_what_comes_after_the_first_bytes_tells_nothing(first):
    head = ("some words " * first)[: first - 5]
    texts = [(head + tail, label) for tail, label in [("spam!", "spam"), ("ham..", "ham")]] * 9
    model = taught(*texts, first_bytes=first)
    asked = [probabilities(model, head + tail) for tail in ("spam!", "spam! ham..", "spam!\u20ac", "ham..")]
    assert asked[0] == asked[1] == asked[2] != asked[3]
    assert asked[0]["spam"] > 0.6 > asked[3]["spam"]


def test_it_sees_capitals_and_signs_which_words_do_not_have():
    events = [("FREE cash!!! now", "spam"), ("free cash now", "ham")] * 20
    model, by_words = taught(*events), BayesOptimalNB(ONE, [Softmax()])
    for text, label in events:
        by_words.learn_one({"text": text}, label)
    assert probabilities(model, "FREE cash!!! now")["spam"] > 0.8
    asked = [by_words.predict_proba_one({"text": text}) for text, _ in events[:2]]
    assert asked[0] == asked[1]


def test_memory_is_bounded_and_taken_when_there_is_a_text():
    model = BayesOptimalNB(None, [ByteSoftmax()])
    for n in range(30):
        model.learn_one({"size": n, "text": "abc"}, "ab"[n % 2])
    before = model.n_bytes
    assert model.state()[1]["learned_gram_bits"].tolist() == [0]
    model.predict_proba_one({"text": "a long text"})
    assert model.n_bytes == before
    rng, held = random.Random(1), model._learners.grams
    taken = []
    for label in "aabbc":  # c is the third
        model.learn_one({"text": "a long text"}, label)
        taken.append(held.n_bytes >> 20)
    assert taken == [12, 12, 12, 12, 20]
    for n in range(300):
        model.learn_one({"text": "".join(map(chr, rng.choices(range(32, 900), k=3000)))}, f"label {n % 70}")
    assert held.n_bytes == 20 << 20
    assert np.isfinite(held.tables.records).all()


def test_a_table_stays_as_large_as_it_was_made():
    model = taught(*[(f"text of {n}", "ab"[n % 2]) for n in range(9)], memory=SMALL)
    for memory in (256 << 20, 0):
        other = BayesOptimalNB(ONE, [ByteSoftmax()], memory=memory).load_state(*model.state())
        assert bytes_of(other) == bytes_of(model)
        for each in (other, copy := deepcopy(model)):
            each.learn_one({"text": "and one more"}, "c")
        assert bytes_of(other) == bytes_of(copy)
        assert probabilities(other, "text and more") == probabilities(copy, "text and more")


def test_a_state_is_of_one_number_of_bytes():
    events = [("text " * 900 + "win", "a"), ("lunch", "b")] * 3
    then = taught(*events, first_bytes=3000)
    meta, arrays = then.state()
    assert bytes_of(
        BayesOptimalNB(ONE, [ByteSoftmax(first_bytes=3000)]).load_state(meta, arrays)
    ) == bytes_of(then)
    with pytest.raises(ValueError, match="other learners"):
        BayesOptimalNB(ONE, [ByteSoftmax()]).load_state(meta, arrays)
    with pytest.raises(ValueError, match="the first 9 bytes or the first 2000, not both"):
        BayesOptimalNB(ONE, [ByteSoftmax(first_bytes=9), ByteSoftmax(name="other")])


def damaged():
    """(array, what is done to it) of states that no model wrote; kernels look at no bounds."""
    for name, value in [
        ("cells", -1), ("cells", 256), ("buckets", 64), ("buckets", -1), ("groups", 1), ("groups", -1),
        ("counts", -1.0), ("counts", np.inf), ("told", np.nan), ("told", 2e37), ("totals", -1.0),
        ("squares", -1.0), ("events", -1), ("events", (1 << 62) + 1), ("bits", 5), ("bits", 20), ("bits", 0), ("bits", -1),
    ]:  # fmt: skip
        yield name, lambda array, value=value: array.__setitem__((-1,) * array.ndim, value)
    for name in ("cells", "buckets"):
        yield name, lambda array: array.__setitem__(slice(None), array[::-1].copy())
        yield name, lambda array: array.__setitem__(1, array[0])


@pytest.mark.parametrize(("name", "damage"), [*damaged()])
def test_a_damaged_state_is_refused(name, damage):
    model = taught(*[(f"text of {n}", "ab"[n % 2]) for n in range(9)], memory=SMALL)
    meta, arrays = model.state()
    array = arrays[f"learned_gram_{name}"]
    damage(array)
    with pytest.raises(SnapshotError, match=r"learned_gram_|gram_"):
        BayesOptimalNB(ONE, [ByteSoftmax()], memory=SMALL).load_state(meta, arrays)
