"""Expected cells of an event with gaps, by enumeration of all ways to fill the gaps.

    P(world | known values) = prod_v P(v | parents) / sum over worlds of the same product

One pass gives the expected cells of every table; elimination would traverse the network once for each table.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise, product
from typing import Any, NamedTuple, Self

import numpy as np

from streamnb.kernels.array_types import Floats, Ints
from streamnb.kernels.jit import inlined, kernel
from streamnb.kernels.structs import struct_type
from streamnb.statistics.logspace import normalise
from streamnb.toolbox.bayesian_network.family_counts import FINE, FamilyTables
from streamnb.toolbox.bayesian_network.network_kernels import (
    GIVEN_TABLE,
    SmoothedNetwork,
    row_of,
    smoothed_factor,
)


@struct_type
class Completions(NamedTuple):
    """All ways to fill the gaps of an event, as arrays.

    Attributes:
        codes: int64[V], codes of the event; the codes of gaps are overwritten.
        gaps: int64[G], variables of the gaps.
        live, sizes: int64[G, most], the values of each gap, and int64[G], their number.
        strides, first: in the result variable v begins at ``first[v]``, and consecutive values of gap g are
            ``strides[v, g]`` cells from each other.
    """

    codes: Ints
    gaps: Ints
    live: Ints
    sizes: Ints
    strides: Ints
    first: Ints


class WeighedCompletions(NamedTuple):
    """All ways to fill the gaps of an event.

    Attributes:
        number: number of worlds; 0 if a gap has no possible value.
        ways: the worlds as arrays.
        cells: for each variable v whose family's gaps all have values: v, and the codes of the family for
            each way to fill its gaps.
    """

    number: int
    ways: Completions
    cells: list[tuple[int, list[tuple[int, ...]]]]

    @classmethod
    def from_codes(
        cls,
        families: Sequence[tuple[int, ...]],
        known: Mapping[int, int],
        values: Mapping[int, tuple[int, ...]],
    ) -> Self:
        """Enumerate the worlds of an event from its known codes and the possible values of each gap."""
        gaps = list(values)
        live = np.zeros((len(gaps), max(map(len, values.values()), default=0)), dtype=np.int64)
        for g, u in enumerate(gaps):
            live[g, : len(values[u])] = values[u]
        strides, cells = np.zeros((len(families), len(gaps)), dtype=np.int64), []
        for v, family in enumerate(families):
            own = [u for u in family if u in values]
            for i, u in enumerate(own):
                strides[v, gaps.index(u)] = math.prod(len(values[w]) for w in own[i + 1 :])
            if all(values[u] for u in own):
                cells.append((v, list(product(*(values.get(u) or (known[u],) for u in family)))))
        sizes = [len(values[u]) for u in gaps]
        first = np.cumsum([0, *(len(ways) for _, ways in cells)])
        codes = np.array([known.get(v, 0) for v in range(len(families))], dtype=np.int64)
        places, lengths = np.array(gaps, dtype=np.int64), np.array(sizes, dtype=np.int64)
        return cls(math.prod(sizes), Completions(codes, places, live, lengths, strides, first), cells)

    def weighed(self, tables: FamilyTables, smoothed: SmoothedNetwork) -> list[list[float]] | None:
        """Return the probability of each cell, or None if declared tables exclude every world."""
        _, found = self._weighed(tables, smoothed)
        shares = found.tolist()
        return [shares[a:b] for a, b in pairwise(self.ways.first.tolist())] if any(shares) else None

    def drawn(self, tables: FamilyTables, smoothed: SmoothedNetwork, u: float) -> dict[int, int] | None:
        """Return the codes of the gaps in the world drawn by a uniform `u`, or None if all are excluded."""
        chances, _ = self._weighed(tables, smoothed)
        if not chances.any():
            return None
        reached = np.cumsum(chances)
        rest, found = int(np.searchsorted(reached, u * reached[-1], side="right")), {}
        for g, v in enumerate(self.ways.gaps.tolist()):
            rest, digit = divmod(rest, int(self.ways.sizes[g]))
            found[v] = int(self.ways.live[g, digit])
        return found

    def _weighed(self, tables: FamilyTables, smoothed: SmoothedNetwork) -> tuple[Floats, Floats]:
        """Return the probability of each world, and of each cell; all 0 if every world is excluded."""
        first = self.ways.first
        logs, found = np.zeros(self.number), np.zeros(first[-1])
        fine = tables.fine if tables.fine.size else np.zeros_like(tables.shape.counts)
        misses, chances = np.zeros(self.number, dtype=np.int64), np.zeros(self.number)
        _weigh(tables.shape, smoothed, fine, 1.0 / FINE, self.ways, (logs, misses, chances), found)
        return chances, found


@kernel
def _weigh(shape: Any, smoothed: Any, fine: Any, step: float, ways: Any, scratch: Any, found: Any) -> None:
    """Add the probability of each way to fill the gaps of each family to `found`.

    The effective count of a cell is its count in `shape` plus `step` times its count in `fine`. `scratch` has
    an entry for each world: log probability, number of impossible factors, and share.
    """
    logs, misses, shares = scratch
    codes, gaps, live, sizes = ways.codes, ways.gaps, ways.live, ways.sizes
    strides, first = ways.strides, ways.first
    for w in range(logs.size):
        rest = w
        for g in range(gaps.size):  # decode world w
            codes[gaps[g]] = live[g, rest % sizes[g]]
            rest //= sizes[g]
        logs[w], misses[w] = 0.0, 0
        for v in range(shape.capacity.size):
            _multiply_by(shape, smoothed, fine, step, codes, v, w, logs, misses)
    normalise(logs, misses, shares)
    for w in range(logs.size):
        for v in range(shape.capacity.size):
            at, rest = first[v], w
            for g in range(gaps.size):
                at += strides[v, g] * (rest % sizes[g])
                rest //= sizes[g]
            found[at] += shares[w]


@inlined
def _multiply_by(
    shape: Any, smoothed: Any, fine: Any, step: float, codes: Any, v: int, w: int, logs: Any, misses: Any
) -> None:
    """Multiply a world by P(v | parents); count the factors alpha with alpha = 0."""
    begin = shape.offset[v] + row_of(shape, codes, v, -1) * shape.capacity[v]
    total = 0.0
    for cell in range(begin, begin + shape.capacity[v]):
        total += shape.counts[cell] + step * fine[cell]
    cell = begin + codes[v]
    count = shape.counts[cell] + step * fine[cell]
    given = smoothed.given[cell] if smoothed.how[v] == GIVEN_TABLE else 0.0
    factor, is_miss = smoothed_factor(smoothed.how[v], smoothed.amount[v], given, count, total, shape.live[v])
    misses[w] += is_miss
    logs[w] += math.log(factor) if factor > 0.0 else -math.inf
