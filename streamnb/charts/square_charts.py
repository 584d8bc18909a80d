"""Shares against shares: curves such as ROC, and the calibration of probabilities."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple, Protocol

from streamnb.charts.html_markup import Markup, colour_key, figure, number, percent, tag

_HEIGHT = 260  # pixels of the square
_ABOVE, _BELOW = 22, 36  # pixels for the names of the axes
_COLOURS = 8


class ShareCurve(NamedTuple):
    """One curve.

    Attributes:
        name: its name in the key.
        xs: the horizontal shares, 0 to 1.
        ys: the vertical shares, of the same length.
        note: a figure in the key, such as the area under the curve.
    """

    name: str
    xs: Sequence[float]
    ys: Sequence[float]
    note: str = ""


class _Bin(Protocol):
    """A bin of a calibration curve, as `streamnb.events.ReliabilityBin`."""

    @property
    def confidence(self) -> float: ...
    @property
    def accuracy(self) -> float: ...
    @property
    def events(self) -> int: ...


def curves(
    title: str,
    drawn: Sequence[ShareCurve],
    *,
    x: str,
    y: str,
    guess: float | None = None,
    diagonal: bool = False,
) -> Markup:
    """Draw curves of shares.

    Args:
        title: the title.
        drawn: the curves, of at most eight distinct colours.
        x: the name of the horizontal axis.
        y: the name of the vertical axis.
        guess: a share at which a horizontal line is drawn.
        diagonal: whether a diagonal is drawn.
    """
    if not any(len(one.xs) for one in drawn):
        return figure(title, "no data", 0)
    plot = []
    for ends in ([(0, 1000, 1000, 0)] if diagonal else []) + _level(guess):
        x1, y1, x2, y2 = ends
        plot.append(_diagonal(x1, y1, x2, y2))
    for n, one in enumerate(drawn):
        points = " ".join(
            f"{1000 * a:.1f},{1000 - 1000 * b:.1f}" for a, b in zip(one.xs, one.ys, strict=True)
        )
        style = f"line c{n % _COLOURS + 1}"
        plot.append(tag("polyline", points=points, class_=style, vector_effect="non-scaling-stroke"))
    story = "; ".join(f"{one.name}: {_story(one, x, y)}" for one in drawn if len(one.xs))
    names = [f"{one.name}: {one.note}" if one.note else one.name for one in drawn]
    return figure(
        title,
        story,
        _ABOVE + _HEIGHT + _BELOW,
        *_frame(plot, x, y),
        key=colour_key(names, [n % _COLOURS + 1 for n in range(len(names))]),
        is_scaled=True,
    )


def calibration(title: str, bins: Sequence[_Bin]) -> Markup:
    """Plot the accuracy of predictions against their confidence; calibrated bins are on the diagonal."""
    if not bins:
        return figure(title, "no data", 0)
    whole = sum(one.events for one in bins) or 1
    points = " ".join(f"{1000 * one.confidence:.1f},{1000 - 1000 * one.accuracy:.1f}" for one in bins)
    plot = [
        _diagonal(0, 1000, 1000, 0),
        tag("polyline", points=points, class_="line c1", vector_effect="non-scaling-stroke"),
    ]
    drawn = list(_frame(plot, "confidence of the prediction", "share that was right"))
    for one in bins:
        said = f"{percent(one.confidence)} sure, {percent(one.accuracy)} right, {number(one.events)} events"
        centre = {"cx": f"{100 * one.confidence:.2f}%", "cy": _ABOVE + (1 - one.accuracy) * _HEIGHT}
        radius = 3 + 7 * (one.events / whole) ** 0.5
        drawn.append(tag("circle", tag("title", said), r=round(radius, 1), class_="point c1", **centre))
    story = "; ".join(
        f"{percent(b.confidence)} sure: {percent(b.accuracy)} right of {b.events}" for b in bins
    )
    return figure(title, story, _ABOVE + _HEIGHT + _BELOW, *drawn, is_scaled=True)


def _frame(plot: Iterable[Markup], x: str, y: str) -> Iterable[Markup]:
    """Yield grid, drawing, and the texts of both axes."""
    size = {"x": 0, "y": _ABOVE, "width": "100%", "height": _HEIGHT}
    yield tag("text", f"↑ {y}", x=0, y=12)
    for share in (0.0, 0.25, 0.5, 0.75, 1.0):
        at = _ABOVE + (1 - share) * _HEIGHT
        yield tag("line", x1=0, x2="100%", y1=at, y2=at, class_="grid")
    yield tag("svg", *plot, viewBox="0 0 1000 1000", preserveAspectRatio="none", **size)
    for share in (0.0, 0.5, 1.0):
        at = _ABOVE + (1 - share) * _HEIGHT
        yield tag("text", percent(share), x=-6, y=at + 4, class_="end")
        style = {0.0: None, 0.5: "middle", 1.0: "end"}[share]
        yield tag("text", percent(share), x=f"{100 * share:g}%", y=_ABOVE + _HEIGHT + 15, class_=style)
    yield tag("text", f"{x} →", x="100%", y=_ABOVE + _HEIGHT + 31, class_="end")


def _diagonal(x1: float, y1: float, x2: float, y2: float) -> Markup:
    style = "grid diagonal"
    return tag("line", x1=x1, y1=y1, x2=x2, y2=y2, class_=style, vector_effect="non-scaling-stroke")


def _level(guess: float | None) -> list[tuple[float, float, float, float]]:
    return [] if guess is None else [(0, 1000 - 1000 * guess, 1000, 1000 - 1000 * guess)]


def _story(one: ShareCurve, x: str, y: str) -> str:
    last = len(one.xs) - 1
    places = sorted({last * i // 4 for i in range(5)})
    parts = [f"{y} {percent(one.ys[i])} at {x} {percent(one.xs[i])}" for i in places]
    return f"{one.note} {', '.join(parts)}".strip()
