from __future__ import annotations

import json
import math
import re
import time
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import msgspec
import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from streamnb.errors import ConfigError, MalformedEvent
from streamnb.events import (
    CONVERSION_REASONS,
    DETECTORS,
    LABEL_REASONS,
    REASONS,
    TOO_MANY_CLASSES,
    UNPUBLISHED,
    Attribution,
    DeadLetter,
    Event,
    HypothesisScore,
    LabelRecord,
    MetricsReport,
    ModelInfo,
    PosteriorReport,
    Prediction,
    ReliabilityBin,
    Retraction,
    Scores,
    TenantStanding,
)
from streamnb.formats import codec
from streamnb.formats.codec import (
    decode_alert,
    decode_event,
    decode_events,
    decode_label,
    decode_labels,
    decode_metrics,
    decode_prediction,
    encode_alert,
    encode_event,
    encode_label,
    encode_metrics,
    encode_prediction,
    encode_predictions,
    encode_tenant_stats,
)
from streamnb.formats.dead_letter_record import dead_letter_record
from streamnb.formats.event_columns import CsvColumns
from streamnb.formats.event_csv import rows_to_events
from streamnb.formats.event_schema import AttributeSpec, EventSchema
from streamnb.formats.event_validity import EARLIEST, LATEST
from streamnb.formats.journal_record import START, chain_outputs, decode_journal, encode_journal
from streamnb.formats.json_parsing import MAX_DEPTH
from streamnb.formats.json_paths import parse_path, render_path
from streamnb.values.time_parts import PARTS
from tests.support.every_case import failures
from tests.support.malformed import LABEL_RECORDS, MALFORMED, NOT_LABELS

FORMATS = Path(__file__).parents[2] / "docs" / "formats.md"
OPEN = EventSchema()


def slow_event(raw, schema=OPEN):
    return codec._read_event(codec.parse(raw, schema.max_bytes), schema)


def is_sane(fields):
    """Whether it is an event: no label record, and of a time that can be."""
    is_told = {"text", "features", "more"} & fields.keys() or fields.get("label") is None
    return is_told and EARLIEST <= (fields.get("ts") or 0) < LATEST


def declared(*attributes, **others):
    return EventSchema(attributes=tuple(AttributeSpec(*one) for one in attributes), **others)


def refusal(decode, *arguments):
    with pytest.raises(MalformedEvent) as caught:
        decode(*arguments)
    return caught.value.reason, caught.value.path


def nested(depth):
    """A record that nests exactly so deep."""
    return b'{"id":"m","more":' + b"[" * (depth - 1) + b"]" * (depth - 1) + b"}"


def at_stack_depth(depth, call):
    return call() if depth == 0 else at_stack_depth(depth - 1, call)


# Malformed events


BY_NAME = {case.name: case for case in MALFORMED}


def test_a_malformed_event_is_refused_with_reason_and_path():
    told = {name: (case.reason, case.path) for name, case in BY_NAME.items()}
    assert {name: refusal(decode_event, case.raw, OPEN) for name, case in BY_NAME.items()} == told
    assert {name: refusal(slow_event, case.raw) for name, case in BY_NAME.items()} == told


@pytest.mark.parametrize(
    ("value", "name"),
    [("1", "1"), ("1.0", "1"), ("-0.0", "0"), ("0.5", "0.5"), ("true", "true"), ("false", "false"),
     ("12345678901234567890", "12345678901234567890"), ("1e3", "1000")],
)  # fmt: skip
def test_numbers_and_booleans_are_ids_and_labels_by_one_rule(value, name):
    raw = f'{{"id":{value},"label":{value},"text":"a"}}'.encode()
    event = decode_event(raw, OPEN)
    assert (event.id, event.label) == (name, name)
    assert decode_events([raw, raw], OPEN).events() == [event, event]
    label = decode_label(f'{{"id":{value},"label":{value}}}'.encode(), OPEN)
    assert (label.id, label.label) == (name, name)
    with pytest.raises(MalformedEvent, match="label-record"):
        decode_event(f'{{"id":"m","label":{value}}}'.encode(), OPEN)


def test_the_malformed_events_are_many_and_cover_every_reason():
    assert len({case.raw for case in MALFORMED}) == len(MALFORMED) == len(BY_NAME) >= 100
    assert {case.reason for case in MALFORMED} == set(REASONS) - {
        UNPUBLISHED,
        TOO_MANY_CLASSES,
        "label-record",
        *LABEL_REASONS,
        *CONVERSION_REASONS,
    }


def test_a_refusal_tells_nothing_of_the_content_and_can_be_a_header():
    def tells_nothing(name):
        with pytest.raises(MalformedEvent) as caught:
            decode_event(BY_NAME[name].raw, OPEN)
        assert caught.value.path.encode()
        assert "words" not in caught.value.detail
        assert len(caught.value.detail) < 120

    assert failures(tells_nothing, BY_NAME) == {}


def test_a_verdict_does_not_depend_on_the_callers_stack():
    for stack in (0, 300, 600):
        accepted = at_stack_depth(stack, lambda: decode_event(nested(MAX_DEPTH), OPEN))
        assert accepted == Event("m", {})
        for depth in (MAX_DEPTH + 1, 400, 900, 50_000):
            verdict = at_stack_depth(stack, lambda depth=depth: refusal(decode_event, nested(depth), OPEN))
            assert verdict == ("invalid-json", "$")


def test_brackets_in_text_are_not_depth():
    text = '[{"' * 5_000 + "\\"
    assert decode_event(encode_event({"id": "m", "text": text}), OPEN).x == {"text": text}
    assert decode_event(encode_event({"id": "m", "more": text}), OPEN).x == {}
    flat = {str(number): [] for number in range(500)}
    assert decode_event(encode_event({"id": "m", "more": flat}), OPEN).x == {}


def test_the_deepest_record_may_hold_more_brackets():
    raw = nested(MAX_DEPTH).replace(b'"more"', b'"flat":[[],{},"]]}}"],"more"')
    assert decode_event(raw, OPEN) == slow_event(raw) == Event("m", {})
    assert refusal(decode_event, raw.replace(b"[[[]", b"[[[[]]"), OPEN) == ("invalid-json", "$")


def test_looking_for_depth_takes_linear_time():
    raw = b'{"a":[' + b"[]," * MAX_DEPTH + b'"' + b'\\"' * 100_000
    started = time.process_time()
    assert refusal(decode_event, raw, OPEN) == ("invalid-json", "$")
    assert time.process_time() - started < 2


def test_a_hostile_key_makes_no_long_path():
    raw = encode_event({"id": "m", "features": {"k" * 500_000: []}})
    with pytest.raises(MalformedEvent) as caught:
        decode_event(raw, OPEN)
    assert len(caught.value.path) == 256
    assert caught.value.path.endswith("...")


def test_the_limit_of_bytes_is_the_last_size_allowed():
    raw = b'{"id":"m"}'
    assert decode_event(raw, EventSchema(max_bytes=10)) == Event("m", {})
    assert refusal(decode_event, raw, EventSchema(max_bytes=9)) == ("oversize", "$")


@pytest.mark.parametrize(
    "raw",
    [
        b'{"id":"m","more":1e999}',
        b'{"id":"m","more":' + b"9" * 5_000 + b"}",
        b'{"id":"m","more":[{"a":[]}],"weight":-1}',
        b'{"id":"m","features":null,"text":null,"label":null,"ts":null}',
        b' \r\n\t{"id":"m"} \n',
        b'{"id":2,"id":"m"}',
        b'{"features":[],"id":"m","features":{}}',
    ],
)
def test_what_nobody_reads_may_be_odd(raw):
    assert decode_event(raw, OPEN) == slow_event(raw) == Event("m", {})


