"""The endpoints: who may rely on which status, and that no client can hold up another, or the worker."""

from __future__ import annotations

import gzip
import http.client
import json
import socket
import threading
from contextlib import ExitStack, contextmanager, suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamnb.engine.sensor import Sensors, WorkerState
from streamnb.errors import AddressTaken, ConfigError
from streamnb.telemetry import http_endpoints as endpoints
from streamnb.telemetry.http_endpoints import Endpoints, Health
from streamnb.telemetry.prometheus_sensor import PrometheusSensor
from tests.support.program import until

PATIENCE = 30  # seconds after which a test that waits has failed


class Clock:
    now = 1000.0

    def __call__(self):
        return self.now


def few_metrics(_environ, start_response):
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [b"few 1\n"]


@contextmanager
def served(health=None, metrics=few_metrics, host="127.0.0.1"):
    server = Endpoints((host, 0), health or Health(), metrics)
    server.start()
    try:
        yield server.address
    finally:
        server.close()


def ask(address, path, method="GET", **headers):
    """(status, headers, body)."""
    connection = http.client.HTTPConnection(*address, timeout=PATIENCE)
    try:
        connection.request(method, path, headers=headers)
        answer = connection.getresponse()
        return answer.status, answer.headers, answer.read()
    finally:
        connection.close()


@pytest.fixture
def impatient(monkeypatch):
    """Clients are left after a moment."""
    monkeypatch.setattr(endpoints._Request, "timeout", 0.2)


@pytest.fixture
def patient(monkeypatch):
    """Clients are left after the test has failed."""
    monkeypatch.setattr(endpoints._Request, "timeout", 2.0 * PATIENCE)


ENDLESS = b"x" * 16_000_000  # more than a connection holds; once: a hundred clients ask for it at a time


def endless(_environ, start_response):
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [ENDLESS]


@pytest.mark.parametrize(
    ("state", "silent", "live", "ready"),
    [
        (WorkerState.STARTING, 0, 200, 503),
        (WorkerState.STARTING, 61, 503, 503),
        (WorkerState.STANDBY, 0, 200, 503),
        (WorkerState.STANDBY, 61, 503, 503),
        (WorkerState.RECOVERING, 0, 200, 503),
        (WorkerState.RECOVERING, 61, 503, 503),
        (WorkerState.RUNNING, 0, 200, 200),
        (WorkerState.RUNNING, 60, 200, 200),
        (WorkerState.RUNNING, 61, 503, 200),
        (WorkerState.WAITING, 0, 200, 503),
        (WorkerState.WAITING, 61, 503, 503),
        (WorkerState.STOPPED, 0, 503, 503),
        (WorkerState.STOPPED, 61, 503, 503),
    ],
)
def test_status(state, silent, live, ready):
    clock = Clock()
    health = Health(clock=clock)
    health.entered(state)
    clock.now += silent
    with served(health) as address:
        for path, expected in [("/live", live), ("/ready", ready)]:
            status, headers, body = ask(address, path)
            assert (path, status) == (path, expected)
            assert headers["Content-Type"] == "application/json"
            assert json.loads(body) == {"state": state.value, "seconds_since_alive": silent}
            assert body.count(b"\n") == 1


def test_every_state_is_in_the_table():
    (mark,) = test_status.pytestmark
    assert {row[0] for row in mark.args[1]} == set(WorkerState)


@given(st.lists(st.sampled_from([*WorkerState, "heartbeat"]) | st.floats(0, 100)))
def test_live_while_the_loop_turns(story):
    clock = Clock()
    health, state, heard = Health(60.0, clock), WorkerState.STARTING, clock.now
    assert health.live
    for event in story:
        if isinstance(event, WorkerState):
            health.entered(event)
            state, heard = event, clock.now
        elif event == "heartbeat":
            health.heartbeat()
            heard = clock.now
        else:
            clock.now += event
        assert health.live == (clock.now - heard <= 60.0 and state != WorkerState.STOPPED)
        assert health.ready == (state == WorkerState.RUNNING)


