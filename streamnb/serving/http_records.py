"""HTTP paths of records: pages and streams of predictions, alarms and labels, by a cursor."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from typing import Annotated

import msgspec
from fastapi import FastAPI, Header, HTTPException, Path, Query, Request, Response
from fastapi.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from streamnb.engine.ports import Record
from streamnb.errors import LogError, Unavailable
from streamnb.serving.http_schemas import AlertsPage, LabelsPage, PredictionRecord, PredictionsPage
from streamnb.serving.problem_details import ProblemError
from streamnb.serving.recent_records import RecentRecords
from streamnb.serving.record_feed import Cursor, Gap, Page, RecordFeed

_NOT_FOUND, _INVALID = 404, 422
MOST_SCANNED = 20_000
"""Records that one page looks through."""
_MOST_STREAMS = 64
_MOST_LATEST = 2000  # predictions that the live page's memory may not have yet
_KEEP_ALIVE_SECONDS = 10.0
_STREAM_AT_ONCE = 500
_PAUSE_SECONDS = 0.02  # between two looks at a log that is ahead of the feed
_Label = Annotated[str | None, Query(alias="class", max_length=1000, description="only of this class")]
_Decision = Annotated[
    str | None, Query(max_length=1000, description='only of this decision; "none" for none')
]
_After = Annotated[str | None, Query(max_length=200_000, description="cursor: `next` of an answer")]
_NO_BUFFERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}  # in proxies


class _FilteredFields(msgspec.Struct):
    """The fields of a prediction by which pages and streams are filtered."""

    id: str = ""
    label: str | None = None
    decision: str | msgspec.UnsetType | None = msgspec.UNSET


_decode_object = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_decode_fields = msgspec.json.Decoder(_FilteredFields).decode


def filtered_fields(record: Record) -> _FilteredFields:
    """Return the filtered fields of a record; empty ones for a record that is not a prediction."""
    try:
        return _decode_fields(record.value)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return _FilteredFields()


class _Filter(msgspec.Struct, frozen=True):
    """The records that a client wants: of one class, with one decision ("none": nothing was decided)."""

    label: str | None
    decision: str | None

    @property
    def is_selective(self) -> bool:
        """True unless every record is wanted."""
        return (self.label, self.decision) != (None, None)

    def admits(self, record: Record) -> bool:
        """Return whether a record is wanted."""
        if not self.is_selective:
            return True
        head = filtered_fields(record)
        decided = "none" if head.decision is None else head.decision
        return self.label in {None, head.label} and self.decision in {None, decided}


class OpenStreams:
    """The number of open streams of all topics, from the decision to answer until the connection ends."""

    def __init__(self) -> None:
        self._n = 0

    def add(self) -> None:
        """Count one more. Raises Unavailable if there are too many."""
        if self._n >= _MOST_STREAMS:
            raise Unavailable(f"there are {_MOST_STREAMS} streams: close some, or ask again later")
        self._n += 1

    def remove(self) -> None:
        """Count one less."""
        self._n -= 1


class _StreamResponse(StreamingResponse):
    """A counted stream. It ends here also if its client has gone before the first byte."""

    def __init__(self, content: AsyncIterator[bytes], streams: OpenStreams) -> None:
        super().__init__(content, 200, _NO_BUFFERS, "text/event-stream")
        self._streams = streams

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._streams.remove()


class _Streams:
    """Server-sent events of one feed; see https://html.spec.whatwg.org/multipage/server-sent-events.html."""

    def __init__(self, feed: RecordFeed, event: str, streams: OpenStreams) -> None:
        self._feed, self._event, self._streams = feed, event, streams

    async def answer(self, cursor: Cursor | None, wanted: _Filter) -> Response:
        """Return a stream from a cursor on, or of what is published from now on.

        Raises Unavailable if there are too many streams.
        """
        start = cursor or await self._feed.end()
        self._streams.add()
        return _StreamResponse(self._events(start, wanted), self._streams)

    async def _events(self, cursor: Cursor, wanted: _Filter) -> AsyncIterator[bytes]:
        yield b"retry: 1000\nid: %b\n\n" % str(cursor).encode()  # a client that breaks now loses nothing
        while not self._feed.is_over():
            try:
                page = await self._feed.after(cursor, _STREAM_AT_ONCE)
                if text := self._written(page, cursor, wanted):
                    yield text
                if page.next == cursor and not page.gaps:
                    await self._feed.wait(cursor, _KEEP_ALIVE_SECONDS)
                    if (await self._feed.end()) == cursor:
                        yield b"id: %b\n\n" % str(cursor).encode()
                    else:
                        await asyncio.sleep(_PAUSE_SECONDS)
                cursor = page.next
            except LogError as error:
                yield b": %b\n\n" % " ".join(str(error).split()).encode()
                await asyncio.sleep(1.0)

    def _written(self, page: Page, cursor: Cursor, wanted: _Filter) -> bytes:
        """Return a page as events, each with the cursor after it."""
        parts = []
        if page.gaps:
            cursor = _after_gaps(cursor, page)
            parts = [_event("gap", cursor, msgspec.json.encode(gap._asdict())) for gap in page.gaps]
        for record in page.records:
            cursor = cursor.after([record])
            if wanted.admits(record):
                value = readable(record)
                name = self._event if value is record.value else "unreadable"
                parts.append(_event(name, cursor, value))
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


