"""Calibrated naive Bayes, softmax regression and the opinion pool, each as a classifier of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from streamnb.model.attributes.attributes import Attribute
from streamnb.model.attributes.priors import Prior
from streamnb.model.mixture.bayes_optimal_nb import BayesOptimalNB
from streamnb.model.mixture.components import ByteSoftmax, Pool, Softmax, Tree
from streamnb.model.mixture.default_hypotheses import DEFAULT_HYPOTHESES
from streamnb.model.mixture.hypotheses import Density, Hypothesis, Likelihood


class CalibratedNB(BayesOptimalNB):
    """Naive Bayes whose probabilities are raised to a power that is learned.

        P'(v | x) ~ P(v | x)^a

    Naive Bayes takes for independent what is not, and is too sure of itself the longer its events are; a,
    one number, is learned by Newton's method on the log loss, one event at a time (see `temperature`). It
    predicts what ``Hypothesis(calibrated=True)`` of a `BayesOptimalNB` predicts, bit for bit.

    What was learned by gradient depends on the order of events: `merge` and `unlearn_one` are refused.

    Args:
        attributes: name -> `Text`, `Nominal` or `Continuous`, or just "text", "nominal", "continuous".
        likelihood: how texts are read: "multinomial", "presence", "bernoulli" or "complement".
        alpha: added to every count, above zero.
        m: use the m-estimate (n_c + m p) / (n + m), above zero, in place of alpha.
        p: prior estimate of the m-estimate; None is uniform over the values declared or seen.
        prior: "learned" (frequency), "uniform", or label -> relative weight (a label left out has none).
        half_life: what was learned counts half after this time (seconds of event time); None never forgets.
        density: how continuous values are read: "gaussian", or "binned".

    Examples:
        The power is 1/2 at first, so that odds of 2 to 1 become the root of 2 to 1:

        >>> import math
        >>> from streamnb import CalibratedNB
        >>> model = CalibratedNB({"text": "text"})
        >>> model.learn_one({"text": "win cash"}, "spam")
        >>> model.learn_one({"text": "see you"}, "ham")
        >>> round(model.predict_proba_one({"text": "cash"})["spam"], 3)
        0.586
        >>> round(math.sqrt(2) / (math.sqrt(2) + 1), 3)
        0.586

    References:
        Platt (1999), Probabilistic outputs for support vector machines; Guo et al. (2017), On calibration of
        modern neural networks.
    """

    def __init__(
        self,
        attributes: Mapping[Any, Attribute | str] | None = None,
        likelihood: Likelihood = "presence",
        alpha: float = 1.0,
        m: float | None = None,
        p: float | None = None,
        prior: Prior = "learned",
        half_life: float | None = None,
        density: Density = "gaussian",
    ) -> None:
        smoothing = alpha if m is None else None
        hypothesis = Hypothesis(likelihood, smoothing, m, p, prior, half_life, density, calibrated=True)
        super().__init__(attributes, (hypothesis,), switching_rate=0.0)
        self.likelihood = likelihood
        self.alpha = alpha
        self.m = m
        self.p = p
        self.prior = prior
        self.half_life = half_life
        self.density = density


class SoftmaxRegression(BayesOptimalNB):
    """Softmax regression over words, values, bins and pairs of them, learned by gradient.

        P(v | x) ~ exp(b_v + sum_i x_i (l_iv / 2 + w_iv))        l_iv = ln (n_iv + 1/2) / (n_v + 1)

    The log likelihoods l come from counts; w and b are learned (AdaGrad, see `softmax`). The features of an
    event x, scaled to length one, are those of `feature_extraction`. It predicts what the hypothesis
    `Softmax` of a `BayesOptimalNB` predicts, bit for bit.

    What was learned by gradient depends on the order of events: `merge` and `unlearn_one` are refused.

    Args:
        attributes: name -> `Text`, `Nominal` or `Continuous`, or just "text", "nominal", "continuous".
        rate: of learning, above zero.
        pairs: whether pairs of adjacent words and of attributes are features too.
        memory: of the features, bytes; when it is spent no more are added.

    Examples:
        Before a class is met for the second time there are counts alone. Here l of "red" is ln 3/4 against
        ln 1/4, of which half counts; its share x of the event is .608 beside the label before.

        >>> import math
        >>> from streamnb import SoftmaxRegression
        >>> model = SoftmaxRegression()
        >>> model.learn_one({"colour": "red"}, "stop")
        >>> model.learn_one({"colour": "green"}, "go")
        >>> round(model.predict_proba_one({"colour": "red"})["stop"], 3)
        0.583
        >>> round(1 / (1 + math.exp(-0.608 * math.log(3) / 2)), 3)
        0.583

    References:
        Mitchell (2017), Naive Bayes and logistic regression; Duchi, Hazan and Singer (2011), AdaGrad.
    """

    def __init__(
        self,
        attributes: Mapping[Any, Attribute | str] | None = None,
        rate: float = 0.6,
        pairs: bool = False,  # noqa: FBT001, FBT002  as in `Softmax`; River sets parameters by name
        memory: int = 256 << 20,
    ) -> None:
        super().__init__(attributes, (Softmax(rate, pairs),), switching_rate=0.0, memory=memory)
        self.rate = rate
        self.pairs = pairs


Opinion = Hypothesis | Softmax | ByteSoftmax | Tree

DEFAULT_OPINIONS: tuple[Opinion, ...] = tuple(
    h
    for h in DEFAULT_HYPOTHESES
    if isinstance(h, Softmax | ByteSoftmax | Tree) or (isinstance(h, Hypothesis) and h.calibrated)
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
        opinions: naive Bayes hypotheses that are calibrated, softmax regressions, and trees; by default those
            of the default mixture.
        variance: of the weights before anything is learned, above zero.
        memory: of the features of softmax regressions, bytes; when it is spent no more are added.
        calibrated: whether it is as sure as it was right when it was so sure, see `histogram_binning`.

    Raises:
        ValueError: where there is no opinion, or one that is neither calibrated nor a regression or tree.

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
            if not (
                opinion.calibrated
                if isinstance(opinion, Hypothesis)
                else isinstance(opinion, Softmax | ByteSoftmax | Tree)
            ):
                raise ValueError(f"an opinion is calibrated, a softmax regression or a tree, not {opinion!r}")
        unweighed = tuple(replace(opinion, weight=0.0) for opinion in opinions)
        pool = Pool(variance, calibrated=calibrated)
        super().__init__(attributes, (*unweighed, pool), switching_rate=0.0, memory=memory)
        self.opinions = opinions
        self.variance = variance
        self.calibrated = calibrated
