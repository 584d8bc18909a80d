"""Log odds of byte n-grams go to words as a sum over each byte gives it, in plain Python."""

from __future__ import annotations

import random
from collections import Counter
from itertools import accumulate

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamnb import BayesOptimalNB, ByteSoftmax, Hypothesis
from streamnb.features.byte_ngrams import (
    LENGTH,
    bucket_each,
    byte_ngrams_of,
    find_byte_ngrams,
    max_byte_ngrams,
)
from streamnb.features.plain_words import token_spans
from streamnb.models.forest.path_attribution import ReadPaths
from streamnb.models.interface.part_names import PartNames
from streamnb.models.mixture.adaptive_state import AdaptiveScratch
from streamnb.models.mixture.attribution_items import AttributionItems
from streamnb.models.mixture.byte_ngram_attribution import find_runs, share_runs
from streamnb.models.one_dependence.pair_attribution import ReadPairs

BITS, FIRST = 9, 60
RECORDS = np.zeros((1 << BITS, 2), dtype=np.float32)
TEXTS = st.text(
    st.sampled_from("abcAB_1 .,\u00e9\u00c9\u03a3\u0130\u4e2d\u0e01\u0e34\u0301\U0001f600"), max_size=90
)


def cut_before(span, following):
    """Return the bytes of a token that do not belong to the next one: pairs of characters overlap."""
    start, stop = span
    return start, min(stop, following)


def encoded(xs):
    model = BayesOptimalNB({"t": "text", "s": "text", "k": "nominal"}, [Hypothesis(), ByteSoftmax()])
    found = model._encode(xs, ["y"] * len(xs))
    grams = byte_ngrams_of(found, BITS, FIRST, int(max_byte_ngrams(found, FIRST).max(initial=0)))
    scratch = AdaptiveScratch.with_capacity(model._plan, 1, 0, grams.buckets.size)
    items = AttributionItems.with_capacity(
        found, model._plan, scratch, (ReadPairs.none(), ReadPaths.none()), 1, (0, 0)
    )
    return found, grams, items


def shared(encoded, e, odds, row):
    """Each byte of each text, and each word, one after the other."""
    batch, tokens = encoded.batch, encoded.tokens
    first, stop = batch.event_items[e : e + 2].tolist()
    begin_tokens = int(batch.item_rows[first])
    rest = {}
    for i in range(first, stop):
        rest.setdefault(int(batch.item_group[i]), int(batch.item_rows[stop]) - begin_tokens + i - first)
    begins, runs = [0, *tokens.item_ends.tolist()], {}
    for item in [i for i in range(first, stop) if not tokens.whole[i]]:
        begin, buckets = begins[item], np.empty(FIRST, dtype=np.int64)
        end = min(begins[item + 1], begin + FIRST)
        n = bucket_each(tokens.text, begin, end, batch.item_group[item], BITS, buckets)
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
        spans = [(at[start], at[stop]) for start, stop, _ in token_spans(text)]
        follows = [start for start, _ in spans[1:]] + [at[-1]]
        for i, (start, stop) in enumerate(map(cut_before, spans, follows)):
            row[int(tokens.item_tokens[item]) - begin_tokens + i] += sum(by_byte[start:stop])
            left -= sum(by_byte[start:stop])
        row[rest[int(batch.item_group[item])]] += left


@settings(max_examples=200, deadline=None)
@given(
    events=st.lists(st.dictionaries(st.sampled_from(["t", "s"]), TEXTS), min_size=1, max_size=3),
    seed=st.integers(0, 9),
)
def test_words_have_the_sum_of_their_bytes(events, seed):
    found, grams, items = encoded([{"k": "red", **texts} for texts in events])
    rng = random.Random(seed)
    for e in range(len(events)):
        find_byte_ngrams(grams, found.batch, e, RECORDS)
        n = int(grams.n[0])
        odds = np.array([rng.uniform(-3.0, 3.0) for _ in range(n)])
        items.parts.odds[:] = 0.0
        items.of_token[:] = np.arange(items.of_token.size)
        find_runs(found.batch, e, grams, items.places, items.runs, items.times)
        share_runs(found.batch, e, grams, odds, items)
        expected = np.zeros_like(items.parts.odds)
        shared(found, e, dict(zip(grams.buckets[:n].tolist(), odds.tolist(), strict=True)), expected)
        assert items.parts.odds.tolist() == pytest.approx(expected.tolist(), rel=1e-9, abs=1e-9)
        assert items.parts.odds.sum() == pytest.approx(odds.sum(), rel=1e-9, abs=1e-9)


def test_parts_are_named_by_their_event():
    xs = [{"t": "win cash win", "k": "red", "n": 2.0}, {"s": "no", "n": 3.0, "t": "a \u00c9t\u00e9"}]
    model = BayesOptimalNB({"t": "text", "s": "text", "k": "nominal"}, [Hypothesis()])
    names = PartNames(model._encode(xs, ["y", "z"]), model.statistics.layout)
    parts = np.array([[3, 4, 0, 1, 5], [2, 3, 4, 0, 5]])
    odds = np.array([[1.0, -2.0, 3.0, 0.0, 0.5], [1.0, 2.0, 0.1, 0.2, 0.3]])
    priors = np.array([0.25, np.nan])
    first, second = ([*map(tuple, items)] for items in names.items(xs, (parts, odds, priors)))
    assert first == [("k", "red", 1.0), ("n", 2.0, -2.0), ("t", "win", 3.0), ("t", "", 0.5)]
    expected = [
        ("t", "\u00e9t\u00e9", 1.0),
        ("n", 3.0, 2.0),
        ("s", "", 0.1),
        ("s", "no", 0.2),
        ("t", "", 0.3),
    ]
    assert second == expected
