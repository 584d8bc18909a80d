"""The parts of a memory budget for hypotheses that read features and runs of bytes.

Features and runs are copied to a file for a snapshot, features up to `MOST_ASIDE`, so no memory is left for
the copy. On SpamAssassin with a tenth of the memory, log loss is then 4 % above that of no budget; with
memory for the copy it was 10 % above.
"""

from __future__ import annotations

from typing import NamedTuple

MOST_ASIDE = 32 << 20
"""Bytes of features. More are copied in memory first: events would wait for a disk that is slow."""


class ByteNgramMemory(NamedTuple):
    """Of the table of runs of bytes.

    Attributes:
        n_bytes: which it takes at most.
        by_two: whether it is laid out for two classes, and folded once there are more.
    """

    n_bytes: int
    by_two: bool = False


def of_rows(n_bytes: int) -> int:
    """For words and values; of small budgets half as much, for features tell more."""
    return max(n_bytes // 16, n_bytes // 8 - (6 << 20))


def of_features(n_bytes: int) -> int:
    """For features of softmax regressions."""
    return max(n_bytes // 6, min(5 * n_bytes // 16, MOST_ASIDE))


def of_runs(n_bytes: int) -> ByteNgramMemory:
    """For runs of bytes, whose table has a size that is a power of two."""
    return ByteNgramMemory(7 * n_bytes // 16, by_two=True)
