"""What is asked over HTTP, and what is answered; FastAPI describes it as OpenAPI at /openapi.json."""

from __future__ import annotations

import json
import math
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from functools import partial
from importlib.metadata import version
from typing import Annotated, Any
from urllib.parse import unquote_to_bytes

import anyio
from anyio import CapacityLimiter
from anyio.to_thread import run_sync
from fastapi import FastAPI, HTTPException, Path, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from prometheus_client import CollectorRegistry, Counter, Gauge, generate_latest
from pydantic import BaseModel, ConfigDict, Field, model_validator
from starlette.convertors import Convertor, register_url_convertor

from streamnb.cli.answers import explained, held, known_of
from streamnb.cli.asked import Asked, readiness
from streamnb.cli.serving.page import Writing, add_pages
from streamnb.cli.serving.replica import Replica
from streamnb.cli.serving.short import PATH, answered
from streamnb.cli.serving.views import SOURCE
from streamnb.cli.serving.watch import Watch
from streamnb.errors import ConfigError, LogError, MalformedEvent, SnapshotError, StreamnbError, told_as
from streamnb.events import Event, Verdict
from streamnb.model.attributes.weights import HEAVIEST
from streamnb.wire.codec import UNNAMED, decode_label, encode_verdict

MOST_EVENTS = 1000
"""Events, or labels, in one request."""
_Asking = str | dict[str, Any]
_UNREADABLE, _NOT_FOUND, _CONFLICT, _WRONG, _NOT_READY = 400, 404, 409, 422, 503
_STRICT = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)
_LABELS_SECONDS = 5.0  # to wait for others that write labels
_MOST_EXPLAINED = 32 << 10  # characters
_MOST_KEYS = 20
_MOST_SAID = 500  # characters of what is wrong


class _Text(Convertor[str]):
    """Any text, a newline within it or at its end, too, which that of `path` would leave out."""

    regex = "(?s:.*)"

    def convert(self, value: str) -> str:
        return value

    to_string = convert


register_url_convertor("text", _Text())


class _Asked(BaseModel):
    """Something with few keys, so that not each of a million wrong ones is complained about."""

    model_config = _STRICT

    @model_validator(mode="before")
    @classmethod
    def _few(cls, given: Any) -> Any:
        if isinstance(given, dict) and len(given) > _MOST_KEYS:
            raise ValueError(f"expected at most {_MOST_KEYS} keys, found {len(given):,}")
        return given


class Question(_Asked):
    """Events to be predicted: texts, or objects as on the events topic; ids may be left out."""

    events: Annotated[list[_Asking], Field(min_length=1, max_length=MOST_EVENTS, fail_fast=True)]


class Predicted(BaseModel):
    """What the model says of one event; with a warning, where it has learned nothing that the event has.

    What to decide of it, where the configuration says what mistakes cost; null is nothing.
    """

    id: str | None
    label: str
    probability: float
    probabilities: dict[str, float]
    unseen: float
    decision: str | None = None
    expected_cost: float | None = None
    rejected: str | None = None
    novelty: float | None = None
    warning: str | None = None


class Answer(BaseModel):
    """Predictions in the order of the events, by the model after one journal record."""

    predictions: list[Predicted]
    journal: int


class Why(_Asked):
    """An event whose prediction is to be explained, against the next label or a given one."""

    event: _Asking
    against: str | None = None
    top: Annotated[int, Field(ge=1, le=1000)] = 10


_Name = Annotated[str, Field(min_length=1, max_length=1000)]


class Said(_Asked):
    """A verdict: the label of an event, or null to take back what the source said."""

    id: _Name
    label: _Name | None
    source: _Name = UNNAMED
    weight: Annotated[float, Field(ge=0.0, le=HEAVIEST)] = 1.0
    ts: float | None = None


class Verdicts(_Asked):
    """Verdicts to be written to the topic of labels."""

    labels: Annotated[list[Said], Field(min_length=1, max_length=MOST_EVENTS, fail_fast=True)]


class Written(BaseModel):
    """How many verdicts were written; they are durable, and the learner takes them from there."""

    written: int


class Statement(BaseModel):
    """What one source says of an event, and when; a label of null takes back what it said."""

    label: str | None
    source: str
    ts: float


class Held(BaseModel):
    """Which label holds of an event after one journal record, and what others said; null where none does."""

    label: str | None
    source: str | None
    ts: float | None
    journal: int
    others: list[Statement]


class Problem(BaseModel):
    """Why there is no answer."""

    detail: str


