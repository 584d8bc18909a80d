"""One event without a batch: what it costs is the kernel's work, and one call.

The kernel gets every array by itself, for to unpack a tuple of arrays costs more than an event. It cuts,
looks up, predicts and learns by what a batch goes through; and it grows nothing. An event that has a new
attribute or class, or needs room, or is not written like most, is left to a batch of one.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from streamnb.model.attributes.kinds import BERNOULLI, CONTINUOUS, NOMINAL
from streamnb.model.encoding.tokenizer import SPARE, character_table, encode_text
from streamnb.model.naive_bayes.single_event_kernel import room_for_one, run_one
from streamnb.model.naive_bayes.sufficient_statistics import Statistics
from streamnb.model.naive_bayes.tables import Reading

__all__ = ["OneByOne", "OneEvent"]

OneEvent = tuple[
    npt.NDArray[np.uint8],  # the text of all items, with bytes to spare
    npt.NDArray[np.int64],  # how many bytes each has
    npt.NDArray[np.bool_],  # whether it is one token; of all, where there is only one
    npt.NDArray[np.int32],  # its group; the same
    npt.NDArray[np.int64],  # how often it occurs; empty: once
    npt.NDArray[np.int32],  # continuous fields
    npt.NDArray[np.float64],  # their values
]
_Encoded = tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]  # the first two of it
Kind = Callable[[Any, Any], int]

_MOST_SHAPES = 256
_PAD = SPARE.decode()
_NOTHING = np.frombuffer(SPARE, dtype=np.uint8)
_AS_TEXT: dict[type, Callable[[Any], str]] = {
    str: str,
    int: str,
    bool: lambda value: "true" if value else "false",
}  # as `value_text` has it


class _Shape(NamedTuple):
    """How events of the same attributes, of the same types, are taken apart.

    Attributes:
        strings: picks the values of the discrete attributes; None where there is none.
        as_text: what makes each of them text; None where all are strings.
        pack_lengths: packs how many bytes each of them has.
        whole, group: of each of them, as in `OneEvent`.
        numbers: picks the values of the continuous attributes; None where there is none.
        pack_values: packs them.
        field: of each of them.
    """

    strings: Callable[[Any], Any] | None
    as_text: list[Callable[[Any], str]] | None
    pack_lengths: Callable[..., None]
    whole: npt.NDArray[np.bool_]
    group: npt.NDArray[np.int32]
    numbers: Callable[[Any], Any] | None
    pack_values: Callable[..., None]
    field: npt.NDArray[np.int32]


class OneByOne:
    """Makes single events arrays, and sends them through the kernel.

    It knows nothing that the statistics do not know: it can be thrown away at any time, and a copy is empty.
    """

    def __init__(self) -> None:
        self._shapes: dict[tuple[Any, ...], _Shape | None] = {}
        self._last: tuple[Any, ...] | None = None  # the shape that was asked for last, by what
        self._last_shape: _Shape | None = None
        # Whoever tests, then trains asks for the same event twice: what came last, and as what. Each is one
        # tuple, that is replaced whole, for other threads may ask, too.
        self._last_text: tuple[str, _Encoded] | None = None
        self._last_bag: tuple[Any, Any, _Encoded, npt.NDArray[np.int64]] | None = None
        self._last_strings: tuple[_Shape, Any, _Encoded] | None = None
        self._groups: dict[int, npt.NDArray[np.int32]] = {}
        self._statistics: Statistics | None = None  # whose groups and fields the shapes name

    def __reduce__(self) -> tuple[type[OneByOne], tuple[()]]:
        return OneByOne, ()

    def of_text(self, statistics: Statistics, kind: int, name: Any, text: str) -> OneEvent | None:
        """An event that is a text; None where the text is not met yet, or no UTF-8 can hold it."""
        group = statistics.layout.groups.get((kind, name))
        if group is None:
            return None
        last = self._last_text
        if last is None or last[0] != text:
            try:
                encoded = encode_text(text)
            except UnicodeEncodeError:
                return None
            whole_text = np.frombuffer(encoded + SPARE, dtype=np.uint8)
            last = self._last_text = text, (whole_text, np.array([len(encoded)]))
        return *last[1], _CUT, self._alone(group), _ONCE, _NO_FIELD, _NO_VALUE

    def of_bag(self, statistics: Statistics, kind: int, name: Any, x: Any) -> OneEvent | None:
        """An event that is a bag of words, each with an integer."""
        group = statistics.layout.groups.get((kind, name))
        if group is None or type(x) is not dict:
            return None
        words, counts = tuple(x), tuple(x.values())
        if set(map(type, counts)) != {int}:
            return None
        last = self._last_bag
        if last is None or last[0] != words or last[1] != counts:
            try:
                joined = _joined(words)
                times = np.fromiter(counts, dtype=np.int64, count=len(counts))
            except (TypeError, OverflowError):  # a word that is no string; more than 64 bits hold
                return None
            if joined is None:
                return None
            text, lengths = joined
            sizes = np.fromiter(lengths, dtype=np.int64, count=len(counts))
            if kind == BERNOULLI:
                times = times.clip(max=1)
            last = self._last_bag = words, counts, (text, sizes), times
        return *last[2], _WHOLE, self._alone(group), last[3], _NO_FIELD, _NO_VALUE

    def _alone(self, group: int) -> npt.NDArray[np.int32]:
        """A group as an array."""
        found = self._groups.get(group)
        if found is None:
            found = self._groups[group] = np.array([group], dtype=np.int32)
        return found

    def of_shape(self, statistics: Statistics, x: Any, kind_of: Kind) -> OneEvent | None:
        """An event of strings, booleans, integers and floats, all attributes of which have been met."""
        if type(x) is not dict:
            return None
        values = tuple(x.values())
        shape = self._shape((*x, *map(type, values)), statistics, x, kind_of)
        if shape is None:
            return None
        text, sizes, value = _NOTHING, _ONCE, _NO_VALUE
        if shape.strings is not None:
            encoded = self._of_strings(shape, shape.strings(values))
            if encoded is None:
                return None
            text, sizes = encoded
        if shape.numbers is not None:
            value = np.empty(shape.field.size)
            try:
                shape.pack_values(value, 0, *shape.numbers(values))
            except (OverflowError, struct.error):  # an integer that no double holds
                return None
        return text, sizes, shape.whole, shape.group, _ONCE, shape.field, value

    def _of_strings(self, shape: _Shape, strings: tuple[Any, ...]) -> _Encoded | None:
        """Discrete values as text; None where no UTF-8 can hold one."""
        last = self._last_strings
        if last is None or last[0] is not shape or last[1] != strings:
            texts = strings
            if shape.as_text is not None:
                texts = tuple(as_text(value) for as_text, value in zip(shape.as_text, strings, strict=True))
            joined = _joined(texts, shape.whole)
            if joined is None:
                return None
            text, lengths = joined
            sizes = np.empty(shape.group.size, dtype=np.int64)
            shape.pack_lengths(sizes, 0, *lengths)
            last = self._last_strings = shape, strings, (text, sizes)
        return last[2]

    def predicted(
        self, statistics: Statistics, reading: Reading, event: OneEvent | None
    ) -> dict[Any, float] | None:
        """P(class | event) of every class with examples; None where the event needs a batch."""
        if event is None or not statistics.classes:
            return None
        unknown, room = _sent(statistics, reading, event, -1, 0)
        if unknown < 0:
            return None
        classes = statistics.classes
        probabilities = room[: len(classes)].tolist()
        if not unknown:
            return dict(zip(classes, probabilities, strict=True))
        weights = statistics.class_weights
        return {label: probabilities[k] for label, k in classes.items() if weights[k] > 0}

    def learned(
        self, statistics: Statistics, reading: Reading, event: OneEvent | None, label: Any, weight: int
    ) -> bool:
        """Learn the event; False, and nothing learned, where it needs a batch."""
        if event is None or weight == 0 or statistics.is_copied:
            return False
        try:
            k = statistics.classes.get(label, -1)
        except TypeError:  # a label that cannot be hashed
            return False
        if k < 0:
            return False
        size, _ = _sent(statistics, reading, event, k, weight)
        statistics.vocabulary.size = size if size >= 0 else -1 - size
        statistics.events += size >= 0
        return size >= 0

    def _shape(
        self, key: tuple[Any, ...], statistics: Statistics, x: Mapping[Any, Any], kind_of: Kind
    ) -> _Shape | None:
        """The shape of an event; None where it needs a batch."""
        if self._statistics is not statistics or len(self._shapes) > _MOST_SHAPES:
            self._shapes, self._statistics, self._last, self._last_shape = {}, statistics, None, None
        if key == self._last:
            return self._last_shape
        shape = self._shapes.get(key)
        if shape is None and key not in self._shapes:
            is_met, shape = _shape_of(statistics, x, kind_of)
            if not is_met:
                return None
            self._shapes[key] = shape
        self._last, self._last_shape = key, shape
        return shape


def _shape_of(statistics: Statistics, x: Mapping[Any, Any], kind_of: Kind) -> tuple[bool, _Shape | None]:
    """Whether all attributes have been met; and the shape, None where a value of such types needs a batch."""
    strings, numbers, as_text, whole, group, field = [], [], [], [], [], []
    has_other = False
    for position, (name, value) in enumerate(x.items()):
        if value is None:
            continue
        kind = kind_of(name, value)
        if kind == CONTINUOUS and type(value) in {float, int, bool}:
            numbers.append(position)
            field.append(statistics.layout.fields.get(name, -1))
        elif type(value) in _AS_TEXT if kind == NOMINAL else type(value) is str:
            strings.append(position)
            as_text.append(_AS_TEXT[type(value)])
            has_other |= type(value) is not str
            whole.append(kind == NOMINAL)
            group.append(statistics.layout.groups.get((kind, name), -1))
        else:
            return True, None
    if min(group + field, default=0) < 0:
        return False, None
    return True, _Shape(
        _picker(strings),
        as_text if has_other else None,
        struct.Struct(f"{len(strings)}q").pack_into,
        np.array(whole, dtype=np.bool_),
        np.array(group, dtype=np.int32),
        _picker(numbers),
        struct.Struct(f"{len(numbers)}d").pack_into,
        np.array(field, dtype=np.int32),
    )


def _picker(positions: list[int]) -> Callable[[Any], Any] | None:
    """Picks these values; the first one as a slice where it is alone, for it has to stay a tuple."""
    if not positions:
        return None
    return itemgetter(*positions) if len(positions) > 1 else itemgetter(slice(positions[0], positions[0] + 1))


def _joined(
    strings: tuple[str, ...], whole: npt.NDArray[np.bool_] | None = None
) -> tuple[npt.NDArray[np.uint8], Any] | None:
    """The UTF-8 of all strings with bytes to spare, and the length of each; None for a lone surrogate.

    Those that are not `whole` are to be cut into words.
    """
    together = "".join((*strings, _PAD))
    if together.isascii():  # then there are as many bytes as characters
        return np.frombuffer(together.encode(), dtype=np.uint8), map(len, strings)
    try:
        if whole is None:
            encoded = [string.encode() for string in strings]
        else:
            encoded = [
                string.encode() if is_whole else encode_text(string)
                for string, is_whole in zip(strings, whole.tolist(), strict=True)
            ]
    except UnicodeEncodeError:
        return None
    return np.frombuffer(b"".join((*encoded, SPARE)), dtype=np.uint8), map(len, encoded)


def _sent(
    statistics: Statistics,
    reading: Reading,
    event: OneEvent,
    label: int,
    weight: int,
) -> tuple[int, npt.NDArray[np.float64]]:
    """Send an event through the kernel: its answer, and the room it worked in."""
    vocabulary, counts, moments = statistics.vocabulary, statistics.counts, statistics.moments
    K = len(statistics.classes)
    room = np.empty(room_for_one(event[0].size, event[1].size, event[6].size, K))
    answer: int = run_one(
        label,
        weight,
        *event,
        character_table(),
        vocabulary.size,
        vocabulary.slots,
        vocabulary.cells,
        vocabulary.arena,
        vocabulary.used,
        vocabulary.groups,
        vocabulary.secret,
        statistics.class_weights,
        K,
        counts.table,
        counts.totals,
        counts.live,
        counts.kinds,
        counts.slot,
        *counts.histograms,
        moments.n,
        moments.mean,
        moments.M2,
        *reading,
        room,
    )
    return answer, room


_CUT, _WHOLE = np.zeros(1, dtype=np.bool_), np.ones(1, dtype=np.bool_)
_ONCE = np.zeros(0, dtype=np.int64)
_NO_FIELD = np.zeros(0, dtype=np.int32)
_NO_VALUE = np.zeros(0)
