"""Counts and moments that decay: what was learned counts half after a half-life of event time.

An event learned at time t weighs 2^((t - t0) / h) for ever, and a read at time T divides by 2^((T - t0) / h):
nothing is updated as time passes (forward decay: Cormode, Shkapenyuk, Srivastava and Xu, 2009). Weights grow
beyond any double, so time is cut into *epochs* of 32 half-lives, and a table holds weights relative to the
beginning of an epoch. What is small (totals, classes, moments) is brought into a new epoch at once; a row of
the large table, when it is next learned. Both are multiplications by powers of two, and so exact.

Time is the largest event time learned so far: it never goes back, and an event that comes late counts as one
of now. An event without a time is one of now, too. Only one whose label alone came late counts by its own
time.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from streamnb.kernels.array_types import Floats, Ints
from streamnb.kernels.growable_arrays import Growable, grown, roomier, widened
from streamnb.kernels.jit import inlined, kernel
from streamnb.kernels.structs import struct_type
from streamnb.kernels.vector_kernels import fill, multiply_by
from streamnb.statistics.moments import FARTHEST, learn_value
from streamnb.values.attribute_kinds import NOMINAL
from streamnb.values.example_weights import UNIT
from streamnb.values.state_validation import FINITE, ExpectedArray, counts, real, reject
from streamnb.values.type_aliases import Array, Codes, Flags

_EPOCH = 32.0  # half-lives: weights up to 2^32 leave room for the squares of the largest values
_HEAVIEST = 2.0**96  # units, at the beginning of an epoch
_LATEST = 2.0**52  # limit on elapsed half-lives
_LEAST_WEIGHT = 1e-200  # for moments; squares and quotients of smaller weights underflow


@struct_type
class DecayedTables(NamedTuple):
    """D sets of counts and moments that decay, as the kernels take them.

    Attributes:
        half_life: float64[D], seconds.
        presence: bool[D], whether texts that hold a word are counted, rather than words.
        clock: float64[2], the first and the latest event time learned; nan before there was one.
        epoch: int64[D], the epoch of everything but rows.
        table: float64[>= rows, D, >= classes], in units of 1/1024 example at the beginning of the epoch.
        row_epoch: int64[>= rows, D].
        totals: float64[D, groups, >= classes], sum of the table over the rows of a group.
        classes: float64[D, >= classes].
        n, mean, M2: float64[D, >= fields, >= classes], as in `moments.Moments`; n and M2 are decayed.
    """

    half_life: Floats
    presence: Flags
    clock: Floats
    epoch: Ints
    table: Floats
    row_epoch: Ints
    totals: Floats
    classes: Floats
    n: Floats
    mean: Floats
    M2: Floats


@inlined
def _epochs_gone(epochs: int) -> float:
    """Return the decay over a number of epochs, which underflows after 34 of them."""
    return math.ldexp(1.0, -int(_EPOCH) * min(epochs, 40))


@kernel
def ages(decayed: DecayedTables, time: float, age: Floats) -> None:
    """Set age[d] to the half-lives from the beginning of d's epoch to `time` or the latest time, if later."""
    first, latest = decayed.clock[0], decayed.clock[1]
    now = latest if not time > latest else time
    for d in range(age.size):
        gone = 0.0
        if not math.isnan(first):
            gone = min((now - first) / decayed.half_life[d], _LATEST)
        age[d] = gone - _EPOCH * decayed.epoch[d]


@inlined
def row_scale(epochs: int, scale: float) -> float:
    """Return the factor that brings the weights of a row, `epochs` old, to the current time."""
    return scale if epochs == 0 else scale * _epochs_gone(epochs)


@kernel
def age_moments(n: Floats, mean: Floats, M2: Floats, worth: float) -> None:
    """Scale the weights of moments by `worth`; the mean stays, unless hardly any weight remains."""
    for f in range(n.shape[0]):
        for k in range(n.shape[1]):
            n[f, k] *= worth
            M2[f, k] *= worth
            if n[f, k] < _LEAST_WEIGHT:
                n[f, k] = 0.0
                mean[f, k] = 0.0
                M2[f, k] = 0.0


