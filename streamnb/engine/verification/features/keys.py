r"""The keys by which features are found, in Python's own integers.

A key says what a feature is: bytes in a group, a value of a field in one of its layouts, a label, or two of
these. The arithmetic is modulo 2^64; `model.tokenizer` and `model.features` have the same in machine words.
Two are mixed to a pair's key with all their 64 bits; a feature is found by the lower 48.
"""

from __future__ import annotations

from functools import cache, lru_cache

from streamnb.model.softmax.quantile_bins import CODE

__all__ = [
    "CODE",
    "LABEL_OWNER",
    "field_owner",
    "fine_pair_owner",
    "found_by",
    "group_owner",
    "label_key",
    "mixed",
    "pair_key",
    "pair_owner",
    "token_key",
    "value_key",
]

_WORD, _FOUND_BY = (1 << 64) - 1, (1 << 48) - 1
_MULTIPLY, _FINISH = 0x9E3779B97F4A7C15, 0xD6E8FEB86659FD93
_IS_OWNER, _IS_VALUE, _IS_LABEL = 1, 2, 3
_GROUP, _FIELD, _PAIR, _FINE_PAIR = 0x10, 0x20, 0x30, 0x31
_REMEMBERED = 1 << 16  # keys of values and of pairs of them, which come again and again


def mixed(a: int, b: int) -> int:
    """The key of two, in this order."""
    key = ((a ^ (b * _MULTIPLY + (a << 6) + (a >> 2))) & _WORD) * _FINISH & _WORD
    key = (key ^ key >> 32) * _MULTIPLY & _WORD
    return key ^ key >> 29


def found_by(key: int) -> int:
    """The part of a key by which a feature is found."""
    return key & _FOUND_BY


def token_key(token: bytes, group: int) -> int:
    """The key of a word, or of a nominal value, of a group."""
    key = group * _FINISH + len(token) * _MULTIPLY & _WORD
    for start in range(0, len(token) // 8 * 8 + 1, 8):
        key = (key ^ int.from_bytes(token[start : start + 8], "little")) * _MULTIPLY & _WORD
        key ^= key >> 32
    key = key * _FINISH & _WORD
    return key ^ key >> 29


def _field(field: int, layout: int) -> int:
    return (field << 8 | _FIELD) + layout


@lru_cache(_REMEMBERED)
def value_key(field: int, layout: int, part: int) -> int:
    """The key of a bin of a continuous attribute; of a code, whose part is the bits of its value."""
    return mixed(mixed(_IS_VALUE, _field(field, layout)), part)


@lru_cache(_REMEMBERED)
def pair_key(a: int, b: int) -> int:
    """The key of the values of two attributes."""
    return mixed(a, b)


def label_key(number: int) -> int:
    """The key of the label before."""
    return mixed(_IS_LABEL, number)


def _owner(key: int) -> int:
    return found_by(mixed(_IS_OWNER, key))


@cache
def group_owner(group: int) -> int:
    """The owner of a group's features, as it is found."""
    return _owner(group << 8 | _GROUP)


@cache
def field_owner(field: int, layout: int) -> int:
    """The owner of one layout of a continuous attribute, as it is found."""
    return _owner(_field(field, layout))


@cache
def pair_owner(a: int, b: int) -> int:
    """The owner of the pairs of two attributes, as it is found."""
    return _owner(mixed(_PAIR, a + 1 << 32 | b + 1))


@cache
def fine_pair_owner(a: int, b: int) -> int:
    """The owner of the pairs of two attributes in bins for pairs, as it is found."""
    return _owner(mixed(_FINE_PAIR, a + 1 << 32 | b + 1))


LABEL_OWNER = _owner(_IS_LABEL)
"""The owner of the labels before, as it is found."""
