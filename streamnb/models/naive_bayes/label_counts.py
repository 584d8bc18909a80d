"""A model that counts labels and learns nothing else."""

from __future__ import annotations

from typing import Any

from streamnb.models.interface.stream_model import Events, Labels
from streamnb.models.naive_bayes.naive_bayes_classifier import NaiveBayes
from streamnb.values.type_aliases import Times, Weights


class LabelCounts(NaiveBayes):
    """Naive Bayes without attributes: it knows the classes, so a label too many is refused as it was."""

    def learn_late_many(
        self, xs: Events, ys: Labels, ws: Weights = None, ts: Times = None, *, again: bool = False
    ) -> None:
        """Count the labels alone."""
        super().learn_late_many([{} for _ in xs], ys, ws, ts, again=again)

    def unlearn_many(self, *_: Any, **__: Any) -> None:
        """Do nothing."""
