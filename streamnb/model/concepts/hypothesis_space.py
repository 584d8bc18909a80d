"""What a concept learner asks of a finite set of hypotheses: which cover an instance; and its two labels."""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

from streamnb.model.attributes.signatures import Flags
from streamnb.model.compiled.arrays import Floats, Ints


class Judgement(NamedTuple):
    """What the hypotheses say of one instance; those in neither array say that it is not in the concept.

    Attributes:
        covering: int64[], the numbers of those that take it into the concept, each once.
        undecided: int64[], the numbers of those that cannot tell, for an attribute is missing, each once.
    """

    covering: Ints
    undecided: Ints


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

    def specificity(self) -> Floats:
        """float64[size], above for a hypothesis that is more specific. Raises TypeError where none is."""

    def general(self, chosen: Flags) -> list[int]:
        """The numbers of those among the chosen, bool[size], that no other of them is more general than."""

    def specific(self, chosen: Flags) -> list[int]:
        """The numbers of those among the chosen, bool[size], that no other of them is more specific than."""

    def described(self) -> dict[str, Any]:
        """JSON-able values by which a snapshot knows the space again. Raises TypeError for other values."""


def check_labels(positive: Any, negative: Any) -> None:
    """Raise ValueError where the two labels are one, or None; TypeError where they cannot be hashed."""
    if positive is None or negative is None or len({positive, negative}) < 2:
        raise ValueError(f"a concept has two labels, not {positive!r} and {negative!r}")


def is_positive(y: Any, positive: Any, negative: Any) -> bool:
    """Whether `y` is the label of what is in the concept. Raises ValueError where it is neither of the two.

    A third label is refused: to take all others for "not in the concept" would be to learn a misspelt label,
    and one that a classifier of several classes should have got, as a fact about the concept.
    """
    for label, answer in ((positive, True), (negative, False)):
        if bool(y == label):
            return answer
    raise ValueError(f"expected the label {positive!r} or {negative!r}, got {y!r}")
