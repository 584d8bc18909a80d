"""Source labels of waiting events, and their resolved label."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from streamnb.engine.labels.batches import LabelBatch
from streamnb.engine.labels.interner import Interner
from streamnb.engine.labels.label_block import NONE, SEVERAL
from streamnb.engine.labels.label_buffer import LabelBuffer
from streamnb.engine.labels.source_labels import ResolvedLabel, SourceLabel
from streamnb.engine.ports import Partition
from streamnb.kernels.array_types import Ints
from streamnb.values.example_weights import HEAVIEST

MOST_SOURCES_IN_ALL = 1000
_HEAVIEST = float(HEAVIEST)


class SourceLabelStore:
    """Source labels of each waiting event.

    Args:
        pending: the waiting events.
        names: interned classes, whose numbers `pending` stores.

    Attributes:
        sources: interned sources.
        partitions: interned partitions of label records.
        by_source: source -> number of its label records.
    """

    def __init__(self, pending: LabelBuffer, names: Interner[str]) -> None:
        self._pending, self._names = pending, names
        self.sources: Interner[str] = Interner()
        self.partitions: Interner[Partition] = Interner()
        self.by_source: Counter[str] = Counter()

    def intern(self, batch: LabelBatch, shares: Mapping[str, float]) -> None:
        """Add the columns of numbers to label records; `shares` are weight factors of sources, default 1."""
        names = batch.source_names
        for source in dict.fromkeys(names):
            if len(self.sources) < MOST_SOURCES_IN_ALL:
                self.sources[source]
        self.by_source.update(filter(self.sources.__contains__, names))
        times: Any = batch.given_times
        if None in times:
            times = [t if ts is None else ts for ts, t in zip(times, batch.times.tolist(), strict=True)]
        weights = np.array(batch.given_weights, dtype=np.float64)
        if shares:
            weights *= [shares.get(source, 1.0) for source in names]
        batch.sources = np.array([self.sources.get(source, NONE) for source in names])
        batch.said_at = np.array(times, dtype=np.float64)
        batch.partitions = np.array([self.partitions[record.partition] for record in batch.records])
        batch.offsets = np.array([record.offset for record in batch.records])
        batch.weights = np.minimum(weights, _HEAVIEST)

    def has_room(self, source: str, n_more: int) -> bool:
        """Return if a source is interned, or can be after `n_more` others."""
        return source in self.sources or len(self.sources) + n_more < MOST_SOURCES_IN_ALL

    def label_at(self, batch: LabelBatch, row: int) -> SourceLabel:
        """Return one row of interned label records; its source must be interned."""
        return SourceLabel(
            self.sources.names[batch.sources[row]],
            batch.said_at[row].item(),
            batch.labels[row],
            batch.weights[row].item(),
            self.partitions.names[batch.partitions[row]],
            batch.offsets[row].item(),
        )

    def truth_of(self, number: int) -> ResolvedLabel | None:
        """Return the resolved label of an event."""
        chunk, at = self._pending.at(number)
        label = int(chunk.columns["label"][at])
        weight = float(chunk.columns["weight"][at])
        return None if label == NONE else ResolvedLabel(self._names.names[label], weight)

    def labels_of(self, number: int) -> tuple[SourceLabel, ...]:
        """Return all source labels of an event."""
        chunk, at = self._pending.at(number)
        source = int(chunk.columns["source"][at])
        if source == SEVERAL:
            return chunk.said[at]
        if source == NONE:
            return ()
        label = int(chunk.columns["label"][at])
        said_at, weight = float(chunk.columns["said_at"][at]), float(chunk.columns["weight"][at])
        name = None if label == NONE else self._names.names[label]
        partition = self.partitions.names[int(chunk.columns["partition"][at])]
        offset = int(chunk.columns["offset"][at])
        return (SourceLabel(self.sources.names[source], said_at, name, weight, partition, offset),)

    def _interned(self, said: SourceLabel) -> SourceLabel:
        """Return an equal label that shares its strings."""
        label = None if said.label is None else self._names.names[self._names[said.label]]
        return said._replace(
            source=self.sources.names[self.sources[said.source]],
            label=label,
            partition=self.partitions.names[self.partitions[said.partition]],
        )

    def write(
        self,
        numbers: Ints,
        said: Sequence[tuple[SourceLabel, ...]],
        truths: Sequence[ResolvedLabel | None],
        prunings: int,
    ) -> None:
        """Store the source labels of events and their resolved labels."""
        self._pending.write(
            numbers,
            label=[NONE if truth is None else self._names[truth.label] for truth in truths],
            weight=[(truth or one[0]).weight for one, truth in zip(said, truths, strict=True)],
            source=[SEVERAL if len(one) > 1 else self.sources[one[0].source] for one in said],
            said_at=[one[0].time for one in said],
            partition=[self.partitions[one[0].partition] for one in said],
            offset=[one[0].offset for one in said],
            pruned=prunings,
        )
        for number, one in zip(numbers.tolist(), said, strict=True):
            if len(one) > 1:
                chunk, at = self._pending.at(number)
                chunk.said[at] = tuple(map(self._interned, one))

    def move(self, number: int, said: tuple[SourceLabel, ...]) -> None:
        """Store a repeated label: only its record's position changes."""
        chunk, at = self._pending.at(number)
        one = np.array([number])
        if len(said) > 1:
            chunk.said[at] = tuple(map(self._interned, said))
        partition = self.partitions[said[0].partition]
        self._pending.write(one, partition=partition, offset=said[0].offset)
