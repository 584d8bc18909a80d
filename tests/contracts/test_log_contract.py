"""The sentences of the port `Log`, held by every log: one file of SQLite, and a real Kafka broker.

Nothing here asks more of offsets than a broker gives: they grow, they leave gaps, and behind a transaction
lies a marker that takes an offset. What only one log says is in the tests of that log.
"""

import contextlib
import inspect
import multiprocessing
import os
import queue
import signal
import threading
import time
from collections import Counter, defaultdict
from concurrent.futures import ThreadPoolExecutor, wait
from functools import partial

import pytest
from kafka import KafkaConsumer, TopicPartition

from streamnb.engine.ports import Forwarded, Log, NewRecord, Partition, Transaction
from streamnb.errors import Fenced, LogError, NotElected, OutOfRange, StreamnbError, Unavailable, UnknownTopic
from streamnb.event_logs.kafka import kafka_records
from streamnb.event_logs.kafka.kafka_log import KafkaLog
from streamnb.event_logs.kafka.kafka_transactions import Transactions
from streamnb.event_logs.sqlite.sqlite_log import SqliteLog
from streamnb.event_logs.sqlite.sqlite_store import SqliteStore
from streamnb.serving.leased_position import LeasedPosition
from tests.brokers.prefixed import LIBRARIES, PrefixedKafkaLog
from tests.support.topics_of_logs import add_partitions, delete_topic, noted_positions, trim

pytestmark = [pytest.mark.thorough_for("librdkafka"), pytest.mark.early(26)]

EVENTS, JOURNAL, OUT = Partition("events", 0), Partition("journal", 0), Partition("out", 0)
NOWHERE = Partition("nowhere", 0)
LOGS = ["sqlite", "kafka", "librdkafka"]
PATIENCE = 60.0  # seconds until what does not happen is taken to happen never
SESSION = 6.0  # seconds of silence, where a test waits them out
SPAWN = multiprocessing.get_context("spawn")


def new(topic, value=b"v", key=None, headers=()):
    return NewRecord(topic, key, value, headers)


def numbered(topic, numbers, key=None):
    return [new(topic, b"%d" % number, key) for number in numbers]


def transaction(n, *outputs, positions=None, by=b"a"):
    return Transaction(
        n, new("journal", b'{"n":%d,"by":"%b","previous":"","digest":""}' % (n, by)), outputs, positions or {}
    )


def content(records):
    return [record.value for record in records]


def by_partition(records):
    parts = defaultdict(list)
    for record in records:
        parts[record.partition].append(record)
    return parts


def kept(log, partition):
    """All records of a partition, from the earliest on."""
    offset, records = log.offsets(partition)[0], []
    while found := log.read(partition, offset, 1000):
        records += found
        offset = found[-1].offset + 1
    return records


def values(log, topic):
    return [record.value for partition in log.partitions(topic) for record in kept(log, partition)]


def until(condition, within=PATIENCE):
    """The first answer of `condition` that is true."""
    deadline = time.monotonic() + within
    while not (answer := condition()):
        assert time.monotonic() < deadline, "it does not happen"
        time.sleep(0.01)
    return answer


def polled(log, number, limit=1000):
    """The next `number` records in as many polls as it takes, and not one more."""
    records = []
    until(lambda: records.extend(log.poll(limit, 1.0)) or len(records) >= number)
    assert len(records) == number
    return records


def again(log):
    """What opens the same log once more, also in another process; `acquired` brings the patience."""
    if isinstance(log, SqliteLog):
        return partial(SqliteLog, log._store.path)
    return partial(log.again, elected_within=2.0)


def acquired(log, owner, within=PATIENCE):
    """Acquire as soon as no other learner is alive."""

    def acquire():
        try:
            log.acquire(owner)
        except NotElected:
            return False
        return True

    until(acquire, within)


def not_held(asked, first, end):
    """The pattern of what each log says of an offset of EVENTS that it does not hold."""
    return (
        rf"offset {asked} of events\[0\] was asked for; kept are {first} up to, not including, {end}$"
        rf"|events/0 holds offsets {first} to {end}, not {asked}$"
    )


def only_kafka(log):
    if isinstance(log, SqliteLog):
        pytest.skip("what only a broker can do")


# The vocabulary of the port


@pytest.mark.parametrize("adapter", [SqliteLog, KafkaLog])
def test_it_has_every_call_of_the_port_with_the_same_signature(adapter):
    calls = [name for name in vars(Log) if not name.startswith("_")]
    assert "commit" in calls
    for name in calls:
        theirs, ours = inspect.signature(getattr(Log, name)), inspect.signature(getattr(adapter, name))
        assert list(theirs.parameters.values()) == list(ours.parameters.values()), name
        assert theirs.return_annotation == ours.return_annotation, name


def test_the_partitions_of_a_topic_come_in_order(open_log):
    log = open_log(events=12)
    assert list(log.partitions("events")) == [Partition("events", number) for number in range(12)]


@pytest.mark.parametrize(
    "call",
    [
        lambda log: log.partitions("nowhere"),
        lambda log: log.topic_id("nowhere"),
        lambda log: log.offsets(NOWHERE),
        lambda log: log.read(NOWHERE, 0, 1),
        lambda log: log.read(Partition("events", 7), 0, 1),
        lambda log: log.seek({EVENTS: 0, NOWHERE: 0}),
        lambda log: log.seek({EVENTS: 0, Partition("events", 7): 0}),
        lambda log: log.append([new("events"), new("nowhere")]),
    ],
    ids=["partitions", "topic_id", "offsets", "read", "read-7", "seek", "seek-7", "append"],
)
def test_an_unknown_topic_is_named_and_nothing_is_written(open_log, call):
    log = open_log(events=1)
    with pytest.raises(UnknownTopic, match=r"nowhere|events\D+7"):
        call(log)
    assert log.offsets(EVENTS) == (0, 0)


