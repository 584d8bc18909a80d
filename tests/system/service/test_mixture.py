"""A model that weighs hypotheses, as a service: configured, run, killed, replayed, verified, shown."""

from __future__ import annotations

import gzip
import json
import math
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from streamnb.config import load, restored, semantic_config_of
from streamnb.engine.journal.checkpoint import snapshot_of
from streamnb.engine.journal.journal_entries import roll_back
from streamnb.engine.journal.recovery import recover
from streamnb.engine.journal.snapshot_store import NoSnapshots
from streamnb.engine.ports import Partition
from streamnb.errors import ConfigError, JournalError
from streamnb.event_logs.sqlite.sqlite_log import SqliteLog
from streamnb.formats.codec import decode_event, decode_metrics, decode_prediction
from streamnb.models.mixture.hypotheses import Hypothesis
from streamnb.models.naive_bayes.naive_bayes_classifier import NaiveBayes
from streamnb.persistence.snapshot_folder import SnapshotFolder
from streamnb.runtime import factories
from streamnb.runtime.worker import Worker
from streamnb.runtime.worker_context import CommitPolicy
from tests.cli.test_commands import answer, streamnb
from tests.support.service import (
    TOPICS,
    AtOnce,
    Ticking,
    digests,
    kill,
    many,
    model_digest,
    predictions,
    produce,
    raw_events,
    read_topic,
    records,
    timeless,
)
from tests.support.verifying import told, verified

pytestmark = pytest.mark.thorough

MODES = ["mixture", "map", "gibbs"]
ATTRIBUTES = (
    'attributes=[{name="text", kind="text"}, {name="subject", kind="text", alpha=0.5}, '
    '{name="colour", kind="nominal"}, {name="x", kind="continuous"}]'
)
HYPOTHESES = (
    'hypotheses=[{name="plain"}, {likelihood="presence", alpha=0.1}, {likelihood="bernoulli", m=2.0, p=0.1}, '
    '{likelihood="complement", prior="uniform"}, {likelihood="presence", half_life="6h", weight=2}, '
    '{half_life="1d"}]'
)
NAMES = [
    "plain",
    "presence alpha=0.1",
    "bernoulli m=2 p=0.1",
    "complement alpha=1 prior=uniform",
    "presence alpha=1 half_life=21600s",
    "multinomial alpha=1 half_life=86400s",
]
FLAGS = (
    ATTRIBUTES,
    HYPOTHESES,
    "events.clock=event",
    "posterior.switching_rate=0.01",
    "predictions.hypotheses=true",
)
PACE = CommitPolicy(commit_events=30, snapshot_events=90)


def at_its_time(raw, place):
    """An event with a time: ten minutes after the one before it, but now and then late, or without one."""
    event = json.loads(raw)
    if place % 7:
        event["ts"] = 1_700_000_000.0 + 600.0 * place - (5000.0 if place % 11 == 0 else 0.0)
    else:
        event.pop("ts", None)
    return json.dumps(event).encode()


RAWS = [at_its_time(raw, i) for i, raw in enumerate(raw_events(400, seed=5))]


def configured(*flags):
    return load(None, {}, ["log.url=sqlite:///unused.db", *FLAGS, *flags])


def worker_of(log, folder, config):
    return Worker(
        log, AtOnce(folder, 100), factories.learner(config), factories.identity(config), PACE, Ticking()
    )


def learned(open_log, folder, config, raws):
    """One life of a worker, to the end of the log."""
    log = open_log(**TOPICS)
    produce(log, raws)
    worker = worker_of(log, folder, config)
    worker.start("test")
    worker.run(until_end=True)
    worker.close()
    return worker.learner


def alone(config, raws=RAWS):
    """A learner without a log, and what it predicts."""
    learner = factories.learner(config)
    return learner, predictions(learner.process(records(raws), 1.0))


def recovered(open_log, config, snapshots=None):
    learner = factories.learner(config)
    recover(open_log(), snapshots or NoSnapshots(), learner, factories.identity(config))
    return learner


# -- configuration ------------------------------------------------------------------------------------------


