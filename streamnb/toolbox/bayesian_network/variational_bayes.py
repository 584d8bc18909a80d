"""Variational Bayes: a network that learns from events with gaps, and keeps a distribution over its tables.

Mean field: the posterior over gaps z and tables theta is approximated by q(z) q(theta), of which each factor
maximises the evidence lower bound while the other one is fixed:

    q(z)      ~ prod over v of exp(E log P(v | parents))        of each event, with E over q(theta)
    q(theta)  = Dirichlet(prior + expected counts under q(z))   of each row of each table

    E log theta_c = digamma(a_c) - digamma(sum of a)

EM uses log E theta_c, the logarithm of the mean, in place of E log theta_c, the mean of the logarithm. The
latter is lower for a cell with few examples, so rarely observed values attract fewer gaps.

Reference: Beal (2003), Variational algorithms for approximate Bayesian inference, chapter 6.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Literal

import numpy as np

from streamnb.toolbox.bayesian_network.incremental_em import NetworkEM
from streamnb.toolbox.bayesian_network.network import BayesianNetwork
from streamnb.toolbox.bayesian_network.variable_elimination import sum_of_products

Codes = tuple[int, ...]


class VariationalCells:
    """Cells of events with gaps under q(z); see `FilledCells`."""

    sets_aside = False

    def __init__(self, network: BayesianNetwork) -> None:
        self._network, self._tables = network, network.counted

    def of_event(self, row: Sequence[int]) -> list[tuple[int, list[tuple[Codes, float]]]]:
        """Return the possible cells of an event with their probabilities."""
        tables = self._tables
        known = {v: code for v, code in enumerate(row) if tables.is_known(v, code)}
        values = {v: np.flatnonzero(tables.is_live(v)).tolist() for v in range(len(row)) if v not in known}
        gaps = {v: tuple(u for u in tables.family(v) if u in values) for v in range(len(row))}
        read = self._network.smoothing.factor
        factors = [read(tables, v, known, is_geometric=True) for v, own in gaps.items() if own]
        found = []
        for v, own in gaps.items():
            if all(values[u] for u in own):
                logs = sum_of_products(factors, own).logs.ravel()
                if logs.max() == -np.inf:
                    return []
                shares = np.exp(logs - logs.max())
                cells = product(*(values.get(u) or (known[u],) for u in tables.family(v)))
                found.append((v, list(zip(cells, (shares / shares.sum()).tolist(), strict=True))))
        return found


class NetworkVariationalBayes(NetworkEM):
    """A `BayesianNetwork` that learns from events with gaps by variational Bayes.

    The interface is that of `NetworkEM`: `learn_one`, `revisit` until nothing moves, `unlearn_one`. The
    tables of `network` are the means of q(theta). The result depends on the order of events; it is exact
    under replay, and after restoring a state.

    Args:
        network: network to train in place; alpha, m and the weight of declared tables are its prior, and must
            be above 0.
        window: number of the newest events with gaps that are revisited.
        revisits: number of events of the window to recount after each event, the oldest first.
        keeps: what remains of an event that leaves the window: "counts" or "nothing"; see `NetworkEM`.

    Raises:
        ValueError: if a parameter is out of range.

    Examples:
        >>> from streamnb import BayesianNetwork, NetworkVariationalBayes
        >>> model = NetworkVariationalBayes(BayesianNetwork({"first": [], "second": ["first"]}))
        >>> for first, second in [("H", "H"), ("H", "H"), ("H", "T"), ("T", "T"), ("H", None)]:
        ...     model.learn_one({"first": first, "second": second})
        >>> while model.revisit():
        ...     pass
        >>> round(model.network.probability({"second": "H"}, given={"first": "H"}), 3)
        0.604
    """

    def __init__(
        self,
        network: BayesianNetwork,
        window: int = 200,
        revisits: int = 1,
        keeps: Literal["counts", "nothing"] = "counts",
    ) -> None:
        super().__init__(network, window, revisits, keeps)
        check_has_prior(network)
        self._cells = VariationalCells(network)


def check_has_prior(network: BayesianNetwork) -> None:
    """Raise ValueError if a table has no prior: alpha or m of 0."""
    if (network.smoothed().amount <= 0.0).any():
        raise ValueError("the tables need a prior: alpha and m must be greater than 0")
