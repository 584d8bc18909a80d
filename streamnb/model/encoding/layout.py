"""Which groups of rows and which continuous fields there are."""

from __future__ import annotations

from collections.abc import Hashable

from streamnb.model.compiled.arrays import Ints
from streamnb.model.stats.counts import Counts

Name = Hashable
_ANY = 1 << 62


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
