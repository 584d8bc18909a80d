"""Recount what was learned by plain addition: dictionaries, integers and fractions.

The recount shares only the decoding of events with the learner: no kernel, no vocabulary, no array. A row is
a word of a text or a value of a nominal attribute. Rows keep the order of their first occurrence.
"""

from __future__ import annotations

import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from streamnb.engine.settings import ROOM_EVERY, Pruning, Settings
from streamnb.events import Event
from streamnb.features.attributes import Nominal, Text
from streamnb.features.character_table import normalized
from streamnb.features.plain_words import plain_words
from streamnb.models.interface.stream_model import StreamModel
from streamnb.models.naive_bayes.counting_model import CountingModel
from streamnb.models.naive_bayes.naive_bayes_classifier import SmoothedModel
from streamnb.models.tenants.tenant_models import TenantModels
from streamnb.statistics.count_sources import Sources
from streamnb.statistics.memory_budget import KEPT, MemoryBudget
from streamnb.values.attribute_kinds import BERNOULLI, CONTINUOUS, MULTINOMIAL, NOMINAL
from streamnb.values.example_weights import UNIT
from streamnb.values.nominal_values import LARGEST
from streamnb.verification.exact.exact_moments import ExactMoments

Group = tuple[int, str]
"""Kind (multinomial, Bernoulli or nominal) and name of a discrete attribute."""
Row = tuple[Group, str]
Values = Mapping[str, str | float | bool]
"""Attribute -> value."""
_CELL = 15  # bytes
_OF_TENANTS = 4096  # docs/tenants.md, "Memory"


def in_units(weight: float) -> int:
    """Return a weight in units of 1/1024 example; one above zero is a unit at least."""
    return max(1, round(weight * UNIT)) if weight > 0.0 else 0


@dataclass(frozen=True)
class RecountPlan:
    """Decoding and counting of events under one configuration.

    Attributes:
        settings: settings of the learner.
        kinds: declared attribute -> its kind.
        sources: counts in addition to words and values.
        entity: attribute with the chain or tenant of an event, which is not counted; None if there is none.
        room: limits of rows, attributes and classes; None is unlimited.
        own: plan for the events of one tenant; None if there is one model.
        tenants: number of tenants with a model of their own.
        shares: True if a shared model of all tenants is counted, too.
    """

    settings: Settings
    kinds: Mapping[str, int]
    sources: Sources = field(default_factory=Sources)
    entity: str | None = None
    room: MemoryBudget | None = None
    own: RecountPlan | None = None
    tenants: int = 0
    shares: bool = False

    @classmethod
    def of_model(cls, settings: Settings, model: StreamModel) -> RecountPlan:
        """Return the plan of a learner with these settings and the parameters of this model.

        The plan excludes parts of a model that are not tables of counts.
        """
        if isinstance(model, TenantModels):
            alone, shared = cls.of_model(settings, model.tenant()), model.shared
            return replace(
                alone,
                entity=str(model.entity),
                room=None if shared is None else shared.statistics.room,
                own=alone,
                tenants=model.tenants,
                shares=shared is not None,
            )
        if not isinstance(model, CountingModel):
            return cls(settings, {})
        is_bernoulli = isinstance(model, SmoothedModel) and model.event_model == "bernoulli"
        usual = BERNOULLI if is_bernoulli else MULTINOMIAL
        kinds = {}
        for name, spec in model.declared.items():
            if isinstance(spec, Text):
                own = spec.event_model
                kinds[name] = usual if own is None else BERNOULLI if own == "bernoulli" else MULTINOMIAL
            else:
                kinds[name] = NOMINAL if isinstance(spec, Nominal) else CONTINUOUS
        entity = None if model.entity is None else str(model.entity)
        return cls(settings, kinds, model.statistics.sources, entity, model.statistics.room)

    def kind(self, name: str, value: str | float | bool) -> int:  # noqa: FBT001
        """Return the kind of an attribute; the value's type determines it if the attribute is undeclared."""
        undeclared = NOMINAL if isinstance(value, (str, bool)) else CONTINUOUS
        return self.kinds.get(name, undeclared)

    def attributes(self, classes: int) -> int:
        """Return the maximum number of discrete, or of continuous, attributes with `classes` classes."""
        most = sys.maxsize if self.own is None else _OF_TENANTS
        return most if self.room is None else min(most, self.room.attributes(classes))


