"""Raw events that are not events under the default schema: what is wrong with each, and where."""

from __future__ import annotations

from typing import NamedTuple

from streamnb.formats.event_schema import EventSchema
from streamnb.formats.json_parsing import MAX_DEPTH


class Malformed(NamedTuple):
    name: str
    raw: bytes
    reason: str
    path: str


def _event(fields: bytes) -> bytes:
    return b'{"id":"m","text":"some words",' + fields + b',"label":"ham"}'


def _feature(value: bytes, key: bytes = b'"f"') -> bytes:
    return _event(b'"features":{"ok":1,' + key + b":" + value + b"}")


_OVERSIZE = [
    Malformed("one byte too many", b" " * (EventSchema().max_bytes + 1), "oversize", "$"),
    Malformed("a long text", _event(b'"more":"' + b"x" * EventSchema().max_bytes + b'"'), "oversize", "$"),
    Malformed("oversize goes before bad UTF-8", b"\xff" * (EventSchema().max_bytes + 1), "oversize", "$"),
]

_INVALID_UTF8 = [
    Malformed(f"UTF-8: {name}", raw, "invalid-utf8", "$")
    for name, raw in {
        "a lone byte": b"\xff",
        "in the id": b'{"id":"\xff","text":"a"}',
        "in the text": b'{"id":"m","text":"a\xfe"}',
        "in the label": b'{"id":"m","label":"\x80"}',
        "in a feature": _feature(b'"\xc3"'),
        "in the name of a feature": _feature(b"1", b'"\xe9t\xe9"'),
        "in a value nobody reads": _event(b'"more":"\xff"'),
        "in a key nobody reads": _event(b'"\xff":1'),
        "in a nested value nobody reads": _event(b'"more":[{"a":"\xff"}]'),
        "beside an escape": _event(b'"more":"\\n\xff"'),
        "an encoded surrogate": _feature(b'"\xed\xa0\x80"'),
        "an overlong slash": _feature(b'"\xc0\xaf"'),
        "an overlong zero": _event(b'"more":"\xc0\x80"'),
        "beyond U+10FFFF": _feature(b'"\xf4\x90\x80\x80"'),
        "a truncated character": _feature(b'"\xe2\x82"'),
        "latin-1": '{"id":"m","text":"caf\u00e9"}'.encode("latin-1"),
        "UTF-16 with its mark": '{"id":"m"}'.encode("utf-16"),
        "goes before bad JSON": b'{"id":"\xff"',
    }.items()
]

_INVALID_JSON = [
    Malformed(f"JSON: {name}", raw, "invalid-json", "$")
    for name, raw in {
        "nothing": b"",
        "white space": b" \t\r\n",
        "a word": b"hello",
        "a byte order mark": b'\xef\xbb\xbf{"id":"m"}',
        "UTF-16 without a mark": '{"id":"m"}'.encode("utf-16-le"),
        "a zero byte": b"\x00",
        "a zero byte behind": b'{"id":"m"}\x00',
        "an open brace": b"{",
        "an unclosed object": b'{"id":"m"',
        "an unclosed string": b'{"id":"m',
        "an unclosed array": b'{"id":"m","tags":[1,2',
        "a key without value": b'{"id":"m","text"}',
        "a value without key": b'{"id":"m",:1}',
        "a comma at the end": b'{"id":"m",}',
        "a comma missing": b'{"id":"m" "text":"a"}',
        "two colons": b'{"id"::"m"}',
        "two records": b'{"id":"m"}{"id":"n"}',
        "two records on two lines": b'{"id":"m"}\n{"id":"n"}',
        "a word behind": b'{"id":"m"} done',
        "single quotes": b"{'id':'m'}",
        "a bare key": b'{id:"m"}',
        "a number as key": b'{1:"m"}',
        "a comment": b'{"id":"m"} // comment',
        "a closing brace too many": b'{"id":"m"}}',
        "the wrong bracket": b'{"id":"m"]',
        "NaN": _feature(b"NaN"),
        "Infinity": _feature(b"Infinity"),
        "-Infinity": _feature(b"-Infinity"),
        "NaN that nobody reads": _event(b'"more":[NaN]'),
        "NaN as ts": _event(b'"ts":NaN'),
        "nan": _feature(b"nan"),
        "inf": _feature(b"inf"),
        "True": _feature(b"True"),
        "None": _feature(b"None"),
        "undefined": _feature(b"undefined"),
        "half of true": _feature(b"tru"),
        "a leading zero": _feature(b"01"),
        "a leading plus": _feature(b"+1"),
        "a leading point": _feature(b".5"),
        "a trailing point": _feature(b"1."),
        "an empty exponent": _feature(b"1e"),
        "a lone minus": _feature(b"-"),
        "a hexadecimal": _feature(b"0x10"),
        "an underscore": _feature(b"1_000"),
        "a decimal comma": _feature(b"1,5"),
        "Arabic digits": _feature("\u0663".encode()),
        "a line feed in a string": b'{"id":"m","text":"a\nb"}',
        "a tab in a string": b'{"id":"m","text":"a\tb"}',
        "a zero byte in a string": b'{"id":"m","text":"\x00"}',
        "a control character nobody reads": _event(b'"more":"\x01"'),
        "an unknown escape": b'{"id":"m","text":"\\x41"}',
        "a short escape": b'{"id":"m","text":"\\u12"}',
        "an escape without digits": b'{"id":"m","text":"\\uzzzz"}',
        "an escape at the end": b'{"id":"m\\',
        "a no-break space": '\u00a0{"id":"m"}'.encode(),
        "deep arrays": _event(b'"more":' + b"[" * 100_000 + b"]" * 100_000),
        "deep objects": b'{"a":' * 5_000 + b"1" + b"}" * 5_000,
        "deep and unclosed": b"[" * 100_000,
        "deep as a feature": _feature(b"[" * 2_000 + b"]" * 2_000),
        "one level too deep": _event(b'"more":' + b"[" * MAX_DEPTH + b"]" * MAX_DEPTH),
    }.items()
]

