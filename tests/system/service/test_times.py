"""What a log's own clock is for: times that cannot be, and events that do not say when they were; and lost labels."""

from __future__ import annotations

import json
import time

import pytest

from streamnb.cli import main
from streamnb.config import load
from streamnb.engine.journal.recovery import recover
from streamnb.engine.journal.snapshot_store import NoSnapshots
from streamnb.engine.sensor import Sensor
from streamnb.formats.codec import decode_event
from streamnb.formats.event_schema import EventSchema
from streamnb.runtime import context, factories
from streamnb.runtime.worker import Worker
from streamnb.runtime.worker_context import CommitPolicy
from tests.support.malformed import LABEL_RECORDS, NOT_LABELS
from tests.support.service import TOPICS, AtOnce, digests, produce, raw_events, read_topic
from tests.support.verifying import told, verified

pytestmark = pytest.mark.early(58)

HYPOTHESES = 'hypotheses=[{name="all"}, {half_life="6h"}]'
PACE = CommitPolicy(commit_events=50, snapshot_events=120)
DAY = 86400.0


class Told(Sensor):
    def __init__(self):
        self.notes = []

    def noted(self, text):
        self.notes.append(text)


def without_time(raw):
    event = json.loads(raw)
    del event["ts"]
    return json.dumps(event).encode()


def at(ts, name):
    return json.dumps({"id": name, "ts": ts, "text": "w1 w2", "label": "a"}).encode()


RAWS = raw_events(150, seed=3)
TIMELESS = [without_time(raw) for raw in RAWS]


def configured(*flags):
    return load(None, {}, ["log.url=sqlite:///unused.db", HYPOTHESES, *flags])


def lived(open_log, folder, config, raws, sensor=None):
    """One life of a worker, to the end of the log."""
    log = open_log(**TOPICS)
    produce(log, raws)
    learner = factories.learner(config)
    store = AtOnce(folder, 100)
    worker = Worker(log, store, learner, factories.identity(config), PACE, time.time, sensor or Told())
    worker.start("test")
    worker.run(until_end=True)
    worker.close()
    return learner


def recovered(open_log, config):
    learner = factories.learner(config)
    recover(open_log(), NoSnapshots(), learner, factories.identity(config))
    return learner


def letters(log):
    return {record.value: dict(record.headers) for record in read_topic(log, "dead-letters")}


def clock(learner):
    return learner.model.statistics.decayed.tables.clock.tolist()


@pytest.mark.thorough_for("kafka")
def test_labels_that_lost_their_way_are_dead_letters_and_say_where_they_belong(open_log, tmp_path):
    config = configured()
    learner = lived(open_log, tmp_path, config, [*RAWS, *LABEL_RECORDS, *NOT_LABELS])
    found = letters(open_log())
    assert list(found) == LABEL_RECORDS
    for headers in found.values():
        assert (headers["reason"], headers["path"]) == (b"label-record", b"$")
        assert b"topics.labels" in headers["remedy"]
    assert learner.dead_letters == len(LABEL_RECORDS)
    assert digests(recovered(open_log, config)) == digests(learner)
    assert told(verified(open_log(), tmp_path, HYPOTHESES)) == []


@pytest.mark.thorough_for("kafka")
def test_a_time_after_the_record_is_refused_and_forgetting_goes_on(open_log, tmp_path):
    config, now = configured(), time.time()
    ahead = [at(now + 2 * DAY, "soon"), at(4_000_000_000, "2096"), at(now * 1000, "ms")]
    learner = lived(open_log, tmp_path, config, [RAWS[0], *ahead, at(now + DAY / 2, "local time"), *RAWS[1:]])
    found = letters(open_log())
    assert list(found) == ahead
    assert {(h["reason"], h["path"]) for h in found.values()} == {(b"out-of-range", b"$.ts")}
    assert b"looks like milliseconds; seconds are expected" in found[ahead[2]]["remedy"]
    assert clock(learner) == [json.loads(RAWS[0])["ts"], pytest.approx(now + DAY / 2)]
    assert digests(recovered(open_log, config)) == digests(learner)
    assert told(verified(open_log(), tmp_path, HYPOTHESES)) == []


