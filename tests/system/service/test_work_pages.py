"""The pages for work in a browser: tables, the wall, pictures of notebooks, and fifty messages by keys."""

from __future__ import annotations

import json
import time
from contextlib import closing
from importlib.resources import files

import pytest

from streamnb import charts
from streamnb import config as configuration
from streamnb.engine.ports import NewRecord
from streamnb.runtime import context
from tests.serving.test_live_page import ALERT, EVIL, TENANT
from tests.support.browser import Browser
from tests.support.program import until
from tests.system.service.test_dashboard import NEEDS_BROWSER, append, program, started
from tests.system.service.test_labelling_page import written
from tests.system.service.test_review_page import messages, opened

pytestmark = NEEDS_BROWSER
MONITORS = '[[monitors]]\nname = "errors"\nkind = "error-rate"\ntolerated = 0.05\nalarming = 0.15\n'


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    folder = tmp_path_factory.mktemp("work")
    with closing(program(folder, f"sqlite:///{folder / 'log.db'}")) as made:
        text = made.file.read_text()
        made.file.write_text(
            text.replace("[topics]", '[topics]\ntenants = "tenants"\nalerts = "alerts"') + MONITORS
        )
        append(made, messages(60))
        append(made, messages(70, first=100, label=False))
        made.run("run", "--until-end")
        with closing(context.open_log(configuration.load(made.file, {}, []))) as log:
            rows = [ALERT | {"monitor": "errors", "id": f"{EVIL}{n}"} for n in range(60)]
            log.append([NewRecord("alerts", None, json.dumps(one).encode()) for one in rows])
            rows = [TENANT | {"tenant": f"{EVIL}{n}"} for n in range(60)]
            log.append([NewRecord("tenants", None, json.dumps(one).encode()) for one in rows])
        _, port, _ = started(made)
        with closing(Browser(folder / "profile")) as browser:
            made.browser, made.origin = browser, f"http://127.0.0.1:{port}"
            yield made


def is_accessible(browser, width):
    axe = files("axe_core_python").joinpath("axe.min.js").read_text(encoding="utf-8")
    found = browser.run(f"{axe}; return axe.run().then(found => found.violations)")
    serious = [
        (one["id"], one["nodes"][0]["html"]) for one in found if one["impact"] in {"serious", "critical"}
    ]
    assert serious == []
    assert browser.run("return document.documentElement.scrollWidth") <= width


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize(
    ("view", "rows"),
    [("alerts", ".wide table"), ("decisions", "p"), ("tenants", "table"), ("events", ".rows li")],
)
def test_the_tables_are_accessible_at_each_width(page, view, rows, dark):
    browser = page.browser
    for width in (390, 1024, 1920):
        browser.size(width, 900, dark=dark)
        browser.open(f"{page.origin}/page/{view}")
        browser.until(f"return document.querySelector('#live {rows}') !== null")
        is_accessible(browser, width)
    assert browser.complaints() == []
    assert not browser.run("return document.title").startswith("evil")


def test_predictions_are_filtered_as_one_types_and_have_pages(page):
    browser = page.browser
    browser.size(1280, 900)
    browser.open(f"{page.origin}/page/events")
    browser.until("return document.querySelectorAll('.rows li').length === 25")
    first = browser.text(".rows li .id")
    browser.click(".pages a:last-of-type")
    browser.until(f"return document.querySelector('.rows li .id')?.innerText !== {first!r}")
    assert "after=" in browser.run("return location.search")
    browser.open(f"{page.origin}/page/events")
    browser.type("#text", "LUNCH")
    browser.until("return location.search === '?text=LUNCH'")
    browser.until("return document.querySelector('#live').innerText.includes('newest 5,000 events')")
    ids = browser.run("return [...document.querySelectorAll('.rows .id')].map(one => one.innerText)")
    said = {one["id"]: one["text"] for one in map(json.loads, [*messages(60), *messages(70, first=100)])}
    assert ids
    assert all("lunch" in said[id_] for id_ in ids)


