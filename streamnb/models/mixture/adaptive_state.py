"""State of the adaptive members: gradient learners, calibrators and pools."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from streamnb.kernels.array_types import Floats, Ints
from streamnb.kernels.growable_arrays import Growable, PinnedArrays, roomier
from streamnb.kernels.structs import struct_type
from streamnb.models.calibration.histogram_binning import CONFIDENCES
from streamnb.models.calibration.temperature_scaling import FIRST_POWER, LEAST_POWER, MOST_POWER
from streamnb.models.mixture.hypotheses import Hypothesis
from streamnb.models.mixture.hypothesis_kinds import (
    BYTES,
    CALIBRATED,
    CALIBRATED_POOL,
    FOREST,
    NAIVE,
    ONE_DEPENDENCE,
    POOL,
    SOFTMAX,
    AnyHypothesis,
    ByteSoftmax,
    MondrianForest,
    OneDependence,
    Pool,
    RecentGaussian,
    Softmax,
    _densities,
    _reading,
    naive_part,
)
from streamnb.models.mixture.recent_gaussians import RECENT_MEMORY, RecentArrays, RecentGaussians
from streamnb.models.softmax.byte_ngram_table import ByteNgramArrays, ByteNgramTable
from streamnb.models.softmax.feature_extraction import ExtractedFeatures, ExtractionContext, expected_context
from streamnb.models.softmax.feature_table import FeatureTable, FeatureTableArrays
from streamnb.models.softmax.quantile_bins import QuantileBinArrays, QuantileBins, check_bins, expected_bins
from streamnb.models.softmax.softmax_regression import fill_logs
from streamnb.statistics.memory_budget import MOST_ASIDE, ByteNgramMemory, MemoryComponent
from streamnb.values.state_validation import LARGE, ExpectedArray, checked, counts, named, real, reject
from streamnb.values.type_aliases import Array, Aside, Flags, concatenated


@struct_type
class HypothesisPlan(NamedTuple):
    """Kind and index of each of H hypotheses over B readings of the counts.

    The first readings are distinct; the last are duplicates of them that read continuous values by bins.
    After them come R readings of recent events, which are calibrated too.

    Attributes:
        kind: int64[H], NAIVE, CALIBRATED, SOFTMAX, POOL, CALIBRATED_POOL, ONE_DEPENDENCE, BYTES
            or FOREST.
        reads: int64[H], index of its reading (NAIVE, CALIBRATED), learner, pool or estimator;
            forests come after the estimators.
        number: int64[H], index among its kind.
        rates: float64[M].
        pairs: bool[M].
        variances: float64[P].
        opinions: int64[I], the hypotheses that are pooled.
        binned: bool[B], True if continuous values are read by their bins, see `binned_density`.
        duplicate_of: int64[< B], the first reading that each of the last ones duplicates.
        half_lives: float64[R], learned events, see `recent_gaussians`.
        byte_rates: float64[G], of the byte n-gram learners; their biases follow the biases of the M learners.
        first_bytes: int64[1, or 0 without such learners], number of bytes of a text that they read.
        is_cautious: bool[1], True if softmax regressions doubt new classes, see `rare_class_shrinkage`.
        waiting: int64[1], number of opinions, the last ones, that are gated until an attribute is learned.
    """

    kind: Ints
    reads: Ints
    number: Ints
    rates: Floats
    pairs: Flags
    variances: Floats
    opinions: Ints
    binned: Flags
    duplicate_of: Ints
    half_lives: Floats
    byte_rates: Floats
    first_bytes: Ints
    is_cautious: Flags
    waiting: Ints

    @classmethod
    def from_hypotheses(
        cls, hypotheses: Sequence[AnyHypothesis], *, is_cautious: bool = False
    ) -> HypothesisPlan:
        """Return the plan. Raises ValueError for a pool without opinions."""
        readings, densities = naive_part(hypotheses), _densities(hypotheses)
        variances = list(dict.fromkeys(h.variance for h in hypotheses if isinstance(h, Pool)))
        n_estimators = sum(isinstance(h, OneDependence) for h in hypotheses)
        recent = [h.half_life_events for h in hypotheses if isinstance(h, RecentGaussian)]
        half_lives = list(dict.fromkeys(recent))  # equal half-lives share moments
        kinds: list[int] = []
        index: list[int] = []
        number: list[int] = []
        for h in hypotheses:
            kind = _kind(h)
            number.append(kinds.count(kind))
            kinds.append(kind)
            if isinstance(h, (Softmax, ByteSoftmax, OneDependence)):
                index.append(number[-1])
            elif isinstance(h, MondrianForest):
                index.append(n_estimators + number[-1])
            elif isinstance(h, RecentGaussian):
                index.append(len(densities) + half_lives.index(h.half_life_events))
            elif isinstance(h, Pool):  # pools of equal variance share their weights
                index.append(variances.index(h.variance))
            else:
                index.append(densities.index((readings.index(_reading(h)), h.is_binned)))
        learners = [h for h in hypotheses if isinstance(h, Softmax)]
        by_bytes = [h for h in hypotheses if isinstance(h, ByteSoftmax)]
        first_bytes = list(dict.fromkeys(h.first_bytes for h in by_bytes))
        if len(first_bytes) > 1:
            raise ValueError(
                "softmax regressions on bytes share what they read: of a text the first "
                f"{first_bytes[0]} bytes or the first {first_bytes[1]}, not both"
            )
        opinions = [i for i, kind in enumerate(kinds) if kind in _OPINIONS]
        gated = (RecentGaussian,) if any(map(_is_gated, hypotheses)) else ()
        waiting = [i for i in opinions if _is_gated(hypotheses[i]) or isinstance(hypotheses[i], gated)]
        opinions = [i for i in opinions if i not in waiting] + waiting
        if variances and not opinions:
            raise ValueError(
                "a pool needs hypotheses that are calibrated, one-dependence, forests, recent Gaussians, or "
                "softmax regressions"
            )
        return cls(
            np.array(kinds, dtype=np.int64),
            np.array(index, dtype=np.int64),
            np.array(number, dtype=np.int64),
            np.array([h.rate for h in learners], dtype=np.float64),
            np.array([h.pairs for h in learners], dtype=np.bool_),
            np.array(variances, dtype=np.float64),
            np.array(opinions, dtype=np.int64),
            np.array([is_binned for _, is_binned in densities], dtype=np.bool_),
            np.array([i for i, _ in densities[len(readings) :]], dtype=np.int64),
            np.array(half_lives, dtype=np.float64),
            np.array([h.rate for h in by_bytes], dtype=np.float64),
            np.array(first_bytes, dtype=np.int64),
            np.array([is_cautious]),
            np.array([len(waiting)], dtype=np.int64),
        )

    @property
    def n_others(self) -> int:
        """The number of readings beyond the distinct ones: duplicates and those of recent events."""
        return self.duplicate_of.size + self.half_lives.size

    @property
    def takes_features(self) -> bool:
        """True if any hypothesis needs features: a learner, or a reading by bins."""
        return bool(self.rates.size or self.binned.any())

    def described(self) -> list[list[Any]]:
        """Return the plan as JSON-able lists, equal if states fit each other (`is_cautious` may differ)."""
        return [array.tolist() for array in self[: -2 if self.byte_rates.size else -4]]


_OPINIONS = {CALIBRATED, SOFTMAX, ONE_DEPENDENCE, BYTES, FOREST}


def _is_gated(h: AnyHypothesis) -> bool:
    return isinstance(h, MondrianForest) or (isinstance(h, OneDependence) and h.is_gated)


_KINDS = {
    Softmax: SOFTMAX,
    ByteSoftmax: BYTES,
    OneDependence: ONE_DEPENDENCE,
    MondrianForest: FOREST,
    RecentGaussian: CALIBRATED,
}


def _kind(h: AnyHypothesis) -> int:
    if isinstance(h, Hypothesis):
        return CALIBRATED if h.calibrated else NAIVE
    if isinstance(h, Pool):
        return CALIBRATED_POOL if h.calibrated else POOL
    return _KINDS[type(h)]


@struct_type
class AdaptiveArrays(NamedTuple):
    """Learned state of M learners, G byte n-gram learners, T calibrators, P pools and Q calibrated pools.

    There are columns for C >= K classes, and I opinions are pooled.

    Attributes:
        features, bins, context, grams, recent: see their classes.
        bias: float64[M + G, 2, C], of each learner, and its sums of squared gradients.
        powers: float64[T, 2], of each calibrator, and its curvature.
        pool_weights: float64[P, I].
        covariance: float64[P, I, I].
        pool_bias: float64[P, 2, C].
        confidence: int64[Q, CONFIDENCES, 2], see `histogram_binning`.
    """

    features: FeatureTableArrays
    bins: QuantileBinArrays
    context: ExtractionContext
    bias: Floats
    powers: Floats
    pool_weights: Floats
    covariance: Floats
    pool_bias: Floats
    confidence: Ints
    grams: ByteNgramArrays
    recent: RecentArrays


@struct_type
class AdaptiveScratch(NamedTuple):
    """Scratch for H hypotheses, M learners and K classes; holds nothing between two events.

    Attributes:
        extracted: the features of an event.
        logs: float64[H, K], ln P_h(v | x).
        untempered: float64[T, K], the same of each calibrator before it is raised to its power.
        opinions: float64[I, K], the `logs` of the pooled hypotheses.
        pooled: float64[2, P, K], P_p(v | x) of each pool, and the logarithms.
        scores: float64[K].
        likelihoods: float64[2, K].
        dots: float64[M, 2, K].
        by_owner: float64[2, most].
        scales: float64[M], 1 / |v|.
        runs: float64[most], v of each byte n-gram.
        run_scale: float64[1], 1 / |v| of the byte n-grams.
        told: float64[G, K], scores of the byte n-grams by learner.
        work: float64[4, I].
        answers: float64[H, K], P_h(v | x).
        log_likelihoods: float64[H], of the label.
        misses: int64[K], zero.
    """

    extracted: ExtractedFeatures
    logs: Floats
    untempered: Floats
    opinions: Floats
    pooled: Floats
    scores: Floats
    likelihoods: Floats
    dots: Floats
    by_owner: Floats
    scales: Floats
    runs: Floats
    run_scale: Floats
    told: Floats
    work: Floats
    answers: Floats
    log_likelihoods: Floats
    misses: Ints

    @classmethod
    def with_capacity(cls, plan: HypothesisPlan, classes: int, most: int, most_runs: int) -> AdaptiveScratch:
        """Return scratch for events of at most `most` features (0 if not needed) and `most_runs` n-grams."""
        M = plan.rates.size
        return cls(
            ExtractedFeatures.with_capacity(most),
            np.empty((plan.kind.size, classes)),
            np.empty((int(np.count_nonzero(plan.kind == CALIBRATED)), classes)),
            np.empty((plan.opinions.size, classes)),
            np.empty((2, plan.variances.size, classes)),
            np.empty(classes),
            np.empty((2, classes)),
            np.empty((M, 2, classes)),
            np.empty((2, most)),
            np.empty(M),
            np.empty(most_runs),
            np.zeros(1),
            np.empty((plan.byte_rates.size, classes)),
            np.empty((4, plan.opinions.size)),
            np.zeros((plan.kind.size, classes)),
            np.zeros(plan.kind.size),
            np.zeros(classes, dtype=np.int64),
        )


class AdaptiveState(Growable):
    """Learned state of all adaptive members. States cannot be merged, and events cannot be unlearned.

    Args:
        plan: of the hypotheses.
        memory: of the features, bytes.
        runs_memory: of byte n-grams; None is an eighth of `memory`.
        recent_memory: of recent Gaussians, bytes.
    """

    def __init__(
        self,
        plan: HypothesisPlan,
        memory: int,
        runs_memory: ByteNgramMemory | None = None,
        recent_memory: int = RECENT_MEMORY,
    ) -> None:
        self.pin = PinnedArrays()
        self._plan = plan
        M, P, opinions = plan.rates.size, plan.variances.size, plan.opinions.size
        self.features, self.bins = FeatureTable(M, memory), QuantileBins()
        self._context = ExtractionContext.empty()
        self.grams = ByteNgramTable(plan.byte_rates.size, *(runs_memory or ByteNgramMemory(memory // 8)))
        self._bias = np.zeros((M + plan.byte_rates.size, 2, 0))
        calibrators = int(np.count_nonzero(plan.kind == CALIBRATED))
        self._powers = np.tile([FIRST_POWER, 1.0], (calibrators, 1))
        self._pool_weights = np.full((P, opinions), 1.0 / max(opinions - int(plan.waiting[0]), 1))
        self._covariance = plan.variances[:, np.newaxis, np.newaxis] * np.eye(opinions)
        self._pool_bias = np.zeros((P, 2, 0))
        calibrated = int(np.count_nonzero(plan.kind == CALIBRATED_POOL))
        self._confidence = np.zeros((calibrated, CONFIDENCES, 2), dtype=np.int64)
        self.recent = RecentGaussians(plan.half_lives, recent_memory)

    @property
    def is_needed(self) -> bool:
        """True if any hypothesis is adaptive or needs features."""
        return bool((self._plan.kind != NAIVE).any()) or self._plan.takes_features

    @property
    def n_bytes(self) -> int:
        """Memory, bytes."""
        features = self.features.n_bytes + self.bins.n_bytes if self._plan.takes_features else 0
        return features + self.grams.n_bytes + self.recent.n_bytes

    def memory(self, classes: int) -> dict[str, MemoryComponent]:
        """Return the memory use of features, byte n-grams and recent moments, for `classes` classes."""
        features = {"features": self.features.memory(classes)} if self._plan.takes_features else {}
        runs = {"byte_runs": MemoryComponent(self.grams.n_bytes, 0)} if self._plan.byte_rates.size else {}
        recent = {"recent": MemoryComponent(self.recent.n_bytes, 0)} if self._plan.half_lives.size else {}
        return features | runs | recent

    @property
    def byte_bias(self) -> Floats:
        """Biases of the byte n-gram learners, as in `AdaptiveArrays`."""
        return self._bias[self._plan.rates.size :]

    @property
    def tables(self) -> AdaptiveArrays:
        """The arrays that the kernels take."""
        return AdaptiveArrays(
            self.features.tables,
            self.bins.tables,
            self._context,
            self._bias,
            self._powers,
            self._pool_weights,
            self._covariance,
            self._pool_bias,
            self._confidence,
            self.grams.tables,
            self.recent.tables,
        )

    def reserve(
        self, classes: int, known: int, fields: int, features: int, places: int = 0, groups: int = 0
    ) -> None:
        """Grow the arrays to hold these numbers of classes, fields, new features, bins and groups."""
        if self._plan.takes_features:
            self.bins.reserve(fields, places)
            self.features.reserve(classes, known, features)
        self.grams.reserve(groups, classes)
        self.recent.reserve(fields, classes)
        if classes > self._bias.shape[2]:
            self._bias = roomier(self._bias, 0, 0, classes, times=1.125)
            self._pool_bias = roomier(self._pool_bias, 0, 0, classes, times=1.125)

    def weighed(self) -> tuple[Floats, Floats, Floats, Floats, Ints]:
        """Return a copy of the learned state of calibrators and pools."""
        pools = self._pool_weights.copy(), self._covariance.copy(), self._pool_bias.copy()
        return self._powers.copy(), *pools, self._confidence.copy()

    def weigh_as(self, weighed: tuple[Floats, Floats, Floats, Floats, Ints]) -> None:
        """Restore what `weighed` returned; biases of classes added since are 0."""
        self._powers, self._pool_weights, self._covariance, before, self._confidence = weighed
        self._pool_bias = np.pad(before, ((0, 0), (0, 0), (0, self._pool_bias.shape[2] - before.shape[2])))

    def copying(self, classes: int, aside: Aside) -> Callable[[], dict[str, Array]]:
        """Return a callable, for any thread, that builds the current state from copies."""
        if not self.is_needed:
            return dict
        self.reserve(classes, classes, 0, 0)
        small = {
            "bias": self._bias[:, :, :classes].copy(),
            "powers": self._powers.copy(),
            "pool_weights": self._pool_weights.copy(),
            "pool_covariance": self._covariance.copy(),
            "pool_bias": self._pool_bias[:, :, :classes].copy(),
            "pool_confidence": self._confidence.copy(),
            **self.recent.state(classes),
        }
        features: Callable[[], dict[str, Array]] = dict
        if self._plan.takes_features:
            small |= self.bins.state() | {
                f"context_{n}": a.copy() for n, a in self._context._asdict().items()
            }
            is_later = aside is not concatenated and int(self.features.tables.memory[0]) > MOST_ASIDE
            features = self.features.copying(classes, aside, is_later=is_later)
        grams = self.grams.copying(classes, aside) if self._plan.byte_rates.size else dict
        return lambda: small | features() | grams()

    def load(self, arrays: Mapping[str, Array], groups: int, classes: int) -> None:
        """Replace the state. Raises SnapshotError if it does not fit the hypotheses, groups and classes."""
        if not self.is_needed:
            return
        found = checked(arrays, self._expected(arrays, groups, classes), classes=classes)
        self._check(found)
        bins = named(found, "bins_")
        if self._plan.takes_features:
            check_bins(bins)
        self._bias, self._pool_bias = found["bias"].copy(), found["pool_bias"].copy()
        self._powers, self._pool_weights = found["powers"].copy(), found["pool_weights"].copy()
        self._covariance, self._confidence = found["pool_covariance"].copy(), found["pool_confidence"].copy()
        self.recent.load(found)
        if self._plan.takes_features:
            self.bins.load(bins)
            self._context = ExtractionContext(
                *(found[f"context_{name}"].copy() for name in ExtractionContext._fields)
            )
            self.features.load(found, classes)
            fill_logs(self.features.tables, classes)
        if self._plan.byte_rates.size:
            self.grams.load(found, classes)

    def _expected(self, arrays: Mapping[str, Array], groups: int, classes: int) -> dict[str, ExpectedArray]:
        P, pooled = self._pool_weights.shape
        any_and_square = np.array([[-LARGE], [0.0]])  # a bias, and a sum of squares
        lowest, highest = np.array([[LEAST_POWER, 0.0], [MOST_POWER, LARGE]])
        widest = 1.001 * pooled * self._plan.variances[:, np.newaxis, np.newaxis]  # see `learn_pool`
        expected = {
            "bias": real(len(self._bias), 2, "classes", low=any_and_square),
            "powers": real(*self._powers.shape, low=lowest, high=highest),
            "pool_weights": real(P, pooled),
            "pool_covariance": real(P, pooled, pooled, low=-widest, high=widest),
            "pool_bias": real(P, 2, "classes", low=any_and_square),
            "pool_confidence": counts(*self._confidence.shape),
            **self.recent.expected(),
        }
        if self._plan.takes_features:
            expected |= self.features.expected(arrays, classes)
            expected |= {f"bins_{name}": array for name, array in expected_bins().items()}
            expected |= {f"context_{name}": array for name, array in expected_context(classes).items()}
        if self._plan.byte_rates.size:
            expected |= self.grams.expected(arrays, groups, classes)
        return expected

    @staticmethod
    def _check(found: Mapping[str, Array]) -> None:
        covariance, counted = found["pool_covariance"], found["pool_confidence"]
        reject("pool_covariance", covariance != covariance.swapaxes(1, 2), "not symmetric")
        if covariance.size:
            lowest = np.linalg.eigvalsh(covariance).min(axis=1)
            traces = np.trace(covariance, axis1=1, axis2=2)
            reject("pool_covariance", lowest < -1e-3 * traces, "a variance below zero")
        reject("pool_confidence", counted[:, :, 1] > counted[:, :, 0], "more often right than asked")
