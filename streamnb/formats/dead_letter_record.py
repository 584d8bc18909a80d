"""Dead letters as records: the unreadable record, the reason, and its position. Pure functions of values.

A dead letter must always be writable: a record that fills its topic to the last byte leaves no capacity for
headers, and a learner that cannot reject a record cannot continue. So parts are limited, and the headers
state what was dropped.
"""

from __future__ import annotations

from streamnb.events import DeadLetter

USUAL_LIMIT = 1000 << 10
"""Minimum record size of a topic that was created for dead letters of events of a megabyte."""
_LARGEST = 960 << 10  # below Kafka's default limit of 1 MiB a record, minus the limits of key and headers
_RESERVE = 64 << 10
_MOST_KEY = 16 << 10
_MOST_HEADERS = 16 << 10
_BESIDE_A_BODY = 40 << 10  # bytes of key and headers

Headers = tuple[tuple[str, bytes], ...]


def largest_body(max_bytes: int) -> int:
    """Return the maximum number of bytes that are kept of a rejected record, for events of `max_bytes`."""
    return min(max_bytes, max(_LARGEST, max_bytes - _RESERVE))


def letter_limit(max_bytes: int, letter_bytes: int, accepted: int | None) -> int:
    """Return the `limit` of `dead_letter_record`.

    Args:
        max_bytes: maximum size of an event.
        letter_bytes: the configured limit, or 0.
        accepted: maximum size of a record of the topic of dead letters, or None.
    """
    if (
        accepted is None
        or accepted >= largest_body(max_bytes) + _BESIDE_A_BODY
        or 0 < letter_bytes <= accepted
    ):
        return letter_bytes
    return accepted


def dead_letter_record(
    letter: DeadLetter, max_bytes: int, limit: int = 0
) -> tuple[bytes | None, bytes, Headers]:
    """Return key, value and headers of a dead letter.

    The value is the record's own. The headers have the reason and position, and then the record's own
    headers, each as ``original.NAME``. Further headers state what was dropped: ``truncated`` is the original
    size of a shortened value, ``key-dropped`` and ``headers-dropped`` are the sizes of parts that were too
    large.

    Args:
        letter: the dead letter.
        max_bytes: maximum size of an event.
        limit: maximum size of a record if the topic accepts less than usual, else 0.
    """
    most, most_key, most_headers = largest_body(max_bytes), _MOST_KEY, _MOST_HEADERS
    if limit:
        most, most_key, most_headers = min(most, limit // 2), limit // 8, limit // 8
    headers = [
        ("reason", letter.reason.encode()),
        ("path", letter.path.encode()),
        ("topic", letter.topic.encode()),
        ("partition", str(letter.partition).encode()),
        ("offset", str(letter.offset).encode()),
        *((name, text.encode()) for name, text in letter.about),
    ]
    key, value = letter.key, letter.value
    if len(value) > most:
        headers.append(("truncated", str(len(value)).encode()))
    if key is not None and len(key) > most_key:
        headers.append(("key-dropped", str(len(key)).encode()))
        key = None
    original = [(f"original.{name}", content) for name, content in letter.headers]
    size = sum(len(name.encode(errors="surrogatepass")) + len(content) for name, content in original)
    if size > most_headers:
        headers.append(("headers-dropped", str(size).encode()))
        original = []
    return key, value[:most], (*headers, *original)
