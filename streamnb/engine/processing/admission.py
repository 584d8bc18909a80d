"""Whether labels may be learned, and when what matters least is forgotten for what is new.

Where a model has room for all that a batch brings, it learns it as if it were unbounded. Where it may not
have, events with a label that is new are taken one by one, and what is forgotten is decided before each of
them; and after every so many that were learned. So how a stream is cut into batches decides nothing.
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
    """What a learner may learn next.

    Attributes:
        model: that learns.
        late: what waits for labels; None where all come in their events.
        max_classes: the most classes; 0 is no limit.
        known: the classes that the model has.
    """

    model: StreamModel
    late: DelayedLabels | None
    max_classes: int
    known: KnownClasses

    @property
    def most_classes(self) -> int:
        """How many there may be."""
        return min(self.max_classes or sys.maxsize, self.model.most_classes)

    def has_room(self, labels: Iterable[str | None], n_bytes: int) -> bool:
        """Whether these labels, and events of so many bytes, can be learned with nothing to be decided.

        They have no more words than every second byte begins one.
        """
        classes, new = self._with(labels)
        return self.model.has_capacity(classes, n_bytes, n_bytes // 2 + 1) and (
            not new or classes <= self.most_classes
        )

    def has_room_for_verdicts(self, labels: Iterable[str | None]) -> bool:
        """The same of verdicts: what they may teach at most is all that waits."""
        return self.has_room(labels, 0 if self.late is None else self.late.pending.n_bytes)

    def admits(self, labels: set[str | None]) -> bool:
        """Whether these labels may be learned next; for new ones what matters least is forgotten."""
        classes, new = self._with(labels)
        if new and classes > self.most_classes:
            return False
        if new:
            self.model.evict(classes)
        else:
            self.hold()
        return True

    def hold(self) -> None:
        """Let the model learn as far as there is room for the classes there are."""
        self.model.has_capacity(len(self.model.classes), 0, 0)

    def _with(self, labels: Iterable[str | None]) -> tuple[int, set[str]]:
        """How many classes there are with these labels, and those that are new."""
        known = self.known.follow(self.model.classes).columns
        new = {label for label in labels if label is not None and label not in known}
        return len(known) + len(new), new

    def labels(self, event: Event) -> set[str | None]:
        """What an event may be learned as: its own label, and those that were said of it before it came."""
        early = () if self.late is None else self.late.labels_before(event.id)
        return {event.label, *early}

    def labels_of_all(self, events: Sequence[Event]) -> set[str | None]:
        """The same of many events."""
        if self.late is None or not self.late.awaited:
            return {event.label for event in events}
        return set().union(*map(self.labels, events))

    def before_new(self, events: Sequence[Event], learned: int) -> int:
        """How many of these come before one with a new label, or the next look whether memory is short.

        After so many that were `learned`.
        """
        most = min(len(events), ROOM_EVERY - learned % ROOM_EVERY)
        return next((i for i, event in enumerate(events[:most]) if self._with(self.labels(event))[1]), most)

    def refused(self) -> MalformedEvent:
        """What is said of a record with a label too many."""
        key = "classes.max" if self.most_classes == self.max_classes else "memory.budget"
        known = len(self.model.classes)
        remedy = f"raise {key}, or send no ids as labels: there are {known:,} labels already"
        return MalformedEvent(TOO_MANY_CLASSES, "$.label", "a new label", remedy)
