"""Compile every kernel that a service needs, before it takes on work: once a machine, then from the cache."""

from __future__ import annotations

import numpy as np

from streamnb.model.attributes import Text
from streamnb.model.naive_bayes import NaiveBayes
from streamnb.model.progressive import ProgressiveValidation

__all__ = ["warm"]


def warm() -> None:
    """Send a few events through all that learns, predicts, unlearns, prunes and scores."""
    model = NaiveBayes({"text": "text", "subject": Text(event_model="bernoulli")})
    x = {"text": "one two", "subject": "three", "colour": "red", "height": 1.5}
    scores = ProgressiveValidation(2)
    for label in ("a", "b", "c"):
        posteriors = model.predict_then_learn_many([x, x], [label, None])
        scores.update_many(posteriors.probabilities, np.array([0, -1], dtype=np.int64))
    copy = model.copying()
    model.learn_one(x, "c")
    copy.state()
    model.explain_one(x)
    model.unlearn_one(x, "c")
    model.merge(model.clone())
    model.prune(min_count=1)
    scores.window()
