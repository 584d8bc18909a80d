"""Laws of labels that come apart: order, delay and repetition do not matter, and nothing that is taken back stays."""

from __future__ import annotations

import json
import math
import random
from collections import Counter

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from streamnb.engine.labels.delay_scores import DELAYS
from streamnb.engine.labels.unlabelled_accuracy import expected_accuracy
from streamnb.engine.ports import Record
from streamnb.engine.settings import LabelSettings, MonitorSettings, Pruning
from streamnb.formats.codec import decode_alert
from streamnb.models.mixture.bayes_optimal_nb import BayesOptimalNB
from streamnb.scoring.revisable_scores import LabelledOutcomes
from tests.support.late import (
    EVENTS,
    LABELS,
    Stream,
    counts_of,
    effective_labels,
    late_learner,
    learned,
    random_stream,
    read_in_another_order,
    scores_of,
)
from tests.support.service import digests, model_digest, predictions

pytestmark = [pytest.mark.slow, pytest.mark.early(32)]

FOREVER = 1e9  # seconds
NEW_CLASSES = (MonitorSettings("new", "new-class"),)
FEW = settings(max_examples=20)  # each is a whole life
SEEDS = st.integers(0, 10**6).map(random.Random)


def process(records, cuts=(10**6,), **options):
    """A learner that has processed these, cut so; and what it published."""
    learner = late_learner(**{"window": FOREVER, "report_every": 10**6} | options)
    outputs, start, i = [], 0, 0
    while start < len(records):
        outputs += learner.process(records[start : start + cuts[i % len(cuts)]], 1.0)
        start, i = start + cuts[i % len(cuts)], i + 1
    return learner, outputs


def served(outputs):
    return [json.loads(output.value) for output in outputs if output.topic == "predictions"]


def discovered(outputs):
    return [decode_alert(output.value) for output in outputs if output.topic == "alerts"]


def letters(outputs):
    return [dict(output.headers)["reason"].decode() for output in outputs if output.topic == "dead-letters"]


def assert_scored_as_told(learner, outputs, truths):
    found, told = learner.late.scoring.scores.cumulative(), scores_of(served(outputs), truths)
    assert found.events == told["events"]
    assert found.accuracy * found.events == pytest.approx(told["right"])
    assert found.log_loss * found.events == pytest.approx(told["loss"], rel=1e-13)
    assert found.brier * found.events == pytest.approx(told["brier"], rel=1e-12)
    late = learner.late
    matrix = late.scoring.scores.confusion(
        late.scoring.columns_of(sorted({label for label, _ in truths.values()}))
    )
    assert matrix.sum() == sum(told["confusion"].values())
    assert sum(row[0] for row in late.scoring.delays) == found.events


@FEW
@given(rng=SEEDS, ranks=st.dictionaries(st.sampled_from(["a", "b", "default", "event"]), st.integers(-2, 3)))
def test_ranks_and_weights_of_sources_decide(rng, ranks):
    weights = {"a": 0.5, "event": 2.0}
    records = random_stream(rng).records
    learner, outputs = process(records, ranks=ranks, weights=weights)
    truths = effective_labels(records, ranks, weights)
    assert counts_of(learner.model) == counts_of(learned(records, truths))
    assert_scored_as_told(learner, outputs, truths)


@FEW
@given(rng=SEEDS, data=st.data())
def test_order_and_repetition_of_verdicts_do_not_matter(rng, data):
    """Verdicts that say when they were said may come in any order, again and again, also before their events."""
    stream = random_stream(rng, labelled=0.0)
    timed = [
        record._replace(value=json.dumps(json.loads(record.value) | {"ts": float(i)}).encode())
        for i, record in enumerate(r for r in stream.records if r.partition == LABELS)
    ]
    shuffled = data.draw(st.permutations(timed + rng.choices(timed, k=10)))
    events = [record for record in stream.records if record.partition == EVENTS]
    mixed = [*events, *shuffled]
    rng.shuffle(mixed)
    places = {id(record): i for i, record in enumerate(events)}
    mixed = [record for record in mixed if id(record) not in places]
    for record in events:  # events stay in their order
        mixed.insert(rng.randrange(len(mixed) + 1), record)
    one, _ = process([*events, *timed])
    other, _ = process(mixed)
    assert counts_of(one.model) == counts_of(other.model)


