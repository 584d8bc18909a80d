"""A mixture of classifiers: what it reads from them, what it publishes, and the bound on what that costs."""

from __future__ import annotations

import copy
import math
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from river import base, datasets, linear_model, preprocessing, tree
from river import naive_bayes as peers

from streamnb import BayesOptimalClassifier, CategoricalNB, GaussianNB
from streamnb.scoring.prequential_scores import ESCAPE, ProgressiveValidation
from streamnb.statistics.counter_rng import uniforms

law = settings(deadline=None, max_examples=150)


class Says(base.Classifier):
    """Always the same answer; or, of a list of answers, the one whose number is x["t"]."""

    def __init__(self, answer=None):
        self.answer = answer
        self.learned = 0

    def learn_one(self, x, y):  # noqa: ARG002
        self.learned += 1

    def predict_proba_one(self, x):
        return dict(self.answer[x["t"]] if isinstance(self.answer, list) else self.answer or {})

    @property
    def _multiclass(self):
        return True


class Decides(Says):
    """Gives a label, and no probabilities."""

    def predict_proba_one(self, x):
        raise NotImplementedError

    def predict_one(self, x):  # noqa: ARG002
        return self.answer


def alone(**answers):
    return BayesOptimalClassifier({name: Says(answer) for name, answer in answers.items()})


def charged(probabilities, y):
    """The log loss of one prediction, as progressive validation charges it."""
    return -math.log(min(max(probabilities.get(y, 0.0), ESCAPE), 1.0))


def published_loss(model, stream):
    """Total log loss of the predictions made before each event was learned."""
    losses = []
    for x, y in stream:
        losses.append(charged(model.predict_proba_one(x), y))
        model.learn_one(x, y)
    return math.fsum(losses)


# -- what is read from the classifiers ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("answer", "read"),
    [
        ({"a": 0.5, "b": 0.5}, {"a": 0.5, "b": 0.5}),
        ({"a": 3.0, "b": 1.0}, {"a": 0.75, "b": 0.25}),
        ({"a": 0.1, "b": 0.1}, {"a": 0.5, "b": 0.5}),
        ({"a": 0.5}, {"a": 1.0}),
        (
            {"a": math.nan, "b": 0.2, "c": -1.0, "d": math.inf},
            {"a": ESCAPE, "b": 1.0, "c": ESCAPE, "d": ESCAPE},
        ),
        ({"a": 0.0, "b": 0.0}, {"a": 0.5, "b": 0.5}),
        ({}, {}),
    ],
    ids=str,
)
def test_an_answer_is_made_a_distribution(answer, read):
    assert alone(h=answer).predict_proba_one({}) == pytest.approx(read, rel=1e-14)


@pytest.mark.parametrize(
    ("answer", "likelihood"),
    [
        ({"y": 0.5, "z": 0.5}, 0.5),
        ({"y": 5.0, "z": 5.0}, 0.5),
        ({"y": 1e-30, "z": 1.0}, ESCAPE),
        ({"z": 1.0}, ESCAPE),
        ({"y": math.nan, "z": 1.0}, ESCAPE),
        ({"y": -0.5, "z": 1.0}, ESCAPE),
        ({"y": 0.0}, ESCAPE),
        ({}, ESCAPE),
    ],
    ids=str,
)
def test_a_classifier_is_weighed_by_what_it_gave_to_the_truth(answer, likelihood):
    model = alone(h=answer, even={"y": 0.5, "z": 0.5})
    model.learn_one({}, "y")
    assert model.posterior.losses["h"] == pytest.approx(-math.log(likelihood), rel=1e-15)
    assert model.posterior.odds("h", "even") == pytest.approx(likelihood / 0.5, rel=1e-14)


def test_one_that_gives_no_probabilities_is_certain_of_its_label():
    model = BayesOptimalClassifier(
        {"sure": Decides("a"), "mute": Decides(None), "even": Says({"a": 0.5, "b": 0.5})}
    )
    assert model.predict_proba_one({}) == pytest.approx({"a": 0.75, "b": 0.25}, rel=1e-14)
    model.learn_one({}, "b")
    assert model.posterior.losses == pytest.approx(
        {"sure": -math.log(ESCAPE), "mute": -math.log(ESCAPE), "even": math.log(2)}
    )


def test_a_label_nobody_knows_costs_all_of_them_the_same():
    model = alone(p={"a": 0.9, "b": 0.1}, q={"a": 0.1, "b": 0.9}, untrained={})
    model.learn_one({}, "new")
    assert list(model.posterior.probabilities.values()) == pytest.approx([1 / 3] * 3, rel=1e-15)
    assert model.posterior.log_evidence == pytest.approx(math.log(ESCAPE), rel=1e-15)


