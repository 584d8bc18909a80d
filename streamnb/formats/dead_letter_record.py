"""Dead letters as records: what could not be read, why, and where it lies. Pure: bytes and values in and out.

A dead letter must be writable whatever came in: a record that fills its topic to the last byte leaves no
room for headers, and a learner that cannot refuse a record cannot go on. So there are limits, and what they
cost is stated in the headers.
"""

from __future__ import annotations

from streamnb.events import DeadLetter

USUAL_LIMIT = 1000 << 10
"""Bytes that a topic takes at least, where it was made for dead letters of events of a megabyte."""
_LARGEST = 960 << 10  # below Kafka's usual limit of 1 MiB a record, by as much as key and headers may take
_RESERVE = 64 << 10
_MOST_KEY = 16 << 10
_MOST_HEADERS = 16 << 10

Headers = tuple[tuple[str, bytes], ...]


def largest_body(max_bytes: int) -> int:
    """The most bytes of a refused record that are kept, where events may have `max_bytes`."""
    return min(max_bytes, max(_LARGEST, max_bytes - _RESERVE))


def dead_letter_record(
    letter: DeadLetter, max_bytes: int, limit: int = 0
) -> tuple[bytes | None, bytes, Headers]:
    """Key, value and headers of a dead letter.

    The value is the record's own, the headers say why it was refused and whence it came, and the record's own
    headers follow, each as ``original.NAME``. Stated where it is so: ``truncated`` is the size of a value of
    which only the first bytes are kept, ``key-dropped`` and ``headers-dropped`` the bytes of what was too
    large to be kept.

    Args:
        letter: what is to be written.
        max_bytes: of an event.
        limit: of a record, where the topic takes less than usual; 0 is what is usual.
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
        *((name, told.encode()) for name, told in letter.about),
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
