"""streamnb on a broker, by its commands, as operators and strangers see it: the promises from end to end."""

from __future__ import annotations

import gzip
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from contextlib import closing
from urllib.error import HTTPError, URLError
from urllib.request import urlopen

import pytest
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, IsolationLevel, KafkaError, Producer
from confluent_kafka import TopicPartition as Place
from confluent_kafka.admin import AdminClient, NewPartitions, OffsetSpec
from kafka import KafkaAdminClient
from prometheus_client.parser import text_string_to_metric_families as parse_metrics

from streamnb import config as configuration
from streamnb.engine.journal.recovery import recover
from streamnb.engine.journal.snapshot_store import NoSnapshots
from streamnb.engine.ports import Partition, Record
from streamnb.engine.topic_plan import HEADER_BYTES
from streamnb.formats.event_schema import EventSchema
from streamnb.formats.snapshot_container import part_digest
from streamnb.persistence.snapshot_folder import SnapshotFolder
from streamnb.runtime import context, factories
from tests.brokers.numbered import NUMBERS
from tests.cli.test_commands import answer
from tests.oracles.words_oracle import words
from tests.support import commands
from tests.support.malformed import MALFORMED, kept
from tests.support.service import model_digest, raw_events

pytestmark = pytest.mark.early(14)

PATIENCE = 90  # seconds after which a test that waits has failed
ROLES = ("events", "predictions", "metrics", "dead_letters", "journal")
COMMITTED, UNCOMMITTED = IsolationLevel.READ_COMMITTED, IsolationLevel.READ_UNCOMMITTED
LARGEST = 4 << 20


# -- commands, in processes of their own ------------------------------------------------------------------


def until(condition, *running):
    """What `condition` returns as soon as it is true, while these commands run."""
    deadline = time.monotonic() + PATIENCE
    while not (met := condition()):
        for command in running:
            assert command.process.poll() is None, f"ended too early:\n{command.said()}"
        assert time.monotonic() < deadline, "\n".join(command.said() for command in running)
        time.sleep(0.02)
    return met


class Running:
    """A command in the background; a file keeps what it says."""

    def __init__(self, folder, *arguments):
        self._said = folder / f"said-{next(NUMBERS)}.txt"
        self.process = commands.begin(arguments, cwd=folder, out=self._said, err=self._said)

    def said(self):
        return self._said.read_text()

    def is_going(self):
        return self.process.poll() is None

    def finish(self):
        assert self.process.wait(PATIENCE) == 0, self.said()

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        self.finish()

    def kill(self):
        self.process.kill()
        self.process.wait()

    def get(self, path):
        """(status, text) of its web page."""
        url = until(lambda: re.search(r"(http://\S+)/metrics", self.said()), self)[1]
        try:
            with urlopen(url + path, timeout=PATIENCE) as page:  # noqa: S310  it is ours
                return page.status, page.read().decode()
        except HTTPError as error:
            with error:
                return error.code, error.read().decode()

    def is_ready(self):
        return self.get("/ready")[0] == 200

    def samples(self, name):
        """Values of a label, in the order of the labels' names -> the metric's value."""
        return {
            tuple(sample.labels[label] for label in sorted(sample.labels)): sample.value
            for family in parse_metrics(self.get("/metrics")[1])
            for sample in family.samples
            if sample.name == name
        }

    def lag(self):
        """(topic, partition) -> records that wait, as Prometheus is told."""
        found = self.samples("streamnb_consumer_lag_records")
        return {(topic, int(number)): lag for (number, topic), lag in found.items()}


