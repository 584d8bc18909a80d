"""Predictions as Avro with a registered schema: every field, once each, through outages and restarts."""

from __future__ import annotations

import io
import json
from contextlib import closing

import fastavro
import msgspec
import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer
from confluent_kafka.serialization import MessageField, SerializationContext
from prometheus_client import CollectorRegistry

from streamnb.cli import main
from streamnb.config import load
from streamnb.conversion.prediction_encoder import PredictionEncoder, avro_schema
from streamnb.conversion.schema_registry import SchemaRegistry
from streamnb.conversion.source_follower import SourceFollower, predictions_source
from streamnb.conversion.source_metrics import SourceMetrics
from streamnb.engine.ports import NewRecord, Partition, Record
from streamnb.errors import Unavailable
from streamnb.events import Attribution, ModelInfo, Prediction
from streamnb.formats.codec import encode_prediction
from tests.conversion.stub_registry import StubRegistry, serving
from tests.conversion.test_source_follower import until
from tests.support.service import read_topic

LOGS = ["sqlite", "kafka", "librdkafka"]
WHOLE = Prediction(
    id="é", label="spam", probability=0.97, probabilities={"spam": 0.97, "ham": 0.02}, rest=0.01, status="ready",
    unseen=0.0002, decision="ham", expected_cost=0.2, rejected="novel", novelty=0.5, truth="spam",
    evidence=(Attribution("text", "free", 1.5), Attribution("n", 3.0, -0.5)), hypotheses={"a": 0.25, "b": 0.75},
    model=ModelInfo("m", 2**40, 7), ts=1_790_000_000.31,
)  # fmt: skip
EMPTY = Prediction(
    id="a", label=None, probability=None, probabilities={}, status="empty", model=ModelInfo("m", 0), ts=0.0
)


@pytest.fixture
def stub():
    registry = StubRegistry()
    with serving(registry) as registry.url:
        yield registry


def config_of(stub):
    return load(None, {}, [f"registry.url={stub.url}", "registry.predictions=avro"])


def encoder_of(stub):
    noticed = []
    made = PredictionEncoder(
        "avro", SchemaRegistry(config_of(stub).registry), lambda *one: noticed.append(one)
    )
    return made, noticed


def record(value):
    return Record(Partition("predictions", 0), 0, b"key", value, 0.0)


def as_avro(prediction):
    """The values that a consumer of Avro expects: what is absent is null."""
    row = dict.fromkeys(Prediction.__struct_fields__) | msgspec.to_builtins(prediction)
    row["model"] = {"journal": None, **row["model"]}
    row["evidence"] = row["evidence"] and list(row["evidence"])
    return row


@pytest.mark.parametrize("prediction", [WHOLE, EMPTY], ids=["whole", "empty"])
def test_a_public_deserializer_reads_every_field(stub, prediction):
    made, noticed = encoder_of(stub)
    (output,) = made.outputs(record(encode_prediction(prediction)))
    assert (output.topic, output.key, noticed) == ("avro", b"key", [])
    read = AvroDeserializer(SchemaRegistryClient({"url": stub.url}))
    found = read(output.value, SerializationContext("avro", MessageField.VALUE))
    assert found == as_avro(prediction)
    assert list(stub.subjects) == ["avro-value"]


def test_a_reader_of_the_first_schema_reads_a_prediction_with_fields_that_came_later():
    """Each field that may be absent has a default, so schemas stay compatible in both directions."""
    newer = avro_schema(msgspec.inspect.type_info(Prediction))
    required = {"id", "label", "probability", "probabilities", "status", "model", "ts"}
    assert {field["name"] for field in newer["fields"] if "default" not in field} == required
    assert all(field["type"][0] == "null" for field in newer["fields"] if "default" in field)
    older = {**newer, "fields": [field for field in newer["fields"] if field["name"] in required]}
    for written, read in ((newer, older), (older, newer)):
        stream = io.BytesIO()
        fastavro.schemaless_writer(
            stream, fastavro.parse_schema(written), json.loads(encode_prediction(WHOLE))
        )
        stream.seek(0)
        found = fastavro.schemaless_reader(
            stream, fastavro.parse_schema(written), fastavro.parse_schema(read)
        )
        assert found["probabilities"] == WHOLE.probabilities


