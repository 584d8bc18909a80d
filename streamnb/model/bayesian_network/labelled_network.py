"""The network behind a classifier: its first variable is the label, whose values are what they are."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np

from streamnb.model.attributes.priors import Prior, prior_weights
from streamnb.model.bayesian_network.factors import Factor
from streamnb.model.bayesian_network.kernels import Smoothed
from streamnb.model.bayesian_network.network import BayesianNetwork
from streamnb.model.bayesian_network.variable_elimination import sum_of_products
from streamnb.model.compiled.arrays import Floats

Name = Hashable


class LabelledNetwork(BayesianNetwork):
    """A network of which variable 0 is the label, with a prior of its own where it has no parents.

    Args:
        parents: variable -> its parents, the label first.
        prior: of a label without parents, "learned", "uniform" or label -> relative weight.
        parameters: of `BayesianNetwork`.
    """

    def __init__(self, parents: Mapping[Name, Sequence[Name]], prior: Prior, **parameters: Any) -> None:
        super().__init__(parents, **parameters)
        self._prior = prior

    @property
    def prior(self) -> Floats:
        """Relative weight of each class, whether it has examples or not; empty where it is learned."""
        if self._prior == "learned":
            return np.zeros(0)
        classes = self.counted.values(0)
        return np.ones(len(classes)) if self._prior == "uniform" else prior_weights(self._prior, classes)

    def smoothed(self) -> Smoothed:
        """How the kernels are to read the counts."""
        return self._smoothing.arrays(self.counted, self.prior)

    def posterior(self, codes: Sequence[int]) -> Floats:
        """P(class | event) of each class by elimination; an event's codes, -1 where it has none.

        All zero where no class has any probability.
        """
        known = {v: code for v, code in enumerate(codes) if v and self.counted.is_known(v, code)}
        live = self.counted.is_live(0)
        found = np.zeros(live.size)
        if live.any():
            factor = sum_of_products(self._factors({0, *known}, known), (0,))
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
        if not weights.any():  # given for other classes only: these are all alike
            weights = np.ones(weights.size)
        weights = weights / weights.max()
        with np.errstate(divide="ignore"):
            logs = np.log(weights) - math.log(weights.sum())
        if 0 not in codes:
            return Factor((0,), logs)
        return Factor((), np.asarray(logs[np.count_nonzero(live[: codes[0]])]))