@FEW
@given(rng=SEEDS)
def test_partitions_may_be_read_in_any_order(rng):
    """Labels of one source have one total order: time, partition and offset, whichever is read first."""
    records = random_stream(rng, verdicts=200, partitions=3).records
    truths = effective_labels(records)
    for order in (records, read_in_another_order(rng, records)):
        learner, outputs = process(order)
        assert counts_of(learner.model) == counts_of(learned(order, truths))
        assert_scored_as_told(learner, outputs, truths)


@FEW
@given(
    rng=SEEDS,
    cuts=st.lists(st.integers(1, 40), min_size=1, max_size=8),
    repeats=st.sampled_from(["learn", "skip", "dead-letter"]),
)
def test_how_records_are_cut_is_unobservable(rng, cuts, repeats):
    stream = random_stream(rng, partitions=2)
    stream.verdict("e1", "x", ts=stream.time + 2 * 86400.0)
    stream.retract("a", at=stream.time)
    stream.verdict("e2", "y", "a", at=stream.time)
    records = stream.records + [rng.choice(stream.records) for _ in range(20)]
    memory, window = rng.choice([(1 << 28, FOREVER), (6000, 50.0)])
    options = {"repeats": repeats, "memory": memory, "window": window, "monitors": NEW_CLASSES}
    whole, expected = process(records, **options)
    parts, got = process(records, cuts, **options)
    assert predictions(expected) == predictions(got)
    assert letters(expected) == letters(got)
    assert discovered(expected) == discovered(got)
    assert [alert.label for alert in discovered(got)] == whole.model.classes
    assert digests(whole) == digests(parts)


@pytest.mark.parametrize("topic", ["labels", None])
def test_a_new_class_is_told_once_by_what_named_it_first(topic):
    """Also by a label that corrects another, and by one that holds because another was taken back."""
    stream = Stream()
    for i, label in enumerate(["a", None, "b", "a"]):
        stream.event(f"e{i}", "w1 w2", label)
    told = [("a", "e0", 1, 0), ("b", "e2", 3, 1)]
    if topic:
        stream.verdict("e0", "c", "x")
        stream.verdict("e1", "c", "high")
        stream.verdict("e1", "d", "low")  # it waits
        stream.verdict("e3", "x", "low", weight=0.0)
        stream.verdict("e1", None, "high")
        told += [("c", "e0", 5, 3), ("d", "e1", 9, 4)]
    labels = {"labels": LabelSettings(topic, ranks={"high": 1, "x": 1, "low": -1}) if topic else None}
    outputs = late_learner(**labels, monitors=NEW_CLASSES).process(stream.records, 1.0)
    assert [(one.label, one.id, one.events, one.model.events) for one in discovered(outputs)] == told
    assert {one.state for one in discovered(outputs)} == {"discovered"}
    others = (MonitorSettings("silent", "no-events", after=60.0),)
    assert not discovered(late_learner(**labels, monitors=others).process(stream.records, 1.0))


@FEW
@given(rng=SEEDS)
def test_a_state_that_is_loaded_goes_on_as_if_it_had_never_been_put_down(rng):
    records = random_stream(rng).records
    cut = rng.randrange(len(records))
    whole, _ = process(records)
    first, _ = process(records[:cut])
    again = late_learner(window=FOREVER, report_every=10**6)
    copy = first.copying()
    again.load(copy.parts(), copy.segments())
    assert digests(again) == digests(first)
    again.process(records[cut:], 1.0)
    assert digests(again) == digests(whole)


@FEW
@given(rng=SEEDS)
def test_labels_inside_their_events_are_learned_and_published_as_without_the_topic(rng):
    from tests.support.service import new_learner

    events = [r for r in random_stream(rng, labelled=0.7).records if r.partition == EVENTS]
    plain = new_learner(report_every=10**6, window=50)
    expected = plain.process(events, 1.0)
    learner, outputs = process(events)
    assert predictions(outputs) == predictions(expected)
    assert model_digest(learner) == model_digest(plain)
    one, other = learner.report(1.0), plain.report(1.0)
    assert (one.confusion, one.labels, one.cumulative.accuracy) == (
        other.confusion,
        other.labels,
        other.cumulative.accuracy,
    )
    assert one.window.log_loss == pytest.approx(other.window.log_loss, rel=1e-12)
    assert one.cumulative.log_loss == pytest.approx(other.cumulative.log_loss, rel=1e-12)


