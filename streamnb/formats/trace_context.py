"""The W3C trace context of a record: its header `traceparent`."""

from __future__ import annotations

import re

TRACEPARENT = "traceparent"
_VALID = re.compile(rb"(?!ff)[0-9a-f]{2}-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-([0-9a-f]{2})")

Headers = tuple[tuple[str, bytes], ...]


def trace_headers(headers: Headers) -> Headers:
    """Return the first header `traceparent`, unchanged, or nothing if it is absent or invalid."""
    content = next((content for name, content in headers if name == TRACEPARENT), b"")
    return ((TRACEPARENT, content),) if _VALID.fullmatch(content) else ()


def span_ids(headers: Headers) -> tuple[int, int, int] | None:
    """Return trace id, span id and flags of the header `traceparent`; None if there is none that is valid."""
    for _, content in trace_headers(headers):
        if found := _VALID.fullmatch(content):
            trace, span, flags = (int(part, 16) for part in found.groups())
            return trace, span, flags
    return None