# Events under the default schema


def test_an_open_event_takes_its_attributes_by_type():
    raw = rb'{"id":"m","ts":7,"text":"\ud83d\ude00","label":"s","features":{"i":3,"f":0.5,"s":"x","b":true,"n":null}}'
    event = decode_event(raw, OPEN)
    assert event == Event("m", {"text": "\U0001f600", "i": 3.0, "f": 0.5, "s": "x", "b": True}, "s", 1.0, 7.0)
    assert [type(value) for value in event.x.values()] == [str, float, float, str, bool]
    assert type(event.ts) is float


def test_the_name_text_belongs_to_text():
    assert decode_event(b'{"id":"m","features":{"text":"a","b":1}}', OPEN).x == {"text": "a", "b": 1.0}
    assert decode_event(b'{"id":"m","text":"t","features":{"text":"a"}}', OPEN).x == {"text": "t"}
    assert decode_event(b'{"id":"m","text":null,"features":{"text":"a"}}', OPEN).x == {"text": "a"}


@pytest.mark.parametrize("given", [b"5", b"true", b"[]", b'{"a":1}', b"1e999", b'"other"', b"null"])
def test_a_text_among_the_features_gives_way_whatever_it_is(given):
    raw = b'{"id":"m","text":"t","features":{"text":%s,"b":1}}' % given
    assert decode_event(raw, OPEN) == slow_event(raw) == Event("m", {"text": "t", "b": 1.0})
    beside = declared(("c", "nominal", "$.c"), open_features=True)
    assert decode_event(raw, beside) == Event("m", {"text": "t", "b": 1.0})


_TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
_FEATURES = st.dictionaries(
    _TEXTS | st.just("text"),
    st.none() | st.booleans() | _TEXTS | st.floats(allow_nan=False, allow_infinity=False) | st.integers(),
    max_size=5,
)
_EVENTS = st.fixed_dictionaries(
    {"id": _TEXTS.filter(bool)},
    optional={
        "text": st.none() | _TEXTS,
        "features": st.none() | _FEATURES,
        "label": st.none() | _TEXTS.filter(bool),
        "ts": st.none() | st.integers(-(10**18), 10**18) | st.floats(allow_nan=False, allow_infinity=False),
        "more": st.none() | _TEXTS | _FEATURES,
    },
)
_SPLICES = st.sampled_from(
    [
        *(bytes([byte]) for byte in b'"\\{}[],:0-. \n\x00\xff'),
        *(
            b"\xed\xa0\x80",
            rb"\ud800",
            rb"\udc00",
            b"9" * 20,
            b"9" * 400,
            b"1e999",
            b"e5",
            b"NaN",
            b"null",
            b"true",
        ),
        *(b'"id":"",', b'"text":1,', b'"label":"",', b'"features":{"a":1e999},'),
    ]
)


def outcome(read, raw):
    """What a road makes of a record: the event with the order of its attributes, or the refusal."""
    try:
        event = read(raw)
    except MalformedEvent as error:
        return error.reason, error.path
    return event, list(event.x), [type(value) for value in event.x.values()]


@given(_EVENTS, st.booleans())
def test_the_two_roads_read_the_same_event(fields, ascii_only):
    raw = json.dumps(fields, ensure_ascii=ascii_only).encode()
    assert outcome(lambda raw: decode_event(raw, OPEN), raw) == outcome(slow_event, raw)


@given(_EVENTS, st.lists(st.tuples(st.integers(0, 200), st.integers(0, 4), _SPLICES), max_size=3))
@example({"id": "m", "more": "x"}, [(18, 1, b"\xff")])
def test_the_two_roads_agree_on_damaged_records(fields, damages):
    raw = json.dumps(fields, ensure_ascii=False).encode()
    for place, length, splice in damages:
        raw = raw[:place] + splice + raw[place + length :]
    assert outcome(lambda raw: decode_event(raw, OPEN), raw) == outcome(slow_event, raw)


@given(st.binary(max_size=60))
def test_any_bytes_are_an_event_or_malformed(raw):
    read = outcome(lambda raw: decode_event(raw, OPEN), raw)
    assert isinstance(read[0], Event) or read[0] in REASONS


def as_read(value):
    return float(value) if type(value) is int else value


@given(_EVENTS.filter(is_sane))
def test_an_encoded_event_decodes_to_itself(fields):
    features = fields.get("features") or {}
    features.pop("text", None)
    event = decode_event(encode_event(fields), OPEN)
    text = {} if fields.get("text") is None else {"text": fields["text"]}
    assert event.x == text | {name: as_read(value) for name, value in features.items() if value is not None}
    assert (event.id, event.label, event.ts) == (fields["id"], fields.get("label"), as_read(fields.get("ts")))


@given(st.integers(-(10**310), 10**310))
@example(9007199254740993)
@example(int(1.7976931348623157e308))
@example(10**309)
def test_integers_become_the_nearest_double(value):
    raw = b'{"id":"m","features":{"f":%d}}' % value
    try:
        expected = float(value)
    except OverflowError:
        assert refusal(decode_event, raw, OPEN) == ("out-of-range", "$.features.f")
    else:
        assert decode_event(raw, OPEN).x == slow_event(raw).x == {"f": expected}


# Declared attributes


def test_only_declared_attributes_are_read():
    schema = declared(("age", "continuous", "$.user.age"), ("words", "text", "$.body"))
    raw = b'{"id":"m","text":5,"features":[],"body":"a b","user":{"age":41,"name":{}}}'
    assert decode_event(raw, schema).x == {"age": 41.0, "words": "a b"}
    assert schema.open_features is False
    assert OPEN.open_features is True


def test_nothing_declared_and_nothing_open_reads_nothing():
    assert decode_event(b'{"id":"m","text":"a"}', EventSchema(open_features=False)).x == {}


def test_declared_and_open_attributes_side_by_side():
    schema = declared(
        ("port", "nominal", "$.features.dst-port"), ("n", "continuous", "$.n"), open_features=True
    )
    raw = b'{"id":"m","text":"t","n":1,"features":{"dst-port":80,"port":"x","n":2,"links":3}}'
    assert decode_event(raw, schema).x == {"text": "t", "port": "80", "n": 1.0, "links": 3.0}


@pytest.mark.parametrize(
    ("kind", "value", "expected"),
    [
        ("nominal", b'"a"', "a"),
        ("nominal", b'""', ""),
        ("nominal", b"true", "true"),
        ("nominal", b"false", "false"),
        ("nominal", b"3", "3"),
        ("nominal", b"3.0", "3"),
        ("nominal", b"30e-1", "3"),
        ("nominal", b"-0.0", "0"),
        ("nominal", b"0.1", "0.1"),
        ("nominal", b"9007199254740993", "9007199254740993"),
        ("nominal", b"123456789012345678901234567890", "123456789012345678901234567890"),
        ("continuous", b"3", 3.0),
        ("continuous", b"-2.5e-3", -0.0025),
        ("text", b'"a b"', "a b"),
        ("text", b'""', ""),
    ],
)
def test_a_declared_kind_reads_its_values(kind, value, expected):
    event = decode_event(b'{"id":"m","v":' + value + b"}", declared(("v", kind, "$.v")))
    assert event.x == {"v": expected}
    assert type(event.x["v"]) is type(expected)


