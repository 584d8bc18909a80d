"""Imports run downhill from the commands to the errors, also those inside functions and those by string."""

from __future__ import annotations

import ast
import re
from collections import Counter
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

import streamnb

ROOT = Path(streamnb.__file__).parent
FLOORS = {
    "": """client; errors; events; values; kernels; statistics; features; formats; charts; scoring; models; toolbox; config;
        engine; verification; event_logs; telemetry; persistence; notebook; runtime; queries; reports; serving;
        conversion; evaluation; merging; spark; sklearn; cli; __main__""",
    "models": "registry interface; calibration; softmax; naive_bayes; one_dependence; forest; tenants; mixture",
    "toolbox": "concepts; linear; posterior; semi_supervised; hidden_markov; bayesian_network",
    "engine": "ports settings; topic_plan; labels; processing; sensor journal; worker_states retraining",
    "verification": "check_results exact; recount; log; log_verification",
    "event_logs": "blocking_call request_index; kafka sqlite",
    "cli": """compilation_progress timed_batches topic_requirements; command_runner; parser; dry_run; checks; commands""",
}
"""Folder -> its rooms, from the bottom up. A room imports rooms before a semicolon, and itself."""
LEVELS = {
    folder: {room: level for level, rooms in enumerate(floors.split(";")) for room in rooms.split()}
    for folder, floors in FLOORS.items()
}
PURE = {
    "errors", "events", "values", "statistics", "features", "formats", "charts", "scoring", "models",
    "toolbox", "engine", "verification",
}  # fmt: skip
OPENS_FILES = {
    "formats/event_files.py",
    "formats/mail_folders.py",
    "formats/parquet_events.py",
    "formats/terminal_text.py",
}
"""Modules of pure rooms that read files or write to the terminal."""
IMPURE = {
    "logging", "os", "socket", "sqlite3", "subprocess", "threading", "time", "kafka",
    "prometheus_client",
}  # fmt: skip
CONCRETE = (
    "models.calibration", "models.forest", "models.mixture", "models.naive_bayes", "models.one_dependence",
    "models.softmax", "models.tenants", "toolbox",
)  # fmt: skip
"""Models that `config`, `engine` and `models.interface` know by their protocol only."""
ONLY_IN = {
    "numba": {
        "cli/compilation_progress.py", "kernels/intrinsics.py", "kernels/jit.py",
        "kernels/kernel_cache.py", "kernels/lazy_blas.py", "kernels/nested_kernels.py",
        "kernels/pinned_structs.py", "kernels/structs.py",
    },
    "river": {
        "cli/commands/demo.py",
        "evaluation/user_model.py",
        "models/mixture/bayes_optimal_classifier.py",
        "models/naive_bayes/counting_model.py",
        "models/naive_bayes/naive_bayes_variants.py",
        "scoring/drift_detectors.py",
        "toolbox/bayesian_network/bayesian_network_classifier.py",
        "toolbox/concepts/concept_learner.py",
        "toolbox/concepts/find_s.py",
        "toolbox/linear/linear_regression.py",
        "toolbox/linear/linear_unit.py",
        "toolbox/linear/logistic_regression.py",
        "toolbox/semi_supervised/mixture_model.py",
        "toolbox/semi_supervised/semi_supervised_nb.py",
    },
    "kafka": {
        "event_logs/kafka/consumer_group.py",
        "event_logs/kafka/error_actions.py",
        "event_logs/kafka/error_messages.py",
        "event_logs/kafka/kafka_admin.py",
        "event_logs/kafka/kafka_clients.py",
        "event_logs/kafka/kafka_cluster.py",
        "event_logs/kafka/kafka_commits.py",
        "event_logs/kafka/kafka_log.py",
        "event_logs/kafka/kafka_python_client.py",
        "event_logs/kafka/kafka_records.py",
        "event_logs/kafka/kafka_requests.py",
        "event_logs/kafka/kafka_transactions.py",
        "event_logs/kafka/leader_election.py",
        "event_logs/kafka/librdkafka_client.py",
        "event_logs/kafka/librdkafka_errors.py",
        "event_logs/kafka/lost_transaction_markers.py", "event_logs/kafka/missing_offsets.py",
        "event_logs/kafka/open_transactions.py",
        "event_logs/kafka/partition_sharing.py",
    },
    "confluent_kafka": {"event_logs/kafka/librdkafka_client.py", "event_logs/kafka/librdkafka_errors.py", "conversion/schema_registry.py"},
    "google": {"conversion/protobuf_decoder.py"},
    "grpc_tools": {"conversion/protobuf_decoder.py"},
    "prometheus_client": {
        "cli/commands/convert.py",
        "conversion/source_metrics.py",
        "serving/http_api.py",
        "serving/webhook_metrics.py",
        "telemetry/prometheus_quality.py",
        "telemetry/prometheus_sensor.py",
    },
    "fastapi": {
        "serving/http_api.py", "serving/http_events.py", "serving/http_labels.py",
        "serving/http_records.py", "serving/live_page.py", "serving/dead_letter_forms.py",
        "serving/http_explanations.py",
    },
    "httpx": {"client.py", "serving/webhook_client.py"},
    "pydantic": {"serving/http_schemas.py"},
    "uvicorn": {"serving/http_server.py"},
    "sqlite3": {
        "event_logs/kafka/kafka_requests.py", "event_logs/request_index.py",
        "event_logs/sqlite/sqlite_log.py", "event_logs/sqlite/sqlite_store.py",
    },
    "scipy": {
        "scoring/attribute_drift.py", "scoring/new_class_probability.py", "sklearn.py",
        "statistics/credible_intervals.py", "toolbox/bayesian_network/network_smoothing.py",
    },
    "pandas": {"models/interface/predictions.py", "models/naive_bayes/counting_model.py", "sklearn.py"},
    "sklearn": {"sklearn.py"},
    "fastavro": {"conversion/prediction_encoder.py", "conversion/schema_decoders.py", "formats/avro_events.py"},
    "pyarrow": {"evaluation/prediction_files.py", "formats/arrow_events.py", "formats/parquet_events.py", "spark/partition_worker.py"},
    "pyspark": {"spark/job.py"},
    "opentelemetry": {"telemetry/open_telemetry.py"},
    "zstandard": {"formats/compressed_input.py", "persistence/compressed_files.py"},
    "tqdm": {"cli/commands/verify.py", "cli/compilation_progress.py", "evaluation/input_files.py"},
}  # fmt: skip
FORBIDDEN_NAMES = {"utils", "common", "base", "helpers"}


