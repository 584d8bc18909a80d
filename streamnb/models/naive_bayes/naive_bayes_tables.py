"""What the kernels take: a batch of events, and the tables of a model, as named tuples of arrays."""

from __future__ import annotations

from typing import NamedTuple

from streamnb.kernels.array_types import Floats, Ints
from streamnb.kernels.structs import struct_type
from streamnb.statistics.histograms import Histograms

SmoothingParams = tuple[Floats, Floats, int]
"""Smoothing (4, groups), weights of given priors (K,), and the mode of the prior."""


@struct_type
class CountViews(NamedTuple):
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
