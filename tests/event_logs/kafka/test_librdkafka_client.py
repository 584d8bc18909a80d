"""What is librdkafka's own: settings, memberships, errors, deliveries; and learners of both libraries side by side."""

from __future__ import annotations

import builtins
import contextlib
import re
import sys
import time
from importlib.metadata import version
from itertools import chain

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer
from kafka import KafkaAdminClient, KafkaProducer, errors
from kafka.admin import NewTopic
from kafka.structs import ConsumerGroupMetadata

from streamnb.cli import main
from streamnb.config import load
from streamnb.config.kafka_client_settings import SETTINGS
from streamnb.engine.ports import NewRecord, Partition, Record
from streamnb.errors import Fenced, LogError, OutOfRange, Unavailable, UnknownTopic
from streamnb.event_logs.kafka import librdkafka_client
from streamnb.event_logs.kafka.error_actions import Action, classify
from streamnb.event_logs.kafka.error_messages import translate
from streamnb.event_logs.kafka.kafka_clients import Clients
from streamnb.event_logs.kafka.librdkafka_client import Librdkafka, membership_bytes
from streamnb.event_logs.kafka.librdkafka_errors import as_kafka_python, raised_as_kafka_python
from streamnb.event_logs.kafka.librdkafka_settings import producing, reading, transacting, translated_settings
from streamnb.runtime.worker_context import CommitPolicy
from tests.brokers.numbered import NUMBERS
from tests.brokers.prefixed import LIBRARIES, PrefixedKafkaLog
from tests.brokers.secured import Authority
from tests.support.service import (
    TOPICS,
    digests,
    new_learner,
    new_worker,
    predictions,
    produce,
    raw_events,
    records,
)
from tests.support.topics_of_logs import noted_positions

pytestmark = pytest.mark.early(65)

RAWS = raw_events(120, seed=21)
PACE = CommitPolicy(commit_events=20)
PATIENCE = 60.0  # seconds until what does not happen is taken to happen never
PLAIN = {"bootstrap_servers": ["a:1", "b:2"]}


def until(condition):
    deadline = time.monotonic() + PATIENCE
    while not (answer := condition()):
        assert time.monotonic() < deadline, "it does not happen"
        time.sleep(0.05)
    return answer


@pytest.fixture
def clients(broker):
    return Clients({"bootstrap_servers": broker.address})


@pytest.fixture
def topic(broker):
    return topic_of_seven(broker)


def topic_of_seven(broker):
    name = f"rd{next(NUMBERS)}"
    with contextlib.closing(KafkaAdminClient(bootstrap_servers=broker.address)) as admin:
        admin.create_topics([NewTopic(name, 7, 1)])
        admin.wait_for_topics([name])
    return name


@pytest.fixture
def connect(broker):
    """Open the log of this test once more, by the library named; closed at the end."""
    opened = []
    prefix = f"rd{next(NUMBERS)}-"

    def opener(library="librdkafka", **options):
        settings = {"session_timeout": 6.0, "elected_within": 20.0, "transaction_timeout": 5.0, **options}
        opened.append(PrefixedKafkaLog(broker.address, prefix, library=LIBRARIES[library], **settings))
        if len(opened) == 1:
            opened[0].create_topics({name.replace("_", "-"): n for name, n in TOPICS.items()})
        return opened[-1]

    yield opener
    for log in opened:
        log.close()


# Settings


def test_it_gets_the_same_connection():
    settings = {
        **PLAIN,
        "security_protocol": "SASL_SSL",
        "sasl_mechanism": "SCRAM-SHA-512",
        "sasl_plain_username": "me",
        "sasl_plain_password": "secret",
        "ssl_cafile": "ca.pem",
        "ssl_check_hostname": False,
        "bootstrap_timeout_ms": 3000,
    }
    assert translated_settings(settings) == {
        "bootstrap.servers": "a:1,b:2",
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": "me",
        "sasl.password": "secret",
        "ssl.ca.location": "ca.pem",
        "ssl.endpoint.identification.algorithm": "none",
    }


REFUSED = {"proxy_url", "sasl_kerberos_domain_name", "sasl_kerberos_name"}
VALUES = {
    "client_dns_lookup": "use_all_dns_ips",
    "security_protocol": "SSL",
    "ssl_check_hostname": True,
    "sasl_mechanism": "PLAIN",
    "sasl_kerberos_service_name": "kafka",
}


