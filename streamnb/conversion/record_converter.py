"""Converter of one record of a source to the records that a learner reads."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from functools import partial
from typing import Any

from streamnb.config import Config
from streamnb.config.source_config import SourceConfig
from streamnb.conversion.schema_decoders import json_decoded
from streamnb.conversion.schema_registry import SchemaRegistry
from streamnb.engine.ports import NewRecord, Record
from streamnb.errors import MalformedEvent, StreamnbError
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
from streamnb.formats.connect_values import Convert, struct_converter
from streamnb.formats.dead_letter_record import dead_letter_record, letter_limit
from streamnb.formats.event_columns import encoded
from streamnb.formats.row_events import DELETED, RowColumns, RowEvents, key_id
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
        sizes: maximum bytes of a record with its key, of topics that have such a limit.
    """

    results = RESULTS

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
        self._awaited = {*filter(None, (source.label, source.text, source.ts)), *source.drop}
        self._connect: dict[str, tuple[Any, Convert | None]] = {}
        self.counts: Counter[str] = Counter()
        self.floor = 0.0
        self.sizes: Mapping[str, int] = {}

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
            found = self._fitting(self._readable(record))
        except MalformedEvent as error:
            self._notice(error.reason, "letter")
            found = [(LETTERS, self._letter(record, error))]
        self.counts.update(kind for kind, _ in found)
        if not found:
            self.counts[OTHERS] += 1
        return [output for _, output in found]

    def _readable(self, record: Record) -> list[tuple[str, NewRecord]]:
        """Return the outputs of a record. Raises MalformedEvent for any content that cannot be converted.

        A schema, or a value with its schema inside, may hold anything, and libraries raise many types of
        errors for it. Errors of this machine are not the record's fault.
        """
        try:
            return list(self._converted(record))
        except (StreamnbError, OSError, MemoryError):
            raise
        except Exception as error:
            raise MalformedEvent(
                "undecodable", "$", f"a value that does not fit its schema ({type(error).__name__}: {error})"
            ) from error

    def _fitting(self, found: list[tuple[str, NewRecord]]) -> list[tuple[str, NewRecord]]:
        """Return outputs that their topics accept. Raises MalformedEvent for others."""
        for kind, output in found:
            size = len(output.value) + len(output.key or b"")
            limit = min(self._limits[0], self.sizes.get(output.topic, self._limits[0]))
            if size > limit:
                raise MalformedEvent(
                    "oversize",
                    "$",
                    f"its output in {kind} has {size:,} bytes, and {limit:,} are accepted",
                    f"raise events.max_bytes, or max.message.bytes of topic {output.topic}, or drop columns",
                )
        return found

    def _converted(self, record: Record) -> Iterator[tuple[str, NewRecord]]:
        content = self._enveloped(record)
        ts = record.timestamp if content.ts is None else content.ts
        if self._source.envelope == "debezium":
            yield from self._changed(content, record, ts)
        elif self._columns.is_empty:
            yield EVENTS, self._as_it_is(content, ts)
        else:
            cells, key = self._rows.cells(content.row), self._key(record)
            self._look_for(cells, key)
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
            if self._source.deletes != "keep":
                headers = ((DELETED, b""),) if self._source.deletes == "forget" else ()
                retraction = self._label(event_id, None, max(ts, self.floor))
                yield LABELS, retraction._replace(headers=headers)
            return
        self._look_for(cells, key)
        if change.op == SNAPSHOT:
            self.floor = max(self.floor, ts)
        if change.op in ROWS:
            event = self._rows.event(cells, event_id, ts, _columns(key), has_label=False)
            yield EVENTS, self._event(event_id, event)
        elif change.before and self._differs(change.before, cells):
            self._notice(self._source.topic, "attributes")
        if not self._rows.knows_label(cells):
            return
        label = self._rows.label(cells)
        if label is not None or change.op in CHANGES:
            yield LABELS, self._label(event_id, label, max(ts, self.floor))

    def _look_for(self, cells: Mapping[str, Any], key: Any) -> None:
        """Report columns with a role, or to drop, that no row had so far: their names may be misspelled."""
        if "id" in cells and not self._columns.id and "id" not in {*self._source.drop, *_columns(key)}:
            self._notice("id", "feature")
        for name in self._awaited - cells.keys():
            self._notice(name, "absent")
        self._awaited &= self._awaited - cells.keys()

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
            return self._without_schema(json_decoded(raw), header)
        if self._registry is None:
            raise MalformedEvent(
                "undecodable",
                "$",
                f"framed with schema {frame.schema}, and no registry is configured",
                "set registry.url",
            )
        return self._registry.decode(frame.schema, frame.body)

    def _without_schema(self, value: Any, header: str) -> Any:
        """Return the payload of a value or key that Connect wrote with its schema; others as they are."""
        if not isinstance(value, dict) or value.keys() != {"schema", "payload"}:
            return value
        schema, payload = value["schema"], value["payload"]
        if not isinstance(schema, dict):
            return payload
        known, convert = self._connect.get(header, (None, None))
        if schema != known:  # it takes longer to read than the payload, and rarely changes
            convert = struct_converter(schema)
            self._connect[header] = schema, convert
        return payload if convert is None else convert(payload)

    def _key(self, record: Record) -> Any:
        """Return the decoded key of a record; None without one.

        Only framed keys, JSON objects and JSON strings are decoded: 5e10 stays a text.
        """
        raw = record.key
        if not raw:
            return None
        try:
            return self._decoded_key(record, raw)
        except MalformedEvent:
            if not self._columns.id:
                raise
            return None  # the key has no role: other columns have the id

    def _decoded_key(self, record: Record, raw: bytes) -> Any:
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
        about = [("source", self._source.name), ("detail", error.detail[:_MOST_DETAIL])]
        about += [("remedy", error.remedy)] if error.remedy else []
        place = topic, number, record.offset
        letter = DeadLetter(
            record.value, error.reason, error.path, *place, record.key, tuple(record.headers), tuple(about)
        )
        most, letters = self._limits[0], self._topics.dead_letters
        limit = letter_limit(*self._limits, self.sizes.get(letters))
        return NewRecord(letters, *dead_letter_record(letter, most, limit))


def _columns(key: Any) -> Collection[str]:
    return key if isinstance(key, Mapping) else ()
