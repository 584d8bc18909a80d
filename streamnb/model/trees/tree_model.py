"""Attributes and values as codes, and the counts of these codes, alone and in pairs, with their tree."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from streamnb.errors import UnlearnError
from streamnb.model.attributes.expected import count, reading
from streamnb.model.attributes.parameters import check_capacity
from streamnb.model.attributes.signatures import Array, Codes, Flags, State
from streamnb.model.compiled.arrays import Floats, Ints
from streamnb.model.trees.kernels import TreeAnswers, TreeEvents, TreeReading
from streamnb.model.trees.tree_counts import TreeCounts
from streamnb.model.trees.value_codes import REST, CodedValues, KeyColumn, Kinds, key_columns


class Edge(NamedTuple):
    """One edge of a tree.

    Attributes:
        parent: an attribute.
        child: another one, read given the parent.
        information: mutual information of the two, given the class where there is one; nats.
    """

    parent: Any
    child: Any
    information: float


class TreeModel:
    """Codes and counts. Where one stream of events is cut into calls changes nothing.

    Args:
        max_values: values of an attribute that have counts of their own.
        memory: of the counts of pairs, bytes.
        grows: whether a tree is made of them.
        max_attributes: how many attributes are read, see `CodedValues`; None is all. If there is a number,
            attributes whose counts of values do not fit a quarter of `memory` are dropped, the last ones.
    """

    def __init__(
        self, max_values: int, memory: int, *, grows: bool = True, max_attributes: int | None = None
    ) -> None:
        check_capacity(max_values, memory)
        self.coded = CodedValues(max_values, max_attributes)
        self.counts = TreeCounts(memory, grows=grows, bounds_values=max_attributes is not None)

    def encode(self, xs: Iterable[Any], kinds: Kinds, adds: Flags) -> Codes:
        """Events as codes; what those bring that add gets numbers. Shape (n, attributes)."""
        return self.encoded(key_columns(xs, kinds), adds)

    def encoded(self, columns: Sequence[KeyColumn], adds: Flags) -> Codes:
        """The same of attributes that were read already."""
        codes = self.coded.encode(columns, adds)
        self._rank()
        return codes

    def _rank(self) -> None:
        if self.counts.ranks.size < len(self.coded.numbers):
            self.counts.ranks = self.coded.ranks

    def run(self, events: TreeEvents, classes: int, reading: TreeReading, asked: TreeAnswers) -> None:
        """Predict events in order, and learn them; see `kernels.run_tree`."""
        self._rank()
        sizes = self.coded.sizes
        has_room = sizes is self.counts.sizes and classes == self.counts.classes
        if has_room or (events.labels < 0).all() or self._fits(sizes, classes):
            if not has_room:
                self.counts.reserve(sizes, classes)
            self.counts.run(events, reading, asked)
            return
        # Memory is about to be spent: pairs are dropped at the event that needs it, and not before.
        for e in range(events.labels.size):
            one = events.one(e)
            found = self._predict_one(one.codes, reading)
            for filled, row in zip(asked, found, strict=True):
                if filled is not None:
                    filled[e] = 0.0 if filled is asked.probabilities else -np.inf
                    filled[e, : row.size] = row
            if one.labels[0] >= 0:
                self._learn_one(one, reading)
        self.counts.reserve(self.coded.sizes, classes)

    def _fits(self, sizes: Ints, classes: int) -> bool:
        """Whether nothing is dropped for so many values of each attribute, and classes."""
        counts = self.counts
        return (
            counts.keeping(sizes, classes) == sizes.size and counts.fitting(sizes, classes) == counts.paired
        )

    def _hold(self, sizes: Ints, classes: int) -> Ints:
        """Drop attributes whose counts of values have no room any more; the sizes of those that are left."""
        kept = self.counts.keeping(sizes, classes)
        if kept < sizes.size:
            self.coded.keep_first(kept)
            self.counts.keep_first(kept)
        return sizes[:kept]

    def _predict_one(self, codes: Codes, reading: TreeReading) -> Floats:
        """What there may be asked of an event, by what has been counted so far. Shape (3, K)."""
        sizes, K = self.counts.sizes, self.counts.classes
        known = codes[:, : sizes.size]
        known = np.where(known < sizes, known, REST).astype(np.int32)
        found, nobody = np.empty((3, 1, K)), np.full(1, -1)
        reading = reading._replace(prior=reading.prior[:K].copy())
        self.counts.run(TreeEvents(known, nobody, nobody), reading, TreeAnswers(*found))
        return found[:, 0]

    def _learn_one(self, event: TreeEvents, reading: TreeReading) -> None:
        """Reserve what an event brings, and for nothing that comes after it; then learn it."""
        codes = event.codes[:, : len(self.coded.codes)]
        before = np.pad(self.counts.sizes, (0, codes.shape[1] - self.counts.sizes.size))
        sizes = np.maximum(before, codes[0] + 1)
        classes = max(self.counts.classes, int(event.labels[0]) + 1)
        sizes = self._hold(sizes[: np.count_nonzero(sizes)].astype(np.int64), classes)
        self.counts.reserve(sizes, classes)
        self.counts.run(event._replace(codes=codes[:, : sizes.size].copy()), reading)

    def unlearn(self, x: Any, kinds: Kinds, k: int, weight: int) -> None:
        """Take out an event, and let the tree be made anew of what is left.

        Raises UnlearnError, and changes nothing, where it was never learned.
        """
        if not self.unlearn_many(key_columns([x], kinds), np.array([k]), np.array([weight])):
            raise UnlearnError("the counts do not hold this event with this class and weight")
        self.counts.forget_tree()

    def unlearn_many(self, columns: Sequence[KeyColumn], labels: Ints, weights: Ints) -> int:
        """Take out events in order; how many: fewer than all where the next one was never learned.

        The tree stays as it is until it is due.
        """
        n = labels.size
        for kind, name, keys in columns:
            if (kind, name) not in self.coded.numbers:
                n = next((e for e, key in enumerate(keys[:n]) if key is not None), n)
        codes = self.coded.encode(columns, np.zeros(labels.size, dtype=np.bool_))
        return self.counts.unlearn_many(codes, labels[:n], weights)

    def edges(self) -> list[Edge]:
        """The edges of the tree, in the order of the children."""
        names = [name for _, name in self.coded.numbers]
        information = self.counts.information()
        return [
            Edge(names[parent], names[child], float(information[parent, child]))
            for child, parent in enumerate(self.counts.parents.tolist())
            if parent >= 0
        ]

    def state(self) -> State:
        """All that was learned: JSON-able values, and arrays."""
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
    @reading("a tree", ValueError)
    def from_state(
        cls, memory: int, meta: Mapping[str, Any], arrays: Mapping[str, Array], *, grows: bool = True
    ) -> TreeModel:
        """Of a `state`. Raises SnapshotError where it is none."""
        most, most_attributes = meta["max_values"], None
        if "max_attributes" in meta:
            most_attributes = count(meta, "max_attributes")
        model = cls(most, memory, grows=grows, max_attributes=most_attributes)
        model.coded = CodedValues.from_description(most, meta["attributes"], most_attributes)
        bounds = model.counts.bounds_values
        sizes = model.coded.sizes
        model.counts = TreeCounts.from_state(memory, sizes, meta, arrays, grows=grows, bounds_values=bounds)
        model._hold(sizes, model.counts.classes)
        model._rank()
        return model
