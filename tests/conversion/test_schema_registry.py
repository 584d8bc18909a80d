"""Framed records by serializers that others wrote: Avro, Protobuf and JSON Schema of a registry."""

from __future__ import annotations

import base64
import datetime as dt
import decimal
import io
import json
import uuid

import fastavro
import pytest
from confluent_kafka.schema_registry import (
    Schema,
    SchemaReference,
    SchemaRegistryClient,
    header_schema_id_serializer,
)
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf import descriptor_pb2, duration_pb2, timestamp_pb2, wrappers_pb2

from streamnb.config import RegistryConfig
from streamnb.config.config_literals import Secret
from streamnb.conversion.schema_decoders import RegisteredSchema, decoder_of
from streamnb.conversion.schema_registry import SchemaChangedError, SchemaRegistry
from streamnb.errors import MalformedEvent, Unavailable
from streamnb.formats.schema_frames import schema_frame
from tests.conversion.stub_registry import StubRegistry, guid_of, serving

UTC = dt.UTC


@pytest.fixture
def stub():
    registry = StubRegistry()
    with serving(registry) as registry.url:
        yield registry


def reader_of(stub, **more):
    return SchemaRegistry(RegistryConfig(url=stub.url, **more))


def decoded(stub, raw, headers=()):
    frame = schema_frame(raw, headers)
    return reader_of(stub).decode(*frame)


def context(headers=None):
    return SerializationContext("topic", MessageField.VALUE, headers)


def avro_of(*fields):
    return json.dumps({"type": "record", "name": "Row", "fields": list(fields)})


def field(name, kind):
    return {"name": name, "type": kind}


def logical(base, name, **more):
    return {"type": base, "logicalType": name, **more}


CELLS = {
    "decimal": (logical("bytes", "decimal", precision=9, scale=2), decimal.Decimal("12.34"), 12.34),
    "whole decimal": (logical("bytes", "decimal", precision=9, scale=2), decimal.Decimal("7.00"), 7),
    "negative": (logical("bytes", "decimal", precision=9, scale=2), decimal.Decimal("-0.05"), -0.05),
    "date": (logical("int", "date"), dt.date(2026, 1, 2), "2026-01-02T00:00:00+00:00"),
    "time-millis": (logical("int", "time-millis"), dt.time(3, 4, 5, 6000), "03:04:05.006000"),
    "time-micros": (logical("long", "time-micros"), dt.time(3, 4, 5, 6), "03:04:05.000006"),
    "timestamp-millis": (
        logical("long", "timestamp-millis"),
        dt.datetime(2026, 1, 2, 3, 4, 5, 6000, tzinfo=UTC),
        "2026-01-02T03:04:05.006000+00:00",
    ),
    "timestamp-micros": (
        logical("long", "timestamp-micros"),
        dt.datetime(2026, 1, 2, 3, 4, 5, 6, tzinfo=UTC),
        "2026-01-02T03:04:05.000006+00:00",
    ),
    "local-timestamp-millis": (
        logical("long", "local-timestamp-millis"),
        dt.datetime(2026, 1, 2, 3, 4, 5),  # noqa: DTZ001
        "2026-01-02T03:04:05+00:00",
    ),
    "uuid": (logical("string", "uuid"), uuid.UUID(int=5), str(uuid.UUID(int=5))),
    "fixed": ({"type": "fixed", "name": "F", "size": 2}, b"\x01\xff", "01ff"),
    "enum": ({"type": "enum", "name": "E", "symbols": ["a", "b"]}, "b", "b"),
    "bytes": ("bytes", b"text", "text"),
    "long": ("long", 2**62 + 1, 2**62 + 1),
    "null": (["null", "int"], None, None),
    "union": (["null", "int"], 3, 3),
    "null last": (["string", "null"], "x", "x"),
    "boolean": ("boolean", True, True),
    "map": ({"type": "map", "values": "int"}, {"a": 1}, {"a": 1}),
    "array": (
        {"type": "array", "items": logical("int", "date")},
        [dt.date(1970, 1, 2)],
        ["1970-01-02T00:00:00+00:00"],
    ),
}


