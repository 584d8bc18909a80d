"""Cursors, gaps and memory of a feed, on an embedded log."""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from contextlib import closing

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamnb import config as configuration
from streamnb.engine.ports import NewRecord, Partition
from streamnb.errors import ConfigError
from streamnb.event_logs.sqlite.sqlite_log import SqliteLog
from streamnb.serving import record_feed
from streamnb.serving.record_feed import Cursor, Gap, RecordFeed, caught_up
from tests.support.topics_of_logs import add_partitions, delete_topic, trim

TOPIC = "predictions"


@pytest.fixture
def log(tmp_path):
    with closing(SqliteLog(tmp_path / "log.db")) as made:
        made.create_topic(TOPIC, 2)
        yield made


@pytest.fixture
def make_feed(tmp_path):
    config = configuration.load(None, {}, [f"log.url=sqlite:///{tmp_path / 'log.db'}"])
    made = []

    def make():
        made.append(RecordFeed(config, TOPIC, lambda _: None))
        return made[-1]

    yield make
    for feed in made:
        feed.close()


def append(log, numbers):
    log.append([NewRecord(TOPIC, b"%d" % n, b"%d" % n) for n in numbers])


async def all_after(feed, cursor, at_once=7):
    """Every record after a cursor, with the gaps, as a client collects them."""
    records, gaps = [], []
    while True:
        page = await feed.after(cursor, at_once)
        assert len(page.records) <= at_once
        records += page.records
        gaps += page.gaps
        if page.next == cursor:
            return records, gaps, cursor
        cursor = page.next


def in_order(records):
    """The offsets of each partition."""
    found = defaultdict(list)
    for record in records:
        found[record.partition.number].append(record.offset)
    return found


OFFSETS = st.integers(0, 50)


@given(
    st.lists(OFFSETS, min_size=1, max_size=5),
    st.lists(st.tuples(OFFSETS, OFFSETS), min_size=1, max_size=5),
    st.booleans(),
)
def test_a_cursor_moves_to_records_that_exist_and_each_move_is_a_gap(offsets, extents, is_same):
    ranges = {
        Partition(TOPIC, n): (earliest, earliest + length) for n, (earliest, length) in enumerate(extents)
    }
    cursor = Cursor("id", tuple(offsets))
    assert Cursor.parse(str(cursor)) == cursor
    moved, gaps = caught_up(cursor, "id" if is_same else "another", ranges)
    assert len(moved.offsets) == len(extents)
    by_partition = {gap.partition: gap for gap in gaps}
    too_many = {n for n, gap in by_partition.items() if n >= len(extents) and gap.reason == "lost"}
    assert too_many == (set(range(len(extents), len(offsets))) if is_same else set())
    for (partition, (earliest, end)), at in zip(ranges.items(), moved.offsets, strict=True):
        assert earliest <= at <= end
        gap = by_partition.get(partition.number)
        known = is_same and partition.number < len(offsets) and earliest <= offsets[partition.number] <= end
        assert (gap is None) == known
        assert at == (offsets[partition.number] if known else gap.continues)
    assert caught_up(moved, moved.topic_id, ranges) == (moved, [])


@pytest.mark.parametrize(
    "text",
    [
        "",
        "id",
        "id:",
        ":1",
        "id:1,",
        "id:-1",
        "id:x",
        "i:d:1",
        "id:1 ",
        "id:" + "9" * 16,
        "i\nd:1",
        "id:\u0661",
    ],
)
def test_a_text_that_is_no_cursor_is_refused(text):
    with pytest.raises(ConfigError, match="is not a cursor"):
        Cursor.parse(text)


