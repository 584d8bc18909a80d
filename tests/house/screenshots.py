"""The pictures of docs/dashboard.md: a report, and a learner of SMS messages as they come, seen by Chromium (`make screenshots`)."""

from __future__ import annotations

import sys
import tempfile
import time
from contextlib import closing
from pathlib import Path

from streamnb import cli
from tests import ROOT
from tests.support import commands
from tests.support.browser import Browser
from tests.support.program import Program

ADDRESS = "http://127.0.0.1:8017"


def main(stream):
    folder = Path(tempfile.mkdtemp())
    made = Program(
        folder,
        f"sqlite:///{folder / 'sms.db'}",
        model="sms",
        topics={"labels": "sms-labels"},
        metrics={"every_events": 50, "every": "200ms"},
    )
    with closing(made):
        made.run("warm")
        made.start("run")
        made.start("dashboard", "--listen", ADDRESS.removeprefix("http://")).await_word("the page is")
        made.start("replay", stream, "--rate", "300").finish()
        time.sleep(5)
        with closing(Browser(folder / "profile")) as browser:
            take(browser, ROOT / "docs" / "pictures")
            cli.main(["evaluate", str(stream), "--report", str(folder / "report.html")])
            take_report(browser, folder / "report.html", ROOT / "docs" / "pictures")


def take(browser, out):
    out.mkdir(exist_ok=True)
    browser.size(1100, 860)
    browser.open(ADDRESS)
    browser.picture(out / "overview.png", whole=False)
    browser.size(1100, 640, dark=True)
    browser.open(f"{ADDRESS}/page/try")
    browser.type("#text", "Free entry! Text WIN to claim your prize, or shall we have lunch at noon?")
    browser.click("main form button")
    browser.until("return document.querySelectorAll('#answer svg').length === 2", 120)
    browser.picture(out / "try.png", whole=False)
    browser.size(360, 720)
    browser.open(f"{ADDRESS}/page/events")
    browser.picture(out / "phone.png", whole=False)


def take_report(browser, page, out):
    browser.size(1100, 860)
    browser.open(page.as_uri())
    browser.picture(out / "report.png", whole=False)


if __name__ == "__main__":
    try:
        main(Path(sys.argv[1]).resolve())
    finally:
        commands.close()
