"""Scores of labels that come late: whatever comes and goes, they are those of what stands, in the window too."""

from __future__ import annotations

import math
import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamnb.scoring.revisable_scores import ServedScores, scored

WINDOW = 5


def score_of(p, truth):
    return None if truth is None else scored(np.array([p]), np.array([truth]))


def assert_scores(found, pairs):
    assert found.events == len(pairs)
    if pairs:
        right = sum(p.index(max(p)) == truth for p, truth in pairs)
        loss = -sum(math.log(max(p[truth], 1e-15)) for p, truth in pairs)
        assert found.accuracy * len(pairs) == pytest.approx(right)
        assert found.log_loss * len(pairs) == pytest.approx(loss, rel=1e-12)


@given(rng=st.integers(0, 10**6).map(random.Random))
def test_scores_are_those_of_what_stands(rng):
    scores, rows = ServedScores(WINDOW), []
    for _ in range(40):
        if not rows or rng.random() < 0.5:
            new = []
            for _ in range(rng.choice([1, 2, 3, 7])):
                p = [rng.random() for _ in range(3)]
                new.append(([value / sum(p) for value in p], rng.randrange(3)))
            p, truths = zip(*new, strict=True)
            assert scores.add(scored(np.array(p), np.array(truths))) == len(rows)
            rows += new
        else:
            number = rng.randrange(len(rows))
            p, before = rows[number]
            after = rng.choice([None, 0, 1, 2])
            scores.replace(number, score_of(p, before), score_of(p, after))
            rows[number] = p, after
        assert_scores(scores.cumulative(), [row for row in rows if row[1] is not None])
        assert_scores(scores.window(), [row for row in rows[-WINDOW:] if row[1] is not None])
    meta, arrays = scores.state()
    again = ServedScores.from_state(meta, arrays)
    assert (again.cumulative(), again.window()) == (scores.cumulative(), scores.window())
