"""What `verify` tells once more of late labels is what a learner learned, whatever came, and wherever it was cut."""

from __future__ import annotations

import random

from hypothesis import given, settings
from hypothesis import strategies as st

from streamnb.engine.settings import Pruning
from streamnb.models.mixture.bayes_optimal_nb import BayesOptimalNB
from streamnb.models.tenants.tenant_models import TenantModels
from streamnb.toolbox.hidden_markov.hidden_markov_nb import HiddenMarkovNB
from streamnb.values.example_weights import UNIT
from streamnb.verification.check_results import CheckResults
from streamnb.verification.exact.exact_moments import ExactMoments
from streamnb.verification.log.processed_slices import _read
from streamnb.verification.log_verification import learned_state
from streamnb.verification.recount.event_recount import RecountPlan, TenantRecount
from streamnb.verification.recount.label_recount import LabelRecount
from streamnb.verification.recount.recount_comparison import compare
from tests.support.late import EVENTS, LABELS, Stream, counts_of, late_learner, random_stream

DAY = 86400.0
FEW = settings(max_examples=20)  # each is a whole life
SEEDS = st.integers(0, 10**6).map(random.Random)
PRUNINGS = (
    Pruning(),
    Pruning(every=25, min_count=2, max_attributes=25),
    Pruning(every=10, min_count=1, drop_most_frequent=1),
)


def eventful(rng):
    """Events and verdicts, some again, withdrawals of sources, and records that are neither."""
    stream = random_stream(rng, 80, 200, partitions=3)
    records = stream.records + rng.choices(stream.records, k=20)
    for _ in range(rng.randrange(8)):
        odd, at = Stream(), 1_790_000_000.0 + rng.randrange(300)
        given = {"ts": rng.choice([None, at + rng.randrange(-20, 20), at + 2 * DAY]), "at": at}
        odd.retract(rng.choice("ab"), rng.choice([None, at - rng.randrange(200)]), **given)
        odd.verdict(f"e{rng.randrange(80)}", "x", "a", ts=at + rng.choice([DAY, DAY + 1.0]), at=at)
        odd.raw(rng.choice([EVENTS, LABELS]), b"{")
        for record in odd.records:
            records.insert(rng.randrange(len(records)), record)
    return rng.sample(records, len(records)) if rng.random() < 0.3 else records


def compared(rng, given=None):
    """All that differs between a learner and the recount, somewhere on the way."""
    memory, window = rng.choice([(1 << 28, 1e9), (6000, 50.0), (9000, 1e9), (3000, 30.0)])
    learner = late_learner(
        given,
        memory=memory,
        window=window,
        repeats=rng.choice(["learn", "skip", "dead-letter"]),
        pruning=rng.choice(PRUNINGS),
        weights=rng.choice([{}, {"a": 0.5, "event": 2.0}]),
        ranks=rng.choice([{}, {"a": 0, "b": 3}]),
    )
    return differing(learner, eventful(rng), lambda: rng.randrange(2))


def differing(learner, left, work=lambda: 0):
    plan, findings = RecountPlan.of_model(learner.settings, learner.model), CheckResults()
    late = LabelRecount(TenantRecount.for_model(learner.model))
    while left and findings.is_clean:
        part, left, steps = left[:17], left[17:], work()
        learner.process(part, 1.0, work=steps)
        read = [(one, _read(one, learner.settings)) for one in part]
        late.take(read, steps, plan)
        compare(late.recount, learned_state(learner), "recount", len(left), findings)
    return findings.all()


@FEW
@given(rng=SEEDS)
def test_counts_and_moments_are_those_of_the_learner(rng):
    assert compared(rng) == []


def test_so_are_labels_that_are_repeated_before_their_events():
    stream = Stream()
    for name, at in [("again", 1000.0), ("old", 1000.0), ("again", 1090.0), ("new", 1120.0), ("new", 1120.0)]:
        stream.verdict(name, "x", at=at)
    for name in ("old", "again", "new"):
        stream.event(name, f"w {name}", at=1120.0)
    learner = late_learner(window=100.0)
    assert differing(learner, stream.records) == []
    assert learner.dead_letters == 1


@FEW
@given(rng=SEEDS)
def test_so_are_those_of_events_that_more_sources_label_than_may(rng):
    learner = late_learner()
    stream = random_stream(rng, 8, 120, labelled=0.5, sources="abcdef")
    assert differing(learner, stream.records) == []
    assert learner.late.outcomes["too_many_sources"]