@pytest.mark.parametrize(
    ("kind", "value", "reason"),
    [
        ("nominal", b"[]", "wrong-type"),
        ("nominal", b"{}", "wrong-type"),
        ("nominal", b"1e999", "out-of-range"),
        ("nominal", b"9" * 320, "out-of-range"),
        ("continuous", b'"3"', "wrong-type"),
        ("continuous", b"true", "wrong-type"),
        ("continuous", b"[3]", "wrong-type"),
        ("continuous", b"1e999", "out-of-range"),
        ("text", b"3", "wrong-type"),
        ("text", b"true", "wrong-type"),
    ],
)
def test_a_declared_kind_refuses_other_values(kind, value, reason):
    raw = b'{"id":"m","a":{"odd key":' + value + b"}}"
    assert refusal(decode_event, raw, declared(("v", kind, '$.a["odd key"]'))) == (reason, '$.a["odd key"]')


@pytest.mark.parametrize(("least", "most"), [(None, None), (0.0, None), (None, 9.5), (-1e3, 1e3)])
@pytest.mark.parametrize("value", [-1e12, -1.0, 0.0, 3.0, 9.5, 1e12])
def test_a_number_beyond_its_ends_is_read_as_the_nearer_of_the_two(least, most, value):
    schema = EventSchema(attributes=(AttributeSpec("v", "continuous", "$.v", None, least, most),))
    found = decode_event(b'{"id":"m","v":%s}' % repr(value).encode(), schema).x["v"]
    assert found == np.clip(value, least, most)


def test_paths_of_id_label_and_ts_are_configurable():
    schema = EventSchema(id_path="$.meta.key", label_path='$["the class"]', ts_path="$.meta.at")
    raw = b'{"meta":{"key":"m","at":5},"the class":"spam","id":3,"label":[],"ts":"x"}'
    assert decode_event(raw, schema) == Event("m", {}, "spam", 1.0, 5.0)
    assert refusal(decode_event, b'{"meta":"m"}', schema) == ("wrong-type", "$.meta")
    assert refusal(decode_event, b'{"meta":null}', schema) == ("missing", "$.meta.key")
    assert refusal(decode_event, b'{"meta":{"key":"m","at":"x"}}', schema) == ("wrong-type", "$.meta.at")


def test_a_time_of_another_form_can_be_left_unread():
    raw = b'{"id":"m","ts":"2026-11-21T07:00:00Z"}'
    assert decode_event(raw, EventSchema(ts_path=None)) == Event("m", {})


def test_an_object_on_the_way_to_a_value_must_be_one():
    schema = declared(("v", "continuous", "$.a.b.c"))
    assert decode_event(b'{"id":"m","a":{"b":null}}', schema).x == {}
    assert refusal(decode_event, b'{"id":"m","a":{"b":[1]}}', schema) == ("wrong-type", "$.a.b")
    assert refusal(decode_event, b'{"id":"m","a":1}', schema) == ("wrong-type", "$.a")


@pytest.mark.parametrize(
    "path",
    [
        "",
        "$",
        "a",
        "a.b",
        "$a",
        "$.",
        "$..a",
        "$.a.",
        "$.a b",
        "$[0]",
        '$["a',
        '$["a"',
        '$["a"]b',
        "$['a']",
        r'$["\x"]',
        ".a",
        "$.a\n",
    ],
)
def test_a_bad_path_is_a_configuration_error(path):
    with pytest.raises(ConfigError):
        parse_path(path)
    with pytest.raises(ConfigError):
        declared(("a", "text", path))
    for place in ("id_path", "label_path", "ts_path"):
        with pytest.raises(ConfigError):
            EventSchema(**{place: path})


def test_a_schema_refuses_one_name_for_two_attributes_and_no_room():
    with pytest.raises(ConfigError, match="'a'"):
        declared(("a", "text", "$.a"), ("a", "nominal", "$.b"))
    with pytest.raises(ConfigError, match="max_bytes"):
        EventSchema(max_bytes=0)


@given(st.lists(st.text(max_size=4), min_size=1, max_size=4))  # a longer path is cut short
def test_a_rendered_path_parses_to_its_keys(keys):
    assert parse_path(render_path(tuple(keys))) == tuple(keys)


# Labels


def test_a_verdict_is_read_with_its_defaults():
    assert decode_label(b'{"id":"m","label":"ham"}') == LabelRecord("m", "ham", "default", 1.0, None)
    assert decode_label(b'{"id":"m","label":"ham","source":null,"weight":null}') == LabelRecord("m", "ham")
    assert decode_label(b'{"id":"m","label":null,"ts":"1970-01-01T00:00:05Z"}') == LabelRecord(
        "m", None, ts=5.0
    )
    read = decode_label(b'{"id":"m","label":"ham","source":"s","weight":0,"more":[]}')
    assert read == LabelRecord("m", "ham", "s", 0.0)
    assert type(read.weight) is float
    withdrawn = decode_label(b'{"withdraw":true,"source":"s","since":3,"ts":4}')
    assert withdrawn == Retraction("s", 3.0, 4.0)


@given(
    st.builds(
        LabelRecord,
        st.text(min_size=1, max_size=9),
        st.none() | st.text(min_size=1, max_size=9),
        st.text(min_size=1, max_size=9).filter(lambda source: source != "event"),
        st.floats(0.0, 2.0**20),
        st.none() | st.floats(-1e9, 1e9),
    )
    | st.builds(Retraction, st.text(min_size=1, max_size=9), st.none() | st.floats(-1e9, 1e9))
)
def test_a_verdict_survives_its_record(verdict):
    assert decode_label(encode_label(verdict)) == verdict


@pytest.mark.parametrize(
    ("raw", "reason", "path"),
    [
        (b"", "invalid-json", "$"),
        (b"\xff", "invalid-utf8", "$"),
        (b"[]", "wrong-type", "$"),
        (rb'{"id":"m","label":"\ud800"}', "lone-surrogate", "$.label"),
        (b'{"label":"ham"}', "missing", "$.id"),
        (b'{"id":"m"}', "missing", "$.label"),
        (b'{"id":"m","label":"ham","source":"event"}', "out-of-range", "$.source"),
        (b'{"id":"m","label":"ham","ts":"yesterday"}', "wrong-type", "$.ts"),
        (b'{"id":"m","label":"ham","ts":1790000000000}', "out-of-range", "$.ts"),
        (b'{"id":"m","label":"ham","ts":"9999-01-01T00:00:00Z"}', "out-of-range", "$.ts"),
        (b'{"withdraw":true,"source":"s","since":1790000000000}', "out-of-range", "$.since"),
        (b'{"withdraw":true}', "missing", "$.source"),
        (b'{"withdraw":1,"source":"s"}', "wrong-type", "$.withdraw"),
        (b'{"withdraw":true,"source":"s","since":[]}', "wrong-type", "$.since"),
        (b'{"id":"m","label":"ham","weight":1048577}', "out-of-range", "$.weight"),
        (b'{"id":"","label":"ham"}', "out-of-range", "$.id"),
        (b'{"id":"m","label":""}', "out-of-range", "$.label"),
        (b'{"id":[1],"label":"ham"}', "wrong-type", "$.id"),
        (b'{"id":"m","label":[1]}', "wrong-type", "$.label"),
        (b'{"id":"m","label":"ham","source":{}}', "wrong-type", "$.source"),
        (b'{"id":"m","label":"ham","weight":"1"}', "wrong-type", "$.weight"),
        (b'{"id":"m","label":"ham","weight":true}', "wrong-type", "$.weight"),
        (b'{"id":"m","label":"ham","weight":-0.5}', "out-of-range", "$.weight"),
        (b'{"id":"m","label":"ham","weight":1e999}', "out-of-range", "$.weight"),
        (b'{"id":"m","label":"ham","weight":NaN}', "invalid-json", "$"),
        (b" " * ((1 << 20) + 1), "oversize", "$"),
    ],
)
def test_a_malformed_label_is_refused(raw, reason, path):
    assert refusal(decode_label, raw) == (reason, path)