@cache
def modules():
    return [
        (path.relative_to(ROOT).as_posix(), ast.parse(path.read_text()))
        for path in sorted(ROOT.rglob("*.py"))
    ]


def modules_in(node):
    """Yield what ``from A import B`` loads: A.B if that is a module, else A."""
    for alias in node.names:
        path = f"{node.module}.{alias.name}".removeprefix("streamnb.").replace(".", "/")
        is_module = (ROOT / path).is_dir() or (ROOT / f"{path}.py").exists()
        yield (
            f"{node.module}.{alias.name}" if node.module.startswith("streamnb") and is_module else node.module
        )


def imports(tree):
    """Yield every module that a tree imports: by statement, or by `import_module` of a constant."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            yield from modules_in(node)
        elif isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant):
            called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            if called == "import_module":
                yield str(node.args[0].value)


def floors(path):
    """Yield the folder, the levels of its rooms, and the room of a module, from the outside in."""
    parts = [part.removesuffix(".py") for part in path.split("/")]
    for depth in range(len(parts)):
        levels = LEVELS.get("/".join(parts[:depth]))
        if levels is not None and parts[depth] != "__init__":
            yield "/".join(parts[:depth]), levels, parts[depth]


def is_concrete(imported):
    return any(
        imported == f"streamnb.{room}" or imported.startswith(f"streamnb.{room}.") for room in CONCRETE
    )


STAGES = tuple(f"streamnb.engine.{room}" for room in ("labels", "processing", "journal", "retraining"))
"""Rooms of the learner's stages. The recount, which judges them, shares no code with them."""


def complaints(name, tree):  # noqa: C901  one rule after the other
    """Yield a line for each import that a module must not have."""
    room = name.split("/")[0].removesuffix(".py")
    if name == "__init__.py":
        return  # the public names: it imports lazily
    for imported in imports(tree):
        top, *rest = imported.split(".")
        if top == "streamnb" and not rest:
            yield f"{name} imports the whole package"
        elif top == "streamnb":
            theirs = {folder: other for folder, _, other in floors("/".join(rest))}
            for folder, levels, own in floors(name):
                other = theirs.get(folder)
                if other is None:
                    yield f"{name} imports {imported} as a whole, which stands above its rooms"
                    break
                if other != own:
                    if not levels[other] < levels[own]:
                        yield f"{name} imports {imported}: {own} does not stand above {other}"
                    break
            if room in {"config", "engine"} and is_concrete(imported):
                yield f"{name} imports the concrete {imported}"
            if name.startswith(("verification/recount/", "verification/exact/")) and imported.startswith(
                STAGES
            ):
                yield f"{name} imports the stage {imported}"
        if name not in ONLY_IN.get(top, {name}):
            yield f"{name} imports {top}"
        if room in PURE and name not in OPENS_FILES and top in IMPURE:
            yield f"{name} is pure and imports {top}"


