"""History as if the truth had always been known: a model learned anew, taken up, and what then comes of it."""

from __future__ import annotations

import json
import os
import random
import threading
import time
from contextlib import closing

import pytest

from streamnb.cli import main
from streamnb.cli.commands import rebuild
from streamnb.cli.commands.forget import _chosen, with_ids
from streamnb.cli.commands.rebuild import is_installed
from streamnb.cli.parser import build_parser
from streamnb.engine.journal.journal_entries import refuse_forgotten
from streamnb.engine.journal.journal_history import find
from streamnb.engine.journal.recovery import recover
from streamnb.engine.ports import NewRecord, Record
from streamnb.engine.retraining.log_retraining import Retraining, RetrainingSource
from streamnb.engine.sensor import Sensor
from streamnb.errors import ConfigError, JournalError, SnapshotError
from streamnb.events import Event
from streamnb.runtime import factories
from streamnb.runtime.worker_context import CommitPolicy
from streamnb.verification.check_results import CheckResults
from streamnb.verification.log.retrained_model_check import check_rebuilt
from tests.support.late import EVENTS, Stream, counts_of, effective_labels, learned, random_stream
from tests.support.service import AtOnce, digests, model_digest, read_topic, snapshot_content
from tests.support.verifying import configured, new_worker, told, verified

pytestmark = [pytest.mark.slow, pytest.mark.early(24)]

TOPICS = {"events": 1, "labels": 1, "predictions": 1, "metrics": 1, "dead_letters": 1, "journal": 1}
LATE = ["topics.labels=labels", "labels.window=1000d", "decision.reject=0.3"]
MODELS = {
    "naive_bayes": ["model.kind=naive_bayes"],
    "mixture": [],
    "pruned": ["model.kind=naive_bayes", "model.prune.every=13", "model.prune.min_count=2", "attributes=[{name='text', kind='text'}]"],
}  # fmt: skip
PACE = CommitPolicy(commit_events=7, commit_seconds=0.0, snapshot_events=30)


def append(log, records):
    log.append([NewRecord(record.partition.topic, record.key, record.value) for record in records])


def serving(log, folder, *sets):
    worker = new_worker(log, folder, *LATE, *sets, pace=PACE)
    worker.start("a learner")
    return worker


def source(log, folder, *sets):
    config = configured(*LATE, *sets)
    return RetrainingSource(
        log, AtOnce(folder, 100), lambda: factories.learner(config), factories.identity(config)
    )


def undisturbed(records, truths, *sets, without=()):
    """A learner of events that carried the labels that hold in the end."""
    config = configured(*sets)
    learner = factories.learner(config)
    labelled = []
    for record in records:
        value = json.loads(record.value)
        if record.partition == EVENTS and value["id"] not in without:
            label, weight = truths.get(value["id"], (None, 1.0))
            value["label"] = label if weight else None
            labelled.append(record._replace(value=json.dumps(value).encode()))
    learner.process(labelled, 1.0)
    return learner


def processed(log):
    return [*read_topic(log, "events"), *read_topic(log, "labels")]


@pytest.mark.storm_for("kafka-naive_bayes", "kafka-pruned")
@pytest.mark.thorough_for("kafka", "sqlite-naive_bayes", "sqlite-pruned")
@pytest.mark.parametrize("kind", MODELS)
def test_it_is_the_model_of_a_run_whose_events_carried_their_labels(open_log, tmp_path, kind):
    log = open_log(**TOPICS)
    append(log, random_stream(random.Random(2), 90, 150, weights=(None, 0)).records)
    with closing(serving(log, tmp_path, *MODELS[kind])) as worker:
        worker.run(until_end=True)
    log = open_log()
    rebuilding = Retraining(source(log, tmp_path, *MODELS[kind]))
    records = processed(log)
    expected = undisturbed(records, effective_labels(records), *MODELS[kind])
    assert rebuilding.retrained().digest == model_digest(expected)
    assert (rebuilding.events, rebuilding.learned) == (90, expected.model.n_events)
    if kind == "mixture":
        assert model_digest(expected) != model_digest(worker.learner)


