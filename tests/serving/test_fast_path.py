"""A short question is answered by the short way as by the long one, and whatever else is asked goes the long way."""

from __future__ import annotations

import asyncio
import json
from types import SimpleNamespace

import pytest
from prometheus_client import CollectorRegistry

from streamnb import config as configuration
from streamnb.config import semantic_config_of
from streamnb.engine.journal.job_identity import JournalOrigin
from streamnb.runtime import factories
from streamnb.serving.access import Tokens
from streamnb.serving.fast_path import FastPath
from streamnb.serving.http_api import application
from streamnb.serving.limits import RequestLimits
from streamnb.serving.replica import Replica
from tests.support.every_case import failures

JSON = "application/json"
SHORT = [b'{"events": ["free cash"]}', b' {"events":["lunch \\u00e9"]}\n', '{"events": ["\u00e9"]}'.encode(), b'{"events": [""]}', b'{"events": ["{}"]}']  # fmt: skip
OTHERS = [
    b"",
    b"{",
    b"[]",
    b"null",
    b'{"events": []}',
    b'{"events": ["a", "b"]}',
    b'{"events": [{"text": "free"}]}',
    b'{"events": [7]}',
    b'{"events": ["a"], "more": 1}',
    b'{"events": ["\\ud800"]}',
    b'{"events": ["\xff"]}',
    b'\xef\xbb\xbf{"events": ["a"]}',
    '{"events": ["a"]}'.encode("utf-16"),
    json.dumps({"events": ["x" * 2001]}).encode(),
]


@pytest.fixture
def replica():
    config = configuration.load(None, {}, ["model.kind=naive_bayes", "hypotheses=[]"])
    found, learner = Replica(config, print), factories.learner(config)
    learner.model.learn_many([{"text": "free cash"}, {"text": "lunch"}], ["spam", "ham"])
    origin = JournalOrigin("hash", semantic_config_of(config))
    found._following = SimpleNamespace(checkpoint=SimpleNamespace(origin=origin, n=7), learner=learner)
    return found


