"""`streamnb explain --id`: an event of the log is found, and its published prediction derived again, on both logs."""

from __future__ import annotations

import json
import math
from contextlib import closing
from pathlib import Path
from uuid import uuid4

import pytest
from kafka import KafkaAdminClient, TopicPartition

import streamnb
from streamnb.cli import main
from streamnb.cli.parser import build_parser
from streamnb.engine.ports import NewRecord, Partition
from streamnb.event_logs.sqlite.sqlite_log import SqliteLog
from streamnb.runtime import context
from tests.support.program import NUMBERS, Program
from tests.support.service import raw_events
from tests.support.topics_of_logs import trim

pytestmark = pytest.mark.early(25)

N = 150
ODD = "x\x1b[31m<script>alert(1)</script>\u202e"
PACE = {"commit": {"events": 40}, "snapshots": {"every_events": 70, "keep": 100}}


@pytest.fixture(params=["sqlite", pytest.param("kafka", marks=pytest.mark.broker)])
def start(request, tmp_path, monkeypatch, capsys):
    """Make a program that has learned some events, with a function that asks it in this process."""
    monkeypatch.chdir(tmp_path)
    kafka = request.param == "kafka"
    address = request.getfixturevalue("broker").address if kafka else "sqlite:///log.db"
    programs = []

    def started(raws, **sections):
        if not kafka and programs:
            (tmp_path / "log.db").unlink()
        program = Program(tmp_path, address, **{**PACE, **sections})
        program.address = address
        programs.append(program)
        program.run("topics", "create")
        return learn(program, raws)

    def learn(program, raws):
        file = tmp_path / f"events-{next(NUMBERS)}.jsonl"
        file.write_bytes(b"\n".join(raws) + b"\n")
        program.run("replay", file.name)
        program.run("run", "--until-end")
        return program

    def ask(program, *arguments, code=0):
        capsys.readouterr()
        assert main(["explain", *arguments, "--config", str(program.file)]) == code
        out, err = capsys.readouterr()
        return json.loads(out) if "--json" in arguments and code != 2 and out else out + err

    started.learn, started.ask, started.kafka = learn, ask, kafka
    yield started
    for program in programs:
        program.close()


def opened(program):
    options = build_parser().parse_args(["read", "x", "--config", str(program.file)])
    return context.existing_log(context.load_config(options))


def removed(program, topic, before):
    """What retention does."""
    with closing(opened(program)) as log:
        place = Partition(topic, 0)
        _, end = log.offsets(place)
        offset = end + before if before < 0 else before
        if isinstance(log, SqliteLog):
            trim(log, place, offset)
            return
    with closing(KafkaAdminClient(bootstrap_servers=program.address)) as admin:
        admin.delete_records({TopicPartition(*place): offset})


KINDS = {
    "mixture": {},
    "naive_bayes": {"model_keys": {"kind": "naive_bayes"}},
    "late labels": {"model_keys": {"kind": "naive_bayes"}, "topics": {"labels": f"labels-{uuid4()}"}},
    "semi_supervised": {"model_keys": {"kind": "semi_supervised"}},
    "hidden_markov": {"model_keys": {"kind": "hidden_markov"}, "events": {"entity": "$.features.colour"}},
    "logistic_regression": {
        "model_keys": {"kind": "logistic_regression"},
        "attributes": [
            {"name": "colour", "kind": "nominal", "values": ["r", "g"]},
            {"name": "x", "kind": "continuous"},
        ],
    },
}


def events(kind):
    """As `raw_events` makes them, of few kinds of values where a model takes few; the last has an odd id."""
    raws = [json.loads(raw) for raw in raw_events(N, labelled=1.0)]
    for one in raws if kind == "logistic_regression" else ():
        one["label"] = "a" if one["label"] == "a" else "b"
    raws[-1]["id"] = ODD
    return [json.dumps(one).encode() for one in raws]


