"""Messages that benchmarks learn: drawn from a naive Bayes model with given parameters."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

LABELS = ("alert", "chat", "news")
CHANNELS = ("mail", "phone", "web")


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
