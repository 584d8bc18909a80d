"""HTTP path of events: check them, write them once, and wait for their predictions."""

from __future__ import annotations

import asyncio
import hashlib
import re
import time
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, Literal

import msgspec
from fastapi import FastAPI, Header, HTTPException, Query, Request, Response
from starlette.routing import Match, Route
from starlette.types import Scope

from streamnb.config import Config
from streamnb.engine.ports import NewRecord, WriteRequest
from streamnb.errors import MalformedEvent, Unavailable
from streamnb.events import Event
from streamnb.formats.codec import decode_events, record_key
from streamnb.formats.json_parsing import repeated_key
from streamnb.runtime import context
from streamnb.serving.access import name_of
from streamnb.serving.http_records import MOST_SCANNED, filtered_fields
from streamnb.serving.http_schemas import MOST_EVENTS, EventInputs, EventsWritten
from streamnb.serving.problem_details import ProblemError
from streamnb.serving.record_feed import Cursor, RecordFeed
from streamnb.serving.request_writer import RequestWriter

EVENTS_PATH = "/events"
_LINES = "application/x-ndjson"
_WRITE_SECONDS = 20.0  # to wait for the log
_STREAM_AT_ONCE = 500
_SOME_REFUSED, _CONFLICT, _INVALID, _NOT_READY = 207, 409, 422, 503
_KEY = r"^[\x21-\x7e]{1,255}$"


class _Body(msgspec.Struct, forbid_unknown_fields=True):
    events: Annotated[list[msgspec.Raw], msgspec.Meta(min_length=1, max_length=MOST_EVENTS)]
    keys: list[str] | None = None


_decode_body = msgspec.json.Decoder(_Body).decode
_decode_note = msgspec.json.Decoder(list[dict[str, Any]]).decode