@pytest.mark.storm_for("kafka", but="kafka-mixture")
@pytest.mark.thorough_for(
    "kafka", "sqlite-naive_bayes", "sqlite-semi_supervised", "sqlite-logistic_regression"
)
@pytest.mark.parametrize("kind", KINDS)
def test_what_was_served_is_derived_again_bit_for_bit(start, kind):
    """Evidence that was published says that the state is that just before the event, not before its commit."""
    raws, keys = (
        events(kind),
        {"predictions": {"evidence": 3, "hypotheses": kind == "mixture"}, **KINDS[kind]},
    )
    program = start(raws[:60], **keys)
    if kind == "late labels":
        program.run("label", "e7", "c")
        program.run("label", "e8", "--withdraw")
    start.learn(program, raws[60:])
    published = {one["id"]: one for one in program.read("predictions")}
    for id_ in ["e0", "e1", "e39", "e40", "e77", "e131", ODD]:
        found = start.ask(program, "--id", id_, "--as-served", "--json")
        assert found["derived"]["same"] is True
        assert json.loads(found["derived"]["prediction"]) == published[id_]
        assert found["served"]["probabilities"] == published[id_]["probabilities"]
        if found["evidence"] is None:
            assert id_ in {"e0", "e1"} or kind in {"logistic_regression", "hidden_markov"}
            assert found["why_none"]
            continue
        assert found["probabilities"] == published[id_]["probabilities"]
        shown = [(one["attribute"], one["value"], one["log_odds"]) for one in found["evidence"][:3]]
        assert shown == [tuple(one.values()) for one in published[id_]["evidence"]]
        assert found["prior"] == published[id_]["prior"]
    text = start.ask(program, "--id", ODD, "--as-served")
    assert "the same, bit for bit" in text
    assert "\x1b" not in text
    assert "\u202e" not in text
    assert program.read("predictions") == list(published.values())  # nothing was written


def test_an_event_is_found_by_its_id_and_its_place_and_explained_by_the_newest_state(start):
    program = start(events("naive_bayes"), model_keys={"kind": "naive_bayes"})
    model = streamnb.load(program.file.parent / snapshots(program))
    raw = json.loads(events("naive_bayes")[77])
    found = start.ask(program, "--id", "e77", "--json")
    assert found["event"] == {"id": "e77", "topic": program.topics["events"], "partition": 0, "offset": 77}
    assert found["probabilities"] == pytest.approx(
        model.predict_proba_one({"text": raw["text"], **raw["features"]})
    )
    assert found["served"]["truth"] == raw["label"]
    by_place = start.ask(program, "--place", "0/77", "--json")
    assert by_place == found | {"snapshot": by_place["snapshot"]}
    assert (
        start.ask(program, "--place", f"{program.topics['events']}/0/77", "--json")["event"] == found["event"]
    )
    refused = [
        (["--id", "gone"], 1, "no prediction of 'gone' by model"),
        (["--id", "gone"], 1, "all that are kept"),
        (["--id", "gone"], 1, "also if events.id has changed since"),
        (["--id", "e0", "--look-back", "20"], 1, "among the newest 20 offsets of topic"),
        (["--place", "0/9999"], 1, "9999"),
        (["--place", "9/0"], 1, "9"),
        (["--place", "0"], 2, "expected PARTITION/OFFSET"),
        (["--place", "0/77", "--id", "e1"], 2, "holds event 'e77', and not 'e1'"),
        (["--id", "e1", "text"], 2, "not both"),
        ([], 2, "expected a text, or --id or --place"),
        (["text", "--as-served"], 2, "--as-served: is of an event of the log"),
        (["--id", "x" * 1001], 2, "1 to 1000 characters"),
        (["--id", "\ud800"], 2, "not UTF-8"),
        (["--id", "e1", "--at", "9999"], 1, "streamnb snapshot list"),
    ]  # fmt: skip
    for arguments, code, why in refused:
        assert why in start.ask(program, *arguments, code=code)


