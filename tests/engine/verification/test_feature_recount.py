"""The recount of features: keys, bins and counts agree with what was learned, whatever came and however it was weighed."""

from __future__ import annotations

import random
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamnb import BayesOptimalNB, Hypothesis, Pool, Softmax
from streamnb.engine.learner import Learner
from streamnb.engine.settings import Pruning, Settings
from streamnb.engine.verification.exact.bins import ExactBins
from streamnb.engine.verification.features.comparison import compare_features
from streamnb.engine.verification.features.keys import found_by, group_owner, mixed, token_key
from streamnb.engine.verification.features.met import Both
from streamnb.engine.verification.features.plan import FeaturePlan
from streamnb.engine.verification.features.recount import FeatureRecount
from streamnb.engine.verification.findings import Findings
from streamnb.engine.verification.recount.comparison import State, compare, recount_of
from streamnb.engine.verification.recount.recount import Plan, Recount
from streamnb.errors import SnapshotError
from streamnb.events import Event
from streamnb.model.encoding import tokenizer
from streamnb.model.softmax import feature_table
from streamnb.model.softmax.feature_table import COUNTS, NO_CLASS, OWNER, met_once
from streamnb.model.softmax.quantile_bins import PAIRED, Bins, first_edge, is_in_use, note_value
from streamnb.wire.schema import EventSchema

LEARNERS = [Softmax(0.6, pairs=True), Softmax(0.25)]
ATTRIBUTES = {"text": "text", "title": "text", "code": "nominal"}


def learner_of(hypotheses=LEARNERS, memory=256 << 20, pruning=None):
    return Learner(
        Settings(EventSchema(), pruning=pruning or Pruning()),
        BayesOptimalNB(ATTRIBUTES, hypotheses, memory=memory),
    )


def learn(learner, events, at_once=7):
    """As a learner does that is handed events rather than records, which have no weights."""
    every = learner.settings.pruning.every
    while events:
        room = min(at_once, every - learner.model.n_events % every) if every else at_once
        part, events, before = events[:room], events[room:], learner.model.n_events
        learner.model.predict_then_learn_many(
            [e.x for e in part], [e.label for e in part], [e.weight for e in part]
        )
        learner.consumed += len(part)
        if every and learner.model.n_events > before and learner.model.n_events % every == 0:
            learner.prune()


def recounted(learner, events, recount=None):
    recount, plan = recount or Recount(), Plan.of(learner.settings, learner.model)
    for event in events:
        recount.take(event, plan)
    return recount


def differing(recount, learner):
    found = Findings()
    equal = compare(recount, State.of(learner), "state", 7, found)
    return [f.text for f in found.all()], equal.features


def learned_by(learner):
    arrays = learner.model.state()[1]
    return arrays["learned_features"], arrays["learned_features_met_once"]


def counts_of(learner):
    """How many counts there are, of pairs that were met once too."""
    table, once = learned_by(learner)
    return np.count_nonzero(table[:, COUNTS:]) + once.size


# -- keys and bins ------------------------------------------------------------------------------------------

WORDS64 = st.integers(0, 2**64 - 1)


@given(WORDS64, WORDS64)
def test_the_key_of_two_is_that_of_the_kernels(a, b):
    assert mixed(a, b) == int(feature_table.mixed(np.uint64(a), np.uint64(b)))
    assert found_by(a) == int(np.uint64(a) & feature_table.KEY_BITS)


@given(st.binary(max_size=40), st.integers(0, 70_000))
def test_the_key_of_bytes_is_that_of_the_kernels(token, group):
    buffer = np.frombuffer(b"xx" + token + tokenizer.SPARE, dtype=np.uint8)
    assert token_key(token, group) == int(tokenizer.hash_bytes(buffer, 2, 2 + len(token), group))


