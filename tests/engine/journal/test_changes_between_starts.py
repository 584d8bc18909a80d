"""What may differ between two starts of a learner: its configuration, what the log holds, the machine."""

from __future__ import annotations

import contextlib
import dataclasses
import math
import time

import msgspec
import pytest

from streamnb.config import config_hash, load, semantic_config_of
from streamnb.engine.journal.checkpoint import snapshot_of
from streamnb.engine.journal.journal_entries import roll_back
from streamnb.engine.journal.recovery import recover
from streamnb.engine.journal.snapshot_store import NoSnapshots
from streamnb.engine.ports import NewRecord, Partition
from streamnb.engine.processing.event_processor import EventProcessor
from streamnb.engine.sensor import Sensor
from streamnb.errors import JournalError
from streamnb.formats.journal_record import decode_journal
from streamnb.persistence.snapshot_folder import SnapshotFolder
from streamnb.runtime import factories
from streamnb.runtime.worker_context import CommitPolicy
from tests.support.parameters import on_logs
from tests.support.service import (
    IDENTITY,
    TOPICS,
    digests,
    kill,
    model_digest,
    new_learner,
    new_worker,
    predictions,
    produce,
    raw_events,
    read_topic,
    records,
)
from tests.support.topics_of_logs import add_partitions, made_anew, trim

pytestmark = [pytest.mark.thorough, pytest.mark.early(16)]

RAWS = raw_events(400, seed=17)
EVENTS = Partition("events", 0)
PATIENCE = 60

ATTRIBUTES = [
    '{name="text",kind="text"}',
    '{name="subject",kind="text",path="$.features.subject",event_model="bernoulli"}',
    '{name="colour",kind="nominal"}',
    '{name="x",kind="continuous"}',
]
MORE_TOPICS = {**TOPICS, "others": 1}


class Told(Sensor):
    def __init__(self):
        self.notes, self.failures = [], []

    def noted(self, text):
        self.notes.append(text)

    def unsaved(self, reason):
        self.failures.append(reason)


def configured(*flags, attributes=ATTRIBUTES):
    return load(None, {}, ["model.kind=naive_bayes", f"attributes=[{', '.join(attributes)}]", *flags])


def started(open_log, folder, config, *, sensor=None, learner=None, topics=MORE_TOPICS, **options):
    """A worker under a configuration, which has recovered; its log is closed where it has not."""
    log = open_log(**topics)
    worker = new_worker(
        log,
        folder,
        learner=learner or factories.learner(config),
        identity=options.pop("identity", None) or factories.identity(config),
        pace=CommitPolicy(commit_events=20),
        sensor=sensor or Told(),
        **options,
    )
    try:
        worker.start("test")
    except BaseException:
        worker.close()
        raise
    return worker


def learned(open_log, folder, config, raws, **options):
    produce(open_log(**options.get("topics", MORE_TOPICS)), raws)
    worker = started(open_log, folder, config, **options)
    worker.run(until_end=True)
    worker.close()
    return worker


def journal(open_log):
    return [decode_journal(record.value) for record in read_topic(open_log(), "journal")]


def replayed(open_log, config):
    learner = factories.learner(config)
    checkpoint = recover(open_log(), NoSnapshots(), learner, factories.identity(config))
    return learner, checkpoint


# -- configuration ------------------------------------------------------------------------------------------

