"""Admission of new labels, and eviction to make space for them.

If the model has capacity for a complete batch, the batch is learned without checks. Otherwise events with a
new label are learned one by one, and evictions are decided before each of them and after every `ROOM_EVERY`
learned events. So batching decides nothing.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from streamnb.engine.labels.delayed_labels import DelayedLabels
from streamnb.engine.processing.known_classes import KnownClasses
from streamnb.engine.settings import ROOM_EVERY
from streamnb.errors import MalformedEvent
from streamnb.events import TOO_MANY_CLASSES, Event
from streamnb.models.interface.stream_model import StreamModel


class Admission(NamedTuple):
    """Limits on what a learner may learn next.

    Attributes:
        model: the model.
        late: delayed labels; None if all labels are inside events.
        max_classes: maximum number of classes; 0 is unlimited.
        known: the model's classes.
    """

    model: StreamModel
    late: DelayedLabels | None
    max_classes: int
    known: KnownClasses

    @property
    def most_classes(self) -> int:
        """Maximum number of classes."""
        return min(self.max_classes or sys.maxsize, self.model.most_classes)

    def has_room(self, labels: Iterable[str | None], n_bytes: int) -> bool:
        """Return if labels and events of `n_bytes`, with a word every second byte at most, fit now."""
        classes, new = self._with(labels)
        return self.model.has_capacity(classes, n_bytes, n_bytes // 2 + 1) and (
            not new or classes <= self.most_classes
        )

    def has_room_for_verdicts(self, labels: Iterable[str | None]) -> bool:
        """Return `has_room` for label records, which teach at most all waiting events."""
        return self.has_room(labels, 0 if self.late is None else self.late.pending.n_bytes)

    def admits(self, labels: set[str | None]) -> bool:
        """Return if these labels may be learned next; evict features for new labels."""
        classes, new = self._with(labels)
        if new and classes > self.most_classes:
            return False
        if new:
            self.model.evict(classes)
        else:
            self.hold()
        return True

    def hold(self) -> None:
        """Limit the model's learning to its capacity for the current classes."""
        self.model.has_capacity(len(self.model.classes), 0, 0)

    def _with(self, labels: Iterable[str | None]) -> tuple[int, set[str]]:
        """Return the number of classes including these labels, and the new ones."""
        known = self.known.follow(self.model.classes).columns
        new = {label for label in labels if label is not None and label not in known}
        return len(known) + len(new), new

    def labels(self, event: Event) -> set[str | None]:
        """Return the labels of an event: its own, and those that arrived before it."""
        early = () if self.late is None else self.late.labels_before(event.id)
        return {event.label, *early}

    def labels_of_all(self, events: Sequence[Event]) -> set[str | None]:
        """Return the labels of many events."""
        if self.late is None or not self.late.awaited:
            return {event.label for event in events}
        return set().union(*map(self.labels, events))

    def before_new(self, events: Sequence[Event], learned: int) -> int:
        """Return how many events precede a new label or the next memory check after `learned` events."""
        most = min(len(events), ROOM_EVERY - learned % ROOM_EVERY)
        return next((i for i, event in enumerate(events[:most]) if self._with(self.labels(event))[1]), most)

    def refused(self) -> MalformedEvent:
        """Return the error of a record with a label too many."""
        key = "classes.max" if self.most_classes == self.max_classes else "memory.budget"
        known = len(self.model.classes)
        remedy = f"raise {key}, or send no ids as labels: there are {known:,} labels already"
        return MalformedEvent(TOO_MANY_CLASSES, "$.label", "a new label", remedy)
