"""What a concept learner asks of a finite set of hypotheses: which of them cover an instance."""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

__all__ = ["HypothesisSpace", "Integers", "Judgement"]

Integers = npt.NDArray[np.int64]


class Judgement(NamedTuple):
    """What the hypotheses say of one instance; those in neither array say that it is not in the concept.

    Attributes:
        covering: int64[], the numbers of those that take it into the concept, each once.
        undecided: int64[], the numbers of those that cannot tell, for an attribute is missing, each once.
    """

    covering: Integers
    undecided: Integers


class HypothesisSpace(Protocol):
    """A finite set of hypotheses, numbered from 0 to `size` - 1."""

    @property
    def size(self) -> int:
        """How many hypotheses there are, |H|."""

    def judge(self, x: Any) -> Judgement:
        """What each of them says of the instance `x`; changes nothing."""

    def hypothesis(self, number: int) -> Any:
        """The hypothesis of this number."""

    def number(self, hypothesis: Any) -> int:
        """The number of this hypothesis. Raises KeyError where it is none of them."""

    def specificity(self) -> npt.NDArray[np.float64]:
        """float64[size], above for a hypothesis that is more specific. Raises TypeError where none is."""

    def general(self, chosen: npt.NDArray[np.bool_]) -> list[int]:
        """The numbers of those among the chosen, bool[size], that no other of them is more general than."""

    def specific(self, chosen: npt.NDArray[np.bool_]) -> list[int]:
        """The numbers of those among the chosen, bool[size], that no other of them is more specific than."""

    def described(self) -> dict[str, Any]:
        """JSON-able values by which a snapshot knows the space again. Raises TypeError for other values."""
