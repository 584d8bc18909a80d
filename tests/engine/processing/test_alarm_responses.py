"""What alarms do: the same however a stream is cut, put down or replayed, and no more than is asked for."""

from __future__ import annotations

import json
import random
from contextlib import closing
from types import SimpleNamespace

import pytest

from streamnb.cli.commands.inspect import describe, print_description
from streamnb.engine.journal.recovery import recover
from streamnb.engine.journal.snapshot_store import NoSnapshots
from streamnb.engine.ports import NewRecord, Record
from streamnb.engine.processing import alarm_responses
from streamnb.engine.processing.alarm_responses import EVERY
from streamnb.engine.retraining.log_retraining import Retraining, RetrainingSource
from streamnb.events import ActionReport
from streamnb.formats.codec import decode_alert
from streamnb.formats.journal_record import decode_journal
from streamnb.runtime import factories
from streamnb.runtime.worker_context import CommitPolicy
from streamnb.serving.replica import Replica
from streamnb.verification.check_results import CheckResults
from streamnb.verification.log.retrained_model_check import check_rebuilt
from tests.support.late import EVENTS, LABELS
from tests.support.service import AtOnce, digests, model_digest, predictions, read_topic
from tests.support.verifying import configured, new_worker, told, verified

pytestmark = pytest.mark.early(35)

BOUNDS = "kind='error-rate', tolerated=0.05, alarming=0.4, false_alarm=1e-6"
PAUSE = f"{{name='errors', {BOUNDS}, action='pause'}}"
SHORT = f"{{name='errors', {BOUNDS}, action='pause', pause_records=150}}"
RENEW = f"{{name='errors', {BOUNDS}, action='renew'}}"
BOTH = f"{RENEW}, {{name='paused', {BOUNDS}, action='pause', pause_records=100}}"
ACTIONS = {"pause": PAUSE, "short": SHORT, "renew": RENEW, "both": BOTH}
LATE = ["topics.labels=labels", "labels.window=1000d"]
HYPOTHESES = (
    "hypotheses=[{likelihood='presence', alpha=0.1}, {likelihood='presence', half_life='1d', calibrated=true},"
    " {kind='softmax'}, {kind='byte_softmax', first_bytes=16}, {kind='pool'}]"
)
STREAMS = [("pause", False), ("renew", False), ("both", False), ("short", True), ("both", True)]
"""Action, and whether labels come apart from their events."""
TOPICS = dict.fromkeys(("events", "labels", "predictions", "metrics", "dead_letters", "journal", "alerts"), 1)
N = 550


def sets(action, *more, late=False):
    return [
        f"monitors=[{ACTIONS[action]}]",
        HYPOTHESES,
        "metrics.every_events=130",
        *more,
        *(LATE if late else []),
    ]


def stream(*, late=False, flipped=range(180, 400), n=N, seed=1):
    """Events of two kinds, and their labels, in them or behind; some are corrected. In a span labels are exchanged."""
    rng = random.Random(seed)
    values = []
    for i in range(n):
        is_spam = rng.random() < 0.5
        words = rng.sample(["buy", "cheap", "pills", "now"] if is_spam else ["meet", "me", "at", "noon"], 2)
        label = "spam" if is_spam != (i in flipped) else "ham"
        event = {"id": f"e{i}", "text": " ".join(words), "ts": 1.7e9 + 60 * i}
        values.append(("events", event if late else event | {"label": label}))
        if late and i >= 3:
            values.append(("labels", {"id": f"e{i - 3}", "label": label_of(values, i - 3, flipped, label)}))
            if rng.random() < 0.05:
                values.append(
                    ("labels", {"id": f"e{rng.randrange(i - 2)}", "label": rng.choice(["spam", "ham"])})
                )
    offsets = {"events": 0, "labels": 0}
    found = []
    for topic, value in values:
        partition = EVENTS if topic == "events" else LABELS
        found.append(Record(partition, offsets[topic], None, json.dumps(value).encode(), 1.7e9 + len(found)))
        offsets[topic] += 1
    return found


def label_of(values, i, flipped, _):
    text = next(value for topic, value in values if topic == "events" and value["id"] == f"e{i}")["text"]
    is_spam = any(word in text for word in ("buy", "cheap", "pills", "now"))
    return "spam" if is_spam != (i in flipped) else "ham"