_PROBLEMS: dict[int | str, dict[str, Any]] = {
    code: {"model": Problem}
    for code in (_UNREADABLE, 401, 403, _NOT_FOUND, 408, _CONFLICT, 413, _WRONG, 429, _NOT_READY)
}


def application(
    replica: Replica,
    registry: CollectorRegistry,
    write: Callable[[list[Verdict]], object] | None,
    watch: Watch | None = None,
    replay: Callable[[], str] | None = None,
) -> FastAPI:
    """The application.

    Args:
        replica: is asked.
        registry: of /metrics.
        write: writes verdicts durably; None where there is no topic of labels.
        watch: of the live page; None where there is no such page.
        replay: sends dead letters once more, and says what became of them.
    """
    app = FastAPI(
        title="streamnb", version=version("streamnb"), docs_url=None, redoc_url=None, responses=_PROBLEMS
    )

    @app.exception_handler(StreamnbError)
    async def refused(_: Request, error: StreamnbError) -> JSONResponse:
        return _problem(_NOT_READY if isinstance(error, (SnapshotError, LogError)) else _WRONG, str(error))

    @app.exception_handler(_UNREADABLE)
    async def unreadable(_: Request, __: Exception) -> JSONResponse:
        told = "expected JSON in UTF-8, not compressed; how deep it is nested, and digits, have a limit"
        return _problem(_UNREADABLE, f"the body cannot be read: {told}")

    @app.exception_handler(RequestValidationError)
    async def invalid(request: Request, error: RequestValidationError) -> JSONResponse:
        first = error.errors()[0]
        is_json = "json" in request.headers.get("content-type", "")
        how = "" if is_json else "; send JSON, with the header Content-Type: application/json"
        return _problem(_WRONG, f"{'.'.join(map(str, first['loc']))}: {first['msg']}{how}")

    _ask(app, replica)
    put = _say(app, write)
    _watch(app, replica, registry)
    if watch is not None:

        async def say(id_: str, label: str) -> None:
            await put([Verdict(id_, label, SOURCE)])

        add_pages(app, watch, replica, Writing(say if write else None, replay))
    return app


def _problem(code: int, why: str) -> JSONResponse:
    """What is wrong, short, and without what it quotes of a request that no UTF-8 can hold."""
    return JSONResponse({"detail": why.encode(errors="backslashreplace").decode()[:_MOST_SAID]}, code)


def metrics_of(replica: Replica) -> tuple[CollectorRegistry, Callable[[str, int], None]]:
    """Where a replica stands, for Prometheus; and what counts an answer, by its path and status."""
    registry = CollectorRegistry()
    for name, key, what in (
        ("journal_record", "journal", "The last journal record that the replica followed."),
        ("learned_events", "learned", "Events that its model has learned."),
        ("commit_age_seconds", "seconds_since_commit", "How old that record is."),
        ("look_age_seconds", "seconds_since_look", "Since it last was at the journal's end."),
    ):
        gauge = Gauge(f"streamnb_replica_{name}", what, registry=registry)
        gauge.set_function(partial(_number, replica, key))
    told = "Requests that were answered, or refused."
    answers = Counter("streamnb_replica_requests", told, ("path", "code"), registry=registry)
    return registry, lambda path, code: answers.labels(path, str(code)).inc()


def _ask(app: FastAPI, replica: Replica) -> None:
    """The paths that ask the model; short questions seldom come here, see `short`."""

    @contextmanager
    def asked() -> Iterator[Asked]:
        with replica.lock:
            yield replica.asked()

    @app.post(PATH, response_model=Answer)
    def predict(question: Question) -> Response:
        """Predict events; nothing is learned of them."""
        with asked() as model:
            events = [_event(model, given, place) for place, given in enumerate(question.events)]
            answer = answered(model, replica.stands, events)
        return Response(answer, media_type="application/json")

    @app.post("/explain")
    def explain(why: Why) -> dict[str, Any]:
        """What speaks for the label of an event, with counts, and what would turn it."""
        size = len(why.event if isinstance(why.event, str) else json.dumps(why.event))
        if size > _MOST_EXPLAINED:
            told = f"an event of {size:,} characters, more than {_MOST_EXPLAINED:,}, keeps others waiting"
            raise HTTPException(_WRONG, f"{told}: ask `streamnb explain`")
        with asked() as model:
            event = _event(model, why.event, 0)
            warning = model.strange(event)
            return explained(model, event, why.against, why.top) | ({"warning": warning} if warning else {})

    @app.get("/tokens/{word:text}")
    def tokens(word: Annotated[str, Path(min_length=1, max_length=1000)]) -> dict[str, Any]:
        """What the model knows of one word or value."""
        with asked() as model:
            return known_of(model, word)

    @app.get("/labels/{id:text}", response_model=Held)
    def label(
        request: Request, id_: Annotated[str, Path(alias="id", min_length=1, max_length=1000)]
    ) -> Held | Response:
        """Which label holds of the newest event of this id, who said so, and what others said."""
        try:
            unquote_to_bytes(request.scope.get("raw_path", b"")).decode()
        except UnicodeDecodeError:
            return _problem(_UNREADABLE, "the id in the path is not UTF-8")
        with asked():
            return Held(**_held(replica, id_))

    @app.get("/model")
    def model() -> dict[str, Any]:
        """What the model is, and where it stands."""
        with asked() as model:
            weights = {str(label): weight for label, weight in model.model.class_weights.items()}
            attributes, ready = model.model.n_attributes, readiness(weights, model.min_learns)
        return {"classes": weights, "attributes": attributes, **ready, **replica.state()}


