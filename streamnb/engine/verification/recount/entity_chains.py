"""Chains of entities, counted again by dictionaries: where each stands, and which label followed which.

What is believed of an entity whose last event had no label is a sum that a replay gives; it is not counted.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from streamnb.events import Event
from streamnb.model.attributes.expected import named
from streamnb.model.attributes.signatures import Array
from streamnb.model.attributes.weights import UNIT
from streamnb.model.hidden_markov.entities import Entities
from streamnb.model.hidden_markov.hidden_markov_nb import ENTITIES, TRANSITIONS, HiddenMarkovNB
from streamnb.model.hidden_markov.transitions import Transitions
from streamnb.model.naive_bayes.counting_model import CountingModel

BELIEFS = f"{ENTITIES}beliefs"
"""An array of a model's state that depends on logarithms."""


class ChainPlan(NamedTuple):
    """How chains are kept; see `HiddenMarkovNB`.

    Attributes:
        entity: the attribute that names an entity.
        entities: how many are kept.
        time_to_live: seconds after which one begins anew; 0 is never.
    """

    entity: str
    entities: int
    time_to_live: float

    @classmethod
    def of(cls, model: CountingModel) -> ChainPlan | None:
        """That of a model; None where it has no chains."""
        if not isinstance(model, HiddenMarkovNB):
            return None
        return cls(str(model.entity), model.entities, model.time_to_live)


class _Stand(NamedTuple):
    """Where a chain stands: its last label, and the latest time of its events; None where it is not known."""

    last: str | None
    seen: float | None


class ChainRecount:
    """Counts of chains, in units of 1/1024 example.

    Attributes:
        entities: name -> where it stands, the one not seen the longest first.
        first: label -> weight of the sequences that began with it.
        table: (label, the one after it) -> weight.
    """

    def __init__(self) -> None:
        self.entities: dict[str, _Stand] = {}
        self.first: Counter[str] = Counter()
        self.table: Counter[tuple[str, str]] = Counter()

    def take(self, event: Event, weight: int, plan: ChainPlan) -> None:
        """Go on with the chain of one event."""
        label = event.label if weight else None
        name = event.x.get(plan.entity)
        before = None if name is None else self.entities.pop(str(name), None)
        stand = None if before is None or _is_old(before, event, plan) else before
        if label is not None:
            if stand is None:
                self.first[label] += weight
            elif stand.last is not None:
                self.table[stand.last, label] += weight
        if name is None:
            return
        if len(self.entities) == plan.entities:
            del self.entities[next(iter(self.entities))]
        times = [t for t in (event.ts, None if stand is None else stand.seen) if t is not None]
        self.entities[str(name)] = _Stand(label, max(times, default=None))

    @classmethod
    def of_state(cls, meta: Mapping[str, Any], arrays: Mapping[str, Array]) -> ChainRecount | None:
        """Those of a model's state; None where it has none. Raises SnapshotError where they are none."""
        if "chains" not in meta:
            return None
        labels = [str(label) for label in meta["classes"]]
        counted = Transitions.from_state({"states": len(labels)}, named(arrays, TRANSITIONS))
        kept = named(arrays, ENTITIES)
        entities = Entities.from_state(kept, max(1, len(kept["last"])), len(labels))
        found = cls()
        for name, row in entities.rows.items():
            last, seen = int(entities.last[row]), float(entities.seen[row])
            found.entities[name] = _Stand(
                None if last < 0 else labels[last], None if math.isnan(seen) else seen
            )
        for i, label in enumerate(labels):
            found.first[label] = int(counted.first[i])
            for j, after in enumerate(labels):
                found.table[label, after] = int(counted.table[i, j])
        return found


def _is_old(stand: _Stand, event: Event, plan: ChainPlan) -> bool:
    """Whether more than the time to live has gone by; none has where a time is not known."""
    if not plan.time_to_live or stand.seen is None or event.ts is None:
        return False
    return event.ts - stand.seen > plan.time_to_live


def compare_chains(
    counted: ChainRecount | None,
    learned: ChainRecount | None,
    differs: Callable[[str, Mapping[str, str | int], Any, Any], None],
) -> int:
    """Tell all that differs; how many counts above zero are equal."""
    if learned is None:
        if counted is not None:
            differs("chains of entities", {}, "some", "none")
        return 0
    counted = counted or ChainRecount()
    equal = 0
    for label in sorted({*counted.first, *learned.first}):
        equal += _same(
            "sequences begun", {"class": label}, counted.first[label], learned.first[label], differs
        )
    for pair in sorted({*counted.table, *learned.table}):
        place = {"class": pair[0], "followed by": pair[1]}
        equal += _same("transitions", place, counted.table[pair], learned.table[pair], differs)
    if counted.entities.keys() != learned.entities.keys():
        only = min(counted.entities.keys() ^ learned.entities.keys())
        sides = ["kept" if only in side.entities else "not kept" for side in (counted, learned)]
        differs("chain", {"entity": only}, *sides)
    elif list(counted.entities) != list(learned.entities):
        differs("order in which entities were seen", {}, "that of the events", "another")
    for name, stand in counted.entities.items():
        other = learned.entities.get(name, stand)
        if stand.last != other.last:
            differs("last label", {"entity": name}, stand.last, other.last)
        if stand.seen != other.seen:
            differs("latest time", {"entity": name}, stand.seen, other.seen)
    return equal


def _same(
    what: str,
    place: Mapping[str, str | int],
    counted: int,
    learned: int,
    differs: Callable[[str, Mapping[str, str | int], Any, Any], None],
) -> int:
    """Whether two counts are equal and above zero; it is told where they differ."""
    if counted != learned:
        differs(what, place, counted / UNIT, learned / UNIT)
        return 0
    return int(counted != 0)
