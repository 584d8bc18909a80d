"""One event at a time takes one call of a kernel, and never reads arrays that were replaced.

That it gives the bits of a batch of one is a law of `test_hostile_streams`.
"""

from __future__ import annotations

import copy
import pickle
import random
import threading

import numpy as np
import pytest

from streamnb import BayesOptimalNB, Hypothesis, OneDependence
from streamnb.errors import UndeclaredTextWarning
from streamnb.kernels.growable_arrays import Growable
from streamnb.models.mixture import mixture_single_event
from tests.models.mixture.hostile_streams import WIDE, new

EVENTS = {
    "text": {"text": "win cash now, win it all"},
    "numbers": {"a": 1.5, "b": -2, "c": 0.25},
    "values": {"a": "red", "b": True, "k": "r"},
    "all": {"text": "win cash now", "body": "lunch", "k": "g", "n": 2.0, "a": "red", "b": 3},
}


def learned(name="default", seed=1, n=60):
    """A model that has met texts, numbers and values, and each of `EVENTS` several times."""
    model, rng = new(name), random.Random(seed)
    for i in range(n):
        x = dict(rng.choice(list(EVENTS.values())))
        x["n"] = round(rng.gauss(0.0, 2.0), 1)
        model.learn_one(x, f"c{i % 3}")
    for x in EVENTS.values():
        for _ in range(3):
            model.learn_one(x, "c0")
    return model


@pytest.fixture
def sent(monkeypatch):
    """What the kernel returned, call by call."""
    found, run = [], mixture_single_event.run_single_hypotheses
    monkeypatch.setattr(
        mixture_single_event, "run_single_hypotheses", lambda *given: found.append(run(*given)) or found[-1]
    )
    return found


@pytest.mark.parametrize("kind", EVENTS)
@pytest.mark.parametrize("name", ["default", "service", "gibbs", "narrow"])
def test_events_whose_attributes_and_values_are_known_need_no_batch(sent, name, kind):
    model, x = learned(name), EVENTS[kind]
    del sent[:]
    for _ in range(20):
        model.predict_proba_one(x)
        model.learn_one(x, "c1")
    refused = sum(size < 0 for size in sent)
    assert refused in {0, 2 * (kind == "numbers")}  # bins grow once, which a second attempt does not do
    assert len(sent) == 40 + refused // 2


def test_new_words_and_new_values_need_no_batch_where_tables_grow(monkeypatch):
    model, batches = learned(), []
    answer = model._answer
    monkeypatch.setattr(
        model, "_answer", lambda *given, **named: batches.append(1) or answer(*given, **named)
    )
    for i in range(100):
        x = {"text": f"win word{i}", "k": f"value{i % 50}", "n": 1.1**i}
        model.predict_proba_one(x)
        model.learn_one(x, "c1")
    assert not batches


def arrays_of(bundle, path=""):
    """Yield the path, address and shape of every array of nested tuples."""
    for name, held in bundle._asdict().items():
        if isinstance(held, np.ndarray):
            if held.size:
                yield f"{path}.{name}", held.ctypes.data, held.shape
        elif isinstance(held, tuple):
            yield from arrays_of(held, f"{path}.{name}")


SCRATCH = (".choices", ".draws", ".rate", ".estimator.codes", ".estimator.missing", ".estimator.no_label",
           ".estimator.joints", ".estimator.scratch", ".forest.numbers", ".forest.codes", ".forest.missing",
           ".forest.no_label", ".forest.known", ".forest.nodes.beyond", ".forest.nodes.nodes",
           ".forest.nodes.rests", ".forest.nodes.block",
           ".forest.tables.groups", ".forest.tables.fields")  # fmt: skip


def models_arrays(arrays):
    return [found for found in arrays_of(arrays) if not found[0].startswith(SCRATCH)]


def owners_of(model):
    """Yield every owner of arrays, each once."""
    waiting, met = [model.statistics, model._learners, model._dependence, model._forests], []
    while waiting:
        owner = waiting.pop()
        if isinstance(owner, Growable) and not any(owner is other for other in met):
            met.append(owner)
            yield owner
            for held in vars(owner).values():
                waiting += held if isinstance(held, list) else [held]


def replaced(held):
    """A copy of an array, or of a tuple of arrays; None for anything else."""
    if isinstance(held, np.ndarray):
        return held.copy()
    if isinstance(held, tuple) and hasattr(held, "_asdict"):
        return copy.deepcopy(held)
    return None


