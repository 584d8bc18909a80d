"""Filter and smoother of a hidden Markov model, over sequences of numbered symbols.

    filter    P(s_t = j | x_1..t) ~ b_j(x_t) sum_i P(s_t-1 = i | x_1..t-1) a_ij
    smoother  P(s_t = i | x_1..n) ~ P(s_t = i | x_1..t) beta_t(i)
              beta_t(i) = sum_j a_ij b_j(x_t+1) beta_t+1(j)

**No probability is lost.** A state of probability 1e-400 is still possible, because later events may exclude
all other states. While every probability is 0 or above 1e-240, and each probability of the model is 0 or
above 1e-20, no product can underflow: the filter then works without logarithms. Otherwise it stores
logarithms. Sums of products still use the probabilities themselves. A sum below 1e-280 is repeated in
logarithms, which is exact; above that bound, underflow lost less than 1e-20 of the sum.

**Impossible observations.** If an observation has probability 0 given all before it, its factor is dropped
as if it were missing, in every kernel (also in `viterbi` and `expected_counts`). The evidence of its sequence
is 0.

**Several sequences** are stored in a row, and `begins` marks their first events; nothing flows between
sequences. A stretch that continues an earlier one has `begins[0]` false, and its filter so far in
`log_entry`.

Common arguments: `symbols` int64[n], rows of `log_rows`, or -1 if the factor is dropped; `begins` bool[n];
`log_rows` float64[rows, K], log P(symbol | state); `chain`, see `Chain`.

References: Rabiner (1989), "A tutorial on hidden Markov models", Proceedings of the IEEE 77(2).
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from streamnb.kernels.array_types import Floats
from streamnb.kernels.jit import inlined, kernel
from streamnb.kernels.vector_kernels import copy_to, fill, multiply_by
from streamnb.statistics.compensated import added
from streamnb.values.type_aliases import Flags

SAFE = 1e-280
"""A sum of at most 2^20 products of probabilities that exceeds this lost less than 1e-20 of its value."""
_TINY, _LEAST, _LOG_LEAST, _SMALL = 1e-20, 1e-240, math.log(1e-240), 1e-30


class ChainTables(NamedTuple):
    """Transition probabilities of K states.

    Attributes:
        log_initial: float64[K], log P(s_1).
        log_table: float64[K, K], log P(s_t+1 | s_t), rows are earlier states.
        initial: float64[K], P(s_1).
        table: float64[K, K], P(s_t+1 | s_t).
    """

    log_initial: Floats
    log_table: Floats
    initial: Floats
    table: Floats

    @classmethod
    def from_logs(cls, log_initial: Floats, log_table: Floats) -> ChainTables:
        """Create a chain from the logarithms."""
        return cls(log_initial, log_table, np.exp(log_initial), np.exp(log_table))


def as_logs(filtered: Floats, is_log: Flags) -> Floats:
    """Convert the output of `filter_forward`, float64[n, K], to logarithms in place."""
    with np.errstate(divide="ignore"):
        np.log(filtered, out=filtered, where=~is_log[:, None])
    return filtered


@inlined
def _log_sum(logs: Any, others: Any) -> float:
    top = -np.inf
    for k in range(logs.size):
        top = max(top, logs[k] + others[k])
    if top == -np.inf:
        return top
    total = 0.0
    for k in range(logs.size):
        total += math.exp(logs[k] + others[k] - top)
    return float(top + math.log(total))


@inlined
def exp_all(logs: Any, values: Any) -> None:
    """Fill values = exp(logs)."""
    for k in range(logs.size):
        values[k] = math.exp(logs[k])


@inlined
def _log_predict(log_now: Any, now: Any, chain: Any, log_next: Any) -> None:
    """Fill log_next[j] = log sum_i now[i] a_ij, with now = exp(log_now)."""
    K = log_now.size
    fill(log_next, 0.0)
    for i in range(K):
        if now[i] > 0.0:
            for j in range(K):
                log_next[j] += now[i] * chain.table[i, j]
    for j in range(K):
        if log_next[j] > SAFE:
            log_next[j] = math.log(log_next[j])
        else:
            log_next[j] = _log_sum(log_now, chain.log_table[:, j])


@inlined
def _normalise_logs(logs: Any) -> float:
    """Normalise so that exp(logs) sums to 1; return the log of the old sum. Leave all -inf unchanged."""
    top = -np.inf
    for k in range(logs.size):
        top = max(top, logs[k])
    if top == -np.inf:
        return top
    total = 0.0
    for k in range(logs.size):
        total += math.exp(logs[k] - top)
    log_total = math.log(total)
    for k in range(logs.size):
        logs[k] = (logs[k] - top) - log_total
    return float(top + log_total)


@inlined
def _weigh(log_now: Any, log_row: Any) -> float:
    """Apply Bayes' rule to log_now; return log P(x | before). If that is -inf, nothing changes."""
    top = -np.inf
    for k in range(log_now.size):
        top = max(top, log_now[k] + log_row[k])
    if top == -np.inf:
        return top
    for k in range(log_now.size):
        log_now[k] += log_row[k]
    return _normalise_logs(log_now)


