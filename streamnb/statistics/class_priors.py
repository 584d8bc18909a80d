"""Priors of the classes: learned from their frequency, smoothed or not, uniform, or given."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from streamnb.values.example_weights import UNIT
from streamnb.values.number_ranges import LARGEST_DOUBLE, lies_between
from streamnb.values.parameter_checks import brief, check_amount, check_mapping

LEARNED, UNIFORM, GIVEN, SMOOTHED, SMOOTHED_EVENLY = range(5)  # prior modes


@dataclass(frozen=True)
class SmoothedPrior:
    """The m-estimate of the frequencies of the classes: P(v) = (n_v + m p_v) / (n + m).

    A class has a probability from its first example on. Until all labels of `p` have one, P(v) is normalised
    over those that do.

    Attributes:
        m: equivalent sample size; 0 is the frequency itself.
        p: prior estimate of each label, which sum to 1; labels left out have 0. None is 1 / K over the K
            classes with examples, so that ``m = K`` is Laplace's rule.

    Examples:
        >>> from streamnb import CategoricalNB, SmoothedPrior
        >>> model = CategoricalNB(prior=SmoothedPrior(m=4, p={"yes": 0.5, "no": 0.5}))
        >>> for label in ["yes", "yes", "yes", "no"]:
        ...     model.learn_one({"wind": "weak"}, label)
        >>> model.parameters().prior  # (3 + 2) / (4 + 4)
        {'yes': 0.625, 'no': 0.375}
    """

    m: float
    p: Mapping[Any, float] | None = None

    def __post_init__(self) -> None:
        check_amount("m", self.m)
        check_mapping("p", self.p, "{'yes': 0.5, 'no': 0.5}")
        shares = [1.0] if self.p is None else list(self.p.values())
        if not all(lies_between(0.0, share, 1.0) for share in shares) or not math.isclose(
            math.fsum(shares), 1.0, rel_tol=1e-9
        ):
            raise ValueError(f"p must be probabilities that sum to 1, not {brief(repr(self.p))}")


Prior = Literal["learned", "uniform"] | Mapping[Any, float]
ClassPrior = Prior | SmoothedPrior
_MODES = {"learned": LEARNED, "uniform": UNIFORM}


def check_prior(prior: ClassPrior, *, smoothed: bool = False) -> None:
    """Raise ValueError for a prior that has no meaning, or is a `SmoothedPrior`, unless `smoothed`."""
    if isinstance(prior, SmoothedPrior) and smoothed:
        return
    if isinstance(prior, Mapping):
        weights = prior.values()
        if not all(lies_between(0.0, w, LARGEST_DOUBLE) for w in weights) or not any(weights):
            raise ValueError("given priors must be finite, not negative and not all zero")
    elif not isinstance(prior, str) or prior not in _MODES:
        raise ValueError(
            f"prior must be 'learned', 'uniform' or a mapping, not {brief(repr(prior))}. To smooth "
            "frequencies, naive Bayes takes SmoothedPrior(m, p); `learn_one({}, label, w)` adds w to a count"
        )


def prior_mode(prior: ClassPrior) -> int:
    """Return the mode of the prior."""
    if isinstance(prior, SmoothedPrior):
        return SMOOTHED_EVENLY if prior.p is None else SMOOTHED
    return _MODES[prior] if type(prior) is str else GIVEN


def prior_weights(prior: ClassPrior, classes: Collection[Any]) -> npt.NDArray[np.float64]:
    """Return the relative weight of each class if the prior is given, else zero. Shape (K,).

    Of a `SmoothedPrior` it is what is added to the weight of the class, in units: m p, or m if p is None.
    """
    if isinstance(prior, SmoothedPrior):
        shares = dict.fromkeys(classes, 1.0) if prior.p is None else prior.p
        return np.array([shares.get(label, 0.0) * prior.m * UNIT for label in classes], dtype=np.float64)
    if not isinstance(prior, Mapping):
        return np.zeros(len(classes))
    return np.array([prior.get(label, 0.0) for label in classes], dtype=np.float64)


def relative_weights(
    weights: npt.NDArray[np.int64], given: npt.NDArray[np.float64], mode: int
) -> npt.NDArray[np.float64]:
    """Return the prior of each class, not normalised, zero without examples; all zero if none is possible.

    `weights` are learned, and `given` the `prior_weights`.
    """
    is_met = weights > 0
    smoothing = given / max(int(is_met.sum()), 1) if mode == SMOOTHED_EVENLY else given
    found = {LEARNED: weights, UNIFORM: np.ones(weights.size), GIVEN: given}.get(mode, weights + smoothing)
    return np.where(is_met, found, 0.0).astype(np.float64)
