"""What is asked of any classifier of River's interface, and how its answers are read."""

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
    """P(v | x) as a classifier gives it, made to sum to 1; all zero where it gives nothing to any label.

    NaN, infinities and negative numbers count as nothing. A classifier without `predict_proba_one` is taken
    to be certain of its `predict_one`.
    """
    try:
        said = classifier.predict_proba_one(x) if hasattr(classifier, "predict_proba_one") else None
    except NotImplementedError:
        said = None
    if said is None:
        label = classifier.predict_one(x)
        return {} if label is None else {label: 1.0}
    said = {label: float(p) if 0.0 <= p < math.inf else 0.0 for label, p in said.items()}
    most = max(said.values(), default=0.0)
    if most > 1.0:  # their sum may be more than a double can hold
        said = {label: p / most for label, p in said.items()}
    total = math.fsum(said.values())
    return {label: p / total if total > 0.0 else 0.0 for label, p in said.items()}


def teach_one(classifier: Any, x: Any, y: Any, w: float, *, late: bool = False) -> None:
    """Let a classifier learn an event that counts `w` times, or teach it by one without a label (None).

    A classifier whose `learn_one` takes no weight learns an event of any weight above zero once. Only one
    with the method `learn_unlabelled_one` is taught by events without a label; and one with `learn_late_one`
    is told where such an event comes again, `late`, with its label.
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
    """Take back what a classifier learned of an event, where it has `unlearn_many`; see `StreamModel`."""
    unlearn = getattr(classifier, "unlearn_many", None)
    if unlearn is not None:
        unlearn([x], [y], [w], prunings=None if prunings is None else [prunings])


def corrections_of(classifier: Any) -> Corrections:
    """What `unteach_one` takes back of it."""
    return getattr(classifier, "corrections", "again")


def prunings_of(classifier: Any) -> int:
    """How often it has forgotten words, by its `n_prunings`."""
    return int(getattr(classifier, "n_prunings", 0))


def state_of(classifier: Any) -> State:
    """All that a classifier has learned, by its own `state`. Raises TypeError where it has none."""
    if not hasattr(classifier, "state"):
        raise TypeError(f"a {type(classifier).__name__} has no state() that a snapshot could hold")
    meta, arrays = classifier.state()
    return dict(meta), dict(arrays)


def load_state_of(classifier: Any, meta: Mapping[str, Any], arrays: Mapping[str, Array]) -> None:
    """Replace all that a classifier has learned. Raises TypeError where it has no `load_state`."""
    if not hasattr(classifier, "load_state"):
        raise TypeError(f"a {type(classifier).__name__} has no load_state() to go on from a snapshot by")
    classifier.load_state(meta, arrays)


@cache
def _takes_weight(function: Callable[..., Any]) -> bool:
    return "w" in inspect.signature(function).parameters
