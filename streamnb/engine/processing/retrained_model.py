"""A model that was learned anew, as it is handed over to the learner that takes it up."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, Self

import numpy as np
import numpy.typing as npt

from streamnb.engine.ports import Partition
from streamnb.formats.snapshot_container import SnapshotPart, part_digest
from streamnb.values.state_validation import count, state_errors

Offsets = Mapping[Partition, npt.NDArray[np.int64]]
"""Partition -> offsets of some of its records, rising."""


class RetrainedModel(NamedTuple):
    """A model that was learned anew, and what changes with it.

    Attributes:
        model: its state.
        to: the journal record up to which it was learned anew; from there it followed the journal.
        first: number of the first event that may wait for labels.
        pruned: int32, of each event from there on: how often the model had been pruned when it learned it.
        gone: int64, numbers of events that wait no longer, for they were forgotten.
        forgotten: all events that were ever forgotten.
        forgets: whether some of them are forgotten by this.
    """

    model: SnapshotPart
    to: int
    first: int
    pruned: npt.NDArray[np.int32]
    erased: npt.NDArray[np.int64]
    evicted: Offsets
    forgets: bool

    @property
    def digest(self) -> str:
        """SHA-256 of the model, in hex."""
        return part_digest(*self.model)

    def parts(self) -> dict[str, SnapshotPart]:
        """What a file holds of it."""
        meta = {"to": self.to, "first": self.first, "forgets": self.forgets}
        rebuilt = SnapshotPart(meta, {"pruned": self.pruned, "gone": self.erased})
        return {"model": self.model, "rebuilt": rebuilt, "forgotten": part_of(self.evicted)}

    @classmethod
    def from_parts(cls, parts: Mapping[str, SnapshotPart]) -> Self:
        """What a file holds. Raises SnapshotError for another one."""
        with state_errors("a model that was learned anew", ValueError):
            meta, arrays = parts["rebuilt"]
            forgotten = offsets_of(parts["forgotten"])
            to, first = count(meta, "to"), count(meta, "first")
            pruned, gone, forgets = arrays["pruned"], arrays["gone"], bool(meta["forgets"])
            return cls(parts["model"], to, first, pruned, gone, forgotten, forgets)


def part_of(offsets: Offsets) -> SnapshotPart:
    """Offsets as a part of a snapshot."""
    chosen = sorted(offsets)
    meta = {"partitions": [list(partition) for partition in chosen]}
    return SnapshotPart(meta, {str(i): offsets[partition] for i, partition in enumerate(chosen)})


def offsets_of(part: SnapshotPart) -> dict[Partition, npt.NDArray[np.int64]]:
    """Offsets of a part of a snapshot."""
    names = enumerate(part.meta["partitions"])
    return {Partition(str(topic), int(number)): part.arrays[str(i)] for i, (topic, number) in names}
