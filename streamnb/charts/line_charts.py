"""Values over events: lines with credible bands, and stacked shares."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from itertools import accumulate, pairwise
from typing import NamedTuple

from streamnb.charts.chart_axis import BY_NUMBER, Axis, Mark
from streamnb.charts.html_markup import Markup, colour_key, figure, number, percent, tag

_MOST_POINTS = 400
_FEW_POINTS = 30
_MOST_TOLD = 100  # points with a tooltip
_COLOURS = 8
_NEAR_END = 97.0  # percent of the width, beyond which a text ends at its place
_TOP, _TOP_MARKED = 8, 22  # pixels above the plot; labels of marks need more
_BELOW, _BELOW_TIME = 20, 36  # pixels below the plot; a page adds a line of local times
_LABEL_ROOM = 1.6  # percent of the width that a character of a mark's label takes in a narrow picture


class Series(NamedTuple):
    """One line: a value for each x, perhaps with the bounds of its credible interval; None is a gap.

    The key has `note`, or else the last value. `colour` is 1 to 15; 0 takes the next one.
    """

    name: str
    ys: Sequence[float | None]
    lower: Sequence[float | None] | None = None
    upper: Sequence[float | None] | None = None
    note: str = ""
    colour: int = 0


def line(
    title: str,
    xs: Sequence[float],
    series: Sequence[Series],
    *,
    marks: Iterable[Mark] = (),
    within: tuple[float, float] = (-math.inf, math.inf),
    y: Callable[[float], str] = number,
    axis: Axis = BY_NUMBER,
    is_whole: bool = False,
    height: int = 200,
) -> Markup:
    """Draw lines over rising xs, with their bands, and marks at some xs.

    With many points the vertical axis ignores the first tenth of the xs, unless `is_whole`. If a line then
    leaves the picture, the picture names its extreme value.

    Args:
        title: the title.
        xs: the xs of the values.
        series: the lines.
        marks: what happened at some xs.
        within: limits of the axis, such as (0, 1) for a share.
        y: formats a value.
        axis: the horizontal axis.
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
    frame, colours = _PlotFrame(xs, low, high, height, axis), _colours(series)
    drawn = []
    for n, one in zip(colours, series, strict=True):
        if one.lower is not None and one.upper is not None:
            drawn.append(frame.area(one.lower, one.upper, f"band c{n}"))
        drawn.append(frame.line(one.ys, f"line c{n}"))
    outside = _outside([v for one in series for v in one.ys if v is not None], low, high, y)
    notes = [one.note or y(_last(one.ys)) for one in series]
    told = [f"{one.name}: {note}" for one, note in zip(series, notes, strict=True)]
    many = len(series) > 1
    return figure(
        title,
        f"{_story(series, y)} From {axis.text(xs[0])} to {axis.text(xs[-1])}. {outside}".rstrip(),
        height + frame.extra,
        *frame.grid(low, step, y),
        frame.plot(drawn),
        tag("text", outside, x="100%", y=frame.top + 11, class_="end") if outside else None,
        *frame.summary(series, y),
        *frame.marks(marks),
        key=colour_key(told, colours) if many else None,
        note=None if many else notes[0],
        is_scaled=True,
    )


def stacked(
    title: str,
    xs: Sequence[float],
    series: Sequence[Series],
    *,
    marks: Iterable[Mark] = (),
    axis: Axis = BY_NUMBER,
    height: int = 200,
) -> Markup:
    """Draw shares that add up to 1, stacked with the first at the bottom. Eight colours are distinct."""
    xs, series = _thinned(xs, series)
    if not xs:
        return figure(title, "no data", 0)
    frame, colours = _PlotFrame(xs, 0.0, 1.0, height, axis), _colours(series)
    rows = [[v or 0.0 for v in one.ys] for one in series]
    edges = list(
        accumulate(rows, lambda a, b: [p + q for p, q in zip(a, b, strict=True)], initial=[0.0] * len(xs))
    )
    drawn = [
        frame.area(below, above, f"area c{n}")
        for n, (below, above) in zip(colours, pairwise(edges), strict=True)
    ]
    return figure(
        title,
        _story(series, percent),
        height + frame.extra,
        frame.plot(drawn),
        *frame.grid(0.0, 0.5, percent),
        *frame.summary(series, percent),
        *frame.marks(marks),
        key=colour_key([f"{one.name}: {percent(_last(one.ys))}" for one in series], colours),
        is_scaled=True,
    )


def _colours(series: Sequence[Series]) -> list[int]:
    return [one.colour or n % _COLOURS + 1 for n, one in enumerate(series)]


