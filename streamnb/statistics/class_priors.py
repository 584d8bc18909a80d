"""Priors of the classes: learned from their frequency, uniform, or given."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from streamnb.values.number_ranges import LARGEST_DOUBLE, lies_between
from streamnb.values.parameter_checks import brief

LEARNED, UNIFORM, GIVEN = 0, 1, 2  # prior modes

Prior = Literal["learned", "uniform"] | Mapping[Any, float]
_MODES = {"learned": LEARNED, "uniform": UNIFORM}


def check_prior(prior: Prior) -> None:
    """Raise ValueError for a prior that has no meaning."""
    if isinstance(prior, Mapping):
        weights = prior.values()
        if not all(lies_between(0.0, w, LARGEST_DOUBLE) for w in weights) or not any(weights):
            raise ValueError("given priors must be finite, not negative and not all zero")
    elif not isinstance(prior, str) or prior not in _MODES:
        raise ValueError(
            f"prior must be 'learned', 'uniform' or a mapping, not {brief(repr(prior))}. "
            "To smooth frequencies, `learn_one({}, label, w)` adds w to the count of a label"
        )


def prior_mode(prior: Prior) -> int:
    """Return LEARNED, UNIFORM or GIVEN."""
    return _MODES[prior] if type(prior) is str else GIVEN


def prior_weights(prior: Prior, classes: Collection[Any]) -> npt.NDArray[np.float64]:
    """Return the relative weight of each class if the prior is given, else zero. Shape (K,)."""
    if not isinstance(prior, Mapping):
        return np.zeros(len(classes))
    return np.array([prior.get(label, 0.0) for label in classes], dtype=np.float64)
