"""Feather, Arrow streams and Avro: the same rows are the same events as from Parquet."""

from __future__ import annotations

import io
import math
from datetime import UTC, date, datetime
from decimal import Decimal
from unittest import mock

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import feather, ipc, parquet

from streamnb.errors import ConfigError, LogError
from streamnb.formats import avro_events
from streamnb.values.json_conversion import bytes_text, bytes_texts
from tests.support.read_events import read


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    return tmp_path_factory.mktemp("arrow")


def written(place, table, rows_of_batch=None):
    """Write a table as Parquet, Feather, Arrow file and stream, and return their paths."""
    paths = [place / name for name in ("e.parquet", "e.feather", "e.arrow", "e.arrows")]
    parquet.write_table(table, paths[0])
    feather.write_feather(table, paths[1], compression=None)
    for path, opener in zip(paths[2:], (ipc.new_file, ipc.new_stream), strict=True):
        with opener(path, table.schema) as writer:
            writer.write_table(table, rows_of_batch)
    return paths


moments = st.datetimes(datetime(1700, 1, 1), datetime(2200, 1, 1))  # noqa: DTZ001  without a zone
types = {
    "int": (pa.int64(), "long", st.integers(-(2**63), 2**63 - 1)),
    "float": (pa.float64(), "double", st.floats()),
    "string": (pa.string(), "string", st.text(st.characters(codec="utf-8"), max_size=5)),
    "bool": (pa.bool_(), "boolean", st.booleans()),
    "bytes": (pa.binary(), "bytes", st.binary(max_size=4)),
    "fixed": (pa.binary(2), {"type": "fixed", "size": 2}, st.binary(min_size=2, max_size=2)),
    "date": (
        pa.date32(),
        {"type": "int", "logicalType": "date"},
        st.dates(date(1700, 1, 1), date(2200, 1, 1)),
    ),
    "time": (
        pa.timestamp("us", "UTC"),
        {"type": "long", "logicalType": "timestamp-micros"},
        moments.map(lambda moment: moment.replace(tzinfo=UTC)),
    ),
    "decimal": (
        pa.decimal128(9, 2),
        {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2},
        st.integers(-(10**9) + 1, 10**9 - 1).map(lambda n: Decimal(n) / 100),
    ),
    "list": (
        pa.list_(pa.int32()),
        {"type": "array", "items": "int"},
        st.lists(st.integers(-9, 9), max_size=2),
    ),
}


@st.composite
def tables(draw):
    """Return a kind by column, and rows."""
    names = draw(st.lists(st.sampled_from(["id", "label", "text", "a", "b", "c"]), min_size=1, unique=True))
    scalars = sorted(set(types) - {"list", "bytes", "fixed", "date", "time"})
    kinds = {
        name: draw(st.sampled_from(scalars if name in {"id", "label", "text"} else sorted(types)))
        for name in names
    }
    row = st.fixed_dictionaries({name: st.none() | types[kind][2] for name, kind in kinds.items()})
    return kinds, draw(st.lists(row, max_size=5))


@given(table=tables(), rows_of_batch=st.integers(1, 3), missing=st.sampled_from([(), ("", "0", "1")]))
def test_all_four_read_the_same_events(place, table, rows_of_batch, missing):
    kinds, rows = table
    schema = pa.schema([(name, types[kind][0]) for name, kind in kinds.items()])
    paths = written(place, pa.Table.from_pylist(rows, schema=schema), rows_of_batch)
    first, *others = (read(path, missing=missing or ("",)) for path in paths)
    assert len(first) == len(rows)
    for other in others:
        assert other == first


@given(
    table=tables(),
    codec=st.sampled_from(["null", "deflate"]),
    are_nullable=st.booleans(),
    rows_at_once=st.integers(1, 4),
)
def test_avro_reads_the_same_events_as_parquet(place, table, codec, are_nullable, rows_at_once):
    fastavro = pytest.importorskip("fastavro")
    kinds, rows = table
    if not are_nullable:
        rows = [row for row in rows if None not in row.values()]
    fields = []
    for name, kind in kinds.items():
        avro = types[kind][1]
        avro = {**avro, "name": f"fixed_{name}"} if kind == "fixed" else avro
        fields.append({"name": name, "type": ["null", avro] if are_nullable else avro})
    path = place / "e.avro"
    with path.open("wb") as out:
        fastavro.writer(out, {"type": "record", "name": "row", "fields": fields}, rows, codec=codec)
    schema = pa.schema([(name, types[kind][0]) for name, kind in kinds.items()])
    other = place / "avro.parquet"
    parquet.write_table(pa.Table.from_pylist(rows, schema=schema), other)
    with mock.patch.object(avro_events, "_AT_ONCE", rows_at_once):
        heard = [], []
        found = [read(file, notes) for file, notes in zip((path, other), heard, strict=True)]
    assert found[0] == found[1]
    noted = [sorted((message.event, message.fields["column"]) for message in notes) for notes in heard]
    assert noted[0] == noted[1]


