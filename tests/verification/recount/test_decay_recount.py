"""What models that weigh hypotheses count, beside a recount; and what decays in them, beside an oracle of fifty digits."""

from __future__ import annotations

import json
import math
import re
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from streamnb import BayesOptimalNB, Hypothesis, Text
from streamnb.engine.journal.checkpoint import BEFORE
from streamnb.engine.processing.event_processor import EventProcessor
from streamnb.engine.settings import Pruning, Settings
from streamnb.errors import SnapshotError
from streamnb.formats.event_schema import EventSchema
from streamnb.reports.state_diff import StateAt as Side
from streamnb.reports.state_diff import differences, print_differences
from streamnb.values.example_weights import UNIT
from streamnb.verification.recount.recount_comparison import LearnedState, recount_of
from tests.oracles.decay_oracle import Clock, DecayedCount, DecayingRecount, decayed_otherwise
from tests.support.service import records
from tests.verification.recount.test_event_recount import PRUNINGS, RAWS, differing, recounted

pytestmark = pytest.mark.slow

DAY = 86_400.0
HYPOTHESES = [
    Hypothesis("multinomial"),
    Hypothesis("bernoulli", alpha=0.5),
    Hypothesis("multinomial", half_life=DAY),
    Hypothesis("presence", half_life=DAY),
    Hypothesis("complement", half_life=0.1),
]
WEIGHTS = [1.0, 1.0, 0.5, 3.25, 2.0**-10]


def learner_of(pruning=None, hypotheses=HYPOTHESES, switching_rate=0.0):
    model = BayesOptimalNB({"text": Text(), "subject": Text()}, hypotheses, switching_rate)
    return EventProcessor(Settings(schema=EventSchema(), pruning=pruning or Pruning()), model)


TIMES = st.one_of(
    st.none(),
    st.integers(0, 40).map(lambda i: 1.7e9 + 3.2 * i),  # edges of epochs of the half-life .1
    st.floats(1.7e9, 1.7e9 + 400 * DAY),
    st.sampled_from([0.0, -1e308, 1e308, 1e14]),
)


@st.composite
def timed(draw):
    """Events of every sort, with times that stand still, jump, and go back."""
    raws = []
    for raw in draw(RAWS):
        try:
            event = json.loads(raw)
        except ValueError:
            event = None
        if event and "label" in event:
            event["ts"] = draw(TIMES)
            event["weight"] = draw(st.sampled_from(WEIGHTS))
            event = {name: value for name, value in event.items() if value is not None}
        raws.append(json.dumps(event).encode() if isinstance(event, dict) else raw)
    return raws


def learn(learner, raws, cuts=()):
    bounds = [0, *sorted(min(cut, len(raws)) for cut in cuts), len(raws)]
    for start, stop in pairwise(bounds):
        learner.process(records(raws[start:stop]), 1.0)


def spaced(*events):
    """Events of (time, label, number)."""
    return [
        json.dumps({"id": "e", "ts": time, "label": label, "text": "w1 w2 w1", "features": {"x": x}}).encode()
        for time, label, x in events
    ]


@given(timed(), PRUNINGS, st.lists(st.integers(0, 40), max_size=2))
@example(spaced((0.0, "a", 1e140), (3.2, "a", 1.0), (60.0, "b", 2.0), (67.2, "a", 3.0)), Pruning(), [])
@example(spaced(*((10.0 * i, "ab"[i % 2], 1e9 + i / 3) for i in range(60))), Pruning(every=7), [30])
@example(spaced((0.0, "a", -1e140), (0.05, "a", 1e140), (1e300, "a", 7.0), (1e308, "b", 8.0)), Pruning(), [])
def test_a_recount_agrees_with_what_was_learned_and_forgotten(raws, pruning, cuts):
    learner = learner_of(pruning)
    learn(learner, raws, cuts)
    recount = recounted(learner, raws, DecayingRecount())
    findings, equal = differing(recount, learner)
    assert findings == []
    statistics = learner.model.statistics
    assert equal.moments == np.count_nonzero(statistics.moments.n)
    assert list(decayed_otherwise(recount, statistics)) == []


