"""A shared model as the prior of each tenant: the formula, and all that it leaves as it was."""

from __future__ import annotations

import math
import random
from collections import Counter, defaultdict
from contextlib import suppress
from fractions import Fraction

import numpy as np
import pytest

from streamnb import NaiveBayes
from streamnb.errors import SnapshotError, UnlearnError
from streamnb.features.attributes import Nominal, Text
from streamnb.models.tenants.shared_prior import OF_CLASSES, OF_TEXTS, OF_VALUES
from streamnb.models.tenants.tenant_models import TenantModels
from tests.models.tenants.test_tenant_models import (
    DECLARED,
    MEMORY,
    READINGS,
    EachAlone,
    same,
    stream,
    without,
)
from tests.oracles.gaussian_oracle import gaussian_of, pooled_of

SMOOTHED = [reading for reading in READINGS if reading.get("alpha") != 0.0]


class Plain:
    """The formula, by dictionaries: of all events, and of each tenant's."""

    def __init__(self, reading):
        self._reading, self._alone = reading, NaiveBayes(**reading)
        self._nominal = {k for k, v in reading.get("attributes", {}).items() if isinstance(v, Nominal)}
        self.classes = defaultdict(Counter)  # tenant (None: all) -> class -> weight
        self.counts = defaultdict(Counter)  # (tenant, attribute, class) -> value -> weight
        self.numbers = defaultdict(list)  # (tenant, attribute, class) -> (value, weight)

    def parts(self, x):
        """(attribute, value, whether it is a word) of each factor; a number is a float."""
        for name, value in without(x).items():
            if name == "text":
                yield from ((name, word, True) for word in value.split())
            else:
                is_number = type(value) in (int, float) and name not in self._nominal
                yield name, float(value) if is_number else str(value).lower(), False

    def learn(self, x, y, w):
        if y is None or not w:
            return
        for tenant in (None, x.get("entity", "")):
            self.classes[tenant][y] += w
            for name, value, _ in self.parts(x):
                if type(value) is float:
                    self.numbers[tenant, name, y].append((value, w))
                else:
                    self.counts[tenant, name, y][value] += w

    def _discrete(self, tenant, name, value, y, is_text):
        known = {v for k in self.classes[None] for v in self.counts[None, name, k]}
        alpha, m, p, declared = self._alone.smoothing_of(name)
        if value not in known and len(known) >= declared:
            return 1.0
        n_values = max(len(known), declared, 1)
        s, total = (alpha, alpha * n_values) if m < 0 else (m * (1 / n_values if math.isnan(p) else p), m)
        of_all, own = self.counts[None, name, y], self.counts[tenant, name, y]
        shared = (of_all[value] + s) / (of_all.total() + total)
        weight = OF_TEXTS if is_text else OF_VALUES
        return (own[value] + weight * shared) / (own.total() + weight)

    @staticmethod
    def _moments(pairs):
        n = math.fsum(w for _, w in pairs)
        mean = math.fsum(v * w for v, w in pairs) / n
        differ = len({v for v, _ in pairs}) > 1  # a rounded mean is no spread
        return n, mean, math.fsum(w * (v - mean) ** 2 for v, w in pairs) if differ else 0.0

    def _by_class(self, tenant, name):
        """The moments of each class that has values."""
        known = {
            k: self.numbers[tenant, name, k] for k in self.classes[None] if self.numbers[tenant, name, k]
        }
        return {k: self._moments(pairs) for k, pairs in known.items()}

    def _density(self, tenant, name, x, y):
        """Its logarithm."""
        of_all, own = self._by_class(None, name), self._by_class(tenant, name)
        found = gaussian_of(of_all, y)
        if found is None:
            return 0.0
        mean, variance = found
        if y not in own:
            return self._normal(x, mean, variance)
        n, own_mean, _ = own[y]
        leans_on = pooled_of(own) if pooled_of(own)[1] else pooled_of(of_all)
        own_variance = gaussian_of(own, y, leans_on)[1]
        logs = [
            math.log(n / (n + OF_VALUES)) + self._normal(x, own_mean, own_variance),
            math.log(OF_VALUES / (n + OF_VALUES)) + self._normal(x, mean, max(variance, own_variance)),
        ]
        return max(logs) + math.log(math.fsum(math.exp(one - max(logs)) for one in logs))

    @staticmethod
    def _normal(x, mean, variance):
        return -0.5 * (math.log(2 * math.pi * variance) + (x - mean) ** 2 / variance)

    def predict(self, x):
        tenant, of_all = x.get("entity", ""), self.classes[None]
        prior, own = self._reading.get("prior", "learned"), self.classes[tenant]
        joint = {}
        for y in of_all:
            if prior == "learned":
                p = (own[y] + OF_CLASSES * of_all[y] / of_all.total()) / (own.total() + OF_CLASSES)
            else:
                p = 1.0 if prior == "uniform" else prior.get(y, 0.0)
            if not p:
                continue
            joint[y] = math.log(p) + math.fsum(
                self._density(tenant, name, value, y)
                if type(value) is float
                else math.log(self._discrete(tenant, name, value, y, is_word))
                for name, value, is_word in self.parts(x)
            )
        top = max(joint.values(), default=0.0)
        total = math.fsum(math.exp(one - top) for one in joint.values())
        return {y: p for y, one in joint.items() if (p := math.exp(one - top) / total)}


