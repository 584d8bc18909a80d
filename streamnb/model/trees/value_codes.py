"""Attributes and their values as small numbers, in the order in which events that are learned bring them.

A nominal value is compared by its text. A continuous value is taken by its *magnitude*: its sign, its power
of two and the two binary digits that follow, so that each octave has four bins,

    ... [1, 1.25) [1.25, 1.5) [1.5, 1.75) [1.75, 2) [2, 2.5) [2.5, 3) [3, 3.5) [3.5, 4) [4, 5) ...

and zero one of its own. Such bins are the same for all attributes, at all times and on all machines: nothing
has to be seen before values can be counted, and an event can be taken out again. What they cannot tell apart
are values that differ by little beside their size, such as the years of a century: subtract what these have
in common before.

Tried on three tables (what log loss grows by in nats, on Adult, NSL-KDD and Elec2, at a prior weight of 5):
bins of equal mass, 16 laid through the first 256 values, .007, .042 and -.007; 32 through the first 1,024,
.034, .044 and .024; one digit in place of two, .005, .040 and -.002; three, .028, .0003 and .058.
"""

from __future__ import annotations

import numbers
import struct
from collections.abc import Container, Hashable, Iterable, Mapping, Sequence
from contextlib import suppress
from itertools import chain
from types import NoneType
from typing import Any, NamedTuple

import numpy as np

from streamnb.errors import SnapshotError
from streamnb.model.attributes.attributes import TEXT, Attribute, Continuous, Nominal, Text, check_attributes
from streamnb.model.attributes.expected import reading
from streamnb.model.attributes.kinds import CONTINUOUS, NOMINAL
from streamnb.model.attributes.names import checked_attributes, plain_attribute
from streamnb.model.attributes.ranges import is_missing
from streamnb.model.attributes.signatures import Codes, Flags
from streamnb.model.attributes.values import LARGEST, as_event, value_text
from streamnb.model.compiled.arrays import Floats, Ints

MISSING = -1
LONGEST = 255
REST = 0
"""The code that all values share that have none of their own."""
UNKNOWN = object()
"""In place of a key: of one of the REST, whatever it is."""
LEFT_OUT = -1
"""In place of a kind."""
_DIGITS = 2
_SHIFT = 52 - _DIGITS
_FEW = 4  # so many values are read sooner one by one than as an array
_AS_DOUBLE, _AS_BITS = struct.Struct("<d"), struct.Struct("<q")
Key = str | int | None


class Kinds:
    """Which kind an attribute is of: as it is declared, else by the type of its value.

    Args:
        attributes: name -> `Nominal` or `Continuous`, or just "nominal", "continuous". A text is more than
            one value: one that is declared as such is left out, and so is what is called `text` where nothing
            declares it.
        met: the attributes, as (kind, name), of a state: in one from before that rule `text` may be a value.

    Raises:
        ValueError: for smoothing of an attribute's own, or values that are declared.
    """

    def __init__(
        self, attributes: Mapping[Any, Attribute | str], met: Container[tuple[int, Hashable]] = ()
    ) -> None:
        check_attributes(attributes)
        self._declared = {name: _declared_kind(name, spec) for name, spec in attributes.items()}
        if not any((kind, TEXT) in met for kind in (NOMINAL, CONTINUOUS)):
            self._declared.setdefault(TEXT, LEFT_OUT)

    def of(self, name: Any, value: Any) -> int:
        """NOMINAL or CONTINUOUS; it hangs on the value's type alone. Of a text LEFT_OUT."""
        declared = self._declared.get(name)
        if declared is not None:
            return declared
        return NOMINAL if isinstance(value, (str, bool, np.bool_)) else CONTINUOUS


class KeyColumn(NamedTuple):
    """One attribute of n events: the keys of its values, None where it is missing.

    Attributes:
        kind: NOMINAL or CONTINUOUS.
        name: the attribute.
        keys: of nominal values their texts, of continuous ones their magnitudes.
    """

    kind: int
    name: Hashable
    keys: list[Any]


