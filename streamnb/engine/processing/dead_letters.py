"""Dead letters: rejected records, and events whose prediction cannot be published."""

from __future__ import annotations

from streamnb.engine.ports import NewRecord, Record
from streamnb.engine.settings import Settings
from streamnb.events import UNPUBLISHED, DeadLetter
from streamnb.formats.dead_letter_record import dead_letter_record


def dead_letter(
    settings: Settings, record: Record, reason: str, path: str, about: tuple[tuple[str, str], ...] = ()
) -> NewRecord:
    """Return the dead letter of a record."""
    at = *record.partition, record.offset
    letter = DeadLetter(record.value, reason, path, *at, record.key, record.headers, about)
    made = dead_letter_record(letter, settings.schema.max_bytes, settings.letter_bytes)
    return NewRecord(settings.dead_letters, *made)


def unpublished(
    settings: Settings, output: NewRecord, record: Record, now: float, journal: int | None
) -> NewRecord:
    """Return the dead letter of an event whose prediction `output` is too large."""
    remedy = f"raise predictions.max_bytes, and max.message.bytes of topic {settings.predictions}"
    about = (
        ("id", (output.key or b"").decode()),
        ("ts", repr(now)),
        ("size", str(len(output.key or b"") + len(output.value))),
        ("limit", str(settings.max_bytes)),
        ("remedy", remedy),
        *([] if journal is None else [("journal", str(journal))]),
    )
    return dead_letter(settings, record, UNPUBLISHED, "$", about)
