"""The vocabulary that every layer shares: what comes in and what goes out. All values are frozen.

The JSON form of each is a public contract, described with examples in docs/formats.md.
"""

from __future__ import annotations

from typing import Literal, get_args

import msgspec

TOO_MANY_CLASSES = "too-many-classes"
"""Why a record became a dead letter whose label is new, where there may be no more of them."""

UNPUBLISHED = "prediction-oversize"
"""Why a record became a dead letter that is an event, and was learned: its prediction is too large."""

LABEL_REASONS = (
    "unknown-event",  # a verdict on an event that did not come, or whose time was up: see `labels.window`
    "too-many-sources",  # a verdict of a fifth source on one event, or of one source too many
    "repeated",  # an event whose id is waiting for its label, where `events.repeats` says so
)
"""Why a record became a dead letter that can be read: it comes too late, or once too often."""

REASONS = (
    "oversize",  # the record is larger than the configured limit
    "invalid-utf8",  # the bytes are not UTF-8
    "invalid-json",  # the text is not JSON (NaN and Infinity are not JSON), or nested too deeply
    "lone-surrogate",  # an escaped half of a surrogate pair: no UTF-8 can hold it
    "missing",  # a required value is absent or null
    "wrong-type",  # a value of another JSON type than its attribute's kind
    "out-of-range",  # a number that no finite double holds, an empty id, a weight below zero, an odd time
    TOO_MANY_CLASSES,
    "label-record",  # a record of the topic of labels
    *LABEL_REASONS,
    UNPUBLISHED,
)
"""Why a record became a dead letter: a bounded set, fit for a metric label."""

DetectorName = Literal["adwin", "page_hinkley", "ddm", "eddm", "hddm_a", "hddm_w", "fhddm"]

DETECTORS: tuple[DetectorName, ...] = get_args(DetectorName)
"""Who can watch for drift, in the order in which they are told and report; see `model.evaluation.drift`."""


class Event(msgspec.Struct, frozen=True, gc=False):
    """One observation, with its label where it is known.

    Attributes:
        id: the producer's name for the event; a repeated id is another event.
        x: attribute name -> value: str for text and nominal attributes, float for continuous ones;
            a missing attribute is absent.
        label: the class, or None for an event that is only to be predicted.
        weight: how many examples the event counts for when it is learned.
        ts: event time in seconds since the epoch, or when the log recorded it where that is to count.
    """

    id: str
    x: dict[str, str | float | bool]
    label: str | None = None
    weight: float = 1.0
    ts: float | None = None


class LabelRecord(msgspec.Struct, frozen=True, gc=False):
    """A label that comes apart from its event: later, sooner, in place of an earlier one, or to take it back.

    Attributes:
        id: of the event.
        label: the class; None takes back what the same source said before.
        source: who says so.
        weight: how many examples the event counts for when it is learned with this label.
        ts: when it was said, seconds since the epoch; None is when the log recorded it.
    """

    id: str
    label: str | None
    source: str = "default"
    weight: float = 1.0
    ts: float | None = None


class Retraction(msgspec.Struct, frozen=True):
    """All that one source said between two times is void, as if it had never been said.

    Attributes:
        source: whose verdicts.
        since: those said at this time or later, seconds since the epoch; None is all.
        ts: those said at this time or before; None is when the log recorded the withdrawal.
    """

    source: str
    since: float | None = None
    ts: float | None = None


class Attribution(msgspec.Struct, frozen=True):
    """What one attribute value says: log odds of the predicted class against the runner-up (nats)."""

    attribute: str
    value: str | float
    log_odds: float


