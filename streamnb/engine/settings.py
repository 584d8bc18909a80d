"""Learner settings other than the model: outputs, pruning, labels, reports."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import msgspec

from streamnb.formats.event_schema import EventSchema
from streamnb.scoring.decision_rule import DecisionRule

ROOM_EVERY = 128
"""Events learned between two checks of the memory budget; a new label is checked at once."""


@dataclass(frozen=True)
class Pruning:
    """Pruning of the vocabulary, see `NaiveBayes.prune`; `every` 0 means never."""

    every: int = 0
    min_count: float = 0.0
    drop_most_frequent: int = 0
    max_attributes: int | None = None


@dataclass(frozen=True)
class LabelSettings:
    """Settings of labels that arrive separately from their events.

    Attributes:
        topic: topic of label records; "" if only repeated events are detected.
        window: time that an event waits for its label, seconds.
        memory: maximum bytes of waiting events.
        repeats: action for an event whose id waits already: "learn", "skip" or "dead-letter".
        ranks: source -> rank; the highest wins. Default 1, and 0 for labels inside events.
        weights: source -> weight factor of its labels, default 1.
    """

    topic: str = ""
    window: float = 7 * 86400.0
    memory: int = 256 << 20
    repeats: str = "learn"
    ranks: Mapping[str, int] = field(default_factory=dict)
    weights: Mapping[str, float] = field(default_factory=dict)


class MonitorSettings(msgspec.Struct, frozen=True):
    """Settings of one monitor, see `streamnb.engine.processing.monitors`.

    Attributes:
        name: name in alerts.
        kind: "error-rate", "class-rate", "calibration", "no-events", "no-labels" or "new-class".
        tolerated: normal maximum rate, or minimum and maximum; for calibration, the error.
        alarming: rates that must raise an alarm; as many as in `tolerated`.
        label: the class of a class rate.
        of: "predictions" or "labels", whose rate is monitored.
        after: duration of a silence, seconds.
        false_alarm: probability that any of its alarms is false.
        miss: probability that an alarm takes longer than stated.
        action: response to an alarm, see `streamnb.engine.processing.alarm_responses`; "tell" only alerts.
        pause_records: maximum length of a pause, in records.
    """

    name: str
    kind: str
    tolerated: tuple[float, ...] = ()
    alarming: tuple[float, ...] = ()
    label: str = ""
    of: str = "predictions"
    after: float = 0.0
    false_alarm: float = 0.01
    miss: float = 0.05
    action: str = "tell"
    pause_records: int = 10_000


@dataclass(frozen=True)
class Settings:
    """Settings of a learner other than its model.

    Attributes:
        schema: decoding of events.
        predictions: topic of predictions.
        metrics: topic of reports.
        dead_letters: topic of rejected records.
        alerts: topic of alerts.
        tenants: topic of the statistics of each tenant; "" for none.
        name: name of the model in predictions.
        report_every: records between two reports.
        report_seconds: maximum age of the last report at a commit.
        window: labelled events in the sliding window.
        interval: probability of the credible intervals in reports.
        evidence: maximum number of items of evidence in a prediction.
        hypotheses: include the posterior of each hypothesis in predictions, if the model has hypotheses.
        unseen: include the probability of a new class in predictions.
        pruning: pruning of the vocabulary.
        detectors: drift detectors; see `streamnb.scoring.drift_detectors`.
        monitors: monitors of rates and silences.
        max_bytes: maximum bytes of a prediction with its key, and of a report; 0 is unlimited.
        letter_bytes: maximum bytes of a dead letter, if its topic takes less than the default; 0 is the
            default.
        top: maximum number of classes in a prediction; 0 is all.
        traceparent: copy the header `traceparent` of an event to its prediction.
        by: publisher of predictions, "learner" or "scorers"; the learner computes and scores them anyway.
        max_classes: maximum number of classes; further labels become dead letters. 0 is unlimited.
        min_learns: minimum number of examples of a class that may be predicted.
        labels: settings of delayed labels; None if all labels are inside events.
        decision: decision rule of predictions, or None.
    """

    schema: EventSchema
    predictions: str = "predictions"
    metrics: str = "metrics"
    dead_letters: str = "dead-letters"
    alerts: str = "alerts"
    tenants: str = ""
    name: str = "default"
    report_every: int = 1000
    report_seconds: float = 1.0
    window: int = 1000
    interval: float = 0.95
    evidence: int = 0
    hypotheses: bool = False
    unseen: bool = False
    pruning: Pruning = Pruning()
    detectors: tuple[str, ...] = ()
    monitors: tuple[MonitorSettings, ...] = ()
    max_bytes: int = 0
    letter_bytes: int = 0
    top: int = 0
    traceparent: bool = False
    by: str = "learner"
    max_classes: int = 0
    min_learns: int = 1
    labels: LabelSettings | None = None
    decision: DecisionRule | None = None
