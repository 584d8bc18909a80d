"""A standby in the process of its test: its state is the learner's, whatever happens meanwhile."""

from __future__ import annotations

import json
import random
import threading
import time
from contextlib import closing, nullcontext
from itertools import pairwise

import msgspec
import pytest

from streamnb import config as configuration
from streamnb.cli import main
from streamnb.engine.journal.journal_history import last
from streamnb.engine.journal.recovery import continues, recover
from streamnb.engine.journal.snapshot_store import NoSnapshots
from streamnb.engine.ports import NewRecord
from streamnb.engine.processing import processor_state
from streamnb.errors import JournalError, OtherStream, SnapshotError, Unavailable
from streamnb.event_logs.sqlite.sqlite_log import SqliteLog
from streamnb.persistence.snapshot_folder import SnapshotFolder
from streamnb.runtime import context, factories, log_follower, standby
from streamnb.runtime.standby import Standby
from tests.support.service import digests
from tests.support.topics_of_logs import trim

PATIENCE = 60.0
KEYS = ["model.kind=naive_bayes", "topics.labels=labels", "metrics.every_events=20", "commit.events=8"]


def configured(folder, *more):
    sets = [f"log.url=sqlite:///{folder / 'log.db'}", f"snapshots.folder={folder / 'own'}", *KEYS, *more]
    return configuration.load(None, {}, sets)


class Learner:
    """The active learner and its log."""

    def __init__(self, folder):
        self.folder, self.rng, self.n = folder, random.Random(3), 0
        with closing(context.open_log(configured(folder))):
            pass

    def send(self, n):
        """Send events, and labels of some of them."""
        with closing(context.existing_log(configured(self.folder))) as log:
            for _ in range(n):
                label, words = self.rng.choice("ab"), self.rng.choices("pqrstuvw", k=3)
                event = {"id": f"e{self.n}", "text": " ".join(words)}
                log.append([NewRecord("events", None, json.dumps(event).encode())])
                if self.rng.random() < 0.7:
                    said = {"id": f"e{self.n}", "label": label}
                    log.append([NewRecord("labels", None, json.dumps(said).encode())])
                self.n += 1

    def learn(self, n, *more):
        """Send events and learn them in a worker of its own."""
        self.send(n)
        config = configured(self.folder, f"snapshots.folder={self.folder / 'of the learner'}", *more)
        worker = factories.worker(config, factories.learner(config), context.existing_log(config))
        worker.start("learner")
        worker.run(until_end=True)
        worker.close()
        return worker.checkpoint

    def roll_back(self):
        """Return to the oldest snapshot."""
        folder = self.folder / "of the learner"
        to = SnapshotFolder(folder).list()[0].n
        keys = [f"log.url=sqlite:///{self.folder / 'log.db'}", f"snapshots.folder={folder}", *KEYS]
        flags = [word for key in keys for word in ("--set", key)]
        assert main(["snapshot", "rollback", "--to", str(to), *flags]) == 0


def until(condition):
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def replayed(config):
    with closing(context.existing_log(config)) as log:
        found = factories.learner(config)
        recover(log, NoSnapshots(), found, factories.identity(config))
    return digests(found)


@pytest.fixture
def begun(tmp_path):
    learner, heard = Learner(tmp_path), []
    learner.learn(30)
    made = Standby(configured(tmp_path), heard.append)
    made.begin()
    until(lambda: made.behind == 0)
    yield learner, made, heard
    made.close()


def test_its_state_is_a_replay_of_the_journal(begun):
    learner, made, heard = begun
    learner.learn(25)
    end = learner.learn(25)
    until(lambda: made.journal_record == end.n)
    given = made.hand_over(lambda: None)
    assert given.followed.checkpoint == end
    assert given.followed.is_comparable
    assert digests(given.learner) == replayed(made.config)
    assert [message.event for message in heard] == ["standby-follows"]


def test_it_follows_a_change_of_the_configuration(begun):
    learner, made, _ = begun
    learner.learn(25, "metrics.every_events=7")
    given = made.hand_over(lambda: None)
    changed = configured(learner.folder, "metrics.every_events=7")
    with closing(context.existing_log(changed)) as log:
        changed = factories.begun_configuration(changed, log)
    assert given.followed.checkpoint.origin.config_hash == factories.identity(changed).config_hash
    assert digests(given.learner) == replayed(changed)


