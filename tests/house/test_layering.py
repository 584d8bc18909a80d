"""Imports run downhill: cli > {worker, adapters, scale, config} > engine > wire > model > events > errors."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import streamnb

ROOT = Path(streamnb.__file__).parent
LEVELS = {
    "errors": 0,
    "events": 1,
    "model": 2,
    "wire": 3,
    "engine": 4,
    "worker": 5,
    "adapters": 5,
    "scale": 5,
    "config": 5,
    "cli": 6,
    "__main__": 7,
}
PURE = ("model", "wire", "engine", "events", "errors")
IMPURE = {
    "logging",
    "os",
    "socket",
    "sqlite3",
    "subprocess",
    "threading",
    "time",
    "kafka",
    "prometheus_client",
}
ONLY_IN = {
    "numba": {"model/compiled/jit.py", "model/compiled/intrinsics.py"},
    "river": {
        "model/mixture/bayes_optimal.py",
        "model/bayesian_network/classifier.py",
        "model/trees/chow_liu.py",
        "model/concepts/concept_learner.py",
        "model/evaluation/drift.py",
        "model/concepts/find_s.py",
        "model/linear/linear_regression.py",
        "model/linear/linear_unit.py",
        "model/linear/logistic_regression.py",
        "model/naive_bayes/naive_bayes.py",
        "model/naive_bayes/variants.py",
        "model/naive_bayes/semi_supervised.py",
        "model/trees/tree_augmented_nb.py",
        "cli/bench/contenders.py",
        "cli/commands/demo.py",
    },
    "kafka": {
        "adapters/kafka/admin.py",
        "adapters/kafka/clients.py",
        "adapters/kafka/transactions.py",
        "adapters/kafka/election.py",
        "adapters/kafka/error_texts.py",
        "adapters/kafka/error_actions.py",
        "adapters/kafka/group.py",
        "adapters/kafka/open_transactions.py",
        "adapters/kafka/log.py",
        "adapters/kafka/partitioner.py",
        "adapters/kafka/kafka_python.py",
        "adapters/kafka/appending.py",
        "adapters/kafka/librdkafka.py",
        "adapters/kafka/librdkafka_errors.py",
        "cli/bench/bare_clients.py",
    },
    "confluent_kafka": {
        "adapters/kafka/librdkafka.py",
        "adapters/kafka/librdkafka_errors.py",
        "cli/bench/bare_clients.py",
    },
    "prometheus_client": {"adapters/observers/prometheus.py", "adapters/observers/prometheus_quality.py"},
    "vowpalwabbit": {"cli/bench/contenders.py"},
    "sqlite3": {"adapters/sqlite/log.py", "adapters/sqlite/store.py"},
    "scipy": {"model/posterior/credible_intervals.py"},
    "pandas": {"model/naive_bayes/naive_bayes.py", "model/trees/tree_augmented_nb.py"},
    "zstandard": {"adapters/event_files.py"},
    "tqdm": {"cli/evaluation/event_files.py"},
}
FORBIDDEN_NAMES = {"utils", "common", "base", "helpers"}


def modules():
    return [
        (path.relative_to(ROOT).as_posix(), ast.parse(path.read_text()))
        for path in sorted(ROOT.rglob("*.py"))
    ]


def imports(tree):
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            yield node.module
            if node.module == "streamnb":
                yield from (f"streamnb.{alias.name}" for alias in node.names)


def level(parts):
    return LEVELS[parts[0].removesuffix(".py")]


@pytest.mark.parametrize(("name", "tree"), [pytest.param(*module, id=module[0]) for module in modules()])
def test_module(name, tree):
    parts = name.split("/")
    assert not FORBIDDEN_NAMES & {part.removesuffix(".py") for part in parts}
    if name == "__init__.py":
        return  # the public names: it imports lazily
    for imported in imports(tree):
        top, *rest = imported.split(".")
        if top == "streamnb" and rest:
            same = rest[0] == parts[0].removesuffix(".py")
            assert same or level(rest) < level(parts), f"{name} imports {imported}: uphill"
        assert name in ONLY_IN.get(top, {name}), f"{name} imports {top}"
        if parts[0].removesuffix(".py") in PURE:
            assert top not in IMPURE, f"{name} is pure and imports {top}"


def test_pure_code_reads_no_clock_and_does_no_io():
    calls = {"open", "print", "input"}
    for name, tree in modules():
        if name.split("/")[0].removesuffix(".py") in PURE:
            called = {
                node.func.id
                for node in ast.walk(tree)
                if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
            }
            assert not called & calls, name


def test_the_public_names_are_all_there():
    for name in streamnb.__all__:
        assert getattr(streamnb, name).__doc__
    with pytest.raises(AttributeError):
        _ = streamnb.nothing
