"""What records of other topics become: rows, CloudEvents, changes of Debezium, keys and times."""

from __future__ import annotations

import base64
import datetime as dt
import json

import pytest
from cloudevents.core.bindings import kafka as cloud_kafka
from cloudevents.core.formats.json import JSONFormat
from cloudevents.core.v1.event import CloudEvent
from hypothesis import given
from hypothesis import strategies as st

from streamnb.config import load
from streamnb.conversion.record_converter import RecordConverter
from streamnb.engine.ports import Partition, Record
from streamnb.formats.connect_values import struct_converter

TIME = 1_790_000_000.25
LOADED = ["topics.labels=labels", "events.repeats=skip"]


def converter_of(**table):
    table = {"name": "crm", "topic": "source", **table}
    pairs = ", ".join(f"{key} = {json.dumps(value)}" for key, value in table.items())
    config = load(None, {}, [*LOADED, f"sources=[{{ {pairs} }}]"])
    noticed = []
    made = RecordConverter(config.sources[0], config, None, lambda *notice: noticed.append(notice))
    made.noticed = noticed
    return made


def record(value, key=None, headers=(), offset=0):
    raw = value if isinstance(value, bytes) else json.dumps(value).encode()
    raw_key = json.dumps(key).encode() if isinstance(key, dict) else key
    return Record(Partition("source", 0), offset, raw_key, raw, TIME, tuple(headers))


def converted(made, *arguments, **more):
    """Return (topic, key, value) of each output; the value of a dead letter is its reason and path."""
    found = []
    for output in made.outputs(record(*arguments, **more)):
        headers = {name: raw.decode() for name, raw in output.headers}
        value = (headers["reason"], headers["path"]) if headers else json.loads(output.value)
        found.append((output.topic, output.key, value))
    return found


def change(op, after, before=None, at=1_790_000_001_000):
    return {"before": before, "after": after, "source": {"ts_ms": at, "lsn": 1}, "op": op, "ts_ms": at + 7}


def test_a_record_without_roles_is_an_event_as_it_is_with_the_time_of_its_log():
    event = {"id": "a", "text": "hi", "features": {"n": 1}, "label": "x", "extra": [1]}
    assert converted(converter_of(), event) == [("events", b"a", {**event, "ts": TIME})]
    assert converted(converter_of(), {**event, "ts": 5}) == [("events", b"a", {**event, "ts": 5})]


def test_columns_get_roles_and_nested_ones_names_with_dots():
    made = converter_of(id="order.no", label="state", text="note", ts="at", drop=["secret"])
    row = {
        "order": {"no": 17, "lines": 3, "rush": True}, "state": "late", "note": "hello", "at": 5, "secret": "s", "tags": ["a"], "empty": None,
    }  # fmt: skip
    event = {
        "id": "17",
        "ts": 5,
        "text": "hello",
        "features": {"order.lines": 3, "order.rush": True},
        "label": "late",
    }
    assert converted(made, row) == [("events", b"17", event)]
    assert made.noticed == [("tags", "array")]


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        (b"17", "17"), (b"5e10", "5e10"), (b"007", "007"), (b"true", "true"), (b'"a b"', "a b"),
        ({"id": 17}, "17"), ({"a": "x", "b": 2}, '["x",2]'), ({"schema": None, "payload": {"id": 3}}, "3"),
    ],
)  # fmt: skip
def test_a_key_is_an_id_as_it_is_written(key, expected):
    ((_, _, event),) = converted(converter_of(label="y"), {"x": 1, "y": "a"}, key)
    assert event["id"] == expected


@pytest.mark.parametrize("key", [None, b"", b"\xff", {"id": None}, b"{"])
def test_a_row_without_an_id_is_a_dead_letter(key):
    ((topic, _, (reason, _)),) = converted(converter_of(label="y"), {"x": 1, "y": "a"}, key)
    assert topic == "dead-letters"
    assert reason in {"missing", "invalid-utf8", "invalid-json"}


