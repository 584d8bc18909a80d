from __future__ import annotations

import bz2
import csv
import gzip
import io
import json
import lzma
import pickle
import random
import re
import subprocess
import sys
import tracemalloc
from contextlib import nullcontext
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from streamnb.errors import ConfigError, LogError, MalformedEvent
from streamnb.formats import event_csv, event_source, table_dialect
from streamnb.formats.cell_notation import BOOLEANS
from streamnb.formats.codec import decode_event
from streamnb.formats.event_columns import CsvColumns
from streamnb.formats.event_csv import rows_to_events
from streamnb.formats.event_files import format_of, open_counted, read_events, read_rows_order
from streamnb.formats.event_schema import AttributeSpec, EventSchema

LINES = [b'{"id":"%d","text":"word %d"}' % (n, n * n) for n in range(2_000)]
CONTENT = b"\n".join(LINES) + b"\n"
SETS = Path(__file__).parents[3] / "shared" / "data"

COMPRESS = {
    "": bytes,
    ".gz": gzip.compress,
    ".zst": zstandard.compress,
    ".bz2": bz2.compress,
    ".xz": lzma.compress,
}


def write(path, content):
    path.write_bytes(content)
    return path


def table(text, /, **columns):
    """The records of a CSV table, parsed."""
    lines = io.StringIO(text, newline="")
    return [json.loads(raw) for raw in rows_to_events(lines, CsvColumns(**columns))]


def until_error(events):
    """What could be read, and the error that ended it."""
    read = []
    with pytest.raises(LogError) as caught:  # noqa: PT012
        for event in events:
            read.append(event)  # noqa: PERF402  what was read before the error counts
    return read, str(caught.value)


# Lines


@pytest.mark.parametrize("compression", COMPRESS)
@pytest.mark.parametrize("name", ["e.jsonl", "e.ndjson", "e.json", "two.dots.jsonl", "bare"])
def test_lines_come_out_as_they_are(tmp_path, name, compression):
    path = write(tmp_path / (name + compression), COMPRESS[compression](CONTENT))
    assert list(read_events(path)) == LINES


@pytest.mark.parametrize("compression", COMPRESS)
def test_a_name_without_meaning_is_read_by_its_first_bytes(tmp_path, compression):
    path = write(tmp_path / "events.bin", COMPRESS[compression](CONTENT))
    assert list(read_events(str(path))) == LINES


def test_blank_lines_are_skipped_and_line_ends_removed(tmp_path):
    path = write(tmp_path / "e.jsonl", b'\n  \r\n{"a":1}\r\n\n {"b":2} \n\t\n\xff\n{"c":3}')
    assert list(read_events(path)) == [b'{"a":1}', b' {"b":2} ', b"\xff", b'{"c":3}']


@pytest.mark.parametrize("compression", COMPRESS)
def test_a_byte_order_mark_before_a_line_is_no_part_of_it(tmp_path, compression):
    mark = b"\xef\xbb\xbf"
    path = write(tmp_path / ("e.jsonl" + compression), COMPRESS[compression](mark + b"{}\n" + mark + b"[]"))
    assert list(read_events(path)) == [b"{}", b"[]"]
    assert list(read_events(write(tmp_path / "e.jsonl", mark + b"\n1"))) == [b"1"]


@pytest.mark.parametrize("compression", COMPRESS)
def test_an_empty_file_holds_no_event(tmp_path, compression):
    path = write(tmp_path / ("e.jsonl" + compression), COMPRESS[compression](b""))
    assert list(read_events(path)) == []


@pytest.mark.parametrize("compression", [".gz", ".zst", ".bz2", ".xz"])
def test_members_follow_one_another(tmp_path, compression):
    parts = b"".join(COMPRESS[compression](part) for part in (CONTENT[:1001], b"", CONTENT[1001:]))
    assert list(read_events(write(tmp_path / ("e.jsonl" + compression), parts))) == LINES


def test_standard_input_is_read_and_stays_open(monkeypatch):
    for compress in COMPRESS.values():
        stdin = io.BytesIO(compress(CONTENT))
        monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=stdin))
        with open_counted("-") as events:
            assert list(events) == LINES
            assert events.total is None
        assert not stdin.closed


