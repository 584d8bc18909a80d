"""Records by public serializers and a real registry, which stops and starts: each is an event, and none a dead letter."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from contextlib import closing

import pytest
from confluent_kafka import Producer
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

from streamnb.config import load
from streamnb.runtime import context
from tests.brokers.numbered import NUMBERS
from tests.brokers.prefixed import PrefixedKafkaLog
from tests.conversion.apicurio import Registry, until
from tests.support.service import read_topic

pytestmark = pytest.mark.storm
KINDS = ("avro", "proto", "json")
PROTO = """\
syntax = "proto3"; import "google/protobuf/timestamp.proto";
message Ticket { int64 n = 1; string subject = 2; string state = 3; google.protobuf.Timestamp at = 4; }
"""
FIELDS = {"n": "long", "subject": "string", "state": "string", "extra": ["null", "string"]}


@pytest.fixture
def registry(tmp_path):
    folder = tmp_path / "registry"
    folder.mkdir()
    started = Registry(folder).start()
    yield started
    started.stop()


@pytest.fixture
def ticket(tmp_path, monkeypatch):
    (tmp_path / "real_ticket.proto").write_text(PROTO)
    command = [sys.executable, "-m", "grpc_tools.protoc", f"-I{tmp_path}", f"--python_out={tmp_path}"]
    subprocess.run([*command, "real_ticket.proto"], check=True)
    monkeypatch.syspath_prepend(tmp_path)
    import real_ticket_pb2

    return real_ticket_pb2.Ticket


def serializers(url, ticket, *, is_newer):
    """The serializer of each kind; a newer one has another version of the schema."""
    client = SchemaRegistryClient({"url": url})
    fields = {name: kind for name, kind in FIELDS.items() if is_newer or name != "extra"}
    columns = [{"name": name, "type": kind} for name, kind in fields.items()]
    properties = {name: {"type": "integer" if name == "n" else "string"} for name in fields}
    protobuf = ProtobufSerializer(ticket, client, {"use.deprecated.format": False})
    return {
        "avro": AvroSerializer(client, json.dumps({"type": "record", "name": "T", "fields": columns})),
        "json": JSONSerializer(
            json.dumps({"title": "T", "type": "object", "properties": properties}), client
        ),
        "proto": lambda row, about: protobuf(ticket(**{k: v for k, v in row.items() if k != "extra"}), about),
    }


@pytest.mark.parametrize("client", ["kafka-python", "librdkafka"])
def test_nothing_is_lost_while_the_registry_stops_and_starts(broker, registry, ticket, tmp_path, client):
    address, prefix, draws = broker.address, f"r{next(NUMBERS)}.", random.Random(client)
    sources = {kind: f"{prefix}{kind}" for kind in KINDS}
    outputs = ("events", "predictions", "metrics", "dead-letters", "journal", "labels")
    path = tmp_path / "streamnb.toml"
    path.write_text(
        f'[log]\nurl = "kafka://{address}"\nclient = "{client}"\n[http]\nlisten = ""\n[model]\nname = "{prefix}m"\n'
        f'[registry]\nurl = "{registry.url}"\ntimeout = "2s"\n[topics]\n'
        + "".join(f'{name.replace("-", "_")} = "{prefix}{name}"\n' for name in outputs)
        + "".join(
            f'[[sources]]\nname = "{kind}"\ntopic = "{topic}"\nlabel = "state"\ntext = "subject"\ndrop = ["at"]\n'
            for kind, topic in sources.items()
        )
    )
    command = [sys.executable, "-m", "streamnb"]
    subprocess.run([*command, "topics", "create", "--config", path], check=True, capture_output=True)
    with closing(PrefixedKafkaLog(address, "")) as log:
        for topic in sources.values():
            log.create_topic(topic, 2)
    config, producer = load(path, {}, []), Producer({"bootstrap.servers": address})

    def produce(numbers, *, is_newer):
        write = serializers(registry.url, ticket, is_newer=is_newer)
        for n in numbers:
            row = {"n": n, "subject": f"é {n % 7}", "state": draws.choice(["ham", "spam"])}
            row |= {"extra": "x"} if is_newer else {}
            for kind, topic in sources.items():
                about = SerializationContext(topic, MessageField.VALUE)
                producer.produce(topic, key=f"{kind}-{n}", value=write[kind](row, about))
                sent[f"{kind}-{n}"] = (row["state"], row["subject"], n)
        producer.flush()

    sent = {}
    produce(range(100), is_newer=False)
    registry.stop()
    with (tmp_path / "convert.log").open("w+") as said:
        converting = subprocess.Popen([*command, "convert", "--config", path], stderr=said)
        until(lambda: (tmp_path / "convert.log").read_text().count("waits: registry") >= len(KINDS))
        registry.start()
        produce(range(100, 150), is_newer=False)
        produce(range(150, 200), is_newer=True)
        with closing(context.open_log(config)) as log:
            until(lambda: len(read_topic(log, config.topics.events[0])) >= len(sent), 120)
            converting.terminate()
            assert converting.wait(30) == 0
            events = [json.loads(record.value) for record in read_topic(log, config.topics.events[0])]
            assert read_topic(log, config.topics.dead_letters) == []
    assert len(events) == len(sent) == 600
    assert {event["id"]: (event["label"], event["text"], event["features"]["n"]) for event in events} == sent
    newer = [event for event in events if event["features"].get("extra") == "x"]
    assert len(newer) == 100  # Avro and JSON
