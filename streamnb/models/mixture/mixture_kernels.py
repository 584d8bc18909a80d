"""Hot path of the mixture: predict by all hypotheses, weigh them, and learn, strictly in order."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from streamnb.features.bags import Bags
from streamnb.features.byte_ngrams import ByteNgrams, find_byte_ngrams
from streamnb.features.encoded_batch import Batch
from streamnb.kernels.array_types import Floats, Ints
from streamnb.kernels.jit import inlined, kernel
from streamnb.kernels.structs import struct_type
from streamnb.kernels.vector_kernels import copy_to, count_positive, fill
from streamnb.models.mixture.adaptive_kernels import (
    extract_event,
    has_capacity_for_features,
    learn_by_learners,
    predict_by_learners,
)
from streamnb.models.mixture.adaptive_state import AdaptiveScratch, HypothesisPlan
from streamnb.models.mixture.binned_density import score_binned
from streamnb.models.mixture.hypotheses import SmoothingTables
from streamnb.models.mixture.hypothesis_kinds import FOREST, NAIVE, ONE_DEPENDENCE
from streamnb.models.mixture.hypothesis_log_likelihood import HypothesisScratch, score_hypotheses
from streamnb.models.mixture.mixture_attribution import attribute_event
from streamnb.models.mixture.recent_gaussians import score_recent
from streamnb.models.naive_bayes.joint_log_likelihood import score_priors
from streamnb.models.naive_bayes.naive_bayes_kernels import evidence_per_token, learn_event, unlearn_event
from streamnb.models.softmax.feature_extraction import most_features_of
from streamnb.models.softmax.quantile_bins import has_capacity_for_values
from streamnb.scoring.prequential_scores import ESCAPE
from streamnb.statistics.class_priors import LEARNED
from streamnb.statistics.counter_rng import choose
from streamnb.statistics.decayed_counts import learn_decayed
from streamnb.statistics.document_frequency import count_documents, uncount_documents
from streamnb.statistics.histograms import has_capacity
from streamnb.statistics.hypothesis_weights import HypothesisWeights, observe
from streamnb.statistics.logspace import log_normalise, normalise

MIXTURE, MAP, GIBBS, FLOORED = 0, 1, 2, 3


@struct_type
class Answers(NamedTuple):
    """The requested answers for n events; an array without rows is not requested.

    Attributes:
        probabilities: float64[n, K], P(class | event), by the mode.
        posteriors: float64[n, H], P(h | all events learned before the event).
        joints: float64[n, H, K], log P_h(class, event), -inf for a class without examples.
        evidence: float64[n], of `evidence_per_token`.
        scratch: float64[2, K], scratch of `evidence`.
    """

    probabilities: Floats
    posteriors: Floats
    joints: Floats
    evidence: Floats
    scratch: Floats

    @classmethod
    def with_capacity(
        cls, hypotheses: int, classes: int, asked: int, joints: int = 0, evidence: int = 0
    ) -> Answers:
        """Return room for the answers about so many events."""
        return cls(
            np.zeros((asked, classes)),
            np.zeros((asked, hypotheses)),
            np.zeros((joints, hypotheses, classes)),
            np.zeros(evidence),
            np.zeros((2, classes)),
        )


@kernel
def chosen(log_posterior: Floats, mode: int, uniform: float) -> int:
    """Return the hypothesis that predicts alone: drawn in mode GIBBS, otherwise the most probable."""
    return choose(log_posterior, uniform) if mode == GIBBS else int(np.argmax(log_posterior))


@inlined
def _lift(probabilities: Floats, known: Ints, observations: int) -> None:
    """Mix in the uniform distribution over K classes with examples: after n observations 1 / (2 n + 2) of it.

    The estimate of Krichevsky and Trofimov (1981) for an outcome that has not occurred in n trials, here that
    the mixture excluded the true class. Each of K classes has at least 1 / (2 K (n + 1)), and the total cost
    is at most half ln(pi (T + 1)) over T observations.
    """
    doubt, classes = 0.5 / (observations + 1.0), count_positive(known[: probabilities.size])
    for k in range(probabilities.size):
        if known[k] > 0:
            probabilities[k] = (1.0 - doubt) * probabilities[k] + doubt / classes


@kernel
def _answer(
    weights: HypothesisWeights,
    known: Ints,
    by_hypothesis: Floats,
    mode: int,
    uniform: float,
    posterior: Floats,
    probabilities: Floats,
) -> None:
    """Fill the prediction of one event from P_h(class | event) (H, K), and the posterior (H,).

    The mean is divided by its sum, because the weights sum to 1 only up to rounding.
    """
    log_posterior = weights.log_posterior
    for h in range(log_posterior.size):
        posterior[h] = math.exp(log_posterior[h])
    if MIXTURE != mode != FLOORED:
        copy_to(probabilities, by_hypothesis[chosen(log_posterior, mode, uniform)])
        return
    fill(probabilities, 0.0)
    for h in range(log_posterior.size):
        for k in range(probabilities.size):
            probabilities[k] += posterior[h] * by_hypothesis[h, k]
    total = 0.0
    for k in range(probabilities.size):
        total += probabilities[k]
    if total > 0.0:
        for k in range(probabilities.size):
            probabilities[k] /= total
    if mode == FLOORED:
        _lift(probabilities, known, weights.observations[0])


@kernel
def _say_dependence(
    plan: Any, dependence: Any, e: int, waits: bool, known: Ints, logs: Floats, answers: Any
) -> None:
    """Fill the predictions of estimators and forests of event e: the class priors while they are gated."""
    for h in range(plan.kind.size):
        if plan.kind[h] == ONE_DEPENDENCE or plan.kind[h] == FOREST:
            if waits:
                score_priors(known, known, LEARNED, logs[h], logs[h])
                log_normalise(logs[h], logs[h], answers[h])
            else:
                log_normalise(dependence[plan.reads[h], e], logs[h], answers[h])


@inlined
def _copy_joints(
    plan: Any, dependence: Any, e: int, awake: int, joint: Floats, logs: Floats, joints: Floats
) -> None:
    for h in range(plan.kind.size):
        if (plan.kind[h] == ONE_DEPENDENCE or plan.kind[h] == FOREST) and e >= awake:
            copy_to(joints[h], dependence[plan.reads[h], e])
        else:
            copy_to(joints[h], joint[plan.reads[h]] if plan.kind[h] == NAIVE else logs[h])


@inlined
def _fill_shares(log_posterior: Floats, mode: int, uniform: float, shares: Floats) -> None:
    """Fill the weights of the hypotheses in a prediction by the mode."""
    for h in range(shares.size):
        shares[h] = 0.0 if MIXTURE != mode != FLOORED else math.exp(log_posterior[h])
    if MIXTURE != mode != FLOORED:
        shares[chosen(log_posterior, mode, uniform)] = 1.0


@kernel
def run_hypotheses(
    first: int,
    state: Any,
    readings: SmoothingTables,
    plan: HypothesisPlan,
    batch: Batch,
    bits: Any,
    bags: Bags,
    grams: ByteNgrams,
    mode: int,
    uniforms: Any,
    switching_rate: float,
    learn: bool,
    late: bool,
    scratch: HypothesisScratch,
    learner_scratch: AdaptiveScratch,
    dependence: Any,
    awake: int,
    answers: Answers,
    items: Any,
) -> Any:
    """Predict from event `first` on, update the posterior by each P_h(label), then learn.

    Args:
        first: the first event.
        state: (CountViews, DocumentFrequencyArrays, DecayedTables, AdaptiveArrays, HypothesisWeights).
        readings: smoothing and priors of the naive Bayes hypotheses.
        plan: `HypothesisPlan`.
        batch: the events.
        bits: uint64[v], the bits of its values, without negative zeros.
        bags: the same as bags.
        grams: buffers for byte n-grams.
        mode: MIXTURE, MAP, GIBBS, or FLOORED, which is MIXTURE with a minimum probability.
        uniforms: float64[n], numbers in [0, 1) by which GIBBS draws.
        switching_rate: of the posterior.
        learn: whether to learn events that have a label.
        late: whether decayed tables take events at their own age, see `learn_decayed`.
        scratch: of the readings.
        learner_scratch: of the learners.
        dependence: float64[D, n, K], log P(class, event) of one-dependence estimators, then of forests,
            computed before.
        awake: the first event that gated estimators and forests predict.
        answers: are filled.
        items: `AttributionItems`, filled if they have room for a part; None compiles a kernel without
            attribution.

    Returns n, or the event before which histograms, features or bins need more capacity.
    """
    tables, presence, decayed, learners, weights = state
    H = plan.kind.size
    takes_features = learner_scratch.extracted.keys.size > 0
    learns_more = takes_features
    by_hypothesis, log_likelihoods = learner_scratch.answers, learner_scratch.log_likelihoods
    pooled = plan.opinions.size
    for h in range(H):
        learns_more |= plan.kind[h] != NAIVE
    for e in range(first, batch.label.size):
        k, most = batch.label[e], most_features_of(batch, e) if takes_features else 0
        learns = learn and k >= 0
        if learns and not has_capacity(presence.histograms, presence.slot, presence.texts, k, bags.most):
            return e
        if learns and most and not has_capacity_for_features(learners.features, tables.classes, most):
            return e
        if learns and most and not has_capacity_for_values(learners.bins, batch, e):
            return e
        if learns_more:
            find_byte_ngrams(grams, batch, e, learners.grams.records)  # its prefetches overlap the scoring
        score_hypotheses(tables, presence, decayed, readings, plan, batch, bags, e, scratch)
        if most:  # prefetches rows that the learners read soon after
            extract_event(plan, learners, tables, batch, e, bits, learns, learner_scratch.extracted)
        if most and batch.event_values[e + 1] > batch.event_values[e]:
            features = learner_scratch.extracted
            score_binned(plan.binned, tables, learners, batch, e, features, scratch.value, scratch.joint)
        if plan.half_lives.size:
            score_recent(learners.recent, tables.classes, batch, e, scratch.joint[plan.binned.size :])
        for h in range(H):
            if plan.kind[h] == NAIVE:
                normalise(scratch.joint[plan.reads[h]], learner_scratch.misses, by_hypothesis[h])
        if learns_more:
            pooled = plan.opinions.size - (plan.waiting[0] if e < awake else 0)
            _say_dependence(
                plan, dependence, e, e < awake, tables.classes, learner_scratch.logs, by_hypothesis
            )
            predict_by_learners(
                plan, learners, tables.classes, scratch.joint, grams, learner_scratch, pooled, by_hypothesis
            )
        if answers.probabilities.shape[0]:
            posterior, found = answers.posteriors[e], answers.probabilities[e]
            _answer(weights, tables.classes, by_hypothesis, mode, uniforms[e], posterior, found)
        if answers.evidence.size:
            joint, product = answers.scratch[0], answers.scratch[1]
            answers.evidence[e] = evidence_per_token(tables, batch, e, joint, product)
        if answers.joints.shape[0]:
            _copy_joints(plan, dependence, e, awake, scratch.joint, learner_scratch.logs, answers.joints[e])
        if items is not None and items.parts.odds.size:
            _fill_shares(weights.log_posterior, mode, uniforms[e], log_likelihoods)  # overwritten below
            attribute_event(
                state, readings, plan, batch, bags, grams, e, awake, pooled, answers.probabilities[e],
                log_likelihoods, scratch, learner_scratch, items,
            )  # fmt: skip
        if learns:
            for h in range(H):
                log_likelihoods[h] = math.log(max(by_hypothesis[h, k], ESCAPE))
            observe(weights, log_likelihoods, switching_rate)
            if learns_more:
                learn_by_learners(
                    plan, learners, tables, batch, grams, e, learner_scratch, pooled, by_hypothesis
                )
            learn_event(tables, batch, e)
            if presence.slot.size:
                count_documents(presence, tables.kinds, bags, e, k, batch.weight[e])
            if scratch.age.size:
                learn_decayed(decayed, tables.kinds, batch, bags, e, late, scratch.age)
    return batch.label.size


@kernel
def unlearn_counts(first: int, tables: Any, presence: Any, batch: Batch, bags: Bags) -> Any:
    """Unlearn events from `first` on from all counts, in order; see `naive_bayes_kernels.unlearn_events`."""
    for e in range(first, batch.label.size):
        k, weight, counted = batch.label[e], batch.weight[e], presence.slot.size > 0
        if k < 0:
            return -1 - e
        if not has_capacity(presence.histograms, presence.slot, presence.texts, k, bags.most):
            return e
        if counted and not uncount_documents(presence, tables.kinds, bags, e, k, weight):
            return -1 - e
        if not unlearn_event(tables, batch, e):
            if counted:
                count_documents(presence, tables.kinds, bags, e, k, weight)
            return -1 - e
    return batch.label.size
