"""Rows of columns, converted together, are the events that `event_of` makes of each row."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from streamnb.formats.column_events import ColumnEvents
from streamnb.formats.event_columns import CsvColumns, RowIds, encoded, event_of

COLUMNS = CsvColumns(missing=())


@st.composite
def tables(draw):
    """Return names of columns, and rows."""
    names = draw(st.lists(st.sampled_from(["id", "ts", "text", "label", "x", "y", 'a"b']), min_size=1, unique=True))  # fmt: skip
    return names, draw(st.lists(st.tuples(*map(cells_of, names)), max_size=5))


def cells_of(name):
    if name == "id":
        return st.sampled_from(["e1", "é"])
    if name == "ts":
        return st.none() | st.sampled_from([0, 1.5])
    return st.none() | st.sampled_from(["", "a", "\udcff"] if name in {"text", "label"} else ["", 0, [1.5]])


@given(table=tables(), has_content=st.booleans(), split=st.integers(0, 5))
def test_rows_that_are_converted_together_are_events_one_by_one(table, has_content, split):
    names, rows = table
    together = ColumnEvents(names, COLUMNS, RowIds("f", has_content=has_content))
    found = []
    for part in (rows[:split], rows[split:]):
        found += together.rows([[row[place] for row in part] for place in range(len(names))])
    ids, expected = RowIds("f", has_content=has_content), []
    for number, row in enumerate(rows):
        cells = {name: cell for name, cell in zip(names, row, strict=True) if cell is not None}
        made = "" if "id" in names else ids(number, encoded(cells))
        expected.append(encoded(event_of(cells, made, COLUMNS)))
    assert list(map(read, found)) == list(map(read, expected))


def read(raw):
    return json.loads(raw.decode(errors="surrogateescape"))