@given(timed(), timed(), PRUNINGS)
def test_a_recount_goes_on_from_a_state_of_hypotheses(before, after, pruning):
    learner = learner_of(pruning)
    learn(learner, before)
    recount = recount_of(LearnedState.read(learner.parts()))
    assert differing(recount, learner)[0] == []
    learn(learner, after)
    assert differing(recounted(learner, after, recount), learner)[0] == []


@given(
    st.lists(
        st.tuples(st.floats(0.0, 1e4), st.sampled_from([1, 3, UNIT, 5000]), st.integers(1, 3)),
        min_size=1,
        max_size=30,
    )
)
def test_weights_are_what_their_definition_says(events):
    """Against the definition at the latest time, in doubles, for weights of the order of one."""
    clock = Clock()
    decayed = DecayedCount(100.0, clock, presence=False)
    now, at = 0.0, []
    for time, weight, times in events:
        now = max(now, time) if at else time
        at.append((now, weight * times))
        clock.learn(time)
        decayed.begin("a", weight)
        decayed.count(((0, "text"), "w"), "a", times)
    defined = math.fsum(weight * 2.0 ** ((time - now) / 100.0) for time, weight in at) / UNIT
    assert decayed.worth(decayed.rows[(0, "text"), "w"]["a"]) == pytest.approx(defined, rel=1e-12)


def some_events(n=120):
    return [
        json.dumps(
            {
                "id": f"e{i}",
                "ts": 1.7e9 + i * DAY / 3,
                "text": f"w{i % 5} w{i % 3} common common",
                "features": {"colour": "rg"[i % 2], "x": i / 8, "subject": f"w{i % 2}"},
                "label": "ab"[i % 4 == 0],
            }
        ).encode()
        for i in range(n)
    ]


@pytest.fixture(scope="module")
def learned():
    """The parts of a learner, and a recount that agrees with it."""
    learner = learner_of()
    learn(learner, some_events())
    recount = recounted(learner, some_events(), DecayingRecount())
    assert differing(recount, learner)[0] == []
    assert list(decayed_otherwise(recount, learner.model.statistics)) == []
    return learner.parts(), recount


def loaded(parts):
    learner = learner_of()
    learner.load(parts)
    return learner


def in_memory(model):
    """The arrays of a model that has learned, under the names that they have in a state."""
    presence, decayed = model.statistics.presence.counts, model.statistics.decayed.tables
    return {
        "presence": presence.table,
        "texts": presence.totals,
        **{f"decayed_{name}": array for name, array in decayed._asdict().items()},
    }


def change(name, where, how):
    """Of the arrays of a state, or of those in memory."""

    def damage(parts, arrays=None):
        array = (parts["model"].arrays if arrays is None else arrays)[name]
        keys = loaded(parts).model.statistics.vocabulary.keys() if bytes in map(type, where) else []
        place = tuple(keys.index(part) if isinstance(part, bytes) else part for part in where)
        array[place] = how(array[place])

    return damage