def _outside(values: Sequence[float], low: float, high: float, y: Callable[[float], str]) -> str:
    """Return a note on the values that the picture leaves out; empty if it has all."""
    most, least = max(values, default=low), min(values, default=low)
    notes = [f"up to {y(most)}"] if most > high else []
    notes += [f"down to {y(least)}"] if least < low else []
    return f"not drawn: {', '.join(notes)}" if notes else ""


class _PlotFrame:
    """Coordinates of a plot as wide as the picture, with a height in pixels."""

    def __init__(self, xs: Sequence[float], low: float, high: float, height: int, axis: Axis) -> None:
        self.xs, self.low, self.high, self._axis = xs, low, high, axis
        self.first, self.last = axis.ends or (xs[0], xs[-1])
        self.top = _TOP_MARKED if axis.is_time else _TOP
        self.inner = height - _TOP - _BELOW
        self.extra = _BELOW_TIME - _BELOW + self.top - _TOP if axis.is_time else 0

    def x(self, x: float) -> float:
        """Return x in thousandths of the width."""
        span = self.last - self.first
        return 1000 * (x - self.first) / span if span else 500.0

    def y(self, y: float) -> float:
        """Return y in thousandths of the height."""
        return 1000 - 1000 * (y - self.low) / (self.high - self.low)

    def plot(self, drawn: Iterable[Markup]) -> Markup:
        """Return a drawing in thousandths."""
        where = {"x": "0", "y": self.top, "width": "100%", "height": self.inner}
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

    def grid(self, first: float, step: float, y: Callable[[float], str]) -> Iterable[Markup]:
        """Yield horizontal lines with their values to the left, and xs below: ticks, or ends and middle."""
        for n in range(round((self.high - first) / step) + 1):
            at = self.top + self.y(first + n * step) * self.inner / 1000
            yield tag("line", x1=0, x2="100%", y1=at, y2=at, class_="grid")
            yield tag("text", y(first + n * step), x=-6, y=at + 4, class_="end")
        low, high, foot = self.first, self.last, self.top + self.inner + 15
        for at in self._axis.ticks or ((low, (low + high) / 2, high) if high > low else (low,)):
            if low <= at <= high:
                place = self.x(at) / 10 if high > low else 0.0
                style = "end" if place > _NEAR_END else "middle" if place > 100 - _NEAR_END else None
                seconds = at if self._axis.is_time else None
                text = self._axis.text(at)
                yield tag("text", text, x=f"{place:.2f}%", y=foot, class_=style, data_seconds=seconds)

    def marks(self, marks: Iterable[Mark]) -> Iterable[Markup]:
        """Yield a dashed line with a tooltip for each mark, and its label if there is room for it."""
        free = 0.0
        for one in sorted(marks):
            if self.first <= one.at <= self.last:
                place, foot = self.x(one.at) / 10, self.top + self.inner
                told, where, style = tag("title", one.text), f"{place:.2f}%", f"mark {one.kind}"
                yield tag("line", told, x1=where, x2=where, y1=self.top, y2=foot, class_=style)
                label = one.label or one.text.partition(":")[0]
                room = len(label) * _LABEL_ROOM
                is_end = place + room > 100.0
                start = place - room if is_end else place
                if start >= free:
                    free = start + room
                    gap = -4 if is_end else 4
                    style = f"{style} end" if is_end else style
                    yield tag(
                        "text",
                        label,
                        x=where,
                        dx=gap,
                        y=self.top - 8 if self._axis.is_time else self.top + 11,
                        class_=style,
                        aria_hidden="true",
                    )

    def summary(self, series: Sequence[Series], y: Callable[[float], str]) -> Iterable[Markup]:
        """Yield invisible columns with tooltips of the values."""
        every = max(1, len(self.xs) // _MOST_TOLD)
        for n in range(0, len(self.xs), every):
            values = [
                f"{one.name}: {y(v)}{_between(one, n, y)}" for one in series if (v := one.ys[n]) is not None
            ]
            left, right = self.x(self.xs[n]), self.x(self.xs[min(n + every, len(self.xs) - 1)])
            told = tag("title", "\n".join([f"at {self._axis.text(self.xs[n])}", *values]))
            size = {"width": f"{max(5.0, right - left) / 10:.2f}%", "height": self.inner}
            seconds = self.xs[n] if self._axis.is_time else None
            where = {"x": f"{left / 10:.2f}%", "y": self.top, "data_seconds": seconds}
            yield tag("rect", told, **where, class_="told", **size)


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
    """Return `_MOST_POINTS` points at even distances, including the first and the last, or all if fewer."""
    last, n = len(xs) - 1, min(len(xs), _MOST_POINTS)
    kept = [i * last // (n - 1) for i in range(n)] if n > 1 else range(n)

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
    if end <= first:  # one value: a step above it, or below it at the upper limit
        first, end = (first, first + step) if first + step <= within[1] else (first - step, first)
    return first, end, step
