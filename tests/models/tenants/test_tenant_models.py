"""A model for each tenant: whatever the order, the cuts and the memory, each is what a model of its own would be."""

from __future__ import annotations

import random
from collections import Counter

import numpy as np
import pytest

from streamnb import NaiveBayes
from streamnb.errors import SnapshotError, UnlearnError
from streamnb.features.attributes import Continuous, Nominal, Text
from streamnb.models.tenants.active_models import ActiveModels
from streamnb.models.tenants.cold_store import ColdStore, ColdStoreCopy, in_memory
from streamnb.models.tenants.eviction_kernels import HEADER
from streamnb.models.tenants.tenant_models import TenantModels

pytestmark = pytest.mark.early(37)

DECLARED = {
    "text": Text(alpha=0.3),
    "colour": Nominal(values=("red", "green", "blue")),
    "size": Continuous(),
    "shop": Nominal(m=2.0),
}
READINGS = [
    {},
    {"attributes": DECLARED},
    {"attributes": {"text": "text"}, "alpha": 0.0, "prior": "uniform"},
    {"m": 3.0, "p": 0.25, "prior": {"a": 1.0, "b": 5.0}},
]
MEMORY = [1, 4_000, 40_000, 1 << 20]
WORDS = ["cash", "lunch", "free", "é" * 9, "w" * 16, "donaudampfschifffahrtsgesellschaft", "of", "x"]


def stream(seed, n=240, tenants=9):
    """Events of tenants, of which a few have most; with labels and weights."""
    chance = random.Random(seed)
    events, labels, weights = [], [], []
    for _ in range(n):
        x = {"text": " ".join(chance.choices(WORDS, k=chance.randrange(6)))}
        if chance.random() < 0.6:
            x["colour"] = chance.choice(["red", "green", "blue"])
        if chance.random() < 0.6:
            x["size"] = chance.choice([chance.gauss(0, 1), 1e12, -0.0])
        if chance.random() < 0.2:
            x["shop"] = chance.choice([True, "north", 3])
        tenant = int(chance.expovariate(0.4)) % tenants
        if tenant:
            x["entity"] = chance.choice([f"t{tenant}", f"../{tenant}"][tenant % 2 :][:1])
        events.append(x)
        labels.append(chance.choice(["a", "b", "b", "c", None]) if tenant % 3 else chance.choice("ba"))
        weights.append(chance.choice([1.0, 1.0, 0.5, 3.0, 0.0]))
    return events, labels, weights


def without(x):
    return {name: value for name, value in x.items() if name != "entity"}


def same(one, other):
    """Whether two states have the same bytes."""
    (meta, arrays), (meta_, arrays_) = one, other
    return meta == meta_ and arrays.keys() == arrays_.keys() and all(
        array.dtype == arrays_[name].dtype
        and array.shape == arrays_[name].shape
        and array.tobytes() == arrays_[name].tobytes()
        for name, array in arrays.items()
    )  # fmt: skip


class EachAlone:
    """The plainest thing that does the same: a dictionary of models, event by event."""

    def __init__(self, reading):
        self._reading, self.models = reading, {}

    def of(self, x):
        return self.models.setdefault(x.get("entity", ""), NaiveBayes(**self._reading))

    def predict_then_learn(self, x, y, w):
        said = self.of(x).predict_then_learn_many([without(x)], [y], [w])
        return self.said(said, 0)

    @staticmethod
    def said(posteriors, e):
        """What is said of the classes that have examples."""
        told = dict(zip(posteriors.classes, posteriors.probabilities[e].tolist(), strict=True))
        hidden = set() if posteriors.quarantined is None else set(np.flatnonzero(posteriors.quarantined[e]))
        assert all(told[posteriors.classes[k]] == 0.0 for k in hidden)
        return {label: p for label, p in told.items() if p}


@pytest.mark.thorough_for("4000", "40000")
@pytest.mark.parametrize("memory", MEMORY)
@pytest.mark.parametrize("reading", READINGS)
def test_each_model_is_what_it_would_be_alone(reading, memory):
    """However the stream is cut, with predictions, copies, restarts and corrections between."""
    for seed in range(4):
        chance = random.Random(seed)
        events, labels, weights = stream(seed)
        models, alone, at = TenantModels(memory=memory, **reading), EachAlone(reading), 0
        while at < len(events):
            stop = at + chance.randrange(1, 60)
            part = events[at:stop], labels[at:stop], weights[at:stop]
            asked = models.predict_posteriors(part[0])
            for e, x in enumerate(part[0]):
                expected = alone.said(alone.of(x).predict_posteriors([without(x)]), 0)
                assert alone.said(asked, e) == expected
            if chance.random() < 0.2:
                models.learn_late_many(*part)
                for x, y, w in zip(*part, strict=True):
                    alone.of(x).learn_late_many([without(x)], [y], [w])
            else:
                told = models.predict_then_learn_many(*part)
                for e, event in enumerate(zip(*part, strict=True)):
                    assert alone.said(told, e) == alone.predict_then_learn(*event)
            if chance.random() < 0.2:
                e = chance.randrange(len(part[0]))
                x, y, w = (one[e] for one in part)
                models.unlearn_many([x], [y], [w])
                alone.of(x).unlearn_many([without(x)], [y], [w])
            if chance.random() < 0.3:
                models = TenantModels(memory=chance.choice(MEMORY), **reading).load_state(*models.state())
            at = stop
        for name, model in alone.models.items():
            assert same(models.tenant(name).state(), model.state()), name
        assert models.n_events == sum(model.n_events for model in alone.models.values())