def test_what_is_no_prediction_or_too_large_is_passed_and_reported(stub):
    made, noticed = encoder_of(stub)
    assert made.outputs(record(b"{}")) == made.outputs(record(b"")) == []
    made.sizes = {"avro": 20}
    assert made.outputs(record(encode_prediction(WHOLE))) == []
    assert noticed == [("avro", "foreign"), ("avro", "foreign"), ("avro", "large")]
    assert made.counts == {"others": 3}


def test_a_registry_that_is_away_or_refuses_the_schema_holds_up(stub):
    made, _ = encoder_of(stub)
    for stub.fault in (503, 409):
        with pytest.raises(Unavailable, match=str(stub.fault)):
            made.outputs(record(encode_prediction(EMPTY)))
    stub.fault = 0
    assert len(made.outputs(record(encode_prediction(EMPTY)))) == 1


@pytest.mark.thorough_for("librdkafka")
def test_each_prediction_is_copied_once_over_restarts(open_log, stub):
    log, config, n = open_log(predictions=2, avro=2), config_of(stub), 0
    for _ in range(3):
        n += 20
        log.append(
            [
                NewRecord(
                    "predictions", b"%d" % i, encode_prediction(msgspec.structs.replace(EMPTY, id=str(i)))
                )
                for i in range(n - 20, n)
            ]
        )
        follower = SourceFollower(
            config, predictions_source(config), SourceMetrics(CollectorRegistry()), lambda _: None
        )
        follower.open_log = open_log
        follower.start()
        until(lambda: len(read_topic(log, "avro")) >= n)  # noqa: B023
        follower.close()
        assert follower.totals == {"predictions": 20}
    read = AvroDeserializer(SchemaRegistryClient({"url": stub.url}))
    found = [
        read(one.value, SerializationContext("avro", MessageField.VALUE)) for one in read_topic(log, "avro")
    ]
    assert sorted(int(one["id"]) for one in found) == list(range(n))


def test_the_command_copies_the_predictions_of_a_learner(tmp_path, stub, capsys):
    path = tmp_path / "streamnb.toml"
    path.write_text(
        f'[log]\nurl = "sqlite:///{tmp_path}/log.db"\n[http]\nlisten = ""\n[registry]\nurl = "{stub.url}"\n'
        f'predictions = "avro"\n[snapshots]\nfolder = "{tmp_path}/s"\n[model]\nkind = "naive_bayes"\n'
    )
    assert main(["topics", "create", "--config", str(path)]) == 0
    assert main(["convert", "--until-end", "--config", str(path)]) != 0
    assert "no topic 'avro'" in capsys.readouterr().err
    with closing(context_log(path)) as log:
        log.create_topic("avro", 1)
        log.append([NewRecord("events", b"a", json.dumps({"id": "a", "text": "x", "label": "b"}).encode())])
    assert main(["run", "--until-end", "--config", str(path)]) == 0
    assert main(["convert", "--until-end", "--config", str(path)]) == 0
    assert "source predictions: stopped: 1 predictions, 0 others" in capsys.readouterr().err
    with closing(context_log(path)) as log:
        assert len(read_topic(log, "avro")) == 1
    for given, why in (
        ("registry.url=", "registry.url is not set"),
        ("registry.predictions=events", "topics.events"),
    ):
        assert main(["convert", "--until-end", "--config", str(path), "--set", given]) == 2
        assert why in capsys.readouterr().err


def context_log(path):
    from streamnb.runtime import context

    return context.existing_log(load(path, {}, []))
