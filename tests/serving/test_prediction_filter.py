"""Pages of filtered predictions: no block of predictions is passed over that has one to show."""

from __future__ import annotations

import html
import random
import re

import pytest

from streamnb import config as configuration
from streamnb.serving import recent_records
from streamnb.serving.live_views import PageViews
from streamnb.serving.prediction_filter import PredictionBlocks, PredictionFilter
from streamnb.serving.recent_records import RecentRecords
from streamnb.serving.review_queue import QUEUES
from tests.serving.test_live_page import NoModel, prediction, record

KEPT = 40


@pytest.fixture
def watch(tmp_path, monkeypatch):
    """The newest predictions of a stream, in small blocks."""
    monkeypatch.setattr(PredictionBlocks, "SIZE", 7)
    monkeypatch.setattr(recent_records, "_PREDICTIONS", KEPT)
    return RecentRecords(configuration.load(None, {}, [f"log.url=sqlite:///{tmp_path}/log.db"]), print)


@pytest.mark.parametrize("seed", range(20))
def test_pages_show_exactly_what_a_filter_admits_newest_first(watch, seed):
    rng = random.Random(seed)
    ids: list[tuple[str, str]] = []
    for _ in range(rng.randrange(150)):
        ids.append(
            (rng.choice(["a", "b", "c\n", "dd"]) + str(rng.randrange(9)), rng.choice(["spam", "ham", "rare"]))
        )
        watch._add_prediction(record(prediction(id_=ids[-1][0], label=ids[-1][1])))
    for search in ("", "a1", "c\n", "\n", "d", "nowhere"):
        for label in (None, "rare", "none"):
            wanted, found, before = PredictionFilter(search, label), [], None
            for _ in range(200):
                page = watch.prediction_page(wanted, before, 3)
                found += [(one.id, one.label) for one in page.rows]
                if (before := page.after) is None:
                    break
            kept = ids[-KEPT:][::-1]
            assert found == [one for one in kept if search in one[0] and label in {None, one[1]}], (
                search,
                label,
            )


def test_a_search_that_finds_nothing_reads_only_the_open_block(watch, monkeypatch):
    for n in range(KEPT):
        watch._add_prediction(record(prediction(id_=f"m{n}")))
    read, admits = [], PredictionFilter.admits
    monkeypatch.setattr(PredictionFilter, "admits", lambda *given: bool(read.append(1)) or admits(*given))
    assert watch.prediction_page(PredictionFilter("nowhere"), None, 3).rows == []
    assert len(read) == KEPT % PredictionBlocks.SIZE


def test_a_search_reports_how_far_it_went_and_each_step_goes_as_far(watch, monkeypatch):
    monkeypatch.setattr(recent_records, "_MOST_FILTERED", 10)
    views = PageViews(watch, NoModel(), "secret", is_writable=True)
    for n in range(KEPT):
        watch._add_prediction(record(prediction(id_=f"m{n}")))
    asked, told = {"q": "m3"}, []
    while True:
        made = views.live("events", asked)
        told += re.findall(r"among the newest \d+ of 40|The newest \d+ were searched|among those read", made)
        found = re.findall(r'class="id">(m\d+)<', made)
        further = re.search(r'href="/page/events\?([^"]+)">Search further', made)
        if further is None:
            break
        assert found == ([f"m{n}" for n in range(39, 29, -1)] if len(told) == 1 else [])
        asked = dict(one.split("=") for one in html.unescape(further[1]).split("&"))
    assert told == ["The newest 10 were searched", "among the newest 20 of 40", "among the newest 30 of 40"]
    assert found == ["m3"]
    assert "No such prediction among those read." in views.live("events", {"q": "m40", "after": "10"})


@pytest.mark.parametrize("queue", QUEUES)
@pytest.mark.parametrize("n_kept", [20, 40])
def test_a_queue_has_the_newest_prediction_of_each_event_in_its_order(watch, monkeypatch, queue, n_kept):
    """Also when the bytes of few predictions are kept, and of other programs."""
    rng, newest = random.Random(1), []
    size = len(record(prediction()).value)
    monkeypatch.setattr(recent_records, "_PREDICTION_BYTES", n_kept * size)
    for n in range(200):
        if rng.random() < 0.1:
            watch._add_prediction(record({"id": f"m{n % 30}", "label": "ham", "probability": "odd"}))
        one = prediction(id_=f"m{rng.randrange(30)}", label=rng.choice(["spam", "ham"]))
        one |= {"probability": rng.random(), "unseen": rng.choice([0.0, rng.random()]), "ts": 1.79e9 + n}
        one |= {"truth": rng.choice([None, "ham"])} | ({"decision": None} if n % 2 else {})
        watch._add_prediction(record(one))
        newest.append(one)
    newest = {one["id"]: one for one in newest[-sum(b'"odd"' not in each.raw for each in watch._seen) :]}
    order = {"unsure": lambda one: one["probability"], "new": lambda one: -one["unseen"]}
    is_in = {
        "unsure": lambda one: one["truth"] is None,
        "wrong": lambda one: one["truth"] not in {None, one["label"]},
        "undecided": lambda one: "decision" in one,
        "new": lambda one: one["truth"] is None and one["unseen"] > 0.0,
        "disagree": lambda _: False,
        "newest": lambda _: True,
    }
    wanted = sorted(filter(is_in[queue], newest.values()), key=order.get(queue, lambda one: -one["ts"]))
    found = watch.review_queue.best(queue, 7)
    assert [(one.id, one.ts) for one in found] == [(one["id"], one["ts"]) for one in wanted[:7]]
    assert found or queue == "disagree"


def test_a_queue_decodes_only_the_predictions_that_it_returns(watch, monkeypatch):
    for n in range(KEPT):
        watch._add_prediction(record(prediction(id_=f"m{n}")))
    monkeypatch.setattr("streamnb.serving.review_queue.queue_fields_of", None)
    assert len(watch.review_queue.best("newest", 3)) == 3