def test_memory_and_cuts_cannot_be_seen_in_the_state():
    events, labels, weights = stream(5)
    states = []
    for seed, memory in enumerate(MEMORY):
        chance, models, at = random.Random(seed), TenantModels(memory=memory), 0
        while at < len(events):
            stop = at + chance.randrange(1, 50)
            models.predict_then_learn_many(events[at:stop], labels[at:stop], weights[at:stop])
            at = stop
        states.append(models.state())
    assert all(same(states[0], other) for other in states[1:])
    assert states[0][1]["ends"].size == 1 + len({x.get("entity") for x in events} | {None})


@pytest.mark.parametrize("shared", [False, True])
def test_a_copy_is_of_its_moment_while_the_models_go_on(shared):
    events, labels, _ = stream(7)
    models = TenantModels(memory=4_000, shared=shared)
    models.learn_many(events[:120], labels[:120])
    expected = TenantModels(shared=shared)
    expected.learn_many(events[:120], labels[:120])
    copying = models.copying()
    assert not copying.advance(100)
    models.learn_many(events[120:], labels[120:])
    assert copying.advance(1 << 30)
    assert same(copying.state(), expected.state())


def test_beyond_the_most_tenants_events_share_the_model_of_nobody():
    models = TenantModels(tenants=2)
    events = [{"entity": name, "colour": "red"} for name in "abcab"] + [{"colour": "red"}]
    for x in events:
        models.learn_many([x], ["yes"])
    assert models.use(0).tenants == 2
    assert {name: models.tenant(name).n_events for name in ("a", "b", "c", "")} == {
        "a": 2,
        "b": 2,
        "c": 2,
        "": 2,
    }
    assert models.predict_posteriors([{"entity": "d", "colour": "red"}]).labels() == ["yes"]
    models.unlearn_many([{"entity": "c", "colour": "red"}], ["yes"])
    assert models.tenant().n_events == 1


def test_a_tenant_begins_with_its_first_example():
    models = TenantModels()
    said = models.predict_then_learn_many([{"entity": "a", "n": 1.0}] * 3, [None, "yes", None])
    assert said.labels() == [None, None, "yes"]
    models.predict_posteriors([{"entity": "b"}])
    assert models.use(0).tenants == 1
    with pytest.raises(UnlearnError, match="'b'"):
        models.unlearn_many([{"entity": "b"}], ["yes"])


def test_labels_of_one_tenant_are_not_told_of_another():
    models = TenantModels()
    models.learn_many([{"entity": "a", "c": "x"}, {"entity": "b", "c": "x"}], ["a's", "b's"])
    said = models.predict_posteriors([{"entity": "a", "c": "x"}])
    assert said.quarantined.tolist() == [[False, True]]
    assert said.probabilities.tolist() == [[1.0, 0.0]]


def test_how_often_tenants_were_predicted_right():
    models = TenantModels(memory=1)
    for label in ("yes", "yes", "no", "yes"):
        models.predict_then_learn_many([{"entity": "a", "c": "x"}, {"entity": "b", "c": "x"}], [label, None])
    assert models.use(5).top == [("a", 4, 3, 2)]
    restored = TenantModels().load_state(*models.state())
    assert restored.use(5).top == models.use(5).top


def test_right_is_what_was_said_to_be_most_probable():
    """Of equally probable classes predictions name the one that came first, to whichever tenant it came."""
    models, right, ties = TenantModels(memory=4_000), Counter(), 0
    chance = random.Random(3)
    for _ in range(400):
        x, y = {"entity": chance.choice("pqr"), "c": chance.choice("xy")}, chance.choice("abcd")
        said = models.predict_then_learn_many([x], [y])
        (told,), top = said.labels(), np.sort(said.probabilities[0])
        right[x["entity"]] += told == y
        ties += bool(top[-1] and top[-1] == top[-2:][0])
    assert ties > 10
    assert {one[0]: one[3] for one in models.use(5).top} == right


def test_one_tenant_with_many_labels_and_long_words_among_small_ones():
    models, alone = TenantModels(memory=20_000), NaiveBayes()
    for i in range(300):
        x = {"text": f"{'v' * (i % 40)}{i}"}
        models.predict_then_learn_many(
            [{**x, "entity": "wide"}, {**x, "entity": f"s{i % 50}"}], [f"l{i}", "one"]
        )
        alone.learn_one(x, f"l{i}")
    assert same(models.tenant("wide").state(), alone.state())
    assert models.tenant("s3").n_events == 6


