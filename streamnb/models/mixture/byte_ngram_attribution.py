"""Attribution of the log odds of byte n-gram hypotheses to words.

An n-gram counts once however often it occurs: its log odds are divided by its number of occurrences, and at
each occurrence a quarter goes to each of its four bytes. A word has the sum of its bytes; bytes between words
belong to the item of the text without its words.
"""

from __future__ import annotations

import re

import numpy as np
import numpy.typing as npt

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
    shares = _Shares(encoded, grams, parts)
    for g, row in enumerate(found):
        gram_log_odds(g, grams, tables, is_cautious, scale * values, one, other, odds)
        shares.add_to(row, odds[:n])
    return found


class _Shares:
    """The parts of an event to which the log odds of its n-grams belong.

    Args:
        encoded: one event.
        grams: its n-grams.
        parts: its items.
    """

    def __init__(self, encoded: Encoded, grams: ByteNgrams, parts: AttributionItems) -> None:
        tokens = encoded.tokens
        assert tokens is not None  # noqa: S101  there are n-grams
        self._groups, self._parts = encoded.batch.item_group, parts
        D, V = parts.batch.rows.size, parts.batch.value.size
        self._rest = {g: D + V + i for i, g in enumerate(parts.batch.item_group[D:].tolist())}
        self._tokens = tokens
        begins, (bits, first) = [0, *tokens.item_ends.tolist()], grams.limits.tolist()
        known = grams.buckets[: grams.n[0]]
        order, buckets = np.argsort(known), np.empty(first, dtype=np.int64)
        self._runs: dict[int, Ints] = {}  # text -> the n-gram at each byte
        self._words: dict[int, Ints] = {}  # text -> first byte and end of each word
        for item in np.flatnonzero(~tokens.whole).tolist():
            begin, end = begins[item], begins[item + 1]
            n = bucket_each(tokens.text, begin, min(end, begin + first), self._groups[item], bits, buckets)
            self._runs[item] = order[np.searchsorted(known, buckets[:n], sorter=order)]
            self._words[item] = _word_spans(tokens.text[begin:end])
        self._times = np.bincount(np.concatenate([*self._runs.values()]), minlength=known.size)

    def add_to(self, row: Floats, odds: Floats) -> None:
        """Add the log odds of each n-gram to its parts."""
        each = odds / self._times / LENGTH
        for item, runs in self._runs.items():
            until = np.zeros(runs.size + LENGTH)
            if runs.size:
                np.cumsum(np.convolve(each[runs], np.ones(LENGTH)), out=until[1:])
            words = np.minimum(self._words[item], until.size - 1)
            told = until[words[:, 1]] - until[words[:, 0]]
            first = self._tokens.item_tokens[item]
            np.add.at(row, self._parts.of_token[first : first + len(words)], told)
            row[self._rest[int(self._groups[item])]] += until[-1] - told.sum()


def _word_spans(text: npt.NDArray[np.uint8]) -> Ints:
    """Return the first byte and the end of each word of a text in UTF-8, shape (words, 2)."""
    spans = [word.span() for word in re.finditer(r"\w+", text.tobytes().decode())]
    begins = np.append(np.flatnonzero(text & 0xC0 != 0x80), text.size)
    found: Ints = begins[np.array(spans, dtype=np.int64).reshape(-1, 2)]
    return found
