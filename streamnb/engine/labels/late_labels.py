"""Labels that come apart from their events: what is learned, unlearned and scored for each.

An event is predicted when it comes. Whatever is said of it later is compared with what was served then, and
taught to the model with the attributes that the event had then. Of several verdicts the effective one counts,
see `verdicts`; where it changes, what was learned and scored before is taken back.
"""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt

from streamnb.engine.labels.chunk import NONE, SEVERAL, Waiting, kept_probabilities
from streamnb.engine.labels.early import Dropped, EarlyVerdicts
from streamnb.engine.labels.horizon import Horizon
from streamnb.engine.labels.pending import ABSENT, PendingCopy, PendingEvents
from streamnb.engine.labels.teacher import Teacher
from streamnb.engine.labels.verdicts import MOST_SOURCES, Said, Truth, effective, merged
from streamnb.engine.labels.voids import Voids
from streamnb.engine.ports import Record, tuples
from streamnb.engine.settings import LabelSettings
from streamnb.errors import SnapshotError
from streamnb.events import Event, Verdict, Withdrawal
from streamnb.model.attributes.expected import count, reading
from streamnb.model.attributes.weights import HEAVIEST
from streamnb.model.evaluation.progressive import ProgressiveValidation
from streamnb.model.evaluation.served_scores import NOTHING, Score, ServedScores, scored
from streamnb.model.interface.predictions import Posteriors
from streamnb.model.interface.stream_model import StreamModel
from streamnb.wire.codec import IN_EVENT, encode_verdict
from streamnb.wire.snapshot import Part

__all__ = ["DELAYS", "FirstVerdict", "LateLabels", "LateLabelsCopy", "Refused", "Taken"]

DELAYS = (1.0, 5.0, 15.0, 60.0, 300.0, 900.0, 3600.0, 14400.0, 43200.0, 86400.0, 259200.0, 604800.0)
"""Bounds of delays, seconds: bucket 0 holds labels that came with their events, bucket i those of at most the
i-th bound, and a last one the rest."""

_MOST_SOURCES = 1000
_TOO_MANY = "too-many-sources"
_OVERHEAD = 256  # bytes of an event that waits, beside its id and attributes
_EARLY = 8  # one part in so many of the memory is for verdicts before their events
_SEVERAL_BYTES = 800  # of what one more source says of an event
_CELLS_AT_ONCE = 1 << 20  # events times classes
_SWEPT = 256  # events worked through at once
_HEAVIEST = float(HEAVIEST)
_encode = msgspec.msgpack.Encoder().encode
_BLOCK, _TOLD = 1000, 10  # records, and how many verdicts among them become dead letters


class Refused(NamedTuple):
    """A verdict that changes nothing, and of which somebody should know.

    Attributes:
        reason: see `streamnb.events.REASONS`.
        record: what it said, and where it lies.
        place: among the records that are processed, of the one that it was found by.
    """

    reason: str
    record: Record
    place: int


class Heard(NamedTuple):
    """A verdict as it came.

    Attributes:
        verdict, record: what it says, and where it lies.
        place: of the record among those that are processed.
        earliest: events that were recorded before wait no longer.
    """

    verdict: Verdict
    record: Record
    place: int
    earliest: float


class FirstVerdict(NamedTuple):
    """An event that was scored for the first time, long after its prediction perhaps.

    Attributes:
        id: of the event.
        is_right: whether it was predicted right; None where an empty model met it.
        age: how many events the model had learned before it predicted.
        place: of the verdict among the records.
    """

    id: str
    is_right: bool | None
    age: int
    place: int


class Taken(NamedTuple):
    """What verdicts did.

    Attributes:
        firsts: events that were scored for the first time, some by some; each is made when it is asked for.
        refused: verdicts that were not taken.
        learned: label -> events learned by it.
    """

    firsts: list[Iterable[FirstVerdict]]
    refused: list[Refused]
    learned: Counter[str]