@kernel
def _advance(decayed: DecayedTables, time: float, age: Floats) -> None:
    """Advance the clock to `time`, and set the ages."""
    if time == time:  # noqa: PLR0124  not nan
        if math.isnan(decayed.clock[0]):
            fill(decayed.clock, time)
        decayed.clock[1] = max(decayed.clock[1], time)
    ages(decayed, time, age)
    for d in range(age.size):
        epochs = np.int64(age[d] / _EPOCH)
        if epochs > 0:
            worth = _epochs_gone(int(epochs))
            multiply_by(decayed.classes[d], worth)
            for g in range(decayed.totals.shape[1]):
                multiply_by(decayed.totals[d, g], worth)
            age_moments(decayed.n[d], decayed.mean[d], decayed.M2[d], worth)
            decayed.epoch[d] += epochs
            age[d] -= _EPOCH * epochs


@kernel
def learn_decayed(
    decayed: DecayedTables, kinds: Any, batch: Any, bags: Any, e: int, late: Any, age: Floats
) -> None:
    """Add event e, which has a label, to its class in every table.

    If `late`, the event counts with the decay since its own time, otherwise as a current one.
    """
    k, weight = batch.label[e], float(batch.weight[e])
    _advance(decayed, batch.time[e], age)
    gone = decayed.clock[1] - batch.time[e]
    for d in range(age.size):
        add = weight * 2.0 ** age[d]
        if late and gone > 0.0:  # not nan
            add *= 2.0 ** (-gone / decayed.half_life[d])
            if add < _LEAST_WEIGHT:
                continue
        decayed.classes[d, k] += add
        for bag in range(bags.event_bags[e], bags.event_bags[e + 1]):
            g = bags.group[bag]
            counts_presence = decayed.presence[d] and kinds[g] != NOMINAL
            for j in range(bags.bag_rows[bag], bags.bag_rows[bag + 1]):
                row = bags.rows[j]
                if bags.amounts[j] * batch.weight[e] < UNIT:  # as in `presence`: too small a part of a word
                    continue
                epochs = decayed.epoch[d] - decayed.row_epoch[row, d]
                if epochs > 0:
                    multiply_by(decayed.table[row, d], _epochs_gone(epochs))
                    decayed.row_epoch[row, d] = decayed.epoch[d]
                change = add if counts_presence else add * (bags.amounts[j] / UNIT)
                decayed.table[row, d, k] += change
                decayed.totals[d, g, k] += change
        for v in range(batch.event_values[e], batch.event_values[e + 1]):
            learn_value(
                decayed.n[d], decayed.mean[d], decayed.M2[d], batch.value_field[v], k, batch.value[v], add
            )