PIECES = [
    b'{"id":"a","label":"x"}',
    b'{"id":"b","label":null,"source":"s","weight":2,"ts":3}',
    b'{"id":"c","label":"x","ts":"1970-01-01T00:00:05Z"}',
    b'{"id":"d","label":"x","source":"event"}',
    b'{"id":"d","label":"x","ts":1790000000000}',
    b'{"id":"e","label":"x","more":[{}',
    b'{"id":"e","label":"x","more":{}',
    b'{"id":"e","label":"x","more":"}',
    b"{}]}",
    b'{"id":"f","label":"}',
    b'{"}',
    b'{"id":"g","label":"x"}{"id":"h","label":"y"}',
    b'{"id":"g","label":"x"}\n{"id":"h","label":"y"}',
    b'{"id":"i",\n"label":"x"}',
    b' {"id":"j","label":"x"}\n',
    b'{"withdraw":true,"source":"s"}',
    b'{"id":"k","label":"\xff"}',
    b'{"id":"l","label":"x","more":"\xff"}',
    b'{"id":"m","label":"' + b"x" * 600 + b'"}',
    b"",
    b"{}",
]


@given(st.lists(st.sampled_from(PIECES), min_size=1, max_size=6))
def test_many_labels_at_once_are_read_as_one_after_the_other(raws):
    """Whether they are read the short way, as records of a few bytes are, or with care."""

    def alone(raw, length=0):
        try:
            return decode_label(raw.ljust(length), EventSchema(max_bytes=500))
        except MalformedEvent as error:
            return error.reason, error.path

    together = decode_labels(raws, EventSchema(max_bytes=500))
    found = [(one.reason, one.path) if isinstance(one, MalformedEvent) else one for one in together]
    assert found == list(map(alone, raws)) == [alone(raw, 300) for raw in raws]


EVENTS = [
    b'{"id":"a","text":"free"}',
    b'{"id":"b","text":"","label":"x","ts":5}',
    b'{"id":"c","text":"a","label":"y","ts":"1970-01-01T00:00:05Z"}',
    b'{"id":"d","features":{"n":1,"gone":null},"label":"x"}',
    b'{"id":"e","text":"b","features":{"entity":"own","flag":true}}',
    b'{"id":"f","text":"b","features":{"text":"twice"}}',
    b'{"id":"g","text":"late","ts":4000000000}',
    b'{"id":"h","text":"odd","ts":1790000000000}',
    b'{"id":"i","text":"a","more":' + b"[" * 99 + b"]" * 99 + b"}",
    b'{"id":"j","text":"a","more":' + b"[" * 110 + b"]" * 110 + b"}",
    b'{"id":"k","text":"a","more":["[{","[{"],"pad":"' + b"[" * 300 + b'"}',
    b'{"id":"l","text":"' + "d\u00e9j\u00e0 ".encode() * 40 + b'"}',
    b'{"id":"m","text":"' + b"long " * 100 + b'"}',
    b"1,2",
    b"{}],[{}",
    b'{"id":"n","text":"b"},{"id":"o","text":"b"}',
    *PIECES,
    *(case.raw for case in MALFORMED if len(case.raw) < 600),
    *LABEL_RECORDS,
    *NOT_LABELS,
]
TEXTS = [
    b'{"id":"a","text":"free"}',
    b'{"text":"","id":"b","label":null}',
    b'{"id":"c","text":"\xc3\xa9t\xc3\xa9 }\\n{ \\u00e9 \\ud83d\\ude00","label":"x"}',
    b'{"id":"d","id":"e","text":"twice","label":"y"}',
    b'{ "id" : "f" , "text" : "[[[{{{" }',
    b'{"id":"ham","text":"b","label":"ham"}',
    b'{"id":"long","text":"' + b"long " * 100 + b'"}',
]
ODD = [
    b'{"id":"q","text":"a","ts":5}',
    b'{"id":"r","text":"a","features":{"n":1}}',
    b'{"id":"s","text":"a","more":' + b"[" * 110 + b"]" * 110 + b"}",
    b'{"id":"g","text":"\xff"}',
    b'{"id":"h","text":"a","\xff":1}',
    b'{"id":"i","text":"a","more":"\xff"}',
    b'{"id":"j","text":"half \\ud800"}',
    b'{"id":"k","text":"a"',
    b'{"id":"l","text":"a}',
    b"}{",
    b'{"id":"m","text":"a"}\n{"id":"n","text":"a"}',
    b'{"id":"n","text":\n"a"}',
    b'{"id":"o","text":"a"},',
    b',{"id":"p","text":"a"}',
    b'"open',
    b"",
    b"\n",
]
SCHEMAS = [
    EventSchema(max_bytes=500),
    EventSchema(max_bytes=500, clock="event"),
    EventSchema(max_bytes=500, entity_path=""),
    EventSchema(max_bytes=500, aliases={"x": "y", "ham": ""}),
    EventSchema(max_bytes=500, attributes=(AttributeSpec("n", "continuous", "$.features.n"),)),
]


def assert_as_alone(raws, schema, *, is_dated=True):
    """Compare events that are decoded together with each alone; errors with their details."""
    keys = [None if number % 3 else b"key" for number in range(len(raws))]
    recorded = [1e9 * (number % 3) if is_dated else 0.0 for number in range(len(raws))]

    def alone(*row):
        try:
            return decode_event(row[0], schema, *row[1:])
        except MalformedEvent as error:
            return error.reason, error.path, str(error)

    together = decode_events(raws, schema, keys, recorded).events()
    found = [(one.reason, one.path, str(one)) if isinstance(one, MalformedEvent) else one for one in together]
    assert found == list(map(alone, raws, keys, recorded))


@given(
    st.lists(st.sampled_from(EVENTS), max_size=9) | st.lists(st.sampled_from(TEXTS), min_size=2, max_size=9),
    st.sampled_from(SCHEMAS),
    st.booleans(),
)
def test_many_events_at_once_are_read_as_one_after_the_other(raws, schema, is_dated):
    assert_as_alone(raws, schema, is_dated=is_dated)
    if not is_dated:
        assert len(decode_events(raws, schema).events()) == len(raws)


def test_an_odd_record_among_texts_is_read_as_alone():
    for odd in (*ODD, *EVENTS):
        for schema in SCHEMAS:
            assert_as_alone([TEXTS[0], odd, TEXTS[1]], schema)


def test_no_value_extends_over_a_records_border():
    """All divisions of two or three values into two records."""
    nested = b'{"id":"o","text":"a","features":{"n":1}}', b'{"id":"p","more":{"a":{}},"text":"b"}'
    for values in (nested, TEXTS[:2], [*nested, TEXTS[0]], [TEXTS[2], TEXTS[0], nested[0]]):
        for joined in (separator.join(values) for separator in (b"", b" ", b"\n", b",")):
            for cut in range(len(joined) + 1):
                assert_as_alone([joined[:cut], joined[cut:]], OPEN)