@pytest.mark.parametrize("at_once", [1, 64, 600])
@pytest.mark.parametrize("order", [range(600), range(599, -1, -1), random.Random(1).sample(range(600), 600)])
def test_words_of_one_tenant_times_labels_of_another_are_not_in_memory(monkeypatch, order, at_once):
    """Nor in a batch that brings both: 3,000 words and 300 labels would take 7 MB."""
    run, took = ActiveModels.run, []

    def measured(desk, *args, **how):
        said = run(desk, *args, **how)
        took.append(desk.n_bytes)
        return said

    monkeypatch.setattr(ActiveModels, "run", measured)
    words = [[f"w{i}{j}" for j in range(10)] for i in range(300)]
    events = [{"entity": "words", "text": " ".join(some)} for some in words]
    events += [{"entity": "labels", "text": "x"} for _ in range(300)]
    labels = ["a"] * 300 + [f"l{i}" for i in range(300)]
    memory = 1 << 20
    models = TenantModels(memory=memory)
    for at in range(0, 600, at_once):
        part = order[at : at + at_once]
        models.predict_then_learn_many([events[e] for e in part], [labels[e] for e in part])
    assert max(took) < 2 * memory
    for name in ("words", "labels"):
        alone = NaiveBayes()
        of = [e for e in order if events[e]["entity"] == name]
        alone.learn_many([without(events[e]) for e in of], [labels[e] for e in of])
        assert same(models.tenant(name).state(), alone.state())


def test_what_is_put_away_takes_no_more_than_twice_what_it_is():
    models = TenantModels(memory=1)
    for i in range(2_000):
        models.learn_many([{"entity": f"t{i % 40}", "text": f"w{i}"}], ["yes"])
    live = 8 * models.state()[1]["runs"].size
    assert live <= models.store.cold.n_bytes <= 2 * live + 40 * 512 + 8 * 512


def test_damage_while_a_model_is_put_away_is_found_and_named():
    models = TenantModels(memory=1)
    models.learn_many([{"entity": "a", "c": "x"}], ["yes"])
    models.learn_many([{"entity": "b", "c": "x"}], ["yes"])
    words = models.store.cold.words.whole
    words[models.store.cold.at[1] + HEADER + 1] ^= 1
    with pytest.raises(SnapshotError, match=r"the model of tenant number \d is damaged"):
        models.predict_posteriors([{"entity": "a", "c": "x"}])


def test_a_state_whose_runs_are_none_is_refused():
    models = TenantModels()
    models.learn_many([{"entity": "a", "text": "w" * 20, "n": 1.0}, {"entity": "b", "c": "x"}], ["yes", "no"])
    meta, arrays = models.state()
    for at in range(arrays["runs"].size):
        runs = arrays["runs"].copy()
        runs[at] += 1
        with pytest.raises(SnapshotError, match="tenant"):
            TenantModels().load_state(meta, {**arrays, "runs": runs})
    for damaged in (
        {"ends": arrays["ends"][:-1]},
        {"names": arrays["names"][:-1]},
        {"weights": arrays["weights"] + 1},
        {"name_ends": np.array([0, 1, 1, 2])},
    ):
        with pytest.raises(SnapshotError):
            TenantModels().load_state(meta, {**arrays, **damaged})
    with pytest.raises(ValueError, match="TenantModels"):
        TenantModels().load_state({**meta, "type": "NaiveBayes"}, arrays)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"event_model": "bernoulli"}, "Bernoulli"),
        ({"attributes": {"text": Text(event_model="bernoulli")}}, "Bernoulli"),
        ({"attributes": {"entity": "text"}}, "'entity'"),
        ({"tenants": 0}, "tenants"),
        ({"memory": 0}, "memory"),
    ],
)
def test_what_it_cannot_be_made_with(given, says):
    with pytest.raises(ValueError, match=says):
        TenantModels(**given)


def test_what_it_refuses_of_events_teaches_nothing():
    models = TenantModels(attributes={"n": "continuous"})
    before = models.state()
    for x in ({"entity": "a", "n": "no number"}, {"entity": ["a"]}, 3):
        with pytest.raises((TypeError, ValueError)):
            models.learn_many([{"entity": "a", "n": 1.0}, x], ["yes", "yes"])
    with pytest.raises(ValueError, match="prune"):
        models.prune(2.0)
    assert same(models.state(), before)


def test_runs_move_together_where_half_was_left():
    shelf = ColdStore()
    shelf.count(3)
    for size in (100, 300, 900, 30_000):
        for number in range(3):
            run = np.full(size, number)
            run[1] = size
            shelf.write(number, run)
        for number in range(3):
            assert shelf.words.whole[shelf.at[number] + size - 1] == number
    copy = ColdStoreCopy(shelf.words.whole, shelf.at[:3], in_memory)
    copy.finish()
    assert copy.ends.tolist() == [0, 30_000, 60_000, 90_000]
