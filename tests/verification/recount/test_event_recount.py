"""The plain recount: it agrees with what a learner learned, whatever came, and sees every number that is another."""

from __future__ import annotations

import json
import math
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from streamnb import NaiveBayes, Nominal, Text
from streamnb.engine.processing.event_processor import EventProcessor
from streamnb.engine.settings import Pruning, Settings
from streamnb.errors import MalformedEvent, SnapshotError
from streamnb.events import Event
from streamnb.formats.codec import decode_event
from streamnb.formats.event_schema import AttributeSpec, EventSchema
from streamnb.statistics.moments import Moments, learn_value
from streamnb.values.example_weights import UNIT
from streamnb.verification.check_results import CheckResults
from streamnb.verification.exact.exact_moments import ExactMoments
from streamnb.verification.log_verification import learned_state
from streamnb.verification.recount.event_recount import Recount, RecountPlan
from streamnb.verification.recount.recount_comparison import LearnedState, compare, recount_of
from tests.support.service import records

pytestmark = pytest.mark.slow

WORDS = st.sampled_from([f"w{i}" for i in range(12)] + ["ΣΑΣ", "Größe", "İ", "x_1"])
TEXTS = st.lists(WORDS, max_size=8).map(" ".join)
FEATURES = st.fixed_dictionaries(
    {},
    optional={
        "subject": TEXTS,
        "colour": st.sampled_from(["red", "green", "true", "3"]),
        "flag": st.booleans(),
        "mixed": st.sampled_from(["3", 3, 3.5, True, None]),
        "x": st.one_of(st.integers(-1000, 1000), st.sampled_from([1e200, -1e200, 1e-300, 0.1, 1e9 + 0.1])),
    },
)
EVENTS = st.fixed_dictionaries(
    {"id": st.just("e")},
    optional={"text": TEXTS, "features": FEATURES, "label": st.sampled_from(["a", "b", "c", None])},
)
RAWS = st.lists(
    st.one_of(EVENTS.map(lambda e: json.dumps(e).encode()), st.sampled_from([b"{", b"", b'{"id": 3}'])),
    max_size=40,
)
PRUNINGS = st.builds(
    Pruning,
    every=st.sampled_from([0, 1, 3, 7]),
    min_count=st.sampled_from([0.0, 1.5, 2.0]),
    drop_most_frequent=st.integers(0, 2),
    max_attributes=st.sampled_from([None, 0, 3, 8]),
)
DECLARED = EventSchema(
    attributes=(
        AttributeSpec("text", "text", "$.text"),
        AttributeSpec("subject", "text", "$.features.subject"),
        AttributeSpec("mixed", "nominal", "$.features.mixed"),
        AttributeSpec("x", "continuous", "$.features.x"),
    )
)


def learner_of(pruning, *, declared=False):
    kinds = {"text": Text(), "subject": Text(event_model="bernoulli")}
    if declared:
        kinds |= {"mixed": Nominal(), "x": "continuous"}
    settings = Settings(schema=DECLARED if declared else EventSchema(), pruning=pruning)
    return EventProcessor(settings, NaiveBayes(kinds))


def recounted(learner, raws, recount=None):
    plan = RecountPlan.of_model(learner.settings, learner.model)
    recount = recount or Recount()
    for raw in raws:
        try:
            recount.take(decode_event(raw, learner.settings.schema), plan)
        except MalformedEvent:
            recount.take(None, plan)
    return recount


def differing(recount, learner):
    findings = CheckResults()
    equal = compare(recount, learned_state(learner), "state", 7, findings)
    return findings.all(), equal


@given(RAWS, PRUNINGS, st.booleans(), st.lists(st.integers(0, 40), max_size=3))
def test_a_recount_agrees_with_what_was_learned(raws, pruning, declared, cuts):
    learner = learner_of(pruning, declared=declared)
    bounds = [0, *sorted(min(cut, len(raws)) for cut in cuts), len(raws)]
    for start, stop in pairwise(bounds):
        learner.process(records(raws[start:stop]), 1.0)
    findings, equal = differing(recounted(learner, raws), learner)
    assert findings == []
    statistics = learner.model.statistics
    cells = sum(int(np.count_nonzero(a)) for a in (statistics.counts.table, statistics.counts.totals))
    assert equal.counts == cells + np.count_nonzero(statistics.class_weights)
    assert equal.moments == np.count_nonzero(statistics.moments.n)


