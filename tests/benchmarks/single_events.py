"""One event at a time through River's interface, beside River (`make bench`): microseconds an event.

`predict_proba_one`, then `learn_one`, of the first events of a stream, in turn, rounds of each; the clock is
the processor's, and the median is taken of the rounds' ratios. River has no naive Bayes of numbers and values
together: there each of its two models gets its own part of every event. The default model is compared with
logistic regression of scaled numbers and one-hot values, and on texts with naive Bayes.
"""

# ruff: noqa: T201 - printing is what this program does

from __future__ import annotations

import argparse
import gzip
import itertools
import json
import numbers as numbers_abc
import re
import statistics
import time
from pathlib import Path

from river import compose, feature_extraction, linear_model, naive_bayes, preprocessing

from streamnb import BayesOptimalNB, BernoulliNB, CategoricalNB, GaussianNB, MultinomialNB, NaiveBayes
from streamnb.runtime import factories

EVENTS = 5000
TEXTS = 3000
FEW_TEXTS = 300  # for River's Bernoulli model, which looks at every word there is


def events_of(path, n):
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in itertools.islice(lines, n)]


def seconds(models, streams, labels):
    """Of the processor, an event, of all the models together."""
    started = time.process_time()
    for model, xs in zip(models, streams, strict=True):
        for x, label in zip(xs, labels, strict=True):
            model.predict_proba_one(x)
            model.learn_one(x, label)
    return (time.process_time() - started) / len(labels)


def compare(name, ours, xs, theirs, labels, rounds):
    """`theirs` are River's models, each with its part of the events."""
    seconds([ours()], [xs[:200]], labels[:200])
    makers, streams = zip(*theirs, strict=True)
    times = [
        (seconds([ours()], [xs], labels), seconds([make() for make in makers], streams, labels))
        for _ in range(rounds)
    ]
    mine, rivers = (statistics.median(column) * 1e6 for column in zip(*times, strict=True))
    ratio = statistics.median(theirs / mine for mine, theirs in times)
    print(f"  {name:62} {mine:7.1f} {rivers:7.1f} {ratio:6.2f}", flush=True)


def bag_of(text):
    words = re.findall(r"\w+", text.lower())
    return {word: words.count(word) for word in dict.fromkeys(words)}


def of_words(model):
    return lambda: feature_extraction.BagOfWords(lowercase=True) | model()


def default():
    return BayesOptimalNB({"text": "text"})


def regression_of(has_values):
    numbers = compose.SelectType(numbers_abc.Number) | preprocessing.StandardScaler()
    if not has_values:
        return preprocessing.StandardScaler() | linear_model.LogisticRegression()
    return (
        numbers + (compose.SelectType(str) | preprocessing.OneHotEncoder())
        | linear_model.LogisticRegression()
    )


def texts(path, rounds):
    events = events_of(path, TEXTS)
    xs, labels = [event["text"] for event in events], [event["label"] for event in events]
    bags = [bag_of(x) for x in xs]
    multinomial, bernoulli = naive_bayes.MultinomialNB, naive_bayes.BernoulliNB
    rivers = [(of_words(multinomial), xs)]
    compare("texts, BayesOptimalNB", default, [{"text": x} for x in xs], rivers, labels, rounds)
    few = slice(FEW_TEXTS)
    compare("texts, MultinomialNB", MultinomialNB, xs, [(of_words(multinomial), xs)], labels, rounds)
    compare("bags of counts, MultinomialNB", MultinomialNB, bags, [(multinomial, bags)], labels, rounds)
    compare(
        f"{FEW_TEXTS} texts, BernoulliNB",
        BernoulliNB,
        xs[few],
        [(of_words(bernoulli), xs[few])],
        labels[few],
        rounds,
    )


def tables(path, rounds):
    events = events_of(path, EVENTS)
    labels = [event["label"] for event in events]
    xs = [{name: value for name, value in event["features"].items() if value is not None} for event in events]
    numbers = [{name: value for name, value in x.items() if not isinstance(value, str)} for x in xs]
    values = [{name: value for name, value in x.items() if isinstance(value, str)} for x in xs]
    as_words = [{f"{name}={value}": 1 for name, value in x.items()} for x in values]
    gaussian, multinomial = (naive_bayes.GaussianNB, numbers), (naive_bayes.MultinomialNB, as_words)
    name = "BayesOptimalNB (River: LogisticRegression)"
    regression = lambda: regression_of(any(values))  # noqa: E731
    compare(name, default, xs, [(regression, xs)], [y == labels[0] for y in labels], rounds)
    if any(numbers):
        compare("numbers, GaussianNB", GaussianNB, numbers, [gaussian], labels, rounds)
    if any(values):
        name = "nominal values, CategoricalNB (River: MultinomialNB, a word each)"
        compare(name, CategoricalNB, values, [multinomial], labels, rounds)
    if any(numbers) and any(values):
        compare(
            "both, NaiveBayes (River: both models)", NaiveBayes, xs, [gaussian, multinomial], labels, rounds
        )
        compare("both, NaiveBayes (River: numbers alone)", NaiveBayes, xs, [gaussian], labels, rounds)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", nargs="+", type=Path, help="JSON lines, gzipped, with text or features")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    factories.warm_up()
    print("microseconds of the processor an event: streamnb, River, ratio")
    for file in options.files:
        print(file)
        (texts if "text" in events_of(file, 1)[0] else tables)(file, options.rounds)