def test_a_topic_keeps_its_id_until_it_is_made_again(open_log):
    log, other = open_log(events=1, labels=1), open_log()
    first = log.topic_id("events")
    assert first == other.topic_id("events") != log.topic_id("labels")
    log.append([new("events")])
    assert log.topic_id("events") == first
    both = ["events", "labels"]
    assert log.topic_ids([*both, "nowhere"]) == {name: log.topic_id(name) for name in both}
    delete_topic(log, "events")
    for call in (log.topic_id, log.partitions):
        with pytest.raises(UnknownTopic):
            until(lambda call=call: call("events") and False)
    log.create_topic("events", 2)
    assert until(lambda: other.topic_id("events")) != first
    assert len(until(lambda: log.partitions("events"))) == 2


def test_added_partitions_are_seen_by_a_log_that_is_open(open_log):
    log, other = open_log(events=2), open_log()
    log.append(numbered("events", range(20)))
    assert len(log.partitions("events")) == len(other.partitions("events")) == 2
    before = values(other, "events")
    add_partitions(log, "events", 4)
    for view in (log, other):
        until(lambda view=view: len(view.partitions("events")) == 4)
        assert list(view.partitions("events")) == [Partition("events", number) for number in range(4)]
        assert view.offsets(Partition("events", 3)) == (0, 0)
        assert view.offset_ranges("events") == {
            place: view.offsets(place) for place in view.partitions("events")
        }
    assert values(other, "events") == before
    open_log().append([new("events", key=b"%d" % i) for i in range(100)])
    other.seek(dict.fromkeys(other.partitions("events"), 0))
    assert {record.partition.number for record in polled(other, 120)} == {0, 1, 2, 3}


# Records


def test_offsets_grow_from_0_and_a_position_is_that_of_the_next_record(open_log):
    log = open_log(events=1)
    assert log.offsets(EVENTS) == (0, 0)
    log.append(numbered("events", range(3)))
    log.append(numbered("events", range(3, 5)))
    records = kept(log, EVENTS)
    assert content(records) == [b"0", b"1", b"2", b"3", b"4"]
    assert [record.offset for record in records] == [0, 1, 2, 3, 4]
    assert {record.partition for record in records} == {EVENTS}
    assert log.offsets(EVENTS) == (0, 5)


def test_keys_values_and_headers_come_back_as_they_were_written(open_log):
    log, reader = open_log(events=1, journal=1, out=1), open_log()
    every_byte = bytes(range(256))
    headers = (("reason", b"oversize"), ("reason", every_byte), ("empty", b""), ("Größe µ", b"\xff\x00"))
    records = [
        new("events", b"no key"),
        new("events", b"empty key", b""),
        new("events", b"", b"empty value"),
        new("events", b"", None),
        new("events", every_byte, every_byte[::-1], headers),
        new("events", b"\x00", b"\x00\x00", (("", b"no name"),)),
    ]
    log.append(records)
    found = kept(reader, EVENTS)
    assert [NewRecord("events", record.key, record.value, record.headers) for record in found] == records
    reader.seek({EVENTS: 0})
    assert polled(reader, len(records)) == found
    log.acquire("a")
    log.commit(transaction(0, *[record._replace(topic="out") for record in records]))
    found = [NewRecord("events", record.key, record.value, record.headers) for record in kept(reader, OUT)]
    assert found == records


@pytest.mark.parametrize("open_log", ["kafka", "librdkafka"], indirect=True)
def test_an_empty_value_under_a_key_is_a_tombstone_and_no_other_is(open_log, broker):
    log = open_log(events=1, journal=1, out=1)
    records = [
        new("out", b"1", b"k"),
        new("out", b"", b"k"),
        new("out", b"", b"letter", (("reason", b"x"),)),
        new("out", b"", None),
        new("out", b"2", b"k"),
        new("out", b"", b"k"),
    ]
    log.append(records)
    log.acquire("a")
    log.commit(transaction(0, *records))
    topic = f"{log._prefix}out"
    consumer = KafkaConsumer(bootstrap_servers=broker.address, isolation_level="read_committed")
    with contextlib.closing(consumer):
        consumer.assign([TopicPartition(topic, 0)])
        consumer.seek_to_beginning()
        found = []
        until(
            lambda: (
                found.extend(r for part in consumer.poll(200).values() for r in part)
                or len(found) == 2 * len(records)
            )
        )
    assert [record.value for record in found] == 2 * [b"1", None, b"", b"", b"2", None]


def test_timestamps_are_seconds_since_the_epoch(open_log):
    log = open_log(events=1, journal=1, out=1)
    before = time.time() - 0.001  # a broker counts whole milliseconds
    log.append([new("events")])
    log.acquire("a")
    log.commit(transaction(0, new("out")))
    after = time.time()
    for partition in (EVENTS, OUT, JOURNAL):
        (record,) = kept(log, partition)
        assert isinstance(record.timestamp, float)
        assert before <= record.timestamp <= after


def test_a_key_decides_its_partition_whoever_writes_it(open_log):
    log, other = open_log(events=4, journal=1), open_log()
    keys = [b"%d" % i for i in range(30)]
    log.append([new("events", key=key) for key in keys])
    other.append([new("events", key=key) for key in reversed(keys)])
    log.acquire("a")
    log.commit(transaction(0, *[new("events", key=key) for key in keys]))
    homes, times = defaultdict(set), Counter()
    for partition in log.partitions("events"):
        for record in kept(log, partition):
            homes[record.key].add(record.partition)
            times[record.key] += 1
    assert times == dict.fromkeys(keys, 3)
    assert {len(home) for home in homes.values()} == {1}
    assert len(set.union(*homes.values())) == 4


def test_records_of_three_mebibytes_pass(open_log):
    log, reader = open_log(events=1, journal=1, out=1), open_log()
    big = [bytes([i]) * (3 << 20) for i in range(4)]
    log.append([new("events", value) for value in (big[0], b"small", big[1])])
    log.acquire("a")
    log.commit(transaction(0, *[new("out", value) for value in (big[2], b"small", big[3])]))
    assert content(kept(reader, EVENTS)) == [big[0], b"small", big[1]]
    reader.seek({EVENTS: 0, OUT: 0})
    parts = by_partition(polled(reader, 6))
    assert content(parts[EVENTS]) == [big[0], b"small", big[1]]
    assert content(parts[OUT]) == [big[2], b"small", big[3]]


