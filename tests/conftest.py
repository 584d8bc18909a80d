"""What all tests share: hypothesis without deadlines (no test asserts a time), and the real streams."""

from __future__ import annotations

import contextlib
import gc
import math
import os
import re
import socket
import warnings
from functools import cache, partial
from itertools import count
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from streamnb.config import Config

HELD = pytest.StashKey()
LOGS = ["sqlite", "kafka"]
"""What `open_log` opens, unless a file has LOGS of its own; "librdkafka" is Kafka by another client."""
pytest_plugins = ["tests.brokers.broker_fixtures", "tests.support.command_fixtures"]

# How long examples take to make depends on what else the machine does.
TIMELESS = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}
settings.register_profile("default", max_examples=25, **TIMELESS)
settings.register_profile("ci", max_examples=25, derandomize=True, print_blob=True, **TIMELESS)
settings.register_profile("storm", max_examples=1000, **TIMELESS)
settings.register_profile("fast", max_examples=10, **TIMELESS)
PROFILE = os.environ.get("HYPOTHESIS_PROFILE", "ci" if os.environ.get("CI") == "true" else "default")
settings.load_profile(PROFILE)

STREAMS = Path(os.environ.get("LABELLED_STREAMS", Path(__file__).resolve().parents[2] / "shared" / "data"))


GATES = {
    "not slow": r"(?m)^pytestmark = .*\bmark\.slow\b",
    "not storm": r"(?m)^pytestmark = .*\bmark\.storm\b",
    "not thorough": r"(?m)^pytestmark = .*\bmark\.(thorough|storm)\b",
    "storm": r"\bmark\.storm",
    "thorough": r"\bmark\.(thorough|storm)",
}
"""Of each term of a gate's expression, what the text of a file holds all of whose tests it leaves out, and some of whose it takes."""


def pytest_configure(config):
    """Hold the port on which learners answer by default: a test that forgets to say where its own answer always fails.

    Else it fails now and then, when the learner of another test is there at the same time.
    """
    if not hasattr(config, "workerinput"):
        held = config.stash[HELD] = socket.socket()
        with contextlib.suppress(OSError):  # another run of the tests holds it, or a learner
            held.bind(Config().http.address)


def pytest_unconfigure(config):
    if HELD in config.stash:
        config.stash[HELD].close()


@cache
def read(path):
    return path.read_text("utf-8")


def pytest_ignore_collect(collection_path, config):
    """Ignore a file that has no test of the gate: importing it and rewriting its assertions takes longer than reading it."""
    if collection_path.suffix != ".py" or not collection_path.name.startswith("test_"):
        return None
    for term in config.option.markexpr.split(" and "):
        if term in GATES and bool(re.search(GATES[term], read(collection_path))) == term.startswith("not "):
            return True
    return None


def has_case(item, case):
    """Return True if these words of an id follow each other in that of the item, as `kafka-pruned` do in `kafka-pruned-7`."""
    return hasattr(item, "callspec") and f"-{case}-" in f"-{item.callspec.id}-"


def is_meant(mark, item):
    """Return True if a mark `thorough_for` or `storm_for` is about this case of a test."""
    but = mark.kwargs.get("but", ())
    exceptions = (but,) if isinstance(but, str) else but
    return any(has_case(item, case) for case in mark.args) and not any(
        has_case(item, case) for case in exceptions
    )


@pytest.hookimpl(wrapper=True)
def pytest_pycollect_makeitem(name, obj):
    """Complain of a case in the mark of a test that the test does not have: it would be in another gate than it says."""
    items = yield
    cases = (
        [item for item in items or () if isinstance(item, pytest.Function)] if isinstance(items, list) else []
    )
    for mark in getattr(obj, "pytestmark", ()) if cases else ():
        if mark.name in {"thorough_for", "storm_for"}:
            but = mark.kwargs.get("but", ())
            for case in (*mark.args, *((but,) if isinstance(but, str) else but)):
                if not any(has_case(item, case) for item in cases):
                    raise pytest.UsageError(f"{name} has no case {case!r}, which its mark {mark.name} names")
    return items


