"""Filters of the newest predictions, by their fields and labels."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress
from typing import NamedTuple

import msgspec

from streamnb.errors import MalformedEvent
from streamnb.events import Prediction
from streamnb.formats.codec import decode_prediction
from streamnb.queries.resolved_labels import ResolvedLabels


class QueueFields(msgspec.Struct, gc=False):
    """The fields by which a queue chooses predictions."""

    id: str
    label: str | None = None
    probability: float | None = None
    unseen: float | None = None
    truth: str | None = None
    decision: str | msgspec.UnsetType | None = msgspec.UNSET
    ts: float = 0.0


queue_fields_of = msgspec.json.Decoder(QueueFields).decode
"""Decode the fields by which predictions are chosen."""


def decoded_predictions(raws: Iterable[bytes]) -> Iterator[Prediction]:
    """Yield the predictions of records, without those that are none."""
    for raw in raws:
        with suppress(MalformedEvent):
            yield decode_prediction(raw)


class RecentPrediction(NamedTuple):
    """A prediction as published, with the fields needed of every one."""

    id: str
    label: str | None
    truth: str | None
    raw: bytes


class PredictionFilter(NamedTuple):
    """Predictions to show; None admits every value.

    Attributes:
        search: text that the id contains.
        label: predicted class.
        most: maximum probability of the predicted class.
        decision: "none" if nothing was decided, or "=" and the decision.
        source: source of a separate label of the event.
        ids: ids of the events.
        pair: the label in force, and the predicted label.
        is_wrong: True for predictions that differ from the label in force.
    """

    search: str = ""
    label: str | None = None
    most: float | None = None
    decision: str | None = None
    source: str | None = None
    ids: Collection[str] | None = None
    pair: tuple[str, str | None] | None = None
    is_wrong: bool = False

    def admits(self, one: RecentPrediction, labels: ResolvedLabels) -> bool:
        """Return whether a prediction is wanted."""
        if self.search not in one.id or (self.ids is not None and one.id not in self.ids):
            return False
        if self.label is not None and one.label != self.label:
            return False
        if self.is_wrong or self.pair is not None:
            truth = labels.label(one.id, one.truth)
            if (self.is_wrong and truth in {None, one.label}) or self.pair not in {None, (truth, one.label)}:
                return False
        if self.source is not None and labels.own(one.id, self.source) is None:
            return False
        return (self.most is None and self.decision is None) or self._admits_fields(one.raw)

    def _admits_fields(self, raw: bytes) -> bool:
        try:
            found = queue_fields_of(raw)
        except msgspec.MsgspecError:  # a record of another program
            return False
        if self.most is not None and (found.probability is None or found.probability > self.most):
            return False
        is_decided = found.decision is not None and found.decision is not msgspec.UNSET
        decided = f"={found.decision}" if is_decided else "none" if found.decision is None else ""
        return self.decision in {None, decided}


class PredictionBlocks:
    """Ids and classes of predictions in blocks, so that a filter passes over a block without reading it.

    A block has the predictions whose numbers have the same quotient by `SIZE`. The newest block is open.

    Args:
        most: number of predictions that are kept.
    """

    SIZE = 1000

    def __init__(self, most: int) -> None:
        self._most = most
        self._closed: dict[int, tuple[str, frozenset[str | None]]] = {}
        self._ids: list[str] = []
        self._labels: set[str | None] = set()
        self._n = 0

    def add(self, id_: str, label: str | None) -> None:
        """Add the next prediction."""
        self._ids.append(id_)
        self._labels.add(label)
        self._n += 1
        block, place = divmod(self._n, self.SIZE)
        if place == 0:
            self._closed[block - 1] = "\n".join(self._ids), frozenset(self._labels)
            self._ids.clear()
            self._labels.clear()
            self._closed.pop(block - 2 - self._most // self.SIZE, None)

    def excludes(self, number: int, wanted: PredictionFilter) -> bool:
        """Return True only if the filter admits no prediction of the block with this number."""
        if (block := self._closed.get(number // self.SIZE)) is None:
            return False
        ids, labels = block
        return wanted.search not in ids or (wanted.label is not None and wanted.label not in labels)


class PredictionPage(NamedTuple):
    """A page of the predictions that a filter admits.

    Attributes:
        rows: the predictions, newest first.
        after: cursor of the next page; None if there is none.
        n_searched: number of the newest predictions that this page and those before it have searched.
    """

    rows: list[Prediction]
    after: int | None
    n_searched: int
