"""Events as dictionaries -> events as arrays: which attribute goes to which group of rows, or which field."""

from __future__ import annotations

import math
import numbers
from array import array
from collections.abc import Callable, Hashable, Iterable, Sequence
from itertools import compress
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from streamnb.model.attributes.ranges import is_above_zero, is_missing, lies_between
from streamnb.model.encoding.tokenizer import Tokens, encode_text
from streamnb.model.encoding.vocabulary import Vocabulary
from streamnb.model.naive_bayes.kernels import mark_repeats
from streamnb.model.naive_bayes.tables import Batch
from streamnb.model.stats.counts import BERNOULLI, MULTINOMIAL, NOMINAL, UNIT, Counts
from streamnb.model.stats.moments import LARGEST

__all__ = [
    "CONTINUOUS",
    "Asked",
    "Encoded",
    "EventWriter",
    "Layout",
    "declared_texts",
    "is_missing",
    "text_kind",
    "units",
    "value_text",
]

Name = Hashable
CONTINUOUS = NOMINAL + 1
"""Beside MULTINOMIAL, BERNOULLI and NOMINAL: the kind of an attribute that has no group."""
_HEAVIEST = 2**20  # in units 2^30, so that a count times a weight still fits 64 bits


def units(weight: float) -> int:
    """A weight in units of 1/1024 example. Raises ValueError where it is negative, nan or beyond 2^20."""
    if not lies_between(0.0, weight, _HEAVIEST):
        raise ValueError(f"a weight or count must lie between 0 and 2^20, not {weight!r}")
    return round((float(weight) if isinstance(weight, np.floating) else weight) * UNIT)


def value_text(value: Any) -> str:
    """The text by which nominal values are compared: 3 and 3.0 are "3", True is "true".

    Raises TypeError for anything but strings, booleans and numbers, and ValueError for half a surrogate pair,
    which no UTF-8 holds, and for a fraction beyond every double.
    """
    if isinstance(value, str):
        if not value.isascii():
            value.encode()
        return value if type(value) is str else str.__str__(value)
    if isinstance(value, (bool, np.bool_)):
        return "true" if value else "false"
    if isinstance(value, numbers.Integral):
        return str(int(value))
    if isinstance(value, numbers.Real):
        try:
            number = float(value)
        except OverflowError as error:
            raise ValueError("no finite double holds this number") from error
        return str(int(number)) if number.is_integer() else repr(number)
    raise TypeError(f"expected a string, a boolean or a number, got {type(value).__name__}")


def declared_texts(values: Iterable[Any]) -> list[str]:
    """The texts of the values an attribute may have. Raises as `value_text`; ValueError for a NaN, too."""
    texts = []
    for value in values:
        texts.append(value_text(value))
        if is_missing(value):
            raise ValueError(f"a value must be a string, a boolean or a finite number, not {value!r}")
    return texts


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

    def with_keys(self) -> Encoded:
        """With the keys of features, which not every model needs."""
        if self.tokens is None:  # there are none, or they have been made value by value
            return self
        return self._replace(batch=self.batch._replace(keys=self.tokens.hashes))


