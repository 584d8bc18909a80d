"""Summary of the malformed records of a file."""

from __future__ import annotations

from typing import Any

from streamnb.errors import MalformedEvent
from streamnb.events import Event
from streamnb.formats.codec import decode_event
from streamnb.formats.event_schema import EventSchema
from streamnb.reports.text_columns import table

_MOST_SHOWN = 10


class RejectionCounts:
    """Dead letters by reason and path, of events that were read by `schema`."""

    def __init__(self, schema: EventSchema) -> None:
        self._schema = schema
        self._found: dict[tuple[str, str], list[int]] = {}  # -> how many, the first row
        self._details: dict[tuple[str, str], str] = {}

    def add(self, reason: str, path: str, row: int, raw: bytes) -> None:
        """Count a dead letter: reason, path of the value at fault, 0-based row, and its bytes.

        The detail of the first row of each reason and path is kept, if decoding `raw` again gives it.
        """
        fault = reason, path
        entry = self._found.setdefault(fault, [0, row])
        entry[0] += 1
        if entry[0] == 1 or row < entry[1]:
            entry[1] = row
            self._details[fault] = _detail(raw, self._schema, fault)

    def decode(self, row: int, raw: bytes) -> Event | None:
        """Return the event of a row; None if it is malformed, which is counted."""
        try:
            return decode_event(raw, self._schema)
        except MalformedEvent as error:
            self.add(error.reason, error.path, row, raw)
            return None

    def rows(self) -> list[dict[str, Any]]:
        """Return the ten most frequent: reason, path, count, first_row, detail of that row."""
        ranked = sorted(self._found.items(), key=lambda item: (-item[1][0], item[1][1]))
        return [
            {
                "reason": fault[0],
                "path": fault[1],
                "count": count,
                "first_row": row,
                "detail": self._details[fault],
            }
            for fault, (count, row) in ranked[:_MOST_SHOWN]
        ]

    def print(self) -> None:
        """Print the same as text; print nothing if empty."""
        rows = self.rows()
        if rows:
            header = ("reason", "path", "count", "first row", "detail")
            print("\ndead letters")
            print(table([tuple(row.values()) for row in rows], header))
        if (more := len(self._found) - len(rows)) > 0:
            print(f"and {more:,} more combinations of reason and path")


def _detail(raw: bytes, schema: EventSchema, fault: tuple[str, str]) -> str:
    """Return the expectation and finding of a dead letter; empty if its bytes show another fault, or none.

    A dead letter of a large record contains only its beginning.
    """
    try:
        decode_event(raw, schema)
    except MalformedEvent as error:
        return error.detail if (error.reason, error.path) == fault else ""
    return ""
