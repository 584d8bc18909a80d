"""`compare` ranks configuration files, variants and classifiers in one pass, each as `evaluate` scores it."""

from __future__ import annotations

import io
import json
import random
import sys

import pytest

from streamnb.cli import main

pytestmark = pytest.mark.early(40)

MODULE = """
from streamnb import GaussianNB

class Constant:
    def learn_one(self, x, y, w=1.0):
        self.label = y

    def predict_one(self, x):
        return "a"

def gaussian():
    return GaussianNB()
"""


@pytest.fixture
def table(tmp_path, monkeypatch):
    """A table whose codes are numbers, which one configuration declares as names."""
    rng = random.Random(5)
    rows = ["id,code,x,label"]
    for i in range(600):
        label = rng.choice("ab")
        code = rng.choice((1, 3, 5) if label == "a" else (2, 4, 3))
        rows.append(f"{i},{code:02},{rng.gauss('ab'.index(label), 2):.3f},{label}")
    (tmp_path / "t.csv").write_text("\n".join(rows))
    (tmp_path / "plain.toml").write_text('[model]\nkind = "naive_bayes"\n')
    (tmp_path / "codes.toml").write_text(
        '[model]\nkind = "naive_bayes"\n[[attributes]]\nname = "code"\nkind = "nominal"\n'
        '[[attributes]]\nname = "x"\nkind = "continuous"\n'
    )
    (tmp_path / "compared_models.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "compared_models", raising=False)
    return tmp_path


@pytest.fixture
def told(capsys):
    def run(*arguments, code=0):
        assert main([*arguments]) == code
        return capsys.readouterr()

    return run


@pytest.mark.usefixtures("table")
def test_each_model_has_the_scores_that_evaluate_gives_it(told):
    models = ["compared_models:gaussian", "compared_models:Constant"]
    flags = [part for one in models for part in ("--model", one)]
    compared = ["compare", "t.csv", "--config", "plain.toml", "--config", "codes.toml"]
    compared += ["--against", "model.alpha=3", "classes.max=5", "--against", "model.alpha=9", *flags]
    board = json.loads(told(*compared, "--json").out)
    ways = {
        "plain.toml": ["--config", "plain.toml"],
        "codes.toml": ["--config", "codes.toml"],
        "with model.alpha=3, classes.max=5": ["--config", "plain.toml", "--set", "model.alpha=3", "--set", "classes.max=5"],
        "with model.alpha=9": ["--config", "plain.toml", "--set", "model.alpha=9"],
        **{name: ["--config", "plain.toml", "--model", name] for name in models},
    }  # fmt: skip
    assert {one["name"] for one in board["standings"]} == {*ways}
    for one in board["standings"]:
        alone = json.loads(told("evaluate", "t.csv", *ways[one["name"]], "--json").out)
        assert one["accuracy"] == pytest.approx(alone["cumulative"]["accuracy"], rel=1e-12)
        assert one["log_loss"] == pytest.approx(alone["open_log_loss"], rel=1e-12)
        assert one["model"] == alone["model_settings"]
    assert board["leader"] == "codes.toml"
    assert board["baselines"]["same_as_before"] == alone["baselines"]["same_as_before"]
    assert board["events"] == 600
    assert board["interrupted"] is False
    out = told(*compared).out
    assert out.splitlines()[1].startswith("codes.toml")
    assert "most frequent class so far" in out
    assert out.splitlines()[-1] == "with 95% confidence for all of this, at any time"


def test_rows_in_random_order_are_those_of_evaluate_and_grouped_rows_are_named(table, told):
    rows = (table / "t.csv").read_text().splitlines()
    rows[1:] = sorted(rows[1:], key=lambda row: row[-1])
    (table / "s.csv").write_text("\n".join(rows))
    two = ["--config", "plain.toml", "--config", "codes.toml"]
    out = told("compare", "s.csv", *two).out
    assert "warning: the rows are grouped by label" in out
    command = "streamnb compare s.csv --config plain.toml --config codes.toml --shuffle"
    assert f"\n  {command}\n" in out
    board = json.loads(told(*command.split()[1:], "--drop", "nothing", "--json").out)
    alone = json.loads(told("evaluate", "s.csv", "--config", "codes.toml", "--shuffle", "--json").out)
    codes = next(one for one in board["standings"] if one["name"] == "codes.toml")
    assert codes["log_loss"] == pytest.approx(alone["open_log_loss"], rel=1e-12)


def test_a_warning_of_one_configuration_is_printed_once_and_names_it(table, told):
    flags = ["--config", "plain.toml", "--config", "codes.toml"]
    lines = [
        line for line in told("compare", "t.csv", *flags).err.splitlines() if "007" in line or "code" in line
    ]
    assert len(lines) == len(set(lines))
    (table / "other.toml").write_text('[[attributes]]\nname = "colour"\nkind = "nominal"\n')
    err = told("compare", "t.csv", *flags, "--config", "other.toml").err
    assert err.count("colour") == err.count("streamnb: other.toml: ") == 1


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        ([], "there is one model only: add --config FILE, --against KEY=VALUE or --model MODULE:NAME"),
        (["--config", "plain.toml"], "there is one model only"),
        (["--config", "plain.toml", "--config", "plain.toml"], "plain.toml is given twice"),
        (["--against", "model.alpha=1", "--against", "model.alpha=1"], "with model.alpha=1 is given twice"),
        (["--config", "plain.toml", "--config", "none.toml"], "none.toml"),
        (["--against", "metrics.window=9", "t.csv"], "--against"),
        (
            ["--against", "metrics.window=9", "--model", "compared_models:none"],
            "expected a name in compared_models",
        ),
        (
            ["--config", "plain.toml", "--config", "labels.toml"],
            "--config labels.toml: events.label: all answer",
        ),
    ],
)
def test_what_is_no_comparison_is_refused(table, told, flags, expected):
    (table / "labels.toml").write_text("[events]\nlabel = '$.features.code'\n")
    said = told("compare", "t.csv", *flags, code=2)
    assert expected in said.err
    assert not said.out


@pytest.mark.usefixtures("table")
def test_standard_input_is_read_in_one_way_only(told, monkeypatch):
    for flags, code in ((["--config", "codes.toml"], 2), (["--against", "metrics.window=9"], 0)):
        rows = b'{"id": "1", "text": "a", "label": "x"}\n'
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(rows)))
        said = told("compare", "-", "--config", "plain.toml", *flags, code=code)
        assert ("give a file" in said.err) == (code == 2)


@pytest.mark.usefixtures("table")
def test_a_log_has_no_rows_to_shuffle(told):
    said = told("compare", "--log", "sqlite:///no.db", "--against", "model.alpha=1", "--shuffle", code=2)
    assert "--shuffle: needs a file" in said.err
