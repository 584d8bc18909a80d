"""The page of tenants: the size and accuracy of each tenant's model, and its newest events."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from streamnb.charts import Bar, Figures, Markup, bars, number, percent, table, tag
from streamnb.charts.html_markup import visible
from streamnb.events import TenantStanding
from streamnb.reports import report_charts
from streamnb.reports.report_charts import card, missing, tile
from streamnb.serving.page_tables import (
    Asked,
    choice,
    filter_form,
    link,
    page_of,
    text_filter,
)
from streamnb.serving.recent_records import RecentRecords
from streamnb.serving.time_ranges import clock

PATH = "/page/tenants"
_NO_TENANTS = (
    'No tenants among the records read: with `model.kind = "tenants"` and `topics.tenants`, '
    "the learner publishes the state of each tenant's model."
)
_ORDERS: dict[str, tuple[str, Callable[[TenantStanding], tuple[float, str]]]] = {
    "": ("most events", lambda one: (-one.events, one.tenant)),
    "worst": ("least accurate", lambda one: (2.0 if one.accuracy is None else one.accuracy, one.tenant)),
    "newest": ("newest", lambda one: (-one.ts, one.tenant)),
}


def _name(one: TenantStanding) -> str:
    return visible(one.tenant) if one.tenant else "(events without a tenant)"


class TenantPages:
    """Tenants of one stream."""

    def __init__(self, watch: RecentRecords) -> None:
        self._watch = watch

    def filters(self, asked: Asked) -> Markup | None:
        """Return the form that filters tenants; None on the page of one tenant."""
        if "tenant" in asked:
            return None
        orders = {value: text for value, (text, _) in _ORDERS.items()}
        fields = text_filter("q", "Tenant", asked), choice("order", "Order", orders, asked)
        return filter_form(PATH, *fields, title="Filter tenants")

    def shown(self, asked: Asked) -> Iterator[Markup]:
        """Yield the list of tenants, or one tenant if the query names it. Needs the lock."""
        if not self._watch.tenants:
            yield missing(_NO_TENANTS)
        elif "tenant" in asked:
            yield tag("p", link("All tenants", PATH))
            one = self._watch.tenants.get(asked["tenant"])
            yield from (
                [missing("This tenant is not among the records read.")] if one is None else self._one(one)
            )
        else:
            yield self._list(asked)

    def _list(self, asked: Asked) -> Markup:
        text = asked.get("q", "").casefold()
        found = [one for one in self._watch.tenants.values() if text in one.tenant.casefold()]
        found.sort(key=_ORDERS.get(asked.get("order", ""), _ORDERS[""])[1])
        told = f"{len(found):,} of {len(self._watch.tenants):,} tenants."
        rows, links = page_of(found, PATH, asked, lambda one: one.tenant, told)
        header = ["tenant", "events", "tested", "accuracy", "most frequent class", "when, UTC"]
        shown = table(header, map(_row, rows)) if rows else missing("No tenant fits.")
        return tag("section", tag("h2", "Tenants"), shown, links, class_="card wide", data_hold=True)

    def _one(self, one: TenantStanding) -> Iterator[Markup]:
        yield tag("h2", _name(one))
        yield report_charts.tiles([
            tile("Accuracy", percent(one.accuracy), f"{number(one.tested)} tested", one.accuracy),
            tile("Events learned", number(one.events), "", one.events),
        ])  # fmt: skip
        rest = [("all others", one.rest)] if one.rest else []
        yield card(
            bars("Learned weight by class, in examples", [Bar(*row) for row in [*one.labels.items(), *rest]])
        )
        yield tag("p", link("Newest predictions of this tenant", "/page/events", {"tenant": one.tenant}))


def _row(one: TenantStanding) -> list[object]:
    most = next(iter(one.labels), "-")
    name = link(_name(one), PATH, {"tenant": one.tenant})
    return [name, one.events, one.tested, Figures(percent(one.accuracy)), most, clock(one.ts)]
