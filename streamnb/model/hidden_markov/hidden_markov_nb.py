"""A hidden Markov model for each entity of a stream, with transitions and emissions that all share."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn, Self

import numpy as np

from streamnb.errors import UnlearnError
from streamnb.model.attributes.attributes import Attribute, EventModel
from streamnb.model.attributes.expected import named, reading
from streamnb.model.attributes.naming import name_in, without
from streamnb.model.attributes.parameters import check_amount
from streamnb.model.attributes.priors import UNIFORM, Prior
from streamnb.model.attributes.signatures import Array, Aside, Flags, Times, Weights, concatenated
from streamnb.model.attributes.weights import units
from streamnb.model.compiled.arrays import Floats, Ints
from streamnb.model.encoding.batch import Encoded
from streamnb.model.encoding.data_frame import rows_of
from streamnb.model.hidden_markov.entities import Entities
from streamnb.model.hidden_markov.entity_filter_kernels import Chains, Steps, filter_batch
from streamnb.model.hidden_markov.transitions import Transitions
from streamnb.model.interface.evidence import LIMIT, Item, odds, ranked
from streamnb.model.interface.predictions import Posteriors
from streamnb.model.interface.stream_model import Corrections, Events, Labels
from streamnb.model.naive_bayes.naive_bayes import SmoothedModel
from streamnb.model.naive_bayes.state_copy import StateCopy
from streamnb.model.naive_bayes.tables import Tables
from streamnb.model.naive_bayes.unused_values import UnusedValue

ENTITIES, TRANSITIONS = "entity_", "transition_"
"""How the arrays of these parts of a state begin."""
_NONE = np.empty((0, 0))


class _OfEntities(Encoded):
    """Events as arrays, and the name of the entity that each is of."""

    entities: Sequence[str | None]


class HiddenMarkovNB(SmoothedModel):
    r"""Naive Bayes over events that follow each other: each entity is a chain, its hidden state the class.

        P(s_t | x_1..t) ~ P(x_t | s_t) sum_s P(s_t | s) P(s | x_1..t-1)
        P(s_t = j | s_t-1 = i) = (n_ij + m p_j) / (n_i + m)

    An event is predicted by all events of its entity so far: what its attributes say, as naive Bayes reads
    them, times what the state before lets expect. With its label the state is known; without one the entity
    stays at what was predicted. Transitions are counted between consecutive events of an entity that both
    have a label, and a sequence's first state where its first event has one; all entities share them.

    p is the prior of the classes, so that without entities this is `NaiveBayes`. An event without an entity
    is a sequence by itself. So is one that no transition allows (m = 0): it is read as by equal priors.

    Args:
        attributes: as of `NaiveBayes`; the entity is none of them.
        entity: the attribute that names an event's entity: a string, boolean or number, as nominal values.
        transition_m: m of the m-estimate of transitions and first states, >= 0; 0 is the limit.
        entities: the most entities kept; one beyond them takes the place of the one not seen the longest.
        time_to_live: seconds of event time after which an entity begins anew; 0 is never. Where an event or
            its entity has no time, none has gone by.
        alpha, m, p, prior, event_model: as of `NaiveBayes`.

    Examples:
        >>> from streamnb import HiddenMarkovNB
        >>> model = HiddenMarkovNB(entity="machine")
        >>> for machine, sound, state in [
        ...     (1, "calm", "well"), (2, "calm", "well"), (1, "loud", "well"), (2, "loud", "ill"),
        ...     (1, "calm", "well"), (2, "loud", "ill"), (2, "calm", "ill"),
        ... ]:
        ...     model.learn_one({"machine": machine, "sound": sound}, state)
        >>> for machine in (1, 2, None):
        ...     probabilities = model.predict_proba_one({"machine": machine, "sound": "calm"})
        ...     print({state: round(p, 2) for state, p in probabilities.items()})
        {'well': 0.75, 'ill': 0.25}
        {'well': 0.28, 'ill': 0.72}
        {'well': 0.91, 'ill': 0.09}

    References:
        Rabiner (1989), Proceedings of the IEEE 77(2); Mitchell, Machine Learning (1997), section 6.9.
    """

    def __init__(
        self,
        attributes: Mapping[Any, Attribute | str] | None = None,
        entity: Any = "entity",
        transition_m: float = 1.0,
        entities: int = 100_000,
        time_to_live: float = 0.0,
        alpha: float = 1.0,
        m: float | None = None,
        p: float | None = None,
        prior: Prior = "learned",
        event_model: EventModel = "multinomial",
    ) -> None:
        super().__init__(attributes, alpha, m, p, prior, event_model)
        check_amount("transition_m", transition_m)
        check_amount("time_to_live", time_to_live)
        if entity in (attributes or {}):
            raise ValueError(f"{entity!r} names the entity: it cannot be an attribute, too")
        self.entity, self.transition_m, self.entities = entity, transition_m, entities
        self.time_to_live = time_to_live
        self._transitions = Transitions()
        self._entities = Entities(entities)

    # -- reading ------------------------------------------------------------------------------------------

    @property
    def transitions(self) -> Transitions:
        """How often a sequence began with each class, and which followed which, in the order of `classes`."""
        self._transitions.grow(len(self._statistics.classes))
        return self._transitions

    @property
    def n_entities(self) -> int:
        """How many entities are kept."""
        return len(self._entities.rows)

    corrections: Corrections = "counts"
    """What events said of their classes is taken back: counts, moments, and the weights of classes.

    Transitions and first states keep what they learned of entities, for what came before an event is not
    known any more. An event without an entity is taken back whole.
    """

    @property
    def n_bytes(self) -> int:
        """Memory of all that was learned and is kept, bytes, spare capacity included."""
        return super().n_bytes + self._transitions.n_bytes + self._entities.n_bytes

    def joint_log_likelihood(self, x: Any, t: float | None = None) -> dict[Any, float]:
        """Log P(s_t, x_t | the entity so far) of every class s with examples (nats), at the time `t`."""
        encoded = self._encode([x], ts=[t])
        joints = np.empty((1, len(self._statistics.classes)))
        self._run(encoded, self._emissions, joints, predict=True)
        equal = math.log(max(1, len(self._known())))  # less the logarithm of equal priors
        emissions, ahead = self._by_class(joints[0] + equal), self._ahead(encoded)
        return {label: emissions[label] + ahead[label] for label in ahead}

    # -- learning -----------------------------------------------------------------------------------------

    def learn_unlabelled_one(self, x: Any, t: float | None = None) -> None:
        """Let an entity go on by an event without a label: only what is believed of it changes."""
        self._learn(self._encode([x], ts=[t]))

    def unlearn_one(self, x: Any, y: Any, w: float = 1.0) -> None:
        """Undo ``learn_one(x, y, w)`` of an event without an entity.

        Raises UnlearnError, and changes nothing, where the counts show that this was never learned, and for
        an event of an entity: what it taught depends on the event before it, which is not known any more.
        Whoever knows it has `transitions.update` with a negative weight, and a `NaiveBayes`.
        """
        if self._entity_of(x) is not None:
            raise UnlearnError(
                "what an event of an entity taught depends on the event before: it cannot be undone"
            )
        super().unlearn_one(x, y, w)

    def learn_late_many(
        self, xs: Events, ys: Labels, ws: Weights = None, ts: Times = None, *, again: bool = False
    ) -> None:
        """Learn what events that were predicted earlier say of their classes, now that these are known.

        Their entities have gone on since: which state came before and after is not known any more, so no
        transition is counted, and what is believed of an entity stays. An event without an entity is learned
        whole, for it is a sequence by itself.
        """
        encoded = self._encode_earlier(xs, ys, ws, ts)
        batch = encoded.batch
        self._run(encoded, self._emissions, learn=True)
        begins, first = self._first_of_chains(encoded)
        learned = begins & (batch.label >= 0)
        np.add.at(first, batch.label[learned], batch.weight[learned])

    # -- state --------------------------------------------------------------------------------------------

    def copying(self, _aside: Aside = concatenated, /) -> StateCopy:
        """The `state` as it is now, to be copied while the model goes on; entities are copied at once."""
        meta, counts = self.transitions.state()
        parts = {TRANSITIONS: counts, ENTITIES: self._entities.state(meta["states"])}
        arrays = {f"{prefix}{name}": array for prefix, part in parts.items() for name, array in part.items()}
        return self._statistics.copying(type(self).__name__, {"chains": meta}, arrays)

    def load_state(self, meta: Mapping[str, Any], arrays: Mapping[str, Array]) -> Self:
        """Replace all that was learned by the `state` of such a model; returns self. Errors as of any."""
        if meta.get("type") == type(self).__name__:
            with reading(f"a {type(self).__name__}"):
                K = len(meta["classes"])
                transitions = Transitions.from_state({"states": K}, named(arrays, TRANSITIONS))
                entities = Entities.from_state(named(arrays, ENTITIES), self.entities, K)
        super().load_state(meta, arrays)
        self._transitions, self._entities = transitions, entities
        return self

    # -- inside -------------------------------------------------------------------------------------------

    def _first_of_chains(self, encoded: Encoded) -> tuple[Flags, Ints]:
        """Events without an entity are sequences by themselves: what they began can be undone."""
        assert isinstance(encoded, _OfEntities)  # noqa: S101  as `_encode` makes them
        alone = np.array([name is None for name in encoded.entities], dtype=np.bool_)
        return alone, self.transitions.first

    def _learned(self, x: Any, y: Any, w: float) -> bool:
        """As any model; where an event has a label, its chain goes on without a filter. It has no time."""
        name = self._entity_of(x)
        if not super()._learned(self._without_entity(x), y, w):
            return False
        transitions, kept = self.transitions, self._entities
        (row,), (begins,) = kept.meet([name], transitions.states)
        previous = None if row < 0 or begins else int(kept.last[row])
        k, weight = self._statistics.classes[y], units(w)
        if previous is None or previous >= 0:
            transitions.update(previous, k, weight)
        if row >= 0:
            kept.last[row] = k
            kept.beliefs[row] = 0.0
            if begins:
                kept.seen[row] = np.nan
        return True

    def unused_values(self, x: Any) -> list[UnusedValue]:
        """Return the values of an event that the model cannot use; the entity is none of them."""
        return super().unused_values(self._without_entity(x))

    def _entity_of(self, x: Any) -> str | None:
        """The name of an event's entity. Raises TypeError where it is no value."""
        return name_in(x, self.entity, "entity")

    def _without_entity(self, x: Any) -> Any:
        return without(x, self.entity)

    def _encode(self, xs: Events, ys: Labels | None = None, ws: Weights = None, ts: Times = None) -> Encoded:
        rows = rows_of(xs)
        entities = [self._entity_of(x) for x in rows]
        rows = [self._without_entity(x) for x in rows]
        encoded = _OfEntities(*super()._encode(rows, ys, ws, ts))
        encoded.entities = entities
        return encoded

    def _posteriors(self, encoded: Encoded, *, learn: bool = False) -> Posteriors:
        return Posteriors(self.classes, self._filtered(encoded, learn=learn, predict=True), encoded.known)

    def _learn(self, encoded: Encoded) -> None:
        unlabelled = bool((encoded.batch.label < 0).any())
        self._filtered(encoded, learn=True, predict=unlabelled)

    def _filtered(self, encoded: Encoded, *, learn: bool, predict: bool, predicted: Floats = _NONE) -> Floats:
        """Predict events in order, and go on with their chains; P(s_t | x_1..t), where it was asked for.

        `predicted` gets P(s_t | x_1..t-1) where it has rows.
        """
        assert isinstance(encoded, _OfEntities)  # noqa: S101  as `_encode` makes them
        batch, statistics = encoded.batch, self._statistics
        n, K = batch.label.size, len(statistics.classes)
        weights = statistics.class_weights[:K].copy()  # as they were before the batch
        joints = np.empty((n if predict else 0, K))
        usual = self._run(encoded, self._emissions, joints, predict=predict, learn=learn)
        transitions, kept = self.transitions, self._entities
        row, begins = kept.meet(encoded.entities, K) if learn else kept.find(encoded.entities)
        if not learn:
            kept.reserve(K)
        _, given, mode = self._reading()
        first, table = transitions.first.copy(), transitions.table.copy()
        m, time_to_live = float(self.transition_m), float(self.time_to_live)
        entities = kept.beliefs, kept.last, kept.seen
        chains = Chains(weights, given, mode, first, table, m, *entities, time_to_live)
        steps = Steps(row, begins, batch.label, batch.weight, batch.time, joints, usual)
        probabilities = np.empty_like(usual)
        filter_batch(chains, steps, learn, np.empty(K), np.empty(K), probabilities, predicted)
        if learn:
            transitions.first[:], transitions.table[:] = first, table
        return probabilities

    def _emissions(self) -> Tables:
        """The statistics, to be read under equal priors: what an event follows is the chain's affair."""
        return self._tables()._replace(prior_mode=UNIFORM)

    def _ahead(self, encoded: Encoded) -> dict[Any, float]:
        """Log P(s_t | x_1..t-1) of the first event."""
        predicted = np.empty((len(encoded.known), len(self._statistics.classes)))
        self._filtered(encoded, learn=False, predict=True, predicted=predicted)
        with np.errstate(divide="ignore"):
            return self._by_class(np.log(predicted[0]))

    def _taken_apart(self, x: Any, encoded: Encoded, first: Any, second: Any) -> tuple[float, list[Item]]:
        """As any model; what is known of the entity is one item, beside what any entity begins with."""
        _, items = super()._taken_apart(self._without_entity(x), encoded, first, second)
        context, nothing = self._ahead(encoded), dict.fromkeys(self.classes, 0.0)
        begins = self._ahead(self._encode([{}]))
        prior = odds(begins, nothing, first, second)
        name = self._entity_of(x)
        if name is not None:
            beyond = odds(context, nothing, first, second) - prior
            items = [*items, Item(self.entity, name, max(-LIMIT, min(LIMIT, beyond)))]
        return prior, ranked(items)

    def linear_view(self, positive: Any, negative: Any = None) -> NoReturn:
        """Refused with ValueError: what is known of an entity is no linear function of the event."""
        raise ValueError("what is known of an entity is no linear function of an event")
