"""Trees as hypotheses of a mixture: what each says of every event of a batch, worked out before the others.

What a tree says depends on nothing but what it has counted itself. So it goes over a batch first, in order,
predicting each event before it learns it, and the mixture's kernel finds what it said.

Values that the mixture forgets for a budget of memory stay in the counts of trees, which have a bound of
their own. So an event is learned and taken back by its values themselves, whether or not they have a row.
Only in an event that is just predicted is a value without a row one of the REST.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from streamnb.model.attributes.expected import named
from streamnb.model.attributes.kinds import CONTINUOUS
from streamnb.model.attributes.priors import LEARNED
from streamnb.model.attributes.signatures import Array, Codes
from streamnb.model.attributes.weights import UNIT
from streamnb.model.compiled.arrays import Floats
from streamnb.model.encoding.batch import Batch, Encoded
from streamnb.model.mixture.components import AnyHypothesis, OneDependence, Tree
from streamnb.model.mixture.event_codes import CodeTables, Read, has_only_texts
from streamnb.model.naive_bayes.sufficient_statistics import Statistics
from streamnb.model.stats.memory_use import Part
from streamnb.model.trees.averaged import averaged_log_odds
from streamnb.model.trees.kernels import TreeAnswers, TreeEvents, TreeReading, score_factors
from streamnb.model.trees.tree_counts import TreeCounts
from streamnb.model.trees.tree_model import TreeModel
from streamnb.model.trees.value_codes import MISSING

_ALPHA = 1.0
_NOBODY = -1
_MOST_MEMORY = 16 << 20  # of the pairs of one that waits for an attribute
_WEIGHTS = ("prior_weight", "averaged_prior_weight")
"""What a state calls that of a tree, and of who averages over the same counts."""


class TreeOpinions:
    """The tree hypotheses among others, each with counts of its own, and those that average over counts.

    Texts are left out.

    Args:
        hypotheses: all hypotheses; other ones are passed over.
        memory: of the pairs of all those together that wait for an attribute, bytes; None is their own.
    """

    def __init__(self, hypotheses: Sequence[AnyHypothesis], memory: int | None = None) -> None:
        self._trees = [h for h in hypotheses if isinstance(h, Tree)]
        self._readers = _readers(self._trees)
        self._models = [
            TreeModel(
                self._trees[t].max_values,
                _memory_of(self._trees[t]),
                grows=tree != _NOBODY,
                max_attributes=_most_attributes(self._trees[t]),
            )
            for tree, averaged in self._readers
            for t in [max(tree, averaged)]
        ]
        self._tables = [CodeTables(model.coded) for model in self._models]
        if memory is not None:
            self.keep_within(memory)

    @property
    def n_bytes(self) -> int:
        """Memory, bytes."""
        of_counts = sum(counts.n_bytes for counts in self._counts)
        return of_counts + sum(tables.n_bytes for tables in self._tables)

    def memory(self) -> dict[str, Part]:
        """What pairs take of their memory: those that have a part of what a model may take."""
        bounded = [counts for counts in self._counts if counts.bounds_values]
        taken = sum(counts.pair_bytes for counts in bounded)
        return {"pairs": Part(taken, sum(counts.memory for counts in bounded))} if bounded else {}

    def keep_within(self, n_bytes: int) -> None:
        """Let the pairs of those that wait for an attribute take so many bytes together, from now on."""
        waiting = [t for t, h in enumerate(self._trees) if isinstance(h, OneDependence) and h.waits]
        for (_, averaged), counts in zip(self._readers, self._counts, strict=True):
            if averaged in waiting:
                counts.memory = min(_memory_of(self._trees[averaged]), n_bytes // len(waiting))

    def joints(self, encoded: Encoded, statistics: Statistics, *, learn: bool) -> tuple[Floats, int]:
        """Log P(class, event) of every event by all learned before it, shape (trees, n, K); then learn it.

        And the first event of which those that wait for an attribute say anything. Where that is none of
        these, the array has no events: all say what the classes before an event say.
        """
        batch = encoded.batch
        n, K = batch.label.size, len(statistics.classes)
        labels, awake = batch.label if learn else np.full(n, -1), 0
        if not self._tables:
            return np.empty((0, n, K)), awake
        if self._waits and has_only_texts(batch, statistics.layout):  # sooner
            return np.empty((len(self._trees), 0, K)), n
        read = Read.of(encoded, statistics)
        if self._waits:
            awake = int(read.events[labels[read.events] >= 0].min(initial=n)) + 1
            if awake > n:
                return np.empty((len(self._trees), 0, K)), n
            for counts in self._counts:
                counts.begin(statistics.class_weights[:K], statistics.events)
        found = np.empty((len(self._trees), n, K))
        for readers, model, tables in zip(self._readers, self._models, self._tables, strict=True):
            codes = tables.encode(read, labels >= 0)
            joints, averages = (None if t == _NOBODY else found[t] for t in readers)
            asked = TreeAnswers(joints, averages=averages)
            model.run(TreeEvents(codes, labels, batch.weight), K, self._reading(readers, K), asked)
        return found, awake

    def unlearn(self, encoded: Encoded, statistics: Statistics) -> int:
        """Take events out of all trees, in order; how many, fewer than all where the next was not learned."""
        batch = encoded.batch
        if not self._tables or self._waits:
            return int(batch.label.size)
        read = Read.of(encoded, statistics)
        known = [tables.known(read) for tables in self._tables]
        done = [
            counts.unlearn_many(codes, batch.label[:n], batch.weight)
            for counts, (codes, n) in zip(self._counts, known, strict=True)
        ]
        for counts, (codes, _), so_many in zip(self._counts, known, done, strict=True):
            _put_back(counts, codes, batch, slice(min(done), so_many))
        return min(done)

    def learn_again(self, encoded: Encoded, statistics: Statistics, first: int, stop: int) -> None:
        """Put back events that were taken out."""
        if first < stop and self._tables and not self._waits:
            read = Read.of(encoded, statistics)
            for counts, tables in zip(self._counts, self._tables, strict=True):
                _put_back(counts, tables.known(read)[0], encoded.batch, slice(first, stop))

    def log_odds(
        self, encoded: Encoded, statistics: Statistics, parts: Batch, classes: tuple[int, int]
    ) -> Floats:
        """What each part of an event adds to the log odds of two classes, and the prior at last.

        Args:
            encoded: the event.
            statistics: of the mixture.
            parts: its parts, each an event; the last is the event without any. See `evidence.Parts`.
            classes: the class whose log odds they are, and the one against which.

        Returns float64[trees, n].
        """
        one, other = classes
        found, K = np.zeros((len(self._trees), parts.label.size)), len(statistics.classes)
        if not self._tables:
            return found
        if self._waits:
            found[:, -1] = np.log(statistics.class_weights[one] / statistics.class_weights[other])
            return found
        read = Read.of(encoded, statistics)
        groups, fields = list(statistics.layout.groups), list(statistics.layout.fields)
        D = np.count_nonzero(np.diff(parts.item_rows))
        owners = [groups[g] for g in parts.item_group[:D].tolist()]
        owners += [(CONTINUOUS, fields[f]) for f in parts.value_field.tolist()]
        for readers, model, coded in zip(self._readers, self._models, self._tables, strict=True):
            codes, _ = coded.known(read)
            reading, tables = self._reading(readers, K), model.counts.tables
            factors = np.ones((codes.shape[1], K))
            score_factors(tables, codes, 0, reading, factors)
            told = (
                np.log(factors[:, one] / factors[:, other]),
                averaged_log_odds(tables, codes[0], reading, classes),
            )
            for t, odds in zip(readers, told, strict=True):
                if t == _NOBODY:
                    continue
                for i, owner in enumerate(owners):
                    number = model.coded.numbers.get(owner)
                    if number is not None and codes[0, number] != MISSING:
                        found[t, i] = odds[number]
                found[t, -1] = np.log(tables.classes[one] / tables.classes[other])
        return found

    def state(self) -> tuple[list[dict[str, Any]], dict[str, Array]]:
        """Of all trees: JSON-able values, and arrays."""
        states = [model.state() for model in self._models]
        described = [meta | weights for weights, (meta, _) in zip(self._prior_weights(), states, strict=True)]
        arrays = {f"{t}_{name}": array for t, (_, own) in enumerate(states) for name, array in own.items()}
        return described, arrays

    def load(self, described: Sequence[Mapping[str, Any]], arrays: Mapping[str, Array]) -> None:
        """Replace everything by a state. Raises ValueError for one of other trees, and SnapshotError."""
        own = [
            {
                "max_values": model.coded.most,
                **weights,
                "waits": model.coded.most_attributes is not None,
            }
            for model, weights in zip(self._models, self._prior_weights(), strict=True)
        ]
        names = ("max_values", *_WEIGHTS)
        met = [
            {name: meta[name] for name in names if name in meta} | {"waits": "max_attributes" in meta}
            for meta in described
        ]
        if met != own:
            raise ValueError("a state of other trees than the hypotheses")
        self._models = [
            TreeModel.from_state(counts.memory, meta, named(arrays, f"{t}_"), grows=counts.grows)
            for t, (counts, meta) in enumerate(zip(self._counts, described, strict=True))
        ]
        self._tables = [CodeTables(model.coded) for model in self._models]

    # -- inside -------------------------------------------------------------------------------------------

    def _reading(self, readers: tuple[int, int], classes: int) -> TreeReading:
        m, averaged_m = (self._trees[t].prior_weight * UNIT for t in readers)  # that of nobody is not read
        return TreeReading(_ALPHA * UNIT, m, averaged_m, np.zeros(classes), LEARNED)

    def _prior_weights(self) -> list[dict[str, float]]:
        """Of those that read each table of counts, as a state calls them."""
        return [
            {
                name: self._trees[t].prior_weight
                for name, t in zip(_WEIGHTS, readers, strict=True)
                if t != _NOBODY
            }
            for readers in self._readers
        ]

    @property
    def _counts(self) -> list[TreeCounts]:
        return [model.counts for model in self._models]

    @property
    def _waits(self) -> bool:
        """Whether all wait for an attribute, and none was learned. One that dropped all waits no more."""
        return bool(self._tables) and all(each.waits for each in self._tables)


def _readers(trees: Sequence[Tree]) -> list[tuple[int, int]]:
    """Of each table of counts: which hypothesis reads it along a tree, and which averages; else `_NOBODY`."""
    found = {t: _NOBODY for t, h in enumerate(trees) if not isinstance(h, OneDependence)}
    alone = []
    for t, h in enumerate(trees):
        if isinstance(h, OneDependence) and h.waits:
            alone.append((_NOBODY, t))
        elif isinstance(h, OneDependence):
            room = h.max_values, h.memory
            free = (
                i for i in found if found[i] == _NOBODY and (trees[i].max_values, trees[i].memory) == room
            )
            if (tree := next(free, _NOBODY)) == _NOBODY:
                alone.append((_NOBODY, t))
            else:
                found[tree] = t
    return [*found.items(), *alone]


def _memory_of(h: Tree) -> int:
    """Of its pairs, bytes. Of more, what is laid anew would be felt."""
    return h.memory if _most_attributes(h) is None else min(h.memory, _MOST_MEMORY)


def _most_attributes(h: Tree) -> int | None:
    return h.max_attributes if isinstance(h, OneDependence) else None


def _put_back(counts: TreeCounts, codes: Codes, batch: Batch, part: slice) -> None:
    """Learn a part of the events again that were taken out."""
    if part.start < part.stop:
        counts.learn_again(codes[part].copy(), batch.label[part], batch.weight[part])
