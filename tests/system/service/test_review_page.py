"""The review in a browser: messages with their texts, labelled by keys alone, and undone."""

from __future__ import annotations

import json
import random
import re
import time
from contextlib import closing
from importlib.resources import files

import pytest

from streamnb.events import Attribution, Event, ModelInfo, Prediction
from streamnb.serving.review_view import beside_words, tinted
from tests.support.browser import Browser
from tests.support.program import until
from tests.system.service.test_dashboard import NEEDS_BROWSER, append, program, started
from tests.system.service.test_labelling_page import written

WORDS = {"spam": "free win cash", "ham": "lunch noon home"}
LONG = " and so on" * 60


def messages(n, *, first=0, label=True, more=""):
    dice = random.Random(first)
    made = []
    for i in range(first, first + n):
        kind = dice.choice(["spam", "ham"])
        words = " ".join(dice.choices(WORDS[kind].split(), k=3))
        record = {"id": f"m{i}", "text": f"{words} <b>& more</b>{more}", "features": {"links": i}}
        made.append(json.dumps(record | ({"label": kind} if label else {})).encode())
    return made


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    folder = tmp_path_factory.mktemp("review")
    with closing(program(folder, f"sqlite:///{folder / 'log.db'}")) as made:
        append(made, messages(60))
        made.run("run", "--until-end", "--set", "predictions.evidence=5")
        append(made, messages(30, first=100, label=False))
        append(made, messages(1, first=900, label=False, more=LONG))
        made.run("run", "--until-end", "--set", "predictions.evidence=5")
        made.start("run", "--set", "predictions.evidence=5")
        _, port, _ = started(made)
        with closing(Browser(folder / "profile")) as browser:
            made.browser, made.origin = browser, f"http://127.0.0.1:{port}"
            yield made


def opened(made, queue="unsure", width=1280):
    made.browser.size(width, 900)

    def is_there():
        made.browser.open(f"{made.origin}/page/review?queue={queue}")
        return made.browser.run("return document.querySelectorAll('.review article').length")

    deadline = time.monotonic() + 30
    while not is_there():
        assert time.monotonic() < deadline
        time.sleep(0.5)


def cards(browser):
    return browser.run(
        "return [...document.querySelectorAll('.review article')].map(one => "
        "[one.querySelector('.id').innerText, one.querySelector('.text')?.innerText, "
        "[...one.querySelectorAll('button[name=label_json]')].map(each => JSON.parse(each.value))])"
    )


@NEEDS_BROWSER
def test_twenty_messages_are_reviewed_by_keys_alone_and_two_are_undone(page):
    browser = page.browser
    opened(page)
    found = cards(browser)
    assert len(found) == 20
    assert all(text.endswith(" <b>& more</b>") and "\\x20" not in text for _, text, _ in found)
    before = written(page)
    dice, expected = random.Random(4), []
    for i, (id_, _, choices) in enumerate(found):
        assert browser.run("return document.activeElement.querySelector('.id').innerText") == id_
        n = dice.randrange(len(choices))
        browser.press(str(n + 1))
        expected.append((id_, choices[n]))
        browser.until(f"return document.querySelector('#toast').innerText.includes({id_!r})")
        if i in {6, 13}:
            browser.press("u")
            expected.append((id_, None))
            browser.until(
                f"return document.querySelector('#toast').innerText.startsWith('Undone: ' + {id_!r})"
            )
            assert (
                browser.run("return document.activeElement.querySelector('.tag').innerText") == "label undone"
            )
            browser.press("n")
    assert browser.run("return document.activeElement.className") == "more"
    browser.press("1", "2")  # labels nothing: no message has the focus
    found = written(page)
    assert len(found) == len(before) + len(expected)
    for id_, _ in expected:  # an event's labels are in one partition, in order
        assert [one for one in found if one[0] == id_] == [one for one in expected if one[0] == id_]
    undone = {id_ for id_, label in expected if label is None}
    done = {id_ for id_, _ in expected} - undone

    def left():
        opened(page)
        return {id_ for id_, _, _ in cards(browser)}

    until(lambda: not left() & done)  # as soon as the page has read the labels
    assert undone <= left()
    assert browser.complaints() == []


