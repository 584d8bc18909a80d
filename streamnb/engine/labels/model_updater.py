"""Batches of learn and unlearn calls, in order."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from itertools import compress
from typing import Literal

import numpy as np

from streamnb.engine.labels.label_buffer import LabelBuffer
from streamnb.engine.labels.source_labels import ResolvedLabel
from streamnb.kernels.array_types import Floats, Ints
from streamnb.models.interface.stream_model import StreamModel

_AT_ONCE = 1000  # events
_BYTES_AT_ONCE = 4 << 20
_Task = Literal["learn", "learn again", "unlearn"]


class ModelUpdater:
    """Ordered learn and unlearn calls; adjacent calls of one kind are joined.

    Args:
        pending: the waiting events.
        model: learns and unlearns.
        heartbeat: called now and then.

    Attributes:
        learned: label -> number of events learned.
    """

    def __init__(self, pending: LabelBuffer, model: StreamModel, heartbeat: Callable[[], None]) -> None:
        self.learned: Counter[str] = Counter()
        self._pending, self._model, self._heartbeat = pending, model, heartbeat
        self._numbers: list[int] = []
        self._labels: list[str] = []
        self._weights: list[float] = []
        self._prunings: list[int] = []
        self._task: _Task = "learn"

    def correct(
        self, number: int, was: ResolvedLabel | None, truth: ResolvedLabel | None, prunings: int
    ) -> None:
        """Unlearn label `was`, learned after `prunings` prunings, and learn `truth`; skip weight 0."""
        is_again = was is not None and was.weight > 0.0
        self._queue(number, was, prunings, "unlearn")
        self._queue(number, truth, 0, "learn again" if is_again else "learn")

    def learn_each(self, numbers: Ints, labels: Sequence[str], weights: Floats) -> None:
        """Learn events, each with its own label, except those of weight 0."""
        if self._task != "learn":
            self.finish()
        self._task = "learn"
        have_weight = (weights > 0.0).tolist()
        self._numbers += compress(numbers.tolist(), have_weight)
        self._labels += compress(labels, have_weight)
        self._weights += compress(weights.tolist(), have_weight)
        self._prunings += [0] * (len(self._numbers) - len(self._prunings))

    def _queue(self, number: int, truth: ResolvedLabel | None, prunings: int, task: _Task) -> None:
        if truth is None or not truth.weight:
            return
        if task != self._task or len(self._numbers) >= _AT_ONCE:
            self.finish()
        self._task = task
        self._numbers.append(number)
        self._labels.append(truth.label)
        self._weights.append(truth.weight)
        self._prunings.append(prunings)

    def finish(self) -> None:
        """Apply all queued calls, a few megabytes at a time."""
        numbers = np.array(self._numbers, dtype=np.int64)
        ends = np.cumsum(self._pending.sizes(numbers)) if numbers.size else numbers
        first = 0
        while first < numbers.size:
            self._heartbeat()
            before = int(ends[first - 1]) if first else 0
            stop = max(first + 1, int(np.searchsorted(ends, before + _BYTES_AT_ONCE, side="right")))
            self._hand_over(numbers[first:stop], slice(first, stop))
            first = stop
        self._numbers, self._labels, self._weights, self._prunings = [], [], [], []

    def _hand_over(self, numbers: Ints, part: slice) -> None:
        xs, ts = self._pending.events(numbers)
        labels, weights = self._labels[part], self._weights[part]
        if self._task == "unlearn":
            self._model.unlearn_many(xs, labels, weights, ts, self._prunings[part])
            return
        self._model.learn_late_many(xs, labels, weights, ts, again=self._task == "learn again")
        self.learned.update(labels)
