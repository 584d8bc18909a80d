"""Files whose name or line ends are not what a reader expects: read as they are, or one sentence."""

from __future__ import annotations

import json

import pytest

from streamnb.errors import LogError
from streamnb.formats.event_columns import CsvColumns
from streamnb.formats.event_files import read_events


def test_a_tsv_without_tabs_is_read_by_its_own_delimiter(tmp_path):
    path = tmp_path / "table.tsv"
    path.write_text("a;b;label\n1;2;x\n2;3;y\n")
    events = [json.loads(one) for one in read_events(path, CsvColumns(makes_ids=True))]
    assert [(one["features"], one["label"]) for one in events] == [
        ({"a": 1, "b": 2}, "x"),
        ({"a": 2, "b": 3}, "y"),
    ]


def test_a_tsv_with_tabs_may_have_other_delimiters_in_its_cells(tmp_path):
    path = tmp_path / "table.tsv"
    path.write_text("text\tlabel\na;b;c;d\tx\ne;f;g;h\ty\n")
    events = [json.loads(one) for one in read_events(path, CsvColumns(makes_ids=True))]
    assert [(one["text"], one["label"]) for one in events] == [("a;b;c;d", "x"), ("e;f;g;h", "y")]


@pytest.mark.parametrize("content", [b"no Avro at all\nmore\n", b"", b"Obj"])
def test_what_is_not_avro_is_refused_by_its_first_bytes(tmp_path, content):
    path = tmp_path / "rows.avro"
    path.write_bytes(content)
    with pytest.raises(LogError, match=r"is not an Avro container file: it begins with"):
        list(read_events(path, CsvColumns(format="avro")))


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.svm", b"1 1:2\r0 1:3\r"),
        ("a.vw", b"1 | a b\r-1 | c\r"),
        ("a.jsonl", b'{"text":"a"}\r{"text":"b"}\r'),
    ],
)
def test_lines_that_end_with_carriage_returns_alone_are_refused(tmp_path, name, content):
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(LogError, match="end with a carriage return alone; convert them: tr"):
        list(read_events(path, CsvColumns(makes_ids=True)))


def test_a_single_line_may_end_with_one(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_bytes(b'{"id": "1", "text": "a"}\r')
    assert len(list(read_events(path, CsvColumns(makes_ids=True)))) == 1