def test_what_was_appended_is_there_on_return_in_the_order_of_each_partition(open_log):
    log, reader = open_log(events=3), open_log()
    records = [new("events", b"%d" % i, b"%d" % (i % 7)) for i in range(3000)]
    log.append(records)
    log.append([])
    found = [record for partition in reader.partitions("events") for record in kept(reader, partition)]
    assert len(found) == 3000
    for key in {record.key for record in records}:
        written = [record.value for record in records if record.key == key]
        assert [record.value for record in found if record.key == key] == written


# Reading


def test_read_takes_at_most_its_limit_and_poll_does_not_move(open_log):
    log = open_log(events=1)
    log.append(numbered("events", range(5)))
    log.seek({EVENTS: 0})
    assert content(polled(log, 1, limit=1)) == [b"0"]
    first = log.read(EVENTS, 0, 2)
    assert content(first) == [b"0", b"1"]
    assert content(log.read(EVENTS, first[-1].offset + 1, 9)) == [b"2", b"3", b"4"]
    assert content(polled(log, 2, limit=2)) == [b"1", b"2"]
    assert content(log.read(EVENTS, 0, 1)) == [b"0"]
    assert content(polled(log, 2)) == [b"3", b"4"]


def test_read_is_empty_at_the_end_and_out_of_range_beyond(open_log):
    log = open_log(events=1)
    assert log.read(EVENTS, 0, 5) == []
    log.append(numbered("events", range(3)))
    end = log.offsets(EVENTS)[1]
    assert log.read(EVENTS, end, 5) == []
    for offset in (end + 1, end + 1000, -1):
        with pytest.raises(OutOfRange, match=not_held(offset, 0, end)):
            log.read(EVENTS, offset, 5)
    assert content(log.read(EVENTS, 0, 5)) == [b"0", b"1", b"2"]


def test_read_is_empty_at_the_end_behind_a_transaction_too(open_log):
    log, reader = open_log(journal=1, out=1), open_log()
    log.acquire("a")
    log.commit(transaction(0, *numbered("out", range(3))))
    last = reader.read(OUT, 0, 9)[-1]
    for offset in {last.offset + 1, reader.offsets(OUT)[1]}:
        assert reader.read(OUT, offset, 9) == []
    assert last.offset < reader.offsets(OUT)[1]


def test_trimmed_records_are_out_of_range_and_the_rest_keeps_its_offsets(open_log):
    log, other = open_log(events=1), open_log()
    log.append(numbered("events", range(5)))
    third = other.read(EVENTS, 0, 5)[2]
    end = log.offsets(EVENTS)[1]
    trim(log, EVENTS, third.offset)
    for view in (log, other):
        assert view.offsets(EVENTS) == (third.offset, end)
        assert view.read(EVENTS, third.offset, 1) == [third]
        with pytest.raises(OutOfRange, match=not_held(third.offset - 1, third.offset, end)):
            view.read(EVENTS, third.offset - 1, 1)
    trim(log, EVENTS, end)
    assert log.offsets(EVENTS) == (end, end)
    assert log.read(EVENTS, end, 5) == []
    log.append([new("events", b"after")])
    assert [(record.offset, record.value) for record in kept(other, EVENTS)] == [(end, b"after")]


@pytest.mark.parametrize("where", ["below", "beyond"])
def test_poll_is_out_of_range_where_read_is_and_goes_on_after_a_seek(open_log, where):
    log = open_log(events=1, labels=1)
    log.append(numbered("events", range(5)))
    trim(log, EVENTS, 2)
    asked = 1 if where == "below" else 9
    log.seek({EVENTS: asked, Partition("labels", 0): 0})
    with pytest.raises(OutOfRange, match=not_held(asked, 2, 5)):
        until(lambda: log.poll(5, 1.0))
    log.seek({EVENTS: 2, Partition("labels", 0): 0})
    assert content(polled(log, 3)) == [b"2", b"3", b"4"]


def test_a_position_that_is_trimmed_while_poll_stands_there_is_out_of_range(open_log):
    log, other = open_log(events=1), open_log()
    log.append(numbered("events", range(2)))
    log.seek({EVENTS: 0})
    assert content(polled(log, 2)) == [b"0", b"1"]
    with contextlib.nullcontext() if isinstance(log, SqliteLog) else log.nothing_fetched():
        other.append(numbered("events", range(2, 9)))
        trim(other, EVENTS, 9)
    with pytest.raises(OutOfRange, match=not_held(r"\d+", 9, r"\d+")):
        until(lambda: log.poll(5, 1.0) or other.append([new("events")]))


def test_poll_of_a_topic_that_is_deleted_meanwhile_says_so(open_log):
    log, other = open_log(events=1, labels=1), open_log()
    log.append(numbered("events", range(2)))
    log.seek({EVENTS: 0, Partition("labels", 0): 0})
    assert content(polled(log, 2)) == [b"0", b"1"]
    delete_topic(other, "events")
    with pytest.raises(UnknownTopic, match="events"):
        until(lambda: log.poll(5, 0.5))


def test_poll_reads_exactly_the_partitions_sought_of_several_topics(open_log):
    log = open_log(a=1, b=2, c=1)
    a, b0, b1, c = (Partition(*place) for place in [("a", 0), ("b", 0), ("b", 1), ("c", 0)])
    log.append([*numbered("a", range(3)), *numbered("c", range(3))])
    log.append([new("b", b"%d" % i, b"%d" % (i % 9)) for i in range(30)])
    in_b0, in_b1 = kept(log, b0), kept(log, b1)
    log.seek({a: 0, b0: 0})
    assert by_partition(polled(log, 3 + len(in_b0))) == {a: kept(log, a), b0: in_b0}
    log.seek({b1: in_b1[2].offset, c: log.offsets(c)[1]})
    assert polled(log, len(in_b1) - 2) == in_b1[2:]
    log.append([new("a", b"unsought"), new("c", b"c3")])
    assert content(polled(log, 1)) == [b"c3"]
    log.seek({a: 1})
    assert content(polled(log, 3)) == [b"1", b"2", b"unsought"]
    log.seek({a: 1})  # back
    assert content(polled(log, 3)) == [b"1", b"2", b"unsought"]
    log.seek({})
    assert log.poll(5, 0.2) == []