def moderate(events):
    """Without numbers of which a float64 recount by another formula would lose the digits; with more of them."""
    chance = random.Random(1)
    more = [{name: chance.gauss(10, 2) for name in ("age", "price") if chance.random() < 0.3} for _ in events]
    return [
        {**x, **({"size": chance.gauss(0, 3)} if "size" in x else {}), **told}
        for x, told in zip(events, more, strict=True)
    ]


@pytest.mark.parametrize(
    "reading", [*SMOOTHED, {"attributes": DECLARED, "prior": "uniform"}, {"attributes": {"shop": Nominal(n_values=9)}}]
)  # fmt: skip
def test_what_is_said_is_the_formula(reading):
    """Words, listed and other values, numbers and classes; of tenants old and new, and classes they have not met."""
    for seed in range(3):
        events, labels, weights = stream(seed)
        events = moderate(events)
        plain, models = Plain(reading), TenantModels(shared=True, memory=4_000, **reading)
        told = models.predict_then_learn_many(events, labels, weights)
        first_of_tenants, learned_of = set(), set()
        for e, (x, y, w) in enumerate(zip(events, labels, weights, strict=True)):
            expected = plain.predict(x)
            said = EachAlone.said(told, e)
            assert said == pytest.approx(expected, rel=1e-9, abs=1e-12), (seed, e)
            if expected and x.get("entity") not in learned_of:
                first_of_tenants.add(x.get("entity"))
            if y is not None and w:
                learned_of.add(x.get("entity"))
            plain.learn(x, y, w)
        assert len(first_of_tenants) > 5  # were told what all others had taught


def lived(seed, life, reading):
    """What was said, the state, and the models of each alone: the same events whatever the life, cut in its own way."""
    events, labels, weights = stream(seed)
    chance, cuts, alone = random.Random(seed), random.Random(life), EachAlone(reading)
    models, at, told = TenantModels(memory=MEMORY[life], shared=True, **reading), 0, []
    while at < len(events):
        stop = min(at + chance.randrange(1, 60), len(events))
        is_late, is_wrong = chance.random() < 0.2, chance.random() < 0.3
        while at < stop:
            end = min(stop, at + cuts.randrange(1, 60))
            part = events[at:end], labels[at:end], weights[at:end]
            if is_late:
                models.learn_late_many(*part)
            else:
                said = models.predict_then_learn_many(*part)
                told += [alone.said(said, e) for e in range(end - at)]
            for x, y, w in zip(*part, strict=True):
                alone.of(x).learn_late_many([without(x)], [y], [w])
            at = end
        taken_back = events[(e := chance.randrange(at))], labels[e], weights[e]
        if is_wrong:
            with suppress(UnlearnError):  # it was taken back before
                models.unlearn_many(*([one] for one in taken_back))
                alone.of(events[e]).unlearn_many([without(events[e])], *([one] for one in taken_back[1:]))
        if cuts.random() < 0.5:
            fresh = TenantModels(memory=cuts.choice(MEMORY), shared=True, **reading)
            models = fresh.load_state(*models.state())
    return told, models, alone.models


