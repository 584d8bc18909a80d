"""Scaling of weights below the unit of counts, together with the smoothing, by one power of two.

    (s n_k + s alpha) / (s n + s alpha |V|) = (n_k + alpha) / (n + alpha |V|)

Smoothed ratios of counts and class frequencies are unchanged. So `NaiveBayes`, its variants and
`HiddenMarkovNB` predict texts and nominal values as with the original weights, except that scaled weights are
rounded to 1/1024. Comparisons of a weight with a fixed number of examples use the scaled weight: in naive
Bayes the shrinkage of a continuous variance in a class with few examples; in a `BayesOptimalNB` also
gradients, pools, bins, calibration and pairs of values. As the greatest scaled weight is 1 or more, a common
factor 2^-k of the weights changes no mean or variance.
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
    """Return the power of two by which to multiply weights, float64[n] >= 0, so that all are representable.

    It raises the greatest weight to one example or more; if the least weight above 0 is then below a unit, it
    raises the least weight to one example or more. A greatest weight above 2^20 is lowered to 2^20 or less.
    It is 1 otherwise; and less if the greatest weight, or the sum of all, would not fit. It lies between
    2^-60 and 2^60.

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
    return 2.0**found if found >= -_LARGEST else 1.0  # unscaled, the weight is refused later


def _steps_to_one(weight: float) -> int:
    """Return the s with 1 <= 2^s weight < 2."""
    return 1 - math.frexp(weight)[1]


def scaled_parameters(parameters: Mapping[str, Any], scale: float) -> dict[str, Any]:
    """Return a model's parameters with all smoothing, also of attributes and hypotheses, times `scale`."""
    found = _scaled_fields(parameters, scale)
    attributes, hypotheses = parameters.get("attributes"), parameters.get("hypotheses")
    if attributes:
        found["attributes"] = {name: _scaled(spec, scale) for name, spec in attributes.items()}
    if hypotheses is not None:
        found["hypotheses"] = [_scaled(hypothesis, scale) for hypothesis in hypotheses]
    return {**parameters, **found}


def _scaled(spec: Any, scale: float) -> Any:
    """Return an attribute or a hypothesis with its smoothing scaled; a hypothesis keeps its label."""
    if not is_dataclass(spec) or isinstance(spec, type):
        return spec
    if isinstance(spec, Hypothesis):
        alpha, m, _ = spec.smoothing
        return replace(spec, **_scaled_fields({"alpha": alpha, "m": m}, scale), name=spec.label)
    return replace(spec, **_scaled_fields(vars(spec), scale))


def _scaled_fields(fields: Mapping[str, Any], scale: float) -> dict[str, Any]:
    return {name: fields[name] * scale for name in _SMOOTHING if fields.get(name) is not None}
