"""The structured perceptron: its rule written out, its search against all sequences, and what it learns."""

from __future__ import annotations

from itertools import pairwise, product

import numpy as np
import pytest

from streamnb import HiddenMarkovModel, StructuredPerceptron
from streamnb.errors import SnapshotError
from tests.support.states import digest

TAGS = "XYZ"


def features(xs, path):
    """All features of a tagged sequence, one for each occurrence."""
    found = [("first", path[0]), *(("next", *pair) for pair in pairwise(path))]
    return found + [("seen", f, state) for x, state in zip(xs, path, strict=True) for f in x]


def sequences(n, seed=0):
    rng = np.random.default_rng(seed)
    for _ in range(n):
        length = int(rng.integers(1, 5))
        xs = [[f"f{i}" for i in rng.integers(0, 6, size=2)] for _ in range(length)]
        yield xs, [TAGS[int(rng.integers(3))] for _ in range(length)]


def by_hand(stream, is_averaged):
    """The perceptron over all sequences of states; the mean of the weights after each sequence."""
    weights, total, n, states = {}, {}, 0, []
    for xs, path in stream:
        states += [s for s in dict.fromkeys(path) if s not in states]
        best = max(
            (tuple(-states.index(s) for s in reversed(p)), p) for p in product(states, repeat=len(xs))
            if score(weights, xs, p) == max(score(weights, xs, q) for q in product(states, repeat=len(xs)))
        )[1]  # fmt: skip
        if list(best) != path:
            for sign, own in ((1, path), (-1, best)):
                for f in features(xs, own):
                    weights[f] = weights.get(f, 0) + sign
        n += 1
        for f, w in weights.items():
            total[f] = total.get(f, 0) + w
    return {f: w / n for f, w in total.items()} if is_averaged else weights


def score(weights, xs, path):
    return sum(weights.get(f, 0) for f in features(xs, path))


@pytest.mark.parametrize("is_averaged", [False, True])
def test_its_weights_are_those_of_the_rule(is_averaged):
    stream = list(sequences(60))
    model = StructuredPerceptron(is_averaged)
    for xs, path in stream:
        model.learn_one(xs, path)
    weights = by_hand(stream, is_averaged)
    for before, row in model.transition_weights().items():
        for after, w in row.items():
            key = ("first", after) if before is None else ("next", before, after)
            assert w == pytest.approx(weights.get(key, 0), abs=1e-9)
    for f, row in model.feature_weights().items():
        for state, w in row.items():
            assert w == pytest.approx(weights.get(("seen", f, state), 0), abs=1e-9)
    for xs, _ in sequences(20, seed=1):
        found = model.predict_one(xs)
        best = max(score(weights, xs, p) for p in product(TAGS, repeat=len(xs)))
        assert score(weights, xs, found) == pytest.approx(best, abs=1e-9)


def test_separable_sequences_are_learned_without_a_mistake():
    """Tags that depend on the neighbours: x after x is Y, any other x is X."""
    rng = np.random.default_rng(3)
    model, mistakes = StructuredPerceptron(), []
    for _ in range(400):
        word = "".join(rng.choice(list("xo"), size=6))
        tags = ["O" if c == "o" else "Y" if i and word[i - 1] == "x" else "X" for i, c in enumerate(word)]
        before = model.n_mistakes
        model.learn_one([[c, f"after {word[i - 1] if i else '^'}:{c}"] for i, c in enumerate(word)], tags)
        mistakes.append(model.n_mistakes > before)
    assert sum(mistakes[:50]) > 3
    assert sum(mistakes[200:]) == 0


def test_overlapping_features_help_where_words_are_not_independent():
    """The last letter decides a tag, words are rare: counts of words alone know little of new words."""
    rng = np.random.default_rng(4)

    def sentence():
        words = [
            "".join(rng.choice(list("abcdefgh"), size=3)) + str(rng.choice(["s", "t"])) for _ in range(5)
        ]
        return words, ["N" if word[-1] == "s" else "V" for word in words]

    perceptron, chain, right = StructuredPerceptron(), HiddenMarkovModel(), np.zeros(2)
    for i in range(200):
        words, tags = sentence()
        observations = [[word, "-" + word[-1]] for word in words]
        if i >= 150:
            right += [
                sum(a == b for a, b in zip(found, tags, strict=True))
                for found in (perceptron.predict_one(observations), chain.viterbi(words).states)
            ]
        perceptron.learn_one(observations, tags)
        chain.learn_one(words, tags)
    assert right[0] == 250
    assert right[1] < 200


def test_missing_and_unknown_observations_add_nothing():
    model = StructuredPerceptron()
    for xs, path in sequences(30):
        model.learn_one(xs, path)
    xs = [["f1"], ["f2", "f3"]]
    assert model.predict_one([["f1", None], ["f2", "never", "f3", float("nan")]]) == model.predict_one(xs)
    assert len(model.predict_one([None, None])) == 2
    assert StructuredPerceptron().predict_one(["a"]) == []
    assert model.predict_one([]) == []
    model.learn_one([], [])


@pytest.mark.parametrize(
    ("xs", "path", "error"),
    [(["a"], [], ValueError), (["a"], [None], ValueError), ([[{}]], ["X"], TypeError)],
)
def test_a_wrong_sequence_is_refused_and_changes_nothing(xs, path, error):
    model = StructuredPerceptron()
    before = digest(model)
    with pytest.raises(error):
        model.learn_one(xs, path)
    assert digest(model) == before


def test_a_restored_state_continues_alike():
    stream = list(sequences(50))
    model = StructuredPerceptron()
    for xs, path in stream[:25]:
        model.learn_one(xs, path)
    again = StructuredPerceptron().load_state(*model.state())
    for xs, path in stream[25:]:
        model.learn_one(xs, path)
        again.learn_one(xs, path)
    assert digest(model) == digest(again)
    with pytest.raises(SnapshotError, match="only 2"):
        StructuredPerceptron(features=2).load_state(*model.state())


def test_later_features_than_the_maximum_are_ignored():
    model = StructuredPerceptron(features=2)
    for _ in range(4):
        model.learn_one([["a", "b", "c"]], ["X"])
        model.learn_one([["c", "d"]], ["Y"])
    assert set(model.feature_weights()) == {"a", "b"}
