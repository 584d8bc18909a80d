"""How often each hypothesis of a finite space disagreed with the labels: all that a concept learner keeps.

With labels that are flipped with probability e, independently, examples of weight w and hypotheses that say
which label is right, or that they cannot tell, which gives 1/2 to either,

    P(D | h) = (1 - e)^agreements e^disagreements (1/2)^undecided

is a function of three weights for each hypothesis, of which the sum is the same for all. So the counts are
sufficient, their order does not matter, and adding, subtracting and merging them is exact.

Most hypotheses of a large space say "no" to most instances. A positive example would have to be counted for
all those; it is counted for the few that do *not* disagree, against the weight of all positive examples:

    disagreements of h = positives + margin[h]

    a positive example    margin -= w for those that cover it or cannot tell
    a negative example    margin += w for those that cover it

Weights are int64 in units of 1/1024 example.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from streamnb.errors import SnapshotError, UnlearnError
from streamnb.model.attributes.expected import MOST, checked, count, counts, whole
from streamnb.model.attributes.signatures import Array, Flags, State
from streamnb.model.compiled.arrays import Ints
from streamnb.model.concepts.hypothesis_space import Judgement

_COUNTS = ("events", "positives", "total")


class Disagreements:
    """Weights of disagreement and of indecision, for each of `size` hypotheses.

    Attributes:
        events: how many examples there were.
        total: their weight, in units of 1/1024.
        positives: that of the positive ones.
        margin: int64[size], disagreements less positives.
        undecided: int64[size], weight of the examples that the hypothesis could not tell.
    """

    def __init__(self, size: int) -> None:
        self.events = self.total = self.positives = 0
        self.margin = np.zeros(size, dtype=np.int64)
        self.undecided = np.zeros(size, dtype=np.int64)

    def disagreements(self) -> Ints:
        """int64[size], the weight of the examples whose label each hypothesis denies."""
        return self.positives + self.margin

    def consistent(self) -> Flags:
        """bool[size], which hypotheses deny no label: the version space."""
        found: Flags = self.margin == -self.positives
        return found

    def update(self, judgement: Judgement, *, is_positive: bool, weight: int) -> None:
        """Count an example of this weight above zero; one below zero takes it back."""
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
        """Undo `update`. Raises UnlearnError, and changes nothing, where it cannot have happened."""
        self.update(judgement, is_positive=is_positive, weight=-weight)
        if self._fault():
            self.update(judgement, is_positive=is_positive, weight=weight)
            raise UnlearnError("this example was never learned with this label and weight")

    def state(self) -> State:
        """JSON-able values, and copied arrays; equal counts give equal bytes."""
        meta = {name: getattr(self, name) for name in _COUNTS}
        return meta, {"margin": self.margin.copy(), "undecided": self.undecided.copy()}

    @classmethod
    def from_state(cls, size: int, meta: Mapping[str, Any], arrays: Mapping[str, Array]) -> Disagreements:
        """The counts that `state` described, of `size` hypotheses. Raises SnapshotError."""
        made = cls(size)
        for name in _COUNTS:
            setattr(made, name, count(meta, name, most=MOST - 1))  # no sum of two overflows
        found = checked(arrays, {"margin": whole(size, low=-MOST, high=MOST), "undecided": counts(size)})
        made.margin, made.undecided = found["margin"].copy(), found["undecided"].copy()
        if fault := made._fault():
            raise SnapshotError(fault)
        return made

    def _fault(self) -> str | None:
        """Why these are counts of no examples; None where they may be of some."""
        if (
            not 0 <= self.positives <= self.total
            or self.events < 0
            or (self.events == 0) != (self.total == 0)
        ):
            return f"{self.events} events of weight {self.total}, of which {self.positives} are positive"
        disagreements = self.disagreements()
        if min(disagreements.min(), self.undecided.min()) < 0:
            return "a hypothesis with a weight below zero"
        if (self.total - disagreements < self.undecided).any():
            return "a hypothesis that was asked about more than there was"
        return None
