"""The Chow-Liu tree: of all trees over nominal and binned variables that of the largest likelihood."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Self

import numpy as np
from river import base

from streamnb.model.attributes.attributes import Attribute
from streamnb.model.attributes.priors import UNIFORM
from streamnb.model.attributes.signatures import Array, Codes, State, Weights
from streamnb.model.attributes.weights import UNIT, units
from streamnb.model.compiled.arrays import Floats, Ints
from streamnb.model.encoding.data_frame import is_frame
from streamnb.model.encoding.targets import Targets
from streamnb.model.trees.kernels import TreeAnswers, TreeEvents, TreeReading
from streamnb.model.trees.tree_model import TreeEstimator

_ONE_CLASS = 1


class ChowLiuTree(TreeEstimator, base.Estimator):  # type: ignore[misc]  # River is untyped here
    r"""A density over events: a tree of their attributes, learned from pair counts.

        P(x) = P(a_root) prod_i P(a_i | a_pa(i))
        P(a | b) = (n_ab + m P(a)) / (n_b + m)      P(a) = (n_a + alpha) / (n + alpha |A|)

    with m = `prior_weight`. The tree is the maximum weighted spanning tree of the mutual information

        I(a; b) = sum P(a, b) ln P(a, b) / (P(a) P(b))

    which of all trees brings the empirical distribution's divergence from P to its least. Everything else,
    values, missing attributes, when the tree is made, and what is exact, is as by `TreeAugmentedNB`, which is
    such a tree within each class.

    Args:
        attributes: name -> `Nominal` or `Continuous`, or just "nominal", "continuous"; others are taken by
            the type of their value. One that is declared as a text is left out, and one called `text` where
            nothing declares it.
        alpha: smoothing of P(a), 1e-6 to 1e6 examples.
        prior_weight: what P(a) counts in P(a | b), 1e-6 to 1e6 examples.
        max_values: values of an attribute that have counts of their own; the rest share one.
        memory: of the counts of pairs, bytes.

    Raises:
        ValueError: if a parameter is out of range, or an attribute has smoothing of its own.

    Examples:
        Three coins of which the second repeats the first, and the third goes its own way:

        >>> from streamnb import ChowLiuTree
        >>> tree = ChowLiuTree()
        >>> for first in (True, False) * 10:
        ...     for third in (True, False):
        ...         tree.learn_one({"first": first, "second": first, "third": third})
        >>> [(edge.parent, edge.child, round(edge.information, 3)) for edge in tree.edges]
        [('first', 'second', 0.693), ('first', 'third', 0.0)]

        Of 20 events with the first heads all have the second heads: P = 1/2 (20 + 20/2) / (20 + 20).

        >>> import math
        >>> round(math.exp(tree.log_likelihood_one({"first": True, "second": True})), 3)
        0.375

    References:
        Chow and Liu (1968), "Approximating discrete probability distributions with dependence trees", IEEE
        Transactions on Information Theory 14(3).
    """

    def __init__(
        self,
        attributes: Mapping[Any, Attribute | str] | None = None,
        alpha: float = 1.0,
        prior_weight: float = 20.0,
        max_values: int = 127,
        memory: int = 64 << 20,
    ) -> None:
        super().__init__(attributes, alpha, prior_weight, max_values, memory)

    # -- reading ------------------------------------------------------------------------------------------

    @property
    def root(self) -> Any:
        """The attribute at which the tree begins, the first by name; None where there is none."""
        return self._model.root

    def log_likelihood_one(self, x: Any) -> float:
        """Log P(x) in nats, of the attributes and values that are known: 0 where there is none.

        Raises TypeError or ValueError for a value that its attribute's kind does not take.
        """
        return float(self.log_likelihood_many([x])[0])

    def log_likelihood_many(self, xs: Iterable[Any]) -> Floats:
        """Log P(x) of many events, by the model as it is. Shape (n,)."""
        rows: Any = xs if is_frame(xs) else list(xs)
        nobody = np.full(len(rows), -1)
        codes = self._model.encode(rows, self._kinds, nobody >= 0)
        return self._run(codes, nobody, nobody)

    # -- learning -----------------------------------------------------------------------------------------

    def learn_one(self, x: Any, w: float = 1.0) -> None:
        """Learn one event, counted `w` times (in steps of 1/1024).

        Raises TypeError or ValueError, and learns nothing, for a value that its attribute does not take.
        """
        self.learn_many([x], [w])

    def learn_many(self, X: Any, w: Weights = None) -> Floats:
        """Learn many events in order; log P(x) of each by all that was learned before it. Shape (n,)."""
        rows: Any = X if is_frame(X) else list(X)
        weights = Targets.of(len(rows), None, None if w is None else list(w), None).weights
        codes = self._model.encode(rows, self._kinds, weights > 0)
        return self._run(codes, np.where(weights > 0, 0, -1), weights)

    def unlearn_one(self, x: Any, w: float = 1.0) -> None:
        """Undo ``learn_one(x, w)``, exactly; the tree is made anew of what is left. See `TreeAugmentedNB`.

        Raises UnlearnError, and changes nothing, where the counts show that this was never learned.
        """
        if weight := units(w):
            self._model.unlearn(x, self._kinds, 0, weight)

    def merge(self, other: ChowLiuTree) -> Self:
        """Add all that `other` has learned, as if its events had been learned here; returns self.

        Exact with the exceptions of `TreeAugmentedNB.merge`. Raises ValueError where the two were built
        differently.
        """
        if type(other) is not type(self) or other._get_params() != self._get_params():
            raise ValueError("only models of the same class and parameters can be merged")
        self._model.merge(other._model, np.arange(other._model.counts.classes), _ONE_CLASS)
        return self

    # -- state --------------------------------------------------------------------------------------------

    def state(self) -> State:
        """All that was learned: JSON-able values, and arrays. Equal states have equal bytes."""
        meta, arrays = self._model.state()
        return {"type": type(self).__name__, **meta}, arrays

    def load_state(self, meta: Mapping[str, Any], arrays: Mapping[str, Array]) -> Self:
        """Replace all that was learned by the `state` of such a model; returns self.

        Raises ValueError for one of another model or `max_values`, and SnapshotError for one that is damaged.
        """
        self._go_on(self._restored(meta, arrays))
        return self

    # -- inside -------------------------------------------------------------------------------------------

    def _run(self, codes: Codes, labels: Ints, weights: Ints) -> Floats:
        """Log P(x) of each event, learned in order where they are to be."""
        joints = np.empty((labels.size, _ONE_CLASS))
        m, alpha = float(self.prior_weight * UNIT), float(self.alpha * UNIT)
        reading = TreeReading(alpha, m, m, np.zeros(_ONE_CLASS), UNIFORM)
        self._model.run(TreeEvents(codes, labels, weights), _ONE_CLASS, reading, TreeAnswers(joints))
        return np.where(np.isfinite(joints[:, 0]), joints[:, 0], 0.0)  # before the first there is no class