@pytest.mark.parametrize("limit", [1, 3, 7, 1000])
def test_polled_records_of_a_partition_come_in_order_and_adjoin_whatever_the_limit(open_log, limit):
    log = open_log(events=3)
    written = [new("events", b"%d" % i, b"%d" % (i % 11)) for i in range(60)]
    log.append(written[:40])
    log.seek(dict.fromkeys(log.partitions("events"), 0))
    records = []

    def poll(number):
        while len(records) < number:
            found = log.poll(limit, PATIENCE)
            assert 1 <= len(found) <= limit
            records.extend(found)

    poll(40)
    log.append(written[40:])
    poll(60)
    parts = by_partition(records)
    assert parts == {partition: kept(log, partition) for partition in log.partitions("events")}
    assert log.poll(limit, 0.2) == []


def test_partitions_take_turns_so_that_a_long_backlog_starves_none(open_log):
    log = open_log(long=1, b=1, c=1)
    log.append([new("long", bytes(100_000))] * 150)
    log.append([new("b")] * 3 + [new("c")] * 3)
    log.seek({Partition(topic, 0): 0 for topic in ("long", "b", "c")})
    seen = Counter()
    until(lambda: seen.update(r.partition.topic for r in log.poll(5, 1.0)) or seen["b"] == seen["c"] == 3)
    assert seen["long"] < 150


def test_poll_waits_for_its_first_record(open_log):
    log = open_log(events=1)
    log.seek({EVENTS: 0})
    assert log.poll(1, 0.1) == []
    polling = []

    def produce():
        with again(log)() as producer:
            until(lambda: polling)
            producer.append([new("events", b"late")])

    with ThreadPoolExecutor(1) as pool:
        producing = pool.submit(produce)
        polling.append(True)
        assert content(log.poll(1, PATIENCE)) == [b"late"]
        producing.result()


# How far poll is behind


def test_lag_counts_the_records_that_poll_has_not_returned(open_log):
    log = open_log(events=2, labels=1)
    labels, (first, second) = Partition("labels", 0), log.partitions("events")
    log.seek({first: 0, second: 0, labels: 0})
    assert log.lag() == {first: 0, second: 0, labels: 0}
    log.append([new("events", key=b"%d" % (i % 9)) for i in range(40)] + [new("labels")])
    ends = {partition: log.offsets(partition)[1] for partition in (first, second, labels)}
    assert log.lag() == ends
    assert sum(ends.values()) == 41
    left = 41
    while left:
        for record in log.poll(7, PATIENCE):
            assert record.offset == ends[record.partition] - log.lag()[record.partition] - 1 or left > 1
            left -= 1
        assert sum(log.lag().values()) == left
    assert log.lag() == {first: 0, second: 0, labels: 0}
    log.append([new("labels")] * 3)
    assert log.lag() == {first: 0, second: 0, labels: 3}


def test_lag_is_of_the_partitions_sought_and_from_their_positions(open_log):
    log = open_log(events=1, labels=1)
    log.append(numbered("events", range(5)) + numbered("labels", range(3)))
    assert log.lag() == {}
    log.seek({EVENTS: 0})
    assert log.lag() == {EVENTS: 5}
    polled(log, 2, limit=2)
    assert log.lag() == {EVENTS: 3}
    log.read(EVENTS, 0, 5)
    assert log.lag() == {EVENTS: 3}
    log.seek({EVENTS: 4, Partition("labels", 0): 3})
    assert log.lag() == {EVENTS: 1, Partition("labels", 0): 0}


def test_lag_is_0_at_the_end_of_transactions_too(open_log):
    log, reader = open_log(journal=1, out=2), open_log()
    out = reader.partitions("out")
    reader.seek(dict.fromkeys([JOURNAL, *out], 0))
    log.acquire("a")
    for n in range(3):
        log.commit(transaction(n, *[new("out", b"v", b"%d" % i) for i in range(8)]))
        assert sum(reader.lag().values()) >= 9
        polled(reader, 9)
        until(lambda: reader.poll(1, 0.1) == [] and not any(reader.lag().values()))
    begin(log, [new("out", b"aborted", b"%d" % i) for i in range(8)]).abort()
    until(lambda: reader.poll(1, 0.1) == [] and not any(reader.lag().values()))
    reader.seek({partition: reader.offsets(partition)[1] for partition in (JOURNAL, *out)})
    assert reader.lag() == dict.fromkeys([JOURNAL, *out], 0)


# Transactions of strangers


class SqliteTransaction:
    """What `PrefixedKafkaLog.begin` is to a broker: records of a writer that has not decided yet."""

    def __init__(self, path, records):
        self._store = SqliteStore(path)
        self._store.db.execute("BEGIN IMMEDIATE")
        self._store.insert(records, time.time())

    def commit(self):
        self._store.db.execute("COMMIT")
        self._store.close()

    def abort(self):
        self._store.db.execute("ROLLBACK")
        self._store.close()


def begin(log, records):
    return SqliteTransaction(log._store.path, records) if isinstance(log, SqliteLog) else log.begin(records)


@pytest.mark.parametrize("end", ["commit", "abort"])
def test_records_of_an_open_transaction_are_not_seen_before_it_is_committed(open_log, end):
    log = open_log(events=1)
    log.append(numbered("events", range(2)))
    log.seek({EVENTS: 0})
    stranger = begin(log, numbered("events", range(2, 4)))
    assert content(polled(log, 2)) == [b"0", b"1"]
    assert content(log.read(EVENTS, 0, 10)) == [b"0", b"1"]
    assert log.poll(10, 0.5) == []
    getattr(stranger, end)()
    log.append([new("events", b"4")])
    expected = [b"2", b"3", b"4"] if end == "commit" else [b"4"]
    assert content(polled(log, len(expected))) == expected
    assert content(kept(log, EVENTS)) == [b"0", b"1", *expected]
    assert log.poll(10, 0.2) == []


