"""Cut texts into tokens: lower-case words, or overlapping characters in scripts without spaces.

A text is brought into NFC (`encode_text`). One pass over its UTF-8 then lower-cases, cuts and hashes: ASCII
eight bytes at a time by arithmetic, other text by decoding and the table of `character_table.py`. The rules:

* A word is a run of letters, digits, other numbers and underscores, with the marks after them. As in UAX 29,
  these are Extend, spacing marks and the joiners U+200C and U+200D. All else separates, also an apostrophe.
* A run of Han characters, Hiragana and Katakana becomes its overlapping pairs, as in Lucene's
  CJKBigramFilter; a single one is a token. A run of letters of Thai, Lao, Khmer and Myanmar becomes its
  overlapping triples, each letter with its marks; one or two are a token.
* Lower case is the simple mapping of each character: U+0130 becomes i, and a final sigma a sigma.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from itertools import filterfalse
from typing import Any

import numpy as np

from streamnb.features.character_table import (
    HAN_OR_KANA,
    MARK,
    POINT,
    SOUTHEAST_ASIAN,
    WORD,
    character_table,
    normalized,
)
from streamnb.features.keyed_hash import begun, hash_after, process_secret
from streamnb.kernels.array_types import Hashes
from streamnb.kernels.intrinsics import load8, store8, trailing_zeros
from streamnb.kernels.jit import inlined, kernel
from streamnb.values.type_aliases import Codes, Flags

_SPACELESS = HAN_OR_KANA | SOUTHEAST_ASIAN
_MULTIPLY = np.uint64(0x9E3779B97F4A7C15)
_FINISH = np.uint64(0xD6E8FEB86659FD93)
_FOLD = np.uint64(32)
_TAIL = np.uint64(29)
_ONE = np.uint64(1)
_EACH = np.uint64(0x0101010101010101)
_HIGH = np.uint64(0x8080808080808080)
_GATHER = np.uint64(0x0102040810204080)  # times the lowest bits of eight bytes: gathered in the highest byte
SPARE = bytes(8)
"""Padding after the last text, so that eight bytes can be read from any of its bytes on."""


def encode_text(text: str) -> bytes:
    """Return the UTF-8 of a text in NFC, for `tokenize`. Raises UnicodeEncodeError for a lone surrogate."""
    return (text if text.isascii() else normalized(text)).encode()


def encode_texts(texts: Sequence[str]) -> list[bytes]:
    """Return `encode_text` of each text, without calling Python for each unless one must be normalized."""
    unicode_texts = " ".join(filterfalse(str.isascii, texts))
    is_normalized = unicodedata.is_normalized("NFC", unicode_texts)
    return list(map(str.encode if is_normalized else encode_text, texts))


@inlined
def _first_bytes(count: int) -> Any:
    # A mask of the lowest `count` bytes of a word, 0 to 7.
    return (_ONE << np.uint64(8 * count)) - _ONE


@inlined
def _mix(mixed: Any, word: Any) -> Any:
    mixed = (mixed ^ word) * _MULTIPLY
    return mixed ^ (mixed >> _FOLD)


@inlined
def _finished(mixed: Any) -> Any:
    mixed *= _FINISH
    return mixed ^ (mixed >> _TAIL)


@inlined
def hash_bytes(buffer: Any, start: int, stop: int, seed: int) -> Any:
    """Return a 64-bit hash of ``buffer[start:stop]``: words of eight bytes, each mixed by multiply and fold.

    It names features in states, so it has no secret and must never change. The buffer has 8 spare bytes.
    """
    mixed = np.uint64(seed) * _FINISH + np.uint64(stop - start) * _MULTIPLY
    i = start
    while i + 8 <= stop:
        mixed = _mix(mixed, load8(buffer, i))
        i += 8
    return _finished(_mix(mixed, load8(buffer, i) & _first_bytes(stop - i)))


@inlined
def _note(out: Any, begin: int, end: int, state: Any, ends: Any, places: Any, tokens: int) -> int:
    ends[tokens] = end
    places[tokens] = hash_after(state, out, begin, end)
    return tokens + 1


@inlined
def _copy(source: Any, start: int, stop: int, out: Any, end: int) -> int:
    """Copy ``source[start:stop]`` to `out` at `end`, and return the new end. Both have 8 spare bytes."""
    for i in range(0, stop - start, 8):
        store8(out, end + i, load8(source, start + i))
    return end + stop - start


@inlined
def _code_point(text: Any, i: int) -> Any:
    """Decode the code point of two bytes or more at byte `i`; return it and the position after it."""
    lead = np.int64(text[i])
    if lead < 0xE0:
        return (lead & 0x1F) << 6 | (np.int64(text[i + 1]) & 0x3F), i + 2
    if lead < 0xF0:
        middle = (np.int64(text[i + 1]) & 0x3F) << 6
        return (lead & 0x0F) << 12 | middle | (np.int64(text[i + 2]) & 0x3F), i + 3
    middle = (np.int64(text[i + 1]) & 0x3F) << 12 | (np.int64(text[i + 2]) & 0x3F) << 6
    return (lead & 0x07) << 18 | middle | (np.int64(text[i + 3]) & 0x3F), i + 4


@inlined
def _character(text: Any, i: int) -> Any:
    """Decode the code point at byte `i`; return it and the position after it."""
    if text[i] < 0x80:
        return np.int64(text[i]), i + 1
    return _code_point(text, i)


@inlined
def _cluster_end(text: Any, i: int, stop: int, table: Any) -> int:
    """Return the end of the character at byte `i` with the marks after it."""
    _, i = _character(text, i)
    while i < stop:
        point, after = _character(text, i)
        if not table[point] & MARK:
            break
        i = after
    return i


@inlined
def _write(out: Any, end: int, point: int) -> int:
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


@inlined
def _at_least(word: Any, byte: int) -> Any:
    """Set the highest bit of each of eight ASCII bytes that is at least `byte`; other bits are arbitrary."""
    return word + np.uint64(0x80 - byte) * _EACH


@inlined
def _lower(word: Any) -> Any:
    return word | (_at_least(word, 0x41) & ~_at_least(word, 0x5B) & _HIGH) >> np.uint64(2)


@inlined
def _word_characters(word: Any) -> Any:
    """Return a bit for each of eight bytes of lower-case ASCII: 1 for word characters, first byte lowest."""
    letter = _at_least(word, 0x61) & ~_at_least(word, 0x7B)
    digit = _at_least(word, 0x30) & ~_at_least(word, 0x3A)
    underscore = _at_least(word, 0x5F) & ~_at_least(word, 0x60)
    return (((letter | digit | underscore) & _HIGH) >> np.uint64(7)) * _GATHER >> np.uint64(56)


@inlined
def _cut_ascii(text: Any, first: int, stop: int, state: Any, filled: Any, end: int, tokens: int) -> Any:
    """Cut ``text[first:stop]`` as far as it is ASCII: eight bytes at a time, 64 to a round.

    The bits of a round mark word characters; at each change a token begins or ends. Returns the position
    where it stopped (before an unfinished token, or `stop`), the end of `out`, and the number of tokens.
    """
    lowered, out, token_ends, places, _ = filled
    start, inside, carried, block = first, False, np.uint64(0), first
    while block < stop:
        bits = np.uint64(0)
        for step in range((min(stop - block, 64) + 7) // 8):
            at = block + 8 * step
            word = load8(text, at)
            if at + 8 > stop:
                word &= _first_bytes(stop - at)
            if word & _HIGH:
                return start if inside else block, end, tokens
            word = _lower(word)
            store8(lowered, at, word)
            bits |= _word_characters(word) << np.uint64(8 * step)
        changes = bits ^ (bits << _ONE | carried)
        carried = bits >> np.uint64(63)
        while changes:
            place = block + trailing_zeros(changes)
            changes &= changes - _ONE
            if inside:
                begin, end = end, _copy(lowered, start, place, out, end)
                tokens = _note(out, begin, end, state, token_ends, places, tokens)
            start, inside = place, not inside
        block += 64
    if inside:
        begin, end = end, _copy(lowered, start, stop, out, end)
        tokens = _note(out, begin, end, state, token_ends, places, tokens)
    return stop, end, tokens


@inlined
def _begins(text: Any, i: int, stop: int, kind: int, table: Any) -> bool:
    """Return True if a character of this kind begins at byte `i`, before `stop`."""
    if i >= stop:
        return False
    point, _ = _character(text, i)
    return bool(table[point] & kind)


@inlined
def _follow(n: int, text: Any, i: int, stop: int, kind: int, table: Any) -> bool:
    """Return True if n characters of this kind, with their marks, follow from byte `i` on."""
    while n and _begins(text, i, stop, kind, table):
        i, n = _cluster_end(text, i, stop, table), n - 1
    return n == 0


@inlined
def _width(kind: int) -> int:
    """Return the number of characters of a token in a run of this kind."""
    return 2 if kind == HAN_OR_KANA else 3


@inlined
def _cut_run(
    text: Any, first: int, stop: int, state: Any, table: Any, filled: Any, end: int, tokens: int
) -> Any:
    """Cut the run of characters of one kind without spaces from `first` on, see the module.

    Returns the position after the run, the end of `out`, and the number of tokens.
    """
    _, out, token_ends, places, _ = filled
    point, _ = _character(text, first)
    kind = table[point] & _SPACELESS
    width = _width(kind)
    before, previous, last, i, n = first, first, first, first, 0
    while _begins(text, i, stop, kind, table):
        before, previous, last = previous, last, i
        i, n = _cluster_end(text, i, stop, table), n + 1
        if n >= width:
            begin, end = end, _copy(text, previous if width == 2 else before, i, out, end)
            tokens = _note(out, begin, end, state, token_ends, places, tokens)
    if n < width:
        begin, end = end, _copy(text, first, i, out, end)
        tokens = _note(out, begin, end, state, token_ends, places, tokens)
    return i, end, tokens


@kernel
def tokenize(
    text: Any, item_ends: Any, item_whole: Any, item_group: Any, secret: Any, table: Any, filled: Any
) -> Any:
    """Fill the tokens' bytes, ends and hashes, and the item offsets; return the number of tokens.

    `text` has eight spare bytes after the last item. `filled` begins with scratch as long as the text, for
    the lower-cased text; `most_tokens` gives the size of its other arrays.
    """
    _, out, token_ends, places, item_tokens = filled
    i = 0
    end = 0
    tokens = 0
    for item in range(item_ends.size):
        stop = item_ends[item]
        state = begun(secret, item_group[item])
        if item_whole[item]:
            begin, end = end, _copy(text, i, stop, out, end)
            tokens = _note(out, begin, end, state, token_ends, places, tokens)
            i = stop
        while i < stop:
            i, end, tokens = _cut_ascii(text, i, stop, state, filled, end, tokens)
            begin, limit = end, i + 64  # as far as this, character by character, and to the end of the token
            while i < stop and (i < limit or end > begin):
                point, following = _character(text, i)
                entry = table[point]
                if entry & WORD or (entry & MARK and end > begin):
                    end, i = _write(out, end, entry & POINT), following
                    continue
                if end > begin:
                    tokens = _note(out, begin, end, state, token_ends, places, tokens)
                if entry & _SPACELESS:
                    i, end, tokens = _cut_run(text, i, stop, state, table, filled, end, tokens)
                else:
                    i = following
                begin = end
            if end > begin:
                tokens = _note(out, begin, end, state, token_ends, places, tokens)
        item_tokens[item + 1] = tokens
    return tokens


@kernel
def mark_words(text: Any, begin: int, stop: int, n: int, table: Any, words: Any) -> None:
    """Fill the number of the token of the first n bytes of an item, -1 between tokens; see `tokenize`.

    A character of a run without spaces belongs to the token that it begins, or else to the last token.
    """
    word, inside, i = np.int64(-1), 0, begin
    while i < begin + n:
        point, end = _character(text, i)
        kind = table[point] & (WORD | _SPACELESS)
        if kind & _SPACELESS:
            end = _cluster_end(text, i, stop, table)
            word += kind != inside or _follow(_width(kind) - 1, text, end, stop, kind, table)
        elif table[point] & MARK:
            kind = inside & WORD
        else:
            word += kind > 0 and kind != inside
        for byte in range(i - begin, min(end - begin, n)):
            words[byte] = word if kind else -1
        i, inside = end, kind


@kernel
def hash_each(buffer: Any, ends: Any, item_tokens: Any, item_seed: Any, hashes: Any) -> None:
    """Fill `hashes`, the names of features; see `TokenBuffer`."""
    begin = np.int64(0)
    for item in range(item_seed.size):
        for token in range(item_tokens[item], item_tokens[item + 1]):
            hashes[token] = hash_bytes(buffer, begin, ends[token], item_seed[item])  # type: ignore[arg-type]
            begin = ends[token]


def most_tokens(size: int, items: int) -> tuple[int, int]:
    """Return the maximum number of bytes and of tokens of `items` texts that have `size` bytes in total.

    Tokens hold each byte at most three times. Lower-casing lengthens UTF-8 by at most a half: two bytes
    become three (U+023A, U+023E).
    """
    return 3 * size + 16, (size + items) // 2 + items + 1


most_tokens_within = inlined(most_tokens)
"""`most_tokens` for kernels."""


class TokenBuffer:
    """The tokens of a list of items: each item is cut into words, or is one token if it is `whole`.

    Args:
        items: UTF-8, from `encode_text` for items to be cut.
        whole: shape (m,), which items are one token.
        group: shape (m,), seeds both hashes, so that groups of attributes do not share chains.
        secret: secret of the vocabulary for look-ups; by default of this process.

    Attributes:
        bytes: uint8, all tokens concatenated.
        ends: int64[t], end of each token in `bytes`.
        places: uint64[t], hashes by which a vocabulary with the same secret finds the tokens.
        item_tokens: int64[m + 1], the tokens of item i are ``item_tokens[i]`` to ``item_tokens[i + 1]``.
        text: uint8, all items concatenated, and eight spare bytes.
        item_ends: int64[m], end of each item in `text`.
        whole: the argument.
    """

    __slots__ = ("_group", "bytes", "ends", "item_ends", "item_tokens", "places", "text", "whole")

    def __init__(self, items: list[bytes], whole: Flags, group: Codes, secret: Hashes | None = None) -> None:
        text = np.frombuffer(b"".join([*items, SPARE]), dtype=np.uint8)
        item_ends = np.cumsum(np.fromiter(map(len, items), dtype=np.int64, count=len(items)), dtype=np.int64)
        size, most = most_tokens(text.size, len(items))
        self.bytes = np.empty(size, dtype=np.uint8)
        self.ends = np.empty(most, dtype=np.int64)
        self._group, self.text, self.item_ends, self.whole = group, text, item_ends, whole
        self.places = np.empty(most, dtype=np.uint64)
        self.item_tokens = np.zeros(len(items) + 1, dtype=np.int64)
        secret, lowered = process_secret() if secret is None else secret, np.empty(text.size, dtype=np.uint8)
        filled = lowered, self.bytes, self.ends, self.places, self.item_tokens
        count = tokenize(text, item_ends, whole, group, secret, character_table(), filled)
        self.ends, self.places = self.ends[:count], self.places[:count]

    @property
    def hashes(self) -> Hashes:
        """Names of the features, shape (t,), seeded by the item's group; computed on each access."""
        hashes = np.empty(self.ends.size, dtype=np.uint64)
        hash_each(self.bytes, self.ends, self.item_tokens, self._group, hashes)
        return hashes

    def words(self) -> list[bytes]:
        """Return the tokens as bytes."""
        buffer = self.bytes[: self.ends[-1] if self.ends.size else 0].tobytes()
        ends = self.ends.tolist()
        return [buffer[start:end] for start, end in zip([0, *ends], ends, strict=False)]


def words(text: str) -> list[str]:
    r"""Return the tokens of one text as strings.

    >>> words("Free entry: WIN £1000, don't wait!")
    ['free', 'entry', 'win', '1000', 'don', 't', 'wait']
    """
    tokens = TokenBuffer([encode_text(text)], np.zeros(1, dtype=np.bool_), np.zeros(1, dtype=np.int32))
    return [word.decode() for word in tokens.words()]