def add_records(
    app: FastAPI, name: str, feed: RecordFeed, watch: RecentRecords | None, open_streams: OpenStreams
) -> None:
    """Add the pages and streams of one topic: `GET /NAME`, `GET /stream/NAME`, and `GET /predictions/ID`.

    Args:
        app: the application.
        name: "predictions", "alerts" or "labels".
        feed: follows the topic.
        watch: has the newest predictions by id.
        open_streams: counts the streams of all topics.
    """
    streams = _Streams(feed, name.removesuffix("s"), open_streams)
    is_predictions = name == "predictions"
    pages = {"predictions": PredictionsPage, "alerts": AlertsPage, "labels": LabelsPage}

    def wanted(label: str | None, decision: str | None) -> _Filter:
        if not is_predictions and (label, decision) != (None, None):
            raise HTTPException(_INVALID, "class, decision: only predictions have them")
        return _Filter(label, decision)

    @app.get(f"/{name}", response_model=pages[name], name=f"list_{name}")
    async def page(
        after: _After = None,
        label: _Label = None,
        decision: _Decision = None,
        limit: Annotated[int, Query(ge=1, le=1000)] = 100,
    ) -> Response:
        """Return records after a cursor, oldest first; without a cursor the newest ones."""
        found = await _page(feed, after, wanted(label, decision), limit)
        body = {
            name: [msgspec.Raw(value) for value in map(readable, found.records)],
            "next": str(found.next),
            "gaps": [gap._asdict() for gap in found.gaps],
        }
        return Response(msgspec.json.encode(body), media_type="application/json")

    @app.get(
        f"/stream/{name}",
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

    if watch is not None and is_predictions:

        @app.get("/predictions/{id:text}", name="get_prediction", response_model=PredictionRecord)
        async def one(id_: Annotated[str, Path(alias="id", min_length=1, max_length=1000)]) -> Response:
            """Return the newest prediction of an event, as published."""
            return Response(await newest_prediction(feed, watch, id_), media_type="application/json")


async def newest_prediction(feed: RecordFeed, watch: RecentRecords, id_: str) -> bytes:
    """Return the newest prediction of an event, as published. Raises ProblemError if there is none."""
    start = b'{"id":%b,' % msgspec.json.encode(id_)  # as every prediction starts
    found = await feed.find(start, _MOST_LATEST)
    raw = None if found is None else found.value
    if raw is None:
        with watch.lock:
            raw = watch.published(id_)
    if raw is None:
        text = (
            f"no prediction of {id_[:100]!r} is among the newest {watch.n_seen:,}: it has not been "
            "published yet, or is older: `streamnb explain --id ID` looks in the log"
        )
        raise ProblemError(_NOT_FOUND, text, "unknown-event")
    return raw


def readable(record: Record) -> bytes:
    """Return the JSON object of a record; for a record that is not one, an object with its beginning."""
    try:
        _decode_object(record.value)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return msgspec.json.encode({"unreadable": record.value.decode(errors="backslashreplace")[:200]})
    return record.value


def add_missing(app: FastAPI, names: Iterable[str]) -> None:
    """Answer 404 for topics that are not configured, with the key that configures them."""

    async def missing(request: Request) -> Response:
        key = "topics." + request.url.path.rpartition("/")[2]
        raise ProblemError(_NOT_FOUND, f"{key} is not set: set it for the learner and for this server")

    for name in names:
        app.get(f"/{name}", include_in_schema=False)(missing)
        app.get(f"/stream/{name}", include_in_schema=False)(missing)


async def _page(feed: RecordFeed, after: str | None, wanted: _Filter, limit: int) -> Page:
    """Return a page of wanted records; it ends early after many unwanted ones, and then `next` continues."""
    if not after:
        newest = await feed.newest(MOST_SCANNED if wanted.is_selective else limit)
        return newest._replace(records=[one for one in newest.records if wanted.admits(one)][-limit:])
    cursor = Cursor.parse(after)
    records: list[Record] = []
    gaps: list[Gap] = []
    scanned = 0
    while len(records) < limit and scanned < MOST_SCANNED:
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
