"""The shared model of tenants under a budget of memory: it is the naive Bayes model of the stream under this budget."""

from __future__ import annotations

import json
import random

import pytest
from hypothesis import example, given, settings

from streamnb import NaiveBayes
from streamnb.events import TOO_MANY_CLASSES
from streamnb.formats.event_schema import EventSchema
from streamnb.models.tenants.tenant_models import SharedModel, TenantModels
from streamnb.statistics.memory_budget import MemoryBudget
from tests.engine.processing.test_admission import SEEDS, crowded, learned_in_cuts
from tests.support.late import late_learner, look_for_room_often, random_stream
from tests.support.service import digests, new_learner, predictions, records

pytestmark = pytest.mark.early(38)

FEW = settings(max_examples=8)  # each is several lives
TEXTS = {"text": "text", "subject": "text"}


@pytest.fixture(autouse=True)
def looks_often(monkeypatch):
    look_for_room_often(monkeypatch)
    monkeypatch.setattr(SharedModel, "_budget", lambda _, n_bytes: MemoryBudget(n_bytes, 4 * (128 << 10)))


def owned(given, rng):
    """The same records, each of one of five tenants, or of nobody."""
    return [record._replace(key=rng.choice([None, b"a", b"b", b"c", b"d", b"e"])) for record in given]


def tenants(n_bytes):
    models = TenantModels(TEXTS, shared=True, memory=4000)
    models.keep_within(n_bytes)
    return models


def one(n_bytes):
    model = NaiveBayes(TEXTS)
    model.statistics.room = MemoryBudget(n_bytes, 4 * (128 << 10))
    return model


def told_of(model):
    """Its state, to the bit."""
    meta, arrays = model.state()
    return {k: v for k, v in meta.items() if k != "type"}, {
        name: one.tobytes() for name, one in arrays.items()
    }


@FEW
@given(rng=SEEDS)
def test_the_shared_model_forgets_what_one_model_of_the_stream_forgets_whatever_the_cuts(rng):
    stream = owned(records(crowded(rng)), rng)
    schema = EventSchema(entity_path="")
    whole, cut, again = (
        new_learner(model=tenants(12_000), schema=schema, max_classes=9, report_seconds=1e9) for _ in range(3)
    )
    expected = predictions(whole.process(stream, 1.0))
    alone = new_learner(model=one(12_000), max_classes=9, report_seconds=1e9)
    alone.process(stream, 1.0)
    assert whole.model.n_prunings > 3
    assert told_of(whole.model.shared) == told_of(alone.model)
    half = rng.randrange(300)
    found = learned_in_cuts(cut, stream[:half], rng)
    again.load(cut.parts())
    assert found + learned_in_cuts(again, stream[half:], rng) == expected
    assert digests(again) == digests(whole)


@pytest.mark.thorough
@settings(max_examples=20)
@example(rng=random.Random(3))
@given(rng=SEEDS)
def test_so_it_is_where_labels_come_late_are_changed_and_taken_back_and_the_budget_is_another(rng):
    stream = owned(random_stream(rng, 80, 200, classes="rstuvwxyz", more_features=6).records, rng)
    stream = stream[: (half := rng.randrange(len(stream)))], stream[half:]
    schema, budgets = EventSchema(entity_path=""), rng.choices([1500, 4000], k=2)
    learners = [
        late_learner(tenants(budgets[0]), schema=schema, max_classes=6, repeats="skip") for _ in range(2)
    ]
    alone = late_learner(one(budgets[0]), max_classes=6, repeats="skip")
    for part, n_bytes in zip(stream, budgets, strict=True):
        for learner in learners:
            learner.reconfigure(learner.settings, tenants(n_bytes))
        alone.reconfigure(alone.settings, one(n_bytes))
        for learner in (learners[0], alone):
            learner.process(part, 1.0)
        learned_in_cuts(learners[1], part, rng)
    assert learners[0].model.n_prunings > 0
    assert told_of(learners[0].model.shared) == told_of(alone.model)
    assert digests(learners[0]) == digests(learners[1])


@FEW
@given(rng=SEEDS)
def test_no_tenants_own_model_forgets(rng):
    """Words that the model of all forgot are predicted by what the tenant knows of them."""
    raws = [raw for raw in crowded(rng) if b"features" not in raw]  # of attributes there may be only so many
    stream, schema = owned(records(raws), rng), EventSchema(entity_path="")
    bounded = new_learner(model=tenants(12_000), schema=schema, report_seconds=1e9)
    free = new_learner(model=TenantModels(TEXTS), schema=schema, report_seconds=1e9)
    for learner in (bounded, free):
        learner.process(stream, 1.0)
    assert bounded.model.n_prunings > 1
    for name in ["", *"abcde"]:
        assert told_of(bounded.model.tenant(name)) == told_of(free.model.tenant(name))


def test_a_word_that_the_model_of_all_forgot_says_what_the_tenant_knows_of_it():
    models = TenantModels(TEXTS, shared=True)
    models.keep_within(3000)
    models.learn_many([{"entity": "own", "text": "mine"}] * 500, ["yes"] * 500)
    models.learn_many([{"entity": "own", "text": "other"}] * 500, ["no"] * 500)
    models.has_capacity(2, 0, 0)
    for i in range(600):
        models.learn_many([{"entity": "bad", "text": f"w{i}"}] * 600, ["yes", "no"] * 300)
        models.evict(2)
    assert not models.shared.value_counts("text", "mine")
    assert models.tenant("own").value_counts("text", "mine") == {"yes": 500}
    told = models.predict_posteriors(
        [{"entity": "own", "text": word} for word in ("mine", "other", "no one's")]
    )
    assert told.probabilities[:, told.classes.index("yes")] == pytest.approx([1.0, 0.0, 0.5], abs=0.01)


@pytest.mark.thorough
def test_one_event_of_many_words_and_as_many_labels_as_there_may_be_keep_the_bound_at_every_moment(
    monkeypatch,
):
    monkeypatch.undo()  # room as it is shared out
    budget, schema, rng = 4 << 20, EventSchema(entity_path=""), random.Random(1)
    models = TenantModels(TEXTS, shared=True)
    models.keep_within(budget)
    learner = new_learner(model=models, schema=schema)
    words = " ".join(f"w{i}" for i in range(20_000))
    raws = [json.dumps({"id": "0", "text": words, "label": "first"})]
    raws += [
        json.dumps({"id": f"e{i}", "text": f"{rng.random()}", "label": f"l{i}", "features": {f"f{i}": 1.5}})
        for i in range(900)
    ]
    stream = [record._replace(key=b"bad") for record in records([raw.encode() for raw in raws])]
    for start in range(0, len(stream), 10):
        learner.process(stream[start : start + 10], 1.0)
        own = models.shared.statistics
        assert own.vocabulary.size <= own.room.rows(len(own.classes))
        assert len(own.counts.table) * own.counts.table.strides[0] <= own.room.n_bytes
        assert models.shared.n_bytes < budget
    assert 300 < len(models.classes) == len(raws) - learner.tally.dead_letters[TOO_MANY_CLASSES] < len(raws)
    assert models.n_prunings > 3
    shared = {name: one for name, one in models.state()[1].items() if name.startswith("shared_")}
    assert sum(one.nbytes for one in shared.values()) < budget
    assert {*models.memory_use.parts} == {"words", "long_words"}
