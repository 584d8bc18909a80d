"""One classifier out of many whose weights are learned, as a classifier of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from streamnb.model.attributes.attributes import Attribute
from streamnb.model.mixture.bayes_optimal_nb import BayesOptimalNB
from streamnb.model.mixture.components import Pool, Softmax
from streamnb.model.mixture.default_hypotheses import DEFAULT_HYPOTHESES
from streamnb.model.mixture.hypotheses import Hypothesis

__all__ = ["LogOpinionPool"]

Opinion = Hypothesis | Softmax

DEFAULT_OPINIONS: tuple[Opinion, ...] = tuple(
    h for h in DEFAULT_HYPOTHESES if isinstance(h, Softmax) or (isinstance(h, Hypothesis) and h.calibrated)
)
"""Those that the pools of a default `BayesOptimalNB` take in."""


class LogOpinionPool(BayesOptimalNB):
    """A weighted product of opinions, whose weights and bias are learned.

        P(v | x) ~ exp(b_v + sum_i w_i ln P_i(v | x))

    The weights are a Gaussian around equal shares that each event narrows (see `opinion_pool`). It predicts
    what the hypothesis `Pool` of a `BayesOptimalNB` with these opinions predicts, bit for bit; the opinions
    learn beside it, and have no part in its predictions but by the pool (their `weight` is not read).

    What was learned by gradient depends on the order of events: `merge` and `unlearn_one` are refused.

    Args:
        attributes: name -> `Text`, `Nominal` or `Continuous`, or just "text", "nominal", "continuous".
        opinions: naive Bayes hypotheses that are calibrated, and softmax regressions; by default those of the
            default mixture.
        variance: of the weights before anything is learned, above zero.
        memory: of the features of softmax regressions, bytes; when it is spent no more are added.
        calibrated: whether it is as sure as it was right when it was so sure, see `histogram_binning`.

    Raises:
        ValueError: where there is no opinion, or one that is neither calibrated nor a softmax regression.

    Examples:
        At first all weigh the same, and the pool is the geometric mean of what they say:

        >>> import math
        >>> from streamnb import CalibratedNB, Hypothesis, LogOpinionPool
        >>> opinions = [Hypothesis("presence", alpha, calibrated=True) for alpha in (1.0, 0.1)]
        >>> model = LogOpinionPool({"text": "text"}, opinions)
        >>> alone = [CalibratedNB({"text": "text"}, "presence", alpha) for alpha in (1.0, 0.1)]
        >>> for text, label in [("win cash", "spam"), ("see you", "ham")]:
        ...     for each in (model, *alone):
        ...         each.learn_one({"text": text}, label)
        >>> round(model.predict_proba_one({"text": "cash"})["spam"], 3)
        0.684
        >>> answers = [each.predict_proba_one({"text": "cash"}) for each in alone]
        >>> odds = math.prod(p["spam"] / p["ham"] for p in answers) ** (1 / 2)
        >>> round(odds / (1 + odds), 3)
        0.684

    References:
        Genest and Zidek (1986), Combining probability distributions; Hinton (2002), products of experts.
    """

    def __init__(
        self,
        attributes: Mapping[Any, Attribute | str] | None = None,
        opinions: Sequence[Opinion] = DEFAULT_OPINIONS,
        variance: float = 0.1,
        memory: int = 256 << 20,
        *,
        calibrated: bool = False,
    ) -> None:
        for opinion in opinions:
            if not (opinion.calibrated if isinstance(opinion, Hypothesis) else isinstance(opinion, Softmax)):
                raise ValueError(f"an opinion is calibrated or a softmax regression, not {opinion!r}")
        unweighed = tuple(replace(opinion, weight=0.0) for opinion in opinions)
        pool = Pool(variance, calibrated=calibrated)
        super().__init__(attributes, (*unweighed, pool), switching_rate=0.0, memory=memory)
        self.opinions = opinions
        self.variance = variance
        self.calibrated = calibrated