class Asked(NamedTuple):
    """What is to become of n events.

    Attributes:
        labels: their classes; an event without a label (None, or a number that is not finite) is not learned.
        weights: int64[n] in units, nor is one without weight.
        times: float64[n] in seconds, nan where they are not known.
    """

    labels: list[Any]
    weights: npt.NDArray[np.int64]
    times: npt.NDArray[np.float64]

    @classmethod
    def of(
        cls,
        n: int,
        labels: Sequence[Any] | None,
        weights: Sequence[float] | None,
        times: Sequence[float | None] | None,
    ) -> Asked:
        """Of n events; by default they have no label, the weight 1 and no time.

        Raises ValueError where there are not n of each, or a weight lies out of range.
        """
        for given in (labels, weights, times):
            if given is not None and len(given) != n:
                raise ValueError(f"{n} events, but {len(given)} labels, weights or times")
        asked = cls([None] * n if labels is None else list(labels), np.full(n, UNIT), np.full(n, np.nan))
        if weights is not None and any(type(weight) is not float or weight != 1.0 for weight in weights):
            asked.weights[:] = [units(weight) for weight in weights]
        if times is not None and any(time is not None for time in times):
            asked.times[:] = [_seconds(time) for time in times]
        return asked

    def columns(
        self, classes: dict[Any, int]
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
        """Of each event the column of its class, -1 where it is not learned; how many were known; if it adds.

        New classes are added in order. Raises TypeError, before that, for a label that cannot be hashed.
        """
        n = len(self.labels)
        found = list(map(classes.get, self.labels))
        if None not in found and self.weights.all():  # all are learned, and their classes known
            return np.array(found, dtype=np.int64), np.full(n, len(classes)), np.ones(n, dtype=np.bool_)
        if set(map(type, self.labels)) == {str} and self.weights.all():  # all are learned
            before = len(classes)
            columns = np.array([classes.setdefault(label, len(classes)) for label in self.labels])
            known = np.maximum.accumulate(np.append(before, columns[:-1] + 1))
            return columns, known, np.ones(n, dtype=np.bool_)
        counts, column = [], []
        for label, weight in zip(self.labels, self.weights.tolist(), strict=True):
            counts.append(len(classes))
            adds = weight > 0 and not is_missing(label)
            column.append(classes.setdefault(label, len(classes)) if adds else -1)
        columns = np.array(column, dtype=np.int64)
        return columns, np.array(counts, dtype=np.int64), columns >= 0


class EventWriter:
    """Collects events attribute by attribute; `encoded` makes them arrays.

    Write the attributes of an event, then `end` it. Nothing changes before `encoded`: an event that cannot be
    written leaves no trace. An event that adds (because it is going to be learned) makes classes, groups,
    fields and rows where there are none yet; any other event leaves all as it is.
    """

    def __init__(self) -> None:
        self._groups: dict[tuple[int, Name], int] = {}  # each that was written -> its place among them
        self._event_items = array("q", [0])
        self._group = array("i")
        self._item: list[bytes] = []
        self._whole = array("b")
        self._amount = array("q")
        self._fields: dict[Name, int] = {}
        self._event_values = array("q", [0])
        self._field = array("i")
        self._value = array("d")

    def text(self, kind: int, name: Name, text: str) -> None:
        """Write a text that is to be cut into words."""
        self._write(kind, name, encode_text(text), whole=False, amount=UNIT)

    def token(self, kind: int, name: Name, token: str, times: float) -> None:
        """Write a token of a bag of words, with how often it occurs; Bernoulli asks only whether it does.

        Raises ValueError for a negative count of a multinomial bag, and for one that is no number.
        """
        amount = UNIT * is_above_zero(times) if kind == BERNOULLI else units(times)
        if amount > 0:
            self._write(kind, name, token.encode(), whole=True, amount=amount)
        elif kind == BERNOULLI:  # a text is present, though this word is not
            self._write(kind, name, b"", whole=False, amount=UNIT)

    def nominal(self, name: Name, value: Any) -> None:
        """Write the value of a nominal field. Raises TypeError where it is no scalar."""
        self._write(NOMINAL, name, value_text(value).encode(), whole=True, amount=UNIT)

    def continuous(self, name: Name, value: Any) -> None:
        """Write the value of a continuous attribute, finite. Raises TypeError where it is no number."""
        if type(value) is not float:
            if not isinstance(value, (numbers.Real, np.bool_)):
                raise TypeError(f"expected a number, got {type(value).__name__}")
            if isinstance(value, np.floating):
                value = float(value)  # LARGEST is beyond a float32, and numpy would warn of it
        self._field.append(self._fields.setdefault(name, len(self._fields)))
        self._value.append(float(min(max(value, -LARGEST), LARGEST)))

    def end(self) -> None:
        """Finish the event."""
        self._event_items.append(len(self._item))
        self._event_values.append(len(self._value))

    def text_each(self, kind: int, name: Name, texts: Sequence[str]) -> None:
        """Write and finish events that have one text each and nothing else.

        Raises UnicodeEncodeError, with nothing written, for a lone surrogate.
        """
        items = list(map(str.encode if all(map(str.isascii, texts)) else encode_text, texts))
        n, first = len(texts), len(self._item)
        number = self._groups.setdefault((kind, name), len(self._groups))
        self._item += items
        self._group += array("i", [number]) * n
        self._whole += array("b", [False]) * n
        self._amount += array("q", [UNIT]) * n
        self._event_items += array("q", range(first + 1, first + 1 + n))
        self._event_values += array("q", [len(self._value)]) * n

    def encoded(
        self, asked: Asked, classes: dict[Any, int], layout: Layout, vocabulary: Vocabulary
    ) -> Encoded:
        """All events written, with their classes, groups, fields and rows looked up or added.

        Raises TypeError, and adds nothing, for a label that cannot be hashed.
        """
        label, known, adds = asked.columns(classes)
        ends_of_items, ends_of_values = np.array(self._event_items), np.array(self._event_values)
        item_adds = np.repeat(adds, np.diff(ends_of_items))
        value_adds = np.repeat(adds, np.diff(ends_of_values))
        group = _numbers(self._groups, np.array(self._group), item_adds, layout.group)
        field = _numbers(self._fields, np.array(self._field), value_adds, layout.field)
        item_rows, rows, tokens = self._rows(group, item_adds, vocabulary)
        batch = Batch(
            event_items=_kept(ends_of_items, group),
            item_group=group[group >= 0],
            item_amount=np.array(self._amount)[group >= 0],
            item_rows=item_rows,
            rows=rows,
            keys=np.zeros(0, dtype=np.uint64),
            event_values=_kept(ends_of_values, field),
            value_field=field[field >= 0],
            value=np.array(self._value)[field >= 0],
            label=label,
            weight=asked.weights,
            time=asked.times,
        )
        skipped = int(np.count_nonzero(group < 0) + np.count_nonzero(field < 0))
        most = mark_repeats(batch, layout.kinds, vocabulary.secret) if layout.has_bernoulli else 0
        return Encoded(batch, most, skipped, known, tokens)

    def _write(self, kind: int, name: Name, item: bytes, *, whole: bool, amount: int) -> None:
        self._group.append(self._groups.setdefault((kind, name), len(self._groups)))
        self._item.append(item)
        self._whole.append(whole)
        self._amount.append(amount)

    def _rows(
        self, group: npt.NDArray[np.int32], adds: npt.NDArray[np.bool_], vocabulary: Vocabulary
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int32], Tokens | None]:
        """Where the rows of each item of a known group begin and end, the rows, and their tokens."""
        known = group >= 0
        items = self._item if known.all() else list(compress(self._item, known))
        if not items:
            return np.zeros(1, dtype=np.int64), np.zeros(0, dtype=np.int32), None
        whole = np.array(self._whole).view(np.bool_)[known]
        tokens = Tokens(items, whole, group[known], vocabulary.secret)
        return tokens.item_tokens, vocabulary.rows(tokens, group[known], adds[known]), tokens


