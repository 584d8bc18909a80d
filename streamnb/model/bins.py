"""Continuous attributes as bins of equal mass, coarse at first and finer as more values are known.

When 32, 256 and 1,024 values have been learned, edges are laid through the values so far: into 8, 32 and
256 bins of about equal mass, a value that occurs often having a bin of its own. What was laid out once
stays: each layout counts from then on, beside the coarser ones. An attribute that had at most 16
different values when the first edges were due is a code: its values are taken as they are.

A fourth layout is for pairs: these are taken of the eight bins, for few examples are enough for them; and
once 8,192 values were learned also of 16 bins, which were laid through the first 2,048.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from streamnb.model.jit import allocating, inlined, kernel

__all__ = [
    "CODE",
    "FIRST_EDGES",
    "LAYOUTS",
    "PAIRED",
    "BinTables",
    "Bins",
    "bin_of",
    "code_of",
    "is_in_use",
    "note_value",
]

LAYOUTS = 4
PAIRED = 3  # the layout for pairs
CODE = LAYOUTS  # the layout of values taken as they are
_VALUES = (32, 256, 1024, 2048)
_BINS = (8, 32, 256, 16)
_PAIRED_AFTER = 8192  # values
FIRST_EDGES = (0, 16, 112, 624, 1152)  # where those of a layout begin in a row: there is room for the most
_OWN = 8  # a value that occurs so often has a bin of its own
_CODES = 16


class BinTables(NamedTuple):
    """The bins of F continuous attributes.

    Attributes:
        values: float64[F, 2048], the first values.
        learned: int64[F], how many were learned, up to 8,192.
        edges: float64[F, 1152], of the four layouts, each rising.
        n_edges: int64[F, 4], how many; -1 where the layout is not laid, or tells no more than others.
        codes: float64[F, 16], different values, in the order in which they came.
        n_codes: int64[F], how many, or -1 where the attribute is no code.
    """

    values: npt.NDArray[np.float64]
    learned: npt.NDArray[np.int64]
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


@inlined
def is_in_use(bins: Any, f: int, layout: int) -> bool:
    """Whether values of attribute f have a bin in this layout."""
    late = layout == PAIRED and bins.learned[f] < _PAIRED_AFTER
    return bool(bins.n_edges[f, layout] >= 0 and not late)


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
    used, held, i, ends = 0, 0, 0, False
    while i < n:
        j = i + 1
        while j < n and ordered[j] == ordered[i]:
            j += 1
        own = j - i >= _OWN
        if i > 0 and (different <= bins or own or ends or held * bins >= n):
            middle = ordered[i - 1] + (ordered[i] - ordered[i - 1]) / 2.0
            edges[first + used] = middle if middle > ordered[i - 1] else ordered[i]
            used += 1
            held = 0
        held += j - i
        ends = own
        i = j
    return used


@allocating
def _lay_layout(bins: Any, f: int, layout: int) -> None:
    """Lay the edges of one layout through the values that were learned."""
    ordered = np.sort(bins.values[f, : bins.learned[f]])
    used = _lay_out(ordered, _BINS[layout], bins.edges[f], FIRST_EDGES[layout])
    if layout == 0:
        different = 1 + np.count_nonzero(ordered[1:] != ordered[:-1])
        if different > _CODES:
            bins.n_codes[f] = -1
    known = np.int64(bins.n_codes[f] - 1)
    for earlier in range(1 if layout == PAIRED else layout):
        known = max(known, bins.n_edges[f, earlier])
    bins.n_edges[f, layout] = used if used > known else -1


@kernel
def note_value(bins: Any, f: int, value: float) -> None:
    """Learn one value of attribute f."""
    if bins.n_codes[f] >= 0:
        code = code_of(bins, f, value)
        if code == bins.n_codes[f] and code < _CODES:
            bins.codes[f, code] = value
            bins.n_codes[f] += 1
    n = bins.learned[f]
    if n == _PAIRED_AFTER:
        return
    if n < bins.values.shape[1]:
        bins.values[f, n] = value
    n += 1
    bins.learned[f] = n
    for layout in range(LAYOUTS):
        if n == _VALUES[layout]:
            _lay_layout(bins, f, layout)


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
        have = self.tables.learned.size
        if fields > have:
            more = _empty(fields - have)
            self.tables = BinTables(*(np.concatenate(pair) for pair in zip(self.tables, more, strict=True)))

    def state(self) -> dict[str, npt.NDArray[Any]]:
        """Copies of all arrays, values that are needed no longer left out."""
        copies = {f"bins_{name}": array.copy() for name, array in self.tables._asdict().items()}
        copies["bins_values"][self.tables.learned >= self.tables.values.shape[1]] = 0.0
        return copies

    def load(self, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
        """Replace everything by what a state holds. Raises ValueError for one of other layouts."""
        if arrays["bins_edges"].shape[1] != FIRST_EDGES[-1]:
            raise ValueError("a state of other layouts of bins")
        self.tables = BinTables(*(np.array(arrays[f"bins_{name}"]) for name in BinTables._fields))


def _empty(fields: int) -> BinTables:
    return BinTables(
        values=np.zeros((fields, _VALUES[-1])),
        learned=np.zeros(fields, dtype=np.int64),
        edges=np.zeros((fields, FIRST_EDGES[-1])),
        n_edges=np.full((fields, LAYOUTS), -1, dtype=np.int64),
        codes=np.zeros((fields, _CODES)),
        n_codes=np.zeros(fields, dtype=np.int64),
    )
