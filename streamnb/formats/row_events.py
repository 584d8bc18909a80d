"""Rows of other topics as events and label records: columns get roles, and nested objects become flat."""

from __future__ import annotations

import math
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from streamnb.errors import MalformedEvent
from streamnb.formats.change_envelopes import UNAVAILABLE
from streamnb.formats.event_columns import assembled, encoded
from streamnb.values.json_conversion import name_text

DELETED = "deleted"
"""Header of the retraction of a deleted row that `forget --deleted` will forget; a learner ignores it."""
_DEEPEST = 20  # nested objects


class RowColumns(NamedTuple):
    """Roles of the columns of a row; a column of a nested object has dots: ``customer.tier``.

    Attributes:
        id: columns that form the id of the event; none for the record's key or the envelope's id.
        label: the column of the label, or None.
        text: the column of the text, or None.
        ts: the column of the event time, or None for the envelope's or the log's time.
        drop: columns that do not become features.
    """

    id: tuple[str, ...] = ()
    label: str | None = None
    text: str | None = None
    ts: str | None = None
    drop: tuple[str, ...] = ()

    @property
    def is_empty(self) -> bool:
        """True without any role: then a row is an event as it is."""
        return self == RowColumns()


class RowEvents:
    """Maker of events and label records from rows.

    Args:
        columns: roles of the columns.
        source: the source of labels.
        notice: receives the name of a column that has no feature, and why: "array" or "unavailable".
    """

    def __init__(self, columns: RowColumns, source: str, notice: Callable[[str, str], None]) -> None:
        self._columns, self._source, self._notice = columns, source, notice
        roles = {*columns.id, columns.label, columns.text, columns.ts}
        self._left_out = {name for name in roles if name} | {*columns.drop}

    def cells(self, row: Any) -> dict[str, Any]:
        """Return the cells of a row by column. Raises MalformedEvent for any other value than an object."""
        if not isinstance(row, Mapping):
            raise MalformedEvent("wrong-type", "$", f"expected an object, found {type(row).__name__}")
        return dict(self._flat(row, "", 0))

    def id_of(self, cells: Mapping[str, Any], otherwise: str | None) -> str:
        """Return the id of a row's event: of its columns, or else the given id. Raises MalformedEvent."""
        if not self._columns.id:
            if not otherwise:
                raise MalformedEvent(
                    "missing", "$", "neither the record's key nor a column has an id", 'set id = ["COLUMN"]'
                )
            return otherwise
        values = [cells.get(name) for name in self._columns.id]
        for name, value in zip(self._columns.id, values, strict=True):
            if value is None or value == "":
                raise MalformedEvent("missing", f"$.{name}", f"column {name} of the id is missing or null")
        return joined_id(values)

    def event(
        self,
        cells: Mapping[str, Any],
        event_id: str,
        ts: Any,
        keys: Container[str] = (),
        *,
        has_label: bool = True,
    ) -> bytes:
        """Return the event of a row, as JSON.

        Args:
            cells: of the row.
            event_id: its id.
            ts: its time unless a column has it.
            keys: columns of the record's key, which are the row's id and no features.
            has_label: whether the label stands in the event. Otherwise the event waits for it.
        """
        columns = self._columns
        features = {
            name: value
            for name, value in cells.items()
            if value is not None and name not in self._left_out and name not in keys
        }
        text = cells.get(columns.text) if columns.text else None
        if columns.ts and cells.get(columns.ts) is not None:
            ts = cells[columns.ts]
        event = assembled(
            event_id,
            "" if ts is None else ts,
            "" if text is None else _name(columns.text, text),
            (self.label(cells) or "") if has_label else "",
            features,
        )
        event.setdefault("features", {})  # without features, id and label are a label record
        return encoded(event)

    def label(self, cells: Mapping[str, Any]) -> str | None:
        """Return the label of a row; None if it is null, empty, or in no column. Raises MalformedEvent."""
        value = cells.get(self._columns.label) if self._columns.label else None
        return None if value is None or value == "" else _name(self._columns.label, value)

    def knows_label(self, cells: Mapping[str, Any]) -> bool:
        """Return whether the row has the label's column, with a value that is not left out as unchanged."""
        label = self._columns.label
        return label is not None and label in cells and cells[label] != UNAVAILABLE

    def label_record(self, event_id: str, label: str | None, ts: Any) -> bytes:
        """Return a label record, as JSON; without a label it retracts the source's label."""
        record = {"id": event_id, "label": label, "source": self._source}
        return encoded(record if ts is None else {**record, "ts": ts})

    def _flat(self, row: Mapping[str, Any], prefix: str, depth: int) -> Iterator[tuple[str, Any]]:
        for key, value in row.items():
            name = f"{prefix}{key}"
            if isinstance(value, Mapping) and depth < _DEEPEST:
                yield from self._flat(value, f"{name}.", depth + 1)
            elif isinstance(value, Mapping | list | tuple):
                if name not in self._columns.drop:
                    self._notice(name, "array")
                if name != self._columns.label:
                    yield name, None
            elif isinstance(value, float) and not math.isfinite(value):
                yield name, None
            elif value == UNAVAILABLE and name != self._columns.label:
                self._notice(name, "unavailable")
                yield name, None
            else:
                yield name, value


def joined_id(values: Sequence[Any]) -> str:
    """Return the id of one value, or of several: then as a JSON array, which separates them."""
    if len(values) == 1:
        return _name("id", values[0])
    return msgspec.json.encode(values).decode()


def key_id(key: Any) -> str | None:
    """Return the id in a decoded key: its value, or the values of its fields; None if it has none."""
    if isinstance(key, Mapping):
        values = [value for value in key.values() if value is not None]
        return joined_id(values) if values and len(values) == len(key) else None
    return None if key is None or key == "" or isinstance(key, list) else _name("key", key)


def _name(column: str | None, value: Any) -> str:
    try:
        return name_text(value)
    except (TypeError, ValueError) as error:
        raise MalformedEvent("wrong-type", f"$.{column}", str(error)) from error
