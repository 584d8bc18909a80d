"""Naive Bayes hypotheses and adaptive members over shared counts, weighed by their past predictions."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from copy import deepcopy
from typing import Any, Literal, Self

import numpy as np

from streamnb.errors import UnlearnError
from streamnb.features.attributes import Attribute, Nominal, Text
from streamnb.features.bags import bags_of
from streamnb.features.byte_ngrams import ByteNgrams, byte_ngrams_of, max_byte_ngrams
from streamnb.features.character_table import character_table
from streamnb.features.column_quality import warn_of_sentences
from streamnb.features.encoded_batch import Batch, Encoded
from streamnb.features.event_reader import SENTENCE, EventReader
from streamnb.features.event_writer import EventWriter
from streamnb.features.keyed_hash import process_secret
from streamnb.models.interface.attribution import Item
from streamnb.models.interface.attribution_parts import AttributionParts
from streamnb.models.interface.part_names import PartNames
from streamnb.models.interface.predictions import Posteriors
from streamnb.models.interface.stream_model import Corrections, Events, Labels
from streamnb.models.mixture.adaptive_state import AdaptiveScratch
from streamnb.models.mixture.attribution_items import AttributionItems
from streamnb.models.mixture.forest_hypotheses import predict_ahead
from streamnb.models.mixture.hypothesis_kinds import (
    DEFAULT_HYPOTHESES,
    AnyHypothesis,
    check_hypotheses,
)
from streamnb.models.mixture.hypothesis_log_likelihood import HypothesisScratch
from streamnb.models.mixture.learned_mixture import LearnedMixture
from streamnb.models.mixture.mixture_kernels import (
    FLOORED,
    GIBBS,
    MAP,
    MIXTURE,
    Answers,
    run_hypotheses,
    unlearn_counts,
)
from streamnb.models.mixture.mixture_single_event import (
    EventSize,
    MixtureArrays,
    PreparedEvents,
    Workspace,
    is_short,
)
from streamnb.models.naive_bayes.linear_view import LinearView
from streamnb.models.naive_bayes.single_event import EncodedEvent, SingleEvents
from streamnb.models.naive_bayes.single_event_kernel import ModelArrays
from streamnb.models.one_dependence.pair_attribution import MOST_KEPT
from streamnb.models.one_dependence.pair_model import GATED, NO_ESTIMATOR
from streamnb.models.softmax.feature_extraction import most_features
from streamnb.models.softmax.quantile_bins import places_for_values
from streamnb.statistics.counter_rng import check_seed, uniforms
from streamnb.values.attribute_kinds import text_kind
from streamnb.values.example_weights import UNIT, units
from streamnb.values.number_ranges import is_missing
from streamnb.values.parameter_checks import check_whole
from streamnb.values.type_aliases import Times, Weights

PredictionMode = Literal["mixture", "map", "gibbs"]
_MODES = {"mixture": MIXTURE, "map": MAP, "gibbs": GIBBS}


class _BagReader(EventReader):
    def place(self, writer: EventWriter, name: Any, value: Any) -> None:
        """Write the value; a bag whose words all occur zero times is a text without words."""
        super().place(writer, name, value)
        bag = isinstance(self.declared.get(name), Text) and isinstance(value, Mapping)
        if bag and not all(is_missing(times) for times in value.values()):
            writer.text(text_kind("multinomial"), name, "")


class BayesOptimalNB(LearnedMixture):
    r"""Naive Bayes models that share their counts, and adaptive members, under one posterior.

        P(v | x, D) = sum_h P_h(v | x, D) P(h | D)        P(h | D) ~ P(h) prod_t P_h(v_t | x_t, D_<t)

    Each event is predicted before it is learned, and every hypothesis is weighed by the probability that it
    gave to the label. The total log loss of the mixture is at most the loss of any hypothesis + ln(1 / P(h)),
    and with a switching rate r over T events + T ln(1 / (1 - r)), so no choice is needed beforehand.

    A label never met before has probability `prequential_scores.ESCAPE` under every hypothesis.

    Args:
        attributes: name -> `Text`, `Nominal` or `Continuous`, or just "text", "nominal", "continuous". The
            hypotheses choose how texts are read; smoothing set on an attribute applies to all of them.
        hypotheses: `Hypothesis` (naive Bayes, also calibrated), `Softmax`, `ByteSoftmax`, `Pool`,
            `OneDependence`, `MondrianForest` and `RecentGaussian`; the default set (`DEFAULT_HYPOTHESES`)
            suits both texts and tables.
        switching_rate: probability that the best hypothesis changes from one event to the next.
        prediction: "mixture" (Bayes optimal), "map" (the most probable hypothesis), or "gibbs" (one drawn
            from the posterior for every event, whose expected error is at most twice the Bayes-optimal).
        seed: of the draws, which depend on it and on the number of the event alone.
        memory: of the features of softmax regressions, bytes; when it is spent no more are added.
        floor: whether a mixture of several hypotheses gives each of K classes with examples at least
            1 / (2 K (n + 1)) after n events: one surprise then costs at most ln (2 K (n + 1)), and all
            events together at most half ln (pi (T + 1)) more.
        caution: whether softmax regressions doubt a class that has few examples in a long stream, so that
            one event with a wrong label does not attract all events with unseen features, see
            `rare_class_shrinkage`.

    Examples:
        >>> from streamnb import BayesOptimalNB, Hypothesis
        >>> model = BayesOptimalNB({"text": "text"}, [Hypothesis("multinomial"), Hypothesis("bernoulli")])
        >>> for text, label in [("win cash now", "spam"), ("lunch now", "ham"), ("cash prize", "spam")]:
        ...     model.learn_one({"text": text}, label)
        >>> model.predict_one({"text": "cash"})
        'spam'
        >>> {name: round(p, 2) for name, p in model.posterior.probabilities.items()}
        {'multinomial alpha=1': 0.49, 'bernoulli alpha=1': 0.51}

    References:
        Mitchell, Machine Learning (1997), sections 6.7 and 6.8; Dawid (1984), JRSS A 147(2); Herbster and
        Warmuth (1998), Machine Learning 32(2).
    """

    def __init__(
        self,
        attributes: Mapping[Any, Attribute | str] | None = None,
        hypotheses: Sequence[AnyHypothesis] = DEFAULT_HYPOTHESES,
        switching_rate: float = 1e-4,
        prediction: PredictionMode = "mixture",
        seed: int = 0,
        memory: int = 256 << 20,
        floor: bool = True,  # noqa: FBT001, FBT002  as others; River sets parameters by name
        caution: bool = True,  # noqa: FBT001, FBT002  as `floor`
    ) -> None:
        check_hypotheses(hypotheses)
        if prediction not in _MODES:
            raise ValueError(f"prediction must be one of {', '.join(_MODES)}, not {prediction!r}")
        check_seed(seed)
        check_whole("memory", memory, 0)
        super().__init__(_BagReader(attributes), hypotheses, switching_rate, memory, caution=caution)
        for name, spec in self._reader.declared.items():
            if isinstance(spec, Text) and spec.event_model is not None:
                raise ValueError(f"attribute {name!r}: the hypotheses choose how a text is read")
            if isinstance(spec, (Text, Nominal)) and 0.0 in (spec.alpha, spec.m):
                raise ValueError(f"attribute {name!r}: smoothing of hypotheses must be above zero")
        self.attributes = attributes
        self.prediction = prediction
        self.seed = seed
        self.floor = floor
        self.caution = caution
        self._is_alone = sum(h.weight > 0.0 for h in hypotheses) == 1
        self._events, self._prepared = SingleEvents(), PreparedEvents()

    corrections: Corrections = "counts"
    """Counts can be unlearned; posterior, half-lives, gradients, calibration, pools and bins cannot."""

    def predict_proba_one(self, x: Any) -> dict[Any, float]:
        """Return P(v | x) of every class v with examples; they sum to 1. Empty before any learning."""
        draw = float(uniforms(self.seed, self._met, 1)[0]) if self.prediction == "gibbs" else 0.0
        event = self._event_alone(x)
        empty, probabilities = (-1, []) if event is None else self._run_alone(event, -1, 0, draw)
        if empty < 0:
            return super().predict_proba_one(x)
        classes, weights = self._statistics.classes, self._statistics.class_weights
        if not empty:
            return dict(zip(classes, probabilities, strict=True))
        return {label: probabilities[k] for label, k in classes.items() if weights[k] > 0}

    def learn_one(self, x: Any, y: Any, w: float = 1.0, t: float | None = None) -> None:
        """Learn one event, see the base class."""
        if t is not None or not self._learn_alone(x, y, w):
            super().learn_one(x, y, w, t)

    def joint_log_likelihood(self, x: Any) -> dict[Any, float]:
        """Return class -> log P(v | x), since complement has no joint; -inf if it is zero."""
        return {
            label: math.log(p) if p > 0.0 else -math.inf for label, p in self.predict_proba_one(x).items()
        }

    def joint_log_likelihoods(self, x: Any) -> dict[str, dict[Any, float]]:
        """Return hypothesis -> log P_h(v, x) of every class v with examples (nats)."""
        answers = self._answer(self._encode([x]), joints=True)
        return {
            hypothesis.label: self._by_class(joints)
            for hypothesis, joints in zip(self.hypotheses, answers.joints[0], strict=True)
        }

    def linear_view(self, positive: Any, negative: Any = None) -> LinearView:
        """Raise ValueError: a mixture is not a linear function of the event."""
        raise ValueError("a mixture of hypotheses is not a linear function of the event")

    def unlearn_one(self, x: Any, y: Any, w: float = 1.0) -> None:
        """Undo ``learn_one(x, y, w)`` in counts and moments; the posterior is unchanged.

        `unlearn_many` works for any model, and leaves state that cannot be unlearned unchanged.

        Raises UnlearnError, and changes nothing, if the counts show that the event was never learned, or if a
        hypothesis decays: the event's remaining weight depends on when it was learned.
        """
        if self._learners.is_needed:
            raise UnlearnError("state learned by gradient, as bins, or in pairs cannot be unlearned")
        if self._sources.decays:
            raise UnlearnError("counts with a half-life cannot be unlearned")
        super().unlearn_one(x, y, w)

    def learn_late_many(
        self, xs: Events, ys: Labels, ws: Weights = None, ts: Times = None, *, again: bool = False
    ) -> None:
        """Learn events that were predicted before their labels were known.

        Decayed tables take each event at its own age. The posterior is updated with the current predictions,
        but not for events learned `again`: they updated it the first time. Corrected labels are selected by a
        person and are not a sample: counted as evidence, six that contradicted a confident model outweighed
        the three thousand before them, until other labels came.
        """
        encoded = self._encode_earlier(xs, ys, ws, ts)
        if not again:
            self._answer(encoded, learn=True, late=True)
            return
        posterior, weighed = self._posterior, self._learners.weighed()
        self._posterior = deepcopy(posterior)
        self._answer(encoded, learn=True, late=True)
        self._posterior = posterior
        self._learners.weigh_as(weighed)

    def merge(self, other: Self) -> Self:
        """Raise ValueError: the posteriors of two streams do not determine a joint posterior.

        It depends on how a hypothesis trained on this stream would have predicted the other. The counts alone
        can be merged: learn them with a `NaiveBayes`.
        """
        raise ValueError(
            "the posteriors of two streams cannot be merged; the counts of NaiveBayes models can"
        )

    def _encode(self, xs: Events, ys: Labels | None = None, ws: Weights = None, ts: Times = None) -> Encoded:
        self._prepared.forget()
        return super()._encode(xs, ys, ws, ts).with_keys()

    def _learn_alone(self, x: Any, y: Any, w: float) -> bool:
        """Try to learn an event without a batch; return False, and learn nothing, if it needs one."""
        statistics, weight = self._statistics, UNIT if type(w) is float and w == 1.0 else units(w)
        try:
            k = statistics.classes.get(y, -1)
        except TypeError:  # a label that cannot be hashed
            return False
        event = self._event_alone(x)
        if k < 0 or weight == 0 or event is None or statistics.is_copied:
            return False
        size, missing = self._run_alone(event, k, weight, 0.0)
        if size < 0 and not any(missing) and is_short(event):  # most likely a table is full
            self._reserve_event(event[0].size, event[1].shape[1], event[3].size)
            size, missing = self._run_alone(event, k, weight, 0.0)
        while size < 0 and any(missing) and self._add_codes(*missing):
            size, missing = self._run_alone(event, k, weight, 0.0)
        if size < 0:
            return False
        self._met += 1
        self._dependence.note_single_event()
        if event[0].tobytes().count(b" ") >= SENTENCE:
            warn_of_sentences(self._reader, x, type(self).__name__)
        return True

    def _event_alone(self, x: Any) -> EncodedEvent | None:
        """Return an event as arrays; None if it needs a batch, which raises its errors."""
        statistics, reader = self._statistics, self._reader
        is_ready = statistics.room is None and not statistics.vocabulary.holes and statistics.classes
        if not is_ready or (reader.closed and not reader.takes(x)):
            return None
        return self._events.of_shape(statistics, x, reader.kind)

    def _run_alone(self, event: EncodedEvent, label: int, weight: int, draw: float) -> tuple[int, Any]:
        """Learn or predict one event without a batch; see `PreparedEvents.run`."""
        statistics = self._statistics
        vocabulary, layout, classes = statistics.vocabulary, statistics.layout, statistics.classes
        key = (
            statistics.pin.edition,
            self._learners.pin.edition,
            self._dependence.pin.edition,
            self._forests.pin.edition,
            id(self._posterior.weights),  # held by the arrays
            len(classes),
            len(layout.groups),
            len(layout.fields),
            vocabulary.moves,
            self.prediction,
            self.floor,
            self.switching_rate,
        )
        found = self._prepared.run(vocabulary.size, key, event, label, weight, draw, self._arrays_alone)
        if label >= 0:
            statistics.note_single_event(found[0])
        return found

    def _arrays_alone(
        self, size: EventSize, former: Workspace | None
    ) -> tuple[Workspace, MixtureArrays] | None:
        """Return a workspace for events of this size, and the model's arrays; None if they need a batch."""
        self._reserve(0)
        statistics, plan, learners = self._statistics, self._plan, self._learners
        estimator, state = self._dependence.alone(statistics, len(self._forests))
        state = GATED if state == NO_ESTIMATOR and self._forests.waits else state
        forest = self._forests.alone(statistics, is_gated=state == GATED)
        if estimator is None or forest is None or learners.features.is_moving:
            return None
        readings, tables, presence = self._readings_now(), self._tables(), self._presence()
        lays = plan.byte_rates.size > 0 and not learners.grams.is_there
        bits = learners.grams.bits if learners.grams.is_there else 0
        shape = len(statistics.classes), len(self._readings), len(self._sources.decays), bits
        workspace = former
        if workspace is None or workspace.size != size or workspace.shape != shape:
            workspace = Workspace.with_capacity(size, plan, shape)
        capacity = min(map(len, statistics.row_tables()))
        return workspace, MixtureArrays(
            model=ModelArrays.of_model(tables, statistics.vocabulary, character_table()),
            presence=presence,
            decayed=statistics.decayed.tables,
            learners=learners.tables,
            weights=self._posterior.weights,
            readings=readings,
            plan=plan,
            estimator=estimator,
            forest=forest,
            secret=process_secret(),
            choices=np.array([capacity, self._mode, state, lays, len(self._forests) * (state != GATED)]),
            draws=np.zeros(1),
            rate=np.array([self.switching_rate], dtype=np.float64),
            answers=workspace.answers,
            no_answers=workspace.no_answers,
            grams=workspace.grams,
            scratch=workspace.scratch,
            learner_scratch=workspace.learner_scratch,
        )

    @property
    def _mode(self) -> int:
        """Mode of `run_hypotheses`.

        With one hypothesis the mean is that hypothesis, bit for bit: MAP does not divide by the sum.
        """
        mode = MAP if self._is_alone else _MODES[self.prediction]
        return FLOORED if self.floor and mode == MIXTURE else mode

    def _taken_out(self, encoded: Encoded, batch: Batch) -> int:
        """Unlearn counts, document frequencies, moments and pairs of values; nothing else is unlearned."""
        bags, statistics, n = bags_of(batch), self._statistics, batch.label.size
        encoded = encoded._replace(batch=batch)
        of_pairs = self._dependence.unlearn(encoded, statistics)
        batch.label[of_pairs:] = -1  # an event that one estimator never learned was never learned

        def step(done: int) -> int:
            return int(unlearn_counts(done, self._tables(), self._presence(), batch, bags))

        done = self._as_far_as(step, n, bags.most)
        self._dependence.learn_again(encoded, statistics, done, of_pairs)
        return done

    def _posteriors(self, encoded: Encoded, *, learn: bool = False) -> Posteriors:
        return self._posteriors_of(self._answer(encoded, learn=learn, predict=True), encoded)

    def _posteriors_of(self, answers: Answers, encoded: Encoded) -> Posteriors:
        evidence = answers.evidence if self.tells_evidence else None
        known, posteriors = encoded.known, answers.posteriors
        return Posteriors(self.classes, answers.probabilities, known, posteriors, evidence=evidence)

    def _learn(self, encoded: Encoded) -> None:
        self._answer(encoded, learn=True)

    def _taken_apart(self, x: Any, encoded: Encoded, first: Any, second: Any) -> tuple[float, list[Item]]:
        """Return what the prior and each value add to the log odds, averaged over the hypotheses."""
        statistics = self._statistics
        classes = statistics.classes[first], statistics.classes[second]
        _, parts = self._answer_and_explain(encoded, predict=True, explain=0, of=classes)
        (items,) = PartNames(encoded, statistics.layout).items([x], parts.of_event())
        return float(parts.priors[0]), items

    def explain_then_learn_many(
        self, xs: Sequence[Any], ys: Labels, ws: Weights = None, ts: Times = None, top: int = 5
    ) -> tuple[Posteriors, Sequence[Sequence[Item]]]:
        """Return `predict_then_learn_many`, and `explain_one` of each event before it was learned."""
        columns = [None if column is None else list(column) for column in (ys, ws, ts)]
        classes = len({*self._statistics.classes, *(columns[0] or ())})
        widest = max(map(len, xs), default=0)
        step = self._dependence.most_kept(classes, widest)
        step = min(step, self._forests.most_kept(classes, widest, MOST_KEPT))
        posteriors, items = list[Posteriors](), list[Sequence[Item]]()
        for rows in (slice(i, i + step) for i in range(0, max(len(xs), 1), step)):
            encoded = self._encode(xs[rows], *(column and column[rows] for column in columns))
            answers, parts = self._answer_and_explain(encoded, learn=True, predict=True, explain=top)
            posteriors.append(self._posteriors_of(answers, encoded))
            names = PartNames(encoded, self._statistics.layout)
            items += names.items(xs[rows], parts.of_batch())
        return Posteriors.joined(posteriors), items

    def _answer(
        self,
        encoded: Encoded,
        *,
        learn: bool = False,
        predict: bool = False,
        joints: bool = False,
        late: bool = False,
    ) -> Answers:
        """Predict events in order, and learn them, as late labels if `late`; return the requested answers."""
        return self._answer_and_explain(encoded, learn=learn, predict=predict, joints=joints, late=late)[0]

    def _answer_and_explain(
        self,
        encoded: Encoded,
        *,
        learn: bool = False,
        predict: bool = False,
        joints: bool = False,
        late: bool = False,
        explain: int | None = None,
        of: tuple[int, int] = (-1, -1),
    ) -> tuple[Answers, AttributionParts]:
        """Return the answers, and the parts of the predictions.

        `explain` the predictions by this number of parts, of the classes `of` or the two most probable ones.
        """
        statistics, batch = self._statistics, encoded.batch
        n, H, K = batch.label.size, len(self.hypotheses), len(statistics.classes)
        bags, grams = bags_of(batch), self._grams_of(encoded, learn=learn)
        readings = self._readings_now()
        scratch = HypothesisScratch.with_capacity(
            len(self._readings), self._plan.n_others, K, len(self._sources.decays)
        )
        most = most_features(batch) if self._plan.takes_features else 0
        learner_scratch = AdaptiveScratch.with_capacity(self._plan, K, most, grams.buckets.size)
        items, keep = AttributionItems.none(), explain is not None
        dependence, awake, kept = predict_ahead(
            self._dependence, self._forests, encoded, statistics, learn=learn, keep=keep
        )
        if explain is not None:
            items = AttributionItems.with_capacity(encoded, self._plan, learner_scratch, kept, explain, of)
        evidence = n * (predict and self.tells_evidence)
        answers = Answers.with_capacity(H, K, n * predict, n * joints, evidence)
        self._reserve(2 * most if learn else 0)
        bits = (batch.value + 0.0).view(np.uint64)
        mode, draws = self._mode, np.zeros(n)
        if predict and mode == GIBBS:  # predictions without learning draw as the next event does
            draws += uniforms(self.seed, self._met, n if learn else 1)

        def step(done: int) -> int:
            state = (
                self._tables(),
                self._presence(),
                statistics.decayed.tables,
                self._learners.tables,
                self._posterior.weights,
            )
            done = run_hypotheses(
                done, state, readings, self._plan, batch, bits, bags, grams, mode, draws, self.switching_rate,
                learn, late, scratch, learner_scratch, dependence, awake, answers, items,
            )  # fmt: skip
            if done < n:
                self._reserve(
                    2 * most, int(most and places_for_values(self._learners.bins.tables, batch, done))
                )
            return done

        self._in_order(encoded, bags.most, step, learn=learn)
        if learn:
            self._met += n
        return answers, items.parts

    def _grams_of(self, encoded: Encoded, *, learn: bool) -> ByteNgrams:
        """Return buffers for byte n-grams, empty unless a hypothesis has learned any or is about to."""
        grams = self._learners.grams
        if self._plan.byte_rates.size and (learn or grams.is_there):
            grams.evict(len(self._statistics.classes))
            first = int(self._plan.first_bytes[0])
            most = max_byte_ngrams(encoded, first)
            if learn and not grams.is_there and (most[encoded.batch.label >= 0] > 0).any():
                grams.lay(len(self._statistics.classes))
            if grams.is_there:
                return byte_ngrams_of(encoded, grams.bits, first, int(most.max(initial=0)))
        return ByteNgrams.none()