def test_imports_run_downhill():
    assert [line for module in modules() for line in complaints(*module)] == []


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("statistics/counts.py", "from streamnb.features.vocabulary import Vocabulary"),
        ("models/naive_bayes/linear_form.py", "from streamnb.toolbox.concepts.hypothesis_space import Label"),
        ("models/calibration/newton.py", "from streamnb.models.mixture.hypotheses import Hypothesis"),
        ("values/nominal_values.py", "from streamnb.engine.ports import Log"),
        ("engine/ports.py", "from streamnb.engine.processing.event_processor import EventProcessor"),
        ("engine/labels/watermark.py", "from streamnb.models.mixture.hypotheses import Hypothesis"),
        ("config/validators.py", "from streamnb.models.mixture.hypotheses import Hypothesis"),
        ("verification/exact/exact_moments.py", "from streamnb.verification.recount import event_recount"),
        (
            "verification/recount/event_recount.py",
            "from streamnb.engine.processing.prediction_pipeline import PredictionPipeline",
        ),
        (
            "verification/recount/label_recount.py",
            "from streamnb.engine.labels.source_labels import effective",
        ),
        ("event_logs/kafka/kafka_log.py", "from streamnb.runtime.worker import Worker"),
        ("cli/checks/log_checks.py", "from streamnb.cli.commands import topics"),
        ("cli/commands/run.py", "from streamnb.cli import main"),
        ("values/savable.py", "def save(): import_module('streamnb.persistence.model_files').save()"),
        ("models/one_dependence/one_dependence_kernels.py", "import numba"),
        ("engine/ports.py", "import time"),
    ],
)
def test_an_import_uphill_is_found(name, line):
    assert (ROOT / name).exists()
    assert len(list(complaints(name, ast.parse(line)))) == 1


def test_every_room_stands_on_a_floor():
    rooms = {path.relative_to(ROOT).parts[0].removesuffix(".py") for path in ROOT.rglob("*.py")} - {
        "__init__"
    }
    assert rooms == set(LEVELS[""])
    for folder, levels in LEVELS.items():
        if folder:
            inside = {
                path.relative_to(ROOT / folder).parts[0].removesuffix(".py")
                for path in (ROOT / folder).rglob("*.py")
            }
            assert inside - {"__init__"} == set(levels), folder


def test_every_room_says_what_it_is_and_nothing_is_called_by_what_it_is_not():
    for name, tree in modules():
        parts = name.split("/")
        assert not FORBIDDEN_NAMES & {part.removesuffix(".py") for part in parts}
        if parts[-1] == "__init__.py":
            assert ast.get_docstring(tree), name
        if (
            parts[0] in {"models", "toolbox", "statistics", "features", "values", "kernels"}
            and parts[-1] == "__init__.py"
        ):
            assert len(tree.body) == 1, f"{name}: importing one room loads one room"


def test_no_two_modules_and_no_two_classes_share_a_name():
    files = Counter(Path(name).stem for name, _ in modules())
    assert [name for name, n in files.items() if n > 1 and not name.startswith("__")] == []
    classes = Counter(
        node.name
        for name, tree in modules()
        if name != "client.py"  # a distribution of its own, whose users see no other class
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef)
    )
    assert [name for name, n in classes.items() if n > 1] == []


def test_no_circle_and_no_long_chain_inside_the_models():
    below = {
        f"streamnb/{name}".removesuffix(".py").replace("/", "."): set(imports(tree))
        for name, tree in modules()
        if name.split("/")[0]
        in {"values", "kernels", "statistics", "features", "scoring", "models", "toolbox"}
    }
    chain = {}
    for module in TopologicalSorter(below).static_order():  # raises CycleError
        # How kernels are compiled is one link: the models see the decorator alone.
        others = () if module.startswith("streamnb.kernels.") else below.get(module, ())
        under = [chain[other] for other in others if other in below]
        chain[module] = [module, *max(under, key=len, default=[])]
    longest = max(chain.values(), key=len)
    assert len(longest) <= 10, " > ".join(longest)


def test_pure_code_reads_no_clock_and_does_no_io():
    calls = {"open", "print", "input"}
    for name, tree in modules():
        if name.split("/")[0].removesuffix(".py") in PURE and name not in OPENS_FILES:
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


RENAMED = Path(__file__).with_name("renamed.tsv")


def definitions(room):  # noqa: C901  one case for each kind
    """Return the kind and name of everything that the modules of a room define, methods and fields with their class."""
    found = set()
    for name, tree in modules():
        if not f"{name.removesuffix('.py')}/".startswith(f"{room}/"):
            continue
        for node in tree.body:
            match node:
                case ast.FunctionDef() | ast.AsyncFunctionDef():
                    found.add(("function", node.name))
                case ast.ClassDef():
                    found.add(("class", node.name))
                    for part in node.body:
                        if isinstance(part, ast.FunctionDef | ast.AsyncFunctionDef):
                            found.add(("member", f"{node.name}.{part.name}"))
                        elif isinstance(part, ast.AnnAssign):
                            found.add(("member", f"{node.name}.{ast.unparse(part.target)}"))
                case ast.Assign():
                    found |= {("variable", ast.unparse(target)) for target in node.targets}
                case ast.AnnAssign():
                    found.add(("variable", ast.unparse(node.target)))
    return found


def test_no_former_name_comes_back():
    rows = [line.split("\t") for line in RENAMED.read_text().splitlines()[1:]]
    assert len(rows) > 400
    by_room = {room: definitions(room) for room, *_ in rows}
    assert [row for row in rows if (row[1], row[2]) in by_room[row[0]]] == []
    assert re.fullmatch(r"room\tkind\told\tnew", RENAMED.read_text().splitlines()[0])
