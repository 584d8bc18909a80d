"""Softmax regression that starts at naive Bayes, as a classifier of its own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from streamnb.model.attributes.attributes import Attribute
from streamnb.model.mixture.bayes_optimal_nb import BayesOptimalNB
from streamnb.model.mixture.components import Softmax

__all__ = ["SoftmaxRegression"]


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