def test_a_record_behind_aborted_ones_is_read_though_the_end_was_known_before_it_was_written(
    open_log, monkeypatch
):
    """An answer of the broker holds four of these (4 MiB), so one of them ends at the old end.

    On a busy machine each poll of the client's meets one answer only; here it has no time for more.
    """
    monkeypatch.setattr(kafka_records, "_POLL_SECONDS", 0)
    log = open_log(events=1)
    large = b"." * 900_000
    begin(log, [new("events", large)] * 8).abort()
    assert log.read(EVENTS, 0, 10) == []
    log.append([new("events", large)])
    assert [len(value) for value in content(log.read(EVENTS, 0, 10))] == [len(large)]


def test_an_open_transaction_holds_back_what_others_write_behind_it(open_log):
    log, reader = open_log(events=1), open_log()
    only_kafka(log)
    reader.seek({EVENTS: 0})
    stranger = log.begin(numbered("events", range(2)))
    log.append([new("events", b"2")])
    assert reader.poll(10, 0.5) == []
    assert reader.lag() == {EVENTS: 3}
    with ThreadPoolExecutor(1) as pool:
        reading = pool.submit(reader.read, EVENTS, 0, 10)  # the end is known, so this waits
        assert not wait([reading], timeout=0.5).done
        stranger.commit()
        assert content(reading.result(PATIENCE)) == [b"0", b"1", b"2"]
    assert content(polled(reader, 3)) == [b"0", b"1", b"2"]


# Commits


def test_a_commit_shows_outputs_journal_and_positions_together_and_not_before_its_end(open_log, monkeypatch):
    log, reader = open_log(journal=1, events=1, out=2, other=1), open_log()
    places = [JOURNAL, *reader.partitions("out"), Partition("other", 0)]
    log.append(numbered("events", range(9)))
    log.acquire("a")
    log.commit(transaction(0, positions={EVENTS: 3}))
    reader.seek({place: reader.offsets(place)[1] for place in places})
    written, is_seen = wait_before_the_end(log, monkeypatch)
    outputs = [*[new("out", b"o", b"%d" % i) for i in range(9)], new("other", b"p")]
    begun = log.begin_commit(transaction(1, *outputs, positions={EVENTS: 7}))
    assert written.wait(30)
    assert noted_positions(reader) == {EVENTS: 3}
    assert reader.poll(100, 0.5) == []
    assert not begun.is_over()
    is_seen.set()
    begun.await_outcome()
    assert values(reader, "out") == [b"o"] * 9
    assert values(reader, "other") == [b"p"]
    assert len(values(reader, "journal")) == 2
    until(lambda: noted_positions(log) == {EVENTS: 7})
    assert Counter(content(polled(reader, 11))) == {b"o": 9, b"p": 1, transaction(1).journal.value: 1}


def wait_before_the_end(log, monkeypatch):
    """Events in the middle of the next commit: all is written, and nothing is decided before the second is set."""
    written, is_seen = threading.Event(), threading.Event()

    def wait():
        written.set()
        assert is_seen.wait(30)

    if isinstance(log, SqliteLog):
        note = SqliteStore.note_positions
        monkeypatch.setattr(SqliteStore, "note_positions", lambda *args: (note(*args), wait()))
    else:
        producer = log.transactional_producer
        end = producer.commit_transaction
        monkeypatch.setattr(producer, "commit_transaction", lambda *args: (wait(), end(*args))[1])
    return written, is_seen


def test_a_commit_without_outputs_or_positions_is_one_too(open_log):
    log = open_log(journal=1)
    log.acquire("a")
    for n in range(3):
        log.commit(transaction(n))
    assert values(log, "journal") == [transaction(n).journal.value for n in range(3)]


def test_outputs_of_a_commit_keep_their_order_whatever_stands_between_them(open_log):
    """Some without a key, some with headers, some larger than what a client sends at once."""
    log, reader = open_log(journal=1, out=3, other=1), open_log()
    log.acquire("a")
    written = []
    for n in range(2):
        outputs = [
            NewRecord(
                "other" if i % 10 == 9 else "out",
                None if i % 11 == 3 else b"%d" % (i % 7),
                b"%d,%d" % (n, i) + b"." * (600_000 if i % 500 == 77 else 0),
                (("number", b"%d" % i),) if i % 13 == 5 else (),
            )
            for i in range(1000)
        ]
        log.commit(transaction(n, *outputs))
        written += outputs
    found = [record for p in reader.partitions("out") for record in kept(reader, p)]
    found += kept(reader, Partition("other", 0))
    assert Counter((r.partition.topic, *r[2:4], r.headers) for r in found) == Counter(written)
    for topic in ("out", "other"):
        for key in {b"%d" % i for i in range(7)}:
            expected = [record.value for record in written if record[:2] == (topic, key)]
            assert [r.value for r in found if (r.partition.topic, r.key) == (topic, key)] == expected


@pytest.mark.parametrize(
    "broken",
    [
        transaction(1, new("out"), new("nowhere"), positions={EVENTS: 9}),
        transaction(1, new("out"), positions={EVENTS: 9, NOWHERE: 1}),
    ],
    ids=["output", "position"],
)
def test_a_commit_that_names_an_unknown_topic_leaves_nothing_and_can_be_followed(open_log, broken):
    log, reader = open_log(journal=1, events=1, out=1), open_log()
    log.acquire("a")
    log.commit(transaction(0, new("out", b"0"), positions={EVENTS: 3}))
    with pytest.raises(UnknownTopic):
        log.commit(broken)
    assert values(reader, "journal") == [transaction(0).journal.value]
    assert values(reader, "out") == [b"0"]
    assert noted_positions(log) == {EVENTS: 3}
    log.commit(transaction(1, new("out", b"1"), positions={EVENTS: 4}))
    assert values(reader, "out") == [b"0", b"1"]
    until(lambda: noted_positions(log) == {EVENTS: 4})


def test_a_commit_with_a_record_larger_than_the_broker_takes_leaves_nothing(open_log):
    log, reader = open_log(journal=1, out=1), open_log()
    only_kafka(log)
    log.acquire("a")
    with pytest.raises(LogError) as caught:
        log.commit(transaction(0, new("out", b"0"), new("out", bytes(5 << 20))))
    assert type(caught.value) is LogError  # waiting, as for an `Unavailable` log, would not help
    assert values(reader, "journal") == values(reader, "out") == []
    log.commit(transaction(0, new("out", b"0")))
    assert values(reader, "out") == [b"0"]