def test_a_pipe_yields_each_line_when_it_is_there():
    code = (
        "import sys; from streamnb.formats.event_files import read_events\n"
        "for event in read_events('-'): print(len(event), flush=True)"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        for length in (3, 5):
            process.stdin.write(b"x" * length + b"\n")
            process.stdin.flush()
            assert process.stdout.readline() == b"%d\n" % length
        process.stdin.close()
        assert process.stdout.read() == b""


# Damage


@pytest.mark.parametrize("compression", [".gz", ".zst", ".bz2", ".xz"])
@pytest.mark.parametrize("share", [0.3, 0.9, 1.0])
def test_a_truncated_file_is_read_as_far_as_possible_then_fails(tmp_path, compression, share):
    whole = COMPRESS[compression](CONTENT)
    kept = int(len(whole) * share) - (share == 1.0)
    path = write(tmp_path / ("e.jsonl" + compression), whole[:kept])
    read, message = until_error(read_events(path))
    assert read == LINES[: len(read)]
    if compression == ".gz":  # a zstandard block of up to 128 KiB is readable as a whole or not at all
        assert len(read) > len(LINES) * (share - 0.2)
    assert str(path) in message
    assert f"line {len(read)}" in message
    assert f"byte {kept}" in message


@pytest.mark.parametrize("compression", [".gz", ".zst", ".bz2", ".xz"])
def test_zstandard_frames_and_gzip_members_before_a_truncated_one_are_read(tmp_path, compression):
    compress = COMPRESS[compression]
    path = write(tmp_path / ("e.jsonl" + compression), compress(CONTENT) + compress(CONTENT)[:-3])
    read, _ = until_error(read_events(path))
    assert read[: len(LINES)] == LINES


@pytest.mark.parametrize("compression", [".gz", ".zst", ".bz2", ".xz"])
def test_a_changed_byte_is_noticed(tmp_path, compression):
    compress = zstandard.ZstdCompressor(write_checksum=True).compress
    compress = compress if compression == ".zst" else COMPRESS[compression]
    damaged = bytearray(compress(CONTENT))
    damaged[-3] ^= 1  # the checksum, or the length that follows it
    _, message = until_error(read_events(write(tmp_path / ("e.jsonl" + compression), bytes(damaged))))
    assert "damaged" in message


@pytest.mark.parametrize("compression", [".gz", ".zst", ".bz2", ".xz"])
@pytest.mark.parametrize("content", [b"", b"\x1f", CONTENT])
def test_a_name_that_promises_compression_is_held_to_it(tmp_path, compression, content):
    read, message = until_error(read_events(write(tmp_path / ("e.jsonl" + compression), content)))
    assert read == []
    assert compression in message


def test_a_file_that_cannot_be_opened_is_named(tmp_path):
    for path in (tmp_path / "absent.jsonl", tmp_path):
        with pytest.raises(LogError, match=str(path)):
            list(read_events(path))


@pytest.mark.parametrize("name", ["e.jsonl", "e.csv"])
def test_a_line_longer_than_the_limit_ends_the_reading(tmp_path, monkeypatch, name):
    monkeypatch.setattr(event_source, "MAX_LINE", 100)
    fits = b"x" * 99 + b"\n"
    path = write(tmp_path / name, b"id\n" + fits + fits + b"y" * 100 + b"\nz\n")
    read, message = until_error(read_events(path))
    assert len(read) == (3 if name == "e.jsonl" else 2)
    assert str(path) in message
    assert "line 4" in message


def test_a_line_without_end_takes_bounded_memory(tmp_path, monkeypatch):
    monkeypatch.setattr(event_source, "MAX_LINE", 1 << 20)
    path = write(tmp_path / "e.jsonl.gz", gzip.compress(b"x" * (64 << 20), 1))
    tracemalloc.start()
    try:
        until_error(read_events(path))
        assert tracemalloc.get_traced_memory()[1] < 8 << 20
    finally:
        tracemalloc.stop()


# Progress


@pytest.mark.parametrize("name", ["e.jsonl", "e.jsonl.gz", "e.jsonl.zst", "e.csv.gz"])
def test_progress_grows_to_the_size_of_the_file(tmp_path, name):
    content = b"a,b\n" + b"".join(b"%d,%d\n" % (n, n * 7919 % 10007) for n in range(99_999))
    compress = COMPRESS.get(Path(name).suffix, bytes)
    path = write(tmp_path / name, compress(content))
    with open_counted(path) as events:
        assert events.total == path.stat().st_size
        positions = [events.position for _ in events]
        assert events.position == events.total
    assert positions == sorted(positions)
    assert positions[0] < events.total
    assert len(set(positions)) > 2
    assert events.line == 100_000


# Order files


@pytest.mark.parametrize("compression", COMPRESS)
def test_an_order_file_is_row_numbers(tmp_path, compression):
    path = write(tmp_path / ("order.txt" + compression), COMPRESS[compression](b"3\n0\r\n\n12\n1"))
    assert read_rows_order(path) == [3, 0, 12, 1]


@pytest.mark.parametrize("bad", [b"-1", b"1.0", b"x", b"1 2", b"\xd9\xa3"])
def test_an_order_file_holds_nothing_else(tmp_path, bad):
    path = write(tmp_path / "order.txt", b"3\n\n" + bad + b"\n")
    with pytest.raises(LogError, match="line 3"):
        read_rows_order(path)


# CSV


def test_columns_go_to_their_places():
    (event,) = table('label,x,id,text,y,ts\nspam,3,m,"a ""b"", c",u,1.5\n')
    assert event == {
        "id": "m",
        "ts": 1.5,
        "text": 'a "b", c',
        "features": {"x": 3, "y": "u"},
        "label": "spam",
    }


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("e.csv", 'id,a,b\n1,2,"x;\ty"\n'),
        ("e.csv", 'id\ta\tb\n1\t2\t"x;\ty"\n'),
        ("e.csv", 'id;a;b\n1;2;"x;\ty"\n'),
        ("e.tsv", 'id\ta\tb\n1\t2\t"x;\ty"\n'),
    ],
)
def test_the_header_says_what_stands_between_two_cells(tmp_path, name, content):
    (raw,) = read_events(write(tmp_path / name, content.encode()))
    assert json.loads(raw) == {"id": "1", "features": {"a": 2, "b": "x;\ty"}}


def test_tabs_are_what_the_name_or_the_flag_says(tmp_path):
    (raw,) = read_events(write(tmp_path / "e.tsv.gz", COMPRESS[".gz"](b"id\ta,b\n1\t2\n")))
    assert json.loads(raw) == {"id": "1", "features": {"a,b": 2}}
    (event,) = table("id,x;a\n1,y;2\n", delimiter=";")
    assert event["features"] == {"id,x": "1,y", "a": 2}
    (raw,) = read_events(write(tmp_path / "e.tsv", b"id,a\n1,2\n"), CsvColumns(delimiter=","))
    assert json.loads(raw) == {"id": "1", "features": {"a": 2}}


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("id;a;b, net\n1;2;3,5\n2;4;3,5\n", {"a": 2, "b, net": 3.5}),
        ("id|a|b\n1|2|x;y\n", {"a": 2, "b": "x;y"}),
        ("id|a,b|c\n1|2|3\n", {"a,b": 2, "c": 3}),
        ("id,a;b\n1,2\n", {"a;b": 2}),
        ("id,a;b;c;d\n1,2\n2,3\n", {"a;b;c;d": 2}),
        ('id,a;b,c\n1,2,"x\n;y;\n"\n2,3,4\n', {"a;b": 2, "c": "x\n;y;\n"}),
    ],
)
def test_where_the_header_has_several_the_rows_say_what_stands_between_two_cells(content, expected):
    assert table(content)[0] == {"id": "1", "features": expected}


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("1,0,0,no\n2,0,0,yes\n", "no column 'churn' for label; there are c1, c2, c3, c4"),
        ("1,32,no\n2,30,yes\n", "no column 'churn' for label; there are c1, c2, c3"),
        ("id:churn;a\n1:no;2\n", "; --delimiter C sets the delimiter of cells"),
        ("id,churn\n1,\n2,\n", "no event has a label: column 'churn' is empty in all 2 rows"),
        ("id,churn\n1,\n2\n", "no event has a label: column 'churn' is empty in all 1 row"),
        ("id,churn\n2\n", None),
        ("id,churn\n1,\n2,yes\n", None),
    ],
)  # fmt: skip
def test_a_table_that_cannot_teach_is_refused_by_what_is_wrong_with_it(content, told):
    given = {"label": "churn", "must_have_label": True, "delimiter": ":" if ":" in content else ""}
    with (
        nullcontext() if told is None else pytest.raises((ConfigError, LogError), match=re.escape(told or ""))
    ):
        table(content, **given)


