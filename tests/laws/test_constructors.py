"""Parameters of public constructors: one of another kind is refused at once, by its name."""

from __future__ import annotations

import inspect
import math
import re

import pytest

import streamnb
from streamnb import BayesianNetwork, CategoricalNB, Conjunctions, JointTable, NaiveBayes, Nominal
from tests.support.every_case import failures

FLOWER = {"a": [], "b": ["a"]}
NEEDED = {  # what a constructor cannot do without
    "BayesOptimalClassifier": {"models": [NaiveBayes()]},
    "BayesianNetwork": {"parents": FLOWER},
    "BayesianNetworkClassifier": {"parents": {"a": ["label"]}},
    "JointTable": {"probabilities": [1.0]},
    "MixtureModel": {"model": NaiveBayes()},
    "NetworkEM": {"network": BayesianNetwork(FLOWER)},
    "NetworkMCMC": {"network": BayesianNetwork(FLOWER)},
    "NetworkVariationalBayes": {"network": BayesianNetwork(FLOWER)},
    "SemiSupervisedNB": {"model": NaiveBayes()},
    "SmoothedPrior": {"m": 1.0},
    "StructuralEM": {"variables": {"a": ["x"]}},
    "StructurePosterior": {"variables": {"a": ["x"]}},
}
RESULTS = ("BaumWelch", "LinearView", "Posteriors")
"""What is made by others, and not by users."""


def parameters(annotation):
    """(class, parameter) of every public class, of parameters annotated so; seeds have tests of their own."""
    return [
        (name, parameter.name)
        for name in streamnb.__all__
        if inspect.isclass(getattr(streamnb, name)) and name not in RESULTS
        for parameter in inspect.signature(getattr(streamnb, name)).parameters.values()
        if re.fullmatch(annotation, str(parameter.annotation)) and parameter.name != "seed"
    ]


def made(name, **given):
    return getattr(streamnb, name)(**{**NEEDED.get(name, {}), **given})


def is_refused(case):
    name, parameter, given = case
    with pytest.raises(ValueError, match=re.escape(f"not {given!r}")) as refused:
        made(name, **{parameter: given})
    assert re.search(rf"\b{parameter}\b", str(refused.value))


@pytest.mark.parametrize("odd", [math.nan, math.inf, 1.5, True, "3", -1])
def test_a_whole_number_is_an_integer_and_no_boolean(odd):
    cases = [(*of, odd) for of in parameters(r"int( \| None)?")]
    assert failures(is_refused, cases) == {}


@pytest.mark.parametrize("odd", [["f"], "f", 5])
def test_what_has_names_is_a_mapping(odd):
    cases = [(*of, odd) for of in parameters(r"(?:Class)?Prior|Mapping\[((?!\] \| Seq|\] \| Iter).)*")]
    assert failures(is_refused, cases) == {}


@pytest.mark.parametrize(
    "make",
    [
        lambda values: Nominal(values=values),
        lambda values: BayesianNetwork(FLOWER, values={"a": values}),
        lambda values: Conjunctions({"a": values}),
        lambda values: JointTable({"a": values}, [0.5, 0.5]),
    ],
)
@pytest.mark.parametrize("odd", [math.nan, math.inf])
def test_a_value_that_is_missing_is_none_that_there_is(make, odd):
    with pytest.raises(ValueError, match=f"finite number.*, not {odd}"):
        make(["x", odd])


@pytest.mark.parametrize(
    "call",
    [
        lambda long: Nominal(values=long),
        lambda long: Nominal(n_values=long),
        lambda long: NaiveBayes({"f": Nominal(values=[long, long])}),
        lambda long: NaiveBayes({"f": Nominal(values=[long])}).learn_one({"f": long + "a"}, 1),
        lambda long: CategoricalNB(attributes=[long]),
        lambda long: CategoricalNB(prior=long),
    ],
)
def test_a_long_value_is_cut_in_the_message(call):
    with pytest.raises(ValueError, match=r"\.\.\. \(1,000,00\d characters\)") as refused:
        call("v" * 10**6)
    assert len(str(refused.value)) < 1000
