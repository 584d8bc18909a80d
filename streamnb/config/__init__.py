"""Configuration: defaults, below a TOML file, below environment variables, below flags.

Every key, its unit and its default stand in docs/configuration.md.
"""

from streamnb.config.attributes import AttributeConfig
from streamnb.config.connections import HttpConfig, KafkaConfig, LogConfig
from streamnb.config.layers import load, variable
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
from streamnb.config.secret import Secret
from streamnb.config.sections import nearest_key
from streamnb.config.writing import config_hash, show

__all__ = [
    "KEYS",
    "AttributeConfig",
    "CommitConfig",
    "Config",
    "EventsConfig",
    "HttpConfig",
    "KafkaConfig",
    "LogConfig",
    "MetricsConfig",
    "ModelConfig",
    "PredictionsConfig",
    "PruneConfig",
    "Secret",
    "SnapshotsConfig",
    "TopicsConfig",
    "config_hash",
    "load",
    "nearest_key",
    "show",
    "variable",
]
