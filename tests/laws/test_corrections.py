"""Laws of labels that change: learned, corrected and withdrawn is never learned, whatever was pruned meanwhile.

The oracle keeps a row as an object, and with each event those that it was counted in. To take the event out is
to take it out of these. A row that was forgotten is another object than that of the same word met again, so
there is nothing to find out about births.
"""

from __future__ import annotations

import copy
import math
from collections import Counter, defaultdict
from fractions import Fraction
from operator import itemgetter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamnb import (
    BayesianNetworkClassifier,
    BayesOptimalClassifier,
    BayesOptimalNB,
    BernoulliNB,
    HiddenMarkovNB,
    Hypothesis,
    LogisticRegression,
    NaiveBayes,
    Nominal,
    OneDependence,
    Pool,
    Softmax,
    Text,
)
from streamnb.errors import UnlearnError
from streamnb.models.interface.river_stream_model import RiverStreamModel
from streamnb.toolbox.semi_supervised.semi_supervised_nb import labelled_and_both
from streamnb.values.attribute_kinds import BERNOULLI, MULTINOMIAL, NOMINAL
from tests.support.states import bytes_of

pytestmark = pytest.mark.early(50)

UNIT = 1024
KINDS = {"body": MULTINOMIAL, "subject": BERNOULLI, "colour": NOMINAL, "late": NOMINAL}
NAIVE = {"body": Text(), "subject": Text(event_model="bernoulli"), "colour": Nominal()}
MIXED = {"body": "text", "subject": "text", "colour": "nominal"}

WORDS = st.sampled_from([f"w{i}" for i in range(7)])
TEXT = st.lists(WORDS, max_size=6).map(" ".join)
BAG = st.dictionaries(WORDS, st.sampled_from([1, 2, 0.5, 1 / 1024, 0]), max_size=4)
EVENT = st.fixed_dictionaries(
    {},
    optional={
        "body": TEXT | BAG,
        "subject": TEXT | BAG,
        "colour": st.sampled_from("rgb"),
        "late": st.sampled_from(["x", "y"]),
        "height": st.integers(-8, 8).map(lambda n: n / 4),
        "entity": st.sampled_from(["one", "two"]),
    },
)
LABELS = st.sampled_from(["a", "b", "c"])
WEIGHTS = st.sampled_from([1.0, 1.0, 2.0, 0.25, 3 / 1024, 0.0])
NUMBERS = st.integers(0, 1000)
PRUNINGS = st.fixed_dictionaries(
    {"min_count": st.sampled_from([0.0, 0.5, 2.0])},
    optional={"drop_most_frequent": st.integers(0, 1), "max_attributes": st.integers(0, 6)},
)
STEPS = st.lists(
    st.tuples(st.just("learn"), EVENT, LABELS | st.none(), WEIGHTS)
    | st.tuples(st.just("learn"), EVENT, LABELS, st.just(1.0))
    | st.tuples(st.just("correct"), NUMBERS, LABELS, WEIGHTS)
    | st.tuples(st.just("withdraw"), NUMBERS)
    | st.tuples(st.just("prune"), PRUNINGS)
    | st.tuples(st.just("restart")),
    max_size=24,
)


def naive():
    return NaiveBayes(NAIVE)


def chains():
    return HiddenMarkovNB(NAIVE)


def mixture():
    return BayesOptimalNB(
        MIXED,
        [
            Hypothesis(),
            Hypothesis("bernoulli"),
            Hypothesis("presence", half_life=3.0),
            Hypothesis("presence", calibrated=True, density="binned"),
            Softmax(pairs=True),
            Pool(),
            OneDependence(),
        ],
    )


def bernoulli_mixture():
    return BayesOptimalNB(MIXED, [Hypothesis("bernoulli"), Hypothesis("multinomial")])


COUNTING = [naive, chains, mixture, bernoulli_mixture]


