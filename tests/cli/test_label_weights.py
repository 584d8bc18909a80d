"""Labels that weigh less than a unit: `config lint` names them, `run` counts them and says so once."""

from __future__ import annotations

import json

import pytest

from streamnb.cli import main

WEIGHTS = "labels.weights={crowd=0.0004, bot=0.25, none=0}"
NAMED = "labels.weights: crowd = 0.0004 counts 1/1024 example"


def lint(capsys, *flags):
    code = main(["config", "lint", *flags])
    return code, capsys.readouterr().out


def test_lint_names_the_source_whose_labels_weigh_less_than_a_unit(capsys):
    flags = ["--set", "topics.labels=labels", "--set", WEIGHTS]
    code, told = lint(capsys, *flags)
    assert code == 1
    assert [line[: len(NAMED)] for line in told.splitlines()[:-1]] == [NAMED]
    code, told = lint(capsys, "--json", *flags)
    assert code == 1
    assert [one[: len(NAMED)] for one in json.loads(told)["small_weights"]] == [NAMED]


def test_lint_names_what_an_event_without_a_label_counts(capsys):
    flags = ["--set", "model.kind=semi_supervised", "--set"]
    code, told = lint(capsys, *flags, "model.unlabelled_weight=0.0005")
    assert (code, told.splitlines()[0].partition(" counts")[0]) == (1, "model.unlabelled_weight = 0.0005")
    assert lint(capsys, *flags, "model.unlabelled_weight=0.001")[0] == 0


@pytest.fixture
def log(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    events = [{"id": f"e{i}", "text": "cash prize" if i % 2 else "lunch at noon"} for i in range(40)]
    labels = [
        {"id": f"e{i}", "label": "spam" if i % 2 else "ham", "source": source, **more}
        for i, (source, more) in enumerate(
            [("crowd", {})] * 20 + [("bot", {"weight": 0.003})] * 10 + [("app", {})] * 6 + [("none", {})] * 4
        )
    ]
    (tmp_path / "events.jsonl").write_text("\n".join(map(json.dumps, events)))
    (tmp_path / "labels.jsonl").write_text("\n".join(map(json.dumps, labels)))
    return ["--log", "sqlite:///small.db", "--set", "topics.labels=labels", "--set", WEIGHTS]


def test_run_says_once_how_many_labels_count_more_than_they_say_and_verify_agrees(log, capsys):
    assert main(["replay", "events.jsonl", *log]) == 0
    assert main(["label", "--file", "labels.jsonl", *log]) == 0
    capsys.readouterr()
    flags = ["--set", "model.kind=naive_bayes"]
    assert main(["run", "--until-end", *log, *flags]) == 0
    said = [line for line in capsys.readouterr().err.splitlines() if "1/1024" in line]
    assert " warning weight-below-unit 30 labels with a weight above 0 and below 1/1024" in said[-1]
    assert len(said) <= 2  # the first time, and all of them at the end
    assert main(["verify", *log, *flags]) == 0
    capsys.readouterr()
    assert main(["inspect", "--json", *log, *flags]) == 0
    classes = json.loads(capsys.readouterr().out)["classes"]
    weights = {one["label"]: one["events"] for one in classes}
    assert weights == dict.fromkeys(("ham", "spam"), 15 / 1024 + 3.0)


def test_labels_inside_events_are_counted_too(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    rows = [
        {"id": str(i), "text": "free win" if i % 3 else "lunch", "label": "ab"[i % 3 > 0]} for i in range(30)
    ]
    (tmp_path / "events.jsonl").write_text("\n".join(map(json.dumps, rows)))
    flags = ["--set", "topics.labels=labels", "--set", "labels.weights={event=0.0007}"]
    assert main(["evaluate", "events.jsonl", "--set", "model.kind=naive_bayes", *flags]) == 0
    assert capsys.readouterr().err.count("streamnb: 30 labels with a weight above 0 and below 1/1024") == 1
    assert main(["evaluate", "events.jsonl", "--set", "model.kind=naive_bayes"]) == 0
    assert "1/1024" not in capsys.readouterr().err
