"""What an earlier version of the program left behind is gone on with, and the journal says from where on."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path

import msgspec
import pytest
from archives import unpack
from freeze import MODELS, configuration, raw_events
from parameters import on_logs
from service import AtOnce, Ticking, digests, predictions, read_topic

from streamnb import config as configured
from streamnb.adapters.fingerprint import fingerprint
from streamnb.adapters.snapshot_folder import SnapshotFolder
from streamnb.adapters.sqlite.log import SqliteLog
from streamnb.cli import main, wiring
from streamnb.cli.commands.verify import source_of
from streamnb.engine.journal.recovery import recover
from streamnb.engine.journal.snapshot_store import NoSnapshots
from streamnb.engine.ports import NewRecord, Partition, Transaction
from streamnb.engine.verification.findings import CheckResult, Findings
from streamnb.engine.verification.verify import verify
from streamnb.errors import JournalError
from streamnb.wire.codec import READING, decode_event
from streamnb.wire.journal import START, decode_journal, encode_journal, seal
from streamnb.wire.snapshot import Part
from streamnb.worker import Worker

HERE = Path(__file__).parent
OURS = HERE / f"{fingerprint()['streamnb']}.tar.xz"
ARCHIVES = sorted({*HERE.glob("*.tar.xz")} - {OURS})
OUTPUTS = ("predictions", "metrics", "dead-letters")
NEW = list(raw_events(130, seed=4))


@pytest.fixture(params=ARCHIVES, ids=lambda path: path.name.removesuffix(".tar.xz"))
def left(request, tmp_path):
    """(What a version left behind in a folder each, the version's name)."""
    unpack(request.param, tmp_path / "left")
    return tmp_path / "left", request.param.name.removesuffix(".tar.xz")


def journal(log):
    return [decode_journal(record.value) for record in read_topic(log, "journal")]


def config_of(model, folder):
    toml = folder / "streamnb.toml"
    toml.write_text(configuration(model, f"sqlite:///{folder / 'log.db'}"))
    return configured.load(toml, {}, [])


def brought(log, folder, store):
    """The frozen log in another one, as its learner would have written it there: topics have ids of their own."""
    digests, ids = {}, {}
    with closing(SqliteLog(folder / "log.db")) as old:
        events = {p: read_topic_of(old, p) for p in old.partitions("events")}
        log.append([NewRecord("events", r.key, r.value) for p in sorted(events) for r in events[p]])
        assert {p: [r.value for r in read_topic_of(log, p)] for p in events} == {
            p: [r.value for r in found] for p, found in events.items()
        }
        outputs = {name: read_topic(old, name) for name in OUTPUTS}
        log.acquire("the version before")
        previous = START
        for record in journal(old):
            named = {"topic_ids": {"events": log.topic_id("events")}} if record.topic_ids else {}
            changed = seal(msgspec.structs.replace(record, previous=previous, **named))
            digests[record.n], previous = changed.digest, changed.digest
            ids |= changed.topic_ids
            made = [
                NewRecord(t, r.key, r.value, r.headers)
                for t in OUTPUTS
                for r in outputs[t]
                if time_of(r) == record.now
            ]
            if record.n == 1:
                made += [
                    NewRecord(r.partition.topic, r.key, r.value, r.headers) for r in outputs["dead-letters"]
                ]
            at = {Partition(t, int(p)): o for t, ps in changed.positions.items() for p, o in ps.items()}
            log.commit(Transaction(record.n, NewRecord("journal", None, encode_journal(changed)), made, at))
    log.close()
    kept = SnapshotFolder(folder / "log.db.snapshots")
    at_most = None
    while (found := newest_or_none(kept, at_most)) is not None:
        at_most = found.journal_n - 1
        parts = dict(found.parts)
        parts["journal"] = Part(parts["journal"].meta | {"topic_ids": ids}, {})
        store.save(msgspec.structs.replace(found, digest=digests[found.journal_n], parts=parts))


def newest_or_none(store, at_most):
    found = store.newest(at_most)
    return None if found is None else found.snapshot


def read_topic_of(log, partition):
    return list(log.read(partition, log.offsets(partition)[0], 10_000))


def time_of(record):
    return None if record.partition.topic == "dead-letters" else json.loads(record.value)["ts"]


def drained(log, store, config, worker=Worker):
    config = wiring.as_begun(config, log)
    one = worker(log, store, wiring.learner(config), wiring.identity(config), wiring.pace(config), Ticking())
    one.start("this version")
    one.run(until_end=True)
    one.close()
    return one.learner


KAFKA = ["default", "naive-bayes"]


@on_logs("model", MODELS, kafka=KAFKA)
def test_a_log_of_the_version_before_is_gone_on_with(open_log, model, left, tmp_path):
    """Counts equal a recount, the state a replay; and one journal record says who goes on."""
    folder, version = left[0] / model, left[1]
    store = AtOnce(tmp_path / "snapshots", 100)
    config = config_of(model, folder)
    brought(open_log(events=2, predictions=1, metrics=1, dead_letters=1, journal=1), folder, store)
    before = journal(open_log())
    log = open_log()
    log.append([NewRecord("events", b"k", raw) for raw in NEW])
    learner = drained(log, store, config)
    written = journal(open_log())[len(before) :]
    assert [record.kind for record in written][:1] == ["program"]
    assert "program" not in [record.kind for record in written[1:]]
    assert (before[0].fingerprint["streamnb"], written[0].fingerprint) == (version, fingerprint())
    assert len(read_topic(open_log(), "predictions")) + learner.dead_letters == 300 + len(NEW)
    found = verify(source_of(config, open_log(), store), Findings(), lambda _: None)
    assert [f for f in found.findings.all() if f.verdict == CheckResult.DIFFERS] == []
    assert found.events >= len(NEW)
    drained(open_log(), store, config)
    assert len(journal(open_log())) == len(before) + len(written)  # told once


@pytest.mark.parametrize("model", ["bayesian-network"])  # all others read numbers by another variance now
def test_what_the_version_before_answered_is_answered_again(model, left):
    """A replay of its whole journal by this program: the same labels, and probabilities to rounding."""
    folder = left[0] / model
    config = config_of(model, folder)
    with closing(SqliteLog(folder / "log.db")) as log:
        published = predictions(log)
        config = wiring.as_begun(config, log)
        learner = wiring.learner(config)
        again = []
        process = learner.process
        learner.process = lambda *given, **named: again.extend(made := process(*given, **named)) or made
        recover(log, NoSnapshots(), learner, wiring.identity(config))
    again = predictions(again)
    for answers in (published, again):
        answers.sort(key=lambda one: (one["model"].events, one["id"]))
    assert [(p["id"], p["label"], p["truth"]) for p in again] == [
        (p["id"], p["label"], p["truth"]) for p in published
    ]
    assert len(published) > 200
    for one, other in zip(again, published, strict=True):
        assert one["probabilities"] == pytest.approx(other["probabilities"], rel=1e-9, abs=1e-12)


def test_the_commands_of_an_operator(left, capsys):
    """The frozen file itself, as it lies there: run, verify, run again."""
    folder = left[0] / "default"
    config_of("default", folder)
    given = ["--config", str(folder / "streamnb.toml")]
    assert main(["run", "--until-end", *given]) == 0
    assert f"streamnb {left[1]}" in capsys.readouterr().err
    assert main(["verify", "--json", *given]) == 0
    assert json.loads(capsys.readouterr().out)["verified"]
    for command in (
        ["inspect", "--json"],
        ["explain", "--place", "0/0", "--as-served", "--json"],
        ["snapshot", "diff", "1", "--json"],
        ["snapshot", "list", "--json"],
        ["rebuild", "--json"],
        ["run", "--dry-run", "5"],
    ):
        assert main([*command, *given]) == 0
        told = capsys.readouterr().out
        assert "byte softmax" not in told
        assert "damaged" not in told
    assert main(["run", "--until-end", *given]) == 0
    assert f"streamnb {left[1]}" not in capsys.readouterr().err


def test_a_kill_between_the_record_and_its_snapshot(left, tmp_path, open_log):
    """The successor recovers from the old snapshot once more, and nothing is told twice."""
    folder = left[0] / "default"
    config = config_of("default", folder)
    store = AtOnce(tmp_path / "snapshots", 100)
    brought(open_log(events=2, predictions=1, metrics=1, dead_letters=1, journal=1), folder, store)

    class Killed(Worker):
        def _begin_saving(self, _):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        drained(log := open_log(), store, config, Killed)
    log.close()
    written = journal(open_log())
    assert [record.kind for record in written[-2:]] == ["program", "config"]  # of a limit that is new
    drained(open_log(), store, config)
    assert [record.kind for record in journal(open_log())].count("program") == 1
    found = verify(source_of(config, open_log(), store), Findings(), lambda _: None)
    assert [f for f in found.findings.all() if f.verdict == CheckResult.DIFFERS] == []


def test_events_that_were_read_by_other_rules_are_not_counted_again(left, monkeypatch):
    """What went before the change of program is taken from the snapshot at it, and the rest is counted."""
    folder = left[0] / "naive-bayes"
    config = config_of("naive-bayes", folder)
    store = AtOnce(folder / "log.db.snapshots", 100)

    def decode(*given):
        return msgspec.structs.replace(decode_event(*given), weight=1.0)

    for reader in ("engine.learner", "engine.verification.log.slices"):
        monkeypatch.setattr(f"streamnb.{reader}.decode_event", decode)
    with closing(SqliteLog(folder / "log.db")) as log:
        log.append([NewRecord("events", b"k", raw) for raw in NEW])
    drained(SqliteLog(folder / "log.db"), store, config)
    with closing(SqliteLog(folder / "log.db")) as log:
        found = verify(source_of(config, log, store), Findings(), lambda _: None)
    assert [f for f in found.findings.all() if f.verdict == CheckResult.DIFFERS] == []
    assert found.events == len(NEW)
    assert any("another version read them by other rules" in f.text for f in found.findings.all())


def test_a_kind_that_left_says_what_learns_its_events_now(tmp_path, capsys):
    """There is a log of a tree by 0.1.0. What the error says is done, and it works."""
    unpack(HERE / "0.1.0.tar.xz", tmp_path)
    config_of("default", folder := tmp_path / "tree-augmented")

    old, new = f"sqlite:///{folder}/log.db", f"sqlite:///{folder}/new.db"

    def run(*command):
        code = main([*command])
        return code, capsys.readouterr()

    given = ["--config", str(folder / "streamnb.toml"), "--set"]
    code, said = run("run", "--until-end", *given, "model.kind=tree_augmented")
    assert (code, 'take "mixture", and begin a new log' in said.err) == (2, True)
    code, said = run("run", "--until-end", *given, "model.kind=mixture")
    assert (code, "tree_augmented" in said.err, "and begin a new log" in said.err) == (1, True, True)
    code, said = run("read", "events", "--log", old)
    (folder / "events.jsonl").write_text(said.out)
    assert run("replay", str(folder / "events.jsonl"), "--log", new)[0] == 0
    code, said = run("run", "--until-end", "--log", new)
    assert code == 0, said.err
    assert json.loads(run("verify", "--json", "--log", new)[1].out)["verified"]
    with closing(SqliteLog(folder / "new.db")) as log:
        assert len(read_topic(log, "predictions")) > 280


def test_an_older_program_is_refused(left, monkeypatch):
    """Events that a later version read by other rules cannot be gone on with by an earlier one."""
    folder = left[0] / "naive-bayes"
    config = config_of("naive-bayes", folder)
    store = SnapshotFolder(folder / "log.db.snapshots")
    drained(SqliteLog(folder / "log.db"), store, config)
    monkeypatch.setattr("streamnb.engine.journal.recovery.READING", 1)
    with pytest.raises(
        JournalError, match=rf"reads events by rules {READING}.*this program knows 1.*run streamnb"
    ):
        drained(SqliteLog(folder / "log.db"), store, config)


# What the other models wrote holds probabilities of numbers, by another variance than now.
@on_logs("model", ["bayesian-network", "logistic-regression"], kafka=["bayesian-network"])
def test_what_this_version_wrote_earlier_is_what_it_writes(open_log, model, tmp_path):
    """Sources may move and change: a journal replays, and a snapshot loads, to the same bytes."""
    written = json.loads(OURS.with_suffix("").with_suffix(".json").read_text())
    other = {name: value for name, value in fingerprint().items() if value != written["fingerprint"][name]}
    if other:
        pytest.skip(f"derived floats are those of another machine: {other}")
    unpack(OURS, tmp_path)
    config, store = config_of(model, tmp_path / model), AtOnce(tmp_path / "snapshots", 100)
    brought(open_log(events=2, predictions=1, metrics=1, dead_letters=1, journal=1), tmp_path / model, store)
    config = wiring.as_begun(config, open_log())
    for kept in (NoSnapshots(), store):
        learner = wiring.learner(config)
        recover(open_log(), kept, learner, wiring.identity(config))
        assert digests(learner) == written[model]
