"""`evaluate` names what makes its figures worthless, and the command that shows an honest one."""

from __future__ import annotations

import csv
import gzip
import json
import math
import random
import shlex
import subprocess
from collections import Counter
from itertools import pairwise

import numpy as np
import pytest
from sklearn.metrics import accuracy_score, cohen_kappa_score, f1_score, log_loss, roc_auc_score

from streamnb import BayesOptimalNB, ProgressiveValidation
from streamnb.cli import main
from streamnb.config import Config
from streamnb.runtime import factories

pytestmark = pytest.mark.early(40)

BAYES = ("--set", "model.kind=naive_bayes")


def write(folder, rows, name="e.jsonl"):
    texts = [
        json.dumps({"id": str(i), "features": features, "label": label})
        for i, (features, label) in enumerate(rows)
    ]
    (folder / name).write_text("".join(f"{text}\n" for text in texts))


def made_up(n=300, labels="abc", spread=1.5):
    rng = random.Random(7)
    for _ in range(n):
        label = rng.choice(labels)
        yield {"x": rng.gauss(labels.index(label), spread), "colour": rng.choice("rgb")}, label


@pytest.fixture
def told(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)

    def run(*arguments, code=0):
        assert main(["evaluate", *arguments]) == code
        return capsys.readouterr()

    return run


def figures(told, *arguments):
    return json.loads(told(*arguments, "--json").out)


def test_rows_sorted_by_label_are_named_with_the_command_that_shuffles_them(told, tmp_path):
    write(tmp_path, sorted(made_up(), key=lambda row: row[1]))
    out = told("e.jsonl").out
    lines = out.splitlines()
    (place,) = [
        i for i, line in enumerate(lines) if line.startswith("warning: the rows are grouped by label")
    ]
    assert "equal labels make 3 runs, and in random order about 20" in lines[place]
    assert lines[place + 1] == "  streamnb evaluate e.jsonl --shuffle"
    assert any(line.startswith("accuracy") for line in lines[:place])
    stored, shuffled = (figures(told, "e.jsonl", *more) for more in ((), ("--shuffle",)))
    assert stored["cumulative"]["accuracy"] > 0.9
    assert shuffled["cumulative"]["accuracy"] < 0.6
    assert stored["baselines"]["kappa_temporal"] < 0 < shuffled["baselines"]["kappa_temporal"]
    assert "rows-grouped" not in told("e.jsonl", "--shuffle").out + told("e.jsonl", "--shuffle").err
    assert told("e.jsonl", "--json").err.count("grouped by label") == 1
    honest = told(*shlex.split(lines[place + 1])[2:]).out
    assert "grouped" not in honest


def test_the_suggested_command_keeps_all_options_except_the_order(told, tmp_path):
    write(tmp_path, sorted(made_up(), key=lambda row: row[1]))
    (tmp_path / "o.txt").write_text("\n".join(map(str, range(300))))
    for order in (("--order", "o.txt"), ("--order=o.txt",)):
        out = told("e.jsonl", *order, *BAYES, "--details").out
        assert "\n  streamnb evaluate e.jsonl --set model.kind=naive_bayes --details --shuffle\n" in out


def test_a_shuffle_is_that_of_its_seed_from_a_file_or_standard_input(told, tmp_path, monkeypatch):
    write(tmp_path, made_up())
    by_seed = {
        seed: figures(told, "e.jsonl", "--shuffle", *seed)["model_digest"] for seed in ((), ("0",), ("1",))
    }
    assert by_seed[()] == by_seed["0",] != by_seed["1",]
    assert figures(told, "e.jsonl")["model_digest"] not in by_seed.values()
    with (tmp_path / "e.jsonl").open() as file:
        monkeypatch.setattr("sys.stdin", file)
        assert figures(told, "-", "--shuffle", "1")["model_digest"] == by_seed["1",]


def test_held_out_classes_that_were_never_learned_are_counted(told, tmp_path):
    write(tmp_path, sorted(made_up(), key=lambda row: row[1]))
    err = told("e.jsonl", "--holdout", "2/3", *BAYES).err
    counts = [sum(label == "c" for _, label in made_up())]
    assert f"{counts[0]} held-out rows with classes that were never learned: 'c'" in err
    assert "--shuffle divides them at random" in err
    assert "never learned" not in told("e.jsonl", "--holdout", "2/3", "--shuffle", *BAYES).err


