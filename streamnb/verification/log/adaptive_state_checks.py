"""Compare features, gradient-trained parts and decayed counts with a replay, bit for bit.

Weights, powers, pools and decayed counts are sums that depend on the order of events. A replay of the journal
gives identical bits on one kind of machine; counts of features are identical on any. The first different
number of each array is reported.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from streamnb.models.interface.stream_model import StreamModel
from streamnb.models.mixture.bayes_optimal_nb import BayesOptimalNB
from streamnb.models.mixture.hypothesis_kinds import (
    ByteSoftmax,
    MondrianForest,
    OneDependence,
    Pool,
    RecentGaussian,
    Softmax,
)
from streamnb.values.type_aliases import Array
from streamnb.verification.check_results import CheckResults

OF_LEARNERS, OF_FORESTS, DECAYED = "learned_", "forest_", "decayed_"
"""Prefixes of the arrays that are compared here."""
_COMPARED = (OF_LEARNERS, OF_FORESTS, DECAYED)
_BY_GRADIENT = ("feature_weights", "bias", "powers", "pool_", "gram_told", "gram_squares", "recent_")
_UNPORTABLE = (DECAYED, *(f"{OF_LEARNERS}{name}" for name in _BY_GRADIENT))


def learns(model: StreamModel) -> bool:
    """Return True if the model has learners, reads bins or features, or decays counts."""
    return isinstance(model, BayesOptimalNB) and any(
        isinstance(h, (Softmax, ByteSoftmax, OneDependence, MondrianForest, Pool, RecentGaussian))
        or h.calibrated
        or h.is_binned
        or h.half_life is not None
        for h in model.hypotheses
    )


def compare_learned(
    arrays: Mapping[str, Array],
    replayed: Mapping[str, Array],
    check: str,
    at: int,
    findings: CheckResults,
    *,
    one: bool,
) -> int:
    """Report the first different number of each array, and return how many numbers are bit-identical.

    Without `one`, more than one kind of machine wrote the arrays: only counts of features are compared.
    """
    same = 0
    for name in sorted({**arrays, **replayed}):
        if not name.startswith(_COMPARED) or (name.startswith(_UNPORTABLE) and not one):
            continue
        here, there = arrays.get(name), replayed.get(name)
        if here is None or there is None or (here.shape, here.dtype) != (there.shape, there.dtype):
            shapes = [None if array is None else array.shape for array in (here, there)]
            text = f"at journal record {at}: {name} has the shape {shapes[0]}, and {shapes[1]} in a replay"
            findings.differs(check, text, {"record": at})
            continue
        differs = _bits(here) != _bits(there)
        others = int(np.count_nonzero(differs))
        same += differs.size - others
        if others:
            index = [int(i) for i in np.unravel_index(int(np.argmax(differs)), here.shape)]
            more = f", and {others - 1:,} more" if others > 1 else ""
            found, expected = here[tuple(index)].item(), there[tuple(index)].item()
            text = f"at journal record {at}: {name}{index} is {found}, {expected} in a replay{more}"
            place: dict[str, str | int] = {"record": at, "array": name, "index": str(index)}
            findings.differs(check, text, place, found=found, expected=expected)
    return same


def _bits(array: Array) -> Array:
    """Return floats as integers: nan equals nan, and 0.0 differs from -0.0."""
    return np.ascontiguousarray(array).view(f"u{array.dtype.itemsize}")
