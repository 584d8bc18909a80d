"""Kinds of attributes, and codes of words without a row, as states and kernels have them."""

from __future__ import annotations

KINDS = MULTINOMIAL, BERNOULLI, NOMINAL = 0, 1, 2
CONTINUOUS = NOMINAL + 1
"""The kind of an attribute that has no group; every other kind is a kind of group."""
UNKNOWN, STOPPED = -1, -2
"""Codes of an unknown word or value, and of a word that was dropped for good or repeats in its text."""


def text_kind(event_model: str) -> int:
    """Return MULTINOMIAL or BERNOULLI, by name."""
    return BERNOULLI if event_model == "bernoulli" else MULTINOMIAL
