"""Where lives are lived: a log with events and a folder of snapshots; and what has to hold in the end."""

from __future__ import annotations

import contextlib
import json
import queue
import shutil
from collections import Counter
from itertools import count

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from streamnb.engine.journal.recovery import recover
from streamnb.engine.journal.snapshot_store import NoSnapshots
from streamnb.engine.ports import NewRecord
from streamnb.event_logs.sqlite.sqlite_log import SqliteLog
from streamnb.formats.codec import decode_alert, decode_metrics
from streamnb.formats.journal_record import decode_journal
from streamnb.persistence.snapshot_folder import SnapshotFolder
from tests.brokers.prefixed import PrefixedKafkaLog
from tests.support.service import IDENTITY, digests, predictions, raw_events, read_topic, records, timeless
from tests.system.crashes.life import REPORT_EVERY, fresh_learner

COMMIT_EVENTS = 20
PATIENCE = 30  # seconds
TOPICS = {
    "events": 1,
    "predictions": 1,
    "metrics": 1,
    "dead-letters": 1,
    "journal": 1,
    "alerts": 1,
    "tenants": 1,
}
HYPOTHESES = "hypotheses", "never paused"


class Stream:
    """Events, every tenth of which is none, and what a learner that nobody disturbs makes of them.

    The last `held` of them are not in the log until `Stage.produce_held`.
    """

    def __init__(self, n, partitions=1, held=0, kind="hypotheses"):
        self.partitions = partitions
        self.kind = kind = "never paused" if kind == "hypotheses" and partitions > 1 else kind
        self.held = held
        self.raws = [b'{"id": %d' % i if i % 10 == 7 else raw for i, raw in enumerate(raw_events(n, seed=77))]
        self.topics = TOPICS | {"events": partitions, "predictions": partitions}
        self.alone = fresh_learner(kind)
        outputs = self.alone.process(records(self.raws, keys=self.keys()), 1.0)
        while self.alone.standings is not None and self.alone.has_pending_report:
            outputs += self.alone.process([], 1.0)
        self.digests = digests(self.alone)  # once: many attempts ask at a time, and a state has one copy
        self.predictions = predictions(outputs)
        self.malformed = sorted(output.value for output in outputs if output.topic == "dead-letters")
        self.alerts = _alerts(output.value for output in outputs if output.topic == "alerts")
        assert bool(self.alerts) == (kind in HYPOTHESES)
        self.standings = _last((o.key, o.value) for o in outputs if o.topic == "tenants")
        assert bool(self.standings) == (kind == "tenants")
        self.reports = _reports(output.value for output in outputs if output.topic == "metrics")

    def keys(self):
        """Each its own; where a record's key is an entity, seven entities take turns, more or less."""
        few = self.kind in {"hidden_markov", "tenants"}
        return [b"%d" % (i * i % 11 if few else i) for i in range(len(self.raws))]

    def keyed(self):
        """A record without a partition goes where its key says."""
        return [NewRecord("events", key, raw) for key, raw in zip(self.keys(), self.raws, strict=True)]

    def at_first(self):
        return self.keyed()[: len(self.raws) - self.held]


