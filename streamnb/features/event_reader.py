"""Events -> `EventWriter`: decides for each attribute if it is a text, a nominal value, or a number."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from numbers import Real
from typing import Any, ClassVar

import numpy as np

from streamnb.errors import why
from streamnb.features.attributes import (
    TEXT,
    Attribute,
    Continuous,
    EventModel,
    Nominal,
    Text,
    TextEvents,
    check_attributes,
    some_of,
)
from streamnb.features.data_frames import (
    FrameColumn,
    FrameColumns,
    columns_of,
    is_frame,
    plain_frame,
    rows_of_plain,
)
from streamnb.features.event_writer import EventWriter
from streamnb.values.attribute_kinds import CONTINUOUS, NOMINAL, text_kind
from streamnb.values.nominal_values import as_event, declared_texts, value_text
from streamnb.values.number_ranges import is_missing
from streamnb.values.parameter_checks import brief

_WIDE = 32  # attributes, from which arrays pay
_UNDECLARED = object()  # the name of no attribute
_PLAIN_TYPES = frozenset({float, str})
SENTENCE = 5  # blanks, each between two words
_KINDS: dict[str, Attribute] = {"text": Text(), "nominal": Nominal(), "continuous": Continuous()}


class EventReader:
    """Writes attributes of events by their declaration, or else by the type of their value.

    Args:
        attributes: name -> `Text`, `Nominal` or `Continuous`, or just "text", "nominal", "continuous".
        event_model: default for texts, "multinomial" or "bernoulli".

    Attributes:
        declared: attributes by declaration, or by name alone.
        told_types: attributes with a warning that their type differs from what was learned.
        told_odd: columns with a warning, and one label of each group of similar labels.
        closed: the texts of the values of attributes whose values are listed.
    """

    _implied: ClassVar[Mapping[Any, Attribute]] = {TEXT: Text()}

    def __init__(
        self, attributes: Mapping[Any, Attribute | str] | None, event_model: EventModel = "multinomial"
    ) -> None:
        check_attributes(attributes)
        Text(event_model=event_model)  # checks the name
        self.event_model = event_model
        self._told: set[Any] = set()  # attributes that look like texts
        self.told_types: set[Any] = set()
        self.told_odd: set[Any] = set()
        self._given = {name: _attribute(name, spec) for name, spec in (attributes or {}).items()}
        self.declared = {**self._implied, **self._given}
        self.closed = {
            name: _texts_of(name, values)
            for name, spec in self._given.items()
            if (values := getattr(spec, "values", None)) is not None
        }

    def written(self, events: Any) -> EventWriter | FrameColumns:
        """Write many events: a data frame, or a sequence of them."""
        if is_frame(events):
            columns = self.columns(events)
            if columns is None:
                events = plain_frame(events)
                columns = self.columns(events)
            if columns is not None:
                return FrameColumns(columns)
            events = rows_of_plain(events)
        return self.written_rows(events)

    def written_rows(self, events: Sequence[Any]) -> EventWriter:
        """Write many events."""
        writer = EventWriter()
        self.write_all(writer, events)
        return writer

    def texts(self, x: Any) -> tuple[Mapping[Any, Any], frozenset[Any]]:
        """Return the event, and the names of its texts."""
        names = (name for name, spec in self.declared.items() if isinstance(spec, Text))
        return x, frozenset(name for name in names if not self._is_count(name, x.get(name)))

    def kind(self, name: Any, value: Any) -> int:
        """Return MULTINOMIAL, BERNOULLI, NOMINAL or CONTINUOUS, by the value's type alone."""
        spec = self.declared.get(name)
        if isinstance(spec, Text) and not self._is_count(name, value):
            return text_kind(spec.event_model or self.event_model)
        if isinstance(spec, Nominal) or (spec is None and isinstance(value, (str, bool, np.bool_))):
            return NOMINAL
        return CONTINUOUS

    def _is_count(self, name: Any, value: Any) -> bool:
        """Return whether a text by its name alone is a number: the word "text" in a bag of words."""
        is_number = isinstance(value, Real) and not isinstance(value, bool)
        return is_number and name in self._implied and name not in self._given

    def sentences(self, x: Any) -> list[Any]:
        """Return the undeclared attributes that are one value but look like texts, each only once."""
        if not self._implied:  # every attribute is of one kind
            return []
        found = [
            name
            for name, value in x.items()
            if type(value) is str
            and value.count(" ") >= SENTENCE  # cheap, before the split
            and name not in self.declared
            and name not in self._told
            and len(value.split()) > SENTENCE
        ]
        self._told.update(found)
        return found

    def place(self, writer: EventWriter, name: Any, value: Any) -> None:
        """Write one attribute that is not missing, by its kind."""
        kind = self.kind(name, value)
        if kind == NOMINAL:
            texts = self.closed.get(name)
            if texts is not None and value_text(value) not in texts:
                raise ValueError(f"{brief(repr(value))} is not one of its values ({some_of(texts)})")
            writer.nominal(name, value)
        elif kind == CONTINUOUS:
            writer.continuous(name, value)
        else:
            place_text(writer, kind, name, value)

    def write(self, writer: EventWriter, x: Any) -> None:
        """Write every attribute of an event that is not missing."""
        event = as_event(x)
        if len(event) >= _WIDE and set(map(type, event.values())) <= _PLAIN_TYPES:
            event = self._write_numbers(writer, event)
        for name, value in event.items():
            if not is_missing(value):
                try:
                    self.place(writer, name, value)
                except (TypeError, ValueError) as error:
                    kind = TypeError if isinstance(error, TypeError) else ValueError
                    raise kind(f"attribute {name!r}: {why(error)}") from error

    def _write_numbers(self, writer: EventWriter, event: Mapping[Any, Any]) -> Mapping[Any, Any]:
        """Write all numbers of a wide event at once, in its order; return its other attributes.

        Return the whole event, with nothing written, if a number is read as another kind.
        """
        if self.kind(_UNDECLARED, 0.0) != CONTINUOUS:
            return event
        numbers = {name: value for name, value in event.items() if type(value) is float}
        if any(self.kind(name, 0.0) != CONTINUOUS for name in self.declared.keys() & numbers.keys()):
            return event
        writer.continuous_each(numbers)
        if len(numbers) == len(event):
            return {}
        return {name: value for name, value in event.items() if type(value) is not float}

    def columns(self, frame: Any) -> list[FrameColumn] | None:
        """Return the columns of a data frame, or None if its rows must be written or rejected one by one."""
        columns = columns_of(frame, self.kind)
        if any(
            name in self.closed and not self.closed[name].keys() >= set(map(bytes.decode, texts))
            for _, name, _, _, texts in columns or ()
        ):
            return None
        return columns

    def takes(self, x: Any) -> bool:
        """Return whether every value of an attribute whose values are listed is one of them."""
        given = ((as_event(x).get(name), texts) for name, texts in self.closed.items())
        return all(
            is_missing(value) or (type(value) in {str, int, bool} and value_text(value) in texts)
            for value, texts in given
        )

    def write_all(self, writer: EventWriter, xs: Sequence[Any]) -> None:
        """Write events and finish each; events of one text each are written all at once."""
        name: Any = None
        if isinstance(xs, TextEvents):
            name = TEXT
        elif set(map(type, xs)) == {dict} and xs[0]:
            name = next(iter(xs[0]))
        spec = self.declared.get(name)
        if isinstance(spec, Text):
            texts: Sequence[Any]
            texts = (
                xs.texts if isinstance(xs, TextEvents) else [x.get(name) if len(x) == 1 else None for x in xs]
            )
            if self.write_texts(writer, text_kind(spec.event_model or self.event_model), name, texts):
                return
        for x in xs:
            self.write(writer, x)
            writer.end()

    @staticmethod
    def write_texts(writer: EventWriter, kind: int, name: Any, texts: Sequence[Any]) -> bool:
        """Write events of one text each; return False, and write nothing, if one cannot be written."""
        if set(map(type, texts)) != {str}:
            return False
        try:
            writer.text_each(kind, name, texts)
        except UnicodeEncodeError:  # writing them one by one raises an error that names the attribute
            return False
        return True


def place_text(writer: EventWriter, kind: int, name: Any, value: Any) -> None:
    """Write a text: a string, or a bag of words (token -> frequency)."""
    if isinstance(value, str):
        writer.text(kind, name, value)
    elif isinstance(value, Mapping):
        for token, times in value.items():
            if not is_missing(times):
                writer.token(kind, name, value_text(token), times)
    else:
        raise TypeError(f"expected a text or a bag of words, got {type(value).__name__}")


def _attribute(name: Any, spec: Attribute | str) -> Attribute:
    if isinstance(spec, (Text, Nominal, Continuous)):
        return spec
    if spec in _KINDS:
        return _KINDS[spec]
    raise ValueError(f"attribute {name!r}: expected one of {', '.join(_KINDS)}, not {spec!r}")


def _texts_of(name: Any, values: Iterable[Any]) -> dict[str, None]:
    """Return the texts by which an attribute's values are compared, in order. Raises ValueError."""
    texts = declared_texts(values)
    if len(set(texts)) < len(texts):
        raise ValueError(f"attribute {name!r}: one of its values is there twice: {some_of(texts)}")
    return dict.fromkeys(texts)
