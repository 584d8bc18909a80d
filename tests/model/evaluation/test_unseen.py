"""The probability of a label never seen, against Bayes's theorem one label after another, and its bound."""

import math
import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_progressive import batch, streams

from streamnb.model.evaluation.progressive import ESCAPE
from streamnb.model.evaluation.ranking import OpenValidation
from streamnb.model.evaluation.unseen import CONCENTRATIONS, probability_of_unseen


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
    found = probability_of_unseen(np.arange(400), np.array(known))
    assert found[0] == 1.0
    assert found.tolist() == pytest.approx(expected, rel=1e-9)
    assert ((found > 0.0) & (found <= 1.0)).all()
    best = -max(urn.logs.values())
    assert best - 1e-9 <= urn.loss <= best + math.log(CONCENTRATIONS.size) + 1e-9


def test_it_is_a_probability_at_every_size():
    n, K = (np.array(a).ravel() for a in np.meshgrid([0, 1, 2, 10**3, 10**9, 2**62], [0, 1, 2, 900, 2**40]))
    possible = (n >= K) & ((K > 0) | (n == 0))
    found = probability_of_unseen(n[possible], K[possible])
    assert ((found > 0.0) & (found <= 1.0)).all()


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
