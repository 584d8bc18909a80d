"""`streamnb label`: labels from a file or a pipe, written as they come."""

from __future__ import annotations

import json
import subprocess
import sys
import time

from streamnb.cli import main

LOG = ["--log", "sqlite:///labels.db", "--set", "topics.labels=labels"]
LABELS = [json.dumps({"id": f"e{i}", "label": "x"}).encode() for i in range(7)]


def written(capsys):
    capsys.readouterr()
    assert main(["read", "labels", *LOG]) == 0
    return capsys.readouterr().out.splitlines()


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
    assert said.endswith("2 labels before it were written to labels\n")
    assert len(written(capsys)) == 2
