"""A naive Bayes model for each tenant of a stream, each equal to a separate model."""

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
from streamnb.models.interface.tenant_usage import Tenant, TenantedModel, TenantLabels, TenantsUse
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
from streamnb.statistics.memory_budget import MemoryUse
from streamnb.values.attribute_kinds import CONTINUOUS
from streamnb.values.example_weights import UNIT, units
from streamnb.values.nominal_values import as_event
from streamnb.values.parameter_checks import check_whole
from streamnb.values.state_names import checked_names, plain
from streamnb.values.state_validation import named, state_errors
from streamnb.values.type_aliases import Array, Aside, Flags, State, Times, Weights, concatenated

NOBODY = ""
"""The tenant of events that name none, and of events of tenants beyond the maximum."""
_MOST_ATTRIBUTES = 4096
_SHARED = "shared_"  # prefix of the shared model's arrays


class _Columns(NamedTuple):
    """Targets with classes that are already looked up."""

    labels: list[Any]
    weights: Ints
    times: Floats
    found: tuple[Ints, Ints, Flags]

    def columns(self, _classes: dict[Any, int]) -> tuple[Ints, Ints, Flags]:
        label, known, adds = self.found
        return label.copy(), known, adds


class SharedModel(NaiveBayes):
    """The model of all tenants' events. Tenants' models refer to its classes and attributes by index."""

    def know(self, classes: dict[Any, int]) -> int:
        """Set the classes; return the maximum number of attributes of each kind."""
        own = self._statistics
        own.classes, own.layout.most = classes, min(own.layout.most, _MOST_ATTRIBUTES)
        return own.layout.most

    def attributes_learned(self, prunings: int | None) -> tuple[int, int] | None:
        """Return the number of groups and fields after a number of prunings; None if never limited."""
        own = self._statistics
        if own.room is None and not own.room_changes:
            return None
        return own.attributes_learned(self.n_prunings if prunings is None else prunings)

    def check_beside(self, classes: list[Any], weights: Ints, attributes: Layout) -> None:
        """Raise SnapshotError unless it has learned the same classes and attributes as the tenants."""
        own = self._statistics
        if (
            list(own.classes) != classes
            or own.class_weights[: weights.size].tolist() != weights.tolist()
            or list(own.layout.groups) != list(attributes.groups)
            or list(own.layout.fields) != list(attributes.fields)
        ):
            raise SnapshotError("the shared model and the models of all tenants have not learned the same")

    def run_below(self, writer: EventWriter, targets: Any, own: OwnModel, *, learn: bool) -> None:
        """Predict and learn events; see `SharedPrior`."""
        encoded, K = self._statistics.encode(writer, targets), len(self._statistics.classes)
        scratch = SharedPriorScratch(np.empty(K, dtype=np.int64), *np.empty((3, K)))

        def step(_: int) -> int:
            run_below(self._tables(), encoded.batch, own, learn, score_of(K), scratch)
            return encoded.known.size

        self._in_order(encoded, encoded.most, step, learn=learn)


class TenantsCopy:
    """A copy of all models at one moment, made in slices while they learn; see `StateCopying`."""

    def __init__(
        self, meta: dict[str, Any], small: dict[str, Array], runs: ColdStoreCopy, shared: StateCopying | None
    ) -> None:
        self._meta, self._small, self._runs, self._shared = meta, small, runs, shared

    def advance(self, n_bytes: int) -> bool:
        """Copy about `n_bytes` more; return whether the copy is complete."""
        return self._runs.advance(n_bytes) and (self._shared is None or self._shared.advance(n_bytes))

    def state(self) -> State:
        """Return JSON-able values and arrays."""
        self._runs.finish()
        arrays = {**self._small, "runs": self._runs.runs, "ends": self._runs.ends}
        if self._shared is None:
            return self._meta, arrays
        meta, shared = self._shared.state()
        return {**self._meta, "shared": meta}, arrays | {_SHARED + name: shared[name] for name in shared}


_UNBOUNDED = Unbounded()


