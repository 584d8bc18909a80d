"""What the public classifiers of `streamnb` predict before they learn each event, one at a time or many at once."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

from tests.golden.golden_models import chain, made_up, rounded

SOME = 80


def _examples():
    for raw in made_up(150, 21, labelled=1.0):
        try:
            event = json.loads(raw)
        except ValueError:
            continue
        yield {"text": event["text"], **event["features"]}, event["label"]


def _bag(x):
    words = x.get("text", "").split()
    return {word: words.count(word) for word in words}


def _numbers(x):
    return {"size": x.get("size", 0.0), "age": float(x.get("age", 0))}


def _nominal(x):
    return {name: x[name] for name in ("colour", "shape") if name in x}


def _whole(x):
    return x


def classifiers():
    """Name -> (a classifier that has learned nothing, what it reads of an event)."""
    import streamnb as nb

    attributes = {
        "text": nb.Text(),
        "subject": nb.Text(event_model="bernoulli"),
        "shape": nb.Nominal(n_values=3),
    }
    network = {"colour": ["label"], "shape": ["label", "colour"]}
    mixed = [
        nb.Hypothesis(alpha=0.5),
        nb.Hypothesis(likelihood="complement", calibrated=True),
        nb.Softmax(),
        nb.Pool(),
    ]
    return {
        "BernoulliNB": (nb.BernoulliNB(), _bag),
        "MultinomialNB": (nb.MultinomialNB(alpha=0.5), _bag),
        "CategoricalNB": (nb.CategoricalNB(), _nominal),
        "GaussianNB": (nb.GaussianNB(), _numbers),
        "NaiveBayes": (nb.NaiveBayes(attributes, alpha=0.3), _whole),
        "NaiveBayes of any event": (nb.NaiveBayes(), _whole),
        "BayesOptimalNB": (nb.BayesOptimalNB(), _whole),
        "BayesOptimalNB of some": (nb.BayesOptimalNB({"text": nb.Text()}, mixed, 0.01, "map"), _whole),
        "BayesOptimalClassifier": (
            nb.BayesOptimalClassifier([nb.GaussianNB(), nb.CategoricalNB()]),
            _numbers,
        ),
        "SemiSupervisedNB": (nb.SemiSupervisedNB(nb.MultinomialNB()), _bag),
        "HiddenMarkovNB": (nb.HiddenMarkovNB(attributes), _whole),
        "LogisticRegression": (nb.LogisticRegression(), _numbers),
        "BayesianNetworkClassifier": (nb.BayesianNetworkClassifier(network), _nominal),
    }


def answers_of_classes():
    """Name -> the chain of its predictions, the last one, and the same after it was saved and loaded."""
    import streamnb as nb

    examples = list(_examples())
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        for name, (classifier, reads) in classifiers().items():
            predictions = []
            for x, y in examples:
                predictions.append(_told(classifier.predict_proba_one(reads(x))))
                classifier.learn_one(reads(x), y)
            last = _told(classifier.predict_proba_one(reads(examples[0][0])))
            entry = {"chain": chain(predictions, exact=False), "last": rounded(last)}
            if hasattr(classifier, "save"):
                classifier.save(Path(folder) / "saved")
                loaded = nb.load(Path(folder) / "saved")
                for x, y in examples[:SOME]:
                    loaded.learn_one(reads(x), y)
                entry["gone on after loading"] = rounded(
                    _told(loaded.predict_proba_one(reads(examples[0][0])))
                )
            found[name] = entry
    return found


def _told(probabilities):
    return {str(label): float(p) for label, p in probabilities.items()}
