"""Continuous attributes as bins of equal mass, coarse at first and finer as more values are known.

When 32, 256 and 1,024 values have been learned, edges are laid through the values so far: into 8, 32 and
256 bins of about equal mass, a value that occurs often having a bin of its own. A layout never changes: each
counts from then on, next to the coarser layouts. An attribute that had at most 16 distinct values when the
first edges were due is a code: its values are features themselves.

Pairs use the eight bins, for which few examples are enough; after 8,192 values they also use a fourth layout
of 16 bins, laid through the first 2,048 values.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from streamnb.kernels.array_types import Floats, Ints
from streamnb.kernels.growable_arrays import Growable
from streamnb.kernels.jit import allocating, inlined, kernel
from streamnb.kernels.structs import struct_type
from streamnb.values.state_validation import ExpectedArray, real, reject, whole
from streamnb.values.type_aliases import Array

LAYOUTS = 4
PAIRED = 3  # the layout for pairs
CODE = LAYOUTS  # the layout of values taken as they are
_VALUES = (32, 256, 1024, 2048)
_BINS = (8, 32, 256, 16)
_PAIRED_AFTER = 8192  # values
FIRST_EDGES = (0, 16, 112, 624, 1152)  # offset of each layout's edges, with capacity for the maximum
CODES = 16  # maximum number of distinct values of a code
_HOLDS = np.array((4, *_VALUES[:-1], _VALUES[-1] - 1))  # capacity for values, by sort of block
_FIRST_VALUE = np.array((4, *(CODES + first for first in FIRST_EDGES[1:])))  # their offset in a block
_SIZES = np.array((8, 64, 384, 1664, 3216, 1168))  # sizes of the blocks; the last sort holds no values
_PACKED = "values", "edges", "codes"
_OWN = 8  # occurrences that give a value a bin of its own


@struct_type
class QuantileBinArrays(NamedTuple):
    """The bins of F continuous attributes.

    Each attribute has a block of the pool: its codes, then its edges, then its first values. A block has
    capacity for a number of values and the edges laid through them; an attribute with more values gets a
    larger block. From 2,048 values on only the edges are needed.

    Attributes:
        pool: float64, consecutive blocks, some of them given up.
        used: int64[1], offset of the next block.
        at: int64[F], offset of each attribute's block, or -1.
        learned: int64[F], number of values learned, up to 8,192.
        n_edges: int64[F, 4], number of ascending edges of each layout; -1 if it is not laid, or not finer
            than earlier layouts.
        n_codes: int64[F], number of distinct values, in order of arrival; -1 if the attribute is not a code.
    """

    pool: Floats
    used: Ints
    at: Ints
    learned: Ints
    n_edges: Ints
    n_codes: Ints


@inlined
def _sort_of(learned: Any) -> int:
    sort = 0
    while sort < _HOLDS.size and learned > _HOLDS[sort]:
        sort += 1
    return sort


@inlined
def first_edge(bins: QuantileBinArrays, f: int, layout: int) -> Any:
    """Return the offset in the pool of the edges of one layout."""
    return bins.at[f] + CODES + FIRST_EDGES[layout]


@kernel
def bin_of(edges: Floats, first: int, stop: int, value: float) -> int:
    """Return the number of ``edges[first:stop]`` that are at most `value`."""
    low, high = first, stop
    while low < high:
        middle = (low + high) // 2
        if edges[middle] <= value:
            low = middle + 1
        else:
            high = middle
    return low - first


@inlined
def is_in_use(bins: QuantileBinArrays, f: int, layout: int) -> bool:
    """Return True if values of attribute f have a bin in this layout."""
    late = layout == PAIRED and bins.learned[f] < _PAIRED_AFTER
    return bool(bins.n_edges[f, layout] >= 0 and not late)


@kernel
def code_of(bins: QuantileBinArrays, f: int, value: float) -> int:
    """Return the index of a value of attribute f among its codes; of a new value their number."""
    code = 0
    while code < bins.n_codes[f] and bins.pool[bins.at[f] + code] != value:
        code += 1
    return code


@kernel
def _lay_out(ordered: Floats, bins: int, edges: Floats, first: int) -> int:
    """Write edges through sorted values; return their number."""
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
def _lay_layout(bins: QuantileBinArrays, f: int, layout: int) -> None:
    first = bins.at[f] + _FIRST_VALUE[layout + 1]
    ordered = np.sort(bins.pool[first : first + bins.learned[f]])
    used = _lay_out(ordered, _BINS[layout], bins.pool, first_edge(bins, f, layout))
    if layout == 0:
        different = 1 + np.count_nonzero(ordered[1:] != ordered[:-1])
        if different > CODES:
            bins.n_codes[f] = -1
    known = np.int64(bins.n_codes[f] - 1)
    for earlier in range(1 if layout == PAIRED else layout):
        known = max(known, bins.n_edges[f, earlier])
    bins.n_edges[f, layout] = used if used > known else -1


@inlined
def _grows(bins: QuantileBinArrays, f: int) -> bool:
    n = bins.learned[f]
    return bool(n == 0 or (n < _HOLDS[-1] and _sort_of(n + 1) > _sort_of(n)))


@kernel
def places_for_values(bins: QuantileBinArrays, batch: Any, e: int) -> int:
    """Return the pool capacity that event e needs; each of its values belongs to another attribute."""
    need = 0
    for v in range(batch.event_values[e], batch.event_values[e + 1]):
        f = batch.value_field[v]
        if _grows(bins, f):
            need += _SIZES[_sort_of(bins.learned[f] + 1)]
    return need


@inlined
def has_capacity_for_values(bins: QuantileBinArrays, batch: Any, e: int) -> bool:
    """Return True if event e can be learned within the current pool."""
    return bool(bins.used[0] + places_for_values(bins, batch, e) <= bins.pool.size)


@kernel
def _grow(bins: QuantileBinArrays, f: int) -> None:
    """Move attribute f to the block that one more value needs; see `places_for_values` for its capacity."""
    n, pool, to = bins.learned[f], bins.pool, bins.used[0]
    sort = _sort_of(n + 1)
    bins.used[0] += _SIZES[sort]
    if n > 0:
        at, before, after = bins.at[f], _FIRST_VALUE[_sort_of(n)], _FIRST_VALUE[sort]
        for i in range(before):
            pool[to + i] = pool[at + i]
        for i in range(n):
            pool[to + after + i] = pool[at + before + i]
    bins.at[f] = to


@kernel
def note_value(bins: QuantileBinArrays, f: int, value: float) -> None:
    """Learn one value of attribute f, for which the pool has capacity."""
    n = bins.learned[f]
    if _grows(bins, f):
        _grow(bins, f)
    if bins.n_codes[f] >= 0:
        code = code_of(bins, f, value)
        if code == bins.n_codes[f] and code < CODES:
            bins.pool[bins.at[f] + code] = value
            bins.n_codes[f] += 1
    if n == _PAIRED_AFTER:
        return
    if n < _VALUES[-1]:
        bins.pool[bins.at[f] + _FIRST_VALUE[min(_sort_of(n + 1), _FIRST_VALUE.size - 1)] + n] = value
    n += 1
    bins.learned[f] = n
    for layout in range(LAYOUTS):
        if n == _VALUES[layout]:
            _lay_layout(bins, f, layout)


@kernel
def _move(old: Floats, at: Ints, firsts: Ints, sizes: Ints, pool: Floats) -> None:
    for f in range(at.size):
        for i in range(sizes[f]):
            pool[firsts[f] + i] = old[at[f] + i]


class QuantileBins(Growable):
    """The bins of continuous attributes, grown as they are met."""

    def __init__(self) -> None:
        self.tables = _empty(0)

    @property
    def n_bytes(self) -> int:
        """Memory, bytes."""
        return sum(array.nbytes for array in self.tables)

    def reserve(self, fields: int, places: int = 0) -> None:
        """Grow to this number of attributes, and of free places in the pool."""
        have = self.tables.learned.size
        if fields > have:
            more = _empty(fields - have)
            joined = {
                name: np.concatenate((getattr(self.tables, name), getattr(more, name)))
                for name in ("at", "learned", "n_edges", "n_codes")
            }
            self.tables = self.tables._replace(**joined)
        if int(self.tables.used[0]) + places > self.tables.pool.size:
            self._lay_anew(places)

    def _lay_anew(self, places: int) -> None:
        """Move all blocks in use into another pool, with half as much again to spare."""
        tables, sizes = self.tables, self._sizes()
        firsts, live = _one_after_the_other(sizes), int(sizes.sum())
        pool = np.zeros(live + places + live // 2)
        _move(tables.pool, tables.at, firsts, sizes, pool)
        tables.at[:] = firsts
        tables.used[0] = live
        self.tables = tables._replace(pool=pool)

    def _sizes(self) -> Ints:
        learned = self.tables.learned
        sizes: Ints = np.where(learned > 0, _SIZES[np.searchsorted(_HOLDS, learned)], 0)
        return sizes

    def state(self) -> dict[str, Array]:
        """Return packed copies, one attribute after the other."""
        tables = self.tables
        parts = {name: tables.pool[_runs(*run)] for name, run in self._kept().items()}
        counts = {name: getattr(tables, name).copy() for name in ("learned", "n_edges", "n_codes")}
        return {f"bins_{name}": array for name, array in (parts | counts).items()}

    def _kept(self) -> dict[str, tuple[Any, Any]]:
        """Return the offsets in the pool of values, edges and codes of all attributes, and their numbers."""
        at, learned, n_edges = self.tables.at, self.tables.learned, self.tables.n_edges
        values, edges, codes = _counts(learned, n_edges, self.tables.n_codes)
        first_value = _FIRST_VALUE[np.minimum(np.searchsorted(_HOLDS, learned), _FIRST_VALUE.size - 1)]
        first_edges = at[:, np.newaxis] + CODES + np.array(FIRST_EDGES[:LAYOUTS])
        return {
            "values": (at + first_value, values),
            "edges": (first_edges.ravel(), edges.ravel()),
            "codes": (at, codes),
        }

    def load(self, packed: Mapping[str, Array]) -> None:
        """Replace everything by a state that `check_bins` accepted."""
        counts = {name: packed[name].copy() for name in ("learned", "n_edges", "n_codes")}
        self.tables = _empty(counts["learned"].size)._replace(**counts)
        sizes = self._sizes()
        live = int(sizes.sum())
        self.tables.used[0] = live
        self.tables = self.tables._replace(pool=np.zeros(live), at=_one_after_the_other(sizes))
        for name, run in self._kept().items():
            self.tables.pool[_runs(*run)] = packed[name]


def _one_after_the_other(sizes: Ints) -> Ints:
    """Return the offsets of blocks of these sizes; -1 for size 0."""
    firsts: Ints = np.where(sizes > 0, np.cumsum(sizes) - sizes, -1)
    return firsts


def _runs(firsts: Ints, counts: Ints) -> Ints:
    """Return first, first + 1, ... of each run, one run after the other."""
    before = np.cumsum(counts) - counts
    return np.repeat(firsts - before, counts) + np.arange(counts.sum())


def expected_bins() -> dict[str, ExpectedArray]:
    """Return the expected arrays of a state, of any number of attributes."""
    counts = {
        "learned": whole("numbers", low=0, high=_PAIRED_AFTER),
        "n_edges": whole("numbers", LAYOUTS, low=-1, high=np.diff(FIRST_EDGES)),
        "n_codes": whole("numbers", low=-1, high=CODES),
    }
    return counts | {name: real(f"{name} of numbers") for name in _PACKED}


def check_bins(arrays: Mapping[str, Array]) -> None:
    """Raise SnapshotError if the arrays of a state, which are as `expected_bins`, contradict each other."""
    prefix = getattr(arrays, "prefix", "")
    learned, n_edges, n_codes = (arrays[name] for name in ("learned", "n_edges", "n_codes"))
    early = learned[:, np.newaxis] < np.array(_VALUES)
    reject(f"{prefix}n_edges", (n_edges >= 0) & early, "edges through more values than were learned")
    reject(f"{prefix}n_codes", n_codes > learned, "more codes than values were learned")
    for name, counts in zip(_PACKED, _counts(learned, n_edges, n_codes), strict=True):
        have, need = arrays[name].size, int(counts.sum())
        reject(f"{prefix}{name}", have != need, f"there are {have}, and {need} are counted")


def _counts(learned: Any, n_edges: Any, n_codes: Any) -> Iterator[Ints]:
    yield np.where(learned < _VALUES[-1], learned, 0)
    yield np.maximum(n_edges, 0)
    yield np.maximum(n_codes, 0)


def _empty(fields: int) -> QuantileBinArrays:
    return QuantileBinArrays(
        pool=np.zeros(0),
        used=np.zeros(1, dtype=np.int64),
        at=np.full(fields, -1, dtype=np.int64),
        learned=np.zeros(fields, dtype=np.int64),
        n_edges=np.full((fields, LAYOUTS), -1, dtype=np.int64),
        n_codes=np.zeros(fields, dtype=np.int64),
    )
