"""Accuracy on real streams, by the commands that a user would give. Figures are of the streams' own order."""

from __future__ import annotations

import gzip
import json
import math
import re
from pathlib import Path

import numpy as np
import pytest

from streamnb import BayesOptimalNB, Hypothesis, NaiveBayes
from streamnb.models.mixture.hypothesis_kinds import NAIVE_HYPOTHESES
from streamnb.scoring.prequential_scores import ESCAPE
from tests.cli.test_commands import answer

pytestmark = pytest.mark.thorough

NAIVE_BAYES = ("--set", "model.kind=naive_bayes")


def accuracy(*arguments):
    told = answer("evaluate", *arguments)
    assert told["dead_letters"] == 0
    return told["cumulative"]["accuracy"]


def test_sms_spam(streams):
    assert accuracy(streams / "sms_spam.jsonl.gz", *NAIVE_BAYES, "--set", "model.alpha=0.1") >= 0.980


@pytest.mark.parametrize(
    ("name", "at_least", "loss", "calibration"),
    [
        ("sms_spam", 0.985, 0.066, 0.01),
        ("20news_bydate", 0.89, 0.43, 0.01),
        ("elec2", 0.885, 0.285, 0.01),
        ("adult", 0.852, 0.322, 0.01),
    ],
)
def test_the_default_model_on_texts_and_tables(streams, name, at_least, loss, calibration):
    """Nothing is set; every event is predicted before it is learned."""
    scores = answer("evaluate", streams / f"{name}.jsonl.gz")["cumulative"]
    assert scores["accuracy"] >= at_least
    assert scores["log_loss"] <= loss
    assert scores["calibration_error"] <= calibration


def test_twenty_newsgroups_train_then_test(streams):
    """A plain multinomial model, alpha = 1: .771 from train, which stands first, to test."""
    part = ("--holdout", "11314/18846")
    assert round(accuracy(streams / "20news_bydate.jsonl.gz", *part, *NAIVE_BAYES), 2) == 0.77


@pytest.mark.parametrize(("alpha", "at_least"), [(1, 0.865), (0.01, 0.88)])
def test_twenty_newsgroups_as_joachims_did(streams, alpha, at_least):
    """2/3 for training, without the 100 most frequent words and those seen fewer than 3 times."""
    got = accuracy(
        streams / "20news_bydate.jsonl.gz",
        *(
            "--order",
            streams / "20news_bydate.shuffle7.txt.gz",
            "--holdout",
            "2/3",
            "--set",
            f"model.alpha={alpha}",
        ),
        *NAIVE_BAYES,
        *("--set", "model.prune.drop_most_frequent=100", "--set", "model.prune.min_count=3"),
    )
    assert got >= at_least


@pytest.mark.storm
def test_four_groups_of_newsgroups(streams, tmp_path):
    """The command of docs/lectures.md: a high-level group for each of 17 newsgroups, and none for three."""
    page = (Path(__file__).parents[2] / "docs" / "lectures.md").read_text()
    said, command = re.findall(
        r"articles, (\d+)% of the rest are right:\n\n```sh\nstreamnb evaluate (.*)\n", page
    )[0]
    with gzip.open(streams / "20news_bydate.jsonl.gz", "rt") as lines:
        names = {json.loads(line)["label"] for line in lines}
    groups = {name: name.split(".")[0] for name in names}
    of_four = {
        name: group if group in {"comp", "rec", "sci", "talk"} else None for name, group in groups.items()
    }
    assert list(of_four.values()).count(None) == 3
    (tmp_path / "groups.json").write_text(json.dumps(of_four))
    where = {
        "20news_bydate.jsonl.gz": streams / "20news_bydate.jsonl.gz",
        "groups.json": tmp_path / "groups.json",
    }
    assert f"{accuracy(*(where.get(word, word) for word in command.split())):.0%}" == f"{said}%"


@pytest.mark.parametrize(
    "name", ["adult", "elec2", "nsl_kdd", "river_phishing", "river_solarflare", "weka_iris", "weka_vote"]
)
def test_tables_are_taken_as_they_come(streams, name):
    told = answer("evaluate", streams / f"{name}.jsonl.gz")
    assert (told["dead_letters"], told["learned"]) == (0, told["events"])
    majority = max(sum(row) for row in told["confusion"]) / told["events"]
    assert told["cumulative"]["accuracy"] > (majority if name != "river_solarflare" else 0.6)


def probabilities_of(model, xs, ys):
    """What was given to the label of each event, before it was learned."""
    answer = model.predict_then_learn_many(xs, ys)
    column = {label: k for k, label in enumerate(answer.classes)}
    return np.array([row[column[y]] for row, y in zip(answer.probabilities, ys, strict=True)])


def test_the_mixture_is_as_good_as_the_best_hypothesis_on_real_messages(streams):
    """Its total loss lies at most ln 12 above the best of the twelve; two of these are models of their own."""
    with gzip.open(streams / "sms_spam.jsonl.gz", "rt", encoding="utf-8") as lines:
        events = [json.loads(line) for line in lines]
    xs, ys = [{"text": event["text"]} for event in events], [event["label"] for event in events]
    model = BayesOptimalNB({"text": "text"}, NAIVE_HYPOTHESES, switching_rate=0.0, floor=False)
    p = probabilities_of(model, xs, ys)
    losses = model.posterior.losses
    assert len(losses) == 12
    assert -np.log(np.maximum(p, ESCAPE)).sum() == pytest.approx(-model.posterior.log_evidence, rel=1e-9)
    assert model.posterior.regret() <= math.log(12) + 1e-9
    assert (p > 0.5).mean() >= 0.98
    for h in (Hypothesis("multinomial"), Hypothesis("bernoulli", alpha=0.1)):
        alone = probabilities_of(
            NaiveBayes({"text": "text"}, h.alpha or 1.0, event_model=h.likelihood), xs, ys
        )
        own = -np.log(np.maximum(alone, ESCAPE)).sum()
        assert losses[h.label] == pytest.approx(own, rel=1e-9)
