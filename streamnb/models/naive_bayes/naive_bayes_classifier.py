"""Naive Bayes over any mixture of text, nominal and continuous attributes, one event at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import compress
from typing import Any, ClassVar, Self

import numpy as np

from streamnb.features.attributes import Attribute, EventModel, Nominal, check_smoothing
from streamnb.features.bags import bags_of
from streamnb.features.column_quality import warn_of_sentences
from streamnb.features.data_frames import rows_of
from streamnb.features.encoded_batch import Encoded
from streamnb.features.event_reader import EventReader
from streamnb.features.event_writer import EventWriter
from streamnb.features.targets import Targets
from streamnb.kernels.array_types import Floats
from streamnb.models.interface.attribution import Item
from streamnb.models.interface.attribution_parts import AttributionParts
from streamnb.models.interface.parameter_count import ParameterCount
from streamnb.models.interface.part_names import PartNames
from streamnb.models.interface.predictions import Posteriors
from streamnb.models.interface.stream_model import Events, Labels
from streamnb.models.naive_bayes.counting_model import CountingModel
from streamnb.models.naive_bayes.generation import Drawn, draw_events
from streamnb.models.naive_bayes.group_smoothing import ValueShares, extended
from streamnb.models.naive_bayes.joint_log_likelihood import score_of
from streamnb.models.naive_bayes.linear_view import LinearView, linear_view
from streamnb.models.naive_bayes.naive_bayes_tables import CountViews, Covariance, SmoothingParams
from streamnb.models.naive_bayes.parameters import Parameters, parameters_of
from streamnb.models.naive_bayes.partials import Partial, Tested, joined, merge_statistics, seen_by
from streamnb.models.naive_bayes.prediction_kernels import run
from streamnb.models.naive_bayes.single_event import EncodedEvent, SingleEvents
from streamnb.statistics.class_priors import ClassPrior, check_prior, prior_mode, prior_weights
from streamnb.values.attribute_kinds import NOMINAL
from streamnb.values.example_weights import UNIT, units
from streamnb.values.number_ranges import is_missing
from streamnb.values.type_aliases import Times, Weights

_NONE, _NO_EVIDENCE = np.empty((0, 0)), np.empty(0)


class SmoothedModel(CountingModel):
    """A counting model with one smoothing and one prior; its parameters are those of `NaiveBayes`."""

    _reads_by: ClassVar[type[EventReader]] = EventReader

    def __init__(
        self,
        attributes: Mapping[Any, Attribute | str] | None = None,
        alpha: float = 1.0,
        m: float | None = None,
        p: float | None = None,
        prior: ClassPrior = "learned",
        event_model: EventModel = "multinomial",
        covariance: Covariance = "own",
    ) -> None:
        super().__init__(self._reads_by(attributes, event_model))
        check_smoothing(alpha, None, None)
        check_smoothing(None, m, p)
        check_prior(prior, smoothed=True)
        check_covariance(covariance)
        self._specs.check_p(p, of_each=True)
        self.attributes, self.alpha, self.m, self.p = attributes, alpha, m, p
        self.prior, self.event_model, self.covariance = prior, event_model, covariance
        self._read_with: tuple[Any, ...] = ()
        self._smoothing = np.zeros((4, 0))  # alpha, m, p and declared values of each group
        self._given = np.zeros(0)  # relative weight of each class if priors are given
        self._last_reading = SmoothingParams(self._smoothing, self._given, 0)
        self._read_by: tuple[
            Any, ...
        ] = ()  # prior, covariance and classes of the last one, if it may be kept
        self._single_events = SingleEvents()
        self._value_shares = ValueShares(self._reader)

    def smoothing_of(self, name: Any) -> tuple[float, float, float, float]:
        """Return alpha, m (-1: use alpha), p (nan: uniform) and number of declared values of an attribute."""
        spec = self._reader.declared.get(name)
        declared = float(spec.declared) if isinstance(spec, Nominal) else 0.0
        return *self._specs.of_attribute(name, self.alpha, self.m, self.p), declared

    def _has_unlisted(self, name: Any) -> bool:
        is_known = (NOMINAL, name) in self._statistics.layout.groups
        return is_known and self._specs.n_declared(name, self._statistics) > len(self._reader.closed[name])

    def _learned(self, x: Any, y: Any, w: float) -> bool:
        weight = UNIT if type(w) is float and w == 1.0 else units(w)
        reading, event = self._reading(), self._encoded_event(x)
        return self._single_events.learned(self._statistics, reading, event, y, weight)

    def _encoded_event(self, x: Any) -> EncodedEvent | None:
        """Return the event as arrays; None if it needs a batch, which raises the errors."""
        if self._reader.closed and not self._reader.takes(x):
            return None
        return self._single_events.of_shape(self._statistics, x, self._reader.kind)

    def _taken_apart(self, x: Any, encoded: Encoded, first: Any, second: Any) -> tuple[float, list[Item]]:
        classes = self._statistics.classes
        parts = AttributionParts.with_capacity(encoded.batch, 0, (classes[first], classes[second]))
        self._run(encoded, self._tables, parts=parts, predict=True)
        (items,) = PartNames(encoded, self._statistics.layout).items([x], parts.of_event())
        return float(parts.priors[0]), items

    def _joints(self, xs: Sequence[Any]) -> Floats:
        """Return log P(class, event) of each event, shape (n, K)."""
        joints = np.empty((len(xs), len(self._statistics.classes)))
        self._run(self._encode(xs), self._tables, joints, predict=True)
        return self._value_shares.corrected(joints, xs, self._statistics)

    def _posteriors(self, encoded: Encoded, *, learn: bool = False) -> Posteriors:
        return self._explained(encoded, None, learn=learn)

    def _explained(self, encoded: Encoded, parts: AttributionParts | None, *, learn: bool) -> Posteriors:
        """Do `_posteriors`, and fill the parts of each prediction, if given."""
        evidence = np.empty(encoded.known.size) if self.tells_evidence else None
        probabilities = self._run(
            encoded, self._tables, evidence=evidence, parts=parts, predict=True, learn=learn
        )
        return Posteriors(self.classes, probabilities, encoded.known, evidence=evidence)

    def _learn(self, encoded: Encoded) -> None:
        self._run(encoded, self._tables, learn=True)

    def _run(
        self,
        encoded: Encoded,
        tables: Callable[[], CountViews],
        joints: Floats = _NONE,
        evidence: Floats | None = None,
        parts: AttributionParts | None = None,
        *,
        predict: bool = False,
        learn: bool = False,
    ) -> Floats:
        """Predict and learn events in order; return the probabilities if `predict`.

        `tables` is called again after tables have grown. `joints` receives log P(v, x) if it has rows,
        `evidence` the values of `evidence_per_token`, and `parts` the attribution of each prediction.
        """
        batch, most = encoded.batch, encoded.most
        n = batch.label.size if predict else 0
        probabilities = np.empty((n, len(self._statistics.classes)))
        outputs = probabilities, joints, _NO_EVIDENCE if evidence is None else evidence
        score = score_of(probabilities.shape[1])
        explained = None if parts is None else (bags_of(batch), parts)

        def step(done: int) -> int:
            return int(run(done, most, tables(), batch, learn, outputs, score, explained))

        self._in_order(encoded, most, step, learn=learn)
        return probabilities

    def _reading(self) -> SmoothingParams:
        read_with, last = (self._statistics, self.alpha, self.m, self.p), self._last_reading
        if (
            read_with == self._read_with
            and last.prior is self._given
            and self._read_by == (self.prior, self.covariance, len(self._statistics.classes))
            and last.smoothing.shape[1] == len(self._statistics.layout.groups)
        ):
            return last  # the fast path of single events
        if read_with != self._read_with:
            self._read_with, self._smoothing = read_with, np.zeros((4, 0))
            self._statistics.counts.histograms.stale[:] = True
        statistics, specs = self._statistics, self._specs
        self._smoothing = extended(
            self._smoothing,
            statistics,
            lambda name: (*specs.of_attribute(name, *read_with[1:]), specs.n_declared(name, statistics)),
        )
        if self._given.size != len(self._statistics.classes) or type(self.prior) is not str:
            given = prior_weights(self.prior, self._statistics.classes)
            if given.tobytes() != self._given.tobytes():  # single events compare it by identity
                self._given = given
        shares, mode, tied = self._value_shares, prior_mode(self.prior), int(self.covariance == "tied")
        shares.find(statistics, self._encode_earlier)
        last = SmoothingParams(self._smoothing, self._given, mode, tied, shares.rows, shares.p)
        is_fixed = type(self.prior) is str and not shares.is_used
        self._read_by = (self.prior, self.covariance, len(statistics.classes)) if is_fixed else ()
        self._last_reading = last
        return last


def check_covariance(covariance: Covariance) -> None:
    """Raise ValueError for an unknown covariance."""
    if covariance not in {"own", "tied"}:
        raise ValueError(f"covariance must be 'own' or 'tied', not {covariance!r}")


class NaiveBayes(ParameterCount, SmoothedModel):
    """Naive Bayes over text, nominal and continuous attributes, one likelihood factor each.

    A missing attribute (absent, None, or a number that is not finite) drops its factor, in learning and in
    predicting. Words and nominal values never seen are skipped, except for declared values; a declared list
    refuses all others (see `Nominal`). Undeclared attributes go by the type of their value: strings and
    booleans are nominal, other numbers continuous. An attribute called `text` is a text, as in the events of
    a log, unless its value is a number, as in River's bags of words.

    Args:
        attributes: name -> `Text`, `Nominal` or `Continuous`, or just "text", "nominal", "continuous".
        alpha: default smoothing of discrete attributes; 0 is read as the limit.
        m: use the m-estimate (n_c + m p) / (n + m) in place of alpha.
        p: prior estimate of the m-estimate; None is uniform over the values declared or seen. It must
            sum to 1 over declared values.
        prior: "learned" (frequency), "uniform", label -> relative weight (labels left out get 0), or
            `SmoothedPrior` (smoothed frequency).
        event_model: default for texts, "multinomial" or "bernoulli".
        covariance: "own", or "tied" for one variance of each number, shared by all classes.

    Examples:
        >>> from streamnb import NaiveBayes
        >>> model = NaiveBayes({"text": "text"})
        >>> model.learn_one({"text": "Free entry, win now", "links": 3}, "spam")
        >>> model.learn_one({"text": "See you at lunch?", "links": 0}, "ham")
        >>> model.predict_one({"text": "free lunch, win!"})
        'spam'

    References:
        Mitchell, Machine Learning (1997), chapter 6; Manning, Raghavan and Schuetze (2008), chapter 13.
    """

    def learn_one(self, x: Any, y: Any, w: float = 1.0, t: float | None = None) -> None:
        """Learn one event, see the base class; without compiling the kernels of batches."""
        if self._statistics.room is not None:
            super().learn_one(x, y, w, t)
            return
        if t is None and self._learned(x, y, w):
            return
        targets, writer = Targets.from_labels(1, [y], [w], [t]), EventWriter()
        self._reader.write_all(writer, [x])
        warn_of_sentences(self._reader, x, type(self).__name__)
        is_alone = t is None and targets.weights[0] and not is_missing(y) and not self._statistics.is_copied
        if is_alone and self._statistics.reserve_one(writer, y) and self._learned(x, y, w):
            return
        self._learn(self._statistics.encode(writer, targets))

    def explain_then_learn_many(
        self, xs: Sequence[Any], ys: Labels, ws: Weights = None, ts: Times = None, top: int = 5
    ) -> tuple[Posteriors, Sequence[Sequence[Item]]]:
        """Return `predict_then_learn_many`, and `explain_one` of each event before it was learned."""
        encoded = self._encode(xs, ys, ws, ts)
        parts = AttributionParts.with_capacity(encoded.batch, top)
        posteriors = self._explained(encoded, parts, learn=True)
        return posteriors, PartNames(encoded, self._statistics.layout).items(xs, parts.of_batch())

    def partial(
        self, xs: Events, ys: Labels, ws: Weights = None, ranges: Iterable[tuple[str, int, int]] = ()
    ) -> tuple[Posteriors, Partial]:
        """Predict events by the current model and learn them into a partial, for `apply`.

        So parts of a stream can be learned in parallel, in separate processes with the same model or a
        slightly older one: counts do not depend on it. An event without a label is only predicted.

        Args:
            xs: the events, or a data frame.
            ys: their labels.
            ws: their weights; 1 by default.
            ranges: (partition, first offset, offset after the last) of the events in a log. `merge_all` sorts
                partials by their ranges, and detects a missing one.

        Raises ValueError for ranges that overlap or leave a gap, and the errors of `learn_many`.
        """
        placed, labels, rows = joined(ranges), list(ys), rows_of(xs)
        targets = Targets.from_labels(len(rows), labels, ws)
        is_learned, classes = targets.columns({})[2], self._statistics.classes
        probabilities = np.empty((is_learned.size, len(classes)))
        probabilities[~is_learned] = self.predict_posteriors(list(compress(rows, ~is_learned))).probabilities
        alone: Self = self.clone()
        taught = targets.chosen(is_learned)
        encoded = alone.statistics.encode(self._reader.written(list(compress(rows, is_learned))), taught)
        before = self._posteriors(seen_by(alone.statistics, self._statistics, encoded)).probabilities
        probabilities[is_learned] = before
        alone._learn(encoded)
        truths = np.array([classes.get(label, len(classes)) for label in taught.labels], dtype=np.int64)
        partial = Partial(alone, Tested.of_predictions(before, truths), placed)
        return Posteriors(self.classes, probabilities, np.full(is_learned.size, len(classes))), partial

    def apply(self, partial: Partial) -> Self:
        """Add what a partial has learned, as if this model had learned its events; return self.

        Takes time proportional to the partial, not to this model. Raises the errors of `merge`.
        """
        return self.merge(partial.model)

    def merge(self, other: Self) -> Self:
        """Add everything `other` has learned, as if this model had learned its events; return self.

        Exact on counts; moments by Chan's formula. Takes time proportional to `other`, not to this model.
        Stop words of this model are left out (see `prune`). Raises ValueError if the two differ in class or
        parameters, or `other` has stop words that this model does not have.
        """
        if type(other) is not type(self) or other._get_params() != self._get_params():
            raise ValueError("only models of the same class and parameters can be merged")
        merge_statistics(self._statistics, other.statistics)
        if any(other._has_unlisted(name) for name in self._reader.closed):
            self._read_with = ()
        return self

    def joint_log_likelihood(self, x: Any) -> dict[Any, float]:
        """Return log P(v, x) of every class v with examples (nats); -inf if alpha = 0 excludes a class."""
        return self._by_class(self._joints([x])[0])

    def predict_proba_one(self, x: Any) -> dict[Any, float]:
        """Return P(v | x) of every class v with examples; they sum to 1. Empty before any learning."""
        if not self._statistics.classes:
            self._reader.written([x])  # raises the errors of invalid values
            return {}
        found = self._single_events.predicted(self._statistics, self._reading(), self._encoded_event(x))
        return super().predict_proba_one(x) if found is None else found

    def parameters(self) -> Parameters:
        """Return P(v), and P(a | v) or a Gaussian of each attribute, as predictions use them now.

        Examples:
            >>> model = NaiveBayes()
            >>> for windy, label in [("yes", "stay"), ("yes", "stay"), ("no", "go"), ("yes", "go")]:
            ...     model.learn_one({"windy": windy}, label)
            >>> model.parameters().discrete["windy"].table["stay"]  # (n_c + 1) / (n + 2)
            {'yes': 0.75, 'no': 0.25}
            >>> model.n_parameters  # P(stay), and P(yes | v) of two classes
            3
        """
        return parameters_of(self._statistics, self._tables(), self._value_shares.declared)

    def sample(self, n: int, seed: int = 0, first: int = 0, length: int | None = None) -> list[Drawn]:
        """Draw events with their labels from P(v) prod P(a | v): a list of (x, label).

        Each event has all learned attributes. A value that smoothing gives a probability but no name (see
        `Nominal(n_values=...)`) is never drawn. Equal seed and number give the same event.

        Args:
            n: number of events.
            seed: seed of the counter-based generator.
            first: number of the first event.
            length: words of each multinomial text; by default the mean over learned events, rounded.

        Raises:
            ValueError: if nothing was learned, or a number is negative.

        Examples:
            >>> model = NaiveBayes()
            >>> for windy, label in [("yes", "stay"), ("yes", "stay"), ("no", "go"), ("yes", "go")]:
            ...     model.learn_one({"windy": windy}, label)
            >>> model.sample(3)
            [({'windy': 'yes'}, 'stay'), ({'windy': 'yes'}, 'stay'), ({'windy': 'yes'}, 'go')]
        """
        return list(draw_events(self.parameters(), n, seed, first, length))

    def linear_view(
        self, positive: Any, negative: Any = None, covariance: Covariance | None = None
    ) -> LinearView:
        """Return log P(positive | x) / P(negative | x) as a linear function of the current model.

        `negative` may be omitted with two classes. `covariance` replaces that of the model: with "tied" all
        classes share one variance of each number, sum M2 / sum n, so that the log odds are linear in numbers,
        too: the logistic form of Gaussian naive Bayes. Raises ValueError if a class has no examples, or given
        priors exclude both.

        Examples:
            >>> model = NaiveBayes({"text": "text"})
            >>> model.learn_one({"text": "win cash now"}, "spam")
            >>> model.learn_one({"text": "lunch now"}, "ham")
            >>> view = model.linear_view("spam")
            >>> [(item.value, round(item.weight, 3)) for item in view.top(2)["spam"]]
            [('win', 0.539), ('cash', 0.539)]
        """
        if covariance is not None:
            check_covariance(covariance)
        return linear_view(
            self.statistics, self._tables(), (positive, negative), self._reader.write, covariance
        )
