"""Two naive Bayes models under one posterior: one learns labelled events only, the other all events."""

from __future__ import annotations

from typing import Any

from streamnb.models.mixture.bayes_optimal_classifier import BayesOptimalClassifier
from streamnb.models.naive_bayes.naive_bayes_classifier import NaiveBayes
from streamnb.toolbox.semi_supervised.semi_supervised_nb import SemiSupervisedNB

LABELLED, BOTH = "labelled", "labelled and unlabelled"


def labelled_and_both(
    unlabelled_weight: float, unlabelled_window: int, revisits: int, **reading: Any
) -> BayesOptimalClassifier:
    """Return a mixture of two models, equal at first, weighed by their predictions of labels.

    Over the labelled events, the mixture loses at most ln 2 nats in all against the better of the two,
    whatever the unlabelled events do to the second.

    Args:
        unlabelled_weight: as of `SemiSupervisedNB`.
        unlabelled_window: its `window`.
        revisits: as of `SemiSupervisedNB`.
        reading: parameters of both models; see `NaiveBayes`.

    Examples:
        >>> model = labelled_and_both(0.1, 200, 1, attributes={"text": "text"})
        >>> model.posterior.probabilities
        {'labelled': 0.5, 'labelled and unlabelled': 0.5}
    """
    taught = SemiSupervisedNB(NaiveBayes(**reading), unlabelled_weight, unlabelled_window, revisits)
    return BayesOptimalClassifier({LABELLED: NaiveBayes(**reading), BOTH: taught})
