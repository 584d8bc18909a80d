"""What the kernels take: a batch of events, and the tables of a model, as named tuples of arrays."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from streamnb.compiler.bundles import bundle
from streamnb.model.stats.histograms import Histograms

__all__ = ["Reading", "Tables"]

Reading = tuple[npt.NDArray[np.float64], npt.NDArray[np.float64], int]
"""Smoothing (4, groups), weights of given priors (K,), and the mode of the prior."""


@bundle
class Tables(NamedTuple):
    """The state of a model, and the smoothing and priors with which it is read.

    Attributes:
        classes: int64[K], weight of each class in units; zero = nothing learned, takes no part.
        table, totals, live, kinds, slot, histograms: see `counts.Counts`.
        n, mean, M2: see `moments.Moments`.
        alpha: float64[G], per group; used where m < 0.
        m: float64[G], m of the m-estimate, or -1.
        p: float64[G], p of the m-estimate, or nan for uniform.
        declared: float64[G], how many values of a nominal group are declared; 0 where none are.
        prior: float64[K], relative weights; used where the mode is neither LEARNED nor UNIFORM.
        prior_mode: int.
    """

    classes: npt.NDArray[np.int64]
    table: npt.NDArray[np.int64]
    totals: npt.NDArray[np.int64]
    live: npt.NDArray[np.int64]
    kinds: npt.NDArray[np.int64]
    slot: npt.NDArray[np.int64]
    histograms: Histograms
    n: npt.NDArray[np.int64]
    mean: npt.NDArray[np.float64]
    M2: npt.NDArray[np.float64]
    alpha: npt.NDArray[np.float64]
    m: npt.NDArray[np.float64]
    p: npt.NDArray[np.float64]
    declared: npt.NDArray[np.float64]
    prior: npt.NDArray[np.float64]
    prior_mode: int
