"""Labels that are read as other ones: from now on, and once a model is learned anew in all that was."""

from __future__ import annotations

import json
import random
from collections import Counter
from contextlib import closing

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamnb.engine.ports import NewRecord
from streamnb.engine.retraining.log_retraining import Retraining, RetrainingSource
from streamnb.formats.codec import decode_event, decode_label, decode_labels
from streamnb.formats.event_schema import EventSchema
from streamnb.runtime import factories
from streamnb.verification.check_results import CheckResults
from streamnb.verification.log.retrained_model_check import check_rebuilt
from tests.engine.retraining.test_log_retraining import LATE, append, processed, serving
from tests.support.late import LABELS, counts_of, effective_labels, learned, random_stream
from tests.support.service import TOPICS, AtOnce, model_digest, raw_events, read_topic
from tests.support.verifying import configured, journal_of, new_worker, told, verified

pytestmark = [pytest.mark.slow, pytest.mark.early(45)]

ALIASES = {"a": "b", "c": "", "x": "y", "z": ""}
SETS = "classes.aliases={a='b', c='', x='y', z=''}"


def renamed(raw):
    """The record as if it had been written so."""
    try:
        record = json.loads(raw)
    except ValueError:
        return raw
    label = record.get("label")
    return json.dumps(record | {"label": ALIASES.get(label, label) or None}).encode() if label else raw


@given(
    label=st.sampled_from(["a", "b", "c", "d", None]),
    more=st.sampled_from(
        [
            {"features": {}},
            {"text": "w"},
            {"features": {"text": "w", "x": 2}},
            {"text": "w", "ts": "2026-01-01T00:00:00Z"},
        ]
    ),
    schema=st.sampled_from(
        [EventSchema(aliases=ALIASES), EventSchema(id_path="$.id", ts_path=None, aliases=ALIASES)]
    ),
)
def test_an_event_and_a_verdict_are_read_as_if_the_other_name_were_written(label, more, schema):
    """On the fast road and on the other one."""
    raw = json.dumps({"id": "e", "label": label} | more).encode()
    plain = EventSchema(ts_path=schema.ts_path)
    assert decode_event(raw, schema) == decode_event(renamed(raw), plain)
    verdict = json.dumps({"id": "e", "label": label, "source": "s"}).encode()
    withdrawal = b'{"withdraw": true, "source": "s"}'
    assert decode_label(verdict, schema) == decode_label(renamed(verdict))
    for others in ([verdict], [verdict, withdrawal]):
        assert decode_labels(others, schema) == decode_labels(list(map(renamed, others)))


def source(log, folder, *sets):
    config = configured(*sets)
    return RetrainingSource(
        log, AtOnce(folder, 100), lambda: factories.learner(config), factories.identity(config)
    )


def run(log, folder, *sets):
    with closing(new_worker(log, folder, *sets)) as worker:
        worker.start("a learner")
        worker.run(until_end=True)
    return worker.learner


def learn_anew(log, folder, *sets):
    """Let a learner begin with this configuration, and take a model up that was learned anew; the record."""
    with closing(new_worker(log, folder, *sets)) as worker:
        worker.start("a learner")
        rebuilding = Retraining(source(log, folder, *sets))
        rebuilt = rebuilding.retrained()
        worker.context.snapshots.offer(rebuilding.snapshot(rebuilt))
        return worker.install_model(rebuilt).n


@pytest.mark.thorough_for("sqlite-model1", "kafka-model1")
@pytest.mark.parametrize("model", [["model.kind=naive_bayes"], []])
def test_they_hold_from_now_on_and_of_all_once_the_model_is_learned_anew(open_log, tmp_path, model):
    raws = raw_events(150, seed=5)
    log, folder = open_log(**TOPICS), tmp_path / "snapshots"
    log.append([NewRecord("events", None, raw) for raw in raws[:80]])
    run(log, folder, *model)
    log = open_log()
    log.append([NewRecord("events", None, raw) for raw in raws[80:120]])
    made = run(log, folder, *model, SETS)
    known = open_log()
    expected = factories.learner(configured(*model))
    read = [r._replace(value=renamed(r.value)) if r.offset >= 80 else r for r in read_topic(known, "events")]
    expected.process(read, 1.0)
    assert model_digest(made) == model_digest(expected)
    assert told(verified(known, folder, *model, SETS)) == []
    for sets, rename in ((SETS, renamed), ("classes.aliases={}", bytes)):  # and all is as before without them
        n = learn_anew(open_log(), folder, *model, sets)
        anew = factories.learner(configured(*model))
        anew.process([r._replace(value=rename(r.value)) for r in read_topic(open_log(), "events")], 1.0)
        assert journal_of(open_log())[n].model == model_digest(anew)
        findings = CheckResults()
        check_rebuilt(source(open_log(), folder, *model, sets), n, findings)
        assert findings.is_clean
        open_log().append([NewRecord("events", None, raw) for raw in raws[120:]])
        assert set(run(open_log(), folder, *model, sets).model.classes) == set(anew.model.classes)
        assert told(verified(open_log(), folder, *model, sets)) == []
    assert set(anew.model.classes) == {"a", "b", "c"}


@pytest.mark.parametrize("open_log", ["sqlite"], indirect=True)
def test_labels_that_come_apart_are_corrected_across_the_change(open_log, tmp_path):
    """What was learned under a former name is taken back under it."""
    log, folder = open_log(**TOPICS, labels=1), tmp_path / "snapshots"
    records = random_stream(random.Random(8), 100, 200).records
    append(log, records[:150])
    with closing(serving(log, folder, "model.kind=naive_bayes")) as worker:
        worker.run(until_end=True)
    before = Counter(record.partition for record in processed(open_log()))
    log = open_log()
    append(log, records[150:])
    with closing(serving(log, folder, "model.kind=naive_bayes", SETS)) as worker:
        worker.run(until_end=True)
    known = processed(open_log())
    read = [r._replace(value=renamed(r.value)) if r.offset >= before[r.partition] else r for r in known]
    corrected = [r for r in read if r.partition == LABELS and r.offset >= before[LABELS]]
    assert {json.loads(r.value).get("label") for r in corrected} == {"y", None}
    assert counts_of(worker.learner.model) == counts_of(learned(read, effective_labels(read)))
    assert set(worker.learner.model.classes) == {"x", "y", "z"}
    assert told(verified(open_log(), folder, *LATE, "model.kind=naive_bayes", SETS)) == []
    rebuilt = Retraining(source(open_log(), folder, *LATE, "model.kind=naive_bayes", SETS))
    assert rebuilt.learned


@pytest.mark.parametrize("open_log", ["sqlite"], indirect=True)
def test_labels_may_come_apart_once_classes_are_gone(open_log, tmp_path):
    """Scores of before are of classes that the model has no more; a snapshot that has them is read again."""
    log, folder = open_log(**TOPICS, labels=1), tmp_path / "snapshots"
    log.append([NewRecord("events", None, raw) for raw in raw_events(80, seed=5)])
    before = run(log, folder, "model.kind=naive_bayes")
    learn_anew(open_log(), folder, "model.kind=naive_bayes", SETS)
    late = [*LATE, "model.kind=naive_bayes", SETS]
    scores = run(open_log(), folder, *late).report(1.0)
    again = run(open_log(), folder, *late)
    assert len(again.model.classes) < len(before.model.classes)
    assert again.report(1.0) == scores
    assert told(verified(open_log(), folder, *late)) == []
