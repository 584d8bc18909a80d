"""What a cell becomes, by the way in which it comes: one list of cases, and the table of docs/formats.md.

`python -m tests.laws.cells --write` renders the table into the page; tests/laws/test_cells.py checks each case by
writing a file or a data frame and reading it, and that the page is what the cases give.
"""

from __future__ import annotations

import csv
import io
import json
import re
import sys
from collections.abc import Mapping
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa
from pyarrow import parquet

from streamnb import NaiveBayes
from streamnb.errors import MalformedEvent
from streamnb.features.data_frames import rows_of
from streamnb.formats.codec import decode_event
from streamnb.formats.event_columns import CsvColumns
from streamnb.formats.event_files import read_events
from streamnb.formats.event_schema import EventSchema
from streamnb.values.number_ranges import is_missing

PAGE = Path(__file__).parents[2] / "docs" / "formats.md"
TABLE = re.compile(r"(?<=<!-- cells -->\n\n).*?(?=\n<!-- end of cells -->)", re.DOTALL)
ROLES = ("feature", "id", "label", "ts")


class Case(NamedTuple):
    """A cell, and what becomes of it in each role; of a data frame, which has no ids and times, in two.

        Attributes:
            cell: how the table shows it.        given: text of CSV or JSON, an array of Arrow or a column of pandas, whose first value it is; a tuple has
                several, which become the same.
    feature, id, label, ts: what the event holds then, see `shown`.
            columns: how the file is read.
    """

    cell: str
    given: Any
    feature: str
    id: str = ""
    label: str = ""
    ts: str = ""
    columns: Mapping[str, Any] = MappingProxyType({})

    def each(self) -> list[Case]:
        """A case for each that is given."""
        return [self._replace(given=one) for one in self.given] if type(self.given) is tuple else [self]


def shown(value: Any) -> str:
    """A value of an event: a number, a boolean, a string in quotes; or that there is none."""
    if value is None:
        return "missing"
    if isinstance(value, bool | np.bool_):
        return str(value).lower()
    number = value.item() if isinstance(value, np.generic) else value
    return f'"{value}"' if type(value) is str else f"{number!r}".removesuffix(".0")


def held(raw: bytes, role: str) -> str:
    """What the event of a record holds in a role, or why there is no event."""
    try:
        event = decode_event(raw, EventSchema())
    except MalformedEvent as error:
        return f"dead letter: {error.reason}"
    return shown(event.x.get("c") if role == "feature" else getattr(event, role))


def _columns_with(role: str, given: Any) -> dict[str, Any]:
    """A table of one row, which is an event whatever is given in the role."""
    name = "c" if role == "feature" else role
    return {"id": "7", "text": "t"} | {name: given}


def by_table(folder: Path, ending: str, case: Case, role: str) -> str:
    """Write CSV or TSV, and read it."""
    columns = _columns_with(role, case.given)
    file = io.StringIO()
    if ending == ".csv":
        csv.writer(file).writerows([columns.keys(), columns.values()])
    else:
        file.write("\t".join(columns) + "\n" + "\t".join(columns.values()) + "\n")
    path = folder / f"cells{ending}"
    path.write_text(file.getvalue())
    (raw,) = read_events(path, CsvColumns(**case.columns))
    return held(raw, role)


def by_json(folder: Path, case: Case, role: str) -> str:
    """Write JSON lines, and read them."""
    cell = f'"features":{{"c":{case.given}}}' if role == "feature" else f'"{role}":{case.given}'
    event_id = "" if role == "id" else '"id":"7",'
    path = folder / "cells.jsonl"
    path.write_text(f'{{{event_id}"text":"t",{cell}}}\n')
    (raw,) = read_events(path)
    return held(raw, role)


def by_parquet(folder: Path, case: Case, role: str) -> str:
    """Write Parquet, and read it."""
    path = folder / "cells.parquet"
    columns = {
        name: cell if isinstance(cell, pa.Array | pa.ExtensionArray) else [cell]
        for name, cell in _columns_with(role, case.given).items()
    }
    parquet.write_table(pa.table(columns), path)
    (raw,) = read_events(path, CsvColumns(**case.columns))
    return held(raw, role)


