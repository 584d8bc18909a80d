"""Filter of a hidden Markov model over many chains at once, event by event, in strict order.

    P(s_t | x_1..t)  ~  P(x_t | s_t) * sum_s P(s_t | s) P(s | x_1..t-1)      Rabiner (1989), forward pass

The filter runs after the emissions were scored and does not change them. It needs log P(s, x_t) of each event
under equal priors of the states.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from streamnb.kernels.array_types import Floats, Ints
from streamnb.kernels.jit import inlined, kernel
from streamnb.kernels.structs import struct_type
from streamnb.kernels.vector_kernels import copy_to, fill
from streamnb.statistics.class_priors import LEARNED, UNIFORM
from streamnb.values.example_weights import UNIT
from streamnb.values.type_aliases import Flags

NOBODY = -1
"""Row of an event without an entity; as a state: unknown."""


@struct_type
class EntityChains(NamedTuple):
    """Learned statistics of chains, and the belief about each chain; K states, one row for each chain.

    Attributes:
        weights: int64[K], learned weight of each state, in units of 1/1024 example.
        given: float64[K], relative weights of a declared prior.
        mode: mode of the prior: LEARNED, UNIFORM or GIVEN.
        first: int64[K], weight of the sequences that began with each state.
        table: int64[K, K], weight of the transitions from each state (row) to each (column).
        m: m of the m-estimate, >= 0; its prior estimate is the prior of the states.
        beliefs: float64[rows, >= K], P(s | chain so far) if the last state is unknown, else zero.
        last: int64[rows], state of the last event, -1 if unknown.
        seen: float64[rows], latest time of the chain in seconds, NaN if unknown.
        time_to_live: seconds after which a chain restarts; 0 means never.
    """

    weights: Ints
    given: Floats
    mode: int
    first: Ints
    table: Ints
    m: float
    beliefs: Floats
    last: Ints
    seen: Floats
    time_to_live: float


@struct_type
class EntitySteps(NamedTuple):
    """Events as input of the filter.

    Attributes:
        row: int64[n], row of the event's chain, or -1.
        begins: bool[n], True if the chain in that row begins here.
        label: int64[n], state, or -1.
        weight: int64[n], units.
        time: float64[n], seconds, NaN if unknown.
        joints: float64[n, K], log P(s, x) under equal priors, -inf for impossible states; or no rows.
        usual: float64[n, K], P(s | x) under equal priors, for events that no state of a chain allows.
    """

    row: Ints
    begins: Flags
    label: Ints
    weight: Ints
    time: Floats
    joints: Floats
    usual: Floats


@inlined
def _prior(weights: Any, given: Any, mode: int, prior: Any) -> None:
    """Fill P(s) of the states with examples; all zero if no state has any."""
    total = 0.0
    for k in range(prior.size):
        prior[k] = 0.0
        if weights[k] > 0:
            prior[k] = float(weights[k]) if mode == LEARNED else 1.0 if mode == UNIFORM else given[k]
        total += prior[k]
    if total == 0.0:  # the declared prior covers other states only: use a uniform one
        for k in range(prior.size):
            prior[k] = 1.0 if weights[k] > 0 else 0.0
            total += prior[k]
    if total > 0.0:
        for k in range(prior.size):
            prior[k] /= total


@inlined
def _add_estimate(counts: Any, m: float, prior: Any, share: float, ahead: Any) -> None:
    """Add share * (n_k + m p_k) / (n + m); share * p_k if n and m are both zero."""
    n = 0.0
    for k in range(prior.size):
        n += counts[k] / UNIT
    scale = max(n, m)  # divide by the larger one first: m may be close to the largest double
    for k in range(prior.size):
        if scale == 0.0:
            ahead[k] += share * prior[k]
        else:
            ahead[k] += share * (counts[k] / UNIT / scale + m / scale * prior[k]) / (n / scale + m / scale)


@inlined
def _predict_state(chains: Any, row: int, is_first: bool, prior: Any, ahead: Any) -> None:
    fill(ahead, 0.0)
    if not is_first and chains.last[row] >= 0:
        _add_estimate(chains.table[chains.last[row]], chains.m, prior, 1.0, ahead)
        return
    believed = 0.0
    if not is_first:
        for j in range(ahead.size):
            share = chains.beliefs[row, j]
            if share > 0.0:
                believed += share
                _add_estimate(chains.table[j], chains.m, prior, share, ahead)
    if believed == 0.0:  # the chain begins, or all earlier events met a model without states
        _add_estimate(chains.first, chains.m, prior, 1.0, ahead)


@inlined
def _weigh(joint: Any, usual: Any, ahead: Any, probabilities: Any) -> None:
    """Fill P(s_t | x_1..t) from log P(s, x_t) and P(s_t | x_1..t-1); `usual` if they exclude each other."""
    top = -np.inf
    for k in range(ahead.size):
        probabilities[k] = math.log(ahead[k]) + joint[k] if ahead[k] > 0.0 else -np.inf
        top = max(top, probabilities[k])
    if top == -np.inf:
        copy_to(probabilities, usual)
        return
    total = 0.0
    for k in range(ahead.size):
        probabilities[k] = math.exp(probabilities[k] - top)
        total += probabilities[k]
    for k in range(ahead.size):
        probabilities[k] /= total


@inlined
def _is_first(chains: Any, row: int, begins: bool, time: float) -> bool:
    if row < 0 or begins:
        return True
    # An unknown time is NaN, and comparisons with NaN are False.
    return bool(chains.time_to_live > 0.0 and time - chains.seen[row] > chains.time_to_live)


@inlined
def _learn_step(chains: Any, row: int, is_first: bool, label: int, weight: int, time: float) -> None:
    if label >= 0:
        if is_first:
            chains.first[label] += weight
        elif chains.last[row] >= 0:
            chains.table[chains.last[row], label] += weight
        chains.weights[label] += weight
    if row >= 0:
        chains.last[row] = label
        if is_first or math.isnan(chains.seen[row]) or time > chains.seen[row]:
            chains.seen[row] = time


@kernel
def filter_batch(
    chains: Any, steps: Any, learn: bool, prior: Any, ahead: Any, probabilities: Any, predicted: Any
) -> None:
    """Predict each event from its chain so far, then advance the chain if `learn`.

    `prior` and `ahead` (K,) are scratch. `probabilities` (n, K) get P(s_t | x_1..t), unless `joints` is
    empty, and `predicted` P(s_t | x_1..t-1), if it has rows.
    """
    for e in range(steps.label.size):
        row, time = steps.row[e], steps.time[e]
        is_first = _is_first(chains, row, steps.begins[e], time)
        if steps.joints.shape[0] > 0:
            _prior(chains.weights, chains.given, chains.mode, prior)
            _predict_state(chains, row, is_first, prior, ahead)
            _weigh(steps.joints[e], steps.usual[e], ahead, probabilities[e])
            if predicted.shape[0] > 0:
                copy_to(predicted[e], ahead)
        if learn:
            _learn_step(chains, row, is_first, steps.label[e], steps.weight[e], time)
            if row >= 0:
                fill(chains.beliefs[row], 0.0)
                if steps.label[e] < 0:  # with a label the state is known, and the belief stays zero
                    copy_to(chains.beliefs[row, : probabilities.shape[1]], probabilities[e])
