"""Converter of one record of a source to the records that a learner reads."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Iterator, Mapping
from functools import partial
from typing import Any

from streamnb.config import Config
from streamnb.config.source_config import SourceConfig
from streamnb.conversion.schema_decoders import json_decoded
from streamnb.conversion.schema_registry import SchemaRegistry
from streamnb.engine.ports import NewRecord, Record
from streamnb.errors import MalformedEvent
from streamnb.events import DeadLetter
from streamnb.formats.change_envelopes import (
    CHANGES,
    DELETIONS,
    ROWS,
    SNAPSHOT,
    Enveloped,
    cloud_event,
    debezium_change,
)
from streamnb.formats.connect_values import struct_converter
from streamnb.formats.dead_letter_record import dead_letter_record
from streamnb.formats.event_columns import encoded
from streamnb.formats.row_events import RowColumns, RowEvents, key_id
from streamnb.formats.schema_frames import KEY_HEADER, VALUE_HEADER, schema_frame

EVENTS, LABELS, LETTERS, TOMBSTONES, OTHERS = "events", "labels", "dead-letters", "tombstones", "others"
RESULTS = (EVENTS, LABELS, LETTERS, TOMBSTONES, OTHERS)
"""Outputs of records, and kinds of records without output; "others" are, for example, truncations."""
_MOST_DETAIL = 500  # characters of a dead letter's


class RecordConverter:
    """Converter of the records of one source.

    Args:
        source: the source.
        config: topics and limits of the outputs.
        registry: decodes framed records; None if no registry is configured.
        notice: receives what is read otherwise than it was sent: a topic's column or operation, and why.

    Attributes:
        counts: number of outputs and passed records, by result.
        floor: no later label has an earlier time, in seconds since the epoch. A row of a snapshot has the
            time at which it was read. Changes that follow it may have been committed before that time.
    """

    def __init__(
        self,
        source: SourceConfig,
        config: Config,
        registry: SchemaRegistry | None,
        notice: Callable[[str, str], None],
    ) -> None:
        self._source, self._topics, self._registry, self._notice = source, config.topics, registry, notice
        self._limits = config.events.max_bytes, config.events.letter_bytes
        self._columns = RowColumns(source.id, source.label, source.text, source.ts, source.drop)
        self._rows = RowEvents(self._columns, source.name, notice)
        self.counts: Counter[str] = Counter()
        self.floor = 0.0

    def outputs(self, record: Record) -> list[NewRecord]:
        """Return what a record becomes: events, labels or a dead letter; none if it has no meaning.

        Raises:
            Unavailable: the registry does not answer; the record can be converted later.
            SchemaChangedError: the registry has other schemas than before.
        """
        try:
            if not record.value:
                self.counts[TOMBSTONES] += 1
                return []
            found = list(self._converted(record))
        except MalformedEvent as error:
            found = [(LETTERS, self._letter(record, error))]
        self.counts.update(kind for kind, _ in found)
        if not found:
            self.counts[OTHERS] += 1
        return [output for _, output in found]

    def _converted(self, record: Record) -> Iterator[tuple[str, NewRecord]]:
        content = self._enveloped(record)
        ts = record.timestamp if content.ts is None else content.ts
        if self._source.envelope == "debezium":
            yield from self._changed(content, record, ts)
        elif self._columns.is_empty:
            yield EVENTS, self._as_it_is(content, ts)
        else:
            cells, key = self._rows.cells(content.row), self._key(record)
            event_id = self._rows.id_of(cells, content.id or key_id(key))
            yield EVENTS, self._event(event_id, self._rows.event(cells, event_id, ts, _columns(key)))

    def _changed(self, change: Enveloped, record: Record, ts: Any) -> Iterator[tuple[str, NewRecord]]:
        """Yield the event and the label of a changed row."""
        if change.op not in {*ROWS, *CHANGES, *DELETIONS}:
            self._notice(change.op, "operation")
            return
        is_deleted, key = change.op in DELETIONS, self._key(record)
        cells = self._rows.cells((change.before if is_deleted else change.row) or {})
        event_id = self._rows.id_of(cells, key_id(key))
        if is_deleted:
            if self._source.deletes == "withdraw":
                yield LABELS, self._label(event_id, None, max(ts, self.floor))
            return
        if change.op == SNAPSHOT:
            self.floor = max(self.floor, ts)
        if change.op in ROWS:
            event = self._rows.event(cells, event_id, ts, _columns(key), has_label=False)
            yield EVENTS, self._event(event_id, event)
        elif change.before and self._differs(change.before, cells):
            self._notice(self._source.topic, "attributes")
        if not self._rows.knows_label(cells):
            if self._source.label not in cells:
                self._notice(str(self._source.label), "label")
            return
        label = self._rows.label(cells)
        if label is not None or change.op in CHANGES:
            yield LABELS, self._label(event_id, label, max(ts, self.floor))

    def _differs(self, before: Any, cells: dict[str, Any]) -> bool:
        """Return whether a column other than the label and dropped ones changed."""
        earlier = self._rows.cells(before)
        passed = {self._source.label, *self._source.drop}
        return any(earlier.get(name) != value for name, value in cells.items() if name not in passed)

    def _as_it_is(self, content: Enveloped, ts: Any) -> NewRecord:
        """Return the event that a record without roles of columns is."""
        if not isinstance(content.row, dict):
            raise MalformedEvent("wrong-type", "$", f"expected an object, found {type(content.row).__name__}")
        event = dict(content.row)
        if content.id is not None:
            if str(event.get("id", content.id)) != content.id:
                self._notice("id", "hidden")
            event["id"] = content.id
        event.setdefault("ts", ts)
        event_id = event.get("id")
        return self._event(event_id if isinstance(event_id, str) else "", encoded(event))

    def _enveloped(self, record: Record) -> Enveloped:
        decode = partial(self._decoded, record=record, header=VALUE_HEADER)
        if self._source.envelope == "cloudevents":
            return cloud_event(record.value, record.headers, decode)
        value = decode(record.value)
        return debezium_change(value) if self._source.envelope == "debezium" else Enveloped("c", value)

    def _decoded(self, raw: bytes, record: Record, header: str) -> Any:
        frame = schema_frame(raw, record.headers, header)
        if frame is None:
            return _without_schema(json_decoded(raw))
        if self._registry is None:
            raise MalformedEvent(
                "undecodable",
                "$",
                f"framed with schema {frame.schema}, and no registry is configured",
                "set registry.url",
            )
        return self._registry.decode(frame.schema, frame.body)

    def _key(self, record: Record) -> Any:
        """Return the decoded key of a record; None without one.

        Only framed keys, JSON objects and JSON strings are decoded: 5e10 stays a text.
        """
        raw = record.key
        if not raw:
            return None
        if schema_frame(raw, record.headers, KEY_HEADER) is not None or raw[:1] in {b"{", b'"'}:
            return self._decoded(raw, record, KEY_HEADER)
        try:
            return raw.decode()
        except UnicodeDecodeError as error:
            raise MalformedEvent("invalid-utf8", "$", f"the key is not UTF-8: {error}") from error

    def _event(self, event_id: str, value: bytes) -> NewRecord:
        return NewRecord(self._topics.events[0], event_id.encode() or None, value)

    def _label(self, event_id: str, label: str | None, ts: Any) -> NewRecord:
        value = self._rows.label_record(event_id, label, ts)
        return NewRecord(self._topics.labels, event_id.encode(), value)

    def _letter(self, record: Record, error: MalformedEvent) -> NewRecord:
        """Return the dead letter of a record that cannot be converted."""
        topic, number = record.partition
        about = [("source", self._source.name), ("detail", str(error).partition(": ")[2][:_MOST_DETAIL])]
        about += [("remedy", error.remedy)] if error.remedy else []
        place = topic, number, record.offset
        letter = DeadLetter(
            record.value, error.reason, error.path, *place, record.key, tuple(record.headers), tuple(about)
        )
        return NewRecord(self._topics.dead_letters, *dead_letter_record(letter, *self._limits))


def _columns(key: Any) -> Container[str]:
    return key if isinstance(key, Mapping) else ()


def _without_schema(value: Any) -> Any:
    """Return the payload of a value that Connect wrote with its schema; other values as they are."""
    if not isinstance(value, dict) or value.keys() != {"schema", "payload"}:
        return value
    if not isinstance(value["schema"], dict):
        return value["payload"]
    convert = struct_converter(value["schema"])
    return value["payload"] if convert is None else convert(value["payload"])
