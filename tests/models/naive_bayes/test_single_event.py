"""An event by itself and a data frame give the same bytes as events as dictionaries in a batch."""

from __future__ import annotations

import copy
import math
import pickle
import weakref

import numpy as np
import pandas as pd
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from streamnb import (
    BayesOptimalNB,
    BernoulliNB,
    CategoricalNB,
    GaussianNB,
    Hypothesis,
    MultinomialNB,
    NaiveBayes,
    Text,
)
from streamnb.features import tokenizer, vocabulary
from streamnb.features.character_table import character_table
from streamnb.kernels.pinned_structs import PINNED_WORDS
from streamnb.models.naive_bayes import naive_bayes_classifier, single_event
from streamnb.models.naive_bayes.single_event_kernel import ModelArrays, pin_arrays

WORDS = st.text(st.sampled_from("abAB_1 .\u00e9\u00c9\u03a3\u0130\u4e2d"), max_size=12)
NUMBERS = st.one_of(
    st.integers(-3, 3),
    st.floats(-5, 5),
    st.sampled_from([math.nan, math.inf, -0.0, 1e300, 10**400, None, True, np.float64(2), np.int64(3)]),
)
NAMES = ["n", "m", "o", "p"]
BAGS = st.dictionaries(st.sampled_from(["a", "b", "\u00e9", "long-word", ""]), st.integers(0, 3), max_size=5)
NOMINAL = st.sampled_from(["red", "green", "\u00e9", 3, 3.0, True, False, None, math.nan, "3", "true"])
MIXED = {"t": "text", "s": Text(event_model="bernoulli"), "k": "nominal"}


def events(kind):
    if kind == "mixed":
        fields = {"t": WORDS, "s": WORDS, "k": NOMINAL, "free": st.one_of(WORDS, st.booleans()), "n": NUMBERS}
        return st.fixed_dictionaries({}, optional=fields)
    values = {"numbers": NUMBERS, "nominal": NOMINAL}
    if kind in values:
        return st.dictionaries(st.sampled_from(NAMES), values[kind], max_size=4)
    return st.one_of(WORDS, BAGS, st.dictionaries(st.sampled_from(NAMES), WORDS, max_size=2))


MODELS = {
    "multinomial": (lambda: MultinomialNB(alpha=0.5), "words"),
    "limit": (lambda: MultinomialNB(alpha=0.0, prior={"x": 1.0, "y": 3.0}), "words"),
    "bernoulli": (BernoulliNB, "words"),
    "categorical": (lambda: CategoricalNB(m=2.0, p=0.25), "nominal"),
    "gaussian": (lambda: GaussianNB(prior="uniform"), "numbers"),
    "mixed": (lambda: NaiveBayes(MIXED), "mixed"),
    "hypotheses": (lambda: BayesOptimalNB({"t": "text", "s": "text", "k": "nominal"}, [Hypothesis(), Hypothesis("bernoulli")]), "mixed"),
}  # fmt: skip


def state_bytes(model):
    meta, arrays = model.state()
    return repr(meta), {
        name: (array.dtype.str, array.shape, array.tobytes()) for name, array in arrays.items()
    }


@pytest.mark.parametrize("name", MODELS)
@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_an_event_alone_is_a_batch_of_one(name, data):
    """To the last bit, whichever way it takes: predictions, and the state after each is learned."""
    make, kind = MODELS[name]
    alone, batch = make(), make()
    stream = data.draw(
        st.lists(
            st.tuples(events(kind), st.sampled_from(["x", "y", "z", None]), st.sampled_from([1.0, 0.5, 0.0]))
        )
    )
    for x, y, w in stream * 2:  # the second time all has been met
        told = alone.predict_proba_one(x)
        posteriors = batch.predict_posteriors([x])
        known = batch.class_weights
        expected = {
            label: posteriors.probabilities[0, k]
            for k, label in enumerate(posteriors.classes)
            if known[label]
        }
        assert told == expected
        assert list(told) == list(expected)
        alone.learn_one(x, y, w)
        batch.learn_many([x], [y], [w])
    assert state_bytes(alone) == state_bytes(batch)
    assert alone.n_events == batch.n_events