def test_a_header_without_labels_is_refused_where_they_are_to_be_learned(tmp_path):
    path = write(tmp_path / "e.csv", b"id\ttext\tclass\n1\ta\tx\n")
    with pytest.raises(LogError) as caught:
        list(read_events(path, CsvColumns(must_have_label=True)))
    assert str(caught.value) == (
        f"{path}: no event has a label: there is no column 'label'; the columns are id, text, class; "
        "--label-column NAME selects it"
    )
    (raw,) = read_events(path, CsvColumns(must_have_label=True, label="class"))
    assert json.loads(raw)["label"] == "x"


def test_columns_can_be_named():
    columns = {
        "id": "key",
        "label": "class",
        "text": "body",
        "ts": "at",
        "delimiter": ";",
        "missing": ("", "?", "NA"),
    }
    (event,) = table("key;class;body;at;id;a;b;c\n1;2;3;4;5;?;NA;n\n", **columns)
    assert event == {"id": "1", "label": "2", "text": "3", "ts": 4, "features": {"id": 5, "c": "n"}}


@pytest.mark.parametrize(
    ("cell", "value"),
    [
        ("3", 3),
        ("-3", -3),
        ("+3", 3),
        ("007", 7),
        (" 3 ", 3),
        ("3.", 3.0),
        (".5", 0.5),
        ("-1.5e3", -1500.0),
        ("9007199254740991", 9007199254740991),
        ("-0009007199254740991", -9007199254740991),
        ("9007199254740993", "9007199254740993"),
        ("123456789012345678", "123456789012345678"),
        (" 1234567890123456789 ", "1234567890123456789"),
        ("9" * 30, "9" * 30),
        ("0" * 5000 + "7", 7),
        ("1e999", "1e999"),
        ("9" * 400, "9" * 400),
        ("nan", "nan"),
        ("inf", "inf"),
        ("-Infinity", "-Infinity"),
        ("1_000", "1_000"),
        ("0x10", "0x10"),
        ("\u0663", "\u0663"),
        ("true", True),
        (" True ", True),
        ("TRUE", True),
        ("false", False),
        ("False", False),
        ("FALSE", False),
        ("tRUE", "tRUE"),
        ("yes", "yes"),
        ("a", "a"),
        (" ", " "),
        ("-", "-"),
        (".", "."),
    ],
)
def test_a_cell_is_a_number_or_a_boolean_where_it_reads_as_one(cell, value):
    (event,) = table(f"f\n{cell}\n")
    assert event["features"] == {"f": value}
    assert type(event["features"]["f"]) is type(value)


def test_empty_cells_are_absent_but_an_empty_id_is_not():
    assert table("id,label,text,ts,f\n,,x,,\n") == [{"id": "", "text": "x"}]


def test_rows_of_delimiters_alone_are_skipped_unless_there_is_one_column():
    assert table("label;text\n;\na;x\n;;\n;\n", delimiter=";") == [{"id": "0", "text": "x", "label": "a"}]
    assert [record[1:] for record in table("f\n,\n")] == [["", ""]]


def test_id_label_and_text_stay_strings():
    assert table("id,label,text\n007,1,2.50\n") == [{"id": "007", "label": "1", "text": "2.50"}]


@pytest.mark.parametrize(
    ("cell", "label"),
    [
        ("1.0", "1"),
        ("-12.00", "-12"),
        ("0.0", "0"),
        ("-0.0", "0"),
        ("007", "007"),
        ("007.0", "007.0"),
        ("1.10", "1.10"),
        ("2.5", "2.5"),
        ("+1", "+1"),
        ("1.", "1."),
        ("True", "true"),
        ("FALSE", "false"),
        ("true ", "true "),
        ("tRUE", "tRUE"),
        ("v1.0", "v1.0"),
    ],
)
def test_a_label_that_is_a_whole_number_or_a_boolean_has_one_name(cell, label):
    assert table(f"label\n{cell}\n")[0]["label"] == label
    (event,) = table(f"c,n\n{cell},1.0\n", labels=frozenset("c"), strings=frozenset("c"))
    assert event["features"] == {"c": label, "n": 1.0}


@pytest.mark.parametrize(
    ("labels", "classes"),
    [([1.0, 2.0, None], ["1", "2", None]), ([True, False, True], ["true", "false", "true"])],
)
def test_a_frame_has_the_same_classes_and_values_by_csv_and_by_parquet(labels, classes, tmp_path):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"label": labels, "seen": [True, False, True], "n": [905, 2, 3]})
    frame.to_csv(tmp_path / "e.csv", index=False)
    frame.to_parquet(tmp_path / "e.parquet")
    by_csv, by_parquet = (
        [*map(json.loads, read_events(tmp_path / f"e.{kind}"))] for kind in ("csv", "parquet")
    )
    assert by_csv == by_parquet
    assert [event.get("label") for event in by_csv] == classes
    assert by_csv[0]["features"] == {"seen": True, "n": 905}


def test_without_ids_the_rows_are_numbered_like_the_records():
    records = table('f\na\n\n"b\nb"\nc,c\nd\n')
    assert [record["id"] for record in records if isinstance(record, dict)] == ["0", "1", "3"]
    assert records[2] == [{"csv": "2 cells, the header has 1"}, "c", "c"]


def test_quoted_cells_hold_line_ends_of_every_sort():
    (event,) = table('text\r\n"a\nb\r\nc\rd"\r\n')
    assert event["text"] == "a\nb\r\nc\rd"


def test_line_ends_in_quotes_survive_a_file(tmp_path):
    (raw,) = read_events(write(tmp_path / "e.csv", b'id,text\r\nm,"a\r\nb\rc\nd"\r\n'))
    assert json.loads(raw)["text"] == "a\r\nb\rc\nd"


