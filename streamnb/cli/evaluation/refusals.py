"""What is wrong with the records of a file, at a glance."""

from __future__ import annotations

from typing import Any

from streamnb.cli.reports.columns import table
from streamnb.errors import MalformedEvent
from streamnb.events import Event
from streamnb.wire.codec import decode_event
from streamnb.wire.schema import EventSchema

_MOST_SHOWN = 10


class Tally:
    """Dead letters by reason and path."""

    def __init__(self) -> None:
        self._found: dict[tuple[str, str], list[int]] = {}  # -> how many, the first row

    def add(self, reason: str, path: str, row: int) -> None:
        """Count one; `row` is its 0-based number in the file."""
        entry = self._found.setdefault((reason, path), [0, row])
        entry[0] += 1
        entry[1] = min(entry[1], row)

    def decode(self, row: int, raw: bytes, schema: EventSchema) -> Event | None:
        """The event of a row; None where it is none, which is counted."""
        try:
            return decode_event(raw, schema)
        except MalformedEvent as error:
            self.add(error.reason, error.path, row)
            return None

    def rows(self) -> list[dict[str, Any]]:
        """The most frequent ones first, ten at most: reason, path, count, first_row."""
        ranked = sorted(self._found.items(), key=lambda item: (-item[1][0], item[1][1]))
        return [
            {"reason": reason, "path": path, "count": count, "first_row": row}
            for (reason, path), (count, row) in ranked[:_MOST_SHOWN]
        ]

    def print(self) -> None:
        """The same as text; nothing where there are none."""
        rows = self.rows()
        if rows:
            print("\ndead letters")
            print(table([tuple(row.values()) for row in rows], ("reason", "path", "count", "first row")))
        if (more := len(self._found) - len(rows)) > 0:
            print(f"and {more:,} more combinations of reason and path")
