r"""Tokens of a text: exactly ``re.findall(r"\w+", text.lower())``, for every text that UTF-8 can hold.

One pass over the bytes decodes UTF-8, lower-cases by a table of code points, cuts at characters that are no
word characters and hashes each token. Two capitals do not fit a table of one code point to one: U+0130
lower-cases to two code points, and U+03A3 (sigma) by its context (Unicode 3.13, Final_Sigma). Texts that
hold one of them are lower-cased by `str.lower` first, which leaves nothing for the table to do.
"""

from __future__ import annotations

import functools
import re
import sys
from typing import Any

import numpy as np
import numpy.typing as npt

from streamnb.model.jit import kernel

__all__ = ["Tokens", "encode_text", "words"]

_WORD = 1 << 24  # flag beside the 21 bits of a code point
_BY_CONTEXT = "\u0130\u03a3"
_MULTIPLY = np.uint64(0x9E3779B97F4A7C15)
_FINISH = np.uint64(0xD6E8FEB86659FD93)
_BYTE = np.uint64(8)
_FULL = np.uint64(64)
_FOLD = np.uint64(32)
_TAIL = np.uint64(29)


@functools.cache
def character_table() -> npt.NDArray[np.int32]:
    r"""Code point -> its lower case, with a flag where that is a word character (``\w``). Shape (0x110000,).

    Derived from the running Python, so that it follows the same edition of Unicode as `str.lower` and `re`.
    """
    points = np.arange(sys.maxunicode + 1, dtype=np.uint32)
    irregular = [ord(character) for character in _BY_CONTEXT]
    regular = points[((points < 0xD800) | (points > 0xDFFF)) & ~np.isin(points, irregular)]
    text = regular.astype("<u4").tobytes().decode("utf-32-le")
    lower = np.arange(sys.maxunicode + 1, dtype=np.int32)
    lower[regular] = np.frombuffer(text.lower().encode("utf-32-le"), dtype="<u4")
    word = np.zeros(sys.maxunicode + 1, dtype=np.int32)
    for run in re.finditer(r"\w+", text):
        word[regular[run.start() : run.end()]] = _WORD
    table: npt.NDArray[np.int32] = lower | word[lower]
    table[irregular] = 0  # never met: `encode_text` has lower-cased them away
    return table


def encode_text(text: str) -> bytes:
    """The UTF-8 of a text as `tokenize` wants it. Raises UnicodeEncodeError for a lone surrogate."""
    if any(character in text for character in _BY_CONTEXT):
        text = text.lower()
    return text.encode()


@kernel
def hash_bytes(buffer: Any, start: int, stop: int, seed: int) -> Any:
    """A 64-bit hash of ``buffer[start:stop]``: words of eight bytes, each mixed in by multiply and fold."""
    mixed = np.uint64(seed) * _FINISH + np.uint64(stop - start) * _MULTIPLY
    word = np.uint64(0)
    shift = np.uint64(0)
    for i in range(start, stop):
        word |= np.uint64(buffer[i]) << shift
        shift += _BYTE
        if shift == _FULL:
            mixed = (mixed ^ word) * _MULTIPLY
            mixed ^= mixed >> _FOLD
            word = np.uint64(0)
            shift = np.uint64(0)
    mixed = (mixed ^ word) * _MULTIPLY
    mixed ^= mixed >> _FOLD
    mixed *= _FINISH
    return mixed ^ (mixed >> _TAIL)


@kernel
def _code_point(text: Any, i: int) -> Any:
    """The code point whose UTF-8 begins at byte `i` (two bytes or more), and where the next one begins."""
    lead = np.int64(text[i])
    if lead < 0xE0:
        return (lead & 0x1F) << 6 | (np.int64(text[i + 1]) & 0x3F), i + 2
    if lead < 0xF0:
        middle = (np.int64(text[i + 1]) & 0x3F) << 6
        return (lead & 0x0F) << 12 | middle | (np.int64(text[i + 2]) & 0x3F), i + 3
    middle = (np.int64(text[i + 1]) & 0x3F) << 12 | (np.int64(text[i + 2]) & 0x3F) << 6
    return (lead & 0x07) << 18 | middle | (np.int64(text[i + 3]) & 0x3F), i + 4