class EventSending:
    """Checks the events of requests, writes them, and waits for their predictions.

    Args:
        config: of the learner.
        writer: writes to the log.
        predictions: the feed of predictions.
        learner: returns the state of the learner, such as "running".
    """

    def __init__(
        self, config: Config, writer: RequestWriter, predictions: RecordFeed, learner: Callable[[], str]
    ) -> None:
        self._config, self._writer, self._predictions = config, writer, predictions
        self._learner = learner
        self._schema = context.schema(config)
        self.topic = config.topics.events[0]

    def request(self, body: bytes, *, is_lines: bool, topic: str, key: str) -> WriteRequest:
        """Return the request of a body. Raises HTTPException for a body that has no list of events."""
        found = _of_lines(body) if is_lines else _of_json(body)
        if topic not in self._config.topics.events:
            known = ", ".join(self._config.topics.events)
            raise HTTPException(_INVALID, f"topic {topic!r} is not among topics.events: {known}")
        raws = [bytes(raw) for raw in found.events]
        keys = self._keys(found, len(raws))
        now = time.time()
        records, answers = [], []
        decoded = list(decode_events(raws, self._schema, keys, [now] * len(raws)).events())
        if (twice := repeated_key(b"[%b]" % b",".join(raws) if is_lines else body)) is not None:
            if all(repeated_key(raw) is None for raw in raws):
                raise ProblemError(400, f"the key {twice[:100]!r} comes twice in the body", "key-repeated")
            decoded = [_without_repetition(raw, event) for raw, event in zip(raws, decoded, strict=True)]
        for raw, given, event in zip(raws, keys, decoded, strict=True):
            if isinstance(event, MalformedEvent):
                answers.append({"reason": event.reason, "path": event.path, "detail": event.detail})
            else:
                by = record_key(event, self._schema) if given is None else given
                records.append(NewRecord(topic, by, raw))
                answers.append({"id": event.id})
        digest = hashlib.sha256(b"%b\0%b" % (topic.encode(), body)).hexdigest()
        return WriteRequest(records, key, digest, msgspec.json.encode(answers).decode())

    def _keys(self, found: _Body, n: int) -> Sequence[bytes | None]:
        """Return the keys of the records. Raises HTTPException if keys name entities, and there are none."""
        if found.keys is not None:
            if len(found.keys) != n:
                raise HTTPException(_INVALID, f"keys: expected one for each of {n} events")
            if self._schema.entity_path == "" and not all(found.keys):
                raise HTTPException(_INVALID, "keys: an empty key names no entity")
            return [key.encode() for key in found.keys]
        if self._schema.entity_path == "":
            raise HTTPException(
                _INVALID,
                "the key of a record names its entity: send `keys`, one for each event, or set events.entity",
            )
        return [None] * n

    async def send(self, request: WriteRequest, wait_seconds: float) -> Response:
        """Write a request, and return the answer when it is durable.

        Args:
            request: as `request` returns it.
            wait_seconds: how long to wait for the predictions; 0 does not wait.
        """
        if not request.records:
            return _answer(_decode_note(request.note.encode()), [], {})
        if request.key and self._config.log.is_kafka and not self._config.topics.requests:
            text = (
                'an Idempotency-Key needs a topic: set topics.requests, such as "requests", and run '
                "`streamnb topics create`; or send the events without a key"
            )
            raise ProblemError(_CONFLICT, text, "keys-not-kept")
        start = await self._predictions.end() if wait_seconds else None
        try:
            async with asyncio.timeout(_WRITE_SECONDS):
                outcome = await self._writer.write(request)
        except TimeoutError as error:
            raise Unavailable(_unknown(request)) from error
        except Unavailable as error:
            raise Unavailable(f"{error}; {_unknown(request)}") from error
        if outcome.places is None:
            key = request.key.partition(" ")[2]
            text = f"the Idempotency-Key {key!r} belongs to a request with another body"
            raise ProblemError(_CONFLICT, text, "key-reused")
        answers = _decode_note(outcome.note.encode())
        predictions: dict[str, deque[msgspec.Raw]] = {}
        if start is not None:
            ids = Counter(answer["id"] for answer in answers if "id" in answer)
            predictions = await self._predicted(ids, start, wait_seconds, is_repeated=outcome.is_repeated)
        headers = {"Idempotent-Replayed": "true"} if outcome.is_repeated else {}
        places = [(part.topic, part.number, offset) for part, offset in outcome.places]
        if start is None:
            return _answer(answers, places, headers)
        state = self._learner()
        is_late = state in {"silent", "stopped"} and not all(predictions.values())
        warning = f"the learner is {state}: it predicts these events when it runs" if is_late else ""
        return _answer(answers, places, headers, predictions, warning)

    async def _predicted(
        self, ids: Counter[str], start: Cursor, seconds: float, *, is_repeated: bool
    ) -> dict[str, deque[msgspec.Raw]]:
        """Return the first predictions of each id after a cursor, as published: one for each of its events.

        The events of a repeated request may have been predicted before: those in memory count, too.
        """
        feed, deadline = self._predictions, time.monotonic() + seconds
        found = {id_: deque[msgspec.Raw](maxlen=n) for id_, n in ids.items()}
        if is_repeated:
            for record in (await feed.newest(MOST_SCANNED)).records:
                if (id_ := filtered_fields(record).id) in ids:
                    found[id_].append(msgspec.Raw(record.value))
        cursor, missing = start, ids.total() - sum(map(len, found.values()))
        while missing > 0:
            page = await feed.after(cursor, _STREAM_AT_ONCE)
            for record in page.records:
                if (id_ := filtered_fields(record).id) in ids and len(found[id_]) < ids[id_]:
                    found[id_].append(msgspec.Raw(record.value))
                    missing -= 1
            if page.next == cursor:
                if (left := deadline - time.monotonic()) <= 0:
                    break
                await feed.wait(cursor, left)
            cursor = page.next
        return found


def _of_json(body: bytes) -> _Body:
    try:
        return _decode_body(body)
    except msgspec.ValidationError as error:
        raise HTTPException(_INVALID, f'expected {{"events": [...]}}: {error}') from error
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ProblemError(400, f"the body is not JSON: {error}", "invalid-json") from error