@pytest.mark.parametrize(
    ("row", "told"),
    [
        ("1,2", "2 cells, the header has 3"),
        ("1,2,3,4", "4 cells, the header has 3"),
        ('1,"2"x,3', "not CSV: "),
        ('1,2,"3', "not CSV: unexpected end of data"),
    ],
)
def test_a_row_that_does_not_fit_becomes_a_dead_letter_with_its_content(row, told):
    good = "7,8,9\n"
    rows = good + row + "\n" + (good if not row.endswith('"3') else "")
    raws = list(rows_to_events(io.StringIO("a,b,c\n" + rows, newline=""), CsvColumns()))
    with pytest.raises(MalformedEvent) as caught:
        decode_event(raws[1], EventSchema())
    assert (caught.value.reason, caught.value.path) == ("wrong-type", "$")
    assert f"of a row of CSV: {told}" in caught.value.detail
    assert ",".join(json.loads(raws[1])[1:]).strip("\n") == row
    assert all(decode_event(raw, EventSchema()).x == {"a": 7, "b": 8, "c": 9} for raw in raws[::2])


def test_bytes_that_are_not_utf8_come_out_as_they_were(tmp_path):
    path = write(tmp_path / "e.csv", b"id,text\n1,caf\xe9\n2,caf\xc3\xa9\n3,\xff\n")
    raws = list(read_events(path))
    assert b"caf\xe9" in raws[0]
    for bad in (raws[0], raws[2]):
        with pytest.raises(MalformedEvent, match="invalid-utf8"):
            decode_event(bad, EventSchema())
    assert decode_event(raws[1], EventSchema()).x == {"text": "caf\u00e9"}


def test_a_byte_order_mark_before_the_header_is_no_part_of_it(tmp_path):
    (raw,) = read_events(write(tmp_path / "e.csv", b"\xef\xbb\xbfid,f\r\nm,1\r\n"))
    assert json.loads(raw) == {"id": "m", "features": {"f": 1}}


@pytest.mark.parametrize("end", [b"\n", b"\r", b"\r\n"])
def test_a_line_end_between_two_blocks_is_one(tmp_path, end):
    for n in range(event_source.PEEKED - 3, event_source.PEEKED + 1):
        row = b"y" * (n - 1 - len(end))
        with open_counted(write(tmp_path / "e.csv", b"x" + end + row + end + b"z" + end)) as events:
            assert [json.loads(raw)["features"]["x"] for raw in events] == [row.decode(), "z"]
            assert events.line == 3


def test_a_long_cell_is_read(tmp_path):
    body = "word " * 100_000  # beyond the limit that the csv module begins with
    (raw,) = read_events(write(tmp_path / "e.csv", f"id,text\nm,{body}\n".encode()))
    assert json.loads(raw)["text"] == body


def test_a_quote_that_is_never_closed_takes_only_so_much(monkeypatch):
    monkeypatch.setattr(table_dialect, "MAX_ROW", 50)
    records = table('f\na\n"b\n' + "0123456789\n" * 4 + "c\nd\n" * 2)
    assert records[0]["features"] == {"f": "a"}
    assert records[1][1:] == ['"b\n' + "0123456789\n" * 4 + "c\nd\n"]
    assert [record["features"]["f"] for record in records[2:]] == ["c", "d"]


def test_the_limit_for_cells_is_never_lowered_for_others():
    before = csv.field_size_limit(event_csv.MAX_ROW * 2)
    try:
        table("f\n1\n")
        assert csv.field_size_limit() == event_csv.MAX_ROW * 2
    finally:
        csv.field_size_limit(before)


@pytest.mark.parametrize(
    ("text", "columns", "message"),
    [
        ("a,b,a\n", {}, "'a' is named twice"),
        ("a,b\n", {"label": "class"}, "no column 'class' for label"),
        ("a,b\n", {"id": "key"}, "no column 'key' for id"),
        ('a,"b\n', {}, "CSV header"),
    ],
)
def test_a_header_that_does_not_fit_is_refused(text, columns, message):
    with pytest.raises(ConfigError, match=message):
        table(text, **columns)


def test_an_empty_table_holds_no_event():
    assert table("") == []
    assert table("id,label\n") == []


_CELLS = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)


_LABELS = _CELLS.filter(  # whole numbers lose their fraction, and booleans are written in one way
    lambda cell: not cell.rstrip("0").endswith(".") and cell not in BOOLEANS
)


@given(st.lists(st.tuples(_CELLS, _LABELS, _CELLS, _CELLS).filter(any), min_size=1, max_size=5))
def test_what_a_csv_writer_wrote_is_read(rows):
    file = io.StringIO(newline="")
    csv.writer(file).writerows([("id", "label", "text", "f"), *rows])
    file.seek(0)
    records = [json.loads(raw) for raw in rows_to_events(file, CsvColumns(has_header=True))]
    expected = [
        {"id": id_} | ({"label": label} if label else {}) | ({"text": text} if text else {})
        for id_, label, text, _ in rows
    ]
    assert [{k: v for k, v in record.items() if k != "features"} for record in records] == expected
    for record, (*_, cell) in zip(records, rows, strict=True):
        value = record.get("features", {}).get("f", "")
        assert value == cell or str(value).lower() == cell.strip().lower() or float(value) == float(cell)


# Real streams


@pytest.mark.skipif(not SETS.is_dir(), reason="the labelled streams are not beside the repository")
@pytest.mark.parametrize(
    ("name", "count"), [("sms_spam", 5_574), ("weka_vote", 435), ("river_solarflare", 1_066)]
)
def test_every_event_of_a_real_stream_is_read(name, count):
    events = [decode_event(raw, EventSchema()) for raw in read_events(SETS / f"{name}.jsonl.gz")]
    assert len(events) == count
    assert all(event.label for event in events)
    order = read_rows_order(SETS / f"{name}.shuffle7.txt.gz")
    assert sorted(order) == list(range(count))


# What text files are written with


def notes_of(path, **columns):
    """The records of a file, parsed, and what is noted of it."""
    notes = []
    with open_counted(path, CsvColumns(**columns), notes.append) as events:
        return [json.loads(raw) for raw in events], notes


@pytest.mark.parametrize("name", ["E.CSV", "e.Csv", "E.CSV.GZ"])
def test_a_name_in_capitals_says_the_same(tmp_path, name):
    content = b"id,f\n1,2\n"
    write(tmp_path / name, gzip.compress(content) if name.endswith("GZ") else content)
    assert format_of(name).has_columns
    assert [json.loads(raw) for raw in read_events(tmp_path / name)] == [{"id": "1", "features": {"f": 2}}]