@pytest.mark.parametrize("name", SETTINGS)
def test_every_setting_of_the_table_is_taken_or_refused_by_its_name(name, authority):
    number = 500 if name.endswith("_ms") else 30_000_000
    given = {**PLAIN, name: VALUES.get(name, authority.get(name, number))}
    if name in REFUSED:
        with pytest.raises(LogError, match=rf"^kafka\.client\.{name} has no counterpart in librdkafka"):
            Librdkafka(Clients(given), "g")
    else:
        library = Librdkafka(Clients(given), "g")
        library.reader().close()
        library.producer().abandon()
        library.transactional("t", 5.0).abandon()


@pytest.fixture(scope="session")
def authority(tmp_path_factory):
    """Files with a certificate and its key, as settings name them."""
    made = Authority.create(tmp_path_factory.mktemp("authority"), "authority")
    return {
        "ssl_cafile": str(made.certificate),
        "ssl_certfile": str(made.certificate),
        "ssl_keyfile": str(made.key),
        "ssl_crlfile": str(made.certificate),
    }


def test_a_mechanism_that_it_has_not_is_named():
    with pytest.raises(LogError, match="sasl_mechanism = 'AWS_MSK_IAM' has no counterpart in librdkafka"):
        Librdkafka(Clients({**PLAIN, "sasl_mechanism": "AWS_MSK_IAM"}), "g")


def test_a_setting_with_which_no_client_can_be_made_is_an_error_of_the_log():
    broken = {**PLAIN, "security_protocol": "SSL", "ssl_cafile": "/no/such/ca.pem"}
    library = Librdkafka(Clients(broken), "g")
    for make in (library.reader, library.producer, lambda: library.transactional("t", 5.0)):
        with pytest.raises(LogError, match=r"^kafka\.client: .*ssl\.ca\.location failed"):
            make()


def test_what_its_guarantees_rest_on_cannot_be_overridden():
    table = load(
        None, {}, ["log.url=kafka://a:1", "kafka.client={ request_timeout_ms = 20000 }"]
    ).kafka.client
    settings = transacting({**PLAIN, **table}, "t", 5.0)
    assert settings["socket.timeout.ms"] == 2500  # an attempt is made twice within the transaction
    assert reading({**PLAIN, **table}, "g")["socket.timeout.ms"] == 20000
    assert producing({**PLAIN, **table})["partitioner"] == "murmur2_random"


