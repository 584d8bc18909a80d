"""Trees as hypotheses of a mixture: what each says is what `TreeAugmentedNB` says, however the stream is cut."""

from __future__ import annotations

import itertools
import math
import random

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from service import raw_events
from test_trees import snapshotted
from two_runs import run_stopped_run_again_and_verified

from streamnb import BayesOptimalNB, Hypothesis, Pool, Softmax, Tree, TreeAugmentedNB
from streamnb.cli import wiring
from streamnb.config import load
from streamnb.errors import ConfigError, UnlearnError
from streamnb.model.evaluation.progressive import ESCAPE
from streamnb.model.mixture.components import CALIBRATED, SOFTMAX, TREE
from streamnb.model.mixture.learner_state import Plan
from streamnb.model.naive_bayes import sufficient_statistics
from streamnb.model.naive_bayes.room import Room
from streamnb.wire.snapshot import part_digest

TREES = (Tree(), Hypothesis("presence"), Tree(prior_weight=2.0, name="eager"))
POOLED = (*TREES, Softmax(), Hypothesis(calibrated=True), Pool())


def stream(seed=0, n=300, *, texts=True):
    """Mixed events; a class and an attribute come late."""
    rng = random.Random(seed)
    found = []
    for i in range(n):
        y = rng.choice("abc" if i > 90 else "ba")
        hidden = rng.randrange(3)
        x = {"colour": "rgb"[hidden if rng.random() < 0.7 else rng.randrange(3)], "flag": rng.random() < 0.4}
        if i > 60:
            x["late"] = f"v{rng.randrange(40)}"
        x |= {"size": hidden * 1.5 + (y == "a"), "depth": rng.choice([None, 0.0, rng.gauss(0, 3)])}
        if texts:
            x["text"] = " ".join(rng.choices(["one", "two", "three", f"w{i}"], k=4))
        found.append((x, y if rng.random() < 0.85 else None, rng.choice([1.0, 1.0, 0.5, 0.0])))
    return found


def mixture(hypotheses=TREES):
    return BayesOptimalNB({"text": "text"}, hypotheses, switching_rate=1e-3)


def digest(model):
    return part_digest(*model.state())


def test_a_tree_in_a_mixture_says_what_it_says_alone():
    """With classes met within a batch, unlabelled events, and texts that it leaves out."""
    model, trees = mixture(), [TreeAugmentedNB({"text": "text"}), TreeAugmentedNB(prior_weight=2.0)]
    asked = stream(1, 20)
    asked += [({"colour": "never seen", "late": "nor this", "unknown": 3.0}, None, 1.0)]
    for first in range(0, 300, 75):
        part = stream()[first : first + 75]
        model.predict_then_learn_many(*zip(*part, strict=True))
        for tree in trees:
            tree.predict_then_learn_many(
                [{k: v for k, v in x.items() if k != "text"} for x, *_ in part],
                *zip(*[(y, w) for _, y, w in part], strict=True),
            )
        for x, *_ in asked:
            joints = model.joint_log_likelihoods(x)
            bare = {name: value for name, value in x.items() if name != "text"}
            for label, tree in zip(("tree prior_weight=20", "eager"), trees, strict=True):
                assert joints[label] == tree.joint_log_likelihood(bare)
                assert list(joints[label]) == model.classes
    assert set(model.classes) == {"a", "b", "c"}


@pytest.mark.parametrize("hypotheses", [TREES, POOLED], ids=["trees", "pooled"])
def test_how_a_stream_is_cut_changes_nothing_nor_does_a_restart(hypotheses):
    whole, parts = mixture(hypotheses), mixture(hypotheses)
    events = stream(2)
    expected = whole.predict_then_learn_many(*zip(*events, strict=True))
    for first, last in itertools.pairwise([0, 1, 2, 33, 34, 90, 140, 141, 300]):
        found = parts.predict_then_learn_many(*zip(*events[first:last], strict=True))
        K = len(found.classes)
        np.testing.assert_array_equal(found.probabilities, expected.probabilities[first:last, :K])
        np.testing.assert_array_equal(found.hypotheses, expected.hypotheses[first:last])
        parts = mixture(hypotheses).load_state(*snapshotted(parts))
    assert digest(parts) == digest(whole)
    assert parts.n_bytes > 0