def test_attributes_that_a_tenant_has_not_met_are_read_from_all():
    events, labels, weights = stream(6)
    events = [{k: v for k, v in x.items() if v != 3} for x in moderate(events)]
    few = [{"entity": "few", "price": price, "shop": "north"} for price in (9.0, 11.0, 12.0, 13.0)]
    plain, models = Plain({}), TenantModels(shared=True)
    learned = [*events, *few], [*labels, *"abab"], [*weights, *[20.0] * 4]
    models.learn_many(*learned)
    for event in zip(*learned, strict=True):
        plain.learn(*event)
    asked = [{**x, "entity": "few"} for x in events]
    told = models.predict_posteriors(asked)
    for e, x in enumerate(asked):
        assert EachAlone.said(told, e) == pytest.approx(plain.predict(x), rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("reading", SMOOTHED)
def test_cuts_memory_and_restarts_cannot_be_seen(reading):
    """With late labels and corrections between; and each tenant's model is what it would be alone."""
    for seed in range(3):
        lives = [lived(seed, life, reading) for life in range(3)]
        for told, models, alone in lives:
            assert told == lives[0][0]
            assert same(models.state(), lives[0][1].state())
            for name, model in alone.items():
                assert same(models.tenant(name).state(), model.state()), name


def test_a_new_tenant_is_told_what_one_model_of_all_events_says():
    for reading in SMOOTHED:
        events, labels, weights = stream(2)
        events = moderate(events)
        models, one = TenantModels(shared=True, **reading), NaiveBayes(**reading)
        models.learn_many(events, labels, weights)
        one.learn_many([without(x) for x in events], labels, weights)
        asked = [{**without(x), "entity": "new"} for x in events]
        said, expected = models.predict_posteriors(asked), one.predict_posteriors(map(without, events))
        assert said.classes == expected.classes
        np.testing.assert_allclose(said.probabilities, expected.probabilities, rtol=1e-9, atol=1e-300)
        assert models.use(0).tenants == len({x.get("entity", "") for x in events} - {""})


def test_a_tenants_own_counts_take_over():
    """What a word means to all others, and then the contrary to one."""
    models = TenantModels(shared=True)
    models.learn_many([{"entity": i, "c": "red"} for i in range(60)], ["yes", "no", "yes"] * 20)
    own = {"entity": "own", "c": "red"}
    told = [models.predict_then_learn_many([own], ["no"]).probabilities[0, 1] for _ in range(60)]
    assert told[0] == pytest.approx(1 / 3)
    assert told == sorted(told)
    assert told[-1] > 0.9


def values(tenant, pairs):
    """Events of a tenant with a number each, labelled: (class, number, weight)."""
    labels, numbers, weights = zip(*pairs, strict=True)
    return [{"entity": tenant, "v": v} for v in numbers], labels, weights


OWN_VALUES = {
    "two values": lambda _: [("a", 1.0, 1.0), ("a", 2.0, 1.0), ("b", 3.0, 1.0)],
    "a light one": lambda _: [("a", 1.0, 1 / 1024), ("b", 3.0, 0.3), ("b", 3.5, 0.3)],
    "constants of one class": lambda chance: ([("a", 1.0, 1.0)] * 100 + [("b", chance.gauss(3, 1), 1) for _ in range(9)]),
    "many": lambda chance: [(k, chance.gauss(3 * (k == "b"), 0.5), 1.0) for k in "ab" for _ in range(1000)],
    "large": lambda chance: [(k, 1e100 * chance.gauss(3 * (k == "b"), 0.5), 0.5) for k in "ab" for _ in range(40)],
    "tiny": lambda chance: [(k, 1e-160 * chance.gauss(3 * (k == "b"), 0.5), 2.5) for k in "ab" for _ in range(40)],
}  # fmt: skip
OF_OTHERS = {
    "two far outside": [("a", 1e4, 1.0), ("b", 1e4, 1.0)],
    "trillions": [("a", 1e12, 1.0), ("a", -1e12, 1.0)],
    "the largest": [("a", 1e300, 1.0), ("b", -1e300, 1.0), ("b", 1e300, 1.0)],
    "the same, on the other class": [("a", 3.0, 1e6), ("b", 3.0, 1.0), ("b", 3.0 + 1e-9, 1.0)],
    "nearly the same": [("a", 3.0, 1e6), ("a", 3.0000001, 1e6), ("b", 5e-324, 1e5)],
    "one": [("b", 2.0, 1 / 1024)],
}


@pytest.mark.parametrize("given", OWN_VALUES)
def test_others_spoil_no_number_of_a_tenant(given):
    """The law of `shared_prior`: |P_t - own| <= m / (n + m) of the greatest own density, and P_t >= n / (n + m) own."""
    own = OWN_VALUES[given](random.Random(3))
    for name, taught in OF_OTHERS.items():
        models, unit = TenantModels(shared=True, prior="uniform"), max(v for _, v, _ in own) / 3
        models.learn_many(*values("own", own))
        models.learn_many(*values("other", taught))
        asked = [unit * q for q in (-2.0, 0.0, 1.0, 2.9, 3.0, 4.0)]
        told = models.predict_posteriors([{"entity": "own", "v": v} for v in asked])
        of_own = {
            k: (Fraction(n), Fraction(mean), Fraction(n) * Fraction(variance))
            for k, (n, mean, variance) in models.tenant("own").class_moments("v").items()
        }
        for x, said in zip(asked, told.probabilities[:, [told.classes.index(k) for k in "ab"]], strict=True):
            least, most = [], []
            for k in "ab":
                mean, scale = float(of_own[k][1]), 1 / math.sqrt(gaussian_of(of_own, k)[1])
                share = float(of_own[k][0] / (of_own[k][0] + Fraction(OF_VALUES)))
                least.append(share * scale * math.exp(-0.5 * ((x - mean) * scale) ** 2))
                most.append(least[-1] + (1 - share) * scale)
            low, high = least[0] / (least[0] + most[1]), most[0] / (most[0] + least[1])
            assert low * (1 - 1e-9) <= said[0] <= high * (1 + 1e-9), (name, x)
            assert math.fsum(said) == pytest.approx(1.0)


def test_where_own_values_never_differ_those_of_others_say_less_the_more_there_are():
    """By itself such a number says nothing; and 100 values that are equal are no certainty."""
    for name, taught in OF_OTHERS.items():
        for n in (1, 100, 10_000):
            models = TenantModels(shared=True, prior="uniform")
            models.learn_many(*values("own", [("a", 1.0, n), ("b", 1.0, n)]))
            models.learn_many(*values("other", [*taught, ("a", 0.5, 1.0), ("a", 1.5, 1.0), ("b", 1.0, 1.0)]))
            p = models.predict_posteriors([{"entity": "own", "v": 1.0}]).probabilities[0, 0]
            assert abs(math.log(p / (1 - p))) <= math.log1p(OF_VALUES / n) * (1 + 1e-9), (name, n)


@pytest.mark.parametrize("n", [0, 10, 1000])
def test_two_values_far_outside_cost_no_tenant_its_predictions(n):
    told = {}
    for is_hostile in (False, True):
        chance, models = random.Random(1), TenantModels(shared=True)

        def some(tenant, many, chance=chance):
            classes = [chance.choice("ab") for _ in range(many)]
            return values(tenant, [(k, chance.gauss(1.0 if k == "a" else 3.0, 0.5), 1.0) for k in classes])

        models.learn_many(*some("honest", 1000))
        if n:
            models.learn_many(*some("own", n))
        if is_hostile:
            models.learn_many(*values("hostile", [("a", 1e4, 1.0), ("b", 1e4, 1.0)]))
        events, labels, weights = some("own", 3000)
        said = models.predict_then_learn_many(events, labels, weights)
        told[is_hostile] = np.mean([a == b for a, b in zip(said.labels(), labels, strict=True)])
    assert told[False] > 0.97
    assert told[True] > told[False] - 0.002


def test_corrections_reach_the_shared_model():
    events, labels, weights = stream(4)
    models, without_some = (TenantModels(shared=True, attributes=DECLARED) for _ in range(2))
    events = [{k: v for k, v in x.items() if k != "size"} for x in events]  # counts are exact
    models.learn_many(events, labels, weights)
    models.unlearn_many(events[100:], labels[100:], weights[100:])
    without_some.learn_many(events[:100], labels[:100], weights[:100])
    asked = [{**x, "entity": name} for x in events for name in ("new", x.get("entity"))]
    ours, theirs = (one.predict_posteriors(asked).probabilities for one in (models, without_some))
    assert ours.tobytes() == theirs[:, : ours.shape[1]].tobytes()
    before = models.state()
    with pytest.raises(UnlearnError):
        models.unlearn_many([{"entity": "t1", "text": "never met"}], ["a"])
    assert same(models.state(), before)


def test_a_class_that_others_alone_have_is_possible():
    models = TenantModels(shared=True)
    models.learn_many([{"entity": "a", "c": "x"}, {"entity": "b", "c": "x"}], ["a's", "b's"])
    said = models.predict_posteriors([{"entity": "a", "c": "x"}, {"entity": "new", "c": "x"}])
    assert said.quarantined is None
    assert said.probabilities[0] == pytest.approx([2.5 / 2.5 * 5 / 8, 3 / 8], rel=0.1)
    assert said.probabilities[1].tolist() == [0.5, 0.5]
    models.unlearn_many([{"entity": "b", "c": "x"}], ["b's"])
    assert models.predict_posteriors([{"entity": "a", "c": "x"}]).probabilities.tolist() == [[1.0, 0.0]]


def test_how_often_tenants_were_predicted_right_begins_with_their_first_event():
    models = TenantModels(shared=True, memory=1)
    for name in "abc":
        models.predict_then_learn_many([{"entity": name, "c": "x"}], ["yes"])
    assert models.use(3).top == [("a", 1, 0, 0), ("b", 1, 1, 1), ("c", 1, 1, 1)]


@pytest.mark.parametrize("shared", [False, True])
def test_attributes_beyond_the_most_are_no_ones(shared):
    models = TenantModels(shared=shared, entity="who")
    for i in range(4200):
        models.learn_many([{f"c{i}": "x", "who": i % 3}], ["ab"[i % 2]])
    assert not shared or models._attributes.groups == models.shared.statistics.layout.groups
    assert len(models._attributes.groups) == 4096
    again = TenantModels(shared=shared, entity="who").load_state(*models.state())
    for one in (models, again):
        one.learn_many([{"c4100": "x", "c4095": "x", "who": 0}], ["a"])
    assert same(models.state(), again.state())
    assert models.tenant("0").value_counts("c4095", "x") == {"a": 1.0, "b": 1.0}
    models.unlearn_many([{"c4100": "x", "c4095": "x", "who": 0}], ["a"])
    assert models.tenant("0").value_counts("c4095", "x") == {"b": 1.0}
    assert models.class_weights == {"a": 2100.0, "b": 2100.0}


def test_a_state_of_the_other_kind_or_with_another_shared_model_is_refused():
    models = TenantModels(shared=True)
    models.learn_many([{"entity": "a", "text": "x y"}, {"entity": "b", "c": "x"}], ["yes", "no"])
    meta, arrays = models.state()
    with pytest.raises(ValueError, match="with a shared"):
        TenantModels().load_state(meta, arrays)
    with pytest.raises(ValueError, match="without a shared"):
        TenantModels(shared=True).load_state(*TenantModels().state())
    other = TenantModels(shared=True)
    other.learn_many([{"entity": "a", "text": "x y"}], ["yes"])
    strange, told = other.state()
    theirs = {name: one for name, one in told.items() if name.startswith("shared_")}
    for damaged in (
        ({**meta, "shared": strange["shared"]}, {**arrays, **theirs}),
        (meta, {**arrays, **theirs}),
        ({**meta, "shared": strange["shared"]}, arrays),
        (meta, {name: one for name, one in arrays.items() if name != "shared_table"}),
    ):
        with pytest.raises(SnapshotError):
            TenantModels(shared=True).load_state(*damaged)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"alpha": 0.0}, "alpha is 0"),
        ({"m": 0.0}, "m is 0"),
        ({"attributes": {"text": Text(alpha=0.0)}}, "attribute 'text': alpha is 0"),
        ({"event_model": "bernoulli"}, "Bernoulli"),
    ],
)
def test_what_is_no_prior_is_refused(given, says):
    with pytest.raises(ValueError, match=says):
        TenantModels(shared=True, **given)


def test_what_is_explained_adds_up_to_what_is_said():
    events, labels, weights = stream(3)
    events = moderate(events)
    models = TenantModels(shared=True)
    models.learn_many(events, labels, weights)
    for x in [*events[:40], {"entity": "new", "text": "cash lunch cash", "colour": "red"}]:
        items = models.explain_one(x)
        said = models.predict_posteriors([x, {k: v for k, v in x.items() if k == "entity"}]).probabilities
        first, second = np.argsort(-said[0], kind="stable")[:2]
        odds = [math.log(row[first] / row[second]) for row in said]
        assert odds[0] == pytest.approx(odds[1] + math.fsum(one.log_odds for one in items), abs=1e-9)
    assert {one.value for one in models.explain_one({"entity": "new", "text": "cash"})} == {"cash"}
