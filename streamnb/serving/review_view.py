"""The page to review predictions: a queue of messages with their texts, labelled by keys."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol
from urllib.parse import quote, urlencode

import msgspec

from streamnb.charts import Markup, joined, percent, tag
from streamnb.charts.html_markup import visible
from streamnb.events import Attribution, Event, Prediction
from streamnb.features.character_table import normalized
from streamnb.features.plain_words import token_spans
from streamnb.queries.answers import PRIOR, value_name
from streamnb.reports.report_charts import missing
from streamnb.serving.recent_records import RecentRecords
from streamnb.serving.review_queue import QUEUES

_CARDS, _CHOICES = 20, 9
_MOST_SHOWN = 20_000  # characters of a text
_UNFOLDS = 240  # a longer text is cut to two lines until it is unfolded
_MOST_VALUES = 12
_KEYS = (
    "1 to 9 label, / another class, u undo, n and p move, o unfold, h hide texts, r next queue",
    "Nothing moves by itself: new predictions wait behind a link.",
)
_NO_TEXT = "The message was not found in the log: retention may have removed it, or it is too old."


class LabelForms(Protocol):
    """Tags and forms of labels, as on the other views."""

    def truths(self, found: Sequence[Prediction]) -> list[tuple[Markup, str | None]]:
        """Return the label in force of each as a tag, and the label that arrived separately."""

    def form(self, one: Prediction, *children: object) -> Markup | None:
        """Return a form that labels an event; None if labels cannot be set."""


class ReviewView:
    """The review of one model.

    Args:
        watch: the newest predictions and labels.
        forms: makes the tags and forms of labels.
        problem: why labels cannot be set; empty if they can.
    """

    def __init__(self, watch: RecentRecords, forms: LabelForms, problem: str) -> None:
        self._watch, self._forms, self._problem = watch, forms, problem

    def queue(self, asked: Mapping[str, str]) -> Markup:
        """Return the queues as links, and the cards of the chosen one. Takes the lock."""
        chosen = asked.get("queue", "")
        chosen = chosen if chosen in QUEUES else next(iter(QUEUES))
        with self._watch.lock:
            found = self._watch.review_queue.best(chosen, _CARDS)
            seen = self._watch.n_predictions
        texts = self._watch.events.find([one.id for one in found])
        with self._watch.lock:
            truths = self._forms.truths(found)
            cards = [
                self._card(n, one, texts.get(one.id), *truth)
                for n, (one, truth) in enumerate(zip(found, truths, strict=True))
            ]
        links = [
            tag("a", title, href=f"/page/review?queue={name}", aria_current=name == chosen and "true")
            for name, title in QUEUES.items()
        ]
        told = QUEUES[chosen] + ": none among the newest predictions."
        keys = tag("details", tag("summary", "Keys"), *(tag("p", line) for line in _KEYS), class_="soft")
        options = self._classes(found)
        more = tag("a", "More messages", href=f"/page/review?queue={chosen}", class_="more")
        body = tag("div", *cards, more, class_="review", data_review=seen) if cards else missing(told)
        problem = missing(self._problem) if self._problem else None
        navigation = tag("nav", *links, aria_label="Queues", class_="queues")
        return joined([navigation, problem, keys, options, body])

    def news(self, asked: Mapping[str, str], since: int) -> Iterator[Markup]:
        """Yield a link to the predictions since the list was made. Needs the lock."""
        n = self._watch.n_predictions - since
        if n > 0:
            again = urlencode({"queue": asked.get("queue", "")})
            yield tag("p", tag("a", f"{n:,} new", href=f"/page/review?{again}"), class_="news")
        elif self._watch.n_predictions:
            yield tag("p", "No new predictions since this list was made.", class_="news soft")
        else:
            yield missing("No predictions yet.")

    def _classes(self, found: Sequence[Prediction]) -> Markup:
        """Return the known classes, among which the browser completes a typed one."""
        report = self._watch.report
        names = dict.fromkeys(report.labels if report is not None else ())
        names |= dict.fromkeys(label for one in found for label in one.probabilities)
        return tag("datalist", *(tag("option", value=visible(name)) for name in names), id="classes")

    def _card(self, n: int, one: Prediction, event: Event | None, truth: Markup, said: str | None) -> Markup:
        link = tag("a", one.id, href=f"/page/events?id={quote(one.id, safe='')}", class_="id")
        return tag(
            "article",
            tag("div", tag("h2", link), truth, class_="head"),
            self.message(event, one.evidence or ()),
            tag("p", _why(one), class_="soft"),
            beside_words(one, event),
            self._choices(one, said),
            data_event=True,
            tabindex="0" if n == 0 else "-1",
            aria_label=f"event {one.id}",
        )

    def message(self, event: Event | None, evidence: Sequence[Attribution]) -> Markup:
        """Return the texts of an event with their evidence tinted, and its other values as a table."""
        if event is None:
            return tag("p", _NO_TEXT, class_="missing")
        texts = _texts(event)
        rest = [(name, visible(_plain(value))) for name, value in event.x.items() if name not in texts]
        shown: list[Markup] = []
        for name, text in sorted(texts.items(), key=lambda item: len(item[1]) > _UNFOLDS):
            if len(texts) > 1:
                shown.append(tag("p", name, class_="soft"))
            weights = {str(each.value): each.log_odds for each in evidence if each.attribute == name}
            body = tag("p", tinted(text[:_MOST_SHOWN], weights), class_="text")
            if len(text) > _UNFOLDS or text.count("\n") > 1:
                body = tag("details", tag("summary", body), class_="fold")
            shown.append(body)
        if rest:
            pairs = [tag("div", tag("dt", name), tag("dd", value)) for name, value in rest[:_MOST_VALUES]]
            shown.append(tag("dl", *pairs, class_="values"))
        return tag("div", *shown, class_="message")

    def _choices(self, one: Prediction, said: str | None) -> Markup | None:
        """Return a button for each of the most probable classes, with its key, and a field for another."""
        buttons = [
            tag(
                "button",
                tag("kbd", str(n)),
                " ",
                visible(label),
                " ",
                tag("span", percent(probability), class_="soft"),
                name="label_json",
                value=json.dumps(label),
                aria_label=f"{one.id} is {visible(label)}",
                aria_pressed=label == said and "true",
            )
            for n, (label, probability) in enumerate(Counter(one.probabilities).most_common(_CHOICES), 1)
        ]
        other = tag(
            "input",
            name="label",
            required=True,
            maxlength=1000,
            list="classes",
            placeholder="another class",
            aria_label=f"another class of {one.id}",
        )
        forms = [
            self._forms.form(one, *buttons) if buttons else None,
            self._forms.form(one, other, tag("button", "is its label")),
        ]
        return joined(forms)


def beside_words(one: Prediction, event: Event | None) -> Markup | None:
    """Return the evidence that is not marked in a text: the prior, absent words, and other values."""
    texts = {} if event is None else _texts(event)
    shown = [] if one.prior is None else [(PRIOR, one.prior)]
    shown += [
        (
            value_name(each.value) if each.attribute in texts else f"{each.attribute} {_plain(each.value)}",
            each.log_odds,
        )
        for each in one.evidence or ()
        if each.attribute not in texts or each.value == ""
    ]
    marks = [_mark(f"{visible(name)} {odds:+.2f}", odds) for name, odds in shown]
    return tag("p", "log odds of", *marks, class_="soft odds") if marks else None


def _mark(text: str, odds: float) -> Markup:
    return tag("mark", text, class_="for" if odds > 0 else "against", title=f"{odds:+.2f} log odds")


def _texts(event: Event) -> dict[str, str]:
    texts = {name: value.strip() for name, value in event.x.items() if isinstance(value, str)}
    return {name: text for name, text in texts.items() if " " in text}


def _plain(value: object) -> str:
    return f"{value:.0f}" if isinstance(value, float) and value.is_integer() else str(value)


def _why(one: Prediction) -> str:
    """Return the prediction in a sentence, with the reason if nothing was decided."""
    parts = [f"predicted {visible(one.label)} ({percent(one.probability)})" if one.label else "no class yet"]
    if one.decision is None:
        reasons = {"cost": "every decision costs too much", "novel": "it is unlike what was learned"}
        parts.append(f"nothing decided: {reasons.get(one.rejected or '', 'no decision pays')}")
    elif one.decision is not msgspec.UNSET:
        parts.append(f"decided {visible(one.decision)}")
    if one.unseen is not None and one.unseen >= 0.05:
        parts.append(f"a new class with probability {percent(one.unseen)}")
    return "; ".join(parts)


def tinted(text: str, weights: Mapping[str, float]) -> Markup:
    """Return a text in which words with evidence are marked, for the label or against it.

    Args:
        text: the message.
        weights: token -> log odds, as the model cuts texts. Of two tokens that overlap, the second is marked
            from the end of the first.
    """
    text = normalized(text)
    parts: list[object] = []
    end = 0
    for start, stop, token in token_spans(text):
        if (weight := weights.get(token)) is not None:
            parts.append(text[end : max(start, end)])
            parts.append(_mark(text[max(start, end) : stop], weight))
            end = stop
    parts.append(text[end:])
    return tag("bdi", *parts)
