"""Filters and pages of the tables of the live page."""

from __future__ import annotations

import html
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar
from urllib.parse import urlencode

from streamnb.charts import Markup, tag
from streamnb.charts.html_markup import visible

ROWS = 25
"""Rows of a page of a table."""
Asked = Mapping[str, str]
"""The query of a page's address."""
T = TypeVar("T")


def exact(text: str) -> Markup:
    """Return text for a field, escaped only for HTML: it is sent back as it is."""
    return Markup(html.escape(text))


def text_filter(name: str, label: str, asked: Asked, *, kind: str = "search") -> Markup:
    """Return a field of a filter with its label."""
    field = tag("input", id=name, name=name, type=kind, value=exact(asked.get(name, "")), autocomplete="off")
    return tag("span", tag("label", label, for_=name), field, class_="filter")


def choice(name: str, label: str, options: Mapping[str, str], asked: Asked) -> Markup:
    """Return a list of choices with its label; options are value -> text."""
    chosen = asked.get(name, "")
    made = [
        tag("option", visible(text), value=exact(value), selected=value == chosen)
        for value, text in options.items()
    ]
    return tag(
        "span", tag("label", label, for_=name), tag("select", *made, id=name, name=name), class_="filter"
    )


def kept_field(name: str, asked: Asked) -> Markup | None:
    """Return a hidden field with a value of the present query; None without one."""
    value = asked.get(name)
    return tag("input", type="hidden", name=name, value=exact(value)) if value else None


def filter_form(path: str, *fields: Markup | None, title: str) -> Markup:
    """Return a form of filters, which applies at each change if scripts run."""
    button = tag("button", "Show")
    return tag(
        "form", *fields, button, action=path, role="search", aria_label=title, class_="ask", data_search=True
    )


def page_links(
    path: str, asked: Asked, after: str | None, note: str = "", older: str = "Older"
) -> Markup | None:
    """Return links to the first and the next page of a table; None if it has only one.

    Args:
        path: the table's path.
        asked: the present query.
        after: cursor of the next page; None if there is none.
        note: note on the limits of the table.
        older: text of the link to the next page.
    """
    if after is None and "after" not in asked:
        return tag("p", note, class_="soft") if note else None
    kept = {name: value for name, value in asked.items() if name != "after" and value}
    first = link("Newest", path, kept) if "after" in asked else None
    following = link(older, path, {**kept, "after": after}) if after is not None else None
    parts = [tag("span", note, class_="soft")] if note else []
    return tag("nav", first, " ", following, " ", *parts, aria_label="Pages", class_="pages")


def link(text: object, path: str, query: Mapping[str, str] | None = None, **attributes: object) -> Markup:
    """Return a link with a query."""
    given = f"?{urlencode(query)}" if query else ""
    return tag("a", text, href=exact(path + given), **attributes)


def event_link(id_: str) -> Markup:
    """Return a link to the details of an event."""
    return link(visible(id_), "/page/events", {"id": id_}, class_="id")


def page_of(
    found: Sequence[T], path: str, asked: Asked, key: Callable[[T], str], note: str
) -> tuple[Sequence[T], Markup | None]:
    """Return the rows of the page that a query asks for, and links to other pages.

    If the row before the page is no longer there, the first page is returned, with a note.

    Args:
        found: all rows, in order.
        path: the table's path.
        asked: the query; `after` is the key of the last row of the page before.
        key: returns the key of a row.
        note: note on the limits of the table.
    """
    after, start = asked.get("after"), 0
    if after is not None:
        start = next((n for n, one in enumerate(found, 1) if key(one) == after), 0)
        note = note if start else f"The page is no longer kept; the first is shown. {note}"
    rows = found[start : start + ROWS]
    has_more = len(found) > start + ROWS
    return rows, page_links(path, asked, key(rows[-1]) if has_more else None, note)