@pytest.mark.parametrize("name", CELLS)
def test_each_type_of_avro_becomes_what_it_becomes_in_a_file(stub, name):
    kind, given, expected = CELLS[name]
    serializer = AvroSerializer(SchemaRegistryClient({"url": stub.url}), avro_of(field("x", kind)))
    assert decoded(stub, serializer({"x": given}, context())) == {"x": expected}


CONNECT = {
    "io.debezium.time.Date": ("int", 20_455, "2026-01-02T00:00:00+00:00"),
    "io.debezium.time.Timestamp": ("long", 1_767_323_045_000, "2026-01-02T03:04:05+00:00"),
    "io.debezium.time.MicroTimestamp": ("long", 1_767_323_045_000_006, "2026-01-02T03:04:05.000006+00:00"),
    "io.debezium.time.MicroTime": ("long", 11_045_000_000, "03:04:05"),
    "io.debezium.time.MicroDuration": ("long", 1_500_000, 1.5),
    "io.debezium.time.ZonedTimestamp": ("string", "2026-01-02T03:04:05Z", "2026-01-02T03:04:05Z"),
    "io.debezium.data.Uuid": ("string", "a", "a"),
    "io.debezium.time.IsoDate": ("string", "2026-01-02Z", "2026-01-02T00:00:00+00:00"),
    "io.debezium.time.IsoTime": ("string", "03:04:05.1Z", "03:04:05.100000"),
    "io.debezium.time.IsoTimestamp": ("string", "2026-01-02T03:04:05.006Z", "2026-01-02T03:04:05.006Z"),
    "infinite": ("int", -2_147_472_692, None),
    "infinite ISO date": ("string", "+292278994-08-16Z", None),
    "infinite ISO timestamp": ("string", "-290308-12-21T19:59:27.6Z", None),
    "infinite nanoseconds": ("long", 2**63 - 1, None),
    "text of infinity": ("string", "infinity", None),
    "before our era": ("string", "-0043-03-15T00:00:00.000000Z", None),
}
NAMED = {
    "infinite": "io.debezium.time.Date",
    "infinite ISO date": "io.debezium.time.IsoDate",
    "infinite ISO timestamp": "io.debezium.time.IsoTimestamp",
    "infinite nanoseconds": "io.debezium.time.NanoTimestamp",
    "text of infinity": "io.debezium.time.ZonedTimestamp",
    "before our era": "io.debezium.time.ZonedTimestamp",
}


@pytest.mark.parametrize("name", CONNECT)
def test_numbers_of_connect_have_the_meaning_of_their_names_schema(stub, name):
    base, given, expected = CONNECT[name]
    kind = ["null", {"type": base, "connect.name": NAMED.get(name, name)}]
    serializer = AvroSerializer(SchemaRegistryClient({"url": stub.url}), avro_of(field("x", kind)))
    assert decoded(stub, serializer({"x": given}, context())) == {"x": expected}


INFINITE = {"date": ("int", -622_191_234), "timestamp-millis": ("long", 9_223_372_036_825_200)}


@pytest.mark.parametrize("name", INFINITE)
@pytest.mark.parametrize("connect", [None, "org.apache.kafka.connect.data."])
def test_a_time_beyond_the_calendar_is_missing_and_its_row_is_not(stub, name, connect):
    """A reader that makes dates of them fails; Debezium sends PostgreSQL's infinity so in the mode of Connect."""
    base, count = INFINITE[name]
    kind = logical(base, name)
    if connect:
        kind["connect.name"] = connect + {"date": "Date", "timestamp-millis": "Timestamp"}[name]
    schema = avro_of(field("x", ["null", kind]), field("y", "int"))
    stub.register("s", {"schema": schema})
    stream = io.BytesIO()
    plain = avro_of(field("x", ["null", base]), field("y", "int"))
    fastavro.schemaless_writer(stream, fastavro.parse_schema(json.loads(plain)), {"x": count, "y": 3})
    assert decoded(stub, b"\0\0\0\0\1" + stream.getvalue()) == {"x": None, "y": 3}


UNIONS = {"array": [dt.date(2026, 1, 2)], "map": {"a": dt.date(2026, 1, 2)}, "union": dt.date(2026, 1, 2)}


