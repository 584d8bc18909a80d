"""Dead letters on the page: what is shown of hostile ones, and who may send which, once."""

from __future__ import annotations

import hashlib
import html
import json
import re
import threading
from contextlib import closing
from urllib.parse import urlencode

import pytest
from prometheus_client import CollectorRegistry

from streamnb import config as configuration
from streamnb.engine.ports import NewRecord, Partition
from streamnb.runtime import context
from streamnb.serving.access import Tokens
from streamnb.serving.dead_letter_view import MARK
from streamnb.serving.http_api import application
from streamnb.serving.limits import RequestLimits
from streamnb.serving.live_views import PageViews
from streamnb.serving.recent_records import RecentRecords
from tests.serving.test_live_page import EVIL, NoModel, Reader, csrf_of
from tests.support.asgi_request import ORIGIN, page_request, password
from tests.support.program import until

CORRECT, SKIP = "/page/dead-letters/correct", "/page/dead-letters/skip"
FIELDS = {"as": "same", "new_id": ""}


class Stream:
    """A log with dead letters, and the page that shows them."""

    def __init__(self, folder):
        file = folder / "c.toml"
        file.write_text(f'[log]\nurl = "sqlite:///{folder}/log.db"\n[topics]\nlabels = "labels"\n')
        self.config = configuration.load(file, {}, [])
        self.log = context.open_log(self.config)
        for topic in ("dead-letters", "events", "labels", "journal", "predictions", "metrics"):
            self.log.create_topic(topic, 1)
        self.watch = RecentRecords(self.config, print)
        self.watch.start()
        self.app = self.made(Tokens.of_one(""))
        self.n = 0

    def made(self, tokens):
        app = application(NoModel(), CollectorRegistry(), lambda _: None, self.watch, lambda *_: None)
        given = {"is_local": True, "most_bytes": 4 << 20, "rate": 1e6}
        return RequestLimits(app, count=lambda *_: None, tokens=tokens, **given)

    def dead(self, value, reason="missing", **headers):
        about = {"reason": reason, "path": "$", "topic": "events", "partition": "0", "offset": "0"} | headers
        names = tuple((name.replace("_", "."), text.encode()) for name, text in about.items())
        self.log.append([NewRecord("dead-letters", None, value, names)])
        self.n += 1
        until(lambda: len(self.watch.letters) == min(self.n, 1000))
        return f"0/{self.n - 1}"

    def ask(self, path, fields=None, **headers):
        if fields is not None:
            known = {name: value for name, value in headers.items() if name != "origin"}
            page = page_request(self.app, "/page/dead-letters", **known)[2]
            fields = {"csrf": csrf_of(page), **fields}
            headers = {**ORIGIN, **headers}
        return page_request(self.app, path, fields, **headers)

    def letter(self, place):
        return self.ask(f"/page/dead-letters?{urlencode({'letter': place})}")[2]

    def sent(self):
        return [one.value for one in self.log.read(Partition("events", 0), 0, 99)]


@pytest.fixture
def stream(tmp_path):
    made = Stream(tmp_path)
    with closing(made.log), closing(made.watch):
        yield made


def area(page):
    """The record in the field, as a browser reads it."""
    found = html.unescape(re.search(r"<textarea[^>]*>(.*?)</textarea>", page, re.DOTALL)[1])
    return found.removeprefix("\n")


def text_of(page):
    return " ".join(Reader(page).texts)


@pytest.mark.parametrize(
    "value",
    [
        b'{"text": "x"}',
        b"",
        b"\n\n{",
        f'{{"id": "{EVIL}", "text": "</textarea><script>"}}'.encode(),
        b'{"id": "a\\u0000b", "text": "\xe2\x80\xae"}',
        b'{"text": "' + b"long " * 200_000 + b'"}',
    ],
)
def test_a_record_stands_in_the_field_as_it_is(stream, value):
    page = stream.letter(stream.dead(value))
    assert area(page).encode() == value
    assert not {"iframe", "object"} & set(Reader(page).tags)
    assert Reader(page).tags.count("script") == 1  # of the page itself


