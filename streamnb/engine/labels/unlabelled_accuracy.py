"""Estimated accuracy of unlabelled predictions, from labelled ones.

Labelled events of similar confidence give a Beta posterior of the accuracy. Unlabelled events are assumed to
have the same accuracy, corrected by the difference in mean confidence. With n labelled events in a bin, of
which r are correct, of mean confidence c, and m of M unlabelled events of mean confidence u:

    theta ~ Beta(r + 2 c, n - r + 2 (1 - c))            prior: two events with this confidence
    mu    = E[theta] + u - c                            accuracy of the bin's unlabelled events
    E     = sum m/M mu
    Var   = sum (m/M)^2 Var[theta] + sum m/M mu (1 - mu) / M

The variance covers both uncertain calibration and sampling of the M events.

Confidences cannot show two faults: predictions that become worse at equal confidence, and labels that arrive
for easier events first. The first shows as soon as some labels arrive. So the older half of labelled events
predicts the newer half, and its error is z standard deviations. The variance is multiplied by 2 + z^2; beyond
z^2 = 2 the estimate is marked doubtful. The interval is that of a Beta distribution with this mean and
variance. docs/labels.md reports its coverage.

Source: confidence-based performance estimation, Bialek et al. (2024), "Estimating model performance under
covariate shift without labels", arXiv 2401.08348. They calibrate once and give no uncertainty.
"""

from __future__ import annotations

import numpy as np

from streamnb.events import AccuracyEstimate, Interval
from streamnb.kernels.array_types import Floats
from streamnb.scoring.prequential_scores import BINS
from streamnb.scoring.revisable_scores import LabelledOutcomes
from streamnb.statistics.credible_intervals import beta_intervals
from streamnb.values.type_aliases import Flags

FEWEST = 100
"""Minimum number of labelled events of an estimate without doubt."""
_PRIOR = 2.0  # events
_FEW_IN_BIN, _MOST_STRANGE = 10, 0.1
_USUAL, _SURPRISE = 2.0, 2.0
_LEAST = 1e-9


def expected_accuracy(confidence: Floats, judged: LabelledOutcomes, mass: float) -> AccuracyEstimate:
    """Estimate the accuracy of M >= 1 unlabelled predictions.

    Args:
        confidence: float64[M].
        judged: labelled predictions; an empty sample gives a wide interval.
        mass: probability of the interval, 0 < mass < 1.
    """
    half = judged.confidence.size // 2
    older, newer = judged.part(slice(half)), judged.part(slice(half, None))
    surprise = 0.0
    if half:
        was_expected, variance = _moments(newer.confidence, older)
        surprise = (float(newer.is_right.mean()) - was_expected) ** 2 / variance
    mean, variance = _moments(confidence, judged)
    events = max(mean * (1.0 - mean) / (variance * (_USUAL + surprise)) - 1.0, _LEAST)
    lower, upper = beta_intervals(mean * events, (1.0 - mean) * events, mass)
    return AccuracyEstimate(
        confidence.size, mean, Interval(float(lower), float(upper)), _doubt(confidence, judged, surprise)
    )


def _doubt(confidence: Floats, judged: LabelledOutcomes, surprise: float) -> str:
    """Return the reason to doubt an estimate, or ""; see `AccuracyEstimate`."""
    if judged.confidence.size < FEWEST:
        return "few-labels"
    is_strange = _counts(judged.confidence) < _FEW_IN_BIN
    if _counts(confidence)[is_strange].sum() > _MOST_STRANGE * confidence.size:
        return "unlike-judged"
    return "changing" if surprise > _SURPRISE else ""


def _moments(confidence: Floats, judged: LabelledOutcomes) -> tuple[float, float]:
    """Return mean and variance of the accuracy at these confidences."""
    share = _counts(confidence) / confidence.size
    n, right = _counts(judged.confidence), _counts(judged.confidence, judged.is_right)
    sure = _means(confidence, np.zeros(BINS))
    sure_before = _means(judged.confidence, sure)
    theta = (right + _PRIOR * sure_before) / (n + _PRIOR)
    mu = np.clip(theta + sure - sure_before, 0.0, 1.0)
    mean = float(np.clip(share @ mu, _LEAST, 1.0 - _LEAST))
    calibration = theta * (1.0 - theta) / (n + _PRIOR + 1.0)
    variance = float(share**2 @ calibration + share @ (mu * (1.0 - mu)) / confidence.size)
    return mean, max(variance, _LEAST**2)


def _counts(confidence: Floats, weights: Floats | Flags | None = None) -> Floats:
    """Return the number, or weight, of predictions in each bin of confidence."""
    bins = np.maximum(0, np.ceil(confidence * BINS).astype(np.int64) - 1)
    counts: Floats = np.bincount(bins, weights, minlength=BINS).astype(np.float64)
    return counts


def _means(confidence: Floats, otherwise: Floats) -> Floats:
    """Return mean confidence in each bin, `otherwise` in an empty bin."""
    n = _counts(confidence)
    return np.divide(_counts(confidence, confidence), n, out=otherwise.copy(), where=n > 0)
