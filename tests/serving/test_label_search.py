"""The labels of one event are found in the whole topic, whatever the newest records are."""

from __future__ import annotations

import json
import threading
from contextlib import closing

import pytest

from streamnb import config as configuration
from streamnb.engine.ports import NewRecord
from streamnb.event_logs.sqlite.sqlite_log import SqliteLog
from streamnb.runtime import context
from streamnb.serving import label_search
from streamnb.serving.label_search import LabelSearch
from streamnb.serving.live_views import PageViews
from streamnb.serving.recent_records import RecentRecords
from tests.serving.test_drift_windows import on_broker
from tests.serving.test_live_page import NoModel, prediction, record


@pytest.fixture(autouse=True)
def patience(monkeypatch):
    """Each answer waits for the end of its step."""
    monkeypatch.setattr(label_search, "_ANSWER_SECONDS", 60.0)


@pytest.fixture
def log(tmp_path):
    with closing(SqliteLog(tmp_path / "log.db")) as made:
        made.create_topic("labels", 2)
        made.create_topic("events", 1)
        made.config = configuration.load(
            None, {}, [f"log.url=sqlite:///{tmp_path / 'log.db'}", "topics.labels=labels"]
        )
        yield made


def write(log, *records):
    log.append([NewRecord("labels", one.get("id", "").encode(), json.dumps(one).encode()) for one in records])


def search(log, event_id, most=100):
    with closing(LabelSearch(log.config)) as searching:
        for _ in range(most):
            found = searching.find(event_id)
            if found.share == 1.0:
                return found
    raise AssertionError(found.share)


def others(n):
    return [{"id": f"other {i}", "label": "ham"} for i in range(n)]


def test_the_label_in_force_is_found_behind_thousands_of_others(log):
    write(log, {"id": "m1", "label": "spam", "source": "ann"}, *others(5000))
    write(log, {"id": "m1", "label": "ham", "source": "bob"}, {"id": "m2", "label": "spam"})
    found = search(log, "m1")
    assert found.is_whole
    assert found.labels.label("m1", None) == "ham"
    assert found.labels.own("m1", "ann") == "spam"
    assert not found.labels.mentions("m2")
    assert not search(log, "m3").labels.mentions("m3")


@pytest.mark.broker
@pytest.mark.parametrize("client", ["kafka-python", "librdkafka"])
def test_the_label_in_force_is_found_on_a_broker(broker, client):
    config = on_broker(broker.address, client, labels=2)
    with closing(context.open_log(config)) as log:
        spam = NewRecord(config.topics.labels, b"m1", b'{"id": "m1", "label": "spam"}')
        log.append([spam, *[NewRecord(config.topics.labels, b"%d" % i, b'{"id": "x"}') for i in range(2500)]])
        log.append([spam._replace(value=b'{"id": "m1", "label": "ham"}')])
        log.config = config
        found = search(log, "m1")
        assert (found.labels.label("m1", None), found.is_whole) == ("ham", True)
        assert not search(log, "m2").labels.mentions("m2")


def test_a_search_continues_where_it_ended_and_takes_labels_that_arrive(log, monkeypatch):
    monkeypatch.setattr(label_search, "_AT_ONCE", 100)
    monkeypatch.setattr(label_search, "_STEP_SECONDS", 0.0)
    write(log, *others(500), {"id": "m1", "label": "spam"})
    with closing(LabelSearch(log.config)) as searching:
        assert searching.find("m1").share == 0.0
        monkeypatch.setattr(label_search, "_STEP_SECONDS", 5.0)
        assert searching.find("m1").labels.label("m1", None) == "spam"
        write(log, {"id": "m1", "label": "ham"})
        assert searching.find("m1").labels.label("m1", None) == "ham"


def test_requests_do_not_wait_for_a_long_search_and_do_not_add_up(log, monkeypatch):
    monkeypatch.setattr(label_search, "_AT_ONCE", 1)
    write(log, {"id": "m1", "label": "spam"}, {"id": "m1", "label": "ham"})
    steps, waits, goes_on = [], threading.Event(), threading.Event()

    class SlowSearch(LabelSearch):
        def _find(self, *search):
            steps.append(search)
            return super()._find(*search)

        def _read(self, log, search, *place):
            if search.labels.mentions("m1"):
                waits.set()
                assert goes_on.wait(60.0)
            return super()._read(log, search, *place)

    with closing(SlowSearch(log.config)) as searching:
        monkeypatch.setattr(label_search, "_ANSWER_SECONDS", 0.01)
        searching.find("m1")
        assert waits.wait(60.0)
        for _ in range(3):
            found = searching.find("m1")
            assert found.share < 1.0
            assert not found.labels.mentions("m1")  # a later record may change the label
        monkeypatch.setattr(label_search, "_ANSWER_SECONDS", 60.0)
        goes_on.set()
        assert searching.find("m1").labels.label("m1", None) == "ham"
        assert searching.find("m1").share == 1.0
        n_whole = len(steps)
        goes_on.clear()
        write(log, {"id": "m1", "label": "eggs"})
        monkeypatch.setattr(label_search, "_ANSWER_SECONDS", 0.01)
        assert searching.find("m1").share < 1.0
        goes_on.set()
    assert n_whole <= 3


def test_a_source_that_was_withdrawn_and_records_of_other_programs_count_as_for_the_learner(log):
    write(log, {"id": "m1", "label": "spam", "source": "ann"})
    log.append(
        [
            NewRecord("labels", None, raw)
            for raw in (b"\xff", b'{"id": 7}', b"[]", b'{"withdraw": true, "source": "ann"}')
        ]
    )
    found = search(log, "m1")
    assert found.labels.label("m1", None) is None


def test_the_page_of_an_event_looks_its_label_up_and_says_no_label_only_if_it_has_none(log):
    write(log, {"id": "m1", "label": "spam"}, *others(100))
    watch = RecentRecords(log.config, print)
    watch.is_loading, watch.problem, watch._reads_all_labels = False, "", False
    for id_ in ("m1", "m2"):
        watch._add_prediction(record(prediction(id_=id_, label="ham") | {"truth": None}))
    page = PageViews(watch, NoModel(), "secret", is_writable=True)
    with closing(watch.label_search):
        assert "said: <bdi>spam</bdi>" in page.live("events", {"id": "m1"})
        assert "no label" in page.live("events", {"id": "m2"})
        assert page.live("events", {}).count("label not known here") >= 2
