"""Requests of clients on every log: each idempotency key is written once, whoever asks, whatever is killed."""

import os
import random
import signal
import threading
import time
from collections import Counter
from functools import partial

import pytest
from kafka.errors import KafkaError, KafkaTimeoutError, ProducerFencedError
from kafka.producer.transaction_manager import AddPartitionsToTxnHandler

from streamnb.engine.ports import Partition, WriteRequest
from streamnb.errors import ConfigError, LogError, UnknownTopic
from streamnb.event_logs import request_index
from streamnb.event_logs.kafka.kafka_transactions import Transactions
from streamnb.event_logs.sqlite.sqlite_log import SqliteLog
from tests.contracts.test_log_contract import LOGS, SPAWN, again, kept, new, only_kafka, until, values

pytestmark = [pytest.mark.thorough_for("librdkafka"), pytest.mark.early(26)]


def request(key, *numbers, digest="d", note="", topic="events"):
    return WriteRequest([new(topic, b"%d" % n, b"%d" % n) for n in numbers], key, digest, note)


@pytest.mark.parametrize("open_log", LOGS, indirect=True)
def test_a_key_writes_once_and_a_repetition_returns_the_same_places(open_log):
    log, other = open_log(events=3, requests=1), open_log()
    (first,) = log.append_requests([request("a", 1, 2, 3, note="said")])
    assert (first.note, first.is_repeated) == ("said", False)
    stored = {
        (place, record.offset): record.value
        for place in log.partitions("events")
        for record in kept(log, place)
    }
    assert [stored[place] for place in first.places] == [b"1", b"2", b"3"]
    for view in (log, other, open_log(), log):
        (again_,) = view.append_requests([request("a", 1, 2, 3, note="another note")])
        assert again_ == first._replace(is_repeated=True)
        (refused,) = view.append_requests([request("a", 4, digest="another")])
        assert refused.places is None
    assert sorted(values(log, "events")) == [b"1", b"2", b"3"]


@pytest.mark.parametrize("open_log", LOGS, indirect=True)
def test_requests_of_one_call_are_seen_by_each_other_and_those_without_a_key_are_always_written(open_log):
    log = open_log(events=2, requests=1)
    asked = [request("", 1), request("a", 2), request("a", 2), request("a", 3, digest="x"), request("", 1)]
    found = log.append_requests(asked)
    assert [(one.places is None, one.is_repeated) for one in found] == [
        *((False, False), (False, False), (False, True), (True, False), (False, False))
    ]
    assert found[2].places == found[1].places
    alone = [*log.append_requests([request("", 4), request("b", 5, 6), request("", 7)])]
    alone += log.append_requests([request("", 8), request("", 9, 10)])
    places = [place for one in (*found[:2], found[4], *alone) for place in one.places]
    stored = {
        (at, record.offset): record.value for at in log.partitions("events") for record in kept(log, at)
    }
    assert [stored[place] for place in places] == [b"%d" % n for n in (1, 2, 1, 4, 5, 6, 7, 8, 9, 10)]
    assert len(set(places)) == len(places) == len(stored) == 10
    assert {place.topic for place, _ in places} == {"events"}


@pytest.mark.parametrize("open_log", LOGS, indirect=True)
def test_a_refused_request_keeps_no_key(open_log):
    log = open_log(events=1, requests=1)
    with pytest.raises(UnknownTopic, match="nowhere"):
        log.append_requests([request("a", 1), request("b", 2, topic="nowhere")])
    assert values(log, "events") == []
    assert [one.is_repeated for one in log.append_requests([request("a", 1), request("b", 2)])] == [False] * 2
    assert sorted(values(log, "events")) == [b"1", b"2"]


@pytest.mark.parametrize("open_log", LOGS, indirect=True)
def test_a_key_is_forgotten_after_its_time(open_log, monkeypatch):
    log = open_log(events=1, requests=1)
    log.append_requests([request("a", 1)])
    monkeypatch.setattr(request_index, "REQUEST_SECONDS", 0.2)
    time.sleep(0.3)
    assert not log.append_requests([request("a", 1)])[0].is_repeated
    assert values(log, "events") == [b"1", b"1"]


@pytest.mark.parametrize("open_log", ["kafka", "librdkafka"], indirect=True)
def test_a_record_that_is_too_large_is_refused_and_the_log_goes_on(open_log):
    log = open_log(events=1, requests=1)
    large = WriteRequest([new("events", random.Random(1).randbytes(6 << 20), b"k")], "large", "d")
    with pytest.raises(LogError, match="bytes for topic"):
        log.append_requests([large])
    assert not log.append_requests([request("a", 1)])[0].is_repeated
    assert log.append_requests([request("a", 1)])[0].is_repeated
    assert values(log, "events") == [b"1"]


@pytest.mark.parametrize("open_log", ["kafka"], indirect=True)
def test_a_key_needs_its_topic(open_log):
    log = open_log(events=1)
    with pytest.raises(UnknownTopic, match="requests"):
        log.append_requests([request("a", 1)])
    log._log._requests._partition = Partition("", 0)
    with pytest.raises(ConfigError, match=r"topics\.requests"):
        log.append_requests([request("a", 1)])
    assert values(log, "events") == []


