"""A learner that stands by: it follows the active one, and takes over whatever the log still has."""

from __future__ import annotations

import json
import random
import re
import shutil
import socket
import time
from collections import Counter
from contextlib import ExitStack, closing, suppress
from typing import NamedTuple
from urllib.request import urlopen

import pytest
from kafka import KafkaAdminClient, TopicPartition

from streamnb import config as configuration
from streamnb.engine.ports import NewRecord
from streamnb.persistence.snapshot_folder import SnapshotFolder
from streamnb.persistence.snapshot_mirror import SnapshotMirror
from streamnb.runtime import context, factories
from tests.support.program import Command, Program, until
from tests.support.prometheus import Prometheus
from tests.support.topics_of_logs import trim

WORDS = [f"w{i}" for i in range(60)]


def program_on(folder, address):
    made = Program(
        folder,
        address,
        model_keys={"kind": "naive_bayes"},
        topics={"labels": f"labels-{folder.name}"} | ({"partitions": 1} if "://" in address else {}),
        snapshots={"every_events": 40},
        commit={"events": 7},
        log={"session_timeout": "6s"},
    )
    made.run("topics", "create")
    return made


@pytest.fixture(params=["sqlite", pytest.param("kafka", marks=pytest.mark.broker)])
def program(request, tmp_path):
    is_kafka = request.param == "kafka"
    address = request.getfixturevalue("broker").address if is_kafka else f"sqlite:///{tmp_path / 'log.db'}"
    with closing(program_on(tmp_path, address)) as made:
        yield made


class Pair:
    """Two learners of one model, each with a snapshot folder of its own, and what they were sent."""

    def __init__(self, program):
        self.program, self.rng, self.n = program, random.Random(8), 0
        self.sent, self.started = [], []
        self.config = configuration.load(program.file, {}, [])

    def start(self, name, *sets):
        folder = self.program.folder / name
        flags = [word for key in (f"snapshots.folder={folder}", *sets) for word in ("--set", key)]
        self.started.append(self.program.start("run", *flags))
        return self.started[-1]

    def send(self, n):
        """Send events without labels, and then their labels."""
        events, labels = [], []
        for _ in range(n):
            label, words = self.rng.choice("ab"), self.rng.choices(WORDS, k=4)
            self.sent.append((" ".join(words), label))
            events.append({"id": f"e{self.n}", "text": " ".join(words)})
            labels.append({"id": f"e{self.n}", "label": label})
            self.n += 1
        with closing(context.existing_log(self.config)) as log:
            for topic, records in (
                (self.config.topics.events[0], events),
                (self.config.topics.labels, labels),
            ):
                log.append(
                    [NewRecord(topic, one["id"].encode(), json.dumps(one).encode()) for one in records]
                )
        until(lambda: self.n_learned() == self.n or not self.has_learner(), self.learners)
        assert self.has_learner(), self.learners()

    def has_learner(self):
        """Return False if all have ended: waiting would be in vain."""
        return any(one.is_going() for one in self.started)

    def learners(self):
        """Return what was learned, and the ends of the learners' logs."""
        logs = [one.said()[-1000:] for one in self.started[-3:]]
        return "\n".join([f"{self.n_learned()} of {self.n} learned", *logs])

    def n_learned(self):
        """Return the number of label records and events in the journal's positions."""
        return self._n_learned_by(self.program.read("journal")[-1])

    def learned_at(self):
        """Return when the learner learned all, by its own clock: the commands of this test take time too."""
        return next(one["now"] for one in self.program.read("journal") if self._n_learned_by(one) == self.n)

    def _n_learned_by(self, record):
        sent = {topic: sum(of.values()) for topic, of in record["positions"].items()}
        return min(sent.get(topic, 0) for topic in self.config.topics.read)

    def await_copy(self, standby):
        """Wait until a standby has learned all that the learner has: it could learn nothing later."""
        newest = self.program.read("journal")[-1]["n"]
        (address,) = re.findall(r"http://(\S+)/metrics", standby.said())
        until(lambda: self._learned(address) >= newest, standby.said)

    def _learned(self, address):
        with urlopen(f"http://{address}/metrics", timeout=30) as answer:
            found = re.search(r"^streamnb_journal_record (\S+)", answer.read().decode(), re.MULTILINE)
        return float(found[1])

    def forget_the_past(self):
        """Let retention remove every event and label that was learned."""
        with closing(context.existing_log(self.config)) as log:
            for topic in (self.config.topics.labels, *self.config.topics.events):
                for partition in log.partitions(topic):
                    self._trim(log, partition, log.offsets(partition)[1])

    def _trim(self, log, partition, before):
        if not self.config.log.is_kafka:
            trim(log, partition, before)
            return
        servers = self.config.log.url.removeprefix("kafka://")
        with closing(KafkaAdminClient(bootstrap_servers=servers)) as admin:
            admin.delete_records({TopicPartition(*partition): before})

    def saved(self, name):
        """Return how many records the newest snapshot in a folder has."""
        found = SnapshotFolder(self.program.folder / name).newest()
        return 0 if found is None else found.snapshot.parts["learner"].meta["consumed"]

    def kept(self, name):
        """Return the model of the newest snapshot in a folder."""
        snapshot = SnapshotFolder(self.program.folder / name).newest().snapshot
        learner = factories.learner(
            factories.as_journalled(self.config, snapshot.parts["journal"].meta["config"])
        )
        learner.load(snapshot.parts, snapshot.segments)
        return learner.model

    def recount(self):
        """Return a model that has learned what was sent, once and without a log."""
        model = factories.model(self.config)
        for text, label in self.sent:
            model.learn_one({"text": text}, label)
        return model

    def check(self, name):
        """Compare the model in a folder with the recount."""
        kept, alone = self.kept(name), self.recount()
        assert kept.n_events == alone.n_events == self.n
        for word in WORDS:
            assert kept.predict_proba_one({"text": word}) == pytest.approx(
                alone.predict_proba_one({"text": word}), rel=1e-12
            )


