"""The two labels of a concept: what is in it, and what is not."""

from __future__ import annotations

from typing import Any

__all__ = ["check_labels", "is_positive"]


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
