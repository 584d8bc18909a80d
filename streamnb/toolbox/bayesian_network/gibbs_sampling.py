"""Gibbs sampling (MCMC): a Markov chain whose states are ways to fill the gaps of the events of a network.

With the tables integrated out, the gaps z of one event, given all other events with their gaps filled, have

    P(z | others, known values) ~ prod over v of (n_cell + prior) / (n_row + sum of prior)

in which n counts the other events. So one step removes an event from the tables, draws all of its gaps from
the network as it stands, and counts the event again. The chain converges to P(gaps | known values).

References: Geman and Geman (1984), IEEE Transactions on Pattern Analysis 6; Liu (1994), "The collapsed Gibbs
sampler in Bayesian computations with applications to a gene regulation problem", JASA 89.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, NamedTuple, Self

import numpy as np

from streamnb.statistics.counter_rng import check_seed, pick, uniforms
from streamnb.toolbox.bayesian_network.incremental_em import MOST_WORLDS, ExpectedCells, NetworkEM
from streamnb.toolbox.bayesian_network.network import BayesianNetwork
from streamnb.toolbox.bayesian_network.variational_bayes import check_has_prior
from streamnb.values.parameter_checks import check_whole
from streamnb.values.state_validation import count
from streamnb.values.type_aliases import Array, State

Codes = tuple[int, ...]


class SampledMean(NamedTuple):
    """Mean over the states of a chain.

    Attributes:
        mean: the mean.
        error: its standard error, from the means of stretches of the chain.
    """

    mean: float
    error: float


class DrawnCells:
    """Cells of events whose gaps are drawn from the network; see `FilledCells`."""

    sets_aside = True

    def __init__(self, network: BayesianNetwork, seed: int) -> None:
        self._network, self._tables, self._seed = network, network.counted, seed
        self._ways = ExpectedCells(network)
        self.n_draws = 0

    def of_event(self, row: Sequence[int]) -> list[tuple[int, list[tuple[Codes, float]]]]:
        """Return one cell of each table, with probability 1, after filling the gaps in turn."""
        codes = self._filled(row)
        families = [self._tables.family(v) for v in range(len(row) if codes else 0)]
        whole = ((family[-1], family) for family in families if all(u in codes for u in family))
        return [(v, [(tuple(codes[u] for u in family), 1.0)]) for v, family in whole]

    def _filled(self, row: Sequence[int]) -> dict[int, int]:
        """Return the codes of an event with its gaps filled; {} if declared tables exclude it."""
        chances = uniforms(self._seed, self.n_draws * len(row), len(row)).tolist()
        self.n_draws += 1
        known, worlds = self._ways.completions(row)
        if 0 < worlds.number <= MOST_WORLDS:
            drawn = worlds.drawn(self._tables, self._ways.smoothing, chances[0])
            return {} if drawn is None else known | drawn
        inference = self._network.inference
        if inference.log_probability(known)[0] == -math.inf:
            return {}
        for v, u in enumerate(chances):
            live = np.flatnonzero(self._tables.is_live(v)).tolist()
            if v not in known and live:
                known[v] = pick(dict(zip(live, inference.shares((v,), known).tolist(), strict=True)), u)
        return known


class NetworkMCMC(NetworkEM):
    """A `BayesianNetwork` that learns from events with gaps by Gibbs sampling over the gaps (MCMC).

    The interface is that of `NetworkEM`, but the chain never comes to rest: ``revisit()`` is one sweep over
    the window, and the tables of `network` are one state of the chain. `posterior_mean` averages over
    sweeps. An event that leaves the window keeps its last draw, or is removed; see `keeps`.

    Args:
        network: network to train in place; alpha, m and the weight of declared tables are its prior, and must
            be above 0.
        window: number of the newest events with gaps whose gaps are drawn again.
        revisits: number of events of the window to draw again after each event, the oldest first.
        keeps: what remains of an event that leaves the window: "counts" or "nothing"; see `NetworkEM`.
        seed: seed of the counter-based generator: equal seed and events give equal draws.

    Raises:
        ValueError: if a parameter is out of range.

    Examples:
        Two coins of a pair; in one pair the second was not seen. The exact answer is (2 + 1) / (3 + 2), as if
        the pair with the gap had not been there:

        >>> from streamnb import BayesianNetwork, NetworkMCMC
        >>> model = NetworkMCMC(BayesianNetwork({"first": [], "second": ["first"]}), seed=1)
        >>> for first, second in [("H", "H"), ("H", "H"), ("H", "T"), ("T", "T"), ("H", None)]:
        ...     model.learn_one({"first": first, "second": second})
        >>> found = model.posterior_mean(
        ...     lambda network: network.probability({"second": "H"}, given={"first": "H"}), sweeps=500
        ... )
        >>> abs(found.mean - 0.6) < 4 * found.error < 0.05
        True
    """

    def __init__(
        self,
        network: BayesianNetwork,
        window: int = 200,
        revisits: int = 1,
        keeps: Literal["counts", "nothing"] = "counts",
        seed: int = 0,
    ) -> None:
        super().__init__(network, window, revisits, keeps)
        check_has_prior(network)
        check_seed(seed)
        self.seed = seed
        self._cells = self._drawn = DrawnCells(network, seed)

    def learn_one(self, x: Mapping[Any, Any], w: float = 1.0) -> None:
        """Learn an event, draw its gaps, and draw gaps of the window again; or raise.

        The weight must be 1, because each copy of an event has gaps of its own: learn it several times.
        """
        if w != 1.0:
            raise ValueError(f"each copy of an event is drawn separately: learn it {w} times, with weight 1")
        super().learn_one(x)

    def posterior_mean(
        self, function: Callable[[BayesianNetwork], float], sweeps: int = 1000, burn_in: int = 100
    ) -> SampledMean:
        """Return the mean of a function of the network over sweeps, with its error.

        For a probability of the next event it approaches the exact Bayesian prediction.

        Args:
            function: maps the network with all gaps filled to a number.
            sweeps: number of sweeps to average over, at least 4.
            burn_in: number of sweeps before them.
        """
        check_whole("sweeps", sweeps, 4)
        check_whole("burn_in", burn_in, 0)
        for _ in range(burn_in):
            self.revisit()
        values = np.empty(sweeps)
        for i in range(sweeps):
            self.revisit()
            values[i] = function(self.network)
        stretches = [part.mean() for part in np.array_split(values, math.isqrt(sweeps))]
        error = float(np.std(stretches, ddof=1)) / math.sqrt(len(stretches))
        return SampledMean(float(values.mean()), error)

    def state(self) -> State:
        """Return all that was learned, and the number of draws so far."""
        meta, arrays = super().state()
        return {**meta, "draws": self._drawn.n_draws}, arrays

    def load_state(self, meta: Mapping[str, Any], arrays: Mapping[str, Array]) -> Self:
        """Replace all state by one with the same window; return self. Raises SnapshotError."""
        draws = count(meta, "draws")
        super().load_state(meta, arrays)
        self._drawn.n_draws = draws
        return self
