"""The page of dead letters: the list, and one letter with its record, to correct or to skip."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import chain

from streamnb.charts import Bar, Markup, bars, joined, table, tag
from streamnb.charts.html_markup import visible
from streamnb.errors import StreamnbError
from streamnb.events import UNPUBLISHED
from streamnb.reports.report_charts import card, missing
from streamnb.runtime.resent_dead_letters import DONE, NEVER
from streamnb.serving.dead_letter_desk import DeadLetterDesk, InspectedLetter
from streamnb.serving.page_tables import (
    Asked,
    choice,
    event_link,
    exact,
    filter_form,
    link,
    page_of,
    text_filter,
)
from streamnb.serving.recent_records import RecentDeadLetter, RecentRecords
from streamnb.serving.time_ranges import clock

PATH = "/page/dead-letters"
MARK = "letter:"
"""Prefix of the field that marks a dead letter."""
_PLACE = ("topic", "partition", "offset")
_SHOWN = 120  # characters of a record in the list
_STATES = {
    "": "all",
    "waits": "wait",
    "settled": "sent again, corrected or skipped",
    "back": "came back",
    "never": "never sent as they are",
}
_ONE_LETTER = "A correction is sent once, in one transaction with the note that this dead letter is settled."


def _state(one: RecentDeadLetter, is_settled: bool | None) -> str:  # noqa: FBT001
    if is_settled:
        return "settled"
    if one.about.get("reason", "") in NEVER:
        return "never"
    if one.about.get("original.dead-letter"):
        return "back"
    return "waits"


class DeadLetterView:
    """Dead letters of one stream.

    Args:
        watch: the newest dead letters.
        csrf: field of each form.
        is_writable: False if nothing can be sent.
    """

    def __init__(self, watch: RecentRecords, csrf: Markup, *, is_writable: bool) -> None:
        self._watch, self._csrf, self._is_writable = watch, csrf, is_writable

    @property
    def _desk(self) -> DeadLetterDesk:
        return self._watch.dead_letters

    def above(self, asked: Asked) -> Markup:
        """Return one dead letter with its forms if the query names it, else the forms of the list."""
        if "letter" in asked:
            return self.letter(asked["letter"])
        with self._watch.lock:
            reasons = Counter(one.about.get("reason", "?") for one in self._watch.letters)
        options = {"": "all"} | {reason: f"{reason} ({n:,})" for reason, n in reasons.most_common()}
        filters = filter_form(
            PATH,
            text_filter("q", "Text", asked),
            choice("reason", "Reason", options, asked),
            choice("state", "State", _STATES, asked),
            title="Filter dead letters",
        )
        return joined([filters, self._again() if self._is_writable else None])

    def listing(self, asked: Asked) -> Iterator[Markup]:
        """Yield the list of the newest dead letters. Takes the lock."""
        if "letter" in asked:
            yield tag("p", link("All dead letters", PATH))
            return
        is_settled = self._desk.is_settled()
        with self._watch.lock:
            letters = list(self._watch.letters)
        if not letters:
            yield missing("No dead letters among the records read.")
            return
        states = {one.place: is_settled(one.place, one.about.get("reason", "")) for one in letters}
        letters.sort(key=lambda one: one.ts)  # partitions are read one after another
        found = [one for one in reversed(letters) if self._is_wanted(one, states[one.place], asked)]
        told = f"{len(found):,} among the newest {len(letters):,}; streamnb dlq list has older ones."
        rows, links = page_of(found, PATH, asked, lambda one: one.place, told)
        if None in states.values():
            yield missing("The log does not answer: the states of these letters are not known now.")
        header = ["letter", "when, UTC", "reason", "path", "from", "state", "beginning of the record"]
        made = [self._row(one, states[one.place]) for one in rows]
        body = table(header, made) if made else missing("No dead letter fits these filters.")
        title = tag("h2", "Newest first")
        yield tag("section", title, body, links, class_="card wide", data_hold=True)
        yield from _reasons(letters)

    def _is_wanted(self, one: RecentDeadLetter, is_settled: bool | None, asked: Asked) -> bool:  # noqa: FBT001
        if asked.get("reason") and one.about.get("reason", "?") != asked["reason"]:
            return False
        if asked.get("state") and _state(one, is_settled) != asked["state"]:
            return False
        text = asked.get("q", "").casefold()
        return not text or text in "\n".join([one.value, one.place, *one.about.values()]).casefold()

    def _row(self, one: RecentDeadLetter, is_settled: bool | None) -> list[object]:  # noqa: FBT001
        state, reason = _state(one, is_settled), one.about.get("reason", "?")
        name = link(one.place, PATH, {"letter": one.place})
        if state in {"waits", "back"} and self._is_writable:
            id_ = f"{MARK}{one.place}"
            told = f"mark {one.place}"
            box = tag("input", type="checkbox", name=id_, value=1, form="again", id=id_, aria_label=told)
            name = tag("span", box, name, class_="check")
        told = {"settled": "settled", "never": _never(reason), "waits": "waits"}.get(state, "")
        shown: object = told
        if back := one.about.get("original.dead-letter"):
            shown = joined([f"{told}; " if told else "", "came back from ", _place_link(back)])
        from_ = "{}/{}@{}".format(*(one.about.get(key, "?") for key in _PLACE))
        path, start = one.about.get("path", "?"), tag("code", one.value[:_SHOWN])
        return [name, clock(one.ts), reason, path, from_, shown, start]

    def _again(self) -> Markup:
        told = "The marked letters, or all if none is marked; up to 5,000 that can be read and were not sent."
        form = {"method": "post", "action": "/page/replay", "class_": "ask", "data_send": True, "id": "again"}
        skip = tag("button", "Skip marked ...", name="skip", value=1)
        return tag("form", self._csrf, tag("button", "Send again ..."), skip, tag("span", told), **form)

    def letter(
        self, place: str, typed: Mapping[str, str] | None = None, answer: Markup | None = None
    ) -> Markup:
        """Return one dead letter with its record, and the forms to correct and to skip it.

        Args:
            place: partition and offset, such as ``0/17``.
            typed: fields that were sent and are shown again.
            answer: the result of a form.
        """
        try:
            found = self._desk.inspect(place)
        except StreamnbError as error:
            return tag("p", str(error), class_="trouble")
        parts = [
            tag("h2", "Dead letter ", tag("bdi", place)),
            _facts(found),
            answer,
            *self._forms(found, typed),
        ]
        return tag("section", *parts, class_="card letter", data_letter=place)

    def _forms(self, found: InspectedLetter, typed: Mapping[str, str] | None) -> Iterator[Markup]:
        text = found.value.decode(errors="backslashreplace")
        if found.settled or not self._is_writable or found.letter.reason == UNPUBLISHED:
            why = found.settled or DONE.get(found.letter.reason, "")
            yield tag("p", f"Not to be sent: {why}.") if why else tag("p", "Nothing can be sent here.")
            yield tag("pre", text, tabindex=0, aria_label="record", class_="record")
            return
        if not found.is_whole:
            yield tag("p", "The log has only this part of the record. Complete it before it is sent.")
        if "\ufffd" in found.value.decode(errors="replace"):
            yield tag("p", "Bytes that are not UTF-8 are shown as \\xNN. Replace them before it is sent.")
        yield self._correction(found, typed or {"value": text})
        if found.letter.reason not in NEVER:
            button = tag("button", "Skip it"), tag("span", "It then waits no more. Nothing is sent.")
            yield self._form(found, "skip", *button)

    def _correction(self, found: InspectedLetter, typed: Mapping[str, str]) -> Markup:
        is_new = typed.get("as") == "new"
        proposed = typed.get("new_id") or (f"{found.id}-corrected" if found.id else "")
        same = "keep its id" if found.id is None else joined(["keep its id, ", tag("bdi", visible(found.id))])
        value = exact("\n" + typed.get("value", ""))  # a browser drops the first line feed
        rows = min(24, 4 + len(typed.get("value", "")) // 90)
        area = tag("textarea", value, id="value", name="value", rows=rows, spellcheck="false", required=True)
        fields = [
            tag("label", "Record as it is sent", for_="value"),
            area,
            _radio("same", same, is_chosen=not is_new),
            tag(
                "span",
                _radio("new", "give it this new id:", is_chosen=is_new),
                tag("input", name="new_id", value=exact(proposed), maxlength=1000, aria_label="new id"),
                class_="check",
            ),
            tag("span", tag("button", "Send corrected"), " ", tag("span", _ONE_LETTER, class_="soft")),
        ]
        return self._form(found, "correct", *fields, class_="ask tall")

    def _form(self, found: InspectedLetter, action: str, *fields: object, class_: str = "ask") -> Markup:
        place = tag("input", type="hidden", name="place", value=found.letter.place)
        sent = {
            "method": "post",
            "action": f"/page/dead-letters/{action}",
            "class_": class_,
            "data_send": True,
        }
        return tag("form", self._csrf, place, *fields, **sent)


def _radio(value: str, told: object, *, is_chosen: bool) -> Markup:
    button = tag("input", type="radio", name="as", value=value, id=f"as-{value}", checked=is_chosen)
    return tag("span", button, tag("label", told, for_=f"as-{value}"), class_="check")


def _facts(found: InspectedLetter) -> Markup:
    letter = found.letter
    key = "none" if found.key is None else found.key.decode(errors="backslashreplace")
    facts: list[tuple[str, object]] = [
        ("reason", letter.reason),
        ("path", letter.headers.get("path", "?")),
        ("from", letter.whence),
        ("when, UTC", clock(letter.record.timestamp)),
        ("key", key),
        ("bytes", f"{len(found.value):,}"),
        ("as it is, now", found.outcome or "it can be read: it may be sent again"),
        ("state", found.settled or ("never sent as it is" if letter.reason in NEVER else "waits")),
    ]
    if found.id is not None:
        facts.insert(4, ("event", event_link(found.id)))
    if letter.came_back_from:
        facts.append(("came back from", _place_link(letter.came_back_from)))
    shown = {*_PLACE, "reason", "path", "original.dead-letter"}
    facts += [(name, value) for name, value in letter.headers.items() if name not in shown]
    rows = [(tag("dt", name), tag("dd", tag("bdi", _visible(value)))) for name, value in facts]
    return tag("dl", *chain.from_iterable(rows), class_="facts")


def _visible(value: object) -> object:
    return visible(value) if type(value) is str else value


def _place_link(place: str) -> Markup:
    return link(place, PATH, {"letter": place})


def _never(reason: str) -> str:
    return f"never sent: {DONE.get(reason, 'its bytes cannot be read')}"


def _reasons(letters: list[RecentDeadLetter]) -> Iterator[Markup]:
    reasons, sizes = Counter[str](), Counter[str]()
    for one in letters:
        reason = one.about.get("reason", "?")
        reasons[reason] += 1
        sizes[reason] += one.size
    for title, found in ((f"Reasons of the newest {len(letters):,}", reasons), ("Their bytes", sizes)):
        yield card(bars(title, [Bar(*row) for row in found.most_common()]))
