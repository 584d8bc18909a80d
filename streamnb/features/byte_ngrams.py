"""Byte n-grams: the distinct runs of four bytes of a text, as features in addition to its words.

They are taken from the first 2,000 bytes as sent, with capitals, punctuation and spaces. (A text that the
tokenizer has lower-cased as a whole, see there, is taken in lower case.) A run is identified by its bucket, a
hash of its bytes and its attribute; colliding runs are one feature. There are no chains that a sender could
make long, so the hash has no secret and states may hold buckets.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from streamnb.features.encoded_batch import Batch, Encoded
from streamnb.kernels.array_types import Hashes, Ints
from streamnb.kernels.intrinsics import prefetch
from streamnb.kernels.jit import inlined, kernel
from streamnb.kernels.structs import struct_type
from streamnb.values.type_aliases import Codes, Flags

FIRST = 2000
"""Number of bytes of a text that are read by default: later ones cost more than they improve predictions."""
LENGTH = 4
_MULTIPLY, _FINISH = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xD6E8FEB86659FD93)
_HALF, _ALL = np.uint64(32), np.uint64(64)


@struct_type
class ByteNgrams(NamedTuple):
    """The byte n-grams of one event of a batch, chosen by `find_byte_ngrams`.

    Attributes:
        text: uint8, all texts of the batch.
        item_ends: int64, end of each item in `text`.
        whole: bool, which items are not texts.
        limits: int64[2], bits of a bucket's number, and how many bytes of a text are read.
        seen: uint64[buckets / 64], zero.
        n: int64[1], the number of n-grams.
        buckets: int32, distinct buckets.
        groups: int32, the attribute of each; equal ones adjoin.
    """

    text: Any
    item_ends: Ints
    whole: Flags
    limits: Ints
    seen: Hashes
    n: Ints
    buckets: Codes
    groups: Codes

    @classmethod
    def none(cls) -> ByteNgrams:
        """Return the arrays of events without n-grams."""
        nothing = np.zeros(0, dtype=np.int64)
        text, seen = np.frombuffer(b"", dtype=np.uint8), np.zeros(0, dtype=np.uint64)
        codes = np.zeros((2, 0), dtype=np.int32)
        return cls(text, nothing, np.zeros(0, dtype=np.bool_), np.zeros(2, dtype=np.int64), seen,
                   np.zeros(1, dtype=np.int64), *codes)  # fmt: skip

    @classmethod
    def with_capacity(cls, bits: int, first: int, most: int) -> ByteNgrams:
        """Return room for `most` n-grams of one event, without its texts; see `byte_ngrams_of`."""
        seen = np.zeros(1 << (bits - 6), dtype=np.uint64)
        codes = np.empty((2, most), dtype=np.int32)
        return cls.none()._replace(
            limits=np.array([bits, first]), seen=seen, buckets=codes[0], groups=codes[1]
        )


@inlined
def _before(text: Any, begin: Any) -> Any:
    """Return the run whose `_next` is the four bytes from `begin` on."""
    run = np.uint64(text[begin]) << np.uint64(8) | np.uint64(text[begin + 1]) << np.uint64(16)
    return run | np.uint64(text[begin + 2]) << np.uint64(24)


@inlined
def _next(run: Any, byte: Any) -> Any:
    return run >> np.uint64(8) | np.uint64(byte) << np.uint64(24)


@inlined
def _bucket(run: Any, group: Any, bits: Any) -> Any:
    mixed = (run | np.uint64(group) << _HALF) * _MULTIPLY
    mixed ^= mixed >> _HALF
    return (mixed * _FINISH) >> (_ALL - np.uint64(bits))


@kernel
def bucket_each(text: Any, begin: int, stop: int, group: int, bits: int, buckets: Ints) -> int:
    """Fill in the bucket of every run of ``text[begin:stop]``, and return their number."""
    n = max(0, stop - begin - LENGTH + 1)
    run = _before(text, begin) if n else np.uint64(0)
    for i in range(n):
        run = _next(run, text[begin + LENGTH - 1 + i])
        buckets[i] = _bucket(run, group, bits)
    return n


@kernel
def find_byte_ngrams(grams: ByteNgrams, batch: Batch, e: int, records: Any) -> None:
    """Fill in the n-grams of event e, and prefetch their records.

    `records` has a row for each bucket. It is larger than caches, and rows are read in no predictable order.
    """
    width = np.uint64(records.shape[1])
    seen, buckets, groups, text = grams.seen, grams.buckets, grams.groups, grams.text
    n = np.uint64(0)  # unsigned, so that compiled indexing needs no check for negative numbers
    bits, read = grams.limits
    grams.n[0] = 0
    if buckets.size == 0:
        return
    for item in range(batch.event_items[e], batch.event_items[e + 1]):
        begin, group = grams.item_ends[item - 1] if item else 0, batch.item_group[item]
        stop = min(grams.item_ends[item], begin + read)
        if grams.whole[item] or stop - begin < LENGTH:
            continue
        run = _before(text, begin)
        for i in range(begin + LENGTH - 1, stop):
            run = _next(run, text[np.uint64(i)])
            bucket = _bucket(run, group, bits)
            word = bucket >> np.uint64(6)
            before = seen[word]
            marked = before | np.uint64(1) << (bucket & np.uint64(63))
            seen[word] = marked
            prefetch(records, np.int64(bucket * width))
            prefetch(records, np.int64(bucket * width + width - np.uint64(1)))
            buckets[n], groups[n] = bucket, group  # overwritten by the next unless it is new
            n += np.uint64(marked != before)
    for j in range(n):
        seen[np.uint64(buckets[j]) >> np.uint64(6)] = 0
    grams.n[0] = n


def max_byte_ngrams(encoded: Encoded, first: int) -> Ints:
    """Return for each event the maximum number of n-grams in the first bytes of its texts."""
    batch, tokens = encoded.batch, encoded.tokens
    if tokens is None:
        return np.zeros(batch.label.size, dtype=np.int64)
    sizes, ends = tokens.item_ends.copy(), np.zeros(tokens.item_ends.size + 1, dtype=np.int64)
    sizes[1:] -= tokens.item_ends[:-1]
    sizes = np.maximum(np.minimum(sizes, first) - LENGTH + 1, 0)
    sizes[tokens.whole] = 0
    np.cumsum(sizes, out=ends[1:])
    ends = ends[batch.event_items]
    return ends[1:] - ends[:-1]


def byte_ngrams_of(encoded: Encoded, bits: int, first: int, most: int) -> ByteNgrams:
    """Return arrays for the n-grams of one event at a time.

    Args:
        encoded: the events.
        bits: binary logarithm of the number of buckets, 6 to 31.
        first: how many bytes of a text are read.
        most: maximum number of n-grams of an event.
    """
    tokens = encoded.tokens
    if tokens is None or not most:
        return ByteNgrams.none()
    room = ByteNgrams.with_capacity(bits, first, most)
    return room._replace(text=tokens.text, item_ends=tokens.item_ends, whole=tokens.whole)