def test_a_copied_label_is_named_and_can_be_left_out(told, tmp_path):
    write(tmp_path, [({**features, "copy": label}, label) for features, label in made_up()])
    err = told("e.jsonl", *BAYES).err
    assert err.count("the label follows from copy alone, in 300 rows looked at") == 1
    command = err.strip().rpartition("Without: ")[2]
    assert command == "streamnb evaluate e.jsonl --set model.kind=naive_bayes --drop=copy"
    told("e.jsonl", *BAYES, "--report", "r.html")
    assert "the label follows from copy alone" in (tmp_path / "r.html").read_text()
    honest = told(*shlex.split(command)[2:])
    assert honest.err == ""
    write(tmp_path, made_up(), "plain.jsonl")
    given = [
        figures(told, name, *BAYES, *more)
        for name, more in (("e.jsonl", ("--drop", "copy")), ("plain.jsonl", ()))
    ]
    assert given[0]["model_digest"] == given[1]["model_digest"]
    assert given[0]["cumulative"] == given[1]["cumulative"]


@pytest.mark.parametrize("more", [(), ("--delay", "7"), ("--holdout", "1/2")])
def test_all_scores_are_those_of_scikit_learn(told, tmp_path, more):
    write(tmp_path, made_up(400, "ab"))
    found = figures(told, "e.jsonl", *more, *([] if "--holdout" in more else ["--predictions", "p.jsonl"]))
    guesses, labels = found["baselines"], [label for _, label in made_up(400, "ab")]
    n = found["cumulative"]["events"]
    same = [after == before for before, after in pairwise(labels)]
    same = [False, *same][-n:]
    assert guesses["same_as_before"] == pytest.approx(sum(same) / n, abs=1e-12)
    expected = (found["cumulative"]["accuracy"] - sum(same) / n) / (1 - sum(same) / n)
    assert guesses["kappa_temporal"] == pytest.approx(expected, abs=1e-9)
    if more:
        return
    said = [json.loads(line) for line in (tmp_path / "p.jsonl").read_text().splitlines()]
    truths, predicted = ([str(one.get(key)) for one in said] for key in ("truth", "label"))
    every = [[one["probabilities"].get(label, 0.0) for label in "ab"] for one in said]
    scores = found["cumulative"]
    assert scores["accuracy"] == pytest.approx(accuracy_score(truths, predicted), abs=1e-9)
    assert scores["kappa"] == pytest.approx(cohen_kappa_score(truths, predicted), abs=1e-9)
    f1 = f1_score(truths, predicted, labels=["a", "b"], average="macro")
    assert scores["macro_f1"] == pytest.approx(f1, abs=1e-9)
    costs = [max(row["ab".index(truth)], 1e-15) for row, truth in zip(every, truths, strict=True)]
    met = next(i for i, truth in enumerate(truths) if truth != truths[0]) + 1
    assert sum(costs[met:]) > 0
    likelihood = log_loss(truths[met:], every[met:], labels=["a", "b"])
    first = 2 * 34.53877639491069  # the two labels that were new
    rest = sum(-math.log(cost) for cost in costs[1 : met - 1])
    assert scores["log_loss"] * 400 == pytest.approx(likelihood * (400 - met) + first + rest, abs=1e-6)
    brier = sum(
        sum((p - (label == truth)) ** 2 for p, label in zip(row, "ab", strict=True))
        for row, truth in zip(every, truths, strict=True)
    )
    assert scores["brier"] == pytest.approx(brier / 400, abs=1e-9)
    odds = [0.5] * met + [row[1] for row in every[met:]]
    auc = roc_auc_score([truth == "b" for truth in truths], odds)
    assert 1 - found["one_less_auc"] == pytest.approx(auc, abs=1e-9)


def test_the_model_is_named_with_its_settings(told, tmp_path):
    write(tmp_path, made_up(50))
    assert "\nmodel: mixture, default settings\n" in told("e.jsonl").out
    out = told("e.jsonl", *BAYES, "--set", "model.alpha=0.5").out
    assert "\nmodel: naive_bayes, model.alpha=0.5\n" in out
    assert "\nmodel: streamnb:NaiveBayes\n" in told("e.jsonl", "--model", "streamnb:NaiveBayes").out


