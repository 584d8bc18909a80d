"""docs/beside.md: its blocks run, and what they say of other libraries is so."""

from __future__ import annotations

import gzip
import json
import re
import sys
from itertools import islice
from pathlib import Path

import pytest

import streamnb
from streamnb.cli import main

PAGE = Path(streamnb.__file__).parents[1] / "docs" / "beside.md"
BLOCKS = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(), re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize(
    ("word", "names", "file", "floor"),
    [
        ("def lasso", ("lasso",), "sms_spam.jsonl.gz", 0.92),
        ("def exponential", ("exponential",), "river_phishing.jsonl.gz", 0.8),
        pytest.param("def network", ("network",), "elec2.jsonl.gz", 0.75, marks=pytest.mark.thorough),
    ],
)
def test_other_losses_are_scored_by_evaluate(
    word, names, file, floor, streams, tmp_path, monkeypatch, capsys
):
    (tmp_path / "rivals.py").write_text(next(code for code in BLOCKS if word in code))
    with gzip.open(streams / file, "rt") as lines:
        (tmp_path / "some.jsonl").write_text("".join(islice(lines, 1500)))
    monkeypatch.syspath_prepend(tmp_path)
    for name in names:
        monkeypatch.delitem(sys.modules, "rivals", raising=False)
        assert main(["evaluate", str(tmp_path / "some.jsonl"), "--model", f"rivals:{name}", "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["cumulative"]["accuracy"] > floor, name
