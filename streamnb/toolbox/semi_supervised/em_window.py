"""The newest events of unknown class, each with its expected counts, so that it can be relearned."""

from __future__ import annotations

import json
import numbers
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Self

import numpy as np

from streamnb.errors import SnapshotError
from streamnb.values.nominal_values import LARGEST, as_event, value_text
from streamnb.values.number_ranges import is_missing, nearest_double
from streamnb.values.state_validation import checked, count, counts, plain, state_errors, whole
from streamnb.values.type_aliases import Array, State

_ROWS = ("ends", "weights", "parts")
_TOO_LONG = 10**4300  # Python's limit on the digits of an integer; larger numbers become LARGEST


class WindowEvent(NamedTuple):
    """An event and its expected counts.

    Attributes:
        x: the event, of plain Python values.
        weight: in units of 1/1024 example.
        parts: units learned as each class, in the order in which classes appeared; later classes have
            none. They sum to the weight, or to 0 if no class was known.
    """

    x: Any
    weight: int
    parts: tuple[int, ...]


def apportioned(weight: int, shares: Sequence[float]) -> tuple[int, ...]:
    """Divide `weight` into whole units by `shares` that sum to 1; the parts sum to `weight` exactly.

    Largest remainders (Hamilton): shares are rounded down, and the remaining units go to the largest
    remainders, of equals to the first. Each part differs from its exact share by less than a unit, and no
    other rounding has a smaller total error.

    Examples:
        >>> apportioned(1024, [1 / 3, 1 / 3, 1 / 3])
        (342, 341, 341)
        >>> apportioned(10, [0.97, 0.03])
        (10, 0)
    """
    exact = [weight * share for share in shares]
    parts = [int(part) for part in exact]
    left = weight - sum(parts)
    if not 0 <= left <= len(parts):  # shares that do not quite sum to 1
        parts[max(range(len(parts)), key=parts.__getitem__)] += left
        return tuple(parts)
    most_lost = sorted(range(len(parts)), key=lambda k: parts[k] - exact[k])
    for k in most_lost[:left]:
        parts[k] += 1
    return tuple(parts)


class EventWindow:
    """Events in order of arrival, with a cursor that cycles from the oldest to the newest."""

    def __init__(self) -> None:
        self._events: deque[WindowEvent] = deque()
        self._next = 0

    def __len__(self) -> int:
        return len(self._events)

    def __iter__(self) -> Iterator[WindowEvent]:
        return iter(self._events)

    def add(self, event: WindowEvent) -> None:
        """Append an event."""
        self._events.append(event)

    def next(self) -> tuple[int, WindowEvent]:
        """Return the event at the cursor with its place, and advance the cursor. There must be one."""
        place = self._next if self._next < len(self._events) else 0
        self._next = place + 1
        return place, self._events[place]

    def replace(self, place: int, event: WindowEvent) -> None:
        """Replace the event in this place."""
        self._events[place] = event

    def find(self, x: Any, weight: int) -> int | None:
        """Return the place of the newest event equal to this one, or None."""
        wanted = _typed(x)
        for place in range(len(self._events) - 1, -1, -1):
            event = self._events[place]
            if event.weight == weight and event.x == x and _typed(event.x) == wanted:
                return place
        return None

    def take(self, place: int) -> WindowEvent:
        """Remove and return the event in this place."""
        event = self._events[place]
        del self._events[place]
        self._next -= place < self._next
        return event

    def state(self, classes: int) -> State:
        """Return everything as JSON-able values and arrays, for a model of `classes` classes.

        Raises TypeError for names of attributes that are not strings, booleans or numbers.
        """
        texts = [json.dumps(_pairs(event.x), allow_nan=False).encode() for event in self._events]
        parts = np.zeros((len(texts), classes), dtype=np.int64)
        for row, event in zip(parts, self._events, strict=True):
            row[: len(event.parts)] = event.parts
        return {"next": self._next}, {
            "events": np.frombuffer(b"".join(texts), dtype=np.uint8).copy(),
            "ends": np.cumsum([len(text) for text in texts], dtype=np.int64),
            "weights": np.array([event.weight for event in self._events], dtype=np.int64),
            "parts": parts,
        }

    @classmethod
    @state_errors("kept events", ValueError)
    def from_state(cls, meta: Mapping[str, Any], arrays: Mapping[str, Array], classes: int) -> Self:
        """Return the events that `state` described. Raises SnapshotError."""
        kept = cls()
        found = checked(
            arrays,
            {
                "events": whole("bytes", low=0, high=255, dtype=np.uint8),
                "ends": counts("events"),
                "weights": counts("events"),
                "parts": counts("events", "classes"),
            },
            classes=classes,
        )
        text, ends, weights, parts = found["events"].tobytes(), *(found[n].tolist() for n in _ROWS)
        if [*ends, len(text)] != sorted([*ends, len(text)]) or len(text) not in {0, *ends[-1:]}:
            raise SnapshotError(f"kept events of {len(text)} bytes do not end at {ends}")
        for first, end, weight, row in zip([0, *ends], ends, weights, parts, strict=False):
            if sum(row) not in {0, weight}:
                raise SnapshotError(f"a kept event of weight {weight} was learned as {row}")
            kept._events.append(WindowEvent(_from_pairs(json.loads(text[first:end])), weight, tuple(row)))
        kept._next = count(meta, "next", most=len(kept))
        return kept


def as_plain(x: Any) -> Any:
    """Return a plain copy of an event without missing values, from which a model learns the same."""
    if isinstance(x, str):
        return value_text(x)
    return {name: _plain_value(value) for name, value in as_event(x).items() if not is_missing(value)}


def _plain_value(value: Any) -> Any:
    if isinstance(value, str):
        return value_text(value)
    if isinstance(value, Mapping):
        return as_plain(value)
    if isinstance(value, (bool, np.bool_)):
        return bool(value)
    if not isinstance(value, numbers.Integral):
        return nearest_double(value, LARGEST)
    whole = int(value)
    if abs(whole) < _TOO_LONG:
        return whole
    return LARGEST if whole > 0 else -LARGEST


def _typed(x: Any) -> Any:
    return {name: _typed(value) for name, value in x.items()} if isinstance(x, dict) else (type(x), x)


def _pairs(x: Any) -> Any:
    return [[plain(name), _pairs(value)] for name, value in x.items()] if isinstance(x, dict) else x


def _from_pairs(read: Any) -> Any:
    if not isinstance(read, list):
        return read
    return {name: _from_pairs(value) for name, value in read}
