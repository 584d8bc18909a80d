"""Current values: bars with credible intervals, signed evidence, confusion matrix, calibration."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple, Protocol

from streamnb.charts.html_markup import Markup, figure, number, percent, tag, visible
from streamnb.values.parameter_checks import cut

_ROW = 36  # pixels of a bar with its text
_CELL = 30
_LONGEST = 34  # characters of a name next to a value
_READABLE = 6  # characters of a column of a heat map, below which it has the number of its row
_EACH = 15  # columns of a heat map, above which every second one has its number
_NUMBERED = 6  # columns of a heat map whose cells show their numbers


class Bar(NamedTuple):
    """One bar: name, value, optional bounds of its interval, and a note for its tooltip."""

    name: str
    value: float
    lower: float | None = None
    upper: float | None = None
    note: str = ""


class _Bin(Protocol):
    """A bin of a calibration curve, as `streamnb.events.ReliabilityBin`."""

    @property
    def confidence(self) -> float: ...
    @property
    def accuracy(self) -> float: ...
    @property
    def events(self) -> int: ...


def bars(
    title: str, rows: Sequence[Bar], *, text: Callable[[float], str] = number, most: float | None = None
) -> Markup:
    """Draw bars below each other, with lengths by value; with negative values, all begin in the middle.

    Args:
        title: the title.
        rows: the bars.
        text: formats a value.
        most: the value of the longest bar (default: the maximum).
    """
    most = most or max((abs(v) for one in rows for v in (one.value, one.upper or 0.0)), default=1.0) or 1.0
    middle, width = (50.0, 50.0) if any(one.value < 0 for one in rows) else (0.0, 100.0)
    rows = [one._replace(name=visible(one.name)) for one in rows]
    drawn = [part for n, one in enumerate(rows) for part in _bar(one, n * _ROW, middle, width / most, text)]
    told = ", ".join(f"{one.name}: {text(one.value)}{_between(one, text)}" for one in rows) or "no data"
    return figure(title, told, _ROW * len(rows), *drawn)


def _bar(one: Bar, top: float, middle: float, scale: float, text: Callable[[float], str]) -> Iterable[Markup]:
    end = min(100.0, max(0.0, middle + one.value * scale))
    left, size = min(middle, end), abs(end - middle)
    told = tag("title", f"{one.name}: {text(one.value)}{_between(one, text)} {one.note}".rstrip())
    yield tag("text", cut(one.name, _LONGEST), told, x=0, y=top + 14, class_="name")
    yield tag("text", text(one.value), x="100%", y=top + 14, class_="end name")
    yield tag("rect", x=0, y=top + 20, width="100%", height=8, rx=4, class_="track")
    style = "area c3" if one.value < 0 else "area c1"
    yield tag("rect", told, x=f"{left:.2f}%", y=top + 20, width=f"{size:.2f}%", height=8, rx=4, class_=style)
    if one.lower is not None and one.upper is not None:
        ends = [f"{min(100.0, middle + v * scale):.2f}%" for v in (one.lower, one.upper)]
        yield tag("line", told, x1=ends[0], x2=ends[1], y1=top + 24, y2=top + 24, class_="whisker")


def _between(one: Bar, text: Callable[[float], str]) -> str:
    return "" if one.lower is None or one.upper is None else f" ({text(one.lower)} to {text(one.upper)})"


def heat_map(
    title: str, rows: Sequence[str], columns: Sequence[str], values: Sequence[Sequence[float]]
) -> Markup:
    """Draw truths by row and predictions by column; cells are shaded by their share of the row.

    Cells whose row and column have the same name have another colour. Columns too narrow for their names have
    the numbers of their rows.
    """
    rows, columns = [list(map(visible, names)) for names in (rows, columns)]
    wide = 76.0 / max(1, len(columns))
    drawn = [tag("text", "truth ↓  predicted →", x=0, y=14)]
    fits = max(3, int(wide / 2))
    is_numbered = fits < _READABLE and any(len(name) > fits for name in columns)
    for n, name in enumerate(columns):
        where = f"{24 + (n + 0.5) * wide:.2f}%"
        has_number = is_numbered and n < len(rows)
        if has_number and n % 2 and len(columns) > _EACH:
            continue  # two numbers of adjacent columns overlap
        shown = f"{n + 1}" if has_number else cut(name, fits)
        drawn.append(tag("text", shown, tag("title", name), x=where, y=34, class_="middle name"))
    for m, name in enumerate(rows):
        top, whole = 42 + m * _CELL, sum(values[m]) or 1.0
        shown = f"{m + 1} {cut(name, 12)}" if is_numbered else cut(name, 12)
        drawn.append(tag("text", shown, tag("title", name), x=0, y=top + 19, class_="name"))
        for n, other in enumerate(columns):
            told = f"truth {name}, predicted {other}: {number(values[m][n])}"
            style = f"area c{1 if name == other else 3}"
            shown = number(values[m][n]) if len(columns) <= _NUMBERED else ""
            drawn += _cell(values[m][n] / whole, (24 + n * wide, top, wide), told, style, shown)
    said = "; ".join(
        f"{name}: " + ", ".join(f"{number(v)} {columns[n]}" for n, v in enumerate(values[m]) if v)
        for m, name in enumerate(rows)
    )
    return figure(title, f"Rows are truth, columns predicted. {said}", 42 + _CELL * len(rows), *drawn)


def _cell(
    share: float, where: tuple[float, float, float], told: str, style: str, shown: str
) -> Iterable[Markup]:
    left, top, wide = where
    place = {"x": f"{left + 0.2:.2f}%", "y": top, "width": f"{wide - 0.4:.2f}%", "height": _CELL - 3, "rx": 4}
    said, strength = tag("title", told), round(0.9 * share + (0.08 if share else 0.0), 3)
    yield tag("rect", class_="track", **place)
    yield tag("rect", said, class_=style, fill_opacity=strength, **place)
    style = "middle cell strong" if share > 0.55 else "middle cell"
    yield tag("text", shown, said, x=f"{left + wide / 2:.2f}%", y=top + 18, class_=style)


def calibration(title: str, bins: Sequence[_Bin]) -> Markup:
    """Plot the accuracy of predictions against their confidence; calibrated bins are on the diagonal."""
    inner, whole = 212, sum(one.events for one in bins) or 1
    plot = [
        tag("line", x1=0, y1=1000, x2=1000, y2=0, class_="grid diagonal", vector_effect="non-scaling-stroke")
    ]
    points = " ".join(f"{1000 * one.confidence:.1f},{1000 - 1000 * one.accuracy:.1f}" for one in bins)
    plot.append(tag("polyline", points=points, class_="line c1", vector_effect="non-scaling-stroke"))
    size = {"x": 0, "y": 8, "width": "100%", "height": inner}
    drawn = [tag("svg", *plot, viewBox="0 0 1000 1000", preserveAspectRatio="none", **size)]
    for share in (0.0, 0.5, 1.0):
        at = 8 + (1 - share) * inner
        drawn.append(tag("line", x1=0, x2="100%", y1=at, y2=at, class_="grid"))
        drawn.append(tag("text", f"{share:.0%} right", x=2, y=at + (12 if share == 1 else -4)))
        style = {0.0: None, 0.5: "middle", 1.0: "end"}[share]
        drawn.append(tag("text", f"{share:.0%} sure", x=f"{100 * share}%", y=inner + 24, class_=style))
    for one in bins:
        told = f"{percent(one.confidence)} sure, {percent(one.accuracy)} right, {number(one.events)} events"
        centre = {"cx": f"{100 * one.confidence:.2f}%", "cy": 8 + (1 - one.accuracy) * inner}
        radius = 3 + 7 * (one.events / whole) ** 0.5
        drawn.append(tag("circle", tag("title", told), r=round(radius, 1), class_="point c1", **centre))
    said = "; ".join(f"{percent(b.confidence)} sure: {percent(b.accuracy)} right of {b.events}" for b in bins)
    return figure(title, said or "no data", inner + 28, *drawn)