ACCEPTED = [
    (("model.alpha=0.25",), "model.alpha: 1.0 -> 0.25"),
    (("model.m=2.0", "model.p=0.1"), "model.m: null -> 2.0"),
    (("model.prior=uniform",), 'model.prior: "learned" -> "uniform"'),
    (("model.prior=given", "model.priors={a=1.0,b=2.0,c=0.5}"), "model.priors.b: absent -> 2.0"),
    (("model.prune.every=50", "model.prune.min_count=3.0"), "model.prune.every: 0 -> 50"),
    (("metrics.every_events=7",), "metrics.every_events: 1000 -> 7"),
    (("metrics.every=0s",), "metrics.every: 1.0 -> 0.0"),
    (("metrics.interval=0.8",), "metrics.interval: 0.95 -> 0.8"),
    (("predictions.evidence=2",), "predictions.evidence: 0 -> 2"),
    (("classes.min_learns=5",), "classes.min_learns: 1 -> 5"),
    (("decision.costs={a={b=4}}", "decision.reject=0.3"), "decision.costs.a.b: absent -> 4.0"),
    (("decision.priors=uniform",), 'decision.priors: absent -> "uniform"'),
    (("decision.priors=windowed", "decision.window=50"), "decision.window: absent -> 50"),
    (("decision.novelty=0.01",), "decision.novelty: absent -> 0.01"),
    (("topics.predictions=others",), 'topics.predictions: "predictions" -> "others"'),
    (("topics.metrics=others",), 'topics.metrics: "metrics" -> "others"'),
    (("topics.dead_letters=others",), 'topics.dead_letters: "dead-letters" -> "others"'),
    (("events.id=$.features.subject",), 'events.id: "$.id" -> "$.features.subject"'),
    (("events.max_bytes=60B",), "events.max_bytes: 1048576 -> 60"),
]
SAYS = {flags[0]: (flags, says) for flags, says in ACCEPTED}


@pytest.mark.storm_for("kafka-events.id=$.features.subject", "kafka-topics.predictions=others")
@on_logs(
    "changed", SAYS, kafka=["model.alpha=0.25", "events.id=$.features.subject", "topics.predictions=others"]
)
def test_what_may_change_is_told_journalled_and_replayed(open_log, tmp_path, changed):
    flags, says = SAYS[changed]
    folder, told = tmp_path / "snapshots", [Told() for _ in range(3)]
    before, after = configured(), configured(*flags)
    raws = [*RAWS[:95], b"{", *RAWS[95:190]]
    learned(open_log, folder, before, raws[:100], sensor=told[0])
    worker = learned(open_log, folder, after, raws[100:], sensor=told[1])
    learned(open_log, folder, after, [], sensor=told[2])
    assert told[0].notes == told[2].notes == []
    (note,) = told[1].notes
    assert note.startswith("the configuration was changed: ")
    assert says in note
    found = journal(open_log)
    kinds = [record.kind for record in found if record.kind != "commit" or record.slices]
    assert kinds == ["genesis", *["commit"] * 5, "config", *["commit"] * 5]
    assert len(found) - len(kinds) == (says == "metrics.every_events: 1000 -> 7")  # its last report
    assert (found[0].config, found[6].config) == (semantic_config_of(before), semantic_config_of(after))
    assert (found[0].config_hash, found[6].config_hash) == (config_hash(before), config_hash(after))
    again, checkpoint = replayed(open_log, after)
    assert digests(again) == digests(worker.learner)
    assert again.settings == factories.settings(after)
    assert checkpoint.origin.config_hash == config_hash(after)
    # All that was published is what a learner says whose settings are exchanged in between.
    alone = factories.learner(before)
    expected = alone.process(records(raws[:100]), 1.0)
    alone.settings = factories.settings(after)
    alone._decide_by(None)
    for name in ("alpha", "m", "p", "prior", "tells_evidence"):
        setattr(alone.model, name, getattr(factories.model(after), name))
    expected += alone.process(records(raws[100:]), 1.0)
    assert digests(alone) == digests(worker.learner)
    outputs = [topic for topic in ("predictions", "others") if after.topics.metrics != topic]
    published = [r.value for name in outputs for r in read_topic(open_log(), name)]
    answers = [o.value for name in outputs for o in expected if o.topic == name]
    assert [without_time(v) for v in published] == [without_time(v) for v in answers]


