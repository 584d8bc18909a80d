"""The values that all rooms share: events, labels, predictions, reports and alerts. All are frozen.

The JSON form of each is a public contract, described with examples in docs/formats.md.
"""

from __future__ import annotations

from typing import Literal, get_args

import msgspec

TOO_MANY_CLASSES = "too-many-classes"
"""Reason of a dead letter whose label is a new class beyond the limit of classes."""

UNPUBLISHED = "prediction-oversize"
"""Reason of a dead letter that is an event, and was learned: its prediction is too large."""

CONVERSION_REASONS = (
    "undecodable",  # bytes that their schema does not describe, or framed without a registry
    "unknown-schema",  # framed with a schema that the registry does not have
    "wrong-envelope",  # not a CloudEvent, or not a change event of Debezium
)
"""Reasons of dead letters of `convert` alone."""

LABEL_REASONS = (
    "unknown-event",  # a label of an event that did not come, or that is beyond the window: `labels.window`
    "too-many-sources",  # a label by a fifth source for one event, or by one source too many
    "repeated",  # an event whose id is waiting for its label, if `events.repeats` rejects it
)
"""Reasons of dead letters that are valid records: too late, or repeated."""

REASONS = (
    "oversize",  # the record is larger than the configured limit
    "invalid-utf8",  # the bytes are not UTF-8
    "invalid-json",  # the text is not JSON (NaN and Infinity are not JSON), or nested too deeply
    "lone-surrogate",  # an escaped half of a surrogate pair: no UTF-8 can hold it
    "missing",  # a required value is absent or null
    "wrong-type",  # a value whose JSON type does not fit its attribute's kind
    "out-of-range",  # a number that no finite double holds, an empty id, a weight below zero, an odd time
    TOO_MANY_CLASSES,
    "label-record",  # a record of the topic of labels
    *CONVERSION_REASONS,
    *LABEL_REASONS,
    UNPUBLISHED,
)
"""Reasons of dead letters: a bounded set, fit for a metric label."""

DetectorName = Literal["adwin", "page_hinkley", "ddm", "eddm", "hddm_a", "hddm_w", "fhddm"]

DETECTORS: tuple[DetectorName, ...] = get_args(DetectorName)
"""Drift detectors, in the order in which they are updated and report; see `model.evaluation.drift`."""


class Event(msgspec.Struct, frozen=True, gc=False):
    """One observation, with its label if it is known.

    Attributes:
        id: the producer's name for the event; a repeated id is another event.
        x: attribute name -> value: str for text and nominal attributes, float for continuous ones;
            a missing attribute is absent.
        label: the class, or None for an event that is only predicted.
        weight: how many examples the event counts for when it is learned.
        ts: event time in seconds since the epoch, or the log's time of the record if that is configured.
    """

    id: str
    x: dict[str, str | float | bool]
    label: str | None = None
    weight: float = 1.0
    ts: float | None = None


class LabelRecord(msgspec.Struct, frozen=True, gc=False):
    """A label that arrives separately from its event: later, sooner, as a correction, or as a retraction.

    Attributes:
        id: the event's id.
        label: the class; None retracts the earlier label of the same source.
        source: the name of the source.
        weight: how many examples the event counts for when it is learned with this label.
        ts: time of the label in seconds since the epoch; None is the log's time of the record.
        by: author, such as the person that corrected; None is not known. A learner ignores it.
    """

    id: str
    label: str | None
    source: str = "default"
    weight: float = 1.0
    ts: float | None = None
    by: str | None = None


class Retraction(msgspec.Struct, frozen=True):
    """The retraction of all labels that one source gave between two times, as if they had never been given.

    Attributes:
        source: the name of the source.
        since: the first time, seconds since the epoch, inclusive; None is the beginning.
        ts: the last time, inclusive; None is when the log recorded the retraction.
    """

    source: str
    since: float | None = None
    ts: float | None = None


class Attribution(msgspec.Struct, frozen=True):
    """The log odds (nats) of one attribute value, for the predicted class against the runner-up."""

    attribute: str
    value: str | float
    log_odds: float


