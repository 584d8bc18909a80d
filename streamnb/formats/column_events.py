"""Columns of typed values -> raw events, many rows at once: for Parquet, Arrow and Avro."""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from itertools import repeat
from typing import Any

import msgspec

from streamnb.formats.event_columns import CsvColumns, Row, RowIds, encoded, event_of

_encode_lines = msgspec.json.Encoder().encode_lines


class _Event(msgspec.Struct, omit_defaults=True, gc=False):
    id: Any
    ts: Any = None
    text: Any = None
    features: Any = None
    label: Any = None


class ColumnEvents:
    """Converter of columns to raw events; a row becomes what `event_of` makes of its cells.

    Rows are structs of a type made for the columns, which omits missing cells as it is encoded.

    Args:
        names: the columns.
        columns: their roles.
        ids: makes ids for rows without a column of ids.
        left_out: columns that are not read, without a role.
    """

    def __init__(
        self, names: Sequence[str], columns: CsvColumns, ids: RowIds, left_out: Container[str] = ()
    ) -> None:
        self._ids, self._n = ids, 0
        self._names, self._columns = list(names), msgspec.structs.replace(columns, missing=())
        in_roles = {columns.id, columns.ts, columns.text, columns.label}
        self._kept = [place for place, name in enumerate(names) if name not in left_out]
        self._places = [place for place in self._kept if names[place] not in in_roles]
        self._features = _struct_of([names[place] for place in self._places])
        self._row = _struct_of([names[place] for place in self._kept])

    def rows(self, cells: Sequence[Sequence[Any]]) -> list[bytes]:
        """Return the events of the next rows.

        Args:
            cells: the cells of each column; None if missing.
        """
        features = [cells[place] for place in self._places]
        columns, n = self._columns, len(cells[0]) if cells else 0
        if self._features is None and features:
            return self._one_by_one(cells)
        found: Row = dict(zip(self._names, cells, strict=True))
        ids = found[columns.id] if columns.id in found else self._made_ids(cells, n)
        texts, labels, times = (
            _without_empty(found.get(role, ())) or repeat(None, n)
            for role in (columns.text, columns.label, columns.ts)
        )
        values: Iterable[Any] = map(self._features, *features) if self._features else repeat({}, n)
        if all(None in column for column in features):  # a row may have no feature
            values, texts, labels = [*values], [*texts], [*labels]
            empty = (None,) * len(features)
            rows = zip(*features, strict=True) if features else repeat(empty, n)
            for place, row in enumerate(rows):
                if row == empty and (texts[place] or not labels[place]):  # else it would be a label record
                    values[place] = None
        return _lines([*map(_Event, ids, times, texts, values, labels)])

    def _made_ids(self, cells: Sequence[Sequence[Any]], n: int) -> list[str]:
        numbers = range(self._n, self._n + n)
        self._n += n
        if not self._ids.has_content:
            return [str(number) for number in numbers]
        rows: Iterable[bytes] = repeat(b"", n)
        if self._row is not None:
            rows = _lines(list(map(self._row, *(cells[place] for place in self._kept))))
        return [self._ids(number, row) for number, row in zip(numbers, rows, strict=True)]

    def _one_by_one(self, cells: Sequence[Sequence[Any]]) -> list[bytes]:
        events = []
        names = [self._names[place] for place in self._kept]
        for row in zip(*(cells[place] for place in self._kept), strict=True):
            pairs = zip(names, row, strict=True)
            found: Row = {name: cell for name, cell in pairs if cell is not None or name == self._columns.id}
            made = ""
            if self._columns.id not in found:
                content = encoded(found) if self._ids.has_content else b""
                made = self._ids(self._n, content)
                self._n += 1
            events.append(encoded(event_of(found, made, self._columns)))
        return events


def _without_empty(cells: Sequence[Any]) -> Sequence[Any]:
    return [None if cell == "" else cell for cell in cells] if "" in cells else cells


def _struct_of(names: Sequence[str]) -> type[msgspec.Struct] | None:
    """Return a type of structs with these names; None if there are none, or JSON would escape one."""
    fields: list[tuple[str, Any, Any]] = [(f"f{n}", Any, None) for n in range(len(names))]
    renamed = {field[0]: name for field, name in zip(fields, names, strict=True)}
    try:
        return (
            msgspec.defstruct("Row", fields, rename=renamed, omit_defaults=True, gc=False) if names else None
        )
    except ValueError:
        return None


def _lines(records: Sequence[Any]) -> list[bytes]:
    try:
        return _encode_lines(records).split(b"\n")[:-1]
    except UnicodeEncodeError:
        return [encoded(msgspec.to_builtins(record)) for record in records]
