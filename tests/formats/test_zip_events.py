"""ZIP archives: members are read in their own formats, and other content is named as what it is."""

from __future__ import annotations

import gzip
import io
import pickle
import random
import sqlite3
import tarfile
import zipfile

import numpy as np
import pytest

from streamnb.errors import ConfigError, LogError
from streamnb.formats import zip_events
from streamnb.formats.event_files import open_counted
from tests.support.read_events import read

LINES = b'{"id":"a","text":"x"}\n{"id":"b","text":"y"}\n'
CSV = b"id,label,x\n1,p,2\n"


def archive(path, members, compression=zipfile.ZIP_DEFLATED):
    with zipfile.ZipFile(path, "w", compression) as out:
        for name, content in members.items():
            out.writestr(name, content)
    return path


@pytest.mark.parametrize(
    "compression", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA]
)
def test_one_member_is_read_as_a_file_of_its_name(tmp_path, compression):
    path = archive(
        tmp_path / "e.zip", {"d/": b"", "d/e.csv": CSV, "__MACOSX/e.csv": b"\0", "d/.DS": b"\0"}, compression
    )
    assert read(path) == [{"id": "1", "features": {"x": 2}, "label": "p"}]
    path.rename(tmp_path / "data")
    assert read(tmp_path / "data", label="x")[0]["label"] == "2"


def test_several_members_follow_one_another_or_one_is_chosen(tmp_path):
    rows = b"label,x\np,1\n"
    members = {"1.csv": CSV, "2.csv.gz": gzip.compress(rows), "3.csv": rows, "4.csv": b"", "5.jsonl": LINES}
    notes = []
    path = archive(tmp_path / "e.zip", dict(list(members.items())[:4]))
    events = read(path, notes)
    assert [event["features"]["x"] for event in events] == [2, 1, 1]
    assert len({event["id"] for event in events}) == 3
    assert [note.event for note in notes] == ["columns-differ", "columns-differ", "file-without-events"]
    archive(path, members)
    assert read(path, member="3.csv") == [{"id": "0", "features": {"x": 1}, "label": "p"}]
    assert len(read(path, member="5.jsonl", format="jsonl")) == 2
    with pytest.raises(LogError, match=r"--member 6\.csv: the archive has 5 members"):
        read(path, member="6.csv")


@pytest.mark.parametrize(
    ("other", "why"),
    [
        (("b.jsonl", LINES), "--format 'jsonl', but a.csv with 'csv'"),
        (("b.csv", b"id;label;x\n1;p;2,5\n2;p;2,5\n3;p;1,5\n"), "--delimiter ';', but a.csv with ','"),
        (("b.csv", "id,label,x\n1,p,\u20ac\n".encode("cp1252")), "--encoding 'cp1252', but a.csv with not needed"),
        (("b.csv", b"7,q,9\n8,q,9\n9,q,9\n"), "--header False, but a.csv with True"),
    ],
)  # fmt: skip
def test_a_member_that_is_read_otherwise_is_refused_before_any_event(tmp_path, other, why):
    path = archive(tmp_path / "e.zip", {"a.csv": CSV, other[0]: other[1]})
    with (
        open_counted(path) as events,
        pytest.raises(ConfigError, match="--member NAME reads one file") as caught,
    ):
        next(iter(events))
    assert f"{path}: {other[0]} is read with {why}" in str(caught.value)
    assert read(path, member="a.csv") == [{"id": "1", "features": {"x": 2}, "label": "p"}]


def test_mails_in_folders_have_their_folders_as_labels(tmp_path):
    path = archive(tmp_path / "m.zip", {f"m/{label}/{n}": f"Subject: {label} {n}\n\nx" for label in ("ham", "spam") for n in range(2)})  # fmt: skip
    assert [(event["label"], event["text"]) for event in read(path)] == [
        ("ham", "ham 0\n\nx"), ("ham", "ham 1\n\nx"), ("spam", "spam 0\n\nx"), ("spam", "spam 1\n\nx"),
    ]  # fmt: skip


