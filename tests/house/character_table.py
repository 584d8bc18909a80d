"""Write `streamnb/features/characters-14.xz`, the table by which texts are cut into words.

The table must be the same for all learners of a stream, whatever Python runs them, so it is stored rather than
derived at start. It holds Unicode 14.0.0, the edition of Python 3.11, the oldest that streamnb supports: the
normalization of a text whose characters are all in this edition is the same in all later ones (UAX 15,
stability policy). Run ``python3.11 -m tests.house.character_table``.
"""

from __future__ import annotations

import lzma
import sys
import unicodedata

import numpy as np

from streamnb.features.character_table import HAN_OR_KANA, MARK, PATH, SOUTHEAST_ASIAN, UNASSIGNED, WORD

EDITION = "14.0.0"
JOINERS = 0x200C, 0x200D
SPACING_MARKS = 0x0E33, 0x0EB3, 0xFF9E, 0xFF9F  # letters by category, marks by UAX 29
SPACELESS = {
    HAN_OR_KANA: [
        (0x3005, 0x3007), (0x3021, 0x3029), (0x3031, 0x3035), (0x3038, 0x303C), (0x3041, 0x3096), (0x309D, 0x309F),
        (0x30A1, 0x30FA), (0x30FC, 0x30FF), (0x31F0, 0x31FF), (0x3400, 0x4DBF), (0x4E00, 0x9FFF), (0xF900, 0xFAFF),
        (0xFF66, 0xFF9D), (0x16FE3, 0x16FE3), (0x1AFF0, 0x1AFFF), (0x1B000, 0x1B16F), (0x20000, 0x3FFFD),
    ],
    SOUTHEAST_ASIAN: [
        (0x0E00, 0x0EFF), (0x1000, 0x109F), (0x1780, 0x17FF), (0xA9E0, 0xA9FF), (0xAA60, 0xAA7F),
    ],
}  # fmt: skip


def entry(point: int) -> int:
    """Return the simple lower case of a code point, and the flag of its kind."""
    if 0xD800 <= point <= 0xDFFF:
        return 0
    character = chr(point)
    category = unicodedata.category(character)
    if category == "Cn":
        return UNASSIGNED
    if category[0] == "M" or point in JOINERS or point in SPACING_MARKS:
        return point | MARK
    if not (character.isalnum() or character == "_"):
        return 0
    if category[0] == "L" or category == "Nl":
        for kind, ranges in SPACELESS.items():
            if any(first <= point <= last for first, last in ranges):
                return point | kind
    return ord(simple_lower(character)) | WORD


def simple_lower(character: str) -> str:
    """Return the lower case as one code point: without a dot for U+0130, and one small sigma."""
    lower = character.lower()[0]
    return "\u03c3" if lower == "\u03c2" else lower


def table() -> np.ndarray:
    """Return int32[0x110000], an entry for each code point. Raises RuntimeError under another Unicode."""
    if unicodedata.unidata_version != EDITION:
        raise RuntimeError(f"this Python has Unicode {unicodedata.unidata_version}: run it with Python 3.11")
    return np.array([entry(point) for point in range(sys.maxunicode + 1)], dtype="<i4")


def compressed(entries: np.ndarray) -> bytes:
    """Return the file: the entries as differences from the one before, by xz."""
    return lzma.compress(np.diff(entries, prepend=np.int32(0)).astype("<i4").tobytes(), preset=9)


if __name__ == "__main__":
    PATH.write_bytes(compressed(table()))
