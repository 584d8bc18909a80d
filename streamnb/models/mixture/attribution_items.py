"""Buffers for the attribution of a mixture's predictions."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from streamnb.features.byte_ngrams import LENGTH
from streamnb.features.character_table import character_table
from streamnb.features.encoded_batch import Encoded
from streamnb.kernels.array_types import Floats, Hashes, Ints
from streamnb.kernels.structs import struct_type
from streamnb.models.forest.path_attribution import ReadPaths
from streamnb.models.interface.attribution_parts import AttributionParts
from streamnb.models.one_dependence.pair_attribution import ReadPairs
from streamnb.values.type_aliases import Codes


@struct_type
class AttributionItems(NamedTuple):
    """The strongest parts of each event of a batch, and buffers for the parts of one event.

    Attributes:
        parts: the strongest parts.
        dependence: what one-dependence estimators read; of no event while they are gated.
        paths: the same of forests.
        of_token: int64[most], the part of each token.
        amount: float64[most], occurrences of the word, at its first token.
        n: int64[1], number of entries.
        keys: uint64[entries], key of a feature.
        owners: int64[2, entries], the two parts of a feature, which are equal except for pairs.
        places: int32[power of two], hash table of the entries, or of the byte n-grams.
        own: int64[2, features], the `owners` of each feature of the event.
        weights, priors: float64[H], weight of each hypothesis, including its share in the pools, and the log
            odds before the event is read.
        by_reading, by_learner, by_bytes: float64[B + R], float64[M], float64[G], factors of their log odds.
        totals: float64[B], log odds of the totals of an attribute.
        feature_odds: float64[most], log odds of each feature, or byte n-gram.
        runs: int64[byte n-grams], the n-gram at each byte.
        times: float64[byte n-grams], occurrences of each.
        of_byte: int64[bytes], the part of each byte.
        characters: of `character_table`.
    """

    parts: AttributionParts
    dependence: ReadPairs
    paths: ReadPaths
    of_token: Ints
    amount: Floats
    n: Ints
    keys: Hashes
    owners: Ints
    places: Codes
    own: Ints
    weights: Floats
    priors: Floats
    by_reading: Floats
    by_learner: Floats
    by_bytes: Floats
    totals: Floats
    feature_odds: Floats
    runs: Ints
    times: Floats
    of_byte: Ints
    characters: Codes

    @classmethod
    def with_capacity(
        cls,
        encoded: Encoded,
        plan: Any,
        scratch: Any,
        read: tuple[ReadPairs, ReadPaths],
        top: int,
        of: tuple[int, int],
    ) -> AttributionItems:
        """Return buffers for `top` parts of each event of a batch, and the classes `of`.

        The features and byte n-grams of an event fit in `scratch`.
        """
        batch = encoded.batch
        tokens = int(np.diff(batch.item_rows[batch.event_items]).max(initial=0))
        features, grams = scratch.extracted.keys.size, scratch.runs.size
        entries = max(features, tokens)
        places = 1 << (2 * max(entries, grams)).bit_length()
        H, readings = plan.kind.size, plan.binned.size
        return cls(
            AttributionParts.with_capacity(batch, top, of),
            *read,
            np.zeros(tokens, dtype=np.int64),
            np.zeros(tokens),
            np.zeros(1, dtype=np.int64),
            np.zeros(entries, dtype=np.uint64),
            np.zeros((2, entries), dtype=np.int64),
            np.zeros(places, dtype=np.int32),
            np.zeros((2, features), dtype=np.int64),
            np.zeros(H),
            np.zeros(H),
            np.zeros(readings + plan.half_lives.size),
            np.zeros(plan.rates.size),
            np.zeros(plan.byte_rates.size),
            np.zeros(readings),
            np.zeros(max(features, grams)),
            np.zeros(grams, dtype=np.int64),
            np.zeros(grams),
            np.zeros(grams + LENGTH, dtype=np.int64),
            character_table(),
        )

    @classmethod
    def none(cls) -> AttributionItems:
        """Return buffers without room for a part: no attribution is requested."""
        of_one, of_two = np.zeros(0, dtype=np.int64), np.zeros((2, 0), dtype=np.int64)
        floats, codes = np.zeros(0), np.zeros(0, dtype=np.int32)
        return cls(
            AttributionParts.none(), ReadPairs.none(), ReadPaths.none(), of_one, floats, of_one,
            np.zeros(0, dtype=np.uint64), of_two, codes, of_two, floats, floats, floats,
            floats, floats, floats, floats, of_one, floats, of_one, codes,
        )  # fmt: skip
