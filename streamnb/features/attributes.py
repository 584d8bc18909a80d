"""Attributes: the factor that each contributes to a prediction, and how that factor is smoothed."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Literal

from streamnb.values.number_ranges import is_missing, lies_between
from streamnb.values.parameter_checks import brief, check_mapping, check_whole

EventModel = Literal["multinomial", "bernoulli"]


@dataclass(frozen=True)
class _Smoothed:
    """Smoothing of one attribute: alpha, or the m-estimate; None leaves it to the model.

    Attributes:
        alpha: added to every count (1 is Laplace's rule); 0 is read as the limit.
        m: the equivalent sample size of the m-estimate (n_c + m p) / (n + m).
        p: the prior estimate of the probability, in (0, 1); None is uniform over the values declared or seen.
    """

    alpha: float | None = None
    m: float | None = None
    p: float | Mapping[Any, float] | None = None

    def __post_init__(self) -> None:
        check_smoothing(self.alpha, self.m, self.p)

    @property
    def p_of_each(self) -> float | None:
        """The prior estimate of every value; None is uniform."""
        return None if isinstance(self.p, Mapping) else self.p


@dataclass(frozen=True)
class Text(_Smoothed):
    """A text, cut into lower-case words by the rules of docs/texts.md.

    Attributes:
        event_model: "multinomial" counts every word position; "bernoulli" models which words are present,
            so that absent words count too; None leaves it to the model.
    """

    event_model: EventModel | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.event_model not in {None, "multinomial", "bernoulli"}:
            raise ValueError(f"event_model must be 'multinomial' or 'bernoulli', not {self.event_model!r}")


@dataclass(frozen=True)
class Nominal(_Smoothed):
    """One value of a set; values are compared by their text: 3 and 3.0 are "3", True is "true".

    Smoothing counts the values: those met so far, unless they are declared. A declared value that was not
    met yet has a probability; an undeclared new one is ignored.

    Attributes:
        values: all allowed values. Learning and predicting any other raises ValueError; the service makes
            its event a dead letter. For networks it is missing.
        n_values: in place of `values` their minimum number; more count as they are met.
        p: one prior estimate of all values, or one of each value, which declares the values:
            ``Nominal(m=2, p={"y": 0.7, "n": 0.3})``. They must sum to 1. Mixtures and tenants take one only.

    Examples:
        >>> from streamnb import CategoricalNB, Nominal
        >>> model = CategoricalNB(attributes={"cover": Nominal(values=["fur", "feathers"])})
        >>> model.learn_one({"cover": "fur"}, "lion")
        >>> model.learn_one({"cover": "feathers"}, "owl")
        >>> round(model.predict_proba_one({"cover": "fur"})["lion"], 4)  # Laplace: 2/3 against 1/3
        0.6667
    """

    values: Sequence[Any] | None = None
    n_values: int | None = None

    def __post_init__(self) -> None:
        check_smoothing(self.alpha, self.m, self.p_of_each)
        if isinstance(self.p, Mapping):
            self._declare_by_p(self.p)
        if self.values is not None:
            if isinstance(self.values, str) or not isinstance(self.values, Iterable) or not self.values:
                found = brief(repr(self.values))
                raise ValueError(f"values must be a list with at least one value, not {found}")
            if self.n_values is not None:
                raise ValueError("give values or n_values, not both")
            object.__setattr__(self, "values", tuple(self.values))
            for value in filter(is_missing, self.values):
                raise ValueError(f"values must be strings, booleans or finite numbers, not {value!r}")
        if self.n_values is not None:
            check_whole("n_values", self.n_values, 1, _MOST)

    def _declare_by_p(self, p: Mapping[Any, float]) -> None:
        if self.m is None:
            raise ValueError("p belongs to the m-estimate: give m too")
        if not all(lies_between(_LEAST, one, 1.0) for one in p.values()) or not math.isclose(
            math.fsum(p.values()), 1.0, rel_tol=1e-9
        ):
            raise ValueError(f"p must be probabilities, each at least {_LEAST}, that sum to 1: {dict(p)!r}")
        values = list(p) if self.values is None else list(self.values)
        if set(values) != set(p) or self.n_values is not None:
            raise ValueError(
                f"p has the values {list(p)!r}, but declared are {self.values or self.n_values!r}"
            )
        object.__setattr__(self, "values", values)
        object.__setattr__(self, "p", {value: float(p[value]) for value in values})

    @property
    def declared(self) -> int:
        """The number of declared values; 0 without a declaration."""
        return self.n_values or len(self.values or ())

    def check_p(self, name: Any, p: float | None) -> None:
        """Raise ValueError if `p` for each declared value of attribute `name` cannot sum to 1."""
        if p is not None and self.declared and not math.isclose(p * self.declared, 1.0, rel_tol=1e-9):
            raise ValueError(
                f"attribute {name!r}: p = {p} for each of {self.declared} values sums to "
                f"{p * self.declared:.6g}, not 1; leave p out for 1/{self.declared}"
            )


@dataclass(frozen=True)
class Continuous:
    """A number with a Gaussian density within each class (maximum likelihood moments)."""


_MOST = 1 << 31
_SHOWN = 8  # values in a message
_LEAST = 1e-100  # so that a product of two such numbers is still a double

Attribute = Text | Nominal | Continuous

TEXT = "text"
"""The name of an attribute that is a text without a declaration, in Python as on the wire."""


class TextEvents(Sequence[dict[str, str]]):
    """Events of one text each, ``{"text": ...}``, which are made when they are asked for.

    Args:
        texts: the text of each event.
    """

    def __init__(self, texts: Sequence[str]) -> None:
        self.texts = texts

    def __len__(self) -> int:
        return len(self.texts)

    def __getitem__(self, at: Any) -> Any:
        return TextEvents(self.texts[at]) if isinstance(at, slice) else {TEXT: self.texts[at]}

    def __iter__(self) -> Iterator[dict[str, str]]:
        return ({TEXT: text} for text in self.texts)


def some_of(values: Collection[str]) -> str:
    """Return the first of the values, and how many more there are, for a message."""
    more = len(values) - _SHOWN
    return ", ".join(map(brief, islice(values, _SHOWN))) + (f" and {more:,} more" if more > 0 else "")


def check_attributes(attributes: Any) -> None:
    """Raise ValueError for attributes that are not a mapping."""
    check_mapping("attributes", attributes, "{'outlook': 'nominal'}")


def check_smoothing(alpha: float | None, m: float | None, p: float | Mapping[Any, float] | None) -> None:
    """Raise ValueError for invalid or contradictory smoothing parameters."""
    for name, value in (("alpha", alpha), ("m", m)):
        if value is not None and not (
            lies_between(0.0, value, 0.0) or lies_between(_LEAST, value, 1.0 / _LEAST)
        ):
            raise ValueError(f"{name} must be 0 or lie between {_LEAST} and {1.0 / _LEAST}, not {value!r}")
    if isinstance(p, Mapping):
        raise ValueError(  # noqa: TRY004
            f"p must be one number here, not {dict(p)!r}: a nominal attribute takes a p of each value, "
            "CategoricalNB(attributes={'a': Nominal(m=2, p={'y': 0.7, 'n': 0.3})})"
        )
    if p is not None and not lies_between(_LEAST, p, 1.0 - 2.0**-52):
        raise ValueError(f"p must lie between {_LEAST} and 1, not {p!r}")
    if p is not None and m is None:
        raise ValueError("p belongs to the m-estimate: give m too")
    if alpha is not None and m is not None:
        raise ValueError("give alpha or m, not both")
