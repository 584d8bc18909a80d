"""Compile every kernel that a service needs, before it takes on work: once a machine, then from the cache."""

from __future__ import annotations

import numpy as np

from streamnb.model.attributes import Text
from streamnb.model.bayes_optimal_nb import BayesOptimalNB
from streamnb.model.hypotheses import Hypothesis
from streamnb.model.learners import AnyHypothesis, Pool, Softmax
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
    model.predict_proba_one(x)
    copy = model.copying()
    model.learn_one(x, "c")
    copy.state()
    model.explain_one(x)
    model.unlearn_one(x, "c")
    model.merge(model.clone())
    model.prune(min_count=1)
    hypotheses: list[AnyHypothesis] = [
        Hypothesis(),
        Hypothesis("bernoulli"),
        Hypothesis("presence", half_life=60.0),
        Hypothesis("presence", calibrated=True),
        Softmax(pairs=True),
        Pool(),
        Pool(calibrated=True),
    ]
    many = BayesOptimalNB({"text": "text"}, hypotheses, switching_rate=0.1, prediction="gibbs")
    for label in ("a", "b", "c"):
        many.predict_then_learn_many([x, x], [label, None], ts=[1.0, 2.0])
    many.explain_one(x)
    scores.window()