class Oracle:
    """What a model counts, in units; `kinds` says how it takes each attribute."""

    def __init__(self, model):
        self.is_mixture = isinstance(model, BayesOptimalNB)
        self.kinds = {**KINDS, "subject": MULTINOMIAL} if self.is_mixture else dict(KINDS)
        if not isinstance(model, HiddenMarkovNB):
            self.kinds["entity"] = NOMINAL
        self.rows = {}  # (attribute, word) -> the row of now: class -> (tokens, texts)
        self.stopped = set()
        self.small = Counter()  # class weights, texts, and weights of numbers
        self.values = defaultdict(Counter)  # (attribute, class) -> value -> units
        self.events = 0

    def learn(self, x, y, w):
        """Count an event; what it was counted in."""
        weight = round(w * UNIT)
        if y is None or not weight:
            return None
        parts = [(self.small, ("class", y), weight)]
        for name, value in x.items():
            if name == "height":
                parts += [(self.small, ("n", name, y), weight), (self.values[name, y], value, weight)]
            elif name in self.kinds:
                parts += self._counted(name, value, y, weight)
        for counter, key, units in parts:
            counter[key] += units
        self.events += 1
        return parts

    def _counted(self, name, value, y, weight):
        kind, amounts = self.kinds[name], Counter()
        bag = {value: 1} if kind == NOMINAL else value if isinstance(value, dict) else Counter(value.split())
        for word, times in bag.items():
            amounts[word] += round(times * UNIT)
        if kind == BERNOULLI or (self.is_mixture and kind != NOMINAL):
            yield self.small, ("texts", name, y), weight * (isinstance(value, str) or bool(value))
        for word, amount in amounts.items():
            if amount <= 0 or (name, word) in self.stopped:
                continue
            row = self.rows.setdefault((name, word), Counter())
            if kind == BERNOULLI:
                yield row, ("tokens", y), weight
                continue
            repeated = isinstance(value, str) and kind == MULTINOMIAL
            tokens = amount // UNIT * weight if repeated else amount * weight // UNIT
            yield row, ("tokens", y), tokens
            if self.is_mixture and kind != NOMINAL and amount * weight >= UNIT:
                yield row, ("holding", y), weight

    def withdraw(self, parts):
        for counter, key, units in parts or ():
            counter[key] -= units
        self.events -= parts is not None

    def forget(self, model):
        """Follow a pruning: which words go is not what is asked here."""
        self.stopped = {(name, word.decode()) for (_, name), word in model.statistics.stop_words()}
        left = set(read(model)[0])
        self.rows = {key: row for key, row in self.rows.items() if key in left}

    def read(self):
        rows = {key: {k: n for k, n in row.items() if n} for key, row in self.rows.items()}
        totals = Counter({key[1:]: n for key, n in self.small.items() if key[0] == "texts"})
        tokens = Counter()
        for (name, _), row in rows.items():
            for (what, y), n in row.items():
                tokens[name, y] += n * (what == "tokens" and self.kinds[name] != BERNOULLI)
        return (
            {key: row for key, row in rows.items() if row},
            {key: n for key, n in tokens.items() if n},
            {key: n for key, n in totals.items() if n},
            {key[1]: n for key, n in self.small.items() if key[0] == "class" and n},
            {key[1:]: n for key, n in self.small.items() if key[0] == "n" and n},
            self.events,
        )

    def moments(self, name, y):
        """Mean and variance, exactly."""
        values = {Fraction(value): n for value, n in self.values[name, y].items() if n}
        n = sum(values.values())
        mean = sum(value * units for value, units in values.items()) / n
        return float(mean), float(sum((value - mean) ** 2 * units for value, units in values.items()) / n)


def read(model):
    """All counts of a model, as `Oracle.read` has them."""
    statistics = model.statistics
    labels, groups = list(statistics.classes), list(statistics.layout.groups)
    rows = defaultdict(dict)
    tables = [("tokens", statistics.counts.table)]
    tables += [("holding", statistics.presence.counts.table)] if statistics.presence else []
    for row in range(statistics.vocabulary.size):
        group = int(statistics.vocabulary.groups[row])
        kind, name = groups[group if group >= 0 else ~group]
        for what, table in tables:
            for k, label in enumerate(labels):
                assert table[row, k] >= 0
                if table[row, k] and not (what == "holding" and kind == NOMINAL):
                    rows[name, statistics.vocabulary.key(row).decode()][what, label] = int(table[row, k])
    tokens, texts = {}, {}
    for g, (kind, name) in enumerate(groups):
        for k, label in enumerate(labels):
            total = int(statistics.counts.totals[g, k])
            into = texts if kind == BERNOULLI else tokens
            into |= {(name, label): total} if total else {}
            if (
                statistics.presence
                and kind != NOMINAL
                and (held := int(statistics.presence.counts.totals[g, k]))
            ):
                texts[name, label] = held
    return (
        dict(rows),
        tokens,
        texts,
        {label: round(weight * UNIT) for label, weight in model.class_weights.items() if weight},
        {
            (name, label): int(statistics.moments.n[f, k])
            for name, f in statistics.layout.fields.items()
            for k, label in enumerate(labels)
            if statistics.moments.n[f, k]
        },
        model.n_events,
    )


