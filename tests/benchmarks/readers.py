"""Rate of each reader of files against the library of its format, in processor time, the best of some rounds.

python -m tests.benchmarks.readers [MAILS.jsonl.gz] [--rows 8000] [--rounds 4]

A peer reads the file as a user of the library would: rows as dictionaries, arrays, parsed lines, or the decoded
texts of mails. It writes no JSON, and streamnb does. MAILS has raw mails as `text`.
"""

# ruff: noqa: T201 - printing is what this program does

from __future__ import annotations

import argparse
import email
import gzip
import json
import mailbox
import random
import tempfile
import time
from contextlib import suppress
from email import policy
from pathlib import Path

import fastavro
import numpy as np
import pyarrow as pa
from pyarrow import feather, parquet
from scipy.io import arff
from sklearn.datasets import dump_svmlight_file, load_svmlight_file

from streamnb.formats.event_columns import CsvColumns
from streamnb.formats.event_files import open_counted


def ours(path):
    with open_counted(path, CsvColumns(), lambda _: None) as events:
        return sum(1 for _ in events)


def record(name, **fields):
    return {
        "type": "record",
        "name": name,
        "fields": [{"name": key, "type": kind} for key, kind in fields.items()],
    }


def avro_shapes(draw):
    """Name -> a type of Avro, and a function that draws a value of it."""
    times = {"type": "long", "logicalType": "timestamp-millis"}
    return {
        "numbers": ("double", draw.random),
        "nullable": (["null", "double"], lambda: draw.choice([None, draw.random()])),
        "strings": ("string", lambda: f"v{draw.randrange(9)}"),
        "arrays": ({"type": "array", "items": "double"}, lambda: [draw.random() for _ in range(4)]),
        "records": (record("inner", a="double", b="string"), lambda: {"a": draw.random(), "b": "q"}),
        "times": (times, lambda: draw.randrange(10**12)),
        "bytes": ("bytes", lambda: draw.randbytes(6)),
    }


def write_tables(folder, n):
    """Write tables of ten numbers and a label; yield (file, peer)."""
    draw = random.Random(1)
    rows = [{**{f"x{k}": draw.random() for k in range(10)}, "label": "ab"[i % 2]} for i in range(n)]
    table = pa.Table.from_pylist(rows)
    parquet.write_table(table, folder / "e.parquet")
    feather.write_feather(table, folder / "e.feather")
    yield folder / "e.parquet", lambda path: parquet.read_table(path).to_pylist()
    yield folder / "e.feather", lambda path: feather.read_table(path).to_pylist()
    head = "@relation r\n" + "".join(f"@attribute x{k} numeric\n" for k in range(10))
    lines = "".join(",".join(map(str, row.values())) + "\n" for row in rows)
    (folder / "e.arff").write_text(f"{head}@attribute label {{a,b}}\n@data\n{lines}")
    yield folder / "e.arff", arff.loadarff
    numbers = np.array([list(row.values())[:10] for row in rows])
    dump_svmlight_file(numbers, np.arange(n) % 2, str(folder / "e.svm"))
    yield folder / "e.svm", lambda path: load_svmlight_file(str(path))
    for name, (kind, value) in avro_shapes(draw).items():
        path = folder / f"{name}.avro"
        with path.open("wb") as out:
            schema = record("outer", x=kind, label="string")
            fastavro.writer(out, schema, [{"x": value(), "label": "ab"[i % 2]} for i in range(n)])
        yield path, read_avro


def read_avro(path):
    with path.open("rb") as file:
        return sum(1 for _ in fastavro.reader(file))


def write_lines(folder, n):
    """Write texts of twelve words, and ten numbers, as lines; yield (file, peer)."""
    draw, words = random.Random(2), [f"word{k}" for k in range(999)]
    texts = [" ".join(draw.choices(words, k=12)) for _ in range(n)]
    numbers = [" ".join(f"x{k}:{draw.random():.4f}" for k in range(10)) for _ in range(n)]
    signs, names = (list(map(pair.__getitem__, (i % 2 for i in range(n)))) for pair in (("1", "-1"), "ab"))
    for name, parts in {
        "numbers": numbers,
        "texts": texts,
        "spaces": zip(numbers, texts, strict=True),
    }.items():
        spaces = ([f"{part[0]} |text {part[1]}"] if type(part) is tuple else [part] for part in parts)
        lines = (f"{sign} | {space[0]}\n" for sign, space in zip(signs, spaces, strict=True))
        (folder / f"{name}.vw").write_text("".join(lines))
        yield folder / f"{name}.vw", vowpal_reader()
    lines = (f"__label__{name} {text}\n" for name, text in zip(names, texts, strict=True))
    (folder / "texts.ft").write_text("".join(lines))
    yield folder / "texts.ft", fasttext_reader()


def vowpal_reader():
    """Return a function that parses each line with Vowpal Wabbit, or splits it without the package."""
    try:
        from vowpalwabbit import Workspace
    except ImportError:
        print("vowpalwabbit is not installed: its peer splits lines")
        return split_lines
    workspace = Workspace("--quiet")

    def read(path):
        with path.open() as lines:
            for line in lines:
                workspace.finish_example(workspace.example(line))

    return read


def fasttext_reader():
    """Return a function that splits each line into tokens with fastText, or without the package."""
    try:
        from fasttext import tokenize
    except ImportError:
        print("fasttext is not installed: its peer splits lines")
        return split_lines
    return lambda path: split_lines(path, tokenize)


def split_lines(path, split=str.split):
    with path.open() as lines:
        return sum(len(split(line.rstrip("\n"))) for line in lines)


def write_mails(folder, mails):
    """Write mails as mbox and Maildir; yield (path, peer)."""
    box, maildir = mailbox.mbox(folder / "e.mbox"), mailbox.Maildir(folder / "maildir")
    with gzip.open(mails) as lines:
        for line, _ in zip(lines, range(1500), strict=False):
            raw = json.loads(line)["text"].encode().split(b"\n", 1)[-1]
            box.add(raw)
            maildir.add(raw)
    box.close()
    yield folder / "e.mbox", lambda path: read_mails(mailbox.mbox(path, parsed, create=False))
    yield folder / "maildir", lambda path: read_mails(mailbox.Maildir(path, parsed, create=False))


def parsed(file):
    return email.message_from_binary_file(file, policy=policy.default)


def read_mails(box):
    for mail in box:
        with suppress(LookupError, ValueError, AttributeError, KeyError):  # raised for some damaged mails
            part = mail.get_body(preferencelist=("plain", "html"))
            _ = mail["subject"], mail["from"], part and part.get_content()


def best(path, readers, rounds):
    """Return the best processor time of each reader, which read by turns."""
    found = []
    for _ in range(rounds):
        for read in readers:
            began = time.process_time()
            read(path)
            found.append(time.process_time() - began)
    return [min(found[place :: len(readers)]) for place in range(len(readers))]


def main(arguments=None):
    """Print a line for each file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("mails", nargs="?", type=Path)
    parser.add_argument("--rows", type=int, default=8000)
    parser.add_argument("--rounds", type=int, default=4)
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as name:
        files = [*write_tables(Path(name), options.rows), *write_lines(Path(name), options.rows)]
        files += write_mails(Path(name), options.mails) if options.mails else []
        for path, peer in files:
            this, other = best(path, (ours, peer), options.rounds)
            print(
                f"{path.name:16} {this * 1e3:8.1f} ms, library {other * 1e3:8.1f} ms, rate {other / this:.2f}"
            )


if __name__ == "__main__":
    main()
