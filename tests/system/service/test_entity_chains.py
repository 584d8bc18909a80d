"""Chains of entities as a model of the service: keys and paths, lives, verification, and what they are told by."""

from __future__ import annotations

import json
import random
from contextlib import closing

import numpy as np
import pytest

from streamnb import HiddenMarkovNB
from streamnb.cli import main
from streamnb.config import changes, load, semantic_config_of
from streamnb.engine.ports import NewRecord
from streamnb.errors import ConfigError, MalformedEvent
from streamnb.formats.codec import decode_event
from streamnb.formats.event_schema import AttributeSpec, EventSchema
from streamnb.runtime import context, factories
from streamnb.verification.check_results import CheckResults
from streamnb.verification.log_verification import learned_state
from streamnb.verification.recount.event_recount import RecountPlan
from streamnb.verification.recount.recount_comparison import LearnedState, compare, recount_of
from tests.support.service import model_digest, predictions, raw_events, records
from tests.support.verifying import configured, edit_snapshot, learn, new_worker, places, told, verified

pytestmark = pytest.mark.early(70)

KIND = "model.kind=hidden_markov"
KEPT = [KIND, "model.entities=7", "model.time_to_live=3h"]
TOPICS = {"events": 1, "predictions": 1, "metrics": 1, "dead-letters": 1, "journal": 1}
RAWS = raw_events(300, seed=5, labelled=0.7)
KEYS = [random.Random(i).choice([None, *(b"e%d" % e for e in range(10))]) for i in range(300)]
NO_TEXT = "attributes=[{name='colour', kind='nominal'}]"


def fed(log, *, start=0, stop=300):
    log.append(
        [NewRecord("events", k, raw) for k, raw in zip(KEYS[start:stop], RAWS[start:stop], strict=True)]
    )


def alone(*sets):
    """A learner that nobody disturbs, and what it said."""
    learner = factories.learner(configured(*sets))
    return learner, learner.process(records(RAWS, keys=KEYS), 1.0)


# -- what names an entity -----------------------------------------------------------------------------------

KEYED, BY_PATH = EventSchema(entity_path=""), EventSchema(entity_path="$.features.who")


@pytest.mark.parametrize(
    ("key", "entity"),
    [
        (b"x", "x"),
        ("Éire".encode(), "Éire"),
        (b"\xff1", "\\xff1"),
        (b"", None),
        (None, None),
        (b"k" * 1000, "k" * 1000),
    ],
)
def test_the_key_of_a_record_names_the_entity(key, entity):
    expected = {"text": "a"} | ({} if entity is None else {"entity": entity})
    for raw in (b'{"id":"m","text":"a"}', b'{"id":"m","text":"a","features":{"entity":"other"},"more":[[]]}'):
        assert decode_event(raw, KEYED, key).x == expected
        assert "entity" not in decode_event(raw, EventSchema(open_features=False), key).x
    spelled = EventSchema((AttributeSpec("text", "text", "$.text"),), entity_path="")
    assert decode_event(b'{"id":"m","text":"a"}', spelled, key).x == expected


def test_without_an_entity_a_feature_of_that_name_is_one_as_any():
    assert decode_event(b'{"id":"m","features":{"entity":"e"}}', EventSchema(), b"k").x == {"entity": "e"}
    assert EventSchema(entity_path="").is_plain
    assert not BY_PATH.is_plain


@pytest.mark.parametrize(
    ("value", "entity"), [('"x"', "x"), ("3", "3"), ("3.0", "3"), ("true", "true"), ("null", None)]
)
def test_a_path_names_the_entity_and_what_lies_there_is_no_feature(value, entity):
    raw = f'{{"id":"m","features":{{"who":{value},"entity":"no","n":1}}}}'.encode()
    expected = {"n": 1.0} | ({} if entity is None else {"entity": entity})
    assert decode_event(raw, BY_PATH, b"key").x == expected


