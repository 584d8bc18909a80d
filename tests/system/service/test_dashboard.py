"""`streamnb dashboard` beside a running learner: its numbers are the metrics topic's, and in a browser everything works."""

from __future__ import annotations

import http.client
import json
import os
import re
import threading
import time
from contextlib import closing
from importlib.resources import files

import pytest

from streamnb import config as configuration
from streamnb.engine.ports import NewRecord
from streamnb.runtime import context
from streamnb.serving.live_views import TITLES
from tests.brokers.numbered import NUMBERS
from tests.support.browser import MISSING, Browser
from tests.support.program import Program, until
from tests.system.service.test_serve import events

pytestmark = pytest.mark.early(29)

EVIL = "<script>document.title='evil'</script>"
NEEDS_BROWSER = pytest.mark.skipif(
    bool(MISSING) and os.environ.get("CI") != "true",
    reason=f"apt-get install chromium chromium-driver: missing {MISSING}",
)


def program(folder, address):
    name = f"page{next(NUMBERS)}"
    return Program(
        folder,
        address,
        model=name,
        topics={"labels": f"{name}-labels", "partitions": 2},
        snapshots={"every_events": 100, "folder": str(folder / "snapshots")},
        commit={"events": 20},
        predictions={"evidence": 3},
        metrics={"every": "100ms", "every_events": 20},
        hypotheses=[{"name": "counts"}, {"name": "smooth", "alpha": 3.0}],
    )


def append(made, raws):
    with closing(context.open_log(configuration.load(made.file, {}, []))) as log:
        log.append([NewRecord(made.topics["events"], None, raw) for raw in raws])


def started(made):
    """A dashboard, its port, and what asks it."""
    command = made.start("dashboard", "--listen", "127.0.0.1:0")
    command.await_word("the page is")
    port = int(re.search(r"page is http://127.0.0.1:(\d+)/", command.said())[1])

    def ask(path):
        with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=30)) as connection:
            connection.request("GET", path)
            return connection.getresponse().read().decode()

    return command, port, ask


def values_of(markup):
    return dict(re.findall(r'class="name">([^<]+)</span><span class="value" data-value="([^"]+)"', markup))


@pytest.mark.parametrize("log", ["sqlite", pytest.param("kafka", marks=pytest.mark.broker)])
def test_the_numbers_of_the_page_are_those_of_the_topics(log, request, tmp_path):
    address = (
        f"sqlite:///{tmp_path / 'log.db'}" if log == "sqlite" else request.getfixturevalue("broker").address
    )
    with closing(program(tmp_path, address)) as made:
        made.run("topics", "create")
        append(made, [*events(200), b"no event"])
        made.run("run", "--until-end")
        _, _, ask = started(made)
        reports = [one for one in made.read("metrics") if one["kind"] == "report"]
        newest = max(reports, key=lambda one: one["events"])
        until(lambda: values_of(ask("/")).get("Events read") == str(newest["events"]))
        shown = values_of(ask("/page/overview/live"))
        assert shown["Accuracy"] == str(newest["window"]["accuracy"])
        assert shown["Log loss"] == str(newest["window"]["log_loss"])
        assert 'data-behind="0"' in ask("/page/overview/live")
        labels = values_of(ask("/page/labels"))
        assert (labels["Coverage"], labels["Waiting"]) == ("1.0", str(newest["verdicts"]["pending"]))
        confusion = ask("/page/quality")
        for truth, row in zip(newest["labels"], newest["confusion"], strict=True):
            for guess, n in zip(newest["labels"], row, strict=False):
                cell = f'title="truth {truth}, predicted {guess}: '
                assert (f'{cell}{n}"' in confusion, cell in confusion) == (n > 0, n > 0)  # a zero is blank
        for one in newest["posterior"]["hypotheses"]:
            assert f"<td>{one['name']}</td>" in ask("/page/posterior")
        assert "The newest of 200;" in ask("/page/events")
        assert ">m17<" in ask("/page/events?q=m17")
        (evidence,) = [one["evidence"] for one in made.read("predictions") if one["id"] == "m199"]
        details = ask("/page/events?id=m199")
        assert all(f"text: {one['value']}" in details for one in evidence)
        assert "(the labels alone)" in details
        assert '<p class="text"><bdi>' in details  # the message itself
        assert "no event" in ask("/page/dead-letters")
        assert values_of(ask("/page/operations"))["Journal record"] == str(made.read("journal")[-1]["n"])
        until(lambda: values_of(ask("/page/model")).get("Events learned") == "200")


