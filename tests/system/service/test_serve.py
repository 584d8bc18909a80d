"""`streamnb serve`: a replica that follows a running learner, and answers over HTTP; on both logs."""

from __future__ import annotations

import asyncio
import gzip
import http.client
import json
import random
import shutil
import socket
import sqlite3
import threading
import time
from collections import Counter
from contextlib import ExitStack, closing
from importlib.metadata import version
from itertools import count, islice
from unittest.mock import Mock
from urllib.parse import urlsplit

import numpy as np
import pytest
import uvicorn
from prometheus_client import CollectorRegistry
from prometheus_client.parser import text_string_to_metric_families
from starlette.exceptions import HTTPException
from uvicorn.server import ServerState

import streamnb
from streamnb import config as configuration
from streamnb.engine.journal.recovery import recover
from streamnb.engine.ports import NewRecord
from streamnb.formats.snapshot_container import part_digest
from streamnb.persistence.snapshot_folder import SnapshotFolder
from streamnb.runtime import context, factories
from streamnb.runtime.log_follower import FairLock
from streamnb.scoring.new_class_probability import published_new_class_probability
from streamnb.serving import replica as following
from streamnb.serving.http_api import application
from streamnb.serving.http_labels import held_answer
from streamnb.serving.http_schemas import Problem
from streamnb.serving.http_server import _MOST_CONNECTIONS, _Bounded
from streamnb.serving.replica import Replica
from tests.brokers.numbered import NUMBERS
from tests.support.program import Program, until

pytestmark = pytest.mark.early(28)

WORDS = {"spam": ["free", "win", "cash"], "ham": ["lunch", "noon", "home"]}
TOKEN = "a-token-of-some-length"  # noqa: S105


def events(n, first=0, seed=3):
    rng = random.Random(seed + first)
    found = []
    for i in range(first, first + n):
        label = rng.choice(["spam", "ham"])
        words = rng.choices([*WORDS[label], "the", "and"], k=5)
        found.append(json.dumps({"id": f"m{i}", "text": " ".join(words), "label": label}).encode())
    return found


@pytest.fixture(params=["sqlite", pytest.param("kafka", marks=pytest.mark.broker)])
def made(request, tmp_path):
    """A program whose learner knows 200 events; it, and what appends to its topics."""
    address = f"sqlite:///{tmp_path / 'log.db'}"
    if request.param == "kafka":
        address = request.getfixturevalue("broker").address
    name = f"serve{next(NUMBERS)}"
    program = Program(
        tmp_path,
        address,
        model=name,
        model_keys={"kind": "naive_bayes"},
        topics={"labels": f"{name}-labels", "partitions": 1},
        snapshots={"every_events": 100, "folder": str(tmp_path / "snapshots")},
        commit={"events": 20},
    )
    program.run("topics", "create")

    def append(raws):
        with closing(context.open_log(configured(program))) as log:
            log.append([NewRecord(program.topics["events"], None, raw) for raw in raws])

    append(events(200))
    program.run("run", "--until-end")
    yield program, append
    for command in program._started:
        if command.is_going():
            command.kill()


def configured(program):
    return configuration.load(program.file, {}, [])


def serving(program, *more):
    command = program.start("serve", "--listen", "127.0.0.1:0", *more)
    command.await_word("answering at")
    port = int(command.said().rpartition("answering at 127.0.0.1:")[2].partition(":")[0])

    def ask(path, body=None, **headers):
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
        with closing(connection):
            given = body if isinstance(body, bytes | None) else json.dumps(body).encode()
            kind = {} if body is None else {"Content-Type": "application/json"}
            connection.request("GET" if body is None else "POST", path, given, kind | headers)
            answer = connection.getresponse()
            raw = answer.read()
            is_json = "json" in answer.headers.get("Content-Type", "")
            return answer.status, json.loads(raw) if is_json else raw.decode()

    until(lambda: ask("/ready")[0] == 200)
    return command, port, ask


def present(program):
    """The model that a learner would begin with."""
    config = configured(program)
    with closing(context.open_log(config)) as log:
        config = factories.begun_configuration(config, log)  # the budget of memory, above all
        learner = factories.learner(config)
        checkpoint = recover(log, factories.snapshots(config), learner, factories.identity(config))
    return checkpoint.n, learner.model