class Site:
    """One model with topics, a configuration file and a folder of its own."""

    def __init__(
        self, address, folder, *, partitions=3, inputs=("events",), commit=100, client="kafka-python"
    ):
        self.address, self.folder = address, folder
        self.name = f"site-{next(NUMBERS)}"
        self.group = f"streamnb.{self.name}"
        self.topics = {role: f"{self.name}-{role}" for role in ROLES}
        self.inputs = [f"{self.name}-{name}" for name in inputs]
        self.file = folder / "streamnb.toml"
        sections = {
            "log": {"url": f"kafka://{address}", "client": client, "session_timeout": "6s"},
            "model": {"name": self.name},
            "topics": {**self.topics, "events": ",".join(self.inputs), "partitions": partitions},
            "commit": {"events": commit},
            "metrics": {"every": "0s"},
            "http": {"listen": "127.0.0.1:0"},
        }
        self.file.write_text(
            "".join(
                f"[{name}]\n" + "".join(f"{key} = {json.dumps(value)}\n" for key, value in section.items())
                for name, section in sections.items()
            )
        )
        self.config = configuration.load(self.file, {}, [])
        self._admin = AdminClient({"bootstrap.servers": address})
        self._running = []
        self.answer("topics", "create")

    def answer(self, *arguments):
        return answer(*arguments, "--config", self.file, cwd=self.folder)

    def start(self, *arguments):
        self._running.append(Running(self.folder, *arguments, "--config", self.file))
        return self._running[-1]

    def run(self):
        return self.start("run")

    def replay(self, raws, *arguments):
        """Write these events by `streamnb replay`."""
        path = self.folder / f"events-{next(NUMBERS)}.jsonl.gz"
        with gzip.open(path, "wb", compresslevel=1) as lines:
            lines.writelines(raw + b"\n" for raw in raws)
        assert self.answer("replay", path, *arguments)["events"] == len(raws)

    def close(self):
        for command in self._running:
            command.kill()

    # -- what a stranger sees of its topics ----------------------------------------------------------------

    def ends(self, topics=None, isolation=UNCOMMITTED):
        """(topic, partition) -> offset of the next record."""
        known = self._admin.list_topics(timeout=PATIENCE).topics
        places = [
            Place(topic, number) for topic in topics or self.inputs for number in known[topic].partitions
        ]
        asked = self._admin.list_offsets(
            dict.fromkeys(places, OffsetSpec.latest()), isolation_level=isolation
        )
        return {(p.topic, p.partition): found.result(PATIENCE).offset for p, found in asked.items()}

    def read(self, role, isolation="read_committed"):
        return read(self.address, self.topics[role], isolation)

    def published(self):
        """How far predictions go, in offsets that count the markers of commits too: a quick look."""
        return sum(self.ends([self.topics["predictions"]], COMMITTED).values())

    def predicted(self):
        return [json.loads(message.value())["id"] for message in self.read("predictions")]

    def positions(self):
        """(topic, partition) -> offset, of the journal's last record."""
        found = json.loads(self.read("journal")[-1].value())["positions"]
        return {(topic, int(number)): at for topic in found for number, at in found[topic].items()}

    def add_partitions(self, topic, total):
        (done,) = self._admin.create_partitions([NewPartitions(topic, total)]).values()
        done.result(PATIENCE)

    # -- what it has learned -------------------------------------------------------------------------------

    def replayed(self):
        """A learner that has replayed the journal from nothing."""
        again = factories.learner(self.config)
        with closing(context.open_log(self.config)) as log:
            recover(log, NoSnapshots(), again, factories.identity(self.config))
        return again

    def alone(self, raws):
        """A learner that has seen the same events without a broker, in the order of their file."""
        learner = factories.learner(self.config)
        learner.process(
            [Record(Partition("events", 0), i, None, raw, 0.0) for i, raw in enumerate(raws)], 0.0
        )
        return learner

    def snapshot(self):
        folder = self.config.snapshot_folder
        return SnapshotFolder(self.folder / folder).newest().snapshot


@pytest.fixture
def make_site(broker, tmp_path):
    made = []

    def make(**settings):
        made.append(Site(broker.address, tmp_path, **settings))
        return made[-1]

    yield make
    for site in made:
        site.close()


# -- strangers --------------------------------------------------------------------------------------------


def read(address, topic, isolation="read_committed"):
    """Every message of a topic by librdkafka, partition by partition."""
    settings = {"bootstrap.servers": address, "group.id": "stranger", "isolation.level": isolation,
                "enable.auto.commit": False, "auto.offset.reset": "error", "enable.partition.eof": True,
                "fetch.wait.max.ms": 10}  # fmt: skip
    consumer = Consumer(settings)
    try:
        left = set(consumer.list_topics(topic, timeout=PATIENCE).topics[topic].partitions)
        consumer.assign([Place(topic, number, 0) for number in left])
        found, deadline = [], time.monotonic() + PATIENCE
        while left:
            assert time.monotonic() < deadline
            message = consumer.poll(1.0)
            if message is not None and message.error() is None:
                found.append(message)
            elif message is not None:
                assert message.error().code() == KafkaError._PARTITION_EOF, message.error()
                left.discard(message.partition())
    finally:
        consumer.close()
    return sorted(found, key=lambda message: (message.partition(), message.offset()))


