"""The live page: its frame, forms and access control; `live_views` renders the parts that change."""

from __future__ import annotations

import hmac
import json
import secrets
import time
from collections.abc import Awaitable, Callable, Mapping
from importlib.resources import files
from types import MappingProxyType
from typing import Annotated, Any, NamedTuple
from urllib.parse import parse_qsl, urlencode

import msgspec
from anyio import Lock, sleep
from fastapi import Depends, FastAPI, HTTPException, Request, Response

from streamnb.charts import Markup, joined, stylesheet, tag
from streamnb.charts.html_markup import visible
from streamnb.serving.access import name_of
from streamnb.serving.dead_letter_forms import Replaying, add_dead_letter_forms
from streamnb.serving.label_undo import UNDO_SECONDS, UndoToken, undo_label
from streamnb.serving.live_views import CHARTED, GROUPS, RANGED, TITLES, PageViews
from streamnb.serving.recent_records import RecentRecords
from streamnb.serving.replica import Replica
from streamnb.serving.review_queue import PAGE_SOURCE
from streamnb.serving.time_ranges import KEYS, range_links
from streamnb.values.similar_labels import INVISIBLE, is_visible

_FORBIDDEN, _UNKNOWN, _CONFLICT, _WRONG = 403, 404, 409, 422
_WALL = {"": "quality", "quality": "classes", "classes": "alerts", "alerts": ""}
"""View of a wall screen -> the view after it."""
_WALL_SECONDS = 20
_LOOK_SECONDS = 0.05
_DOUBLE_SECONDS = 2.0  # without its script the page sends both clicks of a double click
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)
_HEADERS = {
    "Content-Security-Policy": _POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}


Saying = Callable[[str, str | None, str | None], Awaitable[None]]
"""Writes a label of the page: id of the event, label, and author."""


class PageActions(NamedTuple):
    """The writes that the page offers.

    Attributes:
        say: writes the label of an event, or null; None if labels cannot be written.
        replay: sends dead letters again; None if it is not available.
    """

    say: Saying | None
    replay: Replaying | None


def add_pages(app: FastAPI, watch: RecentRecords, replica: Replica, writing: PageActions) -> None:
    """Mount the page, which shows `watch`, queries `replica`, and writes by `writing`."""
    csrf = secrets.token_urlsafe(32)
    views = PageViews(
        watch, replica, csrf, is_writable=writing.say is not None, can_send=writing.replay is not None
    )
    frame = _PageFrame(watch.config.model.name, views, csrf)
    app.state.refuse = frame.refused
    _add_forms(app, frame, csrf, writing)

    @app.get("/", include_in_schema=False)
    def overview(request: Request) -> Response:
        return _html(frame.page("", dict(request.query_params)))

    @app.get("/page/page.css", include_in_schema=False)
    def style() -> Response:
        return Response(
            stylesheet() + _file("page.css") + _file("work.css"), media_type="text/css", headers=_HEADERS
        )

    @app.get("/page/page.js", include_in_schema=False)
    def script() -> Response:
        return Response(_file("page.js"), media_type="text/javascript", headers=_HEADERS)

    @app.get("/page/{name}", include_in_schema=False)
    def page(name: str, request: Request) -> Response:
        return _html(frame.page(_known(name), dict(request.query_params)))

    @app.get("/page/{name}/live", include_in_schema=False)
    def live(name: str, request: Request) -> Response:
        known = "" if name == "overview" else _known(name)
        return _html(joined([views.strip(), views.live(known, dict(request.query_params))]))


async def _fields(request: Request) -> dict[str, str]:
    """Return the fields of a form; `RequestLimits` has compared the browser's origin with the host."""
    if "origin" not in request.headers:
        raise HTTPException(_FORBIDDEN, "expected the Origin of a page: forms are sent by browsers")
    return dict(parse_qsl((await request.body()).decode(errors="replace"), keep_blank_values=True))


_Fields = Annotated[dict[str, str], Depends(_fields)]


def _add_forms(app: FastAPI, frame: _PageFrame, csrf: str, writing: PageActions) -> None:
    """Add the paths of the forms; each form carries a CSRF secret of the page."""

    def own(found: _Fields) -> dict[str, str]:
        if not hmac.compare_digest(found.get("csrf", "").encode(), csrf.encode()):
            raise HTTPException(_FORBIDDEN, "this form is not of this page: reload the page")
        return found

    sent = Depends(own)

    @app.post("/page/try", include_in_schema=False)
    def ask(request: Request, found: dict[str, str] = sent) -> Response:
        return frame.answer(request, "try", frame.views.tried(found.get("text", "")))

    _add_label_forms(app, frame, sent, writing)
    views = frame.views
    add_dead_letter_forms(app, frame, sent, views.dead_letters, views.desk, writing.replay, views.csrf_field)


