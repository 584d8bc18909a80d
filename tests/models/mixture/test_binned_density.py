"""Binned densities: against a recount of the bins in dictionaries, and laws."""

from __future__ import annotations

import math
import random
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamnb import BayesOptimalNB, Hypothesis, Pool, Softmax
from streamnb.errors import UnlearnError
from streamnb.models.softmax.feature_table import COUNTS
from tests.models.mixture.test_learners import (
    ATTRIBUTES,
    BINNED,
    EVENTS,
    ROWS,
    Watched,
    assert_cuts_are_unobservable,
    bytes_of,
    mixed_stream,
    run,
)
from tests.models.mixture.test_mixture_attribution import Explained, assert_adds_up

pytestmark = pytest.mark.thorough

READ = Hypothesis("presence", density="binned")
ALONE = [READ, Hypothesis("multinomial", m=2.0, density="binned", calibrated=True)]


def numbers(seed, n):
    """Numbers of which every layout comes into use, codes that stay and that end; much is missing."""
    rng = random.Random(seed)
    for t in range(n):
        y = rng.choice("ab" if t < n // 3 else "abc")
        away = float("abc".index(y))
        x = {
            "wide": rng.gauss(0.0, 1.0 + away),  # the spread tells, and no mean does
            "often": rng.choice([0.0, -0.0, 1.0, rng.random()]) + away,
            "coded": float(rng.choice([away, 0, 5])),
            "late": float(rng.randrange(4 if t < 40 else 60)) * (1 + away),
            "colour": rng.choice([y, "r", "g"]),
        }
        yield {name: v for name, v in x.items() if rng.random() < 0.9}, y, rng.choice([1, 1, 2, 0.5])


# -- against the oracle -------------------------------------------------------------------------------------


@settings(max_examples=40)
@given(ROWS, st.sampled_from([BINNED, ALONE]))
def test_every_probability_is_the_oracles(rows, hypotheses):
    watched = Watched(hypotheses, 0.01)
    for row in rows:
        watched.meet(*row)


@pytest.mark.parametrize("hypotheses", [BINNED, ALONE], ids=["beside Gaussians", "alone"])
def test_every_layout_is_read_as_soon_as_it_was_met_and_codes_as_long_as_there_is_none(hypotheses):
    watched, used = Watched(hypotheses), set()
    for row in numbers(3, 1250):
        watched.meet(*row)
        bins = watched.oracle.bins
        used.update((name, *bins["continuous", name].layouts) for name in row[0] if name != "colour")
    assert {("wide",), ("wide", 8), ("wide", 8, 32), ("wide", 8, 32, 256), ("late", 32)} <= used
    assert {layouts for layouts in used if layouts[0] == "coded"} == {("coded",)}


def test_bins_for_pairs_are_read_where_they_are_the_finest():
    """Late, and of values that were few while the other layouts were laid."""
    watched, rng = Watched([READ]), random.Random(4)
    drawn = [float(t % 17 if t < 40 else rng.randrange(3 if t < 1024 else 60)) for t in range(8250)]
    labels = [rng.choice("ab" if v % 2 else "abb") for v in drawn]
    early = 8185
    for model in (watched.model, watched.scores):
        model.learn_many([{"n": v} for v in drawn[:early]], labels[:early])
    for v, y in zip(drawn[:early], labels[:early], strict=True):
        watched.oracle.predict({"n": v}, [dict.fromkeys("ab", 0.0)])
        watched.oracle.learn(y, 1.0)
    for v, y in zip(drawn[early:], labels[early:], strict=True):
        watched.meet({"n": v}, y)
    layouts = watched.oracle.bins["continuous", "n"].layouts
    assert list(layouts) == [8, 32, 16]
    assert len(layouts[16]) > len(layouts[32])
    assert sum(watched.oracle.of_owner["bins of", "n", 16].values()) == 8250 - 8192


def test_what_was_met_before_there_were_bins_is_a_code_and_no_code_is_a_gaussian():
    """Of seventeen values the last one is neither, until the first edges are laid."""
    watched = Watched(ALONE)
    for t in range(32):
        told = watched.oracle.by_bins("n", float(t))
        assert (told is None) == (t == 0 or t >= 16)
        watched.meet({"n": float(t)}, "ab"[t % 2])
    assert list(watched.oracle.bins["continuous", "n"].layouts) == [8]
    assert watched.oracle.by_bins("n", 3.0) is None  # nothing was learned since
    watched.meet({"n": 3.0}, "a")
    assert watched.oracle.by_bins("n", 3.0)["a"] == pytest.approx(math.log(1.5 / 2))
    watched.meet({"n": 4.0})


def test_a_bin_tells_what_no_gaussian_can():
    """The one label in the middle, the other on both sides: means and spreads are alike."""
    rng = random.Random(0)
    model = BayesOptimalNB({}, [READ, replace(READ, density="gaussian")])
    right = dict.fromkeys((h.label for h in model.hypotheses), 0)
    for t in range(600):
        y = rng.choice("ab")
        n = rng.choice([-3.0, 3.0]) if y == "a" else rng.choice([-4.5, 0.0, 4.5, 0.0]) / 1.06
        x = {"n": n + rng.gauss(0.0, 0.1)}
        for name, logs in model.joint_log_likelihoods(x).items():
            right[name] += t >= 300 and max(logs, key=logs.get) == y
        model.learn_one(x, y)
    assert right["presence alpha=1 binned"] >= 280
    assert right["presence alpha=1"] < 240


# -- laws ---------------------------------------------------------------------------------------------------


@settings(max_examples=25)
@given(ROWS, st.sampled_from([BINNED, ALONE, [READ]]))
def test_how_a_stream_is_cut_is_unobservable(rows, hypotheses):
    assert_cuts_are_unobservable(lambda: BayesOptimalNB(ATTRIBUTES, hypotheses, 0.01), rows)


@pytest.mark.parametrize("memory", [16 << 10, 256 << 20])
@pytest.mark.parametrize("hypotheses", [BINNED, ALONE], ids=["beside Gaussians", "alone"])
def test_how_a_long_stream_is_cut_is_unobservable(hypotheses, memory):
    rows = [*numbers(5, 300), *mixed_stream(3, 100, 14)]
    assert_cuts_are_unobservable(lambda: BayesOptimalNB(ATTRIBUTES, hypotheses, memory=memory), rows)


@settings(max_examples=25)
@given(ROWS, ROWS, st.sampled_from([BINNED, ALONE]))
def test_a_state_goes_on_as_if_nothing_had_happened(before, after, hypotheses):
    model = BayesOptimalNB(ATTRIBUTES, hypotheses)
    run(model, [*numbers(1, 40), *before], 9)
    other = BayesOptimalNB(ATTRIBUTES, hypotheses).load_state(*model.state())
    assert bytes_of(other) == bytes_of(model)
    assert run(other, after, 4) == run(model, after, 1)
    assert bytes_of(other) == bytes_of(model)


@settings(max_examples=25)
@given(ROWS, EVENTS)
def test_asking_changes_nothing_and_what_was_never_met_says_nothing(rows, x):
    model = BayesOptimalNB(ATTRIBUTES, ALONE)
    run(model, rows, 25)
    before = bytes_of(model)[1]
    first = model.predict_proba_one({**x, "never met": "value", "nor this": 1.5})
    run(model, [(x, None, 1.0), (x, "a", 0.0)], 1)
    assert model.predict_proba_one(x) == pytest.approx(first, rel=1e-12)
    assert bytes_of(model)[1] == before


@settings(max_examples=25)
@given(ROWS, EVENTS)
def test_without_numbers_it_says_what_its_twin_says_bit_for_bit(rows, x):
    """So does one that has no twin."""
    text = lambda x: {n: v for n, v in x.items() if n not in {"height", "width"}}  # noqa: E731
    both = BayesOptimalNB(ATTRIBUTES, [READ, replace(READ, density="gaussian", name="twin")])
    alone = BayesOptimalNB(ATTRIBUTES, [READ])
    for event, y, w in rows:
        both.learn_one(text(event), y, w)
        alone.learn_one(text(event), y, w)
    said = both.joint_log_likelihoods(text(x))
    assert said[READ.label] == said["twin"] == alone.joint_log_likelihoods(text(x))[READ.label]


def test_with_a_twin_and_without_it_says_the_same_bit_for_bit():
    rows = list(numbers(7, 300))
    company = [Softmax(pairs=True), replace(READ, density="gaussian"), Pool(), READ, *ALONE[1:]]
    models = [BayesOptimalNB(ATTRIBUTES, hypotheses) for hypotheses in (ALONE, company)]
    differs = 0
    for x, y, w in rows:
        alone, among = (model.joint_log_likelihoods(x) for model in models)
        assert all(among[name] == logs for name, logs in alone.items())
        differs += among["presence alpha=1"] != among[READ.label]
        for model in models:
            model.learn_one(x, y, w)
    assert differs > 250


# -- evidence -----------------------------------------------------------------------------------------------


@settings(max_examples=25)
@given(ROWS, EVENTS, st.sampled_from([BINNED, ALONE, [READ]]))
def test_items_and_prior_add_up(rows, x, hypotheses):
    model = BayesOptimalNB(ATTRIBUTES, hypotheses, 0.01)
    run(model, [*numbers(2, 60), *rows], 25)
    assert_adds_up(model, x)
    for event, *_ in numbers(8, 5):
        assert_adds_up(model, event)


@pytest.mark.parametrize("hypotheses", [BINNED, [READ]], ids=["beside Gaussians", "alone"])
def test_every_item_is_what_the_value_added(hypotheses):
    explained = Explained(hypotheses)
    for t, row in enumerate(numbers(9, 290)):
        if t < 40 or t % 20 == 0 or t > 280:
            explained.meet(*row)
        else:
            Watched.meet(explained, *row)
            explained.flat.learn_one(*row)


# -- what is kept, and refused ------------------------------------------------------------------------------


def test_features_are_counted_where_bins_alone_need_them_and_no_pairs():
    model = BayesOptimalNB(ATTRIBUTES, [READ])
    for t in range(40):
        model.learn_one({"text": "win cash now", "n": float(t % 2), "code": "x"}, "ab"[t % 2])
    arrays = model.state()[1]
    assert arrays["learned_features_met_once"].size == 0
    owners_and_features = [(1, 3), (1, 2), (1, 1), (1, 2)]  # words, code, nominal value, label before
    assert len(arrays["learned_features"]) == sum(map(sum, owners_and_features))
    assert arrays["learned_features"][:, COUNTS:].sum() == 1024 * (40 * (1 + 3 + 2 + 2) + 39 * 2)
    assert model.n_bytes > BayesOptimalNB(ATTRIBUTES, [Hypothesis()]).n_bytes + 25_000
    with pytest.raises(UnlearnError, match="bins"):
        model.unlearn_one({"n": 1.0}, "b")


def test_a_state_of_another_density_is_refused():
    model = BayesOptimalNB(ATTRIBUTES, [replace(READ, calibrated=True, name="h")])
    other = BayesOptimalNB(ATTRIBUTES, [replace(READ, density="gaussian", calibrated=True, name="h")])
    for one, wrong in ((model, other), (other, model)):
        with pytest.raises(ValueError, match="a state of other learners"):
            wrong.load_state(*one.state())


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"half_life": 60.0}, "half_life: bins do not forget"),
        ({"density": "kernel"}, "density must be gaussian or binned, not 'kernel'"),
    ],
)
def test_what_has_no_meaning_is_refused(given, message):
    with pytest.raises(ValueError, match=message):
        replace(READ, **given)


def test_its_name_says_how_it_reads():
    assert [h.label for h in ALONE] == ["presence alpha=1 binned", "calibrated multinomial m=2 binned"]