@pytest.mark.parametrize("kind", UNIONS)
def test_times_within_other_types_are_times(stub, kind):
    day = logical("int", "date")
    kinds = {"array": {"type": "array", "items": day}, "map": {"type": "map", "values": day}}
    serializer = AvroSerializer(
        SchemaRegistryClient({"url": stub.url}), avro_of(field("x", kinds.get(kind, ["null", "string", day])))
    )
    found = decoded(stub, serializer({"x": UNIONS[kind]}, context()))
    assert "2026-01-02T00:00:00+00:00" in str(found)


def test_a_decimal_of_connect_has_its_scale_and_may_vary_it(stub):
    fixed = {
        "type": "bytes",
        "scale": 2,
        "precision": 9,
        "connect.name": "org.apache.kafka.connect.data.Decimal",
        "connect.parameters": {"scale": "2"},
        "logicalType": "decimal",
    }
    varying = {
        "type": "record",
        "name": "V",
        "connect.name": "io.debezium.data.VariableScaleDecimal",
        "fields": [field("scale", "int"), field("value", "bytes")],
    }
    serializer = AvroSerializer(
        SchemaRegistryClient({"url": stub.url}), avro_of(field("x", fixed), field("y", varying))
    )
    raw = serializer({"x": decimal.Decimal("1.25"), "y": {"scale": 3, "value": b"\xff\x00"}}, context())
    assert decoded(stub, raw) == {"x": 1.25, "y": -0.256}


def test_a_schema_that_refers_to_others_of_its_own_type_and_deeper_is_read(stub):
    client = SchemaRegistryClient({"url": stub.url})
    city = json.dumps(
        {"type": "record", "name": "City", "namespace": "a", "fields": [field("day", logical("int", "date"))]}
    )
    client.register_schema("city", Schema(city, "AVRO"))
    address = json.dumps(
        {"type": "record", "name": "Address", "namespace": "a", "fields": [field("city", "a.City")]}
    )
    reference = SchemaReference("a.City", "city", 1)
    client.register_schema("address", Schema(address, "AVRO", [reference]))
    person = json.dumps(
        {
            "type": "record",
            "name": "Person",
            "namespace": "a",
            "fields": [field("home", "a.Address"), field("friend", ["null", "Person"])],
        }
    )
    schema = Schema(person, "AVRO", [SchemaReference("a.Address", "address", 1)])
    serializer = AvroSerializer(client, schema)
    row = {"home": {"city": {"day": dt.date(1970, 1, 3)}}, "friend": None}
    found = decoded(stub, serializer({**row, "friend": row}, context()))
    home = {"city": {"day": "1970-01-03T00:00:00+00:00"}}
    assert found == {"home": home, "friend": {"home": home, "friend": None}}


def test_ids_in_headers_are_read_as_those_before_the_value(stub):
    conf = {"schema.id.serializer": header_schema_id_serializer}
    serializer = AvroSerializer(
        SchemaRegistryClient({"url": stub.url}), avro_of(field("x", "int")), conf=conf
    )
    headers = []
    raw = serializer({"x": 3}, context(headers))
    assert raw == b"\x06"
    assert decoded(stub, raw, headers) == {"x": 3}


APICURIO = {
    "header of a global id": (b"\x06", [("apicurio.value.globalId", (7).to_bytes(8, "big"))], True),
    "header of a content id": (b"\x06", [("apicurio.value.contentId", (1).to_bytes(8, "big"))], False),
    "eight bytes": (b"\0" + (7).to_bytes(8, "big") + b"\x06", [], True),
    "four bytes": (b"\0" + (1).to_bytes(4, "big") + b"\x06", [], False),
    "of the key": (b"\0" + (1).to_bytes(4, "big") + b"\x06", [("apicurio.key.globalId", bytes(8))], False),
}


@pytest.mark.parametrize("form", APICURIO)
def test_the_forms_of_apicurio_name_two_kinds_of_ids(stub, form):
    """Content ids are those of Confluent's API; a global id is asked for at Apicurio's own."""
    raw, headers, is_global = APICURIO[form]
    stub.url += "/apis/ccompat/v7"
    stub.register("s", {"schema": avro_of(field("content", "int"))})
    stub.global_ids[7] = {"schema": avro_of(field("version", "int"))}
    assert decoded(stub, raw, headers) == ({"version": 3} if is_global else {"content": 3})
    assert ("globalIds/7" in stub.asked[-1]) == is_global