@pytest.mark.storm_for("kafka-naive_bayes", "kafka-pruned")
@pytest.mark.thorough_for("sqlite-naive_bayes", "sqlite-pruned", "kafka-naive_bayes", "kafka-pruned")
@pytest.mark.parametrize("kind", MODELS)
def test_it_follows_the_journal_and_is_taken_up(open_log, tmp_path, kind):
    sets = MODELS[kind]
    log = open_log(**TOPICS)
    stream = random_stream(random.Random(4), 120, 200).records
    append(log, stream[:160])
    worker = serving(log, tmp_path, *sets)
    worker.run(until_end=True)
    other = open_log()
    rebuilding = Retraining(source(other, tmp_path, *sets))
    fixed = rebuilding.to
    append(log, stream[160:240])
    worker.run(until_end=True)
    rebuilding.follow()
    assert rebuilding.checkpoint.n == worker.checkpoint.n > fixed
    scores = worker.learner.late.scoring.scores.cumulative()
    rebuilt = rebuilding.retrained()
    worker.context.snapshots.offer(rebuilding.snapshot(rebuilding.retrained()))
    taken = worker.install_model(rebuilt)
    assert model_digest(worker.learner) == rebuilt.digest
    assert worker.learner.late.scoring.scores.cumulative() == scores
    append(log, stream[240:])
    worker.run(until_end=True)
    worker.close()
    log = open_log()
    for folder in (tmp_path, tmp_path / "older"):
        again = factories.learner(configured(*LATE, *sets))
        recover(log, AtOnce(folder, 100), again, factories.identity(configured(*LATE, *sets)))
        assert digests(again) == digests(worker.learner)
        (tmp_path / "older").mkdir(exist_ok=True)
        for path in tmp_path.glob("*.snb"):
            if path.name.startswith("adopt") or int(path.name[9:-4]) < taken.n:
                (tmp_path / "older" / path.name).write_bytes(path.read_bytes())
        if not (tmp_path / "older" / "segments").exists():
            (tmp_path / "older" / "segments").symlink_to(tmp_path / "segments")
    assert told(verified(log, tmp_path, *LATE, *sets)) == []


@pytest.mark.parametrize(
    ("flags", "met", "passed_by"),
    [
        (["--key", "k1"], {"key": b"k1"}, {"key": None}),
        (["--where", "sender=x.org"], {"sender": "x.org"}, {"sender": "y.org"}),
        (["--where", "links=3"], {"links": 3.0}, {"links": 3.5}),
        (["--where", "seen=true"], {"seen": True}, {"seen": False}),
        (["--where", "note=a=b"], {"note": "a=b"}, {}),
    ],
)
def test_events_are_chosen_by_key_and_by_attribute(flags, met, passed_by):
    chosen = _chosen(build_parser().parse_args(["forget", *flags]))
    for given, expected in [(met, True), (passed_by, False)]:
        x = {name: value for name, value in given.items() if name != "key"}
        assert chosen(Event("e", x), Record(EVENTS, 0, given.get("key"), b"", 0.0)) is expected


def test_a_choice_that_names_nothing_is_refused():
    for given in ("sender", "=x"):
        with pytest.raises(ConfigError, match="FIELD=VALUE"):
            _chosen(build_parser().parse_args(["forget", "--where", given]))


def forgotten(ids):
    return lambda event, _: event.id in ids


