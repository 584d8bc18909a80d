"""Hidden Markov naive Bayes: a chain for each entity of a stream, with shared transitions and emissions."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn, Self

import numpy as np

from streamnb.errors import UnlearnError
from streamnb.features.attributes import Attribute, EventModel
from streamnb.features.data_frames import rows_of
from streamnb.features.encoded_batch import Encoded
from streamnb.features.entity_attribute import name_in, without
from streamnb.kernels.array_types import Floats, Ints
from streamnb.models.interface.attribution import Item, odds, ranked
from streamnb.models.interface.attribution_parts import LIMIT
from streamnb.models.interface.parameter_count import ParameterCount
from streamnb.models.interface.predictions import Posteriors
from streamnb.models.interface.stream_model import Corrections, Events, Labels
from streamnb.models.naive_bayes.generation import Drawn, EventSampler
from streamnb.models.naive_bayes.learned_counts import begin_copy
from streamnb.models.naive_bayes.naive_bayes_classifier import SmoothedModel
from streamnb.models.naive_bayes.naive_bayes_tables import CountViews
from streamnb.models.naive_bayes.parameters import Parameters, parameters_of
from streamnb.models.naive_bayes.state_copy import StateCopy
from streamnb.models.naive_bayes.unused_values import UnusedValue
from streamnb.statistics.class_priors import UNIFORM, Prior, check_prior
from streamnb.statistics.counter_rng import pick, uniforms
from streamnb.toolbox.hidden_markov.chain_parameters import ChainParameters
from streamnb.toolbox.hidden_markov.entities import Entities
from streamnb.toolbox.hidden_markov.entity_filter_kernels import EntityChains, EntitySteps, filter_batch
from streamnb.toolbox.hidden_markov.transitions import Transitions
from streamnb.values.example_weights import units
from streamnb.values.parameter_checks import check_amount, check_whole
from streamnb.values.state_validation import named, state_errors
from streamnb.values.type_aliases import Array, Aside, Flags, Times, Weights, concatenated

ENTITIES, TRANSITIONS = "entity_", "transition_"
"""Prefixes of the arrays of these components in a state."""
_NONE = np.empty((0, 0))


class _EntityBatch(Encoded):
    entities: Sequence[str | None]


class HiddenMarkovNB(ParameterCount, SmoothedModel):
    r"""Naive Bayes over successive events: each entity is a chain whose hidden state is the class.

        P(s_t | x_1..t) ~ P(x_t | s_t) sum_s P(s_t | s) P(s | x_1..t-1)
        P(s_t = j | s_t-1 = i) = (n_ij + m p_j) / (n_i + m)

    The prediction of an event uses all events of its entity so far. It multiplies the naive Bayes likelihood
    of the attributes by the distribution expected from the previous state. A label makes the state known;
    without one the entity keeps the predicted distribution. Transitions are counted between consecutive
    labelled events of an entity, and a first state if the first event has a label. All entities share them.

    p is the prior of the classes, so without entities this is `NaiveBayes`. An event without an entity is a
    sequence of its own. So is an event that no transition allows (m = 0): it is classified under equal
    priors.

    Args:
        attributes: as in `NaiveBayes`; the entity must not be among them.
        entity: the attribute that names an event's entity: a string, boolean or number, as nominal values.
        transition_m: m of the m-estimate of transitions and first states, >= 0; 0 is the limit.
        entities: maximum number of kept entities; beyond it the least recently seen one is evicted.
        time_to_live: seconds of event time after which an entity restarts; 0 means never. If an event or its
            entity has no time, no time has passed.
        alpha, m, p, prior, event_model: as in `NaiveBayes`.

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
        check_prior(prior)
        super().__init__(attributes, alpha, m, p, prior, event_model)
        check_amount("transition_m", transition_m)
        check_amount("time_to_live", time_to_live)
        if entity in (attributes or {}):
            raise ValueError(f"{entity!r} names the entity: it cannot be an attribute, too")
        self.entity, self.transition_m, self.entities = entity, transition_m, entities
        self.time_to_live = time_to_live
        self._transitions = Transitions()
        self._entities = Entities(entities)

    @property
    def transitions(self) -> Transitions:
        """Counts of first states and of transitions, with classes in the order of `classes`."""
        self._transitions.grow(len(self._statistics.classes))
        return self._transitions

    @property
    def n_entities(self) -> int:
        """Number of kept entities."""
        return len(self._entities.rows)

    corrections: Corrections = "counts"
    """Corrections take back the counts, moments and class weights of an event.

    Transitions and first states keep the contribution of an entity's event, because the event before it is no
    longer known. An event without an entity is taken back completely.
    """

    @property
    def n_bytes(self) -> int:
        """Memory of all that was learned, bytes, spare capacity included."""
        return super().n_bytes + self._transitions.n_bytes + self._entities.n_bytes

    def joint_log_likelihood(self, x: Any, t: float | None = None) -> dict[Any, float]:
        """Return log P(s_t, x_t | the entity so far) of every class s with examples, in nats, at time `t`."""
        encoded = self._encode([x], ts=[t])
        joints = np.empty((1, len(self._statistics.classes)))
        self._run(encoded, self._emissions, joints, predict=True)
        equal = math.log(max(1, len(self._known())))  # minus the logarithm of equal priors
        emissions, ahead = self._by_class(joints[0] + equal), self._ahead(encoded)
        return {label: emissions[label] + ahead[label] for label in ahead}

    def learn_unlabelled_one(self, x: Any, t: float | None = None) -> None:
        """Advance an entity by an event without a label: only the belief about the entity changes."""
        self._learn(self._encode([x], ts=[t]))

    def unlearn_one(self, x: Any, y: Any, w: float = 1.0) -> None:
        """Undo ``learn_one(x, y, w)`` of an event without an entity.

        Raises UnlearnError, and changes nothing, if the counts show that it was never learned, or if the
        event has an entity: its contribution depends on the event before it, which is no longer known. A
        caller that knows that event can use `transitions.update` with a negative weight, and a `NaiveBayes`.
        """
        if self._entity_of(x) is not None:
            raise UnlearnError(
                "an event of an entity cannot be unlearned: its contribution depends on the event before it"
            )
        super().unlearn_one(x, y, w)

    def learn_late_many(
        self, xs: Events, ys: Labels, ws: Weights = None, ts: Times = None, *, again: bool = False
    ) -> None:
        """Learn the emissions of events that were predicted earlier and whose labels are now known.

        Their entities have advanced since, and the neighbouring states are no longer known. So no transition
        is counted, and the belief about the entity stays. An event without an entity is a sequence of its own
        and is learned completely.
        """
        encoded = self._encode_earlier(xs, ys, ws, ts)
        batch = encoded.batch
        self._run(encoded, self._emissions, learn=True)
        begins, first = self._first_of_chains(encoded)
        learned = begins & (batch.label >= 0)
        np.add.at(first, batch.label[learned], batch.weight[learned])

    def copying(self, _aside: Aside = concatenated, /) -> StateCopy:
        """Return the current `state`, to be copied while the model continues; entities are copied at once."""
        meta, counts = self.transitions.state()
        parts = {TRANSITIONS: counts, ENTITIES: self._entities.state(meta["states"])}
        arrays = {f"{prefix}{name}": array for prefix, part in parts.items() for name, array in part.items()}
        return begin_copy(self._statistics, type(self).__name__, {"chains": meta}, arrays)

    def load_state(self, meta: Mapping[str, Any], arrays: Mapping[str, Array]) -> Self:
        """Replace all that was learned by the `state` of such a model; return self. Raises SnapshotError."""
        if meta.get("type") == type(self).__name__:
            with state_errors(f"a {type(self).__name__}"):
                K = len(meta["classes"])
                transitions = Transitions.from_state({"states": K}, named(arrays, TRANSITIONS))
                entities = Entities.from_state(named(arrays, ENTITIES), self.entities, K)
        super().load_state(meta, arrays)
        self._transitions, self._entities = transitions, entities
        return self

    def _first_of_chains(self, encoded: Encoded) -> tuple[Flags, Ints]:
        """Return True for each event without an entity, whose first state can be undone, and the counts."""
        assert isinstance(encoded, _EntityBatch)  # noqa: S101  as `_encode` makes them
        alone = np.array([name is None for name in encoded.entities], dtype=np.bool_)
        return alone, self.transitions.first

    def _learned(self, x: Any, y: Any, w: float) -> bool:
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

    def parameters(self) -> ChainParameters:
        """Return P(s_1), P(s_t+1 | s_t), and P(a | s) of each attribute as `NaiveBayes.parameters`."""
        emission = parameters_of(self._statistics, self._tables(), self._value_shares.declared)
        labels, p = list(emission.prior), np.array(list(emission.prior.values()))
        columns = [self._statistics.classes[label] for label in labels]
        chain, known, m = self.transitions, Transitions(len(labels)), float(self.transition_m)
        known.first[:], known.table[:] = chain.first[columns], chain.table[np.ix_(columns, columns)]
        logs = [known.log_initial(m, p), *known.log_table(m, p)]
        first, *rows = (dict(zip(labels, row, strict=True)) for row in np.exp(logs).tolist())
        return ChainParameters(first, dict(zip(labels, rows, strict=True)), emission)

    def sample(self, n: int, length: int = 10, seed: int = 0, first: int = 0) -> list[Drawn]:
        """Draw the events of `n` entities, (x, label), entity after entity.

        The labels of an entity are a chain, and each event has all learned attributes, by naive Bayes.

        Args:
            n: number of entities, each named by its number.
            length: events of each.
            seed: seed of the counter-based generator: equal seed and number give equal events.
            first: number of the first entity.

        Raises:
            ValueError: if nothing was learned, or a number is negative.
        """
        check_whole("n", n, 0)
        check_whole("length", length, 0)
        initial, transition, parameters = self.parameters()
        assert isinstance(parameters, Parameters)  # noqa: S101  of naive Bayes
        sampler = EventSampler(parameters, None)
        drawn: list[Drawn] = []
        for i in range(first * length, (first + n) * length):
            chances = uniforms(seed, i * sampler.size, sampler.size)
            label = pick(transition[drawn[-1][1]] if i % length else initial, float(chances[0]))
            drawn.append(({self.entity: i // length, **sampler.event(label, chances[1:])}, label))
        return drawn

    def unused_values(self, x: Any) -> list[UnusedValue]:
        """Return the values of an event that the model cannot use; the entity is not among them."""
        return super().unused_values(self._without_entity(x))

    def _entity_of(self, x: Any) -> str | None:
        return name_in(x, self.entity, "entity")

    def _without_entity(self, x: Any) -> Any:
        return without(x, self.entity)

    def _encode(self, xs: Events, ys: Labels | None = None, ws: Weights = None, ts: Times = None) -> Encoded:
        rows = rows_of(xs)
        entities = [self._entity_of(x) for x in rows]
        rows = [self._without_entity(x) for x in rows]
        encoded = _EntityBatch(*super()._encode(rows, ys, ws, ts))
        encoded.entities = entities
        return encoded

    def _posteriors(self, encoded: Encoded, *, learn: bool = False) -> Posteriors:
        return Posteriors(self.classes, self._filtered(encoded, learn=learn, predict=True), encoded.known)

    def _learn(self, encoded: Encoded) -> None:
        unlabelled = bool((encoded.batch.label < 0).any())
        self._filtered(encoded, learn=True, predict=unlabelled)

    def _filtered(self, encoded: Encoded, *, learn: bool, predict: bool, predicted: Floats = _NONE) -> Floats:
        """Advance chains in order; return P(s_t | x_1..t) if `predict`; fill P(s_t | x_1..t-1) if given."""
        assert isinstance(encoded, _EntityBatch)  # noqa: S101  as `_encode` makes them
        batch, statistics = encoded.batch, self._statistics
        n, K = batch.label.size, len(statistics.classes)
        weights = statistics.class_weights[:K].copy()  # before the batch
        joints = np.empty((n if predict else 0, K))
        usual = self._run(encoded, self._emissions, joints, predict=predict, learn=learn)
        transitions, kept = self.transitions, self._entities
        row, begins = kept.meet(encoded.entities, K) if learn else kept.find(encoded.entities)
        if not learn:
            kept.reserve(K)
        _, given, mode, *_ = self._reading()
        first, table = transitions.first.copy(), transitions.table.copy()
        m, time_to_live = float(self.transition_m), float(self.time_to_live)
        entities = kept.beliefs, kept.last, kept.seen
        chains = EntityChains(weights, given, mode, first, table, m, *entities, time_to_live)
        steps = EntitySteps(row, begins, batch.label, batch.weight, batch.time, joints, usual)
        probabilities = np.empty_like(usual)
        filter_batch(chains, steps, learn, np.empty(K), np.empty(K), probabilities, predicted)
        if learn:
            transitions.first[:], transitions.table[:] = first, table
        return probabilities

    def _emissions(self) -> CountViews:
        """Return the statistics for scoring under equal priors; the chain supplies the prior."""
        return self._tables()._replace(prior_mode=UNIFORM)

    def _ahead(self, encoded: Encoded) -> dict[Any, float]:
        """Return log P(s_t | x_1..t-1) of the first event by class."""
        predicted = np.empty((len(encoded.known), len(self._statistics.classes)))
        self._filtered(encoded, learn=False, predict=True, predicted=predicted)
        with np.errstate(divide="ignore"):
            return self._by_class(np.log(predicted[0]))

    def _taken_apart(self, x: Any, encoded: Encoded, first: Any, second: Any) -> tuple[float, list[Item]]:
        """Split the log odds into items; the entity's history is one item, relative to a new entity."""
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
        """Raise ValueError: the knowledge about an entity is not a linear function of the event."""
        raise ValueError("no linear view: the knowledge about an entity is not a linear function of an event")
