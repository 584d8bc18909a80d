"""Interface between a concept learner and a finite set of hypotheses; and its two labels."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, NamedTuple, Protocol

from streamnb.kernels.array_types import Floats, Ints
from streamnb.values.type_aliases import Flags


class Judgement(NamedTuple):
    """The classification of one instance by all hypotheses; hypotheses in neither array exclude it.

    Attributes:
        covering: int64[], numbers of the hypotheses that cover the instance, each once.
        undecided: int64[], numbers of the hypotheses that depend on a missing attribute, each once.
    """

    covering: Ints
    undecided: Ints


class HypothesisSpace(Protocol):
    """A finite set of hypotheses, numbered from 0 to `size` - 1."""

    @property
    def size(self) -> int:
        """Number of hypotheses, |H|."""

    def judge(self, x: Any) -> Judgement:
        """Return the hypotheses that cover the instance `x`, and those that are undecided."""

    def hypothesis(self, number: int) -> Any:
        """Return the hypothesis of this number."""

    def number(self, hypothesis: Any) -> int:
        """Return the number of this hypothesis. Raises KeyError if it is not in the space."""

    def specificity(self) -> Floats:
        """Return float64[size], larger for more specific hypotheses. Raises TypeError without an order."""

    def general(self, chosen: Flags) -> list[int]:
        """Return the numbers of the most general among the chosen, bool[size]."""

    def specific(self, chosen: Flags) -> list[int]:
        """Return the numbers of the most specific among the chosen, bool[size]."""

    def described(self) -> dict[str, Any]:
        """Return JSON-able values that identify the space. Raises TypeError for other values."""


def check_labels(positive: Any, negative: Any) -> None:
    """Raise ValueError if the two labels are equal or None; TypeError if they cannot be hashed."""
    for label in (positive, negative):
        if not isinstance(label, Hashable):
            raise TypeError(f"a label is a string, a number or a boolean, not a {type(label).__name__}")
    if positive is None or negative is None or len({positive, negative}) < 2:
        raise ValueError(f"a concept has two labels, not {positive!r} and {negative!r}")


def is_positive(y: Any, positive: Any, negative: Any) -> bool:
    """Return True for the positive label. Raises ValueError if `y` is neither of the two labels.

    A third label is refused: as "not in the concept" it would turn a misspelt label, or the label of a third
    class, into a fact about the concept.
    """
    for label, answer in ((positive, True), (negative, False)):
        if bool(y == label):
            return answer
    raise ValueError(f"expected the label {positive!r} or {negative!r}, got {y!r}")