def test_where_the_extra_is_missing_that_is_said(monkeypatch, capsys):
    imported = builtins.__import__

    def without(name, *args, **more):
        if name.startswith("confluent_kafka"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        return imported(name, *args, **more)

    for name in [n for n in sys.modules if "librdkafka" in n or n.startswith("confluent_kafka")]:
        if name != "streamnb.event_logs.kafka.librdkafka_settings" and "test" not in name:
            monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(builtins, "__import__", without)
    log = ["--log", "kafka://127.0.0.1:1", "--set", "log.client=librdkafka"]
    expected = (
        r'log\.client = "librdkafka" needs confluent-kafka \(No module named .*\); '
        r"pip install 'streamnb\[librdkafka\]', or set log\.client = \"kafka-python\"\n"
    )
    assert main(["read", "events", *log]) == 1
    assert re.fullmatch(f"streamnb: {expected}", capsys.readouterr().err)
    assert main(["doctor", *log, "--timeout", "0.5"]) == 1
    assert re.search(rf"^problem +client +{expected}", capsys.readouterr().out, re.MULTILINE)


def test_the_doctor_tells_which_library_is_used(capsys):
    for client, package in [("kafka-python", "kafka-python"), ("librdkafka", "confluent-kafka")]:
        main(["doctor", "--log", "kafka://127.0.0.1:1", "--set", f"log.client={client}", "--timeout", "0.5"])
        said = capsys.readouterr().out
        assert re.search(rf"^ok +client +{client}, of {package} {version(package)}$", said, re.MULTILINE)


# Memberships


def test_a_membership_has_the_form_in_which_librdkafka_writes_its_own(broker, topic):
    group = f"{topic}-größe"
    consumer = Consumer({"bootstrap.servers": broker.address, "group.id": group, "session.timeout.ms": 6000})
    consumer.subscribe([topic])
    until(lambda: consumer.poll(0.1) or consumer.assignment())
    member = consumer.memberid()
    assert member
    assert consumer.consumer_group_metadata() == membership_bytes(
        ConsumerGroupMetadata(group, 1, member, None)
    )
    consumer.close()


def test_a_form_that_is_not_known_is_refused(clients, monkeypatch):
    class Newer(Consumer):
        def consumer_group_metadata(self):
            return super().consumer_group_metadata().replace(b"CGMDv2", b"CGMDv3")

    monkeypatch.setattr(librdkafka_client, "Consumer", Newer)
    with pytest.raises(LogError, match="writes group memberships in a form"):
        Librdkafka(clients, "g").reader()


def test_offsets_of_a_membership_that_is_out_of_date_are_refused(connect):
    log = connect()
    log.acquire("a")
    now = log._commits._election.membership
    for stale, error in [
        (now._replace(generation_id=now.generation_id + 1), errors.IllegalGenerationError),
        (now._replace(generation_id=now.generation_id - 1), errors.IllegalGenerationError),
        (now._replace(member_id="nobody"), errors.UnknownMemberIdError),
    ]:
        producer = log._log._library.transactional(log.transactional_id, 5.0)
        producer.init_transactions()
        producer.begin_transaction()
        with pytest.raises(error):
            producer.send_offsets_to_transaction({Partition(f"{log._prefix}events", 0): 1}, stale)
        producer.abandon()
    assert noted_positions(log) == {}


# Reading


def test_what_a_stranger_wrote_is_the_same_record_by_either_library(broker, clients, topic):
    stranger = Producer({"bootstrap.servers": broker.address, "compression.type": "lz4"})
    for key, value, headers in [
        (None, None, None),
        (b"", b"", [("", None), ("h", b""), ("h", b"\xff")]),
        (b"k", bytes(range(256)), None),
    ]:
        stranger.produce(topic, value, key, 3, headers=headers, timestamp=1_790_000_000_123)
    stranger.flush()
    found = []
    for library in LIBRARIES.values():
        with contextlib.closing(library(clients, "g").reader()) as reader:
            read = []
            reader.seek({Partition(topic, 3): 0})
            until(lambda read=read, reader=reader: read.extend(reader.poll(9, 1.0)) or len(read) >= 3)
            found.append(read)
    place, at = Partition(topic, 3), 1_790_000_000.123
    assert (
        found
        == [
            [
                Record(place, 0, None, b"", at),
                Record(place, 1, b"", b"", at, (("", b""), ("h", b""), ("h", b"\xff"))),
                Record(place, 2, b"k", bytes(range(256)), at),
            ]
        ]
        * 2
    )


class NotText(str):
    """The name of a header that other clients write as bytes, and a broker takes."""

    __slots__ = ()

    def encode(self, *_):
        return b"\xff\xfe"


@pytest.mark.parametrize("compression", [None, "gzip"])
def test_the_name_of_a_header_that_is_not_text_stops_nobody(broker, clients, topic, compression):
    odd = [("before", b"1"), (NotText(), b"2"), ("after", b"3")]
    with contextlib.closing(
        KafkaProducer(bootstrap_servers=broker.address, linger_ms=200, compression_type=compression)
    ) as stranger:
        for number in range(6):
            headers = [None, odd, [("fine", b"4")]][number % 3]
            stranger.send(topic, b"%d" % number, partition=3, headers=headers)
        stranger.flush()
    for library in LIBRARIES.values():
        with contextlib.closing(library(clients, "g").reader()) as reader:
            read = []
            reader.seek({Partition(topic, 3): 0})
            until(lambda read=read, reader=reader: read.extend(reader.poll(9, 1.0)) or len(read) >= 6)
            assert [(record.offset, record.value) for record in read] == [(n, b"%d" % n) for n in range(6)]
            assert [record.headers for record in read] == [
                (),
                (),
                (("fine", b"4"),),
                (),
                (),
                (("fine", b"4"),),
            ]


def test_the_time_that_the_broker_notes_is_the_same_at_every_reading(broker, clients):
    """Whatever the producer says: half-lives may go by it, and a replay must not learn otherwise."""
    name, began = f"rd{next(NUMBERS)}", time.time()
    by_broker = {"message.timestamp.type": "LogAppendTime"}
    with contextlib.closing(KafkaAdminClient(bootstrap_servers=broker.address)) as admin:
        admin.create_topics([NewTopic(name, 1, 1, topic_configs=by_broker)])
        admin.wait_for_topics([name])
    stranger = Producer({"bootstrap.servers": broker.address, "linger.ms": 0})
    for number in range(5):
        stranger.produce(name, b"%d" % number, partition=0, timestamp=1_000 * number)
        stranger.flush()
        time.sleep(0.01)
    found = []
    for library in [*LIBRARIES.values()] * 2:
        with contextlib.closing(library(clients, "g").reader()) as reader:
            read = []
            reader.seek({Partition(name, 0): 0})
            until(lambda read=read, reader=reader: read.extend(reader.poll(9, 1.0)) or len(read) >= 5)
            found.append([record.timestamp for record in read])
    assert found == [found[0]] * 4
    assert found[0] == sorted(set(found[0]))
    assert began - 60 < found[0][0] <= found[0][-1] < time.time() + 60


class Told:
    """A consumer that has these messages."""

    def __init__(self, *messages):
        self._messages = list(messages)
        self.calls = []
        self.is_answered = True

    def list_topics(self, topic, _seconds):
        self.calls.append(topic)
        if not self.is_answered:
            raise KafkaException(KafkaError(KafkaError._TRANSPORT))

    def assign(self, places):
        self.calls += [(place.topic, place.offset) for place in places]

    def consume(self, limit, _seconds):
        now, self._messages = self._messages[:limit], self._messages[limit:]
        return now


def message(offset, code=None):
    error = None if code is None else KafkaError(code, "said")
    return Message("t", 0, offset, None, b"v", None, error, (1, 0))


def reading_of(*messages):
    reader = librdkafka_client._LibrdkafkaReader(Told(*messages))
    reader.seek({Partition("t", 0): 5})
    return reader


def test_records_before_an_error_are_returned_before_it_is_raised():
    reader = reading_of(message(5), message(6), message(7, KafkaError._AUTO_OFFSET_RESET), message(9))
    assert [record.offset for record in reader.poll(3, 0.0)] == [5, 6]
    with pytest.raises(errors.OffsetOutOfRangeError) as caught:
        reader.poll(3, 0.0)
    assert caught.value.args == ({Partition("t", 0): 7},)
    assert [record.offset for record in reader.poll(3, 0.0)] == [9]


def test_an_error_is_forgotten_where_another_position_is_sought():
    reader = reading_of(message(5), message(6, KafkaError._AUTO_OFFSET_RESET), message(0))
    assert len(reader.poll(2, 0.0)) == 1
    reader.seek({Partition("t", 0): 0})
    assert [record.offset for record in reader.poll(3, 0.0)] == [0]


def test_where_topics_are_is_asked_before_they_are_read_until_it_is_known():
    """A client that was idle asks half a second later by itself."""
    told = Told()
    reader = librdkafka_client._LibrdkafkaReader(told)
    told.is_answered = False
    reader.seek({Partition("t", 0): 5})
    assert told.calls == ["t", ("t", 5)]  # no answer is no error yet
    told.is_answered = True
    reader.seek({Partition("t", 0): 6})
    reader.seek({Partition("t", 0): 7, Partition("u", 0): 8})
    assert told.calls[2:] == ["t", ("t", 6), "u", ("t", 7), ("u", 8)]


def test_the_end_of_a_partition_moves_its_position_and_is_no_record():
    place = Partition("t", 0)
    reader = reading_of(message(5), message(8, KafkaError._PARTITION_EOF), message(8))
    assert [len(reader.poll(limit, 0.0)) for limit in (1, 1)] == [1, 0]
    assert reader.position(place) == 8
    assert len(reader.poll(1, 0.0)) == 1
    assert reader.position(place) == 9


@pytest.mark.parametrize(
    "code", [KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN, KafkaError.GROUP_AUTHORIZATION_FAILED]
)
def test_what_the_client_gets_over_by_itself_is_passed_over(code):
    reader = reading_of(message(-1, code), message(5))
    assert [len(reader.poll(1, 0.0)) for _ in range(2)] == [0, 1]


def test_a_topic_without_leave_is_named():
    with pytest.raises(errors.TopicAuthorizationFailedError) as caught:
        reading_of(message(5, KafkaError.TOPIC_AUTHORIZATION_FAILED)).poll(1, 0.0)
    assert "READ topic t;" in str(translate(caught.value, "READ"))


# Deliveries


TOO_LARGE = bytes(5 << 20)


@pytest.fixture
def begun(clients, topic):
    """A producer inside a transaction."""
    producer = Librdkafka(clients, "g").transactional(f"{topic}-t", 5.0)
    producer.init_transactions()
    producer.begin_transaction()
    yield producer
    producer.abandon()


def test_a_record_that_fails_inside_a_transaction_makes_the_commit_fail(begun, topic):
    """Or the delivery, where the partition of the other was not yet part of the transaction."""
    with pytest.raises(errors.MessageSizeTooLargeError, match=topic):  # noqa: PT012 - whichever comes first
        begun.deliver([NewRecord(topic, b"a", b"small"), NewRecord(topic, b"b", TOO_LARGE)])
        begun.commit_transaction()


def then(first, *others, after):
    """Records of which the others come so many seconds after the first."""
    yield first
    time.sleep(after)
    yield from others


def test_what_a_failed_transaction_does_not_send_is_told_at_once_by_what_it_failed_with(begun, topic):
    """What comes while the first is under way finds partitions that are not yet part of the transaction."""
    began = time.monotonic()
    small = [NewRecord(topic, b"%d" % key, b"small") for key in range(50)]
    with pytest.raises(errors.MessageSizeTooLargeError, match=topic):  # noqa: PT012 - whichever comes first
        begun.deliver(then(NewRecord(topic, b"a", TOO_LARGE), *small, after=0.003))
        begun.commit_transaction()
    assert time.monotonic() < began + 4.0


def test_what_a_failed_transaction_does_not_take_is_told_by_what_it_failed_with(begun, topic):
    small = (NewRecord(topic, b"b", b"small") for _ in iter(lambda: time.sleep(0.01), ...))
    with pytest.raises(errors.MessageSizeTooLargeError, match=topic):
        begun.deliver(chain([NewRecord(topic, b"a", TOO_LARGE)], small))


class Stuck:
    """A client that never delivers the one record that it has; `error` is what a second transaction meets."""

    def __init__(self, error):
        self._error = error
        self.flushed = 0.0

    def produce(self, *_):
        pass

    purge = produce

    def flush(self, seconds):
        self.flushed += seconds
        return 1

    def __len__(self):
        return 1

    def begin_transaction(self):
        raise KafkaException(self._error)


@pytest.mark.parametrize(
    ("error", "kind", "said", "seconds"),
    [
        (KafkaError(KafkaError._STATE, "in one"), errors.KafkaTimeoutError, "1 records .* within 5 s", 5.0),
        (
            KafkaError(10, "for t", txn_requires_abort=True),
            errors.MessageSizeTooLargeError,
            "for t",
            0.2,
        ),
        (KafkaError(KafkaError._FENCED, "newer", fatal=True), errors.ProducerFencedError, "newer", 0.2),
    ],
)
def test_a_transaction_that_delivers_nothing_is_asked_why(begun, error, kind, said, seconds):
    """Only where it is sound the records are late."""
    begun.abandon()
    begun._producer = Stuck(error)
    with pytest.raises(kind, match=said):
        begun.deliver([NewRecord("t", b"a", b"b")])
    assert begun._producer.flushed == pytest.approx(seconds)


@pytest.mark.thorough
def test_a_batch_that_expires_inside_a_transaction_makes_the_commit_fail(lone_broker):
    """The broker is silent until the client gives the batch up, and back before it is asked to commit."""
    clients, topic = Clients({"bootstrap_servers": lone_broker.address}), topic_of_seven(lone_broker)
    producer = Librdkafka(clients, "g").transactional(f"{topic}-t", 3.0)
    producer.init_transactions()
    producer.begin_transaction()
    producer.deliver([NewRecord(topic, b"a", b"first")])
    (node,) = lone_broker.nodes
    node.pause()
    try:
        with contextlib.suppress(errors.KafkaTimeoutError):  # or the client is first to give the batch up
            producer.deliver([NewRecord(topic, b"a", b"late")])
        until(lambda: producer._producer.flush(0.1) == 0)  # given up
    finally:
        node.resume()
    with pytest.raises(errors.KafkaError):
        producer.commit_transaction()
    producer.abandon()
    with contextlib.closing(Librdkafka(clients, "g").reader()) as reader:
        reader.seek({Partition(topic, number): 0 for number in range(7)})
        assert not reader.poll(10, 1.0)


def test_a_key_has_the_same_partition_with_either_library(topic, clients):
    keys = [b"%d" % i for i in range(200)] + [b"", b"\x00", "Größe".encode(), bytes(range(256))]
    homes = []
    for library in LIBRARIES.values():
        producer = library(clients, "g").producer()
        producer.deliver([NewRecord(topic, key, b"v") for key in keys], lambda ask, *_: ask())
        producer.abandon()
    with contextlib.closing(Librdkafka(clients, "g").reader()) as reader:
        reader.seek({Partition(topic, number): 0 for number in range(7)})
        until(lambda: homes.extend(reader.poll(1000, 1.0)) or len(homes) == 2 * len(keys))
    found = {key: {record.partition for record in homes if record.key == key} for key in keys}
    assert {key for key, places in found.items() if len(places) > 1} == set()
    assert len(set.union(*found.values())) == 7


# Errors


@pytest.mark.parametrize(
    ("code", "meaning", "committing"),
    [
        (KafkaError._TRANSPORT, Unavailable, Action.RESEND),
        (KafkaError._ALL_BROKERS_DOWN, Unavailable, Action.RESEND),
        (KafkaError._TIMED_OUT, Unavailable, Action.RESEND),
        (KafkaError._MSG_TIMED_OUT, Unavailable, Action.RESEND),
        (KafkaError._FENCED, Fenced, Action.RESEND),
        (KafkaError._STATE, LogError, Action.RESEND),
        (KafkaError._AUTHENTICATION, LogError, Action.FATAL),
        (KafkaError._UNKNOWN_TOPIC, UnknownTopic, Action.FATAL),
        (KafkaError._BAD_MSG, OutOfRange, Action.RESEND),
        (KafkaError._AUTO_OFFSET_RESET, OutOfRange, Action.RESEND),
        (KafkaError.ILLEGAL_GENERATION, Fenced, Action.RESEND),
        (KafkaError.COORDINATOR_LOAD_IN_PROGRESS, Unavailable, Action.RESEND),
        (KafkaError.GROUP_AUTHORIZATION_FAILED, LogError, Action.FATAL),
        (KafkaError.MSG_SIZE_TOO_LARGE, LogError, Action.FATAL),
        (KafkaError.INVALID_TRANSACTION_TIMEOUT, LogError, Action.FATAL),
        (-12345, LogError, Action.RESEND),
    ],
)
def test_errors_mean_what_they_mean_of_kafka_python(code, meaning, committing):
    found = as_kafka_python(KafkaError(code, "said"))
    assert type(translate(found)) is meaning
    assert "said" in str(found)
    assert classify(found, committing=True) is committing


def test_a_fatal_error_that_meets_a_callback_is_what_it_is():
    cause = KafkaException(KafkaError(KafkaError._FENCED, "by a newer one", True))
    with pytest.raises(errors.ProducerFencedError, match="by a newer one"), raised_as_kafka_python():
        raise SystemError("returned a result with an exception set") from cause
    with pytest.raises(SystemError, match="another"), raised_as_kafka_python():
        raise SystemError("another")


# Both libraries


def test_learners_of_both_libraries_stand_by_for_each_other(connect, tmp_path):
    produce(connect(), RAWS[:40])
    parts = [("kafka", 40), ("librdkafka", 80), ("kafka", 100), ("librdkafka", 120)]
    learned = 0
    for library, end in parts:
        produce(connect(library), RAWS[max(40, learned) : end])
        worker = new_worker(connect(library), tmp_path / "s", pace=PACE)
        worker.start(library)
        worker.run(until_end=True)
        worker.close()
        learned = end
    alone = new_learner()
    expected = predictions(alone.process(records(RAWS), 1.0))
    assert predictions(connect()) == predictions(connect("kafka")) == expected
    assert digests(worker.learner) == digests(alone)


@pytest.mark.parametrize(("old", "new"), [("kafka", "librdkafka"), ("librdkafka", "kafka")])
def test_a_learner_of_the_other_library_fences_one_that_fell_silent(connect, tmp_path, old, new):
    produce(connect(), RAWS)
    silent = new_worker(connect(old), tmp_path / "s", pace=PACE)
    silent.start("silent")
    successor = new_worker(connect(new, elected_within=PATIENCE), tmp_path / "s", pace=PACE)
    silent.context.log._commits._election._member.unsubscribe()  # out of the group, as one that is expelled
    successor.start("successor")
    successor.run(until_end=True)
    with pytest.raises(Fenced):
        silent.run(until_end=True)
    assert predictions(connect()) == predictions(new_learner().process(records(RAWS), 1.0))
    successor.close()
    silent.close()
