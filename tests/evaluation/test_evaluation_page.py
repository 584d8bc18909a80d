"""`evaluate --report`: one page of its own, whatever the events hold, with the numbers of the evaluation."""

from __future__ import annotations

import base64
import hashlib
import html
import json
import os
import random
import re
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from html.parser import HTMLParser
from importlib.resources import files
from itertools import count, pairwise

import pytest
from sklearn import metrics

from streamnb.charts import percent
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


def tables(page):
    """Return caption -> rows of texts."""
    found = {}
    for caption, body in re.findall(r"<caption>(.*?)</caption>.*?<tbody>(.*?)</tbody>", page, re.DOTALL):
        rows = re.findall(r"<tr>(.*?)</tr>", body, re.DOTALL)
        found[html.unescape(caption)] = [
            [
                html.unescape(re.sub(r"<[^>]*>", "", cell))
                for cell in re.findall(r"<t[dh][^>]*>(.*?)</t[dh]>", row, re.DOTALL)
            ]
            for row in rows
        ]
    return found


def points_of(page, title):
    """Return the points of the first line in a picture."""
    drawn = page[page.index(f"<span>{title}</span>") :]
    return [tuple(map(float, pair.split(","))) for pair in re.search(r'points="([^"]*)"', drawn)[1].split()]


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
    assert not seen.tags & {"script", "iframe", "object", "link", "img", "form"}
    loading = [
        value
        for name, value in seen.attributes
        if (name in {"src", "href", "style", "srcset"} or name[:2] == "on") and value[:1] != "#"
    ]
    assert loading == []
    assert not re.search(r"url\(|@import|[\u202e\x07]", text)
    css = re.search(r"<style>(.*?)</style>", text, re.DOTALL)[1]
    digest = base64.b64encode(hashlib.sha256(css.encode()).digest()).decode()
    assert f"default-src &#x27;none&#x27;; style-src &#x27;sha256-{digest}&#x27;;" in text
    places = {value for name, value in seen.attributes if name == "id"}
    targets = [value for name, value in seen.attributes if name == "href"]
    assert {f"#{place}" for place in places} >= set(targets)
    assert len(targets) == len(set(targets)) >= 1
    return text, seen


def test_the_page_has_the_numbers_of_the_evaluation_and_changes_none(evaluate, tmp_path):
    rows = list(lines(700, ["a", "b", "c"]))
    plain = json.loads(evaluate(rows, "--json").out)
    told = json.loads(evaluate(rows, "--json", "--report", "r.html").out)
    unlike = {name for name in told if told[name] != plain[name]}
    assert unlike <= {"ts", "seconds"}
    text, seen = page_of(tmp_path)
    values = [value for name, value in seen.attributes if name == "data-value"]
    guesses = told["baselines"]
    expected = [told["cumulative"]["accuracy"], told["open_log_loss"], told["cumulative"]["kappa"]]
    assert values == [*map(str, [*expected, guesses["kappa_temporal"]])]
    said = "".join(seen.text)
    assert f"{percent(told['cumulative']['accuracy'])}out of 700 labels" in said
    for title in ("Accuracy so far", "Most frequent confusions", "Classes, the worst first", "Confusion matrix", "ROC", "Precision and recall",
                  "Calibration", "Mean cost of an event", "Importance: ", "Worst errors", "First event of each class", "Columns, in",
                  "All scores", "Posterior by events", "Slowest"):  # fmt: skip
        assert title in said
    order, cells = (
        sorted(told["labels"]),
        tables(text)["Confusion matrix: events by true and predicted class"],
    )
    index = [told["labels"].index(name) for name in order]
    assert [[int(one or 0) for one in row[1:]] for row in cells] == [
        [told["confusion"][m][n] for n in index] for m in index
    ]
    rows = tables(text)["Classes, the worst first"]
    assert {row[0]: (row[1], row[3], row[4]) for row in rows} == {
        one["label"]: (f"{one['events']:,}", percent(one["precision"]), percent(one["recall"]))
        for one in told["by_class"]
    }
    for row, scope in zip(tables(text)["All scores; the log loss charges 34.5 nats for a label that was never seen"],
                          ("window", "cumulative"), strict=True):  # fmt: skip
        one = told[scope]
        names = ("log_loss", "macro_f1", "kappa", "brier", "calibration_error")
        assert row[1:] == [f"{one['events']:,}", percent(one["accuracy"]), *(f"{one[n]:.4f}" for n in names)]


