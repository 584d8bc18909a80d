"""Decoded events as columns: the result of decoding many records at once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from streamnb.errors import MalformedEvent
from streamnb.events import Event


class DecodedEvents(NamedTuple):
    """The n events among the records of a batch.

    Attributes:
        ids, xs, labels, weights, times: of each event, as in `streamnb.events.Event`.
        places: index of the record of each event, rising.
        refused: index and error of each record that is not an event, by rising index.
    """

    ids: Sequence[str]
    xs: Sequence[Any]
    labels: Sequence[str | None]
    weights: Sequence[float]
    times: Sequence[float | None]
    places: Sequence[int]
    refused: list[tuple[int, MalformedEvent]]

    @classmethod
    def from_events(cls, decoded: Iterable[Event | MalformedEvent]) -> DecodedEvents:
        """Return the columns of events, one for each record, or the error of the record."""
        events: list[Event] = []
        places: list[int] = []
        refused: list[tuple[int, MalformedEvent]] = []
        for place, event in enumerate(decoded):
            if isinstance(event, MalformedEvent):
                refused.append((place, event))
            else:
                events.append(event)
                places.append(place)
        return cls(
            [event.id for event in events],
            [event.x for event in events],
            [event.label for event in events],
            [event.weight for event in events],
            [event.ts for event in events],
            places if refused else range(len(places)),
            refused,
        )

    def events(self) -> list[Event | MalformedEvent]:
        """Return the event of each record, or the error of the record."""
        decoded: list[Event | MalformedEvent] = list(map(Event, *self[:5]))
        for place, error in self.refused:
            decoded.insert(place, error)
        return decoded

    def prefix(self, n: int) -> DecodedEvents:
        """Return the first n events, without errors."""
        ids, xs, labels, weights, times, places, _ = self
        return DecodedEvents(ids[:n], xs[:n], labels[:n], weights[:n], times[:n], places[:n], [])

    def chosen(self, rows: Sequence[int]) -> DecodedEvents:
        """Return the events of these rows, without errors."""
        columns: Any = ([column[row] for row in rows] for column in self[:6])
        ids, xs, labels, weights, times, places = columns
        return DecodedEvents(ids, xs, labels, weights, times, places, [])

    def followed_by(self, later: DecodedEvents) -> DecodedEvents:
        """Return the events of these records, and of the records that follow them."""
        n = len(self.ids) + len(self.refused)
        pairs: Any = zip(self[:5], later[:5], strict=True)
        ids, xs, labels, weights, times = ([*own, *others] for own, others in pairs)
        places = [*self.places, *(n + place for place in later.places)]
        refused = [*self.refused, *((n + place, error) for place, error in later.refused)]
        return DecodedEvents(ids, xs, labels, weights, times, places, refused)
