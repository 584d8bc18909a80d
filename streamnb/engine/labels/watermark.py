"""Until when an event waits for its label: a time and a number of bytes that only grow with the stream.

The time of the stream is the greatest that two records in a row have reached, as the log recorded them: one
record with an absurd time moves nothing. An event waits while its own record is not older than that by more
than the window, and while what came after it takes no more than the memory. No clock is read, and where
commits begin and end does not matter.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from operator import attrgetter
from typing import Any

import numpy as np
import numpy.typing as npt

from streamnb.engine.ports import Record
from streamnb.formats.event_validity import LATEST
from streamnb.values.state_validation import count

_NEVER = -math.inf
_TIME = attrgetter("timestamp")


class Watermark:
    """What is waited for no longer.

    Args:
        window: seconds.
        memory: bytes.

    Attributes:
        earliest: events recorded before wait no longer.
        least: nor do events with fewer bytes before them in the stream.
        taken: bytes of all events so far.
    """

    def __init__(self, window: float, memory: int) -> None:
        self._window, self._memory = window, memory
        self._time = self._last = self.earliest = _NEVER
        self.least = self.taken = 0

    def dated(self, records: Sequence[Record]) -> Sequence[Record]:
        """Records that come next; one whose time cannot be meant is of the time of the one before.

        In most topics it is what a producer says. Two in a row with microseconds for milliseconds would end
        the wait of all that ever comes, and the last word on an event would be said for good.
        """
        if max(map(_TIME, records), default=0.0) < LATEST:
            return records
        made, last = [], max(self._last, 0.0)
        for one in records:
            last = last if one.timestamp >= LATEST else one.timestamp
            made.append(one._replace(timestamp=last))
        return made

    def passing(self, times: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """What `earliest` is at each of some records, recorded at these times, that come next."""
        given = np.append(self._last, times)
        reached = np.maximum.accumulate(np.maximum(np.minimum(given[:-1], given[1:]), self._time))
        return np.maximum(reached - self._window, self.earliest)

    def passed(self, times: npt.NDArray[np.float64]) -> None:
        """So many records have been processed."""
        if times.size:
            given = np.append(self._last, times)
            self._time = max(self._time, float(np.minimum(given[:-1], given[1:]).max()))
            self._last = given[-1].item()
            self.earliest = max(self.earliest, self._time - self._window)

    def taking(self, sizes: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """What `least` is at each of some events of these sizes that come next."""
        before = self.taken + np.cumsum(sizes) - sizes
        limits: npt.NDArray[np.int64] = np.maximum(before - self._memory, self.least)
        return limits

    def took(self, n_bytes: int) -> None:
        """So many bytes of events have come."""
        self.taken += n_bytes
        self.least = max(self.least, self.taken - self._memory)

    def limit(self, window: float, memory: int) -> None:
        """Wait for another time, and in another memory."""
        self._window, self._memory = window, memory
        self.earliest = max(self.earliest, self._time - window)
        self.took(0)

    def state(self) -> dict[str, Any]:
        """As JSON has it: what has not been reached yet is null."""
        times = {"time": self._time, "last": self._last, "earliest": self.earliest}
        finite = {name: time if math.isfinite(time) else None for name, time in times.items()}
        return {**finite, "least": self.least, "taken": self.taken}

    def load(self, state: Mapping[str, Any]) -> None:
        """Go on from a `state`. Raises SnapshotError where a number is none."""
        times = (
            float(_NEVER if state[name] is None else state[name]) for name in ("time", "last", "earliest")
        )
        self._time, self._last, self.earliest = times
        self.least, self.taken = count(state, "least"), count(state, "taken")