def test_the_curves_of_two_classes_are_those_of_scikit_learn_on_the_predictions(evaluate, tmp_path):
    rows = list(lines(500, ["a", "b"]))
    told = json.loads(evaluate(rows, "--json", "--report", "r.html", "--predictions", "p.jsonl").out)
    text, _ = page_of(tmp_path)
    said = [json.loads(line) for line in (tmp_path / "p.jsonl").read_text().splitlines()]
    rare = min(told["by_class"], key=lambda one: one["events"])["label"]
    is_met = [len(one["probabilities"]) == 2 for one in said]
    p = [one["probabilities"].get(rare, 0.0) if met else 0.5 for one, met in zip(said, is_met, strict=True)]
    truths = [one["truth"] == rare for one in said]
    fpr, tpr, _ = metrics.roc_curve(truths, p, drop_intermediate=False)
    precision, recall, _ = metrics.precision_recall_curve(truths, p)
    assert f"{rare}: area {metrics.roc_auc_score(truths, p):.4f}" in text
    assert f"{rare}: average precision {metrics.average_precision_score(truths, p):.4f}" in text
    for title, xs, ys in (
        (f"ROC of {rare}", fpr, tpr),
        (f"Precision and recall of {rare}", recall, precision),
    ):
        drawn = points_of(text, title)
        known = {
            (round(1000 * x, 1), round(1000 - 1000 * y, 1))
            for x, y in zip(xs.tolist(), ys.tolist(), strict=True)
        }
        assert len(drawn) > 20
        assert all(min(abs(x - a) + abs(y - b) for a, b in known) < 0.11 for x, y in drawn)
    caption = f"If an event is called {rare} from some probability on, of 500"
    for threshold, found, missed, alarms, _, cost in tables(text)[caption]:
        t = float(threshold.split()[0]) / 100
        called = [one >= t - 1e-12 for one in p]
        assert int(found) == sum(c and y for c, y in zip(called, truths, strict=True))
        assert int(missed) == sum(y and not c for c, y in zip(called, truths, strict=True))
        assert int(alarms) == sum(c and not y for c, y in zip(called, truths, strict=True))
        assert float(cost) == pytest.approx((int(missed) + int(alarms)) / 500, rel=0.01)
    assert "All costs are equal" in text


def test_configured_costs_and_decisions_are_the_ones_that_are_shown(evaluate, tmp_path):
    (tmp_path / "c.toml").write_text(
        "[decision]\nreject = 0.3\n[decision.costs]\na = { b = 5.0 }\nb = { a = 0.5 }\n"
    )
    told = json.loads(
        evaluate(lines(300, ["a", "b"]), "--json", "--report", "r.html", "--config", "c.toml").out
    )
    text, _ = page_of(tmp_path)
    assert "The costs are configured in [decision]" in text
    ((caption, rows),) = [
        (one, rows) for one, rows in tables(text).items() if one.startswith("If an event is called")
    ]
    is_b = "called b" in caption
    miss, alarm = (5.0, 0.5) if is_b else (0.5, 5.0)  # of b: decided a although b is true
    for _, _, missed, alarms, _, cost in rows:
        assert float(cost) == pytest.approx((miss * int(missed) + alarm * int(alarms)) / 300, rel=0.01)
    cells = {(one["truth"], one["decision"]): one["events"] for one in told["decided"]}
    shown = tables(text)["Decisions: events by true class and decision"]
    assert {
        (row[0], name): int(n)
        for row in shown
        for name, n in zip(("a", "b", None), row[1:], strict=True)
        if n
    } == cells
    assert len(tables(text)["If only decisions of some expected cost are taken"]) == len(
        told["cost_by_expected_cost"]
    )