def test_a_record_larger_than_the_broker_takes_is_refused_where_it_is_appended(open_log):
    log = open_log(events=1)
    only_kafka(log)
    with pytest.raises(LogError, match="larger than its topic's") as caught:
        log.append([new("events", b"0"), new("events", bytes(5 << 20))])
    assert type(caught.value) is LogError


@pytest.mark.thorough_for("kafka", but=("kafka-same-3", "kafka-successor-0"))
@pytest.mark.parametrize("n", [0, 1, 3, 9])
@pytest.mark.parametrize("who", ["same", "successor"])
def test_a_number_that_does_not_follow_the_journal_is_fenced(open_log, n, who):
    log, reader = open_log(journal=1, out=1, events=1), open_log()
    log.acquire("a")
    log.commit(transaction(0))
    log.commit(transaction(1, positions={EVENTS: 1}))
    if who == "successor":
        log.close()
        log = open_log()
        log.acquire("b")
    with pytest.raises(Fenced):
        log.commit(transaction(n, new("out"), positions={EVENTS: 2}, by=b"other"))
    log.close()
    assert values(reader, "journal") == [transaction(0).journal.value, transaction(1).journal.value]
    assert values(reader, "out") == []
    assert noted_positions(reader) == {EVENTS: 1}
    successor = open_log()
    successor.acquire("c")
    successor.commit(transaction(2))


def test_an_empty_journal_begins_with_0(open_log):
    log, reader = open_log(journal=1, out=1), open_log()
    log.acquire("a")
    with pytest.raises(Fenced):
        log.commit(transaction(1, new("out")))
    assert values(reader, "journal") == values(reader, "out") == []


def test_events_that_were_learned_are_not_learned_again_under_a_journal_made_anew(open_log):
    log, operator = open_log(journal=1, events=1, out=1), open_log()
    log.acquire("a")
    log.commit(transaction(0))
    log.commit(transaction(1, new("out", b"1"), positions={EVENTS: 1}))
    log.close()
    before = operator.topic_id("journal")
    delete_topic(operator, "journal")
    operator.create_topic("journal", 1)
    assert operator.topic_id("journal") != before
    again = open_log()
    acquired(again, "b")
    for _ in range(2):
        with pytest.raises(
            LogError, match="events of this log were learned already, under another journal"
        ) as caught:
            again.commit(transaction(0, new("out", b"0"), positions={EVENTS: 0}, by=b"b"))
        assert type(caught.value) is LogError
    assert values(operator, "journal") == []
    assert values(operator, "out") == [b"1"]


def test_only_a_learner_commits_and_others_depose_none_by_trying(open_log):
    learner, reader = open_log(journal=1, events=1, out=1), open_log()
    learner.acquire("a")
    learner.commit(transaction(0))
    for positions in ({}, {EVENTS: 1}):
        with pytest.raises(LogError, match="acquire"):
            reader.commit(transaction(1, new("out"), positions=positions, by=b"reader"))
    learner.commit(transaction(1))
    assert values(reader, "journal") == [transaction(0).journal.value, transaction(1).journal.value]
    assert values(reader, "out") == []


def commit_for_ever(open_again):
    """For each number three outputs, a journal record, a position."""
    log = open_again()
    acquired(log, "learner")
    n = 0
    while True:
        outputs = [new("out", b"%d:%d" % (n, i), b"%d" % i) for i in range(3)]
        log.commit(transaction(n, *outputs, positions={EVENTS: n + 1}))
        n += 1


def test_kill_9_leaves_whole_commits_only(open_log):
    log = open_log(journal=1, events=1, out=3)
    open_again = partial(again(log), session_timeout=SESSION)
    child = SPAWN.Process(target=commit_for_ever, args=(open_again,))
    child.start()
    log.seek({JOURNAL: 0})
    seen = []
    until(lambda: seen.extend(log.poll(100, 1.0)) or len(seen) >= 30)
    os.kill(child.pid, signal.SIGKILL)
    child.join()
    with open_again() as successor:
        acquired(successor, "successor")
        journal = values(successor, "journal")
        number = len(journal)
        assert journal == [transaction(n).journal.value for n in range(number)]
        assert number >= 30
        outputs = {b"%d:%d" % (n, i) for n in range(number) for i in range(3)}
        found = values(successor, "out")
        assert len(found) == len(outputs)
        assert set(found) == outputs
        until(lambda: noted_positions(successor) == {EVENTS: number})
        successor.commit(transaction(number))


# Ownership


def test_an_owner_that_is_alive_is_not_deposed_and_a_standby_may_try_again(open_log):
    first = open_log(journal=1)
    first.acquire("a")
    first.commit(transaction(0))

    def stand_by():
        with again(first)() as second:
            with pytest.raises(NotElected):
                second.acquire("b")
            yield "refused"
            acquired(second, "b")
            second.commit(transaction(2, by=b"b"))
            yield "committed"

    with ThreadPoolExecutor(1) as pool:
        steps = stand_by()
        refused = pool.submit(next, steps)
        while not wait([refused], timeout=0.1).done:
            first.heartbeat()
        assert refused.result() == "refused"
        first.commit(transaction(1))
        first.close()
        assert pool.submit(next, steps).result(PATIENCE) == "committed"
        pool.submit(steps.close).result()
    assert len(values(open_log(), "journal")) == 3


def test_close_gives_the_ownership_up_at_once_and_may_be_called_twice(open_log):
    never = 2 * PATIENCE  # seconds of silence that no successor waits for
    first = again(open_log(journal=1))(session_timeout=never)
    acquired(first, "a")
    first.commit(transaction(0))
    first.close()
    first.close()
    with again(open_log())(session_timeout=never) as second:
        acquired(second, "b", within=15.0)  # half of what a member may let pass between two polls
        second.commit(transaction(1))
        second.close()
    reader = open_log()
    reader.close()
    reader.close()