def test_columns_of_the_key_are_no_features():
    ((_, _, event),) = converted(converter_of(label="y"), {"id": 3, "x": 1, "y": "a"}, {"id": 3})
    assert event == {"id": "3", "ts": TIME, "features": {"x": 1}, "label": "a"}


CHANGES = {
    "new": (change("c", {"id": 1, "x": 2, "y": None}), ["event"]),
    "new with a label": (change("c", {"id": 1, "x": 2, "y": "a"}), ["event", "a"]),
    "of a snapshot": (change("r", {"id": 1, "x": 2, "y": "a"}), ["event", "a"]),
    "empty is no label": (change("c", {"id": 1, "x": 2, "y": ""}), ["event"]),
    "labelled": (change("u", {"id": 1, "x": 2, "y": "a"}), ["a"]),
    "label taken away": (change("u", {"id": 1, "x": 2, "y": None}), [None]),
    "a label that is false": (change("u", {"id": 1, "x": 2, "y": False}), ["false"]),
    "a label that is 0": (change("u", {"id": 1, "x": 2, "y": 0}), ["0"]),
    "label left out": (change("u", {"id": 1, "x": 2, "y": "__debezium_unavailable_value"}), []),
    "text left out": (change("u", {"id": 1, "x": "__debezium_unavailable_value", "y": "a"}), ["a"]),
    "deleted": (change("d", None, {"id": 1}), [None]),
    "deleted without a row before": (change("d", None), [None]),
    "truncated": (change("t", None), []),
    "message": ({"op": "m", "ts_ms": 1, "message": {"prefix": "p"}}, []),
    "tombstone": (b"", []),
}


@pytest.mark.parametrize("name", CHANGES)
@pytest.mark.parametrize("has_schema", [False, True])
def test_a_change_of_debezium_is_an_event_and_labels(name, has_schema):
    value, expected = CHANGES[name]
    if has_schema and isinstance(value, dict):
        value = {"schema": {"type": "struct", "fields": []}, "payload": value}
    found = converted(converter_of(envelope="debezium", label="y"), value, {"id": 1})
    event = ("events", b"1", {"id": "1", "ts": 1_790_000_001.0, "features": {"x": 2}})
    labels = [
        ("labels", b"1", {"id": "1", "label": label, "source": "crm", "ts": 1_790_000_001.0})
        for label in expected
        if label != "event"
    ]
    assert found == [event] * ("event" in expected) + labels


def test_what_its_owner_may_not_expect_is_reported():
    made = converter_of(envelope="debezium", label="y")
    converted(made, change("u", {"id": 1, "x": 3, "y": "a"}, {"id": 1, "x": 2, "y": None}), {"id": 1})
    converted(made, change("u", {"id": 1, "x": 3, "y": "b"}, {"id": 1, "x": 3, "y": "a"}), {"id": 1})
    assert made.noticed == [("source", "attributes")]
    converted(made, change("t", None), {"id": 1})
    converted(made, change("c", {"id": 1, "x": "__debezium_unavailable_value", "y": "a"}), {"id": 1})
    assert made.noticed[1:] == [("t", "operation"), ("x", "unavailable")]


@pytest.mark.parametrize("envelope", ["none", "debezium"])
def test_columns_that_no_row_had_are_reported_once_and_optional_ones_are_not(envelope):
    made = converter_of(envelope=envelope, label="lable", text="t", ts="at", drop=["a", "scret", "tags"])
    for row in ({"t": "x", "at": 5, "a": 1, "tags": [1]}, {"at": 5}):
        converted(made, row if envelope == "none" else change("c", row), b"k")
    assert set(made.noticed) == {("lable", "absent"), ("scret", "absent")}


def test_a_key_that_cannot_be_read_does_not_matter_if_columns_have_the_id():
    """A key of 8 bytes, such as Kafka's serializer of long numbers writes, looks like a frame."""
    for key in (b"\0\0\0\0\0\0\0\x11", b"\xff", b"{"):
        ((topic, raw_key, _),) = converted(converter_of(id="id", label="y"), {"id": 3, "y": "a"}, key)
        assert (topic, raw_key) == ("events", b"3")
        assert converted(converter_of(label="y"), {"id": 3, "y": "a"}, key)[0][0] == "dead-letters"


