"""A large vocabulary is the same dictionary as a small one: what is fetched ahead decides nothing."""

from __future__ import annotations

import numpy as np
import pytest

from streamnb.model.tokenizer import Tokens
from streamnb.model.vocabulary import STOPPED, UNKNOWN, Vocabulary

MANY = 50_000  # slots that no cache is taken to hold


def look_up(vocabulary, pairs, *, adds):
    """Rows of (group, key), each an item of its own."""
    groups = np.array([group for group, _ in pairs], dtype=np.int32)
    tokens = Tokens([key for _, key in pairs], np.ones(len(pairs), dtype=np.bool_), groups)
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
            "arena": vocabulary.arena[: vocabulary.ends[vocabulary.size]],
            "ends": vocabulary.ends[: vocabulary.size + 1],
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
    pairs = [(g, key) for g in (0, 1, 255, 256) for key in (b"new", b"newer", b"newest", b"\0new")]
    groups = np.array([group for group, _ in pairs], dtype=np.int32)
    tokens = Tokens([key for _, key in pairs], np.ones(len(pairs), dtype=np.bool_), groups)
    tokens.hashes[:] = 0x0123456789ABCDEF
    for adds in (True, False):
        rows = copy.rows(tokens, groups, np.full(len(pairs), adds))
        assert rows.tolist() == list(range(len(expected), len(expected) + len(pairs)))