def _without_repetition(raw: bytes, event: Event | MalformedEvent) -> Event | MalformedEvent:
    """Return the event, or why it is refused if one of its objects has a key twice."""
    if isinstance(event, MalformedEvent) or (key := repeated_key(raw)) is None:
        return event
    return MalformedEvent("invalid-json", "$", f"the key {key[:100]!r} comes twice in one object")


def _of_lines(body: bytes) -> _Body:
    lines = [msgspec.Raw(line) for line in body.split(b"\n") if line.strip()]
    if not 1 <= len(lines) <= MOST_EVENTS:
        raise HTTPException(_INVALID, f"expected 1 to {MOST_EVENTS:,} lines with one event each")
    return _Body(lines)


def _unknown(request: WriteRequest) -> str:
    if request.key:
        return "the events may be written: send the request again with the same Idempotency-Key"
    return "the events may be written: with an Idempotency-Key a repetition would write nothing twice"


def _answer(
    answers: Sequence[dict[str, Any]],
    places: Sequence[tuple[str, int, int]],
    headers: Mapping[str, str],
    predictions: Mapping[str, deque[msgspec.Raw]] | None = None,
    warning: str = "",
) -> Response:
    """Return the outcome of each event; status 207 if some were refused, 422 if all were."""
    left = iter(places)
    for answer in answers:
        if "reason" not in answer:
            answer["topic"], answer["partition"], answer["offset"] = next(left)
            if predictions is not None:
                published = predictions[answer["id"]]
                answer["prediction"] = published.popleft() if published else None
    status = 200 if len(places) == len(answers) else _SOME_REFUSED if places else _INVALID
    if status == _INVALID:
        first = answers[0]
        text = f"no event was written: event 0: {first['detail']} ({first['reason']}, {first['path']})"
        raise ProblemError(_INVALID, text, "events-refused", {"events": answers})
    body = {"written": len(places), "events": answers} | ({"warning": warning} if warning else {})
    return Response(msgspec.json.encode(body), status, dict(headers), "application/json")


class _PlainRoute(Route):
    """`POST /events` without query parameters, past the parts of FastAPI that cost more than the events."""

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        return (Match.NONE, {}) if scope.get("query_string") else super().matches(scope)


def add_sending(app: FastAPI, sending: EventSending) -> None:
    """Add `POST /events`."""
    schema = {"schema": EventInputs.model_json_schema()}
    body = {"required": True, "content": {"application/json": schema}}  # generators refuse lines of JSON

    async def send(request: Request, topic: str = sending.topic, seconds: float = 0.0) -> Response:
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind not in {"application/json", _LINES}:
            text = f"send JSON with the header Content-Type: application/json, or lines with {_LINES}"
            raise HTTPException(415, text)
        key = request.headers.get("idempotency-key")
        if key is not None and not re.fullmatch(_KEY, key):
            raise HTTPException(_INVALID, "Idempotency-Key: expected 1 to 255 visible ASCII characters")
        own = f"{name_of(request.scope)} {key}" if key else ""  # the key belongs to this client
        content = await request.body()
        found = sending.request(content, is_lines=kind == _LINES, topic=topic, key=own)
        return await sending.send(found, seconds)

    async def send_plain(request: Request) -> Response:
        return await send(request)

    app.router.routes.append(_PlainRoute(EVENTS_PATH, send_plain, methods=["POST"], include_in_schema=False))

    @app.post(
        EVENTS_PATH,
        response_model=EventsWritten,
        responses={_SOME_REFUSED: {"model": EventsWritten, "description": "Some events were refused"}},
        openapi_extra={"requestBody": body},
    )
    async def send_events(
        request: Request,
        topic: str = sending.topic,
        wait: Literal["prediction"] | None = None,
        timeout: Annotated[float, Query(gt=0.0, le=30.0, description="seconds to wait")] = 5.0,  # noqa: ASYNC109
        idempotency_key: Annotated[str | None, Header(pattern=_KEY)] = None,  # noqa: ARG001  for OpenAPI
    ) -> Response:
        """Write events durably; the answer has the position of each, or why it was refused."""
        return await send(request, topic, timeout if wait else 0.0)