NUMBERS = st.one_of(
    st.integers(-3, 3).map(float),
    st.floats(-1e140, 1e140),
    st.sampled_from([0.0, -0.0, 5e-324, -5e-324, 1e-310, 1.0, 1.0 + 2**-52]),
)
STREAMS = st.one_of(
    st.lists(NUMBERS, max_size=300),
    st.tuples(st.integers(0, 99), st.sampled_from([2, 16, 17, 40, 900, 10**6]), st.integers(1, 2100)).map(
        lambda t: [float(random.Random(t[0] + i).randrange(t[1])) / 8 for i in range(t[2])]
    ),
)


def noted(bins, f, value):
    """Learn a value, with room for it."""
    bins.room(f + 1, 4000)
    note_value(bins.tables, f, value)


@settings(max_examples=60)
@given(STREAMS)
def test_bins_and_codes_are_those_of_the_kernels(values):
    bins, exact = Bins(), ExactBins()
    bins.room(1)
    for value in values:
        noted(bins, 0, value)
        exact.learn(value)
    tables, state = bins.tables, bins.state()
    assert exact.learned == tables.learned[0]
    assert (exact.codes is None) == (tables.n_codes[0] < 0)
    assert (exact.codes or []) == state["bins_codes"].tolist()
    for edges, n in zip(exact.edges, tables.n_edges[0].tolist(), strict=True):
        assert (edges is None) == (n < 0)
    assert [edge for edges in exact.edges for edge in edges or ()] == state["bins_edges"].tolist()


@pytest.mark.parametrize("different", [12, 40, 10**6])
def test_bins_for_pairs_are_in_use_once_values_are_enough(different):
    """Laid through the first 2,048, where they tell more than eight, or the codes, do."""
    rng, bins, exact = random.Random(7), Bins(), ExactBins()
    bins.room(1)
    for n in range(8200):
        for value in (0.0, 1.25, float(rng.randrange(different)) / 8):
            layouts = [layout for layout in range(4) if is_in_use(bins.tables, 0, layout)]
            assert [layout for layout, _ in exact.bins(value)] == layouts
        assert (PAIRED in layouts) == (n >= 8192 and different > 12)
        noted(bins, 0, value)
        exact.learn(value)
    tables = bins.tables
    assert exact.learned == tables.learned[0] == 8192
    n, first = int(tables.n_edges[0, PAIRED]), int(first_edge(tables, 0, PAIRED))
    assert (n < 0) == (different == 12)
    assert (exact.edges[PAIRED] or []) == tables.pool[first : first + max(n, 0)].tolist()


# -- counts -------------------------------------------------------------------------------------------------

WORDS = [f"w{i}" for i in range(12)] + ["Größe", "ΣΑΣ", "x_1"]
TEXTS = st.lists(st.sampled_from(WORDS), max_size=8).map(" ".join)
X = st.fixed_dictionaries(
    {},
    optional={
        "text": TEXTS,
        "title": TEXTS,
        "code": st.sampled_from(["3", 3, 3.5, True]),
        "colour": st.sampled_from(["red", "green"]),
        "flag": st.booleans(),
        "x": st.one_of(
            st.integers(-4, 4).map(float), st.sampled_from([1e200, -1e200, 1e-300, 0.1, 0.0, -0.0])
        ),
        "y": st.floats(-2.0, 2.0),
    },
)
EVENTS = st.builds(
    lambda x, label, weight: Event("e", x, label, weight),
    X,
    st.sampled_from(["a", "b", "c", None]),
    st.sampled_from([1.0, 1.0, 0.5, 3.25, 300.0, 0.0, 2.0**-10, 2.0**-12]),
)
PRUNINGS = st.builds(
    Pruning,
    every=st.sampled_from([0, 1, 3, 7]),
    min_count=st.sampled_from([0.0, 2.0]),
    drop_most_frequent=st.integers(0, 2),
    max_attributes=st.sampled_from([None, 3]),
)
MEMORIES = st.sampled_from([1, 600, 4_000, 20_000, 1 << 20])