def pytest_itemcollected(item):
    """Add the marks by which gates select to those that the test has."""
    for gate in ("storm", "thorough"):
        if any(is_meant(mark, item) for mark in item.iter_markers(f"{gate}_for")):
            item.add_marker(gate)
    if item.get_closest_marker("storm"):
        item.add_marker("thorough")
    for gate in ("storm", "thorough"):
        if item.get_closest_marker(gate) and not re.search(GATES[gate], read(item.path)):
            raise pytest.UsageError(
                f"{item.nodeid} is marked {gate}, and its file does not name that mark: its gate would ignore the file"
            )
    log = item.callspec.params.get("open_log") if hasattr(item, "callspec") else None
    if log not in {None, "sqlite"} or "run_broker" in getattr(item, "fixturenames", ()):
        item.add_marker("broker")


def place(item):
    mark = item.get_closest_marker("early")
    return mark.args[0] if mark else math.inf


def pytest_collection_modifyitems(config, items):
    items.sort(key=place)  # the sort is stable
    for law in {item.function for item in items if hasattr(getattr(item, "obj", None), "hypothesis")}:
        _have_fewer_examples(law, is_a_gate=config.option.markexpr == "not thorough")


def pytest_collection_finish():
    """What thousands of collected tests are made of is looked at no more: of a test that makes much it took half."""
    gc.collect()
    gc.freeze()


def _have_fewer_examples(law, *, is_a_gate):
    """Of a test that asks for a number of its own, too; hypothesis has no other way to say so.

    `make test-fast` tries ten, `make test` a third, or ten where that is less. Who runs a file, and `make storm`, tries all.
    """
    own = law._hypothesis_internal_use_settings
    asked = own.max_examples
    tried = min(asked, 10) if PROFILE == "fast" else max(min(asked, 10), asked // 3) if is_a_gate else asked
    law._hypothesis_internal_use_settings = settings(own, max_examples=tried)


@pytest.fixture(scope="session", autouse=True)
def _end_commands():
    from tests.support import commands

    yield
    commands.close()


@pytest.fixture(scope="session")
def nursery():
    """Starts lives of learners: to import everything and have kernels ready takes seconds, once for all files."""
    from tests.system.crashes.nursery import Nursery

    made = Nursery()
    yield made
    made.close()


@pytest.fixture(scope="session", autouse=True)
def _collect_forgotten_sockets():
    """Those of kafka-python's connections that failed, while their warnings can still be let pass."""
    yield
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()


@pytest.fixture(scope="session")
def streams():
    """The folder of real labelled streams; tests that need them are skipped where it is absent."""
    if not STREAMS.is_dir():
        pytest.skip(f"no labelled streams at {STREAMS} (set LABELLED_STREAMS)")
    return STREAMS


def pytest_generate_tests(metafunc):
    """`open_log` has a log of each kind, but where a test says which by itself; see `parameters`."""
    said = [mark.args[0] for mark in metafunc.definition.iter_markers("parametrize")]
    if "open_log" in metafunc.fixturenames and not any("open_log" in names for names in said):
        metafunc.parametrize("open_log", getattr(metafunc.module, "LOGS", LOGS), indirect=True)


def _create_each(log, topics):
    for name, partitions in topics.items():
        log.create_topic(name, partitions)


@pytest.fixture
def open_log(request, tmp_path):
    """Open the log of this test, once more each time; topics are made where they are given.

    `open_log.other()` is the same of another log: a law has one for each of its examples. What
    `open_log.hurried()` opens gives an election up after a second, as the commands do: it is for who stands by.
    """
    opened, files = [], count()

    def other():
        if request.param == "sqlite":
            from streamnb.event_logs.sqlite.sqlite_log import SqliteLog

            path = tmp_path / f"log{next(files) or ''}.db"
            connect = partial(SqliteLog, path, session_timeout=5.0)
            create, hurry = _create_each, {}
        else:
            from tests.brokers.numbered import NUMBERS
            from tests.brokers.prefixed import LIBRARIES, PrefixedKafkaLog

            address, prefix = request.getfixturevalue("broker").address, f"t{next(NUMBERS)}-"
            options = {"session_timeout": 6.0, "elected_within": 15.0, "library": LIBRARIES[request.param]}
            connect = partial(PrefixedKafkaLog, address, prefix, **options)
            create, hurry = PrefixedKafkaLog.create_topics, {"elected_within": 1.0}
        made = set()

        def opener(**topics):
            opened.append(connect())
            named = {name.replace("_", "-"): partitions for name, partitions in topics.items()}
            new = {name: partitions for name, partitions in named.items() if name not in made}
            if new:
                create(opened[-1], new)
            made.update(named)
            return opened[-1]

        def hurried():
            opened.append(connect(**hurry))
            return opened[-1]

        opener.other, opener.hurried = other, hurried
        return opener

    yield other()
    for log in opened:
        log.close()
