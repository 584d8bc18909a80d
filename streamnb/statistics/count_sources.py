"""Additional counts that hypotheses need, and the location of each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

TOKENS, PRESENT, FIRST_DECAYED = 0, 1, 2  # sources of counts


class Sources(NamedTuple):
    """Counts that a set of hypotheses needs in addition to word counts.

    Attributes:
        presence: texts that hold a word are counted.
        bernoulli: the histograms of these counts are kept.
        decays: (half-life, whether presence is counted) of each decayed table.
    """

    presence: bool = False
    bernoulli: bool = False
    decays: tuple[tuple[float, bool], ...] = ()

    def described(self) -> dict[str, Any]:
        """Return the sources as JSON-able values."""
        return {**self._asdict(), "decays": [list(decay) for decay in self.decays]}

    @classmethod
    def from_description(cls, described: Mapping[str, Any]) -> Sources:
        """Return the described sources; an empty description means a single naive Bayes model."""
        given = described.get("decays", ())
        decays = tuple((float(half_life), bool(presence)) for half_life, presence in given)
        return cls(described.get("presence", False), described.get("bernoulli", False), decays)

    def plain(self, half_life: float | None, *, counts_presence: bool) -> int:
        """Return the source of classes, nominal values and moments: TOKENS, or a decayed table."""
        if half_life is None:
            return TOKENS
        return FIRST_DECAYED + self.decays.index((half_life, counts_presence))

    def texts(self, half_life: float | None, *, counts_presence: bool) -> int:
        """Return the source of words."""
        if half_life is None and counts_presence:
            return PRESENT
        return self.plain(half_life, counts_presence=counts_presence)
