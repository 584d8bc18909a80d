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
        self._written: dict[str, tuple[str | None, float]] = {}  # id -> its label, and when it was written

    def best(self, name: str, limit: int) -> list[Prediction]:
        """Return the predictions to review next, of each event the newest.

        Events that were labelled on the page are done, except those on which sources disagree.
        """
        newest: dict[str, tuple[float, int, QueueFields, bytes]] = {}
        for n, one in enumerate(islice(reversed(self._seen), MOST_QUEUED)):
            if one.id not in newest:
                with suppress(msgspec.MsgspecError):  # a record of another program
                    found = queue_fields_of(one.raw)
                    newest[one.id] = _order(name, found), n, found, one.raw
        ordered = sorted(newest.values(), key=lambda item: item[:2])
        queued = (raw for _, _, found, raw in ordered if self._is_queued(name, found))
        return list(islice(decoded_predictions(queued), limit))

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
        """Return whether a prediction is in a queue; what is asked last takes longest."""
        labels = self._labels
        if name == "disagree":
            return labels.disagreeing(found.id, found.truth)
        is_in = {
            "unsure": found.probability is not None,
            "undecided": found.decision is None,
            "new": found.unseen is not None and found.unseen > 0.0,
        }.get(name, True)
        if not is_in or self._is_reviewed(found.id):
            return False
        if name not in {"unsure", "new", "wrong"}:
            return True
        label = labels.label(found.id, found.truth)
        return label not in {None, found.label} if name == "wrong" else label is None


def _order(name: str, found: QueueFields) -> float:
    """Return the place of a prediction in a queue, the least first."""
    return {"unsure": found.probability or 0.0, "new": -(found.unseen or 0.0)}.get(name, -found.ts)
