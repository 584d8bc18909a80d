"""Histograms of the counts of Bernoulli texts: what they hold, wherever in them a count stands."""

import math
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from streamnb import BernoulliNB
from streamnb.kernels.jit import kernel
from streamnb.models.naive_bayes.joint_log_likelihood import log_absent
from streamnb.statistics.histograms import (
    Histograms,
    has_capacity,
    highest_count,
    histogram_move,
    histograms_of,
    resized,
    widened,
)
from streamnb.values.example_weights import UNIT

# Weights that meet often (examples), seldom (halves and others), and above all places there are (heavy ones).
CHANGES = st.one_of(
    st.integers(-40, 40).map(lambda n: n * UNIT), st.integers(-2500, 2500), st.just(10**6 * UNIT + 1)
)
MOVES = st.lists(st.tuples(st.integers(0, 9), CHANGES), max_size=80)


def texts_held(histograms):
    """Of how many texts a word's count has a place of its own."""
    return histograms.exact.shape[1] - 1


@kernel
def move(histograms, b, old, new):
    histogram_move(
        histograms.exact,
        histograms.occupied,
        histograms.weight,
        histograms.words,
        histograms.used,
        histograms.positive,
        b,
        old,
        new,
    )


@kernel
def absent(histograms, b, n, s, rest, floor):
    return log_absent(histograms, b, n, s, rest, floor)


@kernel
def room(histograms, slot, texts, k, most):
    return has_capacity(histograms, slot, texts, k, most)


def moved(moves, b, histograms):
    """The histograms after these moves, and the counts of the words."""
    counts = Counter()
    for word, change in moves:
        old, new = counts[word], max(0, counts[word] + change)
        move(histograms, b, old, new)
        counts[word] = new
    return histograms, [count for count in counts.values() if count > 0]


