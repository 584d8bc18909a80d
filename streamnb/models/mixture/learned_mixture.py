"""What a mixture of hypotheses has learned: counts, members and posterior, saved and kept within memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self

import numpy as np

from streamnb.features.event_reader import EventReader
from streamnb.features.tokenizer import most_tokens
from streamnb.kernels.array_types import Floats
from streamnb.models.mixture.adaptive_state import AdaptiveState, HypothesisPlan
from streamnb.models.mixture.forest_hypotheses import ForestOpinions
from streamnb.models.mixture.hypotheses import SmoothingTables, sources_of
from streamnb.models.mixture.hypothesis_kinds import (
    AnyHypothesis,
    naive_part,
)
from streamnb.models.mixture.hypothesis_parameters import (
    OneDependenceParameters,
    has_tables,
    naive_parameters,
)
from streamnb.models.mixture.one_dependence_hypotheses import OneDependenceOpinions
from streamnb.models.mixture.recent_gaussians import RECENT_MEMORY
from streamnb.models.naive_bayes.counting_model import CountingModel
from streamnb.models.naive_bayes.group_smoothing import ValueShares, extended
from streamnb.models.naive_bayes.learned_counts import begin_copy
from streamnb.models.naive_bayes.naive_bayes_tables import SmoothingParams
from streamnb.models.naive_bayes.parameters import Parameters
from streamnb.models.naive_bayes.state_copy import StateCopy
from streamnb.models.naive_bayes.sufficient_statistics import SufficientStatistics
from streamnb.models.softmax.feature_extraction import most_features_for
from streamnb.statistics.class_priors import LEARNED
from streamnb.statistics.count_sources import Sources
from streamnb.statistics.document_frequency import NO_DOCUMENT_FREQUENCY, DocumentFrequencyArrays
from streamnb.statistics.memory_budget import (
    ByteNgramMemory,
    MemoryBudget,
    MemoryUse,
    of_features,
    of_rows,
    of_runs,
)
from streamnb.statistics.sequential_posterior import SequentialPosterior
from streamnb.values.state_validation import count, named
from streamnb.values.state_validation import state_errors as reading_state
from streamnb.values.type_aliases import Array, Aside, State, concatenated

_OF_FORESTS, _OF_RECENT = 32, 64
_OF_PAIRS = 40  # share of a budget: with counts of values 1/32, which growth and a copy can triple
_PREFIX = "posterior_"  # prefix of the posterior's arrays in a state
_LEARNED = "learned_"  # prefix of the learners' arrays
_PAIRS = "trees_"
_FORESTS = "forest_"


class MixtureStateCopy:
    """A `StateCopying`. Only the caller holds the arrays that were copied at once: they may be in files.

    Args:
        counts: the copy in slices, which the learner must preserve before it writes.
        build_arrays: returns the other arrays.
    """

    def __init__(self, counts: StateCopy, build_arrays: Callable[[], Mapping[str, Array]]) -> None:
        self._counts, self._build_arrays = counts, build_arrays

    def advance(self, n_bytes: int) -> bool:
        """Copy about `n_bytes` more; return True if the copy is complete."""
        return self._counts.advance(n_bytes)

    def state(self) -> State:
        """Return JSON-able values, and arrays without spare capacity."""
        meta, arrays = self._counts.state()
        return meta, {**arrays, **self._build_arrays()}


class LearnedMixture(CountingModel):
    """The learned state of a mixture of hypotheses over shared counts: all but predicting and learning.

    Args:
        reader: reads events.
        hypotheses: as in `BayesOptimalNB`.
        switching_rate: as in `BayesOptimalNB`.
        memory: of the features of softmax regressions, bytes.
        caution: as in `BayesOptimalNB`.
    """

    def __init__(
        self,
        reader: EventReader,
        hypotheses: Sequence[AnyHypothesis],
        switching_rate: float,
        memory: int,
        *,
        caution: bool,
    ) -> None:
        super().__init__(reader)
        self.hypotheses, self.switching_rate, self.memory = hypotheses, switching_rate, memory
        self._readings = naive_part(hypotheses)
        for reading in self._readings:
            self._specs.check_p(reading.p)
        self._plan = HypothesisPlan.from_hypotheses(hypotheses, is_cautious=caution)
        self._sources = sources_of(self._readings)
        self._statistics = SufficientStatistics(self._sources)
        self._runs_memory: ByteNgramMemory | None = None
        self._recent_memory = RECENT_MEMORY
        self._pairs_memory: int | None = None
        self._forests_memory: int | None = None
        self._learners = self._new_learners()
        self._dependence = OneDependenceOpinions(hypotheses)
        self._forests = ForestOpinions(hypotheses)
        self._posterior = self._new_posterior()
        self._met = 0
        self._smoothings = np.zeros((3, len(self._readings), 0))
        self._sizes = np.zeros((4, 0))  # last row: number of declared values by group
        self._last_readings: tuple[Floats, SmoothingTables | None] = self._smoothings, None

    @property
    def posterior(self) -> SequentialPosterior:
        """P(h | D), the losses of the hypotheses and of the mixture, and their bound; read-only."""
        return self._posterior

    @property
    def n_met(self) -> int:
        """Number of events learned, or predicted while learning: the index of the next draw."""
        return self._met

    @property
    def n_bytes(self) -> int:
        """Memory of all learned state, bytes, spare capacity included."""
        return super().n_bytes + self._learners.n_bytes + self._dependence.n_bytes + self._forests.n_bytes

    def parameters(self) -> dict[str, Parameters | OneDependenceParameters]:
        """Return the parameters of each hypothesis that has class-conditional tables, by its label.

        These are naive Bayes hypotheses, as `NaiveBayes.parameters`, and pairs of values. Left out are those
        that are calibrated, complements, read bins or decayed counts, regressions, forests and pools.

        Examples:
            >>> from streamnb import BayesOptimalNB, Hypothesis
            >>> model = BayesOptimalNB({"text": "text"}, [Hypothesis("bernoulli"), Hypothesis(alpha=0.5)])
            >>> model.learn_one({"text": "win cash"}, "spam")
            >>> model.learn_one({"text": "lunch"}, "ham")
            >>> model.parameters()["bernoulli alpha=1"].discrete["text"].table["ham"]  # (n_k + 1) / (N + 2)
            {'win': 0.3333333333333333, 'cash': 0.3333333333333333, 'lunch': 0.6666666666666666}
        """
        readings, declared = self._readings_now(), ValueShares(self._reader).declared
        of_counts = self._statistics, self._tables(), self._presence(), readings
        naive = {
            h.label: naive_parameters(*of_counts, self._readings.index(naive_part([h])[0]), h, declared)
            for h in self.hypotheses
            if has_tables(h)
        }
        pairs = self._dependence.smoothed.items()
        return {**naive, **{name: OneDependenceParameters(self.classes, *own) for name, own in pairs}}

    @property
    def n_parameters(self) -> int:
        """Number of free parameters of all hypotheses of `parameters`, which share their counts."""
        return sum(sum(found.n_free.values()) for found in self.parameters().values())

    def reset_adaptive(self) -> None:
        """Reset the adaptive state: gradients, calibration, pools, bins, forests, and decayed counts.

        Counts without a half-life, including pairs, and the posterior stay, so the same events can be
        unlearned as before. After a change of the stream a new softmax regression corrects naive Bayes within
        some hundreds of events; an old one, with its smaller steps, needs thousands. See docs/monitors.md for
        measurements.
        """
        self._statistics.finish_copy()
        self._statistics.decayed.reset_adaptive()
        self._learners = self._new_learners()
        self._forests = ForestOpinions(self.hypotheses, self._forests_memory)

    def copying(self, aside: Aside = concatenated, /) -> MixtureStateCopy:
        """Return the current `state` as a copy in slices; features are copied at once, by `aside`."""
        meta, arrays = self._posterior.state()
        extra: dict[str, Any] = {"posterior": {**meta, "met": self._met}}
        if self._learners.is_needed:
            extra["learners"] = self._plan.described()
        learned = self._learners.copying(len(self.classes), aside)
        described, of_pairs = self._dependence.state()
        if described:
            extra["trees"] = described
        forests, of_forests = self._forests.copying(aside)
        if forests:
            extra["forests"] = forests
        counts = begin_copy(
            self._statistics,
            type(self).__name__,
            extra,
            {f"{_PREFIX}{name}": array for name, array in arrays.items()}
            | {f"{_PAIRS}{name}": array for name, array in of_pairs.items()},
        )
        return MixtureStateCopy(
            counts,
            lambda: (
                {f"{_LEARNED}{name}": array for name, array in learned().items()}
                | {f"{_FORESTS}{name}": array for name, array in of_forests().items()}
            ),
        )

    def load_state(self, meta: Mapping[str, Any], arrays: Mapping[str, Array]) -> Self:
        """Replace all state; return self. Raises ValueError for other hypotheses, and SnapshotError."""
        learners = self._new_learners()
        dependence = OneDependenceOpinions(self.hypotheses, self._pairs_memory)
        forests = ForestOpinions(self.hypotheses, self._forests_memory)
        posterior, met = self._new_posterior(), 0
        if meta.get("type") == type(self).__name__:
            with reading_state(f"a {type(self).__name__}"):
                posterior, met = posterior_in(meta, arrays), count(meta["posterior"], "met")
                if _weighed_by(posterior) != _weighed_by(self._posterior):
                    raise ValueError(f"a state of other hypotheses, priors or switching rate: {posterior}")
                if Sources.from_description(meta.get("sources", {})) != self._sources:
                    raise ValueError("a state of other counts than the hypotheses need")
                if self._learners.is_needed and meta.get("learners") != self._plan.described():
                    raise ValueError("a state of other learners than the hypotheses")
                dependence.load(meta.get("trees", []), named(arrays, _PAIRS), arrays["class_weights"])
                forests.load(meta.get("forests", []), named(arrays, _FORESTS), len(meta["classes"]))
                learners.load(named(arrays, _LEARNED), len(meta["groups"]), len(meta["classes"]))
        super().load_state(meta, arrays)
        self._posterior, self._met, self._learners, self._dependence = posterior, met, learners, dependence
        self._forests = forests
        self._smoothings, self._sizes = self._smoothings[:, :, :0], self._sizes[:, :0]
        return self

    def has_capacity(self, classes: int, n_bytes: int, words: int) -> bool:
        """Return False also if the features are nearly full."""
        is_bounded = self._statistics.room is not None and self._plan.takes_features
        has_room = super().has_capacity(classes, n_bytes, words)
        # A batch must not skip the check that evicts features from a full table. Bound: one word every two
        # bytes, with two features (itself, a pair); twelve values of five bytes, with 16 features each.
        features, grams = self._learners.features, self._learners.grams
        return has_room and not (
            is_bounded and (features.is_short(classes, 8 * words) or grams.is_to_fold(classes))
        )

    def evict(self, classes: int) -> None:
        """Evict words and values, and features, under the budget."""
        super().evict(classes)
        if self._statistics.room is not None and self._plan.takes_features:
            self._learners.features.evict(classes)

    @property
    def memory_use(self) -> MemoryUse:
        """Memory use, including features, byte n-grams, pairs of values, and forests."""
        use = super().memory_use
        if not use.parts:
            return use
        learners = self._learners.memory(len(self.classes))
        return use._replace(
            parts={**use.parts, **learners, **self._dependence.memory(), **self._forests.memory()}
        )

    def keep_within(self, n_bytes: int) -> None:
        """Bound the memory, with byte n-grams (a table keeps its size), pairs, forests and recent moments."""
        super().keep_within(n_bytes)
        self._pairs_memory = n_bytes // _OF_PAIRS
        self._dependence.keep_within(self._pairs_memory)
        self._recent_memory = self._learners.recent.memory = n_bytes // _OF_RECENT
        self._forests_memory = n_bytes // _OF_FORESTS
        self._forests.keep_within(self._forests_memory)
        if self._shares_with_runs and self.memory >= of_features(n_bytes):
            self._runs_memory = of_runs(n_bytes)
            self._learners.grams.keep_within(*self._runs_memory)

    def _budget(self, n_bytes: int) -> MemoryBudget:
        tables = 1 + self._sources.presence + 2 * len(self._sources.decays)
        if self._shares_with_runs:
            return MemoryBudget(of_rows(n_bytes), n_bytes, tables)
        return MemoryBudget(n_bytes // (6 if self._plan.takes_features else 3), n_bytes, tables)

    @property
    def _shares_with_runs(self) -> bool:
        return bool(self._plan.takes_features and self._plan.byte_rates.size)

    def _new_learners(self) -> AdaptiveState:
        return AdaptiveState(self._plan, self.memory, self._runs_memory, self._recent_memory)

    def _new_posterior(self) -> SequentialPosterior:
        return SequentialPosterior({h.label: h.weight for h in self.hypotheses}, self.switching_rate)

    def _reserve(self, features: int, places: int = 0) -> None:
        """Grow the learners to the classes and fields met, plus `features` new features and `places` bins."""
        K = len(self._statistics.classes)
        known = int(np.count_nonzero(self._statistics.class_weights[:K]))
        layout = self._statistics.layout
        self._learners.reserve(K, known, len(layout.fields), features, places, len(layout.groups))

    def _add_codes(self, of_pairs: Sequence[Sequence[int]], of_forest: Sequence[Sequence[int]]) -> bool:
        """Give codes to values that a single event has first; return False if it needs a batch."""
        statistics, dependence = self._statistics, self._dependence
        are_added = not of_pairs or dependence.add_codes(statistics, of_pairs)
        return are_added and self._forests.add_codes(statistics.vocabulary, of_forest)

    def _reserve_event(self, n_bytes: int, items: int, values: int) -> None:
        """Grow every table but the bins by what one event of known classes and attributes may add."""
        statistics, rows = self._statistics, most_tokens(n_bytes, items)[1]
        statistics.vocabulary.reserve(rows, n_bytes)
        statistics.reserve(rows)
        statistics.reserve_texts(rows)
        self._reserve(2 * most_features_for(rows, items, values))
        self._forests.reserve_event()

    def _presence(self) -> DocumentFrequencyArrays:
        presence = self._statistics.presence
        return presence.tables(len(self._readings)) if presence else NO_DOCUMENT_FREQUENCY

    def _readings_now(self) -> SmoothingTables:
        smoothed, classes = self._smoothed(), self._statistics.classes
        before, readings = self._last_readings
        if readings is None or before is not smoothed or readings.prior.shape[1] != len(classes):
            readings = SmoothingTables.from_hypotheses(self._readings, smoothed, classes)
            self._last_readings = smoothed, readings
        return readings

    def _smoothed(self) -> Floats:
        """Return alpha, m and p of every hypothesis and group. Shape (3, H, G)."""
        self._smoothings = extended(
            self._smoothings,
            self._statistics,
            lambda name: [self._specs.of_attribute(name, *h.smoothing) for h in self._readings],
        )
        return self._smoothings

    def _reading(self) -> SmoothingParams:
        """Return the number of declared values; smoothing and priors belong to the hypotheses."""
        statistics, n_declared = self._statistics, self._specs.n_declared
        self._sizes = extended(
            self._sizes, statistics, lambda name: (0.0, 0.0, 0.0, n_declared(name, statistics))
        )
        return SmoothingParams(self._sizes, np.zeros(0), LEARNED)


def posterior_in(meta: Mapping[str, Any], arrays: Mapping[str, Array]) -> SequentialPosterior:
    """Return the posterior in the `state` of such a model. Raises KeyError and SnapshotError."""
    return SequentialPosterior.from_state(meta["posterior"], named(arrays, _PREFIX))


def _weighed_by(posterior: SequentialPosterior) -> tuple[object, ...]:
    """Return the fields that must be equal for one posterior to continue another."""
    return posterior.hypotheses, posterior.switching_rate, posterior.weights.log_prior.tolist()
