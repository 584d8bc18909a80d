"""A reload changes all that may change in a running process, or nothing; and it says which."""

from __future__ import annotations

import argparse
import hashlib
import http.client
import json
import logging
import os
import pty
import signal
import sys
from contextlib import closing

import pytest

from streamnb import config as configuration
from streamnb.cli import build_parser
from streamnb.config import SettingChange
from streamnb.config.config_rendering import SHAPELESS
from streamnb.config.reloadable_settings import RELOADABLE, setting_changes
from streamnb.errors import ConfigError, RestartRequired
from streamnb.event_logs.sqlite.sqlite_log import SqliteLog
from streamnb.persistence.snapshot_folder import SnapshotFolder
from streamnb.runtime import context, factories
from streamnb.runtime.reloading import HangUpSignal, Reload
from streamnb.telemetry.log_output import OUTPUT
from tests.support.program import Program, until
from tests.support.service import produce, raw_events, read_topic

TOKENS = {role: f"{role}-token-of-some-length" for role in ("admin", "ask")}


@pytest.fixture
def said():
    """The messages that were logged, without their lines on standard error."""
    found = []

    class Collector(logging.Handler):
        def emit(self, record):
            found.append(record.msg)

    logger, handler = logging.getLogger("streamnb"), Collector()
    before = logger.level
    logger.addHandler(handler)
    logger.setLevel("INFO")
    yield found
    logger.removeHandler(handler)
    logger.setLevel(before)
    OUTPUT.configure(configuration.LogOutputConfig())


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "streamnb.toml"
    path.write_text("")
    return path


def reload_of(file, *given):
    options = argparse.Namespace(config=str(file), set=list(given))
    return Reload(context.read_config(options), lambda: context.read_config(options), options)


def test_no_reloaded_key_is_part_of_the_hash():
    assert {key.partition(".")[0] for key in RELOADABLE} <= set(SHAPELESS)


@pytest.mark.parametrize("key", sorted(RELOADABLE))
def test_each_reloaded_key_changes_alone_and_is_named(file, said, key):
    kind = configuration.KEYS[key]
    before = configuration.load(None, {}, [])
    value = next(
        text for text in ('"json"', '"warning"', '"7s"', "7", "true") if _differs(file, key, text, before)
    )
    file.write_text("")
    reload, applied = reload_of(file), []
    reload.add(lambda config: lambda: applied.append(config))
    file.write_text(f"{key} = {value}\n")
    [change] = reload()
    assert (change.key, change.before == change.after) == (key, False)
    assert change.after == kind.write(_value(applied[0], key))
    assert (said[-1].event, said[-1].fields["changes"]) == ("configuration-reloaded", [change._asdict()])
    assert reload() == []  # the running configuration is the new one
    assert str(said[-1]) == "reloaded the configuration: no key has another value"


def _differs(file, key, text, before):
    file.write_text(f"{key} = {text}\n")
    try:
        return _value(configuration.load(file, {}, []), key) != _value(before, key)
    except ConfigError:
        return False


def _value(config, key):
    section, name = key.split(".")
    return getattr(getattr(config, section), name)


@pytest.mark.parametrize(
    ("text", "keys", "why"),
    [
        ('commit.interval = "7s"\n[snapshots', [], "is not TOML"),
        ('commit.interval = "7s"\nlog_output.level = "loud"', [], "log_output.level"),
        ('commit.interval = "7s"\ncommit.intervall = "7s"', [], "commit.intervall"),
        ('commit.interval = "7s"\nmodel.alpha = 2.0\nmodel.kind = "naive_bayes"', ["model.kind", "model.alpha"], "doctor"),
        ('commit.interval = "7s"\nsnapshots.folder = "elsewhere"', ["snapshots.folder"], "restart it"),
        ('commit.interval = "7s"\nhttp.listen = "127.0.0.1:1"', ["http.listen"], "restart it"),
        ('commit.interval = "7s"\n[[webhooks]]\nurl = "https://hook.example"\nsend = "decisions"', [], "webhooks[0]"),
        ('commit.interval = "7s"\n[[webhooks]]\nname = "w"\nurl = "https://hook.example"\nsend = "predictions"\nsecret_file = "s"', ["webhooks"], "restart it"),
    ],
)  # fmt: skip
def test_what_is_wrong_or_needs_a_restart_changes_nothing(file, said, text, keys, why):
    reload, applied = reload_of(file), []
    reload.add(lambda config: lambda: applied.append(config))
    file.write_text(text)
    with pytest.raises(RestartRequired if keys else ConfigError) as refused:
        reload()
    assert sorted(getattr(refused.value, "keys", [])) == sorted(keys)
    [message] = said
    assert (message.event, sorted(message.fields["keys"])) == ("reload-refused", sorted(keys))
    assert why in str(message)
    assert "nothing was reloaded" in str(message)
    assert applied == []
    arguments = message.fields["command"].split()
    assert arguments[0] == "streamnb"
    assert build_parser().parse_args(arguments[1:]).config == str(file)
    file.write_text('commit.interval = "7s"')
    assert [change.key for change in reload()] == ["commit.interval"]


