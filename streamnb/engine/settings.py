"""What a learner is told to do besides its model: outputs, pruning, reports."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import msgspec

from streamnb.formats.event_schema import EventSchema
from streamnb.scoring.decision_rule import DecisionRule

ROOM_EVERY = 128
"""Events learned between two looks whether memory is short; a label that is new is a look, too."""


@dataclass(frozen=True)
class Pruning:
    """When and what of the vocabulary is forgotten; see `NaiveBayes.prune`. `every` 0 is never."""

    every: int = 0
    min_count: float = 0.0
    drop_most_frequent: int = 0
    max_attributes: int | None = None


@dataclass(frozen=True)
class LabelSettings:
    """How labels are taken that come apart from their events.

    Attributes:
        topic: where they are read; "" where repeated events are looked for, and nothing else.
        window: how long an event waits for its label, seconds.
        memory: of the events that wait, bytes.
        repeats: what becomes of an event whose id waits already: "learn", "skip" or "dead-letter".
        ranks: source -> rank; the higher one holds. Others have 1, and labels inside events 0.
        weights: source -> what its verdicts count, by their own weights; others count 1.
    """

    topic: str = ""
    window: float = 7 * 86400.0
    memory: int = 256 << 20
    repeats: str = "learn"
    ranks: Mapping[str, int] = field(default_factory=dict)
    weights: Mapping[str, float] = field(default_factory=dict)


class MonitorSettings(msgspec.Struct, frozen=True):
    """What one monitor watches, see `streamnb.engine.processing.monitors`.

    Attributes:
        name: what alerts call it.
        kind: "error-rate", "class-rate", "calibration", "no-events", "no-labels" or "new-class".
        tolerated: up to which rate, or between which rates, all is well; of calibration, the error.
        alarming: from which rate on there has to be an alarm; as many as there are of `tolerated`.
        label: the class, of a class rate.
        of: whether its rate is one of "predictions" or of "labels".
        after: a silence, seconds.
        false_alarm: the probability that any of its alarms is false.
        miss: the probability that an alarm takes longer than stated.
        action: what an alarm does beside being told, see `streamnb.engine.processing.alarm_responses`:
        "tell" is nothing more.
        pause_records: how many records a pause lasts at most.
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
    """What a learner does beside learning.

    Attributes:
        schema: how events are read.
        predictions: topic of predictions.
        metrics: topic of reports.
        dead_letters: topic of refused records.
        alerts: topic of what monitors find.
        tenants: topic of where the model of each tenant stands; "" where nobody says.
        name: what predictions call the model.
        report_every: records between two reports.
        report_seconds: a commit also reports where the last report is this old.
        window: labelled events in the sliding window.
        interval: the probability of the credible intervals in reports.
        evidence: how many items of evidence a prediction carries; with any, events are handled one by one.
        hypotheses: whether a prediction says how probable each hypothesis was, of a model that weighs some.
        unseen: whether a prediction says how probable a label is that was never learned.
        pruning: what is forgotten, and when.
        detectors: who watches the predictions for drift; see `streamnb.scoring.drift_detectors`.
        monitors: who tells what is out of bounds.
        max_bytes: of a prediction with its key, and of a report; 0 is no limit.
        letter_bytes: of a dead letter, where its topic takes less than usual; 0 is what is usual.
        top: the most classes whose probabilities a prediction tells; 0 is all, whatever they take.
        by: who publishes predictions, "learner" or "scorers"; the learner makes and scores them all the same.
        max_classes: the most classes; an event or verdict with another label is a dead letter. 0 is no limit.
        min_learns: the examples with which a class may be predicted; 1 is any.
        labels: how labels are taken that come apart; None where all come in their events.
        decision: by which rule predictions say what to decide; None where they do not.
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
    by: str = "learner"
    max_classes: int = 0
    min_learns: int = 1
    labels: LabelSettings | None = None
    decision: DecisionRule | None = None