@pytest.mark.storm_for("kafka-naive_bayes", "kafka-pruned")
@pytest.mark.thorough_for("kafka", "sqlite-naive_bayes", "sqlite-pruned")
@pytest.mark.parametrize("kind", MODELS)
def test_what_is_forgotten_was_never_there_and_nothing_brings_it_back(open_log, tmp_path, kind):
    sets, gone = MODELS[kind], {f"e{i}" for i in range(0, 120, 7)}
    log = open_log(**TOPICS)
    stream = random_stream(random.Random(5), 120, 240, weights=(None, 0)).records
    append(log, stream[:250])
    worker = serving(log, tmp_path, *sets)
    worker.run(until_end=True)
    other = open_log()
    rebuilding = Retraining(source(other, tmp_path, *sets), forgotten(gone))
    met = [json.loads(record.value)["id"] for record in read_topic(other, "events")]
    assert rebuilding.forgotten == len(gone.intersection(met))
    records = processed(other)
    expected = undisturbed(records, effective_labels(records), *sets, without=gone)
    assert rebuilding.retrained().digest == model_digest(expected)
    append(log, stream[250:])
    worker.run(until_end=True)
    rebuilding.follow()
    worker.context.snapshots.offer(rebuilding.snapshot(rebuilding.retrained()))
    floor = worker.install_model(rebuilding.retrained()).n
    assert [file.n for file in worker.context.snapshots.list()] == [floor]
    assert not list(tmp_path.glob("adopt-*"))
    early = [event_id for event_id in gone if event_id not in met]  # they came later, and stay
    snapshots = {file.path for file in worker.context.snapshots.list()}
    kept = b"".join(
        snapshot_content(path) if path in snapshots else path.read_bytes()
        for path in tmp_path.glob("**/*")
        if path.is_file()
    )
    ids = [f"e{i}" for i in range(0, 120, 7) if f"e{i}" in met]
    assert not [one for one in ids if one.encode() + b"\x81" in kept or one.encode() + b"\x82" in kept]
    unknown = worker.learner.late.outcomes["unknown"]
    said = Stream()
    for one in ids:
        said.verdict(one, "x", "b", ts=2e9)
    append(log, said.records)
    before = model_digest(worker.learner)
    worker.run(until_end=True)
    assert worker.learner.late.outcomes["unknown"] == unknown
    assert model_digest(worker.learner) == before  # those verdicts wait, for events that may come
    worker.close()
    with pytest.raises(JournalError, match=rf"forgotten at journal record {floor}"):
        refuse_forgotten(worker.checkpoint, floor - 1)
    log = open_log()
    again = Retraining(source(log, tmp_path, *sets))
    assert again.forgotten == 0
    records = processed(log)
    truths = {k: v for k, v in effective_labels(records).items() if k not in ids}
    expected = undisturbed(records, truths, *sets, without=ids)
    assert again.retrained().digest == model_digest(expected)
    assert early or kind
    findings = CheckResults()
    check_rebuilt(source(log, tmp_path, *sets), floor, findings, forgotten(set(ids)))
    assert findings.is_clean
    assert told(verified(log, tmp_path, *LATE, *sets)) == []


def adopted(worker, rebuilding, model=None):
    """The journal record by which a worker took up what was learned anew, or another model in its place."""
    rebuilt = rebuilding.retrained()
    return worker.install_model(rebuilt if model is None else rebuilt._replace(model=model)).n


@pytest.mark.storm_for("kafka")
@pytest.mark.thorough
@pytest.mark.parametrize("flags", [["--key", "s3"], ["--where", "sender=s3"]], ids=["key", "attribute"])
def test_a_twentieth_of_the_senders_is_forgotten(open_log, tmp_path, flags):
    """Of 2,000 events with verdicts; and where one of them were to teach still, it would be found."""
    sets, rng, log = MODELS["naive_bayes"], random.Random(9), open_log(**TOPICS)
    records = []
    for record in random_stream(rng, 2000, 2500, weights=(None, 0)).records:
        value, sender = json.loads(record.value), f"s{rng.randrange(20)}"
        if record.partition == EVENTS:
            value["features"]["sender"] = sender
        raw = json.dumps(value).encode()
        records.append(record._replace(key=sender.encode(), value=raw))
    append(log, records)
    worker = new_worker(
        log, tmp_path, *LATE, *sets, pace=CommitPolicy(commit_events=700, snapshot_events=1000)
    )
    worker.start("a learner")
    worker.run(until_end=True)
    records = processed(log)
    gone = {json.loads(r.value)["id"] for r in records if r.partition == EVENTS and r.key == b"s3"}
    assert 80 < len(gone) < 120
    chosen = _chosen(build_parser().parse_args(["forget", *flags]))
    rebuilding = Retraining(source(open_log(), tmp_path, *sets), chosen)
    truths = effective_labels(records)
    expected = undisturbed(records, truths, *sets, without=gone)
    floor = adopted(worker, rebuilding)
    assert (rebuilding.forgotten, model_digest(worker.learner)) == (len(gone), model_digest(expected))
    assert counts_of(worker.learner.model) == counts_of(expected.model)
    assert [file.n for file in worker.context.snapshots.list()] == [floor]
    with pytest.raises(JournalError, match=rf"forgotten at journal record {floor}"):
        refuse_forgotten(worker.checkpoint, floor - 1)
    one = min(event_id for event_id in gone if truths.get(event_id, (None, 0))[1])
    spoiled = undisturbed(records, truths, *sets, without=gone - {one})
    for model, is_clean in ((None, True), (spoiled.parts()["model"], False)):
        again = Retraining(source(open_log(), tmp_path, *sets))
        n, findings = adopted(worker, again, model), CheckResults()
        check_rebuilt(source(open_log(), tmp_path, *sets), n, findings, forgotten(gone))
        assert findings.is_clean is is_clean
    worker.close()


