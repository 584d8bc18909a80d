"""Texts are cut by the rules of docs/texts.md, in every script, the same under every Python."""

from __future__ import annotations

import sys
import unicodedata
from contextlib import nullcontext

import numpy as np
import pytest
import regex
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from streamnb.errors import SnapshotError
from streamnb.features.character_table import PATH, UNASSIGNED, character_table, normalized
from streamnb.features.plain_words import plain_words, token_spans
from streamnb.features.tokenizer import (
    TokenBuffer,
    encode_text,
    encode_texts,
    hash_bytes,
    mark_words,
    words,
)
from streamnb.features.vocabulary import Vocabulary
from streamnb.values.attribute_kinds import STOPPED, UNKNOWN
from tests.house import character_table as generator
from tests.oracles.words_oracle import is_assigned
from tests.oracles.words_oracle import words as reference

ANY_TEXT = st.text(st.characters(exclude_categories=["Cs"]))
ODD = st.text(
    st.sampled_from(
        "\u03a3\u03c3\u03c2\u0130\u0131iI\u0307\u023a\u023e\u2c65aA1_ '.\u00ad\u02b0\u0345\u1e9e\U00010400\U0001d7d8\U000e0041"
        "\u200d\u200c\x00\x7f\x80\uffff\u0301\u0323\u1ea1\ufe0f\u20e3\u0378"
        "\u0915\u093f\u094d\u093c\u0e01\u0e34\u0e33\u0e40\u0e51\u0eb3\u1780\u17d2\u1031\u1000\u4e2d\u6587\u3005\u3042\u30ab\u3099\u30fc"
        "\uff76\uff9e\u1100\u1161\uac00\uf900\U00020000\U000e0100"
    )
)


@settings(max_examples=1000)
@given(ANY_TEXT)
def test_any_text(text):
    assert words(text) == reference(text) == plain_words(normalized(text))


@settings(max_examples=1000)
@given(ODD)
def test_texts_of_characters_with_rules_of_their_own(text):
    assert words(text) == reference(text) == plain_words(normalized(text))


@settings(max_examples=500)
@given(ODD)
def test_canonically_equivalent_texts_have_the_same_words(text):
    assume(all(map(is_assigned, text)))
    assert (
        words(unicodedata.normalize("NFD", text)) == words(unicodedata.normalize("NFC", text)) == words(text)
    )


@settings(max_examples=300)
@given(st.text(st.characters(max_codepoint=0x24F, exclude_characters="\u0130")))
def test_words_of_ascii_and_composed_latin_are_those_of_a_regular_expression(text):
    assert words(text) == regex.findall(r"[\p{L}\p{N}_]+", text.lower())


@settings(max_examples=300)
@given(ODD)
def test_places_of_tokens_hold_them(text):
    text = normalized(text)
    for start, end, token in token_spans(text):
        assert reference(text[start:end]) == [token]


@settings(max_examples=500)
@given(ODD, st.integers(0, 80))
def test_bytes_belong_to_the_token_that_begins_at_their_character(text, limit):
    text = normalized(text)
    encoded = text.encode()
    n = min(limit, len(encoded))
    marked = np.full(n, -7)
    mark_words(
        np.frombuffer(b"\n" + encoded + bytes(8), dtype=np.uint8),
        1,
        1 + len(encoded),
        n,
        character_table(),
        marked,
    )
    owners = np.full(len(text), -1)
    for number, (start, end, _) in enumerate(token_spans(text)):
        owners[start:end] = number
    assert marked.tolist() == [owner for owner, c in zip(owners, text, strict=True) for _ in c.encode()][:n]


def test_the_stored_table_is_that_of_unicode_14():
    if unicodedata.unidata_version == generator.EDITION:
        assert (generator.table() == character_table()).all()
        assert PATH.read_bytes() == generator.compressed(generator.table())
    kinds = character_table()
    for point in np.flatnonzero(kinds & UNASSIGNED).tolist()[:: 97 if sys.version_info < (3, 12) else 1]:
        assert words(f"a{chr(point)}b") == ["a", "b"]


def test_characters_of_later_editions_do_not_change_how_others_are_normalized():
    """U+0897 is a mark of Unicode 16: it neither moves behind another mark nor is composed across."""
    assert normalized("a\u0897\u0301e\u0301") == "a\u0897\u0301\u00e9"


@pytest.mark.parametrize(
    "text",
    [
        "ΟΔΥΣΣΕΥΣ ΣΣ Σ ΑΣ. ΑΣ'Α Α\u00adΣ",  # a final sigma is a sigma
        "İstanbul DİYARBAKIR",  # dotted capital I is i, without a dot
        "一" * 100 + "a" + "ก" * 63 + "ิ" * 70,  # runs and clusters across the rounds of 64 bytes
        "x" * 62 + "e\u0301" + "\u0301" * 90,
        "\u023a\u023e" * 50,  # lower case is longer in UTF-8
        "\U00010400\U0001f600x\U0001d400",  # astral planes
        "",
        " \t\n",
        "a" * 100_000,
        "x1_y-z",
    ],
)
def test_known_traps(text):
    assert words(text) == reference(text)


@given(st.lists(ODD, max_size=4))
def test_texts_at_once_are_each_by_itself(texts):
    assert encode_texts(texts) == [encode_text(text) for text in texts]


