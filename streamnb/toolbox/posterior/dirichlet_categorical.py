"""The Dirichlet-categorical posterior: the chances of the faces of a die, from their counts."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping
from itertools import accumulate
from typing import Any, Self

import numpy as np

from streamnb.errors import SnapshotError, UnlearnError
from streamnb.statistics.credible_intervals import beta_intervals
from streamnb.statistics.rising_factorial import log_beta, log_rising_ratio
from streamnb.toolbox.posterior.conjugate import (
    Conjugate,
    checked_counts,
    examples,
    log_coefficient,
    positive,
    whole_counts,
)
from streamnb.values.number_ranges import is_missing
from streamnb.values.state_validation import checked_names, plain, state_errors
from streamnb.values.type_aliases import Array, State

Label = Hashable


class DirichletCategorical(Conjugate):
    """Posterior of the chances theta of labels, from the count of each label.

        P(theta | D) = Dirichlet(alpha_l + n_l, for every label l)
        P(next = l | D) = (alpha_l + n_l) / (A + n)

    with A the sum of all imaginary counts. Each chance has the marginal Beta(alpha_l + n_l, rest of A + n).

    **Undeclared labels.** With `other` = 0 they are impossible: their probability is 0, and observing one is
    an error. With `other` > 0 the prior is a Dirichlet process: the share `other` of A is spread over all
    undeclared labels so thinly that each single one has probability 0:

        P(next = l | D) = n_l / (A + n)      for a label that was seen
                          other / (A + n)    for all labels that were not seen, together

    `predictive` of an unseen label is the latter: the probability of something new. So the probabilities of
    all known labels and of something new sum to 1, in any order of the stream.

    Args:
        alpha: imaginary count by label, greater than 0; or just the labels, with 1 each (uniform).
        other: total imaginary count of all undeclared labels; 0 for none.

    Raises:
        ValueError: if a count is out of range, a label is missing (None, NaN) or occurs twice, or no label is
            possible.

    Examples:
        A die, with one imaginary throw of each face (Laplace's rule), after 3, 3 and 6:

        >>> from streamnb import DirichletCategorical
        >>> die = DirichletCategorical([1, 2, 3, 4, 5, 6])
        >>> for face in [3, 3, 6]:
        ...     die.update(face)
        >>> {face: round(p, 3) for face, p in die.mean.items()}
        {1: 0.111, 2: 0.111, 3: 0.333, 4: 0.111, 5: 0.111, 6: 0.222}
        >>> lower, upper = die.interval(0.95)[3]
        >>> round(lower, 3), round(upper, 3)
        (0.085, 0.651)

        Kinds of birds that were not declared:

        >>> birds = DirichletCategorical({}, other=1.0)
        >>> for bird in ["wren", "wren", "crane"]:
        ...     birds.update(bird)
        >>> birds.predictive("wren"), birds.predictive("crane"), birds.predictive("something new")
        (0.5, 0.25, 0.25)

    References:
        Gelman et al., Bayesian Data Analysis (2013), section 3.4; Blackwell and MacQueen (1973), "Ferguson
        distributions via Polya urn schemes", Annals of Statistics 1(2).
    """

    def __init__(self, alpha: Mapping[Any, float] | Iterable[Label], other: float = 0.0) -> None:
        labels = list(alpha)
        given = alpha if isinstance(alpha, Mapping) else dict.fromkeys(labels, 1.0)
        self._alpha = {label: positive(f"alpha of {label!r}", given[label]) for label in labels}
        if len(self._alpha) < len(labels):
            raise ValueError("a label occurs twice")
        for label in labels:
            self._check_label(label)
        self.other = positive("other", other) if other else 0.0
        """Imaginary count of all labels that are neither declared nor seen."""
        positive("the sum of all imaginary counts", sum(self._alpha.values()) + self.other)
        self.made_with = {"alpha": dict(self._alpha), "other": self.other}
        self._counts = dict.fromkeys(labels, 0)  # declared labels, then others in order of appearance

    @property
    def prior(self) -> tuple[dict[Any, float], float]:
        """Alpha by label, and `other`."""
        return dict(self._alpha), self.other

    @property
    def posterior(self) -> dict[Any, float]:
        """alpha_l + n_l by label: declared labels first, then others in order of appearance."""
        return {label: self._alpha.get(label, 0.0) + examples(n) for label, n in self._counts.items()}

    @property
    def counts(self) -> dict[Any, float]:
        """Observed weight by label, in the order of `posterior`."""
        return {label: examples(n) for label, n in self._counts.items()}

    @property
    def mean(self) -> dict[Any, float]:
        """E[theta_l | D] by label, which is also P(next = l | D)."""
        total = self._total()
        return {label: a / total for label, a in self.posterior.items()}

    @property
    def mode(self) -> dict[Any, float] | None:
        """MAP value of theta by label, (a_l - 1) / sum of (a - 1), with a the counts of the posterior.

        None if an a_l is below 1 (the density is infinite), if all are 1 (every theta is equally probable),
        or if `other` > 0 (a process has no density). A single label has probability 1.
        """
        if len(self._alpha) == 1 and not self.other:
            return dict.fromkeys(self._alpha, 1.0)
        above = {label: a - 1.0 for label, a in self.posterior.items()}
        total = math.fsum(above.values())
        if self.other or min(above.values()) < 0.0 or total == 0.0:
            return None
        return {label: a / total for label, a in above.items()}

    @property
    def variance(self) -> dict[Any, float]:
        """Var[theta_l | D] by label."""
        total = self._total()
        of_all = zip(self.mean.items(), self._rests(), strict=True)
        return {label: p * (rest / total) / (total + 1.0) for (label, p), rest in of_all}

    def interval(self, mass: float = 0.95) -> dict[Any, tuple[float, float]]:
        """Return by label the equal-tailed interval that contains theta_l with probability `mass`.

        If only one label is possible, its chance is 1. Raises ValueError unless 0 < mass < 1.
        """
        posterior = self.posterior
        lower, upper = beta_intervals(list(posterior.values()), self._rests(), mass)
        bounds = zip(lower.tolist(), upper.tolist(), strict=True)
        return dict(zip(posterior, bounds, strict=True))

    def log_predictive(self, x: Label) -> float:
        """Return log P(next = x | D) in nats; for an unseen, undeclared label log P(something new | D)."""
        self._check_label(x)
        count = self._alpha.get(x, 0.0) + examples(self._counts[x]) if x in self._counts else self.other
        return math.log(count) - math.log(self._total()) if count else -math.inf

    def log_predictive_counts(self, counts: Mapping[Any, float]) -> float:
        """Return log P(the next n labels have these counts, in any order | D), in nats.

            n! / prod n_l!   prod (a_l)_n_l / (A)_n        with a the posterior's counts, and A their sum

        This is the Dirichlet-multinomial distribution. As A grows, it becomes the multinomial one: known
        chances are a prior of many imaginary observations.

        Raises ValueError for counts that are negative or not whole, for an undeclared label, and if `other`
        is greater than 0, because the counts do not give the order of new labels.

        Examples:
            >>> from streamnb import DirichletCategorical
            >>> import math
            >>> die = DirichletCategorical({face: 1e9 for face in range(1, 7)})  # known to be fair
            >>> round(math.exp(die.log_predictive_counts({1: 1, 6: 1})), 6)  # 2 / 36
            0.055556
        """
        for label in counts:
            if label not in self._alpha or self.other:
                raise ValueError(f"{label!r}: counts need declared labels only, and `other` must be 0")
        of_each = dict(zip(counts, whole_counts(counts.values()), strict=True))
        terms, before = [log_coefficient(of_each.values())], 0.0
        rests, posterior = dict(zip(self._counts, self._rests(), strict=True)), self.posterior
        for label, n in of_each.items():
            terms.append(log_rising_ratio(posterior[label], rests[label] + before, n))
            before += n
        return math.fsum(terms)

    @property
    def log_evidence(self) -> float:
        """Log P(D), in nats: log of prod over l of (alpha_l)_n_l / (A)_n, with (a)_n the rising factorial.

        This is the probability of the sequence, without the number of sequences that have the same counts
        (see `log_predictive_counts`). The first observation of an undeclared label counts as something new,
        so `other` (n_l - 1)! replaces (alpha_l)_n_l.
        """
        rests = dict(zip(self._alpha, self._imaginary_rests(), strict=True))
        imaginary, before, terms = self._imaginary(), 0.0, []
        # As if the labels had arrived one after the other; sorted, so that the stream's order changes no bit.
        ordered = sorted(
            (n, self._alpha.get(label, 0.0), rests.get(label, 0.0)) for label, n in self._counts.items()
        )
        for units, alpha, rest in ordered:
            n = examples(units)
            if alpha:
                terms.append(log_rising_ratio(alpha, rest + before, n))
            else:
                terms.append(math.log(self.other) + log_beta(n, imaginary + before))
            before += n
        return math.fsum(terms)

    def state(self) -> State:
        """Return prior and counts. Raises TypeError for labels that JSON cannot hold."""
        meta = {
            "labels": [*map(plain, self._counts)],
            "alpha": list(self._alpha.values()),
            "other": self.other,
        }
        return meta, {"counts": np.array(list(self._counts.values()), dtype=np.int64)}

    @classmethod
    def from_state(cls, meta: Mapping[str, Any], arrays: Mapping[str, Array]) -> Self:
        """Restore the posterior of a `state`. Raises SnapshotError."""
        with state_errors("a Dirichlet posterior", ValueError):
            labels, alpha = checked_names(meta["labels"]), meta["alpha"]
            posterior = cls(dict(zip(labels, alpha, strict=False)), meta["other"])
            fits = len(labels) >= len(alpha)
        if not fits or (len(labels) > len(alpha) and not posterior.other):
            raise SnapshotError(f"{len(labels)} labels do not fit {len(alpha)} imaginary counts")
        counts = checked_counts(arrays, len(labels))
        if 0 in counts[len(alpha) :]:
            raise SnapshotError("a label that is neither declared nor seen")
        posterior._counts = dict(zip(labels, counts, strict=True))
        return posterior

    @staticmethod
    def _check_label(label: Label) -> None:
        if is_missing(label):
            raise ValueError(f"{label!r} is a missing label")

    def _check(self, x: Label) -> None:
        self._check_label(x)
        if x not in self._counts and not self.other:
            raise ValueError(f"{x!r} is not among the labels {list(self._counts)}, and `other` is 0")

    def _add(self, x: Label, weight: int) -> None:
        self._counts[x] = self._counts.get(x, 0) + weight

    def _take(self, x: Label, weight: int) -> None:
        if weight > self._counts.get(x, 0):
            raise UnlearnError(f"{x!r} was not observed with a weight of {examples(weight):g}")
        self._counts[x] -= weight
        if not self._counts[x] and x not in self._alpha:
            del self._counts[x]

    def _merge(self, other: Self) -> None:
        for label, n in list(other._counts.items()):
            self._add(label, n)

    def _imaginary(self) -> float:
        return math.fsum([*self._alpha.values(), self.other])

    def _total(self) -> float:
        return self._imaginary() + examples(sum(self._counts.values()))

    def _imaginary_rests(self) -> list[float]:
        """Return A without each declared label: by sums, because a difference would lose small counts."""
        alpha = list(self._alpha.values())
        before = list(accumulate(alpha[:-1], initial=0.0))
        after = list(accumulate(alpha[:0:-1], initial=self.other))[::-1]
        return [low + high for low, high in zip(before, after, strict=True)] if alpha else []

    def _rests(self) -> list[float]:
        seen = len(self._counts) - len(self._alpha)
        imaginary = [*self._imaginary_rests(), *[self._imaginary()] * seen]
        n = sum(self._counts.values())
        return [a + examples(n - own) for a, own in zip(imaginary, self._counts.values(), strict=True)]

    def __repr__(self) -> str:
        return f"DirichletCategorical(posterior={self.posterior}, other={self.other})"