@given(values=st.lists(st.one_of(st.binary(max_size=6), st.text(max_size=4).map(lambda text: text.encode(errors="replace")), st.sampled_from([b"\\x41", b"\0\1\2", b"\0\1\xff\2", b"\xe2\x82", b"\x82\n"])), max_size=6))  # fmt: skip
def test_many_bytes_become_the_texts_of_each(values):
    texts = bytes_texts(values)
    assert texts == [bytes_text(raw, is_fixed=False) for raw in values]
    for raw, text in zip(values, texts, strict=True):
        is_text = not raw.startswith(b"\\x")
        try:
            raw.decode()
        except UnicodeDecodeError:
            is_text = False
        assert text == (raw.decode() if is_text else "\\x" + raw.hex())


def test_content_is_recognised_and_a_stream_may_be_compressed(place):
    table = pa.table({"x": list(range(3000)), "label": ["a", "b", "c"] * 1000})
    for path in written(place, table):
        data = place / "data"
        data.write_bytes(path.read_bytes())
        events = read(data)
        assert len(events) == 3000
        assert events[-1] == {"id": "2999", "features": {"x": 2999}, "label": "c"}
    import gzip

    (place / "e.arrows.gz").write_bytes(gzip.compress((place / "e.arrows").read_bytes()))
    assert len(read(place / "e.arrows.gz")) == 3000
    (place / "e.feather.gz").write_bytes(gzip.compress((place / "e.feather").read_bytes()))
    with pytest.raises(LogError, match="whose reader must seek: decompress the file"):
        read(place / "e.feather.gz")


@pytest.mark.parametrize("name", ["e.feather", "e.arrows", "e.avro"])
def test_damaged_files_are_refused_with_the_rows_before(place, name):
    fastavro = pytest.importorskip("fastavro")
    written(place, pa.table({"x": list(range(3000)), "label": ["a", "b", "c"] * 1000}), 100)
    schema = {"type": "record", "name": "r", "fields": [{"name": "x", "type": "int"}]}
    out = io.BytesIO()
    fastavro.writer(out, schema, [{"x": n} for n in range(30_000)])
    (place / "e.avro").write_bytes(out.getvalue())
    content = (place / name).read_bytes()
    for cut in (0.3, 0.9):
        path = place / f"cut.{name.rpartition('.')[2]}"
        path.write_bytes(content[: int(len(content) * cut)])
        with pytest.raises(LogError, match="can be read"):
            read(path)


def test_what_is_missing_or_old_is_named(place, monkeypatch):
    (place / "old.feather").write_bytes(b"FEA1" + bytes(100))
    with pytest.raises(LogError, match="Feather of version 1: pandas"):
        read(place / "old.feather")
    fastavro = pytest.importorskip("fastavro")
    out = io.BytesIO()
    fastavro.writer(out, "int", [1, 2])
    (place / "ints.avro").write_bytes(out.getvalue())
    with pytest.raises(LogError, match="Avro of a type other than record"):
        read(place / "ints.avro")
    out = io.BytesIO()
    fastavro.writer(
        out, {"type": "record", "name": "r", "fields": [{"name": "x", "type": "int"}]}, [{"x": 1}]
    )
    (place / "x.avro").write_bytes(out.getvalue())
    with pytest.raises(LogError, match="there is no column 'label'; the columns are x"):
        read(place / "x.avro", must_have_label=True)
    monkeypatch.setitem(__import__("sys").modules, "fastavro", None)
    with pytest.raises(ConfigError, match=r"pip install 'streamnb\[avro\]'"):
        read(place / "x.avro")


