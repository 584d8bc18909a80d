"""Pages of filtered predictions: no block of predictions is passed over that has one to show."""

from __future__ import annotations

import random

import pytest

from streamnb import config as configuration
from streamnb.serving import recent_records
from streamnb.serving.prediction_filter import PredictionBlocks, PredictionFilter
from streamnb.serving.recent_records import RecentRecords
from tests.serving.test_live_page import prediction, record

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