@pytest.mark.thorough_for("kafka")
def test_it_says_where_its_configuration_is_not_the_learners(made):
    """Once; and answers by that of the learner."""
    program, _ = made
    name = program.topics["predictions"]
    others = f'topics.predictions is "others", and the learner\'s "{name}"'
    for given, told in [
        ([], []),
        (["topics.predictions=others"], [others]),
        (["events.label=$.kind"], ['events.label is "$.kind", and the learner\'s "$.label"']),
    ]:  # fmt: skip
        heard = []
        replica = Replica(configuration.load(program.file, {}, given), heard.append)
        replica.start()
        until(lambda one=replica: one.is_ready or one.problem)
        replica.close()
        assert [one.partition(": ")[0] for one in heard] == told
        assert all("--config FILE" in one for one in heard[:1])


def test_it_answers_by_the_model_of_the_learner_and_follows_it(made):
    program, append = made
    command, port, ask = serving(program)
    n, model = present(program)
    texts = ["free cash at noon", "lunch at home"]
    status, answer = ask("/predict", {"events": [texts[0], {"id": "a", "text": texts[1]}]})
    assert (status, answer["journal"]) == (200, n)
    assert [one["id"] for one in answer["predictions"]] == [None, "a"]
    for text, one in zip(texts, answer["predictions"], strict=True):
        assert one["probabilities"] == model.predict_proba_one({"text": text})
        assert one["label"] == model.predict_one({"text": text})
        assert (
            one["unseen"]
            == published_new_class_probability(
                np.array([n_events := model.n_events]), np.array([len(model.classes)])
            )[0]
        )
        assert 0 < one["unseen"] < 1 / n_events
    assert ask("/tokens/free")[1]["found"][0]["counts"]["spam"] > 10
    assert ask("/explain", {"event": texts[0]})[1]["evidence"]
    strange = {"id": "a", "features": {"unmet": "x"}}
    assert "nothing was learned of unmet" in ask("/explain", {"event": strange})[1]["warning"]
    run = program.start("run")
    append(events(300, first=200))
    until(lambda: ask("/model")[1]["learned"] == 500)
    status, answer = ask("/labels", {"labels": [{"id": "m499", "label": "other", "source": "me"}]})
    before = {"label": own_label("m499"), "source": "event"}
    (written,) = answer["labels"]
    assert (status, answer["written"], written["id"]) == (200, 1, "m499")
    assert (written["event_known"], written["class_known"]) == (True, False)
    assert {key: written["holds"][key] for key in before} == before
    assert answer["journal"] <= ask("/model")[1]["journal"]
    until(lambda: "other" in ask("/model")[1]["classes"])
    assert_it_says_which_label_holds(ask)
    run.stop()
    n, model = present(program)
    until(lambda: ask("/model")[1]["journal"] == n)
    found = ask("/model")[1]
    assert found["classes"] == {str(label): weight for label, weight in model.class_weights.items()}
    status, text = ask("/metrics")
    gauges = {
        sample.name: sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }
    assert gauges["streamnb_replica_journal_record"] == n
    assert gauges["streamnb_replica_learned_events"] == 500
    assert_head_is_get_without_a_body(port)
    assert command.stop().process.returncode == 0
    assert "Traceback" not in command.said()


def own_label(event_id):
    return {one["id"]: one["label"] for one in map(json.loads, events(300, first=200))}[event_id]


def assert_it_says_which_label_holds(ask):
    own = own_label("m499")
    status, found = ask("/labels/m499")
    (other,) = found["others"]
    assert (status, found["label"], found["source"]) == (200, "other", "me")
    assert ask("/openapi.json")[1]["info"]["version"] == version("streamnb")
    assert (other["label"], other["source"]) == (own, "event")
    assert other["ts"] <= found["ts"]
    assert found["journal"] <= ask("/model")[1]["journal"]
    for path in (
        "/labels/m%FF",
        "/tokens/fr%FF",
        "/predictions/m%FF",
        "/explain/m%FF",
        "/predictions?class=%FF",
    ):
        status, answer = ask(path)
        assert (status, answer["code"]) == (400, "not-utf-8"), path
        assert answer["detail"].startswith("the query is not" if "?" in path else "the path is not UTF-8")
    alike = ["spam ", "Spam", "ham", "SPAM"]
    labels = [{"id": f"nobody-{n}", "label": label} for n, label in enumerate(alike)]
    answer = ask("/labels", {"labels": [*labels, {"id": "nobody-9", "label": None}]})[1]
    warned = [one.get("warning", "") for one in answer["labels"]]
    assert [warning.partition("?")[0] for warning in warned] == [
        "label 'spam ': did you mean 'spam'",
        "label 'Spam': did you mean 'spam'",
        "",
        "label 'SPAM': did you mean 'spam'",
        "",
    ]
    alone = ask("/labels/m200")[1]
    assert (alone["source"], alone["others"]) == ("event", [])
    said = [{"id": "m499", "label": None, "source": who} for who in ("me", "else")]
    early = [{"id": odd, "label": "spam"} for odd in ("a/b c", "m499\n", "\n", "a\nb")]
    status, answer = ask("/labels", {"labels": [*said, *early]})
    known = [(one["event_known"], one["class_known"]) for one in answer["labels"]]
    assert (status, known) == (200, [(True, None)] * 2 + [(False, True)] * 4)
    until(lambda: ask("/labels/m499")[1]["label"] == own)
    until(lambda: len(ask("/labels/m499")[1]["others"]) == 2)  # the other one may come a commit later
    assert [one["label"] for one in ask("/labels/m499")[1]["others"]] == [None, None]
    assert_it_warns_of_a_source_too_many(ask)
    early = ("a/b%20c", "m499%0A", "%0A", "a%0Ab")
    for path, told in [*((path, "a label waits for it") for path in early), ("nobody", "nor did a label")]:
        until(lambda path=path, told=told: told in ask(f"/labels/{path}")[1]["detail"])
        assert ask(f"/labels/{path}")[0] == 404