def test_hypotheses_take_from_the_model_what_they_leave_out():
    flags = ["model.m=3.0", "model.p=0.25", "model.prior=given", "model.priors={ a = 2.0 }"]
    tables = (
        '{alpha=0.5}, {likelihood="bernoulli"}, {prior="learned", m=1.0}, {prior="given", half_life="36h"}'
    )
    flags += ["posterior.prediction=gibbs", "posterior.switching_rate=0.25", "posterior.seed=7"]
    model = factories.model(load(None, {}, [f"hypotheses=[{tables}]", *flags]))
    assert list(model.hypotheses) == [
        Hypothesis("multinomial", alpha=0.5, prior={"a": 2.0}),
        Hypothesis("bernoulli", m=3.0, p=0.25, prior={"a": 2.0}),
        Hypothesis("multinomial", m=1.0, prior="learned"),
        Hypothesis("multinomial", m=3.0, p=0.25, prior={"a": 2.0}, half_life=129600.0),
    ]
    assert (model.prediction, model.switching_rate, model.seed) == ("gibbs", 0.25, 7)
    bernoulli = factories.model(load(None, {}, ["hypotheses=[{}]", "model.event_model=bernoulli"]))
    assert list(bernoulli.hypotheses) == [Hypothesis("bernoulli", alpha=1.0)]


def test_there_may_be_one_naive_bayes_model():
    for flags in ([], ["posterior.switching_rate=0.5", "predictions.hypotheses=true"]):
        config = load(None, {}, ["model.kind=naive_bayes", *flags])
        assert type(factories.model(config)) is NaiveBayes
        learner, found = alone(config)
        assert learner.report(1.0).posterior is None
        assert {prediction["hypotheses"] for prediction in found} == {None}


def test_priors_may_be_for_a_hypothesis_alone():
    config = load(None, {}, ["model.priors={ a = 1.0 }", 'hypotheses=[{prior="given"}, {}]'])
    assert [h.prior for h in factories.model(config).hypotheses] == [{"a": 1.0}, "learned"]


@pytest.mark.parametrize(
    ("tables", "says"),
    [
        ("{}, {alpha=1.0}", "hypotheses: two hypotheses are called 'multinomial alpha=1': give one of them"),
        ('{name="multinomial alpha=1"}, {}', "hypotheses: two hypotheses are called 'multinomial alpha=1'"),
        ('{}, {half_life="0.5ms"}', r"hypotheses\[1\]: half_life must be at least a millisecond, not 0.0005"),
        ("{m=1e-200}", r"hypotheses\[0\]: m must be 0 or lie between"),
    ],
)
def test_what_the_model_refuses_is_told_with_its_place(tables, says):
    config = load(None, {}, [f"hypotheses=[{tables}]"])
    with pytest.raises(ConfigError, match=says):
        factories.model(config)


# -- what is published --------------------------------------------------------------------------------------


def test_a_prediction_says_how_probable_each_hypothesis_was_where_it_is_asked_for():
    config = configured()
    learner, found = alone(config)
    model, events = factories.model(config), [decode_event(raw, learner.settings.schema) for raw in RAWS]
    for event, prediction in zip(events, found, strict=True):
        assert prediction["hypotheses"] == pytest.approx(model.posterior.probabilities, abs=1e-12)
        assert list(prediction["hypotheses"]) == NAMES
        model.predict_then_learn_many([event.x], [event.label], ts=[event.ts])
    _, silent = alone(configured("predictions.hypotheses=false"))
    assert silent == [{**prediction, "hypotheses": None} for prediction in found]


def test_a_report_says_how_each_hypothesis_fares():
    learner, outputs = factories.learner(configured()), []
    outputs = learner.process(records(RAWS), 1.0)
    reports = [decode_metrics(output.value) for output in outputs if output.topic == "metrics"]
    posterior = learner.model.posterior
    found = reports[-1].posterior
    assert [h.name for h in found.hypotheses] == NAMES
    assert [h.prior for h in found.hypotheses] == pytest.approx([1 / 7, 1 / 7, 1 / 7, 1 / 7, 2 / 7, 1 / 7])
    assert {h.name: h.posterior for h in found.hypotheses} == posterior.probabilities
    assert {h.name: h.loss for h in found.hypotheses} == posterior.losses
    best = min(found.hypotheses, key=lambda h: h.loss)
    assert found.best == best.name
    assert found.loss == -posterior.log_evidence == pytest.approx(best.loss + found.regret)
    assert found.observations == learner.model.n_events == 400 - sum(b'"label": null' in raw for raw in RAWS)
    assert found.bound == pytest.approx(-math.log(best.prior) - found.observations * math.log(0.99))
    assert found.switching_rate == 0.01


