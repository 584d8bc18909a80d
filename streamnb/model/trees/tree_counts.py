"""Counts of values and pairs of values within classes, and the tree that they say: what a tree model learns.

All that is learned is counts, int64 in units of 1/1024 example. The tree is made of them when so many events
have been learned as `moments` says, when that is asked for, and after an event that was taken out;
between, it stays. So of n events fewer than n/5 are not in it. Let delta be their share, P_m the empirical
distribution that the tree was made of, and Q theirs: P = (1 - delta) P_m + delta Q, and for each edge

    |I(a; b | v) - (1 - delta) I_m(a; b | v) - delta I_Q(a; b | v)| <= h(delta)

for entropies are concave, and to know of which of the two an event is tells h(delta) = -delta ln delta -
(1 - delta) ln (1 - delta) nats at most. Of P_m no tree tells more; so a tree of now tells at most

    delta (sum of I_Q over the edges that it alone has) + 2 h(delta) for each of them

nats an event more. That is of a stream that changes its law; of one that does not, it is sampling error.

Edges that weigh little are kept. Tried: to take half the degrees of freedom of an edge, all of them, or the
half times ln N from its weight (as BIC does), with and without leaving out what weighs nothing then. On Adult
this gains .003 to .006 nats an event at a prior weight of 20, on NSL-KDD, where nearly everything depends on
everything, it loses .019, .046 and .105.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from streamnb.errors import SnapshotError
from streamnb.model.attributes.expected import MOST, checked, count, reject, whole
from streamnb.model.attributes.expected import counts as counts_of
from streamnb.model.attributes.signatures import Array, Codes
from streamnb.model.attributes.weights import UNIT
from streamnb.model.compiled.arrays import Floats, Ints
from streamnb.model.trees.kernels import (
    TreeAnswers,
    TreeEvents,
    TreeReading,
    TreeScratch,
    TreeTables,
    fill_given,
    move_pairs,
    pair_information,
    run_tree,
    unlearn_events,
)
from streamnb.model.trees.spanning_tree import maximum_spanning_tree

Counts = Ints
_FIRST_MOMENT = 32
_NOTHING = TreeAnswers()
_FEW_CLASSES = 4


def moments(events: int) -> int:
    """After how many events learned the tree is due next: 32, 40, 50, 62 and so on, a quarter more each time.

    Examples:
        >>> moments(0), moments(31), moments(32), moments(10_000)
        (32, 32, 40, 10257)
    """
    moment = _FIRST_MOMENT
    while moment <= events:
        moment += moment // 4
    return moment


class TreeCounts:
    """A statistic of events of d attributes and a class, given as codes, and the tree over the attributes.

    Only the first attributes are counted in pairs, as many as fit `memory`; the others have no edges. How
    many fit depends on how many values and classes there are: those that no longer fit lose their pairs.

    Args:
        memory: of the pairs, bytes, spare capacity included.
        grows: whether a tree is made of them; else there is none.
        bounds_values: whether counts of values have a bound, too: a quarter of `memory` more.

    Attributes:
        sizes: int64[d], how many codes each attribute has.
        classes: how many classes there are.
        events: how many events were learned, less those unlearned.
        paired: so many attributes at most are counted in pairs; -1 while all are.
        ranks: int64[d] or more, the place of each attribute in an order that does not hang on when it came.
    """

    def __init__(self, memory: int, *, grows: bool = True, bounds_values: bool = False) -> None:
        self.memory, self.grows, self.bounds_values = memory, grows, bounds_values
        self.sizes: Counts = np.zeros(0, dtype=np.int64)
        self.classes = 0
        self.events = 0
        self.paired = -1
        self.ranks: Counts = np.zeros(0, dtype=np.int64)
        self.tables = _laid_out(np.zeros(0, dtype=np.int64), 1, 0, spare=0)
        self._is_stale = False

    @property
    def n_bytes(self) -> int:
        """Memory, bytes, spare capacity included."""
        return sum(array.nbytes for array in self.tables)

    @property
    def pair_bytes(self) -> int:
        """What pairs of values take of `memory`, without spare capacity."""
        P = self.tables.pair_first.shape[0]
        before = np.cumsum(self.sizes[:P]) - self.sizes[:P]
        return 8 * self.classes * int((self.sizes[:P] * before).sum())

    @property
    def parents(self) -> Counts:
        """The parent of each attribute in the tree, -1 where it has none. Shape (d,)."""
        self._settle()
        return self.tables.parent.copy()

    def information(self) -> Floats:
        """I(a; b | class) of all pairs of attributes, nats; zero where they are not counted. Shape (d, d)."""
        d, P = self.sizes.size, self.tables.pair_first.shape[0]
        found = np.zeros((d, d))
        found[:P, :P] = self._information()[0]
        return found

    def fitting(self, sizes: Counts, classes: int) -> int:
        """How many attributes, of so many values each, can be counted in pairs; -1 for all."""
        limit = sizes.size if self.paired < 0 else min(sizes.size, self.paired)
        if self.bounds_values:  # with spare capacity, or tables would be laid anew for every value
            sizes, classes = _spared(sizes), _spared_columns(classes)
        before = np.cumsum(sizes) - sizes
        n_bytes = 8 * classes * np.cumsum(sizes * before)
        fits = int(np.searchsorted(n_bytes[:limit], self.memory, side="right"))
        return self.paired if fits == limit else fits

    def keeping(self, sizes: Counts, classes: int) -> int:
        """How many attributes, of so many values each, can be counted at all."""
        if not self._is_over(8 * classes * int(sizes.sum())):
            return sizes.size
        return int(np.searchsorted(8 * classes * np.cumsum(sizes), self.memory // 4, side="right"))

    def _is_over(self, n_bytes: int) -> bool:
        """Whether counts of values take more than they may."""
        return self.bounds_values and n_bytes > self.memory // 4

    def keep_first(self, kept: int) -> None:
        """Have counts of the first `kept` attributes alone."""
        if kept < self.sizes.size:
            self._move(self.sizes[:kept], self.classes, min(kept, self.tables.pair_first.shape[0]))

    def begin(self, class_weights: Counts, events: int) -> None:
        """Have learned so many events without any attribute, of classes of these weights."""
        met = int(np.flatnonzero(class_weights).max(initial=-1)) + 1
        self.reserve(self.sizes, met)
        self.tables.classes[:met], self.events = class_weights[:met], events

    def reserve(self, sizes: Counts, classes: int) -> None:
        """Let there be so many values of each attribute, and so many classes."""
        self.paired = self.fitting(sizes, classes)
        tables, d = self.tables, sizes.size
        P = d if self.paired < 0 else min(d, self.paired)
        has_rows = d == tables.rows.size and bool((sizes <= tables.rows).all())
        is_paired = tables.pair_first.shape[0] == P
        if not (has_rows and is_paired and classes <= tables.classes.size):
            self._move(sizes, classes, P)
        self.sizes, self.classes = sizes, classes

    def run(self, events: TreeEvents, reading: TreeReading, asked: TreeAnswers = _NOTHING) -> None:
        """Predict events in order, and learn those that have a label; for all of them there is room."""
        self._settle()
        told = TreeAnswers(*(np.empty((0, self.classes)) if one is None else one for one in asked))
        scratch = TreeScratch.of(min(events.codes.shape[1], self.tables.pair_first.shape[0]), self.classes)
        done = 0
        while done < events.labels.size:
            due = moments(self.events)
            stop = run_tree(done, self.tables, reading, events, due - self.events, scratch, told)
            self.events += int(np.count_nonzero(events.labels[done:stop] >= 0))
            if self.events == due:
                self.grow_tree()
            done = stop

    def unlearn_many(self, codes: Codes, labels: Counts, weights: Counts) -> int:
        """Take out events in order, as long as the counts hold the next one; how many.

        The tree stays until it is due.
        """
        labels = labels[: self.events]
        done = int(unlearn_events(self.tables, codes, labels, weights))
        self.events -= done
        return done

    def learn_again(self, codes: Codes, labels: Counts, weights: Counts) -> None:
        """Put back events that were taken out."""
        unlearn_events(self.tables, codes, labels, -weights)
        self.events += labels.size

    def forget_tree(self) -> None:
        """Let the tree be made anew before it is read."""
        self._is_stale = True

    def grow_tree(self) -> None:
        """Make the tree anew from the counts: of all trees that of the largest likelihood.

        It hangs on nothing but them: equal edges are told apart by rank, and an attribute without a count,
        that is still to come or was unlearned, has no edge.
        """
        self._is_stale = False
        if not self.grows:
            return
        information, weight = self._information()
        order = self._ranked()
        # To a millionth of a nat, so that what is equal ties, whatever the order in which it was summed.
        told = np.round(information * weight / UNIT, 6)[np.ix_(order, order)]
        parents, found = np.full(len(weight), -1), maximum_spanning_tree(told)
        parents[order] = np.where(found >= 0, order[found], -1)
        self._plant(parents)

    def state(self) -> dict[str, Array]:
        """All counts, without spare capacity, and the parents."""
        tables, K = self.tables, self.classes
        P = tables.pair_first.shape[0]
        bare = _laid_out(self.sizes, K, P, spare=0)
        move_pairs(
            tables.pairs, tables.pair_first, tables.rows, self.sizes, bare.pairs, bare.pair_first, bare.rows
        )
        return {
            "class_weights": tables.classes[:K].copy(),
            "totals": tables.totals[:, :K].copy(),
            "values": tables.values[_rows(tables.first, self.sizes), :K],
            "pairs": bare.pairs,
            "parents": self.parents,
        }

    @classmethod
    def from_state(
        cls,
        memory: int,
        sizes: Counts,
        meta: Mapping[str, Any],
        arrays: Mapping[str, Array],
        *,
        grows: bool,
        bounds_values: bool = False,
    ) -> TreeCounts:
        """Of a `state`, with its number of events and of attributes in pairs. Raises SnapshotError."""
        counts = cls(memory, grows=grows, bounds_values=bounds_values)
        counts.events = count(meta, "events")
        counts.paired = count(meta, "paired", least=-1)
        K = np.size(arrays["class_weights"])
        P = sizes.size if counts.paired < 0 else min(sizes.size, counts.paired)
        bare = _laid_out(sizes, K, P, spare=0)
        weights = arrays["class_weights"]
        arrays = checked(
            arrays,
            {
                "class_weights": counts_of("classes"),
                "totals": whole(*bare.totals.shape, low=0, high=weights),
                "values": whole(*bare.values.shape, low=0, high=weights),
                "pairs": whole(*bare.pairs.shape, low=0, high=weights),
                "parents": whole(*sizes.shape, low=-1, high=P - 1),
            },
        )
        _check(arrays, bare, P)
        counts.tables = bare._replace(
            classes=np.array(arrays["class_weights"]),
            totals=np.array(arrays["totals"]),
            values=np.array(arrays["values"]),
            pairs=np.array(arrays["pairs"]),
        )
        counts.sizes, counts.classes = sizes, K
        for a, first in enumerate(bare.first.tolist()):
            counts.tables.live[a] = np.count_nonzero(
                counts.tables.values[first : first + sizes[a]].any(axis=1)
            )
        counts._plant(arrays["parents"][:P])
        counts.reserve(sizes, K)
        return counts

    # -- inside -------------------------------------------------------------------------------------------

    def _information(self) -> tuple[Floats, Floats]:
        """I(a; b | class) of all attributes that are counted in pairs, and the weight of those with both."""
        P = self.tables.pair_first.shape[0]
        information, weight = np.zeros((P, P)), np.zeros((P, P))
        pair_information(self.tables, self.sizes, self.classes, information, weight)
        return information, weight

    def _ranked(self) -> Counts:
        """The attributes that are counted in pairs and have a count, by rank."""
        live = np.flatnonzero(self.tables.live[: self.tables.pair_first.shape[0]])
        return live[np.argsort(self.ranks[live])]

    def _settle(self) -> None:
        """The tree of what was unlearned is made before it is read."""
        if self._is_stale:
            self.grow_tree()

    def _plant(self, parents: Counts) -> None:
        """Take this tree over the attributes that are counted in pairs."""
        tables = self.tables
        parent = np.full(tables.parent.size, -1, dtype=np.int64)
        parent[: parents.size] = parents
        length = np.where(parent >= 0, tables.rows[parent], 0)
        given = np.zeros((int(length.sum()), tables.classes.size), dtype=np.int64)
        given_first = np.where(parent >= 0, np.cumsum(length) - length, -1)
        self.tables = tables._replace(parent=parent, given=given, given_first=given_first)
        fill_given(self.tables, self.sizes)

    def _move(self, sizes: Counts, classes: int, paired: int) -> None:
        """Lay the tables out anew, for more values and classes or fewer pairs; edges without pairs go.

        Or for fewer attributes: the last ones go.
        """
        old, d = self.tables, min(self.sizes.size, sizes.size)
        for spare in (2, 1, 0):
            new = _laid_out(sizes, classes, paired, spare)
            if new.pairs.nbytes <= self.memory and not self._is_over(new.values.nbytes):
                break
        K = min(old.classes.size, new.classes.size)
        new.classes[:K] = old.classes[:K]
        new.totals[:d, :K] = old.totals[:d, :K]
        new.live[:d] = old.live[:d]
        before = self.sizes[:d]
        new.values[_rows(new.first[:d], before), :K] = old.values[_rows(old.first[:d], before), :K]
        move_pairs(old.pairs, old.pair_first, old.rows, self.sizes, new.pairs, new.pair_first, new.rows)
        parents = old.parent[:paired].copy()
        parents[parents >= paired] = -1
        self.tables, self.sizes, self.classes = new, sizes, classes
        self._plant(parents)


def _laid_out(sizes: Counts, classes: int, paired: int, spare: int) -> TreeTables:
    """Empty tables for so many values of each attribute and classes.

    With `spare` 2 for up to twice as many, with 1 for up to seven values more. Of few classes rows lie dense:
    they are soon met.
    """
    d, rows, columns = sizes.size, sizes.copy(), classes
    if spare == 1:
        rows = (sizes + 7) // 8 * 8
    elif spare:
        rows, columns = _spared(sizes), _spared_columns(classes)
    i, j = np.triu_indices(paired, 1)
    length = rows[i] * rows[j]
    pair_first = np.full((paired, paired), -1, dtype=np.int64)
    pair_first[i, j] = np.cumsum(length) - length
    return TreeTables(
        classes=np.zeros(columns, dtype=np.int64),
        totals=np.zeros((d, columns), dtype=np.int64),
        live=np.zeros(d, dtype=np.int64),
        rows=rows,
        first=np.cumsum(rows) - rows,
        values=np.zeros((int(rows.sum()), columns), dtype=np.int64),
        pair_first=pair_first,
        pairs=np.zeros((int(length.sum()), columns), dtype=np.int64),
        parent=np.full(d, -1, dtype=np.int64),
        given_first=np.full(d, -1, dtype=np.int64),
        given=np.zeros((0, columns), dtype=np.int64),
    )


def _spared(sizes: Counts) -> Counts:
    """Capacity for up to twice as many values, and 4 at least."""
    return np.asarray(1 << np.ceil(np.log2(np.maximum(sizes, 4))).astype(np.int64))


def _spared_columns(classes: int) -> int:
    return classes + (classes // 2 if classes > _FEW_CLASSES else 0)


def _rows(first: Counts, sizes: Counts) -> Counts:
    """The rows of all values, attribute by attribute."""
    offsets = np.arange(int(sizes.sum())) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    return np.repeat(first, sizes) + offsets


def _check(arrays: Mapping[str, Array], bare: TreeTables, paired: int) -> None:
    """Raise SnapshotError where counts contradict each other, or the parents are no forest."""
    for name in ("class_weights", "values", "pairs"):
        reject(name, arrays[name].sum(dtype=np.float64) > MOST, "counts whose sum overflows")
    sums = np.add.reduceat(arrays["values"], bare.first) if bare.first.size else arrays["totals"]
    reject("totals", sums != arrays["totals"], "not the sums over the values of an attribute")
    parents = arrays["parents"]
    reject("parents", parents[paired:] >= 0, f"not among {paired} attributes")
    above = parents
    for _ in range(parents.size):
        above = np.where(above >= 0, parents[above], -1)
    if (above >= 0).any():
        raise SnapshotError(f"the parents {parents.tolist()} are no tree")
