"""The forms of the page that send dead letters again, correct one, or skip some."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Protocol

from anyio import CapacityLimiter
from anyio.to_thread import run_sync
from fastapi import FastAPI, HTTPException, Request, Response

from streamnb.charts import Markup, joined, tag
from streamnb.charts.html_markup import visible
from streamnb.errors import StreamnbError
from streamnb.runtime.resent_dead_letters import ResendResult
from streamnb.serving.dead_letter_desk import DeadLetterDesk
from streamnb.serving.dead_letter_view import MARK, DeadLetterView
from streamnb.serving.page_tables import event_link
from streamnb.values.parameter_checks import pluralize

_CONFLICT = 409
_MOST_SKIPPED = 1000
VIEW = "dead-letters"
Replaying = Callable[[frozenset[str], bool], ResendResult]
"""Sends the dead letters at some places again, or all for an empty set; or only previews that."""


class FormFrame(Protocol):
    """The page around the result of a form."""

    def answer(
        self, request: Request, name: str, made: Markup, above: Callable[[Markup], Markup] | None = None
    ) -> Response:
        """Return a result, within its page for requests without the script.

        `above` returns the part above the list, with the result in it; None shows the usual part.
        """


def add_dead_letter_forms(
    app: FastAPI,
    frame: FormFrame,
    sent: Any,
    view: DeadLetterView,
    desk: DeadLetterDesk,
    replaying: Replaying | None,
    csrf: Markup,
) -> None:
    """Add the paths of the forms; `sent` gives the fields of a form of this page."""
    one_sends = CapacityLimiter(1)

    @app.post("/page/replay", include_in_schema=False)
    async def replay(request: Request, found: dict[str, str] = sent) -> Response:
        if replaying is None or one_sends.available_tokens < 1:
            raise HTTPException(_CONFLICT, "dead letters are being sent: wait for what comes of it")
        places = frozenset(name.removeprefix(MARK) for name in found if name.startswith(MARK))
        is_sure = "sure" in found
        if "skip" in found:
            made = await run_sync(_skipped, desk, places, csrf, is_sure, limiter=one_sends)
            return frame.answer(request, VIEW, made)
        came = await run_sync(replaying, places, not is_sure, limiter=one_sends)
        told = tag("p", f"{came.message('sent' if is_sure else 'would be sent')}.", class_="done")
        form = None if is_sure or not came.sent else _sure(csrf, places, f"Send {came.sent:,} again")
        return frame.answer(request, VIEW, joined([told, form]))

    @app.post("/page/dead-letters/correct", include_in_schema=False)
    def correct(request: Request, found: dict[str, str] = sent) -> Response:
        place, text = found.get("place", ""), found.get("value", "").replace("\r\n", "\n").removeprefix("\n")
        new_id = found.get("new_id", "") if found.get("as") == "new" else None
        try:
            if new_id == "":
                return answer(request, place, _trouble("Give a new id, or keep the record's."), found)
            id_ = desk.correct(place, text.encode(errors="surrogatepass"), new_id)
        except StreamnbError as error:
            return answer(request, place, _trouble(f"Not sent: {error}"), found)
        event = ("the retraction",) if id_ is None else ("event ", event_link(id_))
        after = (
            " The learner reads it like any other record; if it refuses it, it comes back as a dead letter."
        )
        return answer(request, place, tag("p", "Sent as ", *event, ".", after, class_="done"), None)

    @app.post("/page/dead-letters/skip", include_in_schema=False)
    def skip(request: Request, found: dict[str, str] = sent) -> Response:
        place = found.get("place", "")
        try:
            desk.skip([place])
        except StreamnbError as error:
            return answer(request, place, _trouble(f"Not skipped: {error}"), None)
        told = tag("p", "Skipped: dead letter ", tag("bdi", visible(place)), " waits no more.", class_="done")
        return answer(request, place, told, None)

    def answer(request: Request, place: str, made: Markup, typed: dict[str, str] | None) -> Response:
        return frame.answer(request, VIEW, made, lambda result: view.letter(place, typed, result))


def _skipped(desk: DeadLetterDesk, places: frozenset[str], csrf: Markup, is_sure: bool) -> Markup:  # noqa: FBT001
    """Skip dead letters, or return the form that confirms it."""
    if not places or len(places) > _MOST_SKIPPED:
        return _trouble("Mark the dead letters to skip.")
    try:
        desk.skip(sorted(places), dry_run=not is_sure)
    except StreamnbError as error:
        return _trouble(f"Nothing is skipped: {error}")
    n = pluralize(len(places), "dead letter")
    told = tag("p", f"{n} {'skipped' if is_sure else 'would be skipped'}.", class_="done")
    return told if is_sure else joined([told, _sure(csrf, places, f"Skip {len(places):,}", "skip")])


def _sure(csrf: Markup, places: Iterable[str], button: str, *more: str) -> Markup:
    """Return the form that confirms what is done with dead letters."""
    names = ["sure", *more, *(f"{MARK}{place}" for place in sorted(places))]
    fields = (tag("input", type="hidden", name=name, value=1) for name in names)
    form = {"method": "post", "action": "/page/replay", "class_": "ask", "data_send": True}
    return tag("form", csrf, *fields, tag("button", button), **form)


def _trouble(text: str) -> Markup:
    return tag("p", text, class_="trouble")
