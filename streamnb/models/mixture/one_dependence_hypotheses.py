"""One-dependence estimators as hypotheses: each predicts a whole batch before the mixture's kernel runs.

The predictions of an estimator depend only on its own counts. So it first processes the batch alone, in
order, predicting each event before it learns it, and the mixture's kernel reads the stored predictions.

Values that the mixture evicts under a memory budget stay in these counts, which have a bound of their own.
So an event is learned and unlearned by its values, whether or not they have a row. Only when an event is
predicted without learning is a value without a row one of the REST.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from streamnb.features.encoded_batch import Batch, Encoded
from streamnb.kernels.array_types import Floats
from streamnb.kernels.growable_arrays import Growable, PinnedArrays
from streamnb.models.mixture.hypothesis_kinds import AnyHypothesis, OneDependence
from streamnb.models.naive_bayes.sufficient_statistics import SufficientStatistics
from streamnb.models.one_dependence.averaged_one_dependence import AveragedScratch
from streamnb.models.one_dependence.batch_value_codes import BatchValues, CodeTables, has_only_texts
from streamnb.models.one_dependence.one_dependence_kernels import CodedEvents, PairSmoothing
from streamnb.models.one_dependence.pair_attribution import MOST_KEPT, ReadPairs
from streamnb.models.one_dependence.pair_counts import PairCounts
from streamnb.models.one_dependence.pair_model import CODED, GATED, NO_ESTIMATOR, Estimator, PairModel
from streamnb.statistics.memory_budget import MemoryComponent
from streamnb.values.attribute_kinds import CONTINUOUS, NOMINAL
from streamnb.values.example_weights import UNIT
from streamnb.values.state_validation import named, reject
from streamnb.values.type_aliases import Array, Codes

_ALPHA = 1.0
_MOST_MEMORY = (
    16 << 20
)  # bytes, for the pairs of a gated estimator: growing a larger table would stall the stream
_WEIGHT = "averaged_prior_weight"  # key in a state


class OneDependenceOpinions(Growable):
    """One-dependence estimators of a mixture, each with its own counts. Texts are ignored.

    Args:
        hypotheses: all hypotheses; other kinds are ignored.
        memory: of the pairs of all gated estimators together, bytes; None uses their own `memory`.
    """

    def __init__(self, hypotheses: Sequence[AnyHypothesis], memory: int | None = None) -> None:
        self.pin = PinnedArrays()
        self._estimators = [h for h in hypotheses if isinstance(h, OneDependence)]
        self._models = [
            PairModel(h.max_values, _memory_of(h), max_attributes=h.max_attributes) for h in self._estimators
        ]
        self._tables = [CodeTables(model.coded) for model in self._models]
        self._counting: Sequence[PairCounts] = ()  # those of `alone`
        if memory is not None:
            self.keep_within(memory)

    @property
    def n_bytes(self) -> int:
        """Memory, bytes."""
        of_counts = sum(counts.n_bytes for counts in self._counts)
        return of_counts + sum(tables.n_bytes for tables in self._tables)

    def memory(self) -> dict[str, MemoryComponent]:
        """Return the memory use of pairs, for the estimators under the model's budget."""
        bounded = [counts for counts in self._counts if counts.bounds_values]
        taken = sum(counts.pair_bytes for counts in bounded)
        return {"pairs": MemoryComponent(taken, sum(counts.memory for counts in bounded))} if bounded else {}

    def keep_within(self, n_bytes: int) -> None:
        """Bound the memory of the pairs of all gated estimators together, from now on."""
        waiting = sum(h.is_gated for h in self._estimators)
        for h, counts in zip(self._estimators, self._counts, strict=True):
            if h.is_gated:
                counts.memory = min(_memory_of(h), n_bytes // waiting)

    def joints(
        self, encoded: Encoded, statistics: SufficientStatistics, *, learn: bool, keep: bool = False
    ) -> tuple[Floats, int, ReadPairs]:
        """Predict every event from the events before it, then learn it.

        Returns log P(class, event), (estimators, n, K), the first event that gated estimators predict, and,
        if `keep`, what they read of each event. If the first event is n, the array has no events, and all
        estimators predict the class priors.
        """
        batch = encoded.batch
        n, K = batch.label.size, len(statistics.classes)
        labels, awake = batch.label if learn else np.full(n, -1), 0
        if not self._tables:
            return np.empty((0, n, K)), awake, ReadPairs.none()
        if self._waits and has_only_texts(batch, statistics.layout):  # fast path
            return np.empty((len(self._estimators), 0, K)), n, ReadPairs.none()
        read = BatchValues.from_encoded(encoded, statistics)
        if self._waits:
            awake = int(read.events[labels[read.events] >= 0].min(initial=n)) + 1
            if awake > n:
                return np.empty((len(self._estimators), 0, K)), n, ReadPairs.none()
            for counts in self._counts:
                counts.begin(statistics.class_weights[:K], statistics.events)
        found = np.empty((len(self._estimators), n, K))
        codes = [tables.encode(read, labels >= 0) for tables in self._tables]
        kept = self._kept(codes, statistics, K) if keep else None
        for i, (h, model) in enumerate(zip(self._estimators, self._models, strict=True)):
            events = CodedEvents(codes[i], labels, batch.weight)
            model.run(events, K, _reading(h), found[i], None if kept is None else kept.of_estimator(i))
        return found, awake, kept or ReadPairs.none()

    def _kept(self, codes: Sequence[Codes], statistics: SufficientStatistics, K: int) -> ReadPairs:
        """Return room for what the estimators read of events with these codes."""
        numbers = [tables.numbers_of(statistics.layout) for tables in self._tables]
        n, A = len(codes[0]), max(own.shape[1] for own in codes)
        m = np.array([_reading(h).m for h in self._estimators])
        of_group, of_field = (np.array([own[kind] for own in numbers]) for kind in (NOMINAL, CONTINUOUS))
        return ReadPairs.with_capacity(m, n, (A, A, K), of_group, of_field)

    def most_kept(self, classes: int, attributes: int) -> int:
        """Return how many events of this size are explained at once, so that what is kept stays small."""
        known = [len(model.coded.codes) for model in self._models]
        A = max([attributes, *known])
        return max(1, MOST_KEPT // max(1, len(known) * A * A * classes))

    def alone(self, statistics: SufficientStatistics, forests: int) -> tuple[Estimator | None, int]:
        """Return the arrays for single events, and the state of the estimator; None if they need a batch.

        `joints` has room for this number of `forests`, too.
        """
        K, D = len(statistics.classes), len(self._estimators)
        vars(self)["_counting"] = () if self._waits else self._counts  # no arrays: the edition stays
        if not D or self._waits:
            return Estimator.none(K, D + forests), GATED if D else NO_ESTIMATOR
        model, counts = self._models[0], self._counts[0]
        tables, sizes = self._tables[0].arrays(statistics), counts.sizes
        if D > 1 or tables is None or model.coded.sizes is not sizes or counts.classes != K:
            return None, CODED
        room = AveragedScratch.with_capacity(min(sizes.size, len(counts.tables.pair_first)), K)
        codes, joints = np.empty((1, sizes.size), dtype=np.int32), np.empty((1 + forests, 1, K))
        missing = np.zeros((sizes.size + 1, 3), dtype=np.int64)
        smoothing = _reading(self._estimators[0])
        return Estimator(
            counts.tables, smoothing, tables, codes, missing, np.full(1, -1), joints, room
        ), CODED

    @property
    def smoothed(self) -> dict[str, tuple[PairModel, PairSmoothing]]:
        """The counts of each estimator, and their smoothing, by its label."""
        models = zip(self._estimators, self._models, strict=True)
        return {h.label: (model, _reading(h)) for h, model in models}

    def add_codes(self, statistics: SufficientStatistics, missing: Sequence[Sequence[int]]) -> bool:
        """Give codes to values that a single event has first; return False if it needs a batch."""
        added = self._tables[0].add(statistics.vocabulary, missing)
        return added and self._models[0].make_room(len(statistics.classes))

    def note_single_event(self) -> None:
        """Record an event that was learned without a batch, with the arrays of `alone`."""
        for counts in self._counting:
            counts.events += 1

    def unlearn(self, encoded: Encoded, statistics: SufficientStatistics) -> int:
        """Unlearn events in order, up to the first that was not learned; return the number."""
        batch = encoded.batch
        if not self._tables or self._waits:
            return int(batch.label.size)
        read = BatchValues.from_encoded(encoded, statistics)
        known = [tables.known(read) for tables in self._tables]
        done = [
            counts.unlearn_many(codes, batch.label[:n], batch.weight)
            for counts, (codes, n) in zip(self._counts, known, strict=True)
        ]
        for counts, (codes, _), n_done in zip(self._counts, known, done, strict=True):
            _put_back(counts, codes, batch, slice(min(done), n_done))
        return min(done)

    def learn_again(self, encoded: Encoded, statistics: SufficientStatistics, first: int, stop: int) -> None:
        """Learn events `first` to `stop` again, which were unlearned."""
        if first < stop and self._tables and not self._waits:
            read = BatchValues.from_encoded(encoded, statistics)
            for counts, tables in zip(self._counts, self._tables, strict=True):
                _put_back(counts, tables.known(read)[0], encoded.batch, slice(first, stop))

    def state(self) -> tuple[list[dict[str, Any]], dict[str, Array]]:
        """Return the state of all estimators: JSON-able values, and arrays."""
        states = [model.state() for model in self._models]
        described = [
            meta | {_WEIGHT: h.prior_weight} for h, (meta, _) in zip(self._estimators, states, strict=True)
        ]
        arrays = {f"{t}_{name}": array for t, (_, own) in enumerate(states) for name, array in own.items()}
        return described, arrays

    def load(
        self, described: Sequence[Mapping[str, Any]], arrays: Mapping[str, Array], weights: Array
    ) -> None:
        """Replace all state. Raises ValueError for a state of other estimators, and SnapshotError."""
        own = [(h.max_values, h.prior_weight, h.is_gated) for h in self._estimators]
        met = [(meta["max_values"], meta[_WEIGHT], "max_attributes" in meta) for meta in described]
        if met != own:
            raise ValueError("a state of other one-dependence estimators than the hypotheses")
        self._models = [
            PairModel.from_state(counts.memory, meta, named(arrays, f"{t}_"))
            for t, (counts, meta) in enumerate(zip(self._counts, described, strict=True))
        ]
        self._tables = [CodeTables(model.coded) for model in self._models]
        for counts in self._counts:
            known = counts.tables.classes
            has_examples = np.zeros(known.size, dtype=np.bool_)
            has_examples[: weights.size] = weights[: known.size] > 0
            reject("class_weights", (known > 0) & ~has_examples, "pairs have examples of a class without any")

    @property
    def _counts(self) -> list[PairCounts]:
        return [model.counts for model in self._models]

    @property
    def _waits(self) -> bool:
        """True if all estimators are gated and no attribute was learned (dropped ones count)."""
        return bool(self._tables) and all(each.is_gated for each in self._tables)


def _reading(h: OneDependence) -> PairSmoothing:
    return PairSmoothing(_ALPHA * UNIT, h.prior_weight * UNIT)


def _memory_of(h: OneDependence) -> int:
    return min(h.memory, _MOST_MEMORY) if h.is_gated else h.memory


def _put_back(counts: PairCounts, codes: Codes, batch: Batch, part: slice) -> None:
    if part.start < part.stop:
        counts.learn_again(codes[part].copy(), batch.label[part], batch.weight[part])