def outcome(call):
    try:
        call()
    except StreamnbError as error:
        return type(error).__name__
    return "done"


def commit_after_a_silence(open_again, pipe):
    with open_again() as log:
        acquired(log, "silent")
        log.commit(transaction(0, new("out", b"0")))
        pipe.send("committed")
        pipe.recv()
        pipe.send(outcome(lambda: log.commit(transaction(1, new("out", b"silent")))))
    pipe.send("closed")


def heartbeat_after_a_silence(open_again, pipe):
    """A broker tells of a takeover in its own time: soon, and perhaps not to the first heartbeat."""
    with open_again() as log:
        acquired(log, "silent")
        log.commit(transaction(0, new("out", b"0")))
        pipe.send("committed")
        pipe.recv()
        pipe.send(outcome(lambda: until(log.heartbeat)))
    pipe.send("closed")


@pytest.mark.parametrize("awake", [commit_after_a_silence, heartbeat_after_a_silence])
def test_a_silent_owner_is_deposed_and_fenced_when_it_wakes(open_log, awake):
    log = open_log(journal=1, out=1)
    open_again = partial(again(log), session_timeout=SESSION)
    with Child(awake, open_again) as child, open_again() as successor:
        assert child.told() == "committed"
        child.stop()
        acquired(successor, "successor")
        child.go_on()
        assert child.told() == "Fenced"  # though no other has written
        assert child.told() == "closed"
        successor.heartbeat()  # what a fenced owner gives up is not its successor's
        assert values(successor, "out") == [b"0"]
        for n in (1, 2):
            successor.commit(transaction(n, new("out", b"%d" % n), by=b"b"))
    assert values(log, "out") == [b"0", b"1", b"2"]
    assert values(log, "journal")[1:] == [transaction(n, by=b"b").journal.value for n in (1, 2)]


def stop_inside_a_commit(open_again, pipe):
    """The records are with the broker and the membership is checked; the word that commits is not said."""
    from kafka import errors

    ended = queue.Queue()

    def end_later(producer):
        pipe.send("inside")
        pipe.recv()
        try:
            end(producer)
        except errors.KafkaError:
            ended.put("refused")
            raise
        ended.put("committed")

    with open_again() as log:
        acquired(log, "zombie")
        log.commit(transaction(0, new("out", b"0")))
        end = log.transactional_producer.commit_transaction
        log.transactional_producer.commit_transaction = end_later
        pipe.send(outcome(lambda: log.commit(transaction(1, new("out", b"zombie")))))
        pipe.send(ended.get(timeout=PATIENCE))


def test_a_zombie_that_wakes_inside_a_commit_is_fenced_and_invisible(open_log):
    log = open_log(journal=1, out=1)
    only_kafka(log)  # a process stopped inside a write of SQLite keeps the others out: a limit it states
    open_again = partial(again(log), session_timeout=SESSION)
    with Child(stop_inside_a_commit, open_again) as child, open_again() as successor:
        assert child.told() == "inside"
        child.stop()
        acquired(successor, "successor")
        child.go_on()
        assert child.told() == "Fenced"
        assert child.told() == "refused"
        assert len(values(successor, "journal")) == 1
        for n in (1, 2):
            successor.commit(transaction(n, new("out", b"%d" % n), by=b"b"))
    assert values(log, "out") == [b"0", b"1", b"2"]


def test_a_learner_still_elected_takes_its_transactional_id_back_and_commits_once(open_log):
    """A broker that has not seen a learner for long gives its id a new epoch, as a stranger does here."""
    log, reader = open_log(journal=1, out=1, events=1), open_log()
    only_kafka(log)
    log.acquire("a")
    log.commit(transaction(0, new("out", b"0")))
    for n in (1, 2):
        log.begin([], transactional_id=log.transactional_id).abort()
        log.commit(transaction(n, new("out", b"%d" % n), positions={EVENTS: n}))
    assert values(reader, "out") == [b"0", b"1", b"2"]
    assert values(reader, "journal") == [transaction(n).journal.value for n in range(3)]


def test_heartbeats_are_cheap(open_log, monkeypatch):
    log = open_log(journal=1)
    only_kafka(log)  # what a heartbeat costs the embedded log is tested with it
    from kafka import KafkaConsumer

    log.acquire("a")
    poll, polls = KafkaConsumer.poll, []
    monkeypatch.setattr(
        KafkaConsumer, "poll", lambda *args, **more: (polls.append(1), poll(*args, **more))[1]
    )
    for _ in range(5000):
        log.heartbeat()
    assert len(polls) < 500
    log.commit(transaction(0))


class Child:
    """Another process with a pipe, which can be stopped and sent on; it is gone at the end."""

    def __init__(self, target, *args):
        self._pipe, theirs = SPAWN.Pipe()
        self._process = SPAWN.Process(target=target, args=(*args, theirs))

    def __enter__(self):
        self._process.start()
        return self

    def __exit__(self, *_):
        os.kill(self._process.pid, signal.SIGKILL)
        self._process.join()

    def told(self):
        assert self._pipe.poll(PATIENCE), "the other process says nothing"
        return self._pipe.recv()

    def stop(self):
        os.kill(self._process.pid, signal.SIGSTOP)

    def go_on(self):
        self._pipe.send("go on")
        os.kill(self._process.pid, signal.SIGCONT)


# Records that are handed on


LETTERS = Partition("letters", 0)


def nothing_handed_on(log):
    with contextlib.suppress(Unavailable):
        return log.forwarded("letters") == {}