def by_frame(case: Case, role: str) -> str:
    """Let a classifier learn a data frame, and check that it learned the same as from the event."""
    model = NaiveBayes()
    if role == "label":
        model.learn_many(pd.DataFrame({"c": ["x"]}), pd.Series(case.given))
        return shown(next(iter(model.classes), None))
    frame, of_event = pd.DataFrame({"c": case.given}), NaiveBayes()
    row = {name: cell for name, cell in rows_of(frame)[0].items() if not is_missing(cell)}
    raw = json.dumps({"id": "7", "text": "t", "features": row}).encode()
    model.learn_many(frame, ["a"])
    of_event.learn_one(
        {name: cell for name, cell in decode_event(raw, EventSchema()).x.items() if name == "c"}, "a"
    )
    assert model.digest() == of_event.digest()
    return held(raw, role)


def _wrong(n: int = 1) -> list[str]:
    return ["dead letter: wrong-type"] * n


def _far() -> str:
    return "dead letter: out-of-range"


TABLES = [
    Case("3", "3", "3", '"3"', '"3"', "3"),
    Case("1.0", "1.0", "1", '"1.0"', '"1"', "1"),
    Case("007", "007", "7", '"007"', '"007"', "7"),
    Case("-1.5e3", "-1.5e3", "-1500", '"-1.5e3"', '"-1.5e3"', "-1500"),
    Case("1.010,44", "1.010,44", '"1.010,44"', '"1.010,44"', '"1.010,44"', *_wrong()),
    Case("1.010,44", "1.010,44", "1010.44", '"1.010,44"', '"1.010,44"', "1010.44", {"decimal": ",", "thousands": "."}),
    Case("1.5", "1.5", '"1.5"', '"1.5"', '"1.5"', "1.5", {"decimal": ","}),
    Case("1234567890123456789", "1234567890123456789", *['"1234567890123456789"'] * 3, _far()),
    Case("NaN", "NaN", '"NaN"', '"NaN"', '"NaN"', *_wrong()),
    Case("1e400", "1e400", '"1e400"', '"1e400"', '"1e400"', *_wrong()),
    Case("true", "true", "true", '"true"', '"true"', *_wrong()),
    Case("True", "True", "true", '"True"', '"true"', *_wrong()),
    Case("yes", "yes", '"yes"', '"yes"', '"yes"', *_wrong()),
    Case("empty", "", "missing", _far(), "missing", "missing"),
    Case("NA", "NA", '"NA"', '"NA"', '"NA"', *_wrong()),
    Case("NA", "NA", "missing", _far(), "missing", "missing", {"missing": ("", "NA")}),
    Case("-999", "-999", "missing", _far(), "missing", "missing", {"missing": ("", "-999")}),
    Case("2026-01-02T03:04:05Z", "2026-01-02T03:04:05Z", *['"2026-01-02T03:04:05Z"'] * 3, "1767323045"),
    Case("2026-01-02", "2026-01-02", *['"2026-01-02"'] * 3, *_wrong()),
]  # fmt: skip

JSON = [
    Case("3", "3", "3", '"3"', '"3"', "3"),
    Case("1.0", "1.0", "1", '"1"', '"1"', "1"),
    Case(
        "1234567890123456789",
        "1234567890123456789",
        "1.2345678901234568e+18",
        *['"1234567890123456789"'] * 2,
        _far(),
    ),
    Case("1e400", "1e400", *[_far()] * 4),
    Case("true", "true", "true", '"true"', '"true"', *_wrong()),
    Case('"3"', '"3"', '"3"', '"3"', '"3"', *_wrong()),
    Case('"true"', '"true"', '"true"', '"true"', '"true"', *_wrong()),
    Case('""', '""', '""', _far(), _far(), *_wrong()),
    Case("null", "null", "missing", "dead letter: missing", "missing", "missing"),
    Case("[1], {}", ("[1]", "{}"), *_wrong(4)),
    Case('"2026-01-02T03:04:05Z"', '"2026-01-02T03:04:05Z"', *['"2026-01-02T03:04:05Z"'] * 3, "1767323045"),
    Case('"2026-01-02"', '"2026-01-02"', *['"2026-01-02"'] * 3, *_wrong()),
]