def test_the_worst_errors_have_their_texts_and_first_events_are_apart(evaluate, tmp_path):
    rows = list(lines(400, ["a", "b"]))
    rows = [
        json.dumps({**json.loads(row), "id": f"m{i // 2}"}) for i, row in enumerate(rows)
    ]  # each id twice
    evaluate(rows, "--report", "r.html", "--predictions", "p.jsonl")
    said = [json.loads(line) for line in (tmp_path / "p.jsonl").read_text().splitlines()]
    text, _ = page_of(tmp_path)
    firsts = {truth: next(n for n, one in enumerate(said) if one["truth"] == truth) for truth in "ab"}
    apart = tables(text)["First event of each class, which no model can predict"]
    texts = [json.loads(row)["text"] for row in rows]
    assert [(row[0], row[1], row[3]) for row in apart] == [
        (truth, said[n]["id"], texts[n]) for truth, n in sorted(firsts.items(), key=lambda item: item[1])
    ]
    wrong = [n for n, one in enumerate(said) if one["label"] != one["truth"] and n not in firsts.values()]
    wrong.sort(key=lambda n: said[n]["probabilities"].get(said[n]["truth"], 0.0))
    listed = re.findall(r"event (m\d+)</span></p><blockquote[^>]*>([^<]*)<", text)
    assert listed == [(said[n]["id"], texts[n]) for n in wrong[:20]]


@pytest.mark.parametrize(
    ("labels", "says"),
    [
        (["only"], "Do not rely on this number"),
        ([f"{n}.5" for n in range(67)], "Do not rely on this number"),
        (["a", "b"], "Better than guessing"),
    ],
)
def test_the_verdict_knows_labels_that_teach_nothing(evaluate, tmp_path, labels, says):
    evaluate(lines(400, labels), "--report", "r.html")
    text, _ = page_of(tmp_path)
    assert says in text
    assert ("Before you trust these numbers" in text) is (len(labels) != 2)


def test_without_a_valid_event_the_page_says_why(evaluate, tmp_path):
    evaluate([], "--report", "r.html", code=1)
    assert "Nothing was evaluated: the input is empty." in page_of(tmp_path)[0]
    evaluate(['{"id": [5]}'] * 9 + ["no JSON"], "--report", "r.html", code=1)
    text, _ = page_of(tmp_path)
    assert "none of 10 records is a valid event" in text
    rows = tables(text)["Dead letters: records that are not valid events"]
    assert [row[:4] for row in rows] == [["wrong-type", "$.id", "9", "0"], ["invalid-json", "$", "1", "9"]]


def test_the_columns_have_kinds_gaps_ranges_and_odd_cells(evaluate, tmp_path):
    rows = []
    for i in range(200):
        x = {"n": "n/a" if i == 7 else float(i % 50), "c": "xyz"[i % 3], "k": 1.5}
        x |= {} if i % 4 else {"half": True}
        rows.append(
            json.dumps({"id": str(i), "features": x, "text": "a b" + " c" * (i % 2), "label": "uv"[i % 2]})
        )
    evaluate(rows, "--report", "r.html")
    text, _ = page_of(tmp_path)
    assert tables(text)["Columns, in 200 rows, evenly spaced, of at most 4 KB"] == [
        ["text", "text", "0 %", "2", "2 to 3 words, 2 on average", "none"],
        ["n", "number", "0 %", "51", "0 to 49, median 25", "1 value, such as n/a"],
        ["c", "name", "0 %", "3", "x: 33.5 %", "none"],
        ["k", "number", "0 %", "1", "always 1.5", "none"],
        ["half", "name", "75 %", "1", "True: 100 %", "none"],
    ]
    assert "numbers, but for" in text  # the warning of the terminal
    assert "one value only" in text


