"""HTTP paths of applications: send events, and read predictions and alerts as pages or as streams."""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Annotated, Any, Literal

import msgspec
from fastapi import FastAPI, Header, HTTPException, Path, Query, Request, Response
from fastapi.responses import StreamingResponse

from streamnb.config import Config
from streamnb.engine.ports import NewRecord, Record, WriteRequest
from streamnb.errors import LogError, MalformedEvent, Unavailable
from streamnb.formats.codec import decode_events, record_key
from streamnb.runtime import context
from streamnb.serving.http_schemas import MOST_EVENTS, EventInputs, EventsWritten, RecordsPage
from streamnb.serving.problem_details import ProblemError
from streamnb.serving.recent_records import RecentRecords
from streamnb.serving.record_feed import Cursor, Gap, Page, RecordFeed
from streamnb.serving.request_writer import RequestWriter

_LINES = "application/x-ndjson"
_WRITE_SECONDS = 20.0  # to wait for the log
_MOST_STREAMS = 64
_KEEP_ALIVE_SECONDS = 10.0
_STREAM_AT_ONCE = 500
_MOST_SCANNED = 20_000  # records that one page looks through
_SOME_REFUSED, _CONFLICT, _INVALID, _NOT_READY = 207, 409, 422, 503
_KEY = r"^[\x21-\x7e]{1,255}$"
_Label = Annotated[str | None, Query(alias="class", max_length=1000, description="only of this class")]
_Decision = Annotated[
    str | None, Query(max_length=1000, description='only of this decision; "none" for none')
]
_After = Annotated[str | None, Query(max_length=200_000, description="cursor: `next` of an answer")]
_NO_BUFFERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}  # of proxies


class _Body(msgspec.Struct, forbid_unknown_fields=True):
    events: Annotated[list[msgspec.Raw], msgspec.Meta(min_length=1, max_length=MOST_EVENTS)]
    keys: list[str] | None = None


class _FilteredFields(msgspec.Struct):
    """The fields of a prediction by which pages and streams are filtered."""

    id: str = ""
    label: str | None = None
    decision: str | msgspec.UnsetType | None = msgspec.UNSET


_decode_body = msgspec.json.Decoder(_Body).decode
_decode_head = msgspec.json.Decoder(_FilteredFields).decode
_decode_note = msgspec.json.Decoder(list[dict[str, Any]]).decode


class EventSending:
    """Checks the events of requests, writes them, and waits for their predictions.

    Args:
        config: of the learner.
        writer: writes to the log.
        predictions: the feed of predictions.
    """

    def __init__(self, config: Config, writer: RequestWriter, predictions: RecordFeed) -> None:
        self._config, self._writer, self._predictions = config, writer, predictions
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
        for raw, given, event in zip(
            raws, keys, decode_events(raws, self._schema, keys, [now] * len(raws)), strict=True
        ):
            if isinstance(event, MalformedEvent):
                answers.append({"reason": event.reason, "path": event.path, "detail": event.detail})
            else:
                records.append(NewRecord(topic, given or record_key(event, self._schema), raw))
                answers.append({"id": event.id})
        digest = hashlib.sha256(b"%b\0%b" % (topic.encode(), body)).hexdigest()
        return WriteRequest(records, key, digest, msgspec.json.encode(answers).decode())

    def _keys(self, found: _Body, n: int) -> Sequence[bytes | None]:
        """Return the keys of the records. Raises HTTPException if keys name entities, and there are none."""
        if found.keys is not None:
            if len(found.keys) != n:
                raise HTTPException(_INVALID, f"keys: expected one for each of {n} events")
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
            text = f"the Idempotency-Key {request.key!r} belongs to a request with another body"
            raise ProblemError(_CONFLICT, text, "key-reused")
        answers = _decode_note(outcome.note.encode())
        predictions = {}
        if start is not None:
            ids = {answer["id"] for answer in answers if "id" in answer}
            predictions = await self._predicted(ids, start, wait_seconds, is_repeated=outcome.is_repeated)
        headers = {"Idempotent-Replayed": "true"} if outcome.is_repeated else {}
        places = [(part.topic, part.number, offset) for part, offset in outcome.places]
        return _answer(answers, places, headers, predictions if start is not None else None)

    async def _predicted(
        self, ids: set[str], start: Cursor, seconds: float, *, is_repeated: bool
    ) -> dict[str, msgspec.Raw]:
        """Return the first prediction of each id after a cursor, as published.

        The events of a repeated request may have been predicted before: those in memory count, too.
        """
        feed, deadline = self._predictions, time.monotonic() + seconds
        found: dict[str, msgspec.Raw] = {}
        if is_repeated:
            for record in (await feed.newest(_MOST_SCANNED)).records:
                if (id_ := _head(record).id) in ids:
                    found[id_] = msgspec.Raw(record.value)
        cursor = start
        while len(found) < len(ids):
            page = await feed.after(cursor, _STREAM_AT_ONCE)
            for record in page.records:
                if (id_ := _head(record).id) in ids:
                    found.setdefault(id_, msgspec.Raw(record.value))
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
    predictions: Mapping[str, msgspec.Raw] | None = None,
) -> Response:
    """Return the outcome of each event; status 207 if some were refused, 422 if all were."""
    left = iter(places)
    for answer in answers:
        if "reason" not in answer:
            answer["topic"], answer["partition"], answer["offset"] = next(left)
            if predictions is not None:
                answer["prediction"] = predictions.get(answer["id"])
    status = 200 if len(places) == len(answers) else _SOME_REFUSED if places else _INVALID
    if status == _INVALID:
        first = answers[0]
        text = f"no event was written: event 0: {first['detail']} ({first['reason']}, {first['path']})"
        raise ProblemError(_INVALID, text, "events-refused", {"events": answers})
    body = msgspec.json.encode({"written": len(places), "events": answers})
    return Response(body, status, dict(headers), "application/json")