def assert_it_warns_of_a_source_too_many(ask):
    """The event has labels of `me` and `else` besides its own; the learner takes two more sources."""
    own = own_label("m499")
    labels = [{"id": "m499", "label": own, "source": who} for who in ("third", "fourth", "fifth", "fourth")]
    for told in ([False, False, True, False], [False, False, True, False]):
        found = ask("/labels", {"labels": labels})[1]["labels"]
        assert ["warning" in one for one in found] == told
        until(lambda: len(ask("/labels/m499")[1]["others"]) == 4)
    assert [one["source"] for one in ask("/labels/m499")[1]["others"]].count("fifth") == 0


def assert_head_is_get_without_a_body(port):
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=30)) as connection:
        for path in ("/openapi.json", "/page/page.css", "/page/model", "/nothing", "/predict"):
            found = {}
            for method in ("GET", "HEAD"):
                connection.request(method, path)
                answer = connection.getresponse()
                found[method] = answer.status, dict(answer.headers) | {"date": ""}, len(answer.read())
            assert found["HEAD"] == (*found["GET"][:2], 0)


@pytest.mark.thorough_for("kafka")
def test_a_replica_is_the_learner_bit_for_bit_after_a_rollback_and_a_rebuild_too(made):
    program, append = made
    replica = Replica(configured(program), print)
    replica.start()

    def agrees():
        n, model = present(program)
        until(lambda: replica.state()["journal"] == n)
        with replica.lock:
            assert part_digest(*replica.asked().model.state()) == part_digest(*model.state())

    until(lambda: replica.is_ready)
    agrees()
    run = program.start("run")
    append(events(150, first=200))
    until(lambda: replica.state()["learned"] == 350)
    run.kill()
    agrees()
    assert "forgotten" not in why_no_label(replica, "m300000")
    program.run("forget", "--ids", forgotten(program))
    agrees()
    assert "; or it was forgotten, or is kept no longer" in why_no_label(replica, "m3")
    assert replica.state()["learned"] == 348
    back = replica.state()["journal"]
    program.run("run", "--until-end")
    append(events(40, first=350))
    program.run("run", "--until-end")
    agrees()
    program.run("snapshot", "rollback", "--to", str(back))
    agrees()
    program.run("rebuild")
    agrees()
    replica.close()


def why_no_label(replica, event_id):
    with replica.lock, pytest.raises(HTTPException) as refused:
        held_answer(replica, event_id)
    return refused.value.detail


def forgotten(program):
    file = program.folder / "gone.txt"
    file.write_text("m3\nm4\n")
    return str(file)


