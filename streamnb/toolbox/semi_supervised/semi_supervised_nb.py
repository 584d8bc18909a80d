"""Naive Bayes that also learns from events without a label: a mixture whose components are the classes.

    P(x) = sum_j P(c_j) P(x | c_j)

A label names the component of an event. Without one, expectation maximisation (EM) learns its expectation:
the event counts as every class c_j, by the *responsibility* P(c_j | x).

**Incremental EM.** Neal and Hinton (1998): the expected counts of a single event may be removed from the sums
and replaced by the model's current expectation, and every such step raises, or keeps, the free energy that EM
maximises. Here an event is learned by its responsibilities on arrival, and events of the window are revisited
in turn. When a round changes nothing, the model is a fixed point of batch EM, up to the rounding of
`apportioned`: each responsibility is P(c_j | x) under the very sums that include it.

**Why a window.** Expectations of a young model are mostly wrong, and would bias later ones: without
forgetting, one class absorbs all unlabelled events for good. Cappe and Moulines (2009) decay old sums, but
labels should not decay. Here an unlabelled event that leaves the window is unlearned: the model is all
labelled events, and EM over the newest unlabelled ones, whose weight is bounded by the window. On SMS spam
with 95 % of the labels hidden, a window of 200 events of weight 1 loses .66 nats an event. The same events,
revisited among the last 1000 and then kept, lose 2.2.

**Counts are exact.** An expected count is a whole number of units of 1/1024, and the parts of an event sum to
its weight, so they are removed exactly. Moments are removed up to the rounding of the largest value: a number
far beyond the rest leaves its rounding error. A class whose part has not changed is not touched.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Self

from river import base

from streamnb.errors import UnlearnError
from streamnb.features.targets import EncodedExamples
from streamnb.models.interface.attribution import Item
from streamnb.models.interface.river_classifier import unteach_one
from streamnb.models.interface.stream_model import Corrections, Events, Labels, Most, Prunings
from streamnb.models.mixture.bayes_optimal_classifier import BayesOptimalClassifier
from streamnb.models.naive_bayes.generation import Drawn
from streamnb.models.naive_bayes.naive_bayes_classifier import NaiveBayes
from streamnb.models.naive_bayes.parameters import Parameters
from streamnb.models.naive_bayes.sufficient_statistics import SufficientStatistics
from streamnb.toolbox.semi_supervised.em_window import EventWindow, WindowEvent, as_plain
from streamnb.toolbox.semi_supervised.responsibilities import (
    expected_parts,
    log_sum,
    replace_parts,
    revisit_window,
    shares_of,
)
from streamnb.values.example_weights import units
from streamnb.values.number_ranges import is_missing
from streamnb.values.parameter_checks import check_whole
from streamnb.values.savable import Savable
from streamnb.values.state_validation import MOST, count, named, state_errors
from streamnb.values.type_aliases import Array, State, Times, Weights

LABELLED, BOTH = "labelled", "labelled and unlabelled"
"""Names of the two hypotheses of `labelled_and_both`."""

_MODEL, _KEPT = "model_", "kept_"  # prefixes of array names in a state


class SemiSupervisedNB(Savable, base.Classifier):  # type: ignore[misc]  # River is untyped here
    r"""A naive Bayes model taught by labelled and unlabelled events, by incremental EM.

        E   r_j = P(c_j | x) = P(c_j) prod_i P(a_i | c_j) / P(x)      of an event without a label
        M   x is counted as class c_j with weight unlabelled_weight * r_j, for every class known

    An event whose label is None (or NaN) is unlabelled. `unlabelled_weight` < 1 is EM-lambda of Nigam et al.:
    many unlabelled events do not dominate few labelled ones. An unlabelled event before any label is learned
    in a later revisit. If every event has a label, or ``unlabelled_weight=0``, the result is `model` exactly.

    Unlabelled events help if the model's assumptions hold approximately, and may harm otherwise: measure it
    on your stream. `BayesOptimalClassifier` weighs this model against one that learns labels only, and loses
    at most ln 2 nats in all against the better.

    Args:
        model: any naive Bayes model that can unlearn; it is trained in place.
        unlabelled_weight: weight of an unlabelled event, 0 to 1 examples; counted in steps of 1/1024.
        window: number of newest unlabelled events that EM revisits; an event that leaves is unlearned. None
            is online EM over all of them: each is learned once, on arrival, and stays.
        revisits: number of window events that are learned again after each event, in turn from the oldest.

    Raises:
        ValueError: if a parameter is out of range, or the model cannot unlearn.

    Examples:
        Two labels, and two texts that tie a third word to one of them:

        >>> from streamnb import MultinomialNB, SemiSupervisedNB
        >>> model = SemiSupervisedNB(MultinomialNB(), unlabelled_weight=1)
        >>> for text, label in [("cash win", "spam"), ("lunch noon", "ham")]:
        ...     model.learn_one(text, label)
        >>> model.learn_one("cash prize", None)
        >>> model.learn_one("lunch menu", None)
        >>> while model.revisit():  # until EM has converged
        ...     pass
        >>> {label: round(share, 3) for label, share in model.responsibilities()[0].items()}
        {'spam': 0.759, 'ham': 0.241}
        >>> round(model.predict_proba_one("prize")["spam"], 3)
        0.586

    References:
        Nigam, McCallum, Thrun and Mitchell (2000), Machine Learning 39(2); Neal and Hinton (1998), "A view of
        the EM algorithm that justifies incremental, sparse, and other variants"; Cappe and Moulines (2009),
        JRSS B 71(3); Dempster, Laird and Rubin (1977), JRSS B 39(1).
    """

    def __init__(
        self, model: NaiveBayes, unlabelled_weight: float = 0.1, window: int | None = 200, revisits: int = 1
    ) -> None:
        if type(model).unlearn_one is not NaiveBayes.unlearn_one:
            raise ValueError(f"what a {type(model).__name__} has learned cannot always be unlearned")
        if not 0.0 <= unlabelled_weight <= 1.0:
            raise ValueError(f"unlabelled_weight must lie between 0 and 1, not {unlabelled_weight!r}")
        if window is not None:
            check_whole("window", window, 1)
        check_whole("revisits", revisits, 0)
        self.model, self.unlabelled_weight = model, unlabelled_weight
        self.window, self.revisits = window, revisits
        self._kept = EventWindow()
        self.n_labelled = 0
        """Number of labelled events learned, less those unlearned."""
        self.n_unlabelled = 0
        """Number of unlabelled events learned, less those unlearned; events that left the window count."""

    @property
    def classes(self) -> list[Any]:
        """Every class met, in order of first appearance."""
        return self.model.classes

    @property
    def class_weights(self) -> dict[Any, float]:
        """Class -> weight learned, in examples, including expected weight."""
        return self.model.class_weights

    @property
    def statistics(self) -> SufficientStatistics:
        """Everything learned, labelled and expected."""
        return self.model.statistics

    @property
    def n_kept(self) -> int:
        """Number of events in the window."""
        return len(self._kept)

    @property
    def n_attributes(self) -> int:
        """Number of words and nominal values with a count above zero."""
        return self.model.n_attributes

    @property
    def n_bytes(self) -> int:
        """Memory of the tables in bytes, including spare capacity, without the window."""
        return self.model.n_bytes

    def responsibilities(self) -> list[dict[Any, float]]:
        """Return class -> learned share of each event of the window, oldest first."""
        return shares_of(self.classes, self._kept)

    def joint_log_likelihood(self, x: Any) -> dict[Any, float]:
        """Return log P(v, x) of every class v with examples (nats)."""
        return self.model.joint_log_likelihood(x)

    def log_evidence_one(self, x: Any) -> float:
        """Return log P(x) = log sum_j P(c_j) P(x | c_j), in nats; -inf before anything was learned.

        Summed over a stream, each event before it is learned, it is the prequential density of the events,
        which compares models without labels. Words and values never seen are skipped, as in predictions, so
        compare models with the same vocabulary.

        Examples:
            >>> import math
            >>> from streamnb import CategoricalNB, SemiSupervisedNB
            >>> model = SemiSupervisedNB(CategoricalNB())
            >>> for colour, label in [("red", "apple"), ("red", "apple"), ("green", "pear")]:
            ...     model.learn_one({"colour": colour}, label)
            >>> round(math.exp(model.log_evidence_one({"colour": "red"})), 4) == round(2/3*3/4 + 1/3*1/3, 4)
            True
        """
        return log_sum(self.joint_log_likelihood(x).values())

    def predict_proba_one(self, x: Any) -> dict[Any, float]:
        """Return P(v | x) of every class v with examples; they sum to 1. Empty before any learning."""
        return self.model.predict_proba_one(x)

    @property
    def n_parameters(self) -> int:
        """Number of free parameters; see `NaiveBayes.n_parameters`."""
        return self.model.n_parameters

    def parameters(self) -> Parameters:
        """Return P(c_j), and P(a | c_j) of each attribute; see `NaiveBayes.parameters`."""
        return self.model.parameters()

    def sample(self, n: int, seed: int = 0, first: int = 0, length: int | None = None) -> list[Drawn]:
        """Draw events with their labels: a component by P(c_j), then x by P(x | c_j); see `NaiveBayes`."""
        return self.model.sample(n, seed, first, length)

    def explain_one(self, x: Any, top: int | None = None) -> list[Item]:
        """Return what each attribute value adds to the log odds of the predicted class; see `NaiveBayes`."""
        return self.model.explain_one(x, top)

    corrections: Corrections = "counts"
    """Only the contribution of labelled events is corrected, not expectations derived from it."""

    @property
    def n_prunings(self) -> int:
        """Number of prunings so far."""
        return self.model.n_prunings

    @classmethod
    def _unit_test_params(cls) -> Iterator[dict[str, Any]]:
        yield {"model": NaiveBayes()}

    def learn_one(self, x: Any, y: Any, w: float = 1.0) -> None:
        """Learn an event of class `y`, or of an unknown class if `y` is None; then continue EM.

        Raises TypeError or ValueError, and learns nothing, if an attribute does not accept its value.
        """
        if is_missing(y):
            self.learn_unlabelled_one(x, w)
            return
        self.model.learn_one(x, y, w)
        self.n_labelled += units(w) > 0
        self.revisit(self.revisits)

    def learn_unlabelled_one(self, x: Any, w: float = 1.0) -> None:
        """Learn an event of an unknown class, counted `w` times; then continue EM."""
        weight = units(self.unlabelled_weight * w)
        if weight > 0:
            parts = expected_parts(self.model, x, weight)
            replace_parts(self.model, x, (), parts)
            self.n_unlabelled += 1
            if self.window is not None:
                self._kept.add(WindowEvent(as_plain(x), weight, parts))
                if len(self._kept) > self.window:
                    self._take_out(0)
        self.revisit(self.revisits)

    def learn_late_one(self, x: Any, y: Any, w: float = 1.0) -> None:
        """Learn an event that arrived without its label before, and remove it from the window, if present."""
        place = self._kept.find(as_plain(x), units(self.unlabelled_weight * w))
        if place is not None:
            self._take_out(place)
            self.n_unlabelled -= 1
        self.learn_one(x, y, w)

    def revisit(self, n: int | None = None) -> int:
        """Learn `n` events of the window again, each at most once (by default all); return the units moved.

        If a round of all events moves nothing, EM has converged in whole units: each part is within 1/1024
        example of its expectation, 1 % of an event of weight .1. Smaller steps of batch EM are lost
        (`NetworkEM` counts in units of 2^-30).
        """
        return revisit_window(self.model, self._kept, n)

    def unlearn_one(self, x: Any, y: Any, w: float = 1.0) -> None:
        """Undo ``learn_one(x, y, w)``: exactly on counts. Its effect on expectations of other events stays.

        Raises UnlearnError, and changes nothing, if it was never learned, or is an unlabelled event outside
        the window, whose parts are unknown.
        """
        if not is_missing(y):
            self.model.unlearn_one(x, y, w)
            self.n_labelled -= units(w) > 0
            return
        weight = units(self.unlabelled_weight * w)
        if weight == 0:
            return
        place = self._kept.find(as_plain(x), weight)
        if place is None:
            raise UnlearnError(f"no unlabelled event like this, of weight {w}, is in the window")
        self._take_out(place)
        self.n_unlabelled -= 1

    def unlearn_many(
        self, xs: Events, ys: Labels, ws: Weights = None, ts: Times = None, prunings: Prunings = None
    ) -> None:
        """Unlearn these events with their labels, in order; see `StreamModel`.

        Their effect on the expectations of window events stays.
        """
        for x, y, w, number in EncodedExamples.from_examples(xs, ys, ws, prunings).each():
            unteach_one(self.model, x, y, w, number)
            self.n_labelled -= 1

    def prune(self, min_count: float = 0.0, drop_most_frequent: int = 0, max_attributes: Most = None) -> int:
        """Forget words of the text attributes; return how many. See `NaiveBayes.prune`.

        The window is emptied first, because its events could not be unlearned exactly without those words.
        """
        while len(self._kept):
            self._take_out(0)
        return self.model.prune(min_count, drop_most_frequent, max_attributes)

    def state(self) -> State:
        """Return everything learned and the kept events: JSON-able values, and arrays."""
        model_meta, model_arrays = self.model.state()
        kept_meta, kept_arrays = self._kept.state(len(self.classes))
        meta = {
            "type": type(self).__name__,
            "window": self.window,
            "labelled": self.n_labelled,
            "unlabelled": self.n_unlabelled,
            "model": model_meta,
            "kept": kept_meta,
        }
        return meta, {
            **{f"{_MODEL}{name}": array for name, array in model_arrays.items()},
            **{f"{_KEPT}{name}": array for name, array in kept_arrays.items()},
        }

    def load_state(self, meta: Mapping[str, Any], arrays: Mapping[str, Array]) -> Self:
        """Replace everything learned by the `state` of a model with the same window; return self.

        Raises ValueError for another model or window, and SnapshotError for a damaged state.
        """
        if meta.get("type") != type(self).__name__:
            raise ValueError(f"this is the state of a {meta.get('type')}, not of a {type(self).__name__}")
        if meta.get("window") != self.window:
            raise ValueError(
                f"this is the state of a model with the window {meta.get('window')}, not {self.window}"
            )
        with state_errors(f"a {type(self).__name__}"):
            kept = EventWindow.from_state(meta["kept"], named(arrays, _KEPT), len(meta["model"]["classes"]))
            labelled, unlabelled = (count(meta, name, least=-MOST) for name in ("labelled", "unlabelled"))
            self.model.load_state(meta["model"], named(arrays, _MODEL))
        self._kept, self.n_labelled, self.n_unlabelled = kept, labelled, unlabelled
        return self

    def clone(self, new_params: dict[str, Any] | None = None, include_attributes: bool = False) -> Self:  # noqa: FBT001, FBT002
        """Return an untrained copy, or a full copy with `include_attributes`."""
        fresh = {"model": self.model.clone(include_attributes=include_attributes)}
        cloned: Self = super().clone(fresh | (new_params or {}), include_attributes)
        return cloned

    def _take_out(self, place: int) -> None:
        event = self._kept.take(place)
        replace_parts(self.model, event.x, event.parts, ())

    _multiclass = True

    def _more_tags(self) -> set[str]:
        return set(self.model._tags)  # noqa: SLF001  River's own


def labelled_and_both(
    unlabelled_weight: float, unlabelled_window: int, revisits: int, **reading: Any
) -> BayesOptimalClassifier:
    """Return a mixture of two models, equal at first, weighed by their predictions of labels.

    Over the labelled events, the mixture loses at most ln 2 nats in all against the better of the two,
    whatever the unlabelled events do to the second.

    Args:
        unlabelled_weight: as of `SemiSupervisedNB`.
        unlabelled_window: its `window`.
        revisits: as of `SemiSupervisedNB`.
        reading: parameters of both models; see `NaiveBayes`.

    Examples:
        >>> model = labelled_and_both(0.1, 200, 1, attributes={"text": "text"})
        >>> model.posterior.probabilities
        {'labelled': 0.5, 'labelled and unlabelled': 0.5}
    """
    taught = SemiSupervisedNB(NaiveBayes(**reading), unlabelled_weight, unlabelled_window, revisits)
    return BayesOptimalClassifier({LABELLED: NaiveBayes(**reading), BOTH: taught})
