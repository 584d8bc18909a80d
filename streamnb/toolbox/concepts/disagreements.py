"""Weights with which each hypothesis of a finite space disagreed with the labels: a learner's whole state.

Labels are flipped with probability e, independently. Examples have weights w, and a hypothesis that is
undecided gives 1/2 to either label. Then

    P(D | h) = (1 - e)^agreements e^disagreements (1/2)^undecided

is a function of three weights for each hypothesis, and their sum is the same for all. So the counts are
sufficient, their order does not matter, and adding, subtracting and merging them is exact.

Most hypotheses of a large space do not cover most instances, so a positive example would update most of them.
Instead it updates the few that do *not* disagree, relative to the weight of all positive examples:

    disagreements of h = positives + margin[h]

    a positive example    margin -= w for hypotheses that cover it or are undecided
    a negative example    margin += w for hypotheses that cover it

Weights are int64 in units of 1/1024 example.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from streamnb.errors import SnapshotError, UnlearnError
from streamnb.kernels.array_types import Ints
from streamnb.toolbox.concepts.hypothesis_space import Judgement
from streamnb.values.state_validation import MOST, checked, count, counts, whole
from streamnb.values.type_aliases import Array, Flags, State

_COUNTS = ("events", "positives", "total")


class Disagreements:
    """Weights of disagreement and indecision for each of `size` hypotheses.

    Attributes:
        events: number of examples.
        total: weight of all examples, in units of 1/1024.
        positives: weight of the positive examples, in the same units.
        margin: int64[size], disagreements minus positives.
        undecided: int64[size], weight of the examples on which the hypothesis was undecided.
    """

    def __init__(self, size: int) -> None:
        self.events = self.total = self.positives = 0
        self.margin = np.zeros(size, dtype=np.int64)
        self.undecided = np.zeros(size, dtype=np.int64)

    def disagreements(self) -> Ints:
        """Return the weight of the examples with which each hypothesis disagrees, int64[size]."""
        return self.positives + self.margin

    def consistent(self) -> Flags:
        """Return the version space, bool[size]: hypotheses without a disagreement."""
        found: Flags = self.margin == -self.positives
        return found

    def update(self, judgement: Judgement, *, is_positive: bool, weight: int) -> None:
        """Count an example of positive weight; a negative weight takes it back."""
        self.events += 1 if weight > 0 else -1
        self.total += weight
        if is_positive:
            self.positives += weight
            self.margin[judgement.covering] -= weight
            self.margin[judgement.undecided] -= weight
        else:
            self.margin[judgement.covering] += weight
        self.undecided[judgement.undecided] += weight

    def unlearn(self, judgement: Judgement, *, is_positive: bool, weight: int) -> None:
        """Undo `update`. Raises UnlearnError, and changes nothing, if it cannot have happened."""
        self.update(judgement, is_positive=is_positive, weight=-weight)
        if self._fault():
            self.update(judgement, is_positive=is_positive, weight=weight)
            raise UnlearnError("this example was never learned with this label and weight")

    def state(self) -> State:
        """Return JSON-able values and copied arrays; equal counts give equal bytes."""
        meta = {name: getattr(self, name) for name in _COUNTS}
        return meta, {"margin": self.margin.copy(), "undecided": self.undecided.copy()}

    @classmethod
    def from_state(cls, size: int, meta: Mapping[str, Any], arrays: Mapping[str, Array]) -> Disagreements:
        """Restore the counts of a `state` of `size` hypotheses. Raises SnapshotError."""
        restored = cls(size)
        for name in _COUNTS:
            setattr(restored, name, count(meta, name, most=MOST - 1))  # no sum of two overflows
        found = checked(arrays, {"margin": whole(size, low=-MOST, high=MOST), "undecided": counts(size)})
        restored.margin, restored.undecided = found["margin"].copy(), found["undecided"].copy()
        if fault := restored._fault():
            raise SnapshotError(fault)
        return restored

    def _fault(self) -> str | None:
        if (
            not 0 <= self.positives <= self.total
            or self.events < 0
            or (self.events == 0) != (self.total == 0)
        ):
            return f"{self.events} events of weight {self.total}, of which {self.positives} are positive"
        disagreements = self.disagreements()
        if min(disagreements.min(), self.undecided.min()) < 0:
            return "a hypothesis has a negative weight"
        if (self.total - disagreements < self.undecided).any():
            return "a hypothesis was undecided on more than the total weight"
        return None