@pytest.mark.parametrize("x", [{"n": "red"}, {"n": [1]}, {"n": 1.0, "m": {}}])
def test_what_is_refused_in_a_batch_is_refused_alone_and_changes_nothing(x):
    model = GaussianNB()
    model.learn_one({"n": 1.0, "m": 2.0}, "x")
    model.learn_one({"n": 2.0, "m": 2.0}, "y")
    before = state_bytes(model)
    for ask in (model.predict_proba_one, lambda x: model.learn_one(x, "x")):
        with pytest.raises(TypeError, match="attribute '"):
            ask(x)
    with pytest.raises(TypeError, match="unhashable"):
        model.learn_one({"n": 1.0}, [])
    with pytest.raises(ValueError, match="a weight or count"):
        model.learn_one({"n": 1.0}, "x", -1.0)
    assert state_bytes(model) == before


def test_a_lone_surrogate_is_refused_by_name():
    model = NaiveBayes({"t": "text"})
    model.learn_one({"t": "a", "k": "b"}, "x")
    for x in ({"t": "\ud800"}, {"k": "\ud800"}):
        with pytest.raises(ValueError, match=f"attribute '{next(iter(x))}'"):
            model.predict_proba_one(x)
        with pytest.raises(ValueError, match=f"attribute '{next(iter(x))}'"):
            model.predict_posteriors(pd.DataFrame([x], dtype=object))


def test_most_events_need_no_batch(monkeypatch):
    """Else the test above compares a batch with a batch."""
    sent = []
    monkeypatch.setattr(
        single_event, "run_single", lambda *a, run=single_event.run_single: sent.append(run(*a)) or sent[-1]
    )
    for model, x in (
        (MultinomialNB(), "a b"),
        (MultinomialNB(), {"a": 1, "b": 2}),
        (BernoulliNB(), {"a": 1, "b": 2}),
        (GaussianNB(), {"a": 1.0, "b": 2}),
        (CategoricalNB(), {"a": "red", "b": 2}),
        (NaiveBayes(MIXED), {"t": "a", "s": "b", "k": "c", "n": 1.0}),
    ):
        for label in ("x", "y"):
            model.learn_one(x, label)
        del sent[:]
        for _ in range(20):
            model.predict_proba_one(x)
            model.learn_one(x, "x")
        assert len(sent) == 40
        assert all(size >= 0 for size in sent), type(model).__name__


MANY_WORDS = [
    " ".join(f"w{j}" for j in range(300)),
    *(f"w{i} {'long' * (i % 9)}{i} x{i // 2}" for i in range(299)),
]
MANY_VALUES = [{f"k{i % 40}": f"v{i}", f"n{i % 30}": i, "t": f"a{i}", "s": f"b{i} c"} for i in range(120)]


@pytest.mark.parametrize(
    ("name", "xs"),
    [
        ("multinomial", MANY_WORDS),
        ("bernoulli", MANY_WORDS),
        ("limit", [{"a": 1, f"w{i}": 2} for i in range(120)]),
        ("categorical", [{f"k{i % 40}": f"v{i}"} for i in range(120)]),
        ("gaussian", [{f"n{i % 40}": i / 7.0, "m": i} for i in range(120)]),
        ("mixed", MANY_VALUES),
    ],
)
def test_an_event_that_is_learned_alone_makes_room_for_itself(monkeypatch, name, xs):
    """From the first one on: else all that batches need would be compiled by those who have none."""
    labels = ["xy"[i % 2] if i % 40 else str(i) for i in range(len(xs))]
    weights = [1.0 + i % 7 / 4 for i in range(len(xs))]
    batch = MODELS[name][0]()
    batch.learn_many(xs, labels, weights)
    for module, kernel in ((naive_bayes_classifier, "run"), (tokenizer, "tokenize"), (vocabulary, "look_up")):
        monkeypatch.setattr(module, kernel, None)
    alone = MODELS[name][0]()
    assert alone.predict_proba_one(xs[0]) == {}
    for x, label, weight in zip(xs, labels, weights, strict=True):
        alone.learn_one(x, label, weight)
    assert state_bytes(alone) == state_bytes(batch)


