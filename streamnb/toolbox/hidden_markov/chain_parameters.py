"""Parameters of a hidden Markov model as numbers, with the number of free parameters of each distribution."""

from __future__ import annotations

from typing import Any, NamedTuple

from streamnb.models.naive_bayes.parameters import Parameters


class ChainParameters(NamedTuple):
    """All parameters of a hidden Markov model, at one moment.

    Attributes:
        initial: state -> P(s_1).
        transition: state -> {next state: P(s_t+1 | s_t)}.
        emission: state -> {symbol: P(x | s)}; of `HiddenMarkovNB` the parameters of naive Bayes, with states
            as classes.
    """

    initial: dict[Any, float]
    transition: dict[Any, dict[Any, float]]
    emission: dict[Any, dict[Any, float]] | Parameters

    @property
    def n_free(self) -> dict[Any, int]:
        """Number of free parameters: of the first state, of transitions, and of symbols or each attribute."""
        K = len(self.initial)
        chain = {"initial": max(K - 1, 0), "transition": K * max(K - 1, 0)}
        if isinstance(self.emission, Parameters):
            return {**chain, **{name: n for name, n in self.emission.n_free.items() if name is not None}}
        return {**chain, "emission": sum(max(len(row) - 1, 0) for row in self.emission.values())}