def test_each_is_weighed_before_it_learns():
    """After it has learned the only event it would be certain of it."""
    model = BayesOptimalClassifier({"learner": CategoricalNB(), "even": Says({"a": 0.5, "b": 0.5})})
    model.learn_one({"c": "red"}, "a")
    assert model.posterior.losses["learner"] == pytest.approx(-math.log(ESCAPE), rel=1e-15)
    assert model.models["learner"].n_events == 1
    assert model.models["even"].learned == 1


# -- modes --------------------------------------------------------------------------------------------------


def test_modes_differ_in_who_is_listened_to():
    """Posteriors .4, .3, .3 and predictions +, -, -: the lecture's example, over classifiers."""
    models = {"h1": Says({"+": 1.0}), "h2": Says({"-": 1.0}), "h3": Says({"-": 1.0})}
    prior = {"h3": 3, "h1": 4, "h2": 3}
    optimal, most_probable, gibbs = (
        BayesOptimalClassifier(copy.deepcopy(models), prior, prediction=mode)
        for mode in ("mixture", "map", "gibbs")
    )
    assert optimal.predict_proba_one({}) == pytest.approx({"+": 0.4, "-": 0.6}, rel=1e-14)
    assert optimal.predict_one({}) == "-"
    assert most_probable.predict_one({}) == "+"
    assert most_probable.predict_proba_one({})["+"] == pytest.approx(1.0, rel=1e-14)
    drawn = []
    for _ in range(4000):
        drawn.append(gibbs.predict_one({}))
        gibbs.posterior = gibbs.posterior.from_state(*next_draw(gibbs))
    wrong = drawn.count("+") / 4000  # where the truth is drawn with .4 and .6, as the posterior has it:
    gibbs_error = wrong * 0.6 + (1 - wrong) * 0.4
    standard_error = 0.2 * math.sqrt(0.4 * 0.6 / 4000)
    assert abs(gibbs_error - 0.48) < 4.9 * standard_error, "2 x .4 x .6; a false alarm in 10^6 seeds"
    assert 0.4 < gibbs_error < 2 * 0.4


def next_draw(model):
    """The state of a posterior that has seen one event more, at the same weights."""
    meta, arrays = model.posterior.state()
    arrays["observations"][0] += 1
    return meta, arrays


def test_a_gibbs_draw_is_a_function_of_seed_and_events_learned():
    def new(seed):
        models = {str(k): Says({k: 1.0}) for k in range(8)}
        return BayesOptimalClassifier(models, prediction="gibbs", seed=seed)

    def predictions(model, n):
        found = []
        for t in range(n):
            assert model.predict_one({}) == model.predict_one({"other": t})
            found.append(model.predict_one({}))
            model.learn_one({}, "nobody's")
        return found

    model = new(3)
    first = predictions(model, 20)
    assert first == [int(u * 8) for u in uniforms(3, 0, 20)]
    copied = copy.deepcopy(model)
    assert predictions(copied, 20) == predictions(model, 20) != first
    assert predictions(new(3), 20) == first
    assert predictions(new(4), 20) != first


def test_a_model_without_prior_learns_and_is_not_listened_to():
    models = {"heard": Says({"a": 0.9, "b": 0.1}), "unheard": Says({"b": 1.0, "c": 1.0})}
    model = BayesOptimalClassifier(models, {"heard": 1.0, "unheard": 0.0}, switching_rate=0.1)
    model.learn_one({}, "b")
    assert models["unheard"].learned == 1
    assert model.posterior.probabilities == {"heard": 1.0, "unheard": 0.0}
    assert model.predict_proba_one({}) == pytest.approx({"a": 0.9, "b": 0.1, "c": ESCAPE}, rel=1e-12)


# -- the bound ----------------------------------------------------------------------------------------------

LABELS = "abc"
SAID = st.sampled_from(
    [0.0, 0.0, 1.0, 0.5, 0.25, 2.0, 1e-9, 1e-15, 1e-16, 1e-300, 1e300, math.nan, math.inf, -1.0]
)
ANSWER = st.dictionaries(st.sampled_from(LABELS), SAID)


@st.composite
def scripted(draw):
    """Classifiers that may say anything, at each event, and truths that nobody may know."""
    n = draw(st.integers(0, 12))
    H = draw(st.integers(1, 4))
    models = {str(h): Says(draw(st.lists(ANSWER, min_size=n, max_size=n))) for h in range(H)}
    prior = {name: draw(st.sampled_from([1e-300, 1e-6, 1.0, 1.0, 5.0])) for name in models}
    truths = draw(st.lists(st.sampled_from(LABELS + "?"), min_size=n, max_size=n))
    rate = draw(st.sampled_from([0.0, 0.0, 1e-6, 0.05, 0.9]))
    return BayesOptimalClassifier(models, prior, rate), [({"t": t}, y) for t, y in enumerate(truths)]