@pytest.mark.parametrize(
    ("model", "x"),
    [
        (MultinomialNB(), "a b " * 5000),  # as many words as so many bytes can have
        (BernoulliNB(), " ".join(f"w{i}" for i in range(3000))),
        (MultinomialNB(), "\u023a" * 3000),  # longer when it is lower-cased
        (MultinomialNB(), ""),
        (BernoulliNB(), {f"w{i}": 1 for i in range(3000)}),
        (MultinomialNB(), {"": 1}),
        (GaussianNB(), {f"n{i}": float(i) for i in range(1000)}),
        (CategoricalNB(), {f"k{i}": "" for i in range(1000)}),
        (NaiveBayes(), {}),
    ],
    ids=range(9),
)
@pytest.mark.parametrize("n_classes", [1, 500])
def test_events_of_any_size_need_no_batch(monkeypatch, model, x, n_classes):
    """What they are worked on in is large enough."""
    model = model.clone()
    for label in range(n_classes):
        model.learn_one(x if label < 2 else ({} if isinstance(x, dict) else ""), label)
    told, sent = model.predict_posteriors([x]).probabilities[0], []
    monkeypatch.setattr(
        single_event, "run_single", lambda *a, run=single_event.run_single: sent.append(run(*a)) or sent[-1]
    )
    assert list(model.predict_proba_one(x).values()) == told.tolist()
    model.learn_one(x, 0)
    assert len(sent) == 2
    assert min(sent) >= 0


def test_an_event_that_is_changed_between_two_calls_is_read_anew():
    model, x = NaiveBayes({"t": "text"}), {"k": "red", "t": "a", "n": 1.0}
    model.learn_one(x, "x")
    model.learn_one(x, "y")
    for name, value in (("k", "blue"), ("t", "b c"), ("n", 5.0)):
        model.predict_proba_one(x)
        x[name] = value
        model.learn_one(x, "x")
    batch = NaiveBayes({"t": "text"})
    learned = [({"k": "red", "t": "a", "n": 1.0}, label) for label in "xy"]
    learned += [({"k": "blue", "t": t, "n": n}, "x") for t, n in (("a", 1.0), ("b c", 1.0), ("b c", 5.0))]
    batch.learn_many(*zip(*learned, strict=True))
    assert state_bytes(model) == state_bytes(batch)


def test_equal_values_of_other_types_are_read_anew():
    """1 and True are equal, and so are strings of which one is cut into words and the other is not."""
    declared = {"k": "nominal", "t": "text", "o": "nominal"}
    model, batch = NaiveBayes(declared), NaiveBayes(declared)
    xs = [{"k": 1}, {"k": True}, {"k": 2}, {"t": "\u00c9"}, {"o": "\u00c9"}, {"o": "E"}]
    events = [(x, label) for x in [*xs, *reversed(xs)] for label in "xyx"]
    for x, label in events:
        model.predict_proba_one(x)
        model.learn_one(x, label)
    batch.learn_many(*zip(*events, strict=True))
    assert state_bytes(model) == state_bytes(batch)
    for x in [*xs, *reversed(xs)]:
        assert (
            list(model.predict_proba_one(x).values())
            == batch.predict_posteriors([x]).probabilities[0].tolist()
        )


def test_a_bag_that_is_changed_between_two_calls_is_read_anew():
    model, batch, x = MultinomialNB(), MultinomialNB(), {"a": 1, "b": 2}
    learned = []
    for change in ({}, {"a": 3}, {"c": 1}, {"b": 1}):
        model.predict_proba_one(x)
        x |= change
        for label in "xy":
            model.learn_one(x, label)
            learned.append((dict(x), label))
    model.predict_proba_one({"a": 3, "b": 1, "d": 1})
    model.learn_one({"a": 3, "b": 1, "c": 1}, "x")
    learned.append(({"a": 3, "b": 1, "c": 1}, "x"))
    batch.learn_many(*zip(*learned, strict=True))
    assert state_bytes(model) == state_bytes(batch)


