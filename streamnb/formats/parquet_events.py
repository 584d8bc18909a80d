r"""Rows of a Parquet file as event records, with the types of its columns: ``streamnb[parquet]``.

Each column is converted as a whole, by its Arrow type, and without pandas, which may be missing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from decimal import Decimal
from typing import Any, ClassVar
from uuid import UUID

from streamnb.errors import ConfigError, LogError
from streamnb.features.attributes import some_of
from streamnb.formats.column_events import ColumnEvents
from streamnb.formats.event_columns import (
    CsvColumns,
    RowIds,
    RowNote,
    check_header,
    hexadecimal_note,
    ignore_note,
    index_columns,
)
from streamnb.values.json_conversion import (
    PER_SECOND,
    bytes_text,
    date_time,
    decimal_number,
    name_text,
    time_of_day,
)
from streamnb.values.messages import Message

AT_ONCE = 4096
"""Rows that are converted at once."""
_DAY = 86_400
_FIRST, _END = -62_135_596_800, 253_402_300_800  # the years 1 to 9999, in seconds since the epoch
_NAMED = {bool, int, float, Decimal}
_SCALARS = {str, int, float, Decimal}


def parquet_events(
    source: Any,
    columns: CsvColumns,
    note: RowNote = ignore_note,
    ids: RowIds | None = None,
    settle_header: Callable[[Sequence[str]], object] = len,
) -> Iterator[tuple[bytes, float]]:
    """Yield each row's event, and the share of the rows read so far. Memory holds a group of rows.

    Args:
        source: the file, open for reading bytes.
        columns: roles of the columns, and the values that mean missing.
        note: called once for each column whose bytes are written as hexadecimal digits.
        ids: makes ids for rows without a column of ids.
        settle_header: called with the names of the columns.

    Raises:
        ConfigError: pyarrow is missing, or a configured column.
        LogError: the file is damaged or not Parquet, or lacks the required label column.
    """
    try:
        from pyarrow import ArrowException, parquet, types  # noqa: PLC0415  an extra
    except ImportError as error:
        raise ConfigError("reading Parquet needs pyarrow: pip install 'streamnb[parquet]'") from error
    number, ids = 0, ids or RowIds()
    try:
        # INT96 by default becomes 64 bits of nanoseconds, where years beyond 1677 to 2262 wrap around.
        file = parquet.ParquetFile(source, coerce_int96_timestamp_unit="us")
        names = file.schema_arrow.names
        settle_header(names)
        check_header(names, columns, "Parquet")
        left_out = index_left_out(names, columns, note)
        reader = ArrowColumns(types, columns, note)
        events = ColumnEvents(names, columns, ids, left_out)
        for batch in file.iter_batches(batch_size=AT_ONCE):
            cells = [reader.cells(name, batch.column(place)) for place, name in enumerate(names)]
            for raw in events.rows(cells):
                number += 1
                yield raw, number / file.metadata.num_rows
    except ArrowException as error:
        raise LogError(f"no Parquet that can be read, after row {number}: {error}") from error


def index_left_out(names: Sequence[str], columns: CsvColumns, note: RowNote) -> frozenset[str]:
    """Return the columns that hold the index of a data frame, which are no features, and note them."""
    left_out = frozenset(index_columns(names, (), columns))
    if left_out:
        text = f"read with {some_of(sorted(left_out))} left out, the index of a data frame (--id-column)"
        note(Message("reading-sniffed", text, findings=sorted(left_out)))
    return left_out


class ArrowColumns:
    """Converter of Arrow columns to JSON values, by a column's type and role.

    Args:
        types: pyarrow's module of that name.
        columns: roles of the columns, and the values that mean missing.
        note: see `parquet_events`.
    """

    def __init__(self, types: Any, columns: CsvColumns, note: RowNote) -> None:
        self._types, self._columns, self._note = types, columns, note
        self._names = {columns.id, columns.label, columns.text, *columns.strings}
        self._missing: set[Any] = {token for token in columns.missing if token}
        for token in columns.missing:
            with suppress(ValueError):
                self._missing.add(float(token))
        self._in_hex: set[str] = set()

    def cells(self, name: str, array: Any) -> list[Any]:
        """Return the cells of one column; None for missing values."""
        found = self._values(array, name)
        if self._missing:
            found = [None if self._is_missing(cell) else cell for cell in found]
        if name in self._names:
            if set(map(type, found)).isdisjoint(_NAMED):
                return found
            return [name_text(cell) if type(cell) in _NAMED else cell for cell in found]
        return _without_decimals(found)

    def _is_missing(self, cell: Any) -> bool:
        return type(cell) in _SCALARS and cell in self._missing

    def _values(self, array: Any, column: str) -> list[Any]:
        if hasattr(array, "storage"):
            return self._extension(array, column)
        for what, read in self._readers.items():
            if getattr(self._types, f"is_{what}")(array.type):
                return read(self, array, column)
        found: list[Any] = array.to_pylist()
        return found

    def _plain(self, array: Any, column: str) -> list[Any]:
        return _without_decimals(self._values(array, column))

    def _unit(self, kind: Any) -> tuple[int, int]:
        """Return the factor and the divisor that convert a time type's integers to seconds."""
        if self._types.is_date32(kind):
            return _DAY, 1
        return 1, PER_SECOND["ms" if self._types.is_date64(kind) else kind.unit]

    def _extension(self, array: Any, column: str) -> list[Any]:
        name, storage = array.type.extension_name, array.storage
        if name == "arrow.uuid":
            return [None if raw is None else str(UUID(bytes=raw)) for raw in storage.to_pylist()]
        return self._values(storage.cast("bool") if name == "arrow.bool8" else storage, column)

    def _dictionary(self, array: Any, column: str) -> list[Any]:
        return self._values(array.dictionary_decode(), column)

    def _floating(self, array: Any, _: str) -> list[Any]:
        # Every NaN and infinity makes the sum not finite; so does an overflow, rarely and harmlessly.
        found: list[Any] = array.to_pylist()
        if not array.null_count and math.isfinite(sum(found)):
            return found
        return [number if number is not None and math.isfinite(number) else None for number in found]

    def _date_time(self, array: Any, column: str) -> list[Any]:
        """Return date-times; event times beyond the year 9999 as seconds, which are refused."""
        step, unit = self._unit(array.type)
        is_ts = column == self._columns.ts
        return [
            None
            if count is None
            else count * step / unit
            if is_ts and not _FIRST <= count * step // unit < _END
            else date_time(count * step, unit)
            for count in _counts(array)
        ]

    def _time(self, array: Any, _: str) -> list[Any]:
        unit = PER_SECOND[array.type.unit]
        return [None if count is None else time_of_day(count, unit) for count in _counts(array)]

    def _duration(self, array: Any, _: str) -> list[Any]:
        unit = PER_SECOND[array.type.unit]
        return [None if count is None else count / unit for count in _counts(array)]

    def _string(self, array: Any, _: str) -> list[Any]:
        """Return strings, in which bytes that are not UTF-8 are lone surrogates; see `encoded`."""
        try:
            found: list[Any] = array.to_pylist()
        except UnicodeDecodeError:
            buffers = (scalar.as_buffer() for scalar in array)
            return [
                None if raw is None else raw.to_pybytes().decode(errors="surrogateescape") for raw in buffers
            ]
        if bytes not in set(map(type, found)):
            return found
        return [cell.decode(errors="surrogateescape") if type(cell) is bytes else cell for cell in found]

    def _binary(self, array: Any, column: str) -> list[Any]:
        if column == self._columns.text:
            return self._string(array, column)
        is_fixed = self._types.is_fixed_size_binary(array.type)
        given = array.to_pylist()
        found = [None if raw is None else bytes_text(raw, is_fixed=is_fixed) for raw in given]
        if column not in self._in_hex and (message := hexadecimal_note(column, found, given)):
            self._in_hex.add(column)
            self._note(message)
        return found

    def _struct(self, array: Any, column: str) -> list[Any]:
        kind = array.type
        names = [kind.field(place).name for place in range(kind.num_fields)]
        fields = [self._plain(field, column) for field in array.flatten()]
        present = array.is_valid().to_pylist()
        return [
            dict(zip(names, (field[row] for field in fields), strict=True)) if there else None
            for row, there in enumerate(present)
        ]

    def _map(self, array: Any, column: str) -> list[Any]:
        """Return maps as objects with string keys; of equal keys the last one counts, as in JSON."""
        return [
            None if pairs is None else {_key(key): value for key, value in map(dict.values, pairs)}
            for pairs in self._list(array, column)
        ]

    def _list(self, array: Any, column: str) -> list[Any]:
        inner = (scalar.values for scalar in array)
        return [None if values is None else self._plain(values, column) for values in inner]

    _readers: ClassVar[dict[str, Callable[[Any, Any, str], list[Any]]]] = {
        "dictionary": _dictionary,
        "floating": _floating,
        "string": _string,
        "large_string": _string,
        "string_view": _string,
        "date": _date_time,
        "timestamp": _date_time,
        "time": _time,
        "duration": _duration,
        "fixed_size_binary": _binary,
        "binary": _binary,
        "large_binary": _binary,
        "binary_view": _binary,
        "struct": _struct,
        "map": _map,
        "nested": _list,
    }
    """Converter by the end of a predicate's name in pyarrow.types, such as `is_date`."""


def _counts(array: Any) -> list[int | None]:
    """Return the integers with which Arrow stores times, dates or durations."""
    found: list[int | None] = array.view(f"int{array.type.bit_width}").to_pylist()
    return found


def _without_decimals(cells: list[Any]) -> list[Any]:
    if Decimal not in set(map(type, cells)):
        return cells
    return [decimal_number(cell) if type(cell) is Decimal else cell for cell in cells]


def _key(value: Any) -> str:
    return name_text(value) if type(value) in {str, *_NAMED} else str(value)
