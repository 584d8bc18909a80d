"""Events drawn from a naive Bayes model: the class by P(v), then each attribute by P(a | v).

Number i of a seed is a function of both alone (see `counter_rng`): the cut into calls changes nothing, and
the uniforms of event i follow the uniforms of event i - 1.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np

from streamnb.features.tokenizer import words
from streamnb.kernels.array_types import Floats
from streamnb.models.naive_bayes.parameters import DiscreteParameters, Gaussian, Parameters
from streamnb.statistics.counter_rng import pick, uniforms
from streamnb.values.parameter_checks import check_whole

Drawn = tuple[dict[Any, Any], Any]
"""An event and its label."""


def draw_events(parameters: Parameters, n: int, seed: int, first: int, length: int | None) -> Iterator[Drawn]:
    """Yield events number `first` to `first` + n - 1; see `NaiveBayes.sample`."""
    check_whole("n", n, 0)
    sampler = EventSampler(parameters, length)
    for i in range(first, first + n):
        chances = uniforms(seed, i * sampler.size, sampler.size)
        label = pick(parameters.prior, float(chances[0]))
        yield sampler.event(label, chances[1:]), label


class EventSampler:
    """Draws of the attributes of an event, given its class.

    Args:
        parameters: P(a | v) of each attribute.
        length: words of each multinomial text; None: the mean over learned events, rounded.

    Attributes:
        size: number of uniforms of an event, one for its class included.

    Raises:
        ValueError: if nothing was learned, or a number is negative.
    """

    def __init__(self, parameters: Parameters, length: int | None) -> None:
        if not parameters.prior:
            raise ValueError("nothing has been learned, so nothing can be drawn")
        if length is not None:
            check_whole("length", length, 0)
        filled = {name: found for name, found in parameters.discrete.items() if any(found.table.values())}
        self._pickers = [_Discrete(name, found, length) for name, found in filled.items()]
        self._continuous = parameters.continuous
        self.size = 1 + sum(picker.size for picker in self._pickers) + 2 * len(self._continuous)

    def event(self, label: Any, chances: Floats) -> dict[Any, Any]:
        """Return an event of a class, drawn by `size` - 1 uniforms."""
        x, at = {}, 0
        for picker in self._pickers:
            x[picker.name] = picker.value(label, chances[at : at + picker.size])
            at += picker.size
        for name, of_class in self._continuous.items():
            x[name] = _normal(of_class[label], *chances[at : at + 2].tolist())
            at += 2
        return x


class _Discrete:
    """Draws values of one attribute; `size` is the number of uniforms of a value."""

    def __init__(self, name: Any, found: DiscreteParameters, length: int | None) -> None:
        self.name = name[0] if isinstance(name, tuple) else name
        self._kind = found.kind
        self._values = list(next(iter(found.table.values())))
        self._is_text = all(words(value) == [value] for value in self._values)
        self._shares = {label: np.array(list(row.values())) for label, row in found.table.items()}
        if found.kind == "bernoulli":
            self.size = len(self._values)
            return
        mean = max(1, round(found.words_per_event)) if length is None else length
        self.size = 1 if found.kind == "nominal" else mean
        self._shares = {label: _cumulative(row) for label, row in self._shares.items()}

    def value(self, label: Any, chances: Floats) -> Any:
        shares = self._shares[label]
        if self._kind == "bernoulli":
            return self._text([self._values[i] for i in np.flatnonzero(chances < shares)])
        drawn = [self._values[_place(shares, chance)] for chance in chances]
        return drawn[0] if self._kind == "nominal" else self._text(drawn)

    def _text(self, drawn: list[str]) -> Any:
        """Return a text, or a bag of words if some of them would be split as text."""
        return " ".join(drawn) if self._is_text else dict(Counter(drawn))


def _cumulative(shares: Any) -> Floats:
    sums = np.cumsum(shares)
    return np.asarray(sums / sums[-1])


def _place(cumulative: Floats, chance: float) -> int:
    return int(np.searchsorted(cumulative, chance, side="right"))


def _normal(of_class: Gaussian, u: float, v: float) -> float:
    """Return a normal number from two uniforms (Box and Muller 1958)."""
    radius = math.sqrt(-2.0 * math.log1p(-u))
    return of_class.mean + math.sqrt(of_class.variance) * radius * math.cos(2.0 * math.pi * v)