class LateLabelsCopy:
    """All state at one moment, copied in slices."""

    def __init__(self, meta: dict[str, Any], early: bytes, scores: Part, pending: PendingCopy) -> None:
        name = hashlib.sha256(early).hexdigest()
        self._meta, self._scores, self._pending = {**meta, "early": name}, scores, pending
        self._early = {name: early}

    def advance(self, n_bytes: int) -> bool:
        """Copy about so many bytes more; whether that is all."""
        return self._pending.advance(n_bytes)

    def parts(self) -> dict[str, Part]:
        """The parts of a snapshot."""
        self._pending.advance(1 << 62)
        rows = self._pending.rows()
        segments = [*self._early, *(name for _, _, fixed, changing in rows for name in (fixed, changing))]
        meta = {**self._meta, "chunks": rows, "segments": segments}
        return {"labels": Part(meta, {}), "progressive": self._scores}

    def segments(self) -> dict[str, bytes]:
        """Its segments, but for those that are held already."""
        self._pending.advance(1 << 62)
        return self._early | self._pending.segments


class LateLabels:
    """What waits for labels, and what came of those that came.

    Args:
        settings: how they are taken.
        window: labelled events in the sliding window of scores.

    Attributes:
        scores: of what was served.
        pending: the events that wait.
        served: events predicted so far.
        learned: events learned so far; unlike the model's own number it only grows.
        outcomes: what became of verdicts -> how many.
        by_source: source -> its verdicts.
        delays: of first verdicts, for each bucket of `DELAYS`: events, predicted right, loss times 2^44.
    """

    def __init__(self, settings: LabelSettings, window: int) -> None:
        self.settings = settings
        self.scores = ServedScores(window)
        self.pending = PendingEvents(Horizon(settings.window, settings.memory))
        self.served = self.learned = 0
        self.outcomes: Counter[str] = Counter()
        self.by_source: Counter[str] = Counter()
        self.delays = [[0, 0, 0] for _ in range(len(DELAYS) + 2)]
        self._early = EarlyVerdicts(settings.memory // _EARLY)
        self._names: list[str] = []  # of classes, in the order in which they were served or said
        self._numbers: dict[str, int] = {}
        self._sources: list[str] = []
        self._source_numbers: dict[str, int] = {}
        self._former: list[tuple[int, list[str]]] = []  # orders of classes, each of events before a number
        self._columns: dict[Any, int] = {}  # class -> its number in the model
        self._by_column = np.array([NOTHING], dtype=np.int64)  # number in the model -> here, and of none
        self._voids = Voids()
        self._sweeps: dict[str, int] = {}  # source that was withdrawn -> the number of the event that is next
        self._prunings = 0  # of the model, so far
        self._told = 0, 0  # verdicts that became dead letters in a block of records

    @classmethod
    def after(
        cls, settings: LabelSettings, before: ProgressiveValidation, classes: Sequence[str]
    ) -> LateLabels:
        """For a stream whose labels came in their events until now: what was scored goes on counting."""
        made = cls(settings, before.window_size)
        made.scores = ServedScores.after(before)
        made.served = made.learned = made.scores.events
        made.columns_of(classes)
        made._take_classes(classes)
        return made

    def settle(self, settings: LabelSettings) -> None:
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
        self._former.append((self.pending.next, list(self._columns)))
        self._take_classes([])
        self.pending.blank(gone)
        numbers = np.arange(first, min(first + pruned.size, self.pending.next))
        pruned = pruned[: numbers.size]
        if (self.pending.column("pruned", numbers.copy()) != pruned).any():
            self.pending.write(numbers, pruned=pruned)

    # -- events -------------------------------------------------------------------------------------------

    def said_before(
        self, events: Sequence[Event], records: Sequence[Record], earliest: npt.NDArray[np.float64]
    ) -> list[tuple[Said, ...]]:
        """What is said of each event as it comes: in itself, and by verdicts that came before it."""
        weight = self.settings.weights.get(IN_EVENT, 1.0)
        found = []
        for event, record, limit in zip(events, records, earliest.tolist(), strict=True):
            said: tuple[Said, ...] = ()
            if len(self._early):
                heard = self._early.take(event.id, limit)
                said = tuple(one for one in heard if not self._voids.cover(one))
                self.outcomes["early"] += len(said)
            if event.label is not None:
                self.by_source[IN_EVENT] += 1
                said = (*said, Said(IN_EVENT, record.timestamp, event.label, event.weight * weight))
            found.append(said)
        return found

    def truth(self, said: tuple[Said, ...]) -> Truth | None:
        """What holds of what is said."""
        return effective(said, self.settings.ranks) if said else None

    def serve(
        self,
        events: Sequence[Event],
        records: Sequence[Record],
        said: Sequence[tuple[Said, ...]],
        truths: Sequence[Truth | None],
        posteriors: Posteriors,
        ages: Sequence[int],
        model: StreamModel,
    ) -> None:
        """Let events wait that were predicted, and learned where their truth is known; and score these."""
        self._follow(model)
        horizon = self.pending.horizon
        ids, xs = [event.id.encode() for event in events], [_encode(event.x) for event in events]
        several = [max(0, len(one) - 1) * _SEVERAL_BYTES for one in said]
        sizes = _sizes(ids, xs) + np.array(several)
        columns = {
            "ts": np.array([np.nan if event.ts is None else event.ts for event in events]),
            "time": np.array([record.timestamp for record in records]),
            "place": horizon.taken + np.cumsum(sizes) - sizes,
            "age": np.array(ages),
            "known": posteriors.known,
        }
        kept = kept_probabilities(posteriors.probabilities, posteriors.known)
        first = self.pending.append(Waiting(ids, xs, kept, columns))
        horizon.took(int(sizes.sum()))
        self.served += len(events)
        told = [i for i, one in enumerate(said) if one]
        if told:
            self.learned += sum(truth is not None and truth.weight > 0.0 for truth in truths)
            self._write(first + np.array(told), [said[i] for i in told], [truths[i] for i in told])
            judged = np.flatnonzero([truth is not None for truth in truths])
            labels = [truth.label for truth in truths if truth is not None]
            self._count_firsts(first + judged, labels, np.zeros(judged.size, dtype=np.int64))

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

    def may_tell(self, consumed: int) -> bool:
        """Whether one more verdict that was not taken may become a dead letter: ten in a thousand records."""
        block, told = self._told
        told = told if block == consumed // _BLOCK else 0
        self._told = consumed // _BLOCK, told + 1
        return told < _TOLD

    def passed(self, records: Sequence[Record]) -> None:
        """These records have been processed."""
        self.pending.horizon.passed([record.timestamp for record in records])
        self.pending.drop()

    # -- verdicts -----------------------------------------------------------------------------------------

    def take(
        self, heard: Sequence[Heard], model: StreamModel, alive: Callable[[], None] = lambda: None
    ) -> Taken:
        """What verdicts change, in order. That may take long: `alive` is called now and then."""
        self._follow(model)
        earliest = np.array([one.earliest for one in heard])
        least = np.full(len(heard), self.pending.horizon.least)
        found = self.pending.find([one.verdict.id.encode() for one in heard], earliest, least)
        said = [self._said(one) for one in heard]
        is_plain = self._plain(found, said)
        taken = Taken([], [], Counter())
        teacher = Teacher(self.pending, model, alive)
        at, limit = 0, self.pending.horizon.least
        while at < len(heard):
            if self.pending.horizon.least > limit:  # what several sources say of an event takes memory
                limit = self.pending.horizon.least
                self.pending.forget(found[at:], limit)
                is_plain = [plain and number != ABSENT for plain, number in zip(is_plain, found, strict=True)]
            stop = at + 1
            if is_plain[at]:
                while stop < len(heard) and is_plain[stop]:
                    stop += 1
                firsts = self._hear_firsts(found[at:stop], said[at:stop], heard[at:stop], teacher)
                taken.firsts.append(firsts)
            else:
                self._hear(int(found[at]), said[at], heard[at], teacher, taken)
            at = stop
        teacher.finish()
        self.learned += teacher.learned.total()
        taken.learned.update(teacher.learned)
        return taken

    def _said(self, heard: Heard) -> Said | None:
        """What a verdict says; None where its source is one too many."""
        verdict = heard.verdict
        source = verdict.source
        if source not in self._source_numbers:
            if len(self._sources) >= _MOST_SOURCES:
                return None
            self._source(source)
        self.by_source[source] += 1
        weight = min(verdict.weight * self.settings.weights.get(source, 1.0), _HEAVIEST)
        said_at = heard.record.timestamp if verdict.ts is None else verdict.ts
        return Said(source, said_at, verdict.label, weight)

    def _plain(self, numbers: npt.NDArray[np.int64], said: Sequence[Said | None]) -> list[bool]:
        """Which verdicts are the first word on an event that waits: most are, and are taken together."""
        found = np.flatnonzero(numbers != ABSENT)
        is_plain = np.zeros(numbers.size, dtype=np.bool_)
        if found.size:
            _, firsts = np.unique(numbers[found], return_index=True)
            firsts = found[firsts]
            is_plain[firsts] = self.pending.column("source", numbers[firsts]) == NONE
        is_plain &= [one is not None and one.label is not None for one in said]
        if self._voids.spans:
            is_plain &= [one is not None and not self._voids.cover(one) for one in said]
        return is_plain.tolist()

    def _hear_firsts(
        self,
        numbers: npt.NDArray[np.int64],
        said: Sequence[Said | None],
        heard: Sequence[Heard],
        teacher: Teacher,
    ) -> Iterable[FirstVerdict]:
        """The first verdicts on events that wait, of different ones."""
        sources, times, labels, weights = zip(*filter(None, said), strict=True)
        for label in dict.fromkeys(labels):
            self._number(label)
        self.pending.write(
            numbers,
            label=[self._numbers[label] for label in labels],
            weight=weights,
            source=[self._source_numbers[source] for source in sources],
            said_at=times,
            pruned=self._prunings,
        )
        teacher.learn_each(numbers, tuples(Truth, zip(labels, weights, strict=True)))
        delays = np.array([one.record.timestamp for one in heard]) - self.pending.column("time", numbers)
        self.outcomes["first"] += len(heard)
        return self._count_firsts(numbers, labels, _bucket(delays), heard)

    def _hear(self, number: int, said: Said | None, heard: Heard, teacher: Teacher, taken: Taken) -> None:
        """Any verdict."""
        if said is None:
            taken.refused.append(Refused(_TOO_MANY, heard.record, heard.place))
        elif self._voids.cover(said):
            self.outcomes["source_withdrawn"] += 1
        elif number == ABSENT:
            dropped = self._early.add(heard.verdict.id, said, heard.record, heard.earliest)
            taken.refused.extend(self._not_taken(one, heard.place) for one in dropped)
        else:
            before = self._all_said(number)
            now = merged(before, said)
            if now is before:
                self.outcomes["repeated"] += 1
            elif len(now) > MOST_SOURCES:
                taken.refused.append(Refused(_TOO_MANY, heard.record, heard.place))
            else:
                taken.firsts.append(self._change(number, now, teacher, heard))
                if len(now) > max(1, len(before)):
                    self.pending.horizon.took(_SEVERAL_BYTES)

    def _change(
        self, number: int, now: tuple[Said, ...], teacher: Teacher, heard: Heard | None = None
    ) -> Iterable[FirstVerdict]:
        """Let this be said of an event: unlearn, learn and score what is different by that."""
        was, truth = self._truth_of(number), self.truth(now)
        one = np.array([number])
        prunings = int(self.pending.column("pruned", one)[0])
        self._write(one, [now], [truth])
        if truth == was:
            self.pending.write(one, pruned=prunings)
            self.outcomes["outranked"] += heard is not None
            return ()
        teacher.unlearn(number, was, prunings)
        teacher.learn(number, truth)
        before, after = (None if t is None else t.label for t in (was, truth))
        score = int(self.pending.column("score", one)[0])
        if score == NONE and after is not None and heard is not None:
            self.outcomes["first"] += 1
            delay = heard.record.timestamp - self.pending.column("time", one)
            return self._count_firsts(one, [after], _bucket(delay), [heard])
        self.outcomes["withdrawn" if after is None else "changed"] += heard is not None
        if before != after:
            scores = [None if label is None else self._scored(one, [label]) for label in (before, after)]
            self.scores.replace(score, *scores)
            delays = self.pending.column("delay", one)
            for one_score, times in zip(scores, (-1, 1), strict=True):
                if one_score is not None:
                    self._count_delays(delays, one_score, times)
        return ()

    def _not_taken(self, dropped: Dropped, place: int) -> Refused:
        """A verdict without an event; or one of a source too many on an event that has not come."""
        event_id, said, partition, offset = dropped
        verdict = Verdict(event_id, said.label, said.source, said.weight, said.time)
        self.outcomes["unknown"] += 1
        return Refused(
            "unknown-event", Record(partition, offset, None, encode_verdict(verdict), said.time), place
        )

    # -- scores -------------------------------------------------------------------------------------------

    def _count_firsts(
        self,
        numbers: npt.NDArray[np.int64],
        labels: Sequence[str],
        delays: npt.NDArray[np.int64],
        heard: Sequence[Heard] = (),
    ) -> Iterable[FirstVerdict]:
        """Score events for the first time; what there is to tell of those that verdicts came for."""
        score = self._scored(numbers, labels)
        first = self.scores.add(score)
        self.pending.write(numbers, score=first + np.arange(numbers.size), delay=delays)
        self._count_delays(delays, score, 1)
        if not heard:
            return ()
        return (
            FirstVerdict(one.verdict.id, None if predicted == NOTHING else truth == predicted, age, one.place)
            for one, truth, predicted, age in zip(
                heard,
                score.truth.tolist(),
                score.predicted.tolist(),
                self.pending.column("age", numbers).tolist(),
                strict=True,
            )
        )

    def _count_delays(self, delays: npt.NDArray[np.int64], score: Score, times: int) -> None:
        for delay in np.unique(delays).tolist():
            inside, row = delays == delay, self.delays[delay]
            row[0] += times * int(np.count_nonzero(inside))
            row[1] += times * int(np.count_nonzero(score.truth[inside] == score.predicted[inside]))
            row[2] += times * int(score.terms[inside, 0].sum())

    def _scored(self, numbers: npt.NDArray[np.int64], labels: Sequence[str]) -> Score:
        """The scores of what was served of events, given their labels; by the numbers of this object."""
        truth = np.array([self._number(label) for label in labels], dtype=np.int64)
        predicted, terms = np.zeros_like(truth), np.zeros((truth.size, 3), dtype=np.int64)
        models = np.searchsorted([until for until, _ in self._former], numbers, side="right")
        for model in np.unique(models).tolist():
            columns, by_column = self._columns, self._by_column
            if model < len(self._former):
                names = self._former[model][1]
                columns = {name: k for k, name in enumerate(names)}
                by_column = np.array([*map(self._number, names), NOTHING], dtype=np.int64)
            classes = len(columns)
            step = max(1, _CELLS_AT_ONCE // max(1, classes))
            of = np.flatnonzero(models == model)
            for some in np.split(of, range(step, of.size, step)):
                truths = np.array([columns.get(labels[i], classes) for i in some.tolist()], dtype=np.int64)
                part = scored(self.pending.served(numbers[some], classes), truths)
                predicted[some], terms[some] = by_column[part.predicted], part.terms
        return Score(truth, predicted, terms)

    # -- sources that are withdrawn -----------------------------------------------------------------------

    def withdraw(self, withdrawal: Withdrawal, recorded: float) -> bool:
        """Nothing counts any more of what a source said; events that wait are worked through by `work`.

        False, and nothing is changed, where more sources were withdrawn than are kept in mind.
        """
        source, since = withdrawal.source, -math.inf if withdrawal.since is None else withdrawal.since
        until = recorded if withdrawal.ts is None else withdrawal.ts
        is_taken = self._voids.add(source, since, until)
        if is_taken and source in self._source_numbers:
            self._sweeps[source] = 0  # from the beginning, also where one is on its way
        return is_taken

    @property
    def names(self) -> Sequence[str]:
        """Of classes, by the numbers that chunks know them by."""
        return self._names

    @property
    def fullness(self) -> float:
        """The share of the memory for verdicts before their events that is taken."""
        return self._early.fullness

    @property
    def has_work(self) -> bool:
        """Whether there are events left to be worked through."""
        return bool(self._sweeps)

    def work(self, model: StreamModel, alive: Callable[[], None] = lambda: None) -> None:
        """Take back what a withdrawn source said of some hundreds of events."""
        if not self._sweeps:
            return
        self._follow(model)
        source, first = next(iter(self._sweeps.items()))
        numbers = list(islice(self._said_by(source, first), _SWEPT))
        teacher = Teacher(self.pending, model, alive)
        for number in numbers:
            before = self._all_said(number)
            now = tuple(one._replace(label=None) if self._voids.cover(one) else one for one in before)
            if now != before:
                self.outcomes["source_withdrawn"] += 1
                self._change(number, now, teacher)
        teacher.finish()
        self.learned += teacher.learned.total()
        if len(numbers) == _SWEPT:
            self._sweeps[source] = numbers[-1] + 1
        else:
            del self._sweeps[source]

    def _said_by(self, source: str, first: int) -> Iterator[int]:
        """The events from number `first` on of which a source may have said something."""
        wanted = self._source_numbers.get(source, NONE)
        for begin, chunk, places in self.pending.waiting(first):
            heard = chunk.source[places]
            yield from (begin + places[(heard == wanted) | (heard == SEVERAL)]).tolist()

    # -- state --------------------------------------------------------------------------------------------

    def copying(self, held: Container[str]) -> LateLabelsCopy:
        """All of it as it is now; blobs among `held` are stored already."""
        meta = {
            "horizon": self.pending.horizon.state(),
            "next": self.pending.next,
            "served": self.served,
            "learned": self.learned,
            "told": list(self._told),
            "outcomes": dict(self.outcomes),
            "by_source": dict(self.by_source),
            "delays": [[events, right, str(loss)] for events, right, loss in self.delays],
            "names": list(self._names),
            "sources": list(self._sources),
            "voids": self._voids.state(),
            "sweeps": [[source, first] for source, first in self._sweeps.items()],
        }
        if self._former:
            meta["former"] = [[until, names] for until, names in self._former]
        early = msgspec.msgpack.encode(self._early.state())
        return LateLabelsCopy(meta, early, Part(*self.scores.state()), self.pending.copying(held))

    @classmethod
    def from_state(
        cls,
        settings: LabelSettings,
        parts: Mapping[str, Part],
        segments: Mapping[str, bytes],
        classes: Sequence[Any],
    ) -> LateLabels:
        """Go on from the parts of a snapshot. Raises SnapshotError where they are none of such a stream."""
        made = cls(settings, 1)
        with reading("labels that come late", ValueError, msgspec.MsgspecError):
            meta = parts["labels"].meta
            made.scores = ServedScores.from_state(*parts["progressive"])
            made.pending.horizon.load(meta["horizon"])
            made.pending.load(meta["chunks"], segments, count(meta, "next"))
            made.served, made.learned = count(meta, "served"), count(meta, "learned")
            block, told = meta["told"]
            made._told = int(block), int(told)
            made.outcomes, made.by_source = Counter(meta["outcomes"]), Counter(meta["by_source"])
            made.delays = [[int(events), int(right), int(loss)] for events, right, loss in meta["delays"]]
            made._early.load(msgspec.msgpack.decode(segments[meta["early"]]))
            made.columns_of(meta["names"])
            for source in meta["sources"]:
                made._source(source)
            made._voids.load(meta["voids"])
            made._sweeps = {source: int(first) for source, first in meta["sweeps"]}
            made._former = [(int(until), list(map(str, names))) for until, names in meta.get("former", ())]
            if len(made.delays) != len(DELAYS) + 2:
                raise SnapshotError(f"delays: expected {len(DELAYS) + 2} rows, found {len(made.delays)}")
        made._take_classes(classes)
        return made

    # -- names --------------------------------------------------------------------------------------------

    def columns_of(self, classes: Sequence[Any]) -> list[int]:
        """The numbers by which classes are scored."""
        return [self._number(label) for label in classes]

    def _follow(self, model: StreamModel) -> None:
        """Know the classes of a model, and how often it was pruned."""
        self._prunings = model.n_prunings
        self._take_classes(model.classes)

    def _take_classes(self, classes: Sequence[Any]) -> None:
        known = len(self._columns)
        if len(classes) < known:  # of another state
            self._columns, known = {}, 0
        if len(classes) > known:
            self._columns.update({label: known + i for i, label in enumerate(classes[known:])})
            numbers = map(self._number, classes[known:])
            self._by_column = np.array([*self._by_column[:known], *numbers, NOTHING], dtype=np.int64)

    def _number(self, label: str) -> int:
        number = self._numbers.setdefault(label, len(self._names))
        if number == len(self._names):
            self._names.append(label)
        return number

    def _source(self, source: str) -> int:
        number = self._source_numbers.setdefault(source, len(self._sources))
        if number == len(self._sources):
            self._sources.append(source)
        return number

    # -- what is said -------------------------------------------------------------------------------------

    def _truth_of(self, number: int) -> Truth | None:
        chunk, at = self.pending.at(number)
        label = int(chunk.label[at])
        return None if label == NONE else Truth(self._names[label], float(chunk.weight[at]))

    def _all_said(self, number: int) -> tuple[Said, ...]:
        chunk, at = self.pending.at(number)
        source = int(chunk.source[at])
        if source == SEVERAL:
            return chunk.said[at]
        if source == NONE:
            return ()
        label = int(chunk.label[at])
        said_at, weight = float(chunk.said_at[at]), float(chunk.weight[at])
        return (Said(self._sources[source], said_at, None if label == NONE else self._names[label], weight),)

    def _interned(self, said: Said) -> Said:
        """The same, with names that are kept once."""
        label = None if said.label is None else self._names[self._number(said.label)]
        return said._replace(source=self._sources[self._source(said.source)], label=label)

    def _write(
        self,
        numbers: npt.NDArray[np.int64],
        said: Sequence[tuple[Said, ...]],
        truths: Sequence[Truth | None],
    ) -> None:
        """Write down what is said of events, and what holds of that."""
        self.pending.write(
            numbers,
            label=[NONE if truth is None else self._number(truth.label) for truth in truths],
            weight=[
                one[0].weight if truth is None else truth.weight
                for one, truth in zip(said, truths, strict=True)
            ],
            source=[SEVERAL if len(one) > 1 else self._source(one[0].source) for one in said],
            said_at=[one[0].time for one in said],
            pruned=self._prunings,
        )
        for number, one in zip(numbers.tolist(), said, strict=True):
            if len(one) > 1:
                chunk, at = self.pending.at(number)
                chunk.said[at] = tuple(map(self._interned, one))


def _sizes(ids: Sequence[bytes], xs: Sequence[bytes]) -> npt.NDArray[np.int64]:
    """What each event takes while it waits, as it is reckoned: never less than it does."""
    return np.array([_OVERHEAD + len(event_id) + len(x) for event_id, x in zip(ids, xs, strict=True)])


def _bucket(delays: npt.NDArray[np.float64]) -> npt.NDArray[np.int64]:
    return 1 + np.searchsorted(DELAYS, delays, side="left")