@pytest.mark.parametrize("open_log", LOGS, indirect=True)
def test_processes_that_write_the_same_keys_at_once_write_each_once(open_log):
    first = open_log(events=2, requests=1)
    logs = [first, open_log(), open_log()]
    keys = [f"k{i}" for i in range(40)]
    outcomes = {key: set() for key in keys}
    errors = []

    def write(log, seed):
        order = random.Random(seed).sample(keys, len(keys))
        try:
            while order:
                some = [order.pop() for _ in range(min(len(order), 5))]
                for key, one in zip(some, log.append_requests([request(k, int(k[1:])) for k in some])):  # noqa: B905
                    outcomes[key].add((tuple(one.places), one.is_repeated))
        except BaseException as error:
            errors.append(error)
            raise

    is_file = isinstance(first, SqliteLog)  # whose connection belongs to one thread
    makers = [again(first)] * 3 if is_file else [lambda log=log: log for log in logs]

    def work(make, seed):
        write(make(), seed)

    threads = [threading.Thread(target=work, args=(make, i)) for i, make in enumerate(makers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    assert Counter(values(first, "events")) == Counter(b"%d" % i for i in range(40))
    for found in outcomes.values():
        assert len({places for places, _ in found}) == 1
        assert (next(iter(found))[0], False) in found


def write_keys(open_again, start):
    log = open_again()
    for i in range(start, start + 10_000):
        log.append_requests([request(f"k{i}", 2 * i, 2 * i + 1), request(f"again{i % 7}", 10**6 + i % 7)])


@pytest.mark.parametrize("open_log", LOGS, indirect=True)
def test_kill_9_and_a_repetition_at_another_process_write_each_request_once(open_log):
    log = open_log(events=2, requests=1)
    dice = random.Random(5)
    for round_ in range(4):
        start = 10_000 * round_
        child = SPAWN.Process(target=write_keys, args=(again(log), start))
        child.start()
        before = len(values(log, "events"))
        until(lambda before=before: len(values(log, "events")) > before + 20)
        time.sleep(dice.random() * 0.05)
        os.kill(child.pid, signal.SIGKILL)
        child.join()
        written = {value for value in values(log, "events") if start <= int(value) // 2 < start + 10_000}
        last = max(int(value) // 2 for value in written if int(value) < 10**6)
        todo = [request(f"k{i}", 2 * i, 2 * i + 1) for i in range(start, last + 3)]
        log.append_requests(todo)
        found = Counter(values(log, "events"))
        assert all(found[b"%d" % n] == 1 for i in range(start, last + 3) for n in (2 * i, 2 * i + 1))
        assert max(found.values()) == 1


@pytest.mark.parametrize("open_log", ["kafka", "librdkafka"], indirect=True)
def test_an_unknown_outcome_is_resolved_before_anything_is_sent_again(open_log, monkeypatch):
    """The commit arrives, and its answer does not; or the attempt fails before it."""
    log = open_log(events=1, requests=1)
    only_kafka(log)
    log.append_requests([request("first", 0)])
    producer = log.transactional_producer
    commit, failures = producer.commit_transaction, []

    def lost(self):
        if len(failures) < 2:
            if not failures:
                commit(self)
            failures.append(1)
            raise KafkaTimeoutError("the answer is lost")
        commit(self)

    monkeypatch.setattr(producer, "commit_transaction", lost)
    (one,) = log.append_requests([request("a", 1)])
    assert one.is_repeated  # the first attempt had written it
    (two,) = log.append_requests([request("b", 2)])
    assert not two.is_repeated
    assert len(failures) == 2
    assert values(log, "events") == [b"0", b"1", b"2"]
    assert isinstance(log._log._requests._transactions, Transactions)
    assert partial(log.append_requests, [request("b", 2)])()[0].is_repeated


@pytest.mark.parametrize("open_log", ["kafka"], indirect=True)
def test_one_request_adds_the_partitions_of_events_and_keys(open_log, monkeypatch):
    log = open_log(events=1, requests=1)
    log.append_requests([request("first", 0)])
    asked, handle = [], AddPartitionsToTxnHandler.handle_response

    def noted(self, response):
        topics = self.request.v3_and_below_topics
        asked.append(sorted((topic.name, *topic.partitions) for topic in topics))
        handle(self, response)

    monkeypatch.setattr(AddPartitionsToTxnHandler, "handle_response", noted)
    for i in range(1, 6):
        log.append_requests([request(f"k{i}", i)])
    # A request is repeated until the last transaction has its markers, or comes between the two partitions.
    assert sum(len(topics) == 2 for topics in asked) >= 3
    assert values(log, "events") == [b"%d" % i for i in range(6)]


@pytest.mark.parametrize("open_log", ["kafka"], indirect=True)
def test_a_process_that_is_fenced_takes_over_whichever_call_notices(open_log, monkeypatch):
    """Also if a call after the refused one fails, whose error holds the broker's."""
    log = open_log(events=1, requests=1)
    log.append_requests([request("a", 1)])
    producer, failures = type(log._log._requests._transactions._producer), []
    placed = producer.deliver_placed

    def refused(self, records):
        if len(failures) < 2:
            failures.append(1)
            raise KafkaError(
                "Cannot perform send because a previous request has failed", ProducerFencedError()
            )
        return placed(self, records)

    def unreachable(error, _seconds):
        raise error

    monkeypatch.setattr(producer, "deliver_placed", refused)
    monkeypatch.setattr(log._log._cluster.patience, "unreachable", unreachable)  # a fence is no outage
    assert not log.append_requests([request("b", 2)])[0].is_repeated
    assert (len(failures), values(log, "events")) == (2, [b"1", b"2"])
