"""Encode the predictions of a batch from columns, without an object for each field.

The result is what `codec.encode_predictions` makes of the same `Prediction` values, byte by byte; a law
holds this. The columns express the usual prediction: all known classes, without a decision.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from itertools import count
from typing import Any, NamedTuple

import msgspec
import numpy as np

from streamnb.events import Attribution, ModelInfo
from streamnb.formats.joined_columns import JoinedColumns
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
        priors: log odds before each event is read, or None.
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
    priors: Sequence[float | None] | None
    hypotheses: Sequence[str]
    weights: Floats
    name: str
    ages: Sequence[int]
    journal: int | None
    ts: float


def encode_prediction_columns(columns: PredictionColumns) -> list[bytes]:
    """Return the JSON records of predictions. Raises ValueError for a number that is not finite."""
    n, n_classes = columns.probabilities.shape
    joined, classes = JoinedColumns(n), list(map(_encode, columns.classes))
    numbers = joined.elements(_numbers(columns.probabilities), n_classes)
    before, _, after = _encode(ModelInfo(columns.name, 0, columns.journal)).rpartition(b'"events":0')
    joined.add(joined.elements(_encode(columns.ids)), [b'{"id":'])
    joined.add(joined.texts(classes)[:, columns.best], [b',"label":'])
    joined.add(numbers[:, columns.best, np.arange(n)], [b',"probability":'])
    _add_members(joined, b',"probabilities":{', classes, _of_known(numbers, columns.known))
    joined.constant(b'},"status":"ready"')
    if columns.unseen is not None:
        joined.add(joined.elements(_numbers(columns.unseen)), [b',"unseen":'])
    joined.add(_truths(joined, columns.truths))
    if columns.evidence is not None:
        joined.add(joined.elements(_encode(columns.evidence)), [b',"evidence":'])
    if columns.priors is not None:
        cells = joined.elements(_encode(columns.priors))
        is_absent = np.array([prior is None for prior in columns.priors], dtype=bool)
        joined.add(np.where(is_absent, -1, cells), [b',"prior":'])
    if columns.hypotheses:
        names = list(map(_encode, columns.hypotheses))
        weights = joined.elements(_numbers(columns.weights), len(names))
        _add_members(joined, b',"hypotheses":{', names, weights)
        joined.constant(b"}")
    joined.add(joined.elements(_encode(columns.ages)), [b',"model":%b"events":' % before])
    joined.constant(b'%b,"ts":%b}' % (after, _numbers(np.array([columns.ts]))[1:-1]))
    return joined.rows()


def _of_known(numbers: Ints, known: Ints) -> Ints:
    """Return the cells of numbers, and empty cells for classes that a row does not show."""
    if known.min(initial=numbers.shape[1]) == numbers.shape[1]:
        return numbers
    return np.where(np.arange(numbers.shape[1])[:, None] < known, numbers, -1)


def _add_members(joined: JoinedColumns, opening: bytes, names: Sequence[bytes], numbers: Ints) -> None:
    """Add the members of an object, its keys before its numbers."""
    joined.add(numbers, [b"%b%b:" % (b"," if k else opening, name) for k, name in enumerate(names)])


def _truths(joined: JoinedColumns, truths: Sequence[str | None]) -> Ints:
    """Return the cells of known labels, with their keys."""
    places = defaultdict[str | None, int](count().__next__)
    column = np.fromiter(map(places.__getitem__, truths), dtype=np.int64, count=len(truths))
    texts = [b"" if label is None else b',"truth":' + _encode(label) for label in places]
    return joined.texts(texts)[:, column]


def _numbers(values: Floats) -> bytes:
    """Return numbers as a JSON array, in the order of their memory."""
    if not np.isfinite(values).all():
        raise ValueError("a prediction has a number that is not finite")
    return _encode(values.ravel().tolist())