@on_logs("declared", ['values=["r","b"]', "n_values=9"], kafka=['values=["r","b"]'])
def test_values_may_be_declared_while_the_stream_flows(open_log, tmp_path, declared):
    """They are told, journalled and replayed; with a list, other values are dead letters from then on."""
    folder, told = tmp_path / "snapshots", Told()
    before = configured()
    after = configured(**changed_attributes(2, '"nominal"', f'"nominal",{declared}'))
    learned(open_log, folder, before, RAWS[:100])
    worker = learned(open_log, folder, after, RAWS[100:200], sensor=told)
    (note,) = told.notes
    assert f"attributes.colour.{declared.split('=')[0]}: null -> " in note
    again, _ = replayed(open_log, after)
    assert digests(again) == digests(worker.learner)
    dead = list(read_topic(open_log(**MORE_TOPICS), "dead-letters"))
    colours = [msgspec.json.decode(raw).get("features", {}).get("colour") for raw in RAWS[100:200]]
    others = sum(colour not in {"r", "b", None} for colour in colours)
    assert others > 0
    assert len(dead) == (0 if "n_values" in declared else others)
    model = worker.learner.model
    x, base = {"colour": "r"}, model.joint_log_likelihood({})
    k = 9 if "n_values" in declared else len({"r", "b"} | model.class_counts("colour").keys())
    for label, joint in model.joint_log_likelihood(x).items():
        counts = {value: of.get(label, 0.0) for value, of in model.class_counts("colour").items()}
        expected = (counts["r"] + 1.0) / (sum(counts.values()) + k)
        assert joint - base[label] == pytest.approx(math.log(expected), rel=1e-12)


def without_time(value):
    with contextlib.suppress(msgspec.DecodeError):
        return {key: held for key, held in msgspec.json.decode(value).items() if key != "ts"}
    return value


def changed_attributes(i, old, new):
    attributes = list(ATTRIBUTES)
    attributes[i] = attributes[i].replace(old, new)
    return {"attributes": attributes}


REFUSED = {
    "kind": (changed_attributes(2, '"nominal"', '"continuous"'), ['attributes.colour.kind was "nominal" and is "continuous"']),
    "path": (changed_attributes(3, '"continuous"', '"continuous",path="$.ts"'), ['attributes.x.path was "$.features.x" and is "$.ts"']),
    "event model": (changed_attributes(1, "bernoulli", "multinomial"), ['attributes.subject.event_model was "bernoulli" and is "multinomial"']),
    "fewer": ({"attributes": ATTRIBUTES[:3]}, ['attributes.x.kind was "continuous" and is absent']),
    "more": ({"attributes": [*ATTRIBUTES, '{name="y",kind="nominal"}']}, ['attributes.y.kind was absent and is "nominal"']),
    "order": ({"attributes": ATTRIBUTES[::-1]}, ["attributes (order) was text, subject, colour, x and is x, colour, subject, text"]),
    "model's event model": ({"flags": ["model.event_model=bernoulli"]}, ['model.event_model was "multinomial" and is "bernoulli"']),
    "name": ({"flags": ["model.name=mine"]}, ['model.name was "default" and is "mine"']),
    "window": ({"flags": ["metrics.window=10"]}, ["metrics.window was 1000 and is 10"]),
    "input": ({"flags": ["topics.events=others"]}, ['topics.events was ["events"] and is ["others"]']),
    "label": ({"flags": ["events.label=$.y"]}, ['events.label was "$.label" and is "$.y"']),
    "allowed, too": (
        {"flags": ["model.alpha=0.5", "metrics.window=10", "model.name=mine"]},
        ["metrics.window was 1000 and is 10", 'model.name was "default" and is "mine"'],
    ),
}  # fmt: skip


def test_of_many_changes_the_first_are_told(open_log, tmp_path):
    learned(open_log, tmp_path, configured(), RAWS[:20])
    others = [f'{{name="a{i}",kind="nominal"}}' for i in range(9)]
    with pytest.raises(
        JournalError, match=r"; and \d+ more; run with the former values.*streamnb rebuild"
    ) as refusal:
        started(open_log, tmp_path, configured(attributes=[*ATTRIBUTES, *others]))
    assert str(refusal.value).count(" and is ") == 5


