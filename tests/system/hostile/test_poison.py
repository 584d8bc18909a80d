"""Streams that took gigabytes, or stopped a learner at every start, run through with the defaults; the reason is told."""

from __future__ import annotations

import json
import time
from contextlib import closing
from pathlib import Path

import pytest
from kafka.admin import ConfigResource, ConfigResourceType, KafkaAdminClient

from tests.support.program import Program

pytestmark = [pytest.mark.storm_for("librdkafka"), pytest.mark.thorough, pytest.mark.early(10)]

MOST = 1 << 30  # bytes of a process
CLIENTS = {"sqlite": None, "kafka": "kafka-python", "librdkafka": "librdkafka"}


def resident(process):
    """Bytes; 0 of a process that is gone."""
    try:
        return int(Path(f"/proc/{process.pid}/statm").read_text().split()[1]) << 12
    except (OSError, IndexError):
        return 0


def narrowed(broker, program, limit):
    """Let every topic that the learner writes take records of so many bytes."""
    with closing(KafkaAdminClient(bootstrap_servers=broker.address)) as admin:
        settings = {"max.message.bytes": str(limit)}
        names = [name for role, name in program.topics.items() if role != "events"]
        admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, name, settings) for name in names])


@pytest.fixture(
    params=[
        pytest.param("kafka", marks=pytest.mark.broker),
        pytest.param("librdkafka", marks=pytest.mark.broker),
        "sqlite",
    ]
)
def learn(request, tmp_path):
    """Let a learner with these events run to their end: the program, and the most memory that it took."""
    client = CLIENTS[request.param]
    broker = None if client is None else request.getfixturevalue("broker")
    address = "sqlite:///log.db" if broker is None else broker.address
    programs = []

    def learned(raws, limit=None, **sections):
        program = Program(tmp_path, address, **sections)
        programs.append(program)
        if client:
            program.file.write_text(
                program.file.read_text().replace("[log]\n", f'[log]\nclient = "{client}"\n')
            )
        (tmp_path / "events.jsonl").write_bytes(b"\n".join(raws) + b"\n")
        program.run("topics", "create")
        if limit and broker is not None:
            narrowed(broker, program, limit)
        program.run("replay", "events.jsonl")
        command, most = program.start("run", "--until-end"), 0
        while command.is_going():
            most = max(most, resident(command.process))
            time.sleep(0.1)
        command.output()
        return program, most

    yield learned
    for program in programs:
        program.close()


def event(i, text, label):
    return json.dumps({"id": f"e{i}", "text": text, "label": label}).encode()


@pytest.mark.storm
def test_a_label_for_each_event_each_with_a_word_of_its_own(learn, request):
    """What takes memory is the learner's, whatever the log; on a broker predictions grow until they name 1,000."""
    number = 6000 if request.node.callspec.params["learn"] == "sqlite" else 1500
    program, most = learn([event(i, f"word{i}", f"label{i}") for i in range(number)])
    assert most < MOST
    last = program.read("predictions")[-1]
    assert (last["id"], len(last["probabilities"])) == (f"e{number - 1}", 1000)
    assert last["rest"] + sum(last["probabilities"].values()) == pytest.approx(1.0)


@pytest.mark.storm_for("sqlite")
def test_labels_of_900_characters(learn):
    """All predictions at once are larger than what a process may take; from the 1,000th on all are as large."""
    program, most = learn([event(i, f"a word {i % 50}", f"{i:04}" + "x" * 896) for i in range(1500)])
    assert most < MOST
    assert len(program.ids("predictions")) == 1500


def test_topics_that_take_20_kb_and_whatever_bytes_come(learn):
    """A prediction tells as many labels as fit, and of a dead letter there is the beginning."""
    broken = [b"\xff\x00" * 30_000, b"[" * 40_000, b'{"id": [7], "text": "' + b"x" * 50_000 + b'"}', b""]
    events = [event(i, f"w{i}", f"{i:03}" + "é" * 300) for i in range(400)]
    limit = {"predictions": {"max_bytes": "20KB"}} if learn.__name__ else {}
    program, most = learn(events[:200] + broken + events[200:], limit=20_000, **limit)
    assert most < MOST
    assert len(program.ids("predictions")) == 400
    assert len(program.read("dead_letters")) == 3  # and an empty line is none


def test_letters_larger_than_their_topic(learn):
    """Events may have 4 MB, and the topic of dead letters takes 1.1 MB: of each there is the beginning."""
    broken = [b"[" * 3_000_000, b'{"id": [7], "text": "' + b"x" * 2_500_000 + b'"}', b"\xff" * 3_900_000]
    events = [event(i, f"w{i}", "ab"[i % 2]) for i in range(40)]
    program, _ = learn(events[:20] + broken + events[20:], limit=1_100_000, events={"max_bytes": "4MB"})
    assert len(program.ids("predictions")) == 40
    assert len(program.read("dead_letters")) == 3
