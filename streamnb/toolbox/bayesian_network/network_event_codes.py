"""Conversion of events (dictionaries or data frames) to codes of a network's values, in stream order."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import chain, cycle
from operator import getitem, itemgetter
from typing import Any

import numpy as np

from streamnb.features.data_frames import rows_of
from streamnb.kernels.array_types import Ints
from streamnb.toolbox.bayesian_network.family_counts import FamilyTables
from streamnb.values.example_weights import UNIT, units
from streamnb.values.nominal_values import as_event, value_text
from streamnb.values.number_ranges import is_missing
from streamnb.values.type_aliases import Weights


class EncodedEvents:
    """Events, labels and weights as arrays, for a network whose variable 0 is the label.

    New values get codes in `add_values`, in the order of events, so codes do not depend on how calls split
    the stream. A value without a weight changes no prediction. Nothing is added if an event is invalid.

    Args:
        tables: tables of the network.
        xs: mappings, or a data frame.
        ys: labels, or None.
        ws: weights, or None for 1 each.

    Attributes:
        codes: int64[n, V], -1 if an event has no value.
        weights: int64[n], in units; 0 if an event has no label or no weight.

    Raises:
        TypeError: for a value that is not a scalar, or a label that cannot be hashed.
        ValueError: for a weight out of range, or lengths that differ.
    """

    def __init__(self, tables: FamilyTables, xs: Any, ys: Iterable[Any] | None, ws: Weights) -> None:
        self._tables = tables
        self._classes = len(tables.values(0))
        events = rows_of(xs)
        n = len(events)
        self._labels = [None] * n if ys is None else list(ys)
        self.weights = np.full(n, UNIT) if ws is None else np.array([units(w) for w in ws], dtype=np.int64)
        if len(self._labels) != n or self.weights.size != n:
            raise ValueError(f"{n} events, but {len(self._labels)} labels or {self.weights.size} weights")
        self.codes = np.full((n, len(tables.dag)), -1, dtype=np.int64)
        self._new: dict[int, list[tuple[int, Any]]] = {}  # event -> (variable, value) pairs without a code
        self._encode_labels()
        self._encode(events, tables.dag.names[1:])

    def __len__(self) -> int:
        return len(self._labels)

    def add_values(self) -> None:
        """Look up values without a code again, event by event; add the new values of learned events."""
        for event in sorted(self._new):
            for v, value in self._new[event]:
                code = self._tables.lookup(v)[value]
                adds = code < 0 and self.weights[event] > 0
                self.codes[event, v] = self._tables.code(v, value) if adds else code
                if v == 0 and self.codes[event, 0] < 0:  # no capacity for another class
                    self.weights[event] = 0

    def known(self) -> Ints:
        """Return the number of known classes before each event; valid after `add_values`."""
        met = np.maximum.accumulate(np.concatenate([[self._classes], self.codes[:, 0] + 1]))
        return met[:-1]

    def _encode_labels(self) -> None:
        lookup = self._tables.lookup(0)
        try:
            found = list(map(lookup.__getitem__, self._labels))
        except TypeError as error:
            raise TypeError(f"a label must be hashable: {error}") from error
        if -1 in found:
            missing = [code < 0 and is_missing(self._labels[e]) for e, code in enumerate(found)]
            self.weights[missing] = 0
            new = [e for e, code in enumerate(found) if code < 0 and self.weights[e] > 0]
            self._new = {e: [(0, self._labels[e])] for e in new}
        self.codes[:, 0] = found
        self.codes[self.weights == 0, 0] = -1

    def _encode(self, events: Any, names: tuple[Any, ...]) -> None:
        lookups, n = [self._tables.lookup(v + 1) for v in range(len(names))], len(names) * len(self)
        for values in _ways_to_read(events, names):
            try:
                found = np.fromiter(map(getitem, cycle(lookups), values()), np.int64, n)
            except (KeyError, TypeError):  # an attribute is absent, or a value has no hash: see below
                continue
            self.codes[:, 1:] = found.reshape(-1, len(names))
            if found.min(initial=0) < 0:
                self._encode_others(found, list(values()), len(names))
            return
        raise TypeError("a value must be a string, a boolean or a number: one value cannot be hashed")

    def _encode_others(self, found: Ints, values: list[Any], attributes: int) -> None:
        """Encode the values without a code: missing, not a string, or new."""
        for index in np.flatnonzero(found < 0).tolist():
            value = values[index]
            if value is None or is_missing(value):
                continue
            event, v = divmod(index, attributes)
            text = value_text(value)
            code = self.codes[event, v + 1] = self._tables.lookup(v + 1)[text]
            if code < 0:
                self._new.setdefault(event, []).append((v + 1, text))


def _ways_to_read(events: Any, names: tuple[Any, ...]) -> Iterator[Callable[[], Iterator[Any]]]:
    """Yield readers of all values, event by event: first a fast one that needs all attributes."""
    if len(names) > 1 and set(map(type, events)) <= {dict}:  # other types may return defaults
        yield lambda: chain.from_iterable(map(itemgetter(*names), events))
    yield lambda: (as_event(x).get(name) for x in events for name in names)