@pytest.mark.storm_for("kafka-input")
@on_logs("name", REFUSED, kafka=["name", "input"])
def test_what_may_not_change_is_refused_with_key_and_both_values(open_log, tmp_path, name):
    changed, says = REFUSED[name]
    flags = changed.get("flags", [])
    folder, told = tmp_path / "snapshots", Told()
    before = configured()
    after = configured(*flags, attributes=changed.get("attributes", ATTRIBUTES))
    worker = learned(open_log, folder, before, RAWS[:60])
    with pytest.raises(JournalError, match="cannot continue under this configuration") as refusal:
        started(open_log, folder, after, sensor=told)
    with pytest.raises(JournalError, match="cannot continue under this configuration"):
        recover(open_log(), SnapshotFolder(folder), factories.learner(after), factories.identity(after))
    for text in says:
        assert text in str(refusal.value)
    assert "model.alpha" not in str(refusal.value)
    is_of_the_model = all(text.startswith(("attributes", "model.event", "model.kind")) for text in says)
    assert ("`streamnb rebuild`" in str(refusal.value)) == is_of_the_model
    assert told.notes == []
    assert [record.kind for record in journal(open_log)] == ["genesis", *["commit"] * 3]
    assert digests(learned(open_log, folder, before, []).learner) == digests(worker.learner)


def test_attributes_whose_names_look_alike_are_told_apart(open_log, tmp_path):
    """One name is the other with its dot replaced: a change of either is seen."""
    kinds = ["nominal", "continuous"]
    for first, second in ([0, 1], [1, 0]):
        folder = tmp_path / f"snapshots-{first}"
        names = [f'{{name="a.b",kind="{kinds[0]}"}}', f'{{name="a_b",kind="{kinds[0]}"}}']
        learned(open_log, folder, configured(attributes=names), RAWS[:20] if first == 0 else [])
        names = [f'{{name="a.b",kind="{kinds[first]}"}}', f'{{name="a_b",kind="{kinds[second]}"}}']
        key = 'attributes."a.b".kind' if first else "attributes.a_b.kind"
        with pytest.raises(JournalError) as refusal:
            started(open_log, folder, configured(attributes=names))
        assert f'{key} was "nominal" and is "continuous"' in str(refusal.value)
        names = ['{name="a.b",kind="nominal",alpha=3.0}', '{name="a_b",kind="nominal"}']
        told = Told()
    learned(open_log, folder, configured(attributes=names), [], sensor=told)
    assert told.notes == ['the configuration was changed: attributes."a.b".alpha: null -> 3.0']


class Lacking(factories.ConfiguredJob):
    """The configuration as a program wrote it that did not know some keys, or knew more."""

    def __init__(self, config, *, without=(), **more):
        super().__init__(config)
        self.semantic_config = {**self.semantic_config, **more}
        for section, key in without:
            self.semantic_config[section] = {
                k: v for k, v in self.semantic_config[section].items() if k != key
            }


def of_another_version(config, **differences):
    found = factories.identity(config)
    return dataclasses.replace(found, config_hash="another", configuration=Lacking(config, **differences))


@pytest.mark.storm_for("kafka-False")
@pytest.mark.parametrize("keeps", [True, False])
def test_a_journal_of_an_older_version_goes_on(open_log, tmp_path, keeps):
    """It lacks keys that the program has; their defaults are what was done before there were such keys."""
    folder, told = tmp_path / "snapshots", Told()
    config = configured()
    older = of_another_version(config, without=[("predictions", "evidence"), ("model", "prune")])
    learned(open_log, folder, config, RAWS[:60], identity=older)
    if not keeps:
        for path in folder.iterdir():
            path.unlink()
    worker = learned(open_log, folder, config, RAWS[60:120], sensor=told)
    assert told.notes == []
    found = journal(open_log)
    assert [r.kind for r in found] == ["genesis", *["commit"] * 3, "config", *["commit"] * 3]
    assert "evidence" not in found[0].config["predictions"]
    assert found[4].config == semantic_config_of(config)
    alone = factories.learner(config)
    alone.process(records(RAWS[:120]), 1.0)
    assert digests(replayed(open_log, config)[0]) == digests(worker.learner) == digests(alone)


