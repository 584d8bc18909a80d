"""Adapter of any classifier with River's interface to a `StreamModel`, one event at a time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import repeat
from typing import Any, Self

import numpy as np

from streamnb.errors import UnlearnError
from streamnb.features.targets import EncodedExamples
from streamnb.kernels.array_types import Floats
from streamnb.models.interface.attribution import Item
from streamnb.models.interface.predictions import Posteriors
from streamnb.models.interface.river_classifier import (
    answer_of,
    corrections_of,
    load_state_of,
    prunings_of,
    state_of,
    teach_one,
    unteach_one,
)
from streamnb.models.interface.stream_model import Corrections, Events, Labels, Most, Prunings, Unbounded
from streamnb.statistics.sequential_posterior import SequentialPosterior
from streamnb.values.example_weights import UNIT, units
from streamnb.values.number_ranges import is_missing
from streamnb.values.state_validation import MOST, checked_names, count, plain, state_errors
from streamnb.values.type_aliases import Array, Aside, State, Times, Weights, concatenated


class WholeState:
    """A state that was copied at once; see `StateCopying`."""

    def __init__(self, state: State) -> None:
        self._state = state

    def advance(self, n_bytes: int) -> bool:
        """Return True: the copy is complete."""
        return True

    def state(self) -> State:
        """Return JSON-able values and arrays."""
        return self._state


class RiverStreamModel(Unbounded):
    """A classifier with `predict_proba_one`, `learn_one`, `state` and `load_state`, as a `StreamModel`.

    It predicts each event, then lets the classifier learn it. Classes are the labels that were learned or
    given a probability by the classifier, in that order. The classifier's `explain_one`, `prune`,
    `posterior`, `n_attributes` and `n_bytes` are used if it has them, and its `learn_unlabelled_one` for
    events without a label (see `river_classifier.teach_one`).

    Args:
        classifier: its `state` must hold everything learned; it is trained in place.
        kind: its name in the configuration; a state of another kind is not loaded.

    Examples:
        >>> from streamnb import MultinomialNB
        >>> model = RiverStreamModel(MultinomialNB(), "words")
        >>> posteriors = model.predict_then_learn_many(["win cash", "lunch", "cash"], ["spam", "ham", None])
        >>> posteriors.labels()
        [None, 'spam', 'spam']
        >>> model.class_weights
        {'spam': 1.0, 'ham': 1.0}
    """

    state_type = "OneAtATime"  # its name in saved states

    def __init__(self, classifier: Any, kind: str) -> None:
        self.classifier, self.kind = classifier, kind
        self._weights: dict[Any, int] = {}  # class -> units learned, in the order of the columns
        self.n_events = 0
        """Number of labelled events learned with a weight above 0."""
        self._measured = (-1, 0)  # number of events when the memory was measured, and its bytes

    @property
    def classes(self) -> list[Any]:
        """Every class that was learned, or given a probability, in that order."""
        return list(self._weights)

    @property
    def class_weights(self) -> dict[Any, float]:
        """Class -> weight of the labelled events learned, in examples."""
        return {label: weight / UNIT for label, weight in self._weights.items()}

    @property
    def n_attributes(self) -> int:
        """The classifier's `n_attributes`, or 0."""
        return int(getattr(self.classifier, "n_attributes", 0))

    @property
    def n_bytes(self) -> int:
        """Memory, bytes; without a classifier's own `n_bytes`, of its state's arrays when last measured."""
        found = getattr(self.classifier, "n_bytes", None)
        if found is not None:
            return int(found)
        at, n_bytes = self._measured
        if at < 0 or self.n_events > 2 * at:
            n_bytes = sum(array.nbytes for array in state_of(self.classifier)[1].values())
            self._measured = self.n_events, n_bytes
        return n_bytes

    @property
    def posterior(self) -> SequentialPosterior | None:
        """The classifier's `posterior`, if it weighs hypotheses."""
        found = getattr(self.classifier, "posterior", None)
        return found if isinstance(found, SequentialPosterior) else None

    @property
    def corrections(self) -> Corrections:
        """The classifier's `corrections`; without `unlearn_many` a corrected label is one more event."""
        return corrections_of(self.classifier)

    @property
    def n_prunings(self) -> int:
        """The classifier's `n_prunings`, or 0."""
        return prunings_of(self.classifier)

    def predict_posteriors(self, xs: Events, ts: Times = None) -> Posteriors:
        """Return P(v | x) of many events by the current classifier; times are ignored."""
        columns = dict(self._weights)
        answers = []
        for x in xs:
            answers.append(answer_of(self.classifier, x))
            for label in answers[-1]:
                columns.setdefault(label, 0)
        hypotheses = self._hypotheses()
        weighed = None if hypotheses is None else np.tile(hypotheses, (len(answers), 1))
        return _posteriors(answers, list(columns), [len(columns)] * len(answers), weighed)

    def explain_one(self, x: Any, top: int | None = None, t: float | None = None) -> list[Item]:
        """Return the classifier's explanation of its prediction, or an empty list."""
        explain = getattr(self.classifier, "explain_one", None)
        return [] if explain is None else explain(x, top)

    def predict_then_learn_many(
        self, xs: Events, ys: Labels, ws: Weights = None, ts: Times = None
    ) -> Posteriors:
        """Predict each event from all events before it, then learn it, strictly in order."""
        answers, known, hypotheses = [], [], []
        for x, y, w in zip(xs, ys, repeat(1.0) if ws is None else ws, strict=ws is not None):
            answers.append(answer_of(self.classifier, x))
            for label in answers[-1]:
                self._weights.setdefault(label, 0)
            known.append(len(self._weights))
            hypotheses.append(self._hypotheses())
            self._learn(x, y, w)
        weighed = np.array(hypotheses) if hypotheses and hypotheses[0] is not None else None
        return _posteriors(answers, self.classes, known, weighed)

    def learn_many(self, X: Any, y: Any, w: Weights = None, ts: Times = None) -> None:
        """Learn many events in order."""
        self.predict_then_learn_many(X, y, w, ts)

    def learn_late_many(
        self, xs: Events, ys: Labels, ws: Weights = None, ts: Times = None, *, again: bool = False
    ) -> None:
        """Learn, in order, events first seen without labels, by `learn_late_one` if there is one."""
        for x, y, w, _ in EncodedExamples.from_examples(xs, ys, ws, None).each():
            self._learn(x, y, w, late=True)

    def unlearn_many(
        self, xs: Events, ys: Labels, ws: Weights = None, ts: Times = None, prunings: Prunings = None
    ) -> None:
        """Unlearn these events, in order, as far as the classifier can.

        Class weights are always reduced: they count the labels in force. Raises as `StreamModel` does.
        """
        for x, y, w, numbers in EncodedExamples.from_examples(xs, ys, ws, prunings).each():
            weight = units(w)
            if self._weights.get(y, 0) < weight:
                raise UnlearnError(f"no event was ever learned as {y!r} with weight {w:g}")
            unteach_one(self.classifier, x, y, w, numbers)
            self._weights[y] -= weight
            self.n_events -= 1

    def prune(self, min_count: float = 0.0, drop_most_frequent: int = 0, max_attributes: Most = None) -> int:
        """Prune the vocabulary; return the number dropped. Raises ValueError without a vocabulary."""
        prune = getattr(self.classifier, "prune", None)
        if prune is not None:
            return int(prune(min_count, drop_most_frequent, max_attributes))
        if min_count or drop_most_frequent or max_attributes is not None:
            raise ValueError(f"a model of kind {self.kind!r} has no vocabulary to prune")
        return 0

    def state(self) -> State:
        """Return everything learned: JSON-able values, and arrays."""
        meta, arrays = state_of(self.classifier)
        return {
            "type": self.state_type,
            "kind": self.kind,
            "events": self.n_events,
            "classes": [plain(label) for label in self._weights],
            "weights": list(self._weights.values()),
            "classifier": meta,
        }, {name: array.copy() for name, array in arrays.items()}

    def copying(self, _aside: Aside = concatenated, /) -> WholeState:
        """Return the current `state`."""
        return WholeState(self.state())

    def load_state(self, meta: Mapping[str, Any], arrays: Mapping[str, Array]) -> Self:
        """Replace all state; return self. Raises ValueError for another kind, and SnapshotError."""
        found = (meta.get("type"), meta.get("kind"))
        if found != (self.state_type, self.kind):
            raise ValueError(f"this is the state of a {found}, not of a {(self.state_type, self.kind)}")
        with state_errors(f"a {type(self).__name__}"):
            classes, weights = checked_names(meta["classes"]), meta["weights"]
            each = [count({"weights": weight}, "weights") for weight in weights]
            weights = dict(zip(classes, each, strict=True))
            events = count(meta, "events", least=-MOST)
            load_state_of(self.classifier, meta["classifier"], arrays)
        self._weights, self.n_events, self._measured = weights, events, (-1, 0)
        return self

    def _hypotheses(self) -> Floats | None:
        posterior = self.posterior
        return None if posterior is None else np.array(list(posterior.probabilities.values()))

    def _learn(self, x: Any, y: Any, w: float, *, late: bool = False) -> None:
        weight = units(w)  # rejects invalid weights before anything is learned
        teach_one(self.classifier, x, y, w, late=late)
        if not is_missing(y) and w > 0.0:
            self._weights[y] = self._weights.get(y, 0) + weight
            self.n_events += 1


def _posteriors(
    answers: Sequence[Mapping[Any, float]], classes: list[Any], known: list[int], hypotheses: Floats | None
) -> Posteriors:
    rows = [[answer.get(label, 0.0) for label in classes] for answer in answers]
    table = np.array(rows, dtype=np.float64).reshape(len(answers), len(classes))
    return Posteriors(classes, table, np.array(known, dtype=np.int64), hypotheses)
