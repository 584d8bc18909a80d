"""ARFF: Weka and MOA read the same values from files that are drawn, and from Weka's examples."""

from __future__ import annotations

import json
import random
import subprocess
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given, settings

from tests.brokers.jars import ToolMissingError, libraries
from tests.formats.test_arff_events import WEKA, read, tables, written

HERE = Path(__file__).parent / "java"
N = 800  # tables
DATE = "date 'yyyy-MM-dd HH:mm'"

pytestmark = pytest.mark.thorough


@pytest.fixture(scope="module")
def values():
    """Return a function: files -> what Weka and MOA read from each, rows or an error."""
    try:
        jars = libraries(pom=HERE / "pom.xml")
    except ToolMissingError as error:
        pytest.skip(str(error))

    def run(files):
        command = [
            "java",
            "-Duser.timezone=UTC",
            "-cp",
            jars,
            str(HERE / "ArffValues.java"),
            *map(str, files),
        ]
        found = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
        lines = [json.loads(line) for line in found]
        return zip(lines[::2], lines[1::2], strict=True)

    return run


def cells_of(events, attributes):
    """Yield the weight and the values of each row in the order of the header, dates in milliseconds."""
    for event in events:
        values = event.get("features", {}) | {"label": event.get("label")}
        cells = [
            datetime.fromisoformat(value).timestamp() * 1000 if kind == DATE and value else value
            for name, kind in attributes.items()
            for value in [values.get(name)]
        ]
        yield [event.get("weight", 1.0), *cells]


def with_dates(attributes, rows):
    """Return a table in which every other attribute of numbers has dates."""
    dates = [name for name, kind in attributes.items() if kind == "numeric"][::2]

    def date(number):
        return (
            None if number is None else f"{datetime.fromtimestamp(int(number) % 2**32, UTC):%Y-%m-%d %H:%M}"
        )

    rows = [row | {name: date(row[name]) for name in dates} for row in rows]
    return attributes | dict.fromkeys(dates, DATE), rows


def with_weights(text, draw):
    """Return an ARFF file with weights behind some of its rows."""
    head, data, rows = text.partition("@DATA\n")
    lines = rows.split("\n")[:-1]
    return head + data + "".join(line + draw.choice(["", ", {0.5}", ", {3}"]) + "\n" for line in lines)


def recombined(rows, draw):
    """Return the rows, and three times as many rows of their cells."""
    return rows + [{name: draw.choice(rows)[name] for name in rows[0]} for _ in range(3 * len(rows))]


def file_of(number, table, draw):
    """Return a table and its file: each fourth within the limits of MOA's loader.

    MOA takes ``?`` for a value in a sparse row, numbers for strings, and fails at dates and weights.
    """
    attributes, rows = table
    rows = recombined(rows, draw)
    if number % 4 == 0:
        kept = {name: kind for name, kind in attributes.items() if kind != "string"}
        return kept, written(kept, rows, is_sparse=False)
    attributes, rows = with_dates(attributes, rows)
    is_sparse = number % 2 == 1 and "string" not in attributes.values()  # Weka fills in the first string met
    text = written(attributes, rows, is_sparse=is_sparse)
    return attributes, with_weights(text, draw) if number % 3 == 0 else text


def test_weka_and_moa_read_the_same_rows_labels_values_and_weights(values, tmp_path):
    tables_drawn, draw = [], random.Random(1)

    @settings(max_examples=N, database=None, deadline=None)
    @given(table=tables())
    def collect(table):
        tables_drawn.append(table)

    collect()
    files = {}
    for number, table in enumerate(tables_drawn):
        path = tmp_path / f"{number}.arff"
        files[path], text = file_of(number, table, draw)
        path.write_text(text, encoding="utf-8")
    n_read, n_rows = Counter(), Counter()
    for number, ((path, attributes), found) in enumerate(zip(files.items(), values(files), strict=True)):
        ours = list(cells_of(read(path, has_weights=True), attributes))
        for program, theirs in zip(["weka", "moa"], found, strict=True):
            if type(theirs) is list and (program == "weka" or number % 4 == 0):
                assert ours == [[*row[:-1], row[-1] or None] for row in theirs], path.read_text()
                n_read[program] += 1
                n_rows.update({program: len(ours), f"{program}, weights": sum(row[0] != 1 for row in ours)})
    assert n_read["weka"] > 0.9 * len(files), n_read
    assert n_read["moa"] > 0.2 * len(files), n_read
    assert n_rows["weka"] > 5 * N, n_rows
    assert n_rows["moa"] > N, n_rows
    assert n_rows["weka, weights"] > N / 4, n_rows


@pytest.mark.skipif(not WEKA.is_dir(), reason="needs Weka's example files, the Debian package weka")
def test_weka_reads_its_examples_alike(values):
    files = sorted(WEKA.glob("*.arff"))
    for file, (theirs, _) in zip(files, values(files), strict=True):
        events = read(file)
        names = {name: None for event in events for name in event.get("features", {})}
        assert len(events) == len(theirs) > 0
        for event, (_, *row) in zip(events, theirs, strict=True):
            ours = [*event.get("features", {}).values(), *([event["label"]] if "label" in event else [])]
            assert sorted(map(_shown, ours)) == sorted(_shown(cell) for cell in row if cell is not None)
        assert names


def _shown(value):
    """A numeric class is a name here: 198 and 198.0 are shown alike."""
    try:
        return repr(float(value))
    except ValueError:
        return value
