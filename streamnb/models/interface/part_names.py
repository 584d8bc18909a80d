"""The names of the parts of an event that an attribution ranks: attribute and value of each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import repeat
from typing import Any

import numpy as np

from streamnb.features.encoded_batch import Encoded
from streamnb.features.feature_layout import Layout
from streamnb.kernels.array_types import Ints
from streamnb.models.interface.attribution import Item, Items
from streamnb.models.interface.attribution_parts import Ranked
from streamnb.values.attribute_kinds import NOMINAL
from streamnb.values.nominal_values import value_text


class PartNames:
    """Attribute and value of each part of the events of a batch.

    Args:
        encoded: the events.
        layout: names of attributes.
    """

    def __init__(self, encoded: Encoded, layout: Layout) -> None:
        self._batch, self._tokens = encoded.batch, encoded.tokens
        self._groups, self._fields = list(layout.groups), list(layout.fields)

    def items(self, xs: Sequence[Any], ranked: Ranked) -> list[Items]:
        """Return the items of the events `xs`, without log odds of 0, and with the prior if it is known."""
        parts, log_odds, priors = ranked
        events, places = np.nonzero(log_odds)
        found = [Items.with_prior(prior) for prior in priors.tolist()]
        odds = log_odds[events, places].tolist()
        for e, (name, value), part_odds in zip(
            events.tolist(), self._named(xs, events, parts[events, places]), odds, strict=True
        ):
            found[e].append(Item(name, value, part_odds))
        return found

    def _named(self, xs: Sequence[Any], events: Ints, parts: Ints) -> Iterator[tuple[Any, Any]]:
        """Yield attribute and value of parts, each of one of the `events`."""
        batch = self._batch
        first, value = batch.event_items[events], batch.event_values[events]
        begin = batch.item_rows[first]
        ends = batch.item_rows[batch.event_items[events + 1]] - begin
        numbers = ends + batch.event_values[events + 1] - value
        is_token, is_number = parts < ends, (parts >= ends) & (parts < numbers)
        token = np.where(is_token, begin + parts, 0)
        item = np.where(
            is_token, np.searchsorted(batch.item_rows, token, side="right") - 1, first + parts - numbers
        )
        owner = np.empty(parts.size, dtype=np.int64)
        owner[is_number] = batch.value_field[(value + parts - ends)[is_number]]
        owner[~is_number] = batch.item_group[item[~is_number]]
        for e, number, is_word, has_number, word in zip(
            *(each.tolist() for each in (events, owner, is_token, is_number)), self._words(token), strict=True
        ):
            if has_number:
                name = self._fields[number]
                yield name, xs[e][name]
                continue
            kind, name = self._groups[number]
            if is_word:
                yield name, _key_of(xs[e], name, word) if kind != NOMINAL else xs[e][name]
            else:
                yield name, ""

    def _words(self, tokens: Ints) -> Iterator[str]:
        """Yield the texts of tokens."""
        buffer = self._tokens
        if buffer is None:  # there are none
            return repeat("", tokens.size)
        bounds = np.concatenate(([0], buffer.ends, [0]))
        text = buffer.bytes[: bounds.max()].tobytes()
        spans = zip(bounds[tokens].tolist(), bounds[tokens + 1].tolist(), strict=True)
        return (text[begin:end].decode(errors="replace") for begin, end in spans)


def _key_of(x: Any, name: Any, word: str) -> Any:
    """Return a word of a text, or the key of a bag that has this text."""
    bag = x.get(name, "") if hasattr(x, "get") else ""
    if type(bag) is str or not isinstance(bag, Mapping) or word in bag:
        return word
    return next((key for key in bag if value_text(key) == word), word)
