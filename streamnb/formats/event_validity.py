"""What is no event although it can be read as one: a label that lost its way, a time that cannot be meant.

Both would be learned without a word: a label as one more example of its class, and a time far ahead as the
time of everything that comes after it (`model.stats.decayed`).
"""

from __future__ import annotations

from typing import Any

from streamnb.formats.event_schema import EventSchema
from streamnb.formats.json_parsing import refuse
from streamnb.formats.json_paths import Keys

EARLIEST = -2208988800.0
"""1900-01-01, in seconds since the epoch."""

LATEST = 4102444800.0
"""2100-01-01, the first time that is refused; milliseconds of any time since February 1970 are later."""

_DAY = 86400.0  # forgives a clock, and a local time that was taken for UTC
_SINCE = 631152000.0  # 1990-01-01: a number is taken for another unit where that is a likely time
_UNITS = {"milliseconds": 1e3, "microseconds": 1e6, "nanoseconds": 1e9}
_OF_LABELS = frozenset(("id", "label", "source", "weight", "ts", "withdraw", "since"))
_REMEDY = (
    "labels belong on the topic that topics.labels names, where one is configured; "
    'an event without attributes says so: "features": {}'
)


def refuse_label_record(record: Any, schema: EventSchema, key: bytes | None) -> None:
    """Refuse a record of the topic of labels.

    Nothing in an event says that it is one, so this goes by what producers write. A label has no key but
    those of a label. An event has one more: `text`, `features` or the path of an attribute or entity, even
    where its value is null. Any such key, and any that is no label's, makes an event. What is left has no
    attribute, and is a label record where it

    * withdraws what a source said, or
    * has a `label`, null too, with a `source`, or
    * has a `label` and nothing to learn it of. As an event it could teach nothing but how frequent its class
      is, and as a label that came later it would do so for the second time. Where entities are named by keys
      and the record has one, its entity is what it teaches about, and it is an event. What this costs: a
      producer that leaves out empty texts has those events refused, and is told what to send.

    An id alone, with a null label or with a source, is an event: it is only predicted, and teaches nothing.

    Raises:
        MalformedEvent: label-record, at the whole record.
    """
    if type(record) is not dict or not record.keys() <= _OF_LABELS:
        return
    if not schema.told_by.isdisjoint(record):
        return
    label = record.get("label")
    is_label = type(label) is str and label != ""  # any other is refused for what it is
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
    """Refuse a time that is not of the years 1900 to 2099. `given` is what the record says.

    Raises:
        MalformedEvent: out-of-range; it names the unit where another one than seconds is likely.
    """
    if EARLIEST <= seconds < LATEST:
        return
    detail = "expected a time of the years 1900 to 2099, in seconds since the epoch"
    for unit, parts in _UNITS.items():
        if type(given) is not str and _SINCE <= seconds / parts < LATEST:
            detail = f"{seconds:.15g} looks like {unit}; seconds are expected"
    refuse("out-of-range", keys, detail, detail)


def refuse_ahead(seconds: float, recorded: float, keys: Keys) -> None:
    """Refuse an event time more than a day after the log recorded the event.

    Raises:
        MalformedEvent: out-of-range.
    """
    _refuse_ahead(seconds, recorded, keys, "event")


def refuse_label_ahead(seconds: float, recorded: float) -> None:
    """Refuse a label that says it was given more than a day after the log recorded it.

    The last label of a source counts, so no correction would count until that time.

    Raises:
        MalformedEvent: out-of-range, at $.ts.
    """
    _refuse_ahead(seconds, recorded, ("ts",), "label", "; without ts, the log's own time counts")


def _refuse_ahead(seconds: float, recorded: float, keys: Keys, what: str, advice: str = "") -> None:
    if seconds <= recorded + _DAY:
        return
    detail = f"{seconds - recorded:.0f} s after the log recorded the {what}, more than a day"
    remedy = f'{detail}{advice}; where such times are meant: events.clock = "event"'
    refuse("out-of-range", keys, detail, remedy)
