"""Continuous attributes as bins of equal mass, coarse at first and finer as more values are known.

When 32, 256 and 1,024 values have been learned, edges are laid through the values so far: into 8, 32 and
256 bins of about equal mass, a value that occurs often having a bin of its own. What was laid out once
stays: each layout counts from then on, beside the coarser ones. An attribute that had at most 16
different values when the first edges were due is a code: its values are taken as they are.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from streamnb.model.jit import kernel

__all__ = ["CODE", "FIRST_EDGES", "LAYOUTS", "BinTables", "Bins", "bin_of", "code_of", "note_value"]

LAYOUTS = 3
CODE = LAYOUTS  # the layout of values taken as they are
_VALUES = (32, 256, 1024)
_BINS = (8, 32, 256)
FIRST_EDGES = (0, 16, 112, 624)  # where those of a layout begin in a row: there is room for the most
_OWN = 8  # a value that occurs so often has a bin of its own
_CODES = 16


class BinTables(NamedTuple):
    """The bins of F continuous attributes.

    Attributes:
        values: float64[F, 1024], the first values.
        filled: int64[F], how many of them there are.
        edges: float64[F, 624], of the three layouts, each rising.
        n_edges: int64[F, 3], how many; -1 where the layout is not in use.
        codes: float64[F, 16], different values, in the order in which they came.
        n_codes: int64[F], how many, or -1 where the attribute is no code.
    """

    values: npt.NDArray[np.float64]
    filled: npt.NDArray[np.int64]
    edges: npt.NDArray[np.float64]
    n_edges: npt.NDArray[np.int64]
    codes: npt.NDArray[np.float64]
    n_codes: npt.NDArray[np.int64]


@kernel
def bin_of(edges: Any, first: int, stop: int, value: float) -> int:
    """How many of ``edges[first:stop]`` are at most `value`."""
    low, high = first, stop
    while low < high:
        middle = (low + high) // 2
        if edges[middle] <= value:
            low = middle + 1
        else:
            high = middle
    return low - first


@kernel
def code_of(bins: Any, f: int, value: float) -> int:
    """The number of a value of attribute f among its codes; of a new one how many there are."""
    code = 0
    while code < bins.n_codes[f] and bins.codes[f, code] != value:
        code += 1
    return code


@kernel
def _lay_out(ordered: Any, bins: int, edges: Any, first: int) -> int:
    """Write edges through sorted values; how many."""
    n = ordered.size
    different = 1
    for i in range(1, n):
        different += ordered[i] != ordered[i - 1]
    used, held, i = 0, 0, 0  # after a value with a bin of its own `held` is enough in every layout
    while i < n:
        j = i + 1
        while j < n and ordered[j] == ordered[i]:
            j += 1
        own = j - i >= _OWN
        if i > 0 and (different <= bins or own or held * bins >= n):
            middle = ordered[i - 1] + (ordered[i] - ordered[i - 1]) / 2.0
            edges[first + used] = middle if middle > ordered[i - 1] else ordered[i]
            used += 1
            held = 0
        held += j - i
        i = j
    return used


@kernel
def note_value(bins: Any, f: int, value: float) -> None:
    """Learn one value of attribute f."""
    if bins.n_codes[f] >= 0:
        code = code_of(bins, f, value)
        if code == bins.n_codes[f] and code < _CODES:
            bins.codes[f, code] = value
            bins.n_codes[f] += 1
    n = bins.filled[f]
    if n == bins.values.shape[1]:
        return
    bins.values[f, n] = value
    n += 1
    bins.filled[f] = n
    for layout in range(LAYOUTS):
        if n == _VALUES[layout]:
            ordered = np.sort(bins.values[f, :n])
            used = _lay_out(ordered, _BINS[layout], bins.edges[f], FIRST_EDGES[layout])
            if layout == 0:
                different = 1 + np.count_nonzero(ordered[1:] != ordered[:-1])
                if different > _CODES:
                    bins.n_codes[f] = -1
            coarser = np.int64(-1)
            for earlier in range(layout):
                coarser = max(coarser, bins.n_edges[f, earlier])
            known = max(coarser, bins.n_codes[f] - 1)
            bins.n_edges[f, layout] = used if used > known else -1


class Bins:
    """The bins of continuous attributes, grown as they are met."""

    def __init__(self) -> None:
        self.tables = _empty(0)

    @property
    def n_bytes(self) -> int:
        """Memory, bytes."""
        return sum(array.nbytes for array in self.tables)

    def room(self, fields: int) -> None:
        """Let there be so many attributes."""
        have = self.tables.filled.size
        if fields > have:
            more = _empty(fields - have)
            self.tables = BinTables(*(np.concatenate(pair) for pair in zip(self.tables, more, strict=True)))

    def state(self) -> dict[str, npt.NDArray[Any]]:
        """Copies of all arrays, values that are needed no longer left out."""
        copies = {f"bins_{name}": array.copy() for name, array in self.tables._asdict().items()}
        copies["bins_values"][self.tables.filled == self.tables.values.shape[1]] = 0.0
        return copies

    def load(self, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
        """Replace everything by what a state holds."""
        self.tables = BinTables(*(np.array(arrays[f"bins_{name}"]) for name in BinTables._fields))


def _empty(fields: int) -> BinTables:
    return BinTables(
        values=np.zeros((fields, _VALUES[-1])),
        filled=np.zeros(fields, dtype=np.int64),
        edges=np.zeros((fields, FIRST_EDGES[-1])),
        n_edges=np.full((fields, LAYOUTS), -1, dtype=np.int64),
        codes=np.zeros((fields, _CODES)),
        n_codes=np.zeros(fields, dtype=np.int64),
    )
