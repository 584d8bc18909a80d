"""What learns from predictions: against an oracle that knows features by name, and laws."""

from __future__ import annotations

import copy
import json
import math
import pickle
import random
from collections import Counter
from dataclasses import replace
from itertools import pairwise
from types import SimpleNamespace
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamnb import BayesOptimalNB, ByteSoftmax, Hypothesis, MondrianForest, OneDependence, Pool, Softmax
from streamnb.errors import SnapshotError, UnlearnError
from streamnb.features.keyed_hash import hash_word
from streamnb.formats.snapshot_container import Snapshot, SnapshotPart, decode, encode
from streamnb.models.mixture import adaptive_state
from streamnb.models.mixture.hypothesis_kinds import DEFAULT_HYPOTHESES
from streamnb.models.softmax import feature_table
from streamnb.models.softmax.feature_table import (
    AGE,
    LIVE,
    NOBODY,
    ONCE,
    OWNER,
    TOTAL,
    FeatureTable,
    _forget,
    add_feature,
    class_met,
    find_slot,
    is_met_once,
    met_once,
    row_bytes,
    row_in,
    rows_learned,
    slot_at,
)
from streamnb.models.softmax.quantile_bins import FIRST_EDGES, QuantileBins, bin_of, first_edge, note_value
from streamnb.scoring.prequential_scores import ESCAPE
from tests.oracles.learner_oracle import Bins as BinsByDefinition
from tests.oracles.learner_oracle import Oracle, doubt, softmax

pytestmark = pytest.mark.thorough

TEXTS = {"text", "title"}
ATTRIBUTES = {"text": "text", "title": "text", "code": "nominal"}
SOME = [
    Hypothesis("presence", alpha=0.1, calibrated=True),
    Softmax(0.6),
    Softmax(0.25, pairs=True),
    ByteSoftmax(0.6),
    Pool(0.1),
]
CALIBRATED = [
    Hypothesis("multinomial", weight=2.0),
    Hypothesis("presence", m=2.0, p=0.25, calibrated=True),
    Hypothesis("bernoulli", alpha=1e-3, calibrated=True, weight=0.5),
    Hypothesis("complement", prior={"a": 1.0, "b": 3.0}, calibrated=True),
    Pool(0.5),
    Pool(0.5, calibrated=True),
    Pool(0.25, calibrated=True, weight=2.0),
]
BINNED = [
    Hypothesis("multinomial", alpha=0.5, density="binned"),
    Hypothesis("multinomial", alpha=0.5),
    Hypothesis("bernoulli", m=2.0, density="binned", calibrated=True),
    Hypothesis("complement", prior="uniform", density="binned", weight=2.0),
    Pool(0.5),
]
MANY = [*DEFAULT_HYPOTHESES, *CALIBRATED[1:4], *BINNED[:4], Softmax(2.0, pairs=True, weight=3.0)]


def bytes_of(model):
    meta, arrays = model.state()
    return meta, {name: (array.dtype.str, array.shape, array.tobytes()) for name, array in arrays.items()}


class Watched:
    """A model, and an oracle that is asked what the model should say of each event before it is learned.

    What is counted, and what trees say, is handed to the oracle; `test_one_dependence` and
    `test_mondrian_kernels` have their own.

    Args:
        hypotheses: of the model.
        rate: of switching.
        tolerance: relative, of each probability. Corrections, and counts beside them, may be held as float32.
    """

    def __init__(self, hypotheses, rate=0.0, tolerance=1e-5, memory=256 << 20, *, caution=False):
        self.hypotheses, self.tolerance = hypotheses, tolerance
        naive = [
            replace(h, calibrated=False, density="gaussian", weight=1.0, name=h.label)
            for h in hypotheses
            if isinstance(h, Hypothesis)
        ]
        self.model = BayesOptimalNB(ATTRIBUTES, hypotheses, rate, memory=memory, floor=False, caution=caution)
        averaged = [replace(h, max_attributes=None) for h in hypotheses if isinstance(h, OneDependence)]
        forests = [h for h in hypotheses if isinstance(h, MondrianForest)]
        self.scores = BayesOptimalNB(ATTRIBUTES, [*(naive or [Hypothesis()]), *averaged, *forests])
        self.oracle = Oracle(hypotheses, TEXTS, {"code"}, rate, caution=caution)

    def joints(self, x):
        """Hypothesis -> log P_h(v, x) by counts; numbers of those that read bins by the oracle's."""
        found = self.scores.joint_log_likelihoods(x)
        numbers = {n: v for n, v in Oracle.present(x).items() if self.oracle.kind(n, v) == "continuous"}
        binned = [h.label for h in self.hypotheses if isinstance(h, Hypothesis) and h.density == "binned"]
        if not binned:
            return found
        rest, none = (
            self.scores.joint_log_likelihoods(event)
            for event in ({n: v for n, v in x.items() if n not in numbers}, {})
        )
        for label in binned:
            terms = [rest[label]]
            for name, value in numbers.items():
                told = self.oracle.by_bins(name, value)
                if told is None:  # by its Gaussian
                    alone = self.scores.joint_log_likelihoods({name: value})[label]
                    told = {k: log - none[label][k] for k, log in alone.items()}
                terms.append(told)
            found[label] = {k: math.fsum(term[k] for term in terms) for k in rest[label]}
        return found

    def meet(self, x, y=None, w=1.0):
        joints = self.joints(x)
        said, mixture = self.oracle.predict(x, [joints.get(h.label) for h in self.hypotheses])
        found = self.model.joint_log_likelihoods(x)
        for h, expected in zip(self.hypotheses, said, strict=True):
            probabilities, logs = softmax(found[h.label])
            assert probabilities == pytest.approx(expected, rel=self.tolerance, abs=1e-300), h
            if not isinstance(h, (Hypothesis, OneDependence, MondrianForest)) or getattr(
                h, "calibrated", False
            ):
                assert all(
                    abs(log - found[h.label][k]) < 1e-9 * (1 + abs(log)) for k, log in logs.items()
                )  # what is shown of those that learn from predictions are probabilities
        asked = self.model.predict_proba_one(x)
        assert asked == pytest.approx(mixture, rel=self.tolerance, abs=1e-300)
        assert not asked or sum(asked.values()) == pytest.approx(1.0, abs=1e-12)
        answer = self.model.predict_then_learn_many([x], [y], [w])
        told = dict(zip(answer.classes, answer.probabilities[0].tolist(), strict=True))
        assert {k: told[k] for k in asked} == asked  # bit for bit
        assert not any(told[k] for k in told.keys() - asked.keys())
        if y is not None and w:
            self.oracle.learn(y, w)
            self.scores.learn_one(x, y, w)