@pytest.mark.storm_for("kafka")
def test_which_label_holds_by_now_is_told_with_its_source_and_what_it_stands_before(start):
    raws = events("naive_bayes")
    labels = {"topics": {"labels": f"labels-{uuid4()}"}, "labels": {"ranks": {"app": 3}}}
    program = start(raws[:100], model_keys={"kind": "naive_bayes"}, **labels)
    assert start.ask(program, "--id", "e7", "--json")["label_now"] is None  # no other label came
    program.run("label", "e7", "c", "--source", "app")
    program.run("label", "e7", "later", "--source", "bot")
    program.run("label", "e8", "--withdraw", "--source", "bot")
    start.learn(program, raws[100:])
    was = {id_: json.loads(raws[int(id_[1:])])["label"] for id_ in ("e7", "e8")}
    now = start.ask(program, "--id", "e7", "--json")["label_now"]
    assert (now["label"], now["source"], now["journal"]) == ("c", "app", snapshot_n(program))
    assert {(one["label"], one["source"]) for one in now["others"]} == {
        ("later", "bot"),
        (was["e7"], "event"),
    }
    for asked in (["--id", "e7"], ["--place", "0/7"], ["--id", "e7", "--as-served"]):
        text = start.ask(program, *asked)
        assert f"journal record {now['journal']} it is labelled c by app, which came late, 20" in text
        assert ", in place of " in text
        assert f"{was['e7']} by event" in text
    assert f"it is labelled {was['e8']} by event, " in start.ask(program, "--id", "e8")


def snapshot_n(program):
    return max(
        int(file.stem.split("-")[1]) for file in (program.file.parent / snapshots(program)).glob("*.snb")
    )


def snapshots(program):
    options = build_parser().parse_args(["read", "x", "--config", str(program.file)])
    return context.load_config(options).snapshot_folder


def numbers(program):
    return sorted(int(file.stem[-20:]) for file in Path(snapshots(program)).glob("snapshot-*"))


@pytest.mark.storm_for("kafka")
def test_then_and_now_stand_beside_each_other(start):
    program = start(events("naive_bayes"), model_keys={"kind": "naive_bayes"})
    first, *_, last = numbers(program)
    found = start.ask(program, "--id", "e77", "--at", str(first), "--top", "1000", "--json")
    then = start.ask(
        program, "--id", "e77", "--snapshot", str(first), "--against", found["against"], "--json"
    )
    assert (found["then"]["label"], found["then"]["against"]) == (found["label"], found["against"])
    assert found["then"]["probabilities"] == then["probabilities"] != found["probabilities"]
    odds = found["then"]["prior"] + sum(one["log_odds"] for one in found["then"]["evidence"])
    was = found["then"]["probabilities"]
    assert odds == pytest.approx(_log_odds(was, found["label"], found["against"]), abs=1e-9)
    now = start.ask(program, "--id", "e77", "--at", str(last), "--json")
    assert {**now["then"], "snapshot": 0} == {k: now[k] for k in now["then"]} | {"snapshot": 0}
    text = start.ask(program, "--id", "e77", "--at", str(first))
    assert "then " in text
    assert "now " in text


def _log_odds(p, label, against):
    return math.log(p[label] / p[against])


@pytest.mark.storm_for("kafka")
def test_an_id_that_comes_again_is_the_last_and_each_has_its_place(start):
    raws = events("mixture")
    again = [raws[3].replace(b'"text": "', b'"text": "w1 '), raws[3], raws[7]]
    program = start([*raws[:20], *again, *raws[20:60]])
    assert start.ask(program, "--id", "e3", "--json")["event"]["offset"] == 21
    for place, offset in (("0/3", 3), ("0/20", 20), ("0/21", 21)):
        found = start.ask(program, "--place", place, "--as-served", "--json")
        assert (found["event"]["offset"], found["derived"]["same"]) == (offset, True)
        read = program.read("predictions")[offset]
        assert found["served"]["probabilities"] == read["probabilities"]