def test_zeros_behind_gzip_are_padding(tmp_path):
    for padding in (b"\0", b"\0" * 5000):
        padded = gzip.compress(CONTENT[:1001]) + padding + gzip.compress(CONTENT[1001:]) + padding
        assert list(read_events(write(tmp_path / "e.jsonl.gz", padded))) == LINES
    _, message = until_error(read_events(write(tmp_path / "e.jsonl.gz", gzip.compress(CONTENT) + b"\0x")))
    assert "damaged" in message


@pytest.mark.parametrize("name", ["e.jsonl.zst", "bare"])
def test_skippable_frames_of_zstandard_are_skipped(tmp_path, name):
    frames = [b"%c\x2a\x4d\x18\x05\0\0\0hello" % kind for kind in (0x50, 0x5F)]
    first, second = map(zstandard.compress, (CONTENT[:1001], CONTENT[1001:]))
    content = frames[0] + frames[1] + first + frames[0] + second + frames[1]
    assert list(read_events(write(tmp_path / name, content))) == LINES


@pytest.mark.parametrize(
    "content",
    [
        b'[{"id": "1"},\n{"id": "2"}]\n',
        b'\n[\n  {\n    "id": "1"\n  },{"id": "2"}\n]',
        b'\xef\xbb\xbf[ {"id": "1"}, {"id": "2"}]',
        b'{\n  "id": "1"\n}\n{\n  "id": "2"}',
        '{"id": "1"}\n{"id": "2"}\n'.encode("utf-16-le"),
        '[{"id": "1"}, {"id": "2"}]\n'.encode("utf-16"),
    ],
)
@pytest.mark.parametrize("name", ["e.json", "e.csv", "e"])
def test_json_of_another_form_is_read_by_its_content(tmp_path, content, name):
    records, notes = notes_of(write(tmp_path / name, content))
    assert records == [{"id": "1"}, {"id": "2"}]
    assert all("read with " in note for note in notes)
    assert len(notes) == 1


def test_a_line_that_is_an_array_is_a_line(tmp_path):
    lines = [b'["m-19", "ham"]', b'{"id": "1"}', b'[{"id": "2"}]']
    assert list(read_events(write(tmp_path / "e.jsonl", b"\n".join(lines)))) == lines


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-be", "utf-16-le"])
def test_utf_16_is_read_by_its_byte_order_mark(tmp_path, encoding):
    for name, text in (
        ("e.csv", "id,text\n1,caf\u00e9 \u20ac\n"),
        ("e.jsonl", '{"id":"1","text":"caf\u00e9 \u20ac"}\n'),
    ):
        mark = "" if encoding == "utf-16" else "\ufeff"
        records, notes = notes_of(write(tmp_path / name, (mark + text).encode(encoding)))
        assert (records, notes) == ([{"id": "1", "text": "caf\u00e9 \u20ac"}], [])
        for stated in (encoding, "utf8"):
            assert notes_of(tmp_path / name, encoding=stated)[0] == records


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
def test_utf_16_without_a_mark_is_sniffed(tmp_path, encoding):
    path = write(tmp_path / "e.csv", "id,text\n1,abc\n".encode(encoding))
    said = f"{path}: read with encoding {encoding} (--encoding)"
    assert notes_of(path) == ([{"id": "1", "text": "abc"}], [said])
    path = write(tmp_path / "e.csv", "id,text\n1,abc\n".encode("utf-16-le"))
    with pytest.raises(LogError, match="holds NUL characters"):
        list(read_events(path, CsvColumns(encoding="utf-8")))
    assert notes_of(path, encoding="utf-16-le") == ([{"id": "1", "text": "abc"}], [])


def test_utf_16_that_ends_too_early_is_damaged(tmp_path):
    path = write(tmp_path / "e.csv", "id,text\n1,abc\n".encode("utf-16")[:-1])
    assert "damaged" in until_error(read_events(path))[1]


@pytest.mark.parametrize(
    ("name", "row"),
    [
        ("e.csv", "%d,caf\u00e9 \u201cx\u201d\n"),
        ("e.jsonl", '{"id":"%d","text":"caf\u00e9 \u201cx\u201d"}\n'),
    ],
)
def test_what_is_not_utf_8_is_noted_once_and_read_where_its_encoding_is_given(tmp_path, name, row):
    header = "id,text\n7,plain\n" if name == "e.csv" else '{"id":"7","text":"plain"}\n'
    path = write(tmp_path / name, (header + row % 8 + row % 9).encode("cp1252"))
    assert notes_of(path)[1] == [f"{path}: read with encoding cp1252 (--encoding)"]
    assert notes_of(path)[0] == notes_of(path, encoding="cp1252")[0]
    notes = []
    with open_counted(path, CsvColumns(encoding="utf-8"), notes.append) as events:
        raws = list(events)
    where = "row 1" if name == "e.csv" else "line 2"
    remedy = "--encoding NAME sets the encoding of the file, such as cp1252"
    assert notes == [f"{path}: {where} is not utf-8, and becomes a dead letter: {remedy}"]
    for raw in raws[1:]:
        with pytest.raises(MalformedEvent, match="invalid-utf8"):
            decode_event(raw, EventSchema())
    records, notes = notes_of(path, encoding="cp1252")
    assert [record["text"] for record in records] == [
        "plain",
        "caf\u00e9 \u201cx\u201d",
        "caf\u00e9 \u201cx\u201d",
    ]
    assert notes == []


def test_json_lines_of_another_encoding_are_recognised_if_each_has_its_letters(tmp_path):
    lines = "".join(f'{{"id": "{n}", "text": "caf\u00e9", "label": "a"}}\n' for n in range(9))
    for name in ("e.jsonl", "bare"):
        records, notes = notes_of(write(tmp_path / name, lines.encode("cp1252")))
        assert records == [{"id": f"{n}", "text": "caf\u00e9", "label": "a"} for n in range(9)]
        assert notes == [f"{tmp_path / name}: read with encoding cp1252 (--encoding)"]