class LabelChange(NamedTuple):
    """Weight of a label in units; a negative weight unlearns an event learned after `prunings` prunings."""

    label: str
    weight: int
    plan: RecountPlan
    prunings: int | None = None


class Recount:
    """Counts of everything that a naive Bayes model learns, in units of 1/1024 example.

    Attributes:
        consumed: records of all kinds.
        dead_letters: records that are not valid events.
        events: events learned, minus events unlearned.
        met: events that were predicted, including those learned later.
        unlearned: number of times that events were unlearned.
        corrected: number of times that events without effect on hypotheses were learned again.
        prunings: number of prunings.
        classes: class -> weight.
        rows: (group, word or value) -> class -> weight, in order of first occurrence.
        totals: group -> class -> words, texts (Bernoulli) or events that have it (nominal).
        stopped: words that are never counted again.
        moments: (continuous attribute, class) -> sums.
        sources: the additional counts below.
        presence: (group, word) -> class -> texts that hold the word.
        texts: group of texts -> class -> texts.
    """

    def __init__(self) -> None:
        self.consumed = self.dead_letters = self.events = self.met = 0
        self.unlearned = self.corrected = self.prunings = 0
        self._born: dict[Row, int] = {}  # after how many prunings a row was met, where after any
        self._room: MemoryBudget | None = None
        self._changed = 0  # after how many prunings there was this room; it counts as one itself
        self._since: dict[Group, int] = {}  # the same of an attribute, when it was met
        self.classes: dict[str, int] = defaultdict(int)
        self.rows: dict[Row, dict[str, int]] = {}
        self.totals: dict[Group, dict[str, int]] = {}
        self.stopped: set[Row] = set()
        self.moments: dict[tuple[str, str], ExactMoments] = defaultdict(ExactMoments)
        self._groups: dict[Group, Group] = {}  # so that the rows of a group share one object
        self.presence: dict[Row, dict[str, int]] = {}
        self.texts: dict[Group, dict[str, int]] = defaultdict(lambda: defaultdict(int))
        self.sources = Sources()
        self.fields: set[str] = set()  # continuous attributes that are known
        self.held = 0  # capacity is reserved for known classes and for classes of the current record
        self._long_bytes = 0  # words longer than a cell, including stopped ones

    def begin_with(self, fields: Iterable[str]) -> None:
        """Begin with the rows that there are, and with these continuous attributes."""
        self.fields.update(fields)
        self._long_bytes = sum(map(_long, [*self.rows, *self.stopped]))

    def take(self, event: Event | None, plan: RecountPlan) -> None:
        """Count one record; None is a record that is not a valid event."""
        self.consumed += 1
        if event is None or not self.admits({event.label}, plan):
            self.dead_letters += 1
            return
        self.met += 1
        weight = in_units(event.weight)
        if event.label is None or weight == 0:
            return
        self.learn(event, event.label, weight, plan)
        every = plan.settings.pruning.every
        if every and self.events % every == 0:
            self.prune(plan.settings.pruning)
        if self.events % ROOM_EVERY == 0:
            self.evict(len(self.classes), plan)

    def admits(self, labels: set[str | None], plan: RecountPlan) -> bool:
        """Return True if the class limit admits these labels; evict rows to admit new ones."""
        new = labels - self.classes.keys() - {None}
        classes, most = len(self.classes) + len(new), plan.settings.max_classes or sys.maxsize
        if plan.room is not None:
            most = min(most, plan.room.classes(len(self._groups) + len(self.fields)))
        if new and classes > most:
            return False
        if new:
            self.evict(classes, plan)
        self.held = classes
        return True

    def change_budget(self, plan: RecountPlan) -> None:
        """Note a changed memory budget, which counts as a pruning: earlier events have no later rows."""
        if plan.room != self._room and self.consumed:
            self.prunings += 1
            self._changed = self.prunings
        self._room = plan.room

    def evict(self, classes: int, plan: RecountPlan) -> None:
        """Evict, if capacity is short, long words above their limit, then the lightest and oldest rows."""
        room = plan.room
        if room is None or not room.is_short(len(self.rows) + len(self.stopped), self._long_bytes, classes):
            return
        self.prunings += 1
        left = int(KEPT * room.long_bytes) - sum(map(_long, self.stopped))
        kept = []
        for row in sorted(self.rows, key=lambda row: sum(self.rows[row].values()))[::-1]:
            left -= _long(row)
            if left >= 0 or not _long(row):
                kept.append(row)
        kept = kept[: max(0, int(KEPT * room.rows(classes)) - len(self.stopped))]
        stays = {row for row in kept if sum(self.rows[row].values())}
        for row in [row for row in self.rows if row not in stays]:
            self._drop(row)

    def learn(self, event: Event, label: str, weight: int, plan: RecountPlan) -> None:
        """Count what an event teaches with this label and weight."""
        if not weight:
            return
        if not self.events:
            self.sources = plan.sources
        self.teach(event.x, LabelChange(label, weight, plan))

    def unlearn(self, event: Event, label: str, weight: int, plan: RecountPlan, prunings: int) -> None:
        """Unlearn an event learned after `prunings` prunings; rows evicted since are not subtracted again."""
        if not weight:
            return
        self.unlearned += 1
        self.teach(event.x, LabelChange(label, -weight, plan, prunings))

    def count_event(self, change: LabelChange) -> None:
        """Count an event, whatever it has, or count it no more."""
        self.events += 1 if change.prunings is None else -1
        self.classes[change.label] += change.weight

    def teach(self, x: Values, change: LabelChange) -> None:
        """Count an event with all that it has; of what is taken back, the words that were there then."""
        self.count_event(change)
        label, weight, plan, _ = change
        for name, value in self.counted(x, change).items():
            kind = plan.kind(name, value)
            if kind == CONTINUOUS:
                self.moments[name, label].add(min(max(float(value), -LARGEST), LARGEST), weight)
                if not self.moments[name, label].n:
                    del self.moments[name, label]
            else:
                group = self.group(kind, name)
                words = [as_text(value)] if kind == NOMINAL else plain_words(normalized(str(value)))
                self._count(group, words, change)

    def counted(self, x: Values, change: LabelChange) -> Values:
        """Return the attributes that are counted, and register new ones."""
        counted = {}
        for name, value in x.items():
            kind = change.plan.kind(name, value)
            if name == change.plan.entity or not self._is_counted((kind, name), change.plan, change.prunings):
                continue
            if kind == CONTINUOUS:
                self.fields.add(name)
            else:
                self.group(kind, name)
            counted[name] = value
        return counted

    def _is_counted(self, attribute: Group, plan: RecountPlan, prunings: int | None) -> bool:
        """Return True if there is, or was at the time of an unlearned event, capacity for an attribute."""
        kind, name = attribute
        is_number = kind == CONTINUOUS
        is_known = name in self.fields if is_number else attribute in self._groups
        if prunings is not None:
            return is_known and self._since.get(attribute, 0) <= prunings
        there = len(self.fields if is_number else self._groups)
        if is_known or there >= plan.attributes(self.held):
            return is_known
        if self._changed:
            self._since[attribute] = self._changed
        return True

    def group(self, kind: int, name: str) -> Group:
        """Return the shared object of a group, and create its totals."""
        group = self._groups.setdefault((kind, name), (kind, name))
        self.totals.setdefault(group, defaultdict(int))
        return group

    def _count(self, group: Group, words: Sequence[str], change: LabelChange) -> None:
        label, weight, plan, prunings = change
        kind, _ = group
        if kind == BERNOULLI:
            self.totals[group][label] += weight
        counts_presence = self.sources.presence and kind != NOMINAL
        if counts_presence:
            self.texts[group][label] += weight
        for word, times in Counter(words).items():
            row = (group, word)
            if row in self.stopped or (prunings is not None and not self._held(row, prunings)):
                continue
            if row not in self.rows and not self._fits(row, plan):
                continue
            more = weight if kind == BERNOULLI else times * weight
            counts = self.rows.get(row) or self._row(row)
            counts[label] = counts.get(label, 0) + more
            if kind != BERNOULLI:
                self.totals[group][label] += more
            if counts_presence:
                texts = self.presence.setdefault(row, {})
                texts[label] = texts.get(label, 0) + weight

    def _fits(self, row: Row, plan: RecountPlan) -> bool:
        room = plan.room
        return room is None or (
            len(self.rows) + len(self.stopped) < room.rows(self.held)
            and (not _long(row) or self._long_bytes + _long(row) <= room.long_bytes)
        )

    def _row(self, row: Row) -> dict[str, int]:
        self._long_bytes += 0 if row in self.rows else _long(row)
        if self.prunings and row not in self.rows:
            self._born[row] = self.prunings
        return self.rows.setdefault(row, {})

    def _held(self, row: Row, prunings: int) -> bool:
        return row in self.rows and self._born.get(row, 0) <= prunings

    def prune(self, pruning: Pruning) -> None:
        """Forget words of texts.

        Words are ranked by their count over all classes, the first met before others of the same count. The
        first `drop_most_frequent` are stopped for good; of the rest those below `min_count` go, and then the
        last until `max_attributes` words and values are left. A forgotten word that comes again is a new one.
        """
        self.prunings += 1
        counts = {row: sum(by_class.values()) for row, by_class in self.rows.items()}
        words = [row for row, count in counts.items() if row[0][0] != NOMINAL and count > 0]
        values = sum(row[0][0] == NOMINAL and count > 0 for row, count in counts.items())
        ranked = sorted(words, key=lambda row: -counts[row])  # a stable sort
        stopped, rest = ranked[: pruning.drop_most_frequent], ranked[pruning.drop_most_frequent :]
        kept = [row for row in rest if counts[row] >= pruning.min_count * UNIT]
        if pruning.max_attributes is not None:
            kept = kept[: max(0, pruning.max_attributes - values)]
        gone = [*stopped, *(set(rest) - set(kept)), *(row for row, count in counts.items() if not count)]
        for row in gone:
            self._drop(row)
        self.stopped.update(stopped)
        self._long_bytes += sum(map(_long, stopped))

    def _drop(self, row: tuple[Group, str]) -> None:
        group, _ = row
        self.presence.pop(row, None)
        self._born.pop(row, None)
        self._long_bytes -= _long(row)
        for label, count in self.rows.pop(row).items():
            if group[0] != BERNOULLI:  # whose totals are texts
                self.totals[group][label] -= count


