"""Lines of fastText as event records: ``__label__spam`` and the words of a text."""

from __future__ import annotations

import re
from collections.abc import Iterator

from streamnb.formats.event_source import EventSource

_LABEL = re.compile(r"__label__(?<![^ \t]__label__)([^ \t]*)[ \t]*")
_START = re.compile(rb"(?:\xef\xbb\xbf)?(?:[ \t]*\r?\n)*__label__[^\s]+[ \t]")


def is_fasttext(start: bytes) -> bool:
    """Return whether content begins with a label of fastText."""
    return _START.match(start) is not None


def fasttext_events(source: EventSource) -> Iterator[bytes]:
    """Yield the event of each line: its label, which may stand anywhere, and the rest as text.

    A line without a label is an event without one. A line of several labels becomes a dead letter.
    """
    for line in source.text_lines("\n"):
        stripped = line.strip(" \t\r\n")
        if not stripped:
            continue
        labels = _LABEL.findall(stripped)
        text = _LABEL.sub("", stripped).rstrip(" \t") if labels else stripped
        if len(labels) > 1:
            yield source.faulty("fasttext", "a line of several labels; an event has one label", stripped)
        elif labels == [""]:
            yield source.faulty("fasttext", "the label has no name", stripped)
        else:
            record = {"id": source.next_id(line), "text": text}
            yield source.encoded(record | {"label": labels[0]} if labels else record)
