"""Two multisets of keys, compared in constant memory."""

from __future__ import annotations

from hashlib import blake2b

_BUCKETS = 4096


def _hashed(key: bytes) -> tuple[int, int]:
    digest = int.from_bytes(blake2b(key, digest_size=16).digest(), "little")
    return digest % _BUCKETS, digest


def bucket_of(key: bytes) -> int:
    """Return the bucket of a key."""
    return _hashed(key)[0]


class Balance:
    """Comparison of two multisets in constant memory, with the numbers of expected and found keys.

    A key's hash is added if found, and subtracted if expected. A bucket with different keys sums to zero with
    a probability of about 2^-116.
    """

    def __init__(self) -> None:
        self.expected = self.found = 0
        self._counts = [0] * _BUCKETS
        self._sums = [0] * _BUCKETS

    def expect(self, key: bytes) -> None:
        """Count an expected key."""
        self.expected += 1
        self._add(key, -1)

    def find(self, key: bytes) -> None:
        """Count a found key."""
        self.found += 1
        self._add(key, 1)

    def uneven(self) -> list[int]:
        """Return the buckets that differ."""
        return [b for b in range(_BUCKETS) if self._counts[b] or self._sums[b]]

    def _add(self, key: bytes, times: int) -> None:
        bucket, digest = _hashed(key)
        self._counts[bucket] += times
        self._sums[bucket] += times * digest