def test_plain_events_are_parsed_together_in_spite_of_one_that_is_not(monkeypatch):
    plain, slow = [b'{"id":"%d","text":"free"}' % number for number in range(64)], []

    def decode_slowly(raw, *_):
        slow.append(raw)
        return Event("m", {})

    monkeypatch.setattr(codec, "decode_event", decode_slowly)
    decode_events([*plain[:40], b"1,2", *plain[40:]], OPEN)
    assert b"1,2" in slow
    assert len(slow) <= 2


def test_a_label_of_a_few_bytes_may_be_too_long_as_well():
    assert refusal(lambda raw: decode_label(raw, EventSchema(max_bytes=len(raw) - 1)), PIECES[0]) == (
        "oversize",
        "$",
    )


@pytest.mark.parametrize("more", [[], PIECES[:2]])
def test_usual_labels_are_read_all_at_once(more, monkeypatch):
    monkeypatch.setattr(codec, "decode_label", None)
    assert decode_labels([*PIECES[:2], *more])[:2] == [
        LabelRecord("a", "x"),
        LabelRecord("b", None, "s", 2.0, 3.0),
    ]


# Predictions, metrics, dead letters

PREDICTION = Prediction(
    id="m",
    label="spam",
    probability=0.75,
    probabilities={"spam": 0.75, "ham": 0.25},
    status="ready",
    model=ModelInfo("default", 7),
    ts=1.5,
    truth="ham",
    evidence=(Attribution("text", "free", 1.25), Attribution("links", 3.0, -0.5)),
    prior=-0.25,
    hypotheses={"presence alpha=1": 0.75, "other": 0.25},
)
SCORES = Scores(2, 0.5, 0.7, 0.4, 0.1, 0.3, 0.2)
CURVE = (ReliabilityBin(0.5, 0.6, 0.55, 0.5, 4), ReliabilityBin(0.9, 1.0, 0.98, 0.75, 8))
REPORT = MetricsReport(
    3, 2, 1, SCORES, SCORES, 100, 2, ("a", "b"), ((1, 0, 1), (0, 0, 0)), 9, ModelInfo("d", 2), 4.5
)
POSTERIOR = PosteriorReport((HypothesisScore("h", 1.0, 1.0, 1.5),), "h", 1.5, 0.0, 0.0, 2, 0.0)


@pytest.mark.parametrize("clock", ["log", "event"])
def test_labels_that_are_read_together_are_refused_for_their_times_as_each_alone(clock):
    schema, day = EventSchema(clock=clock), 86400.0
    recorded = [1000.0, 1000.0, 1000.0, 0.0, 5e9, 1000.0]
    ahead = [None, 1000.0 + day, 1001.0 + day, 4e9, 4e9, -5.0]
    raws = [encode_label(LabelRecord("e", "x", "s", 1.0, ts)) for ts in ahead]
    counts = clock == "log"

    def is_refused(raw, time):
        try:
            decode_label(raw, schema, time)
        except MalformedEvent as error:
            return (error.reason, error.path) == ("out-of-range", "$.ts")
        return False

    assert list(map(is_refused, raws, recorded)) == [False, False, counts, False, False, False]
    withdrawn = b'{"withdraw":true,"source":"s","ts":4e9}'
    for labels in (raws, [*raws, withdrawn]):  # all at once, or each with care
        found = decode_labels(labels, schema, [*recorded, 1000.0][: len(labels)])
        refused = [isinstance(one, MalformedEvent) for one in found]
        assert refused == [False, False, counts, False, False, False, counts][: len(labels)]


def test_a_prediction_has_its_fields_in_the_order_of_the_contract():
    first, optional = (
        ["id", "label", "probability", "probabilities", "status"],
        ["truth", "evidence", "prior", "hypotheses"],
    )
    assert list(json.loads(encode_prediction(PREDICTION))) == [*first, *optional, "model", "ts"]
    bare = msgspec.structs.replace(PREDICTION, **dict.fromkeys(optional))
    assert list(json.loads(encode_prediction(bare))) == [*first, "model", "ts"]


def test_many_predictions_are_encoded_as_each_is():
    others = [{"id": "null"}, {"truth": None}, {"label": None, "probability": None}, {"evidence": None}]
    for many in ([], [PREDICTION], [PREDICTION, *(msgspec.structs.replace(PREDICTION, **o) for o in others)]):
        assert encode_predictions(many) == [encode_prediction(one) for one in many]
    for more in ({}, {"label": None, "probability": None, "probabilities": {}}):
        with pytest.raises(ValueError, match=re.escape("$.ts: expected a finite number")):
            encode_predictions([PREDICTION, msgspec.structs.replace(PREDICTION, ts=math.nan, **more)])


@pytest.mark.parametrize("size", [0, 1, 1000, 1001])
@pytest.mark.parametrize("character", ["a", "é", "😀"])
@pytest.mark.parametrize("field", ["id", "label"])
def test_names_are_counted_in_characters_on_both_roads(field, character, size):
    raw = encode_event({"id": "m", "text": "t", field: character * size})
    assert outcome(lambda raw: decode_event(raw, OPEN), raw) == outcome(slow_event, raw)
    assert (codec._read_plain(raw) is not None) is (0 < size <= 1000)


def test_predictions_and_metrics_survive_the_wire():
    empty = Prediction(
        id="m",
        label=None,
        probability=None,
        probabilities={},
        status="empty",
        model=ModelInfo("d", 0),
        ts=0.0,
    )
    for prediction in (PREDICTION, empty, msgspec.structs.replace(PREDICTION, evidence=())):
        assert decode_prediction(encode_prediction(prediction)) == prediction
    assert decode_metrics(encode_metrics(REPORT)) == REPORT
    assert "posterior" not in json.loads(encode_metrics(REPORT)), (
        "as a report was before there were hypotheses"
    )
    weighing = msgspec.structs.replace(REPORT, posterior=POSTERIOR)
    assert decode_metrics(encode_metrics(weighing)) == weighing


def test_a_calibration_curve_survives_the_wire_and_may_be_absent():
    curved = msgspec.structs.replace(REPORT, window=msgspec.structs.replace(SCORES, reliability=CURVE))
    told = json.loads(encode_metrics(curved))
    assert decode_metrics(encode_metrics(curved)) == curved
    assert told["window"].pop("reliability") == [
        {"lower": 0.5, "upper": 0.6, "confidence": 0.55, "accuracy": 0.5, "events": 4},
        {"lower": 0.9, "upper": 1.0, "confidence": 0.98, "accuracy": 0.75, "events": 8},
    ]
    assert "reliability" not in told["cumulative"], "where no prediction was scored"
    before = decode_metrics(json.dumps(told).encode())  # as a report was before curves were recorded
    assert before == REPORT
    assert before.window.reliability == ()


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize(
    ("field", "wrap", "path"),
    [
        ("probability", lambda bad: bad, "$.probability"),
        ("probabilities", lambda bad: {"ham": 0.5, "sp am": bad}, '$.probabilities["sp am"]'),
        ("ts", lambda bad: bad, "$.ts"),
        ("evidence", lambda bad: (Attribution("a", "null", bad),), "$.evidence[0].log_odds"),
        ("evidence", lambda bad: (Attribution("a", bad, 0.5),), "$.evidence[0].value"),
        ("prior", lambda bad: bad, "$.prior"),
    ],
)
def test_no_prediction_with_a_number_that_is_not_finite(bad, field, wrap, path):
    broken = msgspec.structs.replace(PREDICTION, **{field: wrap(bad)})
    with pytest.raises(ValueError, match=re.escape(path) + ": expected a finite number"):
        encode_prediction(broken)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_no_metrics_or_event_with_a_number_that_is_not_finite(bad):
    broken = msgspec.structs.replace(REPORT, window=msgspec.structs.replace(SCORES, log_loss=bad))
    with pytest.raises(ValueError, match=re.escape("$.window.log_loss")):
        encode_metrics(broken)
    with pytest.raises(ValueError, match=re.escape("$.features.f")):
        encode_event({"id": "m", "features": {"f": bad}})


