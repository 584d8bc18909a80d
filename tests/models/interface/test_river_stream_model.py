"""Any classifier of River's interface as a model of the engine: order, cuts, states, and what it may lack."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from river import dummy

from streamnb import (
    BayesOptimalClassifier,
    CategoricalNB,
    MultinomialNB,
    NaiveBayes,
    SemiSupervisedNB,
    SequentialPosterior,
)
from streamnb.engine.processing.event_processor import EventProcessor
from streamnb.engine.settings import Settings
from streamnb.errors import SnapshotError
from streamnb.formats.event_schema import EventSchema
from streamnb.formats.snapshot_container import Snapshot, SnapshotPart, decode, encode, part_digest
from streamnb.models.interface.river_classifier import answer_of, state_of, teach_one
from streamnb.models.interface.river_stream_model import RiverStreamModel
from streamnb.toolbox.semi_supervised.semi_supervised_nb import BOTH, LABELLED, labelled_and_both
from tests.support.service import predictions, raw_events, records
from tests.support.states import digest

events = st.lists(
    st.tuples(
        st.fixed_dictionaries(
            {"text": st.text("abc ", max_size=6)}, optional={"n": st.sampled_from([0.5, -2.0])}
        ),
        st.sampled_from(["x", "y", "z", None]),
        st.sampled_from([0.0, 0.5, 1.0]),
    ),
    max_size=20,
)
MAKERS = {
    "naive Bayes": lambda: NaiveBayes({"text": "text"}),
    "EM": lambda: SemiSupervisedNB(NaiveBayes({"text": "text"}), 1.0, 4),
    "both": lambda: labelled_and_both(0.5, 3, 2, attributes={"text": "text"}),
    "nested": lambda: BayesOptimalClassifier(
        {"pair": labelled_and_both(0.5, 3, 1), "one": NaiveBayes(alpha=0.1)}, switching_rate=0.01
    ),
}


class Says:
    """A classifier that says what it is told to, and remembers what it was taught."""

    def __init__(self, answer=None):
        self.answer = answer or {}
        self.taught = []

    def predict_proba_one(self, x):  # noqa: ARG002
        return self.answer

    def learn_one(self, x, y):
        self.taught.append((x, y))

    def state(self):
        return {"taught": len(self.taught)}, {"n": np.zeros(len(self.taught))}

    def load_state(self, meta, arrays):  # noqa: ARG002
        self.taught = [None] * meta["taught"]


def through_a_file(model):
    whole = Snapshot(0, "0" * 64, {}, "c", {}, {"model": SnapshotPart(*model.copying().state())})
    return decode(encode(whole)).parts["model"]


def columns(stream):
    return tuple(map(list, zip(*stream, strict=True))) if stream else ([], [], [])


# -- order and cuts ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", MAKERS)
@given(stream=events, cut=st.integers(0, 20))
@settings(max_examples=20)
def test_how_a_stream_is_cut_is_unobservable(name, stream, cut):
    whole, parts = RiverStreamModel(MAKERS[name](), name), RiverStreamModel(MAKERS[name](), name)
    together = whole.predict_then_learn_many(*columns(stream))
    apart = [parts.predict_then_learn_many(*columns(part)) for part in (stream[:cut], stream[cut:])]
    assert digest(whole) == digest(parts)
    rows = [row[: len(p.classes)] for p in apart for row in p.probabilities.tolist()]
    for row, found in zip(rows, together.probabilities.tolist(), strict=True):
        assert found == row + [0.0] * (len(found) - len(row))
    assert [k for p in apart for k in p.known.tolist()] == together.known.tolist()


@given(events)
def test_naive_bayes_one_at_a_time_is_naive_bayes(stream):
    native, model = NaiveBayes({"text": "text"}), RiverStreamModel(NaiveBayes({"text": "text"}), "plain")
    expected, found = (m.predict_then_learn_many(*columns(stream)) for m in (native, model))
    assert found.classes == expected.classes
    assert found.probabilities == pytest.approx(expected.probabilities, abs=1e-15)
    assert found.known.tolist() == expected.known.tolist()
    assert found.labels() == expected.labels()
    assert model.n_events == native.n_events
    assert model.class_weights == native.class_weights
    assert digest(model.classifier) == digest(native)


def test_each_event_is_predicted_before_it_is_learned():
    model = RiverStreamModel(MultinomialNB(), "words")
    posteriors = model.predict_then_learn_many(["a", "a", "b"], ["x", "y", "y"])
    assert posteriors.labels() == [None, "x", "x"]
    assert posteriors.probabilities[1].tolist() == [1.0, 0.0]


def test_scoring_changes_nothing():
    model = RiverStreamModel(Says({"new": 0.5, "other": 0.5}), "says")
    before = digest(model)
    assert model.predict_posteriors([{}, {}]).probabilities.tolist() == [[0.5, 0.5]] * 2
    assert digest(model) == before
    assert model.classes == []


# -- states -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", MAKERS)
@given(first=events, second=events)
@settings(max_examples=20)
def test_restart_is_no_restart(name, first, second):
    model = RiverStreamModel(MAKERS[name](), name)
    model.predict_then_learn_many(*columns(first))
    loaded = RiverStreamModel(MAKERS[name](), name).load_state(*through_a_file(model))
    assert digest(loaded) == digest(model)
    answers = [m.predict_then_learn_many(*columns(second)) for m in (model, loaded)]
    assert np.array_equal(answers[0].probabilities, answers[1].probabilities)
    assert digest(loaded) == digest(model)


def test_a_copy_is_of_its_moment():
    model = RiverStreamModel(labelled_and_both(1.0, 3, 1), "both")
    model.learn_many([{"text": "a"}, {"text": "b"}], ["x", "y"])
    copy, before = model.copying(), digest(model)
    model.learn_many([{"text": "a"}, {"text": "c"}], [None, "y"])
    assert copy.advance(1)
    assert part_digest(*copy.state()) == before != digest(model)


def test_states_of_others_are_refused():
    model = RiverStreamModel(MultinomialNB(), "words")
    assert model.state()[0]["type"] == "OneAtATime"  # as in every snapshot that was ever taken
    with pytest.raises(ValueError, match="'other'"):
        model.load_state(*RiverStreamModel(MultinomialNB(), "other").state())
    with pytest.raises(ValueError, match="NaiveBayes"):
        model.load_state(*NaiveBayes().state())
    with pytest.raises(TypeError, match="PriorClassifier has no state"):
        RiverStreamModel(dummy.PriorClassifier(), "prior").state()
    with pytest.raises(TypeError, match="PriorClassifier has no state"):
        BayesOptimalClassifier([dummy.PriorClassifier()]).state()


@pytest.mark.parametrize(
    "other",
    [
        BayesOptimalClassifier({"a": NaiveBayes(), "c": NaiveBayes()}),
        BayesOptimalClassifier({"a": NaiveBayes(), "b": NaiveBayes()}, {"a": 1.0, "b": 2.0}),
        BayesOptimalClassifier({"a": NaiveBayes(), "b": NaiveBayes()}, switching_rate=0.1),
    ],
)
def test_a_mixture_takes_no_state_of_another(other):
    model = BayesOptimalClassifier({"a": NaiveBayes(), "b": NaiveBayes()})
    with pytest.raises(ValueError, match="other models, priors or switching rate"):
        model.load_state(*other.state())
    with pytest.raises(ValueError, match="NaiveBayes"):
        model.load_state(*NaiveBayes().state())


def test_a_snapshot_of_another_kind_is_told():
    learner = EventProcessor(Settings(schema=EventSchema()), RiverStreamModel(MultinomialNB(), "words"))
    other = EventProcessor(Settings(schema=EventSchema()), NaiveBayes())
    with pytest.raises(SnapshotError):
        learner.load(other.parts())
    with pytest.raises(SnapshotError):
        other.load(learner.parts())


# -- what a classifier may say, or lack -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("said", "read"),
    [
        ({"a": 3.0, "b": 1.0}, {"a": 0.75, "b": 0.25}),
        ({"a": 1e308, "b": 1e308}, {"a": 0.5, "b": 0.5}),
        ({"a": math.nan, "b": 1.0, "c": -1.0, "d": math.inf}, {"a": 0.0, "b": 1.0, "c": 0.0, "d": 0.0}),
        ({"a": 0.0}, {"a": 0.0}),
        ({}, {}),
    ],
)
def test_answers_are_made_distributions(said, read):
    assert answer_of(Says(said), {}) == read


def test_an_answer_of_nothing_is_that_of_an_empty_model():
    model = RiverStreamModel(Says({"a": 0.0, "b": math.nan}), "says")
    posteriors = model.predict_then_learn_many([{}], ["a"])
    assert posteriors.labels() == [None]
    assert posteriors.probabilities.tolist() == [[0.0, 0.0]]


def test_classes_are_those_mentioned_and_those_learned():
    model = RiverStreamModel(Says({True: 0.25, False: 0.75}), "concept")
    posteriors = model.predict_then_learn_many([{}, {}], ["odd", None])
    assert posteriors.classes == [True, False, "odd"]
    assert posteriors.known.tolist() == [2, 3]
    assert model.class_weights == {True: 0.0, False: 0.0, "odd": 1.0}
    assert RiverStreamModel(Says(), "concept").load_state(*through_a_file(model)).classes == [
        True,
        False,
        "odd",
    ]


def test_a_classifier_without_weights_learns_what_has_any_once():
    classifier = Says()
    model = RiverStreamModel(classifier, "says")
    model.learn_many([1, 2, 3, 4, 5], ["a"] * 4 + [None], [0.0, 0.5, 1.0, 7.0, 1.0])
    assert classifier.taught == [(2, "a"), (3, "a"), (4, "a")]
    assert model.n_events == 3
    assert model.class_weights == {"a": 8.5}


def test_weights_and_events_without_labels_reach_who_takes_them():
    pair = labelled_and_both(1.0, 5, 0)
    for x, y, w in [({"c": "r"}, "a", 2.0), ({"c": "g"}, "b", 0.0), ({"c": "r"}, None, 0.5)]:
        teach_one(pair, x, y, w)
    assert pair.models[LABELLED].class_weights == {"a": 2.0}
    assert pair.models[BOTH].class_weights == {"a": 2.5}
    assert pair.posterior.observations == 1  # what has no weight, or no label, weighs nobody
    pair.learn_one({"c": "g"}, "a", 0.0)
    pair.learn_unlabelled_one({"c": "g"}, 0.0)
    assert pair.posterior.observations == 1
    assert pair.models[BOTH].class_weights == {"a": 2.5}


@pytest.mark.parametrize("weight", [-1.0, math.nan, 2.0**21])
def test_weights_out_of_range_teach_nothing(weight):
    model = RiverStreamModel(MultinomialNB(), "words")
    with pytest.raises(ValueError, match="weight"):
        model.learn_many(["a"], ["x"], [weight])
    assert model.n_events == 0
    assert model.classifier.n_events == 0


def test_what_is_lacking_is_nothing_or_refused():
    model = RiverStreamModel(Says({"a": 1.0}), "says")
    assert model.explain_one({}, 3) == []
    assert (model.n_attributes, model.posterior, model.prune()) == (0, None, 0)
    with pytest.raises(ValueError, match="'says' has no vocabulary"):
        model.prune(min_count=2.0)
    assert model.n_bytes == 0
    model.learn_many([{}] * 3, ["a"] * 3)
    assert model.n_bytes == 3 * 8


def test_what_is_there_is_the_classifiers_own():
    pair = labelled_and_both(0.5, 4, 1, attributes={"text": "text"})
    model = RiverStreamModel(pair, "both")
    model.learn_many([{"text": "cash win"}, {"text": "lunch"}, {"text": "cash prize"}], ["spam", "ham", None])
    assert model.n_attributes == 4
    assert model.n_bytes == sum(m.n_bytes for m in pair.models.values())
    assert model.explain_one({"text": "cash"}, 1)[0].value == "cash"
    assert model.posterior is pair.posterior
    assert model.prune(drop_most_frequent=1) == 1


def test_a_report_shows_who_predicts_better():
    """Unlabelled events teach that "r" and "s" go together; the mixture is never ln 2 behind the better."""
    model = RiverStreamModel(labelled_and_both(1.0, 200, 1), "both")
    rng = np.random.default_rng(0)
    learner = EventProcessor(Settings(schema=EventSchema(), hypotheses=True), model)
    for i in range(300):
        k = int(rng.random() < 0.5)
        x = {f"f{j}": "rg"[int(rng.random() < (0.15, 0.85)[k])] for j in range(8)}
        model.predict_then_learn_many([x], ["ab"[k] if i % 20 == 0 else None])
    posterior = learner.report(0.0).posterior
    losses = {score.name: score.loss for score in posterior.hypotheses}
    assert losses[BOTH] < losses[LABELLED]
    assert posterior.best == BOTH
    assert posterior.loss <= losses[BOTH] + math.log(2) + 1e-12
    assert posterior.observations == 15


def test_predictions_say_how_probable_each_model_was():
    pair = labelled_and_both(1.0, 5, 1)
    model = RiverStreamModel(pair, "both")
    posteriors = model.predict_then_learn_many([{"c": "r"}, {"c": "g"}, {"c": "r"}], ["a", None, "b"])
    assert posteriors.hypotheses[0].tolist() == [0.5, 0.5]
    assert posteriors.hypotheses.shape == (3, 2)
    assert isinstance(model.posterior, SequentialPosterior)
    assert RiverStreamModel(CategoricalNB(), "c").predict_then_learn_many([{}], ["a"]).hypotheses is None


def test_a_learner_makes_no_difference_of_kinds():
    """Records in, predictions out: the same as of the native model, but for the last bits."""
    found = []
    for model in (NaiveBayes(), RiverStreamModel(NaiveBayes(), "plain")):
        learner = EventProcessor(Settings(schema=EventSchema(), evidence=3), model)
        found.append(predictions(learner.process(records(raw_events(60)), 1.0)))
    assert len(found[0]) == 60
    for native, other in zip(*found, strict=True):
        for name in ("probability", "probabilities"):
            assert other.pop(name) == pytest.approx(native.pop(name), abs=1e-12)
        assert other == native


def test_state_of_is_a_copy_of_dictionaries():
    classifier = Says()
    meta, arrays = state_of(classifier)
    meta["taught"], arrays["n"] = 9, None
    assert classifier.state()[0] == {"taught": 0}
