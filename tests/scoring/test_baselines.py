"""Scores of guessing, against scikit-learn's on the same guesses and by plain counting."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from sklearn.metrics import accuracy_score, cohen_kappa_score

from streamnb.scoring.baselines import Baselines, LateTruths
from streamnb.scoring.revisable_scores import scored

pytestmark = pytest.mark.early(20)


def guesses_of(truths):
    """Yield the most frequent class so far, the first to reach its number, and the label before."""
    counts, top, last = Counter(), -1, -1
    for truth in truths:
        yield top, last
        counts[truth] += 1
        top = truth if top == -1 or counts[truth] > counts[top] else top
        last = truth


@pytest.mark.parametrize("classes", [1, 2, 5])
def test_the_scores_are_those_of_the_guesses(classes):
    truths = np.random.default_rng(classes).integers(0, classes, 500)
    made = Baselines()
    for part in np.array_split(truths, [1, 1, 40, 300]):
        made.update(part)
    frequent, same = np.array([*guesses_of(truths.tolist())]).T
    scores = made.scores(0.9)
    assert scores.most_frequent == accuracy_score(truths, frequent)
    assert scores.same_as_before == accuracy_score(truths, same)
    assert scores.kappa_temporal == pytest.approx(
        (0.9 - same_rate(truths)) / (1 - same_rate(truths)), abs=1e-12
    )
    assert scores.label_runs == 1 + np.count_nonzero(np.diff(truths))


def same_rate(truths):
    return np.count_nonzero(np.diff(truths) == 0) / truths.size


def test_kappa_temporal_is_0_for_the_label_before_and_1_for_a_perfect_model():
    made = Baselines()
    made.update(np.array([0, 0, 1, 1, 1, 0]))
    assert made.scores(made.scores(0.0).same_as_before).kappa_temporal == 0.0
    assert made.scores(1.0).kappa_temporal == 1.0
    assert made.scores(0.25).kappa_temporal == -0.5  # (1/4 - 1/2) / (1 - 1/2)


def test_kappa_of_the_label_before_is_not_kappa_temporal():
    """Kappa compares with chance, kappa-temporal with repetition: one label after the other tells them apart."""
    truths = np.repeat([0, 1], 50)
    before = np.concatenate(([1], truths[:-1]))
    made = Baselines()
    made.update(truths)
    assert cohen_kappa_score(truths, before) > 0.9
    assert made.scores(accuracy_score(truths, before)).kappa_temporal == 0.0


def test_runs_in_random_order_are_as_many_as_expected():
    rng, truths = np.random.default_rng(1), np.repeat([0, 1, 2], [60, 30, 10])
    found = []
    for _ in range(400):
        made = Baselines()
        made.update(rng.permutation(truths))
        found.append(made.scores(0.0).label_runs)
    expected = made.scores(0.0).expected_label_runs
    assert expected == 1 + (100**2 - 60**2 - 30**2 - 10**2) / 100
    assert abs(np.mean(found) - expected) < 4 * np.std(found) / 20
    assert not made.scores(0.0).is_grouped


@pytest.mark.parametrize(
    ("truths", "is_grouped"),
    [
        (np.repeat([0, 1, 2], 50), True),
        (np.repeat([0, 1], [1000, 5]), True),
        (np.tile(np.repeat([0, 1], 50), 5), True),
        (np.tile([0, 1], 50), False),
        (np.repeat([0, 1], 5), False),  # ten labels prove nothing
        (np.zeros(100, dtype=int), False),
    ],
)
def test_rows_grouped_by_label_are_found(truths, is_grouped):
    made = Baselines()
    made.update(truths)
    assert made.scores(0.0).is_grouped == is_grouped


def test_a_held_out_part_is_guessed_by_the_other_part_alone():
    made = Baselines()
    made.train(np.array([0, 0, 1]))
    made.update(np.array([1, 1, 1, 1, 0]))
    assert made.scores(0.5).most_frequent == 1 / 5
    assert made.scores(0.5).same_as_before == 4 / 5  # the last label of the other part is 1
    assert made.scores(0.5).label_runs == 3


def test_no_event_has_no_scores():
    assert Baselines().scores(0.0) is None
    made = Baselines()
    made.train(np.array([0, 1]))
    assert made.scores(0.0) is None


def test_late_labels_count_in_the_order_of_their_events():
    late, rows = LateTruths(), np.full((6, 3), 1 / 3)
    late.note(np.array([4, 1]), scored(rows[:2], np.array([2, 0])))
    late.note(np.array([0, 2]), scored(rows[:2], np.array([0, 1])))
    late.note(np.array([2]), scored(rows[:1], np.array([0])))  # corrected
    late.note(np.array([5]), scored(rows[:1], np.array([1])))
    late.note(np.array([5]), None)  # withdrawn
    inside = Baselines()
    inside.update(np.array([0, 0, 0, 2]))
    assert late.baselines.scores(0.5) == inside.scores(0.5)
