"""A configuration written out: as TOML for people, and as one hash for the journal."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Any

import msgspec

from streamnb.config.config_literals import Secret
from streamnb.config.config_schema import Config, ModelConfig
from streamnb.config.config_sections import Section, members
from streamnb.config.model_kinds import CLASSIFIERS
from streamnb.config.validators import Validator

SHAPELESS = (
    "log",
    "kafka",
    "http",
    "commit",
    "snapshots",
    "scorers",
    "webhooks",
    "log_output",
    "sources",
    "registry",
)
"""The sections that change neither what is learned nor what is published."""

_SHAPELESS_OF_TOPICS = ("requests", "partitions", "replication", "retention")
"""Used by `serve`, or only to create a topic: the journal knows the partitions that were read."""


def show(config: Config) -> str:
    """Return every key and its value as TOML, with units; `load` reads an equal configuration back.

    Keys without a value and secrets are comments, because TOML has no null; `load` does not restore secrets.
    """
    return "\n".join(_lines(config, "")) + "\n"


def config_hash(config: Config) -> str:
    """Return the SHA-256 (hex) of all that affects what is learned or published.

    Excluded are the sections in `SHAPELESS`, and the settings of topic creation. The canonical form is JSON
    with sorted keys, durations in seconds, sizes in bytes and defaults filled in.
    """
    return hashlib.sha256(msgspec.json.encode(semantic_config_of(config), order="sorted")).hexdigest()


def semantic_config_of(config: Config) -> dict[str, Any]:
    """Return all settings that affect what is learned or published, as JSON: section -> key -> value.

    Default hypotheses and their switching rate are included, because later versions may have other defaults.
    """
    sections = [name for name in config.__struct_fields__ if name not in SHAPELESS]
    shaping = {name: msgspec.to_builtins(getattr(config, name)) for name in sections}
    for name in _SHAPELESS_OF_TOPICS:
        del shaping["topics"][name]
    shaping["model"]["kind"] = "mixture" if config.weighs else config.model.kind
    for name in {name for kind in CLASSIFIERS.values() for name in kind.own}:  # only its kind has these
        del shaping["model"][name]
    shaping["model"] |= config.model.own
    read_where = {
        "labels": config.keeps_events,
        "monitors": config.monitors,
        "decision": config.decision.is_given,
    }
    for name in [name for name, is_read in read_where.items() if not is_read]:
        del shaping[name]
    shaping["hypotheses"] = msgspec.to_builtins(config.weighed)
    shaping["posterior"]["switching_rate"] = config.switching_rate
    if "labels" in shaping:
        del shaping["labels"]["allowed"]  # only programs that write labels read it
    plain: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(shaping))  # tuples become lists
    return plain


def _lines(section: Section, path: str) -> Iterator[str]:
    """Yield the section's keys, then its subsections: in TOML, a header owns all that follows."""
    nested = []
    for name, member in members(type(section)).items():
        value = getattr(section, name)
        if not isinstance(member, Validator):
            nested.append((name, value))
        elif _is_unset(section, name):
            yield f"# {name} is not set"
        elif isinstance(value, Secret):
            yield f"# {name} is set, and not shown"
        else:
            yield f"{name} = {member.write(value)}"
    for name, value in nested:
        inner = f"{path}.{name}" if path else name
        yield f"\n[{inner}]"
        yield from _lines(value, inner)


def _is_unset(section: Section, name: str) -> bool:
    """Return True if the key has no value; a model's alpha has none if m replaces it."""
    replaced = isinstance(section, ModelConfig) and name == "alpha" and section.m is not None
    return replaced or getattr(section, name) in (None, Secret())
