"""The parts of an event that an attribution names: words, values, and texts without their words.

An event has a part for each of its T tokens, V numbers and I items, in this order. All occurrences of a word
count to its first token, and a text without its words to the first item of its attribute.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from streamnb.kernels.array_types import Floats, Ints
from streamnb.kernels.jit import inlined
from streamnb.kernels.structs import struct_type

LIMIT = 1e6
"""Log odds beyond +-LIMIT, such as infinite log odds with alpha = 0, are cut to it: JSON has no infinity."""
Ranked = tuple[Ints, Floats, Floats]
"""Parts of events, the strongest first, int64[n, top]; their log odds, float64[n, top], 0 for no part; the
priors, float64[n]."""


@struct_type
class AttributionParts(NamedTuple):
    """The strongest parts of each event of a batch.

    Attributes:
        classes: int64[2], class and reference class of the log odds; -1: the two most probable classes.
        strongest: int64[n, top], parts of each event, the strongest first, or -1.
        log_odds: float64[n, top], of `strongest`.
        priors: float64[n], log odds before the event is read; nan with fewer than two classes.
        odds: float64[most + 1], what each part of the last event adds to the log odds, and behind them the
            prior; empty: no attribution is requested.
    """

    classes: Ints
    strongest: Ints
    log_odds: Floats
    priors: Floats
    odds: Floats

    @classmethod
    def with_capacity(cls, batch: Any, top: int, of: tuple[int, int] = (-1, -1)) -> AttributionParts:
        """Return room for `top` parts of each event of a `Batch`, and the classes `of`."""
        n = batch.label.size
        ends = (batch.item_rows[batch.event_items], batch.event_values, batch.event_items)
        most = sum(int(np.diff(each).max(initial=0)) for each in ends)
        strongest, log_odds = np.full((n, top), -1), np.zeros((n, top))
        return cls(np.array(of), strongest, log_odds, np.full(n, np.nan), np.zeros(most + 1))

    @classmethod
    def none(cls) -> AttributionParts:
        """Return arrays without room for a part: no attribution is requested."""
        no_parts = np.zeros((2, 0), dtype=np.int64)
        return cls(np.zeros(0, dtype=np.int64), no_parts, np.zeros((2, 0)), np.zeros(0), np.zeros(0))

    def of_event(self) -> Ranked:
        """Return all parts of the only event of a batch, the strongest first, with log odds and prior."""
        odds = np.clip(self.odds[:-1], -LIMIT, LIMIT)
        order = np.argsort(-np.abs(odds), kind="stable")
        return order[np.newaxis], odds[np.newaxis, order], self.priors

    def of_batch(self) -> Ranked:
        """Return the strongest parts of each event of a batch, with log odds and prior."""
        return self.strongest, self.log_odds, self.priors


@inlined
def most_probable(probabilities: Floats, known: Ints) -> Any:
    """Return the two most probable classes with examples, of equals the first; -1 if there is none."""
    one: Any = np.int64(-1)
    other = one
    for k in range(probabilities.size):
        if known[k] > 0:
            if one < 0 or probabilities[k] > probabilities[one]:
                one, other = k, one
            elif other < 0 or probabilities[k] > probabilities[other]:
                other = k
    return one, other


@inlined
def choose_strongest(e: int, n: int, parts: Any) -> None:
    """Fill the prior and the strongest of the n parts of event e; of equals the first come first."""
    parts.priors[e] = min(max(parts.odds[parts.odds.size - 1], -LIMIT), LIMIT)
    top, strongest, log_odds = parts.strongest.shape[1], parts.strongest[e], parts.log_odds[e]
    least = 0.0 if top else np.inf
    for i in range(n):
        told = min(max(parts.odds[i], -LIMIT), LIMIT)
        if abs(told) > least:
            place = top - 1
            while place > 0 and abs(log_odds[place - 1]) < abs(told):
                strongest[place], log_odds[place] = strongest[place - 1], log_odds[place - 1]
                place -= 1
            strongest[place], log_odds[place] = i, told
            least = abs(log_odds[top - 1])