def test_a_reader_sees_every_record_once_in_order_from_memory_and_from_the_log(log, make_feed, monkeypatch):
    monkeypatch.setattr(record_feed, "_KEPT_BYTES", 300)
    monkeypatch.setattr(record_feed, "_KEPT_AT_START", 5)
    append(log, range(100))
    feed = make_feed()

    async def work():
        start = Cursor((await feed.end()).topic_id, (0, 0))
        records, gaps, end = await all_after(feed, start)
        append(log, range(100, 400))
        more, more_gaps, last = await all_after(feed, end)
        deadline = time.monotonic() + 30.0
        while len(more) < 300:
            assert time.monotonic() < deadline, f"{len(more)} of 300 records came"
            await feed.wait(last, 5.0)
            some, some_gaps, last = await all_after(feed, last)
            more += some
            more_gaps += some_gaps
        assert (gaps, more_gaps) == ([], [])
        found = in_order([*records, *more])
        assert sum(map(len, found.values())) == 400
        assert all(offsets == list(range(len(offsets))) for offsets in found.values())
        assert feed._bytes <= 300
        assert sum(len(kept.records) for kept in feed._kept) == len(feed._order)

    asyncio.run(work())


def test_the_newest_records_and_the_newest_with_a_start_are_found_in_memory(log, make_feed):
    append(log, range(100))
    feed = make_feed()

    async def work():
        page = await feed.newest(10)
        ends = [kept.records[-1] for kept in feed._kept]  # one timestamp: the last partition's come last
        assert len(page.records) == 10
        assert page.records[-1] == ends[-1]
        assert page.next == await feed.end()
        append(log, [77, 5])
        ends = tuple(end for _, end in log.offset_ranges(TOPIC).values())
        while (end := await feed.end()).offsets != ends:
            await feed.wait(end, 10.0)
        assert (await feed.find(b"7", 200)).value == b"77"
        assert (await feed.find(b"5", 200)).value == b"5"
        assert (await feed.find(b"98", 200)).value == b"98"
        assert await feed.find(b"0", 20) is None
        assert await feed.find(b"x", 200) is None

    asyncio.run(work())


def test_a_reader_that_waits_wakes_at_news_and_not_before(log, make_feed):
    feed = make_feed()

    async def work():
        end = await feed.end()
        waiting = asyncio.ensure_future(feed.wait(end, 30.0))
        await asyncio.sleep(0.5)
        assert not waiting.done()
        append(log, [1])
        await asyncio.wait_for(waiting, 10.0)
        assert [record.value for record in (await feed.after(end, 10)).records] == [b"1"]
        await feed.wait(await feed.end(), 0.05)  # returns, because the time is over
        assert not feed._waiters

    asyncio.run(work())


def test_trimmed_recreated_and_widened_topics_are_gaps(log, make_feed, monkeypatch):
    monkeypatch.setattr(record_feed, "_PARTITION_SECONDS", 0.1)
    append(log, range(60))
    ends = [log.offsets(part)[1] for part in log.partitions(TOPIC)]
    trim(log, Partition(TOPIC, 0), 10)
    feed = make_feed()

    async def work():
        topic_id = (await feed.end()).topic_id
        records, gaps, end = await all_after(feed, Cursor(topic_id, (0, 3)))
        assert gaps == [Gap("retention", 0, 0, 10)]
        assert in_order(records) == {0: list(range(10, ends[0])), 1: list(range(3, ends[1]))}
        _, gaps, _ = await all_after(feed, Cursor(topic_id, (ends[0], ends[1] + 4)))
        assert gaps == [Gap("lost", 1, ends[1] + 4, ends[1])]
        add_partitions(log, TOPIC, 3)
        log.append([NewRecord(TOPIC, b"%d" % n, b"x") for n in range(40)])
        while len((await feed.end()).offsets) < 3:  # noqa: ASYNC110
            await asyncio.sleep(0.05)
        records, gaps, _ = await all_after(feed, end)
        assert gaps == [Gap("partitions", 2, 0, 0)]
        assert len(records) == 40
        delete_topic(log, TOPIC)
        log.create_topic(TOPIC, 1)
        append(log, [7])
        while (await feed.end()).topic_id == topic_id:  # noqa: ASYNC110
            await asyncio.sleep(0.05)
        records, gaps, _ = await all_after(feed, end)
        assert gaps == [Gap("recreated", 0, end.offsets[0], 0)]
        assert [record.value for record in records] == [b"7"]

    asyncio.run(work())
