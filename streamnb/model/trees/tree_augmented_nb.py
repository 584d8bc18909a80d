"""Tree-augmented naive Bayes: each attribute hangs on the class and on one other attribute."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Self

import numpy as np
from river import base

from streamnb.errors import SnapshotError, UnlearnError
from streamnb.model.attributes.attributes import Attribute
from streamnb.model.attributes.names import checked_names, plain
from streamnb.model.attributes.priors import Prior, check_prior, prior_mode, prior_weights
from streamnb.model.attributes.ranges import is_missing, lies_between
from streamnb.model.attributes.signatures import Array, State, Times, Weights
from streamnb.model.attributes.weights import UNIT, units
from streamnb.model.compiled.arrays import Floats, Ints
from streamnb.model.encoding.data_frame import rows_of
from streamnb.model.encoding.targets import Targets, Taught
from streamnb.model.interface.evidence import LIMIT, Item, Items, ranked
from streamnb.model.interface.predictions import Posteriors
from streamnb.model.interface.river_stream_model import WholeState
from streamnb.model.interface.stream_model import Corrections, Events, Labels, Prunings, Unbounded
from streamnb.model.saving import Savable
from streamnb.model.trees.kernels import TreeAnswers, TreeEvents, TreeReading, score_factors
from streamnb.model.trees.tree_model import Edge, TreeModel
from streamnb.model.trees.value_codes import MISSING, Kinds, key_columns

_LEAST = 1e-6


class TreeAugmentedNB(Savable, Unbounded, base.MiniBatchClassifier):  # type: ignore[misc]  # River is untyped here
    r"""Naive Bayes whose attributes may each hang on one other, by a tree learned from pair counts.

        P(v, x) = P(v) prod_i P(a_i | a_pa(i), v)
        P(a | b, v) = (n_abv + m P(a | v)) / (n_bv + m)      P(a | v) = (n_av + alpha) / (n_v + alpha |A|)

    with m = `prior_weight`. Of all trees it is that of the largest likelihood: the maximum weighted spanning
    tree of the conditional mutual information

        I(a; b | v) = sum P(a, b, v) ln P(a, b | v) / (P(a | v) P(b | v))

    It is made anew when 32 events have been learned, each time there are a quarter more, and after
    `unlearn_one` and `rebuild`; how events are cut into calls changes nothing. So fewer than a fifth of the
    events are not in it (what that may cost, in nats, is said in `tree_counts`).

    The counts are exact in any order. Continuous values are counted by magnitude, four bins an octave (see
    `value_codes`), strings and booleans as nominal values. A missing attribute drops its factor, a missing
    parent leaves P(a | v), and a value never seen is skipped. The first `max_values` values
    of an attribute have counts of their own, the rest share one.

    Args:
        attributes: name -> `Nominal` or `Continuous`, or just "nominal", "continuous"; others are taken by
            the type of their value. One that is declared as a text is left out, and one called `text` where
            nothing declares it.
        alpha: smoothing of P(a | v), 1e-6 to 1e6 examples.
        prior_weight: what P(a | v) counts in P(a | b, v), 1e-6 to 1e6 examples.
        prior: of the classes: "learned" (frequency), "uniform", or label -> relative weight.
        max_values: values of an attribute that have counts of their own.
        memory: of the counts of pairs, bytes: 8 K for each pair of values of two attributes, with K classes.
            Attributes that do not fit, those met last, have no edges; with 0 none has, which is naive Bayes.

    Raises:
        ValueError: if a parameter is out of range, or an attribute has smoothing of its own.

    Examples:
        Two attributes that say one thing, with which "on" comes two times of three; naive Bayes counts it
        twice.

        >>> from streamnb import TreeAugmentedNB
        >>> hot = [("hot", "high", label) for label in ("on", "on", "off")]
        >>> rows = [("cold", "low", "off"), *hot]
        >>> tree, naive = TreeAugmentedNB(prior_weight=0.1), TreeAugmentedNB(memory=0)
        >>> for model in (tree, naive):
        ...     for heat, volts, label in rows * 10:
        ...         model.learn_one({"heat": heat, "volts": volts}, label)
        ...     print(round(model.predict_proba_one({"heat": "hot", "volts": "high"})["on"], 3))
        0.657
        0.785
        >>> [(edge.parent, edge.child) for edge in tree.edges]
        [('heat', 'volts')]

    References:
        Friedman, Geiger and Goldszmidt (1997), Machine Learning 29; Chow and Liu (1968), IEEE Transactions on
        Information Theory 14(3).
    """

    def __init__(
        self,
        attributes: Mapping[Any, Attribute | str] | None = None,
        alpha: float = 1.0,
        prior_weight: float = 20.0,
        prior: Prior = "learned",
        max_values: int = 127,
        memory: int = 64 << 20,
    ) -> None:
        for name, value in (("alpha", alpha), ("prior_weight", prior_weight)):  # none rules out what is next
            if not lies_between(_LEAST, value, 1.0 / _LEAST):
                raise ValueError(
                    f"{name} must lie between {_LEAST} and {1.0 / _LEAST:g} examples, not {value!r}"
                )
        check_prior(prior)
        self.attributes, self.alpha, self.prior_weight, self.prior = attributes, alpha, prior_weight, prior
        self.max_values, self.memory = max_values, memory
        self._kinds = Kinds(attributes or {})
        self._model = TreeModel(max_values, memory)
        self._classes: dict[Any, int] = {}

    # -- reading ------------------------------------------------------------------------------------------

    @property
    def classes(self) -> list[Any]:
        """Every class met, in the order in which they were met."""
        return list(self._classes)

    @property
    def class_weights(self) -> dict[Any, float]:
        """Class -> weight learned, in examples."""
        weights = self._model.counts.tables.classes
        return {label: int(weights[k]) / UNIT for label, k in self._classes.items()}

    @property
    def n_events(self) -> int:
        """How many events were learned, less those unlearned."""
        return self._model.counts.events

    @property
    def n_attributes(self) -> int:
        """How many values have counts of their own."""
        return self._model.coded.n_values

    @property
    def n_bytes(self) -> int:
        """Memory of all counts, bytes, spare capacity included."""
        return self._model.counts.n_bytes

    @property
    def edges(self) -> list[Edge]:
        """The edges of the tree as it is, with the information that the counts of now say of them."""
        return self._model.edges()

    corrections: Corrections = "counts"
    """Counts are taken back; the tree is that of the counts when it was made."""

    n_prunings = 0
    """There are no words to forget: 0."""

    def joint_log_likelihood(self, x: Any) -> dict[Any, float]:
        """Log P(v, x) of every class v with examples (nats).

        Raises TypeError or ValueError for a value that its attribute's kind does not take.
        """
        return self._by_class(self._asked([x], joints=True)[0])

    def predict_proba_one(self, x: Any) -> dict[Any, float]:
        """P(v | x) of every class v with examples; they sum to 1. Empty while nothing has been learned."""
        return self._by_class(self._asked([x])[0])

    def predict_proba_many(self, X: Any) -> Any:
        """P(v | x) of each row of a data frame (NaN = missing), as a data frame; columns = classes."""
        import pandas as pd  # noqa: PLC0415  optional: whoever passes a data frame has it

        probabilities = self._asked(X)
        return pd.DataFrame({label: probabilities[:, k] for label, k in self._known().items()}, index=X.index)

    def predict_posteriors(self, xs: Events, ts: Times = None) -> Posteriors:
        """P(v | x) of many events by the model as it is; times are not asked for."""
        probabilities = self._asked(xs)
        known = np.full(len(probabilities), len(self._classes), dtype=np.int64)
        return Posteriors(self.classes, probabilities, known)

    def explain_one(self, x: Any, top: int | None = None, t: float | None = None) -> list[Item]:
        """What each attribute value, given its parent's, adds to the log odds of the first two classes.

        The strongest first, at most `top`. With the prior's they add up to the log odds of the predicted
        class against the runner-up.
        """
        probabilities = self.predict_proba_one(x)
        if len(probabilities) < 2:
            return Items.of_classes(len(probabilities))
        first, second = sorted(probabilities, key=probabilities.__getitem__, reverse=True)[:2]
        codes = self._model.encode([x], self._kinds, np.zeros(1, dtype=np.bool_))
        factors = np.ones((codes.shape[1], len(self._classes)))
        score_factors(self._model.counts.tables, codes, 0, self._reading(), factors)
        odds = factors[:, self._classes[first]] / factors[:, self._classes[second]]
        items = (
            Item(name, x[name], max(-LIMIT, min(LIMIT, math.log(odds[number]))))
            for (_, name), number in self._model.coded.numbers.items()
            if codes[0, number] != MISSING
        )
        return Items(ranked(items)[:top])

    # -- learning -----------------------------------------------------------------------------------------

    def learn_one(self, x: Any, y: Any, w: float = 1.0) -> None:
        """Learn one event `x` of class `y`, counted `w` times (in steps of 1/1024).

        Raises TypeError or ValueError, and learns nothing, for a value that its attribute does not take.
        """
        self._run([x], Targets.of(1, [y], [w], None))

    def learn_many(self, X: Any, y: Any, w: Weights = None, ts: Times = None) -> None:
        """Learn many events in order: a data frame and a series, or any iterables of one length."""
        xs = rows_of(X)
        self._run(xs, Targets.of(len(xs), list(y), None if w is None else list(w), None))

    def learn_late_many(
        self, xs: Events, ys: Labels, ws: Weights = None, ts: Times = None, *, again: bool = False
    ) -> None:
        """Learn events that were predicted earlier, when their labels were not known: as any others."""
        self.learn_many(xs, ys, ws, ts)

    def predict_then_learn_many(
        self, xs: Events, ys: Labels, ws: Weights = None, ts: Times = None
    ) -> Posteriors:
        """Predict each event by all that was learned before it, then learn it, strictly in order.

        An event whose label is None is only predicted. Times are not asked for.
        """
        rows = rows_of(xs)
        targets = Targets.of(len(rows), list(ys), None if ws is None else list(ws), None)
        probabilities, known = self._run(rows, targets, predict=True)
        return Posteriors(self.classes, probabilities, known)

    def unlearn_one(self, x: Any, y: Any, w: float = 1.0) -> None:
        """Undo ``learn_one(x, y, w)``, exactly; the tree is made anew of what is left.

        The model then predicts as one that never learned the event and was rebuilt; bit for bit, where the
        event brought no attribute or value before others. (It does not get back a value's count of its own
        where `max_values` had been met, nor pairs where `memory` was spent.)

        Raises UnlearnError, and changes nothing, where the counts show that this was never learned.
        """
        weight, k = units(w), self._classes.get(y, -1)
        if weight == 0 or is_missing(y):
            return
        if k < 0:
            raise UnlearnError(f"no event of class {y!r} was ever learned")
        self._model.unlearn(x, self._kinds, k, weight)

    def unlearn_many(
        self, xs: Events, ys: Labels, ws: Weights = None, ts: Times = None, prunings: Prunings = None
    ) -> None:
        """Take back that these events were learned, in order: counts exactly; the tree stays until it is due.

        Raises UnlearnError at the first event that the counts show was never learned so. What came before it
        is unlearned, it and what comes after it is not.
        """
        events = Taught.of(xs, ys, ws, prunings)
        labels = np.array([self._classes.get(y, -1) for y in events.labels], dtype=np.int64)
        done = self._model.unlearn_many(key_columns(events.xs, self._kinds), labels, events.weights)
        if done < len(events.xs):
            raise events.never_learned(done)

    def rebuild(self) -> Self:
        """Make the tree anew, of the counts as they are; returns self. That takes all pairs once.

        Then models of equal counts have equal trees, whatever they learned and unlearned in between.
        """
        self._model.counts.grow_tree()
        return self

    def prune(
        self, min_count: float = 0.0, drop_most_frequent: int = 0, max_attributes: int | None = None
    ) -> int:
        """There are no words to forget: 0. Raises ValueError where some are to be."""
        if min_count or drop_most_frequent or max_attributes is not None:
            raise ValueError("a tree-augmented model has no vocabulary to prune")
        return 0

    # -- state --------------------------------------------------------------------------------------------

    def state(self) -> State:
        """All that was learned: JSON-able values, and arrays. Equal states have equal bytes.

        Raises TypeError for labels and names that are not strings, booleans or numbers.
        """
        meta, arrays = self._model.state()
        return {"type": type(self).__name__, "classes": list(map(plain, self._classes)), **meta}, arrays

    def copying(self) -> WholeState:
        """The `state` as it is now."""
        return WholeState(self.state())

    def load_state(self, meta: Mapping[str, Any], arrays: Mapping[str, Array]) -> Self:
        """Replace all that was learned by the `state` of such a model; returns self.

        Raises ValueError for one of another model or `max_values`, and SnapshotError for one that is damaged.
        """
        found, own = (meta.get("type"), meta.get("max_values")), (type(self).__name__, self.max_values)
        if found != own:
            raise ValueError(f"this is the state of a {found}, not of a {own}")
        model = TreeModel.from_state(self.memory, meta, arrays)
        classes = {label: k for k, label in enumerate(checked_names(meta.get("classes")))}
        if len(classes) != model.counts.classes:
            raise SnapshotError(
                f"{model.counts.classes} classes were counted, and {meta['classes']} are named"
            )
        self._classes, self._model = classes, model
        self._kinds = Kinds(self.attributes or {}, model.coded.numbers)
        return self

    # -- inside -------------------------------------------------------------------------------------------

    _multiclass = True

    def _reading(self) -> TreeReading:
        return TreeReading(
            float(self.alpha * UNIT),
            float(self.prior_weight * UNIT),
            prior_weights(self.prior, self._classes),
            prior_mode(self.prior),
        )

    def _asked(self, xs: Events, *, joints: bool = False) -> Floats:
        """P(v | x) of events that are only predicted, or log P(v, x). Shape (n, K)."""
        rows = rows_of(xs)
        n, K = len(rows), len(self._classes)
        found, nobody = np.empty((n, K)), np.full(n, -1)
        codes = self._model.encode(rows, self._kinds, nobody >= 0)
        asked = TreeAnswers(joints=found) if joints else TreeAnswers(probabilities=found)
        self._model.run(TreeEvents(codes, nobody, nobody), K, self._reading(), asked)
        return found

    def _run(self, xs: Any, targets: Targets, *, predict: bool = False) -> tuple[Floats, Ints]:
        """Learn events in order, and predict each before where that is asked for."""
        for label in targets.labels:
            hash(label)
        adds = np.array([not is_missing(label) for label in targets.labels], dtype=np.bool_)
        codes = self._model.encode(xs, self._kinds, adds & (targets.weights > 0))
        labels, known, _ = targets.columns(self._classes)
        K = len(self._classes)
        probabilities = np.empty((len(targets.labels) if predict else 0, K))
        asked = TreeAnswers(probabilities=probabilities if predict else None)
        self._model.run(TreeEvents(codes, labels, targets.weights), K, self._reading(), asked)
        return probabilities, known

    def _known(self) -> dict[Any, int]:
        """Label -> column, of the classes with examples."""
        weights = self._model.counts.tables.classes
        return {label: k for label, k in self._classes.items() if weights[k] > 0}

    def _by_class(self, values: Floats) -> dict[Any, float]:
        return {label: float(values[k]) for label, k in self._known().items()}