@pytest.mark.parametrize("more", [[], ["metrics.every_events=7"], ["memory.budget=1MiB"]])
def test_a_takeover_continues_with_its_state_under_any_configuration(tmp_path, more):
    """The events are gone by then: nothing but the state of the standby can be the origin of the result."""
    learner, config, taken = Learner(tmp_path), configured(tmp_path, *more), []
    learner.learn(30)
    present = configured(tmp_path, f"snapshots.folder={tmp_path / 'of the learner'}")
    first = factories.worker(present, factories.learner(present), context.existing_log(present))
    first.start("first")
    made = Standby(config, lambda _: None)

    def stand_by():
        second = factories.worker(config, factories.learner(config), context.existing_log(config))
        second.await_leadership("second", lambda _: None, made)
        taken.append((second.checkpoint, digests(second.learner)))
        second.close()

    waiting = threading.Thread(target=stand_by)
    waiting.start()
    until(lambda: made.behind == 0)
    learner.send(40)
    first.run(until_end=True)
    expected = factories.learner(config)
    with closing(context.existing_log(config)) as log:
        identity = factories.identity(factories.begun_configuration(config, log))
        recover(log, NoSnapshots(), expected, identity, begins=True)
        for topic in config.topics.read:
            trim(log, log.partitions(topic)[0], log.offsets(log.partitions(topic)[0])[1])
    first.close()
    waiting.join(PATIENCE)
    [(checkpoint, found)] = taken
    assert checkpoint.n == first.checkpoint.n + bool(more)
    assert found == digests(expected)


def test_it_begins_again_after_a_rollback(begun, monkeypatch):
    monkeypatch.setattr(standby, "_AGAIN_SECONDS", 0.1)
    learner, made, heard = begun
    learner.learn(25)
    until(lambda: made.behind == 0)
    learner.roll_back()
    learner.learn(5)
    until(lambda: [message.event for message in heard].count("standby-follows") == 2)
    assert "rolled back" in heard[1]
    given = made.hand_over(lambda: None)
    assert digests(given.learner) == replayed(made.config)


def test_a_state_that_was_rolled_back_is_not_continued(begun):
    learner, made, _ = begun
    learner.learn(25)
    given = made.hand_over(lambda: None)
    with closing(context.existing_log(made.config)) as log:
        assert continues(log, factories.identity(made.config), given.followed.checkpoint)
    learner.roll_back()
    with closing(context.existing_log(made.config)) as log:
        assert not continues(log, factories.identity(made.config), given.followed.checkpoint)


def test_its_snapshots_suffice_for_a_recovery(tmp_path):
    learner = Learner(tmp_path)
    learner.learn(30)
    config = configured(tmp_path, "snapshots.every_events=10")
    made = Standby(config, lambda _: None)
    made.begin()
    until(lambda: made.behind == 0)
    learner.learn(40)
    until(lambda: SnapshotFolder(tmp_path / "own").newest_record() >= 0)
    given = made.hand_over(lambda: None)
    if given.snapshot is not None:
        given.snapshot.finish(lambda: None)
    found = factories.learner(config)
    with closing(context.existing_log(config)) as log:
        recover(log, SnapshotFolder(tmp_path / "own"), found, factories.identity(config))
    assert digests(found) == replayed(config)


@pytest.fixture
def outage(monkeypatch):
    """An event; while it is set, the embedded log does not answer, and waits as Kafka's does."""
    monkeypatch.setattr(log_follower, "PATIENCE_SECONDS", 0.2)
    monkeypatch.setattr(standby, "_AGAIN_SECONDS", 0.1)
    is_away, offsets = threading.Event(), SqliteLog.offsets

    def answer(log, partition):
        began = time.monotonic()
        while is_away.is_set():
            log._store._patience.unreachable(Unavailable("away"), time.monotonic() - began)
            time.sleep(0.01)
        return offsets(log, partition)

    monkeypatch.setattr(SqliteLog, "offsets", answer)
    return is_away


def forget_the_past(config):
    with closing(context.existing_log(config)) as log:
        for topic in config.topics.read:
            (partition,) = log.partitions(topic)
            trim(log, partition, log.offsets(partition)[1])


def test_its_state_outlasts_an_outage_of_the_log(begun, outage):
    """The log has lost the events, by which the state could be learned again."""
    _, made, heard = begun
    expected = replayed(made.config)
    forget_the_past(made.config)
    outage.set()
    until(lambda: made.behind is None)
    outage.clear()
    until(lambda: made.behind == 0)
    assert [message.event for message in heard] == ["standby-follows", "standby-not-ready", "standby-follows"]
    assert digests(made.hand_over(lambda: None).learner) == expected