@NEEDS_BROWSER
def test_keys_move_unfold_hide_and_search_a_class(page):
    browser = page.browser
    opened(page, "newest")
    ids = [id_ for id_, _, _ in cards(browser)]
    focused = "return document.activeElement.closest('article')?.querySelector('.id').innerText"
    for key, n in (("n", 1), ("n", 2), ("p", 1), ("p", 0), ("p", 0)):
        browser.press(key)
        assert browser.run(focused) == ids[n]
    for _ in range(ids.index("m900")):
        browser.press("n")
    browser.press("o")
    long = "return document.querySelector('.fold')?.open"
    assert browser.run(long) is True
    browser.press("o")
    assert browser.run(long) is False
    browser.press("h")
    assert browser.run("return getComputedStyle(document.querySelector('.message')).visibility") == "hidden"
    browser.press("h")
    browser.press("/")
    assert browser.run("return document.activeElement.name") == "label"
    before = len(written(page))
    browser.press("1")  # a digit in the field labels nothing
    time.sleep(0.5)
    assert len(written(page)) == before
    assert browser.run("return document.activeElement.value") == "1"


@NEEDS_BROWSER
def test_after_a_class_that_was_typed_keys_are_for_the_next_message(page):
    """They would be letters of the class that stays in the field."""
    browser = page.browser
    opened(page, "newest")
    (id_, *_), (other, *_) = cards(browser)[:2]
    browser.press("/", *"eggs", "\ue007")
    browser.until(f"return document.querySelector('#toast').innerText.includes({id_!r})")
    assert browser.run("return document.activeElement.querySelector('.id')?.innerText") == other
    browser.press("u")
    browser.until("return document.querySelector('#toast').innerText.startsWith('Undone')")
    assert [label for each, label in written(page) if each == id_][-2:] == ["eggs", None]


@NEEDS_BROWSER
def test_nothing_moves_while_events_come_and_they_wait_behind_a_link(page):
    browser = page.browser
    opened(page)
    boxes = "return [...document.querySelectorAll('.review *')].map(e => e.getBoundingClientRect().top)"
    before, listed = browser.run(boxes), cards(browser)
    first = 2000 + int(time.time()) % 100_000
    append(page, messages(12, first=first, label=False))
    browser.until("return document.querySelector('.news')?.innerText === '12 new'", 30)
    assert cards(browser) == listed
    assert browser.run(boxes) == before


@NEEDS_BROWSER
@pytest.mark.parametrize("width", [390, 1024, 1920])
@pytest.mark.parametrize("dark", [False, True])
def test_the_review_is_accessible(page, width, dark):
    axe = files("axe_core_python").joinpath("axe.min.js").read_text(encoding="utf-8")
    browser = page.browser
    opened(page, "newest", width)
    browser.size(width, 900, dark=dark)
    found = browser.run(f"{axe}; return axe.run().then(found => found.violations)")
    serious = [one["id"] for one in found if one["impact"] in {"serious", "critical"}]
    assert serious == []
    assert browser.run("return document.documentElement.scrollWidth <= window.innerWidth")


def test_words_with_evidence_are_marked_whole_and_text_is_escaped():
    made = str(tinted("Free <i>freedom</i>, FREE and lunch", {"free": 1.5, "lunch": -2.0, "i": 0.0}))
    assert made.count("<mark") == 5
    assert made.count('class="for"') == 2
    assert "freedom" in made
    assert "<i>" not in made
    assert "-2.00 log odds" in made
    assert "<mark" not in str(tinted("text", {}))


def test_evidence_without_a_place_in_a_text_stands_below_it():
    weights = [("text", "free", 1.5), ("text", "", -0.25), ("links", 3.0, 0.125)]
    made = Prediction(
        id="m",
        label="spam",
        probability=0.75,
        probabilities={"spam": 0.75, "ham": 0.25},
        status="ready",
        evidence=tuple(Attribution(*one) for one in weights),
        prior=-0.5,
        model=ModelInfo("m", 1),
        ts=1.0,
    )
    shown = str(beside_words(made, Event("m", {"text": "free cash", "links": 3.0})))
    assert re.findall(r'class="(\w+)"[^>]*>([^<]+)<', shown) == [
        ("against", "(the labels alone) -0.50"),
        ("against", "(absent words) -0.25"),
        ("for", "links 3 +0.12"),
    ]
