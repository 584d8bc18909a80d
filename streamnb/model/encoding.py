"""Events as dictionaries -> events as arrays: which attribute goes to which group of rows, or which field."""

from __future__ import annotations

import math
import numbers
from collections.abc import Callable, Hashable
from itertools import compress, pairwise
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
_HEAVIEST = 2**20  # in units 2^30, so that a count times a weight still fits 64 bits


def units(weight: float) -> int:
    """A weight in units of 1/1024 example. Raises ValueError where it is negative, nan or beyond 2^20."""
    if not 0.0 <= weight <= _HEAVIEST:
        raise ValueError(f"a weight or count must lie between 0 and 2^20, not {weight!r}")
    return round(weight * UNIT)


def is_missing(value: Any) -> bool:
    """None and numbers that are not finite say nothing about an event."""
    if type(value) is float:  # the common cases first: abstract base classes are slow to ask
        return not math.isfinite(value)
    if type(value) is str or type(value) is int:
        return False
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

    @property
    def kinds(self) -> npt.NDArray[np.int64]:
        """The kind of each group."""
        return self._counts.kinds

    @property
    def has_bernoulli(self) -> bool:
        """Whether any group is a Bernoulli text."""
        return self._counts.histograms.used.size > 0

    def group(self, group: tuple[int, Name], *, adds: bool) -> int:
        """The number of a (kind, name); where there is none a new one, or -1 if nothing is to be added."""
        number = self.groups.get(group, -1)
        if number < 0 and adds:
            number = self.groups[group] = self._counts.add_group(group[0])
        return number

    def field(self, name: Name, *, adds: bool) -> int:
        """The number of a continuous field; where there is none a new one, or -1."""
        number = self.fields.get(name, -1)
        if number < 0 and adds:
            number = self.fields[name] = len(self.fields)
        return number


class Encoded(NamedTuple):
    """Events as arrays, ready for the kernels.

    Attributes:
        batch: the arrays.
        most: the most words of any Bernoulli text in it.
        skipped: how many attributes were left out, because they are of a group or field not met yet.
        known: int64[n], how many classes had been met before each event.
        tokens: the words and values themselves; None where there are none.
    """

    batch: Batch
    most: int
    skipped: int
    known: npt.NDArray[np.int64]
    tokens: Tokens | None