_LONE_SURROGATE = [
    Malformed(f"surrogate: {name}", raw, "lone-surrogate", path)
    for name, raw, path in (
        ("high, at the end of the text", rb'{"id":"m","text":"\ud800"}', "$.text"),
        ("high, before letters", rb'{"id":"m","text":"\ud800 and on and on"}', "$.text"),
        ("high, before another escape", rb'{"id":"m","text":"\ud800\u0041"}', "$.text"),
        ("high, twice", rb'{"id":"m","text":"\ud83d\ud83d"}', "$.text"),
        ("low", rb'{"id":"m","text":"words \udc00"}', "$.text"),
        ("the pair turned round", rb'{"id":"m","text":"\ude00\ud83d"}', "$.text"),
        ("one behind a good pair", rb'{"id":"m","text":"\ud83d\ude00\ud83d"}', "$.text"),
        ("in capitals", rb'{"id":"m","text":"\uDBFF"}', "$.text"),
        ("in the id", rb'{"id":"\ud800"}', "$.id"),
        ("in the label", rb'{"id":"m","label":"\udfff"}', "$.label"),
        ("in a feature", _feature(rb'"\ud800"'), "$.features.f"),
        ("in the name of a feature", _feature(b"1", rb'"\ud800"'), r'$.features["\ud800"]'),
        ("in an array nobody reads", _event(rb'"tags":["a","\ud800"]'), "$.tags[1]"),
        ("in an odd key nobody reads", _event(rb'"odd key":"\ud800"'), '$["odd key"]'),
        ("as the whole record", rb'"\ud800"', "$"),
        ("goes before a wrong type", rb'{"id":[3],"text":"\ud800"}', "$.text"),
        ("behind a second text", rb'{"id":"m","text":"\ud800","text":"a"}', "$.text"),
        ("behind a second id", rb'{"id":"\udfff","id":"m"}', "$.id"),
        ("behind second features", rb'{"id":"m","features":{"f":"\ud800"},"features":{}}', "$.features.f"),
        ("behind a second feature", _event(rb'"features":{"f":"\ud800","f":1}'), "$.features.f"),
        ("in a key behind a second one", _event(rb'"more":{"\ud800":1},"more":2'), r'$.more["\ud800"]'),
        ("behind the second of three", _event(rb'"more":1,"more":["\ud800"],"more":2'), "$.more[0]"),
        ("deep behind a null", _event(rb'"more":[{"a":{"b":"\ud800","b":1}}],"more":null'), "$.more[0].a.b"),
    )
]

_MISSING = [
    Malformed(f"missing: {name}", raw, "missing", "$.id")
    for name, raw in {
        "an empty object": b"{}",
        "no id": b'{"text":"a","label":"ham"}',
        "a null id": b'{"id":null,"text":"a"}',
        "an id in other letters": b'{"ID":"m"}',
        "an id elsewhere": b'{"event":{"id":"m"}}',
        "an id that a null overrides": b'{"id":"m","id":null}',
    }.items()
]