@pytest.mark.thorough_for("kafka")
def test_what_is_wrong_is_said_and_harms_nobody(made):
    program, _ = made
    command, port, ask = serving(program)
    for path, body, status, word in [
        ("/predict", b"{", 400, "the body is not JSON"),
        ("/labels", b'{"labels": [1,]}', 400, "the body is not JSON"),
        ("/predict", {"events": []}, 422, "at least 1"),
        ("/predict", {"events": ["a"] * 1001}, 422, "at most 1000"),
        ("/predict", {"events": [7]}, 422, "string"),
        ("/predict", {"events": [{"text": 7}]}, 422, "event 0"),
        ("/predict", {"events": ["a", {"features": []}]}, 422, "event 1"),
        ("/predict", b'{"events": ["\\ud800"]}', 422, "attribute 'text': a lone surrogate is not text"),
        ("/explain", b'{"event": "\\ud800"}', 422, "a lone surrogate is not text"),
        (
            "/labels",
            b'{"labels": [{"id": "a", "label": "\\ud800"}]}',
            422,
            "labels.0.label: Input should be a valid string",
        ),
        ("/predict", b'{"events": [{"features": {"x": NaN}}]}', 422, "event 0"),
        ("/predict", b"[" * 100_000, 400, "the body cannot be read: expected JSON"),
        ("/explain", {"event": "a", "against": "nobody"}, 422, "no such label"),
        ("/labels", {"labels": [{"id": "", "label": "spam"}]}, 422, "labels.0.id"),
        ("/labels", {"labels": [{"id": "a", "label": "b", "weight": -1}]}, 422, "labels.0.weight"),
        ("/labels", {"labels": [{"id": "a", "Lable": "b"}]}, 422, "labels.0.label: Field required"),
        ("/explain", {"id": "a", "text": "b"}, 422, "body.event: Field required"),
        ("/labels", {"id": "a", "label": "b"}, 422, "body.labels: Field required"),
        ("/predict", {"event": "a"}, 422, "body.events: Field required"),
        ("/labels", {"labels": [{"id": "a", "label": "b", "source": "event"}]}, 422, "label 0"),
        (
            "/labels",
            {"labels": [{"id": "a", "label": "b"}, {"id": "a", "label": " \u200b"}]},
            422,
            "label 1: a label needs a character that can be seen",
        ),
        (
            "/labels",
            {"labels": [{"id": "a", "label": "b"}, {"id": "a", "label": "b", "ts": 4e9}]},
            422,
            "after the log recorded the label, more than a day",
        ),
        ("/predict", b'{"events": [NaN]}', 422, "string"),
        ("/predict", b'{"\\ud800": 1}', 422, "unicode"),
        ("/predict", {str(i): i for i in range(100_000)}, 422, "at most 20 keys"),
        ("/explain", b'{"event": "a", "against": "\\ud800"}', 422, "no such label"),
        ("/labels", b'{"labels": [{"id": "a", "label": "b", "weight": NaN}]}', 422, "finite"),
        ("/labels", b'{"labels": [{"id": "a", "label": "b", "ts": 1e999}]}', 422, "finite"),
        ("/explain", {"event": "free " * 10_000}, 422, "50,000 characters, more than 32,768"),
        ("/explain", {"event": {"text": "free " * 10_000}}, 422, "more than 32,768"),
        ("/tokens/a%2Fb", None, 200, "a/b"),
        ("/labels/", None, 404, "the path ends without id"),
        ("/tokens/", None, 404, "the path ends without word"),
        ("/nothing", None, 404, "Not Found"),
        ("/predict", None, 405, "Not Allowed"),
    ]:
        found, answer = ask(path, body)
        assert (found, word in json.dumps(answer)) == (status, True), (path, body, answer)
        assert status == 200 or (answer["status"], set(answer)) == (status, set(Problem.model_fields))
    code, answer = ask("/predict", {"events": ["a"]}, **{"Content-Type": "text/plain"})
    assert (code, "the header Content-Type: application/json" in answer["detail"]) == (415, True)
    packed = gzip.compress(b'{"events": ["a"]}')
    code, answer = ask("/predict", packed, **{"Content-Encoding": "gzip"})
    assert (code, answer["code"]) == (415, "unsupported-encoding")
    assert "Content-Type" not in ask("/predict", b"{")[1]["detail"]
    assert ask("/predict", b"{}", **{"Content-Length": str(5 << 20)})[0] == 413
    assert ask("/model", Host="evil.example")[0] == 403
    assert ask("/model", Host="[::1")[0] == 403
    for origin in ("http://evil.example", "http://[", "null", "http://127.0.0.1:1"):
        assert ask("/labels", {"labels": []}, Origin=origin)[0] == 403
    assert ask("/model", Origin=f"http://127.0.0.1:{port}")[0] == 200
    slow = [socket.create_connection(("127.0.0.1", port)) for _ in range(100)]
    for one in slow[50:]:  # the head of a second request is bounded, too
        one.sendall(b"GET /live HTTP/1.1\r\nHost: localhost\r\n\r\n")
        answer = b""
        while not answer.endswith(b"}"):
            answer += one.recv(9999)
        one.sendall(b"GET /live HTTP")
    assert ask("/model")[0] == 200
    for one in slow[:50]:
        one.sendall(b"POST /predict HTTP/1.1\r\nHost: localhost\r\n")
    began = time.monotonic()
    for one in slow:
        one.settimeout(30)
        assert one.recv(1) == b""
        one.close()
    assert time.monotonic() - began < 25
    assert ask("/predict", {"events": ["free"]})[0] == 200
    assert command.stop().process.returncode == 0
    assert "Traceback" not in command.said()