@pytest.mark.storm_for("kafka")
def test_where_everything_was_forgotten_a_model_is_learned_anew(open_log, tmp_path):
    """Nothing waits for a label then, and nothing that did is in a snapshot."""
    log = open_log(**TOPICS)
    append(log, random_stream(random.Random(5), 60, 90).records)
    chosen = forgotten({f"e{i}" for i in range(60)})
    for choice, is_left in ((chosen, 0), (None, 0), (None, 30)):
        with closing(serving(log, tmp_path, *MODELS["pruned"])) as worker:
            worker.run(until_end=True)
            more = () if choice is None else (choice,)
            adopted(worker, Retraining(source(open_log(), tmp_path, *MODELS["pruned"]), *more))
            assert worker.learner.model.n_events == is_left
        log = open_log()
        if choice is None:
            later = [r._replace(value=r.value.replace(b'"id": "e', b'"id": "f')) for r in labelled(30)]
            append(log, later)
    assert told(verified(log, tmp_path, *LATE, *MODELS["pruned"])) == []


def labelled(n):
    return random_stream(random.Random(6), n, 0, labelled=1.0).records


def test_a_forgotten_event_that_still_teaches_is_found(open_log, tmp_path):
    sets = MODELS["naive_bayes"]
    log = open_log(**TOPICS)
    append(log, random_stream(random.Random(5), 60, 0, labelled=1.0).records)
    worker = serving(log, tmp_path, *sets)
    worker.run(until_end=True)
    rebuilding = Retraining(source(open_log(), tmp_path, *sets), forgotten({"e3"}))
    rebuilt = rebuilding.retrained()
    everything = Retraining(source(open_log(), tmp_path, *sets)).retrained()
    floor = worker.install_model(rebuilt._replace(model=everything.model)).n
    worker.close()
    findings = CheckResults()
    check_rebuilt(source(open_log(), tmp_path, *sets), floor, findings, forgotten({"e3"}))
    assert [f.text for f in findings.all()] == [
        f"the model of journal record {floor} is not the model that the log gives",
        f"the model of the snapshot at journal record {floor} is not the model that the log gives",
    ]
    findings = CheckResults()
    check_rebuilt(source(open_log(), tmp_path, *sets), floor, findings, forgotten({"e3", "e4"}))
    assert "1 of these events" in findings.all()[0].text


@pytest.mark.parametrize("slow", [0.0, 7.0])
def test_a_running_learner_stands_still_and_takes_it_up(open_log, tmp_path, monkeypatch, slow):
    """The learner runs in this thread, and goes on with a stream that goes on.

    What came meanwhile may take longer than it stands still, and than it is waited for.
    """
    if slow:
        monkeypatch.setattr(rebuild, "_PATIENCE_SECONDS", 6.0)
        monkeypatch.setattr("streamnb.runtime.model_handover._PAUSE_SECONDS", 6.0)
    log = open_log(**TOPICS)
    stream = random_stream(random.Random(8), 150, 200).records
    append(log, stream[:200])
    worker = serving(log, tmp_path)
    worker.run(until_end=True)
    numbers = []

    def learn_anew():
        reader, producer = open_log(), open_log()
        try:
            rebuilding = Retraining(source(reader, tmp_path), forgotten({"e1"}))
            for first in range(200, len(stream), 20):
                append(producer, stream[first : first + 20])
            other = new_worker(open_log.hurried(), tmp_path, *LATE)
            follow, waits = rebuilding.follow, iter([slow])
            monkeypatch.setattr(rebuilding, "follow", lambda: (time.sleep(next(waits, 0.0)), follow())[1])
            with closing(other):
                n = is_installed(rebuilding, AtOnce(tmp_path, 100), other)
            numbers.append((n, rebuilding.retrained()))
        finally:
            worker.stop()
            reader.close()
            producer.close()

    thread = threading.Thread(target=learn_anew)
    thread.start()
    worker.run()
    thread.join()
    worker.context.is_stopping = False
    worker.run(until_end=True)
    worker.close()
    other = open_log()
    ((n, rebuilt),) = numbers
    found = find(other, other.partitions("journal")[0], n)
    assert (found.record.kind, found.record.model, found.record.floor) == ("adopt", rebuilt.digest, True)
    assert sum(record.partition == EVENTS for record in stream) == len(read_topic(other, "predictions"))
    again = factories.learner(configured(*LATE))
    recover(other, AtOnce(tmp_path, 100), again, factories.identity(configured(*LATE)))
    assert digests(again) == digests(worker.learner)


