"""What sources said in spans of time that were withdrawn, and does not count."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from typing import Any

from streamnb.engine.labels.verdicts import Said

_MOST_SOURCES = 1000
_MOST_SPANS = 1000  # of one source


class Voids:
    """Of each source, the spans of time in which what it said does not count, whenever it comes."""

    def __init__(self) -> None:
        self.spans: dict[str, list[tuple[float, float]]] = {}  # apart from each other, rising

    def add(self, source: str, since: float, until: float) -> bool:
        """Let one more span not count; False where it is of a source too many."""
        if source not in self.spans and len(self.spans) >= _MOST_SOURCES:
            return False
        spans = self.spans.get(source, [])
        touched = [span for span in spans if span[0] <= until and since <= span[1]]
        joined = min([since, *(span[0] for span in touched)]), max([until, *(span[1] for span in touched)])
        apart = [span for span in spans if span not in touched]
        self.spans[source] = sorted([*apart, joined])[-_MOST_SPANS:] if since <= until else spans
        return True

    def cover(self, said: Said) -> bool:
        """Whether it does not count."""
        spans = self.spans.get(said.source)
        if not spans:
            return False
        place = bisect_right(spans, (said.time, math.inf)) - 1
        return place >= 0 and said.time <= spans[place][1]

    def state(self) -> dict[str, Any]:
        """As JSON has it: a span without a beginning or end has null there."""
        return {source: list(map(_finite, spans)) for source, spans in self.spans.items()}

    def load(self, state: Mapping[str, Sequence[Sequence[Any]]]) -> None:
        """Go on from a `state`."""
        self.spans = {
            source: [(_time(a, -1), _time(b, 1)) for a, b in spans] for source, spans in state.items()
        }


def _finite(span: tuple[float, float]) -> list[float | None]:
    return [time if math.isfinite(time) else None for time in span]


def _time(given: Any, sign: int) -> float:
    return sign * math.inf if given is None else float(given)
