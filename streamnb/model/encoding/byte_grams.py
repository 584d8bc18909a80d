"""Runs of four bytes of a text, each different one once: what a text looks like, beside what it says.

Of the first 3,000 bytes, as they were sent: with capitals, punctuation and spaces. (Only a text that the
tokenizer has lower-cased as a whole, see there, is taken as it left it.) A run is known by its bucket, a
hash of its bytes and its attribute; two that meet in one bucket are one. Nothing is searched for, so that
nobody can make a chain, and the hash has no secret: states hold it.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from streamnb.compiler.bundles import bundle
from streamnb.model.attributes.signatures import Codes
from streamnb.model.compiled.arrays import Ints
from streamnb.model.compiled.jit import inlined, kernel
from streamnb.model.encoding.batch import Batch, Encoded

FIRST = 3000
"""So many bytes of a text are read."""
LENGTH = 4
_MULTIPLY, _FINISH = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xD6E8FEB86659FD93)
_HALF, _ALL = np.uint64(32), np.uint64(64)


@bundle
class ByteGrams(NamedTuple):
    """The runs of n events.

    Attributes:
        ends: int64[n + 1], those of event e are ``buckets[ends[e]]`` to ``buckets[ends[e + 1]]``.
        buckets: int32, different ones within an event.
        groups: int32, the attribute of each; those of one attribute adjoin within an event.
    """

    ends: Ints
    buckets: Codes
    groups: Codes

    @classmethod
    def none(cls, events: int) -> ByteGrams:
        """Of so many events."""
        return cls(np.zeros(events + 1, dtype=np.int64), *np.zeros((2, 0), dtype=np.int32))

    @property
    def most(self) -> int:
        """The most that an event has."""
        return int(np.diff(self.ends).max(initial=0))


@inlined
def _bucket(text: Any, i: int, group: Any, bits: Any) -> Any:
    """That of the run that begins at byte i."""
    run = np.uint64(text[i]) | np.uint64(text[i + 1]) << np.uint64(8)
    run |= np.uint64(text[i + 2]) << np.uint64(16) | np.uint64(text[i + 3]) << np.uint64(24)
    mixed = (run | np.uint64(group) << _HALF) * _MULTIPLY
    mixed ^= mixed >> _HALF
    return np.int64((mixed * _FINISH) >> (_ALL - np.uint64(bits)))


@kernel
def bucket_each(text: Any, begin: int, stop: int, group: int, bits: int, buckets: Ints) -> int:
    """Fill in the bucket of every run of ``text[begin:stop]``; how many there are."""
    n = 0
    for i in range(begin, min(stop, begin + FIRST) - LENGTH + 1):
        buckets[n] = _bucket(text, i, group, bits)
        n += 1
    return n


@kernel
def _fill(text: Any, item_ends: Any, whole: Any, batch: Batch, bits: int, seen: Any, out: ByteGrams) -> int:
    """Fill in the runs of all events; how many there are.

    `seen` uint64[buckets / 64] is zero, and stays so.
    """
    ends, buckets, groups = out.ends, out.buckets, out.groups
    n = 0
    for e in range(batch.label.size):
        for item in range(batch.event_items[e], batch.event_items[e + 1]):
            if whole[item]:
                continue
            begin, group = item_ends[item - 1] if item else 0, batch.item_group[item]
            for i in range(begin, min(item_ends[item], begin + FIRST) - LENGTH + 1):
                bucket = _bucket(text, i, group, bits)
                word, bit = bucket >> 6, np.uint64(1) << np.uint64(bucket & 63)
                if not seen[word] & bit:
                    seen[word] |= bit
                    buckets[n], groups[n] = bucket, group
                    n += 1
        for j in range(ends[e], n):
            seen[buckets[j] >> 6] = 0
        ends[e + 1] = n
    return n


def grams_of(encoded: Encoded, bits: int) -> ByteGrams:
    """The runs of events, in 2^bits buckets, 6 to 31 bits."""
    batch, tokens = encoded.batch, encoded.tokens
    if tokens is None or tokens.whole.all():
        return ByteGrams.none(batch.label.size)
    sizes = np.diff(tokens.item_ends, prepend=0)[~tokens.whole]
    most = int(np.minimum(sizes, FIRST).sum())
    out = ByteGrams(np.zeros(batch.label.size + 1, dtype=np.int64), *np.empty((2, most), dtype=np.int32))
    seen = np.zeros(1 << (bits - 6), dtype=np.uint64)
    n = _fill(tokens.text, tokens.item_ends, tokens.whole, batch, bits, seen, out)
    return ByteGrams(out.ends, out.buckets[:n], out.groups[:n])
