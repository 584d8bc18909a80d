"""Records in the journal's topic that no learner wrote; and a journal that is deleted, or cut, under a learner."""

from __future__ import annotations

import shutil

import msgspec
import pytest

from streamnb.cli import main
from streamnb.engine.journal.journal_entries import begin, restate, skip_foreign_records
from streamnb.engine.journal.journal_history import entries, find, last
from streamnb.engine.journal.recovery import JournalTail, recover
from streamnb.engine.journal.snapshot_store import NoSnapshots
from streamnb.engine.ports import NewRecord, Partition
from streamnb.engine.sensor import Sensor
from streamnb.errors import ConfigError, Fenced, JournalError, LogError
from streamnb.event_logs.sqlite.sqlite_log import SqliteLog
from streamnb.formats.journal_record import decode_journal, encode_journal, seal
from streamnb.runtime import factories
from streamnb.runtime.worker_context import CommitPolicy
from streamnb.serving.scorer import _behind
from streamnb.values.parameter_checks import brief
from streamnb.verification.check_results import Outcome
from tests.cli.commands.test_snapshot import Site
from tests.support.service import (
    IDENTITY,
    TOPICS,
    digests,
    many,
    new_learner,
    new_worker,
    predictions,
    produce,
    raw_events,
    read_topic,
)
from tests.support.topics_of_logs import delete_topic, trim
from tests.support.verifying import configured, learn, told, verified

pytestmark = pytest.mark.thorough

RAWS = raw_events(120, seed=71)
PACE = CommitPolicy(commit_events=20, snapshot_events=40)
JOURNAL = Partition("journal", 0)
ALL = ["sqlite", "kafka", "librdkafka"]
FOREIGN = [b"", b"hello\x1b[31m", b"[" * 100_000, b'{"id": "e1", "text": "event"}', b'{"n": 99}', b"\xff\xfe"]


class Told(Sensor):
    def __init__(self):
        self.notes = []

    def noted(self, text):
        self.notes.append(text)


def write_stray(log, *values):
    """As a stranger would: the embedded log lets nobody do so, but SQLite does."""
    new = [NewRecord("journal", None, value) for value in values]
    if isinstance(log, SqliteLog):
        with log._store.transaction("IMMEDIATE"):
            log._store.insert(new, 0.0)
    else:
        log.append(new)


def begun(log, folder, **options):
    worker = new_worker(log, folder, pace=PACE, store=many, **options)
    worker.start("test")
    return worker


def life(log, folder, raws=(), **options):
    """Of a worker that learns all there is; it is closed, however that ends."""
    produce(log, raws)
    worker = new_worker(log, folder, pace=PACE, store=many, **options)
    try:
        worker.start("test")
        worker.run(until_end=True)
    finally:
        worker.close()
    return worker


def recovered(log, snapshots=None):
    learner = new_learner()
    checkpoint = recover(log, snapshots or NoSnapshots(), learner, IDENTITY)
    return checkpoint, digests(learner)


def undisturbed(tmp_path, raws):
    with SqliteLog(tmp_path / "undisturbed.db") as log:
        for topic, count in TOPICS.items():
            log.create_topic(topic.replace("_", "-"), count)
        return digests(life(log, tmp_path / "undisturbed", raws).learner)


def offsets(log):
    return [record.offset for record in read_topic(log, "journal")]