def check(model, oracle):
    assert read(model) == oracle.read()
    for name, y in oracle.values:
        if oracle.small["n", name, y]:
            found, (mean, variance) = model.class_moments(name)[y], oracle.moments(name, y)
            assert found.mean == pytest.approx(mean, abs=1e-9)
            assert found.variance == pytest.approx(variance, abs=1e-6)
    for histograms, table in histograms_of(model):
        assert int(histograms.positive.sum()) == np.count_nonzero(table)
    if isinstance(model, BayesOptimalNB):
        check_pairs(model, oracle)


def check_pairs(model, oracle):
    """One dependence counts the nominal values that the other hypotheses count; pairs of them are seen elsewhere."""
    for one in model._dependence._models:
        tables, found = one.counts.tables, {}
        assert one.counts.events == oracle.events
        for (kind, name), number in one.coded.numbers.items():
            for word, code in one.coded.codes[number].items():
                row = tables.values[tables.first[number] + code]
                if kind == NOMINAL and word is not None and row.any():
                    found[name, word] = {
                        ("tokens", y): int(row[k]) for y, k in model.statistics.classes.items() if row[k]
                    }
        assert found == {key: row for key, row in oracle.read()[0].items() if oracle.kinds[key[0]] == NOMINAL}


def histograms_of(model):
    """Those of Bernoulli texts with the rows that they are of."""
    statistics = model.statistics
    groups = statistics.vocabulary.groups[: statistics.vocabulary.size]
    K = len(statistics.classes)
    for counts in (statistics.counts, *([statistics.presence.counts] if statistics.presence else [])):
        bernoulli = np.isin(groups, np.flatnonzero(counts.kinds == BERNOULLI))
        yield counts.histograms, counts.table[: groups.size, :K][bernoulli]


def follow(model, steps):
    """Take a model and an oracle through steps, checking them at each."""
    oracle, known, t = Oracle(model), [], 0.0
    for step, *given_ in steps:
        t += 1.0
        if step == "learn":
            x, y, w = given_
            number = model.n_prunings
            predicted = model.predict_then_learn_many([x], [y], [w], [t])
            assert np.isfinite(predicted.probabilities).all()
            known.append((x, y, w, number, oracle.learn(x, y, w)))
        elif step == "prune":
            model.prune(**given_[0])
            oracle.forget(model)
        elif step == "restart":
            model = type(model)(**model._get_params()).load_state(*copy.deepcopy(model.state()))
        elif known:
            x, y, w, number, parts = known.pop(given_[0] % len(known))
            model.unlearn_many([x], [y], [w], [t], [number])
            oracle.withdraw(parts)
            if step == "correct":
                y, w = given_[1:]
                number = model.n_prunings
                model.learn_late_many([x], [y], [w], [t])
                known.append((x, y, w, number, oracle.learn(x, y, w)))
        check(model, oracle)
    return model, oracle, known


@pytest.mark.parametrize("new", COUNTING)
@settings(max_examples=150, deadline=None)
@given(steps=STEPS, random=st.randoms(use_true_random=False))
def test_counts_are_those_of_what_stands(new, steps, random):
    model, oracle, known = follow(new(), steps)
    random.shuffle(known)
    xs, ys, ws, numbers, parts = zip(*known, strict=True) if known else ([], [], [], [], [])
    model.unlearn_many(xs, ys, ws, prunings=numbers)
    for one in parts:
        oracle.withdraw(one)
    check(model, oracle)
    assert not any(oracle.read()) or not known
    probabilities = model.predict_posteriors([{"body": "w1 w2", "subject": "w3", "height": 1.0, "late": "x"}])
    assert np.isfinite(probabilities.probabilities).all()


