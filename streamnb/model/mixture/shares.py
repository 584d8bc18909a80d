"""What hypotheses that read features and runs of bytes have of a budget, by the formula of a stream.

By the first two as much again is left for the copy from which a snapshot is written; that of runs takes twice
what they do. By the third features and runs are copied to a file, up to `MOST_ASIDE`, and have all of it: on
SpamAssassin with a tenth of the memory log loss is then 4 % above that of no budget, and not 10 %; half of
the words change nothing, a table of runs of twice the size 1.3 %.
"""

from __future__ import annotations

from typing import NamedTuple

MOST_ASIDE = 32 << 20
"""Bytes of features. More are copied in memory first: events would wait for a disk that is slow."""


class RunsMemory(NamedTuple):
    """Of the table of runs of bytes.

    Attributes:
        n_bytes: which it takes at most.
        by_two: whether it is laid out for two classes, and folded once there are more.
    """

    n_bytes: int
    by_two: bool = False


def of_rows(n_bytes: int, shares: int) -> int:
    """For words and values; of small budgets half as much, for features tell more."""
    return n_bytes // 8 if shares < 3 else max(n_bytes // 16, n_bytes // 8 - (6 << 20))


def of_features(n_bytes: int, shares: int) -> int:
    """For features of softmax regressions."""
    return n_bytes // 6 if shares < 3 else max(n_bytes // 6, min(5 * n_bytes // 16, MOST_ASIDE))


def of_runs(n_bytes: int, shares: int) -> RunsMemory:
    """For runs of bytes, whose table has a size that is a power of two."""
    return RunsMemory(n_bytes // 11) if shares < 3 else RunsMemory(7 * n_bytes // 16, by_two=True)
