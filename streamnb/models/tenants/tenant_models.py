"""A naive Bayes model for each tenant of a stream, each exactly what it would be alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Self

import numpy as np

from streamnb.errors import SnapshotError, UnlearnError
from streamnb.features.attributes import Attribute, EventModel, Text
from streamnb.features.data_frames import rows_of
from streamnb.features.entity_attribute import name_in, packed, unpacked, without
from streamnb.features.event_reader import EventReader
from streamnb.features.event_writer import EventWriter
from streamnb.features.feature_layout import Layout
from streamnb.features.targets import EncodedExamples, Targets
from streamnb.kernels.array_types import Floats, Ints
from streamnb.kernels.growable_arrays import roomier
from streamnb.models.interface.attribution import Item
from streamnb.models.interface.predictions import Posteriors
from streamnb.models.interface.stream_model import (
    Corrections,
    Events,
    Labels,
    Most,
    Prunings,
    StateCopying,
    StreamModel,
    Unbounded,
)
from streamnb.models.naive_bayes.joint_log_likelihood import score_of
from streamnb.models.naive_bayes.naive_bayes_classifier import NaiveBayes
from streamnb.models.tenants.active_models import ActiveModels
from streamnb.models.tenants.cold_store import ColdStore, ColdStoreCopy, Memory, in_memory
from streamnb.models.tenants.eviction_kernels import CLASSES, EVENTS, HEADER, RIGHT, TESTED
from streamnb.models.tenants.serialized_tenants import check_runs, run_of, state_of
from streamnb.models.tenants.shared_prior import OwnModel, SharedPriorScratch, run_below
from streamnb.models.tenants.tenant_view import TenantView
from streamnb.statistics.class_priors import Prior, prior_mode, prior_weights
from streamnb.statistics.counts import Counts
from streamnb.statistics.memory_use import MemoryUse
from streamnb.values.attribute_kinds import CONTINUOUS
from streamnb.values.example_weights import UNIT, units
from streamnb.values.nominal_values import as_event
from streamnb.values.parameter_checks import check_whole
from streamnb.values.state_names import checked_names, plain
from streamnb.values.state_validation import named, state_errors
from streamnb.values.type_aliases import Array, Aside, Flags, State, Times, Weights, concatenated

NOBODY = ""
"""The tenant of events that name none, and of those of tenants beyond the most that there may be."""
_MOST_ATTRIBUTES = 4096
_SHARED = "shared_"  # begins the names of the arrays of the model of all


class _Columns(NamedTuple):
    """Targets whose classes have been looked up already."""

    labels: list[Any]
    weights: Ints
    times: Floats
    found: tuple[Ints, Ints, Flags]

    def columns(self, _classes: dict[Any, int]) -> tuple[Ints, Ints, Flags]:
        label, known, adds = self.found
        return label.copy(), known, adds


class SharedModel(NaiveBayes):
    """The model of the events of all tenants. Its classes and attributes are the lists that theirs name."""

    def know(self, classes: dict[Any, int]) -> int:
        """Let these be the classes; returns the most attributes of each kind that there may be now."""
        own = self._statistics
        own.classes, own.layout.most = classes, min(own.layout.most, _MOST_ATTRIBUTES)
        return own.layout.most

    def attributes_learned(self, prunings: int | None) -> tuple[int, int] | None:
        """How many groups and fields there were after so many prunings; None where there was room for all."""
        own = self._statistics
        if own.room is None and not own.room_changes:
            return None
        return own.attributes_learned(self.n_prunings if prunings is None else prunings)

    def check_beside(self, classes: list[Any], weights: Ints, attributes: Layout) -> None:
        """Raise SnapshotError where it has not learned what tenants have: these classes and attributes."""
        own = self._statistics
        if (
            list(own.classes) != classes
            or own.class_weights[: weights.size].tolist() != weights.tolist()
            or list(own.layout.groups) != list(attributes.groups)
            or list(own.layout.fields) != list(attributes.fields)
        ):
            raise SnapshotError("the shared model has not learned what all tenants have")

    def run_below(self, writer: EventWriter, targets: Any, own: OwnModel, *, learn: bool) -> None:
        """See `Prior`."""
        encoded, K = self._statistics.encode(writer, targets), len(self._statistics.classes)
        scratch = SharedPriorScratch(np.empty(K, dtype=np.int64), *np.empty((3, K)))

        def step(_: int) -> int:
            run_below(self._tables(), encoded.batch, own, learn, score_of(K), scratch)
            return encoded.known.size

        self._in_order(encoded, encoded.most, step, learn=learn)


class Tenant(NamedTuple):
    """One tenant: events learned, how many of these were predicted before, and how many of them right."""

    name: str
    events: int
    tested: int
    right: int


class TenantLabels(NamedTuple):
    """One tenant, the weights of its heaviest classes, the heaviest first, and that of all the others."""

    tenant: Tenant
    labels: dict[Any, float]
    rest: float


class TenantsUse(NamedTuple):
    """How many tenants have a model, how many of these are at work, and those with the most events."""

    tenants: int
    at_work: int
    top: list[Tenant]


class TenantsCopy:
    """The state of all models at one moment, copied while they go on learning; see `StateCopying`."""

    def __init__(
        self, meta: dict[str, Any], small: dict[str, Array], runs: ColdStoreCopy, shared: StateCopying | None
    ) -> None:
        self._meta, self._small, self._runs, self._shared = meta, small, runs, shared

    def advance(self, n_bytes: int) -> bool:
        """Copy about so many bytes more; whether that is all."""
        return self._runs.advance(n_bytes) and (self._shared is None or self._shared.advance(n_bytes))

    def state(self) -> State:
        """JSON-able values and arrays."""
        self._runs.finish()
        arrays = {**self._small, "runs": self._runs.runs, "ends": self._runs.ends}
        if self._shared is None:
            return self._meta, arrays
        meta, shared = self._shared.state()
        return {**self._meta, "shared": meta}, arrays | {_SHARED + name: shared[name] for name in shared}


_UNBOUNDED = Unbounded()


class TenantModels:
    """Naive Bayes for each tenant: an event is predicted, and learned, by its own tenant's model alone.

    Each model is, bit for bit, what a `NaiveBayes` of these parameters is that has had this tenant's events
    alone, and says what that says. How many are at work at once is a matter of memory, and changes nothing.

    Args:
        attributes, alpha, m, p, prior, event_model: as of `NaiveBayes`; no text is a Bernoulli text, whose
            histograms take more than all else of a small model.
        entity: the attribute that names an event's tenant: a string, boolean or number. Those that name none
            share a model.
        tenants: the most tenants; events of others share the model of those that name none.
        memory: bytes for the models at work; the others are put away.
        shared: whether a model of all events is the prior of each, see `shared_prior`. Then what a tenant is
            told hangs on what others taught; what its own model learns does not. This one may be bounded by
            `keep_within`: then it forgets as any naive Bayes model, and no tenant's own model does.

    Attributes:
        changed: bool[n], which tenants' models learned or unlearned something since that was taken down; no
            part of the state.

    Examples:
        >>> model = TenantModels(entity="shop")
        >>> for shop, colour, label in [("a", "red", "yes"), ("b", "red", "no"), ("a", "blue", "no")]:
        ...     model.learn_many([{"shop": shop, "colour": colour}], [label])
        >>> [model.predict_posteriors([{"shop": s, "colour": "red"}]).labels() for s in "ab"]
        [['yes'], ['no']]
    """

    state_type = "TenantModels"
    corrections: Corrections = "exact"

    def __init__(
        self,
        attributes: Mapping[Any, Attribute | str] | None = None,
        entity: Any = "entity",
        tenants: int = 100_000,
        memory: int = 64 << 20,
        alpha: float = 1.0,
        m: float | None = None,
        p: float | None = None,
        prior: Prior = "learned",
        event_model: EventModel = "multinomial",
        *,
        shared: bool = False,
    ) -> None:
        check_whole("tenants", tenants, 1)
        check_whole("memory", memory, 1)
        self._parameters = attributes, alpha, m, p, prior, event_model
        self._alone = NaiveBayes(*self._parameters)
        texts = [spec for spec in self._alone.declared.values() if isinstance(spec, Text)]
        if "bernoulli" in {spec.event_model or event_model for spec in texts}:
            raise ValueError(
                "a model for each tenant has no Bernoulli texts: event_model = 'multinomial' reads them by "
                "how often each word is there"
            )
        if entity in (attributes or {}):
            raise ValueError(f"{entity!r} names the tenant: it cannot be an attribute, too")
        self.entity, self.tenants, self.memory, self._prior = entity, tenants, memory, prior
        if shared:
            _check_smoothing(self._alone)
        self._shares, self._within = shared, 0
        self._reader = EventReader(attributes, event_model)
        self._memory: Memory = in_memory
        self._begin(self._new_shared(), Layout(Counts()))

    def _new_shared(self) -> SharedModel | None:
        if not self._shares:
            return None
        made = SharedModel(*self._parameters)
        if self._within:
            made.keep_within(self._within)
        return made

    def keep_within(self, n_bytes: int) -> None:
        """Let the shared model, with a copy of it, take so many bytes, from now on; see `CountingModel`.

        Without one nothing is bounded.
        """
        self._within = n_bytes
        if self._shared is not None:
            self._shared.keep_within(n_bytes)

    def _begin(self, shared: SharedModel | None, attributes: Layout) -> None:
        self._classes: dict[Any, int] = {}
        self._weights = np.zeros(0, dtype=np.int64)
        self._given = np.zeros(0)
        self.n_events = 0
        self._numbers: dict[str, int] = {NOBODY: 0}
        self.changed: Flags = np.zeros(1, dtype=np.bool_)
        self._attributes = attributes
        self._attributes.most = _MOST_ATTRIBUTES
        self._shelf = ColdStore(self._memory)
        self._shared = shared
        how = self._alone.smoothing_of, prior_mode(self._prior)
        self._desk = ActiveModels(self._attributes, *how, self._shelf, self.memory, self._shared)
        self._know({})

    def evict_within(self, memory: Memory) -> None:
        """Keep the models that are not at work in memory that this makes, from now on."""
        self._memory = self._shelf.memory = memory

    # -- reading ------------------------------------------------------------------------------------------

    @property
    def classes(self) -> list[Any]:
        """Every class that any model has met, in the order in which they were met."""
        return list(self._classes)

    @property
    def class_weights(self) -> dict[Any, float]:
        """Class -> weight learned, by all models."""
        return dict(zip(self._classes, (self._weights / UNIT).tolist(), strict=True))

    @property
    def n_attributes(self) -> int:
        """Those of the shared model; without it each model has its own, and they are not counted."""
        return 0 if self._shared is None else self._shared.n_attributes

    @property
    def n_bytes(self) -> int:
        """Memory of the models at work and of those that were put away, and of tenants' names, about."""
        shared = 0 if self._shared is None else self._shared.n_bytes
        return self._desk.n_bytes + self._shelf.n_bytes + 150 * len(self._numbers) + shared

    # What is bounded is the shared model: so these say what it says.

    @property
    def _bounded(self) -> SharedModel | Unbounded:
        return _UNBOUNDED if self._shared is None else self._shared

    @property
    def n_prunings(self) -> int:
        """How often the shared model forgot words."""
        return 0 if self._shared is None else self._shared.n_prunings

    @property
    def memory_use(self) -> MemoryUse:
        """What the shared model takes of the memory that it may take."""
        return self._bounded.memory_use

    @property
    def most_classes(self) -> int:
        """How many classes the shared model may have."""
        return self._bounded.most_classes

    @property
    def is_settled(self) -> bool:
        """Whether no rows of the shared model are left to be moved."""
        return self._bounded.is_settled

    def has_capacity(self, classes: int, n_bytes: int, words: int) -> bool:
        """Whether the shared model can learn so much as if it were unbounded; see `StreamModel`."""
        return self._bounded.has_capacity(classes, n_bytes, words)

    def evict(self, classes: int) -> None:
        """Let the shared model forget what matters least, where so many classes leave it too little room."""
        self._bounded.evict(classes)

    def change_budget(self, before: StreamModel) -> None:
        """Say that another one, whose shared model could take other memory, learned all so far."""
        if isinstance(before, TenantModels):
            self._bounded.change_budget(before._bounded)  # type: ignore[arg-type]  # noqa: SLF001  of this class

    def reset_adaptive(self) -> None:
        """Counts stay."""

    @property
    def n_tenants(self) -> int:
        """How many tenants have a model."""
        return len(self._numbers) - 1

    def use(self, n: int) -> TenantsUse:
        """What there is to say of them, and of the `top` so many."""
        return TenantsUse(self.n_tenants, len(self._desk.slot_of), self.top(n))

    def top(self, n: int) -> list[Tenant]:
        """The tenants with the most events, of equals those met first."""
        names, found = self.names, self.counted()
        order = np.argsort(-found[:, 0], kind="stable")[:n].tolist()
        return [Tenant(names[t], *found[t].tolist()) for t in order if found[t, 0]]

    @property
    def names(self) -> list[str]:
        """The tenants by their numbers, in the order in which they were met; the first is nobody's."""
        return list(self._numbers)

    def counted(self) -> Ints:
        """int64[n, 3]: of each tenant the events learned, tested, and predicted right."""
        columns = [EVENTS, TESTED, RIGHT]
        places = self._shelf.at[: len(self._numbers)]
        kept = np.flatnonzero(places >= 0)
        found = np.zeros((len(self._numbers), 3), dtype=np.int64)
        found[kept] = self._shelf.words.whole[places[kept][:, np.newaxis] + columns]
        at_work, sizes = self._desk.sizes()
        found[at_work] = sizes[:, columns]
        return found

    def tenant_stats(self, numbers: Sequence[int], most: int) -> Iterator[TenantLabels]:
        """Where some tenants stand, with so many classes at most; no model is taken up for it."""
        names, classes = self.names, self.classes
        for number in numbers:
            size, labels, weights = self._desk.head(number) or self._head(number)
            order = np.argsort(-weights, kind="stable")
            kept = order[:most][weights[order[:most]] > 0]
            told = zip(labels[kept].tolist(), (weights[kept] / UNIT).tolist(), strict=True)
            tenant = Tenant(names[number], *size[[EVENTS, TESTED, RIGHT]].tolist())
            rest = float(weights[order[most:]].sum() / UNIT)
            yield TenantLabels(tenant, {classes[k]: weight for k, weight in told}, rest)

    def _head(self, number: int) -> tuple[Ints, Ints, Ints]:
        """Of a model that was put away: the first words of its run, its classes and their weights."""
        at = int(self._shelf.at[number])
        run = np.zeros(HEADER, dtype=np.int64) if at < 0 else self._shelf.words.whole[at:]
        K = int(run[CLASSES])
        return run[:HEADER], run[HEADER : HEADER + K], run[HEADER + K : HEADER + 2 * K]

    def tenant(self, name: str = NOBODY) -> NaiveBayes:
        """The model of one tenant, as a model of its own; empty where nothing was learned of it."""
        return self._read(self._numbers.get(name, 0 if self._is_full else -1))

    @property
    def shared(self) -> NaiveBayes | None:
        """The model of the events of all tenants, where it is the prior of each."""
        return self._shared

    def tenant_of(self, x: Any) -> str:
        """The name of an event's tenant. Raises TypeError where it is no value."""
        return name_in(x, self.entity, "tenant") or NOBODY

    def speaking_of(self, x: Any) -> NaiveBayes | TenantView:
        """What speaks of an event, once that has no tenant: the model of this one, with its prior."""
        name = self.tenant_of(x)
        if self._shared is None:
            return self.tenant(name)
        return TenantView(self, {self.entity: name} if name else {})

    def texts(self, x: Any) -> tuple[Mapping[Any, Any], frozenset[Any]]:
        """The event, and which of its attributes are texts."""
        return self._reader.texts(x)

    def without_tenant(self, x: Any) -> Any:
        """What its model is told of an event."""
        return without(x, self.entity)

    def predict_posteriors(self, xs: Events, ts: Times = None) -> Posteriors:
        """P(v | x) of each event by its tenant's model as it is; of a class that it has not met, 0."""
        rows = rows_of(xs)
        return self._run(rows, Targets.from_labels(len(rows), None), predict=True, learn=False)

    def explain_one(self, x: Any, top: int | None = None, t: float | None = None) -> list[Item]:
        """What speaks for the prediction of the event's own tenant; see `NaiveBayes.explain_one`."""
        return self.speaking_of(x).explain_one(self.without_tenant(x), top, t)

    # -- learning -----------------------------------------------------------------------------------------

    def predict_then_learn_many(
        self, xs: Events, ys: Labels, ws: Weights = None, ts: Times = None
    ) -> Posteriors:
        """Predict each event by what its tenant's model learned before it, then learn it, in order."""
        rows = rows_of(xs)
        return self._run(rows, Targets.from_labels(len(rows), list(ys), ws), predict=True, learn=True)

    def learn_many(self, X: Any, y: Any, w: Weights = None, ts: Times = None) -> None:
        """Learn many events in order."""
        rows = rows_of(X)
        self._run(rows, Targets.from_labels(len(rows), list(y), w), predict=False, learn=True)

    def learn_late_many(
        self, xs: Events, ys: Labels, ws: Weights = None, ts: Times = None, *, again: bool = False
    ) -> None:
        """Learn events that were predicted earlier, when their labels were not known: as any others."""
        self.learn_many(xs, ys, ws, ts)

    def unlearn_many(
        self, xs: Events, ys: Labels, ws: Weights = None, ts: Times = None, prunings: Prunings = None
    ) -> None:
        """Take back that these events were learned, in order, each by its own model; see `StreamModel`."""
        for x, y, w, prunings_then in EncodedExamples.from_examples(xs, ys, ws, prunings).each():
            number = self._numbers.get(self.tenant_of(x), 0 if self._is_full else -1)
            if number < 0:
                raise UnlearnError(f"no event was ever learned of the tenant {self.tenant_of(x)!r}")
            own_x = self._as_learned(self.without_tenant(x), prunings_then)
            model = self._read(number)
            model.unlearn_many([own_x], [y], [w])
            self._write(number, model)
            self.changed[number] = True
            if self._shared is not None:
                then = None if prunings_then is None else [prunings_then]
                self._shared.unlearn_many([own_x], [y], [w], prunings=then)
            self._weights[self._classes[y]] -= units(w)
            self.n_events -= 1

    def prune(self, min_count: float = 0.0, drop_most_frequent: int = 0, max_attributes: Most = None) -> int:
        """Forgets nothing. Raises ValueError where it is asked to."""
        if min_count or drop_most_frequent or max_attributes is not None:
            raise ValueError("models of tenants have no vocabulary in common that could be pruned")
        return 0

    # -- state --------------------------------------------------------------------------------------------

    def state(self) -> State:
        """All that was learned: JSON-able values, and arrays. Equal states have equal bytes."""
        return self.copying().state()

    def copying(self, aside: Aside = concatenated, /) -> TenantsCopy:
        """The `state` as it is now, to be copied while the models go on learning."""
        self._desk.evict_all()
        meta = {
            "type": self.state_type,
            "events": self.n_events,
            "classes": [plain(label) for label in self._classes],
            **self._attributes.described(),
        }
        names, name_ends = packed(self._numbers)
        small: dict[str, Array] = {
            "weights": self._weights.copy(),
            "names": names,
            "name_ends": name_ends,
        }
        shared = None if self._shared is None else self._shared.copying(aside)
        return TenantsCopy(meta, small, self._shelf.copying(len(self._numbers)), shared)

    def load_state(self, meta: Mapping[str, Any], arrays: Mapping[str, Array]) -> Self:
        """Replace all that was learned by the `state` of such a model; returns self.

        Raises ValueError for one of another kind, and SnapshotError for one that is damaged.
        """
        if meta.get("type") != self.state_type:
            raise ValueError(f"this is the state of a {meta.get('type')}, not of a {self.state_type}")
        if ("shared" in meta) != self._shares:
            raise ValueError(
                f"this is the state of models {'with' if 'shared' in meta else 'without'} a shared one"
            )
        with state_errors(f"a {type(self).__name__}"):
            classes = checked_names(meta["classes"])
            attributes = Layout(Counts())
            attributes.load(meta)
            names = unpacked(arrays["names"], arrays["name_ends"], "tenants")
            if names[0] != NOBODY:
                raise SnapshotError("the first tenant is not that of events that name none")
            listed = len(classes), len(attributes.groups), len(attributes.fields)
            events, weights = check_runs(arrays["runs"], arrays["ends"], names, *listed)
            if events != meta["events"] or arrays["weights"].tobytes() != weights.tobytes():
                raise SnapshotError("the events of all tenants are not those of each together")
            shared = self._new_shared()
            if shared is not None:
                own = named(arrays, _SHARED)
                shared.load_state(meta["shared"], own).check_beside(classes, weights, attributes)
        self._begin(shared, attributes)
        self._know({label: k for k, label in enumerate(classes)})
        self._weights[:], self.n_events = weights, events
        self._numbers = {name: number for number, name in enumerate(names)}
        self.changed = np.zeros(len(names), dtype=np.bool_)
        self._shelf.load(arrays["runs"], arrays["ends"])
        return self

    # -- inside -------------------------------------------------------------------------------------------

    @property
    def _is_full(self) -> bool:
        return self.n_tenants >= self.tenants

    def _know(self, classes: dict[Any, int]) -> None:
        """Let the list of classes be this one, which only grows at its end."""
        self._classes = classes
        if self._shared is not None:
            self._attributes.most = self._shared.know(classes)
        more = len(classes) - self._weights.size
        if more:
            self._weights = np.pad(self._weights, (0, more))
            self._given = prior_weights(self._prior, classes)

    def _as_learned(self, x: Any, prunings: int | None) -> Any:
        """An event that was learned after so many prunings, without attributes for which there was no room.

        Those are not listed, or came into the lists once the room had become another.
        """
        groups, fields = self._attributes.groups, self._attributes.fields
        known = None if self._shared is None else self._shared.attributes_learned(prunings)
        if known is None:
            known = len(groups), len(fields)
            if max(known) < self._attributes.most:
                return x

        def was_listed(name: Any, value: Any) -> bool:
            kind = self._reader.kind(name, value)
            if kind == CONTINUOUS:
                return fields.get(name, known[1]) < known[1]
            return groups.get((kind, name), known[0]) < known[0]

        return {name: value for name, value in as_event(x).items() if was_listed(name, value)}

    def _number(self, names: Sequence[str], adds: Flags) -> Ints:
        """The number of each event's tenant; -1 of one of which nothing was learned."""
        numbers, known = [], self._numbers
        for name, is_learned in zip(names, adds.tolist(), strict=True):
            number = known.get(name)
            if number is None:
                number = 0 if self._is_full else -1
                if is_learned and number < 0:
                    number = known[name] = len(known)
            numbers.append(number)
        self._shelf.count(len(known))
        self.changed = roomier(self.changed, len(known), times=1)
        return np.array(numbers, dtype=np.int64)

    def _run(self, rows: Sequence[Any], targets: Targets, *, predict: bool, learn: bool) -> Posteriors:
        """Predict events, learn them, or both."""
        names = [self.tenant_of(x) for x in rows]
        xs = [self.without_tenant(x) for x in rows]
        writer = self._written(xs)
        classes = self._classes.copy() if learn else self._classes
        label, known, adds = targets.columns(classes)
        self._know(classes)
        numbers = self._number(names, adds)
        found = _Columns(targets.labels, targets.weights, targets.times, (label, known, adds))
        probabilities, has = self._at_once(xs, writer, numbers, found, predict=predict, learn=learn)
        np.add.at(self._weights, label[adds], targets.weights[adds])
        self.changed[numbers[adds]] = True
        self.n_events += int(np.count_nonzero(adds))
        apart = None if has.all() else ~has
        return Posteriors(self.classes, probabilities, known, quarantined=apart)

    def _written(self, xs: Sequence[Any]) -> EventWriter:
        writer = EventWriter()
        if xs:
            self._reader.write_all(writer, xs)
        return writer

    def _at_once(
        self, xs: Sequence[Any], writer: EventWriter, numbers: Ints, found: _Columns, **how: bool
    ) -> tuple[Floats, Flags]:
        """Predict and learn events; by halves, where the models of all do not fit together."""
        tenants = np.unique(numbers[numbers >= 0])
        label, _, adds = found.found
        rows, is_least = writer.most_rows if how["learn"] else 0, False
        while (took := self._desk.load(tenants)) > 0:
            slot = self._desk.slot_of
            slots = np.array([slot.get(number, -1) for number in numbers.tolist()], dtype=np.int64)
            if is_least or self._desk.has_capacity(slots, np.where(adds, label, -1), rows):
                return self._desk.run(writer, slots, found, self._given, **how)
            if len(slot) == tenants.size and len(xs) > 1:
                break
            self._desk.clear()
            is_least = len(xs) <= 1
        if took < 0:
            raise SnapshotError(f"the model of tenant {list(self._numbers)[~took]!r} is damaged in memory")
        half = len(xs) // 2
        parts = []
        for some in (slice(half), slice(half, None)):
            few = _Columns(
                found.labels[some],
                found.weights[some],
                found.times[some],
                tuple(part[some] for part in found.found),  # type: ignore[arg-type]
            )
            parts.append(self._at_once(xs[some], self._written(xs[some]), numbers[some], few, **how))
        probabilities, has = zip(*parts, strict=True)
        return np.concatenate(probabilities), np.concatenate(has)

    def _read(self, number: int) -> NaiveBayes:
        """The model of this tenant, as a model of its own."""
        model = NaiveBayes(*self._parameters)
        self._desk.evict_all()
        if number >= 0 and self._shelf.at[number] >= 0:
            listed = list(self._classes), list(self._attributes.groups), list(self._attributes.fields)
            model.load_state(*state_of(self._shelf.words.whole, int(self._shelf.at[number]), *listed))
        return model

    def _write(self, number: int, model: NaiveBayes) -> None:
        """Let this be the model of a tenant."""
        before = int(self._shelf.at[number])
        counted = self._shelf.words.whole[before : before + HEADER][[TESTED, RIGHT]]
        self._desk.clear()
        groups, fields = list(self._attributes.groups), list(self._attributes.fields)
        run = run_of(*model.state(), self._classes, groups, fields, counted.tolist())
        self._shelf.write(number, run)


def _check_smoothing(model: NaiveBayes) -> None:
    """Raise ValueError where a count of the shared model may be read as a probability of zero."""
    for name in (None, *model.declared):
        alpha, m, p, _ = model.smoothing_of(name)
        if (alpha if m < 0.0 else m) == 0.0 or p == 0.0:
            key = "alpha" if m < 0.0 else "m" if m == 0.0 else "p"
            of = key if name is None else f"attribute {name!r}: {key}"
            raise ValueError(
                f"{of} is 0: a shared model is a prior, and has to leave any word and value some "
                f"probability; expected {key} above 0 with shared = true"
            )
