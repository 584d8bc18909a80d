"""Arguments of the kernels: a batch of events, and the tables of a model, as named tuples of arrays."""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np

from streamnb.kernels.array_types import Floats, Ints
from streamnb.kernels.structs import struct_type
from streamnb.statistics.histograms import Histograms

Covariance = Literal["own", "tied"]
"""Variances of numbers: of each class, or one for all classes."""


NO_VALUES: Ints = np.zeros(0, dtype=np.int64)
NO_SHARES: Floats = np.zeros(0)


class SmoothingParams(NamedTuple):
    """Smoothing, priors and covariance: all that a model adds to its counts when they are read.

    Attributes:
        smoothing: alpha, m, p and declared values, shape (4, groups).
        prior: see `class_priors.prior_weights`.
        prior_mode, tied, value_rows, value_p: see `CountViews`.
    """

    smoothing: Floats
    prior: Floats
    prior_mode: int
    tied: int = 0
    value_rows: Ints = NO_VALUES
    value_p: Floats = NO_SHARES

    def is_same(self, other: SmoothingParams) -> bool:
        """Return whether both hold the same arrays and modes."""
        return self is other or (
            self.smoothing is other.smoothing
            and self.prior is other.prior
            and self.value_p is other.value_p
            and self[2:4] == other[2:4]
        )


@struct_type
class CountViews(NamedTuple):
    """The state of a model, with its smoothing and priors.

    Attributes:
        classes: int64[K], weight of each class in units; a class of weight zero takes no part.
        table, totals, live, kinds, slot, histograms: see `counts.Counts`.
        n, mean, M2: see `moments.Moments`.
        alpha: float64[G], per group; used if m < 0.
        m: float64[G], m of the m-estimate, or -1.
        p: float64[G], p of the m-estimate, or nan for uniform.
        declared: float64[G], number of declared values of a nominal group; 0 without a declaration.
        prior: float64[K], see `class_priors.prior_weights`; used by modes other than LEARNED and UNIFORM.
        prior_mode: int.
        tied: 1 if all classes share one variance of each number, else 0.
        value_rows: int64[V], rows of the nominal values that have a p of their own.
        value_p: float64[V], p of each.
    """

    classes: Ints
    table: Ints
    totals: Ints
    live: Ints
    kinds: Ints
    slot: Ints
    histograms: Histograms
    n: Ints
    mean: Floats
    M2: Floats
    alpha: Floats
    m: Floats
    p: Floats
    declared: Floats
    prior: Floats
    prior_mode: int
    tied: int
    value_rows: Ints
    value_p: Floats
