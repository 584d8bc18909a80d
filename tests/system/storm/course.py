"""The course of one storm: learners and a producer start, misfortunes strike, all drains, and the end is judged."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tests.brokers.cluster import Cluster
from tests.support import commands
from tests.support.program import Program
from tests.system.storm.embedded import EmbeddedSource, NoCluster, NoTransactions
from tests.system.storm.late_labels import RANKS, TOPIC, WEIGHTS, events_and_verdicts
from tests.system.storm.learners import Learners, await_state
from tests.system.storm.misfortunes import Misfortunes, Say
from tests.system.storm.reading import ends, last_journalled
from tests.system.storm.replicas import Replicas, turned_about
from tests.system.storm.schedule import Strike, schedule
from tests.system.storm.source import Source
from tests.system.storm.stream import Made, events
from tests.system.storm.transactions import Transactions
from tests.system.storm.verdict import INPUTS, judge

DRAIN_SECONDS = 180.0
SESSION = 2.0


@dataclass(frozen=True)
class Plan:
    """How large a storm is.

    Attributes:
        seed: of events and schedule.
        events: how many are written.
        rate: records a second.
        kills: of learners, at least.
        freezes: of learners, for longer than their session.
        broker_kills: at any moment.
        leader_kills: in mid-transaction; they need three nodes.
        nodes: of the cluster, 1 or 3.
        partitions: of the events.
        kind: of the model, "hypotheses", "mixture", which is the default one with alarms that renew it,
            "hidden_markov", "tenants", or "naive_bayes", whose labels come late.
        log: "kafka" or "sqlite".
        client: by which learners reach brokers.
        replicas: that follow all of it, see `replicas`; then the state is turned about once more at the end.
        forks: whether processes are forks of one that has imported everything: most of what the processor does in a
            short storm is to import.
    """

    seed: int
    events: int
    rate: float
    kills: int
    freezes: int
    broker_kills: int = 0
    leader_kills: int = 0
    nodes: int = 1
    partitions: int = 3
    kind: str = "hypotheses"
    log: str = "kafka"
    client: str = "kafka-python"
    replicas: int = 0
    forks: bool = False

    @property
    def is_late(self) -> bool:
        return self.kind == "naive_bayes"

    @property
    def is_of_entities(self) -> bool:
        return self.kind in {"hidden_markov", "tenants"}

    def stream(self) -> Iterator[Made]:
        if self.is_late:
            return events_and_verdicts(self.seed, self.events)
        return events(self.seed, self.events, of_entities=self.is_of_entities)

    def strikes(self) -> list[Strike]:
        return schedule(
            self.seed,
            self.events * (1 + self.is_late) / self.rate,
            kills=self.kills,
            freezes=self.freezes,
            broker_kills=self.broker_kills,
            leader_kills=self.leader_kills,
            session=SESSION,
        )


def rage(cluster: Cluster | NoCluster, folder: Path, plan: Plan, say: Say) -> dict[str, Any]:
    """The whole storm; its report."""
    began = time.monotonic()

    def tell(line: str) -> None:
        say(f"{time.monotonic() - began:7.1f} s  {line}")

    begin = commands.begin if plan.forks else commands.spawn
    program = Program(folder, cluster.address, begin=begin, **_sections(plan))
    topics = program.topics
    topics |= {"labels": TOPIC} if plan.is_late else {}
    program.run("topics", "create")
    strikes = plan.strikes()
    tell(f"{plan}")
    for strike in strikes:
        tell(f"planned: {strike.what} {strike.at:.2f} s after the stream begins, {strike.seconds:.2f} s")
    kafka = plan.log == "kafka"
    source: Source | EmbeddedSource = (Source if kafka else EmbeddedSource)(
        cluster.address, topics, plan.stream(), plan.rate
    )
    transactions: Transactions | NoTransactions = (
        Transactions(cluster.address, f"streamnb.{program.model}", topics["journal"])
        if kafka
        else NoTransactions()
    )
    learners = Learners(program)
    replicas = Replicas(program, plan.seed, plan.replicas) if plan.replicas else None
    misfortunes = Misfortunes(cluster, learners, transactions, tell)
    faults = []
    try:
        if await_state(learners, DRAIN_SECONDS, "running") is None:
            faults.append("no learner began")
        source.start()
        misfortunes.strike(strikes)
        source.join()
        tell("everything is written")
        if not _drained(cluster.address, topics, learners):
            faults.append("not all was learned")
        learners.stop()
        tell("stopped; looking at what is left")
        verdict = judge(program, cluster.address, plan.stream(), compares=plan.is_of_entities)
        if replicas is not None:
            faults += turned_about(program, replicas, cluster.address, tell)
    finally:
        learners.leave()
        if replicas is not None:
            replicas.close()
        program.close()
        transactions.close()
    verdict["faults"] = faults + source.complaints + learners.faults[:5] + verdict["faults"]
    return {
        **asdict(plan),
        **verdict,
        "kills": learners.killed.total(),
        "replica_kills": replicas.kills if replicas is not None else 0,
        "kills_by_state": dict(learners.killed),
        "kills_by_transaction": dict(misfortunes.transactions),
        "freezes": misfortunes.freezes,
        "broker_kills": misfortunes.broker_kills,
        "leader_kills": misfortunes.leader_kills,
        "takeovers": learners.recoveries,
        "ended_by_themselves": dict(learners.ended),
        "seconds": round(time.monotonic() - began, 1),
    }


def _model(plan: Plan) -> dict[str, Any]:
    """What is learned depends on the order of events: hypotheses are weighed, drawn, and some of them forget.

    Or entities have chains, and where one partition keeps all in order, some of them are forgotten.
    """
    if plan.kind == "hidden_markov":
        entities = 15 if plan.partitions == 1 else 100
        return {"model_keys": {"kind": plan.kind, "entities": entities, "time_to_live": "2h"}}
    if plan.kind == "tenants":
        most = (
            15 if plan.partitions == 1 else 100
        )  # where one partition keeps all in order, some have no place
        return {
            "model_keys": {"kind": plan.kind, "memory": "100KiB", "shared": True, "tenants": most},
            "topics": {"partitions": plan.partitions, "tenants": "standings"},
        }
    if plan.kind == "mixture":
        bounds = {"tolerated": 0.01, "alarming": 0.05}  # which the stream's noise is beyond
        return {"monitors": [{"name": "errors", "kind": "error-rate", **bounds, "action": "renew"}]}
    if plan.is_late:
        labels = {"ranks": RANKS, "weights": WEIGHTS}
        return {
            "model_keys": {"kind": plan.kind},
            "labels": labels,
            "classes": {"min_learns": 40},  # the rarest class comes out of quarantine late, and into it again
            "topics": {"partitions": plan.partitions, "labels": TOPIC},
        }
    return {
        "hypotheses": [
            {"likelihood": "multinomial", "alpha": 0.1},
            {"likelihood": "bernoulli"},
            {"likelihood": "presence", "half_life": "1d"},
        ],
        "posterior": {"prediction": "gibbs", "switching_rate": 0.001},
        "predictions": {"hypotheses": True},
    }


def _sections(plan: Plan) -> dict[str, Any]:
    """Commits in quick succession, so that many moments lie inside one; snapshots and sessions are short.

    Beside replicas more snapshots are kept, each of which says what its learner held.
    """
    more = {"every_events": 300, "keep": 1000} if plan.replicas else {}
    return {
        "topics": {"partitions": plan.partitions},
        **_model(plan),
        "events": {"clock": "event"},  # they are of years ago, and some have no time
        "drift": {"detectors": ["adwin", "ddm"]},
        "log": {"session_timeout": f"{SESSION:.0f}s", "client": plan.client},
        "kafka": {"transaction_timeout": "10s"},
        "commit": {"events": 500, "interval": "50ms"},
        "snapshots": {"every_events": 3000, "folder": "snapshots", **more},
        "http": {"listen": "127.0.0.1:0"},
    }


def _drained(address: str, topics: dict[str, str], learners: Learners) -> bool:
    """Whether all that was written is learned; not waited for where learners refuse, or nothing is learned.

    How long it takes in all is up to the machine.
    """
    positions, deadline = None, time.monotonic() + DRAIN_SECONDS
    inputs = [topics[role] for role in INPUTS if role in topics]
    while time.monotonic() < deadline and not learners.faults:
        last = last_journalled(address, topics["journal"])
        if last is not None and last["positions"] != positions:
            positions, deadline = last["positions"], time.monotonic() + DRAIN_SECONDS
            if positions == {topic: ends(address, topic) for topic in inputs}:
                return True
        time.sleep(0.5)
    return False
