"""The Kafka brokers that other tests rest on: they keep what they acknowledge, they refuse whom they should refuse."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import NewTopic
from kafka.errors import KafkaError, KafkaTimeoutError, NotEnoughReplicasError, TopicAuthorizationFailedError
from kafka.net.compat import KafkaNetClient

from tests import ROOT
from tests.brokers import archive, jars
from tests.brokers import cluster as cluster_module
from tests.brokers.cluster import Cluster, free_ports
from tests.brokers.jars import CannotStartError, ToolMissingError
from tests.brokers.numbered import NUMBERS

pytestmark = [pytest.mark.thorough, pytest.mark.early(22)]

SERVE = [sys.executable, "-m", "tests.brokers.serve"]


# -- what a client does -----------------------------------------------------------------------------------


def create(client, **settings):
    name = f"topic-{next(NUMBERS)}"
    with KafkaAdminClient(**client) as admin:
        admin.create_topics([NewTopic(name, **(settings or {"num_partitions": 1}))])
    return name


@contextmanager
def producing(client, seconds=60, **settings):
    """A producer that gives up after some seconds."""
    limit = seconds * 1000
    limits = {"request_timeout_ms": limit // 2, "delivery_timeout_ms": limit, "max_block_ms": limit}
    producer = KafkaProducer(**client, acks="all", **limits, **settings)
    try:
        yield producer
    finally:
        producer.close(timeout=1)


def send(client, topic, *values, **settings):
    """Returns once all are acknowledged."""
    with producing(client, **settings) as producer:
        for delivery in [producer.send(topic, value) for value in values]:
            delivery.get(timeout=60)


def refuse(client):
    """That a client cannot come in. kafka-python leaves its thread and sockets behind then: they go here."""
    made = []

    def keep(**settings):
        made.append(KafkaNetClient(**settings))
        return made[0]

    with pytest.raises(KafkaTimeoutError):
        KafkaAdminClient(**client, bootstrap_timeout_ms=2000, kafka_client=keep)
    made[0].close()
    made[0]._manager._net.close()


def read(client, topic, at_least):
    """The topic's values from its beginning on, as soon as there are enough."""
    found, deadline = [], time.monotonic() + 60
    with closing(KafkaConsumer(**client, group_id=None, auto_offset_reset="earliest")) as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        while len(found) < at_least and time.monotonic() < deadline:
            for records in consumer.poll(timeout_ms=200).values():
                found += [record.value for record in records]
    return found


def partition(client, topic):
    """Of the topic's one partition, what a node says that has heard of it."""
    with KafkaAdminClient(**client) as admin:
        return wait_until(lambda: admin.describe_topics([topic])[0]["partitions"])[0]


def plain(broker):
    return {"bootstrap_servers": broker.address.split(",")}


def values(name, number=20):
    return [f"{name} {i}".encode() for i in range(number)]


def wait_until(condition):
    deadline = time.monotonic() + 60
    while not (met := condition()):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    return met


# -- one node ---------------------------------------------------------------------------------------------


def test_one_node_takes_and_gives_records(broker):
    topic = create(plain(broker))
    send(plain(broker), topic, *values("a"))
    assert read(plain(broker), topic, 20) == values("a")


def test_what_was_acknowledged_survives_a_kill_and_a_stop(lone_broker):
    address, topic = lone_broker.address, create(plain(lone_broker))
    send(plain(lone_broker), topic, *values("before"))
    lone_broker.nodes[0].kill()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", int(address.split(":")[1])))
    lone_broker.start()
    assert lone_broker.address == address
    send(plain(lone_broker), topic, *values("between"))
    restart = threading.Thread(target=lone_broker.restart)
    restart.start()
    restart.join()
    send(plain(lone_broker), topic, *values("after"))  # a broker outlives the thread that started it
    assert read(plain(lone_broker), topic, 60) == values("before") + values("between") + values("after")


def test_a_paused_node_is_silent_and_a_resumed_one_answers(lone_broker):
    topic = create(plain(lone_broker))
    lone_broker.nodes[0].pause()
    refuse(plain(lone_broker))
    lone_broker.start()
    send(plain(lone_broker), topic, b"y")
    assert read(plain(lone_broker), topic, 1) == [b"y"]


@pytest.mark.usefixtures("broker")  # skipped where none can be started
def test_a_start_that_finds_its_port_taken_takes_another(tmp_path, monkeypatch):
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        taken = other.getsockname()[1]
        offers = iter([[taken, *free_ports(1)]])
        monkeypatch.setattr(cluster_module, "free_ports", lambda n: next(offers, None) or free_ports(n))
        started = Cluster(tmp_path)
        assert started.address == f"127.0.0.1:{taken}"
        try:
            started.start()
            assert started.address != f"127.0.0.1:{taken}"
            send(plain(started), create(plain(started)), b"x")
        finally:
            started.kill()


