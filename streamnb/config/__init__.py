"""Configuration: defaults, below a TOML file, below environment variables, below flags.

Every key, its unit and its default stand in docs/configuration.md.
"""

from streamnb.config.attributes import AttributeConfig as AttributeConfig
from streamnb.config.changes import changes as changes
from streamnb.config.changes import restored as restored
from streamnb.config.classifiers import CLASSIFIERS as CLASSIFIERS
from streamnb.config.classifiers import ClassifierKind as ClassifierKind
from streamnb.config.connections import HttpConfig as HttpConfig
from streamnb.config.connections import KafkaConfig as KafkaConfig
from streamnb.config.connections import LogConfig as LogConfig
from streamnb.config.hypotheses import HypothesisConfig as HypothesisConfig
from streamnb.config.hypotheses import PosteriorConfig as PosteriorConfig
from streamnb.config.idle_keys import without_effect as without_effect
from streamnb.config.layers import given as given
from streamnb.config.layers import load as load
from streamnb.config.layers import variable as variable
from streamnb.config.schema import KEYS as KEYS
from streamnb.config.schema import CommitConfig as CommitConfig
from streamnb.config.schema import Config as Config
from streamnb.config.schema import EventsConfig as EventsConfig
from streamnb.config.schema import MetricsConfig as MetricsConfig
from streamnb.config.schema import ModelConfig as ModelConfig
from streamnb.config.schema import PredictionsConfig as PredictionsConfig
from streamnb.config.schema import PruneConfig as PruneConfig
from streamnb.config.schema import SnapshotsConfig as SnapshotsConfig
from streamnb.config.schema import TopicsConfig as TopicsConfig
from streamnb.config.values import Secret as Secret
from streamnb.config.writing import SHAPELESS as SHAPELESS
from streamnb.config.writing import config_hash as config_hash
from streamnb.config.writing import semantic_config_of as semantic_config_of
from streamnb.config.writing import show as show