class Stage:
    """A log and snapshots of their own.

    Args:
        nursery: starts lives.
        folder: of the snapshots, and what lives leave behind.
        stream: what lies in the log.
        log: how lives open it, see `life`.
        reading: makes a context in which it can be read.
    """

    def __init__(self, nursery, folder, stream, log, reading):
        self.folder = folder
        self.stream = stream
        self._nursery = nursery
        self._log = log
        self._reading = reading
        self._names = count()

    def life(
        self,
        point=None,
        *,
        owner="learner",
        trace=False,
        until_end=True,
        ticks=0,
        largest=0,
        snapshot_events=40,
        at_once=False,
    ):
        """Begin one. `point` is (seam, call, when, signal)."""
        name = f"{next(self._names)}-{owner}"
        return self._nursery.start(
            name=name,
            folder=str(self.folder),
            log=self._log,
            owner=owner,
            kind=self.stream.kind,
            pace={
                "commit_events": COMMIT_EVENTS,
                "commit_seconds": 0.1,
                "snapshot_events": snapshot_events,
                "snapshot_seconds": 1e9,
            },
            until_end=until_end,
            ticks=ticks,
            largest=largest,
            at_once=at_once,
            point=point and dict(zip(("seam", "call", "when", "does"), point, strict=True)),
            trace=trace,
        )

    def completed(self, **options):
        """A life that nothing befalls, to the end of the log."""
        life = self.life(**options)
        assert life.ended() == 0, life.said()
        return life

    def produce_held(self):
        with self._reading() as log:
            log.append(self.stream.keyed()[-self.stream.held :])

    def check(self, life):
        """What has to hold once this life has learned the log to its end."""
        with self._reading() as log:
            self._check(log, life.came())

    def _check(self, log, came):
        learner, checkpoint = replayed(log, NoSnapshots(), self.stream.kind)
        found = digests(learner)
        if self.stream.kind in HYPOTHESES:
            assert learner.actions.renewed > 0, "no alarm renewed the model"
            assert (learner.actions.passed_over > 0) == (self.stream.kind == "hypotheses")
        assert came["digests"] == found, "the model is not the replay of its journal"
        assert came["consumed"] == len(self.stream.raws)
        again, at = replayed(log, SnapshotFolder(self.folder / "snapshots"), self.stream.kind)
        assert (digests(again), at) == (found, checkpoint), (
            "the snapshot and what follows it differ from the whole"
        )
        self._check_outputs(log)
        self._check_journal(log)
        if self.stream.partitions == 1:
            assert found == self.stream.digests, "the model is not that of an undisturbed run"
            assert predictions(log) == self.stream.predictions
            assert _last((r.key, r.value) for r in read_topic(log, "tenants")) == self.stream.standings
        else:
            assert _counts(learner) == _counts(self.stream.alone)

    def _check_outputs(self, log):
        """Each event's answer is visible once, and nothing else."""
        seen = Counter(prediction["id"] for prediction in predictions(log))
        assert seen == Counter(prediction["id"] for prediction in self.stream.predictions)
        letters = read_topic(log, "dead-letters")
        assert sorted(letter.value for letter in letters) == self.stream.malformed
        reports = read_topic(log, "metrics")
        found = _reports(report.value for report in reports)
        assert len(found) == len(reports), "a report was made twice"
        regular = [events for events in sorted(self.stream.reports) if events % REPORT_EVERY == 0]
        assert [events for events in sorted(found) if events % REPORT_EVERY == 0] == regular
        alerts = _alerts(alert.value for alert in read_topic(log, "alerts"))
        assert len(alerts) == len(self.stream.alerts)
        if self.stream.partitions == 1:
            assert alerts == self.stream.alerts
            assert all(found[events] == self.stream.reports[events] for events in regular)

    def _check_journal(self, log):
        """Its slices adjoin, from the first record of each partition to the last."""
        commits = [decode_journal(record.value) for record in read_topic(log, "journal")]
        assert [record.n for record in commits] == list(range(len(commits)))
        slices = [part for record in commits for part in record.slices]
        reached = Counter()
        for part in slices:
            assert part.first == reached[part.partition]
            reached[part.partition] = part.next
        ends = {partition.number: log.offsets(partition)[1] for partition in log.partitions("events")}
        assert {number: reached[number] for number in ends} == ends


def replayed(log, snapshots, kind="hypotheses"):
    """What the journal makes of a learner that knows nothing, and where it stands."""
    learner = fresh_learner(kind)
    checkpoint = recover(log, snapshots, learner, IDENTITY)
    return learner, checkpoint


