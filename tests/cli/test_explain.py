"""`streamnb explain --at`: two snapshots beside each other, of an event as it stands in the log."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
from program import Program
from service import raw_events

from streamnb.cli import main, wiring
from streamnb.cli.parser import build_parser

RAWS = [raw.decode() for raw in raw_events(150, labelled=1.0)]


@pytest.fixture
def ask(tmp_path, monkeypatch, capsys):
    """Explains an event by what was learned of some events; the function gives what is printed."""
    monkeypatch.chdir(tmp_path)
    pace = {"commit": {"events": 40}, "snapshots": {"every_events": 70, "keep": 100}}
    program = Program(tmp_path, "sqlite:///log.db", **pace, model_keys={"kind": "naive_bayes"})
    (tmp_path / "events.jsonl").write_text("\n".join(RAWS) + "\n")
    for command in (["topics", "create"], ["replay", "events.jsonl"], ["run", "--until-end"]):
        program.run(*command)

    def asked(*arguments):
        capsys.readouterr()
        assert main(["explain", *arguments, "--config", str(program.file)]) == 0
        out = capsys.readouterr().out
        return json.loads(out) if "--json" in arguments else out

    options = build_parser().parse_args(["read", "x", "--config", str(program.file)])
    kept = Path(wiring.load_config(options).snapshot_folder).glob("snapshot-*")
    asked.numbers = sorted(str(int(file.stem[-20:])) for file in kept)
    yield asked
    program.close()


def test_then_and_now_stand_beside_each_other(ask):
    event, first, last = RAWS[77], ask.numbers[0], ask.numbers[-1]
    found = ask(event, "--at", first, "--top", "1000", "--json")
    then = ask(event, "--snapshot", first, "--against", found["against"], "--json")
    assert (found["then"]["label"], found["then"]["against"]) == (found["label"], found["against"])
    assert found["then"]["probabilities"] == then["probabilities"] != found["probabilities"]
    odds = found["then"]["prior"] + sum(one["log_odds"] for one in found["then"]["evidence"])
    was = found["then"]["probabilities"]
    assert odds == pytest.approx(math.log(was[found["label"]] / was[found["against"]]), abs=1e-9)
    now = ask(event, "--at", last, "--json")
    assert {**now["then"], "snapshot": 0} == {k: now[k] for k in now["then"]} | {"snapshot": 0}
    text = ask(event, "--at", first)
    assert "then " in text
    assert "now " in text
