"""The table of predictions: filters, pages, and a button for each of the most probable classes."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Iterator

import msgspec

from streamnb.charts import Markup, joined, percent, tag
from streamnb.charts.html_markup import visible
from streamnb.events import Prediction
from streamnb.reports.report_charts import missing
from streamnb.serving.page_tables import (
    ROWS,
    Asked,
    choice,
    event_link,
    filter_form,
    page_links,
    text_filter,
)
from streamnb.serving.prediction_filter import PredictionFilter
from streamnb.serving.recent_records import RecentRecords
from streamnb.serving.review_view import LabelForms
from streamnb.serving.time_ranges import clock

PATH = "/page/events"
_CHOICES = 5
_MOST_NAMED = 100  # classes to choose from
_HEADS = ("event", "when, UTC", "prediction", "label", "set the label")
_CONFIDENCES = {"": "any", "0.5": "at most 50 %", "0.8": "at most 80 %", "0.95": "at most 95 %"}


def decided(one: Prediction, *, with_cost: bool = False) -> Markup | None:
    """Return the decision of a prediction; None if decisions are not configured."""
    if one.decision is msgspec.UNSET:
        return None
    what: list[object] = ["nothing is decided" if one.decision is None else "decided"]
    if one.decision not in {None, one.label}:
        what += [": ", tag("bdi", visible(one.decision))]
    what += [" (novel)"] if one.rejected == "novel" else []
    if with_cost and one.expected_cost is not None:
        what.append(f", at an expected cost of {one.expected_cost:.4g}")
    return joined(what)


class PredictionTable:
    """The newest predictions of one stream.

    Args:
        watch: the newest predictions and labels.
        forms: makes the tags and forms of labels.
    """

    def __init__(self, watch: RecentRecords, forms: LabelForms) -> None:
        self._watch, self._forms = watch, forms

    def filters(self, asked: Asked) -> Markup:
        """Return the form of the filters. Takes the lock."""
        with self._watch.lock:
            report = self._watch.report
            sources = sorted({one.source for one in self._watch.verdicts})
        known = report.labels[:_MOST_NAMED] if report is not None else ()
        classes = {"": "any", **{name: name for name in known}}
        decisions = {"": "any", "none": "nothing decided", **{f"={name}": name for name in known}}
        for name, options in (("class", classes), ("decision", decisions)):
            if asked.get(name, "") not in options:
                options[asked[name]] = asked[name].removeprefix("=")
        wrong = tag("input", id="wrong", name="wrong", type="checkbox", value="1", checked="wrong" in asked)
        fields = [
            text_filter("q", "Search ids", asked),
            text_filter("text", "Text", asked),
            choice("class", "Class", classes, asked),
            choice("sure", "Confidence", _CONFIDENCES, asked),
            choice("decision", "Decision", decisions, asked),
            choice("source", "Label source", {"": "any", **{name: name for name in sources}}, asked),
            tag("span", wrong, tag("label", "only wrong ones", for_="wrong"), class_="check"),
        ]
        kept = {"tenant": "Tenant", "truth": "True class", "predicted": "Predicted as"}
        fields += [text_filter(name, told, asked) for name, told in kept.items() if name in asked]
        return filter_form(PATH, *fields, title="Filter predictions")

    def shown(self, asked: Asked) -> Iterator[Markup]:
        """Yield the rows that the filters admit. Takes the lock."""
        text, tenant = asked.get("text", ""), asked.get("tenant")
        ids: Collection[str] | None = None
        if text or tenant is not None:
            ids = self._watch.events.matching(text, tenant)
            if ids is None:
                yield missing("The log does not answer: events cannot be searched now.")
                return
        wanted = PredictionFilter(
            asked.get("q", ""),
            asked.get("class") or None,
            _share(asked.get("sure", "")),
            asked.get("decision") or None,
            asked.get("source") or None,
            ids,
            (asked["truth"], asked.get("predicted") or None) if "truth" in asked else None,
            is_wrong="wrong" in asked,
        )
        with self._watch.lock:
            yield from self._rows(wanted, asked)

    def _rows(self, wanted: PredictionFilter, asked: Asked) -> Iterator[Markup]:
        after = asked.get("after", "")
        before = int(after) if after.isdecimal() and len(after) < 16 else None
        page = self._watch.prediction_page(wanted, before, ROWS)
        n = self._watch.n_seen
        is_cut = page.after is not None and len(page.rows) < ROWS
        cursor = None if page.after is None else str(page.after)
        links = page_links(PATH, asked, cursor, older="Search further" if is_cut else "Older")
        if not page.rows:
            if is_cut:
                yield missing(f"No such prediction among the newest {page.n_searched:,} of {n:,}.")
            else:
                yield missing("No such prediction among those read." if n else "No predictions yet.")
            if links is not None:
                yield links
            return
        told = f"The newest of {n:,}; the list stands still while you point at it or are in it."
        if is_cut:
            told += f" The newest {page.n_searched:,} were searched."
        if wanted.ids is not None:
            told += " Texts and tenants are searched in the newest 5,000 events."
        yield tag("p", told, class_="soft")
        yield tag("div", *(tag("span", name) for name in _HEADS), class_="heads")
        yield tag(
            "ul", *map(self._row, page.rows, self._forms.truths(page.rows)), class_="rows", data_hold=True
        )
        if links is not None:
            yield links

    def _row(self, one: Prediction, told: tuple[Markup, str | None]) -> Markup:
        sure = [tag("bdi", visible(one.label or "")), " ", tag("bdi", percent(one.probability))]
        guess = joined(sure) if one.label else "no class yet"
        what = decided(one)
        shown = joined([guess, " ", tag("span", what, class_="soft")]) if what else guess
        truth, said = told
        when = tag("span", clock(one.ts), class_="when soft")
        cells = event_link(one.id), when, tag("span", shown, class_="guess"), truth, self.buttons(one, said)
        return tag("li", *cells, data_event=True)

    def buttons(self, one: Prediction, said: str | None) -> Markup | None:
        """Return a button for each of the most probable classes; the current label's is pressed."""
        labels = [label for label, _ in Counter(one.probabilities).most_common(_CHOICES)]
        made = [
            tag(
                "button",
                visible(v),
                name="label_json",
                value=json.dumps(v),
                aria_label=f"{one.id} is {visible(v)}",
                aria_pressed=v == said and "true",
            )
            for v in labels
        ]
        return self._forms.form(one, *made) if made else None


def _share(text: str) -> float | None:
    return float(text) if text in _CONFIDENCES and text else None