def answer_of(app, body, *, kind=JSON, method="POST"):
    """Status, type and body of an answer, and what was counted."""
    counted = []
    guarded = RequestLimits(
        app,
        tokens=Tokens({}),
        is_local=True,
        most_bytes=1 << 20,
        rate=1e6,
        count=lambda *one: counted.append(one[:2]),
    )
    headers = [(b"host", b"localhost"), (b"content-type", kind.encode())]
    scope = {
        "type": "http", "method": method, "path": "/predict", "raw_path": b"/predict", "query_string": b"", "root_path": "",
        "http_version": "1.1", "scheme": "http", "server": ("localhost", 8000), "client": ("127.0.0.1", 1), "headers": headers,
    }  # fmt: skip
    sent, parts = [], [body[: len(body) // 2], body[len(body) // 2 :]]

    async def receive():
        return {"type": "http.request", "body": parts.pop(0), "more_body": bool(parts)}

    async def send(message):
        sent.append(message)

    asyncio.run(guarded(scope, receive, send))
    head = dict(sent[0]["headers"])
    raw = b"".join(one["body"] for one in sent[1:])
    assert int(head[b"content-length"]) == len(raw)
    return sent[0]["status"], head[b"content-type"], raw, counted


def test_both_ways_answer_alike(replica):
    app = application(replica, CollectorRegistry(), None)
    short = FastPath(app, replica)

    def check(case):
        body, more = case
        assert answer_of(short, body, **more) == answer_of(app, body, **more)

    kinds = [
        {},
        {"kind": f"{JSON}; charset=utf-8"},
        {"kind": "text/plain"},
        {"kind": "application/problem+json"},
    ]
    cases = [
        (body, more) for body in SHORT + OTHERS for more in [*kinds, {"method": "GET"}, {"method": "PUT"}]
    ]
    assert failures(check, cases) == {}


def test_the_short_way_is_taken_by_short_questions_alone_and_never_waits(replica):
    app = application(replica, CollectorRegistry(), None)
    short = FastPath(app, replica)

    async def passed(*_):
        raise NotImplementedError

    short._app = passed
    for body in SHORT:
        assert answer_of(short, body)[0] == 200
        with replica.lock, pytest.raises(NotImplementedError):
            answer_of(short, body)
    for body in OTHERS:
        with pytest.raises(NotImplementedError):
            answer_of(short, body)


def test_before_there_is_a_model_the_long_way_says_so(replica):
    replica._following = None
    app = application(replica, CollectorRegistry(), None)
    assert answer_of(FastPath(app, replica), SHORT[0])[0] == 503


def test_a_change_of_configuration_or_of_the_model_is_asked_at_once(replica):
    before = replica.asked()
    assert replica.asked() is before
    replica._following.learner.model = replica._following.learner.model.clone()
    assert replica.asked().model is replica._following.learner.model
    config = semantic_config_of(
        configuration.load(None, {}, ["model.kind=naive_bayes", "hypotheses=[]", "events.id=$.key"])
    )
    replica._following.checkpoint.origin = JournalOrigin("other", config)
    assert replica.asked().schema.id_keys == ("key",)


def test_an_answer_warns_of_an_event_of_which_nothing_was_learned(replica):
    app = application(replica, CollectorRegistry(), None)
    events = [{"features": {"Message": "free"}}, {"id": "e", "features": {}}, {"text": "new"}, "new"]
    status, _, raw, _ = answer_of(app, json.dumps({"events": events}).encode())
    assert status == 200
    assert [one.get("warning") for one in json.loads(raw)["predictions"]] == [
        "nothing was learned of Message; the model has learned text",
        "the event has no attribute; the model has learned text",
        UNKNOWN,
        UNKNOWN,
    ]
    assert status_and_warning(app, {"text": "new cash"}) == (200, None)


def status_and_warning(app, event):
    status, _, raw, _ = answer_of(app, json.dumps({"events": [event]}).encode())
    return status, json.loads(raw)["predictions"][0].get("warning")


UNKNOWN = "the model knows no value of this event, so it goes by how frequent labels are: no word of text was learned"


def test_a_short_question_of_unknown_words_warns_as_the_long_way_does(replica):
    app = application(replica, CollectorRegistry(), None)
    short = FastPath(app, replica)
    for text in ("!!!", "", "\u4f60\u597d"):
        assert status_and_warning(short, text) == status_and_warning(app, text) == (200, UNKNOWN)
    assert status_and_warning(short, "free !!!") == (200, None)


@pytest.mark.parametrize(
    ("features", "warning"),
    [
        ({"amount": "905"}, 'amount is a string ("905"), and was learned as a number: send the number 905'),
        ({"amount": True}, "amount is a boolean (true), and was learned as a number"),
        ({"vip": 1.0}, 'vip is a number (1), and was learned as a string or boolean: send the string "1"'),
        ({"vip": "True"}, 'vip was never learned with the value "True"; did you mean "true"?'),
        (
            {"vip": "TRUE", "other": 1},
            'vip was never learned with the value "TRUE"; did you mean "true"?; nothing was learned of other',
        ),
        ({"amount": 905}, None),
        ({"vip": True}, None),
        ({"vip": "true"}, None),  # as a CSV cell and a JSON boolean are
        ({"vip": "no", "amount": 1}, None),  # a value never learned among others is ordinary
    ],
)
def test_a_question_of_another_type_than_was_learned_warns(replica, features, warning):
    learner = replica._following.learner
    learner.model.learn_many([{"amount": 905.0, "vip": True}, {"amount": 3.0, "vip": False}], ["spam", "ham"])
    app = application(replica, CollectorRegistry(), None)
    status, found = status_and_warning(app, {"features": features})
    assert status == 200
    assert (found or "").endswith(warning or "")
    assert (found is None) == (warning is None)
    # Next to a value that the model knows, only another type and another spelling are worth a word.
    _, found = status_and_warning(app, {"text": "free", "features": features})
    assert found == (warning and warning.removesuffix("; nothing was learned of other"))
