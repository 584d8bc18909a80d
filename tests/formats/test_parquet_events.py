"""`streamnb.formats.parquet_events`: what is special about its columns; tests/laws/test_cells.py has every type."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

import pyarrow as pa
import pytest
from pyarrow import parquet

from streamnb import errors
from streamnb.cli import main
from streamnb.formats.codec import decode_event
from streamnb.formats.event_columns import CsvColumns
from streamnb.formats.event_schema import AttributeSpec, EventSchema
from streamnb.formats.parquet_events import parquet_events


def raws(columns, said=None, options=None, **given):
    """The records of a table's rows."""
    file = io.BytesIO()
    parquet.write_table(pa.table(columns), file, **given)
    file.seek(0)
    say = (lambda _: None) if said is None else said.append
    return [raw for raw, _ in parquet_events(file, CsvColumns(**(options or {})), say)]


def events(columns, **given):
    return [json.loads(raw) for raw in raws(columns, **given)]


def reason(raw, schema=None):
    with pytest.raises(errors.MalformedEvent) as caught:
        decode_event(raw, schema or EventSchema())
    return caught.value.reason, caught.value.path


WITHOUT_PANDAS = """
import sys
class NoPandas:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] == "pandas":
            raise ImportError(name)
sys.meta_path.insert(0, NoPandas())
from streamnb.formats.event_files import read_events
sys.stdout.buffer.write(b"\\n".join(read_events(sys.argv[1])))
assert "pandas" not in sys.modules
"""


def test_times_and_durations_of_nanoseconds_need_no_pandas(tmp_path):
    moment = 1_767_323_045_678_901_234
    columns = {
        "ts": pa.array([moment], pa.timestamp("ns")),
        "took": pa.array([1_234_567_891], pa.duration("ns")),
        "at": pa.array([3_600_000_000_001], pa.time64("ns")),
        "seen": pa.array([[moment]], pa.list_(pa.timestamp("ns", "Asia/Tokyo"))),
    }
    parquet.write_table(pa.table(columns), tmp_path / "e.parquet")
    command = [sys.executable, "-c", WITHOUT_PANDAS, str(tmp_path / "e.parquet")]
    found = subprocess.run(command, check=True, capture_output=True, timeout=60).stdout
    told = "2026-01-02T03:04:05.678901234+00:00"
    features = {"took": 1.234567891, "at": "01:00:00.000000001", "seen": [told]}
    assert [json.loads(found)] == [{"id": "0", "ts": told, "features": features}]
    assert events(columns) == [json.loads(found)]  # where pandas is there, too


def test_int96_reaches_beyond_what_64_bits_of_nanoseconds_hold():
    times = [
        datetime(9999, 12, 31, tzinfo=UTC),
        datetime(1, 1, 1, tzinfo=UTC),
        datetime(2026, 1, 2, 3, 4, 5, 6, UTC),
    ]
    found = events({"when": pa.array(times, pa.timestamp("us"))}, use_deprecated_int96_timestamps=True)
    assert [event["features"]["when"] for event in found] == [moment.isoformat() for moment in times]


def test_years_beyond_9999_are_told_apart_and_no_time_of_an_event():
    seconds = [253_402_300_799, 253_402_300_800, -62_135_596_801]  # the last of 9999, and beyond both ends
    for unit, times in (("s", 1), ("ms", 1000)):
        column = pa.array([second * times for second in seconds], pa.timestamp(unit))
        values = [event["features"]["when"] for event in events({"when": column})]
        assert values == [
            "9999-12-31T23:59:59+00:00",
            "+10000-01-01T00:00:00+00:00",
            "+0000-12-31T23:59:59+00:00",
        ]
        for raw in raws({"id": ["a", "b", "c"], "text": ["x"] * 3, "ts": column}):
            assert reason(raw) == ("out-of-range", "$.ts")


def test_a_date_is_a_time_of_an_event():
    (raw,) = raws({"ts": [date(2026, 1, 2)], "text": ["a"]})
    assert decode_event(raw, EventSchema()).ts == datetime(2026, 1, 2, tzinfo=UTC).timestamp()


@pytest.mark.parametrize("kind", [pa.int64(), pa.float64(), pa.decimal128(5, 2), pa.duration("ms")])
def test_a_time_of_zero_is_a_time(kind):
    (raw,) = raws({"ts": pa.array([0], kind), "text": ["a"]})
    assert decode_event(raw, EventSchema()).ts == 0.0


