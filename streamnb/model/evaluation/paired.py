"""Two forecasters on the same events: the mean difference of their scores, and where it lies at any time.

Let d_1, d_2, ... be differences of scores in [-B, B], and m_i = E[d_i | all before] what each was expected to
be, however the stream drifts. For 0 < r < 1/B and psi(r) = (-log(1 - B r) - B r) / B^2 every d >= -B has
exp(r d - psi(r) d^2) <= 1 + r d (Fan, Grama and Liu 2015, lemma 4.1, scaled), so that

    exp(r sum(d_i - m_i) - psi(r) sum d_i^2)

is a nonnegative supermartingale that begins with 1. By Ville's inequality it exceeds K / alpha at any time
with probability alpha / K at most. Of K rates the tightest bound therefore holds at all times together:

    sum m_i >= sum d_i - min_r (log(K / alpha) + psi(r) sum d_i^2) / r     with probability 1 - alpha

and the same of -d gives the other side. Nothing is assumed of the events but the bound: they may depend on
each other and drift. Choe and Ramdas (2023), "Comparing sequential forecasters", Operations Research; Howard
et al. (2021), "Time-uniform, nonparametric, nonasymptotic confidence sequences", Annals of Statistics 49(2).
"""

from __future__ import annotations

import numpy as np

from streamnb.model.compiled.arrays import Floats

_RATES = 0.5 ** np.arange(1, 21)  # of 1 / B: for squares that add up to between B^2 and 10^12 B^2
_PSI = -np.log1p(-_RATES) - _RATES


def interval(total: Floats, squares: Floats, n: Floats, bound: float, miss: float) -> tuple[Floats, Floats]:
    """Between what the mean of the expected differences lies, at any time, but with probability `miss`.

    Args:
        total: sum of the n differences so far; any shape.
        squares: sum of their squares.
        n: how many, >= 1.
        bound: of the absolute value of each.
        miss: between 0 and 1.

    Returns:
        Lower and upper end, within [-bound, bound].
    """
    scaled = np.asarray(squares)[..., np.newaxis] / bound**2
    reach = bound * ((np.log(2 * _RATES.size / miss) + _PSI * scaled) / _RATES).min(axis=-1)
    return np.maximum((total - reach) / n, -bound), np.minimum((total + reach) / n, bound)
