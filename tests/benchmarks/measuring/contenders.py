"""Who is timed by ``measure.py bench``: each predicts every text before it learns its label."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from importlib.util import find_spec
from typing import Any

from river import compose, feature_extraction, naive_bayes

from streamnb.errors import MalformedEvent
from streamnb.evaluation.event_input import numbered
from streamnb.formats.codec import decode_event
from streamnb.formats.event_files import read_events
from streamnb.formats.event_schema import EventSchema
from streamnb.formats.event_source import MAX_LINE
from streamnb.models.mixture.bayes_optimal_nb import BayesOptimalNB
from streamnb.models.mixture.hypothesis_kinds import NAIVE_HYPOTHESES
from streamnb.models.naive_bayes.counting_model import CountingModel
from streamnb.models.naive_bayes.naive_bayes_variants import MultinomialNB

Predicted = list[str | None]
Contender = Callable[[Sequence[str], Sequence[str]], Predicted | None]
"""Texts, labels -> what was predicted of each text; None of who predicts nothing."""

OURS = "streamnb MultinomialNB"
"""The one that the others are compared with."""

_VOWPAL_WABBIT = "vowpalwabbit"
_AT_ONCE = 500
_WORD = re.compile(r"\w+")
_BETWEEN_WORDS = re.compile(r"\W+")


def contenders() -> dict[str, Contender]:
    """Everyone who is installed, by name."""
    found: dict[str, Contender] = {
        OURS: _multinomial,
        "streamnb BayesOptimalNB, 12 naive hypotheses": _naive_hypotheses,
        "streamnb BayesOptimalNB, default set": _default_set,
        "River BagOfWords | MultinomialNB": _river,
    }
    if not missing():
        found["Vowpal Wabbit, logistic"] = _vowpal_wabbit
    return {**found, "re tokenising alone": _tokenise}


def missing() -> list[str]:
    """The packages of contenders that are not installed."""
    return [package for package in (_VOWPAL_WABBIT,) if find_spec(package) is None]


def labelled_texts(path: str, order: str | None) -> Iterator[tuple[str, str]]:
    """Text and label of each row of a file that is an event and has both, in an order as of `numbered`."""
    for _, raw in numbered(read_events(path), order):
        with suppress(MalformedEvent):
            event = decode_event(raw, EventSchema(max_bytes=MAX_LINE))
            text = event.x.get("text")
            if isinstance(text, str) and event.label is not None:
                yield text, event.label


def count_words(text: str) -> int:
    """How many tokens a text has."""
    return len(_WORD.findall(text.lower()))


def _multinomial(texts: Sequence[str], labels: Sequence[str]) -> Predicted:
    return _progressive(MultinomialNB(), texts, labels)


def _naive_hypotheses(texts: Sequence[str], labels: Sequence[str]) -> Predicted:
    model = BayesOptimalNB({"text": "text"}, NAIVE_HYPOTHESES)
    return _progressive(model, [{"text": text} for text in texts], labels)


def _default_set(texts: Sequence[str], labels: Sequence[str]) -> Predicted:
    return _progressive(BayesOptimalNB({"text": "text"}), [{"text": text} for text in texts], labels)


def _progressive(model: CountingModel, texts: Sequence[Any], labels: Sequence[str]) -> Predicted:
    predicted: Predicted = []
    for start in range(0, len(texts), _AT_ONCE):
        stop = start + _AT_ONCE
        predicted += model.predict_then_learn_many(texts[start:stop], labels[start:stop]).labels()
    return predicted


def _river(texts: Sequence[str], labels: Sequence[str]) -> Predicted:
    model = compose.Pipeline(feature_extraction.BagOfWords(), naive_bayes.MultinomialNB())
    predicted: Predicted = []
    for text, label in zip(texts, labels, strict=True):
        predicted.append(model.predict_one(text))
        model.learn_one(text, label)
    return predicted


def _vowpal_wabbit(texts: Sequence[str], labels: Sequence[str]) -> Predicted:
    """Its usual logistic regression, with probabilities; one against all for three labels or more.

    It gets the words that the others cut, and is told beforehand how many labels there are. Learning leaves
    in an example what was predicted of it before, so that one call does both.
    """
    from vowpalwabbit import Workspace

    known = list(dict.fromkeys(labels))
    is_binary = len(known) <= 2
    numbers = dict(zip(known, ("-1", "1") if is_binary else map(str, range(1, len(known) + 1)), strict=False))
    link = "--link logistic" if is_binary else f"--oaa {len(known)} --probabilities"
    learner = Workspace(f"--loss_function logistic {link} -b 22 --quiet")
    kind = learner.get_prediction_type()
    predicted: Predicted = []
    for text, label in zip(texts, labels, strict=True):
        example = learner.example(f"{numbers[label]} | {_BETWEEN_WORDS.sub(' ', text.lower())}")
        learner.learn(example)
        answer = example.get_prediction(kind)
        learner.finish_example(example)
        best = int(answer > 0.5) if is_binary else max(range(len(known)), key=answer.__getitem__)
        predicted.append(known[min(best, len(known) - 1)])
    learner.finish()
    return predicted


def _tokenise(texts: Sequence[str], _labels: Sequence[str]) -> None:
    for text in texts:
        count_words(text)
