"""The nodes of a Mondrian forest in one table: room, limits, and state."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from streamnb.kernels.array_types import Floats, Hashes, Ints
from streamnb.kernels.growable_arrays import Growable, blocks, capacity_for, grown
from streamnb.models.forest.mondrian_kernels import LEAST_RATIO, MOST_RATIO, run_forest
from streamnb.models.forest.node_arrays import (
    ATTRIBUTE,
    CLASSES,
    COUNTS,
    DEVIATION,
    DROPPED,
    EVENTS,
    FREE,
    LEFT,
    MOST,
    NODES,
    NOMINALS,
    NONE,
    NUMBERS,
    PARENT,
    RATIO,
    RIGHT,
    THRESHOLD,
    TIME,
    TOTAL,
    ForestArrays,
    ForestEvents,
)
from streamnb.statistics.counter_rng import key_of
from streamnb.values.state_validation import LARGE, checked, real, reject, whole
from streamnb.values.state_validation import MOST as MOST_WEIGHT
from streamnb.values.type_aliases import Array, Aside, Codes, Flags

_MOST_NODES, _MOST_WORD, _MOST_SCALE = (1 << 31) - 1, (1 << 64) - 1, 1e30
_STREAM = 0x4D6F6E647269616E << 64  # so that a seed draws other numbers here than elsewhere
_WORD = 8  # bytes


class ForestTable(Growable):
    """Mondrian trees over attributes and classes that are added at any time.

    Args:
        trees: number of trees.
        memory: of all nodes, bytes. Without room, trees are not split; and all trees start again if a new
            attribute or class makes their nodes too wide for it.
        seed: of the draws.
    """

    def __init__(self, trees: int, memory: int, seed: int) -> None:
        self.trees, self.memory, self.seed = trees, memory, seed
        self._size = np.zeros(MOST + 1, dtype=np.int64)
        self._size[DROPPED] = NONE
        self._key = key_of(seed ^ _STREAM)
        self._roots = np.full(trees, NONE, dtype=np.int32)
        self._held, self._losses = np.zeros(trees, dtype=np.int64), np.zeros(trees)
        self._words = np.zeros((0, COUNTS), dtype=np.uint64)
        self._spread = np.zeros((0, DEVIATION + 1))
        self._scales = np.zeros(0, dtype=np.float32)

    @property
    def n_bytes(self) -> int:
        """Memory, bytes, spare capacity included."""
        return int(self._words.nbytes)

    @property
    def used_bytes(self) -> int:
        """Memory of the nodes in use, bytes."""
        return int(self._size[NODES]) * int(self._words[:1].nbytes)

    @property
    def events(self) -> int:
        """Number of events learned."""
        return int(self._size[EVENTS])

    @property
    def arrays(self) -> ForestArrays:
        """The arrays that the kernels take, with scratch of their own."""
        words, T = self._words, self.trees
        return ForestArrays(
            self._size,
            self._key,
            self._roots,
            self._held,
            self._losses,
            words,
            words.view(np.float64),
            words.view(np.int32),
            words.view(np.float32),
            self._spread,
            self._scales,
            np.empty(len(self._scales), dtype=np.float32),
            np.empty(T, dtype=np.int64),
            np.empty(T),
            np.empty(4, dtype=np.uint64),
        )

    def run(
        self,
        events: ForestEvents,
        labels: Ints,
        weights: Ints,
        known: Ints,
        joints: Floats,
        kept: Floats | None = None,
    ) -> None:
        """Predict and learn events in order; see `run_forest`."""
        done, n = int(run_forest(0, self.arrays, events, labels, weights, known, joints, kept)), labels.size
        while done < n:
            numbers, codes = events.numbers[done], events.codes[done]
            A, B = _last(~np.isnan(numbers)), _last(codes >= 0)
            self.reserve(A, B, int(labels[done]) + 1)
            done = int(run_forest(done, self.arrays, events, labels, weights, known, joints, kept))

    def reserve(self, numbers: int, nominals: int, classes: int) -> None:
        """Make room for one more event with this number of attributes of each kind, and of classes."""
        A, B, C = (int(n) for n in self._size[NUMBERS : CLASSES + 1])
        if numbers > A or nominals > B or classes > C:
            self._widen(max(numbers, A), max(nominals, B), stepped(max(classes, C)))
        rows, most = int(self._size[NODES]), int(self._size[MOST])
        need = max(min(rows - int(self._size[FREE]) + 2 * self.trees, most), rows)
        if need > len(self._words):
            self._words = grown(self._words, (capacity_for(need, most), self._words.shape[1]))

    def keep_within(self, n_bytes: int) -> None:
        """Bound the memory of all nodes from now on; nodes beyond it stay, but none is split."""
        self.memory = n_bytes
        width = self._words.shape[1]
        if width > COUNTS:
            self._size[MOST] = self._most(width)

    def copying(self, aside: Aside) -> Callable[[], dict[str, Array]]:
        """Return a callable, for any thread, that returns the current state, from a copy."""
        used = self._words[: self._size[NODES]]
        copied = aside(used[part] for part in blocks(len(used), used[:1].nbytes))
        state = {
            "size": self._size[:MOST].copy(),  # the rest is of the memory, not of the stream
            "roots": self._roots.copy(),
            "held": self._held.copy(),
            "losses": self._losses.copy(),
            "spread": self._spread.copy(),
            "scales": self._scales.copy(),
            "words": copied,
        }
        return lambda: state

    def load(self, arrays: Mapping[str, Array], numbers: int, nominals: int, classes: int) -> None:
        """Replace the state. Raises SnapshotError if it is invalid for these attributes and classes."""
        size = np.ravel(arrays.get("size", 0))
        A, B, C = size[NUMBERS : CLASSES + 1] if size.size == MOST else (0, 0, 0)
        nodes = np.size(arrays["words"], 0)
        most = np.array([nodes, MOST_WEIGHT, nodes, nodes - 1, numbers, nominals, stepped(classes)])
        found = checked(
            arrays,
            {
                "size": whole(MOST, low=np.array([0, 0, 0, NONE, 0, 0, 0]), high=most),
                "roots": whole(self.trees, low=NONE, high=nodes - 1, dtype=np.int32),
                "held": whole(self.trees, low=0, high=nodes),
                "losses": real(self.trees, low=0.0),
                "spread": real(int(A), DEVIATION + 1, low=np.array([0.0, -LARGE, 0.0])),
                "scales": real(int(A), low=0.0, high=_MOST_SCALE, dtype=np.float32),
                "words": whole("nodes", COUNTS + int(A + B + C), low=0, high=_MOST_WORD, dtype=np.uint64),
            },
        )
        width = found["words"].shape[1]
        reject("size", found["size"][NODES] != len(found["words"]), "not the number of nodes")
        check_trees(found["words"], found["roots"], found["held"], found["size"])
        self._size[:MOST], self._roots = found["size"], found["roots"].copy()
        self._held, self._losses = found["held"].copy(), found["losses"].copy()
        self._spread, self._scales = found["spread"].copy(), found["scales"].copy()
        self._words = found["words"].copy()
        self._size[MOST] = self._most(width) if width > COUNTS else 0

    def _most(self, width: int) -> int:
        """Return the maximum number of nodes of this many words."""
        return max(self.memory // (_WORD * width), self.trees)

    def _widen(self, numbers: int, nominals: int, classes: int) -> None:
        """Lay out the nodes for these attributes and classes, or drop them if they do not fit."""
        width = COUNTS + classes + numbers + nominals
        most = self._most(width)
        if self._size[NODES] > most:
            self._size[NODES] = self._size[FREE] = 0
            self._size[DROPPED] = NONE
            self._roots[:], self._held[:], self._losses[:] = NONE, 0, 0.0
        self._words = self._laid_out(int(self._size[NODES]), numbers, nominals, classes)
        more = numbers - len(self._scales)
        self._spread, self._scales = (
            np.pad(self._spread, ((0, more), (0, 0))),
            np.pad(self._scales, (0, more)),
        )
        self._size[NUMBERS:] = numbers, nominals, classes, most

    def _laid_out(self, used: int, numbers: int, nominals: int, classes: int) -> Hashes:
        """Return the nodes in use with these numbers of columns, and room for the roots."""
        A, B, C = (int(n) for n in self._size[NUMBERS : CLASSES + 1])
        before, first, former = self._words, COUNTS + classes, COUNTS + C
        words = np.zeros((max(used, self.trees), first + numbers + nominals), dtype=np.uint64)
        words[:used, :former] = before[:used, :former]
        bounds, held = words.view(np.float32)[:used], before.view(np.float32)[:used]
        lows, highs = 2 * first, 2 * first + numbers
        bounds[:, lows:highs], bounds[:, highs : highs + numbers] = np.inf, -np.inf
        bounds[:, lows : lows + A] = held[:, 2 * former : 2 * former + A]
        bounds[:, highs : highs + A] = held[:, 2 * former + A : 2 * (former + A)]
        words[:used, first + numbers : first + numbers + B] = before[:used, former + A :]
        return words


def check_trees(words: Hashes, roots: Codes, held: Ints, size: Ints) -> None:
    """Raise SnapshotError unless the nodes are trees with these roots, whose numbers are in range."""
    n, first, C = len(words), COUNTS + int(size[CLASSES]), int(size[CLASSES])
    A, B = int(size[NUMBERS]), int(size[NOMINALS])
    links, floats = words.view(np.int32)[:, : ATTRIBUTE + 1].astype(np.int64), words.view(np.float64)
    parent, children, attribute = links[:, PARENT], links[:, LEFT : RIGHT + 1], links[:, ATTRIBUTE]
    reject("words", ((links < NONE) | (links[:, :ATTRIBUTE] >= n).any(axis=1, keepdims=True)), "no such node")
    has_attribute = np.where(attribute % 2 == 0, attribute // 2 < A, attribute // 2 < B)
    reject("words", (attribute >= 0) & ~has_attribute, "a split by an attribute that it does not have")
    reject("words", (children == NONE) != (attribute == NONE)[:, np.newaxis], "a split without children")
    dropped = _chain(parent, int(size[DROPPED]))
    inner, top = np.flatnonzero(attribute >= 0), np.concatenate((roots[roots >= 0], dropped))
    below = np.sort(np.concatenate((children[inner].ravel(), top)))
    reject("words", not np.array_equal(below, np.arange(n)), "not every node is a child or root once")
    above = np.full(n, NONE)
    above[children[inner]] = inner[:, np.newaxis]
    above[dropped] = parent[dropped]
    reject("words", above != parent, "a child of another node")
    above[dropped] = NONE
    nodes = np.bincount(_tops(above), minlength=n + 1)
    reject("held", np.where(roots < 0, 0, nodes[roots]) != held, "not the number of nodes of a tree")
    reject("size", nodes[dropped].sum() != size[FREE], "not the number of free nodes")
    values = floats[:, THRESHOLD : COUNTS + C]
    reject("words", ~(np.abs(values) <= LARGE), "not a finite number")
    reject("words", values[:, TIME - THRESHOLD :] < 0.0, "a number below zero")
    ratios = floats[:, RATIO]
    reject("words", (ratios < LEAST_RATIO) | (ratios > MOST_RATIO), "a ratio out of range")
    totals = floats[:, COUNTS : COUNTS + C].sum(axis=1)
    reject("words", np.abs(totals - floats[:, TOTAL]) > 1e-9 * totals, "not the sum of the counts")
    reject("words", np.isnan(words.view(np.float32)[:, 2 * first : 2 * (first + A)]), "not a number")


def _chain(following: Ints, first: int) -> Ints:
    """Return the nodes of a list from its first one on, each once."""
    found: dict[int, None] = {}
    while first >= 0 and first not in found:
        found[first] = None
        first = int(following[first])
    return np.array([*found], dtype=np.int64)


def _tops(above: Ints) -> Ints:
    """Return the uppermost node above each node; of nodes below themselves any."""
    n = len(above)
    found = np.append(np.where(above < 0, np.arange(n), above), n)
    for _ in range(n.bit_length()):
        found = found[found]
    return found[:n]


def _last(is_there: Flags) -> int:
    """Return one more than the last index that is True, or 0."""
    return int(np.flatnonzero(is_there).max(initial=-1)) + 1


def stepped(n: int) -> int:
    """Return n, or for more than eight the next multiple of an eighth of its power of two."""
    step = 1 << max(n.bit_length() - 4, 0)
    return -(-n // step) * step
