"""Anytime-valid confidence interval for the mean score difference of two forecasters on the same events."""

from __future__ import annotations

import numpy as np

from streamnb.kernels.array_types import Floats

# In units of 1 / B, for sums of squares up to 10^12 B^2; rates near 1 are for sums below B^2.
_RATES = np.concatenate(([0.97, 0.9, 0.75], 0.5 ** np.arange(1, 21)))
_PSI = -np.log1p(-_RATES) - _RATES


def interval(total: Floats, squares: Floats, n: Floats, bound: float, miss: float) -> tuple[Floats, Floats]:
    """Return an interval that contains the mean expected difference at all times, except with chance `miss`.

    Args:
        total: sum of the n differences so far; any shape.
        squares: sum of their squares.
        n: number of differences, >= 1.
        bound: maximum absolute difference.
        miss: between 0 and 1.

    Returns:
        Lower and upper end, within [-bound, bound].
    """
    scaled = np.asarray(squares)[..., np.newaxis] / bound**2
    reach = bound * ((np.log(2 * _RATES.size / miss) + _PSI * scaled) / _RATES).min(axis=-1)
    return np.maximum((total - reach) / n, -bound), np.minimum((total + reach) / n, bound)
