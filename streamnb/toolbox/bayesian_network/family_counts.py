"""Counts of a network: for each variable a table of (values of its parents) x (its values).

A count is int64 in units of 1/1024 example, so sums are exact in any order. Expected counts of events with
gaps are stored separately, in int64 units of 2^-30 example; a cell holds up to 2^63 units, or 8.6e9 examples.
Tables grow as values appear. No table may exceed a limit of cells; new values beyond it are ignored.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from streamnb.errors import SnapshotError
from streamnb.kernels.array_types import Ints
from streamnb.toolbox.bayesian_network.dag import Dag
from streamnb.toolbox.bayesian_network.network_kernels import NetworkArrays
from streamnb.values.parameter_checks import check_whole
from streamnb.values.state_validation import MOST, checked, counts, plain, reject, state_errors, whole
from streamnb.values.type_aliases import Array, Flags

_PLAIN = (str, bool, int, float)
FINE = 1 << 20
"""Number of units of expected counts in one unit of a count."""


class ValueCodes(dict[Any, int]):
    """Code by value; -1 for an unknown value, which is not added."""

    def __missing__(self, value: Any) -> int:
        return -1


class FamilyTables:
    """Counts of each variable and its parents, and the values of each variable.

    Args:
        dag: variables and their parents.
        declared: all values by variable number; the values of other variables are added as they appear.
        cells: maximum number of cells of a table.

    Raises:
        ValueError: if a declared table has more cells, or values are declared twice.
    """

    def __init__(self, dag: Dag, declared: Mapping[int, Sequence[Hashable]], cells: int) -> None:
        check_whole("cells", cells, 1)
        self.dag, self.cells = dag, cells
        self._codes = [ValueCodes() for _ in dag.names]
        self.is_open = np.array([v not in declared for v in range(len(dag))], dtype=np.bool_)
        for v, values in declared.items():
            self._codes[v] = ValueCodes({value: code for code, value in enumerate(values)})
            if len(self._codes[v]) < max(1, len(values)):
                raise ValueError(
                    f"values of {dag.names[v]!r}: expected one or more, all different: {values!r}"
                )
        for v in range(len(dag)):
            if (size := math.prod(max(1, self._size(u)) for u in self.family(v))) > cells:
                raise ValueError(f"the table of {dag.names[v]!r} has {size:,} cells, more than {cells:,}")
        capacity = [2 if self.is_open[v] else self._size(v) for v in range(len(dag))]
        self.shape = _shape(dag, capacity, self.is_open)
        self.fine = np.zeros(0, dtype=np.int64)  # in the layout of the counts; empty without expected counts
        self._derive()

    def family(self, v: int) -> tuple[int, ...]:
        """Return the axes of v's table: its parents, then v."""
        return (*self.dag.parents[v], v)

    def values(self, v: int) -> list[Any]:
        """Return the values of a variable by code: all declared values, or all that appeared."""
        return list(self._codes[v])

    def lookup(self, v: int) -> ValueCodes:
        """Return code by value, -1 if unknown; read-only."""
        return self._codes[v]

    def is_live(self, v: int) -> Flags:
        """Return True for each value that is declared or has a weight, bool[values]."""
        size = len(self._codes[v])
        return (self.shape.met[v, :size] > 0) | (not self.is_open[v])

    def recount(
        self,
        before: Iterable[tuple[int, tuple[int, ...], int]],
        after: Iterable[tuple[int, tuple[int, ...], int]],
    ) -> int:
        """Replace the expected counts of an event; return the change, in units of 2^-30 example."""
        change: dict[tuple[int, tuple[int, ...]], int] = {}
        for sign, parts in ((-1, before), (1, after)):
            for v, codes, weight in parts:
                change[v, codes] = change.get((v, codes), 0) + sign * weight
        for (v, codes), weight in change.items():
            if weight:
                self.expect(v, codes, weight)
        return sum(map(abs, change.values()))

    def live_values(self, v: int) -> list[Any]:
        """Return the values of a variable: declared, or with a positive weight."""
        return [value for value, is_live in zip(self.values(v), self.is_live(v), strict=True) if is_live]

    def is_known(self, v: int, code: int) -> bool:
        """Return True if the code belongs to a value that is declared or has a weight."""
        return code >= 0 and (not self.is_open[v] or bool(self.shape.met[v, code] > 0))

    def table(self, v: int) -> Ints:
        """Return the counts of a variable's table: a view, axes as of `family`, an entry for each code."""
        return self._codes_of(v, self.shape.counts)

    def weights(self, v: int) -> Array:
        """Return counts plus expected counts, in units: float64 if there are expected counts, else int64."""
        if not self.fine.size:
            return self.table(v)
        return self.table(v) + self._codes_of(v, self.fine) / FINE

    def expect(self, v: int, codes: Sequence[int], weight: int) -> None:
        """Add to the expected count of one cell, in units of 2^-30, with codes in the order of `family`."""
        if not self.fine.size:
            self.fine = np.zeros_like(self.shape.counts)
        self.whole_table(v, self.fine)[tuple(codes)] += weight

    @property
    def n_bytes(self) -> int:
        """Memory of the tables, bytes, spare capacity included."""
        shape = self.shape
        return sum(array.nbytes for array in (shape.counts, shape.totals, shape.met, self.fine))

    def admits(self, v: int) -> bool:
        """Return True if a variable can get another value: none are declared, and no table gets too large."""
        if not self.is_open[v]:
            return False
        for child in (v, *self.dag.children[v]):
            rest = math.prod(max(1, self._size(u)) for u in self.family(child) if u != v)
            if rest * (self._size(v) + 1) > self.cells:
                return False
        return True

    def code(self, v: int, value: Any) -> int:
        """Return the code of a new value, or -1 if the variable can have no more values."""
        if not self.admits(v):
            return -1
        codes = self._codes[v]
        if len(codes) == self.shape.capacity[v]:
            capacity = self.shape.capacity.tolist()
            capacity[v] += max(2, capacity[v] // 4)
            self._reserve(capacity)
        return codes.setdefault(value, len(codes))

    def meet(self, codes: Sequence[int], weight: int) -> None:
        """Count appearances of values, or remove them if `weight` is negative; the tables stay unchanged."""
        for v, code in enumerate(codes):
            if code >= 0:
                self.shape.met[v, code] += weight
                self.shape.live[v] = np.count_nonzero(self.is_live(v))

    def state(self) -> tuple[dict[str, Any], dict[str, Ints]]:
        """Return values and counts. Raises TypeError for names and values that JSON cannot hold."""
        variables = [
            {
                "name": plain(self.dag.names[v]),
                "parents": [plain(self.dag.names[u]) for u in self.dag.parents[v]],
                "values": [plain(value) for value in self._codes[v]],
            }
            for v in range(len(self.dag))
        ]
        tables = [self.table(v).ravel() for v in range(len(self.dag))]
        met = [self.shape.met[v, : len(codes)] for v, codes in enumerate(self._codes)]
        empty = np.zeros(0, dtype=np.int64)
        arrays = {"counts": np.concatenate([empty, *tables]), "met": np.concatenate([empty, *met])}
        if self.fine.any():
            fine = [self._codes_of(v, self.fine).ravel() for v in range(len(self.dag))]
            arrays["fine"] = np.concatenate([empty, *fine])
        return {"variables": variables}, arrays

    def load_state(self, meta: Mapping[str, Any], arrays: Mapping[str, Array]) -> None:
        """Replace all counts by a `state`. Raises SnapshotError, and changes nothing, if it is invalid."""
        with state_errors("a network"):
            codes = [self._read_values(v, one) for v, one in enumerate(meta["variables"])]
            sizes = [[len(codes[u]) for u in self.family(v)] for v in range(len(codes))]
        cells = sum(map(math.prod, sizes))
        expected = {"counts": counts(cells), "met": counts(sum(map(len, codes)))}
        if "fine" in arrays:
            expected["fine"] = whole(cells, low=-MOST, high=MOST)
        found = checked(arrays, expected)
        fine = found.get("fine", np.zeros(cells, dtype=np.int64))
        for name in ("counts", "met"):
            reject(name, found[name].sum(dtype=np.float64) > MOST, "counts whose sum overflows")
        reject("fine", found["counts"] + fine / FINE < 0.0, "a sum with the expected count is negative")
        sums = [np.abs(part).sum(dtype=np.float64) for part in _cut(fine, sizes)]
        reject("fine", max(sums, default=0.0) > MOST, "expected counts whose sum overflows")
        if len(codes) != len(self.dag) or max(map(math.prod, sizes), default=0) > self.cells:
            raise SnapshotError("the state belongs to a network with other variables, or with more cells")
        self._codes = codes
        capacity = [max(2, len(c)) if self.is_open[v] else len(c) for v, c in enumerate(codes)]
        self.shape = _shape(self.dag, capacity, self.is_open)
        for v, part in enumerate(_cut(found["counts"], sizes)):
            self.table(v)[...] = part.reshape(sizes[v])
        self.fine = np.zeros_like(self.shape.counts) if fine.any() else fine[:0]
        for v, part in enumerate(_cut(fine, sizes) if fine.any() else ()):
            self._codes_of(v, self.fine)[...] = part.reshape(sizes[v])
        for v, part in enumerate(_cut(found["met"], [[len(c)] for c in codes])):
            self.shape.met[v, : part.size] = part
        self._derive()

    def _size(self, v: int) -> int:
        return len(self._codes[v])

    def whole_table(self, v: int, tables: Any = None) -> Any:
        """Return a view of a table with spare capacity: of the counts, or of an array in the same layout."""
        capacity = [int(self.shape.capacity[u]) for u in self.family(v)]
        first = int(self.shape.offset[v])
        tables = self.shape.counts if tables is None else tables
        return tables[first : first + math.prod(capacity)].reshape(capacity)

    def _codes_of(self, v: int, tables: Ints) -> Ints:
        whole: Ints = self.whole_table(v, tables)
        return whole[tuple(slice(len(self._codes[u])) for u in self.family(v))]

    def _read_values(self, v: int, one: Mapping[str, Any]) -> ValueCodes:
        name, parents = self.dag.names[v], [self.dag.names[u] for u in self.dag.parents[v]]
        if (one["name"], one["parents"]) != (name, parents):
            raise SnapshotError(f"a state of {one['name']!r} with the parents {one['parents']}, not {name!r}")
        values = one["values"]
        codes = ValueCodes({value: code for code, value in enumerate(values)})
        is_plain = isinstance(values, list) and all(isinstance(value, _PLAIN) for value in values)
        if not is_plain or len(codes) < len(values):
            raise SnapshotError(f"expected values of {name!r}, all different, found {values!r}")
        if not self.is_open[v] and values != self.values(v):
            raise SnapshotError(f"a state of {name!r} with the values {values}, not {self.values(v)}")
        return codes

    def _reserve(self, capacity: Sequence[int]) -> None:
        every = range(len(self.dag))
        tables, met = [self.whole_table(v) for v in every], self.shape.met
        fine = [self.whole_table(v, self.fine) for v in every] if self.fine.size else []
        self.shape = _shape(self.dag, capacity, self.is_open)
        self.fine = np.zeros_like(self.shape.counts) if fine else self.fine
        for into, of in ((self.shape.counts, tables), (self.fine, fine)):
            for v, table in enumerate(of):
                self.whole_table(v, into)[tuple(slice(n) for n in table.shape)] = table
        self.shape.met[:, : met.shape[1]] = met
        self._derive()

    def _derive(self) -> None:
        for v in range(len(self.dag)):
            sums = self.whole_table(v).sum(axis=-1).ravel()
            first = int(self.shape.first_row[v])
            self.shape.totals[first : first + sums.size] = sums
            self.shape.live[v] = np.count_nonzero(self.is_live(v))


def _shape(dag: Dag, capacity: Sequence[int], is_open: Flags) -> NetworkArrays:
    rows = [math.prod(capacity[u] for u in dag.parents[v]) for v in range(len(dag))]
    cells = [count * capacity[v] for v, count in enumerate(rows)]
    behind = (parents[i + 1 :] for parents in dag.parents for i in range(len(parents)))
    strides = [math.prod(capacity[u] for u in parents) for parents in behind]
    return NetworkArrays(
        counts=np.zeros(sum(cells), dtype=np.int64),
        totals=np.zeros(sum(rows), dtype=np.int64),
        met=np.zeros((len(dag), max(capacity, default=0)), dtype=np.int64),
        live=np.zeros(len(dag), dtype=np.int64),
        offset=_starts(cells)[:-1],
        first_row=_starts(rows)[:-1],
        capacity=np.array(capacity, dtype=np.int64),
        starts=_starts([len(parents) for parents in dag.parents]),
        parent=np.array([u for parents in dag.parents for u in parents], dtype=np.int64),
        stride=np.array(strides, dtype=np.int64),
        downhill=np.array(dag.order[::-1], dtype=np.int64),
        child_starts=_starts([len(children) for children in dag.children]),
        child=np.array([c for children in dag.children for c in children], dtype=np.int64),
        is_open=is_open,
    )


def _starts(lengths: Sequence[int]) -> Ints:
    return np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)]).astype(np.int64)


def _cut(array: Ints, sizes: Sequence[Sequence[int]]) -> Iterator[Ints]:
    ends = _starts([math.prod(size) for size in sizes]).tolist()
    return (array[first:last] for first, last in pairwise(ends))
