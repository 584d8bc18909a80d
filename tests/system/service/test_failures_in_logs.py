"""Failures as an operator meets them: the log as JSON has level, event, code and cause, and the next command runs."""

from __future__ import annotations

import json
import shlex
import shutil
import signal
import socket
import sqlite3
from contextlib import closing

import pytest
from confluent_kafka import Consumer, Producer
from kafka import KafkaAdminClient

from streamnb import config as configuration
from streamnb.cli.parser import build_parser
from streamnb.engine.ports import NewRecord, Partition
from streamnb.event_logs.sqlite.sqlite_store import OFFSET_BITS
from streamnb.runtime import context
from streamnb.runtime.next_commands import commands_in
from streamnb.values.message_names import MESSAGES
from tests.brokers.tool import run_tool
from tests.support.program import Program, until
from tests.support.topics_of_logs import delete_topic, trim

pytestmark = pytest.mark.thorough

HANGS = """
import time
from streamnb.event_logs.sqlite.sqlite_log import SqliteLog
SqliteLog.poll = lambda *_: time.sleep(600)
"""
FAILS = """
from streamnb.engine.processing.event_processor import EventProcessor
def process(*_):
    raise ZeroDivisionError("odd")
EventProcessor.process = process
"""
DISK_IS_FULL = """
from concurrent.futures import Future
from streamnb.errors import SnapshotError
from streamnb.persistence.snapshot_folder import SnapshotFolder
def save_aside(*_, **__):
    future = Future()
    future.set_exception(SnapshotError("the disk is full"))
    return future
SnapshotFolder.save_aside = save_aside
"""

DISK_HAS_64_KB = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (65536, 65536))"


class Site:
    """A program whose learner knows some events, and what befalls it."""

    def __init__(self, folder, address):
        self.folder, self.n, self.is_kafka = folder, 0, "://" not in address
        self.address = address
        self.program = Program(
            folder,
            address,
            model_keys={"kind": "naive_bayes"},
            topics={"partitions": 1},
            commit={"events": 5},
            snapshots={"folder": str(folder / "snapshots"), "every_events": 10},
            log={"session_timeout": "6s", "hang_timeout": "9s"},
            kafka={"give_up_after": "3s"},
            log_output={"format": "json", "content": False},
        )
        self.config = configuration.load(self.program.file, {}, [])

    def log(self):
        return closing(context.existing_log(self.config))

    def feed(self, n=20):
        with self.log() as log:
            log.append([self.event(self.n + i) for i in range(n)])
        self.n += n

    def event(self, i):
        made = {"id": f"e{i}", "text": ("win cash", "lunch at noon")[i % 2], "label": "ab"[i % 2]}
        return NewRecord(self.program.topics["events"], None, json.dumps(made).encode())

    def learn(self, n=20):
        self.feed(n)
        self.program.start("run", "--until-end").output()

    def journalled(self):
        self.program.run("topics", "create")
        self.learn()

    def recreated(self, name):
        """Delete a topic of a stream that was learned, and create it anew."""
        self.journalled()
        with self.log() as log:
            delete_topic(log, self.program.topics[name])
        self.program.run("topics", "create")

    def run(self, *more, **options):
        return self.program.start("run", "--until-end", *more, **options).finish()

    def learner(self, *more, **options):
        """Return a learner that runs."""
        begun = self.program.start("run", *more, **options)
        until(lambda: "learner-recovered" in begun.said() or not begun.is_going(), begun.said)
        return begun

    def write_foreign(self):
        with self.log() as log, log._store.transaction("IMMEDIATE"):
            log._store.insert([NewRecord(self.program.topics["journal"], None, b"foreign")], 0.0)

    def journal_record(self, n):
        """Return the place of a journal record in the file, and the record."""
        with self.log() as log:
            journal = Partition(self.program.topics["journal"], 0)
            place = log._store.offset_range(journal).partition_id << OFFSET_BITS | n
            return place, log.read(journal, n, 1)[0].value

    def snapshots(self):
        return sorted((self.folder / "snapshots").glob("snapshot-*.snb"))


def topics_missing(site):
    yield site.program.start("run", "--until-end").finish(), "UnknownTopic", "streamnb topics create"


def wrong_key(site):
    yield site.run("--set", "model.alfa=1"), "ConfigError", "streamnb config lint"


def wrong_file(site):
    site.program.file.write_text(site.program.file.read_text().replace("[model]", "[model", 1))
    yield site.run("--log-format", "json"), "TOMLDecodeError", "streamnb config lint"