@pytest.mark.parametrize("log", ["sqlite", pytest.param("kafka", marks=pytest.mark.broker)])
def test_a_learner_that_was_stopped_or_killed_is_shown_as_that_within_seconds(log, request, tmp_path):
    """Not as one that has nothing to do, which is green; a log removes one that was killed after a session."""
    address = (
        f"sqlite:///{tmp_path / 'log.db'}" if log == "sqlite" else request.getfixturevalue("broker").address
    )
    with closing(program(tmp_path, address)) as made:
        made.run("topics", "create")
        append(made, events(60))
        made.run("run", "--until-end")
        _, _, ask = started(made)

        def shows(state, within):
            since = time.monotonic()
            until(lambda: json.loads(ask("/live"))["learner"] == state)
            until(lambda: re.search(rf'class="state">({ON_THE_PAGE[state]})</strong>', ask("/")))
            assert time.monotonic() - since < within

        shows("stopped", 60)
        learner = made.start("run")
        shows("running", 60)
        learner.kill()
        shows("silent" if log == "sqlite" else "stopped", 30)
        learner = made.start("run")
        shows("running", 60)
        learner.stop()
        shows("stopped", 15)


ON_THE_PAGE = {"running": "Learning|Idle", "silent": "Silent for [^<]+", "stopped": "No learner runs"}


@NEEDS_BROWSER
def test_in_a_browser_letters_are_marked_confirmed_and_sent_once(tmp_path):
    """20 that cannot be read stay 20, however often they are sent."""
    log = f"sqlite:///{tmp_path / 'log.db'}"
    large = [
        json.dumps({"id": f"large{n}", "text": "free " * 100, "label": "spam"}).encode() for n in range(3)
    ]
    with closing(program(tmp_path, log)) as made:
        text = made.file.read_text()
        made.file.write_text(text + '\n[events]\nmax_bytes = "400B"\n')
        append(made, [*events(20), *large, *[b"no event"] * 20])
        made.run("run", "--until-end")
        made.file.write_text(text)
        _, port, _ = started(made)
        with closing(Browser(tmp_path / "profile")) as browser:
            browser.size(1280, 2000)
            browser.open(f"http://127.0.0.1:{port}/page/dead-letters")
            browser.until("return document.querySelectorAll('#live td').length > 20")

            def send(button, told):
                browser.click(button)
                browser.until(f"return document.querySelector('#answer').innerText.startsWith({told!r})")

            never = "20 not sent: no configuration can read its bytes (invalid-json)"
            send("#again button", f"3 dead letters would be sent again; {never}.")
            assert browser.text("#answer button") == "Send 3 again"
            assert browser.run("return document.querySelectorAll('#live input').length") == 3
            browser.click("#live input")  # one of three that can be sent
            send("#again button", "1 dead letter would be sent again.")
            made.run("run", "--until-end")
            assert not [one for one in made.ids("predictions") if "large" in one]  # nothing was sent yet
            assert browser.run("return document.querySelector('#live input').checked")  # and it stands still
            send("#answer button", "1 dead letter sent again.")
            send("#again button", "2 dead letters would be sent again")
            send("#answer button", "2 dead letters sent again")
            for _ in range(3):
                made.run("run", "--until-end")
                send("#again button", "0 dead letters would be sent again")
                assert browser.run("return document.querySelectorAll('#answer button').length") == 0
        told = json.loads(made.run("dlq", "list", "--json"))["reasons"]
        assert {reason: one["letters"] for reason, one in told.items()} == {"invalid-json": 20, "oversize": 3}
        assert sorted(one for one in made.ids("predictions") if "large" in one) == [
            "large0",
            "large1",
            "large2",
        ]


@NEEDS_BROWSER
def test_in_a_browser_every_view_works_while_events_flow(tmp_path):
    """At a desk's width and a phone's: no complaint, no request elsewhere, nothing too wide, no fault of access."""
    axe = files("axe_core_python").joinpath("axe.min.js").read_text(encoding="utf-8")
    with closing(program(tmp_path, f"sqlite:///{tmp_path / 'log.db'}")) as made:
        evil = json.dumps({"id": EVIL, "text": f"free {EVIL}", "label": "<b>evil</b>"}).encode()
        append(made, [*events(150), evil, b"no event " + EVIL.encode()])
        made.run("run", "--until-end")
        learner, (command, port, ask) = made.start("run"), started(made)
        flowing = threading.Event()
        flow = threading.Thread(target=lambda: flow_until(made, flowing))
        flow.start()
        try:
            with closing(Browser(tmp_path / "profile")) as browser:
                origin = f"http://127.0.0.1:{port}"
                only_watch(browser, origin, ask)
                try_a_message(browser, origin)
                look_at_everything(browser, origin, axe, made)
                command.stop()
                browser.until(
                    "return document.querySelector('#status').innerText.startsWith('Connection lost')"
                )
        finally:
            flowing.set()
            flow.join()
        assert learner.is_going()


