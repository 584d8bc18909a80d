"""Messages on standard error: forms, levels, whole lines, errors, and what a library user sees."""

from __future__ import annotations

import json
import logging
import os
import pty
import re
import shlex
import signal
import subprocess
import sys
import threading
import warnings
from datetime import datetime

import pytest

from streamnb.cli import main
from streamnb.cli.parser import build_parser
from streamnb.config import LogOutputConfig, load
from streamnb.engine.processing.counters import Counters
from streamnb.engine.sensor import Committed
from streamnb.formats.terminal_text import emit, note, warn
from streamnb.telemetry.log_output import OUTPUT
from streamnb.telemetry.worker_observers import Ticker
from streamnb.values.message_names import MESSAGES
from streamnb.values.messages import Message
from tests.support import commands
from tests.support.program import until

LINE = re.compile(r"(\S+) (info|warning|error) ([a-z-]+) (.*)")
TEXT = "lunch secretword at noon"


def lines_of(text):
    """Messages of a text log, each line of which has all four parts."""
    found = [LINE.fullmatch(line) for line in text.splitlines()]
    assert None not in found, text
    assert all(datetime.fromisoformat(one[1]).tzinfo is not None for one in found)
    assert all(MESSAGES[one[3]] == one[2] for one in found)
    return [(one[2], one[3], one[4]) for one in found]


def objects_of(text):
    """Messages of a JSON log, each line of which is one."""
    found = [json.loads(line) for line in text.splitlines()]
    assert all(datetime.fromisoformat(one["time"]).tzinfo is not None for one in found)
    assert all(MESSAGES[one["event"]] == one["level"] for one in found)
    return found


@pytest.fixture
def written(capsys):
    """Write by a form, and return what came."""

    def write(form, made, **settings):
        with OUTPUT.attached():
            OUTPUT.configure(LogOutputConfig(format=form, **settings))
            made()
        return capsys.readouterr().err

    return write


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Where commands work: a log of its own, and 40 events."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("STREAMNB_LOG__URL", "sqlite:///e.db")
    monkeypatch.setenv("STREAMNB_HTTP__LISTEN", "")
    events = [{"id": f"m{i}", "text": (TEXT, "win cash")[i % 2], "label": "ab"[i % 2]} for i in range(40)]
    (tmp_path / "e.jsonl").write_text("".join(json.dumps(one) + "\n" for one in events))
    return tmp_path


# Forms


def test_a_message_has_time_level_event_and_fields_in_each_form(written):
    made = Message(
        "log-reachable", "the log\nanswers \u202e again", seconds=3.5, most=float("inf"), who={"a": "\udcff"}
    )
    assert written("plain", lambda: note(made)) == "streamnb: the log\\nanswers \\u202e again\n"
    assert written("plain", lambda: warn(made)) == "streamnb: warning: the log\\nanswers \\u202e again\n"
    assert lines_of(written("text", lambda: note(made))) == [
        ("info", "log-reachable", "the log\\nanswers \\u202e again")
    ]
    (found,) = objects_of(raw := written("json", lambda: note(made)))
    assert (found["message"], found["seconds"], found["most"], found["who"]) == (
        "the log\\nanswers \\u202e again", 3.5, None, {"a": "\\udcff"},
    )  # fmt: skip
    assert raw.isascii()
    assert list(found)[:4] == ["time", "level", "event", "message"]


def test_a_field_does_not_replace_what_each_line_has(written):
    (found,) = objects_of(written("json", lambda: emit(Message("log-reachable", "x", level="high", time=1))))
    assert (found["level"], found["level_"], found["time_"]) == ("info", "high", 1)


def test_messages_below_the_level_are_not_written(written):
    def both():
        emit(Message("log-reachable", "quiet"))
        emit(Message("log-unreachable", "loud"))
        note(Message("command-failed", "bad"))

    for level, n in (("info", 3), ("warning", 2), ("error", 1)):
        assert len(written("text", both, level=level).splitlines()) == n


def test_other_libraries_and_python_warnings_have_the_same_form(written):
    def others():
        logging.getLogger("uvicorn.error").error("port %d", 5)
        odd = ValueError("odd")
        logging.getLogger("asyncio").error("task", exc_info=(type(odd), odd, None))
        logging.getLogger("kafka.conn").error("its errors are reported")
        logging.getLogger("numba").info("below warnings")
        with warnings.catch_warnings():
            warnings.simplefilter("always")
            warnings.warn("old", UserWarning, stacklevel=1)

    found = objects_of_any(written("json", others))
    assert [(one["event"], one["level"], one["message"]) for one in found] == [
        ("library-message", "error", "port 5"),
        ("library-message", "error", "task"),
        ("python-warning", "warning", "UserWarning: old"),
    ]
    assert found[0]["logger"] == "uvicorn.error"
    assert (found[1]["cause"], found[1]["traceback"]) == ("ValueError: odd", "ValueError: odd\n")


