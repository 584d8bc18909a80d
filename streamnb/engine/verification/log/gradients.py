"""What is learned by gradient, beside a replay: it cannot be counted again, but is the same bit for bit.

Weights, powers and pools are sums that depend on the order of events. A replay of the journal gives their
very bits, on one kind of machine. The first number of an array that is another is told by what it stands for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from streamnb.engine.verification.features.recount import NOBODY, FeatureRecount
from streamnb.engine.verification.findings import Findings
from streamnb.model.mixture.components import AnyHypothesis, Pool, Softmax, Tree
from streamnb.model.mixture.hypotheses import Hypothesis
from streamnb.model.softmax.feature_table import KEY

__all__ = ["LEARNED_BY_GRADIENT", "Names", "compare_learned"]

LEARNED_BY_GRADIENT = tuple(
    f"learned_{name}"
    for name in (
        "feature_weights",
        "bias",
        "powers",
        "pool_weights",
        "pool_covariance",
        "pool_bias",
        "pool_confidence",
    )
)
"""Arrays of a model's state."""
_SQUARES = "sum of squared gradients"


class Names(NamedTuple):
    """What the numbers stand for.

    Attributes:
        hypotheses: that are weighed.
        features: those that were counted, as far as they were.
    """

    hypotheses: Sequence[AnyHypothesis]
    features: FeatureRecount | None

    @property
    def learns(self) -> bool:
        """Whether any learns from predictions, or reads bins, of whose counts the logarithms are kept."""
        return any(isinstance(h, Pool) or _is_pooled(h) or _reads_bins(h) for h in self.hypotheses)

    def place(
        self, name: str, index: Sequence[int], labels: Sequence[str], table: npt.NDArray[np.int64] | None
    ) -> tuple[str, dict[str, str | int]]:
        """What a number of an array is, and where it belongs."""
        kind = name.removeprefix("learned_")
        if kind == "feature_weights":
            return self._weight(index, labels, table)
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

    def _weight(
        self, index: Sequence[int], labels: Sequence[str], table: npt.NDArray[np.int64] | None
    ) -> tuple[str, dict[str, str | int]]:
        row, plane, column = index
        place: dict[str, str | int] = {}
        if plane:
            place["hypothesis"] = self._labels(Softmax)[plane - 1]
        here = NOBODY
        if table is not None and row < len(table):
            key = int(table[row, KEY]) % (1 << 64)
            place["feature"] = f"{key:012x}"
            here = NOBODY if self.features is None else self.features.rows.get(key, NOBODY)
        if self.features is not None and here != NOBODY:
            place = {name: place[name] for name in place if name != "feature"} | self.features.place(here)
        if column:
            return "weight" if plane else "logarithm of a count", place | {"class": labels[column - 1]}
        return _SQUARES if plane else "number before the logarithms", place

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
    state: tuple[Mapping[str, Any], Mapping[str, npt.NDArray[Any]]],
    replayed: Mapping[str, npt.NDArray[Any]],
    names: Names,
    check: str,
    at: int,
    findings: Findings,
) -> int:
    """Tell of each array the first number that is another; how many numbers are the same bit for bit.

    Args:
        state: values and arrays of a model's state.
        replayed: the arrays of one that was replayed.
        names: what the numbers stand for.
        check: name of the check.
        at: number of the journal record at which both stand.
        findings: are told.
    """
    meta, arrays = state
    same = 0
    for name in LEARNED_BY_GRADIENT:
        here, there = arrays.get(name), replayed.get(name)
        if here is None and there is None:
            continue
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
            what, place = names.place(name, index, labels, arrays.get("learned_features"))
            more = f", and {others - 1:,} more of {name}" if others > 1 else ""
            found, expected = float(here[tuple(index)]), float(there[tuple(index)])
            where = "".join(f", {key} {value!r}" for key, value in place.items())
            text = f"at journal record {at}{where}: {what} {found} learned, {expected} in a replay{more}"
            findings.differs(check, text, {"record": at, **place}, found=found, expected=expected)
    return same


def _bits(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Floats as integers: a nan equals itself, and zeros of two signs do not."""
    return np.ascontiguousarray(array).view(np.uint32 if array.dtype.itemsize == 4 else np.uint64)
