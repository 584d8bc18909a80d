"""Codes of attributes and of their values, numbered in the order of the learned events.

A nominal value is compared by its text. A continuous value is read by its *magnitude*: its sign, its power
of two and the two binary digits that follow, so that each octave has four bins,

    ... [1, 1.25) [1.25, 1.5) [1.5, 1.75) [1.75, 2) [2, 2.5) [2.5, 3) [3, 3.5) [3.5, 4) [4, 5) ...

and zero has its own bin. The bins are the same for all attributes, at all times and on all machines. So
values can be counted from the first event, and an event can be unlearned. Values whose difference is small
relative to their size, such as the years of a century, share a bin: subtract their common offset first.

Alternatives on three tables (increase of log loss in nats on Adult, NSL-KDD and Elec2, at a prior weight of
5):
bins of equal mass, 16 laid through the first 256 values, .007, .042 and -.007; 32 through the first 1,024,
.034, .044 and .024; one digit in place of two, .005, .040 and -.002; three, .028, .0003 and .058.
"""

from __future__ import annotations

import struct
from collections.abc import Hashable, Iterable
from typing import Any

import numpy as np

from streamnb.errors import SnapshotError
from streamnb.kernels.array_types import Floats, Ints
from streamnb.kernels.growable_arrays import Growable
from streamnb.values.attribute_kinds import CONTINUOUS, NOMINAL
from streamnb.values.nominal_values import LARGEST
from streamnb.values.state_validation import checked_attributes, plain_attribute, state_errors

MISSING = -1
LONGEST = 255
REST = 0
"""Code shared by all values without their own code."""
UNKNOWN = object()
"""Key of a value that always gets the code REST."""
_DIGITS = 2
SHIFT = 52 - _DIGITS
_FEW = 4  # below this number, reading values one by one is faster than as an array
_AS_DOUBLE, _AS_BITS = struct.Struct("<d"), struct.Struct("<q")
Key = str | int | None


class CodedValues(Growable):
    """Numbers of attributes, and codes of their values.

    Code 0 of every attribute is REST, for values that arrive when `most` values already have codes.

    Args:
        most: maximum number of values of an attribute with their own codes.
        most_attributes: maximum number of attributes, the first that are learned; None is unlimited. With a
            limit, texts longer than `LONGEST` characters get the code REST.

    Attributes:
        numbers: attribute number by (kind, name).
        codes: code by key, of each attribute; the key None (missing) has the code MISSING.
    """

    def __init__(self, most: int, most_attributes: int | None = None) -> None:
        self.most, self.most_attributes = most, most_attributes
        self.numbers: dict[tuple[int, Hashable], int] = {}
        self.codes: list[dict[Key, int]] = []
        self._sizes: Ints | None = None

    @property
    def sizes(self) -> Ints:
        """Number of codes of each attribute, including REST; the same array object until a code is added."""
        sizes = self._sizes
        if sizes is None:
            sizes = vars(self)["_sizes"] = np.array([len(codes) for codes in self.codes], dtype=np.int64)
        return sizes

    def attribute(self, kind: int, name: Hashable) -> int:
        """Return the number of an attribute; assign one on its first use."""
        number = self.numbers.setdefault((kind, name), len(self.codes))
        if number == len(self.codes):
            self.codes.append({None: MISSING})
            self._sizes = None
        return number

    @property
    def is_full(self) -> bool:
        """True if no further attribute gets a number."""
        return self.most_attributes is not None and len(self.codes) >= self.most_attributes

    def keep_first(self, kept: int) -> None:
        """Drop all but the first `kept` attributes, and accept no new ones."""
        self.most_attributes, self.codes, self._sizes = kept, self.codes[:kept], None
        self.numbers = dict(list(self.numbers.items())[:kept])

    def code(self, attribute: int, key: Key, *, adds: bool) -> int:
        """Return the code of a value; a new value gets a code if `adds` and capacity allow, else REST."""
        codes = self.codes[attribute]
        found = codes.get(key)
        if found is None:
            if not adds or key is UNKNOWN or self.has_rest(attribute, key):
                return REST
            found = codes[key] = len(codes)
            vars(self)["_sizes"] = None  # kernels do not read it
        return found

    def has_rest(self, attribute: int, key: Key) -> bool:
        """Return True if a value without a code gets none."""
        is_long = self.most_attributes is not None and isinstance(key, str) and len(key) > LONGEST
        return is_long or len(self.codes[attribute]) > self.most

    def described(self) -> list[list[Any]]:
        """Return kind, name and keys of each attribute, for JSON. Raises TypeError for other names."""
        return [
            [kind, plain_attribute(name), [key for key in codes if key is not None]]
            for (kind, name), codes in zip(self.numbers, self.codes, strict=True)
        ]

    @state_errors("attributes and their values", ValueError)
    def load(self, described: Iterable[Any]) -> None:
        """Load what `described` returned into empty codes. Raises SnapshotError if it is invalid."""
        for kind, name, keys in described:
            number = self.attribute(kind, *checked_attributes([name]))
            for key in keys:
                is_one = kind == NOMINAL if type(key) is str else kind == CONTINUOUS and _is_magnitude(key)
                if not is_one:
                    raise SnapshotError(f"a key is not a value of an attribute of kind {kind!r}")
                self.code(number, key, adds=True)
            if len(self.codes) != number + 1 or len(self.codes[number]) != len(keys) + 1:
                raise SnapshotError("an attribute, or one of its values, occurs twice")
        if self.most_attributes is not None and len(self.codes) > self.most_attributes:
            raise SnapshotError(f"{len(self.codes)} attributes exceed the limit of {self.most_attributes}")

    def number(self, met: Iterable[tuple[int, str, int, Hashable]]) -> None:
        """Assign numbers to new attributes, given as (first event, displayed name, kind, name)."""
        for *_, kind, name in sorted(met, key=lambda entry: entry[:3]):
            if not self.is_full:
                self.attribute(kind, name)


def _is_magnitude(key: Any) -> bool:
    return type(key) is int and -1 << 63 <= key << SHIFT < 1 << 63


def magnitudes(values: Floats) -> Ints:
    """Return sign, exponent and first binary digits of finite numbers as one integer; minus zero is zero."""
    return (np.minimum(np.maximum(values, -LARGEST), LARGEST) + 0.0).view(np.int64) >> SHIFT
