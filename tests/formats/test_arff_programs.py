"""ARFF: Weka and MOA read the same values from files that are drawn, and from Weka's examples."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings

from tests.brokers.jars import ToolMissingError, libraries
from tests.formats.test_arff_events import WEKA, read, tables, written

HERE = Path(__file__).parent / "java"
N = 500  # tables

pytestmark = pytest.mark.thorough


@pytest.fixture(scope="module")
def values():
    """Return a function: files -> what Weka and MOA read from each, rows or an error."""
    try:
        jars = libraries(pom=HERE / "pom.xml")
    except ToolMissingError as error:
        pytest.skip(str(error))

    def run(files):
        command = ["java", "-cp", jars, str(HERE / "ArffValues.java"), *map(str, files)]
        found = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
        lines = [json.loads(line) for line in found]
        return zip(lines[::2], lines[1::2], strict=True)

    return run


def cells_of(events, names, label):
    """Return the values of each row in the order of the header."""
    for event in events:
        features = event.get("features", {})
        yield [event.get("label") if name == label else features.get(name) for name in names]


def test_weka_and_moa_read_the_same_values(values, tmp_path):
    drawn = []

    @settings(max_examples=N, database=None, deadline=None)
    @given(table=tables())
    def draw(table):
        drawn.append(table)

    draw()
    files = []
    for n, (attributes, rows) in enumerate(drawn):
        is_sparse = n % 2 == 1 and "string" not in attributes.values()  # Weka fills in the first string met
        files.append(tmp_path / f"{n}.arff")
        files[-1].write_text(written(attributes, rows, is_sparse=is_sparse), encoding="utf-8")
    n_same = {"weka": 0, "moa": 0}
    for file, (attributes, _), found in zip(files, drawn, values(files), strict=True):
        ours = list(cells_of(read(file), attributes, "label"))
        for program, theirs in zip(n_same, found, strict=True):
            # MOA reads ? as a value in a sparse row, and a string that looks like a number as one.
            is_of_moa = "\n{" not in file.read_text() and "string" not in attributes.values()
            if type(theirs) is list and (program == "weka" or is_of_moa):
                assert ours == [[cell or None if i == len(row) - 1 else cell for i, cell in enumerate(row)] for row in theirs], file.read_text()  # fmt: skip
                n_same[program] += 1
    assert n_same["weka"] > 0.8 * len(files), n_same
    assert n_same["moa"] > 0.2 * len(files), n_same


@pytest.mark.skipif(not WEKA.is_dir(), reason="needs Weka's example files, the Debian package weka")
def test_weka_reads_its_examples_alike(values):
    files = sorted(WEKA.glob("*.arff"))
    for file, (theirs, _) in zip(files, values(files), strict=True):
        events = read(file)
        names = {name: None for event in events for name in event.get("features", {})}
        assert len(events) == len(theirs) > 0
        for event, row in zip(events, theirs, strict=True):
            ours = [*event.get("features", {}).values(), *([event["label"]] if "label" in event else [])]
            assert sorted(map(_shown, ours)) == sorted(_shown(cell) for cell in row if cell is not None)
        assert names


def _shown(value):
    """A numeric class is a name here: 198 and 198.0 are shown alike."""
    try:
        return repr(float(value))
    except ValueError:
        return value
