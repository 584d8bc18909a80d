"""Clients with tokens: their roles, keys and names; and labels, explanations and repeated keys over HTTP."""

from __future__ import annotations

import base64
import hashlib
import json
from contextlib import closing
from urllib.parse import urlencode

import pytest

from streamnb.engine.ports import NewRecord
from streamnb.runtime import context
from tests.serving.test_live_page import csrf_of
from tests.support.program import Program, until
from tests.system.service.test_serve import configured, serving

pytestmark = pytest.mark.early(28)
CLIENTS = {"shop": "send", "other": "send", "ann": "ask,label", "boss": "admin"}


@pytest.fixture
def program(request, tmp_path):
    made = Program(
        tmp_path,
        f"sqlite:///{tmp_path / 'log.db'}",
        model="clients",
        model_keys={"kind": "naive_bayes"},
        topics={"labels": "labels"},
        labels={"allowed": ["spam", "ham"]},
        predictions={"evidence": 3},
        **getattr(request, "param", {}),
    )
    made.run("topics", "create")
    yield made
    made.close()


@pytest.fixture
def clients(program, tmp_path):
    """Of each client, how it asks, once there is a model."""
    file = tmp_path / "tokens"
    tokens = {name: f"a-token-of-{name}" for name in CLIENTS}
    digests = {name: hashlib.sha256(token.encode()).hexdigest() for name, token in tokens.items()}
    file.write_text("".join(f"{name} {roles} {digests[name]}\n" for name, roles in CLIENTS.items()))
    program.learner = program.start("run")
    _, port, ask = serving(program, "--token-file", str(file))
    program.address_of_serve = f"127.0.0.1:{port}"

    def asking(name):
        return lambda path, body=None, **headers: ask(
            path, body, **{"Authorization": f"Bearer {tokens[name]}", **headers}
        )

    return {name: asking(name) for name in CLIENTS} | {"nobody": ask}


def event(id_, label=None):
    return {"id": id_, "text": "free cash", **({"label": label} if label else {})}


def learned(clients):
    found = clients["shop"](
        "/events?wait=prediction&timeout=20", {"events": [event("m1", "spam"), event("m2", "ham")]}
    )
    assert found[0] == 200
    until(lambda: clients["ann"]("/labels/m2")[0] == 200)
    return found[1]["events"]


def test_keys_are_of_one_client_and_send_alone_reads_its_own_predictions(clients):
    assert all(one["prediction"] for one in learned(clients))
    assert clients["shop"]("/predictions")[1]["code"] == "missing-role"
    key = {"Idempotency-Key": "k"}
    first = clients["shop"]("/events", {"events": [event("a")]}, **key)
    assert first[0] == 200
    assert clients["other"]("/events", {"events": [event("b")]}, **key)[1]["written"] == 1
    assert clients["shop"]("/events", {"events": [event("a")]}, **key) == first
    status, found = clients["shop"]("/events", {"events": [event("c")]}, **key)
    assert (status, found["code"]) == (409, "key-reused")
    assert "'k'" in found["detail"]


def test_who_gave_a_label_is_a_field_and_no_source_and_a_source_is_withdrawn(clients, program):
    learned(clients)
    ann = clients["ann"]

    def label(said, **more):
        body = {"labels": [{"id": "m1", "label": said, "source": "desk", **more}]}
        status, found = ann("/labels?wait=learned&timeout=20", body)
        assert status == 200, found
        return found["labels"][0]

    def holds():
        found = ann("/labels/m1")[1]
        return found["label"], found["source"], found.get("by")

    undo = label("ham")["undo"]
    until(lambda: holds() == ("ham", "desk", "ann"))
    assert ann("/labels/m1")[1]["others"] == [
        {"label": "spam", "source": "event", "ts": pytest.approx(0, abs=1e12)}
    ]
    page = ann("/labels")[1]["labels"]
    assert [(one["label"], one["by"]) for one in page] == [("ham", "ann")]
    assert ann("/labels/undo", {"undo": undo})[0] == 200
    until(lambda: holds()[:2] == ("spam", "event"))
    label("ham", by="bob")
    until(lambda: holds() == ("ham", "desk", "bob"))
    assert ann("/explain/m1")[1]["label"]["by"] == "bob"
    assert ann("/labels/withdraw", {"source": "desk"})[1]["code"] == "missing-role"
    assert clients["boss"]("/labels/withdraw", {"source": "event"})[0] == 422
    assert clients["boss"]("/labels/withdraw", {"source": "desk", "since": None}) == (
        200,
        {"source": "desk", "since": None, "ts": None},
    )
    until(lambda: holds()[:2] == ("spam", "event"))
    with closing(context.existing_log(configured(program))) as log:
        log.append([NewRecord("labels", None, b"junk"), NewRecord("labels", None, b"[1]")])
    until(lambda: ann("/labels")[1]["labels"][-1] == {"unreadable": "[1]"})
    assert ann("/labels")[1]["labels"][-2] == {"unreadable": "junk"}