def _reports(values):
    """Events -> the report made after so many."""
    found = [timeless(decode_metrics(value)) for value in values]
    return {report["events"]: report for report in found}


def _last(pairs):
    """Tenant -> its last record, at whatever time."""
    return {key: {**json.loads(value), "ts": 0, "model": 0} for key, value in pairs}


def _alerts(values):
    """Of any time: the monitor, what it found, and by what."""
    return [(one.monitor, one.state, one.label, one.events) for one in map(decode_alert, values)]


def _counts(learner):
    """What does not depend on the order of learning."""
    statistics = learner.model.statistics
    return (
        learner.consumed,
        learner.dead_letters,
        learner.model.n_events,
        {name: statistics.class_counts(name) for name in ("text", "subject", "colour")},
    )


class SqliteStages:
    """Files of the embedded log: each stage has a copy of one that was prepared."""

    ticks = 1  # nothing of it needs the true time

    def __init__(self, nursery, folder, stream, **options):
        self._nursery = nursery
        self._folder = folder
        self._stream = stream
        self._options = {"session_timeout": 10.0, "checkpoint_commits": 2} | options
        self._numbers = count()
        self._prepared = folder / "prepared.db"
        with SqliteLog(self._prepared) as log:
            for name, partitions in stream.topics.items():
                log.create_topic(name, partitions)
            log.append(stream.at_first())

    def new(self, like=None):
        """A stage; `like` another one, whose lives have ended."""
        folder = self._folder / f"stage-{next(self._numbers)}"
        if like is None:
            folder.mkdir()
            shutil.copy(self._prepared, folder / "log.db")
        else:
            shutil.copytree(like.folder, folder)
        path = folder / "log.db"
        log = {"sqlite": str(path)} | self._options
        return Stage(self._nursery, folder, self._stream, log, lambda: SqliteLog(path))


class KafkaStages:
    """Topics of one broker: each stage has its own, all made beforehand."""

    ticks = 0  # the broker's time is the true one

    def __init__(self, nursery, folder, stream, address, prefix, **options):
        self._nursery = nursery
        self._folder = folder
        self._stream = stream
        self._address = address
        self._prefix = prefix
        # Many lives share a machine.
        self._options = {"session_timeout": 6.0, "elected_within": 30.0} | options
        self._readers = queue.SimpleQueue()
        self._numbers = count()
        self._made = 0

    def prepare(self, n):
        """Make the topics of the next `n` stages, with their events."""
        prefixes = [self._at(number) for number in range(self._made, self._made + n)]
        self._made += n
        admin = AdminClient({"bootstrap.servers": self._address})
        wanted = [
            NewTopic(prefix + name, partitions, 1)
            for prefix in prefixes
            for name, partitions in self._stream.topics.items()
        ]
        for made in admin.create_topics(wanted).values():
            made.result(PATIENCE)
        producer = Producer({"bootstrap.servers": self._address, "enable.idempotence": True, "linger.ms": 50})
        for prefix in prefixes:
            for topic, key, value, _ in self._stream.at_first():
                producer.produce(prefix + topic, value, key)
        assert producer.flush(PATIENCE) == 0

    def new(self):
        number = next(self._numbers)
        assert number < self._made, "prepare() comes first"
        folder = self._folder / f"stage-{number}"
        folder.mkdir()
        prefix = self._at(number)
        log = {"kafka": self._address, "prefix": prefix} | self._options
        return Stage(self._nursery, folder, self._stream, log, lambda: self._reading(prefix))

    def _at(self, number):
        return f"{self._prefix}{number}-"

    @contextlib.contextmanager
    def _reading(self, prefix):
        """A client that another stage was read with, where there is one."""
        try:
            log = self._readers.get_nowait()
        except queue.Empty:
            log = PrefixedKafkaLog(self._address, prefix)
        log._prefix = prefix
        yield log
        self._readers.put(log)

    def close(self):
        while not self._readers.empty():
            self._readers.get().close()
