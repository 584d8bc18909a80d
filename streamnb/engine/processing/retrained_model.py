"""A retrained model, for installation in the running learner."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, Self

from streamnb.engine.ports import Partition
from streamnb.formats.snapshot_container import SnapshotPart, part_digest
from streamnb.kernels.array_types import Ints
from streamnb.values.state_validation import count, state_errors
from streamnb.values.type_aliases import Codes

Offsets = Mapping[Partition, Ints]
"""Partition -> ascending offsets of some of its records."""


class RetrainedModel(NamedTuple):
    """A retrained model, and the state that changes with it.

    Attributes:
        model: its state.
        to: journal record up to which it was retrained; from there it followed the journal.
        first: number of the first event that may wait for labels.
        pruned: int32, the model's number of prunings when it learned each event from `first` on.
        erased: int64, numbers of erased events, which wait no longer.
        all_erased: all events ever erased.
        forgets: this retraining erases some of them.
    """

    model: SnapshotPart
    to: int
    first: int
    pruned: Codes
    erased: Ints
    all_erased: Offsets
    forgets: bool

    @property
    def digest(self) -> str:
        """SHA-256 of the model, in hex."""
        return part_digest(*self.model)

    def parts(self) -> dict[str, SnapshotPart]:
        """Return the parts of its file."""
        meta = {"to": self.to, "first": self.first, "forgets": self.forgets}
        rebuilt = SnapshotPart(meta, {"pruned": self.pruned, "gone": self.erased})
        return {"model": self.model, "rebuilt": rebuilt, "forgotten": part_of(self.all_erased)}

    @classmethod
    def from_parts(cls, parts: Mapping[str, SnapshotPart]) -> Self:
        """Restore from the parts of a file; raise SnapshotError if they are invalid."""
        with state_errors("a retrained model", ValueError):
            meta, arrays = parts["rebuilt"]
            forgotten = offsets_of(parts["forgotten"])
            to, first = count(meta, "to"), count(meta, "first")
            pruned, gone, forgets = arrays["pruned"], arrays["gone"], bool(meta["forgets"])
            return cls(parts["model"], to, first, pruned, gone, forgotten, forgets)


def part_of(offsets: Offsets) -> SnapshotPart:
    """Return offsets as a snapshot part."""
    chosen = sorted(offsets)
    meta = {"partitions": [list(partition) for partition in chosen]}
    return SnapshotPart(meta, {str(i): offsets[partition] for i, partition in enumerate(chosen)})


def offsets_of(part: SnapshotPart) -> dict[Partition, Ints]:
    """Return the offsets in a snapshot part."""
    names = enumerate(part.meta["partitions"])
    return {Partition(str(topic), int(number)): part.arrays[str(i)] for i, (topic, number) in names}
