"""How the brokers of other tests and of `make kafka` are started and ended."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import NewTopic

from tests import ROOT
from tests.brokers import archive, jars
from tests.brokers import cluster as cluster_module
from tests.brokers.cluster import Cluster, free_ports
from tests.brokers.jars import CannotStartError, ToolMissingError
from tests.brokers.numbered import NUMBERS
from tests.support.program import until

pytestmark = [pytest.mark.thorough, pytest.mark.early(22)]

SERVE = [sys.executable, "-m", "tests.brokers.serve"]


# -- what a client does -----------------------------------------------------------------------------------


def create(client):
    name = f"topic-{next(NUMBERS)}"
    with KafkaAdminClient(**client) as admin:
        admin.create_topics([NewTopic(name, num_partitions=1)])
    return name


def send(client, topic, *values):
    """Returns once all are acknowledged."""
    with closing(KafkaProducer(**client, acks="all")) as producer:
        for delivery in [producer.send(topic, value) for value in values]:
            delivery.get(timeout=60)


def read(client, topic, at_least):
    """The topic's values from its beginning on, as soon as there are enough."""
    found, deadline = [], time.monotonic() + 60
    with closing(KafkaConsumer(**client, group_id=None, auto_offset_reset="earliest")) as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        while len(found) < at_least and time.monotonic() < deadline:
            for records in consumer.poll(timeout_ms=200).values():
                found += [record.value for record in records]
    return found


def plain(broker):
    return {"bootstrap_servers": broker.address.split(",")}


def values(name, number=20):
    return [f"{name} {i}".encode() for i in range(number)]


# -- one node ---------------------------------------------------------------------------------------------


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
    until(lambda: processes_of(tmp_path) == [])


def test_make_kafka_says_in_one_line_what_is_missing(tmp_path):
    done = subprocess.run(
        [*SERVE, tmp_path], cwd=ROOT, env={"PATH": str(tmp_path)}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert "is not installed" in done.stderr


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
