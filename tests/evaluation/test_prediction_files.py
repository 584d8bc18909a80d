"""Predictions as JSON lines, CSV, TSV and Parquet: stable columns, all rows, and no half file under the name."""

from __future__ import annotations

import csv
import json
import os
import threading

import pytest
from pyarrow import parquet

from streamnb.errors import ConfigError
from streamnb.evaluation.prediction_files import PredictionFile

FIXED = ["id", "label", "predicted", "probability", "unseen", "decision", "expected_cost", "rejected", "novelty", "refused"]  # fmt: skip
ROWS = [
    {"id": "1", "label": None, "probability": None, "probabilities": {}, "truth": "a", "status": "empty"},
    {"id": 'quo"te, \n', "label": "a", "probability": 0.1 + 0.2, "probabilities": {"a": 0.1 + 0.2}, "unseen": 1e-9},
    {"row": 2, "refused": "no id"},
    {"id": "3", "label": "b\tc", "probability": 1.0, "probabilities": {"b\tc": 1.0, "a": 0.0}, "decision": None,
     "expected_cost": 0.25, "rejected": "cost", "novelty": 0.5},
]  # fmt: skip
HEADER = [*FIXED, "probability_a", "probability_b\tc"]
CELLS = [
    ["1", "a", *[None] * 10],
    ['quo"te, \n', None, "a", 0.1 + 0.2, 1e-9, *[None] * 5, 0.1 + 0.2, None],
    [*[None] * 9, "no id", None, None],
    ["3", None, "b\tc", 1.0, None, None, 0.25, "cost", 0.5, None, 0.0, 1.0],
]


def names(folder):
    return [path.name for path in folder.iterdir()]


def write(path, rows=ROWS):
    with PredictionFile(str(path)) as file:
        for row in rows:
            file.write(json.dumps(row).encode())


@pytest.mark.parametrize(("name", "delimiter"), [("p.csv", ","), ("P.TSV", "\t")])
def test_a_table_of_text_has_each_column_and_exact_numbers(tmp_path, name, delimiter):
    write(tmp_path / name)
    with (tmp_path / name).open(newline="") as file:
        header, *rows = csv.reader(file, delimiter=delimiter)
    assert header == HEADER
    assert rows == [["" if cell is None else str(cell) for cell in row] for row in CELLS]


def test_parquet_has_types(tmp_path):
    write(tmp_path / "p.parquet")
    found = parquet.read_table(tmp_path / "p.parquet")
    assert found.column_names == HEADER
    assert [[*row.values()] for row in found.to_pylist()] == CELLS
    assert str(found.schema.field("probability").type) == "double"
    write(tmp_path / "none.parquet", [])
    assert parquet.read_table(tmp_path / "none.parquet").column_names == FIXED


@pytest.mark.parametrize("name", ["p.jsonl", "p", "p.txt"])
def test_any_other_name_has_json_lines(tmp_path, name):
    write(tmp_path / name)
    assert [json.loads(line) for line in (tmp_path / name).read_text().splitlines()] == ROWS


def interrupted(path):
    with PredictionFile(str(path)) as file:
        file.write(json.dumps(ROWS[1]).encode())
        assert path.read_text() == "before"
        raise KeyboardInterrupt


@pytest.mark.parametrize("name", ["p.jsonl", "p.csv", "p.parquet"])
def test_after_an_error_the_file_of_before_is_there_and_no_part_of_the_new_one(tmp_path, name):
    (tmp_path / name).write_text("before")
    with pytest.raises(KeyboardInterrupt):
        interrupted(tmp_path / name)
    assert names(tmp_path) == [name]
    assert (tmp_path / name).read_text() == "before"
    write(tmp_path / name)
    assert names(tmp_path) == [name]
    assert (tmp_path / name).read_bytes() != b"before"


def test_a_link_stays_a_link(tmp_path):
    (tmp_path / "there.csv").write_text("before")
    (tmp_path / "link.csv").symlink_to(tmp_path / "there.csv")
    write(tmp_path / "link.csv")
    assert (tmp_path / "link.csv").is_symlink()
    assert (tmp_path / "there.csv").read_text().startswith("id,")


def test_a_pipe_is_written_directly(tmp_path):
    path, found = tmp_path / "pipe.csv", []
    os.mkfifo(path)
    reader = threading.Thread(target=lambda: found.append(path.read_text()))
    reader.start()
    write(path)
    reader.join()
    assert found[0].startswith("id,label,predicted,")
    assert names(tmp_path) == ["pipe.csv"]


@pytest.mark.parametrize("name", ["p.csv.gz", "p.xlsx", "p.jsonl.ZST"])
def test_a_format_that_is_not_written_is_refused(tmp_path, name):
    with pytest.raises(ConfigError, match=r"end the name in \.jsonl, \.csv, \.tsv or \.parquet"):
        PredictionFile(str(tmp_path / name))
    assert names(tmp_path) == []


def test_many_classes_have_no_columns_and_that_is_reported(tmp_path, caplog):
    many = [
        {"id": "1", "label": "0", "probability": 1.0, "probabilities": {str(k): 0.001 for k in range(1001)}}
    ]
    write(tmp_path / "p.csv", many)
    assert (tmp_path / "p.csv").read_text().splitlines()[0] == ",".join(FIXED)
    assert "p.csv has no columns for the probabilities of 1,001 classes" in caplog.text
