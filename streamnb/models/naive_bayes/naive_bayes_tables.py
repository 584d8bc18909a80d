"""Arguments of the kernels: a batch of events, and the tables of a model, as named tuples of arrays."""

from __future__ import annotations

from typing import NamedTuple

from streamnb.kernels.array_types import Floats, Ints
from streamnb.kernels.structs import struct_type
from streamnb.statistics.histograms import Histograms

SmoothingParams = tuple[Floats, Floats, int]
"""Smoothing (4, groups), weights of given priors (K,), and the mode of the prior."""


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
        prior: float64[K], relative weights; used if the mode is neither LEARNED nor UNIFORM.
        prior_mode: int.
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
