"""Alerts, decisions and tenants on the page: the numbers of the topics, and bounded for any number of records."""

from __future__ import annotations

import html
import re

import pytest

from streamnb import config as configuration
from streamnb.serving.live_views import PageViews
from streamnb.serving.recent_records import RecentRecords
from tests.serving.test_live_page import (
    ALERT,
    EVIL,
    SCORES,
    TENANT,
    NoModel,
    Reader,
    prediction,
    record,
    report,
)

MONITORS = """
[[monitors]]
name = "errors"
kind = "error-rate"
tolerated = 0.05
alarming = 0.15
[[monitors]]
name = "spam"
kind = "class-rate"
label = "spam"
tolerated = [0.1, 0.3]
alarming = [0.05, 0.4]
[[monitors]]
name = "silence"
kind = "no-events"
after = "10m"
"""
STATES = [
    {"name": "errors", "kind": "error-rate", "raised": True, "bayes_factor": 0.25},
    {"name": "spam", "kind": "class-rate", "raised": False, "bayes_factor": 1e9},
    {"name": "silence", "kind": "no-events", "raised": True},
]


@pytest.fixture
def watch(tmp_path):
    file = tmp_path / "c.toml"
    file.write_text(f'[log]\nurl = "sqlite:///{tmp_path}/log.db"\n{MONITORS}')
    found = RecentRecords(configuration.load(file, {}, []), print)
    found.is_loading, found.problem = False, ""
    return found


def shown(watch, name, **asked):
    return PageViews(watch, NoModel(), "secret", is_writable=True).live(name, asked)


def rows(made, title):
    body = made.partition(f"<h2>{title}</h2>")[2].partition("</tbody>")[0].partition("<tbody>")[2]
    return [re.findall(r"<td[^>]*>(.*?)</td>", row) for row in body.split("<tr>")[1:]]


def texts(cells):
    return [" ".join(Reader(cell).texts) for cell in cells]


def test_each_monitor_is_shown_with_its_rate_its_bounds_and_its_first_event(watch):
    watch._add_metrics(record(report() | {"monitors": STATES}))
    watch._add_alert(record(ALERT | {"monitor": "errors", "id": "first"}))
    for n in range(10):
        watch._add_prediction(record(prediction(id_=f"p{n}", label="spam" if n < 2 else "ham")))
    found = [texts(row) for row in rows(shown(watch, "alerts"), "Monitors")]
    assert found == [
        ["errors", "error-rate", "alarm", "12.5 %", "5 %", "15 %", "0.25", "2026-09-21 14:13:20", "first"],
        ["spam", "class-rate", "within bounds", "20 %", "10 % to 30 %", "5 % to 40 %", "1e+09", "-", "-"],
        ["silence", "no-events", "alarm", "-", "10 min", "10 min", "-", "before the records read", "-"],
    ]
    assert 'data-value="2"' in shown(watch, "alerts")


def test_an_alarm_that_ended_has_no_first_event(watch):
    watch._add_metrics(record(report() | {"monitors": [STATES[0] | {"raised": False}]}))
    watch._add_alert(record(ALERT | {"monitor": "errors", "id": "first"}))
    assert texts(rows(shown(watch, "alerts"), "Monitors")[0])[-2:] == ["-", "-"]  # its end was not read yet
    watch._add_alert(record(ALERT | {"monitor": "errors", "state": "cleared", "id": "last"}))
    assert texts(rows(shown(watch, "alerts"), "Monitors")[0])[-2:] == ["2026-09-21 14:13:20", "-"]


def test_past_alerts_have_filters_and_pages_that_stand_still_while_more_come(watch):
    for n in range(10_000):
        watch._add_alert(
            record(ALERT | {"monitor": f"m{n % 2}", "id": f"e{n}", "state": ("raised", "cleared")[n % 2]})
        )
    assert len(watch.alerts) == 1000
    made, seen = shown(watch, "alerts", state="raised"), []
    for _ in range(30):
        seen += [texts(row)[3] for row in rows(made, "Alerts, newest first")]
        older = re.search(r'href="/page/alerts\?([^"]+)">Older', made)
        if older is None:
            break
        watch._add_alert(record(ALERT | {"monitor": "m0", "id": "new"}))
        asked = dict(one.split("=") for one in html.unescape(older[1]).split("&"))
        assert asked["state"] == "raised"
        made = shown(watch, "alerts", **asked)
    assert seen[:3] == ["e9998", "e9996", "e9994"]
    assert len(seen) == len(set(seen)) > 480
    assert rows(shown(watch, "alerts", monitor="m1", q="E9999"), "Alerts, newest first") != []
    assert "No alert fits" in shown(watch, "alerts", monitor=EVIL)


def test_the_cost_and_the_share_of_decisions_are_those_of_the_report(watch):
    assert "No decisions" in shown(watch, "decisions")
    window = {"events": 40, "mean_cost": 0.25, "coverage": 0.9, "accuracy": 0.875}
    whole = {"events": 100, "mean_cost": 0.5, "coverage": 0.8}
    watch._add_metrics(record(report() | {"decisions": {"window": window, "cumulative": whole}}))
    made = shown(watch, "decisions")
    assert [texts(row) for row in rows(made, "Decisions")] == [
        ["last 1,000", "40", "0.25", "90 %", "87.5 %"],
        ["all", "100", "0.5", "80 %", "-"],
    ]
    assert re.findall(r'data-value="([^"]+)"', made) == ["0.25", "0.9", "0.875"]
    none = {"events": 0, "mean_cost": 0.0, "coverage": 0.0}
    watch._add_metrics(record(report(200) | {"decisions": {"window": none, "cumulative": whole}}))
    assert re.findall(r'data-value="([^"]+)"', shown(watch, "decisions")) == ["0.5", "0.8"]
    assert SCORES["events"] == 90  # the report's scores stay another matter