def test_a_standby_takes_over_though_no_event_is_left_to_replay(program):
    """Both learners die in turn; retention always overtakes both. Nothing is lost, nothing is repeated."""
    pair, served = Pair(program), "http.listen=127.0.0.1:0"
    active = pair.start("one", served)
    until(lambda: program.read("journal"))
    standby = pair.start("two", served)
    names = ["one", "two"]
    for turn in range(3):
        pair.send(130)
        standby.await_word("this standby follows the learner")
        pair.send(30)
        pair.await_copy(standby)
        pair.forget_the_past()
        active.kill()
        pair.send(30)  # whose predictions and lessons come from the other
        assert standby.is_going(), standby.said()
        shutil.rmtree(program.folder / names[turn % 2], ignore_errors=True)
        shutil.copytree(program.folder / names[1 - turn % 2], program.folder / names[turn % 2])
        active, standby = standby, pair.start(names[turn % 2], served)
        standby.await_word("this standby follows the learner")
    assert active.stop().process.returncode == 0, active.said()
    standby.stop()
    ids = Counter(program.ids("predictions"))
    assert ids.keys() == {f"e{i}" for i in range(pair.n)}
    assert set(ids.values()) == {1}
    pair.check(names[(turn + 1) % 2])


def test_it_says_that_it_could_not_take_over_until_a_snapshot_is_brought(program):
    pair = Pair(program)
    active = pair.start("one")
    until(lambda: program.read("journal"))
    pair.send(100)
    pair.forget_the_past()
    standby = pair.start("two")
    standby.await_word("this standby cannot take over now: ")
    assert "copy the learner's newest snapshot to " in standby.said()
    pair.send(100)  # and a snapshot of the learner
    until(lambda: pair.saved("one") > 2 * 100)
    shutil.copytree(program.folder / "one", program.folder / "two", dirs_exist_ok=True)
    standby.await_word("this standby follows the learner")
    active.kill()
    pair.send(20)
    assert standby.is_going()
    standby.stop()