def test_an_archive_of_classes_that_is_damaged_hinders_no_start(tmp_path, monkeypatch):
    junk = tmp_path / "classes.jsa"
    junk.write_bytes(b"junk" * 1000)
    monkeypatch.setattr(archive, "place", lambda: junk)
    assert f"-XX:SharedArchiveFile={junk}" in archive.arguments()
    started = Cluster(tmp_path / "broker")
    try:
        started.start()
        send(plain(started), create(plain(started)), b"x")
    finally:
        started.kill()


# -- three nodes ------------------------------------------------------------------------------------------


def refusal(client, topic):
    try:
        send(client, topic, b"x", retries=0, enable_idempotence=False)
    except KafkaError as error:
        return type(error)
    raise AssertionError("acknowledged")


def test_three_nodes_survive_the_death_of_a_leader_and_acknowledge_what_two_hold(cluster):
    topic = create(plain(cluster))
    first = partition(plain(cluster), topic)["leader_id"]
    assert sorted(partition(plain(cluster), topic)["replica_nodes"]) == [1, 2, 3]
    narrow = create(plain(cluster), replica_assignments={0: [first, first % 3 + 1]})
    send(plain(cluster), topic, *values("before"))
    send(plain(cluster), narrow, b"two hold it")
    cluster.nodes[first - 1].kill()
    send(plain(cluster), topic, *values("during"))
    assert partition(plain(cluster), topic)["leader_id"] != first
    wait_until(lambda: refusal(plain(cluster), narrow) is NotEnoughReplicasError)
    cluster.nodes[first - 1].start()
    send(plain(cluster), topic, *values("after"))
    assert read(plain(cluster), topic, 60) == values("before") + values("during") + values("after")


def test_with_two_nodes_down_nothing_is_acknowledged_and_nothing_is_ever_lost(cluster):
    topic = create(plain(cluster))
    with producing(plain(cluster), seconds=4) as producer:
        for value in values("before"):
            producer.send(topic, value).get(timeout=60)
        cluster.nodes[0].kill()
        cluster.nodes[1].pause()
        with pytest.raises(KafkaError):
            producer.send(topic, b"refused").get(timeout=60)
    cluster.kill()
    cluster.start()
    assert sorted(partition(plain(cluster), topic)["isr_nodes"]) == [1, 2, 3]
    send(plain(cluster), topic, *values("after"))
    kept = [value for value in read(plain(cluster), topic, 40) if value != b"refused"]
    assert kept == values("before") + values("after")


# -- the secured node -------------------------------------------------------------------------------------


@pytest.fixture
def granted(secured_broker):
    """A topic that the user may write and read."""
    topic = create(secured_broker.client("admin"))
    secured_broker.grant("topic", topic, "read", "write", "describe")
    yield topic
    secured_broker.revoke_all()


def failures(broker):
    """How often the broker has refused a password since it was started."""
    return broker.nodes[0].tail(None).count("due to invalid credentials")


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-512", "SCRAM-SHA-256"])
def test_the_right_password_is_let_in(secured_broker, granted, mechanism):
    client = secured_broker.client(mechanism=mechanism)
    send(client, granted, *values("a"))
    assert read(client, granted, 20) == values("a")


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-512", "SCRAM-SHA-256"])
def test_a_wrong_password_is_refused(secured_broker, mechanism):
    before = failures(secured_broker)
    refuse(secured_broker.client("streamnb", "wrong", mechanism))
    wait_until(lambda: failures(secured_broker) > before)


def test_a_broker_whose_authority_is_unknown_is_refused_by_the_client(secured_broker, caplog):
    refuse({**secured_broker.client(), "ssl_cafile": str(secured_broker.wrong_ca_path)})
    assert "CERTIFICATE_VERIFY_FAILED" in caplog.text


def test_nobody_comes_in_the_clear(secured_broker):
    refuse({"bootstrap_servers": secured_broker.address})


def test_what_is_not_granted_is_refused(secured_broker):
    topic, user = create(secured_broker.client("admin")), secured_broker.client()
    with pytest.raises(TopicAuthorizationFailedError):
        send(user, topic, b"x")
    secured_broker.grant("topic", "topic-", "write", "describe", prefixed=True)
    send(user, topic, b"x")
    secured_broker.revoke_all()
    with pytest.raises(TopicAuthorizationFailedError):
        send(user, topic, b"x")


# -- `make kafka`, and the end of the process that started a broker ------------------------------------------


