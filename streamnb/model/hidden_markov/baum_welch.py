"""Hidden Markov models whose states nobody knows, from sequences that are all at hand: batch EM."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from streamnb.model.attributes.ranges import is_missing
from streamnb.model.attributes.signatures import Flags
from streamnb.model.compiled.arrays import Floats
from streamnb.model.hidden_markov.expected_counts import expect
from streamnb.model.hidden_markov.forward_backward import Chain, as_logs, filter_forward
from streamnb.model.hidden_markov.hidden_markov_model import HiddenMarkovModel
from streamnb.model.hidden_markov.initial_parameters import start_symbols, start_transitions
from streamnb.model.hidden_markov.transitions import Counts

Parameters = tuple[Chain, Floats]


class BaumWelch(NamedTuple):
    """What `baum_welch` found.

    Attributes:
        model: all its probabilities are stated.
        log_evidences: log P(all sequences), in nats, of the start and after each iteration; never falling,
            but for rounding.
    """

    model: HiddenMarkovModel
    log_evidences: list[float]


class ExpectedCounts(NamedTuple):
    """Expected counts of states that are not known, given all observations.

    Attributes:
        first: float64[K], of sequences that began with each.
        pairs: float64[K, K], of transitions.
        emitted: float64[V, K], of symbols.
        log_evidence: log P(all observations), in nats.
    """

    first: Floats
    pairs: Floats
    emitted: Floats
    log_evidence: float


def baum_welch(
    sequences: Iterable[Iterable[Any]],
    states: int = 2,
    start: HiddenMarkovModel | None = None,
    starts: int = 8,
    seed: int = 0,
    iterations: int = 100,
    tolerance: float = 1e-8,
) -> BaumWelch:
    """Estimate a hidden Markov model from sequences of observations alone, by EM over all of them at once.

        E   expected counts of first states, transitions and symbols, given all observations
        M   each distribution becomes its expected counts, normalised; one without any stays as it is

    No iteration lowers P(sequences); it ends in a local maximum, or a saddle, that depends on the start. What
    each state means, EM cannot know: states are numbered, and any permutation of them is as good. Missing
    observations (None, NaN) have no factor.

    Args:
        sequences: of hashable symbols.
        states: K, how many there are. Ignored where `start` says it.
        start: the probabilities to begin with; symbols that it does not have are as missing. By default they
            are drawn at random.
        starts: how many of these; the one that has come highest after a tenth of the iterations goes on.
        seed: of those draws, an integer from 0 to 2^128 - 1.
        iterations: how many at most, of the one that goes on.
        tolerance: it ends when an iteration raises the log evidence by no more than this, in nats an event.

    Raises:
        ValueError: if a number is out of range, or `start` has no states.

    Examples:
        Two states that come in threes:

        >>> from streamnb import baum_welch
        >>> found = baum_welch(["aaabbbaaabbbaaabbb"], states=2)
        >>> [round(found.log_evidences[i], 2) for i in (0, -1)]
        [-17.14, -10.23]
        >>> "".join(str(state) for state in found.model.viterbi("aaabbb").states) in ("000111", "111000")
        True

    References:
        Baum, Petrie, Soules and Weiss (1970), Annals of Mathematical Statistics 41(1); Rabiner (1989),
        section III C.
    """
    if states < 1 or starts < 1 or iterations < 0 or not tolerance >= 0.0:
        raise ValueError(f"out of range: {states=}, {starts=}, {iterations=}, {tolerance=}")
    told = [list(sequence) for sequence in sequences]
    symbols = list(dict.fromkeys(x for sequence in told for x in sequence if not is_missing(x)))
    names = list(range(states))
    if start is not None:
        names, symbols = start.states, start.symbols
        if not names:
            raise ValueError("the start has no states")
    data = _as_data(told, symbols)
    if start is not None:
        begun = [
            _Climb(data, (start.tables.derived().chain, start.tables.log_rows(start.tables.codes(symbols))))
        ]
    else:
        begun = [_Climb(data, _drawn(seed, r, states, len(symbols))) for r in range(starts)]
    if len(begun) > 1:
        for climb in begun:
            climb.go_on(iterations // 10, tolerance)
    best = max(begun, key=lambda climb: climb.log_evidences[-1])
    best.go_on(iterations - len(best.log_evidences) + 1, tolerance)
    chain, log_rows = best.parameters
    return BaumWelch(stated_model(names, symbols, chain, np.exp(log_rows)), best.log_evidences)


class _Data(NamedTuple):
    codes: Counts
    begins: Flags


def _as_data(told: list[list[Any]], symbols: list[Any]) -> _Data:
    place = {symbol: v for v, symbol in enumerate(symbols)}
    codes = np.array([place.get(x, -1) for sequence in told for x in sequence], dtype=np.int64)
    begins = np.zeros(codes.size + 1, dtype=np.bool_)
    begins[np.cumsum([0, *(len(sequence) for sequence in told)])] = True
    return _Data(codes, begins[:-1])


class _Climb:
    """EM from one start."""

    def __init__(self, data: _Data, parameters: Parameters) -> None:
        self.parameters, self._data = parameters, data
        self._expected = expected_counts(*data, *parameters)
        self.log_evidences = [self._expected.log_evidence]
        self._has_converged = False

    def go_on(self, iterations: int, tolerance: float) -> None:
        """At most so many iterations."""
        for _ in range(iterations):
            if self._has_converged:
                return
            self.parameters = _maximised(self._expected, *self.parameters)
            self._expected = expected_counts(*self._data, *self.parameters)
            before, now = self.log_evidences[-1], self._expected.log_evidence
            self.log_evidences.append(now)
            self._has_converged = now <= before + tolerance * self._data.codes.size


def expected_counts(codes: Counts, begins: Flags, chain: Chain, log_rows: Floats) -> ExpectedCounts:
    """The E step: of events int64[n], rows of `log_rows` or -1; `begins` bool[n] says where sequences do.

    An impossible observation counts as its symbol, but tells nothing of its state.
    """
    n, K = codes.size, chain.log_initial.size
    symbols, filtered, is_log = codes.copy(), np.empty((n, K)), np.empty(n, dtype=np.bool_)
    entry, work, rows = np.zeros(K), np.empty((5, K)), np.exp(log_rows)
    log_evidence = filter_forward(
        symbols, begins, log_rows, rows, chain, entry, False, filtered, is_log, work
    )
    log_filter = as_logs(filtered, is_log)
    counts = np.zeros(K), np.zeros((K, K)), np.zeros(log_rows.shape)
    expect(symbols, begins, codes, n, log_rows, chain, entry, log_filter, work, *counts)
    return ExpectedCounts(*counts, float(log_evidence))


def stated_model(states: list[Any], symbols: list[Any], chain: Chain, emission: Floats) -> HiddenMarkovModel:
    """A model of which all is stated: `emission` is float64[V, K], P(symbol | state)."""

    def named(row: Floats, names: list[Any]) -> dict[Any, float]:
        return dict(zip(names, (row / math.fsum(row)).tolist(), strict=True))

    return HiddenMarkovModel(
        named(np.exp(chain.log_initial), states),
        {state: named(row, states) for state, row in zip(states, chain.table, strict=True)},
        {state: named(row, symbols) for state, row in zip(states, emission.T, strict=True) if symbols},
    )


def _maximised(expected: ExpectedCounts, chain: Chain, log_rows: Floats) -> Parameters:
    """The M step: expected counts as distributions."""
    first = _log_shares(expected.first, chain.log_initial)
    following = np.stack([_log_shares(*rows) for rows in zip(expected.pairs, chain.log_table, strict=True)])
    emitted = [_log_shares(*columns) for columns in zip(expected.emitted.T, log_rows.T, strict=True)]
    return Chain.of(first, following), np.ascontiguousarray(np.stack(emitted).T)


def _log_shares(counts: Floats, log_before: Floats) -> Floats:
    total = math.fsum(counts)
    if not total > 0.0:
        return log_before
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(counts / total))


def _drawn(seed: int, start: int, states: int, symbols: int) -> Parameters:
    """A random start; the first state is any."""
    weights = start_symbols(seed, start, states, 0, symbols)
    log_rows = np.log(weights) - np.log(weights.sum(axis=0)) if symbols else weights
    initial = np.full(states, -math.log(states))
    return Chain.of(initial, np.log(start_transitions(seed, start, states))), log_rows