def produce(address, topic, messages):
    """Write (key, value, headers) by librdkafka; (partition, offset) of each."""
    producer = Producer({"bootstrap.servers": address, "message.max.bytes": LARGEST, "linger.ms": 5})
    places = {}
    for i, (key, value, headers) in enumerate(messages):

        def note(error, message, i=i):
            assert error is None, error
            places[i] = message.partition(), message.offset()

        producer.produce(topic, value, key, headers=headers, on_delivery=note)
        producer.poll(0)
    assert producer.flush(PATIENCE) == 0
    return [places[i] for i in range(len(messages))]


def console(address, *arguments):
    """The answer of kafka-python's console tool."""
    command = [sys.executable, "-m", "kafka.admin", "-b", address, "--format", "json", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def group_offsets(site):
    """(topic, partition) -> the group's offset, of the topics that are read; every tool says the same."""
    with closing(KafkaAdminClient(bootstrap_servers=site.address)) as admin:
        listed = admin.list_group_offsets(site.group)[site.group]
    by_client = {tuple(place): found.offset for place, found in listed.items() if place.topic in site.inputs}
    told = console(site.address, "groups", "list-offsets", "-g", site.group)
    ends = site.ends()
    by_console = {}
    for topic in site.inputs:
        for number, found in told[topic].items():
            by_console[topic, int(number)] = found["offset"]
            assert found["lag"] == ends[topic, int(number)] - found["offset"]
    admin = AdminClient({"bootstrap.servers": site.address})
    (asked,) = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(site.group)]).values()
    found = asked.result(PATIENCE).topic_partitions
    by_librdkafka = {(p.topic, p.partition): p.offset for p in found if p.topic in site.inputs}
    assert by_client == by_console == by_librdkafka
    return by_client


# -- what must hold at the end of any story ---------------------------------------------------------------


def counts(learner):
    """All that was counted, in no order."""
    statistics = learner.model.statistics
    totals = {
        name: dict(zip(statistics.classes, statistics.counts.totals[group].tolist(), strict=False))
        for (_, name), group in statistics.layout.groups.items()
    }
    return {
        "events": statistics.events,
        "classes": learner.model.class_weights,
        "words": {name: statistics.class_counts(name) for name in totals},
        "totals": totals,
    }


def moments(learner):
    """(attribute, class) -> weight, mean, variance."""
    model = learner.model
    return {
        (name, label): tuple(moment)
        for name in model.statistics.layout.fields
        for label, moment in model.class_moments(name).items()
    }


def recount(raws):
    """Classes and words of the texts, by the standard library alone."""
    classes, texts = Counter(), {}
    for event in map(json.loads, raws):
        if event["label"] is not None:
            classes[event["label"]] += 1
            for word in words(event["text"]):
                texts.setdefault(word, Counter())[event["label"]] += 1
    return classes, texts


def check_learned_once(site, raws):
    """Every event predicted once and learned once, nothing refused, and all of it in journal and snapshot."""
    assert Counter(site.predicted()) == Counter(json.loads(raw)["id"] for raw in raws)
    assert site.read("dead_letters") == []
    last = json.loads(site.read("metrics")[-1].value())
    labelled = sum(json.loads(raw)["label"] is not None for raw in raws)
    assert (last["events"], last["learned"], last["dead_letters"]) == (len(raws), labelled, 0)
    learner, alone = site.replayed(), site.alone(raws)
    assert counts(learner) == counts(alone)
    assert moments(learner) == {
        cell: pytest.approx(values, rel=1e-9) for cell, values in moments(alone).items()
    }  # in another order the sums are rounded otherwise
    classes, texts = recount(raws)
    assert counts(learner)["classes"] == classes
    assert counts(learner)["words"]["text"] == texts
    assert part_digest(*site.snapshot().parts["model"]) == model_digest(learner)
    return learner


# -- the stories ------------------------------------------------------------------------------------------


def test_sms_messages(streams, make_site):
    """A real stream through three partitions, with a stop midway: as many predictions as messages."""
    file = streams / "sms_spam.jsonl.gz"
    raws = gzip.decompress(file.read_bytes()).splitlines()
    assert sum(not words(json.loads(raw)["text"]) for raw in raws) == 2
    site = make_site()
    first = site.run()
    until(first.is_ready, first)
    replay = site.start("replay", file, "--rate", 1000)
    until(lambda: site.published() > 500, first, replay)
    first.stop()
    assert replay.is_going(), "it was to be stopped midway"
    replay.finish()
    assert group_offsets(site) == site.positions()
    assert sum(site.ends().values()) - sum(site.positions().values()) == len(raws) - len(site.predicted()) > 0

    second = site.run()
    places = set(site.ends())
    assert len(places) == 3
    until(lambda: second.lag() == dict.fromkeys(places, 0), second)
    second.stop()
    assert group_offsets(site) == site.positions() == site.ends()
    learner = check_learned_once(site, raws)
    assert len(site.predicted()) == 5574
    evaluated = site.answer("evaluate", file)
    assert evaluated["model_digest"] == model_digest(site.alone(raws))  # so counts are those of `evaluate`
    assert site.answer("inspect")["digest"] == model_digest(learner)


