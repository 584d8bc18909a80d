"""Brute-force Bayesian concept learning over any finite hypothesis space, one example at a time."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from fractions import Fraction
from typing import Any, Self

import numpy as np
from river import base

from streamnb.kernels.array_types import Floats
from streamnb.statistics.counter_rng import choose, uniforms
from streamnb.toolbox.concepts.concept_posterior import (
    ConceptPosterior,
    ConceptPrior,
    check_noise,
    concept_posterior,
    log_prior,
    prior_over,
)
from streamnb.toolbox.concepts.conjunctions import Conjunctions
from streamnb.toolbox.concepts.disagreements import Disagreements
from streamnb.toolbox.concepts.hypothesis_space import HypothesisSpace, check_labels, is_positive
from streamnb.toolbox.concepts.predicates import Predicate, Predicates
from streamnb.toolbox.concepts.version_space import VersionSpace
from streamnb.values.example_weights import UNIT, units
from streamnb.values.savable import Savable
from streamnb.values.state_validation import check_made, plain
from streamnb.values.type_aliases import Array, State


class ConceptLearner(Savable, base.Classifier):  # type: ignore[misc]  # River is untyped here
    """The posterior over every hypothesis of a finite space, and the prediction of their mixture.

        P(h | D) = P(D | h) P(h) / P(D)
        P(d | h) = 1 - noise if h agrees with the label, noise if it disagrees, 1/2 if it is undecided

    Without noise and under the uniform prior P(h | D) is 1/|VS| for each hypothesis that agrees with all
    labels (the version space VS), and zero for every other one; and P(D) = |VS| / |H|.

    The learner stores how often each hypothesis disagreed (see `disagreements`). Noise and prior are applied
    on read, so the noise may be changed at any time. The order of examples does not matter, and `unlearn_one`
    is exact. Up to rounding, `SequentialPosterior` reaches the same posterior by successive updates. Over
    conjunctions of k attributes an example costs 2^k steps to learn; a missing attribute of n values
    contributes a factor n + 1 instead of 2 (so an example without attributes costs |H|). The first read after
    it costs |H|.

    Degenerate cases:
        no noise        the limit noise -> 0. If no hypothesis agrees with all labels (the version space is
                        empty, P(D) = 0), the hypotheses of least disagreement have all the weight.
        missing         a conjunction that depends on missing attributes is undecided; a function returns
                        None for that.
        ties            go to the first hypothesis, and to the negative label.
        other labels    raise ValueError; River's `OneVsRestClassifier` makes a concept of each class.

    Args:
        hypotheses: a space of `Conjunctions`, or functions of x by name, which return True, False or None.
        prior: "uniform"; "specific", which doubles with each constraint of a conjunction; relative weight by
            hypothesis, 0 if absent; or an array of weights in the space's order.
        noise: probability that a label is flipped, 0 <= noise <= 1/2.
        positive: label of the members of the concept.
        negative: label of all other instances.

    Raises:
        ValueError: if the space is empty, the labels are equal, or `prior` or `noise` is out of range.
        TypeError: if the prior is "specific" and the hypotheses are functions.

    Examples:
        Which is the least number in the concept? Each example excludes some hypotheses:

        >>> from streamnb import ConceptLearner
        >>> learner = ConceptLearner({"from 1": lambda x: x["n"] >= 1, "from 2": lambda x: x["n"] >= 2,
        ...                           "from 3": lambda x: x["n"] >= 3, "none": lambda x: False})
        >>> learner.learn_one({"n": 3}, True)
        >>> learner.learn_one({"n": 1}, False)
        >>> learner.probabilities
        {'from 1': 0.0, 'from 2': 0.5, 'from 3': 0.5, 'none': 0.0}
        >>> learner.evidence, learner.predict_proba_one({"n": 2})
        (Fraction(1, 2), {False: 0.5, True: 0.5})

        If one label in ten is wrong, no hypothesis is excluded: .9 x .9, .9 x .1, .1 x .1 and so on:

        >>> learner.noise = 0.1
        >>> {name: round(p, 2) for name, p in learner.probabilities.items()}
        {'from 1': 0.05, 'from 2': 0.45, 'from 3': 0.45, 'none': 0.05}

    References:
        Mitchell, Machine Learning (1997), sections 2.2 to 2.6 and 6.3.
    """

    def __init__(
        self,
        hypotheses: Conjunctions | Mapping[Any, Predicate],
        prior: ConceptPrior = "uniform",
        noise: float = 0.0,
        positive: Any = True,  # noqa: FBT002  a label, not a switch
        negative: Any = False,  # noqa: FBT002  the same
    ) -> None:
        check_labels(positive, negative)
        check_noise(noise)
        self.hypotheses, self.prior, self.noise = hypotheses, prior, noise
        self.positive, self.negative = positive, negative
        self._space: HypothesisSpace = (
            hypotheses if isinstance(hypotheses, Conjunctions) else Predicates(hypotheses)
        )
        self._prior = prior_over(self._space, prior)
        self._counts = Disagreements(self._space.size)
        self._read: ConceptPosterior | None = None  # posterior at the noise below; its arrays are reused
        self._read_with = math.nan

    @property
    def n_hypotheses(self) -> int:
        """|H|, number of hypotheses."""
        return self._space.size

    @property
    def n_events(self) -> int:
        """Number of examples learned, less those unlearned."""
        return self._counts.events

    @property
    def class_weights(self) -> dict[Any, float]:
        """Learned weight by label, in examples."""
        positives, total = self._counts.positives, self._counts.total
        return {self.negative: (total - positives) / UNIT, self.positive: positives / UNIT}

    @property
    def version_space(self) -> VersionSpace:
        """Hypotheses that agree with all labels learned so far."""
        return VersionSpace(self._space, self._counts.consistent())

    @property
    def evidence(self) -> Fraction | float:
        """P(D): the fraction |VS| / |H| without noise and under the uniform prior, otherwise rounded.

        A member of VS that was undecided on n examples counts (1/2)^n. After many noisy examples P(D) may
        underflow to 0: see `log_evidence`.

        Raises:
            ValueError: if it would be a fraction, but n is not an integer; see `log_evidence`.
        """
        if self.noise > 0.0 or self._prior is not None:
            return math.exp(self.log_evidence)
        undecided, how_many = np.unique(self._counts.undecided[self._counts.consistent()], return_counts=True)
        if (undecided % UNIT).any():
            raise ValueError("P(D) is not a fraction: a hypothesis was undecided on a part of an example")
        parts = zip((undecided // UNIT).tolist(), how_many.tolist(), strict=True)
        return sum((Fraction(n, 2**half) for half, n in parts), Fraction(0)) / self.n_hypotheses

    @property
    def log_evidence(self) -> float:
        """Log P(D) in nats; -inf if noise is 0 and no hypothesis agrees with all labels."""
        return self._posterior().log_evidence

    @property
    def posterior(self) -> Floats:
        """P(h | D), float64[H], in the space's order; they sum to 1."""
        posterior = self._posterior()
        return posterior.weights / posterior.total

    @property
    def probabilities(self) -> dict[Any, float]:
        """P(h | D) by hypothesis, for every hypothesis."""
        return {self._space.hypothesis(i): p for i, p in enumerate(self.posterior.tolist())}

    def probability(self, hypothesis: Any) -> float:
        """Return P(h | D) of one hypothesis. Raises KeyError if it is not in the space."""
        posterior = self._posterior()
        return float(posterior.weights[self._space.number(hypothesis)]) / posterior.total

    def most_probable(self, n: int) -> list[tuple[Any, float]]:
        """Return the `n` >= 0 most probable hypotheses with P(h | D); ties go to the first."""
        if n < 0:
            raise ValueError(f"expected a number of hypotheses, got {n}")
        weights, total, _, _ = self._posterior()
        last = max(weights.size - n, 0)
        among = np.flatnonzero(weights >= np.partition(weights, last)[last]) if n > 0 else np.arange(0)
        chosen = among[np.argsort(-weights[among], kind="stable")][:n].tolist()
        return [(self._space.hypothesis(i), float(weights[i]) / total) for i in chosen]

    def map(self) -> Any:
        """Return the most probable hypothesis, argmax of P(h | D); ties go to the first."""
        return self._space.hypothesis(self._posterior().best)

    def ml(self) -> Any:
        """Return the hypothesis of greatest P(D | h) among those with a prior; ties go to the first."""
        even = None if self._prior is None else log_prior(self._prior.possible, self._space.size)
        return self._space.hypothesis(concept_posterior(self._counts, self.noise, even).best)

    def draw(self, counter: int, seed: int = 0) -> Any:
        """Draw a hypothesis from P(h | D): the Gibbs algorithm, which predicts with this hypothesis alone.

        The same `counter` and `seed` give the same draw from the same posterior (see `counter_rng`).
        """
        uniform = float(uniforms(seed, counter, 1)[0])
        with np.errstate(divide="ignore"):
            return self._space.hypothesis(int(choose(np.log(self.posterior), uniform)))

    def predict_proba_one(self, x: Any) -> dict[Any, float]:
        """Return P(label | x, D) of both labels, which sum to 1.

        P(positive | x, D) = (1 - noise) P(c(x) = 1 | D) + noise P(c(x) = 0 | D); an undecided hypothesis
        gives half its weight to each label. The product of the predictions over a stream is P(D).
        """
        posterior, (covering, undecided) = self._posterior(), self._space.judge(x)
        inside = float(posterior.weights[covering].sum())
        half = float(posterior.weights[undecided].sum()) / 2
        outside = posterior.total - inside - 2 * half
        if outside < posterior.total / 1024:  # the difference is mostly rounding: sum the weights instead
            others = posterior.weights.copy()
            others[covering] = others[undecided] = 0.0
            outside = float(others.sum())
        total = inside + outside + 2 * half
        yes = ((1.0 - self.noise) * inside + self.noise * outside + half) / total
        no = ((1.0 - self.noise) * outside + self.noise * inside + half) / total
        return {self.negative: min(no, 1.0), self.positive: min(yes, 1.0)}

    def sample(self, xs: Iterable[Any], hypothesis: Any, seed: int = 0, first: int = 0) -> list[Any]:
        """Draw the label of each instance of one hypothesis: flipped with probability `noise`.

        `hypothesis` is a hypothesis of the space, such as `map()` or a `draw`. An undecided one draws either
        label. Returns pairs (x, label). Raises KeyError if the hypothesis is not in the space.
        """
        number, drawn = self._space.number(hypothesis), []
        for i, x in enumerate(xs, first):
            covering, undecided = self._space.judge(x)
            yes = 1.0 - self.noise if number in covering else self.noise
            yes = 0.5 if number in undecided else yes
            drawn.append((x, self.positive if uniforms(seed, i, 1)[0] < yes else self.negative))
        return drawn

    @classmethod
    def _unit_test_params(cls) -> Iterator[dict[str, Any]]:
        yield {
            "hypotheses": Conjunctions(
                {name: [0.0, 0.5, 1.0] for name in ("https", "is_popular", "long_url")}
            )
        }

    def learn_one(self, x: Any, y: Any, w: float = 1.0) -> None:
        """Learn that `x` has the label `y`, `w` times (steps of 1/1024), or raise and learn nothing."""
        truth, weight = is_positive(y, self.positive, self.negative), units(w)
        if weight > 0:
            self._counts.update(self._space.judge(x), is_positive=truth, weight=weight)
            self._read_with = math.nan

    def unlearn_one(self, x: Any, y: Any, w: float = 1.0) -> None:
        """Undo ``learn_one(x, y, w)`` exactly, or raise UnlearnError and change nothing."""
        truth, weight = is_positive(y, self.positive, self.negative), units(w)
        if weight > 0:
            self._counts.unlearn(self._space.judge(x), is_positive=truth, weight=weight)
            self._read_with = math.nan

    def state(self) -> State:
        """Return all that was learned; equal states have equal bytes. Raises TypeError for other names."""
        counted, arrays = self._counts.state()
        return {**self._described(), **counted}, arrays

    def load_state(self, meta: Mapping[str, Any], arrays: Mapping[str, Array]) -> Self:
        """Replace all state; return self. Raises SnapshotError, and changes nothing, if it is invalid."""
        check_made(meta, **self._described())
        self._counts = Disagreements.from_state(self._space.size, meta, arrays)
        self._read_with = math.nan
        return self

    def _described(self) -> dict[str, Any]:
        labels = [plain(self.negative), plain(self.positive)]
        return {"type": type(self).__name__, "labels": labels, "hypotheses": self._space.described()}

    def _posterior(self) -> ConceptPosterior:
        if self._read is None or self._read_with != self.noise:
            check_noise(self.noise)
            scratch = None if self._read is None else self._read.weights
            self._read = concept_posterior(self._counts, self.noise, self._prior, scratch)
            self._read_with = self.noise
        return self._read

    def __getstate__(self) -> dict[str, Any]:
        """Return the state without the cache, so that predicting leaves no trace in a copy."""
        return {**self.__dict__, "_read": None, "_read_with": math.nan}
