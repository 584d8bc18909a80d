"""`read` by role, `model export` with late labels, and what `model diff` shows."""

from __future__ import annotations

import json

import pytest

from streamnb.cli import main

CONFIG = """
[model]
kind = "naive_bayes"
[topics]
predictions = "mine"
alerts = "my-alerts"
labels = "my-labels"
[[monitors]]
name = "quiet"
kind = "no-events"
after = "1h"
"""


@pytest.fixture
def told(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("STREAMNB_LOG__URL", "sqlite:///e.db")
    monkeypatch.setenv("STREAMNB_HTTP__LISTEN", "")
    (tmp_path / "c.toml").write_text(CONFIG)
    events = [
        {"id": f"m{i}", "text": f"w{i % 5} w{i % 3}", "label": None if i % 4 else "ab"[i % 8 > 3]}
        for i in range(40)
    ]
    (tmp_path / "e.jsonl").write_text("".join(json.dumps(one) + "\n" for one in events))

    def run(*arguments):
        code = main(list(arguments))
        return code, *capsys.readouterr()

    assert run("replay", "e.jsonl", "--config", "c.toml")[0] == 0
    assert run("run", "--until-end", "--config", "c.toml")[0] == 0
    return run


def test_a_role_means_the_configured_topic(told):
    code, out, _ = told("read", "predictions", "--config", "c.toml")
    assert (code, len(out.splitlines())) == (0, 40)
    assert told("read", "mine", "--config", "c.toml")[1] == out
    assert told("read", "alerts", "--config", "c.toml")[::2] == (0, "")
    code, _, err = told("read", "tenants", "--config", "c.toml")
    assert (code, err) == (2, "streamnb: topics.tenants is not set\n")
    code, _, err = told("read", "alerts")
    assert (code, err) == (2, "streamnb: topics.alerts is not set; [[monitors]] set it\n")


def test_a_topic_that_the_configuration_names_is_itself(told):
    swapped = ["--set", "topics.predictions=metrics", "--set", "topics.metrics=mine"]
    assert len(told("read", "metrics", "--config", "c.toml", *swapped)[1].splitlines()) < 40


def test_a_model_with_late_labels_is_exported_and_compared_but_not_merged(told):
    assert told("model", "export", "--config", "c.toml", "--out", "a.txt")[0] == 0
    assert told("model", "diff", "a.txt", "a.txt")[0] == 0
    assert told("label", "m6", "b", "--config", "c.toml")[0] == 0
    assert told("run", "--until-end", "--config", "c.toml")[0] == 0
    assert told("model", "export", "--config", "c.toml", "--out", "b.txt")[0] == 0
    code, out, _ = told("model", "diff", "a.txt", "b.txt", "--top", "1")
    assert code == 1
    assert "\n... and 1 more, of 2 counts that differ (--top N)\n" in out
    out = told("model", "diff", "a.txt", "b.txt", "--top", "2")[1]
    assert (" w0 " in out, " w1 " in out, "more" in out) == (True, True, False)
    code, _, err = told("model", "merge", "a.txt", "--out", "c.txt", "--set", "model.kind=naive_bayes")
    assert (code, "topics.labels does not go with shards" in err) == (2, True)