def test_every_watcher_sees_the_same_lag(make_site):
    """The learner meets a stranger's open transaction in two of three partitions: there it must wait."""
    site = make_site()
    (topic,) = site.inputs
    raws, strange = raw_events(390), raw_events(15, seed=1)
    site.replay(raws[:300])
    stranger = Producer(
        {"bootstrap.servers": site.address, "transactional.id": site.name, "transaction.timeout.ms": 600_000}
    )
    stranger.init_transactions(PATIENCE)
    stranger.begin_transaction()
    held = {place: at for place, at in site.ends().items() if place[1] != 2}
    for i, raw in enumerate(strange):
        stranger.produce(topic, raw, partition=i % 2)
    assert stranger.flush(PATIENCE) == 0
    site.replay(raws[300:350])
    ends = site.ends()
    stands = ends | held

    run = site.run()
    until(lambda: run.lag() == {place: ends[place] - stands[place] for place in ends}, run)
    assert {place for place, lag in run.lag().items() if lag} == set(held)
    until(lambda: site.positions() == stands, run)
    assert group_offsets(site) == stands

    stranger.abort_transaction(PATIENCE)
    until(
        lambda: run.lag() == dict.fromkeys(ends, 0), run
    )  # its marker, where there is nothing behind it, is no record
    site.replay(raws[350:])
    until(lambda: site.positions() == site.ends(), run)
    assert group_offsets(site) == site.ends()
    until(lambda: run.lag() == dict.fromkeys(ends, 0), run)
    assert run.samples("streamnb_events_consumed_total") == {(): len(raws)}
    run.stop()
    check_learned_once(site, raws)


def test_kafkas_tools_show_the_group(make_site):
    site = make_site(partitions=1)
    site.replay(raw_events(20))
    run = site.run()
    until(lambda: len(site.predicted()) == 20, run)
    listed = {group["group_id"]: group for group in console(site.address, "groups", "list")}
    assert (listed[site.group]["group_state"], listed[site.group]["protocol_type"]) == ("Stable", "consumer")
    described = console(site.address, "groups", "describe", "-g", site.group)[site.group]
    (member,) = described["members"]
    assert member["client_id"].endswith(f":{run.process.pid}")
    assert member["member_assignment"]["assigned_partitions"] == [
        {"topic": site.topics["journal"], "partitions": [0]}
    ]
    admin = AdminClient({"bootstrap.servers": site.address})
    (asked,) = admin.describe_consumer_groups([site.group]).values()
    found = asked.result(PATIENCE)
    assert (found.group_id, found.state.name, len(found.members)) == (site.group, "STABLE", 1)
    assert site.group in {g.group_id for g in admin.list_consumer_groups().result(PATIENCE).valid}
    assert group_offsets(site) == site.positions() == site.ends()
    run.stop()
    (asked,) = admin.describe_consumer_groups([site.group]).values()
    assert (asked.result(PATIENCE).state.name, group_offsets(site)) == ("EMPTY", site.ends())


# -- what is refused --------------------------------------------------------------------------------------


def as_long_as(size, **fields):
    """An event of exactly so many bytes, as JSON."""
    short = json.dumps({**fields, "more": ""}, separators=(",", ":")).encode()
    return short[:-2] + b"x" * (size - len(short)) + short[-2:]


MOST = EventSchema().max_bytes
GOOD = [*raw_events(200, seed=3), as_long_as(MOST, id="large", text="a b", label="a")]
REFUSED = [
    *((case.raw, case.reason, case.path) for case in MALFORMED),
    (as_long_as(MOST + 1, id="m"), "oversize", "$"),
    (as_long_as(MOST + HEADER_BYTES - 300, id="m"), "oversize", "$"),  # all that the topic takes
    (as_long_as(MOST, id=""), "out-of-range", "$.id"),
    (None, "invalid-json", "$"),
]
KEYS = [b"key-%d", None, b"", b"\xff%d", b"k" * 5000]
OWN_HEADERS = [
    None,
    [("trace", b"%d"), ("trace", b"again"), ("reason", b"none of yours")],
    [("null", None), ("empty", b""), ("bytes", b"\x00\xff"), ("näm e", "wört".encode())],
]