@inlined
def _has_tiny(probabilities: Any) -> bool:
    found = False
    for p in probabilities.flat:
        found |= 0.0 < p < _TINY
    return found


@inlined
def _as_plain(row: Any) -> bool:
    """Convert logarithms to probabilities in place if each is 0 or above 1e-240; return True if done."""
    for k in range(row.size):
        if -np.inf < row[k] < _LOG_LEAST:
            return False
    exp_all(row, row)
    return True


@inlined
def _plain_weigh(predicted: Any, symbol: int, rows: Any, after: Any) -> Any:
    """Fill after = predicted * rows[symbol]; return its sum, and True if an entry is in (0, 1e-240)."""
    total, is_tiny = 0.0, False
    for j in range(predicted.size):
        after[j] = predicted[j] * rows[symbol, j] if symbol >= 0 else predicted[j]
        total += after[j]
        is_tiny |= 0.0 < after[j] < _LEAST
    return total, is_tiny


@inlined
def _plain_predict(before: Any, begins: bool, chain: Any, predicted: Any) -> None:
    K = predicted.size
    for j in range(K):
        predicted[j] = chain.initial[j] if begins else 0.0
    if not begins:
        for i in range(K):
            for j in range(K):
                predicted[j] += before[i] * chain.table[i, j]


@inlined
def _predict_logs(before: Any, is_log: bool, begins: bool, chain: Any, work: Any, after: Any) -> None:
    """Fill log P(s_1), or log sum_i before_i a_ij; `before` may hold logarithms."""
    if begins:
        copy_to(after, chain.log_initial)
        return
    logs, now = work[0], work[1]
    for k in range(before.size):
        logs[k] = before[k] if is_log else math.log(before[k]) if before[k] > 0.0 else -np.inf
    exp_all(logs, now)
    _log_predict(logs, now, chain, after)