@pytest.mark.parametrize("schema", [1 << 31, (1 << 32) - 1, (1 << 64) - 1, f"globalId {1 << 31}"])
def test_an_id_that_no_registry_can_have_holds_nothing_up(stub, schema):
    """Registries answer it with a page that is not found, as if the path of their address were wrong."""
    stub.url += "/apis/ccompat/v7"
    stub.page = 404, b'{"error_code": 404, "message": "HTTP 404 Not Found"}'
    with pytest.raises(MalformedEvent) as found:
        reader_of(stub).decode(schema, b"")
    assert found.value.reason == "unknown-schema"


@pytest.mark.parametrize("raw", [b"", b"\0", bytes(7), bytes(9), b"\xff" * 3000])
def test_a_damaged_header_of_apicurio_is_no_frame(raw):
    assert schema_frame(b"{}", [("apicurio.value.globalId", raw)]) is None


def test_a_value_without_a_frame_may_begin_as_one(stub):
    """Debezium's envelope without a row before begins with 0; the header of its id says that it has no frame."""
    stub.url += "/apis/ccompat/v7"
    stub.global_ids[7] = {"schema": avro_of(field("x", ["null", "int"]), field("y", "string"))}
    raw, headers = b"\0\x0ahello", [("apicurio.value.globalId", (7).to_bytes(8, "big"))]
    assert schema_frame(raw).schema == int.from_bytes(b"\x0ahel", "big")
    assert decoded(stub, raw, headers) == {"x": None, "y": "hello"}


def test_a_global_id_is_a_dead_letter_or_waits_as_other_ids(stub):
    registry = reader_of(stub)
    with pytest.raises(MalformedEvent, match="an id of Apicurio") as found:
        registry.decode("globalId 7", b"\x06")
    assert found.value.reason == "unknown-schema"
    stub.url += "/apis/ccompat/v7"
    registry = reader_of(stub, username="u", password=Secret("p"))
    with pytest.raises(MalformedEvent, match="has no globalId 7") as found:
        registry.decode("globalId 7", b"\x06")
    assert found.value.reason == "unknown-schema"
    assert stub.authorization == "Basic " + base64.b64encode(b"u:p").decode()
    for stub.page in PAGES:
        with pytest.raises(Unavailable):
            registry.decode("globalId 7", b"\x06")
    stub.page, stub.fault = None, 503
    with pytest.raises(Unavailable, match="503"):
        registry.decode("globalId 7", b"\x06")
    stub.fault, stub.global_ids[7] = 0, {"schema": 'syntax = "proto3";', "schemaType": "PROTOBUF"}
    with pytest.raises(MalformedEvent, match="of type PROTOBUF"):
        registry.decode("globalId 7", b"\x06")
    stub.global_ids[8] = {"schema": avro_of(field("x", "int"))}
    assert registry.decode("globalId 8", b"\x06") == {"x": 3}
    after = SchemaRegistry(RegistryConfig(url=stub.url))
    after.digests = dict(registry.digests)
    stub.global_ids[8] = {"schema": avro_of(field("y", "int"))}
    with pytest.raises(SchemaChangedError):
        after.decode("globalId 8", b"\x06")


def test_json_schema_is_json_behind_its_frame(stub):
    schema = json.dumps({"title": "Row", "type": "object", "properties": {"x": {"type": "number"}}})
    serializer = JSONSerializer(schema, SchemaRegistryClient({"url": stub.url}))
    assert decoded(stub, serializer({"x": 3.5, "y": "é"}, context())) == {"x": 3.5, "y": "é"}


PROTO = """\
syntax = "proto3";
package shop;
import "google/protobuf/timestamp.proto";
import "google/protobuf/duration.proto";
import "google/protobuf/wrappers.proto";
message Other { int32 a = 1; }
message Ticket {
  string id = 1; double score = 2; google.protobuf.Timestamp at = 3; repeated string tags = 4;
  enum Kind { UNKNOWN = 0; BUG = 1; } Kind kind = 5; optional int64 big = 6; map<string, int32> counts = 7;
  oneof body { string text = 8; int32 number = 9; }
  message Inner { uint64 n = 1; } Inner inner = 10; bytes raw = 11; bool open = 12; int64 zero = 13;
  google.protobuf.Int64Value wrapped = 14; google.protobuf.Duration took = 15;
}
"""


