"""FIND-S: the most specific conjunction that covers all positive examples."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

from river import base

from streamnb.errors import SnapshotError
from streamnb.toolbox.concepts.conjunctions import Conjunction
from streamnb.toolbox.concepts.hypothesis_space import check_labels, is_positive
from streamnb.values.nominal_values import as_event, value_text
from streamnb.values.number_ranges import is_missing
from streamnb.values.savable import Savable
from streamnb.values.state_validation import check_made, checked, checked_names, count, plain
from streamnb.values.type_aliases import Array, State


class FindS(Savable, base.Classifier):  # type: ignore[misc]  # River is untyped here
    """The most specific conjunction that covers all positive examples, refined attribute by attribute.

        h = the empty concept; the first positive example replaces it. For each further positive x and each
        constraint a = v of h with x_a other than v: drop the constraint.

    Negative examples change nothing. If the target is a conjunction and the labels are correct, h agrees with
    all of them. So FIND-S is a consistent learner: it outputs a MAP hypothesis under the uniform prior, and
    *the* MAP hypothesis under every prior with P(h1) > P(h2) for h1 more specific than h2 (see
    `ConceptLearner` with ``prior="specific"``).

    Attributes and values need no declaration; numbers are compared by their text. The state is one value for
    each attribute, so the order of examples does not matter. But the examples that removed a constraint are
    not stored, and nothing can be unlearned.

    A missing attribute (absent, None, or a number that is not finite) drops no constraint; the constraint of
    an attribute is its value in the first positive example that has it. If h depends on missing attributes of
    an instance, each label has probability 1/2; otherwise the label of h has probability 1.

    Args:
        positive: label of the members of the concept.
        negative: label of all other instances; further labels raise ValueError.

    Raises:
        ValueError: if the labels are equal.

    Examples:
        EnjoySport (Mitchell 1997, figure 2.2):

        >>> from streamnb import FindS
        >>> names = ("sky", "temperature", "humidity", "wind", "water", "forecast")
        >>> model = FindS(positive="yes", negative="no")
        >>> for *values, label in [
        ...     ("sunny", "warm", "normal", "strong", "warm", "same", "yes"),
        ...     ("sunny", "warm", "high", "strong", "warm", "same", "yes"),
        ...     ("rainy", "cold", "high", "strong", "warm", "change", "no"),
        ...     ("sunny", "warm", "high", "strong", "cool", "change", "yes"),
        ... ]:
        ...     model.learn_one(dict(zip(names, values)), label)
        >>> str(model.hypothesis)
        'sky=sunny & temperature=warm & wind=strong'
        >>> model.predict_one({"sky": "sunny", "temperature": "warm", "wind": "strong"})
        'yes'

    References:
        Mitchell, Machine Learning (1997), sections 2.4 and 6.3.2.
    """

    def __init__(self, positive: Any = True, negative: Any = False) -> None:  # noqa: FBT002  labels
        check_labels(positive, negative)
        self.positive, self.negative = positive, negative
        self._asked: dict[Any, str | None] = {}  # value of all positive examples; None if they differ
        self._positives = 0

    @property
    def hypothesis(self) -> Conjunction:
        """Most specific conjunction that covers all positive examples; the empty concept before the first."""
        if self._positives == 0:
            return Conjunction(None)
        return Conjunction({name: value for name, value in self._asked.items() if value is not None})

    def learn_one(self, x: Any, y: Any) -> None:
        """Drop the constraints that a positive example violates, or raise and learn nothing."""
        truth = is_positive(y, self.positive, self.negative)
        values = {name: value_text(value) for name, value in as_event(x).items() if not is_missing(value)}
        if truth:
            # A new attribute becomes a constraint; a different value drops it for good.
            for name, value in values.items():
                if self._asked.setdefault(name, value) != value:
                    self._asked[name] = None
            self._positives += 1

    def predict_proba_one(self, x: Any) -> dict[Any, float]:
        """Return 1 for the label of the hypothesis and 0 for the other label; 1/2 each if undecided."""
        covered = self.hypothesis.covers(as_event(x))
        yes = 0.5 if covered is None else float(covered)
        return {self.negative: 1.0 - yes, self.positive: yes}

    def state(self) -> State:
        """Return all that was learned, independent of order. Raises TypeError for names not in JSON."""
        asked = sorted(([plain(name), value] for name, value in self._asked.items()), key=repr)
        return {**self._described(), "positives": self._positives, "asked": asked}, {}

    def load_state(self, meta: Mapping[str, Any], arrays: Mapping[str, Array]) -> Self:
        """Replace all state; return self. Raises SnapshotError, and changes nothing, if it is invalid."""
        check_made(meta, **self._described())
        checked(arrays, {})
        positives = count(meta, "positives")
        self._asked, self._positives = _restored(meta.get("asked"), positives), positives
        return self

    def _described(self) -> dict[str, Any]:
        return {"type": type(self).__name__, "labels": [plain(self.negative), plain(self.positive)]}


def _restored(asked: Any, positives: int) -> dict[Any, str | None]:
    if not isinstance(asked, list) or (asked and positives == 0):
        raise SnapshotError(f"constraints {asked!r} after {positives} positive examples")
    for pair in asked:
        if not (isinstance(pair, list) and len(pair) == 2 and isinstance(pair[1], str | None)):
            raise SnapshotError(f"a constraint must be a name and a value, got {pair!r}")
    checked_names([name for name, _ in asked])
    return dict(asked)
