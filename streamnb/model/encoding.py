"""Events as dictionaries -> events as arrays: which attribute goes to which group of rows, or which field."""

from __future__ import annotations

import math
import numbers
from collections.abc import Hashable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from streamnb.model.counts import BERNOULLI, MULTINOMIAL, NOMINAL, UNIT, Counts
from streamnb.model.kernels import mark_repeats
from streamnb.model.moments import LARGEST
from streamnb.model.tables import Batch
from streamnb.model.tokenizer import Tokens, encode_text
from streamnb.model.vocabulary import Vocabulary

__all__ = ["Encoded", "EventWriter", "Layout", "is_missing", "text_kind", "units", "value_text"]

Name = Hashable
_HEAVIEST = 2**40


def units(weight: float) -> int:
    """A weight in units of 1/1024 example. Raises ValueError where it is negative, nan or beyond 2^40."""
    if not 0.0 <= weight <= _HEAVIEST:
        raise ValueError(f"a weight must lie between 0 and 2^40, not {weight!r}")
    return round(weight * UNIT)


def is_missing(value: Any) -> bool:
    """None and numbers that are not finite say nothing about an event."""
    return value is None or (isinstance(value, numbers.Real) and not math.isfinite(value))


def value_text(value: Any) -> str:
    """The text by which nominal values are compared: 3 and 3.0 are "3", True is "true".

    Raises TypeError for anything but strings, booleans and numbers.
    """
    if isinstance(value, str):
        return value
    if isinstance(value, (bool, np.bool_)):
        return "true" if value else "false"
    if isinstance(value, numbers.Integral):
        return str(int(value))
    if isinstance(value, numbers.Real):
        number = float(value)
        return str(int(number)) if number.is_integer() else repr(number)
    raise TypeError(f"expected a string, a boolean or a number, got {type(value).__name__}")


class Layout:
    """Which groups of rows and which continuous fields there are, in the order in which they were met.

    Attributes:
        groups: (kind, name) -> number, for the kinds of `counts`.
        fields: name -> number of a continuous attribute.
    """

    def __init__(self, counts: Counts) -> None:
        self.groups: dict[tuple[int, Name], int] = {}
        self.fields: dict[Name, int] = {}
        self._counts = counts

    def group(self, kind: int, name: Name, *, adds: bool) -> int | None:
        """The number of a group; a new one where the event adds, else None."""
        number = self.groups.get((kind, name))
        if number is None and adds:
            number = self.groups[kind, name] = self._counts.add_group(kind)
        return number

    def field(self, name: Name, *, adds: bool) -> int | None:
        """The number of a continuous field; a new one where the event adds, else None."""
        number = self.fields.get(name)
        if number is None and adds:
            number = self.fields[name] = len(self.fields)
        return number


class Encoded(NamedTuple):
    """Events as arrays, ready for the kernels.

    Attributes:
        batch: the arrays.
        most: the most words of any Bernoulli text in it.
        skipped: how many attributes were left out, because they are of a group or field not met yet.
        known: int64[n], how many classes had been met before each event.
    """

    batch: Batch
    most: int
    skipped: int
    known: npt.NDArray[np.int64]


class EventWriter:
    """Collects events attribute by attribute, then makes them a `Batch`.

    `begin` an event, write its attributes, `end` it. An event that adds (because it is going to be learned)
    makes groups, fields and rows where there are none yet; any other event leaves the layout as it is.
    """

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._adds = False
        self._skipped = 0
        self._items: list[bytes] = []
        self._whole: list[bool] = []
        self._group: list[int] = []
        self._amount: list[int] = []
        self._item_adds: list[bool] = []
        self._field: list[int] = []
        self._value: list[float] = []
        self._event_items = [0]
        self._event_values = [0]
        self._known: list[int] = []
        self._label: list[int] = []
        self._weight: list[int] = []

    def begin(self, *, adds: bool, known: int) -> None:
        """Start an event, before which `known` classes have been met."""
        self._adds = adds
        self._known.append(known)

    def text(self, kind: int, name: Name, text: str) -> None:
        """Write a text that is to be cut into words."""
        group = self._layout.group(kind, name, adds=self._adds)
        if group is None:
            self._skipped += 1
        else:
            self._item(group, encode_text(text), whole=False, amount=UNIT)

    def token(self, kind: int, name: Name, token: str, times: float) -> None:
        """Write a token of a bag of words, with how often it occurs; Bernoulli asks only whether it does.

        Raises ValueError for a negative count of a multinomial bag.
        """
        amount = UNIT * (times > 0) if kind == BERNOULLI else units(times)
        group = self._layout.group(kind, name, adds=self._adds)
        if group is None:
            self._skipped += 1
        elif amount > 0:
            self._item(group, token.encode(), whole=True, amount=amount)
        elif kind == BERNOULLI:  # a text is present, though this word is not
            self._item(group, b"", whole=False, amount=UNIT)

    def nominal(self, name: Name, value: Any) -> None:
        """Write the value of a nominal field."""
        key = value_text(value).encode()
        group = self._layout.group(NOMINAL, name, adds=self._adds)
        if group is None:
            self._skipped += 1
        else:
            self._item(group, key, whole=True, amount=UNIT)

    def continuous(self, name: Name, value: Any) -> None:
        """Write the value of a continuous attribute, finite. Raises TypeError where it is no number."""
        if not isinstance(value, (numbers.Real, np.bool_)):
            raise TypeError(f"expected a number, got {type(value).__name__}")
        field = self._layout.field(name, adds=self._adds)
        if field is None:
            self._skipped += 1
        else:
            self._field.append(field)
            self._value.append(min(max(float(value), -LARGEST), LARGEST))

    def end(self, label: int, weight: int) -> None:
        """Finish the event: class index (or -1) and weight in units."""
        self._event_items.append(len(self._items))
        self._event_values.append(len(self._value))
        self._label.append(label)
        self._weight.append(weight)

    def encoded(self, vocabulary: Vocabulary, kinds: npt.NDArray[np.int64]) -> Encoded:
        """All events written, with their rows looked up or added."""
        group = np.array(self._group, dtype=np.int32)
        tokens = Tokens(self._items, np.array(self._whole, dtype=np.bool_), group)
        rows = vocabulary.rows(tokens, group, np.array(self._item_adds, dtype=np.bool_))
        batch = Batch(
            event_items=np.array(self._event_items, dtype=np.int64),
            item_group=group,
            item_amount=np.array(self._amount, dtype=np.int64),
            item_rows=tokens.item_tokens,
            rows=rows,
            event_values=np.array(self._event_values, dtype=np.int64),
            value_field=np.array(self._field, dtype=np.int32),
            value=np.array(self._value, dtype=np.float64),
            label=np.array(self._label, dtype=np.int64),
            weight=np.array(self._weight, dtype=np.int64),
        )
        most = mark_repeats(batch, kinds) if (kinds == BERNOULLI).any() else 0
        return Encoded(batch, most, self._skipped, np.array(self._known, dtype=np.int64))

    def _item(self, group: int, key: bytes, *, whole: bool, amount: int) -> None:
        self._items.append(key)
        self._whole.append(whole)
        self._group.append(group)
        self._amount.append(amount)
        self._item_adds.append(self._adds)


def text_kind(event_model: str) -> int:
    """MULTINOMIAL or BERNOULLI, by name."""
    return BERNOULLI if event_model == "bernoulli" else MULTINOMIAL
