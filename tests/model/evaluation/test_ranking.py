"""1-AUC against every pair compared in plain Python; how a stream is cut changes nothing."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_progressive import batch, streams

from streamnb.model.evaluation.progressive import ProgressiveValidation
from streamnb.model.evaluation.ranking import OpenValidation, share_misordered

law = settings(deadline=None, max_examples=100)


def misordered(scores, truths):
    """The share of pairs in the wrong order, equal ones as half."""
    ones = [score for score, truth in zip(scores, truths, strict=True) if truth]
    zeros = [score for score, truth in zip(scores, truths, strict=True) if not truth]
    pairs = [Fraction((one < zero) + (one <= zero), 2) for one in ones for zero in zeros]
    return float(sum(pairs) / len(pairs)) if pairs else None


@law
@given(st.lists(st.tuples(st.sampled_from([-math.inf, -1.0, 0.0, 1e-300, 2.0, math.inf]), st.integers(0, 1))))
def test_every_pair_is_compared(events):
    scores, truths = np.array([s for s, _ in events]), np.array([t for _, t in events], dtype=np.int64)
    assert share_misordered(scores, truths) == misordered(scores.tolist(), truths.tolist())


def odds(events):
    """Log odds of class 1 and the truth of each scored event; undecided before both classes were met."""
    met = set()
    for row, truth in events:
        if truth < 0:
            continue
        zero, one = (row[k] if k < len(row) else 0.0 for k in (0, 1))
        is_open = any(p == 0.0 and k not in met for k, p in enumerate((zero, one))) or zero == one == 0.0
        logs = [math.log(p) if p else -math.inf for p in (zero, one)]
        yield (0.0 if is_open else logs[1] - logs[0]), truth
        met.add(truth)


@law
@given(streams(), st.data())
def test_a_stream_of_two_classes_is_ranked_by_log_odds_however_it_is_cut(events, data):
    ranked, plain = OpenValidation(8), ProgressiveValidation(8)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(events)), max_size=4)))
    for first, stop in zip([0, *cuts], [*cuts, len(events)], strict=True):
        ranked.update_many(*batch(events[first:stop]))
        plain.update_many(*batch(events[first:stop]))
    assert ranked.cumulative() == plain.cumulative()
    expected = misordered(*zip(*odds(events), strict=True)) if any(t >= 0 for _, t in events) else None
    is_two = max((max(len(row), truth + 1) for row, truth in events), default=0) <= 2
    assert ranked.one_less_auc == (
        pytest.approx(expected, abs=1e-15) if is_two and expected is not None else None
    )