@given(RAWS, RAWS, PRUNINGS)
def test_a_recount_goes_on_from_a_state(before, after, pruning):
    """Of a snapshot's: its words keep their order, on which pruning depends."""
    learner = learner_of(pruning)
    learner.process(records(before), 1.0)
    recount = recount_of(LearnedState.read(learner.parts()))
    learner.process(records(after), 1.0)
    findings, _ = differing(recounted(learner, after, recount), learner)
    assert findings == []


def some_events():
    return [
        json.dumps(
            {
                "id": f"e{i}",
                "text": f"w{i % 5} w{i % 3} common",
                "features": {"colour": "rg"[i % 2], "x": i / 8, "subject": f"w{i % 2}"},
                "label": "ab"[i % 4 == 0],
            }
        ).encode()
        for i in range(60)
    ]


def row_of(statistics, word):
    return statistics.vocabulary.keys().index(word.encode())


def change_count(learner):
    learner.model.statistics.counts.table[row_of(learner.model.statistics, "w3"), 1] += 1


def change_total(learner):
    learner.model.statistics.counts.totals[0, 0] += 512


def change_class(learner):
    learner.model.statistics.class_weights[0] -= 1024


def change_mean(learner):
    learner.model.statistics.moments.mean[0, 0] *= 1 + 1e-12


def change_spread(learner):
    learner.model.statistics.moments.M2[0, 1] *= 1 - 1e-11


def spoil_spread(learner):
    learner.model.statistics.moments.M2[0, 1] = math.nan


def change_weight(learner):
    learner.model.statistics.moments.n[0, 1] += 1


def change_events(learner):
    learner.model.statistics.events += 1


def change_consumed(learner):
    learner.consumed -= 1


def change_letters(learner):
    learner.dead_letters += 1


def stop_word(learner):
    learner.model.statistics.vocabulary.stop(np.array([row_of(learner.model.statistics, "w4")]))


def exchange_words(learner):
    """The first letter of one word is another."""
    vocabulary = learner.model.statistics.vocabulary
    vocabulary.cells[16 * row_of(learner.model.statistics, "w3")] = ord("v")


def lose_word(learner):
    statistics = learner.model.statistics
    statistics.vocabulary.keep(np.arange(statistics.vocabulary.size) != row_of(statistics, "w3"))
    statistics.finish_copy()


DAMAGE = [
    (lose_word, {"attribute": "text", "value": "w3", "class": "a"}, "count 0.0 learned"),
    (change_count, {"attribute": "text", "value": "w3", "class": "a"}, "count"),
    (change_total, {"attribute": "text", "class": "b"}, "total"),
    (change_class, {"class": "b"}, "weight"),
    (change_mean, {"attribute": "x", "class": "b"}, "mean"),
    (change_spread, {"attribute": "x", "class": "a"}, "M2"),
    (spoil_spread, {"attribute": "x", "class": "a"}, "M2 nan"),
    (change_weight, {"attribute": "x", "class": "a"}, "weight"),
    (change_events, {}, "events learned"),
    (change_consumed, {}, "records consumed"),
    (change_letters, {}, "dead letters"),
    (stop_word, {"attribute": "text", "value": "w4"}, "word stopped"),
    (exchange_words, {"attribute": "text", "value": "v3", "class": "b"}, "count"),
]


@pytest.mark.parametrize(("damage", "place", "what"), DAMAGE, ids=[case[0].__name__ for case in DAMAGE])
def test_every_number_that_is_another_is_found_at_its_place(damage, place, what):
    learner = learner_of(Pruning())
    learner.process(records(some_events()), 1.0)
    recount = recounted(learner, some_events())
    assert differing(recount, learner)[0] == []
    damage(learner)
    findings, _ = differing(recount, learner)
    assert findings[0].place == {"record": 7, **place}
    assert what in findings[0].text
    assert findings[0].found != findings[0].expected


def test_of_many_differences_the_first_are_told_and_how_many_there_are():
    learner = learner_of(Pruning())
    learner.process(records(some_events()), 1.0)
    findings, _ = differing(Recount(), learner)
    assert len(findings) == 6
    assert findings[-1].text == f"and {len(learner.model.statistics.vocabulary.keys()) * 2 + 10 - 5} more"


def test_a_word_learned_in_two_rows_is_found():
    learner = learner_of(Pruning())
    learner.process(records(some_events()), 1.0)
    recount = recounted(learner, some_events())
    vocabulary, table = learner.model.statistics.vocabulary, learner.model.statistics.counts.table
    last = vocabulary.size - 1
    first = row_of(learner.model.statistics, "w0")
    vocabulary.groups[last] = vocabulary.groups[first]
    cells = vocabulary.cells.reshape(-1, 16)
    cells[last] = cells[first]
    table[last] = table[first]
    findings, _ = differing(recount, learner)
    assert any("rows 2 learned, 1 counted" in finding.text for finding in findings)


