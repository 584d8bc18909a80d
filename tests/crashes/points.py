"""Points at which a life can be ended, from what a life that nothing befell did; and a test of many of them."""

from __future__ import annotations

import os
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

WHEN = ("before", "after")


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
    """One in `stride` of points that hardly differ; all of them where CRASHES is "all", as in `make storm`."""
    return points if os.environ.get("CRASHES") == "all" else points[::stride]


def failures(attempt, points, at_once):
    """Attempt every point; point -> what went wrong there."""

    def outcome(point):
        try:
            attempt(point)
        except Exception as error:  # noqa: BLE001  all of them are shown together
            return f"{type(error).__name__}: {error}"
        return None

    with ThreadPoolExecutor(at_once) as pool:
        outcomes = list(pool.map(outcome, points))
    return {" ".join(map(str, point)): found for point, found in zip(points, outcomes, strict=True) if found}