def port_taken(site):
    site.journalled()
    with closing(socket.socket()) as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        address = "{}:{}".format(*taken.getsockname())
        learner = site.program.start("run", "--set", f"http.listen={address}").finish()
    yield learner, "AddressTaken|OSError", "streamnb "


def configuration_refused(site):
    site.journalled()
    yield site.run("--set", "events.label=$.subject"), "OtherStream", "streamnb "


def another_model(site):
    site.journalled()
    yield site.run("--set", "model.name=another"), "OtherStream|JournalError|LogError", "streamnb "


def journal_deleted(site):
    site.recreated("journal")
    yield site.run(), "JournalError", "streamnb "


def foreign_record_at_the_end(site):
    site.journalled()
    site.write_foreign()
    yield site.run(), "JournalError", "streamnb journal skip"


def events_trimmed(site):
    site.journalled()
    site.feed(20)
    with site.log() as log:
        trim(log, Partition(site.program.topics["events"], 0), 30)
    yield site.run(), "JournalError", "streamnb run --accept-loss"


def replay_without_events(site):
    """The snapshots are those of the first half: a learner may have removed them, if it wrote enough later ones."""
    site.journalled()
    shutil.copytree(site.folder / "snapshots", site.folder / "kept")
    site.learn()
    shutil.rmtree(site.folder / "snapshots")
    (site.folder / "kept").rename(site.folder / "snapshots")
    with site.log() as log:
        trim(log, Partition(site.program.topics["events"], 0), 30)
    yield site.run(), "JournalError|OutOfRange", "streamnb snapshot rollback"


def events_recreated(site):
    site.recreated("events")
    yield site.run(), "JournalError", "streamnb run --accept-loss"


def every_snapshot_damaged(site):
    site.journalled()
    for file in site.snapshots():
        file.write_bytes(file.read_bytes()[:-40])
    yield site.run(), "SnapshotError", "streamnb "


def snapshot_of_another_journal(site):
    site.journalled()
    (site.folder / "other").mkdir()
    other = Program(site.folder / "other", f"sqlite:///{site.folder}/other.db", model_keys={"kind": "naive_bayes"},
                    topics={"partitions": 1}, snapshots={"folder": str(site.folder / "others")})  # fmt: skip
    other.run("topics", "create")
    with closing(context.existing_log(configuration.load(other.file, {}, []))) as log:
        events = [json.dumps({"id": f"o{i}", "text": "noon", "label": "a"}).encode() for i in range(9)]
        log.append([NewRecord(other.topics["events"], None, event) for event in events])
    other.start("run", "--until-end").output()
    (own,) = site.snapshots()[-1:]
    (theirs,) = sorted((site.folder / "others").glob("snapshot-*.snb"))[-1:]
    for file in site.snapshots():
        file.unlink()
    segments = site.folder / "others" / "segments"
    if segments.is_dir():
        shutil.copytree(segments, site.folder / "snapshots" / "segments", dirs_exist_ok=True)
    shutil.copy(theirs, own.with_name(theirs.name))
    yield site.run(), "JournalError", "streamnb "


def disk_full(site):
    """As a limit of the size of a file, which SQLite meets as it meets a full disk."""
    site.journalled()
    site.feed(200)
    yield site.run(first=DISK_HAS_64_KB), "OperationalError", "streamnb doctor"


def journal_record_altered(site):
    site.journalled()
    place, value = site.journal_record(3)
    altered = value.replace(b'"count":5', b'"count":4')
    assert altered != value
    with site.log() as log, log._store.transaction("IMMEDIATE"):
        log._store.db.execute("UPDATE records SET value = ? WHERE place = ?", (altered, place))
    shutil.rmtree(site.folder / "snapshots")
    yield site.run(), "JournalError", "streamnb "


def journal_record_duplicated(site):
    site.journalled()
    _, value = site.journal_record(3)
    with site.log() as log, log._store.transaction("IMMEDIATE"):
        log._store.insert([NewRecord(site.program.topics["journal"], None, value)], 0.0)
    yield site.run(), "JournalError", "streamnb journal skip"
    assert site.run().process.returncode == 0


def journal_emptied(site):
    site.journalled()
    with site.log() as log:
        journal = Partition(site.program.topics["journal"], 0)
        trim(log, journal, log.offsets(journal)[1])
    yield site.run(), "JournalError", "streamnb doctor"


def election_lost(site):
    """A command that needs to be the learner, while another process is."""
    site.journalled()
    n = site.program.read("journal")[-2]["n"]
    learner = site.learner()
    flags = "--to", str(n), "--without-return"
    yield site.program.start("snapshot", "rollback", *flags).finish(), "NotElected", "streamnb doctor"
    learner.stop()


