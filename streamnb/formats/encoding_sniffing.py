"""The encoding of a text, sniffed in its first bytes: a byte order mark, NUL bytes, UTF-8, or else cp1252."""

from __future__ import annotations

import codecs
import re
from contextlib import suppress

UTF8 = "utf-8-sig"
"""UTF-8, without a byte order mark."""

_MARKS = {
    codecs.BOM_UTF32_LE: "utf-32",  # it begins as the mark of UTF-16 does
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
    codecs.BOM_UTF8: UTF8,
}
_UNDECODED = re.compile("[\udc80-\udcff]+")
_OTHER = re.compile("[\x80-\U0010ffff]")
_LETTERS = bytes(range(0xC0, 0xFE))
_SIGNS = bytes.fromhex("808485919293949596 97a0a3a7a9abaeb0b2b5bbbdbf")  # quotes, dashes, currencies
_WESTERN = frozenset(chr(0xDC00 + byte) for byte in _LETTERS + _SIGNS)
"""Letters and signs of cp1252, as lone surrogates."""
_MAGIC = 16  # first bytes, in which binary formats have control characters
_CONTROL = re.compile(rb"[\x00-\x08]")
_LONGEST = 2  # bytes of a run in a Western text, nearly always
_MOST = 0.8  # share of the bytes that are so
_FEW = 0.1  # share of NUL bytes in the other half, in UTF-16


def sniff_encoding(start: bytes) -> tuple[str, bool]:
    """Return the codec of a text by its first bytes, and whether it is a guess, for a message.

    A text with a byte order mark has its encoding. Otherwise NUL bytes in every second place make UTF-16.
    Bytes that are not UTF-8 make cp1252 if UTF-8 explains fewer characters than they are, and if they look
    like letters and signs of Western texts; else the text is UTF-8, and such lines are faulty.
    """
    for mark, encoding in _MARKS.items():
        if start.startswith(mark):
            return encoding, False
    if encoding := _utf16(start):
        return encoding, True
    if _CONTROL.search(start[:_MAGIC]):
        return UTF8, False
    with suppress(UnicodeDecodeError):
        codecs.getincrementaldecoder("utf-8")().decode(start)
        return UTF8, False
    text = codecs.getincrementaldecoder("utf-8")("surrogateescape").decode(start)
    runs = _UNDECODED.findall(text)
    n_undecoded = sum(map(len, runs))
    if not runs or n_undecoded < len(_OTHER.findall(text)) - n_undecoded:
        return UTF8, False
    western = (run for run in runs if len(run) <= _LONGEST and _WESTERN.issuperset(run))
    return ("cp1252", True) if sum(map(len, western)) >= _MOST * n_undecoded else (UTF8, False)


def _utf16(start: bytes) -> str:
    half = len(start) // 2
    if start.count(0) < half / 2:  # fast, and nearly always so
        return ""
    n_even, n_odd = start[::2].count(0), start[1::2].count(0)
    for encoding, n, n_other in (("utf-16-le", n_odd, n_even), ("utf-16-be", n_even, n_odd)):
        if half and n >= half / 2 and n_other <= _FEW * half:
            return encoding
    return ""
