"""A reader for each format of files of events, with small files that it can read, to be mutated."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import random
import zipfile
from collections.abc import Callable, Iterable
from contextlib import suppress
from itertools import chain, islice
from pathlib import Path

import pyarrow as pa
import zstandard
from pyarrow import feather, ipc, parquet

from streamnb.errors import MalformedEvent, StreamnbError
from streamnb.evaluation.data_quality import DataQuality
from streamnb.evaluation.input_files import settled_files
from streamnb.formats.codec import decode_event
from streamnb.formats.event_columns import CsvColumns, ignore_note
from streamnb.formats.event_files import open_counted
from streamnb.formats.event_formats import FORMAT_NAMES, FORMATS
from streamnb.formats.event_schema import EventSchema

_MOST = 20_000  # events of one file
_LOOKED_AT = 200  # events that data quality checks
_ROWS = [
    {
        "id": f"e{n}",
        "x": [1.5, -2.0, None][n % 3],
        "c": ["red", "blue é", ""][n % 3],
        "when": f"2026-01-{n + 1:02d}",
        "label": "ab"[n % 2],
    }
    for n in range(9)
]
_SCHEMA = EventSchema()
_READ = CsvColumns(
    makes_ids=True, leaves_out_dates=True, flat=frozenset(("id", "label", "ts", "text", "features"))
)
_WAYS = (_READ, CsvColumns(has_content_ids=True, must_have_label=True, label="class"))
_OPTIONS = {
    "format": ["", "", *FORMAT_NAMES],
    "id": ["id", "x", "c1", None],
    "label": ["label", "class", "c", "c2"],
    "text": ["text", "s", "c", None],
    "ts": ["ts", "when", "x"],
    "delimiter": ["", "", ",", ";", "\t", "|", " ", ", "],
    "quote": ["", "", '"', "'"],
    "quoting": [None, None, True, False],
    "has_header": [None, None, True, False],
    "skipped": [None, None, 0, 1, 3],
    "comment": ["", "", "#", "%"],
    "decimal": ["", "", ".", ","],
    "thousands": ["", "", " ", "'"],
    "missing": [("",), ("", "NA", "?"), ("", "0", "-9")],
    "encoding": ["", "", "", "latin-1", "cp1252", "utf-16", "utf-16-le", "shift_jis"],
    "member": ["", "", "a.csv", "spam/1.eml"],
    "strings": [frozenset(), frozenset(("x", "c"))],
    "names": [frozenset(), frozenset(("x", "c"))],
    "labels": [frozenset(), frozenset("c")],
    "numbers": [frozenset(), frozenset(("c", "when"))],
    "must_have_label": [False, True],
    "has_weights": [False, True],
    "has_content_ids": [False, True],
}
_COMPRESSED = {"gz": gzip.compress, "bz2": bz2.compress, "xz": lzma.compress, "zst": zstandard.compress}

_ARFF = """% title
@relation 'a b'
@attribute x numeric
@attribute 'the class' {a,'b c',"d"}
@attribute when date "yyyy-MM-dd"
@attribute s string
@data
1.5,a,2026-01-02,'it\\'s'
?,'b c',?,"x", {2.5}
{0 3, 1 d, 3 'y'}, {0.5}
"""
_MAIL = """From: =?utf-8?q?Ann_=C3=A9?= <ann@x.org>
To: bob@y.org
Subject: =?iso-8859-1?B?6Wc=?= news
Date: Mon, 05 Jan 2026 10:00:00 +0100
X-Label: spam
MIME-Version: 1.0
Content-Type: multipart/alternative; boundary="b"

--b
Content-Type: text/plain; charset=latin-1
Content-Transfer-Encoding: quoted-printable

free =E9ntry=20now
--b
Content-Type: text/html; charset="utf-8"
Content-Transfer-Encoding: base64