def test_metrics_come_from_the_registry_as_the_reader_asks():
    sensor = PrometheusSensor()
    sensor.entered(WorkerState.RUNNING)
    running = b'streamnb_state{state="running"} 1.0\n'
    with served(metrics=sensor.web_app()) as address:
        status, headers, body = ask(address, "/metrics")
        assert (status, headers.get_content_type()) == (200, "text/plain")
        assert running in body
        status, headers, body = ask(address, "/metrics", Accept="application/openmetrics-text; version=1.0.0")
        assert (status, headers.get_content_type()) == (200, "application/openmetrics-text")
        assert body.endswith(b"# EOF\n")
        status, headers, body = ask(address, "/metrics", **{"Accept-Encoding": "gzip"})
        assert (status, headers["Content-Encoding"]) == (200, "gzip")
        assert running in gzip.decompress(body)
        assert b"streamnb_journal" not in ask(address, "/metrics?name[]=streamnb_state")[2]


@pytest.mark.parametrize("path", ["/live", "/ready", "/metrics", "/nothing"])
def test_head_is_get_without_its_body(path):
    with served(Health(clock=Clock())) as address:
        status, headers, body = ask(address, path)
        got, same, nothing = ask(address, path, "HEAD")
        assert (got, nothing) == (status, b"")
        assert int(same["Content-Length"]) == int(headers["Content-Length"]) == len(body) > 0
        assert same["Content-Type"] == headers["Content-Type"]


def test_head_has_no_body_on_the_wire():
    with served() as address, socket.create_connection(address, PATIENCE) as client:
        client.sendall(b"HEAD /metrics HTTP/1.1\r\n\r\n")
        assert b"".join(iter(lambda: client.recv(4096), b"")).endswith(b"\r\n\r\n")


@pytest.mark.parametrize("path", ["/", "/metrics/", "/live/x", "/favicon.ico", "/LIVE"])
def test_other_paths_are_not_found(path):
    with served() as address:
        assert ask(address, path)[0] == 404


@pytest.mark.parametrize("path", ["/live", "/ready", "/metrics", "/nothing"])
@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "PATCH", "TRACE", "get"])
def test_other_methods_are_not_allowed(path, method):
    with served() as address:
        status, headers, _ = ask(address, path, method)
        assert (status, headers["Allow"]) == (405, "GET, HEAD")


def test_an_application_that_fails_answers_500_and_is_told(capfd):
    def broken(_environ, _start_response):
        raise RuntimeError("the registry is gone")

    with served(metrics=broken) as address:
        assert ask(address, "/metrics")[0] == 500
        assert ask(address, "/live")[0] == 200
    assert "the registry is gone" in capfd.readouterr().err


@pytest.mark.usefixtures("patient")
@pytest.mark.parametrize("sent", [b"", b"GET /li", b"GET /metrics HTTP/1.1\r\n\r\n"])
def test_stuck_clients_hold_up_nobody(sent):
    with served(metrics=endless) as address, ExitStack() as clients:
        for _ in range(5):
            client = clients.enter_context(socket.create_connection(address, PATIENCE))
            client.sendall(sent)
        assert ask(address, "/live")[0] == 200


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("sent", [b"", b"GET /li", b"GET /live HTTP/1.1\r\nHost: x\r\n"])
def test_a_silent_client_is_left(sent, capfd):
    with served() as address, socket.create_connection(address, PATIENCE) as client:
        client.sendall(sent)
        assert client.recv(1) == b""
    assert capfd.readouterr() == ("", "")


@pytest.mark.usefixtures("impatient")
def test_a_client_that_does_not_read_is_left(capfd):
    with served(metrics=endless) as address, socket.create_connection(address, PATIENCE) as client:
        client.sendall(b"GET /metrics HTTP/1.1\r\n\r\n")
        assert client.recv(1) == b"H"
        for thread in serving():
            thread.join(PATIENCE)
            assert not thread.is_alive()
        assert sum(len(part) for part in iter(lambda: client.recv(1 << 20), b"")) < 50_000_000
    assert capfd.readouterr() == ("", "")


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize(
    "sent", [b"\0\xff\r\n\r\n", b"GET\r\n\r\n", b"GET / HTTP/9\r\n\r\n", b"HEAD /" + b"x" * 70_000]
)
def test_nonsense_is_answered_or_dropped_quietly(sent, capfd):
    with served() as address:
        with socket.create_connection(address, PATIENCE) as client:
            client.sendall(sent)
            assert not client.recv(1 << 16).startswith(b"HTTP/1.0 200")
        assert ask(address, "/live")[0] == 200
    assert capfd.readouterr() == ("", "")


def test_a_client_that_breaks_off_is_no_news(capfd):
    with served() as address:
        for _ in range(5):
            client = socket.create_connection(address, PATIENCE)
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")  # reset, not close
            client.sendall(b"GET /metrics HTTP/1.1\r\n\r\n")
            client.close()
        assert ask(address, "/live")[0] == 200
    assert capfd.readouterr() == ("", "")


