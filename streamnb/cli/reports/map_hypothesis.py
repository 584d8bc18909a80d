"""The most probable hypothesis as a naive Bayes model of its own, where it is one.

Multinomial, presence-only and Bernoulli hypotheses that neither forget nor read bins take integer counts, as
a `NaiveBayes` does; which counts, is all the difference. So does a complement hypothesis of two classes: what
one of them does not have is what the other has. Of more it reads sums of them, and one that forgets, counts
that are no integers.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from streamnb.model.attributes.kinds import BERNOULLI, MULTINOMIAL
from streamnb.model.mixture.bayes_optimal_nb import BayesOptimalNB
from streamnb.model.mixture.components import AnyHypothesis
from streamnb.model.mixture.hypotheses import Hypothesis
from streamnb.model.naive_bayes.naive_bayes import NaiveBayes


def map_hypothesis(model: BayesOptimalNB) -> AnyHypothesis:
    """The most probable hypothesis."""
    label = model.posterior.map()
    return next(hypothesis for hypothesis in model.hypotheses if hypothesis.label == label)


def as_naive_bayes(model: BayesOptimalNB, hypothesis: AnyHypothesis) -> NaiveBayes | None:
    """A model with the counts that a hypothesis reads, which reads them as it does; None where there is none.

    Its log odds are those of the hypothesis. By presence-only hypotheses a word counts once an event: give
    such a model no word twice.
    """
    if not isinstance(hypothesis, Hypothesis) or hypothesis.calibrated or hypothesis.is_binned:
        return None
    known = sum(weight > 0.0 for weight in model.class_weights.values())
    if hypothesis.half_life is not None or (hypothesis.likelihood == "complement" and known != 2):
        return None
    alpha, m, p = hypothesis.smoothing
    is_bernoulli = hypothesis.likelihood == "bernoulli"
    plain = NaiveBayes(
        model.attributes,
        alpha=1.0 if alpha is None else alpha,
        m=m,
        p=p,
        prior=hypothesis.prior,
        event_model="bernoulli" if is_bernoulli else "multinomial",
    )
    meta, arrays = model.state()
    if hypothesis.counts_presence:
        kind_of_texts = BERNOULLI if is_bernoulli else MULTINOMIAL
        texts = np.array([kind in {BERNOULLI, MULTINOMIAL} for kind, _ in meta["groups"]], dtype=np.bool_)
        meta["groups"] = [
            [kind_of_texts if is_text else kind, name]
            for is_text, (kind, name) in zip(texts.tolist(), meta["groups"], strict=True)
        ]
        arrays = arrays | _presence(model, arrays, texts, of_texts=is_bernoulli)
    return with_state(plain, meta, arrays)


def with_state(
    plain: NaiveBayes, meta: Mapping[str, Any], arrays: Mapping[str, npt.NDArray[Any]]
) -> NaiveBayes:
    """The model with the counts alone of a state, of any `CountingModel`."""
    own = {name: value for name, value in meta.items() if name not in {"sources", "posterior"}}
    return plain.load_state({**own, "type": "NaiveBayes"}, arrays)


def _presence(
    model: BayesOptimalNB,
    arrays: dict[str, npt.NDArray[Any]],
    texts: npt.NDArray[np.bool_],
    *,
    of_texts: bool,
) -> dict[str, npt.NDArray[Any]]:
    """Table and totals in which words are counted by the texts that hold them.

    Totals are numbers of texts, or else the sums of the table.
    """
    table, totals = arrays["table"].copy(), arrays["totals"].copy()
    groups = model.statistics.vocabulary.groups[: len(table)]
    words = np.flatnonzero((groups >= 0) & texts[np.maximum(groups, 0)])
    table[words] = arrays["presence"][words]
    if of_texts:
        totals[texts] = arrays["texts"][texts]
    else:
        totals[texts] = 0
        np.add.at(totals, groups[words], table[words])
    return {"table": table, "totals": totals}
