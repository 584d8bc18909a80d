"""What an attribute is: which kind of factor it contributes, and how that factor is smoothed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

__all__ = ["Attribute", "Continuous", "EventModel", "Nominal", "Text"]

EventModel = Literal["multinomial", "bernoulli"]


@dataclass(frozen=True)
class _Smoothed:
    """Smoothing of one attribute: alpha, or the m-estimate; None leaves it to the model.

    Attributes:
        alpha: added to every count (1 is Laplace's rule); 0 is read as the limit.
        m: the equivalent sample size of the m-estimate (n_c + m p) / (n + m).
        p: the prior estimate of the probability, in (0, 1); None is uniform over the values seen.
    """

    alpha: float | None = None
    m: float | None = None
    p: float | None = None

    def __post_init__(self) -> None:
        check_smoothing(self.alpha, self.m, self.p)


@dataclass(frozen=True)
class Text(_Smoothed):
    r"""A text, cut into lower-case words (``\w+``).

    Attributes:
        event_model: "multinomial" counts every word position; "bernoulli" asks which words are present,
            so that absent words count too; None leaves it to the model.
    """

    event_model: EventModel | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.event_model not in {None, "multinomial", "bernoulli"}:
            raise ValueError(f"event_model must be 'multinomial' or 'bernoulli', not {self.event_model!r}")


@dataclass(frozen=True)
class Nominal(_Smoothed):
    """One value of a set that is met as the stream goes; values are compared by their text."""


@dataclass(frozen=True)
class Continuous:
    """A number with a Gaussian density within each class (maximum likelihood moments)."""


_LEAST = 1e-100  # so that a product of two such numbers is still a double

Attribute = Text | Nominal | Continuous


def check_smoothing(alpha: float | None, m: float | None, p: float | None) -> None:
    """Raise ValueError for smoothing that has no meaning."""
    for name, value in (("alpha", alpha), ("m", m)):
        if value is not None and not (value == 0.0 or _LEAST <= value <= 1.0 / _LEAST):
            raise ValueError(f"{name} must be 0 or lie between {_LEAST} and {1.0 / _LEAST}, not {value!r}")
    if p is not None and not _LEAST <= p <= 1.0 - 2.0**-52:
        raise ValueError(f"p must lie between {_LEAST} and 1, not {p!r}")
    if p is not None and m is None:
        raise ValueError("p belongs to the m-estimate: give m too")
    if alpha is not None and m is not None:
        raise ValueError("give alpha or m, not both")
