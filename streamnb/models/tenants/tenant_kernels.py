"""Predict events and learn them, strictly in order, each by the model of its own tenant.

Prediction and learning are the functions of `naive_bayes.kernels`, applied to the class weights, groups,
fields and rows of one tenant.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from streamnb.kernels.array_types import Floats, Ints
from streamnb.kernels.jit import inlined, kernel
from streamnb.models.naive_bayes.joint_log_likelihood import JointScore
from streamnb.models.naive_bayes.naive_bayes_kernels import learn_event, predict_event
from streamnb.models.naive_bayes.naive_bayes_tables import CountViews
from streamnb.models.tenants.eviction_kernels import CLASSES, EVENTS, RIGHT, TESTED
from streamnb.values.type_aliases import Flags


@kernel
def place_labels(first: int, slots: Ints, label: Ints, loaded: Any) -> int:
    """Replace class numbers in `label` by columns of own models; return n, or the event without capacity."""
    for e in range(first, slots.size):
        s = slots[e]
        if label[e] < 0:
            continue
        k, K = np.int64(0), loaded.sizes[s, CLASSES]
        while k < K and loaded.labels[s, k] != label[e]:
            k += 1
        if k == K:
            if loaded.labels.shape[1] == K:
                return e
            loaded.labels[s, k] = label[e]
            loaded.weights[s, k] = 0
            loaded.sizes[s, CLASSES] = K + 1
        label[e] = k
    return slots.size


@inlined
def count_right(row: Any, label: int, s: int, loaded: Any) -> None:
    """Count a test of slot s, and if its choice was right; nothing if all probabilities are 0.

    `row` has all classes of the list, as in the published prediction; ties go to the first.
    """
    best, most = np.int64(-1), 0.0
    for k in range(row.size):
        if row[k] > most:
            best, most = np.int64(k), row[k]
    if best >= 0:
        loaded.sizes[s, TESTED] += 1
        loaded.sizes[s, RIGHT] += best == label


@inlined
def learn_own(tables: CountViews, batch: Any, e: int, s: int, loaded: Any) -> None:
    """Learn event e in slot s."""
    k = batch.label[e]
    tables.classes[k] = loaded.weights[s, k]
    learn_event(tables, batch, e)
    loaded.weights[s, k] = tables.classes[k]
    loaded.sizes[s, EVENTS] += 1


class TenantPosteriors(NamedTuple):
    """Priors of tenants' models, and their predictions.

    Attributes:
        given: float64[classes], the relative prior weight of each class of the list of all.
        probabilities: float64[n, classes], zero; receives the predictions if it has rows.
        has: bool[n, classes], False; receives True for classes of which the model has examples.
    """

    given: Floats
    probabilities: Floats
    has: Flags


@kernel
def run_tenants(
    tables: CountViews,
    batch: Any,
    slots: Ints,
    loaded: Any,
    posteriors: Any,
    learn: bool,
    score: JointScore,
    own: Floats,
) -> None:
    """Predict each event by what its tenant's model had learned before it, then learn it in that model.

    Args:
        tables: the tables of all slots; `classes` and `prior` are scratch, of K columns.
        batch: the events; ``label`` is the column within the event's own model.
        slots: int64[n], slot of each event; -1 predicts nothing.
        loaded: `TenantArrays`.
        posteriors: `TenantPosteriors`.
        learn: whether to learn; a prediction that is learned is also counted as a test.
        score: scratch.
        own: float64[n, K], scratch: predictions in the columns of each model.
    """
    given, probabilities, has = posteriors
    K = tables.classes.size
    for e in range(slots.size):
        s = slots[e]
        if s < 0:
            continue
        known = loaded.sizes[s, CLASSES]
        for k in range(K):
            tables.classes[k] = loaded.weights[s, k] if k < known else 0
            tables.prior[k] = given[loaded.labels[s, k]] if k < known else 0.0
        learns = learn and batch.label[e] >= 0
        if own.shape[0] > 0:
            predict_event(tables, batch, e, score, own, own[:0])
            for k in range(known):
                if tables.classes[k] > 0:
                    probabilities[e, loaded.labels[s, k]] = own[e, k]
                    has[e, loaded.labels[s, k]] = True
            if learns:
                count_right(probabilities[e], loaded.labels[s, batch.label[e]], s, loaded)
        if learns:
            learn_own(tables, batch, e, s, loaded)
