"""The structured perceptron: a hidden Markov model's search with weights that are learned from mistakes.

    score(s, x) = w(s_1) + sum over t of w(s_t, s_t+1) + sum over t and features f of x_t of w(f, s_t)

The log probabilities of a hidden Markov model are such weights, and so the most likely tags are found by the
same Viterbi search. After a wrong prediction every weight of the right sequence gains 1, and every weight of
the predicted one loses 1. No independence is assumed, so an observation may have several overlapping
features: the word, its suffix, its neighbours.

Predictions use the mean of the weights after each learned sequence (averaged perceptron), which makes them
depend less on the last mistakes.

Reference: Collins (2002), "Discriminative training methods for hidden Markov models", EMNLP.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping
from itertools import pairwise
from typing import Any, Self

import numpy as np

from streamnb.errors import SnapshotError
from streamnb.kernels.array_types import Floats, Ints
from streamnb.toolbox.hidden_markov.forward_backward import ChainTables
from streamnb.toolbox.hidden_markov.viterbi import viterbi_path
from streamnb.values.number_ranges import is_missing
from streamnb.values.parameter_checks import check_whole
from streamnb.values.savable import Savable
from streamnb.values.state_validation import check_made, checked, checked_names, count, plain, whole
from streamnb.values.type_aliases import Array, State

Feature = Hashable
_MOST = 1 << 40  # bound of weights and of their sums over sequences, so that products stay exact


class StructuredPerceptron(Savable):
    """Tags of sequences by a perceptron over the features of a hidden Markov model.

    An observation is one feature, or a list, tuple or set of several. A feature never learned, and a missing
    observation (None, NaN), adds nothing. Weights are whole numbers. The result depends on the order of the
    sequences; it is exact under replay, and after restoring a state.

    Args:
        is_averaged: predict by the mean of the weights after each learned sequence; False: by the last ones.
        features: maximum number of features; later ones are ignored.

    Raises:
        ValueError: if a parameter is out of range.

    Examples:
        The chunker: B begins a phrase, I is inside one. The second feature is the last letter of a word.

        >>> from streamnb import StructuredPerceptron
        >>> model = StructuredPerceptron()
        >>> def features(words):
        ...     return [[word, "-" + word[-1]] for word in words]
        >>> for _ in range(5):
        ...     model.learn_one(features(["the", "dog", "ran"]), ["B", "I", "B"])
        ...     model.learn_one(features(["the", "frog"]), ["B", "I"])
        >>> model.predict_one(features(["the", "hog", "ran"]))
        ['B', 'I', 'B']
    """

    def __init__(self, is_averaged: bool = True, features: int = 1 << 20) -> None:  # noqa: FBT001, FBT002
        check_whole("features", features, 1)
        self.is_averaged, self.features = bool(is_averaged), features
        self._states: dict[Any, int] = {}
        self._features: dict[Any, int] = {}
        # Rows: the first state, then each earlier state, then features; columns: states.
        self._chain, self._rows = np.zeros((2, 1, 0), dtype=np.int64), np.zeros((2, 0, 0), dtype=np.int64)
        self.n_sequences = 0
        """Number of sequences learned."""
        self.n_mistakes = 0
        """Number of sequences that were not predicted before they were learned."""

    @property
    def states(self) -> list[Any]:
        """The states learned, in order of appearance."""
        return list(self._states)

    def transition_weights(self) -> dict[Any, dict[Any, float]]:
        """Return {next state: w(s_t, s_t+1)} by state; the state None has w(s_1)."""
        rows = self._read(self._chain).tolist()
        names = [None, *self._states]
        return {
            name: dict(zip(self._states, row, strict=True)) for name, row in zip(names, rows, strict=True)
        }

    def feature_weights(self) -> dict[Any, dict[Any, float]]:
        """Return {state: w(f, s)} by feature."""
        rows = self._read(self._rows).tolist()
        pairs = zip(self._features, rows, strict=True)
        return {feature: dict(zip(self._states, row, strict=True)) for feature, row in pairs}

    def predict_one(self, observations: Iterable[Any]) -> list[Any]:
        """Return the states with the highest score; ties go to the state that appeared first."""
        codes = [self._codes(x, adds=False) for x in observations]
        path = self._best(codes, self._read(self._chain), self._read(self._rows))
        names = list(self._states)
        return [names[i] for i in path]

    def learn_one(self, observations: Iterable[Any], states: Iterable[Any]) -> None:
        """Learn a sequence: correct the last weights if they predict another one.

        Raises ValueError, and learns nothing, if a state is missing or the lengths differ.
        """
        xs, names = list(observations), list(states)
        if len(xs) != len(names):
            raise ValueError(f"{len(xs)} observations, but {len(names)} states")
        if any(map(is_missing, names)):
            raise ValueError(f"a state is missing: {names!r}")
        for one in (*(feature for x in xs for feature in _features(x)), *names):
            hash(one)
        codes = [self._codes(x, adds=True) for x in xs]
        right = [self._states.setdefault(name, len(self._states)) for name in names]
        self._grow()
        found = self._best(codes, self._chain[0].astype(float), self._rows[0].astype(float))
        if found != right:
            self.n_mistakes += 1
            self._move(codes, right, 1)
            self._move(codes, found, -1)
        self.n_sequences += 1

    def state(self) -> State:
        """Return all that was learned. Raises TypeError for names that JSON cannot hold."""
        meta = {
            "type": type(self).__name__,
            "states": [*map(plain, self._states)],
            "features": [*map(plain, self._features)],
            "sequences": self.n_sequences,
            "mistakes": self.n_mistakes,
        }
        return meta, {"chain": self._chain.copy(), "rows": self._rows.copy()}

    def load_state(self, meta: Mapping[str, Any], arrays: Mapping[str, Array]) -> Self:
        """Replace all that was learned; return self. Raises SnapshotError, and changes nothing."""
        check_made(meta, type=type(self).__name__)
        states, features = checked_names(meta.get("states")), checked_names(meta.get("features"))
        sequences = count(meta, "sequences", most=_MOST)
        mistakes = count(meta, "mistakes", most=sequences)
        expected = {
            "chain": whole(2, 1 + len(states), len(states), low=-_MOST * _MOST, high=_MOST * _MOST),
            "rows": whole(2, len(features), len(states), low=-_MOST * _MOST, high=_MOST * _MOST),
        }
        found = checked(arrays, expected)
        if len(features) > self.features:
            raise SnapshotError(f"{len(features)} features, but only {self.features} are allowed")
        self._states = {name: i for i, name in enumerate(states)}
        self._features = {name: i for i, name in enumerate(features)}
        self._chain, self._rows = found["chain"].copy(), found["rows"].copy()
        self.n_sequences, self.n_mistakes = sequences, mistakes
        return self

    def _codes(self, x: Any, *, adds: bool) -> list[int]:
        found = []
        for feature in _features(x):
            code = self._features.get(feature)
            if code is None and adds and len(self._features) < self.features:
                code = self._features[feature] = len(self._features)
            if code is not None:
                found.append(code)
        return found

    def _read(self, table: Ints) -> Floats:
        """Return the mean of weights over the sequences so far, or the last weights.

        With w the last weights, and u the sum of each change times the number of sequences before it, the sum
        of the weights after each of n sequences is n w - u.
        """
        last: Floats = table[0].astype(np.float64)
        if not self.is_averaged or not self.n_sequences:
            return last
        return np.asarray(last - table[1] / self.n_sequences)

    def _best(self, codes: list[list[int]], chain: Floats, rows: Floats) -> list[int]:
        n, K = len(codes), len(self._states)
        if not n or not K:
            return []
        scores = np.array([rows[own].sum(axis=0) for own in codes])
        tables = ChainTables(chain[0].copy(), chain[1:].copy(), np.zeros(K), np.zeros((K, K)))
        path, back = np.empty(n, dtype=np.int64), np.empty((n, K), dtype=np.int32)
        viterbi_path(np.arange(n), scores, tables, back, np.empty((2, K)), path)
        best: list[int] = path.tolist()
        return best

    def _move(self, codes: list[list[int]], path: list[int], sign: int) -> None:
        moves = Counter([(0, path[0]), *((1 + before, after) for before, after in pairwise(path))])
        seen = Counter((feature, state) for own, state in zip(codes, path, strict=True) for feature in own)
        for table, places in ((self._chain, moves), (self._rows, seen)):
            for place, times in places.items():
                table[(0, *place)] += sign * times
                table[(1, *place)] += sign * times * self.n_sequences

    def _grow(self) -> None:
        K, F = len(self._states), len(self._features)
        self._chain = _padded(self._chain, 1 + K, K)
        if self._rows.shape[1] < F or self._rows.shape[2] < K:
            self._rows = _padded(self._rows, F, K)


def _features(x: Any) -> tuple[Any, ...]:
    """Return the features of an observation."""
    several = x if isinstance(x, (list, tuple, set, frozenset)) else (x,)
    return tuple(feature for feature in several if not is_missing(feature))


def _padded(table: Ints, rows: int, columns: int) -> Ints:
    more = (0, rows - table.shape[1]), (0, columns - table.shape[2])
    return np.pad(table, ((0, 0), *more)) if any(map(any, more)) else table
