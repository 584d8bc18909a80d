"""The table of docs/labels.md, row by row; and what stays as it was learned when the configuration changes."""

from __future__ import annotations

import json

import numpy as np
import pytest

from streamnb.engine.settings import Pruning
from streamnb.formats.event_schema import EventSchema
from tests.support.late import EVENTS, LABELS, Stream, counts_of, late_learner
from tests.support.service import digests

FOREVER, DAY = 1e9, 86400.0
AT_9 = {"ts": 9.0}


def taught(stream, **options):
    learner = late_learner(**{"window": FOREVER, "report_every": 10**6} | options)
    outputs = learner.process(stream.records, 1.0)
    return learner, [json.loads(output.value) for output in outputs if output.topic == "predictions"]


def classes(learner):
    return counts_of(learner.model)["classes"]


def changed(learner, **options):
    """It goes on under another configuration."""
    other = late_learner(**{"window": FOREVER, "report_every": 10**6} | options)
    learner.reconfigure(other.settings, other.model)


def one_event(*verdicts):
    stream = Stream(start=1000.0)
    stream.event("e", "w1 w2")
    for given in verdicts:
        stream.verdict("e", *given[:2], **(given[2] if len(given) > 2 else {}))
    return stream


@pytest.mark.parametrize(
    ("verdicts", "outcomes", "weights", "scored"),
    [
        ([("x", None)], {"first": 1}, {"x": 1.0}, 1),
        ([("x", None), ("x", None)], {"first": 1, "outranked": 1}, {"x": 1.0}, 1),
        ([("x", None, {"ts": 9.0})] * 2, {"first": 1, "repeated": 1}, {"x": 1.0}, 1),
        ([("x", "a", {"ts": 9.0}), ("y", "a", {"ts": 8.0})], {"first": 1, "repeated": 1}, {"x": 1.0}, 1),
        ([("x", "top"), ("y", "a")], {"first": 1, "outranked": 1}, {"x": 1.0}, 1),
        ([("x", "a"), ("y", "top")], {"first": 1, "changed": 1}, {"y": 1.0}, 1),
        ([("x", "a"), ("x", "top")], {"first": 1, "outranked": 1}, {"x": 1.0}, 1),
        ([("x", "a"), ("x", "a", {"weight": 3.0})], {"first": 1, "changed": 1}, {"x": 3.0}, 1),
        ([("x", "a"), (None, "a")], {"first": 1, "withdrawn": 1}, {}, 0),
        ([("x", "a"), (None, "b")], {"first": 1, "outranked": 1}, {"x": 1.0}, 1),
        ([("x", "a"), ("y", "b"), (None, "b")], {"first": 1, "changed": 2}, {"x": 1.0}, 1),
        ([("x", "a"), (None, "a"), ("y", "a")], {"first": 1, "withdrawn": 1, "changed": 1}, {"y": 1.0}, 1),
        ([("y", "a", AT_9), ("x", "a", AT_9)], {"first": 1, "changed": 1}, {"x": 1.0}, 1),
        ([("x", "a", AT_9), ("y", "a", AT_9)], {"first": 1, "changed": 1}, {"y": 1.0}, 1),
        ([("x", "a", AT_9), (None, "a", AT_9)], {"first": 1, "withdrawn": 1}, {}, 0),
        ([(None, "a", AT_9), ("x", "a", AT_9)], {"outranked": 1, "first": 1}, {"x": 1.0}, 1),
        ([("y", "a", AT_9), ("x", "a", AT_9), ("y", "a", AT_9)], {"first": 1, "changed": 2}, {"y": 1.0}, 1),
        ([("x", "a", {**AT_9, "weight": 3.0}), ("x", "a", AT_9)], {"first": 1, "changed": 1}, {"x": 1.0}, 1),
        ([(None, "a"), ("y", "b")], {"outranked": 1, "first": 1}, {"y": 1.0}, 1),
        ([("x", "a", {"weight": 0.0})], {"first": 1}, {}, 1),
        ([("x", "a"), ("y", "a", {"weight": 0.0})], {"first": 1, "changed": 1}, {}, 1),
    ],
)
def test_a_verdict_does_what_the_table_says(verdicts, outcomes, weights, scored):
    learner, _ = taught(one_event(*verdicts), ranks={"top": 3})
    assert {outcome: n for outcome, n in learner.late.outcomes.items() if n} == outcomes
    assert classes(learner) == weights
    assert learner.model.n_events == (1 if weights else 0)
    assert learner.late.scoring.scores.events == scored
    assert learner.late.by_source.total() == len(verdicts)
    assert sum(events for events, _, _ in learner.late.scoring.delays) == scored


