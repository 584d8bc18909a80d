"""Gaussian naive Bayes that forgets: what was learned counts half after a number of learned events.

Class frequencies and moments of numbers are kept for each half-life h. The event learned at step t weighs
2^(t / h), relative to the beginning of an epoch of 32 half-lives, and a read divides by the weight of the
next event (forward decay: Cormode, Shkapenyuk, Srivastava and Xu, 2009): nothing is updated as others are
learned. With c_k the decayed examples of class k and n_k all its examples,

    log P(k, x) = log (c_k + n_k / sum n) + sum over numbers of the Gaussian factors of `gaussian_factors`

so a class that was not met lately keeps the frequency of all times, as if one example had been added.
Labels that come late count as of now. Words and nominal values are ignored.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from streamnb.kernels.array_types import Floats, Ints
from streamnb.kernels.growable_arrays import Growable, roomier
from streamnb.kernels.jit import inlined, kernel
from streamnb.kernels.structs import struct_type
from streamnb.kernels.vector_kernels import multiply_by
from streamnb.models.naive_bayes.gaussian_factors import score_value
from streamnb.statistics.decayed_counts import age_moments
from streamnb.statistics.moments import FARTHEST, learn_value
from streamnb.values.example_weights import UNIT
from streamnb.values.state_validation import ExpectedArray, named, real
from streamnb.values.type_aliases import Array

MOST_FIELDS = 256
"""Numbers that are read: the first that are learned."""
RECENT_MEMORY = 64 << 20
"""Of the moments without a budget, bytes."""
_CELL = 24  # bytes of n, mean and M2
_EPOCH = 2.0**32
_HEAVIEST = 2.0**96  # units, at the beginning of an epoch


@struct_type
class RecentArrays(NamedTuple):
    """Class frequencies and moments for R half-lives, as the kernels take them.

    Attributes:
        growth: float64[R], 2^(1 / half-life).
        worth: float64[R], weight of the next event, from 1 to 2^32.
        classes: float64[R, >= classes], in units of 1/1024 example at the beginning of the epoch.
        n, mean, M2: float64[R, >= fields, >= classes], as in `moments.Moments`; n and M2 are decayed.
    """

    growth: Floats
    worth: Floats
    classes: Floats
    n: Floats
    mean: Floats
    M2: Floats


@inlined
def score_recent_prior(recent: RecentArrays, known: Ints, r: int, joint: Floats) -> None:
    """Set joint[k] = log P_r(class k), -inf for a class without examples."""
    total = 0.0
    for k in range(joint.size):
        total += known[k]
    for k in range(joint.size):
        joint[k] = -math.inf
        if known[k] > 0:
            joint[k] = math.log(recent.classes[r, k] / recent.worth[r] / UNIT + known[k] / total)


@inlined
def score_recent_value(recent: RecentArrays, known: Ints, r: int, f: int, x: float, joint: Floats) -> None:
    """Add log P_r(x | class k) of number f to joint[k] of every class with examples."""
    if f < recent.n.shape[1]:
        n, mean, M2 = recent.n[r, f], recent.mean[r, f], recent.M2[r, f]
        score_value(n, mean, M2, 1.0 / recent.worth[r], known, x, joint)


@kernel
def score_recent(recent: RecentArrays, known: Ints, batch: Any, e: int, joint: Floats) -> None:
    """Fill joint[r] with log P_r(class, event e), -inf for a class without examples.

    Args:
        recent: the counts.
        known: int64[>= K], weight learned of each class.
        batch: the events.
        e: the event.
        joint: float64[R, K], receives the result.
    """
    for r in range(joint.shape[0]):
        score_recent_prior(recent, known, r, joint[r])
        for v in range(batch.event_values[e], batch.event_values[e + 1]):
            score_recent_value(recent, known, r, batch.value_field[v], batch.value[v], joint[r])


@kernel
def learn_recent(recent: RecentArrays, batch: Any, e: int) -> None:
    """Add event e, which has a label, to its class for every half-life."""
    k, weight = batch.label[e], float(batch.weight[e])
    for r in range(recent.worth.size):
        add = weight * recent.worth[r]
        recent.classes[r, k] += add
        for v in range(batch.event_values[e], batch.event_values[e + 1]):
            f = batch.value_field[v]
            if f < recent.n.shape[1]:
                learn_value(recent.n[r], recent.mean[r], recent.M2[r], f, k, batch.value[v], add)
        recent.worth[r] *= recent.growth[r]
        if recent.worth[r] >= _EPOCH:
            recent.worth[r] /= _EPOCH
            multiply_by(recent.classes[r], 1.0 / _EPOCH)
            age_moments(recent.n[r], recent.mean[r], recent.M2[r], 1.0 / _EPOCH)


class RecentGaussians(Growable):
    """The arrays of several half-lives, grown as fields and classes appear.

    Args:
        half_lives: float64[R], learned events.
        memory: of the moments, bytes: the latest numbers that do not fit for all classes are dropped.
    """

    def __init__(self, half_lives: Floats, memory: int = RECENT_MEMORY) -> None:
        R, self.memory = half_lives.size, memory
        growth = np.array([2.0 ** (1.0 / half_life) for half_life in half_lives.tolist()])
        self.tables = RecentArrays(
            growth, np.ones(R), np.zeros((R, 2)), *(np.zeros((R, 0, 2)) for _ in range(3))
        )

    @property
    def n_bytes(self) -> int:
        """Memory of the arrays in bytes."""
        return sum(array.nbytes for array in self.tables)

    def reserve(self, fields: int, classes: int) -> None:
        """Grow to these fields, at most `MOST_FIELDS`, and classes, and leave out fields that do not fit."""
        R, have = self.tables.worth.size, self.tables.n.shape
        most = min(MOST_FIELDS, self.memory // max(1, _CELL * R * max(classes, have[2])))
        if have[1] > most:
            left = {name: getattr(self.tables, name)[:, :most].copy() for name in _OF_FIELDS}
            self.tables = self.tables._replace(**left)
        tables, fields = self.tables, min(fields, most)
        if fields > tables.n.shape[1] or classes > have[2]:
            grown = {name: roomier(getattr(tables, name), R, fields, classes, times=1) for name in _OF_FIELDS}
            self.tables = tables._replace(classes=roomier(tables.classes, R, classes, times=1), **grown)

    def state(self, classes: int) -> dict[str, Array]:
        """Return copies of all arrays that learn, without spare capacity for classes."""
        tables = self.tables
        found = {name: getattr(tables, name)[:, :, :classes] for name in _OF_FIELDS}
        found |= {"worth": tables.worth, "classes": tables.classes[:, :classes]}
        return {f"recent_{name}": array.copy() for name, array in found.items()}

    def expected(self) -> dict[str, ExpectedArray]:
        """Return the expected arrays of a state."""
        R, cells = self.tables.worth.size, ("recent fields", "classes")
        return {
            "recent_worth": real(R, low=1.0, high=_EPOCH),
            "recent_classes": real(R, "classes", low=0.0, high=_HEAVIEST),
            "recent_n": real(R, *cells, low=0.0, high=_HEAVIEST),
            "recent_mean": real(R, *cells, low=-FARTHEST, high=FARTHEST),
            "recent_M2": real(R, *cells, low=0.0),
        }

    def load(self, arrays: Mapping[str, Array]) -> None:
        """Replace the state by an `expected` one."""
        found = {name: array.copy() for name, array in named(arrays, "recent_").items()}
        self.tables = RecentArrays(self.tables.growth, **found)


_OF_FIELDS = ("n", "mean", "M2")
