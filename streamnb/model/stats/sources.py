"""Which counts hypotheses need beside those of words, and where each finds its own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

TOKENS, PRESENT, FIRST_DECAYED = 0, 1, 2  # sources of counts


class Sources(NamedTuple):
    """Which counts a set of hypotheses needs beside those of words.

    Attributes:
        presence: texts that hold a word are counted.
        bernoulli: and how many words have which of these counts.
        decays: (half-life, whether presence is counted) of each decayed table.
    """

    presence: bool = False
    bernoulli: bool = False
    decays: tuple[tuple[float, bool], ...] = ()

    def described(self) -> dict[str, Any]:
        """As JSON can hold it."""
        return {**self._asdict(), "decays": [list(decay) for decay in self.decays]}

    @classmethod
    def from_description(cls, described: Mapping[str, Any]) -> Sources:
        """The sources of a description; of an empty one those of a single naive Bayes model."""
        given = described.get("decays", ())
        decays = tuple((float(half_life), bool(presence)) for half_life, presence in given)
        return cls(described.get("presence", False), described.get("bernoulli", False), decays)

    def plain(self, half_life: float | None, *, counts_presence: bool) -> int:
        """Where a hypothesis finds its classes, nominal values and moments: TOKENS, or decayed tables."""
        if half_life is None:
            return TOKENS
        return FIRST_DECAYED + self.decays.index((half_life, counts_presence))

    def texts(self, half_life: float | None, *, counts_presence: bool) -> int:
        """Where a hypothesis finds its words."""
        if half_life is None and counts_presence:
            return PRESENT
        return self.plain(half_life, counts_presence=counts_presence)
