"""Kernels of online EM for a hidden Markov model with hidden states.

Events wait in a buffer of block + lag events. When it is full, the expected counts of its first block are
computed given the whole buffer (`expected_counts`). They are added to the decayed counts of earlier blocks,
and the probabilities are updated at once. The arithmetic, and so every bit, depends on the order of events
alone, not on how calls split them.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from streamnb.kernels.array_types import Floats, Ints
from streamnb.kernels.jit import inlined, kernel
from streamnb.kernels.structs import struct_type
from streamnb.kernels.vector_kernels import add_to, copy_to, multiply_by
from streamnb.statistics.compensated import add
from streamnb.toolbox.hidden_markov.expected_counts import expect
from streamnb.toolbox.hidden_markov.forward_backward import ChainTables, exp_all, filter_forward
from streamnb.values.type_aliases import Flags

EVENTS, FILLED, BLOCKS, BEGUN, MET = range(5)
"""Indices of `OnlineCounts.numbers`: events learned, events buffered, blocks counted, blocks in which a
sequence began, symbols seen."""
_IMPOSSIBLE = -745.0  # log likelihood of an impossible event in nats: ln of the smallest double
SMALLEST = 1e-100  # scale below which the counts of symbols are rewritten


@struct_type
class OnlineCounts(NamedTuple):
    """All that was learned by R starts with K states each; all of it must be saved.

    Attributes:
        first: float64[R, K], expected counts of first states, decayed.
        pairs: float64[R, K, K], expected counts of transitions, decayed.
        emitted: float64[>= V, R, K], expected counts of symbols divided by `scale`; for symbols not seen yet,
            their initial weights.
        totals: float64[R, K], expected counts of all symbols.
        scale: float64[1], common factor of `emitted`, so that decay costs the same for any number of symbols.
        log_entry: float64[R, K], the filter before the buffered events.
        log_now: float64[R, K], the filter after the newest event, under the model at each event.
        recent: float64[R], sum of log P(x_t | before), decayed as counts are.
        evidence: float64[1, 2], that sum under the best start before each event, not decayed, and its
            compensation.
        held: int64[block + lag], the buffered symbols, -1 if missing.
        begins: bool[block + lag], True for buffered events that begin a sequence.
        numbers: int64[5], see `EVENTS`.
    """

    first: Floats
    pairs: Floats
    emitted: Floats
    totals: Floats
    scale: Floats
    log_entry: Floats
    log_now: Floats
    recent: Floats
    evidence: Floats
    held: Ints
    begins: Flags
    numbers: Ints


@struct_type
class OnlineScratch(NamedTuple):
    """Scratch arrays, L = block + lag; nothing in them outlives a call."""

    symbols: Ints  # [L]
    each: Ints  # [L], 0, 1, ...
    log_rows: Floats  # [L, K]
    rows: Floats  # [L, K]
    filtered: Floats  # [L, K]
    is_log: Flags  # [L]
    emitted: Floats  # [L, K]
    first: Floats  # [K]
    pairs: Floats  # [K, K]
    work: Floats  # [5, K]

    @classmethod
    def with_capacity(cls, length: int, K: int) -> OnlineScratch:
        """Allocate scratch arrays for this number of events and states."""
        return cls(
            symbols=np.empty(length, dtype=np.int64),
            each=np.arange(length),
            log_rows=np.empty((length, K)),
            rows=np.empty((length, K)),
            filtered=np.empty((length, K)),
            is_log=np.empty(length, dtype=np.bool_),
            emitted=np.empty((length, K)),
            first=np.empty(K),
            pairs=np.empty((K, K)),
            work=np.empty((5, K)),
        )


@inlined
def _log_shares(counts: Any, m: float, logs: Any) -> None:
    """Fill log (n_c + m / K) / (n + m); uniform if n + m is 0."""
    K = counts.size
    total = m
    for k in range(K):
        total += counts[k]
    for k in range(K):
        share = (counts[k] + m / K) / total if total > 0.0 else 1.0 / K
        logs[k] = math.log(share) if share > 0.0 else -np.inf


@kernel
def derive_chains(counts: Any, m: float, chains: Any) -> None:
    """Compute the probabilities of the states by the m-estimate of the expected counts of all R starts."""
    for r in range(counts.first.shape[0]):
        _log_shares(counts.first[r], m, chains.log_initial[r])
        exp_all(chains.log_initial[r], chains.initial[r])
        for i in range(counts.first.shape[1]):
            _log_shares(counts.pairs[r, i], m, chains.log_table[r, i])
            exp_all(chains.log_table[r, i], chains.table[r, i])


@kernel
def derive_row(counts: Any, r: int, m: float, symbol: int, logs: Any, row: Any) -> None:
    """Fill log P(symbol | state) of start r by the m-estimate over V known symbols, and `row` = exp(logs)."""
    V = counts.numbers[MET]
    for k in range(logs.size):
        total = counts.totals[r, k] + m
        share = 1.0 / V
        if total > 0.0:
            share = (counts.emitted[symbol, r, k] * counts.scale[0] + m / V) / total
        row[k] = share
        logs[k] = math.log(share) if share > 0.0 else -np.inf


@inlined
def _chain_of(chains: Any, r: int) -> Any:
    return ChainTables(chains.log_initial[r], chains.log_table[r], chains.initial[r], chains.table[r])


@inlined
def _log_filter(
    held: Any, begins: Any, counts: Any, chains: Any, r: int, log_entry: Any, scratch: Any, m: float
) -> float:
    """Filter n events under start r into `scratch`, as logarithms; return the log evidence."""
    n = held.size
    symbols, log_rows, rows = scratch.symbols[:n], scratch.log_rows[:n], scratch.rows[:n]
    for t in range(n):
        symbols[t] = t
        if held[t] >= 0:
            derive_row(counts, r, m, held[t], log_rows[t], rows[t])
        else:
            symbols[t] = -1
            rows[t] = 0.0  # not used, but `filter_forward` inspects all rows
    chain = _chain_of(chains, r)
    out = scratch.filtered, scratch.is_log, scratch.work
    found = filter_forward(symbols, begins, log_rows, rows, chain, log_entry, True, out)
    for t in range(n):
        if not scratch.is_log[t]:
            for k in range(log_entry.size):
                p = scratch.filtered[t, k]
                scratch.filtered[t, k] = math.log(p) if p > 0.0 else -np.inf
    return float(found)


@inlined
def _meet(counts: Any) -> None:
    """Add the next symbol with the weight of about one event, distributed like all symbols."""
    symbol = counts.numbers[MET]
    R, K = counts.totals.shape
    for r in range(R):
        total = 0.0
        for k in range(K):
            total += counts.totals[r, k]
        for k in range(K):
            share = counts.totals[r, k] / total if total > 0.0 else 1.0 / K
            weight = counts.emitted[symbol, r, k] * share
            counts.totals[r, k] += weight
            counts.emitted[symbol, r, k] = weight / counts.scale[0]
    counts.numbers[MET] += 1


@inlined
def _decay(block: int, power: float) -> float:
    """Return the factor of earlier counts that gives block b a share of (b + 1)^-power of all counts."""
    step, before = (block + 1.0) ** -power, float(block) ** -power
    return float(before / step * (1.0 - step))


@inlined
def _expect_block(counts: Any, chains: Any, r: int, scratch: Any, block: int, m: float) -> None:
    """Run the E step of start r: fill the scratch's expected counts, and advance `log_entry`."""
    scratch.first[:] = 0.0
    scratch.pairs[:] = 0.0
    scratch.emitted[:] = 0.0
    log_entry = counts.log_entry[r]
    _log_filter(counts.held, counts.begins, counts, chains, r, log_entry, scratch, m)
    events, log_rows = (scratch.symbols, counts.begins, scratch.each), scratch.log_rows
    expected = scratch.first, scratch.pairs, scratch.emitted
    chain = _chain_of(chains, r)
    expect(events, block, log_rows, chain, log_entry, scratch.filtered, scratch.work, expected)
    copy_to(log_entry, scratch.filtered[block - 1])


