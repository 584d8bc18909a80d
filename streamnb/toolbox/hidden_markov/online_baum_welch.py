"""Hidden Markov models with unobserved states, learned from a stream in one pass by online EM."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any, Self

import numpy as np

from streamnb.errors import SnapshotError
from streamnb.kernels.growable_arrays import roomier
from streamnb.statistics.counter_rng import check_seed
from streamnb.toolbox.hidden_markov.forward_backward import ChainTables
from streamnb.toolbox.hidden_markov.hidden_markov_model import HiddenMarkovModel
from streamnb.toolbox.hidden_markov.initial_parameters import start_symbols, start_transitions
from streamnb.toolbox.hidden_markov.online_baum_welch_kernels import (
    EVENTS,
    FILLED,
    MET,
    SMALLEST,
    OnlineCounts,
    OnlineScratch,
    derive_chains,
    derive_row,
    learn_events,
)
from streamnb.values.number_ranges import is_missing
from streamnb.values.parameter_checks import check_amount, check_whole
from streamnb.values.savable import Savable
from streamnb.values.state_validation import (
    FINITE,
    MOST,
    ExpectedArray,
    check_made,
    checked,
    checked_names,
    plain,
)
from streamnb.values.type_aliases import Array, State

_MOST_COUNTED = 1e150

_MOST, _MOST_NUMBERS = 10_000, 1 << 24
_START = 10.0  # weight of each initial row of transitions, in events


class OnlineBaumWelch(Savable):
    """A hidden Markov model with hidden states, learned event by event by online EM.

        E   expected counts of a block of events, given the block and `lag` events after it
        M   n <- f_b n + expected counts of block b;  each distribution is the m-estimate of its counts n

    The decay f_b gives block b the share gamma_b = (b + 1)^-power of all counts. So the start fades, and
    steps shrink so that the estimates converge (power = 1 is a plain sum, which forgets nothing). With K
    states an event costs O(K^2) for each start, whatever the number of symbols.

    This is the blockwise form of online EM (Le Corff and Fort), with a fixed-lag smoother in place of Cappe's
    forward recursion, which costs O(K^4 + V K^3) an event. Events more than `lag` later carry almost no
    information about a state if the chain forgets its state sooner.

    EM climbs to a local maximum that depends on the start. So several starts learn in parallel, and the
    model reports the start with the best recent predictions: the highest sum of log P(x_t | x_1..t-1),
    decayed like the counts. States have no meaning of their own. The result depends on the order of events:
    nothing can be unlearned or merged. A replay gives the same bits, in calls of any size. Missing
    observations (None, NaN) have no factor.

    Args:
        states: K, number of states.
        starts: R, number of starts.
        power: of the step sizes, above 1/2 and at most 1.
        block: events in a step.
        lag: number of events after a block that inform about it.
        m: imaginary events of the m-estimate of each distribution, p uniform.
        seed: seed of the starts, an integer from 0 to 2^128 - 1. Transitions are drawn at random, and each
            new symbol is distributed over the states at random.

    Raises:
        ValueError: if a number is out of range.

    Examples:
        Sequences of one a and three b, from a first state and a second one that persists:

        >>> from streamnb import OnlineBaumWelch
        >>> online = OnlineBaumWelch(states=2)
        >>> for _ in range(300):
        ...     online.begin()
        ...     online.learn_many("abbb")
        >>> model = online.model()
        >>> first, later, *_ = model.viterbi("abbb").states
        >>> round(model.emission_probabilities()[first]["a"], 1)
        1.0
        >>> model.transition_probabilities()[later][later] > 0.95
        True

    References:
        Cappe (2011), "Online EM algorithm for hidden Markov models", Journal of Computational and Graphical
        Statistics 20(3); Mongillo and Deneve (2008), "Online learning with hidden Markov models", Neural
        Computation 20(7); Le Corff and Fort (2013), "Online expectation maximization based algorithms for
        inference in hidden Markov models", Electronic Journal of Statistics 7.
    """

    def __init__(
        self,
        states: int = 2,
        starts: int = 8,
        power: float = 0.6,
        block: int = 16,
        lag: int = 16,
        m: float = 1.0,
        seed: int = 0,
    ) -> None:
        self.states, self.starts, self.power = states, starts, power
        self.block, self.lag, self.seed = block, lag, seed
        for name, least in {"states": 1, "starts": 1, "block": 1, "lag": 0}.items():
            check_whole(name, getattr(self, name), least, _MOST)
        if max(starts * states, block + lag) * states > _MOST_NUMBERS:
            raise ValueError(
                f"{states} states, {starts} starts and {block + lag} buffered events need more than "
                f"{_MOST_NUMBERS:,} numbers in memory: lower one of them"
            )
        if not 0.5 < power <= 1.0:
            raise ValueError(f"power must be above 1/2 and at most 1, not {power!r}")
        check_amount("m", m)
        self.m = float(m)
        check_seed(seed)
        self._symbols: dict[Any, int] = {}
        self._begins = True
        self._counts = _nothing(starts, states, block + lag)
        for r in range(starts):
            self._counts.pairs[r] = _START * start_transitions(seed, r, states)
        self._derive()

    def _derive(self) -> None:
        R, K = self.starts, self.states
        self._scratch = OnlineScratch.with_capacity(self.block + self.lag, K)
        self._chains = ChainTables(
            np.empty((R, K)), np.empty((R, K, K)), np.empty((R, K)), np.empty((R, K, K))
        )
        derive_chains(self._counts, self.m, self._chains)

    def begin(self) -> None:
        """Begin a new sequence with the next event; the first event does so anyway."""
        self._begins = True

    def learn_one(self, x: Any) -> None:
        """Learn the next event of the sequence."""
        self.learn_many([x])

    def learn_many(self, observations: Iterable[Any]) -> None:
        """Learn events in order, the same as `learn_one` of each."""
        events = list(observations)
        met = len(self._symbols)
        for x in events:
            hash(x)  # raises before anything is learned
        codes = [-1 if is_missing(x) else self._symbols.setdefault(x, len(self._symbols)) for x in events]
        if met < len(self._symbols):
            self._reserve(met)
        begins = np.zeros(len(events), dtype=np.bool_)
        begins[:1] = self._begins
        learn_events(
            np.array(codes, dtype=np.int64), begins, self._counts, self._chains, self._scratch,
            self.block, self.power, self.m,
        )  # fmt: skip
        self._begins = self._begins and not events

    def _reserve(self, met: int) -> None:
        V = len(self._symbols)
        emitted = roomier(self._counts.emitted, V, times=2)
        self._counts = self._counts._replace(emitted=emitted)
        for r in range(self.starts):
            emitted[met:V, r] = start_symbols(self.seed, r, self.states, met, V)

    @property
    def symbols(self) -> list[Any]:
        """All symbols in order of appearance."""
        return list(self._symbols)

    @property
    def n_events(self) -> int:
        """Number of events learned, including missing and buffered ones."""
        return int(self._counts.numbers[EVENTS])

    @property
    def log_evidence(self) -> float:
        """Sum of log P(x_t | x_1..t-1) over all events, each under the best start before it, in nats."""
        return float(self._counts.evidence.sum())

    @property
    def best(self) -> int:
        """Number of the reported start: its recent events were the most probable; ties go to the first."""
        return int(self._counts.recent.argmax())

    @property
    def probabilities(self) -> dict[int, float]:
        """P(s_t | x_1..t) of the newest event by state, each step under the model at that time.

        When another start becomes the best, the states change their meaning.
        """
        return dict(enumerate(np.exp(self._counts.log_now[self.best]).tolist()))

    def model(self) -> HiddenMarkovModel:
        """Return a copy of the current model, fully declared, with states 0 to K - 1."""
        r, V = self.best, len(self._symbols)
        log_rows, rows = np.empty((2, V, self.states))
        for v in range(V):
            derive_row(self._counts, r, self.m, v, log_rows[v], rows[v])
        chain = ChainTables(*(array[r] for array in self._chains))
        return _stated_model(list(range(self.states)), self.symbols, chain, rows)

    def state(self) -> State:
        """Return all learned and buffered state. Raises TypeError for symbols that JSON cannot hold."""
        arrays = {name: array.copy() for name, array in self._counts._asdict().items()}
        arrays["emitted"] = arrays["emitted"][: len(self._symbols)]
        return {**self._parameters(), "symbols": [*map(plain, self._symbols)], "begins": self._begins}, arrays

    def load_state(self, meta: Mapping[str, Any], arrays: Mapping[str, Array]) -> Self:
        """Replace all state; return self. Raises SnapshotError, and changes nothing, if it is invalid."""
        check_made(meta, **self._parameters())
        symbols = checked_names(meta.get("symbols"))
        if not isinstance(meta.get("begins"), bool):
            raise SnapshotError("'begins' must be true or false")
        self._counts = _checked(arrays, self._counts, len(symbols))
        self._symbols = {symbol: v for v, symbol in enumerate(symbols)}
        self._begins = bool(meta["begins"])
        self._derive()
        return self

    def _parameters(self) -> dict[str, Any]:
        names = ("states", "starts", "power", "block", "lag", "m", "seed")
        return {"type": type(self).__name__, **{name: getattr(self, name) for name in names}}

    def __repr__(self) -> str:
        return f"OnlineBaumWelch(states={self.states}, symbols={len(self._symbols)}, events={self.n_events})"


def _nothing(starts: int, states: int, length: int) -> OnlineCounts:
    R, K, L = starts, states, length
    uniform = np.full((R, K), -math.log(K))
    return OnlineCounts(
        first=np.zeros((R, K)),
        pairs=np.zeros((R, K, K)),
        emitted=np.zeros((8, R, K)),
        totals=np.zeros((R, K)),
        scale=np.ones(1),
        log_entry=uniform,
        log_now=uniform.copy(),
        recent=np.zeros(R),
        evidence=np.zeros((1, 2)),
        held=np.full(L, -1, dtype=np.int64),
        begins=np.zeros(L, dtype=np.bool_),
        numbers=np.zeros(5, dtype=np.int64),
    )


def _checked(arrays: Mapping[str, Array], own: OnlineCounts, symbols: int) -> OnlineCounts:
    lowest = {"log_entry": -np.inf, "log_now": -np.inf, "recent": -FINITE, "evidence": -np.inf}
    lowest |= {"held": -1, "scale": SMALLEST}
    highest = {"log_entry": 1e-9, "log_now": 1e-9, "held": symbols - 1, "begins": True, "scale": 1.0}
    expected = {
        name: ExpectedArray(
            array.dtype,
            (symbols, *array.shape[1:]) if name == "emitted" else array.shape,
            lowest.get(name, 0),
            highest.get(name, _MOST_COUNTED if array.dtype.kind == "f" else MOST),
        )
        for name, array in own._asdict().items()
    }
    restored = OnlineCounts(**{name: array.copy() for name, array in checked(arrays, expected).items()})
    for logs in (restored.log_entry, restored.log_now):
        if not (np.abs(np.exp(logs).sum(axis=1) - 1.0) <= 1e-9).all():
            raise SnapshotError("probabilities that do not sum to 1")
    if restored.numbers[MET] != symbols or restored.numbers[FILLED] >= restored.held.size:
        raise SnapshotError("the numbers of symbols or of buffered events do not match the state")
    return restored


def _stated_model(
    states: list[Any], symbols: list[Any], chain: ChainTables, emission: Array
) -> HiddenMarkovModel:
    def named(row: Array, names: list[Any]) -> dict[Any, float]:
        return dict(zip(names, (row / math.fsum(row)).tolist(), strict=True))

    return HiddenMarkovModel(
        named(np.exp(chain.log_initial), states),
        {state: named(row, states) for state, row in zip(states, chain.table, strict=True)},
        {state: named(row, symbols) for state, row in zip(states, emission.T, strict=True) if symbols},
    )
