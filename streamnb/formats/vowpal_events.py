"""Lines of Vowpal Wabbit as event records: ``LABEL IMPORTANCE 'TAG|NAMESPACE NAME:VALUE WORD ...``.

Features with a value become numbers, called ``namespace^name``, or ``name`` in the default namespace; equal
names add up, as in a linear model. Features without a value are words, in the order of the line. The words of
the default namespace, or of the namespace in `CsvColumns.text`, are the text; any other namespace becomes one
feature of its name. A tag is the id.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from typing import Any

from streamnb.formats.event_source import EventSource
from streamnb.formats.svmlight_events import finite_number, label_name
from streamnb.values.messages import Message

_START = re.compile(
    rb"(?:\xef\xbb\xbf)?(?:[ \t]*\r?\n)*(?:[^\s|,;{\"'<]+[ \t]+){0,3}"
    rb"(?:'?[^\s|,;{\"<]*)\|[^\s|]*(?:[ \t]+[^\s|,;]+)+"
)
_MOST_LABELS = 3  # label, importance and initial prediction


def is_vowpal(start: bytes) -> bool:
    """Return whether the first line of content is a label, a bar and features, and not a table."""
    first = start.lstrip().partition(b"\n")[0]
    return _START.match(start) is not None and (b"|" in first and b" " in first)


def vowpal_events(source: EventSource) -> Iterator[bytes]:
    """Yield the event of each line that is not blank.

    Labels of several classes, with costs or of actions, and shared features, become dead letters with the
    reason.
    """
    lines = _VowpalLines(source)
    for line in source.text_lines("\n"):
        stripped = line.strip(" \t\r\n")
        if stripped:
            try:
                record = lines.record(stripped)
            except ValueError as error:
                yield source.faulty("vw", error, stripped)
            else:
                yield source.encoded({"id": source.next_id(line), **record})


class _VowpalLines:
    def __init__(self, source: EventSource) -> None:
        self._source, text = source, source.columns.text
        self._texts = {"", "text"} if text == "text" else {text}
        self._noted: set[str] = set()

    def record(self, line: str) -> dict[str, Any]:
        """Return the record of a line; its id is the tag. Raises ValueError with the fault."""
        head, bar, rest = line.partition("|")
        if not bar:
            raise ValueError("no bar (|) begins a namespace")
        record = self._head(head)
        words: dict[str, list[str]] = {}
        numbers: dict[str, float] = {}
        for part in rest.split("|"):
            _read_namespace(part, words, numbers)
        features: dict[str, Any] = numbers
        if words:
            if text := [word for name in list(words) if name in self._texts for word in words.pop(name)]:
                record["text"] = " ".join(text)
            if words:
                self._look(words)
                if both := words.keys() & numbers.keys():
                    raise ValueError(f"{min(both)!r} is a number and a namespace of words")
                features = numbers | {name: " ".join(found) for name, found in words.items()}
        if features or "text" not in record:
            record["features"] = features
        return record

    def _head(self, head: str) -> dict[str, Any]:
        """Return label and id of the part before the first bar."""
        fields = head.split()
        record: dict[str, Any] = {}
        has_tag = fields and (head[-1:] not in {" ", "\t"} or fields[-1].startswith("'"))
        if has_tag and (tag := fields.pop().removeprefix("'")):
            record["id"] = tag
        if not fields:
            return record
        label, *more = fields
        if label in {"shared", "ccb", "slates"}:
            raise ValueError(f"{label!r} begins an example of several lines; an event is one line")
        if "," in label:
            raise ValueError(f"{label!r} is several labels; an event has one label")
        if ":" in label or any(":" in field for field in more):
            raise ValueError(f"{label!r} is a label with costs or of an action; expected a class")
        if len(fields) > _MOST_LABELS:
            raise ValueError(
                f"{len(fields)} fields before the bar, expected at most label, importance and base"
            )
        if more:
            weight = finite_number(more[0])
            self._source.note_weight(more[0], weight)
            if self._source.columns.has_weights:
                record["weight"] = weight
        record["label"] = label_name(label)
        return record

    def _look(self, words: dict[str, list[str]]) -> None:
        for name, found in words.items():
            if name not in self._source.columns.strings and len(found) > 1:
                text = (
                    f"the words of namespace {name!r} are one value; --text-column {name} reads them as the "
                )
                text += "text, and `streamnb init` declares texts"
                self._note_once(Message("text-as-value", text, line=self._source.line))

    def _note_once(self, message: Message) -> None:
        if message.event not in self._noted:
            self._noted.add(message.event)
            self._source.note(message)


def _read_namespace(part: str, words: dict[str, list[str]], numbers: dict[str, float]) -> None:
    """Add the words and numbers behind one bar. Raises ValueError with the fault."""
    fields = part.split()
    has_name = part[:1] not in {"", " ", "\t"}
    name, _, scale = fields.pop(0).partition(":") if has_name else ("", "", "")
    factor = finite_number(scale) if scale else 1.0
    if factor == 1.0 and ":" not in part:
        if fields:
            words.setdefault(name, []).extend(fields)
        return
    prefix = f"{name}^" if name else ""
    is_plain = factor == 1.0 and not numbers and "_" not in part and part.isascii()
    if is_plain and (found := _plain_numbers(prefix, fields)):
        numbers |= found
        return
    for field in fields:
        feature, colon, value = field.partition(":")
        if not feature:
            raise ValueError(f"{field!r} is a feature without a name")
        if colon or factor != 1.0:
            number = factor * (finite_number(value) if colon else 1.0)
            numbers[prefix + feature] = numbers.get(prefix + feature, 0.0) + number
        else:
            words.setdefault(name, []).append(feature)


def _plain_numbers(prefix: str, fields: list[str]) -> dict[str, float]:
    """Return the numbers of a namespace; empty if a name is empty or repeated, or a value is not a number."""
    try:
        found = {prefix + name: float(value) for name, value in [field.split(":") for field in fields]}
    except ValueError:  # also of a field without a value, or with two
        return {}
    is_plain = len(found) == len(fields) and prefix not in found and math.isfinite(sum(found.values()))
    return found if is_plain else {}
