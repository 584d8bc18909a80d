"""Dead letters as records: what could not be read, why, and where it lies. Pure: bytes and values in and out.

A dead letter must be writable whatever came in: a record that fills its topic to the last byte leaves no
room for headers, and a learner that cannot refuse a record cannot go on. So there are limits, and what they
cost is stated in the headers.
"""

from __future__ import annotations

from streamnb.events import DeadLetter

_LARGEST = 960 << 10  # below Kafka's usual limit of 1 MiB a record, by as much as key and headers may take
_RESERVE = 64 << 10
_MOST_KEY = 16 << 10
_MOST_HEADERS = 16 << 10

Headers = tuple[tuple[str, bytes], ...]


def largest_body(max_bytes: int) -> int:
    """The most bytes of a refused record that are kept, where events may have `max_bytes`."""
    return min(max_bytes, max(_LARGEST, max_bytes - _RESERVE))


def dead_letter_record(letter: DeadLetter, max_bytes: int) -> tuple[bytes | None, bytes, Headers]:
    """Key, value and headers of a dead letter.

    The value is the record's own, the headers say why it was refused and whence it came, and the record's own
    headers follow, each as ``original.NAME``. Stated where it is so: ``truncated`` is the size of a value of
    which only the first bytes are kept, ``key-dropped`` and ``headers-dropped`` the bytes of what was too
    large to be kept.
    """
    headers = [
        ("reason", letter.reason.encode()),
        ("path", letter.path.encode()),
        ("topic", letter.topic.encode()),
        ("partition", str(letter.partition).encode()),
        ("offset", str(letter.offset).encode()),
        *((name, told.encode()) for name, told in letter.about),
    ]
    key, value, most = letter.key, letter.value, largest_body(max_bytes)
    if len(value) > most:
        headers.append(("truncated", str(len(value)).encode()))
    if key is not None and len(key) > _MOST_KEY:
        headers.append(("key-dropped", str(len(key)).encode()))
        key = None
    original = [(f"original.{name}", content) for name, content in letter.headers]
    size = sum(len(name.encode(errors="surrogatepass")) + len(content) for name, content in original)
    if size > _MOST_HEADERS:
        headers.append(("headers-dropped", str(size).encode()))
        original = []
    return key, value[:most], (*headers, *original)