@pytest.mark.parametrize("open_log", LOGS, indirect=True)
def test_records_are_handed_on_once_whoever_tries(open_log):
    """With a place that is out of date nothing is written, nor where one of the records is refused."""
    log, other = open_log(events=1, letters=2), open_log()
    until(lambda: nothing_handed_on(log))  # a broker's first group makes it create a topic of its own
    log.forward(numbered("events", range(3)), {LETTERS: Forwarded(0)}, {LETTERS: Forwarded(5)})
    assert other.forwarded("letters") == {LETTERS: Forwarded(5)}
    assert other.forwarded("events") == {}
    for since in (
        {LETTERS: Forwarded(0)},
        {},
        {LETTERS: Forwarded(4)},
        {LETTERS: Forwarded(5), Partition("letters", 1): Forwarded(1)},
    ):
        with pytest.raises(Fenced, match="forwards these records, too, and has forwarded"):
            other.forward(numbered("events", [7]), since, {LETTERS: Forwarded(9)})
    with pytest.raises(UnknownTopic, match="nowhere"):
        other.forward([new("events"), new("nowhere")], {LETTERS: Forwarded(5)}, {LETTERS: Forwarded(9)})
    with pytest.raises(UnknownTopic):
        other.forward([new("events")], {LETTERS: Forwarded(5)}, {Partition("letters", 7): Forwarded(9)})
    assert log.forwarded("letters") == {LETTERS: Forwarded(5)}
    other.forward(
        numbered("events", [3]),
        {LETTERS: Forwarded(5), Partition("letters", 1): Forwarded(0)},
        {Partition("letters", 1): Forwarded(2)},
    )
    assert log.forwarded("letters") == {LETTERS: Forwarded(5), Partition("letters", 1): Forwarded(2)}
    assert values(log, "events") == [b"0", b"1", b"2", b"3"]
    since = {**log.forwarded("letters"), EVENTS: Forwarded(0)}  # of two topics at once
    log.forward([], since, {LETTERS: Forwarded(6), EVENTS: Forwarded(4)})
    log.forward(
        numbered("events", [4]),
        {**since, LETTERS: Forwarded(6), EVENTS: Forwarded(4)},
        {LETTERS: Forwarded(7), EVENTS: Forwarded(5)},
    )
    assert other.forwarded("events") == {EVENTS: Forwarded(5)}


@pytest.mark.parametrize("open_log", LOGS, indirect=True)
def test_a_note_of_what_was_handed_on_is_kept_with_its_position(open_log):
    """Where the note alone is another one by now, somebody else has handed something on."""
    log, other = open_log(events=1, letters=1), open_log()
    until(lambda: nothing_handed_on(log))
    long = Forwarded(5, "a note, " * 500)
    log.forward([], {}, {LETTERS: Forwarded(5, "first")})
    log.forward(numbered("events", [1]), {LETTERS: Forwarded(5, "first")}, {LETTERS: long})
    assert other.forwarded("letters") == {LETTERS: long}
    with pytest.raises(Fenced):
        other.forward(numbered("events", [2]), {LETTERS: Forwarded(5, "first")}, {LETTERS: Forwarded(9)})
    other.forward([], {LETTERS: long}, {LETTERS: Forwarded(9)})
    assert log.forwarded("letters") == {LETTERS: Forwarded(9)}
    assert values(log, "events") == [b"1"]


@pytest.mark.parametrize("open_log", LOGS, indirect=True)
def test_whoever_hands_on_disturbs_no_learner(open_log):
    log, other = open_log(events=1, letters=1, out=1, journal=1), open_log()
    acquired(log, "learner")
    for n in range(3):
        other.forward(numbered("events", [n]), {LETTERS: Forwarded(n)}, {LETTERS: Forwarded(n + 1)})
        log.commit(transaction(n, new("out"), positions={EVENTS: n + 1}))
    assert log.forwarded("letters") == {LETTERS: Forwarded(3)}
    assert len(values(log, "out")) == 3


@pytest.mark.parametrize("library", LIBRARIES)
def test_whoever_is_fenced_while_it_hands_on_is_told_by_whom(broker, library, monkeypatch):
    """Between its look and its commit another one hands the same records on."""
    prefix = f"handed-{library}-"
    log, other = (PrefixedKafkaLog(broker.address, prefix, library=LIBRARIES[library]) for _ in range(2))
    with log, other:
        log.create_topics({"events": 1, "letters": 1})
        until(lambda: nothing_handed_on(log))
        send = Transactions.send

        def overtaken(transactions, *arguments):
            monkeypatch.setattr(Transactions, "send", send)
            other.forward(numbered("events", [1]), {}, {LETTERS: Forwarded(1)})
            return send(transactions, *arguments)

        monkeypatch.setattr(Transactions, "send", overtaken)
        with pytest.raises(Fenced, match="another process also forwards these records: start again"):
            log.forward(numbered("events", [1]), {}, {LETTERS: Forwarded(1)})
        assert values(log, "events") == [b"1"]


@pytest.mark.parametrize("open_log", LOGS, indirect=True)
def test_forwarders_of_one_topic_have_positions_of_their_own(open_log):
    log, other = open_log(events=1, letters=2), open_log()
    until(lambda: nothing_handed_on(log))
    log.forward([], {}, {LETTERS: Forwarded(5, "a")}, "webhook-a")
    assert other.forwarded("letters") == {}
    assert other.forwarded("letters", "webhook-b") == {}
    other.forward([], {}, {LETTERS: Forwarded(7)})
    assert log.forwarded("letters", "webhook-a") == {LETTERS: Forwarded(5, "a")}
    with pytest.raises(Fenced):
        other.forward([], {LETTERS: Forwarded(7)}, {LETTERS: Forwarded(8)}, "webhook-a")
    assert log.forwarded("letters") == {LETTERS: Forwarded(7)}


@pytest.mark.parametrize("open_log", LOGS, indirect=True)
def test_a_lease_of_a_webhook_passes_on_only_when_its_holder_is_silent(open_log):
    """And the holder that was silent cannot move the position any more."""
    log, other = open_log(letters=2), open_log()
    until(lambda: nothing_handed_on(log))
    now = [0.0]
    first = LeasedPosition(log, "letters", "w", "one", 30.0, lambda: now[0])
    second = LeasedPosition(other, "letters", "w", "two", 30.0, lambda: now[0])
    assert not first.acquire().is_continued
    assert second.acquire() is None
    now[0] = 29.0
    assert first.is_due
    first.offsets[1] = 0
    first.save()
    now[0] = 40.0
    assert second.acquire() is None, "it was renewed"
    now[0] = 69.0
    assert second.acquire() is None
    now[0] = 71.0
    assert second.acquire().is_continued
    with pytest.raises(Fenced):
        first.save()
    second.release()
    assert first.acquire().is_continued
