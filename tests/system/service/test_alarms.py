"""A stream that stops, labels that stop or flip, a class that drifts: each raises its alarm, and no other."""

from __future__ import annotations

import json
import random
import threading
import time
from contextlib import contextmanager
from itertools import count

import pytest

from streamnb.engine.journal.job_identity import JobIdentity
from streamnb.engine.journal.recovery import recover
from streamnb.engine.journal.snapshot_store import NoSnapshots
from streamnb.engine.ports import NewRecord
from streamnb.engine.processing.monitors import delays
from streamnb.engine.settings import LabelSettings, MonitorSettings
from streamnb.formats.codec import decode_alert
from streamnb.formats.journal_record import decode_journal
from streamnb.persistence.snapshot_folder import SnapshotFolder
from streamnb.runtime.worker_context import CommitPolicy
from tests.support.service import digests, new_learner, new_worker, read_topic

pytestmark = pytest.mark.early(67)

TOPICS = dict.fromkeys(("events", "labels", "predictions", "metrics", "dead_letters", "journal", "alerts"), 1)
IDENTITY = JobIdentity(("events", "labels"), "journal", "c0ffee", {"python": "3"})
CHUNK, HEALTHY, PATIENCE = 50, 12, 120
_IDLE_POLLS = 20
MONITORS = (
    MonitorSettings("errors", "error-rate", (0.1,), (0.4,), action="pause"),
    MonitorSettings("spam", "class-rate", (0.35, 0.65), (0.15, 0.85), label="spam", action="renew"),
    MonitorSettings("sure", "calibration", (0.2,), (0.5,)),
    MonitorSettings("events stopped", "no-events", after=60.0, action="renew"),
    MonitorSettings("labels stopped", "no-labels", after=600.0, action="renew"),
)
DOES = {one.name: "" if one.action == "tell" else one.action for one in MONITORS}
WITHIN = {one.name: max(delays(one, CHUNK * HEALTHY).values(), default=0) for one in MONITORS}


def learner():
    return new_learner(labels=LabelSettings("labels"), monitors=MONITORS)


class Source:
    """Who sends events, and who labels them; and a clock that only they set."""

    def __init__(self, log):
        self.log, self.now, self.sent, self.chunks = log, 1_790_000_000.0, 0, 0
        self._rng = random.Random(1)

    def clock(self):
        return self.now

    def send(self, share=0.5, *, flipped=False, labels=True):
        """Events, and their labels; 30 s pass meanwhile."""
        events, verdicts = [], []
        for i in range(CHUNK):
            is_spam = self._rng.random() < share
            event = {"id": f"e{self.chunks}-{i}", "text": "buy cheap pills" if is_spam else "meet me at noon"}
            events.append(NewRecord("events", b"1", json.dumps(event).encode()))
            label = "spam" if is_spam != flipped else "ham"
            verdict = {"id": event["id"], "label": label}
            verdicts.append(NewRecord("labels", b"1", json.dumps(verdict).encode()))
        self.now += 30.0
        self.chunks += 1
        self.log.append(events + verdicts if labels else events)
        self.sent += len(events) * (1 + labels)


def slow_to_read(log):
    """A log whose first polls return nothing though something waits, as those of a cluster may."""
    poll, asked = log.poll, count()
    log.poll = lambda *of: [] if next(asked) < _IDLE_POLLS else poll(*of)
    return log


@contextmanager
def running(open_log, folder, source):
    """A learner at work in a thread of its own."""
    failures, made, workers = [], learner(), []

    def work():
        try:
            worker = new_worker(
                slow_to_read(open_log()),
                folder,
                learner=made,
                pace=CommitPolicy(100, 0.02),
                clock=source.clock,
                identity=IDENTITY,
            )
            workers.append(worker)
            worker.start("one")
            worker.run()
            worker.close()
        except Exception as error:  # noqa: BLE001  it is told to whoever waits
            failures.append(error)

    thread = threading.Thread(target=work)
    thread.start()

    def until(condition):
        deadline = time.monotonic() + PATIENCE
        while not condition():
            assert not failures, failures
            assert time.monotonic() < deadline, "waited in vain"
            time.sleep(0.01)

    try:
        yield made, until
    finally:
        workers[0].stop()
        thread.join(PATIENCE)
    assert not failures, failures


def alerts(log):
    return [decode_alert(record.value) for record in read_topic(log, "alerts")]


def states(log):
    return [(one.monitor, one.state) for one in alerts(log)]


def stopped_stream(source, send):
    source.now += 61.0
    yield ["events stopped"]
    send()


