"""`streamnb.sklearn`: scikit-learn's own checks, and what they do not ask."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import check_estimator

from streamnb import BayesOptimalNB, GaussianNB, NaiveBayes
from streamnb.sklearn import StreamClassifier

WEIGHTS_ARE_NO_REPETITIONS = {
    "check_sample_weight_equivalence_on_dense_data": "what a mixture weighs hangs on the order of events",
}
"""What a model that learns in order cannot: an event of weight 2 is not the event twice."""


@pytest.mark.parametrize(
    "model", [None, GaussianNB(), BayesOptimalNB()], ids=["default", "gaussian", "mixture"]
)
def test_every_check_of_scikit_learn_passes(model):
    cannot = WEIGHTS_ARE_NO_REPETITIONS if isinstance(model, BayesOptimalNB) else {}
    results = check_estimator(
        StreamClassifier(model), on_fail=None, on_skip=None, expected_failed_checks=cannot
    )
    assert len(results) > 50
    left = {one["check_name"]: one["status"] for one in results if one["status"] != "passed"}
    assert left == {"check_array_api_input": "skipped"} | dict.fromkeys(cannot, "xfail")


FRAME = pd.DataFrame(
    {
        "text": ["free entry win", "lunch at noon", "you win free", "minutes of the meeting"] * 10,
        "sender": ["x.org", "work", "x.org", None] * 10,
        "links": [3.0, 0.0, np.nan, 1.0] * 10,
    }
)
LABELS = np.array(["spam", "ham", "spam", "ham"] * 10)


def test_a_frame_of_texts_is_learned_as_the_model_alone_learns_it():
    alone = NaiveBayes()
    alone.learn_many(FRAME, LABELS.tolist())
    parts = StreamClassifier()
    for rows in (slice(0, 13), slice(13, 40)):
        parts.partial_fit(FRAME[rows], LABELS[rows])
    for made in (StreamClassifier().fit(FRAME, LABELS), parts):
        assert made.classes_.tolist() == ["ham", "spam"]
        assert made.model_.digest() == alone.digest()
        expected = alone.predict_proba_many(FRAME)[["ham", "spam"]].to_numpy()
        assert np.array_equal(made.predict_proba(FRAME), expected)
        assert made.score(FRAME, LABELS) == 1.0


@pytest.mark.filterwarnings("ignore:X (has|does not have valid) feature names")
def test_where_one_side_has_no_names_columns_go_by_their_places():
    X = np.random.default_rng(1).normal(size=(60, 3)) + np.repeat([[0, 2, 4]], 20, axis=0).reshape(-1, 1)
    y = np.repeat(["a", "b", "c"], 20)
    frame = pd.DataFrame(X, columns=["x", "y", "z"])
    expected = StreamClassifier().fit(X, y).predict_proba(X)
    for known, asked in ((frame, X), (X, frame), (frame, frame), (frame.set_axis([7, 5, 3], axis=1), X)):
        made = StreamClassifier().fit(known[:40], y[:40]).partial_fit(asked[40:], y[40:])
        assert np.array_equal(made.predict_proba(asked), expected)
        assert np.array_equal(made.predict_proba(known), expected)


def test_a_class_that_was_named_and_never_came_has_a_column_of_zeros():
    made = StreamClassifier().partial_fit(FRAME[:1], LABELS[:1], classes=["ham", "later", "spam"])
    assert made.predict_proba(FRAME[:2]).tolist() == [[0.0, 0.0, 1.0]] * 2
    made.partial_fit(FRAME, np.where(LABELS == "ham", "ham", "quite new"))
    assert made.classes_.tolist() == ["ham", "later", "quite new", "spam"]
    assert np.allclose(made.predict_proba(FRAME).sum(axis=1), 1.0)


def test_pipelines_and_cross_validation_take_it():
    rng = np.random.default_rng(1)
    X, y = np.vstack([rng.normal(0, 1, (60, 3)), rng.normal(3, 1, (60, 3))]), np.repeat([0, 1], 60)
    model = make_pipeline(StandardScaler(), StreamClassifier(GaussianNB()))
    assert cross_val_score(model, X, y, cv=3).mean() > 0.95


def test_what_was_pickled_goes_on_learning(tmp_path):
    joblib = pytest.importorskip("joblib")
    made = StreamClassifier().fit(FRAME, LABELS)
    joblib.dump(made, tmp_path / "m")
    again = joblib.load(tmp_path / "m", mmap_mode="r")
    for one in (made, again):
        one.partial_fit(FRAME[:3], LABELS[:3])
    assert again.model_.digest() == made.model_.digest()
