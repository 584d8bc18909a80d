"""Naive Bayes over tables, test then train, beside River and MOA (`make bench`): events a second, and accuracy.

streamnb gets the rows as a data frame, 5,000 at a time, whose texts are strings, or categories, which are numbers, as
they are in MOA's rows; and one by one as dictionaries, as River does, whose model is the Gaussian one, of the numbers
alone. MOA (Java) is fetched by Maven, compiled here and run on the same rows; where
Java or Maven is missing it is named. All is in memory before the clock starts, which is that of the processor: others
may use the machine.
"""

# ruff: noqa: T201 - printing is what this program does

from __future__ import annotations

import argparse
import gzip
import json
import shutil
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

import pandas as pd
from river import naive_bayes

from streamnb import GaussianNB, NaiveBayes
from streamnb.runtime import factories

MOA = "nz.ac.waikato.cms.moa:moa:2024.07.0"
SOURCE = Path(__file__).with_name("Prequential.java")
AT_ONCE = 5000


def rows_of(path):
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        events = [json.loads(line) for line in lines]
    return [event["features"] for event in events], [event["label"] for event in events]


def by_frame(make, *, as_categories=False):
    def run(rows, labels):
        frame, model, found = pd.DataFrame(rows), make(), []
        if as_categories:
            texts = [name for name, series in frame.items() if series.dtype.kind not in "iuf"]
            frame, labels = (
                frame.astype(dict.fromkeys(texts, "category")),
                pd.Series(labels, dtype="category"),
            )
        started = time.process_time()
        for first in range(0, len(labels), AT_ONCE):
            last = first + AT_ONCE
            found += model.predict_then_learn_many(frame[first:last], labels[first:last]).labels()
        return time.process_time() - started, found

    return run


def one_by_one(make):
    def run(rows, labels):
        model, found = make(), []
        started = time.process_time()
        for x, y in zip(rows, labels, strict=True):
            found.append(model.predict_one(x))
            model.learn_one(x, y)
        return time.process_time() - started, found

    return run


def moa(rows, labels, rounds):
    """(seconds, accuracy) of each round; of the names of what is missing where it cannot be run."""
    missing = [tool for tool in ("mvn", "java", "javac") if shutil.which(tool) is None]
    if missing:
        return None, missing
    with tempfile.TemporaryDirectory() as folder:
        fetch = ["mvn", "-q", "-B", "dependency:copy", f"-Dartifact={MOA}", f"-DoutputDirectory={folder}"]
        if subprocess.run(fetch, check=False, stdout=subprocess.DEVNULL).returncode:
            return None, [MOA]
        jar = str(next(Path(folder).glob("*.jar")))
        subprocess.run(["javac", "-cp", jar, "-d", folder, SOURCE], check=True)
        table = Path(folder) / "rows.arff"
        table.write_text(as_arff(rows, labels))
        told = subprocess.run(
            ["java", "-cp", f"{jar}:{folder}", "Prequential", table, str(rounds)],
            check=True,
            capture_output=True,
            text=True,
        ).stdout
    return [tuple(map(float, line.split())) for line in told.splitlines()], []


def as_arff(rows, labels):
    """The rows as MOA reads them, the label last; a missing value is a question mark."""
    values = {}
    for row in rows:
        for name, value in row.items():
            values.setdefault(name, set()).add(value if isinstance(value, str) else None)
    kinds = {
        name: "numeric" if found == {None} else "{" + ",".join(f"'{value}'" for value in sorted(found)) + "}"
        for name, found in values.items()
    }
    header = [f"@attribute '{name}' {kind}" for name, kind in kinds.items()]
    header.append("@attribute label {" + ",".join(f"'{label}'" for label in dict.fromkeys(labels)) + "}")
    lines = (
        ",".join([*(_cell(row.get(name)) for name in kinds), f"'{label}'"])
        for row, label in zip(rows, labels, strict=True)
    )
    return "\n".join(["@relation rows", *header, "@data", *lines, ""])


def _cell(value):
    return "?" if value is None else f"'{value}'" if isinstance(value, str) else repr(value)


def measured(path, rounds):
    rows, labels = rows_of(path)
    numbers = [{name: value for name, value in row.items() if not isinstance(value, str)} for row in rows]
    is_mixed = rows != numbers
    ours = NaiveBayes if is_mixed else GaussianNB
    contenders = {
        f"streamnb {ours.__name__}, data frame": (by_frame(ours), rows),
        f"streamnb {ours.__name__}, categories": (by_frame(ours, as_categories=True), rows),
        f"streamnb {ours.__name__}, one by one": (one_by_one(ours), rows),
        "River GaussianNB" + (", numbers alone" if is_mixed else ""): (
            one_by_one(naive_bayes.GaussianNB),
            numbers,
        ),
    }
    results = {name: [] for name in contenders}
    for _ in range(rounds):
        for name, (run, given) in contenders.items():
            seconds, found = run(given, labels)
            right = sum(f == label for f, label in zip(found, labels, strict=True)) / len(labels)
            results[name].append((seconds, right))
    told, missing = moa(rows, labels, rounds)
    if told is None:
        print(f"not timed, for it is missing: {', '.join(missing)} (MOA)")
    else:
        results["MOA NaiveBayes"] = told
    print(f"{path}: {len(labels):,} events, {rounds} rounds (median; best)")
    for name, times in results.items():
        seconds = [one for one, _ in times]
        print(
            f"  {name:40} {len(labels) / statistics.median(seconds):>9,.0f} {len(labels) / min(seconds):>9,.0f}"
            f" events/s, accuracy {times[0][1]:.3f}"
        )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", nargs="+", type=Path, help="JSON lines, gzipped, with features and label")
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    factories.warm_up()
    for file in options.files:
        measured(file, options.rounds)
