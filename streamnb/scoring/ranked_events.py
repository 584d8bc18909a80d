"""Area under the ROC curve over a stream: exact at first, then of bins, in bounded memory.

The log odds and the class of each event take 9 bytes. After `MOST_EXACT` events (90 MB) the odds are
counted in bins of 1/256 nat, 6 MB in all. Pairs of events in one bin then count as ties: the area may be
off by at most half the share of such pairs, which `error` returns. ROC curves and costs by probability
need all odds, and end there.
"""

from __future__ import annotations

from array import array

import numpy as np

from streamnb.kernels.array_types import Floats, Ints

MOST_EXACT = 10_000_000
"""Events up to which the area is exact."""
_WIDTH = 256  # bins per nat
_FARTHEST = 746  # nats: beyond the odds of any two doubles, except 0
_BINS = 2 * _FARTHEST * _WIDTH + 1


class RankedEvents:
    """Log odds and classes of events.

    Args:
        most_exact: number of events after which odds are counted in bins.
    """

    def __init__(self, most_exact: int = MOST_EXACT) -> None:
        self._most_exact = most_exact
        self._odds, self._truths = array("d"), array("b")
        self._bins: Ints | None = None  # int64[2, _BINS], events by class

    def add(self, odds: Floats, truths: Ints) -> None:
        """Add events: their log odds of class 1, without NaN, and their classes, 0 or 1."""
        if self._bins is None:
            self._odds.frombytes(odds.tobytes())
            self._truths.frombytes(truths.astype(np.int8).tobytes())
            if len(self._odds) <= self._most_exact:
                return
            odds, truths = np.array(self._odds), np.array(self._truths, dtype=np.int64)
            self._odds, self._truths = array("d"), array("b")
            self._bins = np.zeros((2, _BINS), dtype=np.int64)
        place = np.rint(odds.clip(-_FARTHEST, _FARTHEST) * _WIDTH).astype(np.int64) + _FARTHEST * _WIDTH
        np.add.at(self._bins, (truths, place), 1)

    @property
    def events(self) -> tuple[Floats, Ints] | None:
        """Log odds and classes of all events; None if there are none, or if odds are counted in bins."""
        return (np.array(self._odds), np.array(self._truths, dtype=np.int64)) if self._odds else None

    def counts(self) -> Ints:
        """Return events by class and log odds, which rise; int64[2, number of distinct odds]."""
        if self._bins is not None:
            return self._bins[:, self._bins.any(axis=0)]
        odds, place = np.unique(np.array(self._odds), return_inverse=True)
        counts = np.zeros((2, odds.size), dtype=np.int64)
        np.add.at(counts, (np.array(self._truths, dtype=np.int64), place), 1)
        return counts

    @property
    def share_misordered(self) -> float | None:
        """1 - AUC; None if a class has no event."""
        return share_misordered(self.counts())

    @property
    def error(self) -> float:
        """Maximum error of the area; 0 while it is exact."""
        if self._bins is None:
            return 0.0
        zeros, ones = self._bins
        pairs = int(zeros.sum()) * int(ones.sum())
        return float((zeros.astype(float) * ones).sum()) / (2 * pairs) if pairs else 0.0


def share_misordered(counts: Ints) -> float | None:
    """Return 1 - AUC, exact except for one division; None if a class has no event.

    Args:
        counts: int64[2, K], events of class 0 and of class 1 at each score, in rising order of the scores.
    """
    zeros, ones = counts
    pairs = int(zeros.sum()) * int(ones.sum())
    if not pairs:
        return None
    twice = 2 * (zeros.sum() - np.cumsum(zeros)) + zeros
    if 2 * pairs < 1 << 62:
        return float(int((ones * twice).sum()) / (2 * pairs))
    return float(sum(a * b for a, b in zip(ones.tolist(), twice.tolist(), strict=True)) / (2 * pairs))
