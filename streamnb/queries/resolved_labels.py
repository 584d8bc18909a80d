"""Resolve the label of an event from records of the labels topic."""

from __future__ import annotations

import math
from collections.abc import Mapping

from msgspec.structs import replace

from streamnb.config import Config
from streamnb.engine.labels.revoked_intervals import RevokedIntervals
from streamnb.engine.labels.source_labels import SourceLabel, effective, has_too_many, merged
from streamnb.engine.ports import Partition, Record
from streamnb.events import LabelRecord
from streamnb.formats.codec import IN_EVENT, decode_label
from streamnb.runtime import context


class ResolvedLabels:
    """Labels of events by source, resolved by the rules of the learner.

    Args:
        config: decoding of labels, and the ranks of sources.
        most: keep only this number of most recently labelled events; None keeps all.

    Attributes:
        has_forgotten: True if `most` has evicted labels of other events.
    """

    def __init__(self, config: Config, most: int | None = None) -> None:
        self._schema, self._ranks, self._most = context.schema(config), config.labels.ranks, most
        self._labels: dict[str, tuple[SourceLabel, ...]] = {}
        self._by: dict[str, dict[str, str]] = {}  # event -> source -> author of its newest label
        self._voids = RevokedIntervals()
        self._resolved: dict[str, tuple[str | None, str | None]] = {}  # event -> own label, label in force
        self.has_forgotten = False

    def add(self, record: Record) -> LabelRecord | None:
        """Add a record of the topic; return None for a retraction; raise MalformedEvent."""
        found = decode_label(record.value, self._schema, record.timestamp)
        if not isinstance(found, LabelRecord):
            self._voids.add(found, record)
            self._resolved.clear()
            return None
        time = record.timestamp if found.ts is None else found.ts
        said = SourceLabel(found.source, time, found.label, found.weight, record.partition, record.offset)
        labels = _merged_with_limit(self._labels.pop(found.id, ()), said)
        self._resolved.pop(found.id, None)
        self._labels[found.id] = labels
        if said in labels:
            self._note_author(found)
        if self._most is not None and len(self._labels) > self._most:
            oldest = next(iter(self._labels))
            del self._labels[oldest]
            self._resolved.pop(oldest, None)
            self._by.pop(oldest, None)
            self.has_forgotten = True
        return replace(found, ts=time)

    def _note_author(self, found: LabelRecord) -> None:
        authors = self._by.setdefault(found.id, {})
        authors.pop(found.source, None)
        if found.by is not None:
            authors[found.source] = found.by
        if not authors:
            del self._by[found.id]

    def author(self, event_id: str, source: str) -> str | None:
        """Return the author of the newest label of a source, if its record is known and names one."""
        return self.authors(event_id).get(source)

    def authors(self, event_id: str) -> Mapping[str, str]:
        """Return source -> author of its newest label of an event, for the sources whose author is known."""
        return self._by.get(event_id, {})

    def mentions(self, event_id: str) -> bool:
        """Return True if any separate label of an event is known."""
        return event_id in self._labels

    def own(self, event_id: str, source: str) -> str | None:
        """Return the label of one source of an event; None if it has none here."""
        labels = (one.label for one in self._labels.get(event_id, ()) if one.source == source)
        return next(labels, None)

    def disagreeing(self, event_id: str, in_event: str | None) -> bool:
        """Return True if the sources of an event have different labels."""
        first = in_event
        for one in self._labels.get(event_id, ()):
            if one.label is not None and one.label != first and not self._voids.cover(one):
                if first is not None:
                    return True
                first = one.label
        return False

    def label(self, event_id: str, in_event: str | None, known: tuple[SourceLabel, ...] = ()) -> str | None:
        """Return the label in force, given the event's own label; None if there is none.

        `known` are further labels, such as from records that were not added.
        """
        if known:
            return self._in_force(event_id, in_event, known)
        if event_id not in self._labels:
            return in_event
        resolved = self._resolved.get(event_id)
        if resolved is None or resolved[0] != in_event:
            resolved = self._resolved[event_id] = in_event, self._in_force(event_id, in_event, ())
        return resolved[1]

    def _in_force(self, event_id: str, in_event: str | None, known: tuple[SourceLabel, ...]) -> str | None:
        said = known
        if not known and in_event is not None:
            said = (SourceLabel(IN_EVENT, -math.inf, in_event, 1.0, Partition("", 0), 0),)
        for one in self._labels.get(event_id, ()):
            said = _merged_with_limit(said, one)
        truth = effective((one for one in said if not self._voids.cover(one)), self._ranks)
        return None if truth is None else truth.label


def _merged_with_limit(said: tuple[SourceLabel, ...], more: SourceLabel) -> tuple[SourceLabel, ...]:
    """Return the labels with one more, unless its source exceeds the limit, as in the learner."""
    found = merged(said, more)
    return said if has_too_many(found) else found
