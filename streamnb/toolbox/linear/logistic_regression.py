"""Logistic regression with L2, one event at a time: the discriminative counterpart of naive Bayes."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping
from itertools import islice
from typing import Any, Self

import numpy as np
from river import base

from streamnb.errors import SnapshotError
from streamnb.kernels.array_types import Floats, Ints
from streamnb.models.calibration.newton import optimum
from streamnb.models.calibration.reservoir_refit import go_back
from streamnb.models.calibration.row_reservoir import KeptRows
from streamnb.models.calibration.sequential_laplace import LaplaceUnits, log_sigmoid, sigmoid
from streamnb.toolbox.linear.design_matrix import Design, Row
from streamnb.values.example_weights import UNIT, units
from streamnb.values.number_ranges import is_missing
from streamnb.values.parameter_checks import check_whole
from streamnb.values.savable import Savable
from streamnb.values.state_validation import check_made, checked_names, plain
from streamnb.values.type_aliases import Array, State

_CHUNK = 256
_EXACT = 64  # events after each of which the weights are refitted


class LogisticRegression(Savable, base.Classifier):  # type: ignore[misc]  # River is untyped here
    """Logistic regression (maximum entropy) with L2 and without a learning rate: only C is chosen.

        P(y = +1 | x) = 1 / (1 + exp(-w^T x))        min over w of  1/2 w^T w + C sum log(1 + exp(-y w^T x))

    The minimum is the mode of P(w | D) under the prior N(0, C I). Each event moves the mode and narrows the
    Gaussian around it, which costs O(d^2) of d columns. That step alone depends on the order of events:
    sorted by class, it ends at up to 6 times the minimum. So the model keeps a uniform sample of the events
    and refits to it after each of the first 64 events, and then whenever there are an eighth more (see
    `reservoir_refit`). Up to `memory` events all are kept: the sum above is at its minimum after a refit.
    Between two refits each event is one step, which leaves it some per cent higher (3.3 % with C = 100, as
    the second class begins after 600 events of the first). Beyond `memory` events the sum is within a few per
    cent for columns that the sample determines. A sample of n events loses about d / (2 n) nats an event:
    2,048 of 6,000 with 104 columns, sorted by class, reach 1.01 (C = .01), 1.04 (C = 1) and 1.12 times
    (C = 100) the minimum. `refine` reads all events again and reaches the minimum itself.

    x has a constant 1 as well as its attributes. Its weight (the bias) is regularised like all weights, as in
    the lecture's separator through the origin. Because w^T w treats weights of any unit equally, attributes
    should have similar scales: ``StandardScaler() | LogisticRegression()``. With other scales the model stays
    sound and finite, but C then means something else for each attribute.

    Degenerate cases:
        missing         an attribute that is absent, None, NaN or infinite adds nothing to w^T x.
        strings         1 in the column (name, value); each value has its own column.
        one class       gets probability 1; without classes the result is {}.
        several         one unit for each class against all other classes; the probabilities are normalised. A
                        class that appears late starts with all earlier events as negative examples, as if it
                        had been known from the start. (Softmax regressions of a mixture normalise inside.)
        no label        an event whose label is None or NaN is not learned.
        huge            numbers beyond +-1e140 are read as +-1e140.

    What was learned depends on the order of events: it cannot be merged or unlearned.

    Args:
        C: variance of the prior, the weight of the events against it; from 1e-12 to 1e12.
        features: maximum number of columns; later ones are ignored. n columns take 8 n^2 to 18 n^2 bytes
            (with spare capacity) for each class, and for one more.
        memory: number of events kept; k events of n columns take 8 k n to 12 k n bytes. 0 keeps none.

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

        Bias b and weight w of x = 1 are equal. At the minimum each is the sum of the residuals,
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
        # Unit 0 has every event as a negative example: the start of a future class. Two classes share one
        # further unit, for the second class; from three classes on each class has its own.
        self._units = LaplaceUnits(1, C)
        self._units.reserve(1)
        self._kept = KeptRows(memory)

    @property
    def classes(self) -> list[Any]:
        """All classes in the order of their appearance."""
        return list(self._labels)

    @property
    def n_bytes(self) -> int:
        """Memory of the weights and of the kept events, in bytes, spare capacity included."""
        return self._units.n_bytes + self._kept.n_bytes

    @property
    def weights(self) -> dict[Any, float]:
        """Weights in the log odds of the second of two classes. Raises ValueError for other numbers."""
        return self._design.named(self._weights_for(self._second()))

    @property
    def intercept(self) -> float:
        """Weight of the constant 1, which belongs to `weights`."""
        return float(self._weights_for(self._second())[0])

    def weights_of(self, label: Any) -> tuple[float, dict[Any, float]]:
        """Return bias and weights of a class against all others. Raises ValueError if it is unknown."""
        weights = self._weights_for(label)
        return float(weights[0]), self._design.named(weights)

    def predict_proba_one(self, x: Mapping[Any, Any]) -> dict[Any, float]:
        """Return P(v | x) of every class v; empty if untrained. Raises TypeError for an invalid value."""
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

    def learn_one(self, x: Mapping[Any, Any], y: Any, w: float = 1.0) -> None:
        """Learn one event of class `y`, `w` times (steps of 1/1024), or raise and learn nothing."""
        weight = units(w) / UNIT
        if weight and not is_missing(y):
            hash(y)  # raises before columns are added
            row = self._row(x, adds=True)
            self._meet(y)
            label = self._labels[y]
            self._units.learn(*row, self._targets(np.array([label]))[0], weight)
            self._kept.offer(*row, label, weight, len(self._design))
            go_back(self._units, self._kept, self._targets, _EXACT)

    def refine(self, events: Collection[tuple[Mapping[Any, Any], Any]], passes: int = 100) -> int:
        """Read the events repeatedly until the weights reach the minimum over them.

        The method is Newton's, see `newton`: it starts from the current weights, takes a few passes and keeps
        no events. Earlier learning is replaced; later learning adds to the result.

        Args:
            events: (x, y) pairs that can be iterated repeatedly, such as a list.
            passes: maximum number of passes.

        Returns:
            Number of passes; `passes` if the minimum may not have been reached.

        Raises:
            TypeError: if `events` can be iterated only once, or a value is invalid.
        """
        if isinstance(events, Iterator):
            raise TypeError("events must be iterable repeatedly: an iterator can be read only once")
        kept = KeptRows(self.memory)
        for x, y in events:  # columns and classes first
            if not is_missing(y):
                row = self._row(x, adds=True)
                self._meet(y)
                kept.offer(*row, self._labels[y], 1.0, len(self._design))
        found = optimum(self._units.means, lambda: self._chunks(events), 1.0 / self.C, passes)
        self._units.set_posterior(found.means, found.roots)
        self._kept = kept
        return found.passes

    def state(self) -> State:
        """Return all that was learned. Raises TypeError for labels and names that JSON cannot hold."""
        meta = {
            "type": type(self).__name__,
            "C": self.C,
            "classes": [plain(label) for label in self._labels],
            "columns": self._design.described(),
        }
        kept_meta, kept = self._kept.state()
        return {**meta, **kept_meta}, {**self._units.arrays(), **kept}

    def load_state(self, meta: Mapping[str, Any], arrays: Mapping[str, Array]) -> Self:
        """Replace all state, with or without kept events; return self. Raises SnapshotError."""
        check_made(meta, type=type(self).__name__, C=self.C)
        classes = checked_names(meta.get("classes"))
        design = Design.from_description(meta.get("columns"), self.features)
        count = {0: 1, 1: 1, 2: 2}.get(len(classes), len(classes) + 1)
        kept, weights = KeptRows.from_state(meta, arrays, len(design), len(classes))
        if kept.size not in (0, self.memory):
            raise SnapshotError(f"the state has a memory of {kept.size} events, not {self.memory}")
        self._units = LaplaceUnits.from_arrays(weights, count, len(design), self.C)
        self._kept = kept
        self._design = design
        self._labels = {label: k for k, label in enumerate(classes)}
        return self

    def _row(self, x: Mapping[Any, Any], *, adds: bool) -> Row:
        row = self._design.row(x, adds=adds)
        if adds:
            self._units.reserve(len(self._design))
        return row

    def _meet(self, label: Any) -> None:
        """Give a new class the unit that it would have had from the start."""
        if label in self._labels:
            return
        k = self._labels[label] = len(self._labels)
        if k == 2:  # until now the first class used the mirrored unit of the second
            self._units.add(1, -1.0)
            self._units.order([0, 2, 1])
        if k >= 1:
            self._units.add(0)

    def _targets(self, labels: Ints) -> Floats:
        targets = np.zeros((labels.size, len(self._units)))
        if len(self._labels) >= 3:
            targets[np.arange(labels.size), 1 + labels] = 1.0
        elif len(self._labels) == 2:
            targets[:, 1] = labels
        return targets

    def _chunks(
        self, events: Collection[tuple[Mapping[Any, Any], Any]]
    ) -> Iterator[tuple[Floats, Floats, Floats]]:
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
            raise ValueError(f"nothing separates {label!r} from other classes yet")
        k, means = self._labels[label], self._units.means
        unit = 1 + k if len(self._labels) > 2 else 1
        weights: Floats = means[unit]
        return -weights if unit == 1 and k == 0 and len(self._labels) == 2 else weights

    _multiclass = True