def learner_of(action, *more, late=False):
    return factories.learner(configured(*sets(action, *more, late=late)))


def processed(learner, records, cuts=(10**6,), *, restarts=False):
    """What a learner published of these, cut so; one that is put down behind each commit goes on from its state."""
    outputs, start, i = [], 0, 0
    while start < len(records):
        part = records[start : start + cuts[i % len(cuts)]]
        outputs += learner.process(part, 1.0)
        start, i = start + len(part), i + 1
        if restarts and i % 7 == 0:
            copy = learner.copying()
            while not copy.advance(1 << 20):
                pass
            learner.load(copy.parts(), copy.segments())
    return outputs


def alerts(outputs):
    found = [decode_alert(one.value) for one in outputs if one.topic == "alerts"]
    return [(one.monitor, one.state, one.action, one.events) for one in found]


@pytest.fixture(autouse=True, scope="module")
def _begins_soon():
    """So that few events show what many would."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(alarm_responses, "BEGINNING", 100)
        yield


@pytest.fixture(scope="module")
def wholes():
    """Of each action, a stream that was processed at once."""
    found = {}
    for action, late in STREAMS:
        learner = learner_of(action, late=late)
        outputs = processed(learner, stream(late=late))
        found[action, late] = digests(learner), outputs, learner
    return found


CUTS = [(1, 17), (99, 101, 3), (EVERY,), (130, 333, 50)]


@pytest.mark.thorough_for("(1, 17)", "(130, 333, 50)")
@pytest.mark.parametrize(("action", "late"), STREAMS)
@pytest.mark.parametrize("cuts", CUTS, ids=str)
def test_cuts_and_restarts_change_nothing(wholes, action, late, cuts):
    state, outputs, _ = wholes[action, late]
    learner = learner_of(action, late=late)
    found = processed(learner, stream(late=late), cuts, restarts=cuts != (EVERY,))
    assert alerts(found) == alerts(outputs)
    assert predictions(found) == predictions(outputs)
    assert digests(learner) == state


def test_the_stream_has_what_it_is_to_test(wholes):
    for (action, _), (_, outputs, learner) in wholes.items():
        told = learner.actions.report()
        assert [one[1] for one in alerts(outputs)].count("raised") >= 1
        assert told.renewed > 0
        assert (told.passed_over > 0) == (action != "renew")


def append(log, records):
    log.append([NewRecord(record.partition.topic, record.key, record.value) for record in records])


@pytest.mark.storm_for("kafka", but="kafka-both-True")
@pytest.mark.parametrize(("action", "late"), STREAMS[1:])
def test_the_journal_says_what_was_done_and_everyone_repeats_it(open_log, tmp_path, action, late):
    """A learner, its replay, its snapshots, the recount, and a model that is learned anew and follows."""
    log, records, config = open_log(**TOPICS), stream(late=late), sets(action, late=late)
    pace = CommitPolicy(commit_events=60, commit_seconds=0.0, snapshot_events=200)
    with closing(new_worker(log, tmp_path, *config, pace=pace)) as worker:
        worker.start("a learner")
        append(log, records[: len(records) // 2])
        worker.run(until_end=True)
        source = RetrainingSource(
            open_log(),
            AtOnce(tmp_path, 100),
            lambda: learner_of(action, late=late),
            factories.identity(configured(*config)),
        )
        rebuilding = Retraining(source)
        append(log, records[len(records) // 2 :])
        worker.run(until_end=True)
        rebuilding.follow()
        if not late:  # labels in events teach a model that is learned anew the same
            assert model_digest(rebuilding._learner) == model_digest(worker.learner)
        again = learner_of(action, late=late)
        recover(open_log(), NoSnapshots(), again, factories.identity(configured(*config)))
        assert digests(again) == digests(worker.learner)
        assert told(verified(open_log(), tmp_path, *config)) == []
        worker.context.snapshots.offer(rebuilding.snapshot(rebuilding.retrained()))
        adopted = worker.install_model(rebuilding.retrained()).n
    log, told_of = open_log(), worker.learner.actions.report()
    acted = [one for record in read_topic(log, "journal") for one in decode_journal(record.value).acted]
    assert sum(one.action == "renew" for one in acted) == told_of.renewed
    paused = sum(one.stop - one.first for one in acted if one.action == "pause")
    assert told_of.passed_over <= paused if late else told_of.passed_over == paused
    assert (told_of.passed_over > 0) == (action != "renew")
    assert told_of.renewed > 0
    again = learner_of(action, late=late)
    recover(log, AtOnce(tmp_path, 100), again, factories.identity(configured(*config)))
    assert digests(again) == digests(worker.learner)
    assert told(verified(log, tmp_path, *config)) == []
    findings = CheckResults()
    check_rebuilt(source, adopted, findings)
    assert [one.verdict.name for one in findings.all()] == ["OK"]


def counting(bounds, flipped, n=N):
    """A naive Bayes model, which follows slowly, of a stream whose labels are wrong for a while."""
    config = configured(
        "model.kind=naive_bayes", f"monitors=[{{name='errors', {bounds}}}]", "metrics.every_events=9999"
    )
    learner = factories.learner(config)
    outputs = processed(learner, stream(flipped=flipped, n=n))
    return learner, alerts(outputs)


def test_a_pause_ends_with_its_alarm_and_nothing_is_learned_meanwhile():
    learner, found = counting(f"{BOUNDS}, action='pause'", range(280, 420))
    (_, raised, action, begin), (_, cleared, _, end) = found
    assert (raised, action, cleared) == ("raised", "pause", "cleared")
    assert 280 < begin < 300
    assert 420 < end < 500
    assert learner.actions.report() == ActionReport(False, 200, 1)  # records 300 to 499
    assert learner.model.n_events == N - 200
    assert learner.progressive.cumulative().events == N


def test_a_pause_ends_after_so_many_records():
    learner, found = counting(f"{BOUNDS}, action='pause', pause_records=150", range(280, N))
    assert [one[1] for one in found] == ["raised"]
    assert learner.actions.report() == ActionReport(False, 200, 1)


@pytest.mark.parametrize(("beginning", "does", "passed_over"), [(280, "pause", 200), (300, "", 0)])
def test_alarms_of_the_first_records_only_tell(monkeypatch, beginning, does, passed_over):
    monkeypatch.setattr(alarm_responses, "BEGINNING", beginning)
    learner, found = counting(f"{BOUNDS}, action='pause', pause_records=150", range(280, N))
    assert [one[1:3] for one in found] == [("raised", does)]
    assert learner.actions.report() == ActionReport(False, passed_over, bool(passed_over))


def test_what_learns_fast_begins_anew_and_counts_stay():
    model = learner_of("renew").model
    events = [json.loads(record.value) for record in stream(n=200)]
    xs, ys, ts = ([event[name] for event in events] for name in ("text", "label", "ts"))
    for x, y, t in zip(xs, ys, ts, strict=True):
        model.learn_many([{"text": x}], [y], None, [t])
    before, known = model.state()[1], model.posterior.probabilities
    copy = model.copying()
    model.reset_adaptive()
    after = model.state()[1]
    assert all((copy.state()[1][name] == array).all() for name, array in before.items())
    assert known == model.posterior.probabilities
    changed = {
        name
        for name, array in before.items()
        if array.shape != after[name].shape or (array != after[name]).any()
    }
    assert {
        "decayed_table",
        "decayed_classes",
        "decayed_totals",
        "learned_feature_weights",
        "learned_powers",
    } <= changed
    assert all(name.startswith(("decayed_", "learned_")) for name in changed)
    assert not any(after[name].any() for name in ("decayed_table", "decayed_classes", "decayed_totals"))
    model.unlearn_many([{"text": x} for x in xs], ys)
    assert model.n_events == 0
    assert not model.state()[1]["table"].any()


def test_inspect_and_a_replica_say_what_alarms_did(capsys):
    learner, _ = counting(f"{BOUNDS}, action='pause'", range(280, 420))
    description = describe(learner, 1)
    assert description["actions"] == {"paused": False, "passed_over": 200, "renewed": 1}
    print_description({**description, "journal": 1})
    assert (
        "alarms: learning continues, 200 labels passed over so far; the model was renewed 1 time"
        in capsys.readouterr().out
    )
    replica = Replica(configured(), print, rests=True)
    for made, told_of in [(learner, description["actions"]), (factories.learner(configured()), None)]:
        replica._following = SimpleNamespace(checkpoint=SimpleNamespace(n=1), learner=made)
        assert replica.state().get("actions") == told_of
