"""Location of an event: its record, the commit that processed it, and the published predictions.

A log has no index by id. The predictions topic is searched from its end, as far as the caller allows. The
rest is a binary search: commit times rise in the journal and in each partition of predictions, and so do
positions. If a clock was set back, or a topic was recreated, the journal is read completely.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import islice
from typing import NamedTuple

from streamnb.engine.journal.checkpoint import positions_of
from streamnb.engine.journal.journal_history import decoded, last
from streamnb.engine.journal.prediction_search import (
    PredictionNotFoundError,
    PredictionSearch,
    PublishedPrediction,
    records_between,
)
from streamnb.engine.journal.slice_replay import SliceReader
from streamnb.engine.ports import Log, Partition, Record
from streamnb.errors import JournalError, LogError, MalformedEvent
from streamnb.events import Event
from streamnb.formats.codec import decode_prediction
from streamnb.formats.journal_record import JournalRecord, decode_journal

_FEW, _AT_ONCE = 10, 1000  # records
_NEVER = "it was not processed yet, or lies before the journal's first record"


class EventLocation(NamedTuple):
    """Location of an event.

    Attributes:
        event: decoded event.
        place: its index in `records`.
        records: all records that the commit processed, in order, label records included.
        commit: its journal record.
        published: the commit's predictions of this id, in order.
    """

    event: Event
    place: int
    records: list[Record]
    commit: JournalRecord
    published: list[PublishedPrediction]

    @property
    def record(self) -> Record:
        """Record of the event."""
        return self.records[self.place]


class EventLocator:
    """Read-only search for events.

    Args:
        log: the log to search.
        topics: topics of events, of predictions, and of the journal.
        model: name of the model; others may publish to the same topic.
        read: decodes a record to an event; raises MalformedEvent.
    """

    def __init__(
        self, log: Log, topics: tuple[list[str], str, str], model: str, read: Callable[[Record], Event]
    ) -> None:
        self._events, self._predictions, self._journal = topics
        self._log, self._model, self._read = log, model, read
        self._search = PredictionSearch(log, self._predictions, model)

    def by_id(self, id_: str, most: int) -> EventLocation:
        """Return the last event of an id predicted among the newest `most`; raise LogError without one."""
        found = self._search.newest(id_, most)
        if found.prediction.model.journal is not None:
            raise LogError(
                f"{_place(found.record)} is a scorer's prediction of {id_!r}, by the model after journal "
                f"record {found.prediction.model.journal}, not by a commit: pass its position with --place"
            )
        for commit in self._commits(lambda one: one.now, found.prediction.ts):
            if commit.now == found.prediction.ts and (at := self._at(commit, id_)):
                published = self._published(id_, commit.now) or [found]
                # A skipped repeat has no prediction of its own.
                return self._whereabouts(commit, at[min(len(published), len(at)) - 1], published)
        raise LogError(
            f"{_place(found.record)} is the prediction of {id_!r}, and the journal does not have its commit "
            "any more: pass the event's position with --place"
        )

    def at(self, partition: Partition, offset: int, most: int) -> EventLocation:
        """Return the event at a position, with its predictions; raise LogError or MalformedEvent."""
        record = next(iter(self._log.read(partition, offset, 1)), None)
        if record is None or record.offset != offset:
            raise LogError(f"{partition} has no record at offset {offset}")
        event = self._read(record)
        commit = self._commit_past(partition, offset)
        records = [] if commit is None else self._records(commit)
        place = next((n for n, one in enumerate(records) if one[:2] == (partition, offset)), None)
        if commit is None or place is None:
            raise LogError(f"{_place(record)}, of event {event.id!r}: {_NEVER}")
        published = self._published(event.id, commit.now)
        if not published:
            with suppress(PredictionNotFoundError):
                published = [self._search.newest(event.id, most, commit.now)]
        return self._whereabouts(commit, place, published, records)

    def _whereabouts(
        self,
        commit: JournalRecord,
        place: int,
        published: list[PublishedPrediction],
        records: list[Record] | None = None,
    ) -> EventLocation:
        records = self._records(commit) if records is None else records
        return EventLocation(self._read(records[place]), place, records, commit, published)

    # Predictions

    def _published(self, id_: str, ts: float) -> list[PublishedPrediction]:
        """Return the predictions of an id that one commit published, in order."""

        def time_of(record: Record) -> float | None:
            with suppress(MalformedEvent):
                return decode_prediction(record.value).ts
            return None

        found = []
        for partition in self._log.partitions(self._predictions):
            for record in self._from(partition, time_of, ts):
                one = self._search.read_own(record, id_.encode())
                if one is not None and one.prediction.ts == ts:
                    found.append(one)
        return found

    def _from(
        self, partition: Partition, value_of: Callable[[Record], float | None], wanted: float
    ) -> Iterator[Record]:
        """Yield the records with value `wanted`, if values rise with offsets; skip records without one."""
        first, end = self._log.offsets(partition)
        low, high = first, end
        while low < high:
            middle = (low + high) // 2
            at, value = next(
                (
                    (record.offset, value)
                    for record in records_between(self._log, partition, middle, high, _FEW)
                    if (value := value_of(record)) is not None
                ),
                (high, None),
            )
            if value is None or value >= wanted:
                high = middle
            else:
                low = at + 1
        for record in records_between(self._log, partition, low, end, _AT_ONCE):
            value = value_of(record)
            if value is not None and value != wanted:
                return
            yield record

    # Commits

    def _commits(
        self, value_of: Callable[[JournalRecord], float], wanted: float, most: int | None = None
    ) -> Iterator[JournalRecord]:
        """Yield up to `most` commits found by binary search, then all, as values may not rise."""
        journal = self._log.partitions(self._journal)[0]
        found = self._from(journal, lambda record: _value(record, value_of), wanted)
        yield from filter(None, map(_journalled, islice(found, most)))
        for _, record in decoded(self._log, journal, *self._log.offsets(journal)):
            if isinstance(record, JournalRecord):
                yield record

    def _commit_past(self, partition: Partition, offset: int) -> JournalRecord | None:
        """Return the commit that processed a record, or None."""
        end = last(self._log, self._log.partitions(self._journal)[0])
        if end is None or positions_of(end.record).get(partition, 0) <= offset:
            return None

        def is_past(found: JournalRecord) -> float:
            return float(positions_of(found).get(partition, 0) > offset)

        def processes(commit: JournalRecord) -> bool:
            return any(
                (part.topic, part.partition) == partition and part.first <= offset < part.next
                for part in commit.slices
            )

        return next(filter(processes, self._commits(is_past, 1.0, 1)), None)

    def _records(self, commit: JournalRecord) -> list[Record]:
        """Return the records that a commit processed; raise LogError if the log no longer has them."""
        slices = SliceReader(self._log)
        try:
            return [record for part in commit.slices for record in slices.read(part, commit.n)]
        except JournalError as error:
            raise LogError(
                f"the event was processed by journal record {commit.n}, whose records the log no longer has: "
                f"{error.__cause__ or error}; its predictions are in topic {self._predictions}"
            ) from error

    def _at(self, commit: JournalRecord, id_: str) -> list[int]:
        """Return the indexes of a commit's records that hold an event of an id."""
        found = []
        for n, record in enumerate(self._records(commit) if commit.kind == "commit" else ()):
            with suppress(MalformedEvent):
                if record.partition.topic in self._events and self._read(record).id == id_:
                    found.append(n)
        return found


def _journalled(record: Record) -> JournalRecord | None:
    try:
        return decode_journal(record.value)
    except JournalError:  # a foreign record
        return None


def _value(record: Record, of: Callable[[JournalRecord], float]) -> float | None:
    found = _journalled(record)
    return None if found is None else of(found)


def _place(record: Record) -> str:
    return f"{record.partition} offset {record.offset}"
