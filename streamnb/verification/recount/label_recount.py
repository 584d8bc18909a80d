"""Recount labels that arrive separately from their events, from the log in the order of the journal.

Every waiting event is kept whole, with each source's label, in dictionaries: no array, block or batch. The
code follows docs/labels.md record by record. If another label comes into force, the old one is subtracted and
the new one added, which is exact for integers.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import islice
from typing import NamedTuple

import msgspec

from streamnb.engine.ports import Record
from streamnb.engine.settings import ROOM_EVERY, LabelSettings
from streamnb.events import Event, LabelRecord, Retraction
from streamnb.formats.codec import IN_EVENT
from streamnb.formats.event_validity import LATEST
from streamnb.values.example_weights import HEAVIEST
from streamnb.verification.recount.event_recount import Recount, RecountPlan, in_units

_SPEAKERS, _SOURCES = 4, 1000  # at most, on one event without its own label, and in all
_EVENT_BYTES, _SPEAKER_BYTES = 256, 800  # docs/labels.md, "How long events wait"
_EARLY_BYTES, _EARLY_WORD_BYTES = 200, 280  # the same
_SWEPT = 256  # events worked through in a step
_BEHIND = "\U0010ffff", 0, 0  # all that is of the same time
_size = msgspec.msgpack.encode


Place = tuple[float, str, int, int]
"""Time, topic, partition and offset: the order of one source's labels."""


class _SourceEntry(NamedTuple):
    place: Place
    is_label: bool
    label: str
    weight: float


Words = dict[str, _SourceEntry]  # source -> entry
Read = Event | LabelRecord | Retraction | None


@dataclass
class _WaitingEvent:
    """An event, the time of its record, the bytes before it, its labels, and the learned label."""

    event: Event
    time: float
    place: int
    words: Words
    truth: tuple[str, float] | None = None
    prunings: int = 0