def test_the_time_of_an_event_is_what_hypotheses_forget_by():
    timed, timeless = configured(), configured("events.ts=$.nowhere")
    with_times, without = (alone(config)[0] for config in (timed, timeless))
    assert model_digest(with_times) != model_digest(without)
    losses = [learner.model.posterior.losses for learner in (with_times, without)]
    assert [name for name in NAMES if losses[0][name] != losses[1][name]] == NAMES[4:]


# -- exactly once -------------------------------------------------------------------------------------------


class CrashError(Exception):
    pass


class Crashing:
    """A log that dies at one of its next commits, before it is made or after."""

    def __init__(self, log, *, after, left):
        self._log, self._after, self._left = log, after, left

    def __getattr__(self, name):
        return getattr(self._log, name)

    def begin_commit(self, transaction):
        self._left -= 1
        if self._left:
            return self._log.begin_commit(transaction)
        if self._after:
            self._log.commit(transaction)
        raise CrashError


@pytest.mark.parametrize("mode", MODES)
def test_killed_and_started_again_it_is_as_if_undisturbed(open_log, tmp_path, mode):
    """Crashes before and after a commit, recovery from snapshots and without: in every mode, on both logs."""
    config = configured(f"posterior.prediction={mode}", "posterior.seed=3")
    expected, published = alone(config)
    produce(open_log(**TOPICS), RAWS)
    for after in (False, True):
        worker = worker_of(Crashing(open_log(), after=after, left=5), tmp_path / "snapshots", config)
        worker.start("test")
        with pytest.raises(CrashError):
            worker.run(until_end=True)
        kill(worker)
    learner = learned(open_log, tmp_path / "snapshots", config, [])
    assert predictions(open_log()) == published
    assert digests(learner) == digests(expected)
    assert digests(recovered(open_log, config)) == digests(expected)
    assert digests(recovered(open_log, config, SnapshotFolder(tmp_path / "snapshots"))) == digests(expected)


def test_the_modes_predict_differently():
    found = [alone(configured(f"posterior.prediction={mode}"))[1] for mode in MODES]
    found.append(alone(configured("posterior.prediction=gibbs", "posterior.seed=1"))[1])
    probabilities = [[prediction["probabilities"] for prediction in one] for one in found]
    assert all(a != b for i, a in enumerate(probabilities) for b in probabilities[:i])
    assert all(one[-1]["hypotheses"] == found[0][-1]["hypotheses"] for one in found), "weighed alike"


@pytest.mark.parametrize("mode", MODES)
def test_batches_and_slices_of_a_copy_are_unobservable(mode):
    """The state is copied in slices while learning goes on; a learner that goes on from it is the same."""
    config = configured(f"posterior.prediction={mode}")
    expected, published = alone(config)
    learner, found, copies = factories.learner(config), [], []
    for start in range(0, len(RAWS), 40):
        copies.append((start, learner.copying()))
        for raw in RAWS[start : start + 40]:
            found += learner.process(records([raw]), 1.0)
            copies[-1][1].advance(64)
    assert predictions(found) == published
    assert digests(learner) == digests(expected)
    for start, copy in copies:
        while not copy.advance(1 << 20):
            pass
        again = factories.learner(config)
        again.load(copy.parts())
        assert predictions(again.process(records(RAWS[start:]), 1.0)) == published[start:]
        assert model_digest(again) == model_digest(expected)


