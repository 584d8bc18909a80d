"""Whatever is asked over HTTP is answered, as /openapi.json says; nothing makes `serve` fail."""

from __future__ import annotations

import asyncio
import json
import random
from urllib.parse import quote

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry

from streamnb import config as configuration
from streamnb.queries.query_model import query_model_of
from streamnb.runtime import factories
from streamnb.runtime.log_follower import FairLock
from streamnb.serving.access import Tokens
from streamnb.serving.http_api import application
from streamnb.serving.http_schemas import Answer, Explained, ModelState, Problem, Token, Written
from streamnb.serving.limits import RequestLimits

pytestmark = pytest.mark.thorough

SCALARS = (
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(exclude_categories=()))
)
ANY = st.recursive(
    SCALARS, lambda one: st.lists(one, max_size=4) | st.dictionaries(st.text(), one, max_size=4)
)
TEXTS = st.text(max_size=30) | st.sampled_from(["free cash", "", "a" * 3000, "\ud800", "\x00", "w " * 2000])
EVENTS = TEXTS | st.dictionaries(st.sampled_from(["id", "text", "label", "ts", "features", "x"]), TEXTS | ANY)
SAID = st.dictionaries(st.sampled_from(["id", "label", "source", "weight", "ts", "x"]), TEXTS | ANY)
BODIES = {
    "/predict": st.fixed_dictionaries({"events": st.lists(EVENTS, max_size=5)}),
    "/explain": st.fixed_dictionaries(
        {"event": EVENTS}, optional={"against": TEXTS | st.just("ham"), "top": SCALARS | st.just(3)}
    ),
    "/labels": st.fixed_dictionaries({"labels": st.lists(SAID, max_size=5)}),
}
MODELS = {"/predict": Answer, "/labels": Written, "/explain": Explained}


class Learned:
    """A replica that stands still."""

    is_alive = is_ready = True
    stands, following = 1, None

    def __init__(self):
        config = configuration.load(None, {}, [])
        model = factories.model(config)
        rng = random.Random(1)
        for _ in range(50):
            label = rng.choice(["spam", "ham"])
            model.learn_one({"text": f"{label} {rng.choice(['free', 'lunch', 'cash'])}"}, label)
        self.lock = FairLock()
        self._asked = query_model_of(model, config, {"file": "it"})

    def asked(self):
        return self._asked

    def state(self):
        return {"journal": 1, "learned": 50, "seconds_since_commit": 0.1, "seconds_since_look": 0.1}


@pytest.fixture(scope="module")
def ask():
    """Asks the application behind its guard: status, and the body as JSON; and what it says of itself."""
    app = application(Learned(), CollectorRegistry(), lambda _: None)
    guarded = RequestLimits(
        app, count=lambda *_: None, tokens=Tokens({}), is_local=True, most_bytes=1 << 20, rate=1e9
    )

    def asked(path, body=None):
        scope = {
            "type": "http",
            "method": "GET" if body is None else "POST",
            "path": path,
            "raw_path": quote(path, errors="replace").encode(),
            "query_string": b"",
            "headers": [(b"host", b"localhost"), (b"content-type", b"application/json")],
            "http_version": "1.1",
        }
        sent = []

        async def receive():
            return {"type": "http.request", "body": body or b"", "more_body": False}

        async def send(message):
            sent.append(message)

        asyncio.run(guarded(scope, receive, send))
        return sent[0]["status"], json.loads(b"".join(one.get("body", b"") for one in sent[1:]))

    asked.described = app.openapi()["paths"]
    return asked


@pytest.mark.parametrize("path", BODIES)
@settings(max_examples=150, deadline=None, derandomize=True)
@given(data=st.data())
def test_any_body_has_an_answer_that_is_described(ask, path, data):
    body = json.dumps(data.draw(BODIES[path] | ANY)).encode()
    if data.draw(st.integers(0, 9)) == 0:
        place = data.draw(st.integers(0, len(body)))
        body = body[:place] + data.draw(st.binary(max_size=3)) + body[place + 1 :]
    status, answer = ask(path, body)
    assert str(status) in ask.described[path]["post"]["responses"]
    (MODELS[path] if status == 200 else Problem).model_validate(answer, strict=True)


@settings(max_examples=100, deadline=None, derandomize=True)
@given(
    word=st.text(st.characters(exclude_characters="\n", exclude_categories=["Cs"]), min_size=1, max_size=50)
)
def test_any_word_has_an_answer(ask, word):
    status, answer = ask(f"/tokens/{word}")
    assert (status, answer["word"]) == (200, word)
    Token.model_validate(answer, strict=True)


def test_what_is_known_and_the_state_of_the_model_are_as_described(ask):
    status, answer = ask("/tokens/free")
    assert (status, len(Token.model_validate(answer, strict=True).found)) == (200, 1)
    status, answer = ask("/explain", b'{"event": "free spam"}')
    assert (status, Explained.model_validate(answer, strict=True).label) == (200, "spam")
    assert {one["value"] for one in answer["evidence"]} >= {"free", "spam"}
    status, answer = ask("/model")
    assert (status, ModelState.model_validate(answer, strict=True).status) == (200, "ready")


def test_large_bodies_are_bounded_together_and_those_of_many_values_are_read_one_at_a_time():
    """However they end; what is small is answered meanwhile."""
    most, inside = 4 << 20, []

    async def ask(guarded, *parts, cut=False):
        left, sent = list(parts), []

        async def receive():
            if cut and not left:
                return {"type": "http.disconnect"}
            return {"type": "http.request", "body": left.pop(0), "more_body": cut or bool(left)}

        async def send(message):
            sent.append(message)

        headers = [(b"host", b"localhost")]
        await guarded(
            {"type": "http", "method": "POST", "path": "/predict", "headers": headers}, receive, send
        )
        return sent[0]["status"], dict(sent[0]["headers"]).get(b"retry-after")

    async def asked():
        given = asyncio.Event()

        async def app(_, receive, send):
            inside.append((await receive())["body"])
            await given.wait()
            inside.pop()
            await send({"type": "http.response.start", "status": 200, "headers": []})

        guarded = RequestLimits(
            app, count=lambda *_: None, tokens=Tokens({}), is_local=True, most_bytes=most, rate=1e9
        )
        large, many = [b"a" * (most // 2)] * 2, b"[" + b"0," * 50_000 + b"0]"
        given.set()
        for _ in range(20):
            assert await ask(guarded, *large, b"a") == (413, None)
            assert await ask(guarded, *large, cut=True) == (400, None)
            assert await ask(guarded, b"[]," * 50_001) == (413, None)
        for body, fit in ((large, 4), ([many], 1)):
            given.clear()
            inside.clear()
            waiting = [asyncio.create_task(ask(guarded, *body)) for _ in range(6)]
            small = [asyncio.create_task(ask(guarded, b"[" * 5000 * k)) for k in range(14)]
            await asyncio.sleep(0.01)
            assert len(inside) == fit + len(small)
            given.set()
            assert await asyncio.gather(*small) == [(200, None)] * len(small)
            refused = [(503, b"1")] * 2 if body is large else []
            assert await asyncio.gather(*waiting) == [(200, None)] * (6 - len(refused)) + refused
        assert inside == []

    asyncio.run(asked())
