"""Hypotheses of a mixture other than naive Bayes (softmax, pools, pairs, forests), and default sets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from streamnb.features.byte_ngrams import FIRST, LENGTH
from streamnb.models.mixture.hypotheses import Hypothesis, check_names, check_weight
from streamnb.statistics.counter_rng import check_seed
from streamnb.values.parameter_checks import brief, check_capacity, check_whole

NAIVE, CALIBRATED, SOFTMAX, POOL, CALIBRATED_POOL, ONE_DEPENDENCE, BYTES, FOREST = range(8)


@dataclass(frozen=True)
class Softmax:
    """Softmax regression over features, as a hypothesis: see `softmax_regression`.

    Attributes:
        rate: of learning, above zero.
        pairs: whether pairs of adjacent words and of attributes are features too.
        weight: relative prior probability; 0 as in `Hypothesis`.
        name: in predictions, metrics and reports.
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
        """Name, or by default the parameters: ``softmax rate=0.6 pairs``."""
        return self.name or f"softmax rate={self.rate:g}{' pairs' if self.pairs else ''}"


@dataclass(frozen=True)
class ByteSoftmax:
    """Softmax regression on the byte 4-grams of texts, as a hypothesis: see `byte_ngram_table`.

    Attributes:
        rate: of learning, above zero.
        first_bytes: number of bytes of a text that are read, 4 or more; equal for all in a mixture.
        weight: relative prior probability; 0 as in `Hypothesis`.
        name: in predictions, metrics and reports.
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
        """Name, or by default the parameters: ``byte softmax rate=0.6``."""
        return self.name or f"byte softmax rate={self.rate:g}"


@dataclass(frozen=True)
class Pool:
    """A log-opinion pool of all calibrated, softmax, one-dependence, forest and recent hypotheses.

    See `opinion_pool`.

    Attributes:
        variance: of the weights before anything is learned, above zero.
        calibrated: whether its confidence is corrected to its past accuracy, see `histogram_binning`.
        weight: relative prior probability; 0 as in `Hypothesis`.
        name: in predictions, metrics and reports.
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
        """Name, or by default the parameters: ``calibrated pool variance=0.1``."""
        return self.name or f"{'calibrated ' if self.calibrated else ''}pool variance={self.variance:g}"


