"""The bodies of requests and answers, as OpenAPI describes them."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from streamnb.formats.codec import UNNAMED
from streamnb.values.example_weights import HEAVIEST

MOST_EVENTS = 1000
"""Events, or labels, in one request."""
Asking = str | dict[str, Any]
"""A text, or an event as on the events topic."""

_MOST_KEYS = 20
_OPEN = ConfigDict(extra="allow")
_STRICT = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)


class _Asked(BaseModel):
    """A request, whose keys are counted first, so that a million wrong keys give one error."""

    model_config = _STRICT

    @model_validator(mode="before")
    @classmethod
    def _few(cls, given: Any) -> Any:
        if isinstance(given, dict) and len(given) > _MOST_KEYS:
            raise ValueError(f"expected at most {_MOST_KEYS} keys, found {len(given):,}")
        return given


class Question(_Asked):
    """Events to be predicted: texts, or objects as on the events topic; ids may be left out."""

    events: Annotated[list[Asking], Field(min_length=1, max_length=MOST_EVENTS, fail_fast=True)]


class Predicted(BaseModel):
    """The prediction of one event.

    `warning` is present if the model has learned no value of the event, or values of another type of one of
    its attributes. `decision` and `expected_cost` are present if the configuration has costs; a decision of
    null decides nothing.
    """

    id: str | None
    label: str
    probability: float
    probabilities: dict[str, float]
    unseen: float
    decision: str | None = None
    expected_cost: float | None = None
    rejected: str | None = None
    novelty: float | None = None
    warning: str | None = None


class Answer(BaseModel):
    """Predictions in the order of the events, by the model after one journal record."""

    predictions: list[Predicted]
    journal: int


class PublishedEvidence(BaseModel):
    """The log odds (nats) of one attribute value, for the predicted class against the runner-up."""

    attribute: str
    value: str | float
    log_odds: float


class PredictionRecord(BaseModel):
    """A prediction as published; docs/formats.md describes each field."""

    model_config = _OPEN

    id: str
    label: str | None
    probability: float | None
    probabilities: dict[str, float]
    rest: float | None = None
    status: str
    unseen: float | None = None
    decision: str | None = None
    expected_cost: float | None = None
    rejected: str | None = None
    novelty: float | None = None
    truth: str | None = None
    evidence: list[PublishedEvidence] | None = None
    prior: float | None = None
    hypotheses: dict[str, float] | None = None
    model: dict[str, Any]
    ts: float


class EventInputs(_Asked):
    """Events to be written to the events topic, as on the topic.

    `keys` are the keys of the records, one for each event; by default an event's entity or id.
    """

    events: Annotated[list[dict[str, Any]], Field(min_length=1, max_length=MOST_EVENTS)]
    keys: list[str] | None = None


class EventWritten(BaseModel):
    """One event: its id and its position on the topic; or why it was refused.

    `reason`, `path` and `detail` are those of a dead letter. `prediction` is present if the request waits
    for it: the prediction as published, or null if none was published in time.
    """

    id: str | None = None
    topic: str | None = None
    partition: int | None = None
    offset: int | None = None
    prediction: PredictionRecord | None = None
    reason: str | None = None
    path: str | None = None
    detail: str | None = None


class EventsWritten(BaseModel):
    """The number of events that were written durably, and the outcome of each, in order.

    `warning` is present if the request waited for predictions and no learner runs.
    """

    written: int
    events: list[EventWritten]
    warning: str | None = None


class SkippedRecords(BaseModel):
    """Records that a cursor names and that cannot be read.

    `reason` is "retention" (deleted), "recreated" (a new topic of the same name), "lost" (the topic ends
    before the cursor) or "partitions" (a new partition, read from its first record).
    """

    reason: str
    partition: int
    offset: int
    continues: int


class PublishedAlert(BaseModel):
    """An alert as published; docs/formats.md describes its further fields."""

    model_config = _OPEN

    monitor: str
    kind: str
    state: str
    model: dict[str, Any]
    ts: float


class PublishedLabel(BaseModel):
    """A record of the labels topic: a label, or the withdrawal of a source."""

    model_config = _OPEN

    id: str | None = None
    label: str | None = None
    source: str | None = None
    weight: float | None = None
    ts: float | str | None = None
    by: str | None = None
    withdraw: bool | None = None
    since: float | str | None = None


class UnreadableRecord(BaseModel):
    """A record that is not a JSON object: its first 200 characters."""

    unreadable: str


class _Page(BaseModel):
    """Records as published, oldest first; `next` is the cursor after them."""

    next: str
    gaps: list[SkippedRecords]


class PredictionsPage(_Page):
    """Predictions, oldest first."""

    predictions: list[PredictionRecord | UnreadableRecord]


class AlertsPage(_Page):
    """Alerts, oldest first."""

    alerts: list[PublishedAlert | UnreadableRecord]


class LabelsPage(_Page):
    """Label records, oldest first."""

    labels: list[PublishedLabel | UnreadableRecord]


class Why(_Asked):
    """An event whose prediction to explain, compared with the next label or a given label."""

    event: Asking
    against: str | None = None
    top: Annotated[int, Field(ge=1, le=1000)] = 10


Value = str | bool | float
"""The value of an attribute."""


class Evidence(BaseModel):
    """One attribute value, and how much it adds to the log odds of the label (nats).

    `counts` holds by label the number of examples that had the value. `name` is the value as it is
    shown: the empty word, which stands for the absent words of a text, has a name.
    """

    attribute: str
    value: Value
    name: Value
    log_odds: float
    counts: dict[str, float]


class Turn(BaseModel):
    """Values without which another label would be the most probable."""

    without: list[Value]
    named: list[str]
    label: str
    probability: float


class Explained(BaseModel):
    """The explanation of one prediction: the label, the label it is compared with, and the evidence.

    `prior` is the part of the log odds that no value of the event adds (nats).
    """

    label: str
    against: str
    probabilities: dict[str, float]
    prior: float
    evidence: list[Evidence]
    turns: Turn | None
    decision: str | None = None
    expected_cost: float | None = None
    rejected: str | None = None
    novelty: float | None = None
    warning: str | None = None


class Known(BaseModel):
    """One word or value in one attribute that has it.

    `counts` holds the examples by label, `weights` what the value alone adds to the log odds of each label
    against all others (nats).
    """

    attribute: str
    value: str
    counts: dict[str, float]
    weights: dict[str, float]
    is_stop_word: bool


class Token(BaseModel):
    """The attributes in which the model knows a word or value."""

    word: str
    found: list[Known]


class ModelState(BaseModel):
    """The model: its classes with their weights, its readiness, and its position in the journal.

    `journal` and `seconds_since_commit` are null before the first journal record was followed.
    """

    classes: dict[str, float]
    attributes: int
    status: Literal["empty", "warming", "ready"]
    missing: list[str]
    journal: int | None
    learned: int
    seconds_since_commit: float | None
    seconds_since_look: float | None
    learner: Literal["running", "silent", "stopped", "not known"]
    actions: dict[str, Any] | None = None


_Name = Annotated[str, Field(min_length=1, max_length=1000)]


class LabelInput(_Asked):
    """The label of an event, or null to take back the source's earlier label.

    `ts` is in seconds since 1970. `by` names its author, by default the name of the client's token.
    """

    id: _Name
    label: _Name | None
    source: _Name = UNNAMED
    weight: Annotated[float, Field(ge=0.0, le=HEAVIEST)] = 1.0
    ts: float | None = None
    by: _Name | None = None


class LabelInputs(_Asked):
    """Labels to be written to the topic of labels."""

    labels: Annotated[list[LabelInput], Field(min_length=1, max_length=MOST_EVENTS, fail_fast=True)]


class Statement(BaseModel):
    """The label that one source gave an event, and when; null takes back the source's earlier label.

    `by` names its author, if its record is among the newest and has one.
    """

    label: str | None
    source: str
    ts: float
    by: str | None = None


class Accepted(BaseModel):
    """One label that was written, and what the replica knew of its event and class at that moment.

    Attributes:
        id: the event's id.
        event_known: whether the event has come and still waits for labels; null before the first model.
        class_known: whether the model has learned the class; null before the first model, and for a label
            of null.
        holds: the label in force at journal record `journal`, which does not include the label just written;
            null if no label is in force.
        learned: whether the model follows the label now; only if the request waits for it.
        undo: pass it to `POST /labels/undo` to restore the label that the source had before; null if the
            event is not known.
        warning: present if the model has learned no example of the label, but some of a class that differs
            from it only by case, blanks or Unicode form; or if the learner will refuse the label, because
            its source is one too many.
    """

    id: str
    event_known: bool | None
    class_known: bool | None
    holds: Statement | None
    learned: bool | None = None
    undo: str | None = None
    warning: str | None = None


class Undo(_Asked):
    """What to undo: `undo` of a label that was written."""

    undo: Annotated[str, Field(min_length=1, max_length=8000)]


class Written(BaseModel):
    """The labels that were written durably, in the order of the request; the learner reads them from there.

    `journal` is the journal record that `labels` refers to; null before the first model.
    """

    written: int
    labels: list[Accepted]
    journal: int | None


class Held(BaseModel):
    """The label in force for an event after one journal record, and the labels of other sources.

    `label`, `source` and `ts` are null if no label is in force.
    """

    label: str | None
    source: str | None
    ts: float | None
    journal: int
    others: list[Statement]
    by: str | None = None


class Decided(BaseModel):
    """The rule that decided a published prediction.

    `rule` is "probability" (the most probable class; no decisions are configured), "cost" (the least expected
    cost, or null if each exceeds `decision.reject`), "novelty" (not decided, because the event is too novel)
    or "nothing-known" (no class could be predicted). `outcome` is the class or decision.
    """

    rule: Literal["probability", "cost", "novelty", "nothing-known"]
    outcome: str | None
    runner_up: str | None
    runner_up_probability: float | None
    expected_cost: float | None = None
    novelty: float | None = None


class ExplainedPrediction(BaseModel):
    """A prediction as published, what decided, and the label in force now.

    `evidence` of the prediction is present if `predictions.evidence` is set. `label` is null if no label is
    in force, the model is loading, or the event waits no longer for labels.
    """

    prediction: PredictionRecord
    decided: Decided
    label: Statement | None


class Withdrawal(_Asked):
    """A source whose labels no longer count: those from `since` to `ts`, in seconds since 1970.

    Without `since` it is from the first label on; without `ts` until the log records the withdrawal.
    """

    source: _Name
    since: float | None = None
    ts: float | None = None


class Withdrawn(BaseModel):
    """The withdrawal that was written durably; the learner reads it from there."""

    source: str
    since: float | None
    ts: float | None


class ChangedSetting(BaseModel):
    """A key of the configuration with its value before and after, as TOML."""

    key: str
    before: str
    after: str


class Reloaded(BaseModel):
    """The keys that a reload of the configuration has changed in the server."""

    changes: list[ChangedSetting]


class Problem(BaseModel):
    """An error (RFC 9457): `code` is stable and meant for programs, `detail` is meant for people."""

    type: str
    title: str
    status: int
    detail: str
    code: str
