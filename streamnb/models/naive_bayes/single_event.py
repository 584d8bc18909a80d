"""The fast path of one event without a batch: one call of a kernel.

The kernel gets the addresses of the model's arrays, and the arrays of the event. It tokenizes, looks up,
predicts and learns like a batch, but cannot grow tables. Tables grow before an event with a new attribute or
class is learned. Other events, and unusual values, go through a batch of one.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from itertools import chain
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from streamnb.features.character_table import character_table
from streamnb.features.tokenizer import SPARE, encode_text
from streamnb.kernels.array_types import Floats, Ints
from streamnb.kernels.pinned_structs import PINNED_WORDS
from streamnb.models.naive_bayes.naive_bayes_tables import SmoothingParams
from streamnb.models.naive_bayes.single_event_kernel import ModelArrays, pin_arrays, run_single, scratch_words
from streamnb.models.naive_bayes.sufficient_statistics import SufficientStatistics
from streamnb.values.attribute_kinds import BERNOULLI, CONTINUOUS, NOMINAL
from streamnb.values.type_aliases import Codes

EncodedEvent = tuple[
    npt.NDArray[np.uint8],  # text of all items, and spare bytes
    Ints,  # (1 or 2, items): bytes of each, and occurrences (1 by default)
    Codes,  # group of each item, or of all, ~group for a single token; then fields
    Floats,  # values of the fields
]
_Encoded = tuple[npt.NDArray[np.uint8], Ints]  # the first two of it
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
    """Converters of events with the same attributes of the same types; None if unused."""

    strings: Callable[[Any], Any] | None
    as_text: list[Callable[[Any], str]] | None
    pack_lengths: Callable[..., None]
    whole: list[bool]
    numbers: Callable[[Any], Any] | None
    pack_values: Callable[..., None]
    fields: int
    attributes: Codes


class SingleEvents:
    """A converter of single events to arrays, which also runs the kernel; a cache, empty in a copy."""

    def __init__(self) -> None:
        self._shapes: dict[tuple[Any, ...], _Shape | None] = {}
        self._last: tuple[Any, ...] | None = None  # key of the last shape
        self._last_shape: _Shape | None = None
        # Test-then-train converts the same event twice, so the last conversion is cached. Each cache is one
        # tuple that is replaced as a whole, because other threads may read it.
        self._last_text: tuple[str, _Encoded] | None = None
        self._last_bag: tuple[Any, Any, _Encoded] | None = None
        self._last_strings: tuple[_Shape, Any, _Encoded] | None = None
        self._groups: dict[int, Codes] = {}
        self._statistics: SufficientStatistics | None = None  # owner of the shapes' groups and fields

    def __reduce__(self) -> tuple[type[SingleEvents], tuple[()]]:
        return SingleEvents, ()

    def of_text(
        self, statistics: SufficientStatistics, kind: int, name: Any, text: str
    ) -> EncodedEvent | None:
        """Convert an event that is a text; None if the text attribute is new or UTF-8 cannot encode it."""
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
            last = self._last_text = text, (whole_text, np.array([[len(encoded)]]))
        return *last[1], self._alone(group), _NO_VALUE

    def of_bag(self, statistics: SufficientStatistics, kind: int, name: Any, x: Any) -> EncodedEvent | None:
        """Convert an event that is a bag of words, each with an integer."""
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
                if joined is None:
                    return None
                text, lengths = joined
                sizes = np.fromiter(chain(lengths, counts), dtype=np.int64, count=2 * len(counts))
            except (TypeError, OverflowError):  # a word that is not a string, or a count beyond 64 bits
                return None
            sizes = sizes.reshape(2, -1)
            if kind == BERNOULLI:
                sizes[1].clip(max=1, out=sizes[1])
            last = self._last_bag = words, counts, (text, sizes)
        return *last[2], self._alone(~group), _NO_VALUE

    def _alone(self, group: int) -> Codes:
        found = self._groups.get(group)
        if found is None:
            found = self._groups[group] = np.array([group], dtype=np.int32)
        return found

    def of_shape(self, statistics: SufficientStatistics, x: Any, kind_of: Kind) -> EncodedEvent | None:
        """Convert an event of strings, booleans, integers and floats whose attributes are all known."""
        if type(x) is not dict:
            return None
        values = tuple(x.values())
        shape = self._shape((*x, *map(type, values)), statistics, x, kind_of)
        if shape is None:
            return None
        text, sizes, value = _NOTHING, _NO_ITEM, _NO_VALUE
        if shape.strings is not None:
            encoded = self._of_strings(shape, shape.strings(values))
            if encoded is None:
                return None
            text, sizes = encoded
        if shape.numbers is not None:
            value = np.empty(shape.fields)
            try:
                shape.pack_values(value, 0, *shape.numbers(values))
            except (OverflowError, struct.error):  # an integer beyond the range of doubles
                return None
        return text, sizes, shape.attributes, value

    def _of_strings(self, shape: _Shape, strings: tuple[Any, ...]) -> _Encoded | None:
        last = self._last_strings
        if last is None or last[0] is not shape or last[1] != strings:
            texts = strings
            if shape.as_text is not None:
                texts = tuple(as_text(value) for as_text, value in zip(shape.as_text, strings, strict=True))
            joined = _joined(texts, shape.whole)
            if joined is None:
                return None
            text, lengths = joined
            sizes = np.empty((1, len(shape.whole)), dtype=np.int64)
            shape.pack_lengths(sizes, 0, *lengths)
            last = self._last_strings = shape, strings, (text, sizes)
        return last[2]

    def predicted(
        self, statistics: SufficientStatistics, reading: SmoothingParams, event: EncodedEvent | None
    ) -> dict[Any, float] | None:
        """Return P(class | event) of every class with examples; None if the event needs a batch."""
        if event is None or not statistics.classes:
            return None
        unknown, scratch = _sent(statistics, reading, event, -1, 0)
        if unknown < 0:
            return None
        classes = statistics.classes
        probabilities = scratch[: len(classes)].tolist()
        if not unknown:
            return dict(zip(classes, probabilities, strict=True))
        weights = statistics.class_weights
        return {label: probabilities[k] for label, k in classes.items() if weights[k] > 0}

    def learned(
        self,
        statistics: SufficientStatistics,
        reading: SmoothingParams,
        event: EncodedEvent | None,
        label: Any,
        weight: int,
    ) -> bool:
        """Learn the event; return False, and learn nothing, if it needs a batch."""
        if event is None or weight == 0 or statistics.is_copied:
            return False
        try:
            k = statistics.classes.get(label, -1)
        except TypeError:  # a label that cannot be hashed
            return False
        if k < 0:
            return False
        size, _ = _sent(statistics, reading, event, k, weight)
        statistics.note_single_event(size)
        return size >= 0

    def _shape(
        self, key: tuple[Any, ...], statistics: SufficientStatistics, x: Mapping[Any, Any], kind_of: Kind
    ) -> _Shape | None:
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


def _shape_of(
    statistics: SufficientStatistics, x: Mapping[Any, Any], kind_of: Kind
) -> tuple[bool, _Shape | None]:
    """Return (are all attributes known, shape); the shape is None if values of such types need a batch."""
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
        whole,
        _picker(numbers),
        struct.Struct(f"{len(numbers)}d").pack_into,
        len(numbers),
        np.array([~g if w else g for g, w in zip(group, whole, strict=True)] + field, dtype=np.int32),
    )


def _picker(positions: list[int]) -> Callable[[Any], Any] | None:
    """Return a getter of these values as a tuple, also for a single position."""
    if not positions:
        return None
    return itemgetter(*positions) if len(positions) > 1 else itemgetter(slice(positions[0], positions[0] + 1))


def _joined(
    strings: tuple[str, ...], whole: list[bool] | None = None
) -> tuple[npt.NDArray[np.uint8], Any] | None:
    """Return the UTF-8 of all strings with spare bytes, and their lengths; None for a lone surrogate."""
    together = "".join((*strings, _PAD))
    if together.isascii():  # one byte per character
        return np.frombuffer(together.encode(), dtype=np.uint8), map(len, strings)
    try:
        if whole is None:
            encoded = [string.encode() for string in strings]
        else:
            pairs = zip(strings, whole, strict=True)
            encoded = [string.encode() if is_whole else encode_text(string) for string, is_whole in pairs]
    except UnicodeEncodeError:
        return None
    return np.frombuffer(b"".join((*encoded, SPARE)), dtype=np.uint8), map(len, encoded)


class _Pinned(NamedTuple):
    """Addresses (`words`) of a model's `arrays`, which must outlive their use, with smoothing and prior."""

    edition: object
    reading: SmoothingParams
    n_classes: int
    words: Ints
    arrays: ModelArrays