_DAY, _MOMENT = '"2026-01-02T00:00:00+00:00"', '"2026-01-02T03:04:05+00:00"'
_UUID = '"00010203-0405-0607-0809-0a0b0c0d0e0f"'
_EXACT = '"2026-01-02T03:04:05.678901234+00:00"'
_LATE = '"+12015-05-01T11:33:20+00:00"'

DECIMALS = (pa.decimal128(5, 2), pa.decimal256(60, 3))
STRINGS = (
    *(pa.array(["a"], kind) for kind in (pa.string(), pa.large_string(), pa.string_view())),
    pa.array(["a"]).dictionary_encode(),
)
NESTED = (pa.array([[1]]), pa.array([{"a": 1}]), pa.array([[("a", 1)]], pa.map_(pa.string(), pa.int8())))

PARQUET = [
    Case("integer 3", tuple(pa.array([3], kind) for kind in (pa.int8(), pa.int64(), pa.uint64())), "3", '"3"', '"3"', "3"),
    Case("integer 0", pa.array([0]), "0", '"0"', '"0"', "0"),
    Case("integer 1234567890123456789", pa.array([1234567890123456789]), "1.2345678901234568e+18", *['"1234567890123456789"'] * 2, _far()),
    Case("double 1.0", pa.array([1.0]), "1", '"1"', '"1"', "1"),
    Case("half float 1.5", pa.array([np.float16(1.5)], pa.float16()), "1.5", '"1.5"', '"1.5"', "1.5"),
    Case("NaN, infinity", (pa.array([np.nan]), pa.array([-np.inf])), "missing", "dead letter: missing", "missing", "missing"),
    Case("double -999.0", pa.array([-999.0]), "missing", "dead letter: missing", "missing", "missing", {"missing": ("", "-999")}),
    Case("decimal 1.50", tuple(pa.array([Decimal("1.50")], kind) for kind in DECIMALS), "1.5", '"1.5"', '"1.5"', "1.5"),
    Case(
        "decimal 12345678901234567891",
        pa.array([Decimal(12345678901234567891)], pa.decimal128(20, 0)),
        "1.2345678901234567e+19",
        *['"12345678901234567891"'] * 2,
        _far(),
    ),
    Case("boolean true", pa.array([True]), "true", '"true"', '"true"', *_wrong()),
    Case("string 3", pa.array(["3"]), '"3"', '"3"', '"3"', *_wrong()),
    Case("string, large, view or dictionary a", STRINGS, '"a"', '"a"', '"a"', *_wrong()),
    Case("empty string", pa.array([""]), '""', _far(), "missing", "missing"),
    Case("string that is not UTF-8", pa.array([b"\xff"]).view(pa.string()), *["dead letter: invalid-utf8"] * 4),
    Case(
        "null",
        (pa.array([None], pa.string()), pa.array([None], pa.int8()), pa.array([None])),
        "missing",
        "dead letter: missing",
        "missing",
        "missing",
    ),
    Case("date32, date64", tuple(pa.array([date(2026, 1, 2)], kind) for kind in (pa.date32(), pa.date64())), _DAY, _DAY, _DAY, "1767312000"),
    Case("timestamp", pa.array([1767323045000000], pa.timestamp("us")), _MOMENT, _MOMENT, _MOMENT, "1767323045"),
    Case("timestamp with a zone", pa.array([1767323045000], pa.timestamp("ms", "Asia/Tokyo")), _MOMENT, _MOMENT, _MOMENT, "1767323045"),
    Case("timestamp, nanoseconds", pa.array([1767323045678901234], pa.timestamp("ns")), _EXACT, _EXACT, _EXACT, "1767323045.6789012"),
    Case("timestamp, year 12015", pa.array([317000000000], pa.timestamp("s")), _LATE, _LATE, _LATE, _far()),
    Case("time of day", pa.array([time(3, 4, 5, 500000)]), *['"03:04:05.500000"'] * 3, *_wrong()),
    Case("duration 1.5 s", pa.array([timedelta(seconds=1.5)]), "1.5", '"1.5"', '"1.5"', "1.5"),
    Case("binary, UTF-8", pa.array([b"a"]), '"a"', '"a"', '"a"', *_wrong()),
    Case("binary, other", pa.array([b"\xff\x01"]), *['"\\xff01"'] * 3, *_wrong()),
    Case("binary of fixed length", pa.array([b"\xff\x01"], pa.binary(2)), *['"ff01"'] * 3, *_wrong()),
    Case("UUID", pa.array([bytes(range(16))], pa.uuid()), _UUID, _UUID, _UUID, *_wrong()),
    Case("list, struct, map", NESTED, *_wrong(4)),
]  # fmt: skip