def _held(replica: Replica, event_id: str) -> dict[str, Any]:
    """Which label holds. Raises HTTPException where no label comes apart, and of an event that is gone."""
    following = replica.following
    assert following is not None  # noqa: S101  it was asked
    late = following.learner.late
    if late is None:
        raise HTTPException(_CONFLICT, "topics.labels is not set: labels come in their events alone")
    said = late.said_of(event_id)
    if said is None:
        waits = "a label waits for it" if late.labels_before(event_id) else "nor did a label"
        forgotten = "was forgotten, or " if following.checkpoint.origin.floor >= 0 else ""
        raise HTTPException(
            _NOT_FOUND,
            f"no event of this id has come by journal record {following.checkpoint.n}, and {waits}; or it "
            f"{forgotten}is kept no longer (labels.window, labels.memory): "
            "`streamnb explain --id` looks in the log",
        )
    return held(said, following.checkpoint.n)


def _say(
    app: FastAPI, write: Callable[[list[Verdict]], object] | None
) -> Callable[[list[Verdict]], Awaitable[None]]:
    """The path that writes; one at a time, so that a log that stands takes no thread of those who ask."""
    one_writes = CapacityLimiter(1)

    async def put(said: list[Verdict]) -> None:
        if write is None:
            raise HTTPException(_CONFLICT, "topics.labels is not set: no learner would read them")
        found = [_verdict(one, place) for place, one in enumerate(said)]
        try:
            with anyio.fail_after(_LABELS_SECONDS):
                await run_sync(write, found, limiter=one_writes)
        except TimeoutError as error:
            raise LogError("the log is busy with labels of others; none was written: ask again") from error

    @app.post("/labels")
    async def labels(verdicts: Verdicts) -> Written:
        """Say what events are, late, or otherwise than before."""
        await put([Verdict(**one.model_dump()) for one in verdicts.labels])
        return Written(written=len(verdicts.labels))

    return put


def _watch(app: FastAPI, replica: Replica, registry: CollectorRegistry) -> None:
    """The paths of whoever watches it; they wait for no thread of those who ask."""

    @app.get("/live", include_in_schema=False)
    async def live(response: Response) -> dict[str, Any]:
        response.status_code = 200 if replica.is_alive else _NOT_READY
        return dict(replica.state())

    @app.get("/ready", include_in_schema=False)
    async def ready(response: Response) -> dict[str, Any]:
        response.status_code = 200 if replica.is_ready else _NOT_READY
        return dict(replica.state())

    @app.get("/metrics", include_in_schema=False)
    async def metrics() -> Response:
        return Response(generate_latest(registry), media_type="text/plain; version=0.0.4")


def _event(model: Asked, given: _Asking, place: int) -> Event:
    """Raises ConfigError with the place of what is no event."""
    with told_as(ConfigError, f"event {place}", MalformedEvent, ConfigError, UnicodeEncodeError):
        return model.of_text(given) if isinstance(given, str) else model.of_object(given)


def _verdict(said: Verdict, place: int) -> Verdict:
    """As it is read back. Raises ConfigError with the place of what is no verdict."""
    with told_as(ConfigError, f"label {place}", MalformedEvent, UnicodeEncodeError):
        checked = decode_label(encode_verdict(said))
    assert isinstance(checked, Verdict)  # noqa: S101
    return checked


def _number(replica: Replica, key: str) -> float:
    value = replica.state()[key]
    return math.nan if value is None else float(value)
