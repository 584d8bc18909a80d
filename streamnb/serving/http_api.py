"""The HTTP API: requests and answers; FastAPI describes it as OpenAPI at /openapi.json."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Awaitable, Callable, Container, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from importlib.metadata import version
from types import MappingProxyType
from typing import Annotated, Any
from urllib.parse import unquote_to_bytes

import anyio
from anyio import CapacityLimiter
from anyio.to_thread import run_sync
from fastapi import FastAPI, HTTPException, Path, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from prometheus_client import CollectorRegistry, Counter, Gauge, generate_latest
from starlette.convertors import Convertor, register_url_convertor
from starlette.exceptions import HTTPException as AnyHTTPException

from streamnb.engine.labels.source_label_store import MOST_SOURCES_IN_ALL
from streamnb.engine.labels.source_labels import LIMIT_OF_SOURCES, SourceLabel
from streamnb.errors import ConfigError, LogError, MalformedEvent, SnapshotError, StreamnbError, told_as
from streamnb.events import Event, LabelRecord
from streamnb.formats.codec import decode_label, encode_label
from streamnb.formats.event_schema import EventSchema
from streamnb.queries.answers import explained, held, known_of
from streamnb.queries.query_model import QueryModel, readiness
from streamnb.serving.fast_path import PATH, answered
from streamnb.serving.http_events import EventSending, add_records, add_sending
from streamnb.serving.http_schemas import (
    Answer,
    Asking,
    Explained,
    Held,
    LabelInputs,
    ModelState,
    Problem,
    Question,
    Token,
    Why,
    Written,
)
from streamnb.serving.live_page import PageActions, Replaying, add_pages
from streamnb.serving.live_views import SOURCE
from streamnb.serving.problem_details import MEDIA_TYPE, ProblemError, encoded_problem
from streamnb.serving.recent_records import RecentRecords
from streamnb.serving.record_feed import RecordFeed
from streamnb.serving.replica import Replica
from streamnb.values.messages import Message
from streamnb.values.similar_labels import ALIKE, INVISIBLE, folded, is_visible

_UNREADABLE, _NOT_FOUND, _CONFLICT, _UNSUPPORTED, _WRONG, _NOT_READY = 400, 404, 409, 415, 422, 503
_LABELS_SECONDS = 5.0  # to wait for others that write labels
_MOST_EXPLAINED = 32 << 10  # characters
_LABELS_AT_ONCE = 4  # requests that ask the replica about the labels that they wrote


class _TextConvertor(Convertor[str]):
    """Any text, including newlines, which Starlette's `path` convertor excludes."""

    regex = "(?s:.*)"

    def convert(self, value: str) -> str:
        return value

    to_string = convert


register_url_convertor("text", _TextConvertor())


_STATUSES = (_UNREADABLE, 401, 403, _NOT_FOUND, 408, _CONFLICT, 413, _UNSUPPORTED, _WRONG, 429, _NOT_READY)
_PROBLEMS: dict[int | str, dict[str, Any]] = {
    status: {"content": {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}}}
    for status in _STATUSES
}