@dataclass(frozen=True)
class OneDependence:
    """Averaged one-dependence estimators over numbers and nominal values: see `averaged_one_dependence`.

    As a hypothesis it has counts of its own, which do not decay, and ignores texts.

    With `max_attributes` its memory is a part of the model's budget (`BayesOptimalNB.keep_within`), and pools
    read it only after an event with an attribute was learned: on texts alone it changes no prediction of a
    pool.

    Attributes:
        prior_weight: weight of P(a | v) in P(a | b, v), 1e-6 to 1e6 examples.
        max_values: values of an attribute that have counts of their own.
        memory: of the counts of pairs, bytes.
        weight: relative prior probability; 0 as in `Hypothesis`.
        name: in predictions, metrics and reports.
        max_attributes: maximum number of attributes, the first that are learned; None reads all.
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
        """True if pools ignore it until an attribute was learned."""
        return self.max_attributes is not None

    @property
    def label(self) -> str:
        """Name, or by default the parameters: ``one-dependence prior_weight=5``."""
        return self.name or f"one-dependence prior_weight={self.prior_weight:g}"


@dataclass(frozen=True)
class MondrianForest:
    """An aggregated Mondrian forest over numbers and nominal values: see `models.forest`.

    It reads the first 64 attributes that are learned, ignores texts, and pools read it only after an event
    with an attribute was learned.

    Attributes:
        trees: number of trees, 1 to 1,000.
        memory: of all nodes, bytes; when it is spent, trees are not split any more.
        seed: of the splits.
        weight: relative prior probability; 0 as in `Hypothesis`.
        name: in predictions, metrics and reports.
    """

    trees: int = 8
    memory: int = 64 << 20
    seed: int = 0
    weight: float = 1.0
    name: str = ""

    def __post_init__(self) -> None:
        check_whole("trees", self.trees, 1, 1000)
        check_whole("memory", self.memory, 1 << 16)
        check_seed(self.seed)
        check_weight(self.weight)

    @property
    def label(self) -> str:
        """Name, or by default the parameters: ``mondrian forest trees=8``."""
        return self.name or f"mondrian forest trees={self.trees}"


@dataclass(frozen=True)
class RecentGaussian:
    """A calibrated Gaussian naive Bayes model of recent events, as a hypothesis: see `recent_gaussians`.

    It reads the first 256 numbers that are learned, ignores texts and nominal values, and next to gated
    hypotheses pools read it only after an event with an attribute was learned.

    Attributes:
        half_life_events: number of learned events after which an event counts half, 1 to 1,000,000,000.
        weight: relative prior probability; 0 as in `Hypothesis`.
        name: in predictions, metrics and reports.
    """

    half_life_events: int = 32
    weight: float = 1.0
    name: str = ""

    def __post_init__(self) -> None:
        check_whole("half_life_events", self.half_life_events, 1, 1_000_000_000)
        check_weight(self.weight)

    @property
    def label(self) -> str:
        """Name, or by default the parameters: ``recent gaussian half_life_events=32``."""
        return self.name or f"recent gaussian half_life_events={self.half_life_events}"


AnyHypothesis = Hypothesis | Softmax | ByteSoftmax | Pool | OneDependence | MondrianForest | RecentGaussian


def check_hypotheses(hypotheses: Any) -> None:
    """Raise ValueError unless it is a list of hypotheses, of which at least one has a weight above zero."""
    is_list = isinstance(hypotheses, Sequence) and not isinstance(hypotheses, str)
    for item in hypotheses if is_list else [hypotheses]:
        if not is_list or not isinstance(item, AnyHypothesis):
            example = f"Hypothesis({item!r})" if isinstance(item, str) else "Hypothesis()"
            raise ValueError(
                "hypotheses must be a list of Hypothesis, Softmax, ByteSoftmax, Pool, OneDependence, "
                f"MondrianForest or RecentGaussian, such as [{example}], not {brief(repr(hypotheses))}"
            )
    check_names([hypothesis.label for hypothesis in hypotheses])
    if not any(hypothesis.weight for hypothesis in hypotheses):
        raise ValueError("at least one hypothesis must have a weight above zero")


def _check(name: str, value: float) -> None:
    if not 0.0 < value < np.inf:
        raise ValueError(f"{name} must be above zero and finite, not {value!r}")


def naive_part(hypotheses: Sequence[AnyHypothesis]) -> list[Hypothesis]:
    """Return the distinct readings of the counts, in order; the density is not part of a reading."""
    return list(dict.fromkeys(_reading(h) for h in hypotheses if isinstance(h, Hypothesis)))


def _reading(h: Hypothesis) -> Hypothesis:
    """Return the hypothesis with only the parameters that determine its reading of the counts."""
    prior = h.prior if isinstance(h.prior, str) else _Prior(h.prior)
    return Hypothesis(h.likelihood, h.alpha, h.m, h.p, prior, h.half_life)


def _densities(hypotheses: Sequence[AnyHypothesis]) -> list[tuple[int, bool]]:
    """Return (reading, is_binned): each reading once, then the readings that are used both ways."""
    readings = naive_part(hypotheses)
    found = {(readings.index(_reading(h)), h.is_binned) for h in hypotheses if isinstance(h, Hypothesis)}
    firsts = [(i, (i, False) not in found) for i in range(len(readings))]
    return firsts + sorted(found.difference(firsts))


class _Prior(dict):  # type: ignore[type-arg]
    def __hash__(self) -> int:  # type: ignore[override]
        return hash(tuple(self.items()))


_ALPHAS = (1.0, 0.1, 0.01)

NAIVE_HYPOTHESES: tuple[Hypothesis, ...] = tuple(
    Hypothesis(likelihood, alpha=alpha)
    for likelihood in ("multinomial", "presence", "bernoulli", "complement")
    for alpha in _ALPHAS
)
"""Twelve naive Bayes models that learn nothing but counts, so they can be unlearned."""

DEFAULT_HYPOTHESES: tuple[AnyHypothesis, ...] = (
    Hypothesis("presence", alpha=1.0),
    Hypothesis("presence", alpha=1.0, density="binned", calibrated=True),
    Hypothesis("presence", alpha=0.05, calibrated=True),
    Softmax(0.6, pairs=True),
    Softmax(0.25),
    ByteSoftmax(0.6),
    OneDependence(max_attributes=64),
    MondrianForest(),
    RecentGaussian(32),
    RecentGaussian(256),
    Pool(0.01),
    Pool(0.1),
    Pool(0.1, calibrated=True),
)
"""Naive Bayes (good from the first events), calibrated; softmax; pairs; trees; recent events; and pools."""