def test_the_losses_and_the_bound_are_those_of_what_the_trees_said():
    model, alone = mixture(), TreeAugmentedNB()
    loss = 0.0
    for x, y, w in stream(3):
        bare = {name: value for name, value in x.items() if name != "text"}
        if y is not None and w and y in model.classes:
            loss -= math.log(max(alone.predict_proba_one(bare)[y], ESCAPE))
        model.learn_one(x, y, w)
        alone.learn_one(bare, y, w)
    newcomers = -3 * math.log(ESCAPE)  # the first event of each class, which nobody can foresee
    assert model.posterior.losses["tree prior_weight=20"] == pytest.approx(loss + newcomers, rel=1e-9)
    assert model.posterior.regret() <= model.posterior.bound()
    T = model.posterior.observations
    assert -model.posterior.log_evidence <= loss + newcomers + math.log(3.0) - T * math.log1p(-1e-3) + 1e-9


def test_words_that_are_pruned_do_not_change_which_value_is_which():
    model, alone = mixture(), TreeAugmentedNB()
    events = stream(4)
    for part in (events[:150], events[150:]):
        model.learn_many(*zip(*part, strict=True))
        alone.learn_many(
            [{k: v for k, v in x.items() if k != "text"} for x, *_ in part],
            *zip(*[(y, w) for _, y, w in part], strict=True),
        )
        assert model.prune(min_count=3.0) > 0
    for x, *_ in events[::20]:
        bare = {name: value for name, value in x.items() if name != "text"}
        assert model.joint_log_likelihoods(x)["tree prior_weight=20"] == alone.joint_log_likelihood(bare)


def test_only_predicting_teaches_nothing():
    model = mixture()
    model.learn_many(*zip(*stream(5), strict=True))
    before = digest(model)
    model.predict_posteriors([x for x, *_ in stream(6)])
    model.explain_one(stream(6)[0][0])
    model.joint_log_likelihoods({"colour": "new"})
    assert digest(model) == before


@pytest.mark.parametrize("hypotheses", [(Tree(),), POOLED], ids=["a tree", "pooled"])
def test_what_speaks_for_a_prediction_of_each_hypothesis_adds_up(hypotheses):
    events = stream(7)
    for h, hypothesis in enumerate(hypotheses):
        if isinstance(hypothesis, (Tree, Pool)):
            model = BayesOptimalNB({"text": "text"}, hypotheses, prediction="map")
            model.learn_many(*zip(*events, strict=True))
            model.posterior.weights.log_posterior[:] = -1e3
            model.posterior.weights.log_posterior[h] = 0.0
            for x, *_ in events[::40]:
                found = model.predict_proba_one(x)
                first, second = sorted(found, key=found.get, reverse=True)[:2]
                explained = model.explanation_one(x)
                if found[second] > 1e-9:
                    told = math.log(found[first] / found[second])
                    assert explained.log_odds == pytest.approx(told, rel=1e-6, abs=1e-6)
                assert isinstance(hypothesis, Pool) or "text" not in {i.attribute for i in explained.items}


def test_a_pool_takes_trees_in_and_what_was_learned_stays():
    plan = Plan.of(POOLED)
    assert [plan.kind[i] for i in plan.opinions] == [TREE, TREE, SOFTMAX, CALIBRATED]
    assert Plan.of((Tree(), Pool())).opinions.tolist() == [0]
    model = mixture()
    model.learn_one({"colour": "r"}, "a")
    with pytest.raises(UnlearnError, match="trees"):
        model.unlearn_one({"colour": "r"}, "a")
    with pytest.raises(ValueError, match="cannot be merged"):
        model.merge(mixture())


