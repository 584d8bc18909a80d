"""A Bayesian network classifier: the posterior of one variable, given the other variables."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import Any, Self

import numpy as np
from river import base

from streamnb.errors import UnlearnError
from streamnb.features.attributes import Nominal, check_attributes
from streamnb.features.targets import EncodedExamples
from streamnb.kernels.array_types import Floats
from streamnb.models.interface.attribution import Item, Items, odds, ranked
from streamnb.models.interface.parameter_count import ParameterCount
from streamnb.models.interface.predictions import Posteriors
from streamnb.models.interface.stream_model import Corrections, Events, Labels, Prunings
from streamnb.statistics.class_priors import Prior, check_prior
from streamnb.toolbox.bayesian_network.labelled_network import LabelledNetwork
from streamnb.toolbox.bayesian_network.network_event_codes import EncodedEvents
from streamnb.toolbox.bayesian_network.network_kernels import (
    NetworkScratch,
    SmoothedNetwork,
    learn_event,
    run_network,
)
from streamnb.toolbox.bayesian_network.network_parameters import NetworkParameters
from streamnb.values.example_weights import UNIT, units
from streamnb.values.nominal_values import as_event
from streamnb.values.number_ranges import is_missing
from streamnb.values.parameter_checks import check_mapping
from streamnb.values.savable import Savable
from streamnb.values.state_validation import check_made
from streamnb.values.type_aliases import Array, State, Times, Weights

Name = Hashable
_Reading = tuple[SmoothedNetwork, NetworkScratch, Floats]
_ROUNDING = 1e-12  # log odds below this are rounding error
_NOT_LEARNED = np.zeros(1, dtype=np.int64)


class BayesianNetworkClassifier(ParameterCount, Savable, base.Classifier):  # type: ignore[misc]  # River is untyped here
    """A Bayesian network of nominal attributes and a label, learned by counting.

        P(v | x) in proportion to P(v | pa(v)) prod_i P(x_i | pa(x_i))

    With the label as only parent of every attribute it is naive Bayes (and equals `CategoricalNB`). Further
    parents model dependence between attributes. A missing attribute is summed out: if no known variable
    depends on it, that omits its factor, as in naive Bayes. A value never learned counts as missing.
    Attributes of other names are ignored.

    An event is counted in each table for which it has the attribute and all of its parents. An event without
    a label (None or NaN) is not learned.

    An event costs about a microsecond in batches if only variables without known descendants are missing. Any
    other event is answered by variable elimination in Python, which takes about a hundred times as long.

    Args:
        parents: parents by attribute: attributes or the target. An attribute that occurs only in `attributes`
            has the target as only parent. The target may also have parents.
        attributes: `Nominal` (or "nominal") by name, with its own smoothing.
        target: name of the label in `parents`.
        alpha: added to every count; 0 means the limit.
        m: equivalent sample size of the m-estimate (n_c + m / k) / (n + m), used instead of alpha.
        prior: prior of a target without parents: "learned" (label frequency), "uniform", or relative weight
            by label. A target with parents has a table, smoothed like all tables.
        cells: maximum number of cells of a table; values and classes beyond it are ignored.

    Raises:
        ValueError: if no attribute is declared, a parent is unknown, arrows form a cycle, or a parameter is
            out of range.

    Examples:
        Two switches that each turn the light on or off: the effect of one depends on the other.

        >>> from streamnb import BayesianNetworkClassifier
        >>> parents = {"first": ["light"], "second": ["light", "first"]}
        >>> model = BayesianNetworkClassifier(parents, target="light")
        >>> for first, second, light in [("up", "up", "off"), ("up", "down", "on"), ("down", "up", "on")]:
        ...     model.learn_one({"first": first, "second": second}, light, w=4)
        >>> x = {"first": "up", "second": "down"}
        >>> round(model.predict_proba_one(x)["on"], 3)  # 8/12 5/10 5/6 against 4/12 5/6 1/6
        0.857
        >>> round(model.predict_proba_one({"second": "down"})["on"], 3)  # the first is summed out
        0.818

    References:
        Friedman, Geiger and Goldszmidt (1997), "Bayesian network classifiers", Machine Learning 29.
    """

    def __init__(
        self,
        parents: Mapping[Any, Sequence[Any]] | None = None,
        attributes: Mapping[Any, Any] | None = None,
        target: Any = "label",
        alpha: float = 1.0,
        m: float | None = None,
        prior: Prior = "learned",
        cells: int = 1 << 20,
    ) -> None:
        self.parents, self.attributes, self.target = parents, attributes, target
        self.alpha, self.m, self.prior, self.cells = alpha, m, prior, cells
        check_prior(prior)
        check_attributes(attributes)
        check_mapping("parents", parents, "{'wet': ['rain']}")
        structure = _structure(parents or {}, attributes or {}, target)
        own = dict(attributes or {})
        if not structure[target]:
            own[target] = Nominal(alpha=0.0)  # the unsmoothed label frequency
        elif prior != "learned":
            raise ValueError(f"the target {target!r} has parents: it cannot also have the prior {prior!r}")
        self.network = LabelledNetwork(structure, prior, alpha=alpha, m=m, attributes=own, cells=cells)
        """The network itself, for general queries; it learns the same events."""
        self._read: _Reading | None = None
        self._read_for = self.network.counted.shape  # layout of the tables for which `_read` holds

    @property
    def classes(self) -> list[Any]:
        """All classes in order of appearance."""
        return self.network.counted.values(0)

    @property
    def class_weights(self) -> dict[Any, float]:
        """Learned weight by class, in examples."""
        met = self.network.counted.shape.met[0].tolist()
        return {label: met[k] / UNIT for k, label in enumerate(self.classes)}

    @property
    def n_events(self) -> int:
        """Number of labelled events with a weight that were learned, less those unlearned."""
        return self.network.n_events

    corrections: Corrections = "exact"
    """Corrections are exact: all statistics are counts."""

    @property
    def n_attributes(self) -> int:
        """Number of attribute values with a positive weight."""
        return int(self.network.counted.shape.live[1:].sum())

    @property
    def n_bytes(self) -> int:
        """Memory of the tables, bytes, spare capacity included."""
        return self.network.n_bytes

    def predict_proba_one(self, x: Mapping[Any, Any]) -> dict[Any, float]:
        """Return P(v | x) of every class v; empty if untrained. Raises TypeError for a non-scalar."""
        tables = self.network.counted
        codes = np.array([self.network.encoded(x, adds=False)], dtype=np.int64)
        codes[0, 0] = -1  # an attribute with the label's name is ignored
        smoothed, scratch, shares = self._reading()
        if run_network(tables.shape, smoothed, codes, _NOT_LEARNED, 0, scratch, shares) == 0:
            shares[0] = self.network.posterior(codes[0].tolist())
        live = tables.is_live(0).tolist()
        found = shares[0].tolist()
        return {label: found[k] for k, label in enumerate(tables.lookup(0)) if live[k]}

    def predict_posteriors(self, xs: Events) -> Posteriors:
        """Return P(v | x) of many events under the current model; a data frame has one event in each row."""
        return self._run(EncodedEvents(self.network.counted, xs, None, None))

    def explain_one(self, x: Mapping[Any, Any], top: int | None = None) -> list[Item]:
        """Return the contribution of each attribute value to the log odds of the two most probable classes.

        The contribution is the log odds of the event minus the log odds without the attribute: in naive Bayes
        its factor. The strongest come first, at most `top`. Empty with fewer than two classes.
        """
        logs = _logs(self.predict_proba_one(x))
        if len(logs) < 2:
            return Items.of_classes(len(logs))
        first, second = sorted(logs, key=logs.__getitem__, reverse=True)[:2]
        names = [name for name in self.network.counted.dag.names[1:] if not is_missing(x.get(name))]
        without = (_logs(self.predict_proba_one({**x, name: None})) for name in names)
        pairs = zip(names, without, strict=True)
        items = [Item(name, x[name], odds(logs, base, first, second)) for name, base in pairs]
        return Items(ranked(item for item in items if abs(item.log_odds) > _ROUNDING)[:top])

    @classmethod
    def _unit_test_params(cls) -> Iterator[dict[str, Any]]:
        yield {
            "parents": {
                "popup_window": ["label"],
                "https": ["label", "popup_window"],
                "is_popular": ["label", "https"],
                "ordinal_date": ["label"],
                "4": ["label"],
            }
        }

    def learn_one(self, x: Mapping[Any, Any], y: Any, w: float = 1.0) -> None:
        """Learn one event of class `y`, `w` times (steps of 1/1024), or raise and learn nothing."""
        tables = self.network.counted
        if is_missing(y):
            units(w)
        elif y in tables.lookup(0) or tables.admits(0):
            self.network.learn_one({**as_event(x), self.target: y}, w)

    def learn_many(self, X: Any, y: Any, w: Weights = None) -> None:
        """Learn many events in order: a data frame and a series, or two iterables of equal length."""
        self.predict_then_learn_many(X, y, w)

    def predict_then_learn_many(self, xs: Events, ys: Labels, ws: Weights = None) -> Posteriors:
        """Predict each event from all events before it, then learn it, strictly in order.

        The result does not depend on how calls split the stream, except that answers have no column for
        classes that first appear in a later call. An event without a label is only predicted.

        Args:
            xs: events; a data frame has one in each row (NaN = missing).
            ys: labels of the events.
            ws: weights of the events; 1 by default.

        Raises:
            TypeError: for a value that is not a scalar.
            ValueError: for a weight out of range, or lengths that differ; then nothing is learned.
        """
        return self._run(EncodedEvents(self.network.counted, xs, ys, ws))

    def unlearn_one(self, x: Mapping[Any, Any], y: Any, w: float = 1.0) -> None:
        """Undo ``learn_one(x, y, w)`` exactly, or raise UnlearnError and change nothing."""
        if is_missing(y) or (units(w) and y not in self.network.counted.lookup(0)):
            raise UnlearnError(f"no event of class {y!r} was ever learned")
        self.network.unlearn_one({**x, self.target: y}, w)

    def unlearn_many(
        self, xs: Events, ys: Labels, ws: Weights = None, ts: Times = None, prunings: Prunings = None
    ) -> None:
        """Unlearn these events exactly and in order; see `StreamModel`.

        An event whose class exceeded the capacity was never learned, and is skipped.
        """
        tables = self.network.counted
        for x, y, w, _ in EncodedExamples.from_examples(xs, ys, ws, prunings).each():
            if y in tables.lookup(0) or tables.admits(0):
                self.unlearn_one(x, y, w)

    def parameters(self) -> NetworkParameters:
        """Return P(v | parents) of the label and of each attribute; see `BayesianNetwork.parameters`."""
        return self.network.parameters()

    def sample(self, n: int, seed: int = 0, first: int = 0) -> list[tuple[dict[Any, Any], Any]]:
        """Draw events with their labels, (x, label), from the network; see `BayesianNetwork.sample`."""
        drawn = self.network.sample(n, seed, first)
        return [({name: v for name, v in x.items() if name != self.target}, x[self.target]) for x in drawn]

    def state(self) -> State:
        """Return all that was learned. Raises TypeError for labels and names that JSON cannot hold."""
        meta, arrays = self.network.state()
        return {**meta, "type": type(self).__name__}, arrays

    def load_state(self, meta: Mapping[str, Any], arrays: Mapping[str, Array]) -> Self:
        """Replace all state; return self. Raises SnapshotError, and changes nothing, if it is invalid."""
        check_made(meta, type=type(self).__name__)
        self.network.load_state({**meta, "type": type(self.network).__name__}, arrays)
        self._read = None
        return self

    def _run(self, events: EncodedEvents) -> Posteriors:
        """Predict and learn in order; the kernel stops at an event with a variable to sum out."""
        events.add_values()
        network, tables, n = self.network, self.network.counted, len(events)
        probabilities = np.zeros((n, len(self.classes)))
        smoothed, scratch, _ = self._reading()
        codes, weights, at = events.codes, events.weights, 0
        while (at := run_network(tables.shape, smoothed, codes, weights, at, scratch, probabilities)) < n:
            probabilities[at] = network.posterior(codes[at].tolist())
            if weights[at]:
                learn_event(tables.shape, codes[at], int(weights[at]))
            at += 1
        network.n_events += int(np.count_nonzero(events.weights))
        return Posteriors(self.classes, probabilities, events.known())

    def _reading(self) -> _Reading:
        """Return smoothing, kernel scratch and a result row, rebuilt when a class is added or tables grow."""
        classes, shape = len(self.network.counted.lookup(0)), self.network.counted.shape
        if self._read is None or self._read[2].shape[1] != classes or self._read_for is not shape:
            self._read_for = shape
            variables = len(self.network.counted.dag)
            joint, products = np.zeros((2, classes))
            needed, misses = np.zeros(variables, dtype=np.bool_), np.zeros(classes, dtype=np.int64)
            scratch = NetworkScratch(needed, joint, misses, products)
            self._read = self.network.smoothed(), scratch, np.zeros((1, classes))
        return self._read

    _multiclass = True


def _logs(probabilities: Mapping[Any, float]) -> dict[Any, float]:
    return {label: math.log(p) if p > 0.0 else -math.inf for label, p in probabilities.items()}


def _structure(
    parents: Mapping[Any, Sequence[Any]], attributes: Mapping[Any, Any], target: Any
) -> dict[Any, Sequence[Any]]:
    if target in attributes:
        raise ValueError(f"{target!r} is the target: it cannot also be an attribute")
    names = [name for name in dict.fromkeys([*attributes, *parents]) if name != target]
    if not names:
        raise ValueError("a network needs at least one attribute: declare parents or attributes")
    return {target: parents.get(target, ()), **{name: parents.get(name, (target,)) for name in names}}
