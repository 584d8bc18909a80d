"""Event-time progress and retention of waiting events, by time and by bytes.

The time of the stream is the maximum over min(log timestamps of two consecutive records), so one record with
an absurd timestamp moves nothing. An event waits while its record is at most `window` seconds older, and
while the events after it take at most `memory` bytes. No clock is read, and commit boundaries do not matter.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from operator import attrgetter
from typing import Any

import numpy as np

from streamnb.engine.ports import Record
from streamnb.formats.event_validity import LATEST
from streamnb.kernels.array_types import Floats, Ints
from streamnb.values.state_validation import count

_NEVER = -math.inf
_TIME = attrgetter("timestamp")


class Watermark:
    """Limits below which events have expired.

    Args:
        window: seconds.
        memory: bytes.

    Attributes:
        earliest: events recorded before have expired.
        least: events with fewer bytes before them in the stream have expired.
        taken: bytes of all events so far.
    """

    def __init__(self, window: float, memory: int) -> None:
        self._window, self._memory = window, memory
        self._time = self._last = self.earliest = _NEVER
        self.least = self.taken = 0

    def dated(self, records: Sequence[Record]) -> Sequence[Record]:
        """Return the next records; a timestamp that cannot be meant is replaced by the one before.

        In most topics producers set the timestamp. Two consecutive records with microseconds for milliseconds
        would expire every event, and all later labels would be rejected.
        """
        if max(map(_TIME, records), default=0.0) < LATEST:
            return records
        made, last = [], max(self._last, 0.0)
        for one in records:
            last = last if one.timestamp >= LATEST else one.timestamp
            made.append(one._replace(timestamp=last))
        return made

    def passing(self, times: Floats) -> Floats:
        """Return `earliest` at each of the next records, given their timestamps."""
        given = np.append(self._last, times)
        reached = np.maximum.accumulate(np.maximum(np.minimum(given[:-1], given[1:]), self._time))
        return np.maximum(reached - self._window, self.earliest)

    def passed(self, times: Floats) -> None:
        """Advance by processed records of these timestamps."""
        if times.size:
            given = np.append(self._last, times)
            self._time = max(self._time, float(np.minimum(given[:-1], given[1:]).max()))
            self._last = given[-1].item()
            self.earliest = max(self.earliest, self._time - self._window)

    def taking(self, sizes: Ints) -> Ints:
        """Return `least` at each of the next events, given their sizes."""
        before = self.taken + np.cumsum(sizes) - sizes
        limits: Ints = np.maximum(before - self._memory, self.least)
        return limits

    def took(self, n_bytes: int) -> None:
        """Advance by bytes of arrived events."""
        self.taken += n_bytes
        self.least = max(self.least, self.taken - self._memory)

    def limit(self, window: float, memory: int) -> None:
        """Change window and memory."""
        self._window, self._memory = window, memory
        self.earliest = max(self.earliest, self._time - window)
        self.took(0)

    def state(self) -> dict[str, Any]:
        """Return the state as JSON values; a time not reached yet is null."""
        times = {"time": self._time, "last": self._last, "earliest": self.earliest}
        finite = {name: time if math.isfinite(time) else None for name, time in times.items()}
        return {**finite, "least": self.least, "taken": self.taken}

    def load(self, state: Mapping[str, Any]) -> None:
        """Restore from a `state`; raise SnapshotError for an invalid number."""
        times = (state[name] for name in ("time", "last", "earliest"))
        self._time, self._last, self.earliest = (_NEVER if t is None else float(t) for t in times)
        self.least, self.taken = count(state, "least"), count(state, "taken")