class TenantModels(TenantedModel):
    """Naive Bayes for each tenant: an event is predicted, and learned, by its own tenant's model.

    Each model and its predictions equal, bit for bit, a `NaiveBayes` of these parameters that learned only
    this tenant's events. The number of active models depends on memory, and changes no result.

    Args:
        attributes, alpha, m, p, prior, event_model: as of `NaiveBayes`; Bernoulli texts are refused, because
            their histograms would dominate a small model.
        entity: the attribute that names an event's tenant: a string, boolean or number. Events without it
            share a model.
        tenants: maximum number of tenants; events of further tenants go to the model of unnamed events.
        memory: bytes for active models; all others are evicted.
        shared: if True, a model of all events is the prior of each, see `shared_prior`. Then predictions also
            depend on other tenants' events; what a tenant's model learns does not. `keep_within` limits the
            memory of the shared model, which then evicts values; tenants' own models evict none.

    Attributes:
        changed: bool[n], tenants whose models learned or unlearned since it was cleared; not in the state.

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
                "a model for each tenant takes no Bernoulli texts: set event_model = 'multinomial', which "
                "counts the occurrences of each word"
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
        model = SharedModel(*self._parameters)
        if self._within:
            model.keep_within(self._within)
        return model

    def keep_within(self, n_bytes: int) -> None:
        """Limit the memory of the shared model, if any, and of a copy of it; see `CountingModel`."""
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
        """Use this allocator for cold models from now on."""
        self._memory = self._shelf.memory = memory

    @property
    def classes(self) -> list[Any]:
        """All classes of all models, in order of first appearance."""
        return list(self._classes)

    @property
    def class_weights(self) -> dict[Any, float]:
        """Class -> weight learned, by all models."""
        return dict(zip(self._classes, (self._weights / UNIT).tolist(), strict=True))

    @property
    def n_attributes(self) -> int:
        """Number of words and values of the shared model; 0 without it."""
        return 0 if self._shared is None else self._shared.n_attributes

    @property
    def n_bytes(self) -> int:
        """Approximate memory in bytes of active and cold models, and of tenants' names."""
        shared = 0 if self._shared is None else self._shared.n_bytes
        return self._desk.n_bytes + self._shelf.n_bytes + 150 * len(self._numbers) + shared

    @property
    def _bounded(self) -> SharedModel | Unbounded:
        return _UNBOUNDED if self._shared is None else self._shared

    @property
    def n_prunings(self) -> int:
        """Number of prunings of the shared model."""
        return 0 if self._shared is None else self._shared.n_prunings

    @property
    def memory_use(self) -> MemoryUse:
        """Share of its memory budget that the shared model uses."""
        return self._bounded.memory_use

    @property
    def most_classes(self) -> int:
        """Maximum number of classes of the shared model."""
        return self._bounded.most_classes

    @property
    def is_settled(self) -> bool:
        """True if the shared model has no holes in its tables."""
        return self._bounded.is_settled

    def has_capacity(self, classes: int, n_bytes: int, words: int) -> bool:
        """Return whether the shared model can learn these without eviction; see `StreamModel`."""
        return self._bounded.has_capacity(classes, n_bytes, words)

    def evict(self, classes: int) -> None:
        """Evict values of the shared model if `classes` classes leave too little memory."""
        self._bounded.evict(classes)

    def change_budget(self, before: StreamModel) -> None:
        """Continue from another model, whose shared model had another memory budget."""
        if isinstance(before, TenantModels):
            self._bounded.change_budget(before._bounded)  # type: ignore[arg-type]  # noqa: SLF001  of this class

    def reset_adaptive(self) -> None:
        """Do nothing: counts stay."""

    @property
    def n_tenants(self) -> int:
        """Number of tenants with a model."""
        return len(self._numbers) - 1

    def use(self, n: int) -> TenantsUse:
        """Return statistics of all tenants, and of the `n` with the most events."""
        return TenantsUse(self.n_tenants, len(self._desk.slot_of), self.top(n))

    def top(self, n: int) -> list[Tenant]:
        """Return the tenants with the most events; of equals the first ones."""
        names, found = self.names, self.counted()
        order = np.argsort(-found[:, 0], kind="stable")[:n].tolist()
        return [Tenant(names[t], *found[t].tolist()) for t in order if found[t, 0]]

    @property
    def names(self) -> list[str]:
        """Names of tenants by number, in order of first appearance; the first is `NOBODY`."""
        return list(self._numbers)

    def counted(self) -> Ints:
        """Return int64[n, 3]: events learned, tested, and predicted right by tenant."""
        columns = [EVENTS, TESTED, RIGHT]
        places = self._shelf.at[: len(self._numbers)]
        kept = np.flatnonzero(places >= 0)
        found = np.zeros((len(self._numbers), 3), dtype=np.int64)
        found[kept] = self._shelf.words.whole[places[kept][:, np.newaxis] + columns]
        at_work, sizes = self._desk.sizes()
        found[at_work] = sizes[:, columns]
        return found

    def tenant_stats(self, numbers: Sequence[int], most: int) -> Iterator[TenantLabels]:
        """Yield statistics of tenants, with at most `most` classes; cold models stay cold."""
        names, classes = self.names, self.classes
        for number in numbers:
            size, labels, weights = self._desk.head(number) or self._head(number)
            order = np.argsort(-weights, kind="stable")
            kept = order[:most][weights[order[:most]] > 0]
            weighed = zip(labels[kept].tolist(), (weights[kept] / UNIT).tolist(), strict=True)
            tenant = Tenant(names[number], *size[[EVENTS, TESTED, RIGHT]].tolist())
            rest = float(weights[order[most:]].sum() / UNIT)
            yield TenantLabels(tenant, {classes[k]: weight for k, weight in weighed}, rest)

    def _head(self, number: int) -> tuple[Ints, Ints, Ints]:
        """Return the header of a cold model's block, its classes and their weights."""
        at = int(self._shelf.at[number])
        run = np.zeros(HEADER, dtype=np.int64) if at < 0 else self._shelf.words.whole[at:]
        K = int(run[CLASSES])
        return run[:HEADER], run[HEADER : HEADER + K], run[HEADER + K : HEADER + 2 * K]

    def tenant(self, name: str = NOBODY) -> NaiveBayes:
        """Return the model of one tenant as a separate model; empty if it has learned nothing."""
        return self._read(self._numbers.get(name, 0 if self._is_full else -1))

    @property
    def shared(self) -> NaiveBayes | None:
        """The model of the events of all tenants, if it is the prior of each."""
        return self._shared

    def tenant_of(self, x: Any) -> str:
        """Return the name of an event's tenant. Raises TypeError for an invalid value."""
        return name_in(x, self.entity, "tenant") or NOBODY

    def speaking_of(self, x: Any) -> NaiveBayes | TenantView:
        """Return the model that predicts this event, without its tenant attribute, including its prior."""
        name = self.tenant_of(x)
        if self._shared is None:
            return self.tenant(name)
        return TenantView(self, {self.entity: name} if name else {})

    def texts(self, x: Any) -> tuple[Mapping[Any, Any], frozenset[Any]]:
        """Return the event, and the names of its text attributes."""
        return self._reader.texts(x)

    def without_tenant(self, x: Any) -> Any:
        """Return an event without the tenant attribute."""
        return without(x, self.entity)

    def predict_posteriors(self, xs: Events, ts: Times = None) -> Posteriors:
        """Return P(v | x) of each event by its tenant's current model; 0 for classes unknown to it."""
        rows = rows_of(xs)
        return self._run(rows, Targets.from_labels(len(rows), None), predict=True, learn=False)

    def explain_one(self, x: Any, top: int | None = None, t: float | None = None) -> list[Item]:
        """Explain the prediction of the event's own tenant; see `NaiveBayes.explain_one`."""
        return self.speaking_of(x).explain_one(self.without_tenant(x), top, t)

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
        """Learn events that were predicted earlier without a label, like any other events."""
        self.learn_many(xs, ys, ws, ts)

    def unlearn_many(
        self, xs: Events, ys: Labels, ws: Weights = None, ts: Times = None, prunings: Prunings = None
    ) -> None:
        """Unlearn these events in order, each from its own model; see `StreamModel`."""
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
        """Return 0; raise ValueError if anything should be pruned."""
        if min_count or drop_most_frequent or max_attributes is not None:
            raise ValueError("models of tenants cannot be pruned: they have no common vocabulary")
        return 0

    def state(self) -> State:
        """Return everything learned: JSON-able values, and arrays. Equal states have equal bytes."""
        return self.copying().state()

    def copying(self, aside: Aside = concatenated, /) -> TenantsCopy:
        """Begin to copy the current `state` while the models continue to learn."""
        self._desk.evict_all()
        meta = {
            "type": self.state_type,
            "events": self.n_events,
            "classes": [plain(label) for label in self._classes],
            **self._attributes.described(),
        }
        names, name_ends = packed(self._numbers)
        small: dict[str, Array] = {"weights": self._weights.copy(), "names": names, "name_ends": name_ends}
        shared = None if self._shared is None else self._shared.copying(aside)
        return TenantsCopy(meta, small, self._shelf.copying(len(self._numbers)), shared)

    def load_state(self, meta: Mapping[str, Any], arrays: Mapping[str, Array]) -> Self:
        """Replace everything by a `state` of this kind; return self. Raises ValueError or SnapshotError."""
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
                raise SnapshotError("the first model is not the model of events without a tenant")
            listed = len(classes), len(attributes.groups), len(attributes.fields)
            events, weights = check_runs(arrays["runs"], arrays["ends"], names, *listed)
            if events != meta["events"] or arrays["weights"].tobytes() != weights.tobytes():
                raise SnapshotError("the total events of all tenants are not the sum over tenants")
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

    @property
    def _is_full(self) -> bool:
        return self.n_tenants >= self.tenants

    def _know(self, classes: dict[Any, int]) -> None:
        """Set the list of classes, which only grows at its end."""
        self._classes = classes
        if self._shared is not None:
            self._attributes.most = self._shared.know(classes)
        more = len(classes) - self._weights.size
        if more:
            self._weights = np.pad(self._weights, (0, more))
            self._given = prior_weights(self._prior, classes)

    def _as_learned(self, x: Any, prunings: int | None) -> Any:
        """Return an event as learned after a number of prunings, without attributes beyond the limit."""
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
        """Return the number of each event's tenant; -1 if it has no model."""
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
        return Posteriors(self.classes, probabilities, known, quarantined=None if has.all() else ~has)

    def _written(self, xs: Sequence[Any]) -> EventWriter:
        writer = EventWriter()
        if xs:
            self._reader.write_all(writer, xs)
        return writer

    def _at_once(
        self, xs: Sequence[Any], writer: EventWriter, numbers: Ints, found: _Columns, **how: bool
    ) -> tuple[Floats, Flags]:
        """Predict and learn events; split the batch in halves while its models exceed the memory limit."""
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
        model = NaiveBayes(*self._parameters)
        self._desk.evict_all()
        if number >= 0 and self._shelf.at[number] >= 0:
            listed = list(self._classes), list(self._attributes.groups), list(self._attributes.fields)
            model.load_state(*state_of(self._shelf.words.whole, int(self._shelf.at[number]), *listed))
        return model

    def _write(self, number: int, model: NaiveBayes) -> None:
        before = int(self._shelf.at[number])
        counted = self._shelf.words.whole[before : before + HEADER][[TESTED, RIGHT]]
        self._desk.clear()
        groups, fields = list(self._attributes.groups), list(self._attributes.fields)
        run = run_of(*model.state(), self._classes, groups, fields, counted.tolist())
        self._shelf.write(number, run)


def _check_smoothing(model: NaiveBayes) -> None:
    """Raise ValueError if smoothing allows a probability of zero, which the prior must not have."""
    for name in (None, *model.declared):
        alpha, m, p, _ = model.smoothing_of(name)
        if (alpha if m < 0.0 else m) == 0.0 or p == 0.0:
            key = "alpha" if m < 0.0 else "m" if m == 0.0 else "p"
            of = key if name is None else f"attribute {name!r}: {key}"
            raise ValueError(
                f"{of} is 0: a shared model is a prior, and has to leave any word and value some "
                f"probability; expected {key} above 0 with shared = true"
            )