def test_bytes_that_are_no_text_are_shown_as_escapes_and_are_not_sent_so(stream):
    place = stream.dead(b'{"id": "a\xff\x00"}', "invalid-utf8")
    page = stream.letter(place)
    assert area(page).replace("\ufffd", "\x00") == '{"id": "a\\xff\x00"}'
    assert "not UTF-8 are shown as" in page
    answer = stream.ask(CORRECT, {**FIELDS, "place": place, "value": area(page)})[2]
    assert "Not sent: it would be refused again (invalid-json)" in answer
    assert stream.sent() == []


def test_what_was_typed_is_still_there_after_it_was_refused(stream):
    place = stream.dead(b'{"id": 7}')
    typed = {"place": place, "value": '{"id": 7, "x": "</textarea>"}', "as": "new", "new_id": ""}
    page = stream.ask(CORRECT, typed)[2]
    assert "Give a new id" in page
    assert area(page) == typed["value"]
    assert re.search(r'id="as-new" checked', page)
    page = stream.ask(CORRECT, typed | {"new_id": "<b>"})[2]
    assert "Sent as event " in page
    assert "<textarea" not in page
    assert stream.sent() == [b'{"id":"<b>","x":"</textarea>"}']  # features may be absent


def test_a_corrected_record_is_sent_once_and_both_stay_visible(stream):
    place = stream.dead(b'{"text": "x"}')
    fields = {**FIELDS, "place": place, "value": '{"id": "../a b?c", "text": "x"}\r\n'}
    answer = stream.ask(CORRECT, fields, x_live="1")[2]
    assert "Sent as event" in answer
    assert "/page/events?id=..%2Fa+b%3Fc" in answer
    page = stream.letter(place)
    assert "textarea" not in page
    assert "was sent again, corrected or skipped before" in page
    assert "{&quot;text&quot;: &quot;x&quot;}" in page
    again = stream.ask(CORRECT, fields, x_live="1")[2]
    assert "Not sent: " in again
    assert stream.sent() == [b'{"id": "../a b?c", "text": "x"}\n']
    back = stream.dead(stream.sent()[0], "too-many-classes", **{"original_dead-letter": place})
    shown = stream.ask("/page/dead-letters/live?state=back")[2]
    assert re.findall(r"letter=([^\"]+)", shown) == [back.replace("/", "%2F"), place.replace("/", "%2F")]
    assert f"settled {place}" not in text_of(shown)
    assert text_of(stream.ask("/page/dead-letters/live?state=settled")[2]).count("settled") == 1


def test_two_people_who_correct_one_letter_at_once_send_it_once(stream):
    place, answers = stream.dead(b'{"text": "x"}'), []

    def correct(n):
        fields = {**FIELDS, "place": place, "value": json.dumps({"id": f"p{n}", "text": "x"})}
        answers.append(stream.ask(CORRECT, fields, x_live="1")[2])

    both = [threading.Thread(target=correct, args=(n,)) for n in range(4)]
    for one in both:
        one.start()
    for one in both:
        one.join()
    assert len(stream.sent()) == 1
    assert sorted("Sent as event" in one for one in answers) == [False, False, False, True]


def test_hopeless_letters_are_skipped_after_a_second_word(stream):
    places = [stream.dead(b'{"text": "x"}') for _ in range(3)]
    assert "Mark the dead letters" in stream.ask("/page/replay", {"skip": "1"}, x_live="1")[2]
    marked = {f"{MARK}{place}": "1" for place in places[:2]} | {"skip": "1"}
    answer = stream.ask("/page/replay", marked, x_live="1")[2]
    assert "2 dead letters would be skipped" in answer
    assert "waits" in text_of(stream.letter(places[0]))
    hidden = dict(re.findall(r'<input type="hidden" name="([^"]+)" value="([^"]+)"', answer))
    assert hidden.keys() == {*marked, "sure", "csrf"}
    assert "2 dead letters skipped" in stream.ask("/page/replay", hidden, x_live="1")[2]
    assert "Nothing is skipped" in stream.ask("/page/replay", hidden, x_live="1")[2]
    assert "Skipped" in stream.ask(SKIP, {"place": places[2]}, x_live="1")[2]
    assert stream.sent() == []
    shown = stream.ask("/page/dead-letters/live")[2]
    assert "checkbox" not in shown
    assert text_of(shown).count("settled") == 3


