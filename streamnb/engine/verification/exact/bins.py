"""The bins of one continuous attribute, laid out again from its values, in lists.

Between neighbours an edge is the middle of the two, in doubles; so edges are compared exactly.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise

__all__ = ["BINS", "FIRST", "PAIRED", "ExactBins"]

_LAID_OUT = {32: 8, 256: 32, 1024: 256, 2048: 16}  # so many values learned -> so many bins
BINS = tuple(_LAID_OUT.values())
FIRST = max(_LAID_OUT)
"""How many values edges are laid through."""
PAIRED = BINS.index(16)
"""The layout for pairs."""
_PAIRED_AFTER = 8192  # values
_OWN = 8
_CODES = 16


class ExactBins:
    """What is known of the values of one attribute.

    Attributes:
        values: the first, in the order in which they were learned; once all were there some may be gone.
        learned: how many values were learned, up to 8,192.
        edges: of each layout that is laid its edges, rising; None of one that is not.
        codes: different values as they came; None where the attribute is no code.
    """

    def __init__(self) -> None:
        self.values: list[float] = []
        self.learned = 0
        self.edges: list[list[float] | None] = [None] * len(BINS)
        self.codes: list[float] | None = []

    def is_code(self, value: float) -> bool:
        """Whether a value is, or could be, one of the codes."""
        return self.codes is not None and (value in self.codes or len(self.codes) < _CODES)

    def bins(self, value: float) -> Iterator[tuple[int, int]]:
        """Layout and bin of a value, in each layout in use."""
        for layout, edges in enumerate(self.edges):
            late = layout == PAIRED and self.learned < _PAIRED_AFTER
            if edges is not None and not late:
                yield layout, bisect_right(edges, value)

    def learn(self, value: float) -> None:
        """Learn one value."""
        if self.codes is not None and value not in self.codes and len(self.codes) < _CODES:
            self.codes.append(value)
        if self.learned == _PAIRED_AFTER:
            return
        if self.learned < FIRST:
            self.values.append(value)
        self.learned += 1
        bins = _LAID_OUT.get(self.learned)
        if bins is not None:
            self._lay_out(BINS.index(bins), bins)

    def _lay_out(self, layout: int, bins: int) -> None:
        """Edges through the values so far, if they tell more than the coarser ones, and the codes, do."""
        if layout == 0 and len(set(self.values)) > _CODES:
            self.codes = None
        edges = _through(self.values, bins)
        coarser = self.edges[: 1 if layout == PAIRED else layout]
        known = [len(others) for others in coarser if others is not None]
        if len(edges) > max([*known, -1 if self.codes is None else len(self.codes) - 1]):
            self.edges[layout] = edges


def _through(values: list[float], bins: int) -> list[float]:
    """Edges between all neighbours of few values; else where a bin is full, or a value has one of its own."""
    counted, edges, held = sorted(Counter(values).items()), [], 0
    for (a, of_a), (b, of_b) in pairwise(counted):
        held += of_a
        if len(counted) <= bins or of_a >= _OWN or of_b >= _OWN or held * bins >= len(values):
            middle = a + (b - a) / 2.0
            edges.append(middle if middle > a else b)
            held = 0
    return edges