def test_a_record_whose_own_time_cannot_be_meant_has_none():
    raw = b'{"id": "e1", "text": "w1"}'
    assert decode_event(raw, EventSchema(), None, 1.79e9).ts == 1.79e9
    assert decode_event(raw, EventSchema(), None, 1.79e15).ts is None


def test_times_of_events_alone_count_where_that_is_configured(open_log, tmp_path):
    config, ahead = configured("events.clock=event"), time.time() + 30 * DAY
    learner = lived(open_log, tmp_path, config, [*TIMELESS, at(ahead, "planned"), at(1e11, "ms")])
    assert list(letters(open_log())) == [at(1e11, "ms")]
    assert clock(learner) == [pytest.approx(ahead)] * 2


def test_events_without_a_time_are_of_when_the_log_recorded_them(open_log, tmp_path):
    """And so half-lives work; the log says the same of a record whenever it is read."""
    config, sensor = configured(), Told()
    learner = lived(open_log, tmp_path, config, TIMELESS * 8, sensor)
    records = read_topic(open_log(), "events")
    assert [r.timestamp for r in records] == [r.timestamp for r in read_topic(open_log(), "events")]
    labelled = [r.timestamp for r in records if json.loads(r.value)["label"] is not None]
    assert clock(learner) == [labelled[0], max(labelled)]
    assert sensor.notes == []
    assert digests(recovered(open_log, config)) == digests(learner)
    assert told(verified(open_log(), tmp_path, HYPOTHESES)) == []


def test_another_clock_may_be_chosen_later_and_is_journalled(open_log, tmp_path):
    config, chosen, sensor = configured("events.clock=event"), configured(), Told()
    first = lived(open_log, tmp_path, config, TIMELESS)
    assert clock(first) != clock(first)  # nan
    learner = lived(open_log, tmp_path, chosen, TIMELESS, sensor)
    assert any("events.clock" in note for note in sensor.notes)
    assert clock(learner)[1] == max(
        r.timestamp for r in read_topic(open_log(), "events") if b"null" not in r.value
    )
    assert digests(recovered(open_log, chosen)) == digests(learner)
    assert told(verified(open_log(), tmp_path, HYPOTHESES)) == []


@pytest.mark.thorough_for("kafka")
def test_half_lives_without_effect_are_told_once(open_log, tmp_path):
    sensor = Told()
    lived(open_log, tmp_path, configured("events.clock=event"), TIMELESS * 10, sensor)
    (note,) = sensor.notes
    assert "half-lives have no effect" in note
    assert 'events.clock = "log"' in note


def test_a_file_has_no_times_but_those_of_its_events(tmp_path, capsys):
    file = tmp_path / "events.jsonl"
    file.write_bytes(b"\n".join([*TIMELESS * 10, at(time.time() + 30 * DAY, "planned"), at(1e12, "ms")]))
    assert main(["evaluate", str(file), "--set", HYPOTHESES]) == 0
    shown = capsys.readouterr().out
    assert "out-of-range" in shown
    assert "half-lives have no effect" not in shown  # one event had a time
    file.write_bytes(b"\n".join(TIMELESS * 10))
    assert main(["evaluate", str(file), "--set", HYPOTHESES]) == 0
    assert "half-lives have no effect" in capsys.readouterr().out


def test_a_table_of_labels_alone_is_one_of_events():
    from streamnb.formats.event_columns import CsvColumns
    from streamnb.formats.event_csv import rows_to_events

    (raw,) = rows_to_events(["id,label,n\n", "m,ham,\n"], CsvColumns())
    assert decode_event(raw, context.schema(configured())).label == "ham"
