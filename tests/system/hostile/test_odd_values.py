"""Values, labels, weights and counts of any type: taken, or refused by TypeError or ValueError, and then nothing is learned.

What was taken can be saved, and what was saved can be loaded: as it is, and off a disk (but for labels that
no JSON of 64 bits and UTF-8 holds).
"""

from __future__ import annotations

import datetime as dt
import math
import warnings
from decimal import Decimal
from enum import IntEnum, StrEnum
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest

from streamnb import (
    BayesianNetwork,
    BayesianNetworkClassifier,
    BayesOptimalClassifier,
    BayesOptimalNB,
    BernoulliNB,
    CategoricalNB,
    ConceptLearner,
    Conjunctions,
    FindS,
    GaussianNB,
    HiddenMarkovModel,
    HiddenMarkovNB,
    JointTable,
    LinearRegression,
    LinearUnit,
    LogisticRegression,
    MultinomialNB,
    NaiveBayes,
    NetworkEM,
    PlattScaling,
    SemiSupervisedNB,
    SequentialPosterior,
    SigmoidUnit,
    Softmax,
)
from streamnb.errors import OtherTypeWarning, SmallWeightWarning, SnapshotError
from streamnb.formats.canonical_json import refuse_unportable
from streamnb.formats.snapshot_container import part_digest
from streamnb.values.nominal_values import value_text
from tests.support.every_case import failures
from tests.support.states import through_a_snapshot

pytestmark = [pytest.mark.thorough, pytest.mark.early(68)]


class Grade(IntEnum):
    HUGE = 10**400


class Colour(StrEnum):
    RED = "r"


ODD = {
    "np.str_": np.str_("r"), "str enum": Colour.RED, "int enum": Grade.HUGE, "fraction": Fraction(1, 3),
    "huge fraction": Fraction(10**400), "minus a huge fraction": Fraction(-(10**400), 3),
    "decimal": Decimal("1.5"), "decimal NaN": Decimal("NaN"), "signalling NaN": Decimal("sNaN"),
    "decimal infinity": Decimal("Infinity"), "huge decimal": Decimal("1e5000"), "huge int": 10**400,
    "huger int": 10**5000, "np.bool_": np.bool_(True), "np.int64": np.int64(3),
    "np.uint64": np.uint64(2**64 - 1), "float32": np.float32(1.5), "float16": np.float16(1.5),
    "float16 NaN": np.float16("nan"), "complex": 1j, "numpy complex": np.complex128(1),
    "datetime64": np.datetime64("2020-01-01"), "NaT": np.datetime64("NaT"), "timedelta64": np.timedelta64(5, "s"),
    "date": dt.date(2020, 1, 1), "bytes": b"r", "np.bytes_": np.bytes_(b"r"), "list": [1], "tuple": (1,),
    "set": {1}, "dict": {"a": 1}, "object": object(), "function": len, "NaN": math.nan, "infinity": math.inf,
    "None": None, "no axis": np.array(3.0), "an axis": np.array([1.0, 2.0]), "surrogate": "\ud800",
    "subnormal": 5e-324, "minus": -1.0, "true": True,
}  # fmt: skip
CLASSIFIERS = {
    "any kind": (NaiveBayes, 1.0),
    "nominal": (lambda: NaiveBayes({"a": "nominal"}), "r"),
    "continuous": (lambda: NaiveBayes({"a": "continuous"}), 1.0),
    "text": (lambda: NaiveBayes({"a": "text"}), "r"),
    "mixture": (BayesOptimalNB, 1.0),
    "categorical": (CategoricalNB, "r"),
    "gaussian": (GaussianNB, 1.0),
    "multinomial": (MultinomialNB, 1),
    "bernoulli": (BernoulliNB, 1),
    "logistic": (LogisticRegression, 1.0),
    "entities": (HiddenMarkovNB, 1.0),
    "network": (lambda: BayesianNetworkClassifier({"a": ["label"]}, {"a": "nominal"}), "r"),
    "semi-supervised": (lambda: SemiSupervisedNB(NaiveBayes()), 1.0),
    "softmax": (lambda: BayesOptimalNB(hypotheses=[Softmax(pairs=True)]), 1.0),
    "any classifiers": (lambda: BayesOptimalClassifier({"x": NaiveBayes(), "y": CategoricalNB()}), 1.0),
}


