"""One-dependence estimators among other hypotheses: what of them is forgotten, refused, and handed to pools."""

from __future__ import annotations

import math
import random

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from streamnb import BayesOptimalNB, Hypothesis, OneDependence, Pool, Softmax
from streamnb.config import load
from streamnb.errors import ConfigError, UnlearnError
from streamnb.models.mixture.adaptive_state import HypothesisPlan
from streamnb.models.mixture.hypothesis_kinds import CALIBRATED, ONE_DEPENDENCE, SOFTMAX
from streamnb.models.naive_bayes import sufficient_statistics
from streamnb.scoring.prequential_scores import ESCAPE
from streamnb.statistics.memory_budget import MemoryBudget
from tests.support.states import digest, through_a_snapshot

BOTH = (OneDependence(), Hypothesis("presence"), OneDependence(prior_weight=2.0, name="eager"))
POOLED = (*BOTH, Softmax(), Hypothesis(calibrated=True), Pool())


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


def mixture(hypotheses=BOTH):
    return BayesOptimalNB({"text": "text"}, hypotheses, switching_rate=1e-3)


def test_only_predicting_teaches_nothing():
    model = mixture()
    model.learn_many(*zip(*stream(5), strict=True))
    before = digest(model)
    model.predict_posteriors([x for x, *_ in stream(6)])
    model.explain_one(stream(6)[0][0])
    model.joint_log_likelihoods({"colour": "new"})
    assert digest(model) == before


def test_words_that_are_pruned_do_not_change_which_value_is_which():
    """A model without texts has no words to prune."""
    model, bare = mixture(), mixture()
    events = stream(4)
    for part in (events[:150], events[150:]):
        model.learn_many(*zip(*part, strict=True))
        bare.learn_many(
            [{k: v for k, v in x.items() if k != "text"} for x, *_ in part],
            *zip(*[(y, w) for _, y, w in part], strict=True),
        )
        assert model.prune(min_count=3.0) > 0
    for x, *_ in events[::20]:
        assert model.joint_log_likelihoods(x)["eager"] == bare.joint_log_likelihoods(x)["eager"]


def test_the_losses_and_the_bound_are_those_of_what_it_said():
    model, loss = mixture(), 0.0
    for x, y, w in stream(3):
        if y is not None and w and y in model.classes:
            joints = model.joint_log_likelihoods(x)["eager"]
            total = np.logaddexp.reduce(list(joints.values()))
            loss -= max(joints[y] - total, math.log(ESCAPE))
        model.learn_one(x, y, w)
    newcomers = -3 * math.log(ESCAPE)  # the first event of each class, which nobody can foresee
    assert model.posterior.losses["eager"] == pytest.approx(loss + newcomers, rel=1e-9)
    assert model.posterior.regret() <= model.posterior.bound()


def test_a_pool_takes_it_in_and_what_was_learned_stays():
    plan = HypothesisPlan.from_hypotheses(POOLED)
    assert [plan.kind[i] for i in plan.opinions] == [ONE_DEPENDENCE, ONE_DEPENDENCE, SOFTMAX, CALIBRATED]
    assert HypothesisPlan.from_hypotheses((OneDependence(), Pool())).opinions.tolist() == [0]
    model = mixture()
    model.learn_one({"colour": "r"}, "a")
    with pytest.raises(UnlearnError, match="in pairs"):
        model.unlearn_one({"colour": "r"}, "a")
    with pytest.raises(ValueError, match="cannot be merged"):
        model.merge(mixture())


def test_a_state_of_others_is_refused():
    named = [
        BayesOptimalNB(None, [OneDependence(prior_weight=p, max_values=m, max_attributes=a, name="t")])
        for p, m, a in ((20.0, 127, None), (5.0, 127, None), (20.0, 9, None), (20.0, 127, 64))
    ]
    named[0].learn_one({"colour": "r"}, "a")
    for other in named[1:]:
        with pytest.raises(ValueError, match="other"):
            other.load_state(*named[0].state())
    for wrong in ({"prior_weight": 0.0}, {"prior_weight": math.nan}, {"weight": -1.0}, {"max_attributes": 0}):
        with pytest.raises(ValueError, match=r"must|max_attributes"):
            OneDependence(**wrong)


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


