"""Labels that come apart from their events: what is learned, unlearned and scored for each.

An event is predicted when it comes. Whatever is said of it later is compared with what was served then, and
taught to the model with the attributes that the event had then. Of several verdicts the effective one counts,
see `verdicts`; where it changes, what was learned and scored before is taken back.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

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
from streamnb.engine.labels.label_buffer import ABSENT, LabelBuffer
from streamnb.engine.labels.label_state_copy import DelayedLabelsCopy
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
from streamnb.models.interface.predictions import Posteriors
from streamnb.models.interface.stream_model import StreamModel
from streamnb.scoring.decision_rule import DecisionBatch
from streamnb.scoring.prequential_scores import ProgressiveValidation
from streamnb.scoring.revisable_scores import NOTHING, RevisableScore, ServedScores
from streamnb.values.example_weights import UNIT
from streamnb.values.state_validation import count, state_errors, tally

_TOO_MANY = "too-many-sources"
_OVERHEAD = 256  # bytes of an event that waits, beside its id and attributes
_EARLY = 8  # one part in so many of the memory is for verdicts before their events
_SEVERAL_BYTES = 800  # of what one more source says of an event
_SWEPT = 256  # events worked through at once
_encode = msgspec.msgpack.Encoder().encode
_BLOCK, _TOLD = 1000, 10  # records, and how many verdicts among them become dead letters


class DelayedLabels:
    """What waits for labels, and what came of those that came.

    Args:
        settings: how they are taken.
        window: labelled events in the sliding window of scores.

    Attributes:
        pending: the events that wait.
        scoring: of what was served of them.
        served: events predicted so far.
        learned: events learned so far; unlike the model's own number it only grows.
        outcomes: what became of verdicts -> how many.
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
        # Source that was withdrawn -> the number of the event that is next; ~ that, where all come once more.
        self._sweeps: dict[str, int] = {}
        self._prunings = 0  # of the model, so far
        self._told = 0, 0  # verdicts that became dead letters in a block of records

    @classmethod
    def after(
        cls, settings: LabelSettings, before: ProgressiveValidation, classes: Sequence[str]
    ) -> DelayedLabels:
        """For a stream whose labels came in their events until now: what was scored goes on counting."""
        made = cls(settings, before.window_size)
        made.scoring.scores = ServedScores.after(before)
        made.served = made.learned = made.scoring.scores.events
        made.scoring.follow(classes)
        made.scoring.reserve(made.scoring.scores.n_classes)
        return made

    def apply_settings(self, settings: LabelSettings) -> None:
        """Go on under other settings; a smaller window ends more waits, a larger one revives none."""
        self.settings = settings
        self.pending.horizon.limit(settings.window, settings.memory)
        self._early.memory = settings.memory // _EARLY

    def adopt(self, first: int, pruned: npt.NDArray[np.int32], gone: npt.NDArray[np.int64]) -> None:
        """Go on with another model. What was served stays, by the classes that the one before knew.

        Args:
            first: number of an event.
            pruned: of each event from there on, how often the model had been pruned when it learned it.
            gone: numbers of events that wait no longer.
        """
        self.scoring.follow_other_model()
        self.pending.redact(gone)
        numbers = np.arange(first, min(first + pruned.size, self.pending.next))
        pruned = pruned[: numbers.size]
        if (self.pending.column("pruned", numbers.copy()) != pruned).any():
            self.pending.write(numbers, pruned=pruned)

    # -- events -------------------------------------------------------------------------------------------

    def source_labels_before(self, arrived: EventBatch) -> list[tuple[SourceLabel, ...]]:
        """What is said of each event as it comes: in itself, and by verdicts that came before it."""
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
        """Return what an event says of itself; its source counts `share` examples."""
        weight = event.weight * share
        return SourceLabel(IN_EVENT, record.timestamp, event.label, weight, record.partition, record.offset)

    @property
    def awaited(self) -> int:
        """Events of which labels speak, and that have not come."""
        return len(self._early)

    def labels_before(self, event_id: str) -> set[str | None]:
        """The labels that are said of an event that has not come."""
        return self._early.labels(event_id)

    def resolve(self, said: tuple[SourceLabel, ...]) -> ResolvedLabel | None:
        """What holds of what is said."""
        return effective(said, self.settings.ranks)

    def source_labels_of(self, event_id: str, time: float | None = None) -> tuple[SourceLabel, ...] | None:
        """What is said of the newest event of an id, if it is the one of this time; what holds comes first.

        None of an event that is kept no longer, or has not come.
        """
        anytime = np.array([-np.inf]), np.array([np.iinfo(np.int64).min])
        numbers = self.pending.find([event_id.encode()], *anytime)
        if numbers[0] == ABSENT or time not in {None, self.pending.column("time", numbers.copy())[0]}:
            return None
        said = self._sayings.labels_of(int(numbers[0]))
        best = holding(said, self.settings.ranks)
        return tuple(sorted(said, key=lambda one: one is not best))

    def has_no_room(self, source: str, said: Sequence[SourceLabel] | None) -> bool:
        """Return if a label of this source would be refused, on an event with these labels."""
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
        """Let events wait that were predicted, and learned where their truth is known; and score these."""
        events = arrived.events
        # As they came, whatever is processed together: before the classes that all of them made.
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
            self._sayings.write(
                first + np.array(told), [said[i] for i in told], [truths[i] for i in told], self._prunings
            )
            judged = np.flatnonzero([truth is not None for truth in truths])
            labels = self.scoring.columns_of([truth.label for truth in truths if truth is not None])
            self.scoring.count(
                first + judged, np.array(labels, dtype=np.int64), np.zeros(judged.size, dtype=np.int64)
            )

    def first_repeat(self, events: Sequence[Event], earliest: npt.NDArray[np.float64]) -> int:
        """The place of the first event whose id waits already, or is one before it; else their number."""
        if self.settings.repeats == "learn":
            return len(events)
        ids = [event.id.encode() for event in events]
        least = self.pending.horizon.taking(_sizes(ids, [_encode(event.x) for event in events]))
        for stop in (1, len(ids)):  # where the next one is, it is found at once
            waits = self.pending.find(ids[:stop], earliest[:stop], least[:stop])
            met: set[bytes] = set()
            for place, (event_id, number) in enumerate(zip(ids, waits.tolist(), strict=False)):
                if number != ABSENT or event_id in met:
                    return place
                if event_id.decode() in self._early:  # what is said of it takes memory: it goes alone
                    return max(place, 1)
                met.add(event_id)
        return len(events)

    def may_publish_rejection(self, consumed: int) -> bool:
        """Whether one more verdict that was not taken may become a dead letter: ten in a thousand records."""
        block, told = self._told
        told = told if block == consumed // _BLOCK else 0
        self._told = consumed // _BLOCK, told + 1
        return told < _TOLD

    def passed(self, times: npt.NDArray[np.float64]) -> None:
        """Records of these times have been processed."""
        self.pending.horizon.passed(times)
        self.pending.drop()

    # -- verdicts -----------------------------------------------------------------------------------------

    def take(
        self,
        heard: LabelBatch,
        model: StreamModel,
        alive: Callable[[], None] = lambda: None,
    ) -> LabelBatchResult:
        """What verdicts change, in order. That may take long: `alive` is called now and then."""
        self._follow(model)
        n = len(heard.labels)
        least = np.full(n, self.pending.horizon.least)
        ids = [verdict.id.encode() for verdict in heard.labels]
        found = self.pending.find(ids, heard.earliest, least)
        words = self._sayings.add_batch(heard, self.settings.weights)
        is_plain = self._plain(found, words)
        is_small = (words.weights > 0.0) & (words.weights < 1.0 / UNIT)
        taken = LabelBatchResult([], [], Counter(), int(np.count_nonzero(is_small)))
        teacher = ModelUpdater(self.pending, model, alive)
        at, limit = 0, self.pending.horizon.least
        while at < n:
            if self.pending.horizon.least > limit:  # what several sources say of an event takes memory
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

    def _plain(self, numbers: npt.NDArray[np.int64], words: LabelColumns) -> npt.NDArray[np.bool_]:
        """Which verdicts are the first word on an event that waits: most are, and are taken together."""
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
                is_plain[place] = not self._voids.cover(self._sayings.add(words, place))
        return is_plain

    def _record_first_labels(
        self,
        numbers: npt.NDArray[np.int64],
        words: LabelColumns,
        heard: LabelBatch,
        some: slice,
        teacher: ModelUpdater,
    ) -> Iterable[FirstLabel]:
        """The first verdicts on events that wait, of different ones."""
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
        self,
        numbers: npt.NDArray[np.int64],
        score: RevisableScore,
        verdicts: Sequence[LabelRecord],
        places: Sequence[int],
    ) -> Iterable[FirstLabel]:
        """What there is to tell of events that were scored for the first time."""
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
        """Any verdict."""
        record, place = heard.records[at], heard.places[at]
        if words.sources[at] == NONE:
            self._refuse_source(taken, record, place)
            return
        said = self._sayings.add(words, at)
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
            elif any(map(said.repeats, before)):  # another record may lie between the two
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
        """Let this be said of an event: unlearn, learn and score what is different by that."""
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
        """Count a label record whose source is one too many, for its event or in all."""
        self.outcomes["too_many_sources"] += 1
        taken.refused.append(RejectedLabel(_TOO_MANY, record, place))

    def _not_taken(self, dropped: DroppedLabels, place: int) -> RejectedLabel:
        """A verdict without an event.

        It is told as it was said, without what its source counts, so that it can be said again.
        """
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

    # -- sources that are withdrawn -----------------------------------------------------------------------

    def retract(self, withdrawal: Retraction, record: Record) -> bool:
        """Nothing counts any more of what a source said; events that wait are worked through by `work`.

        False, and nothing is changed, where more sources were withdrawn than are kept in mind.
        """
        source, is_taken = withdrawal.source, self._voids.add(withdrawal, record)
        if is_taken and source in self._sayings.sources:
            at = self._sweeps.get(source, 0)
            self._sweeps[source] = at and min(at, ~at)
        return is_taken

    @property
    def by_source(self) -> Mapping[str, int]:
        """Source -> its verdicts."""
        return self._sayings.by_source

    @property
    def fullness(self) -> float:
        """The share of the memory for verdicts before their events that is taken."""
        return self._early.fullness

    @property
    def has_work(self) -> bool:
        """Whether there are events left to be worked through."""
        return bool(self._sweeps)

    def work(self, model: StreamModel) -> None:
        """Take back what a withdrawn source said of some hundreds of events; otherwise as `take`."""
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
        """The events from number `first` on of which a source may have said something."""
        wanted = self._sayings.sources.get(source, NONE)
        for begin, chunk, places in self.pending.waiting(first):
            heard = chunk.columns["source"][places]
            yield from (begin + places[(heard == wanted) | (heard == SEVERAL)]).tolist()

    # -- state --------------------------------------------------------------------------------------------

    def copying(self, held: Container[str]) -> DelayedLabelsCopy:
        """All of it as it is now; blobs among `held` are stored already."""
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
        early = msgspec.msgpack.encode(self._early.state())
        return DelayedLabelsCopy(
            meta, early, SnapshotPart(*self.scoring.scores.state()), self.pending.copying(held)
        )

    @classmethod
    def from_state(
        cls,
        settings: LabelSettings,
        parts: Mapping[str, SnapshotPart],
        segments: Mapping[str, bytes],
        classes: Sequence[Any],
    ) -> DelayedLabels:
        """Go on from the parts of a snapshot. Raises SnapshotError where they are none of such a stream."""
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
            for chunk in made.pending.blocks().values():
                known = made._sayings
                chunk.check(
                    len(made.scoring.names),
                    len(known.sources),
                    len(known.partitions),
                    len(made.scoring.delays),
                )
        made.scoring.follow(classes)
        return made

    def _follow(self, model: StreamModel) -> None:
        """Know the classes of a model, and how often it was pruned."""
        self._prunings = model.n_prunings
        self.scoring.follow(model.classes)


def _sizes(ids: Sequence[bytes], xs: Sequence[bytes]) -> npt.NDArray[np.int64]:
    """What each event takes while it waits, as it is reckoned: never less than it does."""
    return _OVERHEAD + lengths(ids) + lengths(xs)


def _bucket(delays: npt.NDArray[np.float64]) -> npt.NDArray[np.int64]:
    buckets: npt.NDArray[np.int64] = 1 + np.searchsorted(DELAYS, delays, side="left")
    return buckets