@pytest.mark.parametrize("is_early", [False, True])
@pytest.mark.parametrize(
    ("said", "holds"),
    [
        ([("x", 1, 0), ("y", 0, 5)], "x"),  # the greater partition
        ([("x", 0, 0), ("y", 1, 5)], "y"),
        ([("x", 0, 0), ("x", 1, 5), ("y", 0, 6)], "x"),  # said again, further on
        ([("x", 0, 0), ("y", 0, 6), ("x", 1, 5)], "x"),
        ([("x", 1, 0), ("y", 0, 5), (None, 1, 1)], None),
    ],
)
def test_labels_of_one_time_count_by_partition_and_offset(said, holds, is_early):
    stream = Stream()
    for label, partition, offset in said:
        stream.verdict("e", label, ts=9.0, partition=partition)
        stream.records[-1] = stream.records[-1]._replace(offset=offset)
    labels = stream.records
    event = Stream()
    event.event("e", "w1")
    learner = late_learner(window=FOREVER, report_every=10**6)
    for record in [*labels, *event.records] if is_early else [*event.records, *labels]:
        learner.process([record], 1.0)
        copy, again = learner.copying(), late_learner(window=FOREVER, report_every=10**6)
        again.load(copy.parts(), copy.segments())  # the position is part of the state
        assert digests(again) == digests(learner)
        learner = again
    assert classes(learner) == ({holds: 1.0} if holds else {})


def test_a_label_of_a_time_far_ahead_is_refused_and_keeps_no_correction_from_its_event():
    stream = one_event(("x", "a"))
    now = stream.time
    stream.verdict("e", "y", "a", ts=now + 1.0 + DAY + 0.25)
    stream.verdict("e", "x", "b", ts=now + 2.0 + DAY)  # a day is forgiven
    stream.raw(LABELS, json.dumps({"withdraw": True, "source": "a", "ts": now + 9 * DAY}).encode())
    stream.verdict("e", "z", "c", ts=now + 4.0 + DAY)
    stream.verdict("e", "w", "a")
    learner = late_learner(window=FOREVER, report_every=10**6)
    letters = [dict(one.headers) for one in learner.process(stream.records, 1.0) if one.headers]
    assert [(one["reason"], one["path"], one["offset"]) for one in letters] == [
        (b"out-of-range", b"$.ts", b"1"),
        (b"out-of-range", b"$.ts", b"3"),
    ]
    assert letters[0]["remedy"] == (
        b"86400 s after the log recorded the label, more than a day; without ts, the log's own time counts; "
        b'if such times are intended: events.clock = "event"'
    )
    assert [one.label for one in learner.late.source_labels_of("e")] == ["z", "w", "x"]
    assert learner.late.outcomes["source_withdrawn"] == 0


@pytest.mark.parametrize(("clock", "recorded"), [("event", 1000.0), (None, 0.0), (None, 1.79e15)])
def test_a_label_is_not_refused_by_a_log_whose_time_does_not_count(clock, recorded):
    stream = Stream()
    stream.event("e", "w1", at=1000.0)
    stream.verdict("e", "x", ts=4e9, at=recorded)
    learner, _ = taught(stream, schema=EventSchema(clock=clock))
    assert (classes(learner), learner.dead_letters) == ({"x": 1.0}, 0)


def test_a_verdict_before_its_event_is_learned_after_the_prediction():
    stream = Stream()
    stream.verdict("e", "x")
    stream.event("e", "w1")
    learner, served = taught(stream)
    assert learner.late.outcomes == {"early": 1}
    assert (served[0]["label"], served[0]["truth"]) == (None, "x")
    assert (classes(learner), learner.late.scoring.scores.events) == ({"x": 1.0}, 1)


def test_a_verdict_waits_for_its_event_no_longer_than_an_event_for_its_label():
    stream = Stream()
    stream.verdict("e", "x", at=1000.0)
    stream.verdict("nobody", "x", at=1050.0)
    stream.event("f", at=1120.0)
    stream.event("g", at=1120.0)
    stream.event("e", "w1", at=1120.0)
    learner, _ = taught(stream, window=100.0)
    assert classes(learner) == {}
    stream.verdict("h", at=1160.0, label="x")
    stream.verdict("i", at=1160.0, label="x")
    learner, _ = taught(stream, window=100.0)
    assert learner.late.outcomes["unknown"] == 2  # nobody's, and the one that came too late for its event


