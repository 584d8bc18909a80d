"""Logistic regression with L2, one event at a time: the discriminative twin of naive Bayes."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping
from itertools import islice
from typing import Any, Self

import numpy as np
from river import base

from streamnb.errors import SnapshotError
from streamnb.model.attributes.expected import check_made
from streamnb.model.attributes.names import checked_names, plain
from streamnb.model.attributes.parameters import check_whole
from streamnb.model.attributes.ranges import is_missing
from streamnb.model.attributes.signatures import Array, State
from streamnb.model.attributes.weights import UNIT, units
from streamnb.model.compiled.arrays import Floats, Ints
from streamnb.model.linear.design_matrix import Design, Row
from streamnb.model.linear.newton import optimum
from streamnb.model.linear.revisiting import go_back
from streamnb.model.linear.row_reservoir import KeptRows
from streamnb.model.linear.sequential_laplace import LaplaceUnits, log_sigmoid, sigmoid
from streamnb.model.saving import Savable

_CHUNK = 256


class LogisticRegression(Savable, base.Classifier):  # type: ignore[misc]  # River is untyped here
    """Logistic regression with L2, without a rate of learning: only C is chosen.

        P(y = +1 | x) = 1 / (1 + exp(-w^T x))        min over w of  1/2 w^T w + C sum log(1 + exp(-y w^T x))

    That is the mode of P(w | D) under the prior N(0, C I). Each event moves the mode and narrows the
    Gaussian around it, which costs O(d^2) of d columns. That alone hangs on the order of
    events: sorted by class it ends at up to 6 times the minimum. So a uniform sample of the events is
    kept, to which the model goes back whenever there are an eighth more of them (see `revisiting`). Up to
    `memory` events all are kept, and in any order the sum above is within a thousandth of its minimum;
    beyond, within a few per cent for columns that the sample determines. What n kept events cannot give
    is about d / (2 n) nats an event: 2,048 of 6,000 with 104 columns, sorted by class, come to 1.01 (C =
    .01), 1.04 (C = 1) and 1.12 times (C = 100) the minimum. `refine` takes all events again and comes to
    the minimum itself.

    x has a constant 1 beside its attributes, whose weight (the bias) is regularised as the others are: that
    is the lecture's separator through the origin. As w^T w weighs weights of any unit alike, attributes
    should be of similar scale: ``StandardScaler() | LogisticRegression()``. Of any other scale it stays sound
    and finite, but then C means another thing for each attribute.

    Degenerate cases:
        missing         an attribute that is absent, None, NaN or infinite adds nothing to w^T x.
        strings         1 in the column (name, value), of which there is one for each value met.
        one class       has all the probability; no class, {}.
        several         one unit each against all others, whose probabilities are divided by their sum. A
                        class that is met late begins with all earlier events as those of others, as if it
                        had been known from the start. (Softmax regressions of a mixture normalise inside.)
        no label        an event whose label is None or NaN is not learned.
        huge            numbers beyond +-1e140 are read as +-1e140.

    What was learned depends on the order of events: it is not merged or unlearned.

    Args:
        C: how much the events count against the prior: its variance; from 1e-12 to 1e12.
        features: the most columns; those met later are left out. n columns take 8 n^2 to 18 n^2 bytes (with
            room to grow) for each class, and for one more.
        memory: how many events are kept; k events of n columns take 8 k n to 12 k n bytes. 0 keeps none.

    Raises:
        ValueError: if a parameter is out of range.

    Examples:
        >>> import math
        >>> from streamnb import LogisticRegression
        >>> events = [({"x": 1}, label) for label in ("no", "yes", "yes", "yes")]
        >>> model = LogisticRegression(C=1.0)
        >>> for x, y in events:
        ...     model.learn_one(x, y)
        >>> round(model.predict_proba_one({"x": 1})["yes"], 3)
        0.665

        Bias b and weight w of x = 1 are alike. At the minimum they are the sum of what each event says,
        b = sum (d - h) = 3 - 4 h, with h = 1 / (1 + exp(-b - w)):

        >>> passes = model.refine(events)
        >>> b, w, h = model.intercept, model.weights["x"], model.predict_proba_one({"x": 1})["yes"]
        >>> round(b, 3), round(w, 3), round(h, 3), round(3 - 4 * h, 3), round(1 / (1 + math.exp(-b - w)), 3)
        (0.342, 0.342, 0.665, 0.342, 0.665)

    References:
        Mitchell (2017), Naive Bayes and logistic regression; Spiegelhalter and Lauritzen (1990), Sequential
        updating of conditional probabilities on directed graphical structures, Networks 20.
    """

    def __init__(self, C: float = 1.0, features: int = 512, memory: int = 2048) -> None:
        if not 1e-12 <= C <= 1e12:
            raise ValueError(f"C must lie between 1e-12 and 1e12, not {C!r}")
        check_whole("features", features, 1)
        check_whole("memory", memory, 0)
        self.C, self.features, self.memory = C, features, memory
        self._design = Design(features)
        self._labels: dict[Any, int] = {}
        # The first unit has every event against it: what a class that is yet to come will have learned. Two
        # classes have one more unit, that of the second; from three classes on each has its own.
        self._units = LaplaceUnits(1, C)
        self._units.reserve(1)
        self._kept = KeptRows(memory)

    # -- reading ------------------------------------------------------------------------------------------

    @property
    def classes(self) -> list[Any]:
        """Every class met, in the order in which they were met."""
        return list(self._labels)

    @property
    def n_bytes(self) -> int:
        """Memory of the weights and of the kept events, bytes, spare capacity included."""
        return self._units.n_bytes + self._kept.n_bytes

    @property
    def weights(self) -> dict[Any, float]:
        """Attribute, or (attribute, value) -> its weight w in the log odds of the second class.

        Raises ValueError where there are not two classes; see `weights_of`.
        """
        return self._design.named(self._weights_for(self._second()))

    @property
    def intercept(self) -> float:
        """The weight of the constant 1, with `weights`."""
        return float(self._weights_for(self._second())[0])

    def weights_of(self, label: Any) -> tuple[float, dict[Any, float]]:
        """The bias and the weights in the log odds of a class against all others.

        Raises ValueError where nothing tells classes apart yet, or this one was never met.
        """
        weights = self._weights_for(label)
        return float(weights[0]), self._design.named(weights)

    def predict_proba_one(self, x: Mapping[Any, Any]) -> dict[Any, float]:
        """P(v | x) of every class v; they sum to 1. Empty while nothing has been learned.

        Raises TypeError for a value that is no number, boolean, string or None.
        """
        labels, row = list(self._labels), self._row(x, adds=False)
        if len(labels) < 2:
            return dict.fromkeys(labels, 1.0)
        if len(labels) == 2:
            net = self._units.net(1, *row)
            return {labels[0]: sigmoid(-net), labels[1]: sigmoid(net)}
        logs = [log_sigmoid(self._units.net(1 + k, *row)) for k in range(len(labels))]
        top = max(logs)
        shares = [math.exp(log - top) for log in logs]
        total = math.fsum(shares)
        return {label: share / total for label, share in zip(labels, shares, strict=True)}

    # -- learning -----------------------------------------------------------------------------------------

    def learn_one(self, x: Mapping[Any, Any], y: Any, w: float = 1.0) -> None:
        """Learn one event of class `y`, counted `w` times (in steps of 1/1024).

        Raises TypeError or ValueError, and learns nothing, for a value that is none.
        """
        weight = units(w) / UNIT
        if weight and not is_missing(y):
            hash(y)  # a label that cannot be one is refused before columns are added
            row = self._row(x, adds=True)
            self._meet(y)
            label = self._labels[y]
            self._units.learn(*row, self._targets(np.array([label]))[0], weight)
            self._kept.offer(*row, label, weight, len(self._design))
            go_back(self._units, self._kept, self._targets)

    def refine(self, events: Collection[tuple[Mapping[Any, Any], Any]], passes: int = 100) -> int:
        """Go through events again and again, until the weights are those of the minimum over them.

        Newton's method, in a few passes from where one pass has led, each of which keeps no events: see
        `newton`. What was learned of other events is forgotten; what is learned afterwards adds to it.

        Args:
            events: (x, y), of which all that can be had again: a list, or whatever starts anew when iterated.
            passes: the most passes.

        Returns:
            How many passes there were; `passes` where the minimum was perhaps not reached.

        Raises:
            TypeError: if `events` can be iterated only once, or a value is none.
        """
        if isinstance(events, Iterator):
            raise TypeError("events that can be iterated only once cannot be gone through again")
        kept = KeptRows(self.memory)
        for x, y in events:  # columns and classes first
            if not is_missing(y):
                row = self._row(x, adds=True)
                self._meet(y)
                kept.offer(*row, self._labels[y], 1.0, len(self._design))
        found = optimum(self._units.means, lambda: self._chunks(events), 1.0 / self.C, passes)
        self._units.settle(found.means, found.roots)
        self._kept = kept
        return found.passes

    # -- state --------------------------------------------------------------------------------------------

    def state(self) -> State:
        """All that was learned: JSON-able values, and arrays.

        Raises TypeError for labels and names that are not strings, booleans, numbers or None.
        """
        meta = {
            "type": type(self).__name__,
            "C": self.C,
            "classes": [plain(label) for label in self._labels],
            "columns": self._design.described(),
        }
        kept_meta, kept = self._kept.state()
        return {**meta, **kept_meta}, {**self._units.arrays(), **kept}

    def load_state(self, meta: Mapping[str, Any], arrays: Mapping[str, Array]) -> Self:
        """Replace all that was learned by the `state` of a model of the same C and memory; returns self.

        After a state that has no kept events, such as those of versions that kept none, none are kept.

        Raises SnapshotError, and changes nothing, where it is none.
        """
        check_made(meta, type=type(self).__name__, C=self.C)
        classes = checked_names(meta.get("classes"))
        design = Design.from_description(meta.get("columns"), self.features)
        count = {0: 1, 1: 1, 2: 2}.get(len(classes), len(classes) + 1)
        kept, weights = KeptRows.from_state(meta, arrays, len(design), len(classes))
        if kept.size not in (0, self.memory):
            raise SnapshotError(f"this is a state with a memory of {kept.size} events, not {self.memory}")
        self._units = LaplaceUnits.from_arrays(weights, count, len(design), self.C)
        self._kept = kept
        self._design = design
        self._labels = {label: k for k, label in enumerate(classes)}
        return self

    # -- inside -------------------------------------------------------------------------------------------

    def _row(self, x: Mapping[Any, Any], *, adds: bool) -> Row:
        """The event with the constant as column 0; there is room for its columns."""
        row = self._design.row(x, adds=adds)
        if adds:
            self._units.reserve(len(self._design))
        return row

    def _meet(self, label: Any) -> None:
        """Give a class that is new the unit that it would have had from the start."""
        if label in self._labels:
            return
        k = self._labels[label] = len(self._labels)
        if k == 2:  # so far the unit of the second class, mirrored, was that of the first
            self._units.add(1, -1.0)
            self._units.order([0, 2, 1])
        if k >= 1:
            self._units.add(0)

    def _targets(self, labels: Ints) -> Floats:
        """Of events by the numbers of their labels, whether they are for each unit: float64[n, units]."""
        targets = np.zeros((labels.size, len(self._units)))
        if len(self._labels) >= 3:
            targets[np.arange(labels.size), 1 + labels] = 1.0
        elif len(self._labels) == 2:
            targets[:, 1] = labels
        return targets

    def _chunks(
        self, events: Collection[tuple[Mapping[Any, Any], Any]]
    ) -> Iterator[tuple[Floats, Floats, Floats]]:
        """All labelled events, as rows, targets and weights."""
        labelled = ((x, y) for x, y in events if not is_missing(y))
        while chunk := list(islice(labelled, _CHUNK)):
            rows = np.zeros((len(chunk), len(self._design)))
            for i, (x, _) in enumerate(chunk):
                columns, values = self._row(x, adds=False)
                rows[i, columns] = values
            labels = np.array([self._labels[y] for _, y in chunk])
            yield rows, self._targets(labels), np.ones(len(chunk))

    def _second(self) -> Any:
        if len(self._labels) != 2:
            raise ValueError(f"there are {len(self._labels)} classes, not two: see weights_of")
        return list(self._labels)[1]

    def _weights_for(self, label: Any) -> Floats:
        if label not in self._labels or len(self._labels) < 2:
            raise ValueError(f"nothing tells {label!r} from other classes yet")
        k, means = self._labels[label], self._units.means
        unit = 1 + k if len(self._labels) > 2 else 1
        weights: Floats = means[unit]
        return -weights if unit == 1 and k == 0 and len(self._labels) == 2 else weights

    _multiclass = True