def unexpected_error(site):
    site.journalled()
    site.feed()
    yield site.run(first=FAILS), "ZeroDivisionError", "streamnb "


def learner_frozen(site):
    site.journalled()
    first = site.learner()
    first.process.send_signal(signal.SIGSTOP)
    second = site.learner()
    site.feed()
    until(lambda: site.n == len(site.program.read("predictions")), second.said)
    first.process.send_signal(signal.SIGCONT)
    first.finish()
    second.stop()
    yield first, "Fenced|NotElected|LogError", "streamnb doctor"


def log_unreachable(site):
    """The embedded log is locked; the broker is at another address."""
    site.journalled()
    if site.is_kafka:
        yield site.run("--set", "log.url=kafka://127.0.0.1:9"), "Unavailable", "streamnb doctor"
        return
    db = sqlite3.connect(site.folder / "log.db", isolation_level=None)
    db.execute("BEGIN EXCLUSIVE")
    try:
        learner = site.run()
    finally:
        db.close()
    yield learner, "Unavailable|OperationalError", "streamnb doctor"


def log_deleted_under_a_learner(site):
    site.journalled()
    learner = site.learner()
    moved = (site.folder / "log.db").rename(site.folder / "moved.db")
    yield learner.finish(), "LogError", "streamnb doctor"
    moved.rename(site.folder / "log.db")


def journal_deleted_under_a_learner(site):
    site.journalled()
    learner = site.learner()
    with site.log() as log:
        delete_topic(log, site.program.topics["journal"])
    site.feed()
    yield learner.finish(), "JournalError|UnknownTopic|LogError", "streamnb doctor"


def output_topic_deleted_under_a_learner(site):
    site.journalled()
    learner = site.learner()
    with closing(KafkaAdminClient(bootstrap_servers=site.address)) as admin:
        admin.delete_topics([site.program.topics["predictions"]])
    site.feed()
    yield learner.finish(), "UnknownTopic|LogError", "streamnb topics create"


def stranger_in_the_group(site):
    site.program.run("topics", "create")
    settings = {"bootstrap.servers": site.address, "group.id": f"streamnb.{site.program.model}", "client.id": "nosy",
                "partition.assignment.strategy": "range"}  # fmt: skip
    consumer = Consumer(settings)
    consumer.subscribe([site.program.topics["events"]])
    until(lambda: consumer.poll(0.1) or consumer.assignment())
    learner = site.program.start("run", "--until-end")
    until(lambda: consumer.poll(0.1) or not learner.is_going())
    consumer.close()
    yield learner.finish(), "LogError|InconsistentGroupProtocolError", "streamnb doctor"


def clock_jumped(site):
    site.program.run("topics", "create")
    run_tool(
        f"kafka-configs.sh --bootstrap-server {site.address} --alter --entity-type topics --entity-name "
        f"{site.program.topics['predictions']} --add-config message.timestamp.before.max.ms=1"
    )
    site.feed()
    yield site.run(), "LogError|InvalidTimestamp|KafkaException", "streamnb doctor"


def call_hangs(site):
    site.journalled()
    site.feed()
    yield (
        "call-hangs",
        site.run(first=HANGS),
        {"code": 1, "cause": "no heartbeat", "command": "streamnb doctor"},
    )


def one_snapshot_damaged(site):
    site.journalled()
    site.learn()
    last = site.snapshots()[-1]
    last.write_bytes(last.read_bytes()[:-40])
    yield "snapshot-damaged", site.run(), {"file": str(last)}


def snapshot_not_kept(site):
    site.journalled()
    site.feed()
    yield "snapshot-not-kept", site.run(first=DISK_IS_FULL), {"reason": "the disk is full"}


def foreign_record(site):
    site.program.run("topics", "create")
    site.write_foreign()
    site.learn()
    shutil.rmtree(site.folder / "snapshots")
    yield "foreign-record", site.run(), {"offset": 0, "reason": "7 bytes that are not a journal record"}


def log_locked_for_a_while(site):
    site.journalled()
    db = sqlite3.connect(site.folder / "log.db", isolation_level=None)
    db.execute("BEGIN EXCLUSIVE")
    learner = site.program.start("run", "--until-end", "--set", "kafka.give_up_after=60s")
    until(lambda: "log-unreachable" in learner.said(), learner.said)
    db.close()
    learner.finish()
    assert "log-reachable" in learner.said()
    yield "log-unreachable", learner, {}


