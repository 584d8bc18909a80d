"""`evaluate --model` of a River classifier that takes True and False, on a file whose labels are strings."""

from __future__ import annotations

import json
import random

import pytest
from river import evaluate, linear_model, metrics

from streamnb.cli import main

FLAGS = ["--label-column", "label", "--model", "river.linear_model:LogisticRegression"]
OWN = """
from river import compose, linear_model, naive_bayes
def numbers(): return compose.SelectType(float) | linear_model.LogisticRegression()
def texts(): return naive_bayes.GaussianNB()
"""


@pytest.fixture
def rows(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own_models.py").write_text(OWN)
    rng = random.Random(2)
    rows = [{"x": round(rng.gauss(0, 1), 3), "z": round(rng.random(), 3)} for _ in range(200)]

    def written(label_of, more=()):
        lines = [",".join(["x", "z", *more, "label"])]
        lines += [
            ",".join(map(str, [row["x"], row["z"], *more.values(), label_of(i, row)]))
            for i, row in enumerate(rows)
        ]
        (tmp_path / "rows.csv").write_text("\n".join(lines))
        return rows

    return written


def test_two_labels_are_scored_as_river_scores_true_and_false(rows, capsys):
    table = rows(lambda _, row: "spam" if row["x"] + 0.3 * row["z"] > 0 else "ham", {})
    assert main(["evaluate", "rows.csv", *FLAGS, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    truths = [row["x"] + 0.3 * row["z"] > 0 for row in table]
    pairs = [
        (row, truth != truths[0]) for row, truth in zip(table, truths, strict=True)
    ]  # the first is False
    metric = evaluate.progressive_val_score(pairs, linear_model.LogisticRegression(), metrics.Accuracy())
    second = truths.index(not truths[0])
    assert found["learned"] == len(table)
    # An event before its label is known has no prediction here; River answers False.
    right = round(found["cumulative"]["accuracy"] * len(table))
    assert abs(right - round(metric.get() * len(table))) <= 2
    assert second < 10
    assert sorted(found["labels"]) == ["ham", "spam"]


def test_a_third_label_is_refused_with_what_takes_it(rows, capsys):
    rows(lambda i, _: "abc"[i % 3], {})
    assert main(["evaluate", "rows.csv", *FLAGS]) == 2
    said = capsys.readouterr().err
    assert "distinguishes two classes, and there are more labels ('a', 'b', 'c')" in said
    assert "OneVsRestClassifier" in said


def test_a_string_that_it_does_not_take_is_named(rows, capsys):
    rows(lambda i, _: "ab"[i % 2], {"colour": "red"})
    assert main(["evaluate", "rows.csv", *FLAGS]) == 2
    assert "takes no strings (" in (said := capsys.readouterr().err)
    assert "attribute 'colour' is 'red'" in said
    own = ["--label-column", "label", "--model", "own_models:numbers"]
    assert main(["evaluate", "rows.csv", *own]) == 0


def test_a_string_that_a_classifier_of_many_classes_does_not_take_is_named(rows, capsys):
    rows(lambda i, _: "abc"[i % 3], {"colour": "red"})
    flags = ["--label-column", "label", "--model", "river.naive_bayes:GaussianNB"]
    assert main(["evaluate", "rows.csv", *flags]) == 2
    assert "a GaussianNB takes no strings (" in (said := capsys.readouterr().err)
    assert "attribute 'colour' is 'red'" in said


def test_a_classifier_of_many_classes_gets_the_labels_as_they_are(rows, capsys):
    rows(lambda i, _: "abc"[i % 3], {})
    own = ["--label-column", "label", "--model", "own_models:texts", "--json"]
    assert main(["evaluate", "rows.csv", *own]) == 0
    assert sorted(json.loads(capsys.readouterr().out)["labels"]) == ["a", "b", "c"]
