"""The parts of an event that an attribution names: words, values, and texts without their words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from streamnb.features.byte_ngrams import LENGTH
from streamnb.features.encoded_batch import Encoded
from streamnb.features.feature_layout import Layout
from streamnb.features.tokenizer import character_table
from streamnb.kernels.array_types import Floats, Hashes, Ints
from streamnb.kernels.structs import struct_type
from streamnb.models.interface.attribution import LIMIT, Item, Items
from streamnb.values.attribute_kinds import NOMINAL
from streamnb.values.type_aliases import Codes


@struct_type
class AttributionItems(NamedTuple):
    """The strongest parts of each event of a batch, and buffers for the parts of one event.

    An event has a part for each of its T tokens, V numbers and I items, in this order. All occurrences of a
    word count to its first token, and a text without its words to the first item of its attribute.

    Attributes:
        classes: int64[2], class and reference class of the log odds; -1: the two most probable classes.
        strongest: int64[n, top], parts of each event, the strongest first, or -1.
        log_odds: float64[n, top], of `strongest`.
        odds: float64[most + 1], what each part adds to the log odds, and behind them the prior; empty: no
            attribution is requested.
        dependence: float64[D, parts + 1], parts of one-dependence estimators; empty while they are gated.
        of_token: int64[most], the part of each token.
        amount: float64[most], occurrences of the word, at its first token.
        n: int64[1], number of entries.
        keys: uint64[entries], key of a feature.
        owners: int64[2, entries], the two parts of a feature, which are equal except for pairs.
        places: int32[power of two], hash table of the entries, or of the byte n-grams.
        own: int64[2, features], the `owners` of each feature of the event.
        weights, priors: float64[H], weight of each hypothesis, including its share in the pools, and the log
            odds before the event is read.
        by_reading, by_learner, by_bytes: float64[B], float64[M], float64[G], factors of their log odds.
        totals: float64[B], log odds of the totals of an attribute.
        told: float64[most], log odds of each feature, or byte n-gram.
        runs: int64[byte n-grams], the n-gram at each byte.
        times: float64[byte n-grams], occurrences of each.
        of_byte: int64[bytes], the part of each byte.
        characters: of `character_table`.
    """

    classes: Ints
    strongest: Ints
    log_odds: Floats
    odds: Floats
    dependence: Floats
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
    told: Floats
    runs: Ints
    times: Floats
    of_byte: Ints
    characters: Codes

    @classmethod
    def with_capacity(
        cls, encoded: Encoded, plan: Any, scratch: Any, top: int, of: tuple[int, int]
    ) -> AttributionItems:
        """Return buffers for `top` parts of each event of a batch, and the classes `of`.

        The features and byte n-grams of an event fit in `scratch`.
        """
        batch, n = encoded.batch, encoded.batch.label.size
        ends = batch.item_rows[batch.event_items]
        tokens, values = (int(np.diff(each).max(initial=0)) for each in (ends, batch.event_values))
        items = int(np.diff(batch.event_items).max(initial=0))
        features, grams = scratch.extracted.keys.size, scratch.runs.size
        entries = max(features, tokens)
        places = 1 << (2 * max(entries, grams)).bit_length()
        H, readings = plan.kind.size, plan.binned.size
        return cls(
            np.array(of),
            np.full((n, top), -1),
            np.zeros((n, top)),
            np.zeros(tokens + values + items + 1),
            np.zeros((0, 0)),
            np.zeros(tokens, dtype=np.int64),
            np.zeros(tokens),
            np.zeros(1, dtype=np.int64),
            np.zeros(entries, dtype=np.uint64),
            np.zeros((2, entries), dtype=np.int64),
            np.zeros(places, dtype=np.int32),
            np.zeros((2, features), dtype=np.int64),
            np.zeros(H),
            np.zeros(H),
            np.zeros(readings),
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
            of_one, of_two, np.zeros((2, 0)), floats, np.zeros((0, 0)), of_one, floats, of_one,
            np.zeros(0, dtype=np.uint64), of_two, codes, of_two, floats, floats, floats,
            floats, floats, floats, floats, of_one, floats, of_one, codes,
        )  # fmt: skip

    def of_event(self) -> Iterator[tuple[int, float]]:
        """Yield the parts of the only event of a batch with log odds other than 0, the strongest first."""
        odds = np.clip(self.odds[:-1], -LIMIT, LIMIT)
        order = np.argsort(-np.abs(odds), kind="stable")
        yield from zip(order.tolist(), odds[order].tolist(), strict=True)

    def of_batch(self) -> Iterator[Iterator[tuple[int, float]]]:
        """Yield the strongest parts of each event of a batch."""
        yield from map(zip, self.strongest.tolist(), self.log_odds.tolist())


class PartNames:
    """Attribute and value of each part of the events of a batch.

    Args:
        encoded: the events.
        layout: names of attributes.
    """

    def __init__(self, encoded: Encoded, layout: Layout) -> None:
        self._batch, self._tokens = encoded.batch, encoded.tokens
        self._groups, self._fields = list(layout.groups), list(layout.fields)

    def items(self, e: int, x: Mapping[Any, Any], parts: Iterator[tuple[int, float]]) -> Items:
        """Return the items of event e, `x`, for parts and their log odds, without log odds of 0."""
        return Items(Item(*self._named(e, x, part), odds) for part, odds in parts if odds)

    def _named(self, e: int, x: Mapping[Any, Any], part: int) -> tuple[Any, Any]:
        batch = self._batch
        first, stop = batch.event_items[e : e + 2].tolist()
        token, end = batch.item_rows[[first, stop]].tolist()
        if part < end - token:
            token += part
            item = int(np.searchsorted(batch.item_rows, token, side="right")) - 1
            kind, name = self._groups[batch.item_group[item]]
            return name, x[name] if kind == NOMINAL else self._word(token)
        part -= end - token
        value, last = batch.event_values[e : e + 2].tolist()
        if part < last - value:
            name = self._fields[batch.value_field[value + part]]
            return name, x[name]
        return self._groups[batch.item_group[first + part - (last - value)]][1], ""

    def _word(self, token: int) -> str:
        tokens = self._tokens
        assert tokens is not None  # noqa: S101  a word is a token
        begin = tokens.ends[token - 1] if token else 0
        return tokens.bytes[begin : tokens.ends[token]].tobytes().decode(errors="replace")
