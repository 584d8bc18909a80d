"""Record of the dead letters of a partition that were sent again: one position and a note.

Letters are sent in any order: unreadable ones wait, while later ones are sent. Every letter below the
position is settled, and the note holds ranges of settled offsets above it. Offsets between two waiting
letters count as settled, too, so the number of ranges is at most one more than waiting letters, and at most
the number of sent letters.
"""

from __future__ import annotations

import base64
import binascii
import zlib
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import pairwise
from operator import itemgetter
from typing import NamedTuple

from streamnb.engine.ports import Forwarded
from streamnb.errors import LogError
from streamnb.values.parameter_checks import pluralize

_MOST_NOTE = 4000  # characters: a broker keeps 4,096 (offset.metadata.max.bytes)
DONE = {
    "prediction-oversize": "its event was learned",
    "repeated": "its event had come before",
    "too-many-sources": "the learner would refuse it again: an event takes labels of 4 sources, and a stream "
    "of 1,000; `streamnb label` with the name of one of these sources can correct the event",
}
"""Reasons for which a record is not sent again, each with its explanation."""
OF_BYTES = {"invalid-utf8", "invalid-json", "lone-surrogate"}
"""Reasons that no configuration changes."""
NEVER = OF_BYTES | DONE.keys()
"""Reasons of letters that are never sent again."""
Range = tuple[int, int]
"""First offset, and the offset after the last."""


_MORE = "; there may be more: `streamnb dlq replay` looks at all"
_PASSED = "; those settled before are not counted here, `streamnb dlq list` counts all"


class ResendResult(NamedTuple):
    """Number of letters sent, reasons of those not sent, and if all letters were considered.

    `has_passed` is True if letters were skipped that were sent before, or are never sent.
    """

    sent: int
    not_sent: Mapping[str, int]
    is_whole: bool = True
    has_passed: bool = False

    def message(self, verb: str) -> str:
        """Return the result as text."""
        left = (f"; {n:,} not sent: {why}" for why, n in Counter(self.not_sent).most_common())
        rest = _PASSED * self.has_passed + _MORE * (not self.is_whole)
        return f"{pluralize(self.sent, 'dead letter')} {verb} again{''.join(left)}{rest}"


class ResentDeadLetters:
    """Dead letters of one partition in the order of their offsets; all below `start` are settled."""

    def __init__(self, at: Forwarded | None = None) -> None:
        self.start = 0 if at is None else at.offset
        self._known = [] if at is None else _decoded(at.note)
        self._settled: list[Range] = []  # in this pass, each with a letter that was sent
        self._begin = self.start  # start of the current range
        self._has_sent = False  # in that range
        self._waiting: list[int] = []

    def has(self, offset: int) -> bool:
        """Return True if a letter is settled."""
        place = bisect_right(self._known, offset, key=itemgetter(0)) - 1
        return offset < self.start or (place >= 0 and offset < self._known[place][1])

    def send(self) -> None:
        """Mark the next letter as sent."""
        self._has_sent = True

    def wait(self, offset: int) -> None:
        """Leave the letter at `offset` for another attempt."""
        self._close(offset)
        self._begin = offset + 1
        self._waiting.append(offset)

    def at(self, end: int) -> tuple[Forwarded, int]:
        """Return what the log has to keep after the walk came to `end`, and how many letters wait no more.

        The oldest letters wait no more when the note cannot hold what lies between all of them.
        """
        later = [(max(first, end), after) for first, after in self._known if after > end]
        ranges = [*self._settled, *([(self._begin, end)] if self._has_sent else []), *later]
        start, joined = self.start, list[Range]()
        for first, after in ranges:
            if first <= start:
                start = max(start, after)
            elif joined and first <= joined[-1][1]:
                joined[-1] = joined[-1][0], max(joined[-1][1], after)
            else:
                joined.append((first, after))
        while len(note := _encoded(start, joined)) > _MOST_NOTE:
            start, joined = joined[len(joined) // 10][1], joined[len(joined) // 10 + 1 :]
        return Forwarded(start, note), bisect_left(self._waiting, start)

    def _close(self, offset: int) -> None:
        if self._has_sent:
            self._settled.append((self._begin, offset))
        self._has_sent = False


def _encoded(start: int, ranges: Sequence[Range]) -> str:
    ends = [start, *(end for one in ranges for end in one)]
    steps = " ".join(str(after - before) for before, after in pairwise(ends))
    raw = base64.b85encode(zlib.compress(f"{start} {steps}".encode(), 9)).decode()
    return raw if ranges else ""


def _decoded(note: str) -> list[Range]:
    if not note:
        return []
    try:
        ends = list(map(int, zlib.decompress(base64.b85decode(note)).split()))
    except (ValueError, zlib.error, binascii.Error) as error:
        raise LogError(
            f"the note of which dead letters were sent cannot be read ({note[:20]}...): something other than "
            "`streamnb dlq replay` has written it"
        ) from error
    for place in range(1, len(ends)):
        ends[place] += ends[place - 1]
    return list(zip(ends[1::2], ends[2::2], strict=True))
