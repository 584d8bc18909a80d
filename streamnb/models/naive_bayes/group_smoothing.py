"""Smoothing of attributes, as columns for the groups of a layout."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import islice
from typing import Any

import numpy as np

from streamnb.features.attributes import Nominal, Text
from streamnb.features.event_reader import EventReader
from streamnb.kernels.array_types import Floats
from streamnb.models.naive_bayes.sufficient_statistics import SufficientStatistics


class GroupSmoothing:
    """Smoothing of each attribute. Invariant: an attribute's own alpha or m replaces a model's defaults."""

    def __init__(self, reader: EventReader) -> None:
        self._reader = reader

    def check_p(self, p: float | None) -> None:
        """Raise ValueError if p, or the own p of an attribute, does not sum to 1 over declared values."""
        for name, spec in self._reader.declared.items():
            if isinstance(spec, (Text, Nominal)) and isinstance(spec.p, Mapping):
                raise ValueError(  # noqa: TRY004
                    f"attribute {name!r}: naive Bayes takes one p for all values. For a p of each value use "
                    f"BayesianNetworkClassifier(attributes={{{name!r}: Nominal(m=..., p=...)}}): without "
                    "parents between attributes it is naive Bayes"
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
        return alpha or 0.0, -1.0 if m is None else m, np.nan if p is None else p

    def n_declared(self, name: Any, statistics: SufficientStatistics) -> int:
        """Return the number of declared values, plus undeclared ones learned before; 0 if undeclared."""
        spec = self._reader.declared.get(name)
        declared = spec.declared if isinstance(spec, Nominal) else 0
        if name in self._reader.closed:
            declared += len(statistics.class_counts(name).keys() - self._reader.closed[name].keys())
        return declared


def extended(columns: Floats, statistics: SufficientStatistics, column: Callable[[Any], Any]) -> Floats:
    """Return `columns` of the groups, extended by `column(attribute)` for each group added since."""
    groups = statistics.layout.groups
    if columns.shape[-1] == len(groups):
        return columns
    added = [column(name) for _, name in islice(groups, columns.shape[-1], None)]
    more = np.array(added, dtype=np.float64).reshape(len(added), *columns.shape[-2::-1]).T
    # Row-major: kernels are compiled for one layout, and numpy would choose it by both inputs.
    return np.ascontiguousarray(np.concatenate([columns, more], axis=-1))