PHA+ZnJlZSA8Yj5ub3c8L2I+PC9wPg==
--b--
"""


def _table() -> pa.Table:
    more = {"l": [["a"], []], "s": [{"k": 1}, None], "d": [b"\xff", b"x"], "n": [None, None]}
    table = pa.Table.from_pylist(
        [row | {name: cells[n % 2] for name, cells in more.items()} for n, row in enumerate(_ROWS)]
    )
    return table.append_column("cat", pa.array([row["c"] for row in _ROWS]).dictionary_encode())


def _arrow(version: int | None) -> bytes:
    out, table = io.BytesIO(), _table()
    if version is None:
        with ipc.new_stream(out, table.schema) as writer:
            writer.write_table(table, max_chunksize=4)
    else:
        feather.write_feather(table, out, compression="zstd" if version else "uncompressed")
    return out.getvalue()


def _parquet(compression: str) -> bytes:
    out = io.BytesIO()
    parquet.write_table(_table(), out, compression=compression, row_group_size=4)
    return out.getvalue()


def _avro(codec: str) -> list[bytes]:
    try:
        import fastavro
    except ImportError:
        return []
    kinds = {"x": ["null", "double"]}
    fields = [{"name": name, "type": kinds.get(name, "string")} for name in _ROWS[0]]
    fields += [{"name": "e", "type": {"type": "enum", "name": "E", "symbols": ["p", "q"]}}]
    fields += [{"name": "m", "type": {"type": "map", "values": {"type": "array", "items": "long"}}}]
    out = io.BytesIO()
    rows = [row | {"e": "pq"[n % 2], "m": {"k": [n]}} for n, row in enumerate(_ROWS)]
    fastavro.writer(
        out, {"type": "record", "name": "row", "fields": fields}, rows, codec=codec, sync_interval=100
    )
    return [out.getvalue()]


def _zip(compression: int, members: dict[str, str]) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", compression) as archive:
        for name, text in members.items():
            archive.writestr(name, text)
    return out.getvalue()


def _csv(delimiter: str) -> str:
    rows = [list(_ROWS[0]), *([str(cell) for cell in row.values()] for row in _ROWS)]
    return "".join(delimiter.join(row) + "\r\n" for row in rows)


def _files() -> dict[str, list[str | bytes]]:
    """Return files of each format, except an index of mails, whose mails are files."""
    lines = "".join(
        json.dumps({"id": row["id"], "features": row, "label": row["label"]}) + "\n" for row in _ROWS
    )
    flat = "".join(json.dumps(row) + "\n" for row in _ROWS)
    document = json.dumps({"data": _ROWS}, indent=1)
    german = 'Bericht 2026\n\nname;wert;"Summe, alles"\n' + "".join(
        f"z{n};{n},5;1.00{n},2\n" for n in range(9)
    )
    mbox = f"From ann@x.org Mon Jan  5 10:00:00 2026\n{_MAIL}\nFrom bob Mon Jan  5 10:00:00 2026\n{_MAIL}>From x\n"
    plain = [lines, flat, json.dumps(_ROWS), document]
    return {
        "jsonl": [*plain, *(compress(lines.encode()) for compress in _COMPRESSED.values())],
        "csv": [_csv(","), german, german.encode("utf-16"), _csv("|").encode("latin-1"), "a,b\n'x',1\n#c\n"],
        "tsv": [_csv("\t"), 'a\tb\n"x\t1\n'],
        "parquet": [_parquet("snappy"), _parquet("none")],
        "feather": [_arrow(0), _arrow(1), b"FEA1"],
        "arrow-stream": [_arrow(None)],
        "avro": [*_avro("null"), *_avro("deflate")],
        "zip": [
            _zip(zipfile.ZIP_DEFLATED, {"a.csv": _csv(","), "b.jsonl": lines}),
            _zip(zipfile.ZIP_STORED, {"spam/1.eml": _MAIL, "ham/2.eml": _MAIL}),
            _zip(zipfile.ZIP_BZIP2, {"a.arff": _ARFF}),
        ],
        "arff": [_ARFF],
        "svmlight": ["+1 qid:3 1:0.5 7:-2e3 # c\n-1 2:1\n0 1:nan\n", "# head\n3 1:1\n"],
        "mbox": [mbox],
        "mail": [_MAIL],
        "mails": [_MAIL, mbox],
        "trec": ["spam inmail.1\nHam inmail.2\nHAM inmail.2\nham ../x/inmail.3 more\n"],
        "fasttext": ["__label__a free entry\n__label__b __label__c x\n"],
        "vw": ["1 2.0 'tag|a x:1 y |b:2 z w:0.5\n-1 |text see you\nshared |s a\n0:1:0.5 | a\n"],
    }


def file_readers(folder: Path) -> dict[str, tuple[Callable[[bytes], object], list[bytes]]]:
    """Return, for each format, a function that reads bytes as a file in a folder, and such files."""
    found = {}
    for form in FORMATS:
        files = [one.encode() if isinstance(one, str) else one for one in _files()[form.name]]
        found[f"{form.name} files"] = (_reader(form.name, form.suffixes, folder, files), files)
    return found


def _reader(
    name: str, suffixes: tuple[str, ...], folder: Path, files: list[bytes]
) -> Callable[[bytes], object]:
    """Return a function that reads bytes as a file, alone and with a valid one, with options drawn by them."""
    suffix = suffixes[0] if suffixes else ""
    path = folder / f"{name}{suffix}"
    if name == "mails":
        path.mkdir(exist_ok=True)
    if name == "trec":
        for n in range(3):
            (folder / f"inmail.{n}").write_text(_MAIL)
    other = folder / f"other{suffix}"
    if files and name != "mails":
        other.write_bytes(files[0])

    def read(raw: bytes) -> None:
        (path / "1" if name == "mails" else path).write_bytes(raw)
        draw = random.Random(raw)
        drawn = CsvColumns(**{option: draw.choice(values) for option, values in _OPTIONS.items()})
        for columns in (*_WAYS, CsvColumns(format=name), drawn):
            with suppress(StreamnbError), open_counted(path, columns) as events:
                _look_at(events)
        if other.exists():
            both = draw.sample([str(path), str(other)], 2)
            with suppress(StreamnbError):
                _look_at(
                    chain.from_iterable(settled_files(both, draw.choice([_READ, drawn]), ignore_note)[1])
                )

    return read


def _look_at(events: Iterable[bytes]) -> None:
    odd = DataQuality(_SCHEMA, counts_refusals=True)
    for n, raw in enumerate(islice(events, _MOST)):
        if n < _LOOKED_AT:
            odd.look(raw)
        else:
            with suppress(MalformedEvent):
                decode_event(raw, _SCHEMA)
    odd.news(is_over=True)
