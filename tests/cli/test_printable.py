"""What the command line prints about data moves no cursor and feigns no line."""

from __future__ import annotations

import json

import pytest

from streamnb.cli import main
from streamnb.event_logs.sqlite.sqlite_log import SqliteLog
from streamnb.formats.terminal_text import left_out, printable

NASTY = ["a\nFAKE verified: all equal", "b\x1b[2J\x1b]0;pwn\x07", "c\u202e\x00\x9b2J", "d\u2028\r\x7f"]
WORDS = ["w\x1b[31m", "x\u2066y", "z\nFAKE", "v\u200f"]


@pytest.fixture
def file(tmp_path):
    events = [
        {
            "id": f"e{i}\x07",
            "text": WORDS[i % 4],
            "features": {f"f\n{WORDS[i % 3]}": WORDS[i % 3], f"n{WORDS[0]}": 0.5 * i},
            "label": NASTY[i % 4],
        }
        for i in range(80)
    ]
    path = tmp_path / "events.jsonl"
    path.write_text("".join(json.dumps(event) + "\n" for event in [*events, {"id": [7]}]))
    return path


@pytest.mark.parametrize("hypotheses", [(), ("--set", "model.kind=naive_bayes")])
def test_what_is_said_of_data_is_printable(file, tmp_path, capsys, hypotheses):
    log = ["--log", f"sqlite:///{tmp_path}/log.db"]
    for arguments in [
        ["evaluate", str(file)],
        ["replay", str(file), *log],
        ["run", "--until-end", "--details", *log, "--set", "http.listen="],
        ["inspect", *log],
    ]:
        said = main([*arguments, *(hypotheses if arguments[0] != "replay" else ())])
        told = capsys.readouterr()
        assert said == 0, told.err
        for line in (told.out + told.err.replace("\rkernels", "\nkernels")).split("\n"):
            assert line.isprintable()
            assert not line.startswith("FAKE")
        if arguments[0] != "replay":
            assert r"a\nFAKE verified" in told.out
            assert r"b\x1b[2J\x1b]0;pwn\x07" in told.out
            assert r"c\u202e\x00\x9b2J" in told.out


def test_an_error_is_one_line_of_printable_characters(capsys):
    assert main(["config", "check", "--set", "model.al\x1b[2J\npha=1"]) == 2
    told = capsys.readouterr().err
    assert told.endswith("\n")
    assert told[:-1].isprintable()


@pytest.mark.parametrize(
    "command",
    [
        "token \udcff",
        "read \udcff",
        "replay e.jsonl --topic \udcff",
        "replay e.jsonl --key \udcff",
        "forget --key \udcff",
        "forget --where a=\udcff",
        "label a b --source \udcff",
        "label \udcff b --set topics.labels=l",
        "labels withdraw --source \udcff",
        "explain a --against \udcff",
        "explain --id \udcff",
        "evaluate e.jsonl --reveal \udcff",
        "evaluate e.jsonl --model \udcff:x",
        "evaluate e.jsonl --set model.name=\udcff",
        "compare e.jsonl --against model.name=\udcff",
        "topics plan --principal \udcff",
        "joint table.csv P(\udcff)",
    ],
)
def test_text_that_is_not_utf_8_is_refused_in_one_line(command, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    SqliteLog("streamnb.db").close()
    assert main(command.split(" ")) == 2
    told = capsys.readouterr().err.splitlines()[-1]
    assert "UTF-8" in told or "this is no label" in told
    assert told.isascii()


def test_what_is_printable_stays():
    for text in ("", "a b", "Grüße, 世界 \N{PARTY POPPER}", r"C:\new"):
        assert printable(text) == text


def test_what_was_left_out_is_one_line_for_each_reason_that_there_was():
    assert (
        left_out({"without a label": 1, "refused as dead letters": 0})
        == "left out: 1 event without a label\n"
    )
    assert left_out({"without a label": 1200}) == "left out: 1,200 events without a label\n"
    assert left_out({}) == ""
