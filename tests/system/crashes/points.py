"""Points at which a life can be ended, from what a life that nothing befell did."""

from __future__ import annotations

import os
from collections import Counter

WHEN = ("before", "after")
SQL = ("sql", "sql of commits", "sql of the end")
"""Statements of the connection that reads, of the one that commits, and of the first once the log is closed."""


def calls(trace, *left_out):
    """Seam -> how often it was called."""
    return Counter(seam for seam, _, _ in trace if seam not in left_out)


def every(trace, *seams, when=WHEN):
    """Every call of these seams, before and after."""
    return [
        (seam, call, moment)
        for seam in sorted(calls(trace))
        if seam in seams
        for call in range(calls(trace)[seam])
        for moment in when
    ]


def some(trace, *left_out, first=True):
    """Of every seam the first call and one in the midst of them, before and after; of a file's writes inside, too."""
    chosen = []
    for seam, number in sorted(calls(trace, *left_out).items()):
        moments = (*WHEN, "midway") if seam == "os.write" else WHEN
        chosen += [
            (seam, call, when) for call in sorted({number // 2, *([0] if first else [])}) for when in moments
        ]
    return chosen


def a_few(points, stride):
    """Of every seam the first and one in `stride`; all of them where CRASHES is "all", as in `make storm`."""
    if os.environ.get("CRASHES") == "all":
        return points
    met, chosen = Counter(), []
    for point in points:
        if met[point[0]] % stride == 0:
            chosen.append(point)
        met[point[0]] += 1
    return chosen