def processes_of(folder):
    """Broker processes that live in a folder."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            command = path.read_bytes()
        except OSError:
            continue
        if b"kafka.Kafka" in command and str(folder).encode() in command:
            found.append(int(path.parent.name))
    return found


def serve(folder, port):
    process = subprocess.Popen(
        [*SERVE, folder],
        cwd=ROOT,
        env=os.environ | {"KAFKA_PORT": str(port)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    said = []
    for line in process.stdout:
        said.append(line)
        if "streamnb run" in line:
            break
    return process, "".join(said)


def end(process, number=0):
    process.send_signal(number)
    process.stdout.read()
    process.stdout.close()
    return process.wait()


def test_make_kafka_keeps_its_data_and_leaves_no_orphan_however_it_ends(broker, tmp_path):
    (port,) = free_ports(1)
    client = {"bootstrap_servers": f"127.0.0.1:{port}"}

    process, said = serve(tmp_path, port)
    assert f"streamnb topics create --log kafka://127.0.0.1:{port}\n" in said
    topic = create(client)
    send(client, topic, *values("a"))
    assert len(processes_of(tmp_path)) == 1
    assert end(process, signal.SIGINT) == 0
    assert processes_of(tmp_path) == []

    process, said = serve(tmp_path, broker.address.split(":")[1])
    assert f"{broker.address} is taken" in said
    assert end(process) == 1
    assert processes_of(tmp_path) == []

    process, _ = serve(tmp_path, port)
    assert read(client, topic, 20) == values("a")
    assert end(process, signal.SIGKILL) == -signal.SIGKILL
    wait_until(lambda: processes_of(tmp_path) == [])


def test_make_kafka_says_in_one_line_what_is_missing(tmp_path):
    done = subprocess.run(
        [*SERVE, tmp_path], cwd=ROOT, env={"PATH": str(tmp_path)}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert "is not installed" in done.stderr


@pytest.mark.usefixtures("broker")
def test_a_log_is_shown_where_a_test_fails(tmp_path):
    (tmp_path / "conftest.py").write_text('pytest_plugins = ["tests.brokers.broker_fixtures"]\n')
    (tmp_path / "test_it.py").write_text(
        "def test_bad(request):\n    assert request.getfixturevalue('broker') is None\n"
        "def test_unrelated():\n    raise AssertionError\n"
    )
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--basetemp", tmp_path / "base", tmp_path],
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.count("2 failed") == 1
    assert done.stdout.count("Kafka broker, whole log in") == 1
    assert "Kafka Server started" in done.stdout
    shown = done.stdout.split("whole log in ")[1].split()[0]
    assert "Kafka Server started" in Path(shown).read_text()
    assert processes_of(tmp_path) == []


# -- the jars ---------------------------------------------------------------------------------------------


@pytest.fixture
def maven(tmp_path, monkeypatch):
    """A Maven that needs a while, counts its calls, and fails half-way while the file `broken` is there."""
    tools = tmp_path / "tools"
    tools.mkdir()
    (tools / "java").write_text("#!/bin/sh\n")
    (tools / "mvn").write_text(
        f"""#!/bin/sh
        for word; do case $word in -DoutputDirectory=*) out=${{word#*=}};; esac; done
        echo call >> {tmp_path}/calls
        touch $out/first.jar; sleep 0.5
        if [ -e {tmp_path}/broken ]; then echo no network; exit 1; fi
        touch $out/second.jar
        """
    )
    for tool in tools.iterdir():
        tool.chmod(0o755)
    monkeypatch.setenv("PATH", str(tools), prepend=os.pathsep)
    return tmp_path


def jars_of(classpath):
    return sorted(path.name for path in Path(classpath).parent.iterdir())


def test_a_half_done_download_is_done_again(maven):
    cache = maven / "libs"
    (maven / "broken").touch()
    with pytest.raises(ToolMissingError, match="no network"):
        jars.libraries(cache)
    (maven / "broken").unlink()
    assert jars_of(jars.libraries(cache)) == ["first.jar", "second.jar"]
    assert not list(cache.glob("partial-*"))


def test_two_that_need_the_jars_at_once_fetch_them_once(maven):
    program = f"from tests.brokers import jars; print(jars.libraries({str(maven / 'libs')!r}))"

    def another():
        return subprocess.run(
            [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True
        ).stdout.strip()

    with ThreadPoolExecutor(3) as pool:
        found = {future.result() for future in [pool.submit(another) for _ in range(3)]}
    (classpath,) = found
    assert jars_of(classpath) == ["first.jar", "second.jar"]
    assert (maven / "calls").read_text().count("call") == 1


def test_ports_are_not_those_of_outgoing_connections():
    first = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    ports = free_ports(50)
    assert len(set(ports)) == 50
    assert all(10_000 <= port < max(first, 20_000) for port in ports)


@pytest.mark.parametrize("ci", [True, False])
def test_without_java_a_test_is_skipped_and_in_ci_it_fails(monkeypatch, tmp_path, ci):
    from tests.brokers import broker_fixtures

    monkeypatch.setenv("CI", "true" if ci else "")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(CannotStartError if ci else pytest.skip.Exception, match="is not installed"):
        next(broker_fixtures.running("none", lambda: Cluster(tmp_path)))
