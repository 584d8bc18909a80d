"""Fixtures of real Kafka brokers, each started at its first use, and what brokers said when a test failed."""

from __future__ import annotations

import os

import pytest

from tests.brokers import archive
from tests.brokers.cluster import Cluster
from tests.brokers.jars import ToolMissingError
from tests.brokers.secured import SecuredBroker
from tests.brokers.shared import Host, Shared

STARTED = {}  # by the name of the fixture
HOST = pytest.StashKey()

# kafka-python forgets to close the sockets of connections that failed, as they do while a broker is down.
# Whichever test runs when they are collected would be blamed. Servers in Python have sockets with proto=0.
FORGOTTEN = (
    r"ignore:unclosed <(socket\.socket|ssl\.SSLSocket) fd=\d+, family=2, type=1, proto=6:ResourceWarning"
)


def pytest_configure(config):
    config.addinivalue_line("filterwarnings", FORGOTTEN)


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node):
    """Called of each worker in the process that has them."""
    config = node.config
    if HOST not in config.stash:
        config.stash[HOST] = Host(lambda: Cluster(config._tmp_path_factory.mktemp("kafka")))
    node.workerinput["broker_host"] = config.stash[HOST].address


def pytest_unconfigure(config):
    if HOST in config.stash:
        config.stash[HOST].close()


def running(name, make):
    """Start it, and end it after those that share it. Where this machine lacks what it needs the test is skipped; in CI it fails."""
    try:
        archive.prepare()
        STARTED[name] = make().start()
    except ToolMissingError as error:
        if os.environ.get("CI") == "true":
            raise
        pytest.skip(str(error))
    yield STARTED[name]
    STARTED.pop(name).kill()


@pytest.fixture(scope="session")
def run_broker():
    """Return `running`. Every fixture that starts a broker asks for this one, by which conftest.py knows the tests that need a broker."""
    return running


@pytest.fixture(scope="session")
def broker(request, run_broker, tmp_path_factory):
    """One node, which all workers of a run share: a test that stops or pauses it wants a `lone_broker`."""
    host = getattr(request.config, "workerinput", {}).get("broker_host")
    make = (lambda: Cluster(tmp_path_factory.mktemp("kafka"))) if host is None else (lambda: Shared(host))
    yield from run_broker("broker", make)


@pytest.fixture
def lone_broker(run_broker, tmp_path_factory):
    """One node for one test."""
    yield from run_broker("lone_broker", lambda: Cluster(tmp_path_factory.mktemp("lone")))


@pytest.fixture(scope="module")  # they keep a processor busy while nobody asks them anything
def three_nodes(run_broker, tmp_path_factory):
    yield from run_broker("three_nodes", lambda: Cluster(tmp_path_factory.mktemp("cluster"), nodes=3))


@pytest.fixture
def cluster(three_nodes):
    """Three nodes, all up and in sync, for tests that kill some: the next test gets all three again."""
    return three_nodes.start()


@pytest.fixture(scope="module")
def secured_broker(run_broker, tmp_path_factory):
    """One node that wants TLS, a password and ACLs."""
    yield from run_broker("secured_broker", lambda: SecuredBroker(tmp_path_factory.mktemp("secured")))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item):
    """A failed test shows what its brokers said last."""
    report = yield
    # Only the request knows of the fixtures that were asked for while the test ran.
    request = getattr(item, "_request", None)
    if report.failed and request is not None:
        for name in sorted(STARTED.keys() & set(request.fixturenames)):
            for node in STARTED[name].nodes:
                report.sections.append((f"Kafka broker, whole log in {node.log}", node.tail()))
    return report
