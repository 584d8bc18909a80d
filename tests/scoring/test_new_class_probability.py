"""The probability of a label never seen, against Bayes's theorem one label after another, and its bound."""

import math
import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamnb import BayesOptimalNB
from streamnb.scoring.new_class_probability import (
    CONCENTRATIONS,
    new_class_probability,
    published_new_class_probability,
)
from streamnb.scoring.prequential_scores import ESCAPE
from streamnb.scoring.ranking import OpenValidation
from tests.scoring.test_prequential_scores import batch, streams


class Urn:
    """Hoppe's urn of each concentration, weighed by what it said of the labels so far."""

    def __init__(self):
        self.n, self.seen, self.loss = 0, set(), 0.0
        self.logs = dict.fromkeys(CONCENTRATIONS.tolist(), 0.0)

    def unseen(self):
        top = max(self.logs.values())
        weights = {theta: math.exp(log - top) for theta, log in self.logs.items()}
        new = math.fsum(w * theta / (theta + self.n) for theta, w in weights.items())
        return new / math.fsum(weights.values())

    def draw(self, label):
        new = self.unseen()
        self.loss -= math.log(new if label not in self.seen else 1.0 - new)
        for theta in self.logs:
            self.logs[theta] += math.log((theta if label not in self.seen else self.n) / (theta + self.n))
        self.seen.add(label)
        self.n += 1


@pytest.mark.parametrize("labels", [1, 2, 7, 200, 10**9])
def test_it_is_that_of_an_urn_asked_label_after_label(labels):
    rng, urn = random.Random(labels), Urn()
    drawn, expected, known = [], [], []
    for _ in range(400):
        expected.append(urn.unseen())
        known.append(len(urn.seen))
        drawn.append(rng.randrange(labels))
        urn.draw(drawn[-1])
    found = new_class_probability(np.arange(400), np.array(known))
    assert found[0] == 1.0
    assert found.tolist() == pytest.approx(expected, rel=1e-9)
    assert ((found > 0.0) & (found <= 1.0)).all()
    best = -max(urn.logs.values())
    assert best - 1e-9 <= urn.loss <= best + math.log(CONCENTRATIONS.size) + 1e-9


def test_it_is_a_probability_at_every_size():
    n, K = (np.array(a).ravel() for a in np.meshgrid([0, 1, 2, 10**3, 10**9, 2**62], [0, 1, 2, 900, 2**40]))
    possible = (n >= K) & ((K > 0) | (n == 0))
    found = new_class_probability(n[possible], K[possible])
    assert ((found > 0.0) & (found <= 1.0)).all()


@pytest.mark.parametrize("labels", [1, 2, 7, 1000])
def test_what_predictions_tell_is_within_half_a_percent_and_never_rises_between_new_labels(labels):
    n = np.unique(np.concatenate((np.arange(labels, 3000), np.geomspace(labels, 1e12, 500).astype(np.int64))))
    exact = new_class_probability(n, np.full(n.size, labels))
    told = published_new_class_probability(n, np.full(n.size, labels))
    assert told == pytest.approx(exact, rel=5e-3)
    assert (np.diff(told) <= 0.0).all()
    assert [
        published_new_class_probability(n[i : i + 1], np.array([labels]))[0] for i in range(0, n.size, 50)
    ] == told[::50].tolist()
    assert all(len(repr(p).partition("e")[0].replace(".", "").strip("0")) <= 4 for p in told.tolist())
    assert published_new_class_probability(np.array([0]), np.array([0])).tolist() == [1.0]
    assert published_new_class_probability(np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)).size == 0


def test_a_new_label_costs_all_hypotheses_alike_and_so_changes_no_weight():
    model = BayesOptimalNB({"text": "text"}, switching_rate=0.0)
    for n in range(40):
        model.learn_one({"text": f"{'win cash' if n % 3 else 'see you'} {n % 7}", "size": n % 5}, "ab"[n % 2])
    before, losses = model.posterior.probabilities, model.posterior.losses
    model.learn_one({"text": "what is new"}, "c")
    assert len(set(before.values())) > 6
    assert model.posterior.probabilities == pytest.approx(before, rel=1e-9)
    paid = [model.posterior.losses[name] - losses[name] for name in before]
    assert paid == pytest.approx([-math.log(ESCAPE)] * len(paid))


@settings(deadline=None, max_examples=100)
@given(streams(), st.data())
def test_open_log_loss_is_what_each_label_costs_however_the_stream_is_cut(events, data):
    scored, urn, total, n = OpenValidation(8), Urn(), 0.0, 0
    cuts = sorted(data.draw(st.lists(st.integers(0, len(events)), max_size=4)))
    for first, stop in zip([0, *cuts], [*cuts, len(events)], strict=True):
        scored.update_many(*batch(events[first:stop]))
    for row, truth in events:
        if truth < 0:
            continue
        new, n = urn.unseen(), n + 1
        told = row[truth] if truth < len(row) else 0.0
        total -= math.log((1.0 - new) * max(told, ESCAPE) if truth in urn.seen else new)
        urn.draw(truth)
    assert scored.open_log_loss == (pytest.approx(total / n, rel=1e-9, abs=1e-12) if n else None)
