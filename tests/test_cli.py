"""The commands, as a user runs them: in processes of their own."""

from __future__ import annotations

import gzip
import json
import os
import random
import re
import signal
import subprocess
import sys
import time

import pytest
from service import predictions, raw_events, read_topic

from streamnb.adapters.sqlite_log import SqliteLog
from streamnb.engine.ports import Partition


def streamnb(*arguments, cwd=None, check=True, **environment):
    done = subprocess.run(
        [sys.executable, "-m", "streamnb", *map(str, arguments)],
        cwd=cwd,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **environment},
    )
    assert not check or done.returncode == 0, done.stderr
    return done


def answer(*arguments, **options):
    return json.loads(streamnb(*arguments, "--json", **options).stdout)


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "events.jsonl.gz"
    with gzip.open(path, "wb") as lines:
        lines.writelines(raw + b"\n" for raw in raw_events(2500, seed=11))
    return path


def test_help_is_light():
    """What makes a start slow is what it imports; --help needs none of it."""
    code = (
        "import sys, streamnb.cli as cli\n"
        "try: cli.main(['--help'])\n"
        "except SystemExit: pass\n"
        "print([name for name in ('numpy', 'numba', 'river', 'msgspec', 'sqlite3', 'tqdm', 'pandas') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"
    for command in ("demo", "run", "replay", "evaluate", "inspect", "config"):
        assert re.search(rf"^    {command} ", done.stdout, re.MULTILINE)


def test_evaluate_and_run_give_the_same(file, tmp_path):
    """The same stream: the same predictions, the same bytes of the model, at any size of commit."""
    alone = answer(
        "evaluate", file, "--predictions", tmp_path / "predictions.jsonl", "--set", "model.alpha=0.5"
    )
    expected = [json.loads(line) for line in (tmp_path / "predictions.jsonl").read_text().splitlines()]
    assert alone["events"] == len(expected) == 2500
    for size in (1000, 37):
        flags = [
            "--set",
            f"log.url=sqlite:///log-{size}.db",
            "--set",
            "model.alpha=0.5",
            "--set",
            f"commit.events={size}",
        ]
        answer("replay", file, *flags, cwd=tmp_path)
        ran = answer("run", "--until-end", *flags, cwd=tmp_path)
        assert {k: ran[k] for k in ("events", "learned", "cumulative", "window", "confusion")} == {
            k: alone[k] for k in ("events", "learned", "cumulative", "window", "confusion")
        }
        with SqliteLog(tmp_path / f"log-{size}.db") as log:
            got = [json.loads(record.value) for record in read_topic(log, "predictions")]
        for have, want in zip(got, expected, strict=True):
            assert have | {"ts": 0} == want | {"ts": 0}
        inspected = answer("inspect", *flags, cwd=tmp_path)
        assert inspected["digest"] == alone["model_digest"]


def test_run_survives_kill_9_and_stops_on_sigterm(file, tmp_path):
    """Killed at random moments while events arrive; every event is learned once, and visible once."""
    flags = ["--set", "log.url=sqlite:///log.db", "--set", "commit.events=10", "--set", "log.session_timeout=500ms",
             "--set", "snapshots.every_events=300"]  # fmt: skip
    answer("replay", file, *flags, cwd=tmp_path)
    rng = random.Random(1)
    command = [sys.executable, "-m", "streamnb", "run", *flags]
    killed = 0
    journal = Partition("journal", 0)
    with SqliteLog(tmp_path / "log.db") as log:
        for _ in range(6):
            before = log.offsets(journal)[1]
            worker = subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True)
            while log.offsets(journal)[1] <= before + rng.randrange(3, 20) and worker.poll() is None:
                time.sleep(0.002)
            worker.kill()
            assert worker.wait() == -signal.SIGKILL, worker.stderr.read()
            worker.stderr.close()
            killed += 1
            time.sleep(0.6)  # the log waits for the dead one's session
        assert log.offsets(Partition("predictions", 0))[1] < 2500, "the kills came too late to test anything"
        worker = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        while log.offsets(Partition("predictions", 0))[1] < 2500:
            time.sleep(0.01)
        worker.send_signal(signal.SIGTERM)
        out, _ = worker.communicate(timeout=30)
        assert worker.returncode == 0
        assert b"2,500 events" in out
        got = predictions(log)
    alone = answer("evaluate", file, "--predictions", tmp_path / "predictions.jsonl")
    assert [p["id"] for p in got] == [f"e{i}" for i in range(2500)]
    expected = [json.loads(line) for line in (tmp_path / "predictions.jsonl").read_text().splitlines()]
    assert [p["probabilities"] for p in got] == [p["probabilities"] for p in expected]
    assert answer("inspect", *flags, cwd=tmp_path)["digest"] == alone["model_digest"]
    assert killed == 6


def test_demo_shows_that_it_learns(tmp_path):
    shown = streamnb("demo", "--events", 4000, "--folder", tmp_path).stdout
    assert shown.count("gives the same bytes") == 2
    assert "OTHER BYTES" not in shown
    within = float(re.search(r"([\d.]+)% of", shown)[1])
    assert 90 <= within <= 99
    told = answer("demo", "--events", 4000)
    assert told["messages"]["cumulative"]["accuracy"] > 0.98
    assert told["image_segments"]["cumulative"]["accuracy"] > 0.75
    assert 0.90 <= told["within_two"] <= 0.99


