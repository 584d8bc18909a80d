"""The question that is asked most, one short text, answered without what FastAPI does for any request."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec

from streamnb.errors import StreamnbError
from streamnb.events import Event
from streamnb.queries.answers import predicted_answers
from streamnb.queries.query_model import QueryModel
from streamnb.serving.limits import Message, Receive, Send, given_once
from streamnb.serving.replica import Replica

PATH = "/predict"
_SHORT = 2000  # characters; decoding fewer does not noticeably delay other requests
_JSON = {b"application/json", b"application/json; charset=utf-8"}


class _Question(msgspec.Struct, forbid_unknown_fields=True):
    events: Annotated[
        list[Annotated[str, msgspec.Meta(max_length=_SHORT)]], msgspec.Meta(min_length=1, max_length=1)
    ]


_decode = msgspec.json.Decoder(_Question).decode


def answered(model: QueryModel, journal: int | None, events: list[Event]) -> bytes:
    """Return the predictions of a model for events, as JSON. Raises StreamnbError."""
    found = [
        {"id": None if event.id == "-" else event.id, **answer}
        for event, answer in zip(events, predicted_answers(model, events), strict=True)
    ]
    return msgspec.json.encode(
        {"predictions": found, "journal": journal}, enc_hook=str
    )  # a warning is a `Message`


class FastPath:
    """An ASGI application that answers requests with one short text, without FastAPI's overhead.

    It forwards all other requests and all invalid ones: the application reports the error, and its OpenAPI
    describes both.

    Args:
        app: the FastAPI application; `RequestLimits` has read the whole body before.
        replica: answers.
    """

    def __init__(self, app: Any, replica: Replica) -> None:
        self._app, self._replica = app, replica
        self._route = next(route for route in app.routes if getattr(route, "path", None) == PATH)

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["path"] != PATH or scope["method"] != "POST":
            await self._app(scope, receive, send)
            return
        body = (await receive())["body"]
        answer = self._answer(body) if dict(scope["headers"]).get(b"content-type") in _JSON else None
        if answer is None:
            await self._app(scope, given_once(body, receive), send)
            return
        scope["route"] = self._route
        headers = [(b"content-length", b"%d" % len(answer)), (b"content-type", b"application/json")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": answer})

    def _answer(self, body: bytes) -> bytes | None:
        """Return None if the body is not one short text, cannot be answered, or would have to wait."""
        try:
            (text,) = _decode(body).events
            with self._replica.lock.if_free() as is_free:
                if not is_free:  # a thread waits better
                    return None
                model = self._replica.asked()
                return answered(model, self._replica.stands, [model.of_text(text)])
        except (msgspec.DecodeError, StreamnbError, UnicodeError):
            return None