def test_labels_for_a_topic_that_no_learner_reads_are_refused(made):
    """Over HTTP; the command writes them, for a learner may be started with the topic, and warns."""
    program, _ = made
    topic = f"{configured(program).topics.labels}-unread"
    unread = ["--set", f"topics.labels={topic}"]
    program.run("topics", "create", *unread)
    command, _, ask = serving(program, *unread)
    status, answer = ask("/labels", {"labels": [{"id": "m1", "label": "spam"}]})
    assert (status, answer["code"]) == (409, "labels-not-read")
    assert f"no learner reads the topic {topic}: by journal record" in answer["detail"]
    assert program.topics["events"] in answer["detail"]
    command.kill()
    assert program.start("read", topic).finish().said(0) == ""
    warned = program.start("label", "m1", "spam", *unread).finish()
    assert (warned.process.returncode, "warning: no learner reads the topic" in warned.said()) == (0, True)
    assert len(program.start("read", topic).finish().said(0).splitlines()) == 1
    begun = ["--set", f"topics.journal={topic}-journal"]
    program.run("topics", "create", *unread, *begun)
    unwarned = program.start("label", "m1", "spam", *unread, *begun).finish()
    assert (unwarned.process.returncode, unwarned.said()) == (0, "")


@pytest.mark.thorough_for("kafka")
def test_others_are_let_in_with_a_token_alone(made, tmp_path):
    program, _ = made
    file = tmp_path / "token"
    file.write_text(TOKEN)
    two = tmp_path / "two"
    two.write_text(f"{TOKEN}\n{TOKEN}\n")
    for arguments, word in [
        (["--token-file", str(two)], "two:1: expected NAME ROLE[,ROLE] SHA256"),
        (["--listen", "0.0.0.0:0"], "give --token-file"),
        (["--listen", "0.0.0.0:0", "--token-file", str(file)], "--behind-proxy"),
        (["--certificate", "c.pem"], "belong together"),
        (["--certificate", str(file), "--private-key", str(file)], "expected PEM files"),
        (["--certificate", "no.pem", "--private-key", "no.pem"], "No such file"),
        (["--token-file", "no-token"], "--token-file: no-token cannot be read"),
        (["--listen", "nowhere"], "--listen"),
    ]:
        refused = program.start("serve", *arguments).finish()
        assert (refused.process.returncode, word in refused.said()) == (2, True), refused.said()
    with socket.create_server(("127.0.0.1", 0)) as taken:
        place = f"127.0.0.1:{taken.getsockname()[1]}"
        refused = program.start("serve", "--listen", place).finish()
    assert (refused.process.returncode, "is it taken?" in refused.said()) == (1, True), refused.said()
    _, _, ask = serving(program, "--token-file", str(file), "--rate", "50")
    assert ask("/model")[0] == 401
    assert ask("/model", Authorization="Bearer nonsense")[0] == 401
    for scheme in ("Bearer", "bearer", "BEARER "):
        assert ask("/model", Authorization=f"{scheme} {TOKEN}")[0] == 200
    found = [ask("/model", Authorization=f"Bearer {TOKEN}")[0] for _ in range(600)]
    assert set(found) <= {200, 429}
    assert {ask("/live")[0] for _ in range(300)} == {200}


@pytest.mark.parametrize("host", ["127.0.0.2", "[::1]"])
def test_whatever_loopback_address_it_listens_on_it_may_be_asked_by(host, tmp_path):
    """And by no other name; what it says of the page is an URL."""
    program = Program(tmp_path, f"sqlite:///{tmp_path / 'log.db'}", model_keys={"kind": "naive_bayes"})
    program.run("topics", "create")
    command = program.start("serve", "--listen", f"{host}:0")
    command.await_word("the page is ")
    url = urlsplit(command.said().partition("the page is ")[2].split()[0])
    assert host in {url.hostname, f"[{url.hostname}]"}
    for asked, is_refused in ((url.netloc, False), (f"localhost:{url.port}", False), ("evil.example", True)):
        with closing(http.client.HTTPConnection(url.hostname, url.port, timeout=30)) as connection:
            connection.request("GET", "/live", headers={"Host": asked})
            assert (connection.getresponse().status == 403) is is_refused
    command.kill()


