"""uvicorn with an application, bounded: connections, time for a request's head, time between requests."""

from __future__ import annotations

import asyncio
import errno
import signal
import ssl
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

import h11
import uvicorn
from starlette.middleware.cors import CORSMiddleware
from starlette.types import Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from streamnb.config import Config
from streamnb.errors import AddressTaken, ConfigError
from streamnb.runtime import context
from streamnb.runtime.reloading import Reload
from streamnb.serving.access import Tokens
from streamnb.serving.dead_letter_forms import Replaying
from streamnb.serving.erased_events import ErasedEvents
from streamnb.serving.fast_path import FastPath
from streamnb.serving.http_api import add_reload, application, metrics_of
from streamnb.serving.http_events import EventSending
from streamnb.serving.http_labels import LabelWriter
from streamnb.serving.limits import RequestLimits
from streamnb.serving.problem_details import MEDIA_TYPE, encoded_problem
from streamnb.serving.recent_records import RecentRecords
from streamnb.serving.record_feed import RecordFeed
from streamnb.serving.replica import Replica
from streamnb.serving.request_writer import RequestWriter
from streamnb.serving.webhook_metrics import WebhookMetrics
from streamnb.serving.webhooks import WebhookSender
from streamnb.values.messages import Message

_MOST_CONNECTIONS = 256
_MOST_BYTES = 4 << 20  # limit for one body
_HEAD_SECONDS = 5.0
_IDLE_SECONDS = 30
_END_SECONDS = 5
_TURN_SECONDS = 0.0005  # thread switch interval: requests wait for the thread that follows the journal


@dataclass(frozen=True)
class Listening:
    """The address, access and limits of the server.

    Attributes:
        address: host and port.
        tokens: one is required of each request; empty requires none.
        token_file: the file of the tokens, which a reload reads again.
        origins: other origins whose pages may ask.
        certificate, private_key: files for TLS.
        rate: requests a second.
        is_local: True if the address is a loopback address.
    """

    address: tuple[str, int]
    tokens: Tokens
    origins: tuple[str, ...]
    certificate: str | None
    private_key: str | None
    rate: float
    is_local: bool
    token_file: str | None = None


_NOT_HTTP = encoded_problem(
    400,
    "this is not a request of HTTP/1.1: a request line, exactly one header Host, and valid headers",
    "invalid-http",
)
_FULL = encoded_problem(503, f"there are {_MOST_CONNECTIONS} connections: close some, or ask again later")


def _headers(body: bytes, *more: tuple[bytes, bytes]) -> list[tuple[bytes, bytes]]:
    length = str(len(body)).encode()
    kind = (b"content-type", MEDIA_TYPE.encode())
    return [kind, (b"content-length", length), (b"connection", b"close"), *more]


async def _refuse_connection(_scope: Scope, _receive: Receive, send: Send) -> None:
    headers = _headers(_FULL, (b"retry-after", b"1"))
    await send({"type": "http.response.start", "status": 503, "headers": headers})
    await send({"type": "http.response.body", "body": _FULL})


class _Bounded(H11Protocol):
    """Closes connections of clients that do not send a request's head, or read the answer, in time.

    Beyond the maximum number of connections it also closes the connection that has been idle longest. If that
    admits no request, because all others ask, the new ones wait for their 503, up to as many again.
    """

    quiet_since = 0.0
    _head_timer: asyncio.TimerHandle | None = None
    _read_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._await_head()
        others = [one for one in self.connections if isinstance(one, _Bounded) and one is not self]
        if (excess := len(self.connections) + 1 - _MOST_CONNECTIONS) > 0:
            quiet = [one for one in others if not one.is_asking]
            if len(others) - len(quiet) >= _MOST_CONNECTIONS:
                excess = max(0, excess - _MOST_CONNECTIONS)
            for one in sorted(quiet, key=attrgetter("quiet_since"))[:excess]:
                one.transport.abort()
                self.connections.discard(one)  # before its callback runs: a request may come first

    @property
    def app(self) -> Any:
        """The application, or the answer 503 if there are too many connections or requests."""
        is_full = max(len(self.connections), len(self.tasks)) >= _MOST_CONNECTIONS
        return _refuse_connection if is_full else self._app

    @app.setter
    def app(self, app: Any) -> None:
        self._app = app

    def send_400_response(self, msg: str) -> None:
        """Answer what is not HTTP in the shape of all errors, and close the connection; see `problems`."""
        del msg  # uvicorn's: that it is invalid
        if self.conn.our_state in {h11.IDLE, h11.SEND_RESPONSE}:  # otherwise, an answer has begun
            answer = h11.Response(status_code=400, headers=_headers(_NOT_HTTP), reason=b"Bad Request")
            for event in (answer, h11.Data(data=_NOT_HTTP), h11.EndOfMessage()):
                self.transport.write(self.conn.send(event))
        self.transport.close()

    @property
    def is_asking(self) -> bool:
        """True while a request is being answered."""
        return self.cycle is not None and not self.cycle.response_complete

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._await_head()

    def _await_head(self) -> None:
        self.quiet_since = time.monotonic()
        if self.is_asking and self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None
        elif not self.is_asking and self._head_timer is None:
            self._head_timer = asyncio.get_running_loop().call_later(_HEAD_SECONDS, self.transport.abort)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._read_timer = asyncio.get_running_loop().call_later(_IDLE_SECONDS, self.transport.abort)

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._read_timer is not None:
            self._read_timer.cancel()

    def timeout_keep_alive_handler(self) -> None:
        """Abort also if a client has not read the end of its answer, for which `close` would wait."""
        self.transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        for timer in (self._head_timer, self._read_timer):
            if timer is not None:
                timer.cancel()
        super().connection_lost(exc)


