"""An application over HTTP: events in, predictions out, while learner and server are killed."""

from __future__ import annotations

import asyncio
import http.client
import inspect
import json
import random
import re
import socket
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from streamnb.client import AsyncClient, Client, MissedRecords, Refusal, RequestFailed, Sent
from streamnb.engine.ports import NewRecord, Partition
from streamnb.runtime import context
from tests.brokers.numbered import NUMBERS
from tests.serving.webhook_receiver import SECRET, receiving
from tests.support.program import Program, until
from tests.support.topics_of_logs import trim
from tests.system.service.test_serve import configured, serving

pytestmark = pytest.mark.early(28)
WORDS = {"spam": "free win cash", "ham": "lunch noon home"}


@pytest.fixture(params=["sqlite", pytest.param("kafka", marks=pytest.mark.broker)])
def program(request, tmp_path):
    """The commands of a model with labels, and with keys of requests on Kafka."""
    address = f"sqlite:///{tmp_path / 'log.db'}"
    name = f"app{next(NUMBERS)}"
    topics = {"labels": f"{name}-labels", "partitions": 2}
    if request.param == "kafka":
        address = request.getfixturevalue("broker").address
        topics["requests"] = f"{name}-requests"
    made = Program(
        tmp_path,
        address,
        model=name,
        model_keys={"kind": "naive_bayes"},
        topics=topics,
        snapshots={"every_events": 500, "folder": str(tmp_path / "snapshots")},
        log={"session_timeout": "6s"},
    )
    made.run("topics", "create")
    yield made
    made.close()


def free_port():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


def event(i, dice=random.Random(7)):  # noqa: B008  one for all
    label = dice.choice(["spam", "ham"])
    return {"id": f"m{i}", "text": " ".join(dice.choices(WORDS[label].split(), k=4)), "label": label}


class Killed:
    """A command that is killed and started again."""

    def __init__(self, program, *arguments):
        self._program, self._arguments = program, arguments
        self.command = program.start(*arguments)

    def kill(self):
        self.command.kill()
        self.command = self._program.start(*self._arguments)


