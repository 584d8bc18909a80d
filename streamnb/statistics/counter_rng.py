"""Random numbers that are a function of (seed, number) alone, so that a replay draws what the first run drew.

Number i of a seed is made from word i modulo 4 of block i // 4 of the counter-based generator Philox 4x64-10,
whose key is the seed. It has no state that could be lost or diverge.

Reference: Salmon et al. (2011), "Parallel random numbers: as easy as 1, 2, 3", SC'11. numpy guarantees the
stream of its bit generators (NEP 19), but not the stream of derived distributions: therefore raw words are
converted to floats here.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from streamnb.kernels.array_types import Floats, Hashes
from streamnb.kernels.jit import inlined, kernel

_WORDS = 4  # 64-bit words a block
_SEEDS = 2**128


def check_seed(seed: int) -> None:
    """Raise ValueError unless `seed` is an integer from 0 to 2^128 - 1."""
    if isinstance(seed, bool) or not isinstance(seed, (int, np.integer)) or not 0 <= seed < _SEEDS:
        raise ValueError(f"a seed must be an integer from 0 to 2**128 - 1, got {seed!r}")


def uniforms(seed: int, first: int, n: int) -> Floats:
    """Return numbers `first` to `first` + `n` - 1 of `seed`: float64[n] in [0, 1), multiples of 2^-53.

    The cut into calls changes nothing: ``uniforms(s, a, n)[j] == uniforms(s, a + j, 1)[0]``.

    Raises:
        ValueError: if `seed` is not an integer from 0 to 2^128 - 1, or `first` or `n` is below 0.

    Examples:
        >>> uniforms(seed=1, first=1000, n=2).round(6).tolist()
        [0.40151, 0.868468]
    """
    check_seed(seed)
    if first < 0 or n < 0:
        raise ValueError(f"numbers are counted from 0, got first = {first}, n = {n}")
    block, skipped = divmod(int(first), _WORDS)
    words = np.random.Philox(key=int(seed), counter=block).random_raw(skipped + n)
    return np.ldexp((words[skipped:] >> np.uint64(11)).astype(np.float64), -53)


def pick(shares: Mapping[Any, float], u: float) -> Any:
    """Return the key drawn by a uniform `u` in [0, 1), in proportion to its share."""
    whole, reached, last = math.fsum(shares.values()), 0.0, None
    for key, share in shares.items():
        if share > 0.0:
            last, reached = key, reached + share
            if u * whole < reached:
                break
    return last


@kernel
def choose(log_weights: Any, u: float) -> int:
    """Return the index drawn by a uniform `u` in [0, 1), with probabilities exp(log_weights).

    The cumulative sum is taken in order; what rounding leaves below 1 goes to the last index with weight. An
    index of weight zero is never drawn. Returns -1 if all weights are zero.
    """
    last = -1
    reached = 0.0
    for h in range(log_weights.size):
        weight = math.exp(log_weights[h])
        if weight > 0.0:
            last = h
            reached += weight
            if u < reached:
                break
    return last


_MULTIPLIERS = np.array([0xD2E7470EE14C6C93, 0xCA5A826395121157], dtype=np.uint64)
_STEPS = np.array([0x9E3779B97F4A7C15, 0xBB67AE8584CAA73B], dtype=np.uint64)
_ROUNDS = 10
_LOW = np.uint64(0xFFFFFFFF)
_HALF = np.uint64(32)


@inlined
def _high_product(a: Any, b: Any) -> Any:
    """Return the upper 64 bits of the product of two words."""
    a_low, a_high, b_low, b_high = a & _LOW, a >> _HALF, b & _LOW, b >> _HALF
    middle = a_high * b_low + ((a_low * b_low) >> _HALF)
    other = a_low * b_high + (middle & _LOW)
    return a_high * b_high + (middle >> _HALF) + (other >> _HALF)


@kernel
def fill_block(key: Any, block: Any, words: Any) -> None:
    """Fill words uint64[4] with the numbers from 4 `block` on, by the key of a seed: see `key_of`."""
    a: Any = np.uint64(block) + np.uint64(1)  # numpy counts before it draws
    b = c = d = np.uint64(0)
    one, two = key[0], key[1]
    for _ in range(_ROUNDS):
        high, other = _high_product(_MULTIPLIERS[0], a), _high_product(_MULTIPLIERS[1], c)
        a, b, c, d = other ^ b ^ one, _MULTIPLIERS[1] * c, high ^ d ^ two, _MULTIPLIERS[0] * a
        one += _STEPS[0]
        two += _STEPS[1]
    words[0], words[1], words[2], words[3] = a, b, c, d


def key_of(seed: int) -> Hashes:
    """Return the key of a seed for `fill_block`, uint64[2]."""
    check_seed(seed)
    return np.array([seed & (2**64 - 1), seed >> 64], dtype=np.uint64)