def _head(record: Record) -> _FilteredFields:
    """Return the filtered fields of a record; empty ones for a record that is not a prediction."""
    try:
        return _decode_head(record.value)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return _FilteredFields()


class _Filter(msgspec.Struct, frozen=True):
    """The records that a client wants: of one class, with one decision ("none": nothing was decided)."""

    label: str | None
    decision: str | None

    def admits(self, record: Record) -> bool:
        """Return whether a record is wanted."""
        if self.label is None and self.decision is None:
            return True
        head = _head(record)
        decided = "none" if head.decision is None else head.decision
        return self.label in {None, head.label} and self.decision in {None, decided}


class _Streams:
    """Server-sent events of one feed; see https://html.spec.whatwg.org/multipage/server-sent-events.html."""

    def __init__(self, feed: RecordFeed, event: str) -> None:
        self._feed, self._event = feed, event
        self._n = 0

    async def answer(self, cursor: Cursor | None, wanted: _Filter) -> Response:
        """Return a stream from a cursor on, or of what is published from now on.

        Raises Unavailable if there are too many streams.
        """
        if self._n >= _MOST_STREAMS:
            raise Unavailable(f"there are {_MOST_STREAMS} streams: close some, or ask again later")
        start = cursor or await self._feed.end()
        return StreamingResponse(self._events(start, wanted), 200, _NO_BUFFERS, "text/event-stream")

    async def _events(self, cursor: Cursor, wanted: _Filter) -> AsyncIterator[bytes]:
        self._n += 1
        try:
            yield b"retry: 1000\nid: %b\n\n" % str(cursor).encode()  # a client that breaks now loses nothing
            while not self._feed.is_over():
                try:
                    page = await self._feed.after(cursor, _STREAM_AT_ONCE)
                except LogError as error:
                    yield b": %b\n\n" % " ".join(str(error).split()).encode()
                    await asyncio.sleep(1.0)
                    continue
                if text := self._written(page, cursor, wanted):
                    yield text
                if page.next == cursor and not page.gaps:
                    await self._feed.wait(cursor, _KEEP_ALIVE_SECONDS)
                    if (await self._feed.end()) == cursor:
                        yield b"id: %b\n\n" % str(cursor).encode()
                cursor = page.next
        finally:
            self._n -= 1

    def _written(self, page: Page, cursor: Cursor, wanted: _Filter) -> bytes:
        """Return a page as events, each with the cursor after it."""
        parts = []
        if page.gaps:
            cursor = _after_gaps(cursor, page)
            parts = [_event("gap", cursor, msgspec.json.encode(gap._asdict())) for gap in page.gaps]
        for record in page.records:
            cursor = cursor.after([record])
            if wanted.admits(record):
                parts.append(_event(self._event, cursor, record.value))
        if page.records and not wanted.admits(page.records[-1]):
            parts.append(b"id: %b\n\n" % str(cursor).encode())
        return b"".join(parts)


def _after_gaps(cursor: Cursor, page: Page) -> Cursor:
    """Return the cursor at which the records of a page begin."""
    continues: dict[int, int] = {gap.partition: gap.continues for gap in page.gaps}
    offsets = [
        continues.get(number, cursor.offsets[number] if number < len(cursor.offsets) else 0)
        for number in range(len(page.next.offsets))
    ]
    return Cursor(page.next.topic_id, tuple(offsets))


def _event(name: str, cursor: Cursor, data: bytes) -> bytes:
    lines = b"\ndata: ".join(data.replace(b"\r", b"\n").split(b"\n"))
    return b"event: %b\nid: %b\ndata: %b\n\n" % (name.encode(), str(cursor).encode(), lines)