def _add_label_forms(app: FastAPI, frame: _PageFrame, sent: Any, writing: PageActions) -> None:
    """Add the forms that write a label and undo it; `sent` gives the fields of a form of this page."""
    once = _WriteOnce()

    @app.post("/page/label", include_in_schema=False)
    async def label(request: Request, found: dict[str, str] = sent) -> Response:
        if writing.say is None:
            raise HTTPException(_FORBIDDEN, "topics.labels is not set")
        id_, said = _exact(found, "id"), _exact(found, "label")
        if said and not is_visible(said):
            raise HTTPException(_WRONG, INVISIBLE)
        before = frame.views.own_label(id_)
        await once.write(id_, said, name_of(request.scope), writing.say)
        frame.views.note_written(id_, said)
        near = frame.views.alike_label(said)
        names = (tag("bdi", visible(name)) for name in (id_, said))
        more = () if near is None else (" Did you mean ", tag("bdi", visible(near)), "?")
        token = UndoToken(id_, PAGE_SOURCE, said, before)
        is_live = "x-live" in request.headers
        undo = frame.undo(token) if is_live else tag("a", "Undo ...", href=f"/page/undo?undo={token}")
        told = tag("div", "Written: ", next(names), " is ", next(names), ".", *more, " ", undo, class_="done")
        return _html(told if is_live else frame.written(told))

    @app.get("/page/undo", include_in_schema=False)
    def confirm(undo: str) -> Response:
        token = _own_token(undo)
        before = "no label of this page" if token.before is None else token.before
        told = ("Event ", tag("bdi", visible(token.id)), " gets back ", tag("bdi", visible(before)), ". ")
        return _html(frame.written(tag("div", *told, frame.undo(token), class_="done")))

    @app.post("/page/undo", include_in_schema=False)
    async def undo(request: Request, found: dict[str, str] = sent) -> Response:
        say = writing.say
        if say is None:
            raise HTTPException(_FORBIDDEN, "topics.labels is not set")
        token = _own_token(found.get("undo", ""))

        async def holds() -> bool:
            deadline = time.monotonic() + UNDO_SECONDS
            while frame.views.own_label(token.id) != token.written:
                if time.monotonic() > deadline:
                    return False
                await sleep(_LOOK_SECONDS)
            return True

        await undo_label(
            token, holds, lambda: once.write(token.id, token.before, name_of(request.scope), say)
        )
        back = token.before
        frame.views.note_written(token.id, back)
        label = ("has no label of this page again",) if back is None else ("is ", tag("bdi", visible(back)))
        told = tag("div", "Undone: ", tag("bdi", visible(token.id)), " ", *label, ".", class_="done")
        return _html(told if "x-live" in request.headers else frame.written(told))


def _own_token(text: str) -> UndoToken:
    """Return the token of a label that the page wrote. Raises ConfigError or HTTPException."""
    token = UndoToken.parse(text)
    if token.source != PAGE_SOURCE:
        raise HTTPException(_WRONG, "undo: this label was not written on the page")
    return token


