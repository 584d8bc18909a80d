"""Conjugate posteriors: sufficient statistics are stored, and the prior is applied on read.

    P(theta | D) ~ P(D | theta) P(theta)   is of the prior's family, with parameters = prior + statistics

So order does not matter, two posteriors with the same prior merge by adding their statistics, and
observations can be unlearned. Weights are counted in units of 1/1024 observation (see `counts`), so their
sums are exact.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from typing import Any, Self

from streamnb.statistics.rising_factorial import log_rising
from streamnb.values.example_weights import UNIT, units
from streamnb.values.number_ranges import LARGEST_DOUBLE
from streamnb.values.savable import SavableValue
from streamnb.values.state_validation import checked, counts
from streamnb.values.type_aliases import Array


class Conjugate(SavableValue, ABC):
    """Base class of conjugate posteriors; one without observations is the identity of `merge`.

    `learn_one` and `unlearn_one` are `update` and `unlearn`, as classifiers call them.
    """

    @property
    @abstractmethod
    def prior(self) -> Any:
        """Parameters before any observation."""

    @abstractmethod
    def log_predictive(self, x: Any) -> float:
        """Return the log of `predictive`, in nats; -inf for an impossible observation."""

    def predictive(self, x: Any) -> float:
        """Return the probability (for a number: the density) that the next observation is `x`."""
        return math.exp(self.log_predictive(x))

    def update(self, x: Any, w: float = 1.0) -> None:
        """Observe `x`, `w` times (steps of 1/1024, up to 2^20), or raise ValueError and change nothing."""
        weight = units(w)
        self._check(x)
        if weight:
            self._add(x, weight)

    def unlearn(self, x: Any, w: float = 1.0) -> None:
        """Undo ``update(x, w)``, moments up to rounding, or raise UnlearnError and change nothing."""
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
        """Add all observations of `other`; return self. Raises ValueError if class or prior differ."""
        if type(other) is not type(self) or other.prior != self.prior:
            raise ValueError("only posteriors of the same class and prior can be merged")
        self._merge(other)
        return self

    @abstractmethod
    def _check(self, x: Any) -> None: ...

    @abstractmethod
    def _add(self, x: Any, weight: int) -> None: ...

    @abstractmethod
    def _take(self, x: Any, weight: int) -> None: ...

    @abstractmethod
    def _merge(self, other: Self) -> None: ...


def examples(weight: int) -> float:
    """Convert units to observations."""
    return weight / UNIT


def positive(name: str, value: float) -> float:
    """Return the value of a parameter. Raises ValueError unless it is finite and greater than 0."""
    if not 0.0 < value <= LARGEST_DOUBLE:
        raise ValueError(f"{name} must be finite and greater than 0, not {value!r}")
    return float(value)


def checked_counts(arrays: Mapping[str, Array], size: int) -> list[int]:
    """Return the counts of a state. Raises SnapshotError unless there are `size`, all at least 0."""
    found: list[int] = checked(arrays, {"counts": counts(size)})["counts"].tolist()
    return found


def whole_counts(given: Iterable[float]) -> list[float]:
    """Return counts as floats. Raises ValueError unless they are whole and at least 0."""
    found = []
    for n in given:
        if not (0.0 <= n <= LARGEST_DOUBLE and float(n).is_integer()):
            raise ValueError(f"expected a count, a whole number of at least 0, not {n!r}")
        found.append(float(n))
    return found


def log_coefficient(of_each: Iterable[float]) -> float:
    """Return log of n! / prod n_l!, n their sum: the log number of orders of these counts, in nats."""
    terms, before = [], 0.0
    for n in of_each:  # C(before + n, n) = (before + 1)_n / (1)_n
        terms.append(log_rising(before + 1.0, n) - log_rising(1.0, n))
        before += n
    return math.fsum(terms)
