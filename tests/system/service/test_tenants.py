"""Models of tenants in the service: keys and paths, restarts, late labels, verification and questions."""

from __future__ import annotations

import json
import random
from collections import Counter

import pytest

from streamnb import NaiveBayes
from streamnb.cli import main
from streamnb.config import changes, load, semantic_config_of
from streamnb.engine.ports import NewRecord
from streamnb.errors import ConfigError
from streamnb.runtime import factories
from tests.support.service import model_digest, predictions, raw_events, records
from tests.support.verifying import configured, new_worker, told, verified

pytestmark = pytest.mark.early(36)

SETS = ["model.kind=tenants", "model.tenants=7", "model.memory=1B"]
SHARED = [*SETS, "model.shared=true"]
TOPICS = {"events": 1, "predictions": 1, "metrics": 1, "dead-letters": 1, "journal": 1}
RAWS = raw_events(300, seed=5, labelled=0.7)
KEYS = [random.Random(i).choice([None, *(b"../e%d" % e for e in range(10))]) for i in range(300)]


def fed(log, *, start=0, stop=300):
    log.append(
        [NewRecord("events", k, raw) for k, raw in zip(KEYS[start:stop], RAWS[start:stop], strict=True)]
    )


def alone(*sets):
    """A learner that nobody disturbs, and what it said."""
    learner = factories.learner(configured(*sets))
    return learner, learner.process(records(RAWS, keys=KEYS), 1.0)


def test_each_key_has_the_model_of_its_own_events():
    learner, _ = alone(*SETS)
    plain = factories.learner(configured("model.kind=naive_bayes"))
    models, kept = {}, {}
    for record in records(RAWS, keys=KEYS):
        (event,) = plain.event_path.decoding.decode_all([record]).events()
        name = (record.key or b"").decode()
        if event.label is not None and name not in kept and name and len(kept) < 7:
            kept[name] = name
        model = models.setdefault(kept.get(name, ""), NaiveBayes({"text": "text"}))
        if event.label is not None:
            model.learn_one(event.x, event.label)
    assert len(kept) == learner.model.use(0).tenants == 7
    for name, model in models.items():
        (meta, arrays), (meta_, arrays_) = learner.model.tenant(name).state(), model.state()
        assert meta == meta_
        assert {n: a.tobytes() for n, a in arrays.items()} == {n: a.tobytes() for n, a in arrays_.items()}


@pytest.mark.parametrize("sets", [SETS, SHARED], ids=["alone", "shared"])
def test_lives_are_one_life_whatever_the_batches_and_the_memory(sets, open_log, tmp_path):
    """On SQLite and on a broker: each life has another memory, and puts other models away."""
    log, at = open_log(**TOPICS), 0
    for stop, memory in ((70, "1B"), (71, "1MiB"), (230, "9KiB"), (300, "1B")):
        fed(log, start=at, stop=stop)
        at = stop
        worker = new_worker(log, tmp_path / "snapshots", *sets, f"model.memory={memory}")
        worker.start("test")
        worker.run(until_end=True)
        worker.close()
        log = open_log()
    undisturbed, outputs = alone(*sets)
    assert model_digest(worker.learner) == model_digest(undisturbed)
    assert predictions(log) == predictions(outputs)
    outcome = verified(log, tmp_path / "snapshots", *sets)
    assert not told(outcome)
    assert outcome.compared.counts > 500


@pytest.mark.parametrize("sets", [SETS, SHARED], ids=["alone", "shared"])
def test_late_labels_and_corrections_are_counted_by_each_tenant(sets, open_log, tmp_path):
    """Also where its model was put away meanwhile, and the learner was another: counts are those of the labels that hold."""
    log, rng = open_log(**TOPICS, labels=1), random.Random(4)
    texts = [" ".join(rng.choices("abcdefgh", k=5)) for _ in range(120)]
    log.append(
        [
            NewRecord("events", b"t%d" % (i % 6), json.dumps({"id": f"e{i}", "text": text}).encode())
            for i, text in enumerate(texts)
        ]
    )
    holds = {}
    for _ in range(4):
        said = [(i, rng.choice(["spam", "ham", None])) for i in rng.sample(range(120), 60)]
        holds.update(said)
        log.append(
            [
                NewRecord("labels", None, json.dumps({"id": f"e{i}", "label": label}).encode())
                for i, label in said
            ]
        )
        worker = new_worker(log, tmp_path / "snapshots", *sets, "topics.labels=labels")
        worker.start("test")
        worker.run(until_end=True)
        worker.close()
        log = open_log()
    models = {range(tenant, 120, 6): f"t{tenant}" for tenant in range(6)}
    models |= {range(120): None} if sets is SHARED else {}
    for own, name in models.items():
        labels = {i: holds.get(i) for i in own}
        model = worker.learner.model.tenant(name) if name else worker.learner.model.shared
        assert {k: n for k, n in model.class_weights.items() if n} == Counter(filter(None, labels.values()))
        expected = {}
        for i, label in labels.items():
            for word in texts[i].split() if label else ():
                expected.setdefault(word, Counter())[label] += 1
        counts = {
            word: {k: n for k, n in row.items() if n} for word, row in model.class_counts("text").items()
        }
        assert {word: row for word, row in counts.items() if row} == expected
    outcome = verified(log, tmp_path / "snapshots", *sets, "topics.labels=labels")
    assert not told(outcome)
    assert outcome.compared.counts > 100


