"""Words and values that one knows beforehand to meet in the unkeyed hash of the first journals.

h = 0x9E37.. seed'       h <- fold((h ^ w) 0x9E37..) for each word w of eight bytes, the last one with zeros
"""

from __future__ import annotations

import numpy as np

MULTIPLY, FINISH = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xD6E8FEB86659FD93)
LETTERS = np.frombuffer(b"0123456789abcdefghijklmnopqrstuvwxyz", dtype=np.uint8)


def unkeyed(words, length, group=0):
    """The hashes of tokens of `length` bytes, uint64[n, words], whose last word ends with zeros."""
    with np.errstate(over="ignore"):
        mixed = np.full(len(words), np.uint64(group) * FINISH + np.uint64(length) * MULTIPLY)
        for word in words.T:
            mixed = (mixed ^ word) * MULTIPLY
            mixed ^= mixed >> np.uint64(32)
        mixed *= FINISH
        return mixed ^ mixed >> np.uint64(29)


def begins_alike(hashes):
    """Whether slots of a vocabulary begin in the same 128th of it: those of all such are one run."""
    return hashes & np.uint64(0xFFFFFFFF) < np.uint64(1 << 25)


def words_in_one_chain(count, meets=begins_alike):
    """So many words of seven letters, for whose hashes in group 0 `meets` is true. About a second."""
    rng = np.random.default_rng(5)
    found = []
    while sum(map(len, found)) < count:
        letters = np.zeros((1 << 20, 8), dtype=np.uint8)
        letters[:, :7] = rng.choice(LETTERS, size=(1 << 20, 7))
        found.append(letters[meets(unkeyed(letters.view("<u8"), 7))])
    unique = np.unique(np.concatenate(found).view("<u8"))[:count]
    return [word.tobytes()[:7].decode() for word in unique]


def values_of_one_hash(count, group=0):
    """So many strings of 16 characters that have one and the same hash, all 64 bits of it."""
    rng = np.random.default_rng(6)
    found = []
    while sum(map(len, found)) < count:
        first = rng.choice(LETTERS, size=(1 << 18, 8)).view("<u8")[:, 0]
        with np.errstate(over="ignore"):
            mixed = (first ^ (np.uint64(group) * FINISH + np.uint64(16) * MULTIPLY)) * MULTIPLY
        second = mixed ^ mixed >> np.uint64(32) ^ np.uint64(0x0123456789ABCDEF)
        pairs = np.stack([first, second], axis=1)
        found.append(pairs[(pairs.view(np.uint8).reshape(-1, 16) < 0x80).all(axis=1)])
    unique = np.unique(np.concatenate(found), axis=0)[:count]
    return [value.tobytes().decode() for value in unique]


def longest_run(slots):
    """The longest run of slots in use, beyond which no search goes on. Slots lie on a ring."""
    used = slots != 0
    free = np.flatnonzero(~used)
    return int(np.diff(np.append(free, free[0] + used.size)).max()) - 1
