"""Reports over ranges of time: thinned, bounded, in order whatever clocks and rollbacks do."""

from __future__ import annotations

import random
import time

import msgspec
import pytest

from streamnb.engine.ports import Partition, Record
from streamnb.errors import OutOfRange
from streamnb.events import MetricsReport
from streamnb.serving.report_history import RANGES, ReportHistory, sampled_records
from tests.serving.test_live_page import report as raw_report

LIKE = msgspec.convert(raw_report(), MetricsReport)


def report(events, ts):
    return msgspec.structs.replace(LIKE, events=events, ts=ts)


def events_of(points):
    return [one.report.events for one in points]


def test_ranges_are_bounded_and_reach_back_as_far_as_they_name():
    history, now = ReportHistory(), 1.79e9
    for n in range(30_000):  # a report each half minute, for ten days
        history.add(report(n + 1, now - 30.0 * (29_999 - n)))
    for name, seconds in RANGES.items():
        points = history.select(name, now).points
        assert len(points) <= 801
        assert events_of(points) == sorted(set(events_of(points)))
        assert points[-1].report.events == 30_000
        if seconds is not None:
            reach = now - points[0].report.ts
            assert seconds - max(31.0, seconds / 200) <= reach <= seconds
    assert history.select("all", now).points[0].report.events == 1


def test_a_rollback_takes_points_out_of_every_range():
    history = ReportHistory()
    for n in range(1, 101):
        history.add(report(n, 1.79e9 + 10 * n))
    history.add(report(50, 1.79e9 + 2000))
    for name in RANGES:
        assert max(events_of(history.all_points(name))) == 50
        assert max(one.report.ts for one in history.all_points(name)) == 1.79e9 + 2000


@pytest.mark.parametrize("jump", [3600.0, -3600.0, 1e15, -1e15])
def test_times_rise_whatever_the_clock_does_and_what_is_left_out_is_counted(jump):
    history, now = ReportHistory(), 1.79e9
    for n in range(1, 301):
        history.add(report(n, now + n + (jump if 100 < n <= 150 else 0.0)))
    for name in RANGES:
        selected = history.select(name, now + 301)
        times = [one.report.ts for one in selected.points]
        assert times == sorted(times)
        assert selected.points[-1].report.events == 300
        everything = history.all_points(name)
        assert selected.n_turned_back >= len(everything) - len(selected.points) - (name != "all") * 300
    assert history.select("all", now + 301).n_turned_back > 0


def test_times_that_no_clock_shows_cost_no_endless_work():
    history, dice = ReportHistory(), random.Random(1)
    for n in range(5000):
        history.add(report(n, dice.choice([-1e300, 1e300, 0.0, 1.79e9])))
    assert all(len(history.all_points(name)) <= 800 for name in RANGES)


class Topic:
    """A topic of reports, one a second, that counts what is read of it."""

    def __init__(self, n, first=0, now=1.79e9):
        self.n, self.first, self.now, self.reads = n, first, now, 0

    def offsets(self, _):
        return self.first, self.n

    def read(self, partition, offset, limit):
        assert limit == 1
        self.reads += 1
        if not self.first <= offset <= self.n:
            raise OutOfRange("gone")
        return [Record(partition, offset, None, b"", self.now - (self.n - offset))][: self.n - offset]


@pytest.mark.parametrize("n", [0, 1, 50, 10_000, 10_000_000])
def test_older_reports_are_sampled_in_each_range_with_as_many_reads_for_long_topics(n):
    topic = Topic(n)
    found = [one for one in sampled_records(topic, Partition("metrics", 0), n, topic.now) if one is not None]
    offsets = [one.offset for one in found]
    assert len(offsets) == len(set(offsets))
    assert topic.reads <= 5 * (100 + 25)
    if n <= 50:
        assert sorted(offsets) == list(range(n))
        return
    for seconds in RANGES.values():
        low = max(0, n - (seconds or n))
        inside = [one for one in offsets if one >= low]
        assert len(inside) >= min(95, (n - low) // 2)
        assert min(inside) <= low + (n - low) / 25 + 1


def test_retention_that_removes_records_meanwhile_stops_nothing():
    topic = Topic(10_000)
    found = []
    for one in sampled_records(topic, Partition("metrics", 0), 10_000, topic.now):
        topic.first = 5000
        found += [] if one is None else [one]
    assert found
    assert min(one.offset for one in found[1:]) >= 5000


def test_earlier_reports_fill_what_lies_before_and_nothing_else():
    history, now = ReportHistory(), time.time()
    for n in range(101, 201):
        history.add(report(n, now - 200 + n))
    history.add_earlier([report(n, now - 200 + n) for n in (90, 10, 150, 50)])
    assert events_of(history.all_points("all"))[:4] == [10, 50, 90, 101]
    assert events_of(history.all_points("all"))[-1] == 200


def test_tallies_by_class_are_those_of_the_confusion_and_need_whole_names():
    history = ReportHistory()
    history.add(LIKE)
    (point,) = history.all_points("all")
    assert point.classes.labels == LIKE.labels
    assert point.classes.counts.tolist() == [[46, 44], [46, 43], [40, 38]]
    history.add(msgspec.structs.replace(LIKE, events=200, labels=(), confusion=(), class_rates=()))
    assert history.all_points("all")[-1].classes is None