PADDED = [
    "id ,ts , x , label\nk1 , 5 ,2.5 ,a  \nk2,6,, b\n",
    " id |  ts | x   | label \n k1 |   5 | 2.5 | a\n k2 |   6 |     | b\n",
    "| id | ts | x | label |\n|---|---|---|---|\n| k1 | 5 | 2.5 | a |\n| k2 | 6 | | b |\n| k3 | 7 | 1 | a |\n",
]


@pytest.mark.parametrize("text", PADDED)
def test_blanks_around_the_names_of_columns_are_no_part_of_them_nor_of_cells(tmp_path, text):
    records, notes = notes_of(write(tmp_path / "e.csv", text.encode()))
    assert records[:2] == [
        {"id": "k1", "ts": 5, "features": {"x": 2.5}, "label": "a"},
        {"id": "k2", "ts": 6, "label": "b", "features": {}},
    ]
    assert len(notes) == 1
    assert "blanks around names and cells left out" in notes[0]


@pytest.mark.parametrize(
    ("text", "columns", "features"),
    [
        ("id,x ,y\n1,a ,b\n", {"label": "x "}, {"y": "b"}),
        ("id,x ,y\n1,a ,b\n", {"strings": frozenset({"x "})}, {"x ": "a ", "y": "b"}),
        ("id,x,x \n1,a ,b\n", {}, {"x": "a ", "x ": "b"}),
        ("id,x,y\n1,a ,b\n", {}, {"x": "a ", "y": "b"}),
    ],
)
def test_blanks_stay_if_an_option_names_them_or_two_names_differ_by_them(text, columns, features):
    (record,) = table(text, **columns)
    assert record["features"] == features


def test_rows_below_the_sample_are_without_blanks_too():
    rows = table("id,x \n" + "".join(f"{n},v{n} \n" for n in range(3_000)))
    assert [row["features"]["x"] for row in rows] == [f"v{n}" for n in range(3_000)]


def test_a_repeated_name_is_refused_with_options_that_read_the_table(tmp_path):
    path = write(tmp_path / "e.csv", b"title\n\nid,x,x\n7,2,3\n8,4,5\n")
    with pytest.raises(ConfigError, match=r"--no-header --skip 3 names the columns c1, c2 and so on$"):
        list(read_events(path))
    assert notes_of(path, has_header=False, skipped=3)[0][0]["features"] == {"c1": 7, "c2": 2, "c3": 3}


def test_the_first_line_may_name_the_delimiter():
    assert table("sep=|\nid|a;b\n1|2;3\n") == [{"id": "1", "features": {"a;b": "2;3"}}]
    assert table("sep=;\r\nid;a\r\n1;2\r\n") == [{"id": "1", "features": {"a": 2}}]
    assert table("sep=;\nid,a\n1,2\n", delimiter=",") == [{"id": "1", "features": {"a": 2}}]


def test_empty_lines_before_the_header_are_none():
    assert table("\n\r\nid,a\n1,2\n", must_have_label=False) == [{"id": "1", "features": {"a": 2}}]


@pytest.mark.parametrize(
    ("decimal", "thousands", "cell", "value"),
    [
        (",", "", "1010,44", 1010.44),
        (",", "", " -,5e1 ", -5.0),
        (",", "", "12", 12),
        (",", "", "1.5", "1.5"),
        (",", "", "1.010,5", "1.010,5"),
        (",", "", "true", True),
        (",", "", "12345678901234567890", "12345678901234567890"),
        (",", ".", "1.010,44", 1010.44),
        (",", ".", "1.234.567", 1234567),
        (",", ".", "1.23", "1.23"),
        (",", ".", "0.125", "0.125"),
        (",", ".", "012.345", "012.345"),
        (".", ",", "-0,125", "-0,125"),
        (".", " ", "0 12 345", "0 12 345"),
        (".", ",", "9,012.30", 9012.3),
        (".", ",", "9012.30", 9012.3),
        (".", ",", "12,34,567", 1234567),
        (".", ",", "1,2", "1,2"),
        (".", ",", ",123", ",123"),
        (".", ",", "1,234,567,890,123,456,789", "1234567890123456789"),
        (",", " ", "1\u202f234,5", 1234.5),
        (",", " ", "1\u00a0234", 1234),
        (".", "'", "1\u2019234.5", 1234.5),
    ],
)
def test_numbers_are_read_in_the_notation_that_is_given(decimal, thousands, cell, value):
    (event,) = table(f'f\n"{cell}"\n', decimal=decimal, thousands=thousands)
    assert event["features"] == {"f": value}
    assert type(event["features"]["f"]) is type(value)


@pytest.mark.parametrize("ts", ["1790000000.25", "1790000000,25"])
def test_a_time_is_read_with_a_point_too(ts):
    assert table(f"ts;f\n{ts};1\n", decimal=",")[0]["ts"] == 1790000000.25


def test_a_time_of_many_digits_is_a_number_that_is_refused_as_one():
    (raw,) = rows_to_events(["ts,f\n", "1790000000123456789,1\n"], CsvColumns())
    with pytest.raises(MalformedEvent, match="nanoseconds"):
        decode_event(raw, EventSchema())


def test_missing_cells_are_so_in_every_column():
    header = "id,label,text,ts,f\n"
    assert table(header + "NA,NA,NA,NA,NA\n", missing=("", "NA")) == [{"id": ""}]
    assert table(header + "1,a,NA,5,?\n", missing=("", "?")) == [
        {"id": "1", "label": "a", "text": "NA", "ts": 5}
    ]
    assert table("f\n1\n", missing=("", "0")) == [{"id": "0", "features": {"f": 1}}], "the row's number"
    with pytest.raises(LogError, match="no event has a label"):
        table(header + "1,NA,a,,1\n", missing=("", "NA"), must_have_label=True)


DIGITS = ["1234567890123456789", "1234567890123456790", "99999999999999999999999"]


def test_whole_numbers_that_no_double_holds_keep_their_digits():
    rows = "f\n" + "\n".join(DIGITS) + "\n"
    assert [record["features"]["f"] for record in table(rows)] == DIGITS
    declared = EventSchema((AttributeSpec("f", "nominal", "$.features.f"),))
    for raw, digits in zip(rows_to_events(io.StringIO(rows), CsvColumns()), DIGITS, strict=True):
        assert decode_event(raw, declared).x == {"f": digits}
        as_json = b'{"id": "1", "features": {"f": %s}}' % digits.encode()
        assert decode_event(as_json, declared).x == {"f": digits}, "as of JSON"
    numbers = table(rows, numbers=frozenset("f"))
    assert [record["features"]["f"] for record in numbers] == list(map(float, DIGITS))