@pytest.mark.thorough
@FEW
@given(rng=SEEDS)
def test_a_withdrawn_source_never_spoke(rng):
    records = random_stream(rng, sources=("a", "b")).records
    stream = Stream(start=records[-1].timestamp + 100.0)  # later than whatever was said
    stream.retract("a")
    learner, outputs = process([*records, *stream.records])
    while learner.has_work:
        learner.process([], 1.0, work=1)
    silent = [r for r in records if json.loads(r.value).get("source") != "a"]
    alone, _ = process(silent)
    assert counts_of(learner.model) == counts_of(alone.model)
    assert_scored_as_told(learner, outputs, effective_labels([*records, *stream.records]))
    again, _ = process(
        [stream.records[0], *(r for r in records)]
    )  # who comes later than the withdrawal of then
    assert counts_of(again.model) == counts_of(
        learned(records, effective_labels([*records, stream.records[0]]))
    )


def test_withdrawing_goes_on_in_steps_between_which_events_are_served():
    stream = Stream()
    for i in range(1000):
        stream.event(f"e{i}", "w1 w2")
        stream.verdict(f"e{i}", "spam", "bot")
    stream.retract("bot")
    learner, _ = process(stream.records)
    left = []
    while learner.has_work:
        learner.process([], 1.0, work=1)
        left.append(learner.model.n_events)
    assert left == [744, 488, 232, 0]
    assert learner.late.outcomes["source_withdrawn"] == 1000
    assert learner.late.scoring.scores.events == 0


def test_an_event_waits_as_long_as_the_window_by_the_times_of_the_log():
    stream = Stream(start=1000.0)
    stream.event("old", "w1", at=1000.0)
    stream.event("new", "w1", at=1050.0)
    stream.verdict("nobody", "x", at=9e9)  # one absurd time moves nothing
    stream.verdict("old", "y", at=1100.0)
    stream.event("newer", "w1", at=1101.0)
    stream.event("newest", "w1", at=1101.0)
    stream.verdict("old", "z", at=1101.0)  # which is unknown by now
    stream.verdict("new", "x", at=1101.0)
    learner, _ = process(stream.records, window=100.0)
    assert learner.model.class_weights == {"y": 1.0, "x": 1.0}
    assert learner.late.pending.size == 3


def test_who_goes_on_from_a_copy_when_nothing_waits_lays_events_out_as_who_was_copied():
    stream, learner, again = Stream(), late_learner(window=10.0), late_learner(window=10.0)
    for i in range(20):
        stream.event(f"e{i}", "w1 w2", "xy"[i % 2])
    stream.verdict("e1", "y", at=stream.time + 1000.0)
    stream.verdict("e2", "y")
    learner.process(stream.records, 1.0)
    assert not any(mask.any() for *_, mask in learner.late.pending._alive())
    again.load(learner.parts(), learner.copying().segments())
    more = Stream(stream.time)
    for i in range(20, 30):
        more.event(f"e{i}", "w1 w3", "xy"[i % 2])
    for one in (learner, again):
        one.process(more.records, 2.0)
    assert digests(learner) == digests(again)


def test_memory_bounds_what_waits_and_the_oldest_waits_no_longer():
    stream = Stream()
    for i in range(200):
        stream.event(f"e{i}", "w1 w2 w3")
    for i in range(200):
        stream.verdict(f"e{i}", "x")
    learner, _ = process(stream.records, memory=20_000)
    assert 50 < learner.late.pending.size < 80
    assert learner.model.n_events == learner.late.pending.size


def test_verdicts_without_events_are_told_a_few_times_and_bounded():
    stream = Stream()
    for i in range(3000):
        stream.verdict(f"nobody{i}", "x")
    learner, outputs = process(stream.records, memory=100_000)
    assert Counter(letters(outputs)) == {"unknown-event": 30}
    assert learner.late.fullness <= 1.0
    assert learner.late.outcomes["unknown"] > 2900
    assert learner.model.n_events == 0


