"""Events as dictionaries -> events as arrays: each attribute gets a group of rows, or a field."""

from __future__ import annotations

import numbers
from array import array
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from itertools import compress
from typing import Any

import numpy as np

from streamnb.features.encoded_batch import Batch, Encoded, ends_of_kept, mark_repeats
from streamnb.features.feature_layout import Layout, Name, Numbering
from streamnb.features.targets import Targets
from streamnb.features.tokenizer import TokenBuffer, encode_text, encode_texts, most_tokens
from streamnb.features.vocabulary import Vocabulary
from streamnb.kernels.array_types import Ints
from streamnb.values.attribute_kinds import BERNOULLI, NOMINAL
from streamnb.values.example_weights import UNIT, units
from streamnb.values.nominal_values import LARGEST, value_text
from streamnb.values.number_ranges import is_above_zero
from streamnb.values.type_aliases import Codes, Flags

_LONG = 1 << 13  # bytes of all texts of an event


class EventWriter:
    """Collects events attribute by attribute; `encoded` makes them arrays.

    Write the attributes of an event, then `end` it. Nothing changes before `encoded`, so an event that cannot
    be written leaves no trace. An event that adds (because it will be learned) creates unknown classes,
    groups, fields and rows; any other event changes nothing.
    """

    def __init__(self) -> None:
        self._groups: dict[tuple[int, Name], int] = {}  # each that was written -> its index
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
        """Write a text that will be cut into words."""
        self.write(kind, name, encode_text(text), whole=False, amount=UNIT)

    def token(self, kind: int, name: Name, token: str, times: float) -> None:
        """Write a token of a bag of words with its frequency; Bernoulli asks only whether it occurs.

        Raises ValueError for a negative count of a multinomial bag, and TypeError if it is not a number.
        """
        amount = UNIT * is_above_zero(times) if kind == BERNOULLI else units(times)
        if amount > 0:
            self.write(kind, name, token.encode(), whole=True, amount=amount)
        elif kind == BERNOULLI:  # a text is present, though this word is not
            self.write(kind, name, b"", whole=False, amount=UNIT)

    def nominal(self, name: Name, value: Any) -> None:
        """Write the value of a nominal attribute. Raises TypeError if it is not a scalar."""
        self.write(NOMINAL, name, value_text(value).encode(), whole=True, amount=UNIT)

    def continuous(self, name: Name, value: Any) -> None:
        """Write the value of a continuous attribute, finite. Raises TypeError if it is not a number."""
        if type(value) is not float:
            if not isinstance(value, (numbers.Real, Decimal, np.bool_)):
                raise TypeError(f"expected a number, got {type(value).__name__}")
            if isinstance(value, (np.floating, Decimal)):
                value = float(value)  # LARGEST is beyond a float32, and numpy would warn of it
        self._field.append(self._fields.setdefault(name, len(self._fields)))
        self._value.append(float(min(max(value, -LARGEST), LARGEST)))

    def continuous_each(self, numbers: Mapping[Name, float]) -> None:
        """Write the values of many continuous attributes, each a float; NaN and infinity are missing."""
        values = np.fromiter(numbers.values(), dtype=np.float64, count=len(numbers))
        is_finite = np.isfinite(values)
        names: Iterable[Name] = numbers
        if not is_finite.all():
            names, values = compress(numbers, is_finite.tolist()), values[is_finite]
        fields = self._fields
        self._field.extend([fields.setdefault(name, len(fields)) for name in names])
        self._value.frombytes(values.clip(-LARGEST, LARGEST).tobytes())

    def end(self) -> None:
        """Finish the event."""
        self._event_items.append(len(self._item))
        self._event_values.append(len(self._value))

    def text_each(self, kind: int, name: Name, texts: Sequence[str]) -> None:
        """Write and finish events that have one text each and nothing else.

        Raises UnicodeEncodeError, with nothing written, for a lone surrogate.
        """
        items = encode_texts(texts)
        n, first = len(texts), len(self._item)
        number = self._groups.setdefault((kind, name), len(self._groups))
        self._item += items
        self._group += array("i", [number]) * n
        self._whole += array("b", [False]) * n
        self._amount += array("q", [UNIT]) * n
        self._event_items.frombytes(np.arange(first + 1, first + 1 + n).tobytes())
        self._event_values += array("q", [len(self._value)]) * n

    @property
    def most_rows(self) -> int:
        """The maximum number of rows of counts for what was written."""
        return most_tokens(sum(map(len, self._item)), len(self._item))[1]

    def encoded(
        self, targets: Targets, classes: dict[Any, int], layout: Numbering, vocabulary: Vocabulary
    ) -> Encoded:
        """Return all events written, with their classes, groups, fields and rows looked up or added.

        Raises TypeError, and adds nothing, for a label that cannot be hashed.
        """
        label, known, adds = targets.columns(classes)
        ends_of_items, ends_of_values = np.array(self._event_items), np.array(self._event_values)
        item_adds = np.repeat(adds, ends_of_items[1:] - ends_of_items[:-1])
        value_adds = np.repeat(adds, ends_of_values[1:] - ends_of_values[:-1])
        group = layout.groups_of(self._groups, np.array(self._group), item_adds, ends_of_items)
        field = layout.fields_of(self._fields, np.array(self._field), value_adds, ends_of_values)
        item_rows, rows, tokens = self._rows(group, item_adds, vocabulary)
        batch = Batch(
            event_items=ends_of_kept(ends_of_items, group),
            item_group=group[group >= 0],
            item_amount=np.array(self._amount)[group >= 0],
            item_rows=item_rows,
            rows=rows,
            keys=np.zeros(0, dtype=np.uint64),
            event_values=ends_of_kept(ends_of_values, field),
            value_field=field[field >= 0],
            value=np.array(self._value)[field >= 0],
            label=label,
            weight=targets.weights,
            time=targets.times,
        )
        skipped = int(np.count_nonzero(group < 0) + np.count_nonzero(field < 0))
        most = 0
        if layout.has_bernoulli:
            scratch = np.empty(4 * rows.size, dtype=np.int32)
            most = mark_repeats(batch, layout.kinds, vocabulary.secret, scratch)
        return Encoded(batch, most, skipped, known, tokens)

    def add_one(
        self, label: Any, classes: dict[Any, int], layout: Layout, vocabulary: Vocabulary
    ) -> int | None:
        """Add the class, groups and fields of the one event written, and reserve memory for its words.

        Returns the maximum number of rows it can add; None, with nothing added, if its texts are too long.
        Raises TypeError, and adds nothing, for a label that cannot be hashed.
        """
        n_bytes = sum(map(len, self._item))
        if n_bytes > _LONG:
            return None
        classes.setdefault(label, len(classes))
        for group in self._groups:
            layout.group(group, adds=True)
        for field in self._fields:
            layout.field(field, adds=True)
        _, most = most_tokens(n_bytes, len(self._item))
        vocabulary.reserve(most, n_bytes)
        return most

    def write(self, kind: int, name: Name, item: bytes, *, whole: bool, amount: int) -> None:
        """Append one item of an attribute."""
        self._group.append(self._groups.setdefault((kind, name), len(self._groups)))
        self._item.append(item)
        self._whole.append(whole)
        self._amount.append(amount)

    def _rows(
        self, group: Codes, adds: Flags, vocabulary: Vocabulary
    ) -> tuple[Ints, Codes, TokenBuffer | None]:
        known = group >= 0
        items = self._item if known.all() else list(compress(self._item, known))
        if not items:
            return np.zeros(1, dtype=np.int64), np.zeros(0, dtype=np.int32), None
        whole = np.array(self._whole).view(np.bool_)[known]
        tokens = TokenBuffer(items, whole, group[known], vocabulary.secret)
        return tokens.item_tokens, vocabulary.rows(tokens, group[known], adds[known]), tokens
