"""Lines of svmlight and libsvm as event records: ``LABEL INDEX:VALUE ... # comment``.

The label is a name: ``+1`` and ``1.0`` are ``1``. It may have a weight, ``LABEL:WEIGHT``, as of XGBoost. A
feature is named by its index. Features that a line does not list are missing, because a stream does not know
all indices. ``qid:N`` becomes the field ``qid``.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import msgspec

from streamnb.formats.event_source import PEEKED, EventSource
from streamnb.values.messages import Message

_PAIRS = msgspec.json.Decoder(dict[str, float])
_PLAIN = b"0123456789.eE+-: "
_LEADING_ZERO = re.compile(rb"(?:^| )0[0-9]")
_LABEL = re.compile(rb"-?(?:0|[1-9][0-9]{0,14})")
_NUMBER = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_NONE = re.compile(r"[+-]?(?:nan|inf|infinity)", re.IGNORECASE)
_START = re.compile(
    rb"(?:[ \t]*#[^\n]*\n)*"
    rb"(?:[+-]?[0-9.]+(?:[eE][+-]?[0-9]+)?(?::[0-9.]+)?|[A-Za-z_]\w*(?=(?:[ \t]+[0-9]+:[-+.0-9eE]+){2}))"
    rb"(?:[ \t]+qid:[0-9]+)?(?:[ \t]+[0-9]+:[-+.0-9eE]+)+[ \t]*(?:#[^\n]*)?(?:\r?\n|$)"
)


def is_svmlight(start: bytes) -> bool:
    """Return whether the first line of content is a label and pairs of an index and a value."""
    return _START.match(start) is not None


def svmlight_events(source: EventSource) -> Iterator[bytes]:
    """Yield the event of each line; what is not svmlight becomes a dead letter with the reason."""
    labels, weights = _ZeroLabel(source), _LabelWeights(source)
    for line in source.byte_lines():
        body = line.partition(b"#")[0].strip()
        if not body:
            continue
        label, rest = (*body.split(None, 1), b"")[:2]
        written, weight = body, b""
        if b":" in label and weights.are_read(label):
            label, _, weight = label.partition(b":")
            written = b"%b %b" % (label, rest)
        pairs = _plain_pairs(rest)
        if pairs is not None and not weight and _LABEL.fullmatch(label) and label != b"-0":
            name = label.decode()
            labels.look(name)
            yield b'{"id":%b,"features":%b,"label":"%b"}' % (
                msgspec.json.encode(source.next_id(line)), pairs, label,
            )  # fmt: skip
            continue
        try:
            record = _event(written.decode(errors="surrogateescape")) | weights.field(weight)
        except ValueError as error:
            yield source.faulty("svmlight", error, body)
        else:
            labels.look(record.get("label", ""))
            yield source.encoded({"id": source.next_id(line), **record})


class _ZeroLabel:
    """Detects a label 0 next to 1 and -1: SVM-light marks lines without a label so, libsvm a class."""

    def __init__(self, source: EventSource) -> None:
        self._source = source
        self._wanted = {"0", "1", "-1"}

    def look(self, label: str) -> None:
        """Note once that all three labels occur."""
        if label in self._wanted:
            self._wanted.discard(label)
            if not self._wanted:
                text = "the label 0 is a class here, but SVM-light marks lines without a label by it: "
                text += '--set \'classes.aliases={"0" = ""}\' removes it'
                self._source.note(Message("label-zero", text, line=self._source.line))


class _LabelWeights:
    """Distinguishes labels with a weight, ``LABEL:WEIGHT``, from features of lines without a label.

    They are labels if no line at the start has a plain label, and a line cannot be read otherwise: its first
    number is repeated, or is above the next index. They are also labels if the schema reads weights.
    """

    def __init__(self, source: EventSource) -> None:
        self._source = source
        lines = source.start.splitlines()[: -1 if len(source.start) == PEEKED else None]
        rows = [fields for line in lines if (fields := line.partition(b"#")[0].split())]
        are_pairs = bool(rows) and all(b":" in fields[0] for fields in rows)
        self._are_labels = are_pairs and (source.columns.has_weights or any(map(_is_unsorted, rows)))
        if self._are_labels:
            source.report_findings([f"{rows[0][0].decode(errors='replace')} as LABEL:WEIGHT"])
        elif are_pairs:
            text = "no line has a label; --set events.weight=$.weight reads the first field as LABEL:WEIGHT"
            source.note(Message("field-absent", text, path=source.columns.label))

    def are_read(self, field: bytes) -> bool:
        """Return whether the first field of a line, which has a colon, is a label and a weight."""
        name = field.partition(b":")[0]
        return self._are_labels if name.isdigit() else name not in {b"", b"qid"}

    def field(self, written: bytes) -> dict[str, float]:
        """Return the field of a weight, if there is one and it is read. Raises ValueError."""
        if not written:
            return {}
        weight = finite_number(written.decode(errors="replace"))
        self._source.note_weight(written.decode(), weight)
        return {"weight": weight} if self._source.columns.has_weights else {}


def _is_unsorted(fields: list[bytes]) -> bool:
    """Return whether the first two fields of a line cannot be features in the order of their indices."""
    first, *others = (field.partition(b":")[0] for field in fields)
    second = next((name for name in others if name != b"qid"), b"")
    return not first.isdigit() or (second.isdigit() and int(first[:18]) >= int(second[:18]))


def _plain_pairs(rest: bytes) -> bytes | None:
    """Return a line's pairs as a JSON object if they are plain, otherwise None."""
    if rest.translate(None, _PLAIN) or _LEADING_ZERO.search(rest):
        return None
    if not rest:
        return b"{}"
    written = b'{"%b}' % rest.replace(b":", b'":').replace(b" ", b',"')
    try:
        pairs = _PAIRS.decode(written)
    except msgspec.DecodeError:
        return None
    are_indices = "".join(pairs).isdigit() and "" not in pairs
    return written if are_indices and len(pairs) == rest.count(b":") else None


