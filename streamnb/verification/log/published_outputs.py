"""Compare published outputs with processed records: a prediction an event, a dead letter a refused record.

Both sides are multisets of keys as long as the log, compared in constant memory. Each key's hash is added on
one side and subtracted on the other. Only keys of buckets with a nonzero sum are listed, in a second pass.

Retention may have deleted predictions. A prediction has the time of its commit, so only commits after the
commit of the earliest kept prediction are compared.
"""

from __future__ import annotations

import copy
import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import InitVar, dataclass
from hashlib import blake2b
from typing import NamedTuple

import msgspec

from streamnb.engine.journal.job_identity import JournalOrigin
from streamnb.engine.journal.journal_history import entries
from streamnb.engine.ports import Log, Partition, Record, between
from streamnb.engine.settings import Settings
from streamnb.errors import JournalError, LogError
from streamnb.events import (
    LABEL_REASONS,
    TOO_MANY_CLASSES,
    UNPUBLISHED,
    Event,
    LabelRecord,
    ModelInfo,
    Retraction,
)
from streamnb.verification.check_results import CheckResults, place
from streamnb.verification.log.journal_chain import ChainEntry, LogScan, steps

PREDICTIONS, LETTERS = "predictions", "dead letters"
_READ_AT_ONCE = 5000
_UNPUBLISHED = UNPUBLISHED.encode()
_TOO_MANY_CLASSES = TOO_MANY_CLASSES.encode()
_LEGIBLE = {reason.encode() for reason in (UNPUBLISHED, *LABEL_REASONS)}
_MOST_BUCKETS = 16  # whose keys are looked at by name


class ProcessedEvents(NamedTuple):
    """A journal record and the records that it processed; None in place of an event is a refused record."""

    step: ChainEntry
    events: Sequence[tuple[Record, Event | LabelRecord | Retraction | None]]


class _PredictionHead(msgspec.Struct):
    id: str
    ts: float
    model: ModelInfo


class _CommittedSince(NamedTuple):
    times: frozenset[float]
    positions: Mapping[Partition, int]