def test_prediction_and_seed_may_change_and_a_replay_knows_when(open_log, tmp_path):
    lives = [
        (configured(f"posterior.prediction={mode}", f"posterior.seed={seed}"), RAWS[start : start + 100])
        for start, mode, seed in ((0, "mixture", 0), (100, "gibbs", 0), (200, "gibbs", 9), (300, "map", 9))
    ]
    expected = factories.learner(lives[0][0])
    published = []
    for config, raws in lives:
        learner = learned(open_log, tmp_path / "snapshots", config, raws)
        expected.reconfigure(factories.settings(config), factories.model(config))
        published += predictions(expected.process(records(raws), 1.0))
        assert digests(recovered(open_log, config)) == digests(learner) == digests(expected)
    assert predictions(open_log()) == published
    kinds = [json.loads(record.value)["kind"] for record in read_topic(open_log(), "journal")]
    assert kinds.count("config") == 3


REFUSED = [
    (["posterior.switching_rate=0.02"], r"posterior\.switching_rate was 0\.01 and is 0\.02"),
    ([HYPOTHESES.replace("m=2.0", "m=3.0")], r"hypotheses\[2\]\.m was 2\.0 and is 3\.0"),
    ([HYPOTHESES.replace('name="plain"', "")], r'hypotheses\[0\]\.name was "plain" and is absent'),
    (["hypotheses=[]"], r"hypotheses\[0\]\.alpha was .* and is "),
    (["hypotheses=[]", "model.kind=naive_bayes"], r'model\.kind was "mixture" and is "naive_bayes"'),
    (["model.alpha=0.5"], r"model\.alpha was 1\.0 and is 0\.5"),
    (["model.prior=uniform"], r'model\.prior was "learned" and is "uniform"'),
    ([ATTRIBUTES.replace("0.5", "0.6")], r"attributes\.subject\.alpha was 0\.5 and is 0\.6"),
]


@pytest.mark.parametrize(("flags", "says"), REFUSED, ids=range(len(REFUSED)))
def test_what_was_weighed_cannot_become_another_hypothesis(tmp_path, flags, says):
    def open_log(**topics):
        log = SqliteLog(tmp_path / "log.db")
        for name, partitions in topics.items():
            log.create_topic(name.replace("_", "-"), partitions)
        return log

    learned(open_log, tmp_path / "snapshots", configured(), RAWS[:50])
    log = open_log()
    with pytest.raises(JournalError, match=f"cannot continue under this configuration: .*{says}"):
        worker_of(log, tmp_path / "snapshots", configured(*flags)).start("test")
    log.close()


def changed_since(before, *given):
    changes = factories.ConfiguredJob(load(None, {}, given)).changes_since(before)
    return [(one.key, one.before, one.after, one.allowed) for one in changes]


def test_a_budget_that_is_not_given_is_the_journals():
    single, budget = "model.kind=naive_bayes", "memory.budget=1GiB"
    without, limited = (semantic_config_of(load(None, {}, [single, *more])) for more in ([], [budget]))
    assert changed_since(without, single, budget) == [("memory.budget", "null", "1073741824", True)]
    assert changed_since(limited, single) == []
    assert changed_since(limited, single, "memory.budget=1MiB") == [
        ("memory.budget", "1073741824", "1048576", True)
    ]
    assert semantic_config_of(restored(limited)) == limited


def test_counts_alone_do_not_go_on_as_a_mixture_and_may_be_read_otherwise():
    single = "model.kind=naive_bayes"
    before = semantic_config_of(load(None, {}, [single, "model.alpha=0.5"]))
    assert changed_since(before, single, "posterior.switching_rate=0.1") == [
        ("model.alpha", "0.5", "1.0", True),
        ("posterior.switching_rate", "0.0", "0.1", True),
    ]
    weighing = factories.ConfiguredJob(load(None, {}, ["hypotheses=[{alpha=1.0}]"])).changes_since(before)
    assert {change.key: change.allowed for change in weighing} == {"model.alpha": False, "model.kind": False}


def test_a_rollback_takes_up_the_posterior_too(open_log, tmp_path):
    config, folder = configured("posterior.prediction=gibbs"), tmp_path / "snapshots"
    learned(open_log, folder, config, RAWS[:200])
    log, identity = open_log(), factories.identity(config)
    log.acquire("operator")
    end = recover(log, SnapshotFolder(folder), factories.learner(config), identity)
    then = factories.learner(config)
    recover(log, SnapshotFolder(folder), then, identity, at=4)
    stands = roll_back(log, end, 4, identity, 1_790_000_500.0)
    many(folder).save(snapshot_of(stands, then.parts(), identity))
    log.close()
    learner = learned(open_log, folder, config, RAWS[200:])
    expected, published = alone(config, [*RAWS[:120], *RAWS[200:]])
    assert digests(learner) == digests(expected) == digests(recovered(open_log, config))
    assert predictions(open_log())[200:] == published[120:]


