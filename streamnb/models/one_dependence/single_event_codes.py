"""The values of a single event as codes of an estimator, by the tables of `batch_value_codes`."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from streamnb.kernels.array_types import Ints
from streamnb.kernels.jit import inlined, kernel
from streamnb.kernels.structs import struct_type
from streamnb.kernels.vector_kernels import fill
from streamnb.models.one_dependence.value_codes import MISSING, REST, SHIFT
from streamnb.values.attribute_kinds import NOMINAL

MAGNITUDES = 1 << 14
NOT_MET = -2
"""Entry of a value without a code."""
BY_ROW = -1
"""In place of a field."""


@struct_type
class CodeArrays(NamedTuple):
    """Tables from values to codes, as the kernel takes them; a value without a code has `NOT_MET`.

    Attributes:
        by_row: int16[rows].
        by_magnitude: int16[fields, 2^14].
        groups, fields: int64, the number of each attribute of the layout, or -1.
        is_full: True if no further attribute gets a number.
    """

    by_row: Any
    by_magnitude: Any
    groups: Ints
    fields: Ints
    is_full: bool

    @classmethod
    def none(cls) -> CodeArrays:
        """Return tables without values."""
        codes, numbers = np.zeros(0, dtype=np.int16), np.zeros(0, dtype=np.int64)
        return cls(codes, codes.reshape(0, MAGNITUDES), numbers, numbers, True)


@inlined
def _code_of_row(tables: CodeArrays, row: Any, adds: Any) -> int:
    if row < 0:
        return NOT_MET if adds else REST
    return int(tables.by_row[row]) if row < tables.by_row.size else NOT_MET


@inlined
def _code_of_magnitude(tables: CodeArrays, field: Any, place: Any, adds: Any) -> int:
    """Return a code; the table of an attribute has all of its codes."""
    if field >= tables.by_magnitude.shape[0]:
        return NOT_MET
    code = int(tables.by_magnitude[field, place])
    return REST if code == NOT_MET and not adds else code


@inlined
def _put_one(
    tables: CodeArrays, adds: Any, missing: Ints, codes: Any, number: Any, owner: Any, key: Any, code: int
) -> Any:
    """Set one code; return False if the attribute needs a number. A missing code is put on the list."""
    if number < 0:
        return not adds or tables.is_full
    codes[0, number] = code
    if code == NOT_MET:
        n = missing[-1, 0]
        missing[n, 0], missing[n, 1], missing[n, 2] = number, owner, key
        missing[-1, 0] = n + 1
    return True


@inlined
def code_items(batch: Any, kinds: Any, tables: CodeArrays, adds: Any, missing: Ints, codes: Any) -> Any:
    """Fill the codes of nominal values, see `code_one`; return False if an attribute needs a number."""
    fill(codes[0], MISSING)
    is_numbered = True
    for item in range(batch.event_items[0], batch.event_items[1]):
        group = batch.item_group[item]
        if kinds[group] == NOMINAL:
            row = np.int64(batch.rows[batch.item_rows[item]])
            code = _code_of_row(tables, row, adds)
            is_numbered &= _put_one(tables, adds, missing, codes, tables.groups[group], BY_ROW, row, code)
    return is_numbered


@kernel
def code_one(
    batch: Any, bits: Any, kinds: Any, tables: CodeArrays, adds: Any, missing: Ints, codes: Any
) -> Any:
    """Fill the codes (1, attributes) of the only event of a batch, as `CodeTables.encode` does.

    Return False if an attribute needs a number, or a value a code. Then `missing` (attributes + 1, 3) lists
    the values for `CodeTables.add`, and their number is in its last row, 0 before. `bits`: uint64, of the
    values.
    """
    is_numbered = code_items(batch, kinds, tables, adds, missing, codes)
    for v in range(batch.event_values[0], batch.event_values[1]):
        field = np.int64(batch.value_field[v])
        place = (np.int64(bits[v]) >> SHIFT) + MAGNITUDES // 2
        code = _code_of_magnitude(tables, field, place, adds)
        is_numbered &= _put_one(tables, adds, missing, codes, tables.fields[field], field, place, code)
    if not is_numbered:
        missing[-1, 0] = 0
    return is_numbered and missing[-1, 0] == 0