@pytest.fixture(scope="module")
def refusing(broker, tmp_path_factory):
    """A site that has read good and malformed events, mixed, and (partition, offset) -> what was refused."""
    site = Site(broker.address, tmp_path_factory.mktemp("refusing"))
    sent = [(json.loads(raw)["id"].encode(), raw, None) for raw in GOOD]
    for i, (raw, _, _) in enumerate(REFUSED):
        key, own = KEYS[i % len(KEYS)], OWN_HEADERS[i % len(OWN_HEADERS)]
        sent.append((key and key.replace(b"%d", b"%d" % i), raw, own))
    wanted = dict(zip(range(len(GOOD), len(sent)), REFUSED, strict=True))
    order = random.Random(5).sample(range(len(sent)), len(sent))
    places = produce(site.address, site.inputs[0], [sent[i] for i in order])
    site.answer("run", "--until-end", "--set", "http.listen=")
    yield (
        site,
        {place: (*sent[i], *wanted[i][1:]) for i, place in zip(order, places, strict=True) if i in wanted},
    )
    site.close()


def test_what_is_refused_is_kept_whole(refusing):
    """Bytes, key and own headers, with the reason and the place, of every record; the others are predicted."""
    site, refused = refusing
    assert len(refused) == len(MALFORMED) + 4 >= 158
    found, letters = {}, site.read("dead_letters")
    for letter in letters:
        headers = letter.headers()
        named = dict(headers[:5])
        assert named["topic"] == site.inputs[0].encode()
        found[int(named["partition"]), int(named["offset"])] = letter.key(), letter.value(), headers
    assert len(letters) == len(refused)
    assert found == {place: dead_letter(site, place, *case) for place, case in refused.items()}
    assert Counter(site.predicted()) == Counter(json.loads(raw)["id"] for raw in GOOD)
    last = json.loads(site.read("metrics")[-1].value())
    assert (last["events"], last["dead_letters"]) == (len(GOOD) + len(REFUSED), len(REFUSED))
    assert part_digest(*site.snapshot().parts["model"]) == model_digest(site.replayed())
    assert counts(site.replayed()) == counts(site.alone(GOOD))


def dead_letter(site, place, key, raw, own, reason, path):
    """Key, value and headers that a refused record becomes."""
    raw = raw or b""
    told = {
        "reason": reason,
        "path": path,
        "topic": site.inputs[0],
        "partition": place[0],
        "offset": place[1],
    }
    headers = [(name, str(value).encode()) for name, value in told.items()]
    if kept(raw) != raw:
        headers.append(("truncated", b"%d" % len(raw)))
    return key, kept(raw), headers + [(f"original.{name}", value or b"") for name, value in own or ()]


@pytest.mark.parametrize("role", ["predictions", "metrics", "journal"])
def test_strangers_parse_what_is_published(refusing, role):
    site, _ = refusing
    messages = site.read(role)
    assert messages
    for message in messages:
        value = json.loads(
            message.value(), parse_constant=pytest.fail
        )  # which is called for NaN and infinities
        assert message.headers() is None
        if role == "predictions":
            assert message.key() == value["id"].encode()
        elif role == "metrics":
            assert message.key() == site.name.encode() == value["model"]["name"].encode()


@pytest.mark.parametrize("role", ["predictions", "metrics", "dead_letters", "journal"])
def test_kcat_reads_what_is_published(refusing, role):
    """What librdkafka of another version prints is what ours has read."""
    if shutil.which("kcat") is None:
        assert os.environ.get("CI") != "true", "kcat is missing"
        pytest.skip("kcat is not installed (Debian package kcat)")
    site, _ = refusing
    command = ["kcat", "-C", "-q", "-e", "-b", site.address, "-t", site.topics[role], "-o", "beginning",
               "-X", "isolation.level=read_committed", "-f", r"%p %o %K %S\n%h\n%k%s\n"]  # fmt: skip
    printed = subprocess.run(command, capture_output=True, check=True).stdout
    expected = [shown_by_kcat(message) for message in site.read(role)]
    assert len(printed) == sum(map(len, expected))
    assert all(message in printed for message in expected)