def test_verify_finds_nothing(tmp_path):
    with SqliteLog(tmp_path / "log.db") as log:
        for name in ("events", "predictions", "metrics", "dead-letters", "journal"):
            log.create_topic(name, 1)
        produce(log, RAWS)
        worker = worker_of(log, tmp_path / "snapshots", configured("posterior.prediction=gibbs"))
        worker.start("test")
        worker.run(until_end=True)
        outcome = verified(log, tmp_path / "snapshots", *FLAGS, "posterior.prediction=gibbs")
    assert told(outcome) == []
    assert outcome.findings.is_clean
    assert outcome.compared is not None


# -- the commands -------------------------------------------------------------------------------------------


STREAM = [at_its_time(raw, i) for i, raw in enumerate(raw_events(1500, seed=6))]


@pytest.fixture
def files(tmp_path):
    """Events, and a configuration."""
    events, config = tmp_path / "events.jsonl.gz", tmp_path / "hypotheses.toml"
    with gzip.open(events, "wb") as lines:
        lines.writelines(raw + b"\n" for raw in STREAM)
    lines = [flag.replace("=", " = ", 1) for flag in (ATTRIBUTES, HYPOTHESES)]
    lines += ["[log]", 'url = "sqlite:///log.db"', 'session_timeout = "500ms"', "[http]", 'listen = ""']
    lines += ["[posterior]", "switching_rate = 0.01", "[predictions]", "hypotheses = true"]
    lines += ["[commit]", "events = 10", "[snapshots]", "every_events = 200"]
    config.write_text("\n".join(lines))
    return events, config


@pytest.mark.parametrize("mode", MODES)
def test_run_survives_kill_9_in_every_mode(files, tmp_path, mode):
    """Killed on the way: the predictions and the model of an undisturbed `evaluate`, each id once."""
    events, path = files
    flags = [f"posterior.prediction={mode}", f"log.url=sqlite:///{tmp_path}/log.db"]
    flags.append("events.clock=event")  # a file has no other
    options = ["--config", path, *(option for flag in flags for option in ("--set", flag))]
    config, journal = load(path, {}, flags), Partition("journal", 0)
    with SqliteLog(tmp_path / "log.db") as log:
        for name in ("events", "predictions", "metrics", "dead-letters", "journal"):
            log.create_topic(name, 1)
        produce(log, STREAM)
        command = [sys.executable, "-m", "streamnb", "run", "--until-end", *map(str, options)]
        worker = subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.DEVNULL)
        while log.offsets(journal)[1] <= random.Random(mode).randrange(25, 90) and worker.poll() is None:
            time.sleep(0.002)
        worker.kill()
        assert worker.wait() == -signal.SIGKILL
        assert 0 < log.offsets(Partition("predictions", 0))[1] < len(STREAM), "the kill came too late"
        streamnb("run", "--until-end", *options, cwd=tmp_path)
        found = predictions(log)
        learner = factories.learner(config)
        recover(log, SnapshotFolder(config.snapshot_folder), learner, factories.identity(config))
    expected = answer("evaluate", events, *options, "--predictions", "predictions.jsonl", cwd=tmp_path)
    lines = (tmp_path / "predictions.jsonl").read_bytes().splitlines()
    assert [p["id"] for p in found] == [f"e{i}" for i in range(len(STREAM))]
    for have, want in zip(found, map(decode_prediction, lines), strict=True):
        assert have == timeless(want)
    assert model_digest(learner) == expected["model_digest"]