def test_a_fifth_source_is_a_dead_letter_and_so_is_one_of_too_many():
    stream = Stream()
    stream.event("e", "w1")
    for source in "abcde":
        stream.verdict("e", "x", source)
    stream.event("f", "w1")
    for source in "abcde":
        stream.verdict("f", "x", source)
    stream.verdict("not here yet", "x", "a")
    learner, outputs = process(stream.records)
    assert letters(outputs) == ["too-many-sources"] * 2
    assert [dict(one.headers)["path"] for one in outputs if one.topic == "dead-letters"] == [b"$.source"] * 2
    assert learner.late.outcomes == {"first": 2, "outranked": 6, "too_many_sources": 2}
    more = Stream()
    for i in range(2000):
        more.event(f"f{i}")
        more.verdict(f"f{i}", "x", f"source {i}")
    refused = letters(learner.process(more.records, 1.0))
    assert len(learner.late.by_source) == 1000
    assert learner.late.outcomes["too_many_sources"] == 2 + 1005
    assert len(refused) < 50  # counted all the same


def test_a_fifth_source_is_counted_before_its_event_came():
    stream = Stream()
    for source in "abcde":
        stream.verdict("later", "x", source)
    learner, outputs = process(stream.records)
    assert letters(outputs) == ["too-many-sources"]
    assert learner.late.outcomes == {"too_many_sources": 1}


def test_the_label_inside_an_event_is_none_of_its_four_sources():
    stream = Stream()
    stream.event("e", "w1", "x")
    for source in "ab":
        stream.verdict("f", "x", source)
    stream.event("f", "w1", "x")
    for source in "abcde":
        stream.verdict("e", "y", source)
        stream.verdict("f", "y", source)
    learner, outputs = process(stream.records)
    assert letters(outputs) == ["too-many-sources"] * 2
    for event_id in "ef":
        said = learner.late.source_labels_of(event_id)
        assert sorted(one.source for one in said) == ["a", "b", "c", "d", "event"]
        assert said[0].label == "y"
    late = learner.late
    e, f = late.source_labels_of("e"), late.source_labels_of("f")
    assert e != f
    assert late.source_labels_of_all(["e", "none", "f", "e"]) == [e, None, f, e]
    assert late.source_labels_of_all([]) == []


@settings(max_examples=30)
@given(
    before=st.lists(st.tuples(st.sampled_from("efg"), st.sampled_from("abcdefgh")), max_size=12),
    labels=st.lists(st.tuples(st.sampled_from("efg"), st.sampled_from("abcdefgh")), max_size=20),
    most=st.sampled_from([5, 1000]),
)
def test_sources_that_would_be_refused_are_those_that_are_refused_then(before, labels, most):
    stream, then = Stream(), Stream(1_790_000_100.0)
    stream.event("e", "w1", "x")
    stream.event("f", "w1")
    for event_id, source in before:
        stream.verdict(event_id, "x", source)
    for event_id, source in labels:
        then.verdict(event_id, "y", source)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("streamnb.engine.labels.source_label_store.MOST_SOURCES_IN_ALL", most)
        learner, _ = process(stream.records)
        expected = []
        foreseen = learner.late.refused_sources(labels)
        for record in then.records:
            refused = learner.late.outcomes["too_many_sources"]
            learner.process([record], 1.0)
            expected.append(learner.late.outcomes["too_many_sources"] > refused)
    assert foreseen == expected


@pytest.mark.parametrize(
    ("repeats", "published", "weights"), [("learn", 3, 3.0), ("skip", 2, 2.0), ("dead-letter", 2, 2.0)]
)
def test_events_that_come_again(repeats, published, weights):
    stream = Stream()
    stream.event("e", "w1", "x")
    stream.event("f", "w1", "x")
    stream.event("e", "w1", "x")
    learner, outputs = process(stream.records, repeats=repeats)
    assert len(served(outputs)) == published
    assert learner.model.class_weights == {"x": weights}
    assert letters(outputs) == (["repeated"] if repeats == "dead-letter" else [])


