"""Defaults, below a TOML file, below environment variables, below flags: the layers and how they are read."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Container, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from msgspec.structs import replace

from streamnb.config.attribute_config import check_smoothing
from streamnb.config.config_literals import format_duration, from_literal, literal
from streamnb.config.config_schema import KEYS, Config, ModelConfig, PruneConfig
from streamnb.config.config_sections import Section, members, unknown, walk
from streamnb.config.connections import LogOutputConfig
from streamnb.config.decision_config import DecisionConfig
from streamnb.config.hypothesis_config import misfits_of_attributes
from streamnb.config.model_kinds import CLASSIFIERS, ClassifierKind
from streamnb.config.validators import ABOVE_ZERO, SECRET, Validator, refused
from streamnb.errors import ConfigError, told_as
from streamnb.formats.event_schema import ENTITY

_PREFIX = "STREAMNB_"
_LOG_OUTPUT = "log_output"
# Kubernetes gives every container such variables for a service whose name begins with "streamnb".
_SERVICE_LINK = re.compile(
    r"STREAMNB_(?!\w*__)(\w+_)?(SERVICE_HOST|SERVICE_PORT(_\w+)?|PORT(_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)?)"
)

S = TypeVar("S", bound=Section)


class GivenSetting(NamedTuple):
    """One value as a layer gives it."""

    origin: str
    key: str
    value: object


def load(path: Path | None, environ: Mapping[str, str], overrides: Sequence[str]) -> Config:
    """Return the configuration: each key from the highest source that sets it.

    Args:
        path: a TOML file, or None.
        environ: environment variables; those named ``STREAMNB_SECTION__KEY`` count.
        overrides: flags of the form ``section.key=value``; of two for one key the later counts.

    Raises:
        ConfigError: a file that cannot be read, a key that is unknown, a value that is refused (even if
            another source overrides it), or values that contradict each other. The message names the
            origin (file, variable or flag), the key's full path, what was found and what was expected.
    """
    values: dict[str, Any] = {}
    origins: dict[str, str] = {}
    for origin, key, value in given(path, environ, overrides):
        with told_as(ConfigError, origin, ConfigError):
            values[key], origins[key] = KEYS[key].read(key, value), origin
    config = _build(Config, values)
    if config.monitors and not config.topics.alerts:
        config = replace(config, topics=replace(config.topics, alerts="alerts"))
    _check(config, origins)
    if config.hypotheses:  # whatever kind is the default
        config = replace(config, model=replace(config.model, kind="mixture"))
    return config


def given(path: Path | None, environ: Mapping[str, str], overrides: Sequence[str]) -> list[GivenSetting]:
    """Return the settings of each source, lowest first. Raises ConfigError."""
    file, flags = _without_secrets(_from_file(path)), _without_secrets(_from_flags(overrides))
    return [*file, *_from_environment(environ), *flags]


def log_output(path: Path | None, environ: Mapping[str, str], overrides: Sequence[str]) -> LogOutputConfig:
    """Return [log_output] without its wrong values: errors of `load` are written in its format, too."""
    found: list[tuple[str, object]] = []
    if path is not None and path.is_file():  # a pipe can be read once
        with suppress(ConfigError):
            section = _table(path).get(_LOG_OUTPUT)
            found += section.items() if isinstance(section, dict) else ()
    for name in LogOutputConfig.__struct_fields__:
        found += [
            (name, text) for text in (environ.get(variable(f"{_LOG_OUTPUT}.{name}")),) if text is not None
        ]
    for key, _, text in (override.partition("=") for override in overrides):
        section_name, _, name = key.partition(".")
        found += [(name, text)] if section_name == _LOG_OUTPUT else []
    values: dict[str, Any] = {}
    for name, value in found:
        key = f"{_LOG_OUTPUT}.{name}"
        with suppress(ConfigError, KeyError):
            is_spoken = isinstance(value, str) and not KEYS[key].is_text
            values[key] = KEYS[key].read(key, from_literal(str(value)) if is_spoken else value)
    return _build(LogOutputConfig, values, f"{_LOG_OUTPUT}.")


def variable(key: str) -> str:
    """Return the environment variable of a key: ``STREAMNB_LOG__URL`` for ``log.url``."""
    return _PREFIX + key.upper().replace(".", "__")


# Layers


def _without_secrets(layer: Iterator[GivenSetting]) -> Iterator[GivenSetting]:
    """Yield settings of a source that other users can read (file or flags); refuse secrets in it."""
    for given in layer:
        if KEYS[given.key] is SECRET:
            places = f"{variable(given.key)} in the environment, or {given.key}_file"
            raise ConfigError(f"{given.origin}: {given.key} has no place here; expected {places}")
        yield given


def _from_file(path: Path | None) -> Iterator[GivenSetting]:
    if path is None:
        return
    table = _table(path)
    with told_as(ConfigError, path, ConfigError):
        for key, value in _flatten(Config, table, ""):
            yield GivenSetting(str(path), key, value)


def _table(path: Path) -> dict[str, Any]:
    with told_as(ConfigError, f"{path}: cannot be read", OSError):
        content = path.read_bytes()
    try:
        with told_as(ConfigError, f"{path}: is not TOML", ValueError):  # TOMLDecodeError, UnicodeDecodeError
            return tomllib.loads(content.decode())
    except RecursionError:
        raise ConfigError(f"{path}: is nested more deeply than any configuration") from None


def _flatten(
    section: type[Section], table: Mapping[str, object], prefix: str
) -> Iterator[tuple[str, object]]:
    for name, value in table.items():
        key = prefix + name
        member = members(section).get(name)
        if member is None:
            raise unknown(key, [key for key, _ in walk(Config)])
        if isinstance(member, Validator):
            yield key, value
        elif isinstance(value, dict):
            yield from _flatten(member, value, f"{key}.")
        else:
            raise refused(key, value, "a table")


def _from_environment(environ: Mapping[str, str]) -> Iterator[GivenSetting]:
    keys = {variable(key): key for key in KEYS}
    for name in sorted(environ):
        if not name.startswith(_PREFIX) or _SERVICE_LINK.fullmatch(name):
            continue
        origin = f"environment variable {name}"
        if name not in keys:
            raise ConfigError(f"environment: {unknown(name, keys)}")
        yield GivenSetting(origin, keys[name], _spoken(origin, keys[name], environ[name]))


def _from_flags(overrides: Sequence[str]) -> Iterator[GivenSetting]:
    for override in overrides:
        key, equals, text = override.partition("=")
        if not equals:
            raise ConfigError(f"flag --set {_name(override)}: expected section.key=value")
        if key not in KEYS:
            raise ConfigError(f"flag --set: {unknown(key, KEYS)}")
        yield GivenSetting("flag --set", key, _spoken("flag --set", key, text))


def _name(override: str) -> str:
    return re.split(r"[^\w.-]", override, maxsplit=1)[0]


def _spoken(origin: str, key: str, text: str) -> object:
    """Return the value of a variable or flag: the text itself or a TOML literal, by the key's kind."""
    try:
        text.encode()
    except UnicodeEncodeError:  # the operating system's bytes are not UTF-8
        raise ConfigError(f"{origin}: {key} is not UTF-8; expected {KEYS[key].expected}") from None
    return text if KEYS[key].is_text else from_literal(text)


