"""Differences of two configurations, and whether a model can continue from the first to the second.

Counts and moments do not depend on how they are read. So smoothing, priors, reports and names of output
topics may change in the life of a model; from then on also what is forgotten, refused or decided, and the
drift detectors and monitors. The definition of an event may not: counts of old and new events would be mixed.

Hypotheses may not change either: the posterior has weighed their predictions. With hypotheses that includes
smoothing and priors, which they take from the model. Their memory may change: below the memory in use,
nothing is forgotten and nothing more is added. What a classifier learned depends on all its parameters. A
retrained model may differ in all of this, and in its attributes if no event waits for a label. While events
may wait, attributes may only be added at the end, because the buffer lacks their values.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from streamnb.config.config_rendering import semantic_config_of
from streamnb.config.config_schema import Config
from streamnb.config.model_kinds import is_classifier
from streamnb.errors import ConfigError, JournalError, told_as
from streamnb.formats.journal_record import ConfigChange

_MAY_CHANGE = re.compile(
    r"""  model\.(alpha|m|p|prior|priors(\..*)?|prune\..*|transition_m)
        | attributes\.([\w-]+|".*")\.(alpha|m|p|values|n_values)
        | posterior\.(prediction|seed|memory|floor|caution)
        | predictions\..*
        | decision\..*
        | drift\..*
        | monitors.*
        | metrics\.(every|every_events|interval)
        | topics\.(predictions|metrics|dead_letters|labels|alerts|tenants)
        | events\.(id|max_bytes|letter_bytes|clock|repeats)
        | labels\..*
        | classes\.(max|min_learns|aliases\..*)
        | memory\.budget
    """,
    re.VERBOSE | re.DOTALL,
)
_WEIGHED = re.compile(
    r"""  model\.(alpha|m|p|prior|priors(\..*)?)
        | attributes\.([\w-]+|".*")\.(alpha|m|p|values|n_values)
    """,
    re.VERBOSE | re.DOTALL,
)
_OF_THE_MODEL = re.compile(r"model\.(?!name$).*|hypotheses.*|posterior\..*", re.DOTALL)
_UNREAD = re.compile(r"posterior\..*")
_READ_WHERE_WEIGHED = re.compile(r"hypotheses\[.*|posterior\..*", re.DOTALL)
_LABELS, _NO_LABELS = "topics.labels", '""'  # may be added, and not be another
_BY, _BY_LEARNER = "predictions.by", '"learner"'  # may not be taken back
_WINDOW = "labels.window"  # may not be removed
_AT_WORK = "model.memory"  # of tenants' models: evicting them changes nothing that is learned
_ABSENT = "absent"
_ORDER = "attributes (order)"
_BARE = re.compile(r"[\w-]+")


def changes(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[ConfigChange]:
    """Return each key, in alphabetical order, whose value differs between two `semantic_config_of`.

    If only one of them weighs hypotheses, ``model.kind`` is the difference, and keys that only it reads are
    not compared.
    """
    old, new = dict(_flat(before)), dict(_flat(after))
    weighing = [bool(shaping.get("hypotheses")) for shaping in (before, after)]
    if weighing[0] != weighing[1]:
        old, new = ({k: v for k, v in one.items() if not _READ_WHERE_WEIGHED.match(k)} for one in (old, new))
    weighs = any(weighing)
    learned_otherwise = any(map(is_classifier, (before, after)))
    waits = any("labels" in shaping for shaping in (before, after))  # events may wait with their attributes
    of_tenants = all(one.get("model", {}).get("kind") == "tenants" for one in (before, after))
    return [
        ConfigChange(
            key,
            old.get(key, _ABSENT),
            new.get(key, _ABSENT),
            (_may_change(key, weighs=weighs or learned_otherwise) or (of_tenants and key == _AT_WORK))
            and not _stays(key, old, new),
            _OF_THE_MODEL.fullmatch(key) is not None
            or (key.startswith("attributes") and (not waits or _is_addition(key, old, new))),
        )
        for key in sorted(old.keys() | new.keys())
        if old.get(key) != new.get(key)
    ]


def _is_addition(key: str, old: Mapping[str, str], new: Mapping[str, str]) -> bool:
    """Return True for the keys of a new attribute, and for an order that only adds to the old one."""
    if key == _ORDER:
        before = old.get(key, "")
        return bool(before) and new.get(key, "").startswith(f"{before}, ")
    attribute = key.rpartition(".")[0]
    return f"{attribute}.name" not in old


def _stays(key: str, old: Mapping[str, str], new: Mapping[str, str]) -> bool:
    if key == _LABELS:
        return old.get(key, _NO_LABELS) != _NO_LABELS
    if key == _BY:
        return new.get(key) == _BY_LEARNER
    return key == _WINDOW and key not in new


def restored(shaping: Mapping[str, Any]) -> Config:
    """Return the configuration that a journal holds; a key that it lacks has its default.

    Raises JournalError where the journal has what this program does not know.
    """
    is_of_another = "the journal's configuration is of another version"
    with told_as(JournalError, is_of_another, ConfigError, msgspec.ValidationError):
        config: Config = msgspec.convert(shaping, Config)
    unknown = {key for key, _ in _flat(shaping)} - {key for key, _ in _flat(semantic_config_of(config))}
    if unknown:
        raise JournalError(
            f"the journal's configuration is of a later version of this program: {', '.join(sorted(unknown))}"
        )
    return config


def _may_change(key: str, *, weighs: bool) -> bool:
    """Return True if a key may change in the life of a model; `weighs`: with hypotheses, or a classifier."""
    if weighs:
        return _MAY_CHANGE.fullmatch(key) is not None and _WEIGHED.fullmatch(key) is None
    return _MAY_CHANGE.fullmatch(key) is not None or _UNREAD.fullmatch(key) is not None


def _quoted(name: str) -> str:
    return name if _BARE.fullmatch(name) else msgspec.json.encode(name).decode()


def _flat(value: Any, path: str = "") -> Iterator[tuple[str, str]]:
    """Yield dotted key and JSON value; names that are not bare words are quoted.

    Attributes go by their names, hypotheses by their positions, as in configuration errors.
    """
    if isinstance(value, Mapping):
        for name, member in value.items():
            yield from _flat(member, f"{path}.{_quoted(name)}" if path else name)
    elif path in {"attributes", "monitors"}:
        for attribute in value:
            yield from _flat(
                {k: v for k, v in attribute.items() if v is not None or path == "attributes"},
                f"{path}.{_quoted(attribute['name'])}",
            )
        yield (
            _ORDER if path == "attributes" else f"{path} (order)",
            ", ".join(attribute["name"] for attribute in value),
        )
    elif path == "hypotheses":
        for i, hypothesis in enumerate(value):
            given = {name: member for name, member in hypothesis.items() if member is not None}
            yield from _flat(given, f"{path}[{i}]")
    else:
        yield path, msgspec.json.encode(value).decode()