def test_delays_are_counted_in_buckets():
    stream = Stream(start=0.0)
    stream.event("now", "w1", "x", at=10.0)
    for i, delay in enumerate((0.5, 1.0, 59.0, 3600.0, 700000.0)):
        stream.event(f"e{i}", "w1", at=20.0)
        stream.verdict(f"e{i}", "x", at=20.0 + delay)
    learner, _ = process(stream.records)
    report = learner.report(1.0).verdicts
    assert [(row.most, row.events, row.accuracy) for row in report.delays] == [
        (0.0, 1, 0.0), (1.0, 2, 1.0), (60.0, 1, 1.0), (3600.0, 1, 1.0), (None, 1, 1.0)
    ]  # fmt: skip
    assert (report.served, report.judged, report.coverage) == (6, 6, 1.0)
    assert report.median_delay == 1.0
    assert report.p99_delay is None
    assert len(DELAYS) + 2 == len(learner.late.scoring.delays)


@FEW
@given(rng=SEEDS)
def test_many_classes_are_scored_by_the_greatest_eight_and_the_rest(rng):
    stream = Stream()
    labels = [f"c{i}" for i in range(30)]
    for i in range(60):
        stream.event(f"a{i}", " ".join(rng.choices(["p", "q", "r"], k=3)), rng.choice(labels))
    for i in range(20):
        stream.event(f"b{i}", " ".join(rng.choices(["p", "q", "r"], k=3)))
        stream.verdict(f"b{i}", rng.choice(labels))
        stream.verdict(f"b{i}", rng.choice(labels))
    learner, outputs = process(stream.records)
    truths = effective_labels(stream.records)
    loss = 0.0
    for one in served(outputs):
        p, label = one["probabilities"], truths[one["id"]][0]
        top = sorted(p, key=p.get, reverse=True)[:8]  # of equals those met first
        truth = p.get(label, 0.0)
        if len(p) > 16 and label in p and label not in top:
            truth = max(0.0, 1.0 - sum(p[name] for name in top)) / (len(p) - 8)
        loss -= math.log(min(max(truth, 1e-15), 1.0))
    assert learner.late.scoring.scores.cumulative().log_loss * 80 == pytest.approx(loss, rel=1e-9)


@pytest.mark.thorough
@FEW
@given(rng=SEEDS)
def test_corrections_go_through_prunings(rng):
    """What was forgotten is not taken out of what was learned since."""
    records = random_stream(rng, 80, 200).records
    pruning = Pruning(every=25, min_count=2, max_attributes=25)
    learner, _ = process(records, pruning=pruning)
    parts, _ = process(records, (7,), pruning=pruning)
    assert digests(learner) == digests(parts)
    statistics = learner.model.statistics
    assert (statistics.counts.table >= 0).all()
    assert (
        counts_of(learner.model)["classes"]
        == counts_of(learned(records, effective_labels(records)))["classes"]
    )


@pytest.mark.thorough
@settings(max_examples=8)  # each takes half a second
@given(rng=SEEDS)
@example(rng=random.Random(12863))  # a label without weight comes before those that teach
def test_the_default_mixture_takes_corrections_of_its_counts(rng):
    records = random_stream(rng).records
    learner, outputs = process(records, given=BayesOptimalNB({"text": "text", "subject": "text"}))
    parts, _ = process(records, (5, 3), given=BayesOptimalNB({"text": "text", "subject": "text"}))
    assert digests(learner) == digests(parts)
    truths = effective_labels(records)
    alone = learned(records, truths, BayesOptimalNB({"text": "text", "subject": "text"}))
    assert counts_of(learner.model) == counts_of(alone)
    assert_scored_as_told(learner, outputs, truths)


def test_what_is_no_verdict_is_a_dead_letter_and_changes_nothing():
    stream = Stream()
    stream.event("e", "w1")
    for raw in (
        b"{",
        b'{"id":"e"}',
        b'{"id":"e","label":"x","source":"event"}',
        b'{"withdraw":true}',
        b"\xff",
    ):
        stream.raw(LABELS, raw)
    learner, outputs = process(stream.records)
    assert letters(outputs) == ["invalid-json", "missing", "out-of-range", "missing", "invalid-utf8"]
    assert (learner.dead_letters, learner.model.n_events) == (5, 0)
    assert isinstance(stream.records[0], Record)


def test_large_events_do_not_escape_the_memory():
    """However large events are, no more of them is held than the memory, and a megabyte or two that is open."""
    stream = Stream()
    for i in range(300):
        stream.event(f"e{i}", "w1 " * 10_000)
    learner, _ = process(stream.records, memory=1 << 20)
    assert 25 < learner.late.pending.size < 35
    assert learner.late.pending.n_bytes < 4 << 20


