"""The features of softmax regressions, counted again: what an event has of them, by their definition.

A feature is found by its key, as in the table that is verified, and known by its name. Which have a row is
part of the definition: owners first, then words, values and the label before in the order of the event, then
pairs; each where it is not there yet and the budget is not spent. A new pair in an event of weight one has
none before it is met again: of it the class of that event is known. So every feature is expected to be there
that has to be, and none besides, whatever the budget; each with what was learned since it was added.
"""

from __future__ import annotations

import math
import struct
from array import array
from bisect import insort
from collections.abc import Iterator, Sequence
from itertools import combinations
from typing import NamedTuple

from streamnb.engine.verification.exact.bins import BINS, PAIRED, ExactBins
from streamnb.engine.verification.exact.decay import Group
from streamnb.engine.verification.features.keys import (
    CODE,
    LABEL_OWNER,
    field_owner,
    fine_pair_owner,
    found_by,
    group_owner,
    label_key,
    pair_owner,
    token_key,
    value_key,
)
from streamnb.engine.verification.features.met import Attribute, Bin, Both, Met
from streamnb.engine.verification.features.plan import FeaturePlan
from streamnb.model.attributes.kinds import NOMINAL
from streamnb.model.attributes.weights import UNIT

__all__ = ["LABEL_BEFORE", "NOBODY", "FeatureRecount", "Items", "Once", "Values"]

Items = Sequence[tuple[Group, Sequence[str | None]]]
"""Texts and nominal attributes of an event, with their words in order, None for one that is stopped."""
Values = Sequence[tuple[str, float]]
"""Continuous attributes of an event."""

NOBODY = -1
LABEL_BEFORE = "label before"
_LABEL = -1  # its number among the attributes; others are 2 g (group g) or 2 f + 1 (field f)
_PAIRED = 12
_SELECTED_AFTER = 256 * UNIT
_KEPT_WORDS = 1 << 20  # whose keys are remembered at a time
_MOST_CLASSES = (1 << 15) - 1  # of which a pair can be met once


class Once(NamedTuple):
    """A pair that was met in one event: the number of its class, its attribute, and what it stands for.

    The latter two are None where that is not known.
    """

    k: int
    name: object = None
    told: object = None


