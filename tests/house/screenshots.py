"""The pictures of docs/dashboard.md: a report, and a learner of SMS messages as they come, seen by Chromium (`make screenshots`).

python -m tests.house.screenshots EVENTS [FOLDER]: with a folder, each view at several widths goes there, light and dark.
"""

from __future__ import annotations

import base64
import sys
import tempfile
import time
from contextlib import closing
from pathlib import Path

from streamnb import cli
from streamnb.serving.live_views import TITLES
from tests import ROOT
from tests.support import commands
from tests.support.browser import Browser
from tests.support.program import Program

ADDRESS = "http://127.0.0.1:8017"


SIZES = {"1920": (1920, 1080), "1024": (1024, 800), "390": (390, 844)}
MONITORS = [
    {"name": "errors", "kind": "error-rate", "tolerated": 0.05, "alarming": 0.15},
    {
        "name": "spam",
        "kind": "class-rate",
        "label": "spam",
        "tolerated": [0.05, 0.3],
        "alarming": [0.02, 0.4],
    },
    {"name": "events stopped", "kind": "no-events", "after": "4s"},
]


def main(stream, out=None):
    folder = Path(tempfile.mkdtemp())
    made = Program(
        folder,
        f"sqlite:///{folder / 'sms.db'}",
        model="sms",
        topics={"labels": "sms-labels"},
        metrics={"every_events": 50, "every": "200ms"},
        predictions={"evidence": 10},
        **({} if out is None else {"monitors": MONITORS, "decision": {"reject": 0.2}}),
    )
    with closing(made):
        made.run("warm")
        made.start("run")
        made.start("dashboard", "--listen", ADDRESS.removeprefix("http://")).await_word("the page is")
        made.start("replay", stream, "--rate", "300").finish()
        time.sleep(5)
        with closing(Browser(folder / "profile")) as browser:
            if out is not None:
                take_all(browser, out)
                return
            take(browser, ROOT / "docs" / "pictures")
            cli.main(["evaluate", str(stream), "--report", str(folder / "report.html")])
            take_report(browser, folder / "report.html", ROOT / "docs" / "pictures")


def take(browser, out):
    out.mkdir(exist_ok=True)
    browser.size(1100, 860)
    browser.open(ADDRESS)
    browser.picture(out / "overview.png", whole=False)
    browser.size(1100, 440)
    browser.open(f"{ADDRESS}/page/review?queue=newest")
    browser.picture(out / "review.png", whole=False)
    browser.size(1100, 640, dark=True)
    browser.open(f"{ADDRESS}/page/try")
    browser.type("#text", "Free entry! Text WIN to claim your prize, or shall we have lunch at noon?")
    browser.click("main form button")
    browser.until("return document.querySelectorAll('#answer svg').length === 2", 120)
    browser.picture(out / "try.png", whole=False)
    browser.size(360, 720)
    browser.open(f"{ADDRESS}/page/events")
    browser.picture(out / "phone.png", whole=False)


def take_all(browser, out):
    """Each view, light and dark, at each width, printed, and on a wall."""
    out.mkdir(exist_ok=True, parents=True)
    for name in TITLES:
        path = f"/page/{name}" if name else "/"
        for size, (width, height) in SIZES.items():
            for dark in (False, True):
                browser.size(width, height, dark=dark)
                browser.open(ADDRESS + path)
                time.sleep(0.3)
                browser.picture(
                    out / f"{name or 'overview'}-{size}-{'dark' if dark else 'light'}.png", whole=False
                )
        printed = browser.command("Page.printToPDF", preferCSSPageSize=True, printBackground=True)
        (out / f"{name or 'overview'}.pdf").write_bytes(base64.b64decode(printed["data"]))
    browser.size(1920, 1080)
    for name in ("", "page/quality", "page/classes", "page/alerts"):
        browser.open(f"{ADDRESS}/{name}?wall")
        time.sleep(0.3)
        browser.picture(out / f"wall-{name.rpartition('/')[2] or 'overview'}.png", whole=False)


def take_report(browser, page, out):
    browser.size(1100, 860)
    browser.open(page.as_uri())
    browser.picture(out / "report.png", whole=False)


if __name__ == "__main__":
    try:
        main(*(Path(one).resolve() for one in sys.argv[1:]))
    finally:
        commands.close()