def is_taken(call):
    """Return False if it is refused as promised; a warning is an error, but for numpy's of complex numbers.

    Nor are two of streamnb's own: of another type than was learned, and of a weight below the least.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", OtherTypeWarning)
        warnings.simplefilter("ignore", SmallWeightWarning)
        try:
            call()
        except (TypeError, ValueError, np.exceptions.ComplexWarning):
            return False
    return True


def check_state(model, make):
    meta, arrays = model.state()
    for part in ((meta, arrays), through_a_snapshot(model)):
        assert part_digest(*make().load_state(*part).state()) == part_digest(meta, arrays)


def is_portable(label):
    """Whether a state can hold a label."""
    plain = label.item() if isinstance(label, np.generic) else label
    try:
        refuse_unportable(plain)
    except SnapshotError:
        return False
    return plain is not None


def check_value_weight_and_label(kind, odd):
    make, usual = CLASSIFIERS[kind]

    def as_label(model):
        model.learn_one({"a": usual}, odd)

    for call in (
        as_label,
        lambda model: model.learn_one({"a": odd}, "p"),
        lambda model: model.learn_one({"a": usual}, "q", odd),
        lambda model: model.learn_one({"a": usual, "b": odd}, "q"),
        lambda model: hasattr(model, "learn_many") and model.learn_many([{"a": usual}, {"a": odd}], "pq"),
        lambda model: hasattr(model, "learn_many") and model.learn_many([{"a": usual}], "p", [odd]),
    ):
        model = make()
        for label in "pq":
            model.learn_one({"a": usual}, label)
        before = part_digest(*model.state())
        if is_taken(lambda call=call, model=model: call(model)):
            if call is not as_label or is_portable(odd):
                check_state(model, make)
        else:
            # Of several classifiers the first ones may have learned what a later one refuses.
            assert kind == "any classifiers" or part_digest(*model.state()) == before
        is_taken(lambda model=model: model.predict_proba_one({"a": odd}))


@pytest.mark.parametrize("kind", CLASSIFIERS)
def test_a_value_a_weight_or_a_label_is_taken_or_refused(kind):
    assert failures(lambda name: check_value_weight_and_label(kind, ODD[name]), ODD) == {}


CALLS = {
    "target": lambda odd: LinearRegression().learn_one({"a": 1.0}, odd),
    "target of a unit": lambda odd: LinearUnit().learn_one({"a": 1.0}, odd),
    "column": lambda odd: LinearUnit().learn_one({"a": odd}, 1.0),
    "label of a unit": lambda odd: SigmoidUnit().learn_one({"a": 1.0}, odd),
    "score": lambda odd: PlattScaling().learn_one(odd, True),
    "score asked": lambda odd: PlattScaling().probability(odd),
    "log likelihood": lambda odd: SequentialPosterior([1, 2]).update_log([odd, -1.0]),
    "prior": lambda odd: SequentialPosterior({1: odd, 2: 1.0}),
    "symbol": lambda odd: HiddenMarkovModel().learn_one([odd, "a"], ["s", "t"]),
    "state": lambda odd: HiddenMarkovModel().learn_one(["a"], [odd]),
    "time": lambda odd: NaiveBayes().learn_one({"a": 1.0}, "p", t=odd),
    "unlearned": lambda odd: NaiveBayes().unlearn_one({"a": 1.0}, "p", odd),
    "count of a word": lambda odd: NaiveBayes({"a": "text"}).learn_one({"a": {"w": odd}}, "p"),
    "presence": lambda odd: NaiveBayes({"a": "text"}, event_model="bernoulli").learn_one({"a": {"w": odd}}, "p"),
    "alpha": lambda odd: NaiveBayes(alpha=odd),
    "m": lambda odd: NaiveBayes(m=odd),
    "weight of a class": lambda odd: NaiveBayes(prior={"p": odd}).learn_one({"a": 1.0}, "p"),
    "entry of a table": lambda odd: JointTable({"a": ["x", "y"]}, [odd, 0.5]),
    "value of a concept": lambda odd: ConceptLearner(Conjunctions({"a": ["x", "y"]})).learn_one({"a": odd}, True),
    "value of FIND-S": lambda odd: FindS().learn_one({"a": odd}, True),
    "value of a network": lambda odd: BayesianNetwork({"a": [], "b": ["a"]}).learn_one({"a": odd, "b": "x"}),
    "value to complete": lambda odd: NetworkEM(BayesianNetwork({"a": [], "b": ["a"]})).learn_one({"a": odd}),
    "value without a label": lambda odd: SemiSupervisedNB(NaiveBayes()).learn_unlabelled_one({"a": odd}),
}  # fmt: skip


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_anything_else_is_taken_or_refused(call):
    """Another error than those of a refusal ends the call."""
    assert failures(lambda name: is_taken(lambda: call(ODD[name])), ODD) == {}


MISSING = {"None": None, "NaN": math.nan, "NA": pd.NA, "NaT": pd.NaT}


@pytest.mark.parametrize("kind", CLASSIFIERS)
@pytest.mark.parametrize("missing", MISSING.values(), ids=MISSING)
def test_a_label_that_is_missing_is_no_class(kind, missing):
    make, usual = CLASSIFIERS[kind]
    model = make()
    for label in ("p", missing, "q"):
        model.learn_one({"a": usual}, label)
    assert set(model.predict_proba_one({"a": usual})) == {"p", "q"}


@pytest.mark.parametrize("w", [-1.0, math.nan, math.inf])
@pytest.mark.parametrize("kind", CLASSIFIERS)
def test_a_weight_that_is_none_is_refused(kind, w):
    make, usual = CLASSIFIERS[kind]
    with pytest.raises(ValueError, match="weight"):
        make().learn_one({"a": usual}, "p", w)


@pytest.mark.parametrize("w", [-1.0, math.nan, math.inf])
def test_so_is_that_of_an_event_without_a_label(w):
    model = BayesOptimalClassifier([SemiSupervisedNB(NaiveBayes())])
    with pytest.raises(ValueError, match="weight"):
        model.learn_one({"a": "u"}, None, w)


@pytest.mark.filterwarnings("ignore::streamnb.errors.SmallWeightWarning")
def test_a_weight_above_zero_weighs_models_however_small_it_is():
    usual, small = (BayesOptimalClassifier([NaiveBayes(), NaiveBayes(alpha=0.01)]) for _ in range(2))
    for model, w in ((usual, 1.0), (small, 2.0**-20)):
        for label in "pqp":
            model.learn_one({"a": "u" if label == "p" else "v"}, label)
        before = model.posterior.probabilities
        model.learn_one({"a": "u"}, "p", w)
    assert small.posterior.probabilities == usual.posterior.probabilities != before


def test_two_columns_of_one_name_are_refused():
    frame = pd.DataFrame([["u", 5.0, "v"]] * 2, columns=["a", "n", "a"])
    for call in (
        lambda: NaiveBayes().learn_many(frame, ["p", "q"]),
        lambda: NaiveBayes().predict_proba_many(frame),
    ):
        with pytest.raises(ValueError, match="two columns are called 'a'"):
            call()


def test_names_of_attributes_are_those_that_were_given():
    model = NaiveBayes()
    model.learn_many(pd.DataFrame({0: ["u", "v"], "0": ["r", "s"], 1: [1.0, 2.0]}), ["p", "q"])
    assert model.learned_attributes == [0, "0", 1]
    assert all(map(model.knows, model.learned_attributes))


@pytest.mark.parametrize("kind", [MultinomialNB, BernoulliNB])
def test_a_bag_of_words_is_explained_as_its_text_is(kind):
    model = kind()
    for text, label in (("win cash win", "spam"), ("noon", "ham")):
        model.learn_one(text, label)
    assert model.explain_one({"text": {"win": 1, "noon": 2}}) == model.explain_one("win noon noon")


@pytest.mark.parametrize("y", ["spam", 2, None, math.nan])
def test_a_score_is_of_a_truth_value_alone(y):
    platt = PlattScaling()
    platt.learn_one(2.0, True)
    before = platt.counts, platt.A, platt.B
    for call in (lambda: platt.learn_one(1.0, y), lambda: platt.refine([(1.0, False), (1.0, y)])):
        with pytest.raises(ValueError, match="expected True or False"):
            call()
    assert (platt.counts, platt.A, platt.B) == before
    assert platt.counts == {False: 0, True: 1}


def test_what_is_taken_says_what_its_number_or_text_says():
    for odd, same in (
        (ODD["huge fraction"], 1e140),
        (ODD["minus a huge fraction"], -1e140),
        (ODD["huge int"], 1e140),
        (ODD["fraction"], 1 / 3),
        (ODD["float16"], 1.5),
        (ODD["np.str_"], "r"),
        (ODD["str enum"], "r"),
    ):
        for make in (NaiveBayes, BayesOptimalNB):
            one, other = make(), make()
            for model, value in ((one, odd), (other, same)):
                model.learn_one({"a": value}, "p")
            assert part_digest(*one.state()) == part_digest(*other.state())
    assert type(value_text(ODD["np.str_"])) is type(value_text(ODD["str enum"])) is str
