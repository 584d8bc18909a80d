"""Predictions of a model for many events."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from streamnb.kernels.array_types import Floats, Ints
from streamnb.values.type_aliases import Flags


class Posteriors(NamedTuple):
    """Predictions for n events.

    Attributes:
        classes: the K classes, in the order in which they were met.
        probabilities: float64[n, K]; 0 for a class without examples, so that a row is all zero if the model
            was empty; otherwise rows sum to 1.
        known: int64[n], number of classes that had been met before each event.
        hypotheses: float64[n, H], P(h | all events learned before), by models that weigh hypotheses.
        quarantined: bool[n, K], True for classes that may not be predicted, or are unknown to the event's own
            model, and have probability 0; None if there are none.
        held: float64[n], total probability h of these classes before quarantine.
        evidence: float64[n], log likelihood per token, by models that compute it, see `StreamModel`; nan if
            no attribute of the event was ever learned.
        used: bool[n], whether an event has any word, value or number that was learned, by models that compute
            it, in predictions without learning.
    """

    classes: list[Any]
    probabilities: Floats
    known: Ints
    hypotheses: Floats | None = None
    quarantined: Flags | None = None
    held: Floats | float = 0.0
    evidence: Floats | None = None
    used: Flags | None = None

    @classmethod
    def joined(cls, parts: Sequence[Posteriors]) -> Posteriors:
        """Return the predictions of consecutive calls as one, with 0 for classes that a call did not know.

        Args:
            parts: at least one, by one model.
        """
        last = parts[-1]

        def wide(table: Any, *, default: Any) -> Any:
            return np.pad(table, ((0, 0), (0, len(last.classes) - table.shape[1])), constant_values=default)

        masks = [part.probabilities < 0.0 if part.quarantined is None else part.quarantined for part in parts]
        is_any = any(part.quarantined is not None for part in parts)
        return cls(
            last.classes,
            np.concatenate([wide(part.probabilities, default=0.0) for part in parts]),
            np.concatenate([part.known for part in parts]),
            None if last.hypotheses is None else np.concatenate([part.hypotheses for part in parts]),
            np.concatenate([wide(mask, default=True) for mask in masks]) if is_any else None,
            evidence=None if last.evidence is None else np.concatenate([part.evidence for part in parts]),
        )

    def quarantine(self, weights: Floats, least: float) -> Posteriors:
        """Return the predictions without classes that have too few examples: P'(v) = P(v) / (1 - h).

        The remaining classes keep their odds. If all of them underflow next to a quarantined class, their
        probabilities are their class frequencies; if none remain, the row is all zero, as in an empty model.
        Sums run in the order of classes, so that they do not depend on columns of later classes.

        Args:
            weights: of the classes before each event, in examples, shape (n, K), or (1, K) for all events.
            least: minimum number of examples.
        """
        P = self.probabilities
        masked = np.broadcast_to(weights < least, P.shape)
        if self.quarantined is not None:
            masked = masked | self.quarantined
        if not masked.any():
            return self
        held = np.cumsum(np.where(masked, P, 0.0), axis=1)[:, -1:]
        kept = np.where(masked, 0.0, P)
        kept = np.where((held > 0.0) & ~kept.any(axis=1, keepdims=True) & ~masked, weights, kept)
        total = np.cumsum(kept, axis=1)[:, -1:]
        rescaled = np.divide(kept, total, out=kept, where=(held > 0.0) & (total > 0.0))
        return self._replace(probabilities=rescaled, quarantined=masked, held=held[:, 0])

    @property
    def hides_rival(self) -> Flags:
        """bool[n], True if the quarantined classes together exceed the second published class."""
        second = np.sort(self.probabilities, axis=1)[:, -2:-1].sum(axis=1)
        hides: Flags = self.held > (1.0 - self.held) * second
        return hides

    def to_frame(self, index: Any = None) -> Any:
        """Return the probabilities as a pandas data frame: a row for each event, a column for each class.

        Args:
            index: names of the rows, such as the index of the events' own frame; None numbers them from 0.

        Raises ImportError without pandas.
        """
        import pandas as pd  # noqa: PLC0415  optional

        return pd.DataFrame(self.probabilities, index=index, columns=pd.Index(self.classes, dtype=object))

    def labels(self) -> list[Any]:
        """Return the most probable class of each event (of equals the first), None if the model was empty."""
        if not self.classes:
            return [None] * len(self.probabilities)
        best = self.probabilities.argmax(axis=1)
        is_empty = self.probabilities[np.arange(best.size), best] <= 0.0
        named = [*self.classes, None]
        return [named[k] for k in np.where(is_empty, len(self.classes), best).tolist()]
