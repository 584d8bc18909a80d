"""``streamnb snapshot list|diff|rollback``, as a user runs it."""

from __future__ import annotations

import json
import os

import msgspec
import pytest

from streamnb.engine.ports import NewRecord, Partition
from streamnb.event_logs.sqlite.sqlite_log import SqliteLog
from streamnb.formats.journal_record import decode_journal
from streamnb.persistence.snapshot_folder import SnapshotFolder
from tests.support import commands
from tests.support.program import Program, until
from tests.support.service import predictions, raw_events, read_topic
from tests.support.topics_of_logs import trim

pytestmark = pytest.mark.thorough

RAWS = raw_events(300, seed=41)
FLAGS = ["--log", "sqlite:///log.db", "--set", "commit.events=20", "--set", "snapshots.every_events=1",
         "--set", "snapshots.keep=100", "--set", "http.listen=", "--set", "log.session_timeout=500ms",
         "--set", "metrics.every=0s"]  # fmt: skip


class Site:
    """A folder with an embedded log, and the commands on it."""

    def __init__(self, folder):
        self.folder = folder
        self.flags = FLAGS
        self.snapshots = SnapshotFolder(folder / "log.db.snapshots", keep=100)

    def command(self, *arguments, flags=None, code=0):
        done = commands.run([*arguments, *(self.flags if flags is None else flags)], cwd=self.folder)
        assert done.returncode == code, done.stderr
        assert "Traceback" not in done.stderr
        return done

    def answer(self, *arguments, **options):
        return json.loads(self.command(*arguments, "--json", **options).stdout)

    def learn(self, raws, *more):
        with self.log() as log:
            if "events" not in log.topics():
                log.create_topic("events", 1)
            log.append([NewRecord("events", None, raw) for raw in raws])
        return self.answer("run", "--until-end", flags=[*self.flags, *more])

    def log(self):
        return SqliteLog(self.folder / "log.db")

    def journal(self):
        with self.log() as log:
            return [decode_journal(record.value) for record in read_topic(log, "journal")]

    def digest(self, *more):
        return self.answer("inspect", flags=[*self.flags, *more])["digest"]


@pytest.fixture
def site(tmp_path):
    return Site(tmp_path)


@pytest.fixture
def learned(site):
    """Records 1 to 5 commit 20 events each; the snapshots of all that were kept."""
    site.learn(RAWS[:100])
    return site


def others(raws):
    """The digest of a model that has learned these, in a log of its own."""
    import tempfile
    from pathlib import Path

    with tempfile.TemporaryDirectory() as folder:
        site = Site(Path(folder))
        site.learn(raws)
        return site.digest()


def test_a_list_says_what_every_file_says_and_how_it_stands(learned):
    listed = learned.answer("snapshot", "list")
    journal = {record.n: record for record in learned.journal()}
    numbers = [entry.n for entry in learned.snapshots.list()]
    assert listed["unread"] is None
    assert [snapshot["n"] for snapshot in listed["snapshots"]] == numbers
    assert numbers[-1] == 5
    for snapshot in listed["snapshots"]:
        record = journal[snapshot["n"]]
        path = learned.snapshots.path / snapshot["file"]
        assert snapshot["bytes"] == path.stat().st_size
        assert snapshot["written"] == record.now
        assert (snapshot["readable"], snapshot["state"]) == (True, "good")


def test_a_list_tells_each_fault(learned):
    """Rolled back, torn, of another journal, beyond the end."""
    learned.command("snapshot", "rollback", "--to", 2)
    store = learned.snapshots
    good = store.newest().snapshot
    store.save(msgspec.structs.replace(good, journal_n=90))
    store.save(msgspec.structs.replace(good, journal_n=4))
    torn = store.path / f"snapshot-{3:020d}.snb"
    torn.write_bytes(torn.read_bytes()[:-5] if torn.exists() else b"STREAMNB")
    states = {s["n"]: s for s in learned.answer("snapshot", "list")["snapshots"]}
    assert states[90]["state"] == "beyond the journal's end, record 6"
    assert states[4]["state"] == "of another journal"
    assert states[5]["state"] == "rolled back"
    assert states[6]["state"] == "good"
    assert states[3]["state"].startswith("damaged: ")
    assert [states[n]["readable"] for n in (3, 4, 5, 6, 90)] == [False, True, True, True, True]
    assert states[3]["written"] == learned.journal()[3].now
    text = learned.command("snapshot", "list").stdout
    lines = text.splitlines()
    assert lines[0].split() == "record written bytes state".split()
    assert len(lines) == 1 + len(states)
    assert "rolled back" in text
    assert str(store.path) not in text


