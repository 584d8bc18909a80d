"""A large vocabulary is the same dictionary as a small one: what is fetched ahead decides nothing."""

from __future__ import annotations

from copy import deepcopy
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamnb.errors import SnapshotError
from streamnb.features import vocabulary as module
from streamnb.features.tokenizer import TokenBuffer
from streamnb.features.vocabulary import Vocabulary
from streamnb.values.attribute_kinds import STOPPED, UNKNOWN

MANY = 50_000  # slots that no cache is taken to hold


def look_up(vocabulary, pairs, *, adds):
    """Rows of (group, key), each an item of its own."""
    groups = np.array([group for group, _ in pairs], dtype=np.int32)
    tokens = TokenBuffer([key for _, key in pairs], np.ones(len(pairs), dtype=np.bool_), groups)
    return vocabulary.rows(tokens, groups, np.full(len(pairs), adds)).tolist()


@pytest.fixture(scope="module")
def filled():
    """50,000 keys, some of them twice within a few tokens, in more groups than a slot has room for."""
    rng = np.random.default_rng(5)
    pairs = [(int(i % 400), b"%d" % (i // 7)) for i in rng.integers(0, 60_000, size=120_000)]
    expected = {}
    for pair in pairs:
        expected.setdefault(pair, len(expected))
    vocabulary = Vocabulary()
    rows = []
    for start in range(0, len(pairs), 9_000):
        rows += look_up(vocabulary, pairs[start : start + 9_000], adds=True)
    assert len(expected) > MANY
    assert rows == [expected[pair] for pair in pairs]
    return vocabulary, expected


def test_a_large_vocabulary_is_a_dictionary(filled):
    vocabulary, expected = filled
    rng = np.random.default_rng(6)
    asked = [(int(rng.integers(0, 400)), b"%d" % rng.integers(0, 9_000)) for _ in range(20_000)]
    found = look_up(vocabulary, asked, adds=False)
    assert found == [expected.get(pair, UNKNOWN) for pair in asked]
    assert 100 < found.count(UNKNOWN) < 19_900
    assert vocabulary.keys() == [key for _, key in expected]


def test_a_batch_shorter_than_what_is_fetched_ahead(filled):
    vocabulary, expected = filled
    pairs = list(expected)
    for length in (1, 2, 15, 16, 17, 31, 33, 47, 48, 49, 50):
        assert look_up(vocabulary, pairs[-length:], adds=False) == list(
            range(len(expected) - length, len(expected))
        )


@pytest.mark.parametrize("group", [0, 254, 255, 256, 399])
def test_stopped_rows_of_any_group_are_found_no_more_and_not_added_again(filled, group):
    vocabulary, expected = filled
    vocabulary = Vocabulary.from_state(
        {
            "cells": vocabulary.cells[: 16 * vocabulary.size],
            "arena": vocabulary.arena[: vocabulary.used[0]],
            "groups": vocabulary.groups[: vocabulary.size],
        }
    )
    mine = [pair for pair in expected if pair[0] == group]
    stopped = mine[::2]
    vocabulary.stop(np.array([expected[pair] for pair in stopped]))
    others = [((group + 1) % 400, key) for _, key in mine]
    for adds in (True, False):
        assert look_up(vocabulary, mine, adds=adds) == [
            STOPPED if pair in stopped else expected[pair] for pair in mine
        ]
        assert look_up(vocabulary, others, adds=False) == [expected.get(pair, UNKNOWN) for pair in others]
    assert vocabulary.size == len(expected)
    assert vocabulary.stopped() == set(stopped)


def test_bytes_decide_where_hashes_are_equal_in_a_large_vocabulary(filled):
    _, expected = filled
    copy = Vocabulary()
    look_up(copy, list(expected), adds=True)
    long = (
        b"of sixteen bytes",
        b"of sixteen bites",
        b"of seventeen byte",
        b"in the last bytes alone: a",
        b"in the last bytes alone: b",
    )
    keys = (b"new", b"newer", b"newest", b"\0new", *long)
    pairs = [(g, key) for g in (0, 1, 255, 256) for key in keys]
    groups = np.array([group for group, _ in pairs], dtype=np.int32)
    tokens = TokenBuffer([key for _, key in pairs], np.ones(len(pairs), dtype=np.bool_), groups)
    tokens.places[:] = 0x0123456789ABCDEF
    for adds in (True, False):
        rows = copy.rows(tokens, groups, np.full(len(pairs), adds))
        assert rows.tolist() == list(range(len(expected), len(expected) + len(pairs)))


# Keys that share beginnings and ends, with zeros in them, as long as a cell holds, a little longer, and long.
PIECES = st.sampled_from(
    [b"", b"\0", b"a", b"ab", b"\0\0", b"sevenby", b"eightbyt", b"fifteen bytes !", b"x" * 40]
)
KEYS = st.lists(PIECES, max_size=5).map(b"".join)


@given(st.lists(st.lists(st.tuples(st.integers(0, 2), KEYS), max_size=25), max_size=5), st.randoms())
def test_keys_of_any_length_are_told_apart(batches, random):
    vocabulary, expected = Vocabulary(), {}
    for pairs in batches:
        if pairs:
            assert look_up(vocabulary, pairs, adds=False) == [expected.get(pair, UNKNOWN) for pair in pairs]
            assert look_up(vocabulary, pairs, adds=True) == [
                expected.setdefault(pair, len(expected)) for pair in pairs
            ]
    pairs = list(expected)
    assert vocabulary.keys() == [key for _, key in pairs]
    kept = sorted(random.sample(range(len(pairs)), random.randint(0, len(pairs))))
    selected = deepcopy(vocabulary)
    selected.keep(np.isin(np.arange(len(pairs)), kept))
    selected.compact(len(pairs))
    assert selected.keys() == [vocabulary.key(row) for row in kept] == [pairs[row][1] for row in kept]
    if pairs:
        assert look_up(selected, pairs, adds=False) == [
            kept.index(row) if row in kept else UNKNOWN for row in range(len(pairs))
        ]
        again = look_up(selected, pairs, adds=True)
        assert sorted(again) == list(range(len(pairs)))
        assert [selected.key(row) for row in again] == [key for _, key in pairs]
    assert selected.used[0] == sum(len(key) for key in selected.keys() if len(key) > 15)  # noqa: SIM118  no dictionary


@pytest.mark.parametrize(
    ("few", "swept", "for_each"),
    [(0, 5, 0), (0, 1024, 8), pytest.param(1 << 14, 1024, 8, marks=pytest.mark.thorough)],
)
def test_it_is_the_same_dictionary_while_rows_are_moved(few, swept, for_each, monkeypatch):
    """Between any two slices, as it grows, and after some of it was forgotten, whatever came meanwhile."""
    for name, number in (("_FEW", few), ("_SWEPT", swept), ("_SWEPT_FOR_EACH", for_each)):
        monkeypatch.setattr(module, name, number)
    for seed in range(40):
        rng, vocabulary, expected = Random(seed), Vocabulary(), {}
        ends = (b"", b"", b"x" * 22)
        pool = [
            (rng.choice([0, 1, 254, 255, 300]), b"%d" % rng.randrange(3000) + rng.choice(ends))
            for _ in range(3000)
        ]
        for _ in range(30):
            pairs, adds = rng.choices(pool, k=rng.randrange(1, 400)), rng.random() < 0.7
            rows = look_up(vocabulary, pairs, adds=adds)
            for pair in pairs if adds else ():
                expected.setdefault(pair)
            found = [(int(vocabulary.groups[row]), vocabulary.key(row)) for row in rows if row != UNKNOWN]
            assert found == [pair for pair in pairs if pair in expected]
            live = vocabulary.live_rows()
            assert [(int(vocabulary.groups[row]), vocabulary.key(row)) for row in live] == list(expected)
            assert vocabulary.live == len(expected)
            assert vocabulary.live_bytes == sum(len(key) for _, key in expected if len(key) > 15)
            if rng.random() < 0.5:
                vocabulary.compact(rng.choice([1, 30, 200, 1000]))
            if rng.random() < 0.3:
                stays = {pair: rng.random() < 0.8 for pair in expected}
                vocabulary.keep(np.array([*stays.values()], dtype=np.bool_))
                expected = {pair: None for pair in expected if stays[pair]}


def test_a_row_that_was_moved_is_not_found_where_it_was():
    """Though the bytes where its long key was are those of the key asked for, and its hash is the same."""
    vocabulary, keys = Vocabulary(), [b"s", b"t", b"a" * 16, b"b" * 20, b"c" * 20, b"d" * 20]
    look_up(vocabulary, [(0, key) for key in keys], adds=True)
    vocabulary.keep(np.array([False, False, False, True, True, True]))
    vocabulary.compact(5)
    left = vocabulary.arena[16:36].tobytes()
    assert left == b"b" * 4 + b"c" * 16
    groups, one = np.zeros(1, dtype=np.int32), np.ones(1, dtype=np.bool_)
    tokens = TokenBuffer([left], one, groups)
    tokens.places[:] = TokenBuffer([keys[3]], one, groups).places
    assert vocabulary.rows(tokens, groups, ~one).tolist() == [UNKNOWN]


@pytest.mark.parametrize("length", range(240, 260))
def test_there_are_eight_bytes_to_spare_behind_the_last_key(length):
    """Keys are read and written eight bytes at a time; at first there are 256 bytes."""
    vocabulary = Vocabulary()
    look_up(vocabulary, [(0, b"x" * length)], adds=True)
    assert vocabulary.used[0] == length
    assert vocabulary.arena.size >= length + 8


def longest_key(cells, **words):
    """Cells whose last key, a long one, begins or ends elsewhere."""
    cell = cells[-16:].view(np.uint64)
    cell[0] = words.get("begin", cell[0])
    cell[1] = np.uint64(words.get("length", 20)) | np.uint64(255 << 56)
    return cells


@pytest.mark.parametrize(
    "spoil",
    [
        lambda cells, arena: (cells[:-16], arena),
        lambda cells, arena: (cells[:-1], arena),
        lambda cells, arena: (np.append(cells, cells[:16]), arena),
        lambda cells, arena: (np.where(cells == 5, np.uint8(16), cells), arena),
        lambda cells, arena: (np.where(cells == 5, np.uint8(254), cells), arena),
        lambda cells, arena: (cells, arena[:-1]),
        lambda cells, arena: (cells, arena[:0]),
        lambda cells, arena: (longest_key(cells, begin=21), arena),
        lambda cells, arena: (longest_key(cells, length=21), arena),
        lambda cells, arena: (longest_key(cells, begin=2**64 - 20), arena),
        lambda cells, arena: (longest_key(cells, begin=2**64 - 2**55, length=2**55), arena),
    ],
)
def test_a_state_whose_keys_are_not_inside_its_arrays_is_refused(spoil):
    """Kernels would read and write beyond them."""
    vocabulary = Vocabulary()
    look_up(vocabulary, [(0, b"short"), (0, b""), (0, b"of sixteen bytes"), (1, b"x" * 20)], adds=True)
    cells, arena = vocabulary.cells[:64].copy(), vocabulary.arena[: vocabulary.used[0]].copy()
    state = {"groups": vocabulary.groups[:4], "cells": cells, "arena": arena}
    assert Vocabulary.from_state(state).keys() == vocabulary.keys()
    cells, arena = spoil(cells, arena)
    with pytest.raises(SnapshotError, match="key"):
        Vocabulary.from_state({**state, "cells": cells, "arena": arena})
