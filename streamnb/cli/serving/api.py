"""What is asked over HTTP, and what is answered; FastAPI describes it as OpenAPI at /openapi.json."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Annotated, Any

from fastapi import FastAPI, HTTPException, Path, Request, Response
from fastapi.responses import JSONResponse
from prometheus_client import CollectorRegistry, Counter, Gauge, generate_latest
from pydantic import BaseModel, ConfigDict, Field

from streamnb.cli.answers import explained, known_of
from streamnb.cli.asked import Asked
from streamnb.cli.serving.replica import Replica
from streamnb.errors import ConfigError, LogError, MalformedEvent, SnapshotError, StreamnbError
from streamnb.events import Event, Verdict
from streamnb.wire.codec import UNNAMED, decode_label, encode_verdict

__all__ = ["MOST_EVENTS", "application", "metrics_of"]

MOST_EVENTS = 1000
"""Events, or labels, in one request."""
_Asking = str | dict[str, Any]
_NOT_FOUND, _CONFLICT, _WRONG, _NOT_READY = 404, 409, 422, 503
_STRICT = ConfigDict(extra="forbid", strict=True)


class Question(BaseModel):
    """Events to be predicted: texts, or objects as on the events topic; ids may be left out."""

    model_config = _STRICT
    events: Annotated[list[_Asking], Field(min_length=1, max_length=MOST_EVENTS)]


class Predicted(BaseModel):
    """What the model says of one event."""

    id: str | None
    label: str
    probability: float
    probabilities: dict[str, float]


class Answer(BaseModel):
    """Predictions in the order of the events, by the model after one journal record."""

    predictions: list[Predicted]
    journal: int


class Why(BaseModel):
    """An event whose prediction is to be explained, against the next label or a given one."""

    model_config = _STRICT
    event: _Asking
    against: str | None = None
    top: Annotated[int, Field(ge=1, le=1000)] = 10


class Said(BaseModel):
    """A verdict: the label of an event, or null to take back what the source said."""

    model_config = _STRICT
    id: str
    label: str | None
    source: str = UNNAMED
    weight: float = 1.0
    ts: float | None = None


class Verdicts(BaseModel):
    """Verdicts to be written to the topic of labels."""

    model_config = _STRICT
    labels: Annotated[list[Said], Field(min_length=1, max_length=MOST_EVENTS)]


class Written(BaseModel):
    """How many verdicts were written; they are durable, and the learner takes them from there."""

    written: int


class Problem(BaseModel):
    """Why there is no answer."""

    detail: str


_PROBLEMS: dict[int | str, dict[str, Any]] = {
    code: {"model": Problem} for code in (401, 403, 408, 413, _WRONG, 429, _NOT_READY)
}


def application(
    replica: Replica, registry: CollectorRegistry, write: Callable[[list[Verdict]], None] | None
) -> FastAPI:
    """The application.

    Args:
        replica: is asked.
        registry: of /metrics.
        write: writes verdicts durably; None where there is no topic of labels.
    """
    app = FastAPI(title="streamnb", docs_url=None, redoc_url=None, responses=_PROBLEMS)

    @app.exception_handler(StreamnbError)
    def refused(_: Request, error: StreamnbError) -> JSONResponse:
        code = _NOT_READY if isinstance(error, (SnapshotError, LogError)) else _WRONG
        return JSONResponse({"detail": str(error)}, code)

    _ask(app, replica)
    _say(app, write)
    _watch(app, replica, registry)
    return app


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
    """The paths that ask the model."""

    @contextmanager
    def asked() -> Iterator[Asked]:
        with replica.lock:
            yield replica.asked()

    @app.post("/predict")
    def predict(question: Question) -> Answer:
        """Predict events; nothing is learned of them."""
        with asked() as model:
            events = [_event(model, given, place) for place, given in enumerate(question.events)]
            said, journal = model.predicted(events), replica.state()["journal"]
        found = [
            Predicted(
                id=_id(event),
                label=(label := next(iter(one))),
                probability=one[label],
                probabilities=one,
            )
            for event, one in zip(events, said, strict=True)
        ]
        return Answer(predictions=found, journal=journal)

    @app.post("/explain")
    def explain(why: Why) -> dict[str, Any]:
        """What speaks for the label of an event, with counts, and what would turn it."""
        with asked() as model:
            return explained(model, _event(model, why.event, 0), why.against, why.top)

    @app.get("/tokens/{word}")
    def tokens(word: Annotated[str, Path(min_length=1, max_length=1000)]) -> dict[str, Any]:
        """What the model knows of one word or value."""
        with asked() as model:
            return known_of(model, word)

    @app.get("/model")
    def model() -> dict[str, Any]:
        """What the model is, and where it stands."""
        with asked() as model:
            weights = {str(label): weight for label, weight in model.model.class_weights.items()}
            attributes = model.model.n_attributes
        return {"classes": weights, "attributes": attributes, **replica.state()}


def _say(app: FastAPI, write: Callable[[list[Verdict]], None] | None) -> None:
    """The path that writes."""

    @app.post("/labels")
    def labels(verdicts: Verdicts) -> Written:
        """Say what events are, late, or otherwise than before."""
        if write is None:
            raise HTTPException(_CONFLICT, "topics.labels is not set: no learner would read them")
        found = [_verdict(one, place) for place, one in enumerate(verdicts.labels)]
        write(found)
        return Written(written=len(found))


def _watch(app: FastAPI, replica: Replica, registry: CollectorRegistry) -> None:
    """The paths of whoever watches it."""

    @app.get("/live", include_in_schema=False)
    def live() -> dict[str, Any]:
        return dict(replica.state())

    @app.get("/ready", include_in_schema=False)
    def ready(response: Response) -> dict[str, Any]:
        response.status_code = 200 if replica.is_ready else _NOT_READY
        return dict(replica.state())

    @app.get("/metrics", include_in_schema=False)
    def metrics() -> Response:
        return Response(generate_latest(registry), media_type="text/plain; version=0.0.4")


def _event(model: Asked, given: _Asking, place: int) -> Event:
    """Raises HTTPException with the place of what is no event."""
    try:
        return model.of_text(given) if isinstance(given, str) else model.of_object(given)
    except (MalformedEvent, ConfigError, UnicodeEncodeError) as error:
        raise HTTPException(_WRONG, f"event {place}: {error}") from error


def _id(event: Event) -> str | None:
    return None if event.id == "-" else event.id


def _verdict(said: Said, place: int) -> Verdict:
    try:
        checked = decode_label(
            encode_verdict(Verdict(said.id, said.label, said.source, said.weight, said.ts))
        )
    except (MalformedEvent, UnicodeEncodeError) as error:
        raise HTTPException(_WRONG, f"label {place}: {error}") from error
    assert isinstance(checked, Verdict)  # noqa: S101
    return checked


def _number(replica: Replica, key: str) -> float:
    value = replica.state()[key]
    return math.nan if value is None else float(value)
