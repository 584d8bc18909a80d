"""Envelopes of records: what a record is about, taken out of CloudEvents and of Debezium's change events.

Debezium's changes become an event and labels, so that a table whose label column is filled in later teaches
as late labels do:

    op                  event                  label record
    c, r (new row)      the row                its label, if it is set
    u (changed row)     none: an event keeps   its label, or null if it is empty; none if the connector
                        its first values       left the value out as unchanged
    d (deleted row)     none                   null: the label is retracted; or none, by choice
    t (truncated), m    none                   none

The rows before and after a change are never compared: PostgreSQL sends the row before only with
``REPLICA IDENTITY FULL``. A label has the time of its transaction, so a change that a connector repeats after
a restart changes nothing. A row of a snapshot has the time of its reading. Transactions that follow may
have an earlier time, and get the time of the row.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from streamnb.errors import MalformedEvent

UNAVAILABLE = "__debezium_unavailable_value"
"""Placeholder for a long value that a change did not touch (PostgreSQL's TOAST)."""
SNAPSHOT = "r"
ROWS, CHANGES, DELETIONS, OTHERS = ("c", SNAPSHOT), ("u",), ("d",), ("t", "m")
_MILLISECONDS = 1000.0
_MOST_MILLISECONDS = 1 << 63
_STRUCTURED = "application/cloudevents"
_PREFIX = "ce_"


class Enveloped(NamedTuple):
    """Content of an envelope.

    Attributes:
        op: operation of a change, as Debezium writes it; "c" for records without one.
        row: the content; None for a deletion.
        before: the row before a change, or None if it was not sent.
        ts: seconds since the epoch, or an RFC 3339 date-time; None if the envelope has no time.
        id: id of the envelope, or None.
    """

    op: str
    row: Any
    before: Any = None
    ts: float | str | None = None
    id: str | None = None


def debezium_change(value: Any) -> Enveloped:
    """Return the change in a decoded value of Debezium, without its Connect schema.

    Raises MalformedEvent for any other value, such as a row that was unwrapped already.
    """
    op = value.get("op") if isinstance(value, Mapping) else None
    if op not in {*ROWS, *CHANGES, *DELETIONS, *OTHERS}:
        raise MalformedEvent(
            "wrong-envelope",
            "$.op",
            f"expected a change event of Debezium, with `op` c, r, u or d; found {_shown(value)}",
            'rows without an envelope are read with envelope = "none"',
        )
    source = value.get("source")
    times = (source.get("ts_ms") if isinstance(source, Mapping) else None, value.get("ts_ms"))
    ts = next(
        (time / _MILLISECONDS for time in times if type(time) is int and abs(time) < _MOST_MILLISECONDS), None
    )
    row = value.get("after")
    if row is None and op in {*ROWS, *CHANGES}:
        raise MalformedEvent("missing", "$.after", f"a change with `op` {op} has no row after it")
    return Enveloped(op, row, value.get("before"), ts)


def cloud_event(value: bytes, headers: Iterable[tuple[str, bytes]], decode: Any) -> Enveloped:
    """Return the data of a CloudEvent of version 1.0, in binary or structured mode.

    Args:
        value: bytes of the record.
        headers: of the record.
        decode: returns the value of JSON bytes, or raises MalformedEvent.

    Raises MalformedEvent for a record that is not a CloudEvent, is a batch, or has data that are not JSON.
    """
    known = {name.lower(): raw for name, raw in headers}
    kind = known.get("content-type", b"").decode(errors="replace").lower()
    if kind.startswith(_STRUCTURED):
        if not kind.split(";")[0].endswith("+json") or kind.startswith(f"{_STRUCTURED}-batch"):
            raise MalformedEvent("wrong-envelope", "$", f"a CloudEvent in the format {kind[:80]} is not read")
        return _structured(decode(value))
    if f"{_PREFIX}specversion" in known:
        texts = {name: known.get(_PREFIX + name, b"").decode(errors="replace") for name in ("id", "time")}
        return Enveloped("c", _data(value, kind, decode), None, texts["time"] or None, texts["id"] or None)
    decoded = decode(value)
    if not isinstance(decoded, Mapping) or "specversion" not in decoded:
        raise MalformedEvent(
            "wrong-envelope",
            "$",
            f"no CloudEvent: neither headers {_PREFIX}* nor `specversion`; found {_shown(decoded)}",
        )
    return _structured(decoded)


def _structured(event: Any) -> Enveloped:
    if not isinstance(event, Mapping) or event.get("data") is None:
        raise MalformedEvent("missing", "$.data", "a CloudEvent without JSON data")
    event_id = event.get("id")
    if not isinstance(event_id, str):
        raise MalformedEvent("missing", "$.id", "a CloudEvent without an id")
    return Enveloped("c", event["data"], None, event.get("time"), event_id)


def _data(value: bytes, kind: str, decode: Any) -> Any:
    """Return the data of a CloudEvent in binary mode. Without a content type they are JSON."""
    name = kind.split(";", maxsplit=1)[0].strip()
    if not name or name.endswith(("/json", "+json")):
        return decode(value)
    if name.startswith("text/"):
        try:
            return {"text": value.decode()}
        except UnicodeDecodeError as error:
            raise MalformedEvent("invalid-utf8", "$", str(error)) from error
    raise MalformedEvent("wrong-envelope", "$", f"data of a CloudEvent as {name[:80]} are not read")


def _shown(value: Any) -> str:
    """Return the keys of an object, or the type of another value; never its content."""
    if not isinstance(value, Mapping):
        return type(value).__name__
    names = sorted(map(str, value))
    return f"an object with {', '.join(names[:5])}{', ...' if len(names) > 5 else ''}"