@settings(max_examples=100)
@given(
    st.lists(EVENTS, max_size=40),
    PRUNINGS,
    MEMORIES,
    st.sampled_from(
        [
            LEARNERS,
            LEARNERS[1:],
            [Softmax(pairs=True), Pool(0.1), Hypothesis(calibrated=True)],
            [Hypothesis(density="binned")],
        ]
    ),
    st.integers(1, 9),
)
def test_a_recount_agrees_with_what_was_learned(events, pruning, memory, hypotheses, at_once):
    learner = learner_of(hypotheses, memory, pruning)
    learn(learner, events, at_once)
    texts, equal = differing(recounted(learner, events), learner)
    assert texts == []
    assert equal == counts_of(learner)


@settings(max_examples=60)
@given(st.lists(EVENTS, max_size=25), st.lists(EVENTS, max_size=25), PRUNINGS, MEMORIES, MEMORIES)
def test_a_recount_goes_on_from_a_state_and_another_budget(before, after, pruning, memory, later):
    learner = learner_of(memory=memory, pruning=pruning)
    learn(learner, before)
    whole, recount = recounted(learner, before), recount_of(State.read(learner.parts()))
    other = learner_of(memory=later, pruning=pruning)
    other.load(learner.parts())
    learn(other, after)
    for begun in (whole, recount):
        texts, equal = differing(recounted(other, after, begun), other)
        assert texts == []
        assert equal == counts_of(other)