def counts_of(model):
    """Classes, values and pairs of its estimator."""
    return {name: array.tolist() for name, array in model._dependence.state()[1].items()}


@pytest.fixture
def slowly(monkeypatch):
    """Rows are moved three at a time to where others were forgotten."""
    monkeypatch.setattr(sufficient_statistics, "_SLICE", 400)


@pytest.mark.parametrize("most", [4, 127])
@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=STEPS)
@pytest.mark.usefixtures("slowly")
def test_what_is_forgotten_for_want_of_memory_is_still_taken_out(most, steps):
    """It counts what it counts where there is room: values that went, came again, or had no room."""
    model = mixture((OneDependence(max_values=most), Hypothesis("presence")))
    model.statistics.room = MemoryBudget(1200, 1 << 20, 2)  # a dozen rows
    roomy, live = mixture(model.hypotheses), []
    for step in [*steps, *[0] * sum(len(step) for step in steps if isinstance(step, list))]:
        if isinstance(step, list):
            model.evict(2)
            model.learn_late_many(*zip(*step, strict=True))
            roomy.learn_late_many(*zip(*step, strict=True))
            live += [(*one, model.n_prunings) for one in step]
        elif live:
            *one, prunings = live.pop(step % len(live))
            model.unlearn_many(*([part] for part in one), prunings=[prunings])
            roomy.unlearn_many(*([part] for part in one))
        assert counts_of(model) == counts_of(roomy)
    again = mixture(model.hypotheses).load_state(*through_a_snapshot(model))
    assert not np.any(again.state()[1]["trees_0_totals"])


# -- configured -------------------------------------------------------------------------------------------

CONFIGURED = [
    "log.url=sqlite:///site.db", "http.listen=", "commit.events=30", "snapshots.every_events=60", "predictions.evidence=2",
    'attributes=[{name="text", kind="text"}, {name="subject", kind="nominal", path="$.features.subject"}, {name="x", kind="continuous", path="$.features.x"}]',
    'hypotheses=[{kind="one_dependence"}, {likelihood="presence"}, {kind="pool"}]',
]  # fmt: skip


@pytest.mark.parametrize(("table", "said"), [
    ('{kind="one_dependence", alpha=2}', "expected alpha with kind"),
    ('{kind="one_dependence", prior_weight=0}', "a number from 1e-6 to 1e6"),
    ("{prior_weight=2}", 'with kind = "one_dependence" alone'),
])  # fmt: skip
def test_what_it_does_not_have_is_refused(table, said):
    with pytest.raises(ConfigError, match=said):
        load(None, {}, [f"hypotheses=[{table}]"])


def test_a_lowered_budget_drops_pairs_at_the_first_event_that_needs_more_room():
    """However the events are cut: a new value in a batch does not drop pairs before its event."""
    rng = random.Random(3)
    events = [({name: f"v{rng.randrange(20)}" for name in "abcdef"}, rng.choice("xy")) for _ in range(420)]
    events[410][0]["c"] = "new"
    found = []
    for step in (1, 20):
        model = BayesOptimalNB({}, [OneDependence(max_attributes=8)])
        model.learn_many(*zip(*events[:400], strict=True))
        before = model._dependence.memory()["pairs"].taken
        model.keep_within(1 << 20)
        for i in range(400, 420, step):
            model.learn_many(*zip(*events[i : i + step], strict=True))
        part = model.memory_use.parts["pairs"]
        assert part.taken <= part.most < before
        found.append(digest(model))
    assert found[0] == found[1]
