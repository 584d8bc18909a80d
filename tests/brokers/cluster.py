"""A Kafka cluster of one or three nodes on this machine."""

from __future__ import annotations

import base64
import contextlib
import random
import socket
import time
import uuid
from dataclasses import dataclass, field
from pathlib import Path

from tests.brokers.broker import SECONDS_TO_START, Broker, PortTakenError
from tests.brokers.jars import CannotStartError

ATTEMPTS = 5
EPHEMERAL = Path("/proc/sys/net/ipv4/ip_local_port_range")


@dataclass(frozen=True)
class Listener:
    """How clients talk to a cluster: the broker's side, and kafka-python's."""

    protocol: str = "PLAINTEXT"
    controller_protocol: str = "PLAINTEXT"
    settings: dict = field(default_factory=dict)
    format_arguments: tuple = ()
    client: dict = field(default_factory=dict)


def free_ports(count):
    """Ports that nobody uses, below those that the kernel gives to outgoing connections.

    So none of these takes a port while its node is down. Another listener may, between here and the start.
    """
    below = max(20_000, int(EPHEMERAL.read_text().split()[0]))
    with contextlib.ExitStack() as held:
        ports = []
        while len(ports) < count:
            probe = held.enter_context(socket.socket())
            with contextlib.suppress(OSError):
                probe.bind(("127.0.0.1", random.SystemRandom().randrange(10_000, below)))
                ports.append(probe.getsockname()[1])
        return ports


class Cluster:
    """Nodes that start, die and come back together or one by one, on the same ports with the same data.

    Three nodes keep three replicas of everything and acknowledge (acks=all) what two of them hold.

    Args:
        folder: holds one folder a node. What lies there from earlier is used again.
        nodes: 1 or 3.
        port: of the first node; else any.
        listener: how clients talk to it.
        java: what Java is told in place of `archive.arguments()`.
    """

    def __init__(self, folder, nodes=1, *, port=None, listener=None, java=()):
        self._listener = listener or Listener()
        self._port = port
        self._has_been_up = False
        heap = "512m" if nodes == 1 else "400m"
        self.nodes = [
            Broker(n, Path(folder) / f"node-{n}", client=self._listener.client, heap=heap, java=java)
            for n in range(1, nodes + 1)
        ]
        self._configure()
        self._format()

    @property
    def address(self):
        """The bootstrap servers, comma-separated."""
        return ",".join(node.address for node in self.nodes)

    def start(self):
        """Have every node up (those that are down are started, the paused resumed), counted and in sync."""
        for _ in range(ATTEMPTS):
            try:
                self._start()
            except PortTakenError:
                self.kill()
                if self._has_been_up or self._port:
                    raise
                self._configure()
            except CannotStartError:
                self.kill()
                raise
            else:
                self._has_been_up = True
                return self
        raise CannotStartError(f"found no free ports in {ATTEMPTS} attempts")

    def stop(self):
        """SIGTERM to all at once."""
        for node in self.nodes:
            node.begin_stop()
        for node in self.nodes:
            node.end_stop()

    def kill(self):
        """SIGKILL to all."""
        for node in self.nodes:
            node.kill()

    def restart(self):
        self.stop()
        return self.start()

    def _start(self):
        for node in self.nodes:
            if node.running:
                node.resume()
            else:
                node.launch()
        numbers = {node.number for node in self.nodes}
        for node in self.nodes:
            node.wait_for(numbers)
        self._wait_until_in_sync()

    def _wait_until_in_sync(self):
        """A test that kills one node may rely on the two others, right away."""
        from kafka import KafkaAdminClient

        deadline = time.monotonic() + SECONDS_TO_START
        with KafkaAdminClient(**self._listener.client, bootstrap_servers=self.address.split(",")) as admin:
            while True:
                topics = admin.describe_topics()
                behind = [p for topic in topics for p in topic["partitions"] if not _in_sync(p)]
                if not behind:
                    return
                if time.monotonic() > deadline:
                    raise CannotStartError(f"replicas do not get in sync: {behind}")
                time.sleep(0.1)

    # -- settings -----------------------------------------------------------------------------------------

    def _configure(self):
        ports = free_ports(2 * len(self.nodes))
        if self._port:
            ports[0] = self._port
        clients, controllers = ports[: len(self.nodes)], ports[len(self.nodes) :]
        voters = ",".join(
            f"{node.number}@127.0.0.1:{port}" for node, port in zip(self.nodes, controllers, strict=True)
        )
        for node, port, controller in zip(self.nodes, clients, controllers, strict=True):
            settings = {
                "node.id": node.number,
                "listeners": f"CLIENT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}",
                "advertised.listeners": f"CLIENT://127.0.0.1:{port}",
                "controller.quorum.voters": voters,
            }
            node.configure(f"127.0.0.1:{port}", settings | self._common() | self._listener.settings)

    def _common(self):
        replicas = len(self.nodes)
        in_sync = 2 if replicas == 3 else 1
        protocols = self._listener.protocol, self._listener.controller_protocol
        return {
            "process.roles": "broker,controller",
            "controller.listener.names": "CONTROLLER",
            "inter.broker.listener.name": "CLIENT",
            "listener.security.protocol.map": "CLIENT:{},CONTROLLER:{}".format(*protocols),
            "default.replication.factor": replicas,
            "min.insync.replicas": in_sync,
            "offsets.topic.replication.factor": replicas,
            "transaction.state.log.replication.factor": replicas,
            "transaction.state.log.min.isr": in_sync,
            "share.coordinator.state.topic.replication.factor": replicas,
            "share.coordinator.state.topic.min.isr": in_sync,
            "offsets.topic.num.partitions": 3,
            "transaction.state.log.num.partitions": 3,
            "group.initial.rebalance.delay.ms": 0,
            "group.min.session.timeout.ms": 1000,
            # A node that was killed is missed after three seconds, and not let back in earlier.
            "broker.session.timeout.ms": 3000,
            "broker.heartbeat.interval.ms": 500,
            # What is idle writes that it is no more than now and then, and takes half the processor.
            "metadata.max.idle.interval.ms": 5000,
            "auto.create.topics.enable": "false",
            "message.max.bytes": 4 << 20,
        }

    def _format(self):
        cluster_id = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        running = [node.format(cluster_id, self._listener.format_arguments) for node in self.nodes]
        for process in filter(None, running):
            said, _ = process.communicate()
            if process.returncode:
                raise CannotStartError(f"the data folder cannot be formatted: {said[-2000:]}")


def _in_sync(partition):
    return partition["leader_id"] >= 0 and set(partition["isr_nodes"]) == set(partition["replica_nodes"])