def test_a_newer_key_that_has_not_its_default_is_a_change(open_log, tmp_path):
    folder, told = tmp_path / "snapshots", Told()
    older = of_another_version(configured(), without=[("predictions", "evidence")])
    learned(open_log, folder, configured(), RAWS[:20], identity=older)
    learned(open_log, folder, configured("predictions.evidence=3"), [], sensor=told)
    assert told.notes == ["the configuration was changed: predictions.evidence: 0 -> 3"]


def test_a_journal_of_a_later_version_is_refused(open_log, tmp_path):
    folder, config = tmp_path / "snapshots", configured()
    later = of_another_version(config, drift={"rate": 0.1})
    learned(open_log, folder, config, RAWS[:20], identity=later)
    with pytest.raises(JournalError, match=r"of a later version of this program: drift\.rate"):
        started(open_log, folder, config)


def test_a_journal_whose_configuration_cannot_be_read_is_refused(open_log, tmp_path):
    folder, config = tmp_path / "snapshots", configured()
    strange = of_another_version(config, model={"alpha": "much"})
    learned(open_log, folder, config, RAWS[:20], identity=strange)
    with pytest.raises(JournalError, match=r"configuration is of another version: .*model\.alpha"):
        started(open_log, folder, config)


def test_a_rollback_across_a_change_keeps_the_present_configuration(open_log, tmp_path):
    folder, told = tmp_path / "snapshots", Told()
    before, after = configured(), configured("model.alpha=0.1", "predictions.evidence=1")
    learned(open_log, folder, before, RAWS[:60])
    learned(open_log, folder, after, RAWS[60:100])
    log, identity = open_log(), factories.identity(after)
    learner = factories.learner(after)
    recover(log, SnapshotFolder(folder), learner, identity, at=3)
    assert learner.settings.evidence == 0, "also where a snapshot stands at the very record"
    log.acquire("operator")
    end = recover(log, NoSnapshots(), factories.learner(after), identity)
    learner = factories.learner(after)
    then = recover(log, NoSnapshots(), learner, identity, at=2)
    assert learner.settings.evidence == 0, "the configuration that held then"
    assert then.origin.config_hash == config_hash(before)
    checkpoint = roll_back(log, end, 2, identity, 1.0)
    log.close()
    assert checkpoint.origin.config_hash == config_hash(after)
    worker = learned(open_log, folder, after, RAWS[100:140], sensor=told)
    assert told.notes == []
    assert [r.kind for r in journal(open_log)][4:] == [
        "config",
        "commit",
        "commit",
        "rollback",
        "commit",
        "commit",
    ]
    alone = factories.learner(before)
    alone.process(records(RAWS[:40]), 1.0)
    alone.settings, alone.model.alpha = factories.settings(after), 0.1
    expected = alone.process(records(RAWS[100:140]), 1.0)
    assert digests(worker.learner) == digests(alone) == digests(replayed(open_log, after)[0])
    assert predictions(open_log())[100:] == predictions(expected)


# -- loss ---------------------------------------------------------------------------------------------------


def drained(open_log, folder, raws=(), **options):
    return learned(
        open_log, folder, None, list(raws), learner=new_learner(), identity=IDENTITY, topics=TOPICS, **options
    )


def refused(open_log, folder):
    """Why a start is refused; nothing is written."""
    before = journal(open_log)
    with pytest.raises(JournalError) as refusal:
        started(open_log, folder, None, learner=new_learner(), identity=IDENTITY, topics=TOPICS)
    assert journal(open_log) == before
    assert str(refusal.value).endswith("bring them back, or go on without them: `streamnb run --accept-loss`")
    return str(refusal.value).split("; ")[:-1]


def after_loss(open_log, folder, positions, missing):
    """Accepted, journalled, and never asked for again; whoever comes next finds a snapshot."""
    told = Told()
    worker = drained(open_log, folder, accepts_loss=True, sensor=told)
    assert told.notes == [f"continuing without what is gone: {'; '.join(missing)}"]
    found = journal(open_log)
    (loss,) = [record for record in found if record.kind == "loss"]
    assert loss.positions == positions
    assert loss.topic_ids == {"events": open_log().topic_id("events")}
    again = drained(open_log, folder)
    assert digests(again.learner) == digests(worker.learner)
    assert [r.kind for r in journal(open_log)].count("loss") == 1
    return worker, loss.n


