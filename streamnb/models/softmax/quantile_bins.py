"""Continuous attributes as bins of equal mass, coarse at first and finer as more values are known.

When 32, 256 and 1,024 values have been learned, edges are laid through the values so far: into 8, 32 and
256 bins of about equal mass, a value that occurs often having a bin of its own. What was laid out once
stays: each layout counts from then on, beside the coarser ones. An attribute that had at most 16
different values when the first edges were due is a code: its values are taken as they are.

A fourth layout is for pairs: these are taken of the eight bins, for few examples are enough for them; and
once 8,192 values were learned also of 16 bins, which were laid through the first 2,048.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from streamnb.kernels.array_types import Floats, Ints
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
FIRST_EDGES = (0, 16, 112, 624, 1152)  # where those of a layout begin in a row: there is room for the most
CODES = 16  # the most different values of a code
_HOLDS = np.array((4, *_VALUES[:-1], _VALUES[-1] - 1))  # values of which the blocks of each sort have room
_FIRST_VALUE = np.array((4, *(CODES + first for first in FIRST_EDGES[1:])))  # where they begin in a block
_SIZES = np.array((8, 64, 384, 1664, 3216, 1168))  # of the blocks; those of the last sort have no values
_PACKED = "values", "edges", "codes"
_OWN = 8  # a value that occurs so often has a bin of its own


@struct_type
class QuantileBinArrays(NamedTuple):
    """The bins of F continuous attributes.

    What is known of one lies in a block of the pool: its codes, then its edges, then its first values. A
    block has room for some values, and the edges that are laid through so many; an attribute that has more
    gets a larger one. Of 2,048 values and more the edges alone are needed.

    Attributes:
        pool: float64, blocks one after the other, some of them given up.
        used: int64[1], where the next block begins.
        at: int64[F], where the block of each attribute begins; -1 where there is none.
        learned: int64[F], how many values were learned, up to 8,192.
        n_edges: int64[F, 4], how many edges each layout has, which rise; -1 where it is not laid, or tells no
            more than others.
        n_codes: int64[F], how many different values there are, in the order in which they came; -1 where the
            attribute is no code.
    """

    pool: Floats
    used: Ints
    at: Ints
    learned: Ints
    n_edges: Ints
    n_codes: Ints


@inlined
def _sort_of(learned: Any) -> int:
    """Which sort of block an attribute has of which so many values were learned, at least one."""
    sort = 0
    while sort < _HOLDS.size and learned > _HOLDS[sort]:
        sort += 1
    return sort


@inlined
def first_edge(bins: QuantileBinArrays, f: int, layout: int) -> Any:
    """Where the edges of one layout begin in the pool."""
    return bins.at[f] + CODES + FIRST_EDGES[layout]


@kernel
def bin_of(edges: Floats, first: int, stop: int, value: float) -> int:
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
def is_in_use(bins: QuantileBinArrays, f: int, layout: int) -> bool:
    """Whether values of attribute f have a bin in this layout."""
    late = layout == PAIRED and bins.learned[f] < _PAIRED_AFTER
    return bool(bins.n_edges[f, layout] >= 0 and not late)


@kernel
def code_of(bins: QuantileBinArrays, f: int, value: float) -> int:
    """The number of a value of attribute f among its codes; of a new one how many there are."""
    code = 0
    while code < bins.n_codes[f] and bins.pool[bins.at[f] + code] != value:
        code += 1
    return code


@kernel
def _lay_out(ordered: Floats, bins: int, edges: Floats, first: int) -> int:
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
def _lay_layout(bins: QuantileBinArrays, f: int, layout: int) -> None:
    """Lay the edges of one layout through the values that were learned."""
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
    """Whether one more value of attribute f needs a larger block."""
    n = bins.learned[f]
    return bool(n == 0 or (n < _HOLDS[-1] and _sort_of(n + 1) > _sort_of(n)))


@kernel
def places_for_values(bins: QuantileBinArrays, batch: Any, e: int) -> int:
    """How many places in the pool event e needs, each of its values being one of another attribute."""
    need = 0
    for v in range(batch.event_values[e], batch.event_values[e + 1]):
        f = batch.value_field[v]
        if _grows(bins, f):
            need += _SIZES[_sort_of(bins.learned[f] + 1)]
    return need


@inlined
def has_capacity_for_values(bins: QuantileBinArrays, batch: Any, e: int) -> bool:
    """Whether event e can be learned as the pool is."""
    return bool(bins.used[0] + places_for_values(bins, batch, e) <= bins.pool.size)


@kernel
def _grow(bins: QuantileBinArrays, f: int) -> None:
    """Give attribute f the block that one more value needs; there is room for it, see `places_for_values`."""
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
    """Learn one value of attribute f, for which there is room in the pool."""
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
    """Copy blocks to where they are to begin."""
    for f in range(at.size):
        for i in range(sizes[f]):
            pool[firsts[f] + i] = old[at[f] + i]


class QuantileBins:
    """The bins of continuous attributes, grown as they are met."""

    def __init__(self) -> None:
        self.tables = _empty(0)

    @property
    def n_bytes(self) -> int:
        """Memory, bytes."""
        return sum(array.nbytes for array in self.tables)

    def reserve(self, fields: int, places: int = 0) -> None:
        """Let there be so many attributes, and so many free places in the pool."""
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
        """Move all blocks that are in use into another pool, which has half as much again to spare."""
        tables, sizes = self.tables, self._sizes()
        firsts, live = _one_after_the_other(sizes), int(sizes.sum())
        pool = np.zeros(live + places + live // 2)
        _move(tables.pool, tables.at, firsts, sizes, pool)
        tables.at[:] = firsts
        tables.used[0] = live
        self.tables = tables._replace(pool=pool)

    def _sizes(self) -> Ints:
        """Of the blocks of all attributes."""
        learned = self.tables.learned
        sizes: Ints = np.where(learned > 0, _SIZES[np.searchsorted(_HOLDS, learned)], 0)
        return sizes

    def state(self) -> dict[str, Array]:
        """Copies of what is needed, one attribute after the other."""
        tables = self.tables
        parts = {name: tables.pool[_runs(*run)] for name, run in self._kept().items()}
        counts = {name: getattr(tables, name).copy() for name in ("learned", "n_edges", "n_codes")}
        return {f"bins_{name}": array for name, array in (parts | counts).items()}

    def _kept(self) -> dict[str, tuple[Any, Any]]:
        """Where in the pool values, edges and codes of all attributes begin, and how many there are."""
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
        """Replace everything by what a state holds, which `check_bins` has accepted."""
        counts = {name: packed[name].copy() for name in ("learned", "n_edges", "n_codes")}
        self.tables = _empty(counts["learned"].size)._replace(**counts)
        sizes = self._sizes()
        live = int(sizes.sum())
        self.tables.used[0] = live
        self.tables = self.tables._replace(pool=np.zeros(live), at=_one_after_the_other(sizes))
        for name, run in self._kept().items():
            self.tables.pool[_runs(*run)] = packed[name]


def _one_after_the_other(sizes: Ints) -> Ints:
    """Where blocks of these sizes begin; -1 where there is none."""
    firsts: Ints = np.where(sizes > 0, np.cumsum(sizes) - sizes, -1)
    return firsts


def _runs(firsts: Ints, counts: Ints) -> Ints:
    """The places first, first + 1, ... of each, one after the other."""
    before = np.cumsum(counts) - counts
    return np.repeat(firsts - before, counts) + np.arange(counts.sum())


def expected_bins() -> dict[str, ExpectedArray]:
    """Return the arrays of a state, of any number of attributes."""
    counts = {
        "learned": whole("numbers", low=0, high=_PAIRED_AFTER),
        "n_edges": whole("numbers", LAYOUTS, low=-1, high=np.diff(FIRST_EDGES)),
        "n_codes": whole("numbers", low=-1, high=CODES),
    }
    return counts | {name: real(f"{name} of numbers") for name in _PACKED}


def check_bins(arrays: Mapping[str, Array]) -> None:
    """Raise SnapshotError where the arrays of a state, which are as `expected_bins` has it, do not fit.

    A block has room for what so many values can have.
    """
    prefix = getattr(arrays, "prefix", "")
    learned, n_edges, n_codes = (arrays[name] for name in ("learned", "n_edges", "n_codes"))
    early = learned[:, np.newaxis] < np.array(_VALUES)
    reject(f"{prefix}n_edges", (n_edges >= 0) & early, "edges through more values than were learned")
    reject(f"{prefix}n_codes", n_codes > learned, "more codes than values were learned")
    for name, counts in zip(_PACKED, _counts(learned, n_edges, n_codes), strict=True):
        have, need = arrays[name].size, int(counts.sum())
        reject(f"{prefix}{name}", have != need, f"there are {have}, and {need} are counted")


def _counts(learned: Any, n_edges: Any, n_codes: Any) -> Iterator[Ints]:
    """How many values, edges and codes are kept."""
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