def test_many_classes_have_their_top_confusions(told, tmp_path):
    rng, labels = random.Random(2), [f"class {k}" for k in range(14)]
    rows = [({"x": labels.index(label) + rng.gauss(0, 0.6)}, label) for label in rng.choices(labels, k=900)]
    write(tmp_path, rows)
    out = told("e.jsonl", *BAYES, "--predictions", "p.jsonl").out
    said = [json.loads(line) for line in (tmp_path / "p.jsonl").read_text().splitlines()]
    counts = {}
    for one in said:
        if one.get("label") not in {None, one["truth"]}:
            pair = one["truth"], one["label"]
            counts[pair] = counts.get(pair, 0) + 1
    lines = out.splitlines()
    first = lines.index(next(line for line in lines if line.startswith("truth "))) + 1
    shown = [line.rsplit(None, 1)[1] for line in lines[first : first + 10]]
    assert shown == [str(n) for n in sorted(counts.values(), reverse=True)[:10]]
    (worst,) = [line for line in lines if line.startswith("worst classes by F1: ")]
    assert worst.count(", ") == 2


def test_what_decides_is_ranked_numbers_included(told, tmp_path):
    write(tmp_path, made_up(600, "ab", spread=0.5))
    found = figures(told, "e.jsonl")["importances"]
    assert [one["attribute"] for one in found] == ["x", "colour"]
    assert found[0]["share"] > 0.9
    out = told("e.jsonl").out
    (line,) = [line for line in out.splitlines() if line.startswith("x ")]
    assert line.split() == ["x", f"{100 * found[0]['share']:.1f}", "%", f"{found[0]['nats']:.4f}"]
    assert "what decides" not in told("e.jsonl", "--drop", "colour").out  # one attribute decides all


def test_predictions_for_the_importance_are_few(told, tmp_path, monkeypatch):
    asked = []
    usual = BayesOptimalNB.predict_posteriors
    monkeypatch.setattr(
        BayesOptimalNB,
        "predict_posteriors",
        lambda self, xs, ts=None: asked.append(len(xs)) or usual(self, xs, ts),
    )
    rng = random.Random(4)
    write(tmp_path, [({f"x{k}": rng.random() for k in range(30)}, rng.choice("ab")) for _ in range(600)])
    told("e.jsonl")
    assert len(asked) == 9  # eight attributes, and none
    assert 200 < sum(asked) <= 400


def test_the_default_model_of_python_and_of_the_commands_is_the_same(told, tmp_path):
    write(tmp_path, made_up(400))
    xs, ys = zip(*made_up(400), strict=True)
    model = BayesOptimalNB()
    probabilities = model.predict_then_learn_many([*xs], [*ys]).probabilities
    found = figures(told, "e.jsonl", "--predictions", "p.jsonl")
    learner = factories.model(Config())
    assert learner.predict_then_learn_many([*xs], [*ys]).probabilities.tobytes() == probabilities.tobytes()
    assert learner.digest() == model.digest()
    scores = ProgressiveValidation()
    scores.update_many(probabilities, np.array([model.classes.index(y) for y in ys]))
    assert found["cumulative"]["log_loss"] == scores.cumulative().log_loss


@pytest.mark.parametrize(("name", "step", "lower"), [("sms_spam", 1, 0.005), ("elec2", 8, 0.1)])
def test_public_data_sorted_by_label_is_less_accurate_by_the_printed_command(
    told, tmp_path, streams, name, step, lower
):
    with gzip.open(streams / f"{name}.jsonl.gz") as file:
        lines = file.readlines()[::step]
    lines.sort(key=lambda line: json.loads(line)["label"])
    (tmp_path / "e.jsonl").write_bytes(b"".join(lines))
    out = told("e.jsonl").out
    assert "warning: the rows are grouped by label: equal labels make 2 runs" in out
    (command,) = [line for line in out.splitlines() if line.startswith("  streamnb ")]
    program, evaluate, *arguments = shlex.split(command)
    assert (program, evaluate) == ("streamnb", "evaluate")
    stored, honest = figures(told, "e.jsonl"), figures(told, *arguments)
    assert honest["cumulative"]["events"] == stored["cumulative"]["events"] == len(lines)
    assert honest["cumulative"]["accuracy"] < stored["cumulative"]["accuracy"] - lower


