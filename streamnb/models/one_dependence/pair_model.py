"""Model of coded attributes and values: their codes, and the counts of values and pairs."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from streamnb.kernels.array_types import Floats, Ints
from streamnb.kernels.growable_arrays import Growable
from streamnb.kernels.structs import struct_type
from streamnb.models.one_dependence.averaged_one_dependence import AveragedScratch
from streamnb.models.one_dependence.one_dependence_kernels import CodedEvents, PairArrays, PairSmoothing
from streamnb.models.one_dependence.pair_attribution import ReadPairs
from streamnb.models.one_dependence.pair_counts import PairCounts
from streamnb.models.one_dependence.single_event_codes import CodeArrays
from streamnb.models.one_dependence.value_codes import MISSING, CodedValues
from streamnb.values.parameter_checks import check_capacity
from streamnb.values.state_validation import count, state_errors
from streamnb.values.type_aliases import Array, Codes, State

_UNASKED = np.empty((0, 0))
NO_ESTIMATOR, GATED, CODED = range(3)  # states of an estimator


@struct_type
class Estimator(NamedTuple):
    """An estimator that predicts a single event, and its scratch.

    Attributes:
        pairs: its counts.
        smoothing: of the counts.
        tables: from values to codes.
        codes: int32[1, d], of the event.
        missing: int64[d + 1, 3], the values without a code, see `code_one`.
        no_label: int64[1], -1.
        joints: float64[estimators and forests, 1, K], log P(class, event).
        scratch: of the kernel.
    """

    pairs: PairArrays
    smoothing: PairSmoothing
    tables: CodeArrays
    codes: Codes
    missing: Ints
    no_label: Ints
    joints: Floats
    scratch: AveragedScratch

    @classmethod
    def none(cls, classes: int, joints: int = 0) -> Estimator:
        """Return the arrays of a mixture without estimators, or whose estimators are gated."""
        return cls(
            _no_pairs(),
            PairSmoothing(1.0, 1.0),
            CodeArrays.none(),
            np.zeros((1, 0), dtype=np.int32),
            np.zeros((1, 3), dtype=np.int64),
            np.full(1, -1),
            np.zeros((joints, 1, classes)),
            AveragedScratch.with_capacity(0, classes),
        )


@functools.cache
def _no_pairs() -> PairArrays:
    return PairCounts(0).tables


class PairModel(Growable):
    """Codes and counts of a stream; the results do not depend on how calls split the stream.

    Args:
        max_values: maximum number of values of an attribute with their own counts.
        memory: limit of the pair counts, bytes.
        max_attributes: maximum number of attributes, see `CodedValues`; None is unlimited. With a limit, the
            last attributes are dropped if their counts of values exceed a quarter of `memory`.
    """

    def __init__(self, max_values: int, memory: int, *, max_attributes: int | None = None) -> None:
        check_capacity(max_values, memory)
        self.coded = CodedValues(max_values, max_attributes)
        self.counts = PairCounts(memory, bounds_values=max_attributes is not None)

    def run(
        self,
        events: CodedEvents,
        classes: int,
        reading: PairSmoothing,
        joints: Floats,
        kept: ReadPairs | None = None,
    ) -> None:
        """Predict and learn events in order; see `run_pairs`."""
        sizes = self.coded.sizes
        has_room = sizes is self.counts.sizes and classes == self.counts.classes
        if has_room or (events.labels < 0).all() or self._fits(sizes, classes):
            if not has_room:
                self.counts.reserve(sizes, classes)
            self.counts.run(events, reading, joints, kept)
            return
        # The memory limit is near: pairs must be dropped exactly at the event that needs it, so learn one by
        # one.
        for e in range(events.labels.size):
            event = events.one(e)
            row = self._predict_one(event.codes, reading, None if kept is None else kept.from_event(e))
            joints[e] = -np.inf
            joints[e, : row.size] = row
            if event.labels[0] >= 0:
                self._learn_one(event, reading)
        self.counts.reserve(self.coded.sizes, classes)

    def make_room(self, classes: int) -> bool:
        """Reserve capacity for all codes, as `run` does; return False if the memory limit is near."""
        sizes = self.coded.sizes
        if fits := self._fits(sizes, classes):
            self.counts.reserve(sizes, classes)
        return fits

    def _fits(self, sizes: Ints, classes: int) -> bool:
        counts = self.counts
        keeps_all = counts.keeping(sizes, classes) == sizes.size
        return keeps_all and counts.fitting(sizes, classes) == counts.paired

    def _hold(self, sizes: Ints, classes: int) -> Ints:
        """Drop attributes whose counts of values no longer fit; return the remaining sizes."""
        kept = self.counts.keeping(sizes, classes)
        if kept < sizes.size:
            self.coded.keep_first(kept)
            self.counts.keep_first(kept)
        return sizes[:kept]

    def _predict_one(self, codes: Codes, reading: PairSmoothing, kept: ReadPairs | None) -> Floats:
        """Return log P(class, event) from the counts so far. Shape (K,)."""
        sizes = self.counts.sizes
        known = codes[:, : sizes.size]
        known = np.where(known < sizes, known, MISSING).astype(np.int32)  # a new code has no counts
        found: Floats = np.empty((1, self.counts.classes))
        no_labels = np.full(1, -1)
        self.counts.run(CodedEvents(known, no_labels, no_labels), reading, found, kept)
        return found.ravel()

    def _learn_one(self, event: CodedEvents, reading: PairSmoothing) -> None:
        """Reserve capacity for this event alone, then learn it."""
        codes = event.codes[:, : len(self.coded.codes)]
        before = np.pad(self.counts.sizes, (0, codes.shape[1] - self.counts.sizes.size))
        sizes = np.maximum(before, codes[0] + 1)
        classes = max(self.counts.classes, int(event.labels[0]) + 1)
        sizes = sizes[: np.count_nonzero(sizes)].astype(np.int64)
        if classes > self.counts.classes or not np.array_equal(sizes, self.counts.sizes):  # as in `run`
            sizes = self._hold(sizes, classes)
            self.counts.reserve(sizes, classes)
        self.counts.run(event._replace(codes=codes[:, : sizes.size].copy()), reading, _UNASKED)

    def state(self) -> State:
        """Return all that was learned: JSON-able values, and arrays."""
        meta = {
            "max_values": self.coded.most,
            "events": self.counts.events,
            "paired": self.counts.paired,
            "attributes": self.coded.described(),
        }
        if self.coded.most_attributes is not None:
            meta["max_attributes"] = self.coded.most_attributes
        return meta, self.counts.state()

    @classmethod
    @state_errors("counts of pairs", ValueError)
    def from_state(cls, memory: int, meta: Mapping[str, Any], arrays: Mapping[str, Array]) -> PairModel:
        """Restore a model from its `state`. Raises SnapshotError if the state is invalid."""
        most_attributes = count(meta, "max_attributes") if "max_attributes" in meta else None
        model = cls(meta["max_values"], memory, max_attributes=most_attributes)
        model.coded.load(meta["attributes"])
        model.counts.load(model.coded.sizes, meta, arrays)
        model._hold(model.coded.sizes, model.counts.classes)
        return model
