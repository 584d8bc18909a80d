"""A real Apache Kafka broker (KRaft, one node) for tests: started from Maven's jars, without Docker."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import time
from pathlib import Path

HERE = Path(__file__).parent
LIBS = HERE.parents[1] / ".pytest_cache" / "kafka-libs"
CLUSTER = "MkU3OEVBNTcwNTJENDM2Qg"
SECONDS_TO_START = 60


class CannotStartError(Exception):
    """What is missing."""


def libraries():
    """The jars, fetched once."""
    for tool in ("java", "mvn"):
        if shutil.which(tool) is None:
            raise CannotStartError(f"{tool} is not installed: a Kafka broker needs Java 17 and Maven")
    done = LIBS / "done"
    if not done.exists():
        LIBS.mkdir(parents=True, exist_ok=True)
        command = ["mvn", "-q", "-B", "-f", HERE / "pom.xml", "dependency:copy-dependencies", "-DincludeScope=runtime",
                   f"-DoutputDirectory={LIBS}"]  # fmt: skip
        fetched = subprocess.run(command, capture_output=True, text=True, check=False)
        if fetched.returncode:
            raise CannotStartError(f"Maven could not fetch the broker: {fetched.stdout[-500:]}")
        done.touch()
    return f"{LIBS}/*"


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Broker:
    """One node that is broker and controller. Its log is kept in the folder, and shown where it does not start."""

    def __init__(self, folder):
        self.folder = Path(folder)
        self.port, self._controller = free_port(), free_port()
        self._classpath = libraries()
        self._process = None
        self.folder.mkdir(parents=True, exist_ok=True)
        self._properties = self.folder / "server.properties"
        self._properties.write_text(self._settings())
        self._run_tool("kafka.tools.StorageTool", "format", "-t", CLUSTER, "-c", self._properties)

    @property
    def address(self):
        return f"127.0.0.1:{self.port}"

    def start(self):
        log = (self.folder / "broker.log").open("ab")
        command = ["java", "-Xmx512m", "-cp", self._classpath, "kafka.Kafka", self._properties]
        self._process = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)
        log.close()
        deadline = time.monotonic() + SECONDS_TO_START
        while not self._answers():
            if self._process.poll() is not None or time.monotonic() > deadline:
                tail = (self.folder / "broker.log").read_text(errors="replace")[-2000:]
                raise CannotStartError(f"the broker does not start:\n{tail}")
            time.sleep(0.1)
        return self

    def kill(self):
        """As a crash of the machine's process would: SIGKILL."""
        self._end(signal.SIGKILL)

    def stop(self):
        self._end(signal.SIGTERM)

    def _end(self, number):
        if self._process is not None and self._process.poll() is None:
            os.killpg(self._process.pid, number)
            self._process.wait(timeout=60)
        self._process = None

    def _answers(self):
        started = "Kafka Server started" in (self.folder / "broker.log").read_text(errors="replace")
        with socket.socket() as probe:
            return started and probe.connect_ex(("127.0.0.1", self.port)) == 0

    def _run_tool(self, *arguments):
        command = ["java", "-cp", self._classpath, *map(str, arguments)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise CannotStartError(done.stdout[-1000:] + done.stderr[-1000:])

    def _settings(self):
        lines = {
            "process.roles": "broker,controller",
            "node.id": 1,
            "controller.quorum.voters": f"1@127.0.0.1:{self._controller}",
            "listeners": f"PLAINTEXT://127.0.0.1:{self.port},CONTROLLER://127.0.0.1:{self._controller}",
            "advertised.listeners": f"PLAINTEXT://127.0.0.1:{self.port}",
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "log.dirs": self.folder / "data",
            "offsets.topic.replication.factor": 1,
            "transaction.state.log.replication.factor": 1,
            "transaction.state.log.min.isr": 1,
            "share.coordinator.state.topic.replication.factor": 1,
            "share.coordinator.state.topic.min.isr": 1,
            "group.initial.rebalance.delay.ms": 0,
            "group.min.session.timeout.ms": 1000,
            "offsets.topic.num.partitions": 3,
            "transaction.state.log.num.partitions": 3,
            "auto.create.topics.enable": "false",
            "message.max.bytes": 4 << 20,
        }
        return "\n".join(f"{key}={value}" for key, value in lines.items()) + "\n"