def test_a_log_that_stands_keeps_nobody_waiting_who_asks(tmp_path):
    given = threading.Event()
    replica = Replica(configured(Program(tmp_path, "sqlite:///log.db")), print)
    app = application(replica, CollectorRegistry(), lambda _: given.wait(30))

    async def post(path, body):
        said = []

        async def receive():
            return {"type": "http.request", "body": json.dumps(body).encode()}

        async def send(message):
            said.append(message)

        scope = {"type": "http", "method": "POST", "path": path, "query_string": b"", "http_version": "1.1"}
        await app(scope | {"headers": [(b"content-type", b"application/json")]}, receive, send)
        return said[0]["status"]

    async def asked():
        label = {"labels": [{"id": "a", "label": "b"}]}
        waiting = [asyncio.create_task(post("/labels", label)) for _ in range(60)]
        await asyncio.sleep(0.1)
        assert await asyncio.wait_for(post("/predict", {"events": ["a"]}), 3) == 503  # there is no model yet
        refused = [await one for one in islice(asyncio.as_completed(waiting), 59)]
        assert refused == [503] * 59
        given.set()
        assert [await one for one in waiting if not one.done()] == [200]  # whichever began first

    asyncio.run(asked())


def test_a_log_that_another_process_keeps_locked_is_waited_for_at_the_start(tmp_path):
    program = Program(tmp_path, f"sqlite:///{tmp_path / 'log.db'}", model_keys={"kind": "naive_bayes"})
    program.run("topics", "create")
    other = sqlite3.connect(tmp_path / "log.db", isolation_level=None)
    with closing(other):
        other.execute("PRAGMA locking_mode = EXCLUSIVE")
        other.execute("BEGIN EXCLUSIVE")
        command = program.start("serve", "--listen", "127.0.0.1:0")
        command.await_word("waiting: ")
    command.await_word("answering at")
    command.await_word(f"`streamnb run --config {program.file}` learns")  # nothing has been yet
    command.kill()


def test_before_anything_was_learned_it_says_so(tmp_path):
    program = Program(tmp_path, f"sqlite:///{tmp_path / 'log.db'}", model_keys={"kind": "naive_bayes"})
    program.run("topics", "create")
    replica = Replica(configured(program), lambda _: None)
    replica.start()
    until(lambda: "nothing has been learned yet" in replica.problem)
    assert not replica.is_ready
    with pytest.raises(streamnb.errors.SnapshotError, match="nothing has been learned yet"):
        replica.asked()
    replica.close()


def test_a_log_that_is_replaced_by_its_backup_is_followed(tmp_path):
    """Not the file that was there when it was opened, to which nobody writes any more."""
    program = Program(tmp_path, f"sqlite:///{tmp_path / 'log.db'}", model_keys={"kind": "naive_bayes"})
    program.run("topics", "create")

    def learn(*which):
        with closing(context.open_log(configured(program))) as log:
            log.append([NewRecord(program.topics["events"], None, raw) for raw in events(*which)])
        program.run("run", "--until-end")

    learn(50)
    shutil.copytree(tmp_path, tmp_path / "backup", ignore=shutil.ignore_patterns("backup"))
    learn(50, 50)
    told = []
    with closing(Replica(configured(program), told.append)) as replica:
        replica.start()
        until(lambda: replica.state()["learned"] == 100)
        shutil.rmtree(configured(program).snapshot_folder)
        (tmp_path / "log.db").unlink()
        until(lambda: "there is no log" in replica.problem)
        assert "deleted, moved or replaced" in told[0]
        shutil.copytree(tmp_path / "backup", tmp_path, dirs_exist_ok=True)
        until(lambda: replica.state()["learned"] == 50)
        learn(10, 200)
        until(lambda: (replica.state()["learned"], replica.problem) == (60, ""))


