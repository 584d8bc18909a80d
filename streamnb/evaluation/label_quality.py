"""Warnings about labels of a stream; see `data_quality`, which reports each once."""

from __future__ import annotations

import math
import shlex
from collections.abc import Iterator, Mapping

from streamnb.config.config_literals import literal
from streamnb.features.schema_inference import ENOUGH
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