def test_no_event_with_a_lone_surrogate_is_written():
    with pytest.raises(ValueError, match="surrogates"):
        encode_event({"id": "m", "text": "\ud800"})


@pytest.mark.parametrize(
    ("raw", "reason", "path"),
    [
        (b"", "invalid-json", "$"),
        (b"[]", "wrong-type", "$"),
        (b"{}", "missing", "$.id"),
        (encode_prediction(PREDICTION).replace(b'"default"', b"7"), "wrong-type", "$.model.name"),
        (encode_prediction(PREDICTION).replace(b'"name":"default",', b""), "missing", "$.model.name"),
        (encode_prediction(PREDICTION).replace(b"0.75", b'"x"', 1), "wrong-type", "$.probability"),
        (encode_prediction(PREDICTION).replace(b"0.75", b"1e999", 1), "out-of-range", "$.probability"),
        (encode_prediction(PREDICTION).replace(b'"free"', b'"\xff"', 1), "invalid-utf8", "$"),
    ],
)
def test_a_malformed_prediction_is_refused(raw, reason, path):
    assert refusal(decode_prediction, raw) == (reason, path)


def test_readers_of_outputs_ignore_unknown_fields():
    assert decode_prediction(encode_prediction(PREDICTION)[:-1] + b',"new":[1]}') == PREDICTION
    assert decode_metrics(encode_metrics(REPORT)[:-1] + b',"new":{}}') == REPORT


def test_a_dead_letter_keeps_the_bytes_and_says_why():
    letter = DeadLetter(b"\xff\x00", "wrong-type", "$.features.\u00e9", "events", 3, 12)
    key, value, headers = dead_letter_record(letter, 1 << 20)
    assert (key, value) == (None, b"\xff\x00")
    assert headers == (
        ("reason", b"wrong-type"),
        ("path", "$.features.\u00e9".encode()),
        ("topic", b"events"),
        ("partition", b"3"),
        ("offset", b"12"),
    )


def test_what_a_dead_letter_cannot_keep_it_states():
    """It must be writable beside a record that fills its topic to the last byte."""
    letter = DeadLetter(
        b"x" * (1 << 20), "oversize", "$", "events", 0, 1, b"k" * (17 << 10), (("big", b"h" * (17 << 10)),)
    )
    key, value, headers = dead_letter_record(letter, 1 << 20)
    assert key is None
    assert value == b"x" * (960 << 10)
    assert headers[5:] == (
        ("truncated", b"1048576"),
        ("key-dropped", b"17408"),
        ("headers-dropped", b"17420"),
    )


@given(st.integers(1, 4 << 20), st.integers(0, 4 << 20), st.integers(0, 20 << 10), st.integers(0, 20 << 10))
def test_a_dead_letter_is_no_larger_than_its_topic_allows(max_bytes, size, key, header):
    letter = DeadLetter(
        b"v" * size, "oversize", "$" * 256, "t" * 249, 9, 1 << 60, b"k" * key, (("h", b"v" * header),)
    )
    found_key, value, headers = dead_letter_record(letter, max_bytes)
    stated = dict(headers)
    total = len(value) + len(found_key or b"") + sum(len(name) + len(content) for name, content in headers)
    assert total <= max(max_bytes, (1 << 20) - 4096)
    assert value == letter.value or int(stated["truncated"]) == size > len(value)
    assert found_key == letter.key or int(stated["key-dropped"]) == key
    assert stated.get("original.h", b"v" * header) == b"v" * header
    assert ("original.h" in stated) != ("headers-dropped" in stated)


# The page


def blocks(kind):
    return re.findall(rf"^```{kind}\n(.*?)^```$", FORMATS.read_text(), re.DOTALL | re.MULTILINE)


def test_every_json_example_of_the_page_has_a_known_kind():
    kinds = re.findall(r"^```(\S.*)$", FORMATS.read_text(), re.MULTILINE)
    known = {
        "json event",
        "json label",
        "json withdrawal",
        "json prediction",
        "json metrics",
        "json report",
        "json alerts",
        "json tenants",
        "json dead-letter",
        "json journal",
        "csv",
        "json csv",
    }
    assert set(kinds) == known


@pytest.mark.parametrize(
    ("kind", "decode"),
    [("event", lambda raw: decode_event(raw, OPEN)), ("label", decode_label)],
)
def test_input_examples_of_the_page_are_read_whole(kind, decode):
    for block in blocks(f"json {kind}"):
        fields = json.loads(block)
        read = decode(block.encode())
        assert read.id == fields["id"]
        assert read.label == fields.get("label")
        if isinstance(read, Event):
            text = {"text": fields["text"]} if "text" in fields else {}
            assert read.x == text | fields.get("features", {})
            assert read.ts == fields.get("ts")


@pytest.mark.parametrize(
    ("kind", "decode", "encode"),
    [
        ("prediction", decode_prediction, encode_prediction),
        ("metrics", decode_metrics, encode_metrics),
        ("alerts", decode_alert, encode_alert),
        ("tenants", msgspec.json.Decoder(TenantStanding).decode, encode_tenant_stats),
    ],
)
def test_output_examples_of_the_page_are_what_is_written(kind, decode, encode):
    for block in blocks(f"json {kind}"):
        written = json.loads(encode(decode(block.encode())))
        assert list(written.items()) == list(json.loads(block).items())


def reports():
    """Return the report of the page with the fields of each example of more fields, in the page's order."""
    whole, _ = blocks("json metrics")
    return [json.loads(whole) | json.loads(block) for block in blocks("json report")]


def test_more_fields_of_a_report_are_written_as_on_the_page():
    assert len(reports()) == 5
    for report in reports():
        assert json.loads(encode_metrics(decode_metrics(json.dumps(report).encode()))) == report


def test_the_examples_of_the_page_agree_with_themselves():
    report, drift = (decode_metrics(block.encode()) for block in blocks("json metrics"))
    weighing, late, watched, decided, acting = (
        decode_metrics(json.dumps(fields).encode()) for fields in reports()
    )
    assert late.verdicts.judged == late.cumulative.events == sum(row.events for row in late.verdicts.delays)
    assert late.verdicts.coverage == pytest.approx(late.verdicts.judged / late.verdicts.served, abs=1e-4)
    assert sum(map(sum, late.confusion)) == late.verdicts.judged
    assert decode_label(blocks("json withdrawal")[0].encode()) == Retraction("bot7", 1790000000.0)
    assert sum(map(sum, report.confusion)) == report.cumulative.events
    assert drift.detector in DETECTORS
    assert decided.decisions.cumulative.events == decided.cumulative.events
    alert = decode_alert(blocks("json alerts")[0].encode())
    assert (alert.monitor, alert.kind) in {(one.name, one.kind) for one in watched.monitors}
    assert acting.actions.passed_over <= acting.events
    assert alert.bayes_factor >= 1 / alert.false_alarm
    posterior = weighing.posterior
    assert sum(h.posterior for h in posterior.hypotheses) == sum(h.prior for h in posterior.hypotheses) == 1
    assert posterior.loss - min(h.loss for h in posterior.hypotheses) == pytest.approx(posterior.regret)
    assert posterior.bound == pytest.approx(math.log(2), abs=0.005)
    for block in blocks("json prediction"):
        assert sum(json.loads(block)["probabilities"].values()) in (0, pytest.approx(1))