WORD = {"attribute": "text", "value": "w3"}
DAMAGE = {
    "presence": (change("presence", (b"w3", 1), lambda v: v + 1), {**WORD, "class": "a"}, "texts"),
    "texts": (change("texts", (0, 0), lambda v: v + 1), {"attribute": "text", "class": "b"}, "texts"),
    "log posterior": (
        change("posterior_log_posterior", (1,), lambda v: v * (1 + 1e-9)),
        {"hypothesis": "bernoulli alpha=0.5"},
        "log posterior against its loss",
    ),
    "loss": (change("posterior_losses", (1, 0), lambda v: v + 1e-6), {"hypothesis": "bernoulli alpha=0.5"}, "log posterior against its loss"),
    "observations": (change("posterior_observations", (0,), lambda v: v - 1), {}, "observations of the posterior"),
}  # fmt: skip
DECAYED = {
    "count": (change("decayed_table", (b"w3", 0, 1), lambda v: v * (1 + 1e-6)), "row", (0, "w3", "a")),
    "last digits": (change("decayed_table", (b"w3", 0, 1), lambda v: v * (1 - 1e-12)), "row", (0, "w3", "a")),
    "presence": (change("decayed_table", (b"w3", 1, 1), lambda v: v * (1 + 1e-6)), "row", (1, "w3", "a")),
    "nothing": (change("decayed_table", (b"w3", 0, 1), lambda _: 0.0), "row", (0, "w3", "a")),
    "epoch of a row": (change("decayed_row_epoch", (b"w3", 0), lambda v: v - 1), "row", (0, "w3", "a")),
    "first time": (change("decayed_clock", (0,), lambda v: v - 1.0), "clock", ()),
    "latest time": (change("decayed_clock", (1,), lambda v: v + 1.0), "clock", ()),
    "total": (change("decayed_totals", (0, 0, 1), lambda v: v * (1 + 1e-6)), "total", (0, "text", "a")),
    "class": (change("decayed_classes", (1, 1), lambda v: v * (1 - 1e-6)), "class", (1, "", "a")),
    "n": (change("decayed_n", (0, 0, 1), lambda v: v * (1 + 1e-6)), "moments", (0, "x", "a")),
    "mean": (change("decayed_mean", (0, 0, 1), lambda v: v * (1 + 1e-12)), "moments", (0, "x", "a")),
    "M2": (change("decayed_M2", (0, 0, 1), lambda v: v * (1 - 1e-10)), "moments", (0, "x", "a")),
}
"""One number of what decays, and what the oracle says of it."""


NO_STATE = {
    "no number": (change("decayed_table", (b"w3", 0, 1), lambda _: math.nan), "row", "decayed_table[8, 0, 1]: nan is not between"),
    "below zero": (change("decayed_table", (b"w3", 0, 1), lambda v: -v), "row", "decayed_table[8, 0, 1]: -"),
    "epoch to come": (
        change("decayed_row_epoch", (b"w3", 0), lambda v: v + 9),
        "epoch of a row",
        "decayed_row_epoch[8, 0]: a row was learned later than now",
    ),
    "epoch": (change("decayed_epoch", (0,), lambda v: v + 1), "epoch", "decayed_epoch[0]: not the epoch of the time"),
}  # fmt: skip
"""What no model can have learned: a state with it is refused, with the array and the place."""


@pytest.mark.parametrize("name", DAMAGE)
def test_every_number_that_is_another_is_found_at_its_place(learned, name):
    damage, place, what = DAMAGE[name]
    parts = loaded(learned[0]).parts()
    damage(parts)
    findings, _ = differing(learned[1], loaded(parts))
    assert findings[0].place == {"record": 7, **place}
    assert what in findings[0].text
    assert findings[0].found != findings[0].expected


@pytest.mark.parametrize("name", DECAYED)
def test_the_oracle_sees_every_number_that_decayed_otherwise(learned, name):
    damage, what, place = DECAYED[name]
    parts = loaded(learned[0]).parts()
    damage(parts)
    assert (what, place) in decayed_otherwise(learned[1], loaded(parts).model.statistics)


def refused(parts, said):
    for takes in (loaded, LearnedState.read):
        with pytest.raises(SnapshotError, match=re.escape(said)):
            takes(parts)


def test_more_texts_with_a_word_than_texts_are_refused_in_a_state_and_found_in_memory(learned):
    fewer = change("texts", (0, 0), lambda v: v - 1)
    parts, read = loaded(learned[0]).parts(), loaded(learned[0])
    fewer(parts, in_memory(read.model))
    findings, _ = differing(learned[1], read)
    assert findings[0].place == {"record": 7, "attribute": "text", "class": "b"}
    assert "texts" in findings[0].text
    fewer(parts)
    refused(parts, "presence[1, 0]: a word in more texts than there are")


