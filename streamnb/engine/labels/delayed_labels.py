"""Labels that arrive separately from their events: match, learn, unlearn and score them.

An event is predicted when it arrives. A later label is scored against the served prediction, and the model
learns it with the attributes the event had then. If the label in force changes (see `source_labels`), the
earlier learning and score are reversed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

import msgspec
import numpy as np

from streamnb.engine.labels.batches import (
    EventBatch,
    FirstLabel,
    LabelBatch,
    LabelBatchResult,
    LabelColumns,
    RejectedLabel,
)
from streamnb.engine.labels.delay_scores import DELAYS, DelayScoring
from streamnb.engine.labels.label_block import NONE, SEVERAL, WaitingEvents, kept_probabilities, lengths
from streamnb.engine.labels.label_buffer import ABSENT, DelayedLabelsCopy, LabelBuffer
from streamnb.engine.labels.model_updater import ModelUpdater
from streamnb.engine.labels.revoked_intervals import RevokedIntervals
from streamnb.engine.labels.source_label_store import SourceLabelStore
from streamnb.engine.labels.source_labels import (
    MOST_SOURCES,
    ResolvedLabel,
    SourceLabel,
    effective,
    holding,
    merged,
)
from streamnb.engine.labels.unmatched_labels import DroppedLabels, UnmatchedLabels
from streamnb.engine.labels.watermark import Watermark
from streamnb.engine.ports import Partition, Record
from streamnb.engine.settings import LabelSettings
from streamnb.events import Event, LabelRecord, Retraction
from streamnb.formats.codec import IN_EVENT, encode_label
from streamnb.formats.snapshot_container import SnapshotPart
from streamnb.kernels.array_types import Floats, Ints
from streamnb.models.interface.predictions import Posteriors
from streamnb.models.interface.stream_model import StreamModel
from streamnb.scoring.decision_rule import DecisionBatch
from streamnb.scoring.prequential_scores import ProgressiveValidation
from streamnb.scoring.revisable_scores import NOTHING, RevisableScore, ServedScores
from streamnb.values.example_weights import UNIT
from streamnb.values.state_validation import count, state_errors, tally
from streamnb.values.type_aliases import Codes, Flags

_TOO_MANY = "too-many-sources"
_OVERHEAD = 256  # bytes of a waiting event without its id and attributes
_EARLY = 8  # 1/8 of the memory is for labels before their events
_SEVERAL_BYTES = 800  # bytes of each further source label of an event
_SWEPT = 256  # events in each step of a retraction
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
    """

    def __init__(self, settings: LabelSettings, window: int) -> None:
        self.settings = settings
        self.pending = LabelBuffer(Watermark(settings.window, settings.memory))
        self.scoring = DelayScoring(self.pending, window)
        self.served = self.learned = 0
        self.outcomes: Counter[str] = Counter()
        self._early = UnmatchedLabels(settings.memory // _EARLY)
        self._sayings = SourceLabelStore(self.pending, self.scoring.names)
        self._voids = RevokedIntervals()
        # Retracted source -> next event number to visit; its complement (~) if another full pass must follow.
        self._sweeps: dict[str, int] = {}
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
        self._early.memory = settings.memory // _EARLY

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

    def source_labels_before(self, arrived: EventBatch) -> list[tuple[SourceLabel, ...]]:
        """Return the source labels of each arriving event: its own, and those that arrived before it."""
        events, records, _, earliest = arrived
        if not len(self._early) and not any(event.label for event in events):
            return [()] * len(events)
        weight = self.settings.weights.get(IN_EVENT, 1.0)
        found = []
        for event, record, limit in zip(events, records, earliest.tolist(), strict=True):
            said: tuple[SourceLabel, ...] = ()
            if len(self._early):
                heard, time = self._early.take(event.id)
                if time < limit:
                    self.outcomes["unknown"] += len(heard)
                    heard = ()
                said = tuple(one for one in heard if not self._voids.cover(one))
                self.outcomes["early"] += len(said)
            if event.label is not None:
                self._sayings.by_source[IN_EVENT] += 1
                said = (*said, self._in_event(event, record, weight))
            found.append(said)
        return found

    @staticmethod
    def _in_event(event: Event, record: Record, share: float) -> SourceLabel:
        """Return the label inside an event, weighted by the `share` of its source."""
        weight = event.weight * share
        return SourceLabel(IN_EVENT, record.timestamp, event.label, weight, record.partition, record.offset)

    @property
    def awaited(self) -> int:
        """Number of events that have labels but have not arrived."""
        return len(self._early)

    def labels_before(self, event_id: str) -> set[str | None]:
        """Return the labels that arrived before their event; None among them is a retraction."""
        return self._early.labels(event_id)

    def resolve(self, said: tuple[SourceLabel, ...]) -> ResolvedLabel | None:
        """Return the label in force among source labels."""
        return effective(said, self.settings.ranks)

    def source_labels_of(self, event_id: str, time: float | None = None) -> tuple[SourceLabel, ...] | None:
        """Return source labels of an id's newest event, the winner first; None if not kept."""
        anytime = np.array([-np.inf]), np.array([np.iinfo(np.int64).min])
        numbers = self.pending.find([event_id.encode()], *anytime)
        if numbers[0] == ABSENT or time not in {None, self.pending.column("time", numbers.copy())[0]}:
            return None
        said = self._sayings.labels_of(int(numbers[0]))
        best = holding(said, self.settings.ranks)
        return tuple(sorted(said, key=lambda one: one is not best))

    def has_no_room(self, source: str, said: Sequence[SourceLabel] | None) -> bool:
        """Return if a label of this source would be rejected, on an event with these labels."""
        is_of_event = any(one.source == source for one in said or ())
        return not self._sayings.has_room(source) or (not is_of_event and len(said or ()) >= MOST_SOURCES)

    def serve(
        self,
        arrived: EventBatch,
        said: Sequence[tuple[SourceLabel, ...]],
        truths: Sequence[ResolvedLabel | None],
        posteriors: Posteriors,
        ages: Sequence[int],
        model: StreamModel,
        decided: DecisionBatch | None = None,
    ) -> None:
        """Buffer predicted events, and score those with a resolved label, which are already learned."""
        events = arrived.events
        # Intern in arrival order, before the model's classes, so that batching cannot change the numbers.
        self.scoring.columns_of([one.label for some in said for one in some if one.label is not None])
        self._follow(model)
        horizon = self.pending.horizon
        ids, xs = [event.id.encode() for event in events], [_encode(event.x) for event in events]
        told = [i for i, one in enumerate(said) if one]
        sizes = _sizes(ids, xs)
        for i in told:
            sizes[i] += (len(said[i]) - 1) * _SEVERAL_BYTES
        columns = {
            "ts": np.array([np.nan if event.ts is None else event.ts for event in events]),
            "time": np.array([record.timestamp for record in arrived.records]),
            "place": horizon.taken + np.cumsum(sizes) - sizes,
            "age": np.array(ages),
            "known": posteriors.known,
        }
        kept = kept_probabilities(posteriors.probabilities, posteriors.known)
        first = self.pending.append(WaitingEvents(ids, xs, kept, columns))
        horizon.took(int(sizes.sum()))
        if self.scoring.decisions is not None and decided is not None:
            self.scoring.decisions.serve(decided)
        self.served += len(events)
        if told:
            self.learned += sum(truth is not None and truth.weight > 0.0 for truth in truths)
            some = [said[i] for i in told], [truths[i] for i in told]
            self._sayings.write(first + np.array(told), *some, self._prunings)
            judged = np.flatnonzero([truth is not None for truth in truths])
            labels = self.scoring.columns_of([truth.label for truth in truths if truth is not None])
            self.scoring.count(first + judged, np.array(labels, dtype=np.int64), np.zeros_like(judged))

    def first_repeat(self, events: Sequence[Event], earliest: Floats) -> int:
        """Return the index of the first event whose id waits already or repeats; else their number."""
        if self.settings.repeats == "learn":
            return len(events)
        ids = [event.id.encode() for event in events]
        least = self.pending.horizon.taking(_sizes(ids, [_encode(event.x) for event in events]))
        for stop in (1, len(ids)):  # the common case: the next event is the repeat
            waits = self.pending.find(ids[:stop], earliest[:stop], least[:stop])
            met: set[bytes] = set()
            for place, (event_id, number) in enumerate(zip(ids, waits.tolist(), strict=False)):
                if number != ABSENT or event_id in met:
                    return place
                if event_id.decode() in self._early:  # its source labels take memory: process it alone
                    return max(place, 1)
                met.add(event_id)
        return len(events)

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
        self, heard: LabelBatch, model: StreamModel, alive: Callable[[], None] = lambda: None
    ) -> LabelBatchResult:
        """Apply label records in order; call `alive` now and then, as this may take long."""
        self._follow(model)
        n = len(heard.labels)
        least = np.full(n, self.pending.horizon.least)
        ids = [verdict.id.encode() for verdict in heard.labels]
        found = self.pending.find(ids, heard.earliest, least)
        words = self._sayings.columns_of(heard, self.settings.weights)
        is_plain = self._plain(found, words)
        is_small = (words.weights > 0.0) & (words.weights < 1.0 / UNIT)
        taken = LabelBatchResult([], [], Counter(), int(np.count_nonzero(is_small)))
        teacher = ModelUpdater(self.pending, model, alive)
        at, limit = 0, self.pending.horizon.least
        while at < n:
            if self.pending.horizon.least > limit:  # labels of several sources take memory
                limit = self.pending.horizon.least
                self.pending.forget(found[at:], limit)
                is_plain &= found != ABSENT
            stop = at + 1
            if is_plain[at]:
                stop = at + int(np.append(is_plain[at:], False).argmin())
                taken.firsts.append(self._record_first_labels(found, words, heard, slice(at, stop), teacher))
            else:
                self._record_labels(int(found[at]), words, heard, at, teacher, taken)
            at = stop
        teacher.finish()
        self.learned += teacher.learned.total()
        taken.learned.update(teacher.learned)
        return taken

    def _plain(self, numbers: Ints, words: LabelColumns) -> Flags:
        """Return which label records are the first for a waiting event: those are applied in bulk."""
        found = np.flatnonzero(numbers != ABSENT)
        is_plain = np.zeros(numbers.size, dtype=np.bool_)
        if found.size:
            _, firsts = np.unique(numbers[found], return_index=True)
            firsts = found[firsts]
            is_plain[firsts] = self.pending.column("source", numbers[firsts]) == NONE
        is_plain &= words.sources != NONE
        if None in words.labels:
            is_plain &= [label is not None for label in words.labels]
        if self._voids.spans:
            for place in np.flatnonzero(is_plain).tolist():
                is_plain[place] = not self._voids.cover(self._sayings.label_at(words, place))
        return is_plain

    def _record_first_labels(
        self, numbers: Ints, words: LabelColumns, heard: LabelBatch, some: slice, teacher: ModelUpdater
    ) -> Iterable[FirstLabel]:
        """Apply first labels of distinct waiting events."""
        numbers, weights = numbers[some], words.weights[some]
        labels: Any = words.labels[some]
        truth = np.array(self.scoring.columns_of(labels))
        said = {"source": words.sources[some], "said_at": words.times[some]}
        lies = {"partition": words.partitions[some], "offset": words.offsets[some]}
        self.pending.write(numbers, label=truth, weight=weights, pruned=self._prunings, **said, **lies)
        teacher.learn_each(numbers, labels, weights)
        delays = _bucket(heard.times[some] - self.pending.column("time", numbers))
        self.outcomes["first"] += numbers.size
        score = self.scoring.count(numbers, truth, delays)
        return self._firsts(numbers, score, heard.labels[some], heard.places[some])

    def _firsts(
        self, numbers: Ints, score: RevisableScore, verdicts: Sequence[LabelRecord], places: Sequence[int]
    ) -> Iterable[FirstLabel]:
        ages = self.pending.column("age", numbers)
        columns = (column.tolist() for column in (score.truth, score.predicted, score.confidence, ages))
        for verdict, place, truth, predicted, confidence, age in zip(verdicts, places, *columns, strict=True):
            is_right = None if predicted == NOTHING else truth == predicted
            label = self.scoring.names.names[truth]
            yield FirstLabel(verdict.id, label, is_right, confidence, age, place)

    def _record_labels(
        self,
        number: int,
        words: LabelColumns,
        heard: LabelBatch,
        at: int,
        teacher: ModelUpdater,
        taken: LabelBatchResult,
    ) -> None:
        """Apply any single label record."""
        record, place = heard.records[at], heard.places[at]
        if words.sources[at] == NONE:
            self._refuse_source(taken, record, place)
            return
        said = self._sayings.label_at(words, at)
        if self._voids.cover(said):
            self.outcomes["source_withdrawn"] += 1
        elif number == ABSENT:
            event_id, earliest = heard.labels[at].id, heard.earliest[at].item()
            dropped = self._early.add(event_id, said, heard.times[at].item(), earliest)
            if dropped is None:
                self._refuse_source(taken, record, place)
            taken.refused.extend(self._not_taken(one, place) for one in dropped or ())
        else:
            before = self._sayings.labels_of(number)
            now = merged(before, said)
            if now is before:
                self.outcomes["repeated"] += 1
            elif any(map(said.repeats, before)):  # also if another record lies between the two
                self.outcomes["repeated"] += 1
                self._sayings.move(number, now)
            elif len(now) > MOST_SOURCES:
                self._refuse_source(taken, record, place)
            else:
                taken.firsts.append(self._change(number, now, teacher, heard, at))
                if len(now) > max(1, len(before)):
                    self.pending.horizon.took(_SEVERAL_BYTES)

    def _change(
        self,
        number: int,
        now: tuple[SourceLabel, ...],
        teacher: ModelUpdater,
        heard: LabelBatch | None = None,
        at: int = 0,
    ) -> Iterable[FirstLabel]:
        """Store the source labels `now` of an event; unlearn, learn and score the difference."""
        was, truth = self._sayings.truth_of(number), self.resolve(now)
        one = np.array([number])
        prunings = int(self.pending.column("pruned", one)[0])
        self._sayings.write(one, [now], [truth], self._prunings)
        if truth == was:
            self.pending.write(one, pruned=prunings)
            self.outcomes["outranked"] += heard is not None
            return ()
        teacher.correct(number, was, truth, prunings)
        before, after = (None if t is None else t.label for t in (was, truth))
        is_new = self.pending.column("score", one)[0] == NONE
        if is_new and after is not None and heard is not None:
            self.outcomes["first"] += 1
            delay = _bucket(heard.times[at] - self.pending.column("time", one))
            score = self.scoring.count(one, np.array(self.scoring.columns_of([after])), delay)
            return self._firsts(one, score, heard.labels[at : at + 1], heard.places[at : at + 1])
        self.outcomes["withdrawn" if after is None else "changed"] += heard is not None
        if before != after:
            self.scoring.replace(number, before, after)
        return ()

    def _refuse_source(self, taken: LabelBatchResult, record: Record, place: int) -> None:
        """Reject a label beyond the maximum number of sources, of its event or in total."""
        self.outcomes["too_many_sources"] += 1
        taken.refused.append(RejectedLabel(_TOO_MANY, record, place))

    def _not_taken(self, dropped: DroppedLabels, place: int) -> RejectedLabel:
        """Reject a label without an event, as it was written: without the weight of its source."""
        event_id, said = dropped
        share = self.settings.weights.get(said.source, 1.0)
        weight = said.weight / share if share else 1.0
        verdict = LabelRecord(event_id, said.label, said.source, weight, said.time)
        self.outcomes["unknown"] += 1
        return RejectedLabel(
            "unknown-event",
            Record(said.partition, said.offset, None, encode_label(verdict), said.time),
            place,
        )

    def retract(self, withdrawal: Retraction, record: Record) -> bool:
        """Revoke labels of a source, for `work` to visit; return False beyond the maximum of sources."""
        source, is_taken = withdrawal.source, self._voids.add(withdrawal, record)
        if is_taken and source in self._sayings.sources:
            at = self._sweeps.get(source, 0)
            self._sweeps[source] = at and min(at, ~at)
        return is_taken

    @property
    def by_source(self) -> Mapping[str, int]:
        """Source -> number of its label records."""
        return self._sayings.by_source

    @property
    def fullness(self) -> float:
        """Used share of the memory for labels before their events."""
        return self._early.fullness

    @property
    def has_work(self) -> bool:
        """True while a retraction has waiting events to visit."""
        return bool(self._sweeps)

    def work(self, model: StreamModel) -> None:
        """Remove the labels of a retracted source from the next few hundred waiting events."""
        if not self._sweeps:
            return
        self._follow(model)
        source, at = next(iter(self._sweeps.items()))
        numbers = list(islice(self._labels_by_source(source, max(at, ~at)), _SWEPT))
        teacher = ModelUpdater(self.pending, model, lambda: None)
        for number in numbers:
            before = self._sayings.labels_of(number)
            now = tuple(one._replace(label=None) if self._voids.cover(one) else one for one in before)
            if now != before:
                self.outcomes["source_withdrawn"] += 1
                self._change(number, now, teacher)
        teacher.finish()
        self.learned += teacher.learned.total()
        if len(numbers) == _SWEPT:
            self._sweeps[source] = ~(numbers[-1] + 1) if at < 0 else numbers[-1] + 1
        else:
            del self._sweeps[source]
            if at < 0:
                self._sweeps[source] = 0

    def _labels_by_source(self, source: str, first: int) -> Iterator[int]:
        """Yield the events from number `first` on that may have a label of a source."""
        wanted = self._sayings.sources.get(source, NONE)
        for begin, chunk, places in self.pending.waiting(first):
            heard = chunk.columns["source"][places]
            yield from (begin + places[(heard == wanted) | (heard == SEVERAL)]).tolist()

    def copying(self, held: Container[str]) -> DelayedLabelsCopy:
        """Return a consistent copy of the state; blobs in `held` are stored already."""
        meta = {
            "horizon": self.pending.horizon.state(),
            "next": self.pending.next,
            "served": self.served,
            "learned": self.learned,
            "told": list(self._told),
            "outcomes": dict(self.outcomes),
            "by_source": dict(self._sayings.by_source),
            **self.scoring.state(),
            "sources": list(self._sayings.sources),
            "partitions": [list(partition) for partition in self._sayings.partitions],
            "voids": self._voids.state(),
            "sweeps": [[source, first] for source, first in self._sweeps.items()],
        }
        early, scores = msgspec.msgpack.encode(self._early.state()), self.scoring.scores.state()
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
            made.outcomes, made._sayings.by_source = tally(meta, "outcomes"), tally(meta, "by_source")
            made._early.load(segments[meta["early"]])
            made.scoring.load(meta)
            for source in msgspec.convert(meta["sources"], list[str]):
                made._sayings.sources[source]
            for partition in msgspec.convert(meta["partitions"], list[Partition]):
                made._sayings.partitions[partition]
            made._voids.load(meta["voids"])
            made._sweeps = {source: int(first) for source, first in meta["sweeps"]}
            scoring, store = made.scoring, made._sayings
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


def _bucket(delays: Floats) -> Ints:
    buckets: Ints = 1 + np.searchsorted(DELAYS, delays, side="left")
    return buckets
