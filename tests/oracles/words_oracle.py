"""The rules of docs/texts.md by properties of the `regex` package, which has its own tables of Unicode."""

import unicodedata

import regex

from streamnb.features.character_table import UNASSIGNED, character_table

_MARK = r"\p{M}\u200c\u200d\u0e33\u0eb3\uff9e\uff9f"
_LETTER = r"\p{L}\p{N}_"
_HAN = (
    r"[[\p{Han}\p{Hiragana}\p{Katakana}\u3006\u3031-\u3035\u303c\u30fc\uff70]&&[\p{L}\p{Nl}]--[\uff9e\uff9f]]"
)
_SOUTHEAST = r"[[\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}]&&\p{L}--[\u0e33\u0eb3]]"
_WORD = rf"[[{_LETTER}]--{_HAN}--{_SOUTHEAST}--[{_MARK}]]"
_TOKENS = regex.compile(
    rf"(?V1)(?:{_WORD}[{_WORD}{_MARK}]*)|(?:{_HAN}[{_MARK}]*)+|(?:{_SOUTHEAST}[{_MARK}]*)+"
)
_CLUSTER = regex.compile(rf"(?V1)[{_HAN}{_SOUTHEAST}][{_MARK}]*")


def lower(character):
    """Return the simple lower case; the final sigma is a sigma."""
    return {"\u0130": "i", "\u03c2": "\u03c3"}.get(character, character.lower())


def words(text):
    """Return the tokens of a text. Characters that Unicode 14 does not have separate them."""
    if text.isascii():
        return regex.findall(r"[a-z0-9_]+", text.lower())
    text = "".join(character if is_assigned(character) else " " for character in text)
    found = []
    for run in _TOKENS.findall(unicodedata.normalize("NFC", text)):
        clusters = _CLUSTER.findall(run)
        if len("".join(clusters)) < len(run):
            found.append("".join(map(lower, run)))
        else:
            width = 2 if regex.match(_HAN, run, regex.V1) else 3
            found += [run] if len(clusters) < width else ["".join(each) for each in windows(clusters, width)]
    return found


def windows(items, width):
    return zip(*(items[i:] for i in range(width)), strict=False)


def is_assigned(character):
    return not character_table()[ord(character)] & UNASSIGNED
