"""Weights of events in files and records, and labels that come as an index gives them."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from streamnb.evaluation.simulated_label_delay import feedback_of
from streamnb.formats.codec import decode_label
from streamnb.formats.event_columns import CsvColumns
from streamnb.formats.event_files import open_counted
from streamnb.formats.event_schema import EventSchema

READ = ["--set", "events.weight=$.weight"]
ROWS = [(n * 7 % 5 + (n % 2), "pq"[n % 2], [1, 2, 0.5, 0][n % 4]) for n in range(60)]
WEIGHTS = {label: sum(weight for _, one, weight in ROWS if one == label) for label in "pq"}
FILES = {
    "e.arff": "@relation r\n@attribute x numeric\n@attribute play {p,q}\n@data\n"
    + "".join(f"{x},{label},{{{weight}}}\n" for x, label, weight in ROWS),
    "e.vw": "".join(f"{label} {weight} |a x:{x} y:1\n" for x, label, weight in ROWS),
    "e.jsonl": "".join(
        json.dumps({"id": str(n), "features": {"x": x}, "label": label, "weight": weight}) + "\n"
        for n, (x, label, weight) in enumerate(ROWS)
    ),
    "e.csv": "x,label,w\n" + "".join(f"{x},{label},{weight}\n" for x, label, weight in ROWS),
}


def learned(out):
    answer = json.loads(out)
    return {label: one["weight"] for label, one in zip(answer["labels"], answer["class_rates"], strict=True)}


@pytest.mark.parametrize("name", FILES)
def test_an_event_counts_its_weight(told, tmp_path, name):
    (tmp_path / name).write_text(FILES[name])
    read = ["--set", "events.weight=$.features.w"] if name == "e.csv" else READ
    code, out, err = told("evaluate", name, "--json", *read)
    assert (code, learned(out)) == (0, WEIGHTS)
    assert "weight" not in err
    for delay in ("0", "5", "exponential:9"):
        assert learned(told("evaluate", name, "--json", "--delay", delay, *read)[1]) == WEIGHTS
    assert told("replay", name, *read)[0] == 0
    assert told("run", "--until-end", *read)[0] == 0
    assert told("verify", *read)[0] == 0
    assert told("rebuild", *read)[0] == 0
    code, out, _ = told("verify", "--rebuilt", *read)
    assert (code, "verified: 60 events" in out) == (0, True)


def test_events_of_weight_2_teach_what_two_events_teach(told, tmp_path):
    for name, weight in (("once.jsonl", 2), ("twice.jsonl", 1)):
        lines = [
            json.dumps(
                {"id": f"{n}-{k}", "features": {"c": label + str(x)}, "label": label, "weight": weight}
            )
            for n, (x, label, _) in enumerate(ROWS)
            for k in range(2 // weight)
        ]
        (tmp_path / name).write_text("\n".join(lines))
    kind = ["--set", "model.kind=naive_bayes"]
    answers = [
        json.loads(told("evaluate", name, "--json", *READ, *kind)[1])
        for name in ("once.jsonl", "twice.jsonl")
    ]
    assert answers[0]["class_rates"] == answers[1]["class_rates"]


@pytest.mark.parametrize("name", ["e.arff", "e.vw"])
def test_weights_that_are_not_read_are_named_with_the_option(told, tmp_path, name):
    (tmp_path / name).write_text(FILES[name])
    code, out, err = told("evaluate", name, "--json")
    assert (code, learned(out)) == (0, {"p": 30.0, "q": 30.0})
    text = "weights of rows, such as 2, are not read, and each event counts once: --set events.weight=$.weight reads them"
    assert err.count(text) == 1
    assert told("init", name)[0] == 0
    assert 'weight = "$.weight"' in Path("streamnb.toml").read_text()
    code, out, _ = told("evaluate", name, "--json", "--config", "streamnb.toml")
    assert (code, learned(out)) == (0, WEIGHTS)


def test_a_weight_that_is_none_makes_a_dead_letter_and_a_small_one_is_counted(told, tmp_path):
    weights = [-1, "2", True, 2_000_000, 0.0001, None, 3]
    lines = [
        json.dumps({"id": str(n), "text": "w", "label": "a", "weight": w}) for n, w in enumerate(weights)
    ]
    (tmp_path / "e.jsonl").write_text("\n".join(lines))
    _, out, err = told("evaluate", "e.jsonl", "--json", *READ)
    answer = json.loads(out)
    found = {(one["reason"], one["path"]): one["count"] for one in answer["dead_letter_reasons"]}
    assert found == {("out-of-range", "$.weight"): 2, ("wrong-type", "$.weight"): 2}
    assert learned(out) == {"a": 1 / 1024 + 1 + 3}
    assert "1 label with a weight above 0 and below 1/1024" in err


def mail(path, label):
    path.write_text(f"From: a@x.org\nSubject: {label} w\n\nbody of {label}\n")


def test_labels_come_as_an_index_gives_them(tmp_path):
    rng = random.Random(4)
    for _ in range(30):
        lines, waiting, expected = [], [], []
        for number in range(rng.randrange(1, 30)):
            label = rng.choice(["spam", "ham"])
            mail(tmp_path / f"m.{number}", label)
            is_late = rng.random() < 0.5
            lines.append(f"{label.title() if is_late else label} m.{number}")
            if not is_late:
                expected.append((f"m.{number}", label, number + 1))
            elif rng.random() < 0.7:
                waiting.append((f"m.{number}", label))
            while waiting and rng.random() < 0.3:
                path, label = waiting.pop(rng.randrange(len(waiting)))
                lines.append(f"{label.upper()} {path}")
                expected.append((path, label, number + 1))
        (tmp_path / "index").write_text("\n".join(lines) + "\n")
        columns = CsvColumns(id="file", format="trec")
        with open_counted(tmp_path / "index", columns) as events:
            rows = list(enumerate(events))
        feedback = feedback_of("$.delay", "$.feedback", 0.0, 0)
        n, found = 0, []
        for record in feedback.records(rows, EventSchema(), ("events", "labels")):
            n += record.partition.topic == "events"
            if record.partition.topic == "labels":
                label = decode_label(record.value)
                if label.weight:
                    found.append((label.id, label.label, n))
        assert sorted(found) == sorted(expected)


def test_an_index_with_late_labels_names_the_options_that_follow_it(told, tmp_path):
    for n in range(6):
        mail(tmp_path / f"m.{n}", "spam" if n % 2 else "ham")
    (tmp_path / "index").write_text("ham m.0\nSpam m.1\nham m.2\nspam m.3\nSPAM m.1\nHam m.4\nspam m.5\n")
    code, out, err = told("evaluate", "index", "--format", "trec", "--json")
    assert (code, json.loads(out)["learned"]) == (0, 6)
    assert "gives 2 labels later or never, and each is read at once: `evaluate --delay '$.delay'" in err
    given = ["--delay", "$.delay", "--reveal", "$.feedback"]
    code, out, _ = told("evaluate", "index", "--format", "trec", "--json", *given)
    assert (code, json.loads(out)["model"]["events"]) == (0, 5)


def test_a_delay_that_is_no_number_is_refused(told, tmp_path):
    (tmp_path / "e.jsonl").write_text('{"id": "1", "text": "w", "label": "a", "delay": "soon"}\n')
    code, _, err = told("evaluate", "e.jsonl", "--delay", "$.delay")
    assert (code, "--delay $.delay: an event has 'soon' there, not a number of events" in err) == (2, True), (
        err
    )