# The whole


def _build(section: type[S], values: Mapping[str, Any], prefix: str = "") -> S:
    given = {}
    for name, member in members(section).items():
        key = prefix + name
        if not isinstance(member, Validator):
            given[name] = _build(member, values, f"{key}.")
        elif key in values:
            given[name] = values[key]
    return section(**given)


_Misfit = tuple[Sequence[str], ConfigError]
"""Keys, and what is wrong: the first of them that was given is at fault."""


def _misfit(key: str, value: object, expected: str, *given: str) -> _Misfit:
    return given or (key,), refused(key, value, expected)


def _check(config: Config, origins: Mapping[str, str]) -> None:
    """Refuse contradictory values, with the origin of the first key at fault that was set."""
    for keys, error in _contradictions(config, origins):
        origin = next(origins[key] for key in keys if key in origins)
        raise ConfigError(f"{origin}: {error}")


def _contradictions(config: Config, given: Container[str]) -> Iterator[_Misfit]:
    yield from _same_topics(config, given)
    model = config.model
    try:
        check_smoothing("model", model.alpha if "model.alpha" in given else None, model.m, model.p)
    except ConfigError as error:
        yield ("model.m", "model.p"), error
    kafka = config.kafka
    if kafka.password and kafka.password_file:
        yield _misfit("kafka.password_file", kafka.password_file, "no kafka.password with it")
    if model.prior == "given" and not model.priors:
        yield _misfit("model.prior", model.prior, "weights in model.priors with it")
    if model.priors and "given" not in {model.prior, *(h.prior for h in config.hypotheses)}:
        yield _misfit("model.priors", model.priors, 'model.prior = "given" with it')
    for i, attribute in enumerate(config.attributes):
        if attribute.path == config.events.label:
            key = f"attributes[{i}].path"
            yield _misfit(key, attribute.path, "another path than events.label has", "attributes")
    if config.events.entity and config.events.entity == config.events.label:
        yield _misfit("events.entity", config.events.entity, "another path than events.label has")
    yield from _decision(config)
    yield from _webhooks(config)
    yield from _of_its_kind(config, given)


