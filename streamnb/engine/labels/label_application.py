"""Apply label records to waiting events: store, learn, unlearn and score them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from streamnb.engine.labels.batches import FirstLabel, LabelBatch, LabelBatchResult, RejectedLabel
from streamnb.engine.labels.delay_scores import DELAYS
from streamnb.engine.labels.label_block import NONE
from streamnb.engine.labels.label_buffer import ABSENT
from streamnb.engine.labels.model_updater import ModelUpdater
from streamnb.engine.labels.source_labels import SourceLabel, has_too_many, merged
from streamnb.engine.labels.unmatched_labels import DroppedLabels
from streamnb.engine.ports import Record
from streamnb.events import LabelRecord
from streamnb.formats.codec import encode_label
from streamnb.kernels.array_types import Floats, Ints
from streamnb.models.interface.stream_model import StreamModel
from streamnb.scoring.revisable_scores import NOTHING, RevisableScore
from streamnb.values.example_weights import UNIT
from streamnb.values.type_aliases import Flags

if TYPE_CHECKING:
    from streamnb.engine.labels.delayed_labels import DelayedLabels

_TOO_MANY = "too-many-sources"
SEVERAL_BYTES = 800
"""Accounted bytes of each further source label of an event."""


class LabelApplication:
    """One pass of label records over the waiting events.

    Args:
        late: the waiting events, and their labels.
        model: learns and unlearns.
        heartbeat: called now and then, as this may take long.
    """

    def __init__(
        self, late: DelayedLabels, model: StreamModel, heartbeat: Callable[[], None] = lambda: None
    ) -> None:
        self._late, self._pending, self._store = late, late.pending, late.store
        self._updater = ModelUpdater(late.pending, model, heartbeat)
        self._prunings = model.n_prunings
        self._result = LabelBatchResult([], [], Counter())

    def apply(self, batch: LabelBatch) -> LabelBatchResult:
        """Apply label records in order."""
        pending, n = self._pending, len(batch)
        found = pending.find(
            [event_id.encode() for event_id in batch.ids],
            batch.earliest,
            np.full(n, pending.horizon.least),
        )
        self._store.intern(batch, self._late.settings.weights)
        is_first = self._first_labels(found, batch)
        at, limit = 0, pending.horizon.least
        while at < n:
            if pending.horizon.least > limit:  # labels of several sources take memory
                limit = pending.horizon.least
                pending.forget(found[at:], limit)
                is_first &= found != ABSENT
            stop = at + 1
            if is_first[at]:
                stop = at + int(np.append(is_first[at:], False).argmin())
                self._result.firsts.append(self._record_first_labels(found, batch, slice(at, stop)))
            else:
                self._record_label(int(found[at]), batch, at)
            at = stop
        is_small = (batch.weights > 0.0) & (batch.weights < 1.0 / UNIT)
        return self.finish()._replace(small_weights=int(np.count_nonzero(is_small)))

    def finish(self) -> LabelBatchResult:
        """Learn what is queued; return the effects of all calls."""
        self._updater.finish()
        self._late.learned += self._updater.learned.total()
        return self._result._replace(learned=self._updater.learned)

    def _first_labels(self, numbers: Ints, batch: LabelBatch) -> Flags:
        """Return which label records are the first for a waiting event: those are applied in bulk."""
        found = np.flatnonzero(numbers != ABSENT)
        is_first = np.zeros(numbers.size, dtype=np.bool_)
        if found.size:
            _, firsts = np.unique(numbers[found], return_index=True)
            firsts = found[firsts]
            is_first[firsts] = self._pending.column("source", numbers[firsts]) == NONE
        is_first &= batch.sources != NONE
        if None in batch.labels:
            is_first &= [label is not None for label in batch.labels]
        if self._late.retractions.revoked.spans:
            for row in np.flatnonzero(is_first).tolist():
                is_first[row] = not self._late.retractions.cover(self._store.label_at(batch, row))
        return is_first

    def _record_first_labels(self, found: Ints, batch: LabelBatch, some: slice) -> Iterable[FirstLabel]:
        """Apply first labels of distinct waiting events."""
        numbers, weights = found[some], batch.weights[some]
        labels: Any = batch.labels[some]
        scoring = self._late.scoring
        truth = np.array(scoring.columns_of(labels))
        said = {"source": batch.sources[some], "said_at": batch.said_at[some]}
        lies = {"partition": batch.partitions[some], "offset": batch.offsets[some]}
        self._pending.write(numbers, label=truth, weight=weights, pruned=self._prunings, **said, **lies)
        self._updater.learn_each(numbers, labels, weights)
        delays = _bucket(batch.times[some] - self._pending.column("time", numbers))
        self._late.outcomes["first"] += numbers.size
        return self._firsts(numbers, scoring.count(numbers, truth, delays), batch, some)

    def _firsts(
        self, numbers: Ints, score: RevisableScore, batch: LabelBatch, some: slice
    ) -> Iterable[FirstLabel]:
        ages = self._pending.column("age", numbers)
        columns = (column.tolist() for column in (score.truth, score.predicted, score.confidence, ages))
        names = self._late.scoring.names.names
        for event_id, at, truth, predicted, confidence, age in zip(
            batch.ids[some], batch.numbers[some], *columns, strict=True
        ):
            is_right = None if predicted == NOTHING else truth == predicted
            yield FirstLabel(event_id, names[truth], is_right, confidence, age, at)

    def _record_label(self, number: int, batch: LabelBatch, row: int) -> None:
        """Apply any single label record."""
        late = self._late
        if batch.sources[row] == NONE:
            self._refuse_source(batch, row)
            return
        said = self._store.label_at(batch, row)
        if late.retractions.cover(said):
            late.outcomes["source_withdrawn"] += 1
        elif number == ABSENT:
            earliest = batch.earliest[row].item()
            dropped = late.unmatched.add(batch.ids[row], said, batch.times[row].item(), earliest)
            if dropped is None:
                self._refuse_source(batch, row)
            self._result.refused.extend(self._unknown(one, batch.numbers[row]) for one in dropped or ())
        else:
            before = self._store.labels_of(number)
            now = merged(before, said)
            if now is before:
                late.outcomes["repeated"] += 1
            elif any(map(said.repeats, before)):  # also if another record lies between the two
                late.outcomes["repeated"] += 1
                self._store.move(number, now)
            elif has_too_many(now):
                self._refuse_source(batch, row)
            else:
                self._result.firsts.append(self.change(number, now, batch, row))
                if len(now) > max(1, len(before)):
                    self._pending.horizon.took(SEVERAL_BYTES)

    def change(
        self, number: int, now: tuple[SourceLabel, ...], batch: LabelBatch | None = None, row: int = 0
    ) -> Iterable[FirstLabel]:
        """Store the source labels `now` of an event; unlearn, learn and score the difference."""
        late, pending = self._late, self._pending
        was, truth = self._store.truth_of(number), late.resolve(now)
        one = np.array([number])
        prunings = int(pending.column("pruned", one)[0])
        self._store.write(one, [now], [truth], self._prunings)
        if truth == was:
            pending.write(one, pruned=prunings)
            late.outcomes["outranked"] += batch is not None
            return ()
        self._updater.correct(number, was, truth, prunings)
        before, after = (None if t is None else t.label for t in (was, truth))
        is_new = pending.column("score", one)[0] == NONE
        if is_new and after is not None and batch is not None:
            late.outcomes["first"] += 1
            delay = _bucket(batch.times[row] - pending.column("time", one))
            score = late.scoring.count(one, np.array(late.scoring.columns_of([after])), delay)
            return self._firsts(one, score, batch, slice(row, row + 1))
        late.outcomes["withdrawn" if after is None else "changed"] += batch is not None
        if before != after:
            late.scoring.replace(number, before, after)
        return ()

    def _refuse_source(self, batch: LabelBatch, row: int) -> None:
        """Reject a label beyond the maximum number of sources, of its event or in total."""
        self._late.outcomes["too_many_sources"] += 1
        self._result.refused.append(RejectedLabel(_TOO_MANY, batch.records[row], batch.numbers[row]))

    def _unknown(self, dropped: DroppedLabels, number: int) -> RejectedLabel:
        """Reject a label without an event, as it was written: without the weight of its source."""
        event_id, said = dropped
        share = self._late.settings.weights.get(said.source, 1.0)
        weight = said.weight / share if share else 1.0
        value = encode_label(LabelRecord(event_id, said.label, said.source, weight, said.time))
        self._late.outcomes["unknown"] += 1
        record = Record(said.partition, said.offset, None, value, said.time)
        return RejectedLabel("unknown-event", record, number)


def revoke(late: DelayedLabels, model: StreamModel, numbers: Sequence[int]) -> None:
    """Remove the revoked labels of some waiting events."""
    application = LabelApplication(late, model)
    for number in numbers:
        before = late.store.labels_of(number)
        now = tuple(one._replace(label=None) if late.retractions.cover(one) else one for one in before)
        if now != before:
            late.outcomes["source_withdrawn"] += 1
            application.change(number, now)
    application.finish()


def _bucket(delays: Floats) -> Ints:
    buckets: Ints = 1 + np.searchsorted(DELAYS, delays, side="left")
    return buckets