def test_a_verdict_that_is_repeated_keeps_no_other_from_its_end():
    stream = Stream()
    for name, at in [("again", 1000.0), ("old", 1000.0), ("again", 1090.0), ("new", 1120.0), ("new", 1120.0)]:
        stream.verdict(name, "x", at=at)
    learner = late_learner(window=100.0)
    learner.process(stream.records, 1.0)
    assert [name for name in ("again", "old", "new") if learner.late.labels_before(name)] == ["again", "new"]


def test_a_verdict_without_an_event_is_told_as_it_was_said():
    """With its own weight, whatever its source counts: it may be said again. And so is one of a fifth source."""
    stream = Stream()
    for n, source in enumerate(["bot", "none", "plain", "d", "e"]):
        stream.verdict("nobody", "x", source, weight=3.0, ts=9.0 + n, at=1000.0)
    stream.verdict("late", "x", at=1200.0)
    stream.verdict("late", "x", at=1200.0)
    learner = late_learner(window=100.0, weights={"bot": 0.3, "none": 0.0})
    made = learner.process(stream.records, 1.0)
    letters = [(dict(one.headers)["reason"], json.loads(one.value)) for one in made if one.headers]
    assert [(reason, said["source"], said["weight"]) for reason, said in letters] == [
        (b"too-many-sources", "e", 3.0),
        (b"unknown-event", "bot", pytest.approx(3.0)),
        (b"unknown-event", "none", 1.0),  # which its source makes nothing of
        (b"unknown-event", "plain", 3.0),
        (b"unknown-event", "d", 3.0),
    ]


def odd_times():
    """As of a producer that takes microseconds for milliseconds, for a while."""
    stream = Stream()
    stream.event("e", "w1", at=1000.0)
    for number in range(3):
        stream.event(f"odd{number}", "w2", at=1.79e15 + number)
    stream.verdict("odd1", "y", at=1.79e15)
    stream.event("f", "w1", at=1050.0)
    stream.event("g", "w1", at=1060.0)
    stream.verdict("e", "x", at=1070.0)
    stream.verdict("odd1", "z", at=1.79e15 + 9)
    stream.verdict("odd1", None, at=1071.0)
    stream.verdict("odd2", "x", at=1.79e15 + 10)
    return stream


def test_a_record_with_a_time_that_cannot_be_meant_is_of_that_of_the_one_before():
    """It ends no wait, waits itself, and is not the last word for good."""
    learner, _ = taught(odd_times(), window=100.0)
    assert (classes(learner), learner.late.pending.horizon.earliest) == ({"x": 2.0}, 971.0)
    assert learner.late.outcomes == {"first": 3, "changed": 1, "withdrawn": 1}
    assert [said.time for said in learner.late.source_labels_of("odd2")] == [1071.0]


def test_times_that_all_cannot_be_meant_let_all_wait():
    stream = Stream()
    for number in range(9):
        stream.event(f"e{number}", "w1", at=1.79e15 + 1e9 * number)
    for number in range(9):
        stream.verdict(f"e{number}", "x", at=1.8e15)
    learner, _ = taught(stream, window=100.0)
    assert classes(learner) == {"x": 9.0}


def test_what_waits_is_decided_at_each_record_and_not_at_each_commit():
    stream = Stream()
    stream.event("old", "w1", at=1000.0)
    stream.event("new", "w1", at=1090.0)
    for name in ("nobody", "no one", "old", "new"):
        stream.verdict(name, "x", at=1150.0)
    learner, _ = taught(stream, window=100.0)
    assert classes(learner) == {"x": 1.0}
    parts = late_learner(window=100.0, report_every=10**6)
    for record in stream.records:
        parts.process([record], 1.0)
    assert digests(parts) == digests(learner)


def withdrawal(stream, **more):
    stream.raw(LABELS, json.dumps({"withdraw": True, "source": "bot", **more}).encode())


def worked(learner):
    while learner.has_work:
        learner.process([], 1.0, work=1)
    return classes(learner)


def test_a_source_is_withdrawn_since_a_time_and_until_one():
    stream = Stream(start=1000.0)
    for name, ts in (("e", 100.0), ("f", 200.0), ("g", 300.0)):
        stream.event(name, "w1")
        stream.verdict(name, name, "bot", ts=ts)
    withdrawal(stream, since=150.0, ts=250.0)
    learner, _ = taught(stream)
    assert worked(learner) == {"e": 1.0, "g": 1.0}
    stream.event("h", "w1")
    stream.verdict("h", "h", "bot", ts=150.0)
    stream.event("i", "w1")
    stream.verdict("i", "i", "bot", ts=251.0)
    learner, _ = taught(stream)
    assert worked(learner) == {"e": 1.0, "g": 1.0, "i": 1.0}
    assert learner.late.outcomes["source_withdrawn"] == 2


