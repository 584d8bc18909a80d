"""HTTP endpoints of a worker: /live, /ready and /metrics, served outside its own thread."""

from __future__ import annotations

import errno
import json
import socket
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from http import HTTPStatus
from io import BufferedReader, BytesIO, RawIOBase
from socketserver import TCPServer, ThreadingMixIn
from threading import Lock, Thread
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer
from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

from streamnb.engine.sensor import Sensor, WorkerState
from streamnb.errors import AddressTaken, ConfigError

MOST_CLIENTS = 64
"""Maximum number of concurrent clients."""

_JSON, _TEXT = "application/json", "text/plain; charset=utf-8"


class Health(Sensor):
    """Liveness and readiness of the worker.

    A worker counts as hanging after `dead_after` seconds of silence by the monotonic `clock`.
    """

    def __init__(self, dead_after: float = 60.0, clock: Callable[[], float] = time.monotonic) -> None:
        self._dead_after, self._clock = dead_after, clock
        self._state = WorkerState.STARTING
        self._heard = clock()

    def entered(self, state: WorkerState) -> None:
        """Store the state; a change is a heartbeat, too."""
        self._state = state
        self._heard = self._clock()

    def heartbeat(self) -> None:
        """Store the time of a heartbeat."""
        self._heard = self._clock()

    @property
    def silence(self) -> float:
        """Seconds since the last heartbeat."""
        return self._clock() - self._heard

    @property
    def live(self) -> bool:
        """True unless the process should be ended: the worker has stopped, or its loop hangs."""
        return self._state is not WorkerState.STOPPED and self.silence <= self._dead_after

    @property
    def ready(self) -> bool:
        """True while it learns: not in standby, recovery or waiting."""
        return self._state is WorkerState.RUNNING

    def line(self) -> str:
        """Return the state as one line of JSON."""
        return json.dumps({"state": self._state, "seconds_since_alive": round(self.silence, 3)}) + "\n"


class Endpoints:
    """HTTP server, which listens from construction and answers from `start` to `close`.

    Clients cannot affect the worker. The threads are daemons, and a client that takes more than five seconds
    to send its request or read the answer is dropped. At most `MOST_CLIENTS` are connected: one more closes
    the oldest connection. Therefore probes, which send their request at once, are answered even if many idle
    clients are connected.

    Port 0 is any free port. Raises AddressTaken if another process listens at the address, and ConfigError
    if the address cannot be used.
    """

    def __init__(self, address: tuple[str, int], health: Health, metrics: WSGIApplication) -> None:
        try:
            self._server = _TelemetryServer(*address)
        except (OSError, OverflowError, UnicodeError) as error:
            reason = getattr(error, "strerror", None) or error
            is_taken = getattr(error, "errno", None) == errno.EADDRINUSE
            raise (AddressTaken if is_taken else ConfigError)(
                f'http.listen is "{_shown(*address)}", which cannot be listened on: {reason}; expected '
                "a free address (each worker on a machine needs its own), as --set http.listen=127.0.0.1:0 "
                "takes one, or none, by --set http.listen="
            ) from error
        self._server.set_app(_application(health, metrics))
        self._thread = Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": 0.1}, name="http", daemon=True
        )

    @property
    def address(self) -> tuple[str, int]:
        """Host and port on which the server listens."""
        host, port = self._server.server_address[:2]
        return str(host), port

    @property
    def shown(self) -> str:
        """Host and port as in a URL."""
        return _shown(*self.address)

    def start(self) -> None:
        """Answer from now on, without blocking."""
        self._thread.start()

    def close(self) -> None:
        """Stop answering and free the address."""
        if self._thread.is_alive():
            self._server.shutdown()
            self._thread.join()
        self._server.server_close()