def stream(seed, n, attributes):
    """Texts, codes, numbers of which every layout of bins comes into use, and values that tell more or less."""
    rng = random.Random(seed)
    for t in range(n):
        y = rng.choice("ab" if t < n // 3 else "abc")
        x = {
            "text": " ".join(f"w{int(rng.expovariate(0.2))}" for _ in range(rng.randrange(9))),
            "n": rng.gauss(ord(y), 3.0),
            "few": float(rng.randrange(6)),
            "more": float(rng.randrange(4 if t < 40 else 60)),
        }
        x |= {f"v{i}": rng.choice([y, *"xyz"[: 2 + i % 3]]) for i in range(attributes)}
        x |= {f"same{i}": x["v0"] + "!" for i in range(3)}  # which tell the same, but for rounding
        x = {name: value for name, value in x.items() if rng.random() < 0.95}
        yield Event("e", x, None if rng.random() < 0.1 else y, rng.choice([1.0, 1.0, 2.0, 0.5]))


@pytest.mark.parametrize(("attributes", "paired"), [(2, 9), (14, 12)])
@pytest.mark.parametrize("seed", [0, 1])
def test_all_bins_and_attributes_that_are_chosen(attributes, paired, seed):
    events, learner = list(stream(seed, 2600, attributes)), learner_of()
    learn(learner, events, 100)
    recount = recounted(learner, events)
    texts, equal = differing(recount, learner)
    assert texts == []
    assert equal > 1000
    assert len(recount.features.chosen) == paired
    assert recount.features.once
    assert all(edges for edges in recount.features.bins[recount.features.fields["n"]].edges)


def test_pairs_are_taken_of_bins_for_pairs_too_once_values_are_enough():
    """Of a number with another, with a code, with a word and with the label before."""
    rng, learner, events = random.Random(4), learner_of(LEARNERS[:1]), []
    for _ in range(8400):
        y = rng.choice("ab")
        x = {"n": rng.gauss(ord(y), 3.0), "few": float(rng.randrange(4)), "v": rng.choice([y, "z"])}
        events.append(Event("e", x | ({"m": rng.gauss(0.0, 1.0)} if rng.random() < 0.3 else {}), y))
    learn(learner, events, 500)
    recount = recounted(learner, events)
    assert differing(recount, learner) == ([], counts_of(learner))
    names = [*recount.features.told, *(pair.told for pair in recount.features.once.values())]
    fine = [told for told in names if isinstance(told, Both) and "of 16" in str(told)]
    others = {str(part) for told in fine for part in told if "of 16" not in str(part)}
    assert others >= {"a", "b", "z", "0.0", "3.0"} | {f"bin {i} of 8" for i in range(8)}
    assert len(fine) > 100


def test_an_attribute_of_ever_new_values_is_not_chosen():
    """Of any label it would tell much by chance, which has to be taken off as the learner does."""
    events, rng, learner = [], random.Random(2), learner_of()
    for _ in range(290):
        y = rng.choice("ab")
        x = {f"v{i}": y if rng.random() < 0.5 else rng.choice("ab") for i in range(12)}
        events.append(Event("e", {"id": str(rng.randrange(90)), **x}, y))
    learn(learner, events)
    recount = recounted(learner, events)
    assert differing(recount, learner)[0] == []
    assert [recount.features.attribute(a) for a in recount.features.chosen] == [f"v{i}" for i in range(12)]


def test_a_budget_that_is_spent_leaves_out_what_comes_later_and_counts_what_is_there():
    events, learner = list(stream(3, 300, 2)), learner_of(memory=30_000)
    learn(learner, events)
    recount = recounted(learner, events)
    unbounded = recounted(learner_of(), events)
    assert differing(recount, learner)[0] == []
    assert 200 < len(recount.features.rows) < len(unbounded.features.rows) / 2
    assert any("count" in text for text in differing(unbounded, learner)[0])


def test_a_feature_takes_as_much_as_its_columns():
    """By the arrays: of M learners 1 + M planes of 1 + K single floats, 3 + K integers, and 27 bytes of slots."""
    made = feature_table.Features(learners=2, memory=10_000)
    made.room(3, 3, 100)
    plan = FeaturePlan.of(LEARNERS, 10_000)
    row = made.table[0, : COUNTS + 3].nbytes + made.weights[0, :, : 1 + 3].nbytes + 27
    assert plan.most(0, 0, 3) == 10_000 // row == feature_table.most_rows(made.tables, 3)
    assert plan.most_once(0, 0, 3) == 10_000 // 27 == feature_table.most_met_once(made.tables, 3)
    for size in ((40, 30), (40, 300), (40, 1_000), (1_000, 0), (20, 1)):
        made.tables.size[:] = size
        assert plan.most(*size, 3) == feature_table.most_rows(made.tables, 3)
        assert plan.most_once(*size, 3) == feature_table.most_met_once(made.tables, 3)
    assert plan.most(40, 30, 3) == (10_000 - 30 * 27) // row
    assert plan.most_once(40, 30, 3) == (10_000 - 40 * row) // 27
    assert plan.most(1_000, 0, 3) == plan.most_once(20, 1_000, 3) == 1_000


# -- pairs that were met once -------------------------------------------------------------------------------


def pair(a, b):
    return found_by(mixed(token_key(a.encode(), 0), token_key(b.encode(), 0)))


def of_text(*lines):
    """Events of a text, a label and a weight."""
    return [Event("e", {"text": text}, label, weight) for text, label, weight in lines]


def once_of(recount):
    return {str(p.told): (p.k, str(p.name)) for p in recount.features.once.values() if " " in str(p.told)}


def row_named(recount, name):
    """Counts of the row that stands for this, by class; None where there is none."""
    found = [row for row, told in enumerate(recount.features.told) if str(told) == name]
    columns = recount.features.counts
    return [sum(counts[row : row + 1]) for row in found[:1] for counts in columns] or None


def test_a_pair_has_a_row_from_its_second_event_on():
    """With the count of the first; at once where an event weighs more, or less, than one."""
    learner = learner_of(LEARNERS[:1])
    events = of_text(
        ("a b", "x", 1.0), ("b c", "y", 2.0), ("a b c", "y", 1.0), ("d e", "y", 1.0), ("d e", None, 1.0)
    )
    recount = Recount()
    for n, event in enumerate(events, 1):
        learn(learner, [event])
        recount = recounted(learner, [event], recount)
        assert differing(recount, learner) == ([], counts_of(learner))
        if n == 1:
            assert once_of(recount) == {"a b": (0, "text")}
            assert row_named(recount, "a b") is None
        if n == 2:
            assert row_named(recount, "b c") == [0, 2048]
    assert row_named(recount, "a b") == [1024, 1024]
    assert row_named(recount, "b c") == [0, 3072]
    assert once_of(recount) == {"d e": (1, "text")}
    assert recount.features.once[pair("d", "e")].k == 1
    names = [str(told) for told in recount.features.told]
    assert names.index("c") < names.index("b c") < names.index("a b")


def test_a_pair_stays_without_a_row_where_the_budget_is_spent():
    """Its later events are not counted; once there is room again it has the count of the first alone."""
    before = of_text(("a b", "x", 1.0), ("c d", "y", 1.0))
    small = learner_of(LEARNERS[:1])
    learn(small, before)
    rows = len(learned_by(small)[0])
    learner = learner_of(LEARNERS[:1], memory=100)
    learner.load(small.parts())
    recount = recounted(learner, of_text(("a b", "y", 1.0)), recounted(small, before))
    learn(learner, of_text(("a b", "y", 1.0)))
    assert len(learned_by(learner)[0]) == rows
    assert once_of(recount)["a b"] == (0, "text")
    assert differing(recount, learner) == ([], counts_of(learner))
    large = learner_of(LEARNERS[:1])
    large.load(learner.parts())
    learn(large, of_text(("a b", "y", 0.5)))
    recount = recounted(large, of_text(("a b", "y", 0.5)), recount)
    assert row_named(recount, "a b") == [1024, 512]
    assert differing(recount, large) == ([], counts_of(large))


def test_budgets_are_spent_by_pairs_met_once_too():
    """At every budget, to the byte, that is spent by 60 events, the same pairs have a row, none, or are not there."""
    events, split = list(stream(9, 60, 1)), set()
    for memory in range(3_000, 20_000, 211):
        learner = learner_of(LEARNERS[:1], memory=memory)
        learn(learner, events)
        recount = recounted(learner, events)
        assert differing(recount, learner) == ([], counts_of(learner))
        split.add((len(recount.features.rows), len(recount.features.once)))
    assert len(split) > 40
    assert all(once for _, once in split)


def test_a_pair_in_a_class_beyond_the_numbers_has_a_row_at_once():
    for k in (NO_CLASS - 1, NO_CLASS):
        recount = FeatureRecount()
        for i in range(k):
            recount.begin_class(str(i))
        plan = FeaturePlan.of(LEARNERS, 1 << 40)
        recount.take("last", 1024, [((0, "text"), ["a", "b"])], [], plan)
        assert (pair("a", "b") in recount.once) == (k < NO_CLASS)
        assert (pair("a", "b") in recount.rows) == (k == NO_CLASS)


def changed(learner, edit):
    parts = learner.parts()
    arrays = parts["model"].arrays
    arrays["learned_features_met_once"] = np.sort(edit(arrays["learned_features_met_once"].copy()))
    return State.read(parts)


def other_class(key):
    def edit(once):
        place = int(np.flatnonzero(once & feature_table.KEY_BITS == np.uint64(key))[0])
        once[place] ^= np.uint64(1 << 48)
        return once

    return edit


AT = "at journal record 7, "
ONCE = {
    "another class": (
        other_class(pair("a", "b")),
        [f"{AT}attribute 'text', feature 'a b': class of its only event y learned, x counted"],
    ),
    "left out": (
        lambda once: once[once & feature_table.KEY_BITS != np.uint64(pair("b", "c"))],
        [
            "at journal record 7: pairs met once 1 learned, 2 counted",
            f"{AT}attribute 'text', feature 'b c': class of its only event None learned, x counted",
        ],
    ),
    "one too many": (
        lambda once: np.append(once, met_once(np.uint64(5), 1)),
        [
            "at journal record 7: pairs met once 3 learned, 2 counted",
            f"{AT}feature '000000000005': class of its only event y learned, None counted",
        ],
    ),
    "one that has a row": (
        lambda once: np.append(once, met_once(np.uint64(pair("b", "b")), 1)),
        [
            "at journal record 7: pairs met once 3 learned, 2 counted",
            f"{AT}attribute 'text', feature 'b b': class of its only event y learned, None counted",
        ],
    ),
}


@pytest.mark.parametrize("name", ONCE)
def test_a_pair_met_once_that_is_another_is_told(name):
    events, learner = of_text(("a b c", "x", 1.0), ("b b", "y", 3.0)), learner_of(LEARNERS[:1])
    learn(learner, events)
    edit, expected = ONCE[name]
    recount = recounted(learner, events)
    assert differing(recount, learner)[0] == []
    found = Findings()
    compare(recount, changed(learner, edit), "state", 7, found)
    assert [f.text for f in found.all()] == expected


def test_a_pair_that_should_have_a_row_or_should_not_is_told():
    """With the count that each side has of it."""
    one, two = of_text(("a b", "x", 1.0)), of_text(("a b", "x", 1.0), ("a b", "x", 1.0))
    for learned, counted, first, second in ((one, two, None, "x"), (two, one, "x", None)):
        learner = learner_of(LEARNERS[:1])
        learn(learner, learned)
        recount, of_pair = recounted(learner, counted).features, []

        def tell(what, place, *sides, told=of_pair):
            if place.get("feature") == "a b":
                told.append((what, *sides))

        compare_features(recount, State.of(learner).features, tell)
        assert of_pair == [
            ("count", float(len(counted)), float(len(learned))),
            ("class of its only event", first, second),
        ]


@pytest.mark.parametrize("hypotheses", [[Hypothesis()], [Hypothesis(calibrated=True), Pool(0.1)]])
def test_where_nothing_learns_from_features_none_are_counted(hypotheses):
    events, learner = list(stream(3, 50, 2)), learner_of(hypotheses)
    learn(learner, events)
    recount = recounted(learner, events)
    assert recount.features is None
    assert differing(recount, learner) == ([], None)
    recount = recounted(learner_of(), events)
    assert differing(recount, learner)[0][-1] == "at journal record 7: features none learned, some counted"


# -- what is another is told --------------------------------------------------------------------------------


def test_words_in_another_order_are_other_pairs():
    """Their counts are the same."""
    events, learner = [Event("e", {"text": "a b"}, "x")], learner_of()
    learn(learner, events)
    texts, _ = differing(recounted(learner, [Event("e", {"text": "b a"}, "x")]), learner)
    assert texts == [
        f"{AT}attribute 'text', feature 'b a': class of its only event None learned, x counted",
        f"{AT}feature '{pair('a', 'b'):012x}': class of its only event x learned, None counted",
    ]
    learner = learner_of()
    learn(learner, events * 2)
    texts, _ = differing(recounted(learner, [Event("e", {"text": "b a"}, "x")] * 2), learner)
    at = "at journal record 7, attribute 'text', feature"
    assert texts == [
        f"{at} '{pair('a', 'b'):012x}', class 'x': count 2.0 learned, 0.0 counted",
        f"{at} 'b a', class 'x': count 0.0 learned, 2.0 counted",
    ]


@pytest.mark.parametrize("times", [0, 2])
@pytest.mark.parametrize("which", [5, 150, 299])
def test_an_event_that_features_learned_twice_or_not_at_all_is_told(times, which):
    """Words, classes and moments are right: the learners alone are another stream's."""
    events, learner, other = list(stream(4, 300, 2)), learner_of(), learner_of()
    which = next(i for i in range(which, 0, -1) if events[i].label and events[i].weight)
    changed = [*events[:which], *[events[which]] * times, *events[which + 1 :]]
    learn(learner, events)
    learn(other, changed)
    parts, wrong = learner.parts(), other.parts()["model"].arrays
    parts["model"].arrays.update({n: a for n, a in wrong.items() if n.startswith("learned_")})
    found = Findings()
    compare(recounted(learner, events), State.read(parts), "words", 7, found, "features")
    assert found.count("words") == 0
    assert found.count("features") > 5
    (weight,) = (f for f in found.all() if "weight that features were learned of" in f.text)
    assert weight.found - weight.expected == (times - 1) * events[which].weight


def test_features_are_named_where_a_recount_begins_with_a_state():
    """Words, values and owners are known by their keys, all else once it is met again."""
    events, learner = list(stream(5, 200, 2)), learner_of()
    learn(learner, events)
    named = recounted(learner, events).features
    begun = recount_of(State.read(learner.parts())).features
    assert begun.rows == named.rows
    for row, owner in enumerate(begun.owners):
        assert begun.owner_name(row if owner < 0 else owner) == named.owner_name(row if owner < 0 else owner)
        if begun.told[row] is not None:
            assert str(begun.told[row]) == str(named.told[row])
    words = {(name, word) for (_, name), word in recounted(learner, events).rows}
    told = {(begun.place(r)["attribute"], begun.told[r]) for r in range(len(begun.told))}
    assert words <= told
    assert {key: p.k for key, p in begun.once.items()} == {key: p.k for key, p in named.once.items()}
    assert begun.once
    recounted_on = recounted(learner, events, recount_of(State.read(learner.parts()))).features
    assert sum(told is None for told in recounted_on.told) < sum(told is None for told in begun.told) / 2


def key_twice(table):
    table[5] = table[4]
    return table


def owner_beyond(table):
    table[3, OWNER] = len(table)
    return table


def met_twice(once):
    return np.sort(np.append(once, once[0] ^ np.uint64(1 << 48)))


SHAPES = {
    "columns": ("features", lambda table: table[:, :-1]),
    "owner": ("features", owner_beyond),
    "key twice": ("features", key_twice),
    "class": ("features_met_once", lambda once: np.append(once, met_once(np.uint64(7), 3))),
    "no bit": ("features_met_once", lambda once: np.append(np.uint64(7), once)),
    "order": ("features_met_once", lambda once: once[::-1]),
    "met twice": ("features_met_once", met_twice),
    "beside a row": (
        "features_met_once",
        lambda once: np.sort(np.append(once, met_once(np.uint64(group_owner(0)), 1))),
    ),
    "type": ("features_met_once", lambda once: once.astype(np.int64)),
}


@pytest.mark.parametrize("name", SHAPES)
def test_a_state_of_another_shape_is_none(name):
    learner = learner_of()
    learn(learner, list(stream(6, 40, 2)))
    parts, (array, change) = learner.parts(), SHAPES[name]
    arrays = parts["model"].arrays
    recount_of(State.read(parts))
    arrays[f"learned_{array}"] = change(arrays[f"learned_{array}"].copy())
    with pytest.raises(SnapshotError, match=r"no state of such a learner|there twice"):
        recount_of(State.read(parts))


def test_texts_that_adjoin_make_pairs_in_order():
    """Across stopped words there are none, and none across two attributes."""
    learner = learner_of(pruning=Pruning(every=2, drop_most_frequent=1))
    events = [Event("e", {"text": "the a the b", "title": "c"}, label) for label in "xyxy"]
    learn(learner, events)
    recount = recounted(learner, events)
    assert differing(recount, learner)[0] == []
    pairs = {str(told) for told in recount.features.told if isinstance(told, tuple) and "," not in str(told)}
    assert pairs == {"the a", "a the", "the b"}
    for first, second in pairwise(["c", "the", "b a"]):
        assert f"{first} {second}" not in pairs