def shown_by_kcat(message):
    key, value, headers = message.key(), message.value(), message.headers() or ()
    sizes = -1 if key is None else len(key), len(value)
    first = "{} {} {} {}".format(message.partition(), message.offset(), *sizes).encode()
    # It ends a header at a zero byte.
    named = b",".join(name.encode() + b"=" + content.split(b"\0")[0] for name, content in headers)
    return first + b"\n" + named + b"\n" + (key or b"") + value + b"\n"


# -- what may go wrong ------------------------------------------------------------------------------------


def kill_within_a_commit(site, run, role):
    """SIGKILL while records of a topic lie there that are not committed; whether they never will be.

    It stands still while it is looked at: commits last less long than looking does.
    """
    topics = [site.topics[role]]

    def is_half_done():
        written, committed = site.ends(topics, UNCOMMITTED), site.ends(topics, COMMITTED)
        return any(written[place] > committed[place] for place in written)

    def stands_half_done():
        run.process.send_signal(signal.SIGSTOP)
        if not (met := is_half_done()):
            run.process.send_signal(signal.SIGCONT)
        return met

    until(lambda: not is_half_done(), run)  # what the one before left is taken back
    until(stands_half_done, run)
    run.kill()
    with closing(KafkaAdminClient(bootstrap_servers=site.address)) as admin:
        return admin.describe_transactions([site.group])[site.group].state.value == "Ongoing"


@pytest.mark.storm_for("librdkafka")
@pytest.mark.thorough
@pytest.mark.parametrize("client", ["kafka-python", "librdkafka"])
def test_kill_9_within_commits(make_site, client):
    """Killed in three commits: no event is lost, none is learned or shown twice."""
    raws = raw_events(9000, seed=7)  # of whose commits three have to be met while they last
    site = make_site(commit=50, client=client)
    site.replay(raws)
    for role in ("predictions", "journal", "journal"):
        while not kill_within_a_commit(site, site.run(), role):
            pass  # the commit got through in the moment of the kill
    assert len(site.predicted()) < len(raws), "the kills came too late to test anything"
    site.answer("run", "--until-end")
    published = [json.loads(m.value())["id"] for m in site.read("predictions", "read_uncommitted")]
    assert len(published) > len(set(published)) == len(raws), "nothing was left half done"
    check_learned_once(site, raws)


def test_a_standby_takes_over(make_site):
    site = make_site(partitions=1)
    raws = raw_events(1500, seed=9)
    first = site.run()
    until(first.is_ready, first)
    second = site.run()
    until(lambda: "standing by: " in second.said(), first, second)
    assert (first.get("/live")[0], second.get("/live")[0]) == (200, 200)
    assert (first.is_ready(), second.is_ready()) == (True, False)
    assert json.loads(second.get("/ready")[1])["state"] == "standby"
    file = site.folder / "events.jsonl"
    file.write_bytes(b"\n".join(raws))
    replay = site.start("replay", file, "--rate", 300)
    until(lambda: site.published() > 100, first, second, replay)
    assert not second.is_ready()
    first.kill()
    with pytest.raises(URLError):
        first.get("/live")
    assert replay.is_going(), "it was to be killed midway"
    until(second.is_ready, second)
    assert second.samples("streamnb_state")["running",] == 1
    replay.finish()
    until(lambda: len(site.predicted()) == len(raws), second)
    second.stop()
    check_learned_once(site, raws)


@pytest.mark.storm_for("librdkafka")
@pytest.mark.parametrize("client", ["kafka-python", "librdkafka"])
def test_two_topics_and_partitions_added_meanwhile(make_site, client):
    site = make_site(partitions=1, inputs=("one", "two"), client=client)
    one, two = site.inputs
    raws = raw_events(400, seed=13)
    site.replay(raws[:100], "--topic", one)
    site.replay(raws[100:200], "--topic", two)
    run = site.run()
    until(lambda: len(site.predicted()) == 200, run)
    assert site.positions() == {(one, 0): 100, (two, 0): 100}
    site.add_partitions(two, 3)
    site.replay(raws[200:300], "--topic", two)
    assert all(end for end in site.ends().values()), "some events lie in the new partitions"
    until(lambda: len(site.predicted()) == 300, run)
    site.replay(raws[300:], "--topic", one)
    until(lambda: len(site.predicted()) == 400, run)
    places = {(one, 0), (two, 0), (two, 1), (two, 2)}
    until(lambda: run.lag() == dict.fromkeys(places, 0), run)
    run.stop()
    assert set(site.positions()) == places
    assert group_offsets(site) == site.positions() == site.ends()
    check_learned_once(site, raws)
