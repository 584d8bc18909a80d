"""States of log and snapshots: `run` and `doctor` have one verdict and one remedy, and the remedy works."""

from __future__ import annotations

import json
import shlex
import shutil
from typing import NamedTuple

import pytest

from streamnb.cli import main
from streamnb.engine.ports import Partition
from streamnb.event_logs.sqlite.sqlite_log import SqliteLog
from tests.support.topics_of_logs import delete_topic, trim

EVENTS, JOURNAL = Partition("events", 0), Partition("journal", 0)


class Stream:
    """A folder with an embedded log, and commands in it."""

    def __init__(self, capsys, folder):
        self._capsys, self.folder, self._n = capsys, folder, 0

    def run(self, *arguments):
        code = main([*arguments, *(["--log-format", "json"] if arguments[0] in {"run", "snapshot"} else [])])
        out, err = self._capsys.readouterr()
        return code, out, err

    def learn(self, n=30, *more):
        self.feed(n)
        code, _, err = self.run("run", "--until-end", *more)
        assert code == 0, err

    def feed(self, n=30):
        lines = [
            {"id": f"e{self._n + i}", "text": ("win cash", "lunch at noon")[i % 2], "label": "ab"[i % 2]}
            for i in range(n)
        ]
        self._n += n
        (self.folder / "f.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
        assert self.run("replay", "f.jsonl")[0] == 0

    def change(self, act, *given):
        with SqliteLog(self.folder / "e.db") as log:
            act(log, *given)

    def drop_snapshots(self, keep):
        for path in sorted(self.folder.glob("e.db.snapshots/snapshot-*"))[keep:]:
            path.unlink()


@pytest.fixture
def stream(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("STREAMNB_LOG__URL", "sqlite:///e.db")
    monkeypatch.setenv("STREAMNB_HTTP__LISTEN", "")
    monkeypatch.setenv("STREAMNB_MODEL__KIND", "naive_bayes")
    return Stream(capsys, tmp_path)


def fresh(stream):
    stream.feed()


def whole(stream):
    stream.learn()


def journal_deleted(stream):
    stream.learn()
    stream.change(delete_topic, "journal")


def journal_recreated(stream):
    journal_deleted(stream)
    assert stream.run("topics", "create")[0] == 0


def log_deleted(stream):
    stream.learn()
    (stream.folder / "e.db").unlink()


def older_log(stream):
    stream.learn()
    shutil.copy("e.db", "older.db")
    stream.learn()
    stream.learn()
    shutil.move("older.db", "e.db")


def journal_trimmed(stream):
    stream.learn()
    stream.drop_snapshots(0)
    stream.change(trim, JOURNAL, 1)


def events_trimmed_before_they_were_learned(stream):
    stream.learn()
    stream.feed()
    stream.change(trim, EVENTS, 40)


def events_trimmed_that_a_replay_needs(stream):
    stream.learn()
    stream.learn()
    stream.drop_snapshots(1)
    stream.change(trim, EVENTS, 45)


def events_trimmed_without_a_snapshot(stream):
    stream.learn()
    stream.drop_snapshots(0)
    stream.change(trim, EVENTS, 10)


def events_recreated(stream):
    stream.learn()
    stream.change(delete_topic, "events")
    stream.feed()


def configuration_refused(stream):
    stream.learn(30, "--set", "events.label=$.label")
    (stream.folder / "c.toml").write_text("[metrics]\nwindow = 7\n")


class State(NamedTuple):
    make: object
    check: str = ""  # of doctor's problem
    says: str = ""
    command: str = ""
    accepts: bool = False  # the command makes `run` work
    more: tuple = ()


STATES = [
    State(fresh),
    State(whole),
    State(journal_deleted, "journal", "but the journal is empty; the log was replaced"),
    State(log_deleted, "journal", "but the journal is empty; the log was replaced"),
    State(journal_recreated, "journal", "but the journal is empty; the log was replaced"),
    State(older_log, "journal", "beyond the journal's end"),
    State(journal_trimmed, "journal", "without a snapshot to begin with; bring one back"),
    State(events_trimmed_before_they_were_learned, "recovery", "offsets 30 to 39 were deleted before they were",
          "streamnb run --accept-loss", accepts=True),
    State(events_trimmed_that_a_replay_needs, "recovery", "which the log no longer holds",
          "streamnb snapshot rollback --to ", accepts=True),
    State(events_trimmed_without_a_snapshot, "recovery", "which the log no longer holds"),
    State(events_recreated, "recovery", "was deleted and recreated", "streamnb run --accept-loss", accepts=True),
    State(configuration_refused, "configuration", "the model cannot continue under this configuration",
          more=("--config", "c.toml")),
]  # fmt: skip


@pytest.mark.parametrize("state", STATES, ids=lambda state: state.make.__name__)
def test_run_and_doctor_agree_and_the_remedy_works(stream, state):
    state.make(stream)
    _, out, _ = stream.run("doctor", "--json", *state.more)
    problems = [one for one in json.loads(out)["findings"] if one["state"] == "problem"]
    code, _, err = stream.run("run", "--until-end", *state.more)
    if not state.check:
        assert (problems, code) == ([], 0), err
        return
    (problem,) = problems
    failed = json.loads(err.splitlines()[-1])
    assert (problem["check"], code) == (state.check, failed["code"])
    said = "; ".join(filter(None, (problem["found"], problem["do"])))
    assert failed["message"] == said
    assert state.says in said
    assert (failed["event"], failed["level"]) == ("command-failed", "error")
    assert failed["cause"].partition(":")[0] in {"JournalError", "OtherStream", "OutOfRange", "SnapshotError"}
    if state.command:
        assert failed["command"].startswith(state.command)
    for _ in range(3 if state.accepts else 0):
        _, *command = shlex.split(failed["command"])
        code, _, err = stream.run(*command, *(["--until-end"] if command[0] == "run" else []))
        assert code == 0, err
        code, _, err = stream.run("run", "--until-end")
        if code == 0:
            break
        failed = json.loads(err.splitlines()[-1])
    assert code == 0 or not state.accepts
    if state.accepts:
        _, out, _ = stream.run("doctor", "--json")
        assert json.loads(out)["problems"] == 0