class CodedValues:
    """The number of each attribute, and of each of its values.

    Code 0 of every attribute is the REST: of values that came when `most` others had codes of their own.

    Args:
        most: values of an attribute that have codes of their own.
        most_attributes: how many attributes have a number, the first that are learned; None is all. Then
            texts of more than `LONGEST` characters are of the REST, too.

    Attributes:
        numbers: (kind, name) -> number of the attribute.
        codes: of each attribute, key -> code; a missing value, None, has the code MISSING.
    """

    def __init__(self, most: int, most_attributes: int | None = None) -> None:
        self.most, self.most_attributes = most, most_attributes
        self.numbers: dict[tuple[int, Hashable], int] = {}
        self.codes: list[dict[Key, int]] = []
        self._sizes: Ints | None = None

    @property
    def sizes(self) -> Ints:
        """How many codes each attribute has, the REST among them; the same array until there are more."""
        if self._sizes is None:
            self._sizes = np.array([len(codes) for codes in self.codes], dtype=np.int64)
        return self._sizes

    @property
    def ranks(self) -> Ints:
        """The place of each attribute by name, whenever it came. Shape (attributes,)."""
        by_name = sorted(self.numbers.items(), key=lambda one: (repr(one[0][1]), one[0][0]))
        ranks = np.empty(len(by_name), dtype=np.int64)
        ranks[[number for _, number in by_name]] = np.arange(len(by_name))
        return ranks

    @property
    def n_values(self) -> int:
        """How many values have codes of their own."""
        return sum(len(codes) - 1 for codes in self.codes)

    def attribute(self, kind: int, name: Hashable) -> int:
        """The number of an attribute, a new one where it is met for the first time."""
        number = self.numbers.setdefault((kind, name), len(self.codes))
        if number == len(self.codes):
            self.codes.append({None: MISSING})
            self._sizes = None
        return number

    @property
    def is_full(self) -> bool:
        """Whether no other attribute gets a number."""
        return self.most_attributes is not None and len(self.codes) >= self.most_attributes

    def keep_first(self, kept: int) -> None:
        """Have numbers for the first `kept` attributes alone, from now on."""
        self.most_attributes, self.codes, self._sizes = kept, self.codes[:kept], None
        self.numbers = dict(list(self.numbers.items())[:kept])

    def code(self, attribute: int, key: Key, *, adds: bool) -> int:
        """The code of a value, a new one where that is to be added and there is one left; else REST."""
        codes = self.codes[attribute]
        found = codes.get(key)
        if found is None:
            if not adds or key is UNKNOWN or self.has_rest(attribute, key):
                return REST
            found = codes[key] = len(codes)
            self._sizes = None
        return found

    def has_rest(self, attribute: int, key: Key) -> bool:
        """Whether a value that has no code gets none."""
        is_long = self.most_attributes is not None and isinstance(key, str) and len(key) > LONGEST
        return is_long or len(self.codes[attribute]) > self.most

    def encode(self, columns: Sequence[KeyColumn], adds: Flags) -> Codes:
        """The codes of n events, attribute by attribute; shape (n, attributes).

        Args:
            columns: their attributes.
            adds: bool[n], whether what an event brings is given numbers: it is going to be learned.
        """
        self._number(columns, adds)
        codes: list[list[Any]] = [[MISSING] * adds.size] * len(self.codes)
        for kind, name, keys in columns:
            number = self.numbers.get((kind, name))
            if number is None:
                continue
            known = self.codes[number]
            found: list[Any] = list(map(known.get, keys))
            if None in found:
                for e, code in enumerate(found):
                    if code is None:
                        found[e] = self.code(number, keys[e], adds=bool(adds[e]))
            codes[number] = found
        return np.array(codes, dtype=np.int32).reshape(len(codes), adds.size).T.copy()

    def described(self) -> list[list[Any]]:
        """As JSON can hold it: kind, name and keys of each attribute. Raises TypeError for other names."""
        return [
            [kind, plain_attribute(name), [key for key in codes if key is not None]]
            for (kind, name), codes in zip(self.numbers, self.codes, strict=True)
        ]

    @classmethod
    @reading("attributes and their values", ValueError)
    def from_description(
        cls, most: int, described: Iterable[Any], most_attributes: int | None = None
    ) -> CodedValues:
        """Of a description. Raises SnapshotError where it is none."""
        values = cls(most, most_attributes)
        for kind, name, keys in described:
            number = values.attribute(kind, *checked_attributes([name]))
            for key in keys:
                values.code(number, _checked_key(kind, key), adds=True)
            if len(values.codes) != number + 1 or len(values.codes[number]) != len(keys) + 1:
                raise SnapshotError(f"attribute {name!r} is there twice, or a value of it is")
        if most_attributes is not None and len(values.codes) > most_attributes:
            raise SnapshotError(f"{len(values.codes)} attributes, of which there may be {most_attributes}")
        return values

    def _number(self, columns: Sequence[KeyColumn], adds: Flags) -> None:
        """Give numbers to new attributes, in the order of events that add; within an event by their names."""
        met = []
        for kind, name, keys in columns:
            if (kind, name) not in self.numbers:
                first = next((e for e, key in enumerate(keys) if key is not None and adds[e]), None)
                if first is not None:
                    met.append((first, repr(name), kind, name))
        self.number(met)

    def number(self, met: Iterable[tuple[int, str, int, Hashable]]) -> None:
        """Give numbers to new attributes: (the first event that adds it, its name as shown, kind, name)."""
        for *_, kind, name in sorted(met, key=lambda one: one[:3]):
            if not self.is_full:
                self.attribute(kind, name)


