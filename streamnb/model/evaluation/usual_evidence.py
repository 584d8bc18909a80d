"""What evidence events of a class usually have, and how usual that of another event is.

Of the n newest judged events of a class, with log likelihoods a token l_i (see `evidence_per_token`), an
event of evidence l is as usual as

    p = (1 + |{i : l_i <= l + D}|) / (1 + n).

If it is of that class, and events of it come in any order alike, then P(p <= a) <= a for each a: this is a
conformal p-value by class (Vovk, Gammerman & Shafer 2005, sec. 4.5). With D = 0 it may be wrong where what is
learned of other classes moves all evidence of this one a little: new words of others take some probability
from its own, and of events that are all alike each would be the strangest so far. So what is within D is as
usual.

Events that nobody judged teach nothing: a stranger makes none of his kind usual by sending many.

Reference: Vovk, Gammerman & Shafer (2005), Algorithmic Learning in a Random World.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from streamnb.errors import SnapshotError
from streamnb.model.attributes.expected import checked, real
from streamnb.model.attributes.signatures import Array

NEWEST = 1000
"""Judged events of a class that are kept; so no event is less usual than 1/1001."""
_ALIKE = 0.1  # D, nats
_MOST = 3e38  # within the range of a float32
NO_EVIDENCE = np.inf
"""Of an event of which no attribute was learned: nothing speaks against it."""

Evidence = npt.NDArray[np.float32]


class UsualEvidence:
    """The evidence of the newest judged events of each class, in their order."""

    def __init__(self, of: Mapping[str, Evidence] | None = None) -> None:
        self._of = dict(of or {})

    def copy(self) -> UsualEvidence:
        """One that goes its own way."""
        return UsualEvidence(self._of)

    def share(self, label: str, evidence: float) -> float:
        """p, 0 < p <= 1; 1 of a class of which nothing was judged."""
        before = self._of.get(label, NOTHING)
        return (1 + int(np.count_nonzero(before <= evidence + _ALIKE))) / (1 + before.size)

    def learn(self, label: str, evidence: float) -> None:
        """An event of this class was judged."""
        if evidence != NO_EVIDENCE:
            before = self._of.get(label, NOTHING)
            self._of[label] = np.append(before[-NEWEST + 1 :], np.float32(evidence))

    def forget(self, label: str, evidence: float) -> None:
        """It is not of this class; nothing where it is not among the newest."""
        before = self._of.get(label, NOTHING)
        found = np.flatnonzero(before == np.float32(evidence))
        if found.size:
            self._of[label] = np.delete(before, found[-1])

    def state(self) -> tuple[list[list[Any]], Evidence]:
        """[class, how many] in the order of names, and the evidence of all of them one after another."""
        names = sorted(label for label, one in self._of.items() if one.size)
        evidence = np.concatenate([NOTHING, *(self._of[label] for label in names)])
        return [[label, self._of[label].size] for label in names], evidence

    @classmethod
    def from_state(cls, sizes: list[tuple[str, int]], evidence: Array) -> UsualEvidence:
        """The object that `state` described. Raises SnapshotError where it is none."""
        evidence = checked({"usual": evidence}, {"usual": real("events", dtype=np.float32)})["usual"]
        ends = np.cumsum([0, *(n for _, n in sizes)]).tolist()
        if ends[-1] != evidence.size or not all(0 < n <= NEWEST for _, n in sizes):
            raise SnapshotError(f"usual: expected {ends[-1]} events, found {evidence.size}")
        return cls({label: evidence[ends[i] : ends[i + 1]] for i, (label, _) in enumerate(sizes)})


def rounded(evidence: npt.NDArray[np.float64]) -> Evidence:
    """As it is kept and compared, here and after a restart; nan becomes NO_EVIDENCE."""
    kept: Evidence = np.clip(evidence, -_MOST, _MOST).astype(np.float32)
    kept[np.isnan(evidence)] = NO_EVIDENCE
    return kept


NOTHING = np.zeros(0, dtype=np.float32)