# Quotes


SWALLOWING = "id\tlabel\ttext\n" + '1\ta\t"free cash\n2\tb\tnoon\n3\ta\t"win" now\n4\tb\tlunch"\n' * 3
SNIFFED = {
    "e.tsv": "read with quotes as ordinary characters (--quoting)",
    "e.csv": "read with delimiter tab (--delimiter); quotes as ordinary characters (--quoting)",
}


@pytest.mark.parametrize("name", ["e.tsv", "e.csv"])
def test_a_table_of_tabs_without_quoting_loses_no_row(tmp_path, name):
    records, notes = notes_of(write(tmp_path / name, SWALLOWING.encode()))
    assert [record["text"] for record in records] == ['"free cash', "noon", '"win" now', 'lunch"'] * 3
    assert notes == [f"{tmp_path / name}: {SNIFFED[name]}"]


def test_a_table_of_tabs_with_quoting_is_read_so(tmp_path):
    text = 'id\ttext\n1\t"a\tb"\n2\t"say ""x"""\n3\tc\n'
    records, notes = notes_of(write(tmp_path / "e.tsv", text.encode()))
    assert ([record["text"] for record in records], notes) == (["a\tb", 'say "x"', "c"], [])
    path = write(
        tmp_path / "e.tsv", ('"id"\t"text"\n' + text.replace("a\t", "a\n")[8:] + '4\t"d\ne"\n').encode()
    )
    records, notes = notes_of(path)
    assert [record["text"] for record in records] == ["a\nb", 'say "x"', "c", "d\ne"]
    told = "row 0 is 2 lines, which a quote makes one; --no-quoting reads quotes as ordinary characters"
    assert notes == [f"{path}: {told}"]


def test_quotes_behind_the_first_lines_of_tabs_are_characters(tmp_path):
    plain = "id\ttext\n" + "1\ta\n" * event_csv._FIRST
    records, _ = notes_of(write(tmp_path / "e.tsv", (plain + '2\t"b\n3\tc\n').encode()))
    assert [record["text"] for record in records[-2:]] == ['"b', "c"]


def test_whether_quotes_enclose_cells_can_be_said():
    assert table('id,text\n1,"a\n2,b"\n', quoting=False) == [
        {"id": "1", "text": '"a'},
        {"id": "2", "text": 'b"'},
    ]
    assert len(table(SWALLOWING, quoting=True)) < 12


def test_rows_that_quotes_may_have_swallowed_are_noted_once(tmp_path):
    header = "id,label,text\n"
    for rows, told in [
        ('1,a,"free\n2,b,noon"\n3,a,"x\n4,b,y"\n', "row 0 is 2 lines, which a quote makes one"),
        ('1,a,x\n2,b,"win" now\n', "row 1 is not CSV ("),
        ('1,a,"free\ncash, noon"\n', None),
    ]:
        _, notes = notes_of(write(tmp_path / "e.csv", (header + rows).encode()))
        assert len(notes) == (told is not None)
        assert told is None or (told in notes[0] and " --no-quoting reads quotes" in notes[0])


def test_a_quote_that_is_never_closed_says_how_many_lines_it_takes(tmp_path):
    rows = [f"{n},a,noon {n}\n" for n in range(60)]
    rows[10] = '10,a,"noon\n'
    path = write(tmp_path / "e.csv", "".join(["id,label,text\n", *rows]).encode())
    told = f"{path}: row 10 is not CSV (unexpected end of data) and takes 50 lines: --no-quoting reads"
    records, (note,) = notes_of(path)
    assert (len(records), note.startswith(told)) == (11, True)
    rows[40] = '40,a,"win, free"\n'
    _, (note,) = notes_of(write(path, "".join(["id,label,text\n", *rows]).encode()))
    assert "row 10 is not CSV (',' expected after '\"') and takes 31 lines: --no-quoting" in note
    rows[40] = '40,a,win "free"\n'
    rows[10], rows[41] = '10,"noon\n', '41,a"\n'
    _, (note,) = notes_of(write(path, "".join(["id,label,text\n", *rows]).encode()))
    assert ("row 10 is not CSV" in note, "and takes 31 lines" in note) == (True, True)
    rows[40] = rows[39]
    _, (note,) = notes_of(write(path, "".join(["id,label,text\n", *rows]).encode()))
    assert "row 10 is 32 lines, which a quote makes one; --no-quoting" in note


def test_quotes_behind_backslashes_are_not_to_be_read_without_quoting(tmp_path):
    rows = "".join(f'{n},a,"he said \\"hi\\", ok"\n' for n in range(9))
    _, (note,) = notes_of(write(tmp_path / "e.csv", ("id,label,text\n" + rows).encode()))
    assert note.endswith('a quote inside quotes is written twice (""), not behind a backslash')
    assert "--no-quoting" not in note


def test_whole_numbers_that_lose_leading_zeros_are_noted_once(tmp_path):
    rows = "".join(f"{n},a,0050{n % 9},0.5,0,{n % 7:02}\n" for n in range(3000))
    path = write(tmp_path / "e.csv", ("id,label,zip,x,y,m\n" + rows).encode())
    _, (note,) = notes_of(path)
    keeps = 'kind = "nominal" in [[attributes]] keeps what is written'
    assert note == f"{path}: $.features.zip, $.features.m: 00500 is read as the number 500; {keeps}"
    records, notes = notes_of(path, names=frozenset({"zip", "x"}), numbers=frozenset({"m"}))
    assert (records[1]["features"], notes) == ({"zip": "00501", "x": 0.5, "y": 0, "m": 1}, [])
    late = "".join(f"{n},a,{'007' if n == 2000 else n}\n" for n in range(3000))
    _, (note,) = notes_of(write(path, ("id,label,zip\n" + late).encode()))
    assert "$.features.zip: 007 is read as the number 7" in note


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (
            gzip.compress(b"PK\x03\x04\x14\0\0\0"),
            "a ZIP archive, whose reader must seek: decompress the file",
        ),
        (b"\xd0\xcf\x11\xe0\xa1\xb1", "an old document of Microsoft Office; if it is a workbook of Excel"),
        (gzip.compress(b"PAR1\x15\0"), "Parquet, whose reader must seek: decompress the file"),
        (gzip.compress(gzip.compress(b"id\n1\n")), "compressed twice: decompress it once, as `gunzip` does"),
        (gzip.compress(zstandard.compress(b"id\n1\n")), "compressed twice: decompress it once, as `unzstd`"),
        (b"{'id': 1, 'label': 'a'}\n", "dicts as Python prints them"),
        (b'{"id": 1, "x": {"y": 2}},\n' * 9, "objects of JSON with commas between them, but no array"),
    ],
    ids=[
        "zip",
        "xls",
        "parquet",
        "gzip twice",
        "zstd in gzip",
        "dicts",
        "commas",
    ],  # gzip writes the time
)
def test_what_is_no_text_is_refused_as_what_it_is(tmp_path, content, told):
    for name in ("e.csv", "e.jsonl"):
        path = write(tmp_path / name, content)
        with pytest.raises(LogError, match=re.escape(f"{name}: is {told}")):
            list(read_events(path))


