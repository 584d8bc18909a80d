"""The kind and the lower case of each code point, in one edition of Unicode for all processes.

A learner and its standby may run different versions of Python, whose `str.lower` and `re` differ for newer
characters. The words of a text must not differ, so the table is a file (written by
`tests/house/character_table.py`), and NFC is restricted to characters of the same edition.
"""

from __future__ import annotations

import functools
import lzma
import re
import unicodedata
from itertools import pairwise
from pathlib import Path

import numpy as np

from streamnb.values.type_aliases import Codes

PATH = Path(__file__).with_name("characters-14.xz")
POINT = 0x1FFFFF
"""Bits of an entry that hold a code point, the lower case."""
WORD = 1 << 24
"""Flag of letters of scripts with spaces, of digits, other numbers and the underscore."""
MARK = 1 << 25
"""Flag of combining marks and of the joiners U+200C and U+200D, which continue a word."""
HAN_OR_KANA = 1 << 26
"""Flag of Han characters, Hiragana and Katakana."""
SOUTHEAST_ASIAN = 1 << 27
"""Flag of letters of Thai, Lao, Khmer and Myanmar."""
UNASSIGNED = 1 << 28
"""Flag of code points without a character in this edition; they separate words."""


@functools.cache
def character_table() -> Codes:
    """Return int32[0x110000]: code point -> its lower case, with the flag of its kind; 0 for separators."""
    differences = np.frombuffer(lzma.decompress(PATH.read_bytes()), dtype="<i4")
    return np.cumsum(differences, dtype=np.int32)


def normalized(text: str) -> str:
    """Return a text in NFC, as far as its characters are in the edition of the table.

    Later editions may compose or reorder characters that this edition lacks. They stay as they are, and
    nothing is composed or reordered across them.
    """
    if unicodedata.is_normalized("NFC", text):
        return text
    points = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), dtype="<u4")
    if not (character_table()[points] & UNASSIGNED).any():
        return unicodedata.normalize("NFC", text)
    parts = _unassigned().split(text)
    return "".join(part if i % 2 else unicodedata.normalize("NFC", part) for i, part in enumerate(parts))


@functools.cache
def _unassigned() -> re.Pattern[str]:
    is_unassigned = np.concatenate([[False], character_table() & UNASSIGNED > 0, [False]])
    edges = np.flatnonzero(is_unassigned[1:] != is_unassigned[:-1]).tolist()
    ranges = [f"\\U{first:08x}-\\U{end - 1:08x}" for first, end in pairwise(edges)][::2]
    return re.compile(f"([{''.join(ranges)}]+)")
