"""The numbers of attribute groups and continuous fields."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Mapping
from typing import Any, NamedTuple, Protocol

import numpy as np

from streamnb.errors import SnapshotError
from streamnb.kernels.array_types import Ints
from streamnb.statistics.counts import Counts
from streamnb.values.attribute_kinds import CONTINUOUS, KINDS
from streamnb.values.nominal_values import as_event
from streamnb.values.state_validation import checked_attributes, plain_attribute
from streamnb.values.type_aliases import Codes, Flags

Name = Hashable
_ANY = 1 << 62


class Numbering(Protocol):
    """Maps the items of a batch to groups, and its values to fields."""

    @property
    def kinds(self) -> Ints:
        """The kind of each group."""

    @property
    def has_bernoulli(self) -> bool:
        """True if any group is a Bernoulli text."""

    def groups_of(self, names: dict[Any, int], places: Codes, adds: Flags, ends: Ints) -> Codes:
        """Return the group of each item, -1 if unknown; see `numbers_of`. Event e ends at ends[e + 1]."""

    def fields_of(self, names: dict[Any, int], places: Codes, adds: Flags, ends: Ints) -> Codes:
        """Return the field of each value, -1 if unknown."""


class Layout:
    """Groups of rows and continuous fields, numbered in order of first occurrence.

    Attributes:
        groups: (kind, name) -> number, for the kinds of `counts`.
        fields: name of a continuous attribute -> number.
        most: the maximum number of groups and of fields; later ones stay unknown.
    """

    def __init__(self, counts: Counts) -> None:
        self.groups: dict[tuple[int, Name], int] = {}
        self.fields: dict[Name, int] = {}
        self.most = _ANY
        self._counts = counts

    @property
    def kinds(self) -> Ints:
        """The kind of each group."""
        return self._counts.kinds

    @property
    def has_bernoulli(self) -> bool:
        """True if any group is a Bernoulli text."""
        return self._counts.histograms.used.size > 0

    def group(self, group: tuple[int, Name], *, adds: bool) -> int:
        """Return the number of a (kind, name): with `adds` a new one if it is unknown, else -1."""
        number = self.groups.get(group, -1)
        if number < 0 and adds and len(self.groups) < self.most:
            number = self.groups[group] = self._counts.add_group(group[0])
        return number

    def field(self, name: Name, *, adds: bool) -> int:
        """Return the number of a continuous field: with `adds` a new one if it is unknown, else -1."""
        number = self.fields.get(name, -1)
        if number < 0 and adds and len(self.fields) < self.most:
            number = self.fields[name] = len(self.fields)
        return number

    def numbers_in(self, other: Layout, *, adds: bool) -> tuple[Codes, Codes]:
        """Return the numbers that groups and fields of another layout have here; as `group` and `field`."""
        groups = [self.group(group, adds=adds) for group in other.groups]
        fields = [self.field(name, adds=adds) for name in other.fields]
        return np.array(groups, dtype=np.int32), np.array(fields, dtype=np.int32)

    def within(
        self, x: Any, known: tuple[int, int], kind_of: Callable[[Any, Any], int], *, if_unknown: bool = True
    ) -> Any:
        """Return an event without the attributes that are not among the first `known` groups and fields.

        `if_unknown` keeps attributes without a number. `kind_of` returns the kind of a name and a value.
        """

        def is_within(name: Any, value: Any) -> bool:
            kind = kind_of(name, value)
            number = self.fields.get(name) if kind == CONTINUOUS else self.groups.get((kind, name))
            return if_unknown if number is None else number < known[kind == CONTINUOUS]

        return {name: value for name, value in as_event(x).items() if is_within(name, value)}

    def described(self) -> dict[str, Any]:
        """Return groups and fields as JSON can hold them."""
        groups = [[kind, plain_attribute(name)] for kind, name in self.groups]
        return {"groups": groups, "fields": [plain_attribute(name) for name in self.fields]}

    def load(self, described: Mapping[str, Any]) -> None:
        """Add the groups and fields that are `described`. Raises SnapshotError, or others, if invalid."""
        for kind, name in described["groups"]:
            if type(kind) is not int or kind not in KINDS:
                raise SnapshotError(f"groups: {kind!r} is not a kind of attribute")
            self.group((kind, *checked_attributes([name])), adds=True)
        for name in checked_attributes(described["fields"]):
            self.field(name, adds=True)

    def groups_of(self, names: dict[Any, int], places: Codes, adds: Flags, ends: Ints) -> Codes:
        """Return the group of each item; see `Numbering`."""
        return numbers_of(names, places, adds, self.group)

    def fields_of(self, names: dict[Any, int], places: Codes, adds: Flags, ends: Ints) -> Codes:
        """Return the field of each value; see `Numbering`."""
        return numbers_of(names, places, adds, self.field)


class TypesLearned(Protocol):
    """Types by which attributes were learned; implemented by `Layout` and `LearnedTypes`."""

    @property
    def groups(self) -> Collection[tuple[int, Any]]:
        """(kind, name) of texts and nominal attributes."""

    @property
    def fields(self) -> Collection[Any]:
        """Names of continuous attributes."""


class LearnedTypes(NamedTuple):
    """A snapshot of the types that were learned; see `TypesLearned`."""

    groups: Collection[tuple[int, Any]]
    fields: Collection[Any]


def learned_types(layout: TypesLearned, name: Any) -> list[int]:
    """Return the kinds by which an attribute was learned."""
    kinds = [kind for kind in KINDS if (kind, name) in layout.groups]
    return [*kinds, CONTINUOUS] if name in layout.fields else kinds


def numbers_of(names: dict[Any, int], places: Codes, adds: Flags, number: Callable[..., int]) -> Codes:
    """Return the number of each item's group or field, -1 if unknown.

    New names get numbers in the order of their first occurrence in an event that adds; before it they are
    unknown.

    Args:
        names: each name that was written -> its index.
        places: (m,), the index of each item's name.
        adds: (m,), whether its event adds.
        number: returns the number of a name, a new one if `adds`.
    """
    numbers = np.array([number(name, adds=False) for name in names], dtype=np.int32)
    before = numbers[places]
    met = np.flatnonzero(adds & (before < 0))
    if not met.size:
        return before
    first = np.full(numbers.size, places.size)  # first occurrence of each new name
    np.minimum.at(first, places[met], met)
    listed, new = list(names), np.count_nonzero(first < places.size)
    for i in np.argsort(first, kind="stable")[:new].tolist():
        numbers[i] = number(listed[i], adds=True)
    return np.where(np.arange(places.size) < first[places], before, numbers[places])