def test_ten_thousand_tenants_have_a_filter_orders_and_a_page_each(watch):
    for n in range(10_000):
        accuracy = None if n % 2 else n / 10_000
        watch._add_tenant(record(TENANT | {"tenant": f"t{n}", "events": n, "accuracy": accuracy}))
    watch._add_tenant(record(TENANT | {"tenant": "../a b?c=<script>", "events": 10_001}))
    watch._add_tenant(record(TENANT | {"tenant": "", "events": 10_002}))
    names = [texts(row)[0] for row in rows(shown(watch, "tenants"), "Tenants")]
    assert names[:4] == ["(events without a tenant)", "../a b?c=<script>", "t9999", "t9998"]
    assert len(names) == 25
    assert [texts(row)[0] for row in rows(shown(watch, "tenants", order="worst"), "Tenants")][:2] == [
        "t0",
        "t2",
    ]
    assert next(texts(row)[0] for row in rows(shown(watch, "tenants", q="T777"), "Tenants")) == "t7779"
    after = [texts(row)[0] for row in rows(shown(watch, "tenants", after=names[-1]), "Tenants")]
    assert len({*names, *after}) == 50
    one = shown(watch, "tenants", tenant="../a b?c=<script>")
    assert "/page/events?tenant=..%2Fa+b%3Fc%3D%3Cscript%3E" in one
    assert "script" not in Reader(one).tags
    assert "not among the records read" in shown(watch, "tenants", tenant="none")
    assert "(events without a tenant)" in shown(watch, "tenants", tenant="")


def test_tenants_are_bounded_and_the_newest_are_kept(watch, monkeypatch):
    monkeypatch.setattr("streamnb.serving.recent_records._TENANTS", 3)
    for name in "abcab":
        watch._add_tenant(record(TENANT | {"tenant": name}))
    watch._add_tenant(record(TENANT | {"tenant": "d"}))
    assert list(watch.tenants) == ["a", "b", "d"]


def some_predictions(watch, n):
    for i in range(n):
        one = prediction(id_=f"e{i}", label=("ham", "spam")[i % 2])
        decision = (None, "spam", "none")[i % 3]
        watch._add_prediction(
            record(one | {"probability": 0.4 + 0.5 * (i % 2), "decision": decision, "truth": None})
        )


def listed(made):
    return re.findall(r'<li data-event><a href="[^"]+" class="id">([^<]+)<', made)


def test_predictions_have_pages_that_stand_still_while_more_come(watch):
    some_predictions(watch, 130)
    made, seen = shown(watch, "events"), []
    while True:
        seen += listed(made)
        older = re.search(r'href="/page/events\?after=(\d+)">Older', made)
        if older is None:
            break
        some_predictions(watch, 3)
        made = shown(watch, "events", after=older[1])
    assert seen == [f"e{i}" for i in range(129, -1, -1)]
    for odd in ("-1", "x", "9" * 30, "0"):
        assert shown(watch, "events", after=odd)


def test_predictions_are_filtered_by_class_confidence_decision_source_and_label(watch):
    some_predictions(watch, 12)
    watch._add_label(record({"id": "e3", "label": "ham", "source": "ann"}))
    watch._add_label(record({"id": "e5", "label": "spam", "source": "bob"}))

    def ids(**asked):
        return listed(shown(watch, "events", **asked))

    assert ids(**{"class": "spam"}) == ["e11", "e9", "e7", "e5", "e3", "e1"]
    assert ids(sure="0.5") == ["e10", "e8", "e6", "e4", "e2", "e0"]
    assert ids(decision="none") == ["e9", "e6", "e3", "e0"]
    assert ids(decision="=none") == ["e11", "e8", "e5", "e2"]  # a class of this name
    assert ids(source="ann") == ["e3"]
    assert ids(wrong="1") == ["e3"]
    assert ids(**{"class": "spam", "decision": "none", "q": "9"}) == ["e9"]
    assert ids(q=EVIL, sure="odd") == []
    made = shown(watch, "events", q="e3") + shown(watch, "events", q="e5")
    assert re.findall(r'class="tag (said \w+)"', made) == ["said warn", "said good"]


def test_predictions_are_found_by_a_text_or_tenant_of_their_events(watch, monkeypatch):
    some_predictions(watch, 5)
    asked = []
    monkeypatch.setattr(
        watch.events, "matching", lambda *given: asked.append(given) or frozenset({"e1", "e4"})
    )
    assert listed(shown(watch, "events", text="cash")) == ["e4", "e1"]
    assert listed(shown(watch, "events", tenant="")) == ["e4", "e1"]
    assert asked == [("cash", None), ("", "")]
    monkeypatch.setattr(watch.events, "matching", lambda *_: None)
    assert "does not answer" in shown(watch, "events", text="cash")
