"""From the configuration to the model that it declares."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, cast

from streamnb.config.attribute_config import AttributeConfig
from streamnb.config.config_schema import Config, ModelConfig
from streamnb.config.hypothesis_config import HypothesisConfig
from streamnb.config.model_kinds import CLASSIFIERS
from streamnb.errors import ConfigError, told_as
from streamnb.features.attributes import Attribute, Continuous, Nominal, Text
from streamnb.models.interface.river_stream_model import RiverStreamModel
from streamnb.models.interface.stream_model import StreamModel
from streamnb.models.registry import HYPOTHESES, MIXTURE, NAIVE_BAYES, load
from streamnb.statistics.class_priors import Prior


def model(config: Config) -> StreamModel:
    """Return an empty model: naive Bayes, a mixture of hypotheses, or another classifier."""
    read_by = config.model
    hypotheses = [_hypothesis(i, declared, read_by) for i, declared in enumerate(config.weighed)]
    with told_as(ConfigError, "hypotheses" if hypotheses else "model", ValueError):
        declared: dict[str, Attribute | str] = {a.name: _attribute(a) for a in config.attributes}
        declared = declared or {"text": Text()}
        if read_by.kind in CLASSIFIERS:
            made: Any = _classifier(read_by, declared)
            if config.memory.budget and read_by.kind == "tenants":
                made.keep_within(config.memory.budget)
            return made if CLASSIFIERS[read_by.kind].learns_batches else RiverStreamModel(made, read_by.kind)
        counting = _counting(config, declared, hypotheses)
    if config.memory.budget:
        counting.keep_within(config.memory.budget)
    counting.tells_evidence = config.decision.novelty > 0.0
    return cast("StreamModel", counting)


def _counting(config: Config, declared: Mapping[str, Attribute | str], hypotheses: Sequence[Any]) -> Any:
    read_by, told = config.model, config.posterior
    if not hypotheses:
        smoothing, prior = (read_by.alpha, read_by.m, read_by.p), _prior(read_by.prior, read_by)
        return load(NAIVE_BAYES)(declared, *smoothing, prior, read_by.event_model)
    how = config.switching_rate, told.prediction, told.seed, config.features_memory
    return load(MIXTURE)(declared, hypotheses, *how, told.floor, told.caution)


def _attribute(declared: AttributeConfig) -> Attribute:
    smoothing: dict[str, Any] = {"alpha": declared.alpha, "m": declared.m, "p": declared.p}
    if declared.kind == "text":
        return Text(**smoothing, event_model=declared.event_model)
    if declared.kind == "nominal":
        return Nominal(**smoothing, values=declared.values, n_values=declared.n_values)
    return Continuous()


def _classifier(read_by: ModelConfig, declared: Mapping[str, Attribute | str]) -> Any:
    kind = CLASSIFIERS[read_by.kind]
    shared = {name: getattr(read_by, name) for name in kind.shared}
    if "prior" in shared:
        shared["prior"] = _prior(read_by.prior, read_by)
    attributes = {"attributes": declared} if kind.takes_attributes else {}
    return load(kind.constructor)(**attributes, **shared, **read_by.own)


def _hypothesis(number: int, declared: HypothesisConfig, read_by: ModelConfig) -> Any:
    all_have: dict[str, Any] = {"weight": declared.weight, "name": declared.name or ""}
    kind = load(HYPOTHESES[declared.kind])
    with told_as(ConfigError, f"hypotheses[{number}]", ValueError):
        own = _reading(declared, read_by) if declared.kind == "naive_bayes" else declared.own
        return kind(**own, **all_have)


def _reading(declared: HypothesisConfig, read_by: ModelConfig) -> dict[str, Any]:
    smoothing: dict[str, Any] = {"m": read_by.m, "p": read_by.p}
    if read_by.m is None:
        smoothing["alpha"] = read_by.alpha
    return {
        **(smoothing if declared.takes_smoothing else {}),
        **declared.own,
        "likelihood": declared.read_as(read_by.event_model),
        "prior": _prior(declared.prior or read_by.prior, read_by),
    }


def _prior(name: Literal["learned", "uniform", "given"], read_by: ModelConfig) -> Prior:
    return dict(read_by.priors) if name == "given" else name