def test_a_part_that_cannot_be_prepared_leaves_every_part_as_it_was(file, said):
    reload, applied = reload_of(file), []

    def refuse(_):
        raise ConfigError("--token-file: gone")

    reload.add(lambda config: lambda: applied.append(config))
    reload.add(refuse)
    file.write_text('log_output.format = "json"')
    form = OUTPUT.form
    with pytest.raises(ConfigError, match="gone"):
        reload()
    assert (applied, OUTPUT.form) == ([], form)
    assert [message.event for message in said] == ["reload-refused"]


def test_a_worker_commits_and_keeps_snapshots_by_the_new_settings(tmp_path, file):
    before = configuration.load(
        file, {}, [f"log.url=sqlite:///{tmp_path}/log.db", f"snapshots.folder={tmp_path}/kept"]
    )
    text = 'commit = {events = 7, interval = "3s"}\nsnapshots = {keep = 9, every = "4s", every_events = 11, max_replay = "5s"}'  # fmt: skip
    with closing(context.open_log(before)) as log:
        worker = factories.worker(before, factories.learner(before), log)
        file.write_text(text)
        factories.reconfigure(worker, configuration.load(file, {}, []))
        policy, folder = worker.context.policy, worker.context.snapshots
        assert (policy.commit_events, policy.commit_seconds) == (7, 3.0)
        assert (policy.snapshot_seconds, policy.snapshot_events, policy.snapshot_replay) == (4.0, 11, 5.0)
        assert isinstance(folder, SnapshotFolder)
        assert folder.keep == 9


def lines(command):
    return [json.loads(line) for line in command.said().splitlines() if line.startswith("{")]


def awaited(command, event, n=1):
    until(lambda: [one["event"] for one in lines(command)].count(event) == n, command.said)
    return [one for one in lines(command) if one["event"] == event][-1]


@pytest.fixture
def program(tmp_path):
    before = signal.signal(
        signal.SIGHUP, signal.SIG_DFL
    )  # under nohup it is ignored, and a child inherits that
    made = Program(
        tmp_path,
        f"sqlite:///{tmp_path / 'log.db'}",
        model_keys={"kind": "naive_bayes"},
        log_output={"format": "json"},
        commit={"interval": "50ms"},
    )
    yield made
    made.close()
    signal.signal(signal.SIGHUP, before)