def test_a_standby_with_an_empty_disk_fetches_what_it_lacks_from_the_mirror(program):
    """Also where a fenced learner has left a newer snapshot, which is another journal's."""
    pair, mirrored = Pair(program), f"snapshots.mirror=file://{program.folder}/mirror"
    active = pair.start("one", mirrored)
    until(lambda: program.read("journal"))
    pair.send(100)
    pair.forget_the_past()
    pair.send(100)
    until(lambda: pair.saved("one") > 2 * 100)
    mirror = SnapshotMirror(mirrored.partition("=")[2])
    until(
        lambda: (
            mirror.list() and mirror.list()[-1].n >= SnapshotFolder(program.folder / "one").newest_record()
        )
    )
    last = mirror.list()[-1]
    for suffix in (".snb", ".json"):
        own = program.folder / "mirror" / f"{last.name}{suffix}"
        shutil.copy(own, own.with_name(f"snapshot-{last.n + 1:020d}-{'0' * 64}{suffix}"))
    standby = pair.start("two", mirrored)
    standby.await_word(f"fetched the snapshot at journal record {last.n} from ")
    standby.await_word("this standby follows the learner")
    pair.forget_the_past()
    active.kill()
    pair.send(20)
    assert standby.stop().process.returncode == 0
    kept, alone = pair.kept("two"), pair.recount()
    assert kept.n_events == alone.n_events == pair.n
    pair.forget_the_past()
    third = pair.start("three", mirrored)  # a learner without a standby, on a machine that is new
    third.await_word("fetched the snapshot at journal record ")
    pair.send(10)
    assert third.stop().process.returncode == 0
    assert pair.kept("three").n_events == pair.n


def test_it_says_what_its_takeover_would_change_and_ends_where_it_could_not_take_over(program):
    learner = program.start("run")
    learner.await_word("reads ")
    until(lambda: program.read("journal"))
    standby = program.start("run", "--set", "metrics.every_events=7")
    standby.await_word("standing by: ")
    standby.await_word("a takeover would change the configuration: metrics.every_events: ")
    assert "metrics.window" not in standby.said()
    other = program.start("run", "--set", "model.name=another").finish()
    assert other.process.returncode == 2, other.said()
    assert 'and is "another"' in other.said()
    assert learner.is_going()
    assert standby.stop().said().count("a takeover would change") == 1
    learner.stop()


@pytest.mark.storm
def test_a_standby_keeps_its_state_while_the_broker_stands_still(tmp_path, lone_broker):
    """Longer than a request waits; retention has removed what was learned, and there is no snapshot."""
    with closing(program_on(tmp_path, lone_broker.address)) as program:
        pair, sets = Pair(program), ["snapshots.every_events=1000000", "http.listen=127.0.0.1:0"]
        active = pair.start("one", *sets)
        until(lambda: program.read("journal"))
        standby = pair.start("two", *sets)
        standby.await_word("this standby follows the learner")
        pair.send(30)
        pair.await_copy(standby)
        pair.forget_the_past()
        lone_broker.nodes[0].pause()
        standby.await_word("this standby cannot take over now: the Kafka cluster does not answer")
        lone_broker.nodes[0].resume()
        until(lambda: standby.said().count("this standby follows the learner") == 2, standby.said)
        active.kill()
        pair.send(10)
        assert standby.stop().process.returncode == 0, standby.said()
        pair.check("two")


class Seat(NamedTuple):
    """A learner with a disk and an address for metrics."""

    folder: str
    process: Command
    address: str