@pytest.mark.parametrize("give_up_after", ["10m", "0s"])
def test_an_outage_during_the_takeover_is_waited_for_as_long_as_a_learner_waits(begun, outage, give_up_after):
    _, made, _ = begun
    made.reconfigure(configured(made.config.snapshot_folder.parent, f"kafka.give_up_after={give_up_after}"))
    outage.set()

    def heartbeat():
        if made.problem:
            outage.clear()

    given = made.hand_over(heartbeat)
    assert (given is None) == (give_up_after == "0s")


def test_it_does_not_follow_a_learner_whose_outputs_it_cannot_derive(begun, monkeypatch):
    monkeypatch.setattr(standby, "_AGAIN_SECONDS", 0.1)
    learner, made, heard = begun
    process = made._tail.learner.process
    monkeypatch.setattr(made._tail.learner, "process", lambda *of, **more: process(*of, **more)[:-1])
    learner.learn(25)
    until(lambda: len(heard) > 1)
    assert heard[1].event == "standby-not-ready"
    assert "gave other outputs than it published" in heard[1]


@pytest.mark.parametrize("is_comparable", [True, False])
def test_outputs_are_compared_while_this_kind_of_machine_wrote_the_state(begun, is_comparable):
    learner, made, _ = begun
    given = made.hand_over(lambda: None)
    learner.learn(25)
    given.learner.model.learn_one({"text": "p"}, "a")  # another machine may round otherwise
    with closing(context.existing_log(made.config)) as log:
        identity = factories.identity(factories.begun_configuration(made.config, log))
        since = given.followed._replace(is_comparable=is_comparable)
        with pytest.raises(JournalError, match="other outputs") if is_comparable else nullcontext():
            recover(log, NoSnapshots(), given.learner, identity, since=since)


def test_a_learner_takes_the_whole_state_of_another(tmp_path):
    """Each attribute is in the list, a path without state of its own, or set by each call of `process`."""
    learner = factories.learner(configured(tmp_path))
    paths = {"admission", "event_path", "label_path", "scoring", "_monitoring"}
    assert vars(learner).keys() == {*processor_state._STATE, *paths, "has_events", "has_labels"}


def test_two_processes_save_to_one_folder_one_after_the_other(tmp_path):
    """Whatever two savers remove, the newest snapshot can be read."""
    Learner(tmp_path).learn(60)
    kept = SnapshotFolder(tmp_path / "of the learner").newest().snapshot
    shared, failures = tmp_path / "shared", []

    def save(first):
        folder = SnapshotFolder(shared, keep=1)
        for n in range(first, 60, 2):
            try:
                folder.save(msgspec.structs.replace(kept, journal_n=n))
            except SnapshotError as error:
                failures.append(error)

    threads = [threading.Thread(target=save, args=(first,)) for first in (0, 1)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        found = SnapshotFolder(shared).newest()
        assert found is None or not found.damaged
    assert not failures
    assert SnapshotFolder(shared).newest_record() == 59
    assert not list(shared.glob("*.tmp"))


def test_a_mirror_is_listed_less_and_less_often_by_a_process_that_fails(tmp_path, monkeypatch):
    listed, now = [], 0.0
    monkeypatch.setattr(factories, "fetch_snapshot", lambda *_: listed.append(now))
    fetches = factories.MirrorFetches(configured(tmp_path), lambda: now)
    for second in range(400):
        now = float(second)
        fetches(None)
    assert listed[:6] == [0.0, 1.0, 3.0, 7.0, 15.0, 31.0]
    assert {after - before for before, after in pairwise(listed[6:])} == {60.0}
    fetches.succeeded()
    fetches(None)
    assert listed[-1] == now


@pytest.mark.parametrize("key", ["metrics.interval=0.9", "topics.predictions=others"])
def test_a_takeover_that_would_change_the_configuration_can_be_refused(tmp_path, key, capsys):
    """The newest configuration is the journal's; a process with another one ends, and another can take over."""
    learner = Learner(tmp_path)
    end = learner.learn(30)
    older = configured(tmp_path, key)
    with closing(context.existing_log(older)) as log:
        worker = factories.worker(older, factories.learner(older), log, refuses_changes=True)
        with pytest.raises(OtherStream, match=key.partition("=")[0]):
            worker.start("older")
        worker.close()
    flags = [f"log.url=sqlite:///{tmp_path / 'log.db'}", f"snapshots.folder={tmp_path / 'own'}", *KEYS]
    sets = [word for one in [*flags, "http.listen="] for word in ("--set", one)]
    assert main(["run", "--until-end", "--refuse-changes", *sets, "--set", key]) == 2
    assert "without --refuse-changes" in capsys.readouterr().err
    assert main(["run", "--until-end", "--refuse-changes", *sets]) == 0
    with closing(context.existing_log(older)) as log:
        assert last(log, log.partitions("journal")[0]).record.n == end.n