@pytest.mark.parametrize(
    ("schema", "key", "who", "reason", "path"),
    [
        (KEYED, b"k" * 1001, "1", "out-of-range", "$"),
        (BY_PATH, None, '""', "out-of-range", "$.features.who"),
        (BY_PATH, None, "[]", "wrong-type", "$.features.who"),
        (BY_PATH, None, '"' + "x" * 1001 + '"', "out-of-range", "$.features.who"),
    ],
)
def test_what_names_no_entity_is_a_dead_letter(schema, key, who, reason, path):
    with pytest.raises(MalformedEvent) as caught:
        decode_event(f'{{"id":"m","features":{{"who":{who}}}}}'.encode(), schema, key)
    assert (caught.value.reason, caught.value.path) == (reason, path)


@pytest.mark.parametrize(
    ("sets", "message"),
    [
        (["events.entity=$.who"], 'expected model.kind = "hidden_markov" or "tenants" with it'),
        ([KIND, "events.entity=who"], "JSON path"),
        ([KIND, "events.entity=$.label"], "another path than events.label"),
        ([KIND, "attributes=[{name='entity', kind='nominal'}]"], "which calls the entity so"),
        ([KIND, "model.entities=0"], "integer from 1"),
        (["model.transition_m=1"], 'expected model.kind = "hidden_markov" with it'),
        ([KIND, "model.revisits=1"], 'expected model.kind = "semi_supervised" with it'),
    ],
)
def test_contradictions_are_refused(sets, message):
    with pytest.raises(ConfigError) as caught:
        load(None, {}, sets)
    assert message in str(caught.value)


def test_the_configuration_makes_the_model():
    config = configured(*KEPT, "model.transition_m=0.5", "model.alpha=0.1", "events.entity=$.who", NO_TEXT)
    model = factories.model(config)
    assert isinstance(model, HiddenMarkovNB)
    assert (model.entity, model.entities, model.time_to_live, model.transition_m, model.alpha) == (
        "entity", 7, 10800.0, 0.5, 0.1,
    )  # fmt: skip
    assert context.schema(config).entity_path == "$.who"
    assert context.schema(configured()).entity_path is None


def test_smoothing_may_change_and_what_is_kept_may_not():
    before = semantic_config_of(configured(*KEPT))
    for change, allowed in [
        ("model.transition_m=2", True),
        ("model.alpha=2", True),
        ("model.entities=8", False),
        ("model.time_to_live=4h", False),
        ("events.entity=$.who", False),
    ]:
        (found,) = changes(before, semantic_config_of(configured(*KEPT, change)))
        assert found.allowed == allowed, change


# -- lives --------------------------------------------------------------------------------------------------


def test_lives_are_one_life_whatever_the_batches(open_log, tmp_path):
    log = open_log(**TOPICS)
    for life, stop in enumerate((70, 71, 230, 300)):
        fed(log, start=(0, 70, 71, 230)[life], stop=stop)
        worker = new_worker(log, tmp_path / "snapshots", *KEPT)
        worker.start("test")
        worker.run(until_end=True)
        worker.close()
        log = open_log()
    undisturbed, outputs = alone(*KEPT)
    assert model_digest(worker.learner) == model_digest(undisturbed)
    assert predictions(log) == predictions(outputs)
    assert undisturbed.model.n_entities == 7
    assert not told(verified(log, tmp_path / "snapshots", *KEPT))


@pytest.mark.parametrize("open_log", ["sqlite"], indirect=True)
def test_smoothing_changes_in_the_life_of_a_model(open_log, tmp_path):
    log = open_log(**TOPICS)
    for stop, m in ((150, "1"), (300, "0.01")):
        fed(log, start=stop - 150, stop=stop)
        learn(log, tmp_path / "snapshots", *KEPT, f"model.transition_m={m}")
        log = open_log()
    outcome = verified(log, tmp_path / "snapshots", *KEPT, "model.transition_m=0.01")
    assert told(outcome) == []
    whole = predictions(alone(*KEPT)[1])
    found = predictions(log)
    assert found[:150] == whole[:150]
    assert [p["probabilities"] for p in found[150:]] != [p["probabilities"] for p in whole[150:]]