def objects_of_any(text):
    return [json.loads(line) for line in text.splitlines()]


# Whole lines


@pytest.mark.parametrize("to", ["pipe", "file"])
def test_lines_of_threads_and_processes_never_mix(tmp_path, to):
    program = (
        "import sys, threading\n"
        "from streamnb.config import LogOutputConfig\n"
        "from streamnb.formats.terminal_text import emit\n"
        "from streamnb.telemetry.log_output import OUTPUT\n"
        "from streamnb.values.messages import Message\n"
        "def many(k):\n"
        "    for i in range(300): emit(Message('log-reachable', chr(97 + k) * (37 * i % 3600), k=k, i=i))\n"
        "print('ready', flush=True); sys.stdin.read()\n"
        "with OUTPUT.attached():\n"
        "    OUTPUT.configure(LogOutputConfig(format='json'))\n"
        "    ts = [threading.Thread(target=many, args=(k,)) for k in range(4)]\n"
        "    [t.start() for t in ts]; [t.join() for t in ts]\n"
    )
    path = tmp_path / "log"
    path.write_bytes(b"")
    if to == "pipe":
        read, write = os.pipe()
        parts = []
        reader = threading.Thread(target=lambda: parts.extend(iter(lambda: os.read(read, 65536), b"")))
        reader.start()
    else:
        write = os.open(path, os.O_WRONLY | os.O_APPEND)
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    begun = [subprocess.Popen([sys.executable, "-c", program], stderr=write, **pipes) for _ in range(2)]
    assert [one.stdout.readline() for one in begun] == [b"ready\n"] * 2
    for one in begun:
        one.stdin.close()
        one.stdout.close()
    os.close(write)
    assert [one.wait(60) for one in begun] == [0, 0]
    if to == "pipe":
        reader.join(60)
        path.write_bytes(b"".join(parts))
    found = objects_of(path.read_text())
    assert len(found) == 2 * 4 * 300
    assert all(one["message"] == chr(97 + one["k"]) * (37 * one["i"] % 3600) for one in found)


def test_a_reader_that_is_gone_does_not_stop_a_service(folder):
    assert commands.run(["replay", "e.jsonl"], cwd=folder).returncode == 0
    read, write = os.pipe()
    os.close(read)
    ran = subprocess.run([sys.executable, "-m", "streamnb", "run", "--until-end"], stderr=write, timeout=120, check=False, stdout=subprocess.PIPE)  # fmt: skip
    os.close(write)
    assert (ran.returncode, b"40 learned" in ran.stdout) == (0, True)


# The library


def test_the_library_is_silent_and_a_handler_of_its_user_gets_everything():
    program = (
        "import logging, sys, streamnb\n"
        "from streamnb.formats.terminal_text import warn\n"
        "from streamnb.values.messages import Message\n"
        "warn(Message('label-leak', 'silent', column='x'))\n"
        "class Own(logging.Handler):\n"
        "    def emit(self, record):\n"
        "        print(record.name, record.levelname, record.event, record.fields, record.getMessage())\n"
        "logging.getLogger('streamnb').addHandler(Own())\n"
        "warn(Message('label-leak', 'heard', column='x'))\n"
    )
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ran.stderr == ""
    assert ran.stdout == "streamnb.label-leak WARNING label-leak {'column': 'x'} heard\n"


@pytest.mark.usefixtures("folder")
def test_a_command_leaves_logging_as_it_was(capsys):
    root, own = logging.getLogger(), logging.getLogger("streamnb")
    before = list(root.handlers), own.level, threading.excepthook, warnings.showwarning
    assert main(["evaluate", "e.jsonl", "--log-format", "json", "--log-level", "error"]) == 0
    assert (list(root.handlers), own.level, threading.excepthook, warnings.showwarning) == before
    emit(Message("log-reachable", "after"))
    assert "after" not in capsys.readouterr().err


# Services