class DecayedCounts(Growable):
    """The tables of several half-lives, grown as rows, groups, fields and classes appear.

    Args:
        decays: (half-life in seconds, whether presence is counted) of each table.
    """

    def __init__(self, decays: tuple[tuple[float, bool], ...] = ()) -> None:
        D = len(decays)
        self.tables = DecayedTables(
            half_life=np.array([half_life for half_life, _ in decays], dtype=np.float64),
            presence=np.array([presence for _, presence in decays], dtype=np.bool_),
            clock=np.full(2, np.nan),
            epoch=np.zeros(D, dtype=np.int64),
            table=np.zeros((32, D, 2)),
            row_epoch=np.zeros((32, D), dtype=np.int64),
            totals=np.zeros((D, 0, 2)),
            classes=np.zeros((D, 2)),
            n=np.zeros((D, 0, 2)),
            mean=np.zeros((D, 0, 2)),
            M2=np.zeros((D, 0, 2)),
        )

    @property
    def n_bytes(self) -> int:
        """Memory of the tables in bytes."""
        return sum(array.nbytes for array in self.tables)

    def reserve(self, groups: int, rows: int, fields: int, classes: int, most: int) -> None:
        """Grow to these groups, rows (at most `most`), fields and classes."""
        tables = self.tables
        have, D, columns = tables.table.shape
        if D == 0:
            return
        if rows > have:
            have = max(rows, min(rows + rows // 2, most))
            self.tables = tables = tables._replace(
                table=grown(tables.table, (have, D, columns)), row_epoch=grown(tables.row_epoch, (have, D))
            )
        if classes > columns:
            wider, have = max(classes, columns + columns // 2), min(have, rows)
            tables = tables._replace(table=tables.table[:have], row_epoch=tables.row_epoch[:have])
            self.tables = tables = tables._replace(table=widened(tables.table, wider))
            columns = wider
        self.tables = tables._replace(
            totals=roomier(tables.totals, D, groups, columns, times=1),
            classes=roomier(tables.classes, D, columns, times=1),
            n=roomier(tables.n, D, fields, columns, times=1),
            mean=roomier(tables.mean, D, fields, columns, times=1),
            M2=roomier(tables.M2, D, fields, columns, times=1),
        )

    @property
    def row_tables(self) -> list[Array]:
        """Every table with a row for each word and value."""
        return [self.tables.table, self.tables.row_epoch] if self.tables.epoch.size else []

    def reset_adaptive(self) -> None:
        """Clear all counts and moments; the clock stays."""
        tables = self.tables
        for array in (tables.table, tables.totals, tables.classes, tables.n, tables.mean, tables.M2):
            array[...] = 0.0

    def forget(self, rows: Ints, size: int, groups: Codes) -> None:
        """Clear removed rows, and recompute the totals from the first `size` rows with these groups."""
        tables = self.tables
        tables.table[rows] = 0.0
        tables.totals[...] = 0.0
        for d in range(tables.epoch.size):
            epochs = tables.epoch[d] - tables.row_epoch[:size, d]
            lost = -int(_EPOCH) * np.minimum(epochs, 40)[:, np.newaxis]
            weights = np.ldexp(tables.table[:size, d], lost)
            np.add.at(tables.totals[d], groups[groups >= 0], weights[groups >= 0])

    def state(self, groups: int, fields: int, classes: int) -> dict[str, Array]:
        """Return copies of all arrays but rows, without spare capacity."""
        tables = self.tables
        return {
            "decayed_clock": tables.clock[~np.isnan(tables.clock)],
            "decayed_epoch": tables.epoch.copy(),
            "decayed_totals": tables.totals[:, :groups, :classes].copy(),
            "decayed_classes": tables.classes[:, :classes].copy(),
            **{
                f"decayed_{name}": getattr(tables, name)[:, :fields, :classes].copy()
                for name in ("n", "mean", "M2")
            },
        }

    def expected(self) -> dict[str, ExpectedArray]:
        """Return the expected arrays of a state."""
        cells = "decays", "fields", "classes"
        return {
            "decayed_clock": real("times", low=-FINITE, high=FINITE),
            "decayed_epoch": counts("decays"),
            "decayed_totals": real("decays", "groups", "classes", low=0.0, high=_HEAVIEST),
            "decayed_classes": real("decays", "classes", low=0.0, high=_HEAVIEST),
            "decayed_n": real(*cells, low=0.0, high=_HEAVIEST),
            "decayed_mean": real(*cells, low=-FARTHEST, high=FARTHEST),
            "decayed_M2": real(*cells, low=0.0),
            "decayed_table": real("rows", "decays", "classes", low=0.0, high=_HEAVIEST),
            "decayed_row_epoch": counts("rows", "decays"),
        }

    def load(self, arrays: Mapping[str, Array]) -> None:
        """Adopt an `expected` state, for which there is capacity. Raises SnapshotError for wrong times."""
        tables = self.tables
        clock, epoch, row_epoch = (arrays[f"decayed_{name}"] for name in ("clock", "epoch", "row_epoch"))
        text = "not the first and the latest time"
        reject("decayed_clock", clock.size not in {0, 2} or (clock[:-1] > clock[1:]).any(), text)
        tables.clock[...] = clock if clock.size else np.nan
        tables.epoch[...] = epoch
        age = np.empty(epoch.size)
        ages(tables, np.nan, age)
        reject("decayed_epoch", (age < 0.0) | (age >= _EPOCH), f"not the epoch of the time {clock}")
        reject("decayed_row_epoch", row_epoch > epoch, "a row was learned later than now")
        for name in ("table", "row_epoch", "totals", "classes", "n", "mean", "M2"):
            array = arrays[f"decayed_{name}"]
            getattr(tables, name)[tuple(map(slice, array.shape))] = array
