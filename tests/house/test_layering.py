"""Imports run downhill: cli > {worker, adapters, config} > engine > wire > model > {compiler, events} > errors."""

from __future__ import annotations

import ast
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

import streamnb

ROOT = Path(streamnb.__file__).parent
LEVELS = {
    "errors": 0,
    "events": 1,
    "pictures": 0,
    "compiler": 1,
    "model": 2,
    "wire": 3,
    "engine": 4,
    "worker": 5,
    "adapters": 5,
    "config": 5,
    "saved": 6,
    "shown": 6,
    "sklearn": 6,
    "cli": 7,
    "spark": 8,
    "__main__": 8,
}
ROOMS = {
    "model": {
        "compiled": 0,
        "notebook": 0,
        "attributes": 0,
        "saving": 1,
        "numerics": 1,
        "stats": 1,
        "encoding": 2,
        "posterior": 2,
        "evaluation": 2,
        "linear": 2,
        "concepts": 2,
        "interface": 3,
        "softmax": 3,
        "calibration": 3,
        "naive_bayes": 4,
        "bayesian_network": 4,
        "pairs": 5,
        "hidden_markov": 5,
        "tenants": 5,
        "mixture": 6,
        "warm": 7,
    },
    "engine": {
        "ports": 0,
        "settings": 0,
        "topic_plan": 0,
        "reports": 0,
        "standings": 1,
        "sensor": 1,
        "labels": 1,
        "known_classes": 0,
        "named_classes": 1,
        "tally": 0,
        "letters": 1,
        "publishing": 2,
        "copying": 2,
        "monitors": 1,
        "actions": 1,
        "watching": 2,
        "admission": 2,
        "learner": 3,
        "journal": 4,
        "rebuilding": 5,
        "verification": 6,
    },
    "engine/verification": {
        "findings": 0,
        "exact": 0,
        "recount": 2,
        "log": 3,
        "verify": 4,
    },
    "adapters": {
        "blocking_call": 0,
        "fingerprint": 0,
        "machine_memory": 0,
        "parquet_file": 0,
        "parts": 0,
        "event_files": 1,
        "snapshot_folder": 0,
        "kafka": 1,
        "sqlite": 1,
        "observers": 1,
    },
    "cli": {
        "printable": 0,
        "suggested": 0,
        "sent_letters": 0,
        "parser": 1,
        "observers": 1,
        "compiling": 1,
        "rehearsal": 1,
        "opening": 2,
        "wiring": 3,
        "dry_run": 4,
        "planned_topics": 4,
        "stopping": 4,
        "asked": 4,
        "judging": 4,
        "answers": 5,
        "served": 6,
        "checks": 5,
        "reports": 5,
        "evaluation": 6,
        "merging": 6,
        "serving": 6,
        "commands": 7,
    },
}
"""Folder -> its rooms, and the floor of each: a room imports what stands on a lower floor, and itself."""
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
    "numba": {
        "model/compiled/jit.py",
        "compiler/bundles.py",
        "compiler/late_blas.py",
        "compiler/pinned.py",
        "compiler/nested_kernels.py",
        "compiler/kept_code.py",
        "model/compiled/intrinsics.py",
        "cli/compiling.py",
    },
    "river": {
        "model/mixture/bayes_optimal.py",
        "model/bayesian_network/classifier.py",
        "model/concepts/concept_learner.py",
        "model/evaluation/drift.py",
        "model/concepts/find_s.py",
        "model/linear/linear_regression.py",
        "model/linear/linear_unit.py",
        "model/linear/logistic_regression.py",
        "model/naive_bayes/counting_model.py",
        "model/naive_bayes/variants.py",
        "model/naive_bayes/semi_supervised.py",
        "cli/commands/demo.py",
        "cli/evaluation/user_model.py",
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
        "adapters/kafka/lost_markers.py",
        "adapters/kafka/log.py",
        "adapters/kafka/partitioner.py",
        "adapters/kafka/sharing.py",
        "adapters/kafka/kafka_python.py",
        "adapters/kafka/librdkafka.py",
        "adapters/kafka/librdkafka_errors.py",
    },
    "confluent_kafka": {
        "adapters/kafka/librdkafka.py",
        "adapters/kafka/librdkafka_errors.py",
    },
    "prometheus_client": {
        "adapters/observers/prometheus.py",
        "adapters/observers/prometheus_quality.py",
        "cli/serving/api.py",
    },
    "fastapi": {"cli/serving/api.py", "cli/serving/page.py"},
    "pydantic": {"cli/serving/schemas.py"},
    "uvicorn": {"cli/serving/server.py"},
    "sqlite3": {"adapters/sqlite/log.py", "adapters/sqlite/store.py"},
    "scipy": {"model/posterior/credible_intervals.py", "model/evaluation/unseen.py", "sklearn.py"},
    "pandas": {"model/naive_bayes/counting_model.py", "sklearn.py"},
    "sklearn": {"sklearn.py"},
    "pyarrow": {"adapters/parquet_file.py", "spark/part.py"},
    "pyspark": {"spark/job.py"},
    "zstandard": {"adapters/event_files.py"},
    "tqdm": {"cli/evaluation/event_files.py", "cli/compiling.py", "cli/commands/verify.py"},
}
FORBIDDEN_NAMES = {"utils", "common", "base", "helpers"}


