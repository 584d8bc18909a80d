"""Histograms of the word counts of a Bernoulli text in a class.

The contribution of absent words depends on the class's word counts alone, of which only about sqrt(2 x mass)
differ. A sum over them in a fixed order is a function of the counts, whatever their history.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from streamnb.kernels.array_types import Floats, Hashes, Ints
from streamnb.kernels.jit import inlined, kernel
from streamnb.kernels.structs import struct_type
from streamnb.values.type_aliases import Array, Codes, Flags

_UNIT_BITS = 10  # a count is in units of 1/1024 example, see `counts.UNIT`
_MOST_EXACT = 1 << 22  # entries of `exact`, of all histograms together


Counted = tuple[Ints, Ints]


@struct_type
class Histograms(NamedTuple):
    """For each Bernoulli group and class (B of them): the number of words with each positive count.

    A count of whole examples below W has a place of its own in `exact`. All other counts (fractional ones,
    heavy weights, more texts than places) are kept in sorted arrays.

    Attributes:
        exact: int32[B, W], number of words with a count of exactly w examples.
        occupied: uint64[B, W / 64], a bit for each place of `exact` that is not zero, the lowest first.
        weight: int64[B, C], the other counts, rising, in units.
        words: int64[B, C], number of words with that count.
        used: int64[B], number of columns of these two in use.
        positive: int64[B], number of words with a positive count.
        absent: float64[B], log probability that all these words are absent; valid unless stale.
        misses: int64[B], number of those words whose absence has probability alpha -> 0.
        stale: bool[B].
    """

    exact: Codes
    occupied: Hashes
    weight: Ints
    words: Ints
    used: Ints
    positive: Ints
    absent: Floats
    misses: Ints
    stale: Flags

    @property
    def n_bytes(self) -> int:
        """Memory of the arrays in bytes."""
        arrays: tuple[Array, ...] = tuple(self)
        return sum(array.nbytes for array in arrays)

    @classmethod
    def empty(cls, length: int, places: int, columns: int) -> Histograms:
        """Return empty histograms of `length` groups and classes; `places` is a multiple of 64."""
        return cls(
            exact=np.zeros((length, places), dtype=np.int32),
            occupied=np.zeros((length, places // 64), dtype=np.uint64),
            weight=np.zeros((length, columns), dtype=np.int64),
            words=np.zeros((length, columns), dtype=np.int64),
            used=np.zeros(length, dtype=np.int64),
            positive=np.zeros(length, dtype=np.int64),
            absent=np.zeros(length, dtype=np.float64),
            misses=np.zeros(length, dtype=np.int64),
            stale=np.ones(length, dtype=np.bool_),
        )


@inlined
def _place(weight: Any, b: int, used: int, count: int) -> int:
    """Return the place of `count` among the sorted counts of b, or its insertion point."""
    low, high = 0, used
    while low < high:
        middle = (low + high) // 2
        if weight[b, middle] < count:
            low = middle + 1
        else:
            high = middle
    return low


@kernel
def _add_sorted(weight: Any, words: Any, used: Any, b: int, count: int, more: int) -> None:
    """Add words to, or remove them from, a count in the sorted arrays."""
    size = used[b]
    at = _place(weight, b, size, count)
    if at == size or weight[b, at] != count:
        for i in range(size, at, -1):
            weight[b, i] = weight[b, i - 1]
            words[b, i] = words[b, i - 1]
        weight[b, at], words[b, at] = count, 0
        used[b] = size = size + 1
    words[b, at] += more
    if words[b, at] == 0:
        for i in range(at, size - 1):
            weight[b, i] = weight[b, i + 1]
            words[b, i] = words[b, i + 1]
        used[b] = size - 1


@inlined
def _add(
    exact: Any, occupied: Any, weight: Any, words: Any, used: Any, b: int, count: int, more: int
) -> None:
    at = count >> _UNIT_BITS
    if at << _UNIT_BITS == count and at < exact.shape[1]:
        bit = np.uint64(1) << np.uint64(at & 63)
        exact[b, at] += more
        occupied[b, at >> 6] = (occupied[b, at >> 6] & ~bit) | (bit if exact[b, at] != 0 else np.uint64(0))
    else:
        _add_sorted(weight, words, used, b, count, more)


@inlined
def histogram_move(
    exact: Any, occupied: Any, weight: Any, words: Any, used: Any, positive: Any, b: int, old: int, new: int
) -> None:
    """Change one word's count from `old` to `new` in histogram b; counts of zero are not kept."""
    if old > 0:
        _add(exact, occupied, weight, words, used, b, old, -1)
        positive[b] -= 1
    if new > 0:
        _add(exact, occupied, weight, words, used, b, new, 1)
        positive[b] += 1


@inlined
def change_count(histograms: Any, b: int, old: int, new: int) -> None:
    """Change one count, as `histogram_move`, and mark the derived sums as stale."""
    exact, occupied = histograms.exact, histograms.occupied
    weight, words = histograms.weight, histograms.words
    histogram_move(exact, occupied, weight, words, histograms.used, histograms.positive, b, old, new)
    histograms.stale[b] = True


