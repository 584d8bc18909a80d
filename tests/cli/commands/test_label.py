"""`streamnb label`: labels from a file or a pipe, written as they come."""

from __future__ import annotations

import json
import subprocess
import sys
import time

import pytest

from streamnb.cli import main
from streamnb.errors import Unavailable
from streamnb.event_logs.sqlite.sqlite_log import SqliteLog

LOG = ["--log", "sqlite:///labels.db", "--set", "topics.labels=labels"]
LABELS = [json.dumps({"id": f"e{i}", "label": "x"}).encode() for i in range(7)]


@pytest.fixture(autouse=True)
def _begun(tmp_path):
    with SqliteLog(tmp_path / "labels.db"):  # events came to it before there were labels
        pass


def written(capsys):
    """The labels in the topic; none while it is not there."""
    capsys.readouterr()
    code = main(["read", "labels", *LOG])
    told, said = capsys.readouterr()
    assert code == 0 or (code == 1 and "labels" in said)
    return told.splitlines()


def test_labels_of_a_pipe_that_stays_open_are_written_as_they_come(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    command = [sys.executable, "-m", "streamnb", "label", "--file", "-", *LOG]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as label:
        label.stdin.write(b"\n".join(LABELS) + b"\n")
        label.stdin.flush()
        deadline = time.monotonic() + 60
        while not (tmp_path / "labels.db").exists() or len(written(capsys)) < 7:
            assert time.monotonic() < deadline, "they are held back"
            time.sleep(0.05)
        assert label.poll() is None
        assert label.communicate(LABELS[0])[0] == b"8 labels written to labels of sqlite:///labels.db\n"
    assert label.returncode == 0


def test_labels_before_a_line_that_is_none_are_written(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "labels.jsonl").write_bytes(b"\n".join([*LABELS[:2], b"{}", LABELS[2]]))
    assert main(["label", "--file", "labels.jsonl", *LOG]) == 1
    said = capsys.readouterr().err
    assert "labels.jsonl, line 3: " in said
    assert said.endswith("labels before it were written to labels: 2\n")
    assert len(written(capsys)) == 2


@pytest.mark.parametrize(
    ("labels", "told"),
    [
        (["spam", "ham", "spam"], []),
        (["spam ", "ham "], ["label 'spam ' has blanks at its ends: it is another class than 'spam'"]),
        (
            ["spam", "Spam", "SPAM", "spam", "sPAM"],
            ["'spam', 'Spam': labels that differ only by", "'spam', 'Spam', 'SPAM': labels that differ"],
        ),
        (["not spam", "not  spam"], ["'not spam', 'not  spam': labels that differ only by"]),
        (["caf\u00e9", "cafe\u0301"], ["'caf\u00e9', 'cafe\u0301': labels that differ only by"]),
        (["ham", "\ufeffham"], [r"'ham', '\ufeffham': labels that differ only by"]),
        ([" ham", "ham"], ["label ' ham' has blanks", "' ham', 'ham': labels that differ"]),
    ],
)
def test_labels_that_look_alike_are_told_once(labels, told, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    lines = [json.dumps({"id": f"e{n}", "label": label}) for n, label in enumerate(labels)]
    (tmp_path / "labels.jsonl").write_text("\n".join([*lines, '{"id": "e0", "label": null}']))
    assert main(["label", "--file", "labels.jsonl", *LOG]) == 0
    said = capsys.readouterr().err.splitlines()
    assert len(said) == len(told)
    assert all(f"streamnb: warning: {text}" in line for text, line in zip(told, said, strict=True))


FILE = ["--file", "labels.jsonl"]


def test_fields_that_no_label_has_are_told_once(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    lines = [json.dumps({"id": "e", "label": "x", "sorce": "me"}), *map(bytes.decode, LABELS)]
    whole = {"id": "e", "label": "x", "source": "a", "weight": 2, "ts": 1790000000}
    since = {"withdraw": True, "source": "a", "since": 1790000000, "ts": 1790000000}
    (tmp_path / "labels.jsonl").write_text("\n".join([*lines * 2, json.dumps(whole), json.dumps(since)]))
    assert main(["label", *FILE, *LOG]) == 0
    (told,) = capsys.readouterr().err.splitlines()
    assert "'sorce': not read; a label has by, id, label, since, source, ts, weight, withdraw" in told


@pytest.mark.parametrize(
    ("sources", "told"),
    [
        ("abcdabcd", 0),
        ("abcde", 1),
        ("abcdefg", 1),
        (["a", "b", "c", "default", None], 0),
        (["a", *"bcd", None], 1),
    ],
)
def test_labels_of_more_sources_than_an_event_takes_are_told_once(
    sources, told, tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    labels = [
        {"id": i, "label": "x"} | ({} if who is None else {"source": who}) for who in sources for i in "ef"
    ]
    (tmp_path / "labels.jsonl").write_text("\n".join(map(json.dumps, labels)))
    assert main(["label", *FILE, *LOG]) == 0
    said = capsys.readouterr().err.splitlines()
    assert len(said) == told
    for line in said:
        assert "refuse a label of 'e', because its source" in line
        assert "an event takes labels of 4 sources and its own label" in line


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["label", "e", "x", "--source", ""], "$.source"),
        (["label", "e", "x", "--ts", "nan"], "a time until now"),
        (["label", "e", "x", "--ts=-inf"], "a time until now"),
        (["label", "e", "x", "--ts", "1790000000000"], "a time until now"),
        (["label", "e", "x", "--ts=-3e9"], "1900 to 2099"),
        (["label", "\udcff", "x"], "this is no label"),
        (["label", "e", "  "], "a label needs a character that can be seen"),
        (["label", "e", "\u200b"], "a label needs a character that can be seen"),
        (["label", "e", "x", *FILE], "--source may go with it"),
        (["label", "--ts", "5", *FILE], "--source may go with it"),
        (["label", "--withdraw", *FILE], "--source may go with it"),
        (["label", "a", "--withdraw", "--weight", "5"], "--weight: what is withdrawn has none"),
        (["labels", "withdraw", "--source", "bot", "--since", "1e30"], "a time until now"),
        (["labels", "withdraw", "--source", "b" * 1001], "1 to 1000 characters"),
    ],
)
def test_what_would_change_nothing_or_something_else_is_refused(tmp_path, monkeypatch, capsys, given, said):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "labels.jsonl").write_bytes(LABELS[0])
    try:
        status = main([*given, *LOG])
    except SystemExit as left:  # the parser does
        status = left.code
    assert status == 2
    assert said in capsys.readouterr().err
    assert not main(["label", "e", "x", *LOG])
    assert len(written(capsys)) == 1


