"""Cells that are names, but are read as numbers, are noted once with what is lost, and kept where declared."""

from __future__ import annotations

import json

import pytest

from streamnb.formats.event_columns import CsvColumns
from streamnb.formats.event_csv import rows_to_events

FRACTIONS = [f"{n / 8}" for n in range(50)]
CASES = [  # cells, what is noted, what a nominal attribute makes of the cell that is noted
    (["00501", "501"], "00501 is read as the number 501", "00501"),
    (["01.10", "12.20"], "01.10 is read as the number 1.1", "01.10"),
    (["0A1F", "33C2", "05E3", "7B"], "05E3 is read as the number 5000", "05E3"),
    (["00E1", "0AE1"], "00E1 is read as the number 0", "00E1"),
    (["12E5", "13E5"], "12E5 is read as the number 1200000", "12E5"),
    (["1E5", "A1", "B7"], "1E5 is read as the number 100000, next to A1", "1E5"),
    (["1E5", "3E4", "2.5E3", "A", "17"], None, "1E5"),
    (["1e+05", "2.5e5", "12e-3"], None, 100000.0),
    (["+4930123456", "+4940123456"], "+4930123456 is read as the number 4930123456", "+4930123456"),
    (["+1", "+250000"], None, 1),
    (["1.9", "1.10", "1.1"], "1.10 is read as the number 1.1, as 1.1 is", "1.10"),
    (["1.10", "1.9", "1.100"], "1.100 is read as the number 1.1, as 1.10 is", "1.100"),
    (["1.10", "1.90", "2.00"], None, "1.10"),
    (["1.0", "2.0", "1", "0.5"], None, 1.0),
    (["1.9", "1.10.1", "2.0"], "1.9 is read as the number 1.9, next to 1.10.1", 1.9),
    (["1.9.0", "1.10.1"], None, "1.9.0"),
    (["767", "6.040", "1.234.567"], None, 767),
    (["7", "2.0.1-rc1"], None, 7),
    (FRACTIONS, None, 0.0),
]


def read(cells, **columns):
    """The events, and the notes; a column of constant fractions must never be noted."""
    notes = []
    lines = ["id;label;x;y\n", *(f"{n};a;{cell};0.50\n" for n, cell in enumerate(cells))]
    raws = list(rows_to_events(lines, CsvColumns(delimiter=";", **columns), notes.append))
    return [json.loads(raw)["features"] for raw in raws], notes


@pytest.mark.parametrize(("cells", "noted", "kept"), CASES)
def test_a_name_that_is_read_as_a_number_is_noted_once_and_kept_where_it_is_declared(cells, noted, kept):
    expected = [] if noted is None else [noted]
    for n in (1, 30, 700):
        told = [note.removeprefix("$.features.x: ").partition(";")[0] for note in read(cells * n)[1]]
        assert told == expected
    assert all(
        note.endswith('kind = "nominal" in [[attributes]] keeps what is written') for note in read(cells)[1]
    )
    cell = cells[0] if noted is None else noted.partition(" ")[0]
    events, notes = read(cells, names=frozenset("x"))
    value = events[cells.index(cell)]["x"]
    assert (type(value), value, notes) == (type(kept), kept, [])
    assert (read(cells, numbers=frozenset("x"))[1], read(cells, strings=frozenset("x"))[1]) == ([], [])


def test_a_name_of_the_first_thousand_rows_is_noted_when_they_are_read():
    notes = []
    rows = rows_to_events(["id,x,y\n", *(f"e{n},00{n},1\n" for n in range(1500))], CsvColumns(), notes.append)
    assert [(next(rows), len(notes))[1] for _ in range(1001)] == [0] * 999 + [1, 1]


def test_a_name_of_a_later_row_is_noted_at_the_end():
    cells = ["1.1", *["7.5"] * 1999, "1.10", *["7.5"] * 999]
    assert [note.partition(";")[0] for note in read(cells)[1]] == [
        "$.features.x: 1.10 is read as the number 1.1, as 1.1 is"
    ]


@pytest.mark.parametrize("late", ["1.10", "007", "12E5", "+4930123456"])
def test_later_rows_are_sampled(late):
    cells = ["1.1", *["7.5"] * 2999]
    cells[1510] = late
    assert len(read(cells)[1]) == 1
    assert read(["1.1", *["7.5"] * 2999])[1] == []


def test_with_a_decimal_comma_its_fractions_are_looked_at():
    assert "1,10 is read as the number 1.1, as 1,1 is" in read(["1,10", "1,1"], decimal=",")[1][0]
    (kept, _), notes = read(["1,10", "1,1"], decimal=",", names=frozenset("x"))
    assert (kept["x"], notes) == ("1,10", [])