_WRONG_TYPE = [
    Malformed(f"type: {name}", raw, "wrong-type", path)
    for name, raw, path in (
        ("an array", b"[]", "$"),
        ("an array of events", b'[{"id":"m"}]', "$"),
        ("a string", b'"m"', "$"),
        ("a number", b"17", "$"),
        ("true", b"true", "$"),
        ("null", b"null", "$"),
        ("an array as id", b'{"id":["m"]}', "$.id"),
        ("an object as id", b'{"id":{"m":1}}', "$.id"),
        ("a second id of another type", b'{"id":"m","id":[17]}', "$.id"),
        ("labels", b'{"id":"m","label":["ham"]}', "$.label"),
        ("a string as ts", b'{"id":"m","ts":"yesterday"}', "$.ts"),
        ("a date as ts", b'{"id":"m","ts":"2026-11-21"}', "$.ts"),
        ("a ts without its offset", b'{"id":"m","ts":"2026-11-21T07:00:00"}', "$.ts"),
        ("a boolean as ts", b'{"id":"m","ts":true}', "$.ts"),
        ("a number as text", b'{"id":"m","text":5}', "$.text"),
        ("a boolean as text", b'{"id":"m","text":true}', "$.text"),
        ("texts", b'{"id":"m","text":["a","b"]}', "$.text"),
        ("an object as text", b'{"id":"m","text":{}}', "$.text"),
        ("a number as text among the features", b'{"id":"m","features":{"text":5}}', "$.features.text"),
        ("an array as features", b'{"id":"m","features":[1,2]}', "$.features"),
        ("a string as features", b'{"id":"m","features":"a"}', "$.features"),
        ("a number as features", b'{"id":"m","features":0}', "$.features"),
        ("a boolean as features", b'{"id":"m","features":false}', "$.features"),
        ("an array as a feature", _feature(b"[1]"), "$.features.f"),
        ("an empty array as a feature", _feature(b"[]"), "$.features.f"),
        ("an object as a feature", _feature(b'{"a":1}'), "$.features.f"),
        ("a feature with a dot", _feature(b"[]", b'"a.b"'), '$.features["a.b"]'),
        ("a feature with a quote", _feature(b"[]", rb'"a\"b"'), r'$.features["a\"b"]'),
        ("a feature without a name", _feature(b"[]", b'""'), '$.features[""]'),
        ("a feature with a hyphen", _feature(b"[]", b'"a-b"'), "$.features.a-b"),
        ("a feature with an accent", _feature(b"[]", '"\u00e9t\u00e9"'.encode()), "$.features.\u00e9t\u00e9"),
        ("the first of two faults", b'{"text":5,"label":[1],"id":[2]}', "$.id"),
    )
]

_OUT_OF_RANGE = [
    Malformed(f"range: {name}", raw, "out-of-range", path)
    for name, raw, path in (
        ("an empty id", b'{"id":""}', "$.id"),
        ("an empty label", b'{"id":"m","label":""}', "$.label"),
        ("1e999", _feature(b"1e999"), "$.features.f"),
        ("-1e999", _feature(b"-1e999"), "$.features.f"),
        ("1E400", _feature(b"1E400"), "$.features.f"),
        ("just beyond a double", _feature(b"1.7976931348623159e308"), "$.features.f"),
        ("309 digits", _feature(b"9" * 309), "$.features.f"),
        ("400 digits", _feature(b"9" * 400), "$.features.f"),
        ("5,000 digits", _feature(b"9" * 5000), "$.features.f"),
        ("minus 5,000 digits", _feature(b"-" + b"9" * 5000), "$.features.f"),
        ("digits and a point", _feature(b"9" * 400 + b".5"), "$.features.f"),
        ("ts", _event(b'"ts":1e999'), "$.ts"),
        ("ts of many digits", _event(b'"ts":' + b"9" * 310), "$.ts"),
        ("ts of the 13th month", _event(b'"ts":"2026-13-01T00:00:00Z"'), "$.ts"),
        ("an odd name", _feature(b"1e999", b'"a b"'), '$.features["a b"]'),
    )
]

MALFORMED = [
    *_OVERSIZE,
    *_INVALID_UTF8,
    *_INVALID_JSON,
    *_LONE_SURROGATE,
    *_MISSING,
    *_WRONG_TYPE,
    *_OUT_OF_RANGE,
]

LABEL_RECORDS = [
    b'{"id":"m","label":"ham"}',
    b'{"id":"m","label":"ham","source":"analyst"}',
    b'{"id":"m","label":"ham","source":"analyst","weight":2.0,"ts":1790000000}',
    b'{"id":"m","label":"ham","weight":0.5}',
    b'{"id":"m","label":"ham","source":null,"weight":null,"ts":null}',
    b'{"id":"m","label":null,"source":"analyst"}',
    b'{"source":"bot7","withdraw":true,"since":1790000000}',
    b'{"id":"m","label":null,"withdraw":true}',
]
"""Records of the topic of labels, none of which is an event under the default schema."""

NOT_LABELS = [
    b'{"id":"m"}',
    b'{"id":"m","label":null}',
    b'{"id":"m","ts":1790000000}',
    b'{"id":"m","source":"web"}',
    b'{"id":"m","text":null,"label":"ham"}',
    b'{"id":"m","text":"","label":"ham"}',
    b'{"id":"m","features":null,"label":"ham"}',
    b'{"id":"m","features":{},"label":"ham"}',
    b'{"id":"m","features":{"links":null},"label":"ham"}',
    b'{"id":"m","text":"win cash","label":"ham","source":"web","weight":2,"withdraw":true}',
    b'{"id":"m","features":{"links":1},"label":"ham","source":"web"}',
    b'{"id":"m","subject":"win cash","label":"ham"}',
    b'{"id":"m","label":"ham","note":"nobody reads it"}',
]
"""Events under the default schema that have something of a label record."""


def kept(raw):
    """What a dead letter keeps of a record: all of it, or of one that is too large the first 960 KiB."""
    return raw[: 960 << 10]
