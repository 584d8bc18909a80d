"""The tokens of a text with their places, by regular expressions.

`tokenizer.py` cuts texts for learning and prediction. This module does the same without a kernel: for views,
which mark tokens in a text, and for verification, which must not share the kernel's faults.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator

import numpy as np

from streamnb.features.character_table import (
    HAN_OR_KANA,
    MARK,
    POINT,
    SOUTHEAST_ASIAN,
    WORD,
    character_table,
)

_ASCII_WORD = re.compile(r"\w+", re.ASCII)
_RUN = re.compile("w[wm]*|(?:hm*)+|(?:sm*)+")
_CLUSTER = re.compile("[hs]m*")


def plain_words(text: str) -> list[str]:
    """Return the tokens of a text in NFC (`normalized`).

    >>> plain_words("Free entry: WIN")
    ['free', 'entry', 'win']
    """
    return [token for _, _, token in token_spans(text)]


def token_spans(text: str) -> Iterator[tuple[int, int, str]]:
    """Yield the start, the end and the token for each token of a text in NFC, in their order.

    Tokens of scripts without spaces overlap.
    """
    if text.isascii():
        yield from ((found.start(), found.end(), found[0].lower()) for found in _ASCII_WORD.finditer(text))
        return
    entries = character_table()[np.fromiter(map(ord, text), dtype=np.int64, count=len(text))].tolist()
    lower = "".join(chr(entry & POINT) for entry in entries)
    kinds = "".join(map(_kind, entries))
    for run in _RUN.finditer(kinds):
        for start, end in _tokens_of(run[0]):
            first, stop = run.start() + start, run.start() + end
            yield first, stop, lower[first:stop]


@functools.cache
def _kind(entry: int) -> str:
    letters = {WORD: "w", MARK: "m", HAN_OR_KANA: "h", SOUTHEAST_ASIAN: "s"}
    return letters.get(entry & ~POINT, " ")


def _tokens_of(run: str) -> list[tuple[int, int]]:
    width = 2 if run[0] == "h" else 3
    clusters = [found.span() for found in _CLUSTER.finditer(run)]
    if len(clusters) <= width:  # a word, or few characters
        return [(0, len(run))]
    return [(clusters[i][0], clusters[i + width - 1][1]) for i in range(len(clusters) - width + 1)]