@inlined
def has_capacity(histograms: Histograms, slot: Any, texts: Any, k: int, most: int) -> bool:
    """Return whether class k's histograms can take one more text of `most` different words.

    Args:
        histograms: `Histograms`.
        slot: Bernoulli group of each group, or -1.
        texts: int64[groups, classes], the weight of the texts so far: no count is above it.
        k: the class.
        most: number of counts that may change.
    """
    B, W = histograms.exact.shape
    for g in range(slot.size):
        if slot[g] >= 0:
            if histograms.used[slot[g] * texts.shape[1] + k] + most > histograms.weight.shape[1]:
                return False
            if texts[g, k] >> _UNIT_BITS >= W - 1 and 2 * W * B <= _MOST_EXACT:
                return False
    return True


@kernel
def highest_count(histograms: Histograms, b: int) -> int:
    """Return the highest count in histogram b, in units; 0 if it is empty."""
    used, highest = histograms.used[b], np.int64(0)
    if used > 0:
        highest = histograms.weight[b, used - 1]
    for block in range(histograms.occupied.shape[1] - 1, -1, -1):  # there may be millions of places
        if histograms.occupied[b, block] != 0:
            at = block * 64 + 63
            while histograms.exact[b, at] == 0:
                at -= 1
            return int(max(highest, np.int64(at) << _UNIT_BITS))
    return int(highest)


def lacks_places(histograms: Histograms, texts: int) -> bool:
    """Return whether classes with `texts` texts need another number of places."""
    length, places = histograms.exact.shape
    return bool(_places(length, texts, places) != places)


def without_places(histograms: Histograms, counts: Ints) -> int:
    """Return the number of distinct counts without a place of their own."""
    return int(np.unique(counts[~_have_places(counts, histograms.exact.shape[1])]).size)


def histograms_of(found: Sequence[Counted], texts: int, columns: int = 8, places: int = 64) -> Histograms:
    """Return histograms of rising counts, with the number of words of each.

    Args:
        found: the counts of each group and class.
        texts: largest number of texts of a class; counts up to it get a place, within the limit.
        columns: minimum capacity for other counts.
        places: minimum number of places, within the limit.
    """
    places = _places(len(found), texts, places)
    others = [int(np.count_nonzero(~_have_places(counts, places))) for counts, _ in found]
    new = Histograms.empty(len(found), places, max([columns, *others]))
    for b, (counts, words) in enumerate(found):
        _fill(new, b, counts, words)
        new.positive[b] = words.sum()
    return new


def resized(old: Histograms, length: int, columns: int, texts: int) -> Histograms:
    """Return the histograms extended with empty ones up to `length`; see `histograms_of`."""
    more = length - old.used.size
    if _places(length, texts, old.exact.shape[1]) != old.exact.shape[1]:
        found = [_counted(old, b) for b in range(old.used.size)]
        nothing = np.zeros(0, dtype=np.int64)
        return histograms_of(found + [(nothing, nothing)] * more, texts, columns, old.exact.shape[1])
    wider = columns - old.weight.shape[1]
    arrays = {
        name: np.pad(
            array, [(0, more)] + [(0, wider if name in {"weight", "words"} else 0)] * (array.ndim - 1)
        )
        for name, array in old._asdict().items()
    }
    return Histograms(**arrays)._replace(stale=np.ones(length, dtype=np.bool_))


def widened(old: Histograms, columns: int, wider: int) -> Histograms:
    """Return the histograms with `wider` classes in each group, in place of `columns`."""
    groups = old.used.size // columns
    if _places(groups * wider, 0, old.exact.shape[1]) == old.exact.shape[1]:
        arrays = (_widen(array, columns, wider) for array in old)
        return Histograms(*arrays)._replace(stale=np.ones(groups * wider, dtype=np.bool_))
    nothing = np.zeros(0, dtype=np.int64)
    found = [
        _counted(old, g * columns + k) if k < columns else (nothing, nothing)
        for g in range(groups)
        for k in range(wider)
    ]
    return histograms_of(found, 0, old.weight.shape[1], old.exact.shape[1])


def _widen(array: Array, columns: int, wider: int) -> Array:
    by_group = array.reshape(-1, columns, *array.shape[1:])
    pad = [(0, 0), (0, wider - columns)] + [(0, 0)] * (array.ndim - 1)
    return np.pad(by_group, pad).reshape(-1, *array.shape[1:])


def _places(length: int, texts: int, places: int) -> int:
    """Return W for `length` histograms: doubled until it covers all texts, or halved until all fit."""
    while places - 1 <= texts and 2 * places * length <= _MOST_EXACT:
        places *= 2
    while places > 64 and places * length > _MOST_EXACT:
        places //= 2
    return places


def _counted(old: Histograms, b: int) -> Counted:
    at = np.flatnonzero(old.exact[b])
    counts = np.concatenate([old.weight[b, : old.used[b]], at << _UNIT_BITS])
    words = np.concatenate([old.words[b, : old.used[b]], old.exact[b, at]])
    order = np.argsort(counts)
    return counts[order], words[order]


def _have_places(counts: Ints, places: int) -> Flags:
    wholes = counts >> _UNIT_BITS
    return np.asarray((wholes << _UNIT_BITS == counts) & (wholes < places))


def _fill(new: Histograms, b: int, counts: Ints, words: Ints) -> None:
    whole = _have_places(counts, new.exact.shape[1])
    at = counts[whole] >> _UNIT_BITS
    new.exact[b, at] = words[whole]
    np.bitwise_or.at(new.occupied[b], at >> 6, np.uint64(1) << (at & 63).astype(np.uint64))
    new.used[b] = np.count_nonzero(~whole)
    new.weight[b, : new.used[b]] = counts[~whole]
    new.words[b, : new.used[b]] = words[~whole]