@pytest.fixture
def messages(tmp_path, monkeypatch):
    """The classes that protoc makes of `PROTO`."""
    from grpc_tools import protoc

    (tmp_path / "shop_ticket.proto").write_text(PROTO)
    included = (
        f"{protoc.__path__[0] if hasattr(protoc, '__path__') else protoc.__file__.rpartition('/')[0]}/_proto"
    )
    assert (
        protoc.main(["", f"-I{tmp_path}", f"-I{included}", f"--python_out={tmp_path}", "shop_ticket.proto"])
        == 0
    )
    monkeypatch.syspath_prepend(tmp_path)
    import shop_ticket_pb2

    return shop_ticket_pb2


@pytest.mark.usefixtures("messages")
def test_a_message_of_protobuf_has_its_zeros_and_numbers(stub, messages):
    client = SchemaRegistryClient({"url": stub.url})
    client.register_schema("topic-value", Schema(PROTO, "PROTOBUF"))
    ticket = messages.Ticket(
        id="t", score=2.5, at=timestamp_pb2.Timestamp(seconds=1_767_323_045), tags=["a"], kind=1, big=2**62 + 1,
        counts={"x": 1}, text="hello", inner=messages.Ticket.Inner(n=2**63), raw=b"abc",
        wrapped=wrappers_pb2.Int64Value(value=2**60 + 1), took=duration_pb2.Duration(seconds=1, nanos=500_000_000),
    )  # fmt: skip
    found = decoded(stub, framed(1, ticket))
    assert found == {
        "id": "t", "score": 2.5, "at": "2026-01-02T03:04:05Z", "tags": ["a"], "kind": "BUG", "big": 2**62 + 1,
        "counts": {"x": 1}, "text": "hello", "inner": {"n": 2**63}, "raw": "abc", "open": False, "zero": 0,
        "wrapped": 2**60 + 1, "took": 1.5,
    }  # fmt: skip


def framed(index, message):
    return b"\0\0\0\0\1" + bytes([2, index * 2] if index else [0]) + message.SerializeToString()


def test_the_frame_of_protobuf_says_which_message_it_has(stub, messages):
    SchemaRegistryClient({"url": stub.url}).register_schema("topic-value", Schema(PROTO, "PROTOBUF"))
    assert decoded(stub, framed(0, messages.Other(a=7))) == {"a": 7}
    with pytest.raises(MalformedEvent, match="no message type"):
        decoded(stub, framed(5, messages.Other(a=7)))
    with pytest.raises(MalformedEvent, match="whether maps are counted"):
        decoded(stub, b"\0\0\0\0\1" + bytes([4, 2, 0]) + messages.Ticket.Inner(n=5).SerializeToString())


def test_a_nested_message_without_maps_before_it_is_read(stub, messages):
    text = 'syntax = "proto3"; message A { message B { uint64 n = 1; } B b = 1; }'
    SchemaRegistryClient({"url": stub.url}).register_schema("topic-value", Schema(text, "PROTOBUF"))
    nested = b"\0\0\0\0\1" + bytes([4, 0, 0]) + messages.Ticket.Inner(n=5).SerializeToString()
    assert decoded(stub, nested) == {"n": 5}


def test_serializers_of_protobuf_write_what_is_read(stub, messages):
    """The one of Python registers a descriptor in base64, and a registry may return it so."""
    client = SchemaRegistryClient({"url": stub.url})
    serializer = ProtobufSerializer(messages.Ticket, client, {"use.deprecated.format": False})
    at = timestamp_pb2.Timestamp(seconds=1_767_323_045)
    found = decoded(stub, serializer(messages.Ticket(id="x", number=3, at=at), context()))
    assert (found["id"], found["number"], found["at"]) == ("x", 3, "2026-01-02T03:04:05Z")
    assert "syntax" not in stub.schemas[1]["schema"]


