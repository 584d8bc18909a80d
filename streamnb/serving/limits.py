"""Authentication, size limits and rate limits of requests: an ASGI application that wraps another."""

from __future__ import annotations

import asyncio
import time
from base64 import b64decode
from collections.abc import Awaitable, Callable, Collection, MutableMapping
from contextlib import nullcontext, suppress
from typing import Any
from urllib.parse import urlsplit

from streamnb.serving.access import EVERYBODY, ClientRates, KnownClient, Tokens, role_of
from streamnb.serving.problem_details import MEDIA_TYPE, encoded_problem

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
_OPEN = {"/live", "/ready"}
BURST = 200.0
"""Requests that may come at once, above the rate."""
_BODY_SECONDS = 10.0  # for a body to come
_MOST_HELD, _LARGE = 16 << 20, 64 << 10  # bytes: of all bodies; of a body that counts for that limit
_MOST_VALUES, _MANY = 100_000, 10_000  # JSON values: of one body; size from which bodies are answered singly
_LOOPBACK = {"localhost", "127.0.0.1", "::1"}


class _RefusedError(Exception):
    def __init__(self, status: int, why: str, code: str = "") -> None:
        super().__init__(why)
        self.status, self.code = status, code


class RequestLimits:
    """An ASGI application that forwards only requests within the limits.

    Args:
        app: answers.
        tokens: a token is required of each request, as bearer token, or as password for the page, and its
            role; without tokens nothing is required. `/live` and `/ready` are open.
        is_local: listens on loopback only. `Host` must then be a loopback name, so that a page of another
            site cannot send requests under its own name (DNS rebinding).
        host: on which it listens.
        most_bytes: limit for one body.
        rate: requests a second of one client, on average, after a burst of `BURST`; `/live` and `/ready` do
            not count. A client is known by its token, or else by its address.
        origins: other origins whose pages may ask, such as ``https://shop.example``.
        count: called with the route and the status of each answer, and the seconds until it began.
    """

    def __init__(
        self,
        app: Any,
        *,
        tokens: Tokens,
        is_local: bool,
        most_bytes: int,
        rate: float,
        count: Callable[[str, int, float], None],
        host: str = "localhost",
        origins: Collection[str] = (),
    ) -> None:
        self._app, self._tokens, self._is_local = app, tokens, is_local
        self._most_bytes, self._rate, self._count = most_bytes, rate, count
        self._origins = {origin.lower().encode() for origin in origins}
        self._rates = ClientRates(rate, BURST)
        self._names = _LOOPBACK | {host.lower()}
        self._held, self._alone = 0, asyncio.Lock()

    def use_tokens(self, tokens: Tokens) -> None:
        """Require these tokens from the next request on."""
        self._tokens = tokens

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        """Answer a request, or refuse it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        if scope["method"] == "HEAD":  # the server leaves the body out
            scope = {**scope, "method": "GET"}

        began = time.perf_counter()

        async def counted(message: Message) -> None:
            if message["type"] == "http.response.start":
                seconds = time.perf_counter() - began
                self._count(getattr(scope.get("route"), "path", "other"), message["status"], seconds)
            await send(message)

        held = 0

        async def taken() -> Message:
            nonlocal held
            message = await receive()
            held += (more := len(message.get("body", b"")))
            self._held += more
            return message

        try:
            self._check(scope)
            async with asyncio.timeout(_BODY_SECONDS):
                body = await self._body(taken)
            values = _values(body)
        except _RefusedError as error:
            await _refuse(counted, error, is_page=_is_page(scope["path"]))
        except TimeoutError:
            late = _RefusedError(408, f"the body did not come within {_BODY_SECONDS:g} s")
            await _refuse(counted, late, is_page=False)
        else:
            async with self._alone if values > _MANY else nullcontext():
                await self._app(scope, given_once(body, receive), counted)
        finally:
            self._held -= held

    def _check(self, scope: MutableMapping[str, Any]) -> None:
        is_open = scope["path"] in _OPEN
        headers = {name.lower(): value for name, value in scope["headers"]}
        host = headers.get(b"host", b"").lower()
        if self._is_local and _name(host) not in self._names:
            raise _RefusedError(403, "this listens on loopback alone: ask it as localhost")
        origin = headers.get(b"origin")
        is_own = origin is None or origin.lower().partition(b"://")[2] == (host or b"?")
        if origin is not None and not is_own and origin.lower() not in self._origins:
            raise _RefusedError(403, "pages of other origins may not ask: see --allow-origin")
        client = EVERYBODY if is_open or not self._tokens else self._known(scope["path"], headers)
        scope.setdefault("state", {})["client"] = "" if client is None else client.name
        if client is None:
            raise _RefusedError(401, "expected Authorization: Bearer TOKEN, with a token of --token-file")
        if not client.may(role := role_of(scope["method"], scope["path"])):
            raise _RefusedError(
                403, f"this needs the role {role}, which {client.name} has not", "missing-role"
            )
        if headers.get(b"content-encoding", b"identity").strip().lower() not in {b"identity", b""}:
            raise _RefusedError(415, "send the body as it is, not compressed", "unsupported-encoding")
        length = headers.get(b"content-length", b"0")
        if not length.isdigit() or int(length) > self._most_bytes:
            raise _RefusedError(413, f"a body has at most {self._most_bytes:,} bytes")
        if is_open:  # a flood of requests must not make probes fail, or the process would be restarted
            return
        if not self._rates.admits(client.name or str((scope.get("client") or ("",))[0])):
            told = f"more than {self._rate:g} requests a second, after {BURST:g} at once: ask less often"
            raise _RefusedError(429, told)

    def _known(self, path: str, headers: dict[bytes, bytes]) -> KnownClient | None:
        """Return the client of the token; the page also takes it as the password of basic authentication."""
        kind, _, said = headers.get(b"authorization", b"").partition(b" ")
        if kind.lower() == b"basic" and _is_page(path):
            with suppress(ValueError):
                return self._tokens.client(b64decode(said).partition(b":")[2])
        return self._tokens.client(said.strip(b" ")) if kind.lower() == b"bearer" else None

    async def _body(self, receive: Receive) -> bytes:
        parts, size = [], 0
        while True:
            message = await receive()
            if message["type"] != "http.request":
                raise _RefusedError(400, "the body was cut short", "cut-short")  # the client is gone
            parts.append(message.get("body", b""))
            size += len(parts[-1])
            if size > self._most_bytes:
                raise _RefusedError(413, f"a body has at most {self._most_bytes:,} bytes")
            if size > _LARGE and self._held > _MOST_HELD:
                raise _RefusedError(503, "others send too much at this moment: ask again")
            if not message.get("more_body"):
                return b"".join(parts)


def _values(body: bytes) -> int:
    """Return an upper bound of the JSON values in a large body, 0 for a small one.

    Parsing JSON blocks all other requests. Raises _RefusedError for too many values.
    """
    found = sum(map(body.count, (b",", b"[", b"{"))) if len(body) > _LARGE else 0
    if found > _MOST_VALUES:
        raise _RefusedError(413, f"a body has at most {_MOST_VALUES:,} values: ask in parts")
    return found


def _is_page(path: str) -> bool:
    return path == "/" or path.startswith("/page/")


def _name(host: bytes) -> str | None:
    try:
        return urlsplit(f"//{host.decode('latin-1')}").hostname
    except ValueError:
        return None


def given_once(body: bytes, receive: Receive) -> Receive:
    """Return a `receive` that gives a body already read, then the messages after it."""
    left = [body]

    async def given() -> Message:
        if left:
            return {"type": "http.request", "body": left.pop(), "more_body": False}
        return await receive()

    return given


async def _refuse(send: Send, error: _RefusedError, *, is_page: bool) -> None:
    status = error.status
    headers = [(b"content-type", MEDIA_TYPE.encode()), (b"connection", b"close")]
    headers += [(b"retry-after", b"1")] if status in {429, 503} else []
    headers += [(b"accept-encoding", b"identity")] if status == 415 else []
    asks = b'Basic realm="streamnb: any name, and the token"' if is_page else b"Bearer"
    headers += [(b"www-authenticate", asks)] if status == 401 else []
    body = encoded_problem(status, str(error), error.code)
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
