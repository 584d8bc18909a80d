"""Rows of bytes joined from columns of pieces, without a Python object for each piece."""

from __future__ import annotations

from collections.abc import Sequence
from io import BytesIO
from itertools import accumulate
from typing import Any

import numpy as np

from streamnb.kernels.array_types import Ints
from streamnb.kernels.intrinsics import load8, store8
from streamnb.kernels.jit import inlined, kernel

_SPARE = bytes(8)
_EACH, _HIGH = np.uint64(0x0101010101010101), np.uint64(0x8080808080808080)
_QUOTE, _BACKSLASH, _COMMA = b'"\\,'
_LIST, _LIST_END, _OBJECT, _OBJECT_END = b"[]{}"


class JoinedColumns:
    """Columns of n rows. A cell is a run of bytes, its begin and end; a cell with begin -1 has none.

    Args:
        n: number of rows.
    """

    def __init__(self, n: int) -> None:
        self._n, self._size = n, 0
        self._sources: list[bytes] = []
        self._constant = b""
        self._prefixes: list[bytes] = []
        self._cells: list[Ints] = []

    def elements(self, array: bytes, width: int = 1) -> Ints:
        """Return the cells int64[2, width, n] of a JSON array without blanks, which has row after row."""
        found = np.empty((2, self._n * width), dtype=np.int64)
        _find_elements(np.frombuffer(array, dtype=np.uint8), found)
        found += self._stored(array)
        return found.reshape(2, self._n, width).transpose(0, 2, 1)

    def texts(self, texts: Sequence[bytes]) -> Ints:
        """Return the cells of m texts: int64[2, m]."""
        places = list(accumulate(map(len, texts), initial=0))
        return np.array([places[:-1], places[1:]], dtype=np.int64) + self._stored(b"".join(texts))

    def _stored(self, source: bytes) -> int:
        self._sources.append(source)
        self._size += len(source)
        return self._size - len(source)

    def constant(self, text: bytes) -> None:
        """Add bytes that all rows have."""
        self._constant += text

    def add(self, cells: Ints, prefixes: Sequence[bytes] = (b"",)) -> None:
        """Add columns, each with bytes that precede its cells; the first column has a cell in all rows."""
        first, *others = prefixes
        self._prefixes += [self._constant + first, *others]
        self._constant = b""
        self._cells.append(cells.reshape(2, len(prefixes), self._n))

    def rows(self) -> list[bytes]:
        """Return the rows."""
        self.add(np.zeros((2, self._n), dtype=np.int64))
        prefixes = self.texts(self._prefixes)
        cells = np.ascontiguousarray(np.concatenate(self._cells, axis=1))  # one layout, one kernel
        n_bytes = np.diff(prefixes, axis=0).sum() * self._n + (cells[1] - cells[0]).sum()
        source = np.frombuffer(b"".join([*self._sources, _SPARE]), dtype=np.uint8)
        out, lengths = np.empty(n_bytes + len(_SPARE), dtype=np.uint8), np.empty(self._n, dtype=np.int64)
        _join(source, prefixes, cells, out, lengths)
        return list(map(BytesIO(out.data).read, lengths.tolist()))  # half the time of slices


@inlined
def _is_in_number(word: Any) -> bool:
    """Return if eight bytes are from "-" to "?": outside strings, a JSON array has these in numbers alone."""
    from_minus, below_at = word + np.uint64(0x80 - 0x2D) * _EACH, word + np.uint64(0x80 - 0x40) * _EACH
    return bool((from_minus & ~below_at & ~word) & _HIGH == _HIGH)


@kernel
def _find_elements(array: Any, found: Any) -> None:
    """Fill the begins and ends of the elements of a JSON array."""
    at = 1
    for k in range(found.shape[1]):
        found[0, k] = at
        depth = 0
        while True:
            while at + 8 <= array.size and _is_in_number(load8(array, at)):
                at += 8
            byte = array[at]
            if byte == _QUOTE:
                at += 1
                while array[at] != _QUOTE:
                    at += 2 if array[at] == _BACKSLASH else 1
            elif byte in (_LIST, _OBJECT):
                depth += 1
            elif depth == 0 and byte in (_COMMA, _LIST_END):
                break
            elif byte in (_LIST_END, _OBJECT_END):
                depth -= 1
            at += 1
        found[1, k] = at
        at += 1


@inlined
def _copy(source: Any, start: int, stop: int, out: Any, end: int) -> int:
    for i in range(0, stop - start, 8):
        store8(out, end + i, load8(source, start + i))
    return end + stop - start


@kernel
def _join(source: Any, prefixes: Any, cells: Any, out: Any, lengths: Any) -> None:
    """Write the rows, and their lengths. All buffers have eight spare bytes."""
    at: Any = np.int64(0)
    for row in range(cells.shape[2]):
        start = at
        for column in range(cells.shape[1]):
            begin = cells[0, column, row]
            if begin >= 0:
                at = _copy(source, prefixes[0, column], prefixes[1, column], out, at)
                at = _copy(source, begin, cells[1, column, row], out, at)
        lengths[row] = at - start
