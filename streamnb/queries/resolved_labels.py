"""Which label holds of an event, by the records of the topic of labels at hand."""

from __future__ import annotations

import math

from msgspec.structs import replace

from streamnb.config import Config
from streamnb.engine.labels.revoked_intervals import RevokedIntervals
from streamnb.engine.labels.source_labels import MOST_SOURCES, SourceLabel, effective, merged
from streamnb.engine.ports import Partition, Record
from streamnb.events import LabelRecord
from streamnb.formats.codec import IN_EVENT, decode_label
from streamnb.runtime import context


class ResolvedLabels:
    """What sources say of events, by the rules of the learner.

    Args:
        config: says what labels are read as, and the ranks of sources.
        most: of so many events that were spoken of last; None is of all.

    Attributes:
        has_forgotten: whether labels of other events were dropped for `most`.
    """

    def __init__(self, config: Config, most: int | None = None) -> None:
        self._schema, self._ranks, self._most = context.schema(config), config.labels.ranks, most
        self._said: dict[str, tuple[SourceLabel, ...]] = {}
        self._voids = RevokedIntervals()
        self.has_forgotten = False

    def add(self, record: Record) -> LabelRecord | None:
        """A record of the topic; None where it takes back a source. Raises MalformedEvent."""
        found = decode_label(record.value, self._schema, record.timestamp)
        if not isinstance(found, LabelRecord):
            self._voids.add(found, record)
            return None
        time = record.timestamp if found.ts is None else found.ts
        said = SourceLabel(found.source, time, found.label, found.weight, record.partition, record.offset)
        self._said[found.id] = _merged_with_limit(self._said.pop(found.id, ()), said)
        if self._most is not None and len(self._said) > self._most:
            del self._said[next(iter(self._said))]
            self.has_forgotten = True
        return replace(found, ts=time)

    def mentions(self, event_id: str) -> bool:
        """Whether anything is said of an event apart from it."""
        return event_id in self._said

    def label(self, event_id: str, in_event: str | None, known: tuple[SourceLabel, ...] = ()) -> str | None:
        """The label that holds of an event that came with another one, or none; None where none does.

        `known` is what is said of it besides, such as in records that are not at hand.
        """
        said = known
        if not known and in_event is not None:
            said = (SourceLabel(IN_EVENT, -math.inf, in_event, 1.0, Partition("", 0), 0),)
        for one in self._said.get(event_id, ()):
            said = _merged_with_limit(said, one)
        truth = effective((one for one in said if not self._voids.cover(one)), self._ranks)
        return None if truth is None else truth.label


def _merged_with_limit(said: tuple[SourceLabel, ...], more: SourceLabel) -> tuple[SourceLabel, ...]:
    """Return the labels with one more, except if its source is one too many; the learner refuses it, too."""
    found = merged(said, more)
    return found if len(found) <= MOST_SOURCES else said
