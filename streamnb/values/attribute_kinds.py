"""Kinds of attributes, as states and kernels have them."""

from __future__ import annotations

KINDS = MULTINOMIAL, BERNOULLI, NOMINAL = 0, 1, 2
CONTINUOUS = NOMINAL + 1
"""The kind of an attribute that has no group; every other kind is a kind of group."""


def text_kind(event_model: str) -> int:
    """Return MULTINOMIAL or BERNOULLI, by name."""
    return BERNOULLI if event_model == "bernoulli" else MULTINOMIAL
