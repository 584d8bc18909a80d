"""Expected counts of a hidden Markov model: the E step of EM.

    P(s_t = i | x_1..n)               ~ P(s_t = i | x_1..t) beta_t(i)
    P(s_t-1 = i, s_t = j | x_1..n)    ~ P(s_t-1 = i | x_1..t-1) a_ij b_j(x_t) beta_t(j)

References: Baum et al. (1970), Annals of Mathematical Statistics 41(1); Rabiner (1989), section III C.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from streamnb.kernels.jit import inlined, kernel
from streamnb.kernels.vector_kernels import fill
from streamnb.toolbox.hidden_markov.forward_backward import SAFE, exp_all, look_ahead, posterior_of, step_back


@inlined
def _add_pairs(log_before: Any, now: Any, log_ahead: Any, ahead: Any, chain: Any, pairs: Any) -> None:
    """Add P(s_t-1 = i, s_t = j | x_1..n) ~ now_i a_ij ahead_j, of now = exp(log_before), to pairs[i, j]."""
    K = log_before.size
    total = 0.0
    for i in range(K):
        for j in range(K):
            total += now[i] * chain.table[i, j] * ahead[j]
    if total > SAFE:
        for i in range(K):
            for j in range(K):
                pairs[i, j] += now[i] * chain.table[i, j] * ahead[j] / total
        return
    top = -np.inf
    for i in range(K):
        for j in range(K):
            top = max(top, log_before[i] + chain.log_table[i, j] + log_ahead[j])
    total = 0.0
    for i in range(K):
        for j in range(K):
            total += math.exp(log_before[i] + chain.log_table[i, j] + log_ahead[j] - top)
    for i in range(K):
        for j in range(K):
            pairs[i, j] += math.exp(log_before[i] + chain.log_table[i, j] + log_ahead[j] - top) / total


@kernel
def expect(
    events: Any, stop: int, log_rows: Any, chain: Any, log_entry: Any, log_filter: Any, work: Any, counts: Any
) -> None:
    """Add the expected counts of events 0 to `stop` - 1, given all n.

    Args:
        events: symbols, as `filter_forward` wrote them; begins, as there; and int64[n], the row of `emitted`
            in which an event counts, -1 for none.
        stop: number of events that are counted; later events only inform about them.
        log_rows: as in `filter_forward`.
        chain: as in `filter_forward`.
        log_entry: float64[K], log of the filter before the first event.
        log_filter: float64[n, K], log of the filter.
        work: float64[5, K], scratch.
        counts: float64[K], expected number of sequences that begin with each state; float64[K, K], expected
            number of transitions into the counted events; and float64[rows, K], of emitted symbols by state.
    """
    (symbols, begins, counted), (first, pairs, emitted) = events, counts
    log_beta, log_ahead, ahead, now, posterior = work[0], work[1], work[2], work[3], work[4]
    last = symbols.size - 1
    for t in range(last, -1, -1):
        if t == last or begins[t + 1]:
            fill(log_beta, 0.0)
        else:  # log_ahead and ahead belong to t + 1
            step_back(log_ahead, ahead, chain, log_beta)
        if t < stop:
            posterior_of(log_filter[t], log_beta, posterior)
            for k in range(log_beta.size):
                if begins[t]:
                    first[k] += posterior[k]
                if counted[t] >= 0:
                    emitted[counted[t], k] += posterior[k]
        look_ahead(symbols[t], log_rows, log_beta, log_ahead, ahead)
        if t < stop and not begins[t]:
            before = log_entry if t == 0 else log_filter[t - 1]
            exp_all(before, now)
            _add_pairs(before, now, log_ahead, ahead, chain, pairs)
