"""Naive Bayes over any mixture of text, nominal and continuous attributes, one event at a time.

    v_NB = argmax_v P(v) prod_i P(a_i | v)        Mitchell, Machine Learning (1997), section 6.9

The state is sufficient statistics only: counts and moments. Smoothing and priors are applied when it is read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import compress
from typing import Any, ClassVar, Self

import numpy as np

from streamnb.features.attributes import Attribute, EventModel, Nominal, check_smoothing
from streamnb.features.data_frames import rows_of
from streamnb.features.encoded_batch import Encoded
from streamnb.features.event_reader import EventReader
from streamnb.features.event_writer import EventWriter
from streamnb.features.targets import Targets
from streamnb.kernels.array_types import Floats
from streamnb.models.interface.attribution import Item, odds, ranked, single_events
from streamnb.models.interface.predictions import Posteriors
from streamnb.models.interface.stream_model import Events, Labels
from streamnb.models.naive_bayes.counting_model import CountingModel
from streamnb.models.naive_bayes.joint_log_likelihood import score_of
from streamnb.models.naive_bayes.linear_view import LinearView, linear_view
from streamnb.models.naive_bayes.naive_bayes_kernels import run
from streamnb.models.naive_bayes.naive_bayes_tables import CountViews, SmoothingParams
from streamnb.models.naive_bayes.partials import Partial, Tested, joined
from streamnb.models.naive_bayes.single_event import EncodedEvent, SingleEvents
from streamnb.statistics.class_priors import Prior, check_prior, prior_mode, prior_weights
from streamnb.values.attribute_kinds import NOMINAL
from streamnb.values.example_weights import UNIT, units
from streamnb.values.number_ranges import is_missing
from streamnb.values.type_aliases import Weights

_NONE, _NO_EVIDENCE = np.empty((0, 0)), np.empty(0)


class SmoothedModel(CountingModel):
    """A model whose counts have one smoothing and one prior; its parameters are those of `NaiveBayes`."""

    _reads_by: ClassVar[type[EventReader]] = EventReader

    def __init__(
        self,
        attributes: Mapping[Any, Attribute | str] | None = None,
        alpha: float = 1.0,
        m: float | None = None,
        p: float | None = None,
        prior: Prior = "learned",
        event_model: EventModel = "multinomial",
    ) -> None:
        super().__init__(self._reads_by(attributes, event_model))
        check_smoothing(alpha, None, None)
        check_smoothing(None, m, p)
        check_prior(prior)
        self._check_p(p)
        self.attributes, self.alpha, self.m, self.p = attributes, alpha, m, p
        self.prior, self.event_model = prior, event_model
        self._read_with: tuple[Any, ...] = ()
        self._smoothing = np.zeros((4, 0))  # alpha, m, p and declared values of each group
        self._given = np.zeros(0)  # relative weight of each class where priors are given
        self._single_events = SingleEvents()

    def smoothing_of(self, name: Any) -> tuple[float, float, float, float]:
        """alpha, m (-1: use alpha), p (nan: uniform) and number of declared values of an attribute.

        As of a model that has learned nothing.
        """
        spec = self._reader.declared.get(name)
        declared = float(spec.declared) if isinstance(spec, Nominal) else 0.0
        return *self._smoothing_of(name, self.alpha, self.m, self.p), declared

    def _has_unlisted(self, name: Any) -> bool:
        """Whether it has learned values of an attribute that its list of them does not have."""
        is_known = (NOMINAL, name) in self._statistics.layout.groups
        return is_known and self._n_declared(name) > len(self._reader.closed[name])

    def _learned(self, x: Any, y: Any, w: float) -> bool:
        weight = UNIT if type(w) is float and w == 1.0 else units(w)
        reading, event = self._reading(), self._encoded_event(x)
        return self._single_events.learned(self._statistics, reading, event, y, weight)

    def _encoded_event(self, x: Any) -> EncodedEvent | None:
        """The event as arrays; None where it needs a batch, which refuses what is not to be taken."""
        if self._reader.closed and not self._reader.takes(x):
            return None
        return self._single_events.of_shape(self._statistics, x, self._reader.kind)

    def _taken_apart(self, x: Any, encoded: Encoded, first: Any, second: Any) -> tuple[float, list[Item]]:
        singles = list(single_events(*self._reader.texts(x)))
        joints = self._joints([{}, *(event for single in singles for event in single[2:])])
        items = (
            Item(name, value, odds(joints[2 * i + 1], joints[2 * i + 2], first, second))
            for i, (name, value, _, _) in enumerate(singles)
        )
        return odds(joints[0], dict.fromkeys(joints[0], 0.0), first, second), ranked(items)

    def _joints(self, xs: Sequence[Any]) -> list[dict[Any, float]]:
        """Log P(v, x) of every class v with examples, of each event."""
        joints = np.empty((len(xs), len(self._statistics.classes)))
        self._run(self._encode(xs), self._tables, joints, predict=True)
        return [self._by_class(row) for row in joints]

    def _posteriors(self, encoded: Encoded, *, learn: bool = False) -> Posteriors:
        evidence = self._asked_evidence(encoded)
        probabilities = self._run(encoded, self._tables, evidence=evidence, predict=True, learn=learn)
        return Posteriors(self.classes, probabilities, encoded.known, evidence=evidence)

    def _learn(self, encoded: Encoded) -> None:
        self._run(encoded, self._tables, learn=True)

    def _run(
        self,
        encoded: Encoded,
        tables: Callable[[], CountViews],
        joints: Floats = _NONE,
        evidence: Floats | None = None,
        *,
        predict: bool = False,
        learn: bool = False,
    ) -> Floats:
        """Predict and learn events in order; the probabilities, where they were asked for.

        By `tables`, made anew where they grew. `joints` gets log P(v, x) where it has rows, and `evidence`
        what `evidence_per_token` says.
        """
        batch, most = encoded.batch, encoded.most
        n = batch.label.size if predict else 0
        probabilities = np.empty((n, len(self._statistics.classes)))
        told = probabilities, joints, _NO_EVIDENCE if evidence is None else evidence
        score = score_of(probabilities.shape[1])

        def step(done: int) -> int:
            return int(run(done, most, tables(), batch, learn, told, score))

        self._in_order(encoded, most, step, learn=learn)
        return probabilities

    def _reading(self) -> SmoothingParams:
        read_with = (self._statistics, self.alpha, self.m, self.p)
        if read_with != self._read_with:
            self._read_with, self._smoothing = read_with, np.zeros((4, 0))
            self._statistics.counts.histograms.stale[:] = True
        self._smoothing = self._by_group(
            self._smoothing, lambda name: (*self._smoothing_of(name, *read_with[1:]), self._n_declared(name))
        )
        if self._given.size != len(self._statistics.classes) or type(self.prior) is not str:
            given = prior_weights(self.prior, self._statistics.classes)
            if given.tobytes() != self._given.tobytes():  # single events know it by where it stands
                self._given = given
        return self._smoothing, self._given, prior_mode(self.prior)


class NaiveBayes(SmoothedModel):
    """Naive Bayes over text, nominal and continuous attributes, one likelihood factor each.

    A missing attribute (absent, None, or a number that is not finite) drops its factor, in learning and in
    predicting. Words and nominal values never seen are skipped, but for values that are declared; where a
    list declares them, others are refused (see `Nominal`). Attributes that are not declared are taken by the
    type of their value: strings and booleans are nominal, other numbers continuous; but what is called `text`
    is a text, as it is in the events of a log, unless it is a number, as in River's bags of words.

    Args:
        attributes: name -> `Text`, `Nominal` or `Continuous`, or just "text", "nominal", "continuous".
        alpha: smoothing of every discrete attribute that does not say otherwise; 0 is read as the limit.
        m: use the m-estimate (n_c + m p) / (n + m) in place of alpha.
        p: prior estimate of the m-estimate; None is uniform over the values declared or seen. Where values
            are declared it is refused unless it sums to 1 over them.
        prior: "learned" (frequency), "uniform", or label -> relative weight (a label left out has none).
        event_model: of texts that do not say otherwise, "multinomial" or "bernoulli".

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
        """See its base class. Where a table is full the event goes without a batch once it has grown.

        So nothing is compiled for batches by those who have none.
        """
        if self._statistics.room is not None:
            super().learn_one(x, y, w, t)
            return
        if t is None and self._learned(x, y, w):
            return
        targets, writer = Targets.from_labels(1, [y], [w], [t]), EventWriter()
        self._reader.write_all(writer, [x])
        self._warn_of_sentences(x)
        is_alone = t is None and targets.weights[0] and not is_missing(y) and not self._statistics.is_copied
        if is_alone and self._statistics.reserve_one(writer, y) and self._learned(x, y, w):
            return
        self._learn(self._statistics.encode(writer, targets))

    def partial(
        self, xs: Events, ys: Labels, ws: Weights = None, ranges: Iterable[tuple[str, int, int]] = ()
    ) -> tuple[Posteriors, Partial]:
        """Predict events by the model as it is, and learn them apart; nothing changes here before `apply`.

        So parts of a stream can be learned in parallel, in processes of their own that have the same model,
        or one that is a little older: counts do not depend on it. An event without a label is only predicted.

        Args:
            xs: the events, or a data frame.
            ys: their labels.
            ws: their weights; 1 by default.
            ranges: where they are in a log: of each partition its name, the first offset, and the one past
                the last. By these `merge_all` puts partials in order, and notices one that is missing.

        Raises ValueError for ranges that overlap or leave a gap, and what `learn_many` raises.
        """
        placed, labels, rows = joined(ranges), list(ys), rows_of(xs)
        targets = Targets.from_labels(len(rows), labels, ws)
        is_learned, classes = targets.columns({})[2], self._statistics.classes
        probabilities = np.empty((is_learned.size, len(classes)))
        probabilities[~is_learned] = self.predict_posteriors(list(compress(rows, ~is_learned))).probabilities
        alone: Self = self.clone()
        taught = targets.chosen(is_learned)
        encoded = alone.statistics.encode(self._reader.written(list(compress(rows, is_learned))), taught)
        told = self._posteriors(alone.statistics.seen_by(self._statistics, encoded)).probabilities
        probabilities[is_learned] = told
        alone._learn(encoded)
        truths = np.array([classes.get(label, len(classes)) for label in taught.labels], dtype=np.int64)
        partial = Partial(alone, Tested.of_predictions(told, truths), placed)
        return Posteriors(self.classes, probabilities, np.full(is_learned.size, len(classes))), partial

    def apply(self, partial: Partial) -> Self:
        """Add what a partial has learned, as if its events had been learned here; returns self.

        It takes as long as the partial is large, however large the model is. Errors as of `merge`.
        """
        return self.merge(partial.model)

    def merge(self, other: Self) -> Self:
        """Add all that `other` has learned, as if its events had been learned here; returns self.

        Exact on counts; moments by Chan's formula. It takes as long as `other` is large, however large this
        one is. Words that were stopped here are left out (see `prune`). Raises ValueError where the two were
        built differently, or the other one has stopped words that were not stopped here.
        """
        if type(other) is not type(self) or other._get_params() != self._get_params():
            raise ValueError("only models of the same class and parameters can be merged")
        self._statistics.merge(other.statistics)
        if any(other._has_unlisted(name) for name in self._reader.closed):
            self._read_with = ()
        return self

    def joint_log_likelihood(self, x: Any) -> dict[Any, float]:
        """Log P(v, x) of every class v with examples (nats); -inf where alpha = 0 rules a class out.

        Raises TypeError or ValueError for a value that its attribute's kind does not take.
        """
        return self._joints([x])[0]

    def predict_proba_one(self, x: Any) -> dict[Any, float]:
        """P(v | x) of every class v with examples; they sum to 1. Empty while nothing has been learned."""
        if not self._statistics.classes:
            self._reader.written([x])  # which refuses what is not to be taken
            return {}
        found = self._single_events.predicted(self._statistics, self._reading(), self._encoded_event(x))
        return super().predict_proba_one(x) if found is None else found

    def linear_view(self, positive: Any, negative: Any = None) -> LinearView:
        """Log P(positive | x) / P(negative | x) as a linear function, of the model as it is.

        `negative` may be left out where there are two classes. Raises ValueError where one of the two has no
        examples, or given priors rule out both.

        Examples:
            >>> model = NaiveBayes({"text": "text"})
            >>> model.learn_one({"text": "win cash now"}, "spam")
            >>> model.learn_one({"text": "lunch now"}, "ham")
            >>> view = model.linear_view("spam")
            >>> [(item.value, round(item.weight, 3)) for item in view.top(2)["spam"]]
            [('win', 0.539), ('cash', 0.539)]
        """
        return linear_view(self.statistics, self._tables(), positive, negative, self._reader.write)
