"""One process of Apache Kafka, without Docker: broker and controller in one (KRaft)."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.brokers import archive
from tests.brokers.jars import CannotStartError, libraries, require

SECONDS_TO_START = 180
SECONDS_TO_STOP = 30

# The kernel kills a broker when the *thread* that started it ends (PR_SET_PDEATHSIG). One thread, which lives as
# long as this process, starts them all: they survive the threads of a test, and never this process, however it ends.
STARTER = ThreadPoolExecutor(1, "broker-starter")
DIES_WITH_US = ("setpriv", "--pdeathsig", "KILL")

# Compiling with C1 alone and collecting on one thread halve the processor time of a start.
JAVA = ("java", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-XX:-UsePerfData",
        "-Dorg.slf4j.simpleLogger.showDateTime=true",
        "-Dorg.slf4j.simpleLogger.dateTimeFormat=HH:mm:ss.SSS")  # fmt: skip


class PortTakenError(CannotStartError):
    """Another process listens on a port of this broker."""


class Broker:
    """One node of a cluster. Its folder holds server.properties, data, and broker.log, to which every start appends.

    Args:
        number: node.id.
        folder: where it lives.
        client: settings of kafka-python with which its clients reach it, bootstrap_servers apart.
        heap: of Java, such as "512m".
        java: more that Java is told.
    """

    def __init__(self, number, folder, *, client, heap, java=()):
        require("setpriv", "it ends the broker when the tests are killed (util-linux)")
        self.number = number
        self.folder = Path(folder)
        self.log = self.folder / "broker.log"
        self.address = ""
        self._client = client
        self._heap = heap
        self._java = java
        self._classpath = libraries()
        self._properties = self.folder / "server.properties"
        self._process = None
        self._log_start = 0
        self.folder.mkdir(parents=True, exist_ok=True)

    def configure(self, address, settings):
        self.address = address
        settings = {**settings, "log.dirs": self.folder / "data"}
        self._properties.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))

    def format(self, cluster_id, arguments):
        """Begin to format the data folder; the process that does it, None where it is formatted."""
        if self._cluster_id():
            return None
        command = [*JAVA, *archive.arguments(), "-cp", self._classpath, "kafka.tools.StorageTool", "format",
                   f"--cluster-id={cluster_id}", "--config", self._properties, *arguments]  # fmt: skip
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    # -- life and death -----------------------------------------------------------------------------------

    @property
    def running(self):
        return self._process is not None and self._process.poll() is None

    def launch(self):
        """Start the process, without waiting for it."""
        java = self._java or archive.arguments()
        command = [*DIES_WITH_US, *JAVA, *java, f"-Xmx{self._heap}", "-cp", self._classpath, "kafka.Kafka",
                   str(self._properties)]  # fmt: skip
        with self.log.open("ab") as log:
            self._log_start = log.tell()
            self._process = STARTER.submit(
                subprocess.Popen, command, stdout=log, stderr=log, start_new_session=True
            ).result()

    def start(self):
        """Start, and wait until the cluster counts this node; it needs a majority of the nodes."""
        self.launch()
        self.wait_for({self.number})
        return self

    def stop(self):
        """SIGTERM; SIGKILL where that is not enough, as for the last nodes of a cluster: they find no majority."""
        self.begin_stop()
        self.end_stop()

    def begin_stop(self):
        if self.running:
            self.resume()
            self._send(signal.SIGTERM)

    def end_stop(self):
        if self._process is not None:
            try:
                self._process.wait(SECONDS_TO_STOP)
            except subprocess.TimeoutExpired:
                self.kill()

    def wait(self):
        """Until it ends by itself."""
        self._process.wait()

    def kill(self):
        """SIGKILL: as a crash."""
        if self.running:
            self._send(signal.SIGKILL)
            self._process.wait()

    def restart(self):
        self.stop()
        return self.start()

    def pause(self):
        """SIGSTOP: silent, and its connections stay open."""
        self._send(signal.SIGSTOP)

    def resume(self):
        self._send(signal.SIGCONT)

    def _send(self, number):
        os.killpg(self._process.pid, number)

    # -- what it says -------------------------------------------------------------------------------------

    def wait_for(self, numbers):
        """Wait until this node answers a client, and these nodes are up in what the client is told."""
        deadline = time.monotonic() + SECONDS_TO_START
        while not self._counts(numbers):
            if not self.running or time.monotonic() > deadline:
                raise self._failure()
            time.sleep(0.1)

    def tail(self, characters=4000):
        """The end of its log since it was started last; all of it where `characters` is None."""
        with self.log.open("rb") as log:
            log.seek(self._log_start)
            said = log.read().decode(errors="replace")
        return said if characters is None else said[-characters:]

    def _counts(self, numbers):
        from kafka import KafkaAdminClient
        from kafka.errors import KafkaError

        if "Kafka Server started" not in self.tail(None):  # asking earlier costs a client's whole timeout
            return False
        try:
            with KafkaAdminClient(**self._client, bootstrap_servers=self.address) as admin:
                found = admin.describe_cluster()
        except KafkaError:
            return False
        # Fenced nodes are listed too. The id tells our cluster from a stranger that took the port.
        up = {broker["broker_id"] for broker in found["brokers"] if not broker["is_fenced"]}
        return found["cluster_id"] == self._cluster_id() and numbers <= up

    def _failure(self):
        said = self.tail(None)
        if not self.running and "Address already in use" in said:
            return PortTakenError(f"a port of the broker at {self.address} is taken; its log is {self.log}")
        return CannotStartError(f"the broker does not start; its log {self.log} ends:\n{said[-3000:]}")

    def _cluster_id(self):
        """As formatted; empty where it is not."""
        written = self.folder / "data" / "meta.properties"
        lines = written.read_text().splitlines() if written.exists() else []
        ids = [line.removeprefix("cluster.id=") for line in lines if line.startswith("cluster.id=")]
        return "".join(ids)
