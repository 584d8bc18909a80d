"""No class overrides a private method of another: behaviour varies by a stage, a strategy or a parameter."""

from __future__ import annotations

import ast

import pytest

from tests.house.test_layering import modules

ALLOWED = {
    "LearnedMixture._budget",
    "BayesOptimalNB._encode",
    "BayesOptimalNB._taken_out",
    "HiddenMarkovNB._encode",
    "HiddenMarkovNB._first_of_chains",
    "HiddenMarkovNB._learned",
    "LabelledNetwork._read",
    "LabelledNetwork._text",
    "SmoothedModel._learned",
    "_WordsNB._encoded_event",
}
"""Models that still do: this list may only become shorter."""


def name_of(node):
    while isinstance(node, ast.Subscript):
        node = node.value
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")


def classes(trees):
    """Class -> names of its bases, and its private methods, each with whether it is abstract."""
    return {
        node.name: (
            [name_of(base) for base in node.bases],
            {
                method.name: any("abstract" in ast.unparse(one) for one in method.decorator_list)
                for method in node.body
                if isinstance(method, ast.FunctionDef | ast.AsyncFunctionDef)
                and method.name.startswith("_")
                and not method.name.endswith("__")
            },
        )
        for tree in trees
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef)
    }


def overridden(trees):
    """Yield CLASS._method where a base class defines the same method, unless a base declares it abstract."""
    found = classes(trees)

    def ancestors(name):
        for base in found.get(name, ((), {}))[0]:
            yield base
            yield from ancestors(base)

    for name, (_, methods) in found.items():
        for method in methods:
            above = [
                found[base][1][method] for base in ancestors(name) if method in found.get(base, ((), {}))[1]
            ]
            if above and not any(above):
                yield f"{name}.{method}"


def test_no_private_method_is_overridden():
    assert {*overridden(tree for _, tree in modules())} == ALLOWED


@pytest.mark.parametrize(
    ("name", "bases", "method"),
    [
        ("Costs", "EventProcessor", "_process_run"),
        ("Resolution", "processing.EventProcessor", "_report"),
        ("Follower", "Replica", "_follow_up"),
    ],
)
def test_a_planted_override_is_found(name, bases, method):
    planted = f"class {name}Planted({bases}):\n    def {method}(self):\n        ...\n"
    if method == "_follow_up":  # through a class between the two
        planted = f"class Base:\n    def {method}(self): ...\nclass Replica(Base): ...\n{planted}"
    trees = [*(tree for _, tree in modules()), ast.parse(planted)]
    assert {*overridden(trees)} - ALLOWED == {f"{name}Planted.{method}"}


def test_an_abstract_method_may_be_defined():
    text = """
class Base:
    @abstractmethod
    def _learn(self): ...
class Model(Base):
    def _learn(self): ...
"""
    assert [*overridden([ast.parse(text)])] == []
