"""Encode the predictions of a batch from columns, without an object for each field.

The result is what `codec.encode_predictions` makes of the same `Prediction` values, byte by byte; a law
holds this. The columns express the usual prediction: all known classes, without a decision.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import repeat
from typing import Any, NamedTuple

import msgspec
import numpy as np

from streamnb.events import Attribution, ModelInfo
from streamnb.kernels.array_types import Floats, Ints

_encode: Callable[[Any], bytes] = msgspec.json.Encoder().encode


class PredictionColumns(NamedTuple):
    """Columns of n predictions.

    Attributes:
        ids: of the events.
        classes: the K classes.
        best: int64[n], column of the predicted class.
        probabilities: float64[n, K].
        known: int64[n], number of classes that are shown, the first ones; greater than `best`.
        unseen: float64[n], probability of a new class, or None.
        truths: label of each event, or None.
        evidence: attribution of each prediction, or None.
        hypotheses: names of the H hypotheses, or none.
        weights: float64[n, H], their probabilities.
        name: of the model.
        ages: number of events learned before each.
        journal: journal record of the model, or None.
        ts: time of the commit.
    """

    ids: Sequence[str]
    classes: Sequence[str]
    best: Ints
    probabilities: Floats
    known: Ints
    unseen: Floats | None
    truths: Sequence[str | None]
    evidence: Sequence[tuple[Attribution, ...]] | None
    hypotheses: Sequence[str]
    weights: Floats
    name: str
    ages: Sequence[int]
    journal: int | None
    ts: float


def encode_prediction_columns(columns: PredictionColumns) -> list[bytes]:
    """Return the JSON records of predictions. Raises ValueError for a number that is not finite."""
    n, n_classes = columns.probabilities.shape
    numbers = _numbers(columns.probabilities)
    best = columns.best.tolist()
    labels = {k: b',"label":%b,"probability":' % _encode(columns.classes[k]) for k in {*best}}
    truths = {label: b"" if label is None else b',"truth":' + _encode(label) for label in {*columns.truths}}
    model = _encode(ModelInfo(columns.name, 0, columns.journal))
    before, _, after = model.rpartition(b'"events":0')
    fragments: list[Iterable[bytes]] = [
        repeat(b'{"id":"', n),
        _strings(columns.ids),
        [labels[k] for k in best],
        [numbers[row + k] for row, k in zip(range(0, n * n_classes, n_classes), best, strict=True)],
        repeat(b',"probabilities":{'),
        *_members(columns.classes, numbers, columns.known),
        repeat(b'},"status":"ready"'),
    ]
    if columns.unseen is not None:
        fragments += [repeat(b',"unseen":'), _numbers(columns.unseen)]
    fragments.append([truths[label] for label in columns.truths])
    if columns.evidence is not None:
        fragments += [repeat(b',"evidence":'), map(_encode, columns.evidence)]
    if columns.hypotheses:
        known = np.full(n, len(columns.hypotheses))
        fragments += [
            repeat(b',"hypotheses":{'),
            *_members(columns.hypotheses, _numbers(columns.weights), known),
            repeat(b"}"),
        ]
    fragments += [
        repeat(b',"model":%b"events":' % before),
        _encode(columns.ages)[1:-1].split(b","),
        repeat(b'%b,"ts":%b}' % (after, _numbers(np.array([columns.ts]))[0])),
    ]
    return list(map(b"".join, zip(*fragments, strict=False)))


def _members(names: Sequence[str], numbers: Sequence[bytes], known: Ints) -> Iterator[Iterable[bytes]]:
    """Yield the columns of an object: each row has the first `known` names and the numbers of its row."""
    n_names = len(names)
    shown = known.tolist() if known.min(initial=n_names) < n_names else None
    for k, name in enumerate(names):
        key, column = b"%b%b:" % (b"," if k else b"", _encode(name)), numbers[k::n_names]
        if shown is None:
            yield repeat(key)
            yield column
        else:
            yield [key + number if k < most else b"" for number, most in zip(column, shown, strict=True)]


def _numbers(values: Floats) -> list[bytes]:
    """Return numbers as JSON, in the order of their memory."""
    if not np.isfinite(values).all():
        raise ValueError("a prediction has a number that is not finite")
    return _encode(values.ravel().tolist())[1:-1].split(b",")


def _strings(values: Sequence[str]) -> list[bytes]:
    """Return strings as JSON, without the quote at the beginning.

    Encoded together, they are separated by quote, comma, quote. Within a string a quote has a backslash, so
    that only a string that ends in quote and comma has this sequence; then each is encoded alone.
    """
    together = _encode(values)[2:-2]
    if b'\\","' in together:
        return [_encode(value)[1:] for value in values]
    return [value + b'"' for value in together.split(b'","')]