# -- against the oracle -------------------------------------------------------------------------------------

WORDS = "a b c d e Σίσυφος naïve 42".split()
BAGS = st.dictionaries(st.sampled_from(WORDS), st.sampled_from([1, 2, 0.5, 0, 300, 2.25]), max_size=4)
TEXT = st.one_of(st.lists(st.sampled_from(WORDS), max_size=9).map(" ".join), BAGS, st.text(max_size=5))
NUMBERS = st.one_of(st.integers(-3, 3), st.integers(-80, 80).map(lambda n: n / 8), st.just(math.nan))
EVENTS = st.fixed_dictionaries(
    {},
    optional={
        "text": TEXT,
        "title": TEXT,
        "code": st.sampled_from([1, 2, "1", True, None]),
        "colour": st.sampled_from(["red", "green", "RED", "", False]),
        "height": NUMBERS,
        "width": NUMBERS,
    },
)
LABELS = st.sampled_from("abc")
WEIGHTS = st.sampled_from([1, 1, 1, 2, 0.5, 3.25, 0, 300])
ROWS = st.lists(st.tuples(EVENTS, st.one_of(LABELS, LABELS, st.none()), WEIGHTS), max_size=25)
RATES = st.sampled_from([0.0, 0.01])


@settings(max_examples=60)
@given(ROWS, RATES)
def test_every_probability_is_the_oracles(rows, rate):
    watched = Watched(MANY, rate)
    for row in rows:
        watched.meet(*row)


@settings(max_examples=40)
@given(ROWS)
def test_where_no_float32_plays_a_part_digits_agree(rows):
    watched = Watched(CALIBRATED, 0.01, tolerance=1e-9)
    for row in rows:
        watched.meet(*row)