NAMES = "org.apache.kafka.connect.data", "io.debezium"
HOSTILE = [
    ({"type": "struct", "fields": [5]}, {}),
    ({"type": "struct", "fields": None}, {}),
    ({"type": "struct", "fields": [{"type": "bytes"}]}, {}),
    ({"type": ["x"]}, {"a": 1}),
    ({"type": "bytes"}, 5),
    ({"type": "bytes"}, "é"),
    ({"name": f"{NAMES[0]}.Decimal", "parameters": 5}, "AA=="),
    ({"name": f"{NAMES[0]}.Decimal", "parameters": {"scale": "x"}}, "AA=="),
    ({"name": f"{NAMES[0]}.Decimal", "parameters": {"scale": "9" * 20}}, "AQ=="),
    ({"name": f"{NAMES[0]}.Decimal", "parameters": {"scale": "-300000"}}, "AQ=="),
    ({"name": f"{NAMES[1]}.data.VariableScaleDecimal"}, {}),
    ({"name": f"{NAMES[1]}.time.ZonedTimestamp"}, 5),
    ({"name": {"x": 1}, "type": "struct", "fields": [{"field": ["a"], "type": "bytes"}]}, {"a": 1}),
]


@pytest.mark.parametrize(("schema", "payload"), HOSTILE)
def test_a_schema_inside_a_record_may_hold_anything(schema, payload):
    made = converter_of(label="y")
    for value in (payload, {"x": payload}):
        kind = schema if value is payload else {"type": "struct", "fields": [{"field": "x", **schema}]}
        outputs = converted(made, {"schema": kind, "payload": value}, b"k")
        assert [topic for topic, _, _ in outputs] in (["dead-letters"], ["events"])


def test_a_time_beyond_any_number_is_passed_over():
    made = converter_of(envelope="debezium", label="y")
    (_, _, event), (_, _, label) = converted(made, change("c", {"y": "a"}, at=10**400), b"k")
    assert event["ts"] == label["ts"] == TIME


def test_an_error_of_this_machine_is_not_the_records_fault(monkeypatch):
    def broken(_):
        raise OSError("no space left")

    monkeypatch.setattr("streamnb.conversion.record_converter.json_decoded", broken)
    with pytest.raises(OSError, match="no space"):
        converter_of().outputs(record({"id": "a"}))


def test_an_output_that_its_topic_does_not_accept_is_one_dead_letter():
    made = converter_of(envelope="debezium", label="y")
    made.sizes = {"events": 500, "labels": 100, "dead-letters": 3000}
    small, large = change("c", {"x": "a", "y": "b"}), change("c", {"x": "a" * 500, "y": "b"})
    assert [topic for topic, _, _ in converted(made, small, b"k")] == ["events", "labels"]
    (output,) = made.outputs(record(large, b"k" * 5000))
    headers = {name: raw.decode() for name, raw in output.headers}
    assert (output.topic, headers["reason"]) == ("dead-letters", "oversize")
    assert "max.message.bytes of topic events" in headers["remedy"]
    whole = sum(len(name) + len(raw) for name, raw in output.headers) + len(output.value)
    assert whole + len(output.key or b"") < 3000
    limited = converter_of()
    limited.sizes = {}
    assert converted(limited, {"id": "a", "text": "x" * (1 << 20)})[0][2] == ("oversize", "$")


def test_a_change_after_a_snapshot_is_never_older_than_its_rows():
    """A row of a snapshot has the time of its reading: a change that follows may have an earlier commit."""
    made = converter_of(envelope="debezium", label="y")
    rows = [
        change("r", {"id": 1, "y": "a"}, at=1_790_000_009_000),
        change("u", {"id": 1, "y": "b"}, at=1_790_000_008_000),
        change("d", None, at=1_790_000_008_500),
        change("u", {"id": 1, "y": "c"}, at=1_790_000_010_000),
    ]
    labels = [
        value for row in rows for topic, _, value in converted(made, row, {"id": 1}) if topic == "labels"
    ]
    assert [value["ts"] for value in labels] == [1_790_000_009.0] * 3 + [1_790_000_010.0]