def _decision(config: Config) -> Iterator[_Misfit]:
    kind, priors = config.model.kind, config.decision.priors
    if config.decision.novelty and kind in CLASSIFIERS and not config.hypotheses:
        expected = f'0 with model.kind = "{kind}": only naive Bayes and mixtures know how likely an event is'
        yield _misfit("decision.novelty", config.decision.novelty, expected)
    if config.decision.window != DecisionConfig().window and priors != "windowed":
        yield _misfit("decision.window", config.decision.window, 'decision.priors = "windowed" with it')
    if not config.decision.corrects:
        return
    if priors == "windowed" and any(one.is_renewed for one in config.weighed):
        expected = "others with hypotheses that learn fast, as the default ones: they follow by themselves"
        yield _misfit("decision.priors", priors, expected)
    if kind in CLASSIFIERS and not CLASSIFIERS[kind].has_prior and not config.hypotheses:
        expected = f'"learned" with model.kind = "{kind}", which has no prior of classes to be corrected'
        yield _misfit("decision.priors", priors, expected)
    if {config.model.prior, *(one.prior or "learned" for one in config.hypotheses)} != {"learned"}:
        yield _misfit("decision.priors", priors, '"learned", or model.prior = "learned" for all of the model')


def _of_its_kind(config: Config, given: Container[str]) -> Iterator[_Misfit]:
    model = config.model
    if config.hypotheses:
        if model.kind != "mixture" and "model.kind" in given:
            yield _misfit("model.kind", model.kind, '"mixture" with hypotheses, or no hypotheses')
        yield from _hypotheses(config)
    elif config.weighs:
        yield from _default_hypotheses(config)
    elif model.kind in CLASSIFIERS:
        yield from _classifier(model, CLASSIFIERS[model.kind])
        yield from _texts(config)
        yield from _parents(config)
    yield from _other_kinds(model)
    yield from _entities(config)
    for i, monitor in enumerate(config.monitors):
        if monitor.action == "renew" and not any(one.is_renewed for one in config.weighed):
            expected = 'a model.kind = "mixture" that learns more than counts, such as the default one'
            yield _misfit(f"monitors[{i}].action", "renew", expected, "monitors")


def _webhooks(config: Config) -> Iterator[_Misfit]:
    """Yield webhooks that would never send anything."""
    for i, hook in enumerate(config.webhooks):
        if hook.send == "alerts" and not config.topics.alerts:
            yield _misfit(f"webhooks[{i}].send", "alerts", "[[monitors]], which publish alerts", "webhooks")
        elif (hook.send == "decisions" or hook.decision) and not config.decision.is_given:
            expected = "[decision] with it, such as decision.costs"
            yield _misfit(f"webhooks[{i}].send", hook.send, expected, "webhooks")


def _entities(config: Config) -> Iterator[_Misfit]:
    """Yield an unused path of the entity, and an attribute with the name of the entity."""
    if not config.model.reads_entity:
        if config.events.entity:
            owners = " or ".join(f'"{kind}"' for kind, made in CLASSIFIERS.items() if made.reads_entity)
            yield _misfit("events.entity", config.events.entity, f"model.kind = {owners} with it")
        return
    for i, attribute in enumerate(config.attributes):
        if attribute.name == ENTITY:
            expected = (
                f"another name with model.kind = {literal(config.model.kind)}, which calls the entity so"
            )
            yield _misfit(f"attributes[{i}].name", attribute.name, expected, "attributes")