def journal_trimmed_under_a_learner(site):
    site.journalled()
    learner = site.learner(first="from streamnb.runtime import worker; worker._PARTITION_SECONDS = 0.3")
    with site.log() as log:
        journal = Partition(site.program.topics["journal"], 0)
        trim(log, journal, log.offsets(journal)[1])
    site.feed()
    until(lambda: "journal-trimmed" in learner.said() or not learner.is_going(), learner.said)
    learner.stop()
    yield "journal-trimmed", learner, {}


def broker_frozen_for_a_while(site):
    site.journalled()
    learner = site.learner("--set", "kafka.give_up_after=60s", "--set", "log.hang_timeout=0s")
    site.nodes[0].pause()
    until(lambda: "log-unreachable" in learner.said() or not learner.is_going(), learner.said)
    site.nodes[0].resume()
    until(lambda: "log-reachable" in learner.said() or not learner.is_going(), learner.said)
    learner.stop()
    yield "log-unreachable", learner, {}


def loss_accepted(site):
    site.journalled()
    site.feed(20)
    with site.log() as log:
        trim(log, Partition(site.program.topics["events"], 0), 30)
    yield "loss-accepted", site.run("--accept-loss"), {}


def standby_not_ready(site):
    site.journalled()
    learner = site.learner()
    with site.log() as log:
        trim(log, Partition(site.program.topics["events"], 0), 20)
    standby = site.program.start("run", "--set", "snapshots.folder=empty")
    until(lambda: "standby-not-ready" in standby.said(), standby.said)
    learner.stop()
    standby.kill()
    yield "standby-not-ready", standby, {"folder": "empty"}


def reload_refused(site):
    site.journalled()
    learner = site.learner()
    site.program.file.write_text(
        site.program.file.read_text().replace('listen = ""', 'listen = "127.0.0.1:1"')
    )
    learner.process.send_signal(signal.SIGHUP)
    until(lambda: "reload-refused" in learner.said(), learner.said)
    learner.stop()
    (found,) = [one for one in lines_of(learner) if one["event"] == "reload-refused"]
    assert "http.listen" in found["message"]
    site.program.file.write_text(site.program.file.read_text().replace('"127.0.0.1:1"', '""'))
    yield "reload-refused", learner, {"keys": ["http.listen"]}


def metrics_not_served(site):
    site.journalled()
    with closing(socket.socket()) as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        learner = site.run("--set", "http.listen={}:{}".format(*taken.getsockname()))
    yield "metrics-not-served", learner, {}


def mirror_unreachable(site):
    """A folder that was mounted is gone."""
    site.journalled()
    mirror = site.folder / "mirror"
    learner = site.learner("--set", f"snapshots.mirror=file://{mirror}")
    shutil.rmtree(mirror)
    mirror.write_text("")
    site.feed()
    until(lambda: "snapshot-mirror-fails" in learner.said() or not learner.is_going(), learner.said)
    assert learner.stop().process.returncode == 0
    yield "snapshot-mirror-fails", learner, {}


def memory_nearly_full(site):
    site.program.run("topics", "create")
    words = [" ".join(f"w{i}x{j}" for j in range(400)) for i in range(60)]
    events = [
        json.dumps({"id": f"e{i}", "text": text, "label": "a"}).encode() for i, text in enumerate(words)
    ]
    with site.log() as log:
        log.append([NewRecord(site.program.topics["events"], None, event) for event in events])
    learner = site.program.start("run", "--set", "memory.budget=1MB")
    until(lambda: "memory-nearly-full" in learner.said() or not learner.is_going(), learner.said)
    learner.stop()
    yield "memory-nearly-full", learner, {"part": "words"}


def stream_stopped(site):
    site.program.file.write_text(
        site.program.file.read_text() + '[[monitors]]\nname = "quiet"\nkind = "no-events"\nafter = "1s"\n'
    )
    site.config = configuration.load(site.program.file, {}, [])
    site.journalled()
    learner = site.learner()
    until(lambda: "monitor-alert" in learner.said() or not learner.is_going(), learner.said)
    learner.stop()
    yield "monitor-alert", learner, {"monitor": "quiet", "kind": "no-events", "state": "raised", "count": 1}


def transaction_left_open(site):
    site.journalled()
    producer = Producer({"bootstrap.servers": site.address, "transactional.id": f"open-{site.program.model}"})
    producer.init_transactions()
    producer.begin_transaction()
    event = site.event(site.n)
    producer.produce(event.topic, event.value)
    producer.flush()
    learner = site.learner()
    until(lambda: "records-held-up" in learner.said(), learner.said)
    producer.abort_transaction()
    learner.stop()
    yield "records-held-up", learner, {}


