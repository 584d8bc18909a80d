"""The hot path: predict each event of a batch, attribute the prediction if requested, then learn the event.

All prediction and learning goes through `run`, so batching cannot change results.
"""

from __future__ import annotations

from typing import Any

from streamnb.kernels.jit import kernel
from streamnb.models.naive_bayes.joint_log_likelihood import JointScore
from streamnb.models.naive_bayes.naive_bayes_kernels import (
    evidence_per_token,
    fetch_event,
    learn_event,
    predict_event,
)
from streamnb.models.naive_bayes.naive_bayes_tables import CountViews
from streamnb.models.naive_bayes.value_attribution import attribute_values
from streamnb.statistics.histograms import has_capacity

_NEAR = 1 << 16  # counts that the caches hold


@kernel
def run(
    first: int,
    most: int,
    tables: CountViews,
    batch: Any,
    learn: bool,
    told: Any,
    score: JointScore,
    explained: Any,
) -> Any:
    """Predict each event from event `first` by what was learned before it, then learn it.

    `told` is three output arrays: probabilities[n, K] if it has rows; joints[n, K], log P(class, event), -inf
    for a class without examples or excluded by alpha = 0, if it has rows; evidence[n] of
    `evidence_per_token`, if not empty. Returns n, or the event before which the histograms lack capacity for
    `most` more counts (see `mark_repeats`). `score` is scratch. `explained` is the batch as `Bags`, and the
    `AttributionParts` that are filled; None compiles a kernel without attribution.
    """
    probabilities, joints, evidence = told
    is_far = tables.table.size > _NEAR
    for e in range(first, batch.label.size):
        if is_far and e + 1 < batch.label.size:
            fetch_event(tables.table, batch, e + 1)
        learns = learn and batch.label[e] >= 0
        if learns and not has_capacity(tables.histograms, tables.slot, tables.totals, batch.label[e], most):
            return e
        if probabilities.shape[0] > 0:
            predict_event(tables, batch, e, score, probabilities, joints)
        if explained is not None:
            bags, parts = explained
            attribute_values(tables, batch, bags, e, probabilities[e], score.joint, parts)
        if evidence.size > 0:
            evidence[e] = evidence_per_token(tables, batch, e, score.joint, score.product)
        if learns:
            learn_event(tables, batch, e)
    return batch.label.size
