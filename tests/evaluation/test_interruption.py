"""A signal ends an evaluation between two batches, and the scores of what was read are printed."""

from __future__ import annotations

import io
import json
import signal
import sys
import threading

import pytest

from streamnb.cli import main
from streamnb.evaluation.interruption import Interruption, parts_of

MODULE = """
import signal

class Signals:
    seen = 0

    def learn_one(self, x, y, w=1.0):
        self.seen += 1
        if self.seen in {AT}:
            signal.raise_signal(signal.SIGNAL)

    def predict_one(self, x):
        return "a"
"""


def row(i):
    return json.dumps({"id": str(i), "features": {"x": i % 7}, "label": "ab"[i % 2]}).encode() + b"\n"


def numbers(n, at, which=signal.SIGINT):
    for i in range(n):
        if i == at:
            signal.raise_signal(which)
        yield i


@pytest.mark.parametrize("which", [signal.SIGINT, signal.SIGTERM])
def test_a_wait_for_a_row_is_cut_off(which):
    before = signal.getsignal(which)
    with Interruption() as interruption:
        assert list(interruption.rows(numbers(5, 3, which))) == [0, 1, 2]
    assert interruption.came
    assert (interruption.code(0), interruption.code(1)) == (130, 130)
    assert signal.getsignal(which) is before


def test_what_is_processed_is_completed_and_a_second_signal_ends_at_once():
    done = []
    with Interruption() as interruption:
        for i in interruption.rows(range(9)):
            if i == 2:
                signal.raise_signal(signal.SIGINT)
            done.append(i)
        assert done == [0, 1, 2]
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGTERM)


def test_without_a_signal_and_in_another_thread_nothing_changes():
    found, before = [], signal.getsignal(signal.SIGINT)

    def use():
        with Interruption() as interruption:
            found.extend(interruption.rows(range(3)))
            found.append(signal.getsignal(signal.SIGINT) is before)

    thread = threading.Thread(target=use)
    thread.start()
    thread.join()
    assert found == [0, 1, 2, True]
    with Interruption() as interruption:
        assert list(interruption.rows(range(3))) == [0, 1, 2]
    assert (interruption.came, interruption.code(1)) == (False, 1)


def test_parts_shrink_as_the_caller_takes_longer_and_lose_no_row(monkeypatch):
    now = [0.0]
    monkeypatch.setattr("streamnb.evaluation.interruption.time.monotonic", lambda: now[0])
    sizes, rows = [], []
    for part in parts_of(iter(range(3000)), 1000):
        sizes.append(len(part))
        rows += part
        now[0] += len(part) * (0.01 if len(sizes) < 4 else 0.0)
    assert sizes == [1000, 50, 50, 50, 1000, 850]
    assert rows == [*range(3000)]


class Endless(io.RawIOBase):
    """Standard input that has some rows, and at whose end Ctrl-C is pressed."""

    def __init__(self, rows):
        self.left = b"".join(rows)

    def readable(self):
        return True

    def readinto(self, buffer):
        if not self.left:
            signal.raise_signal(signal.SIGINT)
        part, self.left = self.left[: len(buffer)], self.left[len(buffer) :]
        buffer[: len(part)] = part
        return len(part)


def test_the_scores_of_endless_input_are_kept(monkeypatch, capsys, tmp_path):
    written = tmp_path / "p.jsonl"
    for command in (
        ["evaluate", "--predictions", str(written), "--json"],
        ["compare", "--against", "metrics.window=9", "--json"],
    ):
        stdin = io.TextIOWrapper(io.BufferedReader(Endless(map(row, range(1500)))))
        monkeypatch.setattr(sys, "stdin", stdin)
        assert main([command[0], "-", *command[1:], "--set", "model.kind=naive_bayes"]) == 130
        said = capsys.readouterr()
        answer = json.loads(said.out)
        assert (answer["events"], answer["interrupted"]) == (1500, True)
        assert "interrupted after 1,500 events; the scores are of these alone" in said.err
    assert [json.loads(line)["id"] for line in written.read_bytes().splitlines()] == [*map(str, range(1500))]


@pytest.mark.parametrize("more", [[], ["--delay", "5"], ["--holdout", "1/3"]])
def test_a_batch_that_is_learned_is_completed(monkeypatch, capsys, tmp_path, more):
    (tmp_path / "e.jsonl").write_bytes(b"".join(map(row, range(5000))))
    (tmp_path / "signalling.py").write_text(MODULE.replace("AT", "1300,").replace("SIGNAL)", "SIGTERM)"))
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(sys.modules, "signalling", raising=False)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    assert main(["evaluate", "e.jsonl", "--model", "signalling:Signals", *more]) == 130
    said = capsys.readouterr()
    assert "interrupted" in said.err
    if "--holdout" in more:
        assert "no labelled event has been scored" in said.out
    else:
        n = said.err.removeprefix("streamnb: interrupted after ").removesuffix(
            "; the scores are of these alone\n"
        )
        assert said.out.startswith(f"{n}, ")
        assert "labels among them" in n if more else n == "2,000 events"


def test_twice_ends_at_once(monkeypatch, capsys, tmp_path):
    (tmp_path / "e.jsonl").write_bytes(b"".join(map(row, range(5000))))
    (tmp_path / "signalling.py").write_text(MODULE.replace("AT", "1300, 1301").replace("SIGNAL)", "SIGINT)"))
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(sys.modules, "signalling", raising=False)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    assert main(["evaluate", "e.jsonl", "--model", "signalling:Signals", "--predictions", "p.jsonl"]) == 130
    said = capsys.readouterr()
    assert (said.out, said.err) == ("", "streamnb: interrupted\n")
