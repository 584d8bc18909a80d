"""Verdicts as they come, many at once, and what they did."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from streamnb.engine.ports import Record
from streamnb.events import Event, LabelRecord


class EventBatch(NamedTuple):
    """n events that are predicted together.

    Attributes:
        events, records: what each says, and where it lies.
        places: of each record among those that are processed.
        earliest: float64[n], events that were recorded before wait no longer.
    """

    events: Sequence[Event]
    records: Sequence[Record]
    places: Sequence[int]
    earliest: npt.NDArray[np.float64]


class LabelBatch(NamedTuple):
    """n verdicts as they came.

    Attributes:
        verdicts, records: what each says, and where it lies.
        places: of each record among those that are processed.
        times: float64[n], when the log recorded each.
        earliest: float64[n], events that were recorded before wait no longer.
    """

    labels: Sequence[LabelRecord]
    records: Sequence[Record]
    places: Sequence[int]
    times: npt.NDArray[np.float64]
    earliest: npt.NDArray[np.float64]


class LabelColumns(NamedTuple):
    """What n verdicts say, as columns.

    Attributes:
        sources: int64[n], number of the source; `NONE` of one that is one too many.
        times: float64[n], when it was said.
        partitions: int64[n], number of the partition of its record.
        offsets: int64[n], of its record.
        labels: each a class, or None.
        weights: float64[n], that of the source included.
    """

    sources: npt.NDArray[np.int64]
    times: npt.NDArray[np.float64]
    partitions: npt.NDArray[np.int64]
    offsets: npt.NDArray[np.int64]
    labels: Sequence[str | None]
    weights: npt.NDArray[np.float64]


class RejectedLabel(NamedTuple):
    """A verdict that changes nothing, and of which somebody should know.

    Attributes:
        reason: see `streamnb.events.REASONS`.
        record: what it said, and where it lies.
        place: among the records that are processed, of the one that it was found by.
    """

    reason: str
    record: Record
    place: int

    @property
    def path(self) -> str:
        """The path of the value that is refused."""
        return "$.id" if self.reason == "unknown-event" else "$.source"


class FirstLabel(NamedTuple):
    """An event that was scored for the first time, long after its prediction perhaps.

    Attributes:
        id: of the event.
        label: what it is.
        is_right: whether it was predicted right; None where an empty model met it.
        confidence: the probability of what was predicted.
        age: how many events the model had learned before it predicted.
        place: of the verdict among the records.
    """

    id: str
    label: str
    is_right: bool | None
    confidence: float
    age: int
    place: int


class LabelBatchResult(NamedTuple):
    """What verdicts did.

    Attributes:
        firsts: events that were scored for the first time, some by some; each is made when it is asked for.
        refused: verdicts that were not taken.
        learned: label -> events learned by it.
        small_weights: verdicts whose weight, that of the source included, is above 0 and below 1/1024.
    """

    firsts: list[Iterable[FirstLabel]]
    refused: list[RejectedLabel]
    learned: Counter[str]
    small_weights: int = 0