def test_a_state_of_other_trees_is_refused():
    named = [
        BayesOptimalNB(None, [Tree(prior_weight=p, max_values=m, name="t")])
        for p, m in ((20.0, 127), (5.0, 127), (20.0, 9))
    ]
    named[0].learn_one({"colour": "r"}, "a")
    for other in named[1:]:
        with pytest.raises(ValueError, match="other trees"):
            other.load_state(*named[0].state())
    for wrong in ({"prior_weight": 0.0}, {"prior_weight": math.nan}, {"weight": -1.0}):
        with pytest.raises(ValueError, match=r"must"):
            Tree(**wrong)


VALUES = st.fixed_dictionaries(
    {"colour": st.integers(0, 30).map(str)},
    optional={"shape": st.sampled_from("xyz"), "size": st.sampled_from([1.0, -2.5]), "text": st.sampled_from(["one", "two three"])},
)  # fmt: skip
STEPS = st.lists(
    st.lists(st.tuples(VALUES, st.sampled_from("ab"), st.sampled_from([1.0, 0.5])), min_size=1, max_size=9)
    | st.integers(0, 99),
    min_size=5,
    max_size=25,
)


def counts_of(arrays, prefix=""):
    """Of a tree's state: its classes, values and pairs."""
    return {name: arrays[prefix + name].tolist() for name in ("class_weights", "totals", "values", "pairs")}


@pytest.fixture
def slowly(monkeypatch):
    """Rows are moved three at a time to where others were forgotten."""
    monkeypatch.setattr(sufficient_statistics, "_SLICE", 400)


@pytest.mark.parametrize("most", [4, 127])
@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=STEPS)
@pytest.mark.usefixtures("slowly")
def test_what_is_forgotten_for_want_of_memory_is_still_taken_out_of_trees(most, steps):
    """Its tree counts what one alone counts of the same events: values that went, came again, or had no room."""
    model = mixture((Tree(max_values=most), Hypothesis("presence")))
    model.statistics.room = Room(1200, 1 << 20, 2)  # a dozen rows
    alone, live = TreeAugmentedNB({"text": "text"}, max_values=most), []
    for step in [*steps, *[0] * sum(len(step) for step in steps if isinstance(step, list))]:
        if isinstance(step, list):
            model.make_room(2)
            model.learn_late_many(*zip(*step, strict=True))
            alone.learn_many(*zip(*step, strict=True))
            live += [(*one, model.n_prunings) for one in step]
        elif live:
            *one, prunings = live.pop(step % len(live))
            model.unlearn_many(*([part] for part in one), prunings=[prunings])
            alone.unlearn_one(*one)
        assert counts_of(model._trees.state()[1], "0_") == counts_of(alone.state()[1])
    again = mixture(model.hypotheses).load_state(*snapshotted(model))
    assert not np.any(again.state()[1]["trees_0_totals"])


# -- configured -------------------------------------------------------------------------------------------

CONFIGURED = [
    "log.url=sqlite:///site.db", "http.listen=", "commit.events=30", "snapshots.every_events=60", "predictions.evidence=2",
    'attributes=[{name="text", kind="text"}, {name="subject", kind="nominal", path="$.features.subject"}, {name="x", kind="continuous", path="$.features.x"}]',
    'hypotheses=[{kind="tree", prior_weight=5}, {likelihood="presence"}, {kind="pool"}]',
]  # fmt: skip


def test_a_mixture_with_a_tree_is_run_stopped_run_again_and_verified(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    config = load(None, {}, CONFIGURED)
    given = [word for flag in CONFIGURED for word in ("--set", flag)]
    assert wiring.model(config).hypotheses[0] == Tree(prior_weight=5.0)
    run_stopped_run_again_and_verified(config, given, raw_events(200), capsys)


@pytest.mark.parametrize(("table", "said"), [
    ('{kind="tree", alpha=2}', "expected alpha with kind"),
    ('{kind="tree", prior_weight=0}', "a number from 1e-6 to 1e6"),
    ("{prior_weight=2}", 'with kind = "tree" or "one_dependence" alone'),
])  # fmt: skip
def test_what_a_tree_does_not_have_is_refused(table, said):
    with pytest.raises(ConfigError, match=said):
        load(None, {}, [f"hypotheses=[{table}]"])