def undisturbed(raws):
    learner = new_learner()
    learner.process(records(raws), 1.0)
    return digests(learner)


def test_events_that_retention_has_eaten_before_they_were_learned(open_log, tmp_path):
    folder = tmp_path / "snapshots"
    drained(open_log, folder, RAWS[:90])
    log = open_log()
    produce(log, RAWS[90:180])
    trim(log, EVENTS, 120)
    missing = ["events/0: offsets 90 to 119 were deleted before they were learned"]
    assert refused(open_log, folder) == missing
    worker, _ = after_loss(open_log, folder, {"events": {"0": 120}}, missing)
    assert digests(worker.learner) == undisturbed([*RAWS[:90], *RAWS[120:180]])
    assert [p["id"] for p in predictions(log)] == [f"e{i}" for i in [*range(90), *range(120, 180)]]


@pytest.mark.parametrize("open_log", ["sqlite", "kafka", "librdkafka"], indirect=True)
def test_retention_that_overtakes_a_learner_is_told_with_what_is_gone_and_what_to_do(open_log, tmp_path):
    worker = started(open_log, tmp_path / "s", None, learner=new_learner(), identity=IDENTITY, topics=TOPICS)
    produce(open_log(), RAWS[:30])
    worker.run(until_end=True)
    with getattr(worker.context.log, "nothing_fetched", contextlib.nullcontext)():
        produce(open_log(), RAWS[30:90])
        trim(open_log(), EVENTS, 50)
    with pytest.raises(JournalError) as refusal:
        worker.run(until_end=True)
    worker.close()
    told = str(refusal.value)
    assert told.startswith("events/0: offsets 30 to 49 were deleted before they were learned; ")
    assert "topics.retention" in told
    assert "streamnb topics plan" in told
    assert told.endswith("bring them back, or go on without them: `streamnb run --accept-loss`")
    after_loss(open_log, tmp_path / "s", {"events": {"0": 50}}, [told.split("; ", maxsplit=1)[0]])


def test_events_that_were_learned_may_be_eaten(open_log, tmp_path):
    folder = tmp_path / "snapshots"
    drained(open_log, folder, RAWS[:90])
    trim(open_log(), EVENTS, 90)
    told = Told()
    worker = drained(open_log, folder, RAWS[90:100], sensor=told, accepts_loss=True)
    assert told.notes == []
    assert digests(worker.learner) == undisturbed(RAWS[:100])
    assert [r.kind for r in journal(open_log)].count("loss") == 0


def test_a_loss_is_followed_by_a_snapshot_at_once(open_log, tmp_path):
    folder = tmp_path / "snapshots"
    drained(open_log, folder, RAWS[:40])
    log = open_log()
    produce(log, RAWS[40:80])
    trim(log, EVENTS, 60)
    options = {"learner": new_learner(), "identity": IDENTITY, "topics": TOPICS}
    worker = started(open_log, folder, None, accepts_loss=True, **options)
    kill(worker)
    assert SnapshotFolder(folder).newest().snapshot.journal_n == journal(open_log)[-1].n == 3
    assert digests(drained(open_log, folder).learner) == undisturbed([*RAWS[:40], *RAWS[60:80]])


def test_a_topic_made_anew(open_log, tmp_path):
    folder = tmp_path / "snapshots"
    drained(open_log, folder, RAWS[:90])
    made_anew(open_log, "events")
    produce(open_log(), RAWS[200:240])
    missing = ["topic 'events' was deleted and recreated since the last commit"]
    assert refused(open_log, folder) == missing
    worker, _ = after_loss(open_log, folder, {"events": {"0": 0}}, missing)
    assert digests(worker.learner) == undisturbed([*RAWS[:90], *RAWS[200:240]])
    assert [p["id"] for p in predictions(open_log())] == [f"e{i}" for i in [*range(90), *range(200, 240)]]