def test_it_goes_on_where_nobody_hands_a_model_over(open_log, tmp_path, monkeypatch):
    monkeypatch.setattr("streamnb.runtime.model_handover._PAUSE_SECONDS", 0.3)
    log = open_log(**TOPICS)
    worker = serving(log, tmp_path)
    told_of = []
    worker.context.sensor = type("Heard", (Sensor,), {"noted": lambda _, text: told_of.append(text)})()
    folder = AtOnce(tmp_path, 100)
    with folder.asking():
        worker._handover.pause_if_asked()
        with (
            pytest.raises(SnapshotError, match=f"is held by process {os.getpid()}: "),
            AtOnce(tmp_path, 1).asking(),
        ):
            pass
    assert told_of[-1] == "continuing with the model as it was: none came"
    (tmp_path / "adopt.lock").touch()  # of one who died
    assert not folder.asked_by()
    worker.close()


@pytest.mark.storm_for("kafka")
def test_it_stands_still_once_for_each_who_asks(open_log, tmp_path, monkeypatch):
    """Who has what it asked for may ask a moment longer, and who comes next at once after it."""
    monkeypatch.setattr("streamnb.runtime.model_handover._PAUSE_SECONDS", 0.3)
    monkeypatch.setattr("streamnb.runtime.worker._LOOK_SECONDS", 0.0)
    log = open_log(**TOPICS)
    append(log, random_stream(random.Random(5), 60, 90).records)
    with closing(serving(log, tmp_path)) as worker:
        worker.run(until_end=True)
        told_of = []
        worker.context.sensor = type("Heard", (Sensor,), {"noted": lambda _, text: told_of.append(text)})()
        standing = "pausing commits until a retrained model is installed"
        for n in (1, 2):
            rebuilding = Retraining(source(open_log(), tmp_path))
            with worker.context.snapshots.asking():
                worker.context.snapshots.offer(rebuilding.snapshot(rebuilding.retrained()))
                for _ in range(3):
                    worker._look_around()
            taken_up_by = f"journal record {worker.checkpoint.n} installed a retrained model"
            assert told_of[-2:] == [standing, taken_up_by]
            assert len(told_of) == 2 * n


