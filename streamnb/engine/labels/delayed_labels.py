"""Labels that arrive separately from their events: match, learn, unlearn and score them.

An event is predicted when it arrives. A later label is scored against the served prediction, and the model
learns it with the attributes the event had then. If the label in force changes (see `source_labels`), the
earlier learning and score are reversed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from typing import Any

import msgspec
import numpy as np

from streamnb.engine.labels.batches import EventBatch, LabelBatch, LabelBatchResult, timestamps
from streamnb.engine.labels.delay_scores import DelayScoring
from streamnb.engine.labels.label_application import SEVERAL_BYTES, LabelApplication, revoke
from streamnb.engine.labels.label_block import WaitingEvents, kept_probabilities, lengths
from streamnb.engine.labels.label_buffer import ABSENT, DelayedLabelsCopy, LabelBuffer
from streamnb.engine.labels.retractions import Retractions
from streamnb.engine.labels.source_label_store import SourceLabelStore
from streamnb.engine.labels.source_labels import MOST_SOURCES, ResolvedLabel, SourceLabel, effective, holding
from streamnb.engine.labels.unmatched_labels import UnmatchedLabels
from streamnb.engine.labels.watermark import Watermark
from streamnb.engine.ports import Partition, Record
from streamnb.engine.settings import LabelSettings
from streamnb.events import Retraction
from streamnb.formats.codec import IN_EVENT
from streamnb.formats.snapshot_container import SnapshotPart
from streamnb.kernels.array_types import Floats, Ints
from streamnb.models.interface.stream_model import StreamModel
from streamnb.scoring.prequential_scores import ProgressiveValidation
from streamnb.scoring.revisable_scores import ServedScores
from streamnb.values.example_weights import HEAVIEST
from streamnb.values.state_validation import count, state_errors, tally
from streamnb.values.type_aliases import Codes

_OVERHEAD = 256  # bytes of a waiting event without its id and attributes
_EARLY = 8  # 1/8 of the memory is for labels before their events
_encode = msgspec.msgpack.Encoder().encode
_BLOCK, _MAX_REJECTIONS = 1000, 10  # at most 10 label dead letters in 1,000 records


class DelayedLabels:
    """Events that wait for labels, and the effects of the labels that arrived.

    Args:
        settings: retention, ranks and weights of labels.
        window: labelled events in the sliding window of scores.

    Attributes:
        pending: the waiting events.
        scoring: scores of their served predictions.
        served: events predicted so far.
        learned: events learned so far; never falls, unlike the model's own number.
        outcomes: outcome of label records -> count.
        store: source labels of waiting events.
        unmatched: labels before their events.
        retractions: retracted sources.
    """

    def __init__(self, settings: LabelSettings, window: int) -> None:
        self.settings = settings
        self.pending = LabelBuffer(Watermark(settings.window, settings.memory))
        self.scoring = DelayScoring(self.pending, window)
        self.served = self.learned = 0
        self.outcomes: Counter[str] = Counter()
        self.unmatched = UnmatchedLabels(settings.memory // _EARLY)
        self.store = SourceLabelStore(self.pending, self.scoring.names)
        self.retractions = Retractions(self.pending, self.store)
        self._prunings = 0  # of the model
        self._told = 0, 0  # block of records, its dead letters of labels

    @classmethod
    def after(
        cls, settings: LabelSettings, before: ProgressiveValidation, classes: Sequence[str]
    ) -> DelayedLabels:
        """Return the state of a stream whose labels so far were inside events; scores continue."""
        made = cls(settings, before.window_size)
        made.scoring.scores = ServedScores.after(before)
        made.served = made.learned = made.scoring.scores.events
        made.scoring.follow(classes)
        made.scoring.reserve(made.scoring.scores.n_classes)
        return made

    def apply_settings(self, settings: LabelSettings) -> None:
        """Apply changed settings; a smaller window expires events, a larger one revives none."""
        self.settings = settings
        self.pending.horizon.limit(settings.window, settings.memory)
        self.unmatched.memory = settings.memory // _EARLY

    def adopt(self, first: int, pruned: Codes, gone: Ints) -> None:
        """Follow an installed model; served predictions keep the class order of their own model.

        Args:
            first: number of an event.
            pruned: int32[n], the model's number of prunings when it learned each event from `first` on.
            gone: numbers of events to redact.
        """
        self.scoring.follow_other_model()
        self.pending.redact(gone)
        numbers = np.arange(first, min(first + pruned.size, self.pending.next))
        pruned = pruned[: numbers.size]
        if (self.pending.column("pruned", numbers.copy()) != pruned).any():
            self.pending.write(numbers, pruned=pruned)

    def join(self, batch: EventBatch) -> None:
        """Add the labels of arriving events, inside them or earlier, and the label in force of each."""
        share = self.settings.weights.get(IN_EVENT, 1.0)
        batch.source_labels = found = self._source_labels(batch, share)
        batch.resolved = truths = [self.resolve(one) if one else None for one in found]
        batch.labels = [truth and truth.label for truth in truths]
        batch.weights = [truth.weight if truth else 0.0 for truth in truths]

    def _source_labels(self, batch: EventBatch, share: float) -> list[tuple[SourceLabel, ...]]:
        if not len(self.unmatched) and not any(batch.labels):
            return [()] * len(batch)
        found, limits = [], batch.earliest.tolist()
        columns = batch.ids, batch.labels, batch.weights, batch.records, limits
        for event_id, label, weight, record, limit in zip(*columns, strict=True):
            said: tuple[SourceLabel, ...] = ()
            if len(self.unmatched):
                heard, time = self.unmatched.take(event_id)
                if time < limit:
                    self.outcomes["unknown"] += len(heard)
                    heard = ()
                said = tuple(one for one in heard if not self.retractions.cover(one))
                self.outcomes["early"] += len(said)
            if label is not None:
                self.store.by_source[IN_EVENT] += 1
                shared = min(weight * share, float(HEAVIEST))
                own = record.timestamp, label, shared, record.partition, record.offset
                said = (*said, SourceLabel(IN_EVENT, *own))
            found.append(said)
        return found

    @property
    def awaited(self) -> int:
        """Number of events that have labels but have not arrived."""
        return len(self.unmatched)

    def labels_before(self, event_id: str) -> set[str | None]:
        """Return the labels that arrived before their event; None among them is a retraction."""
        return {one.label for one in self.unmatched.labels_of(event_id)}

    def resolve(self, said: tuple[SourceLabel, ...]) -> ResolvedLabel | None:
        """Return the label in force among source labels."""
        return effective(said, self.settings.ranks)

    def source_labels_of(self, event_id: str, time: float | None = None) -> tuple[SourceLabel, ...] | None:
        """Return source labels of an id's newest event, the winner first; None if not kept."""
        anytime = np.array([-np.inf]), np.array([np.iinfo(np.int64).min])
        numbers = self.pending.find([event_id.encode()], *anytime)
        if numbers[0] == ABSENT or time not in {None, self.pending.column("time", numbers.copy())[0]}:
            return None
        return self._winner_first(int(numbers[0]))

    def source_labels_of_all(self, ids: Sequence[str]) -> list[tuple[SourceLabel, ...] | None]:
        """Return `source_labels_of` of each id, with one search for all."""
        anytime = np.full(len(ids), -np.inf), np.full(len(ids), np.iinfo(np.int64).min)
        numbers = self.pending.find([one.encode() for one in ids], *anytime).tolist()
        return [None if number == ABSENT else self._winner_first(number) for number in numbers]

    def _winner_first(self, number: int) -> tuple[SourceLabel, ...]:
        said = self.store.labels_of(number)
        best = holding(said, self.settings.ranks)
        return tuple(sorted(said, key=lambda one: one is not best))

    def refused_sources(self, labels: Iterable[tuple[str, str]]) -> list[bool]:
        """Return which labels would have one source too many if they arrived next, in this order.

        Args:
            labels: event id and source of each.
        """
        refused, more = [], set[str]()
        of_event: dict[str, set[str]] = {}
        for event_id, source in labels:
            if event_id not in of_event:
                said = self.source_labels_of(event_id) or self.unmatched.labels_of(event_id)
                of_event[event_id] = {one.source for one in said} - {IN_EVENT}
            has_room = source in more or self.store.has_room(source, len(more))
            if has_room and source not in self.store.sources:
                more.add(source)
            sources = of_event[event_id]
            has_room = has_room and (source in sources or len(sources) < MOST_SOURCES)
            if has_room:
                sources.add(source)
            refused.append(not has_room)
        return refused

    def serve(self, batch: EventBatch, model: StreamModel) -> None:
        """Buffer predicted events, and score those with a resolved label, which are already learned."""
        said, truths, posteriors = batch.source_labels, batch.resolved, batch.predicted.posteriors
        # Intern in arrival order, before the model's classes, so that batching cannot change the numbers.
        self.scoring.columns_of([one.label for some in said for one in some if one.label is not None])
        self._follow(model)
        horizon = self.pending.horizon
        ids, xs = [event_id.encode() for event_id in batch.ids], list(map(_encode, batch.xs))
        told = [i for i, one in enumerate(said) if one]
        sizes = _sizes(ids, xs)
        for i in told:
            sizes[i] += (len(said[i]) - 1) * SEVERAL_BYTES
        columns = {
            "ts": np.array([np.nan if ts is None else ts for ts in batch.times]),
            "time": timestamps(batch.records),
            "place": horizon.taken + np.cumsum(sizes) - sizes,
            "age": np.array(batch.ages),
            "known": posteriors.known,
        }
        kept = kept_probabilities(posteriors.probabilities, posteriors.known)
        first = self.pending.append(WaitingEvents(ids, xs, kept, columns))
        horizon.took(int(sizes.sum()))
        if self.scoring.decisions is not None and batch.predicted.decisions is not None:
            self.scoring.decisions.serve(batch.predicted.decisions)
        self.served += len(batch)
        if told:
            self.learned += sum(truth is not None and truth.weight > 0.0 for truth in truths)
            some = [said[i] for i in told], [truths[i] for i in told]
            self.store.write(first + np.array(told), *some, self._prunings)
            judged = np.flatnonzero([truth is not None for truth in truths])
            labels = self.scoring.columns_of([truth.label for truth in truths if truth is not None])
            self.scoring.count(first + judged, np.array(labels, dtype=np.int64), np.zeros_like(judged))

    def first_repeat(self, batch: EventBatch) -> int:
        """Return the index of the first event whose id waits already or repeats; else their number."""
        if self.settings.repeats == "learn":
            return len(batch)
        ids, earliest = [event_id.encode() for event_id in batch.ids], batch.earliest
        least = self.pending.horizon.taking(_sizes(ids, list(map(_encode, batch.xs))))
        for stop in (1, len(ids)):  # the common case: the next event is the repeat
            waits = self.pending.find(ids[:stop], earliest[:stop], least[:stop])
            met: set[bytes] = set()
            for place, (event_id, number) in enumerate(zip(ids, waits.tolist(), strict=False)):
                if number != ABSENT or event_id in met:
                    return place
                if event_id.decode() in self.unmatched:  # its source labels take memory: process it alone
                    return max(place, 1)
                met.add(event_id)
        return len(batch)

    def may_publish_rejection(self, consumed: int) -> bool:
        """Return if another rejected label may become a dead letter: ten in 1,000 records."""
        block, told = self._told
        told = told if block == consumed // _BLOCK else 0
        self._told = consumed // _BLOCK, told + 1
        return told < _MAX_REJECTIONS

    def passed(self, times: Floats) -> None:
        """Advance the watermark by processed records of these timestamps."""
        self.pending.horizon.passed(times)
        self.pending.drop()

    def take(
        self, batch: LabelBatch, model: StreamModel, heartbeat: Callable[[], None] = lambda: None
    ) -> LabelBatchResult:
        """Apply label records in order; call `heartbeat` now and then, as this may take long."""
        self._follow(model)
        return LabelApplication(self, model, heartbeat).apply(batch)

    def retract(self, withdrawal: Retraction, record: Record) -> bool:
        """Revoke labels of a source, for `work` to visit; return False beyond the maximum of sources."""
        return self.retractions.add(withdrawal, record)

    @property
    def by_source(self) -> Mapping[str, int]:
        """Source -> number of its label records."""
        return self.store.by_source

    @property
    def fullness(self) -> float:
        """Used share of the memory for labels before their events."""
        return self.unmatched.fullness

    @property
    def has_work(self) -> bool:
        """True while a retraction has waiting events to visit."""
        return self.retractions.has_work

    def work(self, model: StreamModel) -> None:
        """Remove the labels of a retracted source from the next few hundred waiting events."""
        if self.has_work:
            self._follow(model)
            numbers = self.retractions.next_events()
            revoke(self, model, numbers)
            self.retractions.visited(numbers)

    def copying(self, held: Container[str]) -> DelayedLabelsCopy:
        """Return a consistent copy of the state; blobs in `held` are stored already."""
        meta = {
            "horizon": self.pending.horizon.state(),
            "next": self.pending.next,
            "served": self.served,
            "learned": self.learned,
            "told": list(self._told),
            "outcomes": dict(self.outcomes),
            "by_source": dict(self.store.by_source),
            **self.scoring.state(),
            "sources": list(self.store.sources),
            "partitions": [list(partition) for partition in self.store.partitions],
            **self.retractions.state(),
        }
        early, scores = msgspec.msgpack.encode(self.unmatched.state()), self.scoring.scores.state()
        return DelayedLabelsCopy(meta, early, SnapshotPart(*scores), self.pending.copying(held))

    @classmethod
    def from_state(
        cls,
        settings: LabelSettings,
        parts: Mapping[str, SnapshotPart],
        segments: Mapping[str, bytes],
        classes: Sequence[Any],
    ) -> DelayedLabels:
        """Restore from snapshot parts. Raises SnapshotError if they are invalid."""
        made = cls(settings, 1)
        with state_errors("labels that come late", ValueError, msgspec.MsgspecError):
            meta = parts["labels"].meta
            made.scoring.scores = ServedScores.from_state(*parts["progressive"])
            made.pending.horizon.load(meta["horizon"])
            made.pending.load(meta["chunks"], segments, count(meta, "next"))
            made.served, made.learned = count(meta, "served"), count(meta, "learned")
            block, told = meta["told"]
            made._told = int(block), int(told)
            made.outcomes, made.store.by_source = tally(meta, "outcomes"), tally(meta, "by_source")
            made.unmatched.load(segments[meta["early"]])
            made.scoring.load(meta)
            for source in msgspec.convert(meta["sources"], list[str]):
                made.store.sources[source]
            for partition in msgspec.convert(meta["partitions"], list[Partition]):
                made.store.partitions[partition]
            made.retractions.load(meta)
            scoring, store = made.scoring, made.store
            sizes = len(scoring.names), len(store.sources), len(store.partitions), len(scoring.delays)
            for chunk in made.pending.blocks().values():
                chunk.check(*sizes)
        made.scoring.follow(classes)
        return made

    def _follow(self, model: StreamModel) -> None:
        self._prunings = model.n_prunings
        self.scoring.follow(model.classes)


def _sizes(ids: Sequence[bytes], xs: Sequence[bytes]) -> Ints:
    """Return the accounted bytes of waiting events: an upper bound of their memory."""
    return _OVERHEAD + lengths(ids) + lengths(xs)
