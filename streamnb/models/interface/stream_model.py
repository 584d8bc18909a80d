"""What the engine asks of a model, as sentences. `NaiveBayes` is one; `RiverStreamModel` makes others."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Literal, Protocol

from streamnb.statistics.memory_use import MemoryUse
from streamnb.values.type_aliases import Array, Aside, State, Times, Weights, concatenated

if TYPE_CHECKING:
    from streamnb.models.interface.attribution import Item
    from streamnb.models.interface.predictions import Posteriors

Events = Iterable[Any]
"""In order; of each attribute -> value, or a text alone."""
Labels = Iterable[Any]
"""Of events; None where it is not known."""
Most = int | None
"""How many there may be; None: any number."""
Prunings = Iterable[int] | None
"""Of events, `n_prunings` when each was learned; None: no words were forgotten since."""
Corrections = Literal["exact", "counts", "again"]
"""How a model takes a label that changes, or is withdrawn, after it was learned.

exact   all that it learned of the event is taken back (moments to their rounding, see `stats.moments`).
counts  its counts and moments are; what it learns beside them keeps what it saw.
again   nothing is: the corrected label is one more observation.
"""


class StateCopying(Protocol):
    """The state of a model at one moment, copied while the model goes on learning.

    `advance` is called until it says that all is copied, between events; `state` may be called at any time,
    copies what is left, and gives what the model's `state` was at that moment. Once all is copied, it may be
    called by another thread.
    """

    def advance(self, n_bytes: int) -> bool:
        """Copy about so many bytes more; whether that is all."""

    def state(self) -> State:
        """JSON-able values and arrays, which belong to the caller."""


class Unbounded:
    """A model that takes what memory it takes: see `StreamModel`."""

    most_classes = sys.maxsize
    memory_use = MemoryUse()
    is_settled = True

    def has_capacity(self, classes: int, n_bytes: int, words: int) -> bool:
        """There is none to be short of."""
        return True

    def evict(self, classes: int) -> None:
        """Nothing is forgotten."""

    def reset_adaptive(self) -> None:
        """Nothing of it is known to learn anew by itself."""

    def change_budget(self, before: StreamModel) -> None:
        """There was room for all, and is."""


class StreamModel(Protocol):
    """A model that learns from a stream, strictly in order, and can be put down and taken up.

    It is deterministic: the same events in the same order, cut into calls in any way, give the same answers
    and the same `state`, bit for bit; and a model that has loaded a state goes on as the one that it is of.
    Recovery rests on this.

    It reads no clock and does no I/O. An event that it cannot read raises TypeError or ValueError and teaches
    nothing. A model that weighs hypotheses has a `posterior`, a `SequentialPosterior`, too.
    """

    @property
    def classes(self) -> list[Any]:
        """Every class met, in the order in which they were met: it only grows at its end."""

    @property
    def class_weights(self) -> dict[Any, float]:
        """Class -> weight learned, in examples."""

    @property
    def n_events(self) -> int:
        """How many labelled events with a weight were learned."""

    @property
    def n_attributes(self) -> int:
        """How many words and values have a count, or a weight; 0 where that is no question."""

    @property
    def n_bytes(self) -> int:
        """Memory of all that was learned, about; asked for at every commit."""

    @property
    def corrections(self) -> Corrections:
        """What `unlearn_many` takes back."""

    @property
    def n_prunings(self) -> int:
        """How often words were forgotten; it only grows. Whoever may unlearn an event keeps it with it."""

    def predict_then_learn_many(
        self, xs: Events, ys: Labels, ws: Weights = None, ts: Times = None
    ) -> Posteriors:
        """Predict each event by all that was learned before it, then learn it, strictly in order.

        An event whose label is None has no class to be learned as.
        """

    def predict_posteriors(self, xs: Events, ts: Times = None) -> Posteriors:
        """P(v | x) of many events by the model as it is, which stays as it is."""

    def learn_many(self, X: Any, y: Any, w: Weights = None, ts: Times = None) -> None:
        """Learn many events in order, as `predict_then_learn_many` does."""

    def learn_late_many(
        self, xs: Events, ys: Labels, ws: Weights = None, ts: Times = None, *, again: bool = False
    ) -> None:
        """Learn events that `predict_then_learn_many` predicted earlier without a label, in order.

        Or `again`, after `unlearn_many` took them back: what a model weighs by how it predicted them has had
        its say then. Of a model to which the order of events is all the same, both are `learn_many`.
        """

    def unlearn_many(
        self, xs: Events, ys: Labels, ws: Weights = None, ts: Times = None, prunings: Prunings = None
    ) -> None:
        """Take back that these events were learned with these labels and weights, as far as the model can.

        In order; how events are cut into calls changes nothing, bit for bit. Those without a label or weight
        taught nothing, and are passed over. `prunings` are `n_prunings` when each was learned: words that
        were forgotten since, also those that came again, hold nothing of the event. None: none were.

        Raises UnlearnError at the first event of which the counts show that it was never learned so, which is
        left as it was, as are those after it. No count falls below zero.
        """

    def explain_one(self, x: Any, top: int | None = None, t: float | None = None) -> list[Item]:
        """What speaks for the predicted class, the strongest first; empty where the model cannot tell."""

    def prune(self, min_count: float = 0.0, drop_most_frequent: int = 0, max_attributes: Most = None) -> int:
        """Forget words; how many. Raises ValueError where the model has none to forget, and is asked to."""

    def reset_adaptive(self) -> None:
        """Begin anew what is quick to learn again and is not taken back: see `BayesOptimalNB`; or nothing."""

    @property
    def memory_use(self) -> MemoryUse:
        """What it takes of the memory that it may take."""

    @property
    def most_classes(self) -> int:
        """How many classes there may be, by what memory it may take; `sys.maxsize` where nothing says so."""

    def has_capacity(self, classes: int, n_bytes: int, words: int) -> bool:
        """Whether it can learn so many words and values, of so many bytes, and be as if unbounded.

        With so many classes then.

        Where it says no, it is asked before every event with a class that is new, and told to `evict`.
        """

    def evict(self, classes: int) -> None:
        """Forget what matters least, where so many classes leave too little room for more.

        What it does depends on what was learned and on bytes that it was given, and on nothing else.
        """

    def change_budget(self, before: StreamModel) -> None:
        """Say that what it has learned so far was learned by another, which could take other memory.

        What there was no room for then is not taken back by `unlearn_many` now.
        """

    @property
    def is_settled(self) -> bool:
        """Whether a copy begins at once; else some work of before is done first, as events would bring it."""

    def state(self) -> State:
        """All that was learned: JSON-able values, and arrays. Equal states have equal bytes."""

    def copying(self, aside: Aside = concatenated, /) -> StateCopying:
        """The `state` as it is now, to be copied while the model goes on learning.

        What is large and copied at once is put `aside`.
        """

    def load_state(self, meta: Mapping[str, Any], arrays: Mapping[str, Array]) -> Any:
        """Replace all that was learned. Raises where the state is not one of such a model."""
