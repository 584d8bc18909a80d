"""What a mixture may weigh beside naive Bayes models: softmax regressions, pools, pairs of values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from streamnb.features.byte_ngrams import FIRST, LENGTH
from streamnb.models.mixture.hypotheses import Hypothesis, check_names, check_weight
from streamnb.values.parameter_checks import brief, check_capacity, check_whole

NAIVE, CALIBRATED, SOFTMAX, POOL, CALIBRATED_POOL, ONE_DEPENDENCE, BYTES = 0, 1, 2, 3, 4, 5, 6


@dataclass(frozen=True)
class Softmax:
    """Softmax regression over features, as a hypothesis: see `softmax`.

    Attributes:
        rate: of learning, above zero.
        pairs: whether pairs of adjacent words and of attributes are features too.
        weight: relative prior probability; 0 as in `Hypothesis`.
        name: what predictions, metrics and reports call it.
    """

    rate: float = 0.6
    pairs: bool = False
    weight: float = 1.0
    name: str = ""

    def __post_init__(self) -> None:
        _check("rate", self.rate)
        check_weight(self.weight)

    @property
    def label(self) -> str:
        """Its name, or what it is: ``softmax rate=0.6 pairs``."""
        return self.name or f"softmax rate={self.rate:g}{' pairs' if self.pairs else ''}"


@dataclass(frozen=True)
class ByteSoftmax:
    """Softmax regression on the runs of four bytes of texts, as a hypothesis: see `gram_table`.

    Attributes:
        rate: of learning, above zero.
        first_bytes: how many bytes of a text are read, 4 or more; the same by all in a mixture.
        weight: relative prior probability; 0 as in `Hypothesis`.
        name: what predictions, metrics and reports call it.
    """

    rate: float = 0.6
    first_bytes: int = FIRST
    weight: float = 1.0
    name: str = ""

    def __post_init__(self) -> None:
        _check("rate", self.rate)
        check_whole("first_bytes", self.first_bytes, LENGTH, 1 << 20)
        check_weight(self.weight)

    @property
    def label(self) -> str:
        """Its name, or what it is: ``byte softmax rate=0.6``."""
        return self.name or f"byte softmax rate={self.rate:g}"


@dataclass(frozen=True)
class Pool:
    """A log-opinion pool of all that is calibrated or learned beside naive Bayes: see `opinion_pool`.

    Attributes:
        variance: of the weights before anything is learned, above zero.
        calibrated: whether it is as sure as it was right when it was so sure, see `histogram_binning`.
        weight: relative prior probability; 0 as in `Hypothesis`.
        name: what predictions, metrics and reports call it.
    """

    variance: float = 0.1
    calibrated: bool = False
    weight: float = 1.0
    name: str = ""

    def __post_init__(self) -> None:
        _check("variance", self.variance)
        check_weight(self.weight)

    @property
    def label(self) -> str:
        """Its name, or what it is: ``calibrated pool variance=0.1``."""
        return self.name or f"{'calibrated ' if self.calibrated else ''}pool variance={self.variance:g}"


@dataclass(frozen=True)
class OneDependence:
    """Averaged one-dependence estimators over numbers and nominal values: see `trees.averaged`.

    As a hypothesis it has counts of its own, which do not forget, and leaves texts out.

    With `max_attributes` their memory is its part of what a model may take (`BayesOptimalNB.keep_within`),
    and pools take it in from the first event on after one that had an attribute: where there are only texts
    they are what they would be without it.

    Attributes:
        prior_weight: what P(a | v) counts in P(a | b, v), 1e-6 to 1e6 examples.
        max_values: values of an attribute that have counts of their own.
        memory: of the counts of pairs, bytes.
        weight: relative prior probability; 0 as in `Hypothesis`.
        name: what predictions, metrics and reports call it.
        max_attributes: it reads so many, the first that are learned; None reads all.
    """

    prior_weight: float = 5.0
    max_values: int = 127
    memory: int = 64 << 20
    weight: float = 1.0
    name: str = ""
    max_attributes: int | None = None

    def __post_init__(self) -> None:
        if not 1e-6 <= self.prior_weight <= 1e6:
            raise ValueError(
                f"prior_weight must lie between 1e-6 and 1e6 examples, not {self.prior_weight!r}"
            )
        check_weight(self.weight)
        check_capacity(self.max_values, self.memory)
        if self.max_attributes is not None:
            check_whole("max_attributes", self.max_attributes, 1, 1 << 12)

    @property
    def is_gated(self) -> bool:
        """Whether it is no opinion before an attribute was learned."""
        return self.max_attributes is not None

    @property
    def label(self) -> str:
        """Its name, or what it is: ``one-dependence prior_weight=5``."""
        return self.name or f"one-dependence prior_weight={self.prior_weight:g}"


AnyHypothesis = Hypothesis | Softmax | ByteSoftmax | Pool | OneDependence


def check_hypotheses(hypotheses: Any) -> None:
    """Raise ValueError unless it is a list of hypotheses, with at least one that has a weight above zero."""
    is_list = isinstance(hypotheses, Sequence) and not isinstance(hypotheses, str)
    for one in hypotheses if is_list else [hypotheses]:
        if not is_list or not isinstance(one, AnyHypothesis):
            told = f"Hypothesis({one!r})" if isinstance(one, str) else "Hypothesis()"
            raise ValueError(
                "hypotheses must be a list of Hypothesis, Softmax, ByteSoftmax, Pool or OneDependence, such "
                f"as [{told}], not {brief(repr(hypotheses))}"
            )
    check_names([hypothesis.label for hypothesis in hypotheses])
    if not any(hypothesis.weight for hypothesis in hypotheses):
        raise ValueError("at least one hypothesis must have a weight above zero")


def _check(name: str, value: float) -> None:
    if not 0.0 < value < np.inf:
        raise ValueError(f"{name} must be above zero and finite, not {value!r}")


def naive_part(hypotheses: Sequence[AnyHypothesis]) -> list[Hypothesis]:
    """The different readings of the counts among them, in order; densities do not make them different."""
    return list(dict.fromkeys(_reading(h) for h in hypotheses if isinstance(h, Hypothesis)))


def _reading(h: Hypothesis) -> Hypothesis:
    """A hypothesis without what does not matter to its reading of the counts."""
    prior = h.prior if isinstance(h.prior, str) else _Prior(h.prior)
    return Hypothesis(h.likelihood, h.alpha, h.m, h.p, prior, h.half_life)


def _densities(hypotheses: Sequence[AnyHypothesis]) -> list[tuple[int, bool]]:
    """Which of the readings, and whether binned: each once, then again those that are read both ways."""
    readings = naive_part(hypotheses)
    found = {(readings.index(_reading(h)), h.is_binned) for h in hypotheses if isinstance(h, Hypothesis)}
    firsts = [(i, (i, False) not in found) for i in range(len(readings))]
    return firsts + sorted(found.difference(firsts))


class _Prior(dict):  # type: ignore[type-arg]
    """Given class priors, to be compared as a whole."""

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(tuple(self.items()))
