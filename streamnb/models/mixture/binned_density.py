"""Binned densities: continuous values as the naive Bayes hypotheses read them that do not trust in Gaussians.

A value says what its bin says, of the finest layout in which events were learned; or its code, where there is
no bin:

    P(a | v) = (n_bv + 1/2) / (n_v + 1)

with n_bv events of class v in the bin, of n_v since the layout is in use. Where there is neither, the value
is read by the Gaussian density. The width of a bin is the same for all classes, and drops out.

Tried on five tables: to read a bin by the next coarser layout until it has had 1, 5 or 20 examples. One did
as well as none, more did worse. So did Gaussians in place of codes for the first 32 values.

The counts are those of the features (`feature_table`, `softmax.count_features`), which have to be extracted.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from streamnb.features.encoded_batch import Batch
from streamnb.kernels.array_types import Floats, Ints
from streamnb.kernels.jit import inlined, kernel
from streamnb.kernels.vector_kernels import add_to, fill
from streamnb.models.naive_bayes.gaussian_factors import score_value
from streamnb.models.naive_bayes.naive_bayes_tables import CountViews
from streamnb.models.softmax.feature_extraction import ExtractedFeatures
from streamnb.models.softmax.feature_table import NOBODY, TOTAL
from streamnb.models.softmax.quantile_bins import CODE, LAYOUTS, QuantileBinArrays
from streamnb.models.softmax.softmax_regression import log_of_none


@inlined
def _is_learned(i: int, extracted: ExtractedFeatures, table: Ints) -> bool:
    """Whether feature i is there, and events were learned that had its attribute in this layout."""
    if i < 0:
        return False
    owner = extracted.owner_rows[extracted.owners[i]]
    return bool(owner >= 0 and table[owner, TOTAL] > 0)


@inlined
def _finest(v: int, f: int, bins: QuantileBinArrays, extracted: ExtractedFeatures, table: Ints) -> int:
    """By which feature value v of the event, one of attribute f, is read; or NOBODY."""
    code = extracted.of_value[v, CODE]
    finest, most_edges = np.int64(NOBODY), np.int64(-1)
    if _is_learned(code, extracted, table):
        finest = code
    for layout in range(LAYOUTS):
        i = extracted.of_value[v, layout]
        if bins.n_edges[f, layout] > most_edges and _is_learned(i, extracted, table):
            finest, most_edges = i, bins.n_edges[f, layout]
    return int(finest)


@kernel
def read_value(
    tables: CountViews,
    learners: Any,
    batch: Batch,
    e: int,
    v: int,
    extracted: ExtractedFeatures,
    value: Floats,
) -> None:
    """Fill value float64[K] with ln P(a | class), but for a constant, of continuous value v of event e.

    Args:
        tables: `Tables`.
        learners: `AdaptiveArrays`.
        batch: the events.
        e: which event.
        v: which of its continuous values, from 0 on.
        extracted: the features of the event.
        value: is filled.
    """
    at = batch.event_values[e] + v
    f = batch.value_field[at]
    fill(value, 0.0)
    i = _finest(v, f, learners.bins, extracted, learners.features.table)
    if i < 0:
        score_value(tables.n[f], tables.mean[f], tables.M2[f], 1.0, tables.classes, batch.value[at], value)
        return
    row, owner = extracted.rows[i], extracted.owner_rows[extracted.owners[i]]
    for k in range(value.size):
        value[k] = log_of_none(learners.features.table, owner, k, 0.0)
        if row >= 0:
            value[k] += learners.features.weights[row, 0, 1 + k]


@kernel
def score_binned(
    binned: Any,
    tables: CountViews,
    learners: Any,
    batch: Batch,
    e: int,
    extracted: ExtractedFeatures,
    value: Floats,
    joint: Floats,
) -> None:
    """Add the factors of all continuous attributes of event e to joint[h], for the h that are `binned`.

    Args:
        binned: bool[H].
        tables: `Tables`.
        learners: `AdaptiveArrays`.
        batch: the events.
        e: which event.
        extracted: its features.
        value: float64[K], scratch.
        joint: float64[H, K].
    """
    is_any = False
    for h in range(binned.size):
        is_any |= binned[h]
    if not is_any:
        return
    for v in range(batch.event_values[e + 1] - batch.event_values[e]):
        read_value(tables, learners, batch, e, v, extracted, value)
        for h in range(binned.size):
            if binned[h]:
                add_to(joint[h], value)