def test_what_is_said_in_the_millisecond_of_a_withdrawal_counts_if_it_comes_after_it():
    """As of a file with the withdrawal of a source, and then what that source says instead."""
    stream = Stream(start=1000.0)
    for name in "efg":
        stream.event(name, "w1")
    now = stream.time
    stream.verdict("e", "x", "bot", at=now)
    stream.verdict("f", "x", "bot", at=now)
    withdrawal(stream)
    stream.records[-1] = stream.records[-1]._replace(timestamp=now)
    stream.verdict("f", "y", "bot", at=now)
    stream.verdict("g", "y", "bot", at=now)
    learner, _ = taught(stream)
    assert worked(learner) == {"y": 2.0}
    withdrawal(stream, ts=now)  # all of that time
    learner, _ = taught(stream)
    assert worked(learner) == {}


def test_a_source_that_is_withdrawn_gives_way_to_what_another_said():
    stream = one_event(("x", "a"), ("y", "bot"))
    withdrawal(stream)
    learner, _ = taught(stream)
    assert worked(learner) == {"x": 1.0}
    assert learner.late.scoring.scores.events == 1


def test_what_a_withdrawn_source_said_early_does_not_count():
    stream = Stream()
    stream.verdict("e", "x", "bot")
    withdrawal(stream)
    learner, _ = taught(stream)
    worked(learner)  # so that no step of it comes after the event
    stream.event("e", "w1")
    learner.process(stream.records[-1:], 1.0)
    assert not learner.has_work
    assert classes(learner) == {}
    assert learner.late.scoring.scores.events == 0


def test_a_withdrawal_goes_on_where_a_snapshot_left_it():
    stream = Stream()
    for i in range(600):
        stream.event(f"e{i}", "w1")
        stream.verdict(f"e{i}", "x", "bot")
    withdrawal(stream)
    learner, _ = taught(stream)
    learner.process([], 1.0, work=1)
    again, copy = late_learner(window=FOREVER, report_every=10**6), learner.copying()
    again.load(copy.parts(), copy.segments())
    assert worked(again) == worked(learner) == {}
    late = Stream(start=stream.time - 100.0)
    late.event("new", "w1")
    late.verdict("new", "x", "bot")
    again.process(late.records, 1.0)
    assert classes(again) == {}


def test_what_was_learned_is_unlearned_by_the_ranks_of_then():
    learner, _ = taught(one_event(("x", "a"), ("y", "b")))
    assert classes(learner) == {"y": 1.0}
    changed(learner, ranks={"a": 5})
    later = Stream(start=2000.0)
    later.verdict("e", "z", "c")
    learner.process(later.records, 1.0)
    assert classes(learner) == {"x": 1.0}


def test_what_was_learned_is_unlearned_by_the_weight_of_then():
    learner, _ = taught(one_event(("x", "a")), weights={"a": 0.5})
    assert classes(learner) == {"x": 0.5}
    changed(learner, weights={"a": 2.0})
    later = Stream(start=2000.0)
    later.verdict("e", "y", "a")
    learner.process(later.records, 1.0)
    assert classes(learner) == {"y": 2.0}
    later.verdict("e", None, "a")
    learner.process(later.records[1:], 1.0)
    assert classes(learner) == {}


def test_a_smaller_window_ends_waits_and_a_larger_one_revives_none():
    stream = Stream()
    for at in (1000.0, 1500.0, 1500.0):
        stream.event(f"e{at}", "w1", at=at)
    learner, _ = taught(stream)
    assert learner.late.pending.size == 3
    for window in (100.0, FOREVER):
        changed(learner, window=window)
        assert learner.late.pending.size == 2


def test_less_memory_ends_waits_and_more_revives_none():
    stream = Stream()
    for i in range(200):
        stream.event(f"e{i}", "w1 w2 w3")
    learner, _ = taught(stream)
    changed(learner, memory=20_000)
    left = learner.late.pending.size
    assert 50 < left < 80
    changed(learner, memory=1 << 28)
    assert learner.late.pending.size == left


def test_a_repeat_of_an_event_that_waits_no_longer_is_none():
    stream = Stream()
    for at in (1000.0, 1200.0, 1200.0):
        stream.event("f", "w1", at=at)
    _, served = taught(stream, window=100.0, repeats="skip")
    assert len(served) == 2


def test_the_label_of_a_skipped_repeat_is_a_verdict():
    stream = one_event()
    stream.event("e", "w1", "x")
    learner, served = taught(stream, repeats="skip", weights={"event": 2.0})
    assert len(served) == 1
    assert classes(learner) == {"x": 2.0}


