"""Columns that make scores worthless are named once, and those of honest data are not."""

from __future__ import annotations

import random

import msgspec
import numpy as np
import pytest

from streamnb.config import Config
from streamnb.evaluation.column_checks import SAMPLE, RowSample, column_warnings, decides
from streamnb.formats.event_files import open_counted, read_rows_order
from streamnb.runtime import context
from streamnb.scoring.baselines import Baselines
from tests.conftest import STREAMS

pytestmark = pytest.mark.early(30)

SCHEMA = context.schema(Config())
N = 400


def rows_of(columns, labels):
    for i, label in enumerate(labels):
        features = {name: value(i, label) for name, value in columns.items()}
        features = {name: value for name, value in features.items() if value is not None}
        yield i, msgspec.json.encode({"id": str(i), "features": features, "label": label})


def warnings_of(columns, labels=None, order=None):
    rng = random.Random(3)
    labels = [rng.choice("abc") for _ in range(N)] if labels is None else labels
    rows = [*rows_of({"x": lambda i, _: random.Random(i).random(), **columns}, labels)]
    sample = RowSample()
    passed = [rows[i] for i in order or range(len(rows))]
    assert [*sample.watched(passed)] == passed
    return {one.event: one for one in column_warnings(sample.events(SCHEMA), " ".join)}


@pytest.mark.parametrize(
    ("column", "event"),
    [
        (lambda _, label: label, "label-leak"),
        (lambda _, label: f"code {ord(label)}", "label-leak"),
        (lambda i, label: ord(label) + random.Random(i).random(), "label-leak"),
        (lambda i, label: "?" if label == "a" else f"{label}{i % 7}", "label-leak"),
        (lambda i, _: float(i), "row-numbers"),
        (lambda i, _: i + 1001, "row-numbers"),
        (lambda _, __: "always", "constant-column"),
        (lambda _, __: 7.5, "constant-column"),
        (lambda i, _: random.Random(i).random(), "duplicate-columns"),
    ],
)
@pytest.mark.parametrize("is_shuffled", [False, True])
def test_a_worthless_column_is_named_with_the_command_without_it(column, event, is_shuffled):
    order = random.Random(1).sample(range(N), N) if is_shuffled else None
    (found,) = warnings_of({"odd": column}, order=order).values()
    assert found.event == event
    assert "odd" in found
    assert event == "constant-column" or found.endswith(": odd")


@pytest.mark.parametrize(
    "column",
    [
        lambda i, _: f"id{i}",
        lambda i, label: label if i % 50 else "a",  # 1 in 75 is another label
        lambda i, label: ord(label) + 1.2 * random.Random(i).random(),
        lambda _, __: 0,
        lambda _, __: "no",
        lambda i, _: None if i % 2 else "seen",
        lambda i, _: random.Random(i).random() if i % 100 else 2.0,
        lambda i, _: i * 2.0,
    ],
)
def test_an_honest_column_is_not_named(column):
    assert warnings_of({"good": column}) == {}


def test_equal_flags_that_are_rarely_set_are_no_duplicates():
    flag = {name: lambda i, _: int(i % 100 == 3) for name in ("one", "other")}
    assert warnings_of(flag) == {}
    flag = {name: lambda i, _: int(i % 10 == 3) for name in ("one", "other")}
    assert [*warnings_of(flag)] == ["duplicate-columns"]


def test_a_class_that_hardly_comes_is_not_decided_by_chance():
    labels = ["a"] * N
    labels[5] = "b"
    assert not decides([*range(N)], labels)
    assert not decides([label == "b" for label in labels], labels)
    labels[10:30] = "b" * 20
    assert decides([label == "b" for label in labels], labels)


def test_few_rows_prove_nothing():
    assert warnings_of({"odd": lambda _, label: label}, "ab" * 20) == {}


def test_the_sample_is_spread_over_the_file_and_bounded():
    for n in (10, SAMPLE - 1, SAMPLE, 3 * SAMPLE, 10**5 + 1):
        sample = RowSample()
        assert sum(1 for _ in sample.watched((i, b"{}") for i in range(n))) == n
        numbers = [number for number, _ in sample.rows]
        assert min(n, SAMPLE // 2) <= len(numbers) <= SAMPLE
        step = numbers[1] - numbers[0]
        assert numbers == [*range(0, n, step)]
    long = RowSample()
    assert len([*long.watched([(0, b" " * 10**6), (1, b"{}")])]) == 2
    assert long.rows == [(1, b"{}")]


@pytest.mark.skipif(not STREAMS.is_dir(), reason="no labelled streams")
@pytest.mark.parametrize("file", sorted(STREAMS.glob("*.jsonl.gz")), ids=lambda file: file.name.split(".")[0])
def test_nothing_is_named_in_the_labelled_streams(file):
    with open_counted(file) as events:
        rows = [*events]
    order = read_rows_order(file.with_name(file.name.replace("jsonl", "shuffle7.txt")))
    sample = RowSample()
    for _ in sample.watched((n, rows[n]) for n in order):
        pass
    assert [*column_warnings(sample.events(SCHEMA), " ".join)] == []
    labels = [msgspec.json.decode(rows[n])["label"] for n in order]
    guesses = Baselines()
    guesses.update(np.unique(labels, return_inverse=True)[1])
    assert not guesses.scores(0.0).is_grouped


def test_labels_that_never_repeat_follow_from_no_column():
    labels = [f"c{i}" for i in range(N)]
    assert not decides([float(i) for i in range(N)], labels)
    assert "label-leak" not in warnings_of({"y": lambda i, _: float(i * i)}, labels)
