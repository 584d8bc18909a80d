"""Escaped HTML, the frame of each picture, and number formats."""

from __future__ import annotations

import html
import math
from collections.abc import Iterable, Sequence
from importlib.resources import files

_EMPTY = {"br", "col", "hr", "img", "input", "link", "meta"}


class Markup(str):
    """HTML text; `tag` escapes any other string."""

    __slots__ = ()


class Figures(str):
    """A number as text, which a table aligns to the right."""

    __slots__ = ()


def joined(parts: Iterable[object]) -> Markup:
    """Concatenate parts; None is skipped."""
    return Markup("".join(map(_escaped, parts)))


def tag(name: str, /, *children: object, **attributes: object) -> Markup:
    """Return an element. `class_` becomes class, `_` a dash; True has no value, None is omitted."""
    given = "".join(
        f" {_name(key)}" if value is True else f' {_name(key)}="{_escaped(value)}"'
        for key, value in attributes.items()
        if value is not None and value is not False
    )
    return Markup(f"<{name}{given}>" if name in _EMPTY else f"<{name}{given}>{joined(children)}</{name}>")


def _name(key: str) -> str:
    return key.rstrip("_").replace("_", "-")


def _escaped(value: object) -> str:
    """Escape a value, with visible control characters, so that distinct values look different."""
    if isinstance(value, Markup):
        return value
    if value is None:
        return ""
    told = f"{value:.6g}" if isinstance(value, float) else str(value)
    if not told.isprintable():
        told = "".join(c if c.isprintable() or c == "\n" else repr(c)[1:-1] for c in told)
    return html.escape(told)


def visible(text: str) -> str:
    """Return a name with its leading and trailing blanks as escapes: `spam` and `spam ` differ."""
    inner = text.strip(" ")
    if len(inner) == len(text):
        return text
    start = text.index(inner) if inner else len(text)
    return "\\x20" * start + inner + "\\x20" * (len(text) - start - len(inner))


def figure(
    title: str,
    said: str,
    height: int,
    *parts: object,
    key: object = None,
    note: object = None,
    is_scaled: bool = False,
) -> Markup:
    """Return a picture with its description for screen readers, a note next to its title, and a key below.

    `is_scaled` leaves room for the values of a vertical axis, to the left of the picture.
    """
    told = tag("title", title), tag("desc", said)
    style = "snb-plot scaled" if is_scaled else "snb-plot"
    drawn = tag("svg", *told, *parts, role="img", width="100%", height=height, class_=style)
    if not height:
        drawn = tag("p", said, class_="none")
    above = tag("figcaption", tag("span", title), tag("span", note) if note else None)
    return tag("figure", above, drawn, key, class_="snb")


def colour_key(names: Sequence[str], colours: Sequence[int]) -> Markup:
    """Return the key of a picture: each name with a square in its colour, 1 to 15."""
    size, items = {"width": 10, "height": 10}, []
    for name, colour in zip(names, colours, strict=True):
        square = tag("rect", **size, rx=3, class_=f"area c{colour}")
        items.append(tag("li", tag("svg", square, **size, aria_hidden="true"), name))
    return tag("ul", *items, class_="snb-key")


def table(header: Sequence[object], rows: Iterable[Sequence[object]], caption: object = None) -> Markup:
    """Return a table with numbers right-aligned."""
    shown = [list(row) for row in rows]
    first = shown[0] if shown else [None] * len(header)
    head = tag(
        "tr",
        *(tag("th", one, scope="col", class_=_side(cell)) for one, cell in zip(header, first, strict=True)),
    )
    body = (tag("tr", *map(_cell, row)) for row in shown)
    named = tag("caption", caption) if caption else None
    made = tag("table", named, tag("thead", head), tag("tbody", *body), class_="snb-table")
    return tag("div", made, class_="snb-wide", tabindex=0, role="region", aria_label=caption or header[0])


def _cell(value: object) -> Markup:
    if type(value) is str:
        value = visible(value)
    return tag("td", number(value) if isinstance(value, int | float) else value, class_=_side(value))


def _side(value: object) -> str | None:
    return "n" if isinstance(value, int | float | Figures) else None


def whole(*pictures: Markup) -> Markup:
    """Return pictures with their stylesheet, for a notebook or a page of one file."""
    return tag("div", tag("style", Markup(stylesheet())), *pictures)


def stylesheet() -> str:
    """Return the CSS of all pictures. A page may set its variables, such as --snb-1."""
    return files("streamnb.charts").joinpath("charts.css").read_text(encoding="utf-8")


def number(value: float | None) -> str:
    """Format a number in few digits: 1,234 and 0.123; a dash for None."""
    if value is None or not math.isfinite(value):
        return "-"
    return f"{value:,.0f}" if value == int(value) or abs(value) >= 1000 else f"{value:.3g}"


def count(value: float) -> str:
    """Format a count in three digits: 950, 12.3k, 4.5M."""
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{value / size:.3g}{unit}"
    return f"{value:.3g}"


def percent(value: float | None) -> str:
    """Format a share: 97.1 %; only exact bounds read as 0 % or 100 %."""
    if value is None or not math.isfinite(value):
        return "-"
    if 0.9995 <= value < 1 or 0 < value < 0.0005:
        return ">99.9 %" if value > 0.5 else "<0.1 %"
    return f"{100 * value:.1f}".removesuffix(".0") + " %"
