"""Classes of the model with their encoded sizes, updated incrementally."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import msgspec

NUMBER_BYTES = 24
"""Bytes of a probability in a prediction, with colon and comma."""


@dataclass
class KnownClasses:
    """Index of classes, which only grows; a loaded state starts a new index.

    Attributes:
        columns: label -> column.
        n_bytes: approximate bytes of a prediction with all classes.
        longest: approximate bytes of the longest class in a prediction.
    """

    columns: dict[str, int] = field(default_factory=dict)
    n_bytes: int = 256
    longest: int = 0

    def follow(self, classes: Sequence[str]) -> Self:
        """Add new classes; return itself."""
        for label in classes[len(self.columns) :]:
            self.columns[label] = len(self.columns)
            self.n_bytes += class_bytes(label)
            self.longest = max(self.longest, class_bytes(label))
        return self


def class_bytes(label: Any) -> int:
    """Return the approximate bytes of a class in a prediction."""
    return len(msgspec.json.encode(str(label))) + NUMBER_BYTES