@dataclass(eq=False)
class PublishedOutputs:
    """Comparison of outputs with the processed records of the journal.

    `settings` are all settings that the learner has had; the model's name never changed. `origins` are the
    origins in snapshots, by record number.
    """

    log: Log
    settings: InitVar[Sequence[Settings]]
    seen: LogScan
    origins: Mapping[int, JournalOrigin]
    findings: CheckResults

    def __post_init__(self, settings: Sequence[Settings]) -> None:
        self._names = {s.name for s in settings}
        self._skips = any(s.labels is not None and s.labels.repeats != "learn" for s in settings)
        self._predictions = self._kept(PREDICTIONS, dict.fromkeys(s.predictions for s in settings))
        self._letters = self._kept(LETTERS, dict.fromkeys(s.dead_letters for s in settings))
        self._floor = -math.inf
        self._since = _CommittedSince(frozenset(), {})
        self._balances = {PREDICTIONS: Balance(), LETTERS: Balance()}
        self._earlier = 0  # records whose outputs are not compared
        self._by_scorers = False
        self._strangers: set[tuple[Partition, int]] = set()  # reported already
        self._refused: frozenset[bytes] = frozenset()  # the places of records with a label too many
        self._numbers: frozenset[int] = frozenset()  # partitions that a shard reads; all if empty

    def begin(self) -> None:
        """Find the first commit with complete outputs, and the records refused for their label.

        The recount of dead letters and the replay check if these records were refused rightly.
        """
        self._refused = frozenset(self._refused_labels())
        firsts = [self._at(p, first) for p, (first, end) in self._predictions.items() if 0 < first < end]
        firsts += [math.inf for first, end in self._predictions.values() if 0 < first == end]
        latest, earliest, is_whole = -math.inf, math.inf, True
        for step in steps(self.log, self.seen, self.origins):
            record = step.record
            is_understood = step.after.origin.config_hash != ""
            self._numbers |= {*step.after.origin.config.get("events", {}).get("partitions", ())}
            if record.kind == "genesis":
                self._floor = record.now
            latest, earliest = max(latest, record.now), min(earliest, record.now)
            is_kept = record.n > self.seen.unread and all(record.now > at for at in firsts)
            if not (is_kept and is_understood):
                self._floor = math.nextafter(latest, math.inf)
                is_whole = False
        if is_whole:  # a clock may have gone back since the genesis
            self._floor = min(self._floor, earliest)
        if self.seen.first is not None and self.seen.first.n > 0:
            self._floor = max(self._floor, math.nextafter(self.seen.first.now, math.inf))
            self._earlier = 1  # the first record's slice is unknown without the record before it

    def _refused_labels(self) -> Iterator[bytes]:
        ends = {partition: end for partition, (_, end) in self._letters.items()}
        for letter in self._records(LETTERS, self._letters, ends):
            if dict(letter.headers).get("reason") == _TOO_MANY_CLASSES:
                with suppress(KeyError, ValueError):  # a foreign record, reported later
                    yield _place_key(*_place_of(letter))

    def expect(self, processed: ProcessedEvents) -> None:
        """Take note of what one commit has to have published."""
        for kind, key in self._expected(processed):
            self._balances[kind].expect(key)
        self._earlier += processed.step.record.now < self._floor

    def _expected(self, processed: ProcessedEvents) -> Iterator[tuple[str, bytes]]:
        is_compared = processed.step.record.now >= self._floor
        if processed.step.after.origin.config.get("predictions", {}).get("by") == "scorers":
            is_compared, self._by_scorers = False, True
        for record, event in processed.events:
            at = _place_key(record.partition, record.offset)
            if event is None or at in self._refused:
                yield LETTERS, at
            elif is_compared and isinstance(event, Event):
                yield PREDICTIONS, event.id.encode()

    def check(self, again: Callable[[], Iterator[ProcessedEvents]]) -> None:
        """Compare the outputs after all calls of `expect`; `again` reads the commits a second time."""
        ends = {p: self.log.offsets(p)[1] for p in (*self._predictions, *self._letters)}
        if self._skips:
            text = "events that arrived again may have none: they are compared with the replay"
            self.findings.unchecked(PREDICTIONS, text)
        else:
            self._check(PREDICTIONS, lambda: self._found_predictions(ends), again)
        if self.seen.is_whole and not any(first for first, _ in self._letters.values()):
            self._check(LETTERS, lambda: self._found_dead_letters(ends), again)
        else:
            text = f"{self._balances[LETTERS].expected:,} refused records: {self._missing}"
            self.findings.unchecked(LETTERS, text)
        if self._by_scorers:
            text = "scorers publish predictions outside commits, with the journal record of their model"
            self.findings.unchecked(PREDICTIONS, text)
        if self._earlier:
            text = f"predictions of the first {self._earlier:,} kept journal records: {self._missing}"
            self.findings.unchecked(PREDICTIONS, text)

    @property
    def _missing(self) -> str:
        unread, why = self.seen.unread, self.seen.why
        why = f", or, of events up to journal record {unread}, {why}" if why else ""
        return f"some of them, or of the events, are gone{why}"

    def _check(
        self, kind: str, found: Callable[[], Iterator[bytes]], again: Callable[[], Iterator[ProcessedEvents]]
    ) -> None:
        """Compare twice if they differ: commits during the first pass are known in the second."""
        for _ in range(2):
            self._since = self._committed_since()
            balance = copy.deepcopy(self._balances[kind])
            for key in found():
                balance.find(key)
            if not (uneven := balance.uneven()):
                noun = "events" if kind == PREDICTIONS else "refused records"
                self.findings.ok(kind, f"{balance.found:,} of {balance.expected:,} {noun}, each once")
                return
        kept = self._predictions if kind == PREDICTIONS else self._letters
        if any(self.log.offsets(partition)[0] > first for partition, (first, _) in kept.items()):
            self.findings.unchecked(kind, "some were deleted while they were verified")
            return
        named = frozenset(uneven[:_MOST_BUCKETS])
        counts: Counter[bytes] = Counter()
        for processed in again():
            counts.subtract(
                key for which, key in self._expected(processed) if which == kind and bucket_of(key) in named
            )
        counts.update(key for key in found() if bucket_of(key) in named)
        self._report(kind, balance, counts)

    def _report(self, kind: str, balance: Balance, counts: Mapping[bytes, int]) -> None:
        text = f"{balance.found:,} found for {balance.expected:,} that were processed, or others"
        self.findings.differs(kind, text, found=balance.found, expected=balance.expected)
        for key, more in sorted(counts.items()):
            if more:
                name = key.decode(errors="backslashreplace")
                what = f"missing, {-more} of it" if more < 0 else f"there {more} times more than processed"
                self.findings.differs(
                    kind, f"{name!r} is {what}", {"id": name}, found=max(more, 0), expected=max(-more, 0)
                )

    def _committed_since(self) -> _CommittedSince:
        times, positions = set(), dict(self.seen.end.positions)
        for entry in entries(self.log, self.seen.journal, self.seen.end_offset):
            times.add(entry.record.now)
            for part in entry.record.slices:
                positions[Partition(part.topic, part.partition)] = part.next
        return _CommittedSince(frozenset(times), positions)

    def _found_predictions(self, ends: Mapping[Partition, int]) -> Iterator[bytes]:
        """Yield the ids of predictions, and of events with a dead letter instead."""
        for record in self._records(PREDICTIONS, self._predictions, ends):
            try:
                prediction = _prediction(record.value)
            except msgspec.MsgspecError as error:
                self._strange(PREDICTIONS, record, str(error))
                continue
            is_ours = prediction.model.name in self._names and prediction.model.journal is None
            if is_ours and prediction.ts >= self._floor and prediction.ts not in self._since.times:
                yield prediction.id.encode()
        for record in self._records(PREDICTIONS, self._letters, ends):
            headers = dict(record.headers)
            is_ours = headers.get("reason") == _UNPUBLISHED and "journal" not in headers
            if is_ours and not self._is_others(record):
                try:
                    now = float(headers.get("ts", b"nan"))
                except ValueError:
                    self._strange(PREDICTIONS, record, "its headers lack the time of publication")
                    continue
                if now >= self._floor and now not in self._since.times:
                    yield headers.get("id", b"")

    def _found_dead_letters(self, ends: Mapping[Partition, int]) -> Iterator[bytes]:
        for record in self._records(LETTERS, self._letters, ends):
            headers = dict(record.headers)
            if headers.get("reason") in _LEGIBLE:
                continue
            try:
                partition, at = _place_of(record)
            except (KeyError, ValueError):
                self._strange(LETTERS, record, "its headers lack the place of the refused record")
                continue
            end, now = (p.get(partition, 0) for p in (self.seen.end.positions, self._since.positions))
            if not end <= at < now and not self._is_others(record):
                yield _place_key(partition, at)

    def _is_others(self, letter: Record) -> bool:
        with suppress(KeyError, ValueError):  # a foreign record, reported elsewhere
            return bool(self._numbers) and _place_of(letter)[0].number not in self._numbers
        return False

    def _strange(self, kind: str, record: Record, reason: str) -> None:
        if (record.partition, record.offset) in self._strangers:
            return
        self._strangers.add((record.partition, record.offset))
        text = f"{record.partition} offset {record.offset} is none: {reason}"
        self.findings.differs(kind, text, place(record.partition, record.offset))

    def _records(
        self, kind: str, partitions: Iterable[Partition], ends: Mapping[Partition, int]
    ) -> Iterator[Record]:
        for partition in partitions:
            try:
                first = self.log.offsets(partition)[0]
                yield from between(self.log, partition, first, ends[partition], _READ_AT_ONCE)
            except LogError as error:
                self.findings.differs(kind, f"{partition} cannot be read: {error}")

    def _at(self, partition: Partition, first: int) -> float:
        """Return the time of the commit with the earliest kept prediction; infinite if unknown."""
        for record in self.log.read(partition, first, 1):
            try:
                return _prediction(record.value).ts
            except msgspec.MsgspecError:
                break
        return math.inf

    def _kept(self, kind: str, topics: Iterable[str]) -> dict[Partition, tuple[int, int]]:
        kept: dict[Partition, tuple[int, int]] = {}
        for topic in topics:
            try:
                kept.update(self.log.offset_ranges(topic))
            except (LogError, JournalError) as error:
                self.findings.differs(kind, f"topic {topic!r} cannot be read: {error}", {"topic": topic})
        return kept


