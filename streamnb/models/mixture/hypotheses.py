"""Naive Bayes hypotheses: parameters that determine how the shared counts are read."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np

from streamnb.features.attributes import check_smoothing
from streamnb.kernels.array_types import Floats, Ints
from streamnb.kernels.structs import struct_type
from streamnb.statistics.class_priors import Prior, check_prior, prior_mode, prior_weights
from streamnb.statistics.count_sources import Sources

Likelihood = Literal["multinomial", "presence", "bernoulli", "complement"]
Density = Literal["gaussian", "binned"]
MULTINOMIAL, PRESENCE, BERNOULLI, COMPLEMENT = 0, 1, 2, 3
_LIKELIHOODS = {
    "multinomial": MULTINOMIAL,
    "presence": PRESENCE,
    "bernoulli": BERNOULLI,
    "complement": COMPLEMENT,
}


@dataclass(frozen=True)
class Hypothesis:
    """A naive Bayes model that reads the shared counts of a mixture.

    Likelihood of a text, with n_k occurrences of word k among the n word positions of class v:

        multinomial   every word position      (n_k + alpha) / (n + alpha |V|)
        presence      every different word     the same, where n_k counts texts that hold the word and n is
                                               their sum over words: multinomial, each word at most once
        bernoulli     every known word         (n_k + alpha) / (N + 2 alpha) if present, else its complement;
                                               n_k counts texts that hold the word, N texts
        complement    every word position      one over the multinomial estimate of all *other* classes

    Nominal and continuous attributes differ only by smoothing, half-life and density.

    Attributes:
        likelihood: how texts are read.
        alpha: added to every count, above zero; 1 if neither it nor m is given.
        m: use the m-estimate (n_c + m p) / (n + m), above zero, in place of alpha.
        p: prior estimate of the m-estimate; None is uniform over the values declared or seen.
        prior: of the classes: "learned" (frequency), "uniform", or label -> relative weight.
        half_life: seconds of event time after which an event counts half; None never decays.
        density: of continuous values: "gaussian", or "binned", by the frequency of their bin in each class,
            see `binned_density`. Bins do not decay.
        calibrated: whether it is raised to a learned power, see `temperature_scaling`.
        weight: relative prior probability of the hypothesis itself; with 0 it does not contribute to
            predictions, but a pool may read it, and its losses are reported.
        name: in predictions, metrics and reports; by default its parameters.

    Raises:
        ValueError: for a value without meaning, such as a smoothing of 0: an event that the hypothesis
            excluded would set its probability to 0 for good.

    References:
        McCallum and Nigam (1998), multinomial and Bernoulli; Schneider (2004) and Metsis, Androutsopoulos and
        Paliouras (2006), presence-only multinomial; Rennie et al. (2003), complement.
    """

    likelihood: Likelihood = "multinomial"
    alpha: float | None = None
    m: float | None = None
    p: float | None = None
    prior: Prior = "learned"
    half_life: float | None = None
    density: Density = "gaussian"
    calibrated: bool = False
    weight: float = 1.0
    name: str = ""

    def __post_init__(self) -> None:
        check_smoothing(self.alpha, self.m, self.p)
        check_prior(self.prior)
        if self.likelihood not in _LIKELIHOODS:
            raise ValueError(f"likelihood must be one of {', '.join(_LIKELIHOODS)}, not {self.likelihood!r}")
        if self.density not in {"gaussian", "binned"}:
            raise ValueError(f"density must be gaussian or binned, not {self.density!r}")
        for name in ("alpha", "m"):
            if getattr(self, name) == 0.0:
                raise ValueError(f"{name} must be above zero in a hypothesis: 0 could exclude it for good")
        check_weight(self.weight)
        if self.half_life is not None and not 1e-3 <= self.half_life < np.inf:
            raise ValueError(f"half_life must be at least a millisecond, not {self.half_life!r}")
        if self.half_life is not None and self.likelihood == "bernoulli":
            raise ValueError(
                "half_life: not for the bernoulli likelihood, which would add up all absent words for every "
                "event; use likelihood 'presence'"
            )
        if self.half_life is not None and self.is_binned:
            raise ValueError("half_life: bins do not forget; use density 'gaussian'")

    @property
    def smoothing(self) -> tuple[float | None, float | None, float | None]:
        """alpha, m and p, with the default of alpha filled in."""
        return (1.0 if self.alpha is None and self.m is None else self.alpha), self.m, self.p

    @property
    def label(self) -> str:
        """Name, or by default the parameters: ``multinomial alpha=0.1 half_life=86400s``."""
        if self.name:
            return self.name
        shown = zip(("alpha", "m", "p"), self.smoothing, strict=True)
        calibrated = ["calibrated"] if self.calibrated else []
        parts = [
            *calibrated,
            self.likelihood,
            *(f"{name}={value:g}" for name, value in shown if value is not None),
        ]
        if self.prior != "learned":
            parts.append("prior=uniform" if self.prior == "uniform" else "prior=given")
        if self.half_life is not None:
            parts.append(f"half_life={self.half_life:g}s")
        if self.is_binned:
            parts.append("binned")
        return " ".join(parts)

    @property
    def is_binned(self) -> bool:
        """True if continuous values are read by their bins."""
        return self.density == "binned"

    @property
    def counts_presence(self) -> bool:
        """True if texts that hold a word are counted, not its occurrences."""
        return self.likelihood in {"presence", "bernoulli"}


def sources_of(hypotheses: Iterable[Hypothesis]) -> Sources:
    """Return the counts that these hypotheses need in addition to word counts."""
    hypotheses = list(hypotheses)
    lasting = {h.likelihood for h in hypotheses if h.half_life is None}
    decays = {(h.half_life, h.counts_presence): None for h in hypotheses if h.half_life is not None}
    return Sources(bool(lasting & {"presence", "bernoulli"}), "bernoulli" in lasting, tuple(decays))


@struct_type
class SmoothingTables(NamedTuple):
    """H hypotheses as the kernels take them.

    Attributes:
        likelihood: int64[H].
        texts: int64[H], source of the counts of words.
        plain: int64[H], source of all other counts.
        alpha, m, p: float64[H, G], as in `CountViews`.
        prior: float64[H, K], relative weights; used if the mode is neither LEARNED nor UNIFORM.
        prior_mode: int64[H].
    """

    likelihood: Ints
    texts: Ints
    plain: Ints
    alpha: Floats
    m: Floats
    p: Floats
    prior: Floats
    prior_mode: Ints

    @classmethod
    def from_hypotheses(
        cls, hypotheses: Iterable[Hypothesis], smoothing: Floats, classes: Iterable[Any]
    ) -> SmoothingTables:
        """Return the tables of `hypotheses`, with smoothing (3, H, G), for the classes met."""
        hypotheses, classes = list(hypotheses), list(classes)
        sources = sources_of(hypotheses)
        alpha, m, p = np.ascontiguousarray(smoothing)
        return cls(
            np.array([_LIKELIHOODS[h.likelihood] for h in hypotheses], dtype=np.int64),
            np.array(
                [sources.texts(h.half_life, counts_presence=h.counts_presence) for h in hypotheses],
                dtype=np.int64,
            ),
            np.array(
                [sources.plain(h.half_life, counts_presence=h.counts_presence) for h in hypotheses],
                dtype=np.int64,
            ),
            alpha,
            m,
            p,
            np.array([prior_weights(h.prior, classes) for h in hypotheses]).reshape(
                len(hypotheses), len(classes)
            ),
            np.array([prior_mode(h.prior) for h in hypotheses], dtype=np.int64),
        )


def check_weight(weight: float) -> None:
    """Raise ValueError if a relative prior probability is negative, infinite or NaN."""
    if not 0.0 <= weight < np.inf:
        raise ValueError(f"weight must be zero or more and finite, not {weight!r}")


def check_names(labels: Sequence[str]) -> None:
    """Raise ValueError if `labels` is empty, or two have the same name."""
    if not labels:
        raise ValueError("there must be at least one hypothesis")
    twice = [label for label in labels if labels.count(label) > 1]
    if twice:
        raise ValueError(f"two hypotheses are called {twice[0]!r}: give one of them another name")
