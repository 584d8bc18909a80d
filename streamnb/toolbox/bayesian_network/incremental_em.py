"""Incremental EM: a Bayesian network that also learns from events with gaps.

A complete event is counted. The gaps of any other event are filled by expectation:

    E   P(Y_i, pa(Y_i) | known values of the event), for each variable and its parents
    M   the tables count the event accordingly: units of 2^-30 in each cell, which sum to its weight

**Incremental EM** (Neal and Hinton 1998): the expected counts of one event may be removed from the tables and
replaced under the current network. Every such step raises the free energy that EM climbs, or leaves it. A set
of events that is revisited until nothing changes is a fixed point of batch EM: no step would change a cell by
2^-30 example for each event in it. Here each event is counted on arrival, and the events of a window are
revisited in turn. An event that leaves the window keeps its last expected counts, or is removed, depending on
`keeps`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import accumulate, pairwise
from typing import Any, Literal, NamedTuple, Protocol, Self

import numpy as np

from streamnb.errors import SnapshotError, UnlearnError
from streamnb.toolbox.bayesian_network.completions import WeighedCompletions
from streamnb.toolbox.bayesian_network.family_counts import FINE
from streamnb.toolbox.bayesian_network.network import BayesianNetwork
from streamnb.toolbox.bayesian_network.network_kernels import NetworkArrays, SmoothedNetwork
from streamnb.toolbox.semi_supervised.em_window import EventWindow, WindowEvent, apportioned, as_plain
from streamnb.values.example_weights import units
from streamnb.values.nominal_values import as_event
from streamnb.values.parameter_checks import check_whole
from streamnb.values.savable import Savable
from streamnb.values.state_validation import check_made, checked, count, counts, named, state_errors
from streamnb.values.type_aliases import Array, State

MOST_WORLDS = 1 << 12
"""Maximum number of ways to fill the gaps of an event by enumeration; beyond it elimination."""
_PATTERNS, _FEW = 256, 64  # cached patterns of gaps, and the maximum number of ways of a cached one
_NETWORK, _KEPT = "network_", "kept_"  # prefixes of the names of arrays in a state

Parts = tuple["NetworkPart", ...]


class NetworkPart(NamedTuple):
    """Expected count of an event in one cell.

    Attributes:
        variable: variable of the table.
        codes: codes of its parents, and its own.
        weight: expected count in units of 2^-30 example.
    """

    variable: int
    codes: tuple[int, ...]
    weight: int


class FilledCells(Protocol):
    """A rule for the cells in which an event with gaps is counted."""

    sets_aside: bool
    """True if an event must not count in the tables while its cells are computed again."""

    def of_event(self, row: Sequence[int]) -> list[tuple[int, list[tuple[tuple[int, ...], float]]]]:
        """Return, for each variable, cells of an event in its table, with their shares of the event.

        The event is given by its codes, -1 for a gap. The shares of each table sum to 1. A variable whose
        family contains a variable without values is omitted. The result is empty if declared tables exclude
        the event.
        """


class ExpectedCells:
    """Expected cells of events with gaps in a network that is learned meanwhile.

    Invariant: the probabilities of the cells of each table sum to 1, and enumeration and elimination agree.
    """

    sets_aside = False

    def __init__(self, network: BayesianNetwork) -> None:
        self._network, self._tables = network, network.counted
        self._smoothed_for: NetworkArrays | None = None  # layout of the tables for which `_smoothed` holds
        self._worlds: dict[Any, WeighedCompletions] = {}  # cached ways to fill gaps, by pattern

    @property
    def smoothing(self) -> SmoothedNetwork:
        """Smoothing of the tables, for kernels."""
        if self._smoothed_for is not self._tables.shape:
            self._smoothed_for = self._tables.shape
            self._smoothed = self._network.smoothed()
        return self._smoothed

    def of_event(self, row: Sequence[int]) -> list[tuple[int, list[tuple[tuple[int, ...], float]]]]:
        """Return the possible cells of an event with their probabilities; see `FilledCells`."""
        known, worlds = self.completions(row)
        if 0 < worlds.number <= MOST_WORLDS:
            shares = worlds.weighed(self._tables, self.smoothing)
        elif self._network.inference.log_probability(known)[0] == -math.inf:
            shares = None
        else:
            asked = (tuple(u for u in self._tables.family(v) if u not in known) for v, _ in worlds.cells)
            shares = [self._network.inference.shares(numbers, known).ravel().tolist() for numbers in asked]
        if shares is None:
            return []
        found = zip(worlds.cells, shares, strict=True)
        return [(v, list(zip(cells, own, strict=True))) for (v, cells), own in found]

    def completions(self, row: Sequence[int]) -> tuple[dict[int, int], WeighedCompletions]:
        """Return the known codes of an event, and all ways to fill its gaps."""
        known = {v: code for v, code in enumerate(row) if self._tables.is_known(v, code)}
        gaps = [v for v in range(len(self._tables.dag)) if v not in known]
        values = {v: tuple(np.flatnonzero(self._tables.is_live(v)).tolist()) for v in gaps}
        key = tuple(known.items()), tuple(values.values())
        worlds = self._worlds.get(key)
        if worlds is None:
            worlds = WeighedCompletions.from_codes(
                [self._tables.family(v) for v in range(len(self._tables.dag))], known, values
            )
            if len(self._worlds) == _PATTERNS:
                self._worlds.clear()
            if worlds.number <= _FEW:
                self._worlds[key] = worlds
        return known, worlds


class NetworkEM(Savable):
    """A `BayesianNetwork` that learns from events with gaps by incremental expectation maximisation.

    A variable that is never observed (a latent one) needs declared values, and an initial table with
    different rows. Otherwise its values would stay indistinguishable.

    The result depends on the order of events; it is exact under replay, and after restoring a state.

    Args:
        network: network to train in place; its earlier counts stay.
        window: number of the newest events with gaps that EM revisits. 0 is online EM: each is counted once.
        revisits: number of events of the window to recount after each event, in turn, the oldest first.
        keeps: what remains of an event that leaves the window: "counts" keeps its last expected counts,
            "nothing" removes them.

    Raises:
        ValueError: if a parameter is out of range.

    Examples:
        Two coins of a pair tend to fall the same way; in one pair the second was not seen:

        >>> from streamnb import BayesianNetwork, NetworkEM
        >>> model = NetworkEM(BayesianNetwork({"first": [], "second": ["first"]}, alpha=0))
        >>> for first, second in [("H", "H"), ("H", "H"), ("H", "T"), ("T", "T"), ("H", None)]:
        ...     model.learn_one({"first": first, "second": second})
        >>> round(model.network.probability({"first": "H", "second": "H"}), 3)  # 4/5 2/3
        0.533

    References:
        Dempster, Laird and Rubin (1977), JRSS B 39(1); Lauritzen (1995), "The EM algorithm for graphical
        association models with missing data"; Neal and Hinton (1998), "A view of the EM algorithm that
        justifies incremental, sparse, and other variants".
    """

    def __init__(
        self,
        network: BayesianNetwork,
        window: int = 200,
        revisits: int = 1,
        keeps: Literal["counts", "nothing"] = "counts",
    ) -> None:
        for name, number in (("window", window), ("revisits", revisits)):
            check_whole(name, number, 0)
        if keeps not in {"counts", "nothing"}:
            raise ValueError(f"keeps must be 'counts' or 'nothing', not {keeps!r}")
        self.network, self.window, self.revisits = network, window, revisits
        self.keeps = keeps
        self._cells: FilledCells = ExpectedCells(network)
        self._kept = EventWindow()
        self._parts: list[Parts] = []  # expected counts of each kept event
        self.n_incomplete = 0
        """Number of events with gaps that were learned, less those unlearned."""

    @property
    def n_kept(self) -> int:
        """Number of events in the window."""
        return len(self._kept)

    def learn_one(self, x: Mapping[Any, Any], w: float = 1.0) -> None:
        """Learn an event `w` times (steps of 1/1024), fill its gaps, and revisit events; or raise."""
        weight = units(w)
        row = self.network.encoded(x, adds=weight > 0)
        if weight and min(row, default=0) >= 0:
            self.network.learn_one(x, w)
        elif weight:
            self._learn_incomplete(x, row, weight)
        self.revisit(self.revisits)

    def revisit(self, n: int | None = None) -> float:
        """Recount up to `n` events of the window, by default all; return the number of units that moved.

        Units are 1/1024 example, and the result is a multiple of 2^-20 of them. If a round through all events
        moves nothing, EM has converged: a step of batch EM would change no cell by 2^-30 example for each
        event in it.
        """
        moved = 0
        for _ in range(len(self._kept) if n is None else min(n, len(self._kept))):
            index, event = self._kept.next()
            aside = self._parts[index] if self._cells.sets_aside else ()
            self.network.counted.recount(aside, ())
            parts = self._expected(self.network.encoded(event.x, adds=False), event.weight)
            self.network.counted.recount((), aside)
            moved += self.network.counted.recount(self._parts[index], parts)
            self._parts[index] = parts
        return moved / FINE

    def unlearn_one(self, x: Mapping[Any, Any], w: float = 1.0) -> None:
        """Undo ``learn_one(x, w)``; the effect it had on the expected counts of other events stays.

        Raises UnlearnError, and changes nothing, if the event was never learned, or has gaps and has left the
        window: its expected counts are then unknown.
        """
        weight = units(w)
        if not weight:
            return
        row = self.network.encoded(x, adds=False)
        index = self._kept.find(as_plain(self._own(x)), weight)
        if index is not None:
            self._take_out(index)
            self.n_incomplete -= 1
        elif min(row, default=0) >= 0:
            self.network.unlearn_one(x, w)
        else:
            raise UnlearnError(f"no event with these gaps, of weight {w}, is in the window")

    def state(self) -> State:
        """Return all that was learned, and the kept events: JSON-able values, and arrays."""
        network_meta, network_arrays = self.network.state()
        kept_meta, kept_arrays = self._kept.state(0)
        meta = {
            "type": type(self).__name__,
            "window": self.window,
            "keeps": self.keeps,
            "incomplete": self.n_incomplete,
            "fine": FINE,
            "network": network_meta,
            "kept": kept_meta,
        }
        flat = [part for parts in self._parts for part in parts]
        rows = {
            "part_ends": list(accumulate(map(len, self._parts))),
            "part_variables": [part.variable for part in flat],
            "part_weights": [part.weight for part in flat],
            "part_codes": [code for part in flat for code in part.codes],
        }
        return meta, {
            **{f"{_NETWORK}{name}": array for name, array in network_arrays.items()},
            **{f"{_KEPT}{name}": array for name, array in kept_arrays.items()},
            **{name: np.array(row, dtype=np.int64) for name, row in rows.items()},
        }

    def load_state(self, meta: Mapping[str, Any], arrays: Mapping[str, Array]) -> Self:
        """Replace all state by one with the same window; return self. Raises SnapshotError."""
        check_made(meta, type=type(self).__name__, window=self.window, keeps=self.keeps, fine=FINE)
        with state_errors("kept events of a network", ValueError):
            kept = EventWindow.from_state(meta["kept"], named(arrays, _KEPT), 0)
            incomplete = count(meta, "incomplete", least=len(kept))
            network_meta = meta["network"]
            sizes = [len(variable["values"]) for variable in network_meta["variables"]]
            held = {name: arrays[name] for name in _PARTS}
            checked(held, {name: counts(f"rows of {name}") for name in _PARTS})
            rows = {name: array.tolist() for name, array in held.items()}
            parts = self._read_parts(rows, sizes)
        if len(parts) != len(kept):
            raise SnapshotError(f"{len(kept)} kept events, {len(parts)} with parts")
        for event, cells in zip(kept, parts, strict=True):
            for v in {part.variable for part in cells}:
                if sum(part.weight for part in cells if part.variable == v) != event.weight * FINE:
                    raise SnapshotError(f"the parts of a kept event do not sum to its weight {event.weight}")
        self.network.load_state(network_meta, named(arrays, _NETWORK))
        self._kept, self._parts, self.n_incomplete = kept, parts, incomplete
        return self

    def _own(self, x: Mapping[Any, Any]) -> dict[Any, Any]:
        return {name: value for name, value in as_event(x).items() if name in self.network.parents}

    def _learn_incomplete(self, x: Mapping[Any, Any], row: Sequence[int], weight: int) -> None:
        _meet(self.network, row, weight)
        parts = self._expected(row, weight)
        self.network.counted.recount((), parts)
        self.n_incomplete += 1
        if self.window:
            self._kept.add(WindowEvent(as_plain(self._own(x)), weight, ()))
            self._parts.append(parts)
            if len(self._kept) > self.window:
                if self.keeps == "nothing":
                    self._take_out(0)
                else:
                    self._kept.take(0)
                    del self._parts[0]

    def _take_out(self, index: int) -> None:
        event = self._kept.take(index)
        self.network.counted.recount(self._parts.pop(index), ())
        _meet(self.network, self.network.encoded(event.x, adds=False), -event.weight)

    def _expected(self, row: Sequence[int], weight: int) -> Parts:
        """Return the cells in which an event is counted, with whole units in proportion to probability."""
        found = []
        for v, cells in self._cells.of_event(row):
            shares = apportioned(weight * FINE, [share for _, share in cells])
            pairs = zip(cells, shares, strict=True)
            found += [NetworkPart(v, codes, part) for (codes, _), part in pairs if part]
        return tuple(found)

    def _read_parts(self, rows: Mapping[str, list[int]], values: Sequence[int]) -> list[Parts]:
        """Return the parts of each kept event. Raises ValueError, IndexError or SnapshotError."""
        variables, weights = rows["part_variables"], rows["part_weights"]
        if len(variables) != len(weights):
            raise SnapshotError("the numbers of parts and of weights of kept events differ")
        families = [self.network.counted.family(v) for v in variables]
        ends, stops = [0, *accumulate(map(len, families))], [0, *rows["part_ends"]]
        if ends[-1] != len(rows["part_codes"]) or stops[-1] != len(variables) or stops != sorted(stops):
            raise SnapshotError("the ends of parts of kept events do not match their codes")
        known = [values[u] for family in families for u in family]
        if any(code >= size for code, size in zip(rows["part_codes"], known, strict=True)):
            raise SnapshotError("parts of kept events have unknown values")
        flat = [
            NetworkPart(v, tuple(rows["part_codes"][first:last]), weight)
            for v, weight, (first, last) in zip(variables, weights, pairwise(ends), strict=True)
        ]
        return [tuple(flat[first:last]) for first, last in pairwise(stops)]


_PARTS = ("part_ends", "part_variables", "part_weights", "part_codes")


def _meet(network: BayesianNetwork, row: Sequence[int], weight: int) -> None:
    """Count the values of an event, or remove them if `weight` (units) is negative; tables stay."""
    network.counted.meet(row, weight)
    network.n_events += 1 if weight > 0 else -1
