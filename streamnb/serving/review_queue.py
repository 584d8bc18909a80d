"""The predictions to review next: queues of the newest ones, without those that the page has labelled."""

from __future__ import annotations

import math
import time
from collections import deque
from contextlib import suppress
from itertools import islice

import msgspec

from streamnb.events import Prediction
from streamnb.queries.resolved_labels import ResolvedLabels
from streamnb.serving.prediction_filter import (
    QueueFields,
    RecentPrediction,
    decoded_predictions,
    queue_fields_of,
)

PAGE_SOURCE = "dashboard"
"""The source of labels that are set on the page."""
QUEUES = {
    "unsure": "Least sure",
    "wrong": "Wrong",
    "undecided": "Nothing decided",
    "new": "New class",
    "disagree": "Sources disagree",
    "newest": "Newest",
}
"""Queue of a review -> its title."""
MOST_QUEUED = 10_000
"""Newest predictions among which a queue chooses."""
_UNREAD_SECONDS = 10.0  # in which a label that the page has written is read


class ReviewQueue:
    """Queues of predictions. All methods need the lock of the records.

    Args:
        seen: the newest predictions, oldest first.
        labels: the labels of their events.
    """

    def __init__(self, seen: deque[RecentPrediction], labels: ResolvedLabels) -> None:
        self._seen, self._labels = seen, labels
        # One for each prediction, oldest first; None for a record of another program.
        self._fields: deque[QueueFields | None] = deque(maxlen=MOST_QUEUED)
        self._written: dict[str, tuple[str | None, float]] = {}  # id -> its label, and when it was written

    def add(self, raw: bytes) -> None:
        """Add the newest prediction, which is also the last one of those seen."""
        found = None
        with suppress(msgspec.MsgspecError):
            found = queue_fields_of(raw)
        self._fields.append(found)

    def best(self, name: str, limit: int) -> list[Prediction]:
        """Return the predictions to review next, of each event the newest.

        Events that were labelled on the page are done, except those on which sources disagree.
        All fields are looked at, so that a queue with one prediction takes as long as a full one.
        """
        known: set[str] = set()
        queued: list[tuple[float, int]] = []
        newest = list(islice(reversed(self._seen), MOST_QUEUED))
        for n, found in enumerate(islice(reversed(self._fields), len(newest))):
            if found is not None and found.id not in known:
                known.add(found.id)
                if self._is_queued(name, found):
                    queued.append((_order(name, found), n))
        raws = (newest[n].raw for _, n in sorted(queued))
        return list(islice(decoded_predictions(raws), limit))

    def note_written(self, event_id: str, label: str | None) -> None:
        """Note a label that the page has written, before it is read; None undoes it."""
        since = time.monotonic() - _UNREAD_SECONDS
        self._written = {id_: one for id_, one in self._written.items() if one[1] > since}
        self._written[event_id] = label, time.monotonic()

    def _is_reviewed(self, event_id: str) -> bool:
        label, at = self._written.get(event_id, (None, -math.inf))
        if time.monotonic() > at + _UNREAD_SECONDS:
            label = self._labels.own(event_id, PAGE_SOURCE)
        return label is not None

    def _is_queued(self, name: str, found: QueueFields) -> bool:
        """Return whether a prediction is in a queue; the slowest condition comes last."""
        if name == "disagree":
            return self._labels.disagreeing(found.id, found.truth)
        if (
            (name == "unsure" and found.probability is None)
            or (name == "undecided" and found.decision is not None)
            or (name == "new" and (found.unseen or 0.0) <= 0.0)
        ):
            return False
        if name in {"unsure", "new", "wrong"}:
            label = self._labels.label(found.id, found.truth)
            if (label in {None, found.label}) if name == "wrong" else (label is not None):
                return False
        return not self._is_reviewed(found.id)


def _order(name: str, found: QueueFields) -> float:
    """Return the place of a prediction in a queue, the least first."""
    if name == "unsure":
        return found.probability or 0.0
    return -(found.unseen or 0.0) if name == "new" else -found.ts