def mixed_stream(seed, n, attributes=9):
    """Texts with repeated and rare words, values of all kinds, many missing; a third class comes late."""
    rng = random.Random(seed)
    for t in range(n):
        y = rng.choice("ab" if t < n // 3 else "abc")
        away = " ab".index(y) if y in "ab" else 4
        x = {
            "text": " ".join(f"w{int(rng.expovariate(0.2)) + away}" for _ in range(rng.randrange(9))),
            "code": rng.choice([1, 2, "three"]),
            "n": rng.gauss(away, 3.0),
            "few": float(rng.randrange(6) + away),
            "more": float(rng.randrange(25)),
        }
        x |= {f"v{i}": rng.choice([y, *"xyz"[: 2 + i % 2]]) for i in range(attributes)}
        if rng.random() < 0.2:
            x["title"] = {"win": 2, "cash": 0.5, "no": 0}
        x = {name: None if rng.random() < 0.1 else value for name, value in x.items()}
        yield x, None if rng.random() < 0.1 else y, rng.choice([1, 1, 1, 2, 0.5])


@pytest.mark.parametrize(("seed", "attributes"), [(0, 3), (1, 8), (2, 14)])
def test_mixed_streams_with_few_and_with_too_many_attributes_to_pair(seed, attributes):
    """With the label there are more than twelve in the last two: then those are chosen that tell most."""
    watched = Watched([*DEFAULT_HYPOTHESES, Softmax(1.0, pairs=True)], 1e-3)
    for row in mixed_stream(seed, 320, attributes):
        watched.meet(*row)
    assert len(watched.oracle.chosen) == (8 if attributes == 3 else 12)
    assert ("nominal", "v0") in watched.oracle.chosen  # it tells; "code" and "more" tell nothing
    assert attributes < 14 or not {("nominal", "code"), ("continuous", "more")} & {*watched.oracle.chosen}


def test_classes_that_are_new_in_a_long_stream_are_doubted_as_by_definition():
    """One is met once, one three times, and one often; one attribute comes late, as does a class with it."""
    watched, rng = Watched([*DEFAULT_HYPOTHESES], 1e-3, caution=True), random.Random(4)
    doubted = set()
    for t in range(700):
        rare = {150: "once", 300: "few", 310: "few", 320: "few"}.get(t)
        y = rare or rng.choice("ab" if t < 400 or rng.random() < 0.7 else ["late"])
        x = {
            "text": " ".join(rng.choice(y) + str(rng.randrange(9)) for _ in range(4)),
            "n": rng.gauss(y == "b", 1),
        }
        if t > 350:
            x["colour"] = rng.choice(["red", y])
        watched.meet(x, y, 1 if rare else rng.choice([1, 1, 0.5, 2]))
        n = watched.oracle.class_weights
        doubted |= {k for k in n if doubt(n[k], sum(n.values()))}
    assert doubted == {"once", "few", "late"}


MAILS = [(f"please win cash prize {n % 7} now", "spam") if n % 5 == 0 else (f"lunch at {n % 9} with you", "ham")
         for n in range(2000)]  # fmt: skip
NEVER_SEEN = ["zyxqw kjhg plmokn", "asdfg hjkl zxcvb " * 3, "q", ""]


def test_one_wrong_label_of_a_new_class_does_not_draw_what_nobody_knows_to_it():
    model, trusting = (BayesOptimalNB({"text": "text"}, caution=caution) for caution in (True, False))
    for each in (model, trusting):
        each.learn_many([{"text": text} for text, _ in MAILS], [label for _, label in MAILS])
        each.learn_one({"text": "some odd message that nobody would write"}, "new")
    assert all(model.predict_proba_one({"text": text})["new"] < 0.05 for text in NEVER_SEEN)
    assert trusting.predict_proba_one({"text": NEVER_SEEN[0]})["new"] > 0.1
    for text in ("an odd message again", "one more odd message that somebody would write", "odd message"):
        model.learn_one({"text": text}, "new")
    assert model.predict_one({"text": "this odd message"}) == "new"  # it is no mistake
    assert all(model.predict_proba_one({"text": text})["new"] < 0.05 for text in NEVER_SEEN)


def test_a_state_is_as_well_read_with_caution_as_without():
    model, cautious = (BayesOptimalNB({"text": "text"}, caution=caution) for caution in (False, True))
    model.learn_many([{"text": text} for text, _ in MAILS[:300]], [label for _, label in MAILS[:300]])
    model.learn_one({"text": "odd"}, "new")
    cautious.load_state(*model.state())
    assert bytes_of(cautious) == bytes_of(model)
    assert cautious.predict_proba_one({"text": "q"})["new"] < model.predict_proba_one({"text": "q"})["new"]


def test_an_attribute_of_ever_new_values_seems_to_tell_much_and_is_not_chosen():
    """Of any label it would tell (V - 1)(K - 1) / 2N by chance."""
    watched, rng = Watched([Softmax(0.6, pairs=True)]), random.Random(2)
    for _ in range(290):
        y = rng.choice("ab")
        x = {f"v{i}": y if rng.random() < 0.5 else rng.choice("ab") for i in range(12)}
        watched.meet({"id": str(rng.randrange(90)), **x}, y)
    assert watched.oracle.chosen == [("nominal", f"v{i}") for i in range(12)]


def test_an_attribute_of_light_events_tells_no_more_for_that():
    """What it tells is a mean over the events that have it."""
    watched, rng = Watched([Softmax(0.6, pairs=True)]), random.Random(2)
    for _ in range(320):
        y, w = rng.choice("ab"), rng.choice([0.25, 2])
        x = {f"v{i}": y if rng.random() < 0.5 else rng.choice("ab") for i in range(12)}
        watched.meet({"light": None if w == 2 else rng.choice("ab"), **x}, y, w)
    assert watched.oracle.chosen == [("nominal", f"v{i}") for i in range(12)]


@pytest.mark.parametrize("late", [40, 300])
def test_an_attribute_too_many_leads_to_a_choice_only_in_the_first_events(late):
    """A thirteenth that comes when the choice has been made is not paired."""
    watched, rng = Watched([Softmax(0.6, pairs=True)]), random.Random(late)
    for t in range(340):
        y = rng.choice("ab")
        x = {f"v{i}": y if rng.random() < 0.3 else rng.choice("ab") for i in range(11)}
        if t >= late:
            x["late"] = y
        watched.meet(x, y)
        assert (watched.oracle.chosen is None) == (late + 1 <= t + 1 < 256)
    assert (("nominal", "late") in watched.oracle.chosen) == (late < 256)


def test_bins_of_all_layouts_codes_that_stay_and_codes_that_end():
    """Over a thousand different values; a code of more than sixteen values after it has become one."""
    watched, rng = Watched([Softmax(0.6), Softmax(0.25, pairs=True), Pool(0.1)]), random.Random(5)
    for t in range(1100):
        y = rng.choice("ab")
        away = float(y == "b")
        x = {
            "wide": rng.gauss(away, 2.0),
            "often": rng.choice([0.0, -0.0, 1.0, rng.random()]) + away,
            "code": rng.choice("rgb"),
            "late": float(rng.randrange(4 if t < 40 else 60)) * (1 + away),
            "code of 16": float(t % 16),
            "17 values": float(t % 17),
        }
        watched.meet({name: value for name, value in x.items() if rng.random() < 0.97}, y)
    bins = {name: part for (_, name), part in watched.oracle.bins.items()}
    assert [list(bins[name].layouts) for name in ("wide", "code of 16")] == [[8, 32, 256], []]
    assert bins["wide"].codes is bins["17 values"].codes is None
    assert len(bins["late"].codes) == 16  # of those that came later none has a code, and bins tell more
    assert bins["late"].layouts


def test_pairs_are_of_finer_bins_too_once_many_values_are_known():
    """While there is one class nothing is learned by gradient: the two agree to the last digits after it."""
    watched, rng = Watched([Softmax(0.6, pairs=True), Softmax(0.25)]), random.Random(6)
    drawn = [
        {"wide": rng.gauss(0.0, 1.0), "other": rng.random(), "late": float(rng.randrange(30)), "colour": c}
        for c in rng.choices("rg", k=8260)
    ]
    before = [{**x, "late": None} if t < 300 else x for t, x in enumerate(drawn[:8185])]
    watched.model.learn_many(before, ["a"] * len(before))
    watched.scores.learn_many(before, ["a"] * len(before))
    for x in before:
        watched.oracle.predict(x, [None, None])
        watched.oracle.learn("a", 1.0)
    found = []
    for x in drawn[8185:]:
        watched.meet(x, "ab"[(x["wide"] > 0) ^ (x["other"] > 0.5)])
        found.append({owner for _, owner, _, _ in watched.oracle.found[0] if owner[0] == "fine pair"})
    assert [len(owners) for owners in found] == [0] * 7 + [10 - 3] * 68  # all but those of the other three


def test_words_as_often_as_you_like_and_words_that_are_stopped():
    watched, rng = Watched([*DEFAULT_HYPOTHESES, Softmax(0.6, pairs=True, name="other")]), random.Random(1)
    for t in range(120):
        y = rng.choice("ab")
        words = [
            rng.choice(["the", "of", f"{y}{rng.randrange(30)}", f"c{rng.randrange(9)}"]) for _ in range(9)
        ]
        text = " ".join(words * rng.choice([1, 1, 40]))
        watched.meet({"text": text, "title": {rng.choice(words): rng.choice([0.25, 1, 255, 256, 9.5])}}, y)
        if t == 60:
            for model in (watched.model, watched.scores):
                assert model.prune(drop_most_frequent=2) == 2
            stopped = {(name, word.decode()) for (_, name), word in watched.model.statistics.stop_words()}
            assert ("text", "the") in stopped
            watched.oracle.stopped = stopped
    for text in ("the of never met", "never", "", "a1 never a1 a1"):
        watched.meet({"text": text})


def test_a_pair_says_what_neither_of_its_parts_does():
    """The label is the exclusive or of two values, and of two adjacent words."""
    model, rng = BayesOptimalNB(ATTRIBUTES, [Softmax(0.6), Softmax(0.6, pairs=True)]), random.Random(0)
    right = {h.label: 0 for h in model.hypotheses}
    for t in range(400):
        p, q = rng.choice("01"), rng.choice("01")
        x = {"p": p, "q": q} if t % 2 else {"text": f"x{p} y{q}"}
        for name, logs in model.joint_log_likelihoods(x).items():
            right[name] += t >= 200 and max(logs, key=logs.get) == (p == q)
        model.learn_one(x, p == q)
    assert right["softmax rate=0.6 pairs"] >= 195
    assert right["softmax rate=0.6"] < 140


# -- laws ---------------------------------------------------------------------------------------------------


def run(model, rows, size):
    """Probabilities by class, of a stream cut into parts of so many events."""
    answers = []
    for start in range(0, len(rows), size):
        answer = model.predict_then_learn_many(*zip(*rows[start : start + size], strict=True))
        answers += [
            {k: p for k, p in zip(answer.classes, row, strict=True) if p}
            for row in answer.probabilities.tolist()
        ]
    return answers


def assert_cuts_are_unobservable(new, rows):
    one = new()
    expected = run(one, rows, 1)
    for size in (2, 7, max(1, len(rows))):
        other = new()
        assert run(other, rows, size) == expected, size
        assert bytes_of(other) == bytes_of(one), size
    learned = new()
    learned.learn_many(*zip(*rows, strict=True)) if rows else None
    assert bytes_of(learned)[1] == bytes_of(one)[1]


@settings(max_examples=30)
@given(ROWS, st.sampled_from(["mixture", "map", "gibbs"]))
def test_how_a_stream_is_cut_is_unobservable(rows, prediction):
    assert_cuts_are_unobservable(lambda: BayesOptimalNB(ATTRIBUTES, MANY, 0.01, prediction), rows)


def test_how_a_long_stream_is_cut_is_unobservable():
    rows = list(mixed_stream(3, 400, 14))
    assert_cuts_are_unobservable(lambda: BayesOptimalNB(ATTRIBUTES, DEFAULT_HYPOTHESES), rows)


def crowded_stream(n, classes, words=3000):
    """Ever new words and ever new classes."""
    rng = random.Random(classes)
    for t in range(n):
        y = min(rng.randrange(classes), t // 5)
        text = " ".join(f"w{rng.randrange(words)}" for _ in range(12))
        yield {"text": text, "colour": rng.choice("rgb"), "n": rng.gauss(y, 1.0)}, y, 1.0


@pytest.mark.parametrize("classes", [2, 3, 40])
def test_how_a_stream_is_cut_is_unobservable_when_memory_is_short(classes):
    """What is added while there is room depends on classes met so far, not on those in the rest of a batch."""
    rows = list(crowded_stream(250, classes))
    assert_cuts_are_unobservable(lambda: BayesOptimalNB(ATTRIBUTES, SOME, memory=64 << 10), rows)


@pytest.mark.parametrize("memory", [64 << 10, 256 << 20])
@pytest.mark.parametrize("stop", [0, 1, 33, 120])
def test_a_state_goes_on_as_if_nothing_had_happened(stop, memory):
    rows = [*crowded_stream(120, 40), *mixed_stream(6, 60)] if stop == 33 else list(mixed_stream(7, 300, 14))
    new = lambda: BayesOptimalNB(ATTRIBUTES, SOME, 0.01, memory=memory)  # noqa: E731
    model = new()
    run(model, rows[:stop], 7)
    meta, arrays = model.state()
    assert json.loads(json.dumps(meta)) == meta
    written = encode(Snapshot(1, "", {}, "", {}, {"model": SnapshotPart(meta, arrays)}))
    part = decode(written).parts["model"]
    others = [
        new().load_state(part.meta, part.arrays),
        copy.deepcopy(model),
        pickle.loads(pickle.dumps(model)),  # noqa: S301
    ]
    for other in others:
        assert bytes_of(other) == bytes_of(model)
    expected = run(model, rows[stop:], 1)
    for other in others:
        assert run(other, rows[stop:], 5) == expected
        assert bytes_of(other) == bytes_of(model)


def test_a_state_is_a_copy():
    model = BayesOptimalNB(ATTRIBUTES, MANY)
    run(model, list(mixed_stream(0, 40)), 40)
    arrays = model.state()[1]
    before = {name: array.tobytes() for name, array in arrays.items()}
    run(model, list(mixed_stream(1, 40)), 40)
    assert {name: array.tobytes() for name, array in arrays.items()} == before


@settings(max_examples=30)
@given(ROWS, EVENTS)
def test_asking_changes_nothing(rows, x):
    model = BayesOptimalNB(ATTRIBUTES, MANY)
    run(model, rows, 25)
    before = bytes_of(model)
    first = model.predict_proba_one({**x, "never met": "value", "nor this": 1.5})
    run(model, [(x, None, 1.0), (x, "a", 0.0)], 1)
    assert model.predict_proba_one(x) == pytest.approx(first, rel=1e-12)  # what was never met says nothing
    assert bytes_of(model)[1] == before[1]


def test_what_was_never_met_counts_in_the_length_of_an_event():
    """It says nothing itself, and the less do the others say."""
    model = BayesOptimalNB(ATTRIBUTES, [Softmax(0.6)])
    for text, y in [("win cash", "spam"), ("see you", "ham"), ("win now", "spam"), ("at lunch", "ham")]:
        model.learn_one({"text": text}, y)
    sure, less = (model.predict_proba_one({"text": text})["spam"] for text in ("win", "win zzz yyy xxx"))
    assert sure > less > 0.5
    assert model.predict_proba_one({"text": "win", "colour": "red", "n": 1.0})["spam"] == sure


@settings(max_examples=40)
@given(ROWS, st.sampled_from([0.0, 0.01, 0.5]))
def test_the_mixture_costs_no_more_than_any_hypothesis_and_its_bound(rows, rate):
    model = BayesOptimalNB(ATTRIBUTES, MANY, rate)
    total, T, loss = math.fsum(h.weight for h in MANY), 0, 0.0
    own = dict.fromkeys(range(len(MANY)), 0.0)
    for x, y, w in rows:
        if y is None or not w:
            continue
        for h, logs in enumerate(model.joint_log_likelihoods(x).values()):
            own[h] -= math.log(max(softmax(logs)[0].get(y, 0.0), ESCAPE))
        loss -= math.log(max(model.predict_proba_one(x).get(y, 0.0), ESCAPE))
        model.learn_one(x, y, w)
        T += 1
    slack = 1e-6 * (1 + T)
    for h, losses in zip(own, model.posterior.losses.values(), strict=True):
        assert losses == pytest.approx(own[h], rel=1e-9, abs=1e-9)
        bound = own[h] + math.log(total / MANY[h].weight) - T * math.log1p(-rate)
        assert loss <= bound + slack
        assert -model.posterior.log_evidence <= bound + slack


@pytest.mark.parametrize(
    ("learned", "asked"),
    [
        (
            [Hypothesis(name="h"), Softmax(name="s")],
            [Hypothesis(calibrated=True, name="h"), Softmax(name="s")],
        ),
        ([Hypothesis(name="h"), Hypothesis(alpha=0.1, name="s")], [Hypothesis(name="h"), Softmax(name="s")]),
    ],
)
def test_a_state_of_other_learners_is_refused(learned, asked):
    """Of the same names, and so of the same posterior; kernels would read beyond its arrays."""
    model = BayesOptimalNB(ATTRIBUTES, learned)
    model.learn_one({"text": "a"}, "x")
    with pytest.raises(ValueError, match="a state of other learners"):
        BayesOptimalNB(ATTRIBUTES, asked).load_state(*model.state())


def test_values_of_two_attributes_are_two_features_even_where_one_ends_in_nothing():
    """The hash of a value takes in which attribute it is of, and how long it is, each by itself."""
    model = BayesOptimalNB({"p": "nominal", "q": "nominal"}, [Softmax()])
    model.learn_many([{"p": "v\0", "q": "w"}, {"p": "w", "q": "v"}], "ab")
    assert model._learners.features.size == 3 + 4 + 1  # owners, values, and the label before


def test_keys_that_share_a_slot_and_a_tag_are_told_apart():
    """Of their 48 bits the upper 31 are the tag; all are said to begin their chain at one slot."""
    features, keys = FeatureTable(1, 1 << 20), [np.uint64(7 << 17 | 5 + 64 * i) for i in range(20)]
    begin = np.uint64(5)
    features.reserve(2, 2, 20)
    tables = features.tables
    for i, key in enumerate(keys):
        place = find_slot(tables, key, begin)
        assert tables.slots[place] == 0
        if i % 2:
            tables.slots[place] = met_once(key, i)
        else:
            assert add_feature(tables, key, -1, place) == i // 2
    found = [tables.slots[find_slot(tables, key, begin)] for key in keys]
    assert [row_in(slot) for slot in found[::2]] == list(range(10))
    assert [(is_met_once(slot), class_met(slot)) for slot in found[1::2]] == [(1, i) for i in range(1, 20, 2)]


def test_a_feature_that_comes_back_to_its_row_before_slots_were_moved_has_one_slot():
    features, key = FeatureTable(1, 1 << 20), np.uint64(5)
    features.reserve(2, 2, 20)

    def added():
        tables = features.tables
        place = find_slot(tables, key, hash_word(tables.secret, key))
        assert slot_at(tables, place) == 0
        return add_feature(tables, key, -1, place)

    with mock.patch.object(feature_table, "_SLICE", 0):
        assert added() == 0
        _forget(np.array([0]), features.tables)
        features._lay_out(features.tables.slots, 0, forgets=True)
        assert added() == 0
    features.finish_copy()
    assert np.count_nonzero(features.tables.slots) == 1


# -- memory -------------------------------------------------------------------------------------------------


def test_when_memory_is_spent_features_stop_and_learning_goes_on():
    memory = 64 << 10
    rows = list(crowded_stream(500, 2))
    small, large = (BayesOptimalNB(ATTRIBUTES, SOME, memory=m) for m in (memory, 256 << 20))
    sizes, corrections = [], []
    for x, y, w in rows:
        for model in (small, large):
            model.learn_one(x, y, w)
        features = small._learners.features
        sizes.append(features.size)
        corrections.append(float(np.abs(features.weights).sum()))
        # Rows for the first class alone stay when there are two; slots are a power of two.
        assert len(features.table) <= memory // feature_table.row_bytes(features.weights.shape[1], 1)
        assert features.n_bytes - features.table.nbytes - features.weights.nbytes <= memory / 2
        assert features.size <= len(features.table)
        p = list(small.predict_proba_one(x).values())
        assert np.isfinite(p).all()
        assert sum(p) == pytest.approx(1.0, abs=1e-12)
    assert sizes == sorted(sizes)
    spent = sizes.index(sizes[-1])
    assert 10 < spent < 250
    assert large._learners.features.size > 3 * sizes[-1]
    assert all(a != b for a, b in pairwise(corrections[spent:]))
    assert (small.state()[1]["learned_features"][:, 2] > 0).any()


@pytest.mark.parametrize("memory", [0, 1, 4000, 5000])
def test_a_budget_for_next_to_nothing(memory):
    """Calibrators and pools go on; a regression knows how often each class is."""
    model = BayesOptimalNB(ATTRIBUTES, SOME, memory=memory)
    for p in run(model, list(mixed_stream(4, 80, 14)), 9)[1:]:
        assert sum(p.values()) == pytest.approx(1.0, abs=1e-12)
    assert model._learners.features.size <= memory // 48


def test_classes_that_come_late_widen_the_features_there_are_and_add_none():
    model = BayesOptimalNB(ATTRIBUTES, SOME, memory=64 << 10)
    run(model, list(crowded_stream(250, 2)), 10)
    before = model._learners.features.size
    run(model, [(x, f"class {t}", 1.0) for t, (x, _, _) in enumerate(crowded_stream(30, 3))], 10)
    assert model._learners.features.size == before
    assert len(model.classes) == 32


def forgotten_by_definition(arrays, most):
    """What is left of features where there may be so many: owners, the heaviest, of equals the latest."""
    table, weights = arrays["learned_features"], arrays["learned_feature_weights"]
    owners = [row for row in range(len(table)) if table[row, OWNER] == NOBODY]
    others = sorted(set(range(len(table))) - set(owners), key=lambda row: (table[row, TOTAL], row))[::-1]
    rows = sorted(owners + others[: max(0, most - len(owners))])
    numbers = {row: number for number, row in enumerate(rows)} | {NOBODY: NOBODY}
    left = table[rows]
    left[:, OWNER] = [numbers[owner] for owner in left[:, OWNER].tolist()]
    return left.tolist(), weights[:, rows].tolist(), []  # weights by learner, then by row


def features_in(arrays):
    names = ("learned_features", "learned_feature_weights", "learned_features_met_once")
    return tuple(arrays[name].tolist() for name in names)


@given(st.lists(st.sampled_from([-1, 0, 1, 2, 0xFFFF, 0x1_0000, 0x1_0002, 0x7FFF_FFFF]), max_size=30))
def test_rows_are_told_in_the_order_in_which_they_were_learned(ages):
    """Of each row the age, and -1 where it is free."""
    table = np.array([[0 if age >= 0 else -1, max(age, 0) << 32, 0] for age in ages], dtype=np.int64)
    rows = [row for row, age in enumerate(ages) if age >= 0]
    size = np.array([len(rows), 0, len(ages), NOBODY, 0, 0, max([0, *ages])])
    told = rows_learned(table.reshape(-1, 3), size)
    assert told.tolist() == sorted(rows, key=lambda row: (ages[row], row))


@pytest.mark.parametrize("most_aside", [0, 1 << 40])
def test_what_is_learned_after_a_copy_was_begun_is_not_in_it(monkeypatch, most_aside):
    """Wherever features are copied to; and after some of them were forgotten, and while others are."""
    monkeypatch.setattr(adaptive_state, "MOST_ASIDE", most_aside)
    model, stream = BayesOptimalNB(ATTRIBUTES, memory=100_000), list(crowded_stream(600, 3))
    model.keep_within(1 << 24)

    def learned(events):
        for first in range(0, len(events), 20):
            model.evict(3)
            run(model, events[first : first + 20], 20)

    learned(stream[:300])
    expected, copy = bytes_of(model), model.copying(lambda blocks: np.concatenate([*blocks]))
    age = int(model._learners.features.tables.size[AGE])
    learned(stream[300:])
    assert 0 < age < model._learners.features.tables.size[AGE]
    meta, arrays = copy.state()
    assert bytes_of(SimpleNamespace(state=lambda: (meta, arrays))) == expected
    assert bytes_of(model) != expected


@settings(max_examples=15)
@given(
    st.integers(0, 1 << 32).map(random.Random),
    st.sampled_from([20_000, 60_000, 200_000]),
    st.integers(1, 6),
    st.sampled_from([5, 14]),
    st.sampled_from([1, 20, 500, 1 << 17]),
)
def test_features_are_forgotten_as_defined_wherever_they_are(rng, memory, labels, attributes, slots):
    """One model goes on and on, its slots are moved in parts, and which were moved cannot be seen.

    Another is loaded from its state again and again: it has no free rows, and former slots seldom.
    """
    with mock.patch.object(feature_table, "_SLICE", slots):
        check_forgetting(rng, memory, labels, attributes)


def check_forgetting(rng, memory, labels, attributes):
    models = [BayesOptimalNB({"text": "text"}, memory=memory) for _ in range(2)]
    for model in models:
        model.keep_within(1 << 30)
        model._learners.features._memory[0] = memory
    ages = models[0]._learners.features.tables.size
    for step in range(40):
        events, truth, weights = [], [], []
        for _ in range(rng.randrange(1, 60)):
            words = [f"w{rng.paretovariate(0.7):.0f}" for _ in range(rng.randrange(12))]
            numbers = {f"n{i}": rng.gauss(0, 1) for i in range(attributes) if rng.random() < 0.5}
            events.append({"text": " ".join(words), "v": f"v{rng.randrange(30)}", **numbers})
            truth.append(f"k{rng.randrange(labels + step // 10)}")
            weights.append(rng.choice([0.0, 0.25, 1.0, 1.0, 3.0]))
        for model in models:
            features, known = model._learners.features, len(model.classes)
            before = model.state()[1] if features.is_short(known) and rng.random() < 0.7 else None
            model.evict(known)
            if before is not None:
                row = row_bytes(features.weights.shape[1], known)
                expected = forgotten_by_definition(before, memory * 7 // 8 // row)
                assert features_in(model.state()[1]) == expected
        one, other = (model.predict_then_learn_many(events, truth, weights) for model in models)
        assert one.probabilities.tolist() == other.probabilities.tolist()
        if rng.random() < 0.2:
            models[1].load_state(*models[1].state())
        if rng.random() < 0.1:
            copied = copy.deepcopy(models[0])
            assert bytes_of(copied) == bytes_of(models[0])
    assert bytes_of(models[0]) == bytes_of(models[1])
    assert ages[AGE] > 1
    for model in models:
        model._learners.features.finish_copy()
        assert np.count_nonzero(model._learners.features.tables.slots) == ages[[LIVE, ONCE]].sum()


def test_a_snapshot_does_not_wait_for_slots_to_be_moved():
    """They may be moved again and again, and are not while no events come."""
    model = BayesOptimalNB(ATTRIBUTES, memory=100_000)
    model.keep_within(1 << 24)
    with mock.patch.object(feature_table, "_SLICE", 0):
        run(model, list(crowded_stream(40, 3)), 20)
    assert model._learners.features.tables.former.size
    assert model.is_settled


def test_what_a_version_with_other_tables_pickled_is_refused():
    state = FeatureTable(1, 1 << 16).__getstate__()
    state["_size"] = state["_size"][:6]
    with pytest.raises(SnapshotError, match="another version of streamnb pickled this"):
        FeatureTable.__new__(FeatureTable).__setstate__(state)


# -- bins ---------------------------------------------------------------------------------------------------

ATOMS = st.one_of(
    st.integers(-5, 5).map(float),
    st.floats(-1e140, 1e140).map(lambda v: float(f"{v:.6g}")),
    st.sampled_from([0.0, -0.0, 1e140, -1e140, 1e-300]),
)


@st.composite
def values(draw):
    """So many values that a layout is just made, or just not, of mixtures of a few, of runs and of many."""
    n = draw(st.sampled_from([1, 31, 32, 33, 255, 256, 700, 1023, 1024, 2047, 2048, 2050]))
    atoms = draw(st.lists(ATOMS, min_size=1, max_size=40))
    shares = [draw(st.sampled_from([1, 1, 5, 40])) for _ in atoms]
    spread = draw(st.sampled_from([0.0, 0.0, 0.2, 0.9, 1.0]))
    rng = random.Random(draw(st.integers(0, 999)))
    drawn = rng.choices(atoms, shares, k=n)
    drawn = [round(rng.gauss(0, 1), 6) if rng.random() < spread else value for value in drawn]
    return sorted(drawn) if draw(st.booleans()) else drawn


def noted(bins, f, value):
    """Learn a value, with room for it."""
    bins.reserve(f + 1, 4000)
    note_value(bins.tables, f, value)


@settings(max_examples=80)
@given(values())
def test_bins_are_those_of_the_definition_and_stay_where_they_belong(drawn):
    bins, definition = QuantileBins(), BinsByDefinition()
    bins.reserve(3)
    for value in drawn:
        noted(bins, 1, value)
        definition.learn(value)
    tables = bins.tables
    for name in ("at", "learned", "n_edges", "n_codes"):
        assert (getattr(tables, name)[[0, 2]] == (-1 if name in {"at", "n_edges"} else 0)).all()
    codes = None if tables.n_codes[1] < 0 else bins.state()["bins_codes"].tolist()
    assert codes == definition.codes
    stops = [*FIRST_EDGES[1:]]
    for layout, (size, n) in enumerate([(8, 32), (32, 256), (256, 1024), (16, 2048)]):
        first, used = int(first_edge(tables, 1, layout)), int(tables.n_edges[1, layout])
        assert FIRST_EDGES[layout] + used <= stops[layout]
        assert used == (len(definition.layouts[size]) if size in definition.layouts else -1)
        if used < 0:
            continue
        edges = tables.pool[first : first + used].tolist()
        assert edges == definition.layouts[size]
        assert all(a < b for a, b in pairwise(edges))
        held = {}
        for value in drawn[:n]:
            held.setdefault(bin_of(tables.pool, first, first + used, value), []).append(value)
        for inside in held.values():
            if len(set(inside)) > 1:
                assert len(inside) < n / size + 8  # the last to come in had no bin of its own
                assert max(Counter(inside).values()) < 8
        if len(set(drawn[:n])) <= size:
            assert len(held) == len(set(drawn[:n]))


def test_a_value_that_occurs_often_has_a_bin_of_its_own_beside_the_next_double():
    bins, often = QuantileBins(), [1.0, math.nextafter(1.0, 2.0), math.nextafter(1.0, 0.0)]
    bins.reserve(1)
    for t in range(2048):
        noted(bins, 0, often[t % 4] if t % 4 < 3 else float(t))
    for layout in range(4):
        first, used = int(first_edge(bins.tables, 0, layout)), int(bins.tables.n_edges[0, layout])
        found = {bin_of(bins.tables.pool, first, first + used, value) for value in [*often, 3.0]}
        assert used < 0 or len(found) == 4


def test_bins_of_a_continuum_hold_equal_mass():
    rng, bins = random.Random(0), QuantileBins()
    bins.reserve(1)
    drawn = [rng.gauss(0.0, 1.0) for _ in range(2048)]
    for value in drawn:
        noted(bins, 0, value)
    for layout, size in enumerate((8, 32, 256, 16)):
        first, used = int(first_edge(bins.tables, 0, layout)), int(bins.tables.n_edges[0, layout])
        assert used == size - 1
        n = (32, 256, 1024, 2048)[layout]
        mass = np.bincount([bin_of(bins.tables.pool, first, first + used, v) for v in drawn[:n]])
        assert (mass == n // size).all()


# -- degenerate cases ---------------------------------------------------------------------------------------


@settings(max_examples=40)
@given(
    st.lists(
        st.tuples(
            EVENTS | st.fixed_dictionaries({"height": ATOMS, "text": st.just("a " * 5000)}),
            st.integers(0, 5),
            st.sampled_from([2**20, 1 / 1024, 1]),
        ),
        max_size=20,
    )
)
def test_probabilities_are_finite_and_sum_to_one_whatever_comes(rows):
    model = BayesOptimalNB(ATTRIBUTES, MANY)
    for t, p in enumerate(run(model, rows, 3)):
        assert not t or sum(p.values()) == pytest.approx(1.0, abs=1e-12)
    for name, array in model.state()[1].items():
        if name.startswith("learned_") and array.dtype.kind == "f":
            assert np.isfinite(array).all(), name
    for logs in model.joint_log_likelihoods({"text": "a b"}).values():
        assert not any(map(math.isnan, logs.values()))


def test_one_class_alone_is_certain_and_teaches_no_more_than_counts():
    watched = Watched([*DEFAULT_HYPOTHESES])
    for t in range(20):
        watched.meet({"text": f"a b{t}", "n": float(t)}, "only", 1 + t % 3)
    assert watched.model.predict_proba_one({"text": "a"}) == {"only": pytest.approx(1.0, abs=1e-12)}
    arrays = watched.model.state()[1]
    learned = [name for name in arrays if name.startswith("learned_") and "bias" in name]
    assert len(learned) == 2
    assert not any(arrays[name].any() for name in learned)
    assert (arrays["learned_powers"] == [0.5, 1.0]).all()
    watched.meet(
        {"text": "a"}, "second"
    )  # predicted by one class: the first of a class teaches nothing either
    watched.meet({"text": "a"}, "second")
    assert watched.model.state()[1]["learned_bias"].any()


def test_an_empty_model_says_nothing():
    model = BayesOptimalNB(ATTRIBUTES)
    assert model.predict_proba_one({"text": "a", "n": 1.0}) == {}
    assert model.predict_one({}) is None
    answer = model.predict_then_learn_many([{}, {"text": "a"}], [None, "x"])
    assert not answer.probabilities.any()
    assert model.predict_proba_one({}) == {"x": pytest.approx(1.0)}


def test_two_hundred_classes_and_ten_thousand_words():
    watched, rng = Watched(SOME), random.Random(0)

    def event(words, t):
        text = " ".join(f"w{int(rng.paretovariate(0.6))}" for _ in range(words))
        return {"text": text, "n": rng.gauss(t, 9.0)}

    for t in range(215):
        watched.meet(event({5: 10_000, 210: 500}.get(t, 10), t % 200), t % 200)
    model = watched.model
    assert len(model.classes) == 200
    for words in (0, 10_000):
        x = event(words, 7)
        p = np.array(list(model.predict_proba_one(x).values()))
        assert np.isfinite(p).all()
        assert p.sum() == pytest.approx(1.0, abs=1e-12)
        model.learn_one(x, 7)


def test_the_label_before_tells_where_labels_come_in_runs():
    """All else tells nothing."""
    watched, right = Watched([Softmax(0.6)]), 0
    for t in range(200):
        y = "ab"[t // 20 % 2]
        right += watched.model.predict_one({"n": 0.0}) == y
        watched.meet({"n": 0.0}, y)
    assert right > 180


def test_what_was_learned_by_gradient_is_neither_unlearned_nor_merged():
    for hypotheses in (SOME, CALIBRATED, [Softmax()], [Hypothesis(calibrated=True)]):
        model = BayesOptimalNB(ATTRIBUTES, hypotheses)
        model.learn_one({"text": "a"}, "x")
        before = bytes_of(model)
        with pytest.raises(UnlearnError, match="by gradient, as bins, or in pairs cannot be unlearned"):
            model.unlearn_one({"text": "a"}, "x")
        with pytest.raises(ValueError, match="cannot be merged"):
            model.merge(model.clone())
        assert bytes_of(model) == before


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Softmax(rate=0.0), "rate must be above zero"),
        (lambda: Softmax(rate=math.nan), "rate must be above zero"),
        (lambda: Softmax(weight=math.inf), "weight must be zero or more and finite"),
        (lambda: Pool(variance=-1.0), "variance must be above zero"),
        (lambda: BayesOptimalNB({}, [Pool(), Hypothesis()]), "a pool needs hypotheses that are calibrated"),
        (lambda: BayesOptimalNB({}, [Softmax(), Softmax()]), "two hypotheses are called 'softmax rate=0.6'"),
    ],
)
def test_what_has_no_meaning_is_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_readings_of_the_counts_are_shared():
    """A hypothesis and its calibrated form are scored once, and both say what they say alone."""
    plain, calibrated = Hypothesis("presence", alpha=0.1), Hypothesis("presence", alpha=0.1, calibrated=True)
    both, *alone = (BayesOptimalNB(ATTRIBUTES, h) for h in ([plain, calibrated], [plain], [calibrated]))
    assert len(both._readings) == 1
    for x, y, w in mixed_stream(8, 60):
        found = both.joint_log_likelihoods(x)
        for model, h in zip(alone, (plain, calibrated), strict=True):
            assert found[h.label] == model.joint_log_likelihoods(x)[h.label]
        for model in (both, *alone):
            model.learn_many([x], [y], [w])


def test_logarithms_of_counts_follow_from_the_counts():
    """A state has no such logarithms: the table of a model that loads it has every bit of them again."""
    model = BayesOptimalNB(ATTRIBUTES, [Hypothesis(), Softmax(pairs=True)])
    for x, y, w in mixed_stream(5, 120):
        model.learn_many([x], [y], [w])
    again = model.clone().load_state(*model.state())
    learned, loaded = (each._learners.features for each in (model, again))
    rows, width = len(model.state()[1]["learned_features"]), 1 + len(model.classes)
    assert learned.weights[:rows, 0].any()
    assert learned.weights[:rows, :, :width].tobytes() == loaded.weights[:rows, :, :width].tobytes()