@pytest.mark.parametrize("name", NO_STATE)
def test_a_number_that_none_can_be_is_refused_in_a_state_and_seen_in_memory(learned, name):
    damage, what, said = NO_STATE[name]
    parts, read = loaded(learned[0]).parts(), loaded(learned[0])
    damage(parts, in_memory(read.model))
    assert what in {found for found, _ in decayed_otherwise(learned[1], read.model.statistics)}
    damage(parts)
    refused(parts, said)


def test_a_time_that_is_another_is_found_with_the_epochs_that_follow_from_it(learned):
    """All three fit together, so that the state is taken."""
    learner = loaded(learned[0])
    statistics, parts = learner.model.statistics, learner.parts()
    arrays, keys = parts["model"].arrays, statistics.vocabulary.keys()
    arrays["decayed_clock"][1] += 320 * DAY
    half_lives = statistics.decayed.tables.half_life
    arrays["decayed_epoch"][:] = np.diff(arrays["decayed_clock"])[0] / half_lives // 32
    arrays["decayed_row_epoch"][keys.index(b"w3"), 0] += 9
    found = list(decayed_otherwise(learned[1], loaded(parts).model.statistics))
    assert {("clock", ()), ("epoch", (0,)), ("epoch of a row", (0, "w3"))} <= set(found)


def test_a_loss_beyond_the_bound_is_found_with_switching_too():
    learner = learner_of(switching_rate=0.01)
    learn(learner, some_events())
    recount = recounted(learner, some_events())
    assert differing(recount, learner)[0] == []
    learner.model.posterior.weights.losses[-1, 0] *= 2.0
    findings, _ = differing(recount, learner)
    assert {finding.place["hypothesis"] for finding in findings if finding.place.get("hypothesis")}
    assert all("loss of the mixture against its bound" in finding.text for finding in findings)


def test_an_event_met_and_not_learned_is_counted_too(learned):
    learner = learner_of()
    learner.load(learned[0])
    parts = learner.parts()
    parts["model"].meta["posterior"]["met"] += 1
    read = learner_of()
    read.load(parts)
    findings, _ = differing(learned[1], read)
    assert [finding.text for finding in findings] == [
        "at journal record 7: events that the hypotheses met 121 learned, 120 counted"
    ]


def test_a_state_that_counts_otherwise_is_told(learned):
    learner = learner_of(hypotheses=HYPOTHESES[:4])
    learn(learner, some_events())
    assert any("sources of counts" in finding.text for finding in differing(learned[1], learner)[0])


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (change("decayed_table", (b"w3", 0, 1), lambda _: math.inf), "decayed_table"),
        (change("decayed_classes", (1, 1), lambda v: -v), "decayed_classes"),
        (change("decayed_epoch", (2,), lambda v: v - 1), "decayed_epoch"),
        (change("decayed_row_epoch", (b"w3", 1), lambda _: -1), "decayed_row_epoch"),
        (change("decayed_M2", (0, 0, 0), lambda v: -v), "decayed_M2"),
        (change("posterior_log_posterior", (0,), lambda v: v - 1.0), "log_posterior holds no probabilities"),
    ],
)
def test_a_state_of_which_numbers_are_none_is_no_beginning(learned, spoil, said):
    learner = learner_of()
    learner.load(learned[0])
    parts = learner.parts()
    spoil(parts)
    with pytest.raises(SnapshotError, match=said):
        recount_of(LearnedState.read(parts))


def test_a_difference_lists_how_the_posterior_moved(learned, capsys):
    before, after = learner_of(), learner_of()
    learn(before, some_events(3))
    after.load(learned[0])
    sides = [Side(BEFORE, learner) for learner in (before, after)]
    answer = differences(*sides, 3)
    assert answer["posterior"] == [
        {
            "hypothesis": name,
            "before": before.model.posterior.probabilities[name],
            "after": after.model.posterior.probabilities[name],
        }
        for name in before.model.posterior.hypotheses
    ]
    assert json.loads(json.dumps(answer)) == answer
    print_differences(answer)
    shown = capsys.readouterr().out
    assert "bernoulli alpha=0.5" in shown
    assert "hypothesis" in shown
    assert differences(sides[1], sides[1], 3)["posterior"] == []
