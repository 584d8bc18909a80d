"""Steps of incremental EM for naive Bayes: an event of unknown class counts as every class.

E   r_j = P(c_j | x)
M   x is counted as class c_j with weight r_j, in whole units of 1/1024 example
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, Protocol

from streamnb.toolbox.semi_supervised.em_window import EventWindow, WindowEvent, apportioned
from streamnb.values.example_weights import UNIT

Parts = tuple[int, ...]


class UnlearningClassifier(Protocol):
    """A classifier that can undo what it learned, as `NaiveBayes`."""

    @property
    def classes(self) -> list[Any]:
        """Every class met, in order of first appearance."""

    def predict_proba_one(self, x: Any) -> dict[Any, float]:
        """Return P(v | x) of every class v with examples."""

    def learn_one(self, x: Any, y: Any, w: float = 1.0) -> None:
        """Learn an event of class `y`."""

    def unlearn_one(self, x: Any, y: Any, w: float = 1.0) -> None:
        """Undo ``learn_one(x, y, w)``."""


def expected_parts(model: UnlearningClassifier, x: Any, weight: int) -> Parts:
    """Return the expected units of each class; zeros if no class has examples."""
    shares = model.predict_proba_one(x)
    if not shares:
        return (0,) * len(model.classes)
    return apportioned(weight, [shares.get(label, 0.0) for label in model.classes])


def replace_parts(model: UnlearningClassifier, x: Any, before: Parts, after: Parts) -> int:
    """Replace the units learned of an event, class by class; return the units moved."""
    moved = 0
    for k, label in enumerate(model.classes):
        old, new = (parts[k] if k < len(parts) else 0 for parts in (before, after))
        if old != new:
            moved += abs(old - new)
            # Relearn the whole part: rounded counts of fractional words are not additive.
            if old:
                model.unlearn_one(x, label, old / UNIT)
            if new:
                model.learn_one(x, label, new / UNIT)
    return moved


def revisit_window(model: UnlearningClassifier, kept: EventWindow, n: int | None) -> int:
    """Learn `n` events of the window again, each at most once (None: all); return the units moved."""
    moved = 0
    for _ in range(len(kept) if n is None else min(n, len(kept))):
        place, event = kept.next()
        parts = expected_parts(model, event.x, event.weight)
        if parts != event.parts + (0,) * (len(parts) - len(event.parts)):
            moved += replace_parts(model, event.x, event.parts, parts)
            kept.replace(place, event._replace(parts=parts))
    return moved


def shares_of(classes: list[Any], kept: Iterable[WindowEvent]) -> list[dict[Any, float]]:
    """Return class -> learned share of each event."""
    return [
        {label: part / event.weight for label, part in zip(classes, event.parts, strict=False)}
        for event in kept
    ]


def log_sum(joints: Iterable[float]) -> float:
    """Return log sum exp, in nats; -inf of nothing."""
    logs = list(joints)
    top = max(logs, default=-math.inf)
    if math.isinf(top):
        return top
    return top + math.log(math.fsum(math.exp(log - top) for log in logs))
