"""The filter of a hidden Markov model over a sequence that arrives event by event."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping
from typing import Any, Self

import numpy as np

from streamnb.errors import SnapshotError
from streamnb.kernels.array_types import Floats
from streamnb.toolbox.hidden_markov.forward_backward import filter_forward
from streamnb.toolbox.hidden_markov.hidden_markov_tables import HiddenMarkovTables
from streamnb.values.example_weights import units
from streamnb.values.number_ranges import is_missing
from streamnb.values.state_validation import checked, checked_names, count, plain, real
from streamnb.values.type_aliases import Array, State

Name = Hashable

_FLAGS = np.array([False]), np.array([True])


class RunningSequence:
    """P(s_t | x_1..t) of one sequence, in constant time and memory for each event; created by `begin`.

    The first event begins the sequence: its state is drawn from P(s_1). A stream of several sequences needs
    one filter for each, by the key that separates them.

    Each step uses the current model: a sequence may run while the model learns from other sequences. States
    that are new since the last event are reached by transitions alone.

    Examples:
        >>> from streamnb import HiddenMarkovModel
        >>> model = HiddenMarkovModel()
        >>> for key, word, tag in [(1, "a", "X"), (2, "b", "Y"), (1, "b", "Y"), (2, "b", "Y")]:
        ...     running = {} if key == 1 and word == "a" else running  # one for each key
        ...     running.setdefault(key, model.begin()).learn_one(word, tag)
        >>> {tag: round(p, 3) for tag, p in running[1].next_state().items()}  # after Y: (1 + 1/2) / 2
        {'X': 0.25, 'Y': 0.75}
        >>> {word: round(p, 3) for word, p in running[1].next_observation().items()}
        {'a': 0.281, 'b': 0.719}
    """

    def __init__(self, tables: HiddenMarkovTables) -> None:
        self._tables = tables
        self._states: list[Any] = []
        self._now: Floats = np.empty(0)  # logarithms if `_is_log`: see `filter_forward`
        self._is_log = False
        self._symbol = np.zeros(1, dtype=np.int64)
        self._out: tuple[Array, ...] = (self._now,)  # output arrays of the kernel, sized for K states
        self._known: Name = None
        self.events = 0
        """Number of events, including missing observations."""
        self.log_evidence = 0.0
        """Sum of log P(x_t | everything known before it), in nats; without labels log P(x_1..t).

        It is -inf from the first impossible observation on. Missing and unknown observations contribute
        nothing.
        """

    @property
    def probabilities(self) -> dict[Any, float]:
        """P(s_t | x_1..t) of the newest event by state; empty before the first event."""
        return dict(zip(self._states, self._probabilities().tolist(), strict=True))

    def observe(self, x: Any) -> dict[Any, float]:
        """Advance by one event whose state is unknown, and return the new `probabilities`.

        None, NaN and symbols unknown to the model carry no information: the result is P(s_t | x_1..t-1). An
        impossible `x` gives the same result, and `log_evidence` is -inf from then on.
        """
        self._step(x)
        return self.probabilities

    def learn_one(self, x: Any, state: Name, w: float = 1.0) -> None:
        """Advance by one event and learn that its state was `state`, counted `w` times.

        If each event has its state and weight, the events are learned as by the model's `learn_one` with the
        whole sequence. A transition is counted if both of its states are known, with the weight of the later
        event. A missing state (None, NaN) makes this the same as `observe`.

        Raises:
            ValueError: if `w` is out of range; nothing changes.
        """
        weight = units(w)
        before, begins = self._known, self.events == 0
        self._step(x)
        if is_missing(state):
            return
        if weight:
            if before is None:
                self._tables.count([x], [state], weight, begins=begins)
            else:
                self._tables.count([None, x], [before, state], weight, begins=False)
        states = self._tables.derived().states
        self._known = state
        if state in states:  # a state without any count is absent
            self._states = states
            self._now = np.array([float(name == state) for name in states])
            self._is_log = False

    def next_state(self) -> dict[Any, float]:
        """Return P(s_t+1 | x_1..t) by state, for the next event; before the first event, P(s_1)."""
        return dict(zip(self._tables.derived().states, self._next().tolist(), strict=True))

    def next_observation(self) -> dict[Any, float]:
        """Return P(x_t+1 | x_1..t) = sum over s of P(s_t+1 = s | x_1..t) P(x | s) by symbol."""
        symbols, following = self._tables.symbols, self._next()
        if not following.size or not symbols:
            return {}
        rows = np.exp(self._tables.log_rows(self._tables.codes(symbols)))
        return dict(zip(symbols, (rows @ following).tolist(), strict=True))

    def state(self) -> State:
        """Return the position in the sequence. Raises TypeError for states that JSON cannot hold."""
        impossible = math.isinf(self.log_evidence)
        meta = {
            "states": [*map(plain, self._states)],
            "known": [] if self._known is None else [plain(self._known)],
            "events": self.events,
            "impossible": impossible,
            "is_log": self._is_log,
        }
        evidence = 0.0 if impossible else self.log_evidence
        return meta, {"now": self._now.copy(), "log_evidence": np.array([evidence])}

    def load_state(self, meta: Mapping[str, Any], arrays: Mapping[str, Array]) -> Self:
        """Continue from a `state`; return self. Raises SnapshotError, and then changes nothing."""
        states, known = checked_names(meta.get("states")), checked_names(meta.get("known"))
        events = count(meta, "events")
        flags = [meta.get("impossible"), meta.get("is_log")]
        if len(known) > 1 or not all(isinstance(flag, bool) for flag in flags):
            raise SnapshotError(f"not the state of a running sequence: {dict(meta)}")
        found = checked(arrays, {"now": real(len(states), low=-np.inf), "log_evidence": real(1)})
        now = found["now"]
        plain = np.exp(now) if meta["is_log"] else now
        if states and not ((plain >= 0.0).all() and abs(plain.sum() - 1.0) <= 1e-9):
            raise SnapshotError("probabilities that do not sum to 1")
        self._states, self._now, self.events = states, now.copy(), events
        self._is_log = meta["is_log"]
        self._known = known[0] if known else None
        self.log_evidence = -math.inf if meta["impossible"] else float(found["log_evidence"][0])
        return self

    def __repr__(self) -> str:
        return f"RunningSequence(events={self.events}, probabilities={self.probabilities})"

    def _step(self, x: Any) -> None:
        self._align()
        code = self._tables.code(x)
        states, _, chain = self._tables.derived()
        self._known = None
        if states:
            K, begins = len(states), self.events == 0 or not self._now.size
            log_rows, rows = self._tables.rows_of(code) if code >= 0 else np.zeros((2, 0, K))
            if self._out[0].size != K:
                self._out = np.zeros((1, K)), np.empty(1, dtype=np.bool_), np.empty((3, K))
            filtered, is_log, *_ = self._out
            entry = filtered[0] if begins else self._now  # not read if the sequence begins
            was_log = self._is_log and not begins
            self._symbol[0] = min(code, 0)
            event = self._symbol, _FLAGS[begins], log_rows, rows
            self.log_evidence += filter_forward(*event, chain, entry, was_log, self._out)
            self._states, self._now, self._is_log = states, filtered[0].copy(), bool(is_log[0])
        self.events += 1

    def _probabilities(self) -> Floats:
        return np.exp(self._now) if self._is_log else self._now

    def _next(self) -> Floats:
        self._align()
        _, _, chain = self._tables.derived()
        if not self._now.size:
            return chain.initial
        following: Floats = self._probabilities() @ chain.table
        return np.asarray(following / following.sum())

    def _align(self) -> None:
        """Align the filter with the model's current states; restart it if all of its states are gone."""
        states = self._tables.derived().states
        if states is self._states or not self._now.size:
            return
        if states != self._states:
            none = -math.inf if self._is_log else 0.0  # value of a new state
            before = dict(zip(self._states, self._now.tolist(), strict=True))
            now = np.array([before.get(state, none) for state in states], dtype=np.float64)
            if not (now > none).any():
                self._now, self._is_log = np.empty(0), False
            elif self._is_log:
                self._now = now - np.logaddexp.reduce(now)
            else:
                self._now = now / now.sum()
        self._states = states if self._now.size else []
