"""The configuration: keys, where their values come from, and what they may be.

Sources, from the lowest to the highest; each key takes the highest source that gives it:

    defaults -> TOML file -> environment (STREAMNB_LOG__URL) -> flags

`setting_sources.load` reads them, and `Config` flows out: a tree of frozen structs, one for each
section. Durations are seconds and sizes are bytes once they are read. docs/configuration.md has every
key.

    module                     content
    config_schema.py           sections and keys, with kind and default
    connections.py             [log], [kafka], [http] and [log_output]
    attribute_config.py, hypothesis_config.py, monitor_config.py, decision_config.py,
    webhook_config.py          lists of tables
    config_sections.py         what a section is
    validators.py              kinds of values: parse, refuse, write
    config_literals.py         durations, sizes, addresses, secrets, TOML literals
    setting_sources.py         the four sources, and checks between keys
    config_changes.py          what may change in the life of a model
    config_rendering.py        a configuration as TOML, and as a hash for the journal
    reloadable_settings.py     what a running service takes over
    shard_constraints.py       what learners that share a stream must not have
    unused_settings.py         keys that are given and change nothing
    model_kinds.py             other classifiers: constructor, keys, abilities
    model_factory.py           from the configuration to a model that has learned nothing

Invariants:

* An error names the key, the source that gave it, and what was expected. Secrets are not quoted.
* `load` reads an equal configuration back from the text of `show`.
* Every key that shapes what is learned or published is in `semantic_config_of`, and so in the hash that
  a journal keeps. A change of such a key is journalled, or refused with the reason.
* A key without effect is reported, not ignored silently.
* `config` knows other classifiers by name: the constructor is imported when the model is made.

Start reading at `config_schema.py`, then `setting_sources.py`. To add a key: a field in
`config_schema.py`, a row in docs/configuration.md, and its use in `runtime/factories.py`.
"""

from streamnb.config.attribute_config import AttributeConfig as AttributeConfig
from streamnb.config.config_changes import changes as changes
from streamnb.config.config_changes import restored as restored
from streamnb.config.config_literals import Secret as Secret
from streamnb.config.config_rendering import SHAPELESS as SHAPELESS
from streamnb.config.config_rendering import config_hash as config_hash
from streamnb.config.config_rendering import semantic_config_of as semantic_config_of
from streamnb.config.config_rendering import show as show
from streamnb.config.config_schema import KEYS as KEYS
from streamnb.config.config_schema import CommitConfig as CommitConfig
from streamnb.config.config_schema import Config as Config
from streamnb.config.config_schema import EventsConfig as EventsConfig
from streamnb.config.config_schema import MetricsConfig as MetricsConfig
from streamnb.config.config_schema import ModelConfig as ModelConfig
from streamnb.config.config_schema import PredictionsConfig as PredictionsConfig
from streamnb.config.config_schema import PruneConfig as PruneConfig
from streamnb.config.config_schema import SnapshotsConfig as SnapshotsConfig
from streamnb.config.config_schema import TopicsConfig as TopicsConfig
from streamnb.config.connections import HttpConfig as HttpConfig
from streamnb.config.connections import KafkaConfig as KafkaConfig
from streamnb.config.connections import LogConfig as LogConfig
from streamnb.config.connections import LogOutputConfig as LogOutputConfig
from streamnb.config.hypothesis_config import HypothesisConfig as HypothesisConfig
from streamnb.config.hypothesis_config import PosteriorConfig as PosteriorConfig
from streamnb.config.model_kinds import CLASSIFIERS as CLASSIFIERS
from streamnb.config.model_kinds import ClassifierKind as ClassifierKind
from streamnb.config.reloadable_settings import SettingChange as SettingChange
from streamnb.config.reloadable_settings import reloadable_changes as reloadable_changes
from streamnb.config.setting_sources import given as given
from streamnb.config.setting_sources import load as load
from streamnb.config.setting_sources import log_output as log_output
from streamnb.config.setting_sources import variable as variable
from streamnb.config.source_config import RegistryConfig as RegistryConfig
from streamnb.config.source_config import SourceConfig as SourceConfig
from streamnb.config.unused_settings import without_effect as without_effect
from streamnb.config.webhook_config import WebhookConfig as WebhookConfig
