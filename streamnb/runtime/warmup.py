"""A few made-up events through a learner that is thrown away: what it compiles, the real one needs."""

from __future__ import annotations

import json
from typing import Any

from streamnb.engine.ports import Partition, Record
from streamnb.engine.processing.event_processor import EventProcessor
from streamnb.events import LabelRecord
from streamnb.formats.codec import encode_label
from streamnb.formats.event_schema import EventSchema

_EVENTS = 60  # enough for a tree to be drawn
_TOO_MANY = 1 << 30  # classes, which forces evictions
_VALUES = {"text": "one two", "nominal": "red", "continuous": 1.5}


def rehearse(learner: EventProcessor, schema: EventSchema) -> None:
    """Learn, predict, report, prune, evict, save and load, to compile all kernels."""
    records = [rehearsed(schema, number) for number in range(_EVENTS)]
    for begin in range(0, _EVENTS, 20):
        learner.process(records[begin : begin + 20], 1.0)
    if learner.settings.labels is not None:
        topic = learner.settings.labels.topic
        learner.process([_verdict(topic, number) for number in range(2 * _EVENTS)], 1.0)
    if learner.settings.pruning.every:
        learner.prune()
    learner.model.evict(_TOO_MANY)
    learner.report(1.0)
    copy = learner.copying()
    learner.load(copy.parts(), copy.segments())


def _verdict(topic: str, number: int) -> Record:
    verdict = LabelRecord(str(number % _EVENTS), "abc"[number * number % 3], ts=float(number))
    return Record(Partition(topic, 0), number, None, encode_label(verdict), 1.0)


def rehearsed(schema: EventSchema, number: int) -> Record:
    """Return an event of one of three classes, or none; with every declared attribute, or a few."""
    event: dict[str, Any] = {}
    _put(event, schema.id_keys, str(number))
    for place in schema.places:
        value = next(iter(place.values)) if place.values else _VALUES[place.kind]
        if place.part:
            _put(event, place.keys, float(number))
        else:
            _put(event, place.keys, number / 2.0 if place.kind == "continuous" else value)
    if schema.entity_keys:
        _put(event, schema.entity_keys, "one")
    if schema.ts_keys:
        _put(event, schema.ts_keys, float(number))
    if number % 4:
        _put(event, schema.label_keys, "abc"[number % 3])
    if schema.open_features:
        _put(event, ("text",), f"one two n{number}")
        _put(event, ("features", "colour"), "red")
        _put(event, ("features", "height"), number / 2.0)
    return Record(Partition("events", 0), number, b"one", json.dumps(event).encode(), 0.0)


def _put(event: dict[str, Any], keys: tuple[str, ...], value: object) -> None:
    *above, last = keys
    for key in above:
        event = event.setdefault(key, {})
        if not isinstance(event, dict):
            return
    event.setdefault(last, value)