def test_what_changes_beside_single_events_is_seen_by_them():
    """Smoothing, a copy under way, a state that is loaded, words that are pruned, a model that is copied."""
    model = MultinomialNB()
    for i in range(200):
        model.learn_one(f"a b w{i}", "xy"[i % 2])
    copying = model.copying()
    expected = state_bytes(model)
    copying = model.copying()
    model.learn_one("a b", "x")
    assert model.class_weights == {"x": 101.0, "y": 100.0}
    meta, arrays = copying.state()
    other = MultinomialNB().load_state(meta, arrays)
    assert state_bytes(other) == expected
    for changed in (other, copy.deepcopy(model), pickle.loads(pickle.dumps(model))):  # noqa: S301
        for change in (
            lambda m: setattr(m, "alpha", 0.1),
            lambda m: m.prune(min_count=2, drop_most_frequent=1),
            lambda m: m.learn_one("a new", "z"),
            lambda m: m.merge(copy.deepcopy(m)),
            lambda m: m.unlearn_one("a new", "z"),
        ):
            change(changed)
            told = changed.predict_proba_one("a b w3 new")
            assert list(told.values()) == [
                p for p in changed.predict_posteriors(["a b w3 new"]).probabilities[0].tolist() if p > 0.0
            ]
            changed.learn_one("a b c", "x")
            assert changed.predict_proba_one("c") == changed.clone().load_state(
                *changed.state()
            ).predict_proba_one("c")


def more_of(model, count):
    """Events with words, values, and numbers that the model has not met, in all of its tables."""
    at = model.n_attributes
    return [
        {
            "t": f"w{i} a" if i % 2 else f"a word of more than fifteen bytes{i}",
            "s": f"w{i} " * 2,
            "k": f"k{i}",
            "n": 1.0,
        }
        for i in range(at, at + count)
    ]


def learn(model, count=1, weight=1.0):
    model.learn_many(more_of(model, count), ["x"] * count, [weight] * count)


def unlearn(model):
    x = more_of(model, 1)[0]
    model.learn_one(x, "y")
    model.unlearn_one(x, "y")


def merge(model):
    other = copy.deepcopy(model)
    learn(other, 40)
    other.learn_one({"other": 1.0, "one more": "red"}, "w")
    model.merge(other)


def moved(owner):
    for name, held in list(vars(owner).items()):
        if isinstance(held, np.ndarray):
            setattr(owner, name, held.copy())


CHANGES = {
    "a few words": learn,
    "many words": lambda m: learn(m, 100),
    "parts of examples": lambda m: learn(m, 20, 0.25),
    "a number": lambda m: m.learn_one({f"n{len(m.statistics.layout.fields)}": 1.0}, "x"),
    "an attribute": lambda m: m.learn_one({f"k{len(m.statistics.layout.groups)}": "red"}, "x"),
    "a class": lambda m: m.learn_one({"t": "a"}, f"c{len(m.classes)}"),
    "unlearned": unlearn,
    "merged": merge,
    "pruned": lambda m: m.prune(min_count=2.0),
    "stop words": lambda m: m.prune(drop_most_frequent=1),
    "a copy begun": lambda m: m.copying().advance(64),
    "loaded": lambda m: m.load_state(*m.state()),
    "copied": copy.deepcopy,
    "pickled": lambda m: pickle.loads(pickle.dumps(m)),  # noqa: S301
    "smoothing": lambda m: setattr(m, "alpha", m.alpha / 2),
    "prior": lambda m: setattr(m, "prior", "uniform" if m.prior == "learned" else "learned"),
    "vocabulary moved": lambda m: moved(m.statistics.vocabulary),
    "counts moved": lambda m: moved(m.statistics.counts),
    "moments moved": lambda m: moved(m.statistics.moments),
    "weights moved": lambda m: moved(m.statistics),
    "given prior": lambda m: setattr(m, "prior", {"x": 1.0, "y": m.n_events}),
}


def changed(name, model):
    """The model, or its copy."""
    found = CHANGES[name](model)
    return found if isinstance(found, NaiveBayes) else model


def assert_stands_there(words, model):
    """numba has three words before an array's size and address, its shape and strides behind them."""
    arrays = ModelArrays.of_model(model._tables(), model.statistics.vocabulary, character_table())
    at = 0
    for array in [
        *arrays.tables[:6],
        *arrays.tables.histograms,
        *arrays.tables[7:],
        *arrays.keys,
        *arrays[2:],
    ]:
        if isinstance(array, int):
            assert words[at] == array
            at += 1
        else:
            assert words[at + 4 : at + 5 + array.ndim].tolist() == [array.ctypes.data, *array.shape]
            at += 5 + 2 * array.ndim


