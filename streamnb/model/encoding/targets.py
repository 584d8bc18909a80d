"""What is to become of events: their labels, weights and times."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from streamnb.model.attributes.ranges import is_missing
from streamnb.model.attributes.weights import UNIT, units

__all__ = ["Targets"]


class Targets(NamedTuple):
    """The targets of n events: labels, weights and times.

    Attributes:
        labels: their classes; an event without a label (None, or a number that is not finite) is not learned.
        weights: int64[n] in units, nor is one without weight.
        times: float64[n] in seconds, nan where they are not known.
    """

    labels: list[Any]
    weights: npt.NDArray[np.int64]
    times: npt.NDArray[np.float64]

    @classmethod
    def of(
        cls,
        n: int,
        labels: Sequence[Any] | None,
        weights: Sequence[float] | None,
        times: Sequence[float | None] | None,
    ) -> Targets:
        """Of n events; by default they have no label, the weight 1 and no time.

        Raises ValueError where there are not n of each, or a weight lies out of range.
        """
        for given in (labels, weights, times):
            if given is not None and len(given) != n:
                raise ValueError(f"{n} events, but {len(given)} labels, weights or times")
        targets = cls([None] * n if labels is None else list(labels), np.full(n, UNIT), np.full(n, np.nan))
        if weights is not None and any(type(weight) is not float or weight != 1.0 for weight in weights):
            targets.weights[:] = [units(weight) for weight in weights]
        if times is not None and any(time is not None for time in times):
            targets.times[:] = [_seconds(time) for time in times]
        return targets

    def columns(
        self, classes: dict[Any, int]
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
        """Of each event the column of its class, -1 where it is not learned; how many were known; if it adds.

        New classes are added in order. Raises TypeError, before that, for a label that cannot be hashed.
        """
        n = len(self.labels)
        found = list(map(classes.get, self.labels))
        if None not in found and self.weights.all():  # all are learned, and their classes known
            return np.array(found, dtype=np.int64), np.full(n, len(classes)), np.ones(n, dtype=np.bool_)
        if set(map(type, self.labels)) == {str} and self.weights.all():  # all are learned
            before = len(classes)
            columns = np.array([classes.setdefault(label, len(classes)) for label in self.labels])
            known = np.maximum.accumulate(np.append(before, columns[:-1] + 1))
            return columns, known, np.ones(n, dtype=np.bool_)
        counts, column = [], []
        for label, weight in zip(self.labels, self.weights.tolist(), strict=True):
            counts.append(len(classes))
            adds = weight > 0 and not is_missing(label)
            column.append(classes.setdefault(label, len(classes)) if adds else -1)
        columns = np.array(column, dtype=np.int64)
        return columns, np.array(counts, dtype=np.int64), columns >= 0


def _seconds(time: float | None) -> float:
    """A time as a finite double, or nan."""
    try:
        seconds = math.nan if time is None else float(time)
    except OverflowError:  # an integer that is larger than any
        return math.nan
    return seconds if math.isfinite(seconds) else math.nan
