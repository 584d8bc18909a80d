"""What each part of a mixture brings: the variants are those sets, and the figures are those of `evaluate`."""

from __future__ import annotations

import random
import re

import pytest

from tests.cli.test_commands import answer, write_lines
from tests.cli.test_commands import streamnb as measure

DEFAULT = {
    "whole set": 13,
    "without softmax with pairs": 12,
    "without softmax": 11,
    "without byte softmax": 12,
    "without one dependence": 12,
    "without forests": 12,
    "without recent Gaussians": 11,
    "without pools": 10,
    "without calibrated pools": 12,
    "without calibrated naive Bayes": 11,
    "without binned densities": 12,
    "without plain naive Bayes": 12,
    "plain naive Bayes alone": 1,
    "single naive Bayes": 0,
}
FIGURES = ("accuracy", "log_loss", "calibration_error")


@pytest.fixture(scope="module")
def xor(tmp_path_factory):
    """Labels that only two attributes together tell: of the default set, only what reads pairs learns that."""
    draw = random.Random(1)
    bits = [(draw.getrandbits(1), draw.getrandbits(1)) for _ in range(700)]
    rows = [
        {"id": f"{i}", "features": {"a": "yn"[a], "b": "yn"[b]}, "label": "ab"[a ^ b]}
        for i, (a, b) in enumerate(bits)
    ]
    rows.insert(5, {"id": [5]})
    return write_lines(tmp_path_factory.mktemp("ablate") / "xor.jsonl", rows)


@pytest.fixture(scope="module")
def ablation(xor):
    (told,) = answer("ablate", xor)
    return told


def evaluated(file, *flags):
    scores = answer("evaluate", file, *flags)["cumulative"]
    return [scores[figure] for figure in FIGURES]


def figures(variant):
    return [variant[figure] for figure in FIGURES]


def test_variants_are_the_default_set_without_its_parts(ablation):
    assert {v["variant"]: v["hypotheses"] for v in ablation["variants"]} == DEFAULT
    assert (ablation["events"], ablation["scored"], ablation["dead_letters"]) == (701, 700, 1)


def test_the_whole_set_and_the_single_model_are_those_of_evaluate(xor, ablation):
    whole, *_, single = ablation["variants"]
    assert figures(whole) == evaluated(xor, "--set", "model.kind=mixture")
    assert figures(single) == evaluated(xor, "--set", "model.kind=naive_bayes")


def test_a_part_that_is_left_out_is_what_the_configuration_would_leave_out(xor, ablation, tmp_path):
    """The plain one alone, declared; with the switching rate that the default set has."""
    table = '[[hypotheses]]\nlikelihood = "presence"\nalpha = {}\n'
    tables = table.format(1.0)
    (tmp_path / "plain.toml").write_text(f"[posterior]\nswitching_rate = 1e-4\n{tables}")
    plain = next(v for v in ablation["variants"] if v["variant"] == "plain naive Bayes alone")
    assert figures(plain) == evaluated(xor, "--config", tmp_path / "plain.toml")


def test_what_only_pairs_can_learn_is_lost_without_them(ablation):
    accuracy = {v["variant"]: v["accuracy"] for v in ablation["variants"]}
    lost = {
        "plain naive Bayes alone",
        "single naive Bayes",
    }  # one dependence and a softmax regression read them
    assert all((accuracy[variant] < 0.6) == (variant in lost) for variant in DEFAULT), accuracy
    losses = [v["log_loss"] for v in ablation["variants"]]
    assert len(set(losses[:-1])) == len(losses) - 1, "each is another set; the single model is the plain one"


def test_declared_hypotheses_lose_only_what_they_have(xor, tmp_path):
    """A softmax regression pooled alone: without it there is nothing to pool, and without pools it is left."""
    (tmp_path / "c.toml").write_text('[[hypotheses]]\nkind = "softmax"\n[[hypotheses]]\nkind = "pool"\n')
    (told,) = answer("ablate", xor, "--config", tmp_path / "c.toml")
    assert [(v["variant"], v["hypotheses"]) for v in told["variants"]] == [
        ("whole set", 2),
        ("without pools", 1),
        ("single naive Bayes", 0),
    ]
    assert figures(told["variants"][0]) == evaluated(xor, "--config", tmp_path / "c.toml")


def test_tables_are_for_people_or_for_pages(xor, ablation):
    def cells(line):
        return [cell.strip() for cell in line.strip("| ").split(" | ")]

    told = measure("ablate", xor, "--markdown").stdout
    header, rule, *lines = [line for line in told.splitlines() if line.startswith("|")]
    assert cells(header) == ["variant", "hypotheses", "accuracy", "log loss", "calibration error", "time"]
    assert rule == "| --- | --: | --: | --: | --: | --: |"
    expected = [[v["variant"], *(f"{value:.4f}" for value in figures(v))] for v in ablation["variants"]]
    assert [[cells(line)[0], *cells(line)[2:5]] for line in lines] == expected
    shown = [re.split(" {2,}", line) for line in measure("ablate", xor).stdout.splitlines()]
    assert [[row[0], *row[-4:-1]] for row in shown if row[0] in DEFAULT] == expected
    assert told.startswith(f"{xor}: 701 events, 700 scored, 1 dead letters\n")
