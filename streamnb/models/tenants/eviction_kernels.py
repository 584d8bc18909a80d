"""Kernels that move models between shared tables (active) and blocks of words (cold).

A block, in words of eight bytes:

    checksum | words | events | tested | right | classes K | groups G | fields F | rows R
    bytes of long words A
    number of each class K | its weight K | number of each group's attribute G | totals G K | live G
    number of each field's attribute F | n F K | mean F K | M2 F K | table R K
    group of each row, four bytes each | cells, 16 bytes each | long words, padded with zeros

Classes, groups, fields and rows are in the order in which this model met them, as in a model of its own. The
numbers are indices of lists that all models share. The checksum is a sum of products modulo 2^64: it detects
damage, not malice.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from streamnb.kernels.array_types import Floats, Ints
from streamnb.kernels.intrinsics import load8, store8
from streamnb.kernels.jit import inlined, kernel
from streamnb.kernels.structs import struct_type
from streamnb.values.type_aliases import Array, Codes

CHECKSUM, WORDS, EVENTS, TESTED, RIGHT, CLASSES, GROUPS, FIELDS, ROWS, BYTES = range(10)
HEADER = 10
_CELL, _SHORT, _LONG = 16, 15, 255  # see `Vocabulary.cells`
_LENGTH = np.uint64(0x00FFFFFFFFFFFFFF)
_ABOVE_ZERO = np.int64(0x7FFFFFFFFFFFFFFF)
_MIX = np.int64(0x2545F4914F6CDD1D)


@struct_type
class TenantArrays(NamedTuple):
    """Tables that hold many models, each in its own slot.

    Attributes:
        weights, labels: int64[S, K], the weight and the number of each class of a slot.
        sizes: int64[S, 10], in the order of a block's first words; groups, fields, rows and bytes are counted
            when a model is evicted.
        group_slot, group_attribute, live: int64[G].
        totals: int64[G, K].
        field_slot, field_attribute: int64[F].
        n, mean, M2: [F, K].
        row_group: int32[R].
        table: int64[R, K].
        cells, arena: see `Vocabulary`.
        group_of, field_of: int32[S, attributes], the group or field of an attribute in a slot, or -1.
    """

    weights: Ints
    labels: Ints
    sizes: Ints
    group_slot: Ints
    group_attribute: Ints
    live: Ints
    totals: Ints
    field_slot: Ints
    field_attribute: Ints
    n: Ints
    mean: Floats
    M2: Floats
    row_group: Codes
    table: Ints
    cells: Array
    arena: Array
    group_of: Codes
    field_of: Codes


@struct_type
class TenantBuffers(NamedTuple):
    """Views of the same memory as integers, as reals, as integers of four bytes, and as bytes."""

    whole: Ints
    real: Floats
    half: Codes
    byte: Array


def words_of(memory: Ints) -> TenantBuffers:
    """Return the views of an array of words, with eight spare bytes after the last word in use."""
    return TenantBuffers(memory, memory.view(np.float64), memory.view(np.int32), memory.view(np.uint8))


def parts_of(K: Any, G: Any, F: Any, R: Any, A: Any) -> tuple[Any, ...]:
    """Return the offsets of the parts of a block, in words, and its end."""
    totals = HEADER + 2 * K + G
    fields = totals + G * K + G
    table = fields + F + 3 * F * K
    rows = table + R * K
    cells = rows + (R + 1) // 2
    arena = cells + 2 * R
    return HEADER + 2 * K, totals, fields, table, rows, cells, arena, arena + (A + 7) // 8


_parts = inlined(parts_of)


@inlined
def checksum(words: Any, at: int) -> Any:
    """Return the checksum of the block at `at`; -1 if its number of words is impossible."""
    n = words.whole[at + WORDS]
    if n < HEADER or at + n > words.whole.size:
        return np.int64(-1)
    total = np.int64(0)
    for i in range(at + WORDS, at + n):
        total = (total ^ words.whole[i]) * _MIX
        total ^= total >> 29
    return total & _ABOVE_ZERO


@kernel
def measure(loaded: Any, G: int, F: int, R: int) -> None:
    """Count the groups, fields, rows and bytes of each slot."""
    for s in range(loaded.sizes.shape[0]):
        for part in range(GROUPS, HEADER):
            loaded.sizes[s, part] = 0
    for g in range(G):
        loaded.sizes[loaded.group_slot[g], GROUPS] += 1
    for f in range(F):
        loaded.sizes[loaded.field_slot[f], FIELDS] += 1
    for r in range(R):
        s = loaded.group_slot[loaded.row_group[r]]
        loaded.sizes[s, ROWS] += 1
        if loaded.cells[_CELL * r + _SHORT] == _LONG:
            loaded.sizes[s, BYTES] += np.int64(load8(loaded.cells, np.int64(_CELL * r + 8)) & _LENGTH)


@inlined
def _write_heads(loaded: Any, at: Ints, next_: Ints, words: Any) -> None:
    """Write header and classes of each block, and set the offsets of its other parts."""
    for s in range(at.size):
        if at[s] < 0:
            continue
        size = loaded.sizes[s]
        K, A = size[CLASSES], size[BYTES]
        parts = _parts(K, size[GROUPS], size[FIELDS], size[ROWS], A)
        size[WORDS] = parts[7]
        for part in range(WORDS, HEADER):
            words.whole[at[s] + part] = size[part]
        if size[ROWS] > 0:  # zero the padding of parts that end within a word
            words.whole[at[s] + parts[5] - 1] = 0
        if A > 0:
            words.whole[at[s] + parts[7] - 1] = 0
        for k in range(K):
            words.whole[at[s] + HEADER + k] = loaded.labels[s, k]
            words.whole[at[s] + HEADER + K + k] = loaded.weights[s, k]
        next_[s, 0], next_[s, 1], next_[s, 2] = at[s] + parts[0], at[s] + parts[1], at[s] + parts[1]
        next_[s, 3], next_[s, 4] = at[s] + parts[2], at[s] + parts[2] + size[FIELDS]
        next_[s, 5], next_[s, 6] = at[s] + parts[3], 2 * (at[s] + parts[4])
        next_[s, 7], next_[s, 8], next_[s, 9] = 8 * (at[s] + parts[5]), 8 * (at[s] + parts[6]), 0
        next_[s, 2] += size[GROUPS] * K  # offset of `live`


@inlined
def _write_groups(loaded: Any, G: int, at: Ints, next_: Ints, local: Ints, words: Any) -> None:
    for g in range(G):
        s = loaded.group_slot[g]
        if at[s] < 0:
            continue
        local[g] = next_[s, 0] - (at[s] + HEADER + 2 * loaded.sizes[s, CLASSES])
        words.whole[next_[s, 0]] = loaded.group_attribute[g]
        words.whole[next_[s, 2]] = loaded.live[g]
        next_[s, 0] += 1
        next_[s, 2] += 1
        for k in range(loaded.sizes[s, CLASSES]):
            words.whole[next_[s, 1]] = loaded.totals[g, k]
            next_[s, 1] += 1


@inlined
def _write_fields(loaded: Any, F: int, at: Ints, next_: Ints, words: Any) -> None:
    for f in range(F):
        s = loaded.field_slot[f]
        if at[s] < 0:
            continue
        cells = loaded.sizes[s, FIELDS] * loaded.sizes[s, CLASSES]
        words.whole[next_[s, 3]] = loaded.field_attribute[f]
        next_[s, 3] += 1
        for k in range(loaded.sizes[s, CLASSES]):
            words.whole[next_[s, 4]] = loaded.n[f, k]
            words.real[next_[s, 4] + cells] = loaded.mean[f, k]
            words.real[next_[s, 4] + 2 * cells] = loaded.M2[f, k]
            next_[s, 4] += 1


@inlined
def _write_rows(loaded: Any, R: int, at: Ints, next_: Ints, local: Ints, words: Any) -> None:
    for r in range(R):
        g = loaded.row_group[r]
        s = loaded.group_slot[g]
        if at[s] < 0:
            continue
        words.half[next_[s, 6]] = local[g]
        next_[s, 6] += 1
        to = next_[s, 5]
        for k in range(loaded.sizes[s, CLASSES]):
            words.whole[to] = loaded.table[r, k]
            to += 1
        next_[s, 5] = to
        low, high = load8(loaded.cells, np.int64(_CELL * r)), load8(loaded.cells, np.int64(_CELL * r + 8))
        if loaded.cells[_CELL * r + _SHORT] == _LONG:
            begin, length = np.int64(low), np.int64(high & _LENGTH)
            for j in range(length):
                words.byte[next_[s, 8] + j] = loaded.arena[begin + j]
            low = np.uint64(next_[s, 9])
            next_[s, 8] += length
            next_[s, 9] += length
        store8(words.byte, next_[s, 7], low)
        store8(words.byte, next_[s, 7] + 8, high)
        next_[s, 7] += _CELL


@kernel
def serialize_tenant(
    loaded: Any, G: int, F: int, R: int, at: Ints, next_: Ints, local: Ints, words: Any
) -> None:
    """Write the model of each slot s as a block at ``at[s]``; slots with a negative offset are skipped.

    `next_`, int64[S, 10], and `local`, int64[G], are scratch: the offsets of the next group, field and row of
    a slot, and the number of each group in its model.
    """
    _write_heads(loaded, at, next_, words)
    _write_groups(loaded, G, at, next_, local, words)
    _write_fields(loaded, F, at, next_, words)
    _write_rows(loaded, R, at, next_, local, words)
    for s in range(at.size):
        if at[s] >= 0:
            words.whole[at[s]] = checksum(words, at[s])


@kernel
def deserialize_tenant(words: Any, at: Ints, slots: Ints, loaded: Any, used: Ints) -> Any:
    """Read the blocks at `at` into these slots; return the index of the first damaged block, or -1.

    `used`, int64[4], is the number of groups, fields, rows and bytes of long words before and after; there is
    capacity for them. A damaged block, and those after it, are not read.
    """
    for i in range(at.size):
        first, s = at[i], slots[i]
        if words.whole[first] != checksum(words, first):
            return i
        size = words.whole[first : first + HEADER]
        for part in range(HEADER):
            loaded.sizes[s, part] = size[part]
        K, G, F, R, A = size[CLASSES], size[GROUPS], size[FIELDS], size[ROWS], size[BYTES]
        parts = _parts(K, G, F, R, A)
        for k in range(K):
            loaded.labels[s, k] = words.whole[first + HEADER + k]
            loaded.weights[s, k] = words.whole[first + HEADER + K + k]
        for j in range(G):
            g, attribute = used[0] + j, words.whole[first + parts[0] + j]
            loaded.group_slot[g], loaded.group_attribute[g] = s, attribute
            loaded.group_of[s, attribute] = g
            loaded.live[g] = words.whole[first + parts[2] - G + j]
            for k in range(K):
                loaded.totals[g, k] = words.whole[first + parts[1] + j * K + k]
        for j in range(F):
            f, attribute = used[1] + j, words.whole[first + parts[2] + j]
            loaded.field_slot[f], loaded.field_attribute[f] = s, attribute
            loaded.field_of[s, attribute] = f
            for k in range(K):
                cell = first + parts[2] + F + j * K + k
                loaded.n[f, k] = words.whole[cell]
                loaded.mean[f, k] = words.real[cell + F * K]
                loaded.M2[f, k] = words.real[cell + 2 * F * K]
        for j in range(A):
            loaded.arena[used[3] + j] = words.byte[8 * (first + parts[6]) + j]
        for j in range(R):
            r, cell = used[2] + j, np.int64(8 * (first + parts[5]) + _CELL * j)
            loaded.row_group[r] = used[0] + words.half[2 * (first + parts[4]) + j]
            for k in range(K):
                loaded.table[r, k] = words.whole[first + parts[3] + j * K + k]
            low, high = load8(words.byte, cell), load8(words.byte, cell + 8)
            if words.byte[cell + _SHORT] == _LONG:
                low += np.uint64(used[3])
            store8(loaded.cells, np.int64(_CELL * r), low)
            store8(loaded.cells, np.int64(_CELL * r + 8), high)
        used[0] += G
        used[1] += F
        used[2] += R
        used[3] += A
    return -1


@kernel
def sealed(words: Any) -> None:
    """Write the checksum of a single block."""
    words.whole[0] = checksum(words, 0)


@inlined
def _fits(words: Any, at: int, end: int) -> bool:
    n = end - at
    if n < HEADER or words.whole[at + WORDS] != n or words.whole[at] != checksum(words, at):
        return False
    fits = True
    for part in range(EVENTS, HEADER):
        most = 1 << 62 if part < CLASSES else n if part < BYTES else 8 * n
        fits = fits and 0 <= words.whole[at + part] <= most
    size = words.whole[at : at + HEADER]
    parts = _parts(size[CLASSES], size[GROUPS], size[FIELDS], size[ROWS], size[BYTES])
    return bool(fits and parts[7] == n)


@inlined
def _numbers_exist(words: Any, at: int, classes: int, groups: int, fields: int) -> bool:
    size = words.whole[at : at + HEADER]
    K, G = size[CLASSES], size[GROUPS]
    parts = _parts(K, G, size[FIELDS], size[ROWS], size[BYTES])
    exist = True
    for k in range(K):
        exist = exist and 0 <= words.whole[at + HEADER + k] < classes
        exist = exist and words.whole[at + HEADER + K + k] >= 0
    for g in range(G):
        exist = exist and 0 <= words.whole[at + parts[0] + g] < groups
    for f in range(size[FIELDS]):
        exist = exist and 0 <= words.whole[at + parts[2] + f] < fields
    for r in range(size[ROWS]):
        exist = exist and 0 <= words.half[2 * (at + parts[4]) + r] < G
    return exist


@inlined
def _cells_hold(words: Any, at: int) -> bool:
    """Return whether each cell has a word, and long words are contiguous."""
    size = words.whole[at : at + HEADER]
    parts = _parts(size[CLASSES], size[GROUPS], size[FIELDS], size[ROWS], size[BYTES])
    holds, long = True, np.int64(0)
    for r in range(size[ROWS]):
        cell = np.int64(8 * (at + parts[5]) + _CELL * r)
        if words.byte[cell + _SHORT] == _LONG:
            begin, length = np.int64(load8(words.byte, cell)), np.int64(load8(words.byte, cell + 8) & _LENGTH)
            holds = holds and begin == long and _SHORT < length <= size[BYTES] - long
            long += length if holds else 0
        else:
            holds = holds and words.byte[cell + _SHORT] <= _SHORT
    return bool(holds and long == size[BYTES])


@kernel
def checked(words: Any, ends: Ints, groups: int, fields: int, weights: Ints) -> tuple[int, int]:
    """Return the events of all blocks and the first damaged block (or -1); add up `weights` by class."""
    events: Any = np.int64(0)
    for t in range(ends.size - 1):
        at, end = ends[t], ends[t + 1]
        if at == end:
            continue
        is_sound = _fits(words, at, end) and _numbers_exist(words, at, weights.size, groups, fields)
        if not (is_sound and _cells_hold(words, at)):
            return events, t
        events += words.whole[at + EVENTS]
        K = words.whole[at + CLASSES]
        for k in range(K):
            weights[words.whole[at + HEADER + k]] += words.whole[at + HEADER + K + k]
    return events, -1
