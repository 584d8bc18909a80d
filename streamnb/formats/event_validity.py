"""Readable records that are not valid events: misdirected labels, and implausible times.

Both would be learned silently: a label as one more example of its class, and a time far ahead as the time of
everything that comes after it (`model.stats.decayed`).
"""

from __future__ import annotations

from typing import Any

from streamnb.formats.event_schema import EventSchema
from streamnb.formats.json_parsing import refuse
from streamnb.formats.json_paths import Keys

EARLIEST = -2208988800.0
"""1900-01-01, in seconds since the epoch."""

LATEST = 4102444800.0
"""2100-01-01, the first time that is rejected; milliseconds of any time since February 1970 are later."""

_DAY = 86400.0  # tolerance for a wrong clock, and for a local time read as UTC
_SINCE = 631152000.0  # 1990-01-01: a number is assumed to have another unit if it gives a time from here on
_UNITS = {"milliseconds": 1e3, "microseconds": 1e6, "nanoseconds": 1e9}
_OF_LABELS = frozenset(("id", "label", "source", "weight", "ts", "withdraw", "since"))
_REMEDY = (
    "labels belong on the topic that topics.labels names, if it is configured; "
    'an event without attributes is sent with "features": {}'
)


def refuse_label_record(record: Any, schema: EventSchema, key: bytes | None) -> None:
    """Raise MalformedEvent for a record of the labels topic among events.

    Records do not state their type, so this goes by what producers write. A label has only the keys of a
    label. An event has one more, even if its value is null: `text`, `features` or the path of an attribute or
    entity. Any such key, and any unknown key, makes an event. A record without one has no attribute, and is a
    label record if it

    * withdraws the labels of a source, or
    * has a `label`, null too, with a `source`, or
    * has a `label` and nothing to learn it from. As an event it would only count for the frequency of its
      class, and as a late label it would count a second time. If keys name entities and the record has a
      key, it is an event of its entity. The cost: events of a producer that omits empty texts are rejected,
      with advice what to send.

    An id alone, with a null label or with a source, is an event: it is only predicted, and teaches nothing.

    Raises:
        MalformedEvent: label-record, at the whole record.
    """
    if type(record) is not dict or not record.keys() <= _OF_LABELS:
        return
    if not schema.told_by.isdisjoint(record):
        return
    label = record.get("label")
    # An empty string, an array or an object is rejected as a label later.
    is_label = type(label) in {str, int, float, bool} and label != ""
    withdraws = label is None and "label" in record
    has_source = record.get("source") is not None
    is_of_entity = schema.entity_path == "" and bool(key)
    if (
        record.get("withdraw") is not None
        or (has_source and (is_label or withdraws))
        or (is_label and not is_of_entity)
    ):
        refuse("label-record", (), "this is a label, not an event", _REMEDY)


def refuse_odd_time(seconds: float, given: Any, keys: Keys) -> None:
    """Raise MalformedEvent for a time outside the years 1900 to 2099. `given` is the value in the record.

    Raises:
        MalformedEvent: out-of-range; it names the unit if a unit other than seconds is likely.
    """
    if EARLIEST <= seconds < LATEST:
        return
    detail = "expected a time of the years 1900 to 2099, in seconds since the epoch"
    for unit, parts in _UNITS.items():
        if type(given) is not str and _SINCE <= seconds / parts < LATEST:
            detail = f"{seconds:.15g} looks like {unit}; seconds are expected"
    refuse("out-of-range", keys, detail, detail)


def refuse_ahead(seconds: float, recorded: float, keys: Keys) -> None:
    """Raise MalformedEvent for an event time more than a day after the log recorded the event.

    Raises:
        MalformedEvent: out-of-range.
    """
    _refuse_ahead(seconds, recorded, keys, "event")


def refuse_label_ahead(seconds: float, recorded: float) -> None:
    """Raise MalformedEvent for a label whose time is more than a day after the log recorded it.

    The last label of a source counts, so no correction would count until that time.

    Raises:
        MalformedEvent: out-of-range, at $.ts.
    """
    _refuse_ahead(seconds, recorded, ("ts",), "label", "; without ts, the log's own time counts")


def _refuse_ahead(seconds: float, recorded: float, keys: Keys, what: str, advice: str = "") -> None:
    if seconds <= recorded + _DAY:
        return
    detail = f"{seconds - recorded:.0f} s after the log recorded the {what}, more than a day"
    remedy = f'{detail}{advice}; if such times are intended: events.clock = "event"'
    refuse("out-of-range", keys, detail, remedy)