def test_a_deleted_row_keeps_its_label_by_choice():
    made = converter_of(envelope="debezium", label="y", deletes="keep")
    assert converted(made, change("d", None), {"id": 1}) == []


@pytest.mark.parametrize(
    "value", [{"id": 1, "y": "a"}, 5, [], "x", {"op": "x"}, change("c", None), b"{", b"\xff"]
)
def test_whatever_is_no_change_is_a_dead_letter(value):
    ((topic, _, (reason, _)),) = converted(converter_of(envelope="debezium", label="y"), value, {"id": 1})
    assert (topic, reason) in {
        ("dead-letters", name) for name in ("wrong-envelope", "missing", "invalid-json")
    }


CONNECT = [
    ({"type": "int32", "name": "io.debezium.time.Date"}, 20_455, "2026-01-02T00:00:00+00:00"),
    ({"type": "int32", "name": "io.debezium.time.Date"}, -2_147_472_692, None),
    ({"type": "int64", "name": "io.debezium.time.MicroTimestamp"}, 1_767_323_045_000_006, "2026-01-02T03:04:05.000006+00:00"),
    ({"type": "bytes", "name": "org.apache.kafka.connect.data.Decimal", "parameters": {"scale": "2"}}, base64.b64encode(b"\xff\x00").decode(), -2.56),
    ({"type": "struct", "name": "io.debezium.data.VariableScaleDecimal"}, {"scale": 3, "value": base64.b64encode(b"\x04\xd2").decode()}, 1.234),
    ({"type": "bytes"}, base64.b64encode(b"abc").decode(), "abc"),
    ({"type": "string", "name": "io.debezium.data.Json"}, "{}", "{}"),
    ({"type": "int32"}, 5, 5),
]  # fmt: skip


@pytest.mark.parametrize(("schema", "given_value", "expected"), CONNECT)
def test_values_with_a_connect_schema_have_the_meaning_of_its_name(schema, given_value, expected):
    row = {"type": "struct", "field": "after", "fields": [{"field": "x", **schema}]}
    convert = struct_converter({"type": "struct", "fields": [row]})
    found = {"after": {"x": given_value}} if convert is None else convert({"after": {"x": given_value}})
    assert found == {"after": {"x": expected}}


def test_a_connect_schema_that_changes_is_read_again_for_values_and_for_keys():
    made = converter_of(label="y")

    def with_schema(name, payload):
        fields = [{"field": field, "type": "int64", "name": name} for field in payload]
        return {"schema": {"type": "struct", "fields": fields}, "payload": payload}

    found = []
    for name in (
        "io.debezium.time.Timestamp",
        "io.debezium.time.MicroTimestamp",
        "io.debezium.time.Timestamp",
    ):
        value, key = with_schema(name, {"at": 1_000_000}), with_schema(name, {"no": 1_000_000})
        ((_, _, event),) = converted(made, value, key)
        found.append((event["id"], event["features"]["at"]))
    milli, micro = "1970-01-01T00:16:40+00:00", "1970-01-01T00:00:01+00:00"
    assert found == [(milli, milli), (micro, micro), (milli, milli)]


def cloud(data, mode, **attributes):
    attributes = {
        "id": "e-1",
        "source": "/shop",
        "type": "t",
        "datacontenttype": "application/json",
        **attributes,
    }
    write = cloud_kafka.to_binary if mode == "binary" else cloud_kafka.to_structured
    message = write(CloudEvent(attributes, data), JSONFormat(), key_mapper=None)
    return {"value": message.value, "headers": tuple(message.headers.items())}