def test_the_label_before_says_something():
    learner, _ = alone(*KEPT)
    plain = factories.learner(configured("model.kind=naive_bayes"))
    plain.process(records(RAWS, keys=KEYS), 1.0)
    assert learner.model.transitions.table.any()
    assert learner.model.class_weights == plain.model.class_weights


def test_evidence_names_what_is_known_of_the_entity():
    rng = random.Random(2)
    raws = [
        json.dumps({"id": str(i), "label": "ab"[i // 50 % 2], "features": {"n": rng.random()}})
        for i in range(200)
    ]
    config = configured(KIND, "predictions.evidence=3")
    outputs = factories.learner(config).process(records([r.encode() for r in raws], keys=[b"x"] * 200), 1.0)
    items = {item.attribute: item for item in predictions(outputs)[-1]["evidence"]}
    assert items["entity"].value == "x"
    assert items["entity"].log_odds > 2.0


# -- verification -------------------------------------------------------------------------------------------


@pytest.fixture
def learned(open_log, tmp_path):
    """A log that was learned; it is opened once more."""
    log = open_log(**TOPICS)
    fed(log)
    learn(log, tmp_path / "snapshots", *KEPT)
    return open_log()


def test_what_was_learned_is_recounted(learned, tmp_path):
    outcome = verified(learned, tmp_path / "snapshots", *KEPT)
    assert told(outcome) == []
    assert outcome.compared is not None
    statistics = alone(*KEPT)[0].model.statistics
    assert outcome.compared.counts > np.count_nonzero(statistics.counts.table)


def _array(name, edit):
    def damage(parts):
        edit(parts["model"].arrays[name])

    return damage


def _add(place, amount):
    def edit(array):
        array[place] += amount

    return edit


def _forget(parts):
    """The oldest entity is not kept."""
    arrays = parts["model"].arrays
    cut = int(arrays["entity_ends"][1])
    arrays["entity_arena"] = arrays["entity_arena"][cut:].copy()
    arrays["entity_ends"] = arrays["entity_ends"][1:] - cut
    for name in ("entity_last", "entity_seen", "entity_beliefs"):
        arrays[name] = arrays[name][1:].copy()


def _turn(parts):
    """The two oldest in another order."""
    arrays = parts["model"].arrays
    assert arrays["entity_ends"][:3].tolist() == [0, 2, 4]
    arrays["entity_arena"][:4] = arrays["entity_arena"][[2, 3, 0, 1]]
    for name in ("entity_last", "entity_seen", "entity_beliefs"):
        arrays[name][:2] = arrays[name][:2][::-1].copy()


def _other_label(array):
    k = int(np.flatnonzero(array >= 0)[0])
    array[k] = (array[k] + 1) % 3


def _believe(array):
    i, k = np.argwhere(array > 0.0)[0]
    array[i, k] = np.nextafter(array[i, k], 0.0)


@pytest.mark.parametrize(
    ("damage", "array"),
    [
        (_array("transition_table", _add((0, 1), 1)), "transition_table"),
        (_array("transition_first", _add(0, -1)), "transition_first"),
        (_array("entity_seen", _add(0, 1.0)), "entity_seen"),
        (_array("entity_last", _other_label), "entity_last"),
        (_forget, "entity_arena"),
        (_turn, "entity_arena"),
        (_array("entity_beliefs", _believe), "entity_beliefs"),
    ],
)
@pytest.mark.parametrize("open_log", ["sqlite"], indirect=True)
def test_every_damage_is_found(learned, tmp_path, damage, array):
    """One unit, one second, one bit: in the newest snapshot, and in one before it."""
    folder = tmp_path / "snapshots"
    for n in (None, 6):
        edit_snapshot(folder, damage, n)
    outcome = verified(learned, folder, *KEPT)
    assert {check for check, _ in told(outcome)} == {"replay", "snapshots"}
    assert {place["record"] for place in places(outcome, "snapshots")} >= {6}
    (replayed,) = (text for check, text in told(outcome) if check == "replay")
    assert "part 'model' of the state differs with and without snapshots" in replayed
    assert array in replayed


def test_a_recount_that_begins_with_a_snapshot():
    """The journal's first records are gone: the entity is no attribute then, too."""
    config = configured(*KEPT)
    learner = factories.learner(config)
    learner.process(records(RAWS[:150], keys=KEYS[:150]), 1.0)
    recount = recount_of(LearnedState.read(learner.parts()))
    rest = records(RAWS, keys=KEYS)[150:]
    learner.process(rest, 1.0)
    plan = RecountPlan.of_model(learner.settings, learner.model)
    for record in rest:
        recount.take(decode_event(record.value, plan.settings.schema, record.key), plan)
    findings = CheckResults()
    assert compare(recount, learned_state(learner), "recount", 1, findings).counts > 0
    assert not findings.count("recount")


# -- commands -----------------------------------------------------------------------------------------------


def test_what_no_attribute_reads_takes_no_event_its_key(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    others = [{}, {"tags": ["p", "q"]}, {"nested": {"a": 1}}, {"entity": 3}]
    events = [{"id": f"m{i}", "features": {"who": "w", **other}} for i, other in enumerate(others)]
    (tmp_path / "events.jsonl").write_text("\n".join(map(json.dumps, events)))
    (tmp_path / "one.toml").write_text('[[attributes]]\nname = "text"\nkind = "text"\npath = "$.text"\n')
    flags = [KIND, "log.url=sqlite:///site.db"]
    given = [word for flag in flags for word in ("--set", flag)]
    command = ["replay", "events.jsonl", "--config", "one.toml", "--key", "$.features.who", *given]
    assert main([*command, "--key", ""]) == 2
    assert main(command) == 0
    with closing(context.existing_log(configured(*flags))) as log:
        keys = [r.key for partition in log.partitions("events") for r in log.read(partition, 0, 100)]
    assert keys == [b"w"] * 4


def test_a_file_is_replayed_by_entity_run_inspected_and_verified(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    rng = random.Random(4)
    states = {f"s{i}": rng.choice("ab") for i in range(20)}
    events = []
    for i in range(600):
        sender = rng.choice(sorted(states))
        if rng.random() < 0.1:
            states[sender] = "ab"[states[sender] == "a"]
        x = {"sender": sender, "n": rng.gauss(states[sender] == "a", 2.0)}
        events.append({"id": f"m{i}", "features": x, "label": states[sender] if rng.random() < 0.7 else None})
    (tmp_path / "events.jsonl").write_text("\n".join(map(json.dumps, events)))
    flags = [KIND, "log.url=sqlite:///site.db", "topics.partitions=3", "commit.events=50", "http.listen="]
    given = [word for flag in flags for word in ("--set", flag)]
    by_path = [*given, "--set", "events.entity=$.features.sender"]
    assert main(["replay", "events.jsonl", "--key", "$.features.sender", *given]) == 0
    with closing(context.existing_log(configured(*flags))) as log:
        for partition in log.partitions("events"):
            for record in log.read(partition, 0, 1000):
                assert json.loads(record.value)["features"]["sender"].encode() == record.key
    assert main(["run", "--until-end", *given]) == 0
    capsys.readouterr()
    assert main(["verify", "--json", *given]) == 0
    assert json.loads(capsys.readouterr().out)["verified"]
    accuracy = {}
    for name, sets in {"chains": by_path, "alone": ["--set", "model.kind=naive_bayes"]}.items():
        assert main(["evaluate", "events.jsonl", "--json", *sets]) == 0
        accuracy[name] = json.loads(capsys.readouterr().out)["cumulative"]["accuracy"]
    assert accuracy["chains"] > accuracy["alone"] + 0.1
    assert main(["evaluate", "events.jsonl", "--json", *given]) == 0
    assert "a file has no keys" in capsys.readouterr().err
    other = [*by_path, "--set", "log.url=sqlite:///other.db"]
    assert main(["replay", "events.jsonl", *other]) == 0
    with closing(context.existing_log(configured(*flags, "log.url=sqlite:///other.db"))) as log:
        for partition in log.partitions("events"):
            assert {r.key for r in log.read(partition, 0, 1000)} <= {s.encode() for s in states}
