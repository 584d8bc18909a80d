"""A data frame as arrays, column by column: what `EventWriter` makes of its rows, a column at a time."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from itertools import compress
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from streamnb.model.counts import NOMINAL, UNIT
from streamnb.model.encoding import (
    CONTINUOUS,
    Asked,
    Encoded,
    Layout,
    is_missing,
    value_text,
)
from streamnb.model.kernels import mark_repeats
from streamnb.model.moments import LARGEST
from streamnb.model.tables import Batch
from streamnb.model.tokenizer import Tokens, encode_text
from streamnb.model.vocabulary import Vocabulary

__all__ = ["Column", "Columns", "columns_of", "is_frame"]

Present = npt.NDArray[np.bool_]


class Column(NamedTuple):
    """One attribute of n events.

    Attributes:
        kind: MULTINOMIAL, BERNOULLI, NOMINAL or CONTINUOUS.
        name: the attribute.
        values: float64[n]; or n times UTF-8, as `EventWriter` writes it; anything where it is missing.
        present: bool[n].
    """

    kind: int
    name: Hashable
    values: npt.NDArray[Any]
    present: Present


def is_frame(xs: Any) -> bool:
    """Whether this is a data frame: rows are events, columns attributes."""
    return hasattr(xs, "to_dict") and hasattr(xs, "columns")


def columns_of(frame: Any, kind_of: Callable[[Any, Any], int]) -> list[Column] | None:
    """The columns of a data frame; None where one holds anything but numbers, or strings, or booleans.

    None, too, for a lone surrogate, and where two columns have one name.

    `kind_of` tells the kind of an attribute of this name and value.
    """
    if not frame.columns.is_unique:
        return None
    found = [_column(name, series, kind_of) for name, series in frame.items()]
    return None if None in found else [column for column in found if column is not None]


def _column(name: Any, series: Any, kind_of: Callable[[Any, Any], int]) -> Column | None:
    if isinstance(series.dtype, np.dtype) and series.dtype.kind in "iuf":
        return _numbers(kind_of(name, 0.0), name, series.to_numpy(dtype=np.float64), series)
    if series.dtype.name in {"str", "string"} and kind_of(name, "") != CONTINUOUS:
        which, texts = series.factorize()
        return _discrete(kind_of(name, ""), name, texts, which, which >= 0)
    values = series.tolist()
    types = set(map(type, values))
    if types == {bool}:
        return _numbers(kind_of(name, True), name, np.array(values, dtype=np.float64), series)
    kind, missing = kind_of(name, ""), [type(value) is not str for value in values]
    are_texts = types <= {str, float, type(None)} and all(map(is_missing, compress(values, missing)))
    if kind == CONTINUOUS or not are_texts:
        return None
    texts = ["" if is_absent else value for value, is_absent in zip(values, missing, strict=True)]
    return _discrete(kind, name, texts, np.arange(len(texts)), ~np.array(missing, dtype=np.bool_))


def _discrete(
    kind: int, name: Any, texts: Iterable[str], which: npt.NDArray[np.intp], present: Present
) -> Column | None:
    """A column of texts, each named by its number (-1 where it is missing); None for a lone surrogate."""
    encode = str.encode if kind == NOMINAL else encode_text
    try:
        encoded = [*map(encode, texts), b""]
    except UnicodeEncodeError:
        return None  # the rows say of which attribute it is
    return Column(kind, name, np.array(encoded, dtype=object)[which], present)


def _numbers(kind: int, name: Any, numbers: npt.NDArray[np.float64], series: Any) -> Column | None:
    """A column of numbers or booleans, as they stand or as nominal values; None where it is to be a text."""
    present = np.isfinite(numbers)
    if kind == CONTINUOUS:
        return Column(kind, name, numbers, present)
    if kind != NOMINAL:
        return None
    there = present.tolist()
    texts = [value_text(value) if is_there else "" for value, is_there in zip(series, there, strict=True)]
    return _discrete(kind, name, texts, np.arange(len(texts)), present)


class Columns:
    """Events as columns, to be encoded in place of an `EventWriter`.

    Args:
        columns: their attributes, in the order in which each event has them.
    """

    def __init__(self, columns: Sequence[Column]) -> None:
        self._discrete = [column for column in columns if column.kind != CONTINUOUS]
        self._continuous = [column for column in columns if column.kind == CONTINUOUS]

    def encoded(
        self, asked: Asked, classes: dict[Any, int], layout: Layout, vocabulary: Vocabulary
    ) -> Encoded:
        """The events, with their classes, groups, fields and rows looked up or added.

        Raises TypeError, and adds nothing, for a label that cannot be hashed.
        """
        label, known, is_added = asked.columns(classes)
        groups = _numbered(
            self._discrete, is_added, lambda column, adds: layout.group((column.kind, column.name), adds=adds)
        )
        fields = _numbered(
            self._continuous, is_added, lambda column, adds: layout.field(column.name, adds=adds)
        )
        present, item_group = _present(self._discrete, groups, label.size)
        event_items = _ends(present)
        kept = [column for column, number in zip(self._discrete, groups, strict=True) if number >= 0]
        is_whole = np.array([column.kind == NOMINAL for column in kept], dtype=np.bool_)
        items = np.empty(present.shape, dtype=object)
        for c, column in enumerate(kept):
            items[:, c] = column.values
        flat = items[present].tolist()
        tokens = None
        rows, item_rows = np.zeros(0, dtype=np.int32), np.zeros(1, dtype=np.int64)
        if flat:
            whole = np.broadcast_to(is_whole, present.shape)[present]
            tokens = Tokens(flat, whole, item_group)
            adds = np.repeat(is_added, np.diff(event_items))
            item_rows, rows = tokens.item_tokens, vocabulary.rows(tokens, item_group, adds)
        has_value, value_field = _present(self._continuous, fields, label.size)
        kept = [column for column, number in zip(self._continuous, fields, strict=True) if number >= 0]
        value = np.empty(has_value.shape)
        for f, column in enumerate(kept):
            value[:, f] = column.values
        batch = Batch(
            event_items=event_items,
            item_group=item_group,
            item_amount=np.full(item_group.size, UNIT),
            item_rows=item_rows,
            rows=rows,
            keys=tokens.hashes if tokens else np.zeros(0, dtype=np.uint64),
            event_values=_ends(has_value),
            value_field=value_field,
            value=np.clip(value[has_value], -LARGEST, LARGEST),
            label=label,
            weight=asked.weights,
            time=asked.times,
        )
        skipped = sum(
            int(np.count_nonzero(column.present))
            for columns, numbers in ((self._discrete, groups), (self._continuous, fields))
            for column, number in zip(columns, numbers, strict=True)
            if number < 0
        )
        most = mark_repeats(batch, layout.kinds) if layout.has_bernoulli else 0
        return Encoded(batch, most, skipped, known, tokens)


def _numbered(columns: list[Column], is_added: Present, number: Callable[[Column, bool], int]) -> list[int]:
    """The number of each column's group or field, -1 where it is not known.

    New ones are numbered in the order in which an event that adds meets them.
    """
    adding = [column.present & is_added for column in columns]
    first = [(int(adds.argmax()), c) for c, adds in enumerate(adding) if adds.any()]
    for _, c in sorted(first):
        number(columns[c], True)
    return [number(column, False) for column in columns]


def _present(columns: list[Column], numbers: list[int], events: int) -> tuple[Present, npt.NDArray[np.int32]]:
    """bool[n, columns with a number], and the number of each value that is there, event by event."""
    kept = [(column.present, number) for column, number in zip(columns, numbers, strict=True) if number >= 0]
    present = np.empty((events, len(kept)), dtype=np.bool_)
    for c, (there, _) in enumerate(kept):
        present[:, c] = there
    number = np.array([number for _, number in kept], dtype=np.int32)
    return present, np.broadcast_to(number, present.shape)[present]


def _ends(present: Present) -> npt.NDArray[np.int64]:
    """Where the values of each event begin, and the last one ends."""
    ends = np.zeros(present.shape[0] + 1, dtype=np.int64)
    np.cumsum(present.sum(axis=1), out=ends[1:])
    return ends