_prediction = msgspec.json.Decoder(_PredictionHead).decode


def _place_of(letter: Record) -> tuple[Partition, int]:
    """Return the place of a refused record; raise KeyError or ValueError if its letter has none."""
    headers = dict(letter.headers)
    topic, number, offset = (headers[name].decode() for name in ("topic", "partition", "offset"))
    return Partition(topic, int(number)), int(offset)


def _place_key(partition: Partition, offset: int) -> bytes:
    return f"{partition}/{offset}".encode()


_BUCKETS = 4096


def _hashed(key: bytes) -> tuple[int, int]:
    digest = int.from_bytes(blake2b(key, digest_size=16).digest(), "little")
    return digest % _BUCKETS, digest


def bucket_of(key: bytes) -> int:
    """Return the bucket of a key."""
    return _hashed(key)[0]


class Balance:
    """Comparison of two multisets in constant memory, with the numbers of expected and found keys.

    A key's hash is added if found, and subtracted if expected. A bucket with different keys sums to zero with
    a probability of about 2^-116.
    """

    def __init__(self) -> None:
        self.expected = self.found = 0
        self._counts = [0] * _BUCKETS
        self._sums = [0] * _BUCKETS

    def expect(self, key: bytes) -> None:
        """Count an expected key."""
        self.expected += 1
        self._add(key, -1)

    def find(self, key: bytes) -> None:
        """Count a found key."""
        self.found += 1
        self._add(key, 1)

    def uneven(self) -> list[int]:
        """Return the buckets that differ."""
        return [b for b in range(_BUCKETS) if self._counts[b] or self._sums[b]]

    def _add(self, key: bytes, times: int) -> None:
        bucket, digest = _hashed(key)
        self._counts[bucket] += times
        self._sums[bucket] += times * digest