@pytest.mark.parametrize("name", ["b\x1b[31m'\\n\u202e", "two words", "-x", "\xad\x85"])
def test_a_command_without_a_column_runs_as_it_is_printed(told, tmp_path, name):
    write(tmp_path, [({**features, name: label}, label) for features, label in made_up()])
    command = told("e.jsonl", *BAYES).err.strip().rpartition("Without: ")[2]
    assert command.isprintable()
    shell = ["bash", "-c", f'streamnb() {{ printf "%s\\0" "$@"; }}; {command}']
    words = subprocess.run(shell, env={"LC_ALL": "C.UTF-8"}, capture_output=True, check=True).stdout
    evaluate, *arguments = words.decode().split("\0")[:-1]
    assert evaluate == "evaluate"
    assert arguments[-1] == f"--drop={name}"
    assert told(*arguments).err == ""


def test_a_command_for_standard_input_names_its_source(told, tmp_path, monkeypatch):
    write(tmp_path, sorted(made_up(), key=lambda row: row[1]))
    with (tmp_path / "e.jsonl").open() as file:
        monkeypatch.setattr("sys.stdin", file)
        assert "\n  streamnb evaluate - --shuffle < FILE\n" in told("-").out


def test_an_attribute_to_drop_that_no_event_has_is_reported(told, tmp_path):
    write(tmp_path, made_up())
    err = told("e.jsonl", "--drop", "nosuch", "--drop", "x", *BAYES).err
    assert err == "streamnb: --drop: left out nothing of nosuch, which no event has\n"
    assert told("e.jsonl", "--drop", "x", *BAYES).err == ""


def test_a_text_is_dropped_like_any_other_attribute(told, tmp_path):
    rows = [("free cash", "spam"), ("lunch", "ham")] * 20
    lines = [{"id": str(i), "text": text, "label": label} for i, (text, label) in enumerate(rows)]
    (tmp_path / "e.jsonl").write_text("\n".join(map(json.dumps, lines)))
    without = told("e.jsonl", "--drop", "text", "--json", *BAYES)
    assert "left out nothing" not in without.err
    right = [
        json.loads(one.out)["cumulative"]["accuracy"] for one in (without, told("e.jsonl", "--json", *BAYES))
    ]
    assert right[0] < 0.6
    assert right[1] > 0.9


def test_a_long_class_name_leaves_the_tables_readable(told, tmp_path):
    write(tmp_path, [({**features, "w": label * 300}, label * 300) for features, label in made_up()])
    out = told("e.jsonl").out
    assert "a" * 59 + "…" in out
    assert max(map(len, out.splitlines())) < 250
    assert set(figures(told, "e.jsonl")["labels"]) == {label * 300 for label in "abc"}


DECIDES = ("--set", "decision.costs={a={b=9.0, c=1.0}}", "--set", "decision.reject=0.3")


def decided_again(told, tmp_path, *more):
    """Truth, published decision and expected cost of each event, from the predictions themselves."""
    told("e.jsonl", *BAYES, *DECIDES, *more, "--predictions", "p.jsonl")
    truths = {str(i): label for i, (_, label) in enumerate(made_up())}
    found = [json.loads(line) for line in (tmp_path / "p.jsonl").read_text().splitlines()]
    return [(truths[one["id"]], one["decision"], one["expected_cost"]) for one in found]