def test_what_is_kept_is_bounded_and_holds_the_cold_start(evaluate, tmp_path, monkeypatch):
    kept = []
    written = EvaluationPage.write
    monkeypatch.setattr(
        EvaluationPage, "write", lambda self, found: kept.append(self) or written(self, found)
    )
    evaluate(
        lines(6000, [f"c{n}" for n in range(130)]), "--report", "r.html", "--set", "model.kind=naive_bayes"
    )
    records = kept[0]._records
    seen = [one.report.events for one in records.start]
    assert seen[:10] == list(range(1, 11))
    assert seen[-1] == 6000
    assert all(b - a <= max(1, a // 5) for a, b in pairwise(seen))
    assert len(records.points) <= 401
    assert [len(records.firsts), records.n_classes] == [100, 130]
    assert len(records.worst) == 20
    assert records.grid.is_full
    assert "No matrix of 130 classes" in page_of(tmp_path)[0]


def test_the_verdict_says_if_the_model_is_no_better_than_guessing(evaluate, tmp_path):
    rng = random.Random(8)
    rows = [
        json.dumps({"id": str(i), "features": {"x": rng.random()}, "label": rng.choice("ab")})
        for i in range(300)
    ]
    evaluate(rows, "--report", "r.html")
    assert re.search("(Not clearly better|Worse) than guessing", page_of(tmp_path)[0])
    evaluate(sorted(rows, key=lambda row: json.loads(row)["label"]), "--report", "r.html")
    text = page_of(tmp_path)[0]
    assert "Do not rely on this number" in text
    assert "the rows are grouped by label" in text
    assert ">streamnb evaluate e.jsonl --report r.html --shuffle</code>" in text
    assert " than guessing" not in text


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
        (["--set", "model.kind=naive_bayes"], "Worst errors"),
        (["--model", "river.dummy:NoChangeClassifier"], "Worst errors"),
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


WIDTH_OF_A4 = 703  # pixels of 186 mm between the margins


@pytest.mark.thorough
@pytest.mark.skipif(bool(MISSING), reason=f"there is no {', '.join(MISSING)}")
@pytest.mark.parametrize("n_classes", [3, 20])
def test_in_a_browser_it_is_readable_at_any_size_and_on_paper(evaluate, tmp_path, n_classes):
    axe = files("axe_core_python").joinpath("axe.min.js").read_text(encoding="utf-8")
    labels = [f"class.of.events.{n}" for n in range(n_classes - 1)]
    evaluate(lines(600, [*labels, f"b{EVIL}{'x' * 200}"], EVIL), "--report", "r.html")
    with closing(Browser(tmp_path / "profile")) as browser:
        for width in (390, 1024, 1920):
            for dark in (False, True):
                browser.size(width, 800, dark=dark)
                browser.open((tmp_path / "r.html").as_uri())
                assert browser.run("return document.documentElement.scrollWidth") <= width
                assert browser.run("return document.querySelector('main').clientWidth") >= min(width, 1000)
                found = browser.run(f"{axe}; return axe.run()")
                assert [(one["id"], one["nodes"][0]["html"][:200]) for one in found["violations"]] == []
                assert "color-contrast" in {one["id"] for one in found["passes"]}  # the rule did not fail
        assert browser.run(SEEN_NAMES) == [f"class.of.events.{n}" for n in range(n_classes - 1)]
        browser.size(WIDTH_OF_A4, 800, dark=True)
        dark = {"name": "prefers-color-scheme", "value": "dark"}
        browser.command("Emulation.setEmulatedMedia", media="print", features=[dark])
        assert browser.run(TOO_WIDE, WIDTH_OF_A4) == []
        assert browser.run(COLOURS) == ["rgb(0, 0, 0)", "rgb(255, 255, 255)"]
        pages = pages_of(browser.command("Page.printToPDF", preferCSSPageSize=True)["data"])
        assert {(round(width / 72 * 25.4), round(height / 72 * 25.4)) for width, height in pages} == {
            (210, 297)
        }
        assert 5 < len(pages) < 25
        assert browser.complaints() == []


SEEN_NAMES = """
    const shown = document.querySelectorAll('.snb-heat thead th.up span, .snb-heat thead th[scope=col]:not(.up):not(:first-child) span');
    return [...shown].map(one => one.textContent).filter(name => name.startsWith('class')).sort((a, b) => a.length - b.length || (a < b ? -1 : 1));
"""
TOO_WIDE = """
    return [...document.querySelectorAll('table, figure, blockquote, p, h1, h2, li')]
        .filter(one => one.getBoundingClientRect().right > arguments[0] + 1 || one.scrollWidth > one.clientWidth + 1 && one.clientWidth)
        .map(one => one.outerHTML.slice(0, 200));
"""
COLOURS = """
    const texts = [...document.querySelectorAll('h1, .lead, td, .focal')].map(one => getComputedStyle(one).color);
    return [...new Set(texts), getComputedStyle(document.body).backgroundColor];
"""


def pages_of(data):
    """Return the width and height in points of each page of a PDF."""
    boxes = re.findall(
        rb"/Type /Page\b[^s].*?/MediaBox \[0 0 ([\d.]+) ([\d.]+)\]", base64.b64decode(data), re.DOTALL
    )
    return [(float(width), float(height)) for width, height in boxes]