def test_a_topic_made_anew_while_records_were_waiting_to_be_replayed_is_not_replayed(open_log, tmp_path):
    """Without the snapshot the journalled slices would be needed, and there are others in their place."""
    folder = tmp_path / "snapshots"
    drained(open_log, folder, RAWS[:90])
    for path in folder.iterdir():
        path.unlink()
    made_anew(open_log, "events")
    produce(open_log(), RAWS[200:290])
    with pytest.raises(JournalError, match="holds other records than were learned"):
        drained(open_log, folder, accepts_loss=True)
    assert [r.kind for r in journal(open_log)].count("loss") == 0


class Shorter:
    """A log whose events end earlier than they did, as after a broker that was restored from a copy."""

    def __init__(self, log, end):
        self._log, self._end = log, end

    def __getattr__(self, name):
        return getattr(self._log, name)

    def offsets(self, partition):
        found = self._log.offsets(partition)
        return found if partition != EVENTS else (found[0], self._end)

    def offset_ranges(self, topic):
        return {partition: self.offsets(partition) for partition in self._log.partitions(topic)}


def test_a_topic_that_is_shorter_than_what_was_learned(open_log, tmp_path):
    folder = tmp_path / "snapshots"
    drained(open_log, folder, RAWS[:90])

    def shorter(**topics):
        return Shorter(open_log(**topics), 50)

    missing = ["events/0 ends at offset 50, but was learned up to 90: it was cut short"]
    assert refused(shorter, folder) == missing
    told, options = Told(), {"learner": new_learner(), "identity": IDENTITY, "topics": TOPICS}
    worker = started(shorter, folder, None, accepts_loss=True, sensor=told, **options)
    assert told.notes == [f"continuing without what is gone: {missing[0]}"]
    worker.run(until_end=True)  # what the log holds there now is new
    worker.close()
    assert journal(open_log)[6].positions == {"events": {"0": 50}}
    assert digests(worker.learner) == undisturbed([*RAWS[:90], *RAWS[50:90]])


def test_partitions_added_between_two_starts_are_learned_from_their_beginning(open_log, tmp_path):
    folder = tmp_path / "snapshots"
    drained(open_log, folder, RAWS[:90])
    widened(open_log, 3)
    log = open_log()
    log.append([NewRecord("events", b"%d" % i, raw) for i, raw in enumerate(RAWS[90:180])])
    told = Told()
    worker = drained(open_log, folder, sensor=told)
    assert told.notes == []
    assert {r.kind for r in journal(open_log)} == {"genesis", "commit"}
    ends = {str(p.number): log.offsets(p)[1] for p in log.partitions("events")}
    assert journal(open_log)[-1].positions == {"events": ends}
    assert min(ends.values()) > 0
    assert sorted(p["id"] for p in predictions(log)) == sorted(f"e{i}" for i in range(180))
    again = new_learner()
    recover(open_log(), NoSnapshots(), again, IDENTITY)
    assert digests(again) == digests(worker.learner)


def test_an_added_partition_may_have_lost_records_before_anyone_knew_it(open_log, tmp_path):
    folder = tmp_path / "snapshots"
    drained(open_log, folder, RAWS[:40])
    widened(open_log, 2)
    log = open_log()
    added = Partition("events", 1)
    keys = [b"%d" % i for i in range(60)]
    log.append([NewRecord("events", key, raw) for key, raw in zip(keys, RAWS[40:100], strict=True)])
    held = [record.value for record in log.read(added, 0, 100)]
    assert len(held) > 5
    trim(log, added, 5)
    missing = ["events/1: offsets 0 to 4 were deleted before they were learned"]
    assert refused(open_log, folder) == missing
    after_loss(open_log, folder, {"events": {"0": 40, "1": 5}}, missing)
    ids = {msgspec.json.decode(raw)["id"] for raw in held[:5]}
    assert sorted(p["id"] for p in predictions(log)) == sorted({f"e{i}" for i in range(100)} - ids)


def widened(open_log, partitions):
    log = open_log()
    add_partitions(log, "events", partitions)
    deadline = time.monotonic() + PATIENCE
    while len(open_log().partitions("events")) < partitions:
        assert time.monotonic() < deadline, "the partitions were not added"
        time.sleep(0.2)


