"""The most likely sequence of states of a hidden Markov model.

    delta_t(j) = b_j(x_t) max_i delta_t-1(i) a_ij

The recursion works in logarithms, and subtracts the largest one at every event. So the values stay near 0 for
any length of sequence; the sum of the subtracted values is compensated. Arguments as in `forward_backward`.

References: Viterbi (1967), IEEE Transactions on Information Theory 13(2); Rabiner (1989), section III B.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from streamnb.kernels.jit import kernel
from streamnb.statistics.compensated import added


@kernel
def viterbi_path(symbols: Any, log_rows: Any, chain: Any, back: Any, scores: Any, path: Any) -> float:
    """Fill the most likely states of one sequence, int64[n]; return log P(path, x_1..n), -inf if impossible.

    Ties go to the lowest last state, then to the lowest before it. `back` (n, K) and `scores` (2, K) are
    scratch.
    """
    K = scores.shape[1]
    sums = (0.0, 0.0)
    is_impossible = False
    for t in range(symbols.size):
        old, new = scores[(t + 1) % 2], scores[t % 2]
        for j in range(K):
            best, came = chain.log_initial[j], 0
            if t > 0:
                best = old[0] + chain.log_table[0, j]
                for i in range(1, K):
                    if old[i] + chain.log_table[i, j] > best:
                        best, came = old[i] + chain.log_table[i, j], i
            new[j] = best
            back[t, j] = came
        top = -np.inf
        if symbols[t] >= 0:
            for j in range(K):
                top = max(top, new[j] + log_rows[symbols[t], j])
            is_impossible |= top == -np.inf
        is_dropped = top == -np.inf
        if is_dropped:
            for j in range(K):
                top = max(top, new[j])
        for j in range(K):
            new[j] += (0.0 if is_dropped else log_rows[symbols[t], j]) - top
        sums = added(sums, top)
    if symbols.size:
        final = scores[(symbols.size - 1) % 2]
        state = 0
        for j in range(1, K):
            if final[j] > final[state]:
                state = j
        for t in range(symbols.size - 1, -1, -1):
            path[t] = state
            state = back[t, state]
    return -np.inf if is_impossible else sums[0] + sums[1]
