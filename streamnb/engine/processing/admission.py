"""Admission of new labels, and eviction to make space for them.

If the model has capacity for a complete batch, the batch is learned without checks. Otherwise events with a
new label are learned one by one, and evictions are decided before each of them and after every `ROOM_EVERY`
learned events. So batching decides nothing.
"""

from __future__ import annotations

import sys
from bisect import bisect_right
from collections.abc import Iterable, Sequence

from streamnb.engine.labels.batches import EventBatch
from streamnb.engine.processing.known_classes import class_bytes
from streamnb.engine.processing.processor_state import ProcessorState
from streamnb.engine.settings import ROOM_EVERY
from streamnb.errors import MalformedEvent
from streamnb.events import TOO_MANY_CLASSES

_BYTES_AT_ONCE = 4 << 20  # estimated size of predictions
_BYTES_WHERE_SHORT = 64 << 10  # size of events under a short memory budget


class Admission:
    """Limits on what a learner may learn next.

    Args:
        state: of the processor.
    """

    def __init__(self, state: ProcessorState) -> None:
        self._state = state

    @property
    def most_classes(self) -> int:
        """Maximum number of classes."""
        return min(self._state.settings.max_classes or sys.maxsize, self._state.model.most_classes)

    def has_room(self, labels: Iterable[str | None], n_bytes: int) -> bool:
        """Return if labels and events of `n_bytes`, with a word every second byte at most, fit now."""
        classes, new = self._with(labels)
        return self._state.model.has_capacity(classes, n_bytes, n_bytes // 2 + 1) and (
            not new or classes <= self.most_classes
        )

    def admits(self, labels: set[str | None]) -> bool:
        """Return if these labels may be learned next; evict features for new labels."""
        classes, new = self._with(labels)
        if new and classes > self.most_classes:
            return False
        if new:
            self._state.model.evict(classes)
        else:
            self.hold()
        return True

    def hold(self) -> None:
        """Limit the model's learning to its capacity for the current classes."""
        self._state.model.has_capacity(len(self._state.model.classes), 0, 0)

    def _with(self, labels: Iterable[str | None]) -> tuple[int, set[str]]:
        """Return the number of classes including these labels, and the new ones."""
        known = self._state.known.follow(self._state.model.classes).columns
        new = {label for label in labels if label is not None and label not in known}
        return len(known) + len(new), new

    def labels_of(self, event_id: str, label: str | None) -> set[str | None]:
        """Return the labels of an event: its own, and those that arrived before it."""
        late = self._state.late
        return {label, *(() if late is None else late.labels_before(event_id))}

    def labels_of_all(self, batch: EventBatch) -> set[str | None]:
        """Return the labels of many events."""
        late = self._state.late
        if late is None or not late.awaited:
            return {*batch.labels}
        return set().union(*map(self.labels_of, batch.ids, batch.labels))

    def admitted(self, batch: EventBatch, begin: int, ends: Sequence[int]) -> int:
        """Return how many events may be learned at once, given their bytes; 0 rejects the first."""
        n = len(batch)
        while not self.has_room(self.labels_of_all(batch.part(0, n)), ends[n - 1] - begin):
            if n <= ROOM_EVERY:
                few = max(1, bisect_right(ends, begin + _BYTES_WHERE_SHORT))
                first = self.labels_of(batch.ids[0], batch.labels[0])
                return self._before_new(batch.part(0, min(few, len(batch)))) or int(self.admits(first))
            n = max(ROOM_EVERY, n // 2)
        return n

    def _before_new(self, batch: EventBatch) -> int:
        """Return how many events precede a new label or the next memory check."""
        most = min(len(batch), ROOM_EVERY - self._state.n_learned % ROOM_EVERY)
        each = zip(batch.ids[:most], batch.labels, strict=False)
        return next((i for i, event in enumerate(each) if self._with(self.labels_of(*event))[1]), most)

    def predicted_at_once(self, labels: Sequence[str | None]) -> int:
        """Return how many events may be predicted at once: their predictions take at most 4 MiB."""
        known = self._state.known.follow(self._state.model.classes)
        size, longest = known.n_bytes, known.longest
        new = {label for label in {*labels} if label is not None and label not in known.columns}
        longest = max([longest, *map(class_bytes, new)])
        if (size + 2 * longest + sum(map(class_bytes, new))) * len(labels) <= _BYTES_AT_ONCE:
            return len(labels)
        total = 0
        for number, label in enumerate(labels):
            total += size + 2 * longest  # plus the predicted and the true label
            if number and total > _BYTES_AT_ONCE:
                return number
            if label is not None and label in new:
                size += class_bytes(label)
                new.discard(label)
        return len(labels)

    def refused(self) -> MalformedEvent:
        """Return the error of a record with a label too many."""
        key = "classes.max" if self.most_classes == self._state.settings.max_classes else "memory.budget"
        known = len(self._state.model.classes)
        remedy = f"raise {key}, or send no ids as labels: there are {known:,} labels already"
        return MalformedEvent(TOO_MANY_CLASSES, "$.label", "a new label", remedy)
