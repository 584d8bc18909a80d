"""Use of a model's memory budget, as the budget counts it: by rows, not by allocations."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple


class MemoryComponent(NamedTuple):
    """Memory of one component, in bytes.

    Attributes:
        taken: the current use.
        most: the use from which entries are evicted, or none added. 0: the component does not grow.
    """

    taken: int
    most: int

    @property
    def share(self) -> float:
        """Share of the limit in use; 0 for a component that does not grow."""
        return self.taken / self.most if self.most else 0.0


class MemoryUse(NamedTuple):
    """All components, and the evicted entries.

    Attributes:
        parts: name -> component; empty without a budget.
        words: number of words and values evicted since the model was made or loaded.
        weight: their total weight, in examples.
    """

    parts: Mapping[str, MemoryComponent] = MappingProxyType({})
    words: int = 0
    weight: float = 0.0
