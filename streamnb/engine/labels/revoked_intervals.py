"""Time intervals of sources whose labels are revoked.

An interval lies in the total order of labels: (time, partition, offset). A retraction without a time of its
own ends its interval at its own record, so the next line of the same file counts, whatever the log's clock.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from operator import itemgetter
from typing import Any

import msgspec

from streamnb.engine.labels.source_labels import SourceLabel
from streamnb.engine.ports import Partition, Record
from streamnb.events import Retraction

Place = tuple[float, Partition, int]
"""Position in the total order of a source's labels."""
_FIRST, _LAST = Partition("", -1), Partition("\U0010ffff", 0)
_Row = tuple[float | None, float, str, int, int]
_MOST_SOURCES = 1000
_MOST_SPANS = 1000  # for each source


class RevokedIntervals:
    """Intervals of each source in which its labels do not count, even if they arrive later."""

    def __init__(self) -> None:
        self.spans: dict[str, list[tuple[Place, Place]]] = {}  # disjoint, ascending

    def add(self, withdrawal: Retraction, record: Record) -> bool:
        """Revoke an interval of labels; return False if its source exceeds the maximum."""
        source = withdrawal.source
        if source not in self.spans and len(self.spans) >= _MOST_SOURCES:
            return False
        since = _begin(withdrawal.since)
        until: Place = (record.timestamp, record.partition, record.offset)
        if withdrawal.ts is not None:  # labels at that time included
            until = withdrawal.ts, _LAST, 0
        spans = self.spans.get(source, [])
        touched = [span for span in spans if span[0] <= until and since <= span[1]]
        joined = min([since, *(span[0] for span in touched)]), max([until, *(span[1] for span in touched)])
        apart = [span for span in spans if span not in touched]
        self.spans[source] = sorted([*apart, joined])[-_MOST_SPANS:] if since <= until else spans
        return True

    def cover(self, said: SourceLabel) -> bool:
        """Return if a label is revoked."""
        spans = self.spans.get(said.source)
        if not spans:
            return False
        place = bisect_right(spans, said.order, key=itemgetter(0)) - 1
        return place >= 0 and said.order <= spans[place][1]

    def state(self) -> dict[str, Any]:
        """Return start (null if unbounded) and end position of each interval, by source."""
        return {source: [_row(*span) for span in spans] for source, spans in self.spans.items()}

    def load(self, state: Mapping[str, Sequence[Sequence[Any]]]) -> None:
        """Restore from a `state`; raise msgspec.ValidationError if it is invalid."""
        rows = msgspec.convert(state, dict[str, list[_Row]])
        self.spans = {
            source: [(_begin(since), (t, Partition(topic, n), at)) for since, t, topic, n, at in found]
            for source, found in rows.items()
        }


def _begin(since: float | None) -> Place:
    return -math.inf if since is None else since, _FIRST, 0


def _row(begin: Place, end: Place) -> list[Any]:
    (since, *_), (time, (topic, number), offset) = begin, end
    return [since if math.isfinite(since) else None, time, topic, number, offset]
