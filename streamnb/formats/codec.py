"""JSON bytes <-> the values of `streamnb.events`; docs/formats.md shows every form with examples.

Events under the default schema take a fast path, one msgspec type. It may give up on anything, but it must
read what it accepts exactly as the slow path does, which defines a record's meaning; a test checks that.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from itertools import repeat
from typing import Annotated, Any, TypeVar, cast

import msgspec

from streamnb.errors import MalformedEvent
from streamnb.events import (
    Alert,
    Drift,
    Event,
    LabelRecord,
    MetricsReport,
    Prediction,
    Retraction,
    TenantStanding,
)
from streamnb.features.attributes import TextEvents, some_of
from streamnb.formats.decoded_events import DecodedEvents
from streamnb.formats.event_schema import ENTITY, EventSchema
from streamnb.formats.event_validity import (
    EARLIEST,
    LATEST,
    refuse_ahead,
    refuse_label_ahead,
    refuse_label_record,
    refuse_odd_time,
)
from streamnb.formats.json_parsing import SHALLOW, find, is_nonfinite, maybe_deep, parse, refuse
from streamnb.formats.json_paths import Keys, render_path
from streamnb.formats.json_value_checks import (
    LONGEST_NAME,
    READERS,
    look_up,
    moment,
    name,
    nominal,
    number,
    refuse_type,
    required_name,
    time_part,
    undeclared,
)
from streamnb.values.example_weights import HEAVIEST

_USUAL = EventSchema()
_FAULT = re.compile(
    r"(?:.* missing required field `(?P<missing>.*?)`|.*?)(?: - at `(?P<path>\$.*)`)?", re.DOTALL
)

_encode_json = msgspec.json.Encoder().encode
_LINE_FEED, _OPENED, _CLOSED = b"\n{}"

T = TypeVar("T")

UNNAMED, IN_EVENT = "default", "event"
"""Names of the source of a label record without one, and of labels inside events."""

_Name = Annotated[str, msgspec.Meta(min_length=1, max_length=LONGEST_NAME)]


class _PlainEvent(msgspec.Struct, gc=False):
    """A common event under the default schema."""

    id: _Name
    text: str | None = None
    features: dict[str, str | float | bool | None] | None = None
    label: _Name | None = None
    ts: float | str | None = None


class _TextEvent(msgspec.Struct, gc=False, forbid_unknown_fields=True):
    """The most common event: a text without features and time. Nothing of the record is skipped."""

    id: _Name
    text: str
    label: _Name | None = None


_decode_texts = msgspec.json.Decoder(_TextEvent).decode_lines
_decode_plain = msgspec.json.Decoder(_PlainEvent).decode
_decode_plain_lines = msgspec.json.Decoder(_PlainEvent).decode_lines


class _PlainLabel(msgspec.Struct, gc=False):
    id: _Name
    label: _Name | None
    source: _Name | None = None
    weight: Annotated[float, msgspec.Meta(ge=0.0, le=HEAVIEST)] = 1.0
    ts: float | str | None = None
    by: _Name | None = None
    withdraw: bool | None = None


_decode_plain_labels = msgspec.json.Decoder(_PlainLabel).decode_lines


def decode_event(raw: bytes, schema: EventSchema, key: bytes | None = None, recorded: float = 0.0) -> Event:
    r"""Return the event of a record.

    The record as a whole is checked first, then id, label, ts, the entity, the declared attributes and the
    open ones; the first fault is reported. Values that the schema does not read may be any JSON.

    Args:
        raw: the record's value.
        schema: how it is read.
        key: the record's key, which names the entity if `entity_path` is ""; its bytes that are not UTF-8
            become ``\xNN``. None and an empty key name no entity.
        recorded: the log's time of the record, seconds since the epoch; 0 or less is unknown, and so is a
            time after 2099. With the log's clock it is the time of an event without one, and an event's own
            time may be at most a day later.

    Raises:
        MalformedEvent: with the reason, and the path of the invalid value.
    """
    event = _read_plain(raw) if schema.is_plain and len(raw) <= schema.max_bytes else None
    if event is None:
        event = _read_event(parse(raw, schema.max_bytes), schema, key, recorded)
    return _in_context(event, schema, key, recorded)


def decode_events(
    raws: Sequence[bytes],
    schema: EventSchema = _USUAL,
    keys: Sequence[bytes | None] = (),
    recorded: Sequence[float] = (),
) -> DecodedEvents:
    """Return the events of many records, each as `decode_event` returns or rejects it, as columns.

    Plain records are parsed together. If one of them is not plain, each half is tried again, so that a few
    others do not slow the rest down.

    Args:
        raws: values of the records.
        schema: how they are read.
        keys: their keys, or nothing.
        recorded: the log's times of the records, or nothing.
    """
    n = len(raws)
    keys, recorded = keys or (None,) * n, recorded or (0.0,) * n
    if not schema.is_plain or n < 2:
        return DecodedEvents.from_events(map(_event_or_error, raws, repeat(schema), keys, recorded))
    lines = _lines(raws, schema.max_bytes)
    if lines is not None:
        if schema.entity_path is None and not schema.aliases and (texts := _values(lines, n, _decode_texts)):
            return _text_columns(texts, recorded if schema.clock == "log" else None)
        if plain := _values(_checked(lines), n, _decode_plain_lines):
            rows = raws, repeat(schema), keys, recorded, plain
            return DecodedEvents.from_events(map(_event_or_error, *rows))
    half = n // 2
    first = decode_events(raws[:half], schema, keys[:half], recorded[:half])
    return first.followed_by(decode_events(raws[half:], schema, keys[half:], recorded[half:]))


def _text_columns(events: Sequence[_TextEvent], recorded: Sequence[float] | None) -> DecodedEvents:
    n = len(events)
    times: Sequence[float | None] = [None] * n if recorded is None else recorded
    if recorded is not None and not 0.0 < min(recorded) <= max(recorded) < LATEST:
        times = [time if 0.0 < time < LATEST else None for time in recorded]
    ids, labels = [event.id for event in events], [event.label for event in events]
    xs = TextEvents([event.text for event in events])
    return DecodedEvents(ids, xs, labels, [1.0] * n, times, range(n), [])


def _event_or_error(
    raw: bytes, schema: EventSchema, key: bytes | None, recorded: float, plain: _PlainEvent | None = None
) -> Event | MalformedEvent:
    try:
        event = None if plain is None else _plain_event(plain, raw)
        if event is None:
            return decode_event(raw, schema, key, recorded)
        return _in_context(event, schema, key, recorded)
    except MalformedEvent as error:
        return error


def _in_context(event: Event, schema: EventSchema, key: bytes | None, recorded: float) -> Event:
    """Complete an event by the record's key and time, and by the aliases of labels."""
    if schema.entity_path == "":
        event.x.pop(ENTITY, None)  # a feature of that name, if the event took the fast path
        if key:
            event.x[ENTITY] = name(key.decode(errors="backslashreplace"), ())
    if 0.0 < recorded < LATEST and schema.clock == "log":
        if event.ts is None:
            msgspec.structs.force_setattr(event, "ts", recorded)
        else:
            refuse_ahead(event.ts, recorded, schema.ts_keys or ())
    if event.label in schema.aliases:
        msgspec.structs.force_setattr(event, "label", schema.named(event.label))
    return event


