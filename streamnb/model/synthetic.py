"""A stream whose truth is known: messages drawn from a naive Bayes model with given parameters."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from streamnb.model.attributes.weights import UNIT
from streamnb.model.naive_bayes.naive_bayes import NaiveBayes

LABELS = ("alert", "chat", "news")
CHANNELS = ("mail", "phone", "web")
_SHOWN_WORDS = 3


class Parameters:
    """P(label), P(word | label), P(channel | label) and the Gaussian length of each label.

    Words are Zipf distributed over a shared vocabulary; every label favours a third of the words eightfold.

    Args:
        words: size of the vocabulary.
        seed: of the parameters and of the messages drawn.
    """

    def __init__(self, words: int = 300, seed: int = 1) -> None:
        rng = np.random.default_rng(seed)
        self.seed = seed
        self.prior = np.array([0.2, 0.5, 0.3])
        self.vocabulary = [f"word{i}" for i in range(words)]
        zipf = 1.0 / np.arange(1, words + 1)
        favour = np.where(rng.integers(0, 3, size=words) == np.arange(3)[:, None], 8.0, 1.0)
        self.word = zipf * favour / (zipf * favour).sum(axis=1, keepdims=True)
        self.channel = np.array([[0.7, 0.2, 0.1], [0.1, 0.6, 0.3], [0.3, 0.1, 0.6]])
        self.mean = np.array([12.0, 5.0, 30.0])
        self.deviation = np.array([4.0, 2.0, 9.0])


def messages(parameters: Parameters) -> Iterator[tuple[dict[str, Any], str]]:
    """Draw (x, label) without end; the text has 3 to 9 words."""
    rng = np.random.default_rng(parameters.seed + 1)
    word_sums = parameters.word.cumsum(axis=1)
    channel_sums = parameters.channel.cumsum(axis=1)
    while True:
        k = int(np.searchsorted(parameters.prior.cumsum(), rng.random(), side="right"))
        picks = np.searchsorted(
            word_sums[k], rng.random(rng.integers(3, 10)) * word_sums[k, -1], side="right"
        )
        channel = int(np.searchsorted(channel_sums[k], rng.random() * channel_sums[k, -1], side="right"))
        x = {
            "text": " ".join(parameters.vocabulary[i] for i in picks),
            "channel": CHANNELS[channel],
            "length": float(rng.normal(parameters.mean[k], parameters.deviation[k])),
        }
        yield x, LABELS[k]


class ComparedParameter(NamedTuple):
    """A parameter's true and learned value, and their difference in standard errors of the estimate."""

    name: str
    true: float
    learned: float
    deviations: float
    shown: bool


def compare(parameters: Parameters, model: NaiveBayes) -> Iterator[ComparedParameter]:
    """Every parameter with what the model's counts and moments say (alpha = 0: relative frequencies)."""
    weights = model.class_weights
    events = sum(weights.values())
    words, channels = model.class_counts("text"), model.class_counts("channel")
    lengths = model.class_moments("length")
    totals = {
        label: model.statistics.counts.totals[model.statistics.group_of("text"), k] / UNIT
        for label, k in model.statistics.classes.items()
    }
    for k, label in enumerate(LABELS):
        n = weights[label]
        yield _share(f"P({label})", parameters.prior[k], n, events, shown=True)
        for c, channel in enumerate(CHANNELS):
            count = channels[channel].get(label, 0.0)
            yield _share(f"P(channel={channel} | {label})", parameters.channel[k, c], count, n, shown=c == 0)
        favourites = set(np.argsort(-parameters.word[k])[:_SHOWN_WORDS].tolist())
        for i, word in enumerate(parameters.vocabulary):
            count = words.get(word, {}).get(label, 0.0)
            yield _share(
                f"P({word} | {label})", parameters.word[k, i], count, totals[label], shown=i in favourites
            )
        mean, deviation = parameters.mean[k], parameters.deviation[k]
        learned = lengths[label]
        spread = math.sqrt(learned.variance)
        off = (learned.mean - mean) / (deviation / n**0.5)
        yield ComparedParameter(f"mean length | {label}", mean, learned.mean, off, shown=True)
        error = deviation / (2 * n) ** 0.5
        yield ComparedParameter(
            f"deviation of length | {label}", deviation, spread, (spread - deviation) / error, shown=True
        )


def _share(name: str, true: float, count: float, n: float, *, shown: bool) -> ComparedParameter:
    learned = count / n
    return ComparedParameter(
        name, float(true), learned, (learned - true) / math.sqrt(true * (1 - true) / n), shown
    )
