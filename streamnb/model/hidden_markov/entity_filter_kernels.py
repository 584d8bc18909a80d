"""The filter of a hidden Markov model over many chains at once, event by event, strictly in order.

    P(s_t | x_1..t)  ~  P(x_t | s_t) * sum_s P(s_t | s) P(s | x_1..t-1)      Rabiner (1989), forward pass

It comes after the emissions were scored, and changes nothing of them: what it needs of each event is
log P(s, x_t) under equal priors of the states.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from streamnb.compiler.bundles import bundle
from streamnb.model.attributes.priors import LEARNED, UNIFORM
from streamnb.model.attributes.signatures import Flags
from streamnb.model.attributes.weights import UNIT
from streamnb.model.compiled.arrays import Floats, Ints
from streamnb.model.compiled.jit import inlined, kernel
from streamnb.model.compiled.vectors import copy_to, fill

NOBODY = -1
"""In place of a row: an event of no entity. In place of a state: it is not known."""


@bundle
class Chains(NamedTuple):
    """What was learned of chains, and what is believed of each; with K states and a row for each chain.

    Attributes:
        weights: int64[K], weight learned of each state, in units of 1/1024 example.
        given: float64[K], relative weights of given priors.
        mode: of the prior: LEARNED, UNIFORM or GIVEN.
        first: int64[K], weight of the sequences that began with each state.
        table: int64[K, K], weight of the transitions from each state (row) to each (column).
        m: of the m-estimate, >= 0; its prior estimate is that of the states.
        beliefs: float64[rows, >= K], P(s | all of the chain) where its last state is not known, else zero.
        last: int64[rows], the state of the last event, -1 where it is not known.
        seen: float64[rows], the latest time of the chain, seconds; nan where none is known.
        time_to_live: seconds after which a chain begins anew; 0 is never.
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


@bundle
class Steps(NamedTuple):
    """Events as the filter takes them.

    Attributes:
        row: int64[n], of the event's chain, or -1.
        begins: bool[n], whether the chain in that row begins here.
        label: int64[n], the state, or -1.
        weight: int64[n], units.
        time: float64[n], seconds, nan where it is not known.
        joints: float64[n, K], log P(s, x) under equal priors, -inf where there is none; or no rows.
        usual: float64[n, K], P(s | x) under equal priors: of events that no state of a chain allows.
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
    """P(s) of the states with examples; all zero while there are none."""
    total = 0.0
    for k in range(prior.size):
        prior[k] = 0.0
        if weights[k] > 0:
            prior[k] = float(weights[k]) if mode == LEARNED else 1.0 if mode == UNIFORM else given[k]
        total += prior[k]
    if total == 0.0:  # priors were given for other states only: these are all alike
        for k in range(prior.size):
            prior[k] = 1.0 if weights[k] > 0 else 0.0
            total += prior[k]
    if total > 0.0:
        for k in range(prior.size):
            prior[k] /= total


@inlined
def _add_estimate(counts: Any, m: float, prior: Any, share: float, ahead: Any) -> None:
    """Add share * (n_k + m p_k) / (n + m); where both are zero, share * p_k."""
    n = 0.0
    for k in range(prior.size):
        n += counts[k] / UNIT
    scale = max(n, m)  # divided by the larger of the two first: m may be as large as a double can be
    for k in range(prior.size):
        if scale == 0.0:
            ahead[k] += share * prior[k]
        else:
            ahead[k] += share * (counts[k] / UNIT / scale + m / scale * prior[k]) / (n / scale + m / scale)


@inlined
def _predict_state(chains: Any, row: int, is_first: bool, prior: Any, ahead: Any) -> None:
    """P(s_t | all of the chain before)."""
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
    if believed == 0.0:  # it begins; or all that came before met a model that knew no state
        _add_estimate(chains.first, chains.m, prior, 1.0, ahead)


@inlined
def _weigh(joint: Any, usual: Any, ahead: Any, probabilities: Any) -> None:
    """P(s_t | x_1..t) of log P(s, x_t) and P(s_t | x_1..t-1); where these exclude each other, `usual`."""
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
    """Whether nothing is known of the event's chain, or what is known is too old."""
    if row < 0 or begins:
        return True
    # Where a time is not known, nan is no more than anything.
    return bool(chains.time_to_live > 0.0 and time - chains.seen[row] > chains.time_to_live)


@inlined
def _learn_step(chains: Any, row: int, is_first: bool, label: int, weight: int, time: float) -> None:
    """Count the step, and let the chain stand at the label."""
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
    """Predict each event by all of its chain before it, then, where `learn`, go on with the chain.

    Args:
        chains: what was learned; `weights`, `first`, `table` and the rows change where `learn`.
        steps: the events.
        learn: whether the chains go on. Otherwise each event is predicted as the next of its chain.
        prior: float64[K], scratch.
        ahead: float64[K], the same.
        probabilities: float64[n, K], gets P(s_t | x_1..t); not looked at where `joints` has no rows.
        predicted: float64[n, K], gets P(s_t | x_1..t-1) where it has rows.
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
                if steps.label[e] < 0:  # else nothing is believed of the chain: its state is known
                    copy_to(chains.beliefs[row, : probabilities.shape[1]], probabilities[e])