@pytest.mark.parametrize("name", [b"1e40", b"null"])
@pytest.mark.parametrize("field", [b"wxyz", b"cell"])
def test_a_name_of_an_avro_field_that_is_no_string_is_named(place, name, field):
    """At the top, and in a record within."""
    fastavro = pytest.importorskip("fastavro")
    out = io.BytesIO()
    inner = {"type": "record", "name": "inner", "fields": [{"name": "cell", "type": "long"}]}
    fields = [{"name": "wxyz", "type": "long"}, {"name": "r", "type": inner}]
    fastavro.writer(out, {"type": "record", "name": "row", "fields": fields}, [{"wxyz": 1, "r": {"cell": 2}}])
    changed = out.getvalue().replace(b'"%s"' % field, name.ljust(6))
    assert changed != out.getvalue()
    (place / "names.avro").write_bytes(changed)
    with pytest.raises(LogError, match="not an Avro container file that can be read"):
        read(place / "names.avro")


def test_numbers_of_avro_that_are_not_finite_are_missing(place):
    fastavro = pytest.importorskip("fastavro")
    schema = {"type": "record", "name": "r", "fields": [{"name": name, "type": "double"} for name in "ab"]}
    with (place / "nan.avro").open("wb") as out:
        fastavro.writer(out, schema, [{"a": value, "b": 1.0} for value in (float("nan"), float("-inf"), 2.0)])
    assert [event["features"] for event in read(place / "nan.avro")] == [{"b": 1}, {"b": 1}, {"a": 2, "b": 1}]


def test_arrays_and_records_of_avro_are_read_with_missing_numbers(place):
    fastavro = pytest.importorskip("fastavro")
    inner = {
        "type": "record",
        "name": "i",
        "fields": [{"name": "p", "type": "float"}, {"name": "q", "type": "string"}],
    }
    kinds = {
        "a": {"type": "array", "items": "double"},
        "s": {"type": "array", "items": "string"},
        "r": ["null", inner],
    }
    schema = {
        "type": "record",
        "name": "o",
        "fields": [{"name": name, "type": kind} for name, kind in kinds.items()],
    }
    rows = [{"a": [1.5], "s": ["x"], "r": {"p": 2.5, "q": "y"}}, {"a": [], "s": [], "r": None}]
    odd = {"a": [math.nan, 2.0], "s": ["z"], "r": {"p": -math.inf, "q": "w"}}
    for more, expected in (([], []), ([odd], [{"a": [None, 2.0], "s": ["z"], "r": {"p": None, "q": "w"}}])):
        with (place / "nested.avro").open("wb") as out:
            fastavro.writer(out, schema, [*rows, *more])
        found = [event["features"] for event in read(place / "nested.avro")]
        assert found == [rows[0], {"a": [], "s": []}, *expected]


def test_bytes_within_arrays_and_records_of_avro_are_texts(place):
    fastavro = pytest.importorskip("fastavro")
    kinds = {"a": {"type": "array", "items": "bytes"}, "r": record_of("i", p="bytes", q="double")}
    with (place / "bytes.avro").open("wb") as out:
        fastavro.writer(out, record_of("o", **kinds), [{"a": [b"q"], "r": {"p": b"s", "q": 1.5}}])
    assert [event["features"] for event in read(place / "bytes.avro")] == [
        {"a": ["q"], "r": {"p": "s", "q": 1.5}}
    ]


def test_bytes_of_avro_that_are_not_text_are_noted_once(place):
    fastavro = pytest.importorskip("fastavro")
    kinds = {"t": "bytes", "b": ["null", "bytes"], "f": {"type": "fixed", "name": "two", "size": 2}}
    rows = [{"t": b"q", "b": raw, "f": b"fx"} for raw in (None, b"", b"q", b"\xff", b"\xfe")]
    with (place / "noted.avro").open("wb") as out:
        fastavro.writer(out, record_of("o", **kinds), rows)
    notes = []
    assert read(place / "noted.avro", notes)[-1]["features"] == {"t": "q", "b": r"\xfe", "f": "6678"}
    shown = [(message.event, message.fields["column"]) for message in notes]
    assert shown == [("bytes-as-hexadecimal", "b"), ("bytes-as-hexadecimal", "f")]


def record_of(name, **kinds):
    return {
        "type": "record",
        "name": name,
        "fields": [{"name": key, "type": kind} for key, kind in kinds.items()],
    }