IDS = {
    "decimals": pa.array([10**19 + n for n in range(50)], pa.decimal128(20, 0)),
    "fractions": pa.array([Decimal(10**17 + n) / 100 for n in range(50)], pa.decimal128(38, 2)),
    "long": pa.array([10**70 + n for n in range(50)], pa.decimal256(76, 0)),
    "unsigned": pa.array([2**64 - 1 - n for n in range(50)], pa.uint64()),
    "fixed": pa.array([bytes([128 + n, 5]) for n in range(50)], pa.binary(2)),
    "bytes": pa.array([b"\xff", b"ff", b"\\xff", b"\\x5c786666", b"\xfe\xff", b"\xef\xbf\xbd"], pa.binary()),
    "view": pa.array([bytes([128 + n]) for n in range(50)], pa.binary_view()),
    "moments": pa.array(range(50), pa.timestamp("ns")),
    "uuids": pa.array([bytes([n] * 16) for n in range(50)], pa.uuid()),
}


@pytest.mark.parametrize("role", ["id", "label"])
@pytest.mark.parametrize("column", IDS.values(), ids=IDS)
def test_ids_that_differ_stay_different(column, role):
    rows = {"text": ["a"] * len(column), role: column}
    decoded = [decode_event(raw, EventSchema()) for raw in raws(rows)]
    assert len({getattr(event, role) for event in decoded}) == len(column)


def test_ids_are_named_as_their_values_are_elsewhere():
    columns = {
        "1": pa.array([1.0]), "true": pa.array([True]),
        "1.5": pa.array([Decimal("1.50")]), "10000000000000000000": pa.array([10**19], pa.decimal128(20, 0)),
        "\\xff01": pa.array([b"\xff\x01"]), "caf\u00e9": pa.array(["caf\u00e9".encode()]),
        "ff01": pa.array([b"\xff\x01"], pa.binary(2)),
        "00112233-4455-6677-8899-aabbccddeeff": pa.array([bytes.fromhex("00112233445566778899aabbccddeeff")], pa.uuid()),
    }  # fmt: skip
    for name, column in columns.items():
        assert events({"id": column, "label": column})[0] == {"id": name, "label": name, "features": {}}