def test_evaluate_shows_hypotheses_and_the_bound(files):
    events, config = files
    shown = streamnb("evaluate", events, "--config", config, "--details").stdout
    told_ = answer("evaluate", events, "--config", config)["posterior"]
    rows = {line.split("  ")[0]: line.split() for line in shown.splitlines()}
    for hypothesis in told_["hypotheses"]:
        row = rows[hypothesis["name"]]
        against = hypothesis["loss"] - told_["loss"]
        assert row[-3:] == [
            f"{hypothesis['posterior']:.4f}",
            f"{hypothesis['loss'] / told_['observations']:.4f}",
            f"{against:+,.2f}",
        ]
    assert (
        f"regret {told_['regret']:,.2f} nats against {told_['best']}, at most {told_['bound']:,.2f} = "
        f"ln(1/prior) + T ln(1/(1-r)), T = {told_['observations']:,}, r = 0.01"
    ) in shown
    without = answer("evaluate", events, "--set", "model.kind=naive_bayes")
    assert "posterior" not in without


def test_evaluate_learns_what_is_not_held_out_by_the_times_of_events(files):
    events, config = files
    expected = factories.learner(load(config, {}, []))
    with gzip.open(events) as lines:
        read = [decode_event(raw.strip(), expected.settings.schema) for raw in lines]
    train = read[:750]
    expected.model.learn_many([e.x for e in train], [e.label for e in train], ts=[e.ts for e in train])
    expected.prune()  # of nothing
    found = answer("evaluate", events, "--config", config, "--holdout", "1/2")
    assert found["model_digest"] == model_digest(expected)
    answers = expected.model.predict_posteriors([e.x for e in read[750:]], [e.ts for e in read[750:]])
    column = {label: k for k, label in enumerate(answers.classes)}
    losses = [
        -math.log(row[column[event.label]])
        for event, row in zip(read[750:], answers.probabilities, strict=True)
        if event.label is not None
    ]
    assert found["cumulative"]["log_loss"] == pytest.approx(sum(losses) / len(losses))


def test_evaluate_says_so_where_nothing_was_learned(tmp_path):
    (tmp_path / "events.jsonl").write_text('{"id": "1", "text": "a", "label": null}\n')
    flags = ["--set", "hypotheses=[{}, {alpha=2.0}]"]
    done = streamnb("evaluate", "--json", tmp_path / "events.jsonl", *flags, check=False)
    assert (done.returncode, "no event to learn has a label" in done.stderr) == (1, True)
    shown = json.loads(done.stdout)["posterior"]
    assert (shown["observations"], shown["loss"], shown["regret"]) == (0, 0.0, 0.0)
    assert shown["bound"] == pytest.approx(math.log(2))


# -- what is inspected --------------------------------------------------------------------------------------


TWO = [raw for raw in RAWS if b'"label": "c"' not in raw]


@pytest.mark.parametrize(
    "tables", ['{likelihood="presence"}', '{half_life="1d"}'], ids=["lasting", "forgetting"]
)
def test_inspect_shows_the_hypotheses(tmp_path, tables):
    flags = ["--log", "sqlite:///log.db", "--set", f"hypotheses=[{tables}]", "--set", "http.listen="]
    with SqliteLog(tmp_path / "log.db") as log:
        log.create_topic("events", 1)
        produce(log, TWO)
    ran = streamnb("run", "--until-end", "--details", *flags, cwd=tmp_path).stdout
    shown = streamnb("inspect", *flags, cwd=tmp_path).stdout
    assert "regret 0.00 nats against" in shown
    assert "regret 0.00 nats against" in ran
    described = answer("inspect", *flags, cwd=tmp_path)
    assert described["posterior"]["observations"] == described["learned"]


# -- the file ------------------------------------------------------------------------------------------------


def test_the_shipped_file_weighs_all_likelihoods():
    config = load(Path(__file__).parents[3] / "config" / "hypotheses.toml", {}, [])
    model = factories.model(config)
    assert {h.likelihood for h in model.hypotheses} == {"multinomial", "presence", "bernoulli", "complement"}
    assert len(model.hypotheses) == 12
    assert {h.half_life for h in model.hypotheses} == {None, 86400.0, 7 * 86400.0}
    assert sum(h.weight for h in model.hypotheses) == 11
    assert model.switching_rate == 0.0001
    learner, found = alone(config)
    assert learner.model.n_events > 0
    assert len(found[-1]["hypotheses"]) == 12
