"""Mondrian forests as hypotheses: each predicts a whole batch before the mixture's kernel runs.

As a one-dependence estimator, a forest depends on its own state alone. It reads numbers and nominal values,
and leaves texts alone: an event that has only texts gets the class priors, and teaches it nothing. A forest
is adaptive: its trees cannot be unlearned, and restart with the other adaptive members.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from streamnb.errors import SnapshotError
from streamnb.features.encoded_batch import Encoded
from streamnb.features.feature_layout import Layout
from streamnb.features.vocabulary import Vocabulary
from streamnb.kernels.array_types import Floats, Ints
from streamnb.kernels.growable_arrays import Growable, PinnedArrays
from streamnb.models.forest.forest_table import ForestTable
from streamnb.models.forest.node_arrays import ForestEvents
from streamnb.models.forest.path_attribution import ReadPaths
from streamnb.models.mixture.hypothesis_kinds import AnyHypothesis, MondrianForest
from streamnb.models.mixture.single_forest import LARGEST, SingleForest
from streamnb.models.naive_bayes.sufficient_statistics import SufficientStatistics
from streamnb.models.one_dependence.batch_value_codes import BatchValues, CodeTables, has_only_texts
from streamnb.models.one_dependence.pair_attribution import ReadPairs
from streamnb.models.one_dependence.value_codes import CodedValues
from streamnb.statistics.memory_budget import MemoryComponent
from streamnb.values.attribute_kinds import CONTINUOUS, NOMINAL
from streamnb.values.state_validation import check_made, named
from streamnb.values.type_aliases import Array, Aside, Flags

_MOST_VALUES = 63  # codes 0 to 63, bits of a word
_MOST_ATTRIBUTES = 64
_NO_MAGNITUDES = np.zeros(0, dtype=np.int64)


class ForestOpinions(Growable):
    """Mondrian forests of a mixture, and the attributes that they read: the first 64 that are learned.

    An attribute has 63 nominal values of its own, the first ones; all other values are one.

    Args:
        hypotheses: all hypotheses; other kinds are ignored.
        memory: of all forests together, bytes; None uses their own `memory`.
    """

    def __init__(self, hypotheses: Sequence[AnyHypothesis], memory: int | None = None) -> None:
        self.pin = PinnedArrays()
        self._forests = [h for h in hypotheses if isinstance(h, MondrianForest)]
        self._tables = [ForestTable(h.trees, h.memory, h.seed) for h in self._forests]
        self._codes = CodeTables(CodedValues(_MOST_VALUES, _MOST_ATTRIBUTES))
        if memory is not None:
            self.keep_within(memory)

    def __len__(self) -> int:
        return len(self._forests)

    @property
    def n_bytes(self) -> int:
        """Memory, bytes."""
        return sum(table.n_bytes for table in self._tables)

    def memory(self) -> dict[str, MemoryComponent]:
        """Return the memory use of nodes, for the model's budget."""
        most = sum(table.memory for table in self._tables)
        return {"forests": MemoryComponent(sum(t.used_bytes for t in self._tables), most)} if most else {}

    def keep_within(self, n_bytes: int) -> None:
        """Bound the memory of all forests together, from now on."""
        for h, table in zip(self._forests, self._tables, strict=True):
            table.keep_within(min(h.memory, n_bytes // len(self)))

    @property
    def waits(self) -> bool:
        """True if there are forests, and no attribute was learned."""
        return len(self) > 0 and self._codes.is_gated

    def joints(
        self, encoded: Encoded, statistics: SufficientStatistics, *, learn: bool, keep: bool, waits: bool
    ) -> tuple[Floats, int, ReadPaths]:
        """Predict every event from the events before it, then learn it; nothing if `waits` and `self.waits`.

        Returns log P(class | event), (forests, n, K), the first event after an attribute was learned, and, if
        `keep`, what the splits added. Without such an event, the arrays have no events.
        """
        batch = encoded.batch
        n, K = batch.label.size, len(statistics.classes)
        labels, awake = batch.label if learn else np.full(n, -1), 0
        if not self._forests:
            return np.empty((0, n, K)), 0, ReadPaths.none()
        nothing = np.empty((len(self), 0, K)), n, ReadPaths.none()
        waits &= self.waits
        if waits and has_only_texts(batch, statistics.layout):
            return nothing
        read = BatchValues.from_encoded(encoded, statistics)
        if waits:
            awake = int(read.events[labels[read.events] >= 0].min(initial=n)) + 1
            if awake > n:
                return nothing
        events, of_group, of_field = self._events(read, labels)
        found, kept = np.empty((len(self), n, K)), ReadPaths.none()
        if keep:
            rows = 2 * max(events.numbers.shape[1], events.codes.shape[1]) + 2
            kept = ReadPaths(np.zeros((len(self), n, rows, K)), of_group, of_field)
        for f, table in enumerate(self._tables):
            known = statistics.class_weights[:K].copy()
            table.run(events, labels, batch.weight, known, found[f], kept.added[f] if keep else None)
        return found, awake, kept

    def alone(self, statistics: SufficientStatistics, *, is_gated: bool) -> SingleForest | None:
        """Return the arrays for single events, of none if all are gated; None if they need a batch."""
        if is_gated or not len(self):
            return SingleForest.none(len(statistics.classes))
        if len(self) != 1:
            return None
        is_nominal, of_group, of_field = self._columns(statistics.layout)
        tables = self._codes.nominal_arrays(statistics.vocabulary, of_group >> 1, of_field >> 1)
        numbers, codes = int((~is_nominal).sum()), int(is_nominal.sum())
        classes = len(statistics.classes)
        return SingleForest.with_capacity(self._tables[0].arrays, tables, numbers, codes, classes)

    def add_codes(self, vocabulary: Vocabulary, missing: Sequence[Sequence[int]]) -> bool:
        """Give codes to values that a single event has first; return False if it needs a batch."""
        numbers = np.flatnonzero(self._is_nominal).tolist()
        return self._codes.add(vocabulary, [(numbers[column], *value) for column, *value in missing])

    def reserve_event(self) -> None:
        """Make room for the nodes of a single event; one of a new attribute or class needs a batch."""
        for table in self._tables:
            table.reserve(0, 0, 0)

    def most_kept(self, classes: int, attributes: int, most: int) -> int:
        """Return how many events of this size are explained at once, with `most` numbers that are kept."""
        rows = 2 * max(attributes, len(self._codes.coded.codes)) + 2
        return max(1, most // max(1, len(self) * rows * classes))

    def copying(self, aside: Aside) -> tuple[list[dict[str, Any]], Callable[[], dict[str, Array]]]:
        """Return the current state of all forests: JSON-able values, and a callable that returns arrays."""
        attributes = self._codes.coded.described()
        described = [
            {"trees": h.trees, "memory": h.memory, "seed": h.seed, "attributes": attributes}
            for h in self._forests
        ]
        copies = [table.copying(aside) for table in self._tables]
        return described, lambda: {
            f"{f}_{name}": array for f, copied in enumerate(copies) for name, array in copied().items()
        }

    def load(self, described: Sequence[Mapping[str, Any]], arrays: Mapping[str, Array], classes: int) -> None:
        """Replace all state. Raises ValueError for a state of other forests, and SnapshotError."""
        if len(described) != len(self):
            raise ValueError("a state of other Mondrian forests than the hypotheses")
        if arrays.keys() and not described:
            raise SnapshotError("arrays of a forest that is not described")
        coded = CodedValues(_MOST_VALUES, _MOST_ATTRIBUTES)
        for f, (h, meta) in enumerate(zip(self._forests, described, strict=True)):
            if (meta["trees"], meta["memory"], meta["seed"]) != (h.trees, h.memory, h.seed):
                raise ValueError("a state of other Mondrian forests than the hypotheses")
            if f == 0:
                coded.load(meta["attributes"])
            check_made(meta, attributes=described[0]["attributes"])
            kinds = [kind for kind, _ in coded.numbers]
            self._tables[f].load(
                named(arrays, f"{f}_"), kinds.count(CONTINUOUS), kinds.count(NOMINAL), classes
            )
        self._codes = CodeTables(coded)

    def _events(self, read: BatchValues, labels: Ints) -> tuple[ForestEvents, Ints, Ints]:
        """Return the events, and the split attribute of each group and field of the layout, or -1."""
        nominal = read._replace(magnitudes=_NO_MAGNITUDES)
        coded = self._codes.encode(nominal, labels >= 0)
        is_nominal, of_group, of_field = self._columns(read.statistics.layout)
        batch, n = read.encoded.batch, labels.size
        numbers = np.full((n, int((~is_nominal).sum())), np.nan, dtype=np.float32)
        fields = of_field[batch.value_field] >> 1
        is_read = fields >= 0
        values = np.clip(batch.value[is_read], -LARGEST, LARGEST)
        numbers[read.value_events[is_read], fields[is_read]] = values
        return ForestEvents(numbers, np.ascontiguousarray(coded[:, is_nominal])), of_group, of_field

    @property
    def _is_nominal(self) -> Flags:
        """Whether each attribute that was learned is nominal."""
        return np.array([kind == NOMINAL for kind, _ in self._codes.coded.numbers], dtype=np.bool_)

    def _columns(self, layout: Layout) -> tuple[Flags, Ints, Ints]:
        """Return `_is_nominal`, and the split attribute of each group and field of the layout, or -1."""
        is_nominal, numbers = self._is_nominal, self._codes.numbers_of(layout)
        own = np.where(is_nominal, 2 * np.cumsum(is_nominal) - 1, 2 * np.cumsum(~is_nominal) - 2)
        padded = np.append(own, -1)  # attribute -1
        return is_nominal, padded[numbers[NOMINAL]], padded[numbers[CONTINUOUS]]


def predict_ahead(
    dependence: Any,
    forests: ForestOpinions,
    encoded: Encoded,
    statistics: SufficientStatistics,
    *,
    learn: bool,
    keep: bool,
) -> tuple[Floats, int, tuple[ReadPairs, ReadPaths]]:
    """Predict, and learn, by `OneDependenceOpinions` and forests; see its `joints`."""
    of_pairs, awake, pairs = dependence.joints(encoded, statistics, learn=learn, keep=keep)
    if not len(forests):
        return of_pairs, awake, (pairs, ReadPaths.none())
    n, K, waits = encoded.batch.label.size, len(statistics.classes), not len(of_pairs)
    if of_pairs.shape[1] < n:
        nothing = np.empty((len(of_pairs) + len(forests), 0, K))
        return nothing, awake, (pairs, ReadPaths.none())
    joints, first, paths = forests.joints(encoded, statistics, learn=learn, keep=keep, waits=waits)
    return (joints if waits else np.concatenate((of_pairs, joints))), max(awake, first), (pairs, paths)