@pytest.mark.thorough
def test_a_learner_reloads_by_signal_and_learns_on(program, tmp_path):
    whole = program.file.read_text()
    command = program.start("run")
    awaited(command, "topics-used")
    command.process.send_signal(signal.SIGHUP)  # it may come before there is anything to reload
    awaited(command, "configuration-reloaded")
    program.file.write_text(whole.replace('"50ms"', '"70ms"'))
    command.process.send_signal(signal.SIGHUP)
    told = awaited(command, "configuration-reloaded", 2)
    assert told["changes"] == [{"key": "commit.interval", "before": '"50ms"', "after": '"70ms"'}]
    program.file.write_text(whole[: len(whole) // 2])
    command.process.send_signal(signal.SIGHUP)
    refused = awaited(command, "reload-refused")
    assert refused["level"] == "warning"
    assert refused["command"].startswith("streamnb ")
    program.file.write_text(whole.replace('"json"', '"text"'))
    command.process.send_signal(signal.SIGHUP)
    until(lambda: " info configuration-reloaded " in command.said())
    with SqliteLog(tmp_path / "log.db") as log:
        produce(log, raw_events(1), program.topics["events"])
        until(lambda: read_topic(log, program.topics["predictions"]))
    assert command.stop().process.returncode == 0, command.said()
    assert "learner-stopped stopped: 1 event" in command.said()


def test_a_server_reloads_settings_tokens_and_certificate_for_an_admin(program, tmp_path):
    whole, tokens = program.file.read_text(), tmp_path / "tokens"

    def allow(*roles):
        digests = [configuration_digest(TOKENS[role]) for role in roles]
        tokens.write_text(
            "".join(f"{role} {role} {digest}\n" for role, digest in zip(roles, digests, strict=True))
        )

    allow("admin", "ask")
    program.run("topics", "create")
    command = program.start("serve", "--listen", "127.0.0.1:0", "--token-file", str(tokens))
    port = awaited(command, "http-served")["port"]

    def ask(role, method="POST", path="/reload"):
        with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=30)) as connection:
            connection.request(method, path, headers={"Authorization": f"Bearer {TOKENS[role]}"})
            answer = connection.getresponse()
            return answer.status, json.loads(answer.read())

    assert ask("ask")[1]["code"] == "missing-role"
    assert ask("admin") == (200, {"changes": []})
    program.file.write_text(whole.replace('"50ms"', '"70ms"'))
    allow("ask")
    status, answer = ask("admin")
    assert (status, answer["changes"][0]["key"]) == (200, "commit.interval")
    assert ask("admin")[1]["code"] == "unauthorized"  # from the tokens of the last reload
    allow("admin", "ask")
    command.process.send_signal(signal.SIGHUP)
    awaited(command, "configuration-reloaded", 3)
    assert ask("admin") == (200, {"changes": []})
    for text, code, status in [
        (whole.replace("naive_bayes", "mixture"), "restart-required", 409),
        (whole[: whole.index("=")], "configuration-invalid", 422),
    ]:
        program.file.write_text(text)
        answered, problem = ask("admin")
        assert (answered, problem["code"]) == (status, code)
        assert "--config" in problem["detail"] or code == "configuration-invalid"
    program.file.write_text(whole)
    tokens.write_text("short")
    assert "--token-file" in ask("admin")[1]["detail"]
    assert ask("ask", "GET", "/openapi.json")[0] == 200  # with the former tokens
    assert command.stop().process.returncode == 0


def configuration_digest(token):
    return hashlib.sha256(token.encode()).hexdigest()


CHILD = """
import signal, sys, time
from streamnb.runtime.reloading import HangUpSignal
def stop(*_):
    open(sys.argv[1], "w").write("stopped")
    sys.exit(0)
signal.signal(signal.SIGTERM, stop)
signal.signal(signal.SIGHUP, signal.SIG_DFL)
hang_up = HangUpSignal()
hang_up.begin(lambda: open(sys.argv[1], "w").write("reloaded"))
open(sys.argv[1], "w").write("begun")
while True:
    time.sleep(0.05)
"""


def test_a_terminal_that_closes_stops_what_a_signal_of_an_operator_reloads(tmp_path):
    file = tmp_path / "said"
    child, terminal = pty.fork()
    if not child:
        os.execv(sys.executable, [sys.executable, "-c", CHILD, str(file)])  # noqa: S606
    try:
        until(lambda: file.exists() and file.read_text() == "begun")
        os.kill(child, signal.SIGHUP)
        until(lambda: file.read_text() == "reloaded")
        os.close(terminal)
        until(lambda: file.read_text() == "stopped")
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def test_nohup_keeps_the_signal_ignored():
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        HangUpSignal()
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


def test_a_change_is_shown_as_toml_and_a_secret_is_not():
    before, after = (
        configuration.load(None, {"STREAMNB_KAFKA__PASSWORD": word}, ["kafka.username=me"]) for word in ("one", "two")
    )  # fmt: skip
    assert setting_changes(before, after) == [SettingChange("kafka.password", "a secret", "a secret")]
