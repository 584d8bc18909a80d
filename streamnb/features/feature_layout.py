"""Which groups of rows and which continuous fields there are."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from typing import Any, Protocol

import numpy as np

from streamnb.errors import SnapshotError
from streamnb.kernels.array_types import Ints
from streamnb.statistics.counts import Counts
from streamnb.values.attribute_kinds import KINDS
from streamnb.values.state_names import checked_attributes, plain_attribute
from streamnb.values.type_aliases import Codes, Flags

Name = Hashable
_ANY = 1 << 62


class Numbering(Protocol):
    """What gives the items of a batch their groups, and its values their fields."""

    @property
    def kinds(self) -> Ints:
        """The kind of each group."""

    @property
    def has_bernoulli(self) -> bool:
        """Whether any group is a Bernoulli text."""

    def groups_of(self, names: dict[Any, int], places: Codes, adds: Flags, ends: Ints) -> Codes:
        """The group of each item, -1 where it is not known; see `numbers_of`. Event e ends at ends[e + 1]."""

    def fields_of(self, names: dict[Any, int], places: Codes, adds: Flags, ends: Ints) -> Codes:
        """The field of each value likewise."""


class Layout:
    """Which groups of rows and which continuous fields there are, in the order in which they were met.

    Attributes:
        groups: (kind, name) -> number, for the kinds of `counts`.
        fields: name -> number of a continuous attribute.
        most: how many there may be of either; what comes later is not known.
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
        """Whether any group is a Bernoulli text."""
        return self._counts.histograms.used.size > 0

    def group(self, group: tuple[int, Name], *, adds: bool) -> int:
        """The number of a (kind, name); where there is none a new one, or -1 if nothing is to be added."""
        number = self.groups.get(group, -1)
        if number < 0 and adds and len(self.groups) < self.most:
            number = self.groups[group] = self._counts.add_group(group[0])
        return number

    def field(self, name: Name, *, adds: bool) -> int:
        """The number of a continuous field; where there is none a new one, or -1."""
        number = self.fields.get(name, -1)
        if number < 0 and adds and len(self.fields) < self.most:
            number = self.fields[name] = len(self.fields)
        return number

    def numbers_in(self, other: Layout, *, adds: bool) -> tuple[Codes, Codes]:
        """The numbers that the groups and the fields of another one have here; as `group` and `field`."""
        groups = [self.group(group, adds=adds) for group in other.groups]
        fields = [self.field(name, adds=adds) for name in other.fields]
        return np.array(groups, dtype=np.int32), np.array(fields, dtype=np.int32)

    def described(self) -> dict[str, Any]:
        """All of them, as JSON can hold them."""
        groups = [[kind, plain_attribute(name)] for kind, name in self.groups]
        return {"groups": groups, "fields": [plain_attribute(name) for name in self.fields]}

    def load(self, described: Mapping[str, Any]) -> None:
        """Add all of those that are `described`. Raises SnapshotError, among others, where they are none."""
        for kind, name in described["groups"]:
            if type(kind) is not int or kind not in KINDS:
                raise SnapshotError(f"groups: {kind!r} is no kind of attribute")
            self.group((kind, *checked_attributes([name])), adds=True)
        for name in checked_attributes(described["fields"]):
            self.field(name, adds=True)

    def groups_of(self, names: dict[Any, int], places: Codes, adds: Flags, ends: Ints) -> Codes:
        """See `Numbering`."""
        return numbers_of(names, places, adds, self.group)

    def fields_of(self, names: dict[Any, int], places: Codes, adds: Flags, ends: Ints) -> Codes:
        """See `Numbering`."""
        return numbers_of(names, places, adds, self.field)


def numbers_of(names: dict[Any, int], places: Codes, adds: Flags, number: Callable[..., int]) -> Codes:
    """The number of each group or field that was written, -1 where it is not known.

    Those that are new get theirs in the order in which they are first met in an event that adds, and are not
    known before.

    Args:
        names: what was written -> its place among them.
        places: (m,), what each item is, by its place.
        adds: (m,), whether its event adds.
        number: of a name, made where `adds` says so.
    """
    numbers = np.array([number(name, adds=False) for name in names], dtype=np.int32)
    before = numbers[places]
    met = np.flatnonzero(adds & (before < 0))
    if not met.size:
        return before
    first = np.full(numbers.size, places.size)  # where each new name is met first
    np.minimum.at(first, places[met], met)
    listed, new = list(names), np.count_nonzero(first < places.size)
    for i in np.argsort(first, kind="stable")[:new].tolist():
        numbers[i] = number(listed[i], adds=True)
    return np.where(np.arange(places.size) < first[places], before, numbers[places])