def test_a_label_of_the_page_bears_the_name_of_the_token(clients, program):
    learned(clients)
    password = base64.b64encode(b"x:a-token-of-ann").decode()
    own = {"Authorization": f"Basic {password}"}
    page = clients["nobody"]("/page/try", **own)[1]
    form = {"csrf": csrf_of(page), "id_json": '"m1"', "label": "ham"}
    host = program.address_of_serve
    sent = {"Origin": f"http://{host}", "Content-Type": "application/x-www-form-urlencoded"}
    assert clients["nobody"]("/page/label", urlencode(form).encode(), **own, **sent)[0] == 200
    until(lambda: clients["ann"]("/labels/m1")[1].get("by") == "ann")
    until(lambda: "labelled by <bdi>ann</bdi>" in clients["nobody"]("/page/events/live?id=m1", **own)[1])


def test_a_label_that_is_not_allowed_is_refused_with_the_nearest(clients, program):
    learned(clients)
    before = clients["ann"]("/labels")[1]
    for said, near in (("hma", "ham"), (" SPAM", "spam")):
        status, found = clients["ann"](
            "/labels", {"labels": [{"id": "m1", "label": "ham"}, {"id": "m1", "label": said}]}
        )
        assert (status, found["code"]) == (422, "label-not-allowed")
        assert f"label 1: {said!r} is not among labels.allowed; did you mean {near!r}?" in found["detail"]
    assert clients["ann"]("/labels")[1] == before
    assert clients["ann"]("/labels", {"labels": [{"id": "m1", "label": None}]})[0] == 200
    assert "did you mean 'ham'" in program.start("label", "m1", "hma").complaint(2)[0]


def test_a_key_that_comes_twice_is_refused(clients):
    learned(clients)
    admin = clients["boss"]
    for path, body in {
        "/labels": b'{"labels": [{"id": "m1", "label": "spam", "label": "ham"}]}',
        "/predict": b'{"events": [{"text": "free", "text": "cash"}]}',
        "/explain": b'{"event": "free", "event": "cash"}',
        "/events": b'{"events": [{"id": "a", "text": "x"}], "events": [{"id": "b", "text": "y"}]}',
    }.items():
        status, found = admin(path, body)
        assert (status, found["code"]) == (400, "key-repeated"), path
        assert "comes twice" in found["detail"]
    body = (
        b'{"events": [{"id": "d1", "text": "x", "\\u0074ext": "y"}, {"id": "d2", "text": "a: \\"b\\": c"}]}'
    )
    status, found = admin("/events", body)
    assert status == 207
    assert [one.get("reason") for one in found["events"]] == ["invalid-json", None]
    assert "'text' comes twice" in found["events"][0]["detail"]


def test_a_prediction_is_explained_as_it_was_served(clients):
    learned(clients)
    ann = clients["ann"]
    published = clients["shop"]("/events?wait=prediction&timeout=20", {"events": [event("e")]})[1]["events"][
        0
    ]["prediction"]
    status, found = ann("/explain/e")
    assert status == 200
    assert found["prediction"] == published
    assert found["prediction"]["evidence"] is not None
    ranked = sorted(published["probabilities"], key=published["probabilities"].get, reverse=True)
    assert (found["decided"]["rule"], found["decided"]["outcome"]) == ("probability", published["label"])
    assert {found["decided"]["outcome"], found["decided"]["runner_up"]} == set(ranked)
    assert found["label"] is None
    assert ann("/explain/nobody")[1]["code"] == "unknown-event"
    assert clients["shop"]("/explain/e")[1]["code"] == "missing-role"


@pytest.mark.parametrize(
    "program", [{"decision": {"reject": 0.2}, "decision.costs.spam": {"ham": 10}}], indirect=True
)
def test_an_explanation_names_the_rule_that_decided(clients):
    ann, boss = clients["ann"], clients["boss"]
    texts = {"spam": "free cash", "ham": "lunch noon"}
    seen = [{"id": f"{label}{i}", "text": texts[label], "label": label} for i in range(20) for label in texts]
    assert boss("/events", {"events": seen})[0] == 200
    until(lambda: ann("/model")[1].get("learned") == 40)
    sent = {"events": [{"id": "unsure", "text": "free lunch"}, {"id": "sure", "text": "lunch noon"}]}
    assert boss("/events?wait=prediction&timeout=20", sent)[0] == 200
    for id_, outcome in {"unsure": None, "sure": "ham"}.items():
        found = ann(f"/explain/{id_}")[1]
        published, decided = found["prediction"], found["decided"]
        assert (decided["rule"], decided["outcome"], published["decision"]) == ("cost", outcome, outcome)
        assert decided["expected_cost"] == published["expected_cost"]
        assert decided["runner_up_probability"] == min(published["probabilities"].values())
    assert ann("/predictions?decision=none")[1]["predictions"][-1]["id"] == "unsure"


def test_ready_says_whether_a_learner_is_alive(clients, program):
    learned(clients)
    until(lambda: clients["nobody"]("/ready")[1]["learner"] == "running")
    program.learner.kill()
    until(lambda: clients["nobody"]("/ready")[1]["learner"] == "silent")
    assert clients["nobody"]("/ready")[0] == 200  # it still answers
    assert json.dumps(clients["nobody"]("/live")[1])
