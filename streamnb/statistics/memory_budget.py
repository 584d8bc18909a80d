"""How much may be learned within so many bytes: a function of these and of what was met, and of nothing else.

No clock, no size of a process: so that every learner of one journal, on whatever machine, forgets the same at
the same event, and a recount can forget it, too.
"""

from __future__ import annotations

from typing import NamedTuple

from streamnb.statistics.memory_use import MemoryComponent

_ROW = 36  # bytes: cell and group, and a slot at the least load
_CELL = 12  # of a count: columns grow by half
_LONG_SHARE = 8  # one part in so many is for the bytes of long words
_ATTRIBUTE = 128 << 10  # bytes of the whole: an attribute and its bins, which take up to 26 KiB
_OF_ATTRIBUTE = 40  # bytes for each class: totals of rows, of presence, or moments
_SHARE_OF_ATTRIBUTES = 8
KEPT = 0.75


class MemoryBudget(NamedTuple):
    """What is shared out among classes, attributes, and rows of words and values.

    Attributes:
        n_bytes: for rows.
        whole: of which these are a part, bytes.
        tables: how many tables have a row for each word and value, with a count for each class.
    """

    n_bytes: int
    whole: int
    tables: int = 1

    @property
    def long_bytes(self) -> int:
        """How many bytes the words may have together that are longer than their cells."""
        return self.n_bytes // _LONG_SHARE

    def row_bytes(self, classes: int) -> int:
        """What a row takes with so many classes."""
        return _ROW + _CELL * self.tables * (classes + 1)

    def rows(self, classes: int) -> int:
        """How many rows there may be with so many classes."""
        return max(1, (self.n_bytes - self.long_bytes) // self.row_bytes(classes))

    def taken(self, rows: int, long_bytes: int, classes: int) -> dict[str, MemoryComponent]:
        """What so many rows take of the seven eighths from which on some are forgotten."""
        row = self.row_bytes(classes)
        return {
            "words": MemoryComponent(row * rows, 7 * row * self.rows(classes) // 8),
            "long_words": MemoryComponent(long_bytes, 7 * self.long_bytes // 8),
        }

    def attributes(self, classes: int) -> int:
        """How many attributes there may be with so many classes."""
        cells = self.whole // _SHARE_OF_ATTRIBUTES // _OF_ATTRIBUTE
        return max(1, min(self.whole // _ATTRIBUTE, cells // max(classes, 1)))

    def is_free(self, classes: int) -> bool:
        """Whether so many classes leave room for all attributes that there may ever be."""
        return self.attributes(classes) == self.attributes(0)

    def classes(self, attributes: int) -> int:
        """How many classes there may be with so many attributes."""
        return max(2, self.whole // _SHARE_OF_ATTRIBUTES // _OF_ATTRIBUTE // (attributes + 1))

    def is_short(self, rows: int, long_bytes: int, classes: int) -> bool:
        """Whether seven eighths are taken, so that all but `KEPT` of it is to be forgotten.

        Of three quarters and a half, which forget half as often, log loss on SpamAssassin with a sixth of the
        memory was 3.5 % higher for naive Bayes, and 2 % for the default hypotheses.
        """
        return 8 * rows > 7 * self.rows(classes) or 8 * long_bytes > 7 * self.long_bytes
