"""Selection of the classes in a prediction, and the total probability of the rest."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import repeat
from typing import Any

import msgspec
import numpy as np

from streamnb.engine.processing.known_classes import NUMBER_BYTES
from streamnb.events import Prediction
from streamnb.kernels.array_types import Floats, Ints
from streamnb.models.interface.predictions import Posteriors


def by_class(posteriors: Posteriors, top: int) -> Iterable[tuple[dict[Any, float], float | None]]:
    """Yield class -> probability for each event, and the rest's probability.

    Includes classes that were known before the event and are not quarantined, at most the `top` most probable
    (of ties the first met); 0 is all.
    """
    classes, known, apart = posteriors.classes, posteriors.known.tolist(), posteriors.quarantined
    if apart is not None:
        most = top or len(classes)
        told: list[tuple[dict[Any, float], float | None]] = []
        is_whole = ~apart.any(axis=1) & (posteriors.known == len(classes)) & (len(classes) <= most)
        for row, some, n, whole in zip(posteriors.probabilities, ~apart, known, is_whole, strict=True):
            if whole:
                told.append((dict(zip(classes, row.tolist(), strict=True)), None))
                continue
            kept = np.flatnonzero(some[:n])
            told.append(_most_probable([classes[k] for k in kept.tolist()], row[kept], most))
        return told
    if not 0 < top < len(classes):
        return zip(_all_by_class(posteriors), repeat(None))
    rows = zip(posteriors.probabilities, known, strict=True)
    return [_most_probable(classes, row[:n], top) for row, n in rows]


def ranked_by_class(posteriors: Posteriors) -> list[dict[str, float]]:
    """Return class -> probability for each event, the most probable first, then the first met."""
    each = (probabilities for probabilities, _ in by_class(posteriors, 0))
    return [{str(k): p for k, p in sorted(one.items(), key=lambda pair: -pair[1])} for one in each]


def _most_probable(classes: Sequence[Any], row: Floats, top: int) -> tuple[dict[Any, float], float | None]:
    if row.size <= top:
        return dict(zip(classes, row.tolist(), strict=False)), None
    kept = np.sort(_ranked(row)[:top])
    told = zip((classes[k] for k in kept.tolist()), row[kept].tolist(), strict=True)
    return dict(told), math.fsum(np.delete(row, kept))


def _ranked(row: Floats) -> Ints:
    """Return the indexes of probabilities in descending order; of ties the first met first."""
    return np.argsort(-row, kind="stable")


def _all_by_class(posteriors: Posteriors) -> Iterable[dict[Any, float]]:
    classes, rows = posteriors.classes, posteriors.probabilities.tolist()
    if posteriors.known.min(initial=len(classes)) == len(classes):
        return list(map(dict, map(zip, repeat(classes), rows)))
    return [
        dict(zip(classes[:known], row, strict=False))
        for row, known in zip(rows, posteriors.known.tolist(), strict=True)
    ]


def shortened(prediction: Prediction, n_bytes: int) -> Prediction:
    """Return a prediction shortened by `n_bytes` if possible, without its least probable classes."""
    told = prediction.probabilities
    labels, row = [*told], np.array([*told.values()])
    left, top = n_bytes + NUMBER_BYTES + len(',"rest":'), row.size
    for k in _ranked(row).tolist()[::-1]:
        if left <= 0:
            break
        left -= len(msgspec.json.encode({labels[k]: told[labels[k]]})) - 1  # a comma for two braces
        top -= 1
    kept, rest = _most_probable(labels, row, top)
    rest = (rest or 0.0) + (prediction.rest or 0.0)
    return msgspec.structs.replace(prediction, probabilities=kept, rest=rest)