def test_a_service_without_a_terminal_writes_lines_and_no_words_of_events(folder):
    assert commands.run(["replay", "e.jsonl"], cwd=folder).returncode == 0
    for form, parse in (("text", lines_of), ("json", objects_of)):
        more = [] if form == "text" else ["--log-format", "json"]
        out, err = folder / f"{form}.out", folder / f"{form}.err"
        begun = commands.begin(["run", *more], cwd=folder, out=out, err=err)
        if form == "text":
            until(lambda: commands.run(["read", "predictions", "--limit", "1"], cwd=folder).stdout)
        else:
            until(lambda err=err: "learner-recovered" in err.read_text())
        begun.send_signal(signal.SIGTERM)
        assert begun.wait(60) == 0
        found = parse(err.read_text())
        events = [one["event"] if form == "json" else one[1] for one in found]
        assert (events[0], events[-1], "learner-progress" in events) == (
            "topics-used",
            "learner-stopped",
            False,
        )
        assert "secretword" not in out.read_text() + err.read_text()
        assert out.read_text() == ""
    assert found[-1]["learned"] == 40


@pytest.mark.usefixtures("folder")
def test_words_are_printed_where_details_are_asked_for(capsys):
    assert main(["replay", "e.jsonl"]) == main(["run", "--until-end", "--set", "model.kind=naive_bayes"]) == 0
    assert "secretword" not in "".join(capsys.readouterr())
    assert main(["run", "--until-end", "--details", "--set", "model.kind=naive_bayes"]) == 0
    assert "secretword" in capsys.readouterr().out


def test_on_a_terminal_a_service_writes_sentences(folder):
    assert commands.run(["replay", "e.jsonl"], cwd=folder).returncode == 0
    leader, follower = pty.openpty()
    ran = subprocess.Popen([sys.executable, "-m", "streamnb", "run", "--until-end"], stderr=follower, stdout=subprocess.DEVNULL)  # fmt: skip
    os.close(follower)
    said = b""
    try:
        while part := os.read(leader, 65536):
            said += part
    except OSError:  # the other end is closed
        pass
    assert ran.wait(60) == 0
    assert said.decode().splitlines()[0].startswith("sqlite:///e.db: reads events, writes ")


def test_progress_is_written_once_a_minute_unless_sentences_are(written, monkeypatch):
    def tick():
        monkeypatch.setattr("time.monotonic", lambda: start)
        ticker = Ticker()
        ticker.followed(0)
        for second in range(125):
            monkeypatch.setattr("time.monotonic", lambda second=second: start + second)
            ticker.committed(Committed(1, 1, Counters(), 0.0, 1.0, []))

    start = 10.0
    assert len(objects_of(written("json", tick))) == len(lines_of(written("text", tick))) == 2
    assert len(written("plain", tick).splitlines()) == 124
    assert len(lines_of(written("text", tick, progress=20.0))) == 6


# Errors


FAILING = [
    (["evaluate", "no.jsonl"], 1, "FileNotFoundError: ", "streamnb evaluate --help"),
    (["evaluate", "e.jsonl", "--set", "model.alpha=-1"], 2, "ConfigError: ", "streamnb config lint --set model.alpha=-1"),
    (["inspect", "--log", "sqlite:///no.db"], 1, "", "streamnb "),
    (["run", "--set", "no.key=1"], 2, "ConfigError: ", "streamnb config lint --set no.key=1"),
    (["verify"], 1, "", "streamnb topics create"),
    (["evaluate", "--bogus"], 2, "usage", "streamnb --help"),
    (["no-command"], 2, "usage", "streamnb --help"),
    (["topics", "no-action"], 2, "usage", "streamnb topics --help"),
    (["serve", "--listen", "nowhere"], 2, "ConfigError: ", "streamnb config lint"),
    (["run", "--config", "bad.toml"], 2, "TOMLDecodeError: ", "streamnb config lint --config bad.toml"),
]  # fmt: skip


@pytest.mark.parametrize(("arguments", "code", "cause", "command"), FAILING)
def test_the_last_error_has_level_event_cause_code_and_a_command_that_runs(
    folder, arguments, code, cause, command
):
    (folder / "bad.toml").write_text("[log_output]\nformat = 'json'\n[")
    ran = commands.run(
        [*arguments, *(["--log-format", "json"] if "--log-format" not in arguments else [])], cwd=folder
    )
    assert ran.returncode == code
    *_, found = objects_of(ran.stderr)
    assert (found["level"], found["event"], found["code"]) == ("error", "command-failed", code)
    assert found["cause"].startswith(cause)
    assert found["command"].startswith(command)
    again = commands.run(shlex.split(found["command"])[1:], cwd=folder)
    assert "usage:" not in again.stderr, "it does not parse"
    assert again.returncode in {0, code}


