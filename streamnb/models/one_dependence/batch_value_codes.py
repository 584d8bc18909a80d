"""Nominal and continuous values of a batch as codes of an estimator, by table lookup.

The code of a vocabulary row is stored by row, and the code of a magnitude (2^14 of them) in a table of its
attribute. Values without a code are looked up individually by text or magnitude.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from streamnb.features.encoded_batch import Batch, Encoded
from streamnb.features.feature_layout import Layout
from streamnb.features.tokenizer import TokenBuffer
from streamnb.features.vocabulary import Vocabulary
from streamnb.kernels.array_types import Ints
from streamnb.kernels.growable_arrays import Growable
from streamnb.models.naive_bayes.sufficient_statistics import SufficientStatistics
from streamnb.models.one_dependence.single_event_codes import BY_ROW, MAGNITUDES, NOT_MET, CodeArrays
from streamnb.models.one_dependence.value_codes import MISSING, REST, UNKNOWN, CodedValues, magnitudes
from streamnb.values.attribute_kinds import CONTINUOUS, NOMINAL
from streamnb.values.type_aliases import Codes, Flags

_TABLED = 256  # attributes whose magnitudes have a table


def has_only_texts(batch: Batch, layout: Layout) -> bool:
    """Return whether no event has a nominal or continuous value."""
    return not batch.value.size and not (layout.kinds[batch.item_group] == NOMINAL).any()


class BatchValues(NamedTuple):
    """Nominal and continuous values of a batch.

    Attributes:
        encoded, statistics: the batch, and its vocabulary and layout.
        items: int64[i], the items that are nominal values.
        item_events: int64[i], their events.
        rows: int32[i], their vocabulary rows, or below zero.
        value_events: int64[v], events of the continuous values.
        magnitudes: int64[v], magnitudes of the continuous values.
    """

    encoded: Encoded
    statistics: SufficientStatistics
    items: Ints
    item_events: Ints
    rows: Codes
    value_events: Ints
    magnitudes: Ints

    @classmethod
    def from_encoded(cls, encoded: Encoded, statistics: SufficientStatistics) -> BatchValues:
        """Return the values of a batch."""
        batch = encoded.batch
        items = np.flatnonzero(statistics.layout.kinds[batch.item_group] == NOMINAL)
        rows = batch.rows[batch.item_rows[items]]
        item_events = _owners(batch.event_items)[items]
        return cls(
            encoded,
            statistics,
            items,
            item_events,
            rows,
            _owners(batch.event_values),
            magnitudes(batch.value),
        )

    @property
    def events(self) -> Ints:
        """Events of the values of both kinds."""
        return np.concatenate((self.item_events, self.value_events))

    @property
    def attributes(self) -> Iterable[tuple[int, Codes, Ints]]:
        """For both kinds: the kind, the attribute of each value in the layout, and its event."""
        batch = self.encoded.batch
        yield NOMINAL, batch.item_group[self.items], self.item_events
        yield CONTINUOUS, batch.value_field, self.value_events

    def names(self, kind: int) -> list[Any]:
        """Return the names of all attributes in the layout."""
        layout = self.statistics.layout
        return [name for _, name in layout.groups] if kind == NOMINAL else list(layout.fields)

    def text(self, i: int) -> Any:
        """Return one of the nominal values; UNKNOWN if it is not known and only predicted."""
        if self.rows[i] >= 0:
            return self.statistics.vocabulary.key(int(self.rows[i])).decode()
        if self.encoded.batch.label[self.item_events[i]] < 0:
            return UNKNOWN
        return _own_text(self.encoded.tokens, int(self.items[i]))


class CodeTables(Growable):
    """Tables from rows and magnitudes to codes."""

    def __init__(self, coded: CodedValues) -> None:
        self.coded = coded
        self._type = np.int16 if coded.most < 1 << 14 else np.int32
        self._by_row: Codes = np.zeros(0, dtype=self._type)
        self._by_magnitude: Codes = np.zeros((0, MAGNITUDES), dtype=self._type)
        self._vocabulary: tuple[Vocabulary, int] | None = None
        self._layout: Layout | None = None
        self._numbers: dict[int, Ints] = {}
        self._numbered = (0, 0, 0)

    @property
    def n_bytes(self) -> int:
        """Memory in bytes."""
        return self._by_row.nbytes + self._by_magnitude.nbytes

    @property
    def is_gated(self) -> bool:
        """True while no attribute has appeared."""
        return bool(self.coded.most_attributes) and not self.coded.numbers

    def nominal_arrays(self, vocabulary: Vocabulary, of_group: Ints, of_field: Ints) -> CodeArrays:
        """Return the tables for `code_items`, with the column of each group and field, or -1."""
        by_magnitude = CodeArrays.none().by_magnitude
        return CodeArrays(
            self._codes_of_rows(vocabulary), by_magnitude, of_group, of_field, self.coded.is_full
        )

    def arrays(self, statistics: SufficientStatistics) -> CodeArrays | None:
        """Return the tables for `code_one`; None if codes are wider than it takes."""
        if self._type is not np.int16:
            return None
        numbers = self.numbers_of(statistics.layout)
        by_row = self._codes_of_rows(statistics.vocabulary)
        by_magnitude = self._codes_of_magnitudes(numbers[CONTINUOUS])
        return CodeArrays(by_row, by_magnitude, numbers[NOMINAL], numbers[CONTINUOUS], self.coded.is_full)

    def add(self, vocabulary: Vocabulary, missing: Sequence[Sequence[int]]) -> bool:
        """Give codes to values that are learned next; return False, and add none, if a table has no place.

        Each value is (attribute, field or -1, row or place of the magnitude), as `code_one` found them.
        """
        by_row = self._codes_of_rows(vocabulary)
        if any(key < 0 or field >= len(self._by_magnitude) for _, field, key in missing):
            return False
        for number, field, key in missing:
            if field == BY_ROW:
                by_row[key] = self.coded.code(number, vocabulary.key(key).decode(), adds=True)
            else:
                code = self.coded.code(number, key - MAGNITUDES // 2, adds=True)
                self._by_magnitude[field, key] = code
        return True

    def encode(self, read: BatchValues, adds: Flags) -> Codes:
        """Return the codes of n events, shape (n, attributes); events with `adds` get new codes."""
        self._add_attributes(read, adds)
        codes = np.full((adds.size, len(self.coded.codes)), MISSING, dtype=np.int32)
        numbers, batch = self.numbers_of(read.statistics.layout), read.encoded.batch
        if read.items.size:
            table, rows = self._codes_of_rows(read.statistics.vocabulary), read.rows
            own, at = numbers[NOMINAL][batch.item_group[read.items]], read.item_events
            met = np.where(rows >= 0, table.take(rows, mode="clip"), NOT_MET)
            ids = np.where(rows >= 0, rows, -1 - np.arange(rows.size))
            left = _put(met, own, at, codes)
            for i, code in self._look_up(left, ids, own, at, adds, read.text, codes):
                if rows[i] >= 0:
                    table[rows[i]] = code
        if read.magnitudes.size:
            own, at, fields = numbers[CONTINUOUS][batch.value_field], read.value_events, batch.value_field
            table, places = self._codes_of_magnitudes(numbers[CONTINUOUS]), read.magnitudes + MAGNITUDES // 2
            is_tabled = fields < len(table)
            met = np.where(is_tabled, table[np.where(is_tabled, fields, 0), places], NOT_MET)
            ids = fields * np.int64(MAGNITUDES) + places
            left = _put(met, own, at, codes)
            for i, code in self._look_up(left, ids, own, at, adds, read.magnitudes.item, codes):
                if is_tabled[i]:
                    table[fields[i], places[i]] = code
        return codes

    def known(self, read: BatchValues) -> tuple[Codes, int]:
        """Return the codes without adding any, and the number of events before an unknown attribute."""
        n = read.encoded.batch.label.size
        codes = self.encode(read, np.zeros(n, dtype=np.bool_))
        if not self.coded.is_full:
            numbers = self.numbers_of(read.statistics.layout)
            for kind, attributes, events in read.attributes:
                n = int(events[numbers[kind][attributes] < 0].min(initial=n))
        return codes, n

    def _add_attributes(self, read: BatchValues, adds: Flags) -> None:
        """Assign numbers to new attributes, in the order of events that add, and within an event by name."""
        if self.coded.is_full:
            return
        met, numbers = [], self.numbers_of(read.statistics.layout)
        for kind, attributes, events in read.attributes:
            is_new = (numbers[kind][attributes] < 0) & adds[events]
            if is_new.any():
                new, first = np.unique(attributes[is_new], return_index=True)
                names = read.names(kind)
                for attribute, event in zip(new.tolist(), events[is_new][first].tolist(), strict=True):
                    met.append((event, repr(names[attribute]), kind, names[attribute]))
        self.coded.number(met)

    def numbers_of(self, layout: Layout) -> dict[int, Ints]:
        """Return kind -> the number of each attribute of the layout, or -1."""
        known, groups, fields = self.coded.numbers, layout.groups, layout.fields
        now = len(known), len(groups), len(fields)
        if self._layout is not layout or self._numbered != now:
            if self._layout is not layout:
                self._by_magnitude = self._by_magnitude[:0]
            self._layout, self._numbered = layout, now
            of_fields = (known.get((CONTINUOUS, name), -1) for name in fields)
            self._numbers = {
                NOMINAL: np.array([known.get(group, -1) for group in groups], dtype=np.int64),
                CONTINUOUS: np.fromiter(of_fields, dtype=np.int64, count=len(fields)),
            }
        return self._numbers

    def _codes_of_rows(self, vocabulary: Vocabulary) -> Codes:
        if self._vocabulary != (vocabulary, vocabulary.moves):  # pruned, or loaded
            self._vocabulary, self._by_row = (vocabulary, vocabulary.moves), self._by_row[:0]
        self._by_row = _grown(self._by_row, max(vocabulary.size, 1), 2 * vocabulary.size + 1)
        return self._by_row

    def _codes_of_magnitudes(self, numbers: Ints) -> Codes:
        fields = min(int(np.flatnonzero(numbers >= 0).max(initial=-1)) + 1, _TABLED)
        have = len(self._by_magnitude)
        self._by_magnitude = _grown(self._by_magnitude, max(fields, 1), max(fields, 1))
        for field in range(have, fields):
            for key, code in self.coded.codes[numbers[field]].items() if numbers[field] >= 0 else ():
                if isinstance(key, int):
                    self._by_magnitude[field, key + MAGNITUDES // 2] = code
        return self._by_magnitude

    def _look_up(
        self,
        left: Ints,
        ids: Ints,
        numbers: Ints,
        events: Ints,
        adds: Flags,
        key_of: Callable[[int], Any],
        codes: Codes,
    ) -> Iterator[tuple[int, int]]:
        """Set the codes of the remaining values; yield the index and code of one value per distinct key."""
        if not left.size:
            return
        _, first, which = np.unique(ids[left], return_index=True, return_inverse=True)
        added = np.full(first.size, ids.size)
        is_added = adds[events[left]]
        np.minimum.at(added, which[is_added], left[is_added])
        found = np.full(first.size, REST)
        for u in np.argsort(added, kind="stable").tolist():
            is_new = added[u] < ids.size
            i = int(added[u] if is_new else left[first[u]])
            number, key, coded = int(numbers[i]), key_of(i), self.coded
            is_known = key is not UNKNOWN and key in coded.codes[number]
            found[u] = coded.code(number, key, adds=bool(is_new))
            if is_known:
                added[u] = 0
            if found[u] != REST or coded.has_rest(number, key):
                yield i, int(found[u])
        codes[events[left], numbers[left]] = np.where(left >= added[which], found[which], REST)


def _put(met: Codes, numbers: Ints, events: Ints, codes: Codes) -> Ints:
    """Set the codes of values found in a table; return the indices of all other values."""
    is_known = numbers >= 0
    is_met = is_known & (met != NOT_MET)
    codes[events[is_met], numbers[is_met]] = met[is_met]
    return np.flatnonzero(is_known & ~is_met)


def _grown(table: Codes, least: int, to: int) -> Codes:
    if len(table) >= least:
        return table
    grown = np.full((to, *table.shape[1:]), NOT_MET, dtype=table.dtype)
    grown[: len(table)] = table
    return grown


def _owners(ends: Ints) -> Ints:
    if ends.size == 2:  # faster for a single event
        return np.zeros(int(ends[1]), dtype=np.int64)
    return np.repeat(np.arange(ends.size - 1), np.diff(ends))


def _own_text(tokens: TokenBuffer | None, item: int) -> Any:
    """Return the nominal value of an item; UNKNOWN from a data frame, whose values are not kept."""
    if tokens is None:
        return UNKNOWN
    begin = tokens.item_ends[item - 1] if item else 0
    return tokens.text[begin : tokens.item_ends[item]].tobytes().decode()
