"""`evaluate --report`: one page of its own, whatever the events hold, with the numbers of the evaluation."""

from __future__ import annotations

import json
import os
import random
import re
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from html.parser import HTMLParser
from importlib.resources import files
from itertools import count

import pytest

from streamnb.cli import main
from streamnb.evaluation.evaluation_page import EvaluationPage
from streamnb.event_logs.sqlite.sqlite_log import SqliteLog
from tests.support.browser import MISSING, Browser

pytestmark = pytest.mark.early(57)

EVIL = "</title></style><script>alert(1)</script>\"'&\u202e\x07"
VOID = {"meta", "input", "br", "link"}


class Seen(HTMLParser):
    """What a browser would make of a page, roughly."""

    def __init__(self, page):
        super().__init__()
        self.open, self.tags, self.attributes, self.text = [], set(), [], []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        self.attributes += attrs
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.append(data)


def lines(n, labels, evil=""):
    rng = random.Random(5)
    for i in range(n):
        label = labels[rng.randrange(min(len(labels), 1 + i // 20))]
        words = " ".join(rng.choices([f"w{j}" for j in range(60)], k=5))
        yield json.dumps({
            "id": f"m{i}{evil}", "text": f"{label} {words}", "features": {f"se{evil}": f"v{rng.randrange(4)}{evil}"},
            "label": label if rng.random() < 0.9 else rng.choice(labels), "ts": 1_700_000_000 + i,
        })  # fmt: skip


@pytest.fixture
def evaluate(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)

    def evaluated(rows, *flags, code=0):
        (tmp_path / "e.jsonl").write_text("\n".join(rows))
        assert main(["evaluate", "e.jsonl", *flags]) == code
        return capsys.readouterr()

    return evaluated


def page_of(tmp_path):
    text = (tmp_path / "r.html").read_text()
    seen = Seen(text)
    assert seen.open == []
    assert not seen.tags & {"script", "iframe", "object", "link", "img", "form", "a"}
    loading = [
        value
        for name, value in seen.attributes
        if name in {"src", "href", "style", "srcset"} or name[:2] == "on"
    ]
    assert loading == []
    assert not re.search(r"url\(|@import|[\u202e\x07]", text)
    return text, seen


def test_the_page_has_the_numbers_of_the_evaluation_and_changes_none(evaluate, tmp_path):
    rows = list(lines(700, ["a", "b", "c"]))
    plain = json.loads(evaluate(rows, "--json").out)
    told = json.loads(evaluate(rows, "--json", "--report", "r.html").out)
    unlike = {name for name in told if told[name] != plain[name]}
    assert unlike <= {"ts", "seconds"}
    _, seen = page_of(tmp_path)
    values = [value for name, value in seen.attributes if name == "data-value"]
    assert values[:2] == [str(told["cumulative"]["accuracy"]), str(told["open_log_loss"])]
    guesses = told["baselines"]
    assert values[2:4] == [str(guesses["most_frequent"]), str(guesses["same_as_before"])]
    assert values[4:6] == [str(told["cumulative"]["kappa"]), str(guesses["kappa_temporal"])]
    said = "".join(seen.text)
    assert f"{told['cumulative']['accuracy']:.1%} of" in said
    closed = told["cumulative"]["log_loss"]
    assert closed > told["open_log_loss"]
    assert f"nats; {closed:.3g} if a new label costs 34.5" in said
    assert "better than both guesses" in said
    assert "It fails most on" in said
    for title in ("Importance: ", "Most frequent confusions", "Accuracy by events", "Confusion", "Calibration, all", "Posterior by events", "Worst predicted",
                  "Slowest", "Class rates", "a, "):  # fmt: skip
        assert title in said
    cells = re.search(r"truth, columns predicted. (.*?)[\"<]", str(seen.text) + '"')
    assert cells
    for m, name in enumerate("abc"):
        row = re.search(rf"\b{name}: ([^;']*)", cells[1])[1]
        shown = {one.rpartition(" ")[2]: int(one.split()[0].replace(",", "")) for one in row.split(", ")}
        order = told["labels"].index(name)
        assert shown.get(name, 0) == told["confusion"][order][order], m


def test_the_worst_are_the_worst(evaluate, tmp_path):
    evaluate(lines(400, ["a", "b"]), "--report", "r.html", "--predictions", "p.jsonl")
    said = [json.loads(line) for line in (tmp_path / "p.jsonl").read_text().splitlines()]
    worst = sorted(
        (one for one in said if one["label"]), key=lambda one: one["probabilities"].get(one["truth"], 0.0)
    )
    text, _ = page_of(tmp_path)
    listed = re.findall(r"<td>(m\d+)</td>", text)
    assert len(listed) == 20
    assert set(listed) == {one["id"] for one in worst[:20]}
    texts = {row["id"]: row["text"] for row in map(json.loads, lines(400, ["a", "b"]))}
    shown = dict(re.findall(r"<tr><td>(m\d+)</td>.*?<td>([^<]*)</td></tr>", text))
    assert shown == {name: texts[name] for name in listed}


def test_the_verdict_says_if_the_model_is_no_better_than_guessing(evaluate, tmp_path):
    rng = random.Random(8)
    rows = [
        json.dumps({"id": str(i), "features": {"x": rng.random()}, "label": rng.choice("ab")})
        for i in range(300)
    ]
    evaluate(rows, "--report", "r.html")
    assert "which is not clearly better than guessing" in page_of(tmp_path)[0]
    evaluate(sorted(rows, key=lambda row: json.loads(row)["label"]), "--report", "r.html")
    text = page_of(tmp_path)[0]
    assert "Warning: the rows are grouped by label" in text
    assert "streamnb evaluate e.jsonl --report r.html --shuffle" in text


def test_hostile_values_stay_text_and_the_page_stays_small(evaluate, tmp_path):
    evaluate(lines(1500, [f"{i}{EVIL}{'x' * 900}" for i in range(1000)], EVIL), "--report", "r.html",
             "--set", "model.kind=naive_bayes", "--set", "drift.detectors=ddm")  # fmt: skip
    text, seen = page_of(tmp_path)
    assert len(text) < 1 << 20
    assert any("<script>alert(1)</script>" in part for part in seen.text)
    assert "Content-Security-Policy" in text


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        (["--holdout", "2/3"], "a part that is held out"),
        (["--delay", "5"], "labels that come later"),
        (["--set", "events.label=$.none"], "No labelled event was scored"),
        (["--set", "model.kind=naive_bayes"], "Worst predicted"),
        (["--model", "river.dummy:NoChangeClassifier"], "Worst predicted"),
    ],
)
def test_where_something_is_not_there_the_page_says_so(evaluate, tmp_path, flags, says):
    rows = [
        json.dumps({k: v for k, v in json.loads(one).items() if k != "features"})
        for one in lines(90, ["a", "b"])
    ]
    evaluate(rows, "--report", "r.html", *flags, code=int("$.none" in flags[-1]))
    assert says in page_of(tmp_path)[0]


def test_a_page_that_cannot_be_written_is_told_before_anything_is_read(evaluate, tmp_path):
    (tmp_path / "folder").mkdir()
    for given, why in (("no/r.html", "there is no folder no"), ("folder", "it is a folder")):
        said = evaluate(["no JSON"], "--report", given, code=2)
        assert why in said.err


def test_what_is_read_is_not_overwritten(evaluate, tmp_path):
    """Nor a log, under whatever name; a device is written to, and stays one."""
    rows = list(lines(60, ["a", "b"]))
    used = {"c.toml": "", "order": "0\n1\n", "map.json": "{}", "e.jsonl": "\n".join(rows)}
    for name, text in used.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "link").symlink_to("e.jsonl")
    (tmp_path / "hard").hardlink_to("e.jsonl")
    SqliteLog(tmp_path / "b.db", journal_topic="journal").close()
    reading = ["--config", "c.toml", "--order", "order", "--map-labels", "map.json"]
    for flag in ("--predictions", "--report"):
        for out in (*used, "link", "./e.jsonl", "hard", "b.db"):
            before = (tmp_path / out).read_bytes()
            said = evaluate(rows, *reading, flag, out, code=2).err
            how = "is a log" if out == "b.db" else "is read"
            assert said == f"streamnb: {flag} {out}: {how}, and would be overwritten: name another file\n"
            assert (tmp_path / out).read_bytes() == before
    assert main(["evaluate", "--log", "sqlite:///b.db", "--predictions", "b.db"]) == 2
    said = evaluate(rows, "--predictions", "new", "--report", f"../{tmp_path.name}/new", code=2).err
    assert "is for --predictions, and would be overwritten" in said
    os.mkfifo(tmp_path / "pipe")
    with ThreadPoolExecutor() as threads:
        page = threads.submit((tmp_path / "pipe").read_bytes)
        evaluate(rows, "--predictions", "/dev/null", "--report", "pipe")
    assert page.result().startswith(b"<!doctype html>")
    assert (tmp_path / "pipe").is_fifo()


