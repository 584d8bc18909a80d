"""`streamnb.sklearn`: scikit-learn's own checks, and what they do not ask."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import compute_sample_weight
from sklearn.utils.estimator_checks import check_estimator

from streamnb import BayesOptimalNB, BernoulliNB, GaussianNB, MultinomialNB, NaiveBayes
from streamnb import sklearn as adapter
from streamnb.sklearn import StreamClassifier

WEIGHTS_ARE_NO_REPETITIONS = {
    f"check_sample_weight_equivalence_on_{kind}_data": "what a mixture weighs hangs on the order of events"
    for kind in ("dense", "sparse")
} | {
    "check_class_weight_classifiers": "weights of 1/10000 are scaled, and a mixture compares them with examples"
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
    for made in (StreamClassifier(shuffle=False).fit(FRAME, LABELS), parts):
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
    expected = StreamClassifier(shuffle=False).fit(X, y).predict_proba(X)
    for known, asked in ((frame, X), (X, frame), (frame, frame), (frame.set_axis([7, 5, 3], axis=1), X)):
        made = StreamClassifier(shuffle=False).fit(known[:40], y[:40]).partial_fit(asked[40:], y[40:])
        assert np.array_equal(made.predict_proba(asked), expected)
        assert np.array_equal(made.predict_proba(known), expected)


def test_fit_learns_in_a_random_order_that_the_seed_decides():
    X = np.concatenate([np.random.default_rng(3).normal(k, 1, (50, 2)) for k in (0, 3)])
    y = np.repeat(["a", "b"], 50)  # sorted by label
    made = [
        StreamClassifier(BayesOptimalNB(), random_state=seed).fit(X, y).model_.digest() for seed in (0, 0, 1)
    ]
    assert made[0] == made[1] != made[2]
    assert StreamClassifier(BayesOptimalNB()).fit(X, y).model_.digest() == made[0]
    order = np.random.RandomState(0).permutation(100)
    weights = np.linspace(1, 3, 100)
    kept = StreamClassifier(BayesOptimalNB(), shuffle=False).fit(X[order], y[order], weights[order])
    shuffled = StreamClassifier(BayesOptimalNB()).fit(X, y, weights)
    assert shuffled.model_.digest() == kept.model_.digest() != made[0]


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


# Texts, sparse matrices, weights of classes


@pytest.mark.filterwarnings("ignore:X (has|does not have valid) feature names")
@pytest.mark.parametrize("model", [None, MultinomialNB(), BernoulliNB(), BayesOptimalNB()])
def test_a_list_of_strings_is_a_column_of_texts(model):
    texts = FRAME["text"].tolist()
    expected = StreamClassifier(model).fit(FRAME[["text"]], LABELS)
    for X in (
        texts,
        tuple(texts),
        FRAME["text"],
        FRAME["text"].rename("message"),
        np.array(texts),
        np.array(texts, object),
    ):
        made = StreamClassifier(model).fit(X, LABELS)
        assert made.model_.digest() == expected.model_.digest()
        assert made.n_features_in_ == 1
        assert np.array_equal(made.predict_proba(X), expected.predict_proba(FRAME[["text"]]))
        assert np.array_equal(made.predict_proba(FRAME[["text"]]), expected.predict_proba(X))
        assert made.partial_fit(X[:3], LABELS[:3]).predict(["win free"]).tolist() == ["spam"]


@pytest.mark.filterwarnings("ignore:X has feature names")
def test_a_text_that_is_missing_says_nothing():
    made = StreamClassifier().fit(["free", "noon", None, "free"], ["spam", "ham", "spam", "spam"])
    assert made.predict_proba([None, "noon"])[0].round(2).tolist() == [0.25, 0.75]
    as_column = StreamClassifier(texts="message").fit(pd.Series(["free", "noon", None, "free"]), list("shss"))
    assert as_column.predict_proba(pd.DataFrame({"message": ["free"]})).shape == (1, 2)


@pytest.mark.filterwarnings("ignore:X does not have valid feature names")
def test_what_is_neither_text_nor_table_is_refused():
    with pytest.raises(
        TypeError, match=r"one column without strings: give a data frame, such as X.to_frame\('n'\)"
    ):
        StreamClassifier().fit(pd.Series([1.0, 2.0], name="n"), ["a", "b"])
    with pytest.raises(ValueError, match="Expected 2D array"):
        StreamClassifier().fit([1.0, 2.0], ["a", "b"])
    with pytest.raises(ValueError, match="X has 1 features, but StreamClassifier is expecting 3"):
        StreamClassifier().fit(FRAME, LABELS).predict(["free"])


COUNTS = np.array(
    [[2, 0, 1, 0], [0, 3, 0, 0], [1, 0, 0, 0], [0, 0, 0, 0], [0, 1, 2, 0], [0, 1, 0, 0]] * 5, dtype=float
)
KINDS = np.array(["a", "b", "a", "c", "b", "b"] * 5)


@pytest.mark.parametrize(
    "made_of", [sparse.csr_matrix, sparse.csc_array, sparse.coo_matrix, sparse.lil_array]
)
@pytest.mark.parametrize("model", [None, MultinomialNB(), BernoulliNB(), GaussianNB(), BayesOptimalNB()])
def test_a_sparse_matrix_is_its_array(model, made_of, monkeypatch):
    monkeypatch.setattr(adapter, "_CELLS", 13)  # three rows, so that it is learned in parts
    weights = np.linspace(0.5, 2, len(KINDS))
    dense = StreamClassifier(model).fit(COUNTS, KINDS, weights)
    made = StreamClassifier(model).fit(made_of(COUNTS), KINDS, weights)
    assert made.model_.digest() == dense.model_.digest()
    for X in (COUNTS, made_of(COUNTS)):
        assert np.array_equal(made.predict_proba(X), dense.predict_proba(COUNTS))
    assert (
        made.partial_fit(made_of(COUNTS), KINDS).model_.digest()
        == dense.partial_fit(COUNTS, KINDS).model_.digest()
    )


@pytest.mark.filterwarnings("ignore:X does not have valid feature names")
def test_a_sparse_matrix_has_the_columns_of_the_frame_that_was_learned():
    frame = pd.DataFrame(COUNTS, columns=["w", "x", "y", "z"])
    for model in (MultinomialNB(), GaussianNB()):
        made = StreamClassifier(model).fit(frame, KINDS)
        assert np.array_equal(made.predict_proba(sparse.csr_array(COUNTS)), made.predict_proba(frame))


def test_counts_of_a_vectorizer_are_learned_without_making_them_dense(monkeypatch):
    texts = FRAME["text"].tolist()
    counts = CountVectorizer().fit_transform(texts)
    monkeypatch.setattr(type(counts), "toarray", None)
    model = make_pipeline(CountVectorizer(), StreamClassifier(MultinomialNB())).fit(texts, LABELS)
    assert model.predict(["win free entry", "noon"]).tolist() == ["spam", "ham"]


def test_weights_of_classes_multiply_those_of_events():
    weights = np.linspace(0.5, 2, len(LABELS))
    factors = np.where(LABELS == "spam", 3.0, 1.0)
    expected = StreamClassifier().fit(FRAME, LABELS, weights * factors).model_.digest()
    assert StreamClassifier(class_weight={"spam": 3}).fit(FRAME, LABELS, weights).model_.digest() == expected
    assert StreamClassifier(class_weight={"spam": 3}).fit(FRAME, LABELS).model_.digest() != expected
    y = np.where(np.arange(40) < 30, "ham", "spam")
    balanced = StreamClassifier(class_weight="balanced").fit(FRAME, y)
    by_hand = StreamClassifier().fit(FRAME, y, compute_sample_weight("balanced", y))
    assert balanced.model_.digest() == by_hand.model_.digest()
    numbers = StreamClassifier(class_weight={0: 2.0, 1: 1.0}).fit(COUNTS[:4], [0, 1, 0, 1])
    assert (
        numbers.model_.digest()
        == StreamClassifier().fit(COUNTS[:4], [0, 1, 0, 1], [2, 1, 2, 1]).model_.digest()
    )


def test_weights_of_classes_that_cannot_be_meant_are_refused():
    with pytest.raises(ValueError, match="class_weight: y has no label 'spma'; did you mean spam"):
        StreamClassifier(class_weight={"spma": 3}).fit(FRAME, LABELS)
    with pytest.raises(ValueError, match="'balanced' needs all labels at once"):
        StreamClassifier(class_weight="balanced").partial_fit(FRAME, LABELS)
    with pytest.raises(ValueError, match="class_weight"):
        StreamClassifier(class_weight="balance").fit(FRAME, LABELS)
    later = StreamClassifier(class_weight={"later": 2.0}).partial_fit(FRAME, LABELS)
    assert later.model_.digest() == StreamClassifier(shuffle=False).fit(FRAME, LABELS).model_.digest()


@pytest.mark.parametrize(
    ("y", "classes"),
    [
        (pd.array([3, 1, 3, 1], dtype="Int64"), [1, 3]),
        (pd.array([True, False] * 2, dtype="boolean"), [False, True]),
        (pd.array(["b", "a"] * 2, dtype="string"), ["a", "b"]),
        (pd.Categorical([3, 1, 3, 1]), [1, 3]),
        ([3.0, 1.0, 3.0, 1.0], [1.0, 3.0]),
    ],
)
def test_labels_keep_their_type(y, classes):
    for given in (y, pd.Series(y)):
        made = StreamClassifier().fit(FRAME[:4], given)
        assert made.classes_.tolist() == classes
        assert set(map(type, made.classes_.tolist())) == {type(classes[0])}
        assert made.predict(FRAME[:4]).tolist() == list(y)
