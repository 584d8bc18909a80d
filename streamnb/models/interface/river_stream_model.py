"""Any classifier of River's interface as a model of the engine: a `StreamModel`, one event at a time."""

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
from streamnb.values.state_names import checked_names, plain
from streamnb.values.state_validation import MOST, count, state_errors
from streamnb.values.type_aliases import Array, Aside, State, Times, Weights, concatenated


class WholeState:
    """A state that was copied at once; see `StateCopying`."""

    def __init__(self, state: State) -> None:
        self._state = state

    def advance(self, n_bytes: int) -> bool:
        """There is nothing left to copy."""
        return True

    def state(self) -> State:
        """JSON-able values and arrays."""
        return self._state


class RiverStreamModel(Unbounded):
    """A classifier with `predict_proba_one`, `learn_one`, `state` and `load_state`, as a `StreamModel`.

    It predicts each event, then lets the classifier learn it. Classes are those that were learned or that the
    classifier has given a probability, in the order in which that happened. Where the classifier has
    `explain_one`, `prune`, `posterior`, `n_attributes` or `n_bytes`, they are its own; one with
    `learn_unlabelled_one` is taught by events without a label, too (see `river_classifier.teach_one`).

    Args:
        classifier: whose `state` holds all that it has learned; it is trained in place.
        kind: what the configuration calls it; a state of another kind is not loaded.

    Examples:
        >>> from streamnb import MultinomialNB
        >>> model = RiverStreamModel(MultinomialNB(), "words")
        >>> posteriors = model.predict_then_learn_many(["win cash", "lunch", "cash"], ["spam", "ham", None])
        >>> posteriors.labels()
        [None, 'spam', 'spam']
        >>> model.class_weights
        {'spam': 1.0, 'ham': 1.0}
    """

    state_type = "OneAtATime"  # what saved states call it

    def __init__(self, classifier: Any, kind: str) -> None:
        self.classifier, self.kind = classifier, kind
        self._weights: dict[Any, int] = {}  # class -> units learned, in the order of the columns
        self.n_events = 0
        """How many labelled events with a weight were learned."""
        self._measured = (-1, 0)  # at how many events its memory was looked at, and what it was

    # -- reading ------------------------------------------------------------------------------------------

    @property
    def classes(self) -> list[Any]:
        """Every class that was learned, or given a probability, in the order in which that happened."""
        return list(self._weights)

    @property
    def class_weights(self) -> dict[Any, float]:
        """Class -> weight of the labelled events learned, in examples."""
        return {label: weight / UNIT for label, weight in self._weights.items()}

    @property
    def n_attributes(self) -> int:
        """Of the classifier; 0 where it does not say."""
        return int(getattr(self.classifier, "n_attributes", 0))

    @property
    def n_bytes(self) -> int:
        """Memory, bytes; of a classifier that does not say, that of the arrays of its state a while ago."""
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
        """Of the classifier, where it weighs hypotheses."""
        found = getattr(self.classifier, "posterior", None)
        return found if isinstance(found, SequentialPosterior) else None

    @property
    def corrections(self) -> Corrections:
        """Of the classifier; one that has no `unlearn_many` takes a corrected label as one more event."""
        return corrections_of(self.classifier)

    @property
    def n_prunings(self) -> int:
        """Of the classifier; 0 where it does not say."""
        return prunings_of(self.classifier)

    def predict_posteriors(self, xs: Events, ts: Times = None) -> Posteriors:
        """P(v | x) of many events by the classifier as it is; times are not asked for."""
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
        """What the classifier says for its prediction; empty where it says nothing."""
        explain = getattr(self.classifier, "explain_one", None)
        return [] if explain is None else explain(x, top)

    # -- learning -----------------------------------------------------------------------------------------

    def predict_then_learn_many(
        self, xs: Events, ys: Labels, ws: Weights = None, ts: Times = None
    ) -> Posteriors:
        """Predict each event by all that was learned before it, then learn it, strictly in order."""
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
        """Learn many events in order; what is predicted of them on the way is thrown away."""
        self.predict_then_learn_many(X, y, w, ts)

    def learn_late_many(
        self, xs: Events, ys: Labels, ws: Weights = None, ts: Times = None, *, again: bool = False
    ) -> None:
        """Learn events that were predicted earlier, when their labels were not known, in order.

        A classifier with `learn_late_one` is told so: one that was taught by them without a label.
        """
        for x, y, w, _ in EncodedExamples.from_examples(xs, ys, ws, None).each():
            self._learn(x, y, w, late=True)

    def unlearn_many(
        self, xs: Events, ys: Labels, ws: Weights = None, ts: Times = None, prunings: Prunings = None
    ) -> None:
        """Take back that these events were learned, in order, as far as the classifier can.

        The weights of classes are always taken back: they are of the labels that stand. Errors as of
        `StreamModel`.
        """
        for x, y, w, numbers in EncodedExamples.from_examples(xs, ys, ws, prunings).each():
            weight = units(w)
            if self._weights.get(y, 0) < weight:
                raise UnlearnError(f"no event was ever learned as {y!r} with weight {w:g}")
            unteach_one(self.classifier, x, y, w, numbers)
            self._weights[y] -= weight
            self.n_events -= 1

    def prune(self, min_count: float = 0.0, drop_most_frequent: int = 0, max_attributes: Most = None) -> int:
        """Forget words; how many. Raises ValueError where the classifier has none to forget."""
        prune = getattr(self.classifier, "prune", None)
        if prune is not None:
            return int(prune(min_count, drop_most_frequent, max_attributes))
        if min_count or drop_most_frequent or max_attributes is not None:
            raise ValueError(f"a model of kind {self.kind!r} has no vocabulary to prune")
        return 0

    # -- state --------------------------------------------------------------------------------------------

    def state(self) -> State:
        """All that was learned: JSON-able values, and arrays."""
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
        """The `state` as it is now."""
        return WholeState(self.state())

    def load_state(self, meta: Mapping[str, Any], arrays: Mapping[str, Array]) -> Self:
        """Replace all that was learned by the `state` of a model of the same kind; returns self.

        Raises ValueError for one of another kind, and SnapshotError for one that is damaged.
        """
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

    # -- inside -------------------------------------------------------------------------------------------

    def _hypotheses(self) -> Floats | None:
        """P(h | all learned so far)."""
        posterior = self.posterior
        return None if posterior is None else np.array(list(posterior.probabilities.values()))

    def _learn(self, x: Any, y: Any, w: float, *, late: bool = False) -> None:
        weight = units(w)  # refuses what no model takes, before anything is learned
        teach_one(self.classifier, x, y, w, late=late)
        if not is_missing(y) and w > 0.0:
            self._weights[y] = self._weights.get(y, 0) + weight
            self.n_events += 1


def _posteriors(
    answers: Sequence[Mapping[Any, float]], classes: list[Any], known: list[int], hypotheses: Floats | None
) -> Posteriors:
    """Answers as a table with a column for each class."""
    rows = [[answer.get(label, 0.0) for label in classes] for answer in answers]
    table = np.array(rows, dtype=np.float64).reshape(len(answers), len(classes))
    return Posteriors(classes, table, np.array(known, dtype=np.int64), hypotheses)