@settings(max_examples=60, deadline=None)
@given(changes=st.lists(st.sampled_from(list(CHANGES)), min_size=1, max_size=10))
@example(changes=list(CHANGES))
def test_single_events_find_the_arrays_wherever_they_are_moved(changes):
    """Whatever is done between two of them, the kernel gets the addresses of now, and a batch tells the same."""
    alone, batch = NaiveBayes(MIXED), NaiveBayes(MIXED)
    events = [{"t": "a w1", "s": "w1 w2", "k": "k1", "n": 2.0}, {"t": "b"}]
    for model in (alone, batch):
        model.learn_many(events * 2, ["x", "x", "y", "y"])
    run, sent = single_event.run_single, []

    def checked(*given):
        assert_stands_there(given[-2], alone)
        sent.append(given)
        return run(*given)

    for name in ["a few words", *changes]:
        alone, batch = (changed(name, model) for model in (alone, batch))
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(single_event, "run_single", checked)
            for x, y in zip(events, "xy", strict=True):
                told = batch.predict_posteriors([x]).probabilities[0].tolist()
                assert list(alone.predict_proba_one(x).values()) == told
                alone.learn_one(x, y)
                batch.learn_many([x], [y])
    assert len(sent) >= 2 * len(changes)
    assert state_bytes(alone) == state_bytes(batch)


@pytest.mark.parametrize("wrong", [np.asfortranarray, np.float64, lambda held: held.reshape(-1)])
def test_arrays_that_lie_otherwise_are_refused(wrong):
    """The kernel would read them as what they are not."""
    model = NaiveBayes()
    model.learn_one({"a": "x"}, "one")
    arrays = ModelArrays.of_model(model._tables(), model.statistics.vocabulary, character_table())
    tables = arrays.tables._replace(table=wrong(arrays.tables.table))
    with pytest.raises(TypeError, match=r"is not .*ModelArrays"):
        pin_arrays(np.empty(PINNED_WORDS, dtype=np.int64), arrays._replace(tables=tables))


@pytest.mark.parametrize("w", [None, 1.0])
def test_arrays_are_held_while_the_kernel_may_read_them_and_no_longer(monkeypatch, w):
    """Whatever replaces them meanwhile, as another thread can: the kernel runs without the GIL."""
    model, x = NaiveBayes(MIXED), {"t": "a", "s": "b", "k": "c", "n": 1.0}
    model.learn_many([x] * 4, ["x", "y"] * 2)
    model.predict_proba_one(x)
    statistics, run, seen = model.statistics, single_event.run_single, []
    owners = (statistics, statistics.vocabulary, statistics.counts, statistics.moments)

    def interrupted(*given):
        counts = statistics.counts
        held = [(name, array) for owner in owners for name, array in vars(owner).items()]
        held += [("histograms", array) for array in counts.histograms]
        # Of the process, what kernels do not read, and what is empty where no rows are being moved.
        others = {"secret", "survivors", "former", "stays"}
        seen.extend(
            weakref.ref(array) for name, array in held if isinstance(array, np.ndarray) and name not in others
        )
        del held
        for owner in owners:
            moved(owner)
        counts.histograms = type(counts.histograms)(*map(np.copy, counts.histograms))
        assert all(ref() is not None for ref in seen)
        return run(*given)

    monkeypatch.setattr(single_event, "run_single", interrupted)
    model.predict_proba_one(x) if w is None else model.learn_one(x, "x", w)
    assert len(seen) > 20
    assert [ref for ref in seen if ref() is not None] == []


def test_a_pin_that_was_noted_while_an_array_was_replaced_is_not_used(monkeypatch):
    """As another thread can, between where the arrays stand and what is noted of it."""
    model, x = NaiveBayes(MIXED), {"t": "a", "k": "c"}
    model.learn_many([x, {"k": "d"}], ["x", "y"])
    told = model.predict_proba_one(x)
    model.statistics.pin.forget()
    pin = single_event.pin_arrays
    monkeypatch.setattr(
        single_event, "pin_arrays", lambda *given: (pin(*given), moved(model.statistics.counts))
    )
    model.predict_proba_one(x)
    monkeypatch.undo()
    model.statistics.counts.table[:] = 0
    assert model.predict_proba_one(x) != told