def test_a_list_of_a_trimmed_journal(learned):
    with learned.log() as log:
        trim(log, Partition("journal", 0), 4)
    listed = learned.answer("snapshot", "list")["snapshots"]
    states = {snapshot["n"]: snapshot["state"] for snapshot in listed}
    assert states.pop(5) == states.pop(4, "good") == "good"
    assert set(states.values()) <= {"before the journal's beginning, record 4"}


@pytest.mark.parametrize("log", ["gone", "empty", "not a log"])
def test_a_list_needs_no_log(learned, log):
    for path in list(learned.folder.glob("log.db*")):
        if path.is_file():
            path.unlink()
    if log == "empty":
        with learned.log():
            pass
    elif log == "not a log":
        (learned.folder / "log.db").write_text("nothing of the kind" * 100)
    done = learned.command("snapshot", "list")
    assert "snapshot files only, without the journal: " in done.stderr
    assert "readable" in done.stdout
    listed = learned.answer("snapshot", "list")
    assert listed["unread"]
    newest = listed["snapshots"][-1]
    assert (newest["n"], newest["written"], newest["state"]) == (5, None, "readable")


def test_a_list_without_snapshots(site):
    assert "holds no snapshots" in site.command("snapshot", "list").stdout
    assert site.answer("snapshot", "list")["snapshots"] == []
    assert not (site.folder / "log.db").exists()


def counted(raws):
    """Attribute, value -> label -> how often, of what labelled events hold; texts are counted by their words."""
    found = {}
    for raw in raws:
        event = json.loads(raw)
        if event["label"] is None:
            continue
        pairs = [("text", word) for word in event["text"].split()]
        pairs += [(name, event["features"][name]) for name in ("subject", "colour")]
        for pair in pairs:
            counts = found.setdefault(pair, {})
            counts[event["label"]] = counts.get(event["label"], 0) + 1
    return found


def test_a_difference_is_what_the_events_in_between_hold(learned):
    learned.learn(RAWS[100:160], "--set", "metrics.every_events=7")
    flags = [*learned.flags, "--set", "metrics.every_events=7"]
    found = learned.answer("snapshot", "diff", 2, "--top", 1000, flags=flags)
    before, after = counted(RAWS[:40]), counted(RAWS[:160])
    assert (found["before"]["n"], found["after"]["n"], found["continued"]) == (2, 9, True)
    assert (found["before"]["events"], found["after"]["events"]) == (40, 160)
    assert found["attributes"] == {"new": len(after.keys() - before.keys()), "gone": 0}
    changes = {
        (c["attribute"], c["value"], c["label"]): (c["before"], c["after"]) for c in found["strongest"]
    }
    expected = {
        (*pair, label): (before.get(pair, {}).get(label, 0), counts[label])
        for pair, counts in after.items()
        for label in counts
        if counts[label] != before.get(pair, {}).get(label, 0)
    }
    assert changes == expected
    for label in "abc":
        sizes = [abs(c["after"] - c["before"]) for c in found["strongest"] if c["label"] == label]
        assert sizes == sorted(sizes, reverse=True)
    assert found["configuration"] == [{"key": "metrics.every_events", "before": "1000", "after": "7"}]
    labels = [[json.loads(raw)["label"] for raw in raws] for raws in (RAWS[:40], RAWS[:160])]
    for weight in found["classes"]:
        assert [weight["before"], weight["after"]] == [part.count(weight["label"]) for part in labels]
    reported = learned.answer("run", "--until-end", flags=flags)["cumulative"]
    assert found["after"]["accuracy"] == reported["accuracy"]
    assert found["after"]["log_loss"] == reported["log_loss"]
    short = learned.answer("snapshot", "diff", 2, 9, "--top", 2, flags=flags)
    assert len(short["strongest"]) == 6
    text = learned.command("snapshot", "diff", 2, flags=flags).stdout
    for word in (
        "record 2",
        "record 9",
        "accuracy",
        "log loss",
        "metrics.every_events",
        "words and values are new",
        "UTC",
    ):
        assert word in text


def test_long_values_are_cut_in_the_text_of_a_difference_and_whole_in_its_json(learned):
    long = "v" * 100_000
    event = {"id": "x", "features": {"sender": long, "w" * 900: 1.5}, "label": "l" * 900}
    learned.learn([json.dumps(event).encode()])
    assert max(map(len, learned.command("snapshot", "diff", 5).stdout.splitlines())) < 1000
    assert long in {found["value"] for found in learned.answer("snapshot", "diff", 5)["strongest"]}