def serve(
    config: Config,
    listening: Listening,
    write: LabelWriter | None,
    replay: Replaying,
    tell: Callable[[Message], None],
    *,
    rests: bool,
    reload: Reload | None = None,
) -> int:
    """Answer until a signal; `reload` is a reload of the configuration, to which the server adds its parts.

    Raises ConfigError where the address cannot be listened on.
    """
    replica, watch = Replica(config, tell, rests=rests), RecentRecords(config, tell)
    registry, count = metrics_of(replica)
    topics = {
        "predictions": config.topics.predictions,
        "alerts": config.topics.alerts,
        "labels": config.topics.labels,
    }
    feeds = {name: RecordFeed(config, topic, tell) for name, topic in topics.items() if topic}
    writer = RequestWriter(config, tell)
    senders = (
        [] if rests or not config.webhooks else _senders(config, replica, WebhookMetrics(registry), tell)
    )
    sending = EventSending(config, writer, feeds["predictions"], lambda: watch.learner)
    app = application(replica, registry, write, watch, replay, sending, feeds)
    if reload is not None:
        add_reload(app, reload)
    host, port = listening.address
    guarded = RequestLimits(
        FastPath(app, replica),
        count=count,
        tokens=listening.tokens,
        origins=listening.origins,
        is_local=listening.is_local,
        most_bytes=_MOST_BYTES,
        rate=listening.rate,
        host=host,
    )
    settings = uvicorn.Config(
        _for_origins(guarded, listening.origins),
        host,
        port,
        http=_Bounded,
        ws="none",
        lifespan="off",
        log_config=None,
        log_level="error",
        access_log=False,
        server_header=False,
        timeout_keep_alive=_IDLE_SECONDS,
        timeout_graceful_shutdown=_END_SECONDS,
        ssl_certfile=listening.certificate,
        ssl_keyfile=listening.private_key,
        h11_max_incomplete_event_size=16 << 10,
    )
    if reload is not None:
        reload.add(lambda _: _fresh_access(listening, guarded, settings))
    scheme = "http" if listening.certificate is None else "https"
    told = "answering at {0}:{1}: /predict, /explain, /model ...; the page is {2}://{0}:{1}/"
    shown = f"[{host}]" if ":" in host else host

    def started(port: int) -> None:
        tell(Message("http-served", told.format(shown, port, scheme), host=host, port=port, scheme=scheme))

    server = _HttpServer(settings, started)
    sys.setswitchinterval(_TURN_SECONDS)
    replica.start()
    watch.start()
    writer.start()
    for sender in senders:
        sender.start()
    try:
        server.run()
    except SystemExit as error:  # uvicorn's word for an OSError that it has met
        is_taken = getattr(error.__context__, "errno", None) == errno.EADDRINUSE
        raise (AddressTaken if is_taken else ConfigError)(
            f"--listen {shown}:{port}: nothing can listen there; is it taken?"
        ) from error
    finally:
        for sender in senders:
            sender.stop()
        writer.close()
        for sender in senders:
            sender.close()
        for feed in feeds.values():
            feed.close()
        watch.close()
        replica.close()
    return 0


def _fresh_access(
    listening: Listening, limits: RequestLimits, settings: uvicorn.Config
) -> Callable[[], object]:
    """Read tokens and certificate again; return what puts them to use. Raises ConfigError."""
    tokens = None if listening.token_file is None else Tokens.of_file(listening.token_file)
    check_certificate(listening.certificate, listening.private_key)

    def use() -> None:
        if tokens is not None:
            limits.use_tokens(tokens)
        if listening.certificate is not None and (of_tls := getattr(settings, "ssl", None)) is not None:
            of_tls.load_cert_chain(listening.certificate, listening.private_key, "")

    return use


def check_certificate(certificate: str | None, private_key: str | None) -> None:
    """Raise ConfigError for files that TLS cannot use."""
    if certificate is None:
        return
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(certificate, private_key, "")
    except OSError as error:  # ssl.SSLError is an OSError
        raise ConfigError(
            f"--certificate {certificate}, --private-key {private_key}: {error}; expected PEM files that "
            "belong together, and a key without a password"
        ) from error


def _senders(
    config: Config, replica: Replica, metrics: WebhookMetrics, tell: Callable[[Message], None]
) -> list[WebhookSender]:
    """Return a sender for each webhook. Raises ConfigError for secrets that cannot be read."""
    schema = context.schema(config)
    return [
        WebhookSender(config, hook, ErasedEvents(schema, replica.erased), metrics, tell)
        for hook in config.webhooks
    ]


def _for_origins(app: Any, origins: Sequence[str]) -> Any:
    """Return the application, which also answers browsers that ask whether pages of other origins may ask."""
    if not origins:
        return app
    return CORSMiddleware(
        app,
        allow_origins=[*origins],
        allow_methods=["GET", "POST"],
        allow_headers=["Authorization", "Content-Type", "Idempotency-Key", "Last-Event-ID"],
        expose_headers=["Idempotent-Replayed", "Retry-After"],
        max_age=600,
    )


class _HttpServer(uvicorn.Server):
    def __init__(self, config: uvicorn.Config, tell: Callable[[int], None]) -> None:
        super().__init__(config)
        self._tell = tell

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Handle signals without raising them again at the end, as uvicorn would."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self.handle_exit)
        yield

    async def startup(self, sockets: Any = None) -> None:
        await super().startup(sockets)
        for server in self.servers:
            self._tell(server.sockets[0].getsockname()[1])
            break