def test_bernoulli_texts_are_refused():
    with pytest.raises(ConfigError, match="no Bernoulli texts"):
        factories.learner(configured(*SETS, "model.event_model=bernoulli"))


def test_what_a_shared_model_is_not_for_is_refused_by_its_key():
    for sets, says in (
        (["model.kind=naive_bayes", "model.shared=true"], r"model\.shared"),
        ([*SHARED, "model.alpha=0"], r"model: alpha is 0.*shared = true"),
        ([*SHARED, "model.event_model=bernoulli"], "no Bernoulli texts"),
    ):
        with pytest.raises(ConfigError, match=says):
            factories.learner(configured(*sets))


def test_a_shared_model_cannot_be_added_to_a_stream():
    before = semantic_config_of(load(None, {}, SETS))
    (change,) = changes(before, semantic_config_of(load(None, {}, SHARED)))
    assert (change.key, change.allowed) == ("model.shared", False)


def test_memory_may_change_and_the_most_tenants_may_not():
    before = semantic_config_of(load(None, {}, SETS))
    for key, may in (("model.memory=2MiB", True), ("model.tenants=8", False), ("events.entity=$.e", False)):
        (change,) = changes(before, semantic_config_of(load(None, {}, [*SETS, key])))
        assert change.allowed == may, key


@pytest.fixture
def asked(tmp_path, capsys, monkeypatch, request):
    """Learns a few events of two tenants on a log of its own, and gives what a command prints."""
    monkeypatch.chdir(tmp_path)
    events = [
        {"id": str(i), "shop": shop, "text": text, "label": label}
        for i, (shop, text, label) in enumerate(
            [
                ("acme", "win cash", "spam"),
                ("acme", "lunch today", "ham"),
                ("../beta", "cash flow", "ham"),
                ("../beta", "cash win", "ham"),
            ]
            * 5
        )
    ]
    (tmp_path / "events.jsonl").write_text("".join(f"{json.dumps(event)}\n" for event in events))
    options = [
        "--log",
        f"sqlite:///{tmp_path}/t.db",
        "--set",
        "model.kind=tenants",
        "--set",
        "events.entity=$.shop",
        "--set",
        "http.listen=",
    ]

    def ask(*words):
        code = main([*words, *options])
        out, err = capsys.readouterr()
        return code, out, err

    options += ["--set", f"model.shared={getattr(request, 'param', 'false')}"]
    assert ask("topics", "create")[0] == 0
    assert ask("replay", "events.jsonl")[0] == 0
    assert ask("run", "--until-end")[0] == 0
    return ask


def test_questions_are_answered_by_the_tenants_own_model(asked):
    code, out, _ = asked("predict", '{"text": "cash", "shop": "acme"}', "--json")
    assert code == 0
    assert set(json.loads(out)["probabilities"]) == {"spam", "ham"}
    code, out, _ = asked("explain", '{"text": "win cash", "shop": "acme"}', "--json")
    assert json.loads(out)["label"] == "spam"
    assert {item["value"]: item["counts"] for item in json.loads(out)["evidence"]}["win"] == {"spam": 5.0}
    code, _, err = asked("predict", '{"text": "cash", "shop": "who"}')
    assert code != 0
    assert "nothing has been learned yet of the tenant who" in err
    described = json.loads(asked("inspect", "--json")[1])["tenants"]
    assert described["models"] == 2
    assert {one["name"]: one["events"] for one in described["largest"]} == {"acme": 10, "../beta": 10}
    inspected = asked("inspect")[1]
    assert "../beta" in inspected
    assert "words and values" not in inspected  # each model has its own
    assert "how often in each" in asked("explain", '{"text": "win cash", "shop": "acme"}')[1]
    assert asked("verify")[0] == 0


@pytest.mark.parametrize("asked", ["true"], indirect=True)
def test_questions_of_a_new_tenant_are_answered_by_what_all_have_learned(asked):
    code, out, _ = asked("predict", '{"text": "win cash", "shop": "who"}', "--json")
    assert code == 0
    assert set(json.loads(out)["probabilities"]) == {"spam", "ham"}
    code, out, _ = asked("explain", '{"text": "win cash", "shop": "../beta"}', "--json")
    assert code == 0
    told = json.loads(out)
    assert set(told["probabilities"]) == {"spam", "ham"}  # its own label, and that of another
    assert told["label"] == "ham"
    assert told["evidence"]
    text = asked("explain", '{"text": "win cash", "shop": "../beta"}')[1]
    assert "how often in each" not in text  # of two models
    assert [line.split() for line in text.splitlines() if "log odds" in line][-1] == [
        "attribute",
        "value",
        "log",
        "odds",
    ]
    assert "2 classes, 5 words and values" in asked("inspect")[1]
    assert asked("verify")[0] == 0