def test_a_refused_start_changes_nothing_and_loss_comes_before_configuration(open_log, tmp_path):
    """The topic was made anew with fewer partitions while the configuration was changed, too."""
    folder, told = tmp_path / "snapshots", Told()
    topics = {**MORE_TOPICS, "events": 3}
    before, after = configured(), configured("model.alpha=0.5")
    learned(open_log, folder, before, RAWS[:60], topics=topics)
    made_anew(open_log, "events")
    known = journal(open_log)
    with pytest.raises(JournalError, match="recreated"):
        started(open_log, folder, after, topics=topics, sensor=told)
    assert journal(open_log) == known
    assert told.notes == []
    worker = learned(open_log, folder, after, RAWS[60:80], topics=topics, sensor=told, accepts_loss=True)
    assert [r.kind for r in journal(open_log)][len(known) :] == ["loss", "config", "commit"]
    assert journal(open_log)[-1].positions == {"events": {"0": 20}}
    assert len(told.notes) == 2
    assert worker.learner.consumed == 80


# -- another machine ----------------------------------------------------------------------------------------


class Rounding(EventProcessor):
    """A learner on a machine whose logarithms differ in the last bit."""

    def process(self, records, now, *more, **named):
        outputs = super().process(records, now, *more, **named)
        self.progressive._tally.sums[0, 1] += 1e-13 * len(records)
        return [o._replace(value=o.value.replace(b'"probability":0.', b'"probability":0.0')) for o in outputs]


def rounding():
    plain = new_learner()
    return Rounding(plain.settings, plain.model)


ANOTHER = dataclasses.replace(IDENTITY, fingerprint={"python": "3", "cpu": "another"})


@pytest.mark.storm_for("kafka-False")
@pytest.mark.parametrize("kept", [True, False])
def test_outputs_of_another_machine_are_not_compared_and_counts_are_equal(open_log, tmp_path, kept):
    folder = tmp_path / "snapshots"
    produce(open_log(**TOPICS), RAWS[:90])
    worker = started(open_log, folder, None, learner=rounding(), identity=ANOTHER, topics=TOPICS)
    worker.run(until_end=True)
    kill(worker)
    if kept:
        checkpoint = recover(open_log(), NoSnapshots(), rounding(), ANOTHER, at=2)
        half = rounding()
        recover(open_log(), NoSnapshots(), half, ANOTHER, at=2)
        SnapshotFolder(folder).save(snapshot_of(checkpoint, half.parts(), ANOTHER))
    for identity, learner in ((IDENTITY, new_learner()), (ANOTHER, rounding())):
        recover(open_log(), SnapshotFolder(folder), learner, identity)
        assert model_digest(learner) == model_digest(worker.learner)
    with pytest.raises(JournalError, match="gave other outputs than it published"):
        recover(open_log(), SnapshotFolder(folder), new_learner(), ANOTHER)


def test_what_follows_the_snapshot_of_another_machine_is_not_compared_either(open_log, tmp_path):
    """Reports hold sums of logarithms: what this machine published went on from its own."""
    folder = tmp_path / "snapshots"
    drained(open_log, tmp_path / "own", RAWS[:40])
    half, learner = rounding(), new_learner()
    checkpoint = recover(open_log(), NoSnapshots(), new_learner(), IDENTITY)
    half.process(records(RAWS[:40]), 1.0)
    half.progressive._tally.sums[0, 0] += 1e-3
    drained(open_log, tmp_path / "own", RAWS[40:80])
    SnapshotFolder(folder).save(snapshot_of(checkpoint, half.parts(), IDENTITY))
    with pytest.raises(JournalError, match="gave other outputs than it published"):
        recover(open_log(), SnapshotFolder(folder), new_learner(), IDENTITY)
    SnapshotFolder(folder).save(snapshot_of(checkpoint, half.parts(), ANOTHER))
    recover(open_log(), SnapshotFolder(folder), learner, IDENTITY)
    alone = new_learner()
    alone.process(records(RAWS[:80]), 1.0)
    assert model_digest(learner) == model_digest(alone)
