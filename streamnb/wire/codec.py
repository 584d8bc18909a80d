"""JSON bytes <-> the vocabulary of `streamnb.events`; docs/formats.md shows every form with examples.

Events under the default schema take a fast road, one msgspec type. It may give up on anything, but what it
accepts must be the very event that the slow road reads, which is the meaning of a record; a test holds that.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, TypeVar

import msgspec

from streamnb.errors import MalformedEvent
from streamnb.events import Drift, Event, Label, MetricsReport, Prediction
from streamnb.model.attributes.attributes import some_of
from streamnb.wire.paths import Keys, render_path
from streamnb.wire.records import SHALLOW, find, is_nonfinite, maybe_deep, parse, refuse
from streamnb.wire.schema import ENTITY, EventSchema
from streamnb.wire.values import (
    LONGEST_NAME,
    READERS,
    look_up,
    moment,
    name,
    nominal,
    number,
    refuse_type,
    required_name,
    text,
    undeclared,
)

__all__ = [
    "READING",
    "decode_event",
    "decode_label",
    "decode_metrics",
    "decode_prediction",
    "encode_event",
    "encode_metrics",
    "encode_prediction",
    "encode_predictions",
]

READING = 2
"""The rules by which events are read and counted; raised where the same bytes come to mean something else.

