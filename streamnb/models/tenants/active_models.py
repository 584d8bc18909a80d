"""Active models: many in one set of tables, so that a batch is one call of a kernel.

A *slot* is the place of one model. Rows belong to groups and values to fields, and each group and field to
one slot: a word of two tenants has two rows.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from streamnb.features.encoded_batch import Encoded
from streamnb.features.event_writer import EventWriter
from streamnb.features.feature_layout import Layout, numbers_of
from streamnb.features.vocabulary import Vocabulary
from streamnb.kernels.array_types import Floats, Ints
from streamnb.kernels.growable_arrays import roomier
from streamnb.models.naive_bayes.joint_log_likelihood import score_of
from streamnb.models.naive_bayes.naive_bayes_tables import NO_SHARES, NO_VALUES, CountViews
from streamnb.models.tenants.cold_store import ColdStore
from streamnb.models.tenants.eviction_kernels import (
    BYTES,
    CLASSES,
    FIELDS,
    GROUPS,
    HEADER,
    ROWS,
    TenantArrays,
    deserialize_tenant,
    measure,
    parts_of,
    serialize_tenant,
)
from streamnb.models.tenants.shared_prior import OwnModel, SharedPrior
from streamnb.models.tenants.tenant_kernels import TenantPosteriors, place_labels, run_tenants
from streamnb.statistics.histograms import Histograms
from streamnb.values.type_aliases import Codes, Flags

Smoothing = Callable[[Any], tuple[float, float, float, float]]
"""Attribute -> its alpha, m (-1: use alpha), p (nan: uniform), and number of declared values."""
_LISTS = ("group_of", "field_of")  # by slot; -1 if it does not have the attribute
_ROW, _GROUP, _FIELD, _SLOT = 48, 56, 16, 96  # bytes without the columns of classes
_NO_HISTOGRAMS = Histograms.empty(0, 64, 8)


class ActiveModels:
    """Tables of active models, and the slot of each tenant. Any model may be evicted at any time.

    Args:
        attributes: the shared list of attributes, which models refer to by index.
        smoothing: smoothing of each attribute.
        prior_mode: mode of the class prior.
        shelf: store of evicted models.
        n_bytes: memory limit; the models of a single event may exceed it.
        shared: model of all tenants as the prior of each, if any.

    Attributes:
        slot_of: tenant -> its slot.
        has_bernoulli: False, as `Numbering` asks.
    """

    has_bernoulli = False

    def __init__(
        self,
        attributes: Layout,
        smoothing: Smoothing,
        prior_mode: int,
        shelf: ColdStore,
        n_bytes: int,
        shared: SharedPrior | None,
    ) -> None:
        self._shared = shared
        self._attributes, self._smoothing, self._prior_mode = attributes, smoothing, prior_mode
        self._shelf, self._most = shelf, n_bytes
        self._read_by: list[tuple[float, ...]] = []  # smoothing of each listed group
        self._event_slots = np.zeros(0, dtype=np.int64)  # slots of the current batch
        self._begin(2)

    def _begin(self, K: int) -> None:
        self.slot_of: dict[int, int] = {}
        self._changed = np.zeros(0, dtype=np.bool_)
        self._groups = self._fields = 0
        self._vocabulary = Vocabulary()
        self._loaded = TenantArrays(
            weights=np.zeros((0, K), np.int64),
            labels=np.zeros((0, K), np.int64),
            sizes=np.zeros((0, HEADER), np.int64),
            group_slot=np.zeros(0, np.int64),
            group_attribute=np.zeros(0, np.int64),
            live=np.zeros(0, np.int64),
            totals=np.zeros((0, K), np.int64),
            field_slot=np.zeros(0, np.int64),
            field_attribute=np.zeros(0, np.int64),
            n=np.zeros((0, K), np.int64),
            mean=np.zeros((0, K)),
            M2=np.zeros((0, K)),
            row_group=self._vocabulary.groups,
            table=np.zeros((0, K), np.int64),
            cells=self._vocabulary.cells,
            arena=self._vocabulary.arena,
            group_of=np.zeros((0, 1), np.int32),
            field_of=np.zeros((0, 1), np.int32),
        )

    @property
    def n_bytes(self) -> int:
        """Memory of the tables in bytes, including spare capacity."""
        return sum(array.nbytes for array in self._loaded) + self._vocabulary.slots.nbytes

    def sizes(self) -> tuple[Ints, Ints]:
        """Return the active tenants, and the header of each block."""
        tenants = np.fromiter(self.slot_of, dtype=np.int64, count=len(self.slot_of))
        return tenants, self._loaded.sizes[: tenants.size]

    def head(self, tenant: int) -> tuple[Ints, Ints, Ints] | None:
        """Return the header of a tenant's block, its classes and their weights; None if it is not active."""
        slot = self.slot_of.get(tenant)
        if slot is None:
            return None
        size = self._loaded.sizes[slot]
        return size, self._loaded.labels[slot, : size[CLASSES]], self._loaded.weights[slot, : size[CLASSES]]

    def load(self, tenants: Ints) -> int:
        """Activate the models of these tenants, each once; return 1, or ~tenant if that tenant is damaged.

        Returns 0 if they exceed the memory limit together; then only other models were evicted.
        """
        missing = np.array([t for t in tenants.tolist() if t not in self.slot_of], dtype=np.int64)
        if not missing.size:
            return 1
        at = self._shelf.at[missing]
        kept = np.flatnonzero(at >= 0)
        sizes = self._shelf.words.whole[at[kept][:, np.newaxis] + np.arange(HEADER)]
        more, K = sizes.sum(axis=0), max(int(sizes[:, CLASSES].max(initial=0)), 2)
        if self._takes(len(missing), more, max(K, self._loaded.labels.shape[1])) > self._most:
            if self.slot_of:
                self.clear(K)
                return self.load(tenants)
            if self._loaded.labels.shape[1] > K:
                self._begin(K)
                return self.load(tenants)
            if missing.size > 1:
                return 0
        self._widen(K)
        self._list_attributes()
        first = len(self.slot_of)
        self.slot_of.update(zip(missing.tolist(), range(first, first + missing.size), strict=True))
        used = np.array([self._groups, self._fields, self._vocabulary.size, self._vocabulary.used[0]])
        self._reserve(*(used[:2] + more[[GROUPS, FIELDS]]).tolist())
        self._vocabulary.reserve(int(more[ROWS]), int(more[BYTES]))
        self._reserve_rows(int(used[2] + more[ROWS]))
        damaged = deserialize_tenant(self._shelf.words, at[kept], first + kept, self._loaded, used)
        self._groups, self._fields, size, self._vocabulary.used[0] = used.tolist()
        self._vocabulary.enter(size)
        return 1 if damaged < 0 else ~int(missing[kept[damaged]])

    def has_capacity(self, slots: Ints, label: Ints, rows: int) -> bool:
        """Return whether events may be learned within the memory limit.

        `label` has the number of a class in the list of all, or -1. The up to `rows` new rows may take as
        much again, because most of their words are already present.
        """
        labels, sizes = self._loaded.labels, self._loaded.sizes[:, CLASSES]
        is_learned = (label >= 0) & (slots >= 0)
        n = int(label.max(initial=0)) + 1
        of, which = np.divmod(np.unique(slots[is_learned] * n + label[is_learned]), n)
        has = (labels[of] == which[:, np.newaxis]) & (np.arange(labels.shape[1]) < sizes[of, np.newaxis])
        most = sizes + np.bincount(of[~has.any(axis=1)], minlength=sizes.size)
        K = _widened(labels.shape[1], int(most.max(initial=0)))
        spare = len(self._loaded.table) - self._vocabulary.size  # spare rows are widened, too
        taken = self._takes(0, np.zeros(HEADER, dtype=np.int64), K) + spare * 8 * K
        return max(taken, rows * (_ROW + 8 * K)) <= self._most

    def evict_all(self) -> None:
        """Write every changed model to the store; all stay active, too."""
        slots = np.flatnonzero(self._changed[: len(self.slot_of)])
        if not slots.size:
            return
        extent = self._groups, self._fields, self._vocabulary.size
        measure(self._loaded, *extent)
        tenants, sizes = self.sizes()[0], self._loaded.sizes[slots]
        lengths = parts_of(*sizes[:, [CLASSES, GROUPS, FIELDS, ROWS, BYTES]].T)[-1]
        at = np.full(self._loaded.sizes.shape[0], -1)
        at[slots] = self._shelf.place(tenants[slots], lengths)
        scratch, local = np.empty_like(self._loaded.sizes), np.empty(self._groups, dtype=np.int64)
        serialize_tenant(self._loaded, *extent, at, scratch, local, self._shelf.words)
        self._changed[:] = False

    def clear(self, K: int = 2) -> None:
        """Evict all models, and empty the tables."""
        self.evict_all()
        columns, rows = self._loaded.labels.shape[1], len(self._loaded.table)
        if columns > 4 * K or rows * (_ROW + 8 * max(columns, K)) > self._most:
            self._begin(K)  # kept tables would be widened, for unused rows
            return
        for name, used in self._lengths(self._groups, self._fields).items():
            getattr(self._loaded, name)[:used] = -1 if name in _LISTS else 0
        self._loaded.table[: self._vocabulary.size] = 0
        self._vocabulary.empty()
        self.slot_of = {}
        self._groups = self._fields = 0

    def run(
        self, writer: EventWriter, slots: Ints, targets: Any, given: Floats, *, predict: bool, learn: bool
    ) -> tuple[Floats, Flags]:
        """Predict events, each by its own model, and learn them; see `run_tenants` and `Targets`."""
        self._event_slots = slots
        encoded: Encoded = writer.encoded(targets, {}, self, self._vocabulary)
        batch = encoded.batch
        done = place_labels(0, slots, batch.label, self._loaded)
        while done < slots.size:
            self._widen(self._loaded.labels.shape[1] + 1)
            done = place_labels(done, slots, batch.label, self._loaded)
        self._reserve_rows(self._vocabulary.size)
        n, K = slots.size if predict else 0, self._loaded.labels.shape[1]
        posteriors = TenantPosteriors(
            given, np.zeros((n, given.size)), np.zeros((n, given.size), dtype=np.bool_)
        )
        if self._shared is None:
            scratch = score_of(K), np.empty((n, K))
            run_tenants(self._tables(), batch, slots, self._loaded, posteriors, learn, *scratch)
        else:
            own = OwnModel(self._tables(), batch, slots, self._loaded, posteriors)
            self._shared.run_below(writer, targets, own, learn=learn)
        if learn:
            self._changed[slots[batch.label >= 0]] = True
        return posteriors.probabilities, posteriors.has

    def groups_of(self, names: dict[Any, int], places: Codes, adds: Flags, ends: Ints) -> Codes:
        """Return group numbers in the model of each event; see `Numbering`."""
        listed = numbers_of(names, places, adds, self._attributes.group)
        numbers, self._groups = self._numbers(listed, adds, ends, "group", self._groups)
        return numbers

    def fields_of(self, names: dict[Any, int], places: Codes, adds: Flags, ends: Ints) -> Codes:
        """Return field numbers in the model of each event; see `Numbering`."""
        listed = numbers_of(names, places, adds, self._attributes.field)
        numbers, self._fields = self._numbers(listed, adds, ends, "field", self._fields)
        return numbers

    def _numbers(self, attribute: Codes, adds: Flags, ends: Ints, kind: str, first: int) -> tuple[Codes, int]:
        """Return the number of each item's attribute in its event's slot, and the next free number.

        New numbers of this kind begin with `first`.
        """
        self._list_attributes()
        table = getattr(self._loaded, f"{kind}_of")
        slots = np.repeat(self._event_slots, np.diff(ends))
        is_listed = (slots >= 0) & (attribute >= 0)
        before = np.where(is_listed, table[slots, attribute] if table.size else -1, np.int32(-1))
        met = np.flatnonzero(adds & is_listed & (before < 0))
        if not met.size:
            return before, first
        found, place = np.unique(slots[met] * table.shape[1] + attribute[met], return_index=True)
        order = np.argsort(place)
        found, place = found[order], met[place[order]]
        new, stop = np.divmod(found, table.shape[1]), first + found.size
        table[new] = np.arange(first, stop)
        self._reserve(stop if kind == "group" else self._groups, stop if kind == "field" else self._fields)
        getattr(self._loaded, f"{kind}_slot")[first:stop] = new[0]
        getattr(self._loaded, f"{kind}_attribute")[first:stop] = new[1]
        number = np.where(is_listed, table[slots, attribute], np.int32(-1))
        later = np.flatnonzero(number >= first)
        number[later[later < place[number[later] - first]]] = -1
        return number, stop

    @property
    def kinds(self) -> Ints:
        """Kind of each group."""
        return self._attributes.kinds[self._loaded.group_attribute[: self._groups]]

    def _tables(self) -> CountViews:
        loaded, G, K = self._loaded, self._groups, self._loaded.labels.shape[1]
        reading = np.array(self._read_by).reshape(-1, 4)[loaded.group_attribute[:G]].T.copy()
        counted = loaded.table, loaded.totals, loaded.live, self.kinds, np.full(G, -1), _NO_HISTOGRAMS
        smoothed = reading[0], reading[1], reading[2], reading[3]
        observed = loaded.n, loaded.mean, loaded.M2
        weights, prior = np.zeros(K, np.int64), (np.zeros(K), self._prior_mode)
        return CountViews(weights, *counted, *observed, *smoothed, *prior, 0, NO_VALUES, NO_SHARES)

    def _takes(self, slots: int, more: Ints, K: int) -> int:
        """Return the bytes of all tables with `slots` more slots of the sizes `more`."""
        extent = (
            (self._vocabulary.size + int(more[ROWS]), _ROW + 8 * K),
            (self._groups + int(more[GROUPS]), _GROUP + 8 * K),
            (self._fields + int(more[FIELDS]), _FIELD + 24 * K),
            (len(self.slot_of) + slots, _SLOT + 16 * K + 4 * self._listed),
            (int(self._vocabulary.used[0] + more[BYTES]), 1),
        )
        return sum(n * size for n, size in extent)

    @property
    def _listed(self) -> int:
        return len(self._attributes.groups) + len(self._attributes.fields)

    def _list_attributes(self) -> None:
        """Read the smoothing of new attributes, and extend the slots to them."""
        self._read_by += [
            self._smoothing(name) for _, name in list(self._attributes.groups)[len(self._read_by) :]
        ]
        loaded = self._loaded
        self._loaded = loaded._replace(
            group_of=roomier(loaded.group_of, 0, len(self._attributes.groups), times=1, fill=-1),
            field_of=roomier(loaded.field_of, 0, len(self._attributes.fields), times=1, fill=-1),
        )

    def _widen(self, K: int) -> None:
        K = _widened(self._loaded.labels.shape[1], K)
        if self._loaded.labels.shape[1] < K:
            by_class = ("weights", "labels", "totals", "n", "mean", "M2", "table")
            self._loaded = self._loaded._replace(
                **{name: roomier(getattr(self._loaded, name), 0, K, times=1) for name in by_class}
            )

    def _reserve(self, groups: int, fields: int) -> None:
        self._changed = roomier(self._changed, len(self.slot_of))
        lengths, held = self._lengths(groups, fields), self._loaded
        longer = {one: roomier(getattr(held, one), lengths[one], fill=-(one in _LISTS)) for one in lengths}
        self._loaded = held._replace(**longer)

    def _lengths(self, groups: int, fields: int) -> dict[str, int]:
        """Return the required length of each table by slot, group or field."""
        of_slots = dict.fromkeys(("weights", "labels", "sizes", *_LISTS), len(self.slot_of))
        of_groups = dict.fromkeys(("group_slot", "group_attribute", "live", "totals"), groups)
        of_fields = dict.fromkeys(("field_slot", "field_attribute", "n", "mean", "M2"), fields)
        return of_slots | of_groups | of_fields

    def _reserve_rows(self, rows: int) -> None:
        """Reserve rows of counts, and adopt the vocabulary's current arrays."""
        own = self._vocabulary
        table = roomier(self._loaded.table, rows)
        self._loaded = self._loaded._replace(
            table=table, row_group=own.groups, cells=own.cells, arena=own.arena
        )


def _widened(columns: int, K: int) -> int:
    return columns if columns >= K else max(K, columns + columns // 2)