def _numbers(
    names: dict[Any, int],
    places: npt.NDArray[np.int32],
    adds: npt.NDArray[np.bool_],
    number: Callable[..., int],
) -> npt.NDArray[np.int32]:
    """The number of each group or field that was written, -1 where it is not known.

    Those that are new get theirs in the order in which they are first met in an event that adds, and are not
    known before.

    Args:
        names: what was written -> its place among them.
        places: (m,), what each item is, by its place.
        adds: (m,), whether its event adds.
        number: of a name, made where `adds` says so.
    """
    numbers = np.array([number(name, adds=False) for name in names], dtype=np.int32)
    before = numbers[places]
    met = np.flatnonzero(adds & (before < 0))
    if not met.size:
        return before
    first = np.full(numbers.size, places.size)  # where each new name is met first
    np.minimum.at(first, places[met], met)
    listed, new = list(names), np.count_nonzero(first < places.size)
    for i in np.argsort(first, kind="stable")[:new].tolist():
        numbers[i] = number(listed[i], adds=True)
    return np.where(np.arange(places.size) < first[places], before, numbers[places])


def _kept(ends: npt.NDArray[np.int64], numbers: npt.NDArray[np.int32]) -> npt.NDArray[np.int64]:
    """Where each event's known items end, of those where all of them do."""
    kept = np.zeros(numbers.size + 1, dtype=np.int64)
    np.cumsum(numbers >= 0, out=kept[1:])
    return kept[ends]


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
