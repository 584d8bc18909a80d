"""What the hypotheses want of features, and how many there may be within their budget of memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

from streamnb.model.mixture.components import AnyHypothesis, Softmax
from streamnb.model.mixture.hypotheses import Hypothesis

__all__ = ["FeaturePlan"]

_ENTRY_BYTES = 27  # to be found


@dataclass(frozen=True)
class FeaturePlan:
    """What the hypotheses want of features.

    Attributes:
        learners: how many softmax regressions there are; none where features are wanted for bins alone.
        pairs: whether any takes pairs.
        memory: of the table, bytes.
    """

    learners: int
    pairs: bool
    memory: int

    @classmethod
    def of(cls, hypotheses: Sequence[AnyHypothesis], memory: int) -> Self | None:
        """That of these hypotheses; None where nothing takes features."""
        learners = [h for h in hypotheses if isinstance(h, Softmax)]
        reads_bins = any(isinstance(h, Hypothesis) and h.is_binned for h in hypotheses)
        if not learners and not reads_bins:
            return None
        return cls(len(learners), any(h.pairs for h in learners), memory)

    def most(self, rows: int, once: int, classes: int) -> int:
        """How many features may have a row, where `rows` have one and `once` were met once.

        So many classes have examples. A row takes eight bytes for its key, its owner, its total and its count
        in each class; four for each class and learner, one more of each, and of the logarithms of the counts;
        and 27 to be found, which are all that one met once takes.
        """
        return max(rows, (self.memory - _ENTRY_BYTES * once) // self._row_bytes(classes))

    def most_once(self, rows: int, once: int, classes: int) -> int:
        """How many pairs met once there may be; see `most`."""
        return max(once, (self.memory - self._row_bytes(classes) * rows) // _ENTRY_BYTES)

    def _row_bytes(self, classes: int) -> int:
        return 8 * (3 + classes) + 4 * (1 + self.learners) * (1 + classes) + _ENTRY_BYTES