def test_a_replica_that_rests_follows_while_it_is_asked(tmp_path, monkeypatch):
    """Nobody asks: no log is opened. Who asks is told that it loads; a while after the last question all goes."""
    monkeypatch.setattr(following, "REST_SECONDS", 1.0)
    program = Program(tmp_path, f"sqlite:///{tmp_path / 'log.db'}", model_keys={"kind": "naive_bayes"})
    program.run("topics", "create")
    with closing(context.open_log(configured(program))) as log:
        log.append([NewRecord(program.topics["events"], None, raw) for raw in events(200)])
    program.run("run", "--until-end", "--set", "commit.events=20")
    for file in SnapshotFolder(configured(program).snapshot_folder).list():
        file.path.unlink()  # so that all is replayed
    opened, existing = [], context.existing_log
    monkeypatch.setattr(context, "existing_log", lambda config: opened.append(1) or existing(config))
    told, advanced = [], threading.Event()

    def recover_slowly(*given, **more):
        def seen(*_):
            told.append(replica.status)
            advanced.wait(5)

        return recover(*given, passed=seen, **more)

    monkeypatch.setattr(following, "recover", recover_slowly)
    with closing(Replica(configured(program), told.append, rests=True)) as replica:
        replica.start()
        time.sleep(0.5)
        assert (opened, replica.stands) == ([], None)
        assert replica.is_alive
        assert replica.is_ready
        for turn in range(2):
            advanced.clear()
            with pytest.raises(streamnb.errors.SnapshotError, match="The model is loading"):
                replica.asked()
            until(lambda: replica.wake() or told)
            assert replica.is_loading
            assert told[-1] == "The model is loading"
            advanced.set()
            until(lambda: replica.wake() or replica.stands is not None)
            with replica.lock:
                assert replica.asked().model.n_events == 200
            assert replica.state()["learned"] == 200
            until(lambda: replica.stands is None)
            assert (len(opened), replica.problem) == (turn + 1, "")
            told.clear()


def test_a_body_that_is_cut_short_writes_nothing(made):
    program, _ = made
    _, port, ask = serving(program)
    assert ask("/live")[0] == 200
    whole = json.dumps({"labels": [{"id": "m1", "label": "x"}]}).encode()
    with socket.create_connection(("127.0.0.1", port)) as client:
        head = f"POST /labels HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Type: application/json\r\n"
        client.sendall(
            f"{head}Transfer-Encoding: chunked\r\n\r\n{len(whole):x}\r\n".encode() + whole + b"\r\n"
        )
        client.shutdown(socket.SHUT_WR)
        client.settimeout(20)
        client.recv(1000)
    time.sleep(0.5)
    with closing(context.open_log(configured(program))) as log:
        assert log.offsets(log.partitions(program.model + "-labels")[0]) == (0, 0)


@pytest.mark.parametrize("made", ["sqlite"], indirect=True)
def test_who_asks_nothing_makes_place_for_who_asks(made):
    _, port, ask = serving(made[0])
    with ExitStack() as open_:
        silent = [
            open_.enter_context(socket.create_connection(("127.0.0.1", port), timeout=20)) for _ in range(300)
        ]
        head = f"GET /live HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n".encode()
        for client in silent[100:]:  # and then nothing more
            client.sendall(head)
            assert client.recv(1000).startswith(b"HTTP/1.1 200")
        for path in ("/live", "/ready", "/model"):
            assert ask(path)[0] == 200
        assert silent[0].recv(1) == b""  # the first were left


def test_a_request_is_answered_while_others_connect():
    """In the very turn of the loop in which one more has come, and the quietest is left for it."""

    async def app(_scope, _receive, send):
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    async def said():
        settings = uvicorn.Config(app, http=_Bounded, log_config=None)
        settings.load()
        state = ServerState()
        clients = []
        for _ in range(_MOST_CONNECTIONS + 44):
            clients.append(client := _Bounded(settings, state, {}))
            client.connection_made(Mock(**{"get_extra_info.return_value": None}))
        clients[-100].data_received(b"GET /live HTTP/1.1\r\nHost: one\r\n\r\n")
        await asyncio.gather(*state.tasks)
        left = [client for client in clients if client.transport.abort.called]
        for client in clients:
            client.connection_lost(None)
        return clients[-100].transport.write.call_args_list[0].args[0], left == clients[:45]

    answer, are_the_first = asyncio.run(said())
    assert answer.startswith(b"HTTP/1.1 200")
    assert are_the_first


def held_server():
    """Settings and state of a server whose app answers as soon as the event is set."""
    released = asyncio.Event()

    async def app(_scope, _receive, send):
        await released.wait()
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    settings = uvicorn.Config(app, http=_Bounded, log_config=None)
    settings.load()
    return settings, ServerState(), released


