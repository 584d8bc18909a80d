"""Binned densities of continuous values, for naive Bayes hypotheses without the Gaussian assumption.

A value has the probability of its bin, in the finest layout in which events were learned, or of its code if
no bin exists:

    P(a | v) = (n_bv + 1/2) / (n_v + 1)

with n_bv events of class v in the bin, of n_v since the layout is in use. If there is neither, the value has
its Gaussian density. The width of a bin is the same for all classes, and cancels.

Tried on five tables: reading a bin by the next coarser layout until it had 1, 5 or 20 examples. 1 did as well
as 0, more did worse. So did Gaussians in place of codes for the first 32 values.

The counts are the counts of features (`feature_table`, `softmax_regression.count_features`); the features
must be extracted first.
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
from streamnb.models.softmax.feature_table import NOBODY, TOTAL
from streamnb.models.softmax.quantile_bins import CODE, LAYOUTS, QuantileBinArrays
from streamnb.models.softmax.softmax_regression import log_of_none


@inlined
def _is_learned(i: int, extracted: Any, table: Ints) -> bool:
    """Return True if feature i exists, and events with its attribute were learned in this layout."""
    if i < 0:
        return False
    owner = extracted.owner_rows[extracted.owners[i]]
    return bool(owner >= 0 and table[owner, TOTAL] > 0)


@inlined
def _finest(v: int, f: int, bins: QuantileBinArrays, extracted: Any, table: Ints) -> int:
    """Return the feature by which value v of the event, of attribute f, is read; or `NOBODY`."""
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
    extracted: Any,
    value: Floats,
) -> None:
    """Fill value float64[K] with ln P(a | class), up to a constant, of continuous value v of event e."""
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
    extracted: Any,
    value: Floats,
    joint: Floats,
) -> None:
    """Add the factors of all continuous attributes of event e to joint[h], for h with binned[h].

    `binned`: bool[H]; `extracted`: the features of e; `value`: float64[K], scratch; `joint`: float64[H, K].
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
