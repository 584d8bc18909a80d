"""Where an event is in a log, beside what reading all of the log says."""

from __future__ import annotations

import json

import pytest

from streamnb.engine.journal.event_locator import EventLocator
from streamnb.engine.ports import NewRecord, Partition
from streamnb.errors import LogError, MalformedEvent
from streamnb.formats.codec import decode_event, decode_prediction
from streamnb.formats.event_schema import EventSchema
from streamnb.runtime.worker_context import CommitPolicy
from tests.engine.journal.test_strays import write_stray
from tests.support.service import TOPICS, Ticking, new_worker, produce, raw_events, read_topic
from tests.support.topics_of_logs import trim

pytestmark = pytest.mark.early(69)

LOGS = ["sqlite", "kafka", "librdkafka"]
JOURNAL = Partition("journal", 0)


class PutBack(Ticking):
    """A clock that is put back by an hour now and then."""

    def __call__(self):
        now = super().__call__()
        if now % 17 == 0:
            self.now -= 3600.0
        return now


def search(log):
    return EventLocator(
        log,
        (["events"], "predictions", "journal"),
        "default",
        lambda record: decode_event(record.value, EventSchema(), record.key, record.timestamp),
    )


def learned(open_log, tmp_path, clock, lives=4):
    raws = raw_events(50)
    repeated = [raw.replace(b'"id": "e', b'"id": "r') for raw in raws[:6]] * 2
    rows = [*raws, b"no JSON", *repeated]
    log = open_log(**TOPICS | {"events": 3, "predictions": 2})
    for n in range(lives):
        part = rows[len(rows) * n // lives : len(rows) * (n + 1) // lives]
        log.append([NewRecord("events", str(i).encode(), raw) for i, raw in enumerate(part)])
        log.append([NewRecord("predictions", b"e3", b'{"somebody": "else"}')])
        worker = new_worker(log, tmp_path / "s", pace=CommitPolicy(commit_events=7), clock=clock)
        worker.start("a learner")
        write_stray(log, b"a stray")
        worker.run(until_end=True)
        worker.close()
        log = open_log()


@pytest.mark.thorough_for("librdkafka", "kafka-PutBack")
@pytest.mark.parametrize("clock", [Ticking, PutBack])
def test_an_event_is_where_reading_all_of_the_log_finds_it(open_log, tmp_path, clock, request):
    learned(open_log, tmp_path, clock())
    log = open_log()
    found, published = search(log), {}
    for record in read_topic(log, "predictions"):
        if b"somebody" not in record.value:
            said = decode_prediction(record.value)
            published.setdefault(said.id, []).append((said.ts, record))
    last = {}
    on_broker = request.node.callspec.params["open_log"] != "sqlite"
    asked = 24 if on_broker else 1  # there a search takes seconds
    for record in read_topic(log, "events")[::asked]:
        if record.value == b"no JSON":
            with pytest.raises(MalformedEvent):
                found.at(*record[:2], 10_000)
            continue
        one = found.at(*record[:2], 10_000)
        assert one.record == record
        assert one.event.id == json.loads(record.value)["id"]
        assert one.commit.kind == "commit"
        times = [said.ts for _, said in one.published]
        assert times == [one.commit.now] * len(times) != []
        last.setdefault(one.event.id, []).append((one.commit.n, one.place, record))
    assert len(last) == 56 or asked > 1
    for id_, where in last.items():
        one = found.by_id(id_, 10_000)
        ts = max(published[id_], key=lambda pair: (pair[0], pair[1].offset))[0]
        assert one.commit.now == ts
        if clock is Ticking and asked == 1:
            assert one.record == max(where, key=lambda row: row[:2])[2]
        elif asked == 1:
            assert one.record in [record for *_, record in where]
        else:
            assert one.event.id == id_


@pytest.mark.thorough_for("librdkafka")
def test_how_far_it_looked_is_said(open_log, tmp_path):
    log = open_log(**TOPICS)
    produce(log, raw_events(300))
    worker = new_worker(log, tmp_path / "s", pace=CommitPolicy(commit_events=50))
    worker.start("a learner")
    worker.run(until_end=True)
    worker.close()
    log = open_log()
    with pytest.raises(LogError, match="among the newest 250 offsets of topic 'predictions', of 3"):
        search(log).by_id("e2", 250)
    with pytest.raises(LogError, match="all that are kept"):
        search(log).by_id("e300", 10**9)
    assert search(log).by_id("e2", 10**9).record.offset == 2
    trim(log, Partition("predictions", 0), 100)
    with pytest.raises(LogError, match="retention has removed it"):
        search(open_log()).by_id("e2", 10**9)
    produce(log, raw_events(301)[300:])
    with pytest.raises(LogError, match="was not processed yet"):
        search(open_log()).at(Partition("events", 0), open_log().offsets(Partition("events", 0))[1] - 1, 9)