@given(scripted())
@law
def test_what_is_published_costs_at_most_the_bound_more_than_any_classifier(case):
    """On arbitrary classifiers and streams, from the published predictions and an own account of each."""
    model, stream = case
    rounding = 1e-13 * (1 + len(stream)) ** 2
    own = {
        name: math.fsum(charged(BayesOptimalClassifier([said]).predict_proba_one(x), y) for x, y in stream)
        for name, said in model.models.items()
    }
    total = math.fsum(model.prior.values())
    published = published_loss(model, stream)
    assert published <= -model.posterior.log_evidence + rounding
    for name, loss in model.posterior.losses.items():
        bound = -math.log(model.prior[name] / total) - len(stream) * math.log1p(-model.switching_rate)
        assert published <= loss + bound + rounding
        assert own[name] <= loss + rounding, "alone, one that says nothing is published as even"
    assert model.posterior.regret() <= model.posterior.bound() + rounding
    if all(
        any(p > 0 for p in said.answer[x["t"]].values() if p < math.inf)
        for x, _ in stream
        for said in model.models.values()
    ):
        assert published == pytest.approx(-model.posterior.log_evidence, abs=rounding)
        assert own == pytest.approx(model.posterior.losses, abs=rounding)


def real_models():
    return {
        "logistic": preprocessing.StandardScaler() | linear_model.LogisticRegression(),
        "tree": tree.HoeffdingTreeClassifier(grace_period=50),
        "river": peers.GaussianNB(),
        "ours": GaussianNB(),
    }


@pytest.mark.parametrize("rate", [0.0, pytest.param(0.01, marks=pytest.mark.thorough)])
def test_the_bound_on_real_classifiers_and_a_real_stream(rate):
    """Phishing pages, 1,250 of them; each classifier's loss from a run of its own."""
    stream = list(datasets.Phishing())
    model = BayesOptimalClassifier(real_models(), switching_rate=rate)
    validation = ProgressiveValidation()
    for x, y in stream:
        said = model.predict_proba_one(x)
        validation.update_many(np.array([[said.get(v, 0.0) for v in (False, True)]]), np.array([int(y)]))
        model.learn_one(x, y)
    mixture = validation.cumulative().log_loss * len(stream)
    # Before the first event logistic regression alone says anything: it is charged with its weight of 1/4, and
    # published as if it had all the weight.
    assert mixture + math.log(4) == pytest.approx(-model.posterior.log_evidence, rel=1e-12)
    own = {name: published_loss(BayesOptimalClassifier([one]), stream) for name, one in real_models().items()}
    # The others are charged the escape for that event, and alone publish nothing, which costs as much.
    assert own == pytest.approx(model.posterior.losses, rel=1e-12)
    assert mixture <= min(model.posterior.losses.values()) + math.log(4) - len(stream) * math.log1p(-rate)
    assert model.posterior.regret() <= model.posterior.bound() + 1e-10, "reached at rate 0, but for rounding"


def test_switching_follows_a_changed_concept_and_the_plain_mixture_does_not():
    """y = (x > 0), and from event 1,500 on y = (x < 0), a tenth of the labels flipped; seeded figures."""
    draws = uniforms(11, 0, 6000).reshape(3000, 2)
    stream = []
    for t, (u, flip) in enumerate(draws):
        x = 2 * u - 1
        stream.append(({"x": x}, bool(((x > 0) == (t < 1500)) != (flip < 0.1))))

    class Sign(Says):
        def predict_proba_one(self, x):
            likely = (x["x"] > 0) == self.answer
            return {True: 0.9 if likely else 0.1, False: 0.1 if likely else 0.9}

    def new(rate):
        return BayesOptimalClassifier({"above": Sign(True), "below": Sign(False)}, switching_rate=rate)

    plain, switching = new(0.0), new(0.002)
    losses = {}
    for name, model in (("plain", plain), ("switching", switching)):
        first = published_loss(model, stream[:1500])
        assert model.posterior.map() == "above"
        soon = published_loss(model, stream[1500:1800])
        assert (model.posterior.probabilities["below"] > 0.99) == (name == "switching")
        losses[name] = first + soon + published_loss(model, stream[1800:])
        assert losses[name] == pytest.approx(-model.posterior.log_evidence, rel=1e-12)
    path = ["above"] * 1500 + ["below"] * 1500
    best = math.fsum(
        charged(Sign(h == "above").predict_proba_one(x), y) for h, (x, y) in zip(path, stream, strict=True)
    )
    assert losses["switching"] <= best + switching.posterior.path_bound(path)
    assert losses["switching"] < losses["plain"] - 1000