@pytest.mark.storm_for("kafka")
def test_what_is_not_what_was_served_is_told(start):
    """Somebody has put another prediction in its place; where there is none any more, it is derived alone."""
    program = start(events("mixture"))
    place = Partition(program.topics["predictions"], 0)
    log = opened(program)
    record = next(one for one in log.read(place, 0, 1000) if one.key == b"e100")
    said = json.loads(record.value)
    forged = json.dumps(said | {"probability": 0.5}, separators=(",", ":")).encode()
    log.close()
    removed(program, place.topic, record.offset + 1)
    found = start.ask(program, "--place", "0/100", "--as-served", "--json", code=1)
    assert (found["served"], found["derived"]["same"]) == (None, None)
    assert json.loads(found["derived"]["prediction"]) == said
    assert "no prediction of 'e100'" in start.ask(program, "--id", "e100", code=1)
    with closing(opened(program)) as log:
        log.append([NewRecord(place.topic, b"e100", forged)])
    found = start.ask(program, "--id", "e100", "--as-served", "--json", code=1)
    assert found["derived"]["same"] is False
    assert json.loads(found["derived"]["prediction"]) == said
    assert "NOT what is derived" in start.ask(program, "--id", "e100", "--as-served", code=1)


@pytest.mark.thorough_for("kafka")
def test_what_retention_or_forgetting_has_taken_is_told_with_what_to_do(start):
    program = start(events("mixture"))
    (low, *_), folder = numbers(program), Path(snapshots(program))
    removed(program, program.topics["events"], 60)
    gone = start.ask(program, "--id", "e7", code=1)
    assert "whose records the log no longer has" in gone
    found = start.ask(
        program, "--id", "e131", "--as-served", "--json"
    )  # from the snapshot of record `low` on
    assert found["derived"]["same"] is True
    (folder / f"snapshot-{low:020d}.snb").rename(folder / "aside")
    told = start.ask(program, "--id", "e131", "--as-served", code=1)
    assert "cannot be derived again: that takes a snapshot of record" in told
    assert f"back to {snapshots(program)}" in told
    (folder / "aside").rename(folder / f"snapshot-{low:020d}.snb")
    removed(program, program.topics["journal"], -2)
    told = start.ask(program, "--id", "e80", "--as-served", code=1)
    assert "the journal does not have its commit any more: pass" in told


@pytest.mark.storm_for("kafka")
def test_what_was_served_before_events_were_forgotten_is_not_derived(start):
    program = start(events("mixture"), model_keys={"kind": "naive_bayes"})
    (program.folder / "ids").write_text("e5\n")
    program.run("forget", "--ids", "ids")
    more = [raw.replace(b'"id": "e', b'"id": "f') for raw in events("mixture")[:60]]
    start.learn(program, more)
    told = start.ask(program, "--id", "e80", "--as-served", code=1)
    assert "events were forgotten at journal record" in told
    assert "is not to be derived any more" in told
    assert start.ask(program, "--id", "f20", "--as-served", "--json")["derived"]["same"] is True
    assert start.ask(program, "--id", "e80", "--json")["event"]["id"] == "e80"


@pytest.mark.thorough_for("kafka")
def test_what_was_rolled_back_was_served_all_the_same(start):
    program = start(events("mixture"))
    first = numbers(program)[0]
    program.run("snapshot", "rollback", "--to", str(first))
    more = [raw.replace(b'"id": "e', b'"id": "f') for raw in events("mixture")[:60]]
    start.learn(program, more)
    for id_ in ("e20", "e140", "f0", "f59"):
        assert start.ask(program, "--id", id_, "--as-served", "--json")["derived"]["same"] is True


@pytest.mark.thorough
def test_a_large_event_is_found_and_explained(tmp_path, monkeypatch, capsys):
    """Of nearly a megabyte, as events.max_bytes allows."""
    monkeypatch.chdir(tmp_path)
    program = Program(tmp_path, "sqlite:///log.db", **PACE, model_keys={"kind": "naive_bayes"})
    large = json.dumps({"id": "large", "text": " ".join(f"w{i}" for i in range(120_000)), "label": "a"})
    (tmp_path / "e.jsonl").write_text("\n".join([*(raw.decode() for raw in events("")[:50]), large]) + "\n")
    program.run("replay", "e.jsonl")
    program.run("run", "--until-end")
    assert main(["explain", "--id", "large", "--as-served", "--json", "--config", str(program.file)]) == 0
    assert json.loads(capsys.readouterr().out)["derived"]["same"] is True
    program.close()
