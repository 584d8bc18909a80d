"""scikit-learn's naive Bayes on the same rows, where the semantics agree: log likelihoods to 1e-12 relative."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn import naive_bayes as peers

from streamnb import BernoulliNB, CategoricalNB, GaussianNB, MultinomialNB
from tests.oracles.gaussian_oracle import gaussian_of

CLASSES = ["a", "b", "c"]


@pytest.fixture(params=range(4))
def rng(request):
    return np.random.default_rng(request.param)


def labels(rng, n):
    return [*CLASSES, *rng.choice(CLASSES, size=n - len(CLASSES), p=[0.6, 0.3, 0.1])]


def names(X):
    return [f"w{i}" for i in range(X.shape[1])]


def learned(model, X, y, w=None):
    for i, row in enumerate(X.tolist()):
        model.learn_one(dict(zip(names(X), row, strict=True)), y[i], 1.0 if w is None else w[i])
    return model


def assert_same(model, peer, X):
    order = [model.classes.index(label) for label in peer.classes_]
    expected = peer.predict_joint_log_proba(X)
    for row, want in zip(X.tolist(), expected, strict=True):
        joints = model.joint_log_likelihood(dict(zip(names(X), row, strict=True)))
        have = np.array(list(joints.values()))[order]
        np.testing.assert_allclose(have, want, rtol=1e-12)


@pytest.mark.parametrize("alpha", [1.0, 0.1, 1e-3])
def test_multinomial(rng, alpha):
    X = rng.poisson(0.7, size=(200, 40))
    X[:40] += np.eye(40, dtype=int)  # each word occurs, as scikit-learn counts every column as vocabulary
    y, w = labels(rng, 200), rng.integers(1, 5, size=200) / 4
    peer = peers.MultinomialNB(alpha=alpha).fit(X, y, sample_weight=w)
    assert_same(learned(MultinomialNB(alpha=alpha), X, y, w), peer, X[:50])


@pytest.mark.parametrize("alpha", [1.0, 0.1])
def test_bernoulli(rng, alpha):
    X = (rng.random((200, 40)) < rng.random(40) ** 2).astype(int)
    X[:40] |= np.eye(40, dtype=int)
    y, w = labels(rng, 200), rng.integers(1, 5, size=200) / 4
    peer = peers.BernoulliNB(alpha=alpha).fit(X, y, sample_weight=w)
    assert_same(learned(BernoulliNB(alpha=alpha), X, y, w), peer, X[:50])


@pytest.mark.parametrize("alpha", [1.0, 0.25])
def test_categorical(rng, alpha):
    X = np.column_stack([rng.integers(0, k, size=300) for k in (2, 3, 5, 9)])
    for column in range(X.shape[1]):  # every code up to the largest occurs
        X[: X[:, column].max() + 1, column] = np.arange(X[:, column].max() + 1)
    y = labels(rng, 300)
    peer = peers.CategoricalNB(alpha=alpha).fit(X, y)
    assert_same(learned(CategoricalNB(alpha=alpha), X, y), peer, X[:50])


def gaussian_peer(X, y):
    """scikit-learn's, with the variances of our rule instead of its own."""
    peer = peers.GaussianNB(var_smoothing=0).fit(X, y)
    counts = peer.class_count_
    for i in range(X.shape[1]):
        squares = peer.var_[:, i] * counts
        cells = dict(enumerate(zip(counts, peer.theta_[:, i], squares, strict=True)))
        peer.var_[:, i] = [gaussian_of(cells, k)[1] for k in cells]
    return peer


def numbers(rng, y):
    X = rng.normal(size=(len(y), 6)) * [1, 10, 0.1, 1, 5, 1] + [0, 5, 0, -3, 100, 1]
    X[np.array(y) == "b"] *= 1.5
    return X


def test_gaussian(rng):
    """Means, priors and densities are the peer's; variances lean on the pooled one."""
    y = labels(rng, 300)
    X = numbers(rng, y)
    assert_same(learned(GaussianNB(), X, y), gaussian_peer(X, y), X[:50])


def test_with_many_examples_gaussians_are_the_peers(rng):
    """The pooled variance counts for 10 examples, which is 1e-3 of the 10,000 of the rarest class."""
    y = labels(rng, 100_000)
    X = numbers(rng, y)
    model = GaussianNB()
    model.learn_many([dict(enumerate(row)) for row in X.tolist()], y)
    peer = peers.GaussianNB(var_smoothing=0).fit(X, y)
    order = [peer.classes_.tolist().index(label) for label in model.classes]
    for row, want in zip(X[:50].tolist(), peer.predict_joint_log_proba(X[:50]), strict=True):
        joints = list(model.joint_log_likelihood(dict(enumerate(row))).values())
        np.testing.assert_allclose(joints, want[order], rtol=1e-3)


def test_priors(rng):
    X = rng.poisson(1.0, size=(60, 5)) + 1
    y = labels(rng, 60)
    peer = peers.MultinomialNB(class_prior=[0.2, 0.3, 0.5]).fit(X, y)
    given = MultinomialNB(prior={"a": 2, "b": 3, "c": 5})
    assert_same(learned(given, X, y), peer, X[:20])
    uniform = peers.MultinomialNB(fit_prior=False).fit(X, y)
    assert_same(learned(MultinomialNB(prior="uniform"), X, y), uniform, X[:20])