def assert_reads_current_arrays(model, x):
    model.predict_proba_one(x)
    (prepared,) = model._prepared._free
    if prepared.arrays is None:  # codes and counts of the estimator no longer belong together
        model.learn_many([x], ["c0"])
        model.predict_proba_one(x)
        (prepared,) = model._prepared._free
    workspace = prepared.workspace
    _, current = model._arrays_alone(workspace.size, workspace)
    assert models_arrays(prepared.arrays) == models_arrays(current)


@pytest.mark.parametrize("name", ["default", "wide"])
def test_an_array_that_was_replaced_is_read_where_it_is_now(name):
    """Each array of each owner, one after the other."""
    if name == "wide":  # with one estimator
        wide = [h for h in WIDE if not isinstance(h, OneDependence)]
        model = BayesOptimalNB({"text": "text", "body": "text"}, [*wide, OneDependence()])
        for i in range(40):
            model.learn_one(EVENTS["all"], f"c{i % 2}")
    else:
        model = learned()
    x, moved = EVENTS["all"], 0
    assert_reads_current_arrays(model, x)
    for owner in owners_of(model):
        for attribute, held in list(vars(owner).items()):
            other = replaced(held)
            if other is not None:
                setattr(owner, attribute, other)
                assert_reads_current_arrays(model, x)
                moved += 1
    model._posterior.weights = copy.deepcopy(model._posterior.weights)
    assert_reads_current_arrays(model, x)
    assert moved > 40


@pytest.mark.parametrize("again", [copy.deepcopy, lambda model: pickle.loads(pickle.dumps(model))])  # noqa: S301
def test_a_copy_reads_its_own_arrays(again):
    model = learned()
    model.predict_proba_one(EVENTS["all"])
    other = again(model)
    other.learn_one(EVENTS["all"], "c2", 50.0)
    assert_reads_current_arrays(other, EVENTS["all"])
    assert other.predict_proba_one(EVENTS["all"]) != model.predict_proba_one(EVENTS["all"])


@pytest.mark.parametrize(
    "change",
    [
        lambda model: setattr(model, "floor", True),
        lambda model: setattr(model, "prediction", "map"),
        lambda model: model.reset_adaptive(),
        lambda model: model.prune(drop_most_frequent=2),
        lambda model: model.unlearn_many([EVENTS["all"]] * 3, ["c0"] * 3),
        lambda model: model.learn_late_many([EVENTS["text"]], ["c1"], again=True),
        lambda model: model.load_state(*learned(seed=2).state()),
    ],
)
def test_what_changes_between_two_events_is_seen(change):
    model = learned()
    for x in EVENTS.values():
        model.predict_proba_one(x)
    change(model)
    for x in EVENTS.values():
        answer = model.predict_posteriors([x])
        expected = dict(zip(answer.classes, answer.probabilities[0].tolist(), strict=True))
        assert model.predict_proba_one(x) == expected


def test_a_batch_lets_go_of_the_arrays():
    """Else a table that grows would be held twice."""
    model = learned()
    model.predict_proba_one(EVENTS["all"])
    model.learn_many([EVENTS["all"]], ["c1"])
    assert [prepared.arrays for prepared in model._prepared._free] == [None]


def test_threads_that_ask_at_the_same_time_do_not_share_scratch(monkeypatch):
    """A call that begins while another is in the kernel gets scratch of its own."""
    model, run, inner = learned(), mixture_single_event.run_single_hypotheses, []
    expected = [model.predict_proba_one(x) for x in EVENTS.values()]

    def interrupted(*given):
        found = run(*given)
        if not inner:
            inner.append(None)
            thread = threading.Thread(target=lambda: inner.append(model.predict_proba_one(EVENTS["numbers"])))
            thread.start()
            thread.join()
        return found

    monkeypatch.setattr(mixture_single_event, "run_single_hypotheses", interrupted)
    for x, probabilities in zip(EVENTS.values(), expected, strict=True):
        del inner[:]
        assert model.predict_proba_one(x) == probabilities
        assert inner[1] == expected[1]


def test_a_value_that_looks_like_a_text_is_reported_when_its_attribute_is_known(sent):
    model = BayesOptimalNB(hypotheses=[Hypothesis()])
    for y in "ab":
        model.learn_one({"body": "short"}, y)
    model.learn_one({"body": "short"}, "a")
    with pytest.warns(UndeclaredTextWarning, match="'body' looks like a text"):
        model.learn_one({"body": "see you at lunch tomorrow then"}, "a")
    assert sent[-1] >= 0


def test_a_class_of_which_all_was_unlearned_is_not_predicted():
    model = BayesOptimalNB(hypotheses=[Hypothesis()])
    for y in "abc":
        model.learn_one({"k": "r"}, y)
    model.unlearn_one({"k": "r"}, "b")
    assert list(model.predict_proba_one({"k": "r"})) == ["a", "c"]