def add_sending(app: FastAPI, sending: EventSending) -> None:
    """Add `POST /events`."""
    body = {
        "required": True,
        "content": {
            "application/json": {"schema": EventInputs.model_json_schema()},
            _LINES: {"schema": {"type": "string"}},
        },
    }

    @app.post(
        "/events",
        response_model=EventsWritten,
        responses={_SOME_REFUSED: {"model": EventsWritten, "description": "Some events were refused"}},
        openapi_extra={"requestBody": body},
    )
    async def send_events(
        request: Request,
        topic: str = sending.topic,
        wait: Literal["prediction"] | None = None,
        timeout: Annotated[float, Query(gt=0.0, le=30.0, description="seconds to wait")] = 5.0,  # noqa: ASYNC109
        idempotency_key: Annotated[str, Header(pattern=_KEY)] = "",
    ) -> Response:
        """Write events durably; the answer has the position of each, or why it was refused."""
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind not in {"application/json", _LINES}:
            text = f"send JSON with the header Content-Type: application/json, or lines with {_LINES}"
            raise HTTPException(415, text)
        content = await request.body()
        found = sending.request(content, is_lines=kind == _LINES, topic=topic, key=idempotency_key)
        return await sending.send(found, timeout if wait else 0.0)


def add_records(app: FastAPI, name: str, feed: RecordFeed, watch: RecentRecords | None) -> None:
    """Add the pages and streams of one topic: `GET /NAME`, `GET /NAME/stream`, and `GET /predictions/ID`.

    Args:
        app: the application.
        name: "predictions" or "alerts".
        feed: follows the topic.
        watch: has the newest predictions by id.
    """
    streams = _Streams(feed, name.removesuffix("s"))
    is_predictions = name == "predictions"

    def wanted(label: str | None, decision: str | None) -> _Filter:
        if not is_predictions and (label, decision) != (None, None):
            raise HTTPException(_INVALID, "class, decision: only predictions have them")
        return _Filter(label, decision)

    @app.get(f"/{name}", response_model=RecordsPage, name=f"list_{name}")
    async def page(
        after: _After = None,
        label: _Label = None,
        decision: _Decision = None,
        limit: Annotated[int, Query(ge=1, le=1000)] = 100,
    ) -> Response:
        """Return records after a cursor, oldest first; without a cursor the newest ones."""
        found = await _page(feed, after, wanted(label, decision), limit)
        body = {
            name: [msgspec.Raw(record.value) for record in found.records],
            "next": str(found.next),
            "gaps": [gap._asdict() for gap in found.gaps],
        }
        return Response(msgspec.json.encode(body), media_type="application/json")

    @app.get(
        f"/{name}/stream",
        name=f"stream_{name}",
        response_class=StreamingResponse,
        responses={200: {"content": {"text/event-stream": {"schema": {"type": "string"}}}}},
    )
    async def stream(
        after: _After = None,
        label: _Label = None,
        decision: _Decision = None,
        last_event_id: Annotated[str | None, Header(max_length=200_000)] = None,
    ) -> Response:
        """Stream records as server-sent events, from the cursor or Last-Event-ID on."""
        text = last_event_id or after
        return await streams.answer(Cursor.parse(text) if text else None, wanted(label, decision))

    if watch is None or not is_predictions:
        return

    @app.get("/predictions/{id:text}", name="get_prediction")
    async def one(id_: Annotated[str, Path(alias="id", min_length=1, max_length=1000)]) -> Response:
        """Return the newest prediction of an event, as published."""
        with watch.lock:
            raw = watch.published(id_)
        if raw is None:
            text = (
                f"no prediction of {id_[:100]!r} is among the newest {watch.n_seen:,}: it has not been "
                "published yet, or is older: `streamnb explain --id` looks in the log"
            )
            raise ProblemError(404, text, "unknown-event")
        return Response(raw, media_type="application/json")


async def _page(feed: RecordFeed, after: str | None, wanted: _Filter, limit: int) -> Page:
    """Return a page of wanted records; it ends early after many unwanted ones, and then `next` continues."""
    if not after:
        newest = await feed.newest(_MOST_SCANNED)
        return newest._replace(records=[one for one in newest.records if wanted.admits(one)][-limit:])
    cursor = Cursor.parse(after)
    records: list[Record] = []
    gaps: list[Gap] = []
    scanned = 0
    while len(records) < limit and scanned < _MOST_SCANNED:
        page = await feed.after(cursor, limit)
        gaps += page.gaps
        if page.gaps:
            cursor = _after_gaps(cursor, page)
        scanned += len(page.records)
        for record in page.records:
            if len(records) == limit:
                return Page(records, gaps, cursor)
            cursor = cursor.after([record])
            if wanted.admits(record):
                records.append(record)
        if not page.records:
            break
    return Page(records, gaps, cursor)