CUTS = st.lists(st.integers(1, 4), min_size=1, max_size=6)
LEARNED = st.lists(st.tuples(EVENT, LABELS | st.none(), WEIGHTS), max_size=16)
ATTRIBUTES = {"colour": "nominal", "late": "nominal", "height": "continuous"}


def network():
    return RiverStreamModel(
        BayesianNetworkClassifier({"late": ["label", "colour"]}, {"colour": "nominal"}), "network"
    )


def both():
    return RiverStreamModel(labelled_and_both(0.5, 3, 1, attributes=NAIVE), "semi_supervised")


def logistic():
    return RiverStreamModel(LogisticRegression(), "logistic_regression")


ALL = [*COUNTING, network, both, logistic]


def readable(new, x):
    """An event that such a model takes."""
    return {name: value for name, value in x.items() if new is not logistic or name in ATTRIBUTES}


def cut(n, sizes):
    first = 0
    while first < n:
        size = sizes[first % len(sizes)]
        yield slice(first, first + size)
        first += size


@pytest.mark.parametrize("new", ALL)
@settings(max_examples=40, deadline=None)
@given(rows=LEARNED, more=LEARNED, sizes=CUTS, prunes=st.booleans(), random=st.randoms(use_true_random=False))
def test_how_corrections_are_cut_is_unobservable(new, rows, more, sizes, prunes, random):
    """In one call, or in several; late labels likewise."""
    model, rows = new(), [(readable(new, x), y, w) for x, y, w in rows]
    model.predict_then_learn_many(*zip(*rows, strict=True)) if rows else None
    numbers = [model.n_prunings] * len(rows)
    if prunes and new not in (network, logistic):
        model.prune(min_count=1.5)
    more = [(readable(new, x), y, w) for x, y, w in more]
    gone = random.sample(range(len(rows)), len(rows) // 2)
    whole, apart = copy.deepcopy(model), copy.deepcopy(model)
    for one, parts in ((whole, [slice(None)]), (apart, [*cut(max(len(gone), len(more)), sizes)])):
        for part in parts:
            one.unlearn_many(
                *([rows[i][c] for i in gone[part]] for c in range(3)),
                prunings=[numbers[i] for i in gone[part]],
            )
        for part in parts:
            one.learn_late_many(*([row[c] for row in more[part]] for c in range(3)))
    assert bytes_of(whole) == bytes_of(apart)


def of_weighing(model):
    """Of a mixture's state: what says how well others predicted; and all else, but for a count of what was met."""
    meta, arrays = bytes_of(model)
    posterior = {name: value for name, value in meta.pop("posterior").items() if name != "met"}
    mine = {name for name in arrays if name.startswith(("posterior_", "learned_powers", "learned_pool_"))}
    wide = {name: array for name, array in model.state()[1].items() if name == "learned_pool_bias"}
    return (
        (posterior, {name: arrays[name] for name in mine - wide.keys()}, wide["learned_pool_bias"]),
        (meta, {name: array for name, array in arrays.items() if name not in mine}),
    )


@settings(max_examples=25, deadline=None)
@given(rows=LEARNED, more=LEARNED, sizes=CUTS)
def test_what_is_learned_again_weighs_nobody_and_teaches_all_else(rows, more, sizes):
    """Posterior, powers and pools stay, also where a class is new; however corrections are cut."""
    before = BayesOptimalNB(MIXED)
    before.predict_then_learn_many(*zip(*rows, strict=True)) if rows else None
    again, late, apart = (copy.deepcopy(before) for _ in range(3))
    for model, parts, is_again in (
        (again, [slice(None)], True),
        (late, [slice(None)], False),
        (apart, cut(len(more), sizes), True),
    ):
        for part in parts:
            model.learn_late_many(*([row[c] for row in more[part]] for c in range(3)), again=is_again)
    assert bytes_of(again) == bytes_of(apart)
    (posterior, weighed, bias), taught = of_weighing(again)
    (kept_posterior, kept, kept_bias), _ = of_weighing(before)
    assert (posterior, weighed) == (kept_posterior, kept)
    assert bias[:, :, : kept_bias.shape[2]].tobytes() == kept_bias.tobytes()
    assert not bias[:, :, kept_bias.shape[2] :].any()
    assert taught == of_weighing(late)[1]


@pytest.mark.parametrize("new", [network, both])
@settings(max_examples=60, deadline=None)
@given(rows=LEARNED, more=LEARNED, x=EVENT, random=st.randoms(use_true_random=False))
def test_learned_and_withdrawn_is_never_learned(new, rows, more, x, random):
    """Of models whose counts have no table that could be read: as they predict. Moments are rounded."""
    rows, more = ([({**x, "height": 1.0}, y, w) for x, y, w in part] for part in (rows, more))
    rows, more = ([row for row in part if row[1] or new is not both] for part in (rows, more))
    model, expected = new(), new()
    for one, part in ((model, rows + more), (expected, rows)):
        one.predict_then_learn_many(*zip(*part, strict=True)) if part else None
    corrected = [(x, random.choice("abc"), w) for x, _, w in more]
    for before, after in ((more, corrected), (corrected, [])):
        random.shuffle(pairs := [*before])
        if pairs:
            model.unlearn_many(*zip(*pairs, strict=True))
        if after:
            model.learn_late_many(*zip(*after, strict=True))
    assert {k: w for k, w in model.class_weights.items() if w} == {
        k: w for k, w in expected.class_weights.items() if w
    }
    assert model.n_events == expected.n_events
    if new is both:  # the posterior keeps what it saw
        model, expected = (one.classifier.models["labelled and unlabelled"] for one in (model, expected))
    else:
        model, expected = (getattr(one, "classifier", one) for one in (model, expected))
    found, wanted = model.predict_proba_one(x), expected.predict_proba_one(x)
    assert found == pytest.approx({k: wanted.get(k, 0.0) for k in found}, abs=1e-9)


@pytest.mark.parametrize("new", [naive, chains, mixture, bernoulli_mixture, network])
@settings(max_examples=40, deadline=None)
@given(rows=LEARNED, x=EVENT, label=st.sampled_from(["a", "never"]), at=NUMBERS, heavy=st.booleans())
def test_what_was_never_learned_is_refused_where_it_comes(new, rows, x, label, at, heavy):
    """What came before it is unlearned; it and what comes after is not, and no count falls below zero."""
    model = new()
    rows = [({**x, "colour": "r"}, y, w) for x, y, w in rows]
    model.predict_then_learn_many(*zip(*rows, strict=True)) if rows else None
    at %= len(rows) + 1
    never = (
        {**x, "colour": "never seen"} if not heavy else {**x, "colour": "r"},
        label,
        1e6 if heavy else 1.0,
    )
    expected = copy.deepcopy(model)
    for row in rows[:at]:
        expected.unlearn_many(*zip(row, strict=True))
    with pytest.raises(UnlearnError, match="ever learned"):
        model.unlearn_many(*zip(*rows[:at], never, *rows[at:], strict=True))
    if new in COUNTING:
        assert read(model) == read(expected)
    else:
        assert bytes_of(model) == bytes_of(expected)


def test_a_word_that_came_again_holds_nothing_of_what_was_learned_before():
    model = NaiveBayes({"text": "text"})
    model.learn_many([{"text": "rare often often"}, {"text": "often"}], ["a", "a"])
    assert model.n_prunings == 0
    assert "survivors" not in model.state()[1]
    model.prune(min_count=2)
    assert model.n_prunings == 1
    model.learn_one({"text": "rare"}, "a")
    model.unlearn_many([{"text": "rare often often"}], ["a"], prunings=[0])
    assert model.class_counts("text") == {"often": {"a": 1.0}, "rare": {"a": 1.0}}
    model.unlearn_many([{"text": "rare"}, {"text": "often"}], ["a", "a"], prunings=[1, 0])
    assert model.class_counts("text") == {}
    with pytest.raises(ValueError, match="but only 1 took place"):
        model.unlearn_many([{"text": "rare"}], ["a"], prunings=[2])


def test_what_survives_several_prunings_keeps_its_birth():
    model = NaiveBayes({"text": "text"})
    model.learn_many([{"text": "rare often often"}], ["a"])
    model.prune(min_count=2)
    model.learn_many([{"text": "new rare rare"}], ["a"])
    for _ in range(2):
        model.prune(min_count=2)
    model = NaiveBayes({"text": "text"}).load_state(*model.state())
    model.unlearn_many([{"text": "rare often often"}], ["a"], prunings=[0])
    assert model.class_counts("text") == {"rare": {"a": 2.0}}
    model.unlearn_many([{"text": "new rare rare"}], ["a"], prunings=[1])
    assert model.class_counts("text") == {}
    assert model.n_prunings == 3


@pytest.mark.parametrize("kind", [NaiveBayes, HiddenMarkovNB, BayesOptimalNB])
def test_what_was_taken_before_values_were_listed_can_be_corrected(kind):
    model, x = kind({"colour": "nominal"}), {"colour": "blue"}
    model.learn_many([x, {"colour": "red"}], ["a", "b"])
    model = kind({"colour": Nominal(values=["red"])}).load_state(*model.state())
    with pytest.raises(ValueError, match="not one of its values"):
        model.learn_many([x], ["b"])
    model.unlearn_many([x], ["a"])
    model.learn_late_many([x], ["b"])
    assert model.class_counts("colour") == {"blue": {"b": 1.0}, "red": {"b": 1.0}}
    with pytest.raises(ValueError, match="not one of its values"):
        model.predict_proba_one(x)


def test_without_its_number_a_forgotten_word_is_one_that_was_never_learned():
    model = NaiveBayes({"text": "text"})
    model.learn_many([{"text": "rare often"}, {"text": "often"}], ["a", "a"])
    model.prune(min_count=2)
    with pytest.raises(UnlearnError):
        model.unlearn_many([{"text": "rare often"}], ["a"])


def test_models_say_what_is_taken_back():
    kinds = [(new, new().corrections) for new in ALL]
    assert kinds == [
        (naive, "exact"),
        (chains, "counts"),
        (mixture, "counts"),
        (bernoulli_mixture, "counts"),
        (network, "exact"),
        (both, "counts"),
        (logistic, "again"),
    ]
    assert BayesOptimalClassifier([LogisticRegression()]).corrections == "again"
    assert BernoulliNB().corrections == "exact"


def test_no_model_of_many_loses_what_another_never_learned():
    knows, knows_not = naive(), naive()
    model = BayesOptimalClassifier([knows, knows_not])
    model.learn_one({"body": "one"}, "a")
    knows.learn_one({"body": "two"}, "a")
    before = read(knows), read(knows_not)
    with pytest.raises(UnlearnError):
        model.unlearn_many([{"body": "two"}], ["a"])
    assert (read(knows), read(knows_not)) == before
    model.unlearn_many([{"body": "one"}], ["a"])
    assert knows_not.n_events == 0


def test_a_corrected_label_is_one_more_observation_of_a_model_that_takes_nothing_back():
    once, model = LogisticRegression(), logistic()
    for x, y in ({"height": 1.0}, "a"), ({"height": 2.0}, "b"), ({"height": 1.0}, "b"):
        once.learn_one(x, y)
    model.learn_many([{"height": 1.0}, {"height": 2.0}], ["a", "b"])
    model.unlearn_many([{"height": 1.0}], ["a"])
    model.learn_late_many([{"height": 1.0}], ["b"])
    assert model.classifier.predict_proba_one({"height": 1.5}) == once.predict_proba_one({"height": 1.5})
    assert model.class_weights == {"a": 0.0, "b": 2.0}
    assert model.n_events == 2


@settings(max_examples=60, deadline=None)
@given(rows=LEARNED)
@pytest.mark.parametrize("new", [naive, mixture, network])
def test_a_label_that_came_late_is_learned_as_any(new, rows):
    """Predicted without it first, which teaches nothing."""
    late, expected = new(), new()
    for x, y, w in rows:
        late.predict_then_learn_many([x], [None], [w])
        late.learn_late_many([x], [y], [w])
        expected.learn_many([x], [y], [w])
    found, wanted = bytes_of(late), bytes_of(expected)
    if new is mixture:  # every event met has a number, of the draws
        assert found[0]["posterior"].pop("met") == 2 * wanted[0]["posterior"].pop("met")
    assert found == wanted


def test_a_late_label_of_an_entity_teaches_no_transition():
    model = HiddenMarkovNB()
    xs = [{"entity": "one", "colour": c} for c in "rgb"]
    model.predict_then_learn_many([*xs, {"colour": "r"}], ["a", None, "b", None])
    before, beliefs = model.transitions.table.copy(), model._entities.state(2)["beliefs"]
    model.learn_late_many([xs[1], {"colour": "r"}], ["b", "a"])
    assert model.transitions.table.tolist() == before.tolist()
    assert model.transitions.first.tolist() == [2048, 0]
    assert model._entities.state(2)["beliefs"].tolist() == beliefs.tolist()
    assert model.class_counts("colour")["g"] == {"b": 1.0}
    model.unlearn_many([xs[1], {"colour": "r"}], ["b", "a"])
    assert model.transitions.first.tolist() == [1024, 0]
    assert model.class_weights == {"a": 1.0, "b": 1.0}


def test_a_late_label_takes_its_event_out_of_the_window():
    model = both()
    model.learn_many([{"body": "one"}, {"body": "two"}], ["a", "b"])
    model.predict_then_learn_many([{"body": "one three"}, {"body": "two four"}], [None, None])
    taught = model.classifier.models["labelled and unlabelled"]
    before = bytes_of(model)
    model.learn_late_many([{"body": "one three"}], [None])
    assert bytes_of(model) == before
    model.learn_late_many([{"body": "one three"}], ["b"])
    assert [event.x for event in taught._kept] == [{"body": "two four"}]
    assert taught.model.class_counts("body")["three"] == {"b": 1.0}


HALF_LIVES = [Hypothesis(half_life=8.0), Hypothesis("presence", half_life=2.0)]


@settings(max_examples=60, deadline=None)
@given(
    rows=st.lists(
        st.tuples(EVENT, LABELS, st.sampled_from([1.0, 2.0]), st.floats(0.0, 300.0)), min_size=1, max_size=10
    ),
    random=st.randoms(use_true_random=False),
)
def test_tables_that_forget_take_a_late_label_at_its_own_age(rows, random):
    """Then the order in which labels come is all the same."""
    rows = [({**x, "height": 1.0}, *rest) for x, *rest in rows]
    in_order, late = BayesOptimalNB(MIXED, HALF_LIVES), BayesOptimalNB(MIXED, HALF_LIVES)
    in_order.learn_many(*zip(*sorted(rows, key=itemgetter(3)), strict=True))
    random.shuffle(rows)
    late.learn_late_many(*zip(*rows, strict=True))
    weights = [decayed_weights(model) for model in (in_order, late)]
    assert weights[1] == pytest.approx(weights[0], rel=1e-9, abs=1e-9)


def decayed_weights(model):
    """What classes weigh now, and words within them, in each table that forgets."""
    statistics, tables = model.statistics, model.statistics.decayed.tables
    names = list(statistics.layout.groups)
    found = {}
    for d, half_life in enumerate(tables.half_life.tolist()):
        gone = (tables.clock[1] - tables.clock[0]) / half_life
        age = gone - 32 * tables.epoch[d]
        for label, k in statistics.classes.items():
            found[d, label] = tables.classes[d, k] * 2.0**-age
            for row in range(statistics.vocabulary.size):
                key = names[statistics.vocabulary.groups[row]], statistics.vocabulary.key(row)
                epochs = int(tables.epoch[d] - tables.row_epoch[row, d])
                found[d, label, key] = math.ldexp(tables.table[row, d, k], -32 * epochs) * 2.0**-age
    return found


def test_a_copy_that_is_being_made_hears_of_rows_before_they_are_debited():
    model = mixture()
    xs = [{"body": f"w{i} w{i + 1}", "colour": "r"} for i in range(200)]
    model.learn_many(xs, ["a", "b"] * 100)
    expected = bytes_of(copy.deepcopy(model))
    making = model.copying()
    making.advance(100)
    model.unlearn_many(xs, ["a", "b"] * 100)
    meta, arrays = making.state()
    assert (meta, {name: (a.dtype.str, a.shape, a.tobytes()) for name, a in arrays.items()}) == expected


@pytest.mark.parametrize("new", COUNTING)
def test_who_forgets_the_labels_is_told(new):
    model = new()
    with pytest.raises(TypeError):
        model.unlearn_many([{"text": "a"}], None)