@pytest.mark.parametrize("at_once", [1, 9])
def test_a_verdict_names_the_newest_of_equal_events(at_once):
    stream = Stream()
    stream.event("other")
    for word in ("w1", "w2"):
        stream.event("e", word)
    stream.verdict("e", "x")
    learner = late_learner(window=FOREVER)
    for first in range(0, len(stream.records), at_once):
        learner.process(stream.records[first : first + at_once], 1.0)
    assert counts_of(learner.model)["text"] == {"w2": {"x": 1.0}}


def test_pruning_goes_by_what_was_ever_learned():
    """Not by the model's number, which falls: else a prune would come again, or never."""
    stream = one_event(("x", "a"), (None, "a"), ("y", "a"))
    learner, _ = taught(stream, pruning=Pruning(every=2, min_count=1))
    assert (learner.late.learned, learner.model.n_events, learner.model.n_prunings) == (2, 1, 1)


def test_detectors_see_first_verdicts_alone():
    one, _ = taught(one_event(("x", "a")), detectors=("page_hinkley",))
    many, _ = taught(one_event(("x", "a"), ("y", "a"), (None, "a"), ("z", "b")), detectors=("page_hinkley",))
    stream = one_event(("x", "a"))
    stream.event("f", "w1")
    for label in "xyx":
        stream.verdict("f", label)
    learner, _ = taught(stream, detectors=("page_hinkley",))
    assert seen(one) == seen(many) == [0]  # an empty model predicted nothing
    assert seen(learner) == [1]


def seen(learner):
    meta, _ = learner.drift.state()
    return list(meta["observations"].values())


def test_a_delay_is_the_logs_time_and_not_what_the_verdict_says():
    stream = Stream(start=0.0)
    for name in "ef":
        stream.event(name, "w1", at=20.0)
        stream.verdict(name, "x", "a", ts=20.0, at=3620.0)
        stream.verdict(name, "y", "b", ts=20.0, at=9000.0)
    learner, _ = taught(stream)
    assert [(row.most, row.events) for row in learner.report(1.0).verdicts.delays] == [(3600.0, 2)]


def test_attributes_and_times_are_kept_as_they_were():
    stream = Stream()
    for i, ts in enumerate((1_700_000_000.5, None)):
        value = {"id": f"e{i}", "text": "w1", "features": {"size": i + 0.5, "new": True}, "ts": ts}
        stream.raw(EVENTS, json.dumps(value).encode())
    learner, _ = taught(stream)
    xs, times = learner.late.pending.events(np.array([1, 0]))
    assert xs == [{"text": "w1", "size": size, "new": True} for size in (1.5, 0.5)]
    assert times == [stream.time, 1_700_000_000.5]  # of when it was recorded, where it does not say


def test_dead_letters_of_a_thousand_records_are_counted_across_a_snapshot():
    stream = Stream()
    for i in range(900):
        stream.verdict(f"nobody {i}", "x")
    options = {"window": FOREVER, "report_every": 10**6, "memory": 8000}
    first, again = late_learner(**options), late_learner(**options)
    told = len(first.process(stream.records[:500], 1.0))
    copy = first.copying()
    again.load(copy.parts(), copy.segments())
    told += len(again.process(stream.records[500:], 1.0))
    assert sum(learner.dead_letters for learner in (again,)) == 10 <= told


def test_a_label_without_weight_is_scored_and_counts_as_learned_nowhere():
    """Nor is it a class of the model: its number among those that were said is none among those predicted."""
    stream = one_event(("z", "a", {"weight": 0.0}), ("y", "b", {"weight": 0.0}))
    stream.event("f", "w1", "x")
    stream.event("g", "w1")
    stream.verdict("g", "x")
    learner, _ = taught(stream)
    assert (classes(learner), learner.late.learned, dict(learner.tally.learned)) == ({"x": 2.0}, 2, {"x": 2})
    scores = learner.late.scoring.scores.cumulative()
    assert (scores.events, scores.accuracy * scores.events) == (3, pytest.approx(1.0))


def test_what_was_scored_before_the_topic_was_added_goes_on_counting():
    from tests.support.service import new_learner

    stream = Stream()
    for i in range(7):
        stream.event(f"e{i}", "w1", "xy"[i % 2])
    learner = new_learner(report_every=10**6)
    learner.process(stream.records, 1.0)
    changed(learner)
    assert (learner.late.learned, learner.late.scoring.scores.events, learner.late.served) == (7, 7, 7)
    assert learner.report(1.0).verdicts.coverage == 1.0
