"""What a model that has a budget of memory takes of it, as the budget counts: by rows, not by allocations."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple


class Part(NamedTuple):
    """One part of what is learned, bytes.

    Attributes:
        taken: how many it takes.
        most: how many it may take before something is forgotten, or nothing is added any more. 0: what it
            takes does not grow.
    """

    taken: int
    most: int

    @property
    def share(self) -> float:
        """How much of it is taken; 0 of what does not grow."""
        return self.taken / self.most if self.most else 0.0


class MemoryUse(NamedTuple):
    """All parts, and what was forgotten.

    Attributes:
        parts: name -> part; none without a budget.
        words: how many words and values were forgotten for it, since the model was made or loaded.
        weight: what they weighed together, in examples.
    """

    parts: Mapping[str, Part] = MappingProxyType({})
    words: int = 0
    weight: float = 0.0
