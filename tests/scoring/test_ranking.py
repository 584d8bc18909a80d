"""1-AUC against every pair compared in plain Python; how a stream is cut changes nothing."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamnb.events import ReliabilityBin
from streamnb.scoring.prequential_scores import ProgressiveValidation
from streamnb.scoring.ranked_events import RankedEvents
from streamnb.scoring.ranking import OpenValidation, by_chance
from tests.scoring.test_prequential_scores import batch, streams

law = settings(deadline=None, max_examples=100)


def misordered(scores, truths):
    """The share of pairs in the wrong order, equal ones as half."""
    ones = [score for score, truth in zip(scores, truths, strict=True) if truth]
    zeros = [score for score, truth in zip(scores, truths, strict=True) if not truth]
    pairs = [Fraction((one < zero) + (one <= zero), 2) for one in ones for zero in zeros]
    return float(sum(pairs) / len(pairs)) if pairs else None


def ranked(scores, truths, **more):
    made = RankedEvents(**more)
    for first in range(0, scores.size, 7):
        made.add(scores[first : first + 7], truths[first : first + 7])
    return made


@law
@given(st.lists(st.tuples(st.sampled_from([-math.inf, -1.0, 0.0, 1e-300, 2.0, math.inf]), st.integers(0, 1))))
def test_every_pair_is_compared(events):
    scores, truths = np.array([s for s, _ in events]), np.array([t for _, t in events], dtype=np.int64)
    assert ranked(scores, truths).share_misordered == misordered(scores.tolist(), truths.tolist())


@law
@given(
    st.lists(
        st.tuples(st.floats(-3.0, 3.0) | st.sampled_from([-math.inf, math.inf]), st.integers(0, 1)),
        max_size=80,
    )
)
def test_beyond_the_limit_the_area_is_off_by_no_more_than_the_error_that_is_stated(events):
    scores, truths = np.array([s for s, _ in events]), np.array([t for _, t in events], dtype=np.int64)
    scores = np.round(scores, 2)  # several in a bin
    binned, exact = ranked(scores, truths, most_exact=20), misordered(scores.tolist(), truths.tolist())
    assert (binned.error == 0.0) or len(events) > 20
    if exact is None:
        assert binned.share_misordered is None
    else:
        assert abs(binned.share_misordered - exact) <= binned.error + 1e-12
    assert binned.counts().sum() == len(events)
    assert (binned.events is None) == (len(events) > 20 or not events)


def test_bins_hold_more_events_than_a_product_of_64_bits_can_count():
    made = RankedEvents(most_exact=1)
    made.add(np.array([-1.0, 1.0, 1.0]), np.array([0, 0, 1]))
    made._bins *= 3_000_000_000
    assert made.share_misordered == 0.25
    assert made.error == 0.25


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
    scored = [(row, truth) for row, truth in events if truth >= 0]
    cells = [(p, k == truth) for row, truth in scored for k, p in enumerate(row)]
    decades = [(0.0, 1e-5), (1e-5, 1e-4), (1e-4, 1e-3), (1e-3, 1e-2)]
    expected_rare = [(hi, [cell for cell in cells if lo < cell[0] <= hi]) for lo, hi in decades]
    assert [(one.upper, one.times) for one in ranked.improbable] == [
        (hi, len(found)) for hi, found in expected_rare if found
    ]
    for one, found in zip(ranked.improbable, [found for _, found in expected_rare if found], strict=True):
        assert one.told == pytest.approx(math.fsum(p for p, _ in found) / len(found))
        assert one.came == sum(came for _, came in found) / len(found)
    is_two = max((max(len(row), truth + 1) for row, truth in events), default=0) <= 2
    assert ranked.one_less_auc == (
        pytest.approx(expected, abs=1e-15) if is_two and expected is not None else None
    )


def missed(n, p):
    """E |X - n p|, and its square's, over all that n events of probability p can come to."""
    away = [(abs(k - n * p), math.comb(n, k) * p**k * (1 - p) ** (n - k)) for k in range(n + 1)]
    mean = math.fsum(d * w for d, w in away)
    return mean, math.fsum(d * d * w for d, w in away) - mean**2


@law
@given(st.lists(st.tuples(st.integers(1, 40), st.floats(0.0, 1.0)), max_size=4))
def test_chance_is_what_all_outcomes_come_to(bins):
    chance = by_chance(ReliabilityBin(0.0, 1.0, p, p, n) for n, p in bins)
    if not bins:
        assert chance is None
        return
    mean, variance = (math.fsum(terms) for terms in zip(*(missed(n, p) for n, p in bins), strict=True))
    events = sum(n for n, _ in bins)
    assert chance.mean == pytest.approx(mean / events, rel=1e-9, abs=1e-9)
    root = (
        1 - max(variance, 0.0) / 9 / mean**2 + 1.645 * math.sqrt(max(variance, 0.0)) / 3 / mean
        if mean > 1e-9
        else 0
    )
    assert chance.upper == pytest.approx(mean / events * max(root**3, 1), rel=1e-4, abs=1e-9)


def test_one_stream_of_twenty_is_beyond_chance():
    """Streams whose truths are drawn by their predictions, of which many are nearly sure."""
    rng = np.random.default_rng(3)
    errors, chances = [], []
    for _ in range(1500):
        sure = 1.0 - 0.5 * rng.random(300) ** 3
        scored = ProgressiveValidation()
        scored.update_many(np.stack([sure, 1 - sure], axis=1), (rng.random(300) > sure).astype(np.int64))
        found = scored.cumulative()
        errors.append(found.calibration_error)
        chances.append(by_chance(found.reliability))
    assert np.mean(errors) == pytest.approx(np.mean([one.mean for one in chances]), rel=0.02)
    beyond = np.mean([error > one.upper for error, one in zip(errors, chances, strict=True)])
    assert beyond == pytest.approx(0.05, abs=0.015)
