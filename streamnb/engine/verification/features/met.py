"""The features of one event, each by its key and its name."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import combinations, pairwise
from typing import NamedTuple

from streamnb.engine.verification.exact.bins import BINS
from streamnb.engine.verification.features.keys import fine_pair_owner, found_by, mixed, pair_key, pair_owner

__all__ = ["Attribute", "Bin", "Both", "Met"]


class Bin(NamedTuple):
    """A bin of a continuous attribute."""

    layout: int
    number: int

    def __str__(self) -> str:
        return f"bin {self.number} of {BINS[self.layout]}"


class Both(NamedTuple):
    """Two attributes, or their values."""

    a: object
    b: object

    def __str__(self) -> str:
        return f"{self.a}, {self.b}"


class _Words(NamedTuple):
    a: str
    b: str

    def __str__(self) -> str:
        return f"{self.a} {self.b}"


class _Value(NamedTuple):
    """A value of an attribute: its key, all of it, and what it is."""

    key: int
    told: object


class Attribute(NamedTuple):
    """An attribute of an event that can be paired: number and name, and its value as a feature.

    `fine` is its bin for pairs, or the value again.
    """

    number: int
    name: str
    value: _Value
    fine: _Value


class Met(NamedTuple):
    """The features of one event, and their owners, by the keys by which they are found.

    Attributes:
        owners: key -> name of the attribute, or of the pair of attributes.
        features: key -> (the owner's key, the value); words, values and the label before.
        pairs: key -> (the owner's key, the pair).
        attributes: all but texts.
    """

    owners: dict[int, object]
    features: dict[int, tuple[int, object]]
    pairs: dict[int, tuple[int, object]]
    attributes: list[Attribute]

    def single(
        self, owner: int, key: int, told: object, number: int, name: str, *, paired: bool = False
    ) -> None:
        """A feature with an owner, which stands for the value of an attribute unless another does.

        One that is `paired` stands for it in fine pairs.
        """
        self.owners[owner] = name
        self.features.setdefault(found_by(key), (owner, told))
        value = _Value(key, told)
        if not self.attributes or self.attributes[-1].number != number:
            self.attributes.append(Attribute(number, name, value, value))
        elif paired:
            self.attributes[-1] = self.attributes[-1]._replace(fine=value)

    def put_adjacent(self, owner: int, keys: Sequence[int | None], words: Sequence[str | None]) -> None:
        """Pairs of adjacent words, none of them stopped."""
        for i, (a, b) in enumerate(pairwise(keys)):
            if a is not None and b is not None:
                self._put_pair(mixed(a, b), owner, _Words(str(words[i]), str(words[i + 1])))

    def put_pairs(self, chosen: Collection[int]) -> None:
        """The values of two attributes that are paired, and their bins for pairs where one has such."""
        there = sorted(a for a in self.attributes if a.number in chosen)
        for a, b in combinations(there, 2):
            key, fine = pair_key(a.value.key, b.value.key), pair_key(a.fine.key, b.fine.key)
            owner, name = pair_owner(a.number, b.number), Both(a.name, b.name)
            self.owners[owner] = name
            self._put_pair(key, owner, Both(a.value.told, b.value.told))
            if fine != key:
                owner = fine_pair_owner(a.number, b.number)
                self.owners[owner] = name
                self._put_pair(fine, owner, Both(a.fine.told, b.fine.told))

    def _put_pair(self, key: int, owner: int, told: object) -> None:
        key = found_by(key)
        if key not in self.features:
            self.pairs.setdefault(key, (owner, told))
