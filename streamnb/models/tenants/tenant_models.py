"""A naive Bayes model for each tenant of a stream, each equal to a separate model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Self

import numpy as np

from streamnb.errors import SnapshotError, UnlearnError
from streamnb.features.attributes import Attribute, EventModel, Text
from streamnb.features.data_frames import rows_of
from streamnb.features.entity_attribute import name_in, packed, unpacked, without
from streamnb.features.event_reader import EventReader
from streamnb.features.event_writer import EventWriter
from streamnb.features.feature_layout import Layout
from streamnb.features.targets import EncodedExamples, Targets
from streamnb.kernels.array_types import Ints
from streamnb.models.interface.attribution import Item
from streamnb.models.interface.predictions import Posteriors
from streamnb.models.interface.stream_model import (
    BoundedByPart,
    Corrections,
    Events,
    Labels,
    Most,
    Prunings,
    StateCopying,
    Unbounded,
)
from streamnb.models.interface.tenant_usage import TenantedModel, TenantsUse
from streamnb.models.naive_bayes.group_smoothing import GroupSmoothing
from streamnb.models.naive_bayes.joint_log_likelihood import score_of
from streamnb.models.naive_bayes.naive_bayes_classifier import NaiveBayes
from streamnb.models.tenants.cold_store import ColdStoreCopy, Memory, in_memory
from streamnb.models.tenants.serialized_tenants import check_runs
from streamnb.models.tenants.shared_prior import OwnModel, SharedPriorScratch, run_below
from streamnb.models.tenants.tenant_store import NOBODY, TenantStore, TenantTargets
from streamnb.models.tenants.tenant_view import TenantView
from streamnb.statistics.class_priors import Prior, check_prior, prior_weights
from streamnb.statistics.counts import Counts
from streamnb.values.example_weights import UNIT, units
from streamnb.values.parameter_checks import check_whole
from streamnb.values.state_validation import checked_names, named, plain, state_errors
from streamnb.values.type_aliases import Array, Aside, State, Times, Weights, concatenated

_MOST_ATTRIBUTES = 4096
_SHARED = "shared_"  # prefix of the shared model's arrays


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


class TenantModels(BoundedByPart, TenantedModel):
    """Naive Bayes for each tenant: an event is predicted, and learned, by its own tenant's model.

    Invariant: each model and its predictions equal, bit for bit, a `NaiveBayes` of these parameters that
    learned only this tenant's events. The number of active models depends on memory, and changes no result.

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
        store: the tenants by number, with their models.

    Examples:
        >>> model = TenantModels(entity="shop")
        >>> for shop, colour, label in [("a", "red", "yes"), ("b", "red", "no"), ("a", "blue", "no")]:
        ...     model.learn_many([{"shop": shop, "colour": colour}], [label])
        >>> [model.predict_posteriors([{"shop": s, "colour": "red"}]).labels() for s in "ab"]
        [['yes'], ['no']]
    """

    state_type = "TenantModels"
    corrections: Corrections = "exact"
    store: TenantStore[NaiveBayes]

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
        check_prior(prior)
        self._reader = EventReader(attributes, event_model)
        GroupSmoothing(self._reader).check_p(p)
        self._new_model = partial(NaiveBayes, *self._parameters)
        alone = self._new_model()
        texts = [spec for spec in alone.declared.values() if isinstance(spec, Text)]
        if "bernoulli" in {spec.event_model or event_model for spec in texts}:
            raise ValueError(
                "a model for each tenant takes no Bernoulli texts: set event_model = 'multinomial', which "
                "counts the occurrences of each word"
            )
        if entity in (attributes or {}):
            raise ValueError(f"{entity!r} names the tenant: it cannot be an attribute, too")
        self.entity, self.tenants, self.memory, self._prior = entity, tenants, memory, prior
        if shared:
            _check_smoothing(alone)
        self._shares, self._within = shared, 0
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
        self._attributes = attributes
        self._attributes.most = _MOST_ATTRIBUTES
        self._shared = shared
        of_store = self._new_model, self.tenants, self.memory, self._memory
        self.store = TenantStore(*of_store, attributes, shared)
        self._know({})

    def evict_within(self, memory: Memory) -> None:
        """Use this allocator for cold models from now on."""
        self._memory = self.store.cold.memory = memory

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
        """Approximate memory in bytes of all models, and of tenants' names."""
        shared = 0 if self._shared is None else self._shared.n_bytes
        return self.store.n_bytes + shared

    @property
    def bounded(self) -> SharedModel | Unbounded:
        """The shared model: its memory budget is that of all models."""
        return Unbounded() if self._shared is None else self._shared

    @property
    def n_prunings(self) -> int:
        """Number of prunings of the shared model."""
        return 0 if self._shared is None else self._shared.n_prunings

    def use(self, n: int) -> TenantsUse:
        """Return statistics of all tenants, and of the `n` with the most events."""
        return self.store.use(n)

    def tenant(self, name: str = NOBODY) -> NaiveBayes:
        """Return the model of one tenant as a separate model; empty if it has learned nothing."""
        return self.store.read(self.store.find(name))

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
        return TenantView(self, self._reader, {self.entity: name} if name else {})

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
            number = self.store.find(self.tenant_of(x))
            if number < 0:
                raise UnlearnError(f"no event was ever learned of the tenant {self.tenant_of(x)!r}")
            own_x = self._as_learned(self.without_tenant(x), prunings_then)
            model = self.store.read(number)
            model.unlearn_many([own_x], [y], [w])
            self.store.write(number, model)
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
        self.store.active.evict_all()
        meta = {
            "type": self.state_type,
            "events": self.n_events,
            "classes": [plain(label) for label in self._classes],
            **self._attributes.described(),
        }
        names, name_ends = packed(self.store.numbers)
        small: dict[str, Array] = {"weights": self._weights.copy(), "names": names, "name_ends": name_ends}
        shared = None if self._shared is None else self._shared.copying(aside)
        return TenantsCopy(meta, small, self.store.cold.copying(len(self.store.numbers)), shared)

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
        self.store.load(names, arrays["runs"], arrays["ends"])
        return self

    def _know(self, classes: dict[Any, int]) -> None:
        """Set the list of classes, which only grows at its end."""
        self._classes = self.store.classes = classes
        if self._shared is not None:
            self._attributes.most = self._shared.know(classes)
        more = len(classes) - self._weights.size
        if more:
            self._weights = np.pad(self._weights, (0, more))
            self._given = prior_weights(self._prior, classes)

    def _as_learned(self, x: Any, prunings: int | None) -> Any:
        """Return an event as learned after a number of prunings, without attributes beyond the limit."""
        layout = self._attributes
        known = None if self._shared is None else self._shared.attributes_learned(prunings)
        if known is None:
            known = len(layout.groups), len(layout.fields)
            if max(known) < layout.most:
                return x
        return layout.within(x, known, self._reader.kind, if_unknown=False)

    def _run(self, rows: Sequence[Any], targets: Targets, *, predict: bool, learn: bool) -> Posteriors:
        names = [self.tenant_of(x) for x in rows]
        xs = [self.without_tenant(x) for x in rows]
        writer = self._reader.written_rows(xs)  # raises the errors of invalid values before anything changes
        classes = self._classes.copy() if learn else self._classes
        label, known, adds = targets.columns(classes)
        self._know(classes)
        store, numbers = self.store, self.store.number(names, adds)
        found = TenantTargets(targets.labels, targets.weights, targets.times, (label, known, adds))
        of_batch = self._reader.written_rows, xs, numbers, found, self._given
        probabilities, has = store.run(*of_batch, writer, predict=predict, learn=learn)
        np.add.at(self._weights, label[adds], targets.weights[adds])
        store.changed[numbers[adds]] = True
        self.n_events += int(np.count_nonzero(adds))
        return Posteriors(self.classes, probabilities, known, quarantined=None if has.all() else ~has)


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