def test_so_are_those_of_records_with_times_that_cannot_be_meant():
    stream = Stream()
    for i in range(90):
        stream.event(f"e{i}", f"w{i % 9}", at=1.79e15 + i if i % 5 == 2 or 40 < i < 45 else 1000.0 + i)
        stream.verdict(f"e{i // 2}", "xyz"[i % 3], at=1.79e15 if i % 7 == 3 else 1000.0 + i)
    learner = late_learner(window=30.0)
    assert differing(learner, stream.records) == []


def test_so_are_those_of_a_source_that_is_withdrawn_more_often_than_all_it_said_is_worked_through():
    stream = Stream()
    for i in range(697):
        stream.event(f"e{i}", f"w{i % 9}")
        stream.verdict(f"e{i}", "xy"[i % 2], ["bot", "other"][i % 2])
    for i in range(16 * 14):
        if i % 16 == 0:
            stream.retract("bot")
        if i == 16:
            stream.retract("other")
        stream.event(f"f{i}", "w1")
    learner = late_learner()
    assert (
        differing(learner, stream.records, lambda: int(len(stream.records) - learner.consumed < 16 * 14))
        == []
    )
    assert counts_of(learner.model)["classes"] == {}


@settings(max_examples=4)
@given(rng=SEEDS)
def test_so_are_those_of_the_default_mixture_and_how_often_hypotheses_were_weighed(rng):
    assert compared(rng, BayesOptimalNB({"text": "text", "subject": "text"})) == []


@settings(max_examples=6)
@given(rng=SEEDS)
def test_so_are_words_and_values_of_chains(rng):
    assert compared(rng, HiddenMarkovNB({"text": "text"}, entity="subject")) == []


@FEW
@given(
    rng=SEEDS,
    tenants=st.sampled_from([1, 3, 1000]),
    shared=st.booleans(),
    memory=st.sampled_from([1, 1 << 20]),
)
def test_so_are_those_of_each_tenant_and_of_all(rng, tenants, shared, memory):
    models = TenantModels({"text": "text"}, "subject", tenants, memory, shared=shared)
    learner = late_learner(models, repeats=rng.choice(["learn", "skip", "dead-letter"]))
    assert differing(learner, eventful(rng), lambda: rng.randrange(2)) == []
    assert min(tenants, 3) <= models.use(0).tenants <= tenants


@FEW
@given(rng=SEEDS)
def test_moments_are_within_their_bound_after_any_values_were_taken_back(rng):
    learner, there = late_learner(), []
    sums = ExactMoments()
    for _ in range(200):
        if there and rng.random() < 0.45:
            x, w = there.pop(rng.randrange(len(there)))
            learner.model.unlearn_many([{"size": x}], ["a"], [w])
            sums.add(x, round(-w * UNIT))
        else:
            x, w = rng.gauss(rng.choice([0, 1e6]), 1), rng.choice([0.25, 1, 3])
            there.append((x, w))
            learner.model.learn_one({"size": x}, "a", w)
            sums.add(x, round(w * UNIT))
        if not there:
            sums = ExactMoments()
            continue
        _, mean, M2 = (float(part[0, 0]) for part in learner.model.statistics.moments)
        of_mean, of_spread = sums.bounds()
        assert abs(mean - sums.mean) <= of_mean
        assert abs(M2 - sums.M2) <= of_spread


def test_a_value_that_is_missing_is_beyond_the_bound():
    """Negative control: of 1,000 values that were taken back one by one another would be seen."""
    sums = ExactMoments()
    for i in range(1000):
        sums.add(100.0 + i % 7, UNIT)
        if i % 3 == 0:
            sums.add(100.0 + i % 7, -UNIT)
    of_mean, of_spread = sums.bounds()
    assert of_mean < 1e-6
    assert of_spread < 0.1  # and a value more would be 9


def test_a_verdict_whose_event_comes_when_its_window_is_over_counts_for_neither():
    stream = Stream()
    stream.verdict("e", "x", at=1000.0)
    for time in (1100.0, 1101.0, 1102.0):
        stream.event(f"of {time}", "w1", at=time)
    stream.event("e", "w1", at=1102.0)
    learner = late_learner(window=50.0)
    assert differing(learner, stream.records) == []
    assert learner.model.n_events == 0
