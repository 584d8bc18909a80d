"""Labels that are clicked on the page, in a browser: one click is one label, and nothing moves under the pointer."""

from __future__ import annotations

import http.client
import json
import threading
import time
from collections import Counter
from contextlib import closing
from urllib.parse import urlencode

import pytest

from streamnb import config as configuration
from streamnb.cli.commands.read import records_of
from streamnb.runtime import context
from tests.support.browser import Browser
from tests.system.service.test_dashboard import NEEDS_BROWSER, append, program, started

pytestmark = NEEDS_BROWSER
LONG = "a label that is longer than its cell " * 3
RIGHT_TO_LEFT = ["\u062e\u0628\u0631", "\u05d7\u05d3\u05e9\u05d5\u05ea (1)"]
BOXES = """
    return [...document.querySelectorAll("header *:not(#strip *), main *:not(.tag *)")].map(one => {
        const { x, y, width, height } = one.getBoundingClientRect();
        return [one.tagName, one.matches(".tag") ? null : x, y, one.matches(".tag") ? null : width, height];
    });"""
"""Where everything is; the state of an event may have another width, and other parts, and so has the strip's text."""


def words(n):
    return " ".join(f"{letter}{n}" for letter in "abcdefgh")


def labelled(n, labels, first=0):
    return [
        json.dumps({"id": f"e{i}", "text": words(i % len(labels)), "label": labels[i % len(labels)]}).encode()
        for i in range(first, first + n)
    ]


def unlabelled(n, first):
    return [json.dumps({"id": f"u{i}", "text": words(i % 2)}).encode() for i in range(first, first + n)]


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    """A learner to which an event comes every 50 ms, its page, and a browser."""
    folder = tmp_path_factory.mktemp("labelling")
    with closing(program(folder, f"sqlite:///{folder / 'log.db'}")) as made:
        append(made, labelled(60, ["spam", "ham", LONG]))
        made.run("run", "--until-end")
        made.start("run")
        _, port, _ = started(made)
        done = threading.Event()
        flow = threading.Thread(target=flow_until, args=(made, done))
        flow.start()
        try:
            with closing(Browser(folder / "profile")) as browser:
                made.browser, made.origin, made.port = browser, f"http://127.0.0.1:{port}", port
                yield made
        finally:
            done.set()
            flow.join()


def flow_until(made, done):
    n = 0
    while not done.wait(0.05):
        append(made, unlabelled(1, n))
        n += 1


def written(made, event_id=None):
    """Labels in the topic, of an event or of all."""
    with closing(context.existing_log(configuration.load(made.file, {}, []))) as log:
        records = records_of(log, f"{made.model}-labels", Counter())
        said = [json.loads(record.value) for record in records]
    return [(one["id"], one["label"]) for one in said if event_id in {None, one["id"]}]


def a_list(browser, origin, width=1280):
    browser.size(width, 800)
    browser.open(f"{origin}/page/events")
    browser.until("return document.querySelectorAll('.rows li').length === 25")
    browser.point(".rows li:nth-child(3) .tag")  # from here on the list stands still
    time.sleep(0.5)
    return browser.text(".rows li:nth-child(3) .id")


@pytest.mark.parametrize("width", [1280, 360])
@pytest.mark.parametrize("row", [1, 4])
def test_nothing_moves_after_a_click(page, width, row):
    """Not at once, not while more events come, and not where what is said is longer than its cell."""
    browser = page.browser
    a_list(browser, page.origin, width)
    button = f".rows li:nth-child({row}) button[value^='\"a label']"
    browser.point(button)  # which scrolls to it
    before = browser.run(BOXES)
    id_ = browser.text(f".rows li:nth-child({row}) .id")
    browser.point(button, clicks=1)
    assert browser.run(BOXES) == before
    browser.until("return document.querySelector('#toast').innerText.startsWith('Written')")
    assert browser.text(f".rows li:nth-child({row}) .tag").startswith("said: a label that is longer")
    assert browser.run(f"return document.querySelector({button!r}).getAttribute('aria-pressed')") == "true"
    for _ in range(8):
        assert browser.run(BOXES) == before
        assert browser.run(f"return document.querySelector({button!r}).matches(':hover')")
        time.sleep(0.5)
    assert written(page, id_) == [(id_, LONG)]