def test_what_many_sources_say_takes_memory_too():
    stream = Stream()
    for i in range(300):
        stream.event(f"e{i}", "w1")
    quiet, _ = process(stream.records, memory=300_000)
    for i in range(300):
        for source in "abcd":
            stream.verdict(f"e{i}", source, source)
    loud, _ = process(stream.records, memory=300_000)
    parts, _ = process(stream.records, (13, 2), memory=300_000)
    assert quiet.late.pending.size == 300
    assert loud.late.pending.size < 150
    assert digests(loud) == digests(parts)


def test_withdrawals_are_joined_and_bounded():
    stream = Stream(start=0.0)
    stream.event("e", "w1")
    for i in range(3000):
        stream.retract("bot", since=i * 1.0, at=float(i))
    stream.verdict("e", "x", "bot", ts=1500.0)
    stream.verdict("e", "y", "bot", ts=3000.5)
    learner, _ = process(stream.records)
    assert counts_of(learner.model)["classes"] == {"y": 1.0}
    for i in range(1500):
        stream.retract(f"source {i}")
    learner, outputs = process(stream.records)
    assert letters(outputs) == ["too-many-sources"] * 501


@FEW
@given(rng=SEEDS)
def test_labels_that_are_ahead_of_their_events_are_counted_until_these_come_or_time_is_up(rng):
    stream, awaited, seen = Stream(start=0.0), {}, set()
    for _ in range(60):
        name = f"e{rng.randrange(30)}"
        if rng.random() < 0.4 and name not in seen:
            stream.event(name, "w")
            seen.add(name)
            awaited.pop(name, None)
        else:
            stream.verdict(name, rng.choice(["x", "y", None]))
            if name not in seen:
                awaited[name] = None
    learner, _ = process(stream.records)
    assert learner.report(1.0).verdicts.awaited == len(awaited)
    stream.time += 1e6
    for name in ("last", "but one"):  # time is what two records in a row have reached
        stream.verdict(name, "x")
    learner, _ = process(stream.records, window=1e5)
    assert learner.report(1.0).verdicts.awaited == 2


@FEW
@given(rng=SEEDS, data=st.data())
def test_what_no_label_judged_is_estimated_by_what_labels_did(rng, data):
    """Of the newest predictions without a label that wait, and of those in the window, told from what was published."""
    kept = 75.0  # seconds, of which each record takes one; time is what two records in a row have reached
    stream, judged, first = Stream(start=0.0), {}, []
    for i in range(90):
        label = rng.choice("xy") if rng.random() < 0.3 else None
        stream.event(f"e{i}", " ".join(rng.choices("abcd", k=3)), label)
        judged[f"e{i}"] = label
        first += [f"e{i}"] if label else []
        one = f"e{rng.randrange(i + 1)}"
        if judged[one] is None and rng.random() < 0.3 and int(one[1:]) > i - 20:
            judged[one] = rng.choice("xy")
            stream.verdict(one, judged[one])
            first.append(one)
    cuts = data.draw(st.lists(st.integers(1, 40), min_size=1, max_size=4))
    learner, outputs = process(stream.records, cuts, window=kept)
    said = {one["id"]: one for one in served(outputs)}
    sure = {name: one["probability"] for name, one in said.items() if one["label"] is not None}
    waits = [r for r in stream.records if r.partition == EVENTS and r.timestamp >= stream.time - 1.0 - kept]
    waiting = [json.loads(record.value)["id"] for record in waits]
    without = [name for name in waiting if judged[name] is None and name in sure][-50:]
    scored = [name for name in first[-50:] if name in sure]
    known = LabelledOutcomes(
        np.rint(2.0**44 * np.array([sure[name] for name in scored])) / 2.0**44,  # as scores are kept
        np.array([said[name]["label"] == judged[name] for name in scored], dtype=bool),
    )
    found = learner.report(1.0).verdicts.unjudged
    told = expected_accuracy(np.array([sure[name] for name in without]), known, 0.95)
    assert (found.events, found.doubt) == (told.events, told.doubt)
    for one, other in ((found.accuracy, told.accuracy), (found.interval.lower, told.interval.lower)):
        assert one == pytest.approx(other, rel=1e-9)