@pytest.mark.parametrize("described", [{"main"}, {"other"}, {"main", "other"}, set()])
def test_texts_and_descriptors_of_protobuf_may_import_each_other(described):
    texts = {
        "other": 'syntax = "proto3"; package o; message B { uint64 n = 1; }',
        "main": 'syntax = "proto3"; import "o/other.proto"; import "google/protobuf/duration.proto"; '
        "message A { o.B b = 1; google.protobuf.Duration d = 2; }",
    }
    other = descriptor_pb2.FileDescriptorProto(name="anything", package="o", syntax="proto3")
    field_of = other.message_type.add(name="B").field.add
    field_of(name="n", number=1, type="TYPE_UINT64", label="LABEL_OPTIONAL", json_name="n")
    main = descriptor_pb2.FileDescriptorProto(name="", syntax="proto3")
    main.dependency.extend(["o/other.proto", "google/protobuf/duration.proto"])
    fields = main.message_type.add(name="A").field
    for number, name, kind in ((1, "b", ".o.B"), (2, "d", ".google.protobuf.Duration")):
        fields.add(name=name, number=number, type="TYPE_MESSAGE", type_name=kind, label="LABEL_OPTIONAL")
    files = {"main": main, "other": other}
    for name in described:
        texts[name] = base64.b64encode(files[name].SerializeToString()).decode()
    schema = RegisteredSchema("PROTOBUF", texts["main"], {"o/other.proto": texts["other"]})
    assert decoder_of(schema)(bytes([0, 0x0A, 2, 0x08, 7, 0x12, 2, 0x08, 3])) == {"b": {"n": 7}, "d": 3.0}


def test_an_unknown_schema_is_the_records_fault_and_an_outage_is_not(stub):
    registry = reader_of(stub)
    with pytest.raises(MalformedEvent) as found:
        registry.decode(7, b"")
    assert found.value.reason == "unknown-schema"
    stub.fault = 503
    with pytest.raises(Unavailable):
        registry.decode(7, b"")
    stub.fault = 401
    with pytest.raises(Unavailable, match="401"):
        registry.decode(7, b"")
    stub.fault = 0
    stub.register("s", {"schema": avro_of(field("x", "int"))})
    assert registry.decode(1, b"\x06") == {"x": 3}
    assert registry.decode(1, b"\x08") == {"x": 4}
    assert stub.asked.count("/schemas/ids/1") == 1


PAGES = [
    (200, b"<html>sign in</html>"), (200, b"{}"), (200, b"[]"), (200, b"5"), (200, b'{"schema": 5}'), (200, b'{"schema": ""}'),
    (404, b"<html>no such page</html>"), (404, b"{}"), (404, b""), (302, b""), (500, b"<html>"), (403, b"{}"),
]  # fmt: skip


@pytest.mark.parametrize("page", PAGES)
def test_an_answer_that_no_registry_gives_is_an_outage_and_no_verdict_on_a_record(stub, page):
    registry = reader_of(stub)
    stub.register("s", {"schema": avro_of(field("x", "int"))})
    stub.page = page
    with pytest.raises(Unavailable, match="the path of registry.url" if page[0] == 404 else "registry"):
        registry.decode(1, b"\x06")
    stub.page = None
    assert registry.decode(1, b"\x06") == {"x": 3}


@pytest.mark.parametrize("levels", [10, 900, 1_000, 30_000])
def test_a_value_of_any_depth_leaves_the_process_alive(stub, levels):
    """At some 8,000 levels the fast reader of fastavro 1.13 overflows the stack of the thread."""
    stub.register("s", {"schema": avro_of(field("n", ["null", "Row"]))})
    registry, body = reader_of(stub), b"\x02" * levels + b"\0"
    if levels == 10:
        assert json.dumps(registry.decode(1, body)).count('"n"') == 11
    else:
        with pytest.raises((MalformedEvent, RecursionError)):
            registry.decode(1, body)


@pytest.mark.parametrize("kind", ["map", "array"])
def test_a_recursive_value_is_read_alike_whatever_its_size(stub, kind):
    named = "values" if kind == "map" else "items"
    stub.register("s", {"schema": avro_of(field("t", "string"), field("n", {"type": kind, named: "Row"}))})
    schema = fastavro.parse_schema(json.loads(stub.schemas[1]["schema"]))
    for size in (1, 5000):
        inner = {"t": "x" * size, "n": {} if kind == "map" else []}
        row = {"t": "é", "n": {"k": inner} if kind == "map" else [inner, inner]}
        stream = io.BytesIO()
        fastavro.schemaless_writer(stream, schema, row)
        assert reader_of(stub).decode(1, stream.getvalue()) == row


