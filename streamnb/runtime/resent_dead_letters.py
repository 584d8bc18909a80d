"""Record of the dead letters of a partition that were sent again: one position and a note.

Letters are sent in any order: unreadable ones wait, while later ones are sent. Every letter below the
position is settled, and the note holds ranges of settled offsets above it. Offsets between two waiting
letters count as settled, too, so the number of ranges is at most one more than waiting letters, and at most
the number of sent letters.

Letters that are never sent as they are can be corrected one at a time. The note holds their offsets
separately, because the ranges cover them whether they were corrected or not. The newest hundreds are kept;
older letters of this sort cannot be corrected any more, so that none is sent twice.
"""

from __future__ import annotations

import base64
import binascii
import zlib
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Mapping
from itertools import pairwise
from operator import itemgetter
from typing import NamedTuple

from streamnb.engine.ports import Forwarded
from streamnb.errors import LogError
from streamnb.values.parameter_checks import pluralize

_MOST_NOTE = 4000  # characters: a broker keeps 4,096 (offset.metadata.max.bytes)
_MOST_CORRECTED = 1000  # characters of it for letters that were corrected
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


SETTLED = "it was sent again, corrected or skipped before"
"""Why a letter is not sent: its record is not sent twice."""
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
        self._known, self._corrected = _Ranges(self.start), _Ranges(0)
        if at is not None and at.note:
            self._known, self._corrected = _decoded(at.note)
        self._settled: list[Range] = []  # in this pass, each with a letter that was sent
        self._begin = self.start  # start of the current range
        self._has_sent = False  # in that range
        self._waiting: list[int] = []

    def has(self, offset: int) -> bool:
        """Return True if a letter is settled."""
        return offset < self.start or self._known.has(offset)

    def why_settled(self, offset: int, reason: str) -> str:
        """Return why a letter can neither be corrected nor skipped; empty if it can."""
        if reason not in NEVER:
            return SETTLED if self.has(offset) else ""
        if offset < self._corrected.start:
            return f"{SETTLED}; or too many newer ones were corrected since"
        return SETTLED if self._corrected.has(offset) else ""

    def settle(self, letters: Iterable[tuple[int, str]]) -> Forwarded:
        """Return what the log has to keep once single letters are settled, given as offset and reason.

        Raises LogError if the note cannot hold the letters that wait between them.
        """
        known, corrected = self._known.ranges, self._corrected.ranges
        for offset, reason in letters:
            (corrected if reason in NEVER else known).append((offset, offset + 1))
        joined = _Ranges(self.start, known)
        fixed = _Ranges(self._corrected.start, corrected).within(_MOST_CORRECTED)
        note = _encoded(joined, fixed)
        if len(note) > _MOST_NOTE:
            raise LogError(
                "too many dead letters wait between settled ones: send or skip the oldest first "
                "(`streamnb dlq replay`)"
            )
        return Forwarded(joined.start, note)

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
        later = [(max(first, end), after) for first, after in self._known.ranges if after > end]
        ranges = [*self._settled, *([(self._begin, end)] if self._has_sent else []), *later]
        joined = _Ranges(self.start, ranges)
        while len(note := _encoded(joined, self._corrected)) > _MOST_NOTE:
            joined = joined.without_oldest()
        return Forwarded(joined.start, note), bisect_left(self._waiting, joined.start)

    def _close(self, offset: int) -> None:
        if self._has_sent:
            self._settled.append((self._begin, offset))
        self._has_sent = False


class _Ranges:
    """All offsets below `start`, and disjoint ranges above it in ascending order."""

    def __init__(self, start: int, ranges: Iterable[Range] = ()) -> None:
        self.start, self._ranges = start, list[Range]()
        for first, after in sorted(ranges):
            if first <= self.start:
                self.start = max(self.start, after)
            elif self._ranges and first <= self._ranges[-1][1]:
                self._ranges[-1] = self._ranges[-1][0], max(self._ranges[-1][1], after)
            else:
                self._ranges.append((first, after))

    @property
    def ranges(self) -> list[Range]:
        """A copy of the ranges."""
        return self._ranges.copy()

    def has(self, offset: int) -> bool:
        """Return True if an offset is in a range."""
        place = bisect_right(self._ranges, offset, key=itemgetter(0)) - 1
        return place >= 0 and offset < self._ranges[place][1]

    def without_oldest(self) -> _Ranges:
        """Return the ranges above about a tenth of them, which count as settled."""
        place = len(self._ranges) // 10
        return _Ranges(self._ranges[place][1], self._ranges[place + 1 :])

    def within(self, most: int) -> _Ranges:
        """Return the newest ranges that fit into `most` characters; older offsets count as settled."""
        kept = self
        while len(_compressed(str(kept))) > most:
            kept = kept.without_oldest()
        return kept

    def __str__(self) -> str:
        ends = [self.start, *(end for one in self._ranges for end in one)]
        return " ".join([str(self.start), *(str(after - before) for before, after in pairwise(ends))])

    @classmethod
    def parse(cls, text: bytes) -> _Ranges:
        """Return the ranges of a text. Raises ValueError."""
        ends = list(map(int, text.split()))
        for place in range(1, len(ends)):
            ends[place] += ends[place - 1]
        return cls(ends[0], zip(ends[1::2], ends[2::2], strict=True))


def _compressed(text: str) -> str:
    return base64.b85encode(zlib.compress(text.encode(), 9)).decode()


def _encoded(known: _Ranges, corrected: _Ranges) -> str:
    is_plain = not (known.ranges or corrected.ranges or corrected.start)
    return "" if is_plain else _compressed(f"{known}/{corrected}")


def _decoded(note: str) -> tuple[_Ranges, _Ranges]:
    try:
        known, corrected = zlib.decompress(base64.b85decode(note)).split(b"/")
        return _Ranges.parse(known), _Ranges.parse(corrected)
    except (ValueError, IndexError, zlib.error, binascii.Error) as error:
        raise LogError(
            f"the note of which dead letters were sent cannot be read ({note[:20]}...): something other than "
            "`streamnb dlq replay` has written it"
        ) from error