The journal holds it: what an earlier version learned by other rules is not counted again by these.
"""

_DEFAULT_MAX_BYTES = EventSchema().max_bytes
_FAULT = re.compile(
    r"(?:.* missing required field `(?P<missing>.*?)`|.*?)(?: - at `(?P<path>\$.*)`)?", re.DOTALL
)

_encode_json = msgspec.json.Encoder().encode

T = TypeVar("T")


_Name = Annotated[str, msgspec.Meta(min_length=1, max_length=LONGEST_NAME)]


class _PlainEvent(msgspec.Struct, gc=False):
    """An event under the default schema, as it mostly comes."""

    id: _Name
    text: str | None = None
    features: dict[str, str | float | bool | None] | None = None
    label: _Name | None = None
    ts: float | str | None = None


_decode_plain = msgspec.json.Decoder(_PlainEvent).decode


def decode_event(raw: bytes, schema: EventSchema, key: bytes | None = None) -> Event:
    r"""The event in a record.

    The record as a whole is checked first, then id, label, ts, the entity, the declared attributes and the
    open ones; the first fault is reported. Values that the schema does not read may be anything that is JSON.

    Args:
        raw: the record's value.
        schema: how it is read.
        key: the record's key, which names the entity where the schema says so; bytes of it that are no UTF-8
            stand as ``\xNN``. None and an empty one name none.

    Raises:
        MalformedEvent: with the reason, and the path of the value at fault.
    """
    event = _read_plain(raw) if schema.is_plain and len(raw) <= schema.max_bytes else None
    if event is None:
        event = _read_event(parse(raw, schema.max_bytes), schema)
    if schema.entity_path == "":
        event.x.pop(ENTITY, None)  # a feature of that name, where the event took the fast road
        if key:
            event.x[ENTITY] = name(key.decode(errors="backslashreplace"), ())
    return event


def _read_plain(raw: bytes) -> Event | None:
    """The event under the default schema where nothing about the record is odd, otherwise None."""
    try:
        if not raw.isascii():
            raw.decode()  # msgspec does not check the strings that it skips
        record = _decode_plain(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    body, x, ts = record.text, record.features, record.ts
    # What is no text may nest too deeply, where it is long enough.
    if len(raw) > SHALLOW and len(raw) - len(body or "") > SHALLOW and maybe_deep(raw):
        return None
    if x:
        if "text" in x:
            return None
        if None in x.values():
            x = {attribute: value for attribute, value in x.items() if value is not None}
        if body is not None:
            x = {"text": body, **x}
    else:
        x = {} if body is None else {"text": body}
    if isinstance(ts, str):
        ts = moment(ts, ("ts",))
    return Event(record.id, x, record.label, 1.0, ts)  # type: ignore[arg-type]


def _read_event(record: Any, schema: EventSchema) -> Event:
    event_id = required_name(look_up(record, schema.id_keys), schema.id_keys)
    label = look_up(record, schema.label_keys)
    if label is not None:
        label = name(label, schema.label_keys)
    ts = look_up(record, schema.ts_keys) if schema.ts_keys else None
    if ts is not None:
        ts = moment(ts, schema.ts_keys or ())
    x: dict[str, str | float | bool] = {}
    if schema.entity_keys is not None:
        entity = look_up(record, schema.entity_keys)
        if entity is not None:
            x[ENTITY] = name(nominal(entity, schema.entity_keys), schema.entity_keys)
    for place in schema.places:
        value = None if place.name in x else look_up(record, place.keys)
        if value is not None:
            x[place.name] = READERS[place.kind](value, place.keys)
            if place.values is not None and x[place.name] not in place.values:
                refuse("out-of-range", place.keys, f"expected one of {some_of(place.values)}")
    if schema.open_features:
        x |= _read_open(look_up(record, ("features",)), schema.claimed)
    return Event(event_id, x, label, 1.0, ts)


def _read_open(features: Any, claimed: frozenset[str]) -> dict[str, str | float | bool]:
    if features is None:
        return {}
    if type(features) is not dict:
        refuse_type(features, "an object", ("features",))
    return {
        key: undeclared(value, ("features", key))
        for key, value in features.items()
        if value is not None and key not in claimed
    }


def decode_label(raw: bytes, max_bytes: int = _DEFAULT_MAX_BYTES) -> Label:
    """The delayed label, or the correction of a label, in a record. Raises `MalformedEvent`."""
    record = parse(raw, max_bytes)
    event_id = required_name(look_up(record, ("id",)), ("id",))
    label = required_name(look_up(record, ("label",)), ("label",))
    source = look_up(record, ("source",))
    weight = look_up(record, ("weight",))
    return Label(
        event_id,
        label,
        None if source is None else text(source, ("source",)),
        1.0 if weight is None else _weight(weight, ("weight",)),
    )


def _weight(value: Any, keys: Keys) -> float:
    weight = number(value, keys)
    return weight if weight >= 0 else refuse("out-of-range", keys, "expected a weight of at least 0")


def decode_prediction(raw: bytes) -> Prediction:
    """The prediction in a record; unknown fields are ignored. Raises `MalformedEvent`."""
    return _decode_as(Prediction, raw)


def decode_metrics(raw: bytes) -> MetricsReport | Drift:
    """What a record of the metrics topic holds, which its ``kind`` says; unknown fields are ignored.

    A record without a kind was written before there were two: it is a report. Raises `MalformedEvent`.
    """
    record = parse(raw, len(raw))
    kind = record.get("kind", "report") if isinstance(record, dict) else None
    return _convert(record, Drift) if kind == "drift" else _convert(record, MetricsReport)


def _decode_as(kind: type[T], raw: bytes) -> T:
    return _convert(parse(raw, len(raw)), kind)


def _convert(record: Any, kind: type[T]) -> T:
    keys = find(record, is_nonfinite)
    if keys is not None:
        refuse("out-of-range", keys, "no finite double holds this number")
    try:
        return msgspec.convert(record, kind)
    except msgspec.ValidationError as error:
        message = str(error)
    fault = _FAULT.fullmatch(message)
    missing, path = fault.group("missing", "path") if fault else (None, None)
    raise MalformedEvent(
        "missing" if missing else "wrong-type", (path or "$") + (f".{missing}" if missing else ""), message
    ) from None


def encode_event(event: Mapping[str, Any]) -> bytes:
    """The record of an event that is given in the shape of its JSON form.

    Raises:
        ValueError: a number that is not finite, with its path; or text that no UTF-8 can hold.
    """
    return _encode(dict(event))


def encode_prediction(prediction: Prediction) -> bytes:
    """The record of a prediction. Raises ValueError, with the path, for a number that is not finite."""
    return _encode(prediction)


def encode_predictions(predictions: Sequence[Prediction]) -> list[bytes]:
    """The records of many, as of `encode_prediction`."""
    encoded = list(map(_encode_json, predictions))
    if b"null" in b"".join(encoded):
        return list(map(encode_prediction, predictions))
    return encoded


def encode_metrics(report: MetricsReport | Drift) -> bytes:
    """The record of the metrics topic. Raises ValueError, with the path, for a number that is not finite."""
    return _encode(report)


def _encode(value: Any) -> bytes:
    encoded = _encode_json(value)
    if b"null" in encoded:  # msgspec writes infinities and NaN as null
        keys = find(msgspec.to_builtins(value), is_nonfinite)
        if keys is not None:
            raise ValueError(f"{render_path(keys)}: expected a finite number")
    return encoded
