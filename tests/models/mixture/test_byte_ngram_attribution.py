"""Log odds of byte n-grams go to words as a sum over each byte gives it, in plain Python."""

from __future__ import annotations

import random
import re
from collections import Counter
from itertools import accumulate

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamnb import BayesOptimalNB, Hypothesis
from streamnb.features.byte_ngrams import (
    LENGTH,
    bucket_each,
    byte_ngrams_of,
    find_byte_ngrams,
    max_byte_ngrams,
)
from streamnb.models.mixture.attribution_items import AttributionItems
from streamnb.models.mixture.byte_ngram_attribution import _Shares

BITS, FIRST = 9, 60
RECORDS = np.zeros((1 << BITS, 2), dtype=np.float32)
TEXTS = st.text(st.sampled_from("abcAB_1 .,\u00e9\u00c9\u03a3\u0130\u4e2d\U0001f600"), max_size=90)


def encoded(x):
    model = BayesOptimalNB({"t": "text", "s": "text", "k": "nominal"}, [Hypothesis()])
    found = model._encode([x], ["y"])
    kinds = model.statistics.counts.kinds
    grams = byte_ngrams_of(found, BITS, FIRST, int(max_byte_ngrams(found, FIRST).max(initial=0)))
    find_byte_ngrams(grams, found.batch, 0, RECORDS)
    return found, grams, AttributionItems.of_event(found.batch, kinds)


def shared(encoded, odds, parts, row):
    """Each byte of each text, and each word, one after the other."""
    batch, tokens = encoded.batch, encoded.tokens
    D, V = parts.batch.rows.size, parts.batch.value.size
    rest = {g: D + V + i for i, g in enumerate(parts.batch.item_group[D:].tolist())}
    begins, runs = [0, *tokens.item_ends.tolist()], {}
    for item in np.flatnonzero(~tokens.whole).tolist():
        begin, buckets = begins[item], np.empty(FIRST, dtype=np.int64)
        stop = min(begins[item + 1], begin + FIRST)
        n = bucket_each(tokens.text, begin, stop, batch.item_group[item], BITS, buckets)
        runs[item] = buckets[:n].tolist()
    times = Counter(bucket for found in runs.values() for bucket in found)
    for item, found in runs.items():
        by_byte = [0.0] * (len(found) + LENGTH - 1)
        for i, bucket in enumerate(found):
            for place in range(i, i + LENGTH):
                by_byte[place] += odds[bucket] / times[bucket] / LENGTH
        text = tokens.text[begins[item] : begins[item + 1]].tobytes().decode()
        at = [0, *accumulate(len(character.encode()) for character in text)]
        left = sum(by_byte)
        for i, word in enumerate(re.finditer(r"\w+", text)):
            start, stop = (at[place] for place in word.span())
            row[parts.of_token[tokens.item_tokens[item] + i]] += sum(by_byte[start:stop])
            left -= sum(by_byte[start:stop])
        row[rest[int(batch.item_group[item])]] += left


@settings(max_examples=200, deadline=None)
@given(texts=st.dictionaries(st.sampled_from(["t", "s"]), TEXTS, min_size=1), seed=st.integers(0, 9))
def test_words_have_the_sum_of_their_bytes(texts, seed):
    found, grams, parts = encoded({"k": "red", **texts})
    n = int(grams.n[0])
    if not n:
        return
    rng = random.Random(seed)
    odds = np.array([rng.uniform(-3.0, 3.0) for _ in range(n)])
    row, expected = np.zeros((2, parts.base.size + 1))
    _Shares(found, grams, parts).add_to(row, odds)
    shared(found, dict(zip(grams.buckets[:n].tolist(), odds.tolist(), strict=True)), parts, expected)
    assert row.tolist() == pytest.approx(expected.tolist(), rel=1e-9, abs=1e-9)
    assert row.sum() == pytest.approx(odds.sum(), rel=1e-9, abs=1e-9)


def test_parts_are_named_in_any_order():
    x = {"t": "win cash win", "k": "red", "n": 2.0}
    model = BayesOptimalNB({"t": "text", "k": "nominal"}, [Hypothesis()])
    found = model._encode([x], ["y"])
    parts = AttributionItems.of_event(found.batch, model.statistics.counts.kinds)
    every = parts.named(x, found, model.statistics.layout, range(parts.base.size))
    assert sorted(every, key=repr) == [("k", "red"), ("n", 2.0), ("t", ""), ("t", "cash"), ("t", "win")]
    chosen = [3, 0, 4]
    assert parts.named(x, found, model.statistics.layout, chosen) == [every[i] for i in chosen]