def test_the_journal_of_the_page_is_a_chain():
    genesis, commit = (decode_journal(block.encode()) for block in blocks("json journal"))
    assert [encode_journal(record).decode() + "\n" for record in (genesis, commit)] == blocks("json journal")
    assert (genesis.kind, genesis.previous, commit.previous) == ("genesis", START, genesis.digest)
    assert commit.outputs == chain_outputs(genesis.outputs, ()) == chain_outputs(chain_outputs(START, ()), ())


def test_the_dead_letter_of_the_page_is_refused_for_its_reason():
    (block,) = blocks("json dead-letter")
    shown = json.loads(block)
    raw = shown["value"].encode()
    reason, path = refusal(decode_event, raw, OPEN)
    _, value, headers = dead_letter_record(DeadLetter(raw, reason, path, "events", 0, 812), 1 << 20)
    assert (value, {name: content.decode() for name, content in headers}) == (raw, shown["headers"])


def test_the_csv_of_the_page_becomes_the_events_of_the_page():
    (table,) = blocks("csv")
    (expected,) = blocks("json csv")
    written = [json.loads(raw) for raw in rows_to_events(table.splitlines(keepends=True), CsvColumns())]
    assert written == [json.loads(line) for line in expected.splitlines()]


def test_the_page_lists_every_reason():
    assert set(re.findall(r"^\| `([a-z0-9-]+)` \| .* \|$", FORMATS.read_text(), re.MULTILINE)) >= set(REASONS)


def test_a_label_among_the_features_is_no_attribute():
    schema = EventSchema(label_path="$.features.class", id_path="$.features.key", ts_path="$.features.at")
    raw = b'{"features":{"class":"ham","key":"m","at":7,"links":3}}'
    assert decode_event(raw, schema) == Event("m", {"links": 3.0}, "ham", 1.0, 7.0)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("1970-01-01T00:00:00Z", 0.0),
        ("1970-01-01T00:00:01.25z", 1.25),
        ("2001-06-25T12:11:28Z", 993471088.0),
        ("2001-06-25T14:11:28+02:00", 993471088.0),
        ("1969-12-31T23:59:59-00:00", -1.0),
        ("2001-06-25t12:11:28z", 993471088.0),
        ("2001-06-25 12:11:28Z", 993471088.0),
        ("1970-01-01T00:00:00.5Z", 0.5),
        ("1970-01-01T00:00:00.000000001Z", 1e-9),
        ("1970-01-01T00:00:00.123456789+00:00", 0.123456789),
        ("1969-12-31T23:59:59.9999999Z", -1e-7),
        ("2026-11-21T07:00:00.123456789Z", 1795244400.123456789),
        ("1970-01-01T00:00:00.25" + "0" * 5000 + "Z", 0.25),
        ("1970-01-01T00:00:00." + "9" * 5000 + "Z", 1.0),
        ("2016-12-31T23:59:60Z", 1483228800.0),  # a leap second is the second after it, as POSIX counts
        ("2017-01-01T05:29:60.5+05:30", 1483228800.5),
        ("2015-06-30T18:59:60-05:00", 1435708800.0),
        ("1900-01-01T23:59:00+23:59", -2208988800.0),
        ("2099-12-31T00:00:59-23:59", 4102444799.0),
    ],
)
@pytest.mark.parametrize("schema", [EventSchema(), EventSchema(ts_path="$.at")])
def test_a_time_may_be_a_date_time(text, seconds, schema):
    raw = b'{"id":"m","ts":"%s","at":"%s"}' % (text.encode(), text.encode())
    assert decode_event(raw, schema).ts == seconds


@given(
    st.datetimes(
        datetime(1900, 1, 3),  # noqa: DTZ001  hypothesis gives it a zone
        datetime(2099, 12, 30),  # noqa: DTZ001
        timezones=st.sampled_from([UTC, timezone(timedelta(hours=-9, minutes=-30))]),
    )
)
def test_a_date_time_is_the_moment_that_python_takes_it_for(when):
    raw = encode_event({"id": "m", "ts": when.isoformat(timespec="microseconds")})
    assert decode_event(raw, OPEN).ts == when.timestamp()


@pytest.mark.parametrize("text", [
    "2026-02-29T00:00:00Z", "0000-01-01T00:00:00Z", "2026-00-01T00:00:00Z", "2026-01-32T00:00:00Z",
    "2026-01-01T24:00:00Z", "2026-01-01T23:60:00Z", "2026-01-01T23:59:61Z", "2026-01-01T12:00:60Z",
    "2026-01-15T23:59:60Z", "2016-12-31T23:59:60+01:00", "2026-01-01T00:00:00+24:00",
    "2026-01-01T00:00:00+05:60", "9999-12-31T23:59:60Z",
])  # fmt: skip
def test_there_is_no_such_date_or_time(text):
    assert refusal(decode_event, encode_event({"id": "m", "ts": text}), OPEN) == ("out-of-range", "$.ts")


@pytest.mark.parametrize("text", [
    "2026-01-01", "2026-01-01T00:00:00", "2026-01-01T00:00Z", "2026-01-01T00:00:00.Z", "2026-1-01T00:00:00Z",
    "2026-01-01T00:00:00,5Z", "2026-01-01T00:00:00+0100", "2026-01-01T00:00:00+01", "20260101T000000Z",
    "+2026-01-01T00:00:00Z", "2026-01-01T00:00:00 Z", " 2026-01-01T00:00:00Z", "2026-01-01T00:00:00Z\n",
    "2026-01-01_00:00:00Z", "2026-01-01  00:00:00Z", "٢٠٢٦-01-01T00:00:00Z", "2026-W01-1T00:00:00Z", "",
])  # fmt: skip
def test_what_is_no_date_time_is_refused(text):
    assert refusal(decode_event, encode_event({"id": "m", "ts": text}), OPEN) == ("wrong-type", "$.ts")


def test_a_value_that_is_not_listed_is_refused_with_its_place_and_what_there_is():
    schema = declared(("n", "nominal", "$.features.deep.n", ("1", "true", "x")), ("open", "nominal", "$.o"))
    for value, text_of in [("1", "1"), ("1.0", "1"), ("true", "true"), ('"x"', "x"), ('"1"', "1")]:
        raw = f'{{"id": "i", "features": {{"deep": {{"n": {value}}}}}, "o": "any"}}'.encode()
        assert codec.decode_event(raw, schema).x == {"n": text_of, "open": "any"}
    for value in ("2", '"X"', "false", '""'):
        raw = f'{{"id": "i", "features": {{"deep": {{"n": {value}}}}}}}'.encode()
        with pytest.raises(MalformedEvent) as caught:
            codec.decode_event(raw, schema)
        error = caught.value
        assert (error.reason, error.path) == ("out-of-range", "$.features.deep.n")
        assert "expected one of 1, true, x" in str(error)
    assert codec.decode_event(b'{"id": "i", "features": {"deep": {"n": null}}}', schema).x == {}


def test_of_many_listed_values_a_refusal_names_some():
    schema = declared(("n", "nominal", "$.features.n", tuple(f"value {i}" for i in range(100_000))))
    with pytest.raises(MalformedEvent) as caught:
        codec.decode_event(b'{"id": "i", "features": {"n": "other"}}', schema)
    assert "expected one of value 0, value 1, " in str(caught.value)
    assert str(caught.value).endswith(" and 99,992 more")


# What is no event although it can be read as one


