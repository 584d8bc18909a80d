"""Dead letters in a browser: one is corrected and learned once, one is skipped, and one comes back."""

from __future__ import annotations

import json
import time
from contextlib import closing
from importlib.resources import files

import pytest

from tests.support.browser import Browser
from tests.support.program import until
from tests.system.service.test_dashboard import NEEDS_BROWSER, append, program, started
from tests.system.service.test_serve import events

pytestmark = NEEDS_BROWSER
HOSTILE = '<script>document.title="evil"</script>/../a b?c'


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    folder = tmp_path_factory.mktemp("letters")
    with closing(program(folder, f"sqlite:///{folder / 'log.db'}")) as made:
        made.file.write_text(made.file.read_text() + "\n[classes]\nmax = 2\n")
        large = json.dumps({"id": "large", "features": {"x": [1]}, "text": "free " * 190_000}).encode()
        bad = [b'{"id": [7], "text": "lunch"}', b'{"id": "b", "text": "cash",', b"\xff\xfe\x00", large]
        third = json.dumps({"id": "c", "text": "x", "label": HOSTILE}).encode()
        append(made, [*events(20), *bad, third, *[b'{"text": "no id"}'] * 40])
        made.run("run", "--until-end")
        made.start("run")
        _, port, _ = started(made)
        with closing(Browser(folder / "profile")) as browser:
            browser.size(1280, 1000)
            made.browser, made.origin = browser, f"http://127.0.0.1:{port}"
            made.letters = {}
            for line in json.loads(made.run("dlq", "list", "--json", "--limit", "99"))["last"]:
                made.letters.setdefault((line["reason"], line["value"][:12]), line["place"])
            yield made


def letter(made, reason, start=""):
    place = next(
        place for (why, value), place in made.letters.items() if why == reason and value.startswith(start)
    )
    made.browser.open(f"{made.origin}/page/dead-letters?letter={place}")
    made.browser.until("return document.querySelector('.letter') !== null")
    return place


def correct(browser, value, new_id=None):
    browser.run("document.querySelector('#value').value = arguments[0]", value)
    if new_id is not None:
        browser.click("#as-new")
        browser.run("document.querySelector('[name=new_id]').value = arguments[0]", new_id)
    browser.click(".letter .tall button")
    browser.until("return document.querySelector('#answer').innerText.length > 0")
    return browser.text("#answer")


def test_a_letter_is_corrected_and_its_event_predicted_once(page):
    browser = page.browser
    letter(page, "wrong-type", '{"id": [7')
    box = "return [...document.querySelectorAll('.letter *')].map(e => e.getBoundingClientRect().top)"
    before = browser.run(box)
    answer = correct(browser, json.dumps({"id": HOSTILE, "text": "lunch"}))
    assert answer.startswith(f"Sent as event {HOSTILE}.")
    assert browser.run(box) == before  # nothing moved under the pointer
    time.sleep(0.6)
    browser.click(".letter .tall button")
    browser.until("return document.querySelector('#answer').innerText.startsWith('Not sent')")
    until(lambda: HOSTILE in page.ids("predictions"))
    assert page.ids("predictions").count(HOSTILE) == 1
    browser.open(f"{page.origin}/page/dead-letters?state=settled")
    browser.until("return document.querySelectorAll('#live tbody tr').length === 1")
    assert browser.run("return document.title").startswith("Dead letters")
    assert browser.complaints() == []


def test_a_letter_of_a_megabyte_gets_a_new_id(page):
    browser = page.browser
    letter(page, "wrong-type", '{"id": "larg')
    value = browser.run("return document.querySelector('#value').value")
    assert len(value) > 900_000
    answer = correct(browser, value.replace('"x": [1]', '"x": 1'), "x/y z")
    assert answer.startswith("Sent as event x/y z.")
    until(lambda: "x/y z" in page.ids("predictions"))


def test_an_event_that_is_refused_again_comes_back_next_to_its_letter(page):
    browser = page.browser
    place = letter(page, "too-many-classes")
    answer = correct(browser, json.dumps({"id": "c", "text": "x", "label": "another"}))
    assert answer.startswith("Sent as event c.")
    browser.open(f"{page.origin}/page/dead-letters?reason=too-many-classes")
    browser.until("return document.querySelectorAll('#live tbody tr').length === 2")
    browser.until("return document.querySelector('#live tbody').innerText.includes('settled')")
    rows = browser.run("return [...document.querySelectorAll('#live tbody tr')].map(one => one.innerText)")
    assert f"came back from {place}" in rows[0]
    assert "settled" in rows[1]


def test_hopeless_letters_are_marked_and_skipped(page):
    browser = page.browser
    browser.open(f"{page.origin}/page/dead-letters?reason=missing&state=waits")
    browser.until("return document.querySelectorAll('#live input').length === 25")
    name = browser.run("return document.querySelector('#live input').name")
    browser.click("#live input")
    browser.click("#again [name=skip]")
    browser.until(
        "return document.querySelector('#answer').innerText.includes('1 dead letter would be skipped')"
    )
    browser.click("#answer button")
    browser.until("return document.querySelector('#answer').innerText.startsWith('1 dead letter skipped')")
    waits = json.loads(page.run("dlq", "list", "--json"))["not_replayed"]
    browser.point("h1")
    browser.until(f"return document.querySelector('#live input').name !== {name!r}")
    browser.click(".pages a")
    browser.until("return document.querySelectorAll('#live input').length === 14")
    assert waits >= 39


@pytest.mark.parametrize("width", [390, 1024, 1920])
@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("view", ["list", "letter", "bytes"])
def test_the_views_are_accessible(page, width, dark, view):
    axe = files("axe_core_python").joinpath("axe.min.js").read_text(encoding="utf-8")
    browser = page.browser
    browser.size(width, 900, dark=dark)
    if view == "list":
        browser.open(f"{page.origin}/page/dead-letters")
        browser.until("return document.querySelector('#live table') !== null")
    else:
        letter(page, "invalid-json" if view == "letter" else "invalid-utf8")
    found = browser.run(f"{axe}; return axe.run().then(found => found.violations)")
    serious = [
        (one["id"], one["nodes"][0]["html"]) for one in found if one["impact"] in {"serious", "critical"}
    ]
    assert serious == []
    assert browser.run("return document.documentElement.scrollWidth <= window.innerWidth")