ENDS = [
    wrong_key, wrong_file, port_taken, configuration_refused, another_model, journal_deleted,
    foreign_record_at_the_end, events_trimmed, replay_without_events, events_recreated, every_snapshot_damaged,
    snapshot_of_another_journal, unexpected_error, learner_frozen, log_unreachable, log_deleted_under_a_learner,
    journal_deleted_under_a_learner, disk_full, journal_record_altered, journal_record_duplicated, journal_emptied,
    election_lost,
]  # fmt: skip
ON_KAFKA = [
    topics_missing, learner_frozen, log_unreachable, output_topic_deleted_under_a_learner, stranger_in_the_group,
    clock_jumped,
]  # fmt: skip
CONTINUES = [
    call_hangs, one_snapshot_damaged, snapshot_not_kept, foreign_record, log_locked_for_a_while, loss_accepted,
    standby_not_ready, reload_refused, journal_trimmed_under_a_learner, metrics_not_served, mirror_unreachable,
    memory_nearly_full, stream_stopped,
]  # fmt: skip


def lines_of(command):
    """Return the messages of a process, each a line of JSON; those of a hang too."""
    return [json.loads(line) for line in command.said().splitlines()]


def runs(site, line):
    """Run a printed command as it is printed; only `config lint` finds the configuration wrong."""
    if not line.startswith("streamnb "):
        run_tool(line)
        return
    _, *arguments = shlex.split(line)
    if "--help" not in arguments:
        build_parser().parse_args(arguments)
    ends = ["--until-end"] if arguments[0] == "run" else []
    ran = site.program._begin(
        [*arguments, *ends], cwd=site.folder, out=site.folder / "out", err=site.folder / "err"
    )
    code = ran.wait(120)
    said = (site.folder / "err").read_text()
    assert code in ({0, 1, 2} if arguments[0] == "config" else {0, 1}), f"{line}: {said}"


@pytest.fixture
def on_sqlite(tmp_path):
    made = Site(tmp_path, f"sqlite:///{tmp_path / 'log.db'}")
    yield made
    made.program.close()


@pytest.fixture
def on_kafka(tmp_path, broker):
    made = Site(tmp_path, broker.address)
    yield made
    made.program.close()


def failed_as_it_says(site, failure):
    """The last line of the log is the error, with everything that an operator searches for."""
    for command, causes, following in failure(site):
        found = lines_of(command)[-1]
        assert (found["event"], found["level"]) == ("command-failed", "error"), found
        assert found["code"] == command.process.returncode in {1, 2}, found
        assert found["cause"].partition(":")[0] in causes.split("|"), found["cause"]
        assert found["command"].replace(f" --config {site.program.file}", "").startswith(following), found
        runs(site, found["command"])


@pytest.mark.parametrize("failure", ENDS, ids=lambda failure: failure.__name__)
def test_a_failure_that_ends_a_learner_is_an_error_with_code_cause_and_command(on_sqlite, failure):
    failed_as_it_says(on_sqlite, failure)


@pytest.mark.broker
@pytest.mark.parametrize("failure", ON_KAFKA, ids=lambda failure: failure.__name__)
def test_a_failure_on_kafka_is_an_error_with_code_cause_and_command(on_kafka, failure):
    failed_as_it_says(on_kafka, failure)


def warned_as_it_says(site, failure):
    for event, command, fields in failure(site):
        found = next(one for one in lines_of(command) if one["event"] == event)
        assert found["level"] == MESSAGES[event], found
        assert {name: found.get(name) for name in fields} == fields
        for line in {*commands_in(found["message"]), *filter(None, [found.get("command")])}:
            runs(site, line)


@pytest.mark.parametrize("failure", CONTINUES, ids=lambda failure: failure.__name__)
def test_a_failure_that_is_survived_or_watched_has_its_message(on_sqlite, failure):
    warned_as_it_says(on_sqlite, failure)


def test_a_broker_that_is_frozen_for_a_while_is_a_warning(tmp_path, lone_broker):
    site = Site(tmp_path, lone_broker.address)
    site.nodes = lone_broker.nodes
    try:
        warned_as_it_says(site, broker_frozen_for_a_while)
    finally:
        site.program.close()


@pytest.mark.broker
def test_an_open_transaction_is_a_warning(on_kafka):
    warned_as_it_says(on_kafka, transaction_left_open)
