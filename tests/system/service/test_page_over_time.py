"""Charts over time, the health strip and the pages of classes, in a browser while events flow."""

from __future__ import annotations

import json
import threading
from contextlib import closing
from importlib.resources import files

import pytest

from tests.support.browser import Browser
from tests.system.service.test_dashboard import NEEDS_BROWSER, append, program, started
from tests.system.service.test_serve import events

pytestmark = [pytest.mark.early(30), NEEDS_BROWSER]

VIEWS = (
    "/",
    "/page/classes",
    "/page/classes?class=spam",
    "/page/quality",
    "/page/posterior",
)
STILL = ("/page/alerts", "/page/review?queue=newest")
"""Views that stay as they are while events flow."""
LONG, RIGHT_TO_LEFT = "a class with a name " * 5 + "x" * 100, "\u05e9\u05dc\u05d5\u05dd"
SHIFTS = """
    window.shifts = 0;
    new PerformanceObserver(list => list.getEntries().forEach(one => {
        if (!one.hadRecentInput) window.shifts += one.value;
    })).observe({ type: "layout-shift", buffered: true });"""
TOPS = """
    return [...document.querySelectorAll("h1, #live > :not(:last-child), #live .card > *")].map(
        one => [one.tagName, one.className.baseVal ?? one.className, one.getBoundingClientRect().top]);"""
"""Tops of the parts of a view: the browser counts no shift of a part that is replaced."""


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    """A page in a browser, of a learner into which events flow."""
    folder = tmp_path_factory.mktemp("time")
    with closing(program(folder, f"sqlite:///{folder / 'log.db'}")) as made:
        odd = [
            json.dumps({"id": f"odd{n}", "text": "odd", "label": label}).encode()
            for n, label in enumerate([LONG, RIGHT_TO_LEFT] * 3)
        ]
        append(made, [*events(150), *odd])
        made.run("run", "--until-end")
        made.learner = made.start("run")
        _, port, _ = started(made)
        done = threading.Event()
        flow = threading.Thread(target=flow_until, args=(made, done))
        flow.start()
        try:
            with closing(Browser(folder / "profile")) as browser:
                made.browser, made.origin = browser, f"http://127.0.0.1:{port}"
                browser.size(1280, 900)
                browser.open(made.origin)
                browser.until("return document.querySelector('#strip').innerText.startsWith('Learning')", 60)
                yield made
        finally:
            done.set()
            flow.join()


def flow_until(made, done):
    n = 0
    while not done.wait(0.5):
        append(made, events(5, first=1000 + 5 * n))
        n += 1


@pytest.mark.parametrize("width", [390, 1024, 1920])
@pytest.mark.parametrize("dark", [False, True])
def test_the_views_are_accessible_and_fit(page, width, dark):
    axe = files("axe_core_python").joinpath("axe.min.js").read_text(encoding="utf-8")
    browser = page.browser
    browser.size(width, 900, dark=dark)
    for path in VIEWS + STILL:
        browser.open(page.origin + path)
        browser.until("return document.querySelector('#live').innerText.length > 0")
        found = browser.run(f"{axe}; return axe.run().then(found => found.violations)")
        serious = [one for one in found if one["impact"] in {"serious", "critical"}]
        assert [(one["id"], one["nodes"][0]["html"]) for one in serious] == [], path
        assert browser.run("return document.documentElement.scrollWidth <= window.innerWidth"), path
    assert browser.complaints() == []


@pytest.mark.parametrize("path", VIEWS)
def test_nothing_shifts_while_events_flow(page, path):
    browser = page.browser
    browser.size(1280, 900)
    browser.open(page.origin + path)
    if "class=" in path:  # once the model is loaded
        browser.until("return document.querySelector('#live').innerText.includes('Strongest words')", 120)
    browser.run(SHIFTS)
    browser.run(
        "window.n = 0; new MutationObserver(() => { window.n += 1; })"
        ".observe(document.querySelector('#live'), { childList: true });"
    )
    before = browser.run(TOPS)
    for n in range(1, 4):
        browser.until(f"return window.n >= {n}", 60)
        assert browser.run(TOPS) == before
    assert browser.run("return window.shifts") < 0.01


def test_the_crosshair_shows_values_of_all_charts_and_survives_an_update(page):
    browser = page.browser
    browser.size(1280, 900)
    browser.command("Emulation.setTimezoneOverride", timezoneId="Asia/Kolkata")
    try:
        browser.open(page.origin)
        browser.until("return document.querySelectorAll('.told').length > 10")
        browser.point(".snb-plot")
        tips = browser.until(
            "const tips = [...document.querySelectorAll('.tip')].map(one => one.innerText);"
            "return tips.length === 2 && tips"
        )
        assert all(" UTC, " in one and "GMT+5:30" in one for one in tips)
        assert "all: " in tips[0]
        assert tips[0].splitlines()[0] == tips[1].splitlines()[0]
        browser.run("window.was = document.querySelector('.tip')")
        browser.until("return !window.was.isConnected && document.querySelectorAll('.tip').length === 2", 30)
        browser.run("document.querySelector('.snb-plot').focus()")
        browser.press("\ue014")
        assert browser.text("#status").startswith("20")
        assert browser.run("return document.querySelectorAll('text.local').length") > 2
        assert "above, GMT+5:30 below" in browser.text(".zone")
    finally:
        browser.command("Emulation.setTimezoneOverride", timezoneId="")


def test_ranges_and_axes_are_links_that_other_views_keep(page):
    browser = page.browser
    browser.size(1280, 900)
    browser.open(page.origin)
    browser.click(".ranges a[href*='15m']")
    browser.until("return document.querySelector('.ranges [aria-current]').innerText === '15 min'")
    browser.click(".axes .ranges + .ranges a[href*='x=events']")
    browser.until("return document.querySelector('figcaption').innerText.includes('by events read')")
    browser.click(".views a[href^='/page/posterior']")
    browser.until("return document.title.startsWith('Model mix')")
    assert browser.run("return location.search") == "?range=15m&x=events"
    assert browser.run("return document.querySelector('.ranges [aria-current]').innerText") == "15 min"


def test_a_number_of_the_confusion_leads_to_its_events(page):
    browser = page.browser
    browser.open(f"{page.origin}/page/classes")
    link = ".snb-heat a[href*='truth=spam&predicted=spam']"
    browser.until(f'return document.querySelector("{link}") !== null')
    browser.click(link)
    browser.until("return document.querySelectorAll('#live .rows li').length > 0")
    browser.open(f"{page.origin}/page/classes")
    browser.click("a[href='/page/classes?class=spam']")
    browser.until("return document.querySelector('.class-name')?.innerText.includes('spam')")
    browser.until("return document.querySelector('#live').innerText.includes('Strongest words')", 60)


def test_a_killed_learner_turns_every_view_red(page):
    browser = page.browser
    page.learner.kill()
    browser.open(f"{page.origin}/page/labels")
    browser.until("return document.querySelector('#strip.bad') !== null", 60)
    assert browser.text("#strip").startswith(("Silent for", "No learner"))
    for path in VIEWS:
        browser.open(page.origin + path)
        assert browser.run("return document.querySelector('#strip.bad') !== null")
