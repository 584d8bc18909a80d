"""What a model answers for many events."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from streamnb.model.compiled.arrays import Floats, Ints


class Posteriors(NamedTuple):
    """Predictions for n events.

    Attributes:
        classes: the K classes, in the order in which they were met.
        probabilities: float64[n, K]; zero for a class of which nothing had been learned yet, so that a row
            is all zero where the model was empty; else rows sum to 1.
        known: int64[n], how many of the classes had been met before each event.
        hypotheses: float64[n, H], P(h | all learned before the event), by models that weigh hypotheses.
    """

    classes: list[Any]
    probabilities: Floats
    known: Ints
    hypotheses: Floats | None = None

    def labels(self) -> list[Any]:
        """The most probable class of each event, None where the model was empty; of equals the first met."""
        if not self.classes:
            return [None] * len(self.probabilities)
        best = self.probabilities.argmax(axis=1)
        is_empty = self.probabilities[np.arange(best.size), best] <= 0.0
        named = [*self.classes, None]
        return [named[k] for k in np.where(is_empty, len(self.classes), best).tolist()]