class FeatureRecount:
    """Counts of the features, in units of 1/1024 example, and all on which it depends what they are.

    Attributes:
        rows: key -> row, in the order in which they were added.
        owners: the row of each feature's owner, NOBODY for an owner.
        told: what each stands for: a value, or of an owner an attribute; None where that is not known.
        counts: of each class, by row; rows beyond its end have none.
        once: key -> pair that was met once, and has no row.
        classes: label -> number, in the order in which they were met.
        groups: texts and nominal attributes, in the order in which they were met.
        fields: continuous attributes, likewise.
        bins: of each continuous attribute.
        learned: weight of all that was learned.
        last: number of the class learned last, -1 before there was one.
        chosen: numbers of the attributes that are paired, rising; None where they are too many, and
            have not been selected yet.
    """

    def __init__(self) -> None:
        self.rows: dict[int, int] = {}
        self.owners = array("q")
        self.told: list[object] = []
        self.counts: list[array[int]] = []
        self.once: dict[int, Once] = {}
        self.classes: dict[str, int] = {}
        self.groups: dict[Group, int] = {}
        self.fields: dict[str, int] = {}
        self.bins: list[ExactBins] = []
        self.learned = 0
        self.last = -1
        self.chosen: list[int] | None = []
        self._keys: dict[tuple[int, str], int] = {}

    def take(self, label: str, weight: int, items: Items, values: Values, plan: FeaturePlan) -> None:
        """Count an event; `weight` is in units."""
        known = len(self.classes)
        met = self._met(items, values, plan)
        k = self.classes.setdefault(label, known)
        if k == len(self.counts):
            self.counts.append(array("q"))
        sizes = len(self.rows), len(self.once), known
        is_one = weight == UNIT and k < _MOST_CLASSES
        most = plan.most(*sizes)
        self._add_owners(met, most)
        self._add_features(met, k, most, plan.most_once(*sizes) if is_one else 0)
        self._count(met, k, weight)
        for name, value in values:
            self.bins[self.fields[name]].learn(value)
        self.learned += weight
        self.last = k
        self._note(met.attributes)

    def begin_class(self, label: str) -> None:
        """A class that was met."""
        self.classes.setdefault(label, len(self.classes))
        self.counts.append(array("q", bytes(8 * len(self.rows))))

    def field(self, name: str) -> int:
        """The number of a continuous attribute."""
        number = self.fields.setdefault(name, len(self.fields))
        if number == len(self.bins):
            self.bins.append(ExactBins())
        return number

    def word(self, group: int, word: str) -> int:
        """The key of a word or value, all of it."""
        key = self._keys.get((group, word))
        if key is None:
            if len(self._keys) == _KEPT_WORDS:
                self._keys.clear()
            key = self._keys[group, word] = token_key(word.encode(), group)
        return key

    def names(self) -> Iterator[tuple[int, str]]:
        """The key of every owner that there can be, and its attribute."""
        numbers = [(_LABEL, LABEL_BEFORE)]
        yield LABEL_OWNER, LABEL_BEFORE
        for (kind, name), g in self.groups.items():
            yield group_owner(g), name
            if kind == NOMINAL:
                numbers.append((2 * g, name))
        for name, f in self.fields.items():
            numbers.append((2 * f + 1, name))
            for layout in (CODE, *range(len(BINS))):
                yield field_owner(f, layout), name
        chosen = sorted(pair for pair in numbers if pair[0] in (self.chosen or ()))
        for (a, first), (b, second) in combinations(chosen, 2):
            for owner in (pair_owner, fine_pair_owner):
                yield owner(a, b), str(Both(first, second))

    def attribute(self, number: int) -> str:
        """The name of an attribute that may be paired, by its number."""
        if number == _LABEL:
            return LABEL_BEFORE
        place, is_field = divmod(number, 2)
        names = list(self.fields) if is_field else [name for _, name in self.groups]
        return names[place] if 0 <= place < len(names) else f"attribute {number}"

    def place(self, row: int) -> dict[str, str | int]:
        """What a row stands for, an owner for its attribute alone; the key of what was not met again."""
        owner, told = self.owners[row], self.told[row]
        if owner == NOBODY:
            return {"attribute": self.owner_name(row)}
        known = f"{list(self.rows)[row]:012x}" if told is None else str(told)
        return {"attribute": self.owner_name(owner), "feature": known}

    def place_of_once(self, key: int) -> dict[str, str | int]:
        """What a key stands for that was met once, or that is not known; the key alone of the latter."""
        pair = self.once.get(key)
        if pair is None or pair.told is None:
            return {"feature": f"{key:012x}"}
        return {"attribute": str(pair.name), "feature": str(pair.told)}

    def owner_name(self, row: int) -> str:
        """The attribute of an owner's row."""
        return str(self.told[row]) if row != NOBODY else "none"

    def _met(self, items: Items, values: Values, plan: FeaturePlan) -> Met:
        """What an event has. Attributes that are met for the first time get their numbers."""
        met = Met({}, {}, {}, [])
        adjacent: list[tuple[int, list[int | None], Sequence[str | None]]] = []
        for group, words in items:
            g = self.groups.setdefault(group, len(self.groups))
            owner = group_owner(g)
            keys = [None if word is None else self.word(g, word) for word in words]
            if group[0] == NOMINAL and keys[0] is not None:
                met.single(owner, keys[0], words[0], 2 * g, group[1])
                continue
            met.owners[owner] = group[1]
            for key, word in zip(keys, words, strict=True):
                if key is not None:
                    met.features.setdefault(found_by(key), (owner, word))
            adjacent.append((owner, keys, words))
        for name, value in values:
            self._put_value(name, value, met)
        if self.last >= 0:
            label = list(self.classes)[self.last]
            met.single(LABEL_OWNER, label_key(self.last), label, _LABEL, LABEL_BEFORE)
        if plan.pairs:
            for text in adjacent:
                met.put_adjacent(*text)
            met.put_pairs(self.chosen or ())
        return met

    def _put_value(self, name: str, value: float, met: Met) -> None:
        """A continuous value: its code, then its bin in every layout in use."""
        f = self.field(name)
        bins = self.bins[f]
        if bins.is_code(value):
            (bits,) = struct.unpack(
                "<Q", struct.pack("<d", value + 0.0)
            )  # of zeros those of the positive one
            met.single(field_owner(f, CODE), value_key(f, CODE, bits), value, 2 * f + 1, name)
        for layout, number in bins.bins(value):
            told, owner, key = Bin(layout, number), field_owner(f, layout), value_key(f, layout, number)
            met.single(owner, key, told, 2 * f + 1, name, paired=layout == PAIRED)

    def _add_owners(self, met: Met, most: int) -> None:
        """Add those that are new, up to so many rows."""
        for key, name in met.owners.items():
            if key not in self.rows and key not in self.once and len(self.rows) < most:
                self._add(key, NOBODY, name)

    def _add_features(self, met: Met, k: int, most: int, most_once: int) -> None:
        """Add what is new to an event of class number k, up to so many rows.

        Pairs that are new are met once, up to so many; or have a row at once, where there may be none.
        """
        rows, once = self.rows, self.once
        for found in (met.features, met.pairs):
            for key, (owner, told) in found.items():
                if key in rows:
                    if self.told[rows[key]] is None:
                        self.told[rows[key]] = told
                elif key in once:
                    self._meet_again(key, owner, told, met, most)
                elif found is met.pairs and most_once:
                    if len(once) < most_once:
                        once[key] = Once(k, met.owners[owner], told)
                elif len(rows) < most:
                    self._add(key, rows.get(owner, NOBODY), told)

    def _meet_again(self, key: int, owner: int, told: object, met: Met, most: int) -> None:
        """A pair that was met once has a row from now on, if there may be one more."""
        if len(self.rows) < most:
            k = self.once.pop(key).k
            self._add(key, self.rows.get(owner, NOBODY), told)
            self._counts(k)[-1] += UNIT
        elif self.once[key].told is None:
            self.once[key] = Once(self.once[key].k, met.owners[owner], told)

    def _count(self, met: Met, k: int, weight: int) -> None:
        """Add an event of class number k to all that have a row."""
        rows, counts = self.rows, self._counts(k)
        for keys in (met.owners, met.features, met.pairs):
            for key in keys:
                if key in rows:
                    counts[rows[key]] += weight

    def _counts(self, k: int) -> array[int]:
        """Those of class number k, of all rows."""
        counts = self.counts[k]
        if len(counts) < len(self.rows):
            counts.frombytes(bytes(8 * (len(self.rows) - len(counts))))
        return counts

    def _add(self, key: int, owner: int, told: object) -> None:
        self.rows[key] = len(self.rows)
        self.owners.append(owner)
        self.told.append(told)

    def _note(self, attributes: list[Attribute]) -> None:
        """Which attributes are paired from now on: all while they are twelve, or those that tell most."""
        if self.chosen is None:
            if self.learned >= _SELECTED_AFTER and attributes:
                self._select(attributes)
            return
        for number, *_ in attributes:
            if number in self.chosen:
                continue
            if len(self.chosen) == _PAIRED:
                if self.learned < _SELECTED_AFTER:
                    self.chosen = None
                return
            insort(self.chosen, number)

    def _select(self, attributes: list[Attribute]) -> None:
        told = self._information()
        ranked = sorted(
            (-told[self.owners[self.rows[found_by(value.key)]]], number)
            for number, _, value, _ in attributes
            if found_by(value.key) in self.rows
        )
        self.chosen = sorted(number for _, number in ranked[:_PAIRED]) or None

    def _information(self) -> list[float]:
        """What the features of each owner tell of the class (nats), in doubles, summed as they were added.

        So that attributes which tell the same but for rounding are ranked as the learner ranks them.
        """
        size = len(self.rows)
        columns = [[*counts, *[0] * (size - len(counts))] for counts in self.counts]
        totals = [sum(by_class) for by_class in zip(*columns, strict=True)]
        told, values = [0.0] * size, [0] * size
        for row, owner in enumerate(self.owners):
            if owner == NOBODY or not totals[row]:
                continue
            values[owner] += 1
            for counts in columns:
                if counts[row]:
                    ratio = (counts[row] / totals[row]) * (totals[owner] / counts[owner])
                    told[owner] += counts[row] / totals[owner] * math.log(ratio)
        for row, owner in enumerate(self.owners):
            if owner == NOBODY and totals[row]:
                classes = sum(counts[row] > 0 for counts in columns)
                told[row] -= (values[row] - 1.0) * (classes - 1.0) / 2.0 / (totals[row] / UNIT)
        return told
