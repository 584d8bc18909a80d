"""Attribution of the log odds of byte n-gram hypotheses to words.

An n-gram counts once however often it occurs: its log odds are divided by its number of occurrences, and at
each occurrence a quarter goes to each of its four bytes. A word has the sum of its bytes; bytes between words
belong to the item of the text without its words.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from streamnb.features.byte_ngrams import LENGTH, ByteNgrams, bucket_each
from streamnb.features.encoded_batch import Batch
from streamnb.features.tokenizer import mark_words
from streamnb.kernels.array_types import Ints
from streamnb.kernels.jit import inlined, kernel
from streamnb.kernels.vector_kernels import fill


@inlined
def _place_of(bucket: Any, buckets: Any, places: Any) -> Any:
    """Return the place of a bucket, or the free place that ends its chain; the bucket is a hash already."""
    mask = np.int64(places.size - 1)
    place = np.int64(bucket) & mask
    while places[place] >= 0 and buckets[places[place]] != bucket:
        place = (place + 1) & mask
    return place


@kernel
def find_runs(batch: Batch, e: int, grams: ByteNgrams, places: Any, runs: Ints, times: Any) -> None:
    """Fill the n-gram at each byte of the texts of event e, text after text, and occurrences of n-grams.

    `places` (power of two, more than the n-grams) is scratch.
    """
    fill(places, -1)
    for j in range(grams.n[0]):
        places[_place_of(grams.buckets[j], grams.buckets, places)] = j
        times[j] = 0.0
    at, (bits, read) = 0, grams.limits
    for item in range(batch.event_items[e], batch.event_items[e + 1]):
        begin = grams.item_ends[item - 1] if item else 0
        stop = min(grams.item_ends[item], begin + read)
        if grams.whole[item]:
            continue
        own = runs[at:]
        group: Any = np.int64(batch.item_group[item])
        n = bucket_each(grams.text, begin, stop, group, bits, own)
        for i in range(n):
            own[i] = places[_place_of(own[i], grams.buckets, places)]
            times[own[i]] += 1.0
        at += n


@kernel
def share_runs(batch: Batch, e: int, grams: ByteNgrams, told: Any, items: Any) -> None:
    """Add the log odds `told` of each n-gram of event e to its parts, see `attribution_parts`."""
    first, end = batch.event_items[e], batch.event_items[e + 1]
    begins, odds, of_byte = batch.item_rows[first], items.parts.odds, items.of_byte
    rest = batch.item_rows[end] - begins + batch.event_values[e + 1] - batch.event_values[e]
    at, read, of_group = 0, grams.limits[1], first
    for item in range(first, end):
        if batch.item_group[item] != batch.item_group[of_group]:
            of_group = item
        begin = grams.item_ends[item - 1] if item else 0
        n = min(grams.item_ends[item], begin + read) - begin
        if grams.whole[item] or n < LENGTH:
            continue
        mark_words(grams.text, begin, grams.item_ends[item], n, items.characters, of_byte)
        token = batch.item_rows[item] - begins
        for i in range(n):
            is_word = of_byte[i] >= 0
            of_byte[i] = items.of_token[token + of_byte[i]] if is_word else rest + of_group - first
        for i in range(n - LENGTH + 1):
            gram = items.runs[at + i]
            share = told[gram] / items.times[gram] / LENGTH
            for byte in range(i, i + LENGTH):
                odds[of_byte[byte]] += share
        at += n - LENGTH + 1
