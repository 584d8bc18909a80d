"""Calls of any classifier with River's interface, and normalisation of its answers."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

from streamnb.models.interface.stream_model import Corrections
from streamnb.values.example_weights import has_weight
from streamnb.values.number_ranges import is_missing
from streamnb.values.type_aliases import Array, State


def answer_of(classifier: Any, x: Any) -> dict[Any, float]:
    """Return P(v | x), normalised; invalid numbers count as 0, a `predict_one` alone as certain."""
    try:
        answer = classifier.predict_proba_one(x) if hasattr(classifier, "predict_proba_one") else None
    except NotImplementedError:
        answer = None
    if answer is None:
        label = classifier.predict_one(x)
        return {} if label is None else {label: 1.0}
    answer = {label: float(p) if 0.0 <= p < math.inf else 0.0 for label, p in answer.items()}
    most = max(answer.values(), default=0.0)
    if most > 1.0:  # the sum could overflow
        answer = {label: p / most for label, p in answer.items()}
    total = math.fsum(answer.values())
    return {label: p / total if total > 0.0 else 0.0 for label, p in answer.items()}


def teach_one(classifier: Any, x: Any, y: Any, w: float, *, late: bool = False) -> None:
    """Let a classifier learn an event of weight `w`, with a label or without (None).

    A classifier whose `learn_one` takes no weight learns an event of any weight above zero once. Events
    without a label need the method `learn_unlabelled_one`; events whose label arrives `late` go to
    `learn_late_one`, if the classifier has it.
    """
    if not has_weight(w):
        return
    learn = getattr(classifier, "learn_late_one", classifier.learn_one) if late else classifier.learn_one
    if is_missing(y):
        learn = getattr(classifier, "learn_unlabelled_one", None)
        if learn is None:
            return
    arguments = (x,) if is_missing(y) else (x, y)
    if w == 1.0 or not _takes_weight(getattr(learn, "__func__", learn)):
        learn(*arguments)
    else:
        learn(*arguments, w=w)


def unteach_one(classifier: Any, x: Any, y: Any, w: float, prunings: int | None) -> None:
    """Unlearn an event, if the classifier has `unlearn_many`; see `StreamModel`."""
    unlearn = getattr(classifier, "unlearn_many", None)
    if unlearn is not None:
        unlearn([x], [y], [w], prunings=None if prunings is None else [prunings])


def corrections_of(classifier: Any) -> Corrections:
    """Return what `unteach_one` can undo."""
    return getattr(classifier, "corrections", "again")


def prunings_of(classifier: Any) -> int:
    """Return the classifier's `n_prunings`, or 0."""
    return int(getattr(classifier, "n_prunings", 0))


def state_of(classifier: Any) -> State:
    """Return a classifier's own `state`. Raises TypeError if it has none."""
    if not hasattr(classifier, "state"):
        raise TypeError(f"a {type(classifier).__name__} has no state() that a snapshot could hold")
    meta, arrays = classifier.state()
    return dict(meta), dict(arrays)


def load_state_of(classifier: Any, meta: Mapping[str, Any], arrays: Mapping[str, Array]) -> None:
    """Replace the state of a classifier. Raises TypeError if it has no `load_state`."""
    if not hasattr(classifier, "load_state"):
        raise TypeError(f"a {type(classifier).__name__} has no load_state() to restore a snapshot with")
    classifier.load_state(meta, arrays)


@cache
def _takes_weight(function: Callable[..., Any]) -> bool:
    return "w" in inspect.signature(function).parameters