def test_a_difference_across_a_rollback_says_so(learned):
    learned.command("snapshot", "rollback", "--to", 2)
    found = learned.answer("snapshot", "diff", 5)
    assert not found["continued"]
    assert (found["before"]["events"], found["after"]["events"]) == (100, 40)
    assert found["attributes"]["gone"] == len(counted(RAWS[:100]).keys() - counted(RAWS[:40]).keys())
    assert "is not all in record 6" in learned.command("snapshot", "diff", 5).stdout
    same = learned.answer("snapshot", "diff", 2, 6)
    assert same["continued"]
    assert [same[key] for key in ("classes", "strongest", "configuration")] == [[], [], []]


def test_a_difference_with_what_is_not_there(learned, tmp_path):
    assert (
        "there is no journal record 6: the last is 5"
        in learned.command("snapshot", "diff", 0, 6, code=1).stderr
    )
    nowhere = ["--log", f"sqlite:///{tmp_path}/none.db"]
    for action in (["diff", "0"], ["rollback", "--to", "0"]):
        assert "there is no log" in learned.command("snapshot", *action, flags=nowhere, code=1).stderr


def test_a_rollback_and_back_again(learned):
    end = learned.digest()
    done = learned.command("snapshot", "rollback", "--to", 2).stdout.splitlines()
    assert done[0] == "from journal record 5 back to 2: 40 events"
    assert done[1] == "undone: 3 commits with 60 events"
    assert done[-1] == "rolled back by journal record 6; back again: --to 5"
    assert learned.digest() == others(RAWS[:40])
    record = learned.journal()[6]
    assert (record.kind, record.to, record.positions) == ("rollback", 2, {"events": {"0": 100}})
    assert learned.snapshots.newest().snapshot.journal_n == 6
    told = learned.learn(RAWS[100:140])
    assert told["events"] == 80
    assert learned.digest() == others([*RAWS[:40], *RAWS[100:140]])
    back = learned.answer("snapshot", "rollback", "--to", 5)
    assert back["undone"] == {"commits": 2, "events": 40}
    assert back["restored"] == {"commits": 3, "events": 60}
    assert (back["from"], back["to"], back["n"], back["events"]) == (8, 5, 9, 100)
    assert back["snapshot"].endswith(f"{9:020d}.snb")
    assert learned.digest() == end
    with learned.log() as log:
        assert [p["id"] for p in predictions(log)] == [f"e{i}" for i in range(140)]


def test_a_rollback_to_nothing_that_could_be_undone_is_refused(learned):
    before = learned.journal()
    for to in (5, 99):
        done = learned.command("snapshot", "rollback", "--to", to, code=1)
        assert f"the journal ends with record 5: there is nothing after {to} to undo" in done.stderr
        assert done.stdout == ""
    assert learned.command("snapshot", "rollback", code=2).stdout == ""
    assert learned.command("snapshot", "rollback", "--to", "-1", code=2).stdout == ""
    assert learned.journal() == before


def test_a_rollback_beside_a_learner_is_refused(learned):
    said = learned.folder / "said"
    learner = commands.begin(["run", *learned.flags], cwd=learned.folder, out=said, err=said)
    try:
        until(lambda: "recovered" in said.read_text() or learner.poll() is not None)
        done = learned.command("snapshot", "rollback", "--to", 2, code=1)
        assert done.stderr.splitlines()[-1].startswith("streamnb: stop the learner first: ")
        assert learner.poll() is None
    finally:
        learner.kill()
        learner.wait()
    assert [record.kind for record in learned.journal()] == ["genesis", *["commit"] * 5]
    # One that was killed is waited for.
    assert learned.answer("snapshot", "rollback", "--to", 2)["n"] == 6


def test_a_state_that_cannot_be_recovered_is_not_left(learned):
    """There would be no way back to it."""
    for path in learned.snapshots.path.iterdir():
        path.write_bytes(b"torn")
    done = learned.command("snapshot", "rollback", "--to", 2, code=1)
    assert "no snapshot can be read" in done.stderr
    assert len(learned.journal()) == 6


def test_a_rollback_whose_snapshot_cannot_be_kept_holds_all_the_same(learned):
    (learned.folder / "log.db.snapshots").rename(learned.folder / "away")
    (learned.folder / "file").write_text("no folder")
    flags = [*learned.flags, "--set", "snapshots.folder=blocked"]
    (learned.folder / "blocked").symlink_to(learned.folder / "nowhere" / "deeper")
    done = learned.command("snapshot", "rollback", "--to", 2, flags=flags, code=0)
    assert "rolled back, but no snapshot was kept: " in done.stderr
    assert learned.digest() == others(RAWS[:40])


