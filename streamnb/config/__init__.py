"""Configuration: defaults, below a TOML file, below environment variables, below flags.

Every key, its unit and its default stand in docs/configuration.md.
"""

from streamnb.config.attributes import AttributeConfig
from streamnb.config.changes import Changed, changes, restored
from streamnb.config.classifiers import CLASSIFIERS, ClassifierKind
from streamnb.config.connections import HttpConfig, KafkaConfig, LogConfig
from streamnb.config.hypotheses import HypothesisConfig, PosteriorConfig
from streamnb.config.idle_keys import without_effect
from streamnb.config.layers import given, load, variable
from streamnb.config.schema import (
    KEYS,
    CommitConfig,
    Config,
    EventsConfig,
    MetricsConfig,
    ModelConfig,
    PredictionsConfig,
    PruneConfig,
    SnapshotsConfig,
    TopicsConfig,
)
from streamnb.config.sections import nearest_key
from streamnb.config.values import Secret
from streamnb.config.writing import config_hash, shaping_of, show

__all__ = [
    "CLASSIFIERS",
    "KEYS",
    "AttributeConfig",
    "Changed",
    "ClassifierKind",
    "CommitConfig",
    "Config",
    "EventsConfig",
    "HttpConfig",
    "HypothesisConfig",
    "KafkaConfig",
    "LogConfig",
    "MetricsConfig",
    "ModelConfig",
    "PosteriorConfig",
    "PredictionsConfig",
    "PruneConfig",
    "Secret",
    "SnapshotsConfig",
    "TopicsConfig",
    "changes",
    "config_hash",
    "given",
    "load",
    "nearest_key",
    "restored",
    "shaping_of",
    "show",
    "variable",
    "without_effect",
]