def test_bytes_that_are_no_text_are_said_once_for_each_column(tmp_path, capsys):
    rows = 2500
    columns = {
        "id": pa.array([n.to_bytes(2, "big") for n in range(rows)], pa.binary(2)),
        "name": pa.array([b"ascii"] * rows),
        "blob": pa.array([b"\xff"] * rows),
        "label": ["a", "b"] * (rows // 2),
    }
    parquet.write_table(pa.table(columns), tmp_path / "e.parquet")
    path = str(tmp_path / "e.parquet")
    for command in (["evaluate", path], ["init", path, "--out", str(tmp_path / "c.toml")]):
        assert main(command) == 0
        said = [line for line in capsys.readouterr().err.splitlines() if "holds bytes" in line]
        assert [line.split("holds")[0].split()[-1] for line in said] == ["'id'", "'blob'"]
        assert said[0].endswith("they become hexadecimal digits, such as '0000'")
        assert all(path in line for line in said)


def test_a_null_id_is_a_dead_letter_and_no_number_of_a_row():
    for column in (pa.array([1.0, None]), pa.array([1.0, float("nan")]), pa.array(["1", None])):
        first, second = raws({"id": column, "text": ["a", "b"]})
        assert decode_event(first, EventSchema()).id == "1"
        assert reason(second) == ("missing", "$.id")


def test_missing_numbers_of_every_type_and_in_every_role():
    kinds = [pa.int32(), pa.float64(), pa.float16(), pa.decimal128(10, 2), pa.string()]
    for kind in kinds:
        column = (
            pa.array([-999, 1], pa.int16()).cast(pa.float32()).cast(kind)
            if kind != pa.string()
            else ["-999", "1"]
        )
        first, second = events(
            {"id": column, "x": column, "label": column, "text": column, "ts": column},
            options={"missing": ("", "-999")},
        )
        assert first == {"id": None}
        assert set(second) == {"id", "text", "ts", "features", "label"}
    assert events({"x": [-999.0]}, options={"missing": ("", "-999.0")}) == [{"id": "0"}]
    assert events({"x": [1, 0], "y": [True, False]}, options={"missing": ("", "1", "0")}) == [
        {"id": "0", "features": {"y": True}}, {"id": "1", "features": {"y": False}}
    ]  # fmt: skip


def test_strings_that_are_not_utf_8_are_dead_letters_as_in_csv():
    names = pa.array([b"good", b"\xff bad"]).view(pa.string())
    for role in ("id", "label", "text", "x"):
        first, second = raws({role: names, **({} if role == "text" else {"text": ["a", "b"]})})
        assert decode_event(first, EventSchema())
        assert reason(second)[0] == "invalid-utf8"


def test_an_empty_string_beside_one_that_is_not_utf_8_is_an_empty_string():
    names = pa.array([b"", b"\xff bad", None]).view(pa.string())
    empty, bad, missing = raws({"x": names, "text": ["a", "b", "c"]})
    assert json.loads(empty) == {"id": "0", "text": "a", "features": {"x": ""}}
    assert json.loads(missing) == {"id": "2", "text": "c"}
    assert reason(bad)[0] == "invalid-utf8"


def test_what_is_nested_can_be_declared_and_is_a_dead_letter_otherwise():
    people = [
        {"age": Decimal("1.5"), "born": date(2020, 1, 1), "pets": [{"name": b"Rex"}], "took": timedelta(0, 2)}
    ] * 4
    columns = {
        "who": people,
        "sizes": pa.array(
            [[("a", Decimal("0.5")), ("b", None)]] * 4, pa.map_(pa.string(), pa.decimal128(3, 1))
        ),
        "label": ["x", "y"] * 2,
    }
    assert events(columns)[0]["features"] == {
        "who": {"age": 1.5, "born": "2020-01-01T00:00:00+00:00", "pets": [{"name": "Rex"}], "took": 2.0},
        "sizes": {"a": 0.5, "b": None},
    }
    assert reason(raws(columns)[0]) == ("wrong-type", "$.features.who")
    places = {"age": ("continuous", "$.features.who.age"), "size": ("nominal", "$.features.sizes.a")}
    schema = EventSchema(tuple(AttributeSpec(name, kind, path) for name, (kind, path) in places.items()))
    assert [decode_event(raw, schema).x for raw in raws(columns)] == [{"age": 1.5, "size": "0.5"}] * 4


@pytest.mark.parametrize(
    ("columns", "options", "expected"),
    [
        ({"5.1": [1], "a;b": [2]}, {"must_have_label": True}, "there is no column 'label'; the columns are 5.1, a;b; --label-column NAME selects it"),
        ({"id": ["1"], "Label": ["a"]}, {"must_have_label": True}, "the columns are id, Label; --label-column NAME selects it; did you mean Label?"),
        ({"id": ["1"], "body": ["a"]}, {"text": "Body"}, "Parquet: no column 'Body' for text; there are id, body; did you mean body?"),
    ],
)  # fmt: skip
def test_columns_that_are_missing_are_named_without_the_options_of_text_files(columns, options, expected):
    with pytest.raises(errors.StreamnbError) as caught:
        raws(columns, options=options)
    assert str(caught.value).endswith(expected)


def test_columns_of_one_name_are_refused():
    file = io.BytesIO()
    parquet.write_table(pa.Table.from_arrays([pa.array([1]), pa.array([2])], names=["1,5", "1,5"]), file)
    with pytest.raises(errors.ConfigError) as caught:
        list(parquet_events(file, CsvColumns(), lambda _: None))
    assert str(caught.value) == "Parquet: column '1,5' is named twice"


def test_the_index_of_a_frame_is_left_out_and_said(tmp_path):
    table = pa.table({"label": ["a", "b"], "x": [1, 2], "__index_level_0__": [7, 3]})
    parquet.write_table(table, tmp_path / "e.parquet")
    for options, expected, n in (({}, ["0", "1"], 1), ({"id": "__index_level_0__"}, ["7", "3"], 0)):
        notes = []
        with (tmp_path / "e.parquet").open("rb") as file:
            found = [json.loads(raw) for raw, _ in parquet_events(file, CsvColumns(**options), notes.append)]
        assert [(one["id"], one["features"]) for one in found] == [
            (id_, {"x": x}) for id_, x in zip(expected, [1, 2], strict=True)
        ]
        assert len(notes) == n