def flow_until(made, done):
    for n in range(1000):
        append(made, events(5, first=1000 + 5 * n))
        if done.wait(0.2):
            return


def only_watch(browser, origin, ask):
    """Views that need no model let nothing be learned, however long they are looked at."""
    for name in (name for name in TITLES if name not in {"try", "model"}):
        browser.open(f"{origin}/page/{name}" if name else origin)
        browser.until("return document.querySelector('#live').innerText.length > 0")
    browser.open(f"{origin}/page/operations")
    time.sleep(5)
    assert "no model is loaded" in browser.text("#live")
    assert "streamnb_replica_journal_record NaN" in ask("/metrics")


def look_at_everything(browser, origin, axe, made):
    browser.size(1280, 900)
    browser.open(origin)
    browser.requested()
    for width, dark in ((1280, False), (360, True)):
        browser.size(width, 800, dark=dark)
        for name, title in TITLES.items():
            browser.click(f"nav a[href='/{name and 'page/'}{name}']")
            browser.until(f"return document.title.startsWith({title!r})")
            assert browser.run("return document.documentElement.scrollWidth") <= width, name
            faults = browser.run(f"{axe}; return axe.run().then(found => found.violations)")
            serious = [one for one in faults if one["impact"] in {"serious", "critical"}]
            assert not serious, (name, width, [(one["id"], one["nodes"][0]["html"]) for one in serious])
    browser.size(1280, 900)
    search_and_correct(browser, origin, made)
    assert browser.complaints() == []
    assert {url for url in browser.requested() if not url.startswith(f"{origin}/")} == set()


def try_a_message(browser, origin):
    """The model is loaded once it is wanted; whoever asks before that sees how far it is, and then the answer."""
    browser.open(f"{origin}/page/try")
    assert browser.text("#live").startswith("The model is loading")
    browser.type("#text", f"free cash {EVIL}")
    browser.click("main form button")
    browser.until("return document.querySelector('#answer').innerText.startsWith('The model is loading')")
    browser.type("#text", " and more, that is not asked yet")
    browser.until("return document.querySelector('#live').innerText.startsWith('The model has learned')")
    browser.until("return document.querySelectorAll('#answer svg').length === 2")
    assert "text: cash" in browser.text("#answer")
    assert browser.run("return document.title").startswith("Try")


def write(browser, button):
    """Click until a label is written: a click on what has just changed is none, and the page says so."""
    deadline = time.monotonic() + 60
    while True:
        time.sleep(0.5)
        browser.click(button)
        lines = browser.until("return document.querySelector('#toast').innerText").splitlines()
        if any(line.startswith("Written") for line in lines):
            return
        assert all("the list had just changed" in line for line in lines), lines
        assert time.monotonic() < deadline, lines


def search_and_correct(browser, origin, made):
    """The list goes on by itself, keeps focus, finds at each key, and one click writes a label."""
    browser.open(f"{origin}/page/events")
    first = browser.text(".rows li .id")
    browser.until(f"return document.querySelector('.rows li .id').innerText !== {first!r}")
    browser.type("#q", "m9")  # none of those that flow: the list shows nothing else once it was asked for
    browser.until(
        "const ids = [...document.querySelectorAll('.rows .id')].map(one => one.innerText);"
        "return ids.length > 0 && ids.every(id => id.includes('m9'))"
    )
    assert browser.run("return document.activeElement.id") == "q"
    assert browser.run("return location.search").startswith("?q=m9")
    browser.run("document.querySelector('#q').value = ''")
    browser.type("#q", EVIL)
    browser.until(f"return document.querySelector('.rows .id')?.innerText === {EVIL!r}")
    write(browser, """.rows button[value='"ham"']""")
    labels = made.topics | {"labels": f"{made.model}-labels"}
    said = [json.loads(line) for line in made.run("read", labels["labels"]).splitlines()]
    assert [(one["id"], one["label"], one["source"]) for one in said] == [(EVIL, "ham", "dashboard")]
    browser.open(f"{origin}/page/labels")
    browser.until(f"return document.querySelector('#live').innerText.includes({EVIL!r})")
    browser.open(f"{origin}/page/events?q=script")
    browser.until("return document.querySelector('.said')?.innerText === 'said: ham'")
