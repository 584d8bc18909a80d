r"""Check a posterior over hypotheses against its own losses, and the losses against their bound.

With losses L(h) = -ln P(D | h), and L = -ln P(D) of the mixture:

    no switching      ln P(h | D) = ln P0(h) - L(h) + L                 Bayes' theorem, for the whole stream
    switching rate r  L <= L(h) + ln 1/P0(h) + T ln 1/(1 - r)           the bound, for every h

One update adds three numbers to ln P(h | D), each at most S = L(h) + ln 1/P0(h) + L plus the term of the
switching rate, and rounds each time: T updates are within 8 T u S of the exact ones, u = 2^-53. The
hypotheses' predictions for each event are not recomputed here: a replay does that.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from streamnb.errors import SnapshotError
from streamnb.formats.snapshot_container import SnapshotPart
from streamnb.models.mixture.bayes_optimal_nb import BayesOptimalNB
from streamnb.models.mixture.learned_mixture import posterior_in
from streamnb.models.naive_bayes.counting_model import CountingModel
from streamnb.statistics.sequential_posterior import SequentialPosterior

_ROUNDING = 2.0**-53


class PosteriorFault(NamedTuple):
    """A number of the posterior that is outside its bounds; without `hypothesis`, of the mixture."""

    what: str
    hypothesis: str
    found: float
    expected: float


class PosteriorAudit(NamedTuple):
    """A posterior, and how many events it has met."""

    posterior: SequentialPosterior
    met: int

    @classmethod
    def of_model(cls, model: CountingModel) -> PosteriorAudit | None:
        """Return the audit of a model; None if it does not weigh hypotheses."""
        return cls(model.posterior, model.n_met) if isinstance(model, BayesOptimalNB) else None

    @classmethod
    def read(cls, part: SnapshotPart) -> PosteriorAudit | None:
        """Return the audit of a state; raise SnapshotError if the part has no posterior."""
        described: Mapping[str, Any] | None = part.meta.get("posterior")
        if described is None:
            return None
        met = described.get("met")
        if not isinstance(met, int):
            raise SnapshotError(f"a posterior that has met {met!r} events")
        return cls(posterior_in(part.meta, part.arrays), met)

    def faults(self) -> Iterator[PosteriorFault]:
        """Return each disagreement."""
        posterior = self.posterior
        T, r, mixture = posterior.observations, posterior.switching_rate, -posterior.log_evidence  # noqa: N806
        log_priors = posterior.weights.log_prior.tolist()
        switching = T * -math.log1p(-r)
        for (name, loss), log_prior in zip(posterior.losses.items(), log_priors, strict=True):
            if math.isinf(loss) or math.isinf(log_prior):
                continue  # excluded
            most = abs(loss) - log_prior + abs(mixture) + switching
            rounding = 8.0 * (T + 1) * _ROUNDING * (most + (0.0 if r == 0.0 else -math.log(r)))
            found = posterior.log_probabilities[name]
            expected = log_prior - loss + mixture
            if r == 0.0 and not abs(found - expected) <= rounding:
                yield PosteriorFault("log posterior against its loss", str(name), found, expected)
            if not mixture <= loss - log_prior + switching + rounding:
                yield PosteriorFault(
                    "loss of the mixture against its bound", str(name), mixture, loss - log_prior + switching
                )
