#!/usr/bin/env bash
# scikit-learn 1.9.1: `partial_fit` of MultinomialNB, BernoulliNB, ComplementNB and CategoricalNB accepts a label
# that `classes` does not list. With two classes its rows are learned as the FIRST class; with three or more
# they are dropped. No error and no warning in either case.
#
# One would guess: a ValueError, as GaussianNB.partial_fit raises for the same call ("The target label(s) ... do
# not exist in the initial classes"). Seen: the labels go through a binarizer that gives an unknown label a row
# of zeros. For two classes the first column is then made as one minus the second, so the unknown label becomes
# the first class. In a stream, a misspelt or new label poisons one class, and which one depends on the
# alphabet.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check scikit-learn==1.9.1 numpy==2.4.6
"$folder/venv/bin/python" -W error - <<'PYTHON'
import numpy as np
from sklearn.naive_bayes import BernoulliNB, CategoricalNB, ComplementNB, GaussianNB, MultinomialNB

X, five = np.eye(2, dtype=int), np.ones((5, 2), dtype=int)


def counts(kind, classes):
    model = kind().partial_fit(X, ["ham", "spam"], classes=classes)
    return model.partial_fit(five, ["zebra"] * 5).class_count_.tolist()


for kind in (MultinomialNB, BernoulliNB, ComplementNB, CategoricalNB):
    two, three = counts(kind, ["ham", "spam"]), counts(kind, ["ham", "other", "spam"])
    print(f"{kind.__name__}: 1 ham, 1 spam and 5 zebra -> (ham, spam) {two}; (ham, other, spam) {three}")
    assert two == [6.0, 1.0] and three == [1.0, 0.0, 1.0]

try:
    counts(GaussianNB, ["ham", "spam"])
except ValueError as error:
    print("GaussianNB, for comparison:", str(error).splitlines()[0])
else:
    raise SystemExit("GaussianNB raised nothing")
PYTHON