def test_a_page_that_was_there_stays_whole_where_the_command_ends_early(evaluate, tmp_path, monkeypatch):
    (tmp_path / "r.html").write_text("before")
    rows = list(lines(200, ["a", "b"]))
    calls = count()
    noted = EvaluationPage.note

    def interrupted(self, output):
        if next(calls) == 100:
            raise KeyboardInterrupt
        noted(self, output)

    monkeypatch.setattr(EvaluationPage, "note", interrupted)
    evaluate(rows, "--report", "r.html", code=130)
    assert (tmp_path / "r.html").read_text() == "before"
    assert [file.name for file in tmp_path.iterdir() if file.suffix == ".tmp"] == []


@pytest.mark.thorough
@pytest.mark.skipif(bool(MISSING), reason=f"there is no {', '.join(MISSING)}")
def test_in_a_browser_it_is_readable_at_any_size(evaluate, tmp_path):
    axe = files("axe_core_python").joinpath("axe.min.js").read_text(encoding="utf-8")
    evaluate(lines(600, ["a", f"b{EVIL}", "c"], EVIL), "--report", "r.html")
    with closing(Browser(tmp_path / "profile")) as browser:
        for width, dark in ((1280, False), (360, False), (360, True)):
            browser.size(width, 800, dark=dark)
            browser.open((tmp_path / "r.html").as_uri())
            assert browser.run("return document.documentElement.scrollWidth") <= width
            faults = browser.run(f"{axe}; return axe.run().then(found => found.violations)")
            assert [(one["id"], one["nodes"][0]["html"][:200]) for one in faults] == []
        assert browser.complaints() == []
