"""Current values: bars with credible intervals, signed evidence, and the confusion matrix."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from streamnb.charts.html_markup import Markup, figure, number, tag, visible
from streamnb.values.parameter_checks import cut

_ROW = 36  # pixels of a bar with its text
_LONGEST = 34  # characters of a name next to a value
_LEVEL = 80  # characters of all columns of a heat map with level names
_MANY = 12  # columns of a heat map, above which it is narrow
_SHADES = 5
_SPARK, _SPARK_STEP = 24, 8  # pixels


class Bar(NamedTuple):
    """One bar: name, value, optional bounds of its interval, a note for its tooltip, and if it is grey.

    `colour` is 1 to 15; 0 takes one colour for positive values, and another for negative ones.
    """

    name: str
    value: float
    lower: float | None = None
    upper: float | None = None
    note: str = ""
    is_grey: bool = False
    colour: int = 0


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


def spark(levels: Sequence[float], words: str) -> Markup:
    """Draw small columns for a cell of a table, with a line at the level 1; higher ones have another colour.

    Args:
        levels: the heights, at least 0; above 2 they are cut.
        words: the same in words.
    """
    step, line = _SPARK_STEP, _SPARK / 2
    drawn = [
        tag("rect", x=n * step, y=f"{_SPARK - high:.1f}", width=step - 2, height=f"{high:.1f}", class_=style)
        for n, level in enumerate(levels)
        for high, style in [(max(1.0, line * min(2.0, level)), f"area c{3 if level >= 1 else 8}")]
    ]
    width = step * len(levels)
    drawn.append(tag("line", x1=0, x2=width, y1=line, y2=line, class_="diagonal"))
    return tag("svg", *drawn, width=width, height=_SPARK, role="img", aria_label=words, class_="snb")


def _bar(one: Bar, top: float, middle: float, scale: float, text: Callable[[float], str]) -> Iterable[Markup]:
    end = min(100.0, max(0.0, middle + one.value * scale))
    left, size = min(middle, end), abs(end - middle)
    told = tag("title", f"{one.name}: {text(one.value)}{_between(one, text)} {one.note}".rstrip())
    yield tag("text", cut(one.name, _LONGEST), told, x=0, y=top + 14, class_="name")
    yield tag("text", text(one.value), x="100%", y=top + 14, class_="end name")
    yield tag("rect", x=0, y=top + 20, width="100%", height=8, rx=4, class_="track")
    plain = 3 if one.value < 0 else 8 if one.is_grey else 1
    style = f"area c{one.colour or plain}"
    yield tag("rect", told, x=f"{left:.2f}%", y=top + 20, width=f"{size:.2f}%", height=8, rx=4, class_=style)
    if one.lower is not None and one.upper is not None:
        ends = [f"{min(100.0, middle + v * scale):.2f}%" for v in (one.lower, one.upper)]
        yield tag("line", told, x1=ends[0], x2=ends[1], y1=top + 24, y2=top + 24, class_="whisker")


def _between(one: Bar, text: Callable[[float], str]) -> str:
    return "" if one.lower is None or one.upper is None else f" ({text(one.lower)} to {text(one.upper)})"


def heat_map(
    title: str,
    rows: Sequence[str],
    columns: Sequence[str],
    values: Sequence[Sequence[float]],
    across: str = "predicted",
    link: Callable[[str, str], str] | None = None,
) -> Markup:
    """Return a table with truths by row and predictions, or what is named `across`, by column.

    `link` returns the address to which the number of a row's and a column's name leads.

    Zeros are blank.

    Cells are shaded by the root of their share of the row. Cells whose row and column have the same name have
    another colour. Names of many or long columns are written upwards.
    """
    is_upright = sum(len(name) + 4 for name in columns) > _LEVEL
    head = [tag("th", f"truth ↓ {across} →", scope="col")]
    for name in columns:
        shown = tag("span", cut(visible(name), _LONGEST), title=name if len(name) > _LONGEST else None)
        head.append(tag("th", shown, scope="col", class_="up" if is_upright else None))
    body = [_heat_row(name, columns, cells, across, link) for name, cells in zip(rows, values, strict=True)]
    style = "snb-table snb-heat many" if len(columns) > _MANY else "snb-table snb-heat"
    made = tag(
        "table",
        tag("caption", title),
        tag("thead", tag("tr", *head)),
        tag("tbody", *body),
        class_=style,
    )
    return tag("div", made, class_="snb snb-wide", tabindex=0, role="region", aria_label=title)


def _heat_row(
    name: str,
    columns: Sequence[str],
    values: Sequence[float],
    across: str,
    link: Callable[[str, str], str] | None,
) -> Markup:
    shown = cut(visible(name), _LONGEST)
    cells = [tag("th", shown, scope="row", title=name if len(name) > _LONGEST else None)]
    whole = sum(values) or 1.0
    for other, value in zip(columns, values, strict=True):
        shade = min(_SHADES, 1 + int(_SHADES * (value / whole) ** 0.5))
        style = f"{'right' if name == other else 'wrong'} h{shade}" if value else None
        said = f"truth {cut(name, _LONGEST)}, {across} {cut(other, _LONGEST)}: {number(value)}"
        text: object = number(value) if value else ""
        if value and link is not None:
            text = tag("a", text, href=link(name, other))
        cells.append(tag("td", text, class_=style, title=said if value else None))
    return tag("tr", *cells)