@pytest.mark.parametrize("content", ["id\n1\n".encode("utf-32"), "\ufeffid\n1\n".encode("utf-32-be")])
def test_utf_32_is_read_by_its_byte_order_mark(tmp_path, content):
    assert notes_of(write(tmp_path / "e.csv", content)) == ([{"id": "1"}], [])


# Parquet


def parquet_of(path, **columns):
    import pyarrow as pa
    from pyarrow import parquet

    parquet.write_table(pa.table(columns), path, row_group_size=700)
    return path


def test_rows_of_parquet_keep_the_types_of_their_columns(tmp_path):
    """A text of digits stays a text; what is missing is left out; times are in UTC; ids and labels are texts."""
    path = parquet_of(
        tmp_path / "e.parquet",
        id=[7, 8],
        ts=[datetime(2026, 1, 2, 3, tzinfo=UTC), None],
        text=["a b", None],
        zip=["007", "1e3"],
        amount=[Decimal("1.50"), None],
        share=[float("nan"), 0.0],
        fresh=[True, False],
        since=[datetime(2026, 1, 2), None],  # noqa: DTZ001  as most tables have it
        tags=[["x"], None],
        label=[1.0, None],
    )
    first, second = map(json.loads, read_events(path))
    assert first == {
        "id": "7", "ts": "2026-01-02T03:00:00+00:00", "text": "a b", "label": "1",
        "features": {"zip": "007", "amount": 1.5, "fresh": True, "since": "2026-01-02T00:00:00+00:00", "tags": ["x"]},
    }  # fmt: skip
    assert second == {"id": "8", "features": {"zip": "1e3", "share": 0.0, "fresh": False}}
    assert decode_event(next(read_events(parquet_of(tmp_path / "f.parquet", n=[1]))), EventSchema()).x == {
        "n": 1.0
    }


def test_columns_of_parquet_are_named_as_those_of_csv(tmp_path):
    path = parquet_of(tmp_path / "e.parquet", key=["k"], kind=["spam"], n=[1])
    [row] = read_events(path, CsvColumns(id="key", label="kind"))
    assert json.loads(row) == {"id": "k", "label": "spam", "features": {"n": 1}}
    with pytest.raises(ConfigError, match="no column 'x' for label; there are key, kind, n"):
        list(read_events(path, CsvColumns(label="x")))
    with pytest.raises(LogError, match="no event has a label: there is no column 'label'"):
        list(read_events(path, CsvColumns(must_have_label=True)))


def test_a_column_of_parquet_that_is_named_twice_is_an_error_of_parquet(tmp_path):
    import pyarrow as pa
    from pyarrow import parquet

    parquet.write_table(pa.table([[1], [2]], names=["a,b", "a,b"]), tmp_path / "e.parquet")
    with pytest.raises(ConfigError, match=r"e\.parquet: Parquet: column 'a,b' is named twice$"):
        list(read_events(tmp_path / "e.parquet"))


def test_parquet_that_is_damaged_or_none_is_named(tmp_path):
    path = parquet_of(tmp_path / "e.parquet", id=list(map(str, range(2000))), n=list(range(2000)))
    whole = path.read_bytes()
    for content in (b"", b"id,label\n1,a\n", whole[:-1], whole[: len(whole) // 2]):
        path.write_bytes(content)
        with pytest.raises(LogError, match=r"e\.parquet: no Parquet that can be read"):
            list(read_events(path))
    path.write_bytes(whole)
    with open_counted(path) as events:
        places = [events.position for _ in events]
    assert places == sorted(places)
    assert (len(places), places[-1], events.line) == (2000, path.stat().st_size, 2000)


def test_without_pyarrow_parquet_says_what_to_install(tmp_path, monkeypatch):
    path = parquet_of(tmp_path / "e.parquet", id=["a"])
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ConfigError, match=r"pip install 'streamnb\[parquet\]'"):
        list(read_events(path))


OTHERS = {
    "a PDF document": b"%PDF-1.4\n%\xe2\xe3\xcf\xd3\n1 0 obj\n" * 9,
    "SQLite": b"SQLite format 3\0" + bytes(range(256)) * 9,
    "a pickle of Python": pickle.dumps([{"a": 1}] * 9),
    "a pickle of Python,": pickle.dumps([{"a": 1}] * 9, protocol=0),
    "an old document of Microsoft Office": b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(900),
    "binary, of no known format": random.Random(1).randbytes(3000),
    "a tar archive": b"name".ljust(257, b"\0") + b"ustar\x0000" + bytes(600),
}


@pytest.mark.parametrize(
    "suffix", ["", ".csv", ".arff", ".jsonl", ".mbox", ".eml", ".vw", ".parquet", ".feather", ".avro", ".zip"]
)
@pytest.mark.parametrize("what", OTHERS)
def test_other_content_is_named_whatever_the_name_says(tmp_path, what, suffix):
    path, notes = tmp_path / f"e{suffix}", []
    path.write_bytes(OTHERS[what])
    with (
        pytest.raises(LogError, match=f"is {what}"),
        open_counted(path, CsvColumns(), notes.append) as events,
    ):
        list(events)
    assert notes == []
