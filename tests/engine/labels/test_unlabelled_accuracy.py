"""How accurate predictions without labels are: the interval holds what labels show later, or says that it may not."""

from __future__ import annotations

import numpy as np
import pytest

from streamnb.engine.labels.unlabelled_accuracy import expected_accuracy
from streamnb.scoring.revisable_scores import LabelledOutcomes

STREAMS, EVENTS = 200, 1000


def sure(rng, n, level):
    """Confidences of predictions that are as sure as this, of two classes."""
    return 0.5 + 0.5 * rng.beta(level, 1.0, n)


def events(rng, n, level, right=lambda confidence: confidence):
    confidence = sure(rng, n, level)
    return LabelledOutcomes(confidence, rng.random(n) < right(confidence))


def over_confident(confidence):
    return 0.5 + 0.6 * (confidence - 0.5)


@pytest.mark.parametrize("mass", [0.95, 0.8])
@pytest.mark.parametrize("judged", [0, 30, 300, EVENTS])
@pytest.mark.parametrize(
    ("right", "before", "now"),
    [
        (lambda confidence: confidence, 3.0, 3.0),
        (lambda confidence: confidence, 8.0, 0.5),  # other events come, less sure ones
        (over_confident, 3.0, 3.0),
        (over_confident, 4.0, 1.0),
    ],
    ids=["calibrated", "other events", "over-confident", "over-confident, other events"],
)
def test_the_interval_holds_what_labels_show_later(right, before, now, judged, mass):
    """Of so many streams; without a judged event confidences are believed, which over-confident ones betray."""
    rng = np.random.default_rng(7)
    held = 0
    for _ in range(STREAMS):
        known, later = events(rng, judged, before, right), events(rng, EVENTS, now, right)
        found = expected_accuracy(later.confidence, known, mass)
        assert 0.0 <= found.interval.lower <= found.accuracy <= found.interval.upper <= 1.0
        assert found.events == EVENTS
        held += found.interval.lower <= later.is_right.mean() <= found.interval.upper
    if judged or right is not over_confident:
        assert held / STREAMS > mass - 0.02


def test_confidences_are_not_believed_that_labels_have_refuted():
    rng = np.random.default_rng(3)
    known, later = events(rng, 5000, 4.0, over_confident), events(rng, 5000, 1.0, over_confident)
    found, right = expected_accuracy(later.confidence, known, 0.95), later.is_right.mean()
    assert abs(found.accuracy - right) < (later.confidence.mean() - right) / 3


def doubts(older, newer, later, streams=100):
    """How often an estimate of `later` is in doubt, by reason; each is (events, how sure, how right)."""
    rng, found = np.random.default_rng(1), []
    for _ in range(streams):
        parts = events(rng, *older), events(rng, *newer)
        known = LabelledOutcomes(*map(np.concatenate, zip(*parts, strict=True)))
        found.append(expected_accuracy(events(rng, *later).confidence, known, 0.95).doubt)
    return {reason: found.count(reason) / streams for reason in found}


def test_what_is_not_to_be_trusted_says_so_and_why():
    usual, worse = (EVENTS, 3.0), (EVENTS, 3.0, lambda confidence: confidence - 0.25)
    assert doubts(usual, usual, usual)[""] > 0.75
    assert doubts(usual, worse, usual) == {"changing": 1.0}
    assert doubts((49, 3.0), (50, 3.0), usual) == {"few-labels": 1.0}
    assert doubts((0, 3.0), (0, 3.0), usual) == {"few-labels": 1.0}
    assert doubts((EVENTS, 400.0), (EVENTS, 400.0), (EVENTS, 0.1)).get("unlike-judged", 0.0) > 0.9


def test_one_event_and_certain_ones():
    for confidence in (1.0, 0.5, 1e-300):
        for known in (
            LabelledOutcomes(np.zeros(0), np.zeros(0, bool)),
            LabelledOutcomes(np.ones(500), np.ones(500, bool)),
        ):
            found = expected_accuracy(np.array([confidence]), known, 0.95)
            assert 0.0 <= found.interval.lower <= found.interval.upper <= 1.0