@cache
def modules():
    return [
        (path.relative_to(ROOT).as_posix(), ast.parse(path.read_text()))
        for path in sorted(ROOT.rglob("*.py"))
    ]


def modules_in(node):
    """What ``from A import B`` loads: A.B where that is a module, else A."""
    for alias in node.names:
        path = f"{node.module}.{alias.name}".removeprefix("streamnb.").replace(".", "/")
        is_module = (ROOT / path).is_dir() or (ROOT / f"{path}.py").exists()
        yield (
            f"{node.module}.{alias.name}" if node.module.startswith("streamnb") and is_module else node.module
        )


def imports(tree):
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            yield from modules_in(node)


def floor(path):
    """The floors that a module stands on, from the outside in: of the package, of the room, of a room in it."""
    parts = [part.removesuffix(".py") for part in path.split("/")]
    yield "streamnb", LEVELS, parts[0]
    for depth in range(1, len(parts)):
        rooms = ROOMS.get("/".join(parts[:depth]))
        if rooms is not None and parts[depth] != "__init__":
            yield "/".join(parts[:depth]), rooms, parts[depth]


def complaints(name, tree):
    """A line for each import that a module must not have."""
    parts = name.split("/")
    if name == "__init__.py":
        return  # the public names: it imports lazily
    for imported in imports(tree):
        top, *rest = imported.split(".")
        if top == "streamnb" and rest:
            if "/".join(rest) in ROOMS and parts[0] == rest[0]:
                yield f"{name} imports {imported} as a whole, which stands above all of its rooms"
                continue
            theirs = {where: room for where, _, room in floor("/".join(rest))}
            for where, floors, room in floor(name):
                other = theirs.get(where, room)
                if other == room:
                    continue
                if not floors[other] < floors[room]:
                    yield f"{name} imports {imported}: {room} stands on floor {floors[room]} of {where}, {other} on {floors[other]}"
                break
        if name not in ONLY_IN.get(top, {name}):
            yield f"{name} imports {top}"
        if parts[0].removesuffix(".py") in PURE and top in IMPURE:
            yield f"{name} is pure and imports {top}"


def test_imports_run_downhill():
    assert [line for module in modules() for line in complaints(*module)] == []


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("model/stats/counts.py", "from streamnb.model.encoding.vocabulary import Vocabulary"),
        ("model/linear/newton.py", "from streamnb.model.concepts.hypothesis_space import Label"),
        ("model/attributes/values.py", "from streamnb.engine.ports import Log"),
        ("engine/sensor.py", "from streamnb.engine.learner import EventProcessor"),
        ("engine/verification/exact/moments.py", "from streamnb.engine.verification.recount import recount"),
        ("adapters/kafka/log.py", "from streamnb.adapters.sqlite.log import SqliteLog"),
        ("cli/checks/stream.py", "from streamnb.cli.commands import topics"),
        ("cli/commands/run.py", "from streamnb.cli import main"),
        ("model/pairs/kernels.py", "import numba"),
        ("engine/ports.py", "import time"),
    ],
)
def test_an_import_uphill_is_found(name, line):
    assert (ROOT / name).exists()
    assert len(list(complaints(name, ast.parse(line)))) == 1


def test_every_room_says_what_it_is_and_nothing_is_called_by_what_it_is_not():
    for name, tree in modules():
        parts = name.split("/")
        assert not FORBIDDEN_NAMES & {part.removesuffix(".py") for part in parts}
        if parts[-1] == "__init__.py":
            assert ast.get_docstring(tree), name
        if parts[0] == "model" and parts[-1] == "__init__.py":
            assert len(tree.body) == 1, f"{name}: importing one room loads one room"


def test_no_circle_and_no_long_chain_inside_the_model():
    below = {
        f"streamnb/{name}".removesuffix(".py").replace("/", "."): set(imports(tree))
        for name, tree in modules()
        if name.startswith("model/")
    }

    chain = {}
    for module in TopologicalSorter(below).static_order():  # raises CycleError
        under = [chain[other] for other in below.get(module, ()) if other in below]
        chain[module] = [module, *max(under, key=len, default=[])]
    longest = max(chain.values(), key=len)
    assert len(longest) <= 10, " > ".join(longest)


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