def _long(row: Row) -> int:
    """Return the bytes of a row outside its cell of 16, of which one holds the length."""
    n_bytes = len(row[1].encode())
    return n_bytes if n_bytes > _CELL else 0


def as_text(value: str | float | bool) -> str:  # noqa: FBT001
    """Return a nominal value as text: true, 3 (also for 3.0), 0.5, or the string itself."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(int(value)) if float(value).is_integer() else repr(float(value))


_NOBODY = ""  # whose events name no tenant, or one too many


class TenantRecount(Recount):
    """Recount for each tenant, in order of first occurrence, and of the shared model if there is one."""

    def __init__(self) -> None:
        super().__init__()
        self.tenants: dict[str, Recount] = {}

    @classmethod
    def for_model(cls, model: StreamModel) -> Recount:
        """Return an empty recount for this kind of model."""
        return cls() if isinstance(model, TenantModels) else Recount()

    def teach(self, x: Values, change: LabelChange) -> None:
        """Count an event, and what it has for its own tenant."""
        plan, counted = change.plan, self.counted(x, change)
        name = self._tenant(x, plan)
        if (own := self.tenants.get(name)) is None:
            own = self.tenants[name] = Recount()
            own.sources = plan.sources
        own.teach(counted, change._replace(plan=plan.own or plan))
        if plan.shares:
            super().teach(x, change)
        else:
            self.count_event(change)

    def _tenant(self, x: Values, plan: RecountPlan) -> str:
        """Return the tenant whose model learns an event; tenants above the limit have none."""
        value = None if plan.entity is None else x.get(plan.entity)
        name = _NOBODY if value is None else as_text(value)
        has_place = len(self.tenants) - (_NOBODY in self.tenants) < plan.tenants
        return name if name in self.tenants or has_place else _NOBODY