def test_a_double_click_writes_one_label(page):
    browser = page.browser
    a_list(browser, page.origin)
    for row, clicks in ((2, 2), (5, 3)):
        time.sleep(1.1)
        id_, before = browser.text(f".rows li:nth-child({row}) .id"), len(written(page))
        browser.point(f".rows li:nth-child({row}) button", clicks=clicks)
        browser.until(f"return document.querySelector('#toast').innerText.startsWith('Written: ' + {id_!r})")
        time.sleep(0.5)
        assert len(written(page, id_)) == 1
        assert len(written(page)) == before + 1


def test_a_second_click_at_once_on_another_event_writes_nothing_and_says_so(page):
    browser = page.browser
    a_list(browser, page.origin)
    before = len(written(page))
    browser.run(
        "const at = n => document.querySelector(`.rows li:nth-child(${n}) button`);"
        "at(6).click(); at(7).click(); at(6).click();"
    )
    browser.until("return document.querySelector('#toast .done') !== null")  # of the click before it
    assert "at once after another" in browser.text("#toast .trouble")
    time.sleep(0.5)
    assert len(written(page)) == before + 1
    assert not browser.text(".rows li:nth-child(7) .tag").startswith("said")


def test_a_click_on_a_list_that_has_just_changed_writes_nothing_and_says_so(page):
    """As by a finger, which is nowhere before it taps."""
    browser = page.browser
    a_list(browser, page.origin)
    browser.point("header .brand")
    before = len(written(page))
    browser.run("""
        return new Promise(resolve => new MutationObserver(() => {
            document.querySelector(".rows li button").click();
            resolve();
        }).observe(document.querySelector("#live"), { childList: true }));""")
    assert browser.text("#toast").startswith("Nothing was written: the list had just changed")
    assert len(written(page)) == before


def test_another_label_of_the_same_event_can_be_clicked_later(page):
    browser = page.browser
    id_ = a_list(browser, page.origin)
    for n, label in enumerate(["spam", "ham"]):
        time.sleep(1.1 * n)
        browser.point(f""".rows li:nth-child(3) button[value='"{label}"']""", clicks=1)
        browser.until(f"return document.querySelector('#toast').innerText.includes('is {label}.')")
    browser.point(""".rows li:nth-child(3) button[value='"ham"']""", clicks=1)
    time.sleep(1)
    assert written(page, id_) == [(id_, "spam"), (id_, "ham")]


def test_by_keyboard_a_key_that_repeats_writes_one_label(page):
    browser = page.browser
    id_ = a_list(browser, page.origin)
    browser.run("document.querySelector('.rows li:nth-child(3) button').focus()")
    before = browser.run(BOXES)
    browser.press("\ue007", "\ue007", " ")
    browser.until("return document.querySelector('#toast').innerText.startsWith('Written')")
    assert browser.run(BOXES) == before
    time.sleep(0.5)
    assert len(written(page, id_)) == 1


def test_a_label_that_is_not_written_turns_its_row_back(page):
    browser = page.browser
    id_ = a_list(browser, page.origin)
    pressed = "return [...document.querySelectorAll('[aria-pressed=true]')].map(one => one.ariaLabel)"
    shown, boxes, before = (
        browser.text(".rows li:nth-child(3) .tag"),
        browser.run(BOXES),
        browser.run(pressed),
    )
    browser.run("document.querySelectorAll('[name=csrf]').forEach(one => { one.value = 'x' })")
    browser.point(".rows li:nth-child(3) button", clicks=1)
    browser.until("return document.querySelector('#toast').innerText.startsWith('Not written: ')")
    assert browser.text(".rows li:nth-child(3) .tag") == shown
    assert browser.run(pressed) == before
    assert browser.run(BOXES) == boxes
    assert written(page, id_) == []


def test_on_the_page_of_an_event_nothing_moves_either(page):
    browser = page.browser
    browser.size(360, 800)
    browser.open(f"{page.origin}/page/events?id=e7")
    browser.until("return document.querySelectorAll('#live button').length > 2")
    browser.point("#live section button")
    time.sleep(2.5)
    before = browser.run(BOXES)
    browser.point("#live section button", clicks=2)
    browser.until("return document.querySelector('#toast').innerText.startsWith('Written')")
    time.sleep(3)
    assert browser.run(BOXES) == before
    assert len(written(page, "e7")) == 1
    browser.type("#live input[name=label]", "another")
    time.sleep(1)
    browser.press("\ue007")
    browser.until("return document.querySelector('#toast').innerText.includes('is another.')")
    assert browser.text("#live .tag") == "said: another"
    assert written(page, "e7")[1:] == [("e7", "another")]


