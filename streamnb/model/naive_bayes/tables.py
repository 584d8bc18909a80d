"""What the kernels take: a batch of events, and the tables of a model, as named tuples of arrays."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from streamnb.model.stats.histograms import Histograms

__all__ = ["GIVEN", "LEARNED", "UNIFORM", "Batch", "Tables"]

LEARNED, UNIFORM, GIVEN = 0, 1, 2  # prior modes


class Batch(NamedTuple):
    """Events as arrays. An event is a run of items (discrete) and a run of values (continuous).

    Items of one group adjoin within an event. A present Bernoulli text without words is an item without rows.

    Attributes:
        event_items: int64[n + 1], the items of event e are ``event_items[e]`` to ``event_items[e + 1]``.
        item_group: int32[m].
        item_amount: int64[m], what each row of the item counts, in units.
        item_rows: int64[m + 1], where each item's rows are.
        rows: int32[t], a row, or UNKNOWN, or lower for one that is stopped or a repetition.
        keys: uint64[t], a hash of the word or value and its group, also where there is no row; see
            `Encoded.with_keys`.
        event_values: int64[n + 1], where each event's values are.
        value_field: int32[v], the continuous attribute.
        value: float64[v], finite.
        label: int64[n], class index, or -1: do not learn.
        weight: int64[n], units, above zero where there is a label.
        time: float64[n], event time in seconds, nan where it is not known.
    """

    event_items: npt.NDArray[np.int64]
    item_group: npt.NDArray[np.int32]
    item_amount: npt.NDArray[np.int64]
    item_rows: npt.NDArray[np.int64]
    rows: npt.NDArray[np.int32]
    keys: npt.NDArray[np.uint64]
    event_values: npt.NDArray[np.int64]
    value_field: npt.NDArray[np.int32]
    value: npt.NDArray[np.float64]
    label: npt.NDArray[np.int64]
    weight: npt.NDArray[np.int64]
    time: npt.NDArray[np.float64]


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
