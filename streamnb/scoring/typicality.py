"""Typicality of an event's evidence among the labelled events of its class."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from streamnb.errors import SnapshotError
from streamnb.values.state_validation import checked, real
from streamnb.values.type_aliases import Array

NEWEST = 1000
"""Judged events of a class that are kept; so no event is less usual than 1/1001."""
_ALIKE = 0.1  # D, nats
_MOST = 3e38  # within the range of a float32
NO_EVIDENCE = np.inf
"""Evidence of an event without any learned attribute, which counts as typical."""

Evidence = npt.NDArray[np.float32]


class Typicality:
    """The evidence of the newest judged events of each class, in their order."""

    def __init__(self, of: Mapping[str, Evidence] | None = None) -> None:
        self._of = dict(of or {})

    def copy(self) -> Typicality:
        """Return an independent copy."""
        return Typicality(self._of)

    def share(self, label: str, evidence: float) -> float:
        """Return p, 0 < p <= 1; 1 for a class without labelled events."""
        before = self._of.get(label, NOTHING)
        return (1 + int(np.count_nonzero(before <= evidence + _ALIKE))) / (1 + before.size)

    def learn(self, label: str, evidence: float) -> None:
        """Add a labelled event of this class."""
        if evidence != NO_EVIDENCE:
            before = self._of.get(label, NOTHING)
            self._of[label] = np.append(before[-NEWEST + 1 :], np.float32(evidence))

    def forget(self, label: str, evidence: float) -> None:
        """Remove an event from this class, if it is among the newest."""
        before = self._of.get(label, NOTHING)
        found = np.flatnonzero(before == np.float32(evidence))
        if found.size:
            self._of[label] = np.delete(before, found[-1])

    def state(self) -> tuple[list[list[Any]], Evidence]:
        """Return [class, count] in the order of names, and all evidence concatenated."""
        names = sorted(label for label, one in self._of.items() if one.size)
        evidence = np.concatenate([NOTHING, *(self._of[label] for label in names)])
        return [[label, self._of[label].size] for label in names], evidence

    @classmethod
    def from_state(cls, sizes: list[tuple[str, int]], evidence: Array) -> Typicality:
        """Return the object that `state` described. Raises SnapshotError if it is invalid."""
        evidence = checked({"usual": evidence}, {"usual": real("events", dtype=np.float32)})["usual"]
        ends = np.cumsum([0, *(n for _, n in sizes)]).tolist()
        if ends[-1] != evidence.size or not all(0 < n <= NEWEST for _, n in sizes):
            raise SnapshotError(f"usual: expected {ends[-1]} events, found {evidence.size}")
        return cls({label: evidence[ends[i] : ends[i + 1]] for i, (label, _) in enumerate(sizes)})


def rounded(evidence: npt.NDArray[np.float64]) -> Evidence:
    """Return evidence as it is stored and compared, also after a restart; nan becomes NO_EVIDENCE."""
    kept: Evidence = np.clip(evidence, -_MOST, _MOST).astype(np.float32)
    kept[np.isnan(evidence)] = NO_EVIDENCE
    return kept


NOTHING = np.zeros(0, dtype=np.float32)
