"""`evaluate` with labels that come late: River's figures, and what the flags refuse."""

from __future__ import annotations

import json
import random

import pytest
from river import evaluate, metrics

from streamnb import NaiveBayes
from streamnb.cli import main
from tests.support.service import raw_events

RAWS = raw_events(300, seed=9, labelled=0.9)
FLAGS = [
    "--json", "--set", "model.kind=naive_bayes", "--set", "metrics.window=50", "--set",
    "labels.window=999d",
]  # fmt: skip


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "events.jsonl"
    path.write_bytes(b"\n".join(RAWS))
    return path


def evaluated(capsys, file, *flags):
    assert main(["evaluate", str(file), *FLAGS, *flags]) == 0
    return json.loads(capsys.readouterr().out)


@pytest.mark.parametrize("delay", [1, 7, 100, 1000])
def test_a_delay_in_events_gives_what_river_gives(delay, tmp_path, capsys):
    """River asks the model when an event comes, and compares the answer when its label does."""
    events = [event for event in map(json.loads, RAWS) if event["label"] is not None]
    path = tmp_path / "labelled.jsonl"
    path.write_text("\n".join(map(json.dumps, events)))
    pairs = [({"text": event["text"], **event["features"]}, event["label"]) for event in events]
    metric = evaluate.progressive_val_score(
        pairs, NaiveBayes({"text": "text"}), metrics.Accuracy(), delay=delay
    )
    found = evaluated(capsys, path, "--delay", str(delay))
    assert found["learned"] == len(events)
    # River leaves out what an empty model was asked, which counts as wrong here.
    right = round(metric.get() * metric.cm.total_weight)
    assert (round(found["cumulative"]["accuracy"] * len(events)), found["cumulative"]["events"]) == (
        right,
        270,
    )
    assert metric.cm.total_weight == len(events) - min(delay, len(events))


def test_no_delay_is_as_labels_inside_events(file, capsys):
    plain, late = evaluated(capsys, file), evaluated(capsys, file, "--delay", "0")
    for name in ("accuracy", "macro_f1"):
        assert plain["cumulative"][name] == late["cumulative"][name]
    assert plain["cumulative"]["log_loss"] == pytest.approx(late["cumulative"]["log_loss"], rel=1e-12)
    assert plain["learned"] == late["learned"]


def test_noise_is_corrected_in_the_end(file, capsys):
    noisy = evaluated(capsys, file, "--delay", "exponential:10", "--noise", "0.4")
    clean = evaluated(capsys, file)
    assert noisy["verdicts"]["outcomes"]["changed"] > 50
    weights = [dict(zip(one["labels"], one["class_rates"], strict=True)) for one in (noisy, clean)]
    assert {k: v["weight"] for k, v in weights[0].items()} == {k: v["weight"] for k, v in weights[1].items()}
    assert noisy["cumulative"]["events"] == clean["cumulative"]["events"]


def test_what_is_not_revealed_is_scored_and_not_learned(file, tmp_path, capsys):
    some = evaluated(capsys, file, "--reveal", "0.3")
    labelled = sum(json.loads(raw)["label"] is not None for raw in RAWS)
    assert 0.2 * labelled < some["learned"] < 0.4 * labelled
    assert some["cumulative"]["events"] == labelled
    rng = random.Random(1)
    events = [{**json.loads(raw), "asked": rng.random() < 0.5} for raw in RAWS]
    path = tmp_path / "asked.jsonl"
    path.write_text("\n".join(map(json.dumps, events)))
    asked = evaluated(capsys, path, "--reveal", "$.asked", "--delay", "1h")
    assert asked["learned"] == sum(event["asked"] and event["label"] is not None for event in events)
    assert asked["cumulative"]["events"] == labelled


def test_when_events_were_makes_no_difference(tmp_path, capsys):
    """Before 1970, at its very beginning, or of late; and the first may have no time."""
    path, found = tmp_path / "moved.jsonl", []
    for first in (1_700_000_000.0, -3.0, -150.0, -1e9):
        events = [json.loads(raw) | {"ts": first + i} for i, raw in enumerate(RAWS)]
        for event in events[:3]:
            del event["ts"]
        path.write_text("\n".join(map(json.dumps, events)))
        told = evaluated(capsys, path, "--delay", "20s")
        found.append((told["cumulative"], told["verdicts"]["delays"], told["class_rates"]))
    assert found == found[:1] * len(found)


def test_malformed_events_and_ids_that_come_again_are_no_obstacle(tmp_path, capsys):
    path = tmp_path / "odd.jsonl"
    path.write_bytes(b"\n".join([*RAWS[:20], b"{", *RAWS[:20]]))
    found = evaluated(capsys, path, "--delay", "3")
    assert found["dead_letters"] == 1
    assert found["learned"] == 2 * sum(json.loads(raw)["label"] is not None for raw in RAWS[:20])


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--delay", "soon"], "--delay is 'soon'"),
        (["--delay", "exponential:"], "--delay is 'exponential:'"),
        (["--delay", "9" * 400], "--delay is '999"),
        (["--delay", "exponential:" + "9" * 400], "--delay is 'exponential:999"),
        (["--delay", "9" * 400 + "d"], "--delay is '999"),
        (["--holdout", "1e-999999999"], "--holdout: expected a share between 0 and 1"),
        (["--holdout", "1e999999999"], "--holdout: expected a share between 0 and 1"),
        (["--reveal", "2"], "--reveal is '2'"),
        (["--noise", "1"], "--noise is 1"),
        (["--delay", "5", "--holdout", "1/2"], "not with --holdout"),
    ],
)
def test_flags_that_cannot_be_are_refused(flags, said, file, capsys):
    assert main(["evaluate", str(file), *flags]) == 2
    assert said in capsys.readouterr().err