def test_only_an_administrator_sends_and_only_by_a_form_of_this_page(stream):
    place = stream.dead(b'{"text": "x"}')
    lines = {"reader": "ask,label", "boss": "admin"}
    clients = [
        f"{name} {roles} {hashlib.sha256(f'token-{name}'.encode()).hexdigest()}"
        for name, roles in lines.items()
    ]
    file = stream.config.snapshot_folder.parent / "tokens"
    file.parent.mkdir(exist_ok=True, parents=True)
    file.write_text("\n".join(clients))
    stream.app = stream.made(Tokens.of_file(str(file)))
    fields = {**FIELDS, "place": place, "value": '{"id": "a", "text": "x"}'}
    for path in (CORRECT, SKIP):
        assert stream.ask(path, fields, **password("token-reader"))[0] == 403
        assert stream.ask(path, {**fields, "csrf": "x"}, **password("token-boss"))[0] == 403
        assert stream.ask(path, fields, **password("token-boss"), origin="http://evil.example")[0] == 403
    assert stream.sent() == []
    assert stream.ask(CORRECT, fields, **password("token-boss"))[0] == 200
    assert len(stream.sent()) == 1


@pytest.mark.parametrize(
    "place", ["", "..", "0/../0", "0/99", "9/0", f"0/{10**30}", EVIL, "0/1?x", "0/\u0661"]
)
def test_a_place_that_is_none_stops_nothing(stream, place):
    stream.dead(b"{")
    page = stream.letter(place)
    assert 'class="trouble"' in page
    assert Reader(page).tags.count("script") == 1
    for path in (CORRECT, SKIP):
        assert 'class="trouble"' in stream.ask(path, {**FIELDS, "place": place, "value": "{}"}, x_live="1")[2]
    assert stream.sent() == []


def test_many_letters_have_pages_and_filters(stream):
    rows = [
        NewRecord("dead-letters", None, b'{"n": %d}' % n, (("reason", b"missing"), ("topic", b"events")))
        for n in range(1100)
    ]
    stream.log.append(rows)
    until(lambda: stream.watch.letters and stream.watch.letters[-1].place == "0/1099")
    seen, path = [], "/page/dead-letters/live"
    while path:
        page = stream.ask(path)[2]
        seen += re.findall(r">(0/\d+)</a>", page)
        older = re.search(r'href="/page/dead-letters\?([^"]+)">Older', page)
        path = older and f"/page/dead-letters/live?{html.unescape(older[1])}"
    assert seen == [f"0/{n}" for n in range(1099, 99, -1)]
    assert re.findall(r">(0/\d+)</a>", stream.ask("/page/dead-letters/live?q=%22n%22%3A%201050")[2]) == [
        "0/1050"
    ]
    assert "No dead letter fits" in stream.ask("/page/dead-letters/live?reason=oversize")[2]
    gone = stream.ask("/page/dead-letters/live?after=0/5")[2]  # no longer among these
    assert "The page is no longer kept; the first is shown. " in gone
    assert re.findall(r">(0/\d+)</a>", gone)[0] == "0/1099"


def test_a_log_that_does_not_answer_is_said(stream, monkeypatch):
    place = stream.dead(b"{")
    monkeypatch.setattr(stream.watch.dead_letters._log, "_seconds", 0.05)
    blocked = threading.Event()
    stream.watch.dead_letters._log._thread.submit(blocked.wait)
    page = PageViews(stream.watch, NoModel(), "secret", is_writable=True)
    assert "does not answer" in page.dead_letters.letter(place)
    assert "states of these letters are not known" in page.live("dead-letters", {})
    blocked.set()
