"""Accuracy, kappas, F1, AUC, Brier score and log loss are scikit-learn's and MOA's, of the same predictions."""

from __future__ import annotations

import csv
import json
import math
import os
import subprocess
import warnings
from pathlib import Path

import numpy as np
import pytest
from sklearn import metrics

from streamnb.cli import main
from streamnb.scoring.prequential_scores import ESCAPE
from streamnb.scoring.ranking import OpenValidation
from tests import ROOT
from tests.brokers.jars import ToolMissingError, libraries

ORACLES = ROOT / "tests" / "oracles"
STREAMS = (
    "weka_iris",
    "weka_vote",
    "weka_weather_nominal",
    "river_phishing",
    "sms_spam",
    "elec2",
    "satellite",
)
CLOSE = {"rel": 1e-9, "abs": 1e-12}


def posteriors(rng, n, classes, *, known=None, digits=None):
    """Random rows; class k is known from event `known[k]` on."""
    weights = rng.exponential(1.0, (n, classes)) ** 3
    if digits is not None:
        weights = np.ceil(weights * 10**digits)
    if known is not None:
        weights[np.arange(n)[:, np.newaxis] < np.asarray(known)] = 0.0
    total = weights.sum(axis=1, keepdims=True)
    return np.divide(weights, total, out=np.zeros_like(weights), where=total > 0.0)


def drawn():
    """Name -> (probabilities, truths): hostile streams."""
    rng = np.random.default_rng(11)
    yield "two classes", posteriors(rng, 800, 2), rng.integers(0, 2, 800)
    yield "ties of two classes", posteriors(rng, 800, 2, digits=0), rng.integers(0, 2, 800)
    yield "all undecided", np.full((300, 2), 0.5), rng.integers(0, 2, 300)
    yield "sure and wrong", np.tile([1.0, 0.0], (200, 1)), rng.integers(0, 2, 200)
    yield "one class", posteriors(rng, 200, 1), np.zeros(200, dtype=np.int64)
    yield "ties of five classes", posteriors(rng, 900, 5, digits=0), rng.integers(0, 5, 900)
    late = [0, 1, 2, 400, 800]
    truths = [int(rng.choice(np.flatnonzero(np.array(late) <= i))) for i in range(900)]
    yield "classes that appear late", posteriors(rng, 900, 5, known=np.add(late, 1)), np.array(truths)
    yield (
        "a class at the last event",
        posteriors(rng, 500, 3, known=[1, 2, 500]),
        np.array([1, 0] * 249 + [1, 2]),
    )
    yield "a class that is never predicted", posteriors(rng, 400, 3) * [1, 1, 0], rng.integers(0, 3, 400)
    yield "a class that never comes", posteriors(rng, 400, 3), rng.integers(0, 2, 400)
    yield "rare", posteriors(rng, 3000, 2), (rng.random(3000) < 0.002).astype(np.int64)
    yield "sixty classes", posteriors(rng, 2000, 60), rng.integers(0, 60, 2000)
    yield "long runs", posteriors(rng, 900, 3), np.repeat(rng.integers(0, 3, 9), 100)


def scores_of(rows, truths):
    """The figures of streamnb, in several batches; those of the baselines are next to them."""
    made = OpenValidation()
    for first in range(0, truths.size, 97):
        made.update_many(rows[first : first + 97], truths[first : first + 97])
    scores = made.cumulative()
    auc = made.one_less_auc
    return {
        "accuracy": scores.accuracy,
        "kappa": scores.kappa,
        "kappa_temporal": made.baselines.scores(scores.accuracy).kappa_temporal,
        "macro_f1": scores.macro_f1,
        "brier": scores.brier,
        "log_loss": scores.log_loss,
        "auc": None if auc is None else 1.0 - auc,
    }


def sklearns(rows, truths, predicted, ranks):
    """The same by scikit-learn; -1 in `predicted` is no prediction, and NaN stands for a score that it lacks."""
    n, classes = rows.shape
    told = predicted.astype(object)
    told[predicted < 0] = classes
    told, known = told.astype(int), np.arange(classes)
    f1 = metrics.f1_score(
        truths, told, labels=np.union1d(truths, told[told < classes]), average="macro", zero_division=0
    )
    one_hot = np.eye(classes)[truths]
    p = np.clip(rows[np.arange(n), truths], ESCAPE, 1.0)
    if classes > 1:
        rest = np.clip((1.0 - p) / (classes - 1), 1e-300, 1.0)
        table = np.tile(rest[:, np.newaxis], (1, classes))
        table[np.arange(n), truths] = p
        loss = metrics.log_loss(truths, table, labels=known)
    else:
        loss = float(np.mean(-np.log(p)))
    both = len(set(truths.tolist())) == 2 == classes
    return {
        "accuracy": metrics.accuracy_score(truths, told),
        "kappa": metrics.cohen_kappa_score(truths, told),
        "macro_f1": f1,
        "brier": metrics.mean_squared_error(one_hot, rows) * classes,
        "log_loss": loss,
        "auc": metrics.roc_auc_score(truths, ranks) if both else None,
    }