@kernel
def _write(out: Any, end: int, point: int) -> int:
    """Append the UTF-8 of a code point at `end`; the new end."""
    if point < 0x80:
        out[end] = point
        return end + 1
    if point < 0x800:
        out[end] = 0xC0 | point >> 6
        out[end + 1] = 0x80 | point & 0x3F
        return end + 2
    if point < 0x10000:
        out[end] = 0xE0 | point >> 12
        out[end + 1] = 0x80 | point >> 6 & 0x3F
        out[end + 2] = 0x80 | point & 0x3F
        return end + 3
    out[end] = 0xF0 | point >> 18
    out[end + 1] = 0x80 | point >> 12 & 0x3F
    out[end + 2] = 0x80 | point >> 6 & 0x3F
    out[end + 3] = 0x80 | point & 0x3F
    return end + 4


@kernel
def _tokenize(
    text: Any,
    item_ends: Any,
    item_whole: Any,
    item_seed: Any,
    table: Any,
    out: Any,
    token_ends: Any,
    hashes: Any,
    item_tokens: Any,
) -> Any:
    """Fill `out`, `token_ends`, `hashes` and `item_tokens`; how many tokens there are."""
    i = 0
    end = 0
    begin = 0
    tokens = 0
    for item in range(item_ends.size):
        stop = item_ends[item]
        seed = item_seed[item]
        if item_whole[item]:
            for j in range(i, stop):
                out[end] = text[j]
                end += 1
            i = stop
            token_ends[tokens] = end
            hashes[tokens] = hash_bytes(out, begin, end, seed)
            tokens += 1
            begin = end
        while i < stop:
            byte = np.int64(text[i])
            if byte < 0x80:
                entry = table[byte]
                i += 1
                if entry & _WORD:
                    out[end] = entry & 0x7F
                    end += 1
                    continue
            else:
                point, i = _code_point(text, i)
                entry = table[point]
                if entry & _WORD:
                    end = _write(out, end, entry & 0x1FFFFF)
                    continue
            if end > begin:
                token_ends[tokens] = end
                hashes[tokens] = hash_bytes(out, begin, end, seed)
                tokens += 1
                begin = end
        if end > begin:
            token_ends[tokens] = end
            hashes[tokens] = hash_bytes(out, begin, end, seed)
            tokens += 1
            begin = end
        item_tokens[item + 1] = tokens
    return tokens


class Tokens:
    """The tokens of a list of items: each is cut into words, or taken `whole` as one token.

    Args:
        items: UTF-8, from `encode_text` where it is to be cut.
        whole: shape (m,), which items are one token as they stand.
        group: shape (m,), seeds the hash, so that groups of attributes do not meet in one chain.

    Attributes:
        bytes: uint8, all tokens one after the other.
        ends: int64[t], where each token ends in `bytes`.
        hashes: uint64[t], seeded by the item's group.
        item_tokens: int64[m + 1], the tokens of item i are ``item_tokens[i]`` to ``item_tokens[i + 1]``.
    """

    __slots__ = ("bytes", "ends", "hashes", "item_tokens")

    def __init__(
        self,
        items: list[bytes],
        whole: npt.NDArray[np.bool_],
        group: npt.NDArray[np.int32],
    ) -> None:
        text = np.frombuffer(b"".join(items), dtype=np.uint8)
        item_ends = np.cumsum(np.fromiter(map(len, items), dtype=np.int64, count=len(items)), dtype=np.int64)
        most = (text.size + len(items)) // 2 + len(items) + 1
        # Lower-casing lengthens UTF-8 by at most a half: two bytes become three (U+023A, U+023E).
        self.bytes = np.empty(text.size + text.size // 2 + 4, dtype=np.uint8)
        self.ends = np.empty(most, dtype=np.int64)
        self.hashes = np.empty(most, dtype=np.uint64)
        self.item_tokens = np.zeros(len(items) + 1, dtype=np.int64)
        count = _tokenize(
            text,
            item_ends,
            whole,
            group,
            character_table(),
            self.bytes,
            self.ends,
            self.hashes,
            self.item_tokens,
        )
        self.ends = self.ends[:count]
        self.hashes = self.hashes[:count]

    def words(self) -> list[bytes]:
        """The tokens themselves, for people."""
        buffer = self.bytes.tobytes()
        ends = self.ends.tolist()
        return [buffer[start:end] for start, end in zip([0, *ends], ends, strict=False)]


def words(text: str) -> list[str]:
    r"""The tokens of one text, as strings.

    >>> words("Free entry: WIN £1000, don't wait!")
    ['free', 'entry', 'win', '1000', 'don', 't', 'wait']
    """
    tokens = Tokens([encode_text(text)], np.zeros(1, dtype=np.bool_), np.zeros(1, dtype=np.int32))
    return [word.decode() for word in tokens.words()]