@pytest.mark.parametrize("mode", ["binary", "structured"])
def test_cloud_events_of_both_modes_give_their_data_id_and_time(mode):
    made = converter_of(envelope="cloudevents")
    message = cloud({"text": "hi", "features": {"n": 1}}, mode, time=dt.datetime(2026, 1, 2, tzinfo=dt.UTC))
    ((_, key, event),) = converted(made, message["value"], headers=message["headers"])
    assert (key, event) == (
        b"e-1",
        {"text": "hi", "features": {"n": 1}, "id": "e-1", "ts": "2026-01-02T00:00:00Z"},
    )
    assert made.noticed == []


@pytest.mark.parametrize("mode", ["binary", "structured"])
def test_the_id_of_the_data_is_used_if_its_column_is_named(mode):
    message = cloud({"id": "inner", "n": 1}, mode)
    made = converter_of(envelope="cloudevents")
    assert converted(made, message["value"], headers=message["headers"])[0][1] == b"e-1"
    assert made.noticed == [("id", "hidden")]
    named = converter_of(envelope="cloudevents", id="id")
    assert converted(named, message["value"], headers=message["headers"])[0][1] == b"inner"


BAD_CLOUD = [
    (b'{"id": "x"}', ()),
    (b"[]", (("content-type", b"application/cloudevents-batch+json"),)),
    (b"", ()),
    (b"<a/>", (("ce_specversion", b"1.0"), ("ce_id", b"a"), ("content-type", b"application/xml"))),
    (b'{"specversion": "1.0", "id": "a", "data_base64": "AAAA"}', ()),
    (
        b'{"specversion": "1.0", "id": "a"}',
        (("content-type", b"application/cloudevents+json; charset=utf-8"),),
    ),
    (b"x", (("content-type", b"application/cloudevents+avro"),)),
]


@pytest.mark.parametrize(("value", "headers"), BAD_CLOUD)
def test_whatever_is_no_cloud_event_is_a_dead_letter(value, headers):
    found = converted(converter_of(envelope="cloudevents"), value, headers=headers)
    assert [topic for topic, _, _ in found] == ["dead-letters"] * bool(value)


def test_text_data_of_a_cloud_event_is_the_text():
    headers = (("ce_specversion", b"1.0"), ("ce_id", b"a"), ("Content-Type", b"text/plain; charset=utf-8"))
    ((_, _, event),) = converted(converter_of(envelope="cloudevents"), "grüß".encode(), headers=headers)
    assert event == {"text": "grüß", "id": "a", "ts": TIME}


def test_a_framed_record_without_a_registry_names_the_key():
    (output,) = converter_of().outputs(record(b"\0\0\0\0\7abc"))
    headers = dict(output.headers)
    assert headers["reason"] == b"undecodable"
    assert b"schema 7" in headers["detail"]
    assert headers["remedy"] == b"set registry.url"


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=8,
)
KEYS = st.none() | st.binary(max_size=8) | st.text(max_size=5).map(str.encode)
TABLES = st.sampled_from(
    [
        {},
        {"label": "y"},
        {"id": ["a", "b"], "label": "y", "text": "t"},
        {"envelope": "cloudevents"},
        {"envelope": "debezium", "label": "y"},
    ]
)


ENVELOPES = st.fixed_dictionaries(
    {},
    optional={
        **dict.fromkeys(("before", "after", "source", "ts_ms", "data", "time", "id"), VALUES),
        "op": st.sampled_from("crudtm"),
        "specversion": st.just("1.0"),
    },
)
CHANGED = st.builds(change, st.sampled_from("crudtm"), VALUES, VALUES)


@given(TABLES, VALUES | CHANGED | ENVELOPES, KEYS)
def test_whatever_comes_is_converted_or_a_dead_letter(table, value, key):
    made = converter_of(**table)
    for output in made.outputs(record(json.dumps(value).encode(), key)):
        assert output.topic in {"events", "labels", "dead-letters"}
        if output.topic != "dead-letters":
            assert isinstance(json.loads(output.value), dict)


@given(st.binary(max_size=40), KEYS, TABLES)
def test_whatever_bytes_come_are_a_dead_letter(raw, key, table):
    for output in converter_of(**table).outputs(record(raw, key)):
        assert output.topic == "dead-letters" or json.loads(raw)