def _hypotheses(config: Config) -> Iterator[_Misfit]:
    """Yield settings that hypotheses exclude, or cannot take from the model."""
    yield from ((("attributes",), error) for error in misfits_of_attributes(config.attributes))
    model = config.model
    smoothing, amount = ("alpha", model.alpha) if model.m is None else ("m", model.m)
    for i, hypothesis in enumerate(config.hypotheses):
        key = f"hypotheses[{i}]"
        if amount == 0.0 and hypothesis.takes_smoothing:
            yield _misfit(f"model.{smoothing}", amount, f"{ABOVE_ZERO.expected}, for {key} to take")
        if hypothesis.prior == "given" and not model.priors:
            yield _misfit(f"{key}.prior", "given", "weights in model.priors with it", "hypotheses")
        if hypothesis.half_life is not None and hypothesis.read_as(model.event_model) == "bernoulli":
            found = format_duration(hypothesis.half_life)
            expected = "no half_life of the Bernoulli likelihood; presence is one that forgets"
            yield _misfit(f"{key}.half_life", found, expected, "hypotheses", "model.event_model")


def _default_hypotheses(config: Config) -> Iterator[_Misfit]:
    instead = 'model.kind = "naive_bayes"'
    model, default = config.model, ModelConfig()
    for name in ("alpha", "m", "p", "event_model"):
        if (value := getattr(model, name)) != getattr(default, name):
            expected = f"{instead} with it, or [[hypotheses]]: the default ones do not read it"
            yield _misfit(f"model.{name}", value, expected)
    misfits = misfits_of_attributes(config.attributes, f"; or {instead}")
    yield from ((("attributes",), error) for error in misfits)


def _classifier(model: ModelConfig, kind: ClassifierKind) -> Iterator[_Misfit]:
    default = ModelConfig()
    expected = f'its default with model.kind = "{model.kind}", which does not read it'
    for name in ("alpha", "m", "p", "prior", "event_model"):
        value = getattr(model, name)
        if name not in kind.shared and value != getattr(default, name):
            yield _misfit(f"model.{name}", value, expected)
    for name in () if kind.prunes else PruneConfig.__struct_fields__:
        if value := getattr(model.prune, name):
            yield _misfit(f"model.prune.{name}", value, expected)


def _texts(config: Config) -> Iterator[_Misfit]:
    """Yield texts or numbers that a classifier treats as one nominal value; undeclared ones may occur."""
    kind = config.model.kind
    made = CLASSIFIERS[kind]
    if made.reads_texts:
        return
    if not config.attributes:
        expected = f'the attributes to read, with model.kind = "{kind}", which reads no texts'
        yield _misfit("attributes", [], expected, "model.kind", "attributes")
    for i, attribute in enumerate(config.attributes):
        if attribute.kind == "text" and made.reads_numbers:
            expected = f'"nominal" or "continuous" with model.kind = "{kind}", which reads no texts'
            yield _misfit(f"attributes[{i}].kind", "text", expected, "attributes")
        elif attribute.kind != "nominal" and not made.reads_numbers:
            expected = f'"nominal" with model.kind = "{kind}", which reads values of a few kinds alone'
            yield _misfit(f"attributes[{i}].kind", attribute.kind, expected, "attributes")


def _parents(config: Config) -> Iterator[_Misfit]:
    """Yield parents that are not attributes: they would never have a value."""
    there = {"label", *(attribute.name for attribute in config.attributes)}
    for name, parents in (config.model.parents or {}).items():
        if name not in there:
            expected = f"parents of attributes that are declared, which {name!r} is not"
            yield _misfit(f"model.parents.{name}", parents, expected, "model.parents")


def _other_kinds(model: ModelConfig) -> Iterator[_Misfit]:
    for name in sorted({name for kind in CLASSIFIERS.values() for name in kind.own} - model.own.keys()):
        if (value := getattr(model, name)) is not None:
            owners = " or ".join(f'"{kind}"' for kind, made in CLASSIFIERS.items() if name in made.own)
            yield _misfit(f"model.{name}", value, f"model.kind = {owners} with it")


def _same_topics(config: Config, given: Container[str]) -> Iterator[_Misfit]:
    holders: dict[str, str] = {}
    for name, topic in config.topics.names:
        key = f"topics.{name}"
        holder = holders.setdefault(topic, key)
        if holder != key:
            key, holder = (key, holder) if key in given else (holder, key)
            yield _misfit(key, topic, f"another name than {holder} has")