def _shown(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _application(health: Health, metrics: WSGIApplication) -> WSGIApplication:

    def answer(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        match environ["REQUEST_METHOD"], environ["PATH_INFO"]:
            case "GET", "/metrics":
                return metrics(environ, start_response)
            case "GET", "/live":
                return _respond(start_response, _ok(health.live), health.line(), _JSON)
            case "GET", "/ready":
                return _respond(start_response, _ok(health.ready), health.line(), _JSON)
            case "GET", _:
                return _respond(
                    start_response, HTTPStatus.NOT_FOUND, "try /live, /ready or /metrics\n", _TEXT
                )
            case _:
                allow = ("Allow", "GET, HEAD")
                return _respond(start_response, HTTPStatus.METHOD_NOT_ALLOWED, "try GET\n", _TEXT, allow)

    return answer


def _ok(good: bool) -> HTTPStatus:  # noqa: FBT001  a predicate's outcome, not a switch
    return HTTPStatus.OK if good else HTTPStatus.SERVICE_UNAVAILABLE


def _respond(
    start_response: StartResponse, status: HTTPStatus, text: str, media_type: str, *headers: tuple[str, str]
) -> Iterable[bytes]:
    start_response(f"{status.value} {status.phrase}", [("Content-Type", media_type), *headers])
    return [text.encode()]


class _RequestBytes(RawIOBase):
    def __init__(self, connection: socket.socket, seconds: float, most: int) -> None:
        super().__init__()
        self._connection = connection
        self._deadline = time.monotonic() + seconds
        self._bytes_left = most

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        left = self._deadline - time.monotonic()
        if left <= 0 or self._bytes_left <= 0:
            raise TimeoutError
        self._connection.settimeout(left)
        count = self._connection.recv_into(buffer)
        self._bytes_left -= count
        return count


class _Request(WSGIRequestHandler):
    timeout = 5.0  # for the request as a whole, and for the answer as a whole
    most_bytes = 64 << 10  # maximum size of a request

    def setup(self) -> None:
        """Buffer the answer: `finish` sends it, so that a client that does not read blocks no application."""
        super().setup()
        self.rfile.close()
        self.rfile = BufferedReader(_RequestBytes(self.connection, self.timeout, self.most_bytes))
        self.wfile = self._answer = BytesIO()

    def get_environ(self) -> WSGIEnvironment:
        """Present HEAD as GET, because prometheus_client refuses HEAD."""
        method = "GET" if self.command == "HEAD" else self.command
        return {**super().get_environ(), "REQUEST_METHOD": method}

    def handle(self) -> None:
        """Read and answer. Only reading can fail: wsgiref answers 500 for errors of an application."""
        with suppress(OSError):
            super().handle()
            if self.command == "HEAD":
                headers, end, _ = self._answer.getvalue().partition(b"\r\n\r\n")
                self._answer.truncate(len(headers) + len(end))

    def finish(self) -> None:
        with suppress(OSError):
            self.connection.settimeout(self.timeout)
            self.connection.sendall(self._answer.getvalue())
        super().finish()

    def log_message(self, *_: Any) -> None:
        """Write no access log: probes come every few seconds."""


class _TelemetryServer(ThreadingMixIn, WSGIServer):
    daemon_threads = True
    request_queue_size = 128  # with the default of 5, the sixth client of a burst would wait a second

    def __init__(self, host: str, port: int) -> None:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        self.address_family, _, _, _, (numeric, *_) = found[0]
        self._clients: dict[socket.socket, None] = {}  # in the order in which they came
        self._changing = Lock()
        super().__init__((str(numeric), port), _Request)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Answer a request in a separate thread; close the oldest connection if there are too many."""
        with self._changing:
            self._clients[request] = None
            oldest = next(iter(self._clients)) if len(self._clients) > MOST_CLIENTS else None
            if oldest is not None:
                del self._clients[oldest]
                with suppress(OSError):  # its thread then sees a closed connection
                    oldest.shutdown(socket.SHUT_RDWR)
        super().process_request(request, client_address)

    def close_request(self, request: Any) -> None:
        """Unregister a connection before its descriptor can be reused."""
        with self._changing:
            self._clients.pop(request, None)
        super().close_request(request)

    def server_bind(self) -> None:
        """Bind as HTTPServer does, but without the look-up of the host's full name, which may take long."""
        TCPServer.server_bind(self)
        self.server_name, self.server_port = str(self.server_address[0]), self.server_address[1]
        self.setup_environ()
