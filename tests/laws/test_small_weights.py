"""A weight above 0 and below a unit (1/1024) counts a unit, everywhere, and the user is told."""

from __future__ import annotations

import inspect
import warnings
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest

from streamnb import (
    BayesianNetwork,
    BetaBernoulli,
    DirichletCategorical,
    HiddenMarkovModel,
    JointTable,
    LinearRegression,
    LogisticRegression,
    MultinomialNB,
    NaiveBayes,
    SemiSupervisedNB,
)
from streamnb.errors import SmallWeightWarning
from streamnb.models.tenants.tenant_models import TenantModels
from streamnb.values.example_weights import UNIT, has_weight, units
from tests.system.hostile.mutated_states import MODELS, Made, Network, Number, Truth

SMALL = [1 / 1500, 1 / 4096, 1e-9, 5e-324]
told = pytest.warns(SmallWeightWarning, match="above 0 and below 1/1024 counts 1/1024")


@pytest.mark.parametrize(
    "weight", [*SMALL, np.float16(6e-8), np.float32(1e-9), Fraction(1, 1025), Decimal("1e-30")]
)
def test_a_weight_below_a_unit_counts_one_and_is_told(weight):
    with told:
        assert units(weight) == 1
    with told:
        assert has_weight(weight)


@pytest.mark.parametrize("weight", [0, 0.0, -0.0, Decimal(0), 1 / 1024, 3 / 2048, 1.0, True, 2**20])
def test_any_other_weight_is_rounded_to_units_and_nothing_is_told(weight):
    assert units(weight) == round(float(weight) * UNIT)
    assert has_weight(weight) == (weight > 0)


CLASSIFIERS = {
    name: one
    for name, one in MODELS.items()
    if not isinstance(one, (Made, Network, Number, Truth))
    and "w" in inspect.signature(getattr(one.make(), "learn_one", len)).parameters
}


@pytest.mark.parametrize("name", CLASSIFIERS)
@pytest.mark.filterwarnings("ignore::streamnb.errors.UndeclaredTextWarning")
def test_a_classifier_learns_a_small_weight_as_a_unit(name):
    kind = CLASSIFIERS[name]
    rows = [(x, y) for x, y, _ in kind.events(MIXED)]
    small, unit = kind.make(), kind.make()
    for x, y in rows:
        with told:
            small.learn_one(x, y, w=1 / 3000)
        unit.learn_one(x, y, w=1 / UNIT)
    assert small.digest() == unit.digest()
    assert small.predict_proba_one(rows[0][0]) == unit.predict_proba_one(rows[0][0])


MIXED = [
    ({"text": "free cash", "code": "x", "bits": True, "size": 1.0}, "a", 0.0),
    ({"text": "lunch now", "code": "y", "bits": False, "size": 4.0}, "b", 1.0),
    ({"text": "win lunch", "code": "x", "bits": False, "size": 2.0}, "a", 2.0),
]
XS, YS = [x for x, *_ in MIXED], [y for _, y, _ in MIXED]


@pytest.mark.parametrize("make", [list, np.array, lambda ws: np.array(ws, dtype=np.float32)])
def test_many_at_once_count_as_one_after_the_other(make):
    weights = [1 / 3000, 1.0, 0.0]
    many, each = NaiveBayes(), NaiveBayes()
    with told:
        many.learn_many(XS, YS, w=make(weights))
    with told:
        each.learn_one(XS[0], YS[0], w=weights[0])
    each.learn_one(XS[1], YS[1])
    assert many.digest() == each.digest()
    assert many.class_weights == {"a": 1 / UNIT, "b": 1.0}


def test_what_was_learned_with_a_small_weight_is_taken_back_with_it():
    model, before = NaiveBayes(), NaiveBayes()
    for x, y in zip(XS, YS, strict=True):
        model.learn_one(x, y)
        before.learn_one(x, y)
    with told:
        model.learn_one({"text": "once more"}, "a", w=1e-5)
    assert model.class_weights["a"] == 2 + 1 / UNIT
    with told:
        model.unlearn_one({"text": "once more"}, "a", w=1e-5)
    assert model.class_weights == before.class_weights


def test_tenants_learn_and_take_back_a_small_weight():
    model = TenantModels(entity="code")
    with told:
        model.learn_many(XS, YS, [1e-6] * 3)
    assert model.class_weights == {"a": 2 / UNIT, "b": 1 / UNIT}
    with told:
        model.unlearn_many(XS, YS, [1e-6] * 3)
    assert not any(model.class_weights.values())


def test_an_event_without_a_label_counts_a_unit_at_least():
    model = SemiSupervisedNB(NaiveBayes(), unlabelled_weight=1e-6)
    for x, y in zip(XS, YS, strict=True):
        model.learn_one(x, y)
    with told:
        model.learn_one(XS[0], None)
    assert sum(model.class_weights.values()) == 3 + 1 / UNIT


def _learned(model, *arguments):
    with told:
        model.learn_one(*arguments, w=1e-6)
    return model


def test_models_other_than_classifiers_count_a_unit():
    assert _learned(BetaBernoulli(), True).digest() == _unit(BetaBernoulli(), True).digest()
    for make, arguments in (
        (lambda: DirichletCategorical(["a", "b"]), ("a",)),
        (HiddenMarkovModel, (["x", "y"], ["s", "t"])),
        (lambda: JointTable({"a": ["x", "y"]}), ({"a": "x"},)),
        (lambda: BayesianNetwork({"a": []}), ({"a": "x"},)),
        (LinearRegression, ({"a": 1.0}, 2.0)),
        (LogisticRegression, ({"a": 1.0}, True)),
    ):
        small, unit = _learned(make(), *arguments), _unit(make(), *arguments)
        assert small.digest() == unit.digest() != make().digest()


def _unit(model, *arguments):
    model.learn_one(*arguments, w=1 / UNIT)
    return model


def test_a_word_that_occurs_less_than_a_unit_counts_one():
    model = MultinomialNB()
    with told:
        model.learn_one({"rare": 1e-4, "often": 2.0}, "a")
    assert model.class_counts("text") == {"rare": {"a": 1 / UNIT}, "often": {"a": 2.0}}


def test_it_is_told_once_for_each_line_that_learns():
    model = NaiveBayes()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default", SmallWeightWarning)
        for number in range(20):
            model.learn_one(XS[0], "a", w=1 / (3000 + number))
    assert [one.filename for one in caught] == [__file__]