@pytest.mark.parametrize("items", ["null", {"type": "record", "name": "E", "fields": []}, {"type": "record", "name": "E", "fields": [{"name": "a", "type": "null"}]}])  # fmt: skip
def test_an_array_of_values_without_bytes_is_refused(stub, items):
    """Six bytes of such an array are a billion values."""
    stub.register("s", {"schema": avro_of(field("x", {"type": "array", "items": items}))})
    with pytest.raises(MalformedEvent, match="without bytes"):
        reader_of(stub).decode(1, b"\x80\x80\x80\x80\x10\0")


def test_digests_fit_in_the_note_of_a_position(stub):
    """A GUID is longer than an id: 150 of them would be refused by a broker."""
    registry = reader_of(stub)
    for number in range(1, 200):
        stub.register("s", {"schema": avro_of(field(f"x{number}", "int"))})
        assert registry.decode(guid_of(number), b"\x06") == {f"x{number}": 3}
    assert len(registry.digests) > 50
    assert len(json.dumps(registry.digests, separators=(",", ":"))) < 3_850


@pytest.mark.parametrize("name", ["", "a/", "/etc/x", "../x", "\0", "x" * 300])
def test_an_import_of_protobuf_is_a_name_of_a_file(name):
    with pytest.raises(MalformedEvent, match="imports"):
        decoder_of(RegisteredSchema("PROTOBUF", 'syntax = "proto3"; message A { int32 a = 1; }', {name: ""}))


def test_a_schema_that_cannot_be_read_is_read_once(stub, monkeypatch):
    asked = []

    def failing(schema):
        asked.append(schema)
        raise ValueError("surrogates")

    monkeypatch.setattr("streamnb.conversion.schema_registry.decoder_of", failing)
    stub.register("s", {"schema": "x"})
    registry = reader_of(stub)
    for _ in range(3):
        with pytest.raises(MalformedEvent) as found:
            registry.decode(1, b"\x06")
        assert str(found.value).count("undecodable") == 1
    assert len(asked) == 1


def test_nobody_listening_is_an_outage():
    with pytest.raises(Unavailable):
        SchemaRegistry(RegistryConfig(url="http://127.0.0.1:1", timeout=1.0)).decode(1, b"")


def test_name_and_password_are_sent(stub):
    stub.register("s", {"schema": avro_of(field("x", "int"))})
    reader_of(stub, username="joe", password=Secret("secret")).decode(1, b"\x06")
    assert base64.b64decode(stub.authorization.removeprefix("Basic ")) == b"joe:secret"


def test_an_id_that_means_another_schema_than_before_is_refused(stub):
    stub.register("s", {"schema": avro_of(field("x", "int"))})
    first = reader_of(stub)
    first.decode(1, b"\x06")
    stub.schemas[1] = {"schema": avro_of(field("y", "int"))}
    later = reader_of(stub)
    later.digests = dict(first.digests)
    with pytest.raises(SchemaChangedError, match="id 1 is another schema"):
        later.decode(1, b"\x06")


@pytest.mark.parametrize("body", [b"", b"\x06\x06", b"\xff" * 20])
def test_bytes_that_the_schema_does_not_describe_are_refused(stub, body):
    stub.register("s", {"schema": avro_of(field("x", "int"))})
    with pytest.raises(MalformedEvent) as found:
        reader_of(stub).decode(1, body)
    assert found.value.reason == "undecodable"


@pytest.mark.parametrize("schema", ["{", '{"type": "record"}', '{"type": "unknown"}'])
def test_a_schema_that_cannot_be_read_is_the_records_fault_each_time(stub, schema):
    stub.register("s", {"schema": schema})
    registry = reader_of(stub)
    for _ in range(2):
        with pytest.raises(MalformedEvent, match="schema that cannot be read"):
            registry.decode(1, b"\x06")
    assert len(stub.asked) == 1


def test_a_schema_of_protobuf_cannot_write_outside_its_folder(stub):
    stub.register("r", {"schema": 'syntax = "proto3";', "schemaType": "PROTOBUF"})
    stub.register(
        "s",
        {
            "schema": PROTO,
            "schemaType": "PROTOBUF",
            "references": [{"name": "../x.proto", "subject": "r", "version": 1}],
        },
    )
    with pytest.raises(MalformedEvent, match="imports"):
        reader_of(stub).decode(2, b"\0")
