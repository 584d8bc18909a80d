"""What `run` says as it goes."""

from __future__ import annotations

import json
from argparse import Namespace
from collections import Counter

import pytest

from streamnb.cli.commands.run import _print_addresses
from streamnb.config import load
from streamnb.engine.ports import Partition, Record
from streamnb.engine.processing.counters import Counters
from streamnb.engine.sensor import Committed, WorkerState
from streamnb.engine.settings import LabelSettings
from streamnb.telemetry.log_output import OUTPUT
from streamnb.telemetry.worker_observers import Ticker
from tests.support.service import new_learner


@pytest.fixture(autouse=True)
def _sentences():
    with OUTPUT.attached():
        yield


@pytest.mark.parametrize(
    ("label", "says"),
    [(None, "no label scored yet"), ("a", "accuracy 0.0000  log loss 34.5388 of the last 1 ")],
)
def test_there_are_no_scores_before_there_is_a_label(label, says, capsys, monkeypatch):
    learner, ticker = new_learner(), Ticker()
    raw = json.dumps({"id": "1", "text": "a", "label": label}).encode()
    learner.process([Record(Partition("events", 0), 0, None, raw, 0.0)], 1.0)
    ticker.reported(learner.report(1.0))
    monkeypatch.setattr("time.monotonic", lambda: 1e12)
    ticker.committed(Committed(1, 1, Counters(), 0.0, 1.0, []))
    assert says in capsys.readouterr().err


def test_where_labels_come_apart_events_are_not_counted_with_them(capsys, monkeypatch):
    learner, ticker = new_learner(labels=LabelSettings("labels")), Ticker()
    monkeypatch.setattr("time.monotonic", lambda: 1e12)
    steps = [
        ("events", {"id": "1", "text": "a"}, "1 event (", "1 event without a label so far"),
        ("labels", {"id": "1", "label": "a"}, "1 event of 2 records, labels among them (", "accuracy 0.0000"),
    ]
    for n, (topic, record, *says) in enumerate(steps, 1):
        learner.process([Record(Partition(topic, 0), 0, None, json.dumps(record).encode(), 0.0)], 1.0)
        ticker.reported(learner.report(1.0))
        ticker._printed_at = 0.0
        ticker.committed(Committed(n, 1, Counters(), 0.0, 1.0, []))
        told = capsys.readouterr().err
        assert all(words in told for words in says), told


def test_a_scorer_says_how_fast_it_predicts_and_how_far_behind_its_model_is(capsys, monkeypatch):
    monkeypatch.setattr("time.monotonic", lambda: 10.0)
    ticker = Ticker()
    monkeypatch.setattr("time.monotonic", lambda: 12.0)
    ticker.committed(Committed(6, 30, Counters(predicted=Counter({"a": 20, None: 10})), 0.0, 1.0, []))
    assert capsys.readouterr().err == ""  # neither a learner that has reported, nor one that follows
    ticker.followed(3)
    ticker.committed(Committed(7, 30, Counters(predicted=Counter({"a": 30})), 0.0, 1.0, []))
    assert capsys.readouterr().err == "30 predictions/s by journal record 7, 3 behind the learner\n"


def test_alerts_are_told_at_most_once_a_second_and_the_rest_at_the_end(capsys, monkeypatch):
    ticker, told = Ticker(), []
    for second, alerts in [
        (10.0, {("quiet\n", "no-events", "raised"): 1}),
        (10.5, {("quiet\n", "no-events", "cleared"): 1, ("new", "new-class", "discovered"): 2}),
        (10.9, {("new", "new-class", "discovered"): 1}),
        (11.0, {}),
        (11.1, {("quiet\n", "no-events", "raised"): 1}),
    ]:
        monkeypatch.setattr("time.monotonic", lambda second=second: second)
        ticker.committed(Committed(1, 1, Counters(alerts=Counter(alerts)), 0.0, 1.0, []))
        told.append(capsys.readouterr().err.splitlines())
    raised = ["monitor quiet\\n (no-events): raised"]
    later = ["monitor quiet\\n (no-events): cleared", "monitor new (new-class): discovered, 3 times"]
    assert told == [raised, [], [], later, []]
    ticker.entered(WorkerState.STOPPED)
    assert capsys.readouterr().err.splitlines() == raised


def test_a_run_without_a_configuration_says_how_to_feed_it(capsys):
    _print_addresses(load(None, {}, []), Namespace(config=None, until_end=False))
    assert "feed it: `streamnb replay FILE --log sqlite:///streamnb.db`" in capsys.readouterr().err
    _print_addresses(load(None, {}, []), Namespace(config="c.toml", until_end=False))
    assert "feed it" not in capsys.readouterr().err
