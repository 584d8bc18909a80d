"""A mixture model: naive Bayes whose classes are components that no label ever names, by incremental EM.

    P(x) = sum_j P(c_j) P(x | c_j)

Texts are multinomials or Bernoulli texts, numbers are Gaussians, and other values categorical, as the naive
Bayes model reads them. The first events, the *warm-up*, are only kept. Then one of them is drawn as the seed
of each component, and EM over the warm-up begins with components learned from one seed each. The best of
several starts is kept, by the likelihood of the warm-up. After that EM is online: an event is learned by its
responsibilities on arrival, and events of the window are revisited in turn. An event that leaves the window
keeps its last responsibilities.

**How many components?** `log_evidence_one`, before each event is learned, is the prequential evidence of a
model. Components that the stream does not need cost evidence, because each learns from fewer events; or EM
leaves them without weight, and they take no part any more.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any, Self

from river import base

from streamnb.errors import SnapshotError, UnlearnError
from streamnb.models.naive_bayes.generation import Drawn
from streamnb.models.naive_bayes.naive_bayes_classifier import NaiveBayes
from streamnb.models.naive_bayes.parameters import Parameters
from streamnb.statistics.counter_rng import check_seed, uniforms
from streamnb.toolbox.semi_supervised.em_window import EventWindow, WindowEvent, as_plain
from streamnb.toolbox.semi_supervised.responsibilities import (
    expected_parts,
    log_sum,
    replace_parts,
    revisit_window,
    shares_of,
)
from streamnb.values.example_weights import units
from streamnb.values.parameter_checks import check_whole
from streamnb.values.savable import Savable
from streamnb.values.state_validation import check_made, count, named, state_errors
from streamnb.values.type_aliases import Array, State

_MODEL, _KEPT = "model_", "kept_"  # prefixes of array names in a state
_ROUNDS = 50  # maximum number of rounds of EM over the warm-up for each start


class MixtureModel(Savable, base.Clusterer):  # type: ignore[misc]  # River is untyped here
    """A mixture of naive Bayes components, learned from events without any label.

    Args:
        model: any naive Bayes model that can unlearn and has learned nothing; it is trained in place.
        n_components: number of components; they are called 0, 1, ...
        window: number of newest events that EM revisits; at least `warmup`.
        revisits: number of window events that are learned again after each event, the oldest first.
        warmup: number of events that are kept before the components begin; at least `n_components`. Numbers
            need 10 or more for each component: with fewer, smoothed variances keep components alike.
        starts: number of draws of seeds, of which the best is kept.
        seed: seed of the counter-based generator.

    Raises:
        ValueError: if a parameter is out of range, or the model cannot unlearn or has learned.

    Examples:
        Four texts about two subjects, and no label:

        >>> from streamnb import MixtureModel, MultinomialNB
        >>> model = MixtureModel(MultinomialNB(), n_components=2, warmup=4)
        >>> for text in ["ball goal ball", "goal ball team", "vote law vote", "law vote party"] * 3:
        ...     model.learn_one(text)
        >>> model.predict_one("ball") == model.predict_one("team") != model.predict_one("party")
        True
        >>> model.predict_proba_one("ball goal")[model.predict_one("goal")] > 0.95
        True

    References:
        Dempster, Laird and Rubin (1977), JRSS B 39(1); Neal and Hinton (1998), "A view of the EM algorithm
        that justifies incremental, sparse, and other variants"; McLachlan and Peel (2000), Finite mixture
        models; Dawid (1984), "The prequential approach", JRSS A 147(2).
    """

    def __init__(
        self,
        model: NaiveBayes,
        n_components: int = 2,
        window: int = 500,
        revisits: int = 1,
        warmup: int = 100,
        starts: int = 5,
        seed: int = 0,
    ) -> None:
        if type(model).unlearn_one is not NaiveBayes.unlearn_one:
            raise ValueError(f"what a {type(model).__name__} has learned cannot always be unlearned")
        if model.classes:
            raise ValueError(f"the model has learned classes already: {model.classes}")
        check_whole("n_components", n_components, 1)
        check_whole("warmup", warmup, n_components)
        check_whole("window", window, warmup)
        check_whole("revisits", revisits, 0)
        check_whole("starts", starts, 1)
        check_seed(seed)
        self.model, self.n_components, self.window = model, n_components, window
        self.revisits, self.warmup, self.starts, self.seed = revisits, warmup, starts, seed
        self._kept = EventWindow()
        self.n_events = 0
        """Number of events learned, less those unlearned."""

    @property
    def is_warm(self) -> bool:
        """True once the components have begun."""
        return bool(self.model.classes)

    @property
    def n_parameters(self) -> int:
        """Number of free parameters; see `NaiveBayes.n_parameters`."""
        return self.model.n_parameters

    def parameters(self) -> Parameters:
        """Return P(c_j), and P(a | c_j) of each attribute; see `NaiveBayes.parameters`."""
        return self.model.parameters()

    def responsibilities(self) -> list[dict[int, float]]:
        """Return component -> learned share of each event of the window, oldest first."""
        return shares_of(self.model.classes, self._kept)

    def predict_proba_one(self, x: Any) -> dict[int, float]:
        """Return P(c_j | x) by component; {} during the warm-up."""
        return self.model.predict_proba_one(x)

    def predict_one(self, x: Any) -> int | None:
        """Return the most probable component; None during the warm-up."""
        shares = self.predict_proba_one(x)
        return max(shares, key=shares.__getitem__) if shares else None

    def log_evidence_one(self, x: Any) -> float:
        """Return log P(x), in nats; 0 during the warm-up.

        Its sum over a stream, each event before it is learned, compares models with the same warm-up and the
        same attributes. Words and values never seen are skipped; texts are without their coefficient.
        """
        return log_sum(self.model.joint_log_likelihood(x).values()) if self.is_warm else 0.0

    def sample(self, n: int, seed: int = 0, first: int = 0, length: int | None = None) -> list[Drawn]:
        """Draw events with their components; see `NaiveBayes.sample`."""
        return self.model.sample(n, seed, first, length)

    def learn_one(self, x: Any, w: float = 1.0) -> None:
        """Learn an event, counted `w` times (steps of 1/1024); then continue EM.

        Raises TypeError or ValueError, and learns nothing, if an attribute does not accept its value.
        """
        weight = units(w)
        if not weight:
            return
        parts = expected_parts(self.model, x, weight)
        replace_parts(self.model, x, (), parts)
        self._kept.add(WindowEvent(as_plain(x), weight, parts))
        self.n_events += 1
        if len(self._kept) > self.window:
            self._kept.take(0)
        if self.is_warm:
            self.revisit(self.revisits)
        elif len(self._kept) == self.warmup:
            self._begin()

    def revisit(self, n: int | None = None) -> int:
        """Learn `n` events of the window again, by default all; return the units of 1/1024 that moved."""
        return revisit_window(self.model, self._kept, n) if self.is_warm else 0

    def unlearn_one(self, x: Any, w: float = 1.0) -> None:
        """Undo ``learn_one(x, w)``: exactly on counts. Its effect on other events stays.

        Raises UnlearnError, and changes nothing, if no such event is in the window.
        """
        weight = units(w)
        if not weight:
            return
        place = self._kept.find(as_plain(x), weight)
        if place is None:
            raise UnlearnError(f"no event like this, of weight {w}, is in the window")
        event = self._kept.take(place)
        replace_parts(self.model, event.x, event.parts, ())
        self.n_events -= 1

    def state(self) -> State:
        """Return all that was learned, and the kept events: JSON-able values, and arrays."""
        model_meta, model_arrays = self.model.state()
        kept_meta, kept_arrays = self._kept.state(len(self.model.classes))
        meta = {"type": type(self).__name__, "components": self.n_components, "window": self.window}
        meta |= {"events": self.n_events, "model": model_meta, "kept": kept_meta}
        return meta, {
            **{f"{_MODEL}{name}": array for name, array in model_arrays.items()},
            **{f"{_KEPT}{name}": array for name, array in kept_arrays.items()},
        }

    def load_state(self, meta: Mapping[str, Any], arrays: Mapping[str, Array]) -> Self:
        """Replace all state by one with as many components; return self. Raises SnapshotError."""
        check_made(meta, type=type(self).__name__, components=self.n_components, window=self.window)
        with state_errors(f"a {type(self).__name__}"):
            classes = meta["model"]["classes"]
            if classes not in ([], list(range(self.n_components))):
                raise SnapshotError(f"expected the components 0 to {self.n_components - 1}, found {classes}")
            kept = EventWindow.from_state(meta["kept"], named(arrays, _KEPT), len(classes))
            events = count(meta, "events", least=len(kept))
            self.model.load_state(meta["model"], named(arrays, _MODEL))
        self._kept, self.n_events = kept, events
        return self

    def clone(self, new_params: dict[str, Any] | None = None, include_attributes: bool = False) -> Self:  # noqa: FBT001, FBT002
        """Return an untrained copy, or a full copy with `include_attributes`."""
        fresh = {"model": self.model.clone(include_attributes=include_attributes)}
        cloned: Self = super().clone(fresh | (new_params or {}), include_attributes)
        return cloned

    def _begin(self) -> None:
        """Begin the components by the best start."""
        events = list(self._kept)
        tried = [self._started(self.model.clone(), events, start)[1] for start in range(self.starts)]
        best = max(range(self.starts), key=tried.__getitem__) if self.starts > 1 else 0
        self._kept, _ = self._started(self.model, events, best)

    def _started(self, model: NaiveBayes, events: list[WindowEvent], start: int) -> tuple[EventWindow, float]:
        """Run EM over the warm-up from the seeds of a start; return its window and log likelihood."""
        chances = uniforms(self.seed, start * self.warmup, self.warmup)
        places = sorted(range(len(events)), key=chances.__getitem__)[: self.n_components]
        for component, place in enumerate(places):
            model.learn_one(events[place].x, component)
        kept = EventWindow()
        for event in events:
            kept.add(event._replace(parts=expected_parts(model, event.x, event.weight)))
        for event in kept:
            replace_parts(model, event.x, (), event.parts)
        for component, place in enumerate(places):
            model.unlearn_one(events[place].x, component)
        for _ in range(_ROUNDS):
            if not revisit_window(model, kept, None):
                break
        logs = (log_sum(model.joint_log_likelihood(event.x).values()) for event in events)
        return kept, math.fsum(logs)

    @classmethod
    def _unit_test_params(cls) -> Iterator[dict[str, Any]]:
        yield {"model": NaiveBayes()}
