"""Rows of ARFF, the format of Weka and MOA, as event records: dense and sparse rows.

The header's types decide how values are read: a nominal ``1`` is a string. A sparse row has the value of
each attribute: one that it does not list is 0, or the first declared value. A row that the header excludes
becomes a JSON array that begins with the fault, and thus a dead letter.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from streamnb.formats.arff_header import ArffAttribute, Convert, read_header, unquoted
from streamnb.formats.event_columns import CsvColumns, Row, check_header
from streamnb.formats.event_source import EventSource
from streamnb.formats.svmlight_events import number_name
from streamnb.values.messages import Message
from streamnb.values.parameter_checks import pluralize

_START = re.compile(rb"(?:\xef\xbb\xbf)?(?:[ \t]*(?:%[^\n]*)?\r?\n)*[ \t]*@relation\b", re.IGNORECASE)
_TOKEN = re.compile(
    r"""[ \t]*(?:('[^'\\]*(?:\\.[^'\\]*)*'|"[^"\\]*(?:\\.[^"\\]*)*")|((?!['"])[^,%]*?))[ \t]*(,|%|$)"""
)
_WORD = re.compile(r"""[ \t,]*('[^'\\]*(?:\\.[^'\\]*)*'|"[^"\\]*(?:\\.[^"\\]*)*"|[^\s,'"%]+)[ \t,]*""")
_WEIGHT = re.compile(r"[,\s]*\{\s*([^{}]*?)\s*\}\s*$")
_CLASSES = ("class", "label")
_MISSING = "?"
_BLANK = " \t\r\n"


def is_arff(start: bytes) -> bool:
    """Return whether content begins as ARFF does: with comments and ``@relation``."""
    return _START.match(start) is not None


def arff_events(source: EventSource) -> Iterator[bytes]:
    """Yield the event of each row.

    The label is the attribute that the columns name; if there is none of this name, the attribute called
    ``class``, else the last one if it is nominal, which is noted.

    Raises:
        ConfigError: the header does not fit the columns.
        LogError: a header that is not ARFF.
    """
    lines = source.text_lines()
    attributes = read_header(lines)
    source.settle_header(one.name for one in attributes)
    columns = _with_label(attributes, source)
    check_header([one.name for one in attributes], columns, "ARFF")
    _report_declared(attributes, columns, source)
    rows = _ArffRows(attributes, columns, source)
    for line in lines:
        stripped = line.strip(_BLANK)
        if stripped and not stripped.startswith("%"):
            try:
                cells = rows.cells(stripped)
            except ValueError as error:
                yield source.faulty("arff", error, stripped)
            else:
                yield source.event(cells, stripped, rows.columns, **rows.weight)


def _with_label(attributes: Sequence[ArffAttribute], source: EventSource) -> CsvColumns:
    """Return the columns with the label's attribute."""
    columns, names = source.columns, [one.name for one in attributes]
    if columns.label in names or not columns.finds_label or not attributes:
        return columns
    found = next((name for name in names if name.lower() in _CLASSES), None)
    if found is None and attributes[-1].kind == "nominal":
        found = names[-1]
    if found is None:
        return columns
    text = f"the label is the attribute {found!r}; --label-column NAME selects another"
    source.note(Message("label-chosen", text, column=found))
    return msgspec.structs.replace(columns, label=found)


def _report_declared(attributes: Sequence[ArffAttribute], columns: CsvColumns, source: EventSource) -> None:
    roles = {columns.id, columns.label, columns.text, columns.ts}
    kinds = {"continuous": "continuous", "nominal": "nominal"}
    declared = {one.name: (kinds[one.kind], one.values) for one in attributes if one.kind in kinds}
    for role in roles & declared.keys():
        del declared[role]  # type: ignore[arg-type]
    if n := sum(kind == "nominal" and name not in columns.names for name, (kind, _) in declared.items()):
        text = f"declares the values of {pluralize(n, 'attribute')}; `streamnb init` writes a configuration "
        text += "with them; without it a model knows only the values that it met"
        source.note(Message("attributes-declared", text, attributes=declared))


class _ArffRows:
    """Converter of rows to cells, by the types of the header.

    Attributes:
        columns: the roles of cells; missing cells are already left out.
        weight: the field of the current row's weight, if it has one that is read.
    """

    def __init__(self, attributes: Sequence[ArffAttribute], columns: CsvColumns, source: EventSource) -> None:
        self.columns = msgspec.structs.replace(columns, missing=())
        self._source, self._id = source, columns.id
        self._missing = {_MISSING, *columns.missing}
        named = {columns.id, columns.label, columns.text, *columns.strings}
        self._names = [one.name for one in attributes]
        self._converters = [
            _as_name(one.convert) if one.kind == "continuous" and one.name in named else one.convert
            for one in attributes
        ]
        self._defaults = {
            one.name: number_name(default) if type(default) is float and one.name in named else default
            for one in attributes
            if (default := one.default) is not None and default not in {*columns.missing} - {""}
        }
        self.weight: dict[str, float] = {}

    def cells(self, line: str) -> Row:
        """Return the values of a row by name, without missing ones. Raises ValueError for a faulty row."""
        self.weight = {}
        if line.startswith("{"):
            found = self._sparse(line)
        else:
            width = len(self._names)
            is_plain = "'" not in line and '"' not in line
            tokens = _split(line, width)
            if len(tokens) == width + 1 and (weight := _WEIGHT.fullmatch(tokens[-1])):
                self._read_weight(weight[1])
                tokens.pop()
            if len(tokens) != width:
                raise ValueError(f"{pluralize(len(tokens), 'value')}, the header has {width}")
            rows = zip(self._names, self._converters, tokens, strict=True)
            missing = self._missing
            try:
                found = {
                    name: value
                    for name, convert, token in rows
                    if token not in missing
                    and (value := convert(token if is_plain else unquoted(token))) is not None
                }
            except (ValueError, LookupError):
                for place, token in enumerate(tokens):
                    self._value(place, token)  # raises the error with the attribute's name
                raise
        if self._id in self._names:
            found.setdefault(self._id, None)
        return found

    def _value(self, place: int, token: str) -> Any:
        """Return the value of a token; None if it is missing."""
        if token in self._missing:
            return None
        try:
            return self._converters[place](unquoted(token))
        except KeyError as error:
            raise ValueError(f"attribute {self._names[place]!r}: {error} is not a declared value") from error
        except ValueError as error:
            raise ValueError(f"attribute {self._names[place]!r}: {error}") from error

    def _sparse(self, line: str) -> Row:
        """Return the values of a row such as ``{1 X, 3 Y}``, whose indices count from 0."""
        end = _end_of_braces(line)
        if rest := line[end + 1 :]:
            weight = _WEIGHT.fullmatch(rest)
            if weight is None and not rest.lstrip().startswith("%"):
                raise ValueError(f"{rest!r} stands after the sparse row")
            if weight is not None:
                self._read_weight(weight[1])
        found: Row = dict(self._defaults)
        seen = set[int]()
        for entry in _entries(line[1:end]):
            index, _, token = entry.partition(" ")
            place = int(index) if index.isascii() and index.isdigit() and len(index) < 10 else -1
            if not 0 <= place < len(self._names) or place in seen:
                raise ValueError(f"index {index!r}, expected an index below {len(self._names)}, once")
            seen.add(place)
            found[self._names[place]] = self._value(place, token.strip())
        return {name: value for name, value in found.items() if value is not None}

    def _read_weight(self, text: str) -> None:
        weight = float(text)  # raises ValueError
        if not math.isfinite(weight):
            raise ValueError(f"{text!r} is not a weight")
        self._source.note_weight(text, weight)
        if self.columns.has_weights:
            self.weight = {"weight": weight}


def _as_name(convert: Convert) -> Convert:
    """Return a converter to names: of an id, a label or a text that is declared as a number."""

    def named(token: str) -> str | float | None:
        value = convert(token)
        return number_name(value) if isinstance(value, float) else value

    return named


def _split(line: str, width: int) -> list[str]:
    """Return the tokens of a row, quoted ones with their quotes."""
    if "'" not in line and '"' not in line and "%" not in line:
        tokens = [token.strip(_BLANK) for token in line.split(",")]
        return tokens if len(tokens) == width else _words(line, width, tokens)
    tokens, position = [], 0
    while True:
        found = _TOKEN.match(line, position)
        if found is None:
            raise ValueError("a quote is not closed, or text follows it")
        tokens.append(found[1] or found[2])
        position = found.end()
        if found[3] != ",":
            return tokens if len(tokens) == width else _words(line, width, tokens)


def _words(line: str, width: int, tokens: list[str]) -> list[str]:
    """Return the tokens between blanks, tabs and commas, as Weka splits a row, if they fit the header."""
    words, position = [], 0
    while found := _WORD.match(line, position):
        words.append(found[1])
        position = found.end()
    return words if len(words) == width else tokens


def _end_of_braces(line: str) -> int:
    """Return the index of the brace that closes a sparse row, outside quotes."""
    quote, position = "", 1
    while position < len(line):
        character = line[position]
        if quote:
            position += character == "\\"
            quote = "" if character == quote else quote
        elif character in "'\"":
            quote = character
        elif character == "}":
            return position
        position += 1
    raise ValueError("the brace of a sparse row is not closed")


def _entries(inner: str) -> Iterator[str]:
    """Yield the entries of a sparse row: an index, a blank, and a value."""
    if "'" not in inner and '"' not in inner:
        yield from (entry for part in inner.split(",") if (entry := part.replace("\t", " ").strip()))
        return
    position = 0
    pattern = re.compile(r"""[\s,]*(\d+)\s+('[^'\\]*(?:\\.[^'\\]*)*'|"[^"\\]*(?:\\.[^"\\]*)*"|[^,'"]*)\s*""")
    while inner[position:].strip(" \t,"):
        found = pattern.match(inner, position)
        if found is None:
            raise ValueError(f"{inner[position:][:40]!r} is not an index and a value")
        yield f"{found[1]} {found[2].strip()}"
        position = found.end()
