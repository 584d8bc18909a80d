"""Values over events: lines with credible bands, and stacked shares."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from itertools import accumulate, pairwise
from typing import NamedTuple

from streamnb.charts.html_markup import Markup, colour_key, count, figure, number, percent, tag

_MOST_POINTS = 400
_FEW_POINTS = 30
_MOST_TOLD = 60  # points with a tooltip
_COLOURS = 8
_NEAR_END = 97.0  # percent of the width, beyond which a text ends at its place
_TOP, _BELOW = 8, 20  # pixels above and below the plot


class Series(NamedTuple):
    """One line: a value for each x, perhaps with the bounds of its credible interval; None is a gap.

    The key has `note`, or else the last value.
    """

    name: str
    ys: Sequence[float | None]
    lower: Sequence[float | None] | None = None
    upper: Sequence[float | None] | None = None
    note: str = ""


def line(
    title: str,
    xs: Sequence[float],
    series: Sequence[Series],
    *,
    marks: Iterable[tuple[float, str]] = (),
    within: tuple[float, float] = (-math.inf, math.inf),
    y: Callable[[float], str] = number,
    x: Callable[[float], str] = count,
    ticks: Sequence[float] = (),
    is_whole: bool = False,
    height: int = 200,
) -> Markup:
    """Draw lines over rising xs, with their bands, and marks at some xs.

    With many points the axis ignores the first tenth of the xs, whose values may lie outside the picture,
    unless `is_whole`.

    Args:
        title: the title.
        xs: the xs of the values.
        series: the lines.
        marks: (x, label).
        within: limits of the axis, such as (0, 1) for a share.
        y: formats a value.
        x: formats an x.
        ticks: the xs that are written below (default: the ends and the middle).
        is_whole: whether the picture has all values.
        height: in pixels.
    """
    xs, series = _thinned(xs, series)
    # Extreme first values would flatten the rest.
    first = bisect_left(xs, 0.9 * xs[0] + 0.1 * xs[-1]) if len(xs) > _FEW_POINTS and not is_whole else 0
    drawn_by = [ys[first:] for one in series for ys in (one.ys, one.lower, one.upper) if ys is not None]
    found = [v for ys in drawn_by for v in ys if v is not None]
    if not found:
        return figure(title, "no data", 0)
    low, high, step = _axis(min(found), max(found), within)
    frame = _PlotFrame(xs, low, high, height)
    drawn = []
    for n, one in enumerate(series):
        if one.lower is not None and one.upper is not None:
            drawn.append(frame.area(one.lower, one.upper, f"band c{n % _COLOURS + 1}"))
        drawn.append(frame.line(one.ys, f"line c{n % _COLOURS + 1}"))
    notes = [one.note or y(_last(one.ys)) for one in series]
    told = [f"{one.name}: {note}" for one, note in zip(series, notes, strict=True)]
    many = len(series) > 1
    return figure(
        title,
        f"{_story(series, y)} From {x(xs[0])} to {x(xs[-1])}.",
        height,
        *frame.grid(low, step, y, x, ticks),
        frame.plot(drawn),
        *frame.marks(marks),
        *frame.summary(series, y, x),
        key=colour_key(told, _COLOURS) if many else None,
        note=None if many else notes[0],
    )


def stacked(title: str, xs: Sequence[float], series: Sequence[Series], *, height: int = 200) -> Markup:
    """Draw shares that add up to 1, stacked with the first at the bottom. Eight colours are distinct."""
    xs, series = _thinned(xs, series)
    if not xs:
        return figure(title, "no data", 0)
    frame = _PlotFrame(xs, 0.0, 1.0, height)
    rows = [[v or 0.0 for v in one.ys] for one in series]
    edges = list(
        accumulate(rows, lambda a, b: [p + q for p, q in zip(a, b, strict=True)], initial=[0.0] * len(xs))
    )
    drawn = [
        frame.area(below, above, f"area c{n % _COLOURS + 1}")
        for n, (below, above) in enumerate(pairwise(edges))
    ]
    return figure(
        title,
        _story(series, percent),
        height,
        frame.plot(drawn),
        *frame.grid(0.0, 0.5, percent, count, ()),
        *frame.summary(series, percent, count),
        key=colour_key([f"{one.name}: {percent(_last(one.ys))}" for one in series], _COLOURS),
    )


class _PlotFrame:
    """Coordinates of a plot as wide as the picture, with a height in pixels."""

    def __init__(self, xs: Sequence[float], low: float, high: float, height: int) -> None:
        self.xs, self.low, self.high = xs, low, high
        self.inner = height - _TOP - _BELOW

    def x(self, x: float) -> float:
        """Return x in thousandths of the width."""
        span = self.xs[-1] - self.xs[0]
        return 1000 * (x - self.xs[0]) / span if span else 500.0

    def y(self, y: float) -> float:
        """Return y in thousandths of the height."""
        return 1000 - 1000 * (y - self.low) / (self.high - self.low)

    def plot(self, drawn: Iterable[Markup]) -> Markup:
        """Return a drawing in thousandths."""
        where = {"x": "0", "y": _TOP, "width": "100%", "height": self.inner}
        return tag("svg", *drawn, viewBox="0 0 1000 1000", preserveAspectRatio="none", **where)

    def line(self, ys: Sequence[float | None], style: str) -> Markup:
        """Return a line through all values; a single value gives a horizontal line."""
        points = [(self.x(a), self.y(b)) for a, b in zip(self.xs, ys, strict=True) if b is not None]
        points = [(0.0, points[0][1]), (1000.0, points[0][1])] if len(points) == 1 else points
        return tag("polyline", points=_points(points), class_=style, vector_effect="non-scaling-stroke")

    def area(self, lower: Sequence[float | None], upper: Sequence[float | None], style: str) -> Markup:
        """Return the area between two lines."""
        rows = [
            (self.x(a), self.y(b), self.y(c))
            for a, b, c in zip(self.xs, lower, upper, strict=True)
            if b is not None and c is not None
        ]
        rows = [(0.0, *rows[0][1:]), (1000.0, *rows[0][1:])] if len(rows) == 1 else rows
        around = [(a, c) for a, _, c in rows] + [(a, b) for a, b, _ in reversed(rows)]
        return tag("polygon", points=_points(around), class_=style)

    def grid(
        self,
        first: float,
        step: float,
        y: Callable[[float], str],
        x: Callable[[float], str],
        ticks: Sequence[float],
    ) -> Iterable[Markup]:
        """Yield horizontal lines with their values, and the xs below: `ticks`, or the ends and the middle."""
        for n in range(round((self.high - first) / step) + 1):
            at = _TOP + self.y(first + n * step) * self.inner / 1000
            yield tag("line", x1=0, x2="100%", y1=at, y2=at, class_="grid")
            yield tag("text", y(first + n * step), x=2, y=at + (11 if n and at < 20 else -4))
        low, high = self.xs[0], self.xs[-1]
        for at in ticks or ((low, (low + high) / 2, high) if high > low else (low,)):
            if low <= at <= high:
                place = self.x(at) / 10 if high > low else 0.0
                style = "end" if place > _NEAR_END else "middle" if place > 100 - _NEAR_END else None
                yield tag("text", x(at), x=f"{place:.2f}%", y=_TOP + self.inner + 15, class_=style)

    def marks(self, marks: Iterable[tuple[float, str]]) -> Iterable[Markup]:
        """Yield a dashed line with a tooltip for each mark."""
        for at, what in marks:
            if self.xs[0] <= at <= self.xs[-1]:
                where = f"{self.x(at) / 10:.2f}%"
                foot = _TOP + self.inner
                yield tag("line", tag("title", what), x1=where, x2=where, y1=_TOP, y2=foot, class_="mark")

    def summary(
        self, series: Sequence[Series], y: Callable[[float], str], x: Callable[[float], str]
    ) -> Iterable[Markup]:
        """Yield invisible columns with tooltips of the values."""
        every = max(1, len(self.xs) // _MOST_TOLD)
        for n in range(0, len(self.xs), every):
            values = [
                f"{one.name}: {y(v)}{_between(one, n, y)}" for one in series if (v := one.ys[n]) is not None
            ]
            left, right = self.x(self.xs[n]), self.x(self.xs[min(n + every, len(self.xs) - 1)])
            told = tag("title", "\n".join([f"at {x(self.xs[n])}", *values]))
            size = {"width": f"{max(5.0, right - left) / 10:.2f}%", "height": self.inner}
            yield tag("rect", told, x=f"{left / 10:.2f}%", y=_TOP, class_="told", **size)


def _between(one: Series, n: int, y: Callable[[float], str]) -> str:
    if one.lower is None or one.upper is None:
        return ""
    low, high = one.lower[n], one.upper[n]
    return "" if low is None or high is None else f" ({y(low)} to {y(high)})"


def _points(points: Iterable[tuple[float, float]]) -> str:
    return " ".join(f"{a:.1f},{b:.1f}" for a, b in points)


def _story(series: Sequence[Series], y: Callable[[float], str]) -> str:
    """Return the description in words: first, last, least and greatest value of each series."""
    parts = []
    for one in series:
        there = [v for v in one.ys if v is not None]
        if there:
            ends = f"{one.name}: first {y(there[0])}, last {y(there[-1])}"
            parts.append(f"{ends}, least {y(min(there))}, most {y(max(there))}.")
    return " ".join(parts)


def _last(ys: Sequence[float | None]) -> float:
    return next((v for v in reversed(ys) if v is not None), math.nan)


def _thinned(xs: Sequence[float], series: Sequence[Series]) -> tuple[Sequence[float], list[Series]]:
    """Return every n-th point, including the last one, so that there are at most `_MOST_POINTS`."""
    every = -(-len(xs) // _MOST_POINTS) if xs else 1
    kept = range((len(xs) - 1) % every, len(xs), every)

    def some(values: Sequence[float | None]) -> list[float | None]:
        return [values[n] for n in kept]

    return [xs[n] for n in kept], [
        one._replace(
            ys=some(one.ys), lower=one.lower and some(one.lower), upper=one.upper and some(one.upper)
        )
        for one in series
    ]


def _axis(low: float, high: float, within: tuple[float, float]) -> tuple[float, float, float]:
    """Return rounded limits of an axis around some values, and the step of its lines."""
    span = (high - low) or abs(high) or 1.0
    size = 10.0 ** math.floor(math.log10(span / 3))
    step = next(n * size for n in (1, 2, 2.5, 5, 10) if n * size >= span / 3.5)
    first = max(math.floor(low / step) * step, within[0])
    end = min(math.ceil(high / step) * step, within[1])
    return first, end if end > first else first + step, step
