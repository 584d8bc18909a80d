"""Labels of a file: warnings, which `data_quality` reports once each, and groups of labels."""

from __future__ import annotations

import argparse
import math
import shlex
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import msgspec

from streamnb.config.config_literals import literal
from streamnb.errors import ConfigError
from streamnb.features.schema_inference import ENOUGH
from streamnb.formats.event_schema import EventSchema
from streamnb.values.messages import Message
from streamnb.values.similar_labels import ALIKE, folded, is_visible

_MISSING = frozenset("na n/a #n/a <na> nan null (null) \\n".split())
_MOST_ALIKE = 3  # groups of labels that are named, and labels of each
_MOST_WHOLE, _MOST_FRACTIONS = 30, 10  # different numbers that may still be names of classes


def label_warnings(
    labels: Mapping[str, float], *, is_all: bool, grows: bool = False
) -> Iterator[tuple[str, Message]]:
    """Yield a key, so that it is printed once, and a message for each unintended property of labels.

    Args:
        labels: label -> how often it was learned or met.
        is_all: whether no more labels come.
        grows: whether to repeat the message about similar labels as their number grows; otherwise only a
            third spelling repeats it.
    """
    if missing := [one for one in labels if one.strip().lower() in _MISSING or not is_visible(one)]:
        named, cells = ", ".join(map(repr, missing)), shlex.quote(",".join(missing))
        text = f"{named}: classes, but named like labels that are missing; of CSV and Parquet, "
        text += f"--missing={cells} takes them so"
        yield "missing", Message("labels-like-missing", text, labels=missing)
    if groups := _groups(labels):
        n, n_named = sum(map(len, groups)), sum(min(len(group), _MOST_ALIKE) for group in groups)
        largest = min(max(map(len, groups)), _MOST_ALIKE)
        # In a growing log it is repeated for each of a few, then as their number doubles.
        size = f"{min(n_named, _MOST_ALIKE**2)} {n.bit_length()}" if grows else f"{largest}"
        message = Message("labels-alike", _describe_similar(groups), labels=groups[0], groups=len(groups))
        yield f"alike {size}", message
    numbers = [number for label in labels if (number := _number(label)) is not None]
    most = _MOST_WHOLE if all(number.is_integer() for number in numbers) else _MOST_FRACTIONS
    if len(numbers) == len(labels) > most:
        text = f"the labels are {len(labels):,} different numbers, and each is a class of its own: a "
        remedy = "classifier does not predict a quantity; label the events with ranges, such as low and high"
        yield "numbers", Message("labels-are-numbers", f"{text}{remedy}, if it is one", labels=len(labels))
    if is_all and len(labels) == 1 and sum(labels.values()) >= ENOUGH:
        (only,) = labels
        text = f"{only!r} is the only label: with one class there is nothing to distinguish"
        yield "one class", Message("one-class-only", text, label=only)


def aliases_of(labels: Mapping[str, float]) -> str:
    """Return a TOML table: label -> the most frequent label with the same folded form.

    It is empty if all folded forms differ.
    """
    return _table(_groups(labels))


def _table(groups: list[list[str]]) -> str:
    pairs = [f"{literal(other)} = {literal(label)}" for label, *others in groups for other in others]
    return f"{{ {', '.join(pairs)} }}" if pairs else ""


def _groups(labels: Mapping[str, float]) -> list[list[str]]:
    found: dict[str, list[str]] = {}
    for label in labels:
        found.setdefault(folded(label), []).append(label)
    return [
        sorted(group, key=lambda one: (-labels[one], one != one.strip(), one))
        for group in found.values()
        if len(group) > 1
    ]


def _describe_similar(groups: list[list[str]]) -> str:
    named = [group[:_MOST_ALIKE] for group in groups[:_MOST_ALIKE]]
    told = "; ".join(", ".join(map(repr, group)) for group in named)
    more = f", and {len(groups) - len(named):,} more groups" if len(groups) > len(named) else ""
    remedy = f"--set {shlex.quote(f'classes.aliases={_table(named)}')} reads them as one"
    return f"{ALIKE}: {told}{more}; {remedy}"


def _number(label: str) -> float | None:
    try:
        number = float(label)
    except ValueError:
        return None
    return number if math.isfinite(number) else None


_UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


def with_groups(events: Iterable[bytes], options: argparse.Namespace, label_path: str) -> Iterator[bytes]:
    """Yield the raw events, with labels replaced by ``--map-labels``, if it is set.

    A label that the file does not contain stays; one that it maps to null is removed, so that its event is
    only predicted. Malformed events are passed on to the decoder, which reports them.

    Raises ConfigError, which names the file, if it is not an object of labels.
    """
    if options.map_labels is None:
        return iter(events)
    return _mapped(events, _groups_in(options.map_labels), EventSchema(label_path=label_path).label_keys)


def _groups_in(path: str) -> dict[str, str | None]:
    try:
        return msgspec.json.decode(Path(path).read_bytes(), type=dict[str, str | None])
    except OSError as error:
        raise ConfigError(f"--map-labels: {path}: {error.strerror}") from error
    except _UNREADABLE as error:
        raise ConfigError(
            f'--map-labels: {path}: {error}; expected an object such as {{"rec.autos": "like"}}'
        ) from error


def _mapped(events: Iterable[bytes], groups: dict[str, str | None], keys: tuple[str, ...]) -> Iterator[bytes]:
    for raw in events:
        try:
            event = place = msgspec.json.decode(raw)
            for key in keys[:-1]:
                place = place[key]
            if place[keys[-1]] in groups:
                place[keys[-1]] = groups[place[keys[-1]]]
                yield msgspec.json.encode(event)
                continue
        except (*_UNREADABLE, LookupError, TypeError):
            pass
        yield raw