@pytest.mark.parametrize("more", [(), ("--delay", "20")])
def test_decisions_have_a_confusion_and_costs_by_threshold_of_their_own(told, tmp_path, more):
    write(tmp_path, made_up())
    answer = figures(told, "e.jsonl", *BAYES, *DECIDES, *more)
    published = decided_again(told, tmp_path, *more)
    cells = {(cell["truth"], cell["decision"]): cell["events"] for cell in answer["decided"]}
    assert cells == Counter((truth, decision) for truth, decision, _ in published)
    assert None in {decision for _, decision in cells}
    cost = {(cell["truth"], cell["decision"]): cell["cost"] for cell in answer["decided"]}
    assert (cost["b", "a"], cost["a", None]) == (9.0, 0.3)
    scores = answer["decisions"]["cumulative"]
    (configured,) = [one for one in answer["cost_by_expected_cost"] if one["threshold"] == 0.3]
    assert configured["mean_cost"] == pytest.approx(scores["mean_cost"], rel=1e-12)
    assert configured["coverage"] == scores["coverage"] < 1.0
    assert configured["accuracy"] == pytest.approx(scores["accuracy"], rel=1e-12)
    everything = answer["cost_by_expected_cost"][-1]
    always = figures(told, "e.jsonl", *BAYES, *DECIDES[:2], *more)["decisions"]["cumulative"]
    assert everything["coverage"] == always["coverage"] < 1.0  # an empty model decides nothing
    undecided = (1.0 - always["coverage"]) * (1.0 - 0.3)  # not deciding costs 1 by default
    assert everything["mean_cost"] == pytest.approx(always["mean_cost"] - undecided, rel=1e-12)
    out = told("e.jsonl", *BAYES, *DECIDES, *more, "--details").out
    header = next(line for line in out.splitlines() if line.startswith("truth \\ decided"))
    assert header.split()[3:] == ["a", "b", "c", "nothing"]
    assert "on average, the least; they decide" in out
    assert "expected cost up to" in out


def test_held_out_decisions_are_counted_and_without_a_rule_there_are_none(told, tmp_path):
    write(tmp_path, made_up())
    answer = figures(told, "e.jsonl", *BAYES, *DECIDES, "--holdout", "1/2")
    assert sum(cell["events"] for cell in answer["decided"]) == 150
    (configured,) = [one for one in answer["cost_by_expected_cost"] if one["threshold"] == 0.3]
    assert configured["mean_cost"] == pytest.approx(answer["decisions"]["cumulative"]["mean_cost"], rel=1e-12)
    plain = figures(told, "e.jsonl", *BAYES)
    assert (plain["decided"], plain["cost_by_expected_cost"]) == ([], [])
    assert plain["cost_by_probability"] == {"label": "", "thresholds": []}


def test_two_classes_have_costs_by_probability_whose_half_is_the_accuracy(told, tmp_path):
    write(tmp_path, made_up(labels="ab"))
    answer = figures(told, "e.jsonl", *BAYES)
    found = answer["cost_by_probability"]
    half = next(one for one in found["thresholds"] if one["threshold"] == 0.5)
    assert half["accuracy"] == pytest.approx(answer["cumulative"]["accuracy"], abs=0.01)
    assert half["mean_cost"] == pytest.approx(1.0 - half["accuracy"], abs=1e-12)
    assert f"P({found['label']}) from" in told("e.jsonl", *BAYES, "--details").out


def test_predictions_as_a_table_are_those_of_the_json_lines(told, tmp_path):
    write(tmp_path, made_up())
    for name in ("p.jsonl", "p.csv"):
        told("e.jsonl", *BAYES, *DECIDES, "--predictions", name)
    lines = [json.loads(line) for line in (tmp_path / "p.jsonl").read_text().splitlines()]
    with (tmp_path / "p.csv").open(newline="") as file:
        rows = [*csv.DictReader(file)]
    assert len(rows) == len(lines) == 300
    for row, line in zip(rows, lines, strict=True):
        assert (row["id"], row["label"], row["predicted"]) == (line["id"], line["truth"], line["label"] or "")
        assert row["decision"] == (line["decision"] or "")
        told_of = {name: float(row[f"probability_{name}"]) for name in "abc" if row[f"probability_{name}"]}
        assert told_of == line["probabilities"]


def test_what_decides_is_ranked_of_a_log_too(told, tmp_path, capsys):
    write(tmp_path, made_up())
    log = ("--log", f"sqlite:///{tmp_path}/log.db", *BAYES)
    assert main(["replay", "e.jsonl", *log]) == 0
    assert main(["run", *log, "--until-end", "--set", "http.listen="]) == 0
    capsys.readouterr()
    of_log, of_file = figures(told, *log)["importances"], figures(told, "e.jsonl", *BAYES)["importances"]
    assert [one["attribute"] for one in of_log] == ["x", "colour"]
    assert of_log == of_file
