"""Attribution of the log odds of byte n-gram hypotheses to words.

An n-gram counts once however often it occurs: its log odds are divided by its number of occurrences, and at
each occurrence a quarter goes to each of its four bytes. A word has the sum of its bytes; bytes between words
belong to the item of the text without its words.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from itertools import accumulate

import numpy as np

from streamnb.features.byte_ngrams import LENGTH, ByteNgrams, bucket_each, find_byte_ngrams
from streamnb.features.encoded_batch import Encoded
from streamnb.kernels.array_types import Floats, Ints
from streamnb.models.mixture.adaptive_state import AdaptiveState
from streamnb.models.mixture.attribution_items import AttributionItems
from streamnb.models.softmax.byte_ngram_table import gram_log_odds, weigh_grams
from streamnb.models.softmax.feature_table import COUNTS
from streamnb.models.softmax.rare_class_shrinkage import shrunk_log_odds


def run_log_odds(
    encoded: Encoded,
    grams: ByteNgrams,
    learners: AdaptiveState,
    parts: AttributionItems,
    classes: tuple[int, int],
    known: Ints | None,
) -> Floats:
    """Return float64[learners, n]: what each part adds to the log odds by n-gram learner; the bias is last.

    `grams` are buffers; `classes` is (class, reference class); `known` are class weights if new classes are
    doubted.
    """
    one, other = classes
    tables, bias = learners.grams.tables, learners.byte_bias
    found = np.zeros((len(bias), parts.base.size + 1))
    found[:, -1] = bias[:, 0, one] - bias[:, 0, other]
    is_cautious = known is not None
    if known is not None:
        found[:, -1] += shrunk_log_odds(known, one, other)
    values, odds = np.zeros((2, grams.buckets.size))
    find_byte_ngrams(grams, encoded.batch, 0, tables.records)
    n = grams.n[0]
    if not n:
        return found
    told = np.empty((len(bias), tables.events.shape[1] - COUNTS))
    scale = weigh_grams(grams, tables, is_cautious, values, told)
    for g, row in enumerate(found):
        gram_log_odds(g, grams, tables, is_cautious, scale * values, one, other, odds)
        by_bucket = dict(zip(grams.buckets[:n].tolist(), odds[:n].tolist(), strict=True))
        _share(encoded, by_bucket, grams.limits.tolist(), parts, row)
    return found


def _share(
    encoded: Encoded, odds: dict[int, float], limits: Sequence[int], parts: AttributionItems, row: Floats
) -> None:
    batch, tokens = encoded.batch, encoded.tokens
    assert tokens is not None  # noqa: S101  there are runs
    D, V = parts.batch.rows.size, parts.batch.value.size
    rest = {g: D + V + i for i, g in enumerate(parts.batch.item_group[D:].tolist())}
    texts = np.flatnonzero(~tokens.whole).tolist()
    begins = [0, *tokens.item_ends.tolist()]
    bits, first = limits
    runs = {item: np.empty(first, dtype=np.int64) for item in texts}
    for item in texts:
        group, begin = batch.item_group[item], begins[item]
        n = bucket_each(tokens.text, begin, min(begins[item + 1], begin + first), group, bits, runs[item])
        runs[item] = runs[item][:n]
    times = Counter(bucket for found in runs.values() for bucket in found.tolist())
    for item in texts:
        shares = np.array([odds[b] / times[b] / LENGTH for b in runs[item].tolist()])
        until = np.cumsum(np.convolve(shares, np.ones(LENGTH))) if shares.size else np.zeros(1)
        of_text = float(until[-1])
        text = tokens.text[begins[item] : begins[item + 1]].tobytes().decode()
        at = [0, *accumulate(len(character.encode()) for character in text)]
        first = tokens.item_tokens[item]
        for i, word in enumerate(re.finditer(r"\w+", text)):
            start, stop = (min(at[place], until.size) for place in word.span())
            told = (until[stop - 1] if stop else 0.0) - (until[start - 1] if start else 0.0)
            row[parts.of_token[first + i]] += told
            of_text -= told
        row[rest[int(batch.item_group[item])]] += of_text