@pytest.mark.parametrize("raw", LABEL_RECORDS)
def test_a_record_of_the_topic_of_labels_is_no_event(raw):
    with pytest.raises(MalformedEvent) as caught:
        decode_event(raw, OPEN)
    assert (caught.value.reason, caught.value.path) == ("label-record", "$")
    assert "topics.labels" in caught.value.remedy


@pytest.mark.parametrize("raw", NOT_LABELS)
def test_an_event_that_resembles_a_label_stays_one(raw):
    assert decode_event(raw, OPEN) == slow_event(raw)


@pytest.mark.parametrize("path", ["$.source", "$.weight", "$.since.day", "$.withdraw"])
@pytest.mark.parametrize("open_features", [True, False])
def test_a_declared_attribute_makes_an_event_of_what_bears_a_key_of_labels(path, open_features):
    schema = declared(("a", "nominal", path), ("b", "nominal", "$.b"), open_features=open_features)
    first = path.split(".")[1]
    assert decode_event(encode_event({"id": "m", "label": "ham", first: None}), schema).label == "ham"
    bare = b'{"id":"m","label":"ham"}'
    assert refusal(decode_event, bare, schema) == ("label-record", "$")
    assert decode_event(b'{"id":"m","label":"ham","b":null}', schema) == Event("m", {}, "ham")


def test_an_attribute_under_the_id_is_in_every_event():
    schema = declared(("a", "nominal", "$.id"))
    assert decode_event(b'{"id":"m","label":"ham"}', schema) == Event("m", {"a": "m"}, "ham")


def test_paths_of_id_and_label_tell_events_from_labels():
    schema = EventSchema(label_path="$.source")
    assert decode_event(b'{"id":"m","source":"ham"}', schema) == Event("m", {}, "ham")
    nested = EventSchema(id_path="$.event.id", label_path="$.event.verdict")
    assert decode_event(b'{"event":{"id":"m","verdict":"ham"}}', nested) == Event("m", {}, "ham")
    assert refusal(decode_event, b'{"id":"m","label":"ham"}', nested) == ("label-record", "$")


def test_the_label_of_an_entity_teaches_even_without_attributes():
    keyed, by_path = EventSchema(entity_path=""), EventSchema(entity_path="$.source")
    bare, sourced = b'{"id":"m","label":"ham"}', b'{"id":"m","label":"ham","source":"analyst"}'
    assert decode_event(bare, keyed, b"k") == Event("m", {"entity": "k"}, "ham")
    assert decode_event(sourced, by_path) == Event("m", {"entity": "analyst"}, "ham")
    assert refusal(decode_event, bare, keyed) == ("label-record", "$")
    assert refusal(decode_event, bare, by_path) == ("label-record", "$")
    assert refusal(decode_event, sourced, keyed, b"k") == ("label-record", "$")


def test_the_label_of_the_page_is_no_event():
    for block in blocks("json label"):
        assert refusal(decode_event, block.encode(), OPEN) == ("label-record", "$")


ODD_TIMES = {
    b"1700000000000": "1700000000000 looks like milliseconds; seconds are expected",
    b"1.7e12": "1700000000000 looks like milliseconds; seconds are expected",
    b"1700000000000000": "looks like microseconds",
    b"1700000000000000000": "looks like nanoseconds",
    b"253402300799": "expected a time of the years 1900 to 2099",
    b"4102444800": "expected a time of the years 1900 to 2099",
    b"-2208988800.5": "expected a time of the years 1900 to 2099",
    b"-1e300": "expected a time of the years 1900 to 2099",
    b'"9999-12-31T23:59:59Z"': "expected a time of the years 1900 to 2099",
    b'"55841-07-01T00:00:00Z"': None,
    b'"0001-01-01T00:00:00Z"': "expected a time of the years 1900 to 2099",
}


@pytest.mark.parametrize("ts", ODD_TIMES)
@pytest.mark.parametrize("schema", [OPEN, EventSchema(ts_path="$.at"), declared(("n", "nominal", "$.n"))])
def test_a_time_that_cannot_be_meant_is_refused_with_its_cause(ts, schema):
    raw = b'{"id":"m","text":"a","ts":%s,"at":%s}' % (ts, ts)
    with pytest.raises(MalformedEvent) as caught:
        decode_event(raw, schema)
    told = ODD_TIMES[ts]
    assert caught.value.path == schema.ts_path
    assert caught.value.reason == ("wrong-type" if told is None else "out-of-range")
    if told is not None:
        assert told in caught.value.detail == caught.value.remedy


@pytest.mark.parametrize("ts", [b"4102444799.9", b"-2208988800", b"0", b"-1", b'"2099-12-31T23:59:59Z"'])
def test_times_of_two_centuries_are_taken(ts):
    raw = b'{"id":"m","text":"a","ts":%s}' % ts
    assert decode_event(raw, OPEN) == slow_event(raw)


BY_LOG, BY_EVENT = EventSchema(clock="log"), EventSchema(clock="event")
NOW = 1_790_000_000.0


def test_an_event_without_a_time_is_of_when_it_was_recorded():
    raw, timed = b'{"id":"m","text":"a"}', b'{"id":"m","text":"a","ts":5}'
    for schema in (OPEN, BY_LOG):
        assert decode_event(raw, schema, None, NOW).ts == NOW
        assert decode_event(timed, schema, None, NOW).ts == 5.0
    assert decode_event(raw, BY_EVENT, None, NOW).ts is None
    for unknown in (0.0, -0.001):  # a log without times
        assert decode_event(raw, OPEN, None, unknown).ts is None


def test_an_event_cannot_be_of_a_day_after_it_was_recorded():
    def at(seconds):
        return b'{"id":"m","text":"a","ts":%f}' % (NOW + seconds)

    for schema in (OPEN, BY_LOG):
        assert decode_event(at(86400), schema, None, NOW).ts == NOW + 86400
        with pytest.raises(MalformedEvent) as caught:
            decode_event(at(86401), schema, None, NOW)
        assert (caught.value.reason, caught.value.path) == ("out-of-range", "$.ts")
        assert 'events.clock = "event"' in caught.value.remedy
    assert decode_event(at(1e6), BY_EVENT, None, NOW).ts == NOW + 1e6
    assert decode_event(at(1e6), OPEN, None, 0.0).ts == NOW + 1e6


def test_parts_of_a_time_are_read_in_utc_and_its_age_before_the_event():
    parts = tuple(AttributeSpec(f"t.{part}", kind, "$.at", part=part) for part, kind in PARTS.items())
    schema = EventSchema(parts)
    raw = b'{"id":"m","at":"2026-01-31T23:05:00-02:00","ts":1769994300}'
    x = {"t.hour": "1", "t.weekday": "sunday", "t.month": "february", "t.age": 1769994300 - 1769907900}
    x["t.age"] /= 86_400
    assert decode_event(raw, schema).x == x
    naive = b'{"id":"m","at":"2026-02-01 01:05"}'
    assert decode_event(naive, schema).x == {key: x[key] for key in ("t.hour", "t.weekday", "t.month")}
    assert decode_event(naive, schema, recorded=1769994300.0).x == x
    assert decode_events([naive, naive], schema, recorded=[1769994300.0] * 2).xs[1] == x
    event_clock = EventSchema(parts, clock="event")
    assert "t.age" not in decode_event(naive, event_clock, recorded=1769994300.0).x
    assert decode_event(b'{"id":"m","at":null}', schema).x == {}
    assert refusal(decode_event, b'{"id":"m","at":"1/2/2026"}', schema) == ("wrong-type", "$.at")