def _event(line: str) -> dict[str, Any]:
    """Return the record of a line without its id. Raises ValueError with the fault."""
    fields = line.split()
    if not fields:
        raise ValueError("the line holds blanks alone")
    has_label = ":" not in fields[0]
    record: dict[str, Any] = {"features": {}}
    features = record["features"]
    if has_label:
        record["label"] = label_name(fields[0])
    for field in fields[has_label:]:
        name, colon, written = field.partition(":")
        if not colon:
            raise ValueError(f"{field!r} is a second label; an event has one label")
        if name == "qid" and "qid" not in record and not features:
            record["qid"] = written
            continue
        if not (name.isascii() and name.isdigit()):
            raise ValueError(f"{field!r} is not INDEX:VALUE")
        name = str(int(name)) if len(name) < 10 else name
        if name in features:
            raise ValueError(f"index {name} occurs twice")
        features[name] = None if _NONE.fullmatch(written) else finite_number(written)
    record["features"] = {name: value for name, value in features.items() if value is not None}
    return record


def finite_number(written: str) -> float:
    """Return the finite number that a text is. Raises ValueError for any other text."""
    try:
        value = float(written)
    except ValueError:
        value = math.inf
    if not math.isfinite(value) or "_" in written or not written.isascii():
        raise ValueError(f"{written!r} is not a finite number")
    return value


@lru_cache(1024)
def label_name(written: str) -> str:
    """Return the name of a label: a whole number has no fraction or plus. Raises ValueError for several."""
    if "," in written:
        raise ValueError(f"{written!r} is several labels; an event has one label")
    if not _NUMBER.fullmatch(written):
        return written
    value = float(written)
    return number_name(value) if math.isfinite(value) else written


def number_name(value: float) -> str:
    """Return the name of a finite number, as `value_text` does, without numpy: 3.0 is "3"."""
    return str(int(value)) if value.is_integer() else repr(value)