def test_a_learner_that_died_before_its_snapshot_keeps_one_where_events_were_forgotten(
    open_log, tmp_path, monkeypatch
):
    log = open_log(**TOPICS)
    append(log, random_stream(random.Random(5), 60, 90).records)
    worker = serving(log, tmp_path)
    worker.run(until_end=True)
    rebuilding = Retraining(source(open_log(), tmp_path), forgotten({"e3", "e4", "e5"}))
    worker.context.snapshots.offer(rebuilding.snapshot(rebuilding.retrained()))
    with monkeypatch.context() as dying:
        dying.setattr(worker._writer, "begin", lambda _: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            worker.install_model(rebuilding.retrained())
    log.close()
    folder = AtOnce(tmp_path, 100)
    floor = rebuilding.checkpoint.n + 1
    assert max(file.n for file in folder.list()) < floor
    again = serving(open_log(), tmp_path)
    assert [file.n for file in folder.list()] == [floor]
    assert model_digest(again.learner) == rebuilding.retrained().digest
    again.close()


def test_weights_of_verdicts_are_those_that_hold(open_log, tmp_path):
    log = open_log(**TOPICS)
    append(log, random_stream(random.Random(6), 60, 90).records)
    with closing(serving(log, tmp_path, *MODELS["naive_bayes"])) as worker:
        worker.run(until_end=True)
    log = open_log()
    made = factories.model(configured(*MODELS["naive_bayes"]))
    made.load_state(*Retraining(source(log, tmp_path, *MODELS["naive_bayes"])).retrained().model)
    records = processed(log)
    assert counts_of(made) == counts_of(learned(records, effective_labels(records)))


def test_nothing_is_learned_anew_of_what_is_gone(open_log, tmp_path):
    log = open_log(**TOPICS)
    with pytest.raises(JournalError, match="nothing has been learned yet"):
        Retraining(source(log, tmp_path))


def test_labels_of_events_that_wait_no_longer_are_those_that_they_had_in_the_end(open_log, tmp_path):
    """They have gone from the learner's memory, and what is said of them later changes nothing."""
    sets = [*MODELS["naive_bayes"], "labels.memory=1MiB"]
    log = open_log(**TOPICS)
    rng, stream = random.Random(9), Stream()
    for i in range(1800):
        stream.event(f"e{i}", f"w{rng.randrange(50)} " + "- " * 700)
    append(log, stream.records)
    timely = Stream()
    for i in range(1800):
        timely.verdict(f"e{i}", rng.choice("xy"))
    worker = new_worker(log, tmp_path, *LATE, *sets, pace=CommitPolicy(commit_events=200))
    worker.start("a learner")
    for first in range(0, 1800, 100):  # each verdict while its event waits
        append(log, timely.records[first : first + 100])
    worker.run(until_end=True)
    assert min(worker.learner.late.pending.blocks()) > 0
    assert worker.learner.model.n_events > 300
    late = Stream()
    for i in range(100):
        late.verdict(f"e{i}", "z", ts=2e9)
    append(log, late.records)
    worker.run(until_end=True)
    worker.close()
    made = factories.model(configured(*sets))
    log = open_log()
    made.load_state(*Retraining(source(log, tmp_path, *sets)).retrained().model)
    assert made.class_weights == worker.learner.model.class_weights
    assert counts_of(made) == counts_of(worker.learner.model)
    assert "z" not in made.classes


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_ids_of_a_file_are_its_lines_and_nothing_else(tmp_path, end):
    """A mark at the beginning is no part of the first; no other character ends a line."""
    file, ids = tmp_path / "gone.txt", ["first", "a\x0bb", "a\u2028b", "a\x85b", " spaced "]
    file.write_bytes(b"\xef\xbb\xbf" + end.join([*ids, "", "last"]).encode())
    chosen = with_ids(str(file))
    assert all(chosen(Event(event_id, {}), None) for event_id in [*ids, "last"])
    assert not any(chosen(Event(event_id, {}), None) for event_id in ["a", "b", "", "spaced"])


def flags_of(folder, *more):
    sets = [*LATE, *MODELS["naive_bayes"], f"log.url=sqlite:///{folder}/log.db", f"snapshots.folder={folder}"]
    return [*more, *(part for one in sets for part in ("--set", one))]


@pytest.mark.parametrize("open_log", ["sqlite"], indirect=True)
def test_ids_that_name_no_event_are_told(open_log, tmp_path, capsys):
    log = open_log(**TOPICS)
    append(log, random_stream(random.Random(5), 30, 30).records)
    with closing(serving(log, tmp_path, *MODELS["naive_bayes"])) as worker:
        worker.run(until_end=True)
    file = tmp_path / "gone.txt"

    def forget(*ids):
        file.write_text("\n".join(ids))
        return main(flags_of(tmp_path, "forget", "--ids", str(file))), capsys.readouterr()

    missing = [f"x{i}" for i in range(7)]
    status, said = forget("e3", *missing, "e4")
    assert (status, said.out.split(";")[0]) == (0, "2 events forgotten")
    assert said.err.startswith("7 of 9 ids name no event that was learned from: x0, x1, x2, x3, x4, ...\n")
    status, said = forget("x1", "e3")
    assert (status, "1 of 2 ids name no event" in said.err, "forgotten before" in said.err) == (0, True, True)
    status, said = forget("x1")
    assert (status, "1 of 1 ids name no event" in said.err) == (1, True)
    for ids, code, expected in [
        (["e3", "e4"], 0, "the same model, bit for bit"),
        (["e3", "x1"], 0, "1 of 2 ids name no event that was learned from: x1"),
        (["e3 "], 1, "1 of 1 ids name no event that was learned from: 'e3 '"),
        ([], 1, "the file is empty: no id was looked for"),
        (["e3", "e5"], 1, "1 of these events, up to journal record"),
    ]:
        file.write_text("\n".join(ids))
        assert main(flags_of(tmp_path, "verify", "--forgotten", str(file))) == code, ids
        assert expected in capsys.readouterr().out
    for field, more in {"tenant": "; no event has an attribute 'tenant', but some have", "text": ""}.items():
        status, said = main(flags_of(tmp_path, "forget", "--where", f"{field}=u")), capsys.readouterr()
        assert (status, said.err.partition("nothing was changed")[2].startswith(more)) == (1, True)
        assert bool(more) == ("attribute" in said.err)


@pytest.mark.parametrize("open_log", ["sqlite"], indirect=True)
@pytest.mark.parametrize(
    ("paused", "says"), [(9.0, "does it keep its snapshots in"), (0.2, "was suspended .* Run it again")]
)
def test_a_command_that_was_stopped_says_so(open_log, tmp_path, monkeypatch, paused, says):
    """Here it stands still whenever it has looked at the journal."""
    log = open_log(**TOPICS)
    append(log, random_stream(random.Random(5), 30, 30).records)
    with closing(serving(log, tmp_path)) as worker:
        worker.run(until_end=True)
        rebuilding = Retraining(source(open_log(), tmp_path))
        monkeypatch.setattr(rebuild, "_PATIENCE_SECONDS", 0.6)
        monkeypatch.setattr(rebuild, "_LOOK_SECONDS", 0.4)
        monkeypatch.setattr(rebuild, "_PAUSE_SECONDS", paused)
        with (
            closing(new_worker(open_log(), tmp_path, *LATE)) as other,
            pytest.raises(JournalError, match=says),
        ):
            is_installed(rebuilding, AtOnce(tmp_path, 100), other)


def test_a_file_of_ids_that_is_no_text_is_refused(tmp_path):
    file = tmp_path / "gone.txt"
    file.write_bytes(b"a\n\xff\xfe\n")
    with pytest.raises(ConfigError, match=r"gone\.txt: line 2 is not UTF-8"):
        with_ids(str(file))


def test_a_model_that_was_just_taken_up_is_not_removed_by_who_asks_next(open_log, tmp_path):
    """The learner may die before its snapshot: then the journal needs the file."""
    log = open_log(**TOPICS)
    append(log, random_stream(random.Random(5), 60, 90).records)
    worker = serving(log, tmp_path)
    worker.run(until_end=True)
    second = Retraining(source(open_log(), tmp_path))
    first = Retraining(source(open_log(), tmp_path))
    offered = worker.context.snapshots.offer(first.snapshot(first.retrained()))
    worker.install_model(first.retrained())
    worker.close()
    with pytest.raises(JournalError, match="installed another model meanwhile"):
        is_installed(second, AtOnce(tmp_path, 100), worker)
    assert offered.exists()


@pytest.mark.storm_for("kafka")
@pytest.mark.parametrize("content", [None, b"", b"foreign"])
def test_a_learner_stands_still_once_for_each_who_asks(open_log, tmp_path, monkeypatch, content):
    """Whoever asks may hang, and what is offered may be damaged: the learner goes on, and stays on."""
    monkeypatch.setattr("streamnb.runtime.model_handover._PAUSE_SECONDS", 0.2)
    monkeypatch.setattr("streamnb.runtime.worker._LOOK_SECONDS", 0.0)
    log = open_log(**TOPICS)
    append(log, random_stream(random.Random(5), 60, 90).records)
    worker = serving(log, tmp_path)
    worker.run(until_end=True)
    told_of = []
    worker.context.sensor = type("Heard", (Sensor,), {"noted": lambda _, text: told_of.append(text)})()
    folder = AtOnce(tmp_path, 100)
    for times in (1, 2):
        with folder.asking():
            if content is not None:
                (tmp_path / f"adopt-{worker.checkpoint.n:020d}.snb").write_bytes(content)
            for _ in range(3):
                worker._look_around()
        worker._look_around()
        assert len(told_of) == 2 * times
    why = "none came" if content is None else str(tmp_path / "adopt-")
    assert told_of[-1].startswith(f"continuing with the model as it was: {why}")
    worker.close()


def test_what_was_forgotten_is_not_missed_where_no_labels_come_late(open_log, tmp_path):
    """The recount begins with the snapshot that follows: what its hypotheses met is less than was read."""
    log = open_log(**TOPICS)
    append(log, random_stream(random.Random(5), 60, 0, labelled=1.0).records)
    worker = new_worker(log, tmp_path, pace=PACE)
    worker.start("a learner")
    worker.run(until_end=True)
    config = configured()
    of = RetrainingSource(
        open_log(), AtOnce(tmp_path, 100), lambda: factories.learner(config), factories.identity(config)
    )
    worker.install_model(Retraining(of, forgotten({"e3", "e4"})).retrained())
    worker.close()
    assert told(verified(open_log(), tmp_path)) == []