def application(
    replica: Replica,
    registry: CollectorRegistry,
    write: Callable[[list[LabelRecord]], object] | None,
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
        feeds: "predictions" or "alerts" -> the feed of the topic.
    """
    app = FastAPI(
        title="streamnb",
        version=version("streamnb"),
        docs_url=None,
        redoc_url=None,
        responses=_PROBLEMS,
        generate_unique_id_function=lambda route: route.name,
    )

    def stands() -> dict[str, Any]:
        return {**replica.state(), "learner": "not known" if watch is None else watch.learner}

    _describe(app)
    _add_errors(app)
    _ask(app, replica, stands)
    put = _report(app, replica, write)
    _watch(app, replica, registry, stands)
    if sending is not None:
        add_sending(app, sending)
    for name, feed in feeds.items():
        add_records(app, name, feed, watch)
    if watch is not None:

        async def say(id_: str, label: str) -> None:
            said = [LabelRecord(id_, label, SOURCE)]
            if await run_sync(_has_refused, replica, said):
                raise HTTPException(_CONFLICT, _too_many_sources(SOURCE))
            await put(said)

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
    async def refused(_: Request, error: StreamnbError) -> Response:
        return _problem(_NOT_READY if isinstance(error, (SnapshotError, LogError)) else _WRONG, str(error))

    @app.exception_handler(AnyHTTPException)
    async def failed(_: Request, error: AnyHTTPException) -> Response:
        code, more = (error.code, error.more) if isinstance(error, ProblemError) else ("", None)
        told = error.detail
        if error.status_code == _UNREADABLE and not code:  # FastAPI could not parse the body
            told = "the body cannot be read: expected JSON in UTF-8; nesting and digits have a limit"
        return _problem(error.status_code, str(told), code, error.headers, more)

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


def metrics_of(replica: Replica) -> tuple[CollectorRegistry, Callable[[str, int], None]]:
    """Return the Prometheus metrics of a replica, and a callback that counts answers by path and status."""
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
    return registry, lambda path, code: answers.labels(path, str(code)).inc()


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
    def get_token(request: Request, word: Annotated[str, Path(min_length=1, max_length=1000)]) -> Response:
        """Return what the model knows of one word or value."""
        _check_path(request, "word")
        with asked() as model:
            return JSONResponse(known_of(model, word))

    @app.get("/labels/{id:text}", response_model=Held)
    def get_label(
        request: Request, id_: Annotated[str, Path(alias="id", min_length=1, max_length=1000)]
    ) -> Response:
        """Return the label in force for the newest event of this id, its source, and other labels."""
        _check_path(request, "id")
        with asked():
            return JSONResponse(_held(replica, id_))

    @app.get("/model", response_model=ModelState)
    def get_model() -> Response:
        """Return the classes of the model, its readiness, and its position in the journal."""
        with asked() as model:
            weights = {str(label): weight for label, weight in model.model.class_weights.items()}
            attributes, ready = model.model.n_attributes, readiness(weights, model.min_learns)
        return JSONResponse({"classes": weights, "attributes": attributes, **ready, **stands()})


def _check_path(request: Request, what: str) -> None:
    try:
        unquote_to_bytes(request.scope.get("raw_path", b"")).decode()
    except UnicodeDecodeError:
        raise ProblemError(_UNREADABLE, f"the {what} in the path is not UTF-8", "not-utf-8") from None


def _held(replica: Replica, event_id: str) -> dict[str, Any]:
    following = replica.following
    assert following is not None  # noqa: S101  it was asked
    late = following.learner.late
    if late is None:
        raise HTTPException(_CONFLICT, "topics.labels is not set: labels arrive only inside their events")
    said = late.source_labels_of(event_id)
    if said is None:
        waits = "a label waits for it" if late.labels_before(event_id) else "nor did a label"
        forgotten = "was forgotten, or " if following.checkpoint.origin.floor >= 0 else ""
        raise ProblemError(
            _NOT_FOUND,
            f"no event of this id has come by journal record {following.checkpoint.n}, and {waits}; or it "
            f"{forgotten}is kept no longer (labels.window, labels.memory): "
            "`streamnb explain --id` looks in the log",
            "unknown-event",
        )
    return held(said, following.checkpoint.n)


def _report(
    app: FastAPI, replica: Replica, write: Callable[[list[LabelRecord]], object] | None
) -> Callable[[list[LabelRecord]], Awaitable[None]]:
    """Add the path that writes labels; return the function that writes them.

    One request writes at a time, so that a log that hangs blocks no thread of the queries.
    """
    one_writes, few_look = CapacityLimiter(1), CapacityLimiter(_LABELS_AT_ONCE)

    async def put(said: list[LabelRecord]) -> None:
        if write is None:
            raise HTTPException(_CONFLICT, "topics.labels is not set: no learner would read them")
        schema, now = EventSchema(clock=replica.config.events.clock), time.time()
        found = [_label_record(one, place, schema, now) for place, one in enumerate(said)]
        try:
            with anyio.fail_after(_LABELS_SECONDS):
                await run_sync(write, found, limiter=one_writes)
        except ConfigError as error:  # according to the journal, the learner does not read the topic
            raise HTTPException(_CONFLICT, str(error)) from error
        except TimeoutError as error:
            raise LogError("the log is busy with labels of others; none was written: ask again") from error

    @app.post("/labels", response_model=Written)
    async def write_labels(verdicts: LabelInputs) -> Response:
        """Write labels durably: late ones, corrections, and null to take back."""
        said = [LabelRecord(**one.model_dump()) for one in verdicts.labels]
        await put(said)
        return JSONResponse(await run_sync(_accepted, replica, said, limiter=few_look))

    return put


def _accepted(replica: Replica, said: Sequence[LabelRecord]) -> dict[str, Any]:
    with replica.lock:
        following = replica.following
        late = None if following is None else following.learner.late
        if following is None or late is None:  # no model yet, or one from before labels arrived separately
            unknown = {"event_known": None, "class_known": None, "holds": None}
            each = [{"id": one.id, **unknown} for one in said]
            return {"written": len(said), "labels": each, "journal": None}
        journal = following.checkpoint.n
        classes = {str(label): n for label, n in following.learner.model.class_weights.items()}
        statements = [late.source_labels_of(one.id) for one in said]
        each = [_known(one, found, classes, journal) for one, found in zip(said, statements, strict=True)]
        is_refused = late.refused_sources([(one.id, one.source) for one in said])
        alike = {folded(label): label for label in sorted(classes, key=classes.__getitem__) if classes[label]}
        schema = following.learner.settings.schema
    for one, known, is_one_too_many in zip(said, each, is_refused, strict=True):
        if is_one_too_many:
            text = _too_many_sources(one.source)
            known["warning"] = Message("label-source-refused", text, source=one.source)
            continue
        label = one.label and schema.named(one.label)
        if label and not classes.get(label) and (near := alike.get(folded(label))) is not None:
            text = f"label {label!r}: did you mean {near!r}? {ALIKE}"
            known["warning"] = Message("labels-alike", text, labels=[label, near])
    return {"written": len(said), "labels": each, "journal": journal}


def _has_refused(replica: Replica, said: Sequence[LabelRecord]) -> bool:
    """Return whether the learner would refuse one of these labels for its source."""
    with replica.lock:
        following = replica.following
        late = None if following is None else following.learner.late
        return late is not None and any(late.refused_sources([(one.id, one.source) for one in said]))


def _too_many_sources(source: str) -> str:
    return (
        f"the learner will refuse this label, because its source {source!r} is one too many: "
        f"{LIMIT_OF_SOURCES}, and a stream of {MOST_SOURCES_IN_ALL:,}"
    )


def _known(
    one: LabelRecord, said: Sequence[SourceLabel] | None, classes: Container[str], journal: int
) -> dict[str, Any]:
    state = held(said or (), journal)
    return {
        "id": one.id,
        "event_known": said is not None,
        "class_known": None if one.label is None else one.label in classes,
        "holds": None if state["label"] is None else {key: state[key] for key in ("label", "source", "ts")},
    }


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
        return stands()

    @app.get("/metrics", include_in_schema=False)
    async def metrics() -> Response:
        return Response(generate_latest(registry), media_type="text/plain; version=0.0.4")


def _event(model: QueryModel, given: Asking, place: int) -> Event:
    with told_as(ConfigError, f"event {place}", MalformedEvent, ConfigError, UnicodeEncodeError):
        return model.of_text(given) if isinstance(given, str) else model.of_object(given)


def _label_record(said: LabelRecord, place: int, schema: EventSchema, now: float) -> LabelRecord:
    """Return a label record as a learner will read it if the log records it now.

    Raises ConfigError, with its position, if it would be a dead letter or is invisible.
    """
    with told_as(ConfigError, f"label {place}", MalformedEvent, UnicodeEncodeError):
        checked = decode_label(encode_label(said), schema, now)
    assert isinstance(checked, LabelRecord)  # noqa: S101
    if said.label is not None and not is_visible(said.label):
        raise ConfigError(f"label {place}: {INVISIBLE}")
    return checked


def _number(replica: Replica, key: str) -> float:
    value = replica.state()[key]
    return math.nan if value is None else float(value)