@kernel
def filter_forward(
    symbols: Any, begins: Any, log_rows: Any, rows: Any, chain: Any, entry: Any, entry_is_log: bool, out: Any
) -> float:
    """Fill P(s_t | x_1..t); return log P(x_1..n | before), -inf if the observations are impossible.

    Args:
        symbols: see the module; an impossible symbol is overwritten by -1.
        begins: see the module.
        log_rows: see the module.
        rows: exp(log_rows).
        chain: see `Chain`.
        entry: float64[K], the filter before the first event; not read if a sequence begins.
        entry_is_log: True if `entry` holds logarithms.
        out: three arrays: float64[n, K], filled, each row normalised; bool[n], filled: True if the row holds
            logarithms, because one of its probabilities is very small; and float64[3, K], scratch.
    """
    filtered, is_log, work = out
    sums, product, is_impossible = (0.0, 0.0), 1.0, False
    is_fast = not (_has_tiny(chain.initial) or _has_tiny(chain.table) or _has_tiny(rows))
    before, before_is_log = work[2], entry_is_log
    copy_to(before, entry)
    if is_fast and before_is_log:
        before_is_log = not _as_plain(before)
    for t in range(symbols.size):
        after = filtered[t]
        is_log[t] = False
        is_tiny = True
        if is_fast and (begins[t] or not before_is_log):
            _plain_predict(before, begins[t], chain, work[0])
            total, is_tiny = _plain_weigh(work[0], symbols[t], rows, after)
            if total == 0.0:
                is_impossible = True
                symbols[t] = -1
                total, is_tiny = _plain_weigh(work[0], -1, rows, after)
            if not is_tiny:
                multiply_by(after, 1.0 / total)
                if symbols[t] >= 0:
                    product *= total
                    if product < _SMALL:  # one logarithm for several events
                        sums = added(sums, math.log(product))
                        product = 1.0
        if is_tiny:
            _predict_logs(before, before_is_log, begins[t], chain, work, after)
            if symbols[t] >= 0:
                found = _weigh(after, log_rows[symbols[t]])
                if found == -np.inf:
                    is_impossible = True
                    symbols[t] = -1
                else:
                    sums = added(sums, found)
            if symbols[t] < 0:
                _normalise_logs(after)
            is_log[t] = not (is_fast and _as_plain(after))
        before, before_is_log = after, is_log[t]
    sums = added(sums, math.log(product))
    return -np.inf if is_impossible else min(sums[0] + sums[1], 0.0)  # rounding may exceed 0


@inlined
def look_ahead(symbol: int, log_rows: Any, log_beta: Any, log_ahead: Any, ahead: Any) -> None:
    """Fill log_ahead[j] = log b_j(x) + log_beta[j], scaled to a maximum of 0, and ahead = exp(log_ahead)."""
    top = -np.inf
    for j in range(log_beta.size):
        log_ahead[j] = log_beta[j] + (log_rows[symbol, j] if symbol >= 0 else 0.0)
        top = max(top, log_ahead[j])
    for j in range(log_beta.size):
        log_ahead[j] -= top
        ahead[j] = math.exp(log_ahead[j])


@inlined
def step_back(log_ahead: Any, ahead: Any, chain: Any, log_beta: Any) -> None:
    """Fill log_beta[i] = log sum_j a_ij ahead_j."""
    K = log_beta.size
    for i in range(K):
        total = 0.0
        for j in range(K):
            total += chain.table[i, j] * ahead[j]
        log_beta[i] = math.log(total) if total > SAFE else _log_sum(chain.log_table[i], log_ahead)


@inlined
def posterior_of(log_now: Any, log_beta: Any, probabilities: Any) -> None:
    """Fill exp(log_now + log_beta), normalised."""
    top = -np.inf
    for k in range(log_now.size):
        top = max(top, log_now[k] + log_beta[k])
    total = 0.0
    for k in range(log_now.size):
        probabilities[k] = math.exp(log_now[k] + log_beta[k] - top)
        total += probabilities[k]
    for k in range(log_now.size):
        probabilities[k] /= total


@kernel
def smooth_backward(
    symbols: Any, log_rows: Any, chain: Any, log_filter: Any, work: Any, smoothed: Any
) -> None:
    """Fill P(s_t | x_1..n), float64[n, K], for one sequence after `filter_forward`; work: float64[3, K]."""
    log_beta, log_ahead, ahead = work[0], work[1], work[2]
    last = symbols.size - 1
    for t in range(last, -1, -1):
        if t == last:
            fill(log_beta, 0.0)
        else:
            look_ahead(symbols[t + 1], log_rows, log_beta, log_ahead, ahead)
            step_back(log_ahead, ahead, chain, log_beta)
        posterior_of(log_filter[t], log_beta, smoothed[t])