def test_on_kafka(broker, tmp_path):
    """List, diff and rollback; a learner that lives is in the way, and one on the other side is not."""
    program = Program(
        tmp_path,
        broker.address,
        log={"session_timeout": "6s"},
        commit={"events": 20},
        snapshots={"every_events": 1, "keep": 100},
        metrics={"every": "0s"},
    )
    try:
        program.run("topics", "create")
        for name, raws in (("first", RAWS[:100]), ("second", RAWS[100:140])):
            (tmp_path / name).write_bytes(b"\n".join(raws) + b"\n")
        program.run("replay", tmp_path / "first")
        program.run("run", "--until-end")
        end = json.loads(program.run("inspect", "--json"))
        learner = program.start("run")
        learner.await_word("recovered")
        assert program.fail("snapshot", "rollback", "--to", "2").startswith(
            "streamnb: stop the learner first: "
        )
        learner.stop()
        listed = json.loads(program.run("snapshot", "list", "--json"))
        assert listed["unread"] is None
        assert {snapshot["state"] for snapshot in listed["snapshots"]} == {"good"}
        found = json.loads(program.run("snapshot", "diff", "2", "--json"))
        assert (found["before"]["events"], found["after"]["events"], found["continued"]) == (40, 100, True)
        done = json.loads(program.run("snapshot", "rollback", "--to", "2", "--json"))
        assert (done["n"], done["events"], done["undone"]) == (6, 40, {"commits": 3, "events": 60})
        assert json.loads(program.run("inspect", "--json"))["digest"] == others(RAWS[:40])
        program.run("replay", tmp_path / "second")
        program.run("run", "--until-end")
        expected = others([*RAWS[:40], *RAWS[100:140]])
        assert json.loads(program.run("inspect", "--json"))["digest"] == expected
        program.run("snapshot", "rollback", "--to", "5")
        assert json.loads(program.run("inspect", "--json"))["digest"] == end["digest"]
        assert program.ids("predictions") == [f"e{i}" for i in range(140)]
    finally:
        program.close()


def test_good_snapshots_outlast_a_rollback_though_it_makes_them_too_many(site):
    """Of those that were kept, the undone ones are of no use: dropping the oldest would leave one that is."""
    flags = [*FLAGS, "--set", "snapshots.keep=3"]
    site.flags = flags
    for start in (0, 20, 40):
        site.learn(RAWS[start : start + 20])
    site.command("snapshot", "rollback", "--to", 1)
    assert [entry.n for entry in site.snapshots.list()] == [1, 2, 3, 4]
    site.snapshots.list()[-1].path.write_bytes(b"torn")
    with site.log() as log:
        trim(log, Partition("events", 0), 60)
    assert site.digest() == others(RAWS[:20])


def test_a_state_that_is_beyond_recovery_can_be_left_for_one_that_is_not(site):
    """A crash, and then retention takes the events that came after the last snapshot."""
    site.learn(RAWS[:60])
    good = site.digest()
    last = site.journal()[-1].n
    site.learn(RAWS[60:100])
    for entry in site.snapshots.list():
        if entry.n > last:
            entry.path.unlink()
    with site.log() as log:
        trim(log, Partition("events", 0), 100)
    for refused in (
        ("run", "--until-end"),
        ("run", "--until-end", "--accept-loss"),
        ("snapshot", "rollback", "--to", last),
    ):
        assert "--without-return" in site.command(*refused, code=1).stderr
    answer = site.answer("snapshot", "rollback", "--to", last, "--without-return")
    assert (answer["undone"]["events"], answer["events"]) == (40, 60)
    assert site.digest() == good
    site.learn(RAWS[100:120])
    site.command("verify")


def test_a_rollback_shows_that_it_is_alive_while_it_reads_the_journal(learned, monkeypatch, capsys):
    from streamnb.cli import main

    beats = []
    heartbeat = SqliteLog.heartbeat
    monkeypatch.setattr(SqliteLog, "heartbeat", lambda log: (beats.append(1), heartbeat(log))[1])
    monkeypatch.setattr("streamnb.cli.commands.snapshot.recover", counted_apart(beats))
    monkeypatch.chdir(learned.folder)
    assert main(["snapshot", "rollback", "--to", "2", *FLAGS]) == 0
    capsys.readouterr()
    assert len(beats) >= 6  # one for each record of the journal, recoveries apart


def counted_apart(beats):
    """Recovery, whose signs of life do not count here."""
    from streamnb.engine.journal.recovery import recover

    def recovered(log, snapshots, learner, identity, _=None, **options):
        before = len(beats)
        found = recover(log, snapshots, learner, identity, **options)
        del beats[before:]
        return found

    return recovered


def test_a_pipe_among_the_snapshots_holds_nobody_up(learned):
    os.mkfifo(learned.snapshots.path / f"snapshot-{9:020d}.snb")
    states = {s["n"]: s["state"] for s in learned.answer("snapshot", "list")["snapshots"]}
    assert states[9] == "damaged: it is not a regular file"
    learned.learn(RAWS[100:120])
    assert learned.journal()[-1].n == 6
