"""What a model answers for many events."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from streamnb.kernels.array_types import Floats, Ints
from streamnb.values.type_aliases import Flags


class Posteriors(NamedTuple):
    """Predictions for n events.

    Attributes:
        classes: the K classes, in the order in which they were met.
        probabilities: float64[n, K]; zero for a class of which nothing had been learned yet, so that a row
            is all zero where the model was empty; else rows sum to 1.
        known: int64[n], how many of the classes had been met before each event.
        hypotheses: float64[n, H], P(h | all learned before the event), by models that weigh hypotheses.
        quarantined: bool[n, K], which classes may not be predicted, or are none of the event's own model,
            and have probability 0; None: none.
        held: float64[n], what these had together of each event, h.
        evidence: float64[n], log likelihood a token, by models that tell it, see `StreamModel`; nan where
            nothing was learned of any attribute of the event.
        used: bool[n], whether an event has any word, value or number that was learned, by models that are
            asked without learning and tell it.
    """

    classes: list[Any]
    probabilities: Floats
    known: Ints
    hypotheses: Floats | None = None
    quarantined: Flags | None = None
    held: Floats | float = 0.0
    evidence: Floats | None = None
    used: Flags | None = None

    def quarantine(self, weights: Floats, least: float) -> Posteriors:
        """Without the classes that were learned with too few examples: P'(v) = P(v) / (1 - h).

        The others keep their odds. Where all of these underflow beside a quarantined class, they are as
        frequent as they were learned; where there are none, the row is one of zeros, as of an empty model.
        Sums run in the order of classes, so that none hangs on columns of later ones.

        Args:
            weights: of the classes before each event, in examples, shape (n, K), or (1, K) for all events.
            least: what is enough.
        """
        P = self.probabilities
        apart = np.broadcast_to(weights < least, P.shape)
        if self.quarantined is not None:
            apart = apart | self.quarantined
        if not apart.any():
            return self
        held = np.cumsum(np.where(apart, P, 0.0), axis=1)[:, -1:]
        kept = np.where(apart, 0.0, P)
        kept = np.where((held > 0.0) & ~kept.any(axis=1, keepdims=True) & ~apart, weights, kept)
        total = np.cumsum(kept, axis=1)[:, -1:]
        told = np.divide(kept, total, out=kept, where=(held > 0.0) & (total > 0.0))
        return self._replace(probabilities=told, quarantined=apart, held=held[:, 0])

    @property
    def hides_rival(self) -> bool:
        """Whether quarantined classes are together more probable than the second of the others, of any event.

        The two classes that a model tells apart by itself need not be those that are told then.
        """
        second = np.sort(self.probabilities, axis=1)[:, -2:-1].sum(axis=1)
        return bool(np.any(self.held > (1.0 - self.held) * second))

    def labels(self) -> list[Any]:
        """The most probable class of each event, None where the model was empty; of equals the first met."""
        if not self.classes:
            return [None] * len(self.probabilities)
        best = self.probabilities.argmax(axis=1)
        is_empty = self.probabilities[np.arange(best.size), best] <= 0.0
        named = [*self.classes, None]
        return [named[k] for k in np.where(is_empty, len(self.classes), best).tolist()]