@pytest.fixture(scope="module")
def moa(tmp_path_factory):
    """Return the scores of MOA for files of predictions; Maven fetches it once."""
    try:
        jars = libraries(pom=ORACLES / "moa.xml")
    except ToolMissingError as error:
        if os.environ.get("CI") == "true":
            raise
        pytest.skip(str(error))
    folder = tmp_path_factory.mktemp("moa")
    compiled = subprocess.run(
        ["javac", "-cp", jars, "-d", folder, ORACLES / "MoaScores.java"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert compiled.returncode == 0, compiled.stderr

    def run(streams):
        files = [folder / f"{k}.txt" for k in range(len(streams))]
        orders = [write_votes(file, *stream) for file, stream in zip(files, streams, strict=True)]
        command = ["java", "-cp", f"{jars}:{folder}", "MoaScores", *files]
        told = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
        return [
            of_moa([float(cell) for cell in line.split()], order, truths, predicted)
            for line, order, (_, truths, predicted) in zip(told, orders, streams, strict=True)
        ]

    return run


def write_votes(path, rows, truths, predicted):
    """Votes as MOA takes them: events without a prediction vote for one more class.

    The label of the first event is not class 0, which MOA takes for the label before it. Returns the classes in
    the order of the columns.
    """
    extra = (predicted < 0).astype(float)
    if extra.any() or rows.shape[1] == 1:
        rows = np.column_stack((rows, extra))
    order = np.arange(rows.shape[1])
    if truths[0] == 0:
        order[[0, 1]] = 1, 0
    place = np.argsort(order)
    lines = [
        f"{place[truth]} {' '.join(map(repr, row.tolist()))}"
        for truth, row in zip(truths, rows[:, order], strict=True)
    ]
    path.write_text("\n".join([str(order.size), *lines]) + "\n")
    return order.tolist()


def predictions_of(rows):
    return np.where(rows.max(axis=1) > 0.0, rows.argmax(axis=1), -1)


def ranks_of(rows, truths):
    """Log odds of class 1, 0 before both classes are known; P(class 1) alone is 1 for many events of a long text."""
    met = [np.cumsum(truths == k) - (truths == k) > 0 for k in range(2)]
    known = (met[0] | (rows[:, 0] > 0)) & (met[1] | (rows[:, 1] > 0))
    with np.errstate(divide="ignore", invalid="ignore"):
        odds = np.log(rows[:, 1]) - np.log(rows[:, 0])
    return np.where(known & ~np.isnan(odds), np.clip(odds, -1e300, 1e300), 0.0)


def of_moa(told, order, truths, predicted):
    accuracy, kappa, kappa_temporal, auc, *f1 = told
    seen = {*truths.tolist(), *predicted[predicted >= 0].tolist()}
    each = [0.0 if math.isnan(one) else one for one, k in zip(f1, order, strict=True) if k in seen]
    found = {
        "accuracy": accuracy,
        "kappa": kappa,
        "kappa_temporal": kappa_temporal,
        "macro_f1": math.fsum(each) / len(each),
    }
    return found | {"auc": auc}


def compared(found, expected):
    """Raise if a score differs; kappa where every event has one label and prediction is NaN for peers."""
    for name, value in expected.items():
        if value is not None and not math.isnan(value):
            assert found[name] == pytest.approx(value, **CLOSE), name


STREAMS_DRAWN = list(drawn())


@pytest.mark.thorough
@pytest.mark.parametrize("case", STREAMS_DRAWN, ids=[name for name, *_ in STREAMS_DRAWN])
def test_drawn_streams_have_the_scores_of_scikit_learn(case):
    _, rows, truths = case
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ranks = ranks_of(rows, truths) if rows.shape[1] == 2 else None
        compared(scores_of(rows, truths), sklearns(rows, truths, predictions_of(rows), ranks))


@pytest.mark.thorough
def test_drawn_streams_have_the_scores_of_moa(moa):
    streams = [(rows, truths, predictions_of(rows)) for _, rows, truths in STREAMS_DRAWN]
    for (name, rows, truths), told in zip(STREAMS_DRAWN, moa(streams), strict=True):
        found = scores_of(rows, truths)
        if rows.shape[1] != 2 or len(set(truths.tolist())) < 2 or (rows == 0.0).any():
            told["auc"] = math.nan  # an event before both classes are known is undecided here, and not there
        try:
            compared(found, told)
        except AssertionError as error:
            raise AssertionError(f"{name}: {error}") from error


def published(folder):
    """Rows, truths and predictions of a file of predictions; columns in the order of first labels."""
    with (folder / "p.csv").open(newline="") as file:
        events = [*csv.DictReader(file)]
    classes = list(dict.fromkeys(event["label"] for event in events))
    column = {label: k for k, label in enumerate(classes)}
    rows = [[float(event.get(f"probability_{label}") or 0.0) for label in classes] for event in events]
    predicted = [column[event["predicted"]] if event["predicted"] else -1 for event in events]
    return np.array(rows), np.array([column[event["label"]] for event in events]), np.array(predicted)


@pytest.mark.thorough
@pytest.mark.parametrize("name", STREAMS)
def test_evaluate_prints_the_scores_of_its_published_predictions(
    streams, moa, tmp_path, monkeypatch, capsys, name
):
    monkeypatch.chdir(tmp_path)
    flags = ["--shuffle"] if name == "weka_iris" else []
    file = str(streams / f"{name}.jsonl.gz")
    assert (
        main(
            ["evaluate", file, *flags, "--set", "model.kind=naive_bayes", "--predictions", "p.csv", "--json"]
        )
        == 0
    )
    answer = json.loads(capsys.readouterr().out)
    rows, truths, predicted = published(Path())
    found = {
        name: answer["cumulative"][name] for name in ("accuracy", "kappa", "macro_f1", "brier", "log_loss")
    }
    found["kappa_temporal"] = answer["baselines"]["kappa_temporal"]
    if answer["one_less_auc"] is not None:
        found["auc"] = 1.0 - answer["one_less_auc"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ranks = ranks_of(rows, truths) if rows.shape[1] == 2 else None
        compared(found, sklearns(rows, truths, predicted, ranks))
    (told,) = moa([(rows, truths, predicted)])
    told["auc"] = math.nan  # an event before both classes are known is undecided here, and not there
    compared(found, told)
