"""The classes that there are, kept beside the model so that no piece of a batch goes through all of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import msgspec

NUMBER_BYTES = 24
"""Of a probability in a prediction, with colon and comma."""


@dataclass
class KnownClasses:
    """What is known of classes that only come: a state that is loaded begins with another of these.

    Attributes:
        columns: label -> column.
        n_bytes: about what a prediction takes that names them all.
        longest: about what the longest takes in it.
    """

    columns: dict[str, int] = field(default_factory=dict)
    n_bytes: int = 256
    longest: int = 0

    def follow(self, classes: Sequence[str]) -> Self:
        """Take in those that are new; returns itself."""
        for label in classes[len(self.columns) :]:
            self.columns[label] = len(self.columns)
            self.n_bytes += class_bytes(label)
            self.longest = max(self.longest, class_bytes(label))
        return self


def class_bytes(label: Any) -> int:
    """About what a class takes in a prediction."""
    return len(msgspec.json.encode(str(label))) + NUMBER_BYTES