def test_workbooks_encrypted_and_damaged_archives_are_named(tmp_path):
    path = archive(tmp_path / "b.xlsx", {"xl/workbook.xml": b"<x/>", "[Content_Types].xml": b""})
    with pytest.raises(
        LogError, match="is a workbook of Excel: `libreoffice --headless --convert-to csv FILE`"
    ):
        read(path)
    path = archive(tmp_path / "empty.zip", {})
    with pytest.raises(LogError, match="without a file"):
        read(path)
    path = archive(tmp_path / "e.zip", {"e.jsonl": LINES * 1000})
    content = bytearray(path.read_bytes())
    path.write_bytes(content[:-30])
    with pytest.raises(LogError, match="damaged"):
        read(path)
    secret = bytearray(content)
    secret[6] |= 1
    secret[content.rindex(b"PK\x01\x02") + 8] |= 1
    path.write_bytes(secret)
    with pytest.raises(LogError, match=r"e\.jsonl is encrypted"):
        read(path)
    content[100] ^= 255
    path.write_bytes(content)
    with pytest.raises(LogError, match="damaged"):
        read(path)
    path = archive(tmp_path / "in.zip", {"b.zip": (tmp_path / "empty.zip").read_bytes()})
    with pytest.raises(
        LogError, match=r"b\.zip: is a ZIP archive, whose reader must seek: decompress the file"
    ):
        read(path)


def test_an_archive_expands_within_a_limit(tmp_path, monkeypatch):
    monkeypatch.setattr(zip_events, "_FREE", 1000)
    monkeypatch.setattr(zip_events, "_MOST_TIMES", 10)
    path = archive(tmp_path / "e.zip", {"e.jsonl": b'{"id":"a","text":"x"}\n' * 10_000})
    with pytest.raises(LogError, match="expands to more than 10 times its size"):
        read(path)


def database(path):
    with sqlite3.connect(path) as log:
        log.execute("create table t (x)")
    log.close()
    return path.read_bytes()


def tar(path):
    (path.parent / "a.csv").write_bytes(CSV)
    with tarfile.open(path, "w") as out:
        out.add(path.parent / "a.csv", "a.csv")
    return path.read_bytes()


def array():
    out = io.BytesIO()
    np.save(out, np.zeros(3))
    return out.getvalue()


NOT_EVENTS = {
    "PDF": lambda _: b"%PDF-1.7\n%\xe2\xe3\xcf\xd3\n1 0 obj\n",
    "SQLite": database,
    "pickle": lambda _: pickle.dumps({"a": [1, 2]}),
    "tar": tar,
    "NumPy": lambda _: array(),
    "old document": lambda _: b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(500),
    "7-Zip": lambda _: b"7z\xbc\xaf\x27\x1c\0\4",
    "picture": lambda _: b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR",
    "program": lambda _: b"\x7fELF\2\1\1\0",
    "page of HTML": lambda _: b"\n<!DOCTYPE html>\n<html><body>404",
    "XML": lambda _: b'<?xml version="1.0"?>\n<a/>',
    "Git LFS": lambda _: b"version https://git-lfs.github.com/spec/v1\noid sha256:00\n",
    "binary": lambda _: random.Random(7).randbytes(3000),
}


@pytest.mark.parametrize("is_compressed", [False, True])
@pytest.mark.parametrize("what", NOT_EVENTS)
def test_what_is_not_read_is_named_in_one_sentence(tmp_path, what, is_compressed):
    content = NOT_EVENTS[what](tmp_path / "made")
    for name in ("e", "e.jsonl", "e.csv"):
        path = tmp_path / (f"{name}.gz" if is_compressed else name)
        path.write_bytes(gzip.compress(content) if is_compressed else content)
        with pytest.raises(LogError) as caught:
            read(path)
        assert f"{path}: is " in str(caught.value)
        assert what in str(caught.value)
        assert "\n" not in str(caught.value)