class _WriteOnce:
    """Writes a label once if a double click sends it twice."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._written: dict[str, tuple[str | None, float]] = {}  # id -> its last label, and when

    async def write(self, id_: str, label: str | None, by: str, say: Saying) -> None:
        """Write the label of an event by an author; empty if none is known.

        Raises as `say` does; a label that failed is not taken for written.
        """
        async with self._lock:
            since = time.monotonic() - _DOUBLE_SECONDS
            self._written = {key: one for key, one in self._written.items() if one[1] > since}
            if self._written.get(id_, ("", 0.0))[0] != label:
                await say(id_, label, by or None)
                self._written[id_] = label, time.monotonic()


def _exact(found: dict[str, str], name: str) -> str:
    """Return a field as typed, or the exact JSON value that the page put into the form."""
    given = found.get(f"{name}_json")
    try:
        return found.get(name, "") if given is None else msgspec.json.decode(given, type=str)
    except msgspec.DecodeError as error:
        raise HTTPException(_WRONG, f"{name}_json: {error}: reload the page") from error


def _known(name: str) -> str:
    if name not in TITLES:
        raise HTTPException(_UNKNOWN, "no such page")
    return name


def _html(made: Markup, status: int = 200) -> Response:
    return Response(made.encode(errors="replace"), status, _HEADERS, "text/html; charset=utf-8")


def _file(name: str) -> str:
    return files("streamnb.serving").joinpath(name).read_text(encoding="utf-8")


class _PageFrame:
    """Navigation, search, and the form to try a message, which surround each view."""

    def __init__(self, model: str, views: PageViews, csrf: str) -> None:
        self._model, self.views, self._csrf = model, views, csrf

    def answer(
        self, request: Request, name: str, made: Markup, above: Callable[[Markup], Markup] | None = None
    ) -> Response:
        """Return the result of a form, within its page for requests without the script.

        `above` returns the part above the list, with the result in it; None shows the usual part.
        """
        if "x-live" in request.headers:
            return _html(made)
        return _html(self.page(name, {}, made) if above is None else self.page(name, {}, above=above(made)))

    def written(self, told: Markup) -> Markup:
        """Return the page after a label was sent without the script.

        It has no label buttons: a newer list would put another event under the pointer.
        """
        back = tag("p", tag("a", "Back to the predictions", href="/page/events"))
        return self._whole("events", tag("h1", TITLES["events"]), told, back)

    def refused(self, status: int, told: str) -> Response:
        """Return an error as a page."""
        back = tag("p", tag("a", "Back to the predictions", href="/page/events"))
        made = self._whole("events", tag("h1", "Not done"), tag("p", told, class_="trouble"), back)
        return _html(made, status)

    def page(
        self, name: str, asked: dict[str, str], answer: Markup | None = None, above: Markup | None = None
    ) -> Markup:
        """Return a whole page, which also works without its script."""
        if name == "review":  # the list stays as it is; its live part counts newer predictions
            asked = {**asked, "since": str(self.views.n_predictions)}
        kept = {key: asked[key] for key in KEYS if key in asked and name in RANGED}
        if name in RANGED:
            asked = {**asked, "range": self.views.range_of(asked)}
        where = f"/page/{name or 'overview'}/live" + (f"?{urlencode(asked)}" if asked else "")
        live = tag("div", self.views.live(name, asked), id="live", class_="cards", data_live=where)
        said = tag("div", answer, id="answer", class_="cards", aria_live="polite")
        forms: dict[str, Callable[[], Markup | None]] = {
            "review": lambda: self.views.review.queue(asked),
            "events": lambda: None if "id" in asked else self.views.table.filters(asked),
            "try": self._try,
            "alerts": lambda: self.views.alerts.filters(asked),
            "tenants": lambda: self.views.tenants.filters(asked),
            "dead-letters": lambda: self.views.dead_letters.above(asked),
            "model": lambda: self.views.learned.form(asked),
        }
        above = forms[name]() if name in forms and above is None else above
        if name in RANGED:
            above = joined([above, range_links(_path(name), asked, has_axis=name in CHARTED)])
        if "wall" in asked:
            return self._whole(name, tag("h1", TITLES[name]), live, is_wall=True)
        return self._whole(name, tag("h1", TITLES[name]), above, said, live, kept=kept)

    def undo(self, token: UndoToken) -> Markup:
        """Return the form that restores the label that the page had given an event before."""
        hidden = tag("input", type="hidden", name="undo", value=str(token))
        known = {"data_id": json.dumps(token.id), "data_before": json.dumps(token.before)}
        form = {"method": "post", "action": "/page/undo", "class_": "undo", "data_send": True}
        return tag("form", self._csrf_field(), hidden, tag("button", "Undo"), **form, **known)

    def _csrf_field(self) -> Markup:
        return tag("input", type="hidden", name="csrf", value=self._csrf)

    def _try(self) -> Markup:
        fields = [
            tag("label", "A text, or an event as JSON; nothing is learned of it", for_="text"),
            tag("textarea", id="text", name="text", rows=4, required=True),
            tag("button", "Ask the model"),
        ]
        form = {"method": "post", "action": "/page/try", "class_": "ask tall", "data_send": True}
        return tag("form", self._csrf_field(), *fields, **form)

    def _navigation(self, current: str, kept: Mapping[str, str]) -> Markup:
        groups = (
            tag("ul", *(_link(name, title, current, kept) for name, title in views.items()), aria_label=group)
            for group, views in GROUPS.items()
        )
        return tag("nav", *groups, aria_label="Views", class_="views")

    def _whole(
        self,
        name: str,
        *children: object,
        kept: Mapping[str, str] = MappingProxyType({}),
        is_wall: bool = False,
    ) -> Markup:
        next_view = f"{_path(_WALL.get(name, ''))}?wall" if is_wall else None
        turn = tag("meta", http_equiv="refresh", content=f"{_WALL_SECONDS};url={next_view}")
        head = tag(
            "head",
            tag("meta", charset="utf-8"),
            tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
            tag("title", f"{TITLES[name]}, {self._model}, streamnb"),
            tag("link", rel="icon", href="data:,"),
            tag("link", rel="stylesheet", href="/page/page.css"),
            tag("script", src="/page/page.js", defer=True),
            tag("noscript", turn) if is_wall else None,
        )
        model = tag("span", self._model, class_="soft model")
        brand = tag("a", "streamnb", href="/", class_="brand"), model
        skip = tag("a", "To the content", href="#main", class_="skip")
        status = tag("p", id="status", role="status")
        header = tag("header", *brand, status, self.views.strip())
        toast = tag("div", id="toast", role="status")
        navigation = None if is_wall else self._navigation(name, kept)
        main = tag("main", *children, id="main")
        body = tag("body", skip, header, navigation, main, toast, class_=None if is_wall else "live")
        wall = {"class_": "wall", "data_next": next_view, "data_seconds": _WALL_SECONDS} if is_wall else {}
        return joined([Markup("<!doctype html>"), tag("html", head, body, lang="en", **wall)])


def _path(name: str) -> str:
    return f"/page/{name}" if name else "/"


def _link(name: str, title: str, current: str, kept: Mapping[str, str]) -> Markup:
    """Return a link to a view, which keeps the range of time."""
    query = f"?{urlencode(kept)}" if kept and name in RANGED else ""
    return tag("li", tag("a", title, href=_path(name) + query, aria_current=name == current and "page"))
