"""Every key there is, section by section, with its kind and its default.

Durations are seconds and sizes are bytes once they are read. docs/configuration.md is the manual.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec

from streamnb.config.attribute_config import ATTRIBUTES, AttributeConfig
from streamnb.config.config_literals import literal
from streamnb.config.config_sections import Section, walk
from streamnb.config.connections import HttpConfig, KafkaConfig, LogConfig, LogOutputConfig
from streamnb.config.decision_config import DecisionConfig
from streamnb.config.hypothesis_config import (
    HYPOTHESES,
    HypothesisConfig,
    PosteriorConfig,
    default_hypotheses,
)
from streamnb.config.model_kinds import CLASSIFIERS, ModelKind
from streamnb.config.monitor_config import MONITORS, MonitorConfig
from streamnb.config.source_config import SOURCES, RegistryConfig, SourceConfig
from streamnb.config.validators import (
    ALIASES,
    BOOLEAN,
    JSON_PATH,
    LABELS,
    LIMIT,
    NAME,
    NO_TOPIC,
    OPTIONAL_PATH,
    PARENTS,
    PARTITIONS,
    PROPORTION,
    RANKS,
    SHARE,
    SIZE,
    SOURCE_WEIGHTS,
    STRING,
    TOPIC,
    TOPICS,
    VARIANCE,
    WEIGHTS,
    Validator,
    duration,
    number,
    whole,
)
from streamnb.config.webhook_config import WEBHOOKS, WebhookConfig
from streamnb.events import DETECTORS, DetectorName
from streamnb.features.attributes import EventModel
from streamnb.statistics.memory_budget import of_features

Repeats = Literal["learn", "skip", "dead-letter"]
_DEFAULT_SWITCHING_RATE = 1e-4  # of the default hypotheses: the best one changes as a stream grows


class TopicsConfig(Section, frozen=True):
    """Names of the topics, all different, and the settings with which topics are created.

    Attributes:
        events: events to learn from and to predict: one topic or several.
        predictions: the model's prediction of each event before it learned the event.
        metrics: reports of progressive validation.
        dead_letters: records that are not events, with the reason.
        journal: what each commit processed, in which order.
        labels: labels that arrive separately from their events; empty for none.
        alerts: alerts of monitors; empty without monitors, and "alerts" with some.
        tenants: the status of each tenant's model; empty for none.
        requests: idempotency keys of `POST /events`, on Kafka; empty for none.
        partitions: partitions of a topic that is created (the journal has one).
        replication: copies of each, on Kafka; 0 is three, or as many as there are brokers.
        retention: seconds for which records are kept, on Kafka (the journal's for ever).
    """

    events: Annotated[tuple[str, ...], TOPICS] = ("events",)
    predictions: Annotated[str, TOPIC] = "predictions"
    metrics: Annotated[str, TOPIC] = "metrics"
    dead_letters: Annotated[str, TOPIC] = "dead-letters"
    journal: Annotated[str, TOPIC] = "journal"
    labels: Annotated[str, NO_TOPIC] = ""
    alerts: Annotated[str, NO_TOPIC] = ""
    tenants: Annotated[str, NO_TOPIC] = ""
    requests: Annotated[str, NO_TOPIC] = ""
    partitions: Annotated[int, whole(1, 1000)] = 1
    replication: Annotated[int, whole(0, 10)] = 0
    retention: Annotated[float, duration(above_zero=True)] = 7 * 86400.0

    @property
    def names(self) -> list[tuple[str, str]]:
        """(key, name) of every topic; the key ``events`` may have several."""
        return [
            *(("events", name) for name in self.events),
            ("predictions", self.predictions),
            ("metrics", self.metrics),
            ("dead_letters", self.dead_letters),
            ("journal", self.journal),
            *([("labels", self.labels)] if self.labels else []),
            *([("alerts", self.alerts)] if self.alerts else []),
            *([("tenants", self.tenants)] if self.tenants else []),
            *([("requests", self.requests)] if self.requests else []),
        ]

    @property
    def read(self) -> tuple[str, ...]:
        """The topics that a learner reads."""
        return (*self.events, self.labels) if self.labels else self.events


class EventsConfig(Section, frozen=True):
    """Paths and limits of events.

    Attributes:
        id: path of the id.
        label: path of the label.
        ts: path of the event time, seconds since the epoch; empty reads none.
        weight: path of the event's weight in examples; empty counts each event once.
        max_bytes: a larger record becomes a dead letter.
        letter_bytes: size of the beginning that the dead letter of a larger record keeps; 0 is the size for
            which the topic is created. If the topic takes less, `run` keeps less.
        entity: path of its entity; None is the record's key. Read by models that use entities.
        clock: "log": the log's time dates an event without a time, and bounds possible times; "event": only
            events have times.
        repeats: for an event whose id already waits for its label: "learn", "skip" (its label is a label of
            the first event), or "dead-letter".
        partitions: partitions that a shard reads, of each topic; empty is all.
    """

    id: Annotated[str, JSON_PATH] = "$.id"
    label: Annotated[str, JSON_PATH] = "$.label"
    ts: Annotated[str, OPTIONAL_PATH] = "$.ts"
    weight: Annotated[str, OPTIONAL_PATH] = ""
    max_bytes: Annotated[int, SIZE] = 1 << 20
    letter_bytes: Annotated[int, LIMIT] = 0
    entity: Annotated[str | None, JSON_PATH] = None
    clock: Literal["log", "event"] = "log"
    repeats: Repeats = "learn"
    partitions: Annotated[tuple[int, ...], PARTITIONS] = ()


class LabelsConfig(Section, frozen=True):
    """Labels that arrive separately from their events, on the topic ``topics.labels``.

    Attributes:
        window: how long an event waits for its label, by the log's times of the events.
        memory: of waiting events; beyond it the oldest stop waiting.
        ranks: source -> rank: the label of the highest rank is in force. Default 1; labels inside events have
            0.
        weights: source -> the weight of its labels; default 1.
        allowed: labels that `serve`, its page and `label` write; empty is any. A learner reads all.
    """

    window: Annotated[float, duration(above_zero=True)] = 7 * 86400.0
    memory: Annotated[int, SIZE] = 256 << 20
    ranks: Annotated[dict[str, int], RANKS] = msgspec.field(default_factory=dict)
    weights: Annotated[dict[str, float], SOURCE_WEIGHTS] = msgspec.field(default_factory=dict)
    allowed: Annotated[tuple[str, ...], LABELS] = ()


class PruneConfig(Section, frozen=True):
    """Pruning of the vocabulary (Joachims 1996).

    Attributes:
        every: events between two prunings; 0 is never, except once for a holdout.
        min_count: words of a smaller total weight are forgotten.
        drop_most_frequent: number of the most frequent words that become stop words.
        max_attributes: maximum number of words and values; 0 is unlimited.
    """

    every: Annotated[int, whole(0)] = 0
    min_count: Annotated[float, number(0)] = 0.0
    drop_most_frequent: Annotated[int, whole(0)] = 0
    max_attributes: Annotated[int, whole(0)] = 0

    @property
    def unread(self) -> str | None:
        """Return the first pruning limit that is set although `every` is 0, if any."""
        said = ("max_attributes", "min_count", "drop_most_frequent")
        return None if self.every else next((name for name in said if getattr(self, name)), None)


class ModelConfig(Section, frozen=True):
    """The model, and how it estimates probabilities from counts.

    Attributes:
        name: what predictions and metrics call the model.
        kind: "naive_bayes", or "mixture", of the hypotheses that are declared or else of the default ones, or
            a classifier of `CLASSIFIERS`. Where hypotheses are declared it is "mixture".
        alpha: added to every count, where `m` is None; 0 is read as the limit.
        m: equivalent sample size of the m-estimate (n_c + m p) / (n + m), in place of alpha.
        p: prior estimate of the m-estimate; None is uniform over the values declared or seen.
        event_model: "multinomial" or "bernoulli", for texts without their own.
        prior: "learned" (label frequency), "uniform", or "given" by `priors`.
        priors: label -> relative weight; a label left out has none.
        unlabelled_weight: weight of an event without a label, in examples, for a semi-supervised model.
        unlabelled_window: number of the newest such events that are used.
        revisits: number of these that are learned again after each event.
        C: weight of events against the prior of a logistic regression.
        features: its maximum number of columns.
        transition_m: m of the m-estimate of transitions from class to class within an entity.
        entities: maximum number of entities.
        time_to_live: seconds of event time after which an entity starts again; 0 is never.
        parents: attribute -> its parents in a Bayesian network, "label" among them.
        cells: maximum number of cells of one of its tables.
        memory: bytes for active models of tenants.
        tenants: maximum number of tenants with a model of their own.
        shared: whether a model of all tenants' events is the prior of each.
        prune: pruning of the vocabulary.

    A key that a kind of model does not have is None.
    """

    name: Annotated[str, NAME] = "default"
    kind: ModelKind = "mixture"
    alpha: Annotated[float, number(0)] = 1.0
    m: Annotated[float | None, number(0)] = None
    p: Annotated[float | None, PROPORTION] = None
    event_model: EventModel = "multinomial"
    prior: Literal["learned", "uniform", "given"] = "learned"
    priors: Annotated[dict[str, float], WEIGHTS] = msgspec.field(default_factory=dict)
    unlabelled_weight: Annotated[float | None, SHARE] = None
    unlabelled_window: Annotated[int | None, whole(1, 1_000_000)] = None
    revisits: Annotated[int | None, whole(0, 1000)] = None
    C: Annotated[float | None, VARIANCE] = None
    features: Annotated[int | None, whole(1, 100_000)] = None
    transition_m: Annotated[float | None, number(0)] = None
    entities: Annotated[int | None, whole(1, 10_000_000)] = None
    time_to_live: Annotated[float | None, duration()] = None
    parents: Annotated[dict[str, tuple[str, ...]] | None, PARENTS] = None
    cells: Annotated[int | None, whole(1, 1 << 28)] = None
    memory: Annotated[int | None, SIZE] = None
    tenants: Annotated[int | None, whole(1, 10_000_000)] = None
    shared: Annotated[bool | None, BOOLEAN] = None
    prune: PruneConfig = PruneConfig()

    @property
    def reads_entity(self) -> bool:
        """True if the model uses the entity of an event."""
        return self.kind in CLASSIFIERS and CLASSIFIERS[self.kind].reads_entity

    @property
    def own(self) -> dict[str, Any]:
        """The keys that the classifier alone has, with its defaults filled in; none of another kind."""
        defaults = CLASSIFIERS[self.kind].own if self.kind in CLASSIFIERS else {}
        given = {name: getattr(self, name) for name in defaults}
        return {name: defaults[name] if value is None else value for name, value in given.items()}


class CommitConfig(Section, frozen=True):
    """When a commit is due: whichever comes first.

    Attributes:
        events: the most events in one commit.
        interval: the most seconds that an event waits for the commit.
    """

    events: Annotated[int, whole(1)] = 5000
    interval: Annotated[float, duration()] = 0.1


class SnapshotsConfig(Section, frozen=True):
    """When a snapshot is due, whichever comes first, and its folder.

    Attributes:
        folder: folder of the snapshots; empty is ``<file of the log>.snapshots`` next to the log, or
            ``<model's name>.snapshots`` in the working directory for a log on Kafka.
        every_events: events between two snapshots.
        every: seconds between two snapshots.
        max_replay: seconds that a replay of what was learned since the last snapshot would take.
        keep: number of the newest snapshots to keep.
        mirror: URL of object storage to which each snapshot is copied; empty copies none.
    """

    folder: Annotated[str, STRING] = ""
    every_events: Annotated[int, whole(1)] = 1_000_000
    every: Annotated[float, duration(above_zero=True)] = 600.0
    max_replay: Annotated[float, duration(above_zero=True)] = 60.0
    keep: Annotated[int, whole(1)] = 3
    mirror: Annotated[str, STRING] = ""


class MetricsConfig(Section, frozen=True):
    """Reports of progressive validation.

    Attributes:
        every_events: events between two reports.
        every: a commit also reports where the last report is this old; 0 is every commit.
        window: the most labelled events in the window's scores.
        interval: the probability of the credible intervals.
    """

    every_events: Annotated[int, whole(1)] = 1000
    every: Annotated[float, duration()] = 1.0
    window: Annotated[int, whole(1, 10_000_000)] = 1000
    interval: Annotated[float, PROPORTION] = 0.95


class PredictionsConfig(Section, frozen=True):
    """Contents of a prediction.

    Attributes:
        evidence: maximum number of items of evidence.
        hypotheses: whether it contains the probability of each hypothesis.
        unseen: whether it contains the probability of a new label.
        top: maximum number of classes with probabilities, within `max_bytes`; 0 is all, regardless of size.
        max_bytes: a larger prediction becomes a dead letter; 0 is unlimited.
        traceparent: whether it has the header `traceparent` of its event.
        by: the publisher: the learner, or separate scorers. Going back from scorers is not possible.
    """

    evidence: Annotated[int, whole(0, 100)] = 0
    hypotheses: bool = False
    unseen: bool = True
    top: Annotated[int, whole(0)] = 1000
    max_bytes: Annotated[int, LIMIT] = 1000 << 10
    traceparent: bool = False
    by: Literal["learner", "scorers"] = "learner"


class ScorersConfig(Section, frozen=True):
    """Settings of `score`.

    Attributes:
        behind: maximum number of journal records that the predicting model may be behind the learner.
    """

    behind: Annotated[int, whole(0)] = 100


class MemoryConfig(Section, frozen=True):
    """Memory for all that is learned and that waits.

    Attributes:
        budget: bytes; 0 is unlimited. The default for a new stream is half of the machine's, up to 1 GiB; an
            existing stream keeps its budget.
    """

    budget: Annotated[int | None, LIMIT] = None


class ClassesConfig(Section, frozen=True):
    """The number of classes, when a class may be predicted, and aliases of labels.

    Attributes:
        max: an event or label record with a label beyond this number becomes a dead letter; 0 is unlimited.
        min_learns: examples after which a class may be predicted; until then it is quarantined.
        aliases: label -> the label that replaces it; "" removes the label.
    """

    max: Annotated[int, whole(0)] = 10_000
    min_learns: Annotated[int, whole(1)] = 1
    aliases: Annotated[dict[str, str], ALIASES] = msgspec.field(default_factory=dict)


def _detectors(value: object) -> tuple[DetectorName, ...] | None:
    """Return the names in the order of `DETECTORS`, so that their order in the file does not matter."""
    if value == "":
        return ()
    names = [name.strip() for name in value.split(",")] if isinstance(value, str) else value
    if not isinstance(names, list):
        return None
    found = tuple(name for name in DETECTORS if name in names)
    return found if len(found) == len(names) else None


_DETECTORS = Validator(
    "detectors",
    f"drift detectors, with commas between them or as a list, none of them twice, of {', '.join(DETECTORS)}",
    _detectors,
    lambda names: literal(list(names)),
    is_text=True,
)


class DriftConfig(Section, frozen=True):
    """Drift detection.

    Attributes:
        detectors: names of detectors; see `streamnb.scoring.drift_detectors`.
    """

    detectors: Annotated[tuple[DetectorName, ...], _DETECTORS] = ()


class Config(Section, frozen=True):
    """The whole configuration.

    Attributes:
        attributes: the attributes of an event; if none are declared, all are taken.
        hypotheses: what the model weighs; if none are declared, `model.kind` decides.
        monitors: alerts for values out of bounds.
        webhooks: addresses to which `serve` sends alerts and predictions.
        sources: topics of other systems that `convert` reads.
    """

    log: LogConfig = LogConfig()
    kafka: KafkaConfig = KafkaConfig()
    topics: TopicsConfig = TopicsConfig()
    events: EventsConfig = EventsConfig()
    attributes: Annotated[tuple[AttributeConfig, ...], ATTRIBUTES] = ()
    model: ModelConfig = ModelConfig()
    hypotheses: Annotated[tuple[HypothesisConfig, ...], HYPOTHESES] = ()
    posterior: PosteriorConfig = PosteriorConfig()
    classes: ClassesConfig = ClassesConfig()
    memory: MemoryConfig = MemoryConfig()
    commit: CommitConfig = CommitConfig()
    snapshots: SnapshotsConfig = SnapshotsConfig()
    metrics: MetricsConfig = MetricsConfig()
    predictions: PredictionsConfig = PredictionsConfig()
    decision: DecisionConfig = DecisionConfig()
    scorers: ScorersConfig = ScorersConfig()
    drift: DriftConfig = DriftConfig()
    monitors: Annotated[tuple[MonitorConfig, ...], MONITORS] = ()
    webhooks: Annotated[tuple[WebhookConfig, ...], WEBHOOKS] = ()
    sources: Annotated[tuple[SourceConfig, ...], SOURCES] = ()
    registry: RegistryConfig = RegistryConfig()
    labels: LabelsConfig = LabelsConfig()
    http: HttpConfig = HttpConfig()
    log_output: LogOutputConfig = LogOutputConfig()

    @property
    def weighs(self) -> bool:
        """True if the model is a mixture of hypotheses."""
        return bool(self.hypotheses) or self.model.kind == "mixture"

    @property
    def weighed(self) -> tuple[HypothesisConfig, ...]:
        """The hypotheses of a mixture, declared or default; empty for a single naive Bayes model."""
        return self.hypotheses or (default_hypotheses() if self.weighs else ())

    @property
    def switching_rate(self) -> float:
        """The posterior's switching rate, with the default filled in."""
        if self.posterior.switching_rate is not None:
            return self.posterior.switching_rate
        return 0.0 if self.hypotheses or not self.weighs else _DEFAULT_SWITCHING_RATE

    @property
    def labels_memory(self) -> int:
        """Bytes of what waits for labels: an eighth of the budget at most."""
        return min(self.labels.memory, (self.memory.budget or sys.maxsize) // 8)

    @property
    def features_memory(self) -> int:
        """Bytes of the features of softmax regressions: a share of the budget at most."""
        return min(self.posterior.memory, of_features(self.memory.budget or sys.maxsize))

    @property
    def keeps_events(self) -> bool:
        """True if events wait for labels, or for events with the same id."""
        return bool(self.topics.labels) or self.events.repeats != "learn"

    @property
    def scorers_group(self) -> str:
        """The consumer group of all scorers of a model, and prefix of their transactional ids.

        It is not configurable: a second group would predict each event again.
        """
        return f"streamnb.{self.model.name}.scorers"

    @property
    def snapshot_folder(self) -> Path:
        """The folder of snapshots, with the default filled in."""
        stem = _as_file_name(self.model.name) if self.log.is_kafka else self.log.path
        return Path(self.snapshots.folder or f"{stem}.snapshots")


def _as_file_name(name: str) -> str:
    """Return `name` with characters that file names cannot contain as %XX, so that names stay distinct."""
    return re.sub(r'[%/\\:*?"<>|\x00-\x1f\x7f]', lambda found: f"%{ord(found[0]):02X}", name)


KEYS: dict[str, Validator[Any]] = {key: kind for key, kind in walk(Config) if isinstance(kind, Validator)}
"""The dotted path of every key -> its kind."""