@pytest.mark.parametrize(
    "spoil",
    [
        lambda parts: parts.pop("learner"),
        lambda parts: parts["model"].arrays.pop("table"),
        lambda parts: parts["model"].arrays["groups"].fill(99),
        lambda parts: parts["learner"].meta.pop("consumed"),
    ],
)
def test_what_is_no_state_is_said_to_be_none(spoil):
    learner = learner_of(Pruning())
    learner.process(records(some_events()), 1.0)
    parts = learner.parts()
    spoil(parts)
    with pytest.raises(SnapshotError, match=r"not a valid state of such a learner|table|groups"):
        LearnedState.read(parts)


@pytest.mark.parametrize(("mean", "M2"), [(math.nan, 1.0), (0.0, -1.0), (0.0, math.inf)])
def test_a_state_with_moments_that_are_none_is_no_beginning(mean, M2):
    learner = learner_of(Pruning())
    learner.process(records(some_events()), 1.0)
    learner.model.statistics.moments.mean[0, 0] = mean
    learner.model.statistics.moments.M2[0, 0] = M2
    with pytest.raises(SnapshotError, match="has moments"):
        recount_of(learned_state(learner))


def welford(values, weights, n=0, mean=0.0, M2=0.0):
    moments = Moments()
    moments.reserve(1, 1)
    moments.n[0, 0], moments.mean[0, 0], moments.M2[0, 0] = n, mean, M2
    for x, w in zip(values, weights, strict=True):
        learn_value(*moments, 0, 0, x, w)
    return int(moments.n[0, 0]), float(moments.mean[0, 0]), float(moments.M2[0, 0])


def assert_within(sums, n, mean, M2):
    near, far = sums.bounds()
    assert sums.n == n
    assert abs(Fraction(mean) - sums.mean) <= near
    assert abs(Fraction(M2) - sums.M2) <= far


NUMBERS = st.one_of(
    st.floats(-1e140, 1e140),
    st.floats(1.79e9, 1.8e9),  # epoch seconds: their spread is small beside them
    st.floats(-1.0, 1.0),
    st.sampled_from([5e-324, 1e-200, -1e140, 1e140, 0.0]),
)
WEIGHTED = st.lists(
    st.tuples(NUMBERS, st.sampled_from([UNIT, UNIT, 1, 3, 5000, 2**30])), min_size=1, max_size=60
)


@given(WEIGHTED)
@example([(0.1, UNIT)] * 50)
@example([(1e140, UNIT), (-1e140, UNIT)] * 20)
@example([(1e9 + i / 3, UNIT) for i in range(60)])
def test_welford_stays_within_the_bounds_and_sums_are_exact(rows):
    values, weights = zip(*rows, strict=True)
    sums = ExactMoments()
    for x, w in rows:
        sums.add(x, w)
    n = sum(weights)
    mean = sum(Fraction(x) * w for x, w in rows) / n
    assert sums.mean == mean
    assert sum(w * (Fraction(x) - mean) ** 2 for x, w in rows) / UNIT == sums.M2
    assert_within(sums, *welford(values, weights))


@given(WEIGHTED, WEIGHTED)
def test_sums_go_on_from_moments(before, after):
    start = welford(*zip(*before, strict=True))
    sums = ExactMoments.of(*start)
    n, mean, M2 = start
    assert (sums.n, sums.mean, sums.M2) == (n, Fraction(mean), Fraction(M2))
    for x, w in after:
        sums.add(x, w)
    assert_within(sums, *welford(*zip(*after, strict=True), *start))


def test_the_bounds_are_of_the_order_of_rounding():
    """A well conditioned cell of 1,000 values is held to thirteen digits: no damage hides in the bound."""
    sums = ExactMoments()
    for i in range(1000):
        sums.add(math.sin(i), UNIT)
    near, far = sums.bounds()
    assert near < 2e-13
    assert far < 1e-12 * float(sums.M2)


def test_an_event_without_label_or_weight_is_not_counted():
    plan = RecountPlan.of_model(Settings(schema=EventSchema()), NaiveBayes())
    recount = Recount()
    recount.take(Event("1", {"text": "a"}), plan)
    recount.take(Event("2", {"text": "a"}, "x", 0.0), plan)
    assert (recount.consumed, recount.events, recount.rows) == (2, 0, {})