def magnitudes(values: Floats) -> Ints:
    """Sign, power of two and first digits of finite numbers, as one integer each. Minus zero is zero."""
    return (np.minimum(np.maximum(values, -LARGEST), LARGEST) + 0.0).view(np.int64) >> _SHIFT


def key_columns(xs: Any, kinds: Kinds) -> list[KeyColumn]:
    """The attributes of events, as `CodedValues.encode` takes them.

    Raises TypeError or ValueError for a value that its attribute does not take.
    """
    xs = list(map(as_event, xs))
    names = dict.fromkeys(chain.from_iterable(xs))
    return [column for name in names for column in _columns(name, [x.get(name) for x in xs], kinds)]


def _of_numbers(name: Any, values: Floats) -> KeyColumn:
    """Of numbers, of which those that are not finite are missing."""
    present = np.isfinite(values)
    keys: list[Any] = magnitudes(np.where(present, values, 0.0)).tolist()
    if not present.all():
        keys = [key if is_there else None for key, is_there in zip(keys, present.tolist(), strict=True)]
    return KeyColumn(CONTINUOUS, name, keys)


def _columns(name: Any, values: list[Any], kinds: Kinds) -> list[KeyColumn]:
    """One attribute of all events; two where its values are of both kinds."""
    if kinds.of(name, 0.0) == LEFT_OUT:
        return []
    types = set(map(type, values)) if len(values) > _FEW else {object}
    if types <= {float, int, NoneType} and kinds.of(name, 0.0) == CONTINUOUS:
        with suppress(OverflowError):  # an integer that no double holds
            return [_of_numbers(name, np.array(values, dtype=np.float64))]
    if types <= {str, NoneType} and kinds.of(name, "") == NOMINAL:
        with suppress(UnicodeEncodeError):  # a lone surrogate
            "".join(filter(None, values)).encode()
            return [KeyColumn(NOMINAL, name, values)]
    keys = [_MISSING if is_missing(value) else _key(name, value, kinds) for value in values]
    return [
        KeyColumn(kind, name, [key if of == kind else None for of, key in keys])
        for kind in sorted({of for of, _ in keys if of != MISSING})
    ]


_MISSING: tuple[int, Key] = (MISSING, None)


def _key(name: Any, value: Any, kinds: Kinds) -> tuple[int, Key]:
    """The kind of a value, and its key."""
    kind = kinds.of(name, value)
    try:
        if kind == NOMINAL:
            text = value_text(value)
            text.encode()
            return kind, text
        return kind, _magnitude(value)
    except (TypeError, ValueError) as error:
        refused = TypeError if isinstance(error, TypeError) else ValueError
        raise refused(f"attribute {name!r}: {error}") from error


def _magnitude(value: Any) -> int:
    """`magnitudes` of one number of any type."""
    if not isinstance(value, (numbers.Real, np.bool_)):
        raise TypeError(f"expected a number, got {type(value).__name__}")
    if isinstance(value, np.floating):
        value = float(value)
    bits: int = _AS_BITS.unpack(_AS_DOUBLE.pack(float(min(max(value, -LARGEST), LARGEST)) + 0.0))[0]
    return bits >> _SHIFT


def _declared_kind(name: Any, spec: Attribute | str) -> int:
    if spec in ("nominal", Nominal()):
        return NOMINAL
    if spec in ("continuous", Continuous()):
        return CONTINUOUS
    if spec == "text" or isinstance(spec, Text):
        return LEFT_OUT
    if isinstance(spec, Nominal):
        raise ValueError(  # noqa: TRY004  a nominal attribute is of the right type
            f"attribute {name!r}: smoothing is that of the model, and no attribute's own; values are met"
        )
    raise ValueError(f"attribute {name!r}: expected 'nominal', 'continuous' or 'text', not {spec!r}")


def _checked_key(kind: Any, key: Any) -> Key:
    if (kind, type(key)) not in {(NOMINAL, str), (CONTINUOUS, int)}:
        raise SnapshotError(f"{key!r} is no value of an attribute of kind {kind!r}")
    checked: Key = key
    return checked