class ModelInfo(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """The model that predicted, and how many events it had learned before.

    For a scorer's replica, `journal` is its last journal record; for a worker of Spark, its last batch.
    """

    name: str
    events: int
    journal: int | None = None


class Prediction(msgspec.Struct, frozen=True, gc=False, kw_only=True, omit_defaults=True):
    """The prediction of one event before it was learned; its fields are in the order of its JSON form.

    Attributes:
        id: the event's id.
        label: the most probable class; None while no class is known.
        probability: the probability of `label`.
        probabilities: every class known to the model -> probability; they sum to 1, with `rest`.
        rest: the total probability of all classes that are left out; None if none is.
        status: "ready", or "empty" while the model knows no class.
        unseen: the probability of a label that was never learned; None if it is not configured.
        decision: the decided class, None without a decision; unset if decisions are not configured.
        expected_cost: the expected cost of the decision.
        rejected: the reason for no decision, "cost" or "novel", if novelty is configured.
        novelty: the share of the labelled events of the class to be decided that are at most as typical;
            None if it is not configured, or not known.
        truth: the event's own label, if it had one.
        evidence: the strongest attribute values, if evidence is configured.
        prior: the log odds (nats) before the event is read, next to evidence.
        hypotheses: hypothesis -> its probability by all learned before the event, if it is configured.
        model: the model and its age.
        ts: the journalled time of the commit that published the prediction, seconds since the epoch.
    """

    id: str
    label: str | None
    probability: float | None
    probabilities: dict[str, float]
    rest: float | None = None
    status: str
    unseen: float | None = None
    decision: str | msgspec.UnsetType | None = msgspec.UNSET
    expected_cost: float | None = None
    rejected: str | None = None
    novelty: float | None = None
    truth: str | None = None
    evidence: tuple[Attribution, ...] | None = None
    prior: float | None = None
    hypotheses: dict[str, float] | None = None
    model: ModelInfo
    ts: float


class DeadLetter(msgspec.Struct, frozen=True):
    """A record that is not an event, or without a published prediction: its bytes, reason and position.

    Attributes:
        value: all bytes of the record's value.
        reason: one of `REASONS`.
        path: JSON path of the invalid value.
        topic, partition, offset: position of the record.
        key: its key.
        headers: its headers.
        about: further headers of the dead letter, by name.
    """

    value: bytes
    reason: str
    path: str
    topic: str
    partition: int
    offset: int
    key: bytes | None = None
    headers: tuple[tuple[str, bytes], ...] = ()
    about: tuple[tuple[str, str], ...] = ()


class ReliabilityBin(msgspec.Struct, frozen=True):
    """Accuracy of the predictions of about one confidence: equal to the confidence if they are calibrated.

    The confidence of a prediction is the probability of the predicted label.

    Attributes:
        lower: exclusive lower bound of the confidences,
        upper: and inclusive upper bound.
        confidence: mean confidence.
        accuracy: share of correct predictions.
        events: number of events, >= 1.
    """

    lower: float
    upper: float
    confidence: float
    accuracy: float
    events: int


class Interval(msgspec.Struct, frozen=True):
    """An equal-tailed credible interval: the same probability lies below it as above it."""

    lower: float
    upper: float


class Scores(msgspec.Struct, frozen=True, omit_defaults=True):
    """Progressive validation over some events: each was predicted before it was learned.

    Attributes:
        events: how many labelled events were scored.
        accuracy: share of correct predictions.
        log_loss: mean of -ln P(truth), nats; a truth of probability below 1e-15 costs -ln(1e-15) = 34.5.
        macro_f1: unweighted mean of the F1 of every class seen as truth or prediction.
        kappa: Cohen's kappa.
        brier: mean over events of the sum over classes of (P(class) - [class is the truth])^2, in [0, 2].
        calibration_error: expected calibration error of the predicted label over ten equal bins.
        reliability: the calibration curve: the nonempty bins of the ten, in ascending order.
        accuracy_interval: credible interval of the accuracy, see `MetricsReport.interval_mass`; None if no
            event was scored.
    """

    events: int
    accuracy: float
    log_loss: float
    macro_f1: float
    kappa: float
    brier: float
    calibration_error: float
    reliability: tuple[ReliabilityBin, ...] = ()
    accuracy_interval: Interval | None = None


class ClassRate(msgspec.Struct, frozen=True):
    """Frequency of one class.

    Attributes:
        weight: total weight of the events learned with it, in examples.
        rate: its share of all that was learned.
        lower: lower bound of the credible interval of its rate in the source of the stream,
        upper: and upper bound.
    """

    weight: float
    rate: float
    lower: float
    upper: float


class HypothesisScore(msgspec.Struct, frozen=True):
    """Probability and loss of one hypothesis.

    Attributes:
        name: its name in the configuration, or its description.
        prior: its prior probability.
        posterior: its probability now, P(h | D).
        loss: its total log loss, nats.
    """

    name: str
    prior: float
    posterior: float
    loss: float


class PosteriorReport(msgspec.Struct, frozen=True):
    """Probabilities and losses of a model's hypotheses; see `model.posterior.sequential` for the bound.

    Attributes:
        hypotheses: in the order of the configuration.
        best: the name of the hypothesis with the least total log loss, the first of equals.
        loss: total log loss of the mixture of all hypotheses, nats, whichever of them predicts.
        regret: `loss` minus the loss of the best hypothesis.
        bound: bound of the regret up to rounding: ln(1 / prior of the best) + T ln(1 / (1 - r)).
        observations: T, the number of labelled events that were learned.
        switching_rate: r.
    """

    hypotheses: tuple[HypothesisScore, ...]
    best: str
    loss: float
    regret: float
    bound: float
    observations: int
    switching_rate: float


class DelayScores(msgspec.Struct, frozen=True):
    """Scores of events by the delay of their first label.

    Attributes:
        most: inclusive bound of the delay in seconds, greater than the previous bound; 0 for labels inside
            events, None for all longer delays.
        events: number of events.
        accuracy: share of correct predictions.
        log_loss: mean of -ln P(truth), nats.
    """

    most: float | None
    events: int
    accuracy: float
    log_loss: float


class AccuracyEstimate(msgspec.Struct, frozen=True, omit_defaults=True):
    """Estimated accuracy of predictions whose labels have not arrived.

    Attributes:
        events: the number of waiting events in the estimate, the newest.
        accuracy: the estimated share of correct predictions.
        interval: holds the share with the report's `interval_mass`.
        doubt: why the estimate is not to trust, or "": ``few-labels`` (fewer than 100 labelled events in the
            window), ``unlike-judged`` (more than a tenth of the events have a confidence of which fewer than
            ten were labelled) or ``changing`` (the older half of labelled events predicts another accuracy
            for the newer half than its labels show).
    """

    events: int
    accuracy: float
    interval: Interval
    doubt: str = ""


class LabelReport(msgspec.Struct, frozen=True, omit_defaults=True):
    """Counts and delays of labels that arrive separately from their events.

    Attributes:
        served: events predicted so far.
        judged: how many of them have a label in force.
        coverage: judged / served; 0 if nothing was served.
        pending: how many events wait, labelled or not.
        outcomes: outcome of label records -> number, see docs/labels.md.
        sources: source -> its label records so far.
        delays: scores by delay of the first label, for delays that have events.
        median_delay, p90_delay, p99_delay: bounds of quantiles of the delays of first labels, seconds; None
            without labels, or if the quantile is beyond all bounds.
        unjudged: estimated accuracy of predictions that wait for a first label; None if none wait.
        awaited: number of ids that have labels and no event yet.
    """

    served: int
    judged: int
    coverage: float
    pending: int
    outcomes: dict[str, int]
    sources: dict[str, int]
    delays: tuple[DelayScores, ...]
    median_delay: float | None
    p90_delay: float | None
    p99_delay: float | None
    unjudged: AccuracyEstimate | None = None
    awaited: int = 0


class DecisionScores(msgspec.Struct, frozen=True, omit_defaults=True):
    """Costs of decisions over some events.

    Attributes:
        events: number of labelled events; with 0, all other values are 0 and have no meaning.
        mean_cost: mean cost of the decisions, or of not deciding.
        coverage: the share of events with a decision.
        accuracy: the share of correct decisions; None if there are none.
    """

    events: int
    mean_cost: float
    coverage: float
    accuracy: float | None = None


class DecisionReport(msgspec.Struct, frozen=True):
    """Costs of decisions under the present costs.

    Attributes:
        cumulative: of all decisions since these costs are in force.
        window: of the last events with these costs that got a label, up to the window's size.
    """

    cumulative: DecisionScores
    window: DecisionScores


class MonitorReport(msgspec.Struct, frozen=True, omit_defaults=True):
    """The state of one monitor.

    Attributes:
        name: the monitor's name.
        kind: see `Alert`.
        raised: whether there is an alarm.
        bayes_factor: of out of bounds against within, and the reverse during an alarm; None for a monitor of
            silence.
    """

    name: str
    kind: str
    raised: bool
    bayes_factor: float | None = None


class ActionReport(msgspec.Struct, frozen=True, rename={"is_paused": "paused"}):
    """Effects of alarms, see docs/monitors.md.

    Attributes:
        is_paused: whether learning is paused.
        passed_over: number of labels so far that were ignored during pauses.
        renewed: number of resets of the model.
    """

    is_paused: bool
    passed_over: int
    renewed: int


class MetricsReport(msgspec.Struct, frozen=True, omit_defaults=True, tag="report", tag_field="kind"):
    """The state of progressive validation at one commit.

    Attributes:
        events: records consumed so far, of every sort.
        learned: events learned so far.
        dead_letters: records rejected so far.
        cumulative: scores over the whole stream.
        window: scores over the last `window_size` labelled events.
        window_size: the capacity of the window.
        classes: how many classes the model knows.
        labels: the classes, in order of first occurrence; rows and columns of `confusion`. Both are empty
            beyond 100 classes, because their square would not fit into a record.
        confusion: rows = truth, columns = prediction; the last column counts events met by an empty model.
        attributes: how many attribute rows the model holds.
        model: the model and its age.
        ts: the journalled time of the commit, seconds since the epoch.
        posterior: probabilities of the hypotheses, if the model weighs some.
        interval_mass: the probability of every credible interval in the report.
        class_rates: frequency of each class of `labels`, in their order; empty if nothing was learned.
        verdicts: counts and delays of labels, if they arrive separately from their events.
        served_by: what publishes predictions; with "scorers", the scores are still of the learner's own
            predictions of each event before it learned it.
        monitors: the state of each monitor, in the order of the configuration.
        decisions: costs of decisions, if decisions are configured.
    """

    events: int
    learned: int
    dead_letters: int
    cumulative: Scores
    window: Scores
    window_size: int
    classes: int
    labels: tuple[str, ...]
    confusion: tuple[tuple[int, ...], ...]
    attributes: int
    model: ModelInfo
    ts: float
    posterior: PosteriorReport | None = None
    interval_mass: float | None = None
    class_rates: tuple[ClassRate, ...] = ()
    verdicts: LabelReport | None = None
    served_by: str = "learner"
    monitors: tuple[MonitorReport, ...] = ()
    decisions: DecisionReport | None = None
    actions: ActionReport | None = None


class Drift(msgspec.Struct, frozen=True, tag="drift", tag_field="kind"):
    """A drift detector has found that the error rate has changed.

    Attributes:
        detector: one of `DETECTORS`.
        id: the event after whose prediction it was found.
        events: records consumed until then, of every sort, this event included.
        observations: labelled events since the detector last restarted, this event included.
        error_rate: share of them that were predicted wrong.
        recent_error_rate: share of the last 100 of them, or of all if there are fewer.
        model: the model that predicted this event, and its age.
        ts: the journalled time of the commit, seconds since the epoch.
    """

    detector: str
    id: str
    events: int
    observations: int
    error_rate: float
    recent_error_rate: float
    model: ModelInfo
    ts: float


class TenantStanding(msgspec.Struct, frozen=True, gc=False, kw_only=True, omit_defaults=True):
    """Size and accuracy of the model of one tenant.

    Attributes:
        tenant: its name; "" for events that name none.
        events: how many its model has learned.
        tested: how many it predicted before it learned them, when it knew a class.
        right: how many of these were predicted right.
        accuracy: right / tested; None if none was tested.
        labels: label -> its learned weight, in examples; the heaviest labels in descending order.
        rest: the total weight of all other labels; None if there are none.
        model: the model, and how many events of all tenants it had learned.
        ts: the journalled time of the commit, seconds since the epoch.
    """

    tenant: str
    events: int
    tested: int
    right: int
    accuracy: float | None
    labels: dict[str, float]
    rest: float | None = None
    model: ModelInfo
    ts: float


class Alert(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A monitor has found a value out of bounds, or within them again; or a new class.

    Attributes:
        monitor: its name.
        kind: "error-rate", "class-rate", "calibration", "no-events", "no-labels" or "new-class".
        state: "raised" or "cleared"; "discovered" for a new class.
        label: the class, if it is new.
        action: the alarm's action, "pause" or "renew"; "" if there is none, or it ends.
        direction: "above", "below", "overconfident" or "underconfident"; "" for silence.
        id: the event by which it was found; "" for silence.
        events: records consumed until then, of every sort, this one included.
        since: records consumed at the most probable time of the change.
        observations: how many there have been since then.
        rate: the share of these that the direction counts: wrong predictions, events (not) of the class, or
            wrong or right predictions among those that are too sure or not sure enough.
        tolerated: the mean share of these that was tolerated.
        bayes_factor: how many times as probable the observations are if the rate has changed.
        false_alarm: the probability that this alarm was raised, or ended, by chance is at most this.
        seconds: the duration of a silence.
        model: the model and its age.
        ts: the journalled time of the commit, seconds since the epoch.
    """

    monitor: str
    kind: str
    state: str
    label: str = ""
    action: str = ""
    direction: str = ""
    id: str = ""
    events: int
    since: int | None = None
    observations: int | None = None
    rate: float | None = None
    tolerated: float | None = None
    bayes_factor: float | None = None
    false_alarm: float | None = None
    seconds: float | None = None
    model: ModelInfo
    ts: float