@dataclass
class LabelRecount:
    """Counts events when their labels come, and again when they change.

    Attributes:
        recount: what has been counted so far.
    """

    recount: Recount
    _plan: RecountPlan = field(init=False)
    _settings: LabelSettings = field(init=False)
    _time: float = -math.inf  # the greatest that two records in a row have reached
    _last: float = -math.inf
    _earliest: float = -math.inf
    _taken: int = 0  # bytes, of all events
    _least: int = 0
    _learned: int | None = None  # events, including those unlearned; None before labels arrived separately
    _waiting: dict[int, _WaitingEvent] = field(default_factory=dict)
    _newest: dict[str, int] = field(default_factory=dict)  # event id -> index
    _first: int = 0  # the numbers of the oldest that waits, and of the next
    _next: int = 0
    _early: dict[str, tuple[Words, float]] = field(default_factory=dict)
    _early_bytes: int = 0
    _sources: set[str] = field(default_factory=set)
    _voids: dict[str, list[tuple[float, Place]]] = field(default_factory=lambda: defaultdict(list))
    _sweeps: dict[str, tuple[int, bool]] = field(default_factory=dict)  # from where on; and whether no more
    _refused: tuple[int, int] = 0, 0

    def take(self, records: Iterable[tuple[Record, Read]], work: int, plan: RecountPlan) -> None:
        """Count what one journal record processed, with its steps of work, under this configuration."""
        self.recount.change_budget(plan)
        self._plan = plan
        if plan.settings.labels is not None:
            self._settings = plan.settings.labels
            self._learned = self.recount.events if self._learned is None else self._learned
            self._drop(0)
        for record, read in records:
            self._take(record, read)
        for _ in range(work):
            self._work()

    def _take(self, record: Record, read: Read) -> None:
        recount = self.recount
        if self._learned is None:
            assert read is None or isinstance(read, Event)  # noqa: S101
            recount.take(read, self._plan)
            return
        recorded = record.timestamp
        if recorded >= LATEST:
            recorded = max(self._last, 0.0)
        self._time, self._last = max(self._time, min(self._last, recorded)), recorded
        self._drop(0)
        if isinstance(read, Event):
            said = {word.label for word in self._early.get(read.id, ({}, 0.0))[0].values() if word.is_label}
            if recount.admits({read.label, *said}, self._plan):
                self._event(read, _place(recorded, record))
            else:
                recount.dead_letters += 1
        elif isinstance(read, LabelRecord) and not recount.admits({read.label}, self._plan):
            recount.dead_letters += 1
        elif isinstance(read, LabelRecord):
            place = _place(recorded if read.ts is None else read.ts, record)
            self._hear(read.id, read.source, place, read.label, read.weight, recorded)
        elif isinstance(read, Retraction):
            self._withdraw(read, _place(recorded, record))
        else:
            recount.dead_letters += 1
        recount.consumed += 1

    def _work(self) -> None:
        """Retract the labels of withdrawn sources for a part of the waiting events."""
        if not self._sweeps:
            return
        self.recount.held = len(self.recount.classes)
        source, (first, is_last) = next(iter(self._sweeps.items()))
        there = (n for n in range(max(first, self._first), self._next) if self._waits(n))
        numbers = list(islice((n for n in there if self._may_speak(source, n)), _SWEPT))
        for number in numbers:
            one = self._waiting[number]
            words = {
                name: word._replace(is_label=False, label="") if self._is_void(name, word) else word
                for name, word in one.words.items()
            }
            if words != one.words:
                one.words = words
                self._follow(one, prunes=False)
        if len(numbers) == _SWEPT:
            self._sweeps[source] = numbers[-1] + 1, is_last
        else:
            del self._sweeps[source]
            if not is_last:
                self._sweeps[source] = 0, True

    def _may_speak(self, source: str, number: int) -> bool:
        words = self._waiting[number].words
        return len(words) > 1 or source in words

    # -- records ------------------------------------------------------------------------------------------

    def _event(self, event: Event, place: Place) -> None:
        settings, recorded = self._settings, place[0]
        if settings.repeats != "learn" and self._find(event.id) is not None:
            if settings.repeats == "dead-letter":
                self.recount.dead_letters += 1
            elif event.label is not None:
                self._hear(event.id, IN_EVENT, place, event.label, event.weight, recorded)
            return
        words, heard = self._early.pop(event.id, ({}, 0.0))
        self._early_bytes -= _early_size(event.id, words)
        words = words if heard >= self._earliest else {}
        words = {source: word for source, word in words.items() if not self._is_void(source, word)}
        if event.label is not None:
            self._sources.add(IN_EVENT)
            weight = min(event.weight * settings.weights.get(IN_EVENT, 1.0), float(HEAVIEST))
            words[IN_EVENT] = _SourceEntry(place, True, event.label, weight)
        one = self._waiting[self._next] = _WaitingEvent(event, recorded, self._taken, words)
        self._newest[event.id] = self._next
        self._next += 1
        self.recount.met += 1
        size = _EVENT_BYTES + len(event.id.encode()) + len(_size(event.x))
        self._drop(size + _SPEAKER_BYTES * max(0, len(words) - 1))
        truth = self._truth(words)
        self.recount.admits({truth and truth[0]}, self._plan)
        self._follow(one, is_met=True)

    def _hear(
        self, event_id: str, source: str, place: Place, label: str | None, weight: float, recorded: float
    ) -> None:
        if source not in self._sources and len(self._sources) >= _SOURCES:
            self._refuse()
            return
        self._sources.add(source)
        weight = min(weight * self._settings.weights.get(source, 1.0), float(HEAVIEST))
        word = _SourceEntry(place, label is not None, label or "", weight)
        one = self._find(event_id)
        if self._is_void(source, word):
            return
        if one is None:
            self._keep(event_id, source, word, recorded)
        elif not _is_news(source, word, one.words):
            return
        elif len({*one.words, source} - {IN_EVENT}) > _SPEAKERS:
            self._refuse()
        else:
            is_one_more = one.words and source not in one.words
            one.words = {**one.words, source: word}
            self._follow(one)
            self._drop(_SPEAKER_BYTES if is_one_more else 0)

    def _withdraw(self, withdrawal: Retraction, place: Place) -> None:
        source, since, until = withdrawal.source, withdrawal.since, withdrawal.ts
        if source not in self._voids and len(self._voids) >= _SOURCES:
            self.recount.dead_letters += 1
            return
        end = place if until is None else (until, *_BEHIND)
        self._voids[source].append((-math.inf if since is None else since, end))
        if source in self._sources:
            first, _ = self._sweeps.get(source, (0, True))
            self._sweeps[source] = first, first == 0

    def _is_void(self, source: str, word: _SourceEntry) -> bool:
        return source in self._voids and any(
            since <= word.place[0] and word.place <= end for since, end in self._voids[source]
        )

    def _keep(self, event_id: str, source: str, word: _SourceEntry, recorded: float) -> None:
        words, _ = self._early.get(event_id, ({}, 0.0))
        if len({*words, source}) > _SPEAKERS:
            self._refuse()
            return
        now = {**words, source: word} if _is_news(source, word, words) else words
        self._early.pop(event_id, None)
        self._early[event_id] = now, recorded
        self._early_bytes += _early_size(event_id, now) - _early_size(event_id, words)
        while self._early:
            oldest, (words, heard) = next(iter(self._early.items()))
            if heard >= self._earliest and self._early_bytes <= self._settings.memory // 8:
                return
            del self._early[oldest]
            self._early_bytes -= _early_size(oldest, words)
            for _ in words:
                self._refuse()

    def _refuse(self) -> None:
        """Count a rejected label as a dead letter, at most ten in a thousand records."""
        block, refused = self.recount.consumed // 1000, self._refused[1]
        self._refused = block, 1 + (refused if block == self._refused[0] else 0)
        self.recount.dead_letters += self._refused[1] <= 10

    # -- what waits ---------------------------------------------------------------------------------------

    def _drop(self, size: int) -> None:
        """Reserve `size` bytes, and drop events that have waited too long."""
        self._taken += size
        self._earliest = max(self._earliest, self._time - self._settings.window)
        self._least = max(self._least, self._taken - self._settings.memory)
        while self._first < self._next and not self._waits(self._first):
            gone = self._waiting.pop(self._first).event.id
            if self._newest[gone] == self._first:
                del self._newest[gone]
            self._first += 1

    def _waits(self, number: int) -> bool:
        one = self._waiting.get(number)
        return one is not None and one.time >= self._earliest and one.place >= self._least

    def _find(self, event_id: str) -> _WaitingEvent | None:
        number = self._newest.get(event_id, -1)
        return self._waiting[number] if self._waits(number) else None

    def _follow(self, one: _WaitingEvent, *, prunes: bool = True, is_met: bool = False) -> None:
        truth, before = self._truth(one.words), one.truth
        if truth == before:
            return
        recount, pruning = self.recount, self._plan.settings.pruning
        if before is not None and before[1]:
            recount.unlearn(one.event, before[0], in_units(before[1]), self._plan, one.prunings)
        one.truth, one.prunings = truth, recount.prunings
        if truth is None or not truth[1]:
            return
        assert self._learned is not None  # noqa: S101
        self._learned += 1
        recount.met += not is_met
        recount.corrected += bool(before and before[1])
        recount.learn(one.event, truth[0], in_units(truth[1]), self._plan)
        if prunes and pruning.every and self._learned % pruning.every == 0:
            recount.prune(pruning)
        if prunes and self._learned % ROOM_EVERY == 0:
            recount.evict(len(recount.classes), self._plan)

    def _truth(self, words: Words) -> tuple[str, float] | None:
        """Return label and weight of the highest rank, then the latest, then the last name."""
        ranks = self._settings.ranks
        standing = [
            (ranks.get(source, 0 if source == IN_EVENT else 1), word.place[0], source)
            for source, word in words.items()
            if word.is_label
        ]
        best = words[max(standing)[-1]] if standing else None
        return None if best is None else (best.label, best.weight)


def _is_news(source: str, word: _SourceEntry, words: Words) -> bool:
    return source not in words or word.place > words[source].place


def _place(time: float, record: Record) -> Place:
    return time, record.partition.topic, record.partition.number, record.offset


def _early_size(event_id: str, words: Words) -> int:
    texts = (_EARLY_WORD_BYTES + len(source) + len(word.label) for source, word in words.items())
    return _EARLY_BYTES + len(event_id) + sum(texts) if words else 0