def test_an_error_in_a_file_is_written_in_the_format_of_the_file(folder, capsys):
    (folder / "c.toml").write_text("[log_output]\nformat = 'json'\n[model]\nalpha = -1\n[no]\nkey = 1\n")
    assert main(["run", "--config", "c.toml"]) == 2
    (found,) = objects_of(capsys.readouterr().err)
    assert found["command"] == "streamnb config lint --config c.toml"
    (folder / "c.toml").write_text("[log_output]\nformat = 'jason'\n")
    assert main(["run", "--config", "c.toml"]) == 2
    ((_, event, text),) = lines_of(capsys.readouterr().err)
    assert event == "command-failed"
    assert 'log_output.format is "jason"; expected "auto", "plain", "text" or "json"' in text


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("form", ["text", "json"])
def test_an_unexpected_error_is_an_error_with_its_traceback(capsys, monkeypatch, form):
    monkeypatch.setattr("streamnb.cli.commands.verify.run", lambda _: {}["no"])
    assert main(["verify", "--log-format", form]) == 1
    err = capsys.readouterr().err
    if form == "json":
        (found,) = objects_of(err)
        assert (found["cause"], found["code"]) == ("KeyError: 'no'", 1)
        assert found["traceback"].startswith("Traceback")
    else:
        found = lines_of(err)
        assert {(level, event) for level, event, _ in found} == {("error", "command-failed")}
        assert found[1][2].startswith("Traceback")
    with pytest.raises(KeyError):
        main(["verify", "--log-format", "plain"])


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("form", ["plain", "text", "json"])
def test_a_service_shows_where_an_unexpected_error_arose_and_quotes_its_text_if_asked(
    capsys, monkeypatch, form
):
    word = TEXT.split()[1]

    def fails(_):
        try:
            int(word)
        except ValueError as error:
            raise KeyError(word) from error

    monkeypatch.setattr("streamnb.cli.commands.run.run", fails)
    assert main(["run", "--log-format", form]) == 1
    err = capsys.readouterr().err
    assert word not in err
    assert err.count("test_log_output.py") == 2
    assert err.index("ValueError: ") < err.rindex("KeyError: "), "the first error first"
    if form != "plain":
        for is_flag in (True, False):
            monkeypatch.setenv("STREAMNB_LOG_OUTPUT__CONTENT", "false" if is_flag else "true")
            more = ["--set", "log_output.content=true"] if is_flag else []
            assert main(["run", "--log-format", form, *more]) == 1
            assert f"KeyError: '{word}'" in capsys.readouterr().err


@pytest.mark.parametrize("form", ["plain", "text", "json"])
def test_a_service_names_the_place_of_a_warning_and_quotes_it_if_asked(capsys, form):
    for content in (False, True):
        with OUTPUT.attached(), warnings.catch_warnings():
            OUTPUT.configure(LogOutputConfig(format=form, content=content), is_service=True)
            warnings.simplefilter("always")
            warnings.warn("secretword", UserWarning, stacklevel=1)
            emit(Message("ids-repeated", "such as 'secretword'", count=3, events=7, first="secretword"))
            emit(Message("log-reachable", "the log answers again"))
        err = capsys.readouterr().err
        assert ("UserWarning" in err, "answers again" in err) == (True, True)
        assert content or f"UserWarning at {__file__}:" in err
        assert err.replace('warn("secretword"', "").count("secretword") == content * (
            3 if form == "json" else 2
        )
        assert ("3 of 7 events have the id of an earlier event" in err) is not content


def test_an_unexpected_error_of_a_thread_is_an_error(written):
    def fails():
        thread = threading.Thread(target=lambda: 1 // 0, name="feed")
        thread.start()
        thread.join()

    (found,) = objects_of(written("json", fails))
    assert (found["event"], found["thread"]) == ("thread-failed", "feed")
    assert found["cause"].startswith("ZeroDivisionError: ")


@pytest.mark.usefixtures("folder")
def test_the_settings_are_outside_of_the_hash_and_flags_win():
    options = build_parser().parse_args(["run", "--log-format", "json", "--set", "log_output.format=text"])
    from streamnb.runtime.context import layers

    assert load(*layers(options)).log_output.format == "json"
