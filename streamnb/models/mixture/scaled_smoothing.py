"""Weights too small to count as they are: scaled, with the smoothing, by one power of two.

    (s n_k + s alpha) / (s n + s alpha |V|) = (n_k + alpha) / (n + alpha |V|)

Smoothed ratios of counts stay as they are, and so do frequencies of classes. So `NaiveBayes`, its variants
and `HiddenMarkovNB` say of texts and nominal values what the weights given say, but for rounding: of scaled
weights to 1/1024. What compares a weight with a fixed number of examples takes the scaled one. That is how
far the variance of a number in a class with few examples is that of all classes. As the greatest of the
scaled weights is 1 or more, a common factor 2^-k of weights changes no mean or variance. In a
`BayesOptimalNB` it is also gradients, pools, bins, calibration and pairs of values.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import is_dataclass, replace
from typing import Any

from streamnb.kernels.array_types import Floats
from streamnb.models.mixture.hypotheses import Hypothesis
from streamnb.values.example_weights import HEAVIEST, is_below_unit

_SMOOTHING = ("alpha", "m", "transition_m")
_MOST = 2.0**40  # examples in all: with 4096 words an event their counts still fit 64 bits
_LARGEST = 60  # 2^60: a smoothing times it and the number of words is finite


def scale_of(weights: Floats) -> float:
    """Return the power of two by which weights are multiplied, for each to count what it says.

    It makes the greatest weight one example or more; if the least weight above 0 then is below a unit, it
    makes the least weight one example or more. If the greatest weight is above 2^20, it makes it 2^20 or
    less. It is 1 otherwise; and less if the greatest weight, or the sum of all, would not fit. It lies
    between 2^-60 and 2^60. float64[n] >= 0.

    Weights with a greatest below 2, and the same times 2^-k, are thus scaled to the same weights.
    """
    least = float(weights.min(where=weights > 0.0, initial=math.inf))
    greatest = float(weights.max(initial=0.0))
    wanted = _steps_to_one(greatest) if 0.0 < greatest < 1.0 else 0
    if is_below_unit(math.ldexp(least, wanted)):
        wanted = _steps_to_one(least)
    if not (wanted or HEAVIEST < greatest < math.inf):
        return 1.0
    total = max(1.0, float((weights / greatest).sum()))  # the sum itself may be beyond a double
    found = min(wanted, math.floor(math.log2(min(HEAVIEST, _MOST / total)) - math.log2(greatest)), _LARGEST)
    return 2.0**found if found >= -_LARGEST else 1.0  # such a weight is refused as it was given


def _steps_to_one(weight: float) -> int:
    """Return the s for which 1 <= 2^s weight < 2."""
    return 1 - math.frexp(weight)[1]


def scaled_parameters(parameters: Mapping[str, Any], scale: float) -> dict[str, Any]:
    """Return the parameters of a model with its smoothing, and that of its parts, multiplied by `scale`."""
    found = _scaled_fields(parameters, scale)
    attributes, hypotheses = parameters.get("attributes"), parameters.get("hypotheses")
    if attributes:
        found["attributes"] = {name: _scaled(spec, scale) for name, spec in attributes.items()}
    if hypotheses is not None:
        found["hypotheses"] = [_scaled(hypothesis, scale) for hypothesis in hypotheses]
    return {**parameters, **found}


def _scaled(spec: Any, scale: float) -> Any:
    """Return an attribute or a hypothesis with its smoothing scaled; a hypothesis keeps its name."""
    if not is_dataclass(spec) or isinstance(spec, type):
        return spec
    if isinstance(spec, Hypothesis):
        alpha, m, _ = spec.smoothing
        return replace(spec, **_scaled_fields({"alpha": alpha, "m": m}, scale), name=spec.label)
    return replace(spec, **_scaled_fields(vars(spec), scale))


def _scaled_fields(fields: Mapping[str, Any], scale: float) -> dict[str, Any]:
    return {name: fields[name] * scale for name in _SMOOTHING if fields.get(name) is not None}