def test_a_connection_too_many_gets_an_error_of_the_shape_of_all():
    """While each of the others waits for its answer."""

    async def answered():
        settings, state, released = held_server()
        clients = []
        for _ in range(_MOST_CONNECTIONS):
            clients.append(client := _Bounded(settings, state, {}))
            client.connection_made(Mock(**{"get_extra_info.return_value": None}))
            client.data_received(b"GET /live HTTP/1.1\r\nHost: one\r\n\r\n")
        released.set()
        await asyncio.gather(*state.tasks)
        for client in clients:
            client.connection_lost(None)
        return [b"".join(call.args[0] for call in one.transport.write.call_args_list) for one in clients]

    answers = asyncio.run(answered())
    assert {answer[:12] for answer in answers[:-1]} == {b"HTTP/1.1 200"}
    head, _, body = answers[-1].partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 503")
    assert b"content-type: application/problem+json\r\n" in head
    assert b"retry-after: 1" in head
    assert (json.loads(body)["status"], json.loads(body)["code"]) == (503, "unavailable")


@pytest.mark.parametrize("newcomers", [200, 300])
def test_those_who_come_while_all_others_ask_get_their_503_up_to_as_many_again(newcomers):
    """None of them has asked yet when the next one comes."""

    async def answered():
        settings, state, released = held_server()
        clients = [_Bounded(settings, state, {}) for _ in range(_MOST_CONNECTIONS + newcomers)]

        def come(client):
            client.connection_made(Mock(**{"get_extra_info.return_value": None}))

        def ask(client):
            client.data_received(b"GET /live HTTP/1.1\r\nHost: one\r\n\r\n")

        for client in clients[:_MOST_CONNECTIONS]:
            come(client)
            ask(client)
        late = clients[_MOST_CONNECTIONS:]
        for client in late:
            come(client)
        left = [client for client in late if client.transport.abort.called]
        for client in late:
            if client not in left:
                ask(client)
        released.set()
        await asyncio.gather(*state.tasks)
        for client in clients:
            client.connection_lost(None)
        return Counter(
            b"".join(call.args[0] for call in one.transport.write.call_args_list)[:12] for one in late
        )

    answers = asyncio.run(answered())
    assert answers[b"HTTP/1.1 503"] + answers[b""] == newcomers
    assert (answers[b""] == 0) is (newcomers < _MOST_CONNECTIONS)
    assert answers[b"HTTP/1.1 503"] > 100


@pytest.mark.parametrize(
    "request_",
    [
        b"no http at all\r\n\r\n",
        b"GET /live HTTP/1.1\r\n\r\n",
        b"GET /live HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
        b"GET /live HTTP/1.1\r\nHost: a\r\nno header\r\n\r\n",
        b"GET /live HTTP/1.1\r\nHost: a\r\nContent-Length: x\r\n\r\n",
        b"GET /live HTTP/1.1\r\nHost: a\r\nX: " + b"x" * (17 << 10),
    ],
)
def test_what_is_not_http_gets_an_error_of_the_shape_of_all(request_):
    async def answered():
        settings = uvicorn.Config(
            Mock(), http=_Bounded, log_config=None, h11_max_incomplete_event_size=16 << 10
        )
        settings.load()
        client = _Bounded(settings, ServerState(), {})
        client.connection_made(Mock(**{"get_extra_info.return_value": None}))
        client.data_received(request_)
        client.connection_lost(None)
        assert client.transport.close.called
        return b"".join(call.args[0] for call in client.transport.write.call_args_list)

    head, _, body = asyncio.run(answered()).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 400 ")
    assert b"content-type: application/problem+json\r\n" in head.lower()
    found = json.loads(body)
    assert (found["status"], found["code"], set(found)) == (400, "invalid-http", set(Problem.model_fields))


def test_a_replica_whose_thread_has_ended_is_not_alive(tmp_path, monkeypatch):
    program = Program(tmp_path, f"sqlite:///{tmp_path / 'log.db'}")
    program.run("topics", "create")
    replica = Replica(configured(program), lambda _: None)
    monkeypatch.setattr("threading.excepthook", lambda _: None)
    monkeypatch.setattr(replica, "_follow", lambda _: 1 / 0)
    assert not replica.is_alive
    replica.start()
    until(lambda: not replica.is_alive)


def test_who_waits_for_the_lock_has_it_next():
    """Whoever follows lets it go and takes it again and again; of `threading.Lock` it had it hundreds of times more."""
    lock, taken, stopping = FairLock(), count(), threading.Event()

    def follow():
        while not stopping.is_set():
            with lock:
                next(taken)
                sum(range(20_000))

    thread = threading.Thread(target=follow)
    thread.start()
    waited = []
    for _ in range(100):
        before = next(taken)
        with lock:
            waited.append(next(taken) - before - 1)
        time.sleep(0.001)
    stopping.set()
    thread.join()
    assert sorted(waited)[-5] <= 2
    with lock.if_free() as is_free, lock.if_free() as again:
        assert (is_free, again) == (True, False)
    with lock:
        pass