class ModelInfo(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """Which model spoke, and how many events it had learned before it spoke.

    A scorer's replica also says after which journal record, and a worker of Spark after which batch.
    """

    name: str
    events: int
    journal: int | None = None


class Prediction(msgspec.Struct, frozen=True, gc=False, kw_only=True, omit_defaults=True):
    """What the model said about one event before it learned it; its fields stand as in its JSON form.

    Attributes:
        id: the event's id.
        label: the most probable class; None while no class is known.
        probability: the probability of `label`.
        probabilities: every class known to the model -> probability; they sum to 1, with `rest`.
        rest: the probability of all classes together that are not told; None where all are.
        status: "ready", or "empty" while the model knows no class.
        unseen: the probability that its label is one that was never learned; None where that is not told.
        decision: the class that is decided, None where nothing is; unset where nobody asks.
        expected_cost: what that is expected to cost.
        rejected: why nothing is decided, "cost" or "novel", where novelty is asked for.
        novelty: the share of the judged events of the class that would be decided which are no more usual;
            None where that is not asked, or not known.
        truth: the event's own label, where it had one.
        evidence: the strongest attribute values, where evidence was asked for.
        hypotheses: hypothesis -> its probability by all learned before the event, where that was asked for.
        model: which model, at which age.
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
    hypotheses: dict[str, float] | None = None
    model: ModelInfo
    ts: float


class DeadLetter(msgspec.Struct, frozen=True):
    """A record that is not an event, or of which no prediction was published: its bytes, why and whence.

    Attributes:
        value: all bytes of it.
        reason: one of `REASONS`.
        path: JSON path of the value at fault.
        topic, partition, offset: where it lies.
        key: its key.
        headers: its headers.
        about: what else there is to say, by names of headers.
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
    """How sure the predictions of about one confidence were, and how often right: equal where calibrated.

    The confidence of a prediction is the probability of the label that was predicted.

    Attributes:
        lower: the bin holds confidences above this,
        upper: up to this one.
        confidence: mean confidence.
        accuracy: share predicted right.
        events: how many there were, >= 1.
    """

    lower: float
    upper: float
    confidence: float
    accuracy: float
    events: int


class Interval(msgspec.Struct, frozen=True):
    """An equal-tailed credible interval: it is as likely to be left on the one side as on the other."""

    lower: float
    upper: float


class Scores(msgspec.Struct, frozen=True, omit_defaults=True):
    """Progressive validation over some events: each was predicted before it was learned.

    Attributes:
        events: how many labelled events were scored.
        accuracy: share predicted right.
        log_loss: mean of -ln P(truth), nats; a truth of probability below 1e-15 costs -ln(1e-15) = 34.5.
        macro_f1: unweighted mean of the F1 of every class seen as truth or prediction.
        kappa: Cohen's kappa.
        brier: mean over events of the sum over classes of (P(class) - [class is the truth])^2, in [0, 2].
        calibration_error: expected calibration error of the predicted label over ten equal bins.
        reliability: the calibration curve, the bins of the ten that are not empty, from low to high; none in
            reports written before it was recorded.
        accuracy_interval: where the chance of a right prediction lies, see `MetricsReport.interval_mass`;
            None where no event was scored, and in reports written before it was recorded.
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
    """How frequent one class is.

    Attributes:
        weight: of the events learned with it, in examples.
        rate: its share of all that was learned.
        lower: the credible interval of its rate in the source of the stream: from here,
        upper: up to here.
    """

    weight: float
    rate: float
    lower: float
    upper: float


class HypothesisScore(msgspec.Struct, frozen=True):
    """How one hypothesis has fared.

    Attributes:
        name: what the configuration calls it, or how it reads.
        prior: its probability beforehand.
        posterior: its probability now, P(h | D).
        loss: its total log loss, nats.
    """

    name: str
    prior: float
    posterior: float
    loss: float


class PosteriorReport(msgspec.Struct, frozen=True):
    """How the hypotheses of a model have fared; see `model.posterior.sequential` for the bound.

    Attributes:
        hypotheses: in the order of the configuration.
        best: the name of the one with the least total log loss, the first of equals.
        loss: total log loss of the mixture of all, nats, whichever of them predicts.
        regret: what that is above the loss of the best.
        bound: what the regret cannot exceed but by rounding: ln(1 / prior of the best) + T ln(1 / (1 - r)).
        observations: T, the labelled events that were learned.
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
    """Scores of events whose first verdict came after a delay of at most so many seconds.

    Attributes:
        most: the bound of the delay, above that of the one before; 0 for labels that came with their events,
            and None for all that is longer.
        events: how many.
        accuracy: share of them predicted right.
        log_loss: mean of -ln P(truth), nats.
    """

    most: float | None
    events: int
    accuracy: float
    log_loss: float


class AccuracyEstimate(msgspec.Struct, frozen=True, omit_defaults=True):
    """How accurate predictions probably are whose labels have not come.

    Attributes:
        events: of how many, the newest that wait.
        accuracy: the share of them that was probably predicted right.
        interval: holds it with the report's `interval_mass`.
        doubt: why it is not to be trusted: ``few-labels`` (fewer than 100 events in the window are judged),
            ``unlike-judged`` (more than a tenth of the events are of a confidence of which fewer than ten
            were judged) or ``changing`` (of the newer half of judged events the older half expects another
            accuracy than labels show). "" is for no reason.
    """

    events: int
    accuracy: float
    interval: Interval
    doubt: str = ""


class LabelReport(msgspec.Struct, frozen=True, omit_defaults=True):
    """What came of labels that come apart from their events.

    Attributes:
        served: events predicted so far.
        judged: of these, how many have a label that stands.
        coverage: the share of that; 0 where nothing was served.
        pending: how many events wait, judged or not.
        outcomes: what became of verdicts -> how many, see docs/labels.md.
        sources: source -> its verdicts so far.
        delays: by delay of the first verdict, those that have events.
        median_delay, p90_delay, p99_delay: bounds of the delays of so many of the first verdicts, seconds;
            None where there were none, or that many are beyond all bounds.
        unjudged: how accurate predictions probably are that wait for a first label; None where none do.
        awaited: ids that labels name and no event has had yet.
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
    """What decisions turned out to be worth over some events.

    Attributes:
        events: how many have a label; of none, all else is 0 and says nothing.
        mean_cost: of what was decided of them, or of not deciding.
        coverage: the share of which something was decided.
        accuracy: the share of these that was decided right; None where there are none.
    """

    events: int
    mean_cost: float
    coverage: float
    accuracy: float | None = None


class DecisionReport(msgspec.Struct, frozen=True):
    """What decisions under the present costs turned out to be worth.

    Attributes:
        cumulative: since these hold.
        window: of the last events of these that got a label, as many as the window holds.
    """

    cumulative: DecisionScores
    window: DecisionScores


class MonitorReport(msgspec.Struct, frozen=True, omit_defaults=True):
    """How a monitor stands.

    Attributes:
        name: of the monitor.
        kind: see `Alert`.
        raised: whether there is an alarm.
        bayes_factor: of out of bounds against within, and of the way back while there is an alarm; None of a
            monitor of a silence.
    """

    name: str
    kind: str
    raised: bool
    bayes_factor: float | None = None


class ActionReport(msgspec.Struct, frozen=True, rename={"is_paused": "paused"}):
    """What alarms did, see docs/monitors.md.

    Attributes:
        is_paused: whether learning is paused.
        passed_over: labels that came while it was, so far.
        renewed: how often the model was.
    """

    is_paused: bool
    passed_over: int
    renewed: int


class MetricsReport(msgspec.Struct, frozen=True, omit_defaults=True, tag="report", tag_field="kind"):
    """The state of progressive validation at one commit.

    Attributes:
        events: records consumed so far, of every sort.
        learned: events learned so far.
        dead_letters: records refused so far.
        cumulative: scores over the whole stream.
        window: scores over the last `window_size` labelled events.
        window_size: the most events the window holds.
        classes: how many classes the model knows.
        labels: the classes, in the order in which they were met; rows and columns of `confusion`. Both are
            empty beyond 100 classes: their square would not fit into a record.
        confusion: rows = truth, columns = prediction; the last column counts events met by an empty model.
        attributes: how many attribute rows the model holds.
        model: which model.
        ts: the journalled time of the commit, seconds since the epoch.
        posterior: of the hypotheses, where the model weighs some.
        interval_mass: the probability of every credible interval in the report.
        class_rates: how frequent each class of `labels` is, in their order; empty where nothing was learned.
        verdicts: what came of labels, where they come apart from their events.
        served_by: who publishes predictions; where it is "scorers", the scores are nevertheless of what the
            learner itself would have said of each event before it learned it.
        monitors: how each monitor stands, in the order of the configuration.
        decisions: what decisions turned out to be worth, where it is decided.
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
    """A detector has found that predictions go wrong at another rate than before.

    Attributes:
        detector: which; one of `DETECTORS`.
        id: the event after whose prediction it was found.
        events: records consumed until then, of every sort, this event included.
        observations: labelled events that the detector rests on, from where it last began to this event.
        error_rate: share of them that were predicted wrong.
        recent_error_rate: share of the last 100 of them, or of all where there are fewer.
        model: which model, at which age, predicted this event.
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
    """Where the model of one tenant stands.

    Attributes:
        tenant: its name; "" of events that name none.
        events: how many its model has learned.
        tested: how many it predicted before it learned them, when it knew a class.
        right: how many of these were predicted right.
        accuracy: the share of these; None where none was tested.
        labels: label -> the weight learned of it, in examples; the heaviest ones, the heaviest first.
        rest: the weight of all others; None where there are none.
        model: which model, and how many events of all tenants it had learned.
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
    """A monitor has found that something is out of bounds, or within them again; or a new class.

    Attributes:
        monitor: its name.
        kind: "error-rate", "class-rate", "calibration", "no-events", "no-labels" or "new-class".
        state: "raised" or "cleared"; "discovered" of a new class.
        label: the class, where it is new.
        action: what the alarm does beside being told, "pause" or "renew"; "" is nothing, or its end.
        direction: "above", "below", "overconfident" or "underconfident"; "" of a silence.
        id: the event by which it was found; "" of a silence.
        events: records consumed until then, of every sort, this one included.
        since: records consumed when it began to be so, most probably.
        observations: how many there have been since then.
        rate: the share of these that the direction counts: wrong ones, or those (not) of the class, or wrong
            ones or right ones of predictions that are too sure or not sure enough.
        tolerated: the mean share of these that was tolerated.
        bayes_factor: how many times as probable all that was heard is if it has changed.
        false_alarm: the probability that this alarm was raised, or ended, by chance is at most this.
        seconds: how long nothing was heard, of a silence.
        model: which model, at which age.
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
