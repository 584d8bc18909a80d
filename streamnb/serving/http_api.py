"""The HTTP API: requests and answers; FastAPI describes it as OpenAPI at /openapi.json."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from importlib.metadata import version
from types import MappingProxyType
from typing import Annotated, Any
from urllib.parse import unquote_to_bytes

from anyio.to_thread import run_sync
from fastapi import FastAPI, HTTPException, Path, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from fastapi.routing import APIRoute
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from starlette.convertors import Convertor, register_url_convertor
from starlette.exceptions import HTTPException as AnyHTTPException
from starlette.routing import Match, Route

from streamnb.config import SettingChange
from streamnb.errors import (
    ConfigError,
    LogError,
    MalformedEvent,
    RestartRequired,
    SnapshotError,
    StreamnbError,
    told_as,
)
from streamnb.events import Event, LabelRecord
from streamnb.queries.answers import explained, known_of
from streamnb.queries.query_model import QueryModel, readiness
from streamnb.serving.dead_letter_forms import Replaying
from streamnb.serving.fast_path import PATH, answered
from streamnb.serving.http_events import EVENTS_PATH, EventSending, add_sending
from streamnb.serving.http_explanations import add_explanations
from streamnb.serving.http_labels import LabelWriter, add_labels, has_refused, too_many_sources
from streamnb.serving.http_records import OpenStreams, add_missing, add_records, newest_prediction
from streamnb.serving.http_schemas import (
    Answer,
    Asking,
    Explained,
    ModelState,
    Problem,
    Question,
    Reloaded,
    Token,
    Why,
)
from streamnb.serving.live_page import PageActions, add_pages
from streamnb.serving.problem_details import MEDIA_TYPE, ProblemError, encoded_problem, refuse_repeated_key
from streamnb.serving.recent_records import RecentRecords
from streamnb.serving.record_feed import RecordFeed
from streamnb.serving.replica import Replica
from streamnb.serving.review_queue import PAGE_SOURCE

_UNREADABLE, _NOT_FOUND, _CONFLICT, _UNSUPPORTED, _WRONG, _NOT_READY = 400, 404, 409, 415, 422, 503
_WRONG_METHOD = 405
_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)  # seconds
_MOST_EXPLAINED = 32 << 10  # characters


class _TextConvertor(Convertor[str]):
    """Any text, including newlines, which Starlette's `path` convertor excludes."""

    regex = "(?s:.*)"

    def convert(self, value: str) -> str:
        return value

    to_string = convert


register_url_convertor("text", _TextConvertor())


def _check_encoding(request: Request) -> None:
    """Raise ProblemError if the path or the query is not UTF-8: Starlette would replace the bytes."""
    for what, key in (("path", "raw_path"), ("query", "query_string")):
        try:
            unquote_to_bytes(request.scope.get(key, b"")).decode()
        except UnicodeDecodeError:
            text = f"the {what} is not UTF-8: encode it as UTF-8 before the percent signs"
            raise ProblemError(_UNREADABLE, text, "not-utf-8") from None