def objects(value: Any) -> pd.Series:
    """A column of Python's own objects."""
    return pd.Series([value], dtype=object)


FRAMES = [
    Case("int64, Int64 3", ([3], pd.array([3], dtype="Int64")), "3", label="3"),
    Case("float64, Float64 1.0", ([1.0], pd.array([1.0], dtype="Float64")), "1", label="1"),
    Case("NaN, infinity, None, NA, NaT", ([np.nan], [np.inf], [None], [pd.NA], [pd.NaT]), "missing"),
    Case("Decimal 1.50", [Decimal("1.50")], "1.5"),
    Case("bool, boolean True", ([True], pd.array([True], dtype="boolean")), "true", label="true"),
    Case("object, string 3", (objects("3"), pd.array(["3"], dtype="string")), '"3"', label='"3"'),
    Case("empty string", [""], '""', label='""'),
    Case("category a", pd.Categorical(["a"]), '"a"', label='"a"'),
    Case("category 3", pd.Categorical([3]), "3", label="3"),
    Case("datetime64, datetime", (pd.to_datetime(["2026-01-02T03:04:05"]), objects(datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC))), _MOMENT),
    Case("datetime64 with a zone", pd.to_datetime(["2026-01-02T05:04:05+02:00"]), _MOMENT),
    Case("date", [date(2026, 1, 2)], _DAY),
    Case("time", [time(3, 4, 5)], '"03:04:05"'),
    Case("timedelta64, timedelta 1.5 s", (pd.to_timedelta([1.5], unit="s"), objects(timedelta(seconds=1.5))), "1.5"),
    Case("bytes, UTF-8", [b"a"], '"a"'),
    Case("bytes, other", [b"\xff"], '"\\xff"'),
]  # fmt: skip

WAYS = {"CSV, TSV": TABLES, "JSON": JSON, "Parquet": PARQUET, "data frame": FRAMES}


def _options(columns: Mapping[str, Any]) -> str:
    """How a command is told how the file is read."""
    given = [f"--{name}={cell[-1] if type(cell) is tuple else cell}" for name, cell in columns.items()]
    return f" with `{' '.join(given)}`" if given else ""


def _entry(outcome: str) -> str:
    if outcome.startswith("dead letter: "):
        return f"*{outcome.removeprefix('dead letter: ')}*"
    return outcome if outcome in {"", "missing"} else f"`{outcome}`"


def table() -> str:
    """The tables of the page, one for each way in; only the columns that it has."""
    lines = []
    for way, cases in WAYS.items():
        roles = [role for role in ROLES if any(getattr(case, role) for case in cases)]
        lines += ["", f"| {way} | {' | '.join(roles)} |", f"|---{'|---' * len(roles)}|"]
        for case in cases:
            is_text = way in {"CSV, TSV", "JSON"} and case.cell != "empty"
            cell = (f"`{case.cell}`" if is_text else case.cell) + _options(case.columns)
            outcomes = " | ".join(_entry(getattr(case, role)) for role in roles)
            lines.append(f"| {cell} | {outcomes} |")
    return "\n".join(lines[1:]) + "\n"


def write() -> None:
    """Render the table into the page."""
    PAGE.write_text(TABLE.sub(lambda _: table(), PAGE.read_text()))


if __name__ == "__main__" and sys.argv[1:] == ["--write"]:
    write()