def test_a_connection_that_is_lost_moves_nothing(page):
    """What is told in the header has the room that the line has left."""
    browser = page.browser
    a_list(browser, page.origin, 360)
    before = browser.run(BOXES)
    browser.run("tell('Connection lost at 10:20:30; trying again, and for a long time now.'.repeat(3), true)")
    assert browser.run(BOXES) == before


def test_without_the_script_a_double_click_writes_one_label_and_no_button_follows(page):
    browser = page.browser
    a_list(browser, page.origin)
    fields = browser.run("""
        const form = document.querySelector(".rows li:nth-child(8) form");
        return [...new FormData(form, form.querySelector("button"))];""")
    answers = []

    def send():
        with closing(http.client.HTTPConnection("127.0.0.1", page.port, timeout=30)) as asked:
            kind = {"Content-Type": "application/x-www-form-urlencoded", "Origin": page.origin}
            asked.request("POST", "/page/label", urlencode(dict(fields)), kind)
            answers.append(asked.getresponse().read().decode())

    both = [threading.Thread(target=send) for _ in range(2)]
    for one in both:
        one.start()
    for one in both:
        one.join()
    id_ = json.loads(dict(fields)["id_json"])
    assert len(written(page, id_)) == 1
    for answer in answers:
        assert f"Written: <bdi>{id_}</bdi> is " in answer
        assert "<button" not in answer


@pytest.fixture(scope="module")
def still(tmp_path_factory):
    """The page of a learner that has come to its end, and a browser."""
    folder = tmp_path_factory.mktemp("still")
    with closing(program(folder, f"sqlite:///{folder / 'log.db'}")) as made:
        append(made, labelled(60, ["spam", "ham", RIGHT_TO_LEFT[0]]))
        made.run("run", "--until-end")
        _, port, _ = started(made)
        with closing(Browser(folder / "profile")) as browser:
            browser.size(1280, 800)
            made.browser, made.origin = browser, f"http://127.0.0.1:{port}"
            yield made


def opened(made, path):
    """A page after its first refresh."""
    browser = made.browser
    browser.open(made.origin + path)
    browser.until("return document.querySelectorAll('#live button').length > 2")
    time.sleep(0.5)
    browser.open(made.origin + path)
    browser.run("document.querySelectorAll('#live > *').forEach(one => { one.isFirst = true })")
    browser.requested()
    deadline = time.monotonic() + 10
    while not any("/live" in url for url in browser.requested()):
        assert time.monotonic() < deadline
    return browser


@pytest.mark.parametrize("path", ["/page/events", "/page/events?id=e3"])
def test_what_has_not_changed_is_not_replaced_and_a_click_on_it_counts(still, path):
    browser = opened(still, path)
    time.sleep(0.1)
    browser.run("document.querySelector('#live button').click()")
    browser.until("return document.querySelector('#toast').innerText.startsWith('Written')")
    assert browser.run("return [...document.querySelectorAll('#live > *')].every(one => one.isFirst)")


def test_on_the_page_of_an_event_a_click_counts_whatever_has_just_changed(still):
    """There is no list in which another event could have come under the pointer."""
    browser = opened(still, "/page/events?id=e4")
    browser.run("changedAt = performance.now(); document.querySelector('#live button').click()")
    browser.until("return document.querySelector('#toast').innerText.startsWith('Written')")
    browser.type("#live input[name=label]", "typed")
    time.sleep(1)
    browser.run(
        "changedAt = clickedAt = performance.now(); document.querySelectorAll('#live form')[1].requestSubmit()"
    )
    browser.until("return document.querySelector('#toast').innerText.includes('is typed.')")


def test_a_typed_label_is_shown_as_the_server_escapes_it(still):
    browser = opened(still, "/page/events?id=e5")
    browser.run(r"document.querySelector('#live input[name=label]').value = 'a\u202eb'")
    seen = browser.run("""
        return new Promise(resolve => {
            const seen = [];
            const note = () => {
                const tag = document.querySelector("#live .tag");
                seen.push(tag.innerText + tag.title);
                if (document.querySelector("#toast").innerText.startsWith("Written")) resolve(seen);
            };
            new MutationObserver(note).observe(document.body, { childList: true, subtree: true });
            document.querySelectorAll("#live form")[1].requestSubmit();
        });""")
    assert seen[-1] == r"said: a\u202eb" * 2
    assert not any("\u202e" in each for each in seen)


