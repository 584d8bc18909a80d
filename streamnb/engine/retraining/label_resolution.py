"""What holds in the end of every event of a stream, and a model that learned just that.

Two passes over what a journal processed. The first hears events and verdicts as the learner did, teaches
nothing, and notes of each event the label that holds at its end. The second learns the events again, each
with that label, as if it had been in the event from the beginning.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from streamnb.engine.labels.batches import EventBatch
from streamnb.engine.labels.interner import Interner
from streamnb.engine.labels.label_block import NONE, LabelBlock
from streamnb.engine.ports import NewRecord, Partition, Record
from streamnb.engine.processing.event_processor import EventProcessor
from streamnb.engine.processing.retrained_model import Offsets, RetrainedModel
from streamnb.engine.settings import Settings
from streamnb.errors import MalformedEvent
from streamnb.events import Event
from streamnb.models.interface.predictions import Posteriors
from streamnb.models.interface.stream_model import Events, Labels, StreamModel
from streamnb.models.naive_bayes.naive_bayes_classifier import NaiveBayes
from streamnb.values.type_aliases import Times, Weights

Chosen = Callable[[Event, Record], bool]
"""Whether an event is to be forgotten."""


class _WithoutLearning(NaiveBayes):
    """A model that labels teach nothing but that they are there: a label too many is refused as it was."""

    def learn_late_many(
        self, xs: Events, ys: Labels, ws: Weights = None, ts: Times = None, *, again: bool = False
    ) -> None:
        """Their labels alone."""
        super().learn_late_many([{} for _ in xs], ys, ws, ts, again=again)

    def unlearn_many(self, *_: Any, **__: Any) -> None:
        """Nothing."""


class LabelResolution(EventProcessor):
    """Hears a stream as its learner did, and notes what holds of each event that was predicted.

    It takes about 26 bytes an event.

    Args:
        settings: of the learner.
        forgotten: events that the learner has forgotten.

    Attributes:
        places, offsets: of each event in the order of the stream, the number of its partition; its offset.
        labels: number of its label in `names`, or `NONE`.
        weights: of its label.
    """

    def __init__(self, settings: Settings, forgotten: Offsets) -> None:
        super().__init__(replace(settings, evidence=0, decision=None), _WithoutLearning())
        self.places, self.offsets = array("H"), array("q")
        self.labels, self.weights = array("i"), array("d")
        self._names: Interner[str] = Interner()
        self._places: Interner[Partition] = Interner()
        self._forgotten = forgotten
        self.base = 0  # events before the first that waited for labels

    @property
    def names(self) -> list[str]:
        """Of labels, by their numbers."""
        return self._names.names

    @property
    def partitions(self) -> list[Partition]:
        """Those that events came from, by their numbers."""
        return self._places.names

    def waiting(self, places: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """The numbers under which events wait, of those that ever did."""
        return places[places >= self.base] - self.base

    def at(self, forgotten: Offsets) -> npt.NDArray[np.int64]:
        """The places of events in the order of the stream, by their offsets."""
        which = np.frombuffer(self.places, dtype=np.uint16), np.frombuffer(self.offsets, dtype=np.int64)
        found = np.zeros(len(self.places), dtype=np.bool_)
        for partition, offsets in forgotten.items():
            number = self._places.get(partition)
            if number is not None:
                found |= (which[0] == number) & np.isin(which[1], offsets)
        return np.flatnonzero(found)

    def finish(self) -> None:
        """Note what holds of those that wait still."""
        self._note(self._chunks())

    def reconfigure(self, settings: Settings, model: StreamModel, *, counts_room: bool = True) -> None:  # noqa: ARG002  it keeps its own model
        """Go on under other settings."""
        self.finish()
        is_first = self.late is None or not self.consumed
        super().reconfigure(replace(settings, evidence=0, decision=None), self.model, counts_room=counts_room)
        if self.late is not None and is_first:
            self.base = len(self.places)

    def install_model(self, rebuilt: Callable[[], RetrainedModel], model: StreamModel | None = None) -> None:  # noqa: ARG002
        """Forget what was forgotten there, or later."""
        if self.late is not None:
            self.late.pending.redact(self.waiting(self.at(self._forgotten)))

    def _process_slice(
        self, records: Sequence[Record], now: float, alive: Callable[[], None], most_bytes: float
    ) -> list[NewRecord]:
        seen = self._chunks()
        made = super()._process_slice(records, now, alive, most_bytes)
        left = self._chunks()  # nothing changes any more what holds of events that wait no longer
        self._note({first: chunk for first, chunk in seen.items() if first not in left})
        return made

    def _predict_then_learn(self, arrived: EventBatch, now: float) -> Iterable[NewRecord]:  # noqa: ARG002
        events, records, _, _ = arrived
        for record in records:
            self.places.append(self._places[record.partition])
            self.offsets.append(record.offset)
        if self.late is None:
            labels, weights = [event.label for event in events], [event.weight for event in events]
            self.labels.extend(NONE if label is None else self._names[label] for label in labels)
            self.weights.extend(weights)
            self.model.learn_late_many(events, labels, weights)
            return ()
        self.labels.extend([NONE] * len(events))
        self.weights.extend([0.0] * len(events))
        said = self.late.source_labels_before(arrived)
        nothing = Posteriors([], np.zeros((len(events), 0)), np.zeros(len(events), dtype=np.int64))
        truths = list(map(self.late.resolve, said))
        weights = [one.weight if one else 0.0 for one in truths]
        self.model.learn_late_many(events, [one and one.label for one in truths], weights)
        self.late.serve(arrived, said, truths, nothing, [0] * len(events), self.model)
        return ()

    def _chunks(self) -> dict[int, LabelBlock]:
        return {} if self.late is None else self.late.pending.blocks()

    def _note(self, chunks: Mapping[int, LabelBlock]) -> None:
        for first, chunk in chunks.items():
            assert self.late is not None  # noqa: S101  there are chunks
            names = self.late.scoring.names.names
            columns = (chunk.columns[name][: chunk.size].tolist() for name in ("label", "weight"))
            for place, (label, weight) in enumerate(zip(*columns, strict=True), self.base + first):
                self.labels[place] = NONE if label == NONE else self._names[names[label]]
                self.weights[place] = weight


class RetrainingProcessor(EventProcessor):
    """Learns the events of a stream with the labels that hold of them in the end.

    Labels that were admitted when they came are admitted, however few there may be now.

    Args:
        settings: of the learner.
        model: fresh.
        truths: what holds.
        forgotten: events to be left out.
        chosen: which others are left out, too.

    Attributes:
        left_out: partition -> offsets of all that were left out.
        prunings: of each event, how often the model had been pruned when it was learned.
        learned: events learned.
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
        self._waiting: dict[tuple[Partition, int], int] = {}  # events that were read, and are not learned yet
        self.learned = 0

    def reconfigure(self, settings: Settings, model: StreamModel, *, counts_room: bool = True) -> None:
        """Its own hold from the beginning, whatever held then."""

    def install_model(self, rebuilt: Callable[[], RetrainedModel], model: StreamModel | None = None) -> None:
        """What was learned anew before is no other than what this learns."""

    def _decode(self, record: Record) -> Event:
        """The event with the label that holds; one that was not predicted, or is left out, is refused."""
        truths, at = self._truths, self._at
        is_next = (
            at < len(truths.offsets)
            and truths.offsets[at] == record.offset
            and truths.partitions[truths.places[at]] == record.partition
        )
        if not is_next:
            raise MalformedEvent("not-predicted", "$", "")
        self._at += 1
        self.prunings.append(0)
        event = super()._decode(record)
        if self._chosen(event, record) or record.offset in self._forgotten.get(record.partition, ()):
            self.left_out.setdefault(record.partition, []).append(record.offset)
            raise MalformedEvent("left-out", "$", "")
        self._waiting[record.partition, record.offset] = at
        if truths.late is None:  # by its own, under the names of now; what waits keeps that of then
            return event
        label = truths.labels[at]
        name = None if label == NONE else truths.names[label]
        return msgspec.structs.replace(event, label=name, weight=truths.weights[at] if name else 1.0)

    def _predict_then_learn(self, arrived: EventBatch, now: float) -> Iterable[NewRecord]:  # noqa: ARG002
        events, before = arrived.events, self._n_learned
        for record in arrived.records:  # words may be forgotten between two events that were read together
            self.prunings[self._waiting.pop((record.partition, record.offset))] = self.model.n_prunings
        self.model.predict_then_learn_many(
            [event.x for event in events],
            [event.label for event in events],
            [event.weight for event in events],
            [event.ts for event in events],
        )
        self.learned += self._n_learned - before
        self._prune(before)
        return ()

    @property
    def refused(self) -> int:
        """How many events have a label for which the model has no room."""
        return len(self._waiting)
