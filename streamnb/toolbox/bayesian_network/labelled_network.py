"""The network of a classifier: its first variable is the label, with values of any hashable type."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np

from streamnb.kernels.array_types import Floats
from streamnb.statistics.class_priors import Prior, prior_weights
from streamnb.toolbox.bayesian_network.factors import Factor
from streamnb.toolbox.bayesian_network.network import BayesianNetwork
from streamnb.toolbox.bayesian_network.network_kernels import SmoothedNetwork
from streamnb.toolbox.bayesian_network.variable_elimination import sum_of_products

Name = Hashable


class LabelledNetwork(BayesianNetwork):
    """A network with the label as variable 0, which has a prior of its own if it has no parents.

    Args:
        parents: parents by variable, the label first.
        prior: prior of a label without parents: "learned", "uniform" or relative weight by label.
        parameters: parameters of `BayesianNetwork`.
    """

    def __init__(self, parents: Mapping[Name, Sequence[Name]], prior: Prior, **parameters: Any) -> None:
        super().__init__(parents, **parameters)
        self._prior = prior

    @property
    def prior(self) -> Floats:
        """Relative weight of each class, with or without examples; empty if the prior is learned."""
        if self._prior == "learned":
            return np.zeros(0)
        classes = self.counted.values(0)
        return np.ones(len(classes)) if self._prior == "uniform" else prior_weights(self._prior, classes)

    def smoothed(self) -> SmoothedNetwork:
        """Return smoothing parameters for the kernels."""
        return self.smoothing.arrays(self.counted, self.prior)

    def posterior(self, codes: Sequence[int]) -> Floats:
        """Return P(class | event's codes, -1 for a gap) by elimination; all zero if none is possible."""
        known = {v: code for v, code in enumerate(codes) if v and self.counted.is_known(v, code)}
        live = self.counted.is_live(0)
        found = np.zeros(live.size)
        if live.any():
            factor = sum_of_products(self.inference.factors({0, *known}, known), (0,))
            part = factor.logs > -np.inf
            if factor.misses is not None:
                part &= factor.misses == factor.misses[part].min(initial=2**62)
            shares = np.where(part, np.exp(factor.logs - factor.logs[part].max(initial=-np.inf)), 0.0)
            found[live] = shares / shares.sum() if part.any() else 0.0
        return found

    def _text(self, v: int, value: Any) -> Any:
        return super()._text(v, value) if v else value

    def _read(self, v: int, codes: Mapping[int, int]) -> Factor:
        found = super()._read(v, codes)
        prior = self.prior
        live = self.counted.is_live(0)
        if v or not prior.size or not live.any():
            return found
        weights = prior[live]
        if not weights.any():  # the prior covers other classes only: use a uniform one
            weights = np.ones(weights.size)
        weights = weights / weights.max()
        with np.errstate(divide="ignore"):
            logs = np.log(weights) - math.log(weights.sum())
        if 0 not in codes:
            return Factor((0,), logs)
        return Factor((), np.asarray(logs[np.count_nonzero(live[: codes[0]])]))