def test_a_line_with_a_label_of_blanks_alone_is_refused(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    blank = json.dumps({"id": "e", "label": "\u3000"}).encode()
    (tmp_path / "labels.jsonl").write_bytes(LABELS[0] + b"\n" + blank)
    assert main(["label", *FILE, *LOG]) == 1
    assert "line 2: out-of-range at $.label: a label needs a character" in capsys.readouterr().err
    assert len(written(capsys)) == 1


def test_a_line_of_a_time_far_ahead_is_refused_unless_such_times_are_meant(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    ahead = [{"id": "e", "label": "y", "ts": 4e9}, {"withdraw": True, "source": "bot", "ts": 4e9}]
    for line in ahead:
        (tmp_path / "labels.jsonl").write_bytes(LABELS[0] + b"\n" + json.dumps(line).encode())
        assert main(["label", *FILE, *LOG]) == 1
        said = capsys.readouterr().err
        assert "labels.jsonl, line 2: out-of-range at $.ts: " in said
        assert "s after the log recorded the label, more than a day" in said
        assert said.endswith("labels before it were written to labels: 1\n")
    assert main(["label", *FILE, *LOG, "--set", "events.clock=event"]) == 0
    assert [line.count("4000000000") for line in written(capsys)] == [0, 0, 0, 1]


def test_what_was_perhaps_written_is_said_when_the_log_does_not_answer(tmp_path, monkeypatch, capsys):
    """Whoever sends the file again changes nothing by the lines that were written."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "labels.jsonl").write_bytes(b"\n".join(LABELS[:3]))
    append, given = SqliteLog.append, []

    def appended(log, records):
        append(log, records)
        given.append(len(records))
        if len(given) == 2:
            raise Unavailable("no answer")

    monkeypatch.setattr(SqliteLog, "append", appended)
    monkeypatch.setattr("streamnb.cli.commands.label._AT_ONCE", 2)
    assert main(["label", *FILE, *LOG]) == 1
    said = capsys.readouterr().err
    assert "2 labels written, the next 1 perhaps: send all of them again, in their order" in said
    assert said.endswith("no answer\n")
    assert len(written(capsys)) == 3


def test_the_source_of_a_file_is_that_of_lines_that_name_none(tmp_path, monkeypatch, capsys):
    """However its lines end, with a mark at its beginning, and empty ones among them."""
    monkeypatch.chdir(tmp_path)
    lines = [b"\xef\xbb\xbf" + LABELS[0], b"", b"  ", b'{"id":"e","label":"y","source":"bot"}', b""]
    (tmp_path / "labels.jsonl").write_bytes(b"\r\n".join(lines))
    assert main(["label", *FILE, "--source", "analyst", *LOG]) == 0
    assert [line.count(name) for line, name in zip(written(capsys), ["analyst", "bot"], strict=True)] == [
        1,
        1,
    ]


def test_a_label_of_an_id_that_no_event_has_is_reported(tmp_path, monkeypatch, capsys):
    """An event may be predicted, or wait to be; a label before both is the first sign of a wrong id."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "events.jsonl").write_text('{"id": "e1", "text": "w"}\n{"id": "e2", "text": "w"}\n')
    assert main(["replay", "events.jsonl", *LOG]) == 0

    def warning_of(event_id):
        capsys.readouterr()
        assert main(["label", event_id, "x", *LOG, "--json"]) == 0
        out, err = capsys.readouterr()
        assert json.loads(out)["labels"] == 1
        return err

    unknown = "streamnb: warning: no event 'e9' is among the newest 100,000 predictions, or waits"
    assert [warning_of(name) for name in ("e1", "e2")] == ["", ""]
    assert warning_of("e9").startswith(unknown)
    run = ("run", "--until-end", "--set", "http.listen=", "--set", "model.kind=naive_bayes")
    assert main([*run, *LOG]) == 0
    assert [warning_of(name) for name in ("e1", "e2")] == ["", ""]
    assert warning_of("e9").startswith(unknown)
