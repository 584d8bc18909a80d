"""What can fail at once does so before kernels are compiled, which takes minutes."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from streamnb.cli.parser import build_parser
from streamnb.engine.journal.journal_entries import begin
from streamnb.event_logs.sqlite.sqlite_log import SqliteLog
from streamnb.runtime import context, factories
from tests.cli.unwarmed import TOUCHED

UNWARMED = Path(__file__).with_name("unwarmed.py")
NOWHERE = "kafka://127.0.0.1:1 --set kafka.give_up_after=0"
NO_FILE = "No such file or directory"

REFUSED = [
    ("evaluate missing.csv", f"missing.csv: {NO_FILE}"),
    ("evaluate missing.jsonl --holdout 2/3", f"missing.jsonl: {NO_FILE}"),
    ("evaluate plain.jsonl.gz", "the name ends in .gz"),
    ("evaluate good.csv --label-column x", "no column 'x' for label; there are id, text, label"),
    ("evaluate other.csv", "other.csv: no event has a label: there is no column 'label'; the columns are id, text, class; --label-column"),
    ("evaluate good.csv --order missing.txt", f"missing.txt: {NO_FILE}"),
    ("evaluate good.csv --order beyond.txt", "names rows beyond the 1 of the file"),
    ("evaluate good.csv --predictions none/p", f"none/p: {NO_FILE}"),
    ("evaluate good.csv --model nowhere:Model", "--model is 'nowhere:Model'"),
    ("evaluate good.csv --set model.alhpa=1", "did you mean model.alpha?"),
    ("ablate missing.jsonl", f"missing.jsonl: {NO_FILE}"),
    ("ablate good.csv missing.jsonl", f"missing.jsonl: {NO_FILE}"),
    ("ablate good.csv other.csv", "other.csv: no event has a label"),
    ("bench missing.jsonl", f"missing.jsonl: {NO_FILE}"),
    ("bench missing.jsonl --log sqlite:///bench.db", f"missing.jsonl: {NO_FILE}"),
    ("bench empty.jsonl --log sqlite:///bench.db", "no row has both a text with words and a label"),
    ("bench --log sqlite:///none/bench.db", NO_FILE),
    (f"bench --log {NOWHERE}", "127.0.0.1:1"),
    ("latency --log sqlite:///none/latency.db", NO_FILE),
    ("latency --log sqlite:///latency.db --prefix a,b", "--prefix"),
    (f"latency --log {NOWHERE}", "127.0.0.1:1"),
    ("run --set http.listen= --log sqlite:///none/log.db", "none/log.db"),
    ("run --set http.listen= --log sqlite:///other.csv", "other.csv"),
    ("run --set http.listen= --log sqlite:///parts.db --set topics.journal=events --set topics.events=e", "2 partitions, not 1"),
    ("run --log sqlite:///log.db --set http.listen=127.0.0.1:PORT", "which cannot be listened on"),
    ("run --set http.listen= --log sqlite:///log.db --set snapshots.folder=good.csv", "cannot list good.csv: Not a directory"),
    (f"run --set http.listen= --log {NOWHERE}", "127.0.0.1:1"),
    ("run --set http.listen= --config missing.toml", "missing.toml"),
    ("run --set http.listen= --set events.label=$.no --log sqlite:///begun.db", 'under this configuration: events.label was "$.label" and is "$.no"'),
    ("compare missing.csv --against model.kind=naive_bayes", f"missing.csv: {NO_FILE}"),
    ("replay missing.csv --log sqlite:///log.db", f"missing.csv: {NO_FILE}"),
    (f"replay good.csv --log {NOWHERE}", "127.0.0.1:1"),
    ("demo --folder good.csv/demo", "good.csv/demo: Not a directory"),
    ("demo --folder /proc", "/proc"),
    ("snapshot rollback --to 1 --log sqlite:///missing.db", "there is no log at missing.db"),
    ("snapshot rollback --to 0 --log sqlite:///parts.db", "no topic 'journal'"),
    ("snapshot rollback --to 0 --log sqlite:///empty.db", "the journal of sqlite:///empty.db is empty"),
    ("snapshot rollback --to 0 --log sqlite:///begun.db", "there is nothing after 0 to undo"),
    ("snapshot diff 0 1 --log sqlite:///begun.db", "there is no journal record 1"),
    ("warm anything", "unrecognized arguments"),
]  # fmt: skip
RIGHT = [
    "evaluate good.csv",
    "ablate good.csv",
    "run --set http.listen= --log sqlite:///log.db",
    "run --until-end --set http.listen=127.0.0.1:PORT --log sqlite:///log.db",  # it goes on without metrics
    "warm",
]


@pytest.fixture(scope="module")
def answers(tmp_path_factory):
    """Command -> exit code and what it said, of all of them in one process that forks."""
    folder = tmp_path_factory.mktemp("unwarmed")
    (folder / "good.csv").write_text("id,text,label\n1,a,x\n")
    (folder / "other.csv").write_text("id,text,class\n1,a,x\n")
    (folder / "plain.jsonl.gz").write_text("{}\n")
    (folder / "empty.jsonl").write_text("")
    (folder / "beyond.txt").write_text("7\n")
    with SqliteLog(folder / "parts.db") as log:
        log.create_topic("events", 2)
    options = build_parser().parse_args(["run", "--log", f"sqlite:///{folder / 'begun.db'}"])
    config = context.load_config(options)
    with context.open_log(config) as log:
        log.acquire("a")
        begin(log, factories.identity(config), 0.0)
    with SqliteLog(folder / "empty.db") as log:
        log.create_topic("journal", 1)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        commands = [*(command for command, _ in REFUSED), *RIGHT]
        orders = [command.replace("PORT", port).split() for command in commands]
        done = subprocess.run(
            [sys.executable, UNWARMED],
            cwd=folder,
            input=json.dumps(orders),
            env=os.environ
            | {"NUMBA_CACHE_DIR": str(folder / "kernels"), "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )  # fmt: skip
    return dict(zip(commands, json.loads(done.stdout), strict=True))


@pytest.mark.parametrize(("command", "says"), REFUSED)
def test_what_is_wrong_is_said_before_kernels_are_compiled(answers, command, says):
    code, said = answers[command]
    assert code in {1, 2}, said  # 99: a kernel was touched
    assert says in said.splitlines()[-1]
    assert "compiling" not in said


@pytest.mark.parametrize(("said", "code"), [("cannot be listened on", 1), ("under this configuration", 2)])
def test_only_what_a_restart_does_not_mend_ends_with_2(answers, said, code):
    """As `RestartPreventExitStatus` of the unit has it."""
    (command,) = [command for command, says in REFUSED if said in says]
    assert answers[command][0] == code


@pytest.mark.parametrize("command", RIGHT)
def test_what_is_right_comes_to_the_kernels(answers, command):
    """Or the test above would show nothing."""
    assert answers[command][0] == TOUCHED