def _read_plain(raw: bytes) -> Event | None:
    try:
        if not raw.isascii():
            raw.decode()  # msgspec does not check the strings that it skips
        record = _decode_plain(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    return _plain_event(record, raw)


def _plain_event(record: _PlainEvent, raw: bytes) -> Event | None:
    body, x, ts = record.text, record.features, record.ts
    may_be_label = body is None and not x
    # Bytes outside the text may nest too deeply, if there are enough of them.
    may_be_deep = len(raw) > SHALLOW and len(raw) - len(body or "") > SHALLOW and maybe_deep(raw)
    if may_be_label or may_be_deep:
        return None
    if x:
        if "text" in x:
            return None
        if None in x.values():
            x = {attribute: value for attribute, value in x.items() if value is not None}
        if body is not None:
            x = {"text": body, **x}
    else:
        x = {"text": body or ""}
    if ts is not None:
        ts = moment(ts, ("ts",)) if isinstance(ts, str) else ts
        if not EARLIEST <= ts < LATEST:
            return None
    return Event(record.id, x, record.label, 1.0, ts)  # type: ignore[arg-type]


def _read_event(record: Any, schema: EventSchema, key: bytes | None = None, recorded: float = 0.0) -> Event:
    refuse_label_record(record, schema, key)
    event_id = required_name(look_up(record, schema.id_keys), schema.id_keys)
    label = look_up(record, schema.label_keys)
    if label is not None:
        label = name(label, schema.label_keys)
    ts = _read_time(record, schema)
    x: dict[str, str | float | bool] = {}
    if schema.entity_keys is not None:
        entity = look_up(record, schema.entity_keys)
        if entity is not None:
            x[ENTITY] = name(nominal(entity, schema.entity_keys), schema.entity_keys)
    for place in schema.places:
        value = None if place.name in x else look_up(record, place.keys)
        if value is not None:
            if place.part:
                part = time_part(value, place.part, _now(ts, schema, recorded), place.keys)
                if part is None:
                    continue
                read = part
            else:
                read = READERS[place.kind](value, place.keys)
            x[place.name] = read if isinstance(read, str) else min(max(read, place.least), place.most)
            if place.values is not None and x[place.name] not in place.values:
                refuse("out-of-range", place.keys, f"expected one of {some_of(place.values)}")
    if schema.open_features:
        x |= _read_open(look_up(record, ("features",)), schema.claimed)
    return Event(event_id, x, label, _read_weight(record, schema), ts)


def _now(ts: float | None, schema: EventSchema, recorded: float) -> float | None:
    """Return the time of an event, from which the age of other times is counted."""
    return ts if ts is not None or schema.clock != "log" or not 0.0 < recorded < LATEST else recorded


def _read_weight(record: Any, schema: EventSchema) -> float:
    weight = look_up(record, schema.weight_keys) if schema.weight_keys else None
    return 1.0 if weight is None or schema.weight_keys is None else _weight(weight, schema.weight_keys)


def _read_time(record: Any, schema: EventSchema) -> float | None:
    given = look_up(record, schema.ts_keys) if schema.ts_keys else None
    if given is None or schema.ts_keys is None:
        return None
    seconds = moment(given, schema.ts_keys)
    refuse_odd_time(seconds, given, schema.ts_keys)
    return seconds


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


def decode_label(raw: bytes, schema: EventSchema = _USUAL, recorded: float = 0.0) -> LabelRecord | Retraction:
    """Return the label or retraction of a record of the labels topic.

    Args:
        raw: the record's value.
        schema: how it is read, by its `max_bytes`, `aliases` and `clock`.
        recorded: the log's time of the record, as for `decode_event`; with the log's clock, the time of a
            label may be at most a day later.

    Raises:
        MalformedEvent: with the reason, and the path of the invalid value.
    """
    label = _read_label(raw, schema.max_bytes)
    if schema.clock == "log":
        _refuse_label_ahead(label, recorded)
    return _named(label, schema) if isinstance(label, LabelRecord) else label


def _refuse_label_ahead(label: LabelRecord | Retraction, recorded: float) -> None:
    if label.ts is not None and 0.0 < recorded < LATEST:
        refuse_label_ahead(label.ts, recorded)


def _named(label: LabelRecord, schema: EventSchema) -> LabelRecord:
    if label.label in schema.aliases:
        return msgspec.structs.replace(label, label=schema.named(label.label))
    return label


def _read_label(raw: bytes, max_bytes: int) -> LabelRecord | Retraction:
    if plain := _read_plain_labels([raw], max_bytes):
        return plain[0]
    record = parse(raw, max_bytes)
    if look_up(record, ("withdraw",)) is not None:
        return _retraction(record)
    event_id = required_name(look_up(record, ("id",)), ("id",))
    label = look_up(record, ("label",))
    if label is None and "label" not in record:
        refuse("missing", ("label",), "expected a string, or null to take a label back")
    label = None if label is None else name(label, ("label",))
    source, weight = look_up(record, ("source",)), look_up(record, ("weight",))
    by = look_up(record, ("by",))
    return LabelRecord(
        event_id,
        label,
        UNNAMED if source is None else _source(source),
        1.0 if weight is None else _weight(weight, ("weight",)),
        _moment_in(record, "ts"),
        None if by is None else name(by, ("by",)),
    )


def decode_labels(
    raws: Sequence[bytes], schema: EventSchema = _USUAL, recorded: Sequence[float] = ()
) -> list[LabelRecord | Retraction | MalformedEvent]:
    """Return the result of `decode_label`, or its error, for each record of the labels topic."""
    plain, times = _read_plain_labels(raws, schema.max_bytes), recorded or [0.0] * len(raws)
    if not plain:
        return [_labels_by_source(raw, schema, time) for raw, time in zip(raws, times, strict=True)]
    pairs = zip(plain, times, strict=True)  # most labels are of a time before the log recorded them
    if schema.clock != "log" or all(label.ts is None or label.ts <= time for label, time in pairs):
        return [_named(label, schema) for label in plain]
    return [_in_time(_named(label, schema), time) for label, time in zip(plain, times, strict=True)]


def _labels_by_source(
    raw: bytes, schema: EventSchema, recorded: float
) -> LabelRecord | Retraction | MalformedEvent:
    try:
        return decode_label(raw, schema, recorded)
    except MalformedEvent as error:
        return error


def _in_time(label: LabelRecord, recorded: float) -> LabelRecord | MalformedEvent:
    try:
        _refuse_label_ahead(label, recorded)
    except MalformedEvent as error:
        return error
    return label


def _lines(raws: Sequence[bytes], max_bytes: int) -> bytes | None:
    """Return JSON objects as lines that can be decoded together; None if one of them is not plain.

    If a closing brace precedes and an opening one follows each line feed, no value extends over a line's end,
    because JSON never has a brace, a line feed and a brace inside a value. So each line has at least one
    value, and each record is one line of one value if there are as many values as records.
    """
    lines = b"\n".join(raws)
    if lines[:1] + lines[-1:] != b"{}" or (len(lines) > max_bytes and max(map(len, raws)) > max_bytes):
        return None
    if b"\n" not in lines:  # one record
        return lines
    import numpy as np  # noqa: PLC0415  commands that decode single records need none

    characters = np.frombuffer(lines, dtype=np.uint8)
    ends = np.flatnonzero(characters == _LINE_FEED)
    is_plain = (characters[ends - 1] == _CLOSED).all() and (characters[ends + 1] == _OPENED).all()
    return lines if is_plain else None


def _checked(lines: bytes) -> bytes | None:
    """Return lines that are UTF-8, else None: msgspec does not check the strings that it skips."""
    try:
        if not lines.isascii():
            lines.decode()
    except UnicodeDecodeError:
        return None
    return lines


def _values(lines: bytes | None, n: int, decode: Callable[[bytes], list[T]]) -> list[T] | None:
    """Return the values of n lines, decoded together; None if one of them is not of this type."""
    if lines is None:
        return None
    try:
        found = decode(lines)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    return found if len(found) == n else None


def _read_plain_labels(raws: Sequence[bytes], max_bytes: int) -> list[LabelRecord]:
    """Return the label records, decoded together, or none if one of them needs the slow path."""
    lines = _lines(raws, min(max_bytes, SHALLOW)) if raws else None
    found = None if lines is None else _values(_checked(lines), len(raws), _decode_plain_labels)
    if found is None or any(map(_is_odd, found)):
        return []
    return [
        LabelRecord(item.id, item.label, item.source or UNNAMED, item.weight, item.ts, item.by)  # type: ignore[arg-type]
        for item in found
    ]


def _retraction(record: Any) -> Retraction:
    if record["withdraw"] is not True:
        refuse("wrong-type", ("withdraw",), "expected true")
    source = _source(required_name(look_up(record, ("source",)), ("source",)))
    return Retraction(source, _moment_in(record, "since"), _moment_in(record, "ts"))


def _moment_in(record: Any, key: str) -> float | None:
    value = look_up(record, (key,))
    if value is None:
        return None
    seconds = moment(value, (key,))
    refuse_odd_time(seconds, value, (key,))
    return seconds


def _source(value: Any) -> str:
    source = name(value, ("source",))
    if source == IN_EVENT:
        refuse("out-of-range", ("source",), f"{IN_EVENT!r} is what labels inside events are called")
    return source


def _is_odd(found: _PlainLabel) -> bool:
    if found.withdraw is not None or found.source == IN_EVENT:
        return True
    return found.ts is not None and (type(found.ts) is str or not EARLIEST <= found.ts < LATEST)  # type: ignore[operator]


def encode_label(label: LabelRecord | Retraction) -> bytes:
    """Return the record of the labels topic."""
    record = msgspec.to_builtins(label)
    if isinstance(label, Retraction):
        record = {"withdraw": True, **record}
    return _encode_json({key: value for key, value in record.items() if value is not None or key == "label"})


def _weight(value: Any, keys: Keys) -> float:
    weight = number(value, keys)
    return weight if 0 <= weight <= HEAVIEST else refuse("out-of-range", keys, f"expected 0 to {HEAVIEST}")


def decode_prediction(raw: bytes) -> Prediction:
    """Return the prediction in a record; unknown fields are ignored. Raises `MalformedEvent`."""
    return _convert(parse(raw, len(raw)), Prediction)


def decode_metrics(raw: bytes) -> MetricsReport | Drift:
    """Return what a record of the metrics topic holds, by its ``kind``; unknown fields are ignored.

    Raises `MalformedEvent`.
    """
    found: MetricsReport | Drift = _convert(parse(raw, len(raw)), cast("Any", MetricsReport | Drift))
    return found


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


def record_key(event: Event, schema: EventSchema) -> bytes | None:
    """Return the key of an event's record: its entity if the schema has a path for it, else its id.

    So the events of an entity stay in order.
    """
    key = event.x.get(ENTITY) if schema.entity_path else event.id
    return None if key is None else str(key).encode()


def encode_event(event: Mapping[str, Any]) -> bytes:
    """Return the record of an event in the shape of its JSON form.

    Raises:
        ValueError: a number that is not finite, with its path; or text that UTF-8 cannot hold.
    """
    return _encode(dict(event))


def encode_prediction(prediction: Prediction) -> bytes:
    """Return the record of a prediction. Raises ValueError for a number that is not finite."""
    return _encode(prediction)


def encode_predictions(predictions: Sequence[Prediction]) -> list[bytes]:
    """Return the records of predictions, as `encode_prediction` does."""
    records = list(map(_encode_json, predictions))
    if b"null" in b"".join(records):
        for prediction, record in zip(predictions, records, strict=True):
            nullable = prediction.label, prediction.probability, prediction.decision
            if record.count(b"null") != nullable.count(None):
                encode_prediction(prediction)  # another null may be a number that is not finite
    return records


def encode_alert(alert: Alert) -> bytes:
    """Return the record of the alerts topic. Raises ValueError for a number that is not finite."""
    return _encode(alert)


def decode_alert(raw: bytes) -> Alert:
    """Return the alert in a record; unknown fields are ignored. Raises `MalformedEvent`."""
    return _convert(parse(raw, len(raw)), Alert)


def encode_tenant_stats(standing: TenantStanding) -> bytes:
    """Return the record of the tenants topic."""
    return _encode_json(standing)


def encode_metrics(report: MetricsReport | Drift) -> bytes:
    """Return the record of the metrics topic. Raises ValueError for a number that is not finite."""
    return _encode(report)


def _encode(value: Any) -> bytes:
    encoded = _encode_json(value)
    if b"null" in encoded:  # msgspec writes infinities and NaN as null
        keys = find(msgspec.to_builtins(value), is_nonfinite)
        if keys is not None:
            raise ValueError(f"{render_path(keys)}: expected a finite number")
    return encoded
