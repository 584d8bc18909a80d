"""Features, what is learned by gradient, and what forgets, beside a replay: it is the same bit for bit.

Weights, powers, pools and counts that decay are sums that depend on the order of events. A replay of the
journal gives their very bits, on one kind of machine; counts of features it gives on any. The first number
of an array that is another is told by what it stands for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from streamnb.engine.verification.findings import Findings
from streamnb.model.attributes.signatures import Array
from streamnb.model.mixture.components import AnyHypothesis, Pool, Softmax, Tree
from streamnb.model.mixture.hypotheses import Hypothesis
from streamnb.model.softmax.feature_table import COUNTS, KEY, KEY_BITS, OWNER, TOTAL

OF_LEARNERS, DECAYED = "learned_", "decayed_"
"""How the names of all arrays begin that are compared here."""
_UNPORTABLE = (DECAYED, *(f"{OF_LEARNERS}{name}" for name in ("feature_weights", "bias", "powers", "pool_")))
_SQUARES = "sum of squared gradients"


class Names(NamedTuple):
    """What the numbers stand for.

    Attributes:
        hypotheses: that are weighed.
    """

    hypotheses: Sequence[AnyHypothesis]

    @property
    def learns(self) -> bool:
        """Whether any learns from predictions, forgets, or reads bins, which are counted as features."""
        return any(isinstance(h, Pool) or _is_pooled(h) or _reads_bins(h) for h in self.hypotheses) or any(
            isinstance(h, Hypothesis) and h.half_life is not None for h in self.hypotheses
        )

    def place(
        self, name: str, index: Sequence[int], labels: Sequence[str], arrays: Mapping[str, Array]
    ) -> tuple[str, dict[str, str | int]]:
        """What a number of an array is, and where it belongs."""
        kind = name.removeprefix(OF_LEARNERS)
        if kind.startswith(("feature", "bins_", "context_", DECAYED)):
            return self._of_features(kind, index, labels, arrays)
        if kind == "bias":
            learners = self._labels(Softmax)
            part = ("bias", _SQUARES)[index[1]]
            return part, {"hypothesis": learners[index[0]], "class": labels[index[2]]}
        if kind == "powers":
            calibrated = [h.label for h in self.hypotheses if isinstance(h, Hypothesis) and h.calibrated]
            return ("power", "curvature")[index[1]], {"hypothesis": calibrated[index[0]]}
        if kind == "pool_confidence":
            pools = [h.label for h in self.hypotheses if isinstance(h, Pool) and h.calibrated]
            what = ("events", "events that were right")[index[2]]
            return what, {"hypothesis": pools[index[0]], "bin of confidence": index[1]}
        place: dict[str, str | int] = {"hypothesis": self._pools()[index[0]]}
        if kind == "pool_bias":
            return ("bias", _SQUARES)[index[1]], place | {"class": labels[index[2]]}
        opinions = [h.label for h in self.hypotheses if _is_pooled(h)]
        what = "weight" if kind == "pool_weights" else "covariance"
        return what, place | {"opinion": ", ".join(opinions[i] for i in index[1:])}

    def _of_features(
        self, kind: str, index: Sequence[int], labels: Sequence[str], arrays: Mapping[str, Array]
    ) -> tuple[str, dict[str, str | int]]:
        """Of features by their keys, and of what they are made of by the place in its array."""
        if kind == "features_met_once":
            return "pair met once", {"feature": _hex(arrays[f"{OF_LEARNERS}{kind}"][index[0]])}
        if not kind.startswith("feature"):
            return "number", {"array": kind, "index": ", ".join(map(str, index))}
        row, *_, column = index
        place: dict[str, str | int] = {"feature": _hex(arrays[f"{OF_LEARNERS}features"][row, KEY])}
        if kind == "features" and column < COUNTS:
            return {KEY: "key", OWNER: "owner", TOTAL: "count of all classes"}[column], place
        if kind == "features":
            return "count", place | {"class": labels[column - COUNTS]}
        if index[1]:
            place = {"hypothesis": self._labels(Softmax)[index[1] - 1], **place}
        if column:
            return "weight" if index[1] else "logarithm of a count", place | {"class": labels[column - 1]}
        return _SQUARES if index[1] else "number before the logarithms", place

    def _labels(self, kind: type[Softmax | Pool]) -> list[str]:
        return [h.label for h in self.hypotheses if isinstance(h, kind)]

    def _pools(self) -> list[str]:
        """The first of those that share what they learn: of each variance."""
        firsts: dict[float, str] = {}
        for h in self.hypotheses:
            if isinstance(h, Pool):
                firsts.setdefault(h.variance, h.label)
        return list(firsts.values())


def _is_pooled(hypothesis: AnyHypothesis) -> bool:
    return isinstance(hypothesis, (Softmax, Tree)) or (
        isinstance(hypothesis, Hypothesis) and hypothesis.calibrated
    )


def _reads_bins(hypothesis: AnyHypothesis) -> bool:
    return isinstance(hypothesis, Hypothesis) and hypothesis.is_binned


def compare_learned(
    state: tuple[Mapping[str, Any], Mapping[str, Array]],
    replayed: Mapping[str, Array],
    names: Names,
    check: str,
    at: int,
    findings: Findings,
    *,
    one: bool,
) -> int:
    """Tell of each array the first number that is another; how many numbers are the same bit for bit.

    Args:
        state: values and arrays of a model's state.
        replayed: the arrays of one that was replayed.
        names: what the numbers stand for.
        check: name of the check.
        at: number of the journal record at which both stand.
        findings: are told.
        one: whether one kind of machine has written all; else only counts of features are compared.
    """
    meta, arrays = state
    same = 0
    for name in sorted({**arrays, **replayed}):
        if not name.startswith((OF_LEARNERS, DECAYED)) or (name.startswith(_UNPORTABLE) and not one):
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
            labels = [str(label) for label in meta["classes"]]
            what, place = names.place(name, index, labels, replayed)
            more = f", and {others - 1:,} more of {name}" if others > 1 else ""
            found, expected = here[tuple(index)].item(), there[tuple(index)].item()
            where = "".join(f", {key} {value!r}" for key, value in place.items())
            text = f"at journal record {at}{where}: {what} {found} learned, {expected} in a replay{more}"
            findings.differs(check, text, {"record": at, **place}, found=found, expected=expected)
    return same


def _bits(array: Array) -> Array:
    """Floats as integers: a nan equals itself, and zeros of two signs do not."""
    return np.ascontiguousarray(array).view(f"u{array.dtype.itemsize}")


def _hex(key: np.integer[Any]) -> str:
    """The key of a feature, of 48 bits."""
    return f"{int(key) & int(KEY_BITS):012x}"