@pytest.mark.thorough
def test_every_event_and_every_prediction_comes_once_while_learner_and_server_are_killed(program):
    """200 events a second; learner and server are killed three times each, and nobody else is told."""
    port = free_port()
    learner = Killed(program, "run")
    server = Killed(program, "serve", "--listen", f"127.0.0.1:{port}", "--rate", "1000")
    server.command.await_word("answering at")
    seconds, rate = 60, 200
    followed, ended, answers = [], threading.Event(), []
    client, follower = (Client(f"http://127.0.0.1:{port}", patience=90) for _ in range(2))
    start = follower.cursor()

    def follow():
        for prediction in follower.predictions(start):
            followed.append(prediction)
            if len({one.id for one in followed}) == seconds * rate:
                break
        ended.set()

    threading.Thread(target=follow, daemon=True).start()
    kills = iter(random.Random(3).sample([learner.kill, server.kill] * 3, 6))
    began = time.monotonic()
    for i in range(seconds * rate // 10):
        answers += client.send([event(10 * i + j) for j in range(10)])
        if i % (seconds * rate // 70) == seconds * rate // 140:
            next(kills, lambda: None)()
        time.sleep(max(0.0, began + 10 * i / rate - time.monotonic()))
    assert next(kills, None) is None
    assert ended.wait(120), f"{len(followed)} predictions of {seconds * rate}"
    assert all(isinstance(one, Sent) for one in answers)
    with closing(context.existing_log(configured(program))) as log:
        topics = program.topics["events"], program.topics["predictions"]
        written, published = ({p: records_of(log, p) for p in log.partitions(topic)} for topic in topics)
    ids = Counter(json.loads(record.value)["id"] for part in written.values() for record in part)
    assert ids == Counter(f"m{i}" for i in range(seconds * rate))
    places = {(p, record.offset): record.value for p, part in written.items() for record in part}
    assert all(
        json.loads(places[Partition(one.topic, one.partition), one.offset])["id"] == one.id for one in answers
    )
    order = [json.loads(record.value)["id"] for part in published.values() for record in part]
    assert Counter(one.id for one in followed) == Counter(order) == ids
    for part in published.values():  # each partition in its order
        own = [json.loads(record.value)["id"] for record in part]
        mine = set(own)
        assert [one.id for one in followed if one.id in mine] == own


@pytest.mark.thorough_for("kafka")
def test_webhooks_of_serve_bring_every_prediction_though_it_is_killed(program, tmp_path):
    """The process dies while requests are under way: its successor repeats what was not noted, and skips nothing."""
    (tmp_path / "secret").write_text(SECRET)
    with receiving() as receiver:
        hook = {
            "name": "desk",
            "url": receiver.url,
            "send": "predictions",
            "secret_file": str(tmp_path / "secret"),
        }
        table = ", ".join(f"{key} = {json.dumps(value)}" for key, value in hook.items())
        given = ["serve", "--listen", f"127.0.0.1:{free_port()}", "--set", f"webhooks=[{{ {table} }}]"]
        program.start("run")
        server = Killed(program, *given)
        server.command.await_word("webhook desk: it sends what is published from now on")
        with Client(f"http://{given[2]}", patience=90) as client:
            for i in range(40):
                client.send([event(10 * i + j) for j in range(10)])
                if i in {10, 25}:
                    receiver.await_n(1)
                    server.kill()
        until(lambda: len(set(receiver.accepted())) == 400)
    assert set(receiver.accepted()) == {f"m{i}" for i in range(400)}
    assert len(receiver.accepted()) < 800
    assert len(set(receiver.ids)) == 400


class EnoughError(Exception):
    pass


@pytest.mark.parametrize("program", ["sqlite"], indirect=True)
def test_the_application_of_the_page_runs_as_it_stands_there(program):
    """It follows predictions for ever: the test ends it at the third line of that loop."""
    program.start("run")
    _, port, _ = serving(program)
    page = (Path(__file__).parents[3] / "docs" / "applications.md").read_text()
    (code,) = re.findall(r"^```py\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)
    assert len(code.splitlines()) <= 15
    told = []

    def tell(*words):
        told.append(words)
        if len(told) == 2 + 3:
            raise EnoughError

    def send():
        with Client(f"http://127.0.0.1:{port}") as client:
            while len(told) < 5:
                client.send(event(len(told)))
                time.sleep(0.2)

    threading.Thread(target=send, daemon=True).start()
    code = code.replace("127.0.0.1:8000", f"127.0.0.1:{port}")
    with pytest.raises(EnoughError):
        exec(compile(code, "applications.md", "exec"), {"print": tell})  # noqa: S102  our own
    assert [words[0] for words in told[:2]] == ["t-1", "t-2"]
    assert all(words[2] for words in told[2:])


def records_of(log, partition):
    offset, records = log.offsets(partition)[0], []
    while found := log.read(partition, offset, 1000):
        records += found
        offset = found[-1].offset + 1
    return records


def test_a_client_sends_waits_corrects_and_asks(program):
    program.start("run")
    _, port, ask = serving(program)
    with Client(f"http://127.0.0.1:{port}") as client:
        sent = client.send([event(i) for i in range(60)], wait=20)
        assert [one.id for one in sent] == [f"m{i}" for i in range(60)]
        assert all(one.prediction.id == one.id for one in sent)
        assert any(one.prediction.record["status"] == "empty" for one in sent)
        until(lambda: ask("/model")[1]["learned"] == 60)
        assert client.ask("free cash").label == "spam"
        assert client.ask({"id": "q", "text": "lunch at noon"}).label == "ham"
        assert client.explain("free cash", top=1)["evidence"][0]["value"] in {"free", "cash"}
        until(lambda: client.prediction("m59"))
        assert client.prediction("m59").record == sent[59].prediction.record
        assert client.prediction("nobody") is None
        correction = client.correct("m5", "spam", source="desk", by="ann", wait=20)
        assert (correction.id, correction.is_event_known, correction.is_learned) == ("m5", True, True)
        with ThreadPoolExecutor(1) as early:  # the label comes before its event
            corrected = early.submit(client.correct, "early", "spam", wait=20)
            until(lambda: "early" in {one["id"] for one in ask("/labels")[1]["labels"]})
            assert client.send({"id": "early", "text": "free"})
            assert (corrected.result().is_event_known, corrected.result().is_learned) == (True, True)
        with pytest.raises(TypeError, match="one text, or one event as a mapping, not a list"):
            client.ask(["free", "cash"])
        until(lambda: ask("/labels/m5")[1].get("by") == "ann")
        assert ask("/labels/m5")[1]["source"] == "desk"
        assert client.correct("m5", "spam").is_learned is None
        (refused,) = client.send([{"id": "x", "text": "hi"}, {"text": "without an id"}])[1:]
        assert isinstance(refused, Refusal)
        assert (refused.reason, refused.path) == ("missing", "$.id")
        with pytest.raises(RequestFailed, match="no event was written") as found:
            client.send({"text": "without an id"})
        assert (found.value.status, found.value.code) == (422, "events-refused")
        first = client.send(event(100), key="my-key")
        assert client.send({**event(100), "text": "x"} | {"text": "y"}, key="other")[0].offset >= 0
        with pytest.raises(RequestFailed) as found:
            client.send({"id": "m101", "text": "another body"}, key="my-key")
        assert (found.value.status, found.value.code) == (409, "key-reused")
        assert first


def test_a_label_is_waited_for_and_undone_unless_it_changed_meanwhile(program):
    program.start("run")
    _, _, ask = serving(program)
    ask("/events?wait=prediction&timeout=20", {"events": [event(1), event(2)]})

    def label(said, **more):
        body = {"labels": [{"id": "m1", "label": said, "source": "ann", **more}]}
        return ask("/labels?wait=learned&timeout=20", body)[1]["labels"][0]

    until(lambda: ask("/labels/m1")[0] == 200)
    own = ask("/labels/m1")[1]["label"]
    first = label("one")
    assert first["learned"]
    second = label("two")
    assert ask("/labels/m1")[1]["label"] == "two"
    status, found = ask("/labels/undo", {"undo": first["undo"]})
    assert (status, found["code"]) == (409, "label-changed")
    assert ask("/labels/undo", {"undo": second["undo"]})[0] == 200
    until(lambda: ask("/labels/m1")[1]["label"] == "one")
    assert ask("/labels/undo", {"undo": second["undo"]})[1]["code"] == "label-changed"
    assert label("one")["undo"] is None  # nothing to undo: the source said so already
    assert ask("/labels/undo", {"undo": first["undo"]})[0] == 200  # the source had none before
    until(lambda: ask("/labels/m1")[1]["label"] == own)
    assert ask("/labels/undo", {"undo": "nonsense"})[0] == 422
    _, page = ask("/labels?limit=1000")
    assert [one["label"] for one in page["labels"]] == ["one", "two", "one", "one", None]
    assert ask(f"/labels?after={page['next']}")[1]["labels"] == []


def test_repeated_requests_get_the_first_answer_whatever_was_refused(program):
    _, _, ask = serving_without_model(program)
    body = {"events": [{"id": "a", "text": "x"}, {"text": "no id"}, {"id": "b", "text": "y"}]}
    first = ask("/events", body, **{"Idempotency-Key": "k"})
    assert first[0] == 207
    assert [one.get("reason") for one in first[1]["events"]] == [None, "missing", None]
    assert ask("/events", body, **{"Idempotency-Key": "k"}) == first
    assert program.ids("events").count("a") == 1
    assert ask("/events", body)[1]["written"] == 2  # without a key it is written again
    assert sorted(program.ids("events")) == ["a", "a", "b", "b"]


ODD_IDS = ["stream", "labels", ".", "..", "a/b", "\u2028x\x85", "line\r\nline", "nul\0", "%2e", "é?#"]


@pytest.mark.parametrize("program", ["sqlite"], indirect=True)
def test_any_id_is_sent_found_and_followed(program):
    """Ids that are path segments, and ids with ends of lines that JSON need not escape."""
    program.start("run")
    _, port, ask = serving(program)
    with Client(f"http://127.0.0.1:{port}") as client:
        end = ask("/predictions")[1]["next"]
        assert all(
            one.prediction for one in client.send([{"id": id_, "text": "x"} for id_ in ODD_IDS], wait=20)
        )
        assert [client.prediction(id_).id for id_ in ODD_IDS] == ODD_IDS
        stream = client.predictions(end)
        found = [next(stream) for _ in ODD_IDS]
        assert sorted(one.id for one in found) == sorted(ODD_IDS)
        assert next(client.predictions(found[3].cursor)).id == found[4].id


@pytest.mark.parametrize("program", ["sqlite"], indirect=True)
def test_events_of_one_id_get_a_prediction_each(program):
    program.start("run")
    _, _, ask = serving(program)
    body = {"events": [{"id": "a", "text": text, "label": text} for text in ("spam", "ham", "spam")]}
    for _ in range(2):  # the second time it is a repetition
        status, found = ask("/events?wait=prediction&timeout=20", body, **{"Idempotency-Key": "k"})
        assert status == 200
        assert [one["prediction"]["truth"] for one in found["events"]] == ["spam", "ham", "spam"]


@pytest.mark.parametrize("program", ["sqlite"], indirect=True)
def test_what_a_path_does_not_take_is_refused(program):
    _, _, ask = serving_without_model(program)
    for path in ("/predictions?klass=spam", "/predictions?limit=1&limit=2", "/labels/x?wait=learned"):
        status, found = ask(path)
        assert (status, found["code"]) == (422, "invalid-request"), path
        assert "query parameter" in found["detail"]
    assert ask("/events?Wait=prediction", {"events": [{"id": "a", "text": "x"}]})[0] == 422
    assert (
        ask("/events/", {"events": [{"id": "a", "text": "x"}]})[0] == 404
    )  # no redirect, which loses tokens
    assert program.ids("events") == []
    for path in ("/alerts", "/stream/alerts"):
        assert "topics.alerts is not set" in ask(path)[1]["detail"]
    assert ask("/live?probe=1")[0] == 200  # not an application's path


@pytest.mark.parametrize("program", ["sqlite"], indirect=True)
def test_a_stream_begins_with_any_cursor_or_refuses_it_at_once(program):
    """schemathesis leaves streams out: it would wait for their ends."""
    _, port, ask = serving_without_model(program)
    topic_id = ask("/predictions")[1]["next"].partition(":")[0]
    ask("/labels")
    huge = "9" * 15
    refused = [
        *(
            "x",
            "%00",
            "%FF",
            "%F0%9F%98%80:0",
            ":0,0",
            f"{topic_id}:",
            f"{topic_id}:-1,0",
            f"{topic_id}:0,0,",
        ),
        *(f"{topic_id}:0;0", f"{topic_id}:1e3,0", f"{topic_id}:9{huge},0", f"{topic_id}:%D9%A1,0"),
        *("a" * 101 + ":0", f"{topic_id}:0,0%0D%0AX-Odd:1", f"{topic_id}:" + ",".join("0" * 10_001)),
    ]
    queries = [(f"after={text}", {400, 422, 431}, b"") for text in refused]
    queries += [(query, {422}, b"") for query in ("limit=5", "after=x&after=x", "class=" + "x" * 1001)]
    gaps = {
        f"{topic_id}:0,0": b"",
        "": b"",
        f"{topic_id}:0": b"partitions",
        f"{topic_id}:0,0,0": b"lost",
        "another:0,0": b"recreated",
        f"{topic_id}:{huge},{huge}": b"lost",
    }
    queries += [(f"after={text}&class=%F0%9F%98%80&decision=%00", {200}, gap) for text, gap in gaps.items()]

    def begun(query, headers, *, until):
        """The status, and what comes until a text has come."""
        with socket.create_connection(("127.0.0.1", port), 10) as connection:
            request = f"GET /stream/predictions?{query} HTTP/1.1\r\nHost: localhost\r\n{headers}\r\n"
            connection.sendall(request.encode())
            said = b""
            while b"\r\n\r\n" not in said or until not in said:
                said += (more := connection.recv(9999))
                if not more:
                    break
        return int(said.split()[1]), said

    for query, statuses, gap in queries:
        status, said = begun(query, "", until=(gap or b"\nid: ") if statuses == {200} else b'"code"')
        assert status in statuses, (query[:80], said)
        assert (b"retry: 1000\nid: " in said) is (status == 200), query[:80]
        assert (b"event: gap" in said) is bool(gap), query[:80]
    assert begun("", "Last-Event-ID: x\r\n", until=b"cursor")[0] == 422
    status, said = begun(f"after={topic_id}:0,0", "Last-Event-ID: another:0,0\r\n", until=b"recreated")
    assert (status, said.count(b"event: gap")) == (200, 2)  # the header is the newer position
    assert ask("/live")[0] == 200


@pytest.mark.parametrize("program", ["sqlite"], indirect=True)
def test_streams_of_all_topics_together_are_limited(program):
    """All ask at once; a stream whose client leaves frees its place."""
    _, port, ask = serving_without_model(program)
    assert ask("/predictions")[0] == ask("/labels")[0] == 200

    def status_of(connection):
        return int(connection.recv(12).split()[1])

    def asked(path):
        connection = socket.create_connection(("127.0.0.1", port), 20)
        connection.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        return connection

    def is_open():
        with asked("/stream/predictions") as connection:
            return status_of(connection) == 200

    with ExitStack() as stack:
        found = [stack.enter_context(asked(path)) for path in ["/stream/predictions", "/stream/labels"] * 35]
        assert Counter(map(status_of, found)) == {200: 64, 503: 6}
    until(is_open)


@pytest.mark.parametrize("program", ["sqlite"], indirect=True)
def test_slow_clients_hold_up_nobody(program):
    """Bodies that never end, and readers who stop reading; the labels do not fit into the buffers of the kernel."""
    _, port, ask = serving_without_model(program)
    assert ask("/labels")[0] == 200
    body = b"POST /events HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 99\r\n\r\n{"
    reader = b"GET /stream/labels HTTP/1.1\r\nHost: localhost\r\n\r\n"
    with ExitStack() as stack:
        for sent in [body, reader] * 40:
            connection = stack.enter_context(socket.socket())
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            connection.connect(("127.0.0.1", port))
            connection.sendall(sent)
        with closing(context.existing_log(configured(program))) as log:
            topic = configured(program).topics.labels
            value = json.dumps({"id": "m1", "label": "x" * 900}).encode()
            for _ in range(10):
                log.append([NewRecord(topic, None, value)] * 1000)
        for i in range(20):
            began = time.monotonic()
            assert ask("/events", {"events": [{"id": f"e{i}", "text": "x"}]})[0] == 200
            assert time.monotonic() - began < 5.0  # half of what a body may take
        status, page = ask("/labels?limit=1000")
        assert (status, len(page.get("labels", page))) == (200, 1000), page


@pytest.mark.parametrize("program", ["sqlite"], indirect=True)
def test_odd_keys_are_kept_or_refused(program):
    """Also that of a request past FastAPI, which has no query parameters."""
    _, _, ask = serving_without_model(program)
    body = {"events": [{"id": "a", "text": "x"}]}
    for path in ("/events", "/events?wait=prediction&timeout=0.1"):
        for key in ("", "a b", "x" * 256, "\u00fc"):
            status, found = ask(path, body, **{"Idempotency-Key": key})
            assert (status, found["code"]) == (422, "invalid-request"), key
    assert program.ids("events") == []
    for key in ("x" * 255, "a,b", "'\"%00;--"):
        assert [ask("/events", body, **{"Idempotency-Key": key})[1]["written"] for _ in range(2)] == [1, 1]
    assert program.ids("events") == ["a"] * 3


@pytest.mark.parametrize("program", ["sqlite"], indirect=True)
def test_waiting_for_a_learner_that_is_dead_ends_in_time(program):
    learner = program.start("run")
    _, _, ask = serving(program)
    (sent,) = ask("/events?wait=prediction&timeout=20", {"events": [{"id": "b", "text": "x"}]})[1:]
    assert "warning" not in sent
    learner.kill()
    until(lambda: ask("/ready")[1]["learner"] == "silent")
    began = time.monotonic()
    status, found = ask("/events?wait=prediction&timeout=1", {"events": [{"id": "a", "text": "x"}]})
    assert found["warning"].startswith("the learner is silent")
    assert (status, found["written"], found["events"][0]["prediction"]) == (200, 1, None)
    status, found = ask("/labels?wait=learned&timeout=1", {"labels": [{"id": "a", "label": "x"}]})
    assert (status, found["labels"][0]["learned"]) == (200, False)
    assert time.monotonic() - began < 20


@pytest.mark.parametrize("program", ["sqlite"], indirect=True)
def test_the_methods_of_a_path_are_named(program):
    _, port, _ = serving_without_model(program)
    paths = {"/events": "POST", "/labels": "GET, POST", "/labels/undo": "POST", "/labels/m1": "GET"}
    for path, methods in paths.items():
        with closing(http.client.HTTPConnection("127.0.0.1", port)) as connection:
            connection.request("PUT", path)
            answer = connection.getresponse()
            assert (answer.status, answer.headers["Allow"]) == (405, methods), path


@pytest.mark.parametrize("program", ["sqlite"], indirect=True)
def test_one_key_at_two_servers_at_once_writes_once(program):
    asks = [serving_without_model(program)[2] for _ in range(2)]
    body, found = {"events": [{"id": "a", "text": "x"}, {"id": "b", "text": "y"}]}, []

    def send(ask, key):
        found.append((key, ask("/events", body, **{"Idempotency-Key": key})))

    for n in range(10):
        threads = [threading.Thread(target=send, args=(ask, f"k{n}")) for ask in asks * 2]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert len(found) == 40
    assert len({json.dumps(one, sort_keys=True) for one in found}) == 10  # the first answer, each time
    assert Counter(program.ids("events")) == {"a": 10, "b": 10}


def serving_without_model(program):
    """A server whose learner has never run: events and predictions need no model."""
    command = program.start("serve", "--listen", "127.0.0.1:0")
    command.await_word("answering at")
    port = int(command.said().rpartition("answering at 127.0.0.1:")[2].partition(":")[0])
    return command, port, asker(port)


def asker(port):
    def ask(path, body=None, **headers):
        with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=30)) as connection:
            given = body if isinstance(body, bytes | None) else json.dumps(body).encode()
            kind = {} if body is None else {"Content-Type": "application/json"}
            connection.request("GET" if body is None else "POST", path, given, kind | headers)
            answer = connection.getresponse()
            raw = answer.read()
            return answer.status, json.loads(raw) if raw[:1] in b"{[" else raw.decode()

    return ask


@pytest.mark.parametrize(
    ("body", "status", "code", "told"),
    [
        (b"", 400, "invalid-json", "not JSON"),
        (b"{", 400, "invalid-json", "not JSON"),
        (b"[]", 422, "invalid-request", "events"),
        (b"{}", 422, "invalid-request", "events"),
        (b'{"events": []}', 422, "invalid-request", "events"),
        (b'{"events": "a"}', 422, "invalid-request", "events"),
        (b'{"events": [1]}', 422, "events-refused", "event 0"),
        (b'{"events": [{"id": [1], "text": "x"}]}', 422, "events-refused", "$.id"),
        (b'{"events": [{"id": "a"}], "more": 1}', 422, "invalid-request", "more"),
        (b'{"events": [{"id": "a"}], "keys": []}', 422, "invalid-request", "keys"),
        (b'{"events": [{"id": "a", "text": "\xff"}]}', 422, "events-refused", "utf8"),
        (json.dumps({"events": [{"id": "a"}] * 1001}).encode(), 422, "invalid-request", "1000"),
    ],
)
@pytest.mark.parametrize("program", ["sqlite"], indirect=True)
def test_a_body_that_holds_no_events_is_refused_with_its_reason(program, body, status, code, told):
    _, _, ask = serving_without_model(program)
    found = ask("/events", body)
    assert found[0] == status, found
    assert found[1]["code"] == code
    assert told in found[1]["detail"]
    assert program.ids("events") == []


@pytest.mark.parametrize("program", ["sqlite"], indirect=True)
def test_streams_and_pages_say_what_they_cannot_show(program):
    """Trimmed records, and a topic that is another one by now."""
    _, port, ask = serving_without_model(program)
    _, page = ask("/predictions")
    assert page["predictions"] == []
    assert ask("/predictions?after=nonsense")[0] == 422
    assert ask("/predictions?after=other:0,0")[1]["gaps"] == [
        {"reason": "recreated", "partition": n, "offset": 0, "continues": 0} for n in (0, 1)
    ]
    assert ask("/alerts")[0] == 404  # no monitors
    program.run("run", "--until-end")
    ask("/events", {"events": [event(i) for i in range(50)]})
    program.run("run", "--until-end")
    with closing(context.existing_log(configured(program))) as log:
        parts = log.partitions(program.topics["predictions"])
        ends = [log.offsets(part)[1] for part in parts]
        for part, end in zip(parts, ends, strict=True):
            trim(log, part, end - 2)
    until(lambda: len(ask("/predictions?limit=1000")[1]["predictions"]) >= 4)
    gap = {"reason": "retention", "partition": 0, "offset": 0, "continues": ends[0] - 2}
    _, port, ask = serving_without_model(program)  # its memory begins behind the trimmed ones
    _, found = ask(f"/predictions?after={page['next']}")
    assert found["gaps"][0] == gap
    assert len(found["predictions"]) == 4
    assert ask(f"/predictions?after={found['next']}")[1]["predictions"] == []
    with Client(f"http://127.0.0.1:{port}") as client:
        stream = client.predictions(page["next"])
        with pytest.raises(MissedRecords) as missed:
            next(stream)
        assert missed.value.reason == "retention"
        again = client.predictions(missed.value.cursor)
        assert len([next(again) for _ in range(4)]) == 4


def test_an_async_client_has_the_same_calls(program):
    program.start("run")
    _, port, _ = serving(program)

    async def work():
        async with AsyncClient(f"http://127.0.0.1:{port}") as client:
            start = await client.cursor()
            (sent,) = await client.send(event(1), wait=20)
            stream = client.predictions(start)
            streamed = await asyncio.wait_for(anext(stream), 30)
            assert streamed.record == sent.prediction.record
            corrected = await client.correct("m1", "ham", by="ann", wait=20)
            assert (corrected.id, corrected.is_learned) == ("m1", True)
            await stream.aclose()

    asyncio.run(work())


def test_both_clients_have_the_same_calls():
    """By name, arguments and defaults."""

    def calls(client):
        return {
            name: [(one.name, one.kind, one.default) for one in inspect.signature(call).parameters.values()]
            for name, call in vars(client).items()
            if not name.startswith("_") or name == "__init__"
        }

    assert calls(Client) == calls(AsyncClient)
    assert {"send", "predictions", "correct", "ask"} <= set(calls(Client))
