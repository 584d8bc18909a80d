"""Parameters of the hypotheses of a mixture: naive Bayes tables over shared counts, and pairs of values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any, TypeGuard

import numpy as np

from streamnb.kernels.array_types import Ints
from streamnb.models.mixture.hypotheses import Hypothesis, SmoothingTables
from streamnb.models.naive_bayes.naive_bayes_tables import CountViews
from streamnb.models.naive_bayes.parameters import Parameters, parameters_of
from streamnb.models.naive_bayes.sufficient_statistics import SufficientStatistics
from streamnb.models.one_dependence.one_dependence_kernels import PairArrays, PairSmoothing
from streamnb.models.one_dependence.pair_model import PairModel
from streamnb.models.one_dependence.value_codes import REST, SHIFT
from streamnb.statistics.document_frequency import DocumentFrequencyArrays
from streamnb.values.attribute_kinds import BERNOULLI, NOMINAL


def has_tables(hypothesis: object) -> TypeGuard[Hypothesis]:
    """Return whether a hypothesis is naive Bayes whose predictions are products of tables and Gaussians.

    So are neither one that is raised to a power, nor the complement, nor bins, nor counts that decay.
    """
    if not isinstance(hypothesis, Hypothesis) or hypothesis.half_life is not None:
        return False
    return not (hypothesis.calibrated or hypothesis.is_binned or hypothesis.likelihood == "complement")


def naive_parameters(
    statistics: SufficientStatistics,
    tables: CountViews,
    presence: DocumentFrequencyArrays,
    readings: SmoothingTables,
    h: int,
    hypothesis: Hypothesis,
    values: Mapping[Any, Mapping[str, float | None]],
) -> Parameters:
    """Return the parameters of hypothesis number h; `values` as in `parameters_of`."""
    how = readings.alpha[h], readings.m[h], readings.p[h], tables.declared
    prior = readings.prior[h], int(readings.prior_mode[h])
    own = tables._replace(
        **dict(zip(("alpha", "m", "p", "declared", "prior", "prior_mode"), (*how, *prior), strict=True))
    )
    if hypothesis.counts_presence:
        is_text, size = tables.kinds != NOMINAL, statistics.vocabulary.size
        is_bernoulli = hypothesis.likelihood == "bernoulli"
        words = (statistics.vocabulary.groups[:size] >= 0) & is_text[statistics.vocabulary.groups[:size]]
        K, G = tables.classes.size, is_text.size
        counts, totals = tables.table[:size, :K].copy(), tables.totals[:G, :K].copy()
        counts[words] = presence.table[:size, :K][words]
        of_texts = presence.texts if is_bernoulli else presence.words
        totals[is_text] = of_texts[:G, :K][is_text]
        kinds = np.where(is_text & is_bernoulli, BERNOULLI, tables.kinds)
        own = own._replace(table=counts, totals=totals, kinds=kinds)
    return parameters_of(statistics, own, values)


class OneDependenceParameters:
    """Parameters of averaged one-dependence estimators; see `averaged_one_dependence` for the formulas.

    A number is shown by the lowest magnitude of its bin. Values without a code of their own share "(rest)".
    The counts belong to the model, so later learning changes the parameters.

    Args:
        classes: labels of the columns.
        model: codes and counts.
        smoothing: alpha and m, in units.
    """

    def __init__(self, classes: Sequence[Any], model: PairModel, smoothing: PairSmoothing) -> None:
        self._model, self._classes, self._smoothing = model, classes, smoothing

    @property
    def prior(self) -> dict[Any, float]:
        """P(v) by class."""
        total = float(self._tables.classes.sum()) or 1.0
        return {label: float(self._tables.classes[k]) / total for label, k in self._columns.items()}

    @property
    def discrete(self) -> dict[Any, dict[Any, dict[str, float]]]:
        """P(a | v) by attribute, class and value: the probability that an event has this value."""
        return {
            name: {
                label: {value: self._share(a, code, k) for value, code in self._values(a).items()}
                for label, k in self._columns.items()
            }
            for a, name in enumerate(self._names)
        }

    @property
    def paired(self) -> list[Any]:
        """Attributes that are counted in pairs."""
        return self._names[: self._tables.pair_first.shape[0]]

    def pair(self, name: Any, parent: Any) -> dict[Any, dict[str, dict[str, float]]]:
        """Return class -> value of the parent -> value -> P(value | value of the parent, class).

        Raises KeyError for an attribute that is not counted in pairs.
        """
        a, b = (self.paired.index(one) if one in self.paired else -1 for one in (name, parent))
        if min(a, b) < 0 or a == b:
            raise KeyError(parent if b < 0 or a == b else name)
        m = self._smoothing.m
        return {
            label: {
                above: {
                    value: (self._pairs(a, code, b, other, k) + m * self._share(a, code, k))
                    / (float(self._counts(b, other)[k]) + m)
                    for value, code in self._values(a).items()
                }
                for above, other in self._values(b).items()
            }
            for label, k in self._columns.items()
        }

    @property
    def n_free(self) -> dict[Any, int]:
        """Number of free parameters: of the prior under None, of each attribute, and of each pair of them."""
        K, sizes = len(self._columns), [len(self._values(a)) for a in range(len(self._names))]
        alone = {name: K * size for name, size in zip(self._names, sizes, strict=True)}
        pairs = combinations(range(len(self.paired)), 2)
        return {
            None: max(K - 1, 0),
            **alone,
            **{(self._names[a], self._names[b]): K * sizes[a] * sizes[b] for a, b in pairs},
        }

    @property
    def _tables(self) -> PairArrays:
        return self._model.counts.tables

    @property
    def _columns(self) -> dict[Any, int]:
        weights = self._tables.classes
        return {label: k for k, label in enumerate(self._classes) if k < weights.size and weights[k] > 0}

    @property
    def _names(self) -> list[Any]:
        return [name for _, name in self._model.coded.numbers][: self._model.counts.sizes.size]

    def _values(self, a: int) -> dict[str, int]:
        """Return the code of each value with a count."""
        size, codes = int(self._model.counts.sizes[a]), self._model.coded.codes[a]
        named = {"(rest)": REST, **{_text(key): code for key, code in codes.items() if key is not None}}
        return {text: code for text, code in named.items() if code < size and self._counts(a, code).any()}

    def _counts(self, a: int, code: int) -> Ints:
        return np.asarray(self._tables.values[self._tables.first[a] + code])

    def _share(self, a: int, code: int, k: int) -> float:
        alpha, tables = self._smoothing.alpha, self._tables
        whole = tables.classes[k] + alpha * tables.live[a]
        return float((self._counts(a, code)[k] + alpha) / whole)

    def _pairs(self, a: int, code: int, b: int, other: int, k: int) -> float:
        (a, code), (b, other) = sorted([(a, code), (b, other)])
        tables = self._tables
        return float(tables.pairs[tables.pair_first[a, b] + code * tables.rows[b] + other, k])


def _text(key: str | int) -> str:
    return key if isinstance(key, str) else f"{np.int64(key << SHIFT).view(np.float64):g}"
