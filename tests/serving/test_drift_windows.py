"""Windows of events whose attributes are compared: where they lie, and what a page shows of them."""

from __future__ import annotations

import json
import random
import sqlite3
import time
from contextlib import closing

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka import KafkaAdminClient
from kafka.admin import NewTopic

from streamnb import config as configuration
from streamnb.engine.ports import NewRecord
from streamnb.event_logs.sqlite.sqlite_log import SqliteLog
from streamnb.runtime import context
from streamnb.serving.drift_windows import LABEL, WINDOW_EVENTS, DriftWindows, window_starts
from streamnb.serving.recent_records import RecentRecords
from tests.brokers.numbered import NUMBERS
from tests.serving.test_work_views import rows, shown, texts


@given(st.integers(0, 10**9), st.integers(0, 10**8), st.integers(1, 1000))
def test_windows_lie_at_multiples_of_their_width_and_there_are_enough_of_them(start, span, size):
    starts = window_starts(start, start + span, size)
    assert len(starts) <= 17
    assert all(at >= start and at + size <= start + span and at % starts.step == 0 for at in starts)
    if span >= 16 * size:
        assert len(starts) >= 7


@given(st.integers(0, 10**6), st.integers(1, 500))
def test_windows_stay_while_events_arrive_or_merge_by_two(end, size):
    before, after = window_starts(0, end, size), window_starts(0, end + 1, size)
    assert set(before) <= set(after) or (after.step == 2 * before.step and set(after) <= set(before) | {end})


def event(n, rng, *, drifts):
    words = rng.choices(["lunch", "noon", "call", "home", "later", "ok"], k=4)
    words += ["prize"] * (rng.random() < (0.5 if drifts else 0.05))
    return {
        "id": f"m{n}",
        "text": " ".join(words),
        "label": rng.choice(["spam", "ham"]),
        "features": {"size": rng.gauss(0, 1), "colour": rng.choice(["red", "blue"]), "urgent": n % 2 == 0},
    }


def fill(folder, n, partitions=1, drifts_from=None):
    """A configuration whose log holds `n` events."""
    rng = random.Random(1)
    config = configuration.load(None, {}, [f"log.url=sqlite:///{folder / 'log.db'}"])
    with closing(SqliteLog(folder / "log.db")) as log:
        log.create_topic("events", partitions)
        made = [event(i, rng, drifts=drifts_from is not None and i >= drifts_from) for i in range(n)]
        log.append([NewRecord("events", None, json.dumps(one).encode()) for one in made])
    return config


def table(config, range_="all"):
    with closing(DriftWindows(config)) as windows:
        return windows.table(range_)


def drifting(found):
    return {name for name, changes in found.drift.changes.items() if changes[-1].p <= found.drift.level}


def on_broker(address, client, **topics):
    """A configuration with new topics on a broker."""
    names = {topic: f"drift{next(NUMBERS)}-{topic}" for topic in topics}
    with KafkaAdminClient(bootstrap_servers=address) as admin:
        admin.create_topics([NewTopic(name, topics[topic], 1) for topic, name in names.items()])
        admin.wait_for_topics([*names.values()])
    named = [f"topics.{topic}={name}" for topic, name in names.items()]
    return configuration.load(None, {}, [f"log.url=kafka://{address}", f"log.client={client}", *named])


@pytest.mark.broker
@pytest.mark.parametrize("client", ["kafka-python", "librdkafka"])
def test_a_planted_drift_is_found_on_a_broker_by_every_client_alike(broker, client, tmp_path):
    """The table equals that of the same events in an embedded log."""
    rng = random.Random(1)
    made = [json.dumps(event(i, rng, drifts=i >= 2000)).encode() for i in range(3000)]
    config = on_broker(broker.address, client, events=1)
    with closing(context.open_log(config)) as log:
        for i in range(0, len(made), 70):  # a batch each
            log.append([NewRecord(config.topics.events[0], None, value) for value in made[i : i + 70]])
    found = table(config)
    embedded = table(fill(tmp_path, 3000, drifts_from=2000))
    assert drifting(found) == {"text"}
    assert found.drift.changes == embedded.drift.changes


def test_a_sample_is_whole_though_a_log_answers_in_parts(tmp_path, monkeypatch):
    config = fill(tmp_path, 3000, drifts_from=2000)
    whole, read = table(config), SqliteLog.read
    monkeypatch.setattr(SqliteLog, "read", lambda log, place, at, limit: read(log, place, at, min(limit, 37)))
    assert table(config).drift.changes == whole.drift.changes


@pytest.mark.parametrize("partitions", [1, 3])
def test_a_planted_drift_is_found_in_the_log_and_nothing_else(tmp_path, partitions):
    found = table(fill(tmp_path, 6000, partitions, drifts_from=4000))
    assert drifting(found) == {"text"}
    last = found.drift.changes["text"][-1]
    assert last.value == "prize"
    assert last.before == pytest.approx(0.05, abs=0.03)  # the reference ends where the tested windows begin
    assert set(found.drift.changes) == {"text", "size", "colour", "urgent", LABEL}
    assert found.n_reference >= 3


def test_events_without_drift_show_none_and_too_few_have_no_table(tmp_path):
    assert drifting(table(fill(tmp_path, 5000))) == set()
    (tmp_path / "few").mkdir()
    assert table(fill(tmp_path / "few", WINDOW_EVENTS)).drift is None


def test_a_range_of_time_begins_where_its_records_do(tmp_path):
    config = fill(tmp_path, 3000)
    with closing(sqlite3.connect(tmp_path / "log.db")) as db, db:
        db.execute("UPDATE records SET timestamp = ? WHERE place % 4096 < 1500", (time.time() - 1e5,))
    assert (table(config, "24h").n_windows, table(config, "all").n_windows) == (3, 6)


def test_the_alerts_view_names_what_drifts_with_its_chance(tmp_path):
    config = fill(tmp_path, 6000, drifts_from=4000)
    watch = RecentRecords(config, print)
    watch.is_loading, watch.problem = False, ""
    with closing(watch.attribute_drift):
        made = shown(watch, "alerts", range="all")
    first, *others = (texts(row) for row in rows(made, "Drift by attribute, all"))
    assert first[:2] == ["text", "drifts"]
    assert float(first[2]) < 1e-6
    assert first[4].startswith("prize in ")
    assert {one[1] for one in others} == {"as before"}
    assert "1 of 5 attributes drift" in made
    assert "beyond chance in window" in made


def test_a_log_that_does_not_answer_leaves_the_other_parts_of_the_view(tmp_path):
    watch = RecentRecords(configuration.load(None, {}, [f"log.url=sqlite:///{tmp_path}/none.db"]), print)
    made = shown(watch, "alerts")
    assert "drift by attribute is not known now" in made
    assert "Alerts, newest first" in made