# -- as River's classifiers ---------------------------------------------------------------------------------


def test_predicting_changes_nothing():
    model = BayesOptimalClassifier(real_models(), prediction="gibbs")
    for x, y in datasets.Phishing().take(50):
        model.learn_one(x, y)
    before = pickle.dumps(model)
    for x, _ in datasets.Phishing().take(20):
        assert model.predict_proba_one(x) == model.predict_proba_one(x)
    assert pickle.dumps(model) == before


@pytest.mark.parametrize("shape", [dict, list], ids=["mapping", "sequence"])
def test_a_clone_is_untrained_and_a_copy_is_trained(shape):
    models = {"river": peers.GaussianNB(), "ours": GaussianNB()}
    model = BayesOptimalClassifier(models if shape is dict else list(models.values()), switching_rate=0.1)
    for _ in range(5):
        model.learn_one({"x": 1.0}, "a")
    clone, twin = model.clone(), model.clone(include_attributes=True)
    assert clone.predict_proba_one({"x": 1.0}) == {}
    assert clone.posterior.observations == 0
    assert clone.posterior.switching_rate == 0.1
    assert list(clone.models) == list(models) if shape is dict else len(clone.models) == 2
    assert twin.posterior == model.posterior
    assert twin.predict_proba_one({"x": 1.0}) == model.predict_proba_one({"x": 1.0}) != {}
    twin.learn_one({"x": 2.0}, "b")
    assert twin.posterior != model.posterior
    assert "b" not in model.predict_proba_one({"x": 1.0})
    assert model.clone({"switching_rate": 0.5}).posterior.switching_rate == 0.5


def test_models_of_a_sequence_are_named_by_their_class():
    model = BayesOptimalClassifier([GaussianNB(), CategoricalNB(), peers.GaussianNB()])
    assert model.posterior.hypotheses == ["GaussianNB-1", "CategoricalNB", "GaussianNB-2"]


TWICE = Says({})


@pytest.mark.parametrize(
    ("models", "keywords", "why"),
    [
        ([], {}, "at least one"),
        ([TWICE, TWICE], {}, "twice"),
        ({"a": Says({})}, {"prior": {"b": 1.0}}, "prior"),
        ({"a": Says({}), "b": Says({})}, {"prior": {"a": 1.0}}, "prior"),
        ({"a": Says({})}, {"prior": {"a": 0.0}}, "prior"),
        ({"a": Says({})}, {"switching_rate": 1.0}, "switching_rate"),
        ({"a": Says({})}, {"prediction": "best"}, "prediction"),
        ({"a": Says({})}, {"seed": None}, "seed"),
        ({"a": Says({})}, {"seed": -1}, "seed"),
    ],
    ids=[
        "none",
        "twice",
        "other prior",
        "part of a prior",
        "zero prior",
        "rate",
        "mode",
        "no seed",
        "seed below 0",
    ],
)
def test_what_cannot_be_built_is_refused(models, keywords, why):
    with pytest.raises(ValueError, match=why):
        BayesOptimalClassifier(models, **keywords)


def test_a_failing_model_leaves_the_posterior_as_it_was():
    class Fails(Says):
        def predict_proba_one(self, x):  # noqa: ARG002
            raise RuntimeError("no answer")

    model = BayesOptimalClassifier({"good": Says({"a": 1.0}), "bad": Fails()})
    with pytest.raises(RuntimeError):
        model.learn_one({}, "a")
    assert model.posterior.observations == 0
    assert model.models["good"].learned == 0


def test_what_one_model_refuses_to_learn_no_model_that_can_take_it_back_has_learned():
    class Refuses(Says):
        def learn_one(self, x, y):
            raise ValueError(f"{y} of {x}")

    counts, table = CategoricalNB(), GaussianNB()
    model = BayesOptimalClassifier([counts, table, Says(), Refuses(), Says()])
    for one in (counts, table):
        one.learn_one({"size": 1.5}, "a")
    told = [one.predict_proba_one({"size": 1.5}) for one in (counts, table, model)], model.posterior.losses
    for w in (1.0, 2.5):
        with pytest.raises(ValueError, match="b of"):
            model.learn_one({"size": 1.5}, "b", w)
    assert (counts.n_events, table.n_events, model.posterior.observations) == (1, 1, 0)
    assert told == (
        [one.predict_proba_one({"size": 1.5}) for one in (counts, table, model)],
        model.posterior.losses,
    )