def test_paper_has_the_tables_and_messages_and_nothing_to_click(page):
    """In a dark browser, too. The page is as wide as A4 between its margins."""
    browser = page.browser
    for path, shown in (
        ("events", ".rows li"),
        ("review?queue=unsure", "article .text"),
        ("alerts", "table"),
    ):
        browser.size(703, 900)
        if path.startswith("review"):
            opened(page, width=703)
        else:
            browser.open(f"{page.origin}/page/{path}")
        browser.until(f"return document.querySelector('{shown}') !== null")
        dark = {"name": "prefers-color-scheme", "value": "dark"}
        browser.command("Emulation.setEmulatedMedia", media="print", features=[dark])
        assert (
            browser.run(
                VISIBLE, "button, input, select, .views, .news, .pages, .ranges a:not([aria-current])"
            )
            == []
        )
        assert browser.run(VISIBLE, shown) != []
        assert browser.run("return document.documentElement.scrollWidth") <= 703
        assert (
            browser.run("return getComputedStyle(document.querySelector('.soft')).color")
            == "rgb(86, 97, 112)"
        )
        if path == "events":
            heads = [one["text"] for one in browser.run(VISIBLE, ".heads span")]
            assert heads == ["event", "when, UTC", "prediction", "label"]
            assert max(one["height"] for one in browser.run(VISIBLE, ".rows li")) < 36  # 25 on one sheet
        browser.command("Emulation.setEmulatedMedia", media="")


VISIBLE = """
    return [...document.querySelectorAll(arguments[0])].filter(one => one.checkVisibility())
        .map(one => ({text: one.innerText, height: one.getBoundingClientRect().height}));
"""


def test_a_wall_is_dark_wide_and_turns_until_it_is_stopped(page):
    browser = page.browser
    browser.size(1920, 1080)
    browser.open(f"{page.origin}/?wall")
    browser.until("return document.querySelector('#live svg') !== null")
    assert browser.run(
        "return document.querySelector('nav') === null && document.querySelector('form') === null"
    )
    paper = "return getComputedStyle(document.body).backgroundColor"
    assert browser.run(paper) == "rgb(14, 18, 22)"
    assert browser.run("return document.querySelector('main').getBoundingClientRect().width") == 1920
    seen = []
    for _ in range(5):
        seen.append(browser.text("h1"))
        is_accessible(browser, 1920)
        browser.run("return turnWall()")
    assert seen == ["Overview", "Quality", "Classes", "Alerts", "Overview"]
    browser.until("return document.querySelector('#live').dataset.live.startsWith('/page/quality/live')")
    browser.press(" ")
    assert "Stopped" in browser.text("#status")
    browser.run("return turnWall()")
    assert browser.text("h1") == "Quality"
    assert browser.complaints() == []


@pytest.mark.parametrize(
    ("body", "dark", "is_dark"),
    [
        ("", False, False),
        ('data-jp-theme-light="false"', False, True),
        ('data-jp-theme-light="true"', True, False),
        ('class="vscode-dark"', False, True),
        ('class="vscode-light"', True, False),
        ('class="vscode-high-contrast vscode-high-contrast-light"', False, False),
    ],
)
def test_a_picture_follows_the_theme_of_its_notebook(page, tmp_path, body, dark, is_dark):
    browser = page.browser
    picture = charts.whole(charts.bars("Title", [charts.Bar("a", 1.0)]))
    (tmp_path / "notebook.html").write_text(f"<!doctype html><body {body}>{picture}</body>")
    browser.size(800, 600, dark=dark)
    browser.open((tmp_path / "notebook.html").as_uri())
    ink = browser.run("return getComputedStyle(document.querySelector('.snb')).color")
    assert ink == ("rgb(228, 232, 237)" if is_dark else "rgb(29, 39, 51)")


@pytest.mark.thorough
def test_fifty_messages_are_corrected_by_keys_at_the_speed_of_a_person(page):
    browser = page.browser
    opened(page)
    browser.press("h")
    focused = """
        const card = document.activeElement.closest('[data-review] [data-event]');
        return card && [card.querySelector('.id').innerText,
            [...card.querySelectorAll('button[name=label_json]')].map(one => JSON.parse(one.value))];"""
    before, expected = len(written(page)), {}
    while len(expected) < 50:
        for _ in range(min(20, 50 - len(expected))):
            id_, choices = browser.run(focused)
            assert id_ not in expected
            browser.press("2")
            expected[id_] = choices[1]
            time.sleep(0.8)
        until(lambda: len(written(page)) == before + len(expected))
        time.sleep(1.5)  # until the page has read them
        browser.press("r")
        browser.until("return document.querySelectorAll('.review article').length > 0")
        hidden = "return getComputedStyle(document.querySelector('.message')).visibility"
        assert browser.run(hidden) == "hidden"
    found = written(page)
    assert len(found) == before + 50
    assert expected.items() <= dict(found).items()