@inlined
def _rescale(counts: Any) -> None:
    for v in range(counts.numbers[MET]):
        for r in range(counts.emitted.shape[1]):
            multiply_by(counts.emitted[v, r], counts.scale[0])
    counts.scale[0] = 1.0


@kernel
def _count_block(counts: Any, chains: Any, scratch: Any, block: int, power: float, m: float) -> None:
    """Run the E and M step on the first `block` buffered events, and remove them from the buffer."""
    R, K = counts.first.shape
    counts.numbers[BLOCKS] += 1
    rest = _decay(counts.numbers[BLOCKS], power)
    rest_of_first = 1.0
    for t in range(block):
        if counts.begins[t] and rest_of_first == 1.0:
            counts.numbers[BEGUN] += 1
            rest_of_first = _decay(counts.numbers[BEGUN], power)
    scale = counts.scale[0] * rest
    for r in range(R):
        _expect_block(counts, chains, r, scratch, block, m)
        counts.recent[r] *= rest
        multiply_by(counts.totals[r], rest)
        multiply_by(counts.first[r], rest_of_first)
        add_to(counts.first[r], scratch.first)
        for i in range(K):
            multiply_by(counts.pairs[r, i], rest)
            add_to(counts.pairs[r, i], scratch.pairs[i])
        for t in range(block):
            if counts.held[t] >= 0:
                add_to(counts.totals[r], scratch.emitted[t])
                multiply_by(scratch.emitted[t], 1.0 / scale)
                add_to(counts.emitted[counts.held[t], r], scratch.emitted[t])
    counts.scale[0] = scale
    if scale < SMALLEST:
        _rescale(counts)
    for t in range(block, counts.held.size):
        counts.held[t - block] = counts.held[t]
        counts.begins[t - block] = counts.begins[t]
    counts.numbers[FILLED] -= block
    derive_chains(counts, m, chains)


@kernel
def learn_events(
    symbols: Any, begins: Any, counts: Any, chains: Any, scratch: Any, block: int, power: float, m: float
) -> None:
    """Learn events int64[n] in order: symbol numbers, the next number for a new symbol, -1 for missing."""
    for e in range(symbols.size):
        if symbols[e] >= counts.numbers[MET]:
            _meet(counts)
        best = np.argmax(counts.recent)
        for r in range(counts.recent.size):
            found = _log_filter(
                symbols[e : e + 1], begins[e : e + 1], counts, chains, r, counts.log_now[r], scratch, m
            )
            copy_to(counts.log_now[r], scratch.filtered[0])
            counts.recent[r] += max(found, _IMPOSSIBLE)
            if r == best:
                add(counts.evidence, 0, found)
        counts.held[counts.numbers[FILLED]] = symbols[e]
        counts.begins[counts.numbers[FILLED]] = begins[e]
        counts.numbers[FILLED] += 1
        counts.numbers[EVENTS] += 1
        if counts.numbers[FILLED] == counts.held.size:
            _count_block(counts, chains, scratch, block, power, m)
