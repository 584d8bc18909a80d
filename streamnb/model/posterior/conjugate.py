"""Conjugate posteriors: what was observed is kept as sufficient statistics, and the prior is applied on read.

    P(theta | D) ~ P(D | theta) P(theta)   is of the prior's family, with parameters = prior + statistics

so that order does not matter, two posteriors of one prior merge by adding their statistics, and what was
observed can be taken back. Weights are counted in units of 1/1024 observation (see `counts`): their sums are
exact.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from typing import Any, Self

from streamnb.model.attributes.expected import checked, counts
from streamnb.model.attributes.ranges import LARGEST_DOUBLE
from streamnb.model.attributes.signatures import Array
from streamnb.model.attributes.weights import UNIT, units
from streamnb.model.numerics.rising_factorial import log_rising
from streamnb.model.saving import SavableValue


class Conjugate(SavableValue, ABC):
    """What every conjugate posterior does; the identity of `merge` is one that has observed nothing.

    `learn_one` and `unlearn_one` are `update` and `unlearn`, as classifiers call them.
    """

    @property
    @abstractmethod
    def prior(self) -> Any:
        """The parameters before anything was observed."""

    @abstractmethod
    def log_predictive(self, x: Any) -> float:
        """Log of `predictive`, in nats; -inf for what cannot happen."""

    def predictive(self, x: Any) -> float:
        """The probability (of a number: the density) that the next observation is `x`."""
        return math.exp(self.log_predictive(x))

    def update(self, x: Any, w: float = 1.0) -> None:
        """Observe `x`, counted `w` times (in steps of 1/1024, up to 2^20).

        Raises:
            ValueError: `x` is no possible observation, or `w` is out of range; nothing is changed.
        """
        weight = units(w)
        self._check(x)
        if weight:
            self._add(x, weight)

    def unlearn(self, x: Any, w: float = 1.0) -> None:
        """Take back ``update(x, w)``: exactly on counts, to rounding on moments.

        Raises:
            ValueError: as `update`.
            UnlearnError: the statistics show that this was never observed; nothing is changed.
        """
        weight = units(w)
        self._check(x)
        if weight:
            self._take(x, weight)

    def learn_one(self, x: Any, w: float = 1.0) -> None:
        """See `update`."""
        self.update(x, w)

    def unlearn_one(self, x: Any, w: float = 1.0) -> None:
        """See `unlearn`."""
        self.unlearn(x, w)

    def merge(self, other: Self) -> Self:
        """Add all that `other` has observed, as if it had been observed here; returns self.

        Raises:
            ValueError: if the two are not of one class and prior; nothing is changed.
        """
        if type(other) is not type(self) or other.prior != self.prior:
            raise ValueError("only posteriors of the same class and prior can be merged")
        self._merge(other)
        return self

    @abstractmethod
    def _check(self, x: Any) -> None:
        """Raise ValueError where `x` is no possible observation; a missing one is none."""

    @abstractmethod
    def _add(self, x: Any, weight: int) -> None:
        """Add an observation of some units."""

    @abstractmethod
    def _take(self, x: Any, weight: int) -> None:
        """The inverse; raises UnlearnError."""

    @abstractmethod
    def _merge(self, other: Self) -> None:
        """Add the statistics of `other`."""


def examples(weight: int) -> float:
    """Units as observations."""
    return weight / UNIT


def positive(name: str, value: float) -> float:
    """The value of a parameter; raises ValueError unless it is finite and above zero."""
    if not 0.0 < value <= LARGEST_DOUBLE:
        raise ValueError(f"{name} must be finite and above zero, not {value!r}")
    return float(value)


def checked_counts(arrays: Mapping[str, Array], size: int) -> list[int]:
    """The counts of a state; raises SnapshotError unless there are `size`, none of them below zero."""
    found: list[int] = checked(arrays, {"counts": counts(size)})["counts"].tolist()
    return found


def whole_counts(given: Iterable[float]) -> list[float]:
    """How often each thing happened. Raises ValueError unless they are whole, and none below zero."""
    found = []
    for n in given:
        if not (0.0 <= n <= LARGEST_DOUBLE and float(n).is_integer()):
            raise ValueError(f"expected how often something happened, a whole number of 0 or more, not {n!r}")
        found.append(float(n))
    return found


def log_coefficient(of_each: Iterable[float]) -> float:
    """Log of n! / prod n_l!, n their sum: in how many orders things may have happened so often, in nats."""
    terms, before = [], 0.0
    for n in of_each:  # C(before + n, n) = (before + 1)_n / (1)_n
        terms.append(log_rising(before + 1.0, n) - log_rising(1.0, n))
        before += n
    return math.fsum(terms)
