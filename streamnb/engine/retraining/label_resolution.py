"""Resolved labels of all events of a stream, and a processor that learns the events with them.

The first pass over a journal processes events and labels as the learner did, without learning, and records
the resolved label of each event. The second pass learns the events again, each as if it had carried that
label from the beginning.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from dataclasses import replace

import msgspec
import numpy as np

from streamnb.engine.labels.batches import EventBatch, PredictedBatch
from streamnb.engine.labels.interner import Interner
from streamnb.engine.labels.label_block import NONE, LabelBlock
from streamnb.engine.ports import Partition, Record
from streamnb.engine.processing.event_processor import EventProcessor
from streamnb.engine.processing.event_stages import JoinLabels, PruneModel
from streamnb.engine.processing.retrained_model import Offsets, RetrainedModel
from streamnb.engine.settings import Settings
from streamnb.errors import MalformedEvent
from streamnb.events import Event
from streamnb.formats.decoded_events import DecodedEvents
from streamnb.kernels.array_types import Ints
from streamnb.models.interface.predictions import Posteriors
from streamnb.models.interface.stream_model import StreamModel
from streamnb.models.registry import LABEL_COUNTS, load

Chosen = Callable[[Event, Record], bool]
"""Predicate of events to erase."""


class LabelResolution(EventProcessor):
    """Processor that records the resolved label of each predicted event, in about 26 bytes an event.

    Args:
        settings: of the learner.
        forgotten: events that the learner has erased.

    Attributes:
        places, offsets: interned partition and offset of each event, in stream order.
        labels: number of its label in `names`, or `NONE`.
        weights: weight of its label.
        names, partitions: interned labels, and interned partitions of the events.
    """

    def __init__(self, settings: Settings, forgotten: Offsets) -> None:
        super().__init__(replace(settings, evidence=0, decision=None), load(LABEL_COUNTS)())
        self.places, self.offsets = array("H"), array("q")
        self.labels, self.weights = array("i"), array("d")
        self._names: Interner[str] = Interner()
        self._places: Interner[Partition] = Interner()
        self.names, self.partitions = self._names.names, self._places.names
        self._forgotten = forgotten
        self.base = 0  # events before the first with delayed labels
        self.event_path.stages = (JoinLabels(self, self.admission), self._record)
        self._follow_buffer()

    def waiting(self, places: Ints) -> Ints:
        """Return the buffer numbers of events, without those from before delayed labels."""
        return places[places >= self.base] - self.base

    def at(self, forgotten: Offsets) -> Ints:
        """Return the stream indexes of events, given by their offsets."""
        which = np.frombuffer(self.places, dtype=np.uint16), np.frombuffer(self.offsets, dtype=np.int64)
        found = np.zeros(len(self.places), dtype=np.bool_)
        for partition, offsets in forgotten.items():
            number = self._places.get(partition)
            if number is not None:
                found |= (which[0] == number) & np.isin(which[1], offsets)
        return np.flatnonzero(found)

    def finish(self) -> None:
        """Record the labels of events that still wait."""
        for first, chunk in () if self.late is None else self.late.pending.blocks().items():
            self._note(first, chunk)

    def reconfigure(self, settings: Settings, model: StreamModel, *, counts_room: bool = True) -> None:  # noqa: ARG002  keeps its own model
        """Continue under other settings with the same model."""
        self.finish()
        is_first = self.late is None or not self.consumed
        super().reconfigure(replace(settings, evidence=0, decision=None), self.model, counts_room=counts_room)
        if self.late is not None and is_first:
            self.base = len(self.places)
        self._follow_buffer()

    def install_model(self, rebuilt: Callable[[], RetrainedModel], model: StreamModel | None = None) -> None:  # noqa: ARG002
        """Redact erased events."""
        if self.late is not None:
            self.late.pending.redact(self.waiting(self.at(self._forgotten)))

    def _record(self, batch: EventBatch) -> None:
        """Record events, and the labels of those whose label is inside them; learn the labels alone."""
        for record in batch.records:
            self.places.append(self._places[record.partition])
            self.offsets.append(record.offset)
        if self.late is None:
            self.labels.extend(NONE if label is None else self._names[label] for label in batch.labels)
            self.weights.extend(batch.weights)
        else:
            self.labels.extend([NONE] * len(batch))
            self.weights.extend([0.0] * len(batch))
        self.model.learn_late_many(batch.xs, batch.labels, batch.weights)
        if self.late is not None:
            n = len(batch)
            batch.predicted = PredictedBatch(Posteriors([], np.zeros((n, 0)), np.zeros(n, dtype=np.int64)))
            batch.ages = [0] * n
            self.late.serve(batch, self.model)

    def _follow_buffer(self) -> None:
        """Record labels when they become final, as their events expire."""
        if self.late is not None:
            self.late.pending.expired = self._note

    def _note(self, first: int, chunk: LabelBlock) -> None:
        assert self.late is not None  # noqa: S101  there are blocks
        names = self.late.scoring.names.names
        columns = (chunk.columns[name][: chunk.size].tolist() for name in ("label", "weight"))
        for place, (label, weight) in enumerate(zip(*columns, strict=True), self.base + first):
            self.labels[place] = NONE if label == NONE else self._names[names[label]]
            self.weights[place] = weight


class RetrainingProcessor(EventProcessor):
    """Processor that learns the events of a stream with their resolved labels.

    A label admitted in the first run is admitted again, even if fewer events have it now.

    Args:
        settings: of the learner.
        model: empty.
        truths: resolved labels.
        forgotten: events to leave out.
        chosen: predicate of further events to leave out.

    Attributes:
        left_out: partition -> offsets of all events left out.
        prunings: the model's number of prunings when it learned each event.
        learned: number of events learned.
    """

    def __init__(
        self,
        settings: Settings,
        model: StreamModel,
        truths: LabelResolution,
        forgotten: Offsets,
        chosen: Chosen,
    ) -> None:
        settings = replace(settings, labels=None, evidence=0, decision=None, max_classes=0)
        super().__init__(settings, model)
        self._truths = truths
        self._forgotten = {partition: set(offsets.tolist()) for partition, offsets in forgotten.items()}
        self._chosen = chosen
        self._at = 0
        self.left_out: dict[Partition, list[int]] = {}
        self.prunings = array("i")
        self._waiting: dict[tuple[Partition, int], int] = {}  # decoded, not learned yet
        self.learned = 0
        self._decode_own = self.event_path.decoding.decode_all
        self.event_path.decoding.decode_all = self._decode_resolved
        self.event_path.stages = (self._learn, PruneModel(self))

    def reconfigure(self, settings: Settings, model: StreamModel, *, counts_room: bool = True) -> None:
        """Do nothing: its settings hold for the whole stream."""

    def install_model(self, rebuilt: Callable[[], RetrainedModel], model: StreamModel | None = None) -> None:
        """Do nothing: an earlier retraining changes no label."""

    def _decode_resolved(self, records: Sequence[Record]) -> DecodedEvents:
        """Return events with their resolved labels; reject what was not predicted, or is left out."""
        return DecodedEvents.from_events(map(self._resolved, records, self._decode_own(records).events()))

    def _resolved(self, record: Record, event: Event | MalformedEvent) -> Event | MalformedEvent:
        truths, at = self._truths, self._at
        is_next = (
            at < len(truths.offsets)
            and truths.offsets[at] == record.offset
            and truths.partitions[truths.places[at]] == record.partition
        )
        if not is_next:
            return MalformedEvent("not-predicted", "$", "")
        self._at += 1
        self.prunings.append(0)
        if isinstance(event, MalformedEvent):
            return event
        if self._chosen(event, record) or record.offset in self._forgotten.get(record.partition, ()):
            self.left_out.setdefault(record.partition, []).append(record.offset)
            return MalformedEvent("left-out", "$", "")
        self._waiting[record.partition, record.offset] = at
        if truths.late is None:  # its own label, by the current aliases
            return event
        label = truths.labels[at]
        name = None if label == NONE else truths.names[label]
        return msgspec.structs.replace(event, label=name, weight=truths.weights[at] if name else 1.0)

    def _learn(self, batch: EventBatch) -> None:
        batch.learned_before = before = self.n_learned
        for record in batch.records:  # pruning may fall between two events of a batch
            self.prunings[self._waiting.pop((record.partition, record.offset))] = self.model.n_prunings
        self.model.predict_then_learn_many(batch.xs, batch.labels, batch.weights, batch.times)
        self.learned += self.n_learned - before

    @property
    def refused(self) -> int:
        """Number of events whose label exceeds the model's capacity."""
        return len(self._waiting)
