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
from streamnb.config.connections import HttpConfig, KafkaConfig, LogConfig
from streamnb.config.decision_config import DecisionConfig
from streamnb.config.hypothesis_config import (
    HYPOTHESES,
    HypothesisConfig,
    PosteriorConfig,
    default_hypotheses,
)
from streamnb.config.model_kinds import CLASSIFIERS, ModelKind
from streamnb.config.monitor_config import MONITORS, MonitorConfig
from streamnb.config.validators import (
    ALIASES,
    BOOLEAN,
    JSON_PATH,
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
from streamnb.events import DETECTORS, DetectorName
from streamnb.features.attributes import EventModel
from streamnb.statistics.memory_budget import of_features

Repeats = Literal["learn", "skip", "dead-letter"]
_DEFAULT_SWITCHING_RATE = 1e-4  # of the default hypotheses: which of them is right changes as a stream grows


class TopicsConfig(Section, frozen=True):
    """What the topics are called, and what those that are created are like; no two share a name.

    Attributes:
        events: events to learn from and to predict: one topic or several.
        predictions: what the model said of each event before it learned it.
        metrics: reports of progressive validation.
        dead_letters: records that are not events, with the reason.
        journal: what each commit processed, in which order.
        labels: labels that come apart from their events; empty where none do.
        alerts: what monitors find; empty where there are none, and "alerts" where there are some.
        tenants: where the model of each tenant stands; empty where nobody says.
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
        ]

    @property
    def read(self) -> tuple[str, ...]:
        """The topics that a learner reads."""
        return (*self.events, self.labels) if self.labels else self.events


class EventsConfig(Section, frozen=True):
    """Where the parts of an event lie.

    Attributes:
        id: path of the id.
        label: path of the label.
        ts: path of the event time, seconds since the epoch; empty reads none.
        max_bytes: a larger record becomes a dead letter.
        letter_bytes: of the dead letter of a larger one the beginning is kept; 0 is what its topic is made
            for. Where the topic takes less, `run` goes by that.
        entity: path of the entity that it is of; None is the record's key. Read by models that ask for it.
        clock: whether the log says when an event without a time was, and which times cannot be ("log"), or
            events alone do ("event").
        repeats: what becomes of an event whose id waits for its label already: it is learned, or skipped (its
            label is a verdict on the first), or a dead letter.
        partitions: those that a shard reads, of each topic; none named are all.
    """

    id: Annotated[str, JSON_PATH] = "$.id"
    label: Annotated[str, JSON_PATH] = "$.label"
    ts: Annotated[str, OPTIONAL_PATH] = "$.ts"
    max_bytes: Annotated[int, SIZE] = 1 << 20
    letter_bytes: Annotated[int, LIMIT] = 0
    entity: Annotated[str | None, JSON_PATH] = None
    clock: Literal["log", "event"] = "log"
    repeats: Repeats = "learn"
    partitions: Annotated[tuple[int, ...], PARTITIONS] = ()


class LabelsConfig(Section, frozen=True):
    """Labels that come apart from their events, on the topic ``topics.labels``.

    Attributes:
        window: how long an event waits for its label, by the times at which the log recorded the events.
        memory: of the events that wait; beyond it the oldest wait no longer.
        ranks: source -> rank: the label of the highest holds. Others have 1, and labels inside events 0.
        weights: source -> what its labels count; others count 1.
    """

    window: Annotated[float, duration(above_zero=True)] = 7 * 86400.0
    memory: Annotated[int, SIZE] = 256 << 20
    ranks: Annotated[dict[str, int], RANKS] = msgspec.field(default_factory=dict)
    weights: Annotated[dict[str, float], SOURCE_WEIGHTS] = msgspec.field(default_factory=dict)


class PruneConfig(Section, frozen=True):
    """How the vocabulary is kept small (Joachims 1996).

    Attributes:
        every: events between two prunings; 0 is never, but for the one of a holdout.
        min_count: words of a smaller total weight are forgotten.
        drop_most_frequent: so many of the most frequent words become stop words.
        max_attributes: the most words and values kept; 0 is no limit.
    """

    every: Annotated[int, whole(0)] = 0
    min_count: Annotated[float, number(0)] = 0.0
    drop_most_frequent: Annotated[int, whole(0)] = 0
    max_attributes: Annotated[int, whole(0)] = 0

    @property
    def unread(self) -> str | None:
        """The first key that says what to forget, where nothing says when."""
        said = ("max_attributes", "min_count", "drop_most_frequent")
        return None if self.every else next((name for name in said if getattr(self, name)), None)


class ModelConfig(Section, frozen=True):
    """What the model is, and how it reads counts as probabilities.

    Attributes:
        name: what predictions and metrics call the model.
        kind: "naive_bayes", or "mixture", of the hypotheses that are declared or else of the default ones, or
            a classifier of `CLASSIFIERS`. Where hypotheses are declared it is "mixture".
        alpha: added to every count, where `m` is None; 0 is read as the limit.
        m: equivalent sample size of the m-estimate (n_c + m p) / (n + m), in place of alpha.
        p: prior estimate of the m-estimate; None is uniform over the values declared or seen.
        event_model: "multinomial" or "bernoulli", for texts that do not say.
        prior: "learned" (label frequency), "uniform", or "given" by `priors`.
        priors: label -> relative weight; a label left out has none.
        unlabelled_weight: what an event without a label counts, in examples, for a model that it teaches.
        unlabelled_window: how many of the newest of them teach it.
        revisits: how many of these are learned anew after each event.
        C: how much events count against the prior of a logistic regression.
        features: the most columns that it has.
        transition_m: m of the m-estimate of transitions from class to class within an entity.
        entities: how many entities are kept.
        time_to_live: seconds of event time after which an entity begins anew; 0 is never.
        parents: attribute -> its parents in a Bayesian network, "label" among them.
        cells: the most cells of one of its tables.
        memory: bytes for the models of tenants that are at work.
        tenants: how many tenants have a model of their own.
        shared: whether a model of all their events is the prior of each.
        prune: how the vocabulary is kept small.

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
        """Whether the model is told of which entity an event is."""
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
    """When a snapshot is due, whichever comes first, and where it goes.

    Attributes:
        folder: where snapshots lie; empty is ``<file of the log>.snapshots`` beside the log, or
            ``<model's name>.snapshots`` in the working directory where the log is Kafka's.
        every_events: events between two snapshots.
        every: seconds between two snapshots.
        keep: how many of the newest are kept.
    """

    folder: Annotated[str, STRING] = ""
    every_events: Annotated[int, whole(1)] = 100_000
    every: Annotated[float, duration(above_zero=True)] = 60.0
    keep: Annotated[int, whole(1)] = 3


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
    """What a prediction carries.

    Attributes:
        evidence: the most items of evidence.
        hypotheses: whether it says how probable each hypothesis was.
        unseen: whether it says how probable a label is that was never learned.
        top: the most classes whose probabilities it tells, and as many as `max_bytes` allow; 0 is all,
            whatever they take.
        max_bytes: a larger one becomes a dead letter; 0 is no limit.
        by: who publishes them: the learner, or scorers beside it. There is no way back from scorers.
    """

    evidence: Annotated[int, whole(0, 100)] = 0
    hypotheses: bool = False
    unseen: bool = True
    top: Annotated[int, whole(0)] = 1000
    max_bytes: Annotated[int, LIMIT] = 1000 << 10
    by: Literal["learner", "scorers"] = "learner"


class ScorersConfig(Section, frozen=True):
    """How `score` takes part.

    Attributes:
        behind: the most journal records that a model that predicts may be behind the learner.
    """

    behind: Annotated[int, whole(0)] = 100


class MemoryConfig(Section, frozen=True):
    """How much memory there is for all that is learned and that waits.

    Attributes:
        budget: bytes; 0 is no limit. Where it is not set, a stream that begins has half of the machine's, up
            to 1 GiB, and one that goes on what it had.
    """

    budget: Annotated[int | None, LIMIT] = None


class ClassesConfig(Section, frozen=True):
    """How many classes there may be, which may be predicted, and what labels are read as.

    Attributes:
        max: an event or verdict with a label beyond so many becomes a dead letter; 0 is no limit.
        min_learns: the examples with which a class may be predicted; until then it is quarantined.
        aliases: label -> the one that it is read as; "" is no label.
    """

    max: Annotated[int, whole(0)] = 10_000
    min_learns: Annotated[int, whole(1)] = 1
    aliases: Annotated[dict[str, str], ALIASES] = msgspec.field(default_factory=dict)


def _detectors(value: object) -> tuple[DetectorName, ...] | None:
    """Names in the order of `DETECTORS`: it does not matter in which they are given."""
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
    """Who watches for drift.

    Attributes:
        detectors: names of detectors; see `streamnb.scoring.drift_detectors`.
    """

    detectors: Annotated[tuple[DetectorName, ...], _DETECTORS] = ()


class Config(Section, frozen=True):
    """The whole configuration.

    Attributes:
        attributes: the attributes of an event; none declared takes them as they come.
        hypotheses: what the model weighs; for none declared, `model.kind` says what it is.
        monitors: who tells what is out of bounds.
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
    labels: LabelsConfig = LabelsConfig()
    http: HttpConfig = HttpConfig()

    @property
    def weighs(self) -> bool:
        """Whether the model is a mixture of hypotheses."""
        return bool(self.hypotheses) or self.model.kind == "mixture"

    @property
    def weighed(self) -> tuple[HypothesisConfig, ...]:
        """The hypotheses of a mixture, declared or default; empty for a single naive Bayes model."""
        return self.hypotheses or (default_hypotheses() if self.weighs else ())

    @property
    def switching_rate(self) -> float:
        """That of the posterior, with the default filled in."""
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
        """Whether events wait for labels, or for others with the same id."""
        return bool(self.topics.labels) or self.events.repeats != "learn"

    @property
    def scorers_group(self) -> str:
        """The consumer group of all scorers of a model; their transactional ids begin so.

        No key: a second group would predict each event once more.
        """
        return f"streamnb.{self.model.name}.scorers"

    @property
    def snapshot_folder(self) -> Path:
        """Where snapshots lie, with the default filled in."""
        stem = _as_file_name(self.model.name) if self.log.is_kafka else self.log.path
        return Path(self.snapshots.folder or f"{stem}.snapshots")


def _as_file_name(name: str) -> str:
    """`name` with what a file's name cannot hold as %XX, so that two names stay two."""
    return re.sub(r'[%/\\:*?"<>|\x00-\x1f\x7f]', lambda found: f"%{ord(found[0]):02X}", name)


KEYS: dict[str, Validator[Any]] = {key: kind for key, kind in walk(Config) if isinstance(kind, Validator)}
"""The dotted path of every key -> its kind."""