def stopped_labels(_, send):
    for _ in range(21):
        send(labels=False)
    yield ["labels stopped"]
    send()


def flipped_labels(_, send):
    for _ in range(3):
        send(flipped=True)
    yield ["errors", "sure"]
    send(flipped=True)


def abrupt_drift(_, send):
    for _ in range(3):
        send(0.95)
    yield ["spam"]
    for _ in range(4):
        send()


def gradual_drift(_, send):
    for share in (0.5, 0.55, 0.6, 0.65, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95):
        send(share)
    yield ["spam"]
    send(0.95)


@pytest.mark.storm_for("kafka", but=("kafka-stopped_labels", "kafka-abrupt_drift"))
@pytest.mark.thorough_for("kafka", but="kafka-abrupt_drift")
@pytest.mark.parametrize(
    "situation", [stopped_stream, stopped_labels, flipped_labels, abrupt_drift, gradual_drift]
)
def test_each_trouble_raises_its_alarm_and_no_other(open_log, tmp_path, situation):
    """What the alarm does is done by a second learner, which takes over once it is told."""
    log = open_log(**TOPICS)
    source = Source(open_log())

    def send(*share, **how):
        source.send(*share, **how)
        until(lambda: made.consumed == source.sent)

    with running(open_log, tmp_path / "snapshots", source) as (made, until):
        for _ in range(HEALTHY):
            send()
        before, steps = source.sent, situation(source, send)
        expected = next(steps)
        until(lambda: len(states(log)) >= len(expected))
        raised = sorted(alerts(log), key=lambda one: one.monitor)
        assert [(one.monitor, one.state) for one in raised] == [(name, "raised") for name in expected]
        for one in raised:
            late = 150 * 2 if situation is gradual_drift else 0  # until its share is alarming
            assert one.events <= before + late + 2 * (WITHIN[one.monitor] + CHUNK) or one.seconds, one
            assert one.action == DOES[one.monitor]
        assert {one.name for one in made.monitors.reports() if one.raised} == set(expected)
    with running(open_log, tmp_path / "snapshots", source) as (made, until):
        until(lambda: made.consumed == source.sent)
        ends = situation in {stopped_stream, stopped_labels, abrupt_drift}
        next(steps, None)
        if ends:
            until(lambda: len(states(log)) == 2)
            assert states(log)[1] == (expected[0], "cleared")
    assert len(states(log)) == len(expected) * (2 if ends else 1)
    assert made.actions.renewed == 1
    assert (made.actions.passed_over > 0) == (situation is flipped_labels)
    assert made.actions.is_paused == (situation is flipped_labels)
    for store in (
        NoSnapshots(),
        SnapshotFolder(tmp_path / "snapshots"),
    ):  # which compares all that was published
        again = learner()
        recover(log, store, again, IDENTITY)
        assert digests(again) == digests(made)
        assert again.monitors.state()[0] == made.monitors.state()[0]


def test_who_was_away_reads_what_came_meanwhile_before_it_speaks_of_a_silence(open_log, tmp_path):
    log = open_log(**TOPICS)
    source = Source(open_log())
    for _ in range(2):
        with running(open_log, tmp_path / "snapshots", source) as (made, until):
            source.send()
            until(lambda: made.consumed == source.sent)
        source.now += 7200.0
        source.send()
    assert states(log) == []
    source.now += 7200.0
    with running(open_log, tmp_path / "snapshots", source) as (made, until):
        until(lambda: made.consumed == source.sent)
        source.now += 7200.0
        until(lambda: len(states(log)) == 2)
    assert states(log) == [("events stopped", "raised"), ("labels stopped", "raised")]


def test_an_idle_stream_makes_one_commit_for_an_alarm_and_none_without_monitors(open_log, tmp_path):
    """Commits are counted in the journal: those that were asked about a silence say so."""
    log = open_log(**TOPICS)
    source = Source(open_log())
    with running(open_log, tmp_path / "snapshots", source) as (made, until):
        source.send()
        until(lambda: made.consumed == source.sent)
        source.now += 61.0
        until(lambda: states(log) == [("events stopped", "raised")])
        time.sleep(0.5)  # a commit of each turn would be made by now
    journal = [decode_journal(record.value) for record in read_topic(log, "journal")]
    asked = [one for one in journal if one.silence]
    assert [(one.silence, one.slices) for one in asked if one.slices == ()][-1] == (60.0, ())
    assert len(asked) <= 3  # one at the beginning, for nothing had been heard, and one for each silence
