"""Protocol of models in the engine. `NaiveBayes` implements it; `RiverStreamModel` adapts others."""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Literal, Protocol

from streamnb.statistics.memory_budget import MemoryUse
from streamnb.values.type_aliases import Array, Aside, State, Times, Weights, concatenated

if TYPE_CHECKING:
    from streamnb.models.interface.attribution import Item
    from streamnb.models.interface.predictions import Posteriors

Events = Iterable[Any]  # in order; each maps attribute -> value, or is a text
Labels = Iterable[Any]  # one for each event; None if unknown
Most = int | None  # a maximum; None: unlimited
Prunings = Iterable[int] | None  # `n_prunings` when each event was learned; None: nothing was pruned since
Corrections = Literal["exact", "counts", "again"]
"""Effect of a label that changes, or is retracted, after it was learned.

exact   the event is unlearned completely (moments up to rounding).
counts  counts and moments are unlearned; other state is unchanged.
again   nothing is unlearned: the corrected label is one more observation.
"""


class StateCopying(Protocol):
    """A copy of a model's state at one moment, made while the model continues to learn.

    `advance` is called between events until it returns True; `state` may be called at any time, copies the
    rest, and returns the model's `state` at that moment. Once the copy is complete, another thread may call
    it.
    """

    def advance(self, n_bytes: int) -> bool:
        """Copy about `n_bytes` more; return True if the copy is complete."""

    def state(self) -> State:
        """Return JSON-able values and arrays, which belong to the caller."""


class Unbounded:
    """A model without a memory budget: see `StreamModel`."""

    most_classes = sys.maxsize
    memory_use = MemoryUse()
    is_settled = True

    def has_capacity(self, classes: int, n_bytes: int, words: int) -> bool:
        """Return True."""
        return True

    def evict(self, classes: int) -> None:
        """Do nothing."""

    def reset_adaptive(self) -> None:
        """Do nothing."""

    def change_budget(self, before: StreamModel) -> None:
        """Do nothing."""


class BoundedByPart(ABC):
    """A model whose memory budget is that of one of its parts: see `StreamModel`."""

    @property
    @abstractmethod
    def bounded(self) -> StreamModel | Unbounded:
        """The part with the budget; `Unbounded` if there is none."""

    @property
    def memory_use(self) -> MemoryUse:
        """Share of its memory budget that the part uses."""
        return self.bounded.memory_use

    @property
    def most_classes(self) -> int:
        """Maximum number of classes of the part."""
        return self.bounded.most_classes

    @property
    def is_settled(self) -> bool:
        """True if the part has no holes in its tables."""
        return self.bounded.is_settled

    def has_capacity(self, classes: int, n_bytes: int, words: int) -> bool:
        """Return whether the part can learn these without eviction."""
        return self.bounded.has_capacity(classes, n_bytes, words)

    def evict(self, classes: int) -> None:
        """Evict values of the part if `classes` classes leave too little memory."""
        self.bounded.evict(classes)

    def reset_adaptive(self) -> None:
        """Reset the adaptive state of the part."""
        self.bounded.reset_adaptive()

    def change_budget(self, before: StreamModel) -> None:
        """Continue from another model, whose part had another memory budget."""
        if isinstance(before, BoundedByPart):
            self.bounded.change_budget(before.bounded)  # type: ignore[arg-type]  # `Unbounded` has no budget