def test_every_code_point():
    for plane in range(0, sys.maxunicode + 1, 0x1000):
        text = " ".join(f"a{chr(c)}B" for c in range(plane, plane + 0x1000) if not 0xD800 <= c <= 0xDFFF)
        assert words(text) == reference(text), hex(plane)


@given(
    st.lists(st.one_of(ODD, ANY_TEXT, st.text("aZ_ 9", max_size=150)), max_size=6),
    st.lists(st.booleans(), min_size=6),
)
def test_texts_of_a_batch_do_not_touch(texts, whole):
    """Wherever one ends, the next begins in the same eight bytes; what is whole is not cut."""
    whole = np.array(whole[: len(texts)], dtype=np.bool_)
    items = [
        text.encode() if is_whole else encode_text(text) for text, is_whole in zip(texts, whole, strict=True)
    ]
    tokens = TokenBuffer(items, whole, np.arange(len(texts), dtype=np.int32))
    found = [word.decode() for word in tokens.words()]
    expected = [[text] if is_whole else reference(text) for text, is_whole in zip(texts, whole, strict=True)]
    assert found == [word for of_text in expected for word in of_text]
    assert tokens.item_tokens.tolist() == np.cumsum([0, *map(len, expected)]).tolist()
    starts = [0, *tokens.ends.tolist()]
    owners = np.repeat(np.arange(len(texts)), [len(of_text) for of_text in expected])
    for i, owner in enumerate(owners.tolist()):
        assert tokens.hashes[i] == hash_bytes(tokens.bytes, starts[i], starts[i + 1], owner)


def test_a_lone_surrogate_is_malformed():
    with pytest.raises(UnicodeEncodeError):
        words("\ud800")


def look_up(vocabulary, items, group, *, adds, whole):
    n = len(items)
    tokens = TokenBuffer(items, np.full(n, whole), np.array(group, dtype=np.int32))
    return vocabulary.rows(tokens, np.array(group, dtype=np.int32), np.full(n, adds)), tokens


def batches_of(keys):
    return st.lists(st.lists(st.tuples(st.integers(0, 3), keys), max_size=30), max_size=8)


def is_text(key):
    try:
        return key.decode() is not None
    except UnicodeDecodeError:
        return False


@given(st.one_of(batches_of(st.text(max_size=20).map(str.encode)), batches_of(st.binary(max_size=20))))
@example([[(0, b"w" * 16 + b"\xc3"), (0, b"\xa9" + b"w" * 16)]])  # a text together, and none by themselves
def test_a_vocabulary_is_a_dictionary(batches):
    """Exact, insertion ordered, groups apart; growth and restart lose nothing. A state holds texts alone."""
    vocabulary, expected = Vocabulary(), {}
    for batch in batches:
        items, groups = [key for _, key in batch], [group for group, _ in batch]
        rows, _ = look_up(vocabulary, items, groups, adds=False, whole=True)
        assert rows.tolist() == [expected.get(pair, UNKNOWN) for pair in batch]
        rows, _ = look_up(vocabulary, items, groups, adds=True, whole=True)
        assert rows.tolist() == [expected.setdefault(pair, len(expected)) for pair in batch]
        holds_texts = all(is_text(key) for _, key in expected)
        with nullcontext() if holds_texts else pytest.raises(SnapshotError, match="a key "):
            vocabulary = Vocabulary.from_state(
                {
                    "cells": vocabulary.cells[: 16 * vocabulary.size],
                    "arena": vocabulary.arena[: vocabulary.used[0]],
                    "groups": vocabulary.groups[: vocabulary.size],
                }
            )
    assert vocabulary.keys() == [key for _, key in expected]
    assert vocabulary.groups[: vocabulary.size].tolist() == [group for group, _ in expected]


def test_many_tokens_of_one_text_grow_the_vocabulary_as_needed():
    text = " ".join(f"w{i % 5000}" for i in range(20_000))
    vocabulary = Vocabulary()
    rows, tokens = look_up(vocabulary, [encode_text(text)], [0], adds=True, whole=False)
    assert rows.tolist() == [i % 5000 for i in range(20_000)]
    assert tokens.item_tokens.tolist() == [0, 20_000]
    vocabulary.stop(rows[:10])
    again, _ = look_up(vocabulary, [encode_text(text)], [0], adds=True, whole=False)
    assert again[:12].tolist() == [STOPPED] * 10 + [10, 11]
    assert vocabulary.size == 5000


def test_bytes_decide_where_hashes_are_equal():
    """The hash of a key only says where to look: keys of one hash keep rows of their own."""
    pairs = [(g, key) for g in (0, 1) for key in (b"", b"a", b"b", b"ab", b"abc", b"\0", b"\0\0")]
    vocabulary = Vocabulary()
    groups = np.array([group for group, _ in pairs], dtype=np.int32)
    tokens = TokenBuffer([key for _, key in pairs], np.ones(len(pairs), dtype=np.bool_), groups)
    tokens.places[:] = 0x0123456789ABCDEF
    for adds in (True, False):
        rows = vocabulary.rows(tokens, groups, np.full(len(pairs), adds))
        assert rows.tolist() == list(range(len(pairs)))


def test_long_keys_grow_the_arena():
    items = [bytes([65 + i]) * (100 * i) for i in range(26)]
    vocabulary = Vocabulary()
    rows, _ = look_up(vocabulary, items, [0] * 26, adds=True, whole=True)
    assert rows.tolist() == list(range(26))
    assert vocabulary.keys() == items