class _StrictRoute(APIRoute):
    """A path that refuses bytes that are not UTF-8, and parameters that are unknown or given twice."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        answer = super().get_route_handler()
        known = {field.alias for field in self.dependant.query_params}

        async def checked(request: Request) -> Response:
            if self.include_in_schema:  # pages for people show what a form sends
                _check_encoding(request)
                names = [name for name, _ in request.query_params.multi_items()]
                for name in names:
                    if name not in known or names.count(name) > 1:
                        takes = f"unknown: this path takes {', '.join(sorted(known)) or 'none'}"
                        why = "given twice" if name in known else takes
                        raise HTTPException(_WRONG, f"query parameter {name[:100]!r} is {why}")
            if request.method == "POST" and request.url.path != EVENTS_PATH:  # it checks each event
                refuse_repeated_key(await request.body())
            return await answer(request)

        return checked


_STATUSES = (_UNREADABLE, 401, 403, _NOT_FOUND, 408, _CONFLICT, 413, _UNSUPPORTED, _WRONG, 429, _NOT_READY)
_PROBLEMS: dict[int | str, dict[str, Any]] = {
    status: {"content": {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}}}
    for status in _STATUSES
}


def application(
    replica: Replica,
    registry: CollectorRegistry,
    write: LabelWriter | None,
    watch: RecentRecords | None = None,
    replay: Replaying | None = None,
    sending: EventSending | None = None,
    feeds: Mapping[str, RecordFeed] = MappingProxyType({}),
) -> FastAPI:
    """Return the application.

    Args:
        replica: answers.
        registry: of /metrics.
        write: writes label records durably; None without a topic of labels.
        watch: of the live page; None without the page.
        replay: sends dead letters again, or previews that.
        sending: writes events; None does not offer it.
        feeds: "predictions", "alerts" or "labels" -> the feed of the topic.
    """
    app = FastAPI(
        title="streamnb",
        version=version("streamnb"),
        docs_url=None,
        redoc_url=None,
        responses=_PROBLEMS,
        generate_unique_id_function=lambda route: route.name,
        redirect_slashes=False,
    )
    app.router.route_class = _StrictRoute

    def stands() -> dict[str, Any]:
        return {**replica.state(), "learner": "not known" if watch is None else watch.learner}

    _describe(app)
    _add_errors(app)
    _ask(app, replica, stands)
    _watch(app, replica, registry, stands)
    if sending is not None:
        add_sending(app, sending)
    open_streams = OpenStreams()
    for name, feed in feeds.items():
        add_records(app, name, feed, watch, open_streams)
    add_missing(app, {"alerts", "labels"} - feeds.keys())

    def author(event_id: str, source: str) -> str | None:
        if watch is None:
            return None
        with watch.lock:
            return watch.judging.author(event_id, source)

    writing = add_labels(app, replica, write, author)
    if watch is not None and "predictions" in feeds:
        add_explanations(app, partial(newest_prediction, feeds["predictions"], watch), replica, author)
    if watch is not None:

        async def say(id_: str, label: str | None, by: str | None) -> None:
            said = [LabelRecord(id_, label, PAGE_SOURCE, by=by)]
            if await run_sync(has_refused, replica, said):
                raise HTTPException(_CONFLICT, too_many_sources(PAGE_SOURCE))
            await writing.put(said)

        add_pages(app, watch, replica, PageActions(say if write else None, replay))
    return app


def _describe(app: FastAPI) -> None:
    described = app.openapi

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            schema = described()
            parts = schema.setdefault("components", {})
            parts["schemas"]["Problem"] = Problem.model_json_schema()
            for unused in ("HTTPValidationError", "ValidationError"):
                parts["schemas"].pop(unused, None)
            token = "The token of --token-file; without that option none is needed."  # noqa: S105
            parts["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer", "description": token}}
            schema["security"] = [{}, {"token": []}]
        return app.openapi_schema or schema

    app.openapi = openapi  # type: ignore[method-assign]


def _add_errors(app: FastAPI) -> None:

    @app.exception_handler(StreamnbError)
    async def refused(request: Request, error: StreamnbError) -> Response:
        status = _NOT_READY if isinstance(error, (SnapshotError, LogError)) else _WRONG
        return _page(app, request, status, str(error)) or _problem(status, str(error))

    @app.exception_handler(AnyHTTPException)
    async def failed(request: Request, error: AnyHTTPException) -> Response:
        code, more = (error.code, error.more) if isinstance(error, ProblemError) else ("", None)
        told = error.detail
        if error.status_code == _UNREADABLE and not code:  # FastAPI could not parse the body
            told = "the body cannot be read: expected JSON in UTF-8; nesting and digits have a limit"
        headers = _allowed(app, request) if error.status_code == _WRONG_METHOD else error.headers
        if (page := _page(app, request, error.status_code, str(told))) is not None:
            return page
        return _problem(error.status_code, str(told), code, headers, more)

    @app.exception_handler(Exception)
    async def broken(_: Request, __: Exception) -> Response:  # uvicorn logs the traceback
        return _problem(500, "an error of streamnb: its standard error has the traceback")

    @app.exception_handler(RequestValidationError)
    async def invalid(request: Request, error: RequestValidationError) -> Response:
        first = error.errors()[0]
        told = f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
        if request.method == "POST" and "json" not in request.headers.get("content-type", ""):
            how = "send JSON, with the header Content-Type: application/json"
            return _problem(_UNSUPPORTED, how, headers={"Accept": "application/json"})
        if first["type"] == "json_invalid":
            why = first.get("ctx", {}).get("error", first["msg"])
            return _problem(_UNREADABLE, f"the body is not JSON: {why}, at character {first['loc'][-1]}")
        if first["loc"][0] == "path" and first["type"] == "string_too_short":
            return _problem(_NOT_FOUND, f"the path ends without {first['loc'][-1]}")
        return _problem(_WRONG, told)


def _page(app: FastAPI, request: Request, status: int, told: str) -> Response | None:
    """Return an error as a page for a browser on the live page; None for its script and other clients."""
    refuse: Callable[[int, str], Response] | None = getattr(app.state, "refuse", None)
    is_browser = request.url.path.startswith("/page/") and "text/html" in request.headers.get("accept", "")
    return refuse(status, told) if refuse is not None and is_browser else None


def _allowed(app: FastAPI, request: Request) -> dict[str, str]:
    """Return the header with all methods of a path; Starlette names the methods of one route.

    `/labels/undo` is a path of its own, and not the label of an event "undo".
    """
    routes = [
        one for one in app.routes if isinstance(one, Route) and one.matches(request.scope)[0] != Match.NONE
    ]
    own = {method for route in routes if route.path == routes[0].path for method in route.methods or ()}
    return {"Allow": ", ".join(sorted(own))}


def _problem(
    status: int,
    detail: str,
    code: str = "",
    headers: Mapping[str, str] | None = None,
    more: Mapping[str, Any] | None = None,
) -> Response:
    again = {"Retry-After": "1"} if status == _NOT_READY else {}
    body = encoded_problem(status, detail, code, more)
    return Response(body, status, {**again, **(headers or {})}, MEDIA_TYPE)


def metrics_of(replica: Replica) -> tuple[CollectorRegistry, Callable[[str, int, float], None]]:
    """Return the Prometheus metrics of a replica, and a callback that counts answers.

    The callback takes the path, the status, and the seconds until the answer began.
    """
    registry = CollectorRegistry()
    for name, key, what in (
        ("journal_record", "journal", "The last journal record that the replica followed."),
        ("learned_events", "learned", "Events that its model has learned."),
        ("commit_age_seconds", "seconds_since_commit", "Age of that record."),
        ("look_age_seconds", "seconds_since_look", "Since it last was at the journal's end."),
    ):
        gauge = Gauge(f"streamnb_replica_{name}", what, registry=registry)
        gauge.set_function(partial(_number, replica, key))
    told = "Requests that were answered, or refused."
    answers = Counter("streamnb_replica_requests", told, ("path", "code"), registry=registry)
    told = "From the arrival of a request until its answer began."
    seconds = Histogram(
        "streamnb_replica_request_seconds", told, ("path",), buckets=_BUCKETS, registry=registry
    )
    build = Gauge("streamnb_build_info", "The version of streamnb.", ("version",), registry=registry)
    build.labels(version("streamnb")).set(1)

    def count(path: str, code: int, took: float) -> None:
        answers.labels(path, str(code)).inc()
        seconds.labels(path).observe(took)

    return registry, count


def _ask(app: FastAPI, replica: Replica, stands: Callable[[], dict[str, Any]]) -> None:
    """Add the paths that query the model; `FastPath` answers most short texts before."""

    @contextmanager
    def asked() -> Iterator[QueryModel]:
        with replica.lock:
            yield replica.asked()

    @app.post(PATH, response_model=Answer)
    def predict(question: Question) -> Response:
        """Predict events; nothing is learned of them."""
        with asked() as model:
            events = [_event(model, given, place) for place, given in enumerate(question.events)]
            answer = answered(model, replica.stands, events)
        return Response(answer, media_type="application/json")

    @app.post("/explain", response_model=Explained)
    def explain(why: Why) -> Response:
        """Explain a prediction: the evidence for the label, with counts, and what would change it."""
        size = len(why.event if isinstance(why.event, str) else json.dumps(why.event))
        if size > _MOST_EXPLAINED:
            told = f"an event of {size:,} characters, more than {_MOST_EXPLAINED:,}, keeps others waiting"
            raise HTTPException(_WRONG, f"{told}: ask `streamnb explain`")
        with asked() as model:
            event = _event(model, why.event, 0)
            found = explained(model, event, why.against, why.top)
        return JSONResponse(found)

    @app.get("/tokens/{word:text}", response_model=Token)
    def get_token(word: Annotated[str, Path(min_length=1, max_length=1000)]) -> Response:
        """Return what the model knows of one word or value."""
        with asked() as model:
            return JSONResponse(known_of(model, word))

    @app.get("/model", response_model=ModelState)
    def get_model() -> Response:
        """Return the classes of the model, its readiness, and its position in the journal."""
        with asked() as model:
            weights = {str(label): weight for label, weight in model.model.class_weights.items()}
            attributes, ready = model.model.n_attributes, readiness(weights, model.min_learns)
        return JSONResponse({"classes": weights, "attributes": attributes, **ready, **stands()})


def _watch(
    app: FastAPI, replica: Replica, registry: CollectorRegistry, stands: Callable[[], dict[str, Any]]
) -> None:
    """Add the paths for monitoring; they do not wait for threads of the queries."""

    @app.get("/live", include_in_schema=False)
    async def live(response: Response) -> dict[str, Any]:
        response.status_code = 200 if replica.is_alive else _NOT_READY
        return stands()

    @app.get("/ready", include_in_schema=False)
    async def ready(response: Response) -> dict[str, Any]:
        response.status_code = 200 if replica.is_ready else _NOT_READY
        return stands() | ({"reason": replica.reason} if replica.following is None else {})

    @app.get("/metrics", include_in_schema=False)
    async def metrics() -> Response:
        return Response(generate_latest(registry), media_type="text/plain; version=0.0.4")


def add_reload(app: FastAPI, reload: Callable[[], Sequence[SettingChange]]) -> None:
    """Add the path that reloads the configuration; it changes all or nothing."""

    @app.post("/reload", response_model=Reloaded)
    def reload_configuration() -> Response:
        """Apply changed settings that need no restart, and read tokens and certificate again."""
        try:
            changes = reload()
        except RestartRequired as error:
            raise ProblemError(_CONFLICT, str(error), "restart-required") from error
        except ConfigError as error:
            raise ProblemError(_WRONG, str(error), "configuration-invalid") from error
        return JSONResponse({"changes": [change._asdict() for change in changes]})


def _event(model: QueryModel, given: Asking, place: int) -> Event:
    with told_as(ConfigError, f"event {place}", MalformedEvent, ConfigError, UnicodeEncodeError):
        return model.of_text(given) if isinstance(given, str) else model.of_object(given)


def _number(replica: Replica, key: str) -> float:
    value = replica.state()[key]
    return math.nan if value is None else float(value)