class EventWriter:
    """Collects events attribute by attribute; `encoded` makes them arrays.

    Write the attributes of an event, then `end` it. Nothing changes before `encoded`: an event that cannot be
    written leaves no trace. An event that adds (because it is going to be learned) makes classes, groups,
    fields and rows where there are none yet; any other event leaves all as it is.
    """

    def __init__(self) -> None:
        self._adds: list[bool] = []
        self._label: list[Hashable] = []
        self._weight: list[int] = []
        self._time: list[float] = []
        self._event_items = [0]
        self._group: list[tuple[int, Name]] = []
        self._item: list[bytes] = []
        self._whole: list[bool] = []
        self._amount: list[int] = []
        self._event_values = [0]
        self._field: list[Name] = []
        self._value: list[float] = []

    def text(self, kind: int, name: Name, text: str) -> None:
        """Write a text that is to be cut into words."""
        self._write(kind, name, encode_text(text), whole=False, amount=UNIT)

    def token(self, kind: int, name: Name, token: str, times: float) -> None:
        """Write a token of a bag of words, with how often it occurs; Bernoulli asks only whether it does.

        Raises ValueError for a negative count of a multinomial bag.
        """
        amount = UNIT * (times > 0) if kind == BERNOULLI else units(times)
        if amount > 0:
            self._write(kind, name, token.encode(), whole=True, amount=amount)
        elif kind == BERNOULLI:  # a text is present, though this word is not
            self._write(kind, name, b"", whole=False, amount=UNIT)

    def nominal(self, name: Name, value: Any) -> None:
        """Write the value of a nominal field. Raises TypeError where it is no scalar."""
        self._write(NOMINAL, name, value_text(value).encode(), whole=True, amount=UNIT)

    def continuous(self, name: Name, value: Any) -> None:
        """Write the value of a continuous attribute, finite. Raises TypeError where it is no number."""
        if type(value) is not float and not isinstance(value, (numbers.Real, np.bool_)):
            raise TypeError(f"expected a number, got {type(value).__name__}")
        self._field.append(name)
        self._value.append(float(min(max(value, -LARGEST), LARGEST)))

    def end(self, label: Hashable, weight: int, time: float | None = None) -> None:
        """Finish the event; it adds where it has a label and a weight (units) above zero.

        Its time is in seconds; None, or what no finite double holds, is a time that is not known.

        Raises TypeError for a label that cannot be hashed.
        """
        hash(label)
        if is_missing(label):
            label = None
        self._adds.append(label is not None and weight > 0)
        self._label.append(label)
        self._weight.append(weight)
        self._time.append(_seconds(time))
        self._event_items.append(len(self._item))
        self._event_values.append(len(self._value))

    def encoded(self, classes: dict[Any, int], layout: Layout, vocabulary: Vocabulary) -> Encoded:
        """All events written, with their classes, groups, fields and rows looked up or added."""
        known, label = [], []
        for name, adds in zip(self._label, self._adds, strict=True):
            known.append(len(classes))
            label.append(classes.setdefault(name, len(classes)) if adds else -1)
        group, event_items = self._numbers(self._group, self._event_items, layout.group)
        field, event_values = self._numbers(self._field, self._event_values, layout.field)
        item_rows, rows, tokens = self._rows(group, vocabulary)
        batch = Batch(
            event_items=event_items,
            item_group=group[group >= 0],
            item_amount=np.array(self._amount, dtype=np.int64)[group >= 0],
            item_rows=item_rows,
            rows=rows,
            keys=tokens.hashes if tokens else np.zeros(0, dtype=np.uint64),
            event_values=event_values,
            value_field=field[field >= 0],
            value=np.array(self._value, dtype=np.float64)[field >= 0],
            label=np.array(label, dtype=np.int64),
            weight=np.array(self._weight, dtype=np.int64),
            time=np.array(self._time, dtype=np.float64),
        )
        skipped = int(np.count_nonzero(group < 0) + np.count_nonzero(field < 0))
        most = mark_repeats(batch, layout.kinds) if layout.has_bernoulli else 0
        return Encoded(batch, most, skipped, np.array(known, dtype=np.int64), tokens)

    def _write(self, kind: int, name: Name, item: bytes, *, whole: bool, amount: int) -> None:
        self._group.append((kind, name))
        self._item.append(item)
        self._whole.append(whole)
        self._amount.append(amount)

    def _numbers(
        self, names: list[Any], ends: list[int], number: Callable[..., int]
    ) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int64]]:
        """The number of each group or field, -1 where it is not known; where each event's known ones end."""
        numbers = [
            number(name, adds=adds)
            for (start, stop), adds in zip(pairwise(ends), self._adds, strict=True)
            for name in names[start:stop]
        ]
        found = np.array(numbers, dtype=np.int32)
        kept = np.zeros(found.size + 1, dtype=np.int64)
        np.cumsum(found >= 0, out=kept[1:])
        return found, kept[ends]

    def _rows(
        self, group: npt.NDArray[np.int32], vocabulary: Vocabulary
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int32], Tokens | None]:
        """Where the rows of each item of a known group begin and end, the rows, and their tokens."""
        known = group >= 0
        items = self._item if known.all() else list(compress(self._item, known))
        if not items:
            return np.zeros(1, dtype=np.int64), np.zeros(0, dtype=np.int32), None
        adds = np.repeat(np.array(self._adds), np.diff(self._event_items))[known]
        tokens = Tokens(items, np.array(self._whole)[known], group[known])
        return tokens.item_tokens, vocabulary.rows(tokens, group[known], adds), tokens


def _seconds(time: float | None) -> float:
    """A time as a finite double, or nan."""
    try:
        seconds = math.nan if time is None else float(time)
    except OverflowError:  # an integer that is larger than any
        return math.nan
    return seconds if math.isfinite(seconds) else math.nan


def text_kind(event_model: str) -> int:
    """MULTINOMIAL or BERNOULLI, by name."""
    return BERNOULLI if event_model == "bernoulli" else MULTINOMIAL