class StreamModel(Protocol):
    """A model that learns from a stream, strictly in order, and can be saved and restored.

    It is deterministic: the same events in the same order, divided into calls in any way, give the same
    answers and the same `state`, bit for bit; and a model that has loaded a state continues exactly as the
    saved model. Recovery relies on this.

    It reads no clock and does no I/O. An event that it cannot read raises TypeError or ValueError, and
    nothing is learned. A model that weighs hypotheses also has a `posterior`, a `SequentialPosterior`.
    """

    @property
    def classes(self) -> list[Any]:
        """Every class met, in that order; it only grows at its end."""

    @property
    def class_weights(self) -> dict[Any, float]:
        """Class -> weight learned, in examples."""

    @property
    def n_events(self) -> int:
        """Number of labelled events learned with a weight above 0."""

    @property
    def n_attributes(self) -> int:
        """Number of words and values with a count or a weight; 0 if the model has no such number."""

    @property
    def n_bytes(self) -> int:
        """Approximate memory of everything learned; read at every commit."""

    @property
    def corrections(self) -> Corrections:
        """What `unlearn_many` can undo."""

    @property
    def n_prunings(self) -> int:
        """Number of prunings, which only grows. To unlearn an event later, store its value with the event."""

    def predict_then_learn_many(
        self, xs: Events, ys: Labels, ws: Weights = None, ts: Times = None
    ) -> Posteriors:
        """Predict each event from all before it, then learn it if its label is not None, in order."""

    def predict_posteriors(self, xs: Events, ts: Times = None) -> Posteriors:
        """Return P(v | x) of many events, without changing the model."""

    def learn_many(self, X: Any, y: Any, w: Weights = None, ts: Times = None) -> None:
        """Learn many events in order, as `predict_then_learn_many` does."""

    def learn_late_many(
        self, xs: Events, ys: Labels, ws: Weights = None, ts: Times = None, *, again: bool = False
    ) -> None:
        """Learn, in order, events that `predict_then_learn_many` predicted without a label.

        With `again`, `unlearn_many` unlearned them before: hypotheses were already weighed by their
        predictions. For a model that is independent of the order of events, both are `learn_many`.
        """

    def unlearn_many(
        self, xs: Events, ys: Labels, ws: Weights = None, ts: Times = None, prunings: Prunings = None
    ) -> None:
        """Unlearn events with these labels and weights, in order, as far as the model can.

        How events are divided into calls changes nothing, bit for bit. Events without a label or weight are
        skipped. `prunings` are `n_prunings` when each was learned: words that were pruned since, even if they
        were learned again, hold nothing of the event. None: nothing was pruned.

        Raises UnlearnError at the first event that, by the counts, was never learned so; this event and the
        events after it are not unlearned. No count falls below zero.
        """

    def explain_one(self, x: Any, top: int | None = None, t: float | None = None) -> list[Item]:
        """Return the attribution to the predicted class, the strongest item first; empty if unsupported."""

    def prune(self, min_count: float = 0.0, drop_most_frequent: int = 0, max_attributes: Most = None) -> int:
        """Prune the vocabulary; return the number dropped. Raises ValueError if there is none to prune."""

    def reset_adaptive(self) -> None:
        """Reset state that relearns quickly and cannot be unlearned, if any: see `BayesOptimalNB`."""

    @property
    def memory_use(self) -> MemoryUse:
        """Memory in use under the budget."""

    @property
    def most_classes(self) -> int:
        """Maximum number of classes under the memory budget; `sys.maxsize` without one."""

    def has_capacity(self, classes: int, n_bytes: int, words: int) -> bool:
        """Return True if it can learn this many words and values, of `n_bytes` bytes, without eviction.

        `classes` is the number of classes afterwards. If False, the caller asks before every event with a new
        class, and calls `evict`.
        """

    def evict(self, classes: int) -> None:
        """Evict the least important state, if needed, depending only on what was learned and the budget."""

    def change_budget(self, before: StreamModel) -> None:
        """Record that everything so far was learned under the budget of `before`.

        Events for which that budget had no capacity are then not unlearned by `unlearn_many`.
        """

    @property
    def is_settled(self) -> bool:
        """True if a copy can begin at once; otherwise pending work, such as rehashing, is finished first."""

    def state(self) -> State:
        """Return everything learned: JSON-able values, and arrays. Equal states have equal bytes."""

    def copying(self, aside: Aside = concatenated, /) -> StateCopying:
        """Return a copy of the current `state`, made during learning; large arrays are put `aside`."""

    def load_state(self, meta: Mapping[str, Any], arrays: Mapping[str, Array]) -> Any:
        """Replace everything learned. Raises if the state is not a state of such a model."""


class PartialLearner(Protocol):
    """A model whose state is a sum over events, so that a part of a stream can be learned separately."""

    def partial(self, xs: Events, ys: Labels, ws: Weights = None) -> tuple[Posteriors, Any]:
        """Predict events by the current model, and learn them into a partial."""