def test_a_class_of_which_all_was_unlearned_is_not_told_of():
    model = MultinomialNB()
    for text, label in (("a b", "x"), ("b c", "z"), ("a c", "y")):
        model.learn_one(text, label)
    model.unlearn_one("b c", "z")
    assert list(model.predict_proba_one("a b c")) == ["x", "y"]
    assert sum(model.predict_proba_one("a b c").values()) == pytest.approx(1.0)
    model.learn_one("b c", "z")
    assert list(model.predict_proba_one("a b c")) == ["x", "z", "y"]


PLAIN = {
    "n": st.lists(
        st.floats(-5, 5) | st.sampled_from([math.nan, math.inf, -math.inf, 1e300, -1e300]),
        min_size=6,
        max_size=6,
    ),
    "i": st.lists(st.integers(-9, 9), min_size=6, max_size=6),
    "k": st.lists(st.sampled_from(["red", "\u00e9", "3", None]), min_size=6, max_size=6),
}
COLUMNS = st.fixed_dictionaries(PLAIN) | st.fixed_dictionaries(
    {},
    optional=PLAIN
    | {
        "b": st.lists(st.booleans(), min_size=6, max_size=6),
        "number_as_value": st.lists(st.sampled_from([1.0, 2.5, math.nan]), min_size=6, max_size=6),
        "t": st.lists(WORDS, min_size=6, max_size=6),
        "s": st.lists(st.one_of(WORDS, st.none()), min_size=6, max_size=6),
        "odd": st.lists(NOMINAL, min_size=6, max_size=6),
    },
)


@pytest.mark.parametrize("hypotheses", [False, True])
@settings(max_examples=40, deadline=None)
@given(
    frames=st.lists(COLUMNS, max_size=4),
    as_categories=st.booleans(),
    labels=st.lists(st.sampled_from(["x", "y", None]), min_size=6, max_size=6),
    weights=st.lists(st.sampled_from([1.0, 0.5, 0.0]), min_size=6, max_size=6),
)
def test_a_data_frame_is_its_rows(hypotheses, frames, as_categories, labels, weights):
    """Also where attributes, values and classes are met for the first time in the middle of one."""
    declared = {
        "t": "text",
        "s": Text(event_model=None if hypotheses else "bernoulli"),
        "number_as_value": "nominal",
    }
    made = [Hypothesis(), Hypothesis("bernoulli")]
    by_columns, by_rows = (
        BayesOptimalNB(declared, made) if hypotheses else NaiveBayes(declared) for _ in range(2)
    )
    for columns in frames:
        frame = pd.DataFrame(columns, index=range(6))
        for name in {"k", "t", "s"} & set(columns) if as_categories else ():
            values = [value for value in dict.fromkeys(columns[name]) if value is not None]
            frame[name] = pd.Categorical(frame[name], ["never there", *reversed(values)])
        rows = frame.to_dict("records")
        told = by_columns.predict_then_learn_many(frame, labels, weights)
        expected = by_rows.predict_then_learn_many(rows, labels, weights)
        assert told.probabilities.tobytes() == expected.probabilities.tobytes()
        assert told.known.tolist() == expected.known.tolist()
        assert (
            by_columns.predict_posteriors(frame).probabilities.tobytes()
            == by_rows.predict_posteriors(rows).probabilities.tobytes()
        )
    assert state_bytes(by_columns) == state_bytes(by_rows)


def test_an_empty_event_after_a_state_was_loaded():
    """The shapes of events met before belong to the statistics before: an event without attributes has none."""
    model = NaiveBayes()
    for n, label in ((1.0, "a"), (2.0, "b"), (1.5, "a")):  # the last one by one, of a shape that is met
        model.learn_one({"n": n, "m": n}, label)
    model.load_state(*model.state())
    assert model.predict_proba_one({}) == pytest.approx({"a": 2 / 3, "b": 1 / 3})


@pytest.mark.parametrize(
    "later", [{}, {"b": "y"}, {"b": "y", "c": "z"}, {"b": "y", "c": "z", "d": "u", "e": "v"}]
)
def test_smoothing_lies_in_memory_alike_however_attributes_come(later):
    """Kernels are compiled anew for arrays that lie otherwise, which would halt a service for long."""
    model = NaiveBayes()
    model.learn_one({"a": "x"}, "one")
    model.learn_one({"a": "x", **later}, "one")
    model.predict_proba_one({"a": "x"})
    assert model._reading()[0].shape == (4, 1 + len(later))
    assert model._reading()[0].flags.c_contiguous
