"""One event as the items of its attribution: words, values, and texts without their words."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np

from streamnb.features.bags import Bags, bags_of
from streamnb.features.encoded_batch import Batch, Encoded
from streamnb.features.feature_layout import Layout
from streamnb.kernels.array_types import Ints
from streamnb.kernels.structs import struct_type
from streamnb.models.softmax.feature_extraction import ExtractedFeatures
from streamnb.models.softmax.quantile_bins import LAYOUTS
from streamnb.values.attribute_kinds import NOMINAL
from streamnb.values.example_weights import UNIT


@struct_type
class AttributionItems(NamedTuple):
    """One event as n - 1 parts: D words and nominal values, V numbers, and G texts without their words.

    Attributes:
        batch: n events, each with one part, in this order; the last is the event without any part.
        base: int64[n - 1], the event without the part: for a word its text without words, otherwise the last.
        of_token: int64[t], part of each word or nominal value of the event.
        bags: of `batch`.
        alone: scratch for the features of one number.
    """

    batch: Batch
    base: Ints
    of_token: Ints
    bags: Bags
    alone: ExtractedFeatures

    @classmethod
    def of_event(cls, event: Batch, kinds: Ints) -> AttributionItems:
        """Return the items of a batch of one event; `kinds` of the groups."""
        times = np.diff(event.item_rows)
        _, where, of_token = np.unique(event.keys, return_index=True, return_inverse=True)
        order = np.argsort(where)  # in the order of the event, not of the keys
        rank = np.empty_like(order)
        rank[order] = np.arange(order.size)
        where, of_token = where[order], rank[of_token]
        group = np.repeat(event.item_group, times)[where]
        amount = np.zeros(where.size, dtype=np.int64)
        np.add.at(amount, of_token, np.repeat(event.item_amount, times))
        texts = np.unique(event.item_group[kinds[event.item_group] != NOMINAL])
        D, V, G = where.size, event.value.size, texts.size
        n = D + V + G + 1
        base = np.full(n - 1, n - 1, dtype=np.int64)
        words = kinds[group] != NOMINAL
        base[:D][words] = D + V + np.searchsorted(texts, group[words])
        place = np.arange(n + 1)
        batch = Batch(
            event_items=np.clip(place, 0, D) + np.clip(place - D - V, 0, G),
            item_group=np.concatenate([group, texts]),
            item_amount=np.concatenate([amount, np.full(G, UNIT)]),
            item_rows=np.minimum(np.arange(D + G + 1), D),
            rows=event.rows[where],
            keys=event.keys[where],
            event_values=np.clip(place - D, 0, V),
            value_field=event.value_field,
            value=event.value,
            label=np.full(n, -1),
            weight=np.full(n, UNIT),
            time=np.repeat(event.time, n),
        )
        return cls(batch, base, of_token, bags_of(batch), ExtractedFeatures.with_capacity(LAYOUTS + 1))

    def named(
        self, x: Mapping[Any, Any], encoded: Encoded, layout: Layout, parts: Iterable[int]
    ) -> list[tuple[Any, Any]]:
        """Return (attribute, value) of these parts of the event `x`; of a text without its words ("")."""
        groups, fields = [name for _, name in layout.groups], list(layout.fields)
        tokens = encoded.tokens.words() if encoded.tokens else []
        word = dict(zip(self.of_token.tolist(), tokens, strict=True))
        D, V = len(word), self.batch.value.size
        found = []
        for i in parts:
            if D <= i < D + V:
                name = fields[self.batch.value_field[i - D]]
                found.append((name, x[name]))
                continue
            name = groups[self.batch.item_group[i if i < D else i - V]]
            is_word = i < D and self.base[i] < self.base.size
            value = word[i].decode(errors="replace") if is_word else x[name] if i < D else ""
            found.append((name, value))
        return found
