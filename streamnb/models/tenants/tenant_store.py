"""The models of all tenants: the number of each tenant, its model, and what it has learned."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

import numpy as np

from streamnb.errors import SnapshotError
from streamnb.features.event_writer import EventWriter
from streamnb.features.feature_layout import Layout
from streamnb.kernels.array_types import Floats, Ints
from streamnb.kernels.growable_arrays import roomier
from streamnb.models.interface.tenant_usage import Tenant, TenantLabels, TenantsUse, TenantTable
from streamnb.models.tenants.active_models import ActiveModels
from streamnb.models.tenants.cold_store import ColdStore, Memory
from streamnb.models.tenants.eviction_kernels import CLASSES, EVENTS, HEADER, RIGHT, TESTED
from streamnb.models.tenants.serialized_tenants import run_of, state_of
from streamnb.models.tenants.shared_prior import SharedPrior
from streamnb.statistics.class_priors import ClassPrior, prior_mode
from streamnb.values.example_weights import UNIT
from streamnb.values.type_aliases import Array, Flags, State

NOBODY = ""
"""The tenant of events that name none, and of events of tenants beyond the maximum."""


class TenantTargets(NamedTuple):
    """Targets with classes that are already looked up."""

    labels: list[Any]
    weights: Ints
    times: Floats
    found: tuple[Ints, Ints, Flags]

    def columns(self, _classes: dict[Any, int]) -> tuple[Ints, Ints, Flags]:
        """Return the columns that `Targets.columns` returned."""
        label, known, adds = self.found
        return label.copy(), known, adds

    def among(self, some: slice) -> TenantTargets:
        """Return the targets of some of the events."""
        label, known, adds = self.found
        found = label[some], known[some], adds[some]
        return TenantTargets(self.labels[some], self.weights[some], self.times[some], found)


class StoredModel(Protocol):
    """A model of one tenant: `NaiveBayes`."""

    prior: ClassPrior

    def smoothing_of(self, name: Any) -> tuple[float, float, float, float]:
        """Return alpha, m, p and number of declared values of an attribute."""

    def state(self) -> State:
        """Return everything learned."""

    def load_state(self, meta: Mapping[str, Any], arrays: Mapping[str, Array]) -> Any:
        """Replace everything learned."""


M = TypeVar("M", bound=StoredModel)


class TenantStore(TenantTable, Generic[M]):
    """The numbered models of tenants.

    Invariant: a tenant keeps its number, which is its place in the order of first appearance. Its model is
    active, cold, or empty, and which of these changes no result.

    Args:
        new_model: makes an empty model of one tenant.
        most: maximum number of tenants; beyond it, events go to the model of unnamed events.
        n_bytes: limit of the active models.
        memory: allocator of the cold models.
        attributes: the list of attributes of all models.
        shared: the model that is the prior of each, if any.

    Attributes:
        numbers: name of a tenant -> its number.
        changed: bool[n], tenants whose models learned or unlearned since it was cleared.
        classes: classes of all models; the owner replaces it.
        cold, active: where the models are.
    """

    def __init__(
        self,
        new_model: Callable[[], M],
        most: int,
        n_bytes: int,
        memory: Memory,
        attributes: Layout,
        shared: SharedPrior | None,
    ) -> None:
        self._new_model, self._most, self._attributes = new_model, most, attributes
        self.numbers: dict[str, int] = {NOBODY: 0}
        self.changed: Flags = np.zeros(1, dtype=np.bool_)
        self.classes: dict[Any, int] = {}
        self.cold = ColdStore(memory)
        alone = new_model()
        how = alone.smoothing_of, prior_mode(alone.prior)
        self.active = ActiveModels(attributes, *how, self.cold, n_bytes, shared)

    @property
    def n_bytes(self) -> int:
        """Approximate memory in bytes of active and cold models, and of tenants' names."""
        return self.active.n_bytes + self.cold.n_bytes + 150 * len(self.numbers)

    @property
    def names(self) -> list[str]:
        """Names of tenants by number; the first is `NOBODY`."""
        return list(self.numbers)

    def load(self, names: Sequence[str], runs: Ints, ends: Ints) -> None:
        """Store the cold models of these tenants, in an empty store."""
        self.numbers = {name: number for number, name in enumerate(names)}
        self.changed = np.zeros(len(names), dtype=np.bool_)
        self.cold.load(runs, ends)

    def find(self, name: str) -> int:
        """Return the number of a tenant, -1 if it has no model."""
        return self.numbers.get(name, 0 if self._is_full else -1)

    @property
    def _is_full(self) -> bool:
        return len(self.numbers) > self._most

    def number(self, names: Sequence[str], adds: Flags) -> Ints:
        """Return the number of each event's tenant, a new one if `adds`; -1 if it has no model."""
        numbers, known = [], self.numbers
        for name, is_learned in zip(names, adds.tolist(), strict=True):
            number = known.get(name)
            if number is None:
                number = self.find(name)
                if is_learned and number < 0:
                    number = known[name] = len(known)
            numbers.append(number)
        self.cold.count(len(known))
        self.changed = roomier(self.changed, len(known), times=1)
        return np.array(numbers, dtype=np.int64)

    def read(self, number: int) -> M:
        """Return a copy of a tenant's model; an empty one for -1."""
        model = self._new_model()
        self.active.evict_all()
        if number >= 0 and self.cold.at[number] >= 0:
            listed = list(self.classes), list(self._attributes.groups), list(self._attributes.fields)
            model.load_state(*state_of(self.cold.words.whole, int(self.cold.at[number]), *listed))
        return model

    def write(self, number: int, model: M) -> None:
        """Replace a tenant's model; the numbers of tested and right predictions stay."""
        before = int(self.cold.at[number])
        counted = self.cold.words.whole[before : before + HEADER][[TESTED, RIGHT]]
        self.active.clear()
        groups, fields = list(self._attributes.groups), list(self._attributes.fields)
        self.cold.write(number, run_of(*model.state(), self.classes, groups, fields, counted.tolist()))
        self.changed[number] = True

    def use(self, n: int) -> TenantsUse:
        """Return statistics of all tenants, and of the `n` with the most events; of equals the first ones."""
        names, found = self.names, self.counted()
        order = np.argsort(-found[:, 0], kind="stable")[:n].tolist()
        top = [Tenant(names[t], *found[t].tolist()) for t in order if found[t, 0]]
        return TenantsUse(len(names) - 1, len(self.active.slot_of), top)

    def counted(self) -> Ints:
        """Return int64[n, 3]: events learned, tested, and predicted right by tenant."""
        columns = [EVENTS, TESTED, RIGHT]
        places = self.cold.at[: len(self.numbers)]
        kept = np.flatnonzero(places >= 0)
        found = np.zeros((len(self.numbers), 3), dtype=np.int64)
        found[kept] = self.cold.words.whole[places[kept][:, np.newaxis] + columns]
        at_work, sizes = self.active.sizes()
        found[at_work] = sizes[:, columns]
        return found

    def tenant_stats(self, numbers: Sequence[int], most: int) -> Iterator[TenantLabels]:
        """Yield statistics of tenants, with at most `most` classes; cold models stay cold."""
        names, classes = self.names, list(self.classes)
        for number in numbers:
            size, labels, weights = self.active.head(number) or self._head(number)
            order = np.argsort(-weights, kind="stable")
            kept = order[:most][weights[order[:most]] > 0]
            weighed = zip(labels[kept].tolist(), (weights[kept] / UNIT).tolist(), strict=True)
            tenant = Tenant(names[number], *size[[EVENTS, TESTED, RIGHT]].tolist())
            rest = float(weights[order[most:]].sum() / UNIT)
            yield TenantLabels(tenant, {classes[k]: weight for k, weight in weighed}, rest)

    def _head(self, number: int) -> tuple[Ints, Ints, Ints]:
        """Return the header of a cold model's block, its classes and their weights."""
        at = int(self.cold.at[number])
        run = np.zeros(HEADER, dtype=np.int64) if at < 0 else self.cold.words.whole[at:]
        K = int(run[CLASSES])
        return run[:HEADER], run[HEADER : HEADER + K], run[HEADER + K : HEADER + 2 * K]

    def run(
        self,
        write: Callable[[Sequence[Any]], EventWriter],
        xs: Sequence[Any],
        numbers: Ints,
        found: TenantTargets,
        given: Floats,
        writer: EventWriter | None = None,
        *,
        predict: bool,
        learn: bool,
    ) -> tuple[Floats, Flags]:
        """Predict and learn events; split the batch in halves while its models exceed the memory limit.

        `write` encodes events, unless `writer` has them already.
        """
        writer = write(xs) if writer is None else writer
        tenants = np.unique(numbers[numbers >= 0])
        label, _, adds = found.found
        rows, is_least = writer.most_rows if learn else 0, False
        while (took := self.active.load(tenants)) > 0:
            slot = self.active.slot_of
            slots = np.array([slot.get(number, -1) for number in numbers.tolist()], dtype=np.int64)
            if is_least or self.active.has_capacity(slots, np.where(adds, label, -1), rows):
                return self.active.run(writer, slots, found, given, predict=predict, learn=learn)
            if len(slot) == tenants.size and len(xs) > 1:
                break
            self.active.clear()
            is_least = len(xs) <= 1
        if took < 0:
            raise SnapshotError(f"the model of tenant number {~took} is damaged in memory")
        half = len(xs) // 2
        parts = (
            self.run(write, xs[some], numbers[some], found.among(some), given, predict=predict, learn=learn)
            for some in (slice(half), slice(half, None))
        )
        probabilities, has = zip(*parts, strict=True)
        return np.concatenate(probabilities), np.concatenate(has)
