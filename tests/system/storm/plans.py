"""How large storms are: two for every run of the tests, and those of ``make storm``."""

from __future__ import annotations

from tests.system.storm.course import Plan


def short(seed: int) -> Plan:
    return Plan(seed, events=15_000, rate=600.0, kills=8, freezes=1, broker_kills=1)


def chains(seed: int) -> list[Plan]:
    """Entities and their chains: three partitions of a broker, and one of an embedded log, where all is in order."""
    few = {"events": 60_000, "rate": 400.0, "freezes": 2, "kind": "hidden_markov"}
    return [
        Plan(seed, kills=16, broker_kills=2, **few),
        Plan(seed, kills=24, partitions=1, log="sqlite", **few),
    ]


def late(seed: int) -> list[Plan]:
    """Labels that come late, to learners of either client, and on an embedded log."""
    much = {"events": 50_000, "rate": 400.0, "kills": 24, "freezes": 2, "kind": "naive_bayes"}
    clients = ("kafka-python", "librdkafka")
    return [
        *(Plan(seed, broker_kills=2, client=client, **much) for client in clients),
        Plan(seed, log="sqlite", **much),
    ]


def mixture(seed: int) -> list[Plan]:
    """The default model, which alarms renew."""
    few = {"events": 40_000, "rate": 400.0, "kills": 16, "freezes": 2, "kind": "mixture"}
    return [Plan(seed, broker_kills=2, **few), Plan(seed, log="sqlite", **few)]


def tenants(seed: int) -> list[Plan]:
    """A model for each of some tenants, and one of all, most of them put away."""
    few = {"events": 30_000, "rate": 400.0, "kills": 16, "freezes": 2, "kind": "tenants"}
    return [Plan(seed, broker_kills=2, **few), Plan(seed, partitions=1, log="sqlite", **few)]


def short_late(seed: int) -> Plan:
    return Plan(seed, events=5_000, rate=400.0, kills=6, freezes=1, kind="naive_bayes", log="sqlite")


def full(seed: int) -> list[Plan]:
    """Many kills on one broker; then three brokers, whose leaders die in mid-transaction."""
    return [
        Plan(seed, events=210_000, rate=600.0, kills=34, freezes=4, broker_kills=4),
        Plan(seed, events=60_000, rate=300.0, kills=10, freezes=2, broker_kills=1, leader_kills=6, nodes=3),
    ]


def replicated(seed: int, log: str = "kafka", events: int = 3_000) -> Plan:
    """Replicas follow learners whose labels come late."""
    few = {"kills": 4, "freezes": 1, "broker_kills": int(log == "kafka"), "replicas": 2}
    return Plan(seed, events=events, rate=100.0, kind="naive_bayes", log=log, **few)