def test_replay_keeps_to_its_rate_and_takes_what_is_malformed(tmp_path):
    lines = [*raw_events(30), b"{", b'{"id": 5}']
    (tmp_path / "events.jsonl").write_bytes(b"\n".join(lines))
    told = answer(
        "replay", tmp_path / "events.jsonl", "--log", "sqlite:///log.db", "--rate", 100, cwd=tmp_path
    )
    assert told["events"] == 32
    assert told["seconds"] >= 0.29  # 32 events at 100 a second; a lower bound cannot be a matter of noise
    with SqliteLog(tmp_path / "log.db") as log:
        found = read_topic(log, "events")
    assert [record.value for record in found] == lines
    assert [record.key for record in found] == [*(b"e%d" % i for i in range(30)), None, None]


def test_inspect_shows_classes_priors_and_strongest_attributes(tmp_path):
    rows = [("free cash win", "spam"), ("win win now", "spam"), ("lunch now", "ham")]
    lines = [
        json.dumps({"id": str(i), "text": t, "features": {"size": i}, "label": y})
        for i, (t, y) in enumerate(rows)
    ]
    (tmp_path / "events.jsonl").write_text("\n".join(lines))
    flags = ["--set", "log.url=sqlite:///log.db"]
    streamnb("replay", "events.jsonl", *flags, cwd=tmp_path)
    nothing = streamnb("inspect", *flags, cwd=tmp_path, check=False)
    assert (nothing.returncode, nothing.stdout) == (1, "")
    assert "nothing has been learned yet" in nothing.stderr
    streamnb("run", "--until-end", *flags, cwd=tmp_path)
    told = answer("inspect", *flags, cwd=tmp_path)
    spam, ham = told["classes"]
    assert (spam["label"], spam["events"], spam["prior"]) == ("spam", 2, 2 / 3)
    assert spam["strongest"][0]["value"] == "win"
    assert ham["strongest"][0]["value"] == "lunch"
    assert told["moments"]["size"]["spam"] == {"n": 2, "mean": 0.5, "variance": 0.25}
    shown = streamnb("inspect", *flags, cwd=tmp_path).stdout
    assert "spam: 2 events, prior 0.6667" in shown


def test_a_holdout_learns_one_part_and_scores_the_other(tmp_path):
    lines = [
        json.dumps(
            {
                "id": str(i),
                "text": "a" if i % 2 else "b",
                "label": "xy"[i % 2],
                "split": "train" if i < 6 else "test",
            }
        )
        for i in range(9)
    ]
    (tmp_path / "events.jsonl").write_text("\n".join(lines))
    for holdout in ("split", "2/3"):
        told = answer("evaluate", tmp_path / "events.jsonl", "--holdout", holdout)
        assert (told["learned"], told["cumulative"]["events"], told["cumulative"]["accuracy"]) == (6, 3, 1.0)
    (tmp_path / "order.txt").write_text("8\n7\n")
    told = answer("evaluate", tmp_path / "events.jsonl", "--order", tmp_path / "order.txt")
    assert (told["events"], told["labels"]) == (2, ["x", "y"])


def test_config_is_checked_and_shown(tmp_path):
    (tmp_path / "c.toml").write_text("[model]\nalpha = 0.25\n")
    assert answer("config", "check", "--config", tmp_path / "c.toml")["valid"] is True
    shown = answer("config", "show", "--config", tmp_path / "c.toml", STREAMNB_MODEL__NAME="other")
    assert (shown["config"]["model"]["alpha"], shown["config"]["model"]["name"]) == (0.25, "other")


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        ([], 2, "required: COMMAND"),
        (["evaluate"], 2, "required: file"),
        (["evaluate", "missing.jsonl"], 1, "missing.jsonl"),
        (["evaluate", "empty.jsonl", "--holdout", "5"], 2, "--holdout"),
        (["evaluate", "empty.jsonl", "--order", "order.txt"], 2, "beyond the 0"),
        (["evaluate", "empty.jsonl", "--config", "missing.toml"], 2, "missing.toml"),
        (["evaluate", "empty.jsonl", "--set", "model.alhpa=1"], 2, "did you mean model.alpha?"),
        (["run", "--set", "log.url=redis://x"], 2, "log.url"),
        (["inspect", "--set", "log.url=sqlite:///missing.db"], 1, "no log at missing.db"),
        (["config", "check", "--set", "model.m=1", "--set", "model.alpha=1"], 2, "model.m"),
    ],
)
def test_what_cannot_be_done_is_said_in_one_line(tmp_path, arguments, code, says):
    (tmp_path / "empty.jsonl").write_text("")
    (tmp_path / "order.txt").write_text("0\n")
    done = streamnb(*arguments, cwd=tmp_path, check=False)
    assert done.returncode == code
    assert says in done.stderr.splitlines()[-1]
    assert "Traceback" not in done.stderr
    assert done.stdout == ""


def test_an_empty_file_is_no_error(tmp_path):
    (tmp_path / "empty.jsonl").write_text("")
    assert answer("evaluate", tmp_path / "empty.jsonl")["events"] == 0
    assert "no labelled event" in streamnb("evaluate", tmp_path / "empty.jsonl").stdout


def test_a_cache_folder_that_cannot_be_written_is_survived(tmp_path):
    """The kernels are compiled in memory then."""
    (tmp_path / "taken").write_text("a file, where a folder would have to be made")
    (tmp_path / "e.jsonl").write_text('{"id":"1","text":"a","label":"x"}')
    blocked = tmp_path / "taken" / "cache"
    done = streamnb(
        "evaluate", tmp_path / "e.jsonl", "--json", NUMBA_CACHE_DIR=str(blocked), HOME=str(blocked)
    )
    assert json.loads(done.stdout)["learned"] == 1
