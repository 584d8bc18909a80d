"""Hidden Markov models over named states and symbols: learning by counting, filter, smoother, Viterbi."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping
from typing import Any, NamedTuple, Self

import numpy as np

from streamnb.kernels.array_types import Floats
from streamnb.models.interface.parameter_count import ParameterCount
from streamnb.statistics.counter_rng import pick, uniforms
from streamnb.toolbox.hidden_markov.chain_parameters import ChainParameters
from streamnb.toolbox.hidden_markov.forward_backward import (
    ChainTables,
    as_logs,
    filter_forward,
    smooth_backward,
)
from streamnb.toolbox.hidden_markov.hidden_markov_filter import RunningSequence
from streamnb.toolbox.hidden_markov.hidden_markov_tables import HiddenMarkovPrior, HiddenMarkovTables
from streamnb.toolbox.hidden_markov.initial_parameters import Distributions
from streamnb.toolbox.hidden_markov.transitions import Counts
from streamnb.toolbox.hidden_markov.viterbi import viterbi_path
from streamnb.values.example_weights import units
from streamnb.values.parameter_checks import check_amount, check_mapping, check_whole
from streamnb.values.savable import Savable
from streamnb.values.state_validation import check_made
from streamnb.values.type_aliases import Array, Flags, State

Name = Hashable


class StatePath(NamedTuple):
    """The most likely sequence of states.

    Attributes:
        states: one state for each observation.
        log_probability: log P(states, observations), in nats.
    """

    states: list[Any]
    log_probability: float


class EncodedObservations(NamedTuple):
    """A sequence as input of the kernels; see `forward_backward`."""

    states: list[Any]
    symbols: Counts
    begins: Flags
    log_rows: Floats
    chain: ChainTables


class HiddenMarkovModel(ParameterCount, Savable):
    """A hidden Markov model with discrete observations; states and symbols may be any hashable values.

        P(s_1..n, x_1..n) = P(s_1) prod over t of P(s_t+1 | s_t)  prod over t of P(x_t | s_t)

    It learns by counting from sequences whose states are known. Each of the three distributions is the
    m-estimate (n_c + m p) / (n + m), with m = 0 as the limit. p is uniform over all states or symbols, or is
    declared by `initial`, `transition` and `emission`. A fully declared model needs no learning; when it
    learns, the declared probabilities count as m examples. For hidden states see `OnlineBaumWelch`.

    Missing observations and states (None, NaN) drop their factors, in learning and in inference. In inference
    so does a symbol that is neither declared nor learned. Names are compared as in a dict.

    Impossible sequences (m = 0, or probabilities of 0) have log evidence -inf. The filter, the smoother and
    Viterbi then treat each observation that is impossible after those before it as missing, so their
    probabilities always sum to 1.

    The order of sequences does not matter, and `unlearn_one` subtracts counts exactly.

    Args:
        initial: state -> P(s_1); a state left out has 0.
        transition: state -> {next state: P(s_t+1 | s_t)}.
        emission: state -> {symbol: P(x | s)}.
        m: imaginary examples of the first state, and of the successors of each state.
        emission_m: imaginary examples of the symbols of each state.

    Raises:
        ValueError: if a number is out of range, or declared probabilities do not sum to 1.

    Examples:
        A chunker: B begins a phrase, I is inside one.

        >>> from streamnb import HiddenMarkovModel
        >>> model = HiddenMarkovModel()
        >>> model.learn_one(["the", "dog", "ran"], ["B", "I", "B"])
        >>> model.learn_one(["the", "cat"], ["B", "I"])
        >>> model.viterbi(["the", "cat", "ran"]).states
        ['B', 'I', 'B']
        >>> [round(p, 3) for p in model.filter(["the", "cat", "ran"])[-1].tolist()]  # of B and I
        [0.911, 0.089]

        A fully declared model, and a sequence observed event by event:

        >>> rain = HiddenMarkovModel(
        ...     initial={"rain": 0.5, "dry": 0.5},
        ...     transition={"rain": {"rain": 0.7, "dry": 0.3}, "dry": {"rain": 0.3, "dry": 0.7}},
        ...     emission={"rain": {"umbrella": 0.9, "none": 0.1}, "dry": {"umbrella": 0.2, "none": 0.8}},
        ... )
        >>> days = rain.begin()
        >>> round(days.observe("umbrella")["rain"], 3), round(days.observe("umbrella")["rain"], 3)
        (0.818, 0.883)
        >>> {state: round(p, 3) for state, p in days.next_state().items()}
        {'rain': 0.653, 'dry': 0.347}

    References:
        Rabiner (1989), "A tutorial on hidden Markov models and selected applications in speech recognition",
        Proceedings of the IEEE 77(2); Russell and Norvig (2010), section 15.2 (the umbrella).
    """

    def __init__(
        self,
        initial: Mapping[Any, float] | None = None,
        transition: Mapping[Any, Mapping[Any, float]] | None = None,
        emission: Mapping[Any, Mapping[Any, float]] | None = None,
        m: float = 1.0,
        emission_m: float = 1.0,
    ) -> None:
        check_amount("m", m)
        check_amount("emission_m", emission_m)
        check_mapping("initial", initial, "{'rain': 0.5, 'dry': 0.5}")
        for name, rows in (("transition", transition), ("emission", emission)):
            check_mapping(name, rows, "{'rain': {'wet': 0.7, 'dry': 0.3}}")
        self.initial, self.transition, self.emission = initial, transition, emission
        self.m, self.emission_m = m, emission_m
        self._prior = HiddenMarkovPrior(
            Distributions("initial", {} if initial is None else {"a sequence": initial}),
            Distributions("transition", transition or {}),
            Distributions("emission", emission or {}),
            float(m),
            float(emission_m),
        )
        self.tables = HiddenMarkovTables(self._prior)
        """Counts of transitions and emissions."""

    @property
    def states(self) -> list[Any]:
        """The K states that are declared or learned, in order of appearance."""
        return list(self.tables.derived().states)

    @property
    def symbols(self) -> list[Any]:
        """The V symbols that are declared or learned, in order of appearance."""
        return self.tables.symbols

    def initial_probabilities(self) -> dict[Any, float]:
        """Return P(s_1) by state."""
        states, _, chain = self.tables.derived()
        return dict(zip(states, np.exp(chain.log_initial).tolist(), strict=True))

    def transition_probabilities(self) -> dict[Any, dict[Any, float]]:
        """Return {next state: P(s_t+1 | s_t)} by state."""
        states, _, chain = self.tables.derived()
        rows = chain.table.tolist()
        return {state: dict(zip(states, row, strict=True)) for state, row in zip(states, rows, strict=True)}

    def emission_probabilities(self) -> dict[Any, dict[Any, float]]:
        """Return {symbol: P(x | s)} by state."""
        symbols = self.symbols
        columns = np.exp(self.tables.log_rows(self.tables.codes(symbols))).T.tolist()
        by_state = zip(self.states, columns, strict=True)
        return {state: dict(zip(symbols, column, strict=True)) for state, column in by_state}

    def parameters(self) -> ChainParameters:
        """Return P(s_1), P(s_t+1 | s_t) and P(x | s), with the number of free parameters of each."""
        chain = self.initial_probabilities(), self.transition_probabilities()
        return ChainParameters(*chain, self.emission_probabilities())

    def learn_one(self, observations: Iterable[Any], states: Iterable[Any], w: float = 1.0) -> None:
        """Learn a whole sequence, `w` times (steps of 1/1024, up to 2^20). Raises ValueError."""
        observations, states, weight = _paired(observations, states, w)
        if weight:
            self.tables.count(observations, states, weight)

    def unlearn_one(self, observations: Iterable[Any], states: Iterable[Any], w: float = 1.0) -> None:
        """Undo ``learn_one(observations, states, w)`` exactly, or raise UnlearnError and change nothing."""
        observations, states, weight = _paired(observations, states, w)
        if weight:
            self.tables.take_back(observations, states, weight)

    def clone(self) -> Self:
        """Return a model with the same parameters that has learned nothing."""
        return type(self)(self.initial, self.transition, self.emission, self.m, self.emission_m)

    def begin(self) -> RunningSequence:
        """Begin a sequence that is observed event by event; see `RunningSequence`."""
        return RunningSequence(self.tables)

    def filter(self, observations: Iterable[Any]) -> Floats:
        """Return P(s_t | x_1..t), float64[n, K], with columns in the order of `states`."""
        filtered, is_log, _ = self._filtered(self.encoded(observations))
        if is_log.any():
            np.exp(filtered, out=filtered, where=is_log[:, None])
        return filtered

    def smooth(self, observations: Iterable[Any]) -> Floats:
        """Return P(s_t | x_1..n), float64[n, K], with columns in the order of `states`."""
        encoded = self.encoded(observations)
        filtered, is_log, _ = self._filtered(encoded)
        log_filter = as_logs(filtered, is_log)
        smoothed = np.empty_like(log_filter)
        if smoothed.size:
            _, symbols, _, log_rows, chain = encoded
            work = np.empty((3, log_filter.shape[1]))
            smooth_backward(symbols, log_rows, chain, log_filter, work, smoothed)
        return smoothed

    def log_evidence(self, observations: Iterable[Any]) -> float:
        """Return log P(x_1..n) of the known observations, in nats; -inf if they are impossible."""
        return self._filtered(self.encoded(observations))[2]

    def viterbi(self, observations: Iterable[Any]) -> StatePath:
        """Return the sequence of states with the highest P(s_1..n | x_1..n).

        Ties go to the state that appeared first, from the last event to the first. The path is empty without
        states or observations.
        """
        states, symbols, _, log_rows, chain = self.encoded(observations)
        n, K = symbols.size, len(states)
        if not n or not K:
            return StatePath([], 0.0)
        path = np.empty(n, dtype=np.int64)
        back, scores = np.empty((n, K), dtype=np.int32), np.empty((2, K))
        log_probability = viterbi_path(symbols, log_rows, chain, back, scores, path)
        return StatePath([states[i] for i in path.tolist()], float(log_probability))

    def log_joint(self, observations: Iterable[Any], states: Iterable[Any]) -> float:
        """Return log P(s_1..n, x_1..n) in nats; -inf for an unknown state. Raises ValueError."""
        observations, names, _ = _paired(observations, states, 1.0)
        known, symbols, _, log_rows, chain = self.encoded(observations)
        index = {state: k for k, state in enumerate(known)}
        if not names or not all(name in index for name in names):
            return 0.0 if not names else -math.inf
        path = np.array([index[name] for name in names])
        seen = symbols >= 0
        emitted = log_rows[symbols[seen], path[seen]]
        return math.fsum([chain.log_initial[path[0]], *chain.log_table[path[:-1], path[1:]], *emitted])

    def sample(
        self, n: int, length: int = 10, seed: int = 0, first: int = 0
    ) -> list[tuple[list[Any], list[Any]]]:
        """Draw sequences (observations, states): a first state, then a symbol and a next state in turn.

        The model has no distribution of lengths, and no last state.

        Args:
            n: number of sequences.
            length: observations of each.
            seed: seed of the counter-based generator: equal seed, number and length give the same sequence.
            first: number of the first sequence.

        Raises:
            ValueError: if no state or no symbol is declared or learned, or a number is negative.

        Examples:
            >>> coin = HiddenMarkovModel(
            ...     initial={"s": 1.0}, transition={"s": {"s": 1.0}}, emission={"s": {"H": 0.5, "T": 0.5}}
            ... )
            >>> coin.sample(1, length=3)
            [(['H', 'T', 'H'], ['s', 's', 's'])]
        """
        check_whole("n", n, 0)
        check_whole("length", length, 0)
        if not self.states or not self.symbols:
            raise ValueError("no state or no symbol is declared or learned: there is nothing to draw")
        initial, after, emits = (
            self.initial_probabilities(),
            self.transition_probabilities(),
            self.emission_probabilities(),
        )
        drawn = []
        for i in range(first, first + n):
            chances = iter(uniforms(seed, i * 2 * length, 2 * length).tolist())
            states: list[Any] = []
            observations: list[Any] = []
            for u in chances:
                states.append(pick(after[states[-1]] if states else initial, u))
                observations.append(pick(emits[states[-1]], next(chances)))
            drawn.append((observations, states))
        return drawn

    def encoded(self, observations: Iterable[Any]) -> EncodedObservations:
        """Return one sequence as input of the kernels, with rows only for the symbols that occur in it."""
        states, _, chain = self.tables.derived()
        codes = self.tables.codes(observations)
        row_of = np.full(self.tables.emissions.symbols + 1, -1, dtype=np.int64)
        row_of[codes] = 0
        row_of[-1] = -1
        used = np.flatnonzero(row_of >= 0)
        row_of[used] = np.arange(used.size)
        begins = np.zeros(codes.size, dtype=np.bool_)
        begins[:1] = True
        return EncodedObservations(states, row_of[codes], begins, self.tables.log_rows(used), chain)

    def _filtered(self, encoded: EncodedObservations) -> tuple[Floats, Flags, float]:
        """Return the output of `filter_forward` and the log evidence; impossible symbols become -1."""
        states, symbols, begins, log_rows, chain = encoded
        K = len(states)
        filtered, is_log = np.empty((symbols.size, K)), np.zeros(symbols.size, dtype=np.bool_)
        if not filtered.size:
            return filtered, is_log, 0.0
        entry, work, rows = np.zeros(K), np.empty((3, K)), np.exp(log_rows)
        out = filtered, is_log, work
        found = filter_forward(symbols, begins, log_rows, rows, chain, entry, False, out)
        return filtered, is_log, float(found)

    def state(self) -> State:
        """Return all that was learned. Raises TypeError for states and symbols that JSON cannot hold."""
        meta, arrays = self.tables.state()
        return {"type": type(self).__name__, **meta}, arrays

    def load_state(self, meta: Mapping[str, Any], arrays: Mapping[str, Array]) -> Self:
        """Replace all that was learned by the `state` of a model with the same parameters; return self.

        Running sequences continue with the earlier counts. Raises SnapshotError, and changes nothing, if the
        state is invalid.
        """
        check_made(meta, type=type(self).__name__)
        self.tables = HiddenMarkovTables.from_state(self._prior, meta, arrays)
        return self

    def __repr__(self) -> str:
        return f"HiddenMarkovModel(states={self.states}, symbols={len(self.symbols)})"


def _paired(observations: Iterable[Any], states: Iterable[Any], w: float) -> tuple[list[Any], list[Any], int]:
    observations, states = list(observations), list(states)
    if len(observations) != len(states):
        raise ValueError(f"{len(observations)} observations, but {len(states)} states")
    return observations, states, units(w)