def test_strays_that_the_journal_goes_on_after_change_nothing(open_log, tmp_path):
    """Before the genesis, and between the commits of a learner that runs; it is not disturbed, nor are its heirs."""
    log, stranger = open_log(**TOPICS), open_log()
    write_stray(stranger, *FOREIGN[:2])
    worker = begun(log, tmp_path / "s")
    for i in range(0, 120, 20):
        produce(stranger, RAWS[i : i + 20])
        worker.run(until_end=True)
        write_stray(stranger, *FOREIGN[: i // 20])
    produce(stranger, RAWS[:20])
    worker.run(until_end=True)
    worker.close()
    expected = undisturbed(tmp_path, [*RAWS, *RAWS[:20]])
    assert recovered(open_log())[1] == recovered(open_log(), many(tmp_path / "s"))[1] == expected
    sensor = Told()
    heir = begun(open_log(), tmp_path / "none", sensor=sensor)
    heir.close()
    assert digests(heir.learner) == expected
    assert len(predictions(open_log())) == 140
    notes = [note for note in sensor.notes if "in the journal's topic" in note]
    assert f"passing over offset {offsets(open_log())[0]} in" in notes[0]
    assert notes[1].endswith("bytes that are not a journal record")
    assert "hello" not in "".join(notes)
    assert sensor.notes[-1].startswith("and 12 more")


@pytest.mark.parametrize("open_log", ["kafka"], indirect=True)
def test_a_replica_that_has_passed_over_what_was_aborted_is_not_behind(open_log, tmp_path):
    """As a learner leaves it that ends in its commit again and again."""
    log = open_log(**TOPICS)
    life(log, tmp_path, RAWS)
    learner, reader = new_learner(), open_log()
    following = JournalTail(reader, learner, IDENTITY, recover(reader, NoSnapshots(), learner, IDENTITY))
    stranger = reader.begin([NewRecord("journal", None, b"none")] * 300)
    stranger.abort()
    end = reader.offsets(JOURNAL)[1]
    assert _behind(following, end) > 100
    assert list(following.advance()) == []
    assert _behind(following, end) == 0


@pytest.mark.parametrize("raw", FOREIGN[:5:2])
def test_a_stray_at_the_end_is_named_and_one_command_gets_past_it(open_log, tmp_path, raw):
    """Nothing follows it, so it may be the journal's last record, damaged."""
    life(open_log(**TOPICS), tmp_path / "s", RAWS[:60])
    write_stray(open_log(), raw, raw)
    first, second = offsets(open_log())[-2:]
    produce(open_log(), RAWS[60:])
    for _ in range(2):
        with pytest.raises(JournalError) as refused:
            life(open_log(), tmp_path / "s")
        assert f"after journal record 3, journal/0 offset {first}: {len(raw)} bytes" in str(refused.value)
        assert str(refused.value).endswith(f"`streamnb journal skip {first} {second}`")
        assert len(str(refused.value)) < 500
    assert len(predictions(open_log())) == 60
    log = open_log()
    log.acquire("operator")
    with pytest.raises(JournalError, match=f"offset {second}"):
        skip_foreign_records(log, many(tmp_path / "s"), frozenset({first}), IDENTITY, 0.0)
    checkpoint = skip_foreign_records(log, many(tmp_path / "s"), frozenset({first, second}), IDENTITY, 0.0)
    log.close()
    assert checkpoint.n == 4
    worker = life(open_log(), tmp_path / "s")
    assert digests(worker.learner) == undisturbed(tmp_path, RAWS)
    assert recovered(open_log())[1] == digests(worker.learner)
    assert len(predictions(open_log())) == 120


def copies(log, *numbers):
    """Of the journal's own records, as somebody leaves them who mirrors a topic."""
    found = [record.value for record in read_topic(log, "journal")]
    write_stray(log, *(found[n] for n in numbers))


@pytest.mark.parametrize("learned_after", [0, 20])
def test_copies_of_records_are_refused_until_the_journal_lists_them(open_log, tmp_path, learned_after):
    """A record twice may mean that two learners went on side by side."""
    log, stranger = open_log(**TOPICS), open_log()
    produce(stranger, RAWS[:100])
    worker = begun(log, tmp_path / "s")
    worker.run(until_end=True)
    copies(stranger, 2, 0, 3)
    strays = offsets(stranger)[-3:]
    produce(stranger, RAWS[100 : 100 + learned_after])
    worker.run(until_end=True)
    worker.close()
    for snapshots in [NoSnapshots(), *([] if learned_after else [many(tmp_path / "s")])]:  # stands after them
        with pytest.raises(JournalError) as refused:
            recovered(open_log(), snapshots)
        assert f"journal/0 offset {strays[0]}: the journal goes from record 5 to 2" in str(refused.value)
        assert str(refused.value).endswith(f"`streamnb journal skip {strays[0]}`")
    log = open_log()
    log.acquire("operator")
    with pytest.raises(JournalError, match=f"offset {strays[1]}"):
        skip_foreign_records(log, many(tmp_path / "s"), frozenset(strays[:1]), IDENTITY, 0.0)
    end = skip_foreign_records(log, many(tmp_path / "s"), frozenset(strays), IDENTITY, 0.0).n
    log.close()
    expected = undisturbed(tmp_path, RAWS[: 100 + learned_after])
    assert recovered(open_log())[1] == recovered(open_log(), many(tmp_path / "s"))[1] == expected
    log = open_log()
    true = {entry.record.n: entry for entry in entries(log, JOURNAL)}
    assert sorted(true) == list(range(end + 1))
    assert {n: find(log, JOURNAL, n).offset for n in true} == {n: true[n].offset for n in true}
    assert find(log, JOURNAL, end + 1) is None
    assert last(log, JOURNAL).record.n == end


def test_what_the_journal_needs_is_not_passed_over(open_log, tmp_path):
    life(open_log(**TOPICS), tmp_path / "s", RAWS[:60])
    n_5 = seal(msgspec.structs.replace(decode_journal(read_topic(open_log(), "journal")[3].value), n=5))
    genuine = offsets(open_log())
    write_stray(open_log(), b"?", encode_journal(n_5))
    stray, unlinked = offsets(open_log())[-2:]
    log = open_log()
    log.acquire("operator")
    for given, says in [
        ({stray, unlinked}, f"offset {unlinked}: a journal record with a number to come"),
        ({stray, unlinked, genuine[2]}, f"offset {genuine[2]} is journal record 2 itself"),
        ({stray}, f"offset {unlinked}: the journal goes from record 3 to 5; before it, at offset {stray}"),
    ]:
        with pytest.raises(JournalError, match=says):
            skip_foreign_records(log, many(tmp_path / "s"), frozenset(given), IDENTITY, 0.0)
    assert offsets(open_log())[-1] == unlinked


def test_an_offset_without_a_record_is_not_passed_over(open_log, tmp_path):
    life(open_log(**TOPICS), tmp_path / "s", RAWS[:60])
    log = open_log()
    log.acquire("operator")
    with pytest.raises((JournalError, LogError), match="offset"):
        skip_foreign_records(log, many(tmp_path / "s"), frozenset({1000}), IDENTITY, 0.0)


@pytest.mark.parametrize("at", [1, 2])
def test_a_record_of_a_later_version_is_not_foreign(open_log, tmp_path, at):
    """To pass over it would be to forget what it did; `at` 2 is the end."""
    life(open_log(**TOPICS), tmp_path / "s", RAWS[:20])
    record = read_topic(open_log(), "journal")[1].value.replace(b'"kind":"commit"', b'"kind":"later"')
    write_stray(open_log(), record)
    if at == 1:
        write_stray(open_log(), b"foreign")
    with pytest.raises(JournalError, match="of a later version"):
        recovered(open_log())


def test_a_stray_at_the_end_hides_no_number(open_log, tmp_path):
    """A log that has to ask where the journal ends, as after a failure, looks past it."""
    life(open_log(**TOPICS), tmp_path / "s", RAWS[:60])
    checkpoint, _ = recovered(open_log())
    write_stray(open_log(), *FOREIGN)
    log = open_log()
    log.acquire("another")
    for n in (2, 3, 5):
        _, transaction = checkpoint.next("config", IDENTITY, 0.0, config_hash=IDENTITY.config_hash)
        with pytest.raises(Fenced):
            log.commit(transaction._replace(n=n))
    log.close()
    log = open_log()
    log.acquire("another")
    restate(log, checkpoint, IDENTITY, 0.0)
    log.close()
    assert recovered(open_log())[0].n == 4


def test_verify_tells_strays_from_damage(open_log, tmp_path):
    log, stranger = open_log(**TOPICS), open_log()
    produce(stranger, RAWS[:60])
    learn(log, tmp_path / "s")
    write_stray(stranger, *FOREIGN)
    outcome = verified(open_log(), tmp_path / "s")
    assert [text for check, text in told(outcome) if "not a journal record" in text]
    produce(stranger, RAWS[60:])
    log = open_log()
    log.acquire("operator")
    skip_foreign_records(
        log, many(tmp_path / "s"), frozenset(offsets(log)[-6:]), factories.identity(configured()), 0.0
    )
    log.close()
    learn(open_log(), tmp_path / "s")
    outcome = verified(open_log(), tmp_path / "s")
    assert told(outcome) == []
    strays = [text for check, text in told(outcome, Outcome.OK) if check == "foreign record"]
    assert len(strays) == len(FOREIGN)
    assert "offset" in strays[0]


# -- the journal under a learner ----------------------------------------------------------------------------


@pytest.mark.parametrize("again", [True, False])
@pytest.mark.parametrize("open_log", ALL, indirect=True)
def test_a_journal_that_is_deleted_under_a_learner_is_noticed_before_the_next_commit(
    open_log, tmp_path, again
):
    log, operator = open_log(**TOPICS), open_log()
    produce(operator, RAWS[:60])
    worker = begun(log, tmp_path / "s")
    worker.run(until_end=True)
    known = operator.topic_id("journal")
    delete_topic(operator, "journal")
    if again:
        operator.create_topic("journal", 1)
    produce(operator, RAWS[60:])
    with pytest.raises(JournalError) as refused:
        worker.run(until_end=True)
    worker.close()
    assert f"the journal 'journal', of id {known}, was deleted" in str(refused.value)
    assert "begin a new log" in str(refused.value)
    if again:
        assert operator.topic_id("journal") in str(refused.value)
        assert read_topic(open_log(), "journal") == []
        with pytest.raises(JournalError, match="journal is empty"):
            life(open_log(), tmp_path / "s")
    assert len(predictions(open_log())) == 60


def test_a_learner_outlives_that_its_journal_is_emptied(open_log, tmp_path, monkeypatch):
    """Else the record of its newest snapshot would be gone, and all that it has learned with it."""
    monkeypatch.setattr("streamnb.runtime.worker._PARTITION_SECONDS", 0.0)
    log, operator = open_log(**TOPICS), open_log()
    produce(operator, RAWS[:60])
    sensor = Told()
    worker = begun(log, tmp_path / "s", sensor=sensor)
    worker.run(until_end=True)
    end = operator.offsets(JOURNAL)[1]
    trim(operator, JOURNAL, end)
    produce(operator, RAWS[60:])
    worker.run(until_end=True)
    del worker  # it is killed: `close` would keep a snapshot
    log.close()
    assert [note for note in sensor.notes if f"trimmed up to offset {end}" in note]
    heir = life(open_log(), tmp_path / "s")
    assert digests(heir.learner) == undisturbed(tmp_path, RAWS)
    assert len(predictions(open_log())) == 120


@pytest.mark.parametrize("how", ["deleted", "replaced"])
def test_a_file_that_is_no_longer_in_its_place_takes_no_commit(tmp_path, how):
    path = tmp_path / "log.db"
    log = SqliteLog(path)
    for topic, count in TOPICS.items():
        log.create_topic(topic.replace("_", "-"), count)
    produce(log, RAWS)
    worker = begun(log, tmp_path / "s")
    ends = "SELECT topic, number, next FROM partitions"
    before = log._store.db.execute(ends).fetchall()
    if how == "replaced":
        shutil.copy(path, tmp_path / "other.db")
        (tmp_path / "other.db").replace(path)
    else:
        path.unlink()
    with pytest.raises(LogError, match=r"log\.db: the file was deleted, moved or replaced"):
        worker.run(until_end=True)
    assert log._store.db.execute(ends).fetchall() == before
    worker.close()


# -- the command --------------------------------------------------------------------------------------------


def test_the_command_that_the_refusal_names(tmp_path):
    site = Site(tmp_path)
    site.learn(RAWS[:60])
    with site.log() as log:
        write_stray(log, b"somebody's")
    refused = site.command("run", "--until-end", code=1).stderr
    assert "10 bytes that are not a journal record; if another program wrote that" in refused
    words = refused[refused.rindex("streamnb journal") :].partition("`")[0].split()
    assert site.answer(*words[1:]) == {"n": 4, "offsets": [4]}
    for state in (["warning"], []):  # until a snapshot stands after it
        found = site.answer("doctor")["findings"]
        assert [f["state"] for f in found if "passed over" in f["found"]] == state
        site.command("run", "--until-end")
    assert "journal record 1 itself" in site.command("journal", "skip", "1", code=1).stderr


def test_many_strays_make_a_short_message(open_log, tmp_path):
    life(open_log(**TOPICS), tmp_path / "s", RAWS[:20])
    write_stray(open_log(), *[b"x%d" % i for i in range(300)])
    last_of_all = offsets(open_log())[-1]
    with pytest.raises(JournalError, match=f"and 295 more, up to offset {last_of_all}") as refused:
        life(open_log(), tmp_path / "s")
    assert str(refused.value).endswith(f"`streamnb journal skip {offsets(open_log())[-300]}-{last_of_all}`")
    assert len(str(refused.value)) < 2000


def test_the_command_that_the_refusal_names_can_be_pasted_for_many(tmp_path):
    site = Site(tmp_path)
    site.learn(RAWS[:60])
    with site.log() as log:
        write_stray(log, *[b"x%d" % i for i in range(300)])
        strays = offsets(log)[-300:]
    refused = site.command("run", "--until-end", code=1).stderr
    words = refused[refused.rindex("streamnb journal") :].partition("`")[0].split()
    assert "is journal record 3 itself" in site.command("journal", "skip", f"3-{strays[-1]}", code=1).stderr
    assert "1000-2000: there is no record" in site.command("journal", "skip", "1000-2000", code=1).stderr
    assert "got '7-5'" in site.command("journal", "skip", "7-5", code=2).stderr
    assert site.answer(*words[1:]) == {"n": 4, "offsets": strays}
    site.command("run", "--until-end")


def test_long_values_and_keys_are_cut_in_messages():
    assert brief("a" * 200) == "a" * 200
    assert brief("a" * 10**6) == "a" * 200 + "... (1,000,000 characters)"
    with pytest.raises(ConfigError) as refused:
        configured(f"model.{'a' * 100_000}=1")
    assert len(str(refused.value)) < 400


def test_what_is_skipped_already_is_not_written_again(tmp_path, capsys):
    url = f"sqlite:///{tmp_path}/log.db"
    with SqliteLog(tmp_path / "log.db") as log:
        for topic in ("events", "predictions", "metrics", "dead-letters", "journal"):
            log.create_topic(topic, 1)
        log.acquire("test")
        begin(log, factories.identity(configured()), 0.0)
        write_stray(log, b"stray")
        stray = offsets(log)[-1]
    for said in ("passed over by journal record", "passed over already, nothing was written: journal/0"):
        assert main(["journal", "skip", str(stray), "--log", url]) == 0
        assert said in capsys.readouterr().out
    with SqliteLog(tmp_path / "log.db") as log:
        assert len(offsets(log)) == stray + 2
