"""What a state holds of features, read and checked."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from streamnb.engine.verification.exact.bins import FIRST, ExactBins
from streamnb.engine.verification.features.recount import NOBODY
from streamnb.model.attributes import expected
from streamnb.model.naive_bayes.sufficient_statistics import Statistics
from streamnb.model.softmax.feature_table import COUNTS, KEY, KEY_BITS, OWNER
from streamnb.model.softmax.quantile_bins import expected_bins, packed_bins

__all__ = ["FeatureState"]

_PREFIX = "learned_"
_CLASS, _MET_ONCE = (
    np.uint64(48),
    np.uint64(1 << 15),
)  # where the class of one met once is, and what is above it


class FeatureState(NamedTuple):
    """What a state holds of features; see `model.features`, `model.bins` and `model.collecting`.

    Attributes:
        table: int64[R, 3 + K].
        logs: float32[R, K], ln(1 + 2 n) of the counts.
        once: uint64[P], rising, of each pair that was met once: the highest bit, its class << 48, its key.
        bins: of the continuous attributes.
        learned: weight of all that was learned, units.
        last: number of the class learned last, or -1.
        chosen: attributes that are paired; None where they have not been selected yet.
        labels: of the classes.
    """

    table: npt.NDArray[np.int64]
    logs: npt.NDArray[np.float32]
    once: npt.NDArray[np.uint64]
    bins: list[ExactBins]
    learned: int
    last: int
    chosen: list[int] | None
    labels: list[str]

    @classmethod
    def of(cls, statistics: Statistics, arrays: Mapping[str, npt.NDArray[Any]]) -> Self | None:
        """That of a model's state; None where it has no features. Raises ValueError where it is none."""
        if f"{_PREFIX}features" not in arrays:
            return None
        table, weights = arrays[f"{_PREFIX}features"], arrays[f"{_PREFIX}feature_weights"]
        n_chosen = int(arrays[f"{_PREFIX}context_n_chosen"][0])
        found = cls(
            table,
            weights[:, 0, 1:],
            arrays[f"{_PREFIX}features_met_once"],
            list(_bins(arrays)),
            int(arrays[f"{_PREFIX}context_learned"][0]),
            int(arrays[f"{_PREFIX}context_last_label"][0]),
            arrays[f"{_PREFIX}context_chosen"].tolist()[:n_chosen] if n_chosen >= 0 else None,
            [str(label) for label in statistics.classes],
        )
        found._check(len(statistics.layout.fields))
        return found

    def _check(self, fields: int) -> None:
        R, K = len(self.table), len(self.labels)  # noqa: N806  the symbols of its text
        owners, own = self.table[:, OWNER], np.arange(R)
        if self.table.shape[1] != COUNTS + K or self.logs.shape != (R, K) or len(self.bins) > fields:
            raise ValueError("features of another shape than classes and attributes")
        if not ((owners >= NOBODY) & (owners < own)).all() or not -1 <= self.last < max(K, 1):
            raise ValueError("features that belong to what is not there")
        if self.once.dtype != np.uint64 or not (self.once >> _CLASS < _MET_ONCE + K).all():
            raise ValueError("pairs met once in a class that is not there")
        if not (self.once >= _MET_ONCE << _CLASS).all() or not (self.once[1:] > self.once[:-1]).all():
            raise ValueError("pairs met once that are none, or not in order")

    @property
    def keys(self) -> list[int]:
        """The key of every row."""
        keys: list[int] = self.table[:, KEY].astype(np.uint64).tolist()
        return keys

    @property
    def classes_met_once(self) -> dict[int, int]:
        """The key of every pair that was met once -> the number of its class."""
        classes = self.once >> _CLASS & ~_MET_ONCE
        return dict(zip((self.once & KEY_BITS).tolist(), classes.tolist(), strict=True))


def _bins(arrays: Mapping[str, npt.NDArray[Any]]) -> Iterator[ExactBins]:
    """Those of each continuous attribute."""
    names = ("values", "learned", "edges", "n_edges", "codes", "n_codes")
    part = expected.named(arrays, f"{_PREFIX}bins_")
    packed = packed_bins(expected.checked(part, expected_bins(part)))
    values, learned, edges, n_edges, codes, n_codes = (packed[name].tolist() for name in names)
    values, edges, codes = map(iter, (values, edges, codes))
    for n, laid, coded in zip(learned, n_edges, n_codes, strict=True):
        bins = ExactBins()
        bins.learned = n
        bins.values = list(islice(values, n)) if n < FIRST else []
        bins.codes = list(islice(codes, coded)) if coded >= 0 else None
        bins.edges = [list(islice(edges, used)) if used >= 0 else None for used in laid]
        yield bins