def held(histograms, b):
    """Count -> words, read from the arrays."""
    size = histograms.used[b]
    weight, words = histograms.weight[b, :size].tolist(), histograms.words[b, :size].tolist()
    assert weight == sorted(set(weight))
    exact = np.flatnonzero(histograms.exact[b])
    bits = [
        64 * i + j
        for i, word in enumerate(histograms.occupied[b].tolist())
        for j in range(64)
        if word >> j & 1
    ]
    assert bits == exact.tolist()
    found = Counter(dict(zip(weight, words, strict=True)))
    assert not any(count % UNIT == 0 and count // UNIT < histograms.exact.shape[1] for count in found)
    return found + Counter({int(at) * UNIT: int(histograms.exact[b, at]) for at in exact})


@given(MOVES, st.integers(0, 2))
@example([(0, 63 * UNIT), (1, 64 * UNIT), (2, 63 * UNIT + 512)], 0)
def test_a_histogram_is_how_many_words_have_which_count(moves, b):
    histograms, counts = moved(moves, b, Histograms.empty(3, 64, 12))
    assert held(histograms, b) == Counter(counts)
    assert histograms.positive.tolist() == [len(counts) if i == b else 0 for i in range(3)]
    assert [held(histograms, i) for i in range(3) if i != b] == [Counter(), Counter()]
    assert highest_count(histograms, b) == max(counts, default=0)


@given(MOVES, st.sampled_from([0, 63, 64, 200, 10**7]))
@example([(word, 17 * (word + 1) * UNIT + word % 4 // 3 * 7) for word in range(10)], 200)
def test_where_a_count_stands_changes_nothing_of_what_absence_says(moves, texts):
    """Moved one by one into few places, given more places later, or made at once: the same bits.

    The last bits of a product near 1 are seen in its logarithm, where the total is just below a power of two.
    """
    histograms, counts = moved(moves, 1, Histograms.empty(2, 64, 12))
    totals = [max(counts, default=0) + 3 * UNIT, *((1 << power) - UNIT - 1 for power in range(34, 44))]
    said = [absent(histograms, 1, n, 512.0, 512.0, 1.0) for n in totals]
    wider = resized(histograms, 2, 12, texts)
    at_once = histograms_of(
        [(np.zeros(0, dtype=np.int64),) * 2, np.unique(np.array(counts, dtype=np.int64), return_counts=True)],
        texts,
    )
    for other in (wider, at_once):
        assert held(other, 1) == Counter(counts)
        assert [absent(other, 1, n, 512.0, 512.0, 1.0) for n in totals] == said
        assert highest_count(other, 1) == max(counts, default=0)
        assert texts_held(other) >= min(texts, 10**6)


@given(st.lists(st.tuples(st.integers(1, 400), st.integers(1, 6)), max_size=60), st.booleans())
def test_absence_is_the_product_of_all_its_factors(words, halves):
    """Against fractions: exact but for the last logarithm. One in two words has half an example more."""
    counts = [
        count * UNIT + (halves and i % 2) * UNIT // 2 for i, (count, n) in enumerate(words) for _ in range(n)
    ]
    found = np.unique(np.array(counts, dtype=np.int64), return_counts=True)
    n, s = 401 * UNIT, UNIT // 4
    said, misses = absent(histograms_of([found], 64), 0, n, float(s), float(s), 1.0)
    product = math.prod((Fraction(n - count + s, n + 2 * s) for count in counts), start=Fraction(1))
    expected = math.log(product.numerator) - math.log(product.denominator)
    assert said == pytest.approx(expected, rel=1e-12, abs=1e-13)
    assert misses == 0


def test_there_is_room_until_a_text_could_lack_a_place():
    """Columns for counts without a place, and places for as many texts as a class has, but for very many."""
    histograms, slot = Histograms.empty(2, 64, 8), np.array([-1, 0])
    texts = np.array([[10**9 * UNIT, 0], [62 * UNIT, 5]])
    assert room(histograms, slot, texts, 0, 8)
    assert not room(histograms, slot, texts, 0, 9)
    texts[1, 0] = 63 * UNIT
    assert not room(histograms, slot, texts, 0, 8)
    assert room(histograms, slot, texts, 1, 8)
    wider = resized(histograms, 2, 8, 63)
    assert texts_held(wider) == 127
    assert room(wider, slot, texts, 0, 8)
    texts[1, 0] = 10**9 * UNIT
    widest = resized(histograms, 2, 8, 10**9)
    assert widest.exact.size == 1 << 22
    assert room(widest, slot, texts, 0, 8)


def test_a_long_stream_predicts_as_a_model_that_was_loaded_from_it():
    """Places grow with the texts of a stream; a loaded model has all of them at once."""
    rng = np.random.default_rng(3)
    texts = [" ".join(f"w{i}" for i in np.flatnonzero(rng.random(40) < 0.3)) for _ in range(700)]
    model = BernoulliNB()
    for start in range(0, 700, 70):
        model.learn_many(
            texts[start : start + 70], ["even", "odd"] * 35, rng.choice([1.0, 0.5, 2.25], 70).tolist()
        )
    loaded = BernoulliNB().load_state(*model.state())
    assert loaded.state()[0] == model.state()[0]
    one, other = (each.predict_then_learn_many(texts, ["odd", "even"] * 350) for each in (model, loaded))
    assert one.probabilities.tobytes() == other.probabilities.tobytes()
    assert texts_held(model.statistics.counts.histograms) > 700


@settings(max_examples=25)
@given(MOVES, st.sampled_from([4, 20, 5000]), st.integers(0, 5))
def test_more_classes_take_nothing_from_those_there_are(moves, wider, b):
    """With as many places as there are for two histograms; thousands get so few that some counts lose theirs.

    Of two groups and three classes.
    """
    histograms, counts = moved(moves, b, Histograms.empty(6, 1 << 16, 12))
    n = max(counts, default=0) + UNIT
    said = absent(histograms, b, n, 512.0, 512.0, 1.0)
    after, there = widened(histograms, 3, wider), b // 3 * wider + b % 3
    assert held(after, there) == Counter(counts)
    assert absent(after, there, n, 512.0, 512.0, 1.0) == said
    assert after.positive.tolist() == [len(counts) if i == there else 0 for i in range(2 * wider)]
    assert after.exact.size <= max(1 << 22, 64 * 2 * wider)