def _sent(
    statistics: SufficientStatistics, reading: SmoothingParams, event: EncodedEvent, label: int, weight: int
) -> tuple[int, Floats]:
    pinned = _pinned(statistics, reading)  # a local reference, because other threads may replace it
    text, lengths, attributes, value = event
    scratch = np.empty(scratch_words(text.size, lengths.shape[1], value.size, pinned.n_classes))
    size = statistics.vocabulary.size
    return run_single(label, weight, text, lengths, attributes, value, size, pinned.words, scratch), scratch


def _pinned(statistics: SufficientStatistics, reading: SmoothingParams) -> _Pinned:
    """Return the addresses of the model's arrays, renewed after an array was replaced."""
    pinned: _Pinned | None = statistics.pin.noted
    if (
        pinned is None
        or pinned.edition is not statistics.pin.edition
        or not pinned.reading.is_same(reading)
        or pinned.n_classes != len(statistics.classes)
    ):
        edition, n_classes = statistics.pin.edition, len(statistics.classes)
        arrays = ModelArrays.of_model(statistics.tables(reading), statistics.vocabulary, character_table())
        words = np.empty(PINNED_WORDS, dtype=np.int64)
        pin_arrays(words, arrays)
        pinned = _Pinned(edition, reading, n_classes, words, arrays)
        statistics.pin.noted = pinned
    return pinned


_NO_ITEM = np.zeros((1, 0), dtype=np.int64)
_NO_VALUE = np.zeros(0)
