"""Smoothing of attributes, as columns for the groups of a layout."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from itertools import compress, islice
from typing import Any

import numpy as np

from streamnb.features.attributes import Nominal, Text
from streamnb.features.encoded_batch import Encoded
from streamnb.features.event_reader import EventReader
from streamnb.kernels.array_types import Floats
from streamnb.models.naive_bayes.sufficient_statistics import SufficientStatistics
from streamnb.values.attribute_kinds import NOMINAL
from streamnb.values.nominal_values import as_event, value_text
from streamnb.values.number_ranges import is_missing


class GroupSmoothing:
    """Smoothing of each attribute. Invariant: an attribute's own alpha or m replaces a model's defaults."""

    def __init__(self, reader: EventReader) -> None:
        self._reader = reader

    def check_p(self, p: float | None, *, of_each: bool = False) -> None:
        """Raise ValueError if p, or the own p of an attribute, does not sum to 1 over declared values.

        So does an attribute with a p of each value, unless `of_each`.
        """
        for name, spec in self._reader.declared.items():
            if isinstance(spec, Nominal) and isinstance(spec.p, Mapping) and not of_each:
                raise ValueError(
                    f"attribute {name!r}: this model takes one p for all values. NaiveBayes, CategoricalNB "
                    "and BayesianNetworkClassifier take a p of each value"
                )
            if isinstance(spec, Nominal):
                spec.check_p(name, p if (spec.alpha, spec.m) == (None, None) else spec.p_of_each)

    def of_attribute(
        self, name: Any, alpha: float | None, m: float | None, p: float | None
    ) -> tuple[float, float, float]:
        """Return alpha, m (-1: use alpha) and p (nan: uniform) of an attribute: its own, or the defaults."""
        spec = self._reader.declared.get(name)
        if isinstance(spec, (Text, Nominal)) and (spec.alpha, spec.m) != (None, None):
            alpha, m, p = spec.alpha, spec.m, spec.p_of_each
            if isinstance(spec.p, Mapping):
                p = 1.0 / len(spec.p)  # for values without a row of their own: see `ValueShares`
        return alpha or 0.0, -1.0 if m is None else m, np.nan if p is None else p

    def n_declared(self, name: Any, statistics: SufficientStatistics) -> int:
        """Return the number of declared values, plus undeclared ones learned before; 0 if undeclared."""
        spec = self._reader.declared.get(name)
        declared = spec.declared if isinstance(spec, Nominal) else 0
        if name in self._reader.closed:
            declared += len(statistics.class_counts(name).keys() - self._reader.closed[name].keys())
        return declared


class ValueShares:
    """The rows of nominal values that have a p of their own: a cache, derived from the vocabulary.

    Attributes:
        declared: declared values of each attribute, with their own p or None.
        rows: int64[V], see `CountViews.value_rows`; values never met have no row.
        p: float64[V].
    """

    def __init__(self, reader: EventReader) -> None:
        self.declared: dict[Any, dict[str, float | None]] = {
            name: dict.fromkeys(texts) for name, texts in reader.closed.items()
        }
        self._own: list[tuple[Any, str, float]] = []
        for name, spec in reader.declared.items():
            if isinstance(spec, Nominal) and isinstance(spec.p, Mapping):
                self.declared[name] = {value_text(value): p for value, p in spec.p.items()}
                self._own += [(name, value_text(value), p) for value, p in spec.p.items()]
        self.rows, self.p = np.zeros(0, dtype=np.int64), np.zeros(0)
        self._places: dict[tuple[Any, str], tuple[int, float]] = {}
        self._found_at: tuple[Any, ...] = ()

    @property
    def is_used(self) -> bool:
        """True if a value has a p of its own."""
        return bool(self._own)

    def find(self, statistics: SufficientStatistics, encode: Callable[[Any], Encoded]) -> None:
        """Find the rows of the values again if rows were added, moved or evicted since."""
        if not self._own:
            return
        vocabulary, size = statistics.vocabulary, statistics.vocabulary.size
        complete = self.rows.size == len(self._own)
        at = vocabulary, vocabulary.moves, statistics.survivors.size, len(statistics.layout.groups)
        if self._found_at[:4] == at and (complete or self._found_at[4] == size):
            return
        encoded = encode([{name: text} for name, text, _ in self._own])
        learned = np.diff(encoded.batch.event_items) > 0  # False for an attribute that was never learned
        rows, own = encoded.batch.rows, list(compress(self._own, learned))
        self.rows = rows[rows >= 0].astype(np.int64)
        self.p = np.array([p for _, _, p in own])[rows >= 0]
        self._places = {
            (name, text): (row, p) for (name, text, p), row in zip(own, rows.tolist(), strict=True)
        }
        self._found_at = *at, size

    def corrected(self, joints: Floats, xs: Sequence[Any], statistics: SufficientStatistics) -> Floats:
        """Return log P(v, x) with the own p of values without a count, which the kernel takes as 1 / k.

        All classes have this factor, so P(v | x) does not depend on it.
        """
        counts, groups = statistics.counts, statistics.layout.groups
        for (name, text), (row, p) in self._places.items():
            if counts.live[groups[NOMINAL, name]] and (row < 0 or not counts.table[row].any()):
                for e, x in enumerate(xs):
                    value = as_event(x).get(name)
                    if not is_missing(value) and value_text(value) == text:
                        joints[e] += math.log(p * len(self.declared[name]))
        return joints


def extended(columns: Floats, statistics: SufficientStatistics, column: Callable[[Any], Any]) -> Floats:
    """Return `columns` of the groups, extended by `column(attribute)` for each group added since."""
    groups = statistics.layout.groups
    if columns.shape[-1] == len(groups):
        return columns
    added = [column(name) for _, name in islice(groups, columns.shape[-1], None)]
    more = np.array(added, dtype=np.float64).reshape(len(added), *columns.shape[-2::-1]).T
    # Row-major: kernels are compiled for one layout, and numpy would choose it by both inputs.
    return np.ascontiguousarray(np.concatenate([columns, more], axis=-1))