class Trial:
    """Two learners on separate disks, watched by Prometheus, and their operator."""

    def __init__(self, program, prometheus, clients, *, mirrors):
        self.pair, self.prometheus, self.clients, self.mirrors = Pair(program), prometheus, clients, mirrors
        self.rng, self.names = random.Random(21), iter(f"learner-{n}" for n in range(100))
        self.waits, self.alerts = [], 0
        self.active = self.begin(prometheus.addresses[0])
        until(lambda: program.read("journal"))
        self.standby = self.begin(prometheus.addresses[1])

    def begin(self, address, folder=None):
        folder = folder or next(self.names)
        sets = [f"http.listen={address}"]
        sets += [f"log.client={self.rng.choice(self.clients)}"] * self.pair.config.log.is_kafka
        sets += [f"snapshots.mirror=file://{self.pair.program.folder}/mirror"] * self.mirrors
        return Seat(folder, self.pair.start(folder, *sets), address)

    def is_alerted(self):
        return "StreamnbStandbyNotReady" in self.prometheus.firing()

    def await_standby(self):
        """Send events until the standby follows: it may need a snapshot that is newer than the retention."""
        said, is_behind = self.standby.process.said, False
        while "this standby follows the learner" not in said():
            assert self.standby.process.is_going(), said()
            if not self.mirrors and "this standby cannot take over now" in said():
                if not is_behind:
                    until(self.is_alerted, said)
                is_behind = True
                self.copy_snapshots()
            self.pair.send(20)
        self.alerts += is_behind
        until(lambda: not self.is_alerted())

    def copy_snapshots(self):
        """Do what the standby's message asks for."""
        folders = (self.pair.program.folder / seat.folder for seat in (self.active, self.standby))
        with suppress(shutil.Error):  # the learner replaced a file meanwhile
            shutil.copytree(*folders, dirs_exist_ok=True)

    def kill_one(self):
        """Let retention overtake both, and kill either; note how long no learner learns."""
        self.pair.await_copy(self.standby.process)
        self.pair.forget_the_past()
        is_active = self.rng.random() < 0.6
        victim = self.active if is_active else self.standby
        victim.process.kill()
        began = time.time()
        self.pair.send(1)  # until it is learned
        self.waits.append(self.pair.learned_at() - began)
        if is_active:
            self.active = self.standby
        keeps_disk = not self.mirrors or self.rng.random() < 0.5
        self.standby = self.begin(victim.address, victim.folder if keeps_disk else None)

    def end(self):
        """Stop both; nothing is lost or repeated, and a recount gives the same model."""
        pair = self.pair
        assert self.active.process.stop().process.returncode == 0, self.active.process.said()
        self.standby.process.stop()
        ids = Counter(pair.program.ids("predictions"))
        assert ids.keys() == {f"e{i}" for i in range(pair.n)}
        assert set(ids.values()) == {1}
        pair.check(self.active.folder)


@pytest.fixture
def prometheus(tmp_path):
    """A Prometheus with the rules of the project, which scrapes two learners."""
    with ExitStack() as stack:
        probes = [stack.enter_context(closing(socket.socket())) for _ in range(2)]
        for probe in probes:
            probe.bind(("127.0.0.1", 0))
        addresses = ["{}:{}".format(*probe.getsockname()) for probe in probes]
    made = Prometheus(tmp_path / "prometheus", *addresses)
    made.addresses = addresses
    until(made.ready)
    yield made
    made.close()


@pytest.mark.storm
@pytest.mark.parametrize(
    ("clients", "mirrors"),
    [(("kafka-python", "librdkafka"), True), (("kafka-python",), False), (("librdkafka",), False)],
)
def test_twenty_kills_of_either_learner_while_retention_overtakes_both(program, prometheus, clients, mirrors):
    """Separate disks: within session + 10 s there is always a learner again.

    With a mirror, disks are lost at random. Without one, an alert fires whenever the standby could not take over, and
    the operator copies the newest snapshot of the learner, as the standby's message asks.
    """
    trial = Trial(program, prometheus, clients, mirrors=mirrors)
    for _ in range(20):
        trial.pair.send(trial.rng.randrange(10, 90))
        trial.await_standby()
        trial.kill_one()
    trial.await_standby()
    found = {
        "events": trial.pair.n,
        "alerts": trial.alerts,
        "waits": [round(wait, 1) for wait in trial.waits],
    }
    (program.folder / "trial.json").write_text(json.dumps(found))
    assert max(trial.waits) < 6 + 10, found
    assert mirrors or trial.alerts
    trial.end()
