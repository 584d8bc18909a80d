"""`streamnb run --dry-run`: what would be published is printed, and nothing is written, on both logs."""

from __future__ import annotations

import json
import sqlite3

import pytest

from tests.support.program import Program
from tests.support.service import raw_events

pytestmark = pytest.mark.early(60)

RAWS = raw_events(60, seed=3)


def write(path, raws):
    path.write_bytes(b"".join(raw + b"\n" for raw in raws))
    return path


def timeless(lines):
    """Predictions without the times at which they were made."""
    return [{name: value for name, value in json.loads(line).items() if name != "ts"} for line in lines]


@pytest.fixture(params=["sqlite", pytest.param("kafka", marks=pytest.mark.broker)])
def learned(request, tmp_path):
    """A program that has learned half of the events; the others wait, one that is none among them."""
    is_kafka = request.param == "kafka"
    address = request.getfixturevalue("broker").address if is_kafka else "sqlite:///log.db"
    made = Program(tmp_path, address, snapshots={"every_events": 10}, predictions={"evidence": 2})
    made.run("topics", "create")
    made.run("replay", write(tmp_path / "first.jsonl", RAWS[:30]))
    made.run("run", "--until-end")
    made.run("replay", write(tmp_path / "second.jsonl", [*RAWS[30:40], b"{no json", *RAWS[40:]]))
    yield made
    made.close()


def everything(program):
    """All records, and all that a log keeps beside them; the files of the snapshots."""
    files = sorted(program.folder.glob("*.snapshots/*"))
    kept = {path.name: (path.read_bytes(), path.stat().st_mtime_ns) for path in files}
    assert kept
    if (program.folder / "log.db").exists():
        with sqlite3.connect(program.folder / "log.db") as db:
            return kept, list(db.iterdump())
    return kept, {topic: program.run("read", topic) for topic in program.topics.values()}


def test_it_says_what_run_then_publishes_and_writes_nothing(learned):
    before = everything(learned)
    dry = learned.start("run", "--dry-run", 20)
    told = timeless(dry.output().splitlines())
    assert "dry run: 20 records after journal record " in dry.said()
    assert "19 predictions" in dry.said()
    assert "would change" not in dry.said()
    other = learned.start("run", "--dry-run", 1, "--set", "predictions.evidence=1")
    other.output()
    assert "a run would change the configuration: predictions.evidence: 2 -> 1\n" in other.said()
    assert "/0 offset 40: invalid-json at $" in dry.said()
    assert timeless(learned.run("run", "--dry-run", 1000).splitlines())[:19] == told
    assert everything(learned) == before
    learned.run("run", "--until-end")
    published = learned.run("read", learned.topics["predictions"]).splitlines()
    assert told == timeless(published[30:49])
    assert everything(learned) != before


@pytest.mark.thorough_for("kafka")
def test_a_learner_that_runs_does_not_notice(learned):
    running = learned.start("run")
    running.await_word("reads ")
    before = running.said()  # it may have stood by until its group had settled
    for _ in range(3):
        learned.run("run", "--dry-run", 5)
    assert "60 events" in learned.run("inspect") or running.is_going()
    running.stop()
    assert running.process.returncode == 0
    assert "standing by" not in running.said().removeprefix(before)


def test_a_log_that_is_not_there_is_not_made(tmp_path):
    made = Program(tmp_path, "sqlite:///none.db")
    assert "there is no log at none.db" in made.fail("run", "--dry-run", 3)
    assert not (tmp_path / "none.db").exists()