def test_only_the_button_of_the_label_in_force_is_filled(still):
    """Neither the pointer nor the focus fills one; and after a reload it is still filled."""
    browser = opened(still, "/page/events")
    row, ham = ".rows li:nth-child(6)", ".rows li:nth-child(6) button[value='\"ham\"']"
    filled = f"""
        const paper = getComputedStyle(document.querySelector("nav [aria-current]")).borderBottomColor;
        return [...document.querySelectorAll("{row} button")]
            .filter(one => getComputedStyle(one).backgroundColor === paper).map(one => one.innerText);"""
    browser.point(f"{row} button", clicks=0)
    time.sleep(0.5)
    browser.run(f"changedAt = performance.now(); document.querySelector({ham!r}).focus()")
    browser.point(ham, clicks=1)
    browser.until("return document.querySelector('#toast').innerText.startsWith('Nothing was written')")
    assert browser.run(filled) == []
    time.sleep(0.5)
    browser.point(ham, clicks=1)
    browser.until("return document.querySelector('#toast').innerText.includes('is ham.')")
    assert browser.run(filled) == ["ham"]
    time.sleep(2)
    browser = opened(still, "/page/events")
    assert browser.text(f"{row} .tag") == "said: ham"
    assert browser.run(filled) == ["ham"]


def test_no_heading_is_torn_apart(still):
    """What is isolated in a text is no part of a row or a grid of its own."""
    browser = still.browser
    apart = """
        return [...document.querySelectorAll("bdi")]
            .filter(one => /flex|grid/.test(getComputedStyle(one.parentElement).display))
            .map(one => one.parentElement.innerText);"""
    for path in ("/page/events", "/page/events?id=e5"):
        opened(still, path)
        assert browser.run("return document.querySelectorAll('bdi').length") > 0
        assert browser.run(apart) == []
    browser.open(f"{still.origin}/page/try")
    browser.type("#text", words(2))
    browser.click("main form button")
    browser.until("return document.querySelectorAll('#answer bdi').length > 1")
    assert browser.run(apart) == []


def test_text_from_right_to_left_turns_no_number_around(tmp_path):
    """`>99.9 %` stands to the right of its label, and reads from its left; so it is without a label."""
    with closing(program(tmp_path, f"sqlite:///{tmp_path / 'log.db'}")) as made:
        append(made, labelled(1500, RIGHT_TO_LEFT))
        made.run("run", "--until-end")
        _, port, _ = started(made)
        with closing(Browser(tmp_path / "profile")) as browser:
            browser.size(1280, 800)
            browser.open(f"http://127.0.0.1:{port}/page/events")
            browser.until("return document.querySelectorAll('.rows li').length === 25")
            shown = browser.run("""
                const left = (node, n) => {
                    const range = document.createRange();
                    range.setStart(node, n);
                    range.setEnd(node, n + 1);
                    return range.getBoundingClientRect().left;
                };
                return [...document.querySelectorAll(".rows .guess")].map(guess => {
                    const texts = document.createTreeWalker(guess, NodeFilter.SHOW_TEXT);
                    const places = [];
                    while (texts.nextNode()) {
                        const text = texts.currentNode.data;
                        for (let n = 0; n < text.length; n++) places.push([text[n], left(texts.currentNode, n)]);
                    }
                    return places;
                });""")
            for places in shown:
                text = "".join(letter for letter, _ in places)
                first = (
                    text.index(">")
                    if ">" in text
                    else next(i for i, c in enumerate(text) if c in "0123456789" and text[i - 1] == " ")
                )
                number = places[first:]
                lefts = [left for _, left in number]
                assert lefts == sorted(lefts), text
                assert lefts[0] > max(left for _, left in places[:first]), text
            assert any(">99.9 %" in "".join(letter for letter, _ in places) for places in shown)
            assert {"right", f"wrong: {RIGHT_TO_LEFT[0]}"} >= set(
                browser.run("return [...document.querySelectorAll('.tag')].map(one => one.innerText)")
            )