def test_scrapes_while_the_worker_tells():
    health, sensor, done = Health(), PrometheusSensor(), threading.Event()
    told = Sensors(health, sensor)

    def work():
        while not done.is_set():
            told.entered(WorkerState.RUNNING)
            told.heartbeat()
            told.observed({}, 1)

    worker = threading.Thread(target=work)
    worker.start()
    try:
        with served(health, sensor.web_app()) as address:
            answers = [ask(address, path)[0] for _ in range(20) for path in ("/live", "/metrics")]
    finally:
        done.set()
        worker.join()
    assert answers == [200] * 40


def test_an_address_in_use_is_refused_and_named():
    with served() as (host, port):
        with pytest.raises(AddressTaken) as refused:
            Endpoints((host, port), Health(), few_metrics)
        assert f'http.listen is "{host}:{port}"' in str(refused.value)
        assert "Address already in use" in str(refused.value)


@pytest.mark.parametrize(
    ("address", "named"),
    [
        (("no.such.host.invalid", 1), "no.such.host.invalid:1"),
        (("::1", 70_000), "[::1]:70000"),
        (("..", 1), "..:1"),
    ],
)
def test_an_address_that_cannot_be_is_refused_and_named(address, named):
    with pytest.raises(ConfigError) as refused:
        Endpoints(address, Health(), few_metrics)
    assert f'http.listen is "{named}"' in str(refused.value)


def test_ipv6():
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        pytest.skip("this machine has no IPv6 loopback")
    with served(host="::1") as address:
        assert address[0] == "::1"
        assert ask(address, "/live")[0] == 200


def test_no_name_server_is_asked(monkeypatch):
    monkeypatch.setattr(socket, "getfqdn", lambda *_: pytest.fail("asked for a full name"))
    with served(host="0.0.0.0") as (_, port):  # noqa: S104
        assert ask(("127.0.0.1", port), "/live")[0] == 200


def test_a_closed_address_is_free_again():
    first = Endpoints(("127.0.0.1", 0), Health(), few_metrics)
    first.close()  # never started
    second = Endpoints(first_address := first.address, Health(), few_metrics)
    second.start()
    assert ask(first_address, "/live")[0] == 200
    second.close()
    second.close()
    with pytest.raises(ConnectionRefusedError):
        ask(first_address, "/live")


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("drop", [b"x", b"\r\n", b"X: y\r\n"], ids=["line", "empty lines", "headers"])
def test_a_client_that_drips_is_left(drop, capfd):
    """Every byte in time, and the request never whole."""
    with served() as address, socket.create_connection(address, PATIENCE) as client:
        client.sendall(b"GET /live HTTP/1.1\r\n" if drop.startswith(b"X") else b"")
        client.settimeout(0.05)
        for _ in range(20 * PATIENCE):
            try:
                client.sendall(drop)
                answer = client.recv(1)
            except TimeoutError:
                continue
            except ConnectionError:
                answer = b""
            break
        assert answer == b""
    assert capfd.readouterr() == ("", "")


@pytest.mark.usefixtures("patient")
@pytest.mark.parametrize("sent", [b"", b"GET /li", b"GET /metrics HTTP/1.1\r\n\r\n"])
def test_clients_are_bounded_and_probes_are_answered_beside_as_many_that_ask_nothing(sent):
    with served(metrics=endless) as address, ExitStack() as clients:
        for _ in range(endpoints.MOST_CLIENTS + 20):
            clients.enter_context(socket.create_connection(address, PATIENCE)).sendall(sent)
        assert ask(address, "/live")[0] == 200
        until(lambda: len(serving()) <= endpoints.MOST_CLIENTS)
        assert [ask(address, "/live")[0] for _ in range(20)] == [200] * 20
        until(lambda: len(serving()) <= endpoints.MOST_CLIENTS)


def serving():
    return [thread for thread in threading.enumerate() if "process_request_thread" in thread.name]


def test_a_request_that_is_too_long_is_not_answered(capfd):
    with served() as address, socket.create_connection(address, PATIENCE) as client:
        client.sendall(b"GET /live HTTP/1.1\r\n")
        with suppress(ConnectionError):
            for _ in range(90):
                client.sendall(b"X: " + b"y" * 60_000 + b"\r\n")
            client.sendall(b"\r\n")
        with suppress(ConnectionError):
            assert client.recv(1) == b""
    assert capfd.readouterr() == ("", "")
