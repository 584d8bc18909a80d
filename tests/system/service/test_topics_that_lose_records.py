"""Topics whose settings remove records, on a real broker: `run` and `doctor` report them before it hurts."""

from __future__ import annotations

import json
import time

import pytest
from kafka import KafkaProducer

from streamnb.engine.ports import Partition, between
from tests.brokers.prefixed import PrefixedKafkaLog
from tests.brokers.tool import run_tool
from tests.support.program import Program, until

pytestmark = [pytest.mark.thorough, pytest.mark.early(21)]

COMPACTED = ["cleanup.policy=compact", "segment.ms=100", "segment.bytes=1048576", "min.cleanable.dirty.ratio=0.01",
             "max.compaction.lag.ms=200"]  # fmt: skip
OFTEN = "from streamnb.runtime import worker; worker._SETTINGS_SECONDS = worker._PARTITION_SECONDS = 0.3"


@pytest.fixture
def program(tmp_path, broker):
    program = Program(
        tmp_path,
        broker.address,
        model_keys={"kind": "naive_bayes"},
        snapshots={"folder": str(tmp_path / "snapshots")},
        log_output={"format": "json"},
    )
    program.address = broker.address
    program.run("topics", "create")
    yield program
    program.close()


def configure(program, topic, *settings):
    line = f"kafka-configs.sh --bootstrap-server {program.address} --alter --entity-type topics --entity-name {topic}"
    run_tool(f"{line} --add-config {','.join(settings)}")


def feed(program, n, keys=10):
    producer = KafkaProducer(bootstrap_servers=program.address)
    for i in range(n):
        raw = json.dumps({"id": f"e{time.monotonic_ns()}", "text": "win cash", "label": "ab"[i % 2]}).encode()
        producer.send(program.topics["events"], key=b"k%d" % (i % keys), value=raw)
    producer.close()


def messages(command, event):
    return [one for one in map(json.loads, command.said().splitlines()) if one["event"] == event]


def held(log, partition, n):
    """Those of the first n offsets that have a record."""
    return {record.offset for record in between(log, partition, 0, n, 1000)}


def compacted(program, n):
    """Wait until compaction has removed records from the first n offsets; how many are left."""
    events = Partition(program.topics["events"], 0)

    def left():
        feed(program, 1)  # a new segment, so that the last one can be compacted
        time.sleep(1.0)
        with PrefixedKafkaLog(program.address, "") as log:
            found = len(held(log, events, n))
        return found if found < n else 0

    return until(left)


def test_a_compacted_topic_is_refused_or_its_losses_are_counted(program):
    events = program.topics["events"]
    configure(program, events, *COMPACTED)
    for _ in range(4):
        feed(program, 50)
        time.sleep(0.3)
    refused = program.start("run", "--until-end").finish()
    assert refused.process.returncode == 1
    (failed,) = messages(refused, "command-failed")
    assert f"topic {events}: cleanup.policy is compact: compaction removes records" in failed["message"]
    assert failed["command"].startswith(f"kafka-configs.sh --bootstrap-server {program.address} --alter ")
    doctor = json.loads(program.start("doctor", "--json").finish().said(0))
    (found,) = [one for one in doctor["findings"] if one["check"] == f"topic {events}"]
    assert (found["state"], found["do"]) == ("problem", failed["command"])

    compacted(program, 200)
    learner = program.start("run", "--until-end", "--accept-loss")
    assert learner.finish().process.returncode == 0, learner.said()
    (warned,) = messages(learner, "topic-loses-records")
    assert (warned["level"], warned["topic"], warned["command"]) == ("warning", events, failed["command"])
    lost = messages(learner, "records-missing")
    with PrefixedKafkaLog(program.address, "") as log:
        end = log.offsets(Partition(events, 0))[1]
    learned = len(program.read("predictions"))
    assert (lost[-1]["total"], lost[-1]["partition"]) == (end - learned, f"{events}/0")
    assert sum(one["missing"] for one in lost) == end - learned > 100

    run_tool(failed["command"])
    again = program.start("run", "--until-end").finish()
    assert (again.process.returncode, messages(again, "topic-loses-records")) == (0, [])


def test_a_policy_that_changes_is_reported_while_a_learner_runs(program):
    learner = program.start("run", first=OFTEN)
    feed(program, 20)
    until(lambda: len(program.read("predictions")) == 20)
    assert messages(learner, "topic-loses-records") == []
    configure(program, program.topics["events"], "cleanup.policy=compact")
    configure(program, program.topics["journal"], "retention.ms=3600000")
    until(lambda: len(messages(learner, "topic-loses-records")) == 2, learner.said)
    time.sleep(1.0)
    found = messages(learner, "topic-loses-records")
    assert [(one["topic"], one["setting"], one["value"]) for one in found] == [
        (program.topics["events"], "cleanup.policy", "compact"),
        (program.topics["journal"], "retention.ms", "3600000"),
    ] or [one["setting"] for one in found] == ["retention.ms", "cleanup.policy"]
    for one in found:
        run_tool(one["command"])
    learner.stop()
    assert program.start("run", "--until-end").finish().process.returncode == 0


def test_the_retention_of_a_topic_is_known_unless_it_is_unlimited(program):
    events, journal = program.topics["events"], program.topics["journal"]
    configure(program, events, "retention.ms=7200000")
    configure(program, journal, "retention.ms=-1")
    with PrefixedKafkaLog(program.address, "") as log:
        assert log.retention([events, journal]) == {events: 7200.0}


def test_a_journal_with_a_retention_is_a_warning_of_both(program):
    configure(program, program.topics["journal"], "retention.ms=3600000")
    learner = program.start("run", "--until-end").finish()
    (warned,) = messages(learner, "topic-loses-records")
    doctor = json.loads(program.start("doctor", "--json").finish().said(0))
    (found,) = [one for one in doctor["findings"] if one["check"] == f"topic {program.topics['journal']}"]
    assert (found["state"], found["do"]) == (warned["level"], warned["command"])
    assert learner.process.returncode == 0


def test_ends_of_transactions_and_aborted_records_are_no_losses(program):
    producer = KafkaProducer(bootstrap_servers=program.address, transactional_id=program.model)
    producer.init_transactions()
    learner = program.start("run", first=OFTEN)
    for number in range(12):
        producer.begin_transaction()
        for i in range(7):
            raw = json.dumps({"id": f"t{number}-{i}", "text": "win", "label": "ab"[i % 2]}).encode()
            producer.send(program.topics["events"], value=raw)
        producer.flush()
        producer.commit_transaction() if number % 2 else producer.abort_transaction()
        time.sleep(0.1)
    producer.close()
    until(lambda: len(program.read("predictions")) == 42)
    time.sleep(1.0)
    learner.stop()
    assert messages(learner, "records-missing") == []


def test_missing_offsets_are_counted_in_any_part_of_a_partition(program):
    configure(program, program.topics["events"], *COMPACTED)
    for _ in range(3):
        feed(program, 40)
        time.sleep(0.3)
    compacted(program, 120)
    events = Partition(program.topics["events"], 0)
    with PrefixedKafkaLog(program.address, "") as log:
        there = held(log, events, 120)
        for first, end in ((0, 120), (3, 77), (50, 51), (11, 119), (119, 120)):
            expected = len(set(range(first, end)) - there)
            assert log.missing(events, first, end, 1 << 20) == (expected, end), (first, end)
